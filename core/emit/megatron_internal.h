/* megatron_internal.h: what the guards (megatron.c) and the argument writer (megatron_args.c) share. */
#ifndef MF_MEGATRON_INTERNAL_H
#define MF_MEGATRON_INTERNAL_H

#include "emit_internal.h"

/** Everything the walk needs from model, cluster, workload and stack, made once: integers to compare, no strings. */
struct mf_megatron_facts {
	uint32_t minor, patch; /* of core v0.MINOR.PATCH */
	uint32_t world, gpus_per_node;
	uint32_t layers, heads, groups; /* groups 0: not grouped-query attention */
	uint32_t seq, max_positions, global_batch;
	uint32_t experts, topk, ffn, moe_ffn, shared_ffn, mtp; /* mtp: layers trained, 0 when off */
	uint32_t expert_groups, expert_group_topk;             /* 0: no group-limited routing */
	mf_rule_id model_rule;                                 /* the model has no words; MF_RULE_NONE when it has */
	int64_t model_values[6];
	size_t n_model_values;
	mf_rule_id precision_rule; /* the GPU lacks the workload's precision */
	bool mla, te, grouped_gemm, shared_overlap, biased_moe, fp8, fp8_delayed, mtp_dense;
	bool config_before_groups; /* 0.19.0 builds the config before any process group */
};

/** What a plan comes to, used by guards and arguments alike. */
struct mf_megatron_step {
	uint32_t dp, etp, microbatches; /* dp and microbatches as Megatron divides them: rounded down */
	bool distributed_optimizer, fsdp, offload, precision_aware, fused_accumulation, interleaved;
	bool uneven;        /* first or last stage counts given */
	const char *layout; /* text of a stage layout, NULL without */
};

void mf_megatron_write(const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s);

#endif
