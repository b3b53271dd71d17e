# Tiers 2 and 3 and the timeline, through the program.
. "$(dirname "$0")/libcli.sh"
base="--model deepseek-v2-lite --cluster 8xh800"
report="$SOURCE_DIR/tests/data/autotune-h800-synthetic.json"

# Tier 2: simulated figures beside the ranking, which stays the analytic one's.
run 0 search $base --phase train --space paper --json --top 12
json "o['timing_ms']['tier2'] > 0 and o['timing_ms']['tier3'] is not None"
json "sum(p['tier'] == 2 for p in o['plans']) == 10 and o['counts']['refined'] == 10"
json "all((p['simulated'] is not None) == (p['tier'] == 2) for p in o['plans'])"
json "all(p['throughput'] >= q['throughput'] for p, q in zip(o['plans'], o['plans'][1:]))"
json "all(p['attached_kernel'] is None and p['tried_kernel'] is None for p in o['plans'])"
json "all(p['better_schedule']['simulated'] > p['simulated'] for p in o['plans'] if p['better_schedule'])"
better=$(python3 -c 'import json,sys; print("\n".join(p["better_schedule"]["plan"] for p in json.load(open(sys.argv[1]))["plans"] if p["better_schedule"]))' "$work/out")
for plan in $better; do
	run 0 check $base --phase train --plan "$plan"
done
run 0 search $base --phase train --space paper --top 3
says out "simulated"

# Tier 3: no tax attaches all, the H800 serving tax none; margins in percentage points.
run 0 search $base --phase serve --space paper --autotune "$report" --json --top 5
json "[p['attached_kernel']['attached'] for p in o['plans']] == [True] * 5 and o['autotune_synthetic']"
json "all(abs(p['attached_kernel']['margin_pp'] - 100 * p['attached_kernel']['gain']) < 1e-3 for p in o['plans'])"
run 0 search $base --phase serve --space paper --autotune "$report" --overlay h800 --json --top 5
json "all(p['attached_kernel'] is None and p['tried_kernel']['margin_pp'] < 0 for p in o['plans'])"
json "all(abs(p['tried_kernel']['tax'] - 1.236) < 1e-6 for p in o['plans'])"
run 0 search $base --phase serve --space paper --autotune "$report" --overlay h800 --top 5
says out "synthetic"
says out "margin"
run 0 search $base --phase train --space paper --autotune "$report" --overlay h800 --json --top 5
json "all(p['attached_kernel'] for p in o['plans'] if p['tried_kernel'])"
run 2 search --model deepseek-v2-lite --cluster 8xh100 --autotune "$report"
lines err 1
says err "H800"
printf '{"moefs_autotune": 1,\n"gpus": "H800"}\n' >"$work/bad.json"
run 2 search $base --autotune "$work/bad.json"
says err "bad.json:2: gpus"

# The timeline, drawn and as JSON.
run 0 explain $base --phase train --plan tp1/pp1/ep8/1f1b+ov --timeline
says out "exchange"
run 0 explain $base --phase train --plan tp1/pp1/ep8/1f1b+ov --timeline --json
json "o['step_ms'] > 0 and o['simulated'] > 0 and o['layers'] and o['step']"
json "all(b['end_ms'] > b['start_ms'] for b in o['layers'] + o['step'])"
json "set(o['layers'][0]) == {'stream', 'label', 'start_ms', 'end_ms', 'stage', 'chunk', 'micro_batch', 'backward'}"
run 2 explain $base --phase serve --plan tp1/pp1/ep4 --timeline
finish
