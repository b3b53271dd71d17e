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
		/* It takes every request in within 10 ms. */
		f->consts.v[MF_C_S_REQUEST_MS] = 10;
		f->consts.v[MF_C_S_TOKENIZE_US] = 0;
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

/* ---- passes worked by hand --------------------------------------------------------------------------------------- */

/* Constants under which every curve is its bytes over the datasheet's rate or nothing: sums that a hand can do. */
static void ideal(fixture *f)
{
	static const mf_const_id rates[] = {MF_C_S_GEMM_BF16_A, MF_C_S_GEMM_BF16_B, MF_C_S_MOE_BF16_A,
		MF_C_S_MOE_BF16_B, MF_C_S_MOE_BF16_G, MF_C_S_MOE_BF16_WIDE, MF_C_S_MOE_BF16_U0, MF_C_S_DEC_A,
		MF_C_S_DEC_B, MF_C_S_DEC_K0, MF_C_S_SMALL_HBM};
	static const mf_const_id none[] = {MF_C_S_GEMM_BF16, MF_C_S_GEMM_BF16_TAU, MF_C_S_MOE_BF16, MF_C_S_DEC,
		MF_C_S_DEC_D, MF_C_S_DEC_S, MF_C_S_SMALL_US, MF_C_S_SAMPLE_US};

	for (size_t i = 0; i < MF_COUNT(rates); i++)
		f->consts.v[rates[i]] = 1;
	for (size_t i = 0; i < MF_COUNT(none); i++)
		f->consts.v[none[i]] = 0;
	/* Arithmetic free, so that hypot is its memory side. */
	for (int t = 0; t < MF_DTYPE_COUNT; t++)
		f->cluster.tflops[t] = 1e12;
	open_cost(f);
}

static double term(fixture *f, const char *text, const char *name)
{
	mf_plan p = plan(text);
	mf_explain *ex = explain(f, &p);
	double ms = NAN;

	for (size_t i = 0; i < ex->n_terms; i++)
		if (strcmp(ex->terms[i].name, name) == 0)
			ms = ex->terms[i].ms;
	free(ex);
	return ms;
}

Test(serve, one_request_reads_its_bytes)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 1);
	double rate = 4800e6, attention, experts, head; /* bytes a ms */

	f->work.concurrency = 1;
	f->consts.v[MF_C_S_SKEW] = 1;
	ideal(f);
	/* A layer: qkv 2048 x (32 + 8) 128 and its rows, the output projection, 1536 tokens of 4 heads of keys and values. */
	attention = 2 * (2048.0 * 5120 + 2048 + 5120) + 2 * (4096.0 * 2048 + 4096 + 2048) + 1536.0 * 2 * 4 * 128 * 2 +
		    4 * 32 * 128;
	near(term(f, "tp1", "attention"), 48 * attention / rate, 1e-9, "attention");
	/* Eight experts of 3 x 2048 x 768; eight slots of activations; the router; 3.5 us of choosing. */
	experts = 8 * 3 * 2048.0 * 768 * 2 + 8 * (3 * 2048.0 + 4 * 768) * 2 + 2 * (2048.0 * 128 + 2048 + 128);
	near(term(f, "tp1", "experts"), 48 * (experts / rate + 0.0035), 1e-9, "experts");
	head = 2 * (2048.0 * 151936 + 2048 + 151936) + 2 * 2048 + 8 * 151936.0;
	near(term(f, "tp1", "head and sampling"), head / rate, 1e-9, "head");
	teardown(f);
}

Test(serve, experts_hit_by_a_batch)
{
	/* Even popularity: E (1 - (1 - k/E)^T) distinct experts. */
	static const uint32_t batches[] = {1, 4, 16, 64};
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 1);

	f->consts.v[MF_C_S_SKEW] = 1;
	for (size_t i = 0; i < MF_COUNT(batches); i++) {
		double t = batches[i], hit = 128 * (1 - pow(1 - 8 / 128.0, t));
		double bytes = hit * 3 * 2048 * 768 * 2 + 8 * t * (3 * 2048 + 4 * 768) * 2 +
			       2 * (2048.0 * 128 + t * (2048 + 128));

		f->work.concurrency = batches[i];
		ideal(f);
		near(term(f, "tp1", "experts"), 48 * (bytes / 4800e6 + 0.0035), 1e-9, "experts");
	}
	teardown(f);
}

/* ---- limits and directions --------------------------------------------------------------------------------------- */

static void engine(fixture *f, mf_engine e)
{
	f->stack.engine = e;
	open_cost(f);
}

Test(serve, never_below_the_speed_of_light)
{
	static const char *const models[] = {"qwen3-30b-a3b", "deepseek-v3", "gpt-oss-120b", "minimax-m2.5", "glm-5.2",
		"qwen3.5-397b-a17b", "llama4-maverick", "nemotron-3-nano-30b-a3b", "llama-3.1-8b"};
	static const char *const texts[] = {"tp8", "tp1", "tp4/pp2", "tp8/ep8", "tp1/ep8"};

	for (size_t m = 0; m < MF_COUNT(models); m++)
		for (int e = 0; e < MF_ENGINE_COUNT; e++) {
			fixture *f = setup(models[m], "8xb200", 8);

			for (uint32_t n = 1; n <= 4096; n *= 8)
				for (size_t i = 0; i < MF_COUNT(texts); i++) {
					mf_plan p = plan(texts[i]);
					mf_time t;

					if (p.ep > 1 && !f->model.experts)
						continue;
					f->work.concurrency = n;
					engine(f, (mf_engine)e);
					t = timed(f, texts[i]);
					cr_expect(t.tpot_ms > mf_cost_floor_ms(f->cost, &p), "%s %s at %u: %g under %g",
						models[m], texts[i], n, t.tpot_ms, mf_cost_floor_ms(f->cost, &p));
					cr_expect(t.ttft_ms > 0 && isfinite(t.ttft_ms) && t.throughput > 0);
				}
			teardown(f);
		}
}

Test(serve, more_load_more_throughput_longer_context_longer_tokens)
{
	static const char *const texts[] = {"tp8", "tp8/ep8", "tp1/ep8", "tp2/rep4", "tp4/pp2"};

	for (int e = 0; e < MF_ENGINE_COUNT; e++) {
		fixture *f = setup("qwen3-235b-a22b", "8xh200", 8);

		for (size_t i = 0; i < MF_COUNT(texts); i++) {
			double throughput = 0, tpot = 0, ttft = 0;

			f->work.input_tokens = 1024;
			for (uint32_t n = 1; n <= 1024; n *= 2) {
				mf_time t;

				f->work.concurrency = n;
				engine(f, (mf_engine)e);
				t = timed(f, texts[i]);
				cr_expect(t.throughput >= throughput, "%s engine %d, %u in flight: %g after %g",
					texts[i], e, n, t.throughput, throughput);
				throughput = t.throughput;
			}
			f->work.concurrency = 32;
			for (uint32_t in = 128; in <= 65536; in *= 2) {
				mf_time t;

				f->work.input_tokens = in;
				engine(f, (mf_engine)e);
				t = timed(f, texts[i]);
				/* A pool that is full runs fewer at once, and those are faster. */
				if (t.batch >= 32) {
					cr_expect(t.tpot_ms >= tpot, "%s engine %d, %u in: %g after %g", texts[i], e,
						in, t.tpot_ms, tpot);
					tpot = t.tpot_ms;
				}
				cr_expect(t.ttft_ms >= ttft, "%s engine %d, %u in: %g after %g", texts[i], e, in,
					t.ttft_ms, ttft);
				ttft = t.ttft_ms;
			}
		}
		teardown(f);
	}
}

Test(serve, engines_differ_where_their_rules_do)
{
	fixture *f = setup("gpt-oss-120b", "8xh200", 1);
	mf_plan p = plan("tp1");
	double kept, freed, whole, half;
	mf_memory m;

	f->work.concurrency = 4096;
	f->work.output_tokens = 8192;
	engine(f, MF_ENGINE_VLLM);
	half = timed(f, "tp1").batch;
	engine(f, MF_ENGINE_TRTLLM);
	whole = timed(f, "tp1").batch;
	cr_expect(lt(dbl, whole, half), "reserving the whole output runs fewer requests");
	/* 18 of 36 layers see 128 tokens; TensorRT-LLM keeps all of them. */
	f->work.concurrency = 1;
	f->work.input_tokens = f->work.output_tokens = 1024;
	engine(f, MF_ENGINE_TRTLLM);
	kept = line(f, "tp1", "kv.cache");
	engine(f, MF_ENGINE_VLLM);
	freed = line(f, "tp1", "kv.cache");
	near(kept, 36.0 * 2048 * 2 * 8 * 64 * 2, 1e-9, "all layers keep all tokens");
	near(freed, 18.0 * (2048 + 128) * 2 * 8 * 64 * 2, 1e-9, "windowed layers keep the window");
	mf_cost_memory(f->cost, &p, &m);
	cr_expect(m.fits);
	/* Prompts that ride with decode stall it less than prompts alone, host time apart. */
	f->work.concurrency = 64;
	f->work.input_tokens = 4096;
	f->consts.v[MF_C_S_HOST_MS] = 0;
	engine(f, MF_ENGINE_VLLM);
	half = term(f, "tp1", "prompt stalls");
	engine(f, MF_ENGINE_SGLANG);
	whole = term(f, "tp1", "prompt stalls");
	cr_expect(lt(dbl, half, whole));
	teardown(f);
}

Test(serve, a_finite_queue_drains_in_turns)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh200", 1);
	mf_time all, more, closed;

	f->stack.engine = MF_ENGINE_TRTLLM;
	f->work.input_tokens = f->work.output_tokens = 8192;
	f->work.concurrency = f->work.requests = 400;
	open_cost(f);
	all = timed(f, "tp1");
	f->work.concurrency = f->work.requests = 40000;
	open_cost(f);
	more = timed(f, "tp1");
	f->work.requests = 0;
	open_cost(f);
	closed = timed(f, "tp1");
	cr_expect(eq(dbl, all.batch, more.batch), "the pool is full either way");
	cr_expect(ge(dbl, more.throughput, all.throughput * 0.999), "a long queue hides its last turn");
	near(more.throughput, closed.throughput, 0.02, "a very long queue is a closed loop");
	teardown(f);
}

Test(serve, speculation_is_a_wider_pass_for_more_tokens)
{
	fixture *f = setup("deepseek-v3", "8xh200", 8);
	double plain, none, two;

	f->work.concurrency = 4;
	open_cost(f);
	plain = timed(f, "tp8").tpot_ms;
	f->work.draft_tokens = 3;
	f->work.accepted_tokens = 1;
	open_cost(f);
	none = timed(f, "tp8").tpot_ms;
	f->work.accepted_tokens = 2.5;
	open_cost(f);
	two = timed(f, "tp8").tpot_ms;
	cr_expect(gt(dbl, none, plain), "drafts that nobody takes cost time");
	cr_expect(lt(dbl, two, plain), "at a small batch a verified draft is nearly free");
	teardown(f);
}

Test(serve, pools_and_their_pair)
{
	fixture *f = setup("deepseek-v3", "8xh200", 8), *g = setup("deepseek-v3", "8xh200", 8);
	mf_plan p = plan("tp8/ep8"), d = plan("tp8/ep8");
	mf_pair pair, busy;
	mf_time one;
	mf_err err = {0};

	f->work.concurrency = g->work.concurrency = 8;
	open_cost(f);
	open_cost(g);
	cr_assert(eq(int, mf_cost_pair(f->cost, &p, g->cost, &d, &pair, &err), MF_OK), "%s", err.msg);
	one = timed(f, "tp8/ep8");
	cr_expect(lt(dbl, pair.tpot_ms, one.tpot_ms), "no prompt stalls a decode pool");
	near(pair.tpot_ms, one.step_ms, 1e-12, "its tokens take a decode pass");
	/* Closed loop: what is in flight is rate times life. */
	near(pair.requests_per_s * (pair.ttft_ms + 1024 * pair.tpot_ms) / 1e3, 8, 1e-9, "requests in flight");
	near(pair.throughput, pair.requests_per_s * 1024 / 16, 1e-12, "tokens a GPU of both");
	cr_expect(pair.prefill_busy < 1 && pair.decode_busy <= 1);
	f->work.concurrency = g->work.concurrency = 65536;
	f->work.input_tokens = g->work.input_tokens = 16384;
	f->work.output_tokens = g->work.output_tokens = 16;
	open_cost(f);
	open_cost(g);
	cr_assert(eq(int, mf_cost_pair(f->cost, &p, g->cost, &d, &busy, &err), MF_OK), "%s", err.msg);
	near(busy.prefill_busy, 1, 1e-12, "long prompts fill the prefill pool");
	cr_expect(gt(dbl, busy.ttft_ms, 1e3), "and queue before it");
	near(busy.requests_per_s * (busy.ttft_ms + 16 * busy.tpot_ms) / 1e3, 65536, 1e-9, "requests in flight");
	teardown(f);
	teardown(g);
}

Test(serve, layers_of_several_kinds)
{
	fixture *f = setup("qwen3.5-397b-a17b", "8xb200", 8);
	double short_ms, long_ms, params;

	/* Only every fourth layer's time and cache grow with the context. */
	f->work.concurrency = 8;
	f->work.output_tokens = 16;
	open_cost(f);
	near(line(f, "tp8", "kv.cache"), 8 * (15.0 * 1040 * 2 * 256 * 2 + 45 * 64 * 128 * 128 * 4.0 / 8), 1e-9,
		"one head of 15 layers, states of 45");
	short_ms = term(f, "tp8", "attention");
	f->work.input_tokens = 65536;
	open_cost(f);
	long_ms = term(f, "tp8", "attention");
	cr_expect(gt(dbl, long_ms, short_ms));
	cr_expect(lt(dbl, long_ms, 8 * short_ms));
	params = 15 * 4096.0 * 256 * (3 * 32 + 2 * 8) / 8 + 45 * 4096.0 * (2 * 2048 + 3 * 8192) / 8;
	near(line(f, "tp8", "weights.attention"), params * 2, 1e-9, "gated attention and delta-net layers");
	teardown(f);
	/* Sparse attention stops growing at the keys it keeps; its indexer does not. */
	f = setup("glm-5.2", "8xb200", 8);
	f->work.concurrency = 1;
	f->work.output_tokens = 16;
	f->work.input_tokens = 32768;
	open_cost(f);
	short_ms = term(f, "tp8", "attention");
	f->work.input_tokens = 65536;
	open_cost(f);
	long_ms = term(f, "tp8", "attention");
	near(long_ms - short_ms, 78 * 32768.0 * 132 / (8e6 * 0.6) / 1e3, 1e-6, "132 bytes a token are scored");
	teardown(f);
}

Test(serve, a_tower_that_is_not_priced_is_for_a_probe)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh800", 8);
	mf_plan p = mf_plan_default(MF_SERVE);
	mf_memory m;

	p.tp = 8;
	mf_cost_memory(f->cost, &p, &m);
	cr_expect(m.fits && !m.probe);
	f->model.other_parts = true;
	open_cost(f);
	mf_cost_memory(f->cost, &p, &m);
	cr_expect(m.fits && m.probe);
	teardown(f);
}

Test(serve, a_share_that_leaves_no_room_for_graphs_is_for_a_probe)
{
	fixture *f = setup("qwen3-30b-a3b", "8xh800", 8);
	mf_plan p = mf_plan_default(MF_SERVE);
	mf_memory m;

	p.tp = 8;
	f->stack.engine = MF_ENGINE_VLLM;
	f->stack.mem_fraction = 0.98;
	open_cost(f);
	mf_cost_memory(f->cost, &p, &m);
	cr_expect(m.fits && m.probe);
	p.graph = MF_GRAPH_OFF;
	mf_cost_memory(f->cost, &p, &m);
	cr_expect(m.fits && !m.probe, "without graphs the rest holds the context");
	teardown(f);
}

Test(serve, a_probed_level_scales_decode_alone)
{
	fixture *f = setup("deepseek-v3", "8xh200", 8);
	mf_time plain = timed(f, "tp8"), level;
	mf_plan p = plan("tp8");
	mf_explain *ex;
	double token = 0;

	f->consts.v[MF_C_S_LEVEL] = 1.25;
	open_cost(f);
	level = timed(f, "tp8");
	near(level.step_ms, 1.25 * plain.step_ms, 1e-12, "decode pass");
	ex = explain(f, &p);
	for (size_t i = 0; i < ex->n_terms; i++)
		token += strncmp(ex->terms[i].name, "ttft", 4) == 0 ? 0 : ex->terms[i].ms;
	near(token, level.tpot_ms, 1e-12, "terms add up");
	free(ex);
	teardown(f);
}

Test(serve, a_layer_without_a_gate_has_one_product_up)
{
	fixture *f = setup("llama-3.1-8b", "8xh200", 1);
	double gated;

	f->work.concurrency = 1;
	ideal(f);
	gated = term(f, "tp1", "dense layers");
	near(gated, 32 * 2 * (3 * 4096.0 * 14336 + 2 * 4096 + 3 * 14336) / 4800e6, 1e-9,
		"three matrices and their rows");
	f->model.gated = false;
	open_cost(f);
	near(term(f, "tp1", "dense layers"), 32 * 2 * (2 * 4096.0 * 14336 + 2 * 4096 + 2 * 14336) / 4800e6, 1e-9,
		"two");
	teardown(f);
}

Test(serve, explain_is_the_fast_path_under_every_engine)
{
	static const char *const texts[] = {"tp8", "tp1/ep8", "tp4/pp2/ep4", "tp1/ep8/a2a:deepep/tbo"};

	for (int e = 0; e < MF_ENGINE_COUNT; e++) {
		fixture *f = setup("qwen3-next-80b-a3b", "8xb200", 8);

		f->work.length_spread = 0.2;
		f->work.draft_tokens = e == MF_ENGINE_VLLM ? 3 : 0;
		f->work.accepted_tokens = 2.5;
		f->work.requests = e == MF_ENGINE_TRTLLM ? 64 : 0;
		engine(f, (mf_engine)e);
		for (size_t i = 0; i < MF_COUNT(texts); i++) {
			mf_plan p = plan(texts[i]);
			mf_explain *ex = explain(f, &p);
			double token = 0, first = 0;
			mf_time t;

			mf_cost_time(f->cost, &p, &t);
			for (size_t k = 0; k < ex->n_terms; k++)
				*(strncmp(ex->terms[k].name, "ttft", 4) == 0 ? &first : &token) += ex->terms[k].ms;
			near(token, t.tpot_ms, 1e-12, texts[i]);
			near(first, t.ttft_ms, 1e-12, texts[i]);
			cr_expect(ex->time.throughput == t.throughput && ex->time.tpot_ms == t.tpot_ms &&
				  ex->time.ttft_ms == t.ttft_ms);
			free(ex);
		}
		teardown(f);
	}
}
