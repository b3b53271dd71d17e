/* test_search.c: enumeration, constraint, ranking, sampling; the answer may not depend on the number of threads. */
#include "inputs_fixture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

typedef struct fixture {
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_site site;
	mf_consts consts;
	mf_inputs in;
	mf_search_opts opts;
} fixture;

static fixture f;

static void open_inputs(const char *model, const char *cluster, mf_phase phase)
{
	LOAD_INPUTS(f, model, cluster, NULL, NULL, phase);
	mf_consts_factory(&f.consts, &f.cluster);
	f.opts = (mf_search_opts)MF_SEARCH_OPTS_INIT;
	f.opts.constraint = true;
	f.opts.threads = 1;
}

static void close_inputs(void)
{
	mf_intern_free(f.in.intern);
	memset(&f, 0, sizeof(f));
}

static mf_search *search(void)
{
	mf_search *s = NULL;
	mf_err err = {0};

	cr_assert_eq(mf_search_run(&s, &f.in, &f.consts, &f.opts, &err), MF_OK, "%s", err.msg);
	return s;
}

static const char *text(const mf_row *r)
{
	static char t[MF_PLAN_TEXT_MAX];

	mf_plan_format(&r->plan, f.in.intern, t);
	return t;
}

TestSuite(search, .fini = close_inputs);

Test(search, same_rows_and_order_for_any_thread_count)
{
	for (int phase = MF_TRAIN; phase <= MF_SERVE; phase++) {
		open_inputs("deepseek-v2-lite", "8xh800", (mf_phase)phase);
		mf_search *one = search();

		cr_assert_gt(one->n_rows, 100);
		for (unsigned threads = 2; threads <= 4; threads += 2) {
			f.opts.threads = threads;
			mf_search *many = search();
			cr_assert_eq(one->n_rows, many->n_rows);
			cr_assert_arr_eq(one->rows, many->rows, one->n_rows * sizeof(*one->rows));
			cr_assert_arr_eq(one->order, many->order, one->n_rows * sizeof(*one->order));
			cr_assert_eq(one->n_reasons, many->n_reasons);
			for (size_t i = 0; i < one->n_reasons; i++) {
				cr_assert_eq(one->reasons[i].rule, many->reasons[i].rule);
				cr_assert_eq(one->reasons[i].count, many->reasons[i].count);
				cr_assert_eq(one->reasons[i].first_row, many->reasons[i].first_row);
			}
			mf_search_free(many);
		}
		mf_search_free(one);
		close_inputs();
	}
}

Test(search, counts_add_up_and_rejected_rows_stay)
{
	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	mf_search *s = search();
	uint64_t rejected = 0, reasons = 0;

	cr_assert_eq(s->counts.enumerated, s->counts.structural + s->counts.scored);
	cr_assert_eq(s->counts.scored, s->n_rows);
	for (size_t i = 0; i < s->n_rows; i++) {
		rejected += s->rows[i].rule != MF_RULE_NONE;
		cr_assert(isfinite(s->rows[i].throughput), "%s has no score", text(&s->rows[i]));
		cr_assert(isfinite(s->rows[i].memory_gb), "%s has no memory", text(&s->rows[i]));
	}
	for (size_t i = 0; i < s->n_reasons; i++) {
		reasons += s->reasons[i].count;
		cr_assert_eq(s->rows[s->reasons[i].first_row].rule, s->reasons[i].rule);
		cr_assert(i == 0 || s->reasons[i].count <= s->reasons[i - 1].count);
	}
	cr_assert_gt(rejected, 0);
	cr_assert_eq(rejected, reasons);
	cr_assert_eq(rejected, s->counts.rejected_emit + s->counts.rejected_memory);
	mf_search_free(s);
}

Test(search, every_plan_called_buildable_passes_the_predicate)
{
	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	mf_search *s = search();
	mf_realizer r = {0};
	mf_emitter *emitter;
	mf_cost *cost;
	mf_err err = {0};

	cr_assert_eq(mf_emitter_new(&emitter, &f.in, &err), MF_OK);
	cr_assert_eq(mf_cost_new(&cost, &f.in, &f.consts, &f.opts.cost, &err), MF_OK);
	r.emitter = emitter;
	r.cost = cost;
	for (size_t i = 0; i < s->n_rows; i++) {
		mf_verdict v;
		mf_realize(&r, &s->rows[i].plan, &v);
		cr_assert_eq(v.rule, s->rows[i].rule, "%s", text(&s->rows[i]));
	}
	mf_cost_free(cost);
	mf_emitter_free(emitter);
	mf_search_free(s);
}

/* Every plan of every space is a plan, and its text reads back as itself. */
static void check_text_form(const char *model, const char *cluster, mf_phase phase, mf_space space)
{
	open_inputs(model, cluster, phase);
	f.opts.space = space;
	f.opts.constraint = false;
	f.opts.max_rows = 200000;
	mf_search *s = search();

	cr_assert_gt(s->n_rows, 0);
	for (size_t i = 0; i < s->n_rows; i++) {
		char t[MF_PLAN_TEXT_MAX];
		mf_plan back;
		mf_err err = {0};
		mf_plan_format(&s->rows[i].plan, f.in.intern, t);
		cr_assert_eq(mf_plan_validate(&s->rows[i].plan, &err), MF_OK, "%s: %s", t, err.msg);
		cr_assert_eq(mf_plan_parse(&back, t, phase, f.in.intern, &err), MF_OK, "%s: %s", t, err.msg);
		cr_assert_eq(memcmp(&back, &s->rows[i].plan, sizeof(back)), 0, "%s", t);
	}
	mf_search_free(s);
	close_inputs();
}

Test(search, text_form_of_every_plan_reads_back)
{
	for (int space = MF_SPACE_PAPER; space <= MF_SPACE_WIDE; space++)
		for (int phase = MF_TRAIN; phase <= MF_SERVE; phase++)
			check_text_form("deepseek-v2-lite", "8xh800", (mf_phase)phase, (mf_space)space);
	check_text_form("llama-3.1-8b", "8xh100", MF_TRAIN, MF_SPACE_DEFAULT);
	check_text_form("llama-3.1-8b", "8xh100", MF_SERVE, MF_SPACE_DEFAULT);
	check_text_form("qwen3-235b-a22b", "256x8xh800", MF_TRAIN, MF_SPACE_PAPER);
}

static int by_hash(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

Test(search, no_plan_stands_twice)
{
	open_inputs("deepseek-v3", "256x8xh800", MF_TRAIN);
	f.opts.constraint = false;
	mf_search *s = search();
	uint64_t *hashes = malloc(s->n_rows * sizeof(*hashes));

	for (size_t i = 0; i < s->n_rows; i++)
		hashes[i] = mf_plan_hash(&s->rows[i].plan);
	qsort(hashes, s->n_rows, sizeof(*hashes), by_hash);
	for (size_t i = 1; i < s->n_rows; i++)
		cr_assert_neq(hashes[i], hashes[i - 1]);
	free(hashes);
	mf_search_free(s);
}

Test(search, published_ledger_gives_the_papers_order)
{
	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	f.opts.space = MF_SPACE_PAPER;
	f.opts.cost.ledger = MF_LEDGER_PUBLISHED;
	mf_search *s = search();
	size_t first = 0;

	while (first < s->n_rows && s->rows[s->order[first]].rule != MF_RULE_NONE)
		first++;
	cr_assert_lt(first, s->n_rows);
	cr_assert_gt(first, 0, "the ranking is headed by a plan that cannot be built");
	cr_expect_str_eq(text(&s->rows[s->order[first]]), "tp1/pp1/ep8/1f1b+ov");
	mf_search_free(s);

	f.opts.constraint = false;
	s = search();
	for (first = 0; first < s->n_rows && s->rows[s->order[first]].rule != MF_RULE_NONE; first++)
		;
	cr_assert_lt(first, s->n_rows);
	cr_expect_eq(s->rows[s->order[first]].plan.schedule, MF_DUALPIPE, "%s", text(&s->rows[s->order[first]]));
	mf_search_free(s);
}

Test(search, rank_is_stable_and_puts_the_unknown_last)
{
	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	mf_search *s = search();

	for (size_t i = 0; i < s->n_rows; i += 7)
		s->rows[i].throughput = NAN;
	for (size_t i = 3; i < s->n_rows; i += 7)
		s->rows[i].throughput = 100;
	for (int descending = 0; descending <= 1; descending++) {
		cr_assert_eq(mf_search_rank(s, MF_SORT_THROUGHPUT, descending, true, 2), MF_OK);
		for (size_t i = 1; i < s->n_rows; i++) {
			const float a = s->rows[s->order[i - 1]].throughput, b = s->rows[s->order[i]].throughput;
			cr_assert(isnan(b) || (!isnan(a) && (descending ? a >= b : a <= b)));
			if (a == b || (isnan(a) && isnan(b)))
				cr_assert_lt(s->order[i - 1], s->order[i]);
		}
	}
	cr_assert_eq(mf_search_rank(s, MF_SORT_TTFT, false, true, 1), MF_OK);
	for (size_t i = 0; i < s->n_rows; i++)
		cr_assert_eq(s->order[i], i, "no row has a TTFT in training: all stay in place");
	mf_search_free(s);
}

static bool as_good(const mf_row *a, const mf_row *b, mf_phase phase)
{
	if (phase == MF_TRAIN)
		return a->throughput >= b->throughput && a->memory_gb <= b->memory_gb;
	return a->throughput >= b->throughput && a->ttft_ms <= b->ttft_ms && a->tpot_ms <= b->tpot_ms;
}

Test(search, pareto_front_is_what_nothing_beats)
{
	for (int phase = MF_TRAIN; phase <= MF_SERVE; phase++) {
		open_inputs("deepseek-v2-lite", "8xh800", (mf_phase)phase);
		mf_search *s = search();
		uint32_t *front;
		size_t n;

		cr_assert_eq(mf_search_pareto(s, (mf_phase)phase, &front, &n), MF_OK);
		cr_assert_gt(n, 0);
		for (size_t i = 0; i < n; i++) {
			cr_assert_eq(s->rows[front[i]].rule, MF_RULE_NONE);
			for (size_t k = 0; k < n; k++)
				cr_assert(i == k || !as_good(&s->rows[front[k]], &s->rows[front[i]], (mf_phase)phase));
		}
		for (size_t i = 0; i < s->n_rows; i++) {
			bool covered = s->rows[i].rule != MF_RULE_NONE || isnan(s->rows[i].throughput) ||
				       (phase == MF_SERVE && (isnan(s->rows[i].ttft_ms) || isnan(s->rows[i].tpot_ms)));
			for (size_t k = 0; k < n && !covered; k++)
				covered = as_good(&s->rows[front[k]], &s->rows[i], (mf_phase)phase);
			cr_assert(covered, "%s is beaten by nothing on the front", text(&s->rows[i]));
		}
		free(front);
		mf_search_free(s);
		close_inputs();
	}
}

Test(search, sample_is_a_set_of_rows_of_the_search_and_repeats)
{
	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	mf_search *all = search(), *a, *b, *c;
	mf_err err = {0};

	cr_assert_eq(mf_search_sample(&a, &f.in, &f.consts, &f.opts, 300, 1, &err), MF_OK);
	cr_assert_eq(mf_search_sample(&b, &f.in, &f.consts, &f.opts, 300, 1, &err), MF_OK);
	cr_assert_eq(mf_search_sample(&c, &f.in, &f.consts, &f.opts, 300, 2, &err), MF_OK);
	cr_assert_eq(a->n_rows, 300);
	cr_assert_arr_eq(a->rows, b->rows, 300 * sizeof(mf_row));
	cr_assert_neq(memcmp(a->rows, c->rows, 300 * sizeof(mf_row)), 0);
	for (size_t i = 0, at = 0; i < a->n_rows; i++, at++) {
		while (at < all->n_rows && memcmp(&all->rows[at].plan, &a->rows[i].plan, sizeof(mf_plan)) != 0)
			at++;
		cr_assert_lt(at, all->n_rows, "%s is not in the space, or twice in the sample", text(&a->rows[i]));
		cr_assert_eq(memcmp(&all->rows[at], &a->rows[i], sizeof(mf_row)), 0, "%s", text(&a->rows[i]));
	}
	mf_search_free(c);
	cr_assert_eq(mf_search_sample(&c, &f.in, &f.consts, &f.opts, SIZE_MAX, 1, &err), MF_OK);
	cr_assert_eq(c->n_rows, all->n_rows);
	mf_search_free(a);
	mf_search_free(b);
	mf_search_free(c);
	mf_search_free(all);
}

static volatile int stop_flag;
static size_t rows_seen;

static void stop_after_first(void *payload, const mf_row *rows, size_t n)
{
	(void)payload;
	(void)rows;
	rows_seen += n;
	stop_flag = 1;
}

Test(search, cancel_keeps_whole_judged_rows)
{
	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	mf_search *all = search();

	stop_flag = 0;
	rows_seen = 0;
	f.opts.cancel = &stop_flag;
	f.opts.on_rows = stop_after_first;
	mf_search *s = search();
	cr_assert(s->canceled);
	cr_assert_gt(s->n_rows, 0);
	cr_assert_lt(s->n_rows, all->n_rows);
	cr_assert_eq(s->n_rows, rows_seen);
	cr_assert_arr_eq(s->rows, all->rows, s->n_rows * sizeof(*s->rows));
	cr_assert_eq(s->counts.scored, s->n_rows);
	mf_search_free(s);

	stop_flag = 1;
	s = search();
	cr_assert(s->canceled);
	cr_assert_eq(s->n_rows, 0);
	mf_search_free(s);
	mf_search_free(all);
}

static void count_rows(void *payload, const mf_row *rows, size_t n)
{
	(void)rows;
	*(size_t *)payload += n;
}

Test(search, every_row_is_handed_out_once_and_max_rows_bounds_them)
{
	size_t seen = 0;

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	f.opts.on_rows = count_rows;
	f.opts.payload = &seen;
	f.opts.max_rows = 1001;
	mf_search *s = search();
	cr_assert_eq(s->n_rows, 1001);
	cr_assert_eq(seen, 1001);
	mf_search_free(s);
}

Test(search, wide_space_of_a_large_cluster_holds_a_million_plans)
{
	mf_search *s;
	mf_err err = {0};

	open_inputs("qwen3-235b-a22b", "256x8xh800", MF_TRAIN);
	f.opts.space = MF_SPACE_WIDE;
	cr_assert_eq(mf_search_sample(&s, &f.in, &f.consts, &f.opts, 100, 1, &err), MF_OK);
	cr_assert_geq(s->counts.enumerated - s->counts.structural, 1000000);
	mf_search_free(s);
}

/* The fast ledger passes over stages that cannot be the worst; the explanation computes every one. */
static void check_ledger_shortcut(const char *model, mf_space space)
{
	mf_explain *ex = malloc(sizeof(*ex));
	mf_search *s;
	mf_cost *cost;
	mf_err err = {0};

	open_inputs(model, "256x8xh800", MF_TRAIN);
	f.opts.space = space;
	cr_assert_eq(mf_cost_new(&cost, &f.in, &f.consts, &f.opts.cost, &err), MF_OK);
	cr_assert_eq(mf_search_sample(&s, &f.in, &f.consts, &f.opts, 2000, 7, &err), MF_OK);
	for (size_t i = 0; i < s->n_rows; i++) {
		mf_memory m;
		mf_cost_memory(cost, &s->rows[i].plan, &m);
		cr_assert_eq(mf_cost_explain(cost, &s->rows[i].plan, ex, &err), MF_OK, "%s", err.msg);
		cr_assert_eq(m.total_bytes, ex->memory.total_bytes, "%s", text(&s->rows[i]));
		cr_assert_eq(m.worst_stage, ex->memory.worst_stage, "%s", text(&s->rows[i]));
	}
	mf_search_free(s);
	mf_cost_free(cost);
	free(ex);
	close_inputs();
}

Test(search, skipped_stages_were_never_the_worst)
{
	check_ledger_shortcut("deepseek-v3", MF_SPACE_DEFAULT);
	check_ledger_shortcut("qwen3-235b-a22b", MF_SPACE_WIDE);
}

Test(search, tax_off_ranks_by_the_untaxed_figure)
{
	mf_err err = {0};

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN);
	cr_assert_eq(mf_consts_overlay(&f.consts, "h800", &err), MF_OK, "%s", err.msg);
	mf_search *taxed = search();
	f.opts.cost.tax = false;
	mf_search *plain = search();
	cr_assert_eq(taxed->n_rows, plain->n_rows);
	for (size_t i = 0; i < plain->n_rows; i++)
		cr_assert_eq(taxed->rows[i].untaxed, plain->rows[i].throughput, "%s", text(&plain->rows[i]));
	cr_assert_eq(mf_search_rank(taxed, MF_SORT_THROUGHPUT, true, false, 1), MF_OK);
	cr_assert_arr_eq(taxed->order, plain->order, plain->n_rows * sizeof(*plain->order));
	mf_search_free(taxed);
	mf_search_free(plain);
}
