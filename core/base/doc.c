/*
 * doc.c: JSON (cJSON) and YAML (libyaml) into one tree of nodes with line numbers. cJSON does not keep positions, so the
 * lines of a JSON document are found by walking its tokens once more, in step with the parsed tree.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <yaml.h>

#include "base.h"

static mf_node *new_node(mf_arena *a, mf_node_kind kind, int line, const char *key, const char *text)
{
	mf_node *n = mf_arena_alloc(a, sizeof *n);

	if (!n)
		return NULL;
	n->kind = kind;
	n->line = line;
	n->number = NAN;
	n->key = key ? mf_arena_strdup(a, key) : NULL;
	n->text = text && *text ? mf_arena_strdup(a, text) : "";
	if ((key && !n->key) || !n->text)
		return NULL;
	return n;
}

static void append(mf_node *parent, mf_node **tail, mf_node *child)
{
	if (*tail)
		(*tail)->next = child;
	else
		parent->first = child;
	*tail = child;
	parent->n_children++;
}

static const mf_node *find(const mf_node *map, const char *key)
{
	const mf_node *c;

	for (c = map->first; c; c = c->next)
		if (strcmp(c->key, key) == 0)
			return c;
	return NULL;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

struct json_reader {
	mf_arena *arena;
	const char *at, *end;
	int line;
	const char *name;
	mf_err *err;
};

/* Moves to the next token: past white space, ',' and ':'. */
static void skip_gap(struct json_reader *r)
{
	for (; r->at < r->end && (isspace((unsigned char)*r->at) || *r->at == ',' || *r->at == ':'); r->at++)
		if (*r->at == '\n')
			r->line++;
}

static void skip_scalar(struct json_reader *r)
{
	skip_gap(r);
	if (r->at < r->end && *r->at == '"') {
		for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
			if (*r->at == '\\')
				r->at++;
			else if (*r->at == '\n')
				r->line++;
		}
		r->at++;
		return;
	}
	while (r->at < r->end && !strchr(",]} \t\r\n", *r->at))
		r->at++;
}

static mf_status json_node(struct json_reader *r, const cJSON *j, const char *key, int depth, mf_node **out)
{
	mf_node *n, *tail = NULL;
	mf_node_kind kind = cJSON_IsObject(j)   ? MF_MAP
			    : cJSON_IsArray(j)  ? MF_LIST
			    : cJSON_IsString(j) ? MF_STRING
			    : cJSON_IsNumber(j) ? MF_NUMBER
			    : cJSON_IsBool(j)   ? MF_BOOL
						: MF_NULL;
	const char *text = "";
	char number[32];
	const cJSON *c;

	if (depth > MF_DOC_MAX_DEPTH)
		return mf_fail_at(
			r->err, MF_EINPUT, r->name, r->line, key, "nested more than %d deep", MF_DOC_MAX_DEPTH);
	skip_gap(r);
	if (kind == MF_STRING)
		text = j->valuestring;
	if (kind == MF_BOOL)
		text = cJSON_IsTrue(j) ? "true" : "false";
	if (kind == MF_NUMBER) {
		snprintf(number, sizeof number, "%.17g", j->valuedouble);
		text = number;
	}
	n = new_node(r->arena, kind, r->line, key, text);
	if (!n)
		return mf_fail(r->err, MF_ENOMEM, "out of memory");
	n->quoted = kind == MF_STRING;
	n->truth = cJSON_IsTrue(j);
	if (kind == MF_NUMBER)
		n->number = j->valuedouble;
	*out = n;
	if (kind != MF_MAP && kind != MF_LIST) {
		skip_scalar(r);
		return MF_OK;
	}
	r->at++; /* the bracket */
	cJSON_ArrayForEach(c, j)
	{
		mf_node *child;
		mf_status st;
		int line;

		skip_gap(r);
		line = r->line;
		if (kind == MF_MAP)
			skip_scalar(r);
		if (kind == MF_MAP && find(n, c->string))
			return mf_fail_at(r->err, MF_EINPUT, r->name, line, c->string, "given twice");
		st = json_node(r, c, kind == MF_MAP ? c->string : NULL, depth + 1, &child);
		if (st < 0)
			return st;
		append(n, &tail, child);
	}
	skip_gap(r);
	r->at++;
	return MF_OK;
}

static mf_status doc_begin(mf_doc *out, const char *name, mf_err *err)
{
	memset(out, 0, sizeof *out);
	out->arena = mf_arena_new();
	out->name = out->arena ? mf_arena_strdup(out->arena, name) : NULL;
	if (!out->name) {
		mf_doc_dispose(out);
		return mf_fail(err, MF_ENOMEM, "out of memory");
	}
	return MF_OK;
}

/* Number of the line that holds `at`. */
static int line_of(const char *text, const char *at)
{
	int line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

/* Deepest nesting of brackets outside strings, so that a recursive parser is not asked to go too deep. */
static int bracket_depth(const char *text, size_t len, int *line)
{
	int depth = 0, deepest = 0, at = 1;
	size_t i;

	for (i = 0; i < len; i++) {
		if (text[i] == '\n')
			at++;
		if (text[i] == '"') {
			for (i++; i < len && text[i] != '"'; i++)
				i += text[i] == '\\';
			continue;
		}
		if (text[i] == '{' || text[i] == '[') {
			if (++depth > deepest) {
				deepest = depth;
				*line = at;
			}
		} else if (text[i] == '}' || text[i] == ']') {
			depth--;
		}
	}
	return deepest;
}

mf_status mf_doc_parse_json(mf_doc *out, const char *name, const char *text, size_t len, mf_err *err)
{
	struct json_reader r = {NULL, text, text + len, 1, name, err};
	const char *end = NULL, *p;
	cJSON *j;
	mf_status st;
	int line = 1;

	memset(out, 0, sizeof *out);
	if (len && memchr(text, '\0', len))
		return mf_fail_at(err, MF_EINPUT, name, line_of(text, memchr(text, '\0', len)), NULL,
			"holds a zero byte: a binary file, not JSON");
	if (bracket_depth(text, len, &line) > MF_DOC_MAX_DEPTH)
		return mf_fail_at(err, MF_EINPUT, name, line, NULL, "nested more than %d deep", MF_DOC_MAX_DEPTH);
	j = cJSON_ParseWithLengthOpts(text, len, &end, 0);
	if (!j) {
		if (!end || end > text + len)
			end = text + len;
		for (p = end; p < text + len && isspace((unsigned char)*p); p++)
			;
		return mf_fail_at(err, MF_EINPUT, name, line_of(text, end), NULL,
			p >= text + len ? "not JSON: the file ends too early" : "not JSON: unexpected text here");
	}
	for (p = end; p < text + len && isspace((unsigned char)*p); p++)
		;
	if (p < text + len) {
		cJSON_Delete(j);
		return mf_fail_at(
			err, MF_EINPUT, name, line_of(text, p), NULL, "not JSON: text after the end of the value");
	}
	st = doc_begin(out, name, err);
	if (st == MF_OK) {
		r.arena = out->arena;
		st = json_node(&r, j, NULL, 0, &out->root);
	}
	cJSON_Delete(j);
	if (st < 0)
		mf_doc_dispose(out);
	return st;
}

/* ---- YAML -------------------------------------------------------------------------------------------------------- */

struct yaml_reader {
	yaml_parser_t parser;
	mf_arena *arena;
	const char *name;
	mf_err *err;
};

static mf_status yaml_next(struct yaml_reader *r, yaml_event_t *ev)
{
	if (yaml_parser_parse(&r->parser, ev))
		return MF_OK;
	return mf_fail_at(r->err, MF_EINPUT, r->name, (int)r->parser.problem_mark.line + 1, NULL, "not YAML: %s",
		r->parser.problem ? r->parser.problem : "unreadable");
}

/* The core schema's plain scalars: null, booleans, numbers; everything else is a string. */
static void type_scalar(mf_node *n, bool quoted)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const yes[] = {"true", "True", "TRUE", NULL};
	static const char *const no[] = {"false", "False", "FALSE", NULL};
	const char *const *p;
	char *end;

	n->kind = MF_STRING;
	n->quoted = quoted;
	if (quoted)
		return;
	for (p = nulls; *p; p++)
		if (strcmp(n->text, *p) == 0)
			n->kind = MF_NULL;
	for (p = yes; *p; p++)
		if (strcmp(n->text, *p) == 0) {
			n->kind = MF_BOOL;
			n->truth = true;
		}
	for (p = no; *p; p++)
		if (strcmp(n->text, *p) == 0)
			n->kind = MF_BOOL;
	if (strspn(n->text, "+-.0123456789eE") == strlen(n->text) && strpbrk(n->text, "0123456789")) {
		double v = strtod(n->text, &end);

		if (*end == '\0') {
			n->kind = MF_NUMBER;
			n->number = v;
		}
	}
}

static mf_status yaml_node(
	struct yaml_reader *r, const yaml_event_t *ev, const char *key, int line, int depth, mf_node **out)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;
	mf_node *n, *tail = NULL;
	bool map = ev->type == YAML_MAPPING_START_EVENT;

	if (depth > MF_DOC_MAX_DEPTH)
		return mf_fail_at(r->err, MF_EINPUT, r->name, line, key, "nested more than %d deep", MF_DOC_MAX_DEPTH);
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		anchor = ev->data.scalar.anchor;
		tag = ev->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = ev->data.sequence_start.anchor;
		tag = ev->data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = ev->data.mapping_start.anchor;
		tag = ev->data.mapping_start.tag;
		break;
	default:
		return mf_fail_at(r->err, MF_EINPUT, r->name, line, key,
			"YAML aliases are not accepted here; write the value out");
	}
	if (anchor || tag)
		return mf_fail_at(r->err, MF_EINPUT, r->name, line, key, "YAML anchors and tags are not accepted here");
	if (ev->type == YAML_SCALAR_EVENT) {
		if (memchr(ev->data.scalar.value, '\0', ev->data.scalar.length))
			return mf_fail_at(r->err, MF_EINPUT, r->name, line, key, "holds a zero byte");
		n = new_node(r->arena, MF_STRING, line, key, (const char *)ev->data.scalar.value);
		if (!n)
			return mf_fail(r->err, MF_ENOMEM, "out of memory");
		type_scalar(n, ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE);
		*out = n;
		return MF_OK;
	}
	n = new_node(r->arena, map ? MF_MAP : MF_LIST, line, key, "");
	if (!n)
		return mf_fail(r->err, MF_ENOMEM, "out of memory");
	*out = n;
	for (;;) {
		yaml_event_t item, value;
		mf_node *child;
		mf_status st = yaml_next(r, &item);
		int at = (int)item.start_mark.line + 1;

		if (st < 0)
			return st;
		if (item.type == YAML_MAPPING_END_EVENT || item.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&item);
			return MF_OK;
		}
		if (!map) {
			st = yaml_node(r, &item, NULL, at, depth + 1, &child);
			yaml_event_delete(&item);
		} else if (item.type != YAML_SCALAR_EVENT ||
			   memchr(item.data.scalar.value, '\0', item.data.scalar.length)) {
			yaml_event_delete(&item);
			return mf_fail_at(r->err, MF_EINPUT, r->name, at, NULL, "a key must be plain text");
		} else {
			const char *name = (const char *)item.data.scalar.value;

			if (find(n, name))
				st = mf_fail_at(r->err, MF_EINPUT, r->name, at, name, "given twice");
			if (st == MF_OK)
				st = yaml_next(r, &value);
			if (st == MF_OK) {
				st = yaml_node(r, &value, name, at, depth + 1, &child);
				yaml_event_delete(&value);
			}
			yaml_event_delete(&item);
		}
		if (st < 0)
			return st;
		append(n, &tail, child);
	}
}

static mf_status yaml_document(struct yaml_reader *r, mf_node **root)
{
	mf_status st = MF_OK;
	bool seen = false;

	for (;;) {
		yaml_event_t ev;
		yaml_event_type_t type;
		int line;

		st = yaml_next(r, &ev);
		if (st < 0)
			return st;
		type = ev.type;
		line = (int)ev.start_mark.line + 1;
		if (type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT &&
			type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT) {
			st = seen ? mf_fail_at(r->err, MF_EINPUT, r->name, line, NULL, "more than one YAML document")
				  : yaml_node(r, &ev, NULL, line, 0, root);
			seen = true;
		}
		yaml_event_delete(&ev);
		if (st < 0 || type == YAML_STREAM_END_EVENT)
			break;
	}
	if (st == MF_OK && !seen)
		st = mf_fail_at(r->err, MF_EINPUT, r->name, 1, NULL, "the file is empty");
	return st;
}

mf_status mf_doc_parse_yaml(mf_doc *out, const char *name, const char *text, size_t len, mf_err *err)
{
	struct yaml_reader r;
	mf_status st = doc_begin(out, name, err);

	if (st < 0)
		return st;
	r.arena = out->arena;
	r.name = name;
	r.err = err;
	if (!yaml_parser_initialize(&r.parser)) {
		mf_doc_dispose(out);
		return mf_fail(err, MF_ENOMEM, "out of memory");
	}
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	st = yaml_document(&r, &out->root);
	yaml_parser_delete(&r.parser);
	if (st < 0)
		mf_doc_dispose(out);
	return st;
}

mf_status mf_doc_read_file(mf_doc *out, const char *path, mf_err *err)
{
	mf_buf text = MF_BUF_INIT;
	mf_status st;
	size_t i = 0;

	memset(out, 0, sizeof *out);
	st = mf_file_read(&text, path, MF_DOC_MAX_BYTES, err);
	if (st == MF_OK) {
		while (i < text.len && isspace((unsigned char)text.data[i]))
			i++;
		if (i == text.len)
			st = mf_fail_at(err, MF_EINPUT, path, 1, NULL, "the file is empty");
		else if (text.data[i] == '{' || text.data[i] == '[')
			st = mf_doc_parse_json(out, path, text.data, text.len, err);
		else
			st = mf_doc_parse_yaml(out, path, text.data, text.len, err);
	}
	mf_buf_dispose(&text);
	return st;
}

void mf_doc_dispose(mf_doc *d)
{
	if (!d)
		return;
	mf_arena_free(d->arena);
	memset(d, 0, sizeof *d);
}

/* ---- typed readers ------------------------------------------------------------------------------------------------- */

const mf_node *mf_node_get(const mf_node *map, const char *key)
{
	const mf_node *n = map && map->kind == MF_MAP ? find(map, key) : NULL;

	return n && n->kind != MF_NULL ? n : NULL;
}

static const char *const kind_names[] = {"null", "true or false", "a number", "a text", "a list", "a group of fields"};

static mf_status wrong_kind(const mf_doc *d, const mf_node *n, const char *want, mf_err *err)
{
	return mf_fail_at(err, MF_EINPUT, d->name, n->line, n->key, "should be %s, not %s", want, kind_names[n->kind]);
}

mf_status mf_get_double(
	const mf_doc *d, const mf_node *map, const char *key, double min, double max, double *out, mf_err *err)
{
	const mf_node *n = mf_node_get(map, key);

	if (!n)
		return MF_OK;
	if (n->kind != MF_NUMBER)
		return wrong_kind(d, n, "a number", err);
	if (!(n->number >= min && n->number <= max))
		return mf_fail_at(
			err, MF_EINPUT, d->name, n->line, key, "%s is not between %g and %g", n->text, min, max);
	*out = n->number;
	return MF_OK;
}

mf_status mf_get_u32(
	const mf_doc *d, const mf_node *map, const char *key, uint32_t min, uint32_t max, uint32_t *out, mf_err *err)
{
	const mf_node *n = mf_node_get(map, key);

	if (!n)
		return MF_OK;
	if (n->kind != MF_NUMBER)
		return wrong_kind(d, n, "a whole number", err);
	if (n->number != floor(n->number))
		return mf_fail_at(err, MF_EINPUT, d->name, n->line, key, "%s is not a whole number", n->text);
	if (!(n->number >= min && n->number <= max))
		return mf_fail_at(
			err, MF_EINPUT, d->name, n->line, key, "%s is not between %u and %u", n->text, min, max);
	*out = (uint32_t)n->number;
	return MF_OK;
}

mf_status mf_get_bool(const mf_doc *d, const mf_node *map, const char *key, bool *out, mf_err *err)
{
	const mf_node *n = mf_node_get(map, key);

	if (!n)
		return MF_OK;
	if (n->kind != MF_BOOL)
		return wrong_kind(d, n, "true or false", err);
	*out = n->truth;
	return MF_OK;
}

mf_status mf_get_string(const mf_doc *d, const mf_node *map, const char *key, char *out, size_t size, mf_err *err)
{
	const mf_node *n = mf_node_get(map, key);

	if (!n)
		return MF_OK;
	if (n->kind == MF_LIST || n->kind == MF_MAP)
		return wrong_kind(d, n, "a text", err);
	if (strlen(n->text) >= size)
		return mf_fail_at(err, MF_EINPUT, d->name, n->line, key, "longer than %zu bytes", size - 1);
	strcpy(out, n->text);
	return MF_OK;
}

static mf_status need(const mf_doc *d, const mf_node *map, const char *key, mf_err *err)
{
	if (mf_node_get(map, key))
		return MF_OK;
	return mf_fail_at(err, MF_EINPUT, d->name, map ? map->line : 0, key, "missing");
}

mf_status mf_need_u32(
	const mf_doc *d, const mf_node *map, const char *key, uint32_t min, uint32_t max, uint32_t *out, mf_err *err)
{
	mf_status st = need(d, map, key, err);

	return st < 0 ? st : mf_get_u32(d, map, key, min, max, out, err);
}

mf_status mf_need_double(
	const mf_doc *d, const mf_node *map, const char *key, double min, double max, double *out, mf_err *err)
{
	mf_status st = need(d, map, key, err);

	return st < 0 ? st : mf_get_double(d, map, key, min, max, out, err);
}

mf_status mf_need_string(const mf_doc *d, const mf_node *map, const char *key, char *out, size_t size, mf_err *err)
{
	mf_status st = need(d, map, key, err);

	return st < 0 ? st : mf_get_string(d, map, key, out, size, err);
}

mf_status mf_only_keys(const mf_doc *d, const mf_node *map, const char *const *known, mf_err *err)
{
	const mf_node *c;
	const char *const *k;
	const char *near;

	if (map->kind != MF_MAP)
		return wrong_kind(d, map, "a group of fields", err);
	for (c = map->first; c; c = c->next) {
		for (k = known; *k && strcmp(*k, c->key) != 0; k++)
			;
		if (*k)
			continue;
		near = mf_nearest(c->key, known);
		return near ? mf_fail_at(
				      err, MF_EINPUT, d->name, c->line, c->key, "unknown field; did you mean %s?", near)
			    : mf_fail_at(err, MF_EINPUT, d->name, c->line, c->key, "unknown field");
	}
	return MF_OK;
}

/* Edit distance, cut off at 16 characters of difference in length. */
static size_t distance(const char *a, const char *b)
{
	size_t row[64], n = strlen(b), i, j;

	if (n >= MF_COUNT(row))
		return SIZE_MAX;
	for (j = 0; j <= n; j++)
		row[j] = j;
	for (i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (j = 0; j < n; j++) {
			size_t keep = diagonal + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j]));
			size_t best = row[j] < row[j + 1] ? row[j] : row[j + 1];

			diagonal = row[j + 1];
			row[j + 1] = keep < best + 1 ? keep : best + 1;
		}
	}
	return row[n];
}

const char *mf_nearest(const char *text, const char *const *names)
{
	const char *best = NULL;
	size_t least = strlen(text) / 2 + 1, d;

	for (; *names; names++) {
		d = distance(text, *names);
		if (d < least) {
			least = d;
			best = *names;
		}
	}
	return best;
}
