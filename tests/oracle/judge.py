"""Compares our verdict with the toolchain's, case by case."""

# What the Megatron witness reaches. Later stages (build of modules, wrap, sched, fwd) need a GPU: there it must say ok.
MEGATRON_REACHED = {"argparse", "parse", "batch", "optcfg", "pg", "cfg"}
MEGATRON_REACHED_RULES = {"mcore.P9", "mcore.P10"}
# About packages that the witness replaces by stand-ins: there it cannot know.
MEGATRON_PACKAGES = {"mcore.O10", "mcore.M16", "mcore.M17", "mcore.M37", "mcore.F9"}
MEGATRON_STAGES = {"calc": "batch", "optddp": "optcfg", "cfg-in-pg": "cfg"}

# Stages in SGLang's order; ours have the notes' spelling.
SGLANG_STAGES = {"model build": "model-build", "buffer creation": "request", "first request": "request", "layout": "dist-init"}
# Not run by the witness: compiled DeepEP code, hangs, wrong results.
SGLANG_UNSEEN = {"sglang.X19", "sglang.X20", "sglang.E20", "sglang.E21", "sglang.M20", "sglang.D13", "sglang.C22"}
# Read in the source: attributes missing at the first token.
SGLANG_READ = ("'Fp8MoEMethod' object", "'DeepEPNormalDispatchOutput' object", "'DeepEPLLDispatchOutput' object")

# Outcomes. The first four are agreement.
ACCEPTED, REFUSED, UNREACHED, OURS = "accepted by both", "refused by both", "past the witness", "ours alone"
FALSE_ACCEPT, FALSE_REJECT, REASON, REWRITE = "false accept", "false reject", "another reason", "rewrite unnoticed"
AGREED = (ACCEPTED, REFUSED, UNREACHED, OURS)


def accepts(plan):
    """A plan that only memory rejects was accepted by the emitter."""
    return plan["verdict"] == "buildable" or plan["rule"] == "memory"


def squeezed(text):
    return " ".join((text or "").split())


def megatron(plan, answer):
    rule = plan["rule"] or ""
    stage = MEGATRON_STAGES.get(answer["stage"], answer["stage"])
    refused = stage != "ok"
    if plan["stage"] == "emit" or rule.startswith(("plan.", "model.")) or rule in MEGATRON_PACKAGES:
        return OURS, ""
    if accepts(plan):
        return (FALSE_ACCEPT, "") if refused else (ACCEPTED, "")
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
    if off != ("DISABLED" in resolved["graph_decode"].upper()):
        found.append(f"decode graphs became {resolved['graph_decode']}")
    chunk = value(argv, "--chunked-prefill-size", None)
    if chunk and int(chunk) // (resolved["dp"] if resolved["dpa"] else 1) != resolved["chunk"]:
        found.append(f"chunk {chunk} became {resolved['chunk']}")
    return "; ".join(found)


def sglang(plan, answer):
    rule, reason = plan["rule"] or "", plan["reason"] or ""
    stage = SGLANG_STAGES.get(answer["stage"], answer["stage"])
    refused = stage != "ok"
    if accepts(plan):
        if refused:
            return FALSE_ACCEPT, ""
        change = sglang_rewritten(plan["argv"], answer["resolved"])
        return (REWRITE, change) if change else (ACCEPTED, "")
    if plan["stage"] == "emit":
        return OURS, ""
    if rule in SGLANG_UNSEEN or reason.startswith(SGLANG_READ):
        return (REASON, "the toolchain refuses earlier") if refused else (UNREACHED, "")
    if reason.startswith("SGLang would") and not refused:  # a rewrite that we announce must be seen
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
    if stage != "dist-init" and squeezed(answer["message"])[:150] != squeezed(reason)[:150]:
        return REASON, "another message"
    return REFUSED, ""


def outcome(toolchain, plan, answer):
    return (megatron if toolchain.startswith("megatron") else sglang)(plan, answer)
