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

#endif
