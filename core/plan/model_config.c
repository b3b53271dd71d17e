/* model_config.c: a model's config.json, for a toolchain that reads one. */
#include "plan_internal.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cJSON *node_json(const mf_node *n)
{
	const mf_node *child;
	cJSON *o;

	switch (n->kind) {
	case MF_BOOL: return cJSON_CreateBool(n->truth);
	case MF_NUMBER: return isfinite(n->number) ? cJSON_CreateNumber(n->number) : cJSON_CreateString(n->text);
	case MF_STRING: return cJSON_CreateString(n->text);
	case MF_LIST:
		o = cJSON_CreateArray();
		for (child = n->first; child; child = child->next)
			cJSON_AddItemToArray(o, node_json(child));
		return o;
	case MF_MAP:
		o = cJSON_CreateObject();
		for (child = n->first; child; child = child->next)
			cJSON_AddItemToObject(o, child->key, node_json(child));
		return o;
	case MF_NULL: break;
	}
	return cJSON_CreateNull();
}

mf_status mf_model_config_json(const mf_model *m, mf_buf *out, mf_err *err)
{
	char path[300];
	cJSON *json;
	char *text;
	mf_doc d;
	mf_status st;

	if (m->path[0]) {
		snprintf(path, sizeof path, "%.280s/config.json", m->path);
		st = mf_doc_read_file(&d, path, err);
	} else {
		st = mf_builtin_open(&d, "models", m->name, err);
	}
	if (st < 0)
		return st;
	json = node_json(d.root);
	cJSON_DeleteItemFromObjectCaseSensitive(json, "aliases"); /* ours, not the model's */
	text = cJSON_Print(json);
	if (text)
		mf_buf_puts(out, text);
	free(text);
	cJSON_Delete(json);
	mf_doc_dispose(&d);
	return text && !out->failed ? MF_OK : mf_fail(err, MF_ENOMEM, "out of memory");
}
