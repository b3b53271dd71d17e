/*
 * serve_memory.c: memory of a serving rank under SGLang 0.5.15: weights by module, KV bytes a token, the engine's own
 * reserve heuristic and what remains for the KV pool (server_args.py:3469-3698,
 * model_runner_kv_cache_mixin.py:104-139).
 */
#include "serve_internal.h"

#include <math.h>

bool mf_serve_shape_of(const mf_cost *c, const mf_plan *p, mf_serve_shape *out)
{
	const mf_model *m = c->in.model;
	uint32_t dp = mf_plan_dp(p, c->world), etp = mf_plan_etp(p, c->world), node = c->in.cluster->gpus_per_node;

	if (!dp || !etp)
		return false;
	out->tp = p->tp;
	out->cp = p->cp;
	out->dp = dp;
	out->pp = p->pp;
	out->n = p->tp * p->cp * dp;
	out->ep = p->ep;
	out->mtp = etp;
	out->moe_dp = p->moe_dp ? p->moe_dp : 1;
	out->nodes = (out->n + node - 1) / node;
	out->heads = m->heads / (double)p->tp;
	out->kv_heads = fmax(1, m->kv_heads / (double)p->tp);
	return true;
}

double mf_serve_expert_bytes(const mf_model *m)
{
	switch (m->quant) {
	case MF_QUANT_NONE: return 2;
	case MF_QUANT_FP8_BLOCK:
	case MF_QUANT_FP8:
	case MF_QUANT_INT8: return 1;
	case MF_QUANT_NVFP4: return 0.5625;
	case MF_QUANT_MXFP4:
	case MF_QUANT_INT4: return 0.53125;
	}
	return 2;
}

/* 4-bit checkpoints keep attention and dense layers in bf16 (except nvfp4 of GQA models). */
double mf_serve_dense_bytes(const mf_model *m)
{
	switch (m->quant) {
	case MF_QUANT_FP8_BLOCK:
	case MF_QUANT_FP8:
	case MF_QUANT_INT8: return 1;
	case MF_QUANT_NVFP4: return m->attention == MF_MLA ? 2 : 0.5625;
	default: return 2;
	}
}

/* Chunk and captured batch by card size and engine width, as the engine's table has them. */
static void engine_defaults(double card_gib, uint32_t tp, double *chunk, double *graph_batch)
{
	static const struct {
		double below, chunk, graph_narrow, graph;
	} rows[] = {{20, 2048, 8, 8}, {35, 2048, 24, 80}, {60, 4096, 32, 160}, {160, 8192, 256, 512},
		{INFINITY, 16384, 512, 512}};
	size_t i = 0;

	while (card_gib >= rows[i].below)
		i++;
	*chunk = rows[i].chunk;
	*graph_batch = tp < 4 ? rows[i].graph_narrow : rows[i].graph;
}

double mf_serve_chunk(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z)
{
	const mf_serve_engine *e = mf_serve_engine_of(c);
	double chunk = e->chunk, graph;

	if (!(chunk > 0))
		engine_defaults(c->in.cluster->device_bytes / MF_GIB, z->n, &chunk, &graph);
	if (e->whole_prompts)
		chunk = fmax(chunk, c->in.workload->input_tokens + 256.0);
	if (p->prefill_chunk)
		chunk = p->prefill_chunk * 256.0;
	return fmax(1, floor(chunk / (e->splits_chunk && z->dp > 1 ? z->dp : 1)));
}

/* Requests of the workload that one attention rank has at a time. */
static double rank_requests(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z)
{
	return fmax(1, ceil((double)c->in.workload->concurrency / ((p->replicas ? p->replicas : 1) * (double)z->dp)));
}

/* The engine's reserve, bytes, with the captured batch cut to the workload as the emitter asks for it. */
static double reserve_bytes(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z)
{
	double card = c->in.cluster->device_bytes / MF_GIB, chunk, graph, mib;

	engine_defaults(card, z->n, &chunk, &graph);
	if (p->prefill_chunk)
		chunk = p->prefill_chunk * 256.0;
	graph = fmin(graph, rank_requests(c, p, z));
	mib = 512 + 1.5 * fmax(chunk, 2048) + 128.0 * z->n * z->pp;
	if (p->graph == MF_GRAPH_FULL)
		mib += 2 * graph;
	if (z->dp > 1)
		mib += 3 * graph * z->dp + (graph > 300 ? 1.5 * graph * z->dp : 0);
	if (c->in.model->attention == MF_MLA)
		mib += 1536;
	if (card > 60)
		mib = fmax(mib, 10240);
	if (p->a2a == MF_A2A_DEEPEP && p->graph == MF_GRAPH_FULL)
		mib += 2048;
	return mib * MF_MIB;
}

static double attention_params(const mf_model *m, const mf_serve_shape *z)
{
	double h = m->hidden, tp = z->tp;

	if (m->attention == MF_MLA) {
		double q = m->q_lora ? h * m->q_lora + m->q_lora * z->heads * (m->qk_nope + m->qk_rope)
				     : h * z->heads * (m->qk_nope + m->qk_rope);

		/* The indexer is whole on every rank. */
		if (m->index_topk)
			q += (double)m->index_heads * m->index_dim * (m->q_lora ? m->q_lora : h) +
			     h * (m->index_dim + m->index_heads);
		return q + h * (m->kv_lora + m->qk_rope) +
		       z->heads * (m->kv_lora * (double)(m->qk_nope + m->v_dim) + m->v_dim * h);
	}
	return h * m->head_dim * ((m->attention_gate ? 3.0 : 2.0) * m->heads + 2 * fmax(m->kv_heads, tp)) / tp;
}

/* Linear-attention layers: parameters of one, and the fp32 state a request keeps in it, of a rank. */
static void states(const mf_model *m, const mf_serve_shape *z, double *params, double *bytes)
{
	double h = m->hidden, k = m->delta_k_heads * m->delta_k_dim, v = m->delta_v_heads * m->delta_v_dim;
	double inner = m->mamba_heads * m->mamba_head_dim, group = 2 * m->mamba_groups * m->mamba_state;

	*params = (m->delta_layers * h * (2 * k + 3 * v) + m->mamba_layers * h * (3 * inner + group + m->mamba_heads)) /
		  z->tp;
	*bytes = 4.0 * (m->delta_layers * v * m->delta_k_dim + m->mamba_layers * inner * m->mamba_state) / z->tp;
}

void mf_serve_bytes_of(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, mf_serve_bytes *o)
{
	const mf_model *m = c->in.model;
	double eb = mf_serve_expert_bytes(m), db = mf_serve_dense_bytes(m), h = m->hidden, pp = z->pp,
	       up = m->gated ? 3 : 2;
	double tokens = (double)c->in.workload->input_tokens + c->in.workload->output_tokens;
	double vocab = ceil(m->vocab / 64.0) * 64, kv = c->in.workload->fp8_kv ? 1 : 2, full, card, one;
	double attending, state_params, state_bytes;
	const mf_serve_engine *e = mf_serve_engine_of(c);
	uint32_t dense_tp = z->dp == 1 || e->gathers_dense ? z->n : z->tp;
	uint32_t shared_tp = p->a2a != MF_A2A_NONE || dense_tp != z->n ? 1 : z->n;

	o->experts = m->moe_layers * (m->experts + p->redundant) / (double)z->ep * up * h *
		     (m->moe_ffn / (double)z->mtp) * eb / pp;
	if (m->quant == MF_QUANT_FP8_BLOCK && m->quant_block_n && m->quant_block_k) {
		double bn = m->quant_block_n, bk = m->quant_block_k, width = m->moe_ffn / (double)z->mtp;

		/* One fp32 scale a block of every matrix. */
		o->experts += m->moe_layers * (m->experts + p->redundant) / (double)z->ep * 4 *
			      ((up - 1) * ceil(width / bn) * ceil(h / bk) + ceil(h / bn) * ceil(width / bk)) / pp;
	}
	o->shared = m->moe_layers * up * h * m->shared_ffn / shared_tp * db / pp;
	attending = mf_model_attention_layers(m);
	states(m, z, &state_params, &state_bytes);
	o->attention = (attending * attention_params(m, z) + state_params) * db / pp;
	o->dense = mf_model_dense_layers(m) * up * h * m->ffn / dense_tp * (m->attention == MF_MLA ? eb : db) / pp;
	o->router = m->moe_layers * (double)m->experts * h * 2 / pp;
	/* Embedding on the first stage, head on the last: a rank of one stage holds both. */
	o->embedding = vocab * h * 2 * (1.0 / (z->dp > 1 ? z->tp : z->n) + (m->tied_embeddings ? 0 : 1.0 / z->n));
	o->weights = o->experts + o->shared + o->attention + o->dense + o->router + o->embedding;
	full = attending - m->window_layers;
	if (m->attention == MF_MLA) {
		o->kv_token =
			attending * ((m->kv_lora + m->qk_rope) * kv + (m->index_topk ? m->index_dim + 4.0 : 0)) / pp;
		o->kv_request = 0;
	} else {
		double layer = z->kv_heads * (m->head_dim + m->v_dim) * kv;

		o->kv_token = full * layer / pp;
		o->kv_request = m->window_layers * layer * fmin(m->window, tokens) / pp;
		if (e->windows_kept && m->window_layers) {
			o->kv_token += o->kv_request / fmin(m->window, tokens);
			o->kv_request = 0;
		}
	}
	o->kv_request += state_bytes / pp;
	o->kv_token /= z->cp;
	o->context = 0.6 * MF_GIB;
	o->reserve = reserve_bytes(c, p, z);
	card = c->in.cluster->device_bytes - o->context;
	one = o->kv_token * (c->in.workload->input_tokens + c->in.workload->output_tokens) + o->kv_request;
	if (!isnan(c->in.stack->mem_fraction)) {
		o->fraction = c->in.stack->mem_fraction;
	} else if (!isnan(e->fraction)) {
		o->fraction = e->fraction;
	} else {
		o->fraction = (c->in.cluster->device_bytes - o->reserve) / c->in.cluster->device_bytes;
		/* The heuristic's terms grow with dp and can eat the card; 512 MiB and the chunk's activations are
		 * needed. */
		if (o->fraction * card < o->weights + one)
			o->fraction = fmin(0.95, (o->weights + 2 * one) / card);
	}
	o->fraction = floor(o->fraction * 1000 + 0.5) / 1000;
	o->room = o->fraction * card - o->weights;
	/* Activations and graphs come out of the share, where the engine does not count them apart. */
	if (!isnan(e->fraction))
		o->room = o->fraction * c->in.cluster->device_bytes - o->weights - 2.5e9;
}

double mf_cost_mem_fraction(mf_cost *c, const mf_plan *p)
{
	mf_serve_shape z;
	mf_serve_bytes b;

	if (!mf_serve_shape_of(c, p, &z))
		return NAN;
	mf_serve_bytes_of(c, p, &z, &b);
	return b.fraction > 0 ? b.fraction : NAN;
}

/* KV bytes that the workload's share of one rank would like to hold, at full length. */
static double kv_wanted(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_bytes *b)
{
	const mf_workload *w = c->in.workload;

	return rank_requests(c, p, z) * (b->kv_token * ((double)w->input_tokens + w->output_tokens) + b->kv_request);
}

void mf_serve_memory_eval(mf_cost *c, const mf_plan *p, mf_memory *out, mf_explain *ex)
{
	bool published = c->opts.ledger == MF_LEDGER_PUBLISHED;
	double one, kv, rest, band = mf_k(c, MF_C_MEM_PROBE_GIB) * MF_GIB,
			      graphs = p->graph == MF_GRAPH_FULL ? mf_k(c, MF_C_MEM_SERVE_GRAPHS_GIB) * MF_GIB : 0;
	mf_serve_shape z;
	mf_serve_bytes b;

	out->worst_stage = 0;
	out->budget_bytes =
		published ? c->in.cluster->hbm_bytes * c->opts.usable_fraction : c->in.cluster->device_bytes;
	out->fits = out->probe = 0;
	out->total_bytes = NAN;
	if (!mf_serve_shape_of(c, p, &z))
		return;
	mf_serve_bytes_of(c, p, &z, &b);
	kv = kv_wanted(c, p, &z, &b);
	if (published) {
		out->total_bytes = b.weights + kv;
		out->fits = out->total_bytes <= out->budget_bytes;
		rest = 0;
	} else {
		one = b.kv_token * ((double)c->in.workload->input_tokens + c->in.workload->output_tokens) +
		      b.kv_request;
		/* At least one request at full length must find room; beyond that the pool limits the batch, not the
		 * plan. */
		kv = fmax(one, fmin(kv, b.room));
		rest = (1 - b.fraction) * (c->in.cluster->device_bytes - b.context) + b.context;
		out->total_bytes = b.weights + kv + rest;
		out->fits = b.room >= one && b.fraction > 0;
		/* Little room in the pool, a share that leaves less outside it than captured graphs can take, or a tower whose
		 * weights and profile run are not priced. */
		out->probe = out->fits && (b.room < one + fmin(band, 4 * one) || rest < b.context + graphs ||
						  c->in.model->other_parts);
		if (!out->fits)
			out->total_bytes = fmax(out->total_bytes, b.weights + one + fmin(rest, b.reserve + b.context));
	}
	if (!ex)
		return;
	mf_explain_line(ex, "weights.experts", b.experts,
		"(E+R)/ep x 3 h I/mtp x bytes and block scales, MoE layers of a stage");
	mf_explain_line(ex, "weights.shared", b.shared, "shared experts; whole on a rank under an all-to-all backend");
	mf_explain_line(
		ex, "weights.attention", b.attention, "projections / attention tp, replicated over attention DP");
	mf_explain_line(ex, "weights.dense", b.dense, "dense feed-forward layers / tp");
	mf_explain_line(ex, "weights.router", b.router, "E h, bf16, replicated");
	mf_explain_line(ex, "weights.embedding", b.embedding, "embedding and head, vocabulary rounded to 64");
	mf_explain_line(ex, "kv.cache", kv, "requests of a rank x tokens x KV bytes, at most the pool");
	if (!published) {
		mf_explain_line(ex, "reserve", out->total_bytes - b.weights - kv - b.context,
			"(1 - mem-fraction-static) of the card: activations, CUDA graphs, communication buffers");
		mf_explain_line(ex, "context", b.context, "CUDA context and driver");
	}
	ex->stage_bytes[0] = out->total_bytes;
	ex->n_stages = 1;
}
