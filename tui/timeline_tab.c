/* timeline_tab.c: the simulated step of a plan, drawn in time. */
#include "tui_pen.h"

#include <math.h>
#include <string.h>

#define LANE_NAME 10

/* The time that is shown: all of it, or the part the user went into. */
struct span {
	double from_ms, to_ms;
	int width;
};

/* Paints a bar over a row of signs, each the column's last; a bar shorter than a column still shows. */
static void paint(char *row, uint8_t *roles, const struct span *t, const mf_bar *b, char mark, mf_role role)
{
	int from, to;

	if (!mf_bar_columns(b, t->from_ms, t->to_ms, t->width, &from, &to))
		return;
	for (int i = from; i < to; i++) {
		row[i] = mark;
		roles[i] = (uint8_t)role;
	}
}

static void put_bars(mf_pen *p, const char *name, const char *row, const uint8_t *roles, int width)
{
	int y = mf_pen_y(p);

	mf_pen_put(p, 0, MF_ROLE_DIM, name);
	for (int i = 0; i < width && y >= 0; i++)
		mf_cells_text(p->s, p->r.x + LANE_NAME + i, y, 1, (mf_role)roles[i], (char[2]){row[i], 0});
	p->line++;
}

static mf_role role_of(const mf_bar *b, bool of_layers)
{
	if (!of_layers)
		return b->micro_batch < 0 ? MF_ROLE_BAR4 : b->backward ? MF_ROLE_BAR2 : MF_ROLE_BAR1;
	switch (b->label[0]) {
	case 'e': return MF_ROLE_BAR2;
	case 'd': return MF_ROLE_BAR3;
	case 'c': return MF_ROLE_BAR4;
	case 's': return MF_ROLE_ACCENT;
	default: return MF_ROLE_BAR1;
	}
}

static void layers_rows(mf_pen *p, const mf_timeline *t, int width)
{
	struct span all = {0, t->layers_ms, width};
	char text[96], row[1024];
	uint8_t roles[1024];

	snprintf(text, sizeof(text), "layers of one GPU in the steady state, %.3f ms", t->layers_ms);
	mf_pen_put(p, 0, MF_ROLE_TITLE, text);
	p->line++;
	for (int lane = 0; lane < MF_LANE_COUNT && t->layers_ms > 0; lane++) {
		bool used = false;
		memset(row, '.', sizeof(row));
		memset(roles, MF_ROLE_DIM, sizeof(roles));
		for (size_t i = 0; i < t->n_layers; i++) {
			const mf_bar *b = &t->layers[i];
			if (b->lane != lane)
				continue;
			used = true;
			paint(row, roles, &all, b, mf_bar_mark(b, true), role_of(b, true));
		}
		if (used)
			put_bars(p, mf_choice_name(mf_lane_choices, lane), row, roles, width);
	}
	mf_pen_wrapped(
		p, 0, MF_ROLE_DIM, "A attention  S shared experts  D dispatch  E experts  C combine; small: backward");
}

static void step_rows(mf_pen *p, const mf_timeline *t, int width)
{
	double share = 1.0 / (1 << p->a->zoom);
	struct span part = {t->shown_ms * p->a->zoom_from, t->shown_ms * (p->a->zoom_from + share), width};
	char text[160], row[1024];
	uint8_t roles[1024];
	int ranks = 0;

	for (size_t i = 0; i < t->n_step; i++)
		ranks = t->step[i].micro_batch >= 0 && t->step[i].stage >= ranks ? t->step[i].stage + 1 : ranks;
	snprintf(text, sizeof(text), "step, %.1f to %.1f ms of %.1f", part.from_ms, part.to_ms, t->sum.step_ms);
	mf_pen_put(p, 0, MF_ROLE_TITLE, text);
	p->line++;
	if (t->skipped) {
		snprintf(text, sizeof(text), "%u micro-batches more take %.1f ms and repeat the steady state",
			t->skipped, t->skipped_ms);
		mf_pen_put(p, 0, MF_ROLE_DIM, text);
		p->line++;
	}
	/* The last row is what belongs to the step as a whole. */
	for (int rank = 0; rank <= ranks && part.to_ms > part.from_ms; rank++) {
		bool used = rank < ranks;
		memset(row, '.', sizeof(row));
		memset(roles, MF_ROLE_DIM, sizeof(roles));
		for (size_t i = 0; i < t->n_step; i++) {
			const mf_bar *b = &t->step[i];
			if (rank < ranks ? b->micro_batch < 0 || b->stage != rank : b->micro_batch >= 0)
				continue;
			used = true;
			paint(row, roles, &part, b, mf_bar_mark(b, false), role_of(b, false));
		}
		snprintf(text, sizeof(text), rank < ranks ? "rank %d" : "ends", rank);
		if (used)
			put_bars(p, text, row, roles, width);
	}
	mf_pen_wrapped(
		p, 0, MF_ROLE_DIM, "digits: forward of a micro-batch, letters: backward; + - zoom, Left Right move");
}

void mf_timeline_tab(mf_pen *p)
{
	const mf_detail *d = &p->a->detail;
	const mf_timeline *t = &d->timeline;
	char text[160], hidden[16];
	int width = p->r.w - LANE_NAME;

	if (!d->timeline_valid)
		return;
	if (d->timeline_status < 0) {
		mf_pen_wrapped(p, 0, MF_ROLE_DIM, d->timeline_err.msg);
		return;
	}
	width = width > 1024 ? 1024 : width < 1 ? 1 : width;
	mf_format_number(hidden, sizeof(hidden), 100 * t->sum.hidden_fraction, 0);
	snprintf(text, sizeof(text),
		"simulated %.0f tokens/s/GPU, step %.1f ms, bubble %.1f%%, %s%% of communication hidden",
		t->sum.throughput, t->sum.step_ms, 100 * t->sum.bubble_fraction, hidden);
	mf_pen_wrapped(p, 0, MF_ROLE_TEXT, text);
	p->line++;
	layers_rows(p, t, width);
	p->line++;
	step_rows(p, t, width);
}
