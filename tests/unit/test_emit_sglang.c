/* The SGLang walk: refusals in the engine's words, golden commands, and commands that read back as their plan. */
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

static void open_bench(struct bench *b, const char *model, const char *cluster)
{
	mf_err err = {0};

	LOAD_INPUTS(*b, model, cluster, NULL, NULL, MF_SERVE);
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

	cr_assert_eq(mf_plan_parse(&p, text, MF_SERVE, b->in.intern, &err), MF_OK, "%s: %s", text, err.msg);
	return p;
}

static void expect_rule(const struct bench *b, const char *plan, const char *id, const char *reason)
{
	mf_plan p = parse(b, plan);
	mf_sink s = mf_sink_null();
	mf_buf text = MF_BUF_INIT;

	mf_emit(b->emitter, &p, NAN, &s);
	mf_sink_reason(&s, &text);
	cr_expect_str_eq(mf_rule_get(s.rule)->id, id, "%s", plan);
	if (reason)
		cr_expect_str_eq(mf_buf_text(&text), reason, "%s", plan);
	mf_buf_dispose(&text);
}

Test(sglang, hybrid_models_are_refused)
{
	static const char *const models[] = {"nemotron-3-nano-30b-a3b", "qwen3.5-35b-a3b", "glm-5.2"};

	for (size_t i = 0; i < MF_COUNT(models); i++) {
		struct bench b;

		open_bench(&b, models[i], "8xh100");
		expect_rule(&b, "tp2/pp1/ep2", "model.layers", NULL);
		close_bench(&b);
	}
}

Test(sglang, refusals_in_its_own_words)
{
	struct bench b;

	open_bench(&b, "qwen3-30b-a3b", "8xh800");
	expect_rule(&b, "tp1/pp1/ep8/a2a:deepep", "sglang.X17",
		"Unquantized DeepEP MoE currently supports low_latency mode only");
	expect_rule(&b, "tp8/pp1/ep4/a2a:deepep", "sglang.X01", NULL);
	expect_rule(&b, "tp8/pp1/ep16", "sglang.X10", "integer division or modulo by zero");
	expect_rule(
		&b, "tp8/pp1/ep8/a2a:nixl/run:triton", "sglang.X15", "Normal mode is not supported for Nixl EP yet.");
	expect_rule(&b, "tp8/pp1/ep1/a2a:flashinfer", "sglang.X01", NULL);
	expect_rule(&b, "tp2/pp1/ep8/run:deep_gemm/a2a:deepep/dm:normal", "sglang.X03", NULL);
	expect_rule(&b, "tp8/pp1/ep1/tbo", "sglang.B01", NULL);
	expect_rule(&b, "tp8/pp1/ep8/a2a:mooncake/run:flashinfer_trtllm", "sglang.M15",
		"Runner backend MoeRunnerBackend.FLASHINFER_TRTLLM requires a fused func for a2a backend mooncake, but "
		"none is "
		"registered.");
	expect_rule(&b, "tp2/pp1/ep2/rep2", "plan.replicas", NULL);
	expect_rule(&b, "tp1/pp3/ep1", "plan.world", NULL);
	close_bench(&b);
}

Test(sglang, serve_ep4_on_eight_gpus_both_ways)
{
	struct bench b;

	open_bench(&b, "qwen3-30b-a3b", "8xh800");
	expect_rule(&b, "tp1/pp1/ep4", "", "");
	expect_rule(&b, "tp4/pp1/ep4/rep2", "", "");
	close_bench(&b);
}

/* ---- golden commands, read by eye --------------------------------------------------------------------------------- */

static void golden(const char *name, const char *model, const char *cluster, const char *plan, double fraction)
{
	struct bench b;
	mf_err err = {0};
	mf_argv a;
	mf_buf got = MF_BUF_INIT, want = MF_BUF_INIT;
	char path[512];

	open_bench(&b, model, cluster);
	mf_plan p = parse(&b, plan);
	cr_assert_eq(mf_argv_init(&a, false, &err), MF_OK);
	mf_emit(b.emitter, &p, fraction, &a.sink);
	cr_expect_eq(a.sink.rule, MF_RULE_NONE, "%s: %s", name, mf_rule_get(a.sink.rule)->id);
	for (size_t i = 0; i < a.n_env; i++)
		mf_buf_printf(&got, "%s\n", a.env[i]);
	for (size_t i = 0; i < a.n; i++) {
		bool value = i > 0 && strncmp(a.args[i], "--", 2) != 0 && strncmp(a.args[i - 1], "-", 1) == 0;

		mf_buf_printf(&got, "%s%s", i == 0 ? "" : value ? " " : "\n", a.args[i]);
	}
	mf_buf_putc(&got, '\n');
	snprintf(path, sizeof path, "%s/golden/sglang/%s.txt", TESTS_DIR, name);
	if (getenv("MOEFS_WRITE_GOLDEN"))
		cr_assert_eq(mf_file_write(path, mf_buf_text(&got), got.len, 0644, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_file_read(&want, path, 1 << 20, &err), MF_OK, "%s: %s", path, err.msg);
	cr_expect_str_eq(mf_buf_text(&got), mf_buf_text(&want), "%s", name);
	mf_buf_dispose(&got);
	mf_buf_dispose(&want);
	mf_argv_dispose(&a);
	close_bench(&b);
}

Test(sglang, golden_commands)
{
	golden("qwen3-30b-dp8-ep4", "qwen3-30b-a3b", "8xh800", "tp1/pp1/ep4", 0.85);
	golden("qwen3-30b-tp4-two-replicas", "qwen3-30b-a3b", "8xh800", "tp4/pp1/ep4/rep2", 0.85);
	golden("qwen3-30b-deepep-low-latency", "qwen3-30b-a3b", "8xh800", "tp1/pp1/ep8/a2a:deepep/run:deep_gemm", 0.8);
	golden("deepseek-v3-deepep-two-nodes", "deepseek-v3", "2x8xh200", "tp1/pp1/ep16/a2a:deepep/r32", 0.8);
	golden("deepseek-v3-tp8", "deepseek-v3", "8xh200", "tp8/pp1/ep8/ck4096", NAN);
	golden("kimi-k2-pp2", "kimi-k2", "2x8xh200", "tp8/pp2/ep8", 0.9);
	golden("gpt-oss-120b-tp4", "gpt-oss-120b", "8xh800", "tp4/pp1/ep1/rep2", 0.85);
	golden("mixtral-8x7b-no-graphs", "mixtral-8x7b", "8xh800", "tp8/pp1/ep2/g:off", 0.85);
	golden("glm-4.5-air-layout", "glm-4.5-air", "8xh800", "tp4/pp2/ep4/lay:23-23", 0.85);
	golden("llama-3.1-8b-tp2", "llama-3.1-8b", "8xh800", "tp2/pp1/ep1/rep4", 0.85);
}

/* ---- commands read back -------------------------------------------------------------------------------------------- */

static void read_back(const char *model, const char *cluster)
{
	struct bench b;
	uint64_t state = 7;
	size_t spoken = 0;
	mf_err err = {0};
	static const char *const degrees[] = {
		"tp1/pp1", "tp2/pp1", "tp4/pp1", "tp8/pp1", "tp2/pp2", "tp1/pp2", "tp4/pp2"};
	static const char *const more[] = {"", "/g:off", "/ck2048", "/tbo", "/r32", "/rep2", "/rep4"};
	static const char *const backends[] = {"", "/a2a:deepep", "/a2a:deepep/run:deep_gemm", "/run:triton",
		"/a2a:mooncake/run:deep_gemm/dm:low_latency", "/a2a:deepep/dm:normal/run:deep_gemm"};

	open_bench(&b, model, cluster);
	for (int i = 0; i < 400; i++) {
		char text[160];
		mf_argv a;
		mf_command c = {0};
		char was[MF_PLAN_TEXT_MAX], is[MF_PLAN_TEXT_MAX];

		snprintf(text, sizeof text, "%s/ep%d%s%s", degrees[mf_random_u64(&state) % MF_COUNT(degrees)],
			1 << mf_random_u64(&state) % 5, backends[mf_random_u64(&state) % MF_COUNT(backends)],
			more[mf_random_u64(&state) % MF_COUNT(more)]);
		mf_plan p = parse(&b, text);
		cr_assert_eq(mf_argv_init(&a, false, &err), MF_OK);
		mf_emit(b.emitter, &p, 0.85, &a.sink);
		if (a.sink.rule == MF_RULE_NONE) {
			spoken++;
			cr_assert_eq(mf_command_read(&c, (const char *const *)a.args, a.n, (const char *const *)a.env,
					     a.n_env, b.in.intern, &err),
				MF_OK, "%s: %s", text, err.msg);
			mf_plan_format(&p, b.in.intern, was);
			mf_plan_format(&c.plan, b.in.intern, is);
			cr_expect_str_eq(is, was);
			cr_expect_eq(c.n_unread, 0, "%s: %s", text, c.n_unread ? c.unread[0] : "");
			cr_expect_eq(c.workload.concurrency, b.workload.concurrency, "%s", text);
			mf_command_dispose(&c);
		}
		mf_argv_dispose(&a);
	}
	cr_expect_gt(spoken, 5, "%s", model);
	close_bench(&b);
}

Test(sglang, a_command_reads_back_as_its_plan)
{
	read_back("qwen3-30b-a3b", "8xh800");
	read_back("deepseek-v3", "8xh200");
	read_back("deepseek-v3", "2x8xh200");
	read_back("mixtral-8x7b", "8xh800");
}

Test(sglang, aliases_and_unknown_flags)
{
	static const char *const argv[] = {"sglang", "serve", "--model=/m", "--tp=8", "--dp", "8", "--ep", "8",
		"--enable-dp-attention", "--moe-a2a-backend=deepep", "--watchdog-timeout", "600"};
	mf_command c = {0};
	mf_err err = {0};
	mf_intern *in = mf_intern_new();
	char text[MF_PLAN_TEXT_MAX];

	cr_assert_eq(mf_command_read(&c, argv, MF_COUNT(argv), NULL, 0, in, &err), MF_OK, "%s", err.msg);
	mf_plan_format(&c.plan, in, text);
	cr_expect_str_eq(text, "tp1/pp1/ep8/a2a:deepep");
	cr_expect_eq(c.world, 8);
	cr_expect_str_eq(c.site.model_path, "/m");
	cr_assert_gt(c.n_unread, 0);
	cr_expect_str_eq(c.unread[0], "--watchdog-timeout");
	mf_command_dispose(&c);
	mf_intern_free(in);
}

/* What asking the real package brought to light; every row stood in it as a refusal or a pass. */
Test(sglang, refusals_that_the_oracle_found)
{
	static const struct {
		const char *model, *cluster, *plan, *rule;
	} rows[] = {
		{"mixtral-8x7b", "8xh800", "tp1/pp1/ep1", "sglang.D13"},
		{"gpt-oss-120b", "8xa100", "tp1/pp2/ep1", "sglang.K16"},
		{"deepseek-v2-lite", "8xa100", "tp1/pp4/ep1", "sglang.K16"},
		{"deepseek-v2-lite", "8xh800", "tp1/pp4/ep1", ""},
		{"gpt-oss-120b", "8xa100", "tp8/pp1/ep1/run:flashinfer_mxfp4", "sglang.M22"},
		{"gpt-oss-120b", "8xa100", "tp8/pp1/ep1/run:marlin", "sglang.M23"},
		{"gpt-oss-120b", "8xh800", "tp1/pp1/ep8/run:deep_gemm", "sglang.M15"},
		{"deepseek-v3", "8xa100", "tp8/pp1/ep1/run:cutlass", "sglang.M21"},
		{"qwen3-30b-a3b", "8xa100", "tp8/pp1/ep1/run:deep_gemm", "sglang.M20"},
		{"qwen3-30b-a3b", "8xa100", "tp1/pp1/ep8/a2a:deepep/run:deep_gemm", "sglang.X16"},
		{"deepseek-v3", "8xa100", "tp1/pp1/ep8/a2a:deepep/run:triton_kernel/dm:normal/g:off", "sglang.X18"},
		{"small-moe-bench", "2x8xh100", "tp1/pp16/ep1", "sglang.W28"},
		{"llama4-scout", "8xh800", "tp1/pp1/ep8/a2a:flashinfer/run:flashinfer_cutlass", "sglang.X26"},
		{"deepseek-v2-lite", "8xh800", "tp1/cp2/pp1/ep1", "sglang.C23"},
		{"deepseek-v2-lite", "8xh800", "tp1/cp8/pp1/ep1", "sglang.C22"},
		{"kimi-k2", "2x8xb200", "tp1/cp4/pp1/ep4/rep4/a2a:deepep/run:deep_gemm/dm:low_latency", "sglang.C16"},
		{"qwen3-30b-a3b", "8xh800", "tp1/pp2/ep1/lay:24-25", "sglang.W22"},
		{"qwen3-30b-a3b", "8xh800", "tp1/pp2/ep1/lay:23-25", ""},
		{"glm-4.5-air", "3x4xh20", "tp1/pp1/ep12/a2a:deepep/r4", "sglang.W01"},
		{"llama-3.1-8b", "3x4xh20", "tp1/pp1/ep1", "sglang.W16"},
	};

	for (size_t i = 0; i < MF_COUNT(rows); i++) {
		static struct bench b;

		open_bench(&b, rows[i].model, rows[i].cluster);
		expect_rule(&b, rows[i].plan, rows[i].rule, NULL);
		close_bench(&b);
	}
}
