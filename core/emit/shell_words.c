/*
 * shell_words.c: the launch command inside a shell script. Quotes, backslashes, comments, continued lines, redirections;
 * variables and arrays that the script sets itself are put in their place, anything a running shell would have to work
 * out ($(...), unset names) stays as it is written, for the reader to name. Nothing is executed.
 */
#include <stdlib.h>
#include <string.h>

#include "emit_internal.h"

struct var {
	const char *name;
	struct mf_words value; /* more than one word: an array */
};

struct shell {
	mf_arena *arena;
	const char *path, *text;
	size_t len, i;
	int line;
	struct var *vars;
	size_t n_vars, cap_vars;
	struct mf_words *command, *env; /* what is handed back */
	struct mf_words other;          /* words of the last line that launches nothing */
	size_t expanded;                /* bytes that variables brought in */
	mf_buf word;
	bool in_word;
	bool failed;
};

void mf_words_add(struct mf_words *l, const char *text)
{
	if (!text) {
		l->failed = true;
		return;
	}
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		const char **items = realloc((void *)l->items, cap * sizeof(*items));

		if (!items) {
			l->failed = true;
			return;
		}
		l->items = items;
		l->cap = cap;
	}
	l->items[l->n++] = text;
}

void mf_words_free(struct mf_words *l)
{
	free((void *)l->items);
	memset(l, 0, sizeof *l);
}

static bool name_char(char c, bool first)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9');
}

size_t mf_assignment(const char *word)
{
	size_t n = 0;

	while (name_char(word[n], n == 0))
		n++;
	return n && word[n] == '=' ? n : 0;
}

/* ---- variables ---------------------------------------------------------------------------------------------------- */

static struct var *find_var(struct shell *s, const char *name, size_t len)
{
	for (size_t i = 0; i < s->n_vars; i++)
		if (strlen(s->vars[i].name) == len && strncmp(s->vars[i].name, name, len) == 0)
			return &s->vars[i];
	return NULL;
}

/* NAME=... or, with `append`, NAME+=...: takes over `value`. */
static void set_var(struct shell *s, const char *name, size_t len, struct mf_words *value, bool append)
{
	struct var *v = find_var(s, name, len);

	if (!v) {
		if (s->n_vars == s->cap_vars) {
			size_t cap = s->cap_vars ? 2 * s->cap_vars : 32;
			struct var *grown = realloc(s->vars, cap * sizeof *grown);

			if (!grown) {
				s->failed = true;
				mf_words_free(value);
				return;
			}
			s->vars = grown;
			s->cap_vars = cap;
		}
		char *copy = mf_arena_alloc(s->arena, len + 1);
		if (!copy) {
			s->failed = true;
			mf_words_free(value);
			return;
		}
		memcpy(copy, name, len);
		v = &s->vars[s->n_vars++];
		*v = (struct var){copy, {0}};
	} else if (!append) {
		mf_words_free(&v->value);
	}
	for (size_t i = 0; i < value->n; i++)
		mf_words_add(&v->value, value->items[i]);
	s->failed |= v->value.failed;
	mf_words_free(value);
}

static void set_text(struct shell *s, const char *name, size_t len, const char *text)
{
	struct mf_words one = {0};

	mf_words_add(&one, mf_arena_strdup(s->arena, text));
	set_var(s, name, len, &one, false);
}

/* "NAME=text", or "NAME+=text" which a shell appends without a blank. */
static bool assign_word(struct shell *s, const char *word)
{
	size_t n = mf_assignment(word);
	const struct var *old;
	mf_buf joined = MF_BUF_INIT;

	if (n) {
		set_text(s, word, n, word + n + 1);
		return true;
	}
	while (name_char(word[n], n == 0))
		n++;
	if (!n || word[n] != '+' || word[n + 1] != '=')
		return false;
	old = find_var(s, word, n);
	mf_buf_printf(&joined, "%s%s", old && old->value.n ? old->value.items[0] : "", word + n + 2);
	set_text(s, word, n, mf_buf_text(&joined));
	mf_buf_dispose(&joined);
	return true;
}

/* ---- words -------------------------------------------------------------------------------------------------------- */

static void end_word(struct shell *s, struct mf_words *out)
{
	if (!s->in_word)
		return;
	mf_words_add(out, mf_arena_strdup(s->arena, mf_buf_text(&s->word)));
	s->failed |= out->failed || s->word.failed;
	mf_buf_clear(&s->word);
	s->in_word = false;
}

/* Text of a variable; without quotes its blanks part words. */
static void put(struct shell *s, const char *text, bool quoted, struct mf_words *out)
{
	s->expanded += strlen(text) + 1;
	if (s->expanded > MF_COMMAND_MAX_BYTES)
		return;
	for (const char *p = text; *p; p++) {
		if (!quoted && strchr(" \t\r\n", *p)) {
			end_word(s, out);
		} else {
			mf_buf_putc(&s->word, *p);
			s->in_word = true;
		}
	}
	s->in_word |= quoted;
}

/* Copies up to and with the bracket that closes the one at the cursor. */
static void copy_group(struct shell *s, char open, char close)
{
	int depth = 0;

	for (; s->i < s->len; s->i++) {
		char c = s->text[s->i];

		depth += c == open ? 1 : c == close ? -1 : 0;
		s->line += c == '\n';
		mf_buf_putc(&s->word, c);
		if (depth == 0)
			break;
	}
	s->i += s->i < s->len;
}

/* At a '$'. Leaves the cursor behind the expansion. */
static void expand(struct shell *s, bool quoted, struct mf_words *out)
{
	const char *t = s->text;
	size_t at = s->i + 1, name, len;
	bool brace = at < s->len && t[at] == '{', all = false;
	const struct var *v;

	at += brace;
	name = at;
	while (at < s->len && name_char(t[at], at == name))
		at++;
	len = at - name;
	if (!len) { /* $(...), $1, $@, ${#...}, a lone dollar */
		mf_buf_putc(&s->word, t[s->i++]);
		s->in_word = true;
		if (s->i < s->len && (t[s->i] == '(' || t[s->i] == '{'))
			copy_group(s, t[s->i], t[s->i] == '(' ? ')' : '}');
		return;
	}
	v = find_var(s, t + name, len);
	if (brace) {
		const char *close = memchr(t + at, '}', s->len - at);
		size_t end = close ? (size_t)(close - t) : s->len;

		if (end - at == 3 && t[at] == '[' && strchr("@*", t[at + 1]) && t[at + 2] == ']') {
			all = true;
		} else if (end > at && (t[at] == ':' || t[at] == '-')) { /* ${NAME:-text} */
			at += t[at] == ':';
			if (at < end && t[at] == '-' && !v) {
				for (size_t k = at + 1; k < end; k++)
					mf_buf_putc(&s->word, t[k]);
				s->in_word = true;
				s->i = end + (end < s->len);
				return;
			}
			if (at < end && t[at] != '-')
				v = NULL;
		} else if (end != at) {
			v = NULL; /* an operation we do not do */
		}
		at = end + (end < s->len);
	}
	if (!v) {
		mf_buf_add(&s->word, t + s->i, at - s->i);
		s->in_word = true;
	}
	for (size_t k = 0; v && k < v->value.n && (k == 0 || all); k++) {
		if (k)
			end_word(s, out);
		put(s, v->value.items[k], quoted, out);
	}
	s->i = at;
}

static mf_status quoted_text(struct shell *s, struct mf_words *out, mf_err *err)
{
	char q = s->text[s->i];
	size_t from = s->i++;
	int line = s->line;

	s->in_word = true;
	while (s->i < s->len && s->text[s->i] != q) {
		char c = s->text[s->i];

		if (q == '"' && c == '$') {
			expand(s, true, out);
			continue;
		}
		if (q == '"' && c == '\\' && s->i + 1 < s->len && strchr("\"\\$`\n", s->text[s->i + 1])) {
			c = s->text[++s->i];
			if (c == '\n') {
				s->line++;
				s->i++;
				continue;
			}
		}
		s->line += c == '\n';
		mf_buf_putc(&s->word, c);
		s->i++;
	}
	if (s->i >= s->len)
		return mf_fail_at(
			err, MF_EINPUT, s->path, line, NULL, "the quote at byte %zu is never closed", from + 1);
	s->i++;
	return MF_OK;
}

/* "#SBATCH --nodes=4" tells what $SLURM_NNODES will be. */
static void comment(struct shell *s)
{
	static const struct {
		const char *option, *variable;
	} told[] = {
		{"--nodes", "SLURM_NNODES"},
		{"--nodes", "SLURM_JOB_NUM_NODES"},
		{"-N", "SLURM_NNODES"},
		{"-N", "SLURM_JOB_NUM_NODES"},
		{"--gpus-per-node", "SLURM_GPUS_ON_NODE"},
		{"--gpus-per-node", "SLURM_GPUS_PER_NODE"},
	};
	size_t from = s->i, n;

	while (s->i < s->len && s->text[s->i] != '\n')
		s->i++;
	n = s->i - from;
	if (n < 8 || strncmp(s->text + from, "#SBATCH ", 8) != 0)
		return;
	for (size_t k = 0; k < MF_COUNT(told); k++) {
		size_t len = strlen(told[k].option), at = from + 8, digits;
		char value[16] = "";

		while (at < s->i && s->text[at] == ' ')
			at++;
		if (at + len >= s->i || strncmp(s->text + at, told[k].option, len) != 0 ||
			!strchr("= ", s->text[at + len]))
			continue;
		at += len + 1;
		digits = at;
		while (digits < s->i && s->text[digits] >= '0' && s->text[digits] <= '9')
			digits++;
		if (digits == at || digits - at >= sizeof value)
			continue;
		memcpy(value, s->text + at, digits - at);
		set_text(s, told[k].variable, strlen(told[k].variable), value);
	}
}

static mf_status words(struct shell *s, struct mf_words *out, bool array, mf_err *err);

/* "NAME=(" or "NAME+=(": the words up to the closing bracket. */
static mf_status array_value(struct shell *s, mf_err *err)
{
	struct mf_words value = {0};
	const char *whole = mf_buf_text(&s->word);
	size_t len = strlen(whole) - 1;
	bool append = len && whole[len - 1] == '+';
	char *name = mf_arena_strdup(s->arena, whole);
	mf_status st;

	mf_buf_clear(&s->word);
	s->in_word = false;
	s->i++;
	st = words(s, &value, true, err);
	if (st < 0 || !name) {
		mf_words_free(&value);
		return st < 0 ? st : mf_fail(err, MF_ENOMEM, "out of memory");
	}
	set_var(s, name, len - append, &value, append);
	return MF_OK;
}

static bool begins_array(const struct shell *s)
{
	const char *w = mf_buf_text(&s->word);
	size_t n = 0;

	if (!s->in_word)
		return false;
	while (name_char(w[n], n == 0))
		n++;
	return n && (strcmp(w + n, "=") == 0 || strcmp(w + n, "+=") == 0);
}

/* Words up to the statement's end (consumed), or in an array up to its bracket, where line ends are blanks. */
static mf_status words(struct shell *s, struct mf_words *out, bool array, mf_err *err)
{
	bool redirected = false; /* the next word is a file that output goes to */
	mf_status st = MF_OK;

	while (s->i < s->len && st == MF_OK) {
		char c = s->text[s->i];

		if (s->expanded > MF_COMMAND_MAX_BYTES)
			return mf_fail_at(err, MF_EINPUT, s->path, s->line, NULL,
				"variables expand to more than %u bytes", MF_COMMAND_MAX_BYTES);
		if (c != '\0' && strchr(" \t\r\n;&|()<>", c)) {
			bool had = s->in_word;

			if (c == '(' && begins_array(s)) {
				if ((st = array_value(s, err)) < 0)
					return st;
				continue;
			}
			if (strchr("<>", c)) { /* 2>&1, >file: the digits before it are no argument */
				if (had && strspn(mf_buf_text(&s->word), "0123456789") == s->word.len) {
					mf_buf_clear(&s->word);
					s->in_word = false;
				}
				end_word(s, out);
				while (s->i + 1 < s->len && strchr("<>&", s->text[s->i + 1]))
					s->i++;
				s->i++;
				redirected = true;
				continue;
			}
			end_word(s, out);
			if (redirected && had) {
				out->n -= out->n > 0;
				redirected = false;
			}
			s->line += c == '\n';
			s->i++;
			if (array ? c == ')' : strchr("\n;&|()", c) != NULL)
				return MF_OK;
		} else if (c == '#' && !s->in_word) {
			comment(s);
		} else if (c == '\\') {
			if (s->i + 1 < s->len && s->text[s->i + 1] == '\n') {
				s->line++;
			} else if (s->i + 2 < s->len && s->text[s->i + 1] == '\r' && s->text[s->i + 2] == '\n') {
				s->line++;
				s->i++;
			} else if (s->i + 1 < s->len) {
				mf_buf_putc(&s->word, s->text[s->i + 1]);
				s->in_word = true;
			}
			s->i += 2;
		} else if (c == '\'' || c == '"') {
			st = quoted_text(s, out, err);
		} else if (c == '$') {
			expand(s, false, out);
		} else if (c == '`') {
			do {
				mf_buf_putc(&s->word, s->text[s->i]);
				s->line += s->text[s->i] == '\n';
			} while (++s->i < s->len && s->text[s->i] != '`');
			if (s->i < s->len)
				mf_buf_putc(&s->word, s->text[s->i++]);
			s->in_word = true;
		} else {
			mf_buf_putc(&s->word, c);
			s->in_word = true;
			s->i++;
		}
	}
	if (s->i > s->len)
		s->i = s->len;
	bool had = s->in_word;
	end_word(s, out);
	if (redirected && had)
		out->n -= out->n > 0;
	return st;
}

/* ---- statements --------------------------------------------------------------------------------------------------- */

static void export_words(struct shell *s, const struct mf_words *w)
{
	for (size_t k = 1; k < w->n; k++) {
		const char *word = w->items[k];
		const struct var *v = find_var(s, word, strlen(word));

		if (mf_assignment(word)) {
			assign_word(s, word);
			mf_words_add(s->env, word);
		} else if (v && v->value.n) {
			mf_buf text = MF_BUF_INIT;

			mf_buf_printf(&text, "%s=%s", word, v->value.items[0]);
			mf_words_add(s->env, mf_arena_strdup(s->arena, mf_buf_text(&text)));
			mf_buf_dispose(&text);
		}
	}
}

static void statement(struct shell *s, struct mf_words *w)
{
	static const char *const declaring[] = {"export", "declare", "local", "readonly", "typeset"};
	size_t assigned = 0;

	if (!w->n)
		return;
	for (size_t k = 0; k < MF_COUNT(declaring); k++) {
		if (strcmp(w->items[0], declaring[k]) != 0)
			continue;
		if (k == 0)
			export_words(s, w);
		else
			for (size_t j = 1; j < w->n; j++)
				assign_word(s, w->items[j]);
		return;
	}
	while (assigned < w->n && (mf_assignment(w->items[assigned]) || strstr(w->items[assigned], "+=")))
		assigned++;
	if (assigned == w->n) {
		for (size_t k = 0; k < w->n; k++)
			assign_word(s, w->items[k]);
		return;
	}
	struct mf_words *to = mf_launches(w->items, w->n) ? s->command : &s->other;
	to->n = 0;
	for (size_t k = 0; k < w->n; k++)
		mf_words_add(to, w->items[k]);
	s->failed |= to->failed;
}

mf_status mf_shell_words(mf_arena *arena, const char *path, const char *text, size_t len, struct mf_words *command,
	struct mf_words *env, mf_err *err)
{
	struct shell s = {
		.arena = arena,
		.path = path,
		.text = text,
		.len = len,
		.line = 1,
		.command = command,
		.env = env,
		.word = MF_BUF_INIT,
	};
	struct mf_words line = {0};
	mf_status st = MF_OK;

	while (s.i < s.len && st == MF_OK) {
		line.n = 0;
		if ((st = words(&s, &line, false, err)) == MF_OK)
			statement(&s, &line);
		if (s.failed || line.failed || env->failed)
			st = mf_fail(err, MF_ENOMEM, "out of memory");
	}
	/* No line launches anything: the last one is shown to the reader, which says what it expected. */
	bool none = command->n == 0;
	for (size_t k = 0; st == MF_OK && none && k < s.other.n; k++)
		mf_words_add(command, s.other.items[k]);
	for (size_t k = 0; k < s.n_vars; k++)
		mf_words_free(&s.vars[k].value);
	free(s.vars);
	mf_words_free(&line);
	mf_words_free(&s.other);
	mf_buf_dispose(&s.word);
	return st;
}
