# A pseudo-terminal of our own, for what tmux would soften: crash, hang-up, rest, a slow reader.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
HOME=$work XDG_CONFIG_HOME=$work/config XDG_STATE_HOME=$work/state python3 "$(dirname "$0")/pty.py" "$MOEFS"
