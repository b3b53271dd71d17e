/*
 * memory_train.h: parts of the training ledger. A rank's memory is a sum over its layers, so everything a layer needs
 * is computed once for the few dimensions that decide it (mf_layer_memory), everything a pipeline split needs once for
 * each split (mf_stage_shape), and a plan costs additions. Bytes are of one GPU and whole, so any order of lines adds
 * up.
 */
#ifndef MF_MEMORY_TRAIN_H
#define MF_MEMORY_TRAIN_H

#include "cost_internal.h"

/** Lines of a layer's activations, kept until its backward: X(id, line, rule). */
#define MF_ACT_LINES(X)                                                                                                \
	X(ATTN_NORM_IN, "act.attn.norm_in", "2 t H")                                                                   \
	X(ATTN_NORM_OUT, "act.attn.norm_out", "q t H, dropped by layernorm recompute")                                 \
	X(ATTN_Q_COMPRESSED, "act.attn.q_compressed", "(2 + q) t q_lora")                                              \
	X(ATTN_KV_COMPRESSED, "act.attn.kv_compressed", "(2 + q) t kv_lora + 2 t (rope + kv_lora)")                    \
	X(ATTN_QKV, "act.attn.qkv",                                                                                    \
		"MLA 2 s A/tp (2 (qk + rope) + v) (multi_latent_attention.py:362); GQA 2 s (A + 2 G) d/tp")            \
	X(ATTN_QK_NORM_IN, "act.attn.qk_norm_in", "2 s (A + G) d/tp")                                                  \
	X(ATTN_SCORES, "act.attn.scores", "unfused: 2 B a score, 5 B with dropout (softmax, mask, dropped copy)")      \
	X(ATTN_LSE, "act.attn.lse", "flash: 4 s A/tp")                                                                 \
	X(ATTN_CORE_OUT, "act.attn.core_out", "2 s A d/tp, one quantized copy more under fp8")                         \
	X(ATTN_DROPOUT, "act.attn.dropout_mask", "t H where hidden dropout is on")                                     \
	X(MAMBA_NORM_IN, "act.mamba.norm_in", "2 t H")                                                                 \
	X(MAMBA_NORM_OUT, "act.mamba.norm_out", "q t H, dropped by layernorm recompute")                               \
	X(MAMBA_IN_PROJ, "act.mamba.in_proj_out", "2 s (2 di + 2 groups state + heads)/tp (estimate)")                 \
	X(MAMBA_SCAN, "act.mamba.scan_out", "4 s di/tp: before and after the gate (estimate)")                         \
	X(MAMBA_NORM2, "act.mamba.gated_norm_out", "q s di/tp")                                                        \
	X(DELTA_NORM_IN, "act.delta.norm_in", "2 t H")                                                                 \
	X(DELTA_NORM_OUT, "act.delta.norm_out", "q t H, dropped by layernorm recompute")                               \
	X(DELTA_IN_PROJ, "act.delta.in_proj_out", "2 s (2 K + 2 V + 2 heads)/tp (estimate)")                           \
	X(DELTA_CONV, "act.delta.conv_out", "2 s (2 K + V)/tp (estimate)")                                             \
	X(DELTA_OUT, "act.delta.core_out", "(4 + q) s V/tp: before and after the gated norm (estimate)")               \
	X(MLP_NORM_IN, "act.mlp.norm_in", "2 t H")                                                                     \
	X(MLP_NORM_OUT, "act.mlp.norm_out", "q t H, dropped by layernorm recompute")                                   \
	X(MLP_FC1_OUT, "act.mlp.fc1_out", "2 s sw ffn/tp")                                                             \
	X(MLP_ACT_OUT, "act.mlp.act_out", "q s ffn/tp")                                                                \
	X(FFN_DROPOUT, "act.mlp.dropout_mask", "t H where hidden dropout is on")                                       \
	X(MOE_NORM_IN, "act.moe.norm_in", "2 t H")                                                                     \
	X(MOE_NORM_OUT, "act.moe.norm_out", "2 t H, dropped by layernorm recompute")                                   \
	X(MOE_ROUTER, "act.moe.router",                                                                                \
		"13 t X of logits, scores and probabilities, 5 t X of map (allgather: of the group)")                  \
	X(MOE_LATENT, "act.moe.latent", "2 t h of the latent projection")                                              \
	X(MOE_DISPATCHED, "act.moe.dispatched", "q R H (h if latent), R = t topk etp (1 + skew)")                      \
	X(MOE_FC1_OUT, "act.moe.fc1_out", "2 R sw F")                                                                  \
	X(MOE_ACT_OUT, "act.moe.act_out", "q R F, dropped by moe_act recompute")                                       \
	X(MOE_ACT_UNWEIGHTED, "act.moe.act_unweighted",                                                                \
		"2 R F: the product with probabilities keeps its operand (experts.py:694)")                            \
	X(MOE_PROBS, "act.moe.probs", "4 R")                                                                           \
	X(MOE_SHARED, "act.moe.shared", "(2 sw + q) s shared/tp")                                                      \
	X(MOE_SHARED_IN, "act.moe.shared_in", "fp8: q t H")

typedef enum mf_act {
#define X(id, line, rule) MF_ACT_##id,
	MF_ACT_LINES(X)
#undef X
		MF_ACT_COUNT
} mf_act;

/** What one layer keeps for its backward, line by line, and what it needs beside that while it runs. Whole bytes. */
typedef struct mf_layer_act {
	double kept[MF_ACT_COUNT];
	double sum, forward_extra, backward_extra;
	double offloaded; /* kept bytes that wait in host memory instead; not in `kept` */
} mf_layer_act;

/** Feed-forward part of a layer. */
typedef enum mf_ffn { MF_FFN_DENSE, MF_FFN_MOE, MF_FFN_NONE } mf_ffn;

/** A kind of layer: what mixes tokens (windowed attention counts as attention) and what follows. */
typedef struct mf_layer_kind {
	uint8_t mixer, ffn; /* mf_mixer, mf_ffn */
} mf_layer_kind;

/** Every mixer with every feed-forward part, less nothing at all. */
#define MF_LAYER_KINDS 11

/** The kinds a model has, and how many of each stand before a layer. */
typedef struct mf_layer_kinds {
	mf_layer_kind kind[MF_LAYER_KINDS], mtp;
	uint32_t n;
	uint16_t before[MF_MAX_LAYERS + 1][MF_LAYER_KINDS];
} mf_layer_kinds;
const mf_layer_kinds *mf_train_kinds(const mf_cost *c);

/** Which weights a rank has: a bit a kind (1 << kind), and these. */
enum { MF_HAS_HEAD = 1 << MF_LAYER_KINDS, MF_HAS_MTP = 2 << MF_LAYER_KINDS };

/** A distinct weight shape: Transformer Engine caches one dummy gradient for it on a rank that has any of `owners`. */
typedef struct mf_weight_shape {
	double out, in;
	unsigned owners;
} mf_weight_shape;
#define MF_MAX_SHAPES 24

/** Everything about a rank's layers that few dimensions decide. */
typedef struct mf_layer_memory {
	uint64_t key[2];
	uint32_t used, etp;
	double params[MF_LAYER_KINDS],
		experts[MF_LAYER_KINDS];                      /* of a layer on a rank, without and of routed experts */
	double embedding, head, final_norm, mtp, mtp_experts; /* parameters */
	mf_weight_shape shapes[MF_MAX_SHAPES];
	size_t n_shapes;
	int64_t workspaces; /* all workspaces but the dummy gradients */
	/* of a layer, activation bytes; recompute included */
	double sum[MF_LAYER_KINDS], forward_extra[MF_LAYER_KINDS], backward_extra[MF_LAYER_KINDS];
	double checkpoint;              /* full recompute: bytes of one checkpoint */
	double ids, final_act, mtp_act; /* bytes a micro-batch leaves in the first / the last chunk */
	double logits, logits_mtp;      /* at the loss */
	double head_wgrad, loss_window; /* at the loss: gradient of the head; activations on their way from the host */
	double published_act;           /* activations of a layer by the published ledger */
	double gather, peer;            /* sequence-parallel gather buffer; one peer buffer */
} mf_layer_memory;

/** A chunk of a rank: layers of each kind, and what else stands in it. */
typedef struct mf_chunk {
	uint16_t layers[MF_LAYER_KINDS];
	uint8_t first, last; /* holds the embedding; holds final norm, head, loss and MTP */
} mf_chunk;

#define MF_MAX_CHUNKS 256

/** A pipeline split: chunks of rank r at chunk[r * vpp], and the ranks that can be the worst. */
typedef struct mf_stage_shape {
	uint64_t key[2];
	uint16_t used, n_chunks, n_ranks; /* n_chunks 0: more virtual stages than a split can name */
	uint16_t ranks[MF_MAX_STAGES];
	uint8_t equal_chunks[MF_MAX_STAGES]; /* of a rank: chunks of the same layers, no embedding, no loss */
	mf_chunk chunk[MF_MAX_CHUNKS];
} mf_stage_shape;

/** Fills `out` for the plan's layer key. */
void mf_layer_memory_fill(const mf_cost *c, const mf_plan *p, mf_layer_memory *out);
/** Activation lines of a layer of the kind; `out` is overwritten. */
void mf_layer_act_fill(const mf_cost *c, const mf_plan *p, mf_layer_kind kind, mf_layer_act *out);

/** Sum of lines, and the lines themselves where asked. */
typedef struct mf_ledger_sum {
	int64_t bytes;
	mf_explain *ex;
} mf_ledger_sum;
/** Adds one line, cut to whole bytes so that sums are exact; nothing where it is zero. */
static inline void mf_ledger_add(mf_ledger_sum *s, const char *name, double bytes, const char *rule)
{
	int64_t whole = (int64_t)bytes;

	s->bytes += whole;
	if (s->ex && whole > 0)
		mf_explain_line(s->ex, name, (double)whole, rule);
}

/** Micro-batches of a step on a rank's pipeline, at least 1. */
uint32_t mf_micro_batches(const mf_cost *c, const mf_plan *p);

/** Published ledger of one rank (the paper's accounting), bytes. */
double mf_published_rank(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const mf_stage_shape *v,
	uint32_t rank, mf_explain *ex);

#endif
