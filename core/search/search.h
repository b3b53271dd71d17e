/*
 * search.h: every plan of a space, judged and ranked. Rows live in one array, are addressed by index, and rejected ones
 * stay where they would stand.
 */
#ifndef MF_SEARCH_H
#define MF_SEARCH_H

#include "realize.h"

typedef enum mf_space { MF_SPACE_PAPER, MF_SPACE_DEFAULT, MF_SPACE_WIDE } mf_space;
extern const mf_choice mf_space_choices[];

/** One scored plan; at most 128 bytes. */
typedef struct mf_row {
	mf_plan plan;
	float throughput; /* tokens/s/GPU, the number that ranks */
	float untaxed;    /* before taxes and penalties */
	float step_ms, ttft_ms, tpot_ms;
	float simulated; /* tokens/s/GPU in the simulator where tier 2 looked at it, else NaN; never ranks */
	float memory_gb, hidden, bubble;
	mf_rule_id rule; /* MF_RULE_NONE: buildable */
	uint8_t tier;
	uint8_t probe : 1, extrapolated : 1;
} mf_row;
_Static_assert(sizeof(mf_row) <= 128, "a kept candidate stays under 200 bytes with its index");

typedef struct mf_reason_count {
	mf_rule_id rule;
	uint64_t count;
	uint32_t first_row;
} mf_reason_count;

typedef struct mf_search_counts {
	uint64_t enumerated; /* combinations of the space that were looked at */
	uint64_t structural; /* of them, sizes that do not divide: no plan at all */
	uint64_t scored;     /* rows kept, rejected ones included */
	uint64_t rejected_emit, rejected_memory;
	uint64_t simulations, tasks; /* of tier 2: schedules run, tasks placed in them */
} mf_search_counts;
typedef struct mf_search_timing {
	double enumerate_ms, predicate_ms, tier1_ms, tier2_ms, tier3_ms, total_ms; /* NaN: that tier was not asked */
} mf_search_timing;

typedef struct mf_search_opts {
	mf_space space;
	bool constraint; /* judge plans; off by default in the library */
	mf_cost_opts cost;
	unsigned threads;           /* 0: one per core */
	uint64_t max_rows;          /* 0: all */
	const volatile int *cancel; /* stored nonzero (atomically, when by another thread) to stop; may be NULL */
	/** Called from worker threads with a batch of new rows (any order); the callee copies. May be NULL. */
	void (*on_rows)(void *payload, const mf_row *rows, size_t n);
	void *payload;
	/** 1: enumerate and rank. 2: simulate the ten best over the schedule grid too. 3: attach kernels from
	 * cost.autotune to them too. */
	unsigned tiers;
} mf_search_opts;
#define MF_SEARCH_OPTS_INIT                                                                                            \
	{                                                                                                              \
		MF_SPACE_DEFAULT, false, MF_COST_OPTS_INIT, 0, 0, NULL, NULL, NULL, 1                                  \
	}

#define MF_REFINED_MAX 10

/**
 * What tiers 2 and 3 found out about one of the ten best plans. The row keeps its plan; its `simulated` is of that plan.
 * One evaluator, the analytic one, orders the list: a better schedule stands beside the row, it does not replace it.
 */
typedef struct mf_refined {
	uint32_t row;
	float throughput; /* as tier 1 ranked it */
	/* tier 2, training */
	float simulated; /* of the row's plan without a kernel; NaN: nothing simulated */
	mf_plan best;    /* the plan under the schedule that simulates best; the row's own where none is better */
	float best_simulated;
	float best_throughput;   /* analytic */
	uint16_t tried, refused; /* schedules simulated; schedules the predicate refused */
	/* tier 3 */
	uint16_t kernel; /* the report's best for this plan's experts; 0: it has none */
	bool attached;   /* wins after tax: the row's throughput is then that with the kernel */
	float gain;      /* throughput with the kernel over that without - 1, before tax */
	float tax;       /* overhead that the overlay carries; 0 where unset */
	float margin_pp; /* 100 (gain - tax), percentage points */
} mf_refined;

/** Result of a search. Owns rows and order. */
typedef struct mf_search {
	mf_row *rows;
	size_t n_rows;   /* in enumeration order: an index is a stable id */
	uint32_t *order; /* rank -> row */
	mf_search_counts counts;
	mf_search_timing timing;
	mf_reason_count *reasons;
	size_t n_reasons; /* most frequent first */
	bool canceled;
	mf_refined refined[MF_REFINED_MAX]; /* best first, as tier 1 ranked them */
	size_t n_refined;
} mf_search;
/** What tiers 2 and 3 know of a row; NULL when they did not look at it. */
const mf_refined *mf_search_refined(const mf_search *s, uint32_t row);
/**
 * The schedules that tier 2 tries for a plan, in its order; writes at most `cap` and returns how many there are. The
 * first is the plan itself.
 */
size_t mf_schedule_grid(const mf_plan *p, const mf_inputs *in, mf_plan *out, size_t cap);
/** Enumerates, ranks and, by opts->tiers, refines. Borrows the inputs and constants while it runs, not after; the same rows for any
 * number of threads. MF_ECANCELED is not an error here: a canceled search returns the rows it has. */
mf_status mf_search_run(
	mf_search **out, const mf_inputs *in, const mf_consts *consts, const mf_search_opts *opts, mf_err *err);
void mf_search_free(mf_search *s);

/** Order of rows: by throughput, ties by plan text order of dimensions; deterministic. */
typedef enum mf_sort_key {
	MF_SORT_THROUGHPUT,
	MF_SORT_MEMORY,
	MF_SORT_STEP,
	MF_SORT_TTFT,
	MF_SORT_TPOT,
	MF_SORT_HIDDEN,
	MF_SORT_BUBBLE
} mf_sort_key;
extern const mf_choice mf_sort_key_choices[];
/** Re-sorts `order` without touching rows. `tax` false ranks by `untaxed`. */
mf_status mf_search_rank(mf_search *s, mf_sort_key key, bool descending, bool tax, unsigned threads);

/** Indices of the Pareto front (train: throughput up, memory down; serve: throughput up, TTFT and TPOT down), buildable rows only. Caller frees. */
mf_status mf_search_pareto(const mf_search *s, mf_phase phase, uint32_t **out, size_t *n);

/** `n` plans drawn uniformly from the space (the same for equal seeds), as rows judged and scored. */
mf_status mf_search_sample(mf_search **out, const mf_inputs *in, const mf_consts *consts, const mf_search_opts *opts,
	size_t n, uint64_t seed, mf_err *err);

#endif
