/*
 * svg.c: predicted against measured. One panel a kind and unit, both axes logarithmic and alike, so a right prediction
 * lies on the diagonal; dashed lines stand at half and at twice the measured figure. Colours are Okabe and Ito's, which
 * colour-blind readers tell apart; each family has its own mark besides. Rows outside the domain are hollow.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score.h"

#define COLUMNS 3
#define CELL 300
#define LEFT 52
#define TOP 34
#define PLOT 216
#define HEAD 64
#define MAX_PANELS 24

static const struct {
	const char *unit, *shown;
	double scale;
} units[] = {
	{"s", "ms", 1e3},
	{"us", "ms", 1e-3},
	{"B", "GB", 1 / MF_GB},
	{"MiB", "GB", MF_MIB / MF_GB},
	{"GiB", "GB", MF_GIB / MF_GB},
};

static const struct {
	const char *name, *gpus, *colour;
	char mark;
} families[] = {
	{"Ampere", " A100 A10 A40 A6000 ", "#009E73", 't'},
	{"Ada", " L40 L40S RTX4090 ", "#CC79A7", 'd'},
	{"Hopper", " H100 H200 H800 H20 GH200 Hopper SM90 ", "#0072B2", 'c'},
	{"Blackwell", " B200 B300 GB200 GB300 RTX6000Pro Blackwell SM100 ", "#D55E00", 's'},
	{"other", NULL, "#777777", 'c'},
};

struct panel {
	mf_row_kind kind;
	const char *unit;
	double low, high; /* decades of the axes */
	size_t n;
};

static const char *shown_unit(const char *unit, double *scale)
{
	*scale = 1;
	for (size_t i = 0; i < MF_COUNT(units); i++)
		if (strcmp(units[i].unit, unit) == 0) {
			*scale = units[i].scale;
			return units[i].shown;
		}
	return unit;
}

static size_t family_of(const char *gpu)
{
	char word[64];

	snprintf(word, sizeof word, " %.60s ", gpu);
	for (size_t i = 0; i + 1 < MF_COUNT(families); i++)
		if (strstr(families[i].gpus, word))
			return i;
	return MF_COUNT(families) - 1;
}

/* A row's point, in the shown unit; false where there is none. */
static bool point(const mf_scorecard *c, size_t i, const char **unit, double *x, double *y)
{
	const mf_measured *r = &c->table->rows[i];
	const mf_judged *j = &c->judged[i];
	double scale;

	*unit = shown_unit(r->unit, &scale);
	*x = r->value * scale;
	*y = j->predicted * scale;
	return j->covered && r->outcome == MF_OUTCOME_OK && *x > 0 && *y > 0 && isfinite(*x) && isfinite(*y);
}

static void text(mf_buf *b, double x, double y, const char *anchor, const char *class, const char *words)
{
	mf_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s%s%s>", x, y, anchor,
		*class ? " class=\"" : "", class, *class ? "\"" : "");
	for (; *words; words++)
		switch (*words) {
		case '&': mf_buf_puts(b, "&amp;"); break;
		case '<': mf_buf_puts(b, "&lt;"); break;
		case '>': mf_buf_puts(b, "&gt;"); break;
		default: mf_buf_putc(b, *words);
		}
	mf_buf_puts(b, "</text>\n");
}

static void mark(mf_buf *b, double x, double y, size_t family, bool hollow)
{
	const char *colour = families[family].colour;
	char paint[80];

	if (hollow)
		snprintf(paint, sizeof paint, "fill=\"none\" stroke=\"%s\"", colour);
	else
		snprintf(paint, sizeof paint, "fill=\"%s\" fill-opacity=\".6\"", colour);
	switch (families[family].mark) {
	case 's':
		mf_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"4\" height=\"4\" %s/>\n", x - 2, y - 2, paint);
		break;
	case 't': mf_buf_printf(b, "<path d=\"M%.1f %.1fl5 0l-2.5-5z\" %s/>\n", x - 2.5, y + 2.5, paint); break;
	case 'd': mf_buf_printf(b, "<path d=\"M%.1f %.1fl3-3l3 3l-3 3z\" %s/>\n", x - 3, y, paint); break;
	default: mf_buf_printf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" %s/>\n", x, y, paint);
	}
}

/* A diagonal y = factor * x, cut to the plot. */
static void diagonal(mf_buf *b, const struct panel *p, double x0, double y0, double factor, const char *dash)
{
	double span = p->high - p->low, d = log10(factor) / span * PLOT;
	double from = d < 0 ? -d : 0, to = d > 0 ? PLOT - d : PLOT;

	mf_buf_printf(b, "<path d=\"M%.1f %.1fL%.1f %.1f\" fill=\"none\" stroke=\"#999\"%s/>\n", x0 + from,
		y0 + PLOT - from - d, x0 + to, y0 + PLOT - to - d, dash);
}

/* 0.01, 1, 100, 10k, 1M */
static void decade(char *out, size_t size, double d)
{
	if (d >= 6)
		snprintf(out, size, "%gM", pow(10, d - 6));
	else if (d >= 4)
		snprintf(out, size, "%gk", pow(10, d - 3));
	else
		snprintf(out, size, "%g", pow(10, d));
}

static void draw_panel(const mf_scorecard *c, const struct panel *p, size_t at, mf_buf *b)
{
	double x0 = (double)(at % COLUMNS * CELL) + LEFT, y0 = (double)(at / COLUMNS * CELL) + TOP + HEAD;
	double step = PLOT / (p->high - p->low);
	char words[96];

	snprintf(words, sizeof words, "%s, %s (%zu)", mf_choice_name(mf_row_kind_choices, (int)p->kind), p->unit, p->n);
	text(b, x0, y0 - 8, "start", "h", words);
	mf_buf_printf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#555\"/>\n", x0,
		y0, PLOT, PLOT);
	for (double d = p->low; d <= p->high; d++) {
		double off = (d - p->low) * step;

		decade(words, sizeof words, d);
		text(b, x0 + off, y0 + PLOT + 14, "middle", "", words);
		text(b, x0 - 4, y0 + PLOT - off + 4, "end", "", words);
		if (d > p->low && d < p->high)
			mf_buf_printf(b, "<path d=\"M%.1f %.1fv%dM%.1f %.1fh%d\" stroke=\"#e4e4e4\"/>\n", x0 + off, y0,
				PLOT, x0, y0 + PLOT - off, PLOT);
	}
	text(b, x0 + PLOT / 2.0, y0 + PLOT + 30, "middle", "", "measured");
	mf_buf_printf(b,
		"<text transform=\"translate(%.1f %.1f)rotate(-90)\" text-anchor=\"middle\">predicted</text>\n",
		x0 - 38, y0 + PLOT / 2.0);
	diagonal(b, p, x0, y0, 1, "");
	diagonal(b, p, x0, y0, 2, " stroke-dasharray=\"4 3\"");
	diagonal(b, p, x0, y0, 0.5, " stroke-dasharray=\"4 3\"");
	for (size_t i = 0; i < c->table->n; i++) {
		const char *unit;
		double x, y;

		if (c->table->rows[i].kind == p->kind && point(c, i, &unit, &x, &y) && strcmp(unit, p->unit) == 0)
			mark(b, x0 + (log10(x) - p->low) * step, y0 + PLOT - (log10(y) - p->low) * step,
				family_of(c->table->rows[i].gpu), c->judged[i].outside);
	}
}

static size_t find_panels(const mf_scorecard *c, struct panel panels[MAX_PANELS])
{
	size_t n = 0;

	for (int kind = 0; kind < MF_ROW_COUNT; kind++)
		for (size_t i = 0; i < c->table->n; i++) {
			const char *unit;
			double x, y;
			size_t k = 0;

			if ((int)c->table->rows[i].kind != kind || !point(c, i, &unit, &x, &y))
				continue;
			while (k < n && (panels[k].kind != c->table->rows[i].kind || strcmp(panels[k].unit, unit) != 0))
				k++;
			if (k == n && n == MAX_PANELS)
				continue;
			if (k == n)
				panels[n++] = (struct panel){(mf_row_kind)kind, unit, INFINITY, -INFINITY, 0};
			panels[k].low = fmin(panels[k].low, floor(log10(fmin(x, y))));
			panels[k].high = fmax(panels[k].high, ceil(log10(fmax(x, y))));
			panels[k].n++;
		}
	for (size_t k = 0; k < n; k++)
		panels[k].high = fmax(panels[k].high, panels[k].low + 1);
	return n;
}

void mf_score_svg(const mf_scorecard *c, mf_buf *out)
{
	struct panel panels[MAX_PANELS];
	size_t n = find_panels(c, panels), lines = n ? (n + COLUMNS - 1) / COLUMNS : 0;
	double x = LEFT;

	mf_buf_printf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %zu\" font-family=\"sans-serif\" "
		"font-size=\"11\" fill=\"#222\">\n<style>.h{font-size:13px;font-weight:bold}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		COLUMNS * CELL, HEAD + lines * CELL + 8);
	text(out, LEFT, 22, "start", "h",
		n ? "Predicted against measured" : "No row has both a prediction and a measured figure");
	for (size_t i = 0; i < MF_COUNT(families); i++, x += 96) {
		mark(out, x, 42, i, false);
		text(out, x + 8, 46, "start", "", families[i].name);
	}
	text(out, x, 46, "start", "", "hollow: outside the domain; dashed: x2");
	for (size_t i = 0; i < n; i++)
		draw_panel(c, &panels[i], i, out);
	mf_buf_puts(out, "</svg>\n");
}
