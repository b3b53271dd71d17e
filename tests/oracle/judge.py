"""Compares our verdict with the toolchain's, case by case."""

# What job/witness reaches of SGLang: no model is built. A deeper witness reaches all stages but those under UNSEEN.
SGLANG_REACHED = {"parse", "post-init", "pre-launch", "launcher", "dist-init"}

# What the Megatron witness reaches. Later stages (build of modules, wrap, sched, fwd) need a GPU: there it must say ok.
MEGATRON_REACHED = {"argparse", "parse", "batch", "optcfg", "pg", "cfg"}
MEGATRON_REACHED_RULES = {"mcore.P9", "mcore.P10"}
# About packages that the witness replaces by stand-ins: there it cannot know.
MEGATRON_PACKAGES = {"mcore.O10", "mcore.M16", "mcore.M17", "mcore.M37", "mcore.F9"}
MEGATRON_STAGES = {"calc": "batch", "optddp": "optcfg", "cfg-in-pg": "cfg"}

# Stages in SGLang's order; ours have the notes' spelling.
SGLANG_STAGES = {"model build": "model-build", "buffer creation": "request", "first request": "request", "layout": "dist-init"}
# Not run by the witness: compiled DeepEP code, hangs, wrong results.
SGLANG_UNSEEN = {"sglang.X19", "sglang.X20", "sglang.E20", "sglang.E21", "sglang.M20", "sglang.D13", "sglang.C22", "sglang.M23"}
# Read in the source: attributes missing at the first token.
SGLANG_READ = ("'Fp8MoEMethod' object", "'Mxfp4MoEMethod' object", "'DeepEPNormalDispatchOutput' object", "'DeepEPLLDispatchOutput' object")

# Outcomes. The first four are agreement.
ACCEPTED, REFUSED, UNREACHED, OURS = "accepted by both", "refused by both", "past the witness", "ours alone"
FALSE_ACCEPT, FALSE_REJECT, REASON, REWRITE = "false accept", "false reject", "another reason", "rewrite unnoticed"
AGREED = (ACCEPTED, REFUSED, UNREACHED, OURS)


def accepts(plan):
    """A plan that only memory rejects was accepted by the emitter."""
    return plan["verdict"] == "buildable" or plan["rule"] == "memory"


# Arguments that the toolchain changes as everybody expects: a chunk is a rank's share under attention DP.
EXPECTED = {"chunked_prefill_size"}


def changes(rewritten):
    """Arguments that came out as another value, spelling apart."""
    def plain(value):
        return str(value).replace("torch.", "").replace("bfloat16", "bf16").replace("float32", "fp32")

    return [f"{name} {before} became {after}" for name, (before, after) in (rewritten or {}).items()
            if name not in EXPECTED and plain(before) != plain(after)]


def squeezed(text):
    return " ".join((text or "").split())


def megatron(plan, answer):
    rule = plan["rule"] or ""
    stage = MEGATRON_STAGES.get(answer["stage"], answer["stage"])
    refused = stage != "ok"
    if plan["stage"] == "emit" or rule.startswith(("plan.", "model.")) or rule in MEGATRON_PACKAGES:
        return OURS, ""
    changed = changes((answer.get("resolved") or {}).get("rewritten"))
    if accepts(plan):
        if refused:
            return FALSE_ACCEPT, ""
        return (REWRITE, "; ".join(changed)) if changed else (ACCEPTED, "")
    expected = plan["stage"] in MEGATRON_REACHED or rule in MEGATRON_REACHED_RULES
    if not expected:
        return (REASON, "the toolchain refuses earlier") if refused else (UNREACHED, "")
    if not refused:
        return FALSE_REJECT, ""
    if stage != plan["stage"]:
        return REASON, "another stage"
    if not squeezed(plan["reason"]).startswith(squeezed(answer["message"])[:80]):
        return REASON, "another message"
    return REFUSED, ""


def value(argv, flag, default):
    return argv[argv.index(flag) + 1] if flag in argv else default


def sglang_rewritten(argv, resolved):
    """What SGLang made of an accepted command, where it differs from what was asked."""
    found = []
    if "rewritten" in resolved:
        found = changes(resolved["rewritten"])
        resolved = {**resolved, "dpa": resolved["dp_attention"]}
    sizes = {"--tp-size": "tp", "--pp-size": "pp", "--dp-size": "dp", "--ep-size": "ep", "--moe-dp-size": "moe_dp",
             "--attn-cp-size": "cp"}
    for flag, key in sizes.items():
        if int(value(argv, flag, 1)) != resolved[key]:
            found.append(f"{flag} {value(argv, flag, 1)} became {resolved[key]}")
    if ("--enable-dp-attention" in argv) != resolved["dpa"]:
        found.append(f"attention DP became {resolved['dpa']}")
    if value(argv, "--moe-a2a-backend", "none") != resolved["a2a"]:
        found.append(f"a2a became {resolved['a2a']}")
    runner = value(argv, "--moe-runner-backend", "auto")
    if runner not in ("auto", resolved["runner"]):
        found.append(f"runner {runner} became {resolved['runner']}")
    built = resolved.get("moe")
    if runner != "auto" and built and built[2] not in (None, runner):
        found.append(f"runner {runner} was built as {built[2]}")
    off = "--cuda-graph-backend-decode" in argv
    if "graph_decode" in resolved and off != ("DISABLED" in resolved["graph_decode"].upper()):
        found.append(f"decode graphs became {resolved['graph_decode']}")
    chunk = value(argv, "--chunked-prefill-size", None)
    if chunk and int(chunk) // (resolved["dp"] if resolved["dpa"] else 1) != resolved["chunk"]:
        found.append(f"chunk {chunk} became {resolved['chunk']}")
    return "; ".join(found)


def sglang(plan, answer, shallow):
    rule, reason = plan["rule"] or "", plan["reason"] or ""
    stage = "dist-init" if answer.get("type") == "Hang" else SGLANG_STAGES.get(answer["stage"], answer["stage"])
    refused = stage != "ok"
    if accepts(plan):
        if "operations_strategy" in str(answer.get("where")) and answer["type"] == "IndexError":
            return UNREACHED, "a stage without experts, which the model's own code does not ask for its overlap"
        if refused:
            return FALSE_ACCEPT, ""
        change = sglang_rewritten(plan["argv"], answer["resolved"])
        return (REWRITE, change) if change else (ACCEPTED, "")
    if plan["stage"] == "emit":
        return OURS, ""
    if shallow and plan["stage"] not in SGLANG_REACHED or rule in SGLANG_UNSEEN or reason.startswith(SGLANG_READ):
        if refused and (stage == "request" and plan["stage"] == "first request" or rule == "sglang.M23"):
            return REFUSED, ""  # of two things that the first request meets the witness sees one; it loads no weights
        return (REASON, "the toolchain refuses earlier") if refused else (UNREACHED, "")
    if reason.startswith("SGLang would") and not refused:  # a rewrite that we announce must be seen
        if shallow and "CUDA graphs" in reason:
            return UNREACHED, ""
        ignored = "two-batch" in reason and answer["resolved"].get("tbo_called") is False
        return (REFUSED, "") if ignored or sglang_rewritten(plan["argv"], answer["resolved"]) else (FALSE_REJECT, "no rewrite")
    if reason.startswith("SGLang would"):  # it became another plan, which is refused
        return REFUSED, ""
    if not refused:
        return FALSE_REJECT, ""
    if rule == "sglang.K16" and stage in ("graph", "request"):
        return REFUSED, ""  # the witness walks the first pipeline stage to its end before it looks at the last
    if stage != SGLANG_STAGES.get(plan["stage"], plan["stage"]):
        return REASON, "another stage"
    if stage not in ("dist-init", "request") and squeezed(answer["message"])[:150] != squeezed(reason)[:150]:
        return REASON, "another message"
    return REFUSED, ""


def outcome(toolchain, plan, answer, shallow):
    """`shallow`: the witness builds no model."""
    return megatron(plan, answer) if toolchain.startswith("megatron") else sglang(plan, answer, shallow)
