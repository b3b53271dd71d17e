"""Models, clusters, workloads and stacks that plans are judged on, each a base with named changes.

A scene is what one run of moefs judges plans against. Dropping one of its changes gives a sibling: that is how a rule
that no plan but the input decides gets cases on its accepted side.
"""
import hashlib
import json
import os
import re
import threading

LOCK = threading.Lock()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
FP8_TENSOR = {"quant_method": "fp8", "activation_scheme": "dynamic"}

# Models of our own beside the built-in ones: families that no built-in has, and sizes that do not divide.
OWN = {
    "odd-qwen3": {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 10, "hidden_size": 1536,
                  "intermediate_size": 4104, "moe_intermediate_size": 328, "num_experts": 12, "num_experts_per_tok": 2,
                  "num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 128, "vocab_size": 30528,
                  "max_position_embeddings": 16384, "norm_topk_prob": True, "rms_norm_eps": 1e-6, "rope_theta": 10000,
                  "tie_word_embeddings": False},
    "odd-qwen2": {"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "num_hidden_layers": 12, "hidden_size": 2048,
                  "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
                  "num_experts": 60, "num_experts_per_tok": 4, "num_attention_heads": 16, "num_key_value_heads": 16,
                  "vocab_size": 151936, "max_position_embeddings": 8192, "decoder_sparse_step": 1, "mlp_only_layers": [],
                  "norm_topk_prob": False, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "tie_word_embeddings": False},
    "odd-mla": {"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "num_hidden_layers": 9, "hidden_size": 1024,
                "intermediate_size": 2736, "moe_intermediate_size": 352, "n_routed_experts": 16, "n_shared_experts": 1,
                "num_experts_per_tok": 2, "n_group": 8, "topk_group": 1, "topk_method": "group_limited_greedy",
                "scoring_func": "softmax", "norm_topk_prob": False, "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
                "moe_layer_freq": 1, "num_attention_heads": 12, "num_key_value_heads": 12, "q_lora_rank": 384,
                "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "vocab_size": 50304,
                "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": False},
    "dense-qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 12, "hidden_size": 2048,
                    "intermediate_size": 6144, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                    "vocab_size": 151936, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
                    "tie_word_embeddings": False},
    "minimax": {"model_type": "minimax_m2", "architectures": ["MiniMaxM2ForCausalLM"], "num_hidden_layers": 12, "hidden_size": 3072,
                "intermediate_size": 1536, "num_local_experts": 64, "num_experts_per_tok": 8, "num_attention_heads": 48,
                "num_key_value_heads": 8, "head_dim": 128, "rotary_dim": 64, "vocab_size": 200064,
                "max_position_embeddings": 65536, "use_qk_norm": True, "qk_norm_type": "per_layer",
                "use_routing_bias": True, "scoring_func": "sigmoid", "attn_type_list": [1] * 12,
                "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 5000000, "tie_word_embeddings": False,
                "num_mtp_modules": 0, "quantization_config": FP8},
}

# name: (base, changes of config.json). A change to None takes the key away.
MODELS = {
    "deepseek-v2-lite": ("deepseek-v2-lite", {}), "deepseek-v3": ("deepseek-v3", {}), "glm-4.5-air": ("glm-4.5-air", {}),
    "gpt-oss-120b": ("gpt-oss-120b", {}), "kimi-k2": ("kimi-k2", {}), "llama-3.1-8b": ("llama-3.1-8b", {}),
    "mixtral-8x22b": ("mixtral-8x22b", {}), "mixtral-8x7b": ("mixtral-8x7b", {}), "olmoe": ("olmoe", {}),
    "qwen3-235b-a22b": ("qwen3-235b-a22b", {}), "qwen3-30b-a3b": ("qwen3-30b-a3b", {}),
    "small-moe-bench": ("small-moe-bench", {}), "moonlight-16b-a3b": ("moonlight-16b-a3b", {}),
    "qwen2-57b-a14b": ("qwen2-57b-a14b", {}), "llama4-scout": ("llama4-scout", {}),
    "odd-qwen3": ("odd-qwen3", {}), "odd-qwen2": ("odd-qwen2", {}), "odd-mla": ("odd-mla", {}), "dense-qwen3": ("dense-qwen3", {}), "minimax": ("minimax", {}),
    "v2-lite-fp8": ("deepseek-v2-lite", {"quantization_config": FP8}),
    "glm-fp8": ("glm-4.5-air", {"quantization_config": FP8}),
    "odd-qwen2-dense": ("odd-qwen2", {"decoder_sparse_step": 2}),
    "odd-mla-top6": ("odd-mla", {"num_experts_per_tok": 6}),
    "odd-mla-fp8": ("odd-mla", {"quantization_config": FP8}),
    "qwen3-30b-fp8": ("qwen3-30b-a3b", {"quantization_config": FP8}),
    "qwen3-235b-fp8": ("qwen3-235b-a22b", {"quantization_config": FP8}),
    "qwen3-30b-fp8-tensor": ("qwen3-30b-a3b", {"quantization_config": FP8_TENSOR}),
    "mixtral-fp8-tensor": ("mixtral-8x7b", {"quantization_config": FP8_TENSOR}),
    "odd-qwen3-fp8": ("odd-qwen3", {"quantization_config": FP8}),
    "qwen3-30b-fp8-64": ("qwen3-30b-a3b", {"quantization_config": {**FP8, "weight_block_size": [64, 128]}}),
    "v2-lite-fp8-64": ("deepseek-v2-lite", {"quantization_config": {**FP8, "weight_block_size": [32, 128]}}),
    "minimax-bf16": ("minimax", {"quantization_config": None}),
    "v2-lite-biased-softmax": ("deepseek-v2-lite", {"topk_method": "noaux_tc"}),
    "v2-lite-yarn-8k": ("deepseek-v2-lite", {"rope_scaling": {
        "type": "yarn", "factor": 40, "original_max_position_embeddings": 8192, "beta_fast": 32, "beta_slow": 1,
        "mscale": 0.707, "mscale_all_dim": 0.707}}),
    "v2-lite-mtp": ("deepseek-v2-lite", {"num_nextn_predict_layers": 1}),
    "v2-lite-mtp2": ("deepseek-v2-lite", {"num_nextn_predict_layers": 2}),
    "qwen3-dense-last": ("qwen3-30b-a3b", {"mlp_only_layers": [47], "num_nextn_predict_layers": 1}),
    "qwen2-biased": ("odd-qwen2", {"attention_bias": True, "mlp_bias": True}),
    "llama-bias": ("llama-3.1-8b", {"attention_bias": True, "mlp_bias": True}),
    "llama-mlp-bias": ("llama-3.1-8b", {"mlp_bias": True}),
    "gpt-oss-window": ("gpt-oss-120b", {"layer_types": ["sliding_attention"] * 20 + ["full_attention"] * 16}),
    "small-12-heads": ("small-moe-bench", {"num_attention_heads": 12, "num_key_value_heads": 3, "hidden_size": 768}),
}
TRAIN_MODELS = ["deepseek-v2-lite", "deepseek-v3", "glm-4.5-air", "gpt-oss-120b", "kimi-k2", "llama-3.1-8b", "mixtral-8x22b",
                "mixtral-8x7b", "olmoe", "qwen3-235b-a22b", "qwen3-30b-a3b", "small-moe-bench", "odd-qwen3", "odd-qwen2",
                "odd-mla", "minimax-bf16", "v2-lite-mtp", "moonlight-16b-a3b", "qwen2-57b-a14b", "llama4-scout"]
TRAIN_MODEL_EDGES = ["v2-lite-biased-softmax", "v2-lite-yarn-8k", "v2-lite-mtp2", "qwen3-dense-last", "qwen2-biased",
                     "llama-bias", "llama-mlp-bias", "gpt-oss-window", "odd-mla-top6", "odd-qwen2-dense", "small-12-heads"]
SERVE_MODELS = ["deepseek-v2-lite", "deepseek-v3", "glm-4.5-air", "gpt-oss-120b", "kimi-k2", "llama-3.1-8b", "mixtral-8x22b",
                "mixtral-8x7b", "olmoe", "qwen3-235b-a22b", "qwen3-30b-a3b", "small-moe-bench", "odd-qwen3", "odd-qwen2",
                "odd-mla", "minimax", "v2-lite-fp8", "glm-fp8", "odd-mla-fp8", "qwen3-30b-fp8", "qwen3-235b-fp8",
                "qwen3-30b-fp8-tensor", "mixtral-fp8-tensor", "odd-qwen3-fp8", "minimax-bf16", "moonlight-16b-a3b",
                "qwen2-57b-a14b", "llama4-scout", "dense-qwen3", "qwen3-30b-fp8-64", "v2-lite-fp8-64"]

TRAIN_CLUSTERS = ["8xh800", "4x8xh800", "8xb200", "8xa100", "2xrtx4090", "3x4xh20", "16x8xh100", "gb200-nvl72"]
SERVE_CLUSTERS = ["8xh800", "4x8xh200", "8xb200", "2xrtx4090", "3x4xh20", "8xa100", "6x2xh100", "2x8xb200"]
# Of two kinds of GPU alone: SGLang is imported once for each.
QUICK_CLUSTERS = ["8xh800", "4x8xh200", "8xb200", "3x4xh20"]
# Too slow to ask many times: groups of every rank are built.
LARGE = {"16x8xh100", "gb200-nvl72", "256x8xh800"}

TRAIN_WORKLOAD = {"phase": "train", "seq": 4096, "global_batch": 1152, "precision": "bf16"}
TRAIN_WORKLOADS = [{"global_batch": 4096}, {"global_batch": 16}, {"global_batch": 24, "seq": 2048}, {"global_batch": 60},
                   {"seq": 4100}, {"seq": 8200}, {"seq": 32768}, {"precision": "fp8_tensor"}, {"precision": "fp8_delayed"},
                   {"precision": "fp8_block"}, {"precision": "mxfp8"}, {"precision": "nvfp4"}, {"mtp": True}]
TRAIN_STACK = {"transformer_engine": True, "loss": "native", "graphs": "none", "overlap_grad_reduce": True,
               "overlap_param_gather": True, "permute_fusion": True, "einops": True, "deepep": True, "hybridep": True}
TRAIN_STACKS = [{"deepep": False, "hybridep": False}, {"transformer_engine": False, "permute_fusion": False},
                {"transformer_engine": False}, {"loss": "te"}, {"loss": "eager"}, {"graphs": "partial"},
                {"graphs": "partial", "attention_dropout": 0.1}, {"graphs": "full"}, {"overlap_grad_reduce": False},
                {"overlap_param_gather": False}, {"delay_wgrad": True}, {"delay_wgrad": True, "graphs": "partial"},
                {"shared_expert_overlap": True}, {"precision_aware": True, "grad_reduce_bf16": True}, {"einops": False},
                {"delay_wgrad": True, "transformer_engine": False}, {"precision_aware": True, "transformer_engine": False},
                {"attention": "unfused", "attention_dropout": 0.1}]

SERVE_WORKLOAD = {"phase": "serve", "input_tokens": 1024, "output_tokens": 1024, "concurrency": 256}
SERVE_WORKLOADS = [{"concurrency": 1}, {"concurrency": 2048}, {"input_tokens": 8192}, {"fp8_kv": True}]
SERVE_STACK = {"deepep": True, "deep_gemm": True, "runner_default": "auto"}
SERVE_STACKS = [{"deepep": False}, {"deep_gemm": False}, {"mem_fraction": 0.8}]


def flow(text):
    """A value as the built-in YAML files write them: a scalar, [..] or {..} on one line."""
    if text[:1] in "[{":
        quoted = re.sub(r"(?<![\w.\"])([A-Za-z_][\w.\-/]*)", lambda m: m[1] if m[1] in ("true", "false", "null") else f'"{m[1]}"', text)
        return json.loads(quoted)
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def builtin(kind, name):
    values = {}
    with open(os.path.join(ROOT, "configs", kind, name + ".yaml"), encoding="utf-8") as lines:
        for line in lines:
            line = line.split(" #")[0].strip()
            if line and not line.startswith("#"):
                key, _, text = line.partition(":")
                values[key] = flow(text.strip())
    return values


def yaml(values):
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())


def config(name):
    """config.json of a model."""
    base, changes = MODELS.get(name, (name, {}))
    values = dict(OWN[base]) if base in OWN else builtin("models", base)
    values.pop("aliases", None)
    for key, value in changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    # What a published file states and the built-in files leave out, because no plan depends on it.
    values.setdefault("torch_dtype", "bfloat16")
    values.setdefault("hidden_act", "silu")
    if values["model_type"] == "gpt_oss":
        values.setdefault("swiglu_limit", 7.0)
        values.setdefault("layer_types", ["sliding_attention", "full_attention"] * (values["num_hidden_layers"] // 2))
    if values["model_type"] == "qwen3_moe":
        values.setdefault("architectures", ["Qwen3MoeForCausalLM"])
    if values.get("quantization_config", {}).get("quant_method") == "fp8":
        values["quantization_config"] = {"activation_scheme": "dynamic", **values["quantization_config"]}
    return values


def model_folder(name, folder):
    """Folder of a model's config.json, written once."""
    path = os.path.join(folder, "models", name)
    if not os.path.exists(path):
        os.makedirs(path)
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as out:
            json.dump(config(name), out)
    return path


class Scene:
    """Inputs that plans are judged on: names of model and cluster, changes of workload and stack."""

    builtin = False  # the model by its built-in name, with the workload and stack of the program

    def __init__(self, toolchain, model, cluster, workload=None, stack=None):
        self.toolchain, self.model, self.cluster = toolchain, model, cluster
        self.workload, self.stack = workload or {}, stack or {}
        self.phase = "train" if toolchain.startswith("megatron") else "serve"

    def key(self):
        return json.dumps([self.builtin, self.toolchain, self.model, self.cluster, self.workload, self.stack], sort_keys=True)

    def __str__(self):
        changes = ", ".join(f"{k} {v}" for k, v in {**self.workload, **self.stack}.items())
        return f"{self.model} on {self.cluster}" + (f", {changes}" if changes else "")

    def siblings(self):
        """Scenes that differ in one change, or in the model's changes."""
        found = []
        for field in ("workload", "stack"):
            for key in getattr(self, field):
                rest = {k: v for k, v in getattr(self, field).items() if k != key}
                found.append(Scene(self.toolchain, self.model, self.cluster,
                                   rest if field == "workload" else self.workload,
                                   rest if field == "stack" else self.stack))
        base = MODELS[self.model][0]
        if base != self.model and base in MODELS:
            found.append(Scene(self.toolchain, base, self.cluster, self.workload, self.stack))
        if self.phase == "train" and self.cluster in ("8xa100", "2xrtx4090", "8xh800"):
            found.append(Scene(self.toolchain, self.model, "8xb200", self.workload, self.stack))
        return found

    def files(self, folder):
        """Writes the inputs below `folder` once and returns moefs' options and the model's folder."""
        with LOCK:
            return self.written(folder)

    def written(self, folder):
        model = model_folder(self.model, folder)
        if self.builtin:
            return ["--phase", self.phase, "--model", self.model, "--cluster", self.cluster, "--toolchain", self.toolchain], model
        train = self.phase == "train"
        paths = []
        for kind, base, changes in (("workload", TRAIN_WORKLOAD if train else SERVE_WORKLOAD, self.workload),
                                    ("stack", {"toolchain": self.toolchain, **(TRAIN_STACK if train else SERVE_STACK)}, self.stack)):
            text = yaml({**base, **changes})
            path = os.path.join(folder, f"{kind}-{hashlib.sha1(text.encode()).hexdigest()[:12]}.yaml")
            if not os.path.exists(path):
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
            paths.append(path)
        options = ["--phase", self.phase, "--model", os.path.join(model, "config.json"), "--cluster", self.cluster,
                   "--workload", paths[0], "--stack", paths[1]]
        return options, model


def builtins(toolchain):
    """Every built-in model on every built-in cluster."""
    def names(kind):
        return sorted(f[:-5] for f in os.listdir(os.path.join(ROOT, "configs", kind)) if f.endswith(".yaml"))

    for model in names("models"):
        for cluster in names("clusters"):
            scene = Scene(toolchain, model, cluster)
            scene.builtin = True
            yield scene


def scenes(toolchain, rng, only=None):
    """Every model on every cluster as it stands; then every change on models and clusters that the seed picks."""
    train = toolchain.startswith("megatron")
    models = TRAIN_MODELS if train else SERVE_MODELS
    clusters = TRAIN_CLUSTERS if train else SERVE_CLUSTERS
    clusters = [c for c in clusters if not only or train or c in only]
    small = [c for c in clusters if c not in LARGE]
    found = [Scene(toolchain, m, c) for m in models for c in clusters if c not in LARGE or rng.random() < 0.3]
    if train:
        found += [Scene(toolchain, m, c) for m in TRAIN_MODEL_EDGES for c in rng.sample(small, 3)]
        found += [Scene(toolchain, m, c, {"mtp": True}) for m in ("v2-lite-mtp", "v2-lite-mtp2", "qwen3-dense-last", "deepseek-v3")
                  for c in rng.sample(small, 3)]
        found += [Scene(toolchain, rng.choice(models), rng.choice(small), {"precision": p}, {"transformer_engine": False,
                  "permute_fusion": False}) for p in ("fp8_tensor", "fp8_block", "nvfp4") for _ in range(3)]
    for field, changes in (("workload", TRAIN_WORKLOADS if train else SERVE_WORKLOADS),
                           ("stack", TRAIN_STACKS if train else SERVE_STACKS)):
        for change in changes:
            for model in rng.sample(models, 6):
                found.append(Scene(toolchain, model, rng.choice(small), **{field: change}))
    return found
