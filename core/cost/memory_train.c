/*
 * memory_train.c: GPU memory of a training rank. Every pipeline stage is computed, the worst decides. Static lines
 * (weights, gradients, optimizer), workspaces, and the activations of the micro-batches in flight at the worst of four
 * moments: loss, layer forward, layer backward, optimizer step. Rules and their evidence: memory_layer.c for a layer, the
 * rule texts below for the rest (files of Megatron core 0.18.0).
 */
#include "memory_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 1024 /* power of two; distinct layer keys of a search are far fewer per thread */

struct mf_train_memory {
	uint16_t moe_before[MF_MAX_LAYERS + 1]; /* MoE layers among the first n */
	mf_layer_memory slots[SLOTS];
	mf_param_count params;
};

mf_status mf_train_memory_new(mf_cost *c, mf_err *err)
{
	struct mf_train_memory *s = calloc(1, sizeof *s);
	const mf_model *m = c->in.model;

	if (!s)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	for (uint32_t i = 0; i < m->layers && i < MF_MAX_LAYERS; i++)
		s->moe_before[i + 1] = (uint16_t)(s->moe_before[i] + m->moe_layer[i]);
	mf_model_count(m, &s->params);
	c->train_memory = s;
	return MF_OK;
}

void mf_train_memory_free(struct mf_train_memory *s)
{
	free(s);
}

/* The layer's memory for the dimensions that decide it, from the memo or computed into it. */
static const mf_layer_memory *layer_memory(mf_cost *c, const mf_plan *p)
{
	uint64_t a = (uint64_t)p->tp << 48 | (uint64_t)p->cp << 32 | (uint64_t)p->ep << 16 | p->etp;
	uint64_t b = (uint64_t)p->micro_batch << 32 | (uint64_t)p->dispatcher << 16 | (uint64_t)p->recompute << 8
		| p->recompute_modules;
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
	mf_layer_memory *l = &c->train_memory->slots[(h >> 40) & (SLOTS - 1)];

	/* Direct-mapped: a collision recomputes, which is right and only slower. */
	if (!l->used || l->key[0] != a || l->key[1] != b) {
		memset(l, 0, sizeof *l);
		mf_layer_memory_fill(c, p, l);
		l->key[0] = a;
		l->key[1] = b;
		l->used = true;
	}
	return l;
}

/* ---- a stage ------------------------------------------------------------------------------------------------------- */

/* What a rank of one stage holds, before anything is summed. */
struct stage {
	double dense, expert;          /* parameters */
	double embed;                  /* of them embedding and head: no FSDP unit */
	double unit;                   /* largest FSDP unit, parameters */
	double held[2];                /* layers of each kind times micro-batches in flight */
	double in_flight_first;        /* micro-batches of the chunk with the embedding */
	double ckpt;                   /* full recompute: checkpoints held */
	bool embedding, loss, moe, plain;
};

struct counts {
	uint16_t layers[MF_MAX_LAYERS]; /* of every virtual stage */
	uint16_t first[MF_MAX_LAYERS];  /* first layer of each */
	size_t n;
};

/* Micro-batches of chunk `k` that rank `r` holds when its warm-up is over: closed form of the schedules' order
 * (schedules.py:857-867, 2193). The worst moment of a stage lies there or, for the loss, on the last stage, whose
 * warm-up ends with the chunk that holds it. */
static double chunk_in_flight(const mf_plan *p, uint32_t micro_batches, uint32_t r, uint32_t k)
{
	uint32_t m = micro_batches ? micro_batches : 1, done, group, rest;

	if (p->schedule == MF_DUALPIPE)
		return p->pp + 1u < m ? p->pp + 1u : m;
	if (p->pp == 1)
		return 1;
	if (p->vpp <= 1)
		return p->pp - r < m ? p->pp - r : m;
	done = 2 * (p->pp - r - 1u) + (p->vpp - 1u) * p->pp + (p->overlap ? 1 : 0) + 1;
	if (done > m * p->vpp)
		done = m * p->vpp;
	group = done / (p->pp * p->vpp);
	rest = done % (p->pp * p->vpp);
	rest = rest > k * p->pp ? rest - k * p->pp : 0;
	if (rest > p->pp)
		rest = p->pp;
	return group * (double)p->pp + rest;
}

static void add_chunk(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct counts *v,
	size_t index, double flight, bool parameters_only, struct stage *out)
{
	const struct mf_train_memory *s = c->train_memory;
	uint32_t n = v->layers[index], first_layer = v->first[index], end = first_layer + n;
	uint32_t moe, plain;

	if (end > c->in.model->layers)
		end = c->in.model->layers;
	moe = (uint32_t)(s->moe_before[end] - s->moe_before[first_layer]);
	plain = end - first_layer - moe;
	out->dense += plain * l->dense[0] + moe * l->dense[1];
	out->expert += moe * l->expert[1];
	if (moe)
		out->unit = fmax(out->unit, l->dense[1] + l->expert[1]);
	if (plain)
		out->unit = fmax(out->unit, l->dense[0]);
	out->moe |= moe > 0;
	out->plain |= plain > 0;
	if (index == 0) {
		out->dense += l->embedding;
		out->embed += l->embedding;
		out->embedding = true;
		out->in_flight_first = flight;
	}
	if (index == v->n - 1) {
		double head = c->in.model->tied_embeddings && v->n == 1 ? 0 : l->head;

		out->dense += head + l->mtp_dense + (l->mtp_dense > 0 && v->n > 1 ? l->embedding : 0);
		out->embed += head;
		out->expert += l->mtp_expert;
		out->loss = true;
	}
	if (parameters_only)
		return;
	out->held[0] += flight * plain;
	out->held[1] += flight * moe;
	out->ckpt += flight * ceil((double)n / (p->recompute_layers ? p->recompute_layers : 1));
}

static void stage_contents(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct counts *v,
	uint32_t micro_batches, uint32_t rank, struct stage *out)
{
	memset(out, 0, sizeof *out);
	for (uint32_t k = 0; (size_t)k * p->pp < v->n; k++) {
		uint32_t mirror = p->pp - 1u - rank;

		add_chunk(c, p, l, v, k * p->pp + rank, chunk_in_flight(p, micro_batches, rank, k), false, out);
		/* DualPipe keeps the parameters of the mirrored stage too. */
		if (p->schedule == MF_DUALPIPE && mirror != rank)
			add_chunk(c, p, l, v, k * p->pp + mirror, 0, true, out);
	}
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

struct total {
	double bytes;
	mf_explain *ex;
};

static void line(struct total *t, const char *name, double bytes, const char *rule)
{
	if (!(bytes > 0))
		return;
	t->bytes += bytes;
	if (t->ex)
		mf_explain_line(t->ex, name, bytes, rule);
}

static void static_lines(const mf_cost *c, const mf_plan *p, const struct stage *s, double *shard, struct total *t)
{
	const mf_stack *stack = c->in.stack;
	double dp = mf_plan_dp(p, c->world), edp = mf_plan_edp(p, c->world), group = dp * p->cp;
	double grad = stack->grad_reduce_bf16 ? 2 : 4, moments = stack->precision_aware ? 4 : 8;
	bool fsdp = p->sharding == MF_FSDP, host = p->sharding == MF_ZERO1_OFFLOAD;
	double d = p->zero_stage ? group : 1, de = p->zero_stage ? p->ep > 1 ? edp : group : 1;
	double wd = fsdp && p->zero_stage == 3 ? d : 1, we = fsdp && p->zero_stage == 3 ? de : 1;
	double gd = fsdp && p->zero_stage >= 2 ? d : 1, ge = fsdp && p->zero_stage >= 2 ? de : 1;

	line(t, "weights.dense", 2 * s->dense / wd, "2 B a parameter (param_and_grad_buffer.py:1110)");
	line(t, "weights.expert", 2 * s->expert / we, "2 B a parameter, local experts");
	line(t, "grads.dense", grad * s->dense / gd, "4 B, 2 B with bf16 reduction; never sharded by zero1");
	line(t, "grads.expert", grad * s->expert / ge, "4 B, 2 B with bf16 reduction");
	*shard = s->dense / d + s->expert / de;
	if (host)
		return;
	line(t, "master.dense", 4 * s->dense / d, "4 B / (dp cp) (distrib_optimizer.py:399)");
	line(t, "master.expert", 4 * s->expert / de, "4 B / edp");
	line(t, "moments.dense", moments * s->dense / d, "8 B / (dp cp), 4 B precision-aware");
	line(t, "moments.expert", moments * s->expert / de, "8 B / edp, 4 B precision-aware");
}

static void workspace_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct stage *s, struct total *t)
{
	double te = mf_k(c, MF_C_MEM_TE_MIB) * MF_MIB;
	bool has_te = c->in.stack->transformer_engine;

	line(t, "workspace.cublas", (p->overlap ? 4 : 2) * mf_k(c, MF_C_MEM_CUBLAS_MIB) * MF_MIB,
		"one a handle and stream: forward and autograd thread, two more under overlap");
	if (has_te)
		line(t, "workspace.te", te, "Transformer Engine GEMM workspace");
	if (has_te && s->moe)
		line(t, "workspace.grouped", 4 * te, "grouped GEMM: four streams");
	if (has_te && p->sharding != MF_FSDP)
		line(t, "workspace.dummy_wgrad", 2 * l->shapes, "2 B of each distinct weight shape, cached for ever (layers.py:617)");
	if (p->tp > 1)
		line(t, "workspace.sp_gather", 2 * l->tokens * c->in.model->hidden, "sequence-parallel gather buffer (utils.py:641)");
	line(t, "workspace.small", mf_k(c, MF_C_MEM_SMALL_MIB) * MF_MIB, "masks, batches, random states");
}

/* Largest of the moments a rank goes through, as extra above the activations in flight. */
struct moment {
	double bytes;
	const char *name, *rule;
};

static void consider(struct moment *best, double bytes, const char *name, const char *rule)
{
	if (bytes > best->bytes)
		*best = (struct moment){bytes, name, rule};
}

static double logits_bytes(const mf_cost *c, const mf_layer_memory *l)
{
	static const struct { double main, mtp; } per[] = {[MF_LOSS_EAGER] = {6, 4}, [MF_LOSS_NATIVE] = {10, 4}, [MF_LOSS_TE] = {2, 2}};
	mf_loss k = c->in.stack->loss;

	return l->logits * (per[k].main + (c->in.workload->mtp ? c->in.model->mtp_layers * per[k].mtp : 0));
}

static const char *const act_names[2][ACT_COUNT] = {
	{"act.dense.norm_in", "act.dense.norm_out", "act.dense.compressed", "act.dense.qkv", "act.dense.scores",
		"act.dense.core_out", "act.dense.fc1", "act.dense.act", "act.dense.router", "act.dense.dispatched",
		"act.dense.probs", "act.dense.shared", "act.dense.dropout"},
	{"act.moe.norm_in", "act.moe.norm_out", "act.moe.compressed", "act.moe.qkv", "act.moe.scores", "act.moe.core_out",
		"act.moe.fc1", "act.moe.act", "act.moe.router", "act.moe.dispatched", "act.moe.probs", "act.moe.shared",
		"act.moe.dropout"},
};

static void activation_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct stage *s, double keep,
	struct total *t)
{
	if (p->recompute == MF_RECOMPUTE_FULL) {
		line(t, "act.checkpoints", keep * s->ckpt * 2 * l->sp_tokens * c->in.model->hidden, "2 t h a checkpoint in flight");
	} else if (!t->ex) {
		t->bytes += keep * (s->held[0] * l->act[0].sum + s->held[1] * l->act[1].sum);
	} else {
		for (int moe = 0; moe < 2; moe++)
			for (int i = 0; i < ACT_COUNT; i++)
				line(t, act_names[moe][i], keep * s->held[moe] * l->act[moe].kept[i],
					"kept for backward: layers x micro-batches in flight");
	}
	if (s->loss)
		line(t, "act.final_norm", keep * 4 * l->sp_tokens * c->in.model->hidden, "input and output of the last norm");
	if (s->embedding)
		line(t, "act.ids", keep * 16 * l->tokens * s->in_flight_first, "token ids");
}

static struct moment worst_moment(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct stage *s)
{
	struct moment best = {0, "temp", ""};
	double group = p->recompute_layers ? p->recompute_layers : 1;

	if (s->loss)
		consider(&best, logits_bytes(c, l), "logits", "bytes a logit by loss kind: 6 eager, 10 native, 2 te; MTP heads kept");
	for (int moe = 0; moe < 2; moe++) {
		const mf_layer_act *a = &l->act[moe];

		if (!(moe ? s->moe : s->plain))
			continue;
		consider(&best, a->forward_extra, "temp.forward", "one layer's forward");
		consider(&best, a->backward_extra + (p->recompute == MF_RECOMPUTE_FULL ? group * a->sum : 0), "temp.backward",
			"one layer's backward, and the layers recomputed for it");
	}
	return best;
}

/* Megatron-FSDP's working buffers (megatron_fsdp.py:418-442); the late moment replaces the activations when it is larger. */
static void fsdp_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct stage *s,
	const struct moment *peak, struct total *t)
{
	double params = s->dense + s->expert, quota = fmax(mf_k(c, MF_C_MEM_FSDP_QUOTA), 2 * s->unit);
	double late_keep = mf_k(c, MF_C_MEM_FSDP_LATE), grad = c->in.stack->grad_reduce_bf16 ? 2 : 4;
	double queue = grad * fmin(params, quota + s->unit);
	double late_gather = p->zero_stage == 3 ? 2 * fmin(params, s->embed + s->unit + quota / 2) : 0;
	double gather = p->zero_stage == 3 ? 2 * (s->embed + s->unit * (peak->name[0] == 'l' ? 1 : 2)) : 0;
	struct total now = {0, NULL}, late = {0, NULL};

	activation_lines(c, p, l, s, 1, &now);
	activation_lines(c, p, l, s, late_keep, &late);
	if (late.bytes + late_gather + queue > now.bytes + peak->bytes + gather) {
		activation_lines(c, p, l, s, late_keep, t);
		line(t, "fsdp.gather", late_gather, "gathered units and embeddings late in backward");
		line(t, "fsdp.grad_queue", queue, "gradients queued up to the quota of 1e9 elements");
		return;
	}
	activation_lines(c, p, l, s, 1, t);
	line(t, peak->name, peak->bytes, peak->rule);
	line(t, "fsdp.gather", gather, "embedding and head stay gathered; the running unit and the prefetched one");
}

static double stage_total(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct stage *s, mf_explain *ex)
{
	struct total t = {0, ex};
	struct moment peak = worst_moment(c, p, l, s);
	struct total act = {0, NULL};
	double shard, step, allocated;

	static_lines(c, p, s, &shard, &t);
	workspace_lines(c, p, l, s, &t);
	if (p->sharding == MF_FSDP && p->zero_stage >= 2) {
		fsdp_lines(c, p, l, s, &peak, &t);
	} else {
		/* A bf16 gradient buffer is copied to fp32 for the step, when no activation is left. */
		step = c->in.stack->grad_reduce_bf16 && !c->in.stack->precision_aware && p->sharding == MF_ZERO1 ? 4 * shard : 0;
		activation_lines(c, p, l, s, 1, &act);
		if (step > act.bytes + peak.bytes) {
			line(&t, "step.main_grads", step, "fp32 copy of the owned gradient shard (distrib_optimizer.py:2697)");
		} else {
			activation_lines(c, p, l, s, 1, &t);
			line(&t, peak.name, peak.bytes, peak.rule);
		}
	}
	if (p->pp > 1)
		line(&t, "p2p", 4 * l->sp_tokens * c->in.model->hidden * (p->vpp > 1 ? 2 : 1), "peer buffers, twice with interleaving");
	allocated = t.bytes;
	line(&t, "reserve", (mf_k(c, MF_C_MEM_RESERVE) - 1) * allocated, "allocator slack: reserved over allocated");
	line(&t, "context", mf_k(c, MF_C_MEM_CONTEXT_GIB) * MF_GIB, "CUDA context and NCCL channels");
	return t.bytes;
}

/* ---- all stages ---------------------------------------------------------------------------------------------------- */

/* True when rank `r` holds what rank r-1 holds, layer kind by layer kind, and no loss. Later ranks keep no more
 * micro-batches in flight, so such a rank cannot be the worst one. */
static bool no_worse(const struct mf_train_memory *s, const mf_plan *p, const struct counts *v, uint32_t r)
{
	if (r == 0 || r == p->pp - 1u || p->schedule == MF_DUALPIPE)
		return false;
	for (size_t i = r; i < v->n; i += p->pp) {
		uint32_t a = v->first[i - 1], b = v->first[i], n = v->layers[i];

		if (v->layers[i - 1] != n || b + n > MF_MAX_LAYERS ||
			s->moe_before[a + n] - s->moe_before[a] != s->moe_before[b + n] - s->moe_before[b])
			return false;
	}
	return true;
}

static void full_eval(mf_cost *c, const mf_plan *p, const mf_layer_memory *l, mf_memory *out, mf_explain *ex)
{
	struct counts v;
	uint32_t dp = mf_plan_dp(p, c->world), slice = dp * (p->micro_batch ? p->micro_batch : 1);
	uint32_t micro_batches = slice ? c->in.workload->global_batch / slice : 1;
	struct stage s;
	double worst = -1;

	v.n = mf_plan_stages(p, c->in.model, c->in.intern, v.layers, MF_COUNT(v.layers), NULL);
	for (size_t i = 0, at = 0; i < v.n; i++) {
		v.first[i] = (uint16_t)at;
		at += v.layers[i];
	}
	out->worst_stage = 0;
	for (uint32_t r = 0; r < p->pp && v.n; r++) {
		double total;

		if (!ex && no_worse(c->train_memory, p, &v, r))
			continue;
		stage_contents(c, p, l, &v, micro_batches, r, &s);
		total = stage_total(c, p, l, &s, NULL);
		if (ex && r < MF_MAX_STAGES) {
			ex->stage_bytes[r] = total;
			ex->n_stages = r + 1;
		}
		if (total > worst) {
			worst = total;
			out->worst_stage = (uint16_t)r;
		}
	}
	out->total_bytes = v.n ? worst : NAN;
	out->budget_bytes = c->in.cluster->device_bytes;
	out->fits = out->total_bytes <= out->budget_bytes;
	out->probe = out->fits && out->total_bytes > out->budget_bytes - mf_k(c, MF_C_MEM_PROBE_GIB) * MF_GIB;
	if (!ex || !v.n)
		return;
	stage_contents(c, p, l, &v, micro_batches, out->worst_stage, &s);
	stage_total(c, p, l, &s, ex);
}

void mf_train_memory_eval(mf_cost *c, const mf_plan *p, mf_memory *out, mf_explain *ex)
{
	const mf_layer_memory *l = layer_memory(c, p);

	if (c->opts.ledger == MF_LEDGER_PUBLISHED)
		mf_published_memory_eval(c, p, l, &c->train_memory->params, out, ex);
	else
		full_eval(c, p, l, out, ex);
}
