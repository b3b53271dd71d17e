/*
 * Every command that emit writes reads back as the plan it was written for: plans drawn from the wide space, both
 * phases, every format of a command file; same plan, same verdict, same hash.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search.h"

typedef struct side {
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_site site;
	mf_consts consts;
	mf_inputs in;
	mf_emitter *emitter;
	mf_cost *cost;
	mf_realizer realizer;
} side;

static side given, back;

static void open_side(side *s)
{
	mf_cost_opts opts = MF_COST_OPTS_INIT;
	mf_err err = {0};
	mf_intern *intern = s->in.intern;

	mf_consts_factory(&s->consts, &s->cluster);
	s->in = (mf_inputs){&s->model, &s->cluster, &s->workload, &s->stack, &s->site, intern};
	cr_assert_eq(mf_emitter_new(&s->emitter, &s->in, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_cost_new(&s->cost, &s->in, &s->consts, &opts, &err), MF_OK, "%s", err.msg);
	s->realizer = (mf_realizer){s->emitter, s->cost, false};
}

static void close_side(side *s)
{
	mf_cost_free(s->cost);
	mf_emitter_free(s->emitter);
	s->cost = NULL;
	s->emitter = NULL;
}

static void write_plan(side *s, const mf_plan *p, mf_argv *out)
{
	mf_err err = {0};

	cr_assert_eq(mf_argv_init(out, true, &err), MF_OK, "%s", err.msg);
	mf_emit(s->emitter, p, s->workload.phase == MF_SERVE ? mf_cost_mem_fraction(s->cost, p) : NAN, &out->sink);
}

static void read_back(const mf_buf *file, mf_command *c, const char *what)
{
	char path[64] = "/tmp/moefs-test-XXXXXX";
	mf_err err = {0};
	int fd = mkstemp(path);
	mf_status st;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, file->data, file->len), (ssize_t)file->len);
	close(fd);
	st = mf_command_read_file(c, path, given.in.intern, &err);
	unlink(path);
	cr_assert_eq(st, MF_OK, "%s: %s: %s", what, err.field, err.msg);
}

static void no_difference(void *payload, const char *text)
{
	cr_expect(false, "%s: %s", (const char *)payload, text);
}

/* What the command says of model, workload and stack stands in for the inputs it was written from. */
static void judge_back(mf_command *c, const mf_plan *p, const mf_argv *first, const char *what)
{
	char want[65], got[65];
	mf_verdict a, b;
	mf_argv again;

	mf_command_toolchain(c, given.stack.toolchain);
	back.model = c->has_model ? c->model : given.model;
	back.cluster = given.cluster;
	back.workload = c->workload;
	back.stack = c->stack;
	/* No flag of a serving command says what is installed, or where; the cost model's own choices neither. */
	if (c->phase == MF_SERVE) {
		back.stack.deepep = given.stack.deepep;
		back.stack.deep_gemm = given.stack.deep_gemm;
	}
	back.stack.deepep |= given.stack.deepep;
	back.stack.hybridep |= given.stack.hybridep;
	back.site = given.site;
	back.in.intern = given.in.intern;
	open_side(&back);
	write_plan(&back, &c->plan, &again);
	cr_assert_eq(mf_argv_sha256(first, want), MF_OK);
	cr_assert_eq(mf_argv_sha256(&again, got), MF_OK);
	cr_expect_str_eq(got, want, "%s: another command", what);
	if (strcmp(got, want) != 0)
		for (size_t i = 0; i < first->n || i < again.n; i++)
			if (i >= first->n || i >= again.n || strcmp(first->args[i], again.args[i]) != 0) {
				cr_log_error("%s: %s, was %s", what, i < again.n ? again.args[i] : "(end)",
					i < first->n ? first->args[i] : "(end)");
				break;
			}
	mf_command_differences(c, &again, no_difference, (void *)(size_t)what);
	mf_realize(&given.realizer, p, &a);
	mf_realize(&back.realizer, &c->plan, &b);
	cr_expect_str_eq(mf_rule_get(b.rule)->id, mf_rule_get(a.rule)->id, "%s: another verdict", what);
	mf_argv_dispose(&again);
	close_side(&back);
}

static size_t both_ways(
	const char *model, const char *cluster, mf_phase phase, const char *stack, size_t n, uint64_t seed)
{
	mf_search_opts opts = MF_SEARCH_OPTS_INIT;
	mf_err err = {0};
	mf_search *drawn;
	size_t written = 0;

	memset(&given, 0, sizeof given);
	cr_assert_eq(mf_model_load(&given.model, model, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_cluster_load(&given.cluster, cluster, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_workload_load(&given.workload, NULL, phase, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_stack_load(&given.stack, stack, phase, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_site_load(&given.site, NULL, &err), MF_OK, "%s", err.msg);
	given.in.intern = mf_intern_new();
	open_side(&given);
	opts.space = MF_SPACE_WIDE;
	opts.constraint = true;
	cr_assert_eq(mf_search_sample(&drawn, &given.in, &given.consts, &opts, n, seed, &err), MF_OK, "%s", err.msg);
	for (size_t i = 0; i < drawn->n_rows; i++) {
		const mf_plan *p = &drawn->rows[i].plan;
		char text[MF_PLAN_TEXT_MAX], read[MF_PLAN_TEXT_MAX], what[MF_PLAN_TEXT_MAX + 80];
		mf_argv a;

		write_plan(&given, p, &a);
		if (a.n == 0) {
			mf_argv_dispose(&a);
			continue;
		}
		written++;
		mf_plan_format(p, given.in.intern, text);
		for (const mf_choice *f = mf_command_format_choices; f->name; f++) {
			mf_buf file = MF_BUF_INIT;
			mf_command c;

			snprintf(what, sizeof what, "%s on %s, %s, %s", model, cluster, text, f->name);
			cr_assert_eq(mf_command_write(&a, &given.in, p, (mf_command_format)f->value, &file, &err),
				MF_OK, "%s", err.msg);
			read_back(&file, &c, what);
			/* A list of arguments has no place for the environment that a serving layout travels in. */
			bool lost = f->value == MF_CMD_NUL && phase == MF_SERVE && p->stage_layout;
			if (lost)
				c.plan.stage_layout = p->stage_layout;
			mf_plan_format(&c.plan, given.in.intern, read);
			cr_expect_str_eq(read, text, "%s", what);
			cr_expect_eq(c.n_unread, 0, "%s: %s", what, c.n_unread ? c.unread[0] : "");
			if (phase == MF_TRAIN)
				cr_expect_eq(c.world, mf_cluster_world(&given.cluster), "%s", what);
			if (f->value == MF_CMD_JSON)
				judge_back(&c, p, &a, what);
			mf_command_dispose(&c);
			mf_buf_dispose(&file);
		}
		mf_argv_dispose(&a);
	}
	mf_search_free(drawn);
	close_side(&given);
	mf_intern_free(given.in.intern);
	return written;
}

#define TRAINED(name, model, cluster, stack)                                                                           \
	Test(readback, name)                                                                                           \
	{                                                                                                              \
		size_t n = both_ways(model, cluster, MF_TRAIN, stack, 150, 7);                                         \
		cr_expect_gt(n, 40, "only %zu plans have a command", n);                                               \
	}
#define SERVED(name, model, cluster, stack)                                                                            \
	Test(readback, name)                                                                                           \
	{                                                                                                              \
		size_t n = both_ways(model, cluster, MF_SERVE, stack, 150, 7);                                         \
		cr_expect_gt(n, 40, "only %zu plans have a command", n);                                               \
	}

TRAINED(trains_deepseek_v2_lite, "deepseek-v2-lite", "8xh800", NULL)
TRAINED(trains_deepseek_v3, "deepseek-v3", "256x8xh800", "megatron-0.18.0-deepep")
TRAINED(trains_qwen3_30b_tuned, "qwen3-30b-a3b", "2x8xh100", "megatron-0.18.0-tuned")
TRAINED(trains_qwen3_235b_unfused, "qwen3-235b-a22b", "8x8xb200", "megatron-0.18.0-unfused")
TRAINED(trains_mixtral_0171, "mixtral-8x7b", "8xh100", "megatron-0.17.1")
TRAINED(trains_glm_0190, "glm-4.5-air", "4x8xh200", "megatron-0.19.0")
TRAINED(trains_gpt_oss_0182, "gpt-oss-120b", "2x8xh100", "megatron-0.18.2")
TRAINED(trains_olmoe, "olmoe", "2xrtx4090", NULL)
TRAINED(trains_a_dense_model, "llama-3.1-8b", "8xh100", NULL)
SERVED(serves_deepseek_v3, "deepseek-v3", "2x8xh200", NULL)
SERVED(serves_qwen3_235b, "qwen3-235b-a22b", "8xh100", NULL)
SERVED(serves_mixtral_0514, "mixtral-8x7b", "8xh800", "sglang-0.5.14")
SERVED(serves_kimi_0516, "kimi-k2", "4x8xh800", "sglang-0.5.16")
SERVED(serves_gpt_oss, "gpt-oss-120b", "8xb200", NULL)
SERVED(serves_glm, "glm-4.5-air", "8xl40s", NULL)
