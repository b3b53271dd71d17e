/* view.c: the model as cells. Only rows on the screen are formatted. */
#include "app.h"

#include <math.h>
#include <string.h>

#define MIN_W 40
#define MIN_H 8

mf_layout mf_layout_of(int w, int h, bool detail)
{
	mf_layout l = {0};
	int y = 0, rest;

	if (w < MIN_W || h < MIN_H) {
		l.too_small = true;
		return l;
	}
	l.header = (mf_rect){0, 0, w, 2};
	y = 2;
	rest = h - y - 2; /* refusal line and status line */
	l.status = (mf_rect){0, h - 1, w, 1};
	l.reason = (mf_rect){0, h - 2, w, 1};
	if (detail && w >= 150) {
		int table = w * 55 / 100;

		l.table = (mf_rect){0, y, table, rest};
		l.detail = (mf_rect){table + 1, y, w - table - 1, rest};
	} else if (detail) {
		int table = rest * 2 / 5;

		table = table < 3 ? 3 : table;
		l.table = (mf_rect){0, y, w, table};
		l.detail = (mf_rect){0, y + table, w, rest - table};
	} else {
		l.table = (mf_rect){0, y, w, rest};
	}
	return l;
}

/* ---- table ---------------------------------------------------------------------------------------------------------- */

/* Columns in screen order; the plan takes what is left. `need` is the table width below which a column is left out. */
enum column { COL_RANK, COL_PLAN, COL_THROUGHPUT, COL_TIME, COL_TTFT, COL_MEMORY, COL_BAR, COL_HIDDEN, COL_BUBBLE, COL_VERDICT,
	COL_COUNT };
static const struct { const char *title; int width, need; int sort; } columns[COL_COUNT] = {
	[COL_RANK] = {"rank", 6, 0, -1}, [COL_PLAN] = {"plan", 0, 0, -1},
	[COL_THROUGHPUT] = {"tok/s/GPU", 10, 0, MF_SORT_THROUGHPUT}, [COL_TIME] = {"step ms", 9, 56, MF_SORT_STEP},
	[COL_TTFT] = {"TTFT ms", 9, 90, MF_SORT_TTFT}, [COL_MEMORY] = {"mem GB", 7, 66, MF_SORT_MEMORY},
	[COL_BAR] = {"", 10, 110, -1}, [COL_HIDDEN] = {"hidden", 7, 120, MF_SORT_HIDDEN},
	[COL_BUBBLE] = {"bubble", 7, 120, MF_SORT_BUBBLE}, [COL_VERDICT] = {"verdict", 12, 0, -1}};

static bool has_column(const mf_app *a, int c, int width)
{
	bool serve = a->workload.phase == MF_SERVE;

	if ((c == COL_TTFT && !serve) || (c == COL_BUBBLE && serve))
		return false;
	return width >= columns[c].need;
}

static int plan_width(const mf_app *a, int width)
{
	int left = width - 1;

	for (int c = 0; c < COL_COUNT; c++)
		if (columns[c].width && has_column(a, c, width))
			left -= columns[c].width + 1;
	return left;
}

static void number(char *out, size_t size, int decimals, const char *unit, double v)
{
	if (isfinite(v))
		snprintf(out, size, "%.*f%s", decimals, v, unit);
	else
		snprintf(out, size, "-");
}

static bool is_marked(const mf_app *a, const mf_row *row)
{
	for (size_t i = 0; i < a->n_marks; i++)
		if (memcmp(&a->marks[i], &row->plan, sizeof row->plan) == 0)
			return true;
	return false;
}

/* Memory against the budget as a bar; past the budget it ends in the over sign. */
static void memory_bar(mf_app *a, int x, int y, int w, const mf_row *row, mf_role role)
{
	double budget = a->cluster.device_bytes / MF_GB, share;
	int full;

	if (a->cost.ledger == MF_LEDGER_PUBLISHED)
		budget = a->cluster.hbm_bytes * a->cost.usable_fraction / MF_GB;
	share = (double)row->memory_gb / budget;
	if (!isfinite(share))
		return;
	full = (int)(fmin(share, 1) * w + 0.5);
	for (int i = 0; i < w; i++) {
		bool over = share > 1 && i == w - 1;

		mf_cells_text(&a->cells, x + i, y, 1, over ? MF_ROLE_BAR_OVER : i < full && role == MF_ROLE_TEXT ? MF_ROLE_BAR1 : role,
			mf_glyph_text(over ? MF_G_OVER : i < full ? MF_G_BAR1 : MF_G_EMPTY, a->cells.ascii));
	}
}

static void verdict_text(const mf_app *a, const mf_row *row, char *out, size_t size)
{
	if (a->constraint && row->rule != MF_RULE_NONE)
		snprintf(out, size, "%s %.9s", mf_glyph_text(MF_G_REFUSED, a->cells.ascii), mf_rule_get(row->rule)->boundary);
	else if (row->probe)
		snprintf(out, size, "probe%s", row->extrapolated ? " ~" : "");
	else
		snprintf(out, size, "%s%s", a->constraint ? "buildable" : "", row->extrapolated ? " ~" : "");
}

static void draw_row(mf_app *a, mf_rect t, int y, size_t place)
{
	const mf_row *row = mf_app_row(a, place);
	bool serve = a->workload.phase == MF_SERVE, rejected = a->constraint && row->rule != MF_RULE_NONE;
	bool selected = place == a->cursor;
	mf_role role = selected ? rejected ? MF_ROLE_SELECTED_REJECTED : MF_ROLE_SELECTED
				: rejected ? MF_ROLE_REJECTED : MF_ROLE_TEXT;
	char text[MF_PLAN_TEXT_MAX];
	int x = t.x;

	mf_cells_fill(&a->cells, (mf_rect){t.x, y, t.w, 1}, role, ' ');
	for (int c = 0; c < COL_COUNT; c++) {
		int w = c == COL_PLAN ? plan_width(a, t.w) : columns[c].width;
		mf_role cell = role;

		if (!has_column(a, c, t.w))
			continue;
		switch (c) {
		case COL_RANK:
			snprintf(text, sizeof text, "%zu", a->found ? (size_t)a->shown[place] + 1 : place + 1);
			break;
		case COL_PLAN:
			mf_plan_format(&row->plan, a->in.intern, text);
			if (is_marked(a, row))
				mf_cells_text(&a->cells, x - 1, y, 1, selected ? role : MF_ROLE_MARK, mf_glyph_text(MF_G_MARK, a->cells.ascii));
			break;
		case COL_THROUGHPUT: number(text, sizeof text, 1, "", (double)(a->tax ? row->throughput : row->untaxed)); break;
		case COL_TIME: number(text, sizeof text, serve ? 2 : 1, "", (double)(serve ? row->tpot_ms : row->step_ms)); break;
		case COL_TTFT: number(text, sizeof text, 0, "", (double)row->ttft_ms); break;
		case COL_MEMORY: number(text, sizeof text, 1, "", (double)row->memory_gb); break;
		case COL_BAR: memory_bar(a, x, y, w, row, selected ? role : rejected ? MF_ROLE_REJECTED : MF_ROLE_TEXT); break;
		case COL_HIDDEN: number(text, sizeof text, 0, "%", 100 * (double)row->hidden); break;
		case COL_BUBBLE: number(text, sizeof text, 1, "%", 100 * (double)row->bubble); break;
		case COL_VERDICT:
			verdict_text(a, row, text, sizeof text);
			if (!selected && !rejected)
				cell = row->probe ? MF_ROLE_PROBE : MF_ROLE_BUILDABLE;
			break;
		default: break;
		}
		if (c == COL_PLAN || c == COL_VERDICT)
			mf_cells_text(&a->cells, x, y, w, cell, text);
		else if (c != COL_BAR)
			mf_cells_right(&a->cells, x, y, w, cell, text);
		x += w + 1;
	}
}

static void draw_titles(mf_app *a, mf_rect t)
{
	int x = t.x;

	mf_cells_fill(&a->cells, (mf_rect){t.x, t.y, t.w, 1}, MF_ROLE_TITLE, ' ');
	for (int c = 0; c < COL_COUNT; c++) {
		int w = c == COL_PLAN ? plan_width(a, t.w) : columns[c].width;
		const char *title = c == COL_TIME && a->workload.phase == MF_SERVE ? "TPOT ms" : columns[c].title;
		char text[32];

		if (!has_column(a, c, t.w))
			continue;
		snprintf(text, sizeof text, "%s%s", columns[c].sort == (int)a->sort
				? mf_glyph_text(a->descending ? MF_G_DOWN : MF_G_UP, a->cells.ascii) : "", title);
		if (c == COL_PLAN || c == COL_VERDICT)
			mf_cells_text(&a->cells, x, t.y, w, MF_ROLE_TITLE, text);
		else
			mf_cells_right(&a->cells, x, t.y, w, MF_ROLE_TITLE, text);
		x += w + 1;
	}
}

static void draw_table(mf_app *a, mf_rect t)
{
	size_t n = mf_app_rows(a), rows = t.h > 1 ? (size_t)t.h - 1 : 0;

	if (a->cursor < a->top)
		a->top = a->cursor;
	if (rows && a->cursor >= a->top + rows)
		a->top = a->cursor - rows + 1;
	if (a->top + rows > n)
		a->top = n > rows ? n - rows : 0;
	draw_titles(a, t);
	for (size_t i = 0; i < rows && a->top + i < n; i++)
		draw_row(a, t, t.y + 1 + (int)i, a->top + i);
	if (!n && rows)
		mf_cells_text(&a->cells, t.x + 1, t.y + 1, t.w - 2, MF_ROLE_DIM, a->searching ? "searching ..."
			: a->filter_text[0] || a->show != MF_SHOW_ALL ? "no plan matches (Esc clears the filter, o changes what is shown)"
								      : "no plan fits this cluster");
}

/* ---- header, refusal, status ----------------------------------------------------------------------------------------- */

static void draw_header(mf_app *a, mf_rect r)
{
	char text[512];
	const mf_search *s = a->found;
	int x;

	mf_cells_fill(&a->cells, r, MF_ROLE_HEADER, ' ');
	snprintf(text, sizeof text, " %s  %s  %s", a->model.name, mf_choice_name(mf_phase_choices, (int)a->workload.phase),
		a->cluster.name);
	x = mf_cells_text(&a->cells, r.x, r.y, r.w, MF_ROLE_HEADER, text);
	snprintf(text, sizeof text, "%s  ledger %s  %s space ", mf_choice_name(mf_toolchain_choices, (int)a->stack.toolchain),
		mf_choice_name(mf_ledger_choices, (int)a->cost.ledger), mf_choice_name(mf_space_choices, (int)a->space));
	mf_cells_right(&a->cells, r.x + x + 1, r.y, r.w - x - 1, MF_ROLE_HEADER_DIM, text);
	if (a->searching || !s)
		snprintf(text, sizeof text, " searching: %llu plans so far", (unsigned long long)a->live.seen);
	else
		snprintf(text, sizeof text, " %llu plans, %llu refused by the emitter, %llu by memory, %.1f ms",
			(unsigned long long)s->counts.scored, (unsigned long long)s->counts.rejected_emit,
			(unsigned long long)s->counts.rejected_memory, s->timing.total_ms);
	x = mf_cells_text(&a->cells, r.x, r.y + 1, r.w, MF_ROLE_HEADER_DIM, text);
	snprintf(text, sizeof text, "%s%s%s%s%s%s%s ", a->constraint ? "" : "[constraint off] ", a->tax ? "" : "[tax off] ",
		a->overlay[0] ? "[" : "", a->overlay, a->overlay[0] ? "] " : "",
		a->show == MF_SHOW_BUILDABLE ? "[buildable only] " : a->show == MF_SHOW_REJECTED ? "[rejected only] " : "",
		a->filter_text[0] ? "[filtered]" : "");
	mf_cells_right(&a->cells, r.x + x + 1, r.y + 1, r.w - x - 1, MF_ROLE_HEADER, text);
}

static void draw_reason(mf_app *a, mf_rect r)
{
	const mf_row *row = mf_app_row(a, a->cursor);
	char text[1024];

	mf_cells_fill(&a->cells, r, MF_ROLE_TEXT, ' ');
	if (!row)
		return;
	mf_app_fill_detail(a);
	if (a->constraint && *a->detail.refusal.rule) {
		snprintf(text, sizeof text, "%s %s: %s", mf_glyph_text(MF_G_REFUSED, a->cells.ascii), a->detail.refusal.rule,
			a->detail.refusal.reason);
		mf_cells_text(&a->cells, r.x, r.y, r.w, MF_ROLE_REASON, text);
	} else if (row->probe) {
		mf_cells_text(&a->cells, r.x, r.y, r.w, MF_ROLE_PROBE,
			"fits by less than the ledger's own error: launch it before trusting it");
	}
}

/* The keys worth showing, from the table: first key of an action and its name. */
static void draw_keys(mf_app *a, mf_rect r, int room)
{
	static const mf_action shown[] = {MF_ACT_HELP, MF_ACT_DETAIL, MF_ACT_FILTER, MF_ACT_SORT, MF_ACT_SHOW, MF_ACT_EXPORT,
		MF_ACT_CONSTRAINT, MF_ACT_OVERLAY, MF_ACT_TAX, MF_ACT_QUIT};
	int x = r.x + 1;

	for (size_t i = 0; i < MF_COUNT(shown); i++)
		for (const mf_tui_key *k = mf_tui_keys; k->name; k++) {
			char key[16];

			if (k->action != (int)shown[i])
				continue;
			snprintf(key, sizeof key, "%.*s", (int)strcspn(k->keys, " "), k->keys);
			if (x + mf_text_width(key, a->cells.ascii) + (int)strlen(k->name) + 3 > r.x + room)
				return;
			x += mf_cells_text(&a->cells, x, r.y, r.w, MF_ROLE_KEY, key);
			x += 1 + mf_cells_text(&a->cells, x + 1, r.y, r.w, MF_ROLE_KEY_HELP, k->name);
			x += 2;
		}
}

static void draw_status(mf_app *a, mf_rect r)
{
	static const struct { mf_action action; const char *prompt; } prompts[] = {{MF_ACT_FILTER, "/"}, {MF_ACT_FIND, "find: "},
		{MF_ACT_COMMAND, ":"}, {MF_ACT_EXPORT, "write to: "}, {MF_ACT_MODEL, "model: "}, {MF_ACT_CLUSTER, "cluster: "}};
	char text[64];
	int x = r.x, place;

	a->cursor_x = -1;
	mf_cells_fill(&a->cells, r, MF_ROLE_TEXT, ' ');
	if (a->mode == MF_MODE_PROMPT) {
		size_t from = 0;

		for (size_t i = 0; i < MF_COUNT(prompts); i++)
			if (prompts[i].action == a->prompt_action)
				x += mf_cells_text(&a->cells, x, r.y, r.w, MF_ROLE_PROMPT, prompts[i].prompt);
		while (mf_text_width(a->prompt + from, a->cells.ascii) > r.w - x - 1 && a->prompt[from])
			from++;
		x += mf_cells_text(&a->cells, x, r.y, r.w - x, MF_ROLE_PROMPT, a->prompt + from);
		a->cursor_x = x < r.w ? x : r.w - 1;
		a->cursor_y = r.y;
		if (a->message[0] && r.w - x > 12)
			mf_cells_right(&a->cells, x + 2, r.y, r.w - x - 2, a->message_error ? MF_ROLE_ERROR : MF_ROLE_MESSAGE, a->message);
		return;
	}
	snprintf(text, sizeof text, "%zu of %zu", mf_app_rows(a) ? a->cursor + 1 : 0, mf_app_rows(a));
	place = mf_text_width(text, a->cells.ascii);
	mf_cells_right(&a->cells, r.x, r.y, r.w, MF_ROLE_DIM, text);
	if (a->message[0])
		mf_cells_text(&a->cells, r.x, r.y, r.w - place - 2, a->message_error ? MF_ROLE_ERROR : MF_ROLE_MESSAGE, a->message);
	else
		draw_keys(a, r, r.w - place - 1);
}

/* ---- help ------------------------------------------------------------------------------------------------------------ */

static void draw_help(mf_app *a, mf_rect r)
{
	int y = r.y - a->help_scroll, last = r.y + r.h;
	const char *group = "";

	mf_cells_fill(&a->cells, r, MF_ROLE_POPUP, ' ');
	for (const mf_tui_key *k = mf_tui_keys; k->name; k++) {
		char text[160];

		if (strcmp(group, k->group) != 0) {
			group = k->group;
			y += y > r.y - a->help_scroll;
			if (y >= r.y && y < last)
				mf_cells_text(&a->cells, r.x + 1, y, r.w - 2, MF_ROLE_TAB_ACTIVE, group);
			y++;
		}
		if (y >= r.y && y < last) {
			mf_cells_text(&a->cells, r.x + 2, y, 10, MF_ROLE_KEY, k->keys);
			snprintf(text, sizeof text, ":%s %s", k->name, k->argument);
			if (r.w >= 76)
				mf_cells_text(&a->cells, r.x + 13, y, 26, MF_ROLE_DIM, text);
			mf_cells_text(&a->cells, r.x + (r.w >= 76 ? 40 : 13), y, r.w - (r.w >= 76 ? 41 : 14), MF_ROLE_POPUP, k->help);
		}
		y++;
	}
	y++;
	for (const mf_filter_field *f = mf_filter_fields; f->name; f++, y++)
		if (y >= r.y && y < last) {
			mf_cells_text(&a->cells, r.x + 2, y, 10, MF_ROLE_KEY, f->name);
			mf_cells_text(&a->cells, r.x + 13, y, r.w - 14, MF_ROLE_POPUP, f->help);
		}
}

void mf_app_view(mf_app *a)
{
	mf_layout l = mf_layout_of(a->cells.w, a->cells.h, a->detail_open);
	mf_rect all = {0, 0, a->cells.w, a->cells.h};

	a->cursor_x = -1;
	mf_cells_fill(&a->cells, all, MF_ROLE_TEXT, ' ');
	if (l.too_small) {
		char text[64];

		snprintf(text, sizeof text, "needs %dx%d, has %dx%d", MIN_W, MIN_H, a->cells.w, a->cells.h);
		mf_cells_text(&a->cells, 0, 0, a->cells.w, MF_ROLE_TEXT, text);
		return;
	}
	draw_header(a, l.header);
	if (a->mode == MF_MODE_HELP || a->mode == MF_MODE_COMPARE) {
		mf_rect body = {0, l.header.h, a->cells.w, a->cells.h - l.header.h - 1};

		if (a->mode == MF_MODE_HELP)
			draw_help(a, body);
		else
			mf_view_compare(a, body);
	} else {
		draw_table(a, l.table);
		if (l.detail.h > 0)
			mf_view_detail(a, l.detail);
		draw_reason(a, l.reason);
	}
	draw_status(a, l.status);
}
