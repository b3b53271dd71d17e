"""Megatron-LM's own argument, batch, optimizer, group and model configuration as the judge of a command, on a CPU.

    python3 witness_megatron.py [--path FOLDER] < requests

FOLDER holds the package `megatron` (site-packages, an unpacked wheel, a checkout); without it the one that this
interpreter would import. The code that decides is the package's; what is replaced below it is listed in the hello line.
The order of stages is that of pretrain_gpt.py: argparse, parse (validate_args), batch (micro-batch calculator), optcfg
(optimizer and DDP configs), pg (process groups), cfg (TransformerConfig; inside pg when there are several stages), build
(layers of each stage). Protocol: README.md.
"""
import argparse
import copy
import dataclasses
import enum
import functools
import inspect
import logging
import os
import sys
import warnings

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import standins
import worker

DISTRIBUTION = "megatron-core"
STAND_IN_ROOTS = {"torch", "numpy", "yaml", "tqdm", "einops", "omegaconf", "triton"}
ENVIRONMENT = ("CUDA_", "NCCL_", "NVTE_", "PYTORCH_", "TORCH_", "UCC_", "UCX_", "NVSHMEM_", "WORLD_SIZE", "RANK",
               "LOCAL_", "MASTER_", "MEGATRON_")
# What the launcher of pretrain_gpt.py passes to parse_and_validate_args.
ARGS_DEFAULTS = {"tokenizer_type": "GPT2BPETokenizer"}
WORLD_MARK = 987654321  # stands for WORLD_SIZE in a default that the parser reads from the environment


def assume_transformer_engine(utils, version_class):
    """Without Transformer Engine: a version that every check accepts and the kernels that checks look for."""
    version = "99.0"
    utils._te_version = version_class(version)
    standins.module("transformer_engine", __version__=version)
    standins.module("transformer_engine.pytorch")
    adam = standins.make_class("FusedAdam")

    def fused_adam(params=None, master_weight_dtype=None, exp_avg_dtype=None, exp_avg_sq_dtype=None,
                   use_decoupled_grad=False, store_param_remainders=False, **kwargs):
        return adam()

    standins.module("transformer_engine.pytorch.optimizers", FusedAdam=fused_adam)
    import megatron.core.models.common.embeddings.rope_utils as rope
    import megatron.core.transformer.moe.moe_utils as moe

    for name in ("fused_permute", "fused_permute_with_probs", "fused_unpermute", "fused_sort_chunks_by_index",
                 "fused_sort_chunks_by_index_with_probs"):
        setattr(moe, name, fused_adam)
    rope.fused_apply_rotary_pos_emb = rope.fused_apply_rotary_pos_emb_thd = fused_adam


class Megatron:
    """The package, imported once; `judge` asks it about one command."""

    def __init__(self, folder):
        self.root = worker.find_package("megatron", folder)
        self.version = worker.package_version(DISTRIBUTION, self.root)
        logging.disable(logging.CRITICAL)
        warnings.filterwarnings("ignore")
        os.environ["NO_VCS_VERSION"] = "1"
        standins.packaging()
        standins.install(lambda root: root in STAND_IN_ROOTS,
                         lambda name: standins.TORCH_VERSION if name == "torch" else "3.5.1")
        self.torch = standins.torch()
        standins.numpy()
        import megatron.core.utils as utils
        import megatron.training.arguments as arguments
        import megatron.training.training as training
        import megatron.training.initialize as initialize
        from megatron.core import num_microbatches_calculator, package_info, parallel_state
        from megatron.core.distributed import distributed_data_parallel_config
        from megatron.core.transformer import multi_token_prediction, transformer_block
        from megatron.training import global_vars
        from packaging.version import Version

        self.version = self.version or package_info.__version__
        self.config_first = tuple(int(n) for n in self.version.split(".")[:2]) >= (0, 19)
        self.arguments, self.training, self.initialize = arguments, training, initialize
        self.batch, self.groups, self.vars = num_microbatches_calculator, parallel_state, global_vars
        self.ddp = distributed_data_parallel_config
        self.block, self.mtp = transformer_block, multi_token_prediction
        if not standins.usable("transformer_engine"):
            assume_transformer_engine(utils, Version)
        # set_global_variables also builds a tokenizer and opens writers and timers: files and threads, no verdicts.
        for name in ("_set_tensorboard_writer", "_set_wandb_writer", "_set_one_logger", "_set_adlr_autoresume",
                     "_set_timers", "_set_energy_monitor", "_set_signal_handler"):
            if hasattr(global_vars, name):
                setattr(global_vars, name, lambda *a: None)
        self._keep_parser()
        self._remember()
        self.environment = worker.base_environment(ENVIRONMENT)

    def _keep_parser(self):
        """One argument parser for all plans: building it is most of a plan's time, and it does not depend on the plan
        except for defaults taken from WORLD_SIZE and defaults that are lists, which are renewed for every plan."""
        build = self.arguments.add_megatron_arguments
        os.environ["WORLD_SIZE"] = str(WORLD_MARK)
        parser = build(argparse.ArgumentParser(description="Megatron-LM Arguments", allow_abbrev=False))
        del os.environ["WORLD_SIZE"]
        world = [a for a in parser._actions if a.default == WORLD_MARK]
        fresh = [(a, a.default) for a in parser._actions if isinstance(a.default, (list, dict, set))]
        self.names = {word: action.dest for action in parser._actions for word in action.option_strings}

        def kept(_):
            for action in world:
                action.default = int(os.environ["WORLD_SIZE"])
            for action, default in fresh:
                action.default = copy.deepcopy(default)
            return parser

        functools.update_wrapper(kept, build)
        self.arguments.add_megatron_arguments = kept

    def _remember(self):
        """Answers that depend on their arguments alone are computed once: thousands of groups ask for them."""
        groups = self.groups
        groups.create_group = lambda ranks=None, *_, **__: standins.Group(ranks)
        partition = groups.generate_masked_orthogonal_rank_groups

        @functools.lru_cache(maxsize=1024)
        def kept(world, sizes, mask):
            return partition(world, list(sizes), list(mask))

        # The caller may shift ranks in place, so it gets lists of its own.
        def groups_of(world, sizes, mask):
            # A dimension of size one adds nothing to a rank's number: without it more layouts share an answer.
            wide = [(size, chosen) for size, chosen in zip(sizes, mask) if size != 1] or [(1, False)]
            return [list(ranks) for ranks in kept(world, *map(tuple, zip(*wide)))]

        groups.generate_masked_orthogonal_rank_groups = groups_of

    def ddp_config(self, args):
        own = getattr(self.training, "get_megatron_ddp_config", None)
        if own:
            return own(args)
        # 0.17 does this inside get_model, once the model is built, and derives a bucket size from its parameters.
        kind = self.ddp.DistributedDataParallelConfig
        fields = {f.name for f in dataclasses.fields(kind)}
        given = {name: getattr(args, name) for name in fields if hasattr(args, name)}
        given |= {name[4:]: value for name, value in vars(args).items() if name.startswith("ddp_") and name[4:] in fields}
        given |= {"grad_reduce_in_fp32": args.accumulate_allreduce_grads_in_fp32,
                  "check_for_nan_in_grad": args.check_for_nan_in_loss_and_grad}
        return kind(**given)

    # ---- one plan --------------------------------------------------------------------------------------------------

    def run(self, judgement, argv, world, gpu):
        device = standins.Device
        device.sm, device.memory_gb = gpu.get("sm") or 90, gpu.get("mem_gb") or 80.0
        device.count = min(gpu.get("count") or 8, world)
        state = standins.World
        state.size, state.rank, state.initialized = world, 0, False
        os.environ.update(WORLD_SIZE=str(world), RANK="0", LOCAL_RANK="0")
        sys.argv = ["pretrain_gpt.py"] + argv
        self.vars.destroy_global_vars()
        self.batch.unset_num_microbatches_calculator()
        self.groups.destroy_model_parallel()

        judgement.stage = "argparse"
        args = self.arguments.parse_args()
        asked = {self.names[word]: copy.copy(getattr(args, self.names[word], None))
                 for word in (a.partition("=")[0] for a in argv) if word in self.names}
        judgement.stage = "parse"
        self.arguments.validate_args(args, dict(ARGS_DEFAULTS))
        judgement.resolved.update(resolved_args(args, asked))
        judgement.stage = "batch"
        if "build_tokenizer" not in inspect.signature(self.vars.set_global_variables).parameters:
            raise RuntimeError("set_global_variables has no build_tokenizer")
        self.vars.set_global_variables(args, build_tokenizer=False)
        judgement.resolved["num_microbatches"] = self.batch.get_num_microbatches()
        judgement.stage = "optcfg"
        self.training.get_megatron_optimizer_config(args)
        self.ddp_config(args)

        make_config = self.arguments.core_transformer_config_from_args
        configs = []

        def config():
            if not configs:
                judgement.stage = "cfg"
                configs.append(make_config(args))
            return configs[0]

        def embedding_ranks(pp_ranks, *_):  # as in pretrain_gpt.py
            ranks = [pp_ranks[0]]
            if len(pp_ranks) > 1:
                if not args.untie_embeddings_and_output_weights:
                    ranks.append(pp_ranks[-1])
                ranks.extend(self.mtp.get_mtp_ranks(pp_ranks, config()))
                judgement.stage = "pg"
            return sorted(set(ranks))

        if self.config_first:  # from 0.19 on pretrain_gpt.py builds the config before any group
            config()
        judgement.stage = "pg"
        self.initialize._initialize_distributed(embedding_ranks, None, None)
        judgement.resolved["groups"] = self.group_sizes()
        judgement.resolved["rewritten"].update(rewritten_config(args, config(), asked))
        judgement.stage = "build"
        stages = self.layers(config(), args)
        judgement.resolved["layers_per_stage"] = stages
        judgement.resolved["layers"] = sum(map(sum, stages))

    def group_sizes(self):
        groups, out = self.groups, {}
        for key, ask in (("tp", "get_tensor_model_parallel_world_size"), ("cp", "get_context_parallel_world_size"),
                         ("pp", "get_pipeline_model_parallel_world_size"), ("dp", "get_data_parallel_world_size"),
                         ("ep", "get_expert_model_parallel_world_size"),
                         ("etp", "get_expert_tensor_parallel_world_size"),
                         ("edp", "get_expert_data_parallel_world_size")):
            if hasattr(groups, ask):
                out[key] = getattr(groups, ask)()
        return out

    def layers(self, config, args):
        """Decoder layers of every stage, a list of virtual chunks a stage, as each rank would count its own."""
        groups, chunks = self.groups, args.virtual_pipeline_model_parallel_size
        ask = groups.get_pipeline_model_parallel_rank
        stages = []
        try:
            for rank in range(args.pipeline_model_parallel_size):
                groups.get_pipeline_model_parallel_rank = lambda rank=rank: rank
                stages.append([self.block.get_num_layers_to_build(config, chunk, rank)
                               for chunk in (range(chunks) if chunks else (None,))])
        finally:
            groups.get_pipeline_model_parallel_rank = ask
        return stages

    def judge(self, request):
        argv = worker.flags_of(request["argv"], (".py",))
        worker.set_environment(self.environment, request.get("env"))
        judgement = worker.Judgement()
        return judgement.verdict(
            lambda j: self.run(j, argv, int(request.get("world_size") or 8), request.get("gpu") or {}), self.root)


# ---- what became of the arguments ----------------------------------------------------------------------------------

SHOWN = {
    "tp": "tensor_model_parallel_size", "cp": "context_parallel_size", "pp": "pipeline_model_parallel_size",
    "vpp": "virtual_pipeline_model_parallel_size", "ep": "expert_model_parallel_size",
    "etp": "expert_tensor_parallel_size", "dp": "data_parallel_size", "micro_batch": "micro_batch_size",
    "global_batch": "global_batch_size", "sequence_parallel": "sequence_parallel",
    "dispatcher": "moe_token_dispatcher_type", "recompute": "recompute_granularity",
    "recompute_method": "recompute_method", "recompute_layers": "recompute_num_layers",
    "recompute_modules": "recompute_modules", "distributed_optimizer": "use_distributed_optimizer",
    "optimizer_cpu_offload": "optimizer_cpu_offload", "overlap_grad_reduce": "overlap_grad_reduce",
    "overlap_param_gather": "overlap_param_gather", "megatron_fsdp": "use_megatron_fsdp",
    "sharding": "data_parallel_sharding_strategy", "overlap_ep_comm": "overlap_moe_expert_parallel_comm",
    "layout": "pipeline_model_parallel_layout", "cuda_graph": "cuda_graph_impl",
}


def plain(value):
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def same(before, after):
    """Equal, or a list of one that became its element, as the package does with options of several values."""
    return before == after or before == [after]


def resolved_args(args, asked):
    """The plan's dimensions as validated, and every argument given on the command line that came out as another."""
    out = {key: plain(getattr(args, name)) for key, name in SHOWN.items() if hasattr(args, name)}
    out["rewritten"] = {
        name: [plain(before), plain(getattr(args, name))]
        for name, before in asked.items()
        if hasattr(args, name) and not same(plain(before), plain(getattr(args, name)))
    }
    return out


def rewritten_config(args, config, asked):
    """Arguments given on the command line that the transformer config holds under their name with another value."""
    out = {}
    for field in dataclasses.fields(config):
        if field.name in asked and hasattr(args, field.name):
            before, after = plain(getattr(args, field.name)), plain(getattr(config, field.name))
            if not same(before, after):
                out[field.name] = [before, after]
    return out


def load(folder):
    """For worker.serve: imports the package; returns the hello object and the judge."""
    package = Megatron(folder)
    hello = {
        "toolchain": DISTRIBUTION, "version": package.version, "root": package.root,
        "python": "%d.%d.%d" % sys.version_info[:3], "stand_ins": list(standins.replaced),
        "skipped": ["kernels, weights, forward passes: no verdict past the layers to build"],
    }
    return hello, package.judge


def main():
    return worker.serve(load)


if __name__ == "__main__":
    sys.exit(main())
