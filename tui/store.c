/* store.c: what outlives a run: the user's keys and named filters (configuration), and the session (state). */
#include "tui_app.h"

#include <cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_MAX_BYTES 2048

/* ---- configuration ---- */

static bool config_path(char out[PATH_MAX_BYTES], const char *name)
{
	return mf_user_path(out, PATH_MAX_BYTES, "XDG_CONFIG_HOME", ".config", name);
}

/* Reads a document of the user's; MF_OK with *there false when the file does not exist. */
static mf_status read_config(mf_doc *doc, const char *name, bool *there, mf_err *err)
{
	char path[PATH_MAX_BYTES];

	*there = config_path(path, name) && access(path, F_OK) == 0;
	return *there ? mf_doc_read_file(doc, path, err) : MF_OK;
}

static mf_status filters_from(mf_app *a, const mf_doc *doc, mf_err *err)
{
	if (doc->root->kind != MF_MAP)
		return mf_fail_at(
			err, MF_EINPUT, doc->name, doc->root->line, NULL, "expected lines such as small: \"mem<40\"");
	for (const mf_node *n = doc->root->first; n && a->n_filters < MF_MAX_FILTERS; n = n->next) {
		mf_named_filter *f = &a->filters[a->n_filters];
		mf_filter *parsed = NULL;
		mf_err bad;
		int column;
		if (n->kind == MF_LIST || n->kind == MF_MAP || strlen(n->text) >= sizeof(f->text) ||
			strlen(n->key) >= sizeof(f->name))
			return mf_fail_at(err, MF_EINPUT, doc->name, n->line, n->key, "expected a filter as text");
		if (mf_filter_parse(&parsed, n->text, a->phase, &column, &bad) < 0)
			return mf_fail_at(err, MF_EINPUT, doc->name, n->line, n->key, "%s", bad.msg);
		mf_filter_free(parsed);
		snprintf(f->name, sizeof(f->name), "%s", n->key);
		snprintf(f->text, sizeof(f->text), "%s", n->text);
		a->n_filters++;
	}
	return MF_OK;
}

mf_status mf_store_load_config(mf_app *a, mf_err *err)
{
	mf_doc doc;
	bool there;
	mf_status st = read_config(&doc, "keys.yaml", &there, err);

	if (st == MF_OK && there) {
		st = mf_keymap_apply(&a->keymap, &doc, err);
		mf_doc_dispose(&doc);
	}
	if (st < 0 || (st = read_config(&doc, "filters.yaml", &there, err)) < 0 || !there)
		return st;
	a->n_filters = 0;
	st = filters_from(a, &doc, err);
	mf_doc_dispose(&doc);
	return st;
}

/* A text between double quotes, as JSON and YAML both read it. */
static void put_quoted(mf_buf *b, const char *text)
{
	mf_buf_putc(b, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			mf_buf_putc(b, '\\');
		if ((unsigned char)*text < 0x20)
			mf_buf_printf(b, "\\u%04x", (unsigned char)*text);
		else
			mf_buf_putc(b, *text);
	}
	mf_buf_putc(b, '"');
}

mf_status mf_store_save_filter(mf_app *a, const char *name, mf_err *err)
{
	char path[PATH_MAX_BYTES];
	mf_buf text = MF_BUF_INIT;
	int at = 0;

	if (!*name ||
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(name) ||
		strlen(name) >= MF_FILTER_NAME_MAX)
		return mf_fail(err, MF_EINPUT, "'%.40s': a name is made of letters, digits, - and _", name);
	while (at < a->n_filters && strcmp(a->filters[at].name, name) != 0)
		at++;
	if (at == MF_MAX_FILTERS)
		return mf_fail(err, MF_EINPUT, "%d filters are kept already; filters.yaml is where to take some away",
			MF_MAX_FILTERS);
	if (!config_path(path, "filters.yaml"))
		return mf_fail(err, MF_EENV, "neither XDG_CONFIG_HOME nor HOME names a folder to keep it in");
	mf_named_filter old = a->filters[at];
	snprintf(a->filters[at].name, sizeof(a->filters[at].name), "%s", name);
	snprintf(a->filters[at].text, sizeof(a->filters[at].text), "%s", a->filter);
	int n = at == a->n_filters ? at + 1 : a->n_filters;
	mf_buf_puts(&text, "# filters of moefs: NAME: \"EXPRESSION\", used as /@NAME\n");
	for (int i = 0; i < n; i++) {
		mf_buf_printf(&text, "%s: ", a->filters[i].name);
		put_quoted(&text, a->filters[i].text);
		mf_buf_putc(&text, '\n');
	}
	mf_status st = text.failed ? mf_fail(err, MF_ENOMEM, "out of memory") : mf_make_parents(path, err);
	if (st == MF_OK)
		st = mf_file_write(path, text.data, text.len, 0644, err);
	if (st == MF_OK)
		a->n_filters = n;
	else
		a->filters[at] = old;
	mf_buf_dispose(&text);
	return st;
}

const char *mf_filter_named(mf_app *a, const char *text)
{
	const char *names[MF_MAX_FILTERS + 1];

	if (text[0] != '@')
		return text;
	for (int i = 0; i < a->n_filters; i++) {
		if (strcmp(a->filters[i].name, text + 1) == 0)
			return a->filters[i].text;
		names[i] = a->filters[i].name;
	}
	names[a->n_filters] = NULL;
	const char *near = mf_nearest(text + 1, names);
	mf_app_say(a, true, "no filter is kept as '%.40s'%s%s; :save-filter NAME keeps one", text + 1,
		near ? "; nearest is " : "", near ? near : "");
	return NULL;
}

/* ---- session ---- */

/* One session a model, cluster and phase: what was assumed there says nothing about another. */
static bool session_path(const mf_app *a, char out[PATH_MAX_BYTES])
{
	char key[512], sha[65], rest[128];

	snprintf(key, sizeof(key), "%s\n%s\n%s", a->defaults.model.name, a->defaults.cluster.name,
		mf_choice_name(mf_phase_choices, (int)a->phase));
	if (mf_sha256_hex(key, strlen(key), sha) < 0)
		return false;
	snprintf(rest, sizeof(rest), "session-%.16s.json", sha);
	return mf_user_path(out, PATH_MAX_BYTES, "XDG_STATE_HOME", ".local/state", rest);
}

static void add_history(cJSON *o, const char *key, const mf_history *h)
{
	cJSON *list = cJSON_AddArrayToObject(o, key);
	for (int i = 0; i < h->n && list; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(h->line[i]));
}

static cJSON *session_json(const mf_app *a)
{
	cJSON *o = cJSON_CreateObject(), *set = cJSON_AddObjectToObject(o, "assumptions"),
	      *marks = cJSON_AddArrayToObject(o, "marks");
	const mf_row *row = mf_app_selected(a);
	char text[MF_PLAN_TEXT_MAX];
	const mf_knob *k;

	for (int i = 0; (k = mf_knob_at(a, i)) != NULL; i++) {
		char was[256];
		mf_knob_text(&a->now, k, text, sizeof(text));
		mf_knob_text(&a->defaults, k, was, sizeof(was));
		if (strcmp(text, was) != 0)
			cJSON_AddStringToObject(set, mf_tui_keys[k->action - 1].name, text);
	}
	if (a->theme_chosen)
		cJSON_AddStringToObject(o, "theme", a->theme);
	cJSON_AddStringToObject(o, "sort", mf_choice_name(mf_sort_key_choices, (int)a->sort));
	cJSON_AddBoolToObject(o, "descending", a->descending);
	cJSON_AddStringToObject(o, "show", mf_choice_name(mf_show_choices, (int)a->show));
	cJSON_AddStringToObject(o, "filter", a->filter);
	cJSON_AddStringToObject(o, "tab", mf_choice_name(mf_tab_choices, (int)a->tab));
	if (a->n_columns) {
		mf_columns_text(a, text, sizeof(text));
		cJSON_AddStringToObject(o, "columns", text);
	}
	for (int i = 0; i < a->n_marks; i++) {
		mf_plan_format(&a->marks[i], a->in.intern, text);
		cJSON_AddItemToArray(marks, cJSON_CreateString(text));
	}
	if (row && a->pinned) {
		mf_plan_format(&row->plan, a->in.intern, text);
		cJSON_AddStringToObject(o, "plan", text);
	}
	add_history(o, "filter_history", &a->filter_history);
	add_history(o, "command_history", &a->command_history);
	return o;
}

mf_status mf_store_save_session(const mf_app *a, mf_err *err)
{
	char path[PATH_MAX_BYTES];

	if (!session_path(a, path))
		return MF_OK; /* no home: nothing to resume from either */
	/* Another model or cluster came in on the way: its plans and assumptions are not this session's. */
	if (strcmp(a->now.model.name, a->defaults.model.name) != 0 ||
		strcmp(a->now.cluster.name, a->defaults.cluster.name) != 0)
		return MF_OK;
	cJSON *o = session_json(a);
	char *text = cJSON_Print(o);
	mf_status st = text ? mf_make_parents(path, err) : mf_fail(err, MF_ENOMEM, "out of memory");
	if (st == MF_OK)
		st = mf_file_write(path, text, strlen(text), 0600, err);
	free(text);
	cJSON_Delete(o);
	return st;
}

static const char *text_of(const mf_node *map, const char *key)
{
	const mf_node *n = mf_node_get(map, key);
	return n && n->kind == MF_STRING ? n->text : NULL;
}

static void load_history(mf_history *h, const mf_node *list)
{
	h->n = 0;
	for (const mf_node *n = list ? list->first : NULL; n && h->n < MF_HISTORY; n = n->next)
		snprintf(h->line[h->n++], MF_PROMPT_MAX, "%s", n->text);
}

/* What cannot be read any more (a choice that is gone, say) is passed over: a session is a convenience. */
static void session_from(mf_app *a, const mf_node *root)
{
	const mf_node *set = mf_node_get(root, "assumptions"), *marks = mf_node_get(root, "marks");
	const char *s;
	int v;
	mf_err ignored;

	for (const mf_node *n = set ? set->first : NULL; n; n = n->next) {
		mf_action action = mf_action_of_name(n->key, strlen(n->key));
		const mf_knob *k = action == MF_ACT_NONE ? NULL : mf_knob_of(a, action);
		if (!k)
			continue;
		if (mf_knob_set(a, k, n->text) & MF_FX_OVERLAY)
			mf_app_set_overlay(a, a->wanted, &ignored);
	}
	if ((s = text_of(root, "theme")) && strlen(s) < sizeof(a->theme)) {
		snprintf(a->theme, sizeof(a->theme), "%s", s);
		a->theme_chosen = true;
	}
	if ((s = text_of(root, "sort")) && (v = mf_choice_value(mf_sort_key_choices, s)) >= 0)
		a->sort = (mf_sort_key)v;
	if (mf_node_get(root, "descending"))
		a->descending = mf_node_get(root, "descending")->truth;
	if ((s = text_of(root, "show")) && (v = mf_choice_value(mf_show_choices, s)) >= 0)
		a->show = (mf_show)v;
	if ((s = text_of(root, "tab")) && (v = mf_choice_value(mf_tab_choices, s)) >= 0)
		a->tab = (mf_tab)v;
	if ((s = text_of(root, "columns")))
		mf_columns_set(a, s, &ignored);
	if ((s = text_of(root, "filter"))) {
		mf_filter *f = NULL;
		int column;
		if (mf_filter_parse(&f, s, a->phase, &column, &ignored) == MF_OK)
			snprintf(a->filter, sizeof(a->filter), "%s", s);
		mf_filter_free(f);
	}
	for (const mf_node *n = marks ? marks->first : NULL; n && a->n_marks < MF_MAX_MARKS; n = n->next)
		if (mf_plan_parse(&a->marks[a->n_marks], n->text, a->phase, a->in.intern, &ignored) == MF_OK)
			a->n_marks++;
	if ((s = text_of(root, "plan")) && mf_plan_parse(&a->selected, s, a->phase, a->in.intern, &ignored) == MF_OK) {
		a->pinned = true;
		a->selected_rows_id = 0; /* of no rows yet: found by the plan itself */
	}
	load_history(&a->filter_history, mf_node_get(root, "filter_history"));
	load_history(&a->command_history, mf_node_get(root, "command_history"));
}

mf_status mf_store_load_session(mf_app *a, mf_err *err)
{
	char path[PATH_MAX_BYTES], words[256];
	mf_doc doc;
	mf_status st;

	if (!session_path(a, path) || access(path, F_OK) != 0)
		return MF_OK;
	if ((st = mf_doc_read_file(&doc, path, err)) < 0)
		return st;
	session_from(a, doc.root);
	mf_doc_dispose(&doc);
	memcpy(&a->settled, &a->now, sizeof(a->now));
	a->message[0] = 0;
	if (mf_whatif_words(a, words, sizeof(words)) > 0)
		mf_app_say(a, false, "resumed with %s; :defaults puts the assumptions back", words);
	return MF_OK;
}
