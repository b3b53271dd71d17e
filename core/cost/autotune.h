/*
 * autotune.h: measured times of generated expert kernels, read from a report (docs/AUTOTUNE.md). A kernel answers for
 * the shapes it was measured on, between the row counts it was measured at, and for nothing else.
 */
#ifndef MF_AUTOTUNE_H
#define MF_AUTOTUNE_H

#include "plan.h"

/** Expert layer of one GPU: `experts` local experts of hidden x width, `rows` tokens each. */
typedef struct mf_expert_layer {
	mf_phase phase;
	mf_dtype dtype;
	uint32_t hidden, width, experts; /* width of one GPU's shard of an expert */
	double rows;
} mf_expert_layer;

/** Times of one layer, microseconds: local permute, both products, activation and weighted un-permute of all experts. */
typedef struct mf_kernel_time {
	double forward_us;  /* serving: of a decode or prefill pass */
	double backward_us; /* training; NaN in serving */
} mf_kernel_time;

/** A report. Owns its entries. */
typedef struct mf_autotune mf_autotune;
/** Reads a report; a report of another GPU than the cluster's is an error. Errors name file, line and field. */
mf_status mf_autotune_read(mf_autotune **out, const char *path, const mf_cluster *cluster, mf_err *err);
/** As mf_autotune_read, from a document; the report borrows nothing from it. */
mf_status mf_autotune_from_doc(mf_autotune **out, const mf_doc *doc, const mf_cluster *cluster, mf_err *err);
void mf_autotune_free(mf_autotune *a);
/** Where the times come from, and whether they are invented (test fixtures). */
const char *mf_autotune_source(const mf_autotune *a);
bool mf_autotune_synthetic(const mf_autotune *a);

/** Time of `kernel` (packed) on a layer; false where the report does not answer. Straight lines between points of
 * log(rows), log(time). */
bool mf_autotune_time(const mf_autotune *a, uint16_t kernel, const mf_expert_layer *layer, mf_kernel_time *out);
/** The i-th kernel that was measured on the layer's shape, at any number of rows; 0 after the last. */
uint16_t mf_autotune_kernel(const mf_autotune *a, const mf_expert_layer *layer, size_t i);

#define MF_KERNEL_TEXT_MAX 48
/** A packed kernel as the plan's text form writes it, "gc-128x128x64-w8-s3"; "" for none. */
void mf_kernel_format(uint16_t kernel, char out[MF_KERNEL_TEXT_MAX]);

#endif
