/*
 * memory_layer.c: what one layer of a rank holds, by the allocation rules of Megatron core 0.18.0. Parameters follow
 * the module constructors; activations what autograd keeps. Symbols as in the code: s tokens of a micro-batch on the rank,
 * t the same under sequence parallel, q bytes of a saved linear input.
 */
#include "memory_train.h"

#include <math.h>

/* Bytes of a saved linear input: bf16, one byte, or one byte with block scales. */
static double saved_input_bytes(mf_precision p)
{
	switch (p) {
	case MF_PREC_BF16: return 2;
	case MF_PREC_FP8_TENSOR:
	case MF_PREC_FP8_DELAYED: return 1;
	case MF_PREC_FP8_BLOCK:
	case MF_PREC_MXFP8:
	case MF_PREC_NVFP4: return 1.03;
	}
	return 2;
}

static bool recomputes(const mf_plan *p, unsigned module)
{
	return p->recompute == MF_RECOMPUTE_SELECTIVE && (p->recompute_modules & module);
}

/* ---- parameters ---------------------------------------------------------------------------------------------------- */

struct shapes {
	uint64_t seen[24];
	size_t n;
	double elements;
};

/* A linear weight of `out` x `in` on this rank; its shape is remembered for the cached dummy gradients. */
static double linear(struct shapes *s, double out, double in)
{
	uint64_t key = (uint64_t)out << 32 ^ (uint64_t)in;
	size_t i;

	for (i = 0; i < s->n && s->seen[i] != key; i++)
		;
	if (i == s->n && s->n < MF_COUNT(s->seen)) {
		s->seen[s->n++] = key;
		s->elements += out * in;
	}
	return out * in;
}

static double attention_params(const mf_model *m, double tp, struct shapes *s)
{
	double h = m->hidden, n = h;

	if (m->attention == MF_MLA) {
		double qd = m->qk_nope + m->qk_rope;

		if (m->q_lora) {
			n += linear(s, m->q_lora, h) + m->q_lora;
			n += linear(s, m->heads * qd / tp, m->q_lora);
		} else {
			n += linear(s, m->heads * qd / tp, h);
		}
		n += linear(s, m->kv_lora + m->qk_rope, h) + m->kv_lora;
		n += linear(s, m->heads * (m->qk_nope + m->v_dim) / tp, m->kv_lora);
		return n + linear(s, h, m->heads * (double)m->v_dim / tp);
	}
	{
		double kv = fmax(m->kv_heads, tp), wide = (m->heads + 2 * kv) * m->head_dim / tp;

		n += linear(s, wide, h) + linear(s, h, m->heads * (double)m->head_dim / tp);
		n += (m->qkv_bias || m->linear_bias ? wide : 0) + (m->linear_bias ? h : 0);
		return n + (m->qk_norm ? 2.0 * m->head_dim : 0);
	}
}

static double dense_ffn_params(const mf_model *m, double tp, struct shapes *s)
{
	double f = m->ffn / tp, h = m->hidden, up = m->gated ? 2 : 1;

	return h + linear(s, up * f, h) + linear(s, h, f) + (m->linear_bias ? up * f + h : 0);
}

/* Norm, router and shared experts of a MoE layer; routed experts go to *experts. */
static double moe_params(const mf_model *m, double tp, double etp, double ep, struct shapes *s, double *experts)
{
	double h = m->hidden, up = m->gated ? 2 : 1, f = m->moe_ffn / etp, n = h + m->experts * h;

	*experts = m->experts / ep * (linear(s, up * f, h) + linear(s, h, f) + (m->mlp_bias ? up * f + h : 0));
	if (m->shared_ffn)
		n += linear(s, up * m->shared_ffn / tp, h) + linear(s, h, m->shared_ffn / tp) + (m->shared_gate ? h : 0);
	return n;
}

static void count_params(const mf_model *m, const mf_plan *p, mf_layer_memory *l, bool mtp)
{
	double tp = p->tp, vocab = ceil(m->vocab / (128.0 * tp)) * 128, h = m->hidden, attention, experts = 0;
	struct shapes s = {.n = 0};

	attention = attention_params(m, tp, &s);
	if (m->moe_layers < m->layers)
		l->dense[0] = attention + dense_ffn_params(m, tp, &s);
	if (m->moe_layers) {
		l->dense[1] = attention + moe_params(m, tp, l->etp, p->ep, &s, &experts);
		/* At ep = 1 Megatron treats routed experts as dense parameters. */
		if (p->ep > 1)
			l->expert[1] = experts;
		else
			l->dense[1] += experts;
	}
	l->embedding = vocab * h;
	l->head = h + linear(&s, vocab, h);
	if (mtp && m->mtp_layers) {
		int moe = m->layers ? m->moe_layer[m->layers - 1] : 0;

		l->mtp_dense = m->mtp_layers * (3 * h + linear(&s, h / tp, 2 * h) + l->dense[moe]);
		l->mtp_expert = m->mtp_layers * l->expert[moe];
	}
	l->shapes = s.elements;
}

/* ---- activations --------------------------------------------------------------------------------------------------- */

struct sizes {
	double s, t, q, seq;    /* tokens, sequence-parallel tokens, saved byte, sequence on the rank */
	bool low_precision, unfused;
	double dropout;
};

static void attention_act(const mf_model *m, const mf_plan *p, const struct sizes *z, mf_layer_act *a, double *fx, double *bx)
{
	double h = m->hidden, tp = p->tp, heads = m->heads / tp, out, wide;

	a->kept[ACT_NORM_IN] += 2 * z->t * h;
	if (!recomputes(p, MF_RC_LAYERNORM))
		a->kept[ACT_NORM_OUT] += z->q * z->t * h;
	if (m->attention == MF_MLA) {
		double qd = m->qk_nope + m->qk_rope;

		if (m->q_lora)
			a->kept[ACT_COMPRESSED] += (2 + z->q) * z->t * m->q_lora;
		a->kept[ACT_COMPRESSED] += (2 + z->q) * z->t * m->kv_lora + 2 * z->t * (m->qk_rope + m->kv_lora);
		wide = z->s * heads * (2 * qd + m->v_dim);
		out = z->s * heads * m->v_dim;
		if (!recomputes(p, MF_RC_MLA_UP_PROJ))
			a->kept[ACT_QKV] += 2 * wide;
	} else {
		double kv = fmax(m->kv_heads / tp, 1);

		wide = z->s * (heads + 2 * kv) * m->head_dim;
		out = z->s * heads * m->head_dim;
		a->kept[ACT_QKV] += 2 * wide + (m->qk_norm ? 2 * z->s * (heads + kv) * m->head_dim : 0);
	}
	if (z->unfused) {
		double scores = p->micro_batch * heads * z->seq * z->seq;
		bool again = recomputes(p, MF_RC_CORE_ATTN);

		/* Softmax output; with dropout also its mask and the dropped copy. */
		if (!again)
			a->kept[ACT_SCORES] += (z->dropout > 0 ? 5 : 2) * scores;
		*fx = 2 * scores * (again ? 3 : 1);
		*bx = (again ? 6 : 4) * scores + 2 * out;
	} else {
		if (!recomputes(p, MF_RC_CORE_ATTN))
			a->kept[ACT_SCORES] += 4 * z->s * heads;
		*fx = 0;
		*bx = 2 * wide + 2 * out;
	}
	a->kept[ACT_CORE_OUT] += (2 + (z->low_precision ? z->q : 0)) * out;
}

static void dense_act(const mf_model *m, const mf_plan *p, const struct sizes *z, mf_layer_act *a, double *fx, double *bx)
{
	double h = m->hidden, f = m->ffn / (double)p->tp, up = m->gated ? 2 : 1;
	bool norm_again = recomputes(p, MF_RC_LAYERNORM);

	a->kept[ACT_NORM_IN] += 2 * z->t * h;
	if (recomputes(p, MF_RC_MLP)) {
		a->kept[ACT_NORM_OUT] += norm_again ? 0 : 2 * z->t * h;
		*fx = 2 * z->s * f * (up + 1);
		*bx = 2 * z->s * f * (2 * up + 2);
		return;
	}
	if (!norm_again)
		a->kept[ACT_NORM_OUT] += z->q * z->t * h;
	a->kept[ACT_FC1] += 2 * z->s * f * up;
	a->kept[ACT_ACT] += z->q * z->s * f;
	*fx = 2 * z->s * f;
	*bx = 2 * z->s * f * (1 + up);
}

static double max4(double a, double b, double c, double d)
{
	return fmax(fmax(a, b), fmax(c, d));
}

static void moe_act(const mf_model *m, const mf_plan *p, const struct sizes *z, double etp, double skew, mf_layer_act *a,
	double *fx, double *bx)
{
	double h = m->hidden, up = m->gated ? 2 : 1, f = m->moe_ffn / etp, rows = z->t * m->topk * etp * skew;
	double dispatched = 2 * rows * h, fc1 = 2 * rows * f * up, act = 2 * rows * f, copies, map;

	a->kept[ACT_NORM_IN] += 2 * z->t * h;
	if (!recomputes(p, MF_RC_LAYERNORM))
		a->kept[ACT_NORM_OUT] += 2 * z->t * h;
	if (p->dispatcher == MF_DISP_ALLGATHER) {
		/* Every member holds the tokens and the routing map of the whole group. */
		double group = z->t * p->ep * etp;

		copies = 2 * group * h;
		map = 5 * group * m->experts;
	} else {
		copies = 2 * z->t * m->topk * h;
		map = 5 * z->t * m->experts;
	}
	if (recomputes(p, MF_RC_MOE)) {
		*fx = dispatched + fc1 + act + copies;
		*bx = *fx + fmax(fc1 + act, fc1 + dispatched);
		return;
	}
	a->kept[ACT_ROUTER] += 13 * z->t * m->experts + map;
	a->kept[ACT_DISPATCHED] += dispatched * z->q / 2;
	a->kept[ACT_FC1] += fc1;
	if (!recomputes(p, MF_RC_MOE_ACT))
		a->kept[ACT_ACT] += act * z->q / 2 + (m->gated ? 0 : act);
	a->kept[ACT_PROBS] += 4 * rows;
	if (m->shared_ffn && !recomputes(p, MF_RC_SHARED_EXPERTS)) {
		a->kept[ACT_SHARED] += (2 * up + z->q) * z->s * m->shared_ffn / p->tp;
		if (z->low_precision)
			a->kept[ACT_SHARED] += z->q * z->t * h;
	}
	*fx = copies + dispatched;
	*bx = max4(copies + dispatched, dispatched + act, fc1 + act, fc1 + dispatched) + 4 * z->t * h;
	if (recomputes(p, MF_RC_MOE_ACT))
		*bx += act;
}

void mf_layer_memory_fill(const mf_cost *c, const mf_plan *p, mf_layer_memory *out)
{
	const mf_model *m = c->in.model;
	const mf_workload *w = c->in.workload;
	const mf_stack *stack = c->in.stack;
	struct sizes z;
	double vocab = ceil(m->vocab / (128.0 * p->tp)) * 128;

	out->etp = p->etp ? p->etp : p->tp;
	z.seq = (double)w->seq / p->cp;
	z.s = z.seq * p->micro_batch;
	z.t = z.s / p->tp;
	z.q = saved_input_bytes(w->precision);
	z.low_precision = w->precision != MF_PREC_BF16;
	z.unfused = stack->attention == MF_ATTN_UNFUSED;
	z.dropout = stack->attention_dropout;
	out->tokens = z.s;
	out->sp_tokens = z.t;
	out->logits = z.s * vocab;
	count_params(m, p, out, w->mtp);
	for (int moe = 0; moe < 2; moe++) {
		mf_layer_act *a = &out->act[moe];
		double f1 = 0, b1 = 0, f2 = 0, b2 = 0;

		if (moe ? !m->moe_layers : m->moe_layers == m->layers)
			continue;
		attention_act(m, p, &z, a, &f1, &b1);
		if (moe)
			moe_act(m, p, &z, out->etp, 1 + w->max_violation, a, &f2, &b2);
		else
			dense_act(m, p, &z, a, &f2, &b2);
		for (int i = 0; i < ACT_COUNT; i++)
			a->sum += a->kept[i];
		a->forward_extra = fmax(f1, f2);
		a->backward_extra = fmax(b1, b2);
	}
}
