/* session.c: loads what the options name, and words rows for printing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli.h"
#include "gpu.h"

#define DEFAULT_MODEL "deepseek-v2-lite"
#define DEFAULT_CLUSTER "8xh800"

static mf_status load_cluster(mf_session *s, const char *name, mf_err *err)
{
	mf_err ignored;

	if (name && strcmp(name, "auto") == 0)
		return mf_gpu_cluster(&s->cluster, err);
	if (name)
		return mf_cluster_load(&s->cluster, name, err);
	if (mf_gpu_cluster(&s->cluster, &ignored) == MF_OK)
		return MF_OK;
	s->cluster_assumed = true;
	return mf_cluster_load(&s->cluster, DEFAULT_CLUSTER, err);
}

static mf_status override_u32(const mf_args *a, mf_opt_id id, uint32_t *io, mf_err *err)
{
	uint64_t v;
	mf_status st = mf_args_u64(a, id, 1, 1u << 28, *io, &v, err);

	if (st == MF_OK)
		*io = (uint32_t)v;
	return st;
}

static mf_status load_workload(mf_session *s, const mf_args *a, mf_phase phase, mf_err *err)
{
	mf_workload *w = &s->workload;
	const char *skew = a->value[OPT_MAX_VIOLATION];
	mf_status st = mf_workload_load(w, a->value[OPT_WORKLOAD], phase, err);

	if (st < 0)
		return st;
	if (a->value[OPT_PHASE] && w->phase != phase)
		return mf_fail(err, MF_EINPUT, "workload %s is for another phase than --phase %s", w->name,
			a->value[OPT_PHASE]);
	if ((st = override_u32(a, OPT_SEQ, &w->seq, err)) < 0 ||
		(st = override_u32(a, OPT_GLOBAL_BATCH, &w->global_batch, err)) < 0 ||
		(st = override_u32(a, OPT_INPUT_TOKENS, &w->input_tokens, err)) < 0 ||
		(st = override_u32(a, OPT_OUTPUT_TOKENS, &w->output_tokens, err)) < 0 ||
		(st = override_u32(a, OPT_CONCURRENCY, &w->concurrency, err)) < 0)
		return st;
	if (skew) {
		char *end;
		double v = strtod(skew, &end);

		if (*end || end == skew || !(v >= 0 && v <= 1000))
			return mf_fail(err, MF_EINPUT, "--max-violation %s: expected a number from 0 to 1000", skew);
		w->max_violation = v;
	}
	return MF_OK;
}

static mf_status load_stack(mf_session *s, const mf_args *a, mf_err *err)
{
	mf_phase phase = s->workload.phase;
	int toolchain;
	mf_status st = mf_stack_load(&s->stack, a->value[OPT_STACK], phase, err);

	if (st < 0)
		return st;
	if (a->value[OPT_TOOLCHAIN] && strcmp(a->value[OPT_TOOLCHAIN], "all") != 0) {
		st = mf_args_choice(a, OPT_TOOLCHAIN, mf_toolchain_choices, 0, &toolchain, err);
		if (st < 0)
			return st;
		s->stack.toolchain = (mf_toolchain)toolchain;
	}
	if (mf_toolchain_is_megatron(s->stack.toolchain) != (phase == MF_TRAIN))
		return mf_fail(err, MF_EINPUT, "toolchain %s does not %s; use --phase %s or another --toolchain",
			mf_choice_name(mf_toolchain_choices, (int)s->stack.toolchain),
			mf_choice_name(mf_phase_choices, (int)phase), phase == MF_TRAIN ? "serve" : "train");
	return MF_OK;
}

static mf_status load_inputs(mf_session *s, const mf_args *a, mf_err *err)
{
	int phase, ledger, tax, constraint, space;
	uint64_t threads;
	mf_status st;

	if ((st = mf_args_choice(a, OPT_PHASE, mf_phase_choices, MF_TRAIN, &phase, err)) < 0 ||
		(st = mf_args_choice(a, OPT_LEDGER, mf_ledger_choices, MF_LEDGER_FULL, &ledger, err)) < 0 ||
		(st = mf_args_choice(a, OPT_TAX, mf_on_off_choices, 1, &tax, err)) < 0 ||
		(st = mf_args_choice(a, OPT_CONSTRAINT, mf_on_off_choices, 1, &constraint, err)) < 0 ||
		(st = mf_args_choice(a, OPT_SPACE, mf_space_choices, MF_SPACE_DEFAULT, &space, err)) < 0 ||
		(st = mf_args_u64(a, OPT_THREADS, 0, 64, 0, &threads, err)) < 0)
		return st;
	s->cost_opts.ledger = (mf_ledger)ledger;
	s->cost_opts.tax = tax;
	s->constraint = constraint;
	s->space = (mf_space)space;
	s->threads = (unsigned)threads;
	if ((st = mf_model_load(&s->model, a->value[OPT_MODEL] ? a->value[OPT_MODEL] : DEFAULT_MODEL, err)) < 0 ||
		(st = load_cluster(s, a->value[OPT_CLUSTER], err)) < 0 ||
		(st = load_workload(s, a, (mf_phase)phase, err)) < 0 || (st = load_stack(s, a, err)) < 0 ||
		(st = mf_site_load(&s->site, a->value[OPT_SITE], err)) < 0)
		return st;
	mf_consts_factory(&s->consts, &s->cluster);
	if (a->value[OPT_OVERLAY] && (st = mf_consts_overlay(&s->consts, a->value[OPT_OVERLAY], err)) < 0)
		return st;
	if (a->value[OPT_AUTOTUNE] &&
		(st = mf_autotune_read(&s->autotune, a->value[OPT_AUTOTUNE], &s->cluster, err)) < 0)
		return st;
	s->cost_opts.autotune = s->autotune;
	return MF_OK;
}

mf_status mf_session_open(mf_session *s, const mf_args *a, mf_err *err)
{
	mf_status st;

	memset(s, 0, sizeof *s);
	s->cost_opts = (mf_cost_opts)MF_COST_OPTS_INIT;
	s->in.model = &s->model;
	s->in.cluster = &s->cluster;
	s->in.workload = &s->workload;
	s->in.stack = &s->stack;
	s->in.site = &s->site;
	s->in.intern = mf_intern_new();
	if (!s->in.intern)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	st = load_inputs(s, a, err);
	if (st == MF_OK)
		st = mf_session_rebuild(s, err);
	if (st < 0)
		mf_session_close(s);
	return st;
}

mf_status mf_session_rebuild(mf_session *s, mf_err *err)
{
	mf_status st;

	mf_emitter_free(s->emitter);
	mf_cost_free(s->cost);
	s->emitter = NULL;
	s->cost = NULL;
	st = mf_emitter_new(&s->emitter, &s->in, err);
	if (st == MF_OK)
		st = mf_cost_new(&s->cost, &s->in, &s->consts, &s->cost_opts, err);
	s->realizer = (mf_realizer){s->emitter, s->cost, true};
	return st;
}

void mf_session_close(mf_session *s)
{
	mf_emitter_free(s->emitter);
	mf_cost_free(s->cost);
	mf_intern_free(s->in.intern);
	mf_autotune_free(s->autotune);
	memset(s, 0, sizeof *s);
}

mf_search_opts mf_session_search_opts(const mf_session *s)
{
	mf_search_opts o = MF_SEARCH_OPTS_INIT;

	o.space = s->space;
	o.constraint = s->constraint;
	o.cost = s->cost_opts;
	o.threads = s->threads;
	o.tiers = 3;
	return o;
}

double mf_session_fraction(const mf_session *s, const mf_plan *p)
{
	return s->workload.phase == MF_SERVE ? mf_cost_mem_fraction(s->cost, p) : NAN;
}

mf_status mf_show_row(mf_session *s, const mf_row *row, bool hashes, mf_shown *out, mf_err *err)
{
	mf_argv argv;
	mf_status st;

	memset(out, 0, sizeof *out);
	mf_plan_format(&row->plan, s->in.intern, out->plan);
	st = mf_realize_explain(&s->realizer, &row->plan, &out->refusal);
	if (st < 0)
		return mf_fail(err, st, "cannot word the verdict of %s", out->plan);
	mf_paper_note(&row->plan, &s->in, out->note);
	if (!hashes)
		return MF_OK;
	if ((st = mf_plan_sha256(&row->plan, &s->in, out->plan_sha256)) < 0 ||
		(st = mf_argv_init(&argv, true, err)) < 0)
		return st;
	mf_emit(s->emitter, &row->plan, mf_session_fraction(s, &row->plan), &argv.sink);
	if (!mf_rule_unspeakable(argv.sink.rule))
		st = mf_argv_sha256(&argv, out->argv_sha256);
	mf_argv_dispose(&argv);
	return st;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

void mf_json_number(cJSON *object, const char *key, double value)
{
	if (isfinite(value))
		cJSON_AddNumberToObject(object, key, value);
	else
		cJSON_AddNullToObject(object, key);
}

void mf_json_string(cJSON *object, const char *key, const char *text)
{
	if (text && *text)
		cJSON_AddStringToObject(object, key, text);
	else
		cJSON_AddNullToObject(object, key);
}

bool mf_json_print(cJSON *object, bool pretty)
{
	char *text = object ? pretty ? cJSON_Print(object) : cJSON_PrintUnformatted(object) : NULL;
	bool ok = text != NULL;

	/* What a full disk or a closed pipe says of it is main's to report. */
	if (ok)
		puts(text);
	free(text);
	cJSON_Delete(object);
	return ok;
}
