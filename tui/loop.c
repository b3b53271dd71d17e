/*
 * loop.c: the one poll. Keys are answered with a frame at once, news from the threads at most ten times a second, and no
 * frame is made while the last one is still going out. Nothing to do means blocked in poll without a timeout.
 */
#include "tui_app.h"
#include "tui_term.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define NEWS_MS 100.0

struct loop {
	mf_app *a;
	const mf_tui_opts *opts;
	mf_tty *tty;
	mf_worker *worker;
	mf_node_watch *node; /* once its tab was looked at */
	mf_asker *asker;     /* once it was asked */
	bool node_shown;     /* it has been told that its tab is in sight */
	mf_cells cells;
	mf_key_decoder keys;
	unsigned pending; /* effects that could not be carried out yet */
	bool dirty, urgent, leave;
	bool idle_work; /* a frame was drawn: the detail pane may want more, once no key waits */
	double drawn_at_ms;
};

static void resize(struct loop *l)
{
	int w, h;
	mf_tty_size(l->tty, &w, &h);
	if (mf_cells_resize(&l->cells, w, h) == MF_OK)
		mf_app_resize(l->a, w, h);
	mf_tty_invalidate(l->tty);
	l->dirty = l->urgent = true;
}

static void copy(struct loop *l)
{
	mf_buf text = MF_BUF_INIT;
	mf_copy_text(l->a, &text);
	if (text.len > 0 && !mf_tty_copy(l->tty, mf_buf_text(&text), text.len))
		mf_app_say(l->a, true, "too long for a terminal's clipboard (%zu bytes): export it with e", text.len);
	mf_buf_dispose(&text);
}

static void carry_out(struct loop *l, unsigned fx)
{
	l->pending = 0;
	fx = mf_effects_run(l->a, l->worker, l->opts, fx);
	if (fx & MF_FX_QUIT)
		l->leave = true;
	if (fx & MF_FX_COPY)
		copy(l);
	if ((fx & MF_FX_ASK) && (l->asker || (l->asker = mf_asker_new(l->opts))))
		mf_asker_ask(l->asker, l->a);
	if (fx & MF_FX_THEME)
		mf_tty_set_theme(l->tty, &l->a->look);
	if (fx & MF_FX_MOUSE)
		mf_tty_set_mouse(l->tty, l->a->mouse);
	if (fx & MF_FX_INVALIDATE)
		mf_tty_invalidate(l->tty);
	if (fx & MF_FX_SUSPEND) {
		mf_tty_suspend(l->tty);
		resize(l);
	}
	if (fx & MF_FX_REDRAW)
		l->dirty = true;
	l->pending = fx & MF_FX_WAITS;
}

static void take_keys(struct loop *l)
{
	mf_key_event k;
	while (!l->leave && mf_key_next(&l->keys, mf_now_ms(), &k)) {
		if (k.key == MF_KEY_REPLY) {
			mf_tty_answered(l->tty);
			continue;
		}
		l->urgent = true;
		carry_out(l, mf_app_key(l->a, &k) | l->pending);
	}
}

static void read_keys(struct loop *l)
{
	char bytes[256];
	for (;;) {
		size_t room = sizeof(l->keys.bytes) - l->keys.len;
		int n = mf_tty_read(l->tty, bytes, room < sizeof(bytes) ? room : sizeof(bytes));
		if (n < 0)
			l->leave = true;
		if (n <= 0)
			return;
		mf_key_feed(&l->keys, bytes, (size_t)n, mf_now_ms());
		take_keys(l);
	}
}

static void take_signals(struct loop *l)
{
	unsigned bits = mf_tty_signals(l->tty);
	if (bits & MF_SIG_LEAVE)
		l->leave = true;
	if (bits & MF_SIG_STOP)
		carry_out(l, MF_FX_SUSPEND | l->pending);
	if (bits & MF_SIG_CONTINUE) {
		mf_tty_resume(l->tty);
		resize(l);
	}
	if (bits & MF_SIG_RESIZE)
		resize(l);
}

static void draw(struct loop *l)
{
	int x, y;
	if (!l->dirty || !mf_tty_ready(l->tty) || (!l->urgent && mf_now_ms() - l->drawn_at_ms < NEWS_MS))
		return;
	mf_app_view(l->a, &l->cells, &x, &y);
	mf_tty_frame(l->tty, &l->cells, x, y);
	l->dirty = l->urgent = false;
	l->idle_work = true;
	l->drawn_at_ms = mf_now_ms();
}

static bool node_in_sight(const struct loop *l)
{
	return l->a->side.open && l->a->side.tab == MF_SIDE_NODE;
}

/* Tells the one that asks the driver when its tab comes into sight or goes. */
static void watch_node(struct loop *l)
{
	bool shown = node_in_sight(l);

	if (shown == l->node_shown || (!l->node && !(l->node = mf_node_watch_new())))
		return;
	l->node_shown = shown;
	mf_node_watch_show(l->node, shown);
}

static void take_news(struct loop *l)
{
	if (mf_side_take(l->a, l->opts->jobs))
		l->dirty = true;
}

/* Milliseconds poll may sleep; -1: until something happens. */
static int timeout_ms(const struct loop *l)
{
	double now = mf_now_ms(), due = mf_key_deadline(&l->keys, now);
	if (l->dirty && mf_tty_ready(l->tty)) {
		double news = l->drawn_at_ms + NEWS_MS - now;
		news = news > 0 ? news : 0;
		due = due < 0 || news < due ? news : due;
	}
	if (l->dirty && !mf_tty_ready(l->tty)) {
		double patience = mf_tty_patience(l->tty);
		due = due < 0 || (patience >= 0 && patience < due) ? patience : due;
	}
	return due < 0 ? -1 : (int)due + 1;
}

mf_status mf_loop_run(mf_app *a, const mf_tui_opts *opts, mf_err *err)
{
	struct loop l;
	mf_status st;

	memset(&l, 0, sizeof(l));
	l.a = a;
	l.opts = opts;
	if ((st = mf_worker_new(&l.worker, err)) < 0)
		return st;
	if ((st = mf_tty_open(&l.tty, opts->color, opts->mouse, err)) < 0)
		goto done;
	/* Without colours asked for, the theme made for none of them says the same with weight. */
	if (mf_tty_colors(l.tty) == 0 && !opts->theme) {
		snprintf(a->theme, sizeof(a->theme), "mono");
		if ((st = mf_theme_load(&a->look, a->theme, err)) < 0)
			goto done;
	}
	l.keys.terminfo = mf_tty_key_sequence;
	l.keys.payload = l.tty;
	mf_tty_set_theme(l.tty, &a->look);
	resize(&l);
	carry_out(&l, MF_FX_SEARCH | MF_FX_REDRAW);
	while (!l.leave) {
		draw(&l);
		if (mf_tty_flush(l.tty) < 0)
			break;
		watch_node(&l);
		/* A descriptor below zero is passed over by poll. */
		struct pollfd fd[6] = {{mf_tty_fd(l.tty), mf_tty_events(l.tty), 0},
			{mf_tty_signal_fd(l.tty), POLLIN, 0}, {mf_worker_fd(l.worker), POLLIN, 0},
			{opts->jobs ? opts->jobs->fd(opts->jobs->payload) : -1, POLLIN, 0},
			{l.node ? mf_node_watch_fd(l.node) : -1, POLLIN, 0},
			{l.asker ? mf_asker_fd(l.asker) : -1, POLLIN, 0}};
		int n = poll(fd, 6, l.idle_work ? 0 : timeout_ms(&l));
		if (n == 0 && l.idle_work) {
			l.idle_work = false;
			if (mf_detail_idle(a))
				l.dirty = l.urgent = true;
			continue;
		}
		if (n < 0 && errno != EINTR) {
			st = mf_fail(err, MF_EBUG, "poll: %s", strerror(errno));
			break;
		}
		if (fd[1].revents)
			take_signals(&l);
		if (fd[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL))
			read_keys(&l);
		if (fd[0].revents & (POLLERR | POLLNVAL | POLLHUP))
			l.leave = true;
		take_keys(&l); /* an Esc whose time has come */
		if (fd[2].revents)
			carry_out(&l, mf_worker_take(l.worker, a) | l.pending);
		if (fd[3].revents)
			take_news(&l);
		if (fd[5].revents && mf_asker_take(l.asker, a))
			l.dirty = true;
		if (fd[4].revents && mf_node_watch_take(l.node, &a->side.node))
			l.dirty = true;
	}
	if (st == MF_OK && opts->resume) {
		mf_err bad;
		mf_store_save_session(a, &bad); /* nobody is left to tell, and nothing is lost but a convenience */
	}
done:
	mf_tty_close(l.tty);
	mf_node_watch_free(l.node);
	mf_asker_free(l.asker);
	mf_worker_free(l.worker);
	mf_cells_dispose(&l.cells);
	return st;
}

mf_status mf_tui_run(const mf_tui_opts *opts, mf_err *err)
{
	mf_app *a;
	mf_status st;

	if (!opts || !opts->inputs || !opts->inputs->intern)
		return mf_fail(err, MF_EBUG, "the terminal program was started without inputs");
	setlocale(LC_CTYPE, "");
	a = malloc(sizeof(*a));
	if (!a)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	st = mf_app_init(a, opts, err);
	if (st == MF_OK) {
		/* Widths of characters come from the locale: without UTF-8 there, none but ASCII can be placed. */
		if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
			a->ascii = true;
		snprintf(a->theme, sizeof(a->theme), "%.255s", opts->theme ? opts->theme : "default");
		st = mf_theme_load(&a->look, a->theme, err);
	}
	/* A script depends on nothing but its text and the inputs: neither on the user's files nor on the last session. */
	if (st == MF_OK && !opts->script)
		st = mf_store_load_config(a, err);
	if (st == MF_OK && !opts->script && opts->resume) {
		mf_err bad;
		if (mf_store_load_session(a, &bad) < 0)
			mf_app_say_error(a, "the last session could not be resumed: ", &bad);
		else if (!opts->theme && a->theme[0] && mf_theme_load(&a->look, a->theme, &bad) < 0)
			st = mf_theme_load(&a->look, "default", err);
	}
	if (st == MF_OK)
		st = opts->script ? mf_script_run(a, opts, err) : mf_loop_run(a, opts, err);
	mf_app_dispose(a);
	free(a);
	return st;
}
