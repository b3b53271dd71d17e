/*
 * sim.c: list scheduling. Every stream keeps the time at which it is free; in each round the task that can start
 * earliest is fixed, the lowest in the list among equals. A started task is never moved, so the result depends on the
 * list order alone.
 */
#include "sim.h"

#include <math.h>
#include <string.h>

#define DONE UINT32_MAX

/* Earliest start of a task whose predecessors are all placed; NaN while one is not. */
static double ready_at(const mf_sim_task *tasks, const mf_sim_task *t, const uint32_t *state)
{
	double at = 0;

	for (uint8_t i = 0; i < t->n_after; i++) {
		if (state[t->after[i]] != DONE)
			return NAN;
		at = fmax(at, tasks[t->after[i]].end);
	}
	return at;
}

static bool well_formed(const mf_sim_task *tasks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (tasks[i].stream >= MF_SIM_MAX_STREAMS || tasks[i].n_after > MF_SIM_MAX_PREDECESSORS ||
			!(tasks[i].duration >= 0))
			return false;
		for (uint8_t k = 0; k < tasks[i].n_after; k++)
			if (tasks[i].after[k] >= n)
				return false;
	}
	return true;
}

mf_status mf_sim_run(mf_sim_task *tasks, size_t n, uint32_t *scratch, double *span)
{
	double free_at[MF_SIM_MAX_STREAMS] = {0};
	uint32_t *state = scratch, *open = scratch + n;
	size_t n_open = n, i;

	*span = 0;
	if (!well_formed(tasks, n))
		return MF_EBUG;
	memset(state, 0, n * sizeof *state);
	for (i = 0; i < n; i++)
		open[i] = (uint32_t)i;
	while (n_open) {
		double best_start = INFINITY;
		size_t best = n_open;
		mf_sim_task *t;

		for (i = 0; i < n_open; i++) {
			double ready = ready_at(tasks, &tasks[open[i]], state), start;

			if (isnan(ready))
				continue;
			start = fmax(ready, free_at[tasks[open[i]].stream]);
			if (start < best_start) {
				best_start = start;
				best = i;
			}
		}
		if (best == n_open)
			return MF_EBUG;
		t = &tasks[open[best]];
		t->start = best_start;
		t->end = best_start + t->duration;
		free_at[t->stream] = t->end;
		*span = fmax(*span, t->end);
		state[open[best]] = DONE;
		memmove(open + best, open + best + 1, (n_open - best - 1) * sizeof *open);
		n_open--;
	}
	return MF_OK;
}

double mf_sim_serial(const mf_sim_task *tasks, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += tasks[i].duration;
	return sum;
}

/* Next instant after `t` at which a task of the streams starts or ends; whether one runs at t goes to *busy. */
static double next_edge(const mf_sim_task *tasks, size_t n, uint64_t streams, double t, bool *busy)
{
	double next = INFINITY;

	for (size_t i = 0; i < n; i++) {
		if (!(streams >> tasks[i].stream & 1))
			continue;
		if (tasks[i].start <= t && t < tasks[i].end)
			*busy = true;
		if (tasks[i].start > t)
			next = fmin(next, tasks[i].start);
		if (tasks[i].end > t)
			next = fmin(next, tasks[i].end);
	}
	return next;
}

double mf_sim_concurrent(const mf_sim_task *tasks, size_t n, uint64_t a, uint64_t b)
{
	double t = 0, sum = 0;

	for (;;) {
		bool busy_a = false, busy_b = false;
		double next = fmin(next_edge(tasks, n, a, t, &busy_a), next_edge(tasks, n, b, t, &busy_b));

		if (isinf(next))
			return sum;
		if (busy_a && busy_b)
			sum += next - t;
		t = next;
	}
}

double mf_sim_buffers(const mf_sim_task *tasks, mf_sim_buffer *buffers, size_t n_buffers)
{
	double peak = 0;

	for (size_t i = 0; i < n_buffers; i++) {
		const mf_sim_task *from = &tasks[buffers[i].producer];

		buffers[i].allocated = buffers[i].from_end ? from->end : from->start;
		buffers[i].released = tasks[buffers[i].consumer].end;
	}
	/* Live bytes rise only where a buffer is allocated, so those instants are enough. */
	for (size_t i = 0; i < n_buffers; i++) {
		double live = 0;

		for (size_t k = 0; k < n_buffers; k++)
			if (buffers[k].allocated <= buffers[i].allocated && buffers[i].allocated < buffers[k].released)
				live += buffers[k].bytes;
		peak = fmax(peak, live);
	}
	return peak;
}
