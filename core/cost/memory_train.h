/* memory_train.h: parts of the training ledger: parameters of a rank, activations of a layer. Bytes and counts of one GPU. */
#ifndef MF_MEMORY_TRAIN_H
#define MF_MEMORY_TRAIN_H

#include "cost_internal.h"

/** Lines of one sublayer's activations, kept until its backward. */
typedef enum mf_act { ACT_NORM_IN, ACT_NORM_OUT, ACT_COMPRESSED, ACT_QKV, ACT_SCORES, ACT_CORE_OUT, ACT_FC1, ACT_ACT,
	ACT_ROUTER, ACT_DISPATCHED, ACT_PROBS, ACT_SHARED, ACT_DROPOUT, ACT_COUNT } mf_act;

/** What one layer holds: kept for backward, and the extra at its own forward and backward. */
typedef struct mf_layer_act {
	double kept[ACT_COUNT];
	double sum;
	double forward_extra, backward_extra;
} mf_layer_act;

/** Everything about a layer that few dimensions of the plan decide; computed once for each distinct key. */
typedef struct mf_layer_memory {
	uint64_t key[2];
	bool used;
	uint32_t etp;
	double tokens, sp_tokens;        /* of a micro-batch on this rank: s, and s/tp under sequence parallel */
	double dense[2], expert[2];      /* parameters a rank of a dense [0] and a MoE [1] layer */
	double embedding, head, mtp_dense, mtp_expert; /* parameters */
	double shapes;                   /* sum of distinct weight shapes, elements */
	double logits;                   /* s * V */
	mf_layer_act act[2];
} mf_layer_memory;

/** Fills `out` for the plan's layer key. */
void mf_layer_memory_fill(const mf_cost *c, const mf_plan *p, mf_layer_memory *out);

/** The published ledger (the paper's accounting). */
void mf_published_memory_eval(mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const mf_param_count *n, mf_memory *out,
	mf_explain *ex);

#endif
