/*
 * serve_pass.c: one forward pass of a serving rank, as the sum of its operations' curves (curves.h, consts_serve.def)
 * and of the exchanges between ranks. Times in microseconds.
 */
#include "autotune.h"
#include "serve_internal.h"

#include <math.h>
#include <string.h>

/* Popularity is log-uniform over a ratio r: the chance that a token picks the expert at u of the range. */
void mf_serve_tables_fill(const mf_cost *c, mf_serve_tables *out)
{
	const mf_model *m = c->in.model;
	double r = mf_k(c, MF_C_S_SKEW), mean = r > 1.001 ? (r - 1) / log(r) : 1;

	for (int i = 0; i < MF_POPULARITY_STEPS && m->experts; i++) {
		double u = (2 * i + 1) / (2.0 * MF_POPULARITY_STEPS);

		out->log_miss[i] = log(1 - fmin(1, m->topk / (double)m->experts * (r > 1.001 ? pow(r, u) : 1) / mean));
	}
	out->rates = mf_gpu_rates_of(c->in.cluster);
}

/* ---- curves --------------------------------------------------------------------------------------------------------
 */

/* Constants of a curve for a shape; notes that the part being priced leaves what the overlay measured. */
static const double *curve(const mf_cost *c, mf_curve_id id, double x0, double x1, double x2, double x3)
{
	if (c->k->n_curves && mf_curve_outside(c->k, id, (const double[]){x0, x1, x2, x3}))
		mf_serve_reach_of(c)->left |= mf_serve_reach_of(c)->place;
	return &c->k->v[mf_curve_infos[id].first];
}

static bool has_curve(const mf_cost *c, mf_curve_id id)
{
	return !isnan(c->k->v[mf_curve_infos[id].first]);
}

/* What is priced next. */
static void at(const mf_cost *c, mf_serve_part part, bool prompt)
{
	mf_serve_reach_of(c)->place = 1u << (part + (prompt ? 16 : 0));
}

static double hbm(const mf_cost *c)
{
	return mf_serve_tables_of(c)->rates.hbm;
}

static const mf_curve_id gemm_curves[] = {MF_CURVE_GEMM_BF16, MF_CURVE_GEMM_FP8B, MF_CURVE_GEMM_FP8, MF_CURVE_GEMM_FP4};

static double gemm(const mf_cost *c, mf_linear type, double m, double n, double k)
{
	if (!has_curve(c, gemm_curves[type]))
		type = MF_LIN_BF16;
	return mf_gemm_us(curve(c, gemm_curves[type], m, n, k, 0), &mf_serve_tables_of(c)->rates, type, m, n, k);
}

/* Expected distinct experts hit by `tokens`. */
static double active_experts(const mf_cost *c, double tokens)
{
	double hit = 0;

	for (int i = 0; i < MF_POPULARITY_STEPS; i++)
		hit += 1 - exp(tokens * mf_serve_tables_of(c)->log_miss[i]);
	return c->in.model->experts * hit / MF_POPULARITY_STEPS;
}

/* Load of the slowest expert-parallel rank over the mean: spread of popularity, sampling, and the workload's own skew.
 */
static double imbalance(const mf_cost *c, const mf_serve_shape *z, double slots)
{
	const mf_workload *w = c->in.workload;
	double r = mf_k(c, MF_C_S_SKEW), cv2 = r > 1.001 ? fmax(0, (r + 1) / (r - 1) * log(r) / 2 - 1) : 0;
	double x = mf_experts_imbalance(z->ep, c->in.model->experts / (double)z->ep, slots, cv2);

	if (w->n_load_bins == c->in.model->experts && z->ep > 1) {
		double worst = 0, sum = 0;
		uint32_t each = w->n_load_bins / z->ep;

		for (uint32_t i = 0; i < z->ep; i++) {
			double rank = 0;

			for (uint32_t k = 0; k < each; k++)
				rank += w->load_bins[i * each + k];
			worst = fmax(worst, rank);
			sum += rank;
		}
		if (sum > 0)
			x = worst * z->ep / sum;
	}
	return fmin(fmax(x, 1 + w->max_violation), z->ep > 1 ? z->ep : 1 + w->max_violation);
}

/* The curve that the checkpoint's experts run on, and the arithmetic behind it. */
static mf_curve_id expert_curve(const mf_cost *c, mf_dtype *type)
{
	static const struct {
		mf_curve_id id;
		mf_dtype type;
	} rows[] = {[MF_QUANT_NONE] = {MF_CURVE_MOE_BF16, MF_BF16},
		[MF_QUANT_FP8_BLOCK] = {MF_CURVE_MOE_FP8B, MF_FP8},
		[MF_QUANT_FP8] = {MF_CURVE_MOE_FP8B, MF_FP8},
		[MF_QUANT_NVFP4] = {MF_CURVE_MOE_FP4, MF_FP4},
		[MF_QUANT_MXFP4] = {MF_CURVE_MOE_MXFP4, MF_BF16},
		[MF_QUANT_INT4] = {MF_CURVE_MOE_INT4, MF_BF16},
		[MF_QUANT_INT8] = {MF_CURVE_MOE_FP8B, MF_FP8}};
	mf_quant quant = c->in.model->quant;
	mf_curve_id id = rows[quant].id;

	*type = rows[quant].type;
	if (!has_curve(c, id)) {
		id = MF_CURVE_MOE_BF16;
		*type = MF_BF16;
	}
	if (quant == MF_QUANT_MXFP4 && c->in.cluster->family == MF_BLACKWELL)
		*type = MF_FP8;
	return id;
}

mf_dtype mf_serve_expert_dtype(const mf_cost *c)
{
	mf_dtype type;

	(void)expert_curve(c, &type);
	return type;
}

/* Routed experts of one layer on the slowest rank; `tokens` are those of one MoE data-parallel group. */
static double experts_us(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, double tokens)
{
	const mf_model *m = c->in.model;
	mf_expert_layer layer;
	mf_kernel_time kernel;
	mf_dtype type;
	mf_curve_id id = expert_curve(c, &type);
	double slots = tokens * m->topk, imb = imbalance(c, z, slots);
	mf_experts_shape s = {.tokens = tokens,
		.local = m->experts / (double)z->ep,
		.hidden = mf_model_expert_width(m),
		.width = m->moe_ffn / (double)z->mtp,
		.matrices = m->gated ? 3 : 2,
		.weight_bytes = mf_serve_expert_bytes(m)};

	s.active = fmin(m->experts / (double)z->ep, active_experts(c, tokens) / z->ep * (1 + 0.5 * (imb - 1)));
	s.mine = slots / z->ep * imb;
	if (p->kernel && c->opts.autotune && mf_cost_expert_layer(c, p, &layer)) {
		layer.rows = s.mine / layer.experts;
		if (mf_autotune_time(c->opts.autotune, p->kernel, &layer, &kernel))
			return kernel.forward_us;
	}
	/* Triton streams foreign slots too, unless an all-to-all delivered local ones alone. */
	s.streamed = p->a2a == MF_A2A_NONE ? slots : s.mine;
	s.rows = mf_padded_rows(s.mine, s.active);
	return mf_experts_us(curve(c, id, tokens, s.hidden, s.width, m->experts / (double)z->ep),
		&mf_serve_tables_of(c)->rates, mf_serve_tables_of(c)->rates.peak[type], &s);
}

static double link_share(const mf_cost *c)
{
	return mf_link_share(c->in.cluster, c->k);
}

static double nic(const mf_cost *c)
{
	return c->in.cluster->nic_gbps * 1e3 * mf_k(c, MF_C_S_NIC_FRAC);
}

static mf_curve_id all_reduce_curve(const mf_cost *c, uint32_t n)
{
	if (c->in.cluster->fabric == MF_FABRIC_PCIE)
		return MF_CURVE_PAR;
	return n == 2 ? MF_CURVE_AR2 : n <= 4 ? MF_CURVE_AR4 : MF_CURVE_AR8;
}

static double all_reduce(const mf_cost *c, uint32_t n, double bytes)
{
	const mf_cluster *cl = c->in.cluster;
	bool pcie = cl->fabric == MF_FABRIC_PCIE;
	double t;

	if (n <= 1)
		return 0;
	t = mf_all_reduce_us(
		curve(c, all_reduce_curve(c, n), pcie ? n : bytes, bytes, 0, 0), n, bytes, pcie ? 1 : link_share(c));
	return n > cl->nvlink_domain && n > cl->gpus_per_node ? t + 2 * bytes / nic(c) : t;
}

/* All-gather or reduce-scatter; `bytes` is the whole gathered buffer. */
static double gather(const mf_cost *c, mf_curve_id id, uint32_t n, double bytes)
{
	const mf_cluster *cl = c->in.cluster;
	bool pcie = cl->fabric == MF_FABRIC_PCIE;
	double t;

	if (n <= 1)
		return 0;
	t = mf_collective_us(curve(c, pcie ? MF_CURVE_PAG : id, n, bytes, 0, 0), n, bytes, pcie ? 1 : link_share(c));
	return n > cl->nvlink_domain && n > cl->gpus_per_node ? t + bytes / nic(c) : t;
}

static double small(const mf_cost *c, double kernels, double bytes)
{
	return kernels * mf_k(c, MF_C_S_SMALL_US) + bytes / (hbm(c) * mf_k(c, MF_C_S_SMALL_HBM));
}

static double deepep(const mf_cost *c, const mf_serve_shape *z, double tokens, bool low_latency)
{
	const mf_model *m = c->in.model;
	double nodes = z->nodes, h = m->hidden, topk = m->topk, share = link_share(c), ranks = fmin(8, z->n), t;
	const double *g = curve(c, low_latency ? MF_CURVE_LL : MF_CURVE_NORMAL, tokens, h, topk, 0);

	if (low_latency) {
		t = mf_ll_dispatch_us(g, tokens, h, topk, share) + mf_ll_combine_us(g, tokens, h, topk, share);
		return nodes > 1 ? fmax(t, g[MF_EP_DISPATCH_T0] + g[MF_EP_COMBINE_T0] + 27 +
						   3 * tokens * h * topk * (1 - 1 / nodes) / nic(c))
				 : t;
	}
	t = mf_normal_dispatch_us(g, tokens, h, topk, ranks, share) +
	    mf_normal_combine_us(g, tokens, h, topk, ranks, share);
	return nodes > 1 ? fmax(t, g[MF_EP_DISPATCH_T0] + g[MF_EP_COMBINE_T0] + 60 +
					   tokens * h * mf_distinct(nodes, topk) * (1 - 1 / nodes) * 3 / nic(c))
			 : t;
}

/* ---- one pass ---------------------------------------------------------------------------------------------------- */

mf_linear mf_serve_dense_type(const mf_model *m)
{
	switch (m->quant) {
	case MF_QUANT_FP8_BLOCK: return MF_LIN_FP8_BLOCK;
	case MF_QUANT_FP8:
	case MF_QUANT_INT8: return MF_LIN_FP8;
	case MF_QUANT_NVFP4: return m->attention == MF_MLA ? MF_LIN_BF16 : MF_LIN_FP4;
	default: return MF_LIN_BF16;
	}
}

/* Dense feed-forward layers follow the experts' format in MLA checkpoints, the attention's in others. */
static mf_linear ffn_type(const mf_model *m)
{
	return m->quant == MF_QUANT_NVFP4 ? MF_LIN_FP4 : mf_serve_dense_type(m);
}

/* New tokens of a pass on one rank: of decode requests, of prompts. */
static double decode_tokens(const mf_serve_load *l)
{
	return l->batch * (l->each > 0 ? l->each : 1);
}

/* Choosing keys for sparse attention: two projections, and a score of every cached key; replicated over TP. */
static double indexer(const mf_cost *c, const mf_serve_load *l)
{
	const mf_model *m = c->in.model;
	const mf_gpu_rates *r = &mf_serve_tables_of(c)->rates;
	const double *g = &c->k->v[MF_C_S_INDEX];
	double n = l->prompt_tokens, tokens = decode_tokens(l) + l->prompts * n, width = m->index_heads * m->index_dim;
	double t = gemm(c, MF_LIN_BF16, tokens, width, m->q_lora ? m->q_lora : m->hidden) +
		   gemm(c, MF_LIN_BF16, tokens, m->index_dim + m->index_heads, m->hidden);

	/* One fp8 key and its scale a cached token. */
	if (l->batch > 0)
		t += g[0] + l->batch * l->context * (m->index_dim + 4) / (r->hbm * g[1]);
	if (l->prompts > 0)
		t += l->prompts * (g[0] + 2 * width * (n * l->cached + n * n / 2) / (r->peak[MF_FP8] * g[2]));
	return t;
}

/* Cached tokens of a dense prompt piece that has as many (query, key) pairs as this one, each query seeing `most`. */
static double sparse_cached(double n, double cached, double most)
{
	double before = fmin(n, fmax(0, most - cached)); /* queries that still see everything */

	return (before * cached + before * before / 2 + (n - before) * most) / n - n / 2;
}

static double mla_layer(const mf_cost *c, const mf_serve_shape *z, const mf_serve_load *l)
{
	const mf_model *m = c->in.model;
	const mf_gpu_rates *r = &mf_serve_tables_of(c)->rates;
	mf_linear type = mf_serve_dense_type(m);
	double n = l->prompts * l->prompt_tokens, rows = decode_tokens(l), tokens = rows + n, h = m->hidden;
	double qd = m->qk_nope + m->qk_rope, kv = c->in.workload->fp8_kv ? 1 : 2, context = l->context,
	       cached = l->cached, t = 0;

	/* Sparse attention sees index_topk keys at most; pieces of a prompt see the mean of what they may. */
	if (m->index_topk) {
		t = indexer(c, l);
		context = fmin(context, m->index_topk);
		if (n > 0)
			cached = sparse_cached(l->prompt_tokens, cached, m->index_topk);
	}
	t += gemm(c, type, tokens, m->q_lora + m->kv_lora + m->qk_rope, h) +
	     gemm(c, type, tokens, z->heads * qd, m->q_lora ? m->q_lora : h) +
	     gemm(c, type, tokens, h, z->heads * m->v_dim);
	if (l->batch > 0)
		t += 2 * mf_mla_bmm_us(curve(c, MF_CURVE_BMM, rows, z->heads, 0, 0), r, rows, z->heads, m->qk_nope,
				 m->kv_lora) +
		     mf_mla_decode_us(curve(c, MF_CURVE_MLADEC, rows, z->heads, context, 0), r, rows, z->heads,
			     m->kv_lora, m->qk_rope, kv, context);
	if (n > 0)
		t += gemm(c, type, n, z->heads * (m->qk_nope + m->v_dim), m->kv_lora) +
		     l->prompts * mf_mla_prefill_us(curve(c, MF_CURVE_MLACTX, l->prompt_tokens, z->heads, 0, 0), r, 1,
					  l->prompt_tokens, cached, z->heads, qd, m->v_dim);
	/* Cached latents are expanded to heads again for every later piece of a prompt. */
	if (n > 0 && l->cached > 0)
		t += l->prompts * gemm(c, MF_LIN_BF16, l->cached, z->heads * (m->qk_nope + m->v_dim), m->kv_lora);
	return t;
}

/* window: keys that a query sees at most, on average; 0: all. */
static double gqa_layer(const mf_cost *c, const mf_serve_shape *z, const mf_serve_load *l, double window)
{
	const mf_model *m = c->in.model;
	const mf_gpu_rates *r = &mf_serve_tables_of(c)->rates;
	mf_linear type = mf_serve_dense_type(m);
	double n = l->prompts * l->prompt_tokens, rows = decode_tokens(l), h = m->hidden, t;
	double context = window > 0 ? fmin(l->context, window) : l->context, kv = c->in.workload->fp8_kv ? 1 : 2;

	t = gemm(c, type, rows + n, (z->heads * (m->attention_gate ? 2 : 1) + 2 * z->kv_heads) * m->head_dim, h) +
	    gemm(c, type, rows + n, h, z->heads * m->head_dim);
	if (l->batch > 0)
		t += mf_decode_us(curve(c, MF_CURVE_DEC, rows, z->heads, m->head_dim, context), r, rows, z->heads,
			z->kv_heads, m->head_dim, kv, context);
	if (n > 0)
		t += l->prompts * mf_prefill_us(curve(c, MF_CURVE_CTX, l->prompt_tokens, z->heads, m->head_dim, 0), r,
					  1, l->prompt_tokens, l->cached, window, z->heads, z->kv_heads, m->head_dim);
	return t;
}

/* Linear attention: projections in and out, and a state a value head that decode reads and writes whole. */
static double state_layer(
	const mf_cost *c, const mf_serve_load *l, double columns, double inner, double heads, double key, double value)
{
	const mf_gpu_rates *r = &mf_serve_tables_of(c)->rates;
	const double *g = &c->k->v[MF_C_S_STATE];
	mf_linear type = mf_serve_dense_type(c->in.model);
	double n = l->prompts * l->prompt_tokens, rows = decode_tokens(l), h = c->in.model->hidden;
	double t = gemm(c, type, rows + n, columns, h) + gemm(c, type, rows + n, h, inner);

	if (l->batch > 0)
		t += g[0] + 2 * l->batch * heads * key * value * 4 / (r->hbm * g[1]);
	/* Chunks of 64: three products with the state, and the scores inside a chunk. */
	if (n > 0)
		t += g[2] + n * heads * (6 * key * value + 4 * 64 * key) / (r->peak[MF_BF16] * g[3]);
	return t;
}

static double mixers(const mf_cost *c, const mf_serve_shape *z, const mf_serve_load *l)
{
	const mf_model *m = c->in.model;
	double attending = mf_model_attention_layers(m), t;

	attending -= m->window_layers + m->chunk_layers;
	t = attending * (m->attention == MF_MLA ? mla_layer(c, z, l) : gqa_layer(c, z, l, 0));
	if (m->window_layers)
		t += m->window_layers * gqa_layer(c, z, l, m->window);
	/* Within a chunk a query sees half of it on average, once the text is longer than one. */
	if (m->chunk_layers)
		t += m->chunk_layers * gqa_layer(c, z, l,
					       l->context + l->cached > m->attention_chunk ? m->attention_chunk / 2.0
											   : m->attention_chunk);
	if (m->delta_layers) {
		double k = m->delta_k_heads * m->delta_k_dim, v = m->delta_v_heads * m->delta_v_dim;

		t += m->delta_layers * state_layer(c, l, (2 * k + 2 * v) / z->tp, v / z->tp,
					       (double)m->delta_v_heads / z->tp, m->delta_k_dim, m->delta_v_dim);
	}
	if (m->mamba_layers) {
		double inner = m->mamba_heads * m->mamba_head_dim, group = 2 * m->mamba_groups * m->mamba_state;

		t += m->mamba_layers * state_layer(c, l, (2 * inner + group + m->mamba_heads) / z->tp, inner / z->tp,
					       (double)m->mamba_heads / z->tp, m->mamba_state, m->mamba_head_dim);
	}
	return t / z->cp;
}

/* All-gather of the tokens of every attention rank, reduce-scatter of what the layer made of them. */
static double gather_scatter(const mf_cost *c, const mf_serve_shape *z, double group, double bytes)
{
	double h = c->in.model->hidden;

	return gather(c, MF_CURVE_AG, z->n, group * h * bytes) + gather(c, MF_CURVE_RS, z->n, group * h * 2);
}

static double exchange(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, double tokens, double group, bool prompt)
{
	const mf_model *m = c->in.model;

	if (p->a2a != MF_A2A_NONE)
		return deepep(c, z, group / z->n,
			p->deepep_mode == MF_DM_LOW_LATENCY || (p->deepep_mode == MF_DM_AUTO && !prompt));
	if (z->dp == 1)
		return all_reduce(c, z->n, 2 * tokens * m->hidden);
	return gather_scatter(c, z, group,
		m->quant == MF_QUANT_FP8_BLOCK ? 1
		: m->quant == MF_QUANT_NVFP4   ? 0.5625
					       : 2);
}

static double shared_experts(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, double tokens, double group, bool prompt)
{
	const mf_model *m = c->in.model;
	mf_linear type = mf_serve_dense_type(m);
	double h = m->hidden, width = m->shared_ffn, up = m->gated ? 2 : 1, t;

	/* Whole and local behind an all-to-all; else split, over the stage or within the attention's group. */
	if (p->a2a == MF_A2A_NONE) {
		if (z->dp == 1 || mf_serve_engine_of(c)->gathers_dense) {
			width /= z->n;
			tokens = z->dp == 1 ? tokens : group;
		}
	}
	t = gemm(c, type, tokens, up * width, h) + gemm(c, type, tokens, h, width);
	return prompt ? t : t * mf_k(c, MF_C_S_SHARED);
}

static double dense_layer(const mf_cost *c, const mf_serve_shape *z, double tokens, double group)
{
	const mf_model *m = c->in.model;
	mf_linear type = ffn_type(m);
	double h = m->hidden, width = m->ffn / (double)z->n, up = m->gated ? 2 : 1;

	if (z->dp == 1)
		return gemm(c, type, tokens, up * width, h) + gemm(c, type, tokens, h, width) +
		       all_reduce(c, z->n, 2 * tokens * h);
	if (mf_serve_engine_of(c)->gathers_dense)
		return gemm(c, type, group, up * width, h) + gemm(c, type, group, h, width) +
		       gather_scatter(c, z, group, 2);
	width = m->ffn / (double)z->tp;
	return gemm(c, type, tokens, up * width, h) + gemm(c, type, tokens, h, width) +
	       all_reduce(c, z->tp, 2 * tokens * h);
}

static void price_pass(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_load *l, mf_serve_pass *out)
{
	const mf_model *m = c->in.model;
	double n = l->prompts * l->prompt_tokens, tokens = fmax(1, decode_tokens(l) + n),
	       group = fmax(tokens, l->group), h = m->hidden, small_us = mf_k(c, MF_C_S_SMALL_US);
	double moe = m->moe_layers, dense = mf_model_dense_layers(m), mixing = m->layers - m->mixerless_layers,
	       rows = decode_tokens(l) + l->prompts, vocab = m->vocab;
	bool prompt = n > 0, bf16 = mf_serve_dense_type(m) == MF_LIN_BF16;

	memset(out, 0, sizeof *out);
	at(c, MF_PART_ATTENTION, prompt);
	out->part[MF_PART_ATTENTION] = mixers(c, z, l);
	if (moe > 0) {
		at(c, MF_PART_EXPERTS, prompt);
		out->part[MF_PART_EXPERTS] = moe * (gemm(c, MF_LIN_BF16, tokens, m->experts, h) + 3.5 +
							   experts_us(c, p, z, group / z->moe_dp));
		if (m->moe_latent)
			out->part[MF_PART_EXPERTS] += moe * (gemm(c, MF_LIN_BF16, tokens, m->moe_latent, h) +
								    gemm(c, MF_LIN_BF16, tokens, h, m->moe_latent));
		at(c, MF_PART_EXCHANGE, prompt);
		out->part[MF_PART_EXCHANGE] = moe * exchange(c, p, z, tokens, group, prompt);
	}
	at(c, MF_PART_SHARED, prompt);
	if (m->shared_ffn)
		out->part[MF_PART_SHARED] = moe * shared_experts(c, p, z, tokens, group, prompt);
	at(c, MF_PART_DENSE, prompt);
	if (dense > 0)
		out->part[MF_PART_DENSE] = dense * dense_layer(c, z, tokens, group);
	at(c, MF_PART_TP, prompt);
	out->part[MF_PART_TP] = mixing * all_reduce(c, z->tp, 2 * tokens * h);
	if (m->qk_norm_whole && z->tp > 1)
		out->part[MF_PART_TP] += mixing * (all_reduce(c, z->tp, 8 * tokens) + 3 * small_us);
	out->part[MF_PART_SMALL] = m->layers * small(c, mf_k(c, MF_C_S_SMALL_N) + (bf16 ? 0 : 2), 16 * tokens * h);
	at(c, MF_PART_HEAD, prompt);
	out->part[MF_PART_HEAD] = gemm(c, MF_LIN_BF16, fmax(1, rows), vocab / z->tp, h) +
				  small(c, 4, 2 * tokens * h + 8 * rows * vocab / z->tp) + mf_k(c, MF_C_S_SAMPLE_US) +
				  (z->tp > 1 ? gather(c, MF_CURVE_AG, z->tp, 2 * rows * vocab) : 0);
	if (z->pp > 1)
		out->part[MF_PART_PIPE] =
			2 * (10 + 2 * tokens * h /
					    (c->in.cluster->fabric == MF_FABRIC_PCIE ? 0.05e6 : 0.3e6 * link_share(c)));
	if (!prompt && p->graph == MF_GRAPH_OFF)
		out->part[MF_PART_LAUNCH] = m->layers * mf_k(c, MF_C_S_EAGER_US);
}

/* The shorter of compute and exchange hides, of two halves that take turns. */
static void overlap(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_load *l, mf_serve_pass *out)
{
	bool halves = l->prompts <= 0;
	double comm, compute = 0, rest = 0;
	mf_serve_load half = *l;

	if (halves) {
		half.batch /= 2;
		half.group /= 2;
	}
	price_pass(c, p, z, &half, out);
	for (int i = 0; halves && i < MF_PART_HIDDEN; i++)
		out->part[i] *= 2;
	comm = out->part[MF_PART_EXCHANGE];
	for (int i = 0; i < MF_PART_HIDDEN; i++)
		compute += i == MF_PART_EXCHANGE ? 0 : out->part[i];
	/* Decode pays a rest of one half's exchange; a prompt's pieces are long enough to hide it. */
	if (halves)
		rest = mf_k(c, MF_C_S_TBO) * comm / 2;
	out->part[MF_PART_HIDDEN] = rest - fmin(comm, compute);
}

void mf_serve_run_pass(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_load *l, mf_serve_pass *out)
{
	const mf_workload *w = c->in.workload;

	if (p->overlap)
		overlap(c, p, z, l, out);
	else
		price_pass(c, p, z, l, out);
	/* A draft is one layer of the same kind, its head and its launch, once a drafted token. */
	if (l->prompts <= 0 && w->draft_tokens) {
		mf_serve_load draft = *l;
		mf_serve_pass one;
		double t = 0;

		draft.each = 1;
		draft.group = l->group / (l->each > 0 ? l->each : 1);
		price_pass(c, p, z, &draft, &one);
		for (int i = 0; i < MF_PART_COUNT; i++)
			t += one.part[i];
		out->part[MF_PART_DRAFT] = w->draft_tokens * (1.3 * t / c->in.model->layers + 40);
	}
	out->total = 0;
	for (int i = 0; i < MF_PART_COUNT; i++) {
		/* What a probe of this release says of decode, whatever the cause. */
		if (l->prompts <= 0 && !isnan(mf_k(c, MF_C_S_LEVEL)))
			out->part[i] *= mf_k(c, MF_C_S_LEVEL);
		out->total += out->part[i];
	}
}

double mf_serve_floor_us(
	const mf_cost *c, const mf_serve_shape *z, const mf_serve_bytes *b, double batch, double context)
{
	const mf_model *m = c->in.model;
	double hit = m->experts ? active_experts(c, batch * z->dp) / m->experts : 0;

	return z->pp * (b->attention + b->experts * hit + b->kv_token * batch * context) / hbm(c);
}

/* ---- what a part reads ------------------------------------------------------------------------------------------- */

static void add_curve(mf_term *t, mf_curve_id id)
{
	for (int i = 0; i < mf_curve_infos[id].n && t->n_consts < MF_TERM_MAX_CONSTS; i++)
		t->consts[t->n_consts++] = (mf_const_id)(mf_curve_infos[id].first + i);
}

void mf_serve_part_consts(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, mf_serve_part part, mf_term *t)
{
	mf_curve_id dense =
		gemm_curves[part == MF_PART_DENSE ? ffn_type(c->in.model) : mf_serve_dense_type(c->in.model)];
	mf_dtype type;

	if (!has_curve(c, dense))
		dense = MF_CURVE_GEMM_BF16;
	switch (part) {
	case MF_PART_ATTENTION:
		add_curve(t, c->in.model->attention == MF_MLA ? MF_CURVE_MLADEC : MF_CURVE_DEC);
		add_curve(t, dense);
		break;
	case MF_PART_EXPERTS: add_curve(t, expert_curve(c, &type)); break;
	case MF_PART_DENSE: add_curve(t, dense); break;
	case MF_PART_TP: add_curve(t, all_reduce_curve(c, z->tp)); break;
	case MF_PART_EXCHANGE:
		if (p->a2a != MF_A2A_NONE) {
			add_curve(t, p->deepep_mode == MF_DM_NORMAL ? MF_CURVE_NORMAL : MF_CURVE_LL);
		} else if (z->dp == 1) {
			add_curve(t, all_reduce_curve(c, z->n));
		} else if (c->in.cluster->fabric == MF_FABRIC_PCIE) {
			add_curve(t, MF_CURVE_PAG);
		} else {
			add_curve(t, MF_CURVE_AG);
			add_curve(t, MF_CURVE_RS);
		}
		break;
	default: break;
	}
}
