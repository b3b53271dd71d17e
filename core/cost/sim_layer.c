/*
 * sim_layer.c: the parts of a layer on the streams of one GPU.
 *
 * Alone, a layer is a chain; its shared experts may run beside the exchange where the stack says so. Under overlap the
 * forward of one micro-batch goes beside the backward of another, in the order in which Megatron's combined schedule
 * issues them (core/models/common/model_chunk_schedule_plan.py, TransformerLayerSchedulePlan.run):
 *
 *   exchange: combine backward | dispatch forward, dispatch backward             | combine forward
 *   compute:  attention forward | experts backward, their weights, experts forward | attention backward, its weights
 *
 * Layers repeat, so four pairs are scheduled and the difference of the last two ends is the period.
 */
#include "sim_train.h"

#include <math.h>
#include <string.h>

#define MICRO 1e-6
#define MILLI 1e-3
/* Schedule nodes of a pair of layers: attention, dispatch, experts, combine, forward and backward each. */
#define NODES 8

const mf_choice mf_lane_choices[] = {
	{MF_LANE_COMPUTE, "compute", "GEMMs, attention, permutes"},
	{MF_LANE_SIDE, "side", "shared experts on a stream of their own"},
	{MF_LANE_EXCHANGE, "exchange", "dispatch and combine"},
	{MF_LANE_REDUCE, "reduce", "gradient reduction and parameter gather"},
	{MF_LANE_COPY, "copy", "copies to and from the host"},
	{MF_LANE_HOST, "host", "the host: launches, offloaded optimizer"},
	{0, NULL, NULL},
};

/* Durations of the parts of a layer. */
typedef struct parts {
	double attn_f, shared_f, experts_f, dispatch_f; /* combine lasts as long as dispatch */
	double attn_b, attn_w, shared_b, experts_b, experts_w, dispatch_b;
	double pieces;
	bool split; /* weight gradients are tasks of their own */
} parts;

static double sum_f(const tt_layer *l)
{
	double t = 0;

	for (int i = 0; i < TT_COUNT; i++)
		t += l->term[i].f;
	return t;
}

static double sum_b(const tt_layer *l)
{
	double t = 0;

	for (int i = 0; i < TT_COUNT; i++)
		t += l->term[i].b;
	return t;
}

/* Casts are shared out between attention and experts as their GEMMs are. */
static parts parts_of(const mf_cost *c, const mf_plan *p, const tt_layer *l)
{
	const tt_pass *t = l->term;
	const double gemm_f = t[TT_DENSE].f + t[TT_EXPERTS].f, gemm_b = t[TT_DENSE].b + t[TT_EXPERTS].b;
	const double cast_f = gemm_f > 0 ? t[TT_QUANTIZE].f * t[TT_EXPERTS].f / gemm_f : 0;
	const double cast_b = gemm_b > 0 ? t[TT_QUANTIZE].b * t[TT_EXPERTS].b / gemm_b : 0;
	parts r = {.pieces = fmin(fmax(1, p->comm_chunks), SL_MAX_PIECES), .split = c->in.stack->delay_wgrad};

	r.dispatch_f = t[TT_EXCHANGE].f / 2;
	r.dispatch_b = t[TT_EXCHANGE].b / 2;
	r.shared_f = t[TT_SHARED].f;
	r.shared_b = t[TT_SHARED].b;
	r.experts_f = t[TT_EXPERTS].f + t[TT_PERMUTE].f + cast_f;
	r.experts_w = l->wgrad_of[TT_EXPERTS];
	r.experts_b = t[TT_EXPERTS].b + t[TT_PERMUTE].b + cast_b - r.experts_w;
	r.attn_f = sum_f(l) - t[TT_EXCHANGE].f - r.shared_f - r.experts_f;
	r.attn_w = l->wgrad - r.experts_w - l->wgrad_of[TT_SHARED];
	r.attn_b = sum_b(l) - t[TT_EXCHANGE].b - r.shared_b - r.experts_b - r.experts_w - r.attn_w;
	return r;
}

sl_contention sl_contention_of(const mf_cost *c, const mf_plan *p)
{
	const double sms = p->sm_budget ? p->sm_budget : mf_k(c, MF_C_EXCHANGE_SMS);
	const double all = c->in.cluster->sm_count, taken = sms < all ? sms / (all - sms) : 1;
	const bool fsdp = p->sharding == MF_FSDP && p->zero_stage >= 2;
	const double reach = mf_k(c, fsdp ? MF_C_HIDE_FSDP : MF_C_HIDE_DP);
	sl_contention r = {{0}};

#define SLOW(a, b) r.slow[MF_LANE_##a * MF_LANE_COUNT + MF_LANE_##b]
	/* The exchange runs on SMs: compute has the others. */
	SLOW(COMPUTE, EXCHANGE) = SLOW(SIDE, EXCHANGE) = taken;
	/* Two compute streams share the SMs: together they are as fast as one after the other. */
	SLOW(COMPUTE, SIDE) = SLOW(SIDE, COMPUTE) = 1;
	/* The measured reach and rest of data-parallel exchange, as rates. */
	SLOW(REDUCE, COMPUTE) = 1 / reach - 1;
	SLOW(COMPUTE, REDUCE) = mf_k(c, fsdp ? MF_C_FSDP_REST : MF_C_DP_REST);
	/* Offloaded optimizers copy through the engine that the exchange's own copies use: each gets half (B8). */
	SLOW(EXCHANGE, COPY) = SLOW(COPY, EXCHANGE) = 1;
#undef SLOW
	return r;
}

double sim_run(mf_train_sim *s, size_t n, const mf_sim_rules *rules)
{
	double span;

	if (mf_sim_run(s->tasks, n, rules, s->scratch, &span) < 0)
		return NAN;
	s->counts.simulations++;
	s->counts.tasks += n;
	return span;
}

/* ---- lists of tasks ------------------------------------------------------------------------------------------------
 */

#define NONE UINT32_MAX

/* Tasks being written. Streams take them in list order, or the first ready one; `late` ones then stand behind all. */
typedef struct list {
	mf_train_sim *s;
	uint32_t n, late;
	bool put_off;
} list;

static uint32_t put_at(list *l, uint32_t i, const char *name, mf_lane lane, double duration, uint32_t a, uint32_t b)
{
	mf_sim_task *t = &l->s->tasks[i];

	t->name = name;
	t->duration = fmax(0, duration);
	t->stream = (uint16_t)lane;
	t->n_after = 0;
	if (a != NONE)
		t->after[t->n_after++] = a;
	if (b != NONE)
		t->after[t->n_after++] = b;
	return i;
}

static uint32_t put(list *l, const char *name, mf_lane lane, double duration, uint32_t a, uint32_t b)
{
	return put_at(l, l->n++, name, lane, duration, a, b);
}

/* A task that no exchange waits for. */
static uint32_t put_late(list *l, const char *name, double duration, uint32_t after)
{
	return put_at(l, l->put_off ? l->late++ : l->n++, name, MF_LANE_COMPUTE, duration, after, NONE);
}

/* The last tasks of a pair's forward and backward. */
typedef struct tail {
	uint32_t f, b;
} tail;

/* Tasks of a pair that are not late. */
static uint32_t punctual(const parts *d)
{
	return 2 + 6 * (uint32_t)d->pieces;
}

static tail put_pair(list *l, const parts *d, double sync, mf_placement placement, tail before)
{
	const int k = (int)d->pieces;
	uint32_t from[SL_MAX_PIECES], to[SL_MAX_PIECES], attn, shared = NONE;
	tail now = {NONE, NONE};

	for (int i = 0; i < k; i++)
		from[i] = put(l, "combine'", MF_LANE_EXCHANGE, d->dispatch_b / k + sync, before.b, NONE);
	attn = put(l, "attention", MF_LANE_COMPUTE, d->attn_f, before.f, NONE);
	if (d->shared_f > 0)
		shared = put_late(l, "shared experts", d->shared_f, attn);
	/* In Megatron the shared experts belong to the attention node, so dispatch waits for them. */
	if (placement == MF_PLACE_DEFAULT && shared != NONE)
		attn = shared;
	for (int i = 0; i < k; i++)
		from[i] = put(l, "experts'", MF_LANE_COMPUTE, (d->experts_b + (d->split ? 0 : d->experts_w)) / k,
			from[i], NONE);
	for (int i = 0; i < k; i++)
		to[i] = put(l, "dispatch", MF_LANE_EXCHANGE, d->dispatch_f / k + sync, attn, NONE);
	if (d->split)
		put_late(l, "expert weights", d->experts_w, from[k - 1]);
	for (int i = 0; i < k; i++)
		from[i] = put(l, "dispatch'", MF_LANE_EXCHANGE, d->dispatch_b / k + sync, from[i], NONE);
	for (int i = 0; i < k; i++)
		to[i] = put(l, "experts", MF_LANE_COMPUTE, d->experts_f / k, to[i], NONE);
	for (int i = 0; i < k; i++)
		now.f = put(l, "combine", MF_LANE_EXCHANGE, d->dispatch_f / k + sync, to[i], shared);
	shared = d->shared_b > 0 ? put_late(l, "shared experts'", d->shared_b, before.b) : NONE;
	now.b = put(l, "attention'", MF_LANE_COMPUTE, d->attn_b + (d->split ? 0 : d->attn_w), from[k - 1], shared);
	if (d->split)
		put_late(l, "attention weights", d->attn_w, now.b);
	return now;
}

/* n forwards beside n backwards. comm_first puts off what no exchange waits for, compute_first takes the order of issue
 * but any ready task, the default is the order of issue alone. Returns the span. */
static double run_pairs(mf_train_sim *s, const mf_cost *c, const mf_plan *p, const parts *d, uint32_t n)
{
	const sl_contention contention = sl_contention_of(c, p);
	const mf_sim_rules rules = {p->placement == MF_PLACE_DEFAULT ? UINT64_MAX : 0, contention.slow, MF_LANE_COUNT};
	const double sync = d->dispatch_f > 0 ? 2 * mf_k(c, MF_C_STREAM_SYNC) * MICRO : 0;
	list l = {s, 0, n * punctual(d), p->placement == MF_PLACE_COMM_FIRST};
	tail t = {NONE, NONE};

	for (uint32_t i = 0; i < n; i++)
		t = put_pair(&l, d, sync, (mf_placement)p->placement, t);
	return sim_run(s, l.put_off ? l.late : l.n, &rules);
}

/* One pass of one layer alone. The exchange waits for all before it and all after it wait for the exchange; where the
 * stack runs shared experts on a stream of their own they go beside it. */
static uint32_t put_alone(list *l, const mf_cost *c, const parts *d, bool forward, uint32_t after)
{
	const bool side = c->in.stack->shared_expert_overlap && d->shared_f > 0 && d->dispatch_f > 0;
	const double shared = forward ? d->shared_f : d->shared_b, exchange = forward ? d->dispatch_f : d->dispatch_b;
	const mf_lane lane = side ? MF_LANE_SIDE : MF_LANE_COMPUTE;
	uint32_t apart = NONE, at = after;

	if (forward)
		at = put(l, "attention", MF_LANE_COMPUTE, d->attn_f, at, NONE);
	if (shared > 0)
		apart = put(l, forward ? "shared experts" : "shared experts'", lane, shared, at, NONE);
	if (exchange > 0)
		at = put(l, forward ? "dispatch" : "combine'", MF_LANE_EXCHANGE, exchange, at, side ? NONE : apart);
	at = put(l, forward ? "experts" : "experts'", MF_LANE_COMPUTE,
		forward ? d->experts_f : d->experts_b + d->experts_w, at, NONE);
	if (exchange > 0)
		at = put(l, forward ? "combine" : "dispatch'", MF_LANE_EXCHANGE, exchange, at, NONE);
	/* Ends of both streams meet in the next task. */
	return forward ? put(l, "join", MF_LANE_COMPUTE, 0, at, apart)
		       : put(l, "attention'", MF_LANE_COMPUTE, d->attn_b + d->attn_w, at, apart);
}

static double run_alone(mf_train_sim *s, const mf_cost *c, const mf_plan *p, const parts *d, bool forward)
{
	const sl_contention contention = sl_contention_of(c, p);
	const mf_sim_rules rules = {0, contention.slow, MF_LANE_COUNT};
	list l = {s, 0, 0, false};

	put_alone(&l, c, d, forward, NONE);
	return sim_run(s, l.n, &rules);
}

/* ---- kinds of layers -----------------------------------------------------------------------------------------------
 */

/* Prices of the plan's layers with nothing hidden: hiding is what is simulated. */
static void price(const mf_cost *c, const mf_plan *p, tt_layer kinds[TT_KINDS])
{
	mf_plan plain = *p;
	tt_layers l;

	plain.overlap = 0;
	plain.schedule = MF_1F1B;
	memset(&l, 0, sizeof(l));
	tt_price_layers(c, &plain, &l, kinds);
}

static void schedule_kind(mf_train_sim *s, const mf_cost *c, const mf_plan *p, const tt_layer *l, sl_kind *out)
{
	const parts d = parts_of(c, p, l);
	const double leak = mf_k(c, MF_C_HOST_TIE);
	double host = 0, span, half;

	memset(out, 0, sizeof(*out));
	out->serial = sum_f(l) + sum_b(l);
	if (!(out->serial > 0))
		return;
	out->f = tt_lifted(run_alone(s, c, p, &d, true), l->host.f, leak);
	out->b = tt_lifted(run_alone(s, c, p, &d, false), l->host.b, leak);
	out->exchange_b = 2 * d.dispatch_b;
	out->wgrad = l->wgrad;
	out->comm = l->comm;
	out->comm_hidden = l->comm_hidden - l->shared_hidden;
	out->period = out->f + out->b;
	if (!p->overlap || d.dispatch_f <= 0)
		return;
	span = run_pairs(s, c, p, &d, SL_WINDOW);
	half = run_pairs(s, c, p, &d, SL_WINDOW / 2);
	out->period = (span - half) / (SL_WINDOW - SL_WINDOW / 2);
	out->lead = fmax(0, span - SL_WINDOW * out->period);
	if (c->in.stack->graphs != MF_GRAPHS_FULL)
		host = (NODES + (d.split ? 2 : 0) + 6 * (d.pieces - 1)) * mf_k(c, MF_C_HOST_NODE) * MICRO;
	out->period = tt_lifted(out->period, l->host.f + l->host.b + host, leak);
}

const sl_kind *sl_layers(mf_cost *c, const mf_plan *p)
{
	mf_train_sim *s = c->sim;
	tt_layer kinds[TT_KINDS];
	mf_plan plain = *p;
	uint64_t key[3], h;
	struct sl_priced *at;

	plain.schedule = MF_1F1B;
	tt_layers_key(&plain, key);
	h = (key[0] * 0x9e3779b97f4a7c15u ^ key[1]) * 0xbf58476d1ce4e5b9u ^ key[2] * 0x94d049bb133111ebu;
	h = (h ^ p->placement) * 0x9e3779b97f4a7c15u;
	at = &s->priced[(h >> 32) % MF_COUNT(s->priced)];
	if (at->used && memcmp(at->key, key, sizeof(key)) == 0 && at->placement == p->placement)
		return at->kind;
	memcpy(at->key, key, sizeof(key));
	at->placement = p->placement;
	at->used = true;
	price(c, p, kinds);
	memset(at->kind, 0, sizeof(at->kind));
	for (uint32_t k = 0; k < c->train_time->n_kinds; k++)
		schedule_kind(s, c, p, &kinds[k], &at->kind[k]);
	return at->kind;
}

/* The kind that is drawn: of the MoE kinds, or of all when there is none, the one of most layers. */
static uint32_t main_kind(const mf_cost *c)
{
	const mf_train_time *t = c->train_time;
	uint32_t best = 0;
	double most = -1;

	for (uint32_t k = 0; k < t->n_kinds; k++) {
		const double n = tt_count(t, c->in.model, k);

		if ((t->kind[k].ffn == TT_FFN_MOE || !c->in.model->moe_layers) && n > most) {
			most = n;
			best = k;
		}
	}
	return best;
}

double sl_window(mf_cost *c, const mf_plan *p, sim_bars *to)
{
	const uint32_t kind = main_kind(c);
	const sl_contention contention = sl_contention_of(c, p);
	const mf_sim_rules rules = {0, contention.slow, MF_LANE_COUNT};
	mf_train_sim *s = c->sim;
	tt_layer kinds[TT_KINDS];
	list l = {s, 0, 0, false};
	double span;

	price(c, p, kinds);
	const parts d = parts_of(c, p, &kinds[kind]);
	const bool paired = p->overlap && d.dispatch_f > 0;
	const uint32_t main = punctual(&d), late = (d.shared_f > 0) + (d.shared_b > 0) + (d.split ? 2 : 0);
	uint32_t first[SL_WINDOW + 1] = {0}, at = NONE, n = SL_WINDOW * (main + late);

	for (uint32_t i = 0; i < SL_WINDOW && !paired; i++) {
		at = put_alone(&l, c, &d, i < SL_WINDOW / 2, at);
		n = first[i + 1] = l.n;
	}
	span = paired ? run_pairs(s, c, p, &d, SL_WINDOW) : sim_run(s, n, &rules);
	for (uint32_t i = 0, layer = 0; i < n; i++) {
		const mf_sim_task *t = &s->tasks[i];
		const bool back = strchr(t->name, '\'') || strstr(t->name, "weights");

		if (!paired)
			layer += i == first[layer + 1];
		else if (p->placement == MF_PLACE_COMM_FIRST)
			layer = i < SL_WINDOW * main ? i / main : (i - SL_WINDOW * main) / late;
		else
			layer = i / (main + late);
		if (t->end > t->start)
			sim_bar(to, (mf_bar){t->name, t->start / MILLI, t->end / MILLI, 0, (uint16_t)layer,
					    paired && !back ? 1 : 0, (uint8_t)t->stream, back});
	}
	return span;
}
