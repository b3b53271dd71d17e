/* cell.c: cells, widths and clipping. Widths are wcwidth's, asked in one place, so layout and drawing cannot differ. */
#include "tui_cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define BAD_BYTE UINT32_MAX

static const char *const glyphs[MF_G_COUNT][2] = {
	[MF_G_HLINE] = {"─", "-"},
	[MF_G_VLINE] = {"│", "|"},
	[MF_G_ELLIPSIS] = {"…", "~"},
	[MF_G_UP] = {"▲", "^"},
	[MF_G_DOWN] = {"▼", "v"},
	[MF_G_CURSOR] = {"▶", ">"},
	[MF_G_MARK] = {"◆", "*"},
	[MF_G_REFUSED] = {"✗", "x"},
	[MF_G_DOT] = {"·", "."},
	[MF_G_BAR1] = {"█", "#"},
	[MF_G_BAR2] = {"▓", "="},
	[MF_G_BAR3] = {"▒", "+"},
	[MF_G_BAR4] = {"░", ":"},
	[MF_G_BAR5] = {"▚", "%"},
	[MF_G_EMPTY] = {"·", "."},
	[MF_G_OVER] = {"!", "!"},
	[MF_G_CORNER_TL] = {"┌", "+"},
	[MF_G_CORNER_TR] = {"┐", "+"},
	[MF_G_CORNER_BL] = {"└", "+"},
	[MF_G_CORNER_BR] = {"┘", "+"},
	[MF_G_POINT] = {"●", "o"},
	[MF_G_HERE] = {"◆", "@"},
};

const char *mf_glyph_text(mf_glyph g, bool ascii)
{
	return glyphs[g][ascii ? 1 : 0];
}

size_t mf_utf8_decode(const char *text, size_t len, uint32_t *cp)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t need;
	uint32_t value, least;

	*cp = BAD_BYTE;
	if (len == 0)
		return 0;
	if (s[0] < 0x80) {
		*cp = s[0];
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		need = 1, value = s[0] & 0x1fu, least = 0x80;
	} else if ((s[0] & 0xf0) == 0xe0) {
		need = 2, value = s[0] & 0x0fu, least = 0x800;
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		need = 3, value = s[0] & 0x07u, least = 0x10000;
	} else {
		return 1;
	}
	if (len <= need)
		return 1;
	for (size_t i = 1; i <= need; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 1;
		value = value << 6 | (s[i] & 0x3fu);
	}
	if (value < least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return 1;
	*cp = value;
	return need + 1;
}

size_t mf_utf8_encode(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

/* One drawn unit of a text: a character, or the four characters of an escaped byte. */
struct unit {
	uint32_t ch;    /* first column's code point */
	char escape[5]; /* "\xNN" when escaped, else "" */
	int width;      /* 0 for a combining mark */
	size_t bytes;
};

static struct unit next_unit(const char *text, size_t len, bool ascii)
{
	struct unit u = {0, "", 1, 0};
	uint32_t cp;

	u.bytes = mf_utf8_decode(text, len, &cp);
	if (cp == '\t')
		cp = ' ';
	if (cp >= 0x20 && cp < 0x7f) {
		u.ch = cp;
		return u;
	}
	if (cp != BAD_BYTE && cp >= 0xa0) {
		int w = wcwidth((wchar_t)cp);
		if (ascii) {
			u.ch = '?';
			u.width = w == 0 ? 0 : 1;
			return u;
		}
		if (w >= 0) {
			u.ch = cp;
			u.width = w;
			return u;
		}
		u.ch = 0xfffd;
		return u;
	}
	/* A control character or a byte that is no UTF-8: shown, never sent to the terminal. */
	static const char digits[] = "0123456789abcdef";
	unsigned char byte = (unsigned char)text[0];
	if (u.bytes == 2)
		byte = (unsigned char)cp;
	u.escape[0] = '\\', u.escape[1] = 'x', u.escape[2] = digits[byte >> 4], u.escape[3] = digits[byte & 15];
	u.ch = '\\';
	u.width = 4;
	return u;
}

int mf_text_width(const char *text, bool ascii)
{
	int width = 0;
	for (size_t len = strlen(text); len > 0;) {
		struct unit u = next_unit(text, len, ascii);
		width += u.width;
		text += u.bytes;
		len -= u.bytes;
	}
	return width;
}

size_t mf_text_fit(const char *text, size_t len, int max, bool ascii, int *width)
{
	size_t used = 0;
	int columns = 0;
	while (used < len) {
		struct unit u = next_unit(text + used, len - used, ascii);
		if (columns + u.width > max)
			break;
		columns += u.width;
		used += u.bytes;
	}
	if (width)
		*width = columns;
	return used;
}

mf_status mf_cells_resize(mf_cells *s, int w, int h)
{
	w = w < 1 ? 1 : w;
	h = h < 1 ? 1 : h;
	mf_cell *cell = malloc((size_t)w * (size_t)h * sizeof(*cell));
	if (!cell)
		return MF_ENOMEM;
	free(s->cell);
	s->cell = cell;
	s->w = w;
	s->h = h;
	mf_cells_fill(s, (mf_rect){0, 0, w, h}, MF_ROLE_TEXT, ' ');
	return MF_OK;
}

void mf_cells_dispose(mf_cells *s)
{
	free(s->cell);
	*s = (mf_cells){0};
}

/* Puts one character; a wide one that is overwritten in part leaves a blank in its other half. */
size_t mf_text_line(const char *text, int max, bool ascii)
{
	size_t len = strcspn(text, "\n"), n = mf_text_fit(text, len, max, ascii, NULL), cut = n;

	if (n == len)
		return n;
	while (cut > 0 && text[cut] != ' ')
		cut--;
	if (cut == 0)
		for (cut = n; cut > 0 && !strchr("/,", text[cut - 1]);)
			cut--;
	return cut > 0 ? cut : n > 0 ? n : 1;
}

static void put(mf_cells *s, int x, int y, uint32_t ch, int width, mf_role role)
{
	if (x < 0 || y < 0 || y >= s->h || x + width > s->w)
		return;
	mf_cell *row = s->cell + (size_t)y * (size_t)s->w;
	if (row[x].width == 0 && x > 0) {
		row[x - 1].ch = ' ', row[x - 1].mark = 0, row[x - 1].width = 1;
	}
	int last = x + width - 1;
	if (row[last].width == 2 && last + 1 < s->w) {
		row[last + 1].ch = ' ', row[last + 1].mark = 0, row[last + 1].width = 1;
	}
	row[x] = (mf_cell){ch, 0, (uint8_t)role, (uint8_t)width};
	if (width == 2)
		row[x + 1] = (mf_cell){0, 0, (uint8_t)role, 0};
}

void mf_cells_fill(mf_cells *s, mf_rect r, mf_role role, uint32_t ch)
{
	int x0 = r.x < 0 ? 0 : r.x, x1 = r.x + r.w > s->w ? s->w : r.x + r.w;
	int y0 = r.y < 0 ? 0 : r.y, y1 = r.y + r.h > s->h ? s->h : r.y + r.h;
	if (x0 == 0 && x1 == s->w) {
		/* Whole rows, and fresh memory on resize: no neighbour to mend. */
		for (int y = y0; y < y1; y++)
			for (int x = x0; x < x1; x++)
				s->cell[(size_t)y * (size_t)s->w + (size_t)x] = (mf_cell){ch, 0, (uint8_t)role, 1};
		return;
	}
	for (int y = y0; y < y1; y++)
		for (int x = x0; x < x1; x++)
			put(s, x, y, ch, 1, role);
}

int mf_cells_text(mf_cells *s, int x, int y, int max, mf_role role, const char *text)
{
	size_t len = strlen(text);
	int used = 0, last = -1;

	if (y < 0 || y >= s->h || x >= s->w || max <= 0)
		return 0;
	if (x + max > s->w)
		max = s->w - x;
	bool cut = mf_text_fit(text, len, max, s->ascii, NULL) < len;
	int room = cut ? max - 1 : max;
	while (len > 0) {
		struct unit u = next_unit(text, len, s->ascii);
		if (used + u.width > room)
			break;
		if (u.width == 0) {
			if (last >= 0 && !s->ascii)
				s->cell[(size_t)y * (size_t)s->w + (size_t)last].mark = u.ch;
		} else if (u.escape[0]) {
			for (int i = 0; i < 4; i++)
				put(s, x + used + i, y, (unsigned char)u.escape[i], 1, role);
			last = -1;
		} else {
			put(s, x + used, y, u.ch, u.width, role);
			last = x + used < 0 ? -1 : x + used;
		}
		used += u.width;
		text += u.bytes;
		len -= u.bytes;
	}
	if (cut) {
		uint32_t ch;
		const char *dots = mf_glyph_text(MF_G_ELLIPSIS, s->ascii);
		mf_utf8_decode(dots, strlen(dots), &ch);
		put(s, x + used, y, ch, 1, role);
		used++;
	}
	return used;
}

int mf_cells_right(mf_cells *s, int x, int y, int max, mf_role role, const char *text)
{
	int width = mf_text_width(text, s->ascii);
	int pad = width < max ? max - width : 0;
	return pad + mf_cells_text(s, x + pad, y, max - pad, role, text);
}

void mf_cells_gauge(mf_cells *s, int x, int y, int width, double share, mf_role full, mf_role empty)
{
	if (isnan(share))
		return;
	int n = (int)lround((share > 1 ? 1 : share) * width);
	for (int i = 0; i < width; i++) {
		mf_glyph g = share > 1 && i == width - 1 ? MF_G_OVER : i < n ? MF_G_BAR1 : MF_G_EMPTY;
		mf_cells_text(s, x + i, y, 1, i < n ? full : empty, mf_glyph_text(g, s->ascii));
	}
}

void mf_cells_dump(const mf_cells *s, mf_buf *out)
{
	for (int y = 0; y < s->h; y++) {
		const mf_cell *row = s->cell + (size_t)y * (size_t)s->w;
		int end = s->w;
		while (end > 0 && row[end - 1].ch == ' ' && row[end - 1].width == 1 && !row[end - 1].mark)
			end--;
		for (int x = 0; x < end; x++) {
			char bytes[4];
			if (row[x].width == 0)
				continue;
			mf_buf_add(out, bytes, mf_utf8_encode(row[x].ch, bytes));
			if (row[x].mark)
				mf_buf_add(out, bytes, mf_utf8_encode(row[x].mark, bytes));
		}
		mf_buf_putc(out, '\n');
	}
}
