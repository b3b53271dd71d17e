/* builtin.c: inputs by name. The user's file of a name hides the built-in one. */
#include "builtin_internal.h"
#include "plan_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const no_names[] = {NULL};

const char *const *mf_builtin_names(const char *kind)
{
	for (const mf_embedded_kind *k = mf_embedded_kinds; k->kind; k++) {
		if (strcmp(k->kind, kind) == 0)
			return k->names;
	}
	return no_names;
}

/* $XDG_CONFIG_HOME/moefs/KIND/NAME.yaml. False when there is no home. */
static bool user_path(char *out, size_t size, const char *kind, const char *name)
{
	char rest[256];
	int n = snprintf(rest, sizeof(rest), "%s/%s.yaml", kind, name);

	return n > 0 && (size_t)n < sizeof(rest) && mf_user_path(out, size, "XDG_CONFIG_HOME", ".config", rest);
}

/* "model" of "models". */
static int singular(const char *kind)
{
	size_t len = strlen(kind);

	return (int)(len > 1 && kind[len - 1] == 's' ? len - 1 : len);
}

/* What users call a kind whose folder has another name. */
static const char *word_of(const char *kind)
{
	return strcmp(kind, "calibrated") == 0 ? "overlay" : kind;
}

mf_status mf_builtin_open(mf_doc *out, const char *kind, const char *name, mf_err *err)
{
	const char *const *names = mf_builtin_names(kind), *near;
	char path[512], list[300] = "";
	size_t len = 0;

	if (name[0] == '\0' || strchr(name, '/') || name[0] == '.')
		return mf_fail_at(err, MF_EINPUT, NULL, 0, NULL, "\"%.80s\" is no name of a %.*s", name,
			singular(word_of(kind)), word_of(kind));
	if (user_path(path, sizeof(path), kind, name) && access(path, F_OK) == 0)
		return mf_doc_read_file(out, path, err);
	for (const mf_embedded_file *f = mf_embedded_files; f->kind; f++) {
		if (strcmp(f->kind, kind) == 0 && strcmp(f->name, name) == 0) {
			snprintf(path, sizeof(path), "built-in %.*s %s", singular(word_of(kind)), word_of(kind), name);
			return mf_doc_parse_yaml(out, path, f->text, f->len, err);
		}
	}
	near = mf_nearest(name, names);
	for (size_t i = 0; names[i] && len < sizeof(list); i++) {
		int n = snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", names[i]);

		len += n > 0 ? (size_t)n : 0;
	}
	return mf_fail_at(err, MF_EINPUT, NULL, 0, NULL, "no %.*s is named \"%.60s\"%s%s%s; known: %s",
		singular(word_of(kind)), word_of(kind), name, near ? " (nearest: " : "", near ? near : "",
		near ? ")" : "", list);
}

bool mf_is_path(const char *name)
{
	const char *dot = strrchr(name, '.');

	return strchr(name, '/') ||
	       (dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
}

mf_status mf_input_open(mf_doc *out, const char *kind, const char *name_or_path, mf_err *err)
{
	if (mf_is_path(name_or_path))
		return mf_doc_read_file(out, name_or_path, err);
	return mf_builtin_open(out, kind, name_or_path, err);
}

mf_status mf_get_choice(
	const mf_doc *d, const mf_node *map, const char *key, const mf_choice *choices, int *out, mf_err *err)
{
	const mf_node *n = mf_node_get(map, key);
	char list[200] = "";
	size_t len = 0;
	int value;

	if (!n)
		return MF_OK;
	value = n->kind == MF_STRING ? mf_choice_value(choices, n->text) : -1;
	if (value >= 0) {
		*out = value;
		return MF_OK;
	}
	for (const mf_choice *c = choices; c->name && len < sizeof(list); c++) {
		int k = snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", c->name);

		len += k > 0 ? (size_t)k : 0;
	}
	return mf_fail_at(err, MF_EINPUT, d->name, n->line, key, "\"%.60s\" is none of %s", n->text, list);
}

void mf_input_name(const char *doc_name, char *out, size_t size)
{
	const char *base = strrchr(doc_name, '/'), *dot;
	size_t len;

	if (!base)
		base = strrchr(doc_name, ' '); /* "built-in cluster 8xh800" */
	base = base ? base + 1 : doc_name;
	dot = strrchr(base, '.');
	len = dot && mf_is_path(dot) ? (size_t)(dot - base) : strlen(base);
	snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), base);
}
