/* measured.c: the CSV of measured rows. One pass cuts the text into fields in place, the second types them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"

#define MAX_BYTES (256u << 20)
#define MAX_COUNT 1e12

const mf_choice mf_row_kind_choices[] = {
	{MF_ROW_TRAIN, "train", "training step time or throughput"},
	{MF_ROW_SERVE, "serve", "serving latency or throughput"},
	{MF_ROW_MEMORY, "memory", "memory of a GPU, and runs that died of it"},
	{MF_ROW_KERNEL, "kernel", "one compute operation"},
	{MF_ROW_COMM, "comm", "one collective"},
	{0, NULL, NULL},
};
const mf_choice mf_outcome_choices[] = {
	{MF_OUTCOME_OK, "ok", "it ran"},
	{MF_OUTCOME_OOM, "oom", "it died of memory"},
	{MF_OUTCOME_REFUSED, "refused", "the program declined to start"},
	{0, NULL, NULL},
};

enum column { /* texts, then counts, then the rest */
#define X(name) COL_##name,
	MF_MEASURED_TEXTS(X) COL_FIRST_COUNT,
	COL_LAST_TEXT = COL_FIRST_COUNT - 1,
	MF_MEASURED_COUNTS(X)
#undef X
		COL_kind,
	COL_value,
	COL_outcome,
	COL_COUNT
};
static const char *const column_names[COL_COUNT + 1] = {
#define X(name) #name,
	MF_MEASURED_TEXTS(X) MF_MEASURED_COUNTS(X)
#undef X
		"kind",
	"value",
	"outcome",
	NULL,
};

/* The text being cut. Fields are NUL-terminated in place: a field never grows. */
struct cutter {
	const char *name;
	char *at, *end;
	int line; /* of `at` */
};

enum cut { CUT_FIELD, CUT_LAST, CUT_BAD };

/* Cuts one field; CUT_LAST when it was its record's last. */
static enum cut cut_field(struct cutter *c, char **out, mf_err *err)
{
	char *to = c->at, stop;
	bool quoted = c->at < c->end && *c->at == '"';
	int line = c->line;

	*out = to;
	if (quoted) {
		for (c->at++;; c->at++) {
			if (c->at == c->end) {
				mf_fail_at(err, MF_EINPUT, c->name, line, NULL, "a quoted field is not closed");
				return CUT_BAD;
			}
			if (*c->at == '"' && (c->at + 1 == c->end || c->at[1] != '"'))
				break;
			if (*c->at == '"')
				c->at++;
			c->line += *c->at == '\n';
			*to++ = *c->at;
		}
		c->at++;
	} else {
		while (c->at < c->end && *c->at != ',' && *c->at != '\n' && *c->at != '\r' && *c->at != '"')
			*to++ = *c->at++;
	}
	if (c->at + 1 < c->end && c->at[0] == '\r' && c->at[1] == '\n')
		c->at++;
	stop = c->at < c->end ? *c->at : '\n';
	if (stop != ',' && stop != '\n') {
		mf_fail_at(err, MF_EINPUT, c->name, c->line, NULL,
			stop == '"'    ? "a quote inside a field that does not begin with one"
			: stop == '\r' ? "a carriage return that ends no line"
				       : "text after a closing quote");
		return CUT_BAD;
	}
	if (c->at < c->end)
		c->at++;
	c->line += stop == '\n';
	*to = '\0';
	return stop == ',' ? CUT_FIELD : CUT_LAST;
}

static mf_status read_header(struct cutter *c, int at_column[2 * COL_COUNT], size_t *n, mf_err *err)
{
	bool seen[COL_COUNT] = {false};
	enum cut cut = CUT_FIELD;

	for (*n = 0; cut == CUT_FIELD; ++*n) {
		char *text;
		int id = 0;

		if ((cut = cut_field(c, &text, err)) == CUT_BAD)
			return MF_EINPUT;
		while (id < COL_COUNT && strcmp(column_names[id], text) != 0)
			id++;
		if (id == COL_COUNT) {
			const char *near = mf_nearest(text, column_names);

			return mf_fail_at(err, MF_EINPUT, c->name, 1, NULL, "column %zu, \"%.40s\", is not known%s%s%s",
				*n + 1, text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
		}
		if (seen[id])
			return mf_fail_at(err, MF_EINPUT, c->name, 1, column_names[id], "this column stands twice");
		seen[id] = true;
		at_column[*n] = id;
	}
	for (int id = 0; id < COL_COUNT; id++)
		if (!seen[id])
			return mf_fail_at(err, MF_EINPUT, c->name, 1, column_names[id],
				"this column is missing; leave its fields empty where nothing is known");
	return MF_OK;
}

static mf_status read_number(const struct cutter *c, int line, int id, const char *text, double *out, mf_err *err)
{
	bool count = id >= COL_FIRST_COUNT && id < COL_kind;
	char *end;
	double v;

	*out = NAN;
	if (!*text)
		return MF_OK;
	v = strtod(text, &end);
	if (end == text || *end || !isfinite(v) || text[0] == ' ' || strpbrk(text, "xXpP"))
		return mf_fail_at(err, MF_EINPUT, c->name, line, column_names[id],
			"\"%.40s\" is no number; leave the field empty when it is unknown", text);
	if (count && (v < 0 || v > MAX_COUNT || v != floor(v) || (v == 0 && id != COL_isl && id != COL_osl)))
		return mf_fail_at(err, MF_EINPUT, c->name, line, column_names[id],
			"\"%.40s\" is no whole number of 1 or more; leave the field empty when it is unknown", text);
	*out = v;
	return MF_OK;
}

static mf_status read_word(
	const struct cutter *c, int line, int id, const mf_choice *table, const char *text, int *out, mf_err *err)
{
	mf_buf names = MF_BUF_INIT;

	*out = mf_choice_value(table, text);
	if (*out >= 0)
		return MF_OK;
	for (; table->name; table++)
		mf_buf_printf(&names, "%s%s", names.len ? ", " : "", table->name);
	mf_fail_at(err, MF_EINPUT, c->name, line, column_names[id], "\"%.40s\": expected one of %s", text,
		mf_buf_text(&names));
	mf_buf_dispose(&names);
	return MF_EINPUT;
}

static mf_status type_row(const struct cutter *c, int line, char *const text[COL_COUNT], mf_measured *row, mf_err *err)
{
	int kind, outcome;
	mf_status st;

	row->line = line;
#define X(name) row->name = text[COL_##name];
	MF_MEASURED_TEXTS(X)
#undef X
#define X(name)                                                                                                        \
	if ((st = read_number(c, line, COL_##name, text[COL_##name], &row->name, err)) < 0)                            \
		return st;
	MF_MEASURED_COUNTS(X)
	X(value)
#undef X
	if ((st = read_word(c, line, COL_kind, mf_row_kind_choices, text[COL_kind], &kind, err)) < 0 ||
		(st = read_word(c, line, COL_outcome, mf_outcome_choices, text[COL_outcome], &outcome, err)) < 0)
		return st;
	row->kind = (mf_row_kind)kind;
	row->outcome = (mf_outcome)outcome;
	if (!*row->id)
		return mf_fail_at(err, MF_EINPUT, c->name, line, "id", "empty; a row needs a name");
	return MF_OK;
}

static mf_status read_row(struct cutter *c, const int at_column[], size_t n, mf_measured *row, mf_err *err)
{
	char *text[COL_COUNT];
	enum cut cut = CUT_FIELD;
	int line = c->line;
	size_t i;

	for (i = 0; cut == CUT_FIELD && i < n; i++)
		if ((cut = cut_field(c, &text[at_column[i]], err)) == CUT_BAD)
			return MF_EINPUT;
	if (i < n)
		return mf_fail_at(
			err, MF_EINPUT, c->name, line, NULL, "%zu fields, where the first line has %zu", i, n);
	if (cut == CUT_FIELD)
		return mf_fail_at(err, MF_EINPUT, c->name, line, NULL,
			"more fields than the %zu of the first line; quote a field that holds a comma", n);
	return type_row(c, line, text, row, err);
}

mf_status mf_measured_parse(mf_measured_table *out, const char *name, const char *text, size_t len, mf_err *err)
{
	int at_column[2 * COL_COUNT];
	size_t n_columns = 0, room = 1;
	struct cutter c = {.line = 1};
	mf_status st = MF_OK;

	memset(out, 0, sizeof *out);
	if (len > MAX_BYTES)
		return mf_fail_at(err, MF_EINPUT, name, 0, NULL, "larger than %u MiB", MAX_BYTES >> 20);
	if (memchr(text, '\0', len))
		return mf_fail_at(err, MF_EINPUT, name, 0, NULL, "holds a zero byte: not a CSV");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	out->arena = mf_arena_new();
	out->name = out->arena ? mf_arena_strdup(out->arena, name) : NULL;
	c.name = out->name;
	c.at = out->arena ? mf_arena_alloc(out->arena, len + 1) : NULL;
	for (size_t i = 0; i < len; i++)
		room += text[i] == '\n';
	out->rows = calloc(room, sizeof *out->rows);
	if (!c.at || !out->name || !out->rows) {
		mf_measured_dispose(out);
		return mf_fail(err, MF_ENOMEM, "out of memory");
	}
	memcpy(c.at, text, len);
	c.end = c.at + len;
	st = len ? read_header(&c, at_column, &n_columns, err)
		 : mf_fail_at(err, MF_EINPUT, name, 1, NULL, "empty; the first line names the columns");
	while (st == MF_OK && c.at < c.end) {
		if (*c.at == '\n' || *c.at == '\r') { /* an empty line */
			c.line += *c.at == '\n';
			c.at++;
			continue;
		}
		st = read_row(&c, at_column, n_columns, &out->rows[out->n], err);
		out->n += st == MF_OK;
	}
	if (st < 0)
		mf_measured_dispose(out);
	return st;
}

mf_status mf_measured_read(mf_measured_table *out, const char *path, mf_err *err)
{
	mf_buf text = MF_BUF_INIT;
	mf_status st;

	memset(out, 0, sizeof *out);
	st = mf_file_read(&text, path, MAX_BYTES, err);
	if (st == MF_OK)
		st = mf_measured_parse(out, path, mf_buf_text(&text), text.len, err);
	mf_buf_dispose(&text);
	return st;
}

void mf_measured_dispose(mf_measured_table *t)
{
	free(t->rows);
	mf_arena_free(t->arena);
	memset(t, 0, sizeof *t);
}

bool mf_measured_note(const mf_measured *row, const char *key, char *out, size_t size)
{
	size_t len = strlen(key), n = 0;

	out[0] = '\0';
	for (const char *at = row->note; (at = strstr(at, key)) != NULL; at += len ? len : 1) {
		const char *v = at + len;

		if (*v != '=' || (at != row->note && at[-1] != ' ' && at[-1] != ';' && at[-1] != ','))
			continue;
		for (v++; *v == ' '; v++)
			;
		while (v[n] && v[n] != ';' && !(v[n] == ',' && v[n + 1] == ' '))
			n++;
		while (n && v[n - 1] == ' ')
			n--;
		if (n >= size)
			return false;
		memcpy(out, v, n);
		out[n] = '\0';
		return true;
	}
	return false;
}

bool mf_measured_says(const mf_measured *row, const char *phrase)
{
	return strstr(row->note, phrase) != NULL;
}
