/*
 * space_internal.h: the set of plans a search walks. A space is a list of groups; the plans of a group share everything
 * that a layer's time and memory depend on (tp, cp, ep, etp, micro-batch, dispatcher, recompute; in serving also the
 * backends), so that neighbours hit the evaluators' memo. Inside a group stands a plain product: pipeline shapes by
 * what is kept where. A group knows the number of its first row, so any row can be made from its number alone, and
 * threads fill disjoint ranges of one array.
 */
#ifndef MF_SPACE_INTERNAL_H
#define MF_SPACE_INTERNAL_H

#include "search.h"

#define MF_SPACE_MAX_PP 32
#define MF_SPACE_MAX_SHAPES 48
#define MF_SPACE_MAX_KEEPS 64

/** How the layers lie on the pipeline and in what order they run. */
typedef struct mf_shape {
	uint16_t vpp, first_layers, last_layers;
	uint8_t schedule, overlap;
} mf_shape;

/** What is kept where and, in serving, how the engine is fed: dimensions that leave the layers alone. */
typedef struct mf_keep {
	uint8_t sharding, zero_stage, graph;
	uint16_t prefill_chunk, redundant;
} mf_keep;

typedef struct mf_group {
	mf_plan base;
	uint64_t first_row;
	uint32_t pp_mask; /* bit j: pp[j] leaves whole sizes for every other dimension */
	uint8_t keep_set; /* index of keeps[] */
} mf_group;

typedef struct mf_space_set {
	mf_phase phase;
	uint32_t world;
	uint16_t pp[MF_SPACE_MAX_PP];
	size_t n_pp;
	mf_shape shapes[MF_SPACE_MAX_PP][MF_SPACE_MAX_SHAPES];
	size_t n_shapes[MF_SPACE_MAX_PP];
	mf_keep keeps[2][MF_SPACE_MAX_KEEPS];
	size_t n_keeps[2];
	mf_group *groups;
	size_t n_groups, cap_groups;
	uint64_t n_rows;
	uint64_t enumerated, structural;
	bool failed; /* out of memory while growing */
} mf_space_set;

mf_status mf_space_set_init(mf_space_set *out, const mf_inputs *in, mf_space space, mf_err *err);
void mf_space_set_dispose(mf_space_set *s);
/** Writes the plans of a group, at most `max`, into rows[0..].plan; returns how many. */
size_t mf_space_group_fill(const mf_space_set *s, size_t group, mf_row *rows, size_t max);
/** What tiers 2 and 3 need: an evaluator, one without taxes (NULL: the same), and the emitter (NULL: unconstrained). */
typedef struct mf_refiner {
	const mf_inputs *in;
	const mf_consts *consts;
	const mf_search_opts *opts;
	mf_cost *cost, *untaxed;
	const mf_emitter *emitter;
} mf_refiner;
/** Fills s->refined from the ranking; tier 3 may change the throughput of rows and then ranks anew. */
mf_status mf_refine(mf_search *s, const mf_refiner *r);

/** The plan of one row. */
mf_plan mf_space_plan(const mf_space_set *s, uint64_t row);

#endif
