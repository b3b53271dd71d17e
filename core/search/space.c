/*
 * space.c: the three named spaces. `paper` is what the paper enumerates, `default` adds a dimension where it can matter
 * for the model, the cluster and the workload at hand, `wide` takes every value that changes the emitted command.
 * Defaults stand first in every list: equal scores then rank the plainest plan first.
 */
#include "space_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const mf_choice mf_space_choices[] = {
	{MF_SPACE_PAPER, "paper", "tp, pp, ep, schedule, overlap and sharding, as the paper enumerates"},
	{MF_SPACE_DEFAULT, "default",
		"adds micro-batch, recompute, virtual and uneven stages, dispatcher, cp, etp, replicas"},
	{MF_SPACE_WIDE, "wide", "every value of every dimension that changes the command"},
	{0, NULL, NULL},
};

/* ---- lists of values ------------------------------------------------------------------------------------------------
 */

#define MAX_VALUES 160

typedef struct values {
	uint16_t v[MAX_VALUES];
	size_t n;
} values;

static void add(values *l, uint32_t v)
{
	assert(l->n < MAX_VALUES && v <= UINT16_MAX);
	l->v[l->n++] = (uint16_t)v;
}

/* Attention heads bound tp; a wider tp than a node is only tried where NVLink reaches further. */
static values tp_values(const mf_inputs *in, mf_space space)
{
	const uint32_t most = space == MF_SPACE_WIDE && in->cluster->nvlink_domain > 8 ? 16 : 8;
	values l = {.n = 0};

	for (uint32_t t = 1; t <= most; t *= 2)
		if (in->model->heads % t == 0)
			add(&l, t);
	return l;
}

/* Divisors of the experts that can divide the world; more GPUs than a token's ring of experts are left to dp. */
static values ep_values(const mf_inputs *in, uint32_t world)
{
	const uint32_t experts = in->model->experts;
	values l = {.n = 0};

	add(&l, 1);
	for (uint32_t e = 2; e <= experts && l.n < 24; e++)
		if (experts % e == 0 && world % e == 0)
			add(&l, e);
	return l;
}

static values pp_values(const mf_inputs *in, uint32_t world)
{
	values l = {.n = 0};

	for (uint32_t p = 1; p <= world && p <= in->model->layers && l.n < MF_SPACE_MAX_PP; p++)
		if (world % p == 0)
			add(&l, p);
	return l;
}

/* Context parallelism cuts a sequence in 2*cp pieces; short pieces only cost. */
static values cp_values(const mf_inputs *in, mf_space space)
{
	const uint32_t seq = in->workload->phase == MF_TRAIN ? in->workload->seq : in->workload->input_tokens;
	const uint32_t piece = space == MF_SPACE_WIDE ? 2048 : 4096;
	values l = {.n = 0};

	add(&l, 1);
	if (space != MF_SPACE_PAPER)
		for (uint32_t c = 2; c <= 8 && seq / c >= piece && seq % (2 * c) == 0; c *= 2)
			add(&l, c);
	return l;
}

/* 0 is "as tp". */
static values etp_values(const mf_inputs *in, mf_space space, uint32_t tp)
{
	values l = {.n = 0};

	add(&l, 0);
	if (in->model->experts && space != MF_SPACE_PAPER)
		for (uint32_t e = 1; e < tp; e *= space == MF_SPACE_WIDE ? 2 : tp)
			add(&l, e);
	return l;
}

static values dispatcher_values(const mf_inputs *in, mf_space space, bool sharded)
{
	values l = {.n = 0};

	add(&l, MF_DISP_ALLTOALL);
	if (!in->model->experts || space == MF_SPACE_PAPER || !sharded)
		return l;
	add(&l, MF_DISP_ALLGATHER);
	/* A package the stack lacks would only add its refusal to every layout. */
	if (in->stack->deepep)
		add(&l, MF_DISP_DEEPEP);
	if (in->stack->hybridep)
		add(&l, MF_DISP_HYBRIDEP);
	return l;
}

/* Recompute settings, packed as mode | modules << 2 | layers << 9. */
static uint32_t recompute_pack(mf_recompute mode, unsigned modules, unsigned layers)
{
	return (uint32_t)mode | modules << 2 | layers << 9;
}

static void recompute_apply(mf_plan *p, uint32_t packed)
{
	const mf_plan plain = mf_plan_default(MF_TRAIN);

	p->recompute = packed & 3;
	p->recompute_modules = p->recompute == MF_RECOMPUTE_SELECTIVE ? packed >> 2 & 127 : plain.recompute_modules;
	p->recompute_layers = (uint16_t)(packed >> 9);
}

/* Modules the model has at all: naming others changes nothing or is refused for a reason that is no news. */
static unsigned recompute_applicable(const mf_model *m)
{
	unsigned bits = MF_RC_CORE_ATTN | MF_RC_LAYERNORM;

	if (m->attention == MF_MLA)
		bits |= MF_RC_MLA_UP_PROJ;
	if (m->moe_layers)
		bits |= MF_RC_MOE_ACT | MF_RC_MOE;
	if (mf_model_dense_layers(m))
		bits |= MF_RC_MLP;
	if (m->shared_ffn)
		bits |= MF_RC_SHARED_EXPERTS;
	return bits;
}

static values recompute_values(const mf_inputs *in, mf_space space)
{
	const unsigned all = recompute_applicable(in->model);
	values l = {.n = 0};

	add(&l, recompute_pack(MF_RECOMPUTE_NONE, 0, 1));
	if (space == MF_SPACE_PAPER)
		return l;
	add(&l, recompute_pack(MF_RECOMPUTE_SELECTIVE, MF_RC_CORE_ATTN, 1));
	if (space == MF_SPACE_DEFAULT) {
		/* Cheap to redo and large to keep: what Megatron's own DeepSeek recipe names. */
		const unsigned light = all & (MF_RC_MOE_ACT | MF_RC_LAYERNORM | MF_RC_MLA_UP_PROJ);
		add(&l, recompute_pack(MF_RECOMPUTE_SELECTIVE, light, 1));
		if (all & MF_RC_MOE)
			add(&l, recompute_pack(MF_RECOMPUTE_SELECTIVE, MF_RC_MOE | MF_RC_LAYERNORM, 1));
		add(&l, recompute_pack(MF_RECOMPUTE_FULL, 0, 1));
		return l;
	}
	/* Each module alone, and all of them but the whole MoE layer, which swallows its parts: other subsets lie
	 * between. */
	for (unsigned bit = 1; bit < 128; bit <<= 1)
		if (bit & all && bit != MF_RC_CORE_ATTN)
			add(&l, recompute_pack(MF_RECOMPUTE_SELECTIVE, bit, 1));
	add(&l, recompute_pack(MF_RECOMPUTE_SELECTIVE, all & ~(unsigned)MF_RC_MOE, 1));
	add(&l, recompute_pack(MF_RECOMPUTE_FULL, 0, 1));
	return l;
}

/* ---- pipeline shapes -------------------------------------------------------------------------------------------- */

static void add_shape(
	mf_space_set *s, size_t j, mf_schedule schedule, bool overlap, unsigned vpp, unsigned first, unsigned last)
{
	if (s->n_shapes[j] == MF_SPACE_MAX_SHAPES)
		return;
	s->shapes[j][s->n_shapes[j]++] =
		(mf_shape){(uint16_t)vpp, (uint16_t)first, (uint16_t)last, (uint8_t)schedule, overlap};
}

static void add_both(mf_space_set *s, size_t j, mf_schedule schedule, unsigned vpp, unsigned first, unsigned last)
{
	add_shape(s, j, schedule, false, vpp, first, last);
	add_shape(s, j, schedule, true, vpp, first, last);
}

typedef struct split {
	unsigned first, last, middle;
} split;

/*
 * First and last stages that make the stages between them equal, lightest last stage first: that one also carries the
 * head and the loss. 0 leaves a stage at the middle's count.
 */
static size_t uneven_splits(unsigned layers, unsigned pp, size_t max, split *out)
{
	const unsigned top = (layers + pp - 1) / pp;
	size_t n = 0;

	for (unsigned middle = top; middle + 1 >= top && middle > 0 && n < max; middle--) {
		const unsigned others = middle * (pp - 1);
		if (others < layers) {
			const unsigned rest = layers - others;
			if (rest != middle && rest <= middle + 2) {
				out[n++] = (split){0, rest, middle};
				if (n < max)
					out[n++] = (split){rest, 0, middle};
			}
		}
		if (pp > 2 && middle * (pp - 2) < layers && n < max) {
			const unsigned rest = layers - middle * (pp - 2), first = (rest + 1) / 2, last = rest / 2;
			if (last > 0 && first != middle && last != middle && first <= middle + 2)
				out[n++] = (split){first, last, middle};
		}
	}
	return n;
}

static void train_shapes(mf_space_set *s, const mf_model *m, mf_space space, size_t j)
{
	const unsigned pp = s->pp[j], layers = m->layers;
	const bool even = layers % pp == 0;

	add_both(s, j, MF_1F1B, 1, 0, 0);
	if (pp > 1 && 2 * pp <= layers) {
		const unsigned most = space == MF_SPACE_WIDE ? 16 : 8;
		/* Two chunks are always looked at, so that a depth the layers do not divide shows its refusal. */
		for (unsigned v = 2; v <= most && pp * v <= layers; v++)
			if (v == 2 || (space != MF_SPACE_PAPER && even && layers / pp % v == 0))
				add_both(s, j, MF_INTERLEAVED, v, 0, 0);
	}
	if (space == MF_SPACE_PAPER)
		add_shape(s, j, MF_DUALPIPE, false, 1, 0, 0);
	add_shape(s, j, MF_DUALPIPE, true, 1, 0, 0);
	if (pp == 1 || space == MF_SPACE_PAPER || (even && space == MF_SPACE_DEFAULT))
		return;

	split splits[8];
	const size_t n = uneven_splits(layers, pp, space == MF_SPACE_WIDE ? 3 : 2, splits);
	for (size_t i = 0; i < n; i++) {
		const split *u = &splits[i];
		add_both(s, j, MF_1F1B, 1, u->first, u->last);
		for (unsigned v = 2; v <= 4 && pp * v <= layers; v++)
			if (u->first % v == 0 && u->last % v == 0 && u->middle % v == 0)
				add_both(s, j, MF_INTERLEAVED, v, u->first, u->last);
	}
}

static void train_keeps(mf_space_set *s)
{
	static const uint8_t sharding[] = {MF_ZERO1, MF_ZERO1_OFFLOAD, MF_FSDP};
	static const uint8_t stage[] = {1, 1, 3};

	for (size_t i = 0; i < MF_COUNT(sharding); i++)
		s->keeps[0][s->n_keeps[0]++] = (mf_keep){.sharding = sharding[i], .zero_stage = stage[i]};
}

static void serve_keeps(mf_space_set *s, const mf_inputs *in, mf_space space, size_t set)
{
	static const uint16_t chunks[] = {0, 8, 32}; /* times 256 tokens */
	static const uint16_t redundant[] = {0, 32};
	const bool wide = space == MF_SPACE_WIDE;
	const mf_plan plain = mf_plan_default(MF_SERVE);

	for (size_t g = 0; g < (wide ? 2u : 1u); g++)
		for (size_t c = 0; c < (wide ? MF_COUNT(chunks) : 1u); c++)
			for (size_t r = 0; r < (set && wide ? MF_COUNT(redundant) : 1u); r++) {
				if (redundant[r] && in->model->experts == 0)
					continue;
				s->keeps[set][s->n_keeps[set]++] = (mf_keep){.sharding = plain.sharding,
					.zero_stage = plain.zero_stage,
					.graph = g ? MF_GRAPH_OFF : MF_GRAPH_FULL,
					.prefill_chunk = chunks[c],
					.redundant = redundant[r]};
			}
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static uint64_t group_rows(const mf_space_set *s, uint32_t pp_mask, unsigned keep_set)
{
	uint64_t n = 0;

	for (size_t j = 0; j < s->n_pp; j++)
		if (pp_mask >> j & 1)
			n += s->n_shapes[j];
	return n * s->n_keeps[keep_set];
}

/* Pipeline depths that leave whole, nonzero sizes: without them the value is no plan. */
static uint32_t whole_depths(const mf_space_set *s, mf_plan p)
{
	uint32_t mask = 0;

	for (size_t j = 0; j < s->n_pp; j++) {
		p.pp = s->pp[j];
		const bool whole = mf_plan_dp(&p, s->world) > 0 && mf_plan_etp(&p, s->world) > 0 &&
				   (s->phase == MF_SERVE || mf_plan_edp(&p, s->world) > 0);
		if (whole)
			mask |= 1u << j;
	}
	return mask;
}

static void add_group(mf_space_set *s, const mf_plan *base, uint32_t pp_mask, unsigned keep_set)
{
	const uint64_t all = group_rows(s, UINT32_MAX, keep_set), rows = group_rows(s, pp_mask, keep_set);

	s->enumerated += all;
	s->structural += all - rows;
	if (rows == 0 || s->failed)
		return;
	if (s->n_groups == s->cap_groups) {
		const size_t cap = s->cap_groups ? 2 * s->cap_groups : 1024;
		mf_group *grown = realloc(s->groups, cap * sizeof(*grown));
		if (!grown) {
			s->failed = true;
			return;
		}
		s->groups = grown;
		s->cap_groups = cap;
	}
	s->groups[s->n_groups++] = (mf_group){*base, s->n_rows, pp_mask, (uint8_t)keep_set};
	s->n_rows += rows;
}

static void train_groups(mf_space_set *s, const mf_inputs *in, mf_space space)
{
	const values tps = tp_values(in, space), eps = ep_values(in, s->world), cps = cp_values(in, space);
	const values recomputes = recompute_values(in, space);
	const size_t n_mb =
		space == MF_SPACE_PAPER || in->workload->n_micro_batches == 0 ? 1 : in->workload->n_micro_batches;
	mf_plan p = mf_plan_default(MF_TRAIN);

	for (size_t a = 0; a < tps.n; a++) {
		const values etps = etp_values(in, space, tps.v[a]);
		for (size_t b = 0; b < cps.n; b++)
			for (size_t c = 0; c < eps.n; c++)
				for (size_t d = 0; d < etps.n; d++) {
					p.tp = tps.v[a];
					p.cp = cps.v[b];
					p.ep = eps.v[c];
					p.etp = etps.v[d];
					const uint32_t mask = whole_depths(s, p);
					const values disps =
						dispatcher_values(in, space, p.ep * (p.etp ? p.etp : p.tp) > 1);
					for (size_t e = 0; e < n_mb; e++)
						for (size_t f = 0; f < disps.n; f++)
							for (size_t g = 0; g < recomputes.n; g++) {
								if (in->workload->n_micro_batches)
									p.micro_batch =
										(uint16_t)
											in->workload->micro_batches[e];
								p.dispatcher = (uint8_t)disps.v[f];
								recompute_apply(&p, recomputes.v[g]);
								add_group(s, &p, mask, 0);
							}
				}
	}
}

typedef struct backend {
	uint8_t a2a, mode, runner;
} backend;

/* Runners made for a weight format the model does not have would only add their refusal to every layout. */
static bool runner_suits(mf_runner r, mf_quant q)
{
	switch (r) {
	case MF_RUN_DEEP_GEMM: return q == MF_QUANT_FP8_BLOCK || q == MF_QUANT_FP8;
	case MF_RUN_CUTLASS: return q == MF_QUANT_FP8_BLOCK || q == MF_QUANT_FP8 || q == MF_QUANT_NVFP4;
	case MF_RUN_TRITON_KERNEL:
	case MF_RUN_FLASHINFER_MXFP4: return q == MF_QUANT_MXFP4;
	case MF_RUN_FLASHINFER_CUTEDSL: return q == MF_QUANT_NVFP4;
	case MF_RUN_MARLIN:
		return q == MF_QUANT_INT4 || q == MF_QUANT_INT8 || q == MF_QUANT_MXFP4 || q == MF_QUANT_NVFP4;
	default: return true;
	}
}

/* All-to-all backend, DeepEP mode and runner as one list. */
static size_t serve_backends(const mf_inputs *in, mf_space space, bool spread, backend *out, size_t max)
{
	static const uint8_t a2as[] = {MF_A2A_NONE, MF_A2A_DEEPEP, MF_A2A_MOONCAKE, MF_A2A_NIXL, MF_A2A_FLASHINFER};
	const bool wide = space == MF_SPACE_WIDE, fixed = !in->model->experts || space == MF_SPACE_PAPER;
	const size_t n_a2a = fixed || !spread ? 1 : wide ? MF_COUNT(a2as) : 2;
	/* auto, triton and, where it suits, deep_gemm; the other runners in the wide space. */
	const unsigned last_runner = fixed ? MF_RUN_AUTO : wide ? MF_RUN_MARLIN : MF_RUN_DEEP_GEMM;
	size_t n = 0;

	for (size_t a = 0; a < n_a2a; a++)
		for (unsigned mode = MF_DM_AUTO; mode <= (a2as[a] == MF_A2A_DEEPEP ? MF_DM_LOW_LATENCY : MF_DM_AUTO);
			mode++)
			for (unsigned r = MF_RUN_AUTO; r <= last_runner && n < max; r++)
				if (runner_suits((mf_runner)r, in->model->quant))
					out[n++] = (backend){a2as[a], (uint8_t)mode, (uint8_t)r};
	return n;
}

static void serve_groups(mf_space_set *s, const mf_inputs *in, mf_space space)
{
	const values tps = tp_values(in, space), eps = ep_values(in, s->world), cps = cp_values(in, space);
	const bool wide = space == MF_SPACE_WIDE;
	values replicas = {.n = 0}, moe_dps = {.n = 0};
	mf_plan p = mf_plan_default(MF_SERVE);

	for (uint32_t r = 1; r <= (space == MF_SPACE_PAPER ? 1 : s->world) && replicas.n < 32; r++)
		if (s->world % r == 0)
			add(&replicas, r);
	for (uint32_t d = 1; d <= (wide && in->model->experts ? 2u : 1u); d *= 2)
		add(&moe_dps, d);

	for (size_t a = 0; a < tps.n; a++)
		for (size_t b = 0; b < cps.n; b++)
			for (size_t c = 0; c < eps.n; c++)
				for (size_t d = 0; d < moe_dps.n; d++) {
					backend backends[80];
					const size_t n =
						serve_backends(in, space, eps.v[c] > 1, backends, MF_COUNT(backends));
					for (size_t e = 0; e < n; e++)
						for (size_t f = 0; f < replicas.n; f++) {
							p.tp = tps.v[a];
							p.cp = cps.v[b];
							p.ep = eps.v[c];
							p.moe_dp = moe_dps.v[d];
							p.a2a = backends[e].a2a;
							p.deepep_mode = backends[e].mode;
							p.runner = backends[e].runner;
							p.replicas = replicas.v[f];
							add_group(s, &p, whole_depths(s, p), p.ep > 1);
						}
				}
}

/* ---- the set ---------------------------------------------------------------------------------------------------- */

mf_status mf_space_set_init(mf_space_set *s, const mf_inputs *in, mf_space space, mf_err *err)
{
	memset(s, 0, sizeof(*s));
	s->phase = in->workload->phase;
	s->world = mf_cluster_world(in->cluster);

	const values pps = pp_values(in, s->world);
	s->n_pp = pps.n;
	memcpy(s->pp, pps.v, pps.n * sizeof(s->pp[0]));
	for (size_t j = 0; j < s->n_pp; j++) {
		if (s->phase == MF_TRAIN) {
			train_shapes(s, in->model, space, j);
			continue;
		}
		const mf_plan plain = mf_plan_default(MF_SERVE);
		add_shape(s, j, (mf_schedule)plain.schedule, false, plain.vpp, 0, 0);
		if (space == MF_SPACE_WIDE)
			add_shape(s, j, (mf_schedule)plain.schedule, true, plain.vpp, 0, 0);
	}
	if (s->phase == MF_TRAIN) {
		train_keeps(s);
		train_groups(s, in, space);
	} else {
		serve_keeps(s, in, space, 0);
		serve_keeps(s, in, space, 1);
		serve_groups(s, in, space);
	}
	if (s->failed) {
		mf_space_set_dispose(s);
		return mf_fail(err, MF_ENOMEM, "out of memory while laying out the search space");
	}
	return MF_OK;
}

void mf_space_set_dispose(mf_space_set *s)
{
	free(s->groups);
	s->groups = NULL;
	s->n_groups = s->cap_groups = 0;
}

static inline void apply(mf_plan *p, uint16_t pp, const mf_shape *h, const mf_keep *k)
{
	p->pp = pp;
	p->vpp = h->vpp;
	p->first_layers = h->first_layers;
	p->last_layers = h->last_layers;
	p->schedule = h->schedule;
	p->overlap = h->overlap;
	p->sharding = k->sharding;
	p->zero_stage = k->zero_stage;
	p->graph = k->graph;
	p->prefill_chunk = k->prefill_chunk;
	p->redundant = k->redundant;
}

size_t mf_space_group_fill(const mf_space_set *s, size_t group, mf_row *rows, size_t max)
{
	const mf_group *g = &s->groups[group];
	const size_t n_keeps = s->n_keeps[g->keep_set];
	size_t n = 0;

	for (size_t j = 0; j < s->n_pp; j++) {
		if (!(g->pp_mask >> j & 1))
			continue;
		for (size_t h = 0; h < s->n_shapes[j]; h++)
			for (size_t k = 0; k < n_keeps; k++) {
				if (n == max)
					return n;
				memset(&rows[n], 0,
					sizeof(rows[n])); /* padding too: equal searches are equal byte for byte */
				rows[n].plan = g->base;
				apply(&rows[n].plan, s->pp[j], &s->shapes[j][h], &s->keeps[g->keep_set][k]);
				n++;
			}
	}
	return n;
}

mf_plan mf_space_plan(const mf_space_set *s, uint64_t row)
{
	size_t lo = 0, hi = s->n_groups;

	assert(row < s->n_rows);
	while (hi - lo > 1) {
		const size_t mid = lo + (hi - lo) / 2;
		if (s->groups[mid].first_row <= row)
			lo = mid;
		else
			hi = mid;
	}

	const mf_group *g = &s->groups[lo];
	const size_t n_keeps = s->n_keeps[g->keep_set];
	uint64_t rest = row - g->first_row;
	mf_plan p = g->base;
	for (size_t j = 0; j < s->n_pp; j++) {
		if (!(g->pp_mask >> j & 1))
			continue;
		if (rest < s->n_shapes[j] * n_keeps) {
			apply(&p, s->pp[j], &s->shapes[j][rest / n_keeps], &s->keeps[g->keep_set][rest % n_keeps]);
			return p;
		}
		rest -= s->n_shapes[j] * n_keeps;
	}
	assert(!"the group holds the row");
	return p;
}
