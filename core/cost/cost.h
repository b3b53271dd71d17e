/*
 * cost.h: what a plan costs, in memory and in time. One evaluator object a thread; the fast calls answer the search,
 * the explain calls open every number. Constants come from the factory tables or an overlay with its domain.
 */
#ifndef MF_COST_H
#define MF_COST_H

#include "plan.h"

/* ---- constants ------------------------------------------------------------------------------------------------- */

/** Ids of all constants, from consts.def: X(id, "name", unit, ampere, ada, hopper, blackwell, source). */
typedef enum mf_const_id {
#define X(id, name, unit, a, d, h, b, source) MF_C_##id,
#include "consts.def"
#undef X
	MF_CONST_COUNT
} mf_const_id;

/** Ids of all curves, from curves.def: a curve is a run of constants that were fitted together. */
typedef enum mf_curve_id {
#define C(id, name, first, n, d0, d1, d2, d3) MF_CURVE_##id,
#include "curves.def"
#undef C
	MF_CURVE_COUNT
} mf_curve_id;

#define MF_CURVE_DIMS 4
typedef struct mf_curve_info {
	const char *name;
	mf_const_id first; /* its constants are consecutive */
	int n;
	const char *dim[MF_CURVE_DIMS]; /* what its domain is a range of; NULL where there are fewer */
} mf_curve_info;
extern const mf_curve_info mf_curve_infos[MF_CURVE_COUNT];

/** What an overlay says of one curve. */
typedef struct mf_curve_fit {
	bool given;
	bool unsupported;                            /* measured, but not of this form: the factory constants stand */
	double lo[MF_CURVE_DIMS], hi[MF_CURVE_DIMS]; /* shapes seen; NaN: any */
	uint32_t rows, held_out;                     /* observations fitted on, and kept out of it */
	double median, p90;                          /* of |ln(predicted/measured)| on those kept out; NaN: unknown */
	char source[192];
} mf_curve_fit;

/** Where a constant was measured. Empty fields are "any". */
typedef struct mf_domain {
	char gpu[48];                /* "NVIDIA H800", compared without regard to a vendor prefix */
	unsigned dtypes;             /* bits 1 << mf_dtype; 0: any */
	double m_min, m_max;         /* tokens per expert; NaN: any */
	double world_min, world_max; /* NaN: any */
	char source[128];
} mf_domain;

/**
 * A complete constant set for one cluster: factory values of its GPU family, then an overlay's where one is given.
 * A plain value. `from_overlay` marks what the overlay set; `domain` is the overlay's.
 * Taxes and penalties default to NaN (unset), which leaves every score as it is, bit for bit.
 */
typedef struct mf_consts {
	double v[MF_CONST_COUNT];
	uint8_t from_overlay[MF_CONST_COUNT];
	mf_domain domain;
	uint8_t n_curves; /* that the overlay speaks of */
	mf_curve_fit curves[MF_CURVE_COUNT];
	char overlay[64]; /* "" for the factory model */
} mf_consts;
/** Factory constants of a cluster's GPU. */
void mf_consts_factory(mf_consts *out, const mf_cluster *c);
/** Applies an overlay (built-in name or YAML path) over `io`. Unknown constants are errors with file and line. */
mf_status mf_consts_overlay(mf_consts *io, const char *name_or_path, mf_err *err);
/** Name of the built-in overlay of a GPU, or NULL when there is none. */
const char *mf_consts_overlay_of(const char *gpu);
typedef struct mf_const_info {
	const char *name, *unit, *source;
} mf_const_info;
extern const mf_const_info mf_const_infos[MF_CONST_COUNT];
/** Where a constant's value comes from: its curve's or its overlay's source, or the factory's. Never NULL. */
const char *mf_const_source(const mf_consts *c, mf_const_id id);
/** True when (gpu, dtype, tokens per expert, world) lies outside the overlay's domain. Always false for the factory model. */
bool mf_consts_extrapolated(
	const mf_consts *c, const mf_cluster *cl, mf_dtype dtype, double tokens_per_expert, uint32_t world);
/**
 * True when the overlay speaks of the curve and the shape lies outside what was measured for it, or the curve was found
 * unsupported. `x` are the curve's dimensions in the order of its info. Always false for the factory model.
 */
bool mf_curve_outside(const mf_consts *c, mf_curve_id id, const double x[MF_CURVE_DIMS]);

/* ---- the evaluator --------------------------------------------------------------------------------------------- */

/** Options that change what is priced, not what exists. */
typedef struct mf_cost_opts {
	mf_ledger ledger;
	bool tax;               /* apply realization tax and penalties that the constants carry; true by default */
	double usable_fraction; /* published ledger: share of hbm_bytes that may be used; 0.9 */
	const struct mf_autotune
		*autotune; /* what a plan's kernel was measured at (autotune.h); NULL: kernels have no time */
	bool frozen; /* training: weights do not learn (LoRA): no weight gradients, no exchange of them, no optimizer */
	bool varied; /* training: packed sequences of any length; launches cost more and are never captured */
} mf_cost_opts;
#define MF_COST_OPTS_INIT                                                                                              \
	{                                                                                                              \
		MF_LEDGER_FULL, true, 0.9, NULL, false, false                                                          \
	}

/** Evaluator over fixed inputs. Owns its memo tables; not thread-safe: one a thread. Inputs and constants are borrowed. */
typedef struct mf_cost mf_cost;
/** MF_EBUG where an input that pricing needs is missing, MF_ENOMEM; `opts` NULL: the defaults. */
mf_status mf_cost_new(
	mf_cost **out, const mf_inputs *in, const mf_consts *consts, const mf_cost_opts *opts, mf_err *err);
void mf_cost_free(mf_cost *c);

/** Memory of the worst pipeline stage, one GPU, bytes. */
typedef struct mf_memory {
	double total_bytes, budget_bytes;
	uint16_t worst_stage;
	uint8_t fits;  /* total <= budget */
	uint8_t probe; /* fits, but closer to the budget than the ledger's own measured error: only a launch can tell */
} mf_memory;
/** Fast; the plan must divide the world (mf_plan_dp and friends nonzero). */
void mf_cost_memory(mf_cost *c, const mf_plan *p, mf_memory *out);

/** Time of a plan. Unknown or not applicable is NaN. */
typedef struct mf_time {
	double throughput;       /* tokens/s/GPU, after taxes */
	double step_ms;          /* training step */
	double ttft_ms, tpot_ms; /* serving */
	double hidden_fraction;  /* share of communication hidden behind compute */
	double bubble_fraction;  /* share of the step lost to the pipeline's fill and drain */
	double batch;            /* serving: requests that run at once on the whole engine */
	bool extrapolated;
} mf_time;
/** Fast; as mf_cost_memory. */
void mf_cost_time(mf_cost *c, const mf_plan *p, mf_time *out);

struct mf_expert_layer;
/** The expert layer of one GPU under a plan, as autotune reports know it; false where the plan has none. */
bool mf_cost_expert_layer(const mf_cost *c, const mf_plan *p, struct mf_expert_layer *out);

/**
 * The split of decoder layers over a training plan's virtual stages that makes its slowest rank shortest when a layer
 * costs the model's mean: the first rank also holds the embedding, the last the head, the loss and the MTP layers.
 * Writes it as a stage layout (mf_stage_layout_parse) for mf_intern_id; false when the plan has one stage or more
 * virtual ones than MF_MAX_LAYERS, or the text does not fit.
 */
bool mf_cost_layout(mf_cost *c, const mf_plan *p, char *out, size_t size);

/**
 * One side of disaggregated serving: a pool of equal engines that takes prompts alone, or decodes alone. Unknown is NaN.
 */
typedef struct mf_pool {
	double tokens_per_s; /* a GPU, when busy: prompt tokens of a prefill pool, output tokens of a decode pool */
	double pass_ms;      /* one pass of its full batch */
	double latency_ms;   /* prefill: a prompt, alone; decode: a token of a request */
	double batch;        /* prompts or requests a pass of one engine holds */
	double transfer_ms;  /* prefill: KV of one prompt to the decode side over a GPU's NIC */
	bool extrapolated;
} mf_pool;
/** Fast enough for a search; the plan must divide the world. A prefill pool needs no output tokens, a decode pool may have 0. */
void mf_cost_pool(mf_cost *c, const mf_plan *p, bool prefill, mf_pool *out);

/** A prefill and a decode pool that hand requests over. */
typedef struct mf_pair {
	mf_pool prefill, decode;
	double requests_per_s; /* that the pair carries under the workload's concurrency */
	double throughput;     /* output tokens/s a GPU of both pools together */
	double ttft_ms, tpot_ms;
	double prefill_busy, decode_busy; /* share of each pool's capacity in use */
	double balance;                   /* prefill GPUs a decode GPU at which neither waits for the other */
} mf_pair;
/**
 * The pair of plan `p` on `prefill`'s cluster and plan `d` on `decode`'s. Both evaluators must hold one workload and model. In a
 * closed loop the concurrency is the rate times the whole life of a request, so where prefill is the bottleneck the time to
 * the first token is what remains.
 */
mf_status mf_cost_pair(
	mf_cost *prefill, const mf_plan *p, mf_cost *decode, const mf_plan *d, mf_pair *out, mf_err *err);

/** Least TPOT that the datasheet's HBM rate allows a serving plan at the workload's concurrency, ms; NaN as mf_cost_time. */
double mf_cost_floor_ms(mf_cost *c, const mf_plan *p);

/**
 * Share of the GPU's memory that SGLang may give to weights and KV pool (--mem-fraction-static) for a serving plan: the
 * stack's own when it sets one, else SGLang's default heuristic, raised when that leaves no room for one request.
 */
double mf_cost_mem_fraction(mf_cost *c, const mf_plan *p);

/* ---- explain --------------------------------------------------------------------------------------------------- */

#define MF_TERM_MAX_CONSTS 24
/** One term of the time model. */
typedef struct mf_term {
	const char *name;    /* "dispatch and combine" */
	double ms;           /* its share of the step (training) or of TPOT (serving; prefill terms: of TTFT) */
	const char *formula; /* as in the documentation */
	char inputs[160];    /* "m=4096 n=2816 k=2048 groups=8" */
	mf_const_id consts[MF_TERM_MAX_CONSTS];
	uint8_t n_consts;
	bool extrapolated;
} mf_term;
/** One line of the memory ledger. */
typedef struct mf_memory_line {
	char name[48]; /* "weights.expert", "act.moe.fc1_out" */
	double bytes;
	const char *rule; /* formula, with its source */
} mf_memory_line;

#define MF_MAX_TERMS 48
#define MF_MAX_LINES 96
#define MF_MAX_STAGES 128
/** Every number of a plan opened. A plain (large) value: allocate it, do not put it on small stacks. */
typedef struct mf_explain {
	mf_time time;
	mf_memory memory;
	mf_term terms[MF_MAX_TERMS];
	size_t n_terms;
	mf_memory_line lines[MF_MAX_LINES]; /* of the worst stage; they add up to memory.total_bytes */
	size_t n_lines;
	double stage_bytes[MF_MAX_STAGES]; /* total of every pipeline stage */
	size_t n_stages;
} mf_explain;
/** Memory of one pipeline stage of a training plan: `memory`, `lines` and `stage_bytes` as mf_cost_explain, of `stage`. */
mf_status mf_cost_explain_stage(mf_cost *c, const mf_plan *p, uint32_t stage, mf_explain *out, mf_err *err);
/** Slow path of the same code: fills everything. Throughput and total equal the fast calls bit for bit. */
mf_status mf_cost_explain(mf_cost *c, const mf_plan *p, mf_explain *out, mf_err *err);

#endif
