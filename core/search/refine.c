/*
 * refine.c: tiers 2 and 3. The ten best plans of the ranking, those that can be built where the search is constrained,
 * are simulated over the schedule grid, then given the kernels that an autotune report has for their experts. The
 * simulator never orders the list; a kernel changes a row's throughput where it wins after tax, by the evaluator that
 * ranks.
 */
#include "autotune.h"
#include "space_internal.h"
#include "timeline.h"

#include <math.h>
#include <string.h>

/* ---- tier 2 --------------------------------------------------------------------------------------------------------
 */

#define MAX_GRID 160
/* A schedule counts as better from here on; below it is rounding. */
#define BETTER (1 + 1e-6)

static void add(mf_plan *out, size_t cap, size_t *n, mf_plan p)
{
	for (size_t i = 0; i < *n && i < cap; i++)
		if (memcmp(&out[i], &p, sizeof(p)) == 0)
			return;
	if (*n < cap)
		out[*n] = p;
	++*n;
}

/* How communication is cut and placed, then how it is fed, for one schedule class under overlap. */
static void add_overlaps(mf_plan *out, size_t cap, size_t *n, mf_plan p)
{
	static const uint8_t chunks[] = {1, 2, 4};
	static const uint8_t places[] = {MF_PLACE_DEFAULT, MF_PLACE_COMM_FIRST, MF_PLACE_COMPUTE_FIRST};
	static const uint16_t sms[] = {8, 16, 32};

	p.overlap = true;
	for (size_t a = 0; a < MF_COUNT(chunks); a++)
		for (size_t b = 0; b < MF_COUNT(places); b++) {
			p.comm_chunks = chunks[a];
			p.placement = places[b];
			add(out, cap, n, p);
		}
	p.comm_chunks = 1;
	p.placement = MF_PLACE_DEFAULT;
	for (size_t a = 0; a < MF_COUNT(sms); a++) {
		p.sm_budget = sms[a];
		add(out, cap, n, p);
	}
}

static void add_class(mf_plan *out, size_t cap, size_t *n, mf_plan p, mf_schedule schedule, uint16_t vpp)
{
	p.schedule = (uint8_t)schedule;
	p.vpp = vpp;
	p.overlap = false;
	p.sm_budget = 0;
	p.comm_chunks = 1;
	p.placement = MF_PLACE_DEFAULT;
	add(out, cap, n, p);
	if (p.ep > 1)
		add_overlaps(out, cap, n, p);
}

size_t mf_schedule_grid(const mf_plan *p, const mf_inputs *in, mf_plan *out, size_t cap)
{
	const uint32_t layers = in->model->layers;
	/* A layout names the layers of every virtual stage: it holds for its own depth alone. */
	const bool fixed = p->stage_layout != 0;
	size_t n = 0;

	add(out, cap, &n, *p);
	if (p->phase != MF_TRAIN)
		return n;
	if (!fixed || p->vpp == 1) {
		add_class(out, cap, &n, *p, MF_1F1B, 1);
		add_class(out, cap, &n, *p, MF_DUALPIPE, 1);
	}
	for (uint16_t v = 2; v <= 8 && p->pp > 1 && (uint32_t)p->pp * v <= layers; v++)
		if (v == p->vpp || (!fixed && (v == 2 || layers % ((uint32_t)p->pp * v) == 0)))
			add_class(out, cap, &n, *p, MF_INTERLEAVED, v);
	return n;
}

/* With overlap the steady state decides between ways to cut, place and feed communication; only the best of a class is
 * simulated on the pipeline. */
static bool same_class(const mf_plan *a, const mf_plan *b)
{
	return a->schedule == b->schedule && a->vpp == b->vpp && a->overlap == b->overlap;
}

static bool refused(const mf_realizer *realizer, const mf_plan *p)
{
	mf_memory m;
	mf_verdict v;

	if (realizer->emitter) {
		mf_realize(realizer, p, &v);
		return v.rule != MF_RULE_NONE;
	}
	mf_cost_memory(realizer->cost, p, &m);
	return !m.fits;
}

static void refine_schedule(mf_search *s, const mf_refiner *r, mf_refined *f)
{
	const mf_realizer realizer = {r->emitter, r->cost, false};
	mf_row *row = &s->rows[f->row];
	mf_plan grid[MAX_GRID], best_of[MAX_GRID];
	size_t n = mf_schedule_grid(&row->plan, r->in, grid, MAX_GRID), n_classes = 0;
	double steady[MAX_GRID];
	mf_simulated sim;
	mf_time t;

	mf_cost_simulate(r->cost, &row->plan, &sim);
	f->best = row->plan;
	f->best_throughput = row->throughput;
	row->simulated = f->simulated = f->best_simulated = (float)sim.throughput;
	f->tried = 1;
	if (isnan(sim.throughput))
		return;
	row->tier = 2;
	n = n < MAX_GRID ? n : MAX_GRID;
	for (size_t i = 1; i < n; i++) {
		size_t c = 0;
		double ms;

		if (refused(&realizer, &grid[i])) {
			f->refused++;
			continue;
		}
		ms = mf_cost_steady_ms(r->cost, &grid[i]);
		while (c < n_classes && !same_class(&best_of[c], &grid[i]))
			c++;
		if (c == n_classes) {
			steady[n_classes] = ms;
			best_of[n_classes++] = grid[i];
		} else if (ms < steady[c]) {
			steady[c] = ms;
			best_of[c] = grid[i];
		}
	}
	for (size_t c = 0; c < n_classes; c++) {
		mf_cost_simulate(r->cost, &best_of[c], &sim);
		f->tried++;
		if (sim.throughput > f->best_simulated * BETTER) {
			f->best_simulated = (float)sim.throughput;
			f->best = best_of[c];
		}
	}
	if (memcmp(&f->best, &row->plan, sizeof(f->best)) != 0) {
		mf_cost_time(r->cost, &f->best, &t);
		f->best_throughput = (float)t.throughput;
	}
}

/* ---- tier 3 --------------------------------------------------------------------------------------------------------
 */

static double throughput(mf_cost *c, const mf_plan *p)
{
	mf_time t;

	mf_cost_time(c, p, &t);
	return t.throughput;
}

/* The kernel that gains most before tax, attached where it still wins after it. */
static void attach(mf_search *s, const mf_refiner *r, mf_refined *f)
{
	mf_row *row = &s->rows[f->row];
	const mf_autotune *report = r->opts->cost.autotune;
	const double before = throughput(r->untaxed, &row->plan);
	const double tax = r->consts->v[row->plan.phase == MF_TRAIN ? MF_C_TAX_TRAIN : MF_C_TAX_SERVE];
	mf_expert_layer layer;
	mf_plan with = row->plan;
	double best = 0;
	mf_time t;

	if (!report || !mf_cost_expert_layer(r->cost, &row->plan, &layer))
		return;
	for (size_t i = 0; (with.kernel = mf_autotune_kernel(report, &layer, i)) != 0; i++) {
		const double now = throughput(r->untaxed, &with);

		/* The same to the bit: no pass of this plan falls between the kernel's points. */
		if (now != before && (!f->kernel || now > best)) {
			f->kernel = with.kernel;
			best = now;
		}
	}
	if (!f->kernel)
		return;
	with.kernel = f->kernel;
	row->tier = 3;
	f->gain = (float)(best / before - 1);
	f->tax = r->opts->cost.tax && !isnan(tax) ? (float)tax : 0;
	f->margin_pp = (float)(100 * (best / before - 1 - (r->opts->cost.tax && !isnan(tax) ? tax : 0)));
	mf_cost_time(r->cost, &with, &t);
	f->attached = (float)t.throughput > row->throughput;
	if (!f->attached)
		return;
	row->throughput = (float)t.throughput;
	row->untaxed = (float)best;
	row->step_ms = (float)t.step_ms;
	row->ttft_ms = (float)t.ttft_ms;
	row->tpot_ms = (float)t.tpot_ms;
	row->hidden = (float)t.hidden_fraction;
	row->bubble = (float)t.bubble_fraction;
	if (!isnan(row->simulated)) {
		mf_simulated sim;

		mf_cost_simulate(r->cost, &with, &sim);
		row->simulated = (float)sim.throughput;
	}
}

/* ---- both ----------------------------------------------------------------------------------------------------------
 */

mf_status mf_refine(mf_search *s, const mf_refiner *r)
{
	const double start = mf_now_ms();
	const mf_simulation_counts before = mf_cost_simulation_counts(r->cost);
	bool moved = false;

	s->n_refined = 0;
	for (size_t i = 0; i < s->n_rows && s->n_refined < MF_REFINED_MAX; i++) {
		mf_refined *f = &s->refined[s->n_refined];

		if (s->rows[s->order[i]].rule != MF_RULE_NONE || isnan(s->rows[s->order[i]].throughput))
			continue;
		memset(f, 0, sizeof(*f));
		f->row = s->order[i];
		f->throughput = s->rows[f->row].throughput;
		f->gain = f->tax = f->margin_pp = NAN;
		refine_schedule(s, r, f);
		s->n_refined++;
	}
	const mf_simulation_counts after = mf_cost_simulation_counts(r->cost);
	const double simulated = mf_now_ms();
	s->counts.simulations = after.simulations - before.simulations;
	s->counts.tasks = after.tasks - before.tasks;
	s->timing.tier2_ms = simulated - start;
	if (r->opts->tiers < 3)
		return MF_OK;
	for (size_t i = 0; i < s->n_refined; i++) {
		attach(s, r, &s->refined[i]);
		moved |= s->refined[i].attached;
	}
	if (moved) {
		const mf_status st = mf_search_rank(s, MF_SORT_THROUGHPUT, true, r->opts->cost.tax, r->opts->threads);
		if (st < 0)
			return st;
	}
	s->timing.tier3_ms = mf_now_ms() - simulated;
	return MF_OK;
}

const mf_refined *mf_search_refined(const mf_search *s, uint32_t row)
{
	for (size_t i = 0; i < s->n_refined; i++)
		if (s->refined[i].row == row)
			return &s->refined[i];
	return NULL;
}
