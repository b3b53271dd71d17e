/*
 * plan.h: what a plan is and what it is made for. The model, the cluster, the workload, the stack and the site are
 * inputs; the plan is one small value. Readers for each, the text form of a plan, and parameter counts.
 */
#ifndef MF_PLAN_H
#define MF_PLAN_H

#include "base.h"

/** Names of enum values, from the same table that parses them. */
typedef struct mf_choice {
	int value;
	const char *name; /* as written in plans, YAML and on the command line */
	const char *help;
} mf_choice;
/** Name of `value` in a table ended by a NULL name; "?" when absent. */
const char *mf_choice_name(const mf_choice *table, int value);
/** Value of `name`, or -1. */
int mf_choice_value(const mf_choice *table, const char *name);

/* ---- model ----------------------------------------------------------------------------------------------------- */

typedef enum mf_attention { MF_GQA, MF_MLA } mf_attention;
typedef enum mf_quant {
	MF_QUANT_NONE,
	MF_QUANT_FP8_BLOCK,
	MF_QUANT_FP8,
	MF_QUANT_NVFP4,
	MF_QUANT_MXFP4,
	MF_QUANT_INT4,
	MF_QUANT_INT8
} mf_quant;
extern const mf_choice mf_quant_choices[];

/** What mixes tokens in a layer. */
typedef enum mf_mixer {
	MF_MIX_ATTENTION, /* full causal attention, of the model's mf_attention */
	MF_MIX_WINDOW,    /* the same over a sliding window */
	MF_MIX_MAMBA2,    /* state-space scan */
	MF_MIX_DELTA,     /* gated delta net: linear attention */
	MF_MIX_NONE,      /* a feed-forward part alone */
	MF_MIXER_COUNT
} mf_mixer;
extern const mf_choice mf_mixer_choices[];

#define MF_MAX_LAYERS 256

/** A transformer, dense or MoE, as its config.json gives it. A plain value; counts are of the whole model. */
typedef struct mf_model {
	char name[96];         /* built-in name, or the file it came from */
	char model_type[48];   /* config.json's, of the text part */
	char architecture[64]; /* config.json's architectures[0], "" when absent */
	char path[256];        /* directory of config.json, "" for a built-in model */
	uint32_t layers, hidden, vocab, max_positions;
	uint32_t learned_positions; /* learned position embeddings, 0 for rotary or none */
	mf_attention attention;
	uint32_t heads, kv_heads;                  /* kv_heads == heads under MLA */
	uint32_t head_dim;                         /* query/key head size under GQA */
	uint32_t v_dim;                            /* value head size (GQA: head_dim) */
	uint32_t q_lora;                           /* MLA; 0: the query is not compressed */
	uint32_t kv_lora, qk_nope, qk_rope;        /* MLA */
	uint32_t ffn;                              /* intermediate size of a dense layer, 0 when no layer is dense */
	uint32_t experts;                          /* routed experts, 0 for a dense model */
	uint32_t topk, moe_ffn;                    /* experts a token uses; intermediate size of one expert */
	uint32_t shared_ffn;                       /* total intermediate size of the shared experts, 0 for none */
	uint32_t expert_groups, expert_group_topk; /* group-limited routing; 0 for none */
	uint8_t moe_layer[MF_MAX_LAYERS];          /* 1 where the layer is MoE */
	uint32_t moe_layers;                       /* how many are */
	uint8_t bare_layer[MF_MAX_LAYERS];         /* 1 where the layer has no feed-forward part at all */
	uint32_t bare_layers;                      /* how many are; the rest, less the MoE ones, are dense */
	uint8_t mixer[MF_MAX_LAYERS];              /* mf_mixer of the layer */
	uint32_t mamba_layers, delta_layers, mixerless_layers; /* how many layers have those; the rest is attention */
	uint32_t mtp_layers;    /* multi-token-prediction layers in the checkpoint: each is one layer of
						      full attention with the last layer's kind of feed-forward part */
	uint32_t window;        /* sliding window of windowed layers, 0 for none */
	uint32_t window_layers; /* how many layers are windowed (their mixer says which) */
	uint32_t attention_chunk,
		chunk_layers; /* Llama 4: full-attention layers that see their own chunk of tokens alone */
	uint32_t mamba_heads, mamba_head_dim, mamba_state, mamba_groups,
		mamba_conv; /* Mamba-2; inner size is heads * head_dim */
	uint32_t delta_k_heads, delta_v_heads, delta_k_dim, delta_v_dim, delta_conv; /* gated delta net */
	uint32_t index_heads, index_dim,
		index_topk;                    /* sparse attention: indexer heads and size, keys kept; 0 for none */
	uint32_t moe_latent;                   /* width routed experts work in, behind two projections; 0: hidden */
	uint32_t quant_block_n, quant_block_k; /* fp8 block sizes, 0 when not block-quantized */
	mf_quant quant;                        /* of the checkpoint's experts and linears */
	bool tied_embeddings;
	bool other_parts; /* a vision or audio tower besides, which is not priced: memory in serving is for a probe */
	bool gated;       /* SwiGLU-like: two up projections */
	bool qkv_bias, linear_bias; /* bias on the query/key/value projection; on every attention and MLP linear */
	bool mlp_bias;              /* bias on expert or MLP linears alone */
	bool qk_norm;               /* per-head (or whole) norm of query and key */
	bool qk_norm_whole;         /* the norm spans all heads (MiniMax) */
	bool attention_sinks;       /* one learned logit a head (gpt-oss) */
	bool attention_gate;        /* sigmoid gate on the attention's output: the query projection is doubled */
	bool shared_gate;           /* sigmoid gate on the shared expert (Qwen2-MoE) */
	bool sigmoid_router;        /* sigmoid scores, else softmax */
	bool expert_bias;           /* aux-loss-free balancing bias */
	bool norm_topk;             /* probabilities renormalized over the chosen experts */
	bool clamped_glu;           /* gpt-oss activation: no fused kernel covers it */
	double routed_scaling;      /* 1 when absent */
	double rope_theta;
	double rope_scaling_factor; /* 1 when absent */
	bool yarn;
	double yarn_mscale, yarn_mscale_all_dim; /* 0 when absent */
	uint32_t rope_original_positions;        /* 0 when absent */
	double norm_eps;
} mf_model;

/** Layers with attention, full or windowed. */
static inline uint32_t mf_model_attention_layers(const mf_model *m)
{
	return m->layers - m->mamba_layers - m->delta_layers - m->mixerless_layers;
}
/** Layers with a dense feed-forward part. */
static inline uint32_t mf_model_dense_layers(const mf_model *m)
{
	return m->layers - m->moe_layers - m->bare_layers;
}
/** True when layers are more than attention and a feed-forward part each: recurrent, split or sparse ones. */
static inline bool mf_model_hybrid(const mf_model *m)
{
	return m->mamba_layers || m->delta_layers || m->mixerless_layers || m->bare_layers || m->index_topk;
}
/** Width of the rows that routed experts receive. */
static inline uint32_t mf_model_expert_width(const mf_model *m)
{
	return m->moe_latent ? m->moe_latent : m->hidden;
}
/** Sets the counts of layer kinds (moe_layers, bare_layers, window_layers, ...) from the arrays that say which. */
void mf_model_tally(mf_model *m);

/**
 * Resolves a model: a built-in name (or its override in the user's configuration) or one of its `aliases:`, a
 * config.json path, a directory holding one, or a hub name (owner/name) in the local Hugging Face cache. Anything that
 * cannot be priced (unknown model_type, layers of different attention shapes) fails naming the file, line and field.
 */
mf_status mf_model_load(mf_model *out, const char *name_or_path, mf_err *err);
/**
 * Built-in model that goes by `name`: its file's name or one of its `aliases`, without regard to case, separators, owner
 * ("Qwen/") and last words that change no shape ("-Instruct", "-2507", "-FP8"). NULL for none.
 */
const char *mf_model_builtin(const char *name);
/** Sets the format of the checkpoint where the last words of `name` say one ("-NVFP4"); else leaves it. */
void mf_model_quant_of_name(mf_model *m, const char *name);
/** From a parsed document (config.json keys, JSON or YAML). */
mf_status mf_model_from_doc(mf_model *out, const mf_doc *doc, mf_err *err);

/** Appends the model's config.json: the file it was loaded from, or a built-in model's keys as JSON. */
mf_status mf_model_config_json(const mf_model *m, mf_buf *out, mf_err *err);

/** Parameters of a model by group; whole model, in units of one parameter. Sum of groups is `total`. */
typedef struct mf_param_count {
	uint64_t embedding, head;      /* head 0 when tied */
	uint64_t attention, recurrent; /* recurrent: Mamba-2 and delta-net layers */
	uint64_t dense_ffn, router, shared_experts, routed_experts, norms, biases; /* shared: with latent projections */
	uint64_t total;  /* without MTP, as publishers count */
	uint64_t active; /* a token's: total less the unused experts' */
	uint64_t mtp;    /* of the MTP layers, beside `total` */
} mf_param_count;
/** Parameters by group, counted from the shapes; biases and norms included, MTP layers apart. */
void mf_model_count(const mf_model *m, mf_param_count *out);
/** Parameters of one expert (gate, up, down; biases left out). */
uint64_t mf_model_expert_params(const mf_model *m);

/* ---- cluster --------------------------------------------------------------------------------------------------- */

typedef enum mf_dtype { MF_BF16, MF_FP8, MF_FP4, MF_DTYPE_COUNT } mf_dtype;
typedef enum mf_gpu_family { MF_AMPERE, MF_ADA, MF_HOPPER, MF_BLACKWELL, MF_FAMILY_COUNT } mf_gpu_family;
typedef enum mf_fabric { MF_FABRIC_NVLINK, MF_FABRIC_PCIE } mf_fabric;

/** A cluster of equal nodes. Rates are datasheet values, one way; calibrated shares live in the constants. */
typedef struct mf_cluster {
	char name[64];
	char gpu[48]; /* "H800" */
	uint32_t sm;  /* compute capability times ten: 80, 89, 90, 100, 103, 120 */
	uint32_t sm_count;
	mf_gpu_family family;
	double tflops[MF_DTYPE_COUNT]; /* dense; NaN where the GPU lacks the type */
	double hbm_bytes;              /* nominal, e.g. 80e9: what the published ledger budgets from */
	double device_bytes; /* what the driver really offers, e.g. 79.1 GiB: what the full ledger budgets from */
	double hbm_gbps, l2_bytes;
	uint32_t gpus_per_node, nodes;
	uint32_t nvlink_domain; /* GPUs that reach each other over NVLink: 8, 72; 1 when there is none */
	mf_fabric fabric;
	double link_gbps; /* intra-node, a GPU */
	double link_latency_us;
	double nic_gbps; /* inter-node, a GPU */
	double nic_latency_us;
	double pcie_gbps;        /* host link of a GPU */
	double host_memory_gbps; /* a GPU's share of host memory bandwidth */
	double host_bytes;       /* host memory of a node; NaN when unknown */
	bool grace;              /* Grace host: slower single thread, coherent link */
} mf_cluster;
/** Built-in name, `NxGPUSxNAME` / `GPUSxNAME` of a built-in GPU (e.g. 256x8xh800), or a YAML path. Not `auto`. */
mf_status mf_cluster_load(mf_cluster *out, const char *name_or_path, mf_err *err);
/**
 * Whether two names mean one GPU: maker, brand, form, stacks, case and separators do not count ("NVIDIA GeForce RTX 4090" and
 * "rtx4090", "h100_sxm" and "H100"), the memory does where both say it or neither.
 */
bool mf_same_gpu(const char *a, const char *b);
/** The built-in cluster of a GPU with the fewest nodes ("H100 80GB" is H100, whose memory it says); false when none has it. */
bool mf_cluster_of_gpu(mf_cluster *out, const char *gpu);
/** As mf_cluster_load, from a document; errors name its line and field. */
mf_status mf_cluster_from_doc(mf_cluster *out, const mf_doc *doc, mf_err *err);
static inline uint32_t mf_cluster_world(const mf_cluster *c)
{
	return c->gpus_per_node * c->nodes;
}

/* ---- workload, stack, site ------------------------------------------------------------------------------------- */

/** "off" and "on", as 0 and 1. */
extern const mf_choice mf_on_off_choices[];
typedef enum mf_phase { MF_TRAIN, MF_SERVE } mf_phase;
extern const mf_choice mf_phase_choices[];
typedef enum mf_precision {
	MF_PREC_BF16,
	MF_PREC_FP8_TENSOR,
	MF_PREC_FP8_DELAYED,
	MF_PREC_FP8_BLOCK,
	MF_PREC_MXFP8,
	MF_PREC_NVFP4
} mf_precision;
extern const mf_choice mf_precision_choices[];

#define MF_MAX_MICRO_BATCHES 8
#define MF_MAX_LOAD_BINS 512

/** What the plan is to do. */
typedef struct mf_workload {
	char name[64];
	mf_phase phase;
	/* training */
	uint32_t seq, global_batch;
	uint32_t micro_batches[MF_MAX_MICRO_BATCHES], n_micro_batches; /* choices the search may take */
	mf_precision precision;
	bool mtp; /* train the model's MTP layers too */
	/* serving */
	uint32_t input_tokens, output_tokens, concurrency;
	double ttft_target_ms, tpot_target_ms; /* NaN: none */
	bool fp8_kv;
	double length_spread;   /* lengths are uniform on [1 - spread, 1] of nominal; 0: all equal, in step */
	uint32_t requests;      /* that a run sends in all; 0: ten times the concurrency; all queued at once where the
	                             concurrency is no less */
	uint32_t draft_tokens;  /* speculative decoding: drafted a step; 0: none */
	double accepted_tokens; /* tokens a step yields with them, 1 to draft_tokens + 1 */
	/* routing skew */
	double max_violation; /* most loaded expert / mean - 1; 0 is balanced */
	uint32_t n_load_bins; /* per-expert token share, from a histogram file; 0 when none */
	float load_bins[MF_MAX_LOAD_BINS];
} mf_workload;
/** Built-in name, YAML path, or NULL: the phase's default. Errors name file, line and field. */
mf_status mf_workload_load(mf_workload *out, const char *name_or_path, mf_phase phase, mf_err *err);
mf_status mf_workload_from_doc(mf_workload *out, const mf_doc *doc, mf_err *err);

typedef enum mf_toolchain {
	MF_MEGATRON_0171,
	MF_MEGATRON_0180,
	MF_MEGATRON_0182,
	MF_MEGATRON_0190,
	MF_SGLANG_0514,
	MF_SGLANG_0515,
	MF_SGLANG_0516,
	MF_TOOLCHAIN_COUNT
} mf_toolchain;
/** Names such as "megatron-0.18.0", "sglang-0.5.15". */
extern const mf_choice mf_toolchain_choices[];
static inline bool mf_toolchain_is_megatron(mf_toolchain t)
{
	return t <= MF_MEGATRON_0190;
}
typedef enum mf_attn_backend { MF_ATTN_FLASH, MF_ATTN_UNFUSED } mf_attn_backend;
typedef enum mf_loss { MF_LOSS_EAGER, MF_LOSS_NATIVE, MF_LOSS_TE } mf_loss;
/** Activations that fine-grained offloading moves to the host, by Megatron's module names. */
typedef enum mf_offload_module {
	MF_OFFLOAD_ATTN_NORM = 1,
	MF_OFFLOAD_QKV_LINEAR = 2,
	MF_OFFLOAD_CORE_ATTN = 4,
	MF_OFFLOAD_ATTN_PROJ = 8,
	MF_OFFLOAD_MLP_NORM = 16,
	MF_OFFLOAD_EXPERT_FC1 = 32,
	MF_OFFLOAD_MOE_ACT = 64
} mf_offload_module;
typedef enum mf_graphs { MF_GRAPHS_NONE, MF_GRAPHS_PARTIAL, MF_GRAPHS_FULL } mf_graphs;
extern const mf_choice mf_attention_choices[], mf_graphs_choices[];
typedef enum mf_optimizer { MF_OPT_ADAM, MF_OPT_MUON } mf_optimizer;
extern const mf_choice mf_optimizer_choices[];
typedef enum mf_ledger { MF_LEDGER_PUBLISHED, MF_LEDGER_FULL } mf_ledger;
extern const mf_choice mf_ledger_choices[];

/** Serving engine that the cost model prices; the commands that moefs writes are SGLang's. */
typedef enum mf_engine {
	MF_ENGINE_SGLANG,
	MF_ENGINE_SGLANG_WIDE,
	MF_ENGINE_VLLM,
	MF_ENGINE_TRTLLM,
	MF_ENGINE_COUNT
} mf_engine;
extern const mf_choice mf_engine_choices[];

/** What the plan will run on: software, its version and its fixed switches. */
typedef struct mf_stack {
	char name[64];
	mf_toolchain toolchain;
	mf_attn_backend attention;
	bool transformer_engine;
	mf_loss loss;
	mf_graphs graphs;      /* CUDA graphs of the training run; serving graphs are a plan dimension */
	bool grad_reduce_bf16; /* bf16 gradient buffers, else fp32 */
	bool fused_quant;      /* one kernel casts for all local experts (Transformer Engine's grouped quantization) */
	mf_optimizer optimizer;
	bool precision_aware; /* precision-aware optimizer with bf16 moments */
	bool overlap_grad_reduce, overlap_param_gather;
	bool delay_wgrad; /* split wgrad under EP overlap */
	bool shared_expert_overlap;
	bool permute_fusion, deepep, hybridep, einops, deep_gemm; /* packages present */
	double attention_dropout;
	/* Switches that no stack file asks for: they are read from commands and measured runs, and the ledger prices them. */
	double hidden_dropout;
	uint32_t vocab_multiple;      /* vocabulary is padded to this times tp; 0: 128 */
	uint32_t optimizer_instances; /* partial distributed optimizer: groups that each hold the whole state; 0: 1 */
	uint8_t offload_activations;  /* bits of mf_offload_module: saved activations that wait in host memory */
	bool separate_wgrad;          /* no gradient-accumulation fusion: weight gradients exist on their own first */
	bool sequential_experts;      /* experts one by one, no grouped GEMM */
	bool fp8_params;              /* weights are kept and gathered in 8 bits */
	bool mtp_repeated;            /* one set of MTP weights, used at every depth */
	char runner_default[24];      /* SGLang's MoE runner when the plan says auto */
	double mem_fraction;          /* serving; NaN: from the ledger */
	mf_engine engine;             /* serving: whose scheduler and host time are priced */
} mf_stack;
/** Built-in name, YAML path, or NULL: the phase's default. Errors name file, line and field. */
mf_status mf_stack_load(mf_stack *out, const char *name_or_path, mf_phase phase, mf_err *err);
mf_status mf_stack_from_doc(mf_stack *out, const mf_doc *doc, mf_err *err);

/** What differs between nodes and runs and must not change a verdict. Read last, by the emitter alone. */
typedef struct mf_site {
	char name[64];
	char pretrain_script[256]; /* pretrain_gpt.py */
	char python[256];          /* interpreter for serving, "python3" */
	char model_path[256];      /* weights or config directory for serving */
	char data_path[256];       /* "" means mock data */
	char tokenizer_path[256];
	char host[128]; /* serving listen address */
	uint32_t port;
	char master_addr[128]; /* rendezvous of several nodes */
	uint32_t master_port;
	uint32_t train_iters;
	uint32_t log_interval;
	char log_dir[256];                               /* "" for none */
	char partition[64], account[64], container[256]; /* sbatch */
} mf_site;
/** NULL or "" gives the defaults. */
mf_status mf_site_load(mf_site *out, const char *path, mf_err *err);

/* ---- the plan -------------------------------------------------------------------------------------------------- */

typedef enum mf_schedule { MF_1F1B, MF_INTERLEAVED, MF_DUALPIPE } mf_schedule;
typedef enum mf_sharding { MF_ZERO1, MF_ZERO1_OFFLOAD, MF_FSDP } mf_sharding;
typedef enum mf_recompute { MF_RECOMPUTE_NONE, MF_RECOMPUTE_SELECTIVE, MF_RECOMPUTE_FULL } mf_recompute;
/** Modules that selective recompute may name (bits of mf_plan.recompute_modules). */
typedef enum mf_recompute_module {
	MF_RC_CORE_ATTN = 1,
	MF_RC_MOE_ACT = 2,
	MF_RC_LAYERNORM = 4,
	MF_RC_MLA_UP_PROJ = 8,
	MF_RC_MLP = 16,
	MF_RC_MOE = 32,
	MF_RC_SHARED_EXPERTS = 64
} mf_recompute_module;
typedef enum mf_dispatcher { MF_DISP_ALLTOALL, MF_DISP_ALLGATHER, MF_DISP_DEEPEP, MF_DISP_HYBRIDEP } mf_dispatcher;
typedef enum mf_a2a { MF_A2A_NONE, MF_A2A_DEEPEP, MF_A2A_MOONCAKE, MF_A2A_NIXL, MF_A2A_FLASHINFER } mf_a2a;
typedef enum mf_runner {
	MF_RUN_AUTO,
	MF_RUN_TRITON,
	MF_RUN_DEEP_GEMM,
	MF_RUN_TRITON_KERNEL,
	MF_RUN_FLASHINFER_TRTLLM,
	MF_RUN_FLASHINFER_CUTLASS,
	MF_RUN_FLASHINFER_CUTEDSL,
	MF_RUN_FLASHINFER_MXFP4,
	MF_RUN_CUTLASS,
	MF_RUN_MARLIN
} mf_runner;
typedef enum mf_deepep_mode { MF_DM_AUTO, MF_DM_NORMAL, MF_DM_LOW_LATENCY } mf_deepep_mode;
typedef enum mf_graph_mode { MF_GRAPH_FULL, MF_GRAPH_OFF } mf_graph_mode;
typedef enum mf_placement { MF_PLACE_DEFAULT, MF_PLACE_COMM_FIRST, MF_PLACE_COMPUTE_FIRST } mf_placement;
typedef enum mf_comm_kind { MF_COMM_STREAM, MF_COMM_DEVICE } mf_comm_kind;
extern const mf_choice mf_schedule_choices[], mf_sharding_choices[], mf_recompute_choices[],
	mf_recompute_module_choices[], mf_dispatcher_choices[], mf_a2a_choices[], mf_runner_choices[],
	mf_deepep_mode_choices[], mf_graph_mode_choices[], mf_placement_choices[];

/**
 * One plan: a plain value of at most 64 bytes, comparable with memcmp, no pointers. Sizes are degrees; 0 in a field
 * marked "0: ..." takes the meaning given there. Data parallelism is never stored: it is what remains of the world
 * (mf_plan_dp). In serving `tp` and `cp` are the attention's, the same remainder is attention DP, and one replica spans
 * tp*cp*dp*pp GPUs; SGLang's --tp-size is tp*cp*dp.
 */
typedef struct mf_plan {
	uint16_t tp, cp, pp, ep;
	uint16_t etp; /* expert tensor parallel in training; 0: as tp. Serving derives it: tp*cp*dp/(ep*moe_dp) */
	uint16_t vpp; /* chunks a pipeline rank holds; 1 unless interleaved */
	uint16_t micro_batch;               /* sequences, training */
	uint16_t moe_dp;                    /* serving; 1 */
	uint16_t replicas;                  /* serving: independent engines side by side; 1 */
	uint16_t node_limit;                /* nodes a token may reach; 0: the model's own limit */
	uint16_t redundant;                 /* redundant experts, whole model */
	uint16_t first_layers, last_layers; /* decoder layers of the first / last stage; 0: even split */
	uint16_t stage_layout;              /* interned list of layers a virtual stage; 0: none */
	uint16_t expert_map;                /* interned name of an expert placement file; 0: none */
	uint16_t sm_budget;                 /* SMs given to communication; 0: the library's own */
	uint16_t recompute_layers;          /* full: layers a checkpoint spans (uniform); 1 */
	uint16_t kernel;                    /* packed kernel spec (mf_kernel_pack), 0: none */
	uint16_t prefill_chunk;             /* serving, in units of 256 tokens; 0: the engine's default */
	uint8_t phase;                      /* mf_phase */
	uint8_t schedule;                   /* mf_schedule */
	uint8_t overlap; /* expert-parallel communication hidden behind compute (training); two-batch overlap (serving) */
	uint8_t comm_chunks;                     /* pieces a dispatch is cut into; 1 */
	uint8_t placement;                       /* mf_placement, for the simulator */
	uint8_t comm_kind;                       /* mf_comm_kind; device is refused at construction */
	uint8_t sharding;                        /* mf_sharding */
	uint8_t zero_stage;                      /* 0..3; default 1, and 3 under fsdp */
	uint8_t recompute;                       /* mf_recompute */
	uint8_t recompute_modules;               /* mf_recompute_module bits, selective only; default core_attn */
	uint8_t dispatcher;                      /* mf_dispatcher, training */
	uint8_t a2a, runner, deepep_mode, graph; /* serving */
	uint8_t pad;                             /* zero */
} mf_plan;
_Static_assert(sizeof(mf_plan) <= 64, "a plan stays small enough to copy");

/** The default plan of a phase: every degree 1, every choice its default. */
mf_plan mf_plan_default(mf_phase phase);
/** Data-parallel degree left by the plan: world/(tp*cp*pp) in training, world/(tp*cp*pp*replicas) in serving; 0: it does not divide. */
uint32_t mf_plan_dp(const mf_plan *p, uint32_t world);
/** Expert tensor parallel in force: training etp or tp; serving tp*cp*dp/(ep*moe_dp), 0 when it does not divide. */
uint32_t mf_plan_etp(const mf_plan *p, uint32_t world);
/** Expert data parallel in training: world/(etp*ep*pp), 0 when it does not divide. */
uint32_t mf_plan_edp(const mf_plan *p, uint32_t world);

/** Names of stage layouts and expert maps, so that a plan can hold them by number. Thread-safe; ids start at 1. */
typedef struct mf_intern mf_intern;
mf_intern *mf_intern_new(void);
void mf_intern_free(mf_intern *in);
/** Id of `text` (added when new), 0 when out of ids or memory. */
uint16_t mf_intern_id(mf_intern *in, const char *text);
/** Text of an id, NULL when unknown. Borrowed from `in`. */
const char *mf_intern_text(const mf_intern *in, uint16_t id);
/** Layers a virtual stage of an interned layout text such as "13-14": fills counts[0..cap), returns how many, 0 on a bad text. */
size_t mf_stage_layout_parse(const char *text, uint16_t *counts, size_t cap);
/** The shortest text of `n` stages, runs folded ("4x15-1"), in out[0..size); false when it does not fit. */
bool mf_stage_layout_format(const uint16_t *counts, size_t n, char *out, size_t size);

/**
 * Decoder layers of every virtual stage, in virtual-stage order (stage v*pp + r is chunk v of rank r): a stage layout, first/last
 * counts, or the even split. Where the layers do not divide, the remainder goes one each to the first stages and *even is
 * false (may be NULL): such a plan can be priced though no toolchain builds it. Returns pp*vpp, or 0 when it exceeds `cap`.
 */
size_t mf_plan_stages(
	const mf_plan *p, const mf_model *m, const mf_intern *intern, uint16_t *counts, size_t cap, bool *even);

/** One dimension of a plan. Text segments, columns, errors, help and man page come from this table. */
typedef struct mf_plan_dim {
	const char *name;         /* "ep" */
	const char *segment;      /* how it is written: "ep8", "rc:selective" */
	const char *title;        /* column heading, short */
	const char *help;         /* one line */
	unsigned phases;          /* bit 1<<MF_TRAIN, 1<<MF_SERVE */
	const mf_choice *choices; /* NULL for numbers */
} mf_plan_dim;
/** Table of dimensions; ends with a NULL name. */
extern const mf_plan_dim mf_plan_dims[];
/** Value of a dimension (an index of mf_plan_dims) as the plan stores it: a number, or a value of its choices. */
uint16_t mf_dim_get(const mf_plan *p, int dim);

#define MF_PLAN_TEXT_MAX 512
/**
 * Parses the text form (mf_plan_format is its inverse on valid plans). Segments are separated by '/', may come in any
 * order and are written in one order. `intern` may be NULL: layouts and maps are then refused. A bad text names the
 * column and what was expected there.
 */
mf_status mf_plan_parse(mf_plan *out, const char *text, mf_phase phase, mf_intern *intern, mf_err *err);
/** Writes the canonical text (at most MF_PLAN_TEXT_MAX bytes with the NUL) and returns its length. */
size_t mf_plan_format(const mf_plan *p, const mf_intern *intern, char out[MF_PLAN_TEXT_MAX]);
/** Checks that the value is a plan at all (ranges, combinations the type excludes). What a toolchain refuses is not asked. */
mf_status mf_plan_validate(const mf_plan *p, mf_err *err);
/** 64-bit hash of the value, equal for equal plans. */
uint64_t mf_plan_hash(const mf_plan *p);

/** A generated MoE kernel: fusion boundaries and tile. */
typedef struct mf_kernel {
	bool fuse_gather, fuse_combine;
	uint8_t tile_m_log2, tile_n_log2, tile_k_log2; /* 4..8 */
	uint8_t warps_log2;                            /* 1..4 */
	uint8_t stages;                                /* 1..5 */
} mf_kernel;
/** 0 is "no kernel", so a packed kernel is never 0. */
uint16_t mf_kernel_pack(const mf_kernel *k);
/** False, and *out untouched, when `packed` is 0 or no packed kernel. */
bool mf_kernel_unpack(mf_kernel *out, uint16_t packed);

/* ---- all inputs together --------------------------------------------------------------------------------------- */

/** Everything a plan is judged against. Borrowed pointers; the owner keeps them alive and unchanged. */
typedef struct mf_inputs {
	const mf_model *model;
	const mf_cluster *cluster;
	const mf_workload *workload;
	const mf_stack *stack;
	const mf_site *site;
	mf_intern *intern;
} mf_inputs;

/** Names of the built-in files of one kind ("models", "clusters", "workloads", "stacks", "calibrated"), NULL-terminated. */
const char *const *mf_builtin_names(const char *kind);
/** Opens NAME of a kind: the user's file ($XDG_CONFIG_HOME/moefs/KIND/NAME.yaml) before the built-in one. MF_EINPUT when there is none. */
mf_status mf_builtin_open(mf_doc *out, const char *kind, const char *name, mf_err *err);
/** As mf_builtin_open, or the file at a path: a text with a '/' or one that ends in .json, .yaml or .yml. */
mf_status mf_input_open(mf_doc *out, const char *kind, const char *name_or_path, mf_err *err);

#endif
