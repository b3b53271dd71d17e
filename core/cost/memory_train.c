/*
 * memory_train.c: GPU memory of a training rank. The worst pipeline stage decides: its weights, gradients and
 * optimizer, its workspaces, and the activations of the micro-batches in flight at the worst of its moments (loss,
 * layer forward, layer backward, optimizer step). Rules and their evidence stand in the rule texts (files of Megatron
 * core 0.18.0), those of a layer in memory_layer.c.
 *
 * A search asks for hundreds of thousands of plans, so two memo tables carry the work: a layer's bytes by the
 * dimensions that decide a layer, and a pipeline split by the dimensions that decide it. Both are direct-mapped and of
 * fixed size: a collision computes again, which is right and only slower. Ranks whose chunks are equal hold equal
 * static bytes, and the earlier one has at least as many micro-batches in flight; so one rank of each kind is asked.
 */
#include "memory_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYER_SLOTS 2048 /* powers of two */
#define SHAPE_SLOTS 256
#define INLINE static inline __attribute__((always_inline))

/* What a rank holds before sharding is decided: parameters, and the bytes of its worst moment. */
struct held {
	double dense, experts; /* parameters, embedding and head among the first */
	double embed;          /* embedding and head: no FSDP unit */
	double unit;           /* largest FSDP unit */
	double dummies;        /* bytes of dummy gradients */
	double kept, extra;    /* activations of the worst moment, and what stands beside them */
	unsigned has;          /* MF_HAS_ bits */
	bool at_loss;
};

/* All ranks that can be the worst, for one layer key and one split. */
struct pipeline {
	uint64_t key[4];
	const mf_layer_memory *l;
	const mf_stage_shape *v;
	uint32_t micro_batches;
	bool used;
	struct held rank[MF_MAX_STAGES]; /* by position in v->ranks */
};

struct mf_train_memory {
	mf_layer_kinds kinds;
	struct pipeline
		last; /* searches vary the sharding innermost, and only the lines of held parameters depend on it */
	mf_layer_memory layers[LAYER_SLOTS];
	mf_stage_shape shapes[SHAPE_SLOTS];
};

const mf_layer_kinds *mf_train_kinds(const mf_cost *c)
{
	return &c->train_memory->kinds;
}

static mf_layer_kind kind_of(const mf_model *m, uint32_t layer)
{
	mf_layer_kind k = {m->mixer[layer], m->moe_layer[layer]    ? MF_FFN_MOE
					    : m->bare_layer[layer] ? MF_FFN_NONE
								   : MF_FFN_DENSE};

	if (k.mixer == MF_MIX_WINDOW)
		k.mixer = MF_MIX_ATTENTION;
	return k;
}

static void find_kinds(const mf_model *m, mf_layer_kinds *out)
{
	for (uint32_t i = 0; i < m->layers; i++) {
		mf_layer_kind k = kind_of(m, i);
		uint32_t at = 0;

		while (at < out->n && (out->kind[at].mixer != k.mixer || out->kind[at].ffn != k.ffn))
			at++;
		if (at == out->n && out->n < MF_LAYER_KINDS)
			out->kind[out->n++] = k;
		memcpy(out->before[i + 1], out->before[i], sizeof out->before[i]);
		if (at < MF_LAYER_KINDS)
			out->before[i + 1][at]++;
	}
	/* A multi-token-prediction layer is full attention with the last layer's feed-forward part. */
	out->mtp =
		(mf_layer_kind){MF_MIX_ATTENTION, m->layers && m->moe_layer[m->layers - 1] ? MF_FFN_MOE : MF_FFN_DENSE};
}

mf_status mf_train_memory_new(mf_cost *c, mf_err *err)
{
	struct mf_train_memory *s = calloc(1, sizeof *s);

	if (!s)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	find_kinds(c->in.model, &s->kinds);
	c->train_memory = s;
	return MF_OK;
}

void mf_train_memory_free(struct mf_train_memory *s)
{
	free(s);
}

/* Degrees sit in the high bits of a key, and multiplication carries only upwards: fold before it. */
INLINE uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t h = a ^ b * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9u;
	h = (h ^ h >> 32) * 0x94d049bb133111ebu;
	return h >> 32;
}

/* ---- memo tables ------------------------------------------------------------------------------------------------- */

/* What decides a layer (two words), then what decides a split (two words). */
INLINE void plan_key(const mf_plan *p, uint64_t key[4])
{
	key[0] = (uint64_t)p->tp << 48 | (uint64_t)p->cp << 32 | (uint64_t)p->ep << 16 | p->etp;
	key[1] = (uint64_t)p->micro_batch << 48 | (uint64_t)p->recompute_layers << 32 |
		 (uint64_t)(p->overlap != 0) << 24 | (uint64_t)p->dispatcher << 16 | (uint64_t)p->recompute << 8 |
		 p->recompute_modules;
	key[2] = (uint64_t)p->pp << 48 | (uint64_t)p->vpp << 32 | (uint64_t)p->first_layers << 16 | p->last_layers;
	key[3] = (uint64_t)p->stage_layout << 8 | (p->schedule == MF_DUALPIPE);
}

static void workspace_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, mf_ledger_sum *t);

INLINE const mf_layer_memory *layer_memory(mf_cost *c, const mf_plan *p, const uint64_t key[2])
{
	mf_layer_memory *l = &c->train_memory->layers[mix(key[0], key[1]) & (LAYER_SLOTS - 1)];

	if (!l->used || l->key[0] != key[0] || l->key[1] != key[1]) {
		mf_ledger_sum t = {0, NULL};

		mf_layer_memory_fill(c, p, l);
		workspace_lines(c, p, l, &t);
		l->workspaces = t.bytes;
		l->key[0] = key[0];
		l->key[1] = key[1];
		l->used = 1;
	}
	return l;
}

static void shape_fill(const mf_cost *c, const mf_plan *p, mf_stage_shape *v)
{
	const mf_layer_kinds *kinds = &c->train_memory->kinds;
	uint32_t vpp = p->vpp ? p->vpp : 1, at = 0, layers = c->in.model->layers;
	uint16_t counts[MF_MAX_CHUNKS];
	size_t n = mf_plan_stages(p, c->in.model, c->in.intern, counts, MF_COUNT(counts), NULL);

	memset(v, 0, sizeof *v);
	if (!n || n != (size_t)p->pp * vpp || p->pp > MF_MAX_STAGES)
		return;
	v->n_chunks = (uint16_t)n;
	for (uint32_t i = 0; i < n; i++) {
		mf_chunk *k = &v->chunk[i % p->pp * vpp + i / p->pp];
		uint32_t end = at + counts[i] < layers ? at + counts[i] : layers;

		for (uint32_t j = 0; j < kinds->n; j++)
			k->layers[j] = (uint16_t)(kinds->before[end][j] - kinds->before[at][j]);
		k->first = i == 0;
		k->last = i == n - 1;
		at = end;
	}
	for (uint32_t r = 0; r < p->pp; r++) {
		const mf_chunk *k = &v->chunk[r * vpp];
		uint32_t seen = 0, same = 1;

		while (same < vpp && memcmp(&k[same], k, sizeof *k) == 0)
			same++;
		v->equal_chunks[r] = same == vpp && !k->first && !k->last;
		/* Under dualpipe a rank holds its mirror's chunk too, and flights differ: every rank up to the middle
		 * counts. */
		if (p->schedule == MF_DUALPIPE) {
			if (r < (p->pp + 1u) / 2)
				v->ranks[v->n_ranks++] = (uint16_t)r;
			continue;
		}
		while (seen < v->n_ranks && memcmp(&v->chunk[v->ranks[seen] * vpp], k, vpp * sizeof *k) != 0)
			seen++;
		if (seen == v->n_ranks)
			v->ranks[v->n_ranks++] = (uint16_t)r;
	}
}

INLINE const mf_stage_shape *stage_shape(mf_cost *c, const mf_plan *p, const uint64_t key[2])
{
	mf_stage_shape *v = &c->train_memory->shapes[mix(key[0], key[1]) & (SHAPE_SLOTS - 1)];

	if (!v->used || v->key[0] != key[0] || v->key[1] != key[1]) {
		shape_fill(c, p, v);
		v->key[0] = key[0];
		v->key[1] = key[1];
		v->used = 1;
	}
	return v;
}

/* ---- what a rank holds ------------------------------------------------------------------------------------------- */

INLINE void add_parameters(const mf_cost *c, const mf_layer_memory *l, const mf_chunk *k, struct held *r)
{
	double embed = 0;

	for (uint32_t i = 0; i < c->train_memory->kinds.n; i++) {
		double unit = l->params[i] + l->experts[i];

		if (!k->layers[i])
			continue;
		r->dense += k->layers[i] * l->params[i];
		r->experts += k->layers[i] * l->experts[i];
		r->has |= 1u << i;
		r->unit = r->unit > unit ? r->unit : unit;
	}
	if (k->first)
		embed += l->embedding;
	if (k->last) {
		r->dense += l->final_norm + l->mtp;
		r->experts += l->mtp_experts;
		if (!c->in.model->tied_embeddings || !k->first) {
			embed += l->head;
			r->has |= MF_HAS_HEAD;
		}
		if (l->mtp > 0) {
			r->has |= MF_HAS_MTP;
			embed += k->first ? 0 : l->embedding; /* MTP keeps its own copy (gpt_model.py:156) */
		}
	}
	r->embed += embed;
	r->dense += embed;
}

/* The moment with the most activations: their bytes, what stands beside them, and how much of each kind is held. */
struct moment {
	double kept, extra;
	bool at_loss;
	uint32_t layers[MF_LAYER_KINDS], checkpoints, first,
		last; /* times micro-batches in flight; filled for an explanation */
};

INLINE uint32_t chunk_checkpoints(const mf_plan *p, const mf_chunk *k, uint32_t kinds)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < kinds; i++)
		n += k->layers[i];
	return p->recompute_layers > 1 ? (n + p->recompute_layers - 1u) / p->recompute_layers : n;
}

INLINE double chunk_bytes(const mf_plan *p, const mf_layer_memory *l, const mf_chunk *k, uint32_t kinds)
{
	double n = 0;

	for (uint32_t i = 0; i < kinds; i++)
		n += k->layers[i] * l->sum[i];
	if (p->recompute == MF_RECOMPUTE_FULL)
		n += chunk_checkpoints(p, k, kinds) * l->checkpoint;
	if (k->first)
		n += l->ids;
	if (k->last)
		n += l->final_act + l->mtp_act;
	return n;
}

INLINE double larger(double a, double b)
{
	return a > b ? a : b;
}

INLINE double loss_extra(const mf_layer_memory *l)
{
	return l->logits + l->logits_mtp + l->head_wgrad + l->loss_window;
}

/* Beside the kept activations: the largest of a chunk's layers, or its loss. */
INLINE double chunk_extra(const mf_layer_memory *l, const mf_chunk *k, uint32_t kinds, bool backward)
{
	const double *x = backward ? l->backward_extra : l->forward_extra;
	double layer = 0;

	for (uint32_t i = 0; i < kinds; i++)
		layer = larger(layer, k->layers[i] ? x[i] : 0);
	return k->last ? larger(layer, loss_extra(l)) : layer;
}

static void hold(const mf_plan *p, const mf_chunk *k, uint32_t kinds, uint32_t times, struct moment *out)
{
	for (uint32_t i = 0; i < kinds; i++)
		out->layers[i] += times * k->layers[i];
	out->checkpoints += times * chunk_checkpoints(p, k, kinds);
	out->first += k->first ? times : 0;
	out->last += k->last ? times : 0;
}

static bool loss_is_extra(const mf_layer_memory *l, const mf_chunk *k, double extra)
{
	return k->last && extra == loss_extra(l);
}

/* Finished forwards (or backwards) of chunk `i` of a round when `done` of the schedule's virtual micro-batches are
 * over. */
static uint32_t done_of(uint32_t done, uint32_t group, uint32_t vpp, uint32_t i)
{
	uint32_t round = group * vpp, rest = done % round, n = done / round * group;

	if (rest > i * group)
		n += rest - i * group < group ? rest - i * group : group;
	return n;
}

/*
 * Interleaved order (schedules.py:857-867): groups of N micro-batches pass chunk 0, then chunk 1 and so on; backwards
 * in the reverse order of chunks, `warm` steps behind. Between two changes of chunk the load moves evenly, so only
 * those changes are looked at, over one period: 2 vpp of them.
 *
 * Under EP overlap one more forward precedes, but then a forward and a backward run layer by layer against each other
 * (combined_1f1b.py), the one filling what the other frees: as many chunks as without, and one layer (memory_layer.c).
 */
static void interleaved_moment(const mf_plan *p, const mf_layer_memory *l, const mf_chunk *k, uint32_t kinds,
	uint32_t rank, uint32_t m, bool equal, struct moment *out, bool explain)
{
	uint32_t vpp = p->vpp, group = p->pp < m ? p->pp : m, rounds = (m + group - 1) / group,
		 total = rounds * group * vpp;
	uint32_t warm = 2u * (p->pp - rank - 1u) + (vpp - 1u) * group, step, end, best_step = 0;
	uint32_t fc, fat, bc = vpp - 1, bat = 0;
	double bytes[MF_MAX_CHUNKS], extra_f[MF_MAX_CHUNKS], extra_b[MF_MAX_CHUNKS], load = 0, peak = -1;
	uint32_t best_chunk = 0;

	if (warm >= total)
		warm = total - 1; /* all forwards, then the first backward */
	if (equal) {
		/* Every step adds what it takes away. */
		out->kept = (warm + 1) * chunk_bytes(p, l, k, kinds);
		out->extra = chunk_extra(l, k, kinds, true);
		out->at_loss = false;
		if (explain)
			hold(p, k, kinds, warm + 1, out);
		return;
	}
	for (uint32_t i = 0; i < vpp; i++) {
		bytes[i] = chunk_bytes(p, l, &k[i], kinds);
		extra_f[i] = chunk_extra(l, &k[i], kinds, false);
		extra_b[i] = chunk_extra(l, &k[i], kinds, true);
		load += done_of(warm + 1, group, vpp, i) * bytes[i];
	}
	fc = warm / group % vpp;
	fat = warm % group;
	end = warm + vpp * group < total - 1 ? warm + vpp * group : total - 1;
	for (step = warm; step <= end;) {
		uint32_t run = group - fat < group - bat ? group - fat : group - bat, last;
		double slope = bytes[fc] - bytes[bc], there, most;

		if (run > end - step + 1)
			run = end - step + 1;
		last = step + run - 1;
		there = load + (run - 1) * slope;
		most = larger(load, there) + larger(extra_f[fc], extra_b[bc]);
		if (most > peak) {
			peak = most;
			best_step = there > load ? last : step;
			best_chunk = extra_f[fc] > extra_b[bc] ? fc : bc;
			out->kept = larger(load, there);
			out->extra = larger(extra_f[fc], extra_b[bc]);
		}
		load = there - bytes[bc];
		step += run;
		if ((fat += run) == group) {
			fat = 0;
			fc = fc + 1 == vpp ? 0 : fc + 1;
		}
		if ((bat += run) == group) {
			bat = 0;
			bc = bc ? bc - 1 : vpp - 1;
		}
		load += bytes[fc];
	}
	out->at_loss = loss_is_extra(l, &k[best_chunk], out->extra);
	if (!explain)
		return;
	for (uint32_t i = 0; i < vpp; i++)
		hold(p, &k[i], kinds,
			done_of(best_step + 1, group, vpp, i) - done_of(best_step - warm, group, vpp, vpp - 1 - i),
			out);
}

/*
 * 1F1B (schedules.py:2193): a rank's warm-up is pp - r - 1 forwards, so it holds min(pp - r, M) micro-batches; the
 * backward moment has the largest extra. DualPipe, as read from its paper (parameters twice, pp + 1 micro-batches in
 * flight): a rank serves stage r of one direction and stage pp - 1 - r of the other, pp - r and r + 1 in flight, each
 * direction with half of the micro-batches. With one stage both directions are the same and nothing is held twice.
 */
INLINE void worst_moment(const mf_plan *p, const mf_layer_memory *l, const mf_stage_shape *v, uint32_t kinds,
	uint32_t rank, uint32_t m, struct moment *out, bool explain)
{
	uint32_t vpp = p->vpp ? p->vpp : 1, held;
	const mf_chunk *k = &v->chunk[rank * vpp];

	if (explain)
		memset(out, 0, sizeof *out);
	if (vpp > 1) {
		interleaved_moment(p, l, k, kinds, rank, m, v->equal_chunks[rank], out, explain);
		return;
	}
	if (p->schedule == MF_DUALPIPE && p->pp > 1) {
		const mf_chunk *mirror = &v->chunk[p->pp - 1u - rank];
		uint32_t half = (m + 1) / 2, back = rank + 1u < half ? rank + 1u : half;
		double x = chunk_extra(l, k, kinds, true), y = chunk_extra(l, mirror, kinds, true);

		held = p->pp - rank < half ? p->pp - rank : half;
		out->kept = held * chunk_bytes(p, l, k, kinds) + back * chunk_bytes(p, l, mirror, kinds);
		out->extra = larger(x, y);
		out->at_loss = loss_is_extra(l, x >= y ? k : mirror, out->extra);
		if (explain) {
			hold(p, k, kinds, held, out);
			hold(p, mirror, kinds, back, out);
		}
		return;
	}
	held = p->pp - rank < m ? p->pp - rank : m;
	out->kept = held * chunk_bytes(p, l, k, kinds);
	out->extra = chunk_extra(l, k, kinds, true);
	out->at_loss = loss_is_extra(l, k, out->extra);
	if (explain)
		hold(p, k, kinds, held, out);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Bytes a parameter of a rank, by sharding: decided once a plan. [0] dense, [1] routed experts. */
struct rates {
	double weight[2], grad[2], own[2]; /* own: share of the optimizer state that this rank keeps */
	double moments, moments_embed;     /* bytes of moments a parameter; of embeddings */
	double weight_embed;               /* bytes a parameter of embeddings, which stay in 16 bits */
	bool on_host, fsdp, gathers, shadow, dummies;
};

/* Bytes of a matrix weight. In 8 bits: MXFP8 keeps rows and columns with their scales, block scales keep both
 * directions; a tensor-wise copy serves both where the GPU multiplies any layout (Blackwell). */
static double parameter_bytes(const mf_cost *c, const mf_plan *p)
{
	if (!c->in.stack->fp8_params)
		return 2;
	switch (c->in.workload->precision) {
	case MF_PREC_BF16: return 2;
	case MF_PREC_MXFP8: return p->sharding == MF_FSDP ? 2 : 2.0625;
	case MF_PREC_FP8_TENSOR: return p->sharding == MF_FSDP || c->in.cluster->sm < 100 ? 2 : 1;
	default: return p->sharding == MF_FSDP ? 1 : 2;
	}
}

INLINE struct rates rates_of(const mf_cost *c, const mf_plan *p)
{
	const mf_stack *stack = c->in.stack;
	uint32_t dp = mf_plan_dp(p, c->world), group = (dp ? dp : 1) * p->cp,
		 edp = p->ep > 1 ? mf_plan_edp(p, c->world) : group;
	double groups = stack->optimizer_instances ? stack->optimizer_instances : 1,
	       grad = stack->grad_reduce_bf16 ? 2 : 4;
	double share[2] = {larger(1, groups) / group, groups / (edp ? edp : 1)}, weight = parameter_bytes(c, p);
	/* Both copies of dualpipe's parameters share one optimizer state. */
	double copies = p->schedule == MF_DUALPIPE && p->pp > 1 ? 0.5 : 1;
	bool fsdp = p->sharding == MF_FSDP;
	struct rates r;

	for (int i = 0; i < 2; i++) {
		share[i] = share[i] < 1 ? share[i] : 1;
		r.weight[i] = fsdp && p->zero_stage >= 3 ? weight * share[i] : weight;
		r.grad[i] = fsdp && p->zero_stage >= 2 ? grad * share[i] : grad;
		r.own[i] = copies * (p->zero_stage ? share[i] : 1);
	}
	r.weight_embed = fsdp && p->zero_stage >= 3 ? 2 * share[0] : 2;
	r.moments_embed = stack->precision_aware ? 4 : 8;
	r.moments = stack->optimizer == MF_OPT_MUON ? r.moments_embed / 2 : r.moments_embed;
	r.on_host = p->sharding == MF_ZERO1_OFFLOAD;
	r.fsdp = fsdp && p->zero_stage >= 2;
	r.gathers = fsdp && p->zero_stage >= 3;
	r.shadow = stack->grad_reduce_bf16 && !stack->precision_aware && p->sharding == MF_ZERO1 && p->zero_stage;
	r.dummies = stack->transformer_engine && !fsdp && !stack->separate_wgrad;
	return r;
}

/* Weights, gradients, optimizer. Returns parameters whose optimizer state this rank owns. */
INLINE double static_lines(const struct rates *k, const struct held *r, mf_ledger_sum *t)
{
	double own, own_experts;

	mf_ledger_add(t, "weights.dense", (r->dense - r->embed) * k->weight[0] + r->embed * k->weight_embed,
		"2 B a parameter, embedding and head among them (param_and_grad_buffer.py:1110); FSDP stage 3 / (dp "
		"cp)");
	mf_ledger_add(t, "weights.expert", r->experts * k->weight[1],
		"2 B a parameter of the local experts; FSDP stage 3 / edp");
	mf_ledger_add(t, "grads.dense", r->dense * k->grad[0],
		"4 B, 2 B with bf16 reduction; never sharded by the plain distributed optimizer; FSDP stage 2 / (dp "
		"cp)");
	mf_ledger_add(t, "grads.expert", r->experts * k->grad[1], "4 B, 2 B with bf16 reduction; FSDP stage 2 / edp");
	if (k->on_host)
		return 0; /* master weights and moments are on the host */
	own = r->dense * k->own[0];
	own_experts = r->experts * k->own[1];
	mf_ledger_add(t, "master.dense", 4 * own,
		"4 B / (dp cp) (distrib_optimizer.py:399); whole without distributed optimizer");
	mf_ledger_add(
		t, "master.expert", 4 * own_experts, "4 B / edp, the dense group at ep 1 (optimizer/__init__.py:1170)");
	mf_ledger_add(t, "moments.dense",
		k->own[0] * ((r->dense - r->embed) * k->moments + r->embed * k->moments_embed),
		"8 B / (dp cp), 4 B precision-aware; Muon keeps half for matrices");
	mf_ledger_add(t, "moments.expert", k->moments * own_experts, "8 B / edp, 4 B precision-aware; Muon half");
	return own + own_experts;
}

/* All workspaces but the dummy gradients, which depend on the rank: for a search they are summed once a layer key. */
static void workspace_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, mf_ledger_sum *t)
{
	double te = mf_k(c, MF_C_MEM_TE_MIB) * MF_MIB;

	mf_ledger_add(t, "workspace.cublas", (p->overlap ? 4 : 2) * mf_k(c, MF_C_MEM_CUBLAS_MIB) * MF_MIB,
		"one a handle and stream: forward and autograd thread, two more under overlap");
	if (c->in.stack->transformer_engine) {
		mf_ledger_add(t, "workspace.te", te, "Transformer Engine GEMM workspace");
		if (c->in.model->experts && !c->in.stack->sequential_experts)
			mf_ledger_add(t, "workspace.te_grouped", 4 * te, "grouped GEMM: four streams");
	}
	if (p->tp > 1)
		mf_ledger_add(t, "workspace.sp_gather", l->gather,
			"2 s H, sequence-parallel gather buffer (core/utils.py:641)");
	mf_ledger_add(t, "workspace.small", mf_k(c, MF_C_MEM_SMALL_MIB) * MF_MIB, "masks, batches, random states");
}

/* The activations of a moment, opened. Their sum is `kept`: every line of a layer is whole bytes. */
static void activation_lines(
	const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct moment *at, mf_explain *ex)
{
#define X(id, name, rule) name,
	static const char *const names[] = {MF_ACT_LINES(X)};
#undef X
#define X(id, name, rule) rule,
	static const char *const rules[] = {MF_ACT_LINES(X)};
#undef X
	mf_ledger_sum t = {0, ex};

	if (p->recompute == MF_RECOMPUTE_FULL) {
		mf_ledger_add(&t, "act.checkpoints", at->checkpoints * l->checkpoint,
			"2 t H a checkpoint, times micro-batches in flight");
	} else {
		const mf_layer_kinds *kinds = mf_train_kinds(c);
		double sum[MF_ACT_COUNT] = {0};

		for (uint32_t k = 0; k < kinds->n; k++) {
			mf_layer_act a;

			mf_layer_act_fill(c, p, kinds->kind[k], &a);
			for (int i = 0; i < MF_ACT_COUNT; i++)
				sum[i] += at->layers[k] * a.kept[i];
		}
		for (int i = 0; i < MF_ACT_COUNT; i++)
			mf_ledger_add(&t, names[i], sum[i], rules[i]);
	}
	mf_ledger_add(
		&t, "act.embed.ids", at->first * l->ids, "token ids and labels, 16 s; with hidden dropout its mask");
	mf_ledger_add(&t, "act.final_norm", at->last * l->final_act, "4 t H");
	mf_ledger_add(&t, "act.mtp", at->last * l->mtp_act, "MTP: 16 t H of norms and projection input, and one layer");
}

/* What moves: activations and the moment's own buffers, or the gradient queue, or the optimizer step, the largest. */
INLINE void moving_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct rates *k,
	const struct held *r, double own, const struct moment *opened, mf_ledger_sum *t)
{
	double p2p = p->pp > 1 ? 2 * l->peer * (p->vpp > 1 ? 2 : 1) : 0, gather_embed = 0, gather_units = 0, now;

	if (k->gathers) {
		gather_embed = 2 * r->embed;
		gather_units = 2 * r->unit * (r->at_loss ? 1 : 2);
	}
	now = r->kept + r->extra + p2p + gather_embed + gather_units;
	if (k->fsdp) {
		double params = r->dense + r->experts, quota = larger(mf_k(c, MF_C_MEM_FSDP_QUOTA), 2 * r->unit),
		       queued, gathered;
		double kept = mf_k(c, MF_C_MEM_FSDP_LATE) * r->kept;

		queued =
			(c->in.stack->grad_reduce_bf16 ? 2 : 4) * (params < quota + r->unit ? params : quota + r->unit);
		gathered = r->embed + r->unit + quota / 2;
		gathered = k->gathers ? 2 * (params < gathered ? params : gathered) : 0;
		if (kept + queued + gathered > now) {
			mf_ledger_add(t, "act.remaining", kept,
				"late in backward: the share of activations still held (assumed)");
			mf_ledger_add(t, "fsdp.gather_units", gathered,
				"2 B of embedding, head, running unit and half the quota");
			mf_ledger_add(t, "fsdp.grad_queue", queued,
				"gradients queued up to the quota (megatron_fsdp.py:418-442)");
			return;
		}
	}
	/* A bf16 gradient buffer is copied to fp32 for the step, when no activation is left. */
	if (k->shadow && 4 * own > now) {
		mf_ledger_add(t, "step.main_grads_fp32", 4 * own,
			"fp32 copy of the owned gradient shard (distrib_optimizer.py:2697)");
		return;
	}
	t->bytes += (int64_t)r->kept;
	if (t->ex)
		activation_lines(c, p, l, opened, t->ex);
	if (r->at_loss) {
		mf_ledger_add(t, "logits.main_head", l->logits,
			"s V times 6 B eager, 10 B native fusion, 2 B Transformer Engine");
		mf_ledger_add(
			t, "logits.mtp_heads", l->logits_mtp, "s V times 4 B (2 B Transformer Engine) an MTP head");
		mf_ledger_add(t, "temp.head_wgrad", l->head_wgrad, "2 V H without gradient-accumulation fusion");
		mf_ledger_add(t, "temp.offload_window", l->loss_window, "two layers' worth of offloaded activations");
	} else {
		mf_ledger_add(t, "temp.layer", r->extra,
			"one layer at work, backward as a rule; under recompute its activations again; under EP "
			"overlap those "
			"of the other micro-batch's layer");
	}
	mf_ledger_add(t, "p2p", p2p, "4 t H of peer buffers, twice with interleaving");
	mf_ledger_add(t, "fsdp.gather_embed", gather_embed, "2 B: embedding and head are no unit and stay gathered");
	mf_ledger_add(t, "fsdp.gather_units", gather_units, "2 B of the running unit and the prefetched one");
}

/* `opened` is filled where an explanation is wanted. */
static void hold_rank(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const mf_stage_shape *v,
	uint32_t rank, uint32_t m, struct held *r, struct moment *opened)
{
	uint32_t vpp = p->vpp ? p->vpp : 1;
	bool twice = p->schedule == MF_DUALPIPE && p->pp > 1;
	struct moment at;

	memset(r, 0, sizeof *r);
	for (uint32_t i = 0; i < vpp; i++) {
		add_parameters(c, l, &v->chunk[rank * vpp + i], r);
		if (twice)
			add_parameters(c, l, &v->chunk[(p->pp - 1u - rank) * vpp + i], r);
	}
	if (opened) {
		worst_moment(p, l, v, c->train_memory->kinds.n, rank, m, &at, true);
		*opened = at;
	} else {
		worst_moment(p, l, v, c->train_memory->kinds.n, rank, m, &at, false);
	}
	r->kept = at.kept;
	r->extra = at.extra;
	r->at_loss = at.at_loss;
	for (size_t i = 0; i < l->n_shapes; i++)
		if (l->shapes[i].owners & r->has)
			r->dummies += 2 * l->shapes[i].out * l->shapes[i].in;
}

INLINE double full_rank(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct rates *k,
	const struct held *r, const struct moment *opened, mf_explain *ex)
{
	mf_ledger_sum t = {0, ex};
	double own = static_lines(k, r, &t), slack, most;

	if (ex)
		workspace_lines(c, p, l, &t);
	else
		t.bytes += l->workspaces;
	if (k->dummies)
		mf_ledger_add(&t, "workspace.dummy_wgrad", r->dummies,
			"2 B of each distinct weight shape, cached for ever (tensor_parallel/layers.py:617)");
	moving_lines(c, p, l, k, r, own, opened, &t);
	slack = (mf_k(c, MF_C_MEM_RESERVE) - 1) * (double)t.bytes;
	most = mf_k(c, MF_C_MEM_RESERVE_MAX_GIB) * MF_GIB;
	mf_ledger_add(
		&t, "reserve", slack < most ? slack : most, "allocator slack: reserved over allocated, up to a limit");
	mf_ledger_add(&t, "context", mf_k(c, MF_C_MEM_CONTEXT_GIB) * MF_GIB, "CUDA context and NCCL channels");
	return (double)t.bytes;
}

/* ---- all stages -------------------------------------------------------------------------------------------------- */

uint32_t mf_micro_batches(const mf_cost *c, const mf_plan *p)
{
	uint32_t dp = mf_plan_dp(p, c->world), slice = dp * (p->micro_batch ? p->micro_batch : 1u), m;

	m = slice ? c->in.workload->global_batch / slice : 1;
	return m ? m : 1;
}

/* One rank in the ledger asked for, opened where `ex` is given. */
static double any_rank(const mf_cost *c, const mf_plan *p, const struct pipeline *q, uint32_t rank, mf_explain *ex)
{
	struct rates k = rates_of(c, p);
	struct moment opened;
	struct held r;

	if (c->opts.ledger == MF_LEDGER_PUBLISHED)
		return mf_published_rank(c, p, q->l, q->v, rank, ex);
	hold_rank(c, p, q->l, q->v, rank, q->micro_batches, &r, &opened);
	return full_rank(c, p, q->l, &k, &r, &opened, ex);
}

/* The ranks that can be the worst, from the call before where only the sharding differs. */
INLINE const struct pipeline *pipeline_of(mf_cost *c, const mf_plan *p)
{
	struct pipeline *q = &c->train_memory->last;
	uint64_t key[4];

	plan_key(p, key);
	if (q->used && memcmp(q->key, key, sizeof key) == 0)
		return q;
	memcpy(q->key, key, sizeof key);
	q->l = layer_memory(c, p, key);
	q->v = stage_shape(c, p, key + 2);
	q->micro_batches = mf_micro_batches(c, p);
	q->used = true;
	if (c->opts.ledger != MF_LEDGER_PUBLISHED)
		for (uint32_t i = 0; i < q->v->n_ranks; i++)
			hold_rank(c, p, q->l, q->v, q->v->ranks[i], q->micro_batches, &q->rank[i], NULL);
	return q;
}

static void judge(const mf_cost *c, double total, mf_memory *out)
{
	bool published = c->opts.ledger == MF_LEDGER_PUBLISHED;
	double band = published ? mf_k(c, MF_C_MEM_PUBLISHED_PROBE_GB) * MF_GB : mf_k(c, MF_C_MEM_PROBE_GIB) * MF_GIB;

	out->budget_bytes =
		published ? c->in.cluster->hbm_bytes * c->opts.usable_fraction : c->in.cluster->device_bytes;
	out->total_bytes = total;
	out->fits = total <= out->budget_bytes;
	out->probe = out->fits && total > out->budget_bytes - band;
}

void mf_train_memory_eval(mf_cost *c, const mf_plan *p, mf_memory *out, mf_explain *ex)
{
	const struct pipeline *q = pipeline_of(c, p);
	bool published = c->opts.ledger == MF_LEDGER_PUBLISHED;
	struct rates k = rates_of(c, p);
	double worst = -1;

	out->worst_stage = 0;
	for (uint32_t i = 0; i < q->v->n_ranks; i++) {
		double total = published ? mf_published_rank(c, p, q->l, q->v, q->v->ranks[i], NULL)
					 : full_rank(c, p, q->l, &k, &q->rank[i], NULL, NULL);

		if (total > worst) {
			worst = total;
			out->worst_stage = q->v->ranks[i];
		}
	}
	/* A split with more virtual stages than can be named has no price. */
	judge(c, q->v->n_ranks ? worst : NAN, out);
	if (!ex || !q->v->n_ranks)
		return;
	for (uint32_t r = 0; r < p->pp; r++)
		ex->stage_bytes[r] = any_rank(c, p, q, r, NULL);
	ex->n_stages = p->pp;
	any_rank(c, p, q, out->worst_stage, ex);
}

mf_status mf_train_memory_stage(mf_cost *c, const mf_plan *p, uint32_t stage, mf_explain *ex, mf_err *err)
{
	const struct pipeline *q = pipeline_of(c, p);

	if (!q->v->n_ranks)
		return mf_fail_at(err, MF_EINPUT, NULL, 0, "vpp", "more virtual stages than a split can name");
	ex->n_stages = p->pp;
	for (uint32_t r = 0; r < p->pp; r++)
		ex->stage_bytes[r] = any_rank(c, p, q, r, NULL);
	judge(c, any_rank(c, p, q, stage, ex), &ex->memory);
	ex->memory.worst_stage = (uint16_t)stage;
	return MF_OK;
}
