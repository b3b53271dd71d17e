/* train.c: training rows. */
#include "score_internal.h"

void mf_score_train(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	(void)ctx;
	(void)row;
	mf_score_uncovered(out, "training rows are not read yet");
}
