# moefs score: forms of the answer, bad files, the picture.
. "$(dirname "$0")/libcli.sh"
data=$SOURCE_DIR/tests/data/measured.csv
rows=$(($(python3 -c 'import csv, sys; print(sum(1 for _ in csv.reader(open(sys.argv[1]))))' "$data") - 1))

run 2 score
says err "--measured"
lines err 1
run 2 score --measured "$work/none.csv"
lines err 1
printf 'id,kind\n' >"$work/bad.csv"
run 2 score --measured "$work/bad.csv"
says err "bad.csv:1: model"
lines err 1
run 2 score --measured "$data" --kind speed
says err "train, serve, memory"
run 2 score --measured "$data" --json --markdown
run 0 score --measured "$data" --json
json "set(o['kinds']) == {'train','serve','memory','kernel','comm'}"
json "all(k in v for v in o['kinds'].values() for k in 'rows covered coverage median_abs_log p90_abs_log bias_log kendall median_regret p90_regret oom_recall fit_recall'.split())"
json "sum(o[p][k]['rows'] for p in ('kinds','outside') for k in o[p]) == $rows"
json "all(sum(r['count'] for r in v['not_covered']) == v['rows'] - v['covered'] for p in ('kinds','outside') for v in o[p].values())"
json "all(k in s for s in o['sets'] for k in ('model','gpu','n_gpus','release','rows'))"
cp "$work/out" "$work/first"
run 0 score --measured "$data" --json
cmp -s "$work/out" "$work/first" && ok || bad "two runs differ"
run 0 score --measured "$data" --kind memory --markdown --svg "$work/s.svg"
says out "| memory |"
python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$work/s.svg" && ok || bad "the picture is no XML"
run 0 score --measured "$data" --rows
lines out $((rows + 1))
run 2 score --measured "$data" --svg "$work/no/such/folder.svg"
lines err 1
finish
