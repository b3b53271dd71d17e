"""SGLang's own argument, model-config and rank-layout code as the judge of a command, on a CPU.

    python3 witness_sglang.py [--path FOLDER] < requests

FOLDER holds the package `sglang` (site-packages, an unpacked wheel, a checkout); without it the one that this interpreter
would import. Stages, in the order of a launch: parse (command line), post-init (ServerArgs, with the rules that read the
model's config.json), pre-launch (environment, check_server_args), launcher (which process gets which rank and GPU, on
every node), dist-init (the groups of every rank). Nothing is loaded and nothing is started. Protocol: README.md.
"""
import argparse
import contextlib
import copy
import functools
import importlib
import importlib.machinery
import importlib.metadata
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import types
import warnings

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import standins
import worker

DISTRIBUTION = "sglang"
# Kernel and driver packages decide nothing here and need a GPU to load: replaced even where they are installed.
KERNELS = frozenset("""
    triton sgl_kernel flashinfer deep_gemm deep_ep flash_attn tilelang cutlass cuda tvm_ffi quack torch_memory_saver
    pynvml tokenspeed_mla nixl cupy
    """.split())
# What `pip install sglang` brings, by the name it is imported under, and what those bring in their turn.
REQUIRED = frozenset("""
    torch torchvision torchaudio torchao torchcodec numpy scipy transformers tokenizers huggingface_hub safetensors
    compressed_tensors accelerate aiohttp anthropic blobfile datasets decord distro einops fastapi starlette gguf
    interegular IPython kernels llguidance mistral_common modelscope msgspec multipart openai openai_harmony orjson
    outlines partial_json_parser PIL prometheus_client psutil pybase64 pydantic pydantic_core requests sentencepiece
    setproctitle smg_grpc_servicer soundfile tiktoken timm tqdm uvicorn uvloop watchfiles xgrammar zmq zstandard yaml
    jinja2 filelock regex httpx cloudpickle dill grpc google easydict av pandas nvtx fsspec
    """.split())
ENVIRONMENT = ("SGLANG_", "SGL_", "CUDA_", "NCCL_", "PYTORCH_", "TORCH_", "FLASHINFER_", "NVSHMEM_", "TRTLLM_",
               "CUTE_DSL_", "WORLD_SIZE", "RANK", "LOCAL_", "MASTER_", "DEEP", "MC_", "MOONCAKE_", "HF_", "USE_")
# Caches that hold declarations of the package, the same for every plan.
KEPT_CACHES = ("sglang.srt.arg_groups.arg_utils", "typing", "re")
# Distributions whose version a check asks for, when they are stand-ins: what the package itself requires.
ASSUMED = {"deep_ep": "1.2.1", "nvidia-cudnn-cu12": "9.16.0", "nvidia-cudnn-cu13": "9.16.0", "nvidia-nccl-cu12": "2.28.3",
           "nvidia-nccl-cu13": "2.28.3"}


def required_versions(root):
    """Pinned versions from the package's own requirements, as installed or in a checkout's pyproject.toml:
    {"transformers": "5.12.1", ...}."""
    lines = []
    for distribution in importlib.metadata.distributions(path=[root]):
        if (distribution.metadata["Name"] or "").lower() == DISTRIBUTION:
            lines = distribution.requires or ()
    project = os.path.join(root, "pyproject.toml")
    if not lines and os.path.exists(project):
        with open(project, encoding="utf-8") as file:
            lines = re.findall(r'"([^"]+)"', file.read())
    found = {}
    for line in lines:
        match = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?\s*==\s*([^;,\s]+)", line)
        if match:
            found[match.group(1).lower().replace("_", "-")] = match.group(2)
    return found


class Package(types.ModuleType):
    """`sglang` without its front-end language, which imports the whole engine: the same folder, an empty __init__."""


# ---- processes that are not started --------------------------------------------------------------------------------


class Process:
    """Stands for multiprocessing.Process; `started` collects them."""

    started = []
    pid, exitcode = 1, None

    def __init__(self, target=None, args=(), kwargs=None, **_):
        self.target, self.args, self.kwargs = target, args, kwargs or {}

    def start(self):
        Process.started.append(self)

    def is_alive(self):
        return True


class Pipe:
    def recv(self):
        return {"status": "ready", "max_total_num_tokens": 1, "max_req_input_len": 1}

    def poll(self, *_):
        return True

    def close(self):
        pass


MULTIPROCESSING = types.SimpleNamespace(
    Process=Process, Pipe=lambda duplex=False: (Pipe(), Pipe()), get_context=lambda *_: MULTIPROCESSING,
    set_start_method=lambda *_, **__: None, Event=threading.Event)


class Inert:
    """An adapter whose every method is a context that does nothing."""

    def __getattr__(self, name):
        if name == "create":
            return lambda *_, **__: self
        return lambda *_, **__: contextlib.nullcontext()


class NamedFile:
    def __init__(self, *_, **__):
        self.name = "name"


class SGLang:
    """The package, imported once under a device; `judge` asks it about one command."""

    def __init__(self, folder, sm):
        standins.Device.sm = sm
        self.root = worker.find_package("sglang", folder)
        self.version = worker.package_version(DISTRIBUTION, self.root)
        logging.disable(logging.CRITICAL)
        for level in ("warning_once", "info_once"):
            setattr(logging.Logger, level, lambda *_, **__: None)
        warnings.filterwarnings("ignore")
        self.pinned = required_versions(self.root)
        self.caches = []
        self._watch_caches()
        self._replace()
        self._import()
        self._still()
        self.environment = worker.base_environment(ENVIRONMENT)

    def _watch_caches(self):
        """A cached answer may rest on the environment or on a model folder, so every plan starts with empty caches."""
        real = functools.lru_cache

        def lru_cache(maxsize=128, typed=False):
            if callable(maxsize):
                made = real(128, typed)(maxsize)
                self.caches.append(made)
                return made

            def wrap(function):
                made = real(maxsize, typed)(function)
                self.caches.append(made)
                return made

            return wrap

        functools.lru_cache = lru_cache
        functools.cache = lambda function: lru_cache(None)(function)

    # ---- what is not there -----------------------------------------------------------------------------------------

    def _replace(self):
        standins.packaging()
        # What is really there is imported before any stand-in can be met on its way. transformers asks for its own
        # neighbours again later, so without them all it is a stand-in too.
        standins.usable("numpy")
        whole = standins.usable("torch") and all(map(standins.present, ("PIL", "torchvision", "requests")))
        whole = whole and standins.usable("transformers")
        version = lambda name: self.pinned.get(name.lower().replace("_", "-"), ASSUMED.get(name, "9.9.9"))
        always = KERNELS if whole else KERNELS | {"huggingface_hub", "tokenizers"}
        standins.install(lambda root: root in REQUIRED, version, always=always)
        torch = standins.torch()
        if not getattr(torch.version, "cuda", None):
            torch.version.cuda = "12.9"
        if isinstance(torch, standins.AnyModule):
            standins.shapes(torch)
        standins.numpy()
        if not whole:
            standins.transformers(self.pinned.get("transformers", "5.12.1"), torch)
        self._replace_versions()
        if not standins.usable("uvloop"):
            import asyncio

            standins.module("uvloop", EventLoopPolicy=asyncio.DefaultEventLoopPolicy, install=lambda: None)
        if not standins.usable("orjson"):
            standins.module("orjson", loads=json.loads, JSONDecodeError=ValueError,
                            dumps=lambda value, *_, **__: json.dumps(value, default=str).encode())
        if not standins.usable("dill"):
            standins.module("dill", dumps=lambda *_, **__: b"")
        self._replace_triton()
        self._replace_smi()

    def _replace_triton(self):
        """What modules ask triton at import: the device it would compile for, and to leave a kernel as it is."""
        target = types.SimpleNamespace(backend="cuda", arch=standins.Device.sm, warp_size=32)
        utils = types.SimpleNamespace(
            get_device_properties=lambda *_: {"multiprocessor_count": 132, "max_shared_mem": 232448})
        triton = standins.module("triton", __version__="3.6.0")
        standins.module("triton.runtime")
        standins.module("triton.runtime.driver", active=types.SimpleNamespace(
            get_current_target=lambda: target, get_current_device=lambda: 0, utils=utils))
        triton.cdiv = lambda a, b: -(-a // b)
        triton.next_power_of_2 = lambda n: 1 << (max(int(n), 1) - 1).bit_length()

    def _replace_versions(self):
        """Versions of what is a stand-in: those that the package requires."""
        real = importlib.metadata.version

        def version(name):
            key = name.lower().replace("_", "-")
            module = key.replace("-", "_")
            try:
                if module not in KERNELS:
                    return real(name)
            except importlib.metadata.PackageNotFoundError:
                pass
            found = self.pinned.get(key) or ASSUMED.get(name) or ASSUMED.get(key)
            if found is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return found

        importlib.metadata.version = version

    def _replace_smi(self):
        """nvidia-smi, as far as the package asks it: memory in MiB or compute capability, a line a GPU."""
        real = subprocess.run

        def run(command, *args, **kwargs):
            words = command.split() if isinstance(command, str) else list(command)
            if not words or os.path.basename(str(words[0])) != "nvidia-smi":
                return real(command, *args, **kwargs)
            device = standins.Device
            line = "%d" % (device.memory_gb * 1024) if "memory" in " ".join(words) else "%d.%d" % divmod(device.sm, 10)
            return subprocess.CompletedProcess(command, 0, "\n".join([line] * device.count), "")

        subprocess.run = run
        standins.note("nvidia-smi (the device asked about)")

    def _import(self):
        package = Package("sglang")
        package.__path__ = [os.path.join(self.root, "sglang")]
        package.__version__ = self.version
        package.__spec__ = importlib.machinery.ModuleSpec("sglang", None, is_package=True)
        sys.modules["sglang"] = package
        standins.note("sglang.lang (the front-end language)")
        import sglang.srt.server_args as server_args
        import sglang.srt.entrypoints.engine as engine
        import sglang.srt.managers.data_parallel_controller as controller
        import sglang.srt.distributed.parallel_state as parallel_state

        self.version = self.version or importlib.import_module("sglang.version").__version__
        self.args, self.engine, self.controller, self.groups = server_args, engine, controller, parallel_state
        self.context = None
        with contextlib.suppress(ImportError):
            self.context = importlib.import_module("sglang.srt.runtime_context")

    def _still(self):
        """Nothing is started, opened or listened on."""
        for module in (self.engine, self.controller):
            module.mp = MULTIPROCESSING
            module.numa_utils = Inert()
            module.TorchMemorySaverAdapter = Inert()
            module.maybe_reindex_device_id = contextlib.nullcontext
        self.engine.set_ulimit = lambda *_, **__: None
        self.engine.set_prometheus_multiproc_dir = lambda *_, **__: None
        self.engine.signal = types.SimpleNamespace(signal=lambda *_: None, SIGQUIT=signal.SIGQUIT, SIGCHLD=signal.SIGCHLD)
        args = self.args
        args.tempfile = types.SimpleNamespace(NamedTemporaryFile=NamedFile, gettempdir=lambda: "/tmp")
        args.wait_port_available = lambda *_, **__: None
        args.get_free_port = lambda *_, **__: 29999
        logging.basicConfig = lambda *_, **__: None
        self.judgement = None
        init, witness = args.ServerArgs.__post_init__, self

        def post_init(server_args):
            witness.judgement.stage = "post-init"
            init(server_args)

        args.ServerArgs.__post_init__ = post_init
        self.parser = argparse.ArgumentParser(prog="sglang serve")
        args.ServerArgs.add_cli_args(self.parser)
        self.names = {word: action.dest for action in self.parser._actions for word in action.option_strings}
        # Groups without communicators: the real class, told to make none.
        make = self.groups.GroupCoordinator

        def coordinator(group_ranks, local_rank, backend, **named):
            self.partitions[named.get("group_name")] = group_ranks
            off = {key: False for key in self.communicators}
            return make(group_ranks=group_ranks, local_rank=local_rank, torch_distributed_backend=backend,
                        group_name=named.get("group_name"), **off)

        import inspect

        self.communicators = [name for name in inspect.signature(make.__init__).parameters if name.startswith("use_")]
        self.partitions = {}
        self.groups.init_model_parallel_group = coordinator
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("sglang.") and "in_the_same_node_as" in vars(module):
                module.in_the_same_node_as = lambda group, source_rank=0: [True] * len(getattr(group, "ranks", [0]))

    # ---- one plan --------------------------------------------------------------------------------------------------

    def run(self, judgement, argv, world):
        self.judgement = judgement
        judgement.stage = "parse"
        if "--config" in argv:
            args = self.args.prepare_server_args(argv)
            given = {}
        else:
            raw = self.parser.parse_args(argv)
            given = {self.names[word]: copy.copy(getattr(raw, self.names[word], None))
                     for word in (a.partition("=")[0] for a in argv) if word in self.names}
            args = self.args.ServerArgs.from_cli_args(raw)
        judgement.resolved.update(resolved_args(args, given))
        judgement.stage = "pre-launch"
        self.engine._set_envs_and_config(args)
        args.check_server_args()
        judgement.resolved.update(resolved_args(args, given))
        judgement.stage = "launcher"
        processes = self.launch(args)
        self.check_seats(judgement, args, processes, world)
        judgement.stage = "dist-init"
        self.check_groups(judgement, args)

    def launch(self, args):
        """The launcher of every node: [(pp_rank, tp_rank, dp_rank, gpu, node)]."""
        seats = []
        for node in range(args.nnodes):
            here = copy.copy(args)
            here.node_rank = node
            Process.started = []
            ports = self.args.PortArgs.init_new(here)
            launch = getattr(self.engine.Engine, "_launch_scheduler_processes", None) or \
                self.engine._launch_scheduler_processes
            launch(here, ports, None)
            if args.dp_size > 1:
                Process.started = []
                self.launch_data_parallel(here, ports)
            for process in Process.started:
                if len(process.args) >= 9:
                    given = process.args
                    seats.append((given[7], given[3], given[8], given[2], node))
        return seats

    def launch_data_parallel(self, args, ports):
        """What the data-parallel controller's process does, without its sockets and threads."""
        controller = object.__new__(self.controller.DataParallelController)
        controller.server_args, controller.port_args = args, ports
        controller.run_scheduler_process_func = None
        controller.env_lock, controller.scheduler_procs = threading.Lock(), []
        controller.workers = [None] * args.dp_size
        if args.enable_dp_attention:
            if args.dist_init_addr is not None:
                self.args.NetworkAddress.parse(args.dist_init_addr)
            controller.launch_tensor_parallel_group(args, ports, 0, None, [20000 + i for i in range(args.dp_size)])
            return
        base = 0
        for rank in range(args.dp_size):
            controller.launch_tensor_parallel_group(args, self.args.PortArgs.init_new(args), base, rank)
            base += args.tp_size * args.pp_size * args.gpu_id_step

    def check_seats(self, judgement, args, seats, world):
        """Every rank must be started once; else the others wait for it for ever."""
        replicas = 1 if args.enable_dp_attention else args.dp_size
        needed = args.tp_size * args.pp_size * replicas
        ranks = {seat[:2] if args.enable_dp_attention else seat[:3] for seat in seats}
        judgement.resolved["processes"] = len(seats)
        judgement.resolved["gpus_used"] = len({(seat[4], seat[3]) for seat in seats})
        judgement.resolved["world_used"] = needed
        if world and needed != world:
            judgement.resolved["warning"] = "ranks started %d, world %d" % (needed, world)
        if len(ranks) != needed or len(seats) != needed:
            raise worker.Refusal("ranks started %d, distinct %d, needed %d" % (len(seats), len(ranks), needed))

    def check_groups(self, judgement, args):
        """The groups as rank 0 makes them; any other rank that they leave out is asked for itself."""
        size = args.tp_size * args.pp_size
        self.make_groups(args, size, 0)
        shown = {}
        for name in ("_TP", "_PP", "_ATTN_TP", "_ATTN_CP", "_MOE_DP", "_MOE_EP", "_MOE_TP"):
            group = getattr(self.groups, name, None)
            if group is not None:
                shown[name[1:].lower()] = len(group.ranks)
        judgement.resolved["groups"] = shown
        left_out = {rank for partition in self.partitions.values() for rank in range(size)
                    if not any(rank in ranks for ranks in partition)}
        for rank in sorted(left_out):
            self.make_groups(args, size, rank)

    def make_groups(self, args, size, rank):
        groups, world = self.groups, standins.World
        for name in [n for n in vars(groups) if re.fullmatch(r"_[A-Z][A-Z_]*", n) and isinstance(
                vars(groups)[n], groups.GroupCoordinator)]:
            setattr(groups, name, None)
        for registry in ("_groups", "_group_name_counter"):
            if hasattr(groups, registry):
                getattr(groups, registry).clear()
        self.partitions.clear()
        world.size, world.rank, world.initialized = size, rank, True
        groups._WORLD = groups.init_model_parallel_group([list(range(size))], 0, "nccl", group_name="world")
        sizes = {
            "tensor_model_parallel_size": args.tp_size, "pipeline_model_parallel_size": args.pp_size,
            "expert_model_parallel_size": args.ep_size,
            "attention_data_parallel_size": args.dp_size if args.enable_dp_attention else 1,
            "attention_context_model_parallel_size": getattr(args, "attn_cp_size", 1),
            "moe_data_model_parallel_size": getattr(args, "moe_dp_size", 1),
        }
        if getattr(args, "dcp_size", 1) != 1:
            sizes["decode_context_parallel_size"] = args.dcp_size
        groups.initialize_model_parallel(**sizes)

    def judge(self, request):
        argv = worker.flags_of(request["argv"], ("launch_server", "launch_server.py", "serve"))
        gpu, device = request.get("gpu") or {}, standins.Device
        device.memory_gb, device.count = gpu.get("mem_gb") or 80.0, gpu.get("count") or 8
        if request.get("model_dir"):
            argv = with_model(argv, request["model_dir"])
        worker.set_environment(self.environment, request.get("env"))
        for cache in self.caches:
            if cache.__wrapped__.__module__ not in KEPT_CACHES:
                cache.cache_clear()
        if self.context and hasattr(self.context, "reset_context"):
            self.context.reset_context()
        standins.World.initialized = False
        judgement = worker.Judgement()
        return judgement.verdict(lambda j: self.run(j, argv, request.get("world_size")), self.root)


def with_model(argv, folder):
    """The command with `folder` for its model."""
    argv = list(argv)
    for i, word in enumerate(argv):
        if word in ("--model-path", "--model") and i + 1 < len(argv):
            argv[i + 1] = folder
            return argv
        if word.startswith(("--model-path=", "--model=")):
            argv[i] = "--model-path=" + folder
            return argv
    return ["--model-path", folder] + argv


# ---- what became of the arguments ----------------------------------------------------------------------------------

SHOWN = {
    "tp": "tp_size", "pp": "pp_size", "dp": "dp_size", "ep": "ep_size", "moe_dp": "moe_dp_size", "cp": "attn_cp_size",
    "dp_attention": "enable_dp_attention", "nnodes": "nnodes", "chunk": "chunked_prefill_size", "page": "page_size",
    "a2a": "moe_a2a_backend", "runner": "moe_runner_backend", "deepep_mode": "deepep_mode",
    "quantization": "quantization", "moe_dense_tp": "moe_dense_tp_size", "attention_backend": "attention_backend",
    "kv_cache_dtype": "kv_cache_dtype", "mem_fraction": "mem_fraction_static", "max_running": "max_running_requests",
    "overlap_off": "disable_overlap_schedule", "graph_off": "disable_cuda_graph", "graph_max_bs": "cuda_graph_max_bs",
    "two_batch_overlap": "enable_two_batch_overlap", "redundant": "ep_num_redundant_experts", "eplb": "enable_eplb",
}


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def resolved_args(args, given):
    """The plan's dimensions as resolved, and every argument given on the command line that came out as another. CUDA
    graphs are on unless they are turned off: turned off by the package, they count as rewritten too."""
    out = {key: plain(getattr(args, name)) for key, name in SHOWN.items() if hasattr(args, name)}
    rewritten = {}
    for name, before in given.items():
        if not hasattr(args, name):
            continue
        before, after = plain(before), plain(getattr(args, name))
        # A chunk is asked for the whole server and kept for a rank: the same number, said of a part.
        share = args.dp_size if name == "chunked_prefill_size" and args.enable_dp_attention else 1
        if after != before and not (isinstance(before, int) and share > 1 and after == before // share):
            rewritten[name] = [before, after]
    graphs = getattr(getattr(args, "cuda_graph_config", None), "decode", None)
    if graphs is not None:
        out["graph_decode"] = str(getattr(graphs.backend, "value", graphs.backend))
        if out["graph_decode"] == "disabled" and not any(
                name.startswith(("disable_cuda_graph", "disable_decode", "cuda_graph_backend")) for name in given):
            rewritten["cuda_graph"] = ["on", "disabled"]
    out["rewritten"] = rewritten
    return out


def load(folder, sm):
    """For worker.serve: imports the package for a device; returns the hello object and the judge."""
    package = SGLang(folder, sm)
    hello = {
        "toolchain": DISTRIBUTION, "version": package.version, "root": package.root,
        "python": "%d.%d.%d" % sys.version_info[:3], "stand_ins": list(standins.replaced),
        "skipped": ["model build, weights, kernels, graph capture, requests: no verdict past the process groups"],
    }
    return hello, package.judge


def device_of(request):
    return int((request.get("gpu") or {}).get("sm") or 90)


def main():
    return worker.serve(load, device_of, 90)


if __name__ == "__main__":
    sys.exit(main())
