/*
 * Serving rows of the scorecard: how a row is read, what is not covered and why, that the host constant of a model was
 * fitted without it, replicas against width, and the errors on the public rows.
 */
#include "score_internal.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                                           \
	"id,kind,model,gpu,n_gpus,gpus_per_node,tp,pp,ep,etp,dp,precision,overlap,isl,osl,concurrency,metric,value,"   \
	"unit,outcome,source_id,note,vpp,cp,sharding,schedule,recompute,mbs,gbs,seq_len\n"
#define TAIL ",,,,,,,,\n"

static mf_scorecard *judge(mf_measured_table *t, const char *rows)
{
	mf_score_opts opts = {0};
	mf_scorecard *c;
	char *text = malloc(strlen(HEAD) + strlen(rows) + 1);
	mf_err err = {0};

	cr_assert(text != NULL);
	strcpy(text, HEAD);
	strcat(text, rows);
	cr_assert(
		eq(int, mf_measured_parse(t, "rows.csv", text, strlen(text), &err), MF_OK), "%d %s", err.line, err.msg);
	free(text);
	cr_assert(eq(int, mf_score_run(&c, t, &opts, &err), MF_OK), "%s", err.msg);
	return c;
}

Test(score_serve, a_row_becomes_a_plan_and_an_engine)
{
	static const struct {
		const char *row, *plan, *group, *why;
	} rows[] = {
		{"a,serve,MiniMax-M2.5,H200,4,8,4,1,4,1,1,fp8,,1024,1024,16,tpot,9,ms,ok,s,engine=vllm 0.18.0",
			"tp4/pp1/ep4", "vllm", ""},
		{"a,serve,Kimi-K2.5,B200,8,8,1,1,8,1,8,fp4,,8192,1024,64,ttft,9,ms,ok,s,engine=trtllm 1.2",
			"tp1/pp1/ep8", "trtllm", ""},
		{"a,serve,gpt-oss-120b,H100,4,8,4,1,2,2,1,fp4,,1000,1000,,output_tokens_per_s_per_gpu,9,tok/s/GPU,ok,s,"
		 "engine=TensorRT-LLM; all requests queued at once",
			"tp4/pp1/ep2", "trtllm", ""},
		{"a,serve,DeepSeek-V3,H100,32,8,1,,32,,32,,two-batch overlap,1000,0,,prefill_tokens_per_s_per_node,9,"
		 "tok/s/node,ok,s,\"prefill-only, 16384 tokens per device, DeepEP normal\"",
			"tp1/pp1/ep32/a2a:deepep/ck524288/tbo", "sglang-wide", ""},
		{"a,serve,DeepSeek-V3,H100,72,8,1,,72,,72,,,4000,,9216,decode_tokens_per_s_per_node,9,tok/s/"
		 "node,ok,s,x",
			"tp1/pp1/ep72/a2a:deepep", "sglang-wide", ""},
		/* A pool without a layout is wide; its load stands in the note. */
		{"a,serve,Kimi-K2,H200,96,8,,,,,,,,2000,100,,decode_tokens_per_s_per_node,9,tok/s/node,ok,s,"
		 "decode batch 480 per GPU",
			"tp1/pp1/ep96/a2a:deepep", "sglang-wide", ""},
		{"a,serve,DeepSeek-V3,GB200,48,4,,,,,,,,2000,,,decode_tokens_per_s_per_gpu,9,tok/s,ok,s,decode-only",
			"", "", "concurrency not stated"},
		/* Names that no table has. */
		{"a,serve,nvidia/Qwen3-235B-A22B-NVFP4,NVIDIA B200,4,,4,1,4,1,1,NVFP4,,1000,1000,16,tpot,9,ms,ok,"
		 "somewhere,engine=vLLM v0.99.1rc2",
			"tp4/pp1/ep4", "vllm", ""},
		{"a,serve,Qwen3-VL-30B-A3B-Instruct,h100_sxm,2,,2,1,1,2,1,,,1000,1000,16,tpot,9,ms,ok,somewhere,"
		 "engine=TensorRT-LLM 9.9",
			"tp2/pp1/ep1", "trtllm", ""},
		{"a,serve,GLM-5,H200,8,8,8,1,1,8,1,fp8,,1024,1024,16,tpot,9,ms,ok,s,engine=Megatron dynamic", "", "",
			"engine not modelled: Megatron dynamic"},
		{"a,serve,GLM-5,H200,8,8,8,1,1,8,1,fp8,,,1024,16,tpot,9,ms,ok,s,engine=vllm", "", "",
			"lengths not stated"},
		{"a,serve,GLM-5,H200,8,8,,,,,,fp8,,1024,1024,16,tpot,9,ms,ok,s,engine=vllm", "", "",
			"layout not stated"},
		{"a,serve,GLM-5,H200,8,8,4,1,1,4,1,fp8,,1024,1024,16,tpot,9,ms,ok,s,engine=vllm", "", "",
			"layout does not fill the GPUs"},
		{"a,serve,GLM-5,H200,8,8,8,1,1,8,1,int3,,1024,1024,16,tpot,9,ms,ok,s,engine=vllm", "", "",
			"precision not modelled: int3"},
		{"a,serve,GLM-5,H200,8,8,8,1,1,8,1,fp8,,1024,1024,16,p99,9,ms,ok,s,engine=vllm", "", "",
			"metric not modelled: p99"},
		{"a,serve,GLM-5,H200,8,8,8,1,1,8,1,fp8,,1024,1024,,tpot,9,ms,ok,s,engine=vllm", "", "",
			"concurrency not stated"},
	};

	for (size_t i = 0; i < MF_COUNT(rows); i++) {
		char text[512];
		mf_measured_table t;
		mf_scorecard *c;

		snprintf(text, sizeof text, "%s%s", rows[i].row, TAIL);
		c = judge(&t, text);
		cr_expect(eq(int, c->judged[0].covered, !*rows[i].why), "%s", rows[i].row);
		cr_expect(eq(str, c->judged[0].plan, (char *)rows[i].plan), "%s", rows[i].row);
		cr_expect(eq(str, c->judged[0].why_not, (char *)rows[i].why), "%s", rows[i].row);
		if (!*rows[i].why) {
			cr_expect(eq(str, c->judged[0].group, (char *)rows[i].group));
			cr_expect(c->judged[0].predicted > 0 && isfinite(c->judged[0].predicted));
		}
		mf_scorecard_free(c);
		mf_measured_dispose(&t);
	}
}

Test(score_serve, what_a_row_says_moves_its_prediction)
{
#define LAYOUT "a,serve,DeepSeek-R1,H200,8,8,8,1,1,8,1,fp8,,1024,2048,4,tpot,9,ms,ok,"
	mf_measured_table t;
	mf_scorecard *c = judge(&t,
		LAYOUT "s,engine=trtllm 1.2" TAIL /* plain */
			LAYOUT "s,engine=trtllm 1.2; MTP3" TAIL
		       "a,serve,DeepSeek-R1,H200,8,8,8,1,1,8,1,fp8,,1024,2048,4,tpot,2,ms,ok,s,engine=trtllm 1.2" TAIL);

	cr_expect(lt(dbl, c->judged[1].predicted, c->judged[0].predicted), "speculation is fast at a small batch");
	cr_expect(not(c->judged[0].outside));
	cr_expect(c->judged[2].outside, "2 ms is less than reading the weights takes");
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

/* The value in force for a model does not move with the rows of that model: it comes from a table, not from the rows. */
Test(score_serve, nothing_is_fitted_while_scoring)
{
	mf_measured_table a, b;
	mf_scorecard *one = judge(&a, LAYOUT "s,engine=vllm 0.18" TAIL),
		     *other = judge(&b,
			     "a,serve,DeepSeek-R1,H200,8,8,8,1,1,8,1,fp8,,1024,2048,4,tpot,900,ms,ok,s,engine=vllm "
			     "0.18" TAIL);

	cr_expect(eq(dbl, one->judged[0].predicted, other->judged[0].predicted));
	mf_scorecard_free(one);
	mf_scorecard_free(other);
	mf_measured_dispose(&a);
	mf_measured_dispose(&b);
}

Test(score_serve, replicas_against_width)
{
	/* Two engines of 2 GPUs at 16 each against one of 4 at 32; the third row has another load, the fourth a release. */
	static const char rows[] =
		"a,serve,MiniMax-M2.5,H200,2,8,2,1,1,2,1,fp8,,1024,1024,16,tpot,9,ms,ok,s,engine=vllm 0.18.0" TAIL
		"b,serve,MiniMax-M2.5,H200,4,8,4,1,1,4,1,fp8,,1024,1024,32,tpot,8,ms,ok,s,engine=vllm 0.18.0" TAIL
		"c,serve,MiniMax-M2.5,H200,4,8,4,1,1,4,1,fp8,,1024,1024,16,tpot,8,ms,ok,s,engine=vllm 0.18.0" TAIL
		"d,serve,MiniMax-M2.5,H200,4,8,4,1,1,4,1,fp8,,1024,1024,32,tpot,8,ms,ok,s,engine=vllm 0.19.0" TAIL;
	mf_measured_table t;
	mf_scorecard *c = judge(&t, rows);
	bool wide = c->judged[1].predicted <= c->judged[0].predicted;

	cr_expect(eq(sz, c->replicas.pairs, 1));
	cr_expect(eq(sz, c->replicas.narrow_wins, 0));
	cr_expect(eq(sz, c->replicas.right, wide));
	cr_expect_float_eq(c->replicas.mean_regret, wide ? 0 : 9.0 / 8 - 1, 1e-12);
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

static double part(const mf_scorecard *c, const char *metric)
{
	for (size_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].kind == MF_ROW_SERVE && !c->parts[i].outside && strcmp(c->parts[i].by, "metric") == 0 &&
			strcmp(c->parts[i].name, metric) == 0)
			return c->parts[i].stats.median_abs_log;
	return NAN;
}

/* The errors that SCORECARD.md shows, with what a change of constants may move them. */
Test(score_serve, public_rows)
{
	mf_score_opts opts = {.kinds = 1u << MF_ROW_SERVE};
	mf_measured_table t;
	mf_scorecard *c;
	mf_err err = {0};

	cr_assert(eq(int, mf_measured_read(&t, TESTS_DIR "/data/measured.csv", &err), MF_OK), "%s", err.msg);
	cr_assert(eq(int, mf_score_run(&c, &t, &opts, &err), MF_OK), "%s", err.msg);
	cr_expect(ge(dbl, c->kinds[MF_ROW_SERVE].coverage, 0.95));
	cr_expect(le(dbl, part(c, "tpot"), 0.13));
	cr_expect(le(dbl, part(c, "ttft"), 0.22));
	cr_expect(le(dbl, part(c, "output_tokens_per_s_per_gpu"), 0.15));
	cr_expect(eq(sz, c->replicas.pairs, 34));
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

/* Shipped overlays measured SGLang's kernels: rows of other engines do not take them, unless the user names one. */
Test(score_serve, overlays_are_of_one_engines_kernels)
{
	static const char rows[] =
		"a,serve,gpt-oss-120b,H200,4,8,4,1,1,4,1,fp4,,1024,1024,16,tpot,5,ms,ok,s,engine=vllm 0.18.0" TAIL
		"b,serve,gpt-oss-120b,H200,4,8,4,1,1,4,1,fp4,,1024,1024,16,tpot,5,ms,ok,s,engine=sglang 0.5.9" TAIL;
	mf_score_opts none = {.overlay = "none"}, h200 = {.overlay = "h200"};
	mf_scorecard *own, *factory, *named;
	mf_measured_table t;
	mf_err err = {0};

	own = judge(&t, rows);
	cr_assert(eq(int, mf_score_run(&factory, &t, &none, &err), MF_OK), "%s", err.msg);
	cr_assert(eq(int, mf_score_run(&named, &t, &h200, &err), MF_OK), "%s", err.msg);
	cr_expect(eq(dbl, own->judged[0].predicted, factory->judged[0].predicted));
	cr_expect(eq(dbl, own->judged[1].predicted, named->judged[1].predicted));
	mf_scorecard_free(own);
	mf_scorecard_free(factory);
	mf_scorecard_free(named);
	mf_measured_dispose(&t);
}
