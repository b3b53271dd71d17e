/*
 * timeline.h: the second evaluator of a training plan. Where the analytic model hides a measured share of what could be
 * hidden, the simulator schedules the tasks themselves: the parts of a layer on the streams of a GPU, with what one
 * stream takes from another, and the passes of micro-batches on the pipeline. Both read the same terms and constants;
 * where nothing overlaps they give the same step.
 */
#ifndef MF_TIMELINE_H
#define MF_TIMELINE_H

#include "cost.h"

/** A simulated step. NaN throughout where the plan cannot be laid out. */
typedef struct mf_simulated {
	double step_ms;
	double throughput; /* tokens/s/GPU, after taxes */
	/**
	 * (time of the same parts one after another - time scheduled) / all communication. Below 0 where overlap is a
	 * loss; NaN where nothing communicates.
	 */
	double hidden_fraction;
	double bubble_fraction; /* share of the step that the slowest rank waits in the pipeline */
} mf_simulated;
/** Simulates one step of a training plan. Fast: layers are periodic, so a few stand for all. Serving plans give NaN. */
void mf_cost_simulate(mf_cost *c, const mf_plan *p, mf_simulated *out);

/**
 * One micro-batch on the slowest rank in the steady state, ms: what schedules that differ in pieces, placement and SM
 * budget alone are compared by. NaN as above.
 */
double mf_cost_steady_ms(mf_cost *c, const mf_plan *p);

/** Schedules run and tasks placed by an evaluator so far. */
typedef struct mf_simulation_counts {
	uint64_t simulations, tasks;
} mf_simulation_counts;
/** Of this evaluator, since it was made. */
mf_simulation_counts mf_cost_simulation_counts(const mf_cost *c);

/** Where a bar is drawn. The first ones are the streams of a GPU. */
typedef enum mf_lane {
	MF_LANE_COMPUTE,
	MF_LANE_SIDE,
	MF_LANE_EXCHANGE,
	MF_LANE_REDUCE,
	MF_LANE_COPY,
	MF_LANE_HOST,
	MF_LANE_COUNT
} mf_lane;
extern const mf_choice mf_lane_choices[];

/** One task with its place in time. */
typedef struct mf_bar {
	const char *label; /* "dispatch"; never freed */
	double start_ms, end_ms;
	uint16_t stage;      /* pipeline rank */
	uint16_t chunk;      /* virtual stage of the rank; in a window of layers: the layer */
	int32_t micro_batch; /* -1: of the step as a whole */
	uint8_t lane;        /* mf_lane */
	bool backward;
} mf_bar;

/**
 * One sign for a bar. Among layers, the first letter of its label, small when backward; in a step, the micro-batch's last
 * digit for a forward, a letter for a backward, and the first letter of what belongs to the step as a whole.
 */
char mf_bar_mark(const mf_bar *b, bool of_layers);
/**
 * Columns [*first, *end) that a bar covers where `width` columns show [from_ms, to_ms]: at least one, so that none
 * disappears. False when it lies outside, or the span is empty.
 */
bool mf_bar_columns(const mf_bar *b, double from_ms, double to_ms, int width, int *first, int *end);

/** A step opened in time. Owns its bars. */
typedef struct mf_timeline {
	mf_simulated sum;
	/** A few MoE (in a dense model: dense) layers of one GPU in the steady state; with overlap, forward and backward of
	 * two micro-batches side by side. */
	mf_bar *layers;
	size_t n_layers;
	double layers_ms;
	/** The passes of micro-batches on every pipeline rank, then reduction, gather, copies and optimizer on the last to
	 * end. Long steps show their first micro-batches: the rest repeats. DualPipe has a window in the steady state. */
	mf_bar *step;
	size_t n_step;
	double shown_ms;   /* end of the last bar of `step` */
	uint32_t skipped;  /* micro-batches left out of `step` */
	double skipped_ms; /* their time, inside sum.step_ms */
} mf_timeline;
/** Slow path of mf_cost_simulate: the same numbers, and what they are made of. Serving plans are refused. */
mf_status mf_cost_timeline(mf_cost *c, const mf_plan *p, mf_timeline *out, mf_err *err);
void mf_timeline_dispose(mf_timeline *t);

#endif
