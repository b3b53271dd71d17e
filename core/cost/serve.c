/*
 * serve.c: TTFT, TPOT and throughput of a serving plan in closed form. A forward pass is the sum of its operations' curves;
 * a closed loop of requests turns decode passes and prompt passes into the figures. Curves, constants and their errors:
 * consts_serve.def and the man page of overlays. Inside, times are microseconds.
 */
#include "serve_internal.h"

#include <math.h>
#include <string.h>


/* ---- curves -------------------------------------------------------------------------------------------------------- */

enum precision { BF16, FP8_BLOCK, FP8, FP4 };

/* Consecutive constants of one curve. */
static const double *curve(const mf_cost *c, mf_const_id first)
{
	return &c->k->v[first];
}

static double hbm(const mf_cost *c) { return c->in.cluster->hbm_gbps * 1e3; }

static double peak(const mf_cost *c, mf_dtype t)
{
	double f = c->in.cluster->tflops[t];

	/* Without the type the operation runs in bf16. */
	return (isnan(f) ? c->in.cluster->tflops[MF_BF16] : f) * 1e6;
}

/* t0 + tau k/1024 + hypot(bytes / (a hbm), flop / (b F u)): wave quantization in u. */
static double gemm(const mf_cost *c, enum precision type, double m, double n, double k)
{
	static const mf_const_id first[] = {MF_C_S_GEMM_BF16, MF_C_S_GEMM_FP8B, MF_C_S_GEMM_FP8, MF_C_S_GEMM_FP4};
	static const mf_dtype dtype[] = {MF_BF16, MF_FP8, MF_FP8, MF_FP4};
	static const double weight[] = {2, 1, 1, 0.5625};
	const double *g = curve(c, first[type]);
	double sms = c->in.cluster->sm_count, tiles = ceil(m / 128) * ceil(n / 128), fill, memory, math;

	if (isnan(g[0])) {
		type = BF16;
		g = curve(c, first[BF16]);
	}
	fill = tiles >= sms ? tiles / (ceil(tiles / sms) * sms) : fmin(1, tiles * fmax(1, k / 1024) / sms);
	fill = fmin(1, g[4] + (1 - g[4]) * fill);
	memory = (n * k * weight[type] + m * k * (type == BF16 ? 2 : 1) + 2 * m * n) / (hbm(c) * g[2]);
	math = 2 * fmax(m, 16) * n * k / (peak(c, dtype[type]) * g[3] * fill);
	return g[0] + g[1] * k / 1024 + hypot(memory, math);
}

/* Expected distinct experts hit by `tokens` when popularity is log-uniform over a ratio r. */
static double active_experts(double experts, double topk, double tokens, double r)
{
	double mean = (r - 1) / log(r), hit = 0;

	for (int i = 0; i < 8; i++)
		hit += 1 - pow(1 - fmin(1, topk / experts * pow(r, (2 * i + 1) / 16.0) / mean), tokens);
	return experts * hit / 8;
}

/* Load of the slowest expert-parallel rank over the mean: spread of popularity, sampling, and the workload's own skew. */
static double imbalance(const mf_cost *c, const mf_serve_shape *z, double slots)
{
	const mf_workload *w = c->in.workload;
	double r = mf_k(c, MF_C_S_SKEW), local = c->in.model->experts / (double)z->ep, cv2, x = 1;

	if (z->ep > 1) {
		cv2 = fmax(0, (r + 1) / (r - 1) * log(r) / 2 - 1);
		x = 1 + 0.8 * sqrt(2 * log(z->ep)) * sqrt(cv2 / local + 1 / fmax(slots / z->ep, 1));
	}
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

/* Routed experts of one layer on the slowest rank; `tokens` are those of one MoE data-parallel group. */
static double experts_us(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, double tokens)
{
	static const struct { mf_const_id first; mf_dtype type; } rows[] = {
		[MF_QUANT_NONE] = {MF_C_S_MOE_BF16, MF_BF16}, [MF_QUANT_FP8_BLOCK] = {MF_C_S_MOE_FP8B, MF_FP8},
		[MF_QUANT_FP8] = {MF_C_S_MOE_FP8B, MF_FP8}, [MF_QUANT_NVFP4] = {MF_C_S_MOE_FP4, MF_FP4},
		[MF_QUANT_MXFP4] = {MF_C_S_MOE_MXFP4, MF_BF16}, [MF_QUANT_INT4] = {MF_C_S_MOE_INT4, MF_BF16},
		[MF_QUANT_INT8] = {MF_C_S_MOE_FP8B, MF_FP8}};
	const mf_model *m = c->in.model;
	const double *g = curve(c, rows[m->quant].first);
	mf_dtype type = rows[m->quant].type;
	double h = m->hidden, width = m->moe_ffn / (double)z->mtp, slots = tokens * m->topk, imb = imbalance(c, z, slots);
	double active = active_experts(m->experts, m->topk, tokens, mf_k(c, MF_C_S_SKEW)) / z->ep, mine, rows16, foreign;
	double up = m->gated ? 3 : 2, weights, math, traffic;

	if (isnan(g[0])) {
		g = curve(c, MF_C_S_MOE_BF16);
		type = MF_BF16;
	}
	if (m->quant == MF_QUANT_MXFP4 && c->in.cluster->family == MF_BLACKWELL)
		type = MF_FP8;
	active = fmin(m->experts / (double)z->ep, active * (1 + 0.5 * (imb - 1)));
	mine = slots / z->ep * imb;
	rows16 = mine > active ? 16 * ceil(mine / fmax(active, 1e-9) / 16) * active : 16 * active;
	/* Triton streams foreign slots too, unless an all-to-all delivered local ones alone. */
	foreign = p->a2a == MF_A2A_NONE ? g[4] : 0;
	weights = up * h * width * mf_serve_expert_bytes(m) * active / (hbm(c) * g[1]);
	math = 2 * up * h * width * rows16 / (peak(c, type) * g[2]);
	traffic = (mine + foreign * fmax(0, slots - mine)) * (3 * h + 4 * width) * 2 / (hbm(c) * g[3]);
	return g[0] + hypot(weights, math) + traffic;
}

static double decode_attention(const mf_cost *c, const mf_serve_shape *z, double batch, double context)
{
	const mf_model *m = c->in.model;
	double kv = c->in.workload->fp8_kv ? 1 : 2, hd = m->head_dim;
	const double *g = curve(c, MF_C_S_DEC);

	return g[0] + g[1] * batch * z->kv_heads / c->in.cluster->sm_count
		+ hypot((batch * context * 2 * z->kv_heads * hd * kv + 4 * batch * z->heads * hd) / (hbm(c) * g[2]),
			4 * batch * z->heads * hd * context / (peak(c, MF_BF16) * g[3]));
}

static double prefill_attention(const mf_cost *c, const mf_serve_shape *z, double n, double cached, double window)
{
	const mf_model *m = c->in.model;
	const double *g = curve(c, MF_C_S_CTX);
	double pairs = n * cached + n * n / 2, hd = m->head_dim, io;

	if (window > 0)
		pairs = fmin(pairs, n * (window + 64));
	io = n * hd * (2 * z->heads + 2 * z->kv_heads) * 2 + cached * z->kv_heads * hd * 4;
	return g[0] + g[1] * fmin(n, window > 0 ? window : n) / 1024
		+ 4 * z->heads * hd * pairs / (peak(c, MF_BF16) * g[2] * sqrt(fmin(1, hd / 128))) + io / (hbm(c) * g[3]);
}

static double all_reduce(const mf_cost *c, uint32_t n, double bytes)
{
	const double *g = curve(c, n == 2 ? MF_C_S_AR2 : n == 4 ? MF_C_S_AR4 : MF_C_S_AR8);
	double t;

	if (n <= 1)
		return 0;
	t = g[0] + g[2] * sqrt(bytes) + 2 * bytes * (n - 1) / n / (g[1] * 1e6);
	return n > c->in.cluster->nvlink_domain && n > c->in.cluster->gpus_per_node ? t + 2 * bytes / (mf_k(c, MF_C_S_NIC_TBPS) * 1e6) : t;
}

/* All-gather or reduce-scatter; `bytes` is the whole gathered buffer. */
static double gather(const mf_cost *c, mf_const_id first, uint32_t n, double bytes)
{
	const double *g = curve(c, first);

	return n <= 1 ? 0 : g[0] + g[1] * n + g[3] * sqrt(bytes) + bytes * (n - 1) / n / (g[2] * 1e6);
}

static double small(const mf_cost *c, double kernels, double bytes)
{
	return kernels * mf_k(c, MF_C_S_SMALL_US) + bytes / (hbm(c) * mf_k(c, MF_C_S_SMALL_HBM));
}

static double deepep(const mf_cost *c, const mf_serve_shape *z, double tokens, bool low_latency)
{
	const mf_model *m = c->in.model;
	double nodes = z->nodes, nic = mf_k(c, MF_C_S_NIC_TBPS) * 1e6, h = m->hidden;

	if (low_latency) {
		const double *g = curve(c, MF_C_S_LL);
		double pairs = tokens * h * m->topk, wire = nodes > 1 ? 27 + 3 * pairs * (1 - 1 / nodes) / nic : 0;

		return g[0] + g[2] + fmax(pairs / (g[1] * 1e6) + 2 * pairs / (g[3] * 1e6), wire);
	} else {
		const double *g = curve(c, MF_C_S_NORMAL);
		double ranks = fmin(8, z->n), fan = ranks * (1 - pow(1 - 1 / ranks, m->topk));
		double t = g[0] + g[2] + tokens * h * fan * (1 / (g[1] * 1e6) + 2 / (g[3] * 1e6));

		if (nodes > 1) {
			double visited = nodes * (1 - pow(1 - 1 / nodes, m->topk)) * (1 - 1 / nodes);

			t = fmax(t, g[0] + g[2] + 60 + tokens * h * visited * 3 / nic);
		}
		return t;
	}
}

/* ---- one pass ------------------------------------------------------------------------------------------------------ */

enum part { PART_ATTENTION, PART_EXPERTS, PART_SHARED, PART_DENSE, PART_TP, PART_EXCHANGE, PART_SMALL, PART_HEAD, PART_PIPE,
	PART_LAUNCH, PART_HIDDEN, PART_COUNT };

struct pass {
	double part[PART_COUNT];
	double total;
};

/* What a pass carries on one attention rank: decode requests at a mean context, and prompt tokens after cached ones. */
struct load {
	double batch, context;
	double prompts, prompt_tokens, cached; /* prompts of prompt_tokens each */
};

static enum precision dense_type(const mf_model *m)
{
	switch (m->quant) {
	case MF_QUANT_FP8_BLOCK: return FP8_BLOCK;
	case MF_QUANT_FP8:
	case MF_QUANT_INT8: return FP8;
	case MF_QUANT_NVFP4: return m->attention == MF_MLA ? BF16 : FP4;
	default: return BF16;
	}
}

static double attention_layer(const mf_cost *c, const mf_serve_shape *z, const struct load *l, bool windowed)
{
	const mf_model *m = c->in.model;
	enum precision type = dense_type(m);
	double n = l->prompts * l->prompt_tokens, tokens = l->batch + n, h = m->hidden, t;
	double context = windowed ? fmin(l->context, m->window) : l->context;

	if (m->attention == MF_MLA) {
		const double *dec = curve(c, MF_C_S_MLADEC), *ctx = curve(c, MF_C_S_MLACTX);
		double qd = m->qk_nope + m->qk_rope, kv = c->in.workload->fp8_kv ? 1 : 2, bf16 = peak(c, MF_BF16);

		t = gemm(c, type, tokens, m->q_lora + m->kv_lora + m->qk_rope, h)
			+ gemm(c, type, tokens, z->heads * qd, m->q_lora ? m->q_lora : h) + gemm(c, type, tokens, h, z->heads * m->v_dim);
		if (l->batch > 0) {
			t += 2 * (4.5 + 2 * l->batch * z->heads * m->qk_nope * m->kv_lora / (bf16 * 0.5)
				 + z->heads * m->qk_nope * m->kv_lora * 2 / (hbm(c) * 0.8));
			t += dec[0] + dec[1] * l->batch / c->in.cluster->sm_count
				+ l->batch * context * (m->kv_lora + m->qk_rope) * kv / (hbm(c) * dec[2])
				+ 2 * l->batch * fmax(z->heads, 16) * context * (2.0 * m->kv_lora + m->qk_rope) / (bf16 * dec[3]);
		}
		if (n > 0)
			t += gemm(c, type, n, z->heads * (m->qk_nope + m->v_dim), m->kv_lora)
				+ l->prompts * (ctx[0] + ctx[1] * l->prompt_tokens * z->heads / 1e6
					+ 2 * z->heads * (l->prompt_tokens * l->cached + l->prompt_tokens * l->prompt_tokens / 2)
						* (qd + m->v_dim) / (bf16 * ctx[2]));
		return t / z->cp;
	}
	t = gemm(c, type, tokens, (z->heads + 2 * z->kv_heads) * m->head_dim, h)
		+ gemm(c, type, tokens, h, z->heads * m->head_dim);
	if (l->batch > 0)
		t += decode_attention(c, z, l->batch, context);
	if (n > 0)
		t += l->prompts * prefill_attention(c, z, l->prompt_tokens, l->cached, windowed ? m->window : 0);
	return t / z->cp;
}

static double exchange(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, double tokens, bool prompt)
{
	const mf_model *m = c->in.model;
	double group = tokens * z->dp, h = m->hidden;

	if (p->a2a != MF_A2A_NONE)
		return deepep(c, z, group / z->n, p->deepep_mode == MF_DM_LOW_LATENCY || (p->deepep_mode == MF_DM_AUTO && !prompt));
	if (z->dp == 1)
		return all_reduce(c, z->n, 2 * tokens * h);
	return gather(c, MF_C_S_AG, z->n, group * h * mf_serve_dense_bytes(m)) + gather(c, MF_C_S_RS, z->n, group * h * 2);
}

static void run_pass(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const struct load *l, struct pass *out)
{
	const mf_model *m = c->in.model;
	enum precision type = dense_type(m);
	double n = l->prompts * l->prompt_tokens, tokens = fmax(1, l->batch + n), h = m->hidden;
	double moe = m->moe_layers, dense = m->layers - moe, rows = l->batch + l->prompts, vocab = m->vocab, shared_tp, comm;
	bool prompt = n > 0;

	memset(out, 0, sizeof *out);
	out->part[PART_ATTENTION] = (m->layers - m->window_layers) * attention_layer(c, z, l, false);
	if (m->window_layers)
		out->part[PART_ATTENTION] += m->window_layers * attention_layer(c, z, l, true);
	if (moe > 0) {
		out->part[PART_EXPERTS] = moe * (gemm(c, BF16, tokens, m->experts, h) + 3.5
			+ experts_us(c, p, z, tokens * z->dp / z->moe_dp));
		out->part[PART_EXCHANGE] = moe * exchange(c, p, z, tokens, prompt);
	}
	if (m->shared_ffn) {
		shared_tp = p->a2a != MF_A2A_NONE ? 1 : z->n;
		out->part[PART_SHARED] = moe * (prompt ? 1 : mf_k(c, MF_C_S_SHARED))
			* (gemm(c, type, tokens, 2 * m->shared_ffn / shared_tp, h) + gemm(c, type, tokens, h, m->shared_ffn / shared_tp));
	}
	if (dense > 0)
		out->part[PART_DENSE] = dense * (gemm(c, type, tokens, 2.0 * m->ffn / z->tp, h)
			+ gemm(c, type, tokens, h, m->ffn / (double)z->tp) + all_reduce(c, z->tp, 2 * tokens * h));
	out->part[PART_TP] = m->layers * all_reduce(c, z->tp, 2 * tokens * h);
	if (m->qk_norm_whole && z->tp > 1)
		out->part[PART_TP] += m->layers * (all_reduce(c, z->tp, 8 * tokens) + 3 * mf_k(c, MF_C_S_SMALL_US));
	out->part[PART_SMALL] = m->layers * small(c, mf_k(c, MF_C_S_SMALL_N) + (type == BF16 ? 0 : 2), 16 * tokens * h);
	out->part[PART_HEAD] = gemm(c, BF16, fmax(1, rows), vocab / z->tp, h)
		+ small(c, 4, 2 * tokens * h + 8 * rows * vocab / z->tp) + mf_k(c, MF_C_S_SAMPLE_US)
		+ (z->tp > 1 ? gather(c, MF_C_S_AG, z->tp, 2 * rows * vocab) : 0);
	if (z->pp > 1)
		out->part[PART_PIPE] = 2.0 * (z->pp - 1) * (10 + 2 * tokens * h / (c->in.cluster->link_gbps * 0.7e3));
	if (!prompt && p->graph == MF_GRAPH_OFF)
		out->part[PART_LAUNCH] = m->layers * mf_k(c, MF_C_S_EAGER_US);
	for (int i = 0; i < PART_HIDDEN; i++)
		out->total += out->part[i];
	if (p->overlap) {
		/* Two halves take turns: what is shorter hides behind what is longer, but for a rest. */
		comm = out->part[PART_EXCHANGE];
		out->part[PART_HIDDEN] = -(fmin(comm, out->total - comm) * (1 - mf_k(c, MF_C_S_TBO)));
		out->total += out->part[PART_HIDDEN];
	}
}

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

struct loop {
	struct pass decode, prompt;
	double batch;                 /* running requests on a rank */
	double prompt_us, tpot_us, ttft_us, tokens_per_us;
};

static void run_loop(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_bytes *b, struct loop *o)
{
	const mf_workload *w = c->in.workload;
	double in = w->input_tokens, out = w->output_tokens, total = fmax(1, (double)w->concurrency / (p->replicas ? p->replicas : 1));
	double wanted = fmax(1, total / z->dp), room, chunk = mf_serve_chunk(c, p, z), pieces, host, stall, cycle, rho, burst;
	struct load load = {0};

	room = (b->room - b->kv_request) / fmax(1, b->kv_token * (in + mf_k(c, MF_C_S_RESERVE) * out));
	o->batch = fmax(1, fmin(fmin(wanted, room), 2048));
	total = fmin(total, o->batch * z->dp);
	load.batch = o->batch;
	load.context = in + out / 2;
	run_pass(c, p, z, &load, &o->decode);

	/* Prompts run alone under SGLang: long ones in pieces, short ones grouped to a chunk. */
	pieces = fmax(1, ceil(in / chunk));
	load = (struct load){0, 0, fmax(1, floor(chunk / in)), in / pieces, in * (pieces - 1) / pieces / 2};
	load.prompts = pieces > 1 ? 1 : fmin(load.prompts, fmax(1, o->batch));
	run_pass(c, p, z, &load, &o->prompt);
	o->prompt_us = o->prompt.total * pieces / load.prompts;
	stall = o->prompt_us;
	o->tpot_us = o->decode.total + fmax(0, total - 1) * stall / (fmin(z->dp, total) * out);
	cycle = o->prompt_us + out * o->tpot_us;
	rho = fmin(0.98, fmax(0, total - 1) * o->prompt_us / (fmin(z->dp, total) * cycle));
	burst = fmax(0, total / fmin(z->dp, total) - 1) / 2 * o->prompt_us / mf_k(c, MF_C_S_WAVES);
	host = mf_k(c, MF_C_S_HOST_MS) * 1e3 * c->in.model->layers * (1 + total / 40.0);
	o->ttft_us = o->prompt.total * pieces + o->decode.total / 2 + rho * o->prompt_us / (2 * (1 - 0.7 * rho)) + burst
		+ mf_k(c, MF_C_S_REQUEST_MS) * 1e3 + host;
	if (o->batch < wanted)
		o->ttft_us += mf_k(c, MF_C_S_QUEUE) * (wanted - o->batch) / o->batch * cycle;
	/* pp micro-batches are in the pipe at once, less its fill and drain. */
	o->tokens_per_us = total * out / cycle * z->pp * z->pp / (2.0 * z->pp - 1);
}

static const struct { const char *name, *formula; mf_const_id consts[4]; uint8_t n; } parts[PART_COUNT] = {
	[PART_ATTENTION] = {"attention", "projections + decode or prefill core, per layer; MLA absorbed in decode",
		{MF_C_S_DEC, MF_C_S_DEC_A, MF_C_S_MLADEC, MF_C_S_MLADEC_A}, 4},
	[PART_EXPERTS] = {"experts", "router + t0 + hypot(weights of distinct experts, flop of padded rows) + activation traffic",
		{MF_C_S_MOE_BF16, MF_C_S_MOE_BF16_A, MF_C_S_MOE_FP8B, MF_C_S_SKEW}, 4},
	[PART_SHARED] = {"shared experts", "two GEMMs; on a side stream in decode", {MF_C_S_SHARED}, 1},
	[PART_DENSE] = {"dense layers", "two GEMMs and an all-reduce", {MF_C_S_GEMM_BF16, MF_C_S_GEMM_BF16_A}, 2},
	[PART_TP] = {"tensor-parallel all-reduce", "t0 + r sqrt(bytes) + 2 bytes (n-1)/n / bus", {MF_C_S_AR8, MF_C_S_AR8_BUS}, 2},
	[PART_EXCHANGE] = {"dispatch and combine", "all-reduce; all-gather + reduce-scatter under attention DP; DeepEP",
		{MF_C_S_AG, MF_C_S_RS, MF_C_S_LL, MF_C_S_NORMAL}, 4},
	[PART_SMALL] = {"small kernels", "n x small_kernel_us + 16 T h / (share of hbm)", {MF_C_S_SMALL_US, MF_C_S_SMALL_N}, 2},
	[PART_HEAD] = {"head and sampling", "GEMM(rows, V/tp, h) + gather of logits + sampler", {MF_C_S_SAMPLE_US}, 1},
	[PART_PIPE] = {"pipeline transfers", "2 (pp-1) (10 us + 2 T h / link)", {0}, 0},
	[PART_LAUNCH] = {"kernel launches", "layers x eager_layer_us without CUDA graphs", {MF_C_S_EAGER_US}, 1},
	[PART_HIDDEN] = {"hidden by two-batch overlap", "-(1 - rest) x min(exchange, everything else)", {MF_C_S_TBO}, 1},
};

static void explain_pass(const struct pass *pass, const char *inputs, bool extrapolated, mf_explain *ex)
{
	for (int i = 0; i < PART_COUNT; i++) {
		mf_term *t;

		if (pass->part[i] == 0)
			continue;
		t = mf_explain_term(ex, parts[i].name, pass->part[i] / 1e3, parts[i].formula);
		snprintf(t->inputs, sizeof t->inputs, "%s", inputs);
		memcpy(t->consts, parts[i].consts, sizeof parts[i].consts);
		t->n_consts = parts[i].n;
		t->extrapolated = extrapolated;
	}
}

void mf_serve_time_eval(mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex)
{
	const mf_model *m = c->in.model;
	mf_serve_shape z;
	mf_serve_bytes b;
	struct loop loop;
	double tax = mf_k(c, MF_C_TAX_SERVE), gpus, tokens_per_expert;

	*out = (mf_time){NAN, NAN, NAN, NAN, NAN, NAN, NAN, false};
	if (!mf_serve_shape_of(c, p, &z) || !c->in.workload->output_tokens || !c->in.workload->input_tokens)
		return;
	mf_serve_bytes_of(c, p, &z, &b);
	run_loop(c, p, &z, &b, &loop);
	gpus = (double)z.n * z.pp;
	out->throughput = loop.tokens_per_us * 1e6 / gpus;
	if (c->opts.tax && p->kernel && !isnan(tax))
		out->throughput /= 1 + tax;
	out->step_ms = loop.decode.total / 1e3;
	out->ttft_ms = loop.ttft_us / 1e3;
	out->tpot_ms = loop.tpot_us / 1e3;
	out->hidden_fraction = p->overlap && loop.decode.part[PART_EXCHANGE] > 0
		? -loop.decode.part[PART_HIDDEN] / loop.decode.part[PART_EXCHANGE] : 0;
	out->bubble_fraction = z.pp > 1 ? (z.pp - 1.0) / (2.0 * z.pp - 1) : 0;
	out->batch = loop.batch * z.dp;
	tokens_per_expert = m->experts ? loop.batch * z.dp * m->topk / m->experts : loop.batch;
	out->extrapolated = mf_consts_extrapolated(c->k, c->in.cluster, dense_type(m) == BF16 ? MF_BF16 : MF_FP8, tokens_per_expert,
		c->world);
	if (ex) {
		char inputs[160];

		snprintf(inputs, sizeof inputs, "decode pass: batch %.0f a rank, context %.0f, tp %u dp %u ep %u", loop.batch,
			c->in.workload->input_tokens + c->in.workload->output_tokens / 2.0, z.tp, z.dp, z.ep);
		explain_pass(&loop.decode, inputs, out->extrapolated, ex);
		mf_explain_term(ex, "prompt stalls", (loop.tpot_us - loop.decode.total) / 1e3,
			"(running requests - 1) x prompt pass / (ranks x output tokens)");
	}
}
