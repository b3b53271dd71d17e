/*
 * curves.h: how long one operation takes, as a pure function of its shape, the GPU's rates and a handful of constants.
 * The models of core/cost add these up; core/fit finds the constants from measured tables. Times in microseconds, rates
 * in bytes or FLOP a microsecond. `g` are the constants of the curve in the order of its enum, which is also their
 * order in consts_serve.def.
 */
#ifndef MF_CURVES_H
#define MF_CURVES_H

#include "cost.h"
#include "plan.h"

/** What a GPU can do at most: constants are shares of these. */
typedef struct mf_gpu_rates {
	double hbm;                  /* bytes/us */
	double peak[MF_DTYPE_COUNT]; /* dense FLOP/us; bf16's where the GPU lacks the type */
	double sms;
	double l2; /* bytes of cache that may still hold what the operation reads; 0: none, as between layers of a model */
} mf_gpu_rates;
/** Rates of a cluster's GPU, from its datasheet. */
mf_gpu_rates mf_gpu_rates_of(const mf_cluster *c);
/** As a benchmark sees the GPU that repeats one operation: what fits the cache is found there. */
mf_gpu_rates mf_gpu_rates_warm(const mf_cluster *c);

/** Storage and arithmetic of a dense GEMM: bf16, fp8 scaled by blocks, fp8 scaled by tensor or row, nvfp4. */
typedef enum mf_linear { MF_LIN_BF16, MF_LIN_FP8_BLOCK, MF_LIN_FP8, MF_LIN_FP4, MF_LIN_COUNT } mf_linear;

/**
 * Constants: launch, us a 1024 of k, share of HBM, share of the roof, least fill of the SMs, depth of k that filling the
 * pipeline costs, and the cache: share of the L2 that serves repeated reads, and how much faster it is than HBM.
 */
enum {
	MF_GEMM_T0,
	MF_GEMM_TAU,
	MF_GEMM_HBM,
	MF_GEMM_ROOF,
	MF_GEMM_FILL,
	MF_GEMM_DEPTH,
	MF_GEMM_L2,
	MF_GEMM_WARM,
	MF_GEMM_CONSTS
};
/**
 * m x n x k with activations as stored: t0 + tau k/1024 + hypot(bytes / (a hbm), 2 max(m,16) n (k + k0) / (b F u)), u
 * the share of the last wave of 128 x 128 tiles that is filled.
 */
double mf_gemm_us(const double *g, const mf_gpu_rates *r, mf_linear type, double m, double n, double k);

/** One fused expert layer on one rank. */
typedef struct mf_experts_shape {
	double tokens;        /* routed together */
	double hidden, width; /* width of an expert's share on this rank */
	double local;         /* experts of this rank */
	double matrices;      /* 3 gated, 2 not */
	double weight_bytes;  /* a parameter */
	double active;        /* distinct experts of this rank that get a token */
	double mine;          /* tokens x choices that this rank computes */
	double streamed;      /* tokens x choices that it reads, of which `mine` are its own */
	double rows;          /* `mine` padded to 16 an expert, see mf_padded_rows */
} mf_experts_shape;
/** Rows of `mine` slots spread evenly over `active` experts, each padded to a multiple of 16. */
double mf_padded_rows(double mine, double active);
/** How tokens fall on experts: distinct experts hit, their rows padded to 16, squared spread of the loads. */
typedef struct mf_experts_load {
	double active, rows, cv2;
} mf_experts_load;
/**
 * Loads under the measured tables' names of a skew: "balanced", or "power_law_A": counts drawn from a density x^-A between
 * 1 and 0.8 of the tokens, scaled to tokens x choices. False for another name.
 */
bool mf_experts_load_named(const char *name, double tokens, double topk, double experts, mf_experts_load *out);
/**
 * Load of the slowest of `ep` ranks of `local` experts over the mean rank's, for `slots` tokens x choices: the extreme of
 * ep draws, 0.8 sqrt(2 ln ep) deviations; the deviation is of the experts' popularity (cv2) and of sampling.
 */
double mf_experts_imbalance(double ep, double local, double slots, double cv2);
/** The part of it that the slowest of `ep` ranks has: fills active, mine, streamed and rows. */
void mf_experts_share(
	const mf_experts_load *l, double tokens, double topk, double experts, double ep, mf_experts_shape *s);

/**
 * Constants: launch, share of HBM on weights, share of the roof, share of HBM on activations, share of foreign slots
 * that are streamed, what is left of the weights' rate with the wide tiles that kernels change to above one token a
 * local expert, least fill of the SMs, and the cache as in a GEMM.
 */
enum {
	MF_MOE_T0,
	MF_MOE_HBM,
	MF_MOE_ROOF,
	MF_MOE_ACT,
	MF_MOE_FOREIGN,
	MF_MOE_WIDE,
	MF_MOE_FILL,
	MF_MOE_L2,
	MF_MOE_WARM,
	MF_MOE_CONSTS
};
/** t0 + hypot(weights of active experts, flop of padded rows) / u + (mine + x foreign) (3 h + 4 I) 2 / (g hbm). */
double mf_experts_us(const double *g, const mf_gpu_rates *r, double peak, const mf_experts_shape *s);

/**
 * Constants: launch, us a 128 of the head size, us more with an fp8 cache, us a wave of requests (head size 128), share
 * of HBM, what an fp8 cache leaves of it, share of the roof, tokens that keep one SM streaming, the cache,
 * and us more at head sizes that are no power of two, which are padded.
 */
enum {
	MF_DEC_T0,
	MF_DEC_HEAD,
	MF_DEC_FP8,
	MF_DEC_WAVE,
	MF_DEC_HBM,
	MF_DEC_FP8_HBM,
	MF_DEC_ROOF,
	MF_DEC_DEPTH,
	MF_DEC_L2,
	MF_DEC_WARM,
	MF_DEC_ODD,
	MF_DEC_CONSTS
};
/**
 * Decode of `batch` requests at `context` tokens each: t0 + d/128 (th + s B KV/SMs) + hypot(KV bytes / (a hbm u), flop /
 * (b F)), u the share of the SMs that have keys to stream.
 */
double mf_decode_us(const double *g, const mf_gpu_rates *r, double batch, double heads, double kv_heads,
	double head_dim, double kv_bytes, double context);

/**
 * Constants: launch, us a wave of heads, share of the roof at head size 128, share of HBM, us a 1024 keys of the longest
 * chain (head size 128), keys beyond the window that tiles touch, exponents of the head size (of the roof below 128
 * and above, of the chain), us more at head sizes that are no power of two, and us a wave of KV heads: some kernels
 * pack the query heads of a KV head into one tile and then pay for tiles by the KV head.
 */
enum {
	MF_CTX_T0,
	MF_CTX_WAVE,
	MF_CTX_ROOF,
	MF_CTX_HBM,
	MF_CTX_CHAIN,
	MF_CTX_WINDOW,
	MF_CTX_SMALL,
	MF_CTX_LARGE,
	MF_CTX_CHAIN_HEAD,
	MF_CTX_ODD,
	MF_CTX_KV_WAVE,
	MF_CTX_CONSTS
};
/**
 * `seqs` causal prompts of n tokens each after `cached`; window 0 is full attention: t0 + seqs (s H + s' KV)/SMs +
 * hypot(flop / (b F d'), longest chain of keys) + io / (g hbm).
 */
double mf_prefill_us(const double *g, const mf_gpu_rates *r, double seqs, double n, double cached, double window,
	double heads, double kv_heads, double head_dim);

/** MLA's absorbed form. Constants: launch, us a wave of requests, share of HBM, share of the roof. */
enum { MF_MLADEC_T0, MF_MLADEC_WAVE, MF_MLADEC_HBM, MF_MLADEC_ROOF, MF_MLADEC_CONSTS };
double mf_mla_decode_us(const double *g, const mf_gpu_rates *r, double batch, double heads, double kv_lora, double rope,
	double kv_bytes, double context);

/**
 * Constants: launch, us a million rows of heads (320 dims), share of the roof, us a wave of heads, us a 1024 keys of the
 * longest chain (320 dims).
 */
enum { MF_MLACTX_T0, MF_MLACTX_ROWS, MF_MLACTX_ROOF, MF_MLACTX_WAVE, MF_MLACTX_CHAIN, MF_MLACTX_CONSTS };
/**
 * MLA with plain heads of qk + v dims, `seqs` causal prompts of n tokens after `cached`: t0 + s seqs H/SMs + rows of
 * queries, keys and values to move + hypot(flop / (b F), longest chain of keys).
 */
double mf_mla_prefill_us(const double *g, const mf_gpu_rates *r, double seqs, double n, double cached, double heads,
	double qk_dim, double v_dim);

/** One of MLA's two absorbed products (k or v side). Constants: launch, share of the bf16 roof, share of HBM, the cache. */
enum { MF_BMM_T0, MF_BMM_ROOF, MF_BMM_HBM, MF_BMM_L2, MF_BMM_WARM, MF_BMM_CONSTS };
double mf_mla_bmm_us(
	const double *g, const mf_gpu_rates *r, double batch, double heads, double head_dim, double kv_lora);

/** Share of a bus rate that the cluster's NVLink reaches, against the link that the tables were measured on. */
double mf_link_share(const mf_cluster *c, const mf_consts *k);

/** Custom all-reduce inside a graph. Constants: launch, TB/s of bus, us a square root of bytes. */
enum { MF_AR_T0, MF_AR_BUS, MF_AR_ROOT, MF_AR_CONSTS };
/** t0 + r sqrt(bytes) + 2 bytes (n-1)/n / bus; `share` of the bus that this link reaches. */
double mf_all_reduce_us(const double *g, double n, double bytes, double share);

/** All-gather, reduce-scatter, all-to-all. Constants: launch, us a rank, TB/s of bus, us a square root of bytes. */
enum { MF_COLL_T0, MF_COLL_RANK, MF_COLL_BUS, MF_COLL_ROOT, MF_COLL_CONSTS };
/** t0 + t1 n + r sqrt(bytes) + bytes (n-1)/n / bus; bytes of the whole gathered buffer. */
double mf_collective_us(const double *g, double n, double bytes, double share);

/** DeepEP, either mode. Constants of dispatch, then of combine: launch, TB/s, ns a row sent. */
enum {
	MF_EP_DISPATCH_T0,
	MF_EP_DISPATCH_RATE,
	MF_EP_DISPATCH_ROW,
	MF_EP_COMBINE_T0,
	MF_EP_COMBINE_RATE,
	MF_EP_COMBINE_ROW,
	MF_EP_CONSTS
};
/** Low latency inside one node: fp8 out, bf16 back, a copy per choice. `share` as in mf_all_reduce_us. */
double mf_ll_dispatch_us(const double *g, double tokens, double hidden, double topk, double share);
double mf_ll_combine_us(const double *g, double tokens, double hidden, double topk, double share);
/** Normal mode inside one node of `ranks`: fp8 out, bf16 back, a copy per distinct rank. */
double mf_normal_dispatch_us(const double *g, double tokens, double hidden, double topk, double ranks, double share);
double mf_normal_combine_us(const double *g, double tokens, double hidden, double topk, double ranks, double share);
/** Distinct of n equal targets that a token with k choices reaches. */
double mf_distinct(double n, double k);

#endif
