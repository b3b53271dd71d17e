/*
 * Training rows of the scorecard: what a row is read as, that metrics agree with each other, that a family is judged by
 * constants it had no part in, and the errors that must hold on the public rows.
 */
#include "score_internal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                                           \
	"id,kind,model,gpu,n_gpus,gpus_per_node,tp,pp,vpp,ep,etp,cp,dp,sharding,schedule,overlap,recompute,precision," \
	"mbs,gbs,seq_len,isl,osl,concurrency,metric,value,unit,outcome,source_id,note\n"

struct run {
	mf_measured_table table;
	mf_scorecard *card;
};

static struct run judge(const char *rows, const char *overlay)
{
	mf_score_opts opts = {1u << MF_ROW_TRAIN, overlay};
	mf_buf text = MF_BUF_INIT;
	struct run r;
	mf_err err;

	mf_buf_puts(&text, HEAD);
	mf_buf_puts(&text, rows);
	cr_assert_eq(mf_measured_parse(&r.table, "rows", mf_buf_text(&text), text.len, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_score_run(&r.card, &r.table, &opts, &err), MF_OK, "%s", err.msg);
	mf_buf_dispose(&text);
	return r;
}

static void done(struct run *r)
{
	mf_scorecard_free(r->card);
	mf_measured_dispose(&r->table);
}

/* Qwen3-30B on 16 H100, measured 24.71 s; the model with its shipped constants says 21.70. */
#define QWEN(metric, value, unit)                                                                                      \
	"a,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,none,,bf16,1,1024,4096,,,," metric "," value "," unit           \
	",ok,mbridge-skills,HybridEP\n"

Test(score_train, a_row_is_read_as_its_plan)
{
	struct run r = judge(QWEN("step_time", "24.7138", "s"), "none");
	const mf_judged *j = &r.card->judged[0];

	cr_assert(j->covered, "%s", j->why_not);
	cr_expect(
		strncmp(j->plan, "tp1/pp1/ep16/etp1/1f1b/disp:hybridep bf16 gbs1024 seq4096", 57) == 0, "%s", j->plan);
	cr_expect_str_eq(j->release, "26.08");
	cr_expect(!j->outside);
	cr_expect_float_eq(j->predicted / 21.70, 1, 0.01, "%g s", j->predicted);
	cr_expect_float_eq(j->rate_measured, 1024 * 4096 / 24.7138 / 16, 1e-6);
	done(&r);
}

Test(score_train, metrics_of_one_run_agree)
{
	struct run r = judge(
		QWEN("step_time", "24.7138", "s") QWEN("step_time", "24713.8", "ms")
			QWEN("tokens_per_s_per_gpu", "10607", "tok/s/GPU") QWEN("tokens_per_s", "169712", "tok/s")
				QWEN("tflops_per_gpu", "244.039", "TFLOP/s/GPU") QWEN("mfu", "24.66", "%"),
		"none");
	const mf_judged *first = &r.card->judged[0];

	for (size_t i = 1; i < r.table.n; i++) {
		const mf_judged *j = &r.card->judged[i];

		cr_assert(j->covered, "%s: %s", r.table.rows[i].metric, j->why_not);
		cr_expect_float_eq(j->rate_predicted, first->rate_predicted, 1e-9 * first->rate_predicted);
		/* The page's own TFLOP/s for this step: the count of model flop agrees. */
		cr_expect_float_eq(j->rate_measured / first->rate_measured, 1, 0.005, "%s", r.table.rows[i].metric);
	}
	done(&r);
}

/* DeepSeek-V3 counts 260.0 GFLOP a token with its MTP layer, as Megatron prints it. */
Test(score_train, model_flop_are_megatrons)
{
	struct run r = judge(
		"a,train,DeepSeek-V3,GB300,256,4,1,4,4,64,1,1,,,,none,none,mxfp8,1,8192,4096,,,,tflops_per_gpu,1233,"
		"TFLOP/s/GPU,ok,x,\n",
		"none");

	cr_assert(r.card->judged[0].covered, "%s", r.card->judged[0].why_not);
	cr_expect_float_eq(r.card->judged[0].predicted / r.card->judged[0].rate_predicted * 1e3, 260.0, 2.6);
	done(&r);
}

Test(score_train, what_a_source_leaves_unsaid_follows_its_release)
{
	struct run r = judge("a,train,DeepSeek-V3,GB200,256,4,1,4,4,64,,1,,,,,,mxfp8,1,4096,4096,,,,tokens_per_s_per_"
			     "gpu,4000,t,ok,mbridge-perf,"
			     "container=26.06; x\n"
			     "b,train,DeepSeek-V3,GB200,256,4,1,4,4,64,,1,,,,,,mxfp8,1,4096,4096,,,,tokens_per_s_per_"
			     "gpu,4000,t,ok,mbridge-perf,"
			     "container=25.09; x\n"
			     "c,train,Qwen2-57B-A14B,H100,64,8,2,4,,4,,1,,,,,,bf16,1,1024,4096,,,,mfu,40,%,ok,mpf-"
			     "paper,MFU base 989.5 TFLOP/s\n"
			     "d,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,none,,bf16,1,1024,4096,,,,step_time,20,s,"
			     "ok,src,packed sequences\n",
		"none");
	const mf_judged *j = r.card->judged;

	cr_expect(strstr(j[0].plan, "+ov") && strstr(j[0].plan, "hybridep") && strstr(j[0].plan, "graphs:full dw"),
		"%s", j[0].plan);
	cr_expect(!strstr(j[1].plan, "+ov") && strstr(j[1].plan, "deepep") && strstr(j[1].plan, "graphs:none"), "%s",
		j[1].plan);
	cr_expect_gt(j[0].rate_predicted, j[1].rate_predicted, "newer software is faster");
	cr_expect(strstr(j[2].plan, "tp2/pp4/v7/ep4/etp2/interleaved") && !strstr(j[2].plan, "lay:"), "%s", j[2].plan);
	cr_expect(j[3].outside && j[3].extrapolated && !j[0].outside);
	done(&r);
}

/* A release newer than any table runs as the newest, and a page that is in none by what it says of itself. */
Test(score_train, unknown_releases_and_sources_follow_the_nearest_known)
{
#define V3(id, source, note)                                                                                           \
	id ",train,DeepSeek-V3,GB200,256,4,1,4,4,64,,1,,,,,,mxfp8,1,4096,4096,,,,tokens_per_s_per_gpu,4000,t,"         \
	   "ok," source "," note "\n"
	struct run r = judge(
		V3("a", "mbridge-perf", "container=26.08") V3("b", "mbridge-perf", "container=27.02")
			V3("c", "mbridge-perf", "container=nemo:26.10") V3("d", "mbridge-perf", "container=nightly")
				V3("e", "some-page", "container=26.08") V3("f", "some-page", "forced balance"),
		"none");
	const mf_judged *j = r.card->judged;

	for (size_t i = 1; i < 5; i++)
		cr_expect_float_eq(j[i].predicted, j[0].predicted, 1e-9, "%s: %s", r.table.rows[i].note, j[i].plan);
	cr_expect(j[5].covered && !strstr(j[5].plan, "hybridep") && j[5].predicted < j[0].predicted, "%s", j[5].plan);
	done(&r);
}

Test(score_train, what_cannot_be_read_says_why)
{
	static const char *const why[] = {"no built-in model Mystery", "number of GPUs not stated",
		"pipeline depth not stated", "sequence length not stated", "global batch not stated",
		"degrees do not divide the GPUs or experts", "metric hops", "no figure was measured",
		"precision the GPU lacks", "precision int4"};
	struct run r = judge("a,train,Mystery,H100,16,8,1,1,,16,,1,,,,,,bf16,1,64,4096,,,,step_time,2,s,ok,s,\n"
			     "b,train,Qwen3-30B-A3B,H100,,8,1,1,,16,,1,,,,,,bf16,1,64,4096,,,,step_time,2,s,ok,s,\n"
			     "c,train,Qwen3-30B-A3B,H100,16,8,1,,,16,,1,,,,,,bf16,1,64,4096,,,,step_time,2,s,ok,s,\n"
			     "d,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,,,bf16,1,64,,,,,step_time,2,s,ok,s,\n"
			     "e,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,,,bf16,1,,4096,,,,step_time,2,s,ok,s,\n"
			     "f,train,Qwen3-30B-A3B,H100,16,8,3,1,,16,,1,,,,,,bf16,1,64,4096,,,,step_time,2,s,ok,s,\n"
			     "g,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,,,bf16,1,64,4096,,,,hops,2,s,ok,s,\n"
			     "h,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,,,bf16,1,64,4096,,,,step_time,,s,oom,s,\n"
			     "i,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,,,nvfp4,1,64,4096,,,,step_time,2,s,ok,s,\n"
			     "j,train,Qwen3-30B-A3B,H100,16,8,1,1,,16,,1,,,,,,int4,1,64,4096,,,,step_time,2,s,ok,s,\n",
		NULL);

	for (size_t i = 0; i < MF_COUNT(why); i++) {
		cr_expect(!r.card->judged[i].covered);
		cr_expect_str_eq(r.card->judged[i].why_not, why[i]);
	}
	done(&r);
}

/* A family that shipped constants were fitted on is judged by those before any fit; a model of no such family by what ships. */
Test(score_train, a_family_is_left_out_of_its_own_judgement)
{
	static const char rows[] = QWEN("step_time", "24.7138",
		"s") "b,train,GLM-4.5-Air,H100,16,8,1,1,,16,,1,,,,none,,bf16,1,1024,4096,,,,step_time,40,s,ok,src,\n";
	struct run honest = judge(rows, NULL), shipped = judge(rows, "none");

	cr_expect_neq(honest.card->judged[0].predicted, shipped.card->judged[0].predicted);
	cr_expect_eq(honest.card->judged[1].predicted, shipped.card->judged[1].predicted);
	cr_expect_float_eq(honest.card->in_sample.median_abs_log,
		fmin(shipped.card->kinds[MF_ROW_TRAIN].median_abs_log, INFINITY), 1e-12);
	cr_expect_eq(shipped.card->in_sample.rows, 0);
	done(&honest);
	done(&shipped);
}

Test(score_train, targets_hold_on_the_public_rows)
{
	mf_score_opts opts = {1u << MF_ROW_TRAIN, NULL};
	mf_measured_table t;
	mf_scorecard *c;
	mf_err err;

	cr_assert_eq(mf_measured_read(&t, SOURCE_DIR "/tests/data/measured.csv", &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_score_run(&c, &t, &opts, &err), MF_OK, "%s", err.msg);
	const mf_score_stats *s = &c->kinds[MF_ROW_TRAIN];
	cr_expect_geq(s->coverage, 0.95);
	cr_expect_leq(s->median_abs_log, 0.12);
	cr_expect_leq(s->p90_abs_log, 0.30);
	cr_expect_geq(s->kendall, 0.85);
	cr_expect_eq(s->median_regret, 0);
	cr_expect_leq(s->p90_regret, 0.03);
	cr_expect_leq(c->in_sample.median_abs_log, 0.07);
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}
