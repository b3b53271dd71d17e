/*
 * megatron.c: the guards of Megatron-LM, in the order in which pretrain_gpt.py itself would refuse: our own rules for
 * plans without words, then parse, batch, optcfg, pg, cfg, build, wrap, sched, fwd. Whatever does not change between the
 * plans of one search is settled in mf_megatron_facts_new, so a guard is one comparison of integers. The arguments are
 * written by megatron_args.c from the same facts and the same step.
 */
#include "megatron_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- facts ------------------------------------------------------------------------------------------------------- */

static void refuse_model(struct mf_megatron_facts *f, mf_rule_id rule, size_t n, int64_t a, int64_t b)
{
	if (f->model_rule != MF_RULE_NONE)
		return;
	f->model_rule = rule;
	f->model_values[0] = f->minor;
	f->model_values[1] = f->patch;
	f->model_values[2] = a;
	f->model_values[3] = b;
	f->n_model_values = 2 + n;
}

/* Shapes that are fixed for the whole search and that the command line cannot describe. */
static void model_facts(struct mf_megatron_facts *f, const mf_model *m, const mf_stack *stack)
{
	uint32_t full = m->layers - m->window_layers;
	uint32_t split = m->mixerless_layers > m->bare_layers ? m->mixerless_layers : m->bare_layers;

	if (mf_model_hybrid(m))
		refuse_model(f, MF_R_MODEL_HYBRID, 2, m->layers,
			m->index_topk ? m->layers
			: split       ? split
				      : m->mamba_layers + m->delta_layers);
	if (stack->optimizer != MF_OPT_ADAM)
		refuse_model(f, MF_R_STACK_OPTIMIZER, 0, 0, 0);
	if (m->attention_gate)
		refuse_model(f, MF_R_MODEL_GATE, 0, 0, 0);
	if (m->yarn && m->attention == MF_MLA && m->rope_original_positions != 0 && m->rope_original_positions != 4096)
		refuse_model(f, MF_R_MODEL_YARN_ORIGIN, 1, m->rope_original_positions, 0);
	/* Within the original range YaRN only changes frequencies, not shapes: plain rope costs the same. */
	if (m->yarn && m->attention == MF_GQA && m->rope_original_positions != 0 && f->seq > m->rope_original_positions)
		refuse_model(f, MF_R_MODEL_YARN_GQA, 2, f->seq, m->rope_original_positions);
	if (m->window && m->window_layers && full && m->layers % full != 0)
		refuse_model(f, MF_R_MODEL_WINDOW, 2, m->window_layers, m->layers);
	if (m->mlp_bias && !m->linear_bias)
		refuse_model(f, MF_R_MODEL_MLP_BIAS, 0, 0, 0);
}

static mf_rule_id precision_rule(mf_precision precision, uint32_t sm)
{
	switch (precision) {
	case MF_PREC_BF16: return MF_RULE_NONE;
	case MF_PREC_FP8_TENSOR:
	case MF_PREC_FP8_DELAYED: return sm < 89 ? MF_R_TE_FP8 : MF_RULE_NONE;
	case MF_PREC_FP8_BLOCK: return sm < 90 ? MF_R_TE_BLOCK : MF_RULE_NONE;
	case MF_PREC_MXFP8: return sm < 100 ? MF_R_TE_MXFP8 : MF_RULE_NONE;
	case MF_PREC_NVFP4: return sm < 100 ? MF_R_TE_NVFP4 : MF_RULE_NONE;
	}
	return MF_RULE_NONE;
}

mf_status mf_megatron_facts_new(struct mf_emitter *e, mf_err *err)
{
	static const struct {
		uint32_t minor, patch;
	} versions[] = {
		[MF_MEGATRON_0171] = {17, 1},
		[MF_MEGATRON_0180] = {18, 0},
		[MF_MEGATRON_0182] = {18, 2},
		[MF_MEGATRON_0190] = {19, 0},
	};
	struct mf_megatron_facts *f = calloc(1, sizeof(*f));
	const mf_model *m = e->in.model;
	const mf_workload *w = e->in.workload;
	const mf_stack *stack = e->in.stack;

	if (!f)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	f->minor = versions[stack->toolchain].minor;
	f->patch = versions[stack->toolchain].patch;
	f->world = e->world;
	f->gpus_per_node = e->in.cluster->gpus_per_node;
	f->layers = m->layers;
	f->heads = m->heads;
	f->mla = m->attention == MF_MLA;
	f->groups = !f->mla && m->kv_heads != m->heads ? m->kv_heads : 0;
	f->seq = w->seq;
	f->max_positions = m->max_positions;
	f->global_batch = w->global_batch;
	f->experts = m->experts;
	f->topk = m->topk;
	f->ffn = mf_model_dense_layers(m) ? m->ffn : 0;
	f->moe_ffn = m->experts ? m->moe_ffn : 0;
	f->shared_ffn = m->experts ? m->shared_ffn : 0;
	f->mtp = w->mtp ? m->mtp_layers : 0;
	f->mtp_dense = f->mtp && m->layers && !m->moe_layer[m->layers - 1];
	if (m->experts && m->expert_groups > 1) {
		f->expert_groups = m->expert_groups;
		f->expert_group_topk = m->expert_group_topk;
	}
	f->te = stack->transformer_engine;
	f->grouped_gemm = m->experts && f->te;
	f->shared_overlap = f->shared_ffn && stack->shared_expert_overlap;
	f->biased_moe = m->experts && m->linear_bias;
	f->fp8 = w->precision != MF_PREC_BF16 && w->precision != MF_PREC_NVFP4;
	f->fp8_delayed = w->precision == MF_PREC_FP8_DELAYED;
	f->config_before_groups = f->minor >= 19;
	model_facts(f, m, stack);
	f->precision_rule = precision_rule(w->precision, e->in.cluster->sm);
	e->megatron = f;
	return MF_OK;
}

void mf_megatron_facts_free(struct mf_megatron_facts *f)
{
	free(f);
}

/* ---- guards ------------------------------------------------------------------------------------------------------ */

/* Each stage answers true when the walk must stop. */
#define GUARD(condition, rule, ...)                                                                                    \
	do {                                                                                                           \
		if ((condition) && MF_REFUSE(s, rule, ##__VA_ARGS__))                                                  \
			return true;                                                                                   \
	} while (0)
#define OURS(condition, rule, ...) GUARD(condition, rule, f->minor, f->patch, ##__VA_ARGS__)

/* Nodes a token may reach: the nodes an expert-parallel group spans, or fewer where routing picks groups of experts. */
static uint32_t reach_nodes(const struct mf_megatron_facts *f, const mf_plan *p, uint32_t etp, uint32_t *nodes)
{
	uint32_t ranks = p->ep * etp;

	*nodes = (ranks + f->gpus_per_node - 1) / f->gpus_per_node;
	return f->expert_group_topk && f->expert_group_topk < *nodes ? f->expert_group_topk : *nodes;
}

static bool guard_words(
	const struct mf_megatron_facts *f, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	OURS(p->schedule == MF_DUALPIPE, MF_R_PLAN_DUALPIPE);
	OURS(p->comm_kind != MF_COMM_STREAM, MF_R_PLAN_DEVICE_COMM);
	OURS(p->kernel, MF_R_PLAN_KERNEL);
	if (p->node_limit) {
		uint32_t nodes, reach = reach_nodes(f, p, st->etp, &nodes);
		OURS(p->node_limit != reach && p->node_limit < nodes, MF_R_PLAN_NODE_LIMIT, reach, nodes,
			p->node_limit);
	}
	OURS(p->redundant, MF_R_PLAN_REDUNDANT);
	OURS(p->expert_map, MF_R_PLAN_EXPERT_MAP);
	OURS(p->sm_budget && p->dispatcher != MF_DISP_DEEPEP && p->dispatcher != MF_DISP_HYBRIDEP, MF_R_PLAN_SM_BUDGET);
	OURS(p->comm_chunks > 1, MF_R_PLAN_COMM_CHUNKS);
	OURS(p->placement != MF_PLACE_DEFAULT, MF_R_PLAN_PLACEMENT);
	OURS(p->zero_stage > 1 && !st->fsdp, MF_R_PLAN_ZERO_STAGE, p->zero_stage);
	OURS(p->schedule == MF_INTERLEAVED && p->vpp == 1, MF_R_PLAN_SCHEDULE);
	OURS(p->schedule == MF_1F1B && p->vpp > 1, MF_R_PLAN_VPP, p->vpp);
	OURS(p->recompute == MF_RECOMPUTE_SELECTIVE && !p->recompute_modules, MF_R_PLAN_RECOMPUTE_MODULES);
	if (f->model_rule != MF_RULE_NONE && mf_sink_refuse(s, f->model_rule, f->model_values, f->n_model_values))
		return true;
	return false;
}

static bool guard_parse(const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	const struct mf_megatron_facts *f = e->megatron;
	const mf_stack *stack = e->in.stack;
	uint32_t model_size = (uint32_t)p->tp * p->pp * p->cp;

	GUARD(f->world % model_size, MF_R_MCORE_W1, f->world, model_size);
	uint32_t slice = p->micro_batch * st->dp;
	if (f->minor >= 18)
		GUARD(slice && f->global_batch % slice, MF_R_MCORE_B1, f->global_batch, p->micro_batch, st->dp);
	if (st->layout) {
		uint16_t counts[MF_MAX_LAYERS];
		size_t n = mf_stage_layout_parse(st->layout, counts, MF_COUNT(counts));
		GUARD(n % p->pp, MF_R_MCORE_P19, (int64_t)n, p->pp);
		GUARD(n > 1 && p->pp == 1, MF_R_MCORE_P7);
	} else if (!st->interleaved && !st->uneven) {
		GUARD(f->layers % p->pp, MF_R_MCORE_P1);
	}
	GUARD(st->interleaved && p->pp == 1, MF_R_MCORE_P7);
	if (stack->overlap_param_gather) {
		GUARD(!st->distributed_optimizer, MF_R_MCORE_O1);
		GUARD(!stack->overlap_grad_reduce, MF_R_MCORE_O2);
	}
	GUARD(p->cp > 1 && f->seq % (2u * p->cp), MF_R_MCORE_W11);
	GUARD(f->max_positions < f->seq, MF_R_MCORE_H5, f->max_positions, f->seq);
	if (p->ep > 1) {
		GUARD(!f->experts, MF_R_MCORE_W7);
		GUARD(f->experts % p->ep, MF_R_MCORE_W8);
	}
	GUARD(stack->loss == MF_LOSS_TE && f->minor * 10 + f->patch >= 182, MF_R_MCORE_X1);
	if (p->overlap && stack->delay_wgrad) {
		GUARD(!f->te, MF_R_MCORE_E14);
		if (stack->overlap_grad_reduce && stack->graphs == MF_GRAPHS_PARTIAL) {
			GUARD(!st->fused_accumulation, MF_R_MCORE_E25);
			GUARD(e->in.model->qkv_bias || e->in.model->linear_bias, MF_R_MCORE_E26);
		}
	}
	/* batch */
	if (f->minor < 18)
		GUARD(slice && f->global_batch % slice, MF_R_MCORE_B2, f->global_batch, p->micro_batch, st->dp);
	/* optcfg */
	GUARD(st->precision_aware && !st->distributed_optimizer, MF_R_MCORE_O9);
	GUARD(st->precision_aware && !st->offload && !f->te, MF_R_MCORE_O10);
	return false;
}

static bool guard_groups(
	const struct mf_megatron_facts *f, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	uint32_t size = st->etp * p->ep * p->pp;

	GUARD(f->world % size, MF_R_MCORE_W2, f->world, size);
	return false;
}

/* Stage layouts and first/last counts, as TransformerConfig checks them. */
static bool guard_stages(
	const struct mf_megatron_facts *f, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	if (st->layout) {
		uint16_t counts[MF_MAX_LAYERS];
		size_t n = mf_stage_layout_parse(st->layout, counts, MF_COUNT(counts));
		int64_t sum = 0;
		for (size_t i = 0; i < n; i++)
			sum += counts[i];
		GUARD(sum != f->layers, MF_R_MCORE_P23, sum, f->layers);
		OURS(n != (size_t)p->pp * p->vpp, MF_R_PLAN_VPP, (int64_t)(n / p->pp));
		return false;
	}
	if (!st->uneven)
		return false;
	int64_t layers = f->layers, stages = p->pp;
	if (p->first_layers) {
		GUARD(p->first_layers % p->vpp, MF_R_MCORE_P12, p->first_layers, p->vpp);
		layers -= p->first_layers;
		stages--;
	}
	if (p->last_layers) {
		GUARD(p->last_layers % p->vpp, MF_R_MCORE_P12_LAST, p->last_layers, p->vpp);
		layers -= p->last_layers;
		stages--;
	}
	GUARD((layers != 0) != (stages != 0), MF_R_MCORE_P13, layers, stages);
	GUARD(stages && layers % stages, MF_R_MCORE_P14, layers, stages);
	GUARD(stages && st->interleaved && (layers / stages) % p->vpp, MF_R_MCORE_P15, layers / stages, p->vpp);
	/* Nothing above minds a negative remainder, but what is then built is another model. */
	OURS(layers < 0 || stages < 0, MF_R_PLAN_STAGES, (int64_t)p->first_layers + p->last_layers, f->layers);
	return false;
}

static bool guard_overlap(const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	const struct mf_megatron_facts *f = e->megatron;

	GUARD(p->pp > 1 && !st->interleaved, MF_R_MCORE_E2);
	GUARD(p->ep <= 1, MF_R_MCORE_E3);
	GUARD(p->dispatcher == MF_DISP_ALLGATHER, MF_R_MCORE_E4);
	GUARD(p->recompute == MF_RECOMPUTE_FULL, MF_R_MCORE_E5);
	GUARD(p->recompute == MF_RECOMPUTE_SELECTIVE && (p->recompute_modules & MF_RC_MOE), MF_R_MCORE_E8);
	GUARD(f->shared_overlap, MF_R_MCORE_E10);
	GUARD(f->mtp > 1, f->minor < 19 ? MF_R_MCORE_E11 : MF_R_MCORE_E11_NEW);
	GUARD(f->mtp == 1 && f->minor < 18 && p->pp == 1, MF_R_MCORE_E24);
	GUARD(f->minor < 18 && e->in.stack->graphs == MF_GRAPHS_FULL, MF_R_MCORE_E12);
	return false;
}

static bool guard_config(const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	const struct mf_megatron_facts *f = e->megatron;

	GUARD(f->heads % p->tp, MF_R_MCORE_H1, f->heads, p->tp);
	GUARD(f->groups && f->groups % p->tp && p->tp % f->groups, MF_R_MCORE_H2, f->groups, p->tp);
	if (f->shared_overlap && p->dispatcher != MF_DISP_ALLTOALL) {
		GUARD(f->minor < 18, MF_R_MCORE_M19_OLD);
		GUARD(f->minor >= 18 && p->dispatcher == MF_DISP_ALLGATHER, MF_R_MCORE_M19);
	}
	if (p->recompute == MF_RECOMPUTE_SELECTIVE) {
		unsigned modules = p->recompute_modules;
		GUARD((modules & MF_RC_MOE_ACT) && !f->grouped_gemm, MF_R_MCORE_R6);
		GUARD((modules & MF_RC_MLA_UP_PROJ) && !f->mla, MF_R_MCORE_R7);
		GUARD((modules & MF_RC_SHARED_EXPERTS) && f->shared_overlap, MF_R_MCORE_R8);
		GUARD((modules & (MF_RC_MOE_ACT | MF_RC_LAYERNORM)) && f->fp8_delayed, MF_R_MCORE_R9);
	}
	if (guard_stages(f, p, st, s))
		return true;
	GUARD(f->biased_moe && st->etp != 1, MF_R_MCORE_H9);
	GUARD(e->in.model->experts && e->in.model->expert_bias && !e->in.model->sigmoid_router,
		f->minor < 18 ? MF_R_MCORE_M8_OLD : MF_R_MCORE_M8);
	GUARD(e->in.stack->graphs == MF_GRAPHS_PARTIAL && p->recompute == MF_RECOMPUTE_FULL, MF_R_MCORE_R21);
	GUARD(e->in.stack->graphs != MF_GRAPHS_NONE && e->in.stack->attention_dropout != 0 &&
			p->recompute == MF_RECOMPUTE_SELECTIVE && (p->recompute_modules & MF_RC_CORE_ATTN),
		MF_R_MCORE_R27);
	GUARD(f->experts && e->in.stack->permute_fusion && !f->te, MF_R_MCORE_M37);
	return p->overlap && guard_overlap(e, p, st, s);
}

/* From here on by reading: a GPU and the real packages would have to confirm it. */
static bool guard_build(const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	const struct mf_megatron_facts *f = e->megatron;
	const mf_stack *stack = e->in.stack;

	if (st->interleaved && !st->uneven && !st->layout) {
		GUARD(f->layers % p->pp, MF_R_MCORE_P9, f->layers, p->pp);
		GUARD(f->layers / p->pp % p->vpp, MF_R_MCORE_P10, f->layers / p->pp, p->vpp);
	}
	GUARD((f->fp8 || e->in.workload->precision == MF_PREC_NVFP4) && !f->te, MF_R_PLAN_TE);
	GUARD(!f->te && p->tp > 1, MF_R_MCORE_I4);
	GUARD(!f->te && p->cp > 1, MF_R_MCORE_W13);
	GUARD(f->ffn % p->tp, MF_R_MCORE_H6, f->ffn, p->tp);
	if (f->experts) {
		GUARD(p->dispatcher == MF_DISP_DEEPEP && st->etp * p->ep <= 1, MF_R_MCORE_M15);
		GUARD(p->dispatcher == MF_DISP_DEEPEP && !stack->deepep, MF_R_MCORE_M16);
		GUARD(p->dispatcher == MF_DISP_HYBRIDEP && !stack->hybridep, MF_R_MCORE_M17);
		GUARD(f->moe_ffn % st->etp, MF_R_MCORE_H6, f->moe_ffn, st->etp);
		GUARD(f->shared_ffn % p->tp, MF_R_MCORE_H6, f->shared_ffn, p->tp);
	}
	/* wrap */
	if (st->fsdp) {
		GUARD(!stack->einops, MF_R_MCORE_F9);
		GUARD(p->pp > 1, MF_R_MCORE_F10, f->world, f->world / p->pp);
		GUARD(p->overlap && stack->graphs == MF_GRAPHS_PARTIAL, MF_R_MCORE_E23);
	}
	/* sched */
	if (st->interleaved && p->pp > 1) {
		GUARD(st->microbatches < p->pp, MF_R_MCORE_P30, p->pp, st->microbatches);
		GUARD(st->microbatches % p->pp, MF_R_MCORE_P32, st->microbatches % p->pp);
	}
	GUARD(p->overlap && f->mtp_dense, MF_R_MCORE_E20);
	/* fwd */
	GUARD(p->tp > 1 && (f->seq / p->cp) % p->tp, MF_R_MCORE_H8);
	if (f->precision_rule != MF_RULE_NONE && mf_sink_refuse(s, f->precision_rule, NULL, 0))
		return true;
	if (f->experts) {
		GUARD(f->expert_group_topk && f->topk / f->expert_group_topk > f->experts / f->expert_groups,
			MF_R_MCORE_M4);
	}
	GUARD(f->mtp && p->recompute == MF_RECOMPUTE_FULL && p->recompute_layers != 1, MF_R_MCORE_R20);
	return false;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

void mf_megatron_emit(const struct mf_emitter *e, const mf_plan *p, mf_sink *s)
{
	const struct mf_megatron_facts *f = e->megatron;
	struct mf_megatron_step st;
	uint32_t model_size = (uint32_t)p->tp * p->pp * p->cp;

	st.dp = f->world / model_size;
	st.etp = p->etp ? p->etp : p->tp;
	uint32_t slice = p->micro_batch * st.dp;
	st.microbatches = slice ? f->global_batch / slice : 0;
	st.fsdp = p->sharding == MF_FSDP;
	st.offload = p->sharding == MF_ZERO1_OFFLOAD;
	st.distributed_optimizer = st.fsdp || p->zero_stage >= 1;
	/* Offload reuses the precision-aware code path and is refused without it (mcore.O6). */
	st.precision_aware = st.offload || e->in.stack->precision_aware;
	/* Under FSDP fused accumulation needs Transformer Engine 2.10 (mcore.F8), without the engine an APEX extension (I2). */
	st.fused_accumulation = !st.fsdp && f->te;
	st.interleaved = p->vpp > 1;
	st.uneven = p->first_layers || p->last_layers;
	st.layout = p->stage_layout ? mf_intern_text(e->in.intern, p->stage_layout) : NULL;

	if (guard_words(f, p, &st, s) || guard_parse(e, p, &st, s))
		return;
	if (!f->config_before_groups && guard_groups(f, p, &st, s))
		return;
	if (guard_config(e, p, &st, s))
		return;
	if (f->config_before_groups && guard_groups(f, p, &st, s))
		return;
	if (guard_build(e, p, &st, s))
		return;
	/* A forced walk still has nothing to say where the toolchain has no words. */
	if (s->collect && (s->rule == MF_RULE_NONE || !mf_rule_unspeakable(s->rule)))
		mf_megatron_write(e, p, &st, s);
}
