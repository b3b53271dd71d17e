/*
 * memory_layer.c: what one layer of a rank holds, by the allocation rules of Megatron core 0.18.0. Parameters follow
 * the module constructors; activations what autograd keeps. Symbols: s tokens of a micro-batch on the rank, t the same
 * under sequence parallel, H hidden, q bytes of a saved linear input, R rows the local experts work on, F expert width
 * on the rank, sw 2 for gated activations else 1.
 *
 * Parameter counts leave out the padding of gradient buffers (starts to 64 elements, buckets to the group): under 0.1%.
 */
#include "memory_train.h"

#include <math.h>
#include <string.h>

static bool recomputes(const mf_plan *p, unsigned module)
{
	return p->recompute == MF_RECOMPUTE_SELECTIVE && (p->recompute_modules & module);
}

static uint32_t etp_of(const mf_plan *p)
{
	return p->etp ? p->etp : p->tp;
}

static uint32_t mtp_layers(const mf_cost *c)
{
	return c->in.workload->mtp ? c->in.model->mtp_layers : 0;
}

/* Rows of the embedding on a rank (training/tokenizer: the vocabulary is padded to a multiple times tp). */
static double padded_vocab(const mf_cost *c, const mf_plan *p)
{
	uint32_t multiple = c->in.stack->vocab_multiple ? c->in.stack->vocab_multiple : 128;
	uint64_t step = multiple * (uint64_t)p->tp;

	return (double)((c->in.model->vocab + step - 1) / step * multiple);
}

/* ---- parameters ------------------------------------------------------------------------------------------------ */

/* Transformer Engine caches one dummy gradient a shape, so two linears of one shape cost one. A linear weight of `out` x
 * `in` on this rank: its parameters. */
static double linear(mf_layer_memory *l, unsigned owners, double out, double in)
{
	for (size_t i = 0; i < l->n_shapes; i++)
		if (l->shapes[i].out == out && l->shapes[i].in == in) {
			l->shapes[i].owners |= owners;
			return out * in;
		}
	if (l->n_shapes < MF_MAX_SHAPES)
		l->shapes[l->n_shapes++] = (mf_weight_shape){out, in, owners};
	return out * in;
}

static double attention_params(const mf_model *m, double tp, unsigned owners, mf_layer_memory *l)
{
	double h = m->hidden, n = h;

	if (m->attention == MF_MLA) {
		double qd = m->qk_nope + m->qk_rope;

		if (m->q_lora) {
			n += linear(l, owners, m->q_lora, h) + m->q_lora;
			n += linear(l, owners, m->heads * qd / tp, m->q_lora);
		} else {
			n += linear(l, owners, m->heads * qd / tp, h);
		}
		n += linear(l, owners, m->kv_lora + m->qk_rope, h) + m->kv_lora;
		n += linear(l, owners, m->heads * (double)(m->qk_nope + m->v_dim) / tp, m->kv_lora);
		n += linear(l, owners, h, m->heads * (double)m->v_dim / tp);
	} else {
		double wide = (m->heads * (m->attention_gate ? 2.0 : 1) + 2.0 * m->kv_heads) * m->head_dim / tp;

		n += linear(l, owners, wide, h) + linear(l, owners, h, m->heads * (double)m->head_dim / tp);
		if (m->qkv_bias || m->linear_bias)
			n += wide;
		if (m->linear_bias)
			n += h;
		if (m->qk_norm)
			n += m->qk_norm_whole ? (m->heads + m->kv_heads) * (double)m->head_dim / tp : 2.0 * m->head_dim;
	}
	if (m->index_topk) /* sparse attention's indexer: query, key and head weights, whole on every rank */
		n += linear(l, owners, m->index_heads * (double)m->index_dim, m->q_lora ? m->q_lora : h) +
		     linear(l, owners, m->index_dim, h) + linear(l, owners, m->index_heads, h);
	return n + (m->attention_sinks ? m->heads / tp : 0);
}

/* Mamba-2 (mamba_mixer.py): one projection in, a short convolution, scalars a head, a gated norm, one projection out. */
static double mamba_params(const mf_model *m, double tp, unsigned owners, mf_layer_memory *l)
{
	double h = m->hidden, di = m->mamba_heads * (double)m->mamba_head_dim,
	       gs = 2.0 * m->mamba_groups * m->mamba_state;

	return h + linear(l, owners, (2 * di + gs + m->mamba_heads) / tp, h) + (di + gs) * (m->mamba_conv + 1) / tp +
	       (3.0 * m->mamba_heads + di) / tp + linear(l, owners, h, di / tp);
}

/* Gated delta net: query, key, value and gate by one projection, rates by another. */
static double delta_params(const mf_model *m, double tp, unsigned owners, mf_layer_memory *l)
{
	double h = m->hidden, k = m->delta_k_heads * (double)m->delta_k_dim,
	       v = m->delta_v_heads * (double)m->delta_v_dim;

	return h + linear(l, owners, (2 * k + 2 * v) / tp, h) + linear(l, owners, 2.0 * m->delta_v_heads / tp, h) +
	       (2 * k + v) * m->delta_conv / tp + 2.0 * m->delta_v_heads / tp + m->delta_v_dim +
	       linear(l, owners, h, v / tp);
}

static double dense_ffn_params(const mf_model *m, double tp, unsigned owners, mf_layer_memory *l)
{
	double f = m->ffn / tp, h = m->hidden, sw = m->gated ? 2 : 1;

	return h + linear(l, owners, sw * f, h) + linear(l, owners, h, f) +
	       (m->linear_bias || m->mlp_bias ? sw * f + h : 0);
}

/* Width of what routed experts receive. */
static double expert_width(const mf_model *m)
{
	return m->moe_latent ? m->moe_latent : m->hidden;
}

/* Norm, router and shared experts of a MoE layer; its routed experts on this rank go to *experts. */
static double moe_params(
	const mf_model *m, const mf_plan *p, double etp, unsigned owners, mf_layer_memory *l, double *experts)
{
	double h = m->hidden, sw = m->gated ? 2 : 1, f = m->moe_ffn / etp, wide = expert_width(m),
	       n = h + m->experts * h;
	double one = linear(l, owners, sw * f, wide) + linear(l, owners, wide, f);

	*experts = m->experts / (double)p->ep * (one + (m->linear_bias || m->mlp_bias ? sw * f + wide : 0));
	if (m->moe_latent)
		n += linear(l, owners, wide, h) + linear(l, owners, h, wide);
	if (m->shared_ffn) {
		double g = m->shared_ffn / (double)p->tp;

		n += linear(l, owners, sw * g, h) + linear(l, owners, h, g) + (m->shared_gate ? h : 0);
	}
	return n;
}

static double kind_params(
	const mf_cost *c, const mf_plan *p, mf_layer_kind k, unsigned owners, mf_layer_memory *l, double *experts)
{
	const mf_model *m = c->in.model;
	double tp = p->tp, n = 0;

	*experts = 0;
	switch (k.mixer) {
	case MF_MIX_MAMBA2: n = mamba_params(m, tp, owners, l); break;
	case MF_MIX_DELTA: n = delta_params(m, tp, owners, l); break;
	case MF_MIX_NONE: break;
	default: n = attention_params(m, tp, owners, l);
	}
	if (k.ffn == MF_FFN_DENSE)
		n += dense_ffn_params(m, tp, owners, l);
	else if (k.ffn == MF_FFN_MOE)
		n += moe_params(m, p, l->etp, owners, l, experts);
	return n;
}

static void count_params(const mf_cost *c, const mf_plan *p, mf_layer_memory *l)
{
	const mf_layer_kinds *kinds = mf_train_kinds(c);
	const mf_model *m = c->in.model;
	double vocab = padded_vocab(c, p), h = m->hidden;
	uint32_t mtp = mtp_layers(c), sets = mtp && c->in.stack->mtp_repeated ? 1 : mtp;

	for (uint32_t k = 0; k < kinds->n; k++)
		l->params[k] = kind_params(c, p, kinds->kind[k], 1u << k, l, &l->experts[k]);
	l->embedding = (vocab + m->learned_positions) * h;
	l->head = linear(l, MF_HAS_HEAD, vocab, h);
	l->final_norm = h;
	if (mtp) {
		double experts, layer = kind_params(c, p, kinds->mtp, MF_HAS_MTP, l, &experts);

		l->mtp = sets * (3 * h + linear(l, MF_HAS_MTP, h / p->tp, 2 * h) + layer);
		l->mtp_experts = sets * experts;
	}
}

/* ---- activations ----------------------------------------------------------------------------------------------- */

struct sizes {
	double s, t, q, seq; /* tokens, sequence-parallel tokens, saved bytes, sequence on the rank */
	double micro_batch;
	bool low_precision, unfused;
	double dropout, hidden_dropout;
	bool separate_wgrad, sequential;
};

/* Bytes of a saved linear input: bf16, one byte, one byte with block scales, half a byte with a scale to sixteen. */
static double saved_input_bytes(mf_precision p)
{
	switch (p) {
	case MF_PREC_BF16: return 2;
	case MF_PREC_FP8_TENSOR:
	case MF_PREC_FP8_DELAYED: return 1;
	case MF_PREC_FP8_BLOCK:
	case MF_PREC_MXFP8: return 1.03;
	case MF_PREC_NVFP4: return 0.5625;
	}
	return 2;
}

static struct sizes sizes_of(const mf_cost *c, const mf_plan *p)
{
	const mf_workload *w = c->in.workload;
	struct sizes z;

	z.micro_batch = p->micro_batch ? p->micro_batch : 1;
	z.seq = (double)w->seq / p->cp;
	z.s = z.seq * z.micro_batch;
	z.t = z.s / p->tp;
	z.q = saved_input_bytes(w->precision);
	z.low_precision = w->precision != MF_PREC_BF16;
	z.unfused = c->in.stack->attention == MF_ATTN_UNFUSED;
	z.dropout = c->in.stack->attention_dropout;
	z.hidden_dropout = c->in.stack->hidden_dropout;
	z.separate_wgrad = c->in.stack->separate_wgrad;
	z.sequential = c->in.stack->sequential_experts;
	return z;
}

/* Tokens the most loaded rank receives over the balanced share: from the histogram where there is one, else the bound
 * that the most loaded expert gives. */
static double received_share(const mf_workload *w, const mf_model *m, uint32_t ep)
{
	uint32_t local = ep && m->experts % ep == 0 ? m->experts / ep : 0;
	double total = 0, most = 0;

	if (!local || w->n_load_bins != m->experts)
		return 1 + w->max_violation;
	for (uint32_t r = 0; r < ep; r++) {
		double mine = 0;

		for (uint32_t e = 0; e < local; e++)
			mine += (double)w->load_bins[r * local + e];
		total += mine;
		most = fmax(most, mine);
	}
	return total > 0 ? most * ep / total : 1 + w->max_violation;
}

/* Each sublayer returns what it needs beside kept activations at its forward and backward. */
struct extra {
	double forward, backward;
};

static struct extra attention_act(
	const mf_model *m, const mf_plan *p, const struct sizes *z, bool delayed, double *kept)
{
	double h = m->hidden, heads = (double)m->heads / p->tp, out, wide, again = 0;
	struct extra x;

	kept[MF_ACT_ATTN_NORM_IN] = 2 * z->t * h;
	if (!recomputes(p, MF_RC_LAYERNORM))
		kept[MF_ACT_ATTN_NORM_OUT] = z->q * z->t * h;
	else
		again += z->q * z->t * h;
	if (m->attention == MF_MLA) {
		double qd = m->qk_nope + m->qk_rope;

		kept[MF_ACT_ATTN_Q_COMPRESSED] = (2 + z->q) * z->t * m->q_lora;
		kept[MF_ACT_ATTN_KV_COMPRESSED] = (2 + z->q) * z->t * m->kv_lora + 2 * z->t * (m->qk_rope + m->kv_lora);
		wide = z->s * heads * (2 * qd + m->v_dim);
		out = z->s * heads * m->v_dim;
		if (!recomputes(p, MF_RC_MLA_UP_PROJ))
			kept[MF_ACT_ATTN_QKV] = 2 * wide;
		else
			again += 2 * wide;
	} else {
		double kv = (double)m->kv_heads / p->tp;

		wide = z->s * (heads * (m->attention_gate ? 2 : 1) + 2 * kv) * m->head_dim;
		out = z->s * heads * m->head_dim;
		kept[MF_ACT_ATTN_QKV] = 2 * wide;
		if (m->qk_norm)
			kept[MF_ACT_ATTN_QK_NORM_IN] = 2 * z->s * (heads + kv) * m->head_dim;
	}
	if (z->unfused) {
		double scores = z->micro_batch * heads * z->seq * z->seq;
		bool core = recomputes(p, MF_RC_CORE_ATTN);

		if (!core)
			kept[MF_ACT_ATTN_SCORES] = (z->dropout > 0 ? 5 : 2) * scores;
		x.forward = 2 * scores * (core ? 3 : 1);
		x.backward = (core ? 6 : 4) * scores + 2 * out;
	} else {
		if (!recomputes(p, MF_RC_CORE_ATTN))
			kept[MF_ACT_ATTN_LSE] = 4 * z->s * heads;
		x.forward = 0;
		x.backward = 2 * wide + 2 * out;
	}
	kept[MF_ACT_ATTN_DROPOUT] = z->hidden_dropout > 0 ? z->t * h : 0;
	kept[MF_ACT_ATTN_CORE_OUT] = (2 + (z->low_precision ? z->q : 0)) * out;
	/* What is recomputed must exist again while its layer runs backward; split wgrad keeps gradients of outputs. */
	x.backward += again + (delayed ? 2 * wide + 2 * z->t * h : 0);
	return x;
}

/* What a state-space or linear-attention mixer keeps is not read from its kernels: the size of what passes through. */
static struct extra mamba_act(const mf_model *m, const mf_plan *p, const struct sizes *z, double *kept)
{
	double h = m->hidden, heads = (double)m->mamba_heads / p->tp, di = heads * m->mamba_head_dim,
	       gs = 2.0 * m->mamba_groups * m->mamba_state / p->tp;
	bool norm_again = recomputes(p, MF_RC_LAYERNORM);

	kept[MF_ACT_MAMBA_NORM_IN] = 2 * z->t * h;
	kept[MF_ACT_MAMBA_NORM_OUT] = norm_again ? 0 : z->q * z->t * h;
	kept[MF_ACT_MAMBA_IN_PROJ] = 2 * z->s * (2 * di + gs + heads);
	kept[MF_ACT_MAMBA_SCAN] = 4 * z->s * di;
	kept[MF_ACT_MAMBA_NORM2] = z->q * z->s * di;
	return (struct extra){2 * z->s * (di + gs),
		2 * z->s * (2 * di + gs + heads) + 4 * z->s * di + (norm_again ? z->q * z->t * h : 0)};
}

static struct extra delta_act(const mf_model *m, const mf_plan *p, const struct sizes *z, double *kept)
{
	double h = m->hidden, k = (double)m->delta_k_heads * m->delta_k_dim / p->tp,
	       v = (double)m->delta_v_heads * m->delta_v_dim / p->tp, rates = 2.0 * m->delta_v_heads / p->tp;
	bool norm_again = recomputes(p, MF_RC_LAYERNORM);

	kept[MF_ACT_DELTA_NORM_IN] = 2 * z->t * h;
	kept[MF_ACT_DELTA_NORM_OUT] = norm_again ? 0 : z->q * z->t * h;
	kept[MF_ACT_DELTA_IN_PROJ] = 2 * z->s * (2 * k + 2 * v + rates);
	kept[MF_ACT_DELTA_CONV] = 2 * z->s * (2 * k + v);
	kept[MF_ACT_DELTA_OUT] = (4 + z->q) * z->s * v;
	return (struct extra){2 * z->s * (2 * k + v),
		2 * z->s * (2 * k + 2 * v + rates) + 4 * z->s * v + (norm_again ? z->q * z->t * h : 0)};
}

static struct extra dense_act(const mf_model *m, const mf_plan *p, const struct sizes *z, double *kept)
{
	double h = m->hidden, f = (double)m->ffn / p->tp, sw = m->gated ? 2 : 1;
	bool norm_again = recomputes(p, MF_RC_LAYERNORM);

	kept[MF_ACT_MLP_NORM_IN] = 2 * z->t * h;
	if (recomputes(p, MF_RC_MLP)) {
		kept[MF_ACT_MLP_NORM_OUT] = norm_again ? 0 : 2 * z->t * h;
		return (struct extra){2 * z->s * f * (sw + 1), 2 * z->s * f * (2 * sw + 2)};
	}
	kept[MF_ACT_MLP_NORM_OUT] = norm_again ? 0 : z->q * z->t * h;
	kept[MF_ACT_MLP_FC1_OUT] = 2 * z->s * f * sw;
	kept[MF_ACT_MLP_ACT_OUT] = z->q * z->s * f;
	return (struct extra){2 * z->s * f, 2 * z->s * f * (1 + sw) + (norm_again ? z->q * z->t * h : 0)};
}

static struct extra moe_act(
	const mf_model *m, const mf_plan *p, const struct sizes *z, double share, bool delayed, double *kept)
{
	uint32_t etp = etp_of(p);
	double h = m->hidden, wide = expert_width(m), sw = m->gated ? 2 : 1, f = (double)m->moe_ffn / etp,
	       rows = z->t * m->topk * etp * share;
	double dispatched = 2 * rows * wide, fc1 = 2 * rows * f * sw, act = 2 * rows * f, copies, map, again = 0;
	/* Weight gradients of the experts at work, where they are not added into the buffer by their GEMM. */
	double wgrad = z->separate_wgrad ? 2 * (z->sequential ? 1 : (double)m->experts / p->ep) * sw * f * wide : 0;
	struct extra x;

	kept[MF_ACT_MOE_NORM_IN] = 2 * z->t * h;
	if (!recomputes(p, MF_RC_LAYERNORM))
		kept[MF_ACT_MOE_NORM_OUT] = 2 * z->t * h;
	else
		again += 2 * z->t * h;
	if (p->dispatcher == MF_DISP_ALLGATHER) {
		double group = z->t * p->ep * etp; /* every member holds the whole group's tokens and map */

		copies = 2 * group * wide;
		map = 5 * group * m->experts;
	} else {
		copies = 2 * z->t * m->topk * wide;
		map = 5 * z->t * m->experts;
	}
	if (recomputes(p, MF_RC_MOE)) {
		x.forward = dispatched + fc1 + act + copies;
		x.backward = x.forward + fmax(fc1 + act, fc1 + dispatched) + again + wgrad;
		return x;
	}
	kept[MF_ACT_MOE_ROUTER] = 13 * z->t * m->experts + map;
	kept[MF_ACT_MOE_LATENT] = m->moe_latent ? 2 * z->t * wide : 0;
	kept[MF_ACT_MOE_DISPATCHED] = dispatched * z->q / 2;
	kept[MF_ACT_MOE_FC1_OUT] = fc1;
	if (!recomputes(p, MF_RC_MOE_ACT)) {
		kept[MF_ACT_MOE_ACT_OUT] = act * z->q / 2;
		kept[MF_ACT_MOE_ACT_UNWEIGHTED] = m->gated ? 0 : act;
	} else {
		again += act;
	}
	kept[MF_ACT_MOE_PROBS] = 4 * rows;
	if (m->shared_ffn) {
		double shared = (2 * sw + z->q) * z->s * m->shared_ffn / p->tp;

		if (!recomputes(p, MF_RC_SHARED_EXPERTS)) {
			kept[MF_ACT_MOE_SHARED] = shared;
			kept[MF_ACT_MOE_SHARED_IN] = z->low_precision ? z->q * z->t * h : 0;
		} else {
			again += shared;
		}
	}
	x.forward = copies + dispatched;
	x.backward = fmax(fmax(copies + dispatched, dispatched + act), fmax(fc1 + act, fc1 + dispatched)) +
		     4 * z->t * h + again + wgrad + (delayed ? fc1 + dispatched : 0);
	return x;
}

/* Moves what fine-grained offloading takes to the host out of `kept`; returns its bytes. */
static double offload(unsigned modules, double *kept)
{
	static const struct {
		unsigned module;
		mf_act lines[3];
	} takes[] = {
		{MF_OFFLOAD_ATTN_NORM, {MF_ACT_ATTN_NORM_IN, MF_ACT_COUNT, MF_ACT_COUNT}},
		{MF_OFFLOAD_QKV_LINEAR, {MF_ACT_ATTN_NORM_OUT, MF_ACT_ATTN_Q_COMPRESSED, MF_ACT_ATTN_KV_COMPRESSED}},
		{MF_OFFLOAD_CORE_ATTN, {MF_ACT_ATTN_QKV, MF_ACT_ATTN_SCORES, MF_ACT_ATTN_LSE}},
		{MF_OFFLOAD_ATTN_PROJ, {MF_ACT_ATTN_CORE_OUT, MF_ACT_COUNT, MF_ACT_COUNT}},
		{MF_OFFLOAD_MLP_NORM, {MF_ACT_MLP_NORM_IN, MF_ACT_MOE_NORM_IN, MF_ACT_COUNT}},
		{MF_OFFLOAD_EXPERT_FC1, {MF_ACT_MOE_DISPATCHED, MF_ACT_COUNT, MF_ACT_COUNT}},
		{MF_OFFLOAD_MOE_ACT, {MF_ACT_MOE_FC1_OUT, MF_ACT_COUNT, MF_ACT_COUNT}},
	};
	double gone = 0;

	for (size_t i = 0; i < MF_COUNT(takes); i++)
		for (size_t k = 0; (modules & takes[i].module) && k < 3; k++)
			if (takes[i].lines[k] != MF_ACT_COUNT) {
				gone += kept[takes[i].lines[k]];
				kept[takes[i].lines[k]] = 0;
			}
	return gone;
}

void mf_layer_act_fill(const mf_cost *c, const mf_plan *p, mf_layer_kind kind, mf_layer_act *out)
{
	const mf_model *m = c->in.model;
	struct sizes z = sizes_of(c, p);
	bool delayed = p->overlap && c->in.stack->delay_wgrad;
	struct extra mixer = {0, 0}, ffn = {0, 0};

	memset(out, 0, sizeof *out);
	switch (kind.mixer) {
	case MF_MIX_MAMBA2: mixer = mamba_act(m, p, &z, out->kept); break;
	case MF_MIX_DELTA: mixer = delta_act(m, p, &z, out->kept); break;
	case MF_MIX_NONE: break;
	default: mixer = attention_act(m, p, &z, delayed, out->kept);
	}
	if (kind.ffn == MF_FFN_MOE)
		ffn = moe_act(m, p, &z, received_share(c->in.workload, m, p->ep), delayed, out->kept);
	else if (kind.ffn == MF_FFN_DENSE)
		ffn = dense_act(m, p, &z, out->kept);
	if (kind.ffn != MF_FFN_NONE)
		out->kept[MF_ACT_FFN_DROPOUT] = z.hidden_dropout > 0 ? z.t * m->hidden : 0;
	out->offloaded = offload(c->in.stack->offload_activations, out->kept);
	for (int i = 0; i < MF_ACT_COUNT; i++) {
		out->kept[i] = (double)(int64_t)out->kept[i];
		out->sum += out->kept[i];
	}
	/* Of what waits on the host, the layer about to run backward and the one on its way back are here
	 * (fine_grained_activation_offload.py:964-990). */
	out->forward_extra = (double)(int64_t)(fmax(mixer.forward, ffn.forward) + 2 * out->offloaded);
	out->backward_extra = (double)(int64_t)(fmax(mixer.backward, ffn.backward) + 2 * out->offloaded);
}

/* Bytes a logit at the loss, and those an MTP head keeps meanwhile (cross_entropy.py:25-70, fused_cross_entropy.py:
 * compiling turns the in-place steps into copies; Transformer Engine writes the gradient over the logits). */
static void loss_bytes(mf_loss loss, double *main_head, double *mtp_head)
{
	*main_head = loss == MF_LOSS_TE ? 2 : loss == MF_LOSS_NATIVE ? 10 : 6;
	*mtp_head = loss == MF_LOSS_TE ? 2 : 4;
}

void mf_layer_memory_fill(const mf_cost *c, const mf_plan *p, mf_layer_memory *out)
{
	const mf_layer_kinds *kinds = mf_train_kinds(c);
	const mf_model *m = c->in.model;
	struct sizes z = sizes_of(c, p);
	uint32_t mtp = mtp_layers(c), span = p->recompute_layers ? p->recompute_layers : 1;
	double th = z.t * m->hidden, vocab = padded_vocab(c, p), main_head, mtp_head;
	mf_layer_act a;

	memset(out, 0, sizeof *out);
	out->etp = etp_of(p);
	count_params(c, p, out);
	for (uint32_t k = 0; k < kinds->n; k++) {
		mf_layer_act_fill(c, p, kinds->kind[k], &a);
		out->sum[k] = a.sum;
		out->forward_extra[k] = a.forward_extra;
		out->backward_extra[k] = a.backward_extra;
		if (p->overlap && p->recompute != MF_RECOMPUTE_FULL) {
			out->forward_extra[k] += a.sum;
			out->backward_extra[k] += a.sum;
		}
		out->loss_window = fmax(out->loss_window, (double)(int64_t)(2 * a.offloaded));
		if (p->recompute == MF_RECOMPUTE_FULL) {
			/* Only the checkpoint stays; backward pays its layers again. */
			out->backward_extra[k] += span * a.sum;
			out->sum[k] = 0;
			out->checkpoint = (double)(int64_t)(2 * th);
		}
	}
	if (mtp) {
		mf_layer_act_fill(c, p, kinds->mtp, &a);
		out->mtp_act = (double)(int64_t)(mtp * (16 * th + a.sum));
	}
	out->ids = (double)(int64_t)(16 * z.s + (z.hidden_dropout > 0 ? th : 0));
	out->final_act = (double)(int64_t)(4 * th);
	loss_bytes(c->in.stack->loss, &main_head, &mtp_head);
	out->logits = (double)(int64_t)(main_head * z.s * vocab);
	out->logits_mtp = (double)(int64_t)(mtp * mtp_head * z.s * vocab);
	out->head_wgrad = z.separate_wgrad ? 2 * vocab * m->hidden : 0;
	out->published_act =
		(double)(int64_t)(p->recompute == MF_RECOMPUTE_FULL ? 2 * th : mf_k(c, MF_C_MEM_PUBLISHED_ACT) * th);
	out->gather = 2 * z.s * m->hidden;
	out->peer = 2 * th;
}
