#!/usr/bin/env python3
"""Asks the real SGLang argument, launch and model-build checks about plans and compares them with our verdicts.

    sglang_diff.py --package FOLDER --witness FOLDER --config CONFIG.json [--config ...] [--python PYTHON]
                   [--moefs BIN --cluster NAME --sample N --seed S ARGS... | --plans FILE]

FOLDER of --package holds the package `sglang` (0.5.15), FOLDER of --witness holds witness_sglang.py, which runs that
package on a CPU with stand-ins for its heavy needs. For every CONFIG.json (a model's config.json, any file name) plans
come from `moefs search --phase serve --emit jsonl --forced --sample N` (further arguments are passed on), or from a file
of such lines. Nothing is installed.

Exit 0: no disagreement. A disagreement is a false accept, a false reject, another stage, or a silent rewrite unnoticed.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

# Card memory as SGLang's heuristics see it, and compute capability.
GPUS = {"8xh800": (90, 79.1), "8xh100": (90, 79.1), "8xh200": (90, 139.8), "8xb200": (100, 178.0), "8xa100": (80, 79.1),
        "8xh20": (90, 95.0), "2xrtx4090": (89, 23.5), "8xl40s": (89, 44.4)}
# Stages in SGLang's order; ours have the notes' spelling.
STAGES = {"model build": "model-build", "buffer creation": "request", "first request": "request", "layout": "dist-init"}
# Not run by the witness: compiled DeepEP code, hangs, wrong results.
UNSEEN = {"sglang.X19", "sglang.X20", "sglang.E20", "sglang.E21"}
# Ours by reading: attributes missing at the first token.
READ = ("'Fp8MoEMethod' object", "'DeepEPNormalDispatchOutput' object", "'DeepEPLLDispatchOutput' object")
# Ours alone: memory, and plans without words.
OURS = ("memory gate", "emit")


def ours(options, config, rest):
    command = [options.moefs, "search", "--model", config, "--phase", "serve", "--cluster", options.cluster, "--emit", "jsonl",
               "--forced", "--sample", str(options.sample), "--seed", str(options.seed)] + rest
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(" ".join(command) + "\n" + done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def witnessed(options, folder, plans):
    """Verdicts by plan index; plans without words have none."""
    sm, memory = GPUS[options.cluster.split("x", 1)[1] if options.cluster.count("x") > 1 else options.cluster]
    # Plenty of free memory: the memory gate is not what is compared here.
    gpu = {"sm": sm, "mem_gb": memory, "free_gb": 1e6}
    asked = "".join(json.dumps({"id": i, "argv": p["argv"], "env": p["env"], "model_dir": folder, "gpu": gpu}) + "\n"
                    for i, p in enumerate(plans) if p["argv"])
    done = subprocess.run([options.python, os.path.join(options.witness, "witness_sglang.py")], input=asked,
                          capture_output=True, text=True, env={**os.environ, "SGL": options.package})
    answers = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            answer = json.loads(line)
            answers[answer["id"]] = answer
    if not answers and asked:
        sys.exit("the witness gave no answer:\n" + done.stderr)
    return answers


def thinned(options, plans):
    """A sample of a wide space is refused for few reasons: some of each are enough."""
    taken = collections.Counter()
    kept = []
    for plan in plans:
        why = (plan["rule"], plan["reason"].rstrip("0123456789") if plan["stage"] == "memory gate" else plan["reason"])
        why = "accepted" if plan["verdict"] == "buildable" or plan["stage"] == "memory gate" else why
        taken[why] += 1
        if taken[why] <= (options.accepted if why == "accepted" else options.per_rule):
            kept.append(plan)
    return kept


def value(argv, flag, default):
    return argv[argv.index(flag) + 1] if flag in argv else default


def rewritten(argv, resolved):
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


def disagreement(plan, answer):
    """What is wrong between our line and the witness's, or None."""
    plan["reason"] = plan["reason"] or ""
    stage = STAGES.get(answer["stage"], answer["stage"])
    refused = stage != "ok"
    if plan["stage"] in OURS and plan["verdict"] != "buildable" and not (plan["stage"] == "memory gate" and refused):
        return None
    if plan["verdict"] == "buildable" or plan["stage"] == "memory gate":
        if refused:
            return "false accept"
        change = rewritten(plan["argv"], answer["resolved"])
        return "rewrite unnoticed: " + change if change else None
    if plan["rule"] in UNSEEN or plan["reason"].startswith(READ):
        return None
    if not refused:
        # A rewrite must be visible in what SGLang resolved; these are not.
        return None if plan["reason"].startswith("SGLang would") else "false reject"
    if plan["reason"].startswith("SGLang would"):
        return None
    if stage != STAGES.get(plan["stage"], plan["stage"]):
        return "another stage"
    theirs = " ".join((answer["message"] or "").split())
    mine = " ".join(plan["reason"].split())
    if not stage == "dist-init" and theirs[:150] != mine[:150]:
        return "another message"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", required=True)
    parser.add_argument("--witness", required=True)
    parser.add_argument("--config", action="append", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--moefs", default="build/release/moefs")
    parser.add_argument("--cluster", default="8xh800")
    parser.add_argument("--plans")
    parser.add_argument("--sample", type=int, default=3000)
    parser.add_argument("--per-rule", type=int, default=8, help="plans of one rule that are asked about, for a model")
    parser.add_argument("--accepted", type=int, default=60, help="accepted plans that are asked about, for a model")
    parser.add_argument("--seed", type=int, default=1)
    options, rest = parser.parse_known_args()
    counts = collections.Counter()
    total = asked = bad = 0
    for config in options.config:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copyfile(config, os.path.join(folder, "config.json"))
            if options.plans:
                with open(options.plans, encoding="utf-8") as lines:
                    plans = [json.loads(line) for line in lines]
            else:
                plans = ours(options, os.path.join(folder, "config.json"), rest)
            plans = thinned(options, plans)
            answers = witnessed(options, folder, plans)
        total += len(plans)
        asked += len(answers)
        for i, plan in enumerate(plans):
            if i not in answers:
                counts["no answer" if plan["argv"] else "without words"] += 1
                bad += bool(plan["argv"])
                continue
            wrong = disagreement(plan, answers[i])
            if wrong is None:
                counts["agreed: " + (plan["rule"] or "accepted")] += 1
                continue
            counts[wrong.split(":")[0]] += 1
            bad += 1
            theirs = answers[i]
            print(f"{wrong}: {plan['plan']} ({os.path.basename(config)}, world {plan['world_size']})\n"
                  f"  ours:   {plan['verdict']} {plan['stage']} {plan['rule']}: {plan['reason']}\n"
                  f"  theirs: {theirs['stage']} {theirs.get('type')}: {theirs.get('message')} ({theirs.get('where')})")
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    print(f"{total} plans, {asked} asked, {bad} disagreements")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
