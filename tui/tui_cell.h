/* tui_cell.h: the screen as an array of cells, and the only code that knows how wide a character is. */
#ifndef MF_TUI_CELL_H
#define MF_TUI_CELL_H

#include "tui.h"

/** Where a cell's look comes from: X(id, "name in a theme"). */
/* clang-format off */
#define MF_ROLES(X) \
	X(TEXT, "text") X(DIM, "dim") X(HEADER, "header") X(HEADER_DIM, "header_dim") X(TITLE, "title") \
	X(SELECTED, "selected") X(SELECTED_REJECTED, "selected_rejected") X(REJECTED, "rejected") \
	X(BUILDABLE, "buildable") X(PROBE, "probe") X(REASON, "reason") X(MESSAGE, "message") X(ERROR, "error") \
	X(PROMPT, "prompt") X(KEY, "key") X(KEY_HELP, "key_help") X(BORDER, "border") X(TAB, "tab") \
	X(TAB_ACTIVE, "tab_active") X(BAR1, "bar1") X(BAR2, "bar2") X(BAR3, "bar3") X(BAR4, "bar4") \
	X(BAR_OVER, "bar_over") X(MARK, "mark") X(ACCENT, "accent") X(POPUP, "popup") X(POPUP_SELECTED, "popup_selected")
/* clang-format on */
typedef enum mf_role {
#define X(id, name) MF_ROLE_##id,
	MF_ROLES(X)
#undef X
		MF_ROLE_COUNT
} mf_role;

/** One column of one row. A wide character holds its left cell; the right one has width 0 and is not written. */
typedef struct mf_cell {
	uint32_t ch;   /* code point */
	uint32_t mark; /* one combining code point, 0 for none */
	uint8_t role;  /* mf_role */
	uint8_t width; /* 1, 2, or 0: right half of the character before it */
} mf_cell;

/** A screen. Owns its cells. */
typedef struct mf_cells {
	int w, h;
	mf_cell *cell; /* w*h, row by row */
	bool ascii;    /* draw nothing beyond ASCII */
} mf_cells;

typedef struct mf_rect {
	int x, y, w, h;
} mf_rect;

/** Sizes the screen (at least 1x1) and clears it. On failure the old one stays. */
mf_status mf_cells_resize(mf_cells *s, int w, int h);
void mf_cells_dispose(mf_cells *s);
void mf_cells_fill(mf_cells *s, mf_rect r, mf_role role, uint32_t ch);
/**
 * Writes UTF-8 text from column x of row y, over at most `max` columns; what does not fit is cut and the last column
 * becomes an ellipsis. Bytes that are not UTF-8 and control characters are shown as \xNN. Returns the columns used.
 */
int mf_cells_text(mf_cells *s, int x, int y, int max, mf_role role, const char *text);
/** As mf_cells_text, flush right in a field of `max` columns. */
int mf_cells_right(mf_cells *s, int x, int y, int max, mf_role role, const char *text);
/** Columns a text takes when drawn. */
int mf_text_width(const char *text, bool ascii);
/** Bytes of `text` (at most `len`) that fit into `max` columns, cutting between characters; *width receives the columns. */
size_t mf_text_fit(const char *text, size_t len, int max, bool ascii, int *width);
/**
 * Bytes of `text` that make a line of at most `max` columns: to its end or a newline, else broken at a blank, else after
 * a '/' or a comma, else anywhere. At least 1 while there is text.
 */
size_t mf_text_line(const char *text, int max, bool ascii);
/** Decodes one code point; returns the bytes taken (at least 1 when len > 0). A bad byte gives *cp = 0xFFFFFFFF. */
size_t mf_utf8_decode(const char *s, size_t len, uint32_t *cp);
/** Writes a code point as UTF-8, returns the bytes (1..4). */
size_t mf_utf8_encode(uint32_t cp, char out[4]);
/** The screen as text: a line a row, trailing blanks cut. */
void mf_cells_dump(const mf_cells *s, mf_buf *out);

/** Signs with a UTF-8 and an ASCII form. */
typedef enum mf_glyph {
	MF_G_HLINE,
	MF_G_VLINE,
	MF_G_ELLIPSIS,
	MF_G_UP,
	MF_G_DOWN,
	MF_G_CURSOR,
	MF_G_MARK,
	MF_G_REFUSED,
	MF_G_DOT,
	MF_G_BAR1,
	MF_G_BAR2,
	MF_G_BAR3,
	MF_G_BAR4,
	MF_G_BAR5,
	MF_G_EMPTY,
	MF_G_OVER,
	MF_G_CORNER_TL,
	MF_G_CORNER_TR,
	MF_G_CORNER_BL,
	MF_G_CORNER_BR,
	MF_G_POINT,
	MF_G_HERE,
	MF_G_COUNT
} mf_glyph;
/** Text of a glyph, one column wide. */
const char *mf_glyph_text(mf_glyph g, bool ascii);
/** A bar of `width` columns, `share` of it full; over 1 its last column says so. Nothing is drawn of NaN. */
void mf_cells_gauge(mf_cells *s, int x, int y, int width, double share, mf_role full, mf_role empty);

#endif
