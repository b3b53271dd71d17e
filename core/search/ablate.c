/* ablate.c: the levels of one search, read from what its tiers left behind. */
#include "ablate.h"

#include <math.h>

/* Below this a difference is rounding, and the level before keeps its plan. */
#define BETTER (1 + 1e-6)

bool mf_ablate(const mf_search *s, mf_phase phase, mf_ablate_level out[MF_ABLATE_LEVELS])
{
	const bool simulated = phase == MF_TRAIN;
	mf_ablate_level *l2 = &out[1], *l3 = &out[2];

	if (s->n_refined == 0)
		return false;
	const mf_refined *first = &s->refined[0];
	out[0] = (mf_ablate_level){
		s->rows[first->row].plan, 0, first->throughput, simulated ? first->simulated : first->throughput};
	*l2 = out[0];
	for (size_t i = 0; i < s->n_refined && simulated; i++) {
		const mf_refined *f = &s->refined[i];

		if (f->best_simulated > l2->score * BETTER)
			*l2 = (mf_ablate_level){f->best, 0, f->best_throughput, f->best_simulated};
	}
	*l3 = *l2;
	for (size_t i = 0; i < s->n_refined; i++) {
		const mf_refined *f = &s->refined[i];
		const mf_row *row = &s->rows[f->row];
		const float score = simulated ? row->simulated : row->throughput;

		if (f->attached && score > l3->score * BETTER)
			*l3 = (mf_ablate_level){row->plan, f->kernel, row->throughput, score};
	}
	return true;
}
