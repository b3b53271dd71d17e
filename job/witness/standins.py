"""Stand-ins for third-party modules that are not installed.

A toolchain's configuration code imports torch and much else, yet asks little of it: a type to name, a decorator, a
version, a yes. `install(...)` puts a finder at the end of the import system, behind everything that is really there, which
serves permissive modules under the names it was given. Every name it served is in `replaced`, and a verdict can say what
it rests on. A stand-in answers yes where it cannot know; nothing here computes.
"""
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import typing

replaced = []  # what was replaced, in the order it was asked for: "torch", "typing.override", ...


def note(name):
    """Remembers that `name` is not the real thing."""
    if name not in replaced:
        replaced.append(name)


def _decorator_use(args, kwargs):
    """True for the call that a bare decorator makes: one function or class, nothing else."""
    return len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type))


class AnyMeta(type(typing.Protocol)):
    """Class of stand-in classes. An unknown attribute of one is another one; arithmetic gives 1, comparison yes."""

    def __new__(mcs, name, bases, body, **_):
        return super().__new__(mcs, name, bases, body)

    def __init__(cls, name, bases, body, **_):
        super().__init__(name, bases, body)

    def __getattr__(cls, name):
        if name == "_is_protocol":  # isinstance asks every class made by typing.Protocol's metaclass
            return False
        # abc, typing and dataclasses look for their own marks; a stand-in has none.
        if name.startswith(("__", "_is_", "_abc", "_proto", "_non_", "_get_p")):
            raise AttributeError(name)
        value = make_class(name)
        setattr(cls, name, value)
        return value

    def __call__(cls, *args, **kwargs):
        if _decorator_use(args, kwargs):
            return args[0]
        made = object.__new__(cls)
        try:
            made.__init__(*args, **kwargs)
        except TypeError:
            pass  # a subclass's own signature; the stand-in instance is as good without
        return made

    def register(cls, *args, **kwargs):
        return args[0] if _decorator_use(args, kwargs) else lambda given: given

    def __or__(cls, other):
        return _union(cls, other)

    def __ror__(cls, other):
        return _union(other, cls)

    def __getitem__(cls, _):
        return cls

    def __setitem__(cls, _, value):
        pass

    def __iter__(cls):
        return iter(())


def _union(a, b):
    try:
        return typing.Union[a, b]
    except TypeError:
        return a


def _one(*_):
    return 1


def _yes(*_):
    return True


def _no(*_):
    return False


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "xor"):
    setattr(AnyMeta, "__%s__" % _name, _one)
    setattr(AnyMeta, "__r%s__" % _name, _one)
for _name in ("and", "rand", "neg", "invert", "int", "index", "len"):
    setattr(AnyMeta, "__%s__" % _name, _one)
for _name, _answer in (("ge", _yes), ("gt", _yes), ("le", _no), ("lt", _no)):
    setattr(AnyMeta, "__%s__" % _name, _answer)


class Any(metaclass=AnyMeta):
    """Instance side of a stand-in: callable, a context manager, empty, true."""

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        import pydantic_core

        return pydantic_core.core_schema.any_schema()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(type(self), name)

    def __call__(self, *args, **kwargs):
        return args[0] if _decorator_use(args, kwargs) else self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __bool__(self):
        return True

    def __int__(self):
        return 0

    def __contains__(self, _):
        return False

    def __getitem__(self, _):
        return self

    def __setitem__(self, _, value):
        pass


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "mod"):
    setattr(Any, "__%s__" % _name, _one)
for _name, _answer in (("ge", _yes), ("gt", _yes), ("le", _no), ("lt", _no)):
    setattr(Any, "__%s__" % _name, _answer)


def make_class(name, **members):
    return AnyMeta(name, (Any,), dict(members))


class AnyModule(types.ModuleType):
    """A module in which every name exists."""

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name in self.__dict__.get("_missing", ()):
            raise AttributeError(name)
        value = make_class(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves stand-ins for the roots that `wanted(root)` accepts."""

    def __init__(self, wanted, version_of):
        self.wanted = wanted
        self.version_of = version_of

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        # A missing submodule of a real package stays missing: half a package must not be made up.
        if root in sys.modules and not isinstance(sys.modules[root], AnyModule):
            return None
        if root not in replaced and not self.wanted(root):
            return None
        note(root)
        return importlib.machinery.ModuleSpec(name, self, origin="stand-in", is_package=True)

    def create_module(self, spec):
        module = AnyModule(spec.name)
        module.__path__ = []
        version = self.version_of(spec.name)
        if version:
            module.__version__ = version
        return module

    def exec_module(self, module):
        parent, _, child = module.__name__.rpartition(".")
        if parent and parent in sys.modules:
            setattr(sys.modules[parent], child, module)


def present(name):
    """True when the real module can be found (it is not imported here)."""
    if name in sys.modules:
        return not isinstance(sys.modules[name], AnyModule)
    for finder in sys.meta_path:
        spec = None if isinstance(finder, Finder) else finder.find_spec(name, None)
        if spec is not None:
            return True
    return False


def usable(name):
    """Imports the real module `name`; False when it is missing or does not load (a torch without its libraries)."""
    if not present(name):
        return False
    try:
        importlib.import_module(name)
        return True
    except Exception:
        for key in [k for k in sys.modules if k == name or k.startswith(name + ".")]:
            del sys.modules[key]
        return False


def install(wanted, version_of=lambda name: None, always=frozenset()):
    """Serves the roots that `wanted(root)` accepts behind everything installed, those in `always` before it.
    version_of(module) gives __version__, or None for none."""
    if always:
        for name in [n for n in sys.modules if n.partition(".")[0] in always]:
            del sys.modules[name]
        sys.meta_path.insert(0, Finder(lambda root: root in always, version_of))
    sys.meta_path.append(Finder(wanted, version_of))


def module(name, **members):
    """A stand-in module under `name`, in place at once, with the members given."""
    made = AnyModule(name)
    made.__path__ = []
    made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    for key, value in members.items():
        setattr(made, key, value)
    sys.modules[name] = made
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, made)
    else:
        note(name)
    return made


def packaging():
    """`packaging`, or the copy that pip carries; both are the real code."""
    if not present("packaging"):
        for name in ("packaging", "packaging.version", "packaging.specifiers", "packaging.requirements"):
            sys.modules[name] = importlib.import_module("pip._vendor." + name)
    if not present("typing_extensions"):
        try:
            sys.modules["typing_extensions"] = importlib.import_module("pip._vendor.typing_extensions")
        except ImportError:
            pass
    if not hasattr(typing, "override"):  # Python 3.11
        typing.override = lambda method: method
        note("typing.override")


# ---- torch ---------------------------------------------------------------------------------------------------------


class Device:
    """The GPU that the plan is meant for, whatever this machine has. Set per plan."""

    sm = 90
    memory_gb = 80.0
    count = 8


class Properties:
    @property
    def major(self):
        return Device.sm // 10

    @property
    def minor(self):
        return Device.sm % 10

    @property
    def total_memory(self):
        return int(Device.memory_gb * (1 << 30))

    multi_processor_count = 132
    name = "stand-in"


class Group:
    """A process group that only knows its ranks."""

    __slots__ = ("ranks",)
    group_name = "stand-in"
    bound_device_id = None

    def __init__(self, ranks):
        self.ranks = ranks

    def size(self):
        return len(self.ranks)

    def rank(self):
        return self.ranks.index(World.rank) if World.rank in self.ranks else -1

    def __deepcopy__(self, _):
        return self


class World:
    """What torch.distributed says. `initialized` turns true when the toolchain calls init_process_group."""

    size = 1
    rank = 0
    initialized = False


def _init_process_group(*args, world_size=None, rank=None, **kwargs):
    World.initialized = True


def _world_size(group=None):
    return group.size() if isinstance(group, Group) else World.size


def _rank(group=None):
    return group.rank() if isinstance(group, Group) else World.rank


def fake_distributed(torch):
    """Process groups without processes: replaces the functions of torch.distributed, stand-in or real."""
    dist = torch.distributed
    dist.is_available = lambda: True
    dist.is_initialized = lambda: World.initialized
    dist.init_process_group = _init_process_group
    dist.get_world_size = _world_size
    dist.get_rank = _rank
    dist.new_group = lambda ranks=None, *a, **k: Group(range(World.size) if ranks is None else ranks)
    dist.get_process_group_ranks = lambda group: list(group.ranks)
    dist.get_backend = lambda *a: "nccl"
    dist.is_nccl_available = lambda: True
    for name in ("barrier", "all_reduce", "broadcast", "broadcast_object_list", "destroy_process_group"):
        setattr(dist, name, lambda *a, **k: None)
    note("torch.distributed (groups of ranks alone)")


def fake_device(torch):
    """A GPU to ask about: replaces the questions of torch.cuda, stand-in or real."""
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: False
    cuda.device_count = lambda: Device.count
    cuda.current_device = lambda: 0
    cuda.set_device = lambda *a: None
    cuda.get_device_capability = lambda *a: (Device.sm // 10, Device.sm % 10)
    cuda.get_device_properties = lambda *a: Properties()
    cuda.get_device_name = lambda *a: Properties.name
    cuda.mem_get_info = lambda *a: (int(Device.memory_gb * (1 << 30) * 0.985), int(Device.memory_gb * (1 << 30)))
    cuda.set_stream = lambda *a: None
    cuda.synchronize = lambda *a: None
    cuda.empty_cache = lambda *a: None
    note("torch.cuda (the device asked about)")
    if not isinstance(torch, AnyModule):
        for name in ("ones", "zeros", "empty", "full", "tensor", "arange"):
            setattr(torch, name, _on_cpu(getattr(torch, name)))


def _on_cpu(make):
    """A real tensor meant for a GPU that is not there lies in host memory."""

    @functools.wraps(make)
    def made(*args, device=None, **kwargs):
        if device is not None and "cuda" in str(device):
            device = "cpu"
        return make(*args, **kwargs) if device is None else make(*args, device=device, **kwargs)

    return made


class DType:
    def __init__(self, name, itemsize, is_floating_point):
        self.name, self.itemsize, self.is_floating_point = name, itemsize, bool(is_floating_point)

    def __repr__(self):
        return "torch." + self.name

    def __deepcopy__(self, _):
        return self

    def __reduce__(self):
        return self.name


DTYPES = (
    ("float32 float", 4, 1), ("float64 double", 8, 1), ("float16 half", 2, 1), ("bfloat16", 2, 1),
    ("float8_e4m3fn", 1, 1), ("float8_e5m2", 1, 1), ("float8_e4m3fnuz", 1, 1), ("float8_e5m2fnuz", 1, 1),
    ("float8_e8m0fnu", 1, 1), ("float4_e2m1fn_x2", 1, 1), ("uint8", 1, 0), ("int8", 1, 0), ("int16 short", 2, 0),
    ("int32 int", 4, 0), ("int64 long", 8, 0), ("bool", 1, 0), ("uint16", 2, 0), ("uint32", 4, 0), ("uint64", 8, 0),
    ("complex64", 8, 0),
)
TORCH_VERSION = "2.11.0"


def torch():
    """The real torch where it loads, else a stand-in: dtypes that are distinct, modules that hold nothing."""
    if not usable("torch"):
        made = module("torch", __version__=TORCH_VERSION)
        made._missing = ("npu", "hpu", "xpu", "musa", "mtia", "_is_compiling")
        made.dtype = DType
        for names, size, is_float in DTYPES:
            dtype = DType(names.split()[0], size, is_float)
            for name in names.split():
                setattr(made, name, dtype)
        made.Tensor = make_class("Tensor")
        made.is_grad_enabled = lambda: True
        made.get_default_dtype = lambda: made.float32
        module("torch.cuda")
        module("torch.version", cuda="12.9", hip=None, __version__=TORCH_VERSION)
        module("torch.distributed")
    real = sys.modules["torch"]
    import torch.distributed

    fake_distributed(real)
    fake_device(real)
    return real


def numpy():
    """numpy, or the few functions on lists that configuration code calls."""
    if usable("numpy"):
        return
    import math
    import operator

    made = module("numpy", __version__="2.1.0")
    made.prod = lambda values, *a, **k: functools.reduce(operator.mul, [values] if isinstance(values, int) else values, 1)
    made.ndarray = type("ndarray", (), {})
    made.lcm, made.gcd, made.ceil = math.lcm, math.gcd, math.ceil

    def cumsum(values, *a, **k):
        total, out = 0, []
        for value in values:
            total += value
            out.append(total)
        return out

    made.cumsum = cumsum


def shapes(torch):
    """More of the stand-in torch, for code that defines modules and defaults at import time: bases to derive from."""
    torch.device = _DeviceName
    torch.Size = tuple
    torch.nn = module("torch.nn")
    for name in ("Module", "Parameter", "ModuleList", "ModuleDict", "Sequential", "ParameterList"):
        setattr(torch.nn, name, make_class(name))
    for name in ("torch.nn.functional", "torch.nn.parameter", "torch.utils", "torch.library"):
        module(name)
    torch.library.Library = _Library
    module("torch.backends")
    module("torch.backends.mps", is_available=lambda: False)
    torch.utils._pytree = module("torch.utils._pytree")
    module("torch.multiprocessing")
    torch.distributed.Backend = type("Backend", (str,), {"NCCL": "nccl", "GLOO": "gloo", "MPI": "mpi"})
    torch.distributed.ProcessGroup = Group


class _Library:
    def __init__(self, ns="", kind="", *_):
        self.ns = ns

    def __getattr__(self, _):
        return lambda *_, **__: None


class _DeviceName:
    def __init__(self, name="cpu", index=None):
        self.type, _, number = str(name).partition(":")
        self.index = int(number) if number else index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def transformers(version, torch):
    """Configurations read from config.json, with the defaults of the real classes that checks depend on."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "transformers"]:
        del sys.modules[name]
    made = module("transformers", __version__=version)
    registered, generic = {}, {}

    def dtype(value):
        return getattr(torch, value.replace("torch.", ""), value) if isinstance(value, str) else value

    class PretrainedConfig:
        model_type = ""
        attribute_map = {}
        sub_configs = {}
        is_composition = False

        def __init__(self, **given):
            base = {"architectures": None, "tie_word_embeddings": True, "pad_token_id": None, "bos_token_id": None,
                    "eos_token_id": None, "dtype": None, "is_encoder_decoder": False, "id2label": {0: "0", 1: "1"}}
            if "torch_dtype" in given:
                given["dtype"] = given.pop("torch_dtype")
            for name, value in {**base, **given}.items():
                if name == "dtype":
                    value = dtype(value)
                elif name.endswith("_config") and isinstance(value, dict) and "model_type" in value:
                    value = for_model(**value)
                try:
                    setattr(self, name, value)
                except AttributeError:  # a property of the package's own class
                    pass

        def __init_subclass__(cls, **_):
            super().__init_subclass__()

        def __post_init__(self, *_, **__):
            pass

        def __getattr__(self, name):
            mapped = type(self).attribute_map.get(name)
            if mapped and mapped != name:
                return getattr(self, mapped)
            if name == "torch_dtype":
                return self.__dict__.get("dtype")
            if name == "rope_scaling":
                return self.__dict__.get("rope_parameters")
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))

        def __iter__(self):
            return iter(self.__dict__)

        @classmethod
        def get_config_dict(cls, path, **_):
            return read(path), {}

        @classmethod
        def from_dict(cls, given, **_):
            return cls(**given)

        @classmethod
        def from_pretrained(cls, path, **_):
            config = cls.from_dict(read(path))
            config._name_or_path = path
            return config

        def to_dict(self):
            return {k: v.to_dict() if isinstance(v, PretrainedConfig) else v for k, v in self.__dict__.items()}

        to_diff_dict = to_dict

        def update(self, given):
            for name, value in given.items():
                setattr(self, name, dtype(value) if name in ("dtype", "torch_dtype") else value)

        def get_text_config(self, *_, **__):
            return getattr(self, "text_config", self)

        def save_pretrained(self, *_, **__):
            pass

    def read(path):
        import json
        import os

        name = os.path.join(path, "config.json")
        if not os.path.exists(name):
            raise OSError("%s does not appear to have a file named config.json" % path)
        with open(name, encoding="utf-8") as file:
            return json.load(file)

    def for_model(model_type="", **given):
        if model_type in registered:
            return registered[model_type](**given)
        if model_type not in generic:
            generic[model_type] = type("Config_%s" % model_type.replace("-", "_"), (PretrainedConfig,),
                                       {"model_type": model_type})
        config = generic[model_type](**{**CONFIG_DEFAULTS.get(model_type, {}), **given, "model_type": model_type})
        if config.__dict__.get("head_dim", 0) is None and config.__dict__.get("num_attention_heads"):
            config.head_dim = config.hidden_size // config.num_attention_heads
        if "rope_parameters" not in config.__dict__ and "rope_theta" in config.__dict__:
            scaling = config.__dict__.get("rope_scaling") or {}
            config.rope_parameters = {"rope_theta": config.rope_theta,
                                      "rope_type": scaling.get("rope_type", scaling.get("type", "default")), **scaling}
        return config

    class Mapping(dict):
        def register(self, name, kind, **_):
            self[name] = kind

    mapping = Mapping()
    mapping._extra_content = mapping._mapping = registered

    class AutoConfig:
        @staticmethod
        def register(name, kind, exist_ok=False):
            registered[name] = kind
            mapping[name] = kind

        @staticmethod
        def from_pretrained(path, **_):
            config = for_model(**read(path))
            config._name_or_path = path
            return config

    AutoConfig.for_model = staticmethod(for_model)

    class GenerationConfig:
        @staticmethod
        def from_pretrained(path, **_):
            raise OSError("no generation_config.json in %s" % path)

    made.CONFIG_MAPPING = mapping
    made.PretrainedConfig = made.PreTrainedConfig = PretrainedConfig
    made.AutoConfig, made.GenerationConfig = AutoConfig, GenerationConfig
    for name in ("DeepseekV2", "DeepseekV3", "Llama", "Qwen2", "Qwen3", "Qwen2Moe", "Qwen3Moe", "Mistral", "Mixtral",
                 "Qwen2VL", "Qwen3VLMoe", "GptOss", "Glm4Moe"):
        setattr(made, name + "Config", type(name + "Config", (PretrainedConfig,), {"model_type": name}))
    module("transformers.configuration_utils", PretrainedConfig=PretrainedConfig, PreTrainedConfig=PretrainedConfig)
    module("transformers.models")
    module("transformers.models.auto")
    module("transformers.models.auto.modeling_auto", MODEL_FOR_CAUSAL_LM_MAPPING_NAMES={})
    module("transformers.models.auto.configuration_auto", CONFIG_MAPPING=mapping)


# Defaults of the real configuration classes, as far as a check reads what config.json may leave out.
CONFIG_DEFAULTS = {
    "qwen3_moe": {"norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [], "attention_bias": False,
                  "head_dim": None},
    "qwen2_moe": {"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": False, "qkv_bias": True},
    "qwen3": {"attention_bias": False},
    "mixtral": {"head_dim": None},
    "gpt_oss": {"attention_bias": True},
    "glm4_moe": {"use_qk_norm": False, "attention_bias": False, "n_group": 1, "topk_group": 1},
    "deepseek_v3": {"attention_bias": False, "moe_layer_freq": 1},
    "llama4_text": {"attention_bias": False, "interleave_moe_layer_step": 1, "use_qk_norm": True},
    "llama": {"mlp_bias": False, "attention_bias": False, "pretraining_tp": 1},
}
