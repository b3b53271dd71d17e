/*
 * term.c: the terminal, and the only file that includes curses. curses serves as the reader of terminfo; it never
 * writes. Frames are differences between cell buffers, queued in a buffer of ours and drained through a non-blocking
 * descriptor, so a slow line delays pictures and never keys. The descriptor is a fresh opening of the terminal:
 * O_NONBLOCK belongs to the open file, and standard output's is shared with the shell that started us.
 */
#include "tui_term.h"
#include "tui_wake.h"

#include <curses.h>
#include <term.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define RESTORE_MAX 256
#define OSC52_MAX 74000
#define IN_FLIGHT 2    /* frames on their way to the terminal at most, */
#define BURST_MS 300.0 /* among those that follow one another closer than this */
#define LOST_MS 3000.0 /* an answer that takes longer is not waited for */

struct mf_tty {
	int fd, signal_read;
	struct termios saved, raw;
	mf_buf out;
	size_t sent; /* bytes of `out` that have gone */
	int colors;
	bool mouse, last_cell_scrolls;
	char *cup, *smcup, *rmcup, *civis, *cnorm, *clear, *sgr0, *bold, *dim, *smul, *rev, *setaf, *setab, *smkx,
		*rmkx, *op;
	char *keys[MF_KEY_F1 - MF_KEY_UP + 1];
	mf_buf sgr[MF_ROLE_COUNT];
	mf_cells front;
	bool front_valid, cursor_shown;
	/* Frames queued and frames the terminal is known to have drawn; those it was asked about, the oldest first. */
	unsigned frames, drawn, asked[IN_FLIGHT + 1];
	int n_asked;
	bool answers; /* it has, once */
	double framed_at_ms, asked_at_ms;
};

/* What signal handlers may touch: set before they are installed, cleared after they are removed. */
static struct {
	volatile sig_atomic_t active;
	int fd, pipe_write;
	struct termios saved;
	char restore[RESTORE_MAX];
	size_t restore_len;
	volatile sig_atomic_t pending; /* MF_SIG_* bits lost to a full pipe are kept here too */
} live;

static const int asked[] = {SIGWINCH, SIGTSTP, SIGCONT, SIGHUP, SIGTERM, SIGINT};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction old_asked[MF_COUNT(asked)], old_crashes[MF_COUNT(crashes)];

const mf_choice mf_color_mode_choices[] = {
	{MF_COLOR_AUTO, "auto", "what the terminal can do, unless NO_COLOR is set"},
	{MF_COLOR_NEVER, "never", "bold, dim and reverse alone"},
	{MF_COLOR_8, "8", "eight colours"},
	{MF_COLOR_16, "16", "sixteen colours"},
	{MF_COLOR_256, "256", "256 colours"},
	{MF_COLOR_TRUE, "true", "24-bit colour"},
	{0, NULL, NULL},
};

/* Async-signal-safe: write and tcsetattr are on POSIX's list. */
static void restore_now(void)
{
	if (!live.active)
		return;
	live.active = 0;
	int flags = fcntl(live.fd, F_GETFL);
	if (flags >= 0)
		fcntl(live.fd, F_SETFL, flags & ~O_NONBLOCK);
	ssize_t n = write(live.fd, live.restore, live.restore_len);
	(void)n;
	tcsetattr(live.fd, TCSANOW, &live.saved);
}

static void on_signal(int sig)
{
	int saved_errno = errno;
	char bit = sig == SIGWINCH  ? MF_SIG_RESIZE
		   : sig == SIGTSTP ? MF_SIG_STOP
		   : sig == SIGCONT ? MF_SIG_CONTINUE
				    : MF_SIG_LEAVE;
	live.pending |= bit;
	ssize_t n = write(live.pipe_write, &bit, 1);
	(void)n;
	errno = saved_errno;
}

static void on_crash(int sig)
{
	restore_now();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void install_signals(void)
{
	struct sigaction sa;
	memset(&sa, 0, sizeof(sa));
	sigemptyset(&sa.sa_mask);
	sa.sa_handler = on_signal;
	sa.sa_flags = SA_RESTART;
	for (size_t i = 0; i < MF_COUNT(asked); i++) {
		sigaction(asked[i], &sa, &old_asked[i]);
		/* A hang-up ignored by whoever started us (nohup) stays ignored; losing the terminal shows as EIO anyway. */
		if (asked[i] == SIGHUP && old_asked[i].sa_handler == SIG_IGN)
			sigaction(SIGHUP, &old_asked[i], NULL);
	}
	sa.sa_handler = on_crash;
	sa.sa_flags = (int)SA_RESETHAND;
	for (size_t i = 0; i < MF_COUNT(crashes); i++)
		sigaction(crashes[i], &sa, &old_crashes[i]);
}

static void remove_signals(void)
{
	for (size_t i = 0; i < MF_COUNT(asked); i++)
		sigaction(asked[i], &old_asked[i], NULL);
	for (size_t i = 0; i < MF_COUNT(crashes); i++)
		sigaction(crashes[i], &old_crashes[i], NULL);
}

/* A string capability without its padding marks ($<5>), which only hardware terminals needed. Owned; NULL when absent. */
static char *capability(const char *name)
{
	const char *s = tigetstr((char *)(uintptr_t)name);
	if (!s || s == (char *)-1)
		return NULL;
	char *out = malloc(strlen(s) + 1), *o = out;
	if (!out)
		return NULL;
	while (*s) {
		if (s[0] == '$' && s[1] == '<') {
			const char *end = strchr(s, '>');
			if (end) {
				s = end + 1;
				continue;
			}
		}
		*o++ = *s++;
	}
	*o = 0;
	return out;
}

static void put(mf_buf *b, const char *s)
{
	if (s)
		mf_buf_puts(b, s);
}

static int detect_colors(mf_color_mode mode)
{
	const char *no_color = getenv("NO_COLOR"), *colorterm = getenv("COLORTERM");
	int colors = tigetnum((char *)(uintptr_t) "colors");
	switch (mode) {
	case MF_COLOR_NEVER: return 0;
	case MF_COLOR_8: return 8;
	case MF_COLOR_16: return 16;
	case MF_COLOR_256: return 256;
	case MF_COLOR_TRUE: return 1 << 24;
	case MF_COLOR_AUTO: break;
	}
	if (no_color && no_color[0])
		return 0;
	if (colors >= 256 && colorterm && (strcmp(colorterm, "truecolor") == 0 || strcmp(colorterm, "24bit") == 0))
		return 1 << 24;
	return colors >= 256 ? 256 : colors >= 16 ? 16 : colors >= 8 ? 8 : 0;
}

static void enter(mf_tty *t)
{
	tcsetattr(t->fd, TCSANOW, &t->raw);
	put(&t->out, t->smcup);
	put(&t->out, t->smkx);
	put(&t->out, t->civis);
	if (t->mouse)
		mf_buf_puts(&t->out, "\033[?1000h\033[?1006h");
	t->front_valid = false;
	t->cursor_shown = false;
	live.active = 1;
}

static void build_restore(mf_tty *t)
{
	mf_buf b = MF_BUF_INIT;
	/* The mouse is turned off whether or not it was on: harmless, and right after a toggle. */
	mf_buf_puts(&b, "\033[?1006l\033[?1000l");
	put(&b, t->sgr0);
	put(&b, t->op);
	put(&b, t->cnorm);
	put(&b, t->rmkx);
	if (t->rmcup)
		put(&b, t->rmcup);
	else
		put(&b, t->clear);
	live.restore_len = b.len < RESTORE_MAX ? b.len : RESTORE_MAX;
	memcpy(live.restore, mf_buf_text(&b), live.restore_len);
	mf_buf_dispose(&b);
}

static void free_strings(mf_tty *t)
{
	char *all[] = {t->cup, t->smcup, t->rmcup, t->civis, t->cnorm, t->clear, t->sgr0, t->bold, t->dim, t->smul,
		t->rev, t->setaf, t->setab, t->smkx, t->rmkx, t->op};
	for (size_t i = 0; i < MF_COUNT(all); i++)
		free(all[i]);
	for (size_t i = 0; i < MF_COUNT(t->keys); i++)
		free(t->keys[i]);
}

mf_status mf_tty_open(mf_tty **out, mf_color_mode color, bool mouse, mf_err *err)
{
	static const char *const key_caps[] = {
		"kcuu1", "kcud1", "kcub1", "kcuf1", "khome", "kend", "kpp", "knp", "kich1", "kdch1", "kcbt", "kf1"};
	const char *name = getenv("TERM");
	int pipe_fd[2] = {-1, -1}, setup;
	mf_tty *t;

	*out = NULL;
	if (!isatty(STDOUT_FILENO))
		return mf_fail(err, MF_EENV, "standard output is no terminal; use moefs search");
	if (!name || !name[0] || setupterm(name, STDOUT_FILENO, &setup) == ERR)
		return mf_fail(err, MF_EENV,
			"no description of terminal type '%s' (TERM); use moefs search, or set TERM=xterm",
			name ? name : "");
	t = calloc(1, sizeof(*t));
	if (!t) {
		del_curterm(cur_term);
		return mf_fail(err, MF_ENOMEM, "out of memory");
	}
	t->fd = -1;
	t->cup = capability("cup"), t->smcup = capability("smcup"), t->rmcup = capability("rmcup");
	t->civis = capability("civis"), t->cnorm = capability("cnorm"), t->clear = capability("clear");
	t->sgr0 = capability("sgr0"), t->bold = capability("bold"), t->dim = capability("dim"),
	t->smul = capability("smul");
	t->rev = capability("rev"), t->setaf = capability("setaf"), t->setab = capability("setab");
	t->smkx = capability("smkx"), t->rmkx = capability("rmkx"), t->op = capability("op");
	for (size_t i = 0; i < MF_COUNT(key_caps); i++)
		t->keys[i] = capability(key_caps[i]);
	t->colors = detect_colors(color);
	if (!t->setaf || !t->setab)
		t->colors = 0;
	t->last_cell_scrolls = tigetflag((char *)(uintptr_t) "am") == 1 && tigetflag((char *)(uintptr_t) "xenl") != 1;
	t->mouse = mouse;
	if (!t->cup || !t->clear) {
		mf_fail(err, MF_EENV, "terminal type '%s' cannot place the cursor; use moefs search, or set TERM",
			name);
		goto fail;
	}
	const char *path = ttyname(STDOUT_FILENO);
	t->fd = open(path ? path : "/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (t->fd < 0 || tcgetattr(t->fd, &t->saved) < 0 || !mf_wake_open(pipe_fd)) {
		mf_fail(err, MF_EENV, "cannot open the terminal %s: %s", path ? path : "/dev/tty", strerror(errno));
		goto fail;
	}
	t->signal_read = pipe_fd[0];
	t->raw = t->saved;
	t->raw.c_iflag &= (tcflag_t) ~(BRKINT | ICRNL | INLCR | IGNCR | ISTRIP | IXON);
	t->raw.c_oflag &= (tcflag_t)~OPOST;
	t->raw.c_lflag &= (tcflag_t) ~(ECHO | ICANON | IEXTEN | ISIG);
	t->raw.c_cc[VMIN] = 1;
	t->raw.c_cc[VTIME] = 0;
	live.fd = t->fd;
	live.pipe_write = pipe_fd[1];
	live.saved = t->saved;
	live.pending = 0;
	build_restore(t);
	/* Installed once a process: a plain exit() anywhere must not leave a raw terminal. */
	static bool registered;
	if (!registered) {
		atexit(restore_now);
		registered = true;
	}
	install_signals();
	enter(t);
	*out = t;
	return MF_OK;
fail:
	if (t->fd >= 0)
		close(t->fd);
	free_strings(t);
	free(t);
	del_curterm(cur_term);
	return MF_EENV;
}

static void settle(mf_tty *t);

void mf_tty_close(mf_tty *t)
{
	if (!t)
		return;
	settle(t);
	remove_signals();
	restore_now();
	close(t->fd);
	close(t->signal_read);
	close(live.pipe_write);
	live.pipe_write = -1;
	for (size_t i = 0; i < MF_ROLE_COUNT; i++)
		mf_buf_dispose(&t->sgr[i]);
	mf_buf_dispose(&t->out);
	mf_cells_dispose(&t->front);
	free_strings(t);
	free(t);
	del_curterm(cur_term);
}

int mf_tty_colors(const mf_tty *t)
{
	return t->colors;
}

int mf_tty_fd(const mf_tty *t)
{
	return t->fd;
}

/* Frames on their way: one that nothing followed for a while has arrived. */
static unsigned in_flight(const mf_tty *t)
{
	if (!t->answers || (t->n_asked == 0 && mf_now_ms() - t->framed_at_ms >= BURST_MS))
		return 0;
	return t->frames - t->drawn;
}

double mf_tty_patience(const mf_tty *t)
{
	if (t->sent < t->out.len || in_flight(t) < IN_FLIGHT)
		return -1;
	double left = t->asked_at_ms + LOST_MS - mf_now_ms();
	return left > 0 ? left : 0;
}

bool mf_tty_ready(const mf_tty *t)
{
	return t->sent >= t->out.len && mf_tty_patience(t) <= 0;
}

void mf_tty_answered(mf_tty *t)
{
	if (!t->answers || t->n_asked == 0) {
		t->answers = true;
		t->drawn = t->frames;
		t->n_asked = 0;
		return;
	}
	t->drawn = t->asked[0];
	memmove(t->asked, t->asked + 1, (size_t)--t->n_asked * sizeof(t->asked[0]));
}

/* Asks after a frame that follows another closely, and after the first one, whether this terminal answers at all. */
static void count_frame(mf_tty *t)
{
	double now = mf_now_ms();

	if (t->answers && (in_flight(t) == 0 || mf_tty_patience(t) == 0)) {
		t->drawn = t->frames;
		t->n_asked = 0;
	}
	bool burst = t->answers && (t->n_asked > 0 || now - t->framed_at_ms < BURST_MS);
	t->frames++;
	t->framed_at_ms = now;
	if ((burst || t->frames == 1) && t->n_asked < (int)MF_COUNT(t->asked)) {
		put(&t->out, "\033[5n");
		t->asked[t->n_asked++] = t->frames;
		t->asked_at_ms = now;
	}
}

/* Takes answers that are still to come, so that the shell does not get them as typed. */
static void settle(mf_tty *t)
{
	double end = t->answers ? mf_now_ms() + 1000 : t->asked_at_ms + BURST_MS, left;
	/* A question that has not gone out is not answered. */
	int n = t->n_asked - (t->sent < t->out.len && t->n_asked > 0);

	while (n > 0 && (left = end - mf_now_ms()) > 0) {
		struct pollfd fd = {t->fd, POLLIN, 0};
		char bytes[256];
		ssize_t got;
		if (poll(&fd, 1, (int)left + 1) <= 0 || (fd.revents & (POLLHUP | POLLERR | POLLNVAL)) ||
			(got = read(t->fd, bytes, sizeof(bytes))) <= 0)
			break;
		for (ssize_t i = 2; i < got; i++)
			n -= bytes[i] == 'n' && bytes[i - 2] == '[';
	}
	t->n_asked = 0;
	t->drawn = t->frames;
}

short mf_tty_events(const mf_tty *t)
{
	return (short)(POLLIN | (mf_tty_ready(t) ? 0 : POLLOUT));
}

int mf_tty_signal_fd(const mf_tty *t)
{
	return t->signal_read;
}

unsigned mf_tty_signals(mf_tty *t)
{
	char bytes[64];
	while (read(t->signal_read, bytes, sizeof(bytes)) > 0)
		;
	sigset_t all, old;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	unsigned bits = (unsigned)live.pending;
	live.pending = 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return bits;
}

void mf_tty_size(mf_tty *t, int *w, int *h)
{
	struct winsize ws;
	*w = *h = 0;
	if (ioctl(t->fd, TIOCGWINSZ, &ws) == 0) {
		*w = ws.ws_col;
		*h = ws.ws_row;
	}
	if (*w <= 0)
		*w = 80;
	if (*h <= 0)
		*h = 24;
	*w = *w > 1000 ? 1000 : *w;
	*h = *h > 1000 ? 1000 : *h;
}

static void add_color(mf_tty *t, mf_buf *b, uint32_t color, bool foreground)
{
	if (color == MF_COLOR_OWN)
		return;
	if (t->colors == 1 << 24 && (color & MF_RGB)) {
		mf_buf_printf(b, "\033[%d;2;%u;%u;%um", foreground ? 38 : 48, color >> 16 & 255, color >> 8 & 255,
			color & 255);
		return;
	}
	uint32_t i = mf_color_reduce(color, t->colors == 1 << 24 ? 256 : t->colors);
	put(b, tiparm(foreground ? t->setaf : t->setab, (int)i));
}

void mf_tty_set_theme(mf_tty *t, const mf_theme *theme)
{
	for (int i = 0; i < MF_ROLE_COUNT; i++) {
		const mf_style *s = &theme->style[i];
		mf_buf *b = &t->sgr[i];
		mf_buf_clear(b);
		put(b, t->sgr0);
		if (s->attr & MF_ATTR_BOLD)
			put(b, t->bold);
		if (s->attr & MF_ATTR_DIM)
			put(b, t->dim);
		if (s->attr & MF_ATTR_UNDERLINE)
			put(b, t->smul);
		if (s->attr & MF_ATTR_REVERSE)
			put(b, t->rev);
		if (t->colors > 0) {
			uint32_t fg = s->fg;
			/* Grey of sixteen colours has no place among eight: dim says the same. */
			if (t->colors == 8 && fg == 8) {
				put(b, t->dim);
				fg = MF_COLOR_OWN;
			}
			add_color(t, b, fg, true);
			add_color(t, b, s->bg, false);
		}
	}
	t->front_valid = false;
}

void mf_tty_set_mouse(mf_tty *t, bool on)
{
	if (on != t->mouse)
		mf_buf_puts(&t->out, on ? "\033[?1000h\033[?1006h" : "\033[?1006l\033[?1000l");
	t->mouse = on;
}

void mf_tty_invalidate(mf_tty *t)
{
	t->front_valid = false;
}

static void move_to(mf_tty *t, int x, int y)
{
	put(&t->out, tiparm(t->cup, y, x));
}

void mf_tty_frame(mf_tty *t, const mf_cells *s, int cursor_x, int cursor_y)
{
	int role = -1, at_x = -1, at_y = -1;
	size_t before = t->out.len;

	if (t->front.w != s->w || t->front.h != s->h) {
		if (mf_cells_resize(&t->front, s->w, s->h) < 0)
			return;
		t->front_valid = false;
	}
	if (t->cursor_shown) {
		put(&t->out, t->civis);
		t->cursor_shown = false;
	}
	if (!t->front_valid) {
		put(&t->out, mf_buf_text(&t->sgr[MF_ROLE_TEXT]));
		put(&t->out, t->clear);
		role = MF_ROLE_TEXT;
	}
	for (int y = 0; y < s->h; y++) {
		const mf_cell *now = s->cell + (size_t)y * (size_t)s->w;
		mf_cell *was = t->front.cell + (size_t)y * (size_t)s->w;
		if (t->front_valid && memcmp(now, was, (size_t)s->w * sizeof(*now)) == 0)
			continue;
		for (int x = 0; x < s->w; x++) {
			if (t->front_valid && memcmp(&now[x], &was[x], sizeof(*now)) == 0)
				continue;
			if (now[x].width == 0)
				continue;
			if (t->last_cell_scrolls && y == s->h - 1 && x + now[x].width >= s->w)
				continue;
			if (at_y != y || at_x != x)
				move_to(t, x, y);
			if (role != now[x].role) {
				role = now[x].role;
				put(&t->out, mf_buf_text(&t->sgr[role]));
			}
			char bytes[4];
			mf_buf_add(&t->out, bytes, mf_utf8_encode(now[x].ch, bytes));
			if (now[x].mark)
				mf_buf_add(&t->out, bytes, mf_utf8_encode(now[x].mark, bytes));
			at_x = x + now[x].width;
			at_y = y;
			/* At the right edge the cursor's place depends on the terminal, and a wide or combined character's
			 * width on its tables: place it anew. */
			if (at_x >= s->w || now[x].width != 1 || now[x].mark)
				at_y = -1;
		}
	}
	memcpy(t->front.cell, s->cell, (size_t)s->w * (size_t)s->h * sizeof(*s->cell));
	t->front_valid = true;
	if (cursor_x >= 0) {
		move_to(t, cursor_x, cursor_y);
		put(&t->out, t->cnorm);
		t->cursor_shown = true;
	}
	if (t->out.len > before)
		count_frame(t);
}

bool mf_tty_copy(mf_tty *t, const char *text, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *term = getenv("TERM");
	bool screen = term && strncmp(term, "screen", 6) == 0 && getenv("STY");

	if ((len + 2) / 3 * 4 > OSC52_MAX)
		return false;
	/* GNU screen swallows OSC 52 unless it is wrapped as a string meant for the outer terminal. */
	mf_buf_puts(&t->out, screen ? "\033P\033]52;c;" : "\033]52;c;");
	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = (uint32_t)(unsigned char)text[i] << 16;
		if (i + 1 < len)
			v |= (uint32_t)(unsigned char)text[i + 1] << 8;
		if (i + 2 < len)
			v |= (unsigned char)text[i + 2];
		mf_buf_putc(&t->out, digits[v >> 18 & 63]);
		mf_buf_putc(&t->out, digits[v >> 12 & 63]);
		mf_buf_putc(&t->out, i + 1 < len ? digits[v >> 6 & 63] : '=');
		mf_buf_putc(&t->out, i + 2 < len ? digits[v & 63] : '=');
	}
	mf_buf_puts(&t->out, screen ? "\a\033\\" : "\a");
	return true;
}

mf_status mf_tty_flush(mf_tty *t)
{
	while (t->sent < t->out.len) {
		ssize_t n = write(t->fd, t->out.data + t->sent, t->out.len - t->sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN))
			return MF_OK;
		if (n <= 0)
			return MF_EIO;
		t->sent += (size_t)n;
	}
	mf_buf_clear(&t->out);
	t->sent = 0;
	return MF_OK;
}

int mf_tty_read(mf_tty *t, void *bytes, size_t size)
{
	ssize_t n = read(t->fd, bytes, size);
	if (n > 0)
		return (int)n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return MF_EIO;
}

const char *mf_tty_key_sequence(void *term, int which)
{
	const mf_tty *t = term;
	return which >= 0 && (size_t)which < MF_COUNT(t->keys) ? t->keys[which] : NULL;
}

void mf_tty_suspend(mf_tty *t)
{
	struct sigaction dfl, ours;

	settle(t);
	/* Whatever is still queued would be typed over the shell's screen. */
	mf_buf_clear(&t->out);
	t->sent = 0;
	restore_now();
	memset(&dfl, 0, sizeof(dfl));
	sigemptyset(&dfl.sa_mask);
	dfl.sa_handler = SIG_DFL;
	sigaction(SIGTSTP, &dfl, &ours);
	/* The whole group: a wrapper script that started us must stop too, or the shell never sees a stopped job. */
	kill(0, SIGTSTP);
	sigaction(SIGTSTP, &ours, NULL);
	mf_tty_resume(t);
}

void mf_tty_resume(mf_tty *t)
{
	int flags = fcntl(t->fd, F_GETFL);
	if (flags >= 0)
		fcntl(t->fd, F_SETFL, flags | O_NONBLOCK);
	enter(t);
}
