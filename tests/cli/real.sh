#!/bin/bash
# moefs check --real and search --real against an interpreter that plays the toolchain: nothing needs to be installed.
. "$(dirname "$0")/libcli.sh"
fake=$SOURCE_DIR/tests/cli/fake/python
good=(check --plan tp1/pp1/ep8/1f1b --cluster 8xh800 --ledger published --real --real-python "$fake")
refused=(check --plan tp1/pp2/ep4/1f1b --cluster 8xh800 --ledger published --real --real-python "$fake")
unset MOEFS_PYTHON VIRTUAL_ENV
export TMPDIR=$work/tmp
mkdir -p "$TMPDIR"

# ---- verdicts: agreement is the same answer on both sides ---------------------------------------------------------------
FAKE=accept run 0 "${good[@]}"
says out "the real megatron-core 0.18.0: accepts it"
says out "verdicts agree"
FAKE=accept run 0 "${good[@]}" --json
json 'o["real"]["ran"] is True and o["real"]["agrees"] is True and o["real"]["message"] is None'
json 'o["real"]["version"] == "0.18.0" == o["real"]["version_asked"] and o["real"]["stand_ins"] == ["torch", "triton"]'
FAKE=refuse run 1 "${good[@]}" --json
json 'o["verdict"] == "buildable" and o["real"]["agrees"] is False and o["real"]["stage"] == "cfg"'
json 'o["real"]["message"] == "no \"such\" plan\nsecond line" and o["real"]["exception"] == "AssertionError"'
FAKE=refuse run 1 "${refused[@]}" --json
json 'o["verdict"] == "rejected" and o["real"]["agrees"] is True'
FAKE=accept run 1 "${refused[@]}" --json
json 'o["real"]["agrees"] is False and o["real"]["accepted"] is True'
FAKE=rewrite run 1 "${good[@]}"
says out "would run ep_size: 2 -> 8"
says out "verdicts DISAGREE"
# A plan that memory alone refuses is a command that the toolchain takes.
FAKE=accept run 1 check --plan tp1/pp1/ep8/1f1b/mb8 --model deepseek-v3 --cluster 8xh100 --real --real-python "$fake" --json
json 'o["rule"] == "memory" and o["real"]["agrees"] is True and "memory" in o["real"]["note"]'
# No words for the plan: nothing is asked.
FAKE=accept run 1 check --plan tp1/pp2/ep4/dualpipe --cluster 8xh800 --real --real-python "$fake" --json
json 'o["real"]["ran"] is False and o["real"]["agrees"] is None and "no words" in o["real"]["note"]'
FAKE=unsure run 0 "${good[@]}" --json
json 'o["real"]["ran"] is False and o["real"]["agrees"] is None'
# Without --real nothing is started, and the keys stand all the same.
run 0 check --plan tp1/pp1/ep8/1f1b --cluster 8xh800 --ledger published --real-python /nowhere --json
json 'o["real"]["ran"] is False and o["real"]["agrees"] is None and o["real"]["message"] is None'

# ---- versions -------------------------------------------------------------------------------------------------------
FAKE=other run 0 "${good[@]}"
says out "megatron-core 0.17.1 is installed, the verdict is about 0.18.0"
FAKE=other run 0 "${good[@]}" --toolchain all --json
json '[v["real"]["ran"] for v in o] == [v["toolchain"] == "megatron-0.17.1" for v in o]'

# ---- what is missing: one line, exit 3 ------------------------------------------------------------------------------------
FAKE=missing run 3 "${good[@]}"
says err "pip install megatron-core==0.18.0"
lines err 1
FAKE=missing run 3 "${good[@]}" --toolchain megatron-0.17.1
says err "pip install megatron-core==0.17.1"
FAKE=old run 3 "${good[@]}"
says err "pip wants Python 3.12 for it; an unpacked wheel runs on 3.11.2 too"
FAKE=broken run 3 "${good[@]}"
says err "ImportError: libcudart.so.12: cannot open (t.py:1)"
FAKE=dies run 3 "${good[@]}"
says err "this interpreter is broken"
run 3 check --plan tp1/pp1/ep8/1f1b --cluster 8xh800 --real --real-python /nowhere/python
says err "/nowhere/python cannot be run"
lines err 1
MOEFS_PYTHON=/nowhere/python run 3 check --plan tp1/pp1/ep8/1f1b --cluster 8xh800 --real
says err "/nowhere/python cannot be run"
# A virtual environment is named by its folder.
mkdir -p "$work/venv/bin"
ln -s "$fake" "$work/venv/bin/python"
VIRTUAL_ENV=$work/venv FAKE=accept run 0 check --plan tp1/pp1/ep8/1f1b --cluster 8xh800 --ledger published --real --json
json 'o["real"]["interpreter"].endswith("/venv/bin/python")'
FAKE=accept run 0 check --plan tp1/pp1/ep8/1f1b --cluster 8xh800 --ledger published --real --real-python "$work/venv"

# ---- a witness that fails is no verdict ------------------------------------------------------------------------------------
FAKE=garbage run 3 "${good[@]}"
says err "answered with something that is no verdict: Segmentation fault"
FAKE=noise run 3 "${good[@]}"
says err "no verdict: Collecting usage statistics"
FAKE=crash run 3 "${good[@]}"
says err "ended without an answer"
says err "Fatal Python error: out of luck"
FAKE=eof run 3 "${good[@]}"
says err "ended without an answer"
FAKE=stale run 3 "${good[@]}"
says err "answered another question"

# ---- SGLang gets a config.json, which goes away again ------------------------------------------------------------------------
FAKE=config run 0 check --phase serve --model qwen3-30b-a3b --cluster 8xh100 --plan tp2/pp1/ep2/run:triton --real --real-python "$fake" --json
json 'o["real"]["message"].startswith("qwen3_moe ") and o["real"]["package"] == "sglang"'
if [ -z "$(ls -A "$TMPDIR")" ]; then ok; else bad "left behind: $(ls -A "$TMPDIR")"; fi

# ---- many plans -------------------------------------------------------------------------------------------------------
FAKE=accept run 1 search --cluster 8xh800 --top 1 --real 20 --real-python "$fake" --json
json 'o["real"]["asked"] == 20 and o["real"]["agree"] + o["real"]["disagree"] + o["real"]["undecided"] == 20'
json 'sum(p["verdict"] == "buildable" for p in o["real"]["plans"]) == 10'
# Refused ones of as many rules as there are, and in rank order.
json 'len({p["rule"] for p in o["real"]["plans"] if p["rule"]}) >= 5'
json '[p["rank"] for p in o["real"]["plans"]] == sorted(p["rank"] for p in o["real"]["plans"])'
FAKE=accept run 1 search --cluster 8xh800 --top 1 --real 20 --real-python "$fake"
says out "asked about 20 plans (10 buildable, 10 refused)"
says out "we refuse it, the toolchain accepts it"
FAKE=accept run 1 search --cluster 8xh800 --sample 30 --seed 7 --real 5 --real-python "$fake" --json
json 'o["real"]["asked"] == 5 and [p["rank"] for p in o["real"]["plans"]] == [1, 2, 3, 4, 5]'
FAKE=missing run 3 search --cluster 8xh800 --real 5 --real-python "$fake"
run 2 search --cluster 8xh800 --real 0
run 2 search --cluster 8xh800 --real 5 --emit jsonl
run 2 search --cluster 8xh800 --real 5 --constraint off

# ---- Ctrl-C: the witness goes, then the program, as by that signal ---------------------------------------------------------
mkfifo "$work/fifo"
for mode in hangs stubborn; do
	for signal in INT TERM; do
		FAKE=$mode FAKE_FIFO=$work/fifo env --default-signal=INT "$MOEFS" check --phase serve --model qwen3-30b-a3b \
			--cluster 8xh100 --plan tp2/pp1/ep2/run:triton --real --real-python "$fake" >/dev/null 2>&1 </dev/null &
		moefs=$!
		read -r witness <"$work/fifo"
		kill -s $signal $moefs
		wait $moefs
		code=$?
		if [ $code -eq $((128 + $(kill -l $signal))) ]; then ok; else bad "$mode, $signal: exit $code"; fi
		if [ -e "/proc/$witness" ] && ! grep -q '^State:.[ZX]' "/proc/$witness/status" 2>/dev/null; then
			bad "$mode, $signal: the witness is still there"
		else
			ok
		fi
	done
done
if [ -z "$(ls -A "$TMPDIR")" ]; then ok; else bad "left behind: $(ls -A "$TMPDIR")"; fi
finish
