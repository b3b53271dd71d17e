# Search, emit and check agree with each other and with the paper's orders.
. "$(dirname "$0")/libcli.sh"
base="--model deepseek-v2-lite --cluster 8xh800 --phase train"

run 0 search $base --json --top 3
json "[k for k in ('moefs','model','cluster','phase','space','toolchain','stack','overlay','ledger','constraint','counts','timing_ms','plans') if k not in o] == []"
json "sum(p['verdict'] == 'buildable' for p in o['plans']) == 3"
json "o['plans'][-1]['verdict'] == 'buildable'"
json "[p['rank'] for p in o['plans']] == list(range(1, len(o['plans']) + 1))"
json "all(p['reason'] for p in o['plans'] if p['verdict'] == 'rejected')"
json "all(p['throughput'] >= q['throughput'] for p, q in zip(o['plans'], o['plans'][1:]))"
json "o['counts']['scored'] + o['counts']['structural'] == o['counts']['enumerated']"
json "sum(r['count'] for r in o['counts']['by_reason']) == o['counts']['rejected_emit'] + o['counts']['rejected_memory']"

# The paper's orders: published ledger, no overlay.
run 0 search $base --space paper --ledger published --constraint off --json --top 5
json "o['plans'][0]['plan'] == 'tp1/pp1/ep8/dualpipe+ov'"
json "all(p['verdict'] == 'rejected' for p in o['plans'][:1])"
run 0 search $base --space paper --ledger published --json --top 1
json "o['plans'][-1]['plan'] == 'tp1/pp1/ep8/1f1b+ov'"

# The same answer for any thread count.
run 0 search $base --space default --json --top 50 --threads 1
python3 -c 'import json,sys; o=json.load(open(sys.argv[1])); o.pop("timing_ms"); print(json.dumps(o))' "$work/out" >"$work/one"
run 0 search $base --space default --json --top 50 --threads 3
python3 -c 'import json,sys; o=json.load(open(sys.argv[1])); o.pop("timing_ms"); print(json.dumps(o))' "$work/out" >"$work/three"
cmp -s "$work/one" "$work/three" && ok || bad "1 and 3 threads differ"

# A refusal, verbatim, and its exit code.
run 1 check --plan tp1/pp1/ep8/dualpipe+ov $base
says out "DualPipe"
run 1 check --plan tp1/pp1/ep8/dualpipe+ov $base --json
json "o['kind'] == 'not_implemented' and o['boundary'] == 'B1' and o['verdict'] == 'rejected'"
run 1 check --plan tp1/pp2/ep4/1f1b $base --ledger published --json
json "o['kind'] == 'invalid_value' and o['rule'] == 'mcore.P1'"
run 0 check --plan tp1/pp1/ep8/1f1b+ov $base --ledger published
run 2 check --plan tp1/pq1 $base
lines err 1

# The hash of an emitted command is the one the search prints.
run 0 search $base --space paper --ledger published --json --top 1
hash=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["plans"][-1]["argv_sha256"])' "$work/out")
run 0 emit --plan tp1/pp1/ep8/1f1b+ov $base --ledger published --format json
json "o['argv_sha256'] == '$hash' and o['argv'][0] == 'torchrun'"
run 1 emit --plan tp1/pp1/ep8/dualpipe+ov $base
says err "DualPipe"

# Export: whole or not at all, provenance beside it.
run 0 emit --plan tp1/pp1/ep8/1f1b+ov $base --ledger published --out "$work/cmd.sh"
bash -n "$work/cmd.sh" && ok || bad "the exported script is not bash"
[ -s "$work/cmd.sh.provenance.json" ] && ok || bad "no provenance"
run 2 emit --plan tp1/pp1/ep8/1f1b+ov $base --ledger published --out "$work/none/cmd.sh"
lines err 1
run 2 emit --plan tp1/pp1/ep8/1f1b+ov $base --ledger published --out "$work/cmd.xyz"

# A command read back is the plan it came from.
run 0 emit --plan tp1/pp1/ep8/1f1b+ov $base --ledger published --out "$work/cmd.json"
run 0 check --argv "$work/cmd.json" --ledger published --cluster 8xh800 --json
json "o['plan'] == 'tp1/pp1/ep8/1f1b+ov' and o['unread'] == []"
mapfile -d '' -t words < <("$MOEFS" emit --plan tp1/pp1/ep8/1f1b+ov $base --ledger published --format nul)
run 0 check --ledger published --cluster 8xh800 --json -- "${words[@]}"
json "o['plan'] == 'tp1/pp1/ep8/1f1b+ov'"

# JSON lines with commands of refused plans too.
run 0 search $base --emit jsonl --forced --sample 50 --seed 1
lines out 50
python3 - "$work/out" <<'PY' && ok || bad "jsonl lines lack keys"
import json, sys
for line in open(sys.argv[1]):
    o = json.loads(line)
    assert set(o) == {"plan", "verdict", "stage", "boundary", "rule", "reason", "world_size", "env", "argv"}, o
    assert o["verdict"] == "rejected" or o["argv"]
PY
cp "$work/out" "$work/first"
run 0 search $base --emit jsonl --forced --sample 50 --seed 1
cmp -s "$work/out" "$work/first" && ok || bad "the sample is not reproducible"

# Plans of a file, in its order; a bad one is named by its line.
printf 'tp1/pp1/ep8/1f1b\ntp3/pp1/ep1/1f1b\n' >"$work/plans"
run 0 search $base --emit jsonl --plans "$work/plans"
lines out 2
python3 - "$work/out" <<'PY' && ok || bad "plans of a file are judged wrongly"
import json, sys
first, second = [json.loads(line) for line in open(sys.argv[1])]
assert first["plan"] == "tp1/pp1/ep8/1f1b" and first["argv"]
assert second["rule"] == "mcore.W1" and second["argv"] is None
PY
printf 'tp1/pp1/ep8/1f1b\ntp1/what\n' >"$work/plans"
run 2 search $base --emit jsonl --plans "$work/plans"
run 2 search $base --plans "$work/plans"

# Serving: ep4 on eight GPUs in SGLang's two ways, and the paper's narrower reading noted.
serve="--model deepseek-v2-lite --cluster 8xh800 --phase serve"
run 0 check --plan tp1/pp1/ep4 $serve --json
json "o['verdict'] == 'buildable' and 'paper' in (o['note'] or '')"
run 0 emit --plan tp1/pp1/ep4 $serve --format json
json "'--enable-dp-attention' in o['argv'] and o['argv'][o['argv'].index('--tp-size') + 1] == '8'"
run 0 emit --plan tp4/pp1/ep4/rep2 $serve --format json
json "o['argv'][o['argv'].index('--dp-size') + 1] == '2' and '--enable-dp-attention' not in o['argv']"
run 0 search $serve --json --top 5
json "all(p['tpot_ms'] > 0 for p in o['plans'])"
finish
