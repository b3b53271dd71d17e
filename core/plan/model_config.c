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

/* A built-in model that was asked for in another format than its file says. */
static void put_quant(cJSON *json, const mf_model *m)
{
	static const int block[] = {128, 128};
	static const char *const methods[] = {[MF_QUANT_FP8_BLOCK] = "fp8",
		[MF_QUANT_FP8] = "modelopt",
		[MF_QUANT_NVFP4] = "modelopt",
		[MF_QUANT_MXFP4] = "mxfp4",
		[MF_QUANT_INT4] = "awq",
		[MF_QUANT_INT8] = "gptq"};
	cJSON *q;

	cJSON_DeleteItemFromObjectCaseSensitive(json, "quantization_config");
	if (m->quant == MF_QUANT_NONE || !(q = cJSON_AddObjectToObject(json, "quantization_config")))
		return;
	cJSON_AddStringToObject(q, "quant_method", methods[m->quant]);
	if (m->quant == MF_QUANT_FP8_BLOCK)
		cJSON_AddItemToObject(q, "weight_block_size", cJSON_CreateIntArray(block, 2));
	else if (m->quant == MF_QUANT_FP8 || m->quant == MF_QUANT_NVFP4)
		cJSON_AddStringToObject(q, "quant_algo", m->quant == MF_QUANT_FP8 ? "FP8" : "NVFP4");
	else if (m->quant == MF_QUANT_INT4 || m->quant == MF_QUANT_INT8)
		cJSON_AddNumberToObject(q, "bits", m->quant == MF_QUANT_INT4 ? 4 : 8);
}

mf_status mf_model_config_json(const mf_model *m, mf_buf *out, mf_err *err)
{
	char path[300];
	mf_model own;
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
	if (!m->path[0] && mf_model_from_doc(&own, &d, NULL) == MF_OK && own.quant != m->quant)
		put_quant(json, m);
	text = cJSON_Print(json);
	if (text)
		mf_buf_puts(out, text);
	free(text);
	cJSON_Delete(json);
	mf_doc_dispose(&d);
	return text && !out->failed ? MF_OK : mf_fail(err, MF_ENOMEM, "out of memory");
}
