# The terminal program driven by scripts: what the screen says, at several sizes, in UTF-8 and ASCII.
. "$(dirname "$0")/../cli/libcli.sh"
base="tui --model deepseek-v2-lite --cluster 8xh800 --space paper --ledger published"

play() { # SIZE OPTIONS... ; the script is standard input
	local size=$1
	shift
	cat >"$work/script"
	"$MOEFS" $base --script "$work/script" --size "$size" "$@" >"$work/out" 2>"$work/err"
	local code=$?
	if [ $code -eq 0 ]; then ok; else bad "script ends with $code"; fi
}
# widest COLS: no line is wider.
widest() { if awk -v w="$1" 'length($0) > w { exit 1 }' "$work/out"; then ok; else bad "a line is wider than $1"; fi; }

for size in 60x16 80x24 132x43 200x60; do
	play $size <<<':dump'
	widest "${size%x*}"
	says out "dualpipe+ov"
	says out "has no DualPipe schedule"
	play $size --ascii <<<':dump'
	widest "${size%x*}"
	if LC_ALL=C grep -q '[^ -~]' "$work/out"; then bad "not ASCII at $size"; else ok; fi
done

# The refusal is on screen; n goes to what can be built; Enter opens it; tabs show why and the command.
play 80x24 <<'S'
:dump
n
:dump
:detail argv
:dump
:detail memory
:dump
:detail why
:dump
S
says out "tp1/pp1/ep8/1f1b+ov"
says out "torchrun"
says out "activations"
says out "buildable: no rule of the emitter refuses it"

# Filter typed letter by letter; a bad one keeps the last result and points at the column.
play 80x24 <<'S'
/ "ep8 and mem<70" Enter
:dump
/ "ep8 and (" Enter
:dump
S
says out "[filtered]"
says out "column"
if grep -q "ep4" "$work/out"; then bad "the filter lets ep4 through"; else ok; fi

# Toggles.
play 80x24 <<'S'
r
:dump
o
:dump
x
:dump
c
:wait idle
:dump
s s
:dump
S
says out "[constraint off]"
says out "[tax off]"
says out "overlay: h800"
play 80x24 <<'S'
o
:dump
S
says out "[buildable only]"
if grep -q " B1" "$work/out"; then bad "a refused plan is shown among the buildable"; else ok; fi

# Wrong keys and commands say so; nothing is lost.
play 80x24 <<'S'
Z
:dump
:frobnicate
:dump
:sort nonsense
:dump
S
says out "does nothing here"
says out "no command 'frobnicate'"
says out "no such choice"

# Export: command and provenance, or a message; refused plans are not exported.
play 80x24 <<S
:export $work/refused.sh
:dump
n
:export $work/run.json
:dump
:export $work/nowhere/run.sh
:dump
:export $work/run.xyz
:dump
S
says out "refused plans have no command"
[ ! -e "$work/refused.sh" ] && ok || bad "a refused plan was exported"
[ -s "$work/run.json" ] && [ -s "$work/run.json.provenance.json" ] && ok || bad "no export"
says out "nowhere"

# Marks and comparison, help, every tiny size.
play 132x43 <<'S'
Space Space d
:dump
Esc ?
:dump
S
says out "marked plans"
says out "next plan"
for size in 1x1 2x1 39x7 40x8 300x100; do
	play $size <<'S'
:dump
Enter
:dump
?
:dump
:size 80x24
:dump
S
done
play 39x7 <<<':dump'
says out "needs 40x8"

# Every key of the help table can be pressed without harm.
play 80x24 <<'S'
j k g G PgDn PgUp C-d C-u n N Enter Tab S-Tab Esc d Space f Esc o s S r x c L P T M C-l ? Esc : Esc y m Esc h Esc
:dump
S
# A broken script names file and line.
printf 'j\nNoSuchKey\n' >"$work/script"
"$MOEFS" $base --script "$work/script" >"$work/out" 2>"$work/err"
[ $? -eq 2 ] && ok || bad "a broken script is accepted"
says err "script:2"
finish
