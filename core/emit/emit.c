/* emit.c: picks the walk of the stack's toolchain. */
#include "emit_internal.h"

#include <stdlib.h>
#include <string.h>

mf_status mf_emitter_new(mf_emitter **out, const mf_inputs *in, mf_err *err)
{
	mf_emitter *e = calloc(1, sizeof(*e));

	*out = NULL;
	if (!e)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	e->in = *in;
	e->world = mf_cluster_world(in->cluster);
	bool megatron = mf_toolchain_is_megatron(in->stack->toolchain);
	mf_status st = MF_OK;
	if (megatron != (in->workload->phase == MF_TRAIN)) {
		st = mf_fail(err, MF_EINPUT, "toolchain %s does not %s: choose another stack",
			mf_choice_name(mf_toolchain_choices, (int)in->stack->toolchain), megatron ? "serve" : "train");
	} else {
		st = megatron ? mf_megatron_facts_new(e, err) : mf_sglang_facts_new(e, err);
	}
	if (st < 0) {
		mf_emitter_free(e);
		return st;
	}
	*out = e;
	return MF_OK;
}

void mf_emitter_free(mf_emitter *e)
{
	if (!e)
		return;
	mf_megatron_facts_free(e->megatron);
	mf_sglang_facts_free(e->sglang);
	free(e);
}

void mf_emit(const mf_emitter *e, const mf_plan *p, double memory_fraction, mf_sink *s)
{
	if (e->megatron)
		mf_megatron_emit(e, p, s);
	else
		mf_sglang_emit(e, p, memory_fraction, s);
}

bool mf_rule_unspeakable(mf_rule_id rule)
{
	const mf_rule *r = mf_rule_get(rule);

	return strcmp(r->stage, "emit") == 0 && !r->rewrite;
}
