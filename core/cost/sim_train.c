/*
 * sim_train.c: one training step, simulated: passes on the pipeline, then what the ends of the step cannot hide:
 * gradients behind the last backward, parameters before the first forward, copies of an offloaded optimizer.
 */
#include "sim_train.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MILLI 1e-3
/* Buckets of gradients and parameters that the ends of a step are cut into. */
#define BUCKETS 8

void sim_bar(sim_bars *to, mf_bar bar)
{
	if (!to || to->failed)
		return;
	if (to->n == to->cap) {
		const size_t cap = to->cap ? 2 * to->cap : 256;
		mf_bar *grown = realloc(to->bars, cap * sizeof(*grown));

		to->failed = !grown;
		if (!grown)
			return;
		to->bars = grown;
		to->cap = cap;
	}
	to->bars[to->n++] = bar;
}

void mf_train_sim_free(struct mf_train_sim *s)
{
	if (!s)
		return;
	free(s->ends);
	free(s);
}

mf_simulation_counts mf_cost_simulation_counts(const mf_cost *c)
{
	return c->sim ? c->sim->counts : (mf_simulation_counts){0, 0};
}

/* ---- stages --------------------------------------------------------------------------------------------------------
 */

/* What a rank does for one micro-batch. */
typedef struct rank_work {
	double f, b, paired; /* alone; forward and backward side by side */
	double exchange_b, wgrad;
} rank_work;

static rank_work work_of(const tt_step *st, const sl_kind *kinds, const tt_rank *rank, bool paired)
{
	const double extra = rank->first * st->l->embedding + rank->last * (st->l->head + st->l->mtp);
	rank_work w = {extra / 3, extra * 2 / 3, extra, 0, 0};

	for (int k = 0; k < TT_KINDS; k++) {
		const double n = rank->layers[k];

		w.f += n * kinds[k].f;
		w.b += n * kinds[k].b;
		w.paired += paired && n > 0 ? kinds[k].lead + n * kinds[k].period : n * (kinds[k].f + kinds[k].b);
		w.exchange_b += n * kinds[k].exchange_b;
		w.wgrad += n * kinds[k].wgrad;
	}
	return w;
}

/* The mean MoE layer of the model: pairs are made of those. All 0 when there is none. */
static sl_kind mean_moe(const mf_cost *c, const sl_kind *kinds)
{
	const mf_train_time *t = c->train_time;
	sl_kind mean;
	double n = 0;

	memset(&mean, 0, sizeof(mean));
	for (uint32_t k = 0; k < t->n_kinds; k++) {
		const double of_kind = t->kind[k].ffn == TT_FFN_MOE ? tt_count(t, c->in.model, k) : 0;

		n += of_kind;
		mean.f += of_kind * kinds[k].f;
		mean.b += of_kind * kinds[k].b;
		mean.exchange_b += of_kind * kinds[k].exchange_b;
		mean.lead += of_kind * kinds[k].lead;
		mean.period += of_kind * kinds[k].period;
	}
	if (n > 0) {
		mean.f /= n;
		mean.b /= n;
		mean.exchange_b /= n;
		mean.lead /= n;
		mean.period /= n;
	}
	return mean;
}

/* Virtual stages of the plan into s->pipeline. */
static bool lay_out(mf_cost *c, const mf_plan *p, const tt_step *st, const sl_kind *kinds)
{
	const mf_train_time *t = c->train_time;
	ss_pipeline *o = &c->sim->pipeline;
	uint16_t counts[MF_MAX_LAYERS];
	const size_t n = mf_plan_stages(p, c->in.model, c->in.intern, counts, MF_COUNT(counts), NULL);
	const sl_kind moe = mean_moe(c, kinds);
	uint32_t layer = 0;

	if (n == 0 || n != (size_t)p->pp * p->vpp)
		return false;
	o->pp = p->pp;
	o->vpp = p->vpp;
	o->m = (uint32_t)st->m;
	o->paired = p->overlap && moe.exchange_b > 0;
	/* One stage a rank: both ends wait for a transfer. Chunks send behind compute; 30 % of it stays visible. */
	o->busy = p->pp == 1 ? 0 : p->vpp == 1 ? st->l->p2p : 0.15 * st->l->p2p;
	o->edge = p->pp == 1 || p->vpp == 1 ? 0 : 0.85 * st->l->p2p;
	o->lead = moe.lead;
	o->period = moe.period;
	for (size_t v = 0; v < n; v++) {
		const uint32_t end = layer + counts[v];
		tt_rank one = {{0}, v == 0, v == n - 1};
		double paired = 0;

		if (end > c->in.model->layers)
			return false;
		for (uint32_t k = 0; k < t->n_kinds; k++) {
			one.layers[k] = t->before[k][end] - t->before[k][layer];
			paired += o->paired && t->kind[k].ffn == TT_FFN_MOE ? one.layers[k] : 0;
		}
		layer = end;
		const rank_work w = work_of(st, kinds, &one, false);
		o->f[v] = w.f;
		o->b[v] = w.b;
		o->paired_layers[v] = paired;
		o->rest_f[v] = w.f - paired * moe.f;
		o->rest_b[v] = w.b - paired * moe.b;
	}
	return true;
}

/* ---- ends of the step ----------------------------------------------------------------------------------------------
 */

static uint32_t put(
	mf_train_sim *s, uint32_t *n, const char *name, mf_lane lane, double duration, uint32_t a, uint32_t b)
{
	mf_sim_task *t = &s->tasks[*n];

	assert(*n < SL_MAX_TASKS);
	*t = (mf_sim_task){.name = name, .duration = duration, .stream = (uint16_t)lane};
	if (a != UINT32_MAX)
		t->after[t->n_after++] = a;
	if (b != UINT32_MAX)
		t->after[t->n_after++] = b;
	return (*n)++;
}

static void draw_tasks(const mf_train_sim *s, uint32_t n, sim_bars *to, double at, uint16_t stage)
{
	for (uint32_t i = 0; i < n && to; i++) {
		const mf_sim_task *t = &s->tasks[i];

		if (t->stream != MF_LANE_COMPUTE && t->stream != MF_LANE_EXCHANGE && t->end > t->start)
			sim_bar(to, (mf_bar){t->name, (at + t->start) / MILLI, (at + t->end) / MILLI, stage, 0, -1,
					    (uint8_t)t->stream, false});
	}
}

/*
 * The last backward, its gradients reduced bucket by bucket behind it and, with an offloaded optimizer under overlap,
 * copied to the host as they come: then copies and exchange share the copy engine. Returns what is left after the
 * backward.
 */
static double last_backward(
	mf_cost *c, const mf_plan *p, const rank_work *w, double scatter, double copy, double at, sim_bars *to)
{
	const double back = w->b, exchange = w->exchange_b;
	const sl_contention contention = sl_contention_of(c, p);
	const mf_sim_rules rules = {UINT64_MAX, contention.slow, MF_LANE_COUNT};
	mf_train_sim *s = c->sim;
	uint32_t n = 0, from = UINT32_MAX;

	for (int i = 0; i < BUCKETS; i++) {
		uint32_t done;

		if (exchange > 0)
			from = put(s, &n, "exchange", MF_LANE_EXCHANGE, exchange / BUCKETS, from, UINT32_MAX);
		from = done = put(s, &n, "backward", MF_LANE_COMPUTE, (back - exchange) / BUCKETS, from, UINT32_MAX);
		if (scatter > 0)
			done = put(s, &n, "reduce gradients", MF_LANE_REDUCE, scatter / BUCKETS, done, UINT32_MAX);
		if (copy > 0)
			put(s, &n, "copy gradients", MF_LANE_COPY, copy / BUCKETS, done, UINT32_MAX);
	}
	const double span = sim_run(s, n, &rules);
	draw_tasks(s, n, to, at - back, (uint16_t)(p->pp - 1));
	return span - back;
}

/* The first forward behind its parameters, gathered bucket by bucket. Returns what it waits. */
static double first_forward(mf_cost *c, const mf_plan *p, double fwd, double gather)
{
	const sl_contention contention = sl_contention_of(c, p);
	const mf_sim_rules rules = {UINT64_MAX, contention.slow, MF_LANE_COUNT};
	mf_train_sim *s = c->sim;
	uint32_t n = 0;

	for (int i = 0; i < BUCKETS; i++) {
		const uint32_t got =
			put(s, &n, "gather parameters", MF_LANE_REDUCE, gather / BUCKETS, UINT32_MAX, UINT32_MAX);

		put(s, &n, "forward", MF_LANE_COMPUTE, fwd / BUCKETS, got, UINT32_MAX);
	}
	return sim_run(s, n, &rules) - fwd;
}

/* FSDP: two micro-batches whose layers gather before and scatter after themselves; the second one's cost over its
 * compute. */
static double fsdp_wait(mf_cost *c, const mf_plan *p, double fwd, double back, double scatter, double gather)
{
	const sl_contention contention = sl_contention_of(c, p);
	/* Scatters and gathers share a stream; a gather whose turn has come may pass a scatter that waits. */
	const mf_sim_rules rules = {~(UINT64_C(1) << MF_LANE_REDUCE), contention.slow, MF_LANE_COUNT};
	mf_train_sim *s = c->sim;
	double span[2];

	for (int batches = 1; batches <= 2; batches++) {
		/* Prefetch runs two buckets ahead: a gather waits for the compute before the last. */
		uint32_t n = 0, before[2] = {UINT32_MAX, UINT32_MAX};

		for (int i = 0; i < batches * 2 * BUCKETS; i++) {
			const bool backward = i / BUCKETS % 2;
			uint32_t got = UINT32_MAX, done;

			if (p->zero_stage >= 3)
				got = put(s, &n, "gather parameters", MF_LANE_REDUCE, gather / BUCKETS, before[0],
					UINT32_MAX);
			done = put(
				s, &n, "compute", MF_LANE_COMPUTE, (backward ? back : fwd) / BUCKETS, got, UINT32_MAX);
			if (backward)
				put(s, &n, "scatter gradients", MF_LANE_REDUCE, scatter / BUCKETS, done, UINT32_MAX);
			before[0] = before[1];
			before[1] = done;
		}
		span[batches - 1] = sim_run(s, n, &rules);
	}
	return fmax(0, span[1] - span[0] - fwd - back);
}

/* ---- the step ------------------------------------------------------------------------------------------------------
 */

/* Windows of DualPipe's steady state that are drawn. */
#define SHOWN_WINDOWS 4

static bool is_paired(const mf_cost *c, const mf_plan *p, const sl_kind *kinds)
{
	return p->overlap && mean_moe(c, kinds).exchange_b > 0;
}

/* DualPipe: m windows in the steady state, its bubble and its transfers. */
static ss_span dualpipe(mf_cost *c, const mf_plan *p, const tt_step *st, const sl_kind *kinds, sim_bars *to)
{
	const bool paired = is_paired(c, p, kinds);
	const double pp = p->pp;
	tt_rank mean = {{0}, 0, 0};

	for (uint32_t k = 0; k < c->train_time->n_kinds; k++)
		mean.layers[k] = tt_count(c->train_time, c->in.model, k) / pp;
	const rank_work slowest = work_of(st, kinds, &st->rank, paired), each = work_of(st, kinds, &mean, paired);
	const uint32_t shown = st->m < SHOWN_WINDOWS ? (uint32_t)st->m : SHOWN_WINDOWS;
	ss_span o;

	const double ends = (st->l->embedding + st->l->head + st->l->mtp) / pp;

	/* (pp/2 - 1)(F&B + B - 3W) of a mean stage: DeepSeek-V3 report, table 2. */
	o.wait = p->pp == 1 ? 0 : fmax(0, pp / 2 - 1) * fmax(0, each.paired + each.b - 3 * each.wgrad + ends);
	o.n_skipped = (uint32_t)st->m - shown;
	o.skipped = o.n_skipped * slowest.paired;
	o.total = st->m * slowest.paired + (slowest.f + slowest.b - slowest.paired) + o.wait + st->p2p;
	for (uint32_t i = 0; i < shown; i++) {
		const double from = i * slowest.paired / MILLI, end = (i + 1) * slowest.paired / MILLI;

		sim_bar(to, (mf_bar){"forward", from, end, 0, 0, (int32_t)i + 1, MF_LANE_COMPUTE, false});
		sim_bar(to, (mf_bar){"backward", from, end, 0, 1, (int32_t)i, MF_LANE_COMPUTE, true});
	}
	return o;
}

static void draw_end(sim_bars *to, const char *label, mf_lane lane, double seconds, double *at, uint16_t stage)
{
	if (seconds > 0)
		sim_bar(to, (mf_bar){label, *at / MILLI, (*at + seconds) / MILLI, stage, 0, -1, (uint8_t)lane, false});
	*at += seconds;
}

/* Gradients, parameters, optimizer and offload: what the step has after its passes. *hidden gets what of it runs beside
 * them. */
static double ends_of_step(
	mf_cost *c, const mf_plan *p, const tt_step *st, const rank_work *w, double *hidden, double at, sim_bars *to)
{
	const mf_stack *stack = c->in.stack;
	const uint16_t last = (uint16_t)(p->pp - 1);
	double scatter = st->scatter, gather = st->gather, copy = 0, fsdp = 0;

	if (p->sharding == MF_FSDP && p->zero_stage >= 2) {
		fsdp = st->m * fsdp_wait(c, p, w->f, w->b, scatter, gather);
		scatter = 0;
		gather = p->zero_stage == 2 ? gather : 0;
	} else {
		/* With overlap there are streams for the copies of gradients, half of what an offload copies. */
		copy = p->overlap ? st->offload_copy / 2 : 0;
		if (copy > 0 || (stack->overlap_grad_reduce && scatter > 0)) {
			const double left =
				last_backward(c, p, w, stack->overlap_grad_reduce ? scatter : 0, copy, at, to);
			scatter = left + (stack->overlap_grad_reduce ? 0 : scatter);
		}
		if (stack->overlap_param_gather && gather > 0)
			gather = first_forward(c, p, w->f, gather);
	}
	*hidden = st->dp_comm + copy - fsdp - scatter - gather;
	draw_end(to, "gradients and copies", MF_LANE_REDUCE, scatter + fsdp, &at, last);
	draw_end(to, "copies", MF_LANE_COPY, st->offload_copy - copy, &at, last);
	draw_end(to, "optimizer on the host", MF_LANE_HOST, st->offload - st->offload_copy, &at, last);
	draw_end(to, "optimizer", MF_LANE_COMPUTE, st->optimizer, &at, last);
	draw_end(to, "parameters", MF_LANE_REDUCE, gather, &at, last);
	draw_end(to, "fixed", MF_LANE_HOST, st->fixed, &at, last);
	return scatter + gather + fsdp + st->optimizer + st->offload - copy + st->fixed;
}

static bool simulate(mf_cost *c, const mf_plan *p, mf_simulated *out, mf_timeline *full)
{
	const mf_workload *w = c->in.workload;
	sim_bars layers = {0}, step = {0}, *to = full ? &step : NULL;
	const sl_kind *kinds;
	rank_work work;
	double comm, hidden, end;
	ss_span pipe;
	tt_step st;

	*out = (mf_simulated){NAN, NAN, NAN, NAN};
	if (w->phase != MF_TRAIN || !tt_step_of(c, p, &st))
		return true;
	if (!c->sim && !(c->sim = calloc(1, sizeof(*c->sim))))
		return false;
	kinds = sl_layers(c, p);
	if (p->schedule == MF_DUALPIPE)
		pipe = dualpipe(c, p, &st, kinds, to);
	else if (lay_out(c, p, &st, kinds))
		pipe = ss_run(c->sim, &c->sim->pipeline, to);
	else
		return true;
	work = work_of(&st, kinds, &st.rank, is_paired(c, p, kinds));
	end = pipe.total + ends_of_step(c, p, &st, &work, &hidden, pipe.total - pipe.skipped, to);
	out->bubble_fraction = pipe.wait / end;
	/* What a whole stack was measured to lose, as the analytic model applies it. */
	end *= st.tax;
	out->step_ms = end / MILLI;
	out->throughput = (double)w->global_batch * w->seq / (end * c->world);
	comm = st.dp_comm + st.p2p + (p->overlap ? st.offload_copy / 2 : 0);
	hidden += (st.m - 1) * (work.f + work.b - work.paired);
	for (int k = 0; k < TT_KINDS; k++) {
		comm += st.m * st.rank.layers[k] * kinds[k].comm;
		hidden += st.m * st.rank.layers[k] * kinds[k].comm_hidden;
	}
	out->hidden_fraction = comm > 0 ? hidden / comm : NAN;
	if (!full)
		return true;
	full->sum = *out;
	full->layers_ms = sl_window(c, p, &layers) / MILLI;
	full->layers = layers.bars;
	full->n_layers = layers.n;
	full->step = step.bars;
	full->n_step = step.n;
	full->skipped = pipe.n_skipped;
	full->skipped_ms = pipe.skipped / MILLI;
	for (size_t i = 0; i < step.n; i++)
		full->shown_ms = fmax(full->shown_ms, step.bars[i].end_ms);
	return !layers.failed && !step.failed;
}

double mf_cost_steady_ms(mf_cost *c, const mf_plan *p)
{
	const sl_kind *kinds;
	tt_step st;

	if (c->in.workload->phase != MF_TRAIN || !tt_step_of(c, p, &st) ||
		(!c->sim && !(c->sim = calloc(1, sizeof(*c->sim)))))
		return NAN;
	kinds = sl_layers(c, p);
	return work_of(&st, kinds, &st.rank, is_paired(c, p, kinds)).paired / MILLI;
}

void mf_cost_simulate(mf_cost *c, const mf_plan *p, mf_simulated *out)
{
	(void)simulate(c, p, out, NULL);
}

mf_status mf_cost_timeline(mf_cost *c, const mf_plan *p, mf_timeline *out, mf_err *err)
{
	memset(out, 0, sizeof(*out));
	if (c->in.workload->phase != MF_TRAIN || p->phase != MF_TRAIN)
		return mf_fail(err, MF_EINPUT, "the simulator knows training plans alone: serving has no timeline");
	if (!simulate(c, p, &out->sum, out)) {
		mf_timeline_dispose(out);
		return mf_fail(err, MF_ENOMEM, "out of memory for a timeline");
	}
	if (isnan(out->sum.step_ms)) {
		mf_timeline_dispose(out);
		return mf_fail(err, MF_EINPUT,
			"the plan's sizes do not divide the %u GPUs or its layers: it has no timeline", c->world);
	}
	return MF_OK;
}

void mf_timeline_dispose(mf_timeline *t)
{
	free(t->layers);
	free(t->step);
	memset(t, 0, sizeof(*t));
}

char mf_bar_mark(const mf_bar *b, bool of_layers)
{
	/* Labels are ASCII words in small letters. */
	char first = b->label[0], upper = first >= 'a' && first <= 'z' ? (char)(first - 'a' + 'A') : first;

	if (of_layers)
		return b->backward ? first : upper;
	if (b->micro_batch < 0)
		return upper;
	return b->backward ? (char)('a' + b->micro_batch % 26) : (char)('0' + b->micro_batch % 10);
}

bool mf_bar_columns(const mf_bar *b, double from_ms, double to_ms, int width, int *first, int *end)
{
	double scale = width / (to_ms - from_ms);

	if (!(to_ms > from_ms) || (b->start_ms < from_ms && b->end_ms <= from_ms) ||
		(b->start_ms >= to_ms && b->end_ms > to_ms))
		return false;
	*first = (int)floor((b->start_ms - from_ms) * scale);
	*first = *first < 0 ? 0 : *first >= width ? width - 1 : *first;
	*end = (int)ceil((b->end_ms - from_ms) * scale);
	*end = *end > width ? width : *end <= *first ? *first + 1 : *end;
	return true;
}
