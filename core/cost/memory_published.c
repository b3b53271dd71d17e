/*
 * memory_published.c: the paper's accounting, kept for comparison with it. bf16 weights and fp32 gradients of resident
 * parameters, 12 bytes of optimizer state a parameter (dense over the data-parallel group, experts over ep * edp), and
 * 34 s b h bytes of activations a layer: the usual count of what a transformer layer keeps when scores are not stored.
 * Embedding and head are left out, and what the paper later found missing (its boundaries B6 and B7) is missing here
 * too.
 */
#include "memory_train.h"

/* Micro-batches in flight of each chunk of a rank, as the 1F1B and interleaved warm-ups leave them. */
static double in_flight(const mf_plan *p, uint32_t rank, uint32_t m)
{
	uint32_t vpp = p->vpp ? p->vpp : 1, chunks = p->pp - rank;

	if (vpp > 1)
		chunks = 2u * (p->pp - rank - 1u) + (vpp - 1u) * p->pp + 1u;
	return (double)(chunks < m * vpp ? chunks : m * vpp) / vpp;
}

double mf_published_rank(const mf_cost *c, const mf_plan *p, const mf_layer_memory *l, const mf_stage_shape *v,
	uint32_t rank, mf_explain *ex)
{
	uint32_t vpp = p->vpp ? p->vpp : 1, dp = mf_plan_dp(p, c->world), edp = mf_plan_edp(p, c->world);
	uint32_t m = mf_micro_batches(c, p), mirror = p->pp - 1u - rank;
	bool twice = p->schedule == MF_DUALPIPE && p->pp > 1, fsdp = p->sharding == MF_FSDP;
	const mf_layer_kinds *kinds = mf_train_kinds(c);
	double dense = 0, experts = 0, layers[2] = {0, 0}, flight = in_flight(p, rank, m), copies = twice ? 2 : 1;
	double d = (dp ? dp : 1) * (double)p->cp, de = edp ? edp : 1, wd, we, gd, ge, act;
	mf_ledger_sum t = {0, ex};

	for (uint32_t i = 0; i < vpp; i++)
		for (int both = 0; both <= twice; both++) {
			const mf_chunk *k = &v->chunk[(both ? mirror : rank) * vpp + i];

			for (uint32_t j = 0; j < kinds->n; j++) {
				dense += k->layers[j] * l->params[j];
				experts += k->layers[j] * l->experts[j];
				layers[both] += k->layers[j];
			}
		}
	wd = fsdp && p->zero_stage >= 3 ? d : 1;
	we = fsdp && p->zero_stage >= 3 ? de : 1;
	gd = fsdp && p->zero_stage >= 2 ? d : 1;
	ge = fsdp && p->zero_stage >= 2 ? de : 1;
	/* dualpipe: pp - r micro-batches of one stage and r + 1 of its mirror, half of the step's in each direction */
	act = twice ? l->published_act * (layers[0] * in_flight(p, rank, (m + 1) / 2) +
						 layers[1] * in_flight(p, mirror, (m + 1) / 2))
		    : l->published_act * layers[0] * flight;
	mf_ledger_add(&t, "weights.dense", 2 * dense / wd, "2 B a resident parameter, no embedding (published)");
	mf_ledger_add(&t, "weights.expert", 2 * experts / we, "2 B a resident parameter (published)");
	mf_ledger_add(&t, "grads.dense", 4 * dense / gd, "4 B a resident parameter (published)");
	mf_ledger_add(&t, "grads.expert", 4 * experts / ge, "4 B a resident parameter (published)");
	if (p->sharding != MF_ZERO1_OFFLOAD) {
		double all = p->zero_stage ? copies : 1;

		mf_ledger_add(&t, "optimizer.dense", 12 * dense / (p->zero_stage ? d * all : copies),
			"12 B / dp (published)");
		mf_ledger_add(&t, "optimizer.expert", 12 * experts / (p->zero_stage ? de * all : copies),
			"12 B of all experts / (ep edp) (published)");
	}
	mf_ledger_add(&t, "activations", act,
		"34 s b h a layer, 2 s b h recomputed in full, micro-batches in flight (published)");
	return (double)t.bytes;
}
