/* model_count.c: parameters of a model by group, from its shape alone. */
#include "plan.h"

#include <string.h>

uint64_t mf_model_expert_params(const mf_model *m)
{
	return (uint64_t)(m->gated ? 3 : 2) * mf_model_expert_width(m) * m->moe_ffn;
}

static uint64_t attention_params(const mf_model *m)
{
	uint64_t h = m->hidden, a = m->heads;

	if (m->attention == MF_MLA) {
		uint64_t qd = m->qk_nope + m->qk_rope, from = m->q_lora ? m->q_lora : h;
		uint64_t q = m->q_lora ? h * m->q_lora + m->q_lora * a * qd : h * a * qd;
		/* The indexer: a query a head from the compressed query, one key, one weight a head. */
		uint64_t index = m->index_topk
					 ? from * m->index_heads * m->index_dim + h * m->index_dim + h * m->index_heads
					 : 0;

		return q + h * (m->kv_lora + m->qk_rope) + (uint64_t)m->kv_lora * a * (m->qk_nope + m->v_dim) +
		       a * m->v_dim * h + index;
	}
	return h * m->head_dim * ((m->attention_gate ? 3 : 2) * a + 2 * (uint64_t)m->kv_heads);
}

/* Mamba-2: projections in and out, a short convolution with bias, and three numbers a head. */
static uint64_t mamba_params(const mf_model *m)
{
	uint64_t inner = (uint64_t)m->mamba_heads * m->mamba_head_dim;
	uint64_t convolved = inner + 2 * (uint64_t)m->mamba_groups * m->mamba_state;

	return m->hidden * (inner + convolved + m->mamba_heads) + inner * m->hidden + convolved * (m->mamba_conv + 1) +
	       3 * (uint64_t)m->mamba_heads;
}

/* Gated delta net: query, key, value and gate, two numbers a head from the token and two of its own. */
static uint64_t delta_params(const mf_model *m)
{
	uint64_t k = (uint64_t)m->delta_k_heads * m->delta_k_dim, v = (uint64_t)m->delta_v_heads * m->delta_v_dim;

	return m->hidden * (2 * k + 2 * v + 2 * (uint64_t)m->delta_v_heads) + v * m->hidden +
	       (2 * k + v) * m->delta_conv + 2 * (uint64_t)m->delta_v_heads;
}

/* Norm weights inside the mixers of each kind. */
static uint64_t attention_norms(const mf_model *m)
{
	if (m->attention == MF_MLA)
		return m->q_lora + m->kv_lora + (m->index_topk ? 2 * (uint64_t)m->index_dim : 0);
	if (m->qk_norm_whole)
		return (uint64_t)(m->heads + m->kv_heads) * m->head_dim;
	return m->qk_norm ? 2 * (uint64_t)m->head_dim : 0;
}

static uint64_t attention_biases(const mf_model *m)
{
	uint64_t n = m->qkv_bias || m->linear_bias ? (uint64_t)(m->heads + 2 * m->kv_heads) * m->head_dim : 0;

	return n + (m->linear_bias ? m->hidden : 0) + (m->attention_sinks ? m->heads : 0);
}

static uint64_t moe_biases(const mf_model *m)
{
	uint64_t n = m->expert_bias ? m->experts : 0;

	if (m->mlp_bias)
		n += m->experts + (uint64_t)m->experts * ((m->gated ? 2 : 1) * (uint64_t)m->moe_ffn + m->hidden);
	return n;
}

void mf_model_count(const mf_model *m, mf_param_count *out)
{
	uint64_t h = m->hidden, layers = m->layers, moe = m->moe_layers, up = m->gated ? 3 : 2;
	uint64_t attending = mf_model_attention_layers(m);
	uint64_t experts = (uint64_t)m->experts * mf_model_expert_params(m);
	uint64_t shared = up * h * m->shared_ffn + (m->shared_gate ? h : 0) + 2 * h * m->moe_latent;

	memset(out, 0, sizeof *out);
	out->embedding = (uint64_t)m->vocab * h;
	out->head = m->tied_embeddings ? 0 : out->embedding;
	out->attention = attending * attention_params(m);
	out->recurrent = m->mamba_layers * mamba_params(m) + m->delta_layers * delta_params(m);
	out->dense_ffn = mf_model_dense_layers(m) * up * h * m->ffn;
	out->router = moe * m->experts * h;
	out->shared_experts = moe * shared;
	out->routed_experts = moe * experts;
	/* One norm before every mixer and every feed-forward part, one before the head. */
	out->norms = (2 * layers - m->mixerless_layers - m->bare_layers + 1) * h + attending * attention_norms(m) +
		     m->mamba_layers * (uint64_t)m->mamba_heads * m->mamba_head_dim +
		     m->delta_layers * (uint64_t)m->delta_v_dim;
	out->biases = attending * attention_biases(m) + moe * moe_biases(m);
	out->total = out->embedding + out->head + out->attention + out->recurrent + out->dense_ffn + out->router +
		     out->shared_experts + out->routed_experts + out->norms + out->biases;
	out->active = out->total;
	if (m->experts)
		out->active -= moe * (uint64_t)(m->experts - m->topk) * mf_model_expert_params(m);
	/* An MTP layer: one of full attention with the model's kind of feed-forward part, a 2h x h projection, three norms. */
	if (m->mtp_layers) {
		bool last_moe = moe && (m->bare_layers || m->moe_layer[layers - 1]);
		uint64_t ffn = last_moe ? experts + shared + m->experts * h + moe_biases(m) : up * h * m->ffn;

		out->mtp = m->mtp_layers * (attention_params(m) + attention_norms(m) + 2 * h + attention_biases(m) +
						   ffn + 2 * h * h + 3 * h);
	}
}
