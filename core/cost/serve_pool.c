/* serve_pool.c: prefill and decode apart, as pools of engines, and the pair of them. */
#include "serve_internal.h"

#include <math.h>
#include <string.h>

static void prefill_pool(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_bytes *b, mf_pool *out)
{
	const mf_cluster *cl = c->in.cluster;
	double in = c->in.workload->input_tokens, chunk = mf_serve_chunk(c, p, z), prompts = fmax(1, chunk / in),
	       host = mf_serve_pass_host_us(c);
	double pass_us = 0, alone_us = 0, wire = isnan(cl->nic_gbps) ? cl->pcie_gbps : cl->nic_gbps;
	mf_serve_pass pass;

	for (double done = 0; done < in; done += chunk) {
		mf_serve_load l = {.prompts = prompts, .prompt_tokens = fmin(chunk, in - done), .cached = done};

		l.group = l.prompt_tokens * prompts * z->dp;
		mf_serve_run_pass(c, p, z, &l, &pass);
		pass_us += pass.total + host;
		l.prompts = 1;
		l.group = l.prompt_tokens;
		mf_serve_run_pass(c, p, z, &l, &pass);
		alone_us += pass.total + host;
	}
	/* A full pipeline has one batch a stage, so a pass of all layers yields one batch of every stage. */
	out->tokens_per_s = 1e6 * prompts * in * z->dp / (pass_us * z->n);
	out->pass_ms = pass_us / 1e3;
	out->latency_ms = alone_us / 1e3;
	out->batch = prompts * z->dp;
	out->transfer_ms = (b->kv_token * in + b->kv_request) / (wire * 1e6);
	out->extrapolated = mf_serve_extrapolated(c, prompts * in * z->dp, mf_serve_left(c));
}

static void decode_pool(
	const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_bytes *b, mf_pool *out)
{
	const mf_workload *w = c->in.workload;
	double clients = mf_serve_clients(c, p), stages;
	double batch = mf_serve_batch(c, b, w->input_tokens, w->output_tokens, fmax(1, clients / z->dp));
	double accepted = w->draft_tokens ? w->accepted_tokens : 1, running = fmin(clients, batch * z->dp);
	mf_serve_load l = {.context = w->input_tokens + w->output_tokens / 2.0, .each = w->draft_tokens + 1.0};
	mf_serve_pass pass;

	stages = fmax(1, fmin(z->pp, batch));
	l.batch = batch / stages;
	l.group = running / stages * l.each;
	mf_serve_run_pass(c, p, z, &l, &pass);
	out->pass_ms = pass.total / 1e3;
	out->latency_ms = pass.total / accepted / 1e3;
	out->batch = running;
	out->tokens_per_s = 1e6 * running * accepted / (pass.total * z->n * z->pp);
	out->extrapolated = mf_serve_extrapolated(c, running, mf_serve_left(c));
}

void mf_cost_pool(mf_cost *c, const mf_plan *p, bool prefill, mf_pool *out)
{
	mf_serve_shape z;
	mf_serve_bytes b;

	*out = (mf_pool){NAN, NAN, NAN, NAN, NAN, false};
	if (!mf_serve_shape_of(c, p, &z) || !c->in.workload->input_tokens)
		return;
	mf_serve_bytes_of(c, p, &z, &b);
	if (prefill)
		prefill_pool(c, p, &z, &b, out);
	else
		decode_pool(c, p, &z, &b, out);
}

mf_status mf_cost_pair(mf_cost *prefill, const mf_plan *p, mf_cost *decode, const mf_plan *d, mf_pair *out, mf_err *err)
{
	const mf_workload *w = decode->in.workload;
	double in = w->input_tokens, tokens = w->output_tokens, can_prefill, can_decode, life_s, rate, free_ms;
	double request_ms = mf_k(prefill, MF_C_S_REQUEST_MS) + mf_k(prefill, MF_C_S_TOKENIZE_US) * in / 1e3;

	memset(out, 0, sizeof *out);
	if (w->phase != MF_SERVE || prefill->in.workload->phase != MF_SERVE || !w->input_tokens || !w->output_tokens)
		return mf_fail(err, MF_EINPUT, "a pair of pools serves: prompts and outputs of at least one token");
	mf_cost_pool(prefill, p, true, &out->prefill);
	mf_cost_pool(decode, d, false, &out->decode);
	if (isnan(out->prefill.tokens_per_s) || isnan(out->decode.tokens_per_s))
		return mf_fail_at(err, MF_EINPUT, NULL, 0, isnan(out->prefill.tokens_per_s) ? "plan" : "decode-plan",
			"does not divide its GPUs");
	can_prefill = out->prefill.tokens_per_s * prefill->world / in;
	can_decode = out->decode.tokens_per_s * decode->world / tokens;
	out->tpot_ms = out->decode.latency_ms;
	/* A request's life when nothing queues: its own passes, the hand-over, its tokens. */
	free_ms = request_ms + out->prefill.latency_ms + out->prefill.transfer_ms + out->decode.pass_ms / 2;
	life_s = (free_ms + tokens * out->tpot_ms) / 1e3;
	rate = fmin(fmin(can_prefill, can_decode), w->concurrency / life_s);
	out->requests_per_s = rate;
	out->ttft_ms = fmax(free_ms, 1e3 * w->concurrency / rate - tokens * out->tpot_ms);
	out->throughput = rate * tokens / (prefill->world + decode->world);
	out->prefill_busy = rate / can_prefill;
	out->decode_busy = rate / can_decode;
	out->balance = (out->decode.tokens_per_s / tokens) / (out->prefill.tokens_per_s / in);
	return MF_OK;
}

double mf_cost_floor_ms(mf_cost *c, const mf_plan *p)
{
	const mf_workload *w = c->in.workload;
	double mean = 1 - w->length_spread / 2, batch;
	mf_serve_shape z;
	mf_serve_bytes b;

	if (!mf_serve_shape_of(c, p, &z))
		return NAN;
	mf_serve_bytes_of(c, p, &z, &b);
	batch = fmax(1, (double)w->concurrency / ((p->replicas ? p->replicas : 1) * z.dp));
	batch = fmin(batch, fmax(1, b.room / (b.kv_token * (w->input_tokens + w->output_tokens / 2.0))));
	/* A pass carries one micro-batch of the pipeline. */
	batch /= fmax(1, fmin(z.pp, batch));
	return mf_serve_floor_us(c, &z, &b, batch, mean * (w->input_tokens + w->output_tokens / 2.0)) / 1e3 /
	       (w->draft_tokens ? w->accepted_tokens : 1);
}
