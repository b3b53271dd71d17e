/* table.c: CSV tables of measured operations. */
#include "fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 32
#define MAX_KEYS 32
#define TABLE_MAX_BYTES (256u << 20)

struct mf_table {
	mf_buf text;
	char *path;
	char *key[MAX_KEYS], *value[MAX_KEYS]; /* of the comment line */
	int n_keys;
	char *name[MAX_COLUMNS];
	int n_columns;
	char **cell; /* rows x columns */
	int *line;
	size_t n_rows, cap, n_bad;
};

void mf_table_free(mf_table *t)
{
	if (!t)
		return;
	mf_buf_dispose(&t->text);
	free(t->path);
	free(t->cell);
	free(t->line);
	free(t);
}

/* The comment line: `key=value key=value`, where a value may hold blanks and ends before the next key. */
static void read_keys(mf_table *t, char *s)
{
	char *eq = strchr(s, '=');

	while (eq && t->n_keys < MAX_KEYS) {
		char *key = eq, *next = strchr(eq + 1, '='), *end = NULL;

		while (key > s && key[-1] != ' ' && key[-1] != '#')
			key--;
		*eq = '\0';
		if (next) {
			end = next;
			while (end > eq + 1 && *end != ' ')
				end--;
			*end = '\0';
		}
		t->key[t->n_keys] = key;
		t->value[t->n_keys++] = eq + 1;
		s = end ? end + 1 : s;
		eq = next;
	}
}

/* Splits a line at its commas, in place; returns the number of cells, at most `max` + 1. */
static int split(char *s, char **cell, int max)
{
	int n = 0;

	for (;;) {
		char *comma = strchr(s, ',');

		if (n < max)
			cell[n] = s;
		n++;
		if (!comma || n > max)
			return n;
		*comma = '\0';
		s = comma + 1;
	}
}

static char *next_line(char **rest)
{
	char *s = *rest, *end;

	if (!*s)
		return NULL;
	end = strchr(s, '\n');
	*rest = end ? end + 1 : s + strlen(s);
	if (end) {
		if (end > s && end[-1] == '\r')
			end[-1] = '\0';
		*end = '\0';
	}
	return s;
}

static mf_status grow(mf_table *t, mf_err *err)
{
	size_t cap = t->cap ? 2 * t->cap : 1024;
	char **cell;
	int *line;

	if (t->n_rows < t->cap)
		return MF_OK;
	cell = realloc(t->cell, cap * (size_t)t->n_columns * sizeof *cell);
	if (cell)
		t->cell = cell;
	line = realloc(t->line, cap * sizeof *line);
	if (line)
		t->line = line;
	if (!cell || !line)
		return mf_fail_at(err, MF_ENOMEM, t->path, 0, NULL, "out of memory for the table");
	t->cap = cap;
	return MF_OK;
}

/* A latency that is no positive number makes a row unreadable. */
static bool is_measure(const char *column)
{
	size_t len = strlen(column);

	return strcmp(column, "latency") == 0 || (len > 5 && strcmp(column + len - 5, "_t_us") == 0) ||
	       (len > 12 && strcmp(column + len - 12, "_transmit_us") == 0);
}

static bool check_row(const mf_table *t, int n, char *const *cell, char *why, size_t size)
{
	if (n != t->n_columns) {
		snprintf(why, size, "%d columns where the header has %d; the row is left out", n, t->n_columns);
		return false;
	}
	for (int i = 0; i < n; i++) {
		char *end;
		double v;

		if (!is_measure(t->name[i]))
			continue;
		v = strtod(cell[i], &end);
		if (end == cell[i] || *end || !(v > 0) || !isfinite(v)) {
			snprintf(why, size, "%s: \"%.40s\" is no positive time; the row is left out", t->name[i],
				cell[i]);
			return false;
		}
	}
	return true;
}

mf_status mf_table_read(mf_table **out, const char *path, mf_fit_warn *warn, void *payload, mf_err *err)
{
	mf_table *t = calloc(1, sizeof *t);
	char *rest, *s, *cell[MAX_COLUMNS], why[160];
	int line = 0;
	mf_status st;

	*out = NULL;
	if (!t || !(t->path = strdup(path))) {
		mf_table_free(t);
		return mf_fail_at(err, MF_ENOMEM, path, 0, NULL, "out of memory");
	}
	if ((st = mf_file_read(&t->text, path, TABLE_MAX_BYTES, err)) < 0)
		goto fail;
	if (strlen(mf_buf_text(&t->text)) != t->text.len) {
		st = mf_fail_at(err, MF_EINPUT, path, 0, NULL, "a NUL byte: this is no CSV text");
		goto fail;
	}
	rest = t->text.data ? t->text.data : (char[]){""};
	while ((s = next_line(&rest))) {
		line++;
		if (*s == '#') {
			read_keys(t, s);
			continue;
		}
		if (!*s)
			continue;
		if (!t->n_columns) {
			int n = split(s, t->name, MAX_COLUMNS);

			if (n < 2 || n > MAX_COLUMNS) {
				st = mf_fail_at(err, MF_EINPUT, path, line, NULL,
					"expected a header of 2 to %d comma-separated column names", MAX_COLUMNS);
				goto fail;
			}
			t->n_columns = n;
			continue;
		}
		if ((st = grow(t, err)) < 0)
			goto fail;
		if (check_row(t, split(s, cell, t->n_columns < MAX_COLUMNS ? t->n_columns : MAX_COLUMNS), cell, why,
			    sizeof why)) {
			memcpy(&t->cell[t->n_rows * (size_t)t->n_columns], cell, (size_t)t->n_columns * sizeof *cell);
			t->line[t->n_rows++] = line;
		} else {
			t->n_bad++;
			if (warn)
				warn(payload, path, line, why);
		}
	}
	if (!t->n_columns)
		st = mf_fail_at(err, MF_EINPUT, path, line, NULL, "no header: expected comma-separated column names");
	else if (t->n_bad * 10 > t->n_rows + t->n_bad)
		st = mf_fail_at(err, MF_EINPUT, path, 0, NULL, "%zu of %zu rows cannot be read; is this such a table?",
			t->n_bad, t->n_rows + t->n_bad);
	if (st < 0)
		goto fail;
	*out = t;
	return MF_OK;
fail:
	mf_table_free(t);
	return st;
}

size_t mf_table_rows(const mf_table *t)
{
	return t->n_rows;
}

size_t mf_table_bad(const mf_table *t)
{
	return t->n_bad;
}

int mf_table_column(const mf_table *t, const char *name)
{
	for (int i = 0; i < t->n_columns; i++)
		if (strcmp(t->name[i], name) == 0)
			return i;
	for (int i = 0; i < t->n_keys; i++)
		if (strcmp(t->key[i], name) == 0)
			return t->n_columns + i;
	return -1;
}

const char *mf_table_text(const mf_table *t, size_t row, int column)
{
	if (column < 0)
		return "";
	return column < t->n_columns ? t->cell[row * (size_t)t->n_columns + (size_t)column]
				     : t->value[column - t->n_columns];
}

double mf_table_number(const mf_table *t, size_t row, int column)
{
	const char *s = mf_table_text(t, row, column);
	char *end;
	double v = strtod(s, &end);

	return end == s || *end ? NAN : v;
}

int mf_table_line(const mf_table *t, size_t row)
{
	return t->line[row];
}

const char *mf_table_header(const mf_table *t, const char *key)
{
	for (int i = 0; i < t->n_keys; i++)
		if (strcmp(t->key[i], key) == 0)
			return t->value[i];
	return "";
}
