/* update.c: what keys, commands and search news do to the model. Nothing here draws or waits. */
#include "app.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void mf_app_say(mf_app *a, bool error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->message, sizeof a->message, fmt, ap);
	va_end(ap);
	a->message_error = error;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static const mf_row *row_of_rank(const mf_app *a, size_t rank)
{
	return &a->found->rows[a->found->order[rank]];
}

size_t mf_app_rows(const mf_app *a)
{
	return a->found ? a->n_shown : a->live.n;
}

const mf_row *mf_app_row(const mf_app *a, size_t place)
{
	if (place >= mf_app_rows(a))
		return NULL;
	return a->found ? row_of_rank(a, a->shown[place]) : &a->live.rows[place];
}

static bool is_rejected(const mf_app *a, const mf_row *row)
{
	return a->constraint && row->rule != MF_RULE_NONE;
}

static bool visible(const mf_app *a, const mf_row *row)
{
	return a->show == MF_SHOW_ALL || (a->show == MF_SHOW_REJECTED) == is_rejected(a, row);
}

static void select_place(mf_app *a, size_t place)
{
	const mf_row *row;
	size_t n = mf_app_rows(a);

	a->cursor = n ? (place < n ? place : n - 1) : 0;
	row = mf_app_row(a, a->cursor);
	a->has_selection = row != NULL;
	if (row)
		a->selection = row->plan;
	if (!row || !a->detail.filled || memcmp(&a->detail.plan, &row->plan, sizeof row->plan) != 0) {
		a->detail.filled = false;
		a->detail_scroll = 0;
	}
}

/* Rebuilds the list from ranking, show and filter; the cursor stays on its plan, or near its place when that is gone. */
static void rebuild_list(mf_app *a)
{
	mf_filter_ctx ctx = {a->in.intern, mf_cluster_world(&a->cluster)};
	size_t place = a->cursor;

	a->n_shown = 0;
	if (!a->found)
		return;
	for (size_t rank = 0; rank < a->found->n_rows; rank++) {
		const mf_row *row = row_of_rank(a, rank);

		if (!visible(a, row) || (a->filter && !mf_filter_match(a->filter, &ctx, row, (uint32_t)rank + 1)))
			continue;
		if (a->has_selection && memcmp(&row->plan, &a->selection, sizeof row->plan) == 0)
			place = a->n_shown;
		a->shown[a->n_shown++] = (uint32_t)rank;
	}
	a->detail.filled = false;
	select_place(a, place);
}

static unsigned rank_again(mf_app *a)
{
	if (a->found && mf_search_rank(a->found, a->sort, a->descending, a->tax, a->opts->search.threads) < 0)
		mf_app_say(a, true, "out of memory: the order is the old one");
	rebuild_list(a);
	return MF_FX_REDRAW;
}

/* ---- searching ------------------------------------------------------------------------------------------------------ */

static void free_judges(mf_app *a)
{
	mf_emitter_free(a->emitter);
	mf_cost_free(a->evaluator);
	a->emitter = NULL;
	a->evaluator = NULL;
	a->detail.filled = false;
}

/* A new emitter and evaluator for the inputs, and a search in the background. */
static mf_status search_again(mf_app *a, mf_err *err)
{
	mf_search_opts o = a->opts->search;
	mf_status st;

	mf_worker_cancel(a->worker);
	free_judges(a);
	mf_consts_factory(&a->consts, &a->cluster);
	if (a->overlay[0] && (st = mf_consts_overlay(&a->consts, a->overlay, err)) < 0)
		return st;
	if ((st = mf_emitter_new(&a->emitter, &a->in, err)) < 0
		|| (st = mf_cost_new(&a->evaluator, &a->in, &a->consts, &a->cost, err)) < 0)
		return st;
	a->realizer = (mf_realizer){a->emitter, a->evaluator, true};
	o.space = a->space;
	o.constraint = true; /* always judged; the constraint toggle decides whether verdicts count */
	o.cost = a->cost;
	st = mf_worker_start(a->worker, &a->in, &a->consts, &o, err);
	a->searching = st == MF_OK;
	return st;
}

static unsigned search_or_say(mf_app *a)
{
	mf_err err;

	if (search_again(a, &err) < 0)
		mf_app_say(a, true, "%s%s%s", err.file, err.file[0] ? ": " : "", err.msg);
	return MF_FX_REDRAW;
}

unsigned mf_app_search_news(mf_app *a)
{
	mf_live *live = a->found ? NULL : &a->live;
	mf_live ignored;
	uint32_t *shown;
	mf_news news;

	mf_worker_take(a->worker, live ? live : &ignored, &news);
	if (!news.ended) {
		if (live)
			select_place(a, a->cursor);
		return MF_FX_REDRAW;
	}
	a->searching = false;
	if (news.status < 0) {
		mf_app_say(a, true, "search failed: %s", news.err.msg);
		return MF_FX_REDRAW;
	}
	shown = malloc((news.result->n_rows + 1) * sizeof *shown);
	if (!shown) {
		mf_search_free(news.result);
		mf_app_say(a, true, "out of memory for %zu plans", news.result->n_rows);
		return MF_FX_REDRAW;
	}
	mf_search_free(a->found);
	free(a->shown);
	a->found = news.result;
	a->shown = shown;
	/* The first answer puts the cursor on the first plan that can be built. */
	if (!a->has_selection)
		a->cursor = 0;
	return rank_again(a);
}

/* ---- set-up ---------------------------------------------------------------------------------------------------------- */

mf_status mf_app_init(mf_app *a, const mf_tui_opts *opts, mf_err *err)
{
	const mf_inputs *in = opts->inputs;
	mf_status st;

	memset(a, 0, sizeof *a);
	a->opts = opts;
	a->model = *in->model;
	a->cluster = *in->cluster;
	a->workload = *in->workload;
	a->stack = *in->stack;
	a->site = *in->site;
	a->in = (mf_inputs){&a->model, &a->cluster, &a->workload, &a->stack, &a->site, in->intern};
	a->cost = opts->search.cost;
	a->space = opts->search.space;
	a->constraint = opts->search.constraint;
	a->tax = a->cost.tax;
	a->cost.tax = true;
	a->descending = true;
	a->mouse = opts->mouse;
	a->cells.ascii = opts->ascii;
	a->cursor_x = -1;
	snprintf(a->overlay, sizeof a->overlay, "%s", opts->overlay ? opts->overlay : "");
	a->detail.ex = calloc(1, sizeof *a->detail.ex);
	if (!a->detail.ex)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	if ((st = mf_theme_load(&a->theme, opts->theme ? opts->theme : "default", err)) < 0
		|| (st = mf_worker_new(&a->worker, err)) < 0 || (st = search_again(a, err)) < 0)
		mf_app_dispose(a);
	return st;
}

void mf_app_dispose(mf_app *a)
{
	mf_worker_free(a->worker);
	free_judges(a);
	mf_search_free(a->found);
	mf_filter_free(a->filter);
	mf_filter_free(a->find);
	free(a->shown);
	free(a->detail.ex);
	if (a->detail.has_argv)
		mf_argv_dispose(&a->detail.argv);
	mf_buf_dispose(&a->copy);
	mf_cells_dispose(&a->cells);
	memset(a, 0, sizeof *a);
}

unsigned mf_app_resize(mf_app *a, int w, int h)
{
	if (mf_cells_resize(&a->cells, w, h) < 0)
		mf_app_say(a, true, "out of memory for a screen of %dx%d", w, h);
	return MF_FX_REDRAW | MF_FX_INVALIDATE;
}

/* ---- actions --------------------------------------------------------------------------------------------------------- */

static size_t page(const mf_app *a)
{
	int h = mf_layout_of(a->cells.w, a->cells.h, a->detail_open).table.h - 1;

	return h > 1 ? (size_t)h : 1;
}

static unsigned move(mf_app *a, long by)
{
	size_t n = mf_app_rows(a), at = a->cursor;

	if (a->mode == MF_MODE_HELP) {
		a->help_scroll = a->help_scroll + by < 0 ? 0 : (int)(a->help_scroll + by);
		return MF_FX_REDRAW;
	}
	if (a->detail_open && a->detail_focus) {
		a->detail_scroll = a->detail_scroll + by < 0 ? 0 : (int)(a->detail_scroll + by);
		return MF_FX_REDRAW;
	}
	if (by < 0)
		at = (size_t)-by > at ? 0 : at - (size_t)-by;
	else
		at = n - at > (size_t)by ? at + (size_t)by : n ? n - 1 : 0;
	select_place(a, at);
	return MF_FX_REDRAW;
}

/* Next place after the cursor that the find expression matches, or, without one, whose plan can be built. */
static unsigned jump(mf_app *a, bool forward)
{
	mf_filter_ctx ctx = {a->in.intern, mf_cluster_world(&a->cluster)};
	size_t n = mf_app_rows(a);

	for (size_t i = 1; i <= n; i++) {
		size_t at = forward ? (a->cursor + i) % n : (a->cursor + n - i) % n;
		const mf_row *row = mf_app_row(a, at);
		uint32_t rank = a->found ? a->shown[at] + 1 : (uint32_t)at + 1;

		if (a->find ? mf_filter_match(a->find, &ctx, row, rank) : row->rule == MF_RULE_NONE) {
			select_place(a, at);
			return MF_FX_REDRAW;
		}
	}
	mf_app_say(a, false, a->find ? "nothing matches %s" : "no plan here can be built%s", a->find ? a->find_text : "");
	return MF_FX_REDRAW;
}

static unsigned set_filter(mf_app *a, mf_filter **slot, char *text, const char *line)
{
	mf_filter *f;
	int column;
	mf_err err;

	if (mf_filter_parse(&f, line, a->workload.phase, &column, &err) < 0) {
		mf_app_say(a, true, "column %d: %s", column, err.msg);
		return MF_FX_REDRAW;
	}
	mf_filter_free(*slot);
	*slot = f;
	snprintf(text, MF_LINE_MAX, "%s", line);
	a->message[0] = '\0';
	if (slot == &a->filter)
		rebuild_list(a);
	return MF_FX_REDRAW;
}

static unsigned open_prompt(mf_app *a, mf_action action, const char *text)
{
	a->mode = MF_MODE_PROMPT;
	a->prompt_action = action;
	snprintf(a->prompt, sizeof a->prompt, "%s", text);
	a->prompt_len = strlen(a->prompt);
	a->history_at = a->n_history;
	a->message[0] = '\0';
	return MF_FX_REDRAW;
}

static unsigned toggle_mark(mf_app *a)
{
	const mf_row *row = mf_app_row(a, a->cursor);

	if (!row)
		return 0;
	for (size_t i = 0; i < a->n_marks; i++)
		if (memcmp(&a->marks[i], &row->plan, sizeof row->plan) == 0) {
			memmove(a->marks + i, a->marks + i + 1, (a->n_marks - i - 1) * sizeof *a->marks);
			a->n_marks--;
			return MF_FX_REDRAW;
		}
	if (a->n_marks == MF_MAX_MARKS) {
		mf_app_say(a, true, "%d plans are marked already; unmark one first", MF_MAX_MARKS);
		return MF_FX_REDRAW;
	}
	a->marks[a->n_marks++] = row->plan;
	return move(a, 1);
}

static unsigned do_copy(mf_app *a)
{
	if (!mf_app_row(a, a->cursor))
		return 0;
	mf_app_fill_detail(a);
	mf_buf_clear(&a->copy);
	if (a->constraint && *a->detail.refusal.rule) {
		mf_buf_puts(&a->copy, a->detail.refusal.reason);
		mf_app_say(a, false, "copied the refusal");
	} else {
		for (size_t i = 0; i < a->detail.argv.n; i++) {
			if (i)
				mf_buf_putc(&a->copy, ' ');
			mf_buf_shell_quote(&a->copy, a->detail.argv.args[i]);
		}
		mf_app_say(a, false, "copied the command (%zu words)", a->detail.argv.n);
	}
	return MF_FX_REDRAW | MF_FX_COPY;
}

static unsigned do_export(mf_app *a, const char *path)
{
	mf_buf command = MF_BUF_INIT, provenance = MF_BUF_INIT, beside = MF_BUF_INIT;
	mf_command_format format;
	mf_err err;
	mf_status st;

	mf_app_fill_detail(a);
	if (a->constraint && *a->detail.refusal.rule) {
		mf_app_say(a, true, "refused plans have no command: %.400s", a->detail.refusal.reason);
		return MF_FX_REDRAW;
	}
	st = mf_command_format_of_path(path, &format, &err);
	if (st == MF_OK)
		st = mf_command_write(&a->detail.argv, &a->in, &a->selection, format, &command, &err);
	if (st == MF_OK)
		st = mf_provenance_write(&a->detail.argv, &a->in, &a->selection, &provenance, &err);
	mf_buf_printf(&beside, "%s.provenance.json", path);
	if (st == MF_OK)
		st = mf_file_write(mf_buf_text(&beside), provenance.data, provenance.len, 0644, &err);
	if (st == MF_OK)
		st = mf_file_write(path, command.data, command.len,
			format == MF_CMD_SHELL || format == MF_CMD_SBATCH ? 0755 : 0644, &err);
	if (st == MF_OK)
		mf_app_say(a, false, "wrote %.400s and its provenance", path);
	else
		mf_app_say(a, true, "%s%s%s", err.file, err.file[0] ? ": " : "", err.msg);
	mf_buf_dispose(&command);
	mf_buf_dispose(&provenance);
	mf_buf_dispose(&beside);
	return MF_FX_REDRAW;
}

/* A file name for the selected plan: its text without slashes. */
static void default_export_name(const mf_app *a, char out[MF_LINE_MAX])
{
	char text[MF_PLAN_TEXT_MAX];

	mf_plan_format(&a->selection, a->in.intern, text);
	for (char *c = text; *c; c++)
		if (*c == '/' || *c == ':' || *c == '+' || *c == ',')
			*c = '-';
	snprintf(out, MF_LINE_MAX, "%.96s-%.400s.sh", a->model.name, text);
	for (char *c = out; *c; c++)
		if (*c == '/' || *c == ' ')
			*c = '-';
}

static unsigned change_model(mf_app *a, const char *name)
{
	mf_model m;
	mf_err err;

	if (mf_model_load(&m, name, &err) < 0) {
		mf_app_say(a, true, "%s%s%s%s%s", err.file, err.file[0] ? ": " : "", err.field, err.field[0] ? ": " : "", err.msg);
		return MF_FX_REDRAW;
	}
	mf_worker_cancel(a->worker);
	a->model = m;
	a->has_selection = false;
	return search_or_say(a);
}

static unsigned change_cluster(mf_app *a, const char *name)
{
	mf_cluster c;
	mf_err err;
	mf_status st = a->opts->load_cluster ? a->opts->load_cluster(a->opts->payload, &c, name, &err)
					     : mf_cluster_load(&c, name, &err);

	if (st < 0) {
		mf_app_say(a, true, "%s", err.msg);
		return MF_FX_REDRAW;
	}
	mf_worker_cancel(a->worker);
	a->cluster = c;
	a->has_selection = false;
	return search_or_say(a);
}

/* No argument: the next calibrated overlay, and none behind the last. */
static unsigned change_overlay(mf_app *a, const char *name)
{
	const char *const *names = mf_builtin_names("calibrated");
	char old[64];
	mf_consts probe = a->consts;
	mf_err err;
	size_t i = 0;

	memcpy(old, a->overlay, sizeof old);
	if (!*name) {
		while (names[i] && a->overlay[0] && strcmp(names[i], a->overlay) != 0)
			i++;
		name = !a->overlay[0] ? names[0] : names[i] ? names[i + 1] : NULL;
		name = name ? name : "none";
	}
	mf_worker_cancel(a->worker);
	snprintf(a->overlay, sizeof a->overlay, "%s", strcmp(name, "none") == 0 ? "" : name);
	if (a->overlay[0] && mf_consts_overlay(&probe, a->overlay, &err) < 0) {
		memcpy(a->overlay, old, sizeof old);
		mf_app_say(a, true, "%s", err.msg);
	} else {
		mf_app_say(a, false, "overlay: %s", a->overlay[0] ? a->overlay : "none (factory constants)");
	}
	return search_or_say(a);
}

/* Takes a word of `choices`, or, without one, the next in order. -1 when the word is unknown. */
static int next_choice(mf_app *a, const mf_choice *choices, int now, const char *word)
{
	int v;

	if (*word) {
		v = mf_choice_value(choices, word);
		if (v < 0)
			mf_app_say(a, true, "no such choice: %.80s", word);
		return v;
	}
	for (const mf_choice *c = choices; c->name; c++)
		if (c->value == now)
			return c[1].name ? c[1].value : choices[0].value;
	return choices[0].value;
}

static const mf_choice show_choices[] = {{MF_SHOW_ALL, "all", ""}, {MF_SHOW_BUILDABLE, "buildable", ""},
	{MF_SHOW_REJECTED, "rejected", ""}, {0, NULL, NULL}};
static const mf_choice on_off[] = {{0, "off", ""}, {1, "on", ""}, {0, NULL, NULL}};
static const mf_choice tab_choices[] = {{MF_TAB_OVERVIEW, "overview", ""}, {MF_TAB_MEMORY, "memory", ""},
	{MF_TAB_TIME, "time", ""}, {MF_TAB_WHY, "why", ""}, {MF_TAB_ARGV, "argv", ""}, {0, NULL, NULL}};

static unsigned change_theme(mf_app *a, const char *name)
{
	mf_theme t;
	mf_err err;
	size_t i = 0;

	if (!*name) {
		while (mf_theme_names[i] && strcmp(mf_theme_names[i], a->theme.name) != 0)
			i++;
		name = mf_theme_names[i] && mf_theme_names[i + 1] ? mf_theme_names[i + 1] : mf_theme_names[0];
	}
	if (mf_theme_load(&t, name, &err) < 0) {
		mf_app_say(a, true, "%s", err.msg);
		return MF_FX_REDRAW;
	}
	a->theme = t;
	mf_app_say(a, false, "theme: %s", t.name);
	return MF_FX_REDRAW | MF_FX_THEME | MF_FX_INVALIDATE;
}

static unsigned go_back(mf_app *a)
{
	if (a->mode != MF_MODE_LIST)
		a->mode = MF_MODE_LIST;
	else if (a->detail_focus)
		a->detail_focus = false;
	else if (a->detail_open)
		a->detail_open = false;
	else if (a->filter_text[0])
		return set_filter(a, &a->filter, a->filter_text, "");
	a->message[0] = '\0';
	return MF_FX_REDRAW;
}

static unsigned open_detail(mf_app *a, const char *word)
{
	int tab;

	if (*word) {
		tab = next_choice(a, tab_choices, (int)a->tab, word);
		if (tab < 0)
			return MF_FX_REDRAW;
		a->tab = (mf_tab)tab;
		a->detail_open = true;
	} else if (!a->detail_open) {
		a->detail_open = true;
	} else {
		a->detail_focus = !a->detail_focus;
	}
	return MF_FX_REDRAW;
}

static unsigned change_tab(mf_app *a, int by)
{
	a->detail_open = true;
	a->tab = (mf_tab)(((int)a->tab + by + MF_TAB_COUNT) % MF_TAB_COUNT);
	a->detail_scroll = 0;
	return MF_FX_REDRAW;
}

static unsigned ask_or(mf_app *a, mf_action action, const char *arg, unsigned (*fn)(mf_app *, const char *), const char *text)
{
	return *arg ? fn(a, arg) : open_prompt(a, action, text);
}

static unsigned act(mf_app *a, mf_action action, const char *arg)
{
	char name[MF_LINE_MAX];
	int v;

	switch (action) {
	case MF_ACT_DOWN: return move(a, 1);
	case MF_ACT_UP: return move(a, -1);
	case MF_ACT_TOP:
		if (a->detail_focus || a->mode == MF_MODE_HELP)
			return move(a, -100000);
		select_place(a, 0);
		return MF_FX_REDRAW;
	case MF_ACT_BOTTOM: return move(a, a->mode == MF_MODE_HELP || a->detail_focus ? 40 : (long)mf_app_rows(a));
	case MF_ACT_PAGE_DOWN: return move(a, (long)page(a));
	case MF_ACT_PAGE_UP: return move(a, -(long)page(a));
	case MF_ACT_HALF_DOWN: return move(a, (long)(page(a) + 1) / 2);
	case MF_ACT_HALF_UP: return move(a, -(long)((page(a) + 1) / 2));
	case MF_ACT_NEXT: return jump(a, true);
	case MF_ACT_PREVIOUS: return jump(a, false);
	case MF_ACT_DETAIL: return open_detail(a, arg);
	case MF_ACT_TAB_NEXT: return change_tab(a, a->detail_open ? 1 : 0);
	case MF_ACT_TAB_PREVIOUS: return change_tab(a, a->detail_open ? -1 : 0);
	case MF_ACT_BACK: return go_back(a);
	case MF_ACT_MARK: return toggle_mark(a);
	case MF_ACT_COMPARE:
		if (a->n_marks < 2)
			mf_app_say(a, true, "mark two to four plans with Space first");
		else
			a->mode = MF_MODE_COMPARE;
		return MF_FX_REDRAW;
	case MF_ACT_FILTER:
		return *arg ? set_filter(a, &a->filter, a->filter_text, arg) : open_prompt(a, action, a->filter_text);
	case MF_ACT_FIND:
		if (!*arg)
			return open_prompt(a, action, a->find_text);
		set_filter(a, &a->find, a->find_text, arg);
		return a->message_error && a->message[0] ? MF_FX_REDRAW : jump(a, true);
	case MF_ACT_SHOW:
		if ((v = next_choice(a, show_choices, (int)a->show, arg)) >= 0) {
			a->show = (mf_show)v;
			rebuild_list(a);
		}
		return MF_FX_REDRAW;
	case MF_ACT_SORT:
		if ((v = next_choice(a, mf_sort_key_choices, (int)a->sort, arg)) < 0)
			return MF_FX_REDRAW;
		a->sort = (mf_sort_key)v;
		a->descending = a->sort == MF_SORT_THROUGHPUT || a->sort == MF_SORT_HIDDEN;
		return rank_again(a);
	case MF_ACT_REVERSE:
		a->descending = !a->descending;
		return rank_again(a);
	case MF_ACT_CONSTRAINT:
		if ((v = next_choice(a, on_off, a->constraint, arg)) >= 0) {
			a->constraint = v;
			mf_app_say(a, false, v ? "constraint on: refused plans are marked" : "constraint off: every plan ranks, buildable or not");
			rebuild_list(a);
		}
		return MF_FX_REDRAW;
	case MF_ACT_TAX:
		if ((v = next_choice(a, on_off, a->tax, arg)) < 0)
			return MF_FX_REDRAW;
		a->tax = v;
		mf_app_say(a, false, v ? "taxes and penalties on" : "taxes and penalties off");
		return rank_again(a);
	case MF_ACT_OVERLAY: return change_overlay(a, arg);
	case MF_ACT_LEDGER:
		if ((v = next_choice(a, mf_ledger_choices, (int)a->cost.ledger, arg)) < 0)
			return MF_FX_REDRAW;
		mf_worker_cancel(a->worker);
		a->cost.ledger = (mf_ledger)v;
		return search_or_say(a);
	case MF_ACT_SPACE:
		if ((v = next_choice(a, mf_space_choices, (int)a->space, arg)) < 0)
			return MF_FX_REDRAW;
		mf_worker_cancel(a->worker);
		a->space = (mf_space)v;
		return search_or_say(a);
	case MF_ACT_MODEL: return ask_or(a, action, arg, change_model, "");
	case MF_ACT_CLUSTER: return ask_or(a, action, arg, change_cluster, "");
	case MF_ACT_EXPORT:
		if (!mf_app_row(a, a->cursor))
			return 0;
		default_export_name(a, name);
		return ask_or(a, action, arg, do_export, name);
	case MF_ACT_COPY: return do_copy(a);
	case MF_ACT_THEME: return change_theme(a, arg);
	case MF_ACT_MOUSE:
		if ((v = next_choice(a, on_off, a->mouse, arg)) >= 0)
			a->mouse = v;
		mf_app_say(a, false, a->mouse ? "mouse on; Shift-drag selects text" : "mouse off");
		return MF_FX_REDRAW | MF_FX_MOUSE;
	case MF_ACT_COMMAND: return open_prompt(a, action, "");
	case MF_ACT_HELP:
		a->mode = a->mode == MF_MODE_HELP ? MF_MODE_LIST : MF_MODE_HELP;
		a->help_scroll = 0;
		return MF_FX_REDRAW;
	case MF_ACT_REDRAW: return MF_FX_REDRAW | MF_FX_INVALIDATE;
	case MF_ACT_SUSPEND: return MF_FX_SUSPEND | MF_FX_REDRAW | MF_FX_INVALIDATE;
	case MF_ACT_QUIT: return MF_FX_QUIT;
	case MF_ACT_NONE:
	case MF_ACT_COUNT: break;
	}
	return 0;
}

unsigned mf_app_command(mf_app *a, const char *line)
{
	size_t len;
	mf_action action;

	line += strspn(line, " :");
	len = strcspn(line, " ");
	if (!len)
		return MF_FX_REDRAW;
	action = mf_action_of_name(line, len);
	if (action == MF_ACT_NONE) {
		mf_app_say(a, true, "no command '%.*s'; ? lists them", (int)len, line);
		return MF_FX_REDRAW;
	}
	a->message[0] = '\0';
	return act(a, action, line + len + strspn(line + len, " "));
}

/* ---- prompt --------------------------------------------------------------------------------------------------------- */

static void remember(mf_app *a)
{
	if (!a->prompt[0] || (a->n_history && strcmp(a->history[a->n_history - 1], a->prompt) == 0))
		return;
	if (a->n_history == MF_HISTORY) {
		memmove(a->history, a->history + 1, sizeof a->history - sizeof a->history[0]);
		a->n_history--;
	}
	memcpy(a->history[a->n_history++], a->prompt, sizeof a->prompt);
}

static unsigned accept(mf_app *a)
{
	mf_action action = a->prompt_action;

	a->mode = MF_MODE_LIST;
	remember(a);
	if (action == MF_ACT_COMMAND)
		return mf_app_command(a, a->prompt);
	if (action == MF_ACT_FILTER)
		return set_filter(a, &a->filter, a->filter_text, a->prompt);
	if (!a->prompt[0])
		return MF_FX_REDRAW;
	return act(a, action, a->prompt);
}

/* A filter that parses applies while it is typed; one that does not keeps the last good result. */
static unsigned typed(mf_app *a)
{
	mf_filter *f;
	int column;
	mf_err err;

	if (a->prompt_action != MF_ACT_FILTER)
		return MF_FX_REDRAW;
	if (mf_filter_parse(&f, a->prompt, a->workload.phase, &column, &err) < 0) {
		mf_app_say(a, true, "column %d: %s", column, err.msg);
		return MF_FX_REDRAW;
	}
	a->message[0] = '\0';
	mf_filter_free(a->filter);
	a->filter = f;
	rebuild_list(a);
	return MF_FX_REDRAW;
}

static unsigned recall(mf_app *a, int by)
{
	if ((by < 0 && a->history_at == 0) || (by > 0 && a->history_at >= a->n_history))
		return 0;
	a->history_at += (size_t)by;
	snprintf(a->prompt, sizeof a->prompt, "%s", a->history_at < a->n_history ? a->history[a->history_at] : "");
	a->prompt_len = strlen(a->prompt);
	return typed(a);
}

/* Tab in a command: completes the action's name as far as it is sure. */
static unsigned complete(mf_app *a)
{
	const mf_tui_key *only = NULL;

	if (a->prompt_action != MF_ACT_COMMAND || strchr(a->prompt, ' '))
		return 0;
	for (const mf_tui_key *k = mf_tui_keys; k->name; k++)
		if (strncmp(k->name, a->prompt, a->prompt_len) == 0) {
			if (only) {
				mf_app_say(a, false, "%s, %s, ...", only->name, k->name);
				return MF_FX_REDRAW;
			}
			only = k;
		}
	if (only) {
		snprintf(a->prompt, sizeof a->prompt, "%s ", only->name);
		a->prompt_len = strlen(a->prompt);
	}
	return MF_FX_REDRAW;
}

static unsigned prompt_key(mf_app *a, mf_key k)
{
	char bytes[4], accepted[MF_LINE_MAX];
	size_t n;

	switch (k) {
	case MF_KEY_ENTER: return accept(a);
	case MF_KEY_ESC:
	case 3: /* Ctrl-C */
		a->mode = MF_MODE_LIST;
		/* A filter typed halfway goes back to the accepted one. */
		memcpy(accepted, a->filter_text, sizeof accepted);
		return a->prompt_action == MF_ACT_FILTER ? set_filter(a, &a->filter, a->filter_text, accepted) : MF_FX_REDRAW;
	case MF_KEY_BACKSPACE:
	case 8:
		if (!a->prompt_len) {
			a->mode = MF_MODE_LIST;
			return MF_FX_REDRAW;
		}
		do
			a->prompt_len--;
		while (a->prompt_len && ((unsigned char)a->prompt[a->prompt_len] & 0xc0) == 0x80);
		a->prompt[a->prompt_len] = '\0';
		return typed(a);
	case 21: /* Ctrl-U */
		a->prompt_len = 0;
		a->prompt[0] = '\0';
		return typed(a);
	case MF_KEY_UP: return recall(a, -1);
	case MF_KEY_DOWN: return recall(a, 1);
	case MF_KEY_TAB: return complete(a);
	default: break;
	}
	if (k < ' ' || k >= 0x110000)
		return 0;
	n = mf_utf8_encode(k, bytes);
	if (a->prompt_len + n < sizeof a->prompt) {
		memcpy(a->prompt + a->prompt_len, bytes, n);
		a->prompt_len += n;
		a->prompt[a->prompt_len] = '\0';
	}
	return typed(a);
}

static unsigned mouse(mf_app *a, const mf_key_event *k)
{
	mf_rect t = mf_layout_of(a->cells.w, a->cells.h, a->detail_open).table;

	if (k->button == 64 || k->button == 65)
		return move(a, k->button == 64 ? -3 : 3);
	if (k->button == 0 && k->y > t.y && k->y < t.y + t.h && k->x >= t.x && k->x < t.x + t.w)
		select_place(a, a->top + (size_t)(k->y - t.y - 1));
	return MF_FX_REDRAW;
}

unsigned mf_app_key(mf_app *a, const mf_key_event *k)
{
	mf_action action;
	char name[16];

	if (k->key == MF_KEY_MOUSE)
		return mouse(a, k);
	if (a->mode == MF_MODE_PROMPT)
		return prompt_key(a, k->key);
	action = mf_key_action(k->key);
	if ((a->mode == MF_MODE_HELP || a->mode == MF_MODE_COMPARE) && (action == MF_ACT_QUIT || k->key == 'd'))
		return go_back(a);
	a->message[0] = '\0';
	if (action == MF_ACT_NONE) {
		mf_key_name(k->key, name);
		mf_app_say(a, false, "%s does nothing here; ? lists the keys", name);
		return MF_FX_REDRAW;
	}
	return act(a, action, "");
}
