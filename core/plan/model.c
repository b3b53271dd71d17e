/*
 * model.c: models from config.json. A family table says which keys a model_type uses; everything a family does not
 * state in its file follows the defaults of its Hugging Face class. What the plan space cannot express is refused by
 * field.
 */
#include "plan_internal.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_DIM (1u << 24)

/* ---- families ---------------------------------------------------------------------------------------------------- */

typedef struct family {
	const char *model_type;
	const char *experts, *topk, *moe_ffn;  /* keys; NULL in a dense family */
	const char *shared_count, *shared_ffn; /* shared experts by number, or by total width */
	const char *dense_ffn;                 /* NULL: no layer is dense */
	uint32_t head_dim, kv_heads; /* where the class has a number of its own; 0: from the hidden size, as heads */
	double rope_theta;           /* 0: 10000 */
	bool mla, qkv_bias, qk_norm, qk_norm_whole, sigmoid, expert_bias, shared_gate, norm_topk, gpt_oss;
	bool split;  /* a layer is a mixer or a feed-forward part, as a pattern says; no gate in the activation */
	bool delta;  /* gated delta net layers between attention layers, whose output is gated */
	bool sparse; /* an indexer chooses the keys attention sees */
} family;

#define DEEPSEEK(type)                                                                                                 \
	.model_type = type, .mla = true, .experts = "n_routed_experts", .topk = "num_experts_per_tok",                 \
	.moe_ffn = "moe_intermediate_size", .shared_count = "n_shared_experts", .dense_ffn = "intermediate_size"
#define DENSE(type) .model_type = type, .dense_ffn = "intermediate_size"
#define QWEN3_MOE(type)                                                                                                \
	.model_type = type, .experts = "num_experts", .topk = "num_experts_per_tok",                                   \
	.moe_ffn = "moe_intermediate_size", .dense_ffn = "intermediate_size", .qk_norm = true
#define QWEN3_DELTA(type)                                                                                              \
	QWEN3_MOE(type), .shared_ffn = "shared_expert_intermediate_size", .shared_gate = true, .norm_topk = true,      \
			 .head_dim = 256, .kv_heads = 2, .delta = true
#define LOCAL_EXPERTS(type)                                                                                            \
	.model_type = type, .experts = "num_local_experts", .topk = "num_experts_per_tok",                             \
	.moe_ffn = "intermediate_size"

static const family families[] = {
	{DEEPSEEK("deepseek_v2")},
	{DEEPSEEK("deepseek_v3"), .sigmoid = true, .expert_bias = true, .norm_topk = true},
	{DEEPSEEK("deepseek_v32"), .sigmoid = true, .expert_bias = true, .norm_topk = true, .sparse = true},
	{DEEPSEEK("glm_moe_dsa"), .sigmoid = true, .expert_bias = true, .norm_topk = true, .sparse = true},
	{DEEPSEEK("kimi_k2"), .sigmoid = true, .expert_bias = true, .norm_topk = true},
	{DEEPSEEK("glm4_moe_lite"), .sigmoid = true, .expert_bias = true, .norm_topk = true},
	{.model_type = "glm4_moe",
		.experts = "n_routed_experts",
		.topk = "num_experts_per_tok",
		.moe_ffn = "moe_intermediate_size",
		.shared_count = "n_shared_experts",
		.dense_ffn = "intermediate_size",
		.sigmoid = true,
		.expert_bias = true,
		.norm_topk = true},
	{LOCAL_EXPERTS("mixtral"), .kv_heads = 8, .rope_theta = 1e6, .norm_topk = true},
	{LOCAL_EXPERTS("phimoe"), .kv_heads = 8, .rope_theta = 1e6},
	{LOCAL_EXPERTS("minimax_m2"), .kv_heads = 8, .head_dim = 128, .rope_theta = 5e6, .qk_norm_whole = true,
		.sigmoid = true, .norm_topk = true},
	{LOCAL_EXPERTS("gpt_oss"), .kv_heads = 8, .head_dim = 64, .rope_theta = 150000, .qkv_bias = true,
		.norm_topk = true, .gpt_oss = true},
	{LOCAL_EXPERTS("llama4_text"), .kv_heads = 8, .head_dim = 128, .rope_theta = 500000,
		.shared_ffn = "intermediate_size", .dense_ffn = "intermediate_size_mlp", .sigmoid = true},
	{.model_type = "olmoe",
		.experts = "num_experts",
		.topk = "num_experts_per_tok",
		.moe_ffn = "intermediate_size",
		.qk_norm = true,
		.qk_norm_whole = true},
	{.model_type = "qwen2_moe",
		.experts = "num_experts",
		.topk = "num_experts_per_tok",
		.moe_ffn = "moe_intermediate_size",
		.shared_ffn = "shared_expert_intermediate_size",
		.dense_ffn = "intermediate_size",
		.qkv_bias = true,
		.shared_gate = true},
	{QWEN3_MOE("qwen3_moe")},
	{QWEN3_MOE("qwen3_vl_moe_text"), .norm_topk = true},
	{QWEN3_DELTA("qwen3_next"), .rope_theta = 1e7},
	{QWEN3_DELTA("qwen3_5_moe_text"), .rope_theta = 1e7},
	{.model_type = "nemotron_h",
		.experts = "n_routed_experts",
		.topk = "num_experts_per_tok",
		.moe_ffn = "moe_intermediate_size",
		.shared_ffn = "moe_shared_expert_intermediate_size",
		.dense_ffn = "intermediate_size",
		.kv_heads = 8,
		.head_dim = 128,
		.sigmoid = true,
		.expert_bias = true,
		.norm_topk = true,
		.split = true},
	{DENSE("llama")},
	{DENSE("mistral"), .kv_heads = 8},
	{DENSE("qwen2"), .qkv_bias = true},
	{DENSE("qwen3"), .head_dim = 128, .qk_norm = true},
};

static const family *find_family(const char *type)
{
	for (size_t i = 0; i < MF_COUNT(families); i++)
		if (strcmp(families[i].model_type, type) == 0)
			return &families[i];
	return NULL;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

struct reader {
	mf_model *m;
	const mf_doc *d;
	const mf_node *root, *text; /* whole file; the part that describes the language model */
	const family *f;
	mf_err *err;
};

static mf_status refuse(const struct reader *r, const mf_node *n, const char *field, const char *why)
{
	return mf_fail_at(r->err, MF_EINPUT, r->d->name, n ? n->line : r->text->line, field, "%s", why);
}

#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		mf_status try_st = (call);                                                                             \
		if (try_st < 0)                                                                                        \
			return try_st;                                                                                 \
	} while (0)
#define GET(key, min, max, out) TRY(mf_get_u32(r->d, r->text, key, min, max, out, r->err))
#define NEED(key, min, max, out) TRY(mf_need_u32(r->d, r->text, key, min, max, out, r->err))
#define FLAG(key, out) TRY(mf_get_bool(r->d, r->text, key, out, r->err))

/* Fields whose presence means layers that only the families which read them can express. */
static mf_status refuse_inexpressible(const struct reader *r)
{
	const bool split = r->f && r->f->split, delta = r->f && r->f->delta, sparse = r->f && r->f->sparse;
	const struct {
		const char *key, *why;
		bool known, flag; /* the family reads it; only a true value counts */
	} fields[] = {
		{"index_topk", "sparse-attention indexer: not expressible as a plan", sparse, false},
		{"hybrid_override_pattern", "recurrent (Mamba) layers: not expressible as a plan", split, false},
		{"layers_block_type", "recurrent (Mamba) layers: not expressible as a plan", split, false},
		{"hybrid_layer_pattern", "layers of different attention shapes: not expressible as a plan", false,
			false},
		{"linear_num_value_heads", "linear-attention layers: not expressible as a plan", delta, false},
		{"linear_attn_config", "linear-attention layers: not expressible as a plan", false, false},
		{"mamba_d_state", "recurrent (Mamba) layers: not expressible as a plan", false, false},
		{"ssm_state_size", "recurrent (Mamba) layers: not expressible as a plan", split, false},
		{"attn_output_gate", "gated attention output: not expressible as a plan", delta, true},
		{"attention_k_eq_v", "keys shared with values: not expressible as a plan", false, true},
	};
	const mf_node *act = mf_node_get(r->text, split ? "mlp_hidden_act" : "hidden_act");
	const mf_node *types = mf_node_get(r->text, "layer_types"), *t;

	for (size_t i = 0; i < MF_COUNT(fields); i++) {
		const mf_node *n = fields[i].known ? NULL : mf_node_get(r->text, fields[i].key);

		if (n && (!fields[i].flag || n->truth))
			return refuse(r, n, fields[i].key, fields[i].why);
	}
	if (split && act && strcmp(act->text, "relu2") != 0)
		return mf_fail_at(r->err, MF_EINPUT, r->d->name, act->line, "mlp_hidden_act",
			"\"%.40s\": only relu2, not gated, is expressible in this family", act->text);
	if (!split && act && strcmp(act->text, "silu") != 0 && strcmp(act->text, "swiglu") != 0)
		return mf_fail_at(r->err, MF_EINPUT, r->d->name, act->line, "hidden_act",
			"\"%.40s\": only silu, gated, is expressible as a plan", act->text);
	for (t = types && types->kind == MF_LIST ? types->first : NULL; t; t = t->next)
		if (strcmp(t->text, "full_attention") != 0 && strcmp(t->text, "sliding_attention") != 0 &&
			strcmp(t->text, "chunked_attention") != 0 &&
			!(delta && strcmp(t->text, "linear_attention") == 0))
			return mf_fail_at(r->err, MF_EINPUT, r->d->name, t->line, "layer_types",
				"layers of type \"%.40s\" are not expressible as a plan", t->text);
	return MF_OK;
}

static mf_status read_attention(struct reader *r)
{
	mf_model *m = r->m;

	NEED("num_attention_heads", 1, 4096, &m->heads);
	m->kv_heads = r->f->kv_heads ? r->f->kv_heads : m->heads;
	if (r->f->mla) {
		m->attention = MF_MLA;
		GET("q_lora_rank", 1, MAX_DIM, &m->q_lora);
		NEED("kv_lora_rank", 1, MAX_DIM, &m->kv_lora);
		NEED("qk_nope_head_dim", 1, 4096, &m->qk_nope);
		NEED("qk_rope_head_dim", 1, 4096, &m->qk_rope);
		NEED("v_head_dim", 1, 4096, &m->v_dim);
		m->head_dim = m->qk_nope + m->qk_rope;
		if (r->f->sparse) {
			NEED("index_topk", 1, 1u << 30, &m->index_topk);
			NEED("index_n_heads", 1, 4096, &m->index_heads);
			NEED("index_head_dim", 1, 4096, &m->index_dim);
		}
		return MF_OK;
	}
	GET("num_key_value_heads", 1, 4096, &m->kv_heads);
	if (m->heads % m->kv_heads)
		return refuse(r, mf_node_get(r->text, "num_key_value_heads"), "num_key_value_heads",
			"does not divide num_attention_heads");
	if (mf_node_get(r->text, "head_dim"))
		NEED("head_dim", 1, 4096, &m->head_dim);
	else if (r->f->head_dim)
		m->head_dim = r->f->head_dim;
	else if (m->hidden % m->heads)
		return refuse(r, NULL, "head_dim", "missing, and num_attention_heads does not divide hidden_size");
	else
		m->head_dim = m->hidden / m->heads;
	m->v_dim = m->head_dim;
	m->qk_norm = r->f->qk_norm;
	FLAG("use_qk_norm", &m->qk_norm);
	m->qk_norm_whole = m->qk_norm && r->f->qk_norm_whole;
	m->qkv_bias = r->f->qkv_bias;
	if (!r->f->qkv_bias || r->f->gpt_oss) /* Qwen2 has its bias whatever the file says */
		FLAG("attention_bias", &m->qkv_bias);
	FLAG("qkv_bias", &m->qkv_bias);
	m->attention_gate = r->f->delta;
	FLAG("attn_output_gate", &m->attention_gate);
	return MF_OK;
}

/* ---- layers of several kinds --------------------------------------------------------------------------------------- */

void mf_model_tally(mf_model *m)
{
	m->moe_layers = m->bare_layers = m->window_layers = 0;
	m->mamba_layers = m->delta_layers = m->mixerless_layers = 0;
	for (uint32_t i = 0; i < m->layers && i < MF_MAX_LAYERS; i++) {
		m->moe_layers += m->moe_layer[i] != 0;
		m->bare_layers += m->bare_layer[i] != 0;
		m->window_layers += m->mixer[i] == MF_MIX_WINDOW;
		m->mamba_layers += m->mixer[i] == MF_MIX_MAMBA2;
		m->delta_layers += m->mixer[i] == MF_MIX_DELTA;
		m->mixerless_layers += m->mixer[i] == MF_MIX_NONE;
	}
}

/* One letter or word of a pattern: a mixer alone or a feed-forward part alone. False when it is none. */
static bool split_layer(mf_model *m, uint32_t i, const char *kind, size_t len)
{
	static const struct {
		const char *letter, *word;
		mf_mixer mixer;
		bool moe, bare;
	} kinds[] = {
		{"M", "mamba", MF_MIX_MAMBA2, false, true},
		{"*", "attention", MF_MIX_ATTENTION, false, true},
		{"E", "moe", MF_MIX_NONE, true, false},
		{"-", "mlp", MF_MIX_NONE, false, false},
	};

	for (size_t k = 0; k < MF_COUNT(kinds); k++) {
		const char *name = len == 1 ? kinds[k].letter : kinds[k].word;

		if (strlen(name) == len && strncmp(name, kind, len) == 0) {
			m->mixer[i] = (uint8_t)kinds[k].mixer;
			m->moe_layer[i] = kinds[k].moe;
			m->bare_layer[i] = kinds[k].bare;
			return true;
		}
	}
	return false;
}

/* Nemotron-H: "MEM*E-", or a list of words; and the sizes of its Mamba-2 layers. */
static mf_status read_split_layers(struct reader *r)
{
	const mf_node *text = mf_node_get(r->text, "hybrid_override_pattern");
	const mf_node *list = mf_node_get(r->text, "layers_block_type"), *n;
	mf_model *m = r->m;
	uint32_t i = 0;

	if (!text && !list)
		return refuse(r, NULL, "hybrid_override_pattern", "missing");
	if (text ? text->kind != MF_STRING || strlen(text->text) != m->layers
		 : list->kind != MF_LIST || list->n_children != m->layers)
		return refuse(r, text ? text : list, text ? "hybrid_override_pattern" : "layers_block_type",
			"should have one kind a layer, as many as num_hidden_layers");
	for (n = text ? NULL : list->first; i < m->layers; i++, n = n ? n->next : NULL)
		if (!(text ? split_layer(m, i, text->text + i, 1) : split_layer(m, i, n->text, strlen(n->text))))
			return mf_fail_at(r->err, MF_EINPUT, r->d->name, text ? text->line : n->line,
				text ? "hybrid_override_pattern" : "layers_block_type",
				"layer %u is none of M (mamba), * (attention), E (moe), - (mlp)", i);
	mf_model_tally(m);
	if (m->mamba_layers) {
		NEED("mamba_num_heads", 1, 65536, &m->mamba_heads);
		NEED("mamba_head_dim", 1, 4096, &m->mamba_head_dim);
		NEED("ssm_state_size", 1, 4096, &m->mamba_state);
		NEED("n_groups", 1, 4096, &m->mamba_groups);
		NEED("conv_kernel", 1, 64, &m->mamba_conv);
	}
	GET("moe_latent_size", 1, MAX_DIM, &m->moe_latent);
	return MF_OK;
}

/* Qwen3-Next and its like: three delta-net layers, then one of attention, or as layer_types says. */
static mf_status read_delta_layers(struct reader *r)
{
	const mf_node *types = mf_node_get(r->text, "layer_types"), *t;
	mf_model *m = r->m;
	uint32_t every = 4, i = 0;

	GET("full_attention_interval", 1, MF_MAX_LAYERS, &every);
	if (types && (types->kind != MF_LIST || types->n_children != m->layers))
		return refuse(r, types, "layer_types", "should be a list as long as num_hidden_layers");
	for (t = types ? types->first : NULL; i < m->layers; i++, t = t ? t->next : NULL)
		if (t ? strcmp(t->text, "linear_attention") == 0 : (i + 1) % every != 0)
			m->mixer[i] = MF_MIX_DELTA;
	NEED("linear_num_key_heads", 1, 4096, &m->delta_k_heads);
	NEED("linear_num_value_heads", 1, 4096, &m->delta_v_heads);
	NEED("linear_key_head_dim", 1, 4096, &m->delta_k_dim);
	NEED("linear_value_head_dim", 1, 4096, &m->delta_v_dim);
	NEED("linear_conv_kernel_dim", 1, 64, &m->delta_conv);
	if (m->delta_v_heads % m->delta_k_heads)
		return refuse(r, mf_node_get(r->text, "linear_num_value_heads"), "linear_num_value_heads",
			"linear_num_key_heads does not divide it");
	mf_model_tally(m);
	return MF_OK;
}

static mf_status read_windows(struct reader *r)
{
	const mf_node *types = mf_node_get(r->text, "layer_types"), *t = types ? types->first : NULL;
	mf_model *m = r->m;
	uint32_t from = 0;
	bool used = strncmp(m->model_type, "qwen", 4) != 0; /* Qwen files carry a window that is off unless asked for */

	GET("sliding_window", 1, 1u << 30, &m->window);
	FLAG("use_sliding_window", &used);
	if (types && (types->kind != MF_LIST || types->n_children != m->layers))
		return refuse(r, types, "layer_types", "should be a list as long as num_hidden_layers");
	if (!m->window || !used || m->window >= m->max_positions) {
		m->window = 0;
		return MF_OK;
	}
	if (strncmp(m->model_type, "qwen", 4) == 0)
		GET("max_window_layers", 0, 1u << 20, &from);
	/* Without a list gpt-oss windows every other layer, the first one included; others all from `from` on. */
	for (uint32_t i = 0; i < m->layers; i++, t = t ? t->next : NULL)
		if (m->mixer[i] == MF_MIX_ATTENTION && (t ? strcmp(t->text, "sliding_attention") == 0
							       : r->f->gpt_oss ? i % 2 == 0
									       : i >= from))
			m->mixer[i] = MF_MIX_WINDOW;
	mf_model_tally(m);
	if (!m->window_layers)
		m->window = 0;
	return MF_OK;
}

/* Llama 4 attends within chunks but in every fourth layer, which has no rotary embedding. */
static mf_status read_chunks(struct reader *r)
{
	const mf_node *rope = mf_node_get(r->text, "no_rope_layers"), *n;
	mf_model *m = r->m;
	uint32_t every = 4;

	GET("attention_chunk_size", 1, 1u << 30, &m->attention_chunk);
	GET("no_rope_layer_interval", 1, MF_MAX_LAYERS, &every);
	if (!m->attention_chunk || strcmp(m->model_type, "llama4_text") != 0) {
		m->attention_chunk = 0;
		return MF_OK;
	}
	m->chunk_layers = m->layers - m->layers / every;
	if (rope && rope->kind == MF_LIST && rope->n_children == m->layers) {
		m->chunk_layers = 0;
		for (n = rope->first; n; n = n->next)
			m->chunk_layers += n->number > 0; /* 1: this layer has the embedding */
	}
	return MF_OK;
}

/* Which layers are MoE: from the family's step, first-dense or list keys. */
static mf_status read_moe_layers(struct reader *r)
{
	const mf_node *list = mf_node_get(r->text, "mlp_only_layers"), *freq = mf_node_get(r->text, "moe_layer_freq"),
		      *n;
	mf_model *m = r->m;
	uint32_t first_dense = 0, step = 1, offset = 0;

	GET("first_k_dense_replace", 0, MF_MAX_LAYERS, &first_dense);
	GET("decoder_sparse_step", 1, MF_MAX_LAYERS, &step);
	if (mf_node_get(r->text, "interleave_moe_layer_step"))
		GET("interleave_moe_layer_step", 1, MF_MAX_LAYERS, &step);
	if (freq && freq->kind != MF_LIST) {
		GET("moe_layer_freq", 1, MF_MAX_LAYERS, &step);
		offset = 1; /* DeepSeek counts layers from 0: every layer whose number the frequency divides */
	}
	for (uint32_t i = 0; i < m->layers; i++)
		m->moe_layer[i] = i >= first_dense && (offset ? i % step == 0 : (i + 1) % step == 0);
	if (freq && freq->kind == MF_LIST) {
		uint32_t i = 0;

		if (freq->n_children != m->layers)
			return refuse(r, freq, "moe_layer_freq", "the list is not as long as num_hidden_layers");
		for (n = freq->first; n; n = n->next)
			m->moe_layer[i++] = n->number > 0;
	}
	if (list && list->kind != MF_LIST)
		return refuse(r, list, "mlp_only_layers", "should be a list of layer numbers");
	for (n = list ? list->first : NULL; n; n = n->next) {
		if (!(n->number >= 0 && n->number < m->layers))
			return mf_fail_at(r->err, MF_EINPUT, r->d->name, n->line, "mlp_only_layers",
				"%.20s is no layer", n->text);
		m->moe_layer[(uint32_t)n->number] = 0;
	}
	list = mf_node_get(r->text, "moe_layers"); /* Llama 4 may list its MoE layers instead of a step */
	if (list && list->kind == MF_LIST) {
		memset(m->moe_layer, 0, sizeof m->moe_layer);
		for (n = list->first; n; n = n->next) {
			if (!(n->number >= 0 && n->number < m->layers))
				return mf_fail_at(r->err, MF_EINPUT, r->d->name, n->line, "moe_layers",
					"%.20s is no layer", n->text);
			m->moe_layer[(uint32_t)n->number] = 1;
		}
	}
	for (uint32_t i = 0; i < m->layers; i++)
		m->moe_layers += m->moe_layer[i];
	return MF_OK;
}

static mf_status read_router(struct reader *r)
{
	char method[32] = "", score[32] = "";
	mf_model *m = r->m;

	m->sigmoid_router = r->f->sigmoid;
	m->expert_bias = r->f->expert_bias;
	m->norm_topk = r->f->norm_topk;
	m->shared_gate = m->shared_ffn && r->f->shared_gate;
	FLAG("norm_topk_prob", &m->norm_topk);
	FLAG("use_routing_bias", &m->expert_bias);
	TRY(mf_get_string(r->d, r->text, "scoring_func", score, sizeof score, r->err));
	TRY(mf_get_string(r->d, r->text, "topk_method", method, sizeof method, r->err));
	TRY(mf_get_double(r->d, r->text, "routed_scaling_factor", 0, 1e6, &m->routed_scaling, r->err));
	if (*score)
		m->sigmoid_router = strcmp(score, "sigmoid") == 0;
	if (*method)
		m->expert_bias = strcmp(method, "noaux_tc") == 0;
	GET("n_group", 1, 1024, &m->expert_groups);
	GET("topk_group", 1, 1024, &m->expert_group_topk);
	if (m->expert_groups <= 1 || strcmp(method, "greedy") == 0)
		m->expert_groups = m->expert_group_topk = 0;
	if (m->expert_groups &&
		(m->experts % m->expert_groups || m->expert_group_topk > m->expert_groups || !m->expert_group_topk))
		return refuse(r, mf_node_get(r->text, "n_group"), "n_group",
			"does not divide the experts, or topk_group exceeds it");
	return MF_OK;
}

static mf_status read_experts(struct reader *r)
{
	const family *f = r->f;
	mf_model *m = r->m;
	uint32_t shared = 0;
	const char *topk = f->topk;

	m->routed_scaling = 1;
	if (f->split)
		TRY(read_split_layers(r));
	if (f->delta)
		TRY(read_delta_layers(r));
	if (f->experts && (mf_node_get(r->text, f->experts) || !f->dense_ffn)) {
		NEED(f->experts, 1, 65535, &m->experts);
		if (f->gpt_oss && !mf_node_get(r->text, topk))
			topk = "experts_per_token";
		NEED(topk, 1, m->experts, &m->topk);
		NEED(f->moe_ffn, 1, MAX_DIM, &m->moe_ffn);
		if (f->shared_count)
			GET(f->shared_count, 0, 1024, &shared);
		m->shared_ffn = shared * m->moe_ffn;
		if (f->shared_ffn)
			NEED(f->shared_ffn, 0, MAX_DIM, &m->shared_ffn);
		if (f->split) {
			shared = 1;
			GET("n_shared_experts", 0, 1024, &shared);
			m->shared_ffn *= shared;
		} else {
			TRY(read_moe_layers(r));
		}
		if (!m->moe_layers)
			return refuse(r, mf_node_get(r->text, f->experts), f->experts,
				"experts are given, but no layer has them");
		TRY(read_router(r));
	} else if (f->experts && (m->moe_layers || !f->split)) {
		return refuse(r, NULL, f->experts, "missing");
	}
	if (mf_model_dense_layers(m)) {
		if (!f->dense_ffn)
			return refuse(r, NULL, "num_hidden_layers", "dense layers in a family that has none");
		NEED(f->dense_ffn, 1, MAX_DIM, &m->ffn);
	}
	return MF_OK;
}

static mf_status read_rope(struct reader *r)
{
	const mf_node *scaling = mf_node_get(r->text, "rope_scaling"), *n;
	char type[32] = "";
	mf_model *m = r->m;

	m->rope_theta = r->f->rope_theta > 0 ? r->f->rope_theta : 10000;
	m->rope_scaling_factor = 1;
	if (!scaling)
		scaling = mf_node_get(r->text, "rope_parameters");
	TRY(mf_get_double(r->d, r->text, "rope_theta", 1, 1e12, &m->rope_theta, r->err));
	if (!scaling)
		return MF_OK;
	if (scaling->kind != MF_MAP)
		return refuse(r, scaling, scaling->key, "should be a group of fields");
	n = mf_node_get(scaling, "rope_type");
	if (!n)
		n = mf_node_get(scaling, "type");
	if (n && strlen(n->text) < sizeof type)
		strcpy(type, n->text);
	TRY(mf_get_double(r->d, scaling, "rope_theta", 1, 1e12, &m->rope_theta, r->err));
	TRY(mf_get_double(r->d, scaling, "factor", 0, 1e6, &m->rope_scaling_factor, r->err));
	TRY(mf_get_u32(
		r->d, scaling, "original_max_position_embeddings", 1, 1u << 30, &m->rope_original_positions, r->err));
	m->yarn = strcmp(type, "yarn") == 0;
	if (m->yarn) {
		TRY(mf_get_double(r->d, scaling, "mscale", 0, 1e6, &m->yarn_mscale, r->err));
		TRY(mf_get_double(r->d, scaling, "mscale_all_dim", 0, 1e6, &m->yarn_mscale_all_dim, r->err));
	}
	return MF_OK;
}

/* Block sizes of fp8 scales: two whole numbers. */
static mf_status read_block(struct reader *r, const mf_node *block)
{
	const mf_node *n = block->first, *k = n ? n->next : NULL;

	if (block->kind != MF_LIST || block->n_children != 2 || !(n->number >= 1 && n->number <= 65536) ||
		!(k->number >= 1 && k->number <= 65536))
		return refuse(r, block, block->key, "should be two block sizes");
	r->m->quant = MF_QUANT_FP8_BLOCK;
	r->m->quant_block_n = (uint32_t)n->number;
	r->m->quant_block_k = (uint32_t)k->number;
	return MF_OK;
}

/* ModelOpt's name of a format; formats of mixed widths have no place in a plan. */
static mf_status read_quant_algo(struct reader *r, const mf_node *algo)
{
	static const struct {
		const char *name;
		mf_quant quant;
	} known[] = {
		{"NVFP4", MF_QUANT_NVFP4},
		{"NVFP4_AWQ", MF_QUANT_NVFP4},
		{"FP8", MF_QUANT_FP8},
		{"FP8_PER_CHANNEL_PER_TOKEN", MF_QUANT_FP8},
		{"MXFP4", MF_QUANT_MXFP4},
		{"W4A16_AWQ", MF_QUANT_INT4},
		{"INT4_AWQ", MF_QUANT_INT4},
		{"INT8_SQ", MF_QUANT_INT8},
		{"W8A8_SQ_PER_CHANNEL", MF_QUANT_INT8},
	};

	for (size_t i = 0; algo && i < MF_COUNT(known); i++) {
		if (strcmp(known[i].name, algo->text) == 0) {
			r->m->quant = known[i].quant;
			return MF_OK;
		}
	}
	return refuse(r, algo, "quant_algo", algo ? "unknown quantization format" : "missing");
}

static mf_status read_quant(struct reader *r)
{
	const mf_node *q = mf_node_get(r->root, "quantization_config"), *block, *n;
	char method[48] = "";
	mf_model *m = r->m;

	if (!q)
		q = mf_node_get(r->text, "quantization_config");
	if (!q)
		return MF_OK;
	if (q->kind != MF_MAP)
		return refuse(r, q, "quantization_config", "should be a group of fields");
	TRY(mf_get_string(r->d, q, "quant_method", method, sizeof method, r->err));
	block = mf_node_get(q, "weight_block_size");
	if (strcmp(method, "fp8") == 0) {
		m->quant = MF_QUANT_FP8;
		if (block)
			return read_block(r, block);
	} else if (strncmp(method, "modelopt", 8) == 0) {
		return read_quant_algo(r, mf_node_get(q, "quant_algo"));
	} else if (strcmp(method, "mxfp4") == 0) {
		m->quant = MF_QUANT_MXFP4;
	} else if (strcmp(method, "awq") == 0 || strncmp(method, "gptq", 4) == 0 || strcmp(method, "auto-round") == 0) {
		uint32_t bits = 4;

		TRY(mf_get_u32(r->d, q, "bits", 4, 8, &bits, r->err));
		m->quant = bits == 8 ? MF_QUANT_INT8 : MF_QUANT_INT4;
	} else if (strcmp(method, "compressed-tensors") == 0) {
		const mf_node *group = mf_node_get(q, "config_groups"),
			      *w = group ? mf_node_get(group->first, "weights") : NULL, *kind;
		uint32_t bits = 8;
		bool whole;

		TRY(mf_get_u32(r->d, w, "num_bits", 4, 8, &bits, r->err));
		kind = mf_node_get(w, "type");
		whole = kind && strcmp(kind->text, "int") == 0;
		n = mf_node_get(w, "block_structure");
		if (bits == 4)
			m->quant = whole ? MF_QUANT_INT4 : MF_QUANT_NVFP4;
		else if (whole)
			m->quant = MF_QUANT_INT8;
		else
			return n ? read_block(r, n) : (m->quant = MF_QUANT_FP8, MF_OK);
	} else {
		return refuse(r, mf_node_get(q, "quant_method"), "quantization_config.quant_method",
			"unknown quantization method");
	}
	return MF_OK;
}

static mf_status read_shape(struct reader *r)
{
	mf_model *m = r->m;

	TRY(refuse_inexpressible(r));
	NEED("num_hidden_layers", 1, MF_MAX_LAYERS, &m->layers);
	NEED("hidden_size", 1, MAX_DIM, &m->hidden);
	NEED("vocab_size", 1, MAX_DIM, &m->vocab);
	NEED("max_position_embeddings", 1, 1u << 30, &m->max_positions);
	TRY(read_attention(r));
	TRY(read_experts(r));
	TRY(read_windows(r));
	TRY(read_chunks(r));
	TRY(read_rope(r));
	TRY(read_quant(r));
	m->gated = !r->f->split;
	m->norm_eps = 1e-6;
	TRY(mf_get_double(r->d, r->text, r->f->split ? "norm_eps" : "rms_norm_eps", 0, 1, &m->norm_eps, r->err));
	TRY(mf_get_bool(r->d, r->root, "tie_word_embeddings", &m->tied_embeddings, r->err));
	FLAG("tie_word_embeddings", &m->tied_embeddings);
	GET("num_nextn_predict_layers", 0, 16, &m->mtp_layers);
	GET("mtp_num_hidden_layers", 0, 16, &m->mtp_layers);
	if (strcmp(m->model_type, "minimax_m2") == 0)
		GET("num_mtp_modules", 0, 16, &m->mtp_layers);
	if (r->f->gpt_oss)
		m->linear_bias = m->mlp_bias = m->attention_sinks = m->clamped_glu = true;
	if (strcmp(m->model_type, "phimoe") == 0)
		m->linear_bias = m->qkv_bias;
	return MF_OK;
}

/* "config.json" says nothing; the folder above it does. */
static void short_name(const char *doc_name, char *out, size_t size)
{
	const char *slash = strrchr(doc_name, '/');
	char copy[512];

	if (slash && strcmp(slash, "/config.json") == 0 && (size_t)(slash - doc_name) < sizeof copy &&
		slash != doc_name) {
		snprintf(copy, sizeof copy, "%.*s", (int)(slash - doc_name), doc_name);
		slash = strrchr(copy, '/');
		snprintf(out, size, "%.*s", (int)size - 1, slash ? slash + 1 : copy);
		return;
	}
	mf_input_name(doc_name, out, size);
}

mf_status mf_model_from_doc(mf_model *out, const mf_doc *doc, mf_err *err)
{
	static const char *const wrappers[] = {"text_config", "llm_config", "language_config", "thinker_config"};
	static const char *const towers[] = {"vision_config", "audio_config"};
	struct reader r = {out, doc, doc->root, doc->root, NULL, err};
	const mf_node *type, *arch;
	const char *names[MF_COUNT(families) + 1], *near;

	memset(out, 0, sizeof *out);
	if (doc->root->kind != MF_MAP)
		return mf_fail_at(
			err, MF_EINPUT, doc->name, doc->root->line, NULL, "not a model: expected a group of fields");
	for (size_t i = 0; i < MF_COUNT(wrappers); i++) {
		const mf_node *inner = mf_node_get(doc->root, wrappers[i]);

		if (inner && inner->kind == MF_MAP) {
			r.text = inner;
			break;
		}
	}
	for (size_t i = 0; i < MF_COUNT(towers); i++)
		out->other_parts |= mf_node_get(doc->root, towers[i]) != NULL;
	type = mf_node_get(r.text, "model_type");
	if (!type)
		type = mf_node_get(doc->root, "model_type");
	if (!type || type->kind != MF_STRING)
		return refuse(&r, type, "model_type", type ? "should be a text" : "missing");
	r.f = find_family(type->text);
	if (!r.f) {
		/* A known obstacle says more than an unknown name. */
		TRY(refuse_inexpressible(&r));
		for (size_t i = 0; i < MF_COUNT(families); i++)
			names[i] = families[i].model_type;
		names[MF_COUNT(families)] = NULL;
		near = mf_nearest(type->text, names);
		return mf_fail_at(err, MF_EINPUT, doc->name, type->line, "model_type",
			"\"%.40s\" is not a known family%s%s%s", type->text, near ? " (nearest: " : "",
			near ? near : "", near ? ")" : "");
	}
	snprintf(out->model_type, sizeof out->model_type, "%s", r.f->model_type);
	arch = mf_node_get(doc->root, "architectures");
	if (arch && arch->kind == MF_LIST && arch->first)
		snprintf(out->architecture, sizeof out->architecture, "%.63s", arch->first->text);
	short_name(doc->name, out->name, sizeof out->name);
	return read_shape(&r);
}

/* ---- finding ------------------------------------------------------------------------------------------------------- */

/* Path of a cached hub model's config.json; false when it is not there. */
static bool hub_path(char *out, size_t size, const char *name)
{
	const char *hub = getenv("HF_HOME"), *home = getenv("HOME"), *slash = strchr(name, '/');
	char folder[1024];
	struct dirent *e;
	bool found = false;
	time_t newest = 0;
	DIR *dir;
	int n;

	if (!slash || strchr(slash + 1, '/') || slash == name || !slash[1])
		return false;
	if (hub && *hub)
		n = snprintf(folder, sizeof folder, "%s/hub/models--%.*s--%s/snapshots", hub, (int)(slash - name), name,
			slash + 1);
	else
		n = snprintf(folder, sizeof folder, "%s/.cache/huggingface/hub/models--%.*s--%s/snapshots",
			home ? home : "", (int)(slash - name), name, slash + 1);
	if (n < 0 || (size_t)n >= sizeof folder || !(dir = opendir(folder)))
		return false;
	/* Of several snapshots the newest config.json: the one the last download left behind. */
	while ((e = readdir(dir))) {
		char path[1200];
		struct stat sb;

		if (e->d_name[0] == '.')
			continue;
		n = snprintf(path, sizeof path, "%s/%s/config.json", folder, e->d_name);
		if (n < 0 || (size_t)n >= sizeof path || (size_t)n >= size || stat(path, &sb) != 0)
			continue;
		if (!found || sb.st_mtime > newest || (sb.st_mtime == newest && strcmp(path, out) > 0)) {
			newest = sb.st_mtime;
			memcpy(out, path, (size_t)n + 1);
			found = true;
		}
	}
	closedir(dir);
	return found;
}

/* ModelOpt checkpoints may keep their format in hf_quant_config.json beside config.json. */
static mf_status load_quant_beside(mf_model *m, mf_err *err)
{
	struct reader r = {m, NULL, NULL, NULL, NULL, err};
	const mf_node *algo;
	char path[300];
	mf_doc d;
	mf_status st;

	snprintf(path, sizeof path, "%s/hf_quant_config.json", m->path);
	if (access(path, R_OK) != 0)
		return MF_OK;
	TRY(mf_doc_read_file(&d, path, err));
	r.d = &d;
	r.root = r.text = d.root;
	algo = mf_node_get(mf_node_get(d.root, "quantization"), "quant_algo");
	st = algo ? read_quant_algo(&r, algo) : MF_OK; /* null: only the cache is quantized */
	mf_doc_dispose(&d);
	return st;
}

static mf_status load_path(mf_model *out, const char *path, mf_err *err)
{
	const char *slash = strrchr(path, '/');
	mf_doc d;
	mf_status st = mf_doc_read_file(&d, path, err);

	if (st < 0)
		return st;
	st = mf_model_from_doc(out, &d, err);
	mf_doc_dispose(&d);
	if (st < 0)
		return st;
	snprintf(out->path, sizeof out->path, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	return out->quant == MF_QUANT_NONE ? load_quant_beside(out, err) : MF_OK;
}

static bool built_in_name(const char *name)
{
	for (const char *const *known = mf_builtin_names("models"); *known; known++)
		if (strcmp(*known, name) == 0)
			return true;
	return false;
}

mf_status mf_model_load(mf_model *out, const char *name, mf_err *err)
{
	const char *alias, *given = name;
	char path[1200];
	struct stat sb;
	mf_doc d;
	mf_status st;

	if (stat(name, &sb) == 0 && S_ISDIR(sb.st_mode)) {
		snprintf(path, sizeof path, "%.1100s/config.json", name);
		return load_path(out, path, err);
	}
	if (strchr(name, '/') && access(name, F_OK) != 0 && hub_path(path, sizeof path, name)) {
		st = load_path(out, path, err);
		if (st == MF_OK)
			snprintf(out->name, sizeof out->name, "%.95s", name);
		return st;
	}
	if (!built_in_name(name) && access(name, F_OK) != 0 && (alias = mf_model_builtin(name)))
		name = alias;
	if (mf_is_path(name))
		return load_path(out, name, err);
	st = mf_builtin_open(&d, "models", name, err);
	if (st < 0)
		return st;
	st = mf_model_from_doc(out, &d, err);
	if (st == MF_OK) {
		snprintf(out->name, sizeof out->name, "%.95s", name);
		mf_model_quant_of_name(out, given);
	}
	mf_doc_dispose(&d);
	return st;
}
