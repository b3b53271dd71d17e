/* serve_internal.h: parts of the serving model. Times in microseconds, rates in bytes or FLOP a microsecond. */
#ifndef MF_SERVE_INTERNAL_H
#define MF_SERVE_INTERNAL_H

#include "cost_internal.h"

/** Sizes of one plan in serving, derived once. */
typedef struct mf_serve_shape {
	uint32_t tp, cp, dp, pp, n; /* n = tp*cp*dp: ranks of one engine's stage, SGLang's --tp-size */
	uint32_t ep, mtp, moe_dp;   /* expert parallel, MoE tensor parallel, MoE data parallel */
	uint32_t nodes;             /* nodes one stage spans */
	double kv_heads, heads;     /* of a rank */
} mf_serve_shape;
bool mf_serve_shape_of(const mf_cost *c, const mf_plan *p, mf_serve_shape *out);

/** Memory of a rank, bytes. */
typedef struct mf_serve_bytes {
	double experts, shared, attention, dense, router, embedding;
	double weights;    /* their sum */
	double kv_token;   /* a token of every full-attention layer of a stage */
	double kv_request; /* fixed part a request: windowed layers */
	double reserve;    /* SGLang's heuristic: activations, graphs, buffers */
	double fraction;   /* --mem-fraction-static */
	double room;       /* for KV */
	double context;
} mf_serve_bytes;
void mf_serve_bytes_of(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, mf_serve_bytes *out);
/** Prompt tokens of one pass on one rank. */
double mf_serve_chunk(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z);

/** Bytes a parameter of the experts, and of attention and dense layers. */
double mf_serve_expert_bytes(const mf_model *m);
double mf_serve_dense_bytes(const mf_model *m);

#endif
