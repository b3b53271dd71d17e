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
# The words an option takes are in the help; a bad one is refused with and without a terminal.
run 0 help search
says out "what the plan is for: train, serve"
run 2 tui --size 3x
lines err 1
run 2 tui --color mauve
says err "expected one of auto, never"
run 2 search --overlay nosuch
says err "no overlay is named"
run 2 calibrate --from "$work/nosuch"
says err "No such file"
lines err 1
# A full disk is the user's to mend, not a bug.
for c in "search --json" "search" "model --json" "help"; do
	# shellcheck disable=SC2086
	"$MOEFS" $c >/dev/full 2>"$work/err"
	code=$?
	if [ $code -eq 2 ]; then ok; else bad "$c on a full disk ends with $code"; fi
	says err "No space left"
done
# A reader that leaves ends the writer without a word.
for c in "search --json" "boundaries" "search --emit jsonl"; do
	# shellcheck disable=SC2086
	"$MOEFS" $c --cluster 8xh800 2>"$work/err" | head -1 >"$work/out"
	lines err 0
done
# Completion, as bash asks for it.
completes() { # WORD... EXPECTED
	local expected=${*: -1} words=("${@:1:$#-1}")
	bash -c 'source <("$MOEFS" completion bash); COMP_WORDS=(moefs "$@"); COMP_CWORD=$#; _moefs; echo "${COMPREPLY[@]}"' x "${words[@]}" >"$work/out"
	says out "$expected"
}
completes sea search
completes search --space "" "paper default wide"
completes help sco score
completes completion man "man1 man5 man7"
completes tui --theme "" "colour-blind"
completes search --model olm olmoe

# The man page has every action of the terminal program.
run 0 completion man1
for name in undo front side columns assumptions export; do says out ":$name"; done
says out ':save\-filter'

finish
