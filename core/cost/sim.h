/*
 * sim.h: a general list scheduler over tasks, streams and buffers. Durations are in any one unit. It knows nothing of
 * plans; the training timeline (timeline.h) is built on it.
 */
#ifndef MF_SIM_H
#define MF_SIM_H

#include "base.h"

#define MF_SIM_MAX_PREDECESSORS 4

/** One task: runs on one stream for `duration`, after its predecessors. start and end are filled by mf_sim_run. */
typedef struct mf_sim_task {
	const char *name; /* borrowed; for drawing */
	double duration;  /* alone; end - start is longer where another stream slows it */
	uint16_t stream;
	uint8_t n_after;
	uint32_t after[MF_SIM_MAX_PREDECESSORS]; /* indices of predecessors */
	double start, end;
} mf_sim_task;

/** A buffer lives from its producer's start or end to its consumer's end. */
typedef struct mf_sim_buffer {
	const char *name;
	uint32_t producer, consumer;
	bool from_end; /* allocated when the producer ends, else when it starts */
	double bytes;
	double allocated, released; /* filled by mf_sim_buffers */
} mf_sim_buffer;

#define MF_SIM_MAX_STREAMS 64

/** How streams behave. All zero: any ready task may go, and nobody slows anybody. */
typedef struct mf_sim_rules {
	uint64_t in_order; /* bits of streams that start their tasks in list order, as a CUDA stream does */
	/**
	 * slow[a * n_slow + b]: what a task of stream a takes longer, as a share of its duration, while stream b is busy;
	 * shares of several busy streams add up. n_slow 0: no contention; streams from n_slow on take no part in it.
	 */
	const double *slow;
	unsigned n_slow;
} mf_sim_rules;

/** Words of scratch memory that n tasks need. */
#define MF_SIM_SCRATCH(n) ((size_t)(n) * (4 + MF_SIM_MAX_PREDECESSORS))

/**
 * Schedules `n` tasks in place: a stream runs one task at a time, and of the tasks that could start on it first the one
 * lowest in the list goes. Predecessors may stand anywhere in the list; a cycle, an index out of range or a stream of
 * MF_SIM_MAX_STREAMS and above fails with MF_EBUG. `rules` may be NULL. `scratch` holds MF_SIM_SCRATCH(n) words. Returns
 * the latest end in *span.
 */
mf_status mf_sim_run(mf_sim_task *tasks, size_t n, const mf_sim_rules *rules, uint32_t *scratch, double *span);
/** Sum of durations: the schedule that places every task after the one before. */
double mf_sim_serial(const mf_sim_task *tasks, size_t n);
/** Time during which some task of stream set `a` and some task of stream set `b` (bits of stream numbers) both run. */
double mf_sim_concurrent(const mf_sim_task *tasks, size_t n, uint64_t a, uint64_t b);
/** Fills lifetimes and returns the highest sum of live bytes at any instant. */
double mf_sim_buffers(const mf_sim_task *tasks, mf_sim_buffer *buffers, size_t n_buffers);

#endif
