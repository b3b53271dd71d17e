/*
 * sglang.c: the guards of SGLang in the order in which it judges a plan, and its command. The plan's attention tp, cp and
 * dp multiply to --tp-size; expert parallelism lives inside it. Facts that no plan of a search changes are settled once.
 */
#include "emit_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the model's family has in SGLang. */
enum {
	LOCATIONS = 1,      /* declares expert-location info (E04) */
	PIPELINE = 2,       /* forward takes pipeline proxies (W23) */
	CHECKS_TP = 4,      /* W20 at all */
	MOE_TP_ONLY = 8,    /* W20 compares the MoE tp */
	REDUNDANCY = 16,    /* adds --ep-num-redundant-experts to its experts */
	DEEPEP = 32,        /* builds the experts' class that knows DeepEP's formats (X17), else the plain one (M16) */
	WHOLE_HEADS = 64,   /* cuts heads by --tp-size even under attention DP */
	EXPERT_WIDTH = 128, /* config.json says moe_intermediate_size (W08) */
	ATTENTION_DP = 256, /* gathers tokens between attention and the feed-forward part (D13) */
	PREFILL_CP = 512,   /* cuts prompts over context-parallel ranks (C22) */
	FILLED = 1024,      /* on SM100 the engine takes quantization and the TensorRT-LLM runner by itself (M12) */
	OVERLAP_WORKS = 2048,  /* two-batch overlap: its layers are known (B02) */
	OVERLAP_FAILS = 4096,  /* called, but its layers are not known */
	MLA_BLACKWELL = 8192,  /* on SM100 the engine chooses the paged MLA kernels */
	FUSES_SHARED = 65536,  /* at ep 1 its shared experts are slots of the routed ones, as those of DeepSeek */
	ROUTES_ITSELF = 32768, /* tells its experts no top-k */
	ALL_EXPERTS = 16384,   /* gives experts to every layer, whatever the file says */
	LIKE_DEEPSEEK = LOCATIONS | PIPELINE | CHECKS_TP | REDUNDANCY | DEEPEP | EXPERT_WIDTH | ATTENTION_DP
};
struct family {
	const char *model_type;
	unsigned has;
};
static const struct family families[] = {
	{"deepseek_v2", LIKE_DEEPSEEK | OVERLAP_WORKS},
	{"deepseek_v3", LIKE_DEEPSEEK | OVERLAP_WORKS | PREFILL_CP | FILLED | MLA_BLACKWELL},
	{"kimi_k2", LIKE_DEEPSEEK | OVERLAP_WORKS | PREFILL_CP | FILLED | MLA_BLACKWELL},
	{"qwen3_moe", LIKE_DEEPSEEK | MOE_TP_ONLY | ALL_EXPERTS | OVERLAP_WORKS | PREFILL_CP | FILLED},
	{"qwen3_vl_moe_text", LIKE_DEEPSEEK | MOE_TP_ONLY | ALL_EXPERTS | OVERLAP_WORKS | PREFILL_CP | FILLED},
	{"qwen2_moe", LIKE_DEEPSEEK | ALL_EXPERTS | OVERLAP_FAILS},
	{"glm4_moe", (LIKE_DEEPSEEK & ~REDUNDANCY) | OVERLAP_FAILS | FILLED | FUSES_SHARED},
	{"glm4_moe_lite", LIKE_DEEPSEEK | OVERLAP_FAILS},
	{"gpt_oss", LOCATIONS | PIPELINE | REDUNDANCY | DEEPEP | ATTENTION_DP},
	{"minimax_m2", LOCATIONS | PIPELINE | CHECKS_TP | REDUNDANCY | DEEPEP | ATTENTION_DP | OVERLAP_FAILS},
	{"mixtral", PIPELINE | WHOLE_HEADS},
	{"llama4_text", ATTENTION_DP | ROUTES_ITSELF},
	{"olmoe", WHOLE_HEADS | ROUTES_ITSELF},
	{"phimoe", 0},
	{"qwen3", PIPELINE | ATTENTION_DP},
};
static const struct family dense_family = {"", PIPELINE | WHOLE_HEADS};

static bool has(const struct family *f, unsigned what)
{
	return (f->has & what) != 0;
}

struct mf_sglang_facts {
	const struct family *family;
	uint32_t vocab64, shared, ffn, bn, bk;
	bool bf16, block, fp8, gpt_oss, fp8_filled, first_version, later_version, hybrid;
	bool uncovered;        /* the checkpoint's format is none whose rules are here */
	uint32_t dense_layers; /* that the engine would give experts to */
	bool mxfp4;            /* gpt-oss with the experts it is published with */
	bool deep_gemm;        /* installed, and the GPU is one that it has kernels for */
	bool triton_value;     /* the attention backend asks every stage for the values of layer 0 (K16) */
	bool dense_first;      /* the first layer is no MoE layer */
	bool auto_trtllm;      /* without an all-to-all backend the engine chooses flashinfer_trtllm (M12) */
	uint32_t page;         /* of the attention backend SGLang chooses on this GPU */
	uint32_t chunk_default, max_graph;
	char served[256];
};

mf_status mf_sglang_facts_new(struct mf_emitter *e, mf_err *err)
{
	struct mf_sglang_facts *f = calloc(1, sizeof *f);
	const mf_model *m = e->in.model;
	double card = e->in.cluster->device_bytes / MF_GIB;
	const char *path;
	bool blackwell;

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
	f->mxfp4 = f->gpt_oss && m->quant == MF_QUANT_MXFP4;
	f->uncovered = !f->bf16 && !f->fp8 && !f->mxfp4;
	if (has(f->family, ALL_EXPERTS) && m->experts)
		f->dense_layers = mf_model_dense_layers(m);
	blackwell = e->in.cluster->sm / 10 == 10;
	f->fp8_filled = blackwell && f->fp8 && has(f->family, FILLED);
	f->first_version = e->in.stack->toolchain == MF_SGLANG_0514;
	f->later_version = e->in.stack->toolchain == MF_SGLANG_0516;
	/* GLM-4 MoE takes it for bf16 weights alone. */
	f->auto_trtllm = blackwell && has(f->family, FILLED) && (f->bf16 || strcmp(m->model_type, "glm4_moe") != 0);
	f->page = blackwell && (m->attention != MF_MLA || has(f->family, MLA_BLACKWELL)) ? 64 : 1;
	f->deep_gemm = e->in.stack->deep_gemm && e->in.cluster->sm >= 90 && e->in.cluster->sm != 120;
	f->triton_value = (m->attention == MF_MLA || f->gpt_oss) && e->in.cluster->sm / 10 != 9 && !blackwell;
	f->dense_first = m->layers && !m->moe_layer[0];
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
	/* What is known of a format that is not covered comes first: NVFP4 experts take FlashInfer's TensorRT-LLM runner on
	 * Blackwell where none is asked for, and it has no function for an all-to-all backend. */
	if (st->a2a && e->in.model->quant == MF_QUANT_NVFP4 && e->in.cluster->sm / 10 == 10) {
		mf_plan built = *p;

		if (built.runner == MF_RUN_AUTO)
			built.runner = MF_RUN_FLASHINFER_TRTLLM;
		GUARD(unfused(&built), unfused(&built));
	}
	GUARD(e->sglang->uncovered, MF_R_SGL_MODEL_QUANT);
	GUARD(e->sglang->dense_layers, MF_R_SGL_MODEL_DENSE, e->sglang->dense_layers);
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
	GUARD(e->in.model->attention == MF_MLA && has(f->family, PREFILL_CP) && p->cp > 1 &&
			!(p->a2a == MF_A2A_DEEPEP && p->ep == st->n && p->tp == 1 && st->replicas == 1),
		MF_R_SGL_C16, st->n / (st->dp * st->replicas), st->n);
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
		: f->fp8_filled    ? MF_R_SGL_M03_FP8
				   : MF_R_SGL_M03);
	GUARD(fixed_ep && p->ep != 1 && p->ep != st->n, MF_R_SGL_M02);
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
static bool guard_attention_blocks(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	const mf_model *m = e->in.model;
	uint32_t tp = has(f->family, WHOLE_HEADS) ? st->n : p->tp;
	bool whole = tp == st->n && st->n > 1;

	if (m->attention == MF_MLA) {
		uint32_t q = m->heads / tp * (m->qk_nope + m->qk_rope), kv = m->heads / tp * (m->qk_nope + m->v_dim);

		GUARD(whole && q % f->bn, MF_R_SGL_W10, q, f->bn);
		GUARD(whole && kv % f->bn, MF_R_SGL_W10, kv, f->bn);
		GUARD(whole && m->heads / tp * m->v_dim % f->bk, MF_R_SGL_W09, m->heads / tp * m->v_dim, f->bk);
	} else {
		uint32_t q = m->heads / tp * m->head_dim, kv = (m->kv_heads > tp ? m->kv_heads / tp : 1) * m->head_dim;

		GUARD(q % f->bn, MF_R_SGL_W10, q, f->bn);
		GUARD(kv % f->bn, MF_R_SGL_W10, kv, f->bn);
		GUARD(whole && q % f->bk, MF_R_SGL_W09, q, f->bk);
	}
	return false;
}

/* A feed-forward part of one width, cut `tp` ways: merged gate and up, then down. */
static bool guard_mlp(const struct mf_sglang_facts *f, uint32_t width, uint32_t tp, mf_sink *s)
{
	GUARD(width % tp, MF_R_SGL_W14);
	if (!f->block)
		return false;
	GUARD(width / tp % f->bn, MF_R_SGL_W10, width / tp, f->bn);
	GUARD(tp > 1 && width / tp % f->bk, MF_R_SGL_W09, width / tp, f->bk);
	return false;
}

static bool deepep_class(const mf_plan *p)
{
	return p->a2a == MF_A2A_DEEPEP || p->a2a == MF_A2A_MOONCAKE || p->a2a == MF_A2A_NIXL;
}

/* One MoE layer, in the order in which its constructor asks. */
static bool guard_experts(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	const mf_model *m = e->in.model;
	uint32_t slots = m->experts + (has(f->family, REDUNDANCY) ? p->redundant : 0), sm = e->in.cluster->sm,
		 w20 = has(f->family, MOE_TP_ONLY) ? st->mtp : st->n, width;
	bool trtllm = p->runner == MF_RUN_FLASHINFER_TRTLLM || (f->auto_trtllm && !st->a2a && p->runner == MF_RUN_AUTO);
	static const mf_rule_id marlin[] = {MF_RULE_NONE, MF_R_SGL_M15_MARLIN_DEEPEP, MF_R_SGL_M15_MARLIN_MOONCAKE,
		MF_R_SGL_M15_MARLIN_NIXL, MF_RULE_NONE};
	static const mf_rule_id mxfp4[] = {MF_RULE_NONE, MF_R_SGL_M15_MXFP4_DEEPEP, MF_R_SGL_M15_MXFP4_MOONCAKE,
		MF_R_SGL_M15_MXFP4_NIXL, MF_RULE_NONE};

	GUARD(has(f->family, CHECKS_TP) && w20 > m->experts, MF_R_SGL_W20, w20, m->experts);
	GUARD(slots % p->ep, MF_R_SGL_W01);
	GUARD(m->moe_ffn % st->mtp, MF_R_SGL_W02);
	if (f->fp8 && p->runner == MF_RUN_CUTLASS) {
		GUARD(sm < 89, MF_R_SGL_M21_OLD);
		GUARD(!f->block, MF_R_SGL_M21_BLOCK);
		GUARD(sm < 90, MF_R_SGL_M21_SM);
	}
	GUARD(f->mxfp4 && p->runner == MF_RUN_FLASHINFER_MXFP4 && sm / 10 != 9 && sm / 10 != 10, MF_R_SGL_M22);
	if (f->block) {
		width = m->moe_ffn / st->mtp;
		/* FlashInfer's TensorRT-LLM runner pads the experts to 128 (W03). */
		if (trtllm)
			width = (width + 127) / 128 * 128;
		GUARD(width % f->bn, MF_R_SGL_W04, width, f->bn);
		GUARD(st->n > 1 && width % f->bk, MF_R_SGL_W05, width, f->bk);
	}
	GUARD(f->bf16 && (p->runner == MF_RUN_MARLIN || p->runner == MF_RUN_CUTLASS ||
				 p->runner == MF_RUN_FLASHINFER_MXFP4),
		MF_R_SGL_M15_DROP);
	if (f->mxfp4 && st->a2a && p->a2a != MF_A2A_FLASHINFER) {
		GUARD(p->runner == MF_RUN_MARLIN, marlin[p->a2a]);
		GUARD(p->runner == MF_RUN_FLASHINFER_MXFP4 && sm / 10 == 9, mxfp4[p->a2a]);
	}
	if (st->a2a && (f->bf16 || (f->fp8 && p->runner == MF_RUN_FLASHINFER_TRTLLM)))
		GUARD(unfused(p), unfused(p));
	GUARD(p->a2a == MF_A2A_FLASHINFER && has(f->family, ROUTES_ITSELF), MF_R_SGL_X26);
	GUARD(p->a2a == MF_A2A_DEEPEP && !e->in.stack->deepep, MF_R_SGL_X12);
	GUARD(p->a2a == MF_A2A_MOONCAKE && p->deepep_mode != MF_DM_LOW_LATENCY, MF_R_SGL_X15);
	GUARD(p->a2a == MF_A2A_NIXL && p->deepep_mode != MF_DM_LOW_LATENCY, MF_R_SGL_X15_NIXL);
	if (deepep_class(p) && has(f->family, DEEPEP) && !f->deep_gemm) {
		GUARD(f->bf16 && p->runner == MF_RUN_DEEP_GEMM && p->a2a == MF_A2A_DEEPEP &&
				p->deepep_mode != MF_DM_NORMAL,
			MF_R_SGL_X16_BF16);
		GUARD(!f->bf16 && p->deepep_mode == MF_DM_AUTO, MF_R_SGL_X16);
		GUARD(!f->bf16 && p->deepep_mode == MF_DM_LOW_LATENCY, MF_R_SGL_X16_LOW);
	}
	/* Shared experts stand whole on every GPU under an all-to-all backend. */
	if (has(f->family, FUSES_SHARED) && p->ep == 1 && !st->a2a && !trtllm)
		return false;
	return f->shared && guard_mlp(f, f->shared, st->a2a ? 1 : st->n, s);
}

/* What the dispatched tokens meet: DeepEP's formats go to DeepGEMM alone. */
static bool guard_dispatched(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	static const uint32_t hidden[] = {2048, 2560, 4096, 5120, 6144, 7168, 8192};
	const struct mf_sglang_facts *f = e->sglang;
	const mf_model *m = e->in.model;
	bool low = p->deepep_mode == MF_DM_LOW_LATENCY, known = false;
	bool deep_gemm = p->runner == MF_RUN_DEEP_GEMM || (p->runner == MF_RUN_AUTO && f->fp8 && f->deep_gemm);

	if (f->bf16 && has(f->family, DEEPEP)) {
		bool built = p->a2a == MF_A2A_DEEPEP && p->runner == MF_RUN_DEEP_GEMM;

		GUARD(!low && (!built || p->deepep_mode == MF_DM_NORMAL), MF_R_SGL_X17);
		GUARD(low && !built, MF_R_SGL_X17_LOW);
	} else if (!deep_gemm) {
		GUARD(p->runner == MF_RUN_TRITON_KERNEL, low ? MF_R_SGL_M16_KERNEL_LOW : MF_R_SGL_M16_KERNEL);
		GUARD(true, low ? MF_R_SGL_M16_LOW : MF_R_SGL_M16);
	} else if (!f->deep_gemm) {
		GUARD(p->a2a == MF_A2A_DEEPEP && !low, MF_R_SGL_X18);
	}
	GUARD(p->overlap && has(f->family, OVERLAP_FAILS), MF_R_SGL_B02);
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

	GUARD(p->overlap && has(f->family, OVERLAP_FAILS) &&
			(!deepep_class(p) || (f->fp8 && p->runner == MF_RUN_CUTLASS)),
		MF_R_SGL_B02);
	GUARD(p->overlap && !has(f->family, OVERLAP_FAILS | OVERLAP_WORKS), MF_R_SGL_B02_IGNORED);
	GUARD(p->overlap && !st->a2a && p->ep > 1, MF_R_SGL_B03);
	GUARD(f->gpt_oss && p->a2a == MF_A2A_DEEPEP, MF_R_SGL_X22);
	/* What the DeepEP class does not hand on to its runner it no longer computes itself. */
	if (deepep_class(p) && has(f->family, DEEPEP) && !f->bf16 && !(f->fp8 && f->deep_gemm))
		GUARD(true, p->deepep_mode == MF_DM_LOW_LATENCY ? MF_R_SGL_X17_LOW : MF_R_SGL_X18_FP8);
	/* The fp8 and mxfp4 methods build no runner for these, and the first token asks for it. */
	GUARD(f->mxfp4 && (p->runner == MF_RUN_FLASHINFER_CUTLASS || p->runner == MF_RUN_FLASHINFER_TRTLLM ||
				  p->runner == MF_RUN_DEEP_GEMM || p->runner == MF_RUN_CUTLASS),
		MF_R_SGL_M15_NONE_MXFP4);
	GUARD(f->fp8 && (p->runner == MF_RUN_FLASHINFER_CUTLASS || p->runner == MF_RUN_FLASHINFER_MXFP4 ||
				p->runner == MF_RUN_TRITON_KERNEL || p->runner == MF_RUN_MARLIN),
		MF_R_SGL_M15_NONE);
	GUARD(f->fp8 && deepep_class(p) && p->runner == MF_RUN_CUTLASS,
		p->deepep_mode == MF_DM_LOW_LATENCY ? MF_R_SGL_M16_CUTLASS_LOW : MF_R_SGL_M16_CUTLASS);
	if (deepep_class(p) && guard_dispatched(e, p, st, s))
		return true;
	GUARD(p->runner == MF_RUN_DEEP_GEMM && !f->deep_gemm, MF_R_SGL_M20);
	GUARD(p->overlap && p->a2a == MF_A2A_FLASHINFER && p->ep > 1, MF_R_SGL_B03_FLASHINFER);
	GUARD(p->redundant && !has(f->family, REDUNDANCY), MF_R_SGL_E21);
	GUARD(p->redundant && !st->a2a && p->ep > 1 && !f->later_version, MF_R_SGL_E20);
	return false;
}

/* Layers of every stage; then whether the values of layer 0 can be had on each, counted from the stage's first layer. */
static bool guard_stages(const struct mf_emitter *e, const mf_plan *p, mf_sink *s)
{
	uint16_t counts[MF_MAX_LAYERS];
	const char *text = p->stage_layout ? mf_intern_text(e->in.intern, p->stage_layout) : NULL;
	uint32_t layers = e->in.model->layers;
	size_t n = text ? mf_stage_layout_parse(text, counts, MF_COUNT(counts)) : 0;
	int64_t sum = 0;

	GUARD(layers < p->pp, MF_R_SGL_W28);
	if (text) {
		for (size_t i = 0; i < n; i++)
			sum += counts[i];
		GUARD(n != p->pp, MF_R_SGL_W22, (int64_t)n, p->pp);
		GUARD(sum != layers, MF_R_SGL_W22_SUM, sum, layers);
	}
	return false;
}

/* Does a later stage begin beyond its own number of layers? The last layers go to the last stages. */
static bool value_missing(const struct mf_emitter *e, const mf_plan *p)
{
	uint16_t counts[MF_MAX_LAYERS];
	const char *text = p->stage_layout ? mf_intern_text(e->in.intern, p->stage_layout) : NULL;
	uint32_t layers = e->in.model->layers, start = 0;

	if (text)
		mf_stage_layout_parse(text, counts, MF_COUNT(counts));
	for (uint32_t i = 0; i < p->pp && i < MF_MAX_LAYERS; i++) {
		uint32_t count = text ? counts[i] : layers / p->pp + (i >= p->pp - layers % p->pp);

		if (start > count)
			return true;
		start += count;
	}
	return false;
}

static bool guard_build(const struct mf_emitter *e, const mf_plan *p, const struct step *st, mf_sink *s)
{
	const struct mf_sglang_facts *f = e->sglang;
	const mf_model *m = e->in.model;
	uint32_t slots = m->experts + p->redundant,
		 embed_tp = st->dp > 1 && has(f->family, ATTENTION_DP) ? p->tp : st->n,
		 heads_tp = has(f->family, WHOLE_HEADS) ? st->n : p->tp;

	/* pre-load */
	GUARD(m->experts && has(f->family, LOCATIONS) && slots % p->ep, MF_R_SGL_E04);
	GUARD(p->redundant && has(f->family, LOCATIONS) && p->ep >= 3 && p->ep < st->nodes, MF_R_SGL_E06);
	/* The embedding, then layer by layer, then the head. */
	GUARD(f->vocab64 % embed_tp, MF_R_SGL_W19, f->vocab64, embed_tp);
	if (has(f->family, PIPELINE) && guard_stages(e, p, s))
		return true;
	if (m->attention == MF_MLA) {
		GUARD(m->heads % heads_tp, MF_R_SGL_W18);
	} else {
		GUARD(m->heads % heads_tp, MF_R_SGL_W16);
		GUARD(m->kv_heads % heads_tp && heads_tp % m->kv_heads, MF_R_SGL_W17);
	}
	if (f->block && guard_attention_blocks(e, p, st, s))
		return true;
	if (f->ffn && f->dense_first && guard_mlp(f, f->ffn, st->dense_tp, s))
		return true;
	GUARD(m->attention == MF_MLA && p->cp > 1 && !has(f->family, PREFILL_CP) && st->dp > 1, MF_R_SGL_C23);
	if (m->experts && guard_experts(e, p, st, s))
		return true;
	if (f->ffn && !f->dense_first && guard_mlp(f, f->ffn, st->dense_tp, s))
		return true;
	GUARD(f->vocab64 % st->n, MF_R_SGL_W19, f->vocab64, st->n);
	GUARD(f->block && m->experts && has(f->family, EXPERT_WIDTH) && m->moe_ffn / st->mtp % f->bn, MF_R_SGL_W08,
		m->moe_ffn, st->mtp, f->bn, st->n, p->ep);
	GUARD(p->pp > 1 && !has(f->family, PIPELINE), MF_R_SGL_W23);
	GUARD(f->mxfp4 && p->runner == MF_RUN_MARLIN && e->in.cluster->sm / 10 != 9 && e->in.cluster->sm / 10 != 12,
		MF_R_SGL_M23);
	if (f->triton_value && p->pp > 1) {
		GUARD(f->gpt_oss, MF_R_SGL_K16_WINDOW);
		GUARD(value_missing(e, p), MF_R_SGL_K16);
	}
	if (m->experts && guard_first_request(e, p, st, s))
		return true;
	GUARD(st->dp > 1 && !has(f->family, ATTENTION_DP), MF_R_SGL_D13);
	GUARD(p->cp > 1 && !has(f->family, PREFILL_CP), MF_R_SGL_C22);
	return false;
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

/* Captured decode batch of a rank: the workload's share, in whole multiples of what a captured size must divide by. */
static uint32_t graph_batch(const struct mf_emitter *e, const mf_plan *p, const struct step *st)
{
	uint32_t share = (e->in.workload->concurrency + st->replicas * st->dp - 1) / (st->replicas * st->dp);
	uint32_t unit = (p->overlap ? 2 : 1) * (st->dp > 1 || st->a2a ? p->tp : 1), n;

	if (unit % p->cp)
		unit *= p->cp;
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
	st.dense_tp = p->cp > 1 && e->in.model->attention == MF_MLA && has(f->family, PREFILL_CP) ? 1 : st.n;
	if (guard_post_init(e, p, &st, s))
		return;
	/* Degrees that do not divide were refused; a forced walk has no build to judge then, but a command to show. */
	if (st.mtp && guard_build(e, p, &st, s))
		return;
	if (s->collect && (s->rule == MF_RULE_NONE || !mf_rule_unspeakable(s->rule)))
		write_command(e, p, &st, memory_fraction, s);
}
