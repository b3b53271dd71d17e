/*
 * time_train_layer.c: one layer under one plan, from first principles with a curve per operation. Every formula is the
 * closed form that 232 published Megatron runs were fitted with (median error 5 %); where a rule is assumed instead,
 * its constant says so in consts_train.def.
 */
#include "autotune.h"
#include "time_train_internal.h"

#include <math.h>
#include <string.h>

#define TILE 128.0
#define TERA 1e12
#define MICRO 1e-6
#define MILLI 1e-3

/* What the terms of a layer read all the time. */
typedef struct ctx {
	const mf_cost *c;
	const mf_train_time *s;
	const mf_model *m;
	const mf_plan *p;
	double tp, cp, ep, etp;
	double tokens, tokens_sp;   /* of a micro-batch on one rank; under sequence parallelism */
	double local_experts, rows; /* rows a rank's experts compute, balanced */
	double skew;                /* load of the straggler's experts over the mean */
	bool low;                   /* linears run in low precision */
} ctx;

/* ---- operations ----------------------------------------------------------------------------------------------------
 */

typedef enum gemm_kind { GEMM_FORWARD, GEMM_DGRAD, GEMM_WGRAD } gemm_kind;

/*
 * m x n x k split over `groups` experts. Time is whole waves of 128x128 tiles below eight waves and a smooth count
 * above (kernels balance the tail there), each tile k + k0 deep; or the bytes, whichever is slower.
 */
static double gemm(const ctx *x, double m, double n, double k, bool low, gemm_kind kind, double groups)
{
	const mf_cluster *cl = x->c->in.cluster;
	mf_dtype t = low ? x->s->dtype : MF_BF16;
	double e, k0, peak, bytes_element, tiles, depth, bytes, waves;

	if (!(m > 0 && n > 0 && k > 0))
		return 0;
	if (t == MF_BF16) {
		e = mf_k(x->c, MF_C_GEMM_BF16);
		k0 = mf_k(x->c, MF_C_GEMM_BF16_K0);
		peak = cl->tflops[MF_BF16];
		bytes_element = 2;
	} else if (t == MF_FP8) {
		e = mf_k(x->c, MF_C_GEMM_FP8);
		k0 = mf_k(x->c, MF_C_GEMM_FP8_K0);
		peak = cl->tflops[MF_FP8];
		bytes_element = 1;
	} else {
		/* The share was fitted against twice the fp8 peak, which on some GPUs is not the fp4 peak. */
		e = mf_k(x->c, MF_C_GEMM_FP4);
		k0 = mf_k(x->c, MF_C_GEMM_FP4_K0);
		peak = 2 * cl->tflops[MF_FP8];
		bytes_element = 0.56;
	}
	if (kind == GEMM_WGRAD) {
		/* The tokens are the depth; one n x k result an expert, accumulated in fp32. */
		depth = m / groups;
		tiles = groups * ceil(n / TILE) * ceil(k / TILE);
		bytes = bytes_element * m * (n + k) + 8 * n * k * groups;
		e *= mf_k(x->c, MF_C_GEMM_WGRAD);
	} else {
		if (kind == GEMM_DGRAD) {
			double swap = n;

			n = k;
			k = swap;
		}
		depth = k;
		tiles = groups * ceil(m / groups / TILE) * ceil(n / TILE);
		bytes = bytes_element * (m * k + groups * n * k) + 2 * m * n;
	}
	waves = tiles < 8.0 * cl->sm_count ? ceil(tiles / cl->sm_count) : tiles / cl->sm_count;
	e *= mf_k(x->c, MF_C_SUSTAIN) * (groups > 1 ? mf_k(x->c, MF_C_GEMM_GROUPED) : 1);
	return fmax(waves * cl->sm_count * 2 * TILE * TILE * (depth + k0) / (peak * TERA * e), bytes / x->s->stream) +
	       x->s->kernel_tail;
}

static void add(tt_layer *l, tt_term term, double f, double b)
{
	l->term[term].f += f;
	l->term[term].b += b;
}

/* One linear m x n x k: forward, data and weight gradient. Returns the forward. */
static double linear(const ctx *x, tt_layer *l, tt_term term, double m, double n, double k, bool low, double groups)
{
	double f = gemm(x, m, n, k, low, GEMM_FORWARD, groups);
	double w = x->c->opts.frozen ? 0 : gemm(x, m, n, k, low, GEMM_WGRAD, groups);

	add(l, term, f, gemm(x, m, n, k, low, GEMM_DGRAD, groups) + w);
	l->wgrad += w;
	l->wgrad_of[term] += w;
	return f;
}

/* Casts of a linear's input (forward) or output gradient (backward), where linears run in low precision. */
static void quantize(const ctx *x, tt_layer *l, double elements_f, double elements_b)
{
	double bytes = mf_k(x->c, x->s->fused_quant ? MF_C_QUANT_BYTES_FUSED : MF_C_QUANT_BYTES);

	if (!x->low)
		return;
	add(l, TT_QUANTIZE, elements_f > 0 ? tt_stream(x->s, elements_f * bytes, 1) : 0,
		elements_b > 0 ? tt_stream(x->s, elements_b * bytes, 1) : 0);
}

/* Share of the bf16 roof at a head size: measured at 64, 128, 192 and 256, straight lines between. */
static double attention_roof(const mf_cost *c, double d)
{
	static const mf_const_id ids[] = {MF_C_ATT_64, MF_C_ATT_128, MF_C_ATT_192, MF_C_ATT_256};
	double at = d / 64 - 1;
	int i;

	if (at <= 0)
		return mf_k(c, ids[0]);
	if (at >= 3)
		return mf_k(c, ids[3]);
	i = (int)at;
	return mf_k(c, ids[i]) + (at - i) * (mf_k(c, ids[i + 1]) - mf_k(c, ids[i]));
}

/* Causal attention core of `seqs` sequences; window 0 is full attention. */
static tt_pass attention(
	const ctx *x, double seqs, double len, double heads, double dqk, double dv, double d, double window)
{
	const mf_cost *c = x->c;
	double peak = c->in.cluster->tflops[MF_BF16] * TERA, roof = attention_roof(c, d), f;
	tt_pass t;

	if (window > 0 && window < len) {
		double e = mf_k(c, MF_C_ATT_WINDOW) * fmin(1, 0.5 + window / 1024) * sqrt(fmax(1, window / 128));

		f = 2 * seqs * heads * len * window * (dqk + dv) / (peak * fmin(e, roof));
	} else {
		f = seqs * heads * len * len * (dqk + dv) * (1 + mf_k(c, MF_C_ATT_S0) / len) /
		    (peak * roof * (1 + mf_k(c, MF_C_SUSTAIN)) / 2 * mf_k(c, MF_C_ATT_ULTRA));
	}
	t.f = f;
	t.b = 2.5 * f / mf_k(c, MF_C_ATT_BWD);
	if (c->in.stack->attention == MF_ATTN_UNFUSED) {
		/* Scores are computed for the masked half too, and travel through memory. */
		double scores = seqs * heads * len * len;

		t.f = 2 * f + tt_stream(x->s, scores * mf_k(c, MF_C_UNFUSED_ATT_FWD), 5);
		t.b = 2 * t.b + tt_stream(x->s, scores * mf_k(c, MF_C_UNFUSED_ATT_BWD), 9);
	}
	return t;
}

/* Distinct of n equal targets that a token with k choices reaches. */
static double distinct(double n, double k)
{
	return n * (1 - pow(1 - 1 / n, k));
}

/* Of `nodes` targets, those a token reaches under group-limited routing or a node limit. */
static double nodes_reached(const ctx *x, double nodes, double topk)
{
	double reached = distinct(nodes, topk), groups = x->m->expert_groups, chosen = x->m->expert_group_topk;

	if (groups > 0 && nodes <= groups) {
		/* A node is missed when all chosen groups live elsewhere: C(G - G/nodes, g) / C(G, g). */
		double here = floor(groups / nodes), missed = 1;

		for (double i = 0; i < chosen; i++)
			missed *= fmax(0, groups - here - i) / (groups - i);
		reached = fmin(reached, nodes * (1 - missed));
	}
	if (x->p->node_limit > 0 && x->p->node_limit < nodes)
		reached = fmin(reached, distinct(x->p->node_limit, topk));
	return reached;
}

/*
 * One dispatch or combine of `rows` tokens of `width` elements (bf16): all-to-all sends a copy per choice; the flexible
 * dispatchers one per node over the NIC and one per GPU inside the domain, forwarding behind the NIC. `inside`: expert
 * ranks in one domain.
 */
static double exchange(const ctx *x, double rows, double width, double inside)
{
	const mf_train_time *s = x->s;
	const mf_cost *c = x->c;
	double ep = x->ep, row = width * 2, nodes = fmax(1, floor(ep / inside));
	double topk = fmin(x->m->topk, x->m->experts), pieces = fmax(1, x->p->comm_chunks);
	double alpha = mf_k(c, MF_C_EXCHANGE_US) * MICRO * pieces;
	double nic = s->nic * mf_k(c, MF_C_NIC), t_link, t_nic, t, slow = 1;

	if (ep <= 1)
		return 0;
	if (x->p->sm_budget > 0)
		slow = fmax(1, mf_k(c, MF_C_EXCHANGE_SMS) / x->p->sm_budget);
	if (x->p->dispatcher == MF_DISP_ALLGATHER)
		return slow * tt_ring(s, rows * ep * row, (uint32_t)ep, (uint32_t)inside) +
		       alpha * (pieces - 1) / pieces;
	if (x->p->dispatcher == MF_DISP_ALLTOALL) {
		double sent = rows * x->m->topk * row;

		t_link = sent * (fmin(inside, ep) - 1) / ep / (s->link * mf_k(c, MF_C_LINK_A2A));
		t_nic = nodes > 1 ? sent * (1 - inside / ep) / nic : 0;
		t = slow * fmax(t_link, t_nic) + alpha;
		return t_nic > 0 ? t + mf_k(c, MF_C_EXCHANGE_NODE_US) * MICRO * pieces * log2(ep) : t;
	}
	{
		double share = mf_k(c, x->p->dispatcher == MF_DISP_HYBRIDEP ? MF_C_LINK_HYBRIDEP : MF_C_LINK_DEEPEP);
		double limit = x->p->node_limit > 0 && x->p->node_limit < nodes ? x->p->node_limit * inside : ep;
		double ranks = fmin(distinct(ep, topk), distinct(limit, topk));

		t_link = rows * (ranks * (inside - 1) / ep + ranks * (1 - inside / ep)) * row / (s->link * share);
		t_nic = nodes > 1 ? rows * nodes_reached(x, nodes, topk) * (1 - 1 / nodes) * row / nic : 0;
		return slow * (fmax(t_link, t_nic) + 0.2 * fmin(t_link, t_nic)) + alpha * (nodes > 1 ? 2 : 1);
	}
}

/* ---- parts of a layer ----------------------------------------------------------------------------------------------
 */

static double tp_ring(const ctx *x)
{
	uint32_t tp = x->p->tp;

	return tt_ring(x->s, x->tokens * x->m->hidden * 2, tp, (uint32_t)fmin(tp, x->s->domain));
}

/* Norm, residual and, under tensor parallelism, the gather and scatter around a sublayer. */
static void sublayer(const ctx *x, tt_layer *l)
{
	double bytes = x->tokens_sp * x->m->hidden * 2;

	add(l, TT_TRAFFIC, tt_stream(x->s, bytes * 5, 3), tt_stream(x->s, bytes * 8, 4));
}

/* The core, its share of the sequence under context parallelism, and the key/value ring that hides behind it. */
static void attention_core(const ctx *x, tt_layer *l, tt_pass t, double kv_bytes)
{
	if (x->cp > 1) {
		uint32_t cp = x->p->cp;
		uint32_t inside = (uint32_t)fmax(1, fmin(cp, floor(x->s->domain / x->tp)));
		double ring = tt_ring(x->s, kv_bytes * x->cp, cp, inside), hide = mf_k(x->c, MF_C_HIDE_CP);
		tt_pass shown;

		t.f /= x->cp;
		t.b /= x->cp;
		shown.f = fmax(0, ring - hide * t.f);
		shown.b = fmax(0, 2 * ring - hide * t.b);
		add(l, TT_CP, shown.f, shown.b);
		l->comm += 3 * ring;
		l->comm_hidden += 3 * ring - shown.f - shown.b;
	}
	add(l, TT_ATTENTION, t.f, t.b);
}

static void attention_gqa(const ctx *x, tt_layer *l, bool windowed)
{
	const mf_model *m = x->m;
	double heads = m->heads / x->tp, kv_heads = fmax(1, m->kv_heads / x->tp), q = heads * m->head_dim;
	double k = kv_heads * m->head_dim, T = x->tokens, norm = m->qk_norm ? 2 : 1, gate = m->attention_gate ? q : 0;

	quantize(x, l, T * m->hidden, 0);
	linear(x, l, TT_DENSE, T, q + gate + 2 * k, m->hidden, x->low, 1);
	add(l, TT_TRAFFIC, tt_stream(x->s, T * (q + k) * 4 * norm, 3), tt_stream(x->s, T * (q + k) * 6 * norm, 4));
	if (gate > 0) /* read the gate and the output, write their product; twice that and the gate's gradient back */
		add(l, TT_TRAFFIC, tt_stream(x->s, T * q * 6, 1), tt_stream(x->s, T * q * 10, 2));
	attention_core(x, l,
		attention(x, x->p->micro_batch, x->c->in.workload->seq, heads, m->head_dim, m->v_dim, m->head_dim,
			windowed ? m->window : 0),
		T * 2 * k * 2);
	quantize(x, l, T * q, 0);
	linear(x, l, TT_DENSE, T, m->hidden, q, x->low, 1);
	quantize(x, l, 0, T * (m->hidden + q + gate + 2 * k));
}

/*
 * The indexer of sparse attention: its projections, a score for every earlier token and head, and the choice of keys, a
 * sort over the scores in fp32. No measured operation stands behind it.
 */
static void indexer(const ctx *x, tt_layer *l)
{
	const mf_model *m = x->m;
	double T = x->tokens, seq = x->c->in.workload->seq, width = (double)m->index_heads * m->index_dim;
	double pairs = T * seq / 2,
	       f = 2 * pairs * width / (x->c->in.cluster->tflops[MF_BF16] * TERA * mf_k(x->c, MF_C_ATT_128));

	linear(x, l, TT_DENSE, T, width, m->q_lora ? m->q_lora : m->hidden, x->low, 1);
	linear(x, l, TT_DENSE, T, m->index_dim + m->index_heads, m->hidden, x->low, 1);
	add(l, TT_ATTENTION, f, 2.5 * f / mf_k(x->c, MF_C_ATT_BWD));
	add(l, TT_TRAFFIC, tt_stream(x->s, pairs * 16, 4), 0);
}

/*
 * Mamba-2: projections around a short convolution and the chunked scan, whose chunks of 256 multiply within and pass
 * their state on.
 */
static void mamba(const ctx *x, tt_layer *l)
{
	const mf_model *m = x->m;
	double T = x->tokens, h = m->hidden, inner = (double)m->mamba_heads * m->mamba_head_dim / x->tp;
	double groups = m->mamba_groups * (double)m->mamba_state;
	double out = 2 * inner + 2 * groups / fmin(x->tp, fmax(1, m->mamba_groups)) + m->mamba_heads / x->tp;
	double flop = T * (6 * inner * m->mamba_state + 2 * 256 * (inner + groups)), t;

	quantize(x, l, T * h, 0);
	linear(x, l, TT_DENSE, T, out, h, x->low, 1);
	t = flop / (x->c->in.cluster->tflops[MF_BF16] * TERA * mf_k(x->c, MF_C_SCAN_MAMBA)) +
	    tt_stream(x->s, T * inner * 28, 8);
	add(l, TT_SCAN, t, 2.5 * t);
	quantize(x, l, T * inner, 0);
	linear(x, l, TT_DENSE, T, h, inner, x->low, 1);
	quantize(x, l, 0, T * (h + out));
}

/* Gated delta net: projections, convolutions and the chunked delta rule in chunks of 64. */
static void delta_net(const ctx *x, tt_layer *l)
{
	const mf_model *m = x->m;
	double T = x->tokens, h = m->hidden, k = (double)m->delta_k_heads * m->delta_k_dim / x->tp;
	double v = (double)m->delta_v_heads * m->delta_v_dim / x->tp;
	double flop = T * (8 * v * m->delta_k_dim + 2 * 4 * 64 * (k + v)), t;

	quantize(x, l, T * h, 0);
	linear(x, l, TT_DENSE, T, 2 * k + 2 * v, h, x->low, 1);
	t = flop / (x->c->in.cluster->tflops[MF_BF16] * TERA * mf_k(x->c, MF_C_SCAN_DELTA)) +
	    tt_stream(x->s, T * (k + v) * 40, 14);
	add(l, TT_SCAN, t, 2.5 * t);
	quantize(x, l, T * v, 0);
	linear(x, l, TT_DENSE, T, h, v, x->low, 1);
	quantize(x, l, 0, T * (h + 2 * k + 2 * v));
}

/* MLA in training is plain multi-head attention behind two compressions. */
static void attention_mla(const ctx *x, tt_layer *l)
{
	const mf_model *m = x->m;
	double heads = m->heads / x->tp, dq = m->qk_nope + m->qk_rope, T = x->tokens, h = m->hidden;
	double compressed = m->kv_lora + m->qk_rope, up, q_up = 0;

	quantize(x, l, T * h, 0);
	if (m->q_lora > 0) {
		linear(x, l, TT_DENSE, T, m->q_lora + compressed, h, x->low, 1);
		quantize(x, l, T * m->q_lora, 0);
		q_up = linear(x, l, TT_DENSE, T, heads * dq, m->q_lora, x->low, 1);
	} else {
		linear(x, l, TT_DENSE, T, heads * dq + compressed, h, x->low, 1);
	}
	quantize(x, l, T * m->kv_lora, 0);
	up = linear(x, l, TT_DENSE, T, heads * (m->qk_nope + m->v_dim), m->kv_lora, x->low, 1);
	{
		double copies = tt_stream(x->s, T * heads * (2 * dq * 4 + m->v_dim * 2), 6);

		add(l, TT_TRAFFIC, copies, copies);
	}
	if (m->index_topk > 0)
		indexer(x, l);
	attention_core(x, l,
		attention(x, x->p->micro_batch, x->c->in.workload->seq, heads, dq, m->v_dim, dq, m->index_topk),
		T * heads * (dq + m->v_dim) * 2);
	quantize(x, l, T * heads * m->v_dim, 0);
	linear(x, l, TT_DENSE, T, h, heads * m->v_dim, x->low, 1);
	quantize(x, l, 0, T * (h + heads * (2 * dq + m->v_dim)));
	if (x->p->recompute == MF_RECOMPUTE_SELECTIVE && (x->p->recompute_modules & MF_RC_MLA_UP_PROJ))
		add(l, TT_RECOMPUTE, 0, up + q_up + tt_stream(x->s, T * heads * 2 * dq * 4, 4));
}

/* A dense MLP or the shared experts. Returns its forward. */
static double mlp(const ctx *x, tt_layer *l, tt_term term, double ffn)
{
	const mf_model *m = x->m;
	double up = m->gated ? 2 : 1, T = x->tokens, h = m->hidden, act, f;

	quantize(x, l, T * h, 0);
	f = linear(x, l, term, T, up * ffn, h, x->low, 1);
	act = tt_stream(x->s, T * ffn * 2 * (up + 1), 1);
	add(l, TT_TRAFFIC, act, tt_stream(x->s, T * ffn * 2 * (2 * up + 1), 1));
	quantize(x, l, T * ffn, 0);
	f += linear(x, l, term, T, h, ffn, x->low, 1);
	quantize(x, l, 0, T * (h + up * ffn));
	return f;
}

/* Measured time of the plan's generated kernel on `rows` rows of this GPU's experts. */
static bool generated(const ctx *x, double rows, mf_kernel_time *out)
{
	mf_expert_layer layer;

	if (!x->p->kernel || !x->c->opts.autotune || !mf_cost_expert_layer(x->c, x->p, &layer))
		return false;
	layer.rows = rows / x->local_experts;
	return mf_autotune_time(x->c->opts.autotune, x->p->kernel, &layer, out);
}

/* The fused low-precision expert kernel, captured whole, covers clamped activations and biases; nothing else does. */
static bool unfused_experts(const ctx *x)
{
	return !(x->s->fused_quant && x->low && x->c->in.stack->graphs == MF_GRAPHS_FULL);
}

static void moe(const ctx *x, tt_layer *l)
{
	mf_kernel_time kernel;
	const mf_model *m = x->m;
	const mf_plan *p = x->p;
	const mf_train_time *s = x->s;
	/* Routed experts see rows of `h` elements: the hidden size, or a latent behind two projections. */
	double hidden = m->hidden, h = mf_model_expert_width(m), up = m->gated ? 2 : 1, E = m->experts,
	       ffn = m->moe_ffn / x->etp, pieces = fmax(1, p->comm_chunks);
	double r = x->rows * x->skew, act, act_b, permute, experts, inside, once, shared = 0;
	unsigned rc = p->recompute == MF_RECOMPUTE_SELECTIVE ? p->recompute_modules : 0;

	linear(x, l, TT_ROUTER, x->tokens_sp, E, hidden, false, 1);
	if (m->moe_latent > 0) {
		linear(x, l, TT_DENSE, x->tokens_sp, h, hidden, x->low, 1);
		linear(x, l, TT_DENSE, x->tokens_sp, hidden, h, x->low, 1);
	}
	add(l, TT_ROUTER, tt_stream(s, x->tokens_sp * E * 24, 8), tt_stream(s, x->tokens_sp * E * 16, 6));

	/* A dispatch cut into pieces cuts the expert GEMMs too. */
	experts = 0;
	for (int i = 0; i < (int)pieces; i++) {
		experts += linear(x, l, TT_EXPERTS, r / pieces, up * ffn, h, x->low, x->local_experts);
		experts += linear(x, l, TT_EXPERTS, r / pieces, h, ffn, x->low, x->local_experts);
	}
	act = tt_stream(s, r * ffn * 2 * (up + 1), 1);
	act_b = tt_stream(s, r * ffn * 2 * (2 * up + 1), 1);
	add(l, TT_PERMUTE, act, act_b);
	if (m->clamped_glu && unfused_experts(x))
		add(l, TT_PERMUTE, tt_stream(s, r * ffn * up * mf_k(x->c, MF_C_GLU_FWD), 10),
			tt_stream(s, r * ffn * up * mf_k(x->c, MF_C_GLU_BWD), 16));
	/* Biases of the second linear go expert by expert: two small kernels each, six in backward. */
	if ((m->mlp_bias || m->linear_bias) && unfused_experts(x))
		add(l, TT_PERMUTE, tt_stream(s, r * h * mf_k(x->c, MF_C_EXPERT_BIAS_FWD), 2 * x->local_experts),
			tt_stream(s, r * h * mf_k(x->c, MF_C_EXPERT_BIAS_BWD), 6 * x->local_experts));
	{
		/* Copies of a row: all-to-all sorts twice when a rank has several experts. */
		double copies = p->dispatcher != MF_DISP_ALLTOALL ? 6 : x->local_experts > 1 ? 14 : 10;

		permute = tt_stream(s, r * h * copies, 4);
		add(l, TT_PERMUTE, permute, permute);
	}
	if (x->low) {
		double kernels = mf_k(x->c, s->fused_quant ? MF_C_QUANT_KERNELS_FUSED : MF_C_QUANT_KERNELS);
		double launches = 2 * x->local_experts * kernels * s->kernel_tail;

		quantize(x, l, r * h, 0);
		quantize(x, l, r * ffn, 0);
		quantize(x, l, 0, r * (h + up * ffn));
		add(l, TT_QUANTIZE, launches, launches);
	}
	if (generated(x, r, &kernel)) {
		/* One kernel does permute, products, activation and un-permute; its backward is not cut in two. */
		l->wgrad -= l->wgrad_of[TT_EXPERTS];
		l->wgrad_of[TT_EXPERTS] = 0;
		l->term[TT_EXPERTS] = (tt_pass){kernel.forward_us * MICRO, kernel.backward_us * MICRO};
		l->term[TT_PERMUTE] = (tt_pass){0, 0};
		experts = kernel.forward_us * MICRO;
		act = permute = 0;
	}
	inside = fmax(1, fmin(x->ep, s->domain > x->etp ? floor(s->domain / x->etp) : 1));
	once = mf_k(x->c, MF_C_CONTEND) * exchange(x, x->tokens_sp, h, inside) *
	       (1 + (x->skew - 1) * mf_k(x->c, MF_C_SKEW_EXCHANGE));
	add(l, TT_EXCHANGE, 2 * once, 2 * once);
	if (x->etp > 1) {
		double ring = tt_ring(s, r * h * 2, (uint32_t)x->etp, (uint32_t)fmin(x->etp, s->domain));

		add(l, TT_TP, 2 * ring, 2 * ring);
	}
	if (m->shared_ffn > 0) {
		double ring = tp_ring(x);

		add(l, TT_TP, 2 * ring, 2 * ring);
		shared = mlp(x, l, TT_SHARED, m->shared_ffn / x->tp);
	}
	if (rc & MF_RC_MOE_ACT)
		add(l, TT_RECOMPUTE, 0, act);
	if (rc & MF_RC_MOE)
		add(l, TT_RECOMPUTE, 0, experts + act + permute + 2 * once);
	if (rc & MF_RC_SHARED_EXPERTS)
		add(l, TT_RECOMPUTE, 0, shared);
}

/* Launches of one layer as the host issues them, forward and backward: the floor under the GPU's time. */
static tt_pass host_floor(const ctx *x, tt_kind kind)
{
	const mf_cost *c = x->c;
	const mf_stack *stack = c->in.stack;
	double graph = c->opts.varied                       ? 0
		       : stack->graphs == MF_GRAPHS_FULL    ? 1
		       : stack->graphs == MF_GRAPHS_PARTIAL ? mf_k(c, MF_C_GRAPH_PARTIAL)
							    : 0;
	/* 45 % of a layer's launches are the mixer's, 55 % a MoE sublayer's, 20 % a dense MLP's. */
	double part = (kind.mixer == MF_MIX_NONE ? 0 : 0.45) + (kind.ffn == TT_FFN_MOE            ? 0.55
								       : kind.ffn == TT_FFN_DENSE ? 0.2
												  : 0);
	double share = 1 - graph * mf_k(c, MF_C_GRAPH_CUT);
	double grace = c->in.cluster->grace ? mf_k(c, MF_C_HOST_GRACE) : 1;
	double eager = c->opts.varied ? mf_k(c, MF_C_HOST_EAGER) : 1;
	tt_pass t = {0, 0};

	if (graph >= 1)
		return t;
	t.f = mf_k(c, MF_C_HOST_FWD) * MILLI * part * share * grace * eager;
	t.b = mf_k(c, MF_C_HOST_BWD) * MILLI * part * share * grace * eager;
	if (kind.ffn == TT_FFN_MOE) {
		double n = (x->s->fused_quant ? 1 : x->local_experts) * (x->low ? mf_k(c, MF_C_HOST_LOW) : 1);
		double launch = n * fmax(1, x->p->comm_chunks) * mf_k(c, MF_C_HOST_GEMM) * MICRO * grace;

		t.f += 2 * launch;
		t.b += 4 * launch;
		if (x->p->dispatcher == MF_DISP_ALLTOALL)
			t.f += mf_k(c, MF_C_HOST_SYNC) * MILLI;
	}
	if (x->p->recompute == MF_RECOMPUTE_FULL)
		t.b += t.f;
	return t;
}

/* Hides what the schedule hides and lifts the rest to the host's floor. */
static void total(const ctx *x, tt_layer *l, tt_kind kind)
{
	const mf_cost *c = x->c;
	const mf_plan *p = x->p;
	double comp_f = 0, comp_b = 0, ex_f = l->term[TT_EXCHANGE].f, ex_b = l->term[TT_EXCHANGE].b, f, b;
	double leak = mf_k(c, MF_C_HOST_TIE);
	tt_pass host = l->host = host_floor(x, kind);

	for (int i = 0; i < TT_COUNT; i++) {
		if (i == TT_EXCHANGE)
			continue;
		comp_f += l->term[i].f;
		comp_b += l->term[i].b;
	}
	f = comp_f + ex_f;
	b = comp_b + ex_b;
	if (p->overlap && ex_f + ex_b > 0) {
		double share = mf_k(c, p->schedule == MF_DUALPIPE ? MF_C_HIDE_DUALPIPE
				       : c->in.stack->delay_wgrad ? MF_C_HIDE_EP_WGRAD
								  : MF_C_HIDE_EP);
		double ratio;

		if (p->comm_chunks > 1)
			share += (1 - share) * mf_k(c, MF_C_HIDE_CHUNK) * (1 - 1.0 / p->comm_chunks);
		l->hidden = share * fmin(ex_f + ex_b, comp_f + comp_b);
		/* SMs beyond what the library takes by itself slow the compute that hides the exchange, and the
		 * reverse. */
		if (p->sm_budget > 0)
			l->hidden *= fmax(0, fmin(1 / share, 1 - (p->sm_budget - mf_k(c, MF_C_EXCHANGE_SMS)) /
									     c->in.cluster->sm_count));
		ratio = 1 - l->hidden / (ex_f + ex_b);
		f = comp_f + ex_f * ratio;
		b = comp_b + ex_b * ratio;
		l->comm_hidden += l->hidden;
	} else if (c->in.stack->shared_expert_overlap && !p->overlap && x->ep > 1) {
		double hide = mf_k(c, MF_C_HIDE_SHARED);
		double hf = hide * fmin(l->term[TT_SHARED].f, ex_f), hb = hide * fmin(l->term[TT_SHARED].b, ex_b);

		l->shared_hidden = hf + hb;
		f -= hf;
		b -= hb;
		l->comm_hidden += l->shared_hidden;
	}
	l->comm += ex_f + ex_b + l->term[TT_TP].f + l->term[TT_TP].b;
	if (p->schedule == MF_DUALPIPE && p->overlap) {
		/* Forward and backward of two micro-batches are one block: launches of either may run ahead in the
		 * other. */
		l->total_f = f;
		l->total_b = tt_lifted(f + b, host.f + host.b, leak) - f;
	} else {
		l->total_f = tt_lifted(f, host.f, leak);
		l->total_b = tt_lifted(b, host.b, leak);
	}
	l->floor_excess = (l->total_f - f) + (l->total_b - b);
	if (l->hidden > 0)
		l->unhidden = tt_lifted(comp_f + ex_f, host.f, leak) + tt_lifted(comp_b + ex_b, host.b, leak) -
			      l->total_f - l->total_b;
}

static void price_layer(const ctx *x, tt_kind kind, tt_layer *l)
{
	const mf_plan *p = x->p;
	unsigned rc = p->recompute == MF_RECOMPUTE_SELECTIVE ? p->recompute_modules : 0;

	memset(l, 0, sizeof(*l));
	if (kind.mixer != MF_MIX_NONE) {
		sublayer(x, l);
		if (p->tp > 1) {
			double ring = tp_ring(x);

			add(l, TT_TP, 2 * ring, 3 * ring);
		}
		if (kind.mixer == MF_MIX_MAMBA2)
			mamba(x, l);
		else if (kind.mixer == MF_MIX_DELTA)
			delta_net(x, l);
		else if (x->m->attention == MF_MLA)
			attention_mla(x, l);
		else
			attention_gqa(x, l, kind.mixer == MF_MIX_WINDOW);
	}
	if (kind.ffn != TT_FFN_NONE)
		sublayer(x, l);
	if (kind.ffn == TT_FFN_MOE) {
		moe(x, l);
	} else if (kind.ffn == TT_FFN_DENSE) {
		double f;

		if (p->tp > 1) {
			double ring = tp_ring(x);

			add(l, TT_TP, 2 * ring, 3 * ring);
		}
		f = mlp(x, l, TT_DENSE, x->m->ffn / x->tp);
		if (rc & MF_RC_MLP)
			add(l, TT_RECOMPUTE, 0, f);
	}
	if (rc & MF_RC_LAYERNORM)
		add(l, TT_RECOMPUTE, 0, tt_stream(x->s, x->tokens_sp * x->m->hidden * 4, 2));
	if (rc & MF_RC_CORE_ATTN)
		add(l, TT_RECOMPUTE, 0, l->term[TT_ATTENTION].f);
	if (p->recompute == MF_RECOMPUTE_FULL) {
		double f = 0;

		for (int i = 0; i < TT_COUNT; i++)
			f += l->term[i].f;
		add(l, TT_RECOMPUTE, 0, f);
	}
	total(x, l, kind);
}

/* ---- skew ----------------------------------------------------------------------------------------------------------
 */

/*
 * Load of the straggler rank over the mean. A histogram is summed over each rank's neighbouring experts; a bare
 * max_violation is taken as the whole rank's, the worst case (its hot experts sit together).
 */
static double skew(const mf_workload *w, uint32_t ep)
{
	double sum = 0, worst = 0;

	if (ep <= 1)
		return 1;
	if (w->n_load_bins == 0 || w->n_load_bins % ep != 0)
		return 1 + w->max_violation;
	for (uint32_t r = 0, each = w->n_load_bins / ep; r < ep; r++) {
		double load = 0;

		for (uint32_t i = 0; i < each; i++)
			load += w->load_bins[r * each + i];
		sum += load;
		worst = fmax(worst, load);
	}
	return sum > 0 ? worst * ep / sum : 1;
}

/* ---- parameters ----------------------------------------------------------------------------------------------------
 */

/*
 * Parameters of a whole pipeline on one rank: mixers, shared experts and embeddings divided by tp (compressions, routers
 * and latent projections are whole on every rank), experts by ep and etp.
 */
static void parameters(const ctx *x, tt_layers *out)
{
	const mf_model *m = x->m;
	double h = m->hidden, w = m->gated ? 3 : 2, dense, attention, L = m->layers;
	double with_mtp = 1 + (x->c->in.workload->mtp ? m->mtp_layers : 0) / L;
	double inner = (double)m->mamba_heads * m->mamba_head_dim, k = (double)m->delta_k_heads * m->delta_k_dim;
	double v = (double)m->delta_v_heads * m->delta_v_dim;

	if (m->attention == MF_MLA) {
		double dq = m->qk_nope + m->qk_rope, nh = m->heads;

		attention = h * (m->q_lora + m->kv_lora + m->qk_rope) +
			    ((m->q_lora ? m->q_lora : h) * nh * dq + m->kv_lora * nh * (m->qk_nope + m->v_dim) +
				    nh * m->v_dim * h) /
				    x->tp;
	} else {
		attention = h * m->head_dim * ((m->attention_gate ? 3.0 : 2.0) * m->heads + 2.0 * m->kv_heads) / x->tp;
	}
	dense = mf_model_attention_layers(m) * attention +
		m->mamba_layers * h * (3 * inner + 2.0 * m->mamba_groups * m->mamba_state) / x->tp +
		m->delta_layers * h * (2 * k + 3 * v) / x->tp + mf_model_dense_layers(m) * w * h * m->ffn / x->tp +
		m->moe_layers * (h * m->experts + w * h * m->shared_ffn / x->tp + 2.0 * m->moe_latent * h);
	out->params_dense = dense * with_mtp + (double)m->vocab * h / x->tp * (m->tied_embeddings ? 1 : 2);
	out->params_expert =
		m->moe_layers * (double)m->experts * (double)mf_model_expert_params(m) / x->ep / x->etp * with_mtp;
}

/* ---- the door ------------------------------------------------------------------------------------------------------
 */

void tt_price_layers(const mf_cost *c, const mf_plan *p, tt_layers *out, tt_layer kinds[TT_KINDS])
{
	const mf_train_time *s = c->train_time;
	const mf_model *m = c->in.model;
	const mf_workload *w = c->in.workload;
	uint32_t etp = p->etp ? p->etp : p->tp;
	ctx x = {.c = c, .s = s, .m = m, .p = p, .tp = p->tp, .cp = p->cp, .ep = p->ep, .etp = etp};
	double h = m->hidden;
	tt_layer head;

	x.low = s->dtype != MF_BF16;
	x.tokens = (double)p->micro_batch * w->seq / p->cp;
	x.tokens_sp = x.tokens / p->tp;
	x.local_experts = m->experts / x.ep;
	x.rows = x.tokens_sp * m->topk * x.etp;
	x.skew = m->experts ? skew(w, p->ep) : 1;
	memset(kinds, 0, TT_KINDS * sizeof(*kinds));
	for (uint32_t kind = 0; kind < s->n_kinds; kind++) {
		tt_layer *l = &kinds[kind];

		/* The kind of MTP layers may be no layer's. */
		if (tt_count(s, m, kind) > 0 || (w->mtp && m->mtp_layers > 0))
			price_layer(&x, s->kind[kind], l);
		/* fmax() drops a NaN: a GPU that lacks the type would be priced by its memory alone. */
		out->t[kind] = isnan(c->in.cluster->tflops[s->dtype]) ? NAN : l->total_f + l->total_b;
		out->unhidden[kind] = l->unhidden;
		out->hidden[kind] = l->hidden;
		out->comm[kind] = l->comm;
		out->comm_hidden[kind] = l->comm_hidden;
		out->fill[kind] = l->total_f + 2 * l->total_b - 3 * l->wgrad;
	}

	memset(&head, 0, sizeof(head));
	linear(&x, &head, TT_DENSE, x.tokens, m->vocab / x.tp, h, false, 1);
	out->head = head.term[TT_DENSE].f + head.term[TT_DENSE].b +
		    tt_stream(s, x.tokens * m->vocab / x.tp * mf_k(c, MF_C_LOSS_BYTES), 6);
	out->embedding = tt_stream(s, x.tokens * h * 12, 4);
	out->mtp = 0;
	if (w->mtp && m->mtp_layers > 0) {
		tt_layer join;

		/* Each depth: one more layer, a projection of two hidden states into one, one more head. */
		memset(&join, 0, sizeof(join));
		linear(&x, &join, TT_DENSE, x.tokens, h, 2 * h, true, 1);
		out->mtp = m->mtp_layers *
			   (out->t[s->mtp_kind] + join.term[TT_DENSE].f + join.term[TT_DENSE].b + out->head);
	}
	{
		bool across = c->world > s->domain;
		double rate = across ? s->nic * mf_k(c, MF_C_NIC_P2P) : s->link * mf_k(c, MF_C_LINK_P2P);

		out->p2p = x.tokens_sp * h * 2 / rate + mf_k(c, MF_C_P2P_US) * MICRO;
	}
	parameters(&x, out);
	out->domain_dense = (uint32_t)fmax(1, floor(s->domain / x.tp));
	out->domain_expert = x.ep * x.etp < s->domain ? (uint32_t)fmax(1, floor(s->domain / (x.ep * x.etp))) : 1;
	out->tokens_per_expert = m->experts ? x.rows / x.local_experts : NAN;
	out->extrapolated = mf_consts_extrapolated(c->k, c->in.cluster, s->dtype, out->tokens_per_expert, c->world);
}
