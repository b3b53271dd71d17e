/*
 * node.c: asks the driver about the GPUs, on a thread of its own: a driver in trouble answers late or never, and the
 * screen must not wait for it. While its tab is shown the thread looks once a second by its own clock, and wakes the
 * screen when something has changed. A thread that never comes back is left behind when the program ends.
 */
#include "tui_app.h"
#include "tui_wake.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 1000.0

struct mf_node_watch {
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	pthread_t thread;
	int pipe[2];
	bool shown, answered, quit;
	bool looking;        /* the driver has been asked and has not answered */
	bool left_behind;    /* by mf_node_watch_free: the thread frees what is left, if it ever comes back */
	mf_node_state state; /* told last; not known when it is to be told anew */
};

static void look(mf_gpu_watch **watch, mf_node_state *out)
{
	mf_err err;

	memset(out, 0, sizeof(*out));
	out->known = true;
	if (!*watch && mf_gpu_watch_open(watch, &err) < 0) {
		snprintf(out->error, sizeof(out->error), "%.250s", err.msg);
		return;
	}
	out->n_gpus = mf_gpu_watch_read(*watch, out->gpu, MF_MAX_NODE_GPUS);
}

/* Sleeps until a second after `since_ms`, or until somebody has something to say. */
static void rest(mf_node_watch *n, double since_ms)
{
	double left = since_ms + LOOK_MS - mf_now_ms();
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += (long)(left * 1e6);
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	if (left > 0)
		pthread_cond_timedwait(&n->wake, &n->mutex, &t);
}

static void release(mf_node_watch *n)
{
	mf_wake_close(n->pipe);
	pthread_cond_destroy(&n->wake);
	pthread_mutex_destroy(&n->mutex);
	free(n);
}

static void *watch_main(void *payload)
{
	mf_node_watch *n = payload;
	mf_node_state *state = malloc(sizeof(*state));
	mf_gpu_watch *watch = NULL;
	double looked_at_ms = -LOOK_MS;

	pthread_mutex_lock(&n->mutex);
	while (!n->quit && state) {
		if (!n->shown) {
			pthread_cond_wait(&n->wake, &n->mutex);
			continue;
		}
		if (n->state.known && mf_now_ms() - looked_at_ms < LOOK_MS) {
			rest(n, looked_at_ms);
			continue;
		}
		n->looking = true;
		pthread_mutex_unlock(&n->mutex);
		looked_at_ms = mf_now_ms();
		look(&watch, state);
		pthread_mutex_lock(&n->mutex);
		n->looking = false;
		if (n->state.known && memcmp(&n->state, state, sizeof(*state)) == 0)
			continue;
		n->answered = true;
		n->state = *state;
		mf_wake(n->pipe);
	}
	bool left_behind = n->left_behind;
	pthread_mutex_unlock(&n->mutex);
	mf_gpu_watch_close(watch);
	free(state);
	if (left_behind)
		release(n);
	return NULL;
}

mf_node_watch *mf_node_watch_new(void)
{
	mf_node_watch *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	if (!mf_wake_open(n->pipe)) {
		free(n);
		return NULL;
	}
	pthread_mutex_init(&n->mutex, NULL);
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&n->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (mf_thread_start(&n->thread, NULL, watch_main, n) != 0) {
		release(n);
		return NULL;
	}
	return n;
}

void mf_node_watch_free(mf_node_watch *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&n->mutex);
	n->quit = true;
	bool left_behind = n->left_behind = n->looking;
	pthread_t thread = n->thread;
	pthread_cond_broadcast(&n->wake);
	pthread_mutex_unlock(&n->mutex);
	if (left_behind) {
		pthread_detach(thread);
		return;
	}
	pthread_join(thread, NULL);
	release(n);
}

void mf_node_watch_show(mf_node_watch *n, bool shown)
{
	pthread_mutex_lock(&n->mutex);
	if (shown && !n->shown) {
		n->state.known = false;
		pthread_cond_broadcast(&n->wake);
	}
	n->shown = shown;
	pthread_mutex_unlock(&n->mutex);
}

int mf_node_watch_fd(const mf_node_watch *n)
{
	return n->pipe[0];
}

bool mf_node_watch_take(mf_node_watch *n, mf_node_state *out)
{
	bool answered;

	mf_wake_seen(n->pipe);
	pthread_mutex_lock(&n->mutex);
	answered = n->answered;
	n->answered = false;
	if (answered)
		*out = n->state;
	pthread_mutex_unlock(&n->mutex);
	return answered;
}
