# moefs calibrate: overlays from tables, bad tables by file and line, nothing half written.
. "$(dirname "$0")/libcli.sh"
tables=$SOURCE_DIR/tests/data/tables

run 0 calibrate --from "$tables"
says out "allgather"
says out "follows"
run 0 calibrate --from "$tables" --json
json "o['gpu'] == 'H200' and [c['curve'] for c in o['curves']] == ['allgather', 'reducescatter', 'alltoall']"
json "all(c['supported'] and c['median'] < .05 and c['held_out_rows'] > 5 for c in o['curves'])"
json "o['curves'][0]['domain']['ranks'] == [2, 8]"

# The overlay it writes is read back, and changes what it is about.
run 0 calibrate --from "$tables" --out "$work/o.yaml"
run 0 calibrate --from "$tables" --check --overlay "$work/o.yaml"
run 0 explain --model qwen3-30b-a3b --cluster 8xh200 --phase serve --plan tp8/pp1/ep8 --overlay "$work/o.yaml" --json
# On another GPU every plan is extrapolated.
run 0 explain --model qwen3-30b-a3b --cluster 8xh100 --phase serve --plan tp8/pp1/ep8 --overlay "$work/o.yaml" --json
json "o['extrapolated']"

run 2 calibrate
says err "needs --from DIR"
run 2 calibrate --from "$work"
says err "no table of operations here"
run 2 calibrate --from "$tables" --gpu h299
says err "no built-in cluster has this GPU"
run 2 calibrate --from "$tables" --check --out "$work/x.yaml"
run 2 calibrate --from "$tables" --out "$work/no/such/folder.yaml"
says err "no/such/folder.yaml"
lines err 1

# A bad row is named and left out; a broken table is refused and leaves the old overlay alone.
mkdir "$work/bad"
{
	cat "$tables/nccl_perf.csv"
	echo "all_gather,half,2,256,nan"
	echo "all_gather,half,2"
} >"$work/bad/nccl_perf.csv"
n=$(wc -l <"$work/bad/nccl_perf.csv")
run 0 calibrate --from "$work/bad"
says err "nccl_perf.csv:$((n - 1)): latency"
says err "nccl_perf.csv:$n: 3 columns where the header has 5"
echo "old" >"$work/kept.yaml"
sed 's/latency/latencies/' "$tables/nccl_perf.csv" >"$work/bad/nccl_perf.csv"
run 2 calibrate --from "$work/bad" --out "$work/kept.yaml"
says err "latency: missing"
[ "$(cat "$work/kept.yaml")" = old ] && ok || bad "the old overlay was touched"
ls "$work" | grep -q 'kept.yaml\.' && bad "a temporary file is left" || ok

# The measured tables themselves, where this machine has them.
silicon=${MOEFS_SILICON:-$SOURCE_DIR/../shared/reference/silicon}
if [ -d "$silicon/l40s" ]; then
	run 0 calibrate --from "$silicon/l40s" --json
	json "all(not c['supported'] for c in o['curves'] if c['curve'].startswith('pcie_'))"
	json "all(c['supported'] for c in o['curves'] if c['curve'].startswith('gemm_'))"
else
	echo "SKIPPED: no measured tables at $silicon (set MOEFS_SILICON); L40S collectives and the held-out errors are not checked" >&2
fi
finish
