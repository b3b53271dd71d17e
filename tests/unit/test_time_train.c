/* Analytic training time: known answers, the direction of every dimension, taxes, explanations. */
#include "cost_internal.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs --------------------------------------------------------------------------------------------------------
 */

typedef struct fixture {
	mf_model model;
	mf_cluster cluster;
	mf_workload work;
	mf_stack stack;
	mf_consts consts;
	mf_intern *intern;
	mf_cost cost;
} fixture;

static mf_model moe_model(uint32_t layers, uint32_t dense, uint32_t hidden, uint32_t vocab, uint32_t experts,
	uint32_t topk, uint32_t moe_ffn)
{
	mf_model m = {.layers = layers,
		.hidden = hidden,
		.vocab = vocab,
		.experts = experts,
		.topk = topk,
		.moe_ffn = moe_ffn,
		.gated = true,
		.routed_scaling = 1};

	for (uint32_t i = dense; i < layers; i++)
		m.moe_layer[i] = 1;
	m.moe_layers = layers - dense;
	return m;
}

static mf_model v2_lite(void)
{
	mf_model m = moe_model(27, 1, 2048, 102400, 64, 6, 1408);

	m.attention = MF_MLA;
	m.heads = m.kv_heads = 16;
	m.kv_lora = 512;
	m.qk_nope = 128;
	m.qk_rope = 64;
	m.v_dim = 128;
	m.ffn = 10944;
	m.shared_ffn = 2816;
	return m;
}

static mf_model v3(void)
{
	mf_model m = moe_model(61, 3, 7168, 129280, 256, 8, 2048);

	m.attention = MF_MLA;
	m.heads = m.kv_heads = 128;
	m.q_lora = 1536;
	m.kv_lora = 512;
	m.qk_nope = 128;
	m.qk_rope = 64;
	m.v_dim = 128;
	m.ffn = 18432;
	m.shared_ffn = 2048;
	m.mtp_layers = 1;
	m.expert_groups = 8;
	m.expert_group_topk = 4;
	return m;
}

static mf_model gqa(uint32_t layers, uint32_t hidden, uint32_t heads, uint32_t kv, uint32_t vocab, uint32_t experts,
	uint32_t topk, uint32_t moe_ffn)
{
	mf_model m = moe_model(layers, 0, hidden, vocab, experts, topk, moe_ffn);

	m.attention = MF_GQA;
	m.heads = heads;
	m.kv_heads = kv;
	m.head_dim = m.v_dim = 128;
	return m;
}

static mf_cluster hopper(const char *gpu, uint32_t nodes, double link)
{
	mf_cluster c = {.sm = 90,
		.sm_count = 132,
		.family = MF_HOPPER,
		.tflops = {989.4, 1979, NAN},
		.hbm_bytes = 80e9,
		.device_bytes = 79.1 * MF_GIB,
		.hbm_gbps = 3350,
		.gpus_per_node = 8,
		.nodes = nodes,
		.nvlink_domain = 8,
		.fabric = MF_FABRIC_NVLINK,
		.link_gbps = link,
		.nic_gbps = 50,
		.pcie_gbps = 64,
		.host_memory_gbps = 77};

	snprintf(c.gpu, sizeof(c.gpu), "%s", gpu);
	return c;
}

static mf_cluster blackwell(const char *gpu, uint32_t domain, uint32_t world, double tflops, double nic, bool grace)
{
	mf_cluster c = {.sm = 100,
		.sm_count = 148,
		.family = MF_BLACKWELL,
		.tflops = {tflops, 2 * tflops, 4 * tflops},
		.hbm_bytes = 180e9,
		.device_bytes = 178e9,
		.hbm_gbps = 8000,
		.gpus_per_node = domain == 8 ? 8 : 4,
		.nvlink_domain = domain,
		.fabric = MF_FABRIC_NVLINK,
		.link_gbps = 900,
		.nic_gbps = nic,
		.pcie_gbps = 64,
		.host_memory_gbps = 77,
		.grace = grace};

	c.nodes = world / c.gpus_per_node;
	snprintf(c.gpu, sizeof(c.gpu), "%s", gpu);
	return c;
}

static void start(fixture *f, mf_model model, mf_cluster cluster, uint32_t seq, uint32_t gbs, mf_precision precision)
{
	mf_err err;

	memset(f, 0, sizeof(*f));
	f->model = model;
	f->cluster = cluster;
	f->work = (mf_workload){.phase = MF_TRAIN, .seq = seq, .global_batch = gbs, .precision = precision};
	f->stack = (mf_stack){.toolchain = MF_MEGATRON_0180,
		.transformer_engine = true,
		.grad_reduce_bf16 = true,
		.overlap_grad_reduce = true,
		.overlap_param_gather = true,
		.permute_fusion = true};
	f->intern = mf_intern_new();
	mf_consts_factory(&f->consts, &f->cluster);
	f->consts.v[MF_C_HOST_TIE] = 0; /* the worked model has no rule for ties */
	f->cost = (mf_cost){.in = {&f->model, &f->cluster, &f->work, &f->stack, NULL, f->intern},
		.k = &f->consts,
		.opts = MF_COST_OPTS_INIT,
		.world = mf_cluster_world(&f->cluster)};
	cr_assert(eq(int, mf_train_time_new(&f->cost, &err), MF_OK));
}

/* The state reads the inputs once: after a change of them it starts again. */
static void restart(fixture *f)
{
	mf_err err;

	mf_train_time_free(f->cost.train_time);
	cr_assert(eq(int, mf_train_time_new(&f->cost, &err), MF_OK));
}

static void stop(fixture *f)
{
	mf_train_time_free(f->cost.train_time);
	mf_intern_free(f->intern);
}

static fixture *node(void)
{
	static fixture f;

	start(&f, v2_lite(), hopper("H800", 1, 200), 4096, 4096, MF_PREC_BF16);
	return &f;
}

static mf_time price(fixture *f, const char *text)
{
	mf_plan p;
	mf_err err = {0};
	mf_time t;

	cr_assert(eq(int, mf_plan_parse(&p, text, MF_TRAIN, f->intern, &err), MF_OK), "%s: %s", text, err.msg);
	mf_train_time_eval(&f->cost, &p, &t, NULL);
	return t;
}

static double step(fixture *f, const char *text)
{
	return price(f, text).step_ms;
}

/* Within `tol` of the expected step, relative. */
static void expect(fixture *f, const char *text, double ms, double tol)
{
	double got = step(f, text);

	cr_expect(fabs(got / ms - 1) <= tol, "%s: %.4f ms, expected %.4f", text, got, ms);
}

/* ---- known answers -------------------------------------------------------------------------------------------------
 */

/* Worked out independently from the same formulas: the form of every term on one node. */
Test(time_train, one_node_agrees_with_the_worked_model)
{
	fixture *f = node();

	expect(f, "tp1/pp1/ep8/1f1b", 127670.4339, 1e-6);
	/* Of 512 micro-batches, one pass cannot hide: the worked model takes all for hidden. */
	expect(f, "tp1/pp1/ep8/1f1b+ov", 120162.8075 + (127670.4339 - 120162.8075) / 512, 1e-6);
	expect(f, "tp1/pp1/ep4/1f1b", 128028.0989, 1e-6);
	expect(f, "tp1/pp1/ep4/1f1b+ov", 126563.3859 + (128028.0989 - 126563.3859) / 512, 1e-6);
	expect(f, "tp1/pp1/ep2/1f1b+ov", 139374.8207, 1e-3);
	expect(f, "tp1/pp1/ep1/1f1b", 165059.8555, 1e-6);
	expect(f, "tp2/pp1/ep8/etp1/1f1b+ov", 234127.1400, 1e-3);
	expect(f, "tp2/pp1/ep4/etp2/1f1b/mb2", 178675.4013, 1e-6);
	expect(f, "tp1/pp1/ep8/1f1b/disp:deepep", 120867.3245, 1e-6);
	expect(f, "tp1/pp1/ep8/1f1b/disp:hybridep", 117500.4075, 1e-6);
	expect(f, "tp1/cp2/pp1/ep8/1f1b", 234174.5230, 1e-6);
	expect(f, "tp1/pp1/ep8/1f1b/mb4/rc:full", 155231.0033, 1e-6);
	expect(f, "tp1/pp1/ep8/1f1b/fsdp", 130495.2473, 1e-6);
	expect(f, "tp1/pp1/ep8/1f1b/disp:allgather", 128173.5815, 1e-6);
	expect(f, "tp1/pp1/ep8/1f1b/rc:core_attn,moe_act,layernorm,mla_up_proj,moe", 165350.4607, 1e-6);
	expect(f, "tp1/pp1/ep8/1f1b/zero1_offload", 130222.7171, 1e-3);
	f->stack.grad_reduce_bf16 = false;
	restart(f);
	expect(f, "tp1/pp1/ep8/1f1b", 127671.6580, 1e-6);
	f->stack.grad_reduce_bf16 = true;
	f->work.precision = MF_PREC_FP8_BLOCK;
	restart(f);
	expect(f, "tp1/pp1/ep8/1f1b", 136495.7739, 1e-6);
	stop(f);
}

Test(time_train, eight_nodes_agree_with_the_worked_model)
{
	fixture f;

	start(&f, v2_lite(), hopper("H800", 8, 200), 4096, 1024, MF_PREC_BF16);
	expect(&f, "tp1/pp1/ep32/1f1b/disp:deepep", 4556.7691, 1e-6);
	expect(&f, "tp1/pp1/ep32/1f1b", 5873.3670, 1e-6);
	stop(&f);
}

/* Published runs: the worked model's prediction in seconds; ours differs by whole layers on stages alone. */
Test(time_train, published_runs)
{
	fixture f;

	/* DeepSeek-V3 on 256 GB300, measured 10.42 s. */
	start(&f, v3(), blackwell("GB300", 72, 256, 2500, 100, true), 4096, 4096, MF_PREC_MXFP8);
	f.work.mtp = true;
	f.stack.graphs = MF_GRAPHS_FULL;
	f.stack.fused_quant = true;
	f.stack.delay_wgrad = true;
	restart(&f);
	expect(&f, "tp1/pp2/v8/ep32/interleaved+ov/disp:hybridep/lay:4-4-4-4-4-4-4-4-4-4-4-3-4-3-4-3", 11339, 0.03);
	stop(&f);

	/* Qwen3-30B on 16 H100, measured 24.71 s and with overlap 21.07 s. */
	start(&f, gqa(48, 2048, 32, 4, 151936, 128, 8, 768), hopper("H100", 2, 450), 4096, 1024, MF_PREC_BF16);
	f.model.qk_norm = true;
	f.stack.graphs = MF_GRAPHS_PARTIAL;
	restart(&f);
	expect(&f, "tp1/pp1/ep16/1f1b/disp:hybridep", 21702, 1e-4);
	expect(&f, "tp1/pp1/ep16/1f1b+ov/disp:hybridep", 18300, 5e-3);
	stop(&f);

	/* Qwen3-235B on 256 B200, measured 34.71 s: the host's launches are its floor. */
	start(&f, gqa(94, 4096, 64, 4, 151936, 128, 8, 1536), blackwell("B200", 8, 256, 2250, 50, false), 4096, 8192,
		MF_PREC_MXFP8);
	f.model.qk_norm = true;
	restart(&f);
	expect(&f, "tp1/pp8/ep8/1f1b/disp:deepep/lay:12x7-10", 33966, 0.03);
	stop(&f);

	/* Qwen2-57B on 64 H100 with fp32 gradients, measured 14.06 s folded, 21.3 s under FSDP. */
	start(&f, gqa(28, 3584, 28, 4, 151936, 64, 8, 2560), hopper("H100", 8, 450), 4096, 1024, MF_PREC_BF16);
	f.model.shared_ffn = 20480;
	f.stack.grad_reduce_bf16 = false;
	restart(&f);
	expect(&f, "tp2/pp4/v7/ep4/etp1/interleaved", 14178, 0.03);
	expect(&f, "tp1/pp1/ep8/1f1b/fsdp", 23637, 1e-4);
	stop(&f);
}

/* DeepSeek-V3's own DualPipe run on 2048 H800: 180 thousand GPU hours a trillion tokens. No constant was fitted on it.
 */
Test(time_train, the_dualpipe_report)
{
	fixture f;
	double predicted, measured = 1e12 / (180e3 * 3600);

	start(&f, v3(), hopper("H800", 256, 200), 4096, 15360, MF_PREC_FP8_BLOCK);
	f.work.mtp = true;
	restart(&f);
	predicted = price(&f, "tp1/pp16/ep64/dualpipe+ov/disp:deepep/rc:layernorm,mla_up_proj/lay:4x14-3-2").throughput;
	cr_expect(fabs(predicted / measured - 1) < 0.10, "%.1f tokens/s/GPU, measured %.1f", predicted, measured);
	stop(&f);
}

/*
 * Dense models on A100 that no constant was fitted on: step times of the activation-recomputation paper (arXiv 2205.05198,
 * table 5), full recompute and selective with sequence parallelism.
 */
Test(time_train, dense_models_on_ampere)
{
	static const struct {
		uint32_t layers, hidden, heads, nodes, batch;
		const char *plan;
		double full, selective; /* seconds */
	} runs[] = {
		{48, 6144, 64, 1, 4, "tp8/pp1/ep1/1f1b/mb4", 1.42, 1.10},
		{96, 12288, 96, 8, 64, "tp8/pp8/ep1/interleaved/v3", 18.13, 13.75},
		{105, 20480, 128, 35, 280, "tp8/pp35/ep1/interleaved/v3", 49.05, 37.83},
		{128, 25600, 160, 64, 512, "tp8/pp64/ep1/1f1b", 94.42, 71.49},
	};

	for (size_t i = 0; i < MF_COUNT(runs); i++) {
		mf_model m = {.layers = runs[i].layers,
			.hidden = runs[i].hidden,
			.vocab = 51200,
			.heads = runs[i].heads,
			.kv_heads = runs[i].heads,
			.ffn = 4 * runs[i].hidden,
			.routed_scaling = 1};
		mf_cluster c = {.gpu = "A100",
			.sm = 80,
			.sm_count = 108,
			.family = MF_AMPERE,
			.tflops = {312, NAN, NAN},
			.hbm_gbps = 2039,
			.gpus_per_node = 8,
			.nodes = runs[i].nodes,
			.nvlink_domain = 8,
			.link_gbps = 300,
			.nic_gbps = 25,
			.pcie_gbps = 32,
			.host_memory_gbps = 50};
		char plan[96];
		fixture f;

		m.head_dim = m.v_dim = m.hidden / m.heads;
		start(&f, m, c, 2048, runs[i].batch, MF_PREC_BF16);
		snprintf(plan, sizeof(plan), "%s/rc:full1", runs[i].plan);
		expect(&f, plan, 1000 * runs[i].full, 0.10);
		snprintf(plan, sizeof(plan), "%s/rc:core_attn", runs[i].plan);
		expect(&f, plan, 1000 * runs[i].selective, 0.10);
		stop(&f);
	}
}

/* ---- orders --------------------------------------------------------------------------------------------------------
 */

Test(time_train, orders_of_one_node)
{
	static const char *const slower[] = {"tp1/pp1/ep8/1f1b", "tp1/pp1/ep8/dualpipe", "tp1/pp1/ep4/1f1b+ov",
		"tp1/pp1/ep4/1f1b", "tp1/pp1/ep2/1f1b+ov", "tp1/pp1/ep1/1f1b", "tp2/pp1/ep8/etp1/1f1b+ov",
		"tp2/pp1/ep4/1f1b+ov", "tp1/pp2/ep4/1f1b", "tp1/pp2/ep4/interleaved+ov/v2", "tp1/pp1/ep8/1f1b+ov/fsdp",
		"tp1/pp1/ep8/1f1b+ov/zero1_offload"};
	fixture *f = node();
	double best;

	mf_consts_factory(&f->consts, &f->cluster);
	restart(f);
	best = price(f, "tp1/pp1/ep8/1f1b+ov").throughput;
	cr_expect(gt(dbl, price(f, "tp1/pp1/ep8/dualpipe+ov").throughput, best));
	for (size_t i = 0; i < MF_COUNT(slower); i++)
		cr_expect(lt(dbl, price(f, slower[i]).throughput, best), "%s", slower[i]);
	stop(f);
}

Test(time_train, pipelines)
{
	fixture *f = node();
	double big = price(f, "tp1/pp4/ep2/1f1b").bubble_fraction, small;

	cr_expect(lt(dbl, price(f, "tp1/pp4/ep2/interleaved/v6").bubble_fraction, big));
	cr_expect(lt(dbl, price(f, "tp1/pp4/ep2/dualpipe").bubble_fraction, big));
	cr_expect(eq(dbl, price(f, "tp1/pp1/ep8/1f1b").bubble_fraction, 0));
	f->work.global_batch = 64;
	small = price(f, "tp1/pp4/ep2/1f1b").bubble_fraction;
	cr_expect(gt(dbl, small, big), "fewer micro-batches, a larger bubble");
	/* 27 layers on two stages: the longer one decides, and moving a layer from the head's side helps. */
	cr_expect(lt(dbl, step(f, "tp1/pp2/ep4/1f1b/first15"), step(f, "tp1/pp2/ep4/1f1b/first10")));
	stop(f);
}

Test(time_train, a_single_micro_batch_hides_nothing)
{
	fixture *f = node();

	f->work.global_batch = 8;
	cr_expect(epsilon_eq(dbl, step(f, "tp1/pp1/ep8/1f1b+ov"), step(f, "tp1/pp1/ep8/1f1b"), 1e-6));
	cr_expect(lt(dbl, step(f, "tp1/pp1/ep4/1f1b"), step(f, "tp1/pp1/ep4/1f1b+ov") + 1e-6));
	f->work.global_batch = 16;
	cr_expect(lt(dbl, step(f, "tp1/pp1/ep8/1f1b+ov"), step(f, "tp1/pp1/ep8/1f1b")));
	stop(f);
}

Test(time_train, dimensions_push_the_right_way)
{
	fixture *f = node();
	double base = step(f, "tp1/pp1/ep8/1f1b"), ov = step(f, "tp1/pp1/ep8/1f1b+ov");

	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/rc:full1"), step(f, "tp1/pp1/ep8/1f1b/rc:selective")));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/rc:selective"), base));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/rc:moe_act"), base));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/rc:moe"), step(f, "tp1/pp1/ep8/1f1b/rc:moe_act")));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/disp:allgather"), base));
	cr_expect(lt(dbl, step(f, "tp1/pp1/ep8/1f1b/disp:deepep"), base));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/sm8"), base), "few SMs carry less");
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b+ov/sm64"), ov), "many SMs are missing in the compute that hides");
	cr_expect(ne(dbl, step(f, "tp1/pp1/ep8/1f1b+ov/ch4"), ov));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/zero1_offload"), base));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/fsdp/z3"), step(f, "tp1/pp1/ep8/1f1b/fsdp/z1")));
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b/z0"), base));
	cr_expect(lt(dbl, step(f, "tp1/pp1/ep8/1f1b/mb2"), base), "larger micro-batches launch less");
	/* Without the host's floor, which both would touch. */
	f->stack.graphs = MF_GRAPHS_FULL;
	restart(f);
	ov = step(f, "tp1/pp1/ep8/1f1b+ov");
	cr_expect(lt(dbl, step(f, "tp1/pp1/ep8/dualpipe+ov"), ov));
	f->stack.delay_wgrad = true;
	restart(f);
	cr_expect(lt(dbl, step(f, "tp1/pp1/ep8/1f1b+ov"), ov));
	f->stack.graphs = MF_GRAPHS_NONE;
	f->stack.attention = MF_ATTN_UNFUSED;
	restart(f);
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b"), base));
	stop(f);
}

Test(time_train, nodes_and_routing)
{
	fixture f;
	double all, near, blind;

	start(&f, v3(), hopper("H800", 16, 200), 4096, 2048, MF_PREC_BF16);
	all = step(&f, "tp1/pp1/ep64/1f1b/disp:deepep");
	near = step(&f, "tp1/pp1/ep64/1f1b/disp:deepep/nl2");
	cr_expect(lt(dbl, near, all), "fewer nodes, less over the NIC");
	f.model.expert_groups = f.model.expert_group_topk = 0;
	restart(&f);
	blind = step(&f, "tp1/pp1/ep64/1f1b/disp:deepep");
	cr_expect(gt(dbl, blind, all), "without groups a token reaches more nodes");
	f.work.max_violation = 0.2;
	restart(&f);
	cr_expect(gt(dbl, step(&f, "tp1/pp1/ep64/1f1b/disp:deepep"), blind));
	stop(&f);
}

Test(time_train, skew_from_a_histogram_is_the_worst_ranks)
{
	fixture *f = node();
	double even = step(f, "tp1/pp1/ep8/1f1b"), bare;

	f->work.max_violation = 0.5;
	restart(f);
	bare = step(f, "tp1/pp1/ep8/1f1b");
	cr_expect(gt(dbl, bare, even));
	cr_expect(eq(dbl, step(f, "tp1/pp1/ep1/1f1b"),
			  (f->work.max_violation = 0, restart(f), step(f, "tp1/pp1/ep1/1f1b"))),
		"one rank holds all experts: nothing waits");
	/* One expert 50 % over the mean is an eighth of its rank's load. */
	f->work.n_load_bins = 64;
	for (int i = 0; i < 64; i++)
		f->work.load_bins[i] = 1;
	restart(f);
	cr_expect(epsilon_eq(dbl, step(f, "tp1/pp1/ep8/1f1b"), even, 1e-9 * even));
	f->work.load_bins[5] = 1.5f;
	restart(f);
	cr_expect(gt(dbl, step(f, "tp1/pp1/ep8/1f1b"), even));
	cr_expect(lt(dbl, step(f, "tp1/pp1/ep8/1f1b"), bare));
	stop(f);
}

Test(time_train, a_plan_that_cannot_be_laid_out_has_no_time)
{
	fixture *f = node();

	cr_expect(isnan(price(f, "tp1/pp3/ep1/1f1b").throughput), "8 GPUs are not three stages");
	f->cluster.tflops[MF_FP8] = NAN;
	f->work.precision = MF_PREC_FP8_BLOCK;
	restart(f);
	cr_expect(isnan(price(f, "tp1/pp1/ep8/1f1b").throughput), "a GPU without the type has no figure");
	stop(f);
}

/* ---- taxes ---------------------------------------------------------------------------------------------------------
 */

static double throughput(fixture *f, const char *text)
{
	return price(f, text).throughput;
}

Test(time_train, taxes_touch_only_their_path)
{
	static const char kernel[] = "tp1/pp1/ep8/1f1b+ov/k:128x128x64-w8-s3", plain[] = "tp1/pp1/ep8/1f1b+ov";
	static const char offloaded[] = "tp1/pp1/ep8/1f1b+ov/zero1_offload", alone[] = "tp1/pp1/ep8/1f1b/zero1_offload";
	fixture *f = node();
	double before = throughput(f, plain), before_offload = throughput(f, offloaded),
	       before_alone = throughput(f, alone);

	/* Unset: bit for bit the same, whether asked for or not. */
	f->cost.opts.tax = false;
	cr_expect(eq(dbl, throughput(f, offloaded), before_offload));
	f->cost.opts.tax = true;
	cr_expect(eq(dbl, throughput(f, kernel), before));

	f->consts.v[MF_C_TAX_TRAIN] = -0.077;
	f->consts.v[MF_C_OFFLOAD_OVERLAP] = 0.027086;
	cr_expect(eq(dbl, throughput(f, plain), before));
	cr_expect(eq(dbl, throughput(f, alone), before_alone));
	cr_expect(epsilon_eq(dbl, throughput(f, kernel), before / (1 - 0.077), 1e-9 * before), "a negative tax pays");
	/* Under the penalty's domain nothing of the exchange hides either: the plan without overlap, and the penalty. */
	cr_expect(lt(dbl, throughput(f, offloaded), before_offload / 1.027086));
	cr_expect(epsilon_eq(dbl, throughput(f, offloaded), before_alone / 1.027086, 5e-3 * before));
	f->cost.opts.tax = false;
	cr_expect(eq(dbl, throughput(f, kernel), before));
	cr_expect(eq(dbl, throughput(f, offloaded), before_offload));
	stop(f);
}

/* ---- overlays ------------------------------------------------------------------------------------------------------
 */

Test(time_train, outside_the_overlays_domain_is_flagged)
{
	fixture *f = node();

	cr_expect(not(price(f, "tp1/pp1/ep8/1f1b").extrapolated));
	snprintf(f->consts.overlay, sizeof(f->consts.overlay), "test");
	snprintf(f->consts.domain.gpu, sizeof(f->consts.domain.gpu), "NVIDIA H800");
	f->consts.domain.m_min = 64;
	f->consts.domain.m_max = 8192;
	restart(f);
	/* ep8: 8 experts share 4096 * 6 rows, 3072 each; with micro-batches of 4, 12288. */
	cr_expect(not(price(f, "tp1/pp1/ep8/1f1b").extrapolated));
	cr_expect(price(f, "tp1/pp1/ep8/1f1b/mb4").extrapolated);
	stop(f);
}

/* ---- explanations --------------------------------------------------------------------------------------------------
 */

Test(time_train, terms_add_up)
{
	static const char *const plans[] = {"tp1/pp1/ep8/1f1b+ov", "tp1/pp1/ep1/1f1b",
		"tp2/cp2/pp2/ep2/interleaved+ov/v2/mb2", "tp1/pp4/ep2/dualpipe+ov", "tp1/pp1/ep8/1f1b/fsdp",
		"tp1/pp1/ep8/1f1b+ov/zero1_offload/rc:full1", "tp1/pp2/ep4/1f1b/disp:deepep/z0",
		"tp1/pp1/ep8/1f1b+ov/ch2/sm16"};
	fixture *f = node();
	mf_explain *ex = calloc(1, sizeof(*ex));

	f->consts.v[MF_C_OFFLOAD_OVERLAP] = 0.027086;
	for (size_t i = 0; i < MF_COUNT(plans); i++) {
		mf_plan p;
		mf_time fast, slow;
		double sum = 0;
		mf_err err;

		memset(ex, 0, sizeof(*ex));
		cr_assert(eq(int, mf_plan_parse(&p, plans[i], MF_TRAIN, f->intern, &err), MF_OK));
		mf_train_time_eval(&f->cost, &p, &fast, NULL);
		mf_train_time_eval(&f->cost, &p, &slow, ex);
		cr_expect(eq(int, memcmp(&fast.throughput, &slow.throughput, sizeof(double)), 0));
		cr_expect(eq(int, memcmp(&fast.step_ms, &slow.step_ms, sizeof(double)), 0));
		for (size_t k = 0; k < ex->n_terms; k++) {
			sum += ex->terms[k].ms;
			cr_expect(ex->terms[k].formula[0] != '\0' && ex->terms[k].inputs[0] != '\0', "%s",
				ex->terms[k].name);
		}
		cr_expect(epsilon_eq(dbl, sum, slow.step_ms, 1e-9 * slow.step_ms), "%s", plans[i]);
		cr_expect(slow.hidden_fraction >= 0 && slow.hidden_fraction <= 1);
	}
	free(ex);
	stop(f);
}

/* A remembered price is the price: asked again after many other plans, every figure is the same. */
Test(time_train, the_memo_changes_nothing)
{
	static const char *const degrees[] = {
		"tp1/pp1/ep8", "tp1/pp1/ep4", "tp2/pp1/ep4", "tp1/pp2/ep2", "tp4/pp1/ep2"};
	fixture *f = node();
	double first[MF_COUNT(degrees)];

	for (size_t i = 0; i < MF_COUNT(degrees); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s/1f1b", degrees[i]);
		first[i] = step(f, text);
	}
	for (unsigned mb = 2; mb < 900; mb++) {
		char text[64];

		snprintf(text, sizeof(text), "%s/1f1b/mb%u", degrees[mb % MF_COUNT(degrees)], mb);
		cr_assert(gt(dbl, step(f, text), 0));
	}
	for (size_t i = 0; i < MF_COUNT(degrees); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s/1f1b", degrees[i]);
		cr_expect(eq(dbl, step(f, text), first[i]));
	}
	stop(f);
}

/* ---- layers of several kinds ---------------------------------------------------------------------------------------
 */

/* Mamba-2, MoE and attention as layers of their own, experts in a latent: a small Nemotron 3 Super. */
static mf_model split_model(uint32_t latent)
{
	static const char pattern[] = "MEMEM*EMEME*MEME";
	mf_model m = gqa(16, 4096, 32, 2, 131072, 512, 22, 2688);

	memset(m.moe_layer, 0, sizeof(m.moe_layer));
	for (uint32_t i = 0; i < 16; i++) {
		m.mixer[i] = pattern[i] == 'M' ? MF_MIX_MAMBA2 : pattern[i] == '*' ? MF_MIX_ATTENTION : MF_MIX_NONE;
		m.moe_layer[i] = pattern[i] == 'E';
		m.bare_layer[i] = pattern[i] != 'E';
	}
	mf_model_tally(&m);
	m.gated = false;
	m.shared_ffn = 5376;
	m.moe_latent = latent;
	m.mamba_heads = 128;
	m.mamba_head_dim = 64;
	m.mamba_state = 128;
	m.mamba_groups = 8;
	m.mamba_conv = 4;
	m.mtp_layers = 1;
	return m;
}

Test(time_train, terms_of_hybrids_add_up)
{
	static const char *const plans[] = {"tp1/pp1/ep64/1f1b/disp:hybridep", "tp2/pp2/ep16/etp1/1f1b+ov/disp:deepep",
		"tp1/pp4/ep16/interleaved+ov/v2/rc:full1", "tp1/pp4/ep16/dualpipe+ov"};
	fixture f;
	mf_explain *ex = calloc(1, sizeof(*ex));

	start(&f, split_model(1024), hopper("H100", 8, 450), 8192, 512, MF_PREC_BF16);
	f.work.mtp = true;
	restart(&f);
	for (size_t i = 0; i < MF_COUNT(plans); i++) {
		mf_plan p;
		mf_time fast, slow;
		double sum = 0;
		bool scan = false;
		mf_err err;

		memset(ex, 0, sizeof(*ex));
		cr_assert(eq(int, mf_plan_parse(&p, plans[i], MF_TRAIN, f.intern, &err), MF_OK), "%s", err.msg);
		mf_train_time_eval(&f.cost, &p, &fast, NULL);
		mf_train_time_eval(&f.cost, &p, &slow, ex);
		cr_expect(gt(dbl, fast.throughput, 0), "%s", plans[i]);
		cr_expect(eq(int, memcmp(&fast.throughput, &slow.throughput, sizeof(double)), 0));
		for (size_t k = 0; k < ex->n_terms; k++) {
			sum += ex->terms[k].ms;
			scan |= strstr(ex->terms[k].name, "scan") != NULL;
		}
		cr_expect(scan);
		cr_expect(epsilon_eq(dbl, sum, fast.step_ms, 1e-6 * fast.step_ms), "%s", plans[i]);
	}
	free(ex);
	stop(&f);
}

Test(time_train, hybrids_cost_what_their_layers_do)
{
	static const char plan[] = "tp1/pp1/ep64/1f1b/disp:hybridep";
	fixture f;
	double latent, whole, slow_scan, mtp;

	start(&f, split_model(1024), hopper("H100", 8, 450), 8192, 512, MF_PREC_BF16);
	f.stack.graphs = MF_GRAPHS_FULL;
	restart(&f);
	latent = step(&f, plan);
	f.work.mtp = true;
	restart(&f);
	mtp = step(&f, plan);
	cr_expect(gt(dbl, mtp, latent), "MTP layers cost");
	f.work.mtp = false;
	f.consts.v[MF_C_SCAN_MAMBA] /= 2;
	restart(&f);
	slow_scan = step(&f, plan);
	cr_expect(gt(dbl, slow_scan, latent));
	f.consts.v[MF_C_SCAN_MAMBA] *= 2;
	f.model.moe_latent = 0;
	restart(&f);
	whole = step(&f, plan);
	cr_expect(gt(dbl, whole, 1.2 * latent), "experts at full width, and rows of full width to send");
	stop(&f);
}

Test(time_train, a_delta_net_layer_does_not_grow_with_the_square_of_the_sequence)
{
	static const char plan[] = "tp1/pp1/ep8/1f1b";
	fixture f;
	double share[2];

	for (int i = 0; i < 2; i++) {
		double attention, delta;

		start(&f, gqa(48, 2048, 16, 2, 151936, 512, 10, 512), hopper("H100", 1, 450), i ? 65536 : 4096, 64,
			MF_PREC_BF16);
		f.stack.graphs = MF_GRAPHS_FULL;
		restart(&f);
		attention = step(&f, plan);
		for (uint32_t l = 0; l < 48; l++)
			f.model.mixer[l] = l % 4 == 3 ? MF_MIX_ATTENTION : MF_MIX_DELTA;
		f.model.delta_k_heads = 16;
		f.model.delta_v_heads = 32;
		f.model.delta_k_dim = f.model.delta_v_dim = 128;
		mf_model_tally(&f.model);
		restart(&f);
		delta = step(&f, plan);
		share[i] = delta / attention;
		stop(&f);
	}
	cr_expect(lt(dbl, share[1], 0.6 * share[0]), "%g at 4k, %g at 64k", share[0], share[1]);
}

/* ---- software ------------------------------------------------------------------------------------------------------ */

Test(time_train, stack_settings_push_the_right_way)
{
	static const char plan[] = "tp1/pp1/ep8/1f1b/disp:hybridep";
	fixture f;
	double base, fused, graphs;

	start(&f, gqa(48, 2048, 32, 4, 151936, 128, 8, 768), blackwell("B200", 8, 8, 2250, 50, false), 4096, 512,
		MF_PREC_MXFP8);
	base = step(&f, plan);
	f.stack.fused_quant = true;
	restart(&f);
	fused = step(&f, plan);
	cr_expect(lt(dbl, fused, base), "one kernel casts for all experts");
	f.stack.graphs = MF_GRAPHS_FULL;
	restart(&f);
	graphs = step(&f, plan);
	cr_expect(lt(dbl, graphs, fused));
	f.stack.optimizer = MF_OPT_MUON;
	restart(&f);
	cr_expect(gt(dbl, step(&f, plan), graphs), "Newton-Schulz is not free");
	stop(&f);
	/* Clamped activations and expert biases run as many kernels, until the fused expert kernel covers them. */
	start(&f, gqa(36, 2880, 64, 8, 201088, 128, 4, 2880), blackwell("GB200", 72, 64, 2500, 50, true), 4096, 1024,
		MF_PREC_MXFP8);
	f.stack.fused_quant = true;
	f.stack.graphs = MF_GRAPHS_FULL;
	restart(&f);
	base = step(&f, plan);
	f.model.clamped_glu = f.model.linear_bias = f.model.mlp_bias = true;
	restart(&f);
	cr_expect(eq(dbl, step(&f, plan), base));
	f.stack.graphs = MF_GRAPHS_PARTIAL;
	restart(&f);
	graphs = step(&f, plan);
	f.model.clamped_glu = false;
	restart(&f);
	cr_expect(lt(dbl, step(&f, plan), graphs));
	stop(&f);
}

/* Frozen weights save their gradients, exchange and optimizer; sequences of any length cost launches. */
Test(time_train, fine_tuning_options)
{
	static const char plan[] = "tp1/pp1/ep8/1f1b";
	fixture *f = node();
	double base = step(f, plan), frozen;

	f->cost.opts.frozen = true;
	restart(f);
	frozen = step(f, plan);
	cr_expect(lt(dbl, frozen, base));
	cr_expect(gt(dbl, frozen, 0.4 * base), "forward and data gradients stay");
	f->cost.opts.frozen = false;
	f->cost.opts.varied = true;
	restart(f);
	cr_expect(gt(dbl, step(f, plan), base));
	stop(f);
}

/* The best split is a split, and no slower than the even one. */
Test(time_train, the_best_split_of_stages)
{
	static const char *const plans[] = {
		"tp1/pp2/ep4/1f1b", "tp1/pp4/ep2/1f1b", "tp1/pp8/ep1/1f1b", "tp1/pp2/ep4/interleaved/v4"};
	fixture *f = node();

	for (size_t i = 0; i < MF_COUNT(plans); i++) {
		uint16_t counts[64];
		char layout[128];
		uint32_t sum = 0;
		mf_plan p;
		mf_time even, best;
		mf_err err;
		size_t n;

		cr_assert(eq(int, mf_plan_parse(&p, plans[i], MF_TRAIN, f->intern, &err), MF_OK));
		mf_train_time_eval(&f->cost, &p, &even, NULL);
		cr_assert(mf_train_layout(&f->cost, &p, layout, sizeof(layout)), "%s", plans[i]);
		n = mf_stage_layout_parse(layout, counts, MF_COUNT(counts));
		cr_expect(eq(sz, n, (size_t)p.pp * p.vpp), "%s", layout);
		for (size_t k = 0; k < n; k++)
			sum += counts[k];
		cr_expect(eq(u32, sum, f->model.layers));
		p.stage_layout = mf_intern_id(f->intern, layout);
		mf_train_time_eval(&f->cost, &p, &best, NULL);
		cr_expect(le(dbl, best.step_ms, even.step_ms * 1.002), "%s: %s", plans[i], layout);
	}
	stop(f);
}
