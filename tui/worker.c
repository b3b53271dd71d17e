/*
 * worker.c: the two threads behind the screen. One runs a search and posts rows as they come; one orders and filters.
 * Both answer through a mutex and a pipe that wakes the loop. Only mf_worker_take, on the UI thread, touches the app.
 *
 * Rows are replaced together with the order made from them: a finished search waits as `next` until its arrangement is
 * there. While an arrangement runs, the rows it reads are neither moved nor freed.
 */
#include "tui_app.h"
#include "tui_wake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a running search that are shown before it ends: enough to fill any screen with the best so far. */
#define LIVE_ROWS 65536
#define LIVE_MS 80.0

typedef struct request {
	const mf_row *rows;
	size_t n;
	unsigned rows_id;
	bool tax, descending, constraint;
	mf_phase phase;
	mf_sort_key key;
	mf_show show;
	char filter[MF_PROMPT_MAX]; /* "" for none; update never keeps one that cannot be read */
	mf_filter_ctx ctx;
	unsigned threads;
	const mf_row *old_rows; /* rows on show now, when this request replaces them; NULL: none to compare with */
	unsigned old_rows_id;
} request;

typedef struct answer {
	unsigned rows_id;
	size_t n_rows;
	uint32_t *rank_of, *view; /* owned */
	size_t n_view;
	uint32_t best;
	bool moved;       /* ranks may differ from those shown before */
	mf_before before; /* owned; of other rows than these */
	uint32_t *front;  /* owned */
	size_t n_front;
	bool failed, abandoned;
} answer;

struct mf_worker {
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	int pipe[2];
	bool pipe_full;

	/* search: fields of the running one, guarded by the mutex where both sides write */
	pthread_t search_thread;
	bool search_started, search_done, search_wanted;
	volatile int cancel;
	mf_inputs in; /* points at the copies that follow: what the user changes meanwhile is the next search's */
	mf_settings assumed;
	mf_consts consts;
	mf_search_opts opts;
	mf_search *found;
	mf_status found_status;
	mf_err found_err;
	mf_row *batch; /* rows posted and not yet taken */
	size_t n_batch, cap_batch, posted;
	uint64_t arrived;

	/* arrangement */
	pthread_t arrange_thread;
	bool arrange_alive, quit, has_request, abandon, has_answer; /* abandon: the running one is out of date */
	request req;
	answer ans;

	/* UI thread alone */
	bool arrange_wanted, reading; /* reading: a request is out and its rows must stay */
	mf_search *shown, *next;
	mf_row *live;
	size_t n_live, cap_live;
	unsigned rows_id, next_id;
	double live_at_ms;
	uint32_t *rank_of, *view, *front;
};

static void wake_loop(mf_worker *w)
{
	/* Called with the mutex held. One byte is enough: take looks at everything. */
	if (!w->pipe_full) {
		w->pipe_full = true;
		mf_wake(w->pipe);
	}
}

/* ---- the arranging thread ---- */

/* Orders kept between requests, so that typing a filter sorts nothing. */
typedef struct orders {
	unsigned rows_id;
	size_t n;
	bool tax, valid, sorted_valid, descending;
	mf_sort_key key;
	uint32_t *by_rank, *sorted, *front;
	size_t n_front;
	bool moved; /* since the last answer that was given */
	mf_before before;
} orders;

static uint32_t *sort_rows(const request *r, mf_sort_key key, bool descending)
{
	mf_search s;
	memset(&s, 0, sizeof(s));
	s.rows = (mf_row *)(uintptr_t)r->rows; /* ranking reads rows and writes the order alone */
	s.n_rows = r->n;
	s.order = malloc((r->n ? r->n : 1) * sizeof(*s.order));
	if (!s.order)
		return NULL;
	for (size_t i = 0; i < r->n; i++)
		s.order[i] = (uint32_t)i;
	if (mf_search_rank(&s, key, descending, r->tax, r->threads) < 0) {
		free(s.order);
		return NULL;
	}
	return s.order;
}

/* Rows of the Pareto front by rising cost: it comes by falling throughput, and on a front the two go together. */
static void find_front(const request *r, orders *o)
{
	mf_search s;
	free(o->front);
	memset(&s, 0, sizeof(s));
	s.rows = (mf_row *)(uintptr_t)r->rows;
	s.n_rows = r->n;
	if (mf_search_pareto(&s, r->phase, &o->front, &o->n_front) < 0)
		o->front = NULL, o->n_front = 0;
	for (size_t i = 0, j = o->n_front; i + 1 < j; i++) {
		uint32_t swap = o->front[i];
		o->front[i] = o->front[--j];
		o->front[j] = swap;
	}
}

static bool superseded(mf_worker *w)
{
	pthread_mutex_lock(&w->mutex);
	bool newer = w->abandon || w->quit;
	pthread_mutex_unlock(&w->mutex);
	return newer;
}

/* Which rows are on show. Rows are judged in the order they lie in memory, then picked in the order of the screen: the
 * other way round every look at a row would miss the cache. */
typedef struct judging {
	mf_worker *w;
	const request *r;
	const uint32_t *rank_of;
	bool *on_show;
	mf_filter *filter[64]; /* one a thread: a filter keeps what it matches with */
	int stopped;
} judging;
#define JUDGE_ROWS 16384

static void judge_chunk(void *payload, size_t item, unsigned worker)
{
	judging *j = payload;
	const request *r = j->r;
	size_t from = item * JUDGE_ROWS, to = from + JUDGE_ROWS < r->n ? from + JUDGE_ROWS : r->n;

	if (__atomic_load_n(&j->stopped, __ATOMIC_RELAXED))
		return;
	if (superseded(j->w)) {
		__atomic_store_n(&j->stopped, 1, __ATOMIC_RELAXED);
		return;
	}
	for (size_t i = from; i < to; i++) {
		bool buildable = r->rows[i].rule == MF_RULE_NONE;
		j->on_show[i] = r->show == MF_SHOW_BUILDABLE  ? buildable
				: r->show == MF_SHOW_REJECTED ? !buildable
							      : true;
		if (j->on_show[i] && j->filter[worker])
			j->on_show[i] = mf_filter_match(j->filter[worker], &r->ctx, &r->rows[i], j->rank_of[i] + 1);
	}
}

/* False when a newer request came meanwhile, or memory is short. */
static bool judge_rows(mf_worker *w, const request *r, const uint32_t *rank_of, bool *on_show)
{
	judging j = {w, r, rank_of, on_show, {NULL}, 0};
	size_t chunks = (r->n + JUDGE_ROWS - 1) / JUDGE_ROWS;
	mf_pool *pool = NULL;
	mf_err err;
	bool ok = mf_pool_new(&pool, r->filter[0] && chunks > 4 ? r->threads : 1, &err) == MF_OK;

	for (unsigned i = 0; ok && i < mf_pool_threads(pool); i++)
		ok = mf_filter_parse(&j.filter[i], r->filter, r->phase, NULL, &err) == MF_OK;
	if (ok)
		mf_pool_run(pool, chunks, judge_chunk, &j);
	for (size_t i = 0; i < MF_COUNT(j.filter); i++)
		mf_filter_free(j.filter[i]);
	mf_pool_free(pool);
	return ok && !j.stopped;
}

/* False when a newer request came meanwhile; the answer is then empty. */
static bool arrange(mf_worker *w, const request *r, orders *o, answer *out)
{
	memset(out, 0, sizeof(*out));
	out->rows_id = r->rows_id;
	out->n_rows = r->n;
	out->best = MF_NO_ROW;
	if (o->valid && !o->moved && (o->rows_id != r->rows_id || o->tax != r->tax)) {
		o->moved = true;
		if (r->old_rows && o->rows_id == r->old_rows_id)
			mf_before_make(&o->before, r->old_rows, o->by_rank, o->n);
	}
	if (!o->valid || o->rows_id != r->rows_id || o->n != r->n || o->tax != r->tax) {
		bool changed = !o->front || o->rows_id != r->rows_id || o->n != r->n;
		free(o->by_rank);
		o->by_rank = sort_rows(r, MF_SORT_THROUGHPUT, true);
		o->rows_id = r->rows_id, o->n = r->n, o->tax = r->tax;
		o->valid = o->by_rank != NULL;
		o->sorted_valid = false;
		if (changed)
			find_front(r, o);
	}
	bool by_rank = r->key == MF_SORT_THROUGHPUT && r->descending;
	if (o->valid && !by_rank && (!o->sorted_valid || o->key != r->key || o->descending != r->descending)) {
		free(o->sorted);
		o->sorted = sort_rows(r, r->key, r->descending);
		o->key = r->key, o->descending = r->descending;
		o->sorted_valid = o->sorted != NULL;
	}
	out->rank_of = malloc((r->n ? r->n : 1) * sizeof(uint32_t));
	out->view = malloc((r->n ? r->n : 1) * sizeof(uint32_t));
	bool *on_show = malloc(r->n ? r->n : 1);
	if (!o->valid || (!by_rank && !o->sorted_valid) || !out->rank_of || !out->view || !on_show)
		goto fail;
	for (size_t i = 0; i < r->n; i++) {
		uint32_t row = o->by_rank[i];
		out->rank_of[row] = (uint32_t)i;
		if (out->best == MF_NO_ROW && (!r->constraint || r->rows[row].rule == MF_RULE_NONE))
			out->best = row;
	}
	if (!judge_rows(w, r, out->rank_of, on_show)) {
		out->abandoned = superseded(w);
		goto fail;
	}
	const uint32_t *order = by_rank ? o->by_rank : o->sorted;
	for (size_t i = 0; i < r->n; i++)
		if (on_show[order[i]])
			out->view[out->n_view++] = order[i];
	free(on_show);
	out->front = o->front ? malloc((o->n_front + 1) * sizeof(*out->front)) : NULL;
	if (out->front) {
		memcpy(out->front, o->front, o->n_front * sizeof(*out->front));
		out->n_front = o->n_front;
	}
	/* What an abandoned request changed is told with the next answer. */
	out->moved = o->moved;
	out->before = o->before;
	o->moved = false;
	memset(&o->before, 0, sizeof(o->before));
	return true;
fail:
	free(on_show);
	free(out->rank_of);
	free(out->view);
	out->rank_of = out->view = NULL;
	out->failed = true;
	return false;
}

static void *arrange_main(void *payload)
{
	mf_worker *w = payload;
	orders o;

	memset(&o, 0, sizeof(o));
	pthread_mutex_lock(&w->mutex);
	while (!w->quit) {
		if (!w->has_request) {
			pthread_cond_wait(&w->wake, &w->mutex);
			continue;
		}
		request r = w->req;
		answer a;
		w->has_request = false;
		pthread_mutex_unlock(&w->mutex);
		arrange(w, &r, &o, &a);
		pthread_mutex_lock(&w->mutex);
		w->ans = a;
		w->has_answer = true;
		wake_loop(w);
		/* The answer is taken before the next request: two never wait. */
		while (w->has_answer && !w->quit)
			pthread_cond_wait(&w->wake, &w->mutex);
	}
	pthread_mutex_unlock(&w->mutex);
	free(o.by_rank);
	free(o.sorted);
	free(o.front);
	mf_before_dispose(&o.before);
	return NULL;
}

/* ---- the searching thread ---- */

static void on_rows(void *payload, const mf_row *rows, size_t n)
{
	mf_worker *w = payload;

	pthread_mutex_lock(&w->mutex);
	w->arrived += n;
	size_t room = w->posted < LIVE_ROWS ? LIVE_ROWS - w->posted : 0;
	size_t take = n < room ? n : room;
	if (take > 0 && w->n_batch + take > w->cap_batch) {
		size_t cap = w->cap_batch ? w->cap_batch * 2 : 4096;
		while (cap < w->n_batch + take)
			cap *= 2;
		mf_row *grown = realloc(w->batch, cap * sizeof(*grown));
		if (grown) {
			w->batch = grown;
			w->cap_batch = cap;
		} else {
			take = 0; /* the preview misses rows; the result will not */
		}
	}
	if (take > 0) {
		memcpy(w->batch + w->n_batch, rows, take * sizeof(*rows));
		w->n_batch += take;
		w->posted += take;
		wake_loop(w);
	}
	pthread_mutex_unlock(&w->mutex);
}

static void *search_main(void *payload)
{
	mf_worker *w = payload;
	mf_search *found = NULL;
	mf_err err;

	memset(&err, 0, sizeof(err));
	mf_status st = mf_search_run(&found, &w->in, &w->consts, &w->opts, &err);
	pthread_mutex_lock(&w->mutex);
	w->found = found;
	w->found_status = st;
	w->found_err = err;
	w->search_done = true;
	wake_loop(w);
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

/* ---- the UI thread's side ---- */

mf_status mf_worker_new(mf_worker **out, mf_err *err)
{
	mf_worker *w = calloc(1, sizeof(*w));
	*out = NULL;
	if (!w)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	if (!mf_wake_open(w->pipe)) {
		free(w);
		return mf_fail(err, MF_EENV, "cannot make a pipe");
	}
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->wake, NULL);
	w->rows_id = w->next_id = 1;
	if (mf_thread_start(&w->arrange_thread, NULL, arrange_main, w) != 0) {
		mf_worker_free(w);
		return mf_fail(err, MF_EENV, "cannot start a thread");
	}
	w->arrange_alive = true;
	*out = w;
	return MF_OK;
}

void mf_worker_free(mf_worker *w)
{
	if (!w)
		return;
	__atomic_store_n(&w->cancel, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&w->mutex);
	w->quit = true;
	pthread_cond_broadcast(&w->wake);
	pthread_mutex_unlock(&w->mutex);
	if (w->arrange_alive)
		pthread_join(w->arrange_thread, NULL);
	if (w->search_started)
		pthread_join(w->search_thread, NULL);
	if (w->has_answer) {
		free(w->ans.rank_of);
		free(w->ans.view);
		free(w->ans.front);
		mf_before_dispose(&w->ans.before);
	}
	mf_search_free(w->found);
	mf_search_free(w->shown);
	mf_search_free(w->next);
	free(w->batch);
	free(w->live);
	free(w->rank_of);
	free(w->view);
	free(w->front);
	mf_wake_close(w->pipe);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->mutex);
	free(w);
}

int mf_worker_fd(const mf_worker *w)
{
	return w->pipe[0];
}

bool mf_worker_idle(const mf_worker *w)
{
	return !w->search_started && !w->search_wanted && !w->arrange_wanted && !w->reading && !w->next;
}

bool mf_worker_stop(mf_worker *w)
{
	if (w->search_started)
		__atomic_store_n(&w->cancel, 1, __ATOMIC_RELAXED);
	return !w->search_started;
}

bool mf_worker_clear(mf_worker *w, mf_app *a)
{
	if (!mf_worker_stop(w))
		return false;
	if (w->reading) {
		pthread_mutex_lock(&w->mutex);
		w->abandon = true;
		pthread_mutex_unlock(&w->mutex);
		return false;
	}
	mf_search_free(w->shown);
	mf_search_free(w->next);
	w->shown = w->next = NULL;
	free(w->rank_of);
	free(w->view);
	free(w->front);
	w->rank_of = w->view = w->front = NULL;
	a->front = NULL;
	a->n_front = 0;
	w->n_live = 0;
	w->n_batch = 0;
	w->rows_id = ++w->next_id;
	w->arrange_wanted = false;
	a->rows_id = w->rows_id;
	a->rows = NULL;
	mf_before_dispose(&a->before);
	a->rank_of = a->view = NULL;
	a->n_rows = a->n_view = a->n_reasons = 0;
	a->reasons = NULL;
	a->best = MF_NO_ROW;
	a->cursor = a->top = 0;
	a->pinned = false;
	a->n_marks = 0;
	a->generation++;
	memset(&a->counts, 0, sizeof(a->counts));
	return true;
}

static void start_search(mf_worker *w, mf_app *a)
{
	w->search_wanted = false;
	w->in = a->in;
	memcpy(&w->assumed, &a->now, sizeof(w->assumed));
	w->in.model = &w->assumed.model;
	w->in.cluster = &w->assumed.cluster;
	w->in.workload = &w->assumed.workload;
	w->in.stack = &w->assumed.stack;
	w->consts = a->consts;
	w->opts = a->now.search;
	w->opts.constraint = true; /* plans are always judged; the toggle only changes what is made of it */
	w->opts.cost.tax = true;   /* both figures are in a row; the toggle chooses one */
	w->opts.cancel = &w->cancel;
	w->opts.on_rows = on_rows;
	w->opts.payload = w;
	w->cancel = 0;
	w->found = NULL;
	w->search_done = false;
	w->n_batch = w->posted = 0;
	w->arrived = 0;
	if (mf_thread_start(&w->search_thread, NULL, search_main, w) != 0) {
		mf_app_say(a, true, "cannot start a thread for the search");
		return;
	}
	w->search_started = true;
	a->searching = true;
	a->arrived = 0;
}

void mf_worker_search(mf_worker *w, mf_app *a)
{
	w->search_wanted = true;
	if (mf_worker_stop(w))
		start_search(w, a);
}

static void start_arrange(mf_worker *w, mf_app *a)
{
	request r;

	w->arrange_wanted = false;
	memset(&r, 0, sizeof(r));
	if (w->next) {
		r.rows = w->next->rows, r.n = w->next->n_rows, r.rows_id = w->next_id;
		if (w->shown)
			r.old_rows = w->shown->rows, r.old_rows_id = w->rows_id;
	} else if (w->shown) {
		r.rows = w->shown->rows, r.n = w->shown->n_rows, r.rows_id = w->rows_id;
	} else {
		r.rows = w->live, r.n = w->n_live, r.rows_id = w->rows_id;
	}
	r.tax = a->now.tax;
	r.phase = a->phase;
	r.key = a->sort;
	r.descending = a->descending;
	r.constraint = a->now.constraint;
	r.show = a->show;
	r.ctx = (mf_filter_ctx){a->in.intern, a->world};
	r.threads = a->now.search.threads;
	snprintf(r.filter, sizeof(r.filter), "%s", a->filter);
	pthread_mutex_lock(&w->mutex);
	w->req = r;
	w->has_request = true;
	w->abandon = false;
	pthread_cond_broadcast(&w->wake);
	pthread_mutex_unlock(&w->mutex);
	w->reading = true;
	a->arranging = true;
}

void mf_worker_arrange(mf_worker *w, mf_app *a)
{
	w->arrange_wanted = true;
	if (!w->reading) {
		start_arrange(w, a);
		return;
	}
	/* The running one is out of date: withdraw a request not begun, and let a begun one notice. */
	pthread_mutex_lock(&w->mutex);
	bool waiting = w->has_request;
	if (waiting)
		w->has_request = false;
	else
		w->abandon = true;
	pthread_mutex_unlock(&w->mutex);
	if (waiting)
		start_arrange(w, a);
}

static void swap_in(mf_worker *w, mf_app *a)
{
	mf_search_free(w->shown);
	free(w->live);
	w->live = NULL;
	w->n_live = w->cap_live = 0;
	w->shown = w->next;
	w->next = NULL;
	w->rows_id = w->next_id;
	a->rows_id = w->rows_id;
	a->rows = w->shown->rows;
	a->n_rows = w->shown->n_rows;
	a->counts = w->shown->counts;
	a->timing = w->shown->timing;
	a->reasons = w->shown->reasons;
	a->n_reasons = w->shown->n_reasons;
	a->generation++;
	a->budget_bytes = NAN;
	if (a->n_rows > 0 && a->eval.cost) {
		mf_memory m;
		mf_cost_memory(a->eval.cost, &a->rows[0].plan, &m);
		a->budget_bytes = m.budget_bytes;
	}
}

static unsigned take_answer(mf_worker *w, mf_app *a, answer ans)
{
	w->reading = false;
	a->arranging = false;
	if (ans.failed) {
		if (!ans.abandoned)
			mf_app_say(a, true, "out of memory while ordering plans");
		return MF_FX_REDRAW;
	}
	if (w->next && ans.rows_id == w->next_id) {
		bool first = !w->shown;
		swap_in(w, a);
		mf_before_dispose(&a->before);
		if (!first)
			a->before = ans.before;
		else
			mf_before_dispose(&ans.before);
	} else if (w->shown && ans.moved && w->rank_of) {
		/* The same rows in another order: the old ranks are kept as they are. */
		mf_before_dispose(&a->before);
		a->before.rank_of = w->rank_of;
		a->before.rows_id = w->rows_id;
		w->rank_of = NULL;
	} else if (!w->shown) {
		mf_before_dispose(&ans.before);
		a->rows = w->live;
		a->n_rows = w->n_live;
		a->rows_id = w->rows_id;
	}
	free(w->rank_of);
	free(w->view);
	free(w->front);
	w->rank_of = ans.rank_of;
	w->view = ans.view;
	w->front = ans.front;
	a->front = ans.front;
	a->n_front = ans.n_front;
	a->best = ans.best;
	return mf_app_arranged(a, w->rank_of, w->view, ans.n_view);
}

/* Moves posted rows into the preview of a first search. */
static bool take_batch(mf_worker *w, const mf_row *batch, size_t n)
{
	if (w->n_live + n > w->cap_live) {
		size_t cap = w->cap_live ? w->cap_live * 2 : 8192;
		while (cap < w->n_live + n)
			cap *= 2;
		mf_row *grown = realloc(w->live, cap * sizeof(*grown));
		if (!grown)
			return false;
		w->live = grown;
		w->cap_live = cap;
	}
	memcpy(w->live + w->n_live, batch, n * sizeof(*batch));
	w->n_live += n;
	return true;
}

unsigned mf_worker_take(mf_worker *w, mf_app *a)
{
	unsigned fx = 0;
	answer ans;
	bool answered, done;

	mf_wake_seen(w->pipe);
	pthread_mutex_lock(&w->mutex);
	w->pipe_full = false;
	answered = w->has_answer;
	ans = w->ans;
	w->has_answer = false;
	if (answered)
		pthread_cond_broadcast(&w->wake);
	done = w->search_started && w->search_done;
	a->arrived = w->arrived;
	pthread_mutex_unlock(&w->mutex);

	if (answered)
		fx |= take_answer(w, a, ans);
	if (done) {
		pthread_join(w->search_thread, NULL);
		w->search_started = false;
		a->searching = false;
		fx |= MF_FX_REDRAW;
		bool stale = w->search_wanted || __atomic_load_n(&w->cancel, __ATOMIC_RELAXED);
		if (w->found_status < 0 && !stale)
			mf_app_say_error(a, "search: ", &w->found_err);
		if (w->found && !stale && w->found_status == MF_OK) {
			/* A finished search that still waits for its order is overtaken by this one. */
			if (w->next && w->reading) {
				w->arrange_wanted = true;
				mf_search_free(w->found);
				w->search_wanted = true;
			} else {
				mf_search_free(w->next);
				w->next = w->found;
				w->next_id++;
				w->arrange_wanted = true;
			}
		} else {
			mf_search_free(w->found);
		}
		w->found = NULL;
		if (w->search_wanted)
			start_search(w, a);
	} else if (!w->shown && !w->next && !w->reading && mf_now_ms() - w->live_at_ms >= LIVE_MS) {
		pthread_mutex_lock(&w->mutex);
		bool grown = w->n_batch > 0 && take_batch(w, w->batch, w->n_batch);
		w->n_batch = 0;
		pthread_mutex_unlock(&w->mutex);
		if (grown) {
			w->live_at_ms = mf_now_ms();
			a->rows = w->live;
			w->arrange_wanted = true;
			fx |= MF_FX_REDRAW;
		}
	}
	if (w->arrange_wanted && !w->reading)
		start_arrange(w, a);
	return fx;
}
