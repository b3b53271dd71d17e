/*
 * serve_internal.h: parts of the serving model. serve_memory.c knows what a rank holds, serve_pass.c prices one forward
 * pass, serve_loop.c turns passes into latencies under a closed loop of requests, serve.c answers and explains.
 * Times in microseconds, rates in bytes or FLOP a microsecond.
 */
#ifndef MF_SERVE_INTERNAL_H
#define MF_SERVE_INTERNAL_H

#include "cost_internal.h"
#include "curves.h"

/* ---- engines ----------------------------------------------------------------------------------------------------- */

/** How an engine schedules; rows in engines.def. */
typedef struct mf_serve_engine {
	double fraction;    /* of the card for weights and KV; NaN: SGLang's heuristic */
	double chunk;       /* prompt tokens of a pass; 0: by card, as SGLang has it */
	bool whole_prompts; /* the chunk grows to hold a whole prompt */
	bool mixed;         /* prompt pieces ride with a decode step; else they run alone */
	double output_held; /* share of its output that a running request holds or reserves KV for, on average */
	double queue;       /* share of a full turn that a request without room waits */
	double host_ms;     /* host time a layer of a pass with prompts */
	double host_stalls; /* share of it that decode waits for too; 0: it is seen before the first token only */
	double hold_steps;  /* under attention DP, steps that prompts wait so that all ranks take theirs together */
	bool windows_kept;  /* KV of windowed layers is not freed behind the window */
	bool gathers_dense; /* under attention DP, dense and shared experts are split over the stage, fed gathered tokens */
	bool one_front;     /* one process takes requests in one after another: an opening burst queues there */
	bool splits_chunk; /* under attention DP, the chunk is divided by the ranks */
	const char *source;
} mf_serve_engine;
/** The engine that the stack names. */
const mf_serve_engine *mf_serve_engine_of(const mf_cost *c);
/** Host time of a pass with prompts, us a layer: the overlay's, else the engine's. */
double mf_serve_host_us(const mf_cost *c);
/** That of all layers, us, where decode waits for it too; else 0: it is seen before the first token only. */
double mf_serve_pass_host_us(const mf_cost *c);
/** Requests in flight of one of a plan's engines, at least 1. */
double mf_serve_clients(const mf_cost *c, const mf_plan *p);

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

/** Sizes of one plan in serving, derived once. */
typedef struct mf_serve_shape {
	uint32_t tp, cp, dp, pp, n; /* n = tp*cp*dp: ranks of one engine's stage, SGLang's --tp-size */
	uint32_t ep, mtp, moe_dp;   /* expert parallel, MoE tensor parallel, MoE data parallel */
	uint32_t nodes;             /* nodes one stage spans */
	double kv_heads, heads;     /* of a rank */
} mf_serve_shape;
/** False where the plan's degrees do not divide the GPUs. */
bool mf_serve_shape_of(const mf_cost *c, const mf_plan *p, mf_serve_shape *out);

/** Memory of a rank, bytes. */
typedef struct mf_serve_bytes {
	double experts, shared, attention, dense, router, embedding;
	double weights;    /* their sum */
	double kv_token;   /* a token of every layer that keeps all of them, of a stage */
	double kv_request; /* fixed part a request: windowed layers, states of linear attention */
	double reserve;    /* SGLang's heuristic: activations, graphs, buffers */
	double fraction;   /* --mem-fraction-static */
	double room;       /* for KV */
	double context;
} mf_serve_bytes;
/** What a rank of a mean pipeline stage holds, and what is left for KV. */
void mf_serve_bytes_of(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, mf_serve_bytes *out);
/** Prompt tokens of one pass on one rank. */
double mf_serve_chunk(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z);

/** Bytes a parameter of the experts, and of attention and dense layers. */
double mf_serve_expert_bytes(const mf_model *m);
double mf_serve_dense_bytes(const mf_model *m);

/* ---- one pass ---------------------------------------------------------------------------------------------------- */

/** What a pass is made of; all but the last two are of one pass over all layers. */
typedef enum mf_serve_part {
	MF_PART_ATTENTION,
	MF_PART_EXPERTS,
	MF_PART_SHARED,
	MF_PART_DENSE,
	MF_PART_TP,
	MF_PART_EXCHANGE,
	MF_PART_SMALL,
	MF_PART_HEAD,
	MF_PART_PIPE,
	MF_PART_DRAFT,  /* speculation: the draft model's passes */
	MF_PART_LAUNCH, /* kernels launched one by one */
	MF_PART_HIDDEN, /* what two-batch overlap hides; negative */
	MF_PART_COUNT
} mf_serve_part;

typedef struct mf_serve_pass {
	double part[MF_PART_COUNT];
	double total;
} mf_serve_pass;

/** What a pass carries on one attention rank: decode requests at a mean context, and prompt tokens after cached ones. */
typedef struct mf_serve_load {
	double batch, context;
	double each;                           /* tokens a decode request adds, drafts included; 0 means 1 */
	double prompts, prompt_tokens, cached; /* prompts of prompt_tokens each */
	double group;                          /* tokens of all attention ranks together */
} mf_serve_load;

#define MF_POPULARITY_STEPS 8

/** Prepares what passes need of the inputs; part of mf_serve_state. */
typedef struct mf_serve_tables {
	mf_gpu_rates rates;
	double log_miss[MF_POPULARITY_STEPS]; /* ln of the chance that one token misses an expert, by popularity */
} mf_serve_tables;
/** Parts (bits) whose curves were read outside their domain: of decode passes, and 16 bits up of passes with prompts. */
typedef struct mf_serve_reach {
	unsigned place, left; /* what is being priced; what left its domain */
} mf_serve_reach;
mf_serve_reach *mf_serve_reach_of(const mf_cost *c);
/** What has left its domain since the last call. */
unsigned mf_serve_left(const mf_cost *c);
void mf_serve_tables_fill(const mf_cost *c, mf_serve_tables *out);
const mf_serve_tables *mf_serve_tables_of(const mf_cost *c);

/** Prices one pass, in two halves that take turns where the plan overlaps them. */
void mf_serve_run_pass(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_load *l, mf_serve_pass *out);
/** Constants of the curves that a part of a plan's decode pass reads, appended to `t`. */
void mf_serve_part_consts(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, mf_serve_part part, mf_term *t);
/** Storage of attention and dense projections. */
mf_linear mf_serve_dense_type(const mf_model *m);
/** Least time of one decode step of `batch` requests a rank: every byte it must read over the datasheet's HBM rate, us. */
double mf_serve_floor_us(
	const mf_cost *c, const mf_serve_shape *z, const mf_serve_bytes *b, double batch, double context);

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

typedef struct mf_serve_loop {
	mf_serve_pass decode, prompt;
	double batch;             /* running requests on a rank */
	double running;           /* of the engine */
	double in_flight;         /* micro-batches in the pipeline */
	double accepted;          /* tokens of a request a decode pass */
	double stall_us, tpot_us; /* prompts in the way of a token; sum of pass and stall */
	double prompt_us, wait_us, front_us, queue_us, ttft_us; /* TTFT and its parts */
	double tokens_per_us;
} mf_serve_loop;
void mf_serve_run_loop(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_bytes *b, mf_serve_loop *out);
/** Requests that one attention rank runs at once, of `wanted`: what fits the room. */
double mf_serve_batch(const mf_cost *c, const mf_serve_bytes *b, double in, double out, double wanted);
/**
 * Whether (type, tokens an expert, world) of a batch of `tokens` over the engine leave the constants' domain, or a pass
 * since the last call of mf_serve_left left a curve's: `left` is what that call gave.
 */
bool mf_serve_extrapolated(const mf_cost *c, double tokens, unsigned left);

#endif
