/*
 * sim_stage.c: passes of micro-batches on a pipeline, in the order in which every rank is told to run them: 1F1B, and
 * its interleaved form over virtual stages (Megatron, core/pipeline_parallel/schedules.py). A rank's order is fixed, so
 * no choice is left to a scheduler: each pass starts when its rank is free and its input has come.
 */
#include "sim_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MILLI 1e-3
/* Fills of the pipeline that are run through; the rest of the micro-batches repeats the steady state. */
#define FILLS 3

/* The k-th pass of a rank: micro-batches go in groups of pp, each group through all chunks. */
static void pass_of(const ss_pipeline *p, uint32_t k, bool backward, uint32_t *chunk, uint32_t *micro)
{
	const uint32_t full = p->pp * p->vpp, group = k / full, in = k - group * full;

	if (p->vpp == 1) {
		*chunk = 0;
		*micro = k;
		return;
	}
	*chunk = in / p->pp;
	*micro = group * p->pp + in % p->pp;
	if (backward)
		*chunk = p->vpp - 1 - *chunk;
}

static uint32_t warm_up(const ss_pipeline *p, uint32_t rank, uint32_t passes)
{
	const uint32_t ahead = p->pp - 1 - rank;
	const uint32_t n = (p->vpp == 1 ? ahead : 2 * ahead + (p->vpp - 1) * p->pp) + (p->paired ? 1 : 0);

	return n < passes ? n : passes;
}

typedef struct rank_state {
	uint32_t next, warm; /* passes done; forwards before the first backward */
	double free_at, worked;
} rank_state;

typedef struct stage_run {
	const ss_pipeline *p;
	uint32_t m;
	double *f, *b; /* end of a pass by virtual stage and micro-batch; NaN: not yet */
	sim_bars *to;
} stage_run;

static double *end_at(const stage_run *r, double *ends, uint32_t v, uint32_t micro)
{
	return &ends[(size_t)v * r->m + micro];
}

/* When the input of a pass is there; NaN while it is not. */
static double input_at(const stage_run *r, bool backward, uint32_t v, uint32_t micro)
{
	const uint32_t last = r->p->pp * r->p->vpp - 1;

	if (!backward)
		return v == 0 ? 0 : *end_at(r, r->f, v - 1, micro) + r->p->edge;
	return v == last ? *end_at(r, r->f, v, micro) : *end_at(r, r->b, v + 1, micro) + r->p->edge;
}

static void bar(stage_run *r, uint32_t v, uint32_t micro, bool backward, double start, double end)
{
	if (r->to)
		sim_bar(r->to, (mf_bar){backward ? "backward" : "forward", start / MILLI, end / MILLI,
				       (uint16_t)(v % r->p->pp), (uint16_t)(v / r->p->pp), (int32_t)micro,
				       MF_LANE_COMPUTE, backward});
}

/* Runs the passes of a rank as far as their inputs go. Returns how many. */
static uint32_t advance(stage_run *r, rank_state *s, uint32_t rank)
{
	const ss_pipeline *p = r->p;
	const uint32_t passes = r->m * p->vpp, steady = passes - s->warm;
	const uint32_t n = p->paired ? s->warm + passes : 2 * passes;
	uint32_t done = 0;

	for (; s->next < n; s->next++, done++) {
		uint32_t k = s->next, chunk, micro, vf = 0, vb = 0, mf = 0, mb = 0;
		bool fwd, back;
		double at = s->free_at, t;

		/* Which forward and which backward stand here. */
		if (k < s->warm) {
			fwd = true;
			back = false;
		} else if (p->paired) {
			fwd = k - s->warm < steady;
			back = true;
		} else {
			fwd = k - s->warm < 2 * steady && (k - s->warm) % 2 == 0;
			back = !fwd;
		}
		if (fwd) {
			pass_of(p, k < s->warm ? k : s->warm + (p->paired ? k - s->warm : (k - s->warm) / 2), false,
				&chunk, &micro);
			vf = chunk * p->pp + rank;
			mf = micro;
			t = input_at(r, false, vf, mf);
			if (isnan(t))
				break;
			at = fmax(at, t);
		}
		if (back) {
			const uint32_t j = k - s->warm;

			pass_of(p, p->paired ? j : j < 2 * steady ? j / 2 : j - steady, true, &chunk, &micro);
			vb = chunk * p->pp + rank;
			mb = micro;
			t = input_at(r, true, vb, mb);
			if (isnan(t))
				break;
			at = fmax(at, t);
		}
		if (fwd && back) {
			const double layers = (p->paired_layers[vf] + p->paired_layers[vb]) / 2;

			t = p->rest_f[vf] + p->rest_b[vb] + (layers > 0 ? p->lead + layers * p->period : 0) +
			    2 * p->busy;
		} else {
			t = (fwd ? p->f[vf] : p->b[vb]) + p->busy;
		}
		s->free_at = at + t;
		s->worked += t;
		if (fwd) {
			*end_at(r, r->f, vf, mf) = s->free_at;
			bar(r, vf, mf, false, at, s->free_at);
		}
		if (back) {
			*end_at(r, r->b, vb, mb) = s->free_at;
			bar(r, vb, mb, true, at, s->free_at);
		}
	}
	return done;
}

/*
 * What one more micro-batch costs: with chunks, all passes of the slowest rank; else as the second fill showed. A pair
 * waits for both its inputs, so with no more micro-batches in flight than 1F1B keeps, a plain pipeline of pairs runs at
 * half its rate (Megatron asks for chunks).
 */
static double slope(const stage_run *r)
{
	const ss_pipeline *p = r->p;
	double most = 0;

	if (p->vpp == 1 && r->m >= 2 * p->pp)
		return (r->b[2 * p->pp - 1] - r->b[p->pp - 1]) / p->pp;

	for (uint32_t rank = 0; rank < p->pp; rank++) {
		double t = 0;

		for (uint32_t v = rank; v < p->pp * p->vpp; v += p->pp) {
			const double n = p->paired_layers[v];

			t += p->paired ? p->rest_f[v] + p->rest_b[v] + (n > 0 ? p->lead + n * p->period : 0)
				       : p->f[v] + p->b[v];
			t += 2 * p->busy;
		}
		most = fmax(most, t);
	}
	return most;
}

/* Micro-batches that are run through: a few fills. Chunks run whole groups of pp, as Megatron asks; one that the batch
 * does not fill is priced as its share of a whole one. */
static uint32_t run_through(const ss_pipeline *p)
{
	const uint32_t least = FILLS * p->pp, m = p->m < least ? p->m : least;

	return p->vpp == 1 ? m : (m + p->pp - 1) / p->pp * p->pp;
}

ss_span ss_run(mf_train_sim *s, const ss_pipeline *p, sim_bars *to)
{
	const uint32_t m = run_through(p);
	const size_t n = 2 * (size_t)p->pp * p->vpp * m;
	rank_state ranks[MF_MAX_LAYERS];
	stage_run r = {p, m, NULL, NULL, to};
	ss_span out = {NAN, NAN, NAN, p->m > m ? p->m - m : 0};
	double end = 0, busiest = 0;
	uint32_t moved = 1, left;

	if (n > s->cap_ends) {
		double *grown = realloc(s->ends, n * sizeof(*grown));
		if (!grown)
			return out;
		s->ends = grown;
		s->cap_ends = n;
	}
	for (size_t i = 0; i < n; i++)
		s->ends[i] = NAN;
	r.f = s->ends;
	r.b = s->ends + n / 2;
	for (uint32_t i = 0; i < p->pp; i++)
		ranks[i] = (rank_state){0, warm_up(p, i, m * p->vpp), 0, 0};
	s->counts.simulations++;
	while (moved) {
		moved = 0;
		/* Forwards come down the ranks, backwards up. */
		for (uint32_t i = 0; i < p->pp; i++)
			moved += advance(&r, &ranks[i], i);
		for (uint32_t i = p->pp; i-- > 0;)
			moved += advance(&r, &ranks[i], i);
		s->counts.tasks += moved;
	}
	left = 0;
	for (uint32_t i = 0; i < p->pp; i++) {
		left += (p->paired ? ranks[i].warm + m * p->vpp : 2 * m * p->vpp) - ranks[i].next;
		end = fmax(end, ranks[i].free_at);
		busiest = fmax(busiest, ranks[i].worked);
	}
	if (left)
		return out; /* an order that waits for itself: no such schedule */
	out.skipped = ((double)p->m - m) * slope(&r);
	out.wait = end - busiest;
	out.total = end + out.skipped;
	return out;
}
