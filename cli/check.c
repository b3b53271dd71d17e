/* check.c: moefs check. Can this plan, or this command, be built; and what would be better? */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli.h"

/* Where a plan stands in the ranking, and its nearest better buildable neighbour. */
struct standing {
	size_t rank; /* 1 + buildable plans that are faster */
	size_t buildable;
	bool has_better;
	mf_row better;
	unsigned changed; /* dimensions in which it differs */
};

/* Number of dimensions in which two plans differ. */
static unsigned differences(const mf_plan *a, const mf_plan *b)
{
	const uint16_t *x = (const uint16_t *)(const void *)a, *y = (const uint16_t *)(const void *)b;
	const uint8_t *u = (const uint8_t *)a, *v = (const uint8_t *)b;
	size_t words = offsetof(mf_plan, phase) / 2, i;
	unsigned n = 0;

	for (i = 0; i < words; i++)
		n += x[i] != y[i];
	for (i = offsetof(mf_plan, phase); i < sizeof(mf_plan); i++)
		n += u[i] != v[i];
	return n;
}

static mf_status find_standing(mf_session *s, const mf_plan *p, double throughput, struct standing *out, mf_err *err)
{
	mf_search_opts opts = mf_session_search_opts(s);
	mf_search *found = NULL;
	mf_status st;

	memset(out, 0, sizeof *out);
	opts.constraint = true;
	st = mf_search_run(&found, &s->in, &s->consts, &opts, err);
	if (st < 0)
		return st;
	out->rank = 1;
	for (size_t i = 0; i < found->n_rows; i++) {
		const mf_row *row = &found->rows[found->order[i]];
		unsigned n;

		if (row->rule != MF_RULE_NONE)
			continue;
		out->buildable++;
		/* A plan of the space equals the one asked about to rounding: it is no improvement on itself. */
		if (!((double)row->throughput > throughput * (1 + 1e-6)))
			continue;
		out->rank++;
		n = differences(&row->plan, p);
		if (n && (!out->has_better || n < out->changed)) {
			out->has_better = true;
			out->better = *row;
			out->changed = n;
		}
	}
	mf_search_free(found);
	return MF_OK;
}

/* `about` is NULL where the real toolchain was not started. */
static cJSON *verdict_json(
	mf_session *s, const mf_row *row, const mf_shown *shown, const mf_real_info *about, const mf_real_verdict *said)
{
	cJSON *o = cJSON_CreateObject();
	const mf_refusal *r = &shown->refusal;

	cJSON_AddStringToObject(o, "plan", shown->plan);
	cJSON_AddStringToObject(o, "verdict", row->rule ? "rejected" : "buildable");
	mf_json_string(o, "stage", r->stage);
	mf_json_string(o, "boundary", r->boundary);
	mf_json_string(o, "rule", r->rule);
	mf_json_string(o, "kind", r->kind);
	mf_json_string(o, "reason", r->reason);
	mf_json_string(o, "note", shown->note);
	cJSON_AddBoolToObject(o, "probe_advised", row->probe);
	cJSON_AddStringToObject(o, "toolchain", mf_choice_name(mf_toolchain_choices, (int)s->stack.toolchain));
	mf_json_number(o, "throughput", row->throughput);
	mf_json_number(o, "memory_gb", row->memory_gb);
	mf_ask_json(cJSON_AddObjectToObject(o, "real"), about, said);
	return o;
}

static void print_verdict(mf_session *s, const mf_row *row, const mf_shown *shown)
{
	const mf_refusal *r = &shown->refusal;

	printf("%s: %s on %s\n", shown->plan, row->rule ? "rejected" : "buildable",
		mf_choice_name(mf_toolchain_choices, (int)s->stack.toolchain));
	if (row->rule)
		printf("  %s (%s, boundary %s, stage %s)\n  %s\n", r->rule, r->kind, r->boundary, r->stage, r->reason);
	if (row->probe)
		printf("  memory is within the ledger's error of the card: launch a probe before trusting it\n");
	if (shown->note[0])
		printf("  note: %s\n", shown->note);
	if (isfinite(row->throughput))
		printf("  predicted %.1f tokens/s/GPU, %.1f GB\n", (double)row->throughput, (double)row->memory_gb);
}

/* Scores and judges one plan. A plan that does not divide the world is refused without a cost. */
static mf_row judge(mf_session *s, const mf_plan *p)
{
	uint32_t world = mf_cluster_world(&s->cluster);
	mf_row row;
	mf_verdict v;
	mf_time t;

	memset(&row, 0, sizeof row);
	row.plan = *p;
	row.throughput = row.memory_gb = row.step_ms = row.ttft_ms = row.tpot_ms = NAN;
	mf_realize(&s->realizer, p, &v);
	row.rule = v.rule;
	row.probe = v.probe;
	if (!mf_plan_dp(p, world) || !mf_plan_etp(p, world) ||
		(s->workload.phase == MF_TRAIN && !mf_plan_edp(p, world)))
		return row;
	if (isfinite(v.memory.total_bytes))
		row.memory_gb = (float)(v.memory.total_bytes / MF_GB);
	mf_cost_time(s->cost, p, &t);
	row.throughput = (float)t.throughput;
	row.step_ms = (float)t.step_ms;
	row.ttft_ms = (float)t.ttft_ms;
	row.tpot_ms = (float)t.tpot_ms;
	row.extrapolated = t.extrapolated;
	return row;
}

static void add_text(void *list, const char *text)
{
	cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

/* What the command says and its plan, written anew, does not: an array of strings. NULL when out of memory. */
static cJSON *differences_json(mf_session *s, const mf_plan *p, const mf_command *c, mf_err *err)
{
	cJSON *list = cJSON_CreateArray();
	mf_argv again;

	if (mf_argv_init(&again, true, err) < 0)
		return list;
	mf_emit(s->emitter, p, mf_session_fraction(s, p), &again.sink);
	if (again.n)
		mf_command_differences(c, &again, add_text, list);
	mf_argv_dispose(&again);
	return list;
}

/* True when the real toolchain's answer makes the whole answer a negative one. */
static bool denied(const mf_real_verdict *said)
{
	return said->agrees == MF_DISAGREES || (said->ran && !said->accepted);
}

/* Judges and prints one plan; `real` is NULL or asked about it too. */
static mf_status check_one(
	mf_session *s, const mf_plan *p, const mf_command *c, mf_real *real, bool json, bool *rejected, mf_err *err)
{
	mf_row row = judge(s, p);
	struct standing stand;
	char better[MF_PLAN_TEXT_MAX] = "";
	const mf_real_info *about = real ? mf_real_about(real) : NULL;
	mf_real_verdict said = {0};
	mf_shown shown;
	cJSON *o, *list;
	mf_status st = mf_show_row(s, &row, false, &shown, err);

	if (st == MF_OK && real)
		st = mf_ask_plan(real, s, p, row.rule, &said, err);
	if (st < 0)
		return st;
	*rejected = row.rule != MF_RULE_NONE || denied(&said);
	if (c) {
		st = find_standing(
			s, p, row.rule || !isfinite(row.throughput) ? 0 : (double)row.throughput, &stand, err);
		if (st < 0)
			return st;
		if (stand.has_better)
			mf_plan_format(&stand.better.plan, s->in.intern, better);
	}
	if (json) {
		o = verdict_json(s, &row, &shown, about, &said);
		if (c) {
			list = cJSON_AddArrayToObject(o, "unread");
			for (size_t i = 0; i < c->n_unread; i++)
				cJSON_AddItemToArray(list, cJSON_CreateString(c->unread[i]));
			cJSON_AddItemToObject(o, "differs", differences_json(s, p, c, err));
			cJSON_AddNumberToObject(o, "rank", (double)stand.rank);
			cJSON_AddNumberToObject(o, "buildable_plans", (double)stand.buildable);
			mf_json_string(o, "better_plan", better);
			mf_json_number(
				o, "better_throughput", stand.has_better ? (double)stand.better.throughput : NAN);
		}
		return mf_json_print(o, true) ? MF_OK : mf_fail(err, MF_ENOMEM, "cannot print the verdict");
	}
	print_verdict(s, &row, &shown);
	if (about)
		mf_ask_print(about, &said);
	if (!c)
		return MF_OK;
	for (size_t i = 0; i < c->n_unread; i++)
		printf("  not read: %s\n", c->unread[i]);
	list = differences_json(s, p, c, err);
	for (const cJSON *d = list ? list->child : NULL; d; d = d->next)
		printf("  differs: %s\n", d->valuestring);
	cJSON_Delete(list);
	if (!row.rule)
		printf("  rank %zu of %zu buildable plans\n", stand.rank, stand.buildable);
	if (stand.has_better)
		printf("  smallest change that is %s: %s, %.1f tokens/s/GPU (%u dimension%s)\n",
			row.rule ? "buildable" : "better", better, (double)stand.better.throughput, stand.changed,
			stand.changed == 1 ? "" : "s");
	return MF_OK;
}

/* The verdict under every version of the phase's toolchain, one line each; `real` answers for its own version. */
static mf_status check_all(mf_session *s, const mf_plan *p, mf_real *real, bool json, bool *rejected, mf_err *err)
{
	bool megatron = mf_toolchain_is_megatron(s->stack.toolchain);
	const mf_real_info *about = real ? mf_real_about(real) : NULL;
	cJSON *list = json ? cJSON_CreateArray() : NULL;

	*rejected = false;
	for (const mf_choice *c = mf_toolchain_choices; c->name; c++) {
		mf_real_verdict said = {0};
		mf_row row;
		mf_shown shown;
		mf_status st;

		if (mf_toolchain_is_megatron((mf_toolchain)c->value) != megatron)
			continue;
		s->stack.toolchain = (mf_toolchain)c->value;
		if ((st = mf_session_rebuild(s, err)) < 0) {
			cJSON_Delete(list);
			return st;
		}
		row = judge(s, p);
		st = mf_show_row(s, &row, false, &shown, err);
		if (st == MF_OK && about && strcmp(about->version, strchr(c->name, '-') + 1) == 0)
			st = mf_ask_plan(real, s, p, row.rule, &said, err);
		if (st < 0) {
			cJSON_Delete(list);
			return st;
		}
		*rejected |= row.rule != MF_RULE_NONE || denied(&said);
		if (json)
			cJSON_AddItemToArray(list, verdict_json(s, &row, &shown, said.ran ? about : NULL, &said));
		else if (row.rule)
			printf("%-18s rejected   %s: %s\n", c->name, shown.refusal.rule, shown.refusal.reason);
		else
			printf("%-18s buildable\n", c->name);
		if (!json && said.ran)
			mf_ask_print(about, &said);
	}
	return !json || mf_json_print(list, true) ? MF_OK : mf_fail(err, MF_ENOMEM, "cannot print the verdicts");
}

/* Judges one plan, or the plan of command `c`, under one toolchain or all; with --real, by the installed one too. */
static mf_status check(
	mf_session *s, const mf_args *a, const mf_plan *p, const mf_command *c, bool *rejected, mf_err *err)
{
	bool json = a->value[OPT_JSON] != NULL;
	bool all = a->value[OPT_TOOLCHAIN] && strcmp(a->value[OPT_TOOLCHAIN], "all") == 0;
	mf_real *real = NULL;
	mf_status st;

	if (a->value[OPT_REAL] && (st = mf_ask_open(&real, s, a, err)) < 0)
		return st;
	st = all ? check_all(s, p, real, json, rejected, err) : check_one(s, p, c, real, json, rejected, err);
	if (real)
		mf_ask_close(real);
	return st;
}

/* Takes over what a command says about model, workload, stack and world; options given beside it win. */
static mf_status adopt(mf_session *s, const mf_args *a, mf_command *c, mf_err *err)
{
	mf_model *m = &s->model;
	mf_toolchain asked = s->stack.toolchain;

	if (a->value[OPT_TOOLCHAIN] || a->value[OPT_STACK])
		mf_command_toolchain(c, asked);
	if (!c->has_model && !a->value[OPT_MODEL] && c->phase == MF_TRAIN)
		return mf_fail(
			err, MF_EINPUT, "the command gives no model shape (--num-layers ...): name one with --model");
	if (c->has_model && !a->value[OPT_MODEL])
		*m = c->model;
	else if (!a->value[OPT_MODEL] && c->site.model_path[0] && mf_model_load(m, c->site.model_path, err) < 0)
		return mf_fail(err, MF_EINPUT,
			"the command's model %s is not known here; name its config.json with --model",
			c->site.model_path);
	if (!a->value[OPT_WORKLOAD])
		s->workload = c->workload;
	if (!a->value[OPT_STACK])
		s->stack = c->stack;
	s->site = c->site;
	if (c->world && c->world != mf_cluster_world(&s->cluster)) {
		uint32_t node = s->cluster.gpus_per_node;

		if (c->world < node)
			node = c->world;
		if (c->world % node)
			return mf_fail(err, MF_EINPUT,
				"the command's %u GPUs are no whole number of %u-GPU nodes; name the --cluster",
				c->world, node);
		s->cluster.gpus_per_node = node;
		s->cluster.nodes = c->world / node;
	}
	return mf_session_rebuild(s, err);
}

static int check_command(const mf_args *a)
{
	static mf_session s;
	mf_intern *intern = mf_intern_new();
	mf_command c;
	mf_args with_phase = *a;
	bool rejected = false;
	mf_err err;
	mf_status st = intern ? MF_OK : mf_fail(&err, MF_ENOMEM, "out of memory");

	if (st == MF_OK)
		st = a->has_rest ? mf_command_read(&c, a->rest, a->n_rest, NULL, 0, intern, &err)
				 : mf_command_read_file(&c, a->value[OPT_ARGV], intern, &err);
	if (st < 0) {
		mf_intern_free(intern);
		return mf_report(&err);
	}
	with_phase.value[OPT_PHASE] = mf_choice_name(mf_phase_choices, (int)c.phase);
	st = mf_session_open(&s, &with_phase, &err);
	if (st == MF_OK) {
		/* The plan's layout and map ids belong to the interner it was read with. */
		mf_intern_free(s.in.intern);
		s.in.intern = intern;
		intern = NULL;
		st = adopt(&s, a, &c, &err);
		if (st == MF_OK)
			st = check(&s, a, &c.plan, &c, &rejected, &err);
		mf_session_close(&s);
	}
	mf_command_dispose(&c);
	mf_intern_free(intern);
	return st < 0 ? mf_report(&err) : rejected ? 1 : 0;
}

int mf_cmd_check(const mf_args *a)
{
	static mf_session s;
	bool rejected = false;
	mf_plan p;
	mf_err err;
	mf_status st;

	if (!!a->value[OPT_PLAN] + !!a->value[OPT_ARGV] + a->has_rest != 1 || (a->has_rest && !a->n_rest)) {
		mf_fail(&err, MF_EINPUT, "check needs one of --plan PLAN, --argv FILE, or -- COMMAND");
		return mf_report(&err);
	}
	if (!a->value[OPT_PLAN])
		return check_command(a);
	if ((st = mf_session_open(&s, a, &err)) < 0)
		return mf_report(&err);
	st = mf_plan_parse(&p, a->value[OPT_PLAN], s.workload.phase, s.in.intern, &err);
	if (st == MF_OK)
		st = check(&s, a, &p, NULL, &rejected, &err);
	mf_session_close(&s);
	return st < 0 ? mf_report(&err) : rejected ? 1 : 0;
}
