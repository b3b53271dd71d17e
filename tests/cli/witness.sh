#!/bin/bash
# The Python side of --real without any toolchain: the loop, its protocol, and what it says when the package is missing.
. "$(dirname "$0")/libcli.sh"
witness=$SOURCE_DIR/job/witness
export PYTHONDONTWRITEBYTECODE=1

for name in megatron sglang; do
	python3 "$witness/witness_$name.py" --path "$work" </dev/null >"$work/out" 2>"$work/err"
	[ $? -eq 3 ] && ok || bad "witness_$name.py without its package: not exit 3"
	package=$name
	json 'o["hello"] is None and o["missing"] == "'$package'" and o["type"] == "ModuleNotFoundError"'
	python3 "$witness/witness_$name.py" --what 2>/dev/null </dev/null
	[ $? -eq 2 ] && ok || bad "witness_$name.py takes --what"
done

cat >"$work/loop.py" <<'PY'
"""A witness whose toolchain is a few lines: what it raises decides."""
import os
import sys

sys.path.insert(0, sys.argv.pop(1))
import standins
import worker


def toolchain(judgement, request):
    judgement.stage = "cfg"
    print("the toolchain talks")  # must not reach the protocol
    os.write(1, b"and so does its C code\n")
    judgement.resolved["sm"] = request.get("gpu", {}).get("sm")
    word = request["argv"][0]
    if word == "assert":
        assert False, "two\nlines"
    if word == "exit":
        print("usage: x\nerror: unrecognized arguments: --y", file=sys.stderr)
        raise SystemExit(2)
    if word == "hang":
        raise worker.Refusal("rank 3 is never started")
    if word == "bug":
        standins.module("made")
        sys.modules["made"].missing.__class__.__getattr__(standins.Any(), "__nothing__")


def load(folder, key=None):
    def judge(request):
        return worker.Judgement().verdict(lambda j: toolchain(j, request), "/nowhere")

    return {"toolchain": "few lines", "key": key, "pid": os.getpid()}, judge


keyed = sys.argv[1:2] == ["keyed"]
if keyed:
    del sys.argv[1]
sys.exit(worker.serve(load, (lambda r: r["gpu"]["sm"]) if keyed else None, 90))
PY
ask() { python3 "$work/loop.py" "$witness" "$@" >"$work/out" 2>"$work/err"; }
# lines_json EXPRESSION: a Python expression over the list `o` of lines is true.
lines_json() {
	if python3 -c 'import json,sys
o = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(0 if eval(sys.argv[2]) else 1)' "$work/out" "$1" 2>>"$work/err"; then ok; else bad "not true of the lines: $1"; fi
}
ask <<'IN'
{"id": 1, "argv": ["fine"]}
{"id": "two", "argv": ["assert"]}

{"id": 3, "argv": ["exit"]}
{"id": 4, "argv": ["hang"]}
{"id": 5, "argv": ["bug"]}
{"id": 6, "argv": null}
not json
[1]
{"id": 9, "argv": ["fine"]}
IN
[ $? -eq 0 ] && ok || bad "the loop did not end with its input"
lines_json 'o[0]["hello"]["toolchain"] == "few lines" and len(o) == 10'
lines_json 'o[1]["id"] == 1 and o[1]["stage"] == "ok" and o[1]["message"] is None'
lines_json 'o[2]["id"] == "two" and o[2]["stage"] == "cfg" and o[2]["type"] == "AssertionError" and o[2]["message"] == "two\nlines"'
lines_json 'o[3]["type"] == "SystemExit" and o[3]["message"] == "error: unrecognized arguments: --y"'
lines_json 'o[4]["type"] == "Hang" and o[4]["message"] == "rank 3 is never started"'
lines_json 'all(v["stage"] == "witness" for v in o[5:9]) and o[6]["id"] == 6 and o[7]["id"] is None'
lines_json 'o[9]["stage"] == "ok"'

# One process a device: verdicts in the order of the questions, each from the process of its device; all end.
ask keyed --sm 80 <<'IN'
{"id": 1, "argv": ["fine"], "gpu": {"sm": 90}}
{"id": 2, "argv": ["fine"], "gpu": {"sm": 80}}
{"id": 3, "argv": ["assert"], "gpu": {"sm": 90}}
{"id": 4, "argv": ["fine"]}
IN
[ $? -eq 0 ] && ok || bad "the processes did not end with their input"
lines_json '[v.get("id") for v in o] == [None, 1, 2, 3, 4] and o[0]["hello"]["key"] == 80'
lines_json '[v["resolved"]["sm"] for v in o[1:4]] == [90, 80, 90] and o[3]["stage"] == "cfg"'

if python3 - "$witness" <<'PY' 2>"$work/err"; then ok; else bad "what is a command's program and what its flags"; fi
import sys

sys.path.insert(0, sys.argv[1])
import worker

megatron, sglang = (".py",), ("launch_server", "launch_server.py", "serve")
flags = worker.flags_of
assert flags("torchrun --nnodes 1 pretrain_gpt.py --seed 1 --load x.py".split(), megatron) == "--seed 1 --load x.py".split()
assert flags("python3 -m sglang.launch_server --tp 2".split(), sglang) == ["--tp", "2"]
assert flags("sglang serve --tp 2 --host serve".split(), sglang) == "--tp 2 --host serve".split()
assert flags("--tp 2".split(), sglang) == ["--tp", "2"]
PY
finish
