/* view.c: what the model looks like. Layout is a function of the size and whether the detail pane is open. */
#include "tui_app.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- layout ---- */

bool mf_layout_detail_default(int w, int h)
{
	return h >= 22 || w >= 120;
}

void mf_layout_make(mf_layout *l, int w, int h, bool detail_open, bool side_open)
{
	memset(l, 0, sizeof(*l));
	if (w < MF_MIN_W || h < MF_MIN_H) {
		l->too_small = true;
		return;
	}
	/* Without the detail pane the status line carries the whole refusal, over two lines. */
	int header = h >= 20 ? 3 : 2, status = detail_open || side_open ? 2 : 3;
	l->header = (mf_rect){0, 0, w, header};
	l->status = (mf_rect){0, h - status, w, status};
	int top = header, room = h - header - status;
	if (!detail_open && !side_open) {
		l->heading = (mf_rect){0, top, w, 1};
		l->table = (mf_rect){0, top + 1, w, room - 1};
		return;
	}
	mf_rect panes;
	if (w >= 130) {
		l->beside = true;
		int right = w * 2 / 5, left;
		right = right > 90 ? 90 : right;
		left = w - right - 1;
		l->heading = (mf_rect){0, top, left, 1};
		l->table = (mf_rect){0, top + 1, left, room - 1};
		l->rule = (mf_rect){left, top, 1, room};
		panes = (mf_rect){left + 1, top, right, room};
	} else {
		/* Below: at least three rows of plans stay in sight. There is room for one pane: the side pane hides the other. */
		int below = (room - 2) / 2;
		below = below > room - 5 ? room - 5 : below;
		l->heading = (mf_rect){0, top, w, 1};
		l->table = (mf_rect){0, top + 1, w, room - below - 2};
		panes = (mf_rect){0, top + room - below - 1, w, below + 1};
		detail_open = detail_open && !side_open;
	}
	int upper = !detail_open ? 0 : side_open ? panes.h - (panes.h > 30 ? panes.h / 3 : 10) : panes.h;
	if (detail_open) {
		l->tabs = (mf_rect){panes.x, panes.y, panes.w, 1};
		l->detail = (mf_rect){panes.x, panes.y + 1, panes.w, upper - 1};
	}
	if (side_open) {
		l->side_tabs = (mf_rect){panes.x, panes.y + upper, panes.w, 1};
		l->side = (mf_rect){panes.x, panes.y + upper + 1, panes.w, panes.h - upper - 1};
	}
}

/* ---- header ---- */

/* Words from left to right while they fit, two blanks between. */
static void chips(mf_cells *s, int y, int w, mf_role first, mf_role rest, const char *const *words, int n)
{
	int x = 1;
	for (int i = 0; i < n; i++) {
		int width = mf_text_width(words[i], s->ascii);
		if (width == 0)
			continue;
		if (x + width > w - 1 && x > 1)
			return;
		x += mf_cells_text(s, x, y, w - x - 1, i == 0 ? first : rest, words[i]) + 2;
	}
}

static void draw_header(mf_app *a, mf_cells *s, mf_rect r)
{
	char changes[512], changed[560] = "", counts[256], best[MF_PLAN_TEXT_MAX + 80] = "",
			   filter[MF_PROMPT_MAX + 80] = "", text[8][192], n[4][32], took[48] = "";
	const char *model = strrchr(a->now.model.name, '/');
	const mf_stack *stack = a->in.stack;

	snprintf(text[0], sizeof(text[0]), "moefs");
	snprintf(text[1], sizeof(text[1]), "%s", model && model[1] ? model + 1 : a->now.model.name);
	snprintf(text[2], sizeof(text[2]), "%s", mf_choice_name(mf_phase_choices, (int)a->phase));
	snprintf(text[3], sizeof(text[3]), "%s", a->now.cluster.name);
	snprintf(text[4], sizeof(text[4]), "%s", mf_choice_name(mf_toolchain_choices, (int)stack->toolchain));
	snprintf(text[5], sizeof(text[5]), "%s space", mf_choice_name(mf_space_choices, (int)a->now.search.space));
	snprintf(text[6], sizeof(text[6]), "%s ledger",
		mf_choice_name(mf_ledger_choices, (int)a->now.search.cost.ledger));
	snprintf(text[7], sizeof(text[7]), "%s", a->in.workload->name);
	const char *top[] = {text[0], text[1], text[2], text[3], text[4], text[6], text[5], text[7]};
	chips(s, r.y, r.w, MF_ROLE_ACCENT, MF_ROLE_HEADER, top, 8);

	mf_format_count(n[0], sizeof(n[0]), a->searching && a->counts.scored == 0 ? a->arrived : a->counts.scored);
	mf_format_count(n[1], sizeof(n[1]), a->counts.scored - a->counts.rejected_emit - a->counts.rejected_memory);
	mf_format_count(n[2], sizeof(n[2]), a->counts.rejected_emit);
	mf_format_count(n[3], sizeof(n[3]), a->counts.rejected_memory);
	if (a->searching)
		snprintf(took, sizeof(took), "searching");
	else if (!a->hide_times)
		snprintf(took, sizeof(took), "%.0f ms", a->timing.total_ms);
	if (a->counts.scored == 0)
		snprintf(counts, sizeof(counts), "%s plans", n[0]);
	else
		snprintf(counts, sizeof(counts), "%s plans: %s buildable, %s refused by the emitter, %s by memory",
			n[0], n[1], n[2], n[3]);
	if (mf_text_width(counts, s->ascii) > r.w - 2)
		snprintf(counts, sizeof(counts), "%s plans: %s buildable; refused: %s emitter, %s memory", n[0], n[1],
			n[2], n[3]);
	if (a->best != MF_NO_ROW && a->best < a->n_rows) {
		const mf_row *row = &a->rows[a->best];
		char plan[MF_PLAN_TEXT_MAX], number[32];
		mf_plan_format(&row->plan, a->in.intern, plan);
		mf_format_number(number, sizeof(number), a->now.tax ? row->throughput : row->untaxed, 0);
		snprintf(best, sizeof(best), "best %s%s: %s tok/s/GPU", a->now.constraint ? "buildable " : "", plan,
			number);
	}
	if (a->filter[0]) {
		char shown[32];
		mf_format_count(shown, sizeof(shown), a->n_view);
		snprintf(filter, sizeof(filter), "/%s  (%s of %s)", a->filter, shown, n[0]);
	}
	snprintf(text[0], sizeof(text[0]), "constraint %s", a->now.constraint ? "on" : "off");
	snprintf(text[1], sizeof(text[1]), "tax %s", a->now.tax ? "on" : "off");
	const char *base = strrchr(a->now.overlay, '/');
	snprintf(text[2], sizeof(text[2]), "overlay %.60s",
		a->now.overlay[0] ? (base ? base + 1 : a->now.overlay) : "none");
	snprintf(text[3], sizeof(text[3]), "show %s", mf_choice_name(mf_show_choices, (int)a->show));
	snprintf(text[4], sizeof(text[4]), "sort %s%s", mf_choice_name(mf_sort_key_choices, (int)a->sort),
		mf_glyph_text(a->descending ? MF_G_DOWN : MF_G_UP, s->ascii));
	if (mf_whatif_words(a, changes, sizeof(changes)) > 0)
		snprintf(changed, sizeof(changed), "changed: %s", changes);
	if (r.h >= 3) {
		const char *second[] = {counts, took, best};
		chips(s, r.y + 1, r.w, MF_ROLE_TEXT, MF_ROLE_HEADER_DIM, second, 3);
		/* What differs from the start comes first; what is as ever gives way to it. */
		const char *third[] = {changed, filter, text[0], text[1], text[2], text[3], text[4]};
		chips(s, r.y + 2, r.w, changed[0] ? MF_ROLE_ACCENT : MF_ROLE_TEXT, MF_ROLE_TEXT, third, 7);
	} else {
		if (a->counts.scored)
			snprintf(counts, sizeof(counts), "%s plans, %s buildable", n[0], n[1]);
		const char *second[] = {counts, filter, changed, took, text[0], text[1], text[2], text[3], text[4]};
		chips(s, r.y + 1, r.w, MF_ROLE_TEXT, MF_ROLE_HEADER_DIM, second, 9);
	}
}

/* ---- detail ---- */

/* Name of tab i in a line of `width` columns: with its digit where all of them have room for it. */
static void tab_text(char *out, size_t size, int i, bool open, int width)
{
	int need = 0;

	for (int k = 0; mf_tab_choices[k].name; k++)
		need += (int)strlen(mf_tab_choices[k].name) + 4;
	if (need <= width)
		snprintf(out, size, open ? "[%d %s]" : " %d %s ", i + 1, mf_tab_choices[i].name);
	else
		snprintf(out, size, open ? "[%s]" : " %s ", mf_tab_choices[i].name);
}

int mf_view_tab_at(mf_rect tabs, int x)
{
	int at = tabs.x;

	for (int i = 0; mf_tab_choices[i].name; i++) {
		char text[32];
		tab_text(text, sizeof(text), i, false, tabs.w);
		if (x >= at && x < at + (int)strlen(text))
			return mf_tab_choices[i].value;
		at += (int)strlen(text);
	}
	return -1;
}

static void draw_detail(mf_app *a, mf_cells *s, const mf_layout *l)
{
	mf_rect t = l->tabs;
	int x = t.x;

	for (int i = t.x; i < t.x + t.w; i++)
		mf_cells_text(s, i, t.y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_HLINE, s->ascii));
	for (int i = 0; mf_tab_choices[i].name; i++) {
		char text[32];
		/* Brackets, not colour alone, say which tab is open. */
		bool open = mf_tab_choices[i].value == (int)a->tab;
		tab_text(text, sizeof(text), i, open, t.w);
		x += mf_cells_text(s, x, t.y, t.x + t.w - x, open ? MF_ROLE_TAB_ACTIVE : MF_ROLE_TAB, text);
	}
	if (a->focus == MF_FOCUS_DETAIL && x + 18 < t.x + t.w)
		mf_cells_text(s, x + 1, t.y, t.x + t.w - x - 1, MF_ROLE_ACCENT, " j/k scroll ");
	mf_rect r = l->detail;
	r.x += 1;
	r.w -= 1;
	a->detail_height = r.h;
	a->detail_lines = mf_detail_draw(a, s, r, a->detail_scroll);
	if (a->detail_lines > a->detail_scroll + r.h) {
		/* What is below the edge is announced on it. */
		char more[32];
		snprintf(more, sizeof(more), " %d more ", a->detail_lines - a->detail_scroll - r.h);
		int w = (int)strlen(more);
		if (x + 16 + w < t.x + t.w)
			mf_cells_text(s, t.x + t.w - w - 1, t.y, w, MF_ROLE_DIM, more);
	}
}

/* ---- status ---- */

static void draw_prompt(mf_app *a, mf_cells *s, mf_rect r, int *cursor_x, int *cursor_y)
{
	const mf_prompt *p = &a->prompt;
	char named[48];
	snprintf(named, sizeof(named), "%s: ", mf_tui_keys[p->action - 1].name);
	const char *label = p->action == MF_ACT_FILTER    ? "/"
			    : p->action == MF_ACT_COMMAND ? ":"
			    : p->action == MF_ACT_FIND    ? "find: "
			    : p->action == MF_ACT_EXPORT  ? (p->overwrite ? "replace: " : "write to: ")
							  : named;
	int x = mf_cells_text(s, r.x, r.y, r.w, MF_ROLE_KEY, label), room = r.w - x - 1;
	char head[MF_PROMPT_MAX];
	/* Long lines slide so that the cursor stays in sight. */
	size_t from = 0;
	for (;;) {
		snprintf(head, sizeof(head), "%.*s", (int)(p->cursor - from), p->text + from);
		if (mf_text_width(head, s->ascii) <= room || from >= p->cursor)
			break;
		from++;
		while (from < p->len && ((unsigned char)p->text[from] & 0xc0) == 0x80)
			from++;
	}
	mf_cells_text(s, r.x + x, r.y, room, MF_ROLE_PROMPT, p->text + from);
	*cursor_x = r.x + x + mf_text_width(head, s->ascii);
	*cursor_y = r.y;
}

/* A key named in the last line: of an action (or of two that belong together), or fixed; `label` NULL: the action's. */
struct footer {
	mf_action action, other;
	const char *fixed, *label;
};

#define KEY(id)                                                                                                        \
	{                                                                                                              \
		.action = MF_ACT_##id                                                                                  \
	}
#define AS(id, says)                                                                                                   \
	{                                                                                                              \
		.action = MF_ACT_##id, .label = says                                                                   \
	}
#define PAIR(id, id2, says)                                                                                            \
	{                                                                                                              \
		.action = MF_ACT_##id, .other = MF_ACT_##id2, .label = says                                            \
	}
#define FIXED(key, says)                                                                                               \
	{                                                                                                              \
		.action = MF_ACT_BACK, .fixed = key, .label = says                                                     \
	}

/* What the keys do here and now, the most telling first: what does not fit is left out. */
static const struct footer *footer_of(const mf_app *a)
{
	static const struct footer table[] = {KEY(HELP), KEY(QUIT), KEY(DETAIL), KEY(FILTER), KEY(NEXT), KEY(EXPORT),
		KEY(CONSTRAINT), KEY(SHOW), KEY(ASSUMPTIONS), KEY(MARK), KEY(COMPARE), KEY(UNDO), KEY(SORT),
		KEY(BOUNDARIES), KEY(COPY), KEY(MODEL), KEY(CLUSTER), KEY(NONE)};
	/* On a refused plan the way out comes first. */
	static const struct footer refused[] = {KEY(HELP), KEY(QUIT), KEY(NEAREST), KEY(NEXT), KEY(DETAIL), KEY(FILTER),
		KEY(CONSTRAINT), KEY(SHOW), KEY(ASSUMPTIONS), KEY(MARK), KEY(COMPARE), KEY(UNDO), KEY(BOUNDARIES),
		KEY(SORT), KEY(NONE)};
	static const struct footer front[] = {AS(FRONT, "table"), PAIR(DOWN, UP, "along the front"), KEY(DETAIL),
		KEY(EXPORT), KEY(MARK), KEY(HELP), KEY(QUIT), KEY(NONE)};
	static const struct footer detail[] = {KEY(BACK), AS(TAB_NEXT, "next tab"), PAIR(DOWN, UP, "scroll"),
		KEY(EXPORT), KEY(COPY), KEY(HELP), KEY(QUIT), KEY(NONE)};
	static const struct footer timeline[] = {KEY(BACK), PAIR(ZOOM_IN, ZOOM_OUT, "zoom"),
		FIXED("Left/Right", "move"), PAIR(DOWN, UP, "scroll"), AS(TAB_NEXT, "next tab"), KEY(HELP), KEY(QUIT),
		KEY(NONE)};
	static const struct footer side[] = {AS(SIDE, "close"), AS(TAB_NEXT, "next tab"), PAIR(DOWN, UP, "scroll"),
		KEY(BACK), KEY(HELP), KEY(QUIT), KEY(NONE)};
	static const struct footer picker[] = {AS(DETAIL, "choose"), PAIR(DOWN, UP, "move"), KEY(BACK), KEY(NONE)};
	static const struct footer boundaries[] = {
		AS(DETAIL, "show its plans"), PAIR(DOWN, UP, "move"), KEY(BACK), KEY(NONE)};
	static const struct footer assumptions[] = {FIXED("Left/Right", "change"), AS(DETAIL, "type"), KEY(BACK),
		FIXED("Del", "default"), KEY(UNDO), KEY(REDO), KEY(NONE)};
	static const struct footer panel[] = {
		KEY(BACK), PAIR(DOWN, UP, "scroll"), PAIR(PAGE_DOWN, PAGE_UP, "page"), KEY(NONE)};
	const mf_row *row = mf_app_selected(a);

	switch (a->panel) {
	case MF_PANEL_PICKER: return picker;
	case MF_PANEL_BOUNDARIES: return boundaries;
	case MF_PANEL_ASSUMPTIONS: return assumptions;
	case MF_PANEL_HELP:
	case MF_PANEL_COMPARE: return panel;
	case MF_PANEL_NONE: break;
	}
	if (a->focus == MF_FOCUS_SIDE)
		return side;
	if (a->focus == MF_FOCUS_DETAIL)
		return a->tab == MF_TAB_TIMELINE && a->phase == MF_TRAIN ? timeline : detail;
	if (a->front_open)
		return front;
	return a->now.constraint && row && row->rule != MF_RULE_NONE ? refused : table;
}

static void draw_keys(const mf_app *a, mf_cells *s, mf_rect r)
{
	int x = r.x;

	if (a->prompt.action != MF_ACT_NONE) {
		bool history = a->prompt.action == MF_ACT_FILTER || a->prompt.action == MF_ACT_FIND ||
			       a->prompt.action == MF_ACT_COMMAND;
		mf_cells_text(s, x, r.y, r.w, MF_ROLE_KEY_HELP,
			history ? "Enter accept  Esc cancel  Up/Down history  Tab complete"
				: "Enter accept  Esc cancel  Tab complete");
		return;
	}
	for (const struct footer *f = footer_of(a); f->action != MF_ACT_NONE; f++) {
		char first[16], second[16] = "", key[48];
		mf_keymap_first(&a->keymap, f->action, first);
		if (f->other != MF_ACT_NONE)
			mf_keymap_first(&a->keymap, f->other, second);
		snprintf(key, sizeof(key), "%s%s%s", f->fixed ? f->fixed : first, second[0] ? "/" : "", second);
		if (!key[0])
			continue;
		const char *name = f->label ? f->label : mf_tui_keys[f->action - 1].name;
		int need = mf_text_width(key, s->ascii) + 1 + mf_text_width(name, s->ascii);
		if (x + need > r.x + r.w)
			break;
		x += mf_cells_text(s, x, r.y, r.w - (x - r.x), MF_ROLE_KEY, key) + 1;
		x += mf_cells_text(s, x, r.y, r.w - (x - r.x), MF_ROLE_KEY_HELP, name) + 2;
	}
}

/* A text over the lines of r, broken at blanks; the last line is cut where it does not fit. */
static void draw_wrapped(mf_cells *s, mf_rect r, mf_role role, const char *text)
{
	for (int y = 0; y < r.h && *text; y++) {
		size_t n = y + 1 < r.h ? mf_text_line(text, r.w, s->ascii) : strlen(text);
		char line[1024];
		n = n < sizeof(line) - 1 ? n : sizeof(line) - 1;
		memcpy(line, text, n);
		line[n] = 0;
		mf_cells_text(s, r.x, r.y + y, r.w, role, line);
		text += n;
		text += strspn(text, " ");
	}
}

const char mf_probe_words[] = "buildable, but within the ledger's error of the budget: launch it to know";

/* What there is to say of the chosen line of an open panel. */
static void panel_words(const mf_app *a, char *out, size_t size)
{
	const mf_knob *k = a->panel == MF_PANEL_ASSUMPTIONS ? mf_knob_at(a, a->item) : NULL;

	out[0] = 0;
	if (k) {
		const mf_tui_key *t = &mf_tui_keys[k->action - 1];
		snprintf(out, size, "%s  %s", t->help, t->argument);
	} else if (a->panel == MF_PANEL_BOUNDARIES && a->item >= 0 && (size_t)a->item < a->n_reasons) {
		const mf_rule *rule = mf_rule_get(a->reasons[a->item].rule);
		snprintf(out, size, "%s: %s", rule->boundary, rule->when && rule->when[0] ? rule->when : rule->id);
	}
}

static void draw_status(mf_app *a, mf_cells *s, mf_rect r, int *cursor_x, int *cursor_y)
{
	if (a->panel != MF_PANEL_NONE)
		r = (mf_rect){r.x, r.y + r.h - 2, r.w, 2};
	const mf_row *row = mf_app_selected(a);
	mf_rect first = {r.x, r.y, r.w, r.h - 1}, last = {r.x, r.y + r.h - 1, r.w, 1};

	if (a->prompt.action != MF_ACT_NONE) {
		draw_prompt(a, s, first, cursor_x, cursor_y);
		if (a->message[0]) {
			mf_cells_text(s, last.x, last.y, last.w, a->message_is_error ? MF_ROLE_ERROR : MF_ROLE_MESSAGE,
				a->message);
			return;
		}
	} else if (a->message[0]) {
		/* A long message takes the line of keys too: it is gone with the next key. */
		bool is_long = mf_text_width(a->message, s->ascii) > first.w * first.h;
		draw_wrapped(s, is_long ? r : first, a->message_is_error ? MF_ROLE_ERROR : MF_ROLE_MESSAGE, a->message);
		if (is_long)
			return;
	} else if (a->panel != MF_PANEL_NONE) {
		char text[400];
		panel_words(a, text, sizeof(text));
		mf_cells_text(s, first.x, first.y, first.w, MF_ROLE_MESSAGE, text);
	} else if (row && a->now.constraint && row->rule != MF_RULE_NONE && a->detail.valid &&
		   a->detail.refusal.reason[0]) {
		char text[700];
		snprintf(text, sizeof(text), "%s %s: %s", mf_glyph_text(MF_G_REFUSED, s->ascii), a->detail.refusal.rule,
			a->detail.refusal.reason);
		draw_wrapped(s, first, MF_ROLE_REASON, text);
	} else if (row && a->now.constraint && row->probe) {
		draw_wrapped(s, first, MF_ROLE_PROBE, mf_probe_words);
	}
	draw_keys(a, s, last);
}

/* ---- panels ---- */

static void draw_frame(mf_cells *s, mf_rect r, const char *title)
{
	mf_cells_fill(s, r, MF_ROLE_POPUP, ' ');
	for (int x = r.x + 1; x < r.x + r.w - 1; x++) {
		mf_cells_text(s, x, r.y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_HLINE, s->ascii));
		mf_cells_text(s, x, r.y + r.h - 1, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_HLINE, s->ascii));
	}
	for (int y = r.y + 1; y < r.y + r.h - 1; y++) {
		mf_cells_text(s, r.x, y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_VLINE, s->ascii));
		mf_cells_text(s, r.x + r.w - 1, y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_VLINE, s->ascii));
	}
	mf_cells_text(s, r.x, r.y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_CORNER_TL, s->ascii));
	mf_cells_text(s, r.x + r.w - 1, r.y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_CORNER_TR, s->ascii));
	mf_cells_text(s, r.x, r.y + r.h - 1, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_CORNER_BL, s->ascii));
	mf_cells_text(s, r.x + r.w - 1, r.y + r.h - 1, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_CORNER_BR, s->ascii));
	mf_cells_text(s, r.x + 2, r.y, r.w - 4, MF_ROLE_TITLE, title);
}

/* A name and what it is, over as many lines as that takes. Returns the next line. */
static int help_line(mf_cells *s, mf_rect r, int line, int scroll, mf_role role, const char *left, const char *right)
{
	int y = line - scroll;
	if (y >= 0 && y < r.h)
		mf_cells_text(s, r.x, r.y + y, right ? 24 : r.w, role, left);
	do {
		char piece[256];
		size_t n = right ? mf_text_line(right, r.w - 25, s->ascii) : 0;
		n = n < sizeof(piece) - 1 ? n : sizeof(piece) - 1;
		y = line++ - scroll;
		if (!right)
			break;
		memcpy(piece, right, n);
		piece[n] = 0;
		if (y >= 0 && y < r.h)
			mf_cells_text(s, r.x + 25, r.y + y, r.w - 25, MF_ROLE_POPUP, piece);
		right += n;
		right += strspn(right, " ");
	} while (*right);
	return line;
}

static int draw_help(mf_app *a, mf_cells *s, mf_rect r)
{
	int line = 0, scroll = a->panel_scroll;
	const char *group = "";
	for (const mf_tui_key *t = mf_tui_keys; t->name; t++) {
		char left[96], right[160], keys[64];
		if (strcmp(group, t->group) != 0) {
			if (*group)
				line++;
			line = help_line(s, r, line, scroll, MF_ROLE_TITLE, t->group, NULL);
			group = t->group;
		}
		mf_keymap_keys(&a->keymap, (mf_action)t->action, keys, sizeof(keys));
		snprintf(left, sizeof(left), "%-10s :%s", keys, t->name);
		snprintf(right, sizeof(right), "%s%s%s", t->help, t->argument[0] ? "  " : "", t->argument);
		line = help_line(s, r, line, scroll, MF_ROLE_KEY, left, right);
	}
	line++;
	line = help_line(s, r, line, scroll, MF_ROLE_TITLE, "filter and find", NULL);
	line = help_line(s, r, line, scroll, MF_ROLE_POPUP,
		"ep8 and mem<70 and not offload   /^tp[12]/   rule:mcore.*   ( | & ! )", NULL);
	for (const mf_filter_field *f = mf_filter_fields; f->name; f++)
		line = help_line(s, r, line, scroll, MF_ROLE_KEY, f->name, f->help);
	for (int i = 0; mf_plan_dims[i].name; i++)
		if (mf_plan_dims[i].phases & 1u << a->phase)
			line = help_line(
				s, r, line, scroll, MF_ROLE_KEY, mf_plan_dims[i].segment, mf_plan_dims[i].help);
	line++;
	line = help_line(s, r, line, scroll, MF_ROLE_TITLE, "signs", NULL);
	char sign[40];
	snprintf(sign, sizeof(sign), "%s refused", mf_glyph_text(MF_G_REFUSED, s->ascii));
	line = help_line(
		s, r, line, scroll, MF_ROLE_KEY, sign, "the plan cannot be built; the boundary's class follows");
	line = help_line(s, r, line, scroll, MF_ROLE_KEY, "probe", mf_probe_words);
	line = help_line(
		s, r, line, scroll, MF_ROLE_KEY, "~1234", "a constant was used outside the range it was measured in");
	snprintf(sign, sizeof(sign), "%s", mf_glyph_text(MF_G_MARK, s->ascii));
	line = help_line(s, r, line, scroll, MF_ROLE_KEY, sign, "marked for comparison");
	line++;
	line = help_line(s, r, line, scroll, MF_ROLE_TITLE, "boundaries", NULL);
	for (const mf_boundary *b = mf_boundaries; b->id; b++)
		line = help_line(s, r, line, scroll, MF_ROLE_KEY, b->id, b->title);
	return line;
}

/* One line of a list to choose from. */
static void list_line(
	const mf_app *a, mf_cells *s, mf_rect r, int line, mf_role role, const int *x, const char *const *text, int n)
{
	int y = line - a->panel_scroll;
	bool chosen = line == a->item;

	if (y < 0 || y >= r.h)
		return;
	if (chosen) {
		mf_cells_fill(s, (mf_rect){r.x - 1, r.y + y, r.w + 2, 1}, MF_ROLE_POPUP_SELECTED, ' ');
		mf_cells_text(s, r.x - 1, r.y + y, 1, MF_ROLE_POPUP_SELECTED, mf_glyph_text(MF_G_CURSOR, s->ascii));
	}
	for (int i = 0; i < n; i++) {
		int end = i + 1 < n ? x[i + 1] - 1 : r.w;
		if (x[i] < r.w)
			mf_cells_text(s, r.x + x[i], r.y + y, end - x[i] < r.w - x[i] ? end - x[i] : r.w - x[i],
				chosen ? MF_ROLE_POPUP_SELECTED : role, text[i]);
	}
}

/* The chosen line stays in sight. */
static void follow_item(mf_app *a, int height)
{
	if (a->item < a->panel_scroll)
		a->panel_scroll = a->item;
	if (a->item >= a->panel_scroll + height)
		a->panel_scroll = a->item - height + 1;
}

static int draw_assumptions(mf_app *a, mf_cells *s, mf_rect r)
{
	static const int x[] = {1, 16, 38, 56};
	const mf_knob *k;
	int n = 0;

	mf_rect list = {r.x, r.y + 1, r.w, r.h - 1};
	follow_item(a, list.h);
	mf_cells_text(s, r.x + x[0], r.y, r.w, MF_ROLE_TITLE, "assumption");
	mf_cells_text(s, r.x + x[1], r.y, r.w - x[1], MF_ROLE_TITLE, "now");
	mf_cells_text(s, r.x + x[2], r.y, r.w - x[2], MF_ROLE_TITLE, "at the start");
	for (; (k = mf_knob_at(a, n)) != NULL; n++) {
		char now[256], was[256];
		mf_knob_text(&a->now, k, now, sizeof(now));
		mf_knob_text(&a->defaults, k, was, sizeof(was));
		bool differs = strcmp(now, was) != 0;
		const char *text[] = {
			mf_tui_keys[k->action - 1].name, now, differs ? was : "", mf_tui_keys[k->action - 1].help};
		/* What there is no room for stands below, of the chosen line. */
		list_line(a, s, list, n, differs ? MF_ROLE_ACCENT : MF_ROLE_POPUP, x, text, r.w >= 110 ? 4 : 3);
	}
	a->n_items = n;
	return n + 1;
}

static int draw_boundaries(mf_app *a, mf_cells *s, mf_rect r)
{
	static const int x[] = {1, 13, 23, 42};
	int n = (int)a->n_reasons;

	a->n_items = n;
	follow_item(a, r.h);
	if (n == 0)
		mf_cells_text(s, r.x, r.y, r.w, MF_ROLE_POPUP, a->searching ? "searching" : "no rule removed a plan");
	for (int i = a->panel_scroll; i < n && i < a->panel_scroll + r.h; i++) {
		const mf_rule *rule = mf_rule_get(a->reasons[i].rule);
		char count[32], right[32];
		mf_format_count(count, sizeof(count), a->reasons[i].count);
		snprintf(right, sizeof(right), "%11s", count);
		const char *text[] = {right, rule->boundary, rule->id, rule->when ? rule->when : ""};
		list_line(a, s, r, i, MF_ROLE_POPUP, x, text, 4);
	}
	return n;
}

/* Where the open panel stands, its frame included. */
static mf_rect panel_rect(const mf_app *a)
{
	mf_rect body = {0, 2, a->w, a->h - 4};

	if (a->panel != MF_PANEL_PICKER)
		return body;
	int h = a->n_items + 2 > body.h ? body.h : a->n_items + 2, w = 20;
	for (int i = 0; i < a->n_items; i++) {
		int need = mf_text_width(a->picker_items[i], a->ascii) + 6;
		w = need > w ? need : w;
	}
	w = w > body.w ? body.w : w;
	return (mf_rect){(body.w - w) / 2, body.y + (body.h - h) / 2, w, h};
}

/* First line of the panel's list that is in sight. */
static int panel_from(const mf_app *a, int height)
{
	return a->panel != MF_PANEL_PICKER ? a->panel_scroll : a->item >= height ? a->item - (height - 1) : 0;
}

bool mf_view_panel_line(const mf_app *a, int x, int y, int *line)
{
	mf_rect r = panel_rect(a);

	if (x < r.x || x >= r.x + r.w || y < r.y || y >= r.y + r.h)
		return false;
	/* The assumptions have a heading. */
	int first = r.y + 1 + (a->panel == MF_PANEL_ASSUMPTIONS);
	*line = y < first || y >= r.y + r.h - 1 ? -1 : y - first + panel_from(a, r.h - 2);
	return true;
}

static void draw_panel(mf_app *a, mf_cells *s)
{
	mf_rect body = panel_rect(a);

	if (a->panel == MF_PANEL_PICKER) {
		mf_rect r = body;
		int h = r.h;
		draw_frame(s, r, mf_tui_keys[a->picker - 1].name);
		int from = panel_from(a, h - 2);
		for (int i = from; i < a->n_items && i - from < h - 2; i++) {
			mf_role role = i == a->item ? MF_ROLE_POPUP_SELECTED : MF_ROLE_POPUP;
			int y = r.y + 1 + i - from;
			mf_cells_fill(s, (mf_rect){r.x + 1, y, r.w - 2, 1}, role, ' ');
			if (i == a->item)
				mf_cells_text(s, r.x + 1, y, 1, role, mf_glyph_text(MF_G_CURSOR, s->ascii));
			mf_cells_text(s, r.x + 3, y, r.w - 5, role, a->picker_items[i]);
		}
		a->panel_height = h - 2;
		a->panel_lines = a->n_items;
		return;
	}
	static const char *const titles[] = {
		[MF_PANEL_HELP] = "help",
		[MF_PANEL_COMPARE] = "compare",
		[MF_PANEL_ASSUMPTIONS] = "assumptions",
		[MF_PANEL_BOUNDARIES] = "what each rule removed",
	};
	draw_frame(s, body, titles[a->panel]);
	mf_rect r = {body.x + 2, body.y + 1, body.w - 4, body.h - 2};
	a->panel_height = r.h;
	switch (a->panel) {
	case MF_PANEL_COMPARE: a->panel_lines = mf_compare_draw(a, s, r, a->panel_scroll); break;
	case MF_PANEL_ASSUMPTIONS: a->panel_lines = draw_assumptions(a, s, r); break;
	case MF_PANEL_BOUNDARIES: a->panel_lines = draw_boundaries(a, s, r); break;
	default: a->panel_lines = draw_help(a, s, r); break;
	}
	int left = a->panel_lines - a->panel_scroll - r.h;
	if (left > 0) {
		char more[32];
		snprintf(more, sizeof(more), " %d more ", left);
		mf_cells_text(s, body.x + body.w - (int)strlen(more) - 2, body.y + body.h - 1, 20, MF_ROLE_DIM, more);
	}
}

void mf_app_view(mf_app *a, mf_cells *s, int *cursor_x, int *cursor_y)
{
	mf_layout l;

	*cursor_x = *cursor_y = -1;
	s->ascii = a->ascii;
	mf_cells_fill(s, (mf_rect){0, 0, s->w, s->h}, MF_ROLE_TEXT, ' ');
	mf_layout_make(&l, s->w, s->h, a->detail_open, a->side.open);
	if (l.too_small) {
		char text[80];
		snprintf(text, sizeof(text), "moefs needs %dx%d, this is %dx%d; q quits", MF_MIN_W, MF_MIN_H, s->w,
			s->h);
		int y = 0, width = 0;
		for (const char *t = text; *t && y < s->h; y++) {
			size_t n = mf_text_fit(t, strlen(t), s->w, true, &width);
			char piece[80];
			if (n == 0)
				break;
			memcpy(piece, t, n);
			piece[n] = 0;
			mf_cells_text(s, 0, y, s->w, MF_ROLE_ERROR, piece);
			t += n;
		}
		return;
	}
	if (a->page != l.table.h) {
		/* The page changed with the window or the pane: the cursor stays on it. */
		a->page = l.table.h;
		if (a->cursor >= a->top + (size_t)a->page)
			a->top = a->cursor - (size_t)a->page + 1;
		if (a->top + (size_t)a->page > a->n_view)
			a->top = a->n_view > (size_t)a->page ? a->n_view - (size_t)a->page : 0;
	}
	mf_detail_refresh(a);
	draw_header(a, s, l.header);
	if (a->front_open)
		mf_plot_draw(a, s, l.heading, l.table);
	else
		mf_table_draw(a, s, &l);
	for (int y = l.rule.y; y < l.rule.y + l.rule.h; y++)
		mf_cells_text(s, l.rule.x, y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_VLINE, s->ascii));
	if (l.detail.w > 0)
		draw_detail(a, s, &l);
	if (l.side.w > 0)
		mf_side_draw(a, s, l.side_tabs, l.side);
	draw_status(a, s, l.status, cursor_x, cursor_y);
	if (a->panel != MF_PANEL_NONE)
		draw_panel(a, s);
}
