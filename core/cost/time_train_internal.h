/*
 * time_train_internal.h: how the analytic training model is cut up. time_train_layer.c prices one layer of a plan (all
 * the roofs, powers and logarithms), time_train.c keeps those prices by key and adds them up to a step,
 * time_train_explain.c opens the sum. Seconds, bytes and flop inside; milliseconds only at the door.
 */
#ifndef MF_TIME_TRAIN_INTERNAL_H
#define MF_TIME_TRAIN_INTERNAL_H

#include "cost_internal.h"

/** Terms of a layer. */
typedef enum tt_term {
	TT_DENSE,
	TT_ATTENTION,
	TT_SCAN,
	TT_EXPERTS,
	TT_SHARED,
	TT_ROUTER,
	TT_TRAFFIC,
	TT_PERMUTE,
	TT_QUANTIZE,
	TT_TP,
	TT_CP,
	TT_RECOMPUTE,
	TT_EXCHANGE,
	TT_COUNT
} tt_term;

/** Forward and backward of one micro-batch on one GPU, seconds. */
typedef struct tt_pass {
	double f, b;
} tt_pass;

/** One kind of layer. All members are doubles, so that kinds can be averaged. */
typedef struct tt_layer {
	tt_pass term[TT_COUNT];    /* before hiding and the host floor; TT_CP is what stays visible of its ring */
	double hidden;             /* exchange hidden behind compute */
	double shared_hidden;      /* shared expert hidden behind the exchange */
	double floor_excess;       /* what the host's launches add where they are slower than the GPU */
	double total_f, total_b;   /* after hiding and floor */
	double unhidden;           /* what one micro-batch costs more when it has no other to hide behind */
	double wgrad;              /* weight-gradient share of total_b */
	double wgrad_of[TT_COUNT]; /* the same by term */
	tt_pass host;              /* launches of the host, the floor under each pass */
	double comm, comm_hidden;  /* all exchanges, and what is hidden of them */
} tt_layer;

/** What follows the mixer of a layer. */
typedef enum tt_ffn { TT_FFN_NONE, TT_FFN_DENSE, TT_FFN_MOE } tt_ffn;
/** A kind of layer: all layers of a kind cost the same. */
typedef struct tt_kind {
	uint8_t mixer; /* mf_mixer */
	uint8_t ffn;   /* tt_ffn */
} tt_kind;
/** Kinds a model may have: published ones have at most four, and MTP layers may add one. */
#define TT_KINDS 6

/**
 * What a plan's layers cost: everything that needs more than multiplications. Depends on the key alone. Terms are not
 * kept: an explanation prices its plan again.
 */
typedef struct tt_layers {
	uint64_t key[3];
	double t[TT_KINDS];                          /* total_f + total_b */
	double unhidden[TT_KINDS], hidden[TT_KINDS]; /* see tt_layer */
	double comm[TT_KINDS], comm_hidden[TT_KINDS];
	double fill[TT_KINDS];                /* t - 3 wgrad + backward: a stage's share of DualPipe's bubble */
	double embedding, head, mtp;          /* of one micro-batch; head carries logits and loss */
	double p2p;                           /* one activation to the next stage */
	double params_dense, params_expert;   /* of a whole pipeline, on one rank of its (tp, ep, etp) group */
	double tokens_per_expert;             /* rows of one expert's GEMM; NaN when dense */
	uint32_t domain_dense, domain_expert; /* data-parallel members inside one NVLink domain, at most */
	bool extrapolated;
} tt_layers;

/** Layers of a rank; halves where a rank serves a stage in one of two directions only. */
typedef struct tt_rank {
	double layers[TT_KINDS], first, last;
} tt_rank;
/** Distinct ranks of a pipeline. */
typedef struct tt_stages {
	uint64_t key[2];
	uint32_t n; /* 0: the layers cannot be laid out so */
	tt_rank rank[MF_MAX_STAGES];
} tt_stages;

typedef struct tt_slot {
	uint64_t key[3];
	void *value;
} tt_slot;
/** Open addressing, doubled when half full; values are owned. */
typedef struct tt_memo {
	tt_slot *slots;
	uint32_t cap, used;
} tt_memo;

typedef struct mf_train_time {
	tt_memo layers, stages;
	const tt_layers *last_layers;
	const tt_stages *last_stages;
	tt_layers scratch_layers; /* used when there is no memory for a new entry */
	tt_stages scratch_stages;
	double *ring_alpha; /* [n]: latency of a ring of n members, seconds; n <= world */
	uint32_t n_kinds, mtp_kind;
	tt_kind kind[TT_KINDS];
	uint16_t before[TT_KINDS][MF_MAX_LAYERS + 1]; /* layers of a kind before a layer */
	double domain;                                /* GPUs that reach each other without the NIC */
	double link, nic, hbm;                        /* bytes/s, datasheet */
	double ring_link, ring_nic; /* bytes/s a ring member gets inside, and per domain member outside */
	double stream;              /* HBM bytes/s of a streaming kernel */
	double kernel_tail;         /* seconds */
	mf_dtype dtype;
	bool fused_quant; /* one fused kernel casts for all local experts */
	double grad_bytes, gather_bytes;
} mf_train_time;

/** The parts of a step, seconds. */
typedef struct tt_step {
	const tt_layers *l;
	tt_rank rank;    /* the slowest */
	double m;        /* micro-batches of a rank */
	double rank_s;   /* the slowest rank, one micro-batch */
	double unhidden; /* the first forward and the last backward, which have nothing to hide behind */
	double bubble, p2p;
	double dp_comm, dp_hidden, optimizer, offload, fixed;
	double scatter, gather; /* one reduction of gradients, one gather of parameters, before hiding; in dp_comm */
	double offload_copy;    /* of offload: what crosses PCIe */
	double dense, experts;  /* parameters of the rank */
	double shown;           /* micro-batches whose exchange nothing hides: `unhidden` is what they cost more */
	double tax;             /* whole factor on time, 1 when no tax applies */
	double step;
} tt_step;

/** Everything the price of layers depends on. Effective values, so that equal prices have equal keys. */
void tt_layers_key(const mf_plan *p, uint64_t key[3]);
/** The parts of the step of a plan; false where its sizes do not divide. */
bool tt_step_of(mf_cost *c, const mf_plan *p, tt_step *out);
/** Prices the layers of a plan, term by term into `kinds`; the key is set by the caller. */
void tt_price_layers(const mf_cost *c, const mf_plan *p, tt_layers *out, tt_layer kinds[TT_KINDS]);
/** Seconds of one ring pass (gather or scatter) of `bytes` over n members, `inside` of them in one domain. */
double tt_ring(const mf_train_time *s, double bytes, uint32_t n, uint32_t inside);
/** Seconds of a streaming kernel sequence. */
static inline double tt_stream(const mf_train_time *s, double bytes, double kernels)
{
	return bytes / s->stream + kernels * s->kernel_tail;
}
/** Layers of a kind in the whole model. */
static inline double tt_count(const mf_train_time *s, const mf_model *m, uint32_t kind)
{
	return s->before[kind][m->layers];
}
/** GPU time under the host's floor. A little of the smaller stays visible, so that a floor ties no two plans. */
static inline double tt_lifted(double gpu, double host, double leak)
{
	return (gpu > host ? gpu : host) + leak * (gpu < host ? gpu : host);
}
/** Opens a step: appends its terms, which add up to step_ms. */
void tt_explain(const mf_cost *c, const mf_plan *p, const tt_step *st, mf_explain *ex);

#endif
