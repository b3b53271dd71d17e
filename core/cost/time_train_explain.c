/*
 * time_train_explain.c: a step opened into terms that add up to it; what is hidden stands as a term of its own, below
 * 0.
 */
#include "time_train_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>

#define MILLI 1e-3

/* What a layer's term is called, how it is computed and from which constants. */
static const struct {
	const char *name, *formula;
	mf_const_id consts[MF_TERM_MAX_CONSTS];
	uint8_t n_consts;
} layer_terms[TT_COUNT] = {
	[TT_DENSE] = {"dense GEMM",
		"max(waves * SMs * 2*128*128 (k + k0) / (peak * e * sustain), bytes / (bw * HBM)) + 3 us; "
		"forward + data gradient + weight gradient",
		{MF_C_GEMM_BF16, MF_C_GEMM_BF16_K0, MF_C_GEMM_WGRAD, MF_C_SUSTAIN, MF_C_HBM, MF_C_KERNEL_TAIL}, 6},
	[TT_ATTENTION] = {"attention",
		"b nh L^2 (dqk + dv) (1 + s0/L) / (peak * ea * (1 + sustain)/2); backward 2.5 x / 0.82",
		{MF_C_ATT_64, MF_C_ATT_128, MF_C_ATT_192, MF_C_ATT_256, MF_C_ATT_S0, MF_C_ATT_BWD, MF_C_ATT_WINDOW,
			MF_C_ATT_ULTRA},
		8},
	[TT_SCAN] = {"state-space and linear-attention scan",
		"Mamba-2: T (6 inner state + 512 (inner + groups state)) flop, 28 T inner bytes; delta net: T (8 v dk "
		"+ 512 (k "
		"+ v)) flop, 40 T (k + v) bytes; backward 2.5 x",
		{MF_C_SCAN_MAMBA, MF_C_SCAN_DELTA, MF_C_HBM, MF_C_KERNEL_TAIL}, 4},
	[TT_EXPERTS] = {"grouped GEMM of experts",
		"the dense GEMM with groups = local experts and "
		"m = their rows, * grouped share",
		{MF_C_GEMM_BF16, MF_C_GEMM_BF16_K0, MF_C_GEMM_WGRAD, MF_C_GEMM_GROUPED, MF_C_SUSTAIN, MF_C_HBM}, 6},
	[TT_SHARED] = {"shared experts", "the dense GEMM",
		{MF_C_GEMM_BF16, MF_C_GEMM_BF16_K0, MF_C_GEMM_WGRAD, MF_C_SUSTAIN}, 4},
	[TT_ROUTER] = {"router", "GEMM Ts x E x h in bf16 + 24 (16) Ts E bytes", {MF_C_HBM, MF_C_KERNEL_TAIL}, 2},
	[TT_TRAFFIC] = {"norm, rotary, activation",
		"bytes / (bw * HBM) + 3 us a kernel; norm and residual 10 Ts h (16), rotary "
		"4 T (q + k) (6), gated activation 6 T f (10)",
		{MF_C_HBM, MF_C_KERNEL_TAIL}, 2},
	[TT_PERMUTE] = {"permute and expert activation",
		"rows * h * (10 or 14 all-to-all, else 6) bytes + 6 rows f (10); clamped GLU and expert biases "
		"unfused: more "
		"bytes an element",
		{MF_C_HBM, MF_C_KERNEL_TAIL, MF_C_GLU_FWD, MF_C_GLU_BWD, MF_C_EXPERT_BIAS_FWD, MF_C_EXPERT_BIAS_BWD},
		6},
	[TT_QUANTIZE] = {"quantization casts", "bytes per GEMM input element / (bw * HBM) + kernels a local expert",
		{MF_C_QUANT_BYTES, MF_C_QUANT_BYTES_FUSED, MF_C_QUANT_KERNELS, MF_C_QUANT_KERNELS_FUSED}, 4},
	[TT_TP] = {"tensor-parallel collectives",
		"rings of T h 2 bytes, 2 forward + 3 backward a sublayer; expert tensor "
		"parallel 2 + 2 of rows h 2",
		{MF_C_LINK_RING, MF_C_NIC, MF_C_RING_US}, 3},
	[TT_CP] = {"context-parallel ring, visible",
		"max(0, ring - 0.8 attention) + max(0, 2 ring - 0.8 attention backward)",
		{MF_C_HIDE_CP, MF_C_LINK_RING, MF_C_NIC, MF_C_RING_US}, 4},
	[TT_RECOMPUTE] = {"recompute", "the forward of what is recomputed, its dispatch included", {MF_C_HBM}, 0},
	[TT_EXCHANGE] = {"dispatch and combine",
		"4 a layer * 1.06 * (all-to-all: max(link, NIC); flexible: max + 0.2 min of "
		"distinct targets, groups and node limit) + latency",
		{MF_C_CONTEND, MF_C_LINK_A2A, MF_C_LINK_HYBRIDEP, MF_C_LINK_DEEPEP, MF_C_NIC, MF_C_EXCHANGE_US,
			MF_C_EXCHANGE_NODE_US, MF_C_EXCHANGE_SMS},
		8},
};

typedef struct opening {
	const tt_step *st;
	mf_explain *ex;
	tt_layer kind[TT_KINDS];
} opening;

/* Sum over the slowest rank's layers and micro-batches of the double at `offset` in a tt_layer. */
static double rank_sum(const mf_cost *c, const opening *o, size_t offset)
{
	double sum = 0;

	for (uint32_t k = 0; k < c->train_time->n_kinds; k++)
		sum += o->st->rank.layers[k] * *(const double *)((const char *)&o->kind[k] + offset);
	return o->st->m * sum;
}

static mf_term *term(opening *o, const char *name, double s, const char *formula, const char *inputs, ...)
	MF_PRINTF(5, 6);

static mf_term *term(opening *o, const char *name, double s, const char *formula, const char *inputs, ...)
{
	mf_term *t = mf_explain_term(o->ex, name, s / MILLI, formula);
	va_list ap;

	va_start(ap, inputs);
	vsnprintf(t->inputs, sizeof(t->inputs), inputs, ap);
	va_end(ap);
	t->extrapolated = o->st->l->extrapolated;
	return t;
}

static void uses(mf_term *t, mf_const_id id)
{
	if (t->n_consts < MF_TERM_MAX_CONSTS)
		t->consts[t->n_consts++] = id;
}

/* The constant of a term's table that this plan really reads, or -1: tables name those of every case. */
static int in_force(const mf_cost *c, const mf_plan *p, mf_const_id id)
{
	mf_dtype t = c->train_time->dtype;
	bool flexible = p->dispatcher == MF_DISP_DEEPEP || p->dispatcher == MF_DISP_HYBRIDEP;
	const mf_model *m = c->in.model;
	double d = m->attention == MF_MLA ? m->qk_nope + m->qk_rope : m->head_dim;
	bool across = c->world > c->train_time->domain;

	switch (id) {
	case MF_C_GEMM_BF16: return t == MF_FP8 ? MF_C_GEMM_FP8 : t == MF_FP4 ? MF_C_GEMM_FP4 : (int)id;
	case MF_C_GEMM_BF16_K0: return t == MF_FP8 ? MF_C_GEMM_FP8_K0 : t == MF_FP4 ? MF_C_GEMM_FP4_K0 : (int)id;
	case MF_C_ATT_64: return d < 128 ? (int)id : -1;
	case MF_C_ATT_128: return d > 64 && d < 192 ? (int)id : -1;
	case MF_C_ATT_192: return d > 128 && d < 256 ? (int)id : -1;
	case MF_C_ATT_256: return d > 192 ? (int)id : -1;
	case MF_C_ATT_WINDOW: return m->window ? (int)id : -1;
	case MF_C_SCAN_MAMBA: return m->mamba_layers ? (int)id : -1;
	case MF_C_SCAN_DELTA: return m->delta_layers ? (int)id : -1;
	case MF_C_EXPERT_BIAS_FWD:
	case MF_C_EXPERT_BIAS_BWD: return m->mlp_bias || m->linear_bias ? (int)id : -1;
	case MF_C_GLU_FWD:
	case MF_C_GLU_BWD: return m->clamped_glu ? (int)id : -1;
	case MF_C_QUANT_BYTES:
	case MF_C_QUANT_KERNELS: return c->train_time->fused_quant ? -1 : (int)id;
	case MF_C_QUANT_BYTES_FUSED:
	case MF_C_QUANT_KERNELS_FUSED: return c->train_time->fused_quant ? (int)id : -1;
	case MF_C_LINK_A2A:
		return p->dispatcher == MF_DISP_ALLTOALL    ? (int)id
		       : p->dispatcher == MF_DISP_ALLGATHER ? MF_C_LINK_RING
							    : -1;
	case MF_C_LINK_HYBRIDEP: return p->dispatcher == MF_DISP_HYBRIDEP ? (int)id : -1;
	case MF_C_LINK_DEEPEP: return p->dispatcher == MF_DISP_DEEPEP ? (int)id : -1;
	case MF_C_EXCHANGE_NODE_US: return across && !flexible ? (int)id : -1;
	case MF_C_EXCHANGE_SMS: return p->sm_budget ? (int)id : -1;
	case MF_C_NIC: return across ? (int)id : -1;
	default: return (int)id;
	}
}

static void layer_inputs(const mf_cost *c, const mf_plan *p, const tt_step *st, int i, char *out, size_t size)
{
	const mf_model *m = c->in.model;
	double T = (double)p->micro_batch * c->in.workload->seq / p->cp;
	double local = m->experts ? (double)m->experts / p->ep : 0,
	       rows = isnan(st->l->tokens_per_expert) ? 0 : st->l->tokens_per_expert * local;
	double layers = 0;
	int n;

	for (uint32_t k = 0; k < c->train_time->n_kinds; k++)
		layers += st->rank.layers[k];
	n = snprintf(out, size, "micro-batches=%.0f layers=%g ", st->m, layers);
	if (n < 0 || (size_t)n >= size)
		return;
	out += n;
	size -= (size_t)n;
	switch (i) {
	case TT_ATTENTION:
	case TT_CP:
		if (m->attention == MF_MLA)
			snprintf(out, size, "b=%u nh=%g L=%u dqk=%u dv=%u cp=%u", p->micro_batch,
				(double)m->heads / p->tp, c->in.workload->seq, m->qk_nope + m->qk_rope, m->v_dim,
				p->cp);
		else
			snprintf(out, size, "b=%u nh=%g kv=%u L=%u d=%u window=%u cp=%u", p->micro_batch,
				(double)m->heads / p->tp, m->kv_heads, c->in.workload->seq, m->head_dim, m->window,
				p->cp);
		break;
	case TT_SCAN:
		snprintf(out, size, "T=%.0f mamba heads=%ux%u state=%u delta values=%ux%u", T, m->mamba_heads,
			m->mamba_head_dim, m->mamba_state, m->delta_v_heads, m->delta_v_dim);
		break;
	case TT_EXPERTS:
	case TT_PERMUTE:
		snprintf(out, size, "m=%.0f h=%u f=%u groups=%g", rows, mf_model_expert_width(m), m->moe_ffn, local);
		break;
	case TT_EXCHANGE:
		snprintf(out, size, "Ts=%.0f h=%u topk=%u ep=%u chunks=%u sm=%u", T / p->tp, mf_model_expert_width(m),
			m->topk, p->ep, p->comm_chunks, p->sm_budget);
		break;
	default: snprintf(out, size, "T=%.0f h=%u tp=%u", T, m->hidden, p->tp);
	}
}

static void layer_times(const mf_cost *c, const mf_plan *p, opening *o)
{
	mf_term *t;

	for (int i = 0; i < TT_COUNT; i++) {
		double s =
			rank_sum(c, o, offsetof(tt_layer, term[i].f)) + rank_sum(c, o, offsetof(tt_layer, term[i].b));
		char inputs[sizeof(t->inputs)];

		if (s == 0)
			continue;
		layer_inputs(c, p, o->st, i, inputs, sizeof(inputs));
		t = term(o, layer_terms[i].name, s, layer_terms[i].formula, "%s", inputs);
		for (uint8_t k = 0; k < layer_terms[i].n_consts; k++) {
			int id = in_force(c, p, layer_terms[i].consts[k]);

			if (id >= 0)
				uses(t, (mf_const_id)id);
		}
	}
}

/* What hides, and what cannot. */
static void overlaps(const mf_cost *c, const mf_plan *p, opening *o)
{
	const tt_step *st = o->st;
	const mf_model *m = c->in.model;
	double hidden, shared_hidden, floor_excess;
	mf_term *t;

	hidden = rank_sum(c, o, offsetof(tt_layer, hidden));
	if (hidden > 0) {
		bool delayed = c->in.stack->delay_wgrad;

		t = term(o, "hidden dispatch and combine", -hidden,
			"share * min(dispatch and combine, everything else of the layer)",
			"schedule=%s delayed wgrad=%d", mf_choice_name(mf_schedule_choices, p->schedule), delayed);
		uses(t, p->schedule == MF_DUALPIPE ? MF_C_HIDE_DUALPIPE : delayed ? MF_C_HIDE_EP_WGRAD : MF_C_HIDE_EP);
		if (p->comm_chunks > 1)
			uses(t, MF_C_HIDE_CHUNK);
		if (p->sm_budget > 0)
			uses(t, MF_C_EXCHANGE_SMS);
	}
	if (st->unhidden != 0)
		term(o, st->shown > 1 ? "exchange shown beside copies" : "first and last micro-batch", st->unhidden,
			st->shown > 1 ? "offload under overlap: all micro-batches without overlap less all with it"
				      : "what the first forward and the last backward cannot hide: one "
					"micro-batch without overlap less one with it",
			"micro-batches=%.0f", st->m);
	shared_hidden = rank_sum(c, o, offsetof(tt_layer, shared_hidden));
	if (shared_hidden > 0) {
		t = term(o, "shared experts beside dispatch", -shared_hidden,
			"share * min(shared expert, dispatch and combine)", "shared=%u", m->shared_ffn);
		uses(t, MF_C_HIDE_SHARED);
	}
	floor_excess = rank_sum(c, o, offsetof(tt_layer, floor_excess));
	if (floor_excess > 0) {
		t = term(o, "host launch floor", floor_excess,
			"max(0, host launches - GPU time) + 0.001 of the smaller, forward and backward of each layer",
			"graphs=%d local experts=%g", (int)c->in.stack->graphs,
			m->experts ? (double)m->experts / p->ep : 0);
		uses(t, MF_C_HOST_FWD);
		uses(t, MF_C_HOST_BWD);
		uses(t, MF_C_HOST_GEMM);
		uses(t, MF_C_HOST_LOW);
		uses(t, MF_C_HOST_SYNC);
		uses(t, MF_C_GRAPH_CUT);
		uses(t, MF_C_HOST_TIE);
	}
}

/* The first and the last stage, and what pipelining costs. */
static void pipeline_times(const mf_cost *c, const mf_plan *p, opening *o)
{
	const tt_step *st = o->st;
	const mf_model *m = c->in.model;
	const tt_layers *l = st->l;
	double tokens = (double)p->micro_batch * c->in.workload->seq / p->cp;
	mf_term *t;

	if (st->rank.first > 0) {
		t = term(o, "embedding", st->m * st->rank.first * l->embedding, "12 T h bytes / (bw * HBM)",
			"T=%.0f h=%u", tokens, m->hidden);
		uses(t, MF_C_HBM);
	}
	if (st->rank.last > 0) {
		t = term(o, "head and loss", st->m * st->rank.last * l->head, "GEMM T x V/tp x h + 19 bytes a logit",
			"T=%.0f V=%u h=%u tp=%u", tokens, m->vocab, m->hidden, p->tp);
		uses(t, MF_C_GEMM_BF16);
		uses(t, MF_C_LOSS_BYTES);
		if (l->mtp > 0)
			term(o, "multi-token prediction", st->m * st->rank.last * l->mtp,
				"depth * (layer + 2h x h projection + head)", "depth=%u", m->mtp_layers);
	}
	if (p->pp > 1) {
		term(o, "pipeline bubble", st->bubble,
			p->schedule == MF_DUALPIPE ? "(p/2 - 1)(F&B + B - 3W) of a mean stage"
						   : "(p - 1) / (p v) * all stages",
			"p=%u v=%u micro-batches=%.0f", p->pp, p->vpp, st->m);
		t = term(o, "pipeline transfers", st->p2p,
			"v = 1: 2 (m + p - 1) t; else 2 (p - 1) t + 0.3 m v t; "
			"t = Ts h 2 / rate + 15 us",
			"p=%u v=%u", p->pp, p->vpp);
		uses(t, c->world > c->train_time->domain ? MF_C_NIC_P2P : MF_C_LINK_P2P);
		uses(t, MF_C_P2P_US);
	}
}

/* Gradients, parameters and optimizer state. */
static void update_times(const mf_cost *c, const mf_plan *p, opening *o)
{
	const tt_step *st = o->st;
	uint32_t dp = mf_plan_dp(p, c->world), edp = mf_plan_edp(p, c->world);
	mf_term *t;

	if (st->dp_comm > 0) {
		t = term(o, p->sharding == MF_FSDP ? "FSDP gather and scatter" : "gradient and parameter exchange",
			st->dp_comm,
			p->sharding == MF_FSDP
				? "every micro-batch 2 gathers + 1 scatter of dense over dp*cp, experts over edp"
				: "scatter of gradients, gather of parameters; dense over dp*cp, experts over edp",
			"dense=%.4g experts=%.4g dp*cp=%u edp=%u", st->dense, st->experts, dp * p->cp, edp);
		uses(t, MF_C_LINK_RING);
		uses(t, MF_C_NIC);
		uses(t, MF_C_RING_US);
		t = term(o, "hidden gradient and parameter exchange", -st->dp_hidden,
			p->sharding == MF_FSDP ? "all but max(0, t - 0.75 compute) + 0.12 t, each micro-batch"
					       : "all but max(0, t - 0.85 of one micro-batch's pass) + 0.08 t",
			"dp*cp=%u edp=%u", dp * p->cp, edp);
		uses(t, p->sharding == MF_FSDP ? MF_C_HIDE_FSDP : MF_C_HIDE_DP);
		uses(t, p->sharding == MF_FSDP ? MF_C_FSDP_REST : MF_C_DP_REST);
	}
	t = term(o, "optimizer", st->optimizer, "10 bytes a local parameter + 34 a sharded one / (bw * HBM)",
		"dense=%.4g experts=%.4g", st->dense, st->experts);
	uses(t, MF_C_OPT_LOCAL);
	uses(t, MF_C_OPT_SHARD);
	uses(t, MF_C_HBM);
	if (st->offload > 0) {
		t = term(o, "optimizer offload", st->offload,
			"16 bytes a sharded parameter over PCIe + 30 over host memory", "pcie=%g GB/s host=%g GB/s",
			c->in.cluster->pcie_gbps, c->in.cluster->host_memory_gbps);
		uses(t, MF_C_OFFLOAD_PCIE);
		uses(t, MF_C_OFFLOAD_HOST);
	}
}

void tt_explain(const mf_cost *c, const mf_plan *p, const tt_step *st, mf_explain *ex)
{
	opening o = {.st = st, .ex = ex};
	tt_layers again;
	mf_term *t;

	tt_price_layers(c, p, &again, o.kind);
	layer_times(c, p, &o);
	overlaps(c, p, &o);
	pipeline_times(c, p, &o);
	update_times(c, p, &o);
	t = term(&o, "fixed", st->fixed, "data, logging, clipping, synchronization", "a step");
	uses(t, MF_C_STEP_FIXED);
	if (st->tax != 1) {
		t = term(&o, "realization tax", st->step - st->step / st->tax, "throughput / (1 + overhead)",
			"factor=%.6g", st->tax);
		if (p->kernel)
			uses(t, MF_C_TAX_TRAIN);
		if (p->sharding == MF_ZERO1_OFFLOAD && p->overlap)
			uses(t, MF_C_OFFLOAD_OVERLAP);
	}
}
