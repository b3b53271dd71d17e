/* Clusters, workloads, stacks and sites: built-in ones, sizes by name, files of the user, refusals. */
#include "plan.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void setup(void)
{
	snprintf(folder, sizeof(folder), P_tmpdir "/moefs-inputs-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("XDG_CONFIG_HOME", folder, 1);
}

static void teardown(void)
{
	static const char *const files[] = {"moefs/clusters/8xh800.yaml", "moefs/clusters", "moefs", "x.yaml"};
	char path[256];

	for (size_t i = 0; i < MF_COUNT(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		remove(path);
	}
	rmdir(folder);
}
TestSuite(inputs, .init = setup, .fini = teardown);

static const char *file(const char *text)
{
	static char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/x.yaml", folder);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
	return path;
}

static mf_cluster cluster(const char *name)
{
	mf_cluster c;
	mf_err err = {0};

	cr_assert_eq(mf_cluster_load(&c, name, &err), MF_OK, "%s: %s", name, err.msg);
	return c;
}

Test(inputs, every_built_in_file_loads)
{
	mf_workload w;
	mf_stack s;
	mf_err err = {0};

	for (const char *const *n = mf_builtin_names("clusters"); *n; n++)
		cr_expect_str_eq(cluster(*n).name, *n);
	for (const char *const *n = mf_builtin_names("workloads"); *n; n++) {
		mf_status train = mf_workload_load(&w, *n, MF_TRAIN, &err);

		cr_expect_eq(train == MF_OK ? MF_OK : mf_workload_load(&w, *n, MF_SERVE, &err), MF_OK, "%s: %s", *n,
			err.msg);
		cr_expect_str_eq(w.name, *n);
	}
	for (const char *const *n = mf_builtin_names("stacks"); *n; n++) {
		mf_status train = mf_stack_load(&s, *n, MF_TRAIN, &err);

		cr_expect_eq(
			train == MF_OK ? MF_OK : mf_stack_load(&s, *n, MF_SERVE, &err), MF_OK, "%s: %s", *n, err.msg);
		cr_expect_str_eq(s.name, *n);
	}
	cr_expect_null(*mf_builtin_names("nothing"));
}

Test(inputs, every_toolchain_has_a_stack_of_its_name)
{
	mf_stack s;
	mf_err err = {0};

	for (const mf_choice *c = mf_toolchain_choices; c->name; c++) {
		mf_phase phase = mf_toolchain_is_megatron((mf_toolchain)c->value) ? MF_TRAIN : MF_SERVE;

		cr_expect_eq(mf_stack_load(&s, c->name, phase, &err), MF_OK, "%s", err.msg);
		cr_expect_eq((int)s.toolchain, c->value);
	}
}

Test(inputs, clusters_carry_datasheet_numbers)
{
	mf_cluster h800 = cluster("8xh800"), a100 = cluster("8xa100"), rtx = cluster("2xrtx4090"),
		   rack = cluster("gb200-nvl72");

	cr_expect(
		h800.family == MF_HOPPER && h800.link_gbps == 200 && h800.hbm_bytes == 80e9 && h800.nvlink_domain == 8);
	cr_expect_gt(h800.device_bytes, 79 * MF_GIB);
	cr_expect_lt(h800.device_bytes, 80 * MF_GIB);
	cr_expect(isnan(a100.tflops[MF_FP8]) && isnan(h800.tflops[MF_FP4]));
	cr_expect(rtx.fabric == MF_FABRIC_PCIE && rtx.nvlink_domain == 1 && rtx.family == MF_ADA);
	cr_expect(
		rack.nvlink_domain == 72 && mf_cluster_world(&rack) == 72 && rack.grace && rack.family == MF_BLACKWELL);
}

Test(inputs, any_size_of_a_known_gpu_is_a_cluster)
{
	mf_cluster c = cluster("4x8xh100"), one = cluster("2xh200"), big = cluster("256x8xh800"),
		   racks = cluster("36x4xgb200");
	mf_err err = {0};

	cr_expect(mf_cluster_world(&c) == 32 && c.nodes == 4 && c.nvlink_domain == 8);
	cr_expect(one.gpus_per_node == 2 && one.nodes == 1 && one.nvlink_domain == 2);
	cr_expect_eq(mf_cluster_world(&big), 2048);
	cr_expect(racks.nvlink_domain == 72 && mf_cluster_world(&racks) == 144);
	cr_expect_eq(cluster("2x4xgb200").nvlink_domain, 8);
	cr_expect_eq(cluster("8xH100").gpus_per_node, 8);
	cr_expect_eq(mf_cluster_load(&c, "8xh999", &err), MF_EINPUT);
	cr_expect(strstr(err.msg, "8xh800"), "%s", err.msg);
	cr_expect_eq(mf_cluster_load(&c, "0xh100", &err), MF_EINPUT);
	cr_expect_eq(mf_cluster_load(&c, "99999x8xh100", &err), MF_EINPUT);
	cr_expect_eq(mf_cluster_load(&c, "2x2x2xh100", &err), MF_EINPUT);
	cr_expect_eq(mf_cluster_load(&c, "", &err), MF_EINPUT);
}

#define CLUSTER                                                                                                        \
	"gpu: H100\nsm: 90\nsm_count: 132\ntflops: {bf16: 989}\nhbm_gb: 80\nhbm_gbps: 3350\nl2_mb: 50\n"               \
	"gpus_per_node: 8\nlink_gbps: 450\nlink_latency_us: 2\npcie_gbps: 64\nhost_memory_gbps: 77\n"

Test(inputs, a_gpu_is_found_by_its_name_as_the_vendor_writes_it)
{
	mf_cluster c;

	cr_assert(mf_cluster_of_gpu(&c, "NVIDIA H800"));
	cr_expect_str_eq(c.gpu, "H800");
	cr_expect_eq(c.nodes, 1, "the fewest nodes of 8xh800 and 256x8xh800");
	cr_expect(mf_cluster_of_gpu(&c, "geforce rtx 4090"));
	cr_expect_not(mf_cluster_of_gpu(&c, "H8000"));
	cr_expect_not(mf_cluster_of_gpu(&c, ""));
}

Test(inputs, cluster_files_are_checked_by_line_and_field)
{
	static const struct {
		const char *text, *field;
		int line;
	} bad[] = {
		{CLUSTER "sm_cuont: 3\n", "sm_cuont", 13},
		{CLUSTER "nodes: 2\n", "nic_gbps", 1},
		{CLUSTER "nodes: -2\n", "nodes", 13},
		{CLUSTER "fabric: rope\n", "fabric", 13},
		{CLUSTER "nodes: 60000\nnic_gbps: 50\nnic_latency_us: 5\n", "nodes", 1},
		{"gpu: H100\n", "sm", 1},
	};
	mf_cluster c;
	mf_err err;

	cr_expect_eq(mf_cluster_load(&c, file(CLUSTER), &err), MF_OK, "%s", err.msg);
	cr_expect_str_eq(c.name, "x");
	cr_expect(isnan(c.nic_gbps) && isnan(c.host_bytes) && c.device_bytes == c.hbm_bytes);
	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		cr_expect_eq(mf_cluster_load(&c, file(bad[i].text), &err), MF_EINPUT, "%zu", i);
		cr_expect_str_eq(err.field, bad[i].field, "%zu: %s", i, err.msg);
		cr_expect_eq(err.line, bad[i].line, "%zu: line %d", i, err.line);
		cr_expect(strstr(err.file, "x.yaml"));
	}
	cr_expect_eq(mf_cluster_load(&c, file(CLUSTER "sm_cuont: 3\n"), &err), MF_EINPUT);
	cr_expect(strstr(err.msg, "sm_count"), "%s", err.msg);
}

Test(inputs, a_file_of_the_user_hides_the_built_in_one)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/moefs", folder);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/moefs/clusters", folder);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/moefs/clusters/8xh800.yaml", folder);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fputs(CLUSTER, f);
	fclose(f);
	cr_expect_str_eq(cluster("8xh800").gpu, "H100");
	cr_expect_str_eq(cluster("8xh20").gpu, "H20");
}

Test(inputs, workloads_default_and_refuse)
{
	static const struct {
		const char *text, *field;
	} bad[] = {
		{"seq: 1\n", "phase"},
		{"phase: trian\n", "phase"},
		{"phase: train\nseq: 0\n", "seq"},
		{"phase: train\nmicro_batches: [0]\n", "micro_batches"},
		{"phase: train\nmicro_batches: []\n", "micro_batches"},
		{"phase: train\nmicro_batches: 4\n", "micro_batches"},
		{"phase: train\nprecision: fp12\n", "precision"},
		{"phase: serve\n", "phase"},
		{"phase: train\nload: [0, 0]\n", "load"},
		{"phase: train\nload: [1, -1]\n", "load"},
		{"phase: train\nseqs: 5\n", "seqs"},
		{"phase: train\nmax_violation: -1\n", "max_violation"},
		{"phase: serve\nlength_spread: 1\n", "length_spread"},
		{"phase: serve\nrequests: 0\n", "requests"},
		{"phase: serve\ndraft_tokens: 0\n", "draft_tokens"},
		{"phase: serve\ndraft_tokens: 3\naccepted_tokens: 4.5\n", "accepted_tokens"},
		{"phase: serve\naccepted_tokens: 2\n", "accepted_tokens"},
	};
	mf_workload w;
	mf_err err;

	cr_assert_eq(mf_workload_load(&w, NULL, MF_TRAIN, &err), MF_OK, "%s", err.msg);
	cr_expect(w.seq == 4096 && w.n_micro_batches > 0 && w.global_batch % 2048 == 0 && isnan(w.ttft_target_ms));
	cr_assert_eq(mf_workload_load(&w, "", MF_SERVE, &err), MF_OK, "%s", err.msg);
	cr_expect(w.phase == MF_SERVE && w.input_tokens == 1024 && w.concurrency == 64);
	cr_assert_eq(mf_workload_load(&w, file("phase: train\nload: [1, 3]\nprecision: mxfp8\n"), MF_TRAIN, &err),
		MF_OK, "%s", err.msg);
	cr_expect(w.n_load_bins == 2 && w.load_bins[1] == 0.75f && w.precision == MF_PREC_MXFP8);
	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		cr_expect_eq(mf_workload_load(&w, file(bad[i].text), MF_TRAIN, &err), MF_EINPUT, "%s", bad[i].text);
		cr_expect_str_eq(err.field, bad[i].field, "%s: %s", bad[i].text, err.msg);
	}
}

Test(inputs, stacks_default_and_refuse)
{
	mf_stack s;
	mf_err err;

	cr_assert_eq(mf_stack_load(&s, NULL, MF_TRAIN, &err), MF_OK, "%s", err.msg);
	cr_expect(s.toolchain == MF_MEGATRON_0180 && s.attention == MF_ATTN_FLASH && s.transformer_engine &&
		  !s.grad_reduce_bf16);
	cr_assert_eq(mf_stack_load(&s, "megatron-0.18.0-unfused", MF_TRAIN, &err), MF_OK, "%s", err.msg);
	cr_expect_eq(s.attention, MF_ATTN_UNFUSED);
	cr_assert_eq(mf_stack_load(&s, NULL, MF_SERVE, &err), MF_OK, "%s", err.msg);
	cr_expect(s.toolchain == MF_SGLANG_0515 && isnan(s.mem_fraction) && s.engine == MF_ENGINE_SGLANG);
	cr_assert_eq(mf_stack_load(&s, file("toolchain: sglang-0.5.16\nengine: vllm\n"), MF_SERVE, &err), MF_OK, "%s",
		err.msg);
	cr_expect_eq(s.engine, MF_ENGINE_VLLM);
	cr_expect_eq(mf_stack_load(&s, file("toolchain: sglang-0.5.16\nengine: tgi\n"), MF_SERVE, &err), MF_EINPUT);
	cr_expect_str_eq(err.field, "engine");
	cr_expect_eq(mf_stack_load(&s, "sglang-0.5.15", MF_TRAIN, &err), MF_EINPUT);
	cr_expect_str_eq(err.field, "toolchain");
	cr_expect_eq(mf_stack_load(&s, file("toolchain: megatron-9\n"), MF_TRAIN, &err), MF_EINPUT);
	cr_expect(strstr(err.msg, "megatron-0.18.0"), "%s", err.msg);
	cr_expect_eq(mf_stack_load(&s, file("attention: flash\n"), MF_TRAIN, &err), MF_EINPUT);
	cr_expect_eq(mf_stack_load(&s, file("toolchain: megatron-0.18.0\nloss: lossy\n"), MF_TRAIN, &err), MF_EINPUT);
	cr_expect_str_eq(err.field, "loss");
}

Test(inputs, sites_default_and_refuse)
{
	mf_site s;
	mf_err err;

	cr_assert_eq(mf_site_load(&s, NULL, &err), MF_OK);
	cr_expect_str_eq(s.pretrain_script, "pretrain_gpt.py");
	cr_expect(s.port == 30000 && s.train_iters == 10 && !s.data_path[0]);
	cr_assert_eq(mf_site_load(&s, file("train_iters: 500\nhost: 0.0.0.0\n"), &err), MF_OK, "%s", err.msg);
	cr_expect(s.train_iters == 500 && strcmp(s.host, "0.0.0.0") == 0 && s.port == 30000);
	cr_expect_eq(mf_site_load(&s, file("port: 70000\n"), &err), MF_EINPUT);
	cr_expect_eq(mf_site_load(&s, file("trian_iters: 5\n"), &err), MF_EINPUT);
	cr_expect(strstr(err.msg, "train_iters"), "%s", err.msg);
	cr_expect_lt(mf_site_load(&s, "no/such/site.yaml", &err), 0);
}
