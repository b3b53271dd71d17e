/* prompt.c: the line being typed: editing, history, completion, and what Enter does with it. */
#include "tui_app.h"
#include "tui_cell.h"

#include <stdlib.h>
#include <string.h>

static mf_history *history_of(mf_app *a, mf_action action)
{
	return action == MF_ACT_FILTER || action == MF_ACT_FIND ? &a->filter_history
	       : action == MF_ACT_COMMAND                       ? &a->command_history
								: NULL;
}

static void remember(mf_history *h, const char *line)
{
	if (!h || !*line || (h->n > 0 && strcmp(h->line[h->n - 1], line) == 0))
		return;
	if (h->n == MF_HISTORY) {
		memmove(h->line[0], h->line[1], sizeof(h->line[0]) * (MF_HISTORY - 1));
		h->n--;
	}
	snprintf(h->line[h->n++], MF_PROMPT_MAX, "%s", line);
}

static void set_text(mf_prompt *p, const char *text)
{
	snprintf(p->text, sizeof(p->text), "%s", text);
	p->len = p->cursor = strlen(p->text);
}

void mf_prompt_open(mf_app *a, mf_action action, const char *text)
{
	mf_prompt *p = &a->prompt;
	memset(p, 0, sizeof(*p));
	p->action = action;
	p->history_at = -1;
	set_text(p, text);
	snprintf(p->before, sizeof(p->before), "%s", text);
}

static void erase(mf_prompt *p, size_t from, size_t to)
{
	memmove(p->text + from, p->text + to, p->len - to + 1);
	p->len -= to - from;
	p->cursor = from;
}

static size_t left_of(const mf_prompt *p, size_t at)
{
	while (at > 0 && ((unsigned char)p->text[--at] & 0xc0) == 0x80)
		;
	return at;
}

static size_t right_of(const mf_prompt *p, size_t at)
{
	if (at < p->len)
		at++;
	while (at < p->len && ((unsigned char)p->text[at] & 0xc0) == 0x80)
		at++;
	return at;
}

static void insert(mf_prompt *p, mf_key k)
{
	char bytes[4];
	size_t n = mf_utf8_encode(k, bytes);
	if (p->len + n >= sizeof(p->text))
		return;
	memmove(p->text + p->cursor + n, p->text + p->cursor, p->len - p->cursor + 1);
	memcpy(p->text + p->cursor, bytes, n);
	p->len += n;
	p->cursor += n;
}

/* The live effect of a line that changed: a filter applies as far as it can be read, an old one stays otherwise. */
static unsigned changed(mf_app *a)
{
	mf_prompt *p = &a->prompt;
	mf_filter *f = NULL;
	mf_err err;
	int column;

	p->overwrite = false;
	if ((p->action != MF_ACT_FILTER && p->action != MF_ACT_FIND) || p->text[0] == '@')
		return MF_FX_REDRAW;
	if (mf_filter_parse(&f, p->text, a->phase, &column, &err) < 0) {
		mf_app_say(a, true, "%s", err.msg);
		return MF_FX_REDRAW;
	}
	mf_filter_free(f);
	if (p->action == MF_ACT_FIND)
		return MF_FX_REDRAW;
	snprintf(a->filter, sizeof(a->filter), "%s", p->text);
	return MF_FX_REDRAW | MF_FX_ARRANGE;
}

static unsigned from_history(mf_app *a, int by)
{
	mf_prompt *p = &a->prompt;
	const mf_history *h = history_of(a, p->action);
	if (!h || h->n == 0)
		return MF_FX_REDRAW;
	int at = p->history_at < 0 ? h->n : p->history_at;
	if (p->history_at < 0)
		snprintf(p->kept, sizeof(p->kept), "%s", p->text);
	at += by;
	if (at < 0)
		at = 0;
	p->history_at = at >= h->n ? -1 : at;
	set_text(p, at >= h->n ? p->kept : h->line[at]);
	return changed(a);
}

/* Completes the word under the cursor from `names`; several that fit are listed. */
static void complete(mf_app *a, const char *const *names, size_t word_at)
{
	mf_prompt *p = &a->prompt;
	const char *word = p->text + word_at;
	size_t len = p->tries > 0 ? p->stem : p->len - word_at, common = 0;
	const char *first = NULL, *fits[128];
	int n = 0;
	char list[1024] = "";

	for (; *names && n < (int)MF_COUNT(fits); names++) {
		if (strncmp(*names, word, len) != 0)
			continue;
		fits[n] = *names;
		if (!first) {
			first = *names;
			common = strlen(first);
		}
		for (size_t i = 0; i < common; i++)
			if ((*names)[i] != first[i])
				common = i;
		n++;
	}
	if (n == 0)
		return;
	/* The first Tab writes what all of them begin with; where that adds nothing, the next ones go through them. */
	int at = p->tries > 0 && n > 1 ? (p->tries - 1) % n : 0;
	if (p->tries > 0 || common == len || n == 1) {
		p->stem = len;
		if (p->tries > 0 && n > 1) {
			first = fits[at];
			common = strlen(first);
		}
		p->tries++;
	}
	for (int i = 0; i < n; i++) {
		size_t used = strlen(list);
		snprintf(list + used, sizeof(list) - used, "%s%s", used ? "  " : "", fits[(at + i) % n]);
	}
	if (word_at + common + 2 < sizeof(p->text)) {
		memcpy(p->text + word_at, first, common);
		p->len = word_at + common;
		if (n == 1 && p->action == MF_ACT_COMMAND)
			p->text[p->len++] = ' ';
		p->text[p->len] = 0;
		p->cursor = p->len;
	}
	if (n > 1)
		mf_app_say(a, false, "%s", list);
}

/* Names that may follow an action, NULL-terminated; false when it takes any text. */
static bool names_for(const mf_app *a, mf_action action, const char **out, size_t cap)
{
	const mf_knob *knob = mf_knob_of(a, action);
	const char *const *names = action == MF_ACT_MODEL     ? mf_builtin_names("models")
				   : action == MF_ACT_CLUSTER ? mf_builtin_names("clusters")
				   : action == MF_ACT_THEME   ? mf_theme_names
							      : NULL;
	const mf_choice *table = action == MF_ACT_SORT     ? mf_sort_key_choices
				 : action == MF_ACT_SHOW   ? mf_show_choices
				 : action == MF_ACT_DETAIL ? mf_tab_choices
				 : action == MF_ACT_SIDE   ? mf_side_tab_choices
				 : action == MF_ACT_MOUSE  ? mf_on_off_choices
							   : NULL;
	size_t n = 0;

	if (knob)
		return mf_knob_names(a, knob, out, cap) > 0;
	for (; names && *names && n + 1 < cap; names++)
		out[n++] = *names;
	for (; table && table->name && n + 1 < cap; table++)
		out[n++] = table->name;
	out[n] = NULL;
	return n > 0;
}

static void complete_line(mf_app *a)
{
	mf_prompt *p = &a->prompt;
	const char *names[128];
	size_t n = 0;

	if (p->action == MF_ACT_FILTER && p->text[0] == '@') {
		char at[MF_MAX_FILTERS][MF_FILTER_NAME_MAX + 1];
		for (; n < (size_t)a->n_filters; n++) {
			snprintf(at[n], sizeof(at[n]), "@%s", a->filters[n].name);
			names[n] = at[n];
		}
		names[n] = NULL;
		complete(a, names, 0);
		return;
	}
	if (p->action == MF_ACT_COLUMNS) {
		const char *word = strrchr(p->text, ' ');
		mf_columns_names(a, names, MF_COUNT(names));
		complete(a, names, word ? (size_t)(word + 1 - p->text) : 0);
		return;
	}
	if (p->action != MF_ACT_COMMAND) {
		if (p->action != MF_ACT_FILTER && p->action != MF_ACT_FIND &&
			names_for(a, p->action, names, MF_COUNT(names)))
			complete(a, names, 0);
		return;
	}
	char *space = strchr(p->text, ' ');
	if (!space) {
		for (const mf_tui_key *t = mf_tui_keys; t->name && n + 1 < MF_COUNT(names); t++)
			names[n++] = t->name;
		names[n] = NULL;
		complete(a, names, 0);
		return;
	}
	if (names_for(a, mf_action_of_name(p->text, (size_t)(space - p->text)), names, MF_COUNT(names)))
		complete(a, names, (size_t)(space + 1 - p->text));
}

static unsigned enter(mf_app *a)
{
	mf_prompt line = a->prompt;
	mf_history *h = history_of(a, line.action);

	if (line.action == MF_ACT_FILTER || line.action == MF_ACT_FIND) {
		/* Typing has applied it already, unless it cannot be read. */
		mf_filter *f = NULL;
		mf_err err;
		int column;
		const char *named = line.action == MF_ACT_FILTER ? mf_filter_named(a, line.text) : line.text;
		if (!named)
			return MF_FX_REDRAW;
		if (named != line.text)
			snprintf(line.text, sizeof(line.text), "%s", named);
		if (mf_filter_parse(&f, line.text, a->phase, &column, &err) < 0) {
			mf_app_say(a, true, "%s", err.msg);
			/* The cursor goes to where the parser stopped. */
			size_t at = (size_t)(column > 0 ? column - 1 : 0);
			a->prompt.cursor = at < a->prompt.len ? at : a->prompt.len;
			return MF_FX_REDRAW;
		}
		mf_filter_free(f);
	}
	remember(h, line.text);
	a->prompt.action = MF_ACT_NONE;
	a->export_replace = line.overwrite;
	switch (line.action) {
	case MF_ACT_COMMAND: return mf_app_command(a, line.text) | MF_FX_REDRAW;
	case MF_ACT_FILTER:
		snprintf(a->filter, sizeof(a->filter), "%s", line.text);
		return MF_FX_ARRANGE | MF_FX_REDRAW;
	case MF_ACT_FIND:
		if (!line.text[0]) {
			mf_filter_free(a->find_parsed);
			a->find_parsed = NULL;
			a->find[0] = 0;
			return MF_FX_REDRAW;
		}
		return mf_app_act(a, line.action, line.text);
	default: break;
	}
	if (!line.text[0])
		return MF_FX_REDRAW;
	unsigned fx = mf_app_act(a, line.action, line.text);
	/* A value that was refused stays in the line, to be mended. */
	if (a->message[0] && a->message_is_error && a->prompt.action == MF_ACT_NONE)
		a->prompt = line;
	return fx;
}

unsigned mf_prompt_key(mf_app *a, const mf_key_event *k)
{
	mf_prompt *p = &a->prompt;
	size_t at;

	if (k->key != MF_KEY_TAB)
		p->tries = 0;
	switch (k->key) {
	case MF_KEY_ENTER: return enter(a);
	case MF_KEY_ESC:
	case 3:
		if (p->action == MF_ACT_FILTER && strcmp(a->filter, p->before) != 0) {
			snprintf(a->filter, sizeof(a->filter), "%s", p->before);
			p->action = MF_ACT_NONE;
			return MF_FX_ARRANGE | MF_FX_REDRAW;
		}
		p->action = MF_ACT_NONE;
		return MF_FX_REDRAW;
	case MF_KEY_BACKSPACE:
		if (p->len == 0) {
			p->action = MF_ACT_NONE;
			return MF_FX_REDRAW;
		}
		at = left_of(p, p->cursor);
		if (at == p->cursor)
			return MF_FX_REDRAW;
		erase(p, at, p->cursor);
		return changed(a);
	case MF_KEY_DELETE:
	case 4: {
		at = p->cursor;
		size_t to = right_of(p, at);
		if (to == at)
			return MF_FX_REDRAW;
		erase(p, at, to);
		return changed(a);
	}
	case 21: erase(p, 0, p->cursor); return changed(a);
	case 11: erase(p, p->cursor, p->len); return changed(a);
	case 23:
		at = p->cursor;
		while (at > 0 && p->text[at - 1] == ' ')
			at--;
		while (at > 0 && p->text[at - 1] != ' ')
			at--;
		erase(p, at, p->cursor);
		return changed(a);
	case MF_KEY_LEFT: p->cursor = left_of(p, p->cursor); return MF_FX_REDRAW;
	case MF_KEY_RIGHT: p->cursor = right_of(p, p->cursor); return MF_FX_REDRAW;
	case MF_KEY_HOME:
	case 1: p->cursor = 0; return MF_FX_REDRAW;
	case MF_KEY_END:
	case 5: p->cursor = p->len; return MF_FX_REDRAW;
	case MF_KEY_UP:
	case 16: return from_history(a, -1);
	case MF_KEY_DOWN:
	case 14: return from_history(a, 1);
	case MF_KEY_TAB: complete_line(a); return MF_FX_REDRAW;
	case 26: return MF_FX_SUSPEND | MF_FX_REDRAW;
	default: break;
	}
	if (k->key < 32 || (k->key >= 0x80 && k->key < 0xa0) || k->key >= 0x110000)
		return MF_FX_REDRAW;
	insert(p, k->key);
	return changed(a);
}
