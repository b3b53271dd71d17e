/* choices.c: names of every enumerated value, in one table each; parsing, printing and help all read them. */
#include "plan_internal.h"

#include <string.h>

const char *mf_choice_name(const mf_choice *table, int value)
{
	for (; table->name; table++) {
		if (table->value == value)
			return table->name;
	}
	return "?";
}

int mf_choice_value(const mf_choice *table, const char *name)
{
	for (; table->name; table++) {
		if (strcmp(table->name, name) == 0)
			return table->value;
	}
	return -1;
}

#define END                                                                                                            \
	{                                                                                                              \
		0, NULL, NULL                                                                                          \
	}

const mf_choice mf_quant_choices[] = {
	{MF_QUANT_NONE, "none", "weights as in torch_dtype (bf16)"},
	{MF_QUANT_FP8_BLOCK, "fp8_block", "fp8 with a scale a block, e.g. 128x128"},
	{MF_QUANT_FP8, "fp8", "fp8 with a scale a tensor or channel"},
	{MF_QUANT_NVFP4, "nvfp4", "fp4 with fp8 scales over 16 values"},
	{MF_QUANT_MXFP4, "mxfp4", "fp4 with power-of-two scales over 32 values"},
	{MF_QUANT_INT4, "int4", "int4 weights, bf16 activations"},
	{MF_QUANT_INT8, "int8", "int8 weights"},
	END,
};

const mf_choice mf_mixer_choices[] = {
	{MF_MIX_ATTENTION, "attention", "full causal attention"},
	{MF_MIX_WINDOW, "window", "attention over a sliding window"},
	{MF_MIX_MAMBA2, "mamba2", "Mamba-2 state-space layer"},
	{MF_MIX_DELTA, "delta", "gated delta net, a linear attention"},
	{MF_MIX_NONE, "none", "a feed-forward part alone"},
	END,
};

const mf_choice mf_optimizer_choices[] = {
	{MF_OPT_ADAM, "adam", "AdamW with fp32 master weights"},
	{MF_OPT_MUON, "muon", "Muon: Newton-Schulz on every matrix"},
	END,
};

const mf_choice mf_on_off_choices[] = {
	{0, "off", ""},
	{1, "on", ""},
	END,
};

const mf_choice mf_phase_choices[] = {
	{MF_TRAIN, "train", "training under Megatron"},
	{MF_SERVE, "serve", "serving under SGLang"},
	END,
};

const mf_choice mf_precision_choices[] = {
	{MF_PREC_BF16, "bf16", "bf16 compute"},
	{MF_PREC_FP8_TENSOR, "fp8_tensor", "fp8, scaled a tensor as it comes"},
	{MF_PREC_FP8_DELAYED, "fp8_delayed", "fp8, scaled by the history of maxima"},
	{MF_PREC_FP8_BLOCK, "fp8_block", "fp8, scaled a block"},
	{MF_PREC_MXFP8, "mxfp8", "fp8 with power-of-two scales over 32 values"},
	{MF_PREC_NVFP4, "nvfp4", "fp4 with fp8 scales over 16 values"},
	END,
};

const mf_choice mf_engine_choices[] = {
	{MF_ENGINE_SGLANG, "sglang", "prompts run alone; chunk and memory by SGLang's own heuristic"},
	{MF_ENGINE_SGLANG_WIDE, "sglang-wide",
		"SGLang launched for wide EP: dense layers whole on every rank, 85% of the card"},
	{MF_ENGINE_VLLM, "vllm", "prompts ride with decode; 90% of the card; admits for half of the output"},
	{MF_ENGINE_TRTLLM, "trtllm", "prompts ride with decode; 90% of the card; room for the whole output"},
	END,
};

const mf_choice mf_toolchain_choices[] = {
	{MF_MEGATRON_0171, "megatron-0.17.1", "Megatron core 0.17.1"},
	{MF_MEGATRON_0180, "megatron-0.18.0", "Megatron core 0.18.0"},
	{MF_MEGATRON_0182, "megatron-0.18.2", "Megatron core 0.18.2"},
	{MF_MEGATRON_0190, "megatron-0.19.0", "Megatron core 0.19.0"},
	{MF_SGLANG_0514, "sglang-0.5.14", "SGLang 0.5.14"},
	{MF_SGLANG_0515, "sglang-0.5.15", "SGLang 0.5.15"},
	{MF_SGLANG_0516, "sglang-0.5.16", "SGLang 0.5.16"},
	END,
};

const mf_choice mf_ledger_choices[] = {
	{MF_LEDGER_PUBLISHED, "published", "memory as the paper counts it"},
	{MF_LEDGER_FULL, "full", "memory with everything a process holds"},
	END,
};

const mf_choice mf_schedule_choices[] = {
	{MF_1F1B, "1f1b", "one forward, one backward"},
	{MF_INTERLEAVED, "interleaved", "1f1b over several model chunks a rank"},
	{MF_DUALPIPE, "dualpipe", "two pipelines in opposite directions"},
	END,
};

const mf_choice mf_sharding_choices[] = {
	{MF_ZERO1, "zero1", "optimizer state sharded over data parallel ranks"},
	{MF_ZERO1_OFFLOAD, "zero1_offload", "as zero1, with the optimizer in host memory"},
	{MF_FSDP, "fsdp", "weights, gradients and optimizer sharded"},
	END,
};

const mf_choice mf_recompute_choices[] = {
	{MF_RECOMPUTE_NONE, "none", "keep every activation"},
	{MF_RECOMPUTE_SELECTIVE, "selective", "recompute the named modules (core_attn)"},
	{MF_RECOMPUTE_FULL, "full", "recompute whole layers"},
	END,
};

const mf_choice mf_recompute_module_choices[] = {
	{MF_RC_CORE_ATTN, "core_attn", "attention core"},
	{MF_RC_MOE_ACT, "moe_act", "activation of the experts"},
	{MF_RC_LAYERNORM, "layernorm", "norms before attention and MLP"},
	{MF_RC_MLA_UP_PROJ, "mla_up_proj", "MLA up projection and rotary embedding"},
	{MF_RC_MLP, "mlp", "dense MLP"},
	{MF_RC_MOE, "moe", "whole MoE layer"},
	{MF_RC_SHARED_EXPERTS, "shared_experts", "shared experts"},
	END,
};

const mf_choice mf_dispatcher_choices[] = {
	{MF_DISP_ALLTOALL, "alltoall", "all-to-all over the expert group"},
	{MF_DISP_ALLGATHER, "allgather", "every rank gathers every token"},
	{MF_DISP_DEEPEP, "deepep", "flex dispatcher with DeepEP"},
	{MF_DISP_HYBRIDEP, "hybridep", "flex dispatcher with HybridEP"},
	END,
};

const mf_choice mf_a2a_choices[] = {
	{MF_A2A_NONE, "none", "no all-to-all backend: all-reduce or gather and scatter"},
	{MF_A2A_DEEPEP, "deepep", "DeepEP"},
	{MF_A2A_MOONCAKE, "mooncake", "Mooncake"},
	{MF_A2A_NIXL, "nixl", "NIXL"},
	{MF_A2A_FLASHINFER, "flashinfer", "FlashInfer"},
	END,
};

const mf_choice mf_runner_choices[] = {
	{MF_RUN_AUTO, "auto", "the engine's own choice"},
	{MF_RUN_TRITON, "triton", "Triton fused experts"},
	{MF_RUN_DEEP_GEMM, "deep_gemm", "DeepGEMM"},
	{MF_RUN_TRITON_KERNEL, "triton_kernel", "Triton kernels package"},
	{MF_RUN_FLASHINFER_TRTLLM, "flashinfer_trtllm", "FlashInfer, TensorRT-LLM kernels"},
	{MF_RUN_FLASHINFER_CUTLASS, "flashinfer_cutlass", "FlashInfer, CUTLASS kernels"},
	{MF_RUN_FLASHINFER_CUTEDSL, "flashinfer_cutedsl", "FlashInfer, CuTe DSL kernels"},
	{MF_RUN_FLASHINFER_MXFP4, "flashinfer_mxfp4", "FlashInfer, mxfp4 kernels"},
	{MF_RUN_CUTLASS, "cutlass", "CUTLASS grouped GEMM"},
	{MF_RUN_MARLIN, "marlin", "Marlin, int4 and fp8 weights"},
	END,
};

const mf_choice mf_deepep_mode_choices[] = {
	{MF_DM_AUTO, "auto", "normal for prompts, low latency for decode"},
	{MF_DM_NORMAL, "normal", "high-throughput kernels"},
	{MF_DM_LOW_LATENCY, "low_latency", "low-latency kernels"},
	END,
};

const mf_choice mf_graph_mode_choices[] = {
	{MF_GRAPH_FULL, "full", "decode steps replayed as CUDA graphs"},
	{MF_GRAPH_OFF, "off", "no CUDA graphs"},
	END,
};

const mf_choice mf_placement_choices[] = {
	{MF_PLACE_DEFAULT, "default", "tasks in program order"},
	{MF_PLACE_COMM_FIRST, "comm_first", "communication is placed first"},
	{MF_PLACE_COMPUTE_FIRST, "compute_first", "compute is placed first"},
	END,
};

const mf_choice mf_comm_kind_choices[] = {
	{MF_COMM_STREAM, "stream", "communication is started by the host, on a stream"},
	{MF_COMM_DEVICE, "device", "communication is started inside kernels (refused)"},
	END,
};
