/*
 * The training ledger: the paper's exact figures, the rules' consequences, agreement with an independent prototype of
 * the same rules, and that every total is the sum of its lines.
 */
#include "cost_internal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

typedef struct rig {
	mf_model model;
	mf_cluster cluster;
	mf_workload work;
	mf_stack stack;
	mf_site site;
	mf_consts consts;
	mf_intern *intern;
	mf_cost_opts opts;
	mf_cost *cost;
	mf_explain ex;
} rig;

static rig *rig_new(const char *model, const char *cluster, const char *stack)
{
	rig *r = calloc(1, sizeof(*r));
	mf_err err = {0};

	cr_assert_eq(mf_model_load(&r->model, model, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_cluster_load(&r->cluster, cluster, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_workload_load(&r->work, "node-4k", MF_TRAIN, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_stack_load(&r->stack, stack, MF_TRAIN, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_site_load(&r->site, NULL, &err), MF_OK, "%s", err.msg);
	r->intern = mf_intern_new();
	r->opts = (mf_cost_opts)MF_COST_OPTS_INIT;
	return r;
}

/* After the inputs are as a test wants them. */
static void rig_start(rig *r)
{
	mf_inputs in = {&r->model, &r->cluster, &r->work, &r->stack, &r->site, r->intern};
	mf_err err = {0};

	mf_consts_factory(&r->consts, &r->cluster);
	cr_assert_eq(mf_cost_new(&r->cost, &in, &r->consts, &r->opts, &err), MF_OK, "%s", err.msg);
}

static void rig_free(rig *r)
{
	mf_cost_free(r->cost);
	mf_intern_free(r->intern);
	free(r);
}

static mf_plan plan(rig *r, const char *text)
{
	mf_err err = {0};
	mf_plan p;

	cr_assert_eq(mf_plan_parse(&p, text, MF_TRAIN, r->intern, &err), MF_OK, "%s: %s", text, err.msg);
	return p;
}

static mf_memory memory(rig *r, const char *text)
{
	mf_plan p = plan(r, text);
	mf_memory m;

	mf_cost_memory(r->cost, &p, &m);
	return m;
}

static double total_gb(rig *r, const char *text)
{
	return memory(r, text).total_bytes / MF_GB;
}

/* Sum of the explained lines whose name starts with `prefix`, GB. */
static double lines_gb(rig *r, const char *text, const char *prefix)
{
	mf_plan p = plan(r, text);
	double sum = 0;

	memset(&r->ex, 0, sizeof(r->ex));
	mf_train_memory_eval(r->cost, &p, &r->ex.memory, &r->ex);
	for (size_t i = 0; i < r->ex.n_lines; i++)
		if (strncmp(r->ex.lines[i].name, prefix, strlen(prefix)) == 0)
			sum += r->ex.lines[i].bytes;
	return sum / MF_GB;
}

static double static_gb(rig *r, const char *text)
{
	return lines_gb(r, text, "weights") + lines_gb(r, text, "grads") + lines_gb(r, text, "master") +
	       lines_gb(r, text, "moments");
}

/* ---- the published ledger ---------------------------------------------------------------------------------------- */

static rig *published(void)
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");

	r->opts.ledger = MF_LEDGER_PUBLISHED;
	rig_start(r);
	return r;
}

static double weights_and_gradients(rig *r, const char *text)
{
	return lines_gb(r, text, "weights") + lines_gb(r, text, "grads");
}

Test(memory, published_ledger_gives_the_papers_figures)
{
	rig *r = published();

	cr_expect_float_eq(weights_and_gradients(r, "tp1/pp1/ep1/1f1b"), 91.73, 0.05);
	cr_expect_float_eq(weights_and_gradients(r, "tp1/pp1/ep2/1f1b"), 48.54, 0.05);
	cr_expect_float_eq(weights_and_gradients(r, "tp1/pp1/ep4/1f1b"), 26.95, 0.05);
	cr_expect_float_eq(weights_and_gradients(r, "tp1/pp1/ep8/1f1b"), 16.15, 0.05);
	for (int ep = 1; ep <= 8; ep *= 2) {
		char text[32];

		snprintf(text, sizeof(text), "tp1/pp1/ep%d/1f1b", ep);
		cr_expect_float_eq(lines_gb(r, text, "optimizer.expert"), 21.59, 0.01);
		cr_expect_float_eq(lines_gb(r, text, "optimizer"), 22.93, 0.01);
	}
	cr_expect_float_eq(total_gb(r, "tp1/pp1/ep2/1f1b"), 79.39, 0.03 * 79.39);
	cr_expect_float_eq(total_gb(r, "tp1/pp1/ep4/1f1b"), 57.8, 0.03 * 57.8);
	cr_expect_float_eq(total_gb(r, "tp1/pp1/ep8/1f1b"), 47.0, 0.03 * 47.0);
	cr_expect_float_eq(total_gb(r, "tp1/pp1/ep8/dualpipe+ov"), 46.2, 0.03 * 46.2);
	cr_expect_float_eq(total_gb(r, "tp1/pp1/ep1/1f1b"), 120.8, 0.04 * 120.8);
	rig_free(r);
}

Test(memory, published_ledger_gives_the_papers_verdicts)
{
	rig *r = published();

	cr_expect_float_eq(memory(r, "tp1/pp1/ep8/1f1b").budget_bytes, 72e9, 1);
	cr_expect(!memory(r, "tp1/pp1/ep1/1f1b").fits);
	cr_expect(!memory(r, "tp1/pp1/ep2/1f1b").fits);
	cr_expect(memory(r, "tp1/pp1/ep4/1f1b").fits);
	cr_expect(memory(r, "tp1/pp1/ep8/1f1b").fits);
	cr_expect(memory(r, "tp1/pp1/ep8/1f1b").probe, "its measured error is larger than what is left");
	rig_free(r);
}

Test(memory, published_ledger_refuses_kimi_k2_under_dualpipe)
{
	rig *r = rig_new("kimi-k2", "256x8xh800", "megatron-0.18.0");

	r->opts.ledger = MF_LEDGER_PUBLISHED;
	rig_start(r);
	cr_expect(!memory(r, "tp1/pp4/ep128/dualpipe+ov").fits);
	rig_free(r);
}

/* ---- known answers of the full ledger ---------------------------------------------------------------------------- */

Test(memory, static_part_of_the_papers_model)
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");

	rig_start(r);
	cr_expect_float_eq(static_gb(r, "tp1/pp1/ep8/1f1b"), 42.23, 0.02);
	cr_expect_float_eq(static_gb(r, "tp1/pp1/ep4/1f1b"), 53.02, 0.02);
	cr_expect_float_eq(static_gb(r, "tp1/pp1/ep2/1f1b"), 74.61, 0.02);
	rig_free(r);
}

Test(memory, expert_optimizer_state_does_not_depend_on_ep)
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");
	double at8, at4;

	rig_start(r);
	at8 = lines_gb(r, "tp1/pp1/ep8/1f1b", "master.expert") + lines_gb(r, "tp1/pp1/ep8/1f1b", "moments.expert");
	for (int ep = 1; ep <= 4; ep *= 2) {
		char text[32];

		snprintf(text, sizeof(text), "tp1/pp1/ep%d/1f1b", ep);
		cr_expect_float_eq(lines_gb(r, text, "master.expert") + lines_gb(r, text, "moments.expert"), at8, 1e-6);
	}
	/* Half the expert parallelism costs six bytes for each expert parameter added. */
	at4 = static_gb(r, "tp1/pp1/ep4/1f1b") - static_gb(r, "tp1/pp1/ep8/1f1b");
	cr_expect_float_eq(at4, 6 * 14.396 / 8, 0.01);
	rig_free(r);
}

Test(memory, plain_ddp_costs_eighteen_bytes_a_parameter)
{
	rig *r = rig_new("mixtral-8x7b", "8xh800", "megatron-0.18.0");
	mf_param_count n;

	rig_start(r);
	mf_model_count(&r->model, &n);
	cr_expect_float_eq(static_gb(r, "tp1/pp1/ep1/1f1b/z0") / ((double)n.total / MF_GB), 18, 0.01);
	cr_expect_float_eq(static_gb(r, "tp1/pp1/ep1/1f1b") / ((double)n.total / MF_GB), 6 + 12 / 8.0, 0.01);
	rig_free(r);
}

Test(memory, unfused_attention_with_the_toolchains_dropout_passes_the_card)
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0-unfused");

	r->stack.attention_dropout = 0.1; /* what Megatron takes when nothing is said */
	rig_start(r);
	cr_expect(!memory(r, "tp1/pp1/ep8/1f1b").fits);
	cr_expect(!memory(r, "tp1/pp1/ep4/1f1b").fits);
	rig_free(r);
}

Test(memory, unfused_attention_without_dropout_leaves_ep8_to_a_probe)
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0-unfused");

	r->stack.attention_dropout = 0;
	rig_start(r);
	cr_expect(memory(r, "tp1/pp1/ep8/1f1b").probe);
	cr_expect(!memory(r, "tp1/pp1/ep4/1f1b").fits);
	cr_expect_float_eq(
		lines_gb(r, "tp1/pp1/ep8/1f1b", "act.attn.scores"), 27 * 16 * 4096.0 * 4096 * 2 / MF_GB, 1e-6);
	rig_free(r);
}

Test(memory, without_pipeline_the_global_batch_does_not_matter)
{
	double at[2];

	for (uint32_t i = 0; i < 2; i++) {
		rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");

		r->work.global_batch = 8 << i;
		rig_start(r);
		at[i] = total_gb(r, "tp1/pp1/ep8/1f1b");
		rig_free(r);
	}
	cr_expect_float_eq(at[0], at[1], 0);
}

/* ---- against the prototype --------------------------------------------------------------------------------------- */

/* Device bytes of the worst stage from an independent program of the same rules, GB. It pads gradient buffers, which
 * this ledger leaves out (below 0.1%). */
static const struct {
	const char *model, *cluster, *stack;
	uint32_t global_batch;
	const char *plan;
	double gb;
	uint16_t worst;
} prototype[] = {
	{"deepseek-v2-lite", "8xh800", "megatron-0.18.0", 256, "tp1/pp1/ep8/1f1b", 67.013, 0},
	{"deepseek-v2-lite", "8xh800", "megatron-0.18.0-unfused", 256, "tp1/pp1/ep4/1f1b", 93.562, 0},
	{"deepseek-v2-lite", "8xh800", "megatron-0.18.0", 256, "tp2/pp1/ep8/etp1/1f1b/mb2/rc:moe_act", 60.854, 0},
	{"deepseek-v2-lite", "8xh800", "megatron-0.18.0", 256, "tp1/pp1/ep8/1f1b/fsdp", 60.209, 0},
	{"deepseek-v2-lite", "8xa100", "megatron-0.18.0", 256, "tp1/pp1/ep8/1f1b/zero1_offload/rc:full", 27.165, 0},
	{"qwen3-30b-a3b", "8xh800", "megatron-0.18.0", 256, "tp1/pp4/ep2/1f1b", 101.874, 0},
	{"qwen3-30b-a3b", "8xh800", "megatron-0.18.0", 256, "tp2/pp2/v4/ep4/etp1/interleaved/disp:allgather", 89.939,
		1},
	{"qwen3-30b-a3b", "8xh800", "megatron-0.18.0", 256, "tp1/cp2/pp2/v2/ep4/interleaved", 93.192, 0},
	{"mixtral-8x7b", "8xh800", "megatron-0.18.0", 256, "tp4/pp2/v2/ep1/interleaved/rc:moe", 115.490, 0},
	{"mixtral-8x7b", "8xh800", "megatron-0.18.0-unfused", 256, "tp2/pp2/ep2/etp1/1f1b/rc:core_attn/z0", 241.703, 0},
	{"deepseek-v3", "256x8xh800", "megatron-0.18.0", 4096, "tp1/pp16/ep64/1f1b", 137.703, 1},
	{"deepseek-v3", "256x8xh800", "megatron-0.18.0", 4096, "tp1/pp8/v2/ep64/interleaved/rc:full2", 44.387, 0},
	{"deepseek-v3", "256x8xh800", "megatron-0.18.0", 4096, "tp2/pp16/ep64/etp1/1f1b/mb2/rc:moe_act,mlp", 126.662,
		1},
};

Test(memory, agrees_with_the_prototype)
{
	for (size_t i = 0; i < MF_COUNT(prototype); i++) {
		rig *r = rig_new(prototype[i].model, prototype[i].cluster, prototype[i].stack);
		double allocated, theirs;
		mf_memory m;

		r->work.global_batch = prototype[i].global_batch;
		r->stack.attention_dropout = 0;
		rig_start(r);
		m = memory(r, prototype[i].plan);
		/* The prototype takes 5% of slack on everything and 1.8 GiB of context: what is allocated is compared. */
		allocated = m.total_bytes / MF_GB - lines_gb(r, prototype[i].plan, "reserve") -
			    lines_gb(r, prototype[i].plan, "context");
		theirs = (prototype[i].gb - 1.8 * MF_GIB / MF_GB) / 1.05;
		cr_expect_float_eq(allocated / theirs, 1, 1e-4, "%s %s: %.3f GB allocated, prototype %.3f",
			prototype[i].model, prototype[i].plan, allocated, theirs);
		cr_expect_eq(m.worst_stage, prototype[i].worst, "%s: stage %u", prototype[i].plan, m.worst_stage);
		rig_free(r);
	}
}

/* ---- lines and stages -------------------------------------------------------------------------------------------- */

static uint32_t next(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* A plan that divides a world of 2048, any combination of choices. */
static mf_plan random_plan(uint32_t *state)
{
	static const uint16_t pps[] = {1, 2, 4, 8, 16, 32};
	mf_plan p = mf_plan_default(MF_TRAIN);

	p.tp = (uint16_t)(1u << next(state) % 4);
	p.cp = (uint16_t)(1u << next(state) % 2);
	p.pp = pps[next(state) % MF_COUNT(pps)];
	p.ep = (uint16_t)(1u << next(state) % 6);
	p.etp = next(state) % 2 ? 1 : 0;
	p.micro_batch = (uint16_t)(next(state) % 5);
	p.schedule = (uint8_t)(p.pp > 1 && next(state) % 4 == 0 ? MF_DUALPIPE : MF_1F1B);
	if (p.pp > 1 && p.pp <= 16 && p.schedule == MF_1F1B && next(state) % 2) {
		p.schedule = MF_INTERLEAVED;
		p.vpp = (uint16_t)(2 + next(state) % 3);
	}
	p.overlap = (uint8_t)(next(state) % 2);
	p.sharding = (uint8_t)(next(state) % 3);
	p.zero_stage = (uint8_t)(p.sharding == MF_FSDP ? 1 + next(state) % 3 : next(state) % 2);
	p.recompute = (uint8_t)(next(state) % 3);
	p.recompute_modules = (uint8_t)(p.recompute == MF_RECOMPUTE_SELECTIVE ? 1 + next(state) % 127 : 0);
	p.recompute_layers = (uint16_t)(1 + next(state) % 4);
	p.dispatcher = (uint8_t)(next(state) % 4);
	return p;
}

static void check_lines(rig *r, uint32_t seed)
{
	uint32_t state = seed;

	for (int i = 0; i < 4000; i++) {
		mf_plan p = random_plan(&state);
		mf_memory fast;
		double sum = 0, worst = 0;

		if (!mf_plan_dp(&p, r->cost->world) || !mf_plan_edp(&p, r->cost->world))
			continue;
		mf_cost_memory(r->cost, &p, &fast);
		memset(&r->ex, 0, sizeof(r->ex));
		mf_train_memory_eval(r->cost, &p, &r->ex.memory, &r->ex);
		for (size_t k = 0; k < r->ex.n_lines; k++) {
			cr_assert(r->ex.lines[k].bytes > 0);
			sum += r->ex.lines[k].bytes;
		}
		for (size_t k = 0; k < r->ex.n_stages; k++)
			worst = fmax(worst, r->ex.stage_bytes[k]);
		cr_assert_eq(r->ex.n_stages, p.pp);
		cr_assert(fast.total_bytes > 0);
		if (sum != fast.total_bytes || worst != fast.total_bytes ||
			r->ex.memory.total_bytes != fast.total_bytes) {
			char text[MF_PLAN_TEXT_MAX];

			mf_plan_format(&p, r->intern, text);
			cr_assert_fail(
				"%s: total %.0f, lines %.0f, worst stage %.0f", text, fast.total_bytes, sum, worst);
		}
	}
}

Test(memory, lines_add_up_and_the_worst_stage_decides)
{
	static const char *const models[] = {"deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b", "llama-3.1-8b"};
	static const char *const stacks[] = {
		"megatron-0.18.0", "megatron-0.18.0-tuned", "megatron-0.18.0-unfused", "megatron-0.18.0"};

	for (size_t i = 0; i < MF_COUNT(models); i++)
		for (int ledger = 0; ledger < 2; ledger++) {
			rig *r = rig_new(models[i], "256x8xh800", stacks[i]);

			r->opts.ledger = ledger ? MF_LEDGER_FULL : MF_LEDGER_PUBLISHED;
			r->work.global_batch = 4096;
			r->work.mtp = i == 0;
			if (i == 1)
				r->work.precision = MF_PREC_FP8_BLOCK;
			rig_start(r);
			check_lines(r, 7 + (uint32_t)i);
			rig_free(r);
		}
}

Test(memory, every_lever_points_its_way)
{
	static const char *const less_than[][2] = {
		{"tp2/pp1/ep8/etp1/1f1b", "tp1/pp1/ep8/1f1b"},
		{"tp1/pp1/ep8/1f1b", "tp1/pp1/ep4/1f1b"},
		{"tp1/pp1/ep8/1f1b", "tp1/pp1/ep8/1f1b/mb2"},
		{"tp1/pp1/ep8/1f1b/rc:moe_act", "tp1/pp1/ep8/1f1b"},
		{"tp1/pp1/ep8/1f1b/rc:full", "tp1/pp1/ep8/1f1b/rc:moe_act"},
		{"tp1/pp1/ep8/1f1b/zero1_offload", "tp1/pp1/ep8/1f1b"},
		{"tp1/pp1/ep8/1f1b", "tp1/pp1/ep8/1f1b/z0"},
		{"tp1/pp1/ep8/1f1b", "tp1/pp1/ep8/1f1b/disp:allgather"},
		{"tp1/pp1/ep8/1f1b", "tp1/pp1/ep8/1f1b+ov"},
		{"tp1/pp1/ep4/1f1b/fsdp", "tp1/pp1/ep4/1f1b"},
		{"tp1/pp2/ep4/1f1b", "tp1/pp2/v2/ep4/interleaved"},
		{"tp1/pp2/ep4/1f1b", "tp1/pp2/ep4/dualpipe"},
		{"tp1/cp2/pp1/ep8/1f1b", "tp1/pp1/ep8/1f1b"},
	};
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");

	rig_start(r);
	for (size_t i = 0; i < MF_COUNT(less_than); i++)
		cr_expect_lt(total_gb(r, less_than[i][0]), total_gb(r, less_than[i][1]), "%s holds less than %s",
			less_than[i][0], less_than[i][1]);
	rig_free(r);
}

Test(memory, more_micro_batches_never_hold_less)
{
	double before = 0;

	for (uint32_t batch = 1; batch <= 64; batch *= 2) {
		rig *r = rig_new("qwen3-30b-a3b", "8xh800", "megatron-0.18.0");

		r->work.global_batch = batch;
		rig_start(r);
		cr_expect_geq(total_gb(r, "tp2/pp4/v3/ep2/etp1/interleaved"), before);
		before = total_gb(r, "tp2/pp4/v3/ep2/etp1/interleaved");
		rig_free(r);
	}
}

Test(memory, layers_that_do_not_divide_are_priced)
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");

	rig_start(r);
	cr_expect_gt(total_gb(r, "tp1/pp2/ep4/1f1b"), 20);
	cr_expect_gt(total_gb(r, "tp1/pp8/v2/ep1/interleaved"), 10);
	cr_expect_float_eq(total_gb(r, "tp1/pp2/ep4/1f1b"), total_gb(r, "tp1/pp2/ep4/1f1b/lay:14-13"), 1e-9);
	rig_free(r);
}

/* ---- rules of single switches -------------------------------------------------------------------------------------- */

/* Lines that start with `prefix` under a change of the stack, GB. */
static double switched(const char *plan_text, const char *prefix, void (*change)(rig *r))
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");
	double gb;

	change(r);
	rig_start(r);
	gb = lines_gb(r, plan_text, prefix);
	rig_free(r);
	return gb;
}

static void nothing(rig *r)
{
	(void)r;
}
static void muon(rig *r)
{
	r->stack.optimizer = MF_OPT_MUON;
}
static void two_instances(rig *r)
{
	r->stack.optimizer_instances = 2;
}
static void separate_wgrad(rig *r)
{
	r->stack.separate_wgrad = true;
}
static void hidden_dropout(rig *r)
{
	r->stack.hidden_dropout = 0.1;
}
static void offload_fc1(rig *r)
{
	r->stack.offload_activations = MF_OFFLOAD_EXPERT_FC1;
}
static void fp8_params(rig *r)
{
	r->stack.fp8_params = true;
	r->work.precision = MF_PREC_MXFP8;
}
static void learned_positions(rig *r)
{
	r->model.learned_positions = 4096;
}
static void odd_vocabulary(rig *r)
{
	r->model.vocab = 50257;
	r->stack.vocab_multiple = 3232;
}
static void repeated_mtp(rig *r)
{
	r->model.mtp_layers = 2;
	r->work.mtp = true;
	r->stack.mtp_repeated = true;
}
static void two_mtp(rig *r)
{
	r->model.mtp_layers = 2;
	r->work.mtp = true;
}

Test(memory, switches_cost_what_their_rules_say)
{
	const char *plan_text = "tp1/pp1/ep8/1f1b";
	double t = 4096, h = 2048, layers = 27, moe = 26, rows = t * 6;

	/* Muon: one moment of a matrix, Adam's two of the embeddings (2 x 102400 x 2048, over 8 ranks). */
	cr_expect_float_eq(
		switched(plan_text, "moments.expert", muon), switched(plan_text, "moments.expert", nothing) / 2, 1e-9);
	cr_expect_float_eq(switched(plan_text, "moments.dense", muon),
		switched(plan_text, "moments.dense", nothing) / 2 + 4 * 2 * 102400 * h / 8 / MF_GB, 1e-6);
	/* Two optimizer instances: every group of half the ranks holds the whole state. */
	cr_expect_float_eq(switched("tp1/pp1/ep4/1f1b", "master", two_instances),
		2 * switched("tp1/pp1/ep4/1f1b", "master", nothing), 1e-6);
	/* Without gradient-accumulation fusion nothing is cached, and the head's gradient stands beside the logits. */
	cr_expect_float_eq(switched(plan_text, "workspace.dummy", separate_wgrad), 0, 0);
	cr_expect_float_eq(switched(plan_text, "temp.head_wgrad", separate_wgrad), 2 * 102400 * h / MF_GB, 1e-6);
	/* One byte of mask a residual, and one after the embedding. */
	cr_expect_float_eq(switched(plan_text, "act.", hidden_dropout) - switched(plan_text, "act.", nothing),
		(2 * layers + 1) * t * h / MF_GB, 1e-6);
	/* Offload: the tokens of the experts wait on the host, two layers' worth is back. */
	cr_expect_float_eq(switched(plan_text, "act.moe.dispatched", offload_fc1), 0, 0);
	cr_expect_float_eq(switched(plan_text, "act.moe.dispatched", nothing), moe * 2 * rows * h / MF_GB, 1e-6);
	cr_expect_float_eq(switched(plan_text, "temp.", offload_fc1) + switched(plan_text, "logits", offload_fc1) -
				   switched(plan_text, "temp.", nothing) - switched(plan_text, "logits", nothing),
		2 * 2 * rows * h / MF_GB, 1e-6);
	/* MXFP8 weights: rows and columns with a scale for 32 values each. */
	cr_expect_float_eq(switched(plan_text, "weights.expert", fp8_params),
		switched(plan_text, "weights.expert", nothing) * 2.0625 / 2, 1e-9);
	cr_expect_float_eq(
		switched(plan_text, "weights.dense", learned_positions) - switched(plan_text, "weights.dense", nothing),
		2 * 4096 * h / MF_GB, 1e-9);
	/* The vocabulary is padded to a multiple: 50257 to 16 x 3232 = 51712, twice, embedding and head. */
	cr_expect_float_eq(
		switched(plan_text, "weights.dense", nothing) - switched(plan_text, "weights.dense", odd_vocabulary),
		2 * 2 * (102400 - 51712) * h / MF_GB, 1e-9);
	/* Two depths of MTP with one set of weights. */
	cr_expect_float_eq(switched(plan_text, "weights", two_mtp) - switched(plan_text, "weights", nothing),
		2 * (switched(plan_text, "weights", repeated_mtp) - switched(plan_text, "weights", nothing)), 1e-6);
}

/* A forward and a backward run layer by layer against each other: one layer more than without overlap, and two cuBLAS
 * workspaces (combined_1f1b.py; a Megatron test with overlap and recompute lies 0.6% from this, 9% below a whole chunk). */
Test(memory, overlap_holds_one_layer_more)
{
	static const char *const plans[] = {"tp1/pp1/ep8/1f1b", "tp1/pp2/v2/ep4/interleaved"};

	for (size_t i = 0; i < MF_COUNT(plans); i++) {
		rig *r = rig_new("qwen3-30b-a3b", "8xh800", "megatron-0.18.0");
		double t = 4096, h = 2048, layer;
		char text[64];

		rig_start(r);
		snprintf(text, sizeof text, "%s+ov", plans[i]);
		/* norms 4 x 2 t H, qkv and its norm's input, softmax sums, core output, router 18 t X, experts, probabilities */
		layer = 8 * t * h + 2 * t * 40 * 128 + 2 * t * 36 * 128 + 4 * t * 32 + 2 * t * 32 * 128 + 18 * t * 128 +
			8 * t * (2 * h + 2 * 3 * 768 + 4);
		cr_expect_float_eq(lines_gb(r, text, "act."), lines_gb(r, plans[i], "act."), 1e-9);
		if (lines_gb(r, text, "logits") == 0)
			cr_expect_float_eq(lines_gb(r, text, "temp.layer") - lines_gb(r, plans[i], "temp.layer"),
				layer / MF_GB, 1e-6);
		cr_expect_float_eq(
			lines_gb(r, text, "workspace.cublas"), 2 * lines_gb(r, plans[i], "workspace.cublas"), 1e-9);
		rig_free(r);
	}
}

/* The paper's ledger left about 27 GB out. They come out of lines: activations, logits, workspaces, and the scores that an
 * unfused attention writes, the largest of them; not out of a constant. */
Test(memory, the_papers_residual_is_made_of_lines)
{
	rig *r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0-unfused"), *full = r;
	double published, allocated, scores;

	r->stack.attention_dropout = 0;
	r->stack.loss = MF_LOSS_EAGER;
	rig_start(full);
	allocated = total_gb(full, "tp1/pp1/ep8/1f1b") - lines_gb(full, "tp1/pp1/ep8/1f1b", "reserve") -
		    lines_gb(full, "tp1/pp1/ep8/1f1b", "context");
	scores = lines_gb(full, "tp1/pp1/ep8/1f1b", "act.attn.scores");
	cr_expect_float_eq(static_gb(full, "tp1/pp1/ep8/1f1b"), 42.2, 0.1);
	rig_free(full);
	r = rig_new("deepseek-v2-lite", "8xh800", "megatron-0.18.0");
	r->opts.ledger = MF_LEDGER_PUBLISHED;
	rig_start(r);
	published = total_gb(r, "tp1/pp1/ep8/1f1b");
	rig_free(r);
	cr_expect_float_eq(
		allocated - published, 27, 1.5, "%.1f GB beyond the published %.1f", allocated - published, published);
	cr_expect_float_eq(scores, 14.5, 0.1);
}

Test(memory, hybrids_hold_the_parameters_of_their_layers)
{
	static const char *const models[] = {
		"nemotron-3-nano-30b-a3b", "qwen3.5-35b-a3b", "qwen3-next-80b-a3b", "glm-5.2"};

	for (size_t i = 0; i < MF_COUNT(models); i++) {
		rig *r = rig_new(models[i], "8xh800", "megatron-0.18.0");
		mf_param_count n;

		rig_start(r);
		mf_model_count(&r->model, &n);
		cr_expect_float_eq(lines_gb(r, "tp1/pp1/ep1/1f1b", "weights") * MF_GB / 2 / (double)n.total, 1, 0.005,
			"%s: %.3f GB of weights, %.3f G parameters", models[i],
			lines_gb(r, "tp1/pp1/ep1/1f1b", "weights"), (double)n.total / 1e9);
		rig_free(r);
	}
}

Test(memory, a_stage_opened_is_that_stage)
{
	rig *r = rig_new("deepseek-v3", "256x8xh800", "megatron-0.18.0");
	mf_err err = {0};
	mf_plan p;

	rig_start(r);
	p = plan(r, "tp1/pp8/v2/ep64/interleaved");
	for (uint32_t stage = 0; stage < 8; stage++) {
		double sum = 0;

		cr_assert_eq(mf_cost_explain_stage(r->cost, &p, stage, &r->ex, &err), MF_OK, "%s", err.msg);
		for (size_t k = 0; k < r->ex.n_lines; k++)
			sum += r->ex.lines[k].bytes;
		cr_expect_float_eq(sum, r->ex.stage_bytes[stage], 0);
		cr_expect_float_eq(r->ex.memory.total_bytes, r->ex.stage_bytes[stage], 0);
		cr_expect_eq(r->ex.memory.worst_stage, stage);
	}
	cr_expect_eq(mf_cost_explain_stage(r->cost, &p, 8, &r->ex, &err), MF_EINPUT);
	rig_free(r);
}
