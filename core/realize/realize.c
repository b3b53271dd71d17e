/*
 * realize.c: the predicate. The dry run is the emitter itself walking into a sink that keeps nothing, so what is judged
 * and what is launched are one piece of code; the memory gate is the ledger the search ranks by.
 */
#include "realize.h"

#include <math.h>
#include <string.h>

void mf_realize(const mf_realizer *r, const mf_plan *p, mf_verdict *out)
{
	mf_sink sink = mf_sink_null();

	mf_emit(r->emitter, p, NAN, &sink);
	out->rule = sink.rule;
	if (sink.rule != MF_RULE_NONE && !r->always_memory) {
		out->probe = false;
		out->memory = (mf_memory){NAN, NAN, 0, 0, 0};
		return;
	}
	mf_cost_memory(r->cost, p, &out->memory);
	if (sink.rule == MF_RULE_NONE && !out->memory.fits)
		out->rule = MF_RULE_MEMORY;
	out->probe = out->rule == MF_RULE_NONE && out->memory.probe;
}

static void explain_memory(const mf_plan *p, const mf_memory *m, mf_refusal *out)
{
	const double needed_gb = m->total_bytes / MF_GB, budget_gb = m->budget_bytes / MF_GB;
	/* One decimal reads well but must not print a refusal as "72.0 GB needed, 72.0 GB budget". */
	const int decimals = fabs(needed_gb - budget_gb) < 0.1 ? 3 : 1;

	out->stage = "memory gate";
	out->boundary = p->phase != MF_TRAIN ? "memory" : p->sharding == MF_FSDP ? "B7" : "B4";
	out->rule = "memory";
	out->kind = mf_choice_name(mf_kind_choices, MF_INVALID_VALUE);
	out->exception = "";
	snprintf(out->reason, sizeof(out->reason),
		"%.*f GB needed, %.*f GB budget a GPU: %.*f GB too much on pipeline stage %u", decimals, needed_gb,
		decimals, budget_gb, decimals, needed_gb - budget_gb, m->worst_stage);
}

mf_status mf_realize_explain(const mf_realizer *r, const mf_plan *p, mf_refusal *out)
{
	mf_sink sink = mf_sink_null();

	*out = (mf_refusal){"", "", "", "", "", ""};
	mf_emit(r->emitter, p, NAN, &sink);
	if (sink.rule != MF_RULE_NONE) {
		const mf_rule *rule = mf_rule_get(sink.rule);
		mf_buf text = MF_BUF_INIT;

		mf_sink_reason(&sink, &text);
		const bool failed = text.failed;
		snprintf(out->reason, sizeof(out->reason), "%s", mf_buf_text(&text));
		mf_buf_dispose(&text);
		out->stage = rule->stage;
		out->boundary = rule->boundary;
		out->rule = rule->id;
		out->kind = mf_choice_name(mf_kind_choices, rule->kind);
		out->exception = rule->exception;
		return failed ? MF_ENOMEM : MF_OK;
	}

	mf_memory memory;
	mf_cost_memory(r->cost, p, &memory);
	if (!memory.fits)
		explain_memory(p, &memory, out);
	return MF_OK;
}

/* The paper's serving plan has no replicas: its data-parallel width is all that tp and pp leave of the world, and its
 * emitter raises unless that equals ep (paper, section IV-A). */
static bool paper_refuses_serving(const mf_plan *p, uint32_t world, uint32_t *width)
{
	const uint32_t span = (uint32_t)p->tp * p->cp * p->pp;

	*width = span && world % span == 0 ? world / span : 0;
	return *width != p->ep;
}

void mf_paper_note(const mf_plan *p, const mf_inputs *in, char out[256])
{
	const uint32_t world = mf_cluster_world(in->cluster);

	out[0] = '\0';
	if (p->phase == MF_SERVE) {
		uint32_t width;
		if (paper_refuses_serving(p, world, &width))
			snprintf(out, 256,
				"the paper's emitter refuses this plan (B5): its data-parallel width %u differs from "
				"ep %u",
				width, p->ep);
		return;
	}
	if (p->schedule == MF_1F1B && p->overlap && p->ep <= 1) {
		snprintf(out, 256,
			"the paper's emitter lets overlap without expert parallelism pass; Megatron refuses it");
		return;
	}
	if (p->schedule == MF_1F1B && !p->first_layers && !p->last_layers && !p->stage_layout && p->pp > 1 &&
		in->model->layers % p->pp != 0)
		snprintf(out, 256,
			"the paper's emitter lets %u layers on pp%u pass under 1f1b; they fail at launch (B2)",
			in->model->layers, p->pp);
}

#define FAMILY(id, title, layer)                                                                                       \
	{                                                                                                              \
		id, title, layer, "refused by the emit dry run"                                                        \
	}
const mf_boundary mf_boundaries[] = {
	{"B1", "DualPipe schedule not emittable (Megatron core 0.18.0)", "tooling / emit",
		"refused by the emit dry run: the toolchain has no such scheduler"},
	{"B2", "layer count does not divide the pipeline depth", "tooling / emit and launch",
		"refused by the emit dry run for every schedule; uneven stages are a plan dimension"},
	{"B3", "ZeRO stage unmapped, out of memory without the distributed optimizer", "tooling / launch",
		"cleared: the emitter writes the distributed optimizer; superseded by B4"},
	{"B4", "expert optimizer state sharded over expert data parallelism alone", "cost model / memory",
		"ruled by the memory gate in both ledgers"},
	{"B5", "serving data-parallel width must equal ep", "tooling / emit",
		"narrower than the toolchain: attention DP and replicas express such plans; noted, not refused"},
	{"B6", "memory beyond weights and optimizer was not counted", "cost model / launch",
		"counted line by line by the full ledger; a launch probe stands behind it"},
	{"B7", "FSDP all-gather buffer was not counted", "cost model / launch",
		"counted by the full ledger; a launch probe stands behind it"},
	{"B8", "offload and overlap contend; overlap tables used outside their domain", "cost model / schedule",
		"priced by a penalty with its domain, never refused"},
	{"memory", "memory of the worst pipeline stage exceeds the card's budget", "cost model / memory",
		"ruled by the memory gate after the emit dry run"},
	{"plan", "a plan the toolchain has no words for", "tooling / emit",
		"refused by the emit dry run; no argv exists"},
	FAMILY("mcore.W", "Megatron: world size and process groups", "toolchain / parse and groups"),
	FAMILY("mcore.B", "Megatron: global batch and micro-batches", "toolchain / batch"),
	FAMILY("mcore.P", "Megatron: layers, pipeline and virtual stages", "toolchain / parse and config"),
	FAMILY("mcore.H", "Megatron: shape and attention", "toolchain / parse and config"),
	FAMILY("mcore.M", "Megatron: router, experts and dispatcher", "toolchain / config and model build"),
	FAMILY("mcore.E", "Megatron: expert-parallel overlap", "toolchain / config"),
	FAMILY("mcore.R", "Megatron: recompute, offload and CUDA graphs", "toolchain / config"),
	FAMILY("mcore.T", "Megatron: multi-token prediction", "toolchain / parse and model build"),
	FAMILY("mcore.O", "Megatron: optimizer and data-parallel wrapper", "toolchain / parse and optimizer config"),
	FAMILY("mcore.F", "Megatron: Megatron-FSDP", "toolchain / parse and wrap"),
	FAMILY("mcore.Q", "Megatron: precision", "toolchain / parse and config"),
	FAMILY("mcore.I", "Megatron: implementation of the layers", "toolchain / model build"),
	FAMILY("mcore.D", "Megatron: data and length of the run", "toolchain / parse"),
	FAMILY("mcore.X", "Megatron: fused losses", "toolchain / parse"),
	FAMILY("te", "Transformer Engine: shapes and GPUs of low-precision GEMMs", "toolchain / first forward"),
	FAMILY("sglang.A", "SGLang: parse and basic sizes", "toolchain / parse and pre-launch"),
	FAMILY("sglang.D", "SGLang: data parallelism and DP attention", "toolchain / post-init and pre-launch"),
	FAMILY("sglang.C", "SGLang: context parallelism and MoE data parallelism", "toolchain / post-init"),
	FAMILY("sglang.M", "SGLang: MoE runner against quantization and ep", "toolchain / post-init and model build"),
	FAMILY("sglang.X", "SGLang: all-to-all backends", "toolchain / post-init and model build"),
	FAMILY("sglang.E", "SGLang: expert balancing and redundant experts", "toolchain / post-init and pre-load"),
	FAMILY("sglang.B", "SGLang: batch overlap", "toolchain / post-init"),
	FAMILY("sglang.G", "SGLang: CUDA graphs", "toolchain / post-init and graph capture"),
	FAMILY("sglang.S", "SGLang: speculative decoding", "toolchain / post-init"),
	FAMILY("sglang.K", "SGLang: attention backend, KV type and page size", "toolchain / post-init"),
	FAMILY("sglang.L", "SGLang: launcher, nodes and process groups", "toolchain / launcher and dist-init"),
	FAMILY("sglang.W", "SGLang: model build and quantization blocks", "toolchain / model build"),
	FAMILY("sglang.R", "SGLang: memory pool", "toolchain / memory pool"),
	FAMILY("sglang.T", "SGLang: prefill and decode apart", "toolchain / post-init"),
	{NULL, NULL, NULL, NULL},
};
#undef FAMILY
