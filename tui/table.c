/* table.c: the ranked plans as rows and columns. */
#include "tui_app.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum column_id {
	COL_RANK,
	COL_MOVED,
	COL_PLAN,
	COL_TPUT,
	COL_STEP,
	COL_TTFT,
	COL_TPOT,
	COL_MEM,
	COL_BAR,
	COL_HIDDEN,
	COL_BUBBLE,
	COL_SIMULATED,
	COL_MEASURED,
	COL_VERDICT,
	COL_ARGV,
	COL_COUNT
};

/* Every column: its heading, width, phases it is for, how early it goes when room is short (0: never), its sort key. */
static const struct column {
	const char *name; /* in the columns command */
	const char *title;
	int width; /* 0: what is left */
	unsigned phases;
	int goes;
	int sort;
	bool right;
	bool extra; /* only where it is asked for */
} columns[COL_COUNT] = {
	[COL_RANK] = {"rank", "#", 7, 3, 0, -1, true, false},
	[COL_MOVED] = {"moved", "moved", 6, 3, 2, -1, false, false},
	[COL_PLAN] = {"plan", "plan", 0, 3, 0, -1, false, false},
	[COL_TPUT] = {"tput", "tok/s/GPU", 10, 3, 0, MF_SORT_THROUGHPUT, true, false},
	[COL_STEP] = {"step", "step ms", 9, 1u << MF_TRAIN, 5, MF_SORT_STEP, true, false},
	[COL_TTFT] = {"ttft", "TTFT ms", 8, 1u << MF_SERVE, 4, MF_SORT_TTFT, true, false},
	[COL_TPOT] = {"tpot", "TPOT ms", 8, 1u << MF_SERVE, 2, MF_SORT_TPOT, true, false},
	[COL_MEM] = {"mem", "mem GB", 7, 3, 0, MF_SORT_MEMORY, true, false},
	[COL_BAR] = {"bar", "of budget", 10, 3, 6, -1, false, false},
	[COL_HIDDEN] = {"hidden", "hid%", 5, 3, 3, MF_SORT_HIDDEN, true, false},
	[COL_BUBBLE] = {"bubble", "bub%", 5, 1u << MF_TRAIN, 4, MF_SORT_BUBBLE, true, false},
	[COL_SIMULATED] = {"simulated", "simulated", 10, 3, 1, -1, true, true},
	[COL_MEASURED] = {"measured", "measured", 13, 3, 1, -1, true, false},
	[COL_VERDICT] = {"verdict", "verdict", 11, 3, 0, -1, false, false},
	[COL_ARGV] = {"argv", "argv sha256", 12, 3, 1, -1, false, true},
};

#define PLAN_LEAST 22
#define GUTTER 2

_Static_assert(COL_COUNT <= MF_MAX_COLUMNS, "the user can show all of them");

struct placed {
	int x, w;
};

static int rank_width(const mf_app *a)
{
	int digits = 1;
	for (size_t n = a->n_rows; n >= 10; n /= 10)
		digits++;
	return digits < 3 ? 3 : digits;
}

static bool column_on(const mf_app *a, int i, int cut)
{
	bool asked = !columns[i].extra && a->n_columns == 0;
	for (int k = 0; k < a->n_columns; k++)
		asked |= a->columns[k] == i;
	if (!asked || !(columns[i].phases & 1u << a->phase) || (columns[i].goes && columns[i].goes >= cut))
		return false;
	/* These say nothing before there is something to say. */
	if (i == COL_MOVED)
		return mf_before_any(&a->before, a->rows_id);
	return i != COL_MEASURED || a->side.n_measured > 0;
}

/* Places columns in `width`; absent ones get w 0. */
static void place_columns(const mf_app *a, int width, struct placed out[COL_COUNT])
{
	/* The plan's text says most: optional columns go, the least telling first, until it has its 40 columns. Only where
	 * that does not suffice does the text give way too. */
	static const int wanted[] = {40, 30, PLAN_LEAST};
	int cut = 0;
	for (size_t k = 0; k < MF_COUNT(wanted) && cut == 0; k++) {
		for (cut = 7; cut > 0; cut--) {
			int used = GUTTER;
			for (int i = 0; i < COL_COUNT; i++)
				if (column_on(a, i, cut))
					used += 1 + (i == COL_PLAN          ? wanted[k]
							    : i == COL_RANK ? rank_width(a)
									    : columns[i].width);
			if (used <= width)
				break;
		}
	}
	cut = cut == 0 ? 1 : cut;
	int used = GUTTER;
	for (int i = 0; i < COL_COUNT; i++) {
		bool on = column_on(a, i, cut);
		out[i].w = !on ? 0 : i == COL_PLAN ? 0 : i == COL_RANK ? rank_width(a) : columns[i].width;
		used += on ? 1 + out[i].w : 0;
	}
	out[COL_PLAN].w = width - used > 8 ? width - used : 8;
	int x = GUTTER;
	for (int k = 0; k < (a->n_columns ? a->n_columns : COL_COUNT); k++) {
		int i = a->n_columns ? a->columns[k] : k;
		if (out[i].w == 0)
			continue;
		out[i].x = x;
		x += out[i].w + 1;
	}
}

/* ---- the user's choice ---- */

void mf_columns_names(const mf_app *a, const char **out, size_t cap)
{
	size_t n = 0;
	for (int i = 0; i < COL_COUNT && n + 1 < cap; i++)
		if (columns[i].phases & 1u << a->phase)
			out[n++] = columns[i].name;
	out[n] = NULL;
}

void mf_columns_text(const mf_app *a, char *out, size_t size)
{
	size_t n = 0;
	out[0] = 0;
	for (int k = 0; k < (a->n_columns ? a->n_columns : COL_COUNT) && n < size; k++) {
		int i = a->n_columns ? a->columns[k] : k;
		if ((columns[i].phases & 1u << a->phase) && (a->n_columns || !columns[i].extra))
			n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", columns[i].name);
	}
}

mf_status mf_columns_set(mf_app *a, const char *text, mf_err *err)
{
	uint8_t chosen[MF_MAX_COLUMNS];
	int n = 0;
	bool plan = false;

	if (strcmp(text, "default") == 0) {
		a->n_columns = 0;
		return MF_OK;
	}
	for (const char *s = text + strspn(text, " ,"); *s; s += strspn(s, " ,")) {
		const char *names[COL_COUNT + 1];
		char word[32];
		size_t len = strcspn(s, " ,");
		int i = 0;
		snprintf(word, sizeof(word), "%.*s", (int)(len < 31 ? len : 31), s);
		while (i < COL_COUNT && strcmp(columns[i].name, word) != 0)
			i++;
		if (i == COL_COUNT || !(columns[i].phases & 1u << a->phase)) {
			mf_columns_names(a, names, MF_COUNT(names));
			const char *near = mf_nearest(word, names);
			return mf_fail(err, MF_EINPUT, "no column '%s'%s%s; Tab lists them", word,
				near ? "; nearest is " : "", near ? near : "");
		}
		for (int k = 0; k < n; k++)
			if (chosen[k] == i)
				return mf_fail(err, MF_EINPUT, "'%s' is there twice", word);
		chosen[n++] = (uint8_t)i;
		plan |= i == COL_PLAN;
		s += len;
	}
	if (!plan)
		return mf_fail(err, MF_EINPUT, "plan must be among them: it is what the others are of");
	memcpy(a->columns, chosen, (size_t)n);
	a->n_columns = n;
	return MF_OK;
}

int mf_view_heading_key(const mf_app *a, int x)
{
	mf_layout l;
	struct placed at[COL_COUNT];
	mf_layout_make(&l, a->w, a->h, a->detail_open, a->side.open);
	place_columns(a, l.table.w, at);
	for (int i = 0; i < COL_COUNT; i++)
		if (at[i].w > 0 && x >= at[i].x && x < at[i].x + at[i].w)
			return columns[i].sort;
	return -1;
}

static void draw_heading(const mf_app *a, mf_cells *s, mf_rect r, const struct placed at[COL_COUNT])
{
	mf_cells_fill(s, r, MF_ROLE_TITLE, ' ');
	for (int i = 0; i < COL_COUNT; i++) {
		char text[48];
		if (at[i].w == 0)
			continue;
		bool sorted = columns[i].sort >= 0 && (mf_sort_key)columns[i].sort == a->sort;
		snprintf(text, sizeof(text), "%s%s", columns[i].title,
			sorted ? mf_glyph_text(a->descending ? MF_G_DOWN : MF_G_UP, s->ascii) : "");
		int w = at[i].x + at[i].w > r.w ? r.w - at[i].x : at[i].w;
		if (columns[i].right)
			mf_cells_right(s, r.x + at[i].x, r.y, w, MF_ROLE_TITLE, text);
		else
			mf_cells_text(s, r.x + at[i].x, r.y, w, MF_ROLE_TITLE, text);
	}
}

/* How many ranks the last change of an assumption moved a plan: "^3", "v12", "=", or "new". */
static void moved_text(const mf_app *a, const mf_row *row, uint32_t index, char *out, size_t size)
{
	if (!a->rank_of)
		return;
	uint32_t now = a->rank_of[index], was = mf_before_rank(&a->before, &row->plan, index, a->rows_id);
	if (was == MF_NO_ROW)
		snprintf(out, size, "new");
	else if (was == now)
		snprintf(out, size, "=");
	else
		snprintf(out, size, "%s%u", mf_glyph_text(was > now ? MF_G_UP : MF_G_DOWN, a->ascii),
			was > now ? was - now : now - was);
}

/* "1234 x0.93": what a plan ran at, and that over what was predicted. */
static void measured_text(const mf_app *a, const mf_row *row, char *out, size_t size)
{
	double v = mf_side_measured(&a->side, &row->plan), predicted = a->now.tax ? row->throughput : row->untaxed;
	char n[32];

	if (isnan(v))
		return;
	mf_format_number(n, sizeof(n), v, v < 1000 ? 1 : 0);
	snprintf(out, size, "%s x%.2f", n, v / predicted);
}

/* The beginning of the command's hash: what its measurements are kept under. */
static void argv_text(mf_app *a, const mf_row *row, char *out, size_t size)
{
	char sha[65];
	mf_argv argv;
	mf_err err;

	if (mf_detail_command(a, &row->plan, true, &argv, &err) < 0)
		return;
	if (mf_argv_sha256(&argv, sha) == MF_OK)
		snprintf(out, size, "%.12s", sha);
	mf_argv_dispose(&argv);
}

static void cell_text(mf_app *a, const mf_row *row, uint32_t index, int column, char *out, size_t size)
{
	double v = NAN;
	int digits = 1;
	switch (column) {
	case COL_RANK:
		if (a->rank_of)
			snprintf(out, size, "%u", a->rank_of[index] + 1);
		return;
	case COL_MOVED: moved_text(a, row, index, out, size); return;
	case COL_PLAN: {
		char plan[MF_PLAN_TEXT_MAX];
		mf_plan_format(&row->plan, a->in.intern, plan);
		snprintf(out, size, "%s", plan);
		return;
	}
	case COL_TPUT:
		v = a->now.tax ? row->throughput : row->untaxed;
		mf_format_number(out, size, v, v < 1000 ? 1 : 0);
		if (row->extrapolated && strlen(out) + 1 < size) {
			memmove(out + 1, out, strlen(out) + 1);
			out[0] = '~';
		}
		return;
	case COL_SIMULATED:
		v = row->simulated;
		digits = v < 1000 ? 1 : 0;
		break;
	case COL_MEASURED: measured_text(a, row, out, size); return;
	case COL_ARGV: argv_text(a, row, out, size); return;
	case COL_STEP: v = row->step_ms; break;
	case COL_TTFT: v = row->ttft_ms; break;
	case COL_TPOT:
		v = row->tpot_ms;
		digits = 2;
		break;
	case COL_MEM: v = row->memory_gb; break;
	case COL_HIDDEN:
		v = 100.0 * row->hidden;
		digits = 0;
		break;
	case COL_BUBBLE:
		v = 100.0 * row->bubble;
		digits = 0;
		break;
	case COL_VERDICT:
		if (!a->now.constraint)
			snprintf(out, size, "not asked");
		else if (row->rule != MF_RULE_NONE)
			snprintf(out, size, "%s %s", mf_glyph_text(MF_G_REFUSED, a->ascii),
				mf_rule_get(row->rule)->boundary);
		else
			snprintf(out, size, row->probe ? "probe" : "buildable");
		return;
	default: return;
	}
	if (v >= 100000)
		digits = 0;
	mf_format_number(out, size, v, digits);
}

static bool is_marked(const mf_app *a, const mf_plan *p)
{
	for (int i = 0; i < a->n_marks; i++)
		if (memcmp(&a->marks[i], p, sizeof(*p)) == 0)
			return true;
	return false;
}

static void draw_row(mf_app *a, mf_cells *s, mf_rect r, int y, size_t position, const struct placed at[COL_COUNT])
{
	uint32_t index = a->view[position];
	const mf_row *row = &a->rows[index];
	bool refused = a->now.constraint && row->rule != MF_RULE_NONE, cursor = position == a->cursor;
	mf_role base = cursor    ? (refused ? MF_ROLE_SELECTED_REJECTED : MF_ROLE_SELECTED)
		       : refused ? MF_ROLE_REJECTED
				 : MF_ROLE_TEXT;

	mf_cells_fill(s, (mf_rect){r.x, y, r.w, 1}, base, ' ');
	if (cursor)
		mf_cells_text(s, r.x, y, 1, base, mf_glyph_text(MF_G_CURSOR, s->ascii));
	if (is_marked(a, &row->plan))
		mf_cells_text(s, r.x + 1, y, 1, cursor ? base : MF_ROLE_MARK, mf_glyph_text(MF_G_MARK, s->ascii));
	for (int i = 0; i < COL_COUNT; i++) {
		char text[MF_PLAN_TEXT_MAX] = "";
		if (at[i].w == 0 || at[i].x >= r.w)
			continue;
		int w = at[i].x + at[i].w > r.w ? r.w - at[i].x : at[i].w;
		if (i == COL_BAR) {
			bool plain = cursor || refused;
			mf_cells_gauge(s, r.x + at[i].x, y, w, row->memory_gb * MF_GB / a->budget_bytes,
				plain ? base : MF_ROLE_BAR1, plain ? base : MF_ROLE_DIM);
			continue;
		}
		cell_text(a, row, index, i, text, sizeof(text));
		mf_role role = base;
		if (i == COL_VERDICT && !cursor && a->now.constraint && !refused)
			role = row->probe ? MF_ROLE_PROBE : MF_ROLE_BUILDABLE;
		if (columns[i].right)
			mf_cells_right(s, r.x + at[i].x, y, w, role, text);
		else
			mf_cells_text(s, r.x + at[i].x, y, w, role, text);
	}
}

void mf_table_draw(mf_app *a, mf_cells *s, const mf_layout *l)
{
	struct placed at[COL_COUNT];
	mf_rect r = l->table;

	place_columns(a, r.w, at);
	draw_heading(a, s, l->heading, at);
	for (int i = 0; i < r.h; i++) {
		size_t position = a->top + (size_t)i;
		if (position >= a->n_view)
			break;
		draw_row(a, s, r, r.y + i, position, at);
	}
	if (a->n_view == 0)
		mf_cells_text(s, r.x + GUTTER, r.y, r.w - GUTTER, MF_ROLE_DIM,
			a->searching || a->arranging ? "searching"
			: a->n_rows > 0              ? "no plan matches; Esc clears the filter, o shows all"
						     : "no plans");
}
