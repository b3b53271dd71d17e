/* pen.c: lines written into a rectangle of the screen. */
#include "tui_pen.h"

#include <string.h>

int mf_pen_y(const mf_pen *p)
{
	int y = p->line - p->scroll;
	return y >= 0 && y < p->r.h ? p->r.y + y : -1;
}

void mf_pen_put(mf_pen *p, int x, mf_role role, const char *text)
{
	int y = mf_pen_y(p);
	if (y >= 0 && x < p->r.w)
		mf_cells_text(p->s, p->r.x + x, y, p->r.w - x, role, text);
}

void mf_pen_right(mf_pen *p, int x, int width, mf_role role, const char *text)
{
	int y = mf_pen_y(p);
	if (y >= 0 && x < p->r.w)
		mf_cells_right(p->s, p->r.x + x, y, x + width > p->r.w ? p->r.w - x : width, role, text);
}

void mf_pen_wrapped(mf_pen *p, int x, mf_role role, const char *text)
{
	int room = p->r.w - x;
	char piece[1024];

	if (room < 1)
		return;
	do {
		size_t n = mf_text_line(text, room, p->s->ascii);
		if (n >= sizeof(piece))
			n = sizeof(piece) - 1;
		memcpy(piece, text, n);
		piece[n] = 0;
		mf_pen_put(p, x, role, piece);
		p->line++;
		text += n;
		if (*text == '\n')
			text++;
		while (*text == ' ')
			text++;
	} while (*text);
}
