/*
 * worker.c: one search at a time on its own thread. The thread posts its best rows and one byte into a pipe; the UI
 * thread takes them when poll wakes it. Only the lock guards what both touch.
 */
#include "app.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mf_worker {
	pthread_mutex_t lock;
	pthread_t thread;
	bool started;              /* a thread is to be joined; UI thread only */
	int pipe[2];
	volatile int cancel;
	const mf_inputs *in;
	const mf_consts *consts;
	mf_search_opts opts;
	/* under the lock */
	mf_live live;
	bool ended, posted;
	mf_search *result;
	mf_status status;
	mf_err err;
};

static void wake(mf_worker *w)
{
	if (!w->posted) {
		w->posted = true;
		while (write(w->pipe[1], "x", 1) < 0 && errno == EINTR)
			;
	}
}

/* Keeps the best rows in order; most rows of a large space fall through the first comparison. */
static void add_row(mf_live *l, const mf_row *row)
{
	size_t at = l->n;

	l->seen++;
	if (!(row->throughput > 0) || (l->n == MF_LIVE_ROWS && row->throughput <= l->rows[l->n - 1].throughput))
		return;
	while (at > 0 && l->rows[at - 1].throughput < row->throughput)
		at--;
	if (l->n < MF_LIVE_ROWS)
		l->n++;
	memmove(l->rows + at + 1, l->rows + at, (l->n - at - 1) * sizeof *l->rows);
	l->rows[at] = *row;
}

static void on_rows(void *payload, const mf_row *rows, size_t n)
{
	mf_worker *w = payload;

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < n; i++)
		add_row(&w->live, &rows[i]);
	wake(w);
	pthread_mutex_unlock(&w->lock);
}

static void *work(void *arg)
{
	mf_worker *w = arg;
	mf_search *result = NULL;
	mf_err err;
	mf_status st = mf_search_run(&result, w->in, w->consts, &w->opts, &err);

	pthread_mutex_lock(&w->lock);
	w->result = result;
	w->status = st;
	w->err = err;
	w->ended = true;
	wake(w);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

mf_status mf_worker_new(mf_worker **out, mf_err *err)
{
	mf_worker *w = calloc(1, sizeof *w);

	*out = NULL;
	if (!w)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	if (pipe(w->pipe) < 0) {
		free(w);
		return mf_fail(err, MF_EENV, "no pipe: %s", strerror(errno));
	}
	for (int i = 0; i < 2; i++)
		fcntl(w->pipe[i], F_SETFD, FD_CLOEXEC);
	fcntl(w->pipe[0], F_SETFL, O_NONBLOCK);
	pthread_mutex_init(&w->lock, NULL);
	*out = w;
	return MF_OK;
}

void mf_worker_cancel(mf_worker *w)
{
	if (!w->started)
		return;
	__atomic_store_n(&w->cancel, 1, __ATOMIC_RELAXED);
	pthread_join(w->thread, NULL);
	w->started = false;
	mf_search_free(w->result);
	w->result = NULL;
	w->ended = false;
}

void mf_worker_free(mf_worker *w)
{
	if (!w)
		return;
	mf_worker_cancel(w);
	close(w->pipe[0]);
	close(w->pipe[1]);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

mf_status mf_worker_start(mf_worker *w, const mf_inputs *in, const mf_consts *k, const mf_search_opts *o, mf_err *err)
{
	int e;

	mf_worker_cancel(w);
	w->cancel = 0;
	w->in = in;
	w->consts = k;
	w->opts = *o;
	w->opts.cancel = &w->cancel;
	w->opts.on_rows = on_rows;
	w->opts.payload = w;
	memset(&w->live, 0, sizeof w->live);
	e = pthread_create(&w->thread, NULL, work, w);
	if (e)
		return mf_fail(err, MF_EENV, "cannot start a search thread: %s", strerror(e));
	w->started = true;
	return MF_OK;
}

bool mf_worker_busy(const mf_worker *w)
{
	return w->started;
}

int mf_worker_fd(const mf_worker *w)
{
	return w->pipe[0];
}

void mf_worker_take(mf_worker *w, mf_live *live, mf_news *news)
{
	char bytes[64];
	bool ended;

	memset(news, 0, sizeof *news);
	while (read(w->pipe[0], bytes, sizeof bytes) > 0)
		;
	if (!w->started)
		return;
	pthread_mutex_lock(&w->lock);
	w->posted = false;
	*live = w->live;
	ended = w->ended;
	pthread_mutex_unlock(&w->lock);
	if (!ended)
		return;
	pthread_join(w->thread, NULL);
	w->started = false;
	news->ended = true;
	news->result = w->result;
	news->status = w->status;
	news->err = w->err;
	w->result = NULL;
	w->ended = false;
}
