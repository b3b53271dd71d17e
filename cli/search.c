/* search.c: moefs search, as a table, as one JSON object, or as JSON lines with commands. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli.h"

#define DEFAULT_TOP 20

static const mf_choice emit_choices[] = {{1, "jsonl", ""}, {0, NULL, NULL}};

/* Ranks to print: up to the `top`th buildable plan, everything above it included; 0 is all. */
static size_t ranks_to_print(const mf_search *s, uint64_t top, bool judged)
{
	size_t i, buildable = 0;

	for (i = 0; i < s->n_rows; i++) {
		if (top && buildable == top)
			break;
		if (!judged || s->rows[s->order[i]].rule == MF_RULE_NONE)
			buildable++;
	}
	return i;
}

/* With the constraint off the search did not judge; a printed row is judged here all the same. */
static void judge_row(mf_session *s, mf_row *row)
{
	mf_verdict v;

	if (s->constraint)
		return;
	mf_realize(&s->realizer, &row->plan, &v);
	row->rule = v.rule;
	row->probe = v.probe;
	if (isfinite(v.memory.total_bytes))
		row->memory_gb = (float)(v.memory.total_bytes / MF_GB);
}

static double budget_gb(mf_session *s, const mf_plan *p)
{
	mf_memory m;

	mf_cost_memory(s->cost, p, &m);
	return m.budget_bytes / MF_GB;
}

/* A better schedule that tier 2 found; null where the plan's own is best. */
static cJSON *schedule_json(mf_session *s, const mf_row *row, const mf_refined *f)
{
	char text[MF_PLAN_TEXT_MAX];
	cJSON *o;

	if (!f || memcmp(&f->best, &row->plan, sizeof(f->best)) == 0 || isnan(f->best_simulated))
		return cJSON_CreateNull();
	o = cJSON_CreateObject();
	mf_plan_format(&f->best, s->in.intern, text);
	cJSON_AddStringToObject(o, "plan", text);
	mf_json_number(o, "simulated", f->best_simulated);
	mf_json_number(o, "throughput", f->best_throughput);
	mf_json_number(o, "gain", f->best_simulated / f->simulated - 1);
	return o;
}

/* The kernel that tier 3 tried, attached or not. */
static cJSON *kernel_json(const mf_refined *f)
{
	char text[MF_KERNEL_TEXT_MAX];
	cJSON *o;

	if (!f || !f->kernel)
		return cJSON_CreateNull();
	o = cJSON_CreateObject();
	mf_kernel_format(f->kernel, text);
	cJSON_AddStringToObject(o, "kernel", text);
	cJSON_AddBoolToObject(o, "attached", f->attached);
	mf_json_number(o, "gain", f->gain);
	mf_json_number(o, "tax", f->tax);
	mf_json_number(o, "margin_pp", f->margin_pp);
	return o;
}

static cJSON *row_json(mf_session *s, const mf_row *row, const mf_refined *refined, const mf_shown *shown, size_t rank)
{
	cJSON *o = cJSON_CreateObject();
	const mf_refusal *r = &shown->refusal;

	cJSON_AddNumberToObject(o, "rank", (double)rank);
	cJSON_AddNumberToObject(o, "tier", row->tier);
	cJSON_AddStringToObject(o, "plan", shown->plan);
	mf_json_number(o, "throughput", row->throughput);
	cJSON_AddStringToObject(o, "unit", "tokens/s/GPU");
	mf_json_number(o, "step_ms", row->step_ms);
	mf_json_number(o, "ttft_ms", row->ttft_ms);
	mf_json_number(o, "tpot_ms", row->tpot_ms);
	mf_json_number(o, "simulated", row->simulated);
	mf_json_number(o, "memory_gb", row->memory_gb);
	mf_json_number(o, "budget_gb", budget_gb(s, &row->plan));
	cJSON_AddStringToObject(o, "verdict", row->rule ? "rejected" : "buildable");
	cJSON_AddBoolToObject(o, "probe_advised", row->probe);
	mf_json_string(o, "stage", r->stage);
	mf_json_string(o, "boundary", r->boundary);
	mf_json_string(o, "rule", r->rule);
	mf_json_string(o, "kind", r->kind);
	mf_json_string(o, "reason", r->reason);
	mf_json_string(o, "note", shown->note);
	cJSON_AddBoolToObject(o, "extrapolated", row->extrapolated);
	cJSON_AddItemToObject(
		o, "attached_kernel", refined && refined->attached ? kernel_json(refined) : cJSON_CreateNull());
	cJSON_AddItemToObject(o, "tried_kernel", kernel_json(refined));
	cJSON_AddItemToObject(o, "better_schedule", schedule_json(s, row, refined));
	mf_json_string(o, "plan_sha256", shown->plan_sha256);
	mf_json_string(o, "argv_sha256", shown->argv_sha256);
	return o;
}

static cJSON *counts_json(mf_session *s, const mf_search *found)
{
	cJSON *o = cJSON_CreateObject(), *list;

	cJSON_AddNumberToObject(o, "enumerated", (double)found->counts.enumerated);
	cJSON_AddNumberToObject(o, "structural", (double)found->counts.structural);
	cJSON_AddNumberToObject(o, "scored", (double)found->counts.scored);
	cJSON_AddNumberToObject(o, "rejected_emit", (double)found->counts.rejected_emit);
	cJSON_AddNumberToObject(o, "rejected_memory", (double)found->counts.rejected_memory);
	cJSON_AddNumberToObject(o, "refined", (double)found->n_refined);
	cJSON_AddNumberToObject(o, "simulations", (double)found->counts.simulations);
	cJSON_AddNumberToObject(o, "tasks", (double)found->counts.tasks);
	list = cJSON_AddArrayToObject(o, "by_reason");
	for (size_t i = 0; i < found->n_reasons; i++) {
		const mf_reason_count *c = &found->reasons[i];
		const mf_rule *rule = mf_rule_get(c->rule);
		cJSON *item = cJSON_CreateObject();
		mf_refusal r;

		if (mf_realize_explain(&s->realizer, &found->rows[c->first_row].plan, &r) < 0)
			r.reason[0] = '\0';
		mf_json_string(item, "reason", r.reason);
		mf_json_string(item, "rule", rule->id);
		mf_json_string(item, "boundary", rule->boundary);
		cJSON_AddNumberToObject(item, "count", (double)c->count);
		cJSON_AddItemToArray(list, item);
	}
	return o;
}

/* What --real asks about beside printing: 0 plans for nothing. */
struct asking {
	const mf_args *args;
	size_t plans;
	bool sample;
	size_t wrong; /* verdicts that the toolchain does not share */
};

static mf_status print_json(mf_session *s, mf_search *found, size_t n, struct asking *ask, mf_err *err)
{
	cJSON *o = cJSON_CreateObject(), *timing, *plans;
	const mf_search_timing *t = &found->timing;

	cJSON_AddStringToObject(o, "moefs", MOEFS_VERSION);
	cJSON_AddStringToObject(o, "model", s->model.name);
	cJSON_AddStringToObject(o, "cluster", s->cluster.name);
	cJSON_AddStringToObject(o, "phase", mf_choice_name(mf_phase_choices, (int)s->workload.phase));
	cJSON_AddStringToObject(o, "space", mf_choice_name(mf_space_choices, (int)s->space));
	cJSON_AddStringToObject(o, "toolchain", mf_choice_name(mf_toolchain_choices, (int)s->stack.toolchain));
	cJSON_AddStringToObject(o, "stack", s->stack.name);
	mf_json_string(o, "overlay", s->consts.overlay);
	mf_json_string(o, "autotune", s->autotune ? mf_autotune_source(s->autotune) : NULL);
	if (s->autotune)
		cJSON_AddBoolToObject(o, "autotune_synthetic", mf_autotune_synthetic(s->autotune));
	cJSON_AddStringToObject(o, "ledger", mf_choice_name(mf_ledger_choices, (int)s->cost_opts.ledger));
	cJSON_AddStringToObject(o, "constraint", s->constraint ? "on" : "off");
	cJSON_AddItemToObject(o, "counts", counts_json(s, found));
	timing = cJSON_AddObjectToObject(o, "timing_ms");
	mf_json_number(timing, "enumerate", t->enumerate_ms);
	mf_json_number(timing, "predicate", t->predicate_ms);
	mf_json_number(timing, "tier1", t->tier1_ms);
	mf_json_number(timing, "tier2", t->tier2_ms);
	mf_json_number(timing, "tier3", t->tier3_ms);
	mf_json_number(timing, "total", t->total_ms);
	plans = cJSON_AddArrayToObject(o, "plans");
	for (size_t i = 0; i < n; i++) {
		mf_row *row = &found->rows[found->order[i]];
		mf_shown shown;
		mf_status st;

		judge_row(s, row);
		st = mf_show_row(s, row, true, &shown, err);
		if (st < 0) {
			cJSON_Delete(o);
			return st;
		}
		cJSON_AddItemToArray(plans, row_json(s, row, mf_search_refined(found, found->order[i]), &shown, i + 1));
	}
	if (ask->plans) {
		mf_status st = mf_ask_rows(s, ask->args, found, ask->sample, ask->plans, o, &ask->wrong, err);

		if (st < 0) {
			cJSON_Delete(o);
			return st;
		}
	}
	return mf_json_print(o, true) ? MF_OK : mf_fail(err, MF_ENOMEM, "cannot print the result");
}

static mf_status print_line(mf_session *s, mf_row *row, bool forced, mf_err *err)
{
	cJSON *o, *env, *list;
	mf_shown shown;
	mf_argv argv;
	mf_status st;

	judge_row(s, row);
	if ((st = mf_show_row(s, row, false, &shown, err)) < 0 || (st = mf_argv_init(&argv, forced, err)) < 0)
		return st;
	mf_emit(s->emitter, &row->plan, mf_session_fraction(s, &row->plan), &argv.sink);
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "plan", shown.plan);
	cJSON_AddStringToObject(o, "verdict", row->rule ? "rejected" : "buildable");
	mf_json_string(o, "stage", shown.refusal.stage);
	mf_json_string(o, "boundary", shown.refusal.boundary);
	mf_json_string(o, "rule", shown.refusal.rule);
	mf_json_string(o, "reason", shown.refusal.reason);
	cJSON_AddNumberToObject(o, "world_size", mf_cluster_world(&s->cluster));
	env = cJSON_AddObjectToObject(o, "env");
	for (size_t i = 0; i < argv.n_env; i++) {
		const char *eq = strchr(argv.env[i], '=');
		char name[128];

		snprintf(name, sizeof name, "%.*s", (int)(eq - argv.env[i]), argv.env[i]);
		cJSON_AddStringToObject(env, name, eq + 1);
	}
	if (mf_rule_unspeakable(argv.sink.rule) || (argv.sink.rule && !forced)) {
		cJSON_AddNullToObject(o, "argv");
	} else {
		list = cJSON_AddArrayToObject(o, "argv");
		for (size_t i = 0; i < argv.n; i++)
			cJSON_AddItemToArray(list, cJSON_CreateString(argv.args[i]));
	}
	mf_argv_dispose(&argv);
	return mf_json_print(o, false) ? MF_OK : mf_fail(err, MF_ENOMEM, "cannot print the plan");
}

/* Judges the plans of a file, one a line, in its order. */
static mf_status print_plans(mf_session *s, const char *path, bool forced, mf_err *err)
{
	char line[MF_PLAN_TEXT_MAX + 2];
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	mf_status st = MF_OK;
	int number = 0;

	if (!f)
		return mf_fail_at(err, MF_EINPUT, path, 0, "", "cannot open it: %s", strerror(errno));
	while (st == MF_OK && fgets(line, sizeof line, f)) {
		mf_row row;
		mf_verdict v;
		mf_err bad;

		number++;
		memset(&row, 0, sizeof row);
		line[strcspn(line, "\n")] = '\0';
		if (mf_plan_parse(&row.plan, line, s->workload.phase, s->in.intern, &bad) < 0) {
			st = mf_fail_at(err, MF_EINPUT, path, number, "", "%s", bad.msg);
			break;
		}
		mf_realize(&s->realizer, &row.plan, &v);
		row.rule = v.rule;
		row.probe = v.probe;
		st = print_line(s, &row, forced, err);
	}
	if (f != stdin)
		fclose(f);
	return st;
}

/* What tiers 2 and 3 add to a row, on lines of their own below it. */
static void print_refined(mf_session *s, const mf_row *row, const mf_refined *f)
{
	char text[MF_PLAN_TEXT_MAX];

	if (!f)
		return;
	if (!isnan(f->best_simulated) && memcmp(&f->best, &row->plan, sizeof(f->best)) != 0) {
		mf_plan_format(&f->best, s->in.intern, text);
		printf("        simulated better: %s  %.1f (%+.1f%%)\n", text, (double)f->best_simulated,
			100.0 * (f->best_simulated / f->simulated - 1));
	}
	if (f->kernel) {
		mf_kernel_format(f->kernel, text);
		printf("        kernel %s %s: gain %+.1f%%, tax %+.1f%%, margin %+.1f pp\n", text,
			f->attached ? "attached" : "not attached", 100.0 * f->gain, 100.0 * f->tax,
			(double)f->margin_pp);
	}
}

static void print_table(mf_session *s, mf_search *found, size_t n)
{
	bool serve = s->workload.phase == MF_SERVE;
	size_t width = 4, i;
	char text[MF_PLAN_TEXT_MAX];

	for (i = 0; i < n; i++) {
		size_t len = mf_plan_format(&found->rows[found->order[i]].plan, s->in.intern, text);

		width = len > width ? len : width;
	}
	printf("%s on %s, %s, %s, ledger %s%s%s\n", s->model.name, s->cluster.name,
		mf_choice_name(mf_phase_choices, (int)s->workload.phase),
		mf_choice_name(mf_toolchain_choices, (int)s->stack.toolchain),
		mf_choice_name(mf_ledger_choices, (int)s->cost_opts.ledger), s->consts.overlay[0] ? ", overlay " : "",
		s->consts.overlay);
	printf("%llu plans ranked, %llu refused by the emitter, %llu by memory, %.1f ms\n\n",
		(unsigned long long)found->counts.scored, (unsigned long long)found->counts.rejected_emit,
		(unsigned long long)found->counts.rejected_memory, found->timing.total_ms);
	if (s->autotune)
		printf("kernels: %s%s\n\n", mf_autotune_source(s->autotune),
			mf_autotune_synthetic(s->autotune) ? " (synthetic: no measurement)" : "");
	printf("%6s  %-*s %12s %12s %11s %8s  %s\n", "rank", (int)width, "plan", "tok/s/GPU", "simulated",
		serve ? "TPOT ms" : "step ms", "mem GB", "verdict");
	for (i = 0; i < n; i++) {
		mf_row *row = &found->rows[found->order[i]];
		mf_shown shown;

		judge_row(s, row);
		if (mf_show_row(s, row, false, &shown, NULL) < 0)
			continue;
		char simulated[16] = "-";

		if (!isnan(row->simulated))
			snprintf(simulated, sizeof simulated, "%.1f", (double)row->simulated);
		printf("%6zu  %-*s %12.1f %12s %11.1f %8.1f  ", i + 1, (int)width, shown.plan, (double)row->throughput,
			simulated, (double)(serve ? row->tpot_ms : row->step_ms), (double)row->memory_gb);
		if (row->rule)
			printf("x %s %s: %s\n", shown.refusal.boundary, shown.refusal.stage, shown.refusal.reason);
		else
			printf("%s%s\n", row->probe ? "buildable, probe: close to the card's memory" : "buildable",
				row->extrapolated ? " (extrapolated)" : "");
		print_refined(s, row, mf_search_refined(found, found->order[i]));
	}
	if (!n)
		printf("        no plan fits this cluster\n");
}

int mf_cmd_search(const mf_args *a)
{
	static mf_session s;
	mf_search_opts opts;
	mf_search *found = NULL;
	struct asking ask = {.args = a};
	uint64_t top, sample, seed, real;
	int jsonl;
	mf_err err;
	mf_status st;
	size_t n;

	if ((st = mf_args_u64(a, OPT_TOP, 0, UINT32_MAX, DEFAULT_TOP, &top, &err)) < 0 ||
		(st = mf_args_u64(a, OPT_SAMPLE, 1, 10000000, 0, &sample, &err)) < 0 ||
		(st = mf_args_u64(a, OPT_SEED, 0, UINT64_MAX, 1, &seed, &err)) < 0 ||
		(st = mf_args_u64(a, OPT_REAL_N, 1, 1000000, 0, &real, &err)) < 0 ||
		(st = mf_args_choice(a, OPT_EMIT, emit_choices, 0, &jsonl, &err)) < 0 ||
		(st = mf_session_open(&s, a, &err)) < 0)
		return mf_report(&err);
	if (a->value[OPT_PLANS]) {
		st = !jsonl   ? mf_fail(&err, MF_EINPUT, "--plans answers in JSON lines: add --emit jsonl")
		     : sample ? mf_fail(&err, MF_EINPUT, "--plans and --sample exclude each other")
			      : print_plans(&s, a->value[OPT_PLANS], a->value[OPT_FORCED] != NULL, &err);
		mf_session_close(&s);
		return st < 0 ? mf_report(&err) : 0;
	}
	if (real && (jsonl || !s.constraint)) {
		mf_fail(&err, MF_EINPUT, "--real goes with %s",
			jsonl ? "the table or --json, not with --emit" : "--constraint on: it compares verdicts");
		mf_session_close(&s);
		return mf_report(&err);
	}
	ask.plans = (size_t)real;
	ask.sample = sample != 0;
	if (s.cluster_assumed && !a->value[OPT_JSON] && !jsonl)
		fprintf(stderr, "moefs: no GPU here: showing %s (--cluster chooses)\n", s.cluster.name);
	opts = mf_session_search_opts(&s);
	st = sample ? mf_search_sample(&found, &s.in, &s.consts, &opts, (size_t)sample, seed, &err)
		    : mf_search_run(&found, &s.in, &s.consts, &opts, &err);
	if (st == MF_OK) {
		n = sample ? found->n_rows : ranks_to_print(found, top, s.constraint);
		if (jsonl) {
			for (size_t i = 0; st == MF_OK && i < n; i++)
				st = print_line(&s, &found->rows[sample ? i : found->order[i]],
					a->value[OPT_FORCED] != NULL, &err);
		} else if (a->value[OPT_JSON]) {
			st = print_json(&s, found, n, &ask, &err);
		} else {
			print_table(&s, found, n);
			if (ask.plans)
				st = mf_ask_rows(&s, a, found, ask.sample, ask.plans, NULL, &ask.wrong, &err);
		}
	}
	mf_search_free(found);
	mf_session_close(&s);
	return st < 0 ? mf_report(&err) : ask.wrong ? 1 : 0;
}
