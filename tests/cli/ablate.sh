# The ablation: 24 cells, monotone, flat on the local grid, moving where schedules differ.
. "$(dirname "$0")/libcli.sh"
local="--model small-moe-bench --cluster 2xrtx4090"

run 0 ablate $local --json
json "len(o['cells']) == 24 and o['flat'] and o['monotone']"
json "{c['level'] for c in o['cells']} == {'L1', 'L2', 'L3'} and {c['phase'] for c in o['cells']} == {'train', 'serve'}"
json "{c['constants'] for c in o['cells']} == {'factory', 'rtx4090'} and {c['max_violation'] for c in o['cells']} == {0, 0.2}"
json "all(c['score'] > 0 and c['plan'] for c in o['cells'])"
json "all((c['gain'] is None) == (c['level'] == 'L1') for c in o['cells'])"
run 0 ablate $local
says out "L3"
run 0 ablate $local --phase serve --max-violation 0 --json
json "len(o['cells']) == 6"
run 0 ablate --model kimi-k2 --cluster 256x8xh800 --phase train --ledger published --json
json "o['monotone'] and not o['flat'] and len(o['cells']) == 12"
json "all(c['gain'] > 0.01 for c in o['cells'] if c['level'] == 'L2')"
run 0 ablate --model deepseek-v2-lite --cluster 2xrtx4090 --phase train --json
json "all(c['plan'] is None and c['score'] is None for c in o['cells'])"
# With kernels L3 moves in serving; the H800 tax holds it where it was.
run 0 ablate --model deepseek-v2-lite --cluster 8xh800 --phase serve --autotune "$SOURCE_DIR/tests/data/autotune-h800-synthetic.json" --json
json "o['monotone'] and [c['gain'] > 0.1 for c in o['cells'] if c['level'] == 'L3'] == [True, True, False, False]"
json "all(bool(c['kernel']) == (c['level'] == 'L3' and c['constants'] == 'factory') for c in o['cells'])"
run 2 ablate --model nothing
lines err 1
finish
