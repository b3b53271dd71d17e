/* tui_theme.h: what each role looks like. */
#ifndef MF_TUI_THEME_H
#define MF_TUI_THEME_H

#include "tui_cell.h"

/** A colour: the terminal's own, an index 0..255, or MF_RGB | 0xRRGGBB. */
#define MF_COLOR_OWN 0xffffffffu
#define MF_RGB 0x1000000u

enum { MF_ATTR_BOLD = 1, MF_ATTR_DIM = 2, MF_ATTR_UNDERLINE = 4, MF_ATTR_REVERSE = 8 };
typedef struct mf_style {
	uint32_t fg, bg;
	uint8_t attr;
} mf_style;
typedef struct mf_theme {
	char name[32];
	mf_style style[MF_ROLE_COUNT];
} mf_theme;

/**
 * Loads NAME: $XDG_CONFIG_HOME/moefs/themes/NAME.yaml before the built-in one, or a path with a '/' or '.yaml'. Roles a
 * file leaves out look as in the default theme; an unknown role or colour is an error with file and line.
 */
mf_status mf_theme_load(mf_theme *out, const char *name, mf_err *err);
mf_status mf_theme_parse(mf_theme *out, const char *file, const char *text, size_t len, mf_err *err);
/** Text of a built-in theme, NULL when there is none; the same bytes as themes/NAME.yaml. */
const char *mf_theme_builtin(const char *name);
/** Index nearest to `color` among the first `colors` (8, 16 or 256) of a terminal. */
uint32_t mf_color_reduce(uint32_t color, int colors);

#endif
