/* tui_pen.h: lines written one below the other into a rectangle, some of them scrolled out. */
#ifndef MF_TUI_PEN_H
#define MF_TUI_PEN_H

#include "tui_app.h"

typedef struct mf_pen {
	const mf_app *a;
	mf_cells *s;
	mf_rect r;
	int scroll, line; /* lines above the rectangle; the one being written, from 0 */
} mf_pen;

/** Row of the screen that the line is on, -1 when it is scrolled out. */
int mf_pen_y(const mf_pen *p);
/** Text in the line, from column x of the rectangle on; the line stays the same. */
void mf_pen_put(mf_pen *p, int x, mf_role role, const char *text);
/** The same at the right of `width` columns. */
void mf_pen_right(mf_pen *p, int x, int width, mf_role role, const char *text);
/** Text broken into lines of the rectangle, from column x on; the pen goes below them. */
void mf_pen_wrapped(mf_pen *p, int x, mf_role role, const char *text);

/** The tab of a plan's simulated step. */
void mf_timeline_tab(mf_pen *p);

#endif
