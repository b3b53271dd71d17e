/*
 * sim.c: list scheduling, event by event. At every instant each free stream starts the ready task that stands lowest in
 * its list; a started task is never moved, so the result depends on the list order alone. Where streams contend, a
 * running task's end is set anew whenever a neighbour starts or stops.
 */
#include "sim.h"

#include <math.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct lane {
	uint32_t ready; /* first ready task, in list order; NONE */
	uint32_t task;  /* running; NONE */
	double end, since, left, factor;
} lane;

typedef struct run {
	mf_sim_task *tasks;
	const mf_sim_rules *rules;
	/* per task: predecessors not yet done, next ready task of its stream, first of its edges; per edge: the next */
	uint32_t *waiting, *next_ready, *first_edge, *next_edge;
	lane lanes[MF_SIM_MAX_STREAMS];
	uint64_t used, busy; /* bits of streams */
	double now;
} run;

/* Edge e of a task leads to it from its predecessor; edges are numbered task * EDGES + place. */
#define EDGES (MF_SIM_MAX_PREDECESSORS + 1)

static unsigned lowest(uint64_t bits)
{
	return (unsigned)__builtin_ctzll(bits);
}

static void make_ready(run *r, uint32_t i)
{
	uint32_t *at = &r->lanes[r->tasks[i].stream].ready;

	while (*at != NONE && *at < i)
		at = &r->next_ready[*at];
	r->next_ready[i] = *at;
	*at = i;
}

static void start_ready(run *r)
{
	for (uint64_t bits = r->used & ~r->busy; bits; bits &= bits - 1) {
		const unsigned s = lowest(bits);
		lane *l = &r->lanes[s];

		if (l->ready == NONE)
			continue;
		l->task = l->ready;
		l->ready = r->next_ready[l->task];
		l->since = r->now;
		l->left = r->tasks[l->task].duration;
		l->factor = 1;
		l->end = r->now + l->left;
		r->tasks[l->task].start = r->now;
		r->busy |= UINT64_C(1) << s;
	}
}

/* Ends of running tasks under the neighbours they have now. */
static void contend(run *r)
{
	const unsigned n = r->rules->n_slow;

	for (uint64_t bits = r->busy; bits; bits &= bits - 1) {
		const unsigned s = lowest(bits);
		lane *l = &r->lanes[s];
		double factor = 1;

		if (s >= n)
			continue;
		for (uint64_t others = r->busy & ~(UINT64_C(1) << s); others; others &= others - 1)
			if (lowest(others) < n)
				factor += r->rules->slow[s * n + lowest(others)];
		if (factor == l->factor)
			continue;
		l->left -= (r->now - l->since) / l->factor;
		l->left = l->left > 0 ? l->left : 0;
		l->since = r->now;
		l->factor = factor;
		l->end = r->now + l->left * factor;
	}
}

static mf_status link_up(run *r, size_t n)
{
	uint32_t last[MF_SIM_MAX_STREAMS];

	memset(last, 0xff, sizeof(last));
	memset(r->waiting, 0, n * sizeof(*r->waiting));
	memset(r->first_edge, 0xff, n * sizeof(*r->first_edge));
	for (size_t s = 0; s < MF_SIM_MAX_STREAMS; s++)
		r->lanes[s].ready = NONE;
	for (size_t i = 0; i < n; i++) {
		const mf_sim_task *t = &r->tasks[i];
		uint32_t from[EDGES];
		unsigned k = 0;

		if (t->stream >= MF_SIM_MAX_STREAMS || t->n_after > MF_SIM_MAX_PREDECESSORS || !(t->duration >= 0))
			return MF_EBUG;
		for (; k < t->n_after; k++)
			from[k] = t->after[k];
		if (r->rules->in_order >> t->stream & 1 && last[t->stream] != NONE)
			from[k++] = last[t->stream];
		last[t->stream] = (uint32_t)i;
		r->used |= UINT64_C(1) << t->stream;
		r->waiting[i] = k;
		while (k--) {
			const uint32_t edge = (uint32_t)i * EDGES + k;

			if (from[k] >= n)
				return MF_EBUG;
			r->next_edge[edge] = r->first_edge[from[k]];
			r->first_edge[from[k]] = edge;
		}
	}
	for (size_t i = n; i-- > 0;)
		if (r->waiting[i] == 0)
			make_ready(r, (uint32_t)i);
	return MF_OK;
}

mf_status mf_sim_run(mf_sim_task *tasks, size_t n, const mf_sim_rules *rules, uint32_t *scratch, double *span)
{
	static const mf_sim_rules free_rules;
	run r;
	size_t done = 0;

	*span = 0;
	r.tasks = tasks;
	r.rules = rules ? rules : &free_rules;
	r.waiting = scratch;
	r.next_ready = scratch + n;
	r.first_edge = scratch + 2 * n;
	r.next_edge = scratch + 3 * n;
	r.used = r.busy = 0;
	r.now = 0;
	if (link_up(&r, n) < 0)
		return MF_EBUG;
	for (;;) {
		double next = INFINITY;

		start_ready(&r);
		if (!r.busy)
			break;
		if (r.rules->n_slow)
			contend(&r);
		for (uint64_t bits = r.busy; bits; bits &= bits - 1)
			next = fmin(next, r.lanes[lowest(bits)].end);
		r.now = next;
		for (uint64_t bits = r.busy; bits; bits &= bits - 1) {
			const unsigned s = lowest(bits);
			const uint32_t i = r.lanes[s].task;

			if (r.lanes[s].end > next)
				continue;
			tasks[i].end = next;
			r.busy &= ~(UINT64_C(1) << s);
			done++;
			for (uint32_t e = r.first_edge[i]; e != NONE; e = r.next_edge[e])
				if (--r.waiting[e / EDGES] == 0)
					make_ready(&r, e / EDGES);
		}
	}
	*span = r.now;
	return done == n ? MF_OK : MF_EBUG;
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
