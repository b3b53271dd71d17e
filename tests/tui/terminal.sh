# A real terminal: starts, shows the ranking, takes keys, survives a resize, leaves the terminal as it was.
. "$(dirname "$0")/../cli/libcli.sh"
command -v tmux >/dev/null || { echo "tmux is missing" >&2; exit 1; }
sock=$work/tmux
tm() { tmux -S "$sock" "$@"; }
trap 'tm kill-server 2>/dev/null; rm -rf "$work"' EXIT
# until TEXT: waits, by looking again, until the screen shows it. The bound only ends a test that has failed.
until_shows() {
	local end=$((SECONDS + 20))
	while [ $SECONDS -lt $end ]; do
		tm capture-pane -p -t t >"$work/out"
		if grep -qF -- "$1" "$work/out"; then ok; return; fi
		read -rt 0.05 <> <(:)
	done
	bad "the screen never shows: $1"
}
base="--model deepseek-v2-lite --cluster 8xh800 --space paper --ledger published"
tm -f /dev/null new-session -d -s t -x 80 -y 24 "env TERM=screen-256color HOME=$work bash --norc --noprofile"
tm send-keys -t t "PS1='ready> '; clear" Enter
until_shows "ready>"
tm send-keys -t t "$MOEFS $base" Enter
until_shows "dualpipe+ov"
until_shows "has no DualPipe schedule"
tm send-keys -t t n
until_shows "buildable"
tm send-keys -t t Enter
until_shows "[1 overview]"
tm send-keys -t t Tab
until_shows "[2 memory]"
tm resize-window -t t -x 160 -y 45
until_shows "[2 memory]"
tm send-keys -t t Escape
tm send-keys -t t Escape
tm send-keys -t t / "ep8" Enter
until_shows "/ep8  ("
tm send-keys -t t C-z
until_shows "ready>"
tm send-keys -t t fg Enter
until_shows "/ep8  ("
tm send-keys -t t '?'
until_shows "previous plan"
tm send-keys -t t q
until_shows "/ep8  ("
tm send-keys -t t q
until_shows "ready>"
tm send-keys -t t 'echo left with $?' Enter
until_shows "left with 0"
# The terminal is as it was: echo is on, and the shell's screen is back.
tm send-keys -t t "echo still here" Enter
until_shows "still here"
# A hang-up leaves no process behind.
tm send-keys -t t "$MOEFS $base --space wide --model qwen3-235b-a22b --cluster 256x8xh800 & echo pid \$!; fg" Enter
until_shows "plans"
pid=$(tm list-panes -t t -F '#{pane_pid}')
child=$(pgrep -P "$pid" -f "$MOEFS" | head -1)
tm kill-session -t t
end=$((SECONDS + 10))
while [ -n "$child" ] && kill -0 "$child" 2>/dev/null && [ $SECONDS -lt $end ]; do read -rt 0.05 <> <(:); done
if [ -n "$child" ] && ! kill -0 "$child" 2>/dev/null; then ok; else bad "process $child is left after a hang-up"; fi
finish
