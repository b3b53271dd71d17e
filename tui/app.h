/*
 * app.h: the model of the terminal program. update.c changes it, view.c and detail.c draw it; neither waits on anything.
 * Effects that reach outside (frames, clipboard, leaving) are returned as bits or kept as requests for the loop.
 */
#ifndef MF_TUI_APP_H
#define MF_TUI_APP_H

#include "tui_cell.h"
#include "tui_filter.h"
#include "tui_keys.h"
#include "tui_theme.h"

/* What a message made necessary. */
enum { MF_FX_REDRAW = 1, MF_FX_QUIT = 2, MF_FX_SUSPEND = 4, MF_FX_COPY = 8, MF_FX_THEME = 16, MF_FX_MOUSE = 32,
	MF_FX_INVALIDATE = 64, MF_FX_DUMP = 128 };

typedef enum mf_tab { MF_TAB_OVERVIEW, MF_TAB_MEMORY, MF_TAB_TIME, MF_TAB_WHY, MF_TAB_ARGV, MF_TAB_COUNT } mf_tab;
typedef enum mf_mode { MF_MODE_LIST, MF_MODE_PROMPT, MF_MODE_HELP, MF_MODE_COMPARE } mf_mode;
typedef enum mf_show { MF_SHOW_ALL, MF_SHOW_BUILDABLE, MF_SHOW_REJECTED } mf_show;

/* ---- the search behind the screen (worker.c) --------------------------------------------------------------------- */

typedef struct mf_worker mf_worker;
#define MF_LIVE_ROWS 256
/** What the worker has found so far: the best rows in rank order, and how many there are. */
typedef struct mf_live { mf_row rows[MF_LIVE_ROWS]; size_t n; uint64_t seen; } mf_live;
mf_status mf_worker_new(mf_worker **out, mf_err *err);
void mf_worker_free(mf_worker *w);                      /* cancels and joins */
/** Starts a search, cancelling one under way. Inputs and constants are borrowed until it is done. */
mf_status mf_worker_start(mf_worker *w, const mf_inputs *in, const mf_consts *k, const mf_search_opts *o, mf_err *err);
void mf_worker_cancel(mf_worker *w);                    /* and waits for it */
bool mf_worker_busy(const mf_worker *w);
/** Readable when there is something new. */
int mf_worker_fd(const mf_worker *w);
/** Takes news: copies the live rows; when the search ended gives its result (owned by the caller) or error. */
typedef struct mf_news { bool ended; mf_search *result; mf_status status; mf_err err; } mf_news;
void mf_worker_take(mf_worker *w, mf_live *live, mf_news *news);

/* ---- the model ----------------------------------------------------------------------------------------------------- */

#define MF_MAX_MARKS 4
#define MF_LINE_MAX 512
#define MF_HISTORY 32

/** What the selected plan shows; filled when the selection changes. */
typedef struct mf_detail {
	bool filled;
	mf_plan plan;
	mf_refusal refusal;
	char note[256];
	mf_explain *ex;          /* owned by the app */
	mf_argv argv;            /* forced walk; n == 0 when the toolchain has no words */
	bool has_argv;
} mf_detail;

typedef struct mf_app {
	const mf_tui_opts *opts;
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_site site;
	mf_consts consts;
	mf_inputs in;
	mf_cost_opts cost;
	mf_space space;
	char overlay[64];
	mf_emitter *emitter;
	mf_cost *evaluator;
	mf_realizer realizer;

	mf_worker *worker;
	mf_search *found;        /* NULL until the first search ended */
	mf_live live;
	bool searching;

	mf_sort_key sort;
	bool descending, tax, constraint;
	mf_show show;
	mf_filter *filter, *find;
	char filter_text[MF_LINE_MAX], find_text[MF_LINE_MAX];
	uint32_t *shown;         /* ranks (0-based) of the rows on the list */
	size_t n_shown;
	size_t cursor, top;      /* places in shown */
	bool has_selection;
	mf_plan selection;       /* the cursor follows this plan */
	mf_plan marks[MF_MAX_MARKS];
	size_t n_marks;

	mf_mode mode;
	bool detail_open, detail_focus;
	mf_tab tab;
	int detail_scroll, help_scroll;
	mf_detail detail;

	mf_action prompt_action;
	char prompt[MF_LINE_MAX];
	size_t prompt_len;
	char history[MF_HISTORY][MF_LINE_MAX];
	size_t n_history, history_at;

	char message[MF_LINE_MAX];
	bool message_error;
	mf_buf copy;             /* text for the clipboard, with MF_FX_COPY */
	mf_theme theme;
	bool mouse;
	mf_cells cells;
	int cursor_x, cursor_y;  /* of the prompt; -1: hidden */
} mf_app;

mf_status mf_app_init(mf_app *a, const mf_tui_opts *opts, mf_err *err);
void mf_app_dispose(mf_app *a);
/** Each returns effect bits. */
unsigned mf_app_key(mf_app *a, const mf_key_event *k);
unsigned mf_app_command(mf_app *a, const char *line);   /* as typed behind ':' */
unsigned mf_app_search_news(mf_app *a);
unsigned mf_app_resize(mf_app *a, int w, int h);

/** Row at a place of the list, NULL past its end. */
const mf_row *mf_app_row(const mf_app *a, size_t place);
/** Number of rows the list can be moved over. */
size_t mf_app_rows(const mf_app *a);
/** Fills a->detail for the selected row. */
void mf_app_fill_detail(mf_app *a);
void mf_app_say(mf_app *a, bool error, const char *fmt, ...) MF_PRINTF(3, 4);

/* ---- the view ------------------------------------------------------------------------------------------------------ */

/** Rectangles of the screen; a pure function of size and state. Height 0: not shown. */
typedef struct mf_layout { bool too_small; mf_rect header, table, detail, reason, status; } mf_layout;
mf_layout mf_layout_of(int w, int h, bool detail);
/** Draws the model into a->cells. */
void mf_app_view(mf_app *a);
void mf_view_detail(mf_app *a, mf_rect r);
void mf_view_compare(mf_app *a, mf_rect r);

mf_status mf_script_run(const mf_tui_opts *opts, mf_err *err);

#endif
