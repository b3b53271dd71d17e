/*
 * serve.c: serving rows. A row becomes a plan, a workload and a named engine, and its metric is predicted by the
 * evaluator that ranks plans. What a source leaves unsaid is filled by the rules below, each with its reason.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score_internal.h"

/*
 * Host time of a pass with prompts, the one constant fitted on end-to-end rows: for a model of this table the value
 * that all other models give. tools/fit_serve.c prints the table; nothing fits while scoring.
 */
static const struct {
	mf_engine engine;
	const char *model; /* built-in name */
	double host_ms;
} left_out[] = {
#define X(engine, model, host_ms) {MF_ENGINE_##engine, model, host_ms},
#include "serve_host.def"
#undef X
};

/** What a row says, as the evaluator takes it. */
typedef struct serve_row {
	mf_model model;
	mf_workload work;
	mf_stack stack;
	mf_consts consts;
	mf_plan plan;
	const mf_cluster *cluster;
	char release[32];
	enum { ROW_LOOP, ROW_PREFILL, ROW_DECODE } pool;
	double factor; /* from tokens/s/GPU to the row's unit; 0: a latency */
	bool ttft;
} serve_row;

static bool has(const char *text, const char *part)
{
	size_t len = strlen(part);

	for (; *text; text++)
		if (strncasecmp(text, part, len) == 0)
			return true;
	return false;
}

/* Number whose last digit stands before `at` in `text`; 0 when there is none. `at` may be NULL. */
static uint32_t number_before(const char *text, const char *at)
{
	const char *digit = at;

	while (digit && digit > text && isdigit((unsigned char)digit[-1]))
		digit--;
	return digit && digit < at ? (uint32_t)strtoul(digit, NULL, 10) : 0;
}

/* Number that follows `word` and stands "per GPU" in `text`; 0 when there is none. */
static uint32_t number_after(const char *text, const char *word)
{
	const char *at = strstr(text, word);
	char *end;
	unsigned long v = at ? strtoul(at + strlen(word), &end, 10) : 0;

	return v > 0 && v < 1u << 16 && strncmp(end, " per GPU", 8) == 0 ? (uint32_t)v : 0;
}

/* The note's engine=NAME VERSION. Sources without one measured SGLang (the LMSYS blogs). */
static bool read_engine(const mf_measured *row, serve_row *r, mf_judged *out)
{
	static const struct {
		const char *name;
		mf_engine engine;
	} known[] = {{"sglang", MF_ENGINE_SGLANG}, {"vllm", MF_ENGINE_VLLM}, {"trtllm", MF_ENGINE_TRTLLM},
		{"tensorrt", MF_ENGINE_TRTLLM}};
	char text[64];

	r->stack.engine = MF_ENGINE_SGLANG;
	if (!mf_measured_note(row, "engine", text, sizeof text) || !*text) {
		if (!has(row->source_id, "vllm"))
			return true;
		snprintf(text, sizeof text, "vllm");
	}
	snprintf(r->release, sizeof r->release, "%.31s", text);
	for (size_t i = 0; i < MF_COUNT(known); i++)
		if (has(text, known[i].name)) {
			r->stack.engine = known[i].engine;
			return true;
		}
	mf_score_uncovered(out, "engine not modelled: %.40s", text);
	return false;
}

/* Checkpoint and cache formats by the habit of each engine: what a precision column of one word means. */
static bool read_formats(const mf_measured *row, serve_row *r, mf_judged *out)
{
	bool trtllm = r->stack.engine == MF_ENGINE_TRTLLM;
	mf_quant quant = r->model.quant;

	if (*row->precision && !mf_score_weights(row->precision, &quant)) {
		mf_score_uncovered(out, "precision not modelled: %.40s", row->precision);
		return false;
	}
	/* A model published in mxfp4 has no other format; a name may say which fp8 ("nvidia/...-FP8"). */
	if (r->model.quant != MF_QUANT_MXFP4 && !(quant == MF_QUANT_FP8_BLOCK && r->model.quant == MF_QUANT_FP8))
		r->model.quant = quant;
	if (r->model.quant == MF_QUANT_FP8_BLOCK && !r->model.quant_block_n)
		r->model.quant_block_n = r->model.quant_block_k = 128;
	switch (r->model.quant) {
	case MF_QUANT_FP8_BLOCK: r->work.fp8_kv = trtllm; break;
	case MF_QUANT_NVFP4: r->work.fp8_kv = true; break;
	case MF_QUANT_MXFP4: r->work.fp8_kv = trtllm && r->cluster->family == MF_BLACKWELL; break;
	default: break;
	}
	if (mf_measured_says(row, "FP8 KV"))
		r->work.fp8_kv = true;
	if (mf_measured_says(row, "FP16 KV"))
		r->work.fp8_kv = false;
	return true;
}

static bool read_layout(const mf_measured *row, serve_row *r, mf_judged *out)
{
	uint32_t world = mf_cluster_world(r->cluster), tp, pp, dp, ep, etp;
	mf_plan *p = &r->plan;
	const char *at;
	bool wide;

	wide = isnan(row->tp) && isnan(row->ep) && isnan(row->dp) && world > 1;
	if (wide && (r->pool == ROW_LOOP || !r->model.experts)) {
		mf_score_uncovered(out, "layout not stated");
		return false;
	}
	/* A pool of prefill or decode nodes without one: data-parallel attention and experts over all its GPUs. */
	tp = mf_measured_u32(row->tp, 1);
	pp = mf_measured_u32(row->pp, 1);
	dp = mf_measured_u32(row->dp, world / (tp * pp));
	ep = mf_measured_u32(row->ep, wide ? world : 1);
	if (!dp || tp * pp * dp != world || tp * dp % ep) {
		mf_score_uncovered(out, "layout does not fill the GPUs");
		return false;
	}
	etp = mf_measured_u32(row->etp, tp * dp / ep);
	if (!etp || tp * dp % (ep * etp)) {
		mf_score_uncovered(out, "layout does not fill the GPUs");
		return false;
	}
	*p = mf_plan_default(MF_SERVE);
	p->tp = (uint16_t)tp;
	p->pp = (uint16_t)pp;
	p->ep = (uint16_t)ep;
	p->moe_dp = (uint16_t)(tp * dp / (ep * etp));
	p->overlap = has(row->overlap, "two-batch") || has(row->overlap, "tbo");
	/* Over several nodes the experts' exchange is an all-to-all. */
	if (mf_measured_says(row, "DeepEP") ||
		(dp > 1 && ep > r->cluster->gpus_per_node && ep > r->cluster->nvlink_domain))
		p->a2a = MF_A2A_DEEPEP;
	if (r->pool != ROW_LOOP && r->stack.engine == MF_ENGINE_SGLANG)
		r->stack.engine = MF_ENGINE_SGLANG_WIDE;
	/* SGLang divides its chunk by the attention ranks; the source counts a device's tokens. */
	at = strstr(row->note, " tokens per device");
	if (at)
		p->prefill_chunk = (uint16_t)fmin(65535, number_before(row->note, at) * dp / 256.0);
	return true;
}

/* Closed loop, or one side of a disaggregated pair, by the metric. */
static bool read_metric(const mf_measured *row, serve_row *r, mf_judged *out)
{
	double n = mf_cluster_world(r->cluster), node = fmin(n, 8);
	const char *m = row->metric;

	if (strcmp(m, "tpot") == 0 || strcmp(m, "ttft") == 0) {
		r->ttft = m[1] == 't';
		return true;
	}
	if (strncmp(m, "prefill_", 8) == 0) {
		r->pool = ROW_PREFILL;
		m += 8;
	} else if (strncmp(m, "decode_", 7) == 0) {
		r->pool = ROW_DECODE;
		m += 7;
	} else if (strncmp(m, "output_", 7) == 0) {
		m += 7;
	}
	r->factor = strcmp(m, "tokens_per_s_per_gpu") == 0    ? 1
		    : strcmp(m, "tokens_per_s_per_rank") == 0 ? 1
		    : strcmp(m, "tokens_per_s_per_node") == 0 ? node
		    : strcmp(m, "tokens_per_s") == 0          ? n
							      : 0;
	if (r->factor > 0)
		return true;
	mf_score_uncovered(out, *row->metric ? "metric not modelled: %.40s" : "metric not stated", row->metric);
	return false;
}

static bool one_of_two(double x)
{
	return x == 1024 || x == 8192;
}

static bool read_workload(const mf_measured *row, serve_row *r, mf_judged *out)
{
	mf_workload *w = &r->work;
	uint32_t batch;

	if (isnan(row->isl) || (isnan(row->osl) && r->pool == ROW_LOOP) || !(row->isl > 0) ||
		(r->pool == ROW_LOOP && !(row->osl > 0))) {
		mf_score_uncovered(out, "lengths not stated");
		return false;
	}
	w->input_tokens = (uint32_t)row->isl;
	w->output_tokens = mf_measured_u32(row->osl, 0);
	if (mf_measured_says(row, "all requests queued")) {
		/* Where the source does not count them, 2000: enough to fill every layout several times. */
		w->requests = number_before(row->note, strstr(row->note, " requests"));
		w->requests = w->requests ? w->requests : 2000;
		w->concurrency = w->requests;
	} else if (row->concurrency > 0) {
		w->concurrency = (uint32_t)row->concurrency;
	} else if (r->pool == ROW_DECODE && (batch = number_after(row->note, "batch ")) > 0) {
		w->concurrency = batch * mf_cluster_world(r->cluster);
	} else if (r->pool != ROW_PREFILL) {
		mf_score_uncovered(out, "concurrency not stated");
		return false;
	}
	/* That benchmark draws its 1k and 8k lengths from 80 to 100% of nominal. */
	if (strcmp(row->source_id, "aic-silicon") == 0 && one_of_two(row->isl) && one_of_two(row->osl))
		w->length_spread = 0.2;
	/* Draft tokens where the note tells; accepted ones as published for DeepSeek's own head. */
	if (mf_measured_says(row, "MTP3")) {
		w->draft_tokens = 3;
		w->accepted_tokens = 2.3;
	} else if (mf_measured_says(row, "simulated MTP")) {
		w->draft_tokens = 1;
		w->accepted_tokens = 1.75;
	}
	return true;
}

static bool read_row(mf_score *ctx, const mf_measured *row, serve_row *r, mf_judged *out)
{
	const mf_model *m;
	const mf_consts *k;
	double gpus = row->n_gpus;

	memset(r, 0, sizeof *r);
	snprintf(r->stack.name, sizeof r->stack.name, "measured");
	r->stack.toolchain = MF_SGLANG_0516;
	r->stack.mem_fraction = NAN;
	r->work.phase = MF_SERVE;
	r->work.ttft_target_ms = r->work.tpot_target_ms = NAN;
	r->work.concurrency = 1;
	r->work.accepted_tokens = 1;
	/* A source may leave the number of GPUs to its layout. */
	if (isnan(gpus) && row->tp > 0 && row->dp > 0)
		gpus = row->tp * row->dp * (row->pp > 0 ? row->pp : 1);
	if (!read_engine(row, r, out) || !(m = mf_score_model(ctx, row->model, out)) ||
		!(r->cluster = mf_score_cluster_of(ctx, row->gpu, gpus, row->gpus_per_node, out)) ||
		!(k = mf_score_consts(ctx, r->cluster, out)))
		return false;
	r->model = *m;
	r->consts = *k;
	/* The shipped overlays measured SGLang's kernels; what another engine runs (mxfp4 experts above all) is another's. */
	if (mf_score_own_overlays(ctx) && r->stack.engine != MF_ENGINE_SGLANG)
		mf_consts_factory(&r->consts, r->cluster);
	return read_metric(row, r, out) && read_workload(row, r, out) && read_formats(row, r, out) &&
	       read_layout(row, r, out);
}

/* Host constant of the row's engine, of models other than the row's. */
static void leave_out(serve_row *r)
{
	for (size_t i = 0; i < MF_COUNT(left_out); i++)
		if (left_out[i].engine == r->stack.engine && strcmp(left_out[i].model, r->model.name) == 0 &&
			!r->consts.from_overlay[MF_C_S_HOST_MS])
			r->consts.v[MF_C_S_HOST_MS] = left_out[i].host_ms;
}

static void predict(const serve_row *r, const mf_measured *row, mf_judged *out)
{
	mf_inputs in = {
		.model = &r->model, .cluster = r->cluster, .workload = &r->work, .stack = &r->stack, .intern = NULL};
	mf_cost *cost;
	mf_pool pool;
	mf_time t;
	mf_err err;

	if (mf_cost_new(&cost, &in, &r->consts, NULL, &err) != MF_OK) {
		mf_score_uncovered(out, "%.95s", err.msg);
		return;
	}
	mf_plan_format(&r->plan, NULL, out->plan);
	if (r->pool != ROW_LOOP) {
		mf_cost_pool(cost, &r->plan, r->pool == ROW_PREFILL, &pool);
		out->predicted = pool.tokens_per_s * r->factor;
		out->extrapolated = pool.extrapolated;
	} else {
		mf_cost_time(cost, &r->plan, &t);
		out->predicted = r->factor > 0 ? t.throughput * r->factor : r->ttft ? t.ttft_ms : t.tpot_ms;
		out->extrapolated = t.extrapolated;
		/* Faster than reading its own bytes at the datasheet's rate: the row's label is wrong. */
		if (r->factor <= 0 && !r->ttft && row->value < 0.9 * mf_cost_floor_ms(cost, &r->plan))
			out->outside = true;
	}
	out->covered = !isnan(out->predicted);
	if (!out->covered)
		mf_score_uncovered(out, "the plan does not divide the GPUs");
	mf_cost_free(cost);
}

void mf_score_serve_at(mf_score *ctx, const mf_measured *row, double host_ms, mf_judged *out)
{
	serve_row *r = malloc(sizeof *r);

	if (!r) {
		mf_score_uncovered(out, "out of memory");
		return;
	}
	if (read_row(ctx, row, r, out)) {
		snprintf(out->group, sizeof out->group, "%s", mf_choice_name(mf_engine_choices, (int)r->stack.engine));
		snprintf(out->release, sizeof out->release, "%s", r->release);
		if (isnan(host_ms))
			leave_out(r);
		else
			r->consts.v[MF_C_S_HOST_MS] = host_ms;
		predict(r, row, out);
	}
	free(r);
}

void mf_score_serve(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	mf_score_serve_at(ctx, row, NAN, out);
}
