/* golden.c: see golden.h. */
#include "golden.h"

#include <string.h>

enum {
	GPT,
	GPT_SWIGLU,
	GPT_SHARED,
	GPT_ROPE,
	MLA_16,
	MLA_15,
	FSDP_8,
	FSDP_2,
	V3_PROXY,
	MIXTRAL_22,
	MIXTRAL_7,
	MIXTRAL_7_256K,
	LIGHTNING,
	LIGHTNING_14,
	SUPER
};

#define MLA_LARGE .q_lora = 1536, .kv_lora = 512, .qk_nope = 128, .qk_rope = 64, .v_dim = 128
#define MLA_SMALL .q_lora = 256, .kv_lora = 128, .qk_nope = 128, .qk_rope = 64, .v_dim = 128

const mf_golden_shape mf_golden_shapes[] = {
	[GPT] = {"gpt", .heads = 8, .vocab = 50257, .learned_positions = 1024, .tied = true},
	[GPT_SWIGLU] = {"gpt, gated", .heads = 8, .vocab = 50257, .learned_positions = 1024, .tied = true,
		.gated = true},
	[GPT_SHARED] = {"gpt, shared expert", .heads = 8, .vocab = 50257, .learned_positions = 1024, .tied = true,
		.shared = 512},
	[GPT_ROPE] = {"gpt, rotary", .heads = 8, .vocab = 50257, .shared = 512, .dense_layers = 4},
	[MLA_16] = {"mla", .heads = 32, .ffn = 4096, MLA_LARGE, .shared = 1024, .dense_layers = 1, .vocab = 50257,
		.vocab_multiple = 3232, .gated = true},
	[MLA_15] = {"mla, three dense layers", .heads = 32, .ffn = 4096, MLA_LARGE, .shared = 1024, .dense_layers = 3,
		.vocab = 50257, .vocab_multiple = 3232, .gated = true},
	[FSDP_8] = {"mla, fsdp", .heads = 8, .ffn = 2048, MLA_SMALL, .shared = 1024, .dense_layers = 3, .vocab = 50257,
		.vocab_multiple = 64, .gated = true},
	[FSDP_2] = {"mla, fsdp, two layers", .heads = 8, .ffn = 2048, MLA_SMALL, .shared = 1024, .dense_layers = 1,
		.vocab = 50257, .vocab_multiple = 64, .gated = true},
	[V3_PROXY] = {"deepseek-v3 proxy", .heads = 128, .ffn = 18432, MLA_LARGE, .shared = 2048, .dense_layers = 3,
		.vocab = 256000, .vocab_multiple = 3232, .gated = true},
	[MIXTRAL_22] = {"mixtral 8x22b", .heads = 48, .kv_heads = 8, .head_dim = 128, .ffn = 16384, .vocab = 32000,
		.gated = true},
	[MIXTRAL_7] = {"mixtral 8x7b", .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .vocab = 32000,
		.gated = true},
	[MIXTRAL_7_256K] = {"mixtral 8x7b, 256k words", .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336,
		.vocab = 256000, .gated = true},
	[LIGHTNING] = {"nemotron 3.5 lightning", .heads = 32, .kv_heads = 2, .head_dim = 128, .ffn = 1856,
		.shared = 3712, .vocab = 50257, .mamba_heads = 64, .mamba_head_dim = 64,
		.pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"},
	[LIGHTNING_14] = {"nemotron 3.5 lightning, 14 layers", .heads = 8, .kv_heads = 2, .head_dim = 64, .ffn = 512,
		.shared = 1024, .vocab = 50257, .mamba_heads = 16, .mamba_head_dim = 64, .pattern = "MEMEM*EMEMEM*E"},
	[SUPER] = {"nemotron 3 super", .heads = 32, .kv_heads = 2, .head_dim = 128, .ffn = 2688, .shared = 5376,
		.vocab = 131072, .mamba_heads = 128, .mamba_head_dim = 64,
		.pattern = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"},
};

/* The small tests: dropout of 0.1 as when nothing is said, no fused wgrad, and a fixed cuBLAS workspace. */
#define SMALL (MF_GOLD_DROPOUT | MF_GOLD_WGRAD | MF_GOLD_CUBLAS)
#define NO_DROPOUT (MF_GOLD_WGRAD | MF_GOLD_CUBLAS)
#define LIGHT (MF_GOLD_NATIVE | MF_GOLD_BF16_GRADS | MF_GOLD_MTP_REPEATED)

static const mf_golden tests[] = {
	{"deepseekv3_proxy_flex_tp1pp4emp16etp1cp1", V3_PROXY, MF_GOLD_NATIVE, "2x6-1x2", 64},
	{"deepseekv3_proxy_flex_tp2pp2emp16etp1cp1_gb_200", V3_PROXY, MF_GOLD_NATIVE, "7x2", 32},
	{"mixtral_8x22b_tp2pp8ep8vpp1", MIXTRAL_22, 0, NULL, 128},
	{"mixtral_8x7b_alltoall_tp2pp4ep4", MIXTRAL_7_256K, 0, NULL, 128},
	{"mixtral_8x7b_tp1pp4ep8vpp8", MIXTRAL_7, 0, NULL, 64},
	{"deepseek_proxy_fsdp_ep2_fsdp2", FSDP_8, MF_GOLD_UNFUSED | MF_GOLD_WGRAD | MF_GOLD_FP8_PARAMS, NULL, 0},
	{"deepseek_proxy_fsdp_ep2_fsdp2_1node", FSDP_2, MF_GOLD_UNFUSED | MF_GOLD_WGRAD | MF_GOLD_FP8_PARAMS, NULL, 0},
	{"deepseek_proxy_fsdp_ep2_fsdp2_ep_overlap", FSDP_2, MF_GOLD_UNFUSED | MF_GOLD_WGRAD, NULL, 0},
	{"gpt3_mcore_", GPT, SMALL, NULL, 0},
	{"gpt3_moe_mcore_te_", GPT, SMALL, NULL, 0},
	{"gpt3_mcore_cp2_pp2_ep2_te_4experts2parallel_nondeterministic", GPT, NO_DROPOUT, NULL, 0},
	{"gpt3_mcore_te_tp1_pp1_te_4experts_groupedGEMM_op_fuser", GPT_SWIGLU, SMALL, NULL, 0},
	{"gpt3_mcore_te_tp1_pp2_resume_torch_dist_reshard_2x1x4_te_8experts2parallel_dist_optimizer", GPT,
		MF_GOLD_DROPOUT | MF_GOLD_WGRAD, NULL, 0},
	{"gpt3_mcore_te_tp2_pp1_resume_torch_dist_te_8experts2parallel_multi_dist_optimizer_instances", GPT,
		SMALL | MF_GOLD_INSTANCES, NULL, 0},
	{"gpt3_mcore_te_tp2_pp1_te_", GPT, SMALL | MF_GOLD_UNFUSED, NULL, 0},
	{"gpt3_mcore_te_tp2_pp1_te_a2a_ovlp_", GPT, SMALL | MF_GOLD_UNFUSED, NULL, 0},
	{"gpt3_mcore_tp2_pp2_ep2_", GPT, SMALL | MF_GOLD_UNFUSED, NULL, 0},
	{"gpt3_mcore_te_tp2_pp2_ep4_etp1_", MLA_16, MF_GOLD_UNFUSED | MF_GOLD_NATIVE, NULL, 0},
	{"gpt3_mcore_te_tp2_pp2_ep4_etp1_selective_recompute_experimental", MLA_15, MF_GOLD_UNFUSED | MF_GOLD_NATIVE,
		"3-2x6-1", 0},
	{"gpt3_moe_mcore_te_tp2_pp2_ep4_etp1_", MLA_15, MF_GOLD_UNFUSED | MF_GOLD_CUBLAS, "3-2x6-0", 0},
	{"gpt3_moe_mcore_te_tp4_ep2_etp2_pp2_resume", GPT_SHARED, SMALL, NULL, 0},
	{"gpt3_moe_mcore_te_tp4_ep2_etp2_pp2_scoped_cudagraph", GPT_ROPE, NO_DROPOUT, "1-2x6-0", 0},
	{"nemotron3_5_lightning_nightly", LIGHTNING, LIGHT, NULL, 0},
	{"nemotron3_5_lightning_no_load_optim", LIGHTNING_14, LIGHT, NULL, 0},
	{"nemotron3_super_release", SUPER, MF_GOLD_NATIVE | MF_GOLD_BF16_GRADS | MF_GOLD_FP8_PARAMS, NULL, 0},
};

const mf_golden *mf_golden_find(const char *name)
{
	const char *slash = strrchr(name, '/');
	const mf_golden *best = NULL;

	name = slash ? slash + 1 : name;
	for (size_t i = 0; i < MF_COUNT(tests); i++)
		if (strncmp(name, tests[i].test, strlen(tests[i].test)) == 0 &&
			(!best || strlen(tests[i].test) > strlen(best->test)))
			best = &tests[i];
	return best;
}
