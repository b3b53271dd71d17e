/* memory_internal.h: what memory.c and memory_serve.c share. */
#ifndef MF_SCORE_MEMORY_INTERNAL_H
#define MF_SCORE_MEMORY_INTERNAL_H

#include "score_internal.h"

/** Inputs of one row, its plan, and room to open it. */
struct mf_memory_rig {
	mf_model model;
	mf_cluster cluster;
	mf_workload work;
	mf_stack stack;
	mf_consts consts;
	mf_plan plan;
	mf_cost *cost;
	mf_explain ex;
};

/** Takes the cluster, its constants and a built-in stack; false, with the reason in `out`, when one is missing. */
bool mf_memory_rig_start(
	mf_score *ctx, struct mf_memory_rig *r, const mf_cluster *cluster, const char *stack, mf_judged *out);
/** Bytes in the row's unit (B, MiB, GiB, GB, % of the card); NaN for any other. */
double mf_memory_in_unit(double bytes, const mf_measured *row, const mf_cluster *c);
/** Judges a row of a serving engine. */
void mf_score_memory_serve(
	mf_score *ctx, struct mf_memory_rig *r, const mf_measured *row, mf_intern *intern, mf_judged *out);
/** What the ledger's figures mean for a launch. */
mf_memory_verdict mf_memory_verdict_of(const mf_memory *m);

#endif
