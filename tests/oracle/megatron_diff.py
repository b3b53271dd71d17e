#!/usr/bin/env python3
"""Asks the real Megatron argument and config checks about plans and compares them with our verdicts.

    megatron_diff.py --package FOLDER --witness FOLDER [--python PYTHON] [--moefs BIN --sample N --seed S ARGS... | --plans FILE]

FOLDER of --package holds the package `megatron` (0.18.0 unless --toolchain says otherwise), FOLDER of --witness holds
witness_megatron.py, which runs that package on a CPU with stand-ins for its heavy needs. Plans come from
`moefs search --emit jsonl --forced` (further arguments are passed on) or from a file of such lines. Nothing is installed.

Exit 0: no disagreement. A disagreement is a false accept, a false reject, or another message.
"""
import argparse
import collections
import json
import os
import subprocess
import sys

# What the witness reaches. Later stages (build of modules, wrap, sched, fwd) need a GPU: there it must say ok.
REACHED = {"argparse", "parse", "batch", "optcfg", "pg", "cfg"}
REACHED_RULES = {"mcore.P9", "mcore.P10"}
# About packages that the witness replaces by stand-ins: there it cannot know.
PACKAGES = {"mcore.O10", "mcore.M16", "mcore.M17", "mcore.M37", "mcore.F9"}
WITNESS_STAGES = {"calc": "batch", "optddp": "optcfg", "cfg-in-pg": "cfg"}


def ours(options, rest):
    if options.plans:
        with open(options.plans, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
    command = [options.moefs, "search", "--phase", "train", "--emit", "jsonl", "--forced", "--sample", str(options.sample),
               "--seed", str(options.seed)] + rest
    return [json.loads(line) for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()]


def witnessed(options, plans):
    """Verdicts by plan index; plans without words have none."""
    asked = "".join(json.dumps({"id": i, "argv": p["argv"], "world_size": p["world_size"], "env": p["env"]}) + "\n"
                    for i, p in enumerate(plans) if p["argv"] is not None)
    done = subprocess.run([options.python, os.path.join(options.witness, "witness_megatron.py")], input=asked,
                          capture_output=True, text=True, env={**os.environ, "MLM": options.package})
    answers = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            answer = json.loads(line)
            answers[answer["id"]] = answer
    if not answers and asked:
        sys.exit("the witness gave no answer:\n" + done.stderr)
    return answers


def disagreement(plan, answer):
    """What is wrong between our line and the witness's, or None."""
    stage = WITNESS_STAGES.get(answer["stage"], answer["stage"])
    refused = stage != "ok"
    # A plan that only memory rejects was accepted by the emitter.
    accepted = plan["verdict"] == "buildable" or plan.get("rule") == "memory"
    expected = not accepted and (plan.get("stage") in REACHED or plan.get("rule") in REACHED_RULES)
    if plan.get("stage") == "emit" or plan.get("rule") in PACKAGES or (plan.get("rule") or "").startswith("plan."):
        return None  # ours alone: the toolchain would run something else, or was never asked
    if refused and not expected:
        return "false accept" if accepted else "later reason"
    if expected and not refused:
        return "false reject"
    if expected:
        if stage != plan["stage"]:
            return "another stage"
        theirs = " ".join((answer["message"] or "").split())
        if not " ".join(plan["reason"].split()).startswith(theirs[:80]):
            return "another message"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", required=True)
    parser.add_argument("--witness", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--moefs", default="build/release/moefs")
    parser.add_argument("--plans")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options, rest = parser.parse_known_args()
    plans = ours(options, rest)
    answers = witnessed(options, plans)
    counts = collections.Counter()
    bad = 0
    for i, plan in enumerate(plans):
        if i not in answers:
            counts["without words" if plan["argv"] is None else "no answer"] += 1
            bad += plan["argv"] is not None
            continue
        wrong = disagreement(plan, answers[i])
        if wrong is None:
            counts["agreed: " + (plan.get("rule") or "accepted")] += 1
            continue
        counts[wrong] += 1
        bad += 1
        print(f"{wrong}: {plan['plan']} ({plan.get('model', '')}, world {plan['world_size']})\n"
              f"  ours:   {plan['verdict']} {plan.get('stage')} {plan.get('rule')}: {plan.get('reason')}\n"
              f"  theirs: {answers[i]['stage']} {answers[i]['type']}: {answers[i]['message']} ({answers[i]['where']})")
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    print(f"{len(plans)} plans, {len(answers)} asked, {bad} disagreements")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
