/*
 * sglang.c: the guards of SGLang in the order in which it judges a plan, and its command. The plan's attention tp, cp and
 * dp multiply to --tp-size; expert parallelism lives inside it. Facts that no plan of a search changes are settled once.
 */
#include "emit_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the model's family has in SGLang. */
struct family {
	const char *model_type;
	bool locations;    /* declares expert-location info (E04) */
	bool pipeline;     /* forward takes pipeline proxies (W23) */
	bool moe_tp_only;  /* W20 compares the MoE tp */
	bool checks_tp;    /* W20 at all */
	bool redundancy;   /* adds --ep-num-redundant-experts to its experts */
	bool deepep;       /* builds the experts' class that knows DeepEP's formats (X17), else the plain one (M16) */
	bool whole_heads;  /* cuts heads by --tp-size even under attention DP */
	bool expert_width; /* config.json says moe_intermediate_size (W08) */
	enum { OVERLAP_NONE, OVERLAP_FAILS, OVERLAP_WORKS } overlap;
};

#define Y true
#define N false
static const struct family families[] = {
	/* model_type, locations, pipeline, moe_tp_only, checks_tp, redundancy, deepep, whole_heads, expert_width, overlap */
	{"deepseek_v2", Y, Y, N, Y, Y, Y, N, Y, OVERLAP_WORKS},
	{"deepseek_v3", Y, Y, N, Y, Y, Y, N, Y, OVERLAP_WORKS},
	{"kimi_k2", Y, Y, N, Y, Y, Y, N, Y, OVERLAP_WORKS},
	{"qwen3_moe", Y, Y, Y, Y, Y, Y, N, Y, OVERLAP_WORKS},
	{"qwen3_vl_moe_text", Y, Y, Y, Y, Y, Y, N, Y, OVERLAP_WORKS},
	{"qwen2_moe", Y, Y, N, Y, Y, Y, N, Y, OVERLAP_FAILS},
	{"glm4_moe", Y, Y, N, Y, Y, Y, N, Y, OVERLAP_FAILS},
	{"glm4_moe_lite", Y, Y, N, Y, Y, Y, N, Y, OVERLAP_FAILS},
	{"gpt_oss", Y, Y, N, N, Y, Y, N, N, OVERLAP_NONE},
	{"minimax_m2", Y, Y, N, Y, Y, Y, N, N, OVERLAP_FAILS},
	{"mixtral", N, Y, N, N, N, N, Y, N, OVERLAP_NONE},
	{"llama4_text", N, N, N, N, N, N, N, N, OVERLAP_NONE},
	{"olmoe", N, N, N, N, N, N, Y, N, OVERLAP_NONE},
	{"phimoe", N, N, N, N, N, N, Y, N, OVERLAP_NONE},
};
static const struct family dense_family = {"", N, Y, N, N, N, N, N, N, OVERLAP_NONE};
#undef Y
#undef N

struct mf_sglang_facts {
	const struct family *family;
	uint32_t vocab64, shared, ffn, bn, bk;
	bool bf16, block, fp8, gpt_oss, fp8_filled, first_version, later_version, hybrid;
	bool auto_trtllm; /* without an all-to-all backend the engine chooses flashinfer_trtllm (M12) */
	uint32_t page;    /* of the attention backend SGLang chooses on this GPU */
	uint32_t chunk_default, max_graph;
	char served[256];
};

mf_status mf_sglang_facts_new(struct mf_emitter *e, mf_err *err)
{
	struct mf_sglang_facts *f = calloc(1, sizeof *f);
	const mf_model *m = e->in.model;
	double card = e->in.cluster->device_bytes / MF_GIB;
	const char *path;

	if (!f)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	f->family = &dense_family;
	for (size_t i = 0; i < MF_COUNT(families); i++)
		if (strcmp(families[i].model_type, m->model_type) == 0)
			f->family = &families[i];
	f->vocab64 = (m->vocab + 63) / 64 * 64;
	f->shared = m->shared_ffn;
	f->ffn = mf_model_dense_layers(m) ? m->ffn : 0;
	f->block = m->quant == MF_QUANT_FP8_BLOCK;
	f->bn = m->quant_block_n;
	f->bk = m->quant_block_k;
	f->fp8 = f->block || m->quant == MF_QUANT_FP8;
	f->bf16 = m->quant == MF_QUANT_NONE;
	f->hybrid = mf_model_hybrid(m);
	f->gpt_oss = strcmp(m->model_type, "gpt_oss") == 0;
	f->fp8_filled = e->in.cluster->sm >= 100 && (m->quant == MF_QUANT_FP8 || f->block) && f->family->locations &&
			!f->gpt_oss;
	f->first_version = e->in.stack->toolchain == MF_SGLANG_0514;
	f->later_version = e->in.stack->toolchain == MF_SGLANG_0516;
	f->auto_trtllm = e->in.cluster->sm / 10 == 10 && f->family->locations && !f->gpt_oss &&
			 f->family->expert_width && strcmp(m->model_type, "qwen2_moe") != 0;
	f->page = e->in.cluster->sm / 10 == 10 ? 64 : 1;
	f->chunk_default = card < 35 ? 2048 : card < 60 ? 4096 : card < 160 ? 8192 : 16384;
	f->max_graph = card < 20 ? 8 : card < 35 ? 80 : card < 60 ? 160 : 512;
	path = e->in.site && e->in.site->model_path[0] ? e->in.site->model_path : m->path[0] ? m->path : m->name;
	snprintf(f->served, sizeof f->served, "%s", path);
	e->sglang = f;
	return MF_OK;
}

void mf_sglang_facts_free(struct mf_sglang_facts *f)
{
	free(f);
}

/* Sizes of one plan. */
struct step {
	uint32_t dp, n, mtp, nodes, replicas, moe_dp, chunk, dense_tp;
	bool a2a, low_latency;
};

#define GUARD(condition, rule, ...)                                                                                    \
	do {                                                                                                           \
		if ((condition) && MF_REFUSE(s, rule, ##__VA_ARGS__))                                                  \
			return true;                                                                                   \
	} while (0)

static bool guard_words(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	GUARD(p->schedule != MF_1F1B, MF_R_SGL_PLAN_SCHEDULE);
	GUARD(p->kernel, MF_R_SGL_PLAN_KERNEL);
	GUARD(p->sm_budget, MF_R_SGL_PLAN_SM);
	GUARD(p->comm_kind != MF_COMM_STREAM, MF_R_SGL_PLAN_COMM);
	GUARD(e->sglang->hybrid, MF_R_SGL_MODEL_HYBRID);
	GUARD(e->in.stack->engine != MF_ENGINE_SGLANG, MF_R_SGL_STACK_ENGINE);
	GUARD(e->in.workload->draft_tokens, MF_R_SGL_WORK_DRAFT);
	GUARD(!st->dp, MF_R_SGL_PLAN_WORLD, (int64_t)p->tp * p->cp * p->pp * st->replicas, e->world);
	GUARD(st->replicas > 1 && st->dp > 1, MF_R_SGL_PLAN_REPLICAS, st->replicas, st->dp);
	return false;
}

static bool guard_post_init(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	bool fixed_ep = p->runner == MF_RUN_FLASHINFER_CUTLASS || p->runner == MF_RUN_FLASHINFER_CUTEDSL;

	GUARD(f->gpt_oss && p->runner == MF_RUN_TRITON_KERNEL && p->ep != 1, MF_R_SGL_M14);
	GUARD(st->dp > 1 && st->chunk < st->dp, MF_R_SGL_D05, st->chunk, st->dp);
	GUARD(e->in.model->attention == MF_MLA && p->cp > 1 &&
			!(p->a2a == MF_A2A_DEEPEP && p->ep == st->n && p->tp == 1),
		MF_R_SGL_C16, st->n / st->dp, st->n);
	GUARD(p->cp > 1 && st->n % (st->replicas * p->cp), MF_R_SGL_C04);
	if (st->moe_dp > 1) {
		GUARD(st->n % st->moe_dp, MF_R_SGL_C05);
		GUARD((uint32_t)p->ep * st->moe_dp > st->n, MF_R_SGL_C06);
		GUARD(p->pp != 1, MF_R_SGL_C07);
		GUARD(p->ep > 1 && (uint32_t)p->ep * st->moe_dp != st->n, MF_R_SGL_C08);
		GUARD(p->cp != st->moe_dp, MF_R_SGL_C09);
	}
	GUARD(p->runner == MF_RUN_FLASHINFER_CUTLASS && f->fp8_filled, MF_R_SGL_M01);
	GUARD(p->runner == MF_RUN_FLASHINFER_CUTEDSL && e->in.model->quant != MF_QUANT_NVFP4,
		f->first_version   ? MF_R_SGL_M03_OLD
		: f->later_version ? MF_R_SGL_M03_NEW
				   : MF_R_SGL_M03);
	GUARD(fixed_ep && p->ep != 1 && p->ep != st->n, MF_R_SGL_M02);
	GUARD(p->runner == MF_RUN_FLASHINFER_CUTEDSL && (p->a2a == MF_A2A_MOONCAKE || p->a2a == MF_A2A_NIXL),
		MF_R_SGL_M04);
	GUARD(p->runner == MF_RUN_CUTLASS && f->fp8_filled && p->ep != 1, MF_R_SGL_M07);
	GUARD(st->a2a && p->ep != st->n, MF_R_SGL_X01, st->n, p->ep);
	GUARD(p->a2a == MF_A2A_DEEPEP && p->deepep_mode == MF_DM_NORMAL && p->graph == MF_GRAPH_FULL, MF_R_SGL_X03);
	if (p->a2a == MF_A2A_FLASHINFER) {
		GUARD(!(st->dp > 1 && st->dp == st->n), MF_R_SGL_X04);
		GUARD(!fixed_ep, f->first_version ? MF_R_SGL_X05_OLD : MF_R_SGL_X05);
	}
	/* pre-launch */
	GUARD(st->n * p->pp % st->nodes, MF_R_SGL_A03);
	GUARD(st->replicas > 1 && st->nodes > 1, MF_R_SGL_A07);
	GUARD(st->chunk / st->dp % f->page, MF_R_SGL_A12);
	GUARD(p->overlap && !st->a2a && (st->dp == 1 || f->first_version),
		f->first_version ? MF_R_SGL_B01_OLD : MF_R_SGL_B01);
	/* launcher, dist-init */
	GUARD(p->ep > st->n, MF_R_SGL_X10);
	GUARD(p->pp % st->nodes && st->nodes % p->pp, MF_R_SGL_L01, p->pp, st->nodes);
	GUARD(st->n % ((uint32_t)p->ep * st->moe_dp), MF_R_SGL_X11);
	return false;
}

/* Block-quantized linears: merged or tp-cut outputs in whole blocks of block_n, tp-cut inputs in whole blocks of block_k. */
static bool guard_blocks(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	const mf_model *m = e->in.model;
	bool whole = p->tp == st->n && st->n > 1;
	uint32_t width = f->shared && !st->a2a ? f->shared / st->n : f->shared, dense = f->ffn / st->dense_tp;

	if (m->attention == MF_MLA) {
		uint32_t q = m->heads / p->tp * (m->qk_nope + m->qk_rope),
			 kv = m->heads / p->tp * (m->qk_nope + m->v_dim);

		GUARD(whole && q % f->bn, MF_R_SGL_W10, q, f->bn);
		GUARD(whole && kv % f->bn, MF_R_SGL_W10, kv, f->bn);
		GUARD(whole && m->heads / p->tp * m->v_dim % f->bk, MF_R_SGL_W09, m->heads / p->tp * m->v_dim, f->bk);
	} else {
		uint32_t q = m->heads / p->tp * m->head_dim,
			 kv = (m->kv_heads > p->tp ? m->kv_heads / p->tp : 1) * m->head_dim;

		GUARD(q % f->bn, MF_R_SGL_W10, q, f->bn);
		GUARD(kv % f->bn, MF_R_SGL_W10, kv, f->bn);
		GUARD(whole && q % f->bk, MF_R_SGL_W09, q, f->bk);
	}
	if (f->ffn) {
		GUARD(dense % f->bn, MF_R_SGL_W10, dense, f->bn);
		GUARD(st->dense_tp > 1 && dense % f->bk, MF_R_SGL_W09, dense, f->bk);
	}
	if (m->experts) {
		uint32_t expert = m->moe_ffn / st->mtp;

		/* FlashInfer's TensorRT-LLM runner pads the experts to 128 (W03). */
		if (p->runner == MF_RUN_FLASHINFER_TRTLLM || (f->auto_trtllm && !st->a2a && p->runner == MF_RUN_AUTO))
			expert = (expert + 127) / 128 * 128;
		GUARD(expert % f->bn, MF_R_SGL_W04, expert, f->bn);
		GUARD(st->n > 1 && expert % f->bk, MF_R_SGL_W05, expert, f->bk);
	}
	GUARD(f->shared && width % f->bn, MF_R_SGL_W10, width, f->bn);
	GUARD(f->shared && !st->a2a && st->n > 1 && width % f->bk, MF_R_SGL_W09, width, f->bk);
	return false;
}

static bool deepep_class(const mf_plan *p)
{
	return p->a2a == MF_A2A_DEEPEP || p->a2a == MF_A2A_MOONCAKE || p->a2a == MF_A2A_NIXL;
}

/* A runner that has no function for an all-to-all backend; each pair has its own text. */
static mf_rule_id unfused(const mf_plan *p)
{
	static const mf_rule_id trtllm[] = {MF_RULE_NONE, MF_R_SGL_M15_TRTLLM_DEEPEP, MF_R_SGL_M15_TRTLLM_MOONCAKE,
		MF_R_SGL_M15_TRTLLM_NIXL, MF_R_SGL_M15_TRTLLM_FLASHINFER};
	static const mf_rule_id cutlass[] = {MF_RULE_NONE, MF_R_SGL_M15_CUTLASS_DEEPEP, MF_R_SGL_M15_CUTLASS_MOONCAKE,
		MF_R_SGL_M15_CUTLASS_NIXL, MF_RULE_NONE};

	return p->runner == MF_RUN_FLASHINFER_TRTLLM    ? trtllm[p->a2a]
	       : p->runner == MF_RUN_FLASHINFER_CUTLASS ? cutlass[p->a2a]
							: MF_RULE_NONE;
}

static bool guard_runner(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;

	GUARD(f->bf16 && (p->runner == MF_RUN_MARLIN || p->runner == MF_RUN_CUTLASS ||
				 p->runner == MF_RUN_FLASHINFER_MXFP4),
		MF_R_SGL_M15_DROP);
	if (st->a2a && (f->bf16 || (f->fp8 && p->runner == MF_RUN_FLASHINFER_TRTLLM)))
		GUARD(unfused(p), unfused(p));
	/* NVFP4 experts take FlashInfer's TensorRT-LLM runner on Blackwell where none is asked for. */
	if (st->a2a && e->in.model->quant == MF_QUANT_NVFP4 && e->in.cluster->sm / 10 == 10) {
		mf_plan built = *p;

		if (built.runner == MF_RUN_AUTO)
			built.runner = MF_RUN_FLASHINFER_TRTLLM;
		GUARD(unfused(&built), unfused(&built));
	}
	GUARD(p->a2a == MF_A2A_DEEPEP && !e->in.stack->deepep, MF_R_SGL_X12);
	GUARD(p->a2a == MF_A2A_MOONCAKE && p->deepep_mode != MF_DM_LOW_LATENCY, MF_R_SGL_X15);
	GUARD(p->a2a == MF_A2A_NIXL && p->deepep_mode != MF_DM_LOW_LATENCY, MF_R_SGL_X15_NIXL);
	if (deepep_class(p) && !f->bf16 && f->family->deepep && !e->in.stack->deep_gemm) {
		GUARD(p->deepep_mode == MF_DM_AUTO, MF_R_SGL_X16);
		GUARD(p->deepep_mode == MF_DM_LOW_LATENCY, MF_R_SGL_X16_LOW);
	}
	return false;
}

/* What the dispatched tokens meet: DeepEP's formats go to DeepGEMM alone. */
static bool guard_dispatched(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	static const uint32_t hidden[] = {2048, 2560, 4096, 5120, 6144, 7168, 8192};
	const struct mf_sglang_facts *f = e->sglang;
	const mf_model *m = e->in.model;
	bool low = p->deepep_mode == MF_DM_LOW_LATENCY, known = false;
	bool deep_gemm =
		p->runner == MF_RUN_DEEP_GEMM || (p->runner == MF_RUN_AUTO && f->fp8 && e->in.stack->deep_gemm);

	GUARD(f->gpt_oss && p->a2a == MF_A2A_DEEPEP, MF_R_SGL_X22);
	if (f->bf16 && f->family->deepep) {
		bool built = p->a2a == MF_A2A_DEEPEP && p->runner == MF_RUN_DEEP_GEMM;

		GUARD(!low && (!built || p->deepep_mode == MF_DM_NORMAL), MF_R_SGL_X17);
		GUARD(low && !built, MF_R_SGL_X17_LOW);
	} else if (!deep_gemm) {
		GUARD(p->runner == MF_RUN_TRITON_KERNEL, low ? MF_R_SGL_M16_KERNEL_LOW : MF_R_SGL_M16_KERNEL);
		GUARD(true, low ? MF_R_SGL_M16_LOW : MF_R_SGL_M16);
	}
	for (size_t i = 0; i < MF_COUNT(hidden); i++)
		known |= m->hidden == hidden[i];
	GUARD(st->low_latency && (!known || m->topk > 11 || (st->n >= 8 && st->n % 8)), MF_R_SGL_X20, m->hidden,
		m->topk, st->n);
	GUARD(low && st->chunk / st->dp / p->tp > 128, MF_R_SGL_X19, st->chunk / st->dp / p->tp);
	return false;
}

static bool guard_first_request(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;

	/* The fp8 method builds no runner for these, and the first token asks for it. */
	GUARD(f->fp8 && (p->runner == MF_RUN_FLASHINFER_CUTLASS || p->runner == MF_RUN_FLASHINFER_MXFP4 ||
				p->runner == MF_RUN_TRITON_KERNEL || p->runner == MF_RUN_MARLIN),
		MF_R_SGL_M15_NONE);
	GUARD(f->fp8 && deepep_class(p) && p->runner == MF_RUN_CUTLASS,
		p->deepep_mode == MF_DM_LOW_LATENCY ? MF_R_SGL_M16_CUTLASS_LOW : MF_R_SGL_M16_CUTLASS);
	if (deepep_class(p) && guard_dispatched(e, p, st, s))
		return true;
	if (p->overlap) {
		GUARD(f->family->overlap == OVERLAP_FAILS, MF_R_SGL_B02);
		GUARD(f->family->overlap == OVERLAP_NONE, MF_R_SGL_B02_IGNORED);
		GUARD(!st->a2a && p->ep > 1, MF_R_SGL_B03);
		GUARD(p->a2a == MF_A2A_FLASHINFER && p->ep > 1, MF_R_SGL_B03_FLASHINFER);
	}
	GUARD(p->redundant && !f->family->redundancy, MF_R_SGL_E21);
	GUARD(p->redundant && !st->a2a && p->ep > 1 && !f->later_version, MF_R_SGL_E20);
	return false;
}

static bool guard_layout(const struct mf_emitter *e, const mf_plan *p, mf_sink *s)
{
	uint16_t counts[MF_MAX_LAYERS];
	const char *text = p->stage_layout ? mf_intern_text(e->in.intern, p->stage_layout) : NULL;
	size_t n;
	int64_t sum = 0;

	if (!text)
		return false;
	n = mf_stage_layout_parse(text, counts, MF_COUNT(counts));
	for (size_t i = 0; i < n; i++)
		sum += counts[i];
	GUARD(n != p->pp || sum != e->in.model->layers, MF_R_SGL_W22, (int64_t)n, sum, p->pp, e->in.model->layers);
	return false;
}

static bool guard_build(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	const mf_model *m = e->in.model;
	uint32_t slots = m->experts + (f->family->redundancy ? p->redundant : 0), embed_tp = st->dp > 1 ? p->tp : st->n,
		 w20;
	uint32_t heads_tp = f->family->whole_heads ? st->n : p->tp;

	/* pre-load */
	GUARD(m->experts && f->family->locations && slots % p->ep, MF_R_SGL_E04);
	GUARD(p->redundant && p->ep >= 3 && p->ep < st->nodes, MF_R_SGL_E06);
	if (guard_layout(e, p, s))
		return true;
	GUARD(f->vocab64 % embed_tp, MF_R_SGL_W19, f->vocab64, embed_tp);
	GUARD(f->vocab64 % st->n, MF_R_SGL_W19, f->vocab64, st->n);
	if (m->attention == MF_MLA) {
		GUARD(m->heads % p->tp, MF_R_SGL_W18);
	} else {
		GUARD(m->heads % heads_tp, MF_R_SGL_W16);
		GUARD(m->kv_heads % heads_tp && heads_tp % m->kv_heads, MF_R_SGL_W17);
	}
	w20 = f->family->moe_tp_only ? st->mtp : st->n;
	GUARD(m->experts && f->family->checks_tp && w20 > m->experts, MF_R_SGL_W20, w20, m->experts);
	GUARD(f->ffn % st->dense_tp, MF_R_SGL_W15, f->ffn, st->dense_tp);
	GUARD(f->shared && !st->a2a && f->shared % st->n, MF_R_SGL_W15, f->shared, st->n);
	if (m->experts) {
		GUARD(slots % p->ep, MF_R_SGL_W01);
		GUARD(m->moe_ffn % st->mtp, MF_R_SGL_W02);
	}
	if (f->block && guard_blocks(e, p, st, s))
		return true;
	if (m->experts && guard_runner(e, p, st, s))
		return true;
	GUARD(f->block && m->experts && f->family->expert_width && m->moe_ffn / st->mtp % f->bn, MF_R_SGL_W08,
		m->moe_ffn, st->mtp, f->bn, st->n, p->ep);
	GUARD(p->pp > 1 && !f->family->pipeline, MF_R_SGL_W23);
	return m->experts && guard_first_request(e, p, st, s);
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

/* Captured decode batch of a rank: the workload's share, in whole multiples of what a captured size must divide by. */
static uint32_t graph_batch(const struct mf_emitter *e, const mf_plan *p, const struct step *st)
{
	uint32_t share = (e->in.workload->concurrency + st->replicas * st->dp - 1) / (st->replicas * st->dp);
	uint32_t unit = (p->overlap ? 2 : 1) * (st->dp > 1 || st->a2a ? p->tp : 1), n;

	if (st->low_latency && share > 128u * p->tp)
		share = 128u * p->tp;
	if (share > e->sglang->max_graph)
		share = e->sglang->max_graph;
	n = (share + unit - 1) / unit * unit;
	return n ? n : unit;
}

static void write_site(const struct mf_emitter *e, const struct step *st, const mf_plan *p, mf_sink *s)
{
	const mf_site *site = e->in.site;

	s->part = MF_PART_SITE;
	mf_arg2(s, "--host", site && site->host[0] ? site->host : "127.0.0.1");
	mf_arg_int(s, "--port", site && site->port ? site->port : 30000);
	if (st->nodes > 1) {
		char address[192];

		snprintf(address, sizeof address, "%s:%u",
			site && site->master_addr[0] ? site->master_addr : "127.0.0.1",
			site && site->master_port ? site->master_port : 20000);
		mf_arg2(s, "--dist-init-addr", address);
		/* Every node runs the command with its own number; sbatch scripts fill it in. */
		mf_arg2(s, "--node-rank", "0");
	}
	(void)p;
	s->part = MF_PART_PLAN;
}

/* "14x2-15" as SGLang reads it: 14,14,15. */
static void write_partition(const char *layout, mf_sink *s)
{
	uint16_t counts[MF_MAX_LAYERS];
	size_t n = mf_stage_layout_parse(layout, counts, MF_COUNT(counts));
	mf_buf text = MF_BUF_INIT;

	for (size_t i = 0; i < n; i++)
		mf_buf_printf(&text, "%s%u", i ? "," : "", counts[i]);
	mf_env(s, "SGLANG_PP_LAYER_PARTITION", mf_buf_text(&text));
	mf_buf_dispose(&text);
}

static void write_command(
	const struct mf_emitter *e, const mf_plan *p, const struct step *st, double fraction, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	const mf_workload *w = e->in.workload;
	uint32_t requests = w->concurrency / st->replicas, length = w->input_tokens + w->output_tokens;
	const char *map = p->expert_map ? mf_intern_text(e->in.intern, p->expert_map) : NULL;

	s->part = MF_PART_SITE;
	mf_arg(s, e->in.site && e->in.site->python[0] ? e->in.site->python : "python3");
	s->part = MF_PART_PLAN;
	mf_arg2(s, "-m", "sglang.launch_server");
	s->part = MF_PART_SITE;
	mf_arg2(s, "--model-path", f->served);
	s->part = MF_PART_PLAN;
	if (strcmp(e->in.model->model_type, "kimi_k2") == 0)
		mf_arg(s, "--trust-remote-code");
	mf_arg_int(s, "--tp-size", st->n);
	if (p->pp > 1)
		mf_arg_int(s, "--pp-size", p->pp);
	if (st->dp > 1) {
		mf_arg_int(s, "--dp-size", st->dp);
		mf_arg(s, "--enable-dp-attention");
	} else if (st->replicas > 1) {
		mf_arg_int(s, "--dp-size", st->replicas);
	}
	if (p->ep > 1)
		mf_arg_int(s, "--ep-size", p->ep);
	if (st->moe_dp > 1)
		mf_arg_int(s, "--moe-dp-size", st->moe_dp);
	if (p->cp > 1) {
		mf_arg_int(s, "--attn-cp-size", p->cp);
		mf_arg(s, "--enable-prefill-cp");
		mf_arg2(s, "--cp-strategy", "zigzag");
	}
	if (st->a2a)
		mf_arg2(s, "--moe-a2a-backend", mf_choice_name(mf_a2a_choices, p->a2a));
	if (p->deepep_mode != MF_DM_AUTO)
		mf_arg2(s, "--deepep-mode", mf_choice_name(mf_deepep_mode_choices, p->deepep_mode));
	if (p->runner != MF_RUN_AUTO)
		mf_arg2(s, "--moe-runner-backend", mf_choice_name(mf_runner_choices, p->runner));
	if (p->redundant) {
		mf_arg_int(s, "--ep-num-redundant-experts", p->redundant);
		mf_arg2(s, "--ep-dispatch-algorithm", "dynamic");
	}
	if (map)
		mf_arg2(s, "--init-expert-location", map);
	if (p->overlap)
		mf_arg(s, "--enable-two-batch-overlap");
	if (p->stage_layout && s->collect)
		write_partition(mf_intern_text(e->in.intern, p->stage_layout), s);
	if (p->prefill_chunk)
		mf_arg_int(s, "--chunked-prefill-size", p->prefill_chunk * 256);
	if (!isnan(fraction))
		mf_arg_double(s, "--mem-fraction-static", fraction);
	mf_arg_int(s, "--max-running-requests", requests > st->dp ? requests : st->dp);
	if (p->graph == MF_GRAPH_OFF)
		mf_arg2(s, "--cuda-graph-backend-decode", "disabled");
	else
		mf_arg_int(s, "--cuda-graph-max-bs-decode", graph_batch(e, p, st));
	if (w->fp8_kv)
		mf_arg2(s, "--kv-cache-dtype", "fp8_e4m3");
	if (length + 8 < e->in.model->max_positions)
		mf_arg_int(s, "--context-length", length + 8);
	if (st->nodes > 1)
		mf_arg_int(s, "--nnodes", st->nodes);
	write_site(e, st, p, s);
}

void mf_sglang_emit(const struct mf_emitter *e, const mf_plan *p, double memory_fraction, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	struct step st;
	uint32_t node = e->in.cluster->gpus_per_node, engine;

	st.replicas = p->replicas ? p->replicas : 1;
	st.moe_dp = p->moe_dp ? p->moe_dp : 1;
	st.dp = mf_plan_dp(p, e->world);
	st.a2a = p->a2a != MF_A2A_NONE;
	st.low_latency = (p->a2a == MF_A2A_DEEPEP || p->a2a == MF_A2A_MOONCAKE || p->a2a == MF_A2A_NIXL) &&
			 p->deepep_mode != MF_DM_NORMAL;
	st.chunk = p->prefill_chunk ? p->prefill_chunk * 256u : f->chunk_default;
	if (guard_words(e, p, &st, s))
		return;
	if (!st.dp)
		return;
	st.n = (uint32_t)p->tp * p->cp * st.dp;
	engine = st.n * p->pp * st.replicas;
	st.nodes = (engine + node - 1) / node;
	st.mtp = mf_plan_etp(p, e->world);
	/* Prefill context parallelism of an MLA model leaves its dense layers whole on every GPU. */
	st.dense_tp = p->cp > 1 && e->in.model->attention == MF_MLA ? 1 : st.n;
	if (guard_post_init(e, p, &st, s))
		return;
	/* Degrees that do not divide were refused; a forced walk has no build to judge then, but a command to show. */
	if (st.mtp && guard_build(e, p, &st, s))
		return;
	if (s->collect && (s->rule == MF_RULE_NONE || !mf_rule_unspeakable(s->rule)))
		write_command(e, p, &st, memory_fraction, s);
}
