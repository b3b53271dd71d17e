/*
 * memory_serve.c: memory rows of serving engines. Weights by module do not depend on the engine; what must find room
 * beside them is judged by the serving ledger (one request at the full context length that the row states).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "memory_internal.h"

/* The number that follows `words` in the note; NaN when there is none. A note that begins with "same" leaves to the row
 * before it what it does not say. */
static double number_after(const mf_score *ctx, const mf_measured *row, const char *words)
{
	const char *at = strstr(row->note, words);
	char *end;
	double v;

	if (!at && strncmp(row->note, "same ", 5) == 0 && row > mf_score_table(ctx)->rows)
		at = strstr(row[-1].note, words);
	if (!at)
		return NAN;
	at += strlen(words);
	v = strtod(at, &end);
	return end != at && v > 0 ? v : NAN;
}

static bool read_quant(const mf_measured *row, mf_model *m, mf_judged *out)
{
	mf_quant quant = m->quant;

	if (mf_measured_says(row, "bf16 weights")) {
		quant = MF_QUANT_NONE;
	} else if (*row->precision && !mf_score_weights(row->precision, &quant)) {
		mf_score_uncovered(out, "weights in %.32s", row->precision);
		return false;
	}
	/* A model published in fp8 has its own kind of it; another is quantized on load, a scale a tensor. */
	if (quant == MF_QUANT_FP8_BLOCK && m->quant != MF_QUANT_FP8_BLOCK && strcasecmp(row->precision, "fp8") == 0)
		quant = MF_QUANT_FP8;
	if (quant == MF_QUANT_FP8_BLOCK && !m->quant_block_n)
		m->quant_block_n = m->quant_block_k = 128;
	if (m->quant != MF_QUANT_MXFP4 || quant == MF_QUANT_NONE)
		m->quant = quant;
	return true;
}

static double figure(const mf_measured *row, const mf_explain *ex)
{
	double weights = 0, kv = 0, context = 0;

	for (size_t i = 0; i < ex->n_lines; i++) {
		const mf_memory_line *l = &ex->lines[i];

		weights += strncmp(l->name, "weights.", 8) == 0 ? l->bytes : 0;
		kv += strncmp(l->name, "kv.", 3) == 0 ? l->bytes : 0;
		context += strcmp(l->name, "context") == 0 ? l->bytes : 0;
	}
	if (strcmp(row->metric, "weights_per_gpu") == 0)
		return weights;
	return strcmp(row->metric, "peak_memory") == 0 ? weights + kv + context : NAN;
}

/* Degrees: what is left of the GPUs after tp and pp is attention data parallel. */
static bool read_plan(const mf_measured *row, mf_plan *p, mf_judged *out)
{
	double width = row->n_gpus / mf_measured_u32(row->pp, 1);

	if (isnan(row->tp)) {
		mf_score_uncovered(out, "tp not stated");
		return false;
	}
	*p = mf_plan_default(MF_SERVE);
	p->tp = (uint16_t)row->tp;
	p->pp = (uint16_t)mf_measured_u32(row->pp, 1);
	p->ep = (uint16_t)mf_measured_u32(row->ep, 1);
	if (isnan(row->ep) && mf_measured_says(row, "expert parallel") && width <= 1024)
		p->ep = (uint16_t)width;
	return true;
}

static void read_workload(const mf_score *ctx, const mf_measured *row, struct mf_memory_rig *r)
{
	double length = number_after(ctx, row, "max_model_len "), share = number_after(ctx, row, "utilisation ");

	memset(&r->work, 0, sizeof r->work);
	if (mf_measured_says(row, "vLLM") || strncmp(row->source_id, "vllm-", 5) == 0)
		r->stack.engine = MF_ENGINE_VLLM;
	r->work.phase = MF_SERVE;
	r->work.ttft_target_ms = r->work.tpot_target_ms = NAN;
	r->work.concurrency = mf_measured_u32(row->concurrency, 1);
	/* vLLM plans for the model's own length when it is told none; the other engines start with room for less. */
	if (isnan(length) && r->stack.engine == MF_ENGINE_VLLM && r->model.max_positions)
		length = r->model.max_positions;
	r->work.input_tokens = mf_measured_u32(row->isl, !isnan(length) && length < 1e8 ? (uint32_t)length : 2048);
	r->work.output_tokens = mf_measured_u32(row->osl, 1);
	if (mf_measured_says(row, "enforce-eager"))
		r->plan.graph = MF_GRAPH_OFF;
	if (isnan(share))
		share = number_after(ctx, row, "mem-fraction ");
	if (share > 0 && share <= 1)
		r->stack.mem_fraction = share;
}

void mf_score_memory_serve(
	mf_score *ctx, struct mf_memory_rig *r, const mf_measured *row, mf_intern *intern, mf_judged *out)
{
	mf_inputs in = {&r->model, &r->cluster, &r->work, &r->stack, NULL, intern};
	const mf_model *model;
	const mf_cluster *cluster;
	mf_err err;

	snprintf(out->group, sizeof out->group, "serving engines");
	if (strcmp(row->metric, "prefill_tokens_per_device") == 0) {
		mf_score_uncovered(out, "a limit of tokens in one prefill pass");
		return;
	}
	if (!(model = mf_score_model(ctx, row->model, out)) ||
		/* Weights do not depend on the card: without one they are still compared, but not whether they fit. */
		!(cluster = mf_score_cluster_of(
			  ctx, *row->gpu ? row->gpu : "H100", row->n_gpus, row->gpus_per_node, out)) ||
		!mf_memory_rig_start(ctx, r, cluster, "sglang-0.5.15", out))
		return;
	r->model = *model;
	if (!read_quant(row, &r->model, out) || !read_plan(row, &r->plan, out))
		return;
	read_workload(ctx, row, r);
	mf_plan_format(&r->plan, intern, out->plan);
	mf_cost_free(r->cost);
	r->cost = NULL;
	if (mf_cost_new(&r->cost, &in, &r->consts, NULL, &err) < 0 ||
		mf_cost_explain(r->cost, &r->plan, &r->ex, &err) < 0) {
		mf_score_uncovered(out, "%.90s", err.msg);
		return;
	}
	out->covered = true;
	out->verdict = !*row->gpu ? MF_MEM_NONE : mf_memory_verdict_of(&r->ex.memory);
	out->predicted = mf_memory_in_unit(figure(row, &r->ex), row, &r->cluster);
}
