# Usage: help, unknown words, exit codes, one-line errors.
. "$(dirname "$0")/libcli.sh"

run 0 --help
says out "search"
run 0 help search
says out "--top N"
run 0 search --help
run 2 serch
says err "did you mean search?"
lines err 1
run 2 search --modle x
says err "did you mean --model?"
lines err 1
run 2 search --top minus
says err "--top minus"
run 2 search --space huge
says err "paper, default, wide"
run 2 search extra
run 2 search --model
says err "--model needs a value"
run 2 check
run 2 emit
run 2 explain
run 2 search --model no-such-model
lines err 1
run 2 search --phase serve --toolchain megatron-0.18.0
run 0 version
says out "megatron-0.18.0"
run 0 version --json
json "'sglang-0.5.15' in o['toolchains']"
run 0 --version
run 0 completion bash
bash -n "$work/out" && ok || bad "the completion is not bash"
says out "deepseek-v2-lite"
for c in tui search emit check explain model cluster boundaries calibrate score ablate bench version completion help; do
	run 0 help $c
	says out "usage: moefs $c"
done
# Examples printed by the help run, from the project's root.
cd "$SOURCE_DIR" || exit 1
"$MOEFS" help | awk '/^  [a-z]/{print $1}' | while read -r c; do
	"$MOEFS" help "$c" | awk '/^example:/{getline; print}' | sed 's/^ *moefs *//' 
done >"$work/examples"
while read -r line; do
	case $line in bench*) continue ;; esac
	# shellcheck disable=SC2086
	"$MOEFS" $line >"$work/out" 2>"$work/err" </dev/null
	code=$?
	if [ $code -le 1 ] && [ -s "$work/out" ]; then ok; else bad "example ends with $code: moefs $line"; fi
done <"$work/examples"
# The man page has every action of the terminal program.
run 0 completion man1
for name in undo front side columns assumptions export; do says out ":$name"; done
says out ':save\-filter'

finish
