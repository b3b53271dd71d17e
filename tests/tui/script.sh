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
silent() { if grep -qF -- "$1" "$work/out"; then bad "the screen says: $1"; else ok; fi; }
widest() { if [ "$(wc -L <"$work/out")" -le "$1" ]; then ok; else bad "a line is wider than $1"; fi; }
tall() { if [ "$(wc -l <"$work/out")" -eq $(($1 + 1)) ]; then ok; else bad "not $1 lines"; fi; }

for size in 60x16 80x24 132x43 200x60; do
	play $size <<<':dump'
	widest "${size%x*}"
	tall "${size#*x}"
	says out "dualpipe+"
	says out "has no DualPipe"
	play $size --ascii <<<':dump'
	widest "${size%x*}"
	if LC_ALL=C grep -q '[^ -~]' "$work/out"; then bad "not ASCII at $size"; else ok; fi
done
LC_ALL=C play 80x24 <<<':dump'
if LC_ALL=C grep -q '[^ -~]' "$work/out"; then bad "not ASCII without UTF-8"; else ok; fi

# The refusal and the nearest plan that can be built are on screen; n goes to it; tabs show why and the command.
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
:detail time
Enter
:dump
S
says out "nearest       tp1/pp1/ep8/1f1b+ov"
says out "torchrun"
says out "activations"
says out "the emitter wrote a command and the memory fits"
says out "(factory)"

# Filter typed letter by letter; a bad one keeps the last result and points at the column; Esc brings the old one back.
play 80x24 <<'S'
/ "ep8 and mem<70" Enter
:dump
S
says out "/ep8 and mem<70  ("
silent "ep4"
play 80x24 <<'S'
/ "ep8 and mem<70"
:dump
" and ("
:dump
Enter
:dump
S
says out "column 2"
silent "ep4"
play 80x24 <<'S'
/ "ep8" Enter / " mem<1" Esc
:dump
S
says out "/ep8  ("
play 80x24 <<'S'
/ "ep8" Enter Esc / Up
:dump
S
says out "/ep8"
play 80x24 <<'S'
f "zero1_offload and ep4" Enter
:dump
n
:dump
S
says out "▶  15"

# Toggles and pickers.
play 132x43 <<'S'
r
:dump
S
says out "constraint off"
says out "not asked"
silent "✗"
play 132x43 <<'S'
x
:dump
c
:dump
Esc
:overlay h800
:dump
s j Enter
:dump
T Esc
:theme light
:dump
S
says out "tax off"
says out "none"
says out "overlay h800"
says out "sort memory▲"
play 80x24 <<'S'
o
:dump
S
says out "show buildable"
silent "✗"
play 80x24 <<'S'
:show rejected
:dump
S
silent "buildable  "

# The cursor keeps to its plan through sorting and filtering.
play 80x24 <<'S'
n n
:sort memory
/ "1f1b" Enter
Esc
:sort throughput
:dump
S
says out "▶   4"

# Wrong keys and commands say so; nothing is lost.
play 80x24 <<'S'
Z
:dump
: "frobnicate" Enter
:dump
:sort nonsense
:dump
:theme mno
:dump
:model olmo
:dump
S
says out "Z does nothing; ? lists the keys"
says out "no command 'frobnicate'"
says out "no such choice 'nonsense'"
says out "nearest is mono"

# Completion.
play 80x24 <<'S'
: "exp" Tab
:dump
Esc : "sort mem" Tab Enter
:dump
S
says out ":export"
says out "sort memory"

# Another model and another cluster.
play 80x24 <<'S'
:model olmoe
:dump
:cluster 8xa100
:dump
m "nonesuch" Enter
:dump
S
says out "olmoe"
says out "8xa100"
says out "nonesuch"

# Export: command and provenance, or a message; refused plans are not exported; a file is not replaced unasked.
play 80x24 <<S
:export $work/refused.sh
:dump
n
:export $work/run.json
:dump
:export $work/run.json
:dump
Esc
:export $work/nowhere/run.sh
:dump
:export $work/run.xyz
:dump
S
says out "there is no command to export"
says out "the file exists"
[ ! -e "$work/refused.sh" ] && ok || bad "a refused plan was exported"
[ -s "$work/run.json" ] && [ -s "$work/run.json.provenance.json" ] && ok || bad "no export"
says out "not written"
"$MOEFS" emit --model deepseek-v2-lite --cluster 8xh800 --ledger published --plan tp1/pp1/ep8/1f1b+ov --format json >"$work/emit.json"
hash() { sed -n 's/.*"argv_sha256":[ ]*"\([0-9a-f]*\)".*/\1/p' "$1" | head -1; }
[ -n "$(hash "$work/emit.json")" ] && [ "$(hash "$work/emit.json")" = "$(hash "$work/run.json")" ] && ok ||
	bad "the exported command is not what emit writes"

# Marks and comparison, help.
play 132x43 <<'S'
Space
d
:dump
Space d
:dump
Esc ?
:dump
S
says out "mark two to four plans"
says out "differs"
says out "next plan"

# The help lists every action and key of the table; the page can be scrolled.
play 132x60 <<'S'
?
:dump
PgDn
:dump
S
for name in filter find sort overlay export copy theme suspend quit; do says out ":$name"; done

# Every small size; every key at every one of them.
for size in 1x1 2x1 39x7 59x16 60x15 60x16 300x100; do
	play $size <<'S'
:dump
Enter
:dump
?
:dump
j k g G PgDn PgUp C-d C-u n N Enter Tab S-Tab Esc d Space f Esc o s S r x c Esc L Esc P Esc T Esc M C-l ? Esc : Esc y m Esc h Esc
:size 80x24
:dump
S
done
play 39x7 <<<':dump'
says out "needs 60x16"

# A broken script names file and line; a broken theme its file.
printf 'j\nNoSuchKey\n' >"$work/script"
"$MOEFS" $base --script "$work/script" >"$work/out" 2>"$work/err"
[ $? -eq 2 ] && ok || bad "a broken script is accepted"
says err "script:2"
printf 'text: {fg: nocolour}\n' >"$work/bad.yaml"
echo :dump | "$MOEFS" $base --script - --theme "$work/bad.yaml" >"$work/out" 2>"$work/err"
[ $? -eq 2 ] && ok || bad "a broken theme is accepted"
says err "bad.yaml:1"
TERM=dumb script -qec "$MOEFS $base" /dev/null >"$work/out" 2>&1 </dev/null
[ $? -eq 3 ] && ok || bad "a dumb terminal is taken"
says out "cannot place the cursor"

# The side pane: news of jobs from a file, bad lines shown as they stand; the node through a driver that is not there.
cat >"$work/jobs" <<'J'
{"tab": "probe", "line": "probe: step 5 of 10"}
{"plan": "tp1/pp1/ep8/1f1b+ov", "throughput": 20000}
{"tab": "nosuch", "line": "for the log"}
not JSON at all
{"tab": "autotune", "line": "variant 3 of 60"}
J
head -c 100000 /dev/zero | tr '\0' x >>"$work/jobs"
play 200x60 --jobs "$work/jobs" <<'S'
:filter ep8
:side probe
:dump
:side log
:dump
:side autotune
:dump
S
says out "probe: step 5 of 10"
says out "for the log"
says out "not JSON at all"
says out "variant 3 of 60"
says out "20000 x"
play 80x24 <<'S'
J
:dump
:side node
:dump
S
says out "no probe has reported"
[ -e /proc/driver/nvidia ] || says out "no GPU driver here"
run 2 $base --script /dev/null --jobs "$work/nosuch"
says err "nosuch"
LD_LIBRARY_PATH=$FAKE_NVML play 100x30 <<'S'
:side node
:dump
S
says out "0  42.5/85 GB"
says out "load  87%"
says out "512 W  NVIDIA H800"
says out "41.0 GB  moefs"

# v asks the installed toolchain; here an interpreter plays it.
fake=$SOURCE_DIR/tests/cli/fake/python
unset VIRTUAL_ENV
TMPDIR=$work MOEFS_PYTHON=$fake FAKE=accept play 80x24 <<'S'
n v
:dump
v
:detail why
:dump
:side log
:dump
S
says out "megatron-core 0.18.0 accepts it"
says out "the verdicts agree"
TMPDIR=$work MOEFS_PYTHON=$fake FAKE=refuse play 80x24 <<'S'
n v
:detail why
:dump
S
says out "DISAGREE"
TMPDIR=$work MOEFS_PYTHON=$fake FAKE=missing play 200x60 <<'S'
v
:dump
S
says out "pip install megatron-core==0.18.0"

# The picture and the lists.
play 80x24 <<'S'
F
:dump
g
:dump
Esc
i Down
:dump
Right Esc
:dump
u b
:dump
Enter
:dump
S
says out "tok/s/GPU over memory GB"
says out "at the start"
says out "changed: tax off (on)"
says out "plan.dualpipe"
says out "/rule:"
play 200x60 <<'S'
:skew 1
:dump
S
says out "moved"
says out "changed: skew 1 (0)"

# An open panel: the chosen line explained in full, nothing of the table's messages left under it, wrong keys said.
play 60x16 <<'S'
i
:dump
S
says out "judge plans by what can be built, or rank them all  [on|off]"
silent "schedule"
says out "Esc back"
play 60x16 <<'S'
b
:dump
S
says out "B1: schedule dualpipe"
play 80x24 <<'S'
? 7
:dump
?
:dump
S
says out "7 does nothing here; Esc goes back"
says out "[1 overview]"
play 80x24 <<'S'
i j j j j j 2
:dump
Enter Esc
:dump
S
says out "nodes: 2"
says out "changed: nodes 2 (1)"
# The help is readable where it has to be broken, and says what the classes of boundaries are.
play 60x16 <<'S'
? C-d
:dump
G
:dump
S
silent "…"
says out "SGLang: launcher"
# A value that is refused stays, to be mended; Tab goes through what fits.
play 80x24 <<'S'
C C-u "plan foo" Enter
:dump
C-w "tput" Enter
:dump
m "qwen" Tab Tab Tab
:dump
S
says out "no column 'foo'"
says out "columns: plan foo"
says out "model: qwen3-235b-a22b"
# Keys named where they work, and said where they do not.
play 80x24 <<'S'
+
:dump
J
:dump
J
e
:dump
:show rejected
a
:dump
S
says out "4 opens it"
says out "J close"
says out "a goes to the nearest"
says out ":show all brings it back"
play 80x24 <<'S'
4 Enter
:dump
S
says out "+/- zoom  Left/Right move"
play 80x24 --ascii <<'S'
F
:dump
S
says out ": buildable  . refused"
says out "F table"
# A plan is broken between its words.
"$MOEFS" tui --model deepseek-v2-lite --cluster 8xh800 --script - --size 60x16 >"$work/out" <<'S'
:filter rank=12
Enter
:dump
S
says out "rc:moe_act,layernorm,"
silent "allgat "
# A theme that is not there is answered with those that are.
run 2 $base --theme nosuch --script /dev/null
says err "colour-blind"

# Whole screens, digits masked: what stands where. UPDATE=1 rewrites them.
golden=$(dirname "$0")/golden
mkdir -p "$golden"
for size in 60x16 80x24 132x43; do
	for set in utf8 ascii; do
		play $size $([ $set = ascii ] && echo --ascii) <<'S'
:sort memory
n
:dump
?
:dump
S
		sed 's/[0-9]/0/g' "$work/out" >"$work/masked"
		[ -n "${UPDATE-}" ] && cp "$work/masked" "$golden/$size.$set.txt"
		if diff -u "$golden/$size.$set.txt" "$work/masked" >"$work/diff"; then ok; else
			cp "$work/diff" "$work/out"
			bad "screen $size $set differs from its golden"
		fi
	done
done
finish
