#!/usr/bin/env python3
"""Compares our verdicts on SGLang plans with the witness, plan by plan.

usage: sglang_diff.py WITNESS PACKAGE CONFIG [--sm N] [--gpu-gb G] < LINES
WITNESS   the script that runs SGLang's own validation on a CPU, PACKAGE the folder that holds the package `sglang`,
CONFIG    the model's config.json, LINES the output of `moefs search --phase serve --emit jsonl --forced --sample N`.
Needs a Python that the package supports. Prints one line a disagreement and the counts by rule; exit 1 on any.
"""
import collections, json, os, shutil, subprocess, sys, tempfile

args = [a for a in sys.argv[1:] if not a.startswith("--")]
def option(name, default):
    return type(default)(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default
for name in ("--sm", "--gpu-gb"):
    if name in sys.argv:
        args.remove(sys.argv[sys.argv.index(name) + 1])
witness, package, config = args
sm, gpu_gb = option("--sm", 90), option("--gpu-gb", 80)

plans = [json.loads(line) for line in sys.stdin]
spoken = [p for p in plans if p["argv"]]
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(config, os.path.join(folder, "config.json"))
    lines = []
    for i, p in enumerate(spoken):
        argv = list(p["argv"])
        argv[argv.index("--model-path") + 1] = folder
        lines.append(json.dumps({"id": i, "argv": argv, "world_size": p["world_size"], "env": p["env"],
                                 "model_dir": folder, "gpu": {"sm": sm, "mem_gb": gpu_gb}}))
    out = subprocess.run([sys.executable, witness], input="\n".join(lines) + "\n", text=True, capture_output=True,
                         env=dict(os.environ, SGL=package))
verdicts = [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]
if len(verdicts) != len(spoken):
    sys.exit(f"the witness answered {len(verdicts)} of {len(spoken)} plans: {out.stderr[-2000:]}")
# Stages the witness does not run: kernels, weight loading, forward passes; and the memory gate, which is ours.
beyond = {"first request", "buffer creation", "serving", "memory"}
counts, bad = collections.Counter(), 0
for p, v in zip(spoken, verdicts):
    stage = str(v.get("stage", ""))
    ok = stage == "ok" or v.get("ok") is True
    refused = p["verdict"] == "rejected"
    if refused and (p["stage"] in beyond or (p["reason"] or "").startswith("SGLang would")):
        counts["beyond the witness: " + (p["rule"] or "memory")] += 1
    elif refused == (not ok):
        counts["agree: " + (p["rule"] or "buildable")] += 1
    else:
        bad += 1
        kind = "false reject" if refused else "false accept"
        counts[kind + ": " + (p["rule"] or stage)] += 1
        print(kind, p["plan"], "| ours:", p["rule"], p["reason"], "| theirs:", stage, v.get("type"), str(v.get("message"))[:200])
for name, n in sorted(counts.items()):
    print(f"{n:6}  {name}")
print(f"{len(spoken)} plans judged, {len(plans) - len(spoken)} without words, {bad} disagreements")
sys.exit(1 if bad else 0)
