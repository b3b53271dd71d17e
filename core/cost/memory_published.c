/*
 * memory_published.c: the paper's accounting, kept for comparison with it. bf16 weights and fp32 gradients of resident
 * parameters, 12 bytes of optimizer state a parameter (dense over the data-parallel group, experts over ep * edp), and
 * the classic 34 * s * b * h bytes of activations a layer (attention recomputed). Embedding and head are left out, and
 * what the paper later found missing (its boundaries B6 and B7) is missing here too.
 */
#include "memory_train.h"

#include <math.h>

static double in_flight(const mf_plan *p)
{
	/* The first stage of 1F1B holds pp micro-batches; interleaving adds (pp-1)/(pp*v) of that. */
	if (p->pp == 1)
		return 1;
	return p->vpp > 1 ? p->pp * (1 + (p->pp - 1.0) / (p->pp * (double)p->vpp)) : p->pp;
}

void mf_published_memory_eval(mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const mf_param_count *n, mf_memory *out,
	mf_explain *ex)
{
	const mf_model *m = c->in.model;
	uint32_t dp = mf_plan_dp(p, c->world), edp = mf_plan_edp(p, c->world);
	double dense, expert, weights, grads, opt_dense, opt_expert, act, layers = m->layers;

	dense = (double)(n->attention + n->dense_ffn + n->router + n->shared_experts) / ((double)p->tp * p->pp);
	expert = (double)n->routed_experts / ((double)p->ep * l->etp * p->pp);
	weights = 2 * (dense + expert);
	grads = 4 * (dense + expert);
	opt_dense = 12 * dense / ((double)dp * p->cp);
	opt_expert = 12 * expert / edp;
	if (p->sharding == MF_FSDP) {
		weights = 2 * (dense / ((double)dp * p->cp) + expert / edp);
		grads = 2 * weights;
	} else if (p->sharding == MF_ZERO1_OFFLOAD) {
		opt_dense = opt_expert = 0;
	}
	if (p->recompute == MF_RECOMPUTE_FULL)
		act = 2 * l->sp_tokens * m->hidden * layers / p->pp * in_flight(p);
	else
		act = 34 * l->sp_tokens * m->hidden * layers / p->pp * in_flight(p);
	out->total_bytes = weights + grads + opt_dense + opt_expert + act;
	out->budget_bytes = c->in.cluster->hbm_bytes * c->opts.usable_fraction;
	out->worst_stage = 0;
	out->fits = out->total_bytes <= out->budget_bytes;
	out->probe = 0;
	if (!ex)
		return;
	mf_explain_line(ex, "weights", weights, "2 B a resident parameter, no embedding (published)");
	mf_explain_line(ex, "gradients", grads, "4 B a resident parameter (published)");
	mf_explain_line(ex, "optimizer.dense", opt_dense, "12 B / dp (published)");
	mf_explain_line(ex, "optimizer.expert", opt_expert, "12 B / edp of local experts (published)");
	mf_explain_line(ex, "activations", act, "34 s b h a layer, micro-batches in flight (published)");
	ex->stage_bytes[0] = out->total_bytes;
	ex->n_stages = 1;
}
