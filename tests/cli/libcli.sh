# libcli.sh: checks for scripts that run the program. Source it; end with `finish`.
# MOEFS is the program, SOURCE_DIR the project.
set -u
passed=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CONFIG_HOME=$work/config XDG_STATE_HOME=$work/state
unset NO_COLOR HF_HOME

ok() { passed=$((passed + 1)); }
bad() {
	failed=$((failed + 1))
	echo "FAILED: $*" >&2
	[ -s "$work/out" ] && sed 's/^/  out: /' "$work/out" | head -20 >&2
	[ -s "$work/err" ] && sed 's/^/  err: /' "$work/err" | head -20 >&2
}
# run CODE ARGS...: runs moefs and expects the exit code; output is in $work/out and $work/err.
run() {
	local want=$1 got
	shift
	"$MOEFS" "$@" >"$work/out" 2>"$work/err" </dev/null
	got=$?
	if [ "$got" -eq "$want" ]; then ok; else bad "exit $got, wanted $want: moefs $*"; fi
}
# says FILE TEXT: the file (out or err) holds the text.
says() { if grep -qF -- "$2" "$work/$1"; then ok; else bad "$1 does not say: $2"; fi; }
# lines FILE N: exactly N lines.
lines() { local n; n=$(wc -l <"$work/$1"); if [ "$n" -eq "$2" ]; then ok; else bad "$1 has $n lines, wanted $2"; fi; }
# json EXPRESSION: a Python expression over the parsed output `o` is true.
json() {
	if python3 -c 'import json,sys
o = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else 1)' "$work/out" "$1" 2>>"$work/err"; then ok; else bad "not true of the output: $1"; fi
}
finish() {
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
}
