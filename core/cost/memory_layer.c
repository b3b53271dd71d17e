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

static double padded_vocab(const mf_model *m, const mf_plan *p)
{
	uint64_t step = 128u * (uint64_t)p->tp;

	return (double)((m->vocab + step - 1) / step * 128u);
}

/* ---- parameters ------------------------------------------------------------------------------------------------ */

/* Distinct weight shapes and who has them. Transformer Engine caches one dummy gradient a shape, so two linears of one
 * shape cost one. */
struct shapes {
	struct {
		double out, in;
		unsigned owners;
	} item[20];
	size_t n;
};

/* A linear weight of `out` x `in` on this rank. */
static double linear(struct shapes *s, unsigned owners, double out, double in)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->item[i].out == out && s->item[i].in == in) {
			s->item[i].owners |= owners;
			return out * in;
		}
	if (s->n < MF_COUNT(s->item)) {
		s->item[s->n].out = out;
		s->item[s->n].in = in;
		s->item[s->n++].owners = owners;
	}
	return out * in;
}

static double attention_params(const mf_model *m, double tp, struct shapes *s)
{
	const unsigned all = MF_HAS_DENSE | MF_HAS_MOE | MF_HAS_MTP;
	double h = m->hidden, n = h;

	if (m->attention == MF_MLA) {
		double qd = m->qk_nope + m->qk_rope;

		if (m->q_lora) {
			n += linear(s, all, m->q_lora, h) + m->q_lora;
			n += linear(s, all, m->heads * qd / tp, m->q_lora);
		} else {
			n += linear(s, all, m->heads * qd / tp, h);
		}
		n += linear(s, all, m->kv_lora + m->qk_rope, h) + m->kv_lora;
		n += linear(s, all, m->heads * (double)(m->qk_nope + m->v_dim) / tp, m->kv_lora);
		n += linear(s, all, h, m->heads * (double)m->v_dim / tp);
	} else {
		double wide = (m->heads + 2.0 * m->kv_heads) * m->head_dim / tp;

		n += linear(s, all, wide, h) + linear(s, all, h, m->heads * (double)m->head_dim / tp);
		if (m->qkv_bias || m->linear_bias)
			n += wide;
		if (m->linear_bias)
			n += h;
		if (m->qk_norm)
			n += m->qk_norm_whole ? (m->heads + m->kv_heads) * (double)m->head_dim / tp : 2.0 * m->head_dim;
	}
	return n + (m->attention_sinks ? m->heads / tp : 0);
}

static double dense_ffn_params(const mf_model *m, double tp, unsigned owners, struct shapes *s)
{
	double f = m->ffn / tp, h = m->hidden, sw = m->gated ? 2 : 1;

	return h + linear(s, owners, sw * f, h) + linear(s, owners, h, f) +
	       (m->linear_bias || m->mlp_bias ? sw * f + h : 0);
}

/* Norm, router and shared experts of a MoE layer; its routed experts on this rank go to *experts. */
static double moe_params(
	const mf_model *m, double tp, double etp, double ep, unsigned owners, struct shapes *s, double *experts)
{
	double h = m->hidden, sw = m->gated ? 2 : 1, f = m->moe_ffn / etp, n = h + m->experts * h;
	double one = linear(s, owners, sw * f, h) + linear(s, owners, h, f);

	*experts = m->experts / ep * (one + (m->linear_bias || m->mlp_bias ? sw * f + h : 0));
	if (m->shared_ffn) {
		double g = m->shared_ffn / tp;

		n += linear(s, owners, sw * g, h) + linear(s, owners, h, g) + (m->shared_gate ? h : 0);
	}
	return n;
}

static void count_params(const mf_cost *c, const mf_plan *p, mf_layer_memory *l)
{
	const mf_model *m = c->in.model;
	double tp = p->tp, vocab = padded_vocab(m, p), h = m->hidden, attention;
	uint32_t mtp = mtp_layers(c);
	bool last_moe = m->layers && m->moe_layer[m->layers - 1];
	struct shapes s = {.n = 0};

	attention = attention_params(m, tp, &s);
	if (m->moe_layers < m->layers)
		l->params[0] = attention + dense_ffn_params(m, tp, MF_HAS_DENSE | (last_moe ? 0u : MF_HAS_MTP), &s);
	if (m->moe_layers)
		l->params[1] = attention + moe_params(m, tp, l->etp, p->ep, MF_HAS_MOE | (last_moe ? MF_HAS_MTP : 0u),
						   &s, &l->experts[1]);
	l->embedding = vocab * h;
	l->head = linear(&s, MF_HAS_HEAD, vocab, h);
	l->final_norm = h;
	if (mtp) {
		l->mtp = mtp * (3 * h + linear(&s, MF_HAS_MTP, h / tp, 2 * h) + l->params[last_moe]);
		l->mtp_experts = mtp * l->experts[last_moe];
	}
	for (unsigned has = 0; has < MF_HAS_ALL; has++)
		for (size_t i = 0; i < s.n; i++)
			if (s.item[i].owners & has)
				l->shape_bytes[has] += 2 * s.item[i].out * s.item[i].in;
}

/* ---- activations ----------------------------------------------------------------------------------------------- */

struct sizes {
	double s, t, q, seq; /* tokens, sequence-parallel tokens, saved bytes, sequence on the rank */
	double micro_batch;
	bool low_precision, unfused;
	double dropout;
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

		wide = z->s * (heads + 2 * kv) * m->head_dim;
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
	kept[MF_ACT_ATTN_CORE_OUT] = (2 + (z->low_precision ? z->q : 0)) * out;
	/* What is recomputed must exist again while its layer runs backward; split wgrad keeps gradients of outputs. */
	x.backward += again + (delayed ? 2 * wide + 2 * z->t * h : 0);
	return x;
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
	double h = m->hidden, sw = m->gated ? 2 : 1, f = (double)m->moe_ffn / etp, rows = z->t * m->topk * etp * share;
	double dispatched = 2 * rows * h, fc1 = 2 * rows * f * sw, act = 2 * rows * f, copies, map, again = 0;
	struct extra x;

	kept[MF_ACT_MOE_NORM_IN] = 2 * z->t * h;
	if (!recomputes(p, MF_RC_LAYERNORM))
		kept[MF_ACT_MOE_NORM_OUT] = 2 * z->t * h;
	else
		again += 2 * z->t * h;
	if (p->dispatcher == MF_DISP_ALLGATHER) {
		double group = z->t * p->ep * etp; /* every member holds the whole group's tokens and map */

		copies = 2 * group * h;
		map = 5 * group * m->experts;
	} else {
		copies = 2 * z->t * m->topk * h;
		map = 5 * z->t * m->experts;
	}
	if (recomputes(p, MF_RC_MOE)) {
		x.forward = dispatched + fc1 + act + copies;
		x.backward = x.forward + fmax(fc1 + act, fc1 + dispatched) + again;
		return x;
	}
	kept[MF_ACT_MOE_ROUTER] = 13 * z->t * m->experts + map;
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
		     4 * z->t * h + again + (delayed ? fc1 + dispatched : 0);
	return x;
}

void mf_layer_act_fill(const mf_cost *c, const mf_plan *p, bool moe, mf_layer_act *out)
{
	const mf_model *m = c->in.model;
	struct sizes z = sizes_of(c, p);
	bool delayed = p->overlap && c->in.stack->delay_wgrad;
	struct extra attention, ffn;

	memset(out, 0, sizeof *out);
	attention = attention_act(m, p, &z, delayed, out->kept);
	ffn = moe ? moe_act(m, p, &z, received_share(c->in.workload, m, p->ep), delayed, out->kept)
		  : dense_act(m, p, &z, out->kept);
	for (int i = 0; i < MF_ACT_COUNT; i++) {
		out->kept[i] = (double)(int64_t)out->kept[i];
		out->sum += out->kept[i];
	}
	out->forward_extra = (double)(int64_t)fmax(attention.forward, ffn.forward);
	out->backward_extra = (double)(int64_t)fmax(attention.backward, ffn.backward);
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
	const mf_model *m = c->in.model;
	struct sizes z = sizes_of(c, p);
	uint32_t mtp = mtp_layers(c), span = p->recompute_layers ? p->recompute_layers : 1;
	double th = z.t * m->hidden, main_head, mtp_head;
	mf_layer_act a;

	memset(out, 0, sizeof *out);
	out->etp = etp_of(p);
	count_params(c, p, out);
	for (int moe = 0; moe < 2; moe++) {
		if (moe ? !m->moe_layers : m->moe_layers == m->layers)
			continue;
		mf_layer_act_fill(c, p, moe, &a);
		out->sum[moe] = a.sum;
		out->forward_extra[moe] = a.forward_extra;
		out->backward_extra[moe] = a.backward_extra;
		if (mtp && m->moe_layer[m->layers - 1] == moe)
			out->mtp_act = (double)(int64_t)(mtp * (16 * th + a.sum));
		if (p->recompute == MF_RECOMPUTE_FULL) {
			/* Only the checkpoint stays; backward pays its layers again. */
			out->backward_extra[moe] += span * a.sum;
			out->sum[moe] = 0;
			out->checkpoint = (double)(int64_t)(2 * th);
		}
	}
	out->ids = (double)(int64_t)(16 * z.s);
	out->final_act = (double)(int64_t)(4 * th);
	loss_bytes(c->in.stack->loss, &main_head, &mtp_head);
	out->logits = (double)(int64_t)(main_head * z.s * padded_vocab(m, p));
	out->logits_mtp = (double)(int64_t)(mtp * mtp_head * z.s * padded_vocab(m, p));
	out->published_act =
		(double)(int64_t)(p->recompute == MF_RECOMPUTE_FULL ? 2 * th : mf_k(c, MF_C_MEM_PUBLISHED_ACT) * th);
	out->gather = 2 * z.s * m->hidden;
	out->peer = 2 * th;
}
