/* explain.c: moefs explain, every number of a plan opened. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli.h"

static void print_json(const mf_session *s, const char *plan, const mf_explain *ex)
{
	cJSON *o = cJSON_CreateObject(), *list, *item, *consts, *c;

	cJSON_AddStringToObject(o, "plan", plan);
	mf_json_number(o, "throughput", ex->time.throughput);
	mf_json_number(o, "step_ms", ex->time.step_ms);
	mf_json_number(o, "ttft_ms", ex->time.ttft_ms);
	mf_json_number(o, "tpot_ms", ex->time.tpot_ms);
	mf_json_number(o, "hidden_fraction", ex->time.hidden_fraction);
	mf_json_number(o, "bubble_fraction", ex->time.bubble_fraction);
	cJSON_AddBoolToObject(o, "extrapolated", ex->time.extrapolated);
	list = cJSON_AddArrayToObject(o, "terms");
	for (size_t i = 0; i < ex->n_terms; i++) {
		const mf_term *t = &ex->terms[i];

		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "name", t->name);
		mf_json_number(item, "ms", t->ms);
		cJSON_AddStringToObject(item, "formula", t->formula);
		mf_json_string(item, "inputs", t->inputs);
		cJSON_AddBoolToObject(item, "extrapolated", t->extrapolated);
		consts = cJSON_AddArrayToObject(item, "constants");
		for (size_t j = 0; j < t->n_consts; j++) {
			mf_const_id id = t->consts[j];

			c = cJSON_CreateObject();
			cJSON_AddStringToObject(c, "name", mf_const_infos[id].name);
			mf_json_number(c, "value", s->consts.v[id]);
			cJSON_AddStringToObject(c, "source", mf_const_source(&s->consts, id));
			cJSON_AddBoolToObject(c, "extrapolated", t->extrapolated);
			cJSON_AddItemToArray(consts, c);
		}
		cJSON_AddItemToArray(list, item);
	}
	list = cJSON_AddArrayToObject(o, "memory");
	for (size_t i = 0; i < ex->n_lines; i++) {
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "line", ex->lines[i].name);
		mf_json_number(item, "gb", ex->lines[i].bytes / MF_GB);
		cJSON_AddStringToObject(item, "rule", ex->lines[i].rule);
		cJSON_AddItemToArray(list, item);
	}
	list = cJSON_AddArrayToObject(o, "stages_gb");
	for (size_t i = 0; i < ex->n_stages; i++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(ex->stage_bytes[i] / MF_GB));
	cJSON_AddNumberToObject(o, "worst_stage", ex->memory.worst_stage);
	mf_json_number(o, "total_gb", ex->memory.total_bytes / MF_GB);
	mf_json_number(o, "budget_gb", ex->memory.budget_bytes / MF_GB);
	mf_json_print(o, true);
}

static void print_text(const mf_session *s, const char *plan, const mf_explain *ex)
{
	bool serve = s->workload.phase == MF_SERVE;

	printf("%s  %.1f tokens/s/GPU", plan, ex->time.throughput);
	if (serve)
		printf("  TTFT %.1f ms  TPOT %.2f ms\n\n", ex->time.ttft_ms, ex->time.tpot_ms);
	else
		printf("  step %.1f ms  bubble %.1f%%  hidden %.1f%%\n\n", ex->time.step_ms,
			100 * ex->time.bubble_fraction, 100 * ex->time.hidden_fraction);
	printf("time, ms%s\n", serve ? " (of a pass)" : "");
	for (size_t i = 0; i < ex->n_terms; i++) {
		const mf_term *t = &ex->terms[i];

		printf("  %10.3f  %-28s %s\n", t->ms, t->name, t->formula);
		if (t->inputs[0])
			printf("              %s\n", t->inputs);
		for (size_t j = 0; j < t->n_consts; j++) {
			mf_const_id id = t->consts[j];

			printf("              %s = %g %s  (%s%s)\n", mf_const_infos[id].name, s->consts.v[id],
				mf_const_infos[id].unit, mf_const_source(&s->consts, id),
				t->extrapolated ? ", extrapolated" : "");
		}
	}
	printf("\nmemory of stage %u, GB of %.2f\n", ex->memory.worst_stage, ex->memory.budget_bytes / MF_GB);
	for (size_t i = 0; i < ex->n_lines; i++)
		printf("  %10.3f  %-28s %s\n", ex->lines[i].bytes / MF_GB, ex->lines[i].name, ex->lines[i].rule);
	printf("  %10.3f  total%s\n", ex->memory.total_bytes / MF_GB,
		!ex->memory.fits   ? ", over the budget"
		: ex->memory.probe ? ", close to the budget: launch a probe"
				   : "");
	if (ex->n_stages > 1) {
		printf("\nstages, GB:");
		for (size_t i = 0; i < ex->n_stages; i++)
			printf(" %.2f", ex->stage_bytes[i] / MF_GB);
		putchar('\n');
	}
}

/* A plan that does not divide the world has no cost to explain. */
static mf_status divides(const mf_session *s, const mf_plan *p, mf_err *err)
{
	uint32_t world = mf_cluster_world(&s->cluster);

	if (mf_plan_dp(p, world) && mf_plan_etp(p, world) && (s->workload.phase == MF_SERVE || mf_plan_edp(p, world)))
		return MF_OK;
	return mf_fail(err, MF_EREFUSED, "the plan's degrees do not divide the %u GPUs of %s", world, s->cluster.name);
}

int mf_cmd_explain(const mf_args *a)
{
	static mf_session s;
	mf_explain *ex = calloc(1, sizeof *ex);
	char text[MF_PLAN_TEXT_MAX];
	mf_plan p;
	mf_err err;
	mf_status st = ex ? MF_OK : mf_fail(&err, MF_ENOMEM, "out of memory");

	if (st == MF_OK && !a->value[OPT_PLAN])
		st = mf_fail(&err, MF_EINPUT, "explain needs --plan; moefs search lists plans");
	if (st == MF_OK && (st = mf_session_open(&s, a, &err)) == MF_OK) {
		if ((st = mf_plan_parse(&p, a->value[OPT_PLAN], s.workload.phase, s.in.intern, &err)) == MF_OK &&
			(st = divides(&s, &p, &err)) == MF_OK && a->value[OPT_DECODE_PLAN]) {
			st = mf_print_pair(&s, &p, a, &err);
		} else if (st == MF_OK && a->value[OPT_TIMELINE]) {
			st = mf_print_timeline(&s, &p, a->value[OPT_JSON] != NULL, &err);
		} else if (st == MF_OK && (st = mf_cost_explain(s.cost, &p, ex, &err)) == MF_OK) {
			mf_plan_format(&p, s.in.intern, text);
			if (a->value[OPT_JSON])
				print_json(&s, text, ex);
			else
				print_text(&s, text, ex);
		}
		mf_session_close(&s);
	}
	free(ex);
	return st < 0 ? mf_report(&err) : 0;
}
