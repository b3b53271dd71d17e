/* sink.c: what becomes of a walk. The null sink keeps the first refusal alone; mf_argv collects a whole command. */
#include "emit_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

mf_sink mf_sink_null(void)
{
	return (mf_sink){0};
}

bool mf_sink_refuse(mf_sink *s, mf_rule_id rule, const int64_t *values, size_t n)
{
	assert(rule != MF_RULE_NONE && rule < MF_RULE_COUNT && n <= MF_COUNT(s->values));
	if (s->rule == MF_RULE_NONE) {
		s->rule = rule;
		for (size_t i = 0; i < n; i++)
			s->values[i] = values[i];
	}
	return !s->forced;
}

/* Rule texts are ours, but they are data here: only %lld is known, so that no text can read beyond the values. */
void mf_sink_reason(const mf_sink *s, mf_buf *out)
{
	const char *text = mf_rule_get(s->rule)->text;
	size_t value = 0;

	for (const char *at; (at = strstr(text, "%lld")) != NULL; text = at + 4) {
		assert(value < MF_COUNT(s->values));
		mf_buf_add(out, text, (size_t)(at - text));
		mf_buf_printf(out, "%" PRId64, s->values[value++]);
	}
	mf_buf_puts(out, text);
}

/* ---- collecting ------------------------------------------------------------------------------------------------ */

static void collect_arg(mf_sink *s, const char *text)
{
	mf_argv *a = (mf_argv *)s;

	if (a->n == a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 128;
		char **args = realloc(a->args, cap * sizeof(*args));
		if (args)
			a->args = args;
		uint8_t *parts = args ? realloc(a->parts, cap) : NULL;
		if (!parts) {
			a->failed = true;
			return;
		}
		a->parts = parts;
		a->cap = cap;
	}
	char *copy = mf_arena_strdup(a->arena, text);
	if (!copy) {
		a->failed = true;
		return;
	}
	a->parts[a->n] = (uint8_t)s->part;
	a->args[a->n++] = copy;
}

static void collect_env(mf_sink *s, const char *name, const char *value)
{
	mf_argv *a = (mf_argv *)s;

	if (a->n_env == a->cap_env) {
		size_t cap = a->cap_env ? 2 * a->cap_env : 16;
		char **env = realloc(a->env, cap * sizeof(*env));
		if (!env) {
			a->failed = true;
			return;
		}
		a->env = env;
		a->cap_env = cap;
	}
	size_t size = strlen(name) + strlen(value) + 2;
	char *text = mf_arena_alloc(a->arena, size);
	if (!text) {
		a->failed = true;
		return;
	}
	snprintf(text, size, "%s=%s", name, value);
	a->env[a->n_env++] = text;
}

mf_status mf_argv_init(mf_argv *a, bool forced, mf_err *err)
{
	*a = (mf_argv){0};
	a->sink.collect = true;
	a->sink.forced = forced;
	a->sink.arg = collect_arg;
	a->sink.env = collect_env;
	a->arena = mf_arena_new();
	return a->arena ? MF_OK : mf_fail(err, MF_ENOMEM, "out of memory");
}

void mf_argv_dispose(mf_argv *a)
{
	if (!a)
		return;
	free(a->args);
	free(a->parts);
	free(a->env);
	mf_arena_free(a->arena);
	*a = (mf_argv){0};
}

mf_status mf_argv_sha256(const mf_argv *a, char hex[65])
{
	hex[0] = '\0';
	if (a->failed)
		return MF_ENOMEM;
	mf_sha256 *h = mf_sha256_new();
	if (!h)
		return MF_ENOMEM;
	for (size_t i = 0; i < a->n; i++) {
		if (a->parts[i] == MF_PART_PLAN)
			mf_sha256_add(h, a->args[i], strlen(a->args[i]) + 1);
	}
	for (size_t i = 0; i < a->n_env; i++)
		mf_sha256_add(h, a->env[i], strlen(a->env[i]) + 1);
	mf_sha256_finish(h, hex);
	return MF_OK;
}

void mf_arg_int_slow(mf_sink *s, const char *flag, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, value);
	mf_arg2(s, flag, text);
}

/* The shortest decimal form that reads back as the same double. */
void mf_arg_double_slow(mf_sink *s, const char *flag, double value)
{
	char text[40];

	if (value == (double)(int64_t)value) {
		mf_arg_int_slow(s, flag, (int64_t)value);
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	mf_arg2(s, flag, text);
}
