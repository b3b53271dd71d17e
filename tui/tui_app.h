/*
 * tui_app.h: the model. update.c changes it and answers with effects; view.c draws it; neither waits on anything. Only
 * loop.c and script.c carry effects out. Rows are addressed by index; `view` lists the rows on show in their order.
 */
#ifndef MF_TUI_APP_H
#define MF_TUI_APP_H

#include "gpu.h"
#include "job.h"
#include "timeline.h"
#include "tui_filter.h"
#include "tui_keys.h"
#include "tui_theme.h"

#define MF_MAX_MARKS 4
#define MF_PROMPT_MAX 512
#define MF_HISTORY 32
#define MF_NO_ROW UINT32_MAX

/** What update asks of the loop (bits). */
typedef enum mf_effect {
	MF_FX_REDRAW = 1,
	MF_FX_QUIT = 2,
	MF_FX_SEARCH = 4,
	MF_FX_ARRANGE = 8,
	MF_FX_EXPORT = 16,
	MF_FX_COPY = 32,
	MF_FX_SUSPEND = 64,
	MF_FX_THEME = 128,
	MF_FX_INVALIDATE = 256,
	MF_FX_MOUSE = 512,
	MF_FX_OVERLAY = 1024,
	MF_FX_MODEL = 2048,
	MF_FX_CLUSTER = 4096,
	MF_FX_SAVE_FILTER = 16384,
	MF_FX_ASK = 32768,
	MF_FX_RESTORE = 8192,                                     /* a->target becomes what is assumed */
	MF_FX_WAITS = MF_FX_MODEL | MF_FX_CLUSTER | MF_FX_RESTORE /* may have to wait for a thread */
} mf_effect;

typedef enum mf_show { MF_SHOW_ALL, MF_SHOW_BUILDABLE, MF_SHOW_REJECTED } mf_show;
extern const mf_choice mf_show_choices[];

typedef enum mf_tab {
	MF_TAB_OVERVIEW,
	MF_TAB_MEMORY,
	MF_TAB_TIME,
	MF_TAB_TIMELINE,
	MF_TAB_WHY,
	MF_TAB_ARGV,
	MF_TAB_COUNT
} mf_tab;
extern const mf_choice mf_tab_choices[];

typedef enum mf_focus { MF_FOCUS_TABLE, MF_FOCUS_DETAIL, MF_FOCUS_SIDE } mf_focus;

typedef enum mf_panel {
	MF_PANEL_NONE,
	MF_PANEL_HELP,
	MF_PANEL_COMPARE,
	MF_PANEL_PICKER,
	MF_PANEL_ASSUMPTIONS,
	MF_PANEL_BOUNDARIES
} mf_panel;

#define MF_MAX_COLUMNS 16
#define MF_MAX_FILTERS 32
#define MF_FILTER_NAME_MAX 40

/** A filter the user gave a name. */
typedef struct mf_named_filter {
	char name[MF_FILTER_NAME_MAX], text[MF_PROMPT_MAX];
} mf_named_filter;

/** The line being typed, with its history. */
typedef struct mf_prompt {
	mf_action action; /* what Enter does: FILTER, FIND, COMMAND, EXPORT, MODEL, CLUSTER; MF_ACT_NONE: no prompt */
	char text[MF_PROMPT_MAX];
	size_t len, cursor;       /* bytes */
	int history_at;           /* -1: the line itself */
	char kept[MF_PROMPT_MAX]; /* the line while history is shown; the old filter for Esc */
	char before[MF_PROMPT_MAX];
	bool overwrite; /* export: the file exists and the next Enter replaces it */
	int tries;      /* Tabs in a row: */
	size_t stem;    /* they go through what begins with the first `stem` bytes of the word */
} mf_prompt;

typedef struct mf_history {
	char line[MF_HISTORY][MF_PROMPT_MAX];
	int n;
} mf_history;

/** Everything the detail pane shows of one plan; made by detail.c when the selection or the inputs change. */
typedef struct mf_detail {
	bool valid; /* for `plan` and `generation` */
	mf_plan plan;
	unsigned generation;
	mf_status status; /* of the explanation */
	mf_err err;
	mf_explain *explain; /* owned; allocated once */
	mf_refusal refusal;  /* rule "" when buildable */
	char note[256];      /* of the paper's emitter */
	bool timeline_valid;
	mf_status timeline_status;
	mf_err timeline_err;
	mf_timeline timeline; /* owned */
	bool argv_valid;
	mf_buf argv;      /* one argument a line; empty when the toolchain has no words */
	bool plain_valid; /* plain_argv is the command of the plan of all defaults, for plain_generation */
	unsigned plain_generation;
	mf_buf plain_argv;
	char argv_sha256[65], plan_sha256[65];
	bool neighbour_valid;
	uint32_t neighbour; /* nearest buildable row, MF_NO_ROW */
	int neighbour_changes;
} mf_detail;

/** Evaluators for the detail pane, the export and the copy; owned by the UI thread. */
typedef struct mf_evaluators {
	mf_cost *cost;
	mf_emitter *emitter;
} mf_evaluators;

/** Everything a ranking assumes: what the user changes, what undo brings back. A plain value. */
typedef struct mf_settings {
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_search_opts search; /* space, cost, threads; search.constraint is not used: plans are always judged */
	bool constraint, tax;
	char overlay[256]; /* names and paths, separated by commas; "" for none */
} mf_settings;

#define MF_UNDO 32

/** Ranks before the last change of an assumption. Of the same rows by their number, of other rows by their plan. */
typedef struct mf_before {
	unsigned rows_id; /* `rank_of` counts for these rows */
	uint32_t *rank_of;
	uint64_t *hash; /* open addressing over mf_plan_hash; `cap` is a power of two, 0 when there is no table */
	uint32_t *rank; /* MF_NO_ROW: the slot is free */
	size_t cap;
} mf_before;

#define MF_SIDE_LINES 1000
#define MF_MAX_NODE_GPUS 16

/** The last lines of a tab, oldest first from `first` on. */
typedef struct mf_side_log {
	char (*line)[256]; /* MF_SIDE_LINES of them once there is one; owned */
	int first, n;
} mf_side_log;
/** What the driver said last. */
typedef struct mf_node_state {
	bool known;
	char error[256]; /* why there are no GPUs, "" when there are */
	size_t n_gpus;
	mf_gpu_state gpu[MF_MAX_NODE_GPUS];
} mf_node_state;
typedef struct mf_measured_plan {
	mf_plan plan;
	double throughput; /* tokens/s/GPU */
} mf_measured_plan;
/** The pane of news, and the measurements that came with them. */
typedef struct mf_side {
	bool open;
	mf_side_tab tab;
	int scroll; /* logs: lines back from the newest; node: lines from the top */
	int lines, height;
	mf_side_log log[MF_SIDE_NODE];
	mf_node_state node;
	mf_measured_plan *measured; /* owned */
	size_t n_measured, cap_measured;
} mf_side;

/** What the installed toolchain said of a plan. */
typedef struct mf_ask_answer {
	mf_plan plan;
	mf_status status; /* below 0: there was no answer, `err` says why */
	mf_err err;
	char witness[64]; /* "megatron-core 0.18.0" */
	mf_real_verdict verdict;
} mf_ask_answer;

/** Dots of a picture, two across and four down in a cell; drawn anew only when rows or size changed. */
typedef struct mf_plot {
	uint8_t *refused, *buildable; /* a byte of dots a cell; owned */
	int w, h;
	unsigned rows_id;
	bool tax;
	double x_min, x_max, y_max;
} mf_plot;

typedef struct mf_app {
	mf_settings now;      /* what is assumed, */
	mf_settings settled;  /* as the last search or order took it, */
	mf_settings defaults; /* as at the start, */
	mf_settings target;   /* and as MF_FX_RESTORE is to make it */
	mf_settings *past;    /* MF_UNDO of them, owned: [0, n_past) can be undone, the n_future after them redone */
	int n_past, n_future;
	mf_inputs in; /* points into `now` */
	mf_consts consts;
	mf_phase phase;
	uint32_t world;
	mf_evaluators eval;
	unsigned generation; /* of rows and constants: detail and marks notice a change */

	mf_sort_key sort;
	bool descending;
	mf_show show;
	char filter[MF_PROMPT_MAX], find[MF_PROMPT_MAX];
	mf_filter *find_parsed;

	/* data; the arrays belong to the loop's search and arrangement */
	const mf_row *rows;
	size_t n_rows;
	const uint32_t *rank_of; /* row -> rank from 0 by throughput; NULL while unknown */
	const uint32_t *view;    /* rows on show, in order */
	size_t n_view;
	mf_search_counts counts;
	mf_search_timing timing;
	const mf_reason_count *reasons;
	size_t n_reasons;
	double budget_bytes; /* NaN while unknown */
	bool searching, arranging;
	uint64_t arrived;      /* rows of the running search */
	mf_before before;      /* owned */
	const uint32_t *front; /* rows of the Pareto front, by what a plan costs (mf_front_cost); the worker's */
	size_t n_front;
	mf_plot plot;  /* the cloud of all plans as drawn last */
	uint32_t best; /* first row of the ranking under the constraint, MF_NO_ROW */

	mf_side side;
	mf_ask_answer asked; /* the last one; of no plan while witness is "" */
	mf_keymap keymap;
	uint8_t columns[MF_MAX_COLUMNS]; /* of view.c, in the user's order */
	int n_columns;                   /* 0: the default */
	mf_named_filter filters[MF_MAX_FILTERS];
	int n_filters;

	/* screen */
	int w, h;
	bool ascii, mouse, hide_times;
	size_t cursor, top;        /* index into view */
	bool pinned;               /* the user moved: keep to the plan, not the place */
	mf_plan selected;          /* plan under the cursor when pinned, */
	uint32_t selected_row;     /* its row, */
	unsigned selected_rows_id; /* and the rows it was one of */
	unsigned rows_id;          /* which rows these are: row numbers mean the same while it stays */
	mf_focus focus;
	mf_tab tab;
	bool front_open;                /* the picture stands where the table stood */
	bool detail_open, detail_asked; /* asked: the user decided, not the window size */
	int detail_scroll, detail_lines, detail_height;
	int page; /* rows of the table, as drawn last */
	mf_detail detail;
	int zoom;         /* the timeline shows 1 / 2^zoom of the step, */
	double zoom_from; /* from this share of it on */
	mf_plan marks[MF_MAX_MARKS];
	int n_marks;
	mf_panel panel;
	int panel_scroll, panel_lines, panel_height;
	/* picker */
	mf_action picker; /* SORT, OVERLAY, THEME, LEDGER, SPACE */
	char picker_items[64][64];
	int n_items, item;
	mf_prompt prompt;
	mf_history filter_history, command_history;
	char message[1024];
	bool message_is_error;

	/* arguments of effects */
	mf_theme look;                          /* the theme in force */
	char theme[256], wanted[MF_PROMPT_MAX]; /* wanted: file, overlay, model or cluster */
	bool theme_chosen;                      /* by the user, not by the terminal */
	bool export_replace;
} mf_app;

/** Starts a model on copies of the inputs. Frees nothing on failure that mf_app_dispose would not. */
mf_status mf_app_init(mf_app *a, const mf_tui_opts *opts, mf_err *err);
void mf_app_dispose(mf_app *a);
/** Constants of the cluster with the overlay named, and evaluators over them. On failure the old ones stay. */
mf_status mf_app_set_overlay(mf_app *a, const char *overlay, mf_err *err);
/** Makes the evaluators anew after inputs, constants or options changed. */
mf_status mf_app_rebuild(mf_app *a, mf_err *err);

/* ---- update ---- */

unsigned mf_app_key(mf_app *a, const mf_key_event *k);
unsigned mf_app_resize(mf_app *a, int w, int h);
/** Does an action, with the argument its ':' form was given ("" for none). */
unsigned mf_app_act(mf_app *a, mf_action action, const char *argument);
/** Runs a ':' line (without the colon). */
unsigned mf_app_command(mf_app *a, const char *line);
/** A new arrangement of rows came: keeps the cursor on its plan. */
unsigned mf_app_arranged(mf_app *a, const uint32_t *rank_of, const uint32_t *view, size_t n_view);
/** Shows a message until the next key. */
void mf_app_say(mf_app *a, bool is_error, const char *fmt, ...) MF_PRINTF(3, 4);
/** Shows what went wrong, after `what` ("" or such as "not written: "). */
void mf_app_say_error(mf_app *a, const char *what, const mf_err *err);
/** Row under the cursor, NULL when there is none. */
const mf_row *mf_app_selected(const mf_app *a);
/** Name `e` offers for the selected plan. */
void mf_app_export_name(const mf_app *a, char *out, size_t size);
unsigned mf_prompt_key(mf_app *a, const mf_key_event *k);
void mf_prompt_open(mf_app *a, mf_action action, const char *text);

/* ---- what if ---- */

/** One assumption that can be changed. The ':' commands, the panel, the bar of changes and completion read this table. */
typedef struct mf_knob {
	mf_action action; /* names it */
	int kind;         /* of whatif.c */
	unsigned phases;  /* bit 1<<MF_TRAIN, 1<<MF_SERVE */
	size_t at;        /* its field of mf_settings */
	double min, max;
	const mf_choice *choices; /* NULL for numbers and names */
	bool arranges;            /* needs no search: the rows at hand are ordered anew */
} mf_knob;
/** Knob i of this phase, NULL past the end. */
const mf_knob *mf_knob_at(const mf_app *a, int i);
/** Knob of an action, NULL when it changes no assumption of this phase. */
const mf_knob *mf_knob_of(const mf_app *a, mf_action action);
/** Value as text; also what mf_knob_set reads. */
void mf_knob_text(const mf_settings *s, const mf_knob *k, char *out, size_t size);
/** Sets it from text and returns effects; a bad text changes nothing and says why. */
unsigned mf_knob_set(mf_app *a, const mf_knob *k, const char *text);
/** The next (by = 1) or previous (-1) choice, or the number doubled or halved. */
unsigned mf_knob_turn(mf_app *a, const mf_knob *k, int by);
/** Choices of a knob as a NULL-terminated list of at most `cap` names; 0 when it takes any text. */
size_t mf_knob_names(const mf_app *a, const mf_knob *k, const char **out, size_t cap);
/** "nodes 2 (1), tax off (on)": what differs from the start; "" when nothing does. Returns how many do. */
int mf_whatif_words(const mf_app *a, char *out, size_t size);
/** Notes a change of `now`, for undo. Called when effects have been carried out. */
void mf_whatif_settle(mf_app *a);
/** The state `by` steps back (-1) or forward (1); effects. */
unsigned mf_whatif_step(mf_app *a, int by);
unsigned mf_whatif_defaults(mf_app *a);
/** True when rows of `x` say nothing about `y`: another model, GPU or phase. */
bool mf_whatif_unrelated(const mf_settings *x, const mf_settings *y);

/** Table of ranks by plan; cap stays 0 when memory is short. */
void mf_before_make(mf_before *b, const mf_row *rows, const uint32_t *by_rank, size_t n);
void mf_before_dispose(mf_before *b);
/** Rank from 0 that a row's plan had, MF_NO_ROW when it had none. */
uint32_t mf_before_rank(const mf_before *b, const mf_plan *p, uint32_t row, unsigned rows_id);
/** True when there is anything to compare with. */
bool mf_before_any(const mf_before *b, unsigned rows_id);

/* ---- detail ---- */

/** Fills a->detail for the selected row where it is stale. */
void mf_detail_refresh(mf_app *a);
/** Work on the detail pane that may take some milliseconds, for when no key waits; true when it changed something. */
bool mf_detail_idle(mf_app *a);
/** Row of the buildable plan nearest to the selected one, MF_NO_ROW when there is none. */
uint32_t mf_detail_neighbour(mf_app *a);
/** The command of the selected plan; refused plans give one too when `forced` and the toolchain has words. */
mf_status mf_detail_command(mf_app *a, const mf_plan *p, bool forced, mf_argv *out, mf_err *err);
/** Draws the tab into r; returns how many lines it has in all. */
int mf_detail_draw(mf_app *a, mf_cells *s, mf_rect r, int scroll);
/** As mf_detail_draw, for the comparison of marked plans. */
int mf_compare_draw(mf_app *a, mf_cells *s, mf_rect r, int scroll);

/* ---- the Pareto front as a picture ---- */

/** What a plan costs: memory in GB (training) or TPOT in ms (serving). */
double mf_front_cost(const mf_app *a, const mf_row *row);
/** Draws the picture over r, with the heading above it. */
void mf_plot_draw(mf_app *a, mf_cells *s, mf_rect heading, mf_rect r);
/** Row of the front `by` places from the cursor's plan, MF_NO_ROW when there is none. */
uint32_t mf_plot_step(const mf_app *a, long by);
/** Row of the front nearest to a place in r, MF_NO_ROW when there is none (mouse). */
uint32_t mf_plot_at(const mf_app *a, mf_rect r, int x, int y);
void mf_plot_dispose(mf_plot *p);

/* ---- the side pane ---- */

/** Takes what a source has, up to a screenful of screenfuls; true when something came. `jobs` may be NULL. */
bool mf_side_take(mf_app *a, const mf_job_source *jobs);
/** Adds a line of our own to a tab. */
void mf_side_note(mf_app *a, mf_side_tab tab, const char *line);
/** What a plan was measured at, tokens/s/GPU; NaN when it was not. */
double mf_side_measured(const mf_side *s, const mf_plan *p);
void mf_side_draw(mf_app *a, mf_cells *s, mf_rect tabs, mf_rect r);
/** Tab whose name is at column x of the line of tabs, -1 for none. */
int mf_side_tab_at(mf_rect tabs, int x);
void mf_side_dispose(mf_side *s);

/** Asks the driver about this node's GPUs without waiting for the answer. */
typedef struct mf_node_watch mf_node_watch;
/** NULL when no thread can be had. */
mf_node_watch *mf_node_watch_new(void);
void mf_node_watch_free(mf_node_watch *n);
/** Its tab came into sight, or went: while it is there the driver is asked once a second. */
void mf_node_watch_show(mf_node_watch *n, bool shown);
/** Readable when there is an answer other than the last one. */
int mf_node_watch_fd(const mf_node_watch *n);
bool mf_node_watch_take(mf_node_watch *n, mf_node_state *out);

/* ---- the real toolchain ---- */

/** Asks the installed toolchain about plans, one at a time, without keeping the screen waiting. */
typedef struct mf_asker mf_asker;
/** NULL when no thread can be had. */
mf_asker *mf_asker_new(const mf_tui_opts *opts);
/** Ends the witness and the thread. */
void mf_asker_free(mf_asker *k);
/** A question is out. */
bool mf_asker_busy(const mf_asker *k);
/** Asks about the selected plan, unless a question is out already. */
void mf_asker_ask(mf_asker *k, mf_app *a);
/** Readable when the answer is there. */
int mf_asker_fd(const mf_asker *k);
/** Moves the answer into the app and says it; false when there is none. */
bool mf_asker_take(mf_asker *k, mf_app *a);

/* ---- view ---- */

/** Where things stand on a w x h screen; rectangles without area are absent, none overlap. */
typedef struct mf_layout {
	bool too_small;
	mf_rect header, heading, table, rule, tabs, detail, side_tabs, side, status;
	bool beside; /* detail at the right of the table, not below */
} mf_layout;
#define MF_MIN_W 60
#define MF_MIN_H 16
void mf_layout_make(mf_layout *l, int w, int h, bool detail_open, bool side_open);
/** Whether the detail pane is shown when the user did not decide. */
bool mf_layout_detail_default(int w, int h);
/** Draws everything; *cursor_x is -1 when the cursor is hidden. */
void mf_app_view(mf_app *a, mf_cells *s, int *cursor_x, int *cursor_y);
/** The heading and the rows in sight. */
void mf_table_draw(mf_app *a, mf_cells *s, const mf_layout *l);
/** Names of the columns shown, separated by blanks. */
void mf_columns_text(const mf_app *a, char *out, size_t size);
/** Sets them from such a text, or "default". */
mf_status mf_columns_set(mf_app *a, const char *text, mf_err *err);
/** Every column of this phase by name, NULL-terminated. */
void mf_columns_names(const mf_app *a, const char **out, size_t cap);
/** Tab of the detail pane whose name is at column x, -1 for none (mouse). */
int mf_view_tab_at(mf_rect tabs, int x);
/** True when (x, y) lies on the open panel; *line is then the line of it there, -1 on its frame (mouse). */
bool mf_view_panel_line(const mf_app *a, int x, int y, int *line);
/** Sort key of the column whose heading is at column x, -1 for none (mouse). */
int mf_view_heading_key(const mf_app *a, int x);

/** What is said of a plan within the ledger's error of the budget. */
extern const char mf_probe_words[];
/* Numbers as the screen shows them; NaN is "-". */
void mf_format_number(char *out, size_t size, double v, int digits);
void mf_format_count(char *out, size_t size, uint64_t n);

/* ---- worker: threads that search and arrange ---- */

typedef struct mf_worker mf_worker;
mf_status mf_worker_new(mf_worker **out, mf_err *err);
/** Cancels, waits for the threads, frees. */
void mf_worker_free(mf_worker *w);
/** Readable when something came in; mf_worker_take takes it. */
int mf_worker_fd(const mf_worker *w);
/** Starts a search over the app's inputs; a running one is canceled first and the new one begins when it has ended. */
void mf_worker_search(mf_worker *w, mf_app *a);
/** Cancels a search; true when none is running any more (inputs may be exchanged). */
bool mf_worker_stop(mf_worker *w);
/** Drops all rows, before inputs are exchanged; false while a thread still reads them: try again after the next take. */
bool mf_worker_clear(mf_worker *w, mf_app *a);
/** Wants rows ordered and filtered as the app's state says. */
void mf_worker_arrange(mf_worker *w, mf_app *a);
/** Moves what came in into the app; returns effects. */
unsigned mf_worker_take(mf_worker *w, mf_app *a);
/** True when nothing runs and nothing waits. */
bool mf_worker_idle(const mf_worker *w);

/* ---- what is kept between one start and the next ---- */

/** Reads the user's keys and filters; a file that is not there is no error. */
mf_status mf_store_load_config(mf_app *a, mf_err *err);
/** Keeps a->filter as `name` and writes all of them. */
mf_status mf_store_save_filter(mf_app *a, const char *name, mf_err *err);
/** Text of a filter: itself, or what '@NAME' stands for; NULL and a message when there is no such name. */
const char *mf_filter_named(mf_app *a, const char *text);
/** The session as it is now, for the next start. */
mf_status mf_store_save_session(const mf_app *a, mf_err *err);
/**
 * Brings the last session of this model, cluster and phase back, if there was one: assumptions, sort, filter, columns,
 * tab, marks, cursor, history. A session that cannot be read is left alone and said.
 */
mf_status mf_store_load_session(mf_app *a, mf_err *err);

/* ---- loop and script ---- */

/** Carries out everything in `fx` but redrawing, quitting and what needs a terminal; returns what is left. */
unsigned mf_effects_run(mf_app *a, mf_worker *w, const mf_tui_opts *opts, unsigned fx);
/** Text for the clipboard: the command, or the refusal. */
void mf_copy_text(mf_app *a, mf_buf *out);
mf_status mf_loop_run(mf_app *a, const mf_tui_opts *opts, mf_err *err);
mf_status mf_script_run(mf_app *a, const mf_tui_opts *opts, mf_err *err);

#endif
