/*
 * tui.h: the terminal front end. One call runs it; the tables below are for help, man page and completion.
 *
 * Inside: term.c owns the terminal (and is the only file that knows curses), cell.c is the screen as cells, keys.c the
 * table of actions and the decoder of input bytes, app.h the model, update.c what a message does to it, view.c and
 * detail.c what it looks like, worker.c the threads that search and rank, loop.c the one poll that ties them together,
 * script.c the same without a terminal.
 */
#ifndef MF_TUI_H
#define MF_TUI_H

#include "search.h"

typedef enum mf_color_mode {
	MF_COLOR_AUTO,
	MF_COLOR_NEVER,
	MF_COLOR_8,
	MF_COLOR_16,
	MF_COLOR_256,
	MF_COLOR_TRUE
} mf_color_mode;
/** Names for --color: auto, never, 8, 16, 256, true. */
extern const mf_choice mf_color_mode_choices[];

/** What the terminal starts with. All pointers are borrowed and must outlive the call. */
typedef struct mf_tui_opts {
	size_t struct_size;      /* sizeof(mf_tui_opts): fields may be appended */
	const mf_inputs *inputs; /* loaded; `intern` must not be NULL */
	const char *overlay;     /* built-in name or YAML path; NULL or "": factory constants */
	mf_search_opts search;   /* space, constraint, cost, threads, max_rows; the callbacks are ours to set */
	/** Loads a cluster that core/plan does not know ("auto"); NULL: mf_cluster_load alone. */
	mf_status (*load_cluster)(void *payload, mf_cluster *out, const char *name, mf_err *err);
	void *payload;
	bool ascii;  /* no glyph beyond ASCII; implied by a locale that is not UTF-8 */
	bool resume; /* take the last session of these inputs up, and keep this one */
	bool mouse;  /* wheel, row and heading clicks */
	mf_color_mode color;
	const char *theme;  /* NULL: "default", or "mono" without colour */
	const char *script; /* file of keys and commands ("-": standard input); no terminal is touched */
	int width, height;  /* screen of a script; 0: 80x24 */
} mf_tui_opts;
#define MF_TUI_OPTS_INIT                                                                                               \
	{                                                                                                              \
		sizeof(mf_tui_opts), NULL, NULL, MF_SEARCH_OPTS_INIT, NULL, NULL, false, true, false, MF_COLOR_AUTO,   \
			NULL, NULL, 0, 0                                                                               \
	}

/**
 * Runs until the user quits. MF_OK on quit; MF_EENV when there is no usable terminal; MF_EINPUT for a bad script or
 * theme. A script writes its screens to standard output.
 */
mf_status mf_tui_run(const mf_tui_opts *opts, mf_err *err);

/** One thing the user can do. Help, dispatch, the `:` line, the man page and tests read this table. */
typedef struct mf_tui_key {
	int action;
	const char *name;     /* as typed after ':' */
	const char *argument; /* "[NAME]" when the ':' form takes one, else "" */
	const char *keys;     /* key names separated by spaces, "" when only ':' reaches it */
	const char *group;    /* heading in the help */
	const char *help;     /* one line */
} mf_tui_key;
/** Ends with a NULL name. */
extern const mf_tui_key mf_tui_keys[];

/** Names of the built-in themes, NULL-terminated. */
extern const char *const mf_theme_names[];

/** One field of the filter language, for help and man page. */
typedef struct mf_filter_field {
	const char *name, *help;
} mf_filter_field;
/** Ends with a NULL name. */
extern const mf_filter_field mf_filter_fields[];

#endif
