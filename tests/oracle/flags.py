"""Which flags of a toolchain bear on a plan, and which of those the emitter can write."""
import json
import re
import subprocess

# Groups of Megatron's parser whose flags can change what a plan costs or whether it is built.
MEGATRON_GROUPS = {"transformer configuration", "distributed init", "training", "network size", "mixed precision", "mla", "moe",
                   "Transformer-Engine", "experimental"}
# Flags that say where and for how long a run takes place.
SITE = {"--host", "--port", "--model-path", "--dist-init-addr", "--node-rank", "--trust-remote-code", "--train-iters"}
# Flags that bear on a plan and are left, and why. What matches nothing here and is not written bears on no plan: data,
# checkpoints, logging, learning rates, other kinds of models.
LEFT = {
    "megatron": [
        ("use-torch-fsdp2|torch-fsdp2.*|outer-dp-sharding.*|enable-full-sharding.*|fsdp-.*|megatron-fsdp-.*|init-model-with-meta.*"
         "|keep-fp8-transpose.*|create-all-gather.*|suggested-communication.*", "variants of FSDP: the ledger and the prices know one"),
        ("num-distributed-optimizer.*|use-tp-pp-dp-mapping|hierarchical-context.*|cp-comm-type|hybrid-context.*|max-seqlen-per.*"
         "|use-sharp|sharp-.*|nccl-communicator.*|high-priority-.*|use-nccl-ub|pipeline-model-parallel-comm.*|use-ring-exchange.*"
         "|distributed-backend|ddp-.*|disable-gloo.*", "how ranks of a group talk: one way a collective is priced"),
        ("num-layers-per-virtual.*|account-for-.*|microbatch-group.*|no-overlap-p2p.*|overlap-p2p.*|defer-embedding.*"
         "|wgrad-deferral.*|mtp-standalone", "other words for splits that layouts and counts already say, or orders without a price"),
        ("cpu-offloading.*|fine-grained-.*|offload-modules|min-offloaded.*|no-pin-.*|use-torch-optimizer-for-cpu.*",
         "activations in host memory: the ledger has no such line"),
        ("recompute-activations|distribute-saved.*|moe-layer-recompute|checkpoint-activations", "older words for recompute"),
        ("moe-expert-capacity.*|moe-pad-expert-input.*|moe-token-drop.*|moe-expert-rank-capacity.*|moe-paged-stash.*",
         "dropped tokens: another training, not another plan"),
        ("overlap-dispatch-backward.*|ep-overlap-early.*|moe-permute-fusion-into.*|moe-hybridep-num-[bp].*|moe-hybridep-num-sms-pre.*"
         "|moe-router-fusion|moe-single-grouped.*|use-transformer-engine-op.*|moe-enable-deepep|moe-apply-probs.*"
         "|overlap-param-gather-with.*|use-grouped-gemm.*|fused-residual.*|mla-down-proj.*", "kernels without a measured price"),
        ("tp-comm-.*|no-tp-comm.*", "tensor-parallel overlap: no price"),
        ("fp8-param-gather|fp4-param-gather|first-last-layers.*|num-layers-at-.*|reuse-grad-buf.*|main-params-dtype|fp16|fp8-output.*"
         "|accumulate-allreduce.*|no-fp8-wgrad|fp4-recipe", "precision of parts: the workload has one precision"),
        ("enable-cuda-graph|external-cuda-graph|cuda-graph-warmup.*|optimizer-cuda-graph", "older or finer words for CUDA graphs"),
        ("rampup-batch.*|step-batch.*|decrease-batch.*|batch-size", "a batch that changes during a run"),
    ],
    "sglang": [
        ("speculative-.*|enable-multi-layer-eagle", "drafting: refused for a workload that asks for it"),
        ("disaggregation-.*|enable-pdmux|sm-group-num|num-reserved-decode.*", "separate prefill and decode engines: two plans"),
        ("enable-eplb|eplb-.*|expert-distribution-.*|elastic-ep-.*|enable-elastic.*|enable-deepep-waterfill|deepep-config"
         "|deepep-dispatcher.*", "balancing at run time: loads are an input, not a choice"),
        ("dcp-size|enable-dp-lm-head|moe-dense-tp-size|enable-attn-tp.*|disable-attn-tp.*|load-balance-method",
         "finer cuts of dense parts: no dimension, because their prices are within the model's error"),
        ("enable-single-batch.*|tbo-token.*|pp-max-micro.*|pp-async.*|enable-mixed-chunk|disable-overlap-schedule|num-continuous.*"
         "|enable-dynamic-chunking|schedule-.*|prefill-max-requests|max-prefill-tokens|enable-prefill-delayer",
         "the order of batches: the engine's own"),
        ("attention-backend|decode-attention.*|prefill-attention.*|fp8-gemm.*|fp4-gemm.*|bf16-gemm.*|enable-torch-compile|page-size"
         "|flashinfer-mxfp4.*|triton-attention.*|.*shared-experts-fusion|enable-fused.*|enable-tf32.*",
         "kernels that the engine chooses by GPU and model"),
        ("quantization|dtype|torchao-config|modelopt-quant", "formats other than the checkpoint's"),
        ("cuda-graph-config|cuda-graph-backend-prefill|cuda-graph-max-bs-prefill|cuda-graph-bs.*|disable-.*cuda-graph.*",
         "graphs of prefill, and older words"),
        ("max-total-tokens|enable-hierarchical.*|hicache.*|cpu-offload.*|offload-.*|swa-full.*|disable-radix.*|radix-.*",
         "caches beside the pool that the memory fraction gives"),
        ("disable-custom-all-reduce|enable-mscclpp|enable-torch-symm.*|enable-symm-mem|enable-nccl.*|flashinfer-allreduce.*"
         "|enforce-disable-flashinfer.*|enable-quant-comm.*", "how ranks of a group talk: one way a collective is priced"),
    ],
}
DUMP = """
import argparse, json, sys
sys.path.insert(0, sys.argv[1])
parsers, init = [], argparse.ArgumentParser.__init__
def keep(self, *a, **k):
    init(self, *a, **k); parsers.append(self)
argparse.ArgumentParser.__init__ = keep
if sys.argv[2] == "megatron":
    import witness_megatron as w; w.Megatron(sys.argv[3])
else:
    import witness_sglang as w; w.SGLang(sys.argv[3], 90)
parser = max(parsers, key=lambda p: len(p._actions))
print("\\n" + json.dumps([[g.title, a.option_strings] for g in parser._action_groups for a in g._group_actions if a.option_strings]))
"""


def of_package(kind, python, witness, package):
    """[[group, names]] from the package's own parser."""
    done = subprocess.run([python, "-c", DUMP, witness, kind, package], capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else None


def share(kind, flags, written):
    """(all flags, written and bearing on a plan, [(reason, names left)])."""
    mine, left = [], {}
    for group, names in flags:
        if written & set(names):
            if (kind != "megatron" or group in MEGATRON_GROUPS) and not SITE & set(names):
                mine.append(names[0])
            continue
        if kind == "megatron" and group not in MEGATRON_GROUPS:
            continue
        for pattern, reason in LEFT[kind]:
            if any(re.fullmatch(pattern, name.lstrip("-")) for name in names):
                left.setdefault(reason, []).append(names[0])
                break
    return len(flags), mine, list(left.items())
