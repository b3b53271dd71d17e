/* Models: published parameter counts, what each family implies, and what is refused. */
#include "plan.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mf_model built_in(const char *name)
{
	mf_model m;
	mf_err err = {0};

	cr_assert_eq(mf_model_load(&m, name, &err), MF_OK, "%s: %s", name, err.msg);
	return m;
}

static mf_status from_json(mf_model *m, const char *json, mf_err *err)
{
	mf_doc doc;
	mf_status st = mf_doc_parse_json(&doc, "config.json", json, strlen(json), err);

	if (st < 0)
		return st;
	st = mf_model_from_doc(m, &doc, err);
	mf_doc_dispose(&doc);
	return st;
}

static mf_model model_of(const char *json)
{
	mf_model m;
	mf_err err = {0};

	cr_assert_eq(from_json(&m, json, &err), MF_OK, "%s: %s in %s", err.field, err.msg, json);
	return m;
}

static void refused(const char *json, const char *field)
{
	mf_model m;
	mf_err err = {0};

	cr_expect_eq(from_json(&m, json, &err), MF_EINPUT, "accepted: %s", json);
	cr_expect_str_eq(err.field, field, "%s: %s", json, err.msg);
	cr_expect_str_eq(err.file, "config.json");
	cr_expect_gt(err.line, 0);
}

Test(model, totals_are_as_published)
{
	static const struct {
		const char *name;
		double total, active;
	} published[] = {
		{"deepseek-v2-lite", 15706484224, 0},
		{"deepseek-v3", 671.03e9, 37.55e9},
		{"kimi-k2", 1026.4e9, 0},
		{"mixtral-8x7b", 46702792704, 12.88e9},
		{"mixtral-8x22b", 140.63e9, 39.15e9},
		{"qwen3-30b-a3b", 30.532e9, 3.35e9},
		{"qwen3-235b-a22b", 235.09e9, 22.19e9},
		{"gpt-oss-120b", 116.83e9, 0},
		{"glm-4.5-air", 106.85e9, 0},
		{"olmoe", 6.919e9, 0},
		{"llama-3.1-8b", 8030261248, 8030261248},
		/* to the digits their cards give */
		{"nemotron-3-nano-30b-a3b", 31.58e9, 3.58e9},
		{"nemotron-3-super-120b-a12b", 120.7e9, 12.77e9},
		{"qwen3-next-80b-a3b", 79.67e9, 0},
		{"qwen3.5-35b-a3b", 34.66e9, 0},
		{"qwen2-57b-a14b", 57.41e9, 14.25e9},
		{"gpt-oss-20b", 20.91e9, 0},
		{"llama4-scout", 107.77e9, 17.17e9},
		{"moonlight-16b-a3b", 15.96e9, 0},
		{"glm-5.2", 743.9e9, 0},
		{"deepseek-v2", 235.74e9, 0},
		{"qwen3-coder-480b-a35b", 480.15e9, 35.5e9},
		{"llama-3.1-70b", 70.554e9, 70.554e9},
		{"llama-3.1-405b", 405.85e9, 405.85e9},
		{"qwen3-8b", 8.19e9, 0},
		{"qwen3-32b", 32.76e9, 0},
		{"phi-3.5-moe", 41.87e9, 6.64e9},
	};

	for (size_t i = 0; i < MF_COUNT(published); i++) {
		mf_model m = built_in(published[i].name);
		mf_param_count c;

		mf_model_count(&m, &c);
		cr_expect_float_eq(
			(double)c.total / published[i].total, 1, 1e-3, "%s: %llu", m.name, (unsigned long long)c.total);
		if (published[i].active > 0)
			cr_expect_float_eq((double)c.active / published[i].active, 1, 5e-3, "%s active: %llu", m.name,
				(unsigned long long)c.active);
	}
}

/* Where a publisher gives no more digits than the name has. */
Test(model, totals_are_as_named)
{
	static const struct {
		const char *name;
		double total, active;
	} named[] = {{"nemotron-3-ultra-550b-a55b", 550e9, 55e9}, {"qwen3.5-122b-a10b", 122e9, 10e9},
		{"glm-4.7-flash", 30e9, 0}, {"kimi-k2.5", 1.03e12, 32e9}};
	mf_model fine = built_in("mixtral-8x22b-g8t8"), coarse = built_in("mixtral-8x22b");

	for (size_t i = 0; i < MF_COUNT(named); i++) {
		mf_model m = built_in(named[i].name);
		mf_param_count c;

		mf_model_count(&m, &c);
		cr_expect_float_eq((double)c.total / named[i].total, 1, 0.005, "%s", m.name);
		if (named[i].active > 0)
			cr_expect_float_eq((double)c.active / named[i].active, 1, 0.03, "%s", m.name);
	}
	/* Experts cut into eight hold what they held. */
	cr_expect_eq(fine.experts * mf_model_expert_params(&fine), coarse.experts * mf_model_expert_params(&coarse));
}

Test(model, groups_add_up_to_the_total)
{
	for (const char *const *name = mf_builtin_names("models"); *name; name++) {
		mf_model m = built_in(*name);
		mf_param_count c;

		mf_model_count(&m, &c);
		cr_expect_eq(c.total,
			c.embedding + c.head + c.attention + c.recurrent + c.dense_ffn + c.router + c.shared_experts +
				c.routed_experts + c.norms + c.biases,
			"%s", *name);
		cr_expect_leq(c.active, c.total);
		cr_expect_str_eq(m.name, *name);
	}
}

Test(model, deepseek_v2_lite_by_group)
{
	mf_model m = built_in("deepseek-v2-lite");
	mf_param_count c;

	mf_model_count(&m, &c);
	cr_expect_eq(c.total, 15706484224);
	cr_expect_eq(c.routed_experts, 26ull * 64 * 3 * 2048 * 1408);
	cr_expect_eq(c.shared_experts, 26ull * 3 * 2048 * 2816);
	cr_expect_eq(c.dense_ffn, 3ull * 2048 * 10944);
	cr_expect_eq(c.router, 26ull * 64 * 2048);
	cr_expect_eq(c.embedding, 102400ull * 2048);
	cr_expect_eq(c.head, c.embedding);
	cr_expect_eq(c.norms, 27ull * (2 * 2048 + 512) + 2048);
	/* what the paper's ledger calls dense: everything but the routed experts, the embedding and the head */
	cr_expect_float_eq((double)(c.total - c.routed_experts - c.embedding - c.head), 0.892e9, 1e6);
	cr_expect_eq(mf_model_expert_params(&m), 3ull * 2048 * 1408);
}

Test(model, shapes_of_built_in_models)
{
	mf_model v3 = built_in("deepseek-v3"), oss = built_in("gpt-oss-120b"), air = built_in("glm-4.5-air"),
		 olmoe = built_in("olmoe"), llama = built_in("llama-3.1-8b"), mixtral = built_in("mixtral-8x7b");
	mf_param_count c;

	cr_expect(v3.attention == MF_MLA && v3.sigmoid_router && v3.expert_bias && v3.expert_groups == 8 &&
		  v3.expert_group_topk == 4);
	cr_expect(v3.moe_layers == 58 && !v3.moe_layer[2] && v3.moe_layer[3] && v3.mtp_layers == 1 && v3.yarn);
	cr_expect(v3.quant == MF_QUANT_FP8_BLOCK && v3.quant_block_n == 128);
	mf_model_count(&v3, &c);
	cr_expect_float_eq(
		(double)c.mtp / 11.61e9, 1, 1e-3); /* what the MTP layer adds beside shared embedding and head */
	cr_expect(oss.window == 128 && oss.window_layers == 18 && oss.attention_sinks && oss.clamped_glu &&
		  oss.quant == MF_QUANT_MXFP4);
	cr_expect(air.qkv_bias && !air.qk_norm && air.moe_layers == 45);
	cr_expect(olmoe.qk_norm_whole && !olmoe.norm_topk && olmoe.ffn == 0);
	cr_expect(llama.experts == 0 && llama.moe_layers == 0 && llama.ffn == 14336 && llama.kv_heads == 8);
	cr_expect(mixtral.head_dim == 128 && mixtral.norm_topk && !mixtral.sigmoid_router && mixtral.window == 0);
}

#define QWEN3(more)                                                                                                    \
	"{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":8,\"hidden_size\":1024,\"intermediate_size\":4096,"       \
	"\"moe_intermediate_size\":512,\"num_experts\":16,\"num_experts_per_tok\":2,\"num_attention_heads\":16,"       \
	"\"num_key_value_heads\":4,\"vocab_size\":32000,\"max_position_embeddings\":8192" more "}"

Test(model, layers_follow_step_and_lists)
{
	mf_model m = model_of(QWEN3(",\"decoder_sparse_step\":2,\"mlp_only_layers\":[1]"));

	cr_expect(m.moe_layers == 3 && !m.moe_layer[0] && !m.moe_layer[1] && m.moe_layer[3] && m.ffn == 4096);
	cr_expect(m.head_dim == 64 && m.qk_norm && !m.norm_topk);
	m = model_of(QWEN3(",\"sliding_window\":1024,\"max_window_layers\":6"));
	cr_expect_eq(m.window, 0, "a window that is not asked for");
	m = model_of(QWEN3(",\"sliding_window\":1024,\"max_window_layers\":6,\"use_sliding_window\":true"));
	cr_expect(m.window == 1024 && m.window_layers == 2);
}

Test(model, wrappers_are_read_by_their_text_part)
{
	mf_model m = model_of(
		"{\"architectures\":[\"X\"],\"model_type\":\"qwen3_vl_moe\",\"tie_word_embeddings\":true,\"text_"
		"config\":{"
		"\"model_type\":\"qwen3_vl_moe_text\",\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":"
		"64,"
		"\"moe_intermediate_size\":32,\"num_experts\":4,\"num_experts_per_tok\":2,\"num_attention_heads\":2,"
		"\"num_key_value_heads\":1,\"vocab_size\":100,\"max_position_embeddings\":128,"
		"\"rope_parameters\":{\"rope_theta\":5000000,\"rope_type\":\"default\"}}}");

	cr_expect(m.experts == 4 && m.tied_embeddings && m.rope_theta == 5e6 && !m.yarn);
	cr_expect_str_eq(m.architecture, "X");
	m = model_of("{\"model_type\":\"llama4\",\"text_config\":{\"model_type\":\"llama4_text\",\"num_hidden_layers\":"
		     "4,\"hidden_size\":64,"
		     "\"intermediate_size\":32,\"intermediate_size_mlp\":96,\"num_local_experts\":4,\"num_experts_per_"
		     "tok\":1,"
		     "\"interleave_moe_layer_step\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":"
		     "32,\"vocab_size\":100,"
		     "\"max_position_embeddings\":128}}");
	cr_expect(m.moe_layers == 2 && !m.moe_layer[0] && m.moe_layer[1] && m.shared_ffn == 32 && m.ffn == 96 &&
		  m.sigmoid_router);
}

Test(model, quantization_is_recognized)
{
	cr_expect_eq(model_of(QWEN3(",\"quantization_config\":{\"quant_method\":\"fp8\"}")).quant, MF_QUANT_FP8);
	cr_expect_eq(
		model_of(QWEN3(",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,64]}"))
			.quant_block_k,
		64);
	cr_expect_eq(
		model_of(QWEN3(",\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}"))
			.quant,
		MF_QUANT_NVFP4);
	cr_expect_eq(model_of(QWEN3(",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":8}")).quant,
		MF_QUANT_INT8);
	cr_expect_eq(model_of(QWEN3(",\"quantization_config\":{\"quant_method\":\"awq\"}")).quant, MF_QUANT_INT4);
	cr_expect_eq(model_of(QWEN3(",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_"
				    "groups\":{\"group_0\":"
				    "{\"weights\":{\"num_bits\":4,\"type\":\"int\"}}}}"))
			     .quant,
		MF_QUANT_INT4);
	refused(QWEN3(",\"quantization_config\":{\"quant_method\":\"magic\"}"), "quantization_config.quant_method");
	refused(QWEN3(",\"quantization_config\":\"fp8\""), "quantization_config");
	refused(QWEN3(",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}"),
		"weight_block_size");
	refused(QWEN3(",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[0,128]}"),
		"weight_block_size");
}

#define NEMOTRON(pattern, more)                                                                                        \
	"{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":5,\"hidden_size\":64,\"intermediate_size\":96,"          \
	"\"moe_intermediate_size\":32,\"moe_shared_expert_intermediate_size\":48,\"n_routed_experts\":8,"              \
	"\"num_experts_per_tok\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"               \
	"\"mamba_num_heads\":8,\"mamba_head_dim\":16,\"ssm_state_size\":32,\"n_groups\":2,\"conv_kernel\":4,"          \
	"\"vocab_size\":100,\"max_position_embeddings\":128," pattern more "}"

Test(model, split_layers_follow_their_pattern)
{
	mf_model m = model_of(NEMOTRON("\"hybrid_override_pattern\":\"ME*-M\"", ",\"moe_latent_size\":16"));
	mf_model words = model_of(NEMOTRON("\"layers_block_type\":[\"mamba\",\"moe\",\"attention\",\"mlp\",\"mamba\"]",
		",\"moe_latent_size\":16"));
	mf_param_count c;
	uint64_t mamba = 64 * (2 * 128 + 2 * 2 * 32 + 8) + 128 * 64 + 256 * 5 + 3 * 8;

	cr_expect(memcmp(m.mixer, words.mixer, 5) == 0 && memcmp(m.bare_layer, words.bare_layer, 5) == 0 &&
		  memcmp(m.moe_layer, words.moe_layer, 5) == 0);
	cr_expect(m.mamba_layers == 2 && m.mixerless_layers == 2 && m.bare_layers == 3 && m.moe_layers == 1);
	cr_expect(mf_model_attention_layers(&m) == 1 && mf_model_dense_layers(&m) == 1 && mf_model_hybrid(&m));
	cr_expect(!m.gated && m.moe_latent == 16 && m.shared_ffn == 48 && m.ffn == 96);
	mf_model_count(&m, &c);
	cr_expect_eq(c.recurrent, 2 * mamba);
	cr_expect_eq(c.routed_experts, 8 * 2 * 16 * 32);
	cr_expect_eq(c.shared_experts, 2 * 64 * 48 + 2 * 64 * 16);
	cr_expect_eq(c.norms, 6 * 64 + 2 * 128);
	refused(NEMOTRON("\"hybrid_override_pattern\":\"ME*X-\"", ""), "hybrid_override_pattern");
	refused(NEMOTRON("\"hybrid_override_pattern\":\"ME\"", ""), "hybrid_override_pattern");
	refused(NEMOTRON("\"layers_block_type\":[\"mamba\"]", ""), "layers_block_type");
	refused(NEMOTRON("\"hybrid_override_pattern\":\"ME*-M\",\"mlp_hidden_act\":\"silu\"", ""), "mlp_hidden_act");
}

Test(model, hybrids_of_built_in_models)
{
	mf_model next = built_in("qwen3-next-80b-a3b"), super = built_in("nemotron-3-super-120b-a12b"),
		 glm = built_in("glm-5.2"), oss = built_in("gpt-oss-120b");

	cr_expect(next.delta_layers == 36 && mf_model_attention_layers(&next) == 12 && next.moe_layers == 48 &&
		  next.attention_gate && next.mixer[2] == MF_MIX_DELTA && next.mixer[3] == MF_MIX_ATTENTION);
	cr_expect(super.mamba_layers == 40 && super.moe_layers == 40 && mf_model_attention_layers(&super) == 8 &&
		  super.moe_latent == 1024 && mf_model_dense_layers(&super) == 0);
	cr_expect(glm.index_topk == 2048 && mf_model_hybrid(&glm));
	cr_expect(oss.mixer[0] == MF_MIX_WINDOW && oss.mixer[1] == MF_MIX_ATTENTION && !mf_model_hybrid(&oss));
}

Test(model, published_names_are_aliases)
{
	static const char *const pairs[][2] = {{"DeepSeek-V3", "deepseek-v3"},
		{"deepseek-ai/DeepSeek-R1", "deepseek-v3"}, {"Qwen3.6-35B-A3B", "qwen3.5-35b-a3b"},
		{"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"},
		{"GPT-OSS-120B", "gpt-oss-120b"}};

	for (size_t i = 0; i < MF_COUNT(pairs); i++)
		cr_expect_str_eq(built_in(pairs[i][0]).name, pairs[i][1]);
}

/* Owner, case, separators and words that change no shape do not count; a format in the name is the checkpoint's. */
Test(model, names_of_publishers_and_benchmarks)
{
	static const struct {
		const char *name, *model;
		mf_quant quant;
	} names[] = {
		{"Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "qwen3-30b-a3b", MF_QUANT_FP8_BLOCK},
		{"nvidia/Qwen3-30B-A3B-FP4", "qwen3-30b-a3b", MF_QUANT_NVFP4},
		{"Qwen3_30B_a3B", "qwen3-30b-a3b", MF_QUANT_NONE},
		{"Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b", MF_QUANT_NONE},
		{"Qwen3-235B-A22B-Thinking-2507", "qwen3-235b-a22b", MF_QUANT_NONE},
		{"nvidia/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b", MF_QUANT_FP8},
		{"Qwen3-32B-FP8-Static-PerTensor", "qwen3-32b", MF_QUANT_FP8},
		{"DeepSeekV3", "deepseek-v3", MF_QUANT_FP8_BLOCK},
		{"nvidia/DeepSeek-R1-0528-NVFP4-v2", "deepseek-v3", MF_QUANT_NVFP4},
		{"DeepSeek-V3-bf16", "deepseek-v3", MF_QUANT_NONE},
		{"DeepSeek-V3.2-Speciale", "deepseek-v3.2", MF_QUANT_FP8_BLOCK},
		{"GPT OSS 120B", "gpt-oss-120b", MF_QUANT_MXFP4},
		{"gpt-oss-20b-fp4", "gpt-oss-20b", MF_QUANT_MXFP4},
		{"moonshotai/Kimi-K2-Thinking", "kimi-k2.5", MF_QUANT_INT4},
		{"Kimi_K2", "kimi-k2", MF_QUANT_FP8_BLOCK},
		{"zhipuai/GLM-5", "glm-5.2", MF_QUANT_NONE},
		{"MiniMaxAI/MiniMax-M2.7", "minimax-m2.5", MF_QUANT_FP8_BLOCK},
		{"LLaMA v3.3 70B", "llama-3.1-70b", MF_QUANT_NONE},
		{"LLAMA3.1_405B", "llama-3.1-405b", MF_QUANT_NONE},
		{"Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b", MF_QUANT_NONE},
		{"Nemotron_3_5_Lightning", "nemotron-3.5-lightning", MF_QUANT_NONE},
		{"NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "nemotron-3-super-120b-a12b", MF_QUANT_NVFP4},
		{"Nemotron_3_Ultra", "nemotron-3-ultra-550b-a55b", MF_QUANT_NONE},
		{"Mixtral-8x22B-G8T8", "mixtral-8x22b-g8t8", MF_QUANT_NONE},
		{"Llama-2-70B-AWQ", NULL, MF_QUANT_NONE},
		{"Qwen3-30B-A22B", NULL, MF_QUANT_NONE},
		{"Qwen3-3-0B-A3B", NULL, MF_QUANT_NONE},
		{"Qwen3-14B", NULL, MF_QUANT_NONE},
		{"Qwen2.5-32B", NULL, MF_QUANT_NONE},
		{"DeepSeek-V4-Flash", NULL, MF_QUANT_NONE},
		{"DeepSeek-V3-proxy-14L-64E", NULL, MF_QUANT_NONE},
		{"GLM-4.5V", NULL, MF_QUANT_NONE},
		{"Kimi-K3", NULL, MF_QUANT_NONE},
		{"Nemotron-3-Nano-4B", NULL, MF_QUANT_NONE},
		{"DeepSeek-R1-Distill-Llama-70B", NULL, MF_QUANT_NONE},
		{"Instruct-FP8", NULL, MF_QUANT_NONE},
		{"-", NULL, MF_QUANT_NONE},
		{"", NULL, MF_QUANT_NONE},
	};

	for (size_t i = 0; i < MF_COUNT(names); i++) {
		const char *found = mf_model_builtin(names[i].name);
		mf_model m;

		if (!names[i].model) {
			cr_expect_null(found, "%s is no %s", names[i].name, found);
			continue;
		}
		cr_assert_not_null(found, "%s", names[i].name);
		cr_expect_str_eq(found, names[i].model, "%s", names[i].name);
		m = built_in(names[i].name);
		cr_expect_eq(m.quant, names[i].quant, "%s: %d", names[i].name, (int)m.quant);
		cr_expect_eq(m.quant == MF_QUANT_FP8_BLOCK, m.quant_block_n == 128);
	}
}

/* A toolchain must be told the format that was asked for, and reads the same model back. */
Test(model, a_format_in_the_name_reaches_config_json)
{
	static const char *const names[] = {"Qwen3-30B-A3B-FP8", "nvidia/Qwen3-30B-A3B-FP8", "DeepSeek-R1-NVFP4",
		"DeepSeek-V3-bf16", "Qwen3-32B-AWQ", "Qwen3-32B-int8", "Qwen3-32B-mxfp4", "kimi-k2.5"};

	for (size_t i = 0; i < MF_COUNT(names); i++) {
		mf_model m = built_in(names[i]), back;
		mf_buf text = MF_BUF_INIT;
		mf_err err = {0};

		cr_assert_eq(mf_model_config_json(&m, &text, &err), MF_OK, "%s", err.msg);
		back = model_of(mf_buf_text(&text));
		cr_expect_eq(back.quant, m.quant, "%s: %d, not %d", names[i], (int)back.quant, (int)m.quant);
		cr_expect_eq(back.quant_block_k, m.quant_block_k);
		mf_buf_dispose(&text);
	}
}

/* Two built-in models must not claim one name, nor names that differ in nothing that counts. */
Test(model, an_alias_names_one_model)
{
	const char *seen[512];
	size_t n = 0;
	mf_doc docs[64];
	size_t n_docs = 0;

	for (const char *const *name = mf_builtin_names("models"); *name && n_docs < MF_COUNT(docs); name++) {
		mf_err err;

		cr_assert_eq(mf_builtin_open(&docs[n_docs], "models", *name, &err), MF_OK);
		const mf_node *list = mf_node_get(docs[n_docs++].root, "aliases");
		for (const mf_node *a = list ? list->first : NULL; a; a = a->next) {
			char owned[160];

			snprintf(owned, sizeof owned, "someone/%s",
				strrchr(a->text, '/') ? strrchr(a->text, '/') + 1 : a->text);
			cr_expect_str_eq(mf_model_builtin(owned), *name, "%s", owned);
		}
		for (const mf_node *a = list ? list->first : NULL; a && n < MF_COUNT(seen); a = a->next) {
			for (size_t i = 0; i < n; i++)
				cr_expect_neq(strcmp(seen[i], a->text), 0, "%s twice", a->text);
			seen[n++] = a->text;
		}
	}
	for (size_t i = 0; i < n_docs; i++)
		mf_doc_dispose(&docs[i]);
}

Test(model, what_cannot_be_expressed_is_refused_by_field)
{
	refused("{\"model_type\":\"mystery\"}", "model_type");
	refused("{\"hidden_size\":1}", "model_type");
	refused("{\"model_type\":7}", "model_type");
	refused(QWEN3(",\"index_topk\":2048"), "index_topk");
	refused(QWEN3(",\"hybrid_override_pattern\":\"M*\""), "hybrid_override_pattern");
	refused("{\"model_type\":\"jamba\",\"mamba_d_state\":16}", "mamba_d_state");
	refused("{\"text_config\":{\"model_type\":\"gemma4_text\",\"attention_k_eq_v\":true}}", "attention_k_eq_v");
	refused(QWEN3(",\"layer_types\":[\"linear_attention\"]"), "layer_types");
	refused(QWEN3(",\"layer_types\":[\"full_attention\"]"), "layer_types");
	refused(QWEN3(",\"layer_types\":3"), "layer_types");
	refused(QWEN3(",\"hidden_act\":\"relu2\""), "hidden_act");
	refused(QWEN3(",\"attn_output_gate\":true"), "attn_output_gate");
}

Test(model, broken_values_name_their_field)
{
	static const char *const keys[] = {"num_hidden_layers", "hidden_size", "num_experts", "num_attention_heads",
		"vocab_size", "moe_intermediate_size", "num_experts_per_tok", "max_position_embeddings"};
	static const char *const values[] = {"-1", "0", "1e30", "\"many\"", "[]", "1.5", "{}", "true", "null"};
	const char *good = QWEN3("");

	for (size_t k = 0; k < MF_COUNT(keys); k++) {
		for (size_t v = 0; v < MF_COUNT(values); v++) {
			char json[1024], quoted[64];
			const char *at, *end;

			snprintf(quoted, sizeof(quoted), "\"%s\":", keys[k]);
			at = strstr(good, quoted) + strlen(quoted);
			end = at + strcspn(at, ",}");
			snprintf(json, sizeof(json), "%.*s%s%s", (int)(at - good), good, values[v], end);
			refused(json, keys[k]);
		}
	}
	refused(QWEN3(",\"head_dim\":0"), "head_dim");
	refused(QWEN3(",\"mlp_only_layers\":[8]"), "mlp_only_layers");
	refused(QWEN3(",\"mlp_only_layers\":4"), "mlp_only_layers");
	refused(QWEN3(",\"mlp_only_layers\":[0,1,2,3,4,5,6,7]"), "num_experts");
	refused(QWEN3(",\"rope_scaling\":4"), "rope_scaling");
}

Test(model, files_that_are_no_model_give_one_error)
{
	mf_model m;
	mf_err err;

	cr_expect_eq(from_json(&m, "", &err), MF_EINPUT);
	cr_expect_eq(from_json(&m, "[1]", &err), MF_EINPUT);
	cr_expect_eq(from_json(&m, "{\"model_type\":\"llama\"", &err), MF_EINPUT);
	cr_expect_eq(from_json(&m, "\x7f\x45LF", &err), MF_EINPUT);
	cr_expect_lt(mf_model_load(&m, "no-such-model", &err), 0);
	cr_expect(strstr(err.msg, "deepseek-v3"), "%s", err.msg);
	cr_expect_lt(mf_model_load(&m, "no/such/config.json", &err), 0);
	cr_expect_lt(mf_model_load(&m, "", &err), 0);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f, "%s", path);
	fputs(text, f);
	fclose(f);
}

Test(model, folders_and_the_hub_cache_are_looked_into)
{
	char root[] = P_tmpdir "/moefs-model-XXXXXX", path[512];
	static const char *const folders[] = {"hub", "hub/models--own--tiny", "hub/models--own--tiny/snapshots",
		"hub/models--own--tiny/snapshots/abc"};
	mf_model m;
	mf_err err = {0};

	cr_assert_not_null(mkdtemp(root));
	for (size_t i = 0; i < MF_COUNT(folders); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		cr_assert_eq(mkdir(path, 0755), 0);
	}
	snprintf(path, sizeof(path), "%s/%s/config.json", root, folders[3]);
	write_text(path, QWEN3(""));
	setenv("HF_HOME", root, 1);
	cr_expect_eq(mf_model_load(&m, "own/tiny", &err), MF_OK, "%s", err.msg);
	cr_expect_str_eq(m.name, "own/tiny");
	cr_expect(strstr(m.path, "snapshots/abc"));
	cr_expect_lt(mf_model_load(&m, "own/other", &err), 0);
	snprintf(path, sizeof(path), "%s/%s", root, folders[3]);
	cr_expect_eq(mf_model_load(&m, path, &err), MF_OK, "%s", err.msg);
	cr_expect_eq(m.quant, MF_QUANT_NONE);
	snprintf(path, sizeof(path), "%s/%s/hf_quant_config.json", root, folders[3]);
	write_text(path, "{\"quantization\":{\"quant_algo\":\"NVFP4\"}}");
	cr_expect_eq(mf_model_load(&m, "own/tiny", &err), MF_OK, "%s", err.msg);
	cr_expect_eq(m.quant, MF_QUANT_NVFP4);
	unlink(path);
	snprintf(path, sizeof(path), "%s/%s/config.json", root, folders[3]);
	unlink(path);
	for (size_t i = MF_COUNT(folders); i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		rmdir(path);
	}
	rmdir(root);
}
