/*
 * serve_loop.c: latencies and throughput of a closed loop of requests in closed form: how many run at once, what a
 * decode pass costs, how much a prompt adds to everybody's tokens, how long a first token waits. Times in microseconds.
 */
#include "serve_internal.h"

#include <math.h>
#include <string.h>

static const mf_serve_engine engines[MF_ENGINE_COUNT] = {
#define X(id, ...) [MF_ENGINE_##id] = {__VA_ARGS__},
#include "engines.def"
#undef X
};

const mf_serve_engine *mf_serve_engine_of(const mf_cost *c)
{
	return &engines[c->in.stack->engine];
}

double mf_serve_host_us(const mf_cost *c)
{
	double ms = mf_k(c, MF_C_S_HOST_MS);

	return 1e3 * (isnan(ms) ? mf_serve_engine_of(c)->host_ms : ms);
}

double mf_serve_pass_host_us(const mf_cost *c)
{
	return mf_serve_engine_of(c)->host_stalls > 0 ? mf_serve_host_us(c) * c->in.model->layers : 0;
}

double mf_serve_clients(const mf_cost *c, const mf_plan *p)
{
	return fmax(1, (double)c->in.workload->concurrency / (p->replicas ? p->replicas : 1));
}

double mf_serve_batch(const mf_cost *c, const mf_serve_bytes *b, double in, double out, double wanted)
{
	double one = b->kv_request + b->kv_token * (in + mf_serve_engine_of(c)->output_held * out);

	return fmax(1, fmin(fmin(wanted, b->room / one), 2048));
}

/* One engine under one load: everything the formulas below share. */
struct loop {
	const mf_cost *c;
	const mf_plan *p;
	const mf_serve_shape *z;
	const mf_serve_engine *e;
	double in, out;         /* mean lengths */
	double clients, wanted; /* requests in flight: of the engine, of a rank */
	double chunk, pieces;   /* prompt tokens of a pass; passes of one prompt */
	double host;            /* host time of a pass with prompts that only this engine's mixed passes carry */
	bool equal;             /* lengths are equal: requests stay in step, prompts always come together */
	bool drains;            /* all requests queued at once */
};

/* A pass of `prompts` prompts a rank, each a piece of n tokens after `cached`, on `ranks` of the attention ranks. */
static double prompt_pass(const struct loop *s, double prompts, double n, double cached, double ranks, double running,
	mf_serve_pass *pass)
{
	mf_serve_load l = {.prompts = prompts, .prompt_tokens = n, .cached = cached};

	l.group = n * prompts * ranks;
	if (s->e->mixed)
		l.group += (s->z->dp - ranks) * running / s->z->dp;
	mf_serve_run_pass(s->c, s->p, s->z, &l, pass);
	return pass->total + s->host;
}

/* All pieces of one prompt. */
static double whole_prompt(const struct loop *s, double ranks, double running, mf_serve_pass *last)
{
	double t = 0;

	for (double done = 0; done < s->in; done += s->chunk)
		t += prompt_pass(s, 1, fmin(s->chunk, s->in - done), done, ranks, running, last);
	return t;
}

/* What a pass of prompts adds to the decode stream: mixed passes carry the step along, and hide part of the host. */
static double stall_of(const struct loop *s, double pass_us, double step_us, double pieces)
{
	double hidden = 0;

	if (s->e->mixed) {
		hidden = 0.9 * step_us * pieces;
		if (!s->drains)
			hidden += (1 - s->e->host_stalls) * s->host * pieces;
	}
	return fmax(0.1 * pass_us, pass_us - hidden);
}

static double cycle_us(const mf_serve_loop *o, double out)
{
	return o->prompt_us + out * o->tpot_us;
}

/*
 * Micro-batches of a pipeline go in step, so a pass with prompts makes the others wait unless they carry prompts too: of
 * m of them, `passes` a round with prompts, the share of such a pass that everybody sees.
 */
static double lockstep(double m, double passes)
{
	double p = fmin(1, passes / m);

	return m > 1 && p > 0 ? (1 - pow(1 - p, m)) / (m * p) : 1;
}

/*
 * Prompts that are ready together share a pass; how many, and so the stall, depends on the rate it leads to. Returns the
 * pass's time a prompt of one rank.
 */
static double settle(const struct loop *s, double ranks, double alone, mf_serve_loop *o)
{
	double dp = s->z->dp, fit = fmax(1, s->chunk / s->in), step = o->decode.total;
	double each = stall_of(s, alone, step, s->pieces) / ranks, others = fmax(0, o->running - 1);
	double k = 1, together = 0, base = step / o->accepted, turn = alone;
	mf_serve_pass pass;

	o->tpot_us = base;
	for (int round = 0; round < 8; round++) {
		double rate = o->running / cycle_us(o, s->out), now;

		now = fmin(fmax(1, rate * (step / o->accepted + alone)), fit * ranks);
		if (s->equal) {
			ranks = fmin(dp, o->running);
			now = fmin(s->clients, fit * dp);
		}
		if (now > 1.05 && s->pieces == 1 && now != together) {
			double t;

			k = fmax(1, fmin(now / ranks, s->chunk / s->in));
			t = prompt_pass(s, k, s->in, 0, ranks, o->running, &pass);
			turn = t / k;
			each = stall_of(s, t, step, 1) / (k * ranks);
			together = now;
		}
		o->stall_us = others * each / s->out *
			      lockstep(o->in_flight, (s->equal ? o->running : rate * o->tpot_us * o->accepted) *
							     s->pieces / (k * ranks));
		o->tpot_us = 0.5 * o->tpot_us + 0.5 * (base + o->stall_us);
	}
	o->stall_us = o->tpot_us - base;
	return turn;
}

/* The state that a load settles in; `clients` in flight. */
static void steady(struct loop *s, const mf_serve_bytes *b, double clients, mf_serve_loop *o)
{
	const mf_workload *w = s->c->in.workload;
	const mf_serve_engine *e = s->e;
	double dp = s->z->dp, waves = mf_k(s->c, MF_C_S_WAVES), rho, burst, ranks, many, front, request, turn;
	double each = w->draft_tokens ? w->draft_tokens + 1.0 : 1;
	mf_serve_load load = {0};
	mf_serve_pass pass;

	s->clients = clients;
	s->wanted = fmax(1, clients / dp);
	o->batch = mf_serve_batch(s->c, b, s->in, s->out, s->wanted);
	o->running = fmin(clients, o->batch * dp);
	/* The requests go through a pipeline as one micro-batch a stage, so a pass carries only its share of them. */
	o->in_flight = fmax(1, fmin(s->z->pp, o->batch));
	o->accepted = w->draft_tokens ? w->accepted_tokens : 1;
	load.batch = o->batch / o->in_flight;
	load.context = s->in + s->out / 2;
	load.each = each;
	load.group = o->running / o->in_flight * each;
	mf_serve_run_pass(s->c, s->p, s->z, &load, &o->decode);

	/* Attention ranks whose prompts go in one pass: those that became ready in it, or were held for it. */
	ranks = fmin(dp, fmax(1, o->running * (e->hold_steps > 0 ? e->hold_steps : 1) / s->out));
	o->prompt_us = whole_prompt(s, ranks, o->running, &o->prompt);
	turn = settle(s, ranks, o->prompt_us, o);
	if (s->equal)
		ranks = fmin(dp, o->running);
	else
		turn = o->prompt_us;

	rho = fmin(0.95, fmax(0, o->running - 1) * o->prompt_us / (ranks * cycle_us(o, s->out)));
	o->wait_us = o->decode.total / 2 + rho * o->prompt_us / (2 * (1 - 0.7 * rho));
	if (dp > 1)
		o->wait_us += e->hold_steps / 2 * o->decode.total / o->accepted;
	many = floor(fmax(1, fmin(s->wanted, s->chunk / s->in)));
	if (many > 1) {
		double t = prompt_pass(s, many, s->in, 0, dp, o->running, &pass);

		burst = (s->wanted / many + 1) / 2 * t - o->prompt_us;
	} else {
		burst = (s->wanted - 1) / 2 * turn * dp / ranks;
	}
	if (w->requests)
		waves = fmax(1, w->requests / clients);
	o->wait_us += fmax(0, burst) / waves;
	front = e->host_stalls > 0 ? 0 : mf_serve_host_us(s->c) * s->c->in.model->layers * (1 + clients / 40);
	request = mf_k(s->c, MF_C_S_REQUEST_MS) * 1e3 + mf_k(s->c, MF_C_S_TOKENIZE_US) * s->in;
	o->front_us = front + request * (e->one_front ? 1 + (clients - 1) / 2 / waves : 1);
	o->queue_us =
		o->batch + 0.5 < s->wanted ? e->queue * (s->wanted - o->batch) / o->batch * cycle_us(o, s->out) : 0;
	o->ttft_us = o->prompt_us + o->wait_us + o->front_us + o->queue_us;
	o->tokens_per_us = o->running * s->out / cycle_us(o, s->out);
}

void mf_serve_run_loop(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_bytes *b, mf_serve_loop *o)
{
	const mf_workload *w = c->in.workload;
	double clients = mf_serve_clients(c, p), mean, waves, rest;
	struct loop s = {.c = c, .p = p, .z = z, .e = mf_serve_engine_of(c)};

	memset(o, 0, sizeof *o);
	s.drains = w->requests && w->requests <= w->concurrency;
	s.equal = w->length_spread <= 0 || s.drains;
	mean = s.drains ? 1 : 1 - w->length_spread / 2;
	s.in = floor(fmax(1, w->input_tokens * mean));
	s.out = w->output_tokens * mean;
	s.chunk = mf_serve_chunk(c, p, z);
	s.pieces = ceil(s.in / s.chunk);
	s.host = mf_serve_pass_host_us(c);
	steady(&s, b, clients, o);
	/* A finite queue of equal requests drains in whole turns, the last one partly filled. */
	if (s.drains && clients > 1.02 * o->running) {
		double span;

		waves = clients / o->running;
		rest = (waves - floor(waves)) * o->running;
		span = floor(waves) * cycle_us(o, s.out);
		if (waves - floor(waves) > 0.01) {
			mf_serve_loop tail;

			steady(&s, b, fmax(1, rest), &tail);
			span += cycle_us(&tail, s.out);
		}
		o->tokens_per_us = clients * s.out / span;
	}
}
