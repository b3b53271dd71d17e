/* loop.c: one poll over keys, signals and the search; frames only when the terminal has taken the last one. */
#include "app.h"
#include "tui_term.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <string.h>

struct loop {
	mf_app app;
	mf_tty *tty;
	mf_key_decoder keys;
	bool redraw;
};

/* Carries out what the model asked for; true when the program is to leave. */
static bool effects(struct loop *l, unsigned fx)
{
	if (fx & MF_FX_THEME)
		mf_tty_set_theme(l->tty, &l->app.theme);
	if (fx & MF_FX_MOUSE)
		mf_tty_set_mouse(l->tty, l->app.mouse);
	if (fx & MF_FX_COPY && !mf_tty_copy(l->tty, mf_buf_text(&l->app.copy), l->app.copy.len))
		mf_app_say(&l->app, true, "too long for the clipboard");
	if (fx & MF_FX_SUSPEND)
		mf_tty_suspend(l->tty);
	if (fx & MF_FX_INVALIDATE)
		mf_tty_invalidate(l->tty);
	l->redraw |= (fx & MF_FX_REDRAW) != 0;
	return fx & MF_FX_QUIT;
}

static unsigned resize(struct loop *l)
{
	int w, h;

	mf_tty_size(l->tty, &w, &h);
	return mf_app_resize(&l->app, w, h);
}

static bool take_signals(struct loop *l)
{
	unsigned bits = mf_tty_signals(l->tty);

	if (bits & MF_SIG_LEAVE)
		return true;
	if (bits & MF_SIG_STOP)
		mf_tty_suspend(l->tty);
	if (bits & MF_SIG_CONTINUE)
		mf_tty_resume(l->tty);
	return bits ? effects(l, resize(l)) : false;
}

static bool take_keys(struct loop *l)
{
	mf_key_event k;

	while (mf_key_next(&l->keys, mf_now_ms(), &k))
		if (effects(l, mf_app_key(&l->app, &k)))
			return true;
	return false;
}

/* True when the program is to leave: the user quit, or the terminal is gone. */
static bool read_keys(struct loop *l)
{
	unsigned char bytes[256];
	int n;

	while ((n = mf_tty_read(l->tty, bytes, sizeof bytes)) > 0) {
		size_t done = 0;

		while (done < (size_t)n) {
			done += mf_key_feed(&l->keys, bytes + done, (size_t)n - done, mf_now_ms());
			if (take_keys(l))
				return true;
		}
	}
	return n < 0;
}

static void run(struct loop *l)
{
	effects(l, resize(l));
	for (;;) {
		double wait = mf_key_deadline(&l->keys, mf_now_ms());
		struct pollfd fds[3];

		if (l->redraw && mf_tty_ready(l->tty)) {
			mf_app_view(&l->app);
			mf_tty_frame(l->tty, &l->app.cells, l->app.cursor_x, l->app.cursor_y);
			l->redraw = false;
		}
		if (mf_tty_flush(l->tty) < 0)
			return;
		fds[0] = (struct pollfd){mf_tty_fd(l->tty), mf_tty_events(l->tty), 0};
		fds[1] = (struct pollfd){mf_tty_signal_fd(l->tty), POLLIN, 0};
		fds[2] = (struct pollfd){mf_worker_fd(l->app.worker), POLLIN, 0};
		if (poll(fds, 3, wait < 0 ? -1 : (int)wait + 1) < 0 && errno != EINTR)
			return;
		if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return;
		if (take_signals(l))
			return;
		if (fds[2].revents & POLLIN && effects(l, mf_app_search_news(&l->app)))
			return;
		if (fds[0].revents & POLLIN && read_keys(l))
			return;
		if (take_keys(l))
			return;
	}
}

mf_status mf_tui_run(const mf_tui_opts *opts, mf_err *err)
{
	static struct loop l;
	mf_tui_opts o = *opts;
	mf_status st;

	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		o.ascii = true;
	if (o.script)
		return mf_script_run(&o, err);
	memset(&l, 0, sizeof l);
	st = mf_tty_open(&l.tty, o.color, o.mouse, err);
	if (st < 0)
		return st;
	if (!o.theme && mf_tty_colors(l.tty) == 0)
		o.theme = "mono";
	l.keys.terminfo = mf_tty_key_sequence;
	l.keys.payload = l.tty;
	st = mf_app_init(&l.app, &o, err);
	if (st == MF_OK) {
		mf_tty_set_theme(l.tty, &l.app.theme);
		run(&l);
		mf_app_dispose(&l.app);
	}
	mf_tty_close(l.tty);
	return st;
}
