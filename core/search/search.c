/*
 * search.c: tier 1; refine.c does the others. Lays out the space, then shares chunks of it among worker threads. A chunk's
 * rows have their place in the array before any thread starts, so the result does not depend on how many threads there
 * are or who was faster. Each thread owns one evaluator; the emitter is shared, it does not change.
 */
#include "space_internal.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Rows judged between two readings of the clock: they stay in the first-level cache across the passes. */
#define BATCH_ROWS 256
#define MIN_CHUNK_ROWS 512
#define MAX_CHUNK_ROWS 8192
/* Below this a second thread costs more to start than it saves. */
#define MIN_THREADED_ROWS 2048
#define HUGE_PAGE (2u << 20)

/* What one thread works with. */
typedef struct worker_state {
	mf_cost *cost;
	mf_cost *untaxed; /* NULL where no constant can tax a plan */
	mf_realizer realizer;
	uint64_t reasons[MF_RULE_COUNT];
	uint32_t first_row[MF_RULE_COUNT];
	double enumerate_ms, predicate_ms, score_ms;
} worker_state;

typedef struct job {
	const mf_space_set *set;
	const mf_search_opts *opts;
	mf_row *rows;
	size_t n_rows;
	size_t *chunk_group; /* first group of a chunk; one more at the end */
	uint8_t *chunk_done;
	worker_state *workers;
	mf_emitter *emitter; /* NULL: unconstrained */
	atomic_bool stop;
} job;

static bool has_overlay(const mf_consts *k)
{
	for (size_t i = 0; i < MF_CONST_COUNT; i++)
		if (k->from_overlay[i])
			return true;
	return false;
}

static void worker_dispose(worker_state *b)
{
	mf_cost_free(b->cost);
	mf_cost_free(b->untaxed);
}

static mf_status worker_init(worker_state *b, const mf_inputs *in, const mf_consts *consts, const mf_search_opts *opts,
	const mf_emitter *emitter, mf_err *err)
{
	mf_status st;

	memset(b, 0, sizeof(*b));
	for (size_t i = 0; i < MF_RULE_COUNT; i++)
		b->first_row[i] = UINT32_MAX;
	if ((st = mf_cost_new(&b->cost, in, consts, &opts->cost, err)) < 0)
		return st;
	/* Factory taxes are unset, so only an overlay can make the two figures differ. */
	if (opts->cost.tax && has_overlay(consts)) {
		mf_cost_opts plain = opts->cost;
		plain.tax = false;
		if ((st = mf_cost_new(&b->untaxed, in, consts, &plain, err)) < 0)
			return st;
	}
	b->realizer = (mf_realizer){emitter, b->cost, true};
	return MF_OK;
}

/* Verdict and memory of a row whose plan is set. Without the constraint only the memory gate speaks. */
static void judge(worker_state *b, mf_row *row)
{
	if (b->realizer.emitter) {
		mf_verdict v;
		mf_realize(&b->realizer, &row->plan, &v);
		row->rule = v.rule;
		row->probe = v.probe;
		row->memory_gb = (float)(v.memory.total_bytes / MF_GB);
	} else {
		mf_memory m;
		mf_cost_memory(b->cost, &row->plan, &m);
		row->rule = m.fits ? MF_RULE_NONE : MF_RULE_MEMORY;
		row->probe = m.fits && m.probe;
		row->memory_gb = (float)(m.total_bytes / MF_GB);
	}
}

static void score(worker_state *b, mf_row *row)
{
	mf_time t;

	mf_cost_time(b->cost, &row->plan, &t);
	row->throughput = (float)t.throughput;
	row->untaxed = row->throughput;
	row->step_ms = (float)t.step_ms;
	row->ttft_ms = (float)t.ttft_ms;
	row->tpot_ms = (float)t.tpot_ms;
	row->hidden = (float)t.hidden_fraction;
	row->bubble = (float)t.bubble_fraction;
	row->simulated = NAN;
	row->tier = 1;
	row->extrapolated = t.extrapolated;
	if (b->untaxed) {
		mf_cost_time(b->untaxed, &row->plan, &t);
		row->untaxed = (float)t.throughput;
	}
}

static void count_reason(worker_state *b, const mf_row *row, size_t index)
{
	b->reasons[row->rule]++;
	if (index < b->first_row[row->rule])
		b->first_row[row->rule] = (uint32_t)index;
}

static bool canceled(job *j)
{
	if (j->opts->cancel && __atomic_load_n(j->opts->cancel, __ATOMIC_RELAXED))
		atomic_store_explicit(&j->stop, true, memory_order_relaxed);
	return atomic_load_explicit(&j->stop, memory_order_relaxed);
}

static void run_chunk(void *payload, size_t chunk, unsigned worker)
{
	job *j = payload;
	worker_state *b = &j->workers[worker];
	size_t group = j->chunk_group[chunk];
	const size_t end = j->chunk_group[chunk + 1];
	const size_t first = (size_t)j->set->groups[group].first_row;
	size_t at = first;
	double t0 = mf_now_ms();

	while (group < end && at < j->n_rows) {
		size_t n = 0;

		if (canceled(j))
			return;
		while (group < end && n < BATCH_ROWS && at + n < j->n_rows)
			n += mf_space_group_fill(j->set, group++, &j->rows[at + n], j->n_rows - at - n);

		const double t1 = mf_now_ms();
		for (size_t i = at; i < at + n; i++)
			judge(b, &j->rows[i]);
		const double t2 = mf_now_ms();
		for (size_t i = at; i < at + n; i++) {
			score(b, &j->rows[i]);
			count_reason(b, &j->rows[i], i);
		}
		const double t3 = mf_now_ms();
		b->enumerate_ms += t1 - t0;
		b->predicate_ms += t2 - t1;
		b->score_ms += t3 - t2;
		t0 = t3;
		at += n;
	}
	j->chunk_done[chunk] = 1;
	if (j->opts->on_rows && at > first)
		j->opts->on_rows(j->opts->payload, &j->rows[first], at - first);
}

/* Cuts the groups into chunks of about equal rows; depends on the space alone. Returns their number, 0 without memory.
 */
static size_t cut_chunks(job *j)
{
	const mf_space_set *s = j->set;
	size_t target = j->n_rows / 64, n = 0;

	target = target < MIN_CHUNK_ROWS ? MIN_CHUNK_ROWS : target > MAX_CHUNK_ROWS ? MAX_CHUNK_ROWS : target;
	j->chunk_group = malloc((j->n_rows / target + 2) * sizeof(*j->chunk_group));
	if (!j->chunk_group)
		return 0;
	for (size_t g = 0; g < s->n_groups && s->groups[g].first_row < j->n_rows; g++)
		if (n == 0 || s->groups[g].first_row - s->groups[j->chunk_group[n - 1]].first_row >= target)
			j->chunk_group[n++] = g;
	j->chunk_group[n] = s->n_groups;
	j->chunk_done = calloc(n, 1);
	return j->chunk_done ? n : 0;
}

static mf_row *alloc_rows(size_t n)
{
	const size_t bytes = (n ? n : 1) * sizeof(mf_row);
	const size_t align = bytes >= 4 * (size_t)HUGE_PAGE ? HUGE_PAGE : 64;
	void *p = NULL;

	if (posix_memalign(&p, align, (bytes + align - 1) / align * align) != 0)
		return NULL;
#ifdef MADV_HUGEPAGE
	/* A million rows touch 30,000 small pages; the kernel may say no, which costs nothing. */
	if (align == HUGE_PAGE)
		(void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
	return p;
}

/* After a cancel: keeps the rows of whole chunks, in order. */
static void compact(job *j, size_t n_chunks)
{
	size_t n = 0;

	for (size_t c = 0; c < n_chunks; c++) {
		const mf_space_set *s = j->set;
		const size_t from = (size_t)s->groups[j->chunk_group[c]].first_row;
		const size_t next = j->chunk_group[c + 1];
		size_t to = next < s->n_groups ? (size_t)s->groups[next].first_row : j->n_rows;
		if (!j->chunk_done[c])
			continue;
		to = to < j->n_rows ? to : j->n_rows;
		memmove(&j->rows[n], &j->rows[from], (to - from) * sizeof(mf_row));
		n += to - from;
	}
	j->n_rows = n;
}

static int by_count(const void *a, const void *b)
{
	const mf_reason_count *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->rule > y->rule) - (x->rule < y->rule);
}

/* Adds the threads' tallies up into `s`. */
static mf_status tally(mf_search *s, const worker_state *workers, size_t n, mf_err *err)
{
	s->reasons = calloc(MF_RULE_COUNT, sizeof(*s->reasons));
	if (!s->reasons)
		return mf_fail(err, MF_ENOMEM, "out of memory for the table of reasons");
	for (size_t r = 1; r < MF_RULE_COUNT; r++) {
		mf_reason_count c = {(mf_rule_id)r, 0, UINT32_MAX};
		for (size_t i = 0; i < n; i++) {
			c.count += workers[i].reasons[r];
			if (workers[i].first_row[r] < c.first_row)
				c.first_row = workers[i].first_row[r];
		}
		if (c.count == 0)
			continue;
		s->reasons[s->n_reasons++] = c;
		if (r == MF_RULE_MEMORY)
			s->counts.rejected_memory += c.count;
		else
			s->counts.rejected_emit += c.count;
	}
	qsort(s->reasons, s->n_reasons, sizeof(*s->reasons), by_count);
	return MF_OK;
}

static void recount(worker_state *b, const mf_row *rows, size_t n)
{
	memset(b->reasons, 0, sizeof(b->reasons));
	for (size_t i = 0; i < MF_RULE_COUNT; i++)
		b->first_row[i] = UINT32_MAX;
	for (size_t i = 0; i < n; i++)
		count_reason(b, &rows[i], i);
}

/* The threads' clocks run side by side: their shares of the wall time are what a reader can add up. */
static void share_out_time(mf_search *s, const worker_state *workers, size_t n, double laid_out_ms, double wall_ms)
{
	double enumerate = 0, predicate = 0, scoring = 0;

	for (size_t i = 0; i < n; i++) {
		enumerate += workers[i].enumerate_ms;
		predicate += workers[i].predicate_ms;
		scoring += workers[i].score_ms;
	}
	const double sum = enumerate + predicate + scoring, scale = sum > 0 ? wall_ms / sum : 0;
	s->timing.enumerate_ms = laid_out_ms + scale * enumerate;
	s->timing.predicate_ms = scale * predicate;
	s->timing.tier1_ms = scale * scoring;
}

static mf_status check_opts(const mf_search_opts *opts, mf_err *err)
{
	if (opts->space < MF_SPACE_PAPER || opts->space > MF_SPACE_WIDE)
		return mf_fail(err, MF_EINPUT, "no such search space: %d", (int)opts->space);
	return MF_OK;
}

mf_status mf_search_run(
	mf_search **out, const mf_inputs *in, const mf_consts *consts, const mf_search_opts *opts, mf_err *err)
{
	const mf_search_opts defaults = MF_SEARCH_OPTS_INIT;
	const double start = mf_now_ms();
	mf_space_set set;
	mf_pool *pool = NULL;
	size_t n_workers = 0, n_chunks = 0;
	mf_status st;

	*out = NULL;
	if (!opts)
		opts = &defaults;
	if ((st = check_opts(opts, err)) < 0 || (st = mf_space_set_init(&set, in, opts->space, err)) < 0)
		return st;

	job j = {.set = &set, .opts = opts};
	mf_search *s = calloc(1, sizeof(*s));
	j.n_rows = (size_t)set.n_rows;
	if (opts->max_rows && opts->max_rows < j.n_rows)
		j.n_rows = (size_t)opts->max_rows;
	if (j.n_rows > UINT32_MAX) {
		st = mf_fail(err, MF_EINPUT, "the space holds %zu plans, more than a search can number", j.n_rows);
		goto done;
	}
	j.rows = s ? alloc_rows(j.n_rows) : NULL;
	if (!j.rows || (n_chunks = cut_chunks(&j)) == 0) {
		st = j.rows && j.n_rows == 0 && j.chunk_done
			     ? MF_OK
			     : mf_fail(err, MF_ENOMEM, "out of memory for %zu plans", j.n_rows);
		if (st < 0)
			goto done;
	}
	if (opts->constraint && (st = mf_emitter_new(&j.emitter, in, err)) < 0)
		goto done;
	if ((st = mf_pool_new(&pool, j.n_rows < MIN_THREADED_ROWS ? 1 : opts->threads, err)) < 0)
		goto done;
	j.workers = calloc(mf_pool_threads(pool), sizeof(*j.workers));
	if (!j.workers) {
		st = mf_fail(err, MF_ENOMEM, "out of memory for the search threads");
		goto done;
	}
	for (; n_workers < mf_pool_threads(pool); n_workers++)
		if ((st = worker_init(&j.workers[n_workers], in, consts, opts, j.emitter, err)) < 0) {
			n_workers++;
			goto done;
		}

	const double laid_out = mf_now_ms();
	mf_pool_run(pool, n_chunks, run_chunk, &j);
	s->canceled = atomic_load(&j.stop);
	if (s->canceled) {
		compact(&j, n_chunks);
		for (size_t i = 0; i < n_workers; i++)
			recount(&j.workers[i], j.rows, i == 0 ? j.n_rows : 0);
	}
	share_out_time(s, j.workers, n_workers, laid_out - start, mf_now_ms() - laid_out);
	s->rows = j.rows;
	s->n_rows = j.n_rows;
	j.rows = NULL;
	s->counts.enumerated = set.enumerated;
	s->counts.structural = set.structural;
	s->counts.scored = s->n_rows;
	if ((st = tally(s, j.workers, n_workers, err)) < 0)
		goto done;
	if ((st = mf_search_rank(s, MF_SORT_THROUGHPUT, true, opts->cost.tax, opts->threads)) < 0) {
		mf_fail(err, st, "out of memory while ranking %zu plans", s->n_rows);
		goto done;
	}
	s->timing.tier2_ms = s->timing.tier3_ms = NAN;
	if (opts->tiers > 1 && !s->canceled) {
		const worker_state *b = &j.workers[0];
		const mf_refiner r = {in, consts, opts, b->cost, b->untaxed ? b->untaxed : b->cost, j.emitter};
		if ((st = mf_refine(s, &r)) < 0) {
			mf_fail(err, st, "out of memory while refining the best plans");
			goto done;
		}
	}
	s->timing.total_ms = mf_now_ms() - start;
	*out = s;
	s = NULL;
done:
	for (size_t i = 0; i < n_workers; i++)
		worker_dispose(&j.workers[i]);
	free(j.workers);
	free(j.chunk_group);
	free(j.chunk_done);
	free(j.rows);
	mf_pool_free(pool);
	mf_emitter_free(j.emitter);
	mf_search_free(s);
	mf_space_set_dispose(&set);
	return st;
}

void mf_search_free(mf_search *s)
{
	if (!s)
		return;
	free(s->rows);
	free(s->order);
	free(s->reasons);
	free(s);
}

static int by_number(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* `n` different numbers below `total`, ascending; every set of n is as likely as any other. */
static void draw(uint64_t *picks, size_t n, uint64_t total, uint64_t seed)
{
	size_t have = 0;

	if (n == total) {
		for (; have < n; have++)
			picks[have] = have;
		return;
	}
	while (have < n) {
		for (size_t i = have; i < n; i++)
			picks[i] = mf_random_u64(&seed) % total;
		qsort(picks, n, sizeof(*picks), by_number);
		have = 0;
		for (size_t i = 0; i < n; i++)
			if (have == 0 || picks[have - 1] != picks[i])
				picks[have++] = picks[i];
	}
}

mf_status mf_search_sample(mf_search **out, const mf_inputs *in, const mf_consts *consts, const mf_search_opts *opts,
	size_t n, uint64_t seed, mf_err *err)
{
	const mf_search_opts defaults = MF_SEARCH_OPTS_INIT;
	const double start = mf_now_ms();
	mf_space_set set;
	mf_emitter *emitter = NULL;
	uint64_t *picks = NULL;
	mf_status st;

	*out = NULL;
	if (!opts)
		opts = &defaults;
	if ((st = check_opts(opts, err)) < 0 || (st = mf_space_set_init(&set, in, opts->space, err)) < 0)
		return st;

	worker_state *b = calloc(1, sizeof(*b));
	mf_search *s = calloc(1, sizeof(*s));
	n = n < set.n_rows ? n : (size_t)set.n_rows;
	picks = malloc((n ? n : 1) * sizeof(*picks));
	if (!b || !s || !picks || !(s->rows = alloc_rows(n))) {
		st = mf_fail(err, MF_ENOMEM, "out of memory for a sample of %zu plans", n);
		goto done;
	}
	if (opts->constraint && (st = mf_emitter_new(&emitter, in, err)) < 0)
		goto done;
	if ((st = worker_init(b, in, consts, opts, emitter, err)) < 0)
		goto done;
	draw(picks, n, set.n_rows, seed);
	for (size_t i = 0; i < n; i++) {
		memset(&s->rows[i], 0, sizeof(s->rows[i]));
		s->rows[i].plan = mf_space_plan(&set, picks[i]);
		judge(b, &s->rows[i]);
		score(b, &s->rows[i]);
		count_reason(b, &s->rows[i], i);
	}
	s->n_rows = n;
	s->counts.enumerated = set.enumerated;
	s->counts.structural = set.structural;
	s->counts.scored = n;
	if ((st = tally(s, b, 1, err)) < 0)
		goto done;
	if ((st = mf_search_rank(s, MF_SORT_THROUGHPUT, true, opts->cost.tax, 1)) < 0) {
		mf_fail(err, st, "out of memory while ranking %zu plans", n);
		goto done;
	}
	s->timing.tier2_ms = s->timing.tier3_ms = NAN; /* a sample is not refined */
	s->timing.total_ms = mf_now_ms() - start;
	*out = s;
	s = NULL;
done:
	if (b)
		worker_dispose(b);
	free(b);
	free(picks);
	mf_emitter_free(emitter);
	mf_search_free(s);
	mf_space_set_dispose(&set);
	return st;
}
