/*
 * score_internal.h: what the judges of the kinds share. A judge gets one row and fills an mf_judged whose fields all say
 * "unknown"; it looks models, clusters and constants up through the context, which keeps what it has loaded.
 */
#ifndef MF_SCORE_INTERNAL_H
#define MF_SCORE_INTERNAL_H

#include "score.h"

/** Context of one run: loaded models and clusters, and room for a judge's own state. */
typedef struct mf_score mf_score;

/** The judges, one a kind; each in its own file. */
void mf_score_train(mf_score *ctx, const mf_measured *row, mf_judged *out);
void mf_score_serve(mf_score *ctx, const mf_measured *row, mf_judged *out);
/** As mf_score_serve with a host constant of the caller's (ms a layer; NaN: the table's), for tools that fit it. */
void mf_score_serve_at(mf_score *ctx, const mf_measured *row, double host_ms, mf_judged *out);
void mf_score_memory(mf_score *ctx, const mf_measured *row, mf_judged *out);
void mf_score_kernel(mf_score *ctx, const mf_measured *row, mf_judged *out);
void mf_score_comm(mf_score *ctx, const mf_measured *row, mf_judged *out);

/** Pairs of replicas against width among the judged serving rows. */
void mf_score_replica_pairs(const mf_scorecard *c, mf_score_replicas *out);

/** Marks the row as not covered. Keep reasons short and few: equal ones are counted together. */
void mf_score_uncovered(mf_judged *out, const char *fmt, ...) MF_PRINTF(2, 3);

/**
 * The model that a row's `model` names: the built-in of that name (mf_model_builtin), in the format that the name says;
 * of a vision model ("-VL-") its language part. NULL when there is none, with the reason in `out`. Borrowed.
 */
const mf_model *mf_score_model(mf_score *ctx, const char *name, mf_judged *out);
/**
 * The row's cluster: a built-in one of its GPU, sized to n_gpus with gpus_per_node GPUs a node (where the source does
 * not say: the built-in's, or fewer). NULL, with the reason in `out`, when the GPU or its number is unknown. Borrowed.
 */
const mf_cluster *mf_score_cluster(mf_score *ctx, const mf_measured *row, mf_judged *out);
/** As mf_score_cluster for a GPU and a number of GPUs; `gpus_per_node` NaN when not stated. */
const mf_cluster *mf_score_cluster_of(
	mf_score *ctx, const char *gpu, double n_gpus, double gpus_per_node, mf_judged *out);
/** Constants for a cluster under the run's overlay option. Borrowed; NULL with the reason in `out` on a bad overlay. */
const mf_consts *mf_score_consts(mf_score *ctx, const mf_cluster *c, mf_judged *out);

/** Format of a served checkpoint as a precision column names it; false, and nothing set, for an unknown word. */
bool mf_score_weights(const char *text, mf_quant *out);
/** Precision of a training run as a precision column names it (empty: bf16); false for an unknown word. */
bool mf_score_training(const char *text, mf_precision *out);
/** mf_recompute_modules that a list such as "layernorm,moe_act" or "[core_attn]" names; words that Megatron lacks count for none. */
unsigned mf_score_recompute(const char *list);

/** True when the run was asked for factory constants ("none"), whatever they were fitted on. */
bool mf_score_factory(const mf_score *ctx);
/** True when the run was told no overlay at all, so that each row takes its GPU's. */
bool mf_score_own_overlays(const mf_score *ctx);

/* Training rows read once and priced many times: what a fit of constants needs (tools/fit_train.c). */
typedef struct mf_train_row mf_train_row;
/** Reads a row; NULL with the reason in `out`. Its release and `outside` are filled in either way. */
mf_train_row *mf_score_train_read(mf_score *ctx, const mf_measured *row, mf_judged *out);
void mf_score_train_dispose(mf_train_row *r);
/** Predicted tokens/s/GPU under `k` (NaN: cannot be laid out), and the measured one. */
double mf_score_train_rate(mf_train_row *r, const mf_consts *k, double *measured);
const mf_cluster *mf_score_train_cluster(const mf_train_row *r);
/** Architecture that the row's model belongs to; "" for one that no constant was fitted on. */
const char *mf_score_train_family(const mf_train_row *r);
/** True when `where` (a GPU, a GPU family or "all") covers the cluster. */
bool mf_score_train_where(const char *where, const mf_cluster *c);

/** All rows of the run: a judge may look at others of its kind (never to fit what is scored). */
const mf_measured_table *mf_score_table(const mf_score *ctx);
/** A judge's own state: NULL until it sets one; `release` is called at the end of the run. */
void **mf_score_state(mf_score *ctx, mf_row_kind kind, void (*release)(void *state));

/** A count column as a number, or `fallback` where the source does not state it. */
static inline uint32_t mf_measured_u32(double value, uint32_t fallback)
{
	return value == value ? (uint32_t)value : fallback;
}

/* score.c keeps the context; lookup.c fills it. */
mf_status mf_score_new(mf_score **out, const mf_measured_table *t, const mf_score_opts *opts, mf_err *err);
void mf_score_free(mf_score *ctx);

#endif
