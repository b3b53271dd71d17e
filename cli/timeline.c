/* timeline.c: moefs explain --timeline, a simulated step drawn in text or printed as JSON. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli.h"
#include "timeline.h"

#define COLUMNS 96
#define MAX_ROWS 64

static cJSON *bars_json(const mf_bar *bars, size_t n)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < n; i++) {
		const mf_bar *b = &bars[i];
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "stream", mf_choice_name(mf_lane_choices, b->lane));
		cJSON_AddStringToObject(o, "label", b->label);
		mf_json_number(o, "start_ms", b->start_ms);
		mf_json_number(o, "end_ms", b->end_ms);
		cJSON_AddNumberToObject(o, "stage", b->stage);
		cJSON_AddNumberToObject(o, "chunk", b->chunk);
		mf_json_number(o, "micro_batch", b->micro_batch < 0 ? NAN : b->micro_batch);
		cJSON_AddBoolToObject(o, "backward", b->backward);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

static void print_json(const char *plan, const mf_timeline *t, const mf_time *analytic)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "plan", plan);
	mf_json_number(o, "step_ms", t->sum.step_ms);
	mf_json_number(o, "simulated", t->sum.throughput);
	cJSON_AddStringToObject(o, "unit", "tokens/s/GPU");
	mf_json_number(o, "hidden_fraction", t->sum.hidden_fraction);
	mf_json_number(o, "bubble_fraction", t->sum.bubble_fraction);
	mf_json_number(o, "analytic_step_ms", analytic->step_ms);
	mf_json_number(o, "analytic_throughput", analytic->throughput);
	mf_json_number(o, "layers_ms", t->layers_ms);
	cJSON_AddItemToObject(o, "layers", bars_json(t->layers, t->n_layers));
	mf_json_number(o, "shown_ms", t->shown_ms);
	cJSON_AddNumberToObject(o, "skipped_micro_batches", t->skipped);
	mf_json_number(o, "skipped_ms", t->skipped_ms);
	cJSON_AddItemToObject(o, "step", bars_json(t->step, t->n_step));
	mf_json_print(o, true);
}

/* Paints a bar into a row of characters that shows [0, span_ms]; the later one stays where two meet. */
static void paint(char *row, double span_ms, const mf_bar *b, char mark)
{
	int from, to;

	if (mf_bar_columns(b, 0, span_ms, COLUMNS, &from, &to))
		memset(row + from, mark, (size_t)(to - from));
}

/* Under overlap a forward and a backward share their time: odd columns then show the backward. */
static void paint_pass(char *row, double span_ms, const mf_bar *b)
{
	char other[COLUMNS];

	memcpy(other, row, COLUMNS);
	paint(row, span_ms, b, mf_bar_mark(b, false));
	for (int i = 0; i < COLUMNS; i++)
		if (row[i] != other[i] && other[i] != '.' && isdigit((unsigned char)other[i]) && i % 2 == 0)
			row[i] = other[i];
}

static void print_layers(const mf_timeline *t)
{
	char rows[MF_LANE_COUNT][COLUMNS + 1];
	bool used[MF_LANE_COUNT] = {false};

	memset(rows, '.', sizeof(rows));
	for (size_t i = 0; i < t->n_layers; i++) {
		const mf_bar *b = &t->layers[i];

		used[b->lane] = true;
		paint(rows[b->lane], t->layers_ms, b, mf_bar_mark(b, true));
	}
	printf("layers of one GPU in the steady state, %.3f ms\n", t->layers_ms);
	for (int i = 0; i < MF_LANE_COUNT; i++)
		if (used[i])
			printf("  %-9s %.*s\n", mf_choice_name(mf_lane_choices, i), COLUMNS, rows[i]);
	printf("  A attention  S shared experts  D dispatch  E experts  C combine; small letters: backward\n\n");
}

static void print_step(const mf_timeline *t)
{
	char rows[MAX_ROWS][COLUMNS + 1];
	char ends[COLUMNS + 1];
	int n = 0;
	bool has_ends = false;

	memset(rows, '.', sizeof(rows));
	memset(ends, '.', sizeof(ends));
	for (size_t i = 0; i < t->n_step; i++) {
		const mf_bar *b = &t->step[i];

		if (b->micro_batch < 0) {
			paint(ends, t->shown_ms, b, mf_bar_mark(b, false));
			has_ends = true;
		} else if (b->stage < MAX_ROWS) {
			paint_pass(rows[b->stage], t->shown_ms, b);
			n = b->stage + 1 > n ? b->stage + 1 : n;
		}
	}
	printf("step, %.1f ms of %.1f", t->shown_ms, t->sum.step_ms);
	if (t->skipped)
		printf(" (%u micro-batches more take %.1f ms and repeat the steady state)", t->skipped, t->skipped_ms);
	printf("\n");
	for (int i = 0; i < n; i++)
		printf("  rank %-4d %.*s\n", i, COLUMNS, rows[i]);
	if (has_ends)
		printf("  %-9s %.*s\n", "ends", COLUMNS, ends);
	printf("  digits: forward of a micro-batch, letters: backward\n");
}

mf_status mf_print_timeline(mf_session *s, const mf_plan *p, bool json, mf_err *err)
{
	char text[MF_PLAN_TEXT_MAX];
	mf_timeline t;
	mf_time analytic;
	mf_status st = mf_cost_timeline(s->cost, p, &t, err);

	if (st < 0)
		return st;
	mf_cost_time(s->cost, p, &analytic);
	mf_plan_format(p, s->in.intern, text);
	if (json) {
		print_json(text, &t, &analytic);
	} else {
		printf("%s  simulated %.1f tokens/s/GPU, step %.1f ms, bubble %.1f%%, hidden ", text, t.sum.throughput,
			t.sum.step_ms, 100 * t.sum.bubble_fraction);
		if (isnan(t.sum.hidden_fraction))
			printf("-");
		else
			printf("%.1f%%", 100 * t.sum.hidden_fraction);
		printf("\nanalytic %.1f tokens/s/GPU, step %.1f ms\n\n", analytic.throughput, analytic.step_ms);
		print_layers(&t);
		print_step(&t);
	}
	mf_timeline_dispose(&t);
	return MF_OK;
}
