/* tui_keys.h: key codes, the decoder of input bytes, and what each key does. */
#ifndef MF_TUI_KEYS_H
#define MF_TUI_KEYS_H

#include "tui.h"

/** A key is a code point, or one of these. Control letters keep their ASCII codes (Ctrl-D is 4). */
typedef uint32_t mf_key;
enum {
	MF_KEY_NONE = 0,
	MF_KEY_TAB = 9,
	MF_KEY_ENTER = 13,
	MF_KEY_ESC = 27,
	MF_KEY_BACKSPACE = 127,
	MF_KEY_UP = 0x110000,
	MF_KEY_DOWN,
	MF_KEY_LEFT,
	MF_KEY_RIGHT,
	MF_KEY_HOME,
	MF_KEY_END,
	MF_KEY_PGUP,
	MF_KEY_PGDN,
	MF_KEY_INSERT,
	MF_KEY_DELETE,
	MF_KEY_BACKTAB,
	MF_KEY_F1,
	MF_KEY_F12 = MF_KEY_F1 + 11,
	MF_KEY_MOUSE, /* with mf_key_event.button, x, y */
	MF_KEY_REPLY  /* no key: the terminal has got as far as a question of ours, see mf_tty_answered */
};

typedef struct mf_key_event {
	mf_key key;
	int button, x, y; /* MF_KEY_MOUSE: 0 left, 64 wheel up, 65 wheel down; 0-based cell */
} mf_key_event;

/** How long an Esc byte may wait for the rest of a sequence before it counts as the key Esc. */
#define MF_ESC_MS 25.0

/**
 * Turns bytes, in pieces of any size, into keys. Sequences may be split anywhere; a lone Esc becomes a key MF_ESC_MS
 * after its byte. A plain value; start with zeroes.
 */
typedef struct mf_key_decoder {
	unsigned char bytes[256];
	size_t len;
	double esc_since_ms; /* when the incomplete sequence at the front began to wait */
	bool waiting;
	const char *(*terminfo)(
		void *payload, int which); /* sequences of this terminal, by MF_KEY_UP + which; may be NULL */
	void *payload;
} mf_key_decoder;
/** Adds bytes; returns how many were taken (fewer when the decoder is full: take keys out first). */
size_t mf_key_feed(mf_key_decoder *d, const void *bytes, size_t len, double now_ms);
/** Takes the next key; false when there is none yet. */
bool mf_key_next(mf_key_decoder *d, double now_ms, mf_key_event *out);
/** Milliseconds until a waiting Esc becomes a key, or -1 when nothing waits. */
double mf_key_deadline(const mf_key_decoder *d, double now_ms);

/** Name of a key ("j", "PgDn", "C-d", "Enter"); writes at most 16 bytes. */
void mf_key_name(mf_key k, char out[16]);
/** Key of a name, MF_KEY_NONE when unknown. */
mf_key mf_key_parse(const char *name, size_t len);

/** Everything the user can do: X(id, name, argument, keys, group, help). Order is the help's. */
/* clang-format off */
#define MF_ACTIONS(X) \
	X(DOWN, "down", "", "j Down", "move", "next plan (detail focused: scroll)") \
	X(UP, "up", "", "k Up", "move", "previous plan") \
	X(TOP, "top", "", "g Home", "move", "first plan") \
	X(BOTTOM, "bottom", "", "G End", "move", "last plan") \
	X(PAGE_DOWN, "page-down", "", "PgDn C-f", "move", "a page down") \
	X(PAGE_UP, "page-up", "", "PgUp C-b", "move", "a page up") \
	X(HALF_DOWN, "half-down", "", "C-d", "move", "half a page down") \
	X(HALF_UP, "half-up", "", "C-u", "move", "half a page up") \
	X(NEXT, "next", "", "n", "move", "next match of f, or else next buildable plan") \
	X(PREVIOUS, "previous", "", "N", "move", "previous match or buildable plan") \
	X(NEAREST, "nearest", "", "a", "move", "from a refused plan to the nearest that can be built") \
	X(DETAIL, "detail", "[TAB]", "Enter", "look", "open the detail pane, or give it the keys") \
	X(TAB_NEXT, "tab-next", "", "Tab Right", "look", "next tab of the detail pane") \
	X(TAB_PREVIOUS, "tab-previous", "", "S-Tab Left", "look", "previous tab") \
	X(SIDE, "side", "[probe|autotune|log|node]", "J", "look", "the side pane: probe, autotune, log, node") \
	X(ZOOM_IN, "zoom-in", "", "+", "look", "timeline: a shorter time (Left and Right move in it)") \
	X(ZOOM_OUT, "zoom-out", "", "-", "look", "timeline: a longer time") \
	X(BACK, "back", "", "Esc", "look", "leave detail, then clear the filter") \
	X(COMPARE, "compare", "", "d", "look", "compare the marked plans") \
	X(FRONT, "front", "", "F", "look", "the Pareto front as a picture; moving goes along it") \
	X(BOUNDARIES, "boundaries", "", "b", "look", "what each boundary and rule removed") \
	X(MARK, "mark", "", "Space", "look", "mark or unmark this plan (up to four)") \
	X(FILTER, "filter", "[EXPRESSION]", "/", "find", "show only plans that match") \
	X(FIND, "find", "[EXPRESSION]", "f", "find", "go to the next plan that matches, hiding none") \
	X(SHOW, "show", "[all|buildable|rejected]", "o", "find", "all plans, buildable only, rejected only") \
	X(SORT, "sort", "[KEY]", "s", "find", "sort by a column") \
	X(REVERSE, "reverse", "", "S", "find", "reverse the sort") \
	X(CONSTRAINT, "constraint", "[on|off]", "r", "what if", "judge plans by what can be built, or rank them all") \
	X(TAX, "tax", "[on|off]", "x", "what if", "realization tax and penalties on or off") \
	X(OVERLAY, "overlay", "[NAME|none]", "c", "what if", "calibrated constants") \
	X(LEDGER, "ledger", "[full|published]", "L", "what if", "memory accounting") \
	X(SPACE, "space", "[paper|default|wide]", "P", "what if", "which space is searched") \
	X(MODEL, "model", "[NAME|PATH]", "m", "what if", "another model") \
	X(CLUSTER, "cluster", "[NAME|PATH]", "h", "what if", "another cluster") \
	X(NODES, "nodes", "[N]", "", "what if", "how many nodes") \
	X(SKEW, "skew", "[X]", "", "what if", "load of the busiest expert over the mean, less one") \
	X(SEQ, "seq", "[TOKENS]", "", "what if", "sequence length (training)") \
	X(GLOBAL_BATCH, "global-batch", "[N]", "", "what if", "sequences a step (training)") \
	X(MICRO_BATCH, "micro-batch", "[N,N...]", "", "what if", "micro-batch sizes the search may take (training)") \
	X(PRECISION, "precision", "[NAME]", "", "what if", "what the GEMMs compute in (training)") \
	X(INPUT, "input", "[TOKENS]", "", "what if", "prompt length (serving)") \
	X(OUTPUT, "output", "[TOKENS]", "", "what if", "answer length (serving)") \
	X(CONCURRENCY, "concurrency", "[N]", "", "what if", "requests in flight (serving)") \
	X(TOOLCHAIN, "toolchain", "[NAME]", "", "what if", "version whose rules judge") \
	X(STACK, "stack", "[NAME|PATH]", "", "what if", "software the plan runs on") \
	X(ATTENTION, "attention", "[flash|unfused]", "", "what if", "attention backend (training)") \
	X(GRAPHS, "graphs", "[none|partial|full]", "", "what if", "CUDA graphs (training)") \
	X(MEM_FRACTION, "mem-fraction", "[X|auto]", "", "what if", "share of the GPU's memory a plan may use") \
	X(ASSUMPTIONS, "assumptions", "", "i", "what if", "all assumptions: see, change, put back") \
	X(DEFAULTS, "defaults", "", "", "what if", "every assumption as it was at the start") \
	X(UNDO, "undo", "", "u", "what if", "take the last change of an assumption back") \
	X(REDO, "redo", "", "C-r", "what if", "make it again") \
	X(ASK, "ask", "", "v", "do", "ask the installed toolchain itself about this plan") \
	X(EXPORT, "export", "[FILE]", "e", "do", "write the argv: .json, .nul, .sh or .sbatch by the name") \
	X(COPY, "copy", "", "y", "do", "copy the command, or the refusal, to the clipboard (OSC 52)") \
	X(COLUMNS, "columns", "[NAME NAME...|default]", "C", "look", "which columns, in which order") \
	X(SAVE_FILTER, "save-filter", "[NAME]", "", "find", "keep the filter by a name: /@NAME brings it back") \
	X(THEME, "theme", "[NAME]", "T", "do", "colours") \
	X(MOUSE, "mouse", "[on|off]", "M", "do", "mouse on or off (with it on, Shift-drag selects text)") \
	X(COMMAND, "command", "", ":", "do", "type an action by name") \
	X(HELP, "help", "", "? F1", "do", "this list") \
	X(REDRAW, "redraw", "", "C-l", "do", "draw the screen anew") \
	X(SUSPEND, "suspend", "", "C-z", "do", "stop; fg comes back") \
	X(QUIT, "quit", "", "q C-c", "do", "leave")
/* clang-format on */
typedef enum mf_action {
	MF_ACT_NONE,
#define X(id, name, argument, keys, group, help) MF_ACT_##id,
	MF_ACTIONS(X)
#undef X
		MF_ACT_COUNT
} mf_action;

#define MF_MAX_BINDINGS 192
/** Which key does what: the table's keys, changed by the user's file. A plain value. */
typedef struct mf_keymap {
	struct {
		mf_key key;
		uint8_t action;
	} binding[MF_MAX_BINDINGS];
	int n;
} mf_keymap;
void mf_keymap_default(mf_keymap *m);
/**
 * Changes a map by a document "action: key" or "action: [key, key]": the action then has these keys and no others, and
 * whatever had one of them loses it. A key the document gives to two actions is an error. Ctrl-C leaves whatever the
 * document says.
 */
mf_status mf_keymap_apply(mf_keymap *m, const mf_doc *doc, mf_err *err);
/** Action bound to a key, MF_ACT_NONE when none is. */
mf_action mf_keymap_action(const mf_keymap *m, mf_key k);
/** Keys of an action, separated by blanks; "" when it has none. */
void mf_keymap_keys(const mf_keymap *m, mf_action action, char *out, size_t size);
/** The first key of an action, "" when it has none; writes at most 16 bytes. */
void mf_keymap_first(const mf_keymap *m, mf_action action, char out[16]);
/** Action of a ':' name, MF_ACT_NONE when unknown; an unambiguous beginning is enough. */
mf_action mf_action_of_name(const char *name, size_t len);

#endif
