/* memory.c: the arena and growing text. */
#include <stdlib.h>
#include <string.h>

#include "base.h"

struct block {
	struct block *next;
	size_t used, size;
};

struct mf_arena {
	struct block *head;
};

#define BLOCK_HEAD ((sizeof(struct block) + 15u) & ~(size_t)15u)
#define BLOCK_BYTES (64u << 10)

mf_arena *mf_arena_new(void)
{
	return calloc(1, sizeof(mf_arena));
}

void mf_arena_free(mf_arena *a)
{
	struct block *b, *next;

	if (!a)
		return;
	for (b = a->head; b; b = next) {
		next = b->next;
		free(b);
	}
	free(a);
}

void *mf_arena_alloc(mf_arena *a, size_t bytes)
{
	struct block *b = a->head;
	void *p;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	bytes = (bytes + 15u) & ~(size_t)15u;
	if (!b || b->size - b->used < bytes) {
		size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;

		b = calloc(1, BLOCK_HEAD + size);
		if (!b)
			return NULL;
		b->size = size;
		b->next = a->head;
		a->head = b;
	}
	p = (char *)b + BLOCK_HEAD + b->used;
	b->used += bytes;
	return p;
}

char *mf_arena_strdup(mf_arena *a, const char *text)
{
	size_t n = strlen(text) + 1;
	char *p = mf_arena_alloc(a, n);

	if (p)
		memcpy(p, text, n);
	return p;
}

void mf_buf_dispose(mf_buf *b)
{
	if (!b)
		return;
	free(b->data);
	*b = (mf_buf)MF_BUF_INIT;
}

void mf_buf_clear(mf_buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

/* Makes room for `more` bytes and a NUL. */
static bool reserve(mf_buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 64;
	char *data;

	if (b->failed)
		return false;
	if (more > SIZE_MAX / 4 || b->len > SIZE_MAX / 4) {
		b->failed = true;
		return false;
	}
	while (cap < b->len + more + 1)
		cap *= 2;
	if (cap == b->cap)
		return true;
	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

void mf_buf_add(mf_buf *b, const char *bytes, size_t len)
{
	if (!reserve(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, bytes, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void mf_buf_puts(mf_buf *b, const char *text)
{
	mf_buf_add(b, text, strlen(text));
}

void mf_buf_putc(mf_buf *b, char c)
{
	mf_buf_add(b, &c, 1);
}

void mf_buf_printf(mf_buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n >= 0 && reserve(b, (size_t)n)) {
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

const char *mf_buf_text(const mf_buf *b)
{
	return b->data ? b->data : "";
}

void mf_buf_shell_quote(mf_buf *b, const char *text)
{
	static const char bare[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";

	if (*text && strspn(text, bare) == strlen(text)) {
		mf_buf_puts(b, text);
		return;
	}
	mf_buf_putc(b, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			mf_buf_puts(b, "'\\''");
		else
			mf_buf_putc(b, *text);
	}
	mf_buf_putc(b, '\'');
}
