"""Plans as text: drawing them at random, near the edges, and their neighbours of one changed part."""
import re

TRAIN_ORDER = ["tp", "cp", "pp", "v", "ep", "etp", "schedule", "mb", "sharding", "z", "rc", "disp", "first", "last", "lay", "sm", "nl", "ch", "pl",
               "r", "map", "k"]
SERVE_ORDER = ["tp", "cp", "pp", "ep", "mdp", "rep", "lay", "a2a", "run", "dm", "g", "ck", "tbo", "r", "sm", "k"]
DEGREES = [1, 2, 3, 4, 5, 6, 8, 12, 16, 18, 24, 32]
MODULES = ["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"]
SHARDING = ["zero1_offload", "fsdp"]
RUNNERS = ["triton", "deep_gemm", "triton_kernel", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl",
           "flashinfer_mxfp4", "cutlass", "marlin"]
A2A = ["deepep", "mooncake", "nixl", "flashinfer"]


def text(plan, phase):
    """`plan` holds the parts that differ from the default, as they are written."""
    parts = []
    for name in TRAIN_ORDER if phase == "train" else SERVE_ORDER:
        if name in plan:
            parts.append(plan[name])
        elif name in ("tp", "pp", "ep"):
            parts.append(name + "1")
        elif name == "schedule":
            parts.append("1f1b")
    return "/".join(parts)


def sound(plan):
    """The parts agree as a plan's must; moefs takes no text where they do not."""
    return (("v" in plan and plan["v"] != "v1") == plan.get("schedule", "").startswith("interleaved")
            and not ("lay" in plan and ("first" in plan or "last" in plan))
            and len(plan.get("lay", "")) < LONGEST_LAYOUT
            and (plan.get("pp", "pp1") != "pp1" or not ("first" in plan or "last" in plan)))


def read(line, phase):
    plan = {}
    for part in line.split("/"):
        name = re.match(r"[a-z]*", part)[0]
        if part.startswith(("1f1b", "interleaved", "dualpipe")):
            name = "schedule"
        elif part.startswith("a2a:"):
            name = "a2a"
        elif part.startswith(("zero1", "fsdp")):
            name = "sharding"
        elif ":" in part:
            name = part.split(":")[0]
        elif part.startswith("first") or part.startswith("last"):
            name = "first" if part.startswith("first") else "last"
        plan[name] = part
    return plan


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def degree(rng, world, likely):
    """Mostly 1, often a divisor of the world, now and then anything."""
    r = rng.random()
    if r > likely:
        return 1
    return rng.choice(divisors(world)) if r < 0.85 * likely else rng.choice(DEGREES)


def splits(rng, layers, stages):
    """Layers of every stage, adding up most of the time."""
    base, rest = divmod(layers, stages)
    counts = [base + (i < rest) for i in range(stages)]
    if rng.random() < 0.3:
        counts[rng.randrange(stages)] += rng.choice([-1, 1, 2])
    rng.shuffle(counts)
    return "lay:" + "-".join(str(max(c, 1)) for c in counts)


LONGEST_LAYOUT = 120  # moefs takes 127 characters


def train(rng, world, model):
    layers, experts = model["num_hidden_layers"], model.get("n_routed_experts") or model.get("num_experts") or \
        model.get("num_local_experts") or 0
    plan = {}
    tp, pp, cp = degree(rng, world, 0.5), degree(rng, world, 0.5), degree(rng, world, 0.25)
    if rng.random() < 0.7:  # most of the time something that divides the world
        while tp * pp * cp > world or world % (tp * pp * cp):
            tp, pp, cp = degree(rng, world, 0.5), degree(rng, world, 0.5), degree(rng, world, 0.2)
    if rng.random() < 0.2:
        pp = rng.choice([p for p in divisors(layers) if p <= world] or [1])
    vpp = 1
    etp = None
    if rng.random() < 0.35:
        etp = rng.choice([1, 1, 2, 3, 4, tp])
        plan["etp"] = f"etp{etp}"
    room = world // (pp * (etp or tp)) or 1
    ep = rng.choice([d for d in divisors(experts or world) if room % d == 0] or [1]) if rng.random() < 0.75 else degree(rng, world, 0.9)
    if tp > 1:
        plan["tp"] = f"tp{tp}"
    if cp > 1:
        plan["cp"] = f"cp{cp}"
    if pp > 1:
        plan["pp"] = f"pp{pp}"
    if ep > 1:
        plan["ep"] = f"ep{ep}"
    schedule = "1f1b"
    if rng.random() < 0.35:
        whole = [v for v in range(2, 9) if layers % (pp * v) == 0]
        vpp = rng.choice(whole) if whole and rng.random() < 0.6 else rng.choice([2, 2, 3, 4, 5])
        plan["v"] = f"v{vpp}"
        schedule = "interleaved"
    elif rng.random() < 0.03:
        schedule = "dualpipe"
    if rng.random() < (0.5 if vpp > 1 or pp == 1 else 0.1):
        schedule += "+ov"
    plan["schedule"] = schedule
    if rng.random() < 0.4:
        plan["mb"] = f"mb{rng.choice([2, 2, 3, 4, 5, 8, 16])}"
    r = rng.random()
    if r < 0.3:
        plan["sharding"] = rng.choice(SHARDING)
    if rng.random() < 0.25:
        plan["z"] = f"z{rng.choice([0, 0, 1, 2, 3])}"
    r = rng.random()
    if r < 0.3:
        plan["rc"] = "rc:" + ",".join(sorted(rng.sample(MODULES, rng.choice([1, 1, 2, 3])), key=MODULES.index))
    elif r < 0.42:
        plan["rc"] = rng.choice(["rc:full", "rc:full", "rc:full2", "rc:full3"])
    r = rng.random()
    if r < 0.3:
        plan["disp"] = "disp:" + rng.choice(["allgather", "deepep", "hybridep"])
        if r < 0.05:
            plan["sm"] = f"sm{rng.choice([8, 20, 24])}"
    if rng.random() < 0.03:  # what no command can say
        name, part = rng.choice([("nl", "nl1"), ("ch", "ch2"), ("pl", "pl:comm_first"), ("r", "r8"), ("map", "map:placement"),
                                 ("k", "k:128x128x64-w8-s3")])
        plan[name] = part
    r = rng.random()
    if pp > 1 and r < 0.25:
        middle = max(layers // pp, 1)
        for end in ("first", "last"):
            if rng.random() < 0.6:
                plan[end] = f"{end}{rng.choice([middle, middle, middle + 1, max(middle - 1, 1), max(layers - middle * (pp - 1), 1), vpp, 2 * vpp])}"
    elif pp > 1 and r < 0.4:
        stages = pp * vpp if rng.random() < 0.85 else pp * vpp + rng.choice([-1, 1, pp])
        if 0 < stages <= layers:
            plan["lay"] = splits(rng, layers, stages)
    return plan if sound(plan) else train(rng, world, model)


def serve(rng, world, model):
    layers, experts = model["num_hidden_layers"], model.get("n_routed_experts") or model.get("num_experts") or \
        model.get("num_local_experts") or 0
    plan = {}
    tp, pp, cp, rep = degree(rng, world, 0.6), degree(rng, world, 0.25), degree(rng, world, 0.15), degree(rng, world, 0.15)
    while world % (tp * pp * cp * rep):
        tp, pp, cp, rep = degree(rng, world, 0.6), degree(rng, world, 0.25), degree(rng, world, 0.15), degree(rng, world, 0.15)
    if rng.random() < 0.4:  # no attention data parallelism: one engine over all, or replicas
        if rng.random() < 0.5:
            tp = world // (pp * cp * rep)
        else:
            rep = world // (tp * pp * cp)
    size = world // (pp * rep)
    ep = rng.choice([1, size, size, rng.choice(divisors(size)), rng.choice(DEGREES)])
    for name, value in (("tp", tp), ("cp", cp), ("pp", pp), ("ep", ep), ("rep", rep)):
        if value > 1:
            plan[name] = f"{name}{value}"
    if rng.random() < 0.12:
        plan["mdp"] = f"mdp{rng.choice([cp if cp > 1 else 2, 2, 3, 4, 8])}"
    if rng.random() < 0.4:
        plan["a2a"] = "a2a:" + rng.choice(A2A)
        if rng.random() < 0.7:
            plan["ep"] = f"ep{size}"
    if rng.random() < 0.4:
        plan["run"] = "run:" + rng.choice(RUNNERS)
        if "a2a" in plan and rng.random() < 0.3:
            plan["run"] = "run:deep_gemm"
    if rng.random() < (0.6 if "a2a" in plan else 0.05):
        plan["dm"] = rng.choice(["dm:normal", "dm:low_latency"])
    if rng.random() < 0.3:
        plan["g"] = "g:off"
    if rng.random() < 0.3:
        plan["ck"] = f"ck{256 * rng.choice([1, 1, 2, 3, 4, 8, 16, 32])}"
    if rng.random() < 0.15:
        plan["tbo"] = "tbo"
    if rng.random() < 0.2:
        plan["r"] = f"r{rng.choice([1, 2, 4, 8, 16, 32, max(ep - experts % ep, 1) if ep else 1])}"
    if rng.random() < 0.02:  # what no command can say
        name, part = rng.choice([("sm", "sm20"), ("k", "k:128x128x64-w8-s3")])
        plan[name] = part
    if rng.random() < (0.25 if pp > 1 else 0.02):
        stages = pp if rng.random() < 0.8 else pp + 1
        if stages <= layers:
            plan["lay"] = splits(rng, layers, stages)
    return plan if sound(plan) else serve(rng, world, model)


def neighbours(line, phase, world, model):
    """Texts that differ from `line` in one part."""
    plan = read(line, phase)
    found = []

    def put(name, value):
        other = dict(plan)
        if value is None:
            other.pop(name, None)
        else:
            other[name] = value
        if sound(other):
            found.append(text(other, phase))

    for name in plan:
        if name != "schedule":
            put(name, None)
    numbers = ("tp", "cp", "pp", "ep", "v", "etp", "mb") if phase == "train" else ("tp", "cp", "pp", "ep", "mdp", "rep")
    for name in numbers:
        now = int(re.sub(r"\D", "", plan.get(name, "0" if name == "etp" else "1")) or 1)
        for value in {now - 1, now + 1, now * 2, now // 2, *divisors(world)} - {now, 0, -1}:
            put(name, f"{name}{value}")
    if phase == "train":
        schedule = plan.get("schedule", "1f1b")
        overlapped = schedule.endswith("+ov")
        put("schedule", schedule[:-3] if overlapped else schedule + "+ov")
        if "v" in plan:
            plain = {name: part for name, part in plan.items() if name != "v"}
            found.append(text({**plain, "schedule": "1f1b" + "+ov" * overlapped}, phase))
        if schedule.startswith("dualpipe"):
            put("schedule", "1f1b" + "+ov" * overlapped)
        for other in (None, "zero1_offload", "fsdp"):
            put("sharding", other)
        for z in range(4):
            put("z", f"z{z}")
        for other in ("rc:full", "rc:core_attn", "rc:layernorm"):
            put("rc", other)
        modules = plan.get("rc", "rc:full")[3:].split(",")
        if len(modules) > 1:
            for module in modules:
                put("rc", "rc:" + ",".join(m for m in modules if m != module))
        for other in ("disp:allgather", "disp:deepep", "disp:hybridep"):
            put("disp", other)
        for end in ("first", "last"):
            if end in plan:
                now = int(plan[end][len(end):])
                for value in {now - 2, now - 1, now + 1, now + 2, model["num_hidden_layers"] - now} - {now}:
                    if value > 0:
                        put(end, f"{end}{value}")
    else:
        for a2a in A2A:
            put("a2a", "a2a:" + a2a)
        for runner in RUNNERS:
            put("run", "run:" + runner)
        for mode in ("dm:normal", "dm:low_latency"):
            put("dm", mode)
        put("g", "g:off")
        for chunk in (1, 2, 4, 8, 16, 32):
            put("ck", f"ck{256 * chunk}")
        for r in (1, 2, 4, 8, 16):
            put("r", f"r{r}")
    if plan.get("lay"):
        counts = plan["lay"][4:].split("-")
        for i in range(min(len(counts), 6)):
            for step in (-1, 1):
                if "x" not in counts[i] and int(counts[i]) + step > 0:
                    put("lay", "lay:" + "-".join(counts[:i] + [str(int(counts[i]) + step)] + counts[i + 1:]))
        put("lay", "lay:" + "-".join(counts[:-1])) if len(counts) > 1 else None
    return found
