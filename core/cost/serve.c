/*
 * serve.c: TTFT, TPOT and throughput of a serving plan in closed form. A forward pass is the sum of its operations'
 * curves; a closed loop of requests turns decode passes and prompt passes into the figures. Curves, constants and their
 * errors: consts_serve.def and the man page of overlays. Inside, times are microseconds.
 */
#include "curves.h"
#include "serve_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- state ---------------------------------------------------------------------------------------------------------
 */

#define POPULARITY_STEPS 8
#define MEMO_SLOTS 4096

struct answer {
	mf_plan key;  /* the fields that time depends on, the others zero; tp 0 marks an empty slot */
	mf_time time; /* before tax */
};

/* Runners, expert maps and kernels of one layout share their time, so a search asks the same question many times over.
 */
struct mf_serve_state {
	mf_gpu_rates rates;
	double log_miss[POPULARITY_STEPS]; /* ln of the chance that one token misses an expert, by popularity */
	struct answer memo[MEMO_SLOTS];    /* by hash of the key; a later one replaces an earlier */
};

/* Popularity is log-uniform over a ratio r: the chance that a token picks the expert at u of the range. */
mf_status mf_serve_state_new(mf_cost *c, mf_err *err)
{
	struct mf_serve_state *s = calloc(1, sizeof *s);
	const mf_model *m = c->in.model;
	double r = mf_k(c, MF_C_S_SKEW), mean = r > 1.001 ? (r - 1) / log(r) : 1;

	if (!s)
		return mf_fail(err, MF_ENOMEM, "out of memory for the serving model");
	for (int i = 0; i < POPULARITY_STEPS && m->experts; i++) {
		double u = (2 * i + 1) / (2.0 * POPULARITY_STEPS);

		s->log_miss[i] = log(1 - fmin(1, m->topk / (double)m->experts * (r > 1.001 ? pow(r, u) : 1) / mean));
	}
	s->rates = mf_gpu_rates_of(c->in.cluster);
	c->serve = s;
	return MF_OK;
}

void mf_serve_state_free(struct mf_serve_state *s)
{
	free(s);
}

/* ---- curves --------------------------------------------------------------------------------------------------------
 */

/* Consecutive constants of one curve. */
static const double *curve(const mf_cost *c, mf_const_id first)
{
	return &c->k->v[first];
}

static double hbm(const mf_cost *c)
{
	return c->serve->rates.hbm;
}

static double gemm(const mf_cost *c, mf_linear type, double m, double n, double k)
{
	static const mf_const_id first[] = {MF_C_S_GEMM_BF16, MF_C_S_GEMM_FP8B, MF_C_S_GEMM_FP8, MF_C_S_GEMM_FP4};
	const double *g = curve(c, first[type]);

	if (isnan(g[0])) {
		type = MF_LIN_BF16;
		g = curve(c, first[type]);
	}
	return mf_gemm_us(g, &c->serve->rates, type, m, n, k);
}

/* Expected distinct experts hit by `tokens`. */
static double active_experts(const mf_cost *c, double tokens)
{
	double hit = 0;

	for (int i = 0; i < POPULARITY_STEPS; i++)
		hit += 1 - exp(tokens * c->serve->log_miss[i]);
	return c->in.model->experts * hit / POPULARITY_STEPS;
}

/* Load of the slowest expert-parallel rank over the mean: spread of popularity, sampling, and the workload's own skew.
 */
static double imbalance(const mf_cost *c, const mf_serve_shape *z, double slots)
{
	const mf_workload *w = c->in.workload;
	double r = mf_k(c, MF_C_S_SKEW), local = c->in.model->experts / (double)z->ep, cv2, x = 1;

	if (z->ep > 1) {
		cv2 = r > 1.001 ? fmax(0, (r + 1) / (r - 1) * log(r) / 2 - 1) : 0;
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

/* First constant of the curve that the checkpoint's experts run on, and the arithmetic behind it. */
static mf_const_id expert_curve(const mf_cost *c, mf_dtype *type)
{
	static const struct {
		mf_const_id first;
		mf_dtype type;
	} rows[] = {[MF_QUANT_NONE] = {MF_C_S_MOE_BF16, MF_BF16},
		[MF_QUANT_FP8_BLOCK] = {MF_C_S_MOE_FP8B, MF_FP8},
		[MF_QUANT_FP8] = {MF_C_S_MOE_FP8B, MF_FP8},
		[MF_QUANT_NVFP4] = {MF_C_S_MOE_FP4, MF_FP4},
		[MF_QUANT_MXFP4] = {MF_C_S_MOE_MXFP4, MF_BF16},
		[MF_QUANT_INT4] = {MF_C_S_MOE_INT4, MF_BF16},
		[MF_QUANT_INT8] = {MF_C_S_MOE_FP8B, MF_FP8}};
	mf_quant quant = c->in.model->quant;
	mf_const_id first = rows[quant].first;

	*type = rows[quant].type;
	if (isnan(mf_k(c, first))) {
		first = MF_C_S_MOE_BF16;
		*type = MF_BF16;
	}
	if (quant == MF_QUANT_MXFP4 && c->in.cluster->family == MF_BLACKWELL)
		*type = MF_FP8;
	return first;
}

/* Routed experts of one layer on the slowest rank; `tokens` are those of one MoE data-parallel group. */
static double experts_us(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, double tokens)
{
	const mf_model *m = c->in.model;
	mf_dtype type;
	const double *g = curve(c, expert_curve(c, &type));
	double slots = tokens * m->topk, imb = imbalance(c, z, slots);
	mf_experts_shape s = {.hidden = m->hidden,
		.width = m->moe_ffn / (double)z->mtp,
		.matrices = m->gated ? 3 : 2,
		.weight_bytes = mf_serve_expert_bytes(m)};

	s.active = fmin(m->experts / (double)z->ep, active_experts(c, tokens) / z->ep * (1 + 0.5 * (imb - 1)));
	s.mine = slots / z->ep * imb;
	/* Triton streams foreign slots too, unless an all-to-all delivered local ones alone. */
	s.streamed = p->a2a == MF_A2A_NONE ? slots : s.mine;
	return mf_experts_us(g, &c->serve->rates, c->serve->rates.peak[type], &s);
}

/* Share of the bus rate that the cluster's NVLink leaves, against the link the tables were measured on. */
static double link_share(const mf_cost *c)
{
	return fmin(1, c->in.cluster->link_gbps / mf_k(c, MF_C_S_LINK_REF));
}

static double nic(const mf_cost *c)
{
	return c->in.cluster->nic_gbps * 1e3 * mf_k(c, MF_C_S_NIC_FRAC);
}

static mf_const_id all_reduce_curve(const mf_cost *c, uint32_t n)
{
	if (c->in.cluster->fabric == MF_FABRIC_PCIE)
		return MF_C_S_PAR;
	return n == 2 ? MF_C_S_AR2 : n <= 4 ? MF_C_S_AR4 : MF_C_S_AR8;
}

static double all_reduce(const mf_cost *c, uint32_t n, double bytes)
{
	const mf_cluster *cl = c->in.cluster;
	bool pcie = cl->fabric == MF_FABRIC_PCIE;
	double t;

	if (n <= 1)
		return 0;
	t = mf_all_reduce_us(curve(c, all_reduce_curve(c, n)), n, bytes, pcie ? 1 : link_share(c));
	return n > cl->nvlink_domain && n > cl->gpus_per_node ? t + 2 * bytes / nic(c) : t;
}

/* All-gather or reduce-scatter; `bytes` is the whole gathered buffer. */
static double gather(const mf_cost *c, mf_const_id first, uint32_t n, double bytes)
{
	const mf_cluster *cl = c->in.cluster;
	bool pcie = cl->fabric == MF_FABRIC_PCIE;
	double t;

	if (n <= 1)
		return 0;
	t = mf_collective_us(curve(c, pcie ? MF_C_S_PAG : first), n, bytes, pcie ? 1 : link_share(c));
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
	const double *g = curve(c, low_latency ? MF_C_S_LL : MF_C_S_NORMAL);

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

/* ---- one pass ------------------------------------------------------------------------------------------------------
 */

enum part {
	PART_ATTENTION,
	PART_EXPERTS,
	PART_SHARED,
	PART_DENSE,
	PART_TP,
	PART_EXCHANGE,
	PART_SMALL,
	PART_HEAD,
	PART_PIPE,
	PART_LAUNCH,
	PART_HIDDEN,
	PART_COUNT
};

struct pass {
	double part[PART_COUNT];
	double total;
};

/* What a pass carries on one attention rank: decode requests at a mean context, and prompt tokens after cached ones. */
struct load {
	double batch, context;
	double prompts, prompt_tokens, cached; /* prompts of prompt_tokens each */
	double group;                          /* tokens of all attention ranks together */
};

static mf_linear dense_type(const mf_model *m)
{
	switch (m->quant) {
	case MF_QUANT_FP8_BLOCK: return MF_LIN_FP8_BLOCK;
	case MF_QUANT_FP8:
	case MF_QUANT_INT8: return MF_LIN_FP8;
	case MF_QUANT_NVFP4: return m->attention == MF_MLA ? MF_LIN_BF16 : MF_LIN_FP4;
	default: return MF_LIN_BF16;
	}
}

static double attention_layer(const mf_cost *c, const mf_serve_shape *z, const struct load *l, bool windowed)
{
	const mf_model *m = c->in.model;
	mf_linear type = dense_type(m);
	double n = l->prompts * l->prompt_tokens, tokens = l->batch + n, h = m->hidden, t;
	double context = windowed ? fmin(l->context, m->window) : l->context, kv = c->in.workload->fp8_kv ? 1 : 2;
	const mf_gpu_rates *r = &c->serve->rates;

	if (m->attention == MF_MLA) {
		double qd = m->qk_nope + m->qk_rope;

		t = gemm(c, type, tokens, m->q_lora + m->kv_lora + m->qk_rope, h) +
		    gemm(c, type, tokens, z->heads * qd, m->q_lora ? m->q_lora : h) +
		    gemm(c, type, tokens, h, z->heads * m->v_dim);
		if (l->batch > 0)
			t += 2 * mf_mla_bmm_us(curve(c, MF_C_S_BMM), r, l->batch, z->heads, m->qk_nope, m->kv_lora) +
			     mf_mla_decode_us(curve(c, MF_C_S_MLADEC), r, l->batch, z->heads, m->kv_lora, m->qk_rope,
				     kv, context);
		if (n > 0)
			t += gemm(c, type, n, z->heads * (m->qk_nope + m->v_dim), m->kv_lora) +
			     l->prompts * mf_mla_prefill_us(curve(c, MF_C_S_MLACTX), r, l->prompt_tokens, l->cached,
						  z->heads, qd, m->v_dim);
		return t / z->cp;
	}
	t = gemm(c, type, tokens, (z->heads + 2 * z->kv_heads) * m->head_dim, h) +
	    gemm(c, type, tokens, h, z->heads * m->head_dim);
	if (l->batch > 0)
		t += mf_decode_us(curve(c, MF_C_S_DEC), r, l->batch, z->heads, z->kv_heads, m->head_dim, kv, context);
	if (n > 0)
		t += l->prompts * mf_prefill_us(curve(c, MF_C_S_CTX), r, l->prompt_tokens, l->cached,
					  windowed ? m->window : 0, z->heads, z->kv_heads, m->head_dim);
	return t / z->cp;
}

/* All-gather of the tokens of every attention rank, reduce-scatter of what the layer made of them. */
static double gather_scatter(const mf_cost *c, const mf_serve_shape *z, double group, double bytes)
{
	double h = c->in.model->hidden;

	return gather(c, MF_C_S_AG, z->n, group * h * bytes) + gather(c, MF_C_S_RS, z->n, group * h * 2);
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

static void price_pass(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const struct load *l, struct pass *out)
{
	const mf_model *m = c->in.model;
	mf_linear type = dense_type(m);
	double n = l->prompts * l->prompt_tokens, tokens = fmax(1, l->batch + n), group = fmax(tokens, l->group),
	       h = m->hidden;
	double moe = m->moe_layers, dense = m->layers - moe, rows = l->batch + l->prompts, vocab = m->vocab, width,
	       wide;
	bool prompt = n > 0;

	memset(out, 0, sizeof *out);
	out->part[PART_ATTENTION] = (m->layers - m->window_layers) * attention_layer(c, z, l, false);
	if (m->window_layers)
		out->part[PART_ATTENTION] += m->window_layers * attention_layer(c, z, l, true);
	if (moe > 0) {
		out->part[PART_EXPERTS] = moe * (gemm(c, MF_LIN_BF16, tokens, m->experts, h) + 3.5 +
							experts_us(c, p, z, group / z->moe_dp));
		out->part[PART_EXCHANGE] = moe * exchange(c, p, z, tokens, group, prompt);
	}
	/* Split over the whole stage and fed the gathered tokens under attention DP; whole and local behind an
	 * all-to-all. */
	if (m->shared_ffn) {
		width = p->a2a != MF_A2A_NONE ? m->shared_ffn : m->shared_ffn / (double)z->n;
		wide = p->a2a == MF_A2A_NONE ? group : tokens;
		out->part[PART_SHARED] = moe * (prompt ? 1 : mf_k(c, MF_C_S_SHARED)) *
					 (gemm(c, type, wide, 2 * width, h) + gemm(c, type, wide, h, width));
	}
	if (dense > 0) {
		width = m->ffn / (double)z->n;
		out->part[PART_DENSE] = dense * (gemm(c, type, group, 2 * width, h) + gemm(c, type, group, h, width) +
							(z->dp > 1 ? gather_scatter(c, z, group, 2)
								   : all_reduce(c, z->n, 2 * tokens * h)));
	}
	out->part[PART_TP] = m->layers * all_reduce(c, z->tp, 2 * tokens * h);
	if (m->qk_norm_whole && z->tp > 1)
		out->part[PART_TP] += m->layers * (all_reduce(c, z->tp, 8 * tokens) + 3 * mf_k(c, MF_C_S_SMALL_US));
	out->part[PART_SMALL] =
		m->layers * small(c, mf_k(c, MF_C_S_SMALL_N) + (type == MF_LIN_BF16 ? 0 : 2), 16 * tokens * h);
	out->part[PART_HEAD] = gemm(c, MF_LIN_BF16, fmax(1, rows), vocab / z->tp, h) +
			       small(c, 4, 2 * tokens * h + 8 * rows * vocab / z->tp) + mf_k(c, MF_C_S_SAMPLE_US) +
			       (z->tp > 1 ? gather(c, MF_C_S_AG, z->tp, 2 * rows * vocab) : 0);
	if (z->pp > 1)
		out->part[PART_PIPE] =
			2 * (10 + 2 * tokens * h /
					    (c->in.cluster->fabric == MF_FABRIC_PCIE ? 0.05e6 : 0.3e6 * link_share(c)));
	if (!prompt && p->graph == MF_GRAPH_OFF)
		out->part[PART_LAUNCH] = m->layers * mf_k(c, MF_C_S_EAGER_US);
}

/* A pass, in two halves that take turns when the plan overlaps them: the shorter of compute and exchange hides. */
static void run_pass(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const struct load *l, struct pass *out)
{
	bool halves = p->overlap && l->prompts <= 0;
	double comm, compute = 0, rest = 0;
	struct load half = *l;

	if (halves) {
		half.batch /= 2;
		half.group /= 2;
	}
	price_pass(c, p, z, &half, out);
	for (int i = 0; halves && i < PART_HIDDEN; i++)
		out->part[i] *= 2;
	if (p->overlap) {
		comm = out->part[PART_EXCHANGE];
		for (int i = 0; i < PART_HIDDEN; i++)
			compute += i == PART_EXCHANGE ? 0 : out->part[i];
		/* Decode pays a rest of one half's exchange; a prompt's pieces are long enough to hide it. */
		if (halves)
			rest = mf_k(c, MF_C_S_TBO) * comm / 2;
		out->part[PART_HIDDEN] = rest - fmin(comm, compute);
	}
	for (int i = 0; i < PART_COUNT; i++)
		out->total += out->part[i];
}

/* ---- the loop ------------------------------------------------------------------------------------------------------
 */

struct loop {
	struct pass decode, prompt;
	double batch;             /* running requests on a rank */
	double running;           /* of the engine */
	double in_flight;         /* micro-batches in the pipeline */
	double bubble_us;         /* its fill and drain: a stage idles pp-1 of 2 pp-1 slots at prompt boundaries */
	double stall_us, tpot_us; /* prompts in the way of a token; sum of pass, bubble and stall */
	double prompt_us, wait_us, front_us, queue_us, ttft_us; /* TTFT and its parts */
	double tokens_per_us;
};

/* All pieces of one long prompt, `ranks` of them going at once over the attention ranks. */
static double whole_prompt(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, double tokens, double chunk,
	double ranks, struct pass *last)
{
	double t = 0;

	for (double done = 0; done < tokens; done += chunk) {
		double n = fmin(chunk, tokens - done);
		struct load l = {.prompts = 1, .prompt_tokens = n, .cached = done, .group = n * ranks};

		run_pass(c, p, z, &l, last);
		t += last->total;
	}
	return t;
}

/*
 * A closed loop of `concurrency` requests of equal lengths. SGLang runs prompts alone, so every prompt pass stalls the
 * decode of all; prompts that are ready together share a pass, as many as fit the chunk, and all attention ranks go at
 * once.
 */
static void run_loop(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_bytes *b, struct loop *o)
{
	const mf_workload *w = c->in.workload;
	double in = w->input_tokens, out = w->output_tokens,
	       clients = fmax(1, (double)w->concurrency / (p->replicas ? p->replicas : 1));
	double wanted = fmax(1, clients / z->dp), chunk = mf_serve_chunk(c, p, z), ranks, grouped, alone, a_prompt,
	       others, cycle, rho;
	double burst;
	struct load load = {0};
	struct pass pass;

	o->batch = fmin(wanted, b->room / (b->kv_request + b->kv_token * (in + mf_k(c, MF_C_S_RESERVE) * out)));
	o->batch = fmax(1, fmin(o->batch, 2048));
	o->running = fmin(clients, o->batch * z->dp);
	/* The requests go through a pipeline as one micro-batch a stage, so a pass carries only its share of them. */
	o->in_flight = fmax(1, fmin(z->pp, o->batch));
	load.batch = o->batch / o->in_flight;
	load.context = in + out / 2;
	load.group = o->running / o->in_flight;
	run_pass(c, p, z, &load, &o->decode);
	o->bubble_us = o->decode.total * (o->in_flight - 1) / o->in_flight;

	ranks = fmin(z->dp, o->running);
	alone = whole_prompt(c, p, z, in, chunk, ranks, &o->prompt);
	grouped = fmin(floor(fmin(wanted, fmax(1, chunk / in)) + 0.5), fmax(1, floor(wanted)));
	a_prompt = alone / ranks;
	burst = (wanted - 1) / 2 * alone;
	if (grouped > 1) {
		load = (struct load){.prompts = grouped, .prompt_tokens = in, .group = in * grouped * ranks};
		run_pass(c, p, z, &load, &pass);
		a_prompt = pass.total / (grouped * ranks);
		burst = (wanted / grouped + 1) / 2 * pass.total - alone;
	}
	others = fmax(0, o->running - 1);
	/* A stage is busy with a prompt for its share of the layers. */
	o->stall_us = others * a_prompt / (out * o->in_flight);
	o->tpot_us = o->decode.total + o->bubble_us + o->stall_us;
	cycle = alone + out * o->tpot_us;
	rho = fmin(0.95, others * alone / (ranks * cycle));
	o->wait_us = o->decode.total / 2 + rho * alone / (2 * (1 - 0.7 * rho)) + fmax(0, burst) / mf_k(c, MF_C_S_WAVES);
	o->prompt_us = alone;
	o->front_us = mf_k(c, MF_C_S_REQUEST_MS) * 1e3 +
		      mf_k(c, MF_C_S_HOST_MS) * 1e3 * c->in.model->layers * (1 + clients / 40);
	o->queue_us = o->batch + 0.5 < wanted ? mf_k(c, MF_C_S_QUEUE) * (wanted - o->batch) / o->batch * cycle : 0;
	o->ttft_us = o->prompt_us + o->wait_us + o->front_us + o->queue_us;
	o->tokens_per_us = o->running * out / cycle;
}

static const struct {
	const char *name, *formula;
	mf_const_id consts[4];
	uint8_t n;
} parts[PART_COUNT] = {
	[PART_ATTENTION] = {"attention", "projections + decode or prefill core, per layer; MLA absorbed in decode", {0},
		0},
	[PART_EXPERTS] = {"experts",
		"router + t0 + hypot(weights of distinct experts, flop of padded rows) + activation traffic",
		{MF_C_S_SKEW}, 1},
	[PART_SHARED] = {"shared experts", "two GEMMs; on a side stream in decode", {MF_C_S_SHARED}, 1},
	[PART_DENSE] = {"dense layers", "two GEMMs and an exchange", {0}, 0},
	[PART_TP] = {"tensor-parallel all-reduce", "t0 + r sqrt(bytes) + 2 bytes (n-1)/n / bus", {0}, 0},
	[PART_EXCHANGE] = {"dispatch and combine", "all-reduce; all-gather + reduce-scatter under attention DP; DeepEP",
		{0}, 0},
	[PART_SMALL] = {"small kernels", "n x small_kernel_us + 16 T h / (share of hbm)",
		{MF_C_S_SMALL_US, MF_C_S_SMALL_N}, 2},
	[PART_HEAD] = {"head and sampling", "GEMM(rows, V/tp, h) + gather of logits + sampler", {MF_C_S_SAMPLE_US}, 1},
	[PART_PIPE] = {"pipeline transfers", "2 (10 us + 2 T h / 0.3 TB/s), the link's share of it", {0}, 0},
	[PART_LAUNCH] = {"kernel launches", "layers x eager_layer_us without CUDA graphs", {MF_C_S_EAGER_US}, 1},
	[PART_HIDDEN] = {"hidden by two-batch overlap",
		"rest x half exchange - min(exchange, everything else), of two half batches", {MF_C_S_TBO}, 1},
};

static void add_curve(mf_term *t, mf_const_id first, int n)
{
	for (int i = 0; i < n && t->n_consts < MF_TERM_MAX_CONSTS; i++)
		t->consts[t->n_consts++] = (mf_const_id)(first + i);
}

/* Constants of the curves that this plan's decode pass reads. */
static void add_curves(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, int part, mf_term *t)
{
	static const mf_const_id gemms[] = {MF_C_S_GEMM_BF16, MF_C_S_GEMM_FP8B, MF_C_S_GEMM_FP8, MF_C_S_GEMM_FP4};
	mf_const_id dense = gemms[dense_type(c->in.model)];
	mf_dtype type;

	switch (part) {
	case PART_ATTENTION:
		add_curve(t, c->in.model->attention == MF_MLA ? MF_C_S_MLADEC : MF_C_S_DEC, 4);
		add_curve(t, isnan(mf_k(c, dense)) ? MF_C_S_GEMM_BF16 : dense, 4);
		break;
	case PART_EXPERTS: add_curve(t, expert_curve(c, &type), 5); break;
	case PART_DENSE: add_curve(t, isnan(mf_k(c, dense)) ? MF_C_S_GEMM_BF16 : dense, 5); break;
	case PART_TP: add_curve(t, all_reduce_curve(c, z->tp), 3); break;
	case PART_EXCHANGE:
		if (p->a2a != MF_A2A_NONE)
			add_curve(t, p->deepep_mode == MF_DM_NORMAL ? MF_C_S_NORMAL : MF_C_S_LL, 4);
		else if (z->dp == 1)
			add_curve(t, all_reduce_curve(c, z->n), 3);
		else if (c->in.cluster->fabric == MF_FABRIC_PCIE)
			add_curve(t, MF_C_S_PAG, 4);
		else
			add_curve(t, MF_C_S_AG, 8);
		break;
	default: break;
	}
}

static void explain_pass(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const struct pass *pass,
	const char *inputs, bool extrapolated, mf_explain *ex)
{
	for (int i = 0; i < PART_COUNT; i++) {
		mf_term *t;

		if (pass->part[i] == 0)
			continue;
		t = mf_explain_term(ex, parts[i].name, pass->part[i] / 1e3, parts[i].formula);
		snprintf(t->inputs, sizeof t->inputs, "%s", inputs);
		memcpy(t->consts, parts[i].consts, sizeof parts[i].consts);
		t->n_consts = parts[i].n;
		add_curves(c, p, z, i, t);
		t->extrapolated = extrapolated;
	}
}

static void ttft_term(mf_explain *ex, const char *name, double us, const char *formula, const char *inputs,
	mf_const_id a, mf_const_id b)
{
	mf_term *t = mf_explain_term(ex, name, us / 1e3, formula);

	snprintf(t->inputs, sizeof t->inputs, "%s", inputs);
	t->consts[t->n_consts++] = a;
	if (b != a)
		t->consts[t->n_consts++] = b;
}

static mf_plan memo_key(const mf_plan *p)
{
	mf_plan k = {0};

	k.tp = p->tp;
	k.cp = p->cp;
	k.pp = p->pp;
	k.ep = p->ep;
	k.moe_dp = p->moe_dp;
	k.replicas = p->replicas;
	k.prefill_chunk = p->prefill_chunk;
	k.redundant = p->redundant;
	k.overlap = p->overlap;
	k.a2a = p->a2a;
	k.deepep_mode = p->deepep_mode;
	k.graph = p->graph;
	return k;
}

static struct answer *memo_slot(struct mf_serve_state *s, const mf_plan *key)
{
	uint64_t words[(sizeof *key + 7) / 8] = {0}, h = 0;

	memcpy(words, key, sizeof *key);
	for (size_t i = 0; i < MF_COUNT(words); i++)
		h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
	return &s->memo[(h >> 40) % MEMO_SLOTS];
}

static void untaxed_time(const mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex)
{
	const mf_model *m = c->in.model;
	mf_serve_shape z;
	mf_serve_bytes b;
	struct loop loop;
	double gpus, tokens_per_expert;

	*out = (mf_time){NAN, NAN, NAN, NAN, NAN, NAN, NAN, false};
	if (!mf_serve_shape_of(c, p, &z) || !c->in.workload->output_tokens || !c->in.workload->input_tokens)
		return;
	mf_serve_bytes_of(c, p, &z, &b);
	run_loop(c, p, &z, &b, &loop);
	gpus = (double)z.n * z.pp;
	out->throughput = loop.tokens_per_us * 1e6 / gpus;
	out->step_ms = loop.decode.total / 1e3;
	out->ttft_ms = loop.ttft_us / 1e3;
	out->tpot_ms = loop.tpot_us / 1e3;
	out->hidden_fraction = p->overlap && loop.decode.part[PART_EXCHANGE] > 0
				       ? -loop.decode.part[PART_HIDDEN] / loop.decode.part[PART_EXCHANGE]
				       : 0;
	out->bubble_fraction = loop.bubble_us / (loop.decode.total + loop.bubble_us);
	out->batch = loop.running;
	tokens_per_expert = m->experts ? loop.batch * z.dp * m->topk / m->experts : loop.batch;
	out->extrapolated = mf_consts_extrapolated(
		c->k, c->in.cluster, dense_type(m) == MF_LIN_BF16 ? MF_BF16 : MF_FP8, tokens_per_expert, c->world);
	if (ex) {
		char inputs[160];

		snprintf(inputs, sizeof inputs, "decode pass: batch %.0f a rank, context %.0f, tp %u dp %u ep %u",
			loop.batch / loop.in_flight, c->in.workload->input_tokens + c->in.workload->output_tokens / 2.0,
			z.tp, z.dp, z.ep);
		explain_pass(c, p, &z, &loop.decode, inputs, out->extrapolated, ex);
		if (loop.bubble_us > 0)
			mf_explain_term(ex, "pipeline bubble", loop.bubble_us / 1e3,
				"pass x (m - 1)/m, m micro-batches in flight");
		mf_explain_term(ex, "prompt stalls", loop.stall_us / 1e3,
			"(running requests - 1) x prompt pass / (prompts of the pass x output tokens x micro-batches)");
		snprintf(inputs, sizeof inputs, "prompt of %u tokens, chunk %.0f, %.0f running",
			c->in.workload->input_tokens, mf_serve_chunk(c, p, &z), loop.running);
		ttft_term(ex, "ttft: prompt passes", loop.prompt_us, "sum over the chunks of a prompt", inputs,
			MF_C_S_CTX, MF_C_S_MLACTX);
		ttft_term(ex, "ttft: wait", loop.wait_us,
			"decode/2 + rho prompt / (2 (1 - 0.7 rho)) + opening burst / waves", inputs, MF_C_S_WAVES,
			MF_C_S_WAVES);
		ttft_term(ex, "ttft: host", loop.front_us, "request + host a layer x layers x (1 + concurrency/40)",
			inputs, MF_C_S_REQUEST_MS, MF_C_S_HOST_MS);
		if (loop.queue_us > 0)
			ttft_term(ex, "ttft: no room", loop.queue_us, "queue x (wanted - batch)/batch x cycle", inputs,
				MF_C_S_QUEUE, MF_C_S_RESERVE);
	}
}

void mf_serve_time_eval(mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex)
{
	double tax = mf_k(c, MF_C_TAX_SERVE);
	mf_plan key = memo_key(p);
	struct answer *a = memo_slot(c->serve, &key);

	if (ex) {
		untaxed_time(c, p, out, ex);
	} else {
		if (memcmp(&a->key, &key, sizeof key) != 0) {
			untaxed_time(c, p, &a->time, NULL);
			a->key = key;
		}
		*out = a->time;
	}
	if (c->opts.tax && p->kernel && !isnan(tax))
		out->throughput /= 1 + tax;
}
