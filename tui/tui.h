/*
 * tui.h: the terminal front end. One call runs it; the tables below are for help, man page and completion.
 *
 * Inside: term.c owns the terminal (and is the only file that knows curses), cell.c is the screen as cells, pen.c writes
 * lines into it, theme.c its colours. keys.c is the table of actions and the decoder of input bytes, tui_app.h the model,
 * update.c what a message does to it, with prompt.c (the line being typed), filter.c (expressions) and whatif.c
 * (assumptions); effects.c what needs more than the model, store.c what outlives a run. view.c is what it looks like, with
 * table.c, detail.c, timeline_tab.c, compare.c, plot.c and side.c. worker.c has the threads that search and rank, ask.c and
 * node.c those that ask the toolchain and the driver, wake.c their way back; loop.c is the one poll that ties them
 * together, script.c the same without a terminal, jobfile.c reads news of jobs.
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

/** Tabs of the side pane. */
typedef enum mf_side_tab { MF_SIDE_PROBE, MF_SIDE_AUTOTUNE, MF_SIDE_LOG, MF_SIDE_NODE, MF_SIDE_COUNT } mf_side_tab;
extern const mf_choice mf_side_tab_choices[];

/** One piece of news of a job: a line for a tab, a measurement of a plan, or both. */
typedef struct mf_job_news {
	mf_side_tab tab; /* not the node's: that one asks the driver itself */
	char line[512];  /* "" for none; longer lines are cut */
	bool measures;   /* `plan` ran at `throughput` tokens/s/GPU */
	mf_plan plan;
	double throughput;
} mf_job_news;

/** Where the news come from. Called on the UI thread; neither call waits. */
typedef struct mf_job_source {
	void *payload;
	int (*fd)(void *payload); /* readable when `next` has something; -1: never again */
	bool (*next)(void *payload, mf_job_news *out);
} mf_job_source;

/**
 * News from a file or pipe of JSON lines: {"tab": "probe", "line": "...", "plan": "tp1/...", "throughput": 1234.5}, where
 * plan and throughput come together or not at all. A line that is none of this is shown in the log as it stands.
 */
typedef struct mf_job_file mf_job_file;
/** Opens a file or pipe without waiting for a writer; plans are read in the phase of `in`, which is borrowed. */
mf_status mf_job_file_open(mf_job_file **out, const char *path, const mf_inputs *in, mf_err *err);
void mf_job_file_close(mf_job_file *f);
mf_job_source mf_job_file_source(mf_job_file *f);

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
	const char *theme;         /* NULL: "default", or "mono" without colour */
	const mf_job_source *jobs; /* NULL: none */
	const char *script;        /* file of keys and commands ("-": standard input); no terminal is touched */
	int width, height;         /* screen of a script; 0: 80x24 */
	const char *real_python;   /* interpreter and folder of the installed toolchain, as in mf_real_opts; NULL */
	const char *real_path;
} mf_tui_opts;
#define MF_TUI_OPTS_INIT                                                                                               \
	{                                                                                                              \
		sizeof(mf_tui_opts), NULL, NULL, MF_SEARCH_OPTS_INIT, NULL, NULL, false, true, false, MF_COLOR_AUTO,   \
			NULL, NULL, NULL, 0, 0, NULL, NULL                                                             \
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
