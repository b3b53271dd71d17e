/*
 * ablate.h: what each tier of a search adds. One evaluator gives the score of all three levels of a search, so that a
 * level is never below the one before it: the simulator in training, the analytic model in serving, which has no other.
 */
#ifndef MF_ABLATE_H
#define MF_ABLATE_H

#include "search.h"

enum { MF_ABLATE_LEVELS = 3 };

/** The best plan after a tier. */
typedef struct mf_ablate_level {
	mf_plan plan;
	uint16_t kernel;  /* attached; 0: none */
	float throughput; /* analytic, tokens/s/GPU */
	float score;      /* of the phase's evaluator, tokens/s/GPU; never below the level before */
} mf_ablate_level;

/** Levels L1, L2, L3 of a search that ran with three tiers; false when no plan of it fits. */
bool mf_ablate(const mf_search *s, mf_phase phase, mf_ablate_level out[MF_ABLATE_LEVELS]);

#endif
