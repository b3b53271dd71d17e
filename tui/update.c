/* update.c: what keys, commands and news do to the model. Pure: it changes the model and returns effects. */
#include "tui_app.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const mf_choice mf_show_choices[] = {
	{MF_SHOW_ALL, "all", "every scored plan, refused ones in place"},
	{MF_SHOW_BUILDABLE, "buildable", "plans that can be built"},
	{MF_SHOW_REJECTED, "rejected", "plans that cannot"},
	{0, NULL, NULL},
};
void mf_app_say(mf_app *a, bool is_error, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(a->message, sizeof(a->message), fmt, ap);
	va_end(ap);
	a->message_is_error = is_error;
}

void mf_app_say_error(mf_app *a, const char *what, const mf_err *err)
{
	char text[MF_ERR_TEXT_MAX];
	mf_app_say(a, true, "%s%s", what, mf_err_text(err, text));
}

const mf_row *mf_app_selected(const mf_app *a)
{
	return a->cursor < a->n_view ? &a->rows[a->view[a->cursor]] : NULL;
}

/* ---- moving ---- */

static void keep_visible(mf_app *a)
{
	size_t page = (size_t)(a->page > 0 ? a->page : 1);
	if (a->n_view == 0)
		a->cursor = a->top = 0;
	else if (a->cursor >= a->n_view)
		a->cursor = a->n_view - 1;
	if (a->cursor < a->top)
		a->top = a->cursor;
	if (a->cursor >= a->top + page)
		a->top = a->cursor - page + 1;
	if (a->top + page > a->n_view)
		a->top = a->n_view > page ? a->n_view - page : 0;
}

static unsigned go(mf_app *a, size_t to)
{
	const mf_row *row;
	a->cursor = to;
	a->pinned = true;
	keep_visible(a);
	if ((row = mf_app_selected(a))) {
		a->selected = row->plan;
		a->selected_row = a->view[a->cursor];
		a->selected_rows_id = a->rows_id;
	}
	a->detail_scroll = 0;
	return MF_FX_REDRAW;
}

/* To a row that may not be on show. */
static unsigned go_to_row(mf_app *a, uint32_t row)
{
	for (size_t i = 0; i < a->n_view && row != MF_NO_ROW; i++)
		if (a->view[i] == row)
			return go(a, i);
	if (row != MF_NO_ROW && a->filter[0])
		mf_app_say(a, false, "that plan is hidden by the filter; Esc clears it");
	else if (row != MF_NO_ROW)
		mf_app_say(a, false, "that plan is not among the %s ones; :show all brings it back",
			mf_choice_name(mf_show_choices, (int)a->show));
	return MF_FX_REDRAW;
}

static int clamp(int v, int lo, int hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* A panel whose lines are chosen from, not scrolled. */
static bool listed(const mf_app *a)
{
	return a->panel == MF_PANEL_PICKER || a->panel == MF_PANEL_ASSUMPTIONS || a->panel == MF_PANEL_BOUNDARIES;
}

static unsigned move(mf_app *a, long by)
{
	if (listed(a)) {
		a->item = clamp(a->item + clamp((int)by, -100000, 100000), 0, a->n_items > 0 ? a->n_items - 1 : 0);
		return MF_FX_REDRAW;
	}
	if (a->panel != MF_PANEL_NONE) {
		int most = a->panel_lines - a->panel_height;
		a->panel_scroll = clamp(a->panel_scroll + (int)by, 0, most > 0 ? most : 0);
		return MF_FX_REDRAW;
	}
	if (a->focus == MF_FOCUS_SIDE) {
		/* A log is read from its end: down is towards the newest line. */
		int most = a->side.lines - a->side.height;
		int to = a->side.scroll + (a->side.tab == MF_SIDE_NODE ? (int)by : -(int)by);
		a->side.scroll = clamp(to, 0, most > 0 ? most : 0);
		return MF_FX_REDRAW;
	}
	if (a->focus == MF_FOCUS_DETAIL) {
		int most = a->detail_lines - a->detail_height;
		a->detail_scroll = clamp(a->detail_scroll + (int)by, 0, most > 0 ? most : 0);
		return MF_FX_REDRAW;
	}
	if (a->n_view == 0)
		return MF_FX_REDRAW;
	if (a->front_open)
		return go_to_row(a, mf_plot_step(a, by));
	size_t to = by < 0 ? (a->cursor > (size_t)-by ? a->cursor - (size_t)-by : 0) : a->cursor + (size_t)by;
	return go(a, to < a->n_view ? to : a->n_view - 1);
}

static int page_of(const mf_app *a)
{
	int page = a->panel != MF_PANEL_NONE     ? a->panel_height
		   : a->focus == MF_FOCUS_SIDE   ? a->side.height
		   : a->focus == MF_FOCUS_DETAIL ? a->detail_height
						 : a->page;
	return page > 1 ? page - 1 : 1;
}

static unsigned next(mf_app *a, bool forward)
{
	mf_filter_ctx ctx = {a->in.intern, a->world};
	for (size_t i = a->cursor;;) {
		if (forward ? ++i >= a->n_view : i-- == 0)
			break;
		uint32_t r = a->view[i];
		uint32_t rank = a->rank_of ? a->rank_of[r] + 1 : 0;
		if (a->find_parsed ? mf_filter_match(a->find_parsed, &ctx, &a->rows[r], rank)
				   : a->rows[r].rule == MF_RULE_NONE)
			return go(a, i);
	}
	mf_app_say(a, false, "no %s %s %s", a->find_parsed ? "match of" : "buildable plan",
		a->find_parsed ? a->find : "", forward ? "below" : "above");
	return MF_FX_REDRAW;
}

unsigned mf_app_arranged(mf_app *a, const uint32_t *rank_of, const uint32_t *view, size_t n_view)
{
	a->rank_of = rank_of;
	a->view = view;
	a->n_view = n_view;
	if (!a->pinned) {
		a->cursor = a->top = 0;
	} else {
		size_t offset = a->cursor >= a->top ? a->cursor - a->top : 0, at = n_view;
		bool same = a->selected_rows_id == a->rows_id;
		for (size_t i = 0; i < n_view && at == n_view; i++)
			if (same ? view[i] == a->selected_row
				 : memcmp(&a->rows[view[i]].plan, &a->selected, sizeof(mf_plan)) == 0)
				at = i;
		/* A plan that is not on show now keeps the place; the plan is kept too, for when it comes back. */
		if (at < n_view) {
			a->cursor = at;
			a->top = at > offset ? at - offset : 0;
			a->selected_row = view[at];
			a->selected_rows_id = a->rows_id;
		}
	}
	keep_visible(a);
	return MF_FX_REDRAW;
}

unsigned mf_app_resize(mf_app *a, int w, int h)
{
	a->w = w < 1 ? 1 : w;
	a->h = h < 1 ? 1 : h;
	if (!a->detail_asked)
		a->detail_open = mf_layout_detail_default(a->w, a->h);
	return MF_FX_REDRAW;
}

/* ---- pickers ---- */

static void pick_item(mf_app *a, const char *text, const char *current)
{
	if (a->n_items >= (int)MF_COUNT(a->picker_items))
		return;
	if (current && strcmp(text, current) == 0)
		a->item = a->n_items;
	snprintf(a->picker_items[a->n_items++], sizeof(a->picker_items[0]), "%.63s", text);
}

static unsigned pick(mf_app *a, mf_action action)
{
	const mf_knob *knob = mf_knob_of(a, action);
	const char *names[64];
	char now[256];

	a->panel = MF_PANEL_PICKER;
	a->picker = action;
	a->n_items = a->item = 0;
	if (action == MF_ACT_THEME) {
		for (int i = 0; mf_theme_names[i]; i++)
			pick_item(a, mf_theme_names[i], a->theme);
	} else if (knob) {
		mf_knob_names(a, knob, names, MF_COUNT(names));
		mf_knob_text(&a->now, knob, now, sizeof(now));
		for (int i = 0; names[i]; i++)
			pick_item(a, names[i], now);
	} else {
		for (const mf_choice *c = mf_sort_key_choices; c->name; c++) {
			bool other = a->phase == MF_TRAIN ? c->value == MF_SORT_TTFT || c->value == MF_SORT_TPOT
							  : c->value == MF_SORT_STEP || c->value == MF_SORT_BUBBLE;
			if (!other)
				pick_item(a, c->name, mf_choice_name(mf_sort_key_choices, (int)a->sort));
		}
	}
	return MF_FX_REDRAW;
}

/* ---- actions ---- */

/* Value of an on/off argument: -1 and a message when it is neither; the other of `now` when it is empty. */
static int toggled(mf_app *a, const char *argument, bool now)
{
	if (!*argument)
		return !now;
	int v = mf_choice_value(mf_on_off_choices, argument);
	if (v < 0)
		mf_app_say(a, true, "'%.60s' is neither on nor off", argument);
	return v;
}

static unsigned set_choice(mf_app *a, mf_action action, const mf_choice *table, const char *argument)
{
	int v = mf_choice_value(table, argument);
	if (v < 0) {
		const char *known[16];
		size_t n = 0;
		for (const mf_choice *c = table; c->name && n + 1 < MF_COUNT(known); c++)
			known[n++] = c->name;
		known[n] = NULL;
		const char *near = mf_nearest(argument, known);
		mf_app_say(
			a, true, "no such choice '%.60s'%s%s", argument, near ? "; nearest is " : "", near ? near : "");
		return MF_FX_REDRAW;
	}
	switch (action) {
	case MF_ACT_SORT:
		a->sort = (mf_sort_key)v;
		/* Each number's better end first. */
		a->descending = v == MF_SORT_THROUGHPUT || v == MF_SORT_HIDDEN;
		return MF_FX_ARRANGE | MF_FX_REDRAW;
	case MF_ACT_SHOW: a->show = (mf_show)v; return MF_FX_ARRANGE | MF_FX_REDRAW;
	case MF_ACT_DETAIL:
		a->tab = (mf_tab)v;
		a->detail_open = a->detail_asked = true;
		a->detail_scroll = 0;
		return MF_FX_REDRAW;
	default: return 0;
	}
}

static unsigned set_filter(mf_app *a, const char *text)
{
	mf_filter *f = NULL;
	mf_err err;
	int column;
	if (!(text = mf_filter_named(a, text)))
		return MF_FX_REDRAW;
	if (mf_filter_parse(&f, text, a->phase, &column, &err) < 0) {
		mf_app_say(a, true, "filter, %s", err.msg);
		return MF_FX_REDRAW;
	}
	mf_filter_free(f);
	snprintf(a->filter, sizeof(a->filter), "%s", text);
	return MF_FX_ARRANGE | MF_FX_REDRAW;
}

static unsigned set_find(mf_app *a, const char *text)
{
	mf_filter *f = NULL;
	mf_err err;
	int column;
	if (mf_filter_parse(&f, text, a->phase, &column, &err) < 0) {
		mf_app_say(a, true, "find, %s", err.msg);
		return MF_FX_REDRAW;
	}
	mf_filter_free(a->find_parsed);
	a->find_parsed = f;
	snprintf(a->find, sizeof(a->find), "%s", text);
	return f ? next(a, true) : MF_FX_REDRAW;
}

static unsigned mark(mf_app *a)
{
	const mf_row *row = mf_app_selected(a);
	if (!row)
		return MF_FX_REDRAW;
	for (int i = 0; i < a->n_marks; i++) {
		if (memcmp(&a->marks[i], &row->plan, sizeof(mf_plan)) == 0) {
			memmove(&a->marks[i], &a->marks[i + 1], (size_t)(a->n_marks - i - 1) * sizeof(mf_plan));
			a->n_marks--;
			return move(a, 1);
		}
	}
	if (a->n_marks == MF_MAX_MARKS) {
		mf_app_say(a, true, "four plans are marked already; Space on one of them takes its mark away");
		return MF_FX_REDRAW;
	}
	a->marks[a->n_marks++] = row->plan;
	return move(a, 1);
}

static unsigned back(mf_app *a)
{
	if (a->panel != MF_PANEL_NONE) {
		a->panel = MF_PANEL_NONE;
	} else if (a->focus == MF_FOCUS_SIDE) {
		a->focus = MF_FOCUS_TABLE;
		a->side.open = false;
	} else if (a->focus == MF_FOCUS_DETAIL) {
		a->focus = MF_FOCUS_TABLE;
	} else if (a->front_open) {
		a->front_open = false;
	} else if (a->filter[0]) {
		return set_filter(a, "");
	} else if (a->find[0]) {
		return set_find(a, "");
	} else if (a->detail_open && a->detail_asked) {
		a->detail_open = false;
	}
	return MF_FX_REDRAW;
}

static unsigned side_tab(mf_app *a, int tab)
{
	a->side.open = true;
	a->focus = MF_FOCUS_SIDE;
	a->side.tab = (mf_side_tab)((tab + MF_SIDE_COUNT) % MF_SIDE_COUNT);
	a->side.scroll = 0;
	return MF_FX_REDRAW;
}

static unsigned side(mf_app *a, const char *argument)
{
	if (*argument) {
		int v = mf_choice_value(mf_side_tab_choices, argument);
		if (v >= 0)
			return side_tab(a, v);
		mf_app_say(a, true, "no tab '%.40s'; there are probe, autotune, log and node", argument);
	} else if (a->side.open) {
		a->side.open = false;
		if (a->focus == MF_FOCUS_SIDE)
			a->focus = MF_FOCUS_TABLE;
	} else {
		return side_tab(a, (int)a->side.tab);
	}
	return MF_FX_REDRAW;
}

static bool shows_timeline(const mf_app *a)
{
	return a->detail_open && a->tab == MF_TAB_TIMELINE && a->phase == MF_TRAIN;
}

static bool in_timeline(const mf_app *a)
{
	return shows_timeline(a) && a->focus == MF_FOCUS_DETAIL;
}

/* Moves the part of the step that is shown by a quarter of it. */
static unsigned pan(mf_app *a, int by)
{
	double share = 1.0 / (1 << a->zoom), to = a->zoom_from + by * share / 4;

	a->zoom_from = to < 0 ? 0 : to > 1 - share ? 1 - share : to;
	return MF_FX_REDRAW;
}

/* About the middle of what is shown. */
static unsigned zoom(mf_app *a, int by)
{
	double middle = a->zoom_from + 0.5 / (1 << a->zoom);

	if (!shows_timeline(a)) {
		mf_app_say(a, false,
			a->phase == MF_TRAIN ? "the timeline alone has a time to zoom: %d opens it"
					     : "serving has no timeline to zoom",
			MF_TAB_TIMELINE + 1);
		return MF_FX_REDRAW;
	}
	a->zoom = clamp(a->zoom + by, 0, 12);
	a->zoom_from = middle - 0.5 / (1 << a->zoom);
	return pan(a, 0);
}

static unsigned turn_tab(mf_app *a, int by)
{
	if (a->focus == MF_FOCUS_SIDE)
		return side_tab(a, (int)a->side.tab + by);
	a->tab = (mf_tab)(((int)a->tab + by + MF_TAB_COUNT) % MF_TAB_COUNT);
	a->detail_scroll = 0;
	a->detail_open = a->detail_asked = true;
	return MF_FX_REDRAW;
}

static unsigned detail(mf_app *a, const char *argument)
{
	if (*argument)
		return set_choice(a, MF_ACT_DETAIL, mf_tab_choices, argument);
	if (!a->detail_open)
		a->detail_open = a->detail_asked = true;
	else
		a->focus = a->focus == MF_FOCUS_DETAIL ? MF_FOCUS_TABLE : MF_FOCUS_DETAIL;
	return MF_FX_REDRAW;
}

void mf_app_export_name(const mf_app *a, char *out, size_t size)
{
	const mf_row *row = mf_app_selected(a);
	char plan[MF_PLAN_TEXT_MAX] = "plan";
	const char *model = strrchr(a->now.model.name, '/');
	if (row)
		mf_plan_format(&row->plan, a->in.intern, plan);
	snprintf(out, size, "%.60s_%s.sh", model ? model + 1 : a->now.model.name, plan);
	for (char *s = out; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-", *s))
			*s = '-';
}

/* An action that works on the selected plan's command. */
static bool commandable(mf_app *a)
{
	const mf_row *row = mf_app_selected(a);
	if (row && row->rule == MF_RULE_NONE)
		return true;
	if (!row) {
		mf_app_say(a, true, "no plan is selected");
		return false;
	}
	char key[16];
	mf_keymap_first(&a->keymap, MF_ACT_NEAREST, key);
	mf_app_say(a, true, "refused by %s: there is no command to export; %s goes to the nearest plan that has one",
		mf_rule_get(row->rule)->id, key[0] ? key : ":nearest");
	return false;
}

static unsigned need_text(mf_app *a, mf_action action, const char *argument)
{
	if (!*argument) {
		char name[MF_PROMPT_MAX] = "";
		if (action == MF_ACT_EXPORT && !commandable(a))
			return MF_FX_REDRAW;
		if (action == MF_ACT_EXPORT)
			mf_app_export_name(a, name, sizeof(name));
		mf_prompt_open(a, action, action == MF_ACT_FILTER ? a->filter : action == MF_ACT_FIND ? a->find : name);
		return MF_FX_REDRAW;
	}
	switch (action) {
	case MF_ACT_FILTER: return set_filter(a, argument);
	case MF_ACT_FIND: return set_find(a, argument);
	case MF_ACT_EXPORT:
		if (!commandable(a))
			return MF_FX_REDRAW;
		snprintf(a->wanted, sizeof(a->wanted), "%s", argument);
		return MF_FX_EXPORT | MF_FX_REDRAW;
	default:
		snprintf(a->wanted, sizeof(a->wanted), "%s", argument);
		return MF_FX_REDRAW | (action == MF_ACT_MODEL ? MF_FX_MODEL : MF_FX_CLUSTER);
	}
}

static unsigned nearest(mf_app *a)
{
	const mf_row *row = mf_app_selected(a);

	if (!row || row->rule == MF_RULE_NONE) {
		mf_app_say(a, false, row ? "this plan can be built" : "no plan is selected");
		return MF_FX_REDRAW;
	}
	mf_detail_refresh(a);
	uint32_t near = mf_detail_neighbour(a);
	if (near == MF_NO_ROW)
		mf_app_say(a, true, "no plan of this space can be built");
	return go_to_row(a, near);
}

static unsigned set_columns(mf_app *a, const char *argument)
{
	mf_err err;
	char now[256];

	if (!*argument) {
		mf_columns_text(a, now, sizeof(now));
		mf_prompt_open(a, MF_ACT_COLUMNS, now);
	} else if (mf_columns_set(a, argument, &err) < 0) {
		mf_app_say(a, true, "columns, %s", err.msg);
	}
	return MF_FX_REDRAW;
}

static unsigned save_filter(mf_app *a, const char *argument)
{
	if (!a->filter[0]) {
		mf_app_say(a, true, "there is no filter to keep; / makes one");
		return MF_FX_REDRAW;
	}
	if (!*argument) {
		mf_prompt_open(a, MF_ACT_SAVE_FILTER, "");
		return MF_FX_REDRAW;
	}
	snprintf(a->wanted, sizeof(a->wanted), "%s", argument);
	return MF_FX_SAVE_FILTER | MF_FX_REDRAW;
}

/* Changes an assumption: to the argument, to the other of two, or to what a picker or a prompt says. */
static unsigned assume(mf_app *a, mf_action action, const char *argument)
{
	const mf_knob *k = mf_knob_of(a, action);
	const char *names[64];
	char now[256];

	if (!k) {
		mf_app_say(a, true, "%s is no assumption of a %s search", mf_tui_keys[action - 1].name,
			mf_choice_name(mf_phase_choices, (int)a->phase));
		return MF_FX_REDRAW;
	}
	if (*argument)
		return mf_knob_set(a, k, argument);
	if (k->arranges)
		return mf_knob_turn(a, k, 1);
	if (mf_knob_names(a, k, names, MF_COUNT(names)) > 0)
		return pick(a, action);
	mf_knob_text(&a->now, k, now, sizeof(now));
	mf_prompt_open(a, action, now);
	return MF_FX_REDRAW;
}

static unsigned open_panel(mf_app *a, mf_panel panel)
{
	a->panel = a->panel == panel ? MF_PANEL_NONE : panel;
	a->panel_scroll = 0;
	a->item = 0;
	return MF_FX_REDRAW;
}

unsigned mf_app_act(mf_app *a, mf_action action, const char *argument)
{
	int v;

	switch (action) {
	case MF_ACT_NONE:
	case MF_ACT_COUNT: return 0;
	case MF_ACT_DOWN: return move(a, 1);
	case MF_ACT_UP: return move(a, -1);
	case MF_ACT_TOP: return move(a, -(long)(INT32_MAX / 2));
	case MF_ACT_BOTTOM: return move(a, INT32_MAX / 2);
	case MF_ACT_PAGE_DOWN: return move(a, page_of(a));
	case MF_ACT_PAGE_UP: return move(a, -page_of(a));
	case MF_ACT_HALF_DOWN: return move(a, (page_of(a) + 1) / 2);
	case MF_ACT_HALF_UP: return move(a, -((page_of(a) + 1) / 2));
	case MF_ACT_NEXT: return next(a, true);
	case MF_ACT_PREVIOUS: return next(a, false);
	case MF_ACT_NEAREST: return nearest(a);
	case MF_ACT_DETAIL: return detail(a, argument);
	case MF_ACT_TAB_NEXT: return turn_tab(a, 1);
	case MF_ACT_TAB_PREVIOUS: return turn_tab(a, -1);
	case MF_ACT_SIDE: return side(a, argument);
	case MF_ACT_ZOOM_IN: return zoom(a, 1);
	case MF_ACT_ZOOM_OUT: return zoom(a, -1);
	case MF_ACT_BACK: return back(a);
	case MF_ACT_COMPARE:
		if (a->n_marks < 2) {
			mf_app_say(a, true, "mark two to four plans with Space first");
			return MF_FX_REDRAW;
		}
		a->panel = MF_PANEL_COMPARE;
		a->panel_scroll = 0;
		return MF_FX_REDRAW;
	case MF_ACT_MARK: return mark(a);
	case MF_ACT_FILTER:
	case MF_ACT_FIND:
	case MF_ACT_EXPORT:
	case MF_ACT_MODEL:
	case MF_ACT_CLUSTER: return need_text(a, action, argument);
	case MF_ACT_SHOW:
		if (*argument)
			return set_choice(a, action, mf_show_choices, argument);
		a->show = (mf_show)((a->show + 1) % 3);
		return MF_FX_ARRANGE | MF_FX_REDRAW;
	case MF_ACT_SORT: return *argument ? set_choice(a, action, mf_sort_key_choices, argument) : pick(a, action);
	case MF_ACT_REVERSE: a->descending = !a->descending; return MF_FX_ARRANGE | MF_FX_REDRAW;
	case MF_ACT_CONSTRAINT:
	case MF_ACT_TAX:
	case MF_ACT_OVERLAY:
	case MF_ACT_LEDGER:
	case MF_ACT_SPACE:
	case MF_ACT_NODES:
	case MF_ACT_SKEW:
	case MF_ACT_SEQ:
	case MF_ACT_GLOBAL_BATCH:
	case MF_ACT_MICRO_BATCH:
	case MF_ACT_PRECISION:
	case MF_ACT_INPUT:
	case MF_ACT_OUTPUT:
	case MF_ACT_CONCURRENCY:
	case MF_ACT_TOOLCHAIN:
	case MF_ACT_STACK:
	case MF_ACT_ATTENTION:
	case MF_ACT_GRAPHS:
	case MF_ACT_MEM_FRACTION: return assume(a, action, argument);
	case MF_ACT_COLUMNS: return set_columns(a, argument);
	case MF_ACT_SAVE_FILTER: return save_filter(a, argument);
	case MF_ACT_FRONT: a->front_open = !a->front_open; return MF_FX_REDRAW;
	case MF_ACT_ASSUMPTIONS:
	case MF_ACT_BOUNDARIES:
		return open_panel(a, action == MF_ACT_ASSUMPTIONS ? MF_PANEL_ASSUMPTIONS : MF_PANEL_BOUNDARIES);
	case MF_ACT_DEFAULTS: return mf_whatif_defaults(a);
	case MF_ACT_UNDO: return mf_whatif_step(a, -1);
	case MF_ACT_REDO: return mf_whatif_step(a, 1);
	case MF_ACT_ASK: return mf_app_selected(a) ? MF_FX_ASK | MF_FX_REDRAW : 0;
	case MF_ACT_COPY: return mf_app_selected(a) ? MF_FX_COPY | MF_FX_REDRAW : 0;
	case MF_ACT_THEME:
		if (!*argument)
			return pick(a, action);
		snprintf(a->wanted, sizeof(a->wanted), "%s", argument);
		return MF_FX_THEME | MF_FX_REDRAW;
	case MF_ACT_MOUSE:
		if ((v = toggled(a, argument, a->mouse)) < 0)
			return MF_FX_REDRAW;
		a->mouse = v;
		mf_app_say(a, false, v ? "mouse on: wheel, rows and headings; Shift-drag selects text" : "mouse off");
		return MF_FX_MOUSE | MF_FX_REDRAW;
	case MF_ACT_COMMAND: mf_prompt_open(a, action, ""); return MF_FX_REDRAW;
	case MF_ACT_HELP: return open_panel(a, MF_PANEL_HELP);
	case MF_ACT_REDRAW: return MF_FX_INVALIDATE | MF_FX_REDRAW;
	case MF_ACT_SUSPEND: return MF_FX_SUSPEND | MF_FX_REDRAW;
	case MF_ACT_QUIT: return MF_FX_QUIT;
	}
	return 0;
}

unsigned mf_app_command(mf_app *a, const char *line)
{
	line += strspn(line, " \t:");
	size_t len = strcspn(line, " \t");
	if (len == 0)
		return MF_FX_REDRAW;
	mf_action action = mf_action_of_name(line, len);
	if (action == MF_ACT_NONE) {
		const char *known[MF_ACT_COUNT];
		size_t n = 0;
		char word[64];
		for (const mf_tui_key *t = mf_tui_keys; t->name; t++)
			known[n++] = t->name;
		known[n] = NULL;
		snprintf(word, sizeof(word), "%.*s", (int)(len < 60 ? len : 60), line);
		const char *near = mf_nearest(word, known);
		mf_app_say(a, true, "no command '%s'%s%s (? lists them)", word, near ? "; nearest is " : "",
			near ? near : "");
		return MF_FX_REDRAW;
	}
	const char *argument = line + len;
	argument += strspn(argument, " \t");
	char trimmed[MF_PROMPT_MAX];
	snprintf(trimmed, sizeof(trimmed), "%s", argument);
	for (size_t n = strlen(trimmed); n > 0 && (trimmed[n - 1] == ' ' || trimmed[n - 1] == '\t');)
		trimmed[--n] = 0;
	return mf_app_act(a, action, trimmed);
}

/* A click on a line of a list chooses it, on the chosen one it does what Enter does; outside, the panel closes. */
static unsigned click_panel(mf_app *a, int x, int y)
{
	mf_key_event enter = {MF_KEY_ENTER, 0, 0, 0};
	int line;

	if (!mf_view_panel_line(a, x, y, &line))
		return back(a);
	if (!listed(a) || line < 0 || line >= a->n_items)
		return MF_FX_REDRAW;
	if (line == a->item || a->panel == MF_PANEL_PICKER) {
		a->item = line;
		return mf_app_key(a, &enter);
	}
	a->item = line;
	return MF_FX_REDRAW;
}

static unsigned mouse(mf_app *a, const mf_key_event *k)
{
	mf_layout l;

	if (k->button == 64 || k->button == 65)
		return move(a, k->button == 64 ? -3 : 3);
	if (k->button != 0)
		return 0;
	if (a->panel != MF_PANEL_NONE)
		return click_panel(a, k->x, k->y);
	mf_layout_make(&l, a->w, a->h, a->detail_open, a->side.open);
	if (l.too_small)
		return 0;
	if (a->front_open && k->y >= l.table.y && k->y < l.table.y + l.table.h && k->x < l.table.x + l.table.w)
		return go_to_row(a, mf_plot_at(a, l.table, k->x, k->y));
	if (!a->front_open && k->y == l.heading.y && k->x < l.heading.x + l.heading.w) {
		int key = mf_view_heading_key(a, k->x);
		if (key < 0)
			return 0;
		if ((int)a->sort == key)
			return mf_app_act(a, MF_ACT_REVERSE, "");
		return mf_app_act(a, MF_ACT_SORT, mf_choice_name(mf_sort_key_choices, key));
	}
	if (k->y >= l.table.y && k->y < l.table.y + l.table.h && k->x < l.table.x + l.table.w) {
		size_t to = a->top + (size_t)(k->y - l.table.y);
		a->focus = MF_FOCUS_TABLE;
		return to < a->n_view ? go(a, to) : 0;
	}
	if (l.side.w > 0 && k->x >= l.side.x && k->y == l.side_tabs.y) {
		int tab = mf_side_tab_at(l.side_tabs, k->x);
		return tab >= 0 ? side_tab(a, tab) : MF_FX_REDRAW;
	}
	if (l.tabs.w > 0 && k->x >= l.tabs.x && k->y == l.tabs.y) {
		int tab = mf_view_tab_at(l.tabs, k->x);
		if (tab >= 0)
			a->tab = (mf_tab)tab, a->detail_scroll = 0;
		return MF_FX_REDRAW;
	}
	if (l.side.w > 0 && k->x >= l.side.x && k->y >= l.side.y && k->y < l.side.y + l.side.h)
		a->focus = MF_FOCUS_SIDE;
	if (l.detail.w > 0 && k->x >= l.detail.x && k->y >= l.detail.y && k->y < l.detail.y + l.detail.h)
		a->focus = MF_FOCUS_DETAIL;
	return MF_FX_REDRAW;
}

/* Keys of the panel of assumptions that no other panel has; 0 when it is none of them. */
static unsigned assumptions_key(mf_app *a, mf_key key, mf_action action)
{
	const mf_knob *k = mf_knob_at(a, a->item);
	const char *names[64];
	char was[256], now[256];

	if (!k)
		return 0;
	if (key == MF_KEY_RIGHT || key == '+' || key == MF_KEY_LEFT || key == '-')
		return mf_knob_turn(a, k, key == MF_KEY_RIGHT || key == '+' ? 1 : -1);
	if (key == MF_KEY_DELETE || key == MF_KEY_BACKSPACE) {
		mf_knob_text(&a->defaults, k, was, sizeof(was));
		return mf_knob_set(a, k, was);
	}
	if (action == MF_ACT_DETAIL) {
		mf_knob_text(&a->now, k, now, sizeof(now));
		if (k->choices)
			return mf_knob_turn(a, k, 1);
		mf_prompt_open(a, k->action, now);
		return MF_FX_REDRAW;
	}
	if (key >= '0' && key <= '9' && mf_knob_names(a, k, names, MF_COUNT(names)) == 0) {
		mf_prompt_open(a, k->action, (char[2]){(char)key, 0});
		return MF_FX_REDRAW;
	}
	return action == MF_ACT_UNDO || action == MF_ACT_REDO || action == MF_ACT_DEFAULTS ? mf_app_act(a, action, "")
											   : 0;
}

/* The action that opens, and so closes, the open panel. */
static mf_action panel_action(const mf_app *a)
{
	switch (a->panel) {
	case MF_PANEL_HELP: return MF_ACT_HELP;
	case MF_PANEL_COMPARE: return MF_ACT_COMPARE;
	case MF_PANEL_PICKER: return a->picker;
	case MF_PANEL_ASSUMPTIONS: return MF_ACT_ASSUMPTIONS;
	case MF_PANEL_BOUNDARIES: return MF_ACT_BOUNDARIES;
	case MF_PANEL_NONE: break;
	}
	return MF_ACT_NONE;
}

/* The plans that the chosen rule removed. */
static unsigned filter_boundary(mf_app *a)
{
	char text[96];

	if (a->item < 0 || (size_t)a->item >= a->n_reasons)
		return back(a);
	snprintf(text, sizeof(text), "rule:%s", mf_rule_get(a->reasons[a->item].rule)->id);
	a->panel = MF_PANEL_NONE;
	return set_filter(a, text);
}

unsigned mf_app_key(mf_app *a, const mf_key_event *k)
{
	unsigned fx;
	char name[16], leave[16];

	if (k->key == MF_KEY_REPLY)
		return 0;
	a->message[0] = 0;
	if (k->key == MF_KEY_MOUSE)
		return a->prompt.action == MF_ACT_NONE ? mouse(a, k) | MF_FX_REDRAW : MF_FX_REDRAW;
	if (a->prompt.action != MF_ACT_NONE)
		return mf_prompt_key(a, k);
	mf_action action = mf_keymap_action(&a->keymap, k->key);
	if (a->panel == MF_PANEL_PICKER && action == MF_ACT_DETAIL) {
		char item[64];
		snprintf(item, sizeof(item), "%s", a->picker_items[a->item]);
		a->panel = MF_PANEL_NONE;
		return mf_app_act(a, a->picker, item);
	}
	if (a->panel == MF_PANEL_PICKER && action == a->picker)
		return move(a,
			a->item + 1 < a->n_items ? 1 : -a->item); /* the key that opened it goes on to the next item */
	if (a->panel == MF_PANEL_ASSUMPTIONS && (fx = assumptions_key(a, k->key, action)) != 0)
		return fx;
	if (a->panel == MF_PANEL_BOUNDARIES && action == MF_ACT_DETAIL)
		return filter_boundary(a);
	if (a->panel != MF_PANEL_NONE) {
		switch (action) {
		case MF_ACT_DOWN:
		case MF_ACT_UP:
		case MF_ACT_TOP:
		case MF_ACT_BOTTOM:
		case MF_ACT_PAGE_DOWN:
		case MF_ACT_PAGE_UP:
		case MF_ACT_HALF_DOWN:
		case MF_ACT_HALF_UP:
		case MF_ACT_REDRAW:
		case MF_ACT_SUSPEND: break;
		case MF_ACT_QUIT: return k->key == 3 ? MF_FX_QUIT : back(a);
		case MF_ACT_BACK:
		case MF_ACT_DETAIL: return back(a);
		default:
			if (action != MF_ACT_NONE && action == panel_action(a))
				return back(a);
			mf_key_name(k->key, name);
			mf_keymap_first(&a->keymap, MF_ACT_BACK, leave);
			mf_app_say(a, false, "%s does nothing here; %s goes back", name, leave[0] ? leave : "q");
			return MF_FX_REDRAW;
		}
	}
	if (in_timeline(a) && (k->key == MF_KEY_LEFT || k->key == MF_KEY_RIGHT))
		return pan(a, k->key == MF_KEY_RIGHT ? 1 : -1);
	if (k->key >= '1' && k->key < '1' + MF_TAB_COUNT)
		return turn_tab(a, (int)(k->key - '1') - (int)a->tab);
	if (action == MF_ACT_NONE) {
		mf_key_name(k->key, name);
		mf_app_say(a, false, "%s does nothing; ? lists the keys", name);
		return MF_FX_REDRAW;
	}
	return mf_app_act(a, action, "");
}
