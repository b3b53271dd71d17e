/* Single operations of the scorecard: which rows are read, by which curve, in which unit. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "curves.h"
#include "score.h"

#define HEADER                                                                                                         \
	"id,kind,model,gpu,n_gpus,gpus_per_node,tp,pp,vpp,ep,etp,cp,dp,sharding,schedule,overlap,recompute,precision," \
	"mbs,"                                                                                                         \
	"gbs,seq_len,isl,osl,concurrency,metric,value,unit,outcome,source_id,note\n"

static mf_measured_table table;

static mf_scorecard *score(const char *rows)
{
	mf_score_opts o = {.overlay = "none"};
	char text[4096];
	mf_scorecard *c;
	mf_err err;

	snprintf(text, sizeof text, "%s%s", HEADER, rows);
	cr_assert_eq(mf_measured_parse(&table, "test", text, strlen(text), &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_score_run(&c, &table, &o, &err), MF_OK, "%s", err.msg);
	return c;
}

static void done(mf_scorecard *c)
{
	mf_scorecard_free(c);
	mf_measured_dispose(&table);
}

/* kind, GPU, GPUs, precision, metric, value, unit, note */
#define ROW(id, kind, gpu, n, precision, metric, value, unit, note)                                                    \
	id "," kind ",," gpu "," n ",8,,,,,,,,,,,," precision ",,,,,,," metric "," value "," unit ",ok,s," note "\n"

Test(score_ops, a_gemm_is_its_curve_warm)
{
	mf_scorecard *c = score(ROW("a", "kernel", "H800", "1", "fp8", "gemm_tflops", "1304", "TFLOP/s",
		"op=dense_gemm; m=4096; n=4096; k=7168"));
	mf_cluster cl;
	mf_consts k;
	mf_gpu_rates r;

	cr_assert_eq(mf_cluster_load(&cl, "1xh800", NULL), MF_OK);
	mf_consts_factory(&k, &cl);
	r = mf_gpu_rates_warm(&cl);
	cr_assert(c->judged[0].covered, "%s", c->judged[0].why_not);
	cr_expect_float_eq(c->judged[0].predicted,
		2 * 4096.0 * 4096 * 7168 / mf_gemm_us(&k.v[MF_C_S_GEMM_FP8B], &r, MF_LIN_FP8_BLOCK, 4096, 4096, 7168) /
			1e6,
		1e-9);
	cr_expect_str_eq(c->judged[0].group, "GEMM");
	done(c);
}

Test(score_ops, time_and_bus_rate_of_a_collective_say_the_same)
{
	mf_scorecard *c = score(ROW("a", "comm", "H200", "8", "", "all_gather_time", "17", "us", "bytes=1048576 (half)")
			ROW("b", "comm", "H200", "8", "", "all_gather_busbw", "54", "GB/s", "size=1MiB"));

	cr_assert(c->judged[0].covered && c->judged[1].covered);
	cr_expect_float_eq(c->judged[1].predicted, 1048576.0 * 7 / 8 / c->judged[0].predicted / 1e3, 1e-9);
	cr_expect_str_neq(c->judged[0].set, c->judged[1].set);
	done(c);
}

Test(score_ops, what_has_no_shape_or_no_curve_says_so)
{
	mf_scorecard *c = score(ROW("a", "kernel", "H800", "1", "", "dense_decode_tflops", "660", "TFLOP/s",
		"op=FlashMLA") ROW("b", "comm", "SM90", "16", "", "dispatch_bandwidth", "90", "GB/s", "mode=V2")
			ROW("c", "comm", "GB200", "8", "", "dispatch_latency", "391", "us",
				"lib=HybridEP; hidden=7168; tokens_per_gpu=4096")
				ROW("d", "kernel", "H200", "1", "nvfp4", "moe_op_time", "1", "ms",
					"tokens=64; hidden=4096; inter=1536; topk=8; experts=128; "
					"routing=balanced"));

	for (size_t i = 0; i < 4; i++) {
		cr_expect_not(c->judged[i].covered, "%zu", i);
		cr_expect(c->judged[i].why_not[0]);
		cr_expect(isnan(c->judged[i].predicted));
	}
	done(c);
}

Test(score_ops, skewed_experts_cost_more_than_even_ones)
{
	mf_scorecard *c = score(ROW("a", "kernel", "H200", "1", "bfloat16", "moe_op_time", "1", "ms",
		"tokens=4096; hidden=4096; inter=1536; topk=8; experts=128; routing=balanced")
			ROW("b", "kernel", "H200", "1", "bfloat16", "moe_op_time", "1", "ms",
				"tokens=4096; hidden=4096; inter=1536; topk=8; experts=128; routing=power_law_1.2"));

	cr_assert(c->judged[0].covered && c->judged[1].covered);
	cr_expect_gt(c->judged[1].predicted, c->judged[0].predicted);
	done(c);
}
