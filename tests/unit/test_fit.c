/* Fitting curves to tables: known curves come back, outliers do not move them, bad tables are named. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fit.h"

static char dir[64];

static void setup(void)
{
	snprintf(dir, sizeof dir, "/tmp/moefs-fit-XXXXXX");
	cr_assert(mkdtemp(dir));
}

static void teardown(void)
{
	static const char *const files[] = {"gemm_perf.csv", "context_attention_perf.csv", "custom_allreduce_perf.csv",
		"nccl_perf.csv", "overlay.yaml"};
	char path[128];

	for (size_t i = 0; i < MF_COUNT(files); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

TestSuite(fit, .init = setup, .fini = teardown);

static FILE *table(const char *file)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, file);
	f = fopen(path, "w");
	cr_assert(f);
	return f;
}

static double noise(uint64_t *seed, double width)
{
	return width * ((double)(mf_random_u64(seed) >> 11) * 0x1p-53 - 0.5);
}

/* Launch, tau, shares of HBM and of the roof, fill, depth, share and speed of the cache. */
static const double known[MF_GEMM_CONSTS] = {4.5, 0.4, 0.81, 0.63, 0.35, 120, 0.3, 2};

/* A table of the known GEMM on an H200, 3 % of noise, and one row in `outliers` ten times too slow. */
static void write_gemm(int outliers)
{
	FILE *f = table("gemm_perf.csv");
	mf_cluster c;
	mf_gpu_rates r;
	uint64_t seed = 7;
	int n = 0;

	cr_assert_eq(mf_cluster_load(&c, "8xh200", NULL), MF_OK);
	r = mf_gpu_rates_warm(&c);
	fputs("# framework=SGLang version=9.9 device=NVIDIA H200 "
	      "op_name=gemm\nkernel_source,gemm_dtype,m,n,k,latency\n",
		f);
	for (int m = 1; m <= 16384; m *= 2)
		for (int k = 256; k <= 16384; k *= 2)
			for (int w = 128; w <= 16384; w *= 2) {
				double us = mf_gemm_us(known, &r, MF_LIN_BF16, m, w, k) * exp(noise(&seed, 0.06));

				if (outliers && ++n % outliers == 0)
					us *= 10;
				fprintf(f, "torch,bfloat16,%d,%d,%d,%.9g\n", m, w, k, us / 1e3);
			}
	fclose(f);
}

static void fit_folder(mf_fit *fit)
{
	mf_fit_options o = {.dir = dir, .threads = 1};
	mf_err err;

	cr_assert_eq(mf_fit_run(fit, &o, &err), MF_OK, "%s", err.msg);
}

Test(fit, a_known_curve_comes_back)
{
	mf_fit fit;

	write_gemm(0);
	fit_folder(&fit);
	cr_assert_eq(fit.n_curves, 1);
	cr_expect_eq(fit.curves[0].id, MF_CURVE_GEMM_BF16);
	cr_expect(fit.curves[0].supported);
	cr_expect_lt(fit.curves[0].median, 0.03);
	for (int i = 0; i < MF_GEMM_CONSTS; i++)
		cr_expect_lt(fabs(log(fit.curves[0].value[i] / known[i])), 0.06, "constant %d is %g, made with %g", i,
			fit.curves[0].value[i], known[i]);
	cr_expect_eq(fit.curves[0].lo[0], 1);
	cr_expect_eq(fit.curves[0].hi[0], 16384);
	cr_expect_str_eq(fit.curves[0].measured, "SGLang 9.9, torch");
	mf_fit_dispose(&fit);
}

/* Launch and share of the roof come back; windows and other head sizes are in no row, and their constants stay. */
Test(fit, what_no_row_tells_stays_as_it_was)
{
	static const mf_const_id untold[] = {MF_C_S_CTX_W, MF_C_S_CTX_SMALL, MF_C_S_CTX_LARGE, MF_C_S_CTX_ODD};
	double g[MF_CTX_CONSTS] = {9, 1.5, 0.5, 0.6, 10, 200, 0.5, 0.1, 0.5, 4, 2};
	FILE *f = table("context_attention_perf.csv");
	mf_consts factory;
	mf_cluster c;
	mf_gpu_rates r;
	mf_fit fit;
	uint64_t seed = 7;

	cr_assert_eq(mf_cluster_load(&c, "8xh200", NULL), MF_OK);
	r = mf_gpu_rates_warm(&c);
	mf_consts_factory(&factory, &c);
	fputs("# framework=SGLang version=9.9 device=NVIDIA H200\nkernel_source,batch_size,isl,num_heads,"
	      "num_key_value_heads,head_dim,attn_dtype,window_size,latency\n",
		f);
	for (int b = 1; b <= 64; b *= 4)
		for (int n = 1; n <= 16384; n *= 2)
			for (int h = 4; h <= 64; h *= 2)
				for (int kv = 1; kv <= h; kv *= 4)
					fprintf(f, "fa3,%d,%d,%d,%d,128,bfloat16,0,%.9g\n", b, n, h, kv,
						mf_prefill_us(g, &r, b, n, 0, 0, h, kv, 128) * exp(noise(&seed, 0.06)) /
							1e3);
	fclose(f);
	fit_folder(&fit);
	cr_assert_eq(fit.n_curves, 1);
	for (int i = MF_CTX_T0; i <= MF_CTX_ROOF; i++)
		cr_expect_lt(fabs(log(fit.curves[0].value[i] / g[i])), 0.1, "constant %d is %g, made with %g", i,
			fit.curves[0].value[i], g[i]);
	for (size_t i = 0; i < MF_COUNT(untold); i++)
		cr_expect_eq(fit.curves[0].value[untold[i] - MF_C_S_CTX], factory.v[untold[i]], "%s is %g",
			mf_const_infos[untold[i]].name, fit.curves[0].value[untold[i] - MF_C_S_CTX]);
	mf_fit_dispose(&fit);
}

Test(fit, outliers_do_not_move_it)
{
	mf_fit fit;

	write_gemm(20);
	fit_folder(&fit);
	for (int i = 0; i < MF_GEMM_CONSTS; i++)
		cr_expect_lt(fabs(log(fit.curves[0].value[i] / known[i])), 0.12, "constant %d is %g, made with %g", i,
			fit.curves[0].value[i], known[i]);
	mf_fit_dispose(&fit);
}

Test(fit, the_same_table_gives_the_same_answer_on_any_number_of_threads)
{
	mf_fit a, b;
	mf_fit_options o = {.dir = dir, .threads = 2};
	mf_buf x = MF_BUF_INIT, y = MF_BUF_INIT;

	write_gemm(20);
	fit_folder(&a);
	cr_assert_eq(mf_fit_run(&b, &o, NULL), MF_OK);
	cr_expect_eq(a.curves[0].n_held, b.curves[0].n_held);
	mf_fit_overlay(&a, "here", &x);
	mf_fit_overlay(&b, "here", &y);
	cr_expect_str_eq(mf_buf_text(&x), mf_buf_text(&y));
	mf_buf_dispose(&x);
	mf_buf_dispose(&y);
	mf_fit_dispose(&a);
	mf_fit_dispose(&b);
}

Test(fit, no_shape_is_on_both_sides_of_the_split)
{
	mf_fit fit;

	write_gemm(0);
	fit_folder(&fit);
	/* 15 sizes of m for each (n, k): a shape is held out with all of them. */
	cr_expect_eq(fit.curves[0].n_held % 15, 0);
	cr_expect_eq(fit.curves[0].n_fit % 15, 0);
	cr_expect_gt(fit.curves[0].n_held, 0);
	mf_fit_dispose(&fit);
}

Test(fit, the_overlay_reads_back_and_knows_its_domain)
{
	char path[128];
	mf_buf text = MF_BUF_INIT;
	mf_consts k;
	mf_cluster c;
	mf_err err;
	mf_fit fit;

	write_gemm(0);
	fit_folder(&fit);
	mf_fit_overlay(&fit, "here", &text);
	snprintf(path, sizeof path, "%s/overlay.yaml", dir);
	cr_assert_eq(mf_file_write(path, text.data, text.len, 0644, &err), MF_OK);
	cr_assert_eq(mf_cluster_load(&c, "8xh200", NULL), MF_OK);
	mf_consts_factory(&k, &c);
	cr_assert_eq(mf_consts_overlay(&k, path, &err), MF_OK, "%s", err.msg);
	for (int i = 0; i < MF_GEMM_CONSTS; i++)
		cr_expect_lt(fabs(k.v[MF_C_S_GEMM_BF16 + i] / fit.curves[0].value[i] - 1), 1e-3);
	cr_expect(k.curves[MF_CURVE_GEMM_BF16].given);
	cr_expect_eq(k.curves[MF_CURVE_GEMM_BF16].held_out, fit.curves[0].n_held);
	cr_expect_not(mf_curve_outside(&k, MF_CURVE_GEMM_BF16, (double[4]){16, 4096, 4096, 0}));
	cr_expect(mf_curve_outside(&k, MF_CURVE_GEMM_BF16, (double[4]){16, 4096, 99999, 0}));
	cr_expect_not(mf_curve_outside(&k, MF_CURVE_DEC, (double[4]){1e9, 1e9, 1e9, 1e9}), "not the overlay's");
	mf_buf_dispose(&text);
	mf_fit_dispose(&fit);
}

Test(fit, what_does_not_follow_its_form_is_unsupported)
{
	FILE *f = table("custom_allreduce_perf.csv");
	mf_buf text = MF_BUF_INIT;
	mf_fit_options o = {.dir = dir, .threads = 1};
	uint64_t seed = 3;
	mf_fit fit;
	mf_err err;

	/* Two GPUs far faster than four, at random sizes: what a machine without peer access shows. */
	fputs("# framework=SGLang version=9.9 device=NVIDIA L40S allreduce_dtype=bfloat16\n"
	      "num_gpus,message_size,latency,backend\n",
		f);
	for (int n = 2; n <= 8; n *= 2)
		for (double e = 64; e < 1e8; e *= 1.5)
			fprintf(f, "%d,%.0f,%.9g,sglang_graph\n", n, e, 0.01 * n * n * exp(noise(&seed, 6)));
	fclose(f);
	cr_assert_eq(mf_fit_run(&fit, &o, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(fit.n_curves, 1);
	cr_expect_not(fit.curves[0].supported);
	mf_fit_overlay(&fit, "here", &text);
	cr_expect(strstr(mf_buf_text(&text), "unsupported: \"does not follow the form: median error"));
	cr_expect_not(
		strstr(mf_buf_text(&text), "serve_pcie_allreduce_bus_tbps"), "no constant of a curve that failed");
	mf_buf_dispose(&text);
	mf_fit_dispose(&fit);
}

struct seen {
	int n, line;
	char message[200];
};

static void see(void *payload, const char *file, int line, const char *message)
{
	struct seen *s = payload;

	(void)file;
	s->n++;
	s->line = line;
	snprintf(s->message, sizeof s->message, "%s", message);
}

Test(fit, a_bad_row_is_named_and_left_out)
{
	struct seen seen = {0};
	mf_fit_options o = {.dir = dir, .threads = 1, .warn = see, .payload = &seen};
	char path[128];
	mf_fit fit;
	mf_err err;
	FILE *f;

	write_gemm(0);
	snprintf(path, sizeof path, "%s/gemm_perf.csv", dir);
	f = fopen(path, "a");
	fputs("torch,bfloat16,16,16,16,-1\n", f);
	fclose(f);
	cr_assert_eq(mf_fit_run(&fit, &o, &err), MF_OK, "%s", err.msg);
	cr_expect_eq(seen.n, 1);
	cr_expect_eq(seen.line, 3 + 15 * 7 * 8);
	cr_expect(strstr(seen.message, "latency: \"-1\" is no positive time"), "%s", seen.message);
	cr_expect_eq(fit.n_bad, 1);
	mf_fit_dispose(&fit);
}

static void refused(const char *file, const char *text, const char *message)
{
	mf_fit_options o = {.dir = dir, .threads = 1};
	FILE *f = table(file);
	mf_fit fit;
	mf_err err;

	fputs(text, f);
	fclose(f);
	cr_expect_eq(mf_fit_run(&fit, &o, &err), MF_EINPUT);
	cr_expect(strstr(err.msg, message), "%s", err.msg);
	cr_expect(err.file[0]);
}

Test(fit, tables_that_cannot_be_are_refused)
{
	refused("gemm_perf.csv", "", "no header");
	refused("gemm_perf.csv", "# device=NVIDIA H200\nm,n\n1,2\n", "no column and no key");
	refused("gemm_perf.csv", "# device=NVIDIA H200\nm,n,k,gemm_dtype,latency\n1,2\n1,2\n", "rows cannot be read");
	refused("gemm_perf.csv", "# device=NVIDIA Q9\nm,n,k,gemm_dtype,latency\n1,2,3,bfloat16,1\n", "not built in");
	refused("gemm_perf.csv", "m,n,k,gemm_dtype,latency\n1,2,3,bfloat16,1\n", "no table names its device");
}

Test(fit, an_empty_folder_is_refused)
{
	mf_fit_options o = {.dir = dir, .threads = 1};
	mf_fit fit;
	mf_err err;

	cr_expect_eq(mf_fit_run(&fit, &o, &err), MF_EINPUT);
	cr_expect(strstr(err.msg, "no table of operations here"));
}

/* ---- the minimizer ---- */

static double valley(void *payload, const double *x)
{
	(void)payload;
	return pow(1 - x[0], 2) + 100 * pow(x[1] - x[0] * x[0], 2);
}

Test(minimize, finds_the_floor_of_a_curved_valley)
{
	double x[2] = {-1, 2}, lo[2] = {-3, -3}, hi[2] = {3, 3};

	cr_expect_lt(mf_minimize(valley, NULL, x, lo, hi, 2, 3), 1e-4);
	cr_expect_float_eq(x[0], 1, 0.05);
}

static double slope(void *payload, const double *x)
{
	(void)payload;
	return x[0];
}

Test(minimize, stays_inside_its_bounds)
{
	double x = 5, lo = 2, hi = 90;

	mf_minimize(slope, NULL, &x, &lo, &hi, 1, 0);
	cr_expect_geq(x, 2);
	cr_expect_lt(x, 2.1);
}
