/*
 * memory_train.c: GPU memory of a training rank. The worst pipeline stage decides: its weights, gradients and optimizer,
 * its workspaces, and the activations of the micro-batches in flight at the worst of its moments (loss, layer forward,
 * layer backward, optimizer step). Rules and their evidence stand in the rule texts (files of Megatron core 0.18.0), those
 * of a layer in memory_layer.c.
 *
 * A search asks for hundreds of thousands of plans, so two memo tables carry the work: a layer's bytes by the dimensions
 * that decide a layer, and a pipeline split by the dimensions that decide it. Both are direct-mapped and of fixed size: a
 * collision computes again, which is right and only slower. Ranks whose chunks are equal hold equal static bytes, and the
 * earlier one has at least as many micro-batches in flight; so one rank of each kind is asked.
 */
#include "memory_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYER_SLOTS 2048 /* powers of two */
#define SHAPE_SLOTS 256
#define INLINE static inline __attribute__((always_inline))

struct mf_train_memory {
	uint16_t moe_before[MF_MAX_LAYERS + 1]; /* MoE layers among the first n */
	mf_layer_memory layers[LAYER_SLOTS];
	mf_stage_shape shapes[SHAPE_SLOTS];
};

mf_status mf_train_memory_new(mf_cost *c, mf_err *err)
{
	struct mf_train_memory *s = calloc(1, sizeof *s);
	const mf_model *m = c->in.model;

	if (!s)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	for (uint32_t i = 0; i < MF_MAX_LAYERS; i++)
		s->moe_before[i + 1] = (uint16_t)(s->moe_before[i] + (i < m->layers && m->moe_layer[i] ? 1 : 0));
	c->train_memory = s;
	return MF_OK;
}

void mf_train_memory_free(struct mf_train_memory *s)
{
	free(s);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ (b * 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;

	return h ^ h >> 29;
}

/* ---- memo tables ------------------------------------------------------------------------------------------------- */

INLINE const mf_layer_memory *layer_memory(mf_cost *c, const mf_plan *p)
{
	uint64_t a = (uint64_t)p->tp << 48 | (uint64_t)p->cp << 32 | (uint64_t)p->ep << 16 | p->etp;
	uint64_t b = (uint64_t)p->micro_batch << 48 | (uint64_t)p->recompute_layers << 32 | (uint64_t)(p->overlap != 0) << 24
		| (uint64_t)p->dispatcher << 16 | (uint64_t)p->recompute << 8 | p->recompute_modules;
	mf_layer_memory *l = &c->train_memory->layers[mix(a, b) >> 40 & (LAYER_SLOTS - 1)];

	if (!l->used || l->key[0] != a || l->key[1] != b) {
		mf_layer_memory_fill(c, p, l);
		l->key[0] = a;
		l->key[1] = b;
		l->used = 1;
	}
	return l;
}

static void shape_fill(const mf_cost *c, const mf_plan *p, mf_stage_shape *v)
{
	const struct mf_train_memory *s = c->train_memory;
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

		k->layers[1] = (uint16_t)(s->moe_before[end] - s->moe_before[at]);
		k->layers[0] = (uint16_t)(end - at - k->layers[1]);
		k->first = i == 0;
		k->last = i == n - 1;
		at = end;
	}
	for (uint32_t r = 0; r < p->pp; r++) {
		uint32_t seen = 0;

		/* Under dualpipe a rank holds its mirror's chunk too, and flights differ: every rank up to the middle counts. */
		if (p->schedule == MF_DUALPIPE) {
			if (r < (p->pp + 1u) / 2)
				v->ranks[v->n_ranks++] = (uint16_t)r;
			continue;
		}
		while (seen < v->n_ranks
			&& memcmp(&v->chunk[v->ranks[seen] * vpp], &v->chunk[r * vpp], vpp * sizeof v->chunk[0]) != 0)
			seen++;
		if (seen == v->n_ranks)
			v->ranks[v->n_ranks++] = (uint16_t)r;
	}
}

INLINE const mf_stage_shape *stage_shape(mf_cost *c, const mf_plan *p)
{
	uint64_t a = (uint64_t)p->pp << 48 | (uint64_t)p->vpp << 32 | (uint64_t)p->first_layers << 16 | p->last_layers;
	uint64_t b = (uint64_t)p->stage_layout << 8 | (p->schedule == MF_DUALPIPE);
	mf_stage_shape *v = &c->train_memory->shapes[mix(a, b) >> 40 & (SHAPE_SLOTS - 1)];

	if (!v->used || v->key[0] != a || v->key[1] != b) {
		shape_fill(c, p, v);
		v->key[0] = a;
		v->key[1] = b;
		v->used = 1;
	}
	return v;
}

/* ---- what a rank holds ------------------------------------------------------------------------------------------- */

/* Parameters of a rank and what decides its workspaces. */
struct resident {
	double dense, experts;  /* parameters, embedding and head among the first */
	double embed;           /* embedding and head: no FSDP unit */
	double unit;            /* largest FSDP unit */
	unsigned has;           /* MF_HAS_ bits */
};

INLINE void add_resident(const mf_cost *c, const mf_layer_memory *l, const mf_chunk *k, struct resident *r)
{
	r->dense += k->layers[0] * l->params[0] + k->layers[1] * l->params[1];
	r->experts += k->layers[1] * l->experts[1];
	if (k->layers[0]) {
		r->has |= MF_HAS_DENSE;
		r->unit = r->unit > l->params[0] ? r->unit : l->params[0];
	}
	if (k->layers[1]) {
		r->has |= MF_HAS_MOE;
		r->unit = r->unit > l->params[1] + l->experts[1] ? r->unit : l->params[1] + l->experts[1];
	}
	if (k->first)
		r->embed += l->embedding;
	if (k->last) {
		r->dense += l->final_norm + l->mtp;
		r->experts += l->mtp_experts;
		if (!c->in.model->tied_embeddings || !k->first) {
			r->embed += l->head;
			r->has |= MF_HAS_HEAD;
		}
		if (l->mtp > 0) {
			r->has |= MF_HAS_MTP;
			r->embed += k->first ? 0 : l->embedding; /* MTP keeps its own copy (gpt_model.py:156) */
		}
	}
}

/* The moment with the most activations: their bytes, what stands beside them, and how much of each kind is held. */
struct moment {
	double kept, extra;
	bool at_loss;
	uint32_t layers[2], checkpoints, first, last; /* times micro-batches in flight; filled for an explanation */
};

INLINE uint32_t chunk_checkpoints(const mf_plan *p, const mf_chunk *k)
{
	uint32_t n = (uint32_t)k->layers[0] + k->layers[1];

	return p->recompute_layers > 1 ? (n + p->recompute_layers - 1u) / p->recompute_layers : n;
}

INLINE double chunk_bytes(const mf_plan *p, const mf_layer_memory *l, const mf_chunk *k)
{
	double n = k->layers[0] * l->sum[0] + k->layers[1] * l->sum[1];

	if (p->recompute == MF_RECOMPUTE_FULL)
		n += chunk_checkpoints(p, k) * l->checkpoint;
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

/* Beside the kept activations: the largest of a chunk's layers, or its loss. */
INLINE double chunk_extra(const mf_layer_memory *l, const mf_chunk *k, bool backward)
{
	const double *x = backward ? l->backward_extra : l->forward_extra;
	double layer = larger(k->layers[0] ? x[0] : 0, k->layers[1] ? x[1] : 0);

	return k->last ? larger(layer, l->logits + l->logits_mtp) : layer;
}

static void hold(const mf_plan *p, const mf_chunk *k, uint32_t times, struct moment *out)
{
	out->layers[0] += times * k->layers[0];
	out->layers[1] += times * k->layers[1];
	out->checkpoints += times * chunk_checkpoints(p, k);
	out->first += k->first ? times : 0;
	out->last += k->last ? times : 0;
}

static bool loss_is_extra(const mf_layer_memory *l, const mf_chunk *k, double extra)
{
	return k->last && extra == l->logits + l->logits_mtp;
}

/* Finished forwards (or backwards) of chunk `i` of a round when `done` of the schedule's virtual micro-batches are over. */
static uint32_t done_of(uint32_t done, uint32_t group, uint32_t vpp, uint32_t i)
{
	uint32_t round = group * vpp, rest = done % round, n = done / round * group;

	if (rest > i * group)
		n += rest - i * group < group ? rest - i * group : group;
	return n;
}

/*
 * Interleaved order (schedules.py:857-867): groups of N micro-batches pass chunk 0, then chunk 1 and so on; backwards in
 * the reverse order of chunks, `warm` steps behind. Between two changes of chunk the load moves evenly, so only those
 * changes are looked at, over one period: 2 vpp of them.
 */
static void interleaved_moment(const mf_plan *p, const mf_layer_memory *l, const mf_chunk *k, uint32_t rank, uint32_t m,
	struct moment *out, bool explain)
{
	uint32_t vpp = p->vpp, group = p->pp < m ? p->pp : m, rounds = (m + group - 1) / group, total = rounds * group * vpp;
	uint32_t warm = 2u * (p->pp - rank - 1u) + (vpp - 1u) * group + (p->overlap ? 1u : 0u), step, end, best_step = 0;
	uint32_t fc, fat, bc = vpp - 1, bat = 0;
	double bytes[MF_MAX_CHUNKS], extra_f[MF_MAX_CHUNKS], extra_b[MF_MAX_CHUNKS], load = 0, peak = -1;
	uint32_t best_chunk = 0;

	for (uint32_t i = 0; i < vpp; i++) {
		bytes[i] = chunk_bytes(p, l, &k[i]);
		extra_f[i] = chunk_extra(l, &k[i], false);
		extra_b[i] = chunk_extra(l, &k[i], true);
	}
	if (warm >= total)
		warm = total - 1; /* all forwards, then the first backward */
	for (uint32_t i = 0; i < vpp; i++)
		load += done_of(warm + 1, group, vpp, i) * bytes[i];
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
		hold(p, &k[i], done_of(best_step + 1, group, vpp, i) - done_of(best_step - warm, group, vpp, vpp - 1 - i), out);
}

/*
 * 1F1B (schedules.py:2193): a rank's warm-up is pp - r - 1 forwards, so it holds min(pp - r, M) micro-batches; the
 * backward moment has the largest extra. DualPipe, as read from its paper (parameters twice, pp + 1 micro-batches in
 * flight): a rank serves stage r of one direction and stage pp - 1 - r of the other, pp - r and r + 1 in flight, each
 * direction with half of the micro-batches. With one stage both directions are the same and nothing is held twice.
 */
INLINE void worst_moment(const mf_plan *p, const mf_layer_memory *l, const mf_stage_shape *v, uint32_t rank, uint32_t m,
	struct moment *out, bool explain)
{
	uint32_t vpp = p->vpp ? p->vpp : 1, held;
	const mf_chunk *k = &v->chunk[rank * vpp];

	if (explain)
		memset(out, 0, sizeof *out);
	if (vpp > 1) {
		interleaved_moment(p, l, k, rank, m, out, explain);
		return;
	}
	if (p->schedule == MF_DUALPIPE && p->pp > 1) {
		const mf_chunk *mirror = &v->chunk[p->pp - 1u - rank];
		uint32_t half = (m + 1) / 2, back = rank + 1u < half ? rank + 1u : half;
		double x = chunk_extra(l, k, true), y = chunk_extra(l, mirror, true);

		held = p->pp - rank < half ? p->pp - rank : half;
		out->kept = held * chunk_bytes(p, l, k) + back * chunk_bytes(p, l, mirror);
		out->extra = larger(x, y);
		out->at_loss = loss_is_extra(l, x >= y ? k : mirror, out->extra);
		if (explain) {
			hold(p, k, held, out);
			hold(p, mirror, back, out);
		}
		return;
	}
	held = p->pp - rank < m ? p->pp - rank : m;
	out->kept = held * chunk_bytes(p, l, k);
	out->extra = chunk_extra(l, k, true);
	out->at_loss = loss_is_extra(l, k, out->extra);
	if (explain)
		hold(p, k, held, out);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Weights, gradients, optimizer. Returns parameters whose optimizer state this rank owns. */
INLINE double static_lines(const mf_cost *c, const mf_plan *p, const struct resident *r, double copies, mf_ledger_sum *t)
{
	const mf_stack *stack = c->in.stack;
	uint32_t dp = mf_plan_dp(p, c->world), edp = mf_plan_edp(p, c->world), group = (dp ? dp : 1) * p->cp;
	double grad = stack->grad_reduce_bf16 ? 2 : 4, moments = stack->precision_aware ? 4 : 8;
	bool fsdp = p->sharding == MF_FSDP, sharded = p->zero_stage > 0 || p->sharding == MF_ZERO1_OFFLOAD;
	double dense = r->dense + r->embed, d = group, de = p->ep > 1 ? (edp ? edp : 1) : group, own, own_experts;

	mf_ledger_add(t, "weights.dense", 2 * dense / (fsdp && p->zero_stage >= 3 ? d : 1),
		"2 B a parameter, embedding and head among them (param_and_grad_buffer.py:1110); FSDP stage 3 / (dp cp)");
	mf_ledger_add(t, "weights.expert", 2 * r->experts / (fsdp && p->zero_stage >= 3 ? de : 1),
		"2 B a parameter of the local experts; FSDP stage 3 / edp");
	mf_ledger_add(t, "grads.dense", grad * dense / (fsdp && p->zero_stage >= 2 ? d : 1),
		"4 B, 2 B with bf16 reduction; never sharded by the plain distributed optimizer; FSDP stage 2 / (dp cp)");
	mf_ledger_add(t, "grads.expert", grad * r->experts / (fsdp && p->zero_stage >= 2 ? de : 1),
		"4 B, 2 B with bf16 reduction; FSDP stage 2 / edp");
	if (p->sharding == MF_ZERO1_OFFLOAD)
		return 0; /* master weights and moments are on the host */
	/* Both copies of dualpipe's parameters share one optimizer state. */
	own = dense / (sharded ? d * copies : copies);
	own_experts = r->experts / (sharded ? de * copies : copies);
	mf_ledger_add(t, "master.dense", 4 * own, "4 B / (dp cp) (distrib_optimizer.py:399); whole without distributed optimizer");
	mf_ledger_add(t, "master.expert", 4 * own_experts, "4 B / edp, the dense group at ep 1 (optimizer/__init__.py:1170)");
	mf_ledger_add(t, "moments.dense", moments * own, "8 B / (dp cp), 4 B precision-aware");
	mf_ledger_add(t, "moments.expert", moments * own_experts, "8 B / edp, 4 B precision-aware");
	return own + own_experts;
}

INLINE void workspace_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, unsigned has, mf_ledger_sum *t)
{
	double te = mf_k(c, MF_C_MEM_TE_MIB) * MF_MIB;
	bool has_te = c->in.stack->transformer_engine;

	mf_ledger_add(t, "workspace.cublas", (p->overlap ? 4 : 2) * mf_k(c, MF_C_MEM_CUBLAS_MIB) * MF_MIB,
		"one a handle and stream: forward and autograd thread, two more under overlap");
	if (has_te) {
		mf_ledger_add(t, "workspace.te", te, "Transformer Engine GEMM workspace");
		if (c->in.model->experts)
			mf_ledger_add(t, "workspace.te_grouped", 4 * te, "grouped GEMM: four streams");
		if (p->sharding != MF_FSDP)
			mf_ledger_add(t, "workspace.dummy_wgrad", l->shape_bytes[has],
				"2 B of each distinct weight shape, cached for ever (tensor_parallel/layers.py:617)");
	}
	if (p->tp > 1)
		mf_ledger_add(t, "workspace.sp_gather", l->gather, "2 s H, sequence-parallel gather buffer (core/utils.py:641)");
	mf_ledger_add(t, "workspace.small", mf_k(c, MF_C_MEM_SMALL_MIB) * MF_MIB, "masks, batches, random states");
}

/* The activations of a moment, opened. Their sum is `kept`: every line of a layer is whole bytes. */
static void activation_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct moment *at,
	mf_explain *ex)
{
#define X(id, name, rule) name,
	static const char *const names[] = {MF_ACT_LINES(X)};
#undef X
#define X(id, name, rule) rule,
	static const char *const rules[] = {MF_ACT_LINES(X)};
#undef X
	mf_ledger_sum t = {0, ex};

	if (p->recompute == MF_RECOMPUTE_FULL) {
		mf_ledger_add(&t, "act.checkpoints", at->checkpoints * l->checkpoint, "2 t H a checkpoint, times micro-batches in flight");
	} else {
		mf_layer_act a[2];

		for (int moe = 0; moe < 2; moe++)
			mf_layer_act_fill(c, p, moe, &a[moe]);
		for (int i = 0; i < MF_ACT_COUNT; i++)
			mf_ledger_add(&t, names[i], (at->layers[0] ? at->layers[0] * a[0].kept[i] : 0)
				+ (at->layers[1] ? at->layers[1] * a[1].kept[i] : 0), rules[i]);
	}
	mf_ledger_add(&t, "act.embed.ids", at->first * l->ids, "token ids and labels, 16 s");
	mf_ledger_add(&t, "act.final_norm", at->last * l->final_act, "4 t H");
	mf_ledger_add(&t, "act.mtp", at->last * l->mtp_act, "MTP: 16 t H of norms and projection input, and one layer");
}

INLINE void moving_lines(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const struct resident *r,
	const struct moment *at, double own, mf_ledger_sum *t)
{
	const mf_stack *stack = c->in.stack;
	bool fsdp = p->sharding == MF_FSDP && p->zero_stage >= 2, gathers = fsdp && p->zero_stage >= 3;
	double p2p = p->pp > 1 ? 2 * l->peer * (p->vpp > 1 ? 2 : 1) : 0, gather_embed = 0, gather_units = 0, now;

	if (gathers) {
		gather_embed = 2 * r->embed;
		gather_units = 2 * r->unit * (at->at_loss ? 1 : 2);
	}
	now = at->kept + at->extra + p2p + gather_embed + gather_units;
	if (fsdp) {
		double params = r->dense + r->embed + r->experts, quota = mf_k(c, MF_C_MEM_FSDP_QUOTA), queued, gathered, kept;

		quota = larger(quota, 2 * r->unit);
		queued = (stack->grad_reduce_bf16 ? 2 : 4) * (params < quota + r->unit ? params : quota + r->unit);
		gathered = r->embed + r->unit + quota / 2;
		gathered = gathers ? 2 * (params < gathered ? params : gathered) : 0;
		kept = mf_k(c, MF_C_MEM_FSDP_LATE) * at->kept;
		if (kept + queued + gathered > now) {
			mf_ledger_add(t, "act.remaining", kept, "late in backward: the share of activations still held (assumed)");
			mf_ledger_add(t, "fsdp.gather_units", gathered, "2 B of embedding, head, running unit and half the quota");
			mf_ledger_add(t, "fsdp.grad_queue", queued, "gradients queued up to the quota (megatron_fsdp.py:418-442)");
			return;
		}
	}
	/* A bf16 gradient buffer is copied to fp32 for the step, when no activation is left. */
	if (stack->grad_reduce_bf16 && !stack->precision_aware && p->sharding == MF_ZERO1 && p->zero_stage && 4 * own > now) {
		mf_ledger_add(t, "step.main_grads_fp32", 4 * own, "fp32 copy of the owned gradient shard (distrib_optimizer.py:2697)");
		return;
	}
	t->bytes += at->kept;
	if (t->ex)
		activation_lines(c, p, l, at, t->ex);
	if (at->at_loss) {
		mf_ledger_add(t, "logits.main_head", l->logits, "s V times 6 B eager, 10 B native fusion, 2 B Transformer Engine");
		mf_ledger_add(t, "logits.mtp_heads", l->logits_mtp, "s V times 4 B (2 B Transformer Engine) an MTP head");
	} else {
		mf_ledger_add(t, "temp.layer", at->extra, "one layer at work, backward as a rule; under recompute its activations again");
	}
	mf_ledger_add(t, "p2p", p2p, "4 t H of peer buffers, twice with interleaving");
	mf_ledger_add(t, "fsdp.gather_embed", gather_embed, "2 B: embedding and head are no unit and stay gathered");
	mf_ledger_add(t, "fsdp.gather_units", gather_units, "2 B of the running unit and the prefetched one");
}

INLINE double full_rank(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const mf_stage_shape *v, uint32_t rank,
	uint32_t m, mf_explain *ex)
{
	uint32_t vpp = p->vpp ? p->vpp : 1;
	bool twice = p->schedule == MF_DUALPIPE && p->pp > 1;
	mf_ledger_sum t = {0, ex};
	struct resident r = {0, 0, 0, 0, 0};
	struct moment at;
	double own;

	for (uint32_t i = 0; i < vpp; i++) {
		add_resident(c, l, &v->chunk[rank * vpp + i], &r);
		if (twice)
			add_resident(c, l, &v->chunk[(p->pp - 1u - rank) * vpp + i], &r);
	}
	worst_moment(p, l, v, rank, m, &at, ex != NULL);
	own = static_lines(c, p, &r, twice ? 2 : 1, &t);
	workspace_lines(c, p, l, r.has, &t);
	moving_lines(c, p, l, &r, &at, own, &t);
	mf_ledger_add(&t, "reserve", (mf_k(c, MF_C_MEM_RESERVE) - 1) * t.bytes, "allocator slack: reserved over allocated");
	mf_ledger_add(&t, "context", mf_k(c, MF_C_MEM_CONTEXT_GIB) * MF_GIB, "CUDA context and NCCL channels");
	return t.bytes;
}

/* ---- all stages -------------------------------------------------------------------------------------------------- */

uint32_t mf_micro_batches(const mf_cost *c, const mf_plan *p)
{
	uint32_t dp = mf_plan_dp(p, c->world), slice = dp * (p->micro_batch ? p->micro_batch : 1u), m;

	m = slice ? c->in.workload->global_batch / slice : 1;
	return m ? m : 1;
}

/* One rank in the ledger asked for; not inlined where an explanation is made, so the search's copy stays small. */
static double explained_rank(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const mf_stage_shape *v,
	uint32_t rank, uint32_t m, mf_explain *ex)
{
	return c->opts.ledger == MF_LEDGER_PUBLISHED ? mf_published_rank(c, p, l, v, rank, ex) : full_rank(c, p, l, v, rank, m, ex);
}

void mf_train_memory_eval(mf_cost *c, const mf_plan *p, mf_memory *out, mf_explain *ex)
{
	const mf_layer_memory *l = layer_memory(c, p);
	const mf_stage_shape *v = stage_shape(c, p);
	bool published = c->opts.ledger == MF_LEDGER_PUBLISHED;
	uint32_t m = mf_micro_batches(c, p);
	double worst = -1, band;

	out->budget_bytes = published ? c->in.cluster->hbm_bytes * c->opts.usable_fraction : c->in.cluster->device_bytes;
	out->worst_stage = 0;
	for (uint32_t i = 0; i < v->n_ranks; i++) {
		uint32_t r = v->ranks[i];
		double total = published ? mf_published_rank(c, p, l, v, r, NULL) : full_rank(c, p, l, v, r, m, NULL);

		if (total > worst) {
			worst = total;
			out->worst_stage = (uint16_t)r;
		}
	}
	band = published ? mf_k(c, MF_C_MEM_PUBLISHED_PROBE_GB) * MF_GB : mf_k(c, MF_C_MEM_PROBE_GIB) * MF_GIB;
	out->total_bytes = v->n_ranks ? worst : NAN; /* a split with more virtual stages than can be named has no price */
	out->fits = out->total_bytes <= out->budget_bytes;
	out->probe = out->fits && out->total_bytes > out->budget_bytes - band;
	if (!ex || !v->n_ranks)
		return;
	for (uint32_t r = 0; r < p->pp; r++)
		ex->stage_bytes[r] = explained_rank(c, p, l, v, r, m, NULL);
	ex->n_stages = p->pp;
	explained_rank(c, p, l, v, out->worst_stage, m, ex);
}
