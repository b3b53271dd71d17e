/* The Megatron walk: refusals in the toolchain's words, golden commands, and commands that read back as their plan. */
#include "emit.h"

#include "inputs_fixture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bench {
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_site site;
	mf_inputs in;
	mf_emitter *emitter;
};

static void open_bench(struct bench *b, const char *model, const char *cluster, const char *workload, const char *stack)
{
	mf_err err = {0};

	LOAD_INPUTS(*b, model, cluster, workload, stack, MF_TRAIN);
	cr_assert_eq(mf_emitter_new(&b->emitter, &b->in, &err), MF_OK, "%s", err.msg);
}

static void close_bench(struct bench *b)
{
	mf_emitter_free(b->emitter);
	mf_intern_free(b->in.intern);
}

static mf_plan parse(const struct bench *b, const char *text)
{
	mf_plan p;
	mf_err err = {0};

	cr_assert_eq(mf_plan_parse(&p, text, MF_TRAIN, b->in.intern, &err), MF_OK, "%s: %s", text, err.msg);
	return p;
}

static void expect_refusal(
	const struct bench *b, const char *plan, const char *id, const char *boundary, mf_kind kind, const char *reason)
{
	mf_plan p = parse(b, plan);
	mf_sink s = mf_sink_null();
	mf_buf text = MF_BUF_INIT;

	mf_emit(b->emitter, &p, NAN, &s);
	const mf_rule *r = mf_rule_get(s.rule);
	mf_sink_reason(&s, &text);
	cr_expect_str_eq(r->id, id, "%s", plan);
	cr_expect_str_eq(r->boundary, boundary, "%s", plan);
	cr_expect_eq(r->kind, kind, "%s", plan);
	cr_expect_str_eq(mf_buf_text(&text), reason, "%s", plan);
	mf_buf_dispose(&text);
}

static struct bench *lite(void)
{
	static struct bench b;

	open_bench(&b, "deepseek-v2-lite", "8xh800", NULL, NULL);
	return &b;
}

Test(megatron, dualpipe_has_no_words)
{
	struct bench *b = lite();
	mf_err err;
	mf_argv a;
	mf_plan p = parse(b, "tp1/pp1/ep8/dualpipe+ov");

	expect_refusal(b, "tp1/pp1/ep8/dualpipe+ov", "plan.dualpipe", "B1", MF_NOT_IMPLEMENTED,
		"Megatron core v0.18.0 has no DualPipe schedule");
	cr_assert_eq(mf_argv_init(&a, true, &err), MF_OK);
	mf_emit(b->emitter, &p, NAN, &a.sink);
	cr_expect_eq(a.n, 0, "a forced walk still has no argv");
	mf_argv_dispose(&a);
	close_bench(b);
}

/* Whatever the plan, and forced too: a model of recurrent, split or sparse layers gets a reason, not a command. */
Test(megatron, hybrid_models_are_refused)
{
	static const char *const models[] = {
		"nemotron-3-nano-30b-a3b", "nemotron-3-super-120b-a12b", "qwen3-next-80b-a3b", "glm-5.2"};

	for (size_t i = 0; i < MF_COUNT(models); i++) {
		struct bench b;
		mf_plan p;
		mf_sink s = mf_sink_null();
		mf_argv a;
		mf_err err;

		open_bench(&b, models[i], "8xh100", NULL, NULL);
		p = parse(&b, "tp1/pp1/ep8/1f1b");
		mf_emit(b.emitter, &p, NAN, &s);
		cr_expect_str_eq(mf_rule_get(s.rule)->id, "model.layers", "%s", models[i]);
		cr_assert_eq(mf_argv_init(&a, true, &err), MF_OK);
		mf_emit(b.emitter, &p, NAN, &a.sink);
		mf_argv_dispose(&a);
		close_bench(&b);
	}
}

Test(megatron, refusals_are_verbatim)
{
	struct bench *b = lite();

	expect_refusal(b, "tp1/pp2/ep4/1f1b", "mcore.P1", "B2", MF_INVALID_VALUE,
		"Number of layers should be divisible by the pipeline-model-parallel size");
	expect_refusal(b, "tp1/pp1/ep1/1f1b+ov", "mcore.E3", "mcore.E", MF_INVALID_VALUE,
		"overlap_moe_expert_parallel_comm is only supported with expert model parallelism");
	expect_refusal(b, "tp1/pp2/ep4/1f1b+ov/first13", "mcore.E2", "mcore.E", MF_NOT_IMPLEMENTED,
		"If enabling EP A2A overlap, virtual_pipeline_model_parallel_size must be specified when "
		"pipeline_model_parallel_size > 1");
	expect_refusal(b, "tp1/pp2/v2/ep4/interleaved", "mcore.P9", "B2", MF_INVALID_VALUE,
		"num_layers=27 should be divisible by config.pipeline_model_parallel_size=2");
	expect_refusal(b, "tp1/pp3/ep1/1f1b", "mcore.W1", "mcore.W", MF_INVALID_VALUE,
		"world size (8) is not divisible by total_model_size (total_model_size=3)");
	expect_refusal(b, "tp4/pp1/ep4/1f1b", "mcore.W2", "mcore.W", MF_INVALID_VALUE,
		"world_size (8) is not divisible by expert_tensor_model_pipeline_parallel size (16)");
	close_bench(b);
}

Test(megatron, the_papers_winner_is_buildable)
{
	struct bench *b = lite();
	mf_plan p = parse(b, "tp1/pp1/ep8/1f1b+ov");
	mf_sink s = mf_sink_null();

	mf_emit(b->emitter, &p, NAN, &s);
	cr_expect_eq(s.rule, MF_RULE_NONE, "%s", mf_rule_get(s.rule)->id);
	close_bench(b);
}

/* ---- golden commands ------------------------------------------------------------------------------------------- */

static const struct golden {
	const char *name, *model, *cluster, *workload, *stack, *plan;
} goldens[] = {
	{"v2lite-ep8-overlap", "deepseek-v2-lite", "8xh800", NULL, NULL, "tp1/pp1/ep8/1f1b+ov"},
	{"v2lite-ep8-offload", "deepseek-v2-lite", "8xh800", NULL, NULL, "tp1/pp1/ep8/1f1b/zero1_offload"},
	{"v2lite-ep8-fsdp", "deepseek-v2-lite", "8xh800", NULL, NULL, "tp1/pp1/ep8/1f1b/fsdp"},
	{"v2lite-pp2-first13", "deepseek-v2-lite", "8xh800", NULL, NULL, "tp1/pp2/ep4/1f1b/first13"},
	{"v2lite-unfused-tp2", "deepseek-v2-lite", "8xh800", NULL, "megatron-0.18.0-unfused", "tp2/pp1/ep4/etp1/1f1b"},
	{"v3-layout", "deepseek-v3", "256x8xh800", NULL, NULL, "tp1/pp2/ep64/1f1b/lay:30-31"},
	{"v3-deepep-full", "deepseek-v3", "256x8xh800", NULL, "megatron-0.18.0-deepep",
		"tp1/pp1/ep64/1f1b/disp:deepep/sm24/rc:full"},
	{"kimi-k2-ep64", "kimi-k2", "256x8xh800", NULL, NULL, "tp1/pp1/ep64/1f1b+ov/rc:mla_up_proj,layernorm"},
	{"mixtral-8x7b-tp2", "mixtral-8x7b", "8xh800", NULL, NULL, "tp2/pp1/ep4/etp1/1f1b"},
	{"mixtral-8x22b-interleaved", "mixtral-8x22b", "8xh800", NULL, NULL, "tp1/pp2/v4/ep4/interleaved+ov"},
	{"qwen3-30b-cp2", "qwen3-30b-a3b", "8xh800", NULL, NULL, "tp1/cp2/pp1/ep8/1f1b"},
	{"qwen3-235b-fp8", "qwen3-235b-a22b", "256x8xh800", "pretrain-4k-fp8", NULL, "tp2/pp2/ep16/etp1/1f1b"},
	{"glm-4.5-air-ep8", "glm-4.5-air", "8xh800", NULL, NULL, "tp1/pp2/ep4/1f1b/rc:moe_act"},
	{"gpt-oss-120b-ep8", "gpt-oss-120b", "8xh800", NULL, NULL, "tp1/pp1/ep8/1f1b"},
	{"olmoe-allgather", "olmoe", "8xh800", NULL, NULL, "tp1/pp1/ep4/1f1b/disp:allgather"},
	{"llama-3.1-8b-tp4", "llama-3.1-8b", "8xh800", NULL, NULL, "tp4/pp2/ep1/1f1b"},
};

static void command_text(const mf_argv *a, mf_buf *out)
{
	for (size_t i = 0; i < a->n; i++)
		mf_buf_printf(out, "%s%s\n", a->parts[i] == MF_PART_SITE ? "@ " : "", a->args[i]);
	for (size_t i = 0; i < a->n_env; i++)
		mf_buf_printf(out, "$ %s\n", a->env[i]);
}

/* One argument a line; "@ " marks the site's, "$ " the environment. MOEFS_UPDATE_GOLDEN=1 rewrites the files. */
Test(megatron, golden_commands)
{
	static struct bench b;

	for (size_t i = 0; i < MF_COUNT(goldens); i++) {
		const struct golden *g = &goldens[i];
		mf_err err = {0};
		mf_argv a;
		mf_buf made = MF_BUF_INIT, wanted = MF_BUF_INIT, reason = MF_BUF_INIT;
		char path[512];

		open_bench(&b, g->model, g->cluster, g->workload, g->stack);
		mf_plan p = parse(&b, g->plan);
		cr_assert_eq(mf_argv_init(&a, false, &err), MF_OK);
		mf_emit(b.emitter, &p, NAN, &a.sink);
		mf_sink_reason(&a.sink, &reason);
		cr_expect_eq(a.sink.rule, MF_RULE_NONE, "%s: %s: %s", g->name, mf_rule_get(a.sink.rule)->id,
			mf_buf_text(&reason));
		command_text(&a, &made);
		snprintf(path, sizeof(path), "%s/golden/megatron/%s.txt", TESTS_DIR, g->name);
		if (getenv("MOEFS_UPDATE_GOLDEN"))
			cr_assert_eq(mf_file_write(path, made.data, made.len, 0644, &err), MF_OK, "%s", err.msg);
		cr_assert_eq(mf_file_read(&wanted, path, 1 << 20, &err), MF_OK, "%s", err.msg);
		cr_expect_str_eq(mf_buf_text(&made), mf_buf_text(&wanted), "%s", g->name);
		mf_buf_dispose(&made);
		mf_buf_dispose(&wanted);
		mf_buf_dispose(&reason);
		mf_argv_dispose(&a);
		close_bench(&b);
	}
}

/* ---- properties ------------------------------------------------------------------------------------------------ */

static const char *const models[] = {"deepseek-v2-lite", "deepseek-v3", "kimi-k2", "mixtral-8x7b", "qwen3-30b-a3b",
	"glm-4.5-air", "gpt-oss-120b", "olmoe", "llama-3.1-8b"};
static uint64_t seed = 7;
#define ONE_OF(...) ((const int[]){__VA_ARGS__}[mf_random_u64(&seed) % MF_COUNT(((const int[]){__VA_ARGS__}))])

static mf_plan random_plan(const mf_model *m)
{
	mf_plan p = mf_plan_default(MF_TRAIN);

	p.tp = (uint16_t)ONE_OF(1, 1, 2, 4);
	p.cp = (uint16_t)ONE_OF(1, 1, 2);
	p.pp = (uint16_t)ONE_OF(1, 1, 2);
	p.ep = (uint16_t)(m->experts ? ONE_OF(1, 2, 4, 8) : 1);
	p.etp = (uint16_t)ONE_OF(0, 0, 1);
	p.micro_batch = (uint16_t)ONE_OF(1, 2);
	p.overlap = (uint8_t)ONE_OF(0, 0, 1);
	if (ONE_OF(0, 0, 1)) {
		p.schedule = MF_INTERLEAVED;
		p.vpp = (uint16_t)ONE_OF(2, 3);
	}
	if (p.pp == 2 && p.vpp == 1 && m->layers % 2)
		p.first_layers = (uint16_t)(m->layers / 2);
	p.sharding = (uint8_t)ONE_OF(MF_ZERO1, MF_ZERO1, MF_ZERO1_OFFLOAD, MF_FSDP);
	p.zero_stage = (uint8_t)(p.sharding == MF_FSDP ? ONE_OF(1, 2, 3) : 1);
	p.recompute = (uint8_t)ONE_OF(0, 1, 2);
	if (p.recompute == MF_RECOMPUTE_SELECTIVE)
		p.recompute_modules = (uint8_t)(1 + mf_random_u64(&seed) % 127);
	if (p.recompute == MF_RECOMPUTE_FULL)
		p.recompute_layers = (uint16_t)ONE_OF(1, 2);
	if (m->experts)
		p.dispatcher = (uint8_t)ONE_OF(MF_DISP_ALLTOALL, MF_DISP_ALLGATHER, MF_DISP_DEEPEP, MF_DISP_HYBRIDEP);
	if (p.dispatcher == MF_DISP_DEEPEP || p.dispatcher == MF_DISP_HYBRIDEP)
		p.sm_budget = (uint16_t)ONE_OF(0, 24);
	return p;
}

/* The null walk and the collecting walk agree, and what was emitted reads back as the same plan and shape. */
Test(megatron, read_is_the_inverse_of_emit)
{
	static struct bench b;
	size_t accepted = 0;

	for (size_t k = 0; k < MF_COUNT(models); k++) {
		open_bench(&b, models[k], "8xh800", NULL, "megatron-0.18.0-deepep");
		for (int i = 0; i < 300; i++) {
			mf_plan p = random_plan(&b.model);
			char text[MF_PLAN_TEXT_MAX], back[MF_PLAN_TEXT_MAX];
			mf_sink s = mf_sink_null();
			mf_err err = {0};
			mf_command c;
			mf_argv a;

			mf_plan_format(&p, b.in.intern, text);
			mf_emit(b.emitter, &p, NAN, &s);
			cr_assert_eq(mf_argv_init(&a, false, &err), MF_OK);
			mf_emit(b.emitter, &p, NAN, &a.sink);
			cr_assert_eq(a.sink.rule, s.rule, "%s", text);
			cr_assert_eq(a.n == 0, s.rule != MF_RULE_NONE, "%s", text);
			if (s.rule == MF_RULE_NONE) {
				accepted++;
				cr_assert_eq(mf_command_read(&c, (const char *const *)a.args, a.n,
						     (const char *const *)a.env, a.n_env, b.in.intern, &err),
					MF_OK, "%s: %s", text, err.msg);
				mf_plan_format(&c.plan, b.in.intern, back);
				cr_assert_str_eq(back, text);
				cr_assert(memcmp(&c.plan, &p, sizeof(p)) == 0, "%s", text);
				cr_assert_eq(c.n_unread, 0, "%s: %s", text, c.n_unread ? c.unread[0] : "");
				cr_assert_eq(c.world, 8);
				mf_param_count mine, theirs;
				mf_model_count(&b.model, &mine);
				mf_model_count(&c.model, &theirs);
				/* A norm over all heads becomes one by head: the only difference a command may make. */
				cr_assert(theirs.total == mine.total || b.model.qk_norm_whole,
					"%s: %llu and %llu parameters", models[k], (unsigned long long)theirs.total,
					(unsigned long long)mine.total);
				cr_assert_eq(c.workload.seq, b.workload.seq);
				cr_assert_eq(c.workload.global_batch, b.workload.global_batch);
				mf_command_dispose(&c);
			}
			mf_argv_dispose(&a);
		}
		close_bench(&b);
	}
	cr_expect_gt(accepted, 200, "%zu accepted", accepted);
}
