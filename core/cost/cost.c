/*
 * cost.c: the evaluator object. It owns the state of the models of its phase and hands each question to the right one;
 * the fast calls and the explanation run the same code.
 */
#include "autotune.h"
#include "cost_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

mf_status mf_cost_new(
	mf_cost **out, const mf_inputs *in, const mf_consts *consts, const mf_cost_opts *opts, mf_err *err)
{
	static const mf_cost_opts defaults = MF_COST_OPTS_INIT;
	mf_status st = MF_OK;
	mf_cost *c;

	*out = NULL;
	if (!in->model || !in->cluster || !in->workload || !in->stack)
		return mf_fail(err, MF_EBUG, "the evaluator needs a model, a cluster, a workload and a stack");
	c = calloc(1, sizeof(*c));
	if (!c)
		return mf_fail(err, MF_ENOMEM, "out of memory for the evaluator");
	c->in = *in;
	c->k = consts;
	c->opts = opts ? *opts : defaults;
	c->world = mf_cluster_world(in->cluster);
	if (in->workload->phase == MF_TRAIN) {
		st = mf_train_memory_new(c, err);
		if (st == MF_OK)
			st = mf_train_time_new(c, err);
	} else {
		st = mf_serve_state_new(c, err);
	}
	if (st < 0) {
		mf_cost_free(c);
		return st;
	}
	*out = c;
	return MF_OK;
}

void mf_cost_free(mf_cost *c)
{
	if (!c)
		return;
	mf_train_memory_free(c->train_memory);
	mf_train_time_free(c->train_time);
	mf_serve_state_free(c->serve);
	mf_train_sim_free(c->sim);
	free(c);
}

static void memory(mf_cost *c, const mf_plan *p, mf_memory *out, mf_explain *ex)
{
	assert(p->phase == c->in.workload->phase);
	if (c->in.workload->phase == MF_TRAIN)
		mf_train_memory_eval(c, p, out, ex);
	else
		mf_serve_memory_eval(c, p, out, ex);
}

static void timing(mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex)
{
	assert(p->phase == c->in.workload->phase);
	if (c->in.workload->phase == MF_TRAIN)
		mf_train_time_eval(c, p, out, ex);
	else
		mf_serve_time_eval(c, p, out, ex);
}

void mf_cost_memory(mf_cost *c, const mf_plan *p, mf_memory *out)
{
	memory(c, p, out, NULL);
}

void mf_cost_time(mf_cost *c, const mf_plan *p, mf_time *out)
{
	timing(c, p, out, NULL);
}

bool mf_cost_expert_layer(const mf_cost *c, const mf_plan *p, mf_expert_layer *out)
{
	const mf_model *m = c->in.model;
	const uint32_t etp = mf_plan_etp(p, c->world);

	if (m->experts == 0 || etp == 0 || p->ep == 0 || m->experts % p->ep != 0 || m->moe_ffn % etp != 0)
		return false;
	*out = (mf_expert_layer){.phase = (mf_phase)p->phase,
		.dtype = p->phase == MF_SERVE ? mf_serve_expert_dtype(c) : mf_train_dtype(c),
		.hidden = mf_model_expert_width(m),
		.width = m->moe_ffn / etp,
		.experts = m->experts / p->ep,
		.rows = NAN};
	return true;
}

bool mf_cost_layout(mf_cost *c, const mf_plan *p, char *out, size_t size)
{
	assert(c->in.workload->phase == MF_TRAIN && p->phase == MF_TRAIN);
	return mf_train_layout(c, p, out, size);
}

static mf_status priced(const mf_cost *c, const mf_plan *p, mf_err *err)
{
	if (p->phase != c->in.workload->phase)
		return mf_fail(err, MF_EINPUT, "the plan is for %s, the workload for %s",
			mf_choice_name(mf_phase_choices, p->phase),
			mf_choice_name(mf_phase_choices, (int)c->in.workload->phase));
	if (mf_plan_dp(p, c->world) == 0)
		return mf_fail_at(err, MF_EINPUT, NULL, 0, "tp", "tp*cp*pp does not divide the %u GPUs", c->world);
	if (p->phase == MF_TRAIN && mf_plan_edp(p, c->world) == 0)
		return mf_fail_at(err, MF_EINPUT, NULL, 0, "ep", "ep*etp*pp does not divide the %u GPUs", c->world);
	if (p->phase == MF_SERVE && mf_plan_etp(p, c->world) == 0)
		return mf_fail_at(err, MF_EINPUT, NULL, 0, "ep", "ep*moe_dp does not divide tp*cp*dp");
	return MF_OK;
}

mf_status mf_cost_explain(mf_cost *c, const mf_plan *p, mf_explain *out, mf_err *err)
{
	mf_status st = priced(c, p, err);

	memset(out, 0, sizeof(*out));
	if (st < 0)
		return st;
	memory(c, p, &out->memory, out);
	timing(c, p, &out->time, out);
	return MF_OK;
}

mf_status mf_cost_explain_stage(mf_cost *c, const mf_plan *p, uint32_t stage, mf_explain *out, mf_err *err)
{
	mf_status st = priced(c, p, err);

	memset(out, 0, sizeof(*out));
	if (st < 0)
		return st;
	if (p->phase != MF_TRAIN || stage >= p->pp)
		return mf_fail_at(err, MF_EINPUT, NULL, 0, "pp", "the plan has no training stage %u", stage);
	return mf_train_memory_stage(c, p, stage, out, err);
}
