/* Commands as users have them: wrappers, variables, layouts in Megatron's short hand, and what is said of the rest. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emit.h"

static mf_intern *intern;

static void set_up(void)
{
	intern = mf_intern_new();
}

static void tear_down(void)
{
	mf_intern_free(intern);
}

TestSuite(command_read, .init = set_up, .fini = tear_down);

static mf_status read_text(const char *text, mf_command *c, mf_err *err)
{
	char path[64] = "/tmp/moefs-test-XXXXXX";
	int fd = mkstemp(path);
	mf_status st;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	st = mf_command_read_file(c, path, intern, err);
	unlink(path);
	return st;
}

#define SHAPE                                                                                                          \
	" --num-layers 61 --hidden-size 7168 --num-attention-heads 128 --seq-length 4096 --max-position-embeddings "   \
	"4096 "                                                                                                        \
	"--micro-batch-size 1 --global-batch-size 512 --num-experts 256 --moe-ffn-hidden-size 2048 --vocab-size "      \
	"129280 "                                                                                                      \
	"--moe-token-dispatcher-type alltoall --use-distributed-optimizer "
#define DEGREES " --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 "
#define UNREAD_MAX 4

static const struct {
	const char *text, *plan;
	uint32_t world;
	const char *unread[UNREAD_MAX];
} forms[] = {
	/* programs */
	{"torchrun --nproc_per_node=8 --nnodes=4 pretrain_gpt.py" DEGREES SHAPE, "tp1/pp4/ep8/1f1b", 32, {0}},
	{"python -u -m torch.distributed.run --nproc-per-node 8 --nnodes 4 /opt/m/pretrain_gpt.py" DEGREES SHAPE,
		"tp1/pp4/ep8/1f1b", 32, {0}},
	{"/usr/bin/python3.11 -m torch.distributed.launch --nproc_per_node 8 pretrain_gpt.py" DEGREES SHAPE,
		"tp1/pp4/ep8/1f1b", 8, {0}},
	{"python3 pretrain_gpt.py" DEGREES SHAPE, "tp1/pp4/ep8/1f1b", 0, {0}},
	{"python -m sglang.launch_server --model-path m --tp 8 --ep 8", "tp8/pp1/ep8", 8, {0}},
	{"sglang serve --model-path m --tp-size=8 --dp-size=8 --enable-dp-attention", "tp1/pp1/ep1", 8, {0}},
	/* wrappers, and the environment wherever it stands */
	{"FOO=1 BAR='a b' exec torchrun --nproc-per-node 8 pretrain_gpt.py" DEGREES SHAPE, "tp1/pp4/ep8/1f1b", 8,
		{"FOO=1", "BAR=a b"}},
	{"srun -N 4 --ntasks-per-node=1 --container-image=x.sqsh torchrun --nnodes 4 --nproc-per-node 8 "
	 "pretrain_gpt.py" DEGREES SHAPE,
		"tp1/pp4/ep8/1f1b", 32, {0}},
	{"docker run --gpus all -it --rm -v /d:/d -e SGLANG_PP_LAYER_PARTITION=10,20,31 -e X=1 lmsysorg/sglang:latest "
	 "python3 -m sglang.launch_server --model m --tp-size 4 --pp-size 3",
		"tp4/pp3/ep1/lay:10-20-31", 12, {"X=1"}},
	{"docker run --env=SGLANG_PP_LAYER_PARTITION=30,31 image bash -lc 'cd /sgl && exec python3 -m "
	 "sglang.launch_server "
	 "--model m --tp-size 4 --pp-size 2 2>&1 | tee log'",
		"tp4/pp2/ep1/lay:30-31", 8, {0}},
	{"export SGLANG_PP_LAYER_PARTITION=30,31\npython -m sglang.launch_server --model m --tp-size 4 --pp-size 2",
		"tp4/pp2/ep1/lay:30-31", 8, {0}},
	{"{\"argv\":[\"sglang\",\"serve\",\"--tp-size\",\"4\",\"--pp-size\",\"2\"],"
	 "\"env\":{\"SGLANG_PP_LAYER_PARTITION\":\"30,30\"}}",
		"tp4/pp2/ep1/lay:30x2", 8, {0}},
	{"SGLANG_PP_LAYER_PARTITION=many sglang serve --tp-size 4 --pp-size 2", "tp4/pp2/ep1", 8,
		{"SGLANG_PP_LAYER_PARTITION=many"}},
	{"mylauncher --fast torchrun --nproc-per-node 8 pretrain_gpt.py" DEGREES SHAPE, "tp1/pp4/ep8/1f1b", 8,
		{"mylauncher", "--fast"}},
	{"nsys profile -o out torchrun --nproc-per-node 8 pretrain_gpt.py" DEGREES SHAPE, "tp1/pp4/ep8/1f1b", 8, {0}},
	/* scripts */
	{"#!/bin/bash\n#SBATCH --nodes=4\nset -e\nexport A=1\nmkdir -p logs; cd $HOME\nTP=2\n"
	 "ARGS=(\n  --tensor-model-parallel-size $TP # two\n  --pipeline-model-parallel-size ${PP:-4}\n)\n"
	 "ARGS+=(--sequence-parallel)\nMOE=\"--expert-model-parallel-size 8\"\nMOE+=\" --moe-permute-fusion\"\n"
	 "if true; then\n  srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 pretrain_gpt.py \\\n"
	 "    \"${ARGS[@]}\" $MOE" SHAPE "> log 2>&1 &\nfi\nwait\necho done\n",
		"tp2/pp4/ep8/1f1b", 32, {"A=1"}},
	{"torchrun --nnodes $NODES --nproc-per-node gpu pretrain_gpt.py" DEGREES SHAPE, "tp1/pp4/ep8/1f1b", 0,
		{"--nnodes", "$NODES", "--nproc-per-node", "gpu"}},
	/* layouts */
	{"torchrun --nproc-per-node 8 pretrain_gpt.py" SHAPE
	 "--pipeline-model-parallel-size 16 --pipeline-model-parallel-layout 'Et*3|(tt|)*29,m|L' --mtp-num-layers 1",
		"tp1/pp16/v2/ep1/interleaved/lay:3-2x29-0x2", 8, {0}},
	{"torchrun --nproc-per-node 8 pretrain_gpt.py" SHAPE
	 "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'E,t*15|(t*15|)*2,t*16,L'",
		"tp1/pp4/ep1/1f1b/lay:15x3-16", 8, {0}},
	{"torchrun --nproc-per-node 8 pretrain_gpt.py" SHAPE
	 "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Etx|tL'",
		"tp1/pp2/ep1/1f1b", 8, {"--pipeline-model-parallel-layout", "Etx|tL"}},
	{"torchrun --nproc-per-node 8 pretrain_gpt.py" SHAPE
	 "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '(t*99999)*99999|tL'",
		"tp1/pp2/ep1/1f1b", 8, {"--pipeline-model-parallel-layout", "(t*99999)*99999|tL"}},
};

Test(command_read, every_form_gives_its_plan)
{
	for (size_t i = 0; i < MF_COUNT(forms); i++) {
		char plan[MF_PLAN_TEXT_MAX];
		mf_command c;
		mf_err err = {0};
		size_t n = 0;

		cr_assert_eq(
			read_text(forms[i].text, &c, &err), MF_OK, "%.90s: %s: %s", forms[i].text, err.field, err.msg);
		mf_plan_format(&c.plan, intern, plan);
		cr_expect_str_eq(plan, forms[i].plan, "%s\n  of %.120s", plan, forms[i].text);
		cr_expect_eq(c.world, forms[i].world, "world %u of %.120s", c.world, forms[i].text);
		while (n < UNREAD_MAX && forms[i].unread[n])
			n++;
		cr_expect_eq(c.n_unread, n, "%zu unread of %.120s, first %s", c.n_unread, forms[i].text,
			c.n_unread ? c.unread[0] : "");
		for (size_t k = 0; k < n && k < c.n_unread; k++)
			cr_expect_str_eq(c.unread[k], forms[i].unread[k]);
		mf_command_dispose(&c);
	}
}

Test(command_read, what_is_no_command_of_ours_says_so)
{
	static const struct {
		const char *text, *message;
	} bad[] = {
		{"vllm serve m --tensor-parallel-size 8", "a vLLM command"},
		{"python -m vllm.entrypoints.openai.api_server --model m", "a vLLM command"},
		{"ls -l", "not a launch command"},
		{"FOO=1\n", "holds no command"},
		{"torchrun 'pretrain_gpt.py", "never closed"},
		{"A=xxxxxxxxxxxxxxxx\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$"
		 "A\n"
		 "A=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\nA=$A$A$A$A\ntorchrun x.py $A\n",
			"expand to more than"},
		{"torchrun --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size $TP" SHAPE,
			"expected a whole number, found \"$TP\""},
	};

	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		mf_command c;
		mf_err err = {0};

		cr_expect_eq(read_text(bad[i].text, &c, &err), MF_EINPUT, "%.60s", bad[i].text);
		cr_expect_not_null(strstr(err.msg, bad[i].message), "%.60s: %s", bad[i].text, err.msg);
	}
}

Test(command_read, part_of_a_command_needs_no_model)
{
	mf_command c;
	mf_err err = {0};
	char plan[MF_PLAN_TEXT_MAX];

	cr_assert_eq(read_text("torchrun --nproc-per-node 8 pretrain_gpt.py --expert-model-parallel-size 8 "
			       "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep "
			       "--overlap-moe-expert-parallel-comm --use-distributed-optimizer",
			     &c, &err),
		MF_OK, "%s: %s", err.field, err.msg);
	mf_plan_format(&c.plan, intern, plan);
	cr_expect_str_eq(plan, "tp1/pp1/ep8/1f1b+ov/disp:hybridep");
	cr_expect(!c.has_model);
	cr_assert_eq(c.n_unread, 1);
	cr_expect_str_eq(c.unread[0], "--micro-batch-size is not given: 1 is taken");
	mf_command_dispose(&c);
}

Test(command_read, a_layout_has_one_text)
{
	static const char *const same[] = {"lay:14-14-15", "lay:14x2-15", "lay:14x1-14x1-15"};
	char text[MF_PLAN_TEXT_MAX];
	mf_err err = {0};
	mf_plan first, p;

	cr_assert_eq(mf_plan_parse(&first, "tp1/pp3/ep1/lay:14x2-15", MF_SERVE, intern, &err), MF_OK);
	for (size_t i = 0; i < MF_COUNT(same); i++) {
		snprintf(text, sizeof text, "tp1/pp3/ep1/%s", same[i]);
		cr_assert_eq(mf_plan_parse(&p, text, MF_SERVE, intern, &err), MF_OK, "%s", err.msg);
		cr_expect(memcmp(&p, &first, sizeof p) == 0, "%s", same[i]);
	}
}
