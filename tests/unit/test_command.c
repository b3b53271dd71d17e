/* Commands as files: every format, hashes, and the reading of files that users have. */
#include "emit.h"

#include "inputs_fixture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mf_model model;
static mf_cluster cluster;
static mf_workload workload;
static mf_stack stack;
static mf_site site;
static mf_inputs in;
static mf_plan plan;
static mf_argv argv_;

static void set_up(void)
{
	mf_err err = {0};
	mf_emitter *e;

	load_inputs(
		&in, &model, &cluster, &workload, &stack, &site, "deepseek-v2-lite", "8xh800", NULL, NULL, MF_TRAIN);
	cr_assert_eq(mf_plan_parse(&plan, "tp1/pp1/ep8/1f1b+ov", MF_TRAIN, in.intern, &err), MF_OK);
	cr_assert_eq(mf_emitter_new(&e, &in, &err), MF_OK);
	cr_assert_eq(mf_argv_init(&argv_, false, &err), MF_OK);
	mf_emit(e, &plan, NAN, &argv_.sink);
	mf_emitter_free(e);
}

static void tear_down(void)
{
	mf_argv_dispose(&argv_);
	mf_intern_free(in.intern);
}

TestSuite(command, .init = set_up, .fini = tear_down);

static void read_back(const void *data, size_t len, const char *suffix, mf_command *c)
{
	char path[64] = "/tmp/moefs-test-XXXXXX";
	mf_err err = {0};
	int fd = mkstemp(path);

	(void)suffix;
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
	mf_status st = mf_command_read_file(c, path, in.intern, &err);
	unlink(path);
	cr_assert_eq(st, MF_OK, "%s: %s", suffix, err.msg);
}

Test(command, every_format_reads_back_as_the_plan)
{
	for (const mf_choice *f = mf_command_format_choices; f->name; f++) {
		mf_buf out = MF_BUF_INIT;
		mf_err err = {0};
		mf_command c;

		cr_assert_eq(mf_command_write(&argv_, &in, &plan, (mf_command_format)f->value, &out, &err), MF_OK, "%s",
			err.msg);
		read_back(out.data, out.len, f->name, &c);
		cr_expect(memcmp(&c.plan, &plan, sizeof(plan)) == 0, "%s", f->name);
		cr_expect_eq(c.n_unread, 0, "%s: %s", f->name, c.n_unread ? c.unread[0] : "");
		cr_expect_eq(c.world, 8);
		mf_command_dispose(&c);
		mf_buf_dispose(&out);
	}
}

Test(command, a_batch_script_of_several_nodes_meets_on_the_first)
{
	mf_buf out = MF_BUF_INIT;
	mf_err err = {0};
	mf_emitter *e;
	mf_command c;
	mf_argv a;

	cr_assert_eq(mf_cluster_load(&cluster, "4x8xh800", &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_emitter_new(&e, &in, &err), MF_OK);
	cr_assert_eq(mf_argv_init(&a, false, &err), MF_OK);
	mf_emit(e, &plan, NAN, &a.sink);
	cr_assert_eq(mf_command_write(&a, &in, &plan, MF_CMD_SBATCH, &out, &err), MF_OK, "%s", err.msg);
	cr_expect_not_null(strstr(mf_buf_text(&out), "#SBATCH --nodes=4\n"));
	cr_expect_not_null(strstr(mf_buf_text(&out), "--rdzv-endpoint \"$head_node:29500\""), "%s", mf_buf_text(&out));
	read_back(out.data, out.len, "sbatch", &c);
	cr_expect(memcmp(&c.plan, &plan, sizeof(plan)) == 0);
	cr_expect_eq(c.world, 32);
	cr_expect_eq(c.n_unread, 0, "%s", c.n_unread ? c.unread[0] : "");
	mf_command_dispose(&c);
	mf_buf_dispose(&out);
	mf_argv_dispose(&a);
	mf_emitter_free(e);
}

Test(command, json_carries_the_hash_and_parses)
{
	mf_buf out = MF_BUF_INIT;
	mf_err err = {0};
	mf_doc doc;
	char hex[65];

	cr_assert_eq(mf_command_write(&argv_, &in, &plan, MF_CMD_JSON, &out, &err), MF_OK);
	cr_assert_eq(mf_doc_parse_json(&doc, "command", out.data, out.len, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_argv_sha256(&argv_, hex), MF_OK);
	cr_expect_str_eq(mf_node_get(doc.root, "argv_sha256")->text, hex);
	const mf_node *provenance = mf_node_get(doc.root, "provenance");
	cr_assert_not_null(provenance);
	cr_expect_str_eq(mf_node_get(provenance, "plan")->text, "tp1/pp1/ep8/1f1b+ov");
	cr_expect_str_eq(mf_node_get(provenance, "verdict")->text, "buildable");
	cr_assert_eq(mf_plan_sha256(&plan, &in, hex), MF_OK);
	cr_expect_str_eq(mf_node_get(provenance, "plan_sha256")->text, hex);
	mf_doc_dispose(&doc);
	mf_buf_dispose(&out);
}

Test(command, the_site_changes_no_hash)
{
	char before[65], after[65], plan_before[65], plan_after[65];
	mf_emitter *e;
	mf_err err;
	mf_argv a;

	cr_assert_eq(mf_argv_sha256(&argv_, before), MF_OK);
	cr_assert_eq(mf_plan_sha256(&plan, &in, plan_before), MF_OK);
	snprintf(site.pretrain_script, sizeof(site.pretrain_script), "/opt/megatron/pretrain_gpt.py");
	snprintf(site.data_path, sizeof(site.data_path), "/data/c4");
	snprintf(site.tokenizer_path, sizeof(site.tokenizer_path), "/data/tokenizer");
	site.train_iters = 77;
	cr_assert_eq(mf_emitter_new(&e, &in, &err), MF_OK);
	cr_assert_eq(mf_argv_init(&a, false, &err), MF_OK);
	mf_emit(e, &plan, NAN, &a.sink);
	cr_assert_eq(mf_argv_sha256(&a, after), MF_OK);
	cr_assert_eq(mf_plan_sha256(&plan, &in, plan_after), MF_OK);
	cr_expect_str_eq(after, before);
	cr_expect_str_eq(plan_after, plan_before);
	stack.grad_reduce_bf16 = !stack.grad_reduce_bf16;
	cr_assert_eq(mf_plan_sha256(&plan, &in, plan_after), MF_OK);
	cr_expect_str_neq(plan_after, plan_before);
	mf_argv_dispose(&a);
	mf_emitter_free(e);
}

Test(command, every_input_that_changes_a_price_or_a_verdict_is_in_the_plan_hash)
{
#define FIELD(of, field)                                                                                               \
	{                                                                                                              \
#of "." #field, &of.field, sizeof of.field                                                             \
	}
	const struct {
		const char *name;
		void *at;
		size_t size;
	} fields[] = {
		FIELD(model, learned_positions),
		FIELD(model, attention_chunk),
		FIELD(model, chunk_layers),
		FIELD(model, other_parts),
		FIELD(model, moe_latent),
		FIELD(cluster, family),
		FIELD(cluster, grace),
		FIELD(workload, requests),
		FIELD(workload, length_spread),
		FIELD(workload, draft_tokens),
		FIELD(workload, accepted_tokens),
		FIELD(workload, max_violation),
		FIELD(stack, hidden_dropout),
		FIELD(stack, vocab_multiple),
		FIELD(stack, optimizer_instances),
		FIELD(stack, offload_activations),
		FIELD(stack, separate_wgrad),
		FIELD(stack, sequential_experts),
		FIELD(stack, optimizer),
		FIELD(stack, fp8_params),
		FIELD(stack, mtp_repeated),
		FIELD(stack, engine),
	};
#undef FIELD
	char before[65], after[65];

	cr_assert_eq(mf_plan_sha256(&plan, &in, before), MF_OK);
	for (size_t i = 0; i < MF_COUNT(fields); i++) {
		unsigned char *byte = fields[i].at;

		*byte ^= 1;
		cr_assert_eq(mf_plan_sha256(&plan, &in, after), MF_OK);
		cr_expect(strcmp(before, after) != 0, "%s", fields[i].name);
		*byte ^= 1;
	}
}

Test(command, a_users_shell_line_is_read)
{
	static const char text[] = "#!/bin/bash\n# our usual run\nset -e\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n\n"
				   "OMP_NUM_THREADS=4 torchrun --nproc_per_node=8 pretrain_gpt.py \\\n"
				   "  --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
				   "--max-position-embeddings 2048 \\\n"
				   "  --micro-batch-size 1 --global-batch-size 64 --num-experts 16 "
				   "--moe-ffn-hidden-size 512 --vocab-size 32000 \\\n"
				   "  --moe-layer-freq \"([0]*1+[1]*7)\" --moe-token-dispatcher-type alltoall "
				   "--expert-model-parallel-size 4 \\\n"
				   "  --use-distributed-optimizer --wandb-project 'my run' --swiglu\n";
	mf_command c;
	char plan_text[MF_PLAN_TEXT_MAX];

	read_back(text, sizeof(text) - 1, "shell", &c);
	mf_plan_format(&c.plan, in.intern, plan_text);
	cr_expect_str_eq(plan_text, "tp1/pp1/ep4/1f1b");
	cr_expect_eq(c.model.moe_layers, 7);
	cr_expect_eq(c.model.moe_layer[0], 0);
	cr_expect_eq(c.workload.global_batch, 64);
	cr_assert_eq(c.n_unread, 3);
	cr_expect_str_eq(c.unread[0], "OMP_NUM_THREADS=4");
	cr_expect_str_eq(c.unread[1], "--wandb-project");
	cr_expect_str_eq(c.unread[2], "my run");
	mf_command_dispose(&c);
}

Test(command, bad_commands_name_the_flag)
{
	static const struct {
		const char *args[6];
		const char *field;
	} bad[] = {
		{{"torchrun", "pretrain_gpt.py", "--num-layers", "x"}, "--num-layers"},
		{{"torchrun", "pretrain_gpt.py", "--num-layers", "8"}, "--hidden-size"},
		{{"torchrun", "pretrain_gpt.py", "--num-layers"}, "--num-layers"},
		{{"torchrun", "pretrain_gpt.py", "--tensor-model-parallel-size", "-2"}, "--tensor-model-parallel-size"},
	};

	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		mf_command c;
		mf_err err = {0};
		size_t n = 0;

		while (bad[i].args[n])
			n++;
		cr_expect_eq(mf_command_read(&c, bad[i].args, n, NULL, 0, in.intern, &err), MF_EINPUT);
		cr_expect_str_eq(err.field, bad[i].field);
	}
}

Test(command, the_suffix_tells_the_format)
{
	mf_command_format f;
	mf_err err;

	cr_assert_eq(mf_command_format_of_path("a/run.sbatch", &f, &err), MF_OK);
	cr_expect_eq(f, MF_CMD_SBATCH);
	cr_assert_eq(mf_command_format_of_path("run.args0", &f, &err), MF_OK);
	cr_expect_eq(f, MF_CMD_NUL);
	cr_expect_eq(mf_command_format_of_path("run.txt", &f, &err), MF_EINPUT);
}
