/* ablate.c: moefs ablate, what each tier of the search adds: phases x constants x skew x levels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "ablate.h"
#include "cli.h"

#define DEFAULT_SKEW "0.2"
/* Equal to the eye and to rounding. */
#define SAME 1e-6

/* The levels of one search. */
typedef struct slice {
	mf_phase phase;
	char constants[64]; /* "factory" or an overlay's name */
	double skew;
	bool any; /* a plan fits */
	mf_ablate_level level[MF_ABLATE_LEVELS];
	char plan[MF_ABLATE_LEVELS][MF_PLAN_TEXT_MAX];
} slice;

typedef struct matrix {
	char model[128], cluster[128], space[16], ledger[16], kernels[160];
	bool constraint;
	slice slices[16];
	size_t n;
} matrix;

static mf_status run_slice(
	matrix *m, const mf_args *a, const char *phase, const char *overlay, const char *skew, mf_err *err)
{
	static mf_session s;
	slice *c = &m->slices[m->n];
	mf_args args = *a;
	mf_search *found = NULL;
	mf_search_opts opts;
	mf_status st;

	args.value[OPT_PHASE] = phase;
	args.value[OPT_OVERLAY] = overlay;
	args.value[OPT_MAX_VIOLATION] = skew;
	if (!args.value[OPT_SPACE])
		args.value[OPT_SPACE] = "paper";
	/* What a tier adds is asked of the search, not of a toolchain. */
	if (!args.value[OPT_CONSTRAINT])
		args.value[OPT_CONSTRAINT] = "off";
	if ((st = mf_session_open(&s, &args, err)) < 0)
		return st;
	opts = mf_session_search_opts(&s);
	opts.tiers = 3;
	if ((st = mf_search_run(&found, &s.in, &s.consts, &opts, err)) == MF_OK) {
		c->phase = s.workload.phase;
		snprintf(c->constants, sizeof c->constants, "%s", overlay ? overlay : "factory");
		c->skew = s.workload.max_violation;
		c->any = mf_ablate(found, c->phase, c->level);
		for (int i = 0; i < MF_ABLATE_LEVELS && c->any; i++)
			mf_plan_format(&c->level[i].plan, s.in.intern, c->plan[i]);
		snprintf(m->model, sizeof m->model, "%s", s.model.name);
		snprintf(m->cluster, sizeof m->cluster, "%s", s.cluster.name);
		snprintf(m->space, sizeof m->space, "%s", mf_choice_name(mf_space_choices, (int)s.space));
		snprintf(m->ledger, sizeof m->ledger, "%s", mf_choice_name(mf_ledger_choices, (int)s.cost_opts.ledger));
		snprintf(m->kernels, sizeof m->kernels, "%s", s.autotune ? mf_autotune_source(s.autotune) : "");
		m->constraint = s.constraint;
		m->n++;
	}
	mf_search_free(found);
	mf_session_close(&s);
	return st;
}

/* The overlay to compare the factory model with: the one named, else that of the GPU, else none. */
static mf_status find_overlay(const mf_args *a, const char **out, mf_err *err)
{
	static mf_session s;
	mf_args args = *a;
	mf_status st;

	*out = a->value[OPT_OVERLAY];
	if (*out)
		return MF_OK;
	args.value[OPT_AUTOTUNE] = NULL;
	if ((st = mf_session_open(&s, &args, err)) < 0)
		return st;
	*out = mf_consts_overlay_of(s.cluster.gpu);
	mf_session_close(&s);
	return MF_OK;
}

static double gain(const slice *c, int level)
{
	return level == 0 ? NAN : (double)c->level[level].score / (double)c->level[level - 1].score - 1;
}

static bool is_flat(const slice *c)
{
	for (int i = 1; i < MF_ABLATE_LEVELS; i++)
		if (strcmp(c->plan[i], c->plan[0]) != 0 || c->level[i].kernel || !(fabs(gain(c, i)) < SAME))
			return false;
	return true;
}

static bool is_monotone(const slice *c)
{
	for (int i = 1; i < MF_ABLATE_LEVELS; i++)
		if (!(c->level[i].score >= c->level[i - 1].score))
			return false;
	return true;
}

static const char *evaluator(const slice *c)
{
	return c->phase == MF_TRAIN ? "simulator" : "analytic";
}

static int print_json(const matrix *m)
{
	cJSON *o = cJSON_CreateObject(), *cells;
	bool flat = true, monotone = true;

	cJSON_AddStringToObject(o, "moefs", MOEFS_VERSION);
	cJSON_AddStringToObject(o, "model", m->model);
	cJSON_AddStringToObject(o, "cluster", m->cluster);
	cJSON_AddStringToObject(o, "space", m->space);
	cJSON_AddStringToObject(o, "ledger", m->ledger);
	cJSON_AddStringToObject(o, "constraint", m->constraint ? "on" : "off");
	mf_json_string(o, "autotune", m->kernels);
	cells = cJSON_AddArrayToObject(o, "cells");
	for (size_t i = 0; i < m->n; i++) {
		const slice *c = &m->slices[i];

		flat &= !c->any || is_flat(c);
		monotone &= !c->any || is_monotone(c);
		for (int k = 0; k < MF_ABLATE_LEVELS; k++) {
			const mf_ablate_level *l = &c->level[k];
			cJSON *cell = cJSON_CreateObject();
			char level[8], kernel[MF_KERNEL_TEXT_MAX];

			snprintf(level, sizeof level, "L%d", k + 1);
			mf_kernel_format(c->any ? l->kernel : 0, kernel);
			cJSON_AddStringToObject(cell, "phase", mf_choice_name(mf_phase_choices, (int)c->phase));
			cJSON_AddStringToObject(cell, "constants", c->constants);
			cJSON_AddNumberToObject(cell, "max_violation", c->skew);
			cJSON_AddStringToObject(cell, "level", level);
			mf_json_string(cell, "plan", c->any ? c->plan[k] : NULL);
			mf_json_string(cell, "kernel", kernel);
			mf_json_number(cell, "throughput", c->any ? l->throughput : NAN);
			mf_json_number(cell, "score", c->any ? l->score : NAN);
			cJSON_AddStringToObject(cell, "evaluator", evaluator(c));
			mf_json_number(cell, "gain", c->any ? gain(c, k) : NAN);
			cJSON_AddItemToArray(cells, cell);
		}
	}
	cJSON_AddStringToObject(o, "unit", "tokens/s/GPU");
	cJSON_AddBoolToObject(o, "monotone", monotone);
	cJSON_AddBoolToObject(o, "flat", flat);
	return mf_json_print(o, true) ? 0 : 4;
}

static void print_text(const matrix *m)
{
	size_t width = 4;

	for (size_t i = 0; i < m->n; i++)
		for (int k = 0; k < MF_ABLATE_LEVELS; k++)
			width = strlen(m->slices[i].plan[k]) > width ? strlen(m->slices[i].plan[k]) : width;
	printf("%s on %s, space %s, ledger %s, constraint %s%s%s\n", m->model, m->cluster, m->space, m->ledger,
		m->constraint ? "on" : "off", m->kernels[0] ? ", kernels: " : "", m->kernels);
	printf("L1 the ranking, L2 the ten best under the simulator's schedules, L3 with kernels; score by one "
	       "evaluator a "
	       "phase\n\n");
	printf("%-6s %-10s %5s  %-5s %-*s %12s %12s %8s\n", "phase", "constants", "skew", "level", (int)width, "plan",
		"score", "analytic", "gain");
	for (size_t i = 0; i < m->n; i++) {
		const slice *c = &m->slices[i];

		if (!c->any) {
			printf("%-6s %-10s %5.2f  no plan fits\n", mf_choice_name(mf_phase_choices, (int)c->phase),
				c->constants, c->skew);
			continue;
		}
		for (int k = 0; k < MF_ABLATE_LEVELS; k++) {
			const mf_ablate_level *l = &c->level[k];
			char kernel[MF_KERNEL_TEXT_MAX], change[16] = "";

			mf_kernel_format(l->kernel, kernel);
			if (k)
				snprintf(change, sizeof change, "%+.2f%%", 100 * gain(c, k));
			printf("%-6s %-10s %5.2f  L%-4d %-*s %12.1f %12.1f %8s%s%s\n",
				mf_choice_name(mf_phase_choices, (int)c->phase), c->constants, c->skew, k + 1,
				(int)width, c->plan[k], (double)l->score, (double)l->throughput, change,
				kernel[0] ? "  " : "", kernel);
		}
	}
}

int mf_cmd_ablate(const mf_args *a)
{
	static matrix m;
	const char *phases[] = {"train", "serve"}, *overlay, *skews[] = {"0", DEFAULT_SKEW};
	size_t n_phases = 2, n_skews = 2;
	mf_err err;
	mf_status st;

	memset(&m, 0, sizeof m);
	if (a->value[OPT_PHASE]) {
		phases[0] = a->value[OPT_PHASE];
		n_phases = 1;
	}
	if (a->value[OPT_MAX_VIOLATION]) {
		skews[1] = a->value[OPT_MAX_VIOLATION];
		n_skews = strtod(skews[1], NULL) == 0 ? 1 : 2;
	}
	st = find_overlay(a, &overlay, &err);
	for (size_t i = 0; i < n_phases && st == MF_OK; i++)
		for (size_t k = 0; k < (overlay ? 2 : 1) && st == MF_OK; k++)
			for (size_t j = 0; j < n_skews && st == MF_OK; j++)
				st = run_slice(&m, a, phases[i], k ? overlay : NULL, skews[j], &err);
	if (st < 0)
		return mf_report(&err);
	if (a->value[OPT_JSON])
		return print_json(&m);
	print_text(&m);
	return 0;
}
