/* ops.c: single operations: kernels and collectives. */
#include "score_internal.h"

void mf_score_kernel(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	(void)ctx;
	(void)row;
	mf_score_uncovered(out, "kernel rows are not read yet");
}

void mf_score_comm(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	(void)ctx;
	(void)row;
	mf_score_uncovered(out, "collective rows are not read yet");
}
