/* Serving: weights, KV bytes and the pool by formula; passes and the loop against an independent implementation. */
#include "cost_internal.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
	mf_model model;
	mf_cluster cluster;
	mf_workload work;
	mf_stack stack;
	mf_consts consts;
	mf_cost_opts opts;
	mf_cost *cost;
} fixture;

static void open_cost(fixture *f)
{
	mf_inputs in = {.model = &f->model, .cluster = &f->cluster, .workload = &f->work, .stack = &f->stack};
	mf_err err = {0};

	mf_cost_free(f->cost);
	cr_assert(eq(int, mf_cost_new(&f->cost, &in, &f->consts, &f->opts, &err), MF_OK), "%s", err.msg);
}

/* One node of `gpus`. */
static fixture *setup(const char *model, const char *cluster, uint32_t gpus)
{
	fixture *f = calloc(1, sizeof *f);
	mf_err err = {0};

	cr_assert(f != NULL);
	cr_assert(eq(int, mf_model_load(&f->model, model, &err), MF_OK), "%s", err.msg);
	cr_assert(eq(int, mf_cluster_load(&f->cluster, cluster, &err), MF_OK), "%s", err.msg);
	cr_assert(eq(int, mf_workload_load(&f->work, "chat-1k", MF_SERVE, &err), MF_OK), "%s", err.msg);
	cr_assert(eq(int, mf_stack_load(&f->stack, "sglang-0.5.15", MF_SERVE, &err), MF_OK), "%s", err.msg);
	f->cluster.gpus_per_node = gpus;
	f->opts = (mf_cost_opts)MF_COST_OPTS_INIT;
	mf_consts_factory(&f->consts, &f->cluster);
	open_cost(f);
	return f;
}

static void teardown(fixture *f)
{
	mf_cost_free(f->cost);
	free(f);
}

static mf_plan plan(const char *text)
{
	mf_plan p;
	mf_err err = {0};

	cr_assert(eq(int, mf_plan_parse(&p, text, MF_SERVE, NULL, &err), MF_OK), "%s: %s", text, err.msg);
	return p;
}

static mf_explain *explain(fixture *f, const mf_plan *p)
{
	mf_explain *ex = malloc(sizeof *ex);
	mf_err err = {0};

	cr_assert(ex != NULL);
	cr_assert(eq(int, mf_cost_explain(f->cost, p, ex, &err), MF_OK), "%s", err.msg);
	return ex;
}

static double line(fixture *f, const char *text, const char *name)
{
	mf_plan p = plan(text);
	mf_explain *ex = explain(f, &p);
	double bytes = NAN;

	for (size_t i = 0; i < ex->n_lines; i++)
		if (strcmp(ex->lines[i].name, name) == 0)
			bytes = ex->lines[i].bytes;
	free(ex);
	cr_assert(not(isnan(bytes)), "no line %s", name);
	return bytes;
}

static mf_time timed(fixture *f, const char *text)
{
	mf_plan p = plan(text);
	mf_time t;

	mf_cost_time(f->cost, &p, &t);
	return t;
}

static void near(double got, double want, double rel, const char *what)
{
	cr_expect(fabs(got - want) <= rel * fabs(want), "%s: %.6g, expected %.6g", what, got, want);
}

Test(serve, weights_of_deepseek_v3)
{
	fixture *f = setup("deepseek-v3", "8xh200", 8);

	/* 58 MoE layers, 256 experts of three 7168 x 2048 matrices, one byte a parameter and a block's scale. */
	near(line(f, "tp8/ep8", "weights.experts"), 58.0 * 256 / 8 * 3 * (7168 * 2048 + 4 * 56 * 16), 1e-9, "experts");
	near(line(f, "tp8", "weights.experts"), 58.0 * 256 * 3 * (7168 * 256 + 4 * 56 * 2), 1e-9,
		"experts cut by tensor parallel");
	near(line(f, "tp8", "weights.attention"),
		61.0 * (7168 * (1536 + 512 + 64) + (1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168.0) / 8), 1e-9,
		"attention");
	near(line(f, "tp1/ep8", "weights.attention"),
		61.0 * (7168 * (1536 + 512 + 64) + (1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168.0)), 1e-3,
		"attention, replicated over attention DP");
	near(line(f, "tp8", "weights.embedding"), 2.0 * 2 * 129280 * 7168 / 8, 1e-9, "embedding and head");
	teardown(f);
}

Test(serve, weights_of_qwen3_30b)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 8);

	near(line(f, "tp8", "weights.experts"), 48.0 * 128 * 3 * 2048 * 96 * 2, 1e-9, "experts");
	/* Four KV heads: each is held twice at tp8. */
	near(line(f, "tp8", "weights.attention"), 48.0 * 2048 * 128 * (2 * 32 + 2 * 8) / 8 * 2, 1e-9, "attention");
	teardown(f);
}

Test(serve, kv_bytes_stop_shrinking)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 8);
	double tp4, tp8, one = 2048.0 * 48 * 2 * 128 * 2;

	f->work.concurrency = 8;
	open_cost(f);
	tp4 = line(f, "tp4/rep2", "kv.cache");
	tp8 = line(f, "tp8", "kv.cache");
	near(tp4, 4 * one, 1e-9, "4 requests, one head a rank");
	near(tp8, 8 * one, 1e-9, "8 requests, still one head a rank");
	teardown(f);
	f = setup("deepseek-v3", "8xh200", 8);
	f->work.concurrency = 8;
	open_cost(f);
	near(line(f, "tp8", "kv.cache"), 8 * 2048.0 * 61 * 576 * 2, 1e-9, "MLA holds the whole latent on every rank");
	near(line(f, "tp1/ep8", "kv.cache"), 2048.0 * 61 * 576 * 2, 1e-9, "attention DP divides the requests");
	teardown(f);
}

Test(serve, lines_add_up_and_explain_is_the_fast_path)
{
	static const char *const texts[] = {
		"tp8", "tp1/ep8", "tp4/ep8", "tp8/ep8/a2a:deepep", "tp1/ep8/a2a:deepep/tbo", "tp2/rep4", "tp4/pp2"};
	fixture *f = setup("deepseek-v2-lite", "8xh800", 8);
	mf_ledger ledgers[] = {MF_LEDGER_FULL, MF_LEDGER_PUBLISHED};

	for (size_t l = 0; l < MF_COUNT(ledgers); l++) {
		f->opts.ledger = ledgers[l];
		open_cost(f);
		for (size_t i = 0; i < MF_COUNT(texts); i++) {
			mf_plan p = plan(texts[i]);
			mf_explain *ex = explain(f, &p);
			mf_memory mem;
			mf_time t;
			double bytes = 0, token = 0, first = 0;

			mf_cost_memory(f->cost, &p, &mem);
			mf_cost_time(f->cost, &p, &t);
			for (size_t k = 0; k < ex->n_lines; k++) {
				cr_expect(ge(dbl, ex->lines[k].bytes, 0), "%s %s", texts[i], ex->lines[k].name);
				bytes += ex->lines[k].bytes;
			}
			for (size_t k = 0; k < ex->n_terms; k++)
				*(strncmp(ex->terms[k].name, "ttft", 4) == 0 ? &first : &token) += ex->terms[k].ms;
			near(bytes, mem.total_bytes, 1e-12, texts[i]);
			near(token, t.tpot_ms, 1e-12, texts[i]);
			near(first, t.ttft_ms, 1e-12, texts[i]);
			cr_expect(mem.fits);
			cr_expect(ex->memory.total_bytes == mem.total_bytes && ex->time.throughput == t.throughput &&
					  ex->time.tpot_ms == t.tpot_ms && ex->time.ttft_ms == t.ttft_ms,
				"%s", texts[i]);
			free(ex);
		}
	}
	teardown(f);
}

Test(serve, direction_of_load_and_width)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 8);
	double last = 0;
	mf_time whole, split;

	for (uint32_t n = 4; n <= 256; n *= 4) {
		mf_time t;

		f->work.concurrency = n;
		open_cost(f);
		t = timed(f, "tp8");
		cr_expect(gt(dbl, t.tpot_ms, last));
		last = t.tpot_ms;
	}
	f->work.concurrency = 4;
	open_cost(f);
	cr_expect(lt(dbl, timed(f, "tp4/rep2").tpot_ms, timed(f, "tp1/rep8").tpot_ms),
		"wider is faster at a small batch");
	/* Replicas divide the load: two of four GPUs are one of four with half of it. */
	f->work.concurrency = 64;
	open_cost(f);
	split = timed(f, "tp4/rep2");
	teardown(f);
	f = setup("qwen3-30b-a3b", "8xh200", 4);
	f->work.concurrency = 32;
	open_cost(f);
	whole = timed(f, "tp4");
	cr_expect(split.tpot_ms == whole.tpot_ms && split.ttft_ms == whole.ttft_ms &&
		  split.throughput == whole.throughput);
	teardown(f);
}

Test(serve, throughput_follows_latency)
{
	static const char *const texts[] = {"tp8", "tp4/pp2", "tp1/pp8", "tp2/pp2/rep2", "tp1/ep8/a2a:deepep"};
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 8);

	/* 64 clients that each wait for their tokens cannot make more of them than 64 / TPOT. */
	for (size_t i = 0; i < MF_COUNT(texts); i++) {
		mf_time t = timed(f, texts[i]);

		cr_expect(lt(dbl, t.throughput * 8, 64 / t.tpot_ms * 1e3), "%s", texts[i]);
		cr_expect(gt(dbl, t.throughput * 8, 64 / t.tpot_ms * 1e3 * 0.9), "%s", texts[i]);
	}
	cr_expect(gt(dbl, timed(f, "tp4/pp2").tpot_ms, timed(f, "tp8").tpot_ms));
	teardown(f);
}

Test(serve, too_large_does_not_fit)
{
	fixture *f = setup("deepseek-v3", "8xh800", 8);
	mf_plan p = plan("tp8");
	mf_memory m;

	mf_cost_memory(f->cost, &p, &m);
	cr_expect(not(m.fits));
	cr_expect(gt(dbl, m.total_bytes, m.budget_bytes));
	teardown(f);
}

Test(serve, kv_pool_limits_the_batch)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh800", 1);
	mf_time t;
	mf_memory m;
	mf_plan p = plan("tp1");

	f->work.concurrency = 1024;
	open_cost(f);
	t = timed(f, "tp1");
	mf_cost_memory(f->cost, &p, &m);
	cr_expect(m.fits);
	cr_expect(lt(dbl, t.batch, 200));
	teardown(f);
}

Test(serve, tax_is_on_kernels_alone)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh800", 8);
	mf_plan p = plan("tp8"), k = p;
	mf_time plain, with;

	k.kernel = 1;
	mf_cost_time(f->cost, &p, &plain);
	mf_cost_time(f->cost, &k, &with);
	cr_expect(plain.throughput == with.throughput, "an unset tax changes nothing");
	f->consts.v[MF_C_TAX_SERVE] = 0.25;
	mf_cost_time(f->cost, &k, &with);
	near(with.throughput, plain.throughput / 1.25, 1e-12, "taxed");
	mf_cost_time(f->cost, &p, &with);
	cr_expect(plain.throughput == with.throughput);
	teardown(f);
}

Test(serve, slow_link_and_skew_cost_time)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 8);
	double fast = timed(f, "tp8").tpot_ms, even = timed(f, "tp1/ep8").tpot_ms;

	f->cluster.link_gbps = 200;
	open_cost(f);
	cr_expect(gt(dbl, timed(f, "tp8").tpot_ms, fast));
	f->cluster.link_gbps = 450;
	f->work.max_violation = 6;
	open_cost(f);
	cr_expect(gt(dbl, timed(f, "tp1/ep8").tpot_ms, even));
	teardown(f);
}

Test(serve, mem_fraction)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 8);
	mf_plan p = plan("tp8");
	double x = mf_cost_mem_fraction(f->cost, &p);

	cr_expect(x > 0.8 && x < 0.95, "%g", x);
	f->stack.mem_fraction = 0.7;
	cr_expect(eq(dbl, mf_cost_mem_fraction(f->cost, &p), 0.7));
	teardown(f);
}

/*
 * An independent implementation of the same model gave these (decode pass, TPOT, TTFT in ms), with curves of fewer terms:
 * the structure is held here, the curves by their tables.
 */
Test(serve, agrees_with_the_prototype)
{
	static const struct {
		const char *model, *cluster, *plan;
		uint32_t gpus, in, out, clients;
		double decode, tpot, ttft;
	} rows[] = {
		{"qwen3-30b-a3b", "8xh200", "tp1", 1, 1024, 1024, 16, 12.3885, 12.6531, 301.8633},
		{"qwen3-30b-a3b", "8xh200", "tp4", 4, 1024, 1024, 64, 7.668, 8.2605, 499.7372},
		{"qwen3-30b-a3b", "8xh200", "tp4/ep4", 4, 1024, 1024, 64, 8.1177, 8.7497, 502.3463},
		{"qwen3-30b-a3b", "8xh200", "tp2", 2, 12000, 256, 8, 7.4506, 12.4858, 513.2199},
		{"qwen3-235b-a22b", "8xh200", "tp8", 8, 1024, 1024, 32, 19.1097, 20.1497, 730.0395},
		{"qwen3-235b-a22b", "8xb200", "tp8/ep8", 8, 2048, 512, 64, 16.2882, 19.8633, 1021.5886},
		{"deepseek-v3", "8xh200", "tp8", 8, 1024, 1024, 16, 15.7223, 16.2427, 417.1806},
		{"deepseek-v3", "8xb200", "tp8/ep8", 8, 1024, 1024, 64, 23.1411, 24.3924, 700.8459},
		/* Under attention DP we divide the chunk by dp as the engine does; the other does not, so prompts
	           differ. */
		{"qwen3-30b-a3b", "8xh200", "tp1/ep8", 8, 1024, 1024, 128, 8.0387, NAN, NAN},
		{"gpt-oss-120b", "8xh100", "tp2", 2, 1024, 1024, 32, 11.5982, 12.2134, 314.3216},
	};

	for (size_t i = 0; i < MF_COUNT(rows); i++) {
		fixture *f = setup(rows[i].model, rows[i].cluster, rows[i].gpus);
		mf_time t;

		f->work.input_tokens = rows[i].in;
		f->work.output_tokens = rows[i].out;
		f->work.concurrency = rows[i].clients;
		open_cost(f);
		t = timed(f, rows[i].plan);
		cr_log_info("%s %s: %g %g %g", rows[i].model, rows[i].plan, t.step_ms / rows[i].decode - 1,
			t.tpot_ms / rows[i].tpot - 1, t.ttft_ms / rows[i].ttft - 1);
		near(t.step_ms, rows[i].decode, 0.18, rows[i].model);
		if (!isnan(rows[i].tpot)) {
			near(t.tpot_ms, rows[i].tpot, 0.18, rows[i].model);
			near(t.ttft_ms, rows[i].ttft, 0.18, rows[i].model);
		}
		teardown(f);
	}
}
