/*
 * The scorecard: its statistics against values worked out by hand, the reader of measured rows and what it refuses, and
 * that rows end up in the right counts.
 */
#include "score_internal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- statistics -------------------------------------------------------------------------------------------------- */

Test(score, tau_is_kendalls_tau_b)
{
	double up[] = {1, 2, 3, 4}, down[] = {4, 3, 2, 1}, swapped[] = {1, 3, 2, 4}, flat[] = {1, 1, 1, 1};
	double a[] = {1, 2, 2, 3}, b[] = {1, 2, 3, 3}, near[] = {1, 1.004, 3, 4};

	cr_expect_float_eq(mf_stat_kendall(up, up, 4, 0), 1, 1e-12);
	cr_expect_float_eq(mf_stat_kendall(up, down, 4, 0), -1, 1e-12);
	cr_expect_float_eq(mf_stat_kendall(up, swapped, 4, 0), 4.0 / 6, 1e-12, "five of six pairs agree");
	/* a has 1 tie, b has 1; 4 pairs agree, none disagrees: 4 / sqrt(5 * 5). */
	cr_expect_float_eq(mf_stat_kendall(a, b, 4, 0), 0.8, 1e-12);
	/* The first pair of `near` is within half a percent: 5 of 5 remaining pairs agree, 6 pairs are apart in `up`. */
	cr_expect_float_eq(mf_stat_kendall(near, up, 4, 0.005), 5 / sqrt(30), 1e-12);
	cr_expect(isnan(mf_stat_kendall(up, flat, 4, 0)));
	cr_expect(isnan(mf_stat_kendall(up, up, 1, 0)));
}

Test(score, regret_is_what_the_chosen_plan_loses)
{
	double measured[] = {100, 80, 90}, right[] = {3, 1, 2}, wrong[] = {1, 3, 2}, tied[] = {1, 2, 2};

	cr_expect_float_eq(mf_stat_regret(measured, right, 3), 0, 1e-12);
	cr_expect_float_eq(mf_stat_regret(measured, wrong, 3), 0.2, 1e-12);
	cr_expect_float_eq(mf_stat_regret(measured, tied, 3), 0.15, 1e-12, "either of two could be chosen");
	cr_expect(isnan(mf_stat_regret(NULL, NULL, 0)));
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

#define HEAD                                                                                                           \
	"id,kind,model,gpu,n_gpus,gpus_per_node,tp,pp,vpp,ep,etp,cp,dp,sharding,schedule,overlap,recompute,precision," \
	"mbs,gbs,seq_len,isl,osl,concurrency,metric,value,unit,outcome,source_id,note\n"
#define ROW "a,train,M,H100,8,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,12.5,s,ok,src,"

static mf_status parse(mf_measured_table *t, const char *text, mf_err *err)
{
	memset(err, 0, sizeof *err);
	return mf_measured_parse(t, "rows.csv", text, strlen(text), err);
}

Test(score, rows_are_read_with_what_is_not_stated_unknown)
{
	mf_measured_table t;
	mf_err err;
	const mf_measured *r;

	cr_assert_eq(
		parse(&t, "\xef\xbb\xbf" HEAD ROW "\"a \"\"note\"\", engine=vLLM 0.9; x=1, y\"\r\n\n" ROW "\n", &err),
		MF_OK, "%s", err.msg);
	cr_assert_eq(t.n, 2);
	r = &t.rows[0];
	cr_expect_str_eq(r->id, "a");
	cr_expect_eq(r->kind, MF_ROW_TRAIN);
	cr_expect_eq(r->outcome, MF_OUTCOME_OK);
	cr_expect_float_eq(r->n_gpus, 8, 0);
	cr_expect(isnan(r->vpp), "empty is unknown, not 1");
	cr_expect_float_eq(r->value, 12.5, 0);
	cr_expect_str_eq(r->note, "a \"note\", engine=vLLM 0.9; x=1, y");
	cr_expect_eq(r->line, 2);
	cr_expect_eq(t.rows[1].line, 4);
	mf_measured_dispose(&t);
}

Test(score, notes_hold_key_value_parts)
{
	mf_measured r = {
		.note = "container=26.08; moe_ffn=2048; recompute and dispatcher=hybridep, cuda_graph=full; ffn= 7 "};
	char text[32];

	cr_expect(mf_measured_note(&r, "container", text, sizeof text));
	cr_expect_str_eq(text, "26.08");
	cr_expect(mf_measured_note(&r, "ffn", text, sizeof text), "not the end of moe_ffn");
	cr_expect_str_eq(text, "7");
	cr_expect(mf_measured_note(&r, "dispatcher", text, sizeof text));
	cr_expect_str_eq(text, "hybridep");
	cr_expect(!mf_measured_note(&r, "graph", text, sizeof text));
	cr_expect_str_eq(text, "");
	cr_expect(!mf_measured_note(&r, "container", text, 5), "too long is absent, not cut");
	cr_expect(mf_measured_says(&r, "recompute and"));
}

static void refuses(const char *text, int line, const char *field, const char *words)
{
	mf_measured_table t;
	mf_err err;

	cr_expect_eq(parse(&t, text, &err), MF_EINPUT, "%s", text);
	cr_expect_str_eq(err.file, "rows.csv");
	cr_expect_eq(err.line, line, "line %d, wanted %d: %s", err.line, line, err.msg);
	cr_expect_str_eq(err.field, field);
	cr_expect(strstr(err.msg, words), "'%s' does not say '%s'", err.msg, words);
	cr_expect_null(strchr(err.msg, '\n'));
}

Test(score, the_reader_names_line_and_column)
{
	char head[512] = HEAD, *at;

	refuses("", 1, "", "empty");
	refuses(HEAD ROW "x,y\n", 2, "", "more fields");
	refuses(HEAD "a,train\n", 2, "", "2 fields");
	refuses(HEAD "\n" ROW "\"open\n", 3, "", "not closed");
	refuses(HEAD ROW "x\"y\n", 2, "", "quote inside");
	refuses(HEAD ROW "\"x\"y\n", 2, "", "after a closing quote");
	refuses(HEAD "a,trian,M,H100,8,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,12.5,s,ok,src,\n", 2, "kind",
		"train, serve");
	refuses(HEAD "a,train,M,H100,8,8,1.5,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,12.5,s,ok,src,\n", 2, "tp",
		"whole number");
	refuses(HEAD "a,train,M,H100,0,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,12.5,s,ok,src,\n", 2, "n_gpus",
		"1 or more");
	refuses(HEAD "a,train,M,H100,8,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,fast,s,ok,src,\n", 2, "value",
		"no number");
	refuses(HEAD "a,train,M,H100,8,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,nan,s,ok,src,\n", 2, "value",
		"no number");
	refuses(HEAD "a,train,M,H100,8,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,12.5,s,good,src,\n", 2,
		"outcome", "ok, oom");
	refuses(HEAD ",train,M,H100,8,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,12.5,s,ok,src,\n", 2, "id",
		"empty");
	at = strstr(head, "recompute");
	memcpy(at, "recomputa", 9);
	refuses(head, 1, "", "did you mean recompute?");
	memcpy(at, "precision", 9);
	refuses(head, 1, "precision", "twice");
	refuses("id,kind\n", 1, "model", "missing");
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

Test(score, a_row_that_no_judge_can_read_is_counted_with_its_reason)
{
	mf_measured_table t;
	mf_score_opts opts = {0, "none"};
	mf_scorecard *c;
	mf_err err;
	size_t n = 0;

	cr_assert_eq(parse(&t,
			     HEAD "a,train,No-Such-Model,H100,8,8,1,1,,8,,,8,,,,none,bf16,1,64,4096,,,,step_time,12.5,"
				  "s,ok,src,\n",
			     &err),
		MF_OK);
	cr_assert_eq(mf_score_run(&c, &t, &opts, &err), MF_OK, "%s", err.msg);
	for (int k = 0; k < 2; k++) {
		const mf_score_stats *s = k ? &c->outside[MF_ROW_TRAIN] : &c->kinds[MF_ROW_TRAIN];

		n += s->rows;
		cr_expect_eq(s->covered, 0);
		cr_expect(isnan(s->median_abs_log));
	}
	cr_expect_eq(n, 1);
	cr_assert_eq(c->n_reasons, 1);
	cr_expect_eq(c->reasons[0].count, 1);
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

Test(score, degrees_beyond_any_plan_are_a_reason_not_a_crash)
{
	static const char *const kinds[] = {"train", "serve", "memory"};
	mf_score_opts opts = {0, NULL};
	mf_measured_table t;
	mf_scorecard *c;
	mf_err err;

	for (size_t k = 0; k < MF_COUNT(kinds); k++)
		for (int column = 0; column < 3; column++) {
			char text[1024];

			/* 65536 is zero in sixteen bits. */
			snprintf(text, sizeof text,
				HEAD "a,%s,DeepSeek-V3,H100,1024,8,%s,%s,,%s,,,8,,,,none,bf16,1,64,4096,1000,1000,4,x,"
				     "12.5,ms,ok,"
				     "src,\n",
				kinds[k], column == 0 ? "65536" : "8", column == 1 ? "65536" : "1",
				column == 2 ? "65536" : "8");
			cr_assert_eq(parse(&t, text, &err), MF_OK, "%s", err.msg);
			cr_assert_eq(mf_score_run(&c, &t, &opts, &err), MF_OK, "%s", err.msg);
			cr_assert_eq(c->n_reasons, 1);
			cr_expect_str_eq(c->reasons[0].reason, "a degree beyond any plan");
			mf_scorecard_free(c);
			mf_measured_dispose(&t);
		}
}

Test(score, gpus_by_any_of_their_names)
{
	static const struct {
		const char *name, *gpu;
		double n, per_node;
		uint32_t nodes, node;
	} names[] = {
		{"H100", "H100", 16, NAN, 2, 8},
		{"NVIDIA H100-80GB-HBM3", "H100", 8, 8, 1, 8},
		{"h200_sxm", "H200", 3, NAN, 1, 3},
		{"H200 141GB", "H200", 12, 8, 2, 6},
		{"NVIDIA GB200 NVL72", "GB200", 72, 4, 18, 4},
		{"GB300", "GB300", 256, 72, 4, 64},
		{"DGX-B200", "B200", 1, NAN, 1, 1},
		{"B200 192GB", "B200", 8, NAN, 1, 8},
		{"RTX PRO 6000 Blackwell Server Edition", "RTX6000Pro", 4, NAN, 1, 4},
		{"NVIDIA GeForce RTX 4090", "RTX4090", 32, NAN, 16, 2},
		{"A100-SXM4-80GB", "A100", 8, NAN, 1, 8},
		{"A100 40GB", "A100-40GB", 8, NAN, 1, 8},
		{"A10", "A10", 4, 1, 4, 1},
		{"L40", "L40", 16, NAN, 2, 8},
		{"H100 PCIe", NULL, 8, NAN, 0, 0},
		{"H100 NVL", NULL, 8, NAN, 0, 0},
		{"H20 141GB", NULL, 8, NAN, 0, 0},
		{"MI300X", NULL, 8, NAN, 0, 0},
		{"NVIDIA", NULL, 8, NAN, 0, 0},
		{"A100-really-long-name-that-fits-no-buffer-of-ours-at-all", NULL, 8, NAN, 0, 0},
	};
	mf_score_opts opts = {0, NULL};
	mf_measured_table t;
	mf_score *ctx;
	mf_err err;

	cr_assert_eq(parse(&t, HEAD ROW "\n", &err), MF_OK);
	cr_assert_eq(mf_score_new(&ctx, &t, &opts, &err), MF_OK);
	for (size_t i = 0; i < MF_COUNT(names); i++) {
		mf_judged out = {0};
		const mf_cluster *c = mf_score_cluster_of(ctx, names[i].name, names[i].n, names[i].per_node, &out);

		if (!names[i].gpu) {
			cr_expect_null(c, "%s", names[i].name);
			cr_expect(strstr(out.why_not, "no built-in cluster of ") == out.why_not, "%s", out.why_not);
			continue;
		}
		cr_assert_not_null(c, "%s: %s", names[i].name, out.why_not);
		cr_expect_str_eq(c->gpu, names[i].gpu);
		cr_expect(c->nodes == names[i].nodes && c->gpus_per_node == names[i].node, "%s: %ux%u", names[i].name,
			c->nodes, c->gpus_per_node);
	}
	mf_score_free(ctx);
	mf_measured_dispose(&t);
}

Test(score, precisions_by_any_of_their_names)
{
	mf_quant q = MF_QUANT_INT8;
	mf_precision p = MF_PREC_BF16;

	cr_expect(mf_score_weights("FP8-blockwise", &q) && q == MF_QUANT_FP8_BLOCK);
	cr_expect(mf_score_weights("fp8_block", &q) && q == MF_QUANT_FP8_BLOCK);
	cr_expect(mf_score_weights("w4a16", &q) && q == MF_QUANT_INT4);
	cr_expect(mf_score_weights("BF16", &q) && q == MF_QUANT_NONE);
	cr_expect(mf_score_weights("nvfp4", &q) && q == MF_QUANT_NVFP4);
	cr_expect_not(mf_score_weights("int3", &q));
	cr_expect(mf_score_training("", &p) && p == MF_PREC_BF16);
	cr_expect(mf_score_training("fp8-mx", &p) && p == MF_PREC_MXFP8);
	cr_expect(mf_score_training("FP8-CS", &p) && p == MF_PREC_FP8_TENSOR);
	cr_expect(mf_score_training("fp8:blockwise", &p) && p == MF_PREC_FP8_BLOCK);
	cr_expect(mf_score_training("fp8:delayed", &p) && p == MF_PREC_FP8_DELAYED);
	cr_expect(mf_score_training("nvfp4", &p) && p == MF_PREC_NVFP4);
	cr_expect_not(mf_score_training("int4", &p));
}

Test(score, the_picture_is_whole_without_a_point)
{
	mf_measured_table t;
	mf_score_opts opts = {1u << MF_ROW_COMM, NULL};
	mf_scorecard *c;
	mf_buf svg = MF_BUF_INIT;
	mf_err err;

	cr_assert_eq(parse(&t, HEAD ROW "\n", &err), MF_OK);
	cr_assert_eq(mf_score_run(&c, &t, &opts, &err), MF_OK, "%s", err.msg);
	mf_score_svg(c, &svg);
	cr_expect(strstr(mf_buf_text(&svg), "</svg>"));
	cr_expect_eq(c->kinds[MF_ROW_TRAIN].rows, 0, "kinds that are not asked are not counted");
	mf_buf_dispose(&svg);
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

/* ---- memory rows --------------------------------------------------------------------------------------------------- */

Test(score, what_would_have_been_started_is_counted_against_what_happened)
{
	/* DeepSeek-V3 in its own 8 bits over eight cards: 84 GB of weights each. Four times as many cards leave room. */
	static const char text[] =
		HEAD "a,memory,DeepSeek-V3,H800,8,8,8,,,,,,,,,,,fp8,,,,,,,peak_memory,,,oom,x,SGLang\n"
		     "b,memory,DeepSeek-V3,H800,32,8,32,,,,,,,,,,,fp8,,,,,,,peak_memory,,,ok,x,SGLang\n"
		     "c,memory,DeepSeek-V3,H800,8,8,8,,,,,,,,,,,fp8,,,,,,,weights_per_gpu,84,GB,refused,x,SGLang\n"
		     "d,memory,DeepSeek-V3,H800,32,8,32,,,,,,,,,,,fp8,,,,,,,peak_memory,,,oom,x,SGLang\n"
		     "e,memory,No-Such-Model,H800,8,8,8,,,,,,,,,,,fp8,,,,,,,peak_memory,,,oom,x,SGLang\n";
	mf_score_opts opts = {1u << MF_ROW_MEMORY, NULL};
	const mf_score_stats *s;
	mf_measured_table t;
	mf_scorecard *c;
	mf_err err;

	cr_assert_eq(parse(&t, text, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_score_run(&c, &t, &opts, &err), MF_OK, "%s", err.msg);
	s = &c->kinds[MF_ROW_MEMORY];
	cr_expect_eq(s->rows, 5);
	cr_expect_eq(s->covered, 4);
	cr_expect_eq(s->oom_rows, 3, "a run that was declined counts as one that died");
	cr_expect_eq(s->oom_refused, 2);
	cr_expect_eq(s->fit_rows, 1);
	cr_expect_float_eq(s->oom_recall, 2.0 / 3, 1e-12);
	cr_expect_float_eq(s->fit_recall, 1, 1e-12);
	cr_expect_float_eq(s->probe_share, 0, 1e-12);
	cr_expect(isnan(s->probe_precision));
	cr_expect_eq(s->compared, 0, "only runs that ended well have a figure to compare");
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

static mf_scorecard *score_memory(mf_measured_table *t)
{
	mf_score_opts opts = {1u << MF_ROW_MEMORY, NULL};
	mf_scorecard *c;
	mf_err err;

	cr_assert_eq(mf_measured_read(t, SOURCE_DIR "/tests/data/measured.csv", &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_score_run(&c, t, &opts, &err), MF_OK, "%s", err.msg);
	return c;
}

Test(score, the_ledger_holds_on_megatrons_own_golden_values)
{
	mf_measured_table t;
	mf_scorecard *c = score_memory(&t);
	size_t i = 0;

	while (i < c->n_parts && strcmp(c->parts[i].name, "Megatron tests") != 0)
		i++;
	cr_assert_lt(i, c->n_parts);
	cr_expect_geq(c->parts[i].stats.compared, 81);
	cr_expect_leq(c->parts[i].stats.median_abs_log, 0.03);
	cr_expect_geq(c->parts[i].stats.within_8, 0.9);
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

Test(score, the_memory_gate_catches_what_died_and_keeps_what_ran)
{
	mf_measured_table t;
	mf_scorecard *c = score_memory(&t);
	const mf_score_stats *s = &c->kinds[MF_ROW_MEMORY];

	/* Counts, not shares: a model more may bring a row that nobody can catch, and is no worse for it. */
	cr_expect_geq(s->oom_refused + s->oom_probe, 12);
	cr_expect_geq(s->fit_recall, 0.97);
	cr_expect_leq(s->probe_share, 0.15);
	mf_scorecard_free(c);
	mf_measured_dispose(&t);
}

/*
 * Other GPUs, other names and no source: a public row is still read, but for what the new GPU cannot do or a source alone
 * says. Every figure is a number.
 */
Test(score, public_rows_are_still_read_on_other_hardware)
{
	static const struct {
		const char *gpu, *source;
		double least[2]; /* share of training and serving rows covered */
	} moved[] = {{"NVIDIA GB300", "elsewhere", {0.9, 0.97}}, {"b200_sxm", "", {0.9, 0.97}},
		{"H200 141GB", "aic", {0.87, 0.97}}, {"L40S", "elsewhere", {0.87, 0.97}},
		{"MI300X", "elsewhere", {0, 0}}};
	mf_score_opts opts = {1u << MF_ROW_TRAIN | 1u << MF_ROW_SERVE, NULL};

	for (size_t i = 0; i < MF_COUNT(moved); i++) {
		mf_measured_table t;
		mf_scorecard *c;
		mf_err err;

		cr_assert_eq(mf_measured_read(&t, SOURCE_DIR "/tests/data/measured.csv", &err), MF_OK, "%s", err.msg);
		for (size_t k = 0; k < t.n; k++) {
			t.rows[k].gpu = moved[i].gpu;
			t.rows[k].source_id = moved[i].source;
		}
		cr_assert_eq(mf_score_run(&c, &t, &opts, &err), MF_OK, "%s", err.msg);
		for (int kind = MF_ROW_TRAIN; kind <= MF_ROW_SERVE; kind++) {
			double covered = (double)(c->kinds[kind].covered + c->outside[kind].covered);
			double all = (double)(c->kinds[kind].rows + c->outside[kind].rows);

			cr_expect_geq(covered / all, moved[i].least[kind], "%s kind %d: %g of %g", moved[i].gpu, kind,
				covered, all);
			cr_expect(moved[i].least[kind] > 0 || covered == 0, "%s", moved[i].gpu);
		}
		for (size_t k = 0; k < t.n; k++)
			if (c->judged[k].covered)
				cr_expect(c->judged[k].predicted > 0 && isfinite(c->judged[k].predicted), "%s: %g",
					t.rows[k].id, c->judged[k].predicted);
		mf_scorecard_free(c);
		mf_measured_dispose(&t);
	}
}

Test(score, recompute_modules_are_read_by_their_names)
{
	cr_expect_eq(mf_score_recompute("layernorm,moe_act"), MF_RC_LAYERNORM | MF_RC_MOE_ACT);
	cr_expect_eq(mf_score_recompute("[core_attn + mlp]"), MF_RC_CORE_ATTN | MF_RC_MLP);
	cr_expect_eq(mf_score_recompute("norm,act,shared_expert"), MF_RC_LAYERNORM | MF_RC_SHARED_EXPERTS);
	cr_expect_eq(mf_score_recompute("swiglu_act"), MF_RC_MOE_ACT);
	cr_expect_eq(mf_score_recompute("op"), 0);
	cr_expect_eq(mf_score_recompute(""), 0);
}
