/*
 * realize.h: can this plan be built? Emit dry run first, memory gate second, first reason wins.
 */
#ifndef MF_REALIZE_H
#define MF_REALIZE_H

#include "emit.h"

/** Answer of the predicate, small enough to keep a million of. */
typedef struct mf_verdict {
	mf_rule_id rule;  /* MF_RULE_NONE: buildable; MF_RULE_MEMORY: the memory gate; else the emitter's rule */
	bool probe;       /* buildable, but within the ledger's error of the budget */
	mf_memory memory; /* filled unless the dry run already refused and `always_memory` is off; then NaN */
} mf_verdict;

/** One predicate a thread; emitter and cost are borrowed. */
typedef struct mf_realizer {
	const mf_emitter *emitter;
	mf_cost *cost;
	bool always_memory; /* fill memory for refused plans too */
} mf_realizer;
/** The verdict: the emitter's first guard, else the memory gate. Allocates nothing. */
void mf_realize(const mf_realizer *r, const mf_plan *p, mf_verdict *out);

/** Everything a refusal shows: stage, boundary, rule, kind, verbatim reason. Made on demand. Borrowed table strings. */
typedef struct mf_refusal {
	const char *stage, *boundary, *rule, *kind, *exception;
	char reason[512];
} mf_refusal;
/** Re-runs the predicate on `p` and words its refusal; MF_OK with rule "" when the plan is buildable. */
mf_status mf_realize_explain(const mf_realizer *r, const mf_plan *p, mf_refusal *out);

/** What the paper's narrower emitter would have said, as a note; "" when it agrees with ours. */
void mf_paper_note(const mf_plan *p, const mf_inputs *in, char out[256]);

/** Boundary catalogue: B1-B8 and the rule families, for `moefs boundaries` and the docs. Ends with a NULL id. */
typedef struct mf_boundary {
	const char *id, *title, *layer, *disposition;
} mf_boundary;
extern const mf_boundary mf_boundaries[];

#endif
