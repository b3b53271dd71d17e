/*
 * serve.c: answers of the serving model and what they consist of. Passes: serve_pass.c; the loop of requests:
 * serve_loop.c; engines: engines.def; curves, constants and their errors: consts_serve.def.
 */
#include "serve_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMO_SLOTS 4096

struct answer {
	mf_plan key;  /* the fields that time depends on, the others zero; tp 0 marks an empty slot */
	mf_time time; /* before tax */
};

/* Runners, expert maps and kernels of one layout share their time, so a search asks the same question many times over.
 */
struct mf_serve_state {
	mf_serve_tables tables;
	mf_serve_reach reach;
	struct answer memo[MEMO_SLOTS]; /* by hash of the key; a later one replaces an earlier */
};

mf_status mf_serve_state_new(mf_cost *c, mf_err *err)
{
	struct mf_serve_state *s = calloc(1, sizeof *s);

	if (!s)
		return mf_fail(err, MF_ENOMEM, "out of memory for the serving model");
	mf_serve_tables_fill(c, &s->tables);
	c->serve = s;
	return MF_OK;
}

void mf_serve_state_free(struct mf_serve_state *s)
{
	free(s);
}

mf_serve_reach *mf_serve_reach_of(const mf_cost *c)
{
	return &c->serve->reach;
}

unsigned mf_serve_left(const mf_cost *c)
{
	unsigned left = c->serve->reach.left;

	c->serve->reach.left = 0;
	return left;
}

const mf_serve_tables *mf_serve_tables_of(const mf_cost *c)
{
	return &c->serve->tables;
}

static const struct {
	const char *name, *formula;
	mf_const_id consts[4];
	uint8_t n;
} parts[MF_PART_COUNT] = {
	[MF_PART_ATTENTION] = {"attention", "projections + decode or prefill core, per layer; MLA absorbed in decode",
		{0}, 0},
	[MF_PART_EXPERTS] = {"experts",
		"router + t0 + hypot(weights of distinct experts, flop of padded rows) + activation traffic",
		{MF_C_S_SKEW}, 1},
	[MF_PART_SHARED] = {"shared experts", "two GEMMs; on a side stream in decode", {MF_C_S_SHARED}, 1},
	[MF_PART_DENSE] = {"dense layers", "two GEMMs and an exchange", {0}, 0},
	[MF_PART_TP] = {"tensor-parallel all-reduce", "t0 + r sqrt(bytes) + 2 bytes (n-1)/n / bus", {0}, 0},
	[MF_PART_EXCHANGE] = {"dispatch and combine",
		"all-reduce; all-gather + reduce-scatter under attention DP; DeepEP", {0}, 0},
	[MF_PART_SMALL] = {"small kernels", "n x small_kernel_us + 16 T h / (share of hbm)",
		{MF_C_S_SMALL_US, MF_C_S_SMALL_N}, 2},
	[MF_PART_HEAD] = {"head and sampling", "GEMM(rows, V/tp, h) + gather of logits + sampler", {MF_C_S_SAMPLE_US},
		1},
	[MF_PART_PIPE] = {"pipeline transfers", "2 (10 us + 2 T h / 0.3 TB/s), the link's share of it", {0}, 0},
	[MF_PART_DRAFT] = {"speculation", "drafted tokens x (1.3 pass/layers + 40 us)", {0}, 0},
	[MF_PART_LAUNCH] = {"kernel launches", "layers x eager_layer_us without CUDA graphs", {MF_C_S_EAGER_US}, 1},
	[MF_PART_HIDDEN] = {"hidden by two-batch overlap",
		"rest x half exchange - min(exchange, everything else), of two half batches", {MF_C_S_TBO}, 1},
};

static void explain_pass(const mf_cost *c, const mf_plan *p, const mf_serve_shape *z, const mf_serve_pass *pass,
	double tokens, const char *inputs, bool foreign, unsigned left, mf_explain *ex)
{
	for (int i = 0; i < MF_PART_COUNT; i++) {
		mf_term *t;

		if (pass->part[i] == 0)
			continue;
		t = mf_explain_term(ex, parts[i].name, pass->part[i] / tokens / 1e3, parts[i].formula);
		snprintf(t->inputs, sizeof t->inputs, "%s", inputs);
		memcpy(t->consts, parts[i].consts, sizeof parts[i].consts);
		t->n_consts = parts[i].n;
		mf_serve_part_consts(c, p, z, (mf_serve_part)i, t);
		t->extrapolated = foreign || (left & 1u << i);
	}
}

/* `consts` end with MF_CONST_COUNT; an unset one is left out. */
static void ttft_term(const mf_cost *c, mf_explain *ex, const char *name, double us, const char *formula,
	const char *inputs, const mf_const_id *consts)
{
	mf_term *t = mf_explain_term(ex, name, us / 1e3, formula);

	snprintf(t->inputs, sizeof t->inputs, "%s", inputs);
	for (; *consts != MF_CONST_COUNT; consts++)
		if (!isnan(mf_k(c, *consts)))
			t->consts[t->n_consts++] = *consts;
}

static mf_plan memo_key(const mf_plan *p)
{
	mf_plan k = {0};

	k.tp = p->tp;
	k.cp = p->cp;
	k.pp = p->pp;
	k.ep = p->ep;
	k.moe_dp = p->moe_dp;
	k.replicas = p->replicas;
	k.prefill_chunk = p->prefill_chunk;
	k.redundant = p->redundant;
	k.overlap = p->overlap;
	k.a2a = p->a2a;
	k.deepep_mode = p->deepep_mode;
	k.graph = p->graph;
	k.kernel = p->kernel;
	return k;
}

static struct answer *memo_slot(struct mf_serve_state *s, const mf_plan *key)
{
	uint64_t words[(sizeof *key + 7) / 8] = {0}, h = 0;

	memcpy(words, key, sizeof *key);
	for (size_t i = 0; i < MF_COUNT(words); i++)
		h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
	return &s->memo[(h >> 40) % MEMO_SLOTS];
}

bool mf_serve_extrapolated(const mf_cost *c, double tokens, unsigned left)
{
	const mf_model *m = c->in.model;

	return left ||
	       mf_consts_extrapolated(c->k, c->in.cluster, mf_serve_dense_type(m) == MF_LIN_BF16 ? MF_BF16 : MF_FP8,
		       m->experts ? tokens * m->topk / m->experts : tokens, c->world);
}

static void untaxed_time(const mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex)
{
	mf_serve_shape z;
	mf_serve_bytes b;
	mf_serve_loop loop;
	unsigned left;
	double gpus;

	*out = (mf_time){NAN, NAN, NAN, NAN, NAN, NAN, NAN, false};
	if (!mf_serve_shape_of(c, p, &z) || !c->in.workload->output_tokens || !c->in.workload->input_tokens)
		return;
	mf_serve_bytes_of(c, p, &z, &b);
	mf_serve_run_loop(c, p, &z, &b, &loop);
	gpus = (double)z.n * z.pp;
	out->throughput = loop.tokens_per_us * 1e6 / gpus;
	out->step_ms = loop.decode.total / 1e3;
	out->ttft_ms = loop.ttft_us / 1e3;
	out->tpot_ms = loop.tpot_us / 1e3;
	out->hidden_fraction = p->overlap && loop.decode.part[MF_PART_EXCHANGE] > 0
				       ? -loop.decode.part[MF_PART_HIDDEN] / loop.decode.part[MF_PART_EXCHANGE]
				       : 0;
	out->bubble_fraction = 1 - loop.in_flight / z.pp; /* stages without a micro-batch */
	out->batch = loop.running;
	left = mf_serve_left(c);
	out->extrapolated = mf_serve_extrapolated(c, loop.batch * z.dp, left);
	if (ex) {
		char inputs[160];

		snprintf(inputs, sizeof inputs, "decode pass: batch %.0f a rank, context %.0f, tp %u dp %u ep %u",
			loop.batch / loop.in_flight, c->in.workload->input_tokens + c->in.workload->output_tokens / 2.0,
			z.tp, z.dp, z.ep);
		explain_pass(c, p, &z, &loop.decode, loop.accepted, inputs,
			mf_serve_extrapolated(c, loop.batch * z.dp, 0), left, ex);
		mf_explain_term(ex, "prompt stalls", loop.stall_us / 1e3,
			"(running requests - 1) x (prompt pass - decode and host time that it carries along) / "
			"(prompts of "
			"the pass x output tokens), shared by micro-batches that carry prompts too");
		snprintf(inputs, sizeof inputs, "prompt of %u tokens, chunk %.0f, %.0f running",
			c->in.workload->input_tokens, mf_serve_chunk(c, p, &z), loop.running);
		ttft_term(c, ex, "ttft: prompt passes", loop.prompt_us, "sum over the chunks of a prompt", inputs,
			(const mf_const_id[]){
				c->in.model->attention == MF_MLA ? MF_C_S_MLACTX : MF_C_S_CTX, MF_CONST_COUNT});
		ex->terms[ex->n_terms - 1].extrapolated = left >> 16;
		ttft_term(c, ex, "ttft: wait", loop.wait_us,
			"decode/2 + rho prompt / (2 (1 - 0.7 rho)) + opening burst / waves", inputs,
			(const mf_const_id[]){MF_C_S_WAVES, MF_CONST_COUNT});
		snprintf(inputs, sizeof inputs, "engine %s, host %.2g ms a layer of a pass with prompts",
			mf_choice_name(mf_engine_choices, (int)c->in.stack->engine), mf_serve_host_us(c) / 1e3);
		ttft_term(c, ex, "ttft: host", loop.front_us,
			"taking the request in, queued behind the opening burst where one process does it; SGLang: + "
			"host x "
			"layers x (1 + concurrency/40)",
			inputs,
			(const mf_const_id[]){MF_C_S_REQUEST_MS, MF_C_S_TOKENIZE_US, MF_C_S_HOST_MS, MF_CONST_COUNT});
		if (loop.queue_us > 0)
			ttft_term(c, ex, "ttft: no room", loop.queue_us, "queue x (wanted - batch)/batch x cycle",
				inputs, (const mf_const_id[]){MF_CONST_COUNT});
	}
}

void mf_serve_time_eval(mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex)
{
	double tax = mf_k(c, MF_C_TAX_SERVE);
	mf_plan key = memo_key(p);
	struct answer *a = memo_slot(c->serve, &key);

	if (ex) {
		untaxed_time(c, p, out, ex);
	} else {
		if (memcmp(&a->key, &key, sizeof key) != 0) {
			untaxed_time(c, p, &a->time, NULL);
			a->key = key;
		}
		*out = a->time;
	}
	if (c->opts.tax && p->kernel && !isnan(tax))
		out->throughput /= 1 + tax;
}
