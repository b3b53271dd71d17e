/*
 * megatron_args.c: the command of a plan. Complete and directly executable: torchrun, pretrain_gpt.py, and every flag
 * whose default would give another model or another plan. Flags that differ between runs alone (paths, ports, run
 * length, logging) are marked as the site's.
 */
#include "megatron_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void site_arg(mf_sink *s, const char *flag, const char *value)
{
	s->part = MF_PART_SITE;
	mf_arg(s, flag);
	if (value)
		mf_arg(s, value);
	s->part = MF_PART_PLAN;
}

static void site_int(mf_sink *s, const char *flag, int64_t value)
{
	s->part = MF_PART_SITE;
	mf_arg_int(s, flag, value);
	s->part = MF_PART_PLAN;
}

static void write_launcher(const struct mf_emitter *e, mf_sink *s)
{
	const mf_cluster *c = e->in.cluster;
	const mf_site *site = e->in.site;
	char endpoint[192];

	mf_arg(s, "torchrun");
	mf_arg_int(s, "--nnodes", c->nodes);
	mf_arg_int(s, "--nproc-per-node", c->gpus_per_node);
	if (c->nodes > 1) {
		snprintf(endpoint, sizeof(endpoint), "%s:%u", site->master_addr[0] ? site->master_addr : "localhost",
			site->master_port ? site->master_port : 29500);
		site_arg(s, "--rdzv-backend", "c10d");
		site_arg(s, "--rdzv-endpoint", endpoint);
		site_arg(s, "--rdzv-id", "moefs");
	} else {
		site_arg(s, "--standalone", NULL);
	}
	site_arg(s, site->pretrain_script[0] ? site->pretrain_script : "pretrain_gpt.py", NULL);
}

/*
 * "Et*3|t*4|...|t*3mL": one group a virtual stage, in virtual-stage order. The embedding stands in the first, MTP layers
 * and the loss in the last.
 */
static void write_layout(const char *layout, uint32_t mtp, mf_sink *s)
{
	uint16_t counts[MF_MAX_LAYERS];
	size_t n = mf_stage_layout_parse(layout, counts, MF_COUNT(counts));
	mf_buf text = MF_BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		if (i)
			mf_buf_putc(&text, '|');
		if (i == 0)
			mf_buf_putc(&text, 'E');
		if (counts[i])
			mf_buf_printf(&text, "t*%u", counts[i]);
		if (i + 1 == n) {
			for (uint32_t k = 0; k < mtp; k++)
				mf_buf_putc(&text, 'm');
			mf_buf_putc(&text, 'L');
		}
	}
	mf_arg2(s, "--pipeline-model-parallel-layout", mf_buf_text(&text));
	mf_buf_dispose(&text);
}

static void write_parallelism(
	const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	mf_arg_int(s, "--tensor-model-parallel-size", p->tp);
	/* A MoE layer refuses to train with tp > 1 otherwise (mcore.M1), and dense layers gain by it. */
	if (p->tp > 1)
		mf_arg(s, "--sequence-parallel");
	mf_arg_int(s, "--pipeline-model-parallel-size", p->pp);
	if (st->layout) {
		write_layout(st->layout, e->megatron->mtp, s);
	} else {
		if (p->vpp > 1)
			mf_arg_int(s, "--num-virtual-stages-per-pipeline-rank", p->vpp);
		if (p->first_layers)
			mf_arg_int(s, "--decoder-first-pipeline-num-layers", p->first_layers);
		if (p->last_layers)
			mf_arg_int(s, "--decoder-last-pipeline-num-layers", p->last_layers);
	}
	mf_arg_int(s, "--context-parallel-size", p->cp);
	mf_arg_int(s, "--expert-model-parallel-size", p->ep);
	if (p->etp)
		mf_arg_int(s, "--expert-tensor-parallel-size", p->etp);
}

/* A list expression for --moe-layer-freq, runs folded: "([0]*3+[1]*58)". */
static void write_layer_freq(const mf_model *m, mf_sink *s)
{
	mf_buf text = MF_BUF_INIT;

	mf_buf_putc(&text, '(');
	for (uint32_t i = 0; i < m->layers;) {
		uint32_t run = 1;
		while (i + run < m->layers && !m->moe_layer[i + run] == !m->moe_layer[i])
			run++;
		mf_buf_printf(&text, "%s[%d]*%u", i ? "+" : "", m->moe_layer[i] ? 1 : 0, run);
		i += run;
	}
	mf_buf_putc(&text, ')');
	mf_arg2(s, "--moe-layer-freq", mf_buf_text(&text));
	mf_buf_dispose(&text);
}

static void write_attention(const struct mf_emitter *e, mf_sink *s)
{
	const mf_model *m = e->in.model;
	char text[64];

	if (m->attention == MF_MLA) {
		mf_arg(s, "--multi-latent-attention");
		if (m->q_lora)
			mf_arg_int(s, "--q-lora-rank", m->q_lora);
		mf_arg_int(s, "--kv-lora-rank", m->kv_lora);
		mf_arg_int(s, "--qk-head-dim", m->qk_nope);
		mf_arg_int(s, "--qk-pos-emb-head-dim", m->qk_rope);
		mf_arg_int(s, "--v-head-dim", m->v_dim);
		/* Unused by MLA, but its default asks that hidden divide by heads (mcore.H4). */
		mf_arg_int(s, "--kv-channels", m->v_dim);
		/* The norms of the compressed query and key. */
		mf_arg(s, "--qk-layernorm");
	} else {
		if (e->megatron->groups) {
			mf_arg(s, "--group-query-attention");
			mf_arg_int(s, "--num-query-groups", m->kv_heads);
		}
		mf_arg_int(s, "--kv-channels", m->head_dim);
		/* By head, also where the model's norm spans all heads: the one form there is, and it costs the same. */
		if (m->qk_norm || m->qk_norm_whole)
			mf_arg(s, "--qk-layernorm");
	}
	mf_arg2(s, "--position-embedding-type", "rope");
	mf_arg_int(s, "--rotary-base", (int64_t)llround(m->rope_theta));
	if (m->attention == MF_MLA) {
		mf_arg2(s, "--rope-type", m->yarn ? "yarn" : "rope");
		if (m->yarn) {
			mf_arg_double(s, "--rotary-scaling-factor", m->rope_scaling_factor);
			mf_arg_double(s, "--mscale", m->yarn_mscale != 0 ? m->yarn_mscale : 1);
			mf_arg_double(s, "--mscale-all-dim", m->yarn_mscale_all_dim);
		}
		/* Fused rope under MLA works with yarn only (mcore.H15). */
		if (!m->yarn || !e->megatron->te)
			mf_arg(s, "--no-rope-fusion");
	} else {
		if (m->rope_scaling_factor != 1 && !m->yarn) {
			mf_arg(s, "--use-rope-scaling");
			mf_arg_double(s, "--rope-scaling-factor", m->rope_scaling_factor);
		}
		if (!e->megatron->te)
			mf_arg(s, "--no-rope-fusion");
	}
	if (m->window && m->window_layers) {
		uint32_t full = m->layers - m->window_layers;
		snprintf(text, sizeof(text), "%u,0", m->window);
		mf_arg2(s, "--window-size", text);
		if (full)
			mf_arg_int(s, "--window-attn-skip-freq", m->layers / full);
	}
	if (m->attention_sinks)
		mf_arg2(s, "--softmax-type", "learnable");
	/* Flash attention has no learned sink; the fused backend of Transformer Engine does. */
	mf_arg2(s, "--attention-backend",
		e->in.stack->attention == MF_ATTN_UNFUSED ? "unfused"
		: m->attention_sinks                      ? "fused"
							  : "flash");
	mf_arg_double(s, "--attention-dropout", e->in.stack->attention_dropout);
	mf_arg_double(s, "--hidden-dropout", 0);
}

static void write_shape(const struct mf_emitter *e, mf_sink *s)
{
	const struct mf_megatron_facts *f = e->megatron;
	const mf_model *m = e->in.model;

	mf_arg2(s, "--transformer-impl", f->te ? "transformer_engine" : "local");
	mf_arg_int(s, "--num-layers", m->layers);
	mf_arg_int(s, "--hidden-size", m->hidden);
	mf_arg_int(s, "--num-attention-heads", m->heads);
	if (m->ffn)
		mf_arg_int(s, "--ffn-hidden-size", m->ffn);
	mf_arg_int(s, "--max-position-embeddings", m->max_positions);
	/* The null tokenizer counts one more before 0.18.0. */
	mf_arg_int(s, "--vocab-size", m->vocab - (f->minor < 18 ? 1 : 0));
	mf_arg2(s, "--normalization", "RMSNorm");
	mf_arg_double(s, "--norm-epsilon", m->norm_eps);
	if (!f->te)
		mf_arg(s, "--no-persist-layer-norm");
	if (m->clamped_glu) {
		mf_arg(s, "--quick-geglu");
		mf_arg_double(s, "--glu-linear-offset", 1);
		mf_arg_double(s, "--activation-func-clamp-value", 7);
	} else if (m->gated) {
		mf_arg(s, "--swiglu");
	}
	if (!m->linear_bias)
		mf_arg(s, "--disable-bias-linear");
	else if (m->experts)
		mf_arg(s, "--no-bias-dropout-fusion"); /* refused by grouped experts with bias (mcore.H10) */
	if (m->qkv_bias && !m->linear_bias)
		mf_arg(s, "--add-qkv-bias");
	if (!m->tied_embeddings)
		mf_arg(s, "--untie-embeddings-and-output-weights");
	write_attention(e, s);
	if (f->mtp)
		mf_arg_int(s, "--mtp-num-layers", f->mtp);
}

static void write_experts(const struct mf_emitter *e, const mf_plan *p, mf_sink *s)
{
	const struct mf_megatron_facts *f = e->megatron;
	const mf_model *m = e->in.model;
	static const char *const dispatchers[] = {"alltoall", "allgather", "flex", "flex"};

	if (p->overlap) {
		mf_arg(s, "--overlap-moe-expert-parallel-comm");
		if (e->in.stack->delay_wgrad)
			mf_arg(s, "--delay-wgrad-compute");
	}
	if (!m->experts)
		return;
	mf_arg_int(s, "--num-experts", m->experts);
	mf_arg_int(s, "--moe-ffn-hidden-size", m->moe_ffn);
	mf_arg_int(s, "--moe-router-topk", m->topk);
	if (m->moe_layers != m->layers)
		write_layer_freq(m, s);
	if (m->shared_ffn) {
		mf_arg_int(s, "--moe-shared-expert-intermediate-size", m->shared_ffn);
		if (m->shared_gate)
			mf_arg(s, "--moe-shared-expert-gate");
		if (f->shared_overlap)
			mf_arg(s, "--moe-shared-expert-overlap");
	}
	mf_arg2(s, "--moe-router-score-function", m->sigmoid_router ? "sigmoid" : "softmax");
	/* Softmax before the choice leaves the probabilities as they are; after it they add up to one. */
	if (!m->sigmoid_router && (!m->norm_topk || m->topk == 1))
		mf_arg(s, "--moe-router-pre-softmax");
	if (m->expert_bias) {
		mf_arg(s, "--moe-router-enable-expert-bias");
		mf_arg_double(s, "--moe-router-bias-update-rate", 1e-3);
	}
	if (f->expert_groups) {
		mf_arg_int(s, "--moe-router-num-groups", f->expert_groups);
		mf_arg_int(s, "--moe-router-group-topk", f->expert_group_topk);
	}
	if (m->routed_scaling != 1)
		mf_arg_double(s, "--moe-router-topk-scaling-factor", m->routed_scaling);
	mf_arg2(s, "--moe-router-dtype", "fp32");
	mf_arg2(s, "--moe-router-load-balancing-type", m->expert_bias ? "seq_aux_loss" : "aux_loss");
	mf_arg_double(s, "--moe-aux-loss-coeff", m->expert_bias ? 1e-4 : 1e-3);
	mf_arg2(s, "--moe-token-dispatcher-type", dispatchers[p->dispatcher]);
	if (p->dispatcher == MF_DISP_DEEPEP || p->dispatcher == MF_DISP_HYBRIDEP) {
		bool deepep = p->dispatcher == MF_DISP_DEEPEP;
		mf_arg2(s, "--moe-flex-dispatcher-backend", deepep ? "deepep" : "hybridep");
		if (p->sm_budget)
			mf_arg_int(s,
				f->minor >= 19 ? "--moe-flex-dispatcher-num-sms"
				: deepep       ? "--moe-deepep-num-sms"
					       : "--moe-hybridep-num-sms",
				p->sm_budget);
	}
	if (f->grouped_gemm)
		mf_arg(s, "--moe-grouped-gemm");
	if (e->in.stack->permute_fusion)
		mf_arg(s, "--moe-permute-fusion");
}

static void write_precision(const struct mf_emitter *e, mf_sink *s)
{
	static const struct {
		const char *format, *recipe;
	} fp8[] = {
		[MF_PREC_BF16] = {NULL, NULL},
		[MF_PREC_FP8_TENSOR] = {"hybrid", "tensorwise"},
		[MF_PREC_FP8_DELAYED] = {"hybrid", "delayed"},
		[MF_PREC_FP8_BLOCK] = {"e4m3", "blockwise"},
		[MF_PREC_MXFP8] = {"e4m3", "mxfp8"},
		[MF_PREC_NVFP4] = {NULL, NULL},
	};
	mf_precision precision = e->in.workload->precision;

	mf_arg(s, "--bf16");
	if (fp8[precision].format) {
		mf_arg2(s, "--fp8-format", fp8[precision].format);
		mf_arg2(s, "--fp8-recipe", fp8[precision].recipe);
	} else if (precision == MF_PREC_NVFP4) {
		mf_arg2(s, "--fp4-format", "e2m1");
	}
}

static void write_optimizer(const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	static const char *const strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
	const mf_stack *stack = e->in.stack;

	mf_arg2(s, "--optimizer", "adam");
	mf_arg2(s, "--lr", "1e-4");
	if (st->distributed_optimizer)
		mf_arg(s, "--use-distributed-optimizer");
	if (stack->overlap_grad_reduce)
		mf_arg(s, "--overlap-grad-reduce");
	if (stack->overlap_param_gather)
		mf_arg(s, "--overlap-param-gather");
	if (stack->grad_reduce_bf16)
		mf_arg(s, "--grad-reduce-in-bf16");
	if (st->precision_aware) {
		mf_arg(s, "--use-precision-aware-optimizer");
		if (stack->precision_aware) {
			if (stack->grad_reduce_bf16)
				mf_arg2(s, "--main-grads-dtype", "bf16");
			mf_arg2(s, "--exp-avg-dtype", "bf16");
			mf_arg2(s, "--exp-avg-sq-dtype", "bf16");
		}
	}
	if (st->offload) {
		mf_arg(s, "--optimizer-cpu-offload");
		mf_arg_double(s, "--optimizer-offload-fraction", 1);
		mf_arg(s, "--overlap-cpu-optimizer-d2h-h2d");
	}
	if (st->fsdp) {
		mf_arg(s, "--use-megatron-fsdp");
		mf_arg2(s, "--data-parallel-sharding-strategy", strategies[p->zero_stage & 3]);
		mf_arg2(s, "--ckpt-format", "fsdp_dtensor");
	}
	if (!st->fused_accumulation)
		mf_arg(s, "--no-gradient-accumulation-fusion");
}

static void write_recompute(const mf_plan *p, mf_sink *s)
{
	if (p->recompute == MF_RECOMPUTE_NONE)
		return;
	mf_arg2(s, "--recompute-granularity", p->recompute == MF_RECOMPUTE_FULL ? "full" : "selective");
	if (p->recompute == MF_RECOMPUTE_FULL) {
		mf_arg2(s, "--recompute-method", "uniform");
		mf_arg_int(s, "--recompute-num-layers", p->recompute_layers);
		return;
	}
	if (!p->recompute_modules)
		return;
	mf_arg(s, "--recompute-modules");
	for (const mf_choice *c = mf_recompute_module_choices; c->name; c++) {
		if (p->recompute_modules & c->value)
			mf_arg(s, c->name);
	}
}

static void write_stack(const struct mf_emitter *e, const mf_plan *p, mf_sink *s)
{
	const mf_stack *stack = e->in.stack;
	/* 0.18.0 renamed scopes to modules and made the whole iteration an implementation of its own. */
	bool old = e->megatron->minor < 18;

	if (stack->loss != MF_LOSS_EAGER) {
		mf_arg(s, "--cross-entropy-loss-fusion");
		mf_arg2(s, "--cross-entropy-fusion-impl", stack->loss == MF_LOSS_TE ? "te" : "native");
	}
	if (stack->graphs == MF_GRAPHS_PARTIAL) {
		mf_arg2(s, "--cuda-graph-impl", "transformer_engine");
		mf_arg2(s, old ? "--cuda-graph-scope" : "--cuda-graph-modules", "attn");
	} else if (stack->graphs == MF_GRAPHS_FULL) {
		mf_arg2(s, "--cuda-graph-impl", old ? "local" : "full_iteration");
		if (old) {
			mf_arg2(s, "--cuda-graph-scope", "full_iteration");
			/* 0.17.1 asks for it wherever graphs meet expert parallelism; training does not read it. */
			if (p->ep > 1)
				mf_arg(s, "--moe-pad-experts-for-cuda-graph-inference");
		}
		mf_arg(s, "--no-check-for-nan-in-loss-and-grad");
	}
}

static void write_run(const struct mf_emitter *e, mf_sink *s)
{
	const mf_site *site = e->in.site;
	uint32_t log_interval = site->log_interval ? site->log_interval : 1;

	mf_arg(s, "--no-create-attention-mask-in-dataloader");
	if (site->data_path[0]) {
		site_arg(s, "--data-path", site->data_path);
		site_arg(s, "--split", "99,1,0");
	} else {
		site_arg(s, "--mock-data", NULL);
	}
	site_arg(s, "--tokenizer-type", site->tokenizer_path[0] ? "HuggingFaceTokenizer" : "NullTokenizer");
	if (site->tokenizer_path[0])
		site_arg(s, "--tokenizer-model", site->tokenizer_path);
	site_int(s, "--train-iters", site->train_iters ? site->train_iters : 10);
	/* Evaluation is off, but its interval must be given (mcore.D6). */
	site_int(s, "--eval-iters", 0);
	site_int(s, "--eval-interval", 1000);
	site_int(s, "--log-interval", log_interval);
	site_arg(s, "--log-throughput", NULL);
	site_int(s, "--log-memory-interval", log_interval);
	if (site->log_dir[0])
		site_arg(s, "--tensorboard-dir", site->log_dir);
}

static void write_environment(
	const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	/*
	 * tp or cp need "1" before Blackwell (mcore.W14); FSDP and the expert-parallel overlap want several hardware queues,
	 * and FSDP refuses "1" (mcore.F2).
	 */
	mf_env(s, "CUDA_DEVICE_MAX_CONNECTIONS", st->fsdp ? "8" : p->overlap ? "32" : "1");
	mf_env(s, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
	if (e->in.stack->graphs != MF_GRAPHS_NONE)
		mf_env(s, "NCCL_GRAPH_REGISTER", "0");
}

void mf_megatron_write(const struct mf_emitter *e, const mf_plan *p, const struct mf_megatron_step *st, mf_sink *s)
{
	assert(s->collect);
	write_launcher(e, s);
	write_parallelism(e, p, st, s);
	mf_arg_int(s, "--micro-batch-size", p->micro_batch);
	mf_arg_int(s, "--global-batch-size", e->in.workload->global_batch);
	mf_arg_int(s, "--seq-length", e->in.workload->seq);
	write_shape(e, s);
	write_experts(e, p, s);
	write_precision(e, s);
	write_optimizer(e, p, st, s);
	write_recompute(p, s);
	write_stack(e, p, s);
	write_run(e, s);
	write_environment(e, p, st, s);
}
