/*
 * gpu.h: the GPUs of this node. Libraries of the driver are loaded at run time, so that the program starts anywhere.
 */
#ifndef MF_GPU_H
#define MF_GPU_H

#include "plan.h"

/**
 * Describes this node through NVML: GPU name, count and memory are read; rates come from the built-in cluster of the
 * same GPU. MF_EENV with the reason when there is no driver, no GPU, or the GPU is not among the built-in ones.
 */
mf_status mf_gpu_cluster(mf_cluster *out, mf_err *err);

/** A process that holds memory of a GPU. */
typedef struct mf_gpu_holder {
	uint32_t pid;
	char name[32];       /* of the program, "" when it cannot be read */
	char user[32];       /* "" when it cannot be read */
	double memory_bytes; /* NaN when the driver does not say */
} mf_gpu_holder;
#define MF_MAX_HOLDERS 16
/** One GPU at one moment; what the driver does not say is NaN. */
typedef struct mf_gpu_state {
	char name[96];
	double memory_used_bytes, memory_total_bytes;
	double load; /* share of the last second with a kernel running, 0..1 */
	double power_w, temperature_c;
	size_t n_holders; /* all of them; the first MF_MAX_HOLDERS are listed */
	mf_gpu_holder holders[MF_MAX_HOLDERS];
} mf_gpu_state;

/** The GPUs of this node, to be looked at again and again. Not thread-safe: one thread uses it at a time. */
typedef struct mf_gpu_watch mf_gpu_watch;
/** MF_EENV with the reason when there is no driver or no GPU. */
mf_status mf_gpu_watch_open(mf_gpu_watch **out, mf_err *err);
void mf_gpu_watch_close(mf_gpu_watch *w);
/** Fills at most `cap` states; returns how many GPUs there are. The driver answers in milliseconds, or not at all. */
size_t mf_gpu_watch_read(mf_gpu_watch *w, mf_gpu_state *out, size_t cap);

#endif
