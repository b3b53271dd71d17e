/* plot.c: throughput against what it costs: every plan a dot, the Pareto front drawn over them. */
#include "tui_app.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 9 /* columns of the figures at the left */

double mf_front_cost(const mf_app *a, const mf_row *row)
{
	return a->phase == MF_TRAIN ? row->memory_gb : row->tpot_ms;
}

static double gain(const mf_app *a, const mf_row *row)
{
	return a->now.tax ? row->throughput : row->untaxed;
}

void mf_plot_dispose(mf_plot *p)
{
	free(p->refused);
	free(p->buildable);
	memset(p, 0, sizeof(*p));
}

/* What the picture covers: in training a little more than the budget, in serving up to twice the front's slowest plan. */
static void choose_scale(const mf_app *a, mf_plot *p)
{
	double least = INFINITY, most = -INFINITY, top = 0;

	for (size_t i = 0; i < a->n_front; i++) {
		const mf_row *row = &a->rows[a->front[i]];
		double x = mf_front_cost(a, row);
		least = x < least ? x : least;
		most = x > most ? x : most;
	}
	if (a->n_front == 0)
		least = 0, most = 1;
	p->x_min = 0.8 * least;
	if (a->phase == MF_TRAIN) {
		p->x_max = isnan(a->budget_bytes) ? most * 1.1 : 1.1 * a->budget_bytes / MF_GB;
	} else {
		p->x_max = most + (most - least) * 0.25 + least * 0.25;
	}
	for (size_t i = 0; i < a->n_rows; i++) {
		double x = mf_front_cost(a, &a->rows[i]), y = gain(a, &a->rows[i]);
		if (x <= p->x_max && y > top)
			top = y;
	}
	p->y_max = top > 0 ? top * 1.05 : 1;
}

/* Dot (column, row from the top) of a plan; false when it is outside. */
static bool dot_of(const mf_plot *p, double x, double y, int *column, int *row)
{
	double u = (x - p->x_min) / (p->x_max - p->x_min), v = y / p->y_max;

	if (!(u >= 0 && u <= 1 && v >= 0 && v <= 1))
		return false;
	*column = (int)(u * (p->w * 2 - 1) + 0.5);
	*row = (p->h * 4 - 1) - (int)(v * (p->h * 4 - 1) + 0.5);
	return true;
}

/* Bit of a dot in its cell's byte, as Unicode's braille patterns number them. */
static uint8_t dot_bit(int column, int row)
{
	static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
	return bits[row & 3][column & 1];
}

static bool fresh(const mf_app *a, const mf_plot *p, int w, int h)
{
	return p->refused && p->buildable && p->w == w && p->h == h && p->rows_id == a->rows_id && p->tax == a->now.tax;
}

static bool draw_dots(mf_app *a, int w, int h)
{
	mf_plot *p = &a->plot;

	if (fresh(a, p, w, h))
		return true;
	mf_plot_dispose(p);
	p->refused = calloc((size_t)w * (size_t)h, 1);
	p->buildable = calloc((size_t)w * (size_t)h, 1);
	if (!p->refused || !p->buildable)
		return false;
	p->w = w;
	p->h = h;
	p->rows_id = a->rows_id;
	p->tax = a->now.tax;
	choose_scale(a, p);
	for (size_t i = 0; i < a->n_rows; i++) {
		const mf_row *row = &a->rows[i];
		int column, line;
		if (!dot_of(p, mf_front_cost(a, row), gain(a, row), &column, &line))
			continue;
		uint8_t *cells = row->rule == MF_RULE_NONE ? p->buildable : p->refused;
		cells[(line / 4) * w + column / 2] |= dot_bit(column, line);
	}
	return true;
}

static void put_dots(mf_cells *s, int x, int y, bool buildable, uint8_t dots)
{
	mf_role role = buildable ? MF_ROLE_TEXT : MF_ROLE_REJECTED;
	char text[5];

	if (s->ascii) {
		/* The sign says it too: a terminal of this kind may have one colour. */
		mf_cells_text(s, x, y, 1, role, buildable ? ":" : ".");
		return;
	}
	text[mf_utf8_encode(0x2800u + dots, text)] = 0;
	mf_cells_text(s, x, y, 1, role, text);
}

/* Cell of a plan on the screen. */
static bool cell_of(const mf_app *a, mf_rect r, const mf_row *row, int *x, int *y)
{
	int column, line;

	if (!dot_of(&a->plot, mf_front_cost(a, row), gain(a, row), &column, &line))
		return false;
	*x = r.x + MARGIN + column / 2;
	*y = r.y + line / 4;
	return true;
}

static void draw_axes(const mf_app *a, mf_cells *s, mf_rect r, int w, int h)
{
	const mf_plot *p = &a->plot;
	char text[64], n[32];

	for (int y = 0; y < h; y++) {
		mf_cells_text(s, r.x + MARGIN - 1, r.y + y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_VLINE, s->ascii));
		if (y % 4 == 0) {
			mf_format_number(n, sizeof(n), p->y_max * (1.0 - (double)y / h), 0);
			mf_cells_right(s, r.x, r.y + y, MARGIN - 1, MF_ROLE_DIM, n);
		}
	}
	mf_cells_text(s, r.x + MARGIN - 1, r.y + h, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_CORNER_BL, s->ascii));
	for (int x = 0; x < w; x++)
		mf_cells_text(s, r.x + MARGIN + x, r.y + h, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_HLINE, s->ascii));
	for (int x = 0; x + 8 <= w; x += 16) {
		mf_format_number(n, sizeof(n), p->x_min + (p->x_max - p->x_min) * x / w, p->x_max < 10 ? 2 : 1);
		snprintf(text, sizeof(text), "%s", n);
		mf_cells_text(s, r.x + MARGIN + x, r.y + h + 1, 8, MF_ROLE_DIM, text);
	}
	if (a->phase == MF_TRAIN && !isnan(a->budget_bytes)) {
		int x = (int)((a->budget_bytes / MF_GB - p->x_min) / (p->x_max - p->x_min) * (w - 1) + 0.5);
		for (int y = 0; y < h && x >= 0 && x < w; y++)
			mf_cells_text(
				s, r.x + MARGIN + x, r.y + y, 1, MF_ROLE_BAR_OVER, mf_glyph_text(MF_G_VLINE, s->ascii));
	}
}

void mf_plot_draw(mf_app *a, mf_cells *s, mf_rect heading, mf_rect r)
{
	int w = r.w - MARGIN - 1, h = r.h - 2, x, y;
	const mf_row *selected = mf_app_selected(a);
	char text[160];

	mf_cells_fill(s, heading, MF_ROLE_TITLE, ' ');
	snprintf(text, sizeof(text), " tok/s/GPU over %s", a->phase == MF_TRAIN ? "memory GB" : "TPOT ms");
	int end = mf_cells_text(s, heading.x, heading.y, heading.w, MF_ROLE_TITLE, text);
	snprintf(text, sizeof(text), "   %s front of %zu  %s selected%s", mf_glyph_text(MF_G_POINT, s->ascii),
		a->n_front, mf_glyph_text(MF_G_HERE, s->ascii), s->ascii ? "  : buildable  . refused" : "");
	if (end < heading.w)
		mf_cells_text(s, heading.x + end, heading.y, heading.w - end, MF_ROLE_DIM, text);
	if (w < 8 || h < 2 || a->n_rows == 0 || !draw_dots(a, w, h)) {
		mf_cells_text(s, r.x + 1, r.y, r.w - 1, MF_ROLE_DIM,
			a->n_rows == 0 ? (a->searching ? "searching" : "no plans")
				       : "no room for a picture: Enter closes the detail pane");
		return;
	}
	draw_axes(a, s, r, w, h);
	for (y = 0; y < h; y++)
		for (x = 0; x < w; x++) {
			uint8_t bad = a->plot.refused[y * w + x], good = a->plot.buildable[y * w + x];
			if (bad | good)
				put_dots(s, r.x + MARGIN + x, r.y + y, good, bad | good);
		}
	for (size_t i = 0; i < a->n_front; i++)
		if (cell_of(a, r, &a->rows[a->front[i]], &x, &y))
			mf_cells_text(s, x, y, 1, MF_ROLE_BUILDABLE, mf_glyph_text(MF_G_POINT, s->ascii));
	if (selected && cell_of(a, r, selected, &x, &y))
		mf_cells_text(s, x, y, 1, selected->rule == MF_RULE_NONE ? MF_ROLE_SELECTED : MF_ROLE_SELECTED_REJECTED,
			mf_glyph_text(MF_G_HERE, s->ascii));
	else if (selected)
		mf_cells_right(s, r.x, r.y, r.w - 1, MF_ROLE_DIM, "the selected plan is outside the picture");
}

uint32_t mf_plot_step(const mf_app *a, long by)
{
	const mf_row *row = mf_app_selected(a);
	size_t at = a->n_front;

	if (a->n_front == 0 || !row)
		return MF_NO_ROW;
	for (size_t i = 0; i < a->n_front; i++)
		if (&a->rows[a->front[i]] == row)
			at = i;
	if (at == a->n_front) {
		/* Beside the front, the first step leads to the plan of it that costs as much. */
		double cost = mf_front_cost(a, row);
		for (at = 0; at + 1 < a->n_front && mf_front_cost(a, &a->rows[a->front[at]]) < cost;)
			at++;
		by -= by > 0 ? 1 : -1;
	}
	long to = (long)at + by;
	return a->front[to < 0 ? 0 : to >= (long)a->n_front ? (long)a->n_front - 1 : to];
}

uint32_t mf_plot_at(const mf_app *a, mf_rect r, int x, int y)
{
	uint32_t best = MF_NO_ROW;
	int least = INT32_MAX, px, py;

	for (size_t i = 0; i < a->n_front && a->plot.w > 0; i++) {
		if (!cell_of(a, r, &a->rows[a->front[i]], &px, &py))
			continue;
		/* A cell is about twice as high as it is wide. */
		int d = (px - x) * (px - x) + 4 * (py - y) * (py - y);
		if (d < least)
			least = d, best = a->front[i];
	}
	return best;
}
