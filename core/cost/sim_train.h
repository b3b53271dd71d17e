/*
 * sim_train.h: how the simulated step is cut up. sim_layer.c schedules the parts of a layer on the streams of a GPU,
 * sim_stage.c the passes of micro-batches on a pipeline, sim_train.c adds the ends of the step. Seconds inside.
 */
#ifndef MF_SIM_TRAIN_H
#define MF_SIM_TRAIN_H

#include "sim.h"
#include "time_train_internal.h"
#include "timeline.h"

/** Tasks one schedule of layers holds at most: four pairs of eight pieces. */
#define SL_MAX_TASKS 256
#define SL_MAX_PIECES 8
/** Pairs of layers simulated; the third and fourth give the period. */
#define SL_WINDOW 4

/** One kind of layer as the simulator sees it, seconds of one micro-batch. */
typedef struct sl_kind {
	double f, b;         /* alone: parts in order, no other micro-batch beside it */
	double lead, period; /* n forwards beside n backwards take lead + n * period */
	double exchange_b;   /* exchange in b */
	double wgrad;
	double serial; /* parts of f and b one after another, nothing beside anything */
	double comm;   /* all communication; what CP hides counts as hidden */
	double comm_hidden;
} sl_kind;

/** What tasks of the streams take from each other. */
typedef struct sl_contention {
	double slow[MF_LANE_COUNT * MF_LANE_COUNT];
} sl_contention;

/** Forward and backward passes on a pipeline. Virtual stage v = chunk * pp + rank. */
typedef struct ss_pipeline {
	uint32_t pp, vpp, m;
	bool paired;       /* a forward and a backward run side by side in the steady state */
	double busy, edge; /* a transfer: what it keeps a rank from computing; what it delays the next rank */
	double f[MF_MAX_LAYERS], b[MF_MAX_LAYERS];           /* alone */
	double rest_f[MF_MAX_LAYERS], rest_b[MF_MAX_LAYERS]; /* of them, what is never paired */
	double paired_layers[MF_MAX_LAYERS];
	double lead, period;
} ss_pipeline;

/** State of the simulator inside an evaluator. */
typedef struct mf_train_sim {
	struct sl_priced {
		uint64_t key[3];
		uint8_t placement;
		bool used;
		sl_kind kind[TT_KINDS];
	} priced[256]; /* by hash of the key; a later one replaces an earlier */
	mf_sim_task tasks[SL_MAX_TASKS];
	uint8_t lane_of_bar[SL_MAX_TASKS];
	uint32_t scratch[MF_SIM_SCRATCH(SL_MAX_TASKS)];
	double *ends; /* of forward and backward passes */
	size_t cap_ends;
	ss_pipeline pipeline;
	mf_simulation_counts counts;
} mf_train_sim;

/** Bars being collected; NULL on the fast path. */
typedef struct sim_bars {
	mf_bar *bars;
	size_t n, cap;
	bool failed;
} sim_bars;
void sim_bar(sim_bars *to, mf_bar bar);

/** What the streams of a plan take from each other. */
sl_contention sl_contention_of(const mf_cost *c, const mf_plan *p);
/** The layers of a plan, from the memo or scheduled now. */
const sl_kind *sl_layers(mf_cost *c, const mf_plan *p);
/** Bars of the steady state of MoE layers (dense ones where there are no others). Returns the span in seconds. */
double sl_window(mf_cost *c, const mf_plan *p, sim_bars *to);
/** Runs the first n of s->tasks and counts them. Returns the span. */
double sim_run(mf_train_sim *s, size_t n, const mf_sim_rules *rules);

/** Seconds of a pipeline. NaN without memory. */
typedef struct ss_span {
	double total;
	double wait;    /* what the busiest rank waits */
	double skipped; /* of total: micro-batches that repeat the steady state and were not run through; below 0 where
			       more were run than there are */
	uint32_t n_skipped; /* their number */
} ss_span;
ss_span ss_run(mf_train_sim *s, const ss_pipeline *p, sim_bars *to);

#endif
