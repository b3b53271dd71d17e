/*
 * rank.c: orders over the rows of a search. A ranking is a stable radix sort of 32-bit keys over the row numbers, so
 * equal scores stay in enumeration order (plainest plan first) and nothing is compared twice.
 */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const mf_choice mf_sort_key_choices[] = {
	{MF_SORT_THROUGHPUT, "throughput", "tokens/s/GPU"},
	{MF_SORT_MEMORY, "memory", "GB of the worst stage"},
	{MF_SORT_STEP, "step", "training step, ms"},
	{MF_SORT_TTFT, "ttft", "time to first token, ms"},
	{MF_SORT_TPOT, "tpot", "time per output token, ms"},
	{MF_SORT_HIDDEN, "hidden", "share of communication hidden"},
	{MF_SORT_BUBBLE, "bubble", "share of the step lost in the pipeline"},
	{0, NULL, NULL},
};

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)
#define PASSES 3
#define SLICE_ROWS 16384
/* Below this one thread has read the keys before a second one has started. */
#define MIN_THREADED_ROWS (1u << 17)

typedef struct keyed {
	uint32_t key, row;
} keyed;

typedef struct reading {
	const mf_search *s;
	mf_sort_key key;
	bool descending, tax;
	keyed *out;
} reading;

static float row_value(const mf_row *r, mf_sort_key key, bool tax)
{
	switch (key) {
	case MF_SORT_MEMORY: return r->memory_gb;
	case MF_SORT_STEP: return r->step_ms;
	case MF_SORT_TTFT: return r->ttft_ms;
	case MF_SORT_TPOT: return r->tpot_ms;
	case MF_SORT_HIDDEN: return r->hidden;
	case MF_SORT_BUBBLE: return r->bubble;
	case MF_SORT_THROUGHPUT: break;
	}
	return tax ? r->throughput : r->untaxed;
}

/* Maps a float to an integer of the same order; unknown goes last either way. */
static uint32_t sort_key(float value, bool descending)
{
	uint32_t bits;

	if (isnan(value))
		return UINT32_MAX;
	value += 0.0f; /* -0 and 0 are one value */
	memcpy(&bits, &value, sizeof(bits));
	bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
	return descending ? ~bits : bits;
}

static void read_slice(void *payload, size_t slice, unsigned worker)
{
	const reading *r = payload;
	const size_t from = slice * SLICE_ROWS;
	const size_t to = from + SLICE_ROWS < r->s->n_rows ? from + SLICE_ROWS : r->s->n_rows;

	(void)worker;
	for (size_t i = from; i < to; i++)
		r->out[i] = (keyed){sort_key(row_value(&r->s->rows[i], r->key, r->tax), r->descending), (uint32_t)i};
}

static void radix_sort(keyed *a, keyed *b, size_t n, uint32_t *order)
{
	size_t counts[PASSES][DIGITS];

	memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < n; i++)
		for (unsigned p = 0; p < PASSES; p++)
			counts[p][a[i].key >> (p * DIGIT_BITS) & (DIGITS - 1)]++;
	for (unsigned p = 0; p < PASSES; p++) {
		const unsigned shift = p * DIGIT_BITS;
		size_t sum = 0;

		if (n && counts[p][a[0].key >> shift & (DIGITS - 1)] == n)
			continue;
		for (unsigned d = 0; d < DIGITS; d++) {
			const size_t c = counts[p][d];
			counts[p][d] = sum;
			sum += c;
		}
		for (size_t i = 0; i < n; i++)
			b[counts[p][a[i].key >> shift & (DIGITS - 1)]++] = a[i];
		keyed *t = a;
		a = b;
		b = t;
	}
	for (size_t i = 0; i < n; i++)
		order[i] = a[i].row;
}

mf_status mf_search_rank(mf_search *s, mf_sort_key key, bool descending, bool tax, unsigned threads)
{
	const size_t n = s->n_rows, slices = (n + SLICE_ROWS - 1) / SLICE_ROWS;
	keyed *pairs = malloc((n ? 2 * n : 1) * sizeof(*pairs));
	mf_pool *pool = NULL;
	mf_status st = MF_OK;

	if (!s->order)
		s->order = malloc((n ? n : 1) * sizeof(*s->order));
	if (!pairs || !s->order) {
		st = MF_ENOMEM;
		goto done;
	}
	if ((st = mf_pool_new(&pool, n < MIN_THREADED_ROWS ? 1 : threads, NULL)) < 0)
		goto done;
	reading r = {s, key, descending, tax, pairs};
	mf_pool_run(pool, slices, read_slice, &r);
	radix_sort(pairs, pairs + n, n, s->order);
done:
	mf_pool_free(pool);
	free(pairs);
	return st;
}

/* ---- Pareto front -------------------------------------------------------------------------------------------------
 */

/* A step of the front of two costs, both the lower the better: as x grows, y falls. */
typedef struct step {
	float x, y;
} step;

/* First step with a larger x. */
static size_t step_above(const step *steps, size_t n, float x)
{
	size_t lo = 0;

	while (lo < n) {
		const size_t mid = lo + (n - lo) / 2;
		if (steps[mid].x <= x)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

/* Rows come best throughput first, so a row is on the front when no earlier one is as good in both costs. */
static bool step_insert(step *steps, size_t *n, float x, float y)
{
	const size_t at = step_above(steps, *n, x);
	size_t from = at, to = at;

	if (at > 0 && steps[at - 1].y <= y)
		return false;
	while (from > 0 && steps[from - 1].x >= x)
		from--;
	while (to < *n && steps[to].y >= y)
		to++;
	memmove(&steps[from + 1], &steps[to], (*n - to) * sizeof(*steps));
	steps[from] = (step){x, y};
	*n = *n - (to - from) + 1;
	return true;
}

static float cost_x(const mf_row *r, mf_phase phase)
{
	return phase == MF_TRAIN ? r->memory_gb : r->ttft_ms;
}
static float cost_y(const mf_row *r, mf_phase phase)
{
	return phase == MF_TRAIN ? 0 : r->tpot_ms;
}

/* Among rows of equal throughput a later one may beat an earlier one in both costs; the sweep kept both. */
static size_t drop_beaten(const mf_row *rows, uint32_t *front, size_t n, mf_phase phase)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		const mf_row *r = &rows[front[i]];
		bool beaten = false;
		for (size_t k = i + 1; k < n && rows[front[k]].throughput == r->throughput && !beaten; k++)
			beaten = cost_x(&rows[front[k]], phase) <= cost_x(r, phase) &&
				 cost_y(&rows[front[k]], phase) <= cost_y(r, phase);
		if (!beaten)
			front[kept++] = front[i];
	}
	return kept;
}

mf_status mf_search_pareto(const mf_search *s, mf_phase phase, uint32_t **out, size_t *n)
{
	/* The order kept in `s` may be by anything; the sweep needs throughput. */
	mf_search view = *s;
	size_t n_steps = 0, n_front = 0;

	*out = NULL;
	*n = 0;
	view.order = NULL;
	mf_status st = mf_search_rank(&view, MF_SORT_THROUGHPUT, true, true, 1);
	if (st < 0) {
		free(view.order);
		return st;
	}
	step *steps = malloc((s->n_rows + 1) * sizeof(*steps));
	if (!steps) {
		free(view.order);
		return MF_ENOMEM;
	}
	for (size_t i = 0; i < s->n_rows; i++) {
		const uint32_t row = view.order[i];
		const mf_row *r = &s->rows[row];
		const float x = cost_x(r, phase), y = cost_y(r, phase);
		if (r->rule != MF_RULE_NONE || isnan(r->throughput) || isnan(x) || isnan(y))
			continue;
		if (step_insert(steps, &n_steps, x, y))
			view.order[n_front++] = row; /* n_front <= i: read before it is overwritten */
	}
	free(steps);
	*out = view.order;
	*n = drop_beaten(s->rows, view.order, n_front, phase);
	return MF_OK;
}
