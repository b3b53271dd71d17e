/* The simulated training step: equal to the analytic one where nothing overlaps, and its schedules keep the rules. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "timeline.h"

typedef struct fixture {
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_consts consts;
	mf_inputs in;
	mf_cost *cost;
} fixture;

static fixture f;

static void rebuild(void)
{
	mf_err err = {0};

	mf_cost_free(f.cost);
	cr_assert_eq(mf_cost_new(&f.cost, &f.in, &f.consts, NULL, &err), MF_OK, "%s", err.msg);
}

static void open_inputs(const char *model, const char *cluster)
{
	mf_err err = {0};

	memset(&f, 0, sizeof(f));
	cr_assert_eq(mf_model_load(&f.model, model, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_cluster_load(&f.cluster, cluster, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_workload_load(&f.workload, NULL, MF_TRAIN, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_stack_load(&f.stack, NULL, MF_TRAIN, &err), MF_OK, "%s", err.msg);
	mf_consts_factory(&f.consts, &f.cluster);
	f.in = (mf_inputs){&f.model, &f.cluster, &f.workload, &f.stack, NULL, mf_intern_new()};
	rebuild();
}

/* Nothing may run beside anything else. */
static void serialize(void)
{
	f.stack.overlap_grad_reduce = f.stack.overlap_param_gather = f.stack.shared_expert_overlap = false;
	rebuild();
}

static void close_inputs(void)
{
	mf_cost_free(f.cost);
	mf_intern_free(f.in.intern);
	memset(&f, 0, sizeof(f));
}

static mf_plan plan(const char *text)
{
	mf_plan p;
	mf_err err = {0};

	cr_assert_eq(mf_plan_parse(&p, text, MF_TRAIN, f.in.intern, &err), MF_OK, "%s: %s", text, err.msg);
	return p;
}

static mf_simulated simulate(const char *text)
{
	const mf_plan p = plan(text);
	mf_simulated s;

	mf_cost_simulate(f.cost, &p, &s);
	cr_assert(s.step_ms > 0, "%s", text);
	return s;
}

static mf_time analytic(const char *text)
{
	const mf_plan p = plan(text);
	mf_time t;

	mf_cost_time(f.cost, &p, &t);
	return t;
}

TestSuite(sim_train, .fini = close_inputs);

Test(sim_train, without_overlap_it_is_the_analytic_sum)
{
	static const char *const texts[] = {"tp1/pp1/ep8/1f1b", "tp1/pp1/ep1/1f1b", "tp2/pp1/ep4/1f1b",
		"tp1/pp1/ep8/dualpipe", "tp1/pp1/ep8/1f1b/zero1_offload", "tp1/pp1/ep8/1f1b/rc:full",
		"tp1/cp2/pp1/ep4/1f1b", "tp1/pp1/ep8/1f1b/mb2"};

	open_inputs("deepseek-v2-lite", "8xh800");
	serialize();
	for (size_t i = 0; i < MF_COUNT(texts); i++) {
		const mf_simulated s = simulate(texts[i]);
		const mf_time t = analytic(texts[i]);

		cr_assert(fabs(s.step_ms / t.step_ms - 1) < 1e-9, "%s: %.9g simulated, %.9g analytic", texts[i],
			s.step_ms, t.step_ms);
		cr_assert(fabs(s.throughput / t.throughput - 1) < 1e-9, "%s", texts[i]);
	}
	/* DualPipe without overlap is the same formula on any number of stages. */
	close_inputs();
	open_inputs("deepseek-v3", "256x8xh800");
	serialize();
	cr_assert(fabs(simulate("tp1/pp16/ep32/dualpipe").step_ms / analytic("tp1/pp16/ep32/dualpipe").step_ms - 1) <
		  1e-9);
}

/* On a pipeline the closed form spreads embedding and head over the fill; the schedule has them where they are. */
Test(sim_train, pipelines_without_overlap_come_close_to_the_closed_form)
{
	static const char *const texts[] = {"tp1/pp2/ep8/1f1b", "tp1/pp4/ep8/1f1b", "tp1/pp8/ep8/1f1b",
		"tp1/pp4/v3/ep8/interleaved", "tp1/pp8/v2/ep8/interleaved"};

	open_inputs("qwen3-30b-a3b", "8x8xh800");
	serialize();
	for (size_t i = 0; i < MF_COUNT(texts); i++) {
		const double r = simulate(texts[i]).step_ms / analytic(texts[i]).step_ms;

		cr_assert(r > 0.97 && r < 1.01, "%s: %.4f of the closed form", texts[i], r);
	}
}

Test(sim_train, equal_questions_have_equal_answers_to_the_bit)
{
	static const char *const texts[] = {"tp1/pp4/ep8/1f1b+ov", "tp1/pp4/v2/ep8/interleaved+ov",
		"tp1/pp1/ep8/1f1b+ov", "tp1/pp4/ep8/dualpipe+ov/ch4/pl:comm_first", "tp1/pp4/ep8/1f1b+ov"};
	mf_simulated first[MF_COUNT(texts)];

	open_inputs("qwen3-30b-a3b", "8x8xh800");
	for (size_t i = 0; i < MF_COUNT(texts); i++)
		first[i] = simulate(texts[i]);
	rebuild();
	for (size_t i = MF_COUNT(texts); i-- > 0;) {
		const mf_simulated again = simulate(texts[i]);
		cr_assert_eq(memcmp(&again, &first[i], sizeof(again)), 0, "%s", texts[i]);
	}
}

Test(sim_train, overlap_gains_where_the_gpu_is_busy_and_loses_where_the_host_is_late)
{
	open_inputs("mixtral-8x7b", "8xh800");
	const mf_simulated large = simulate("tp1/pp1/ep8/1f1b+ov");

	cr_assert_gt(large.throughput, simulate("tp1/pp1/ep8/1f1b").throughput);
	cr_assert(large.hidden_fraction > 0.3 && large.hidden_fraction < 1, "%g", large.hidden_fraction);
	close_inputs();
	/* A small layer: the host issues launches more slowly than the GPU runs them, and overlap adds to them. */
	open_inputs("small-moe-bench", "2xrtx4090");
	f.workload.seq = 512;
	rebuild();
	const mf_simulated small = simulate("tp1/pp1/ep2/1f1b+ov");

	cr_assert_lt(small.throughput, simulate("tp1/pp1/ep2/1f1b").throughput);
	cr_assert_lt(small.hidden_fraction, 0, "a loss has its sign: %g", small.hidden_fraction);
}

Test(sim_train, communication_takes_its_sms_from_compute)
{
	mf_err err = {0};

	open_inputs("mixtral-8x7b", "8xh800");
	cr_assert_eq(mf_stack_load(&f.stack, "megatron-0.18.0-deepep", MF_TRAIN, &err), MF_OK, "%s", err.msg);
	rebuild();
	const double by_itself = simulate("tp1/pp1/ep8/1f1b+ov/disp:deepep").throughput;

	cr_assert_gt(by_itself, simulate("tp1/pp1/ep8/1f1b+ov/disp:deepep/sm80").throughput, "compute starves");
	cr_assert_gt(by_itself, simulate("tp1/pp1/ep8/1f1b+ov/disp:deepep/sm4").throughput, "the exchange starves");
}

Test(sim_train, a_delayed_weight_gradient_fills_the_gaps)
{
	open_inputs("deepseek-v3", "256x8xh800");
	f.stack.delay_wgrad = false;
	rebuild();
	const double fused = simulate("tp1/pp8/ep32/dualpipe+ov/pl:comm_first").throughput;

	f.stack.delay_wgrad = true;
	rebuild();
	cr_assert_geq(simulate("tp1/pp8/ep32/dualpipe+ov/pl:comm_first").throughput, fused);
}

static mf_timeline timeline(const char *text)
{
	const mf_plan p = plan(text);
	mf_timeline t;
	mf_err err = {0};

	cr_assert_eq(mf_cost_timeline(f.cost, &p, &t, &err), MF_OK, "%s: %s", text, err.msg);
	return t;
}

static void check_streams(const mf_bar *bars, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++) {
		cr_assert(
			bars[i].start_ms >= -1e-9 && bars[i].end_ms > bars[i].start_ms, "%s: %s", text, bars[i].label);
		for (size_t k = 0; k < i; k++)
			cr_assert(bars[i].lane != bars[k].lane || bars[i].start_ms >= bars[k].end_ms - 1e-9 ||
					  bars[k].start_ms >= bars[i].end_ms - 1e-9,
				"%s: %s and %s share a stream", text, bars[k].label, bars[i].label);
	}
}

Test(sim_train, bars_keep_to_their_streams_and_layers_in_order)
{
	static const char *const texts[] = {"tp1/pp1/ep8/1f1b", "tp1/pp1/ep8/1f1b+ov", "tp1/pp1/ep8/1f1b+ov/ch4",
		"tp1/pp1/ep8/1f1b+ov/pl:comm_first", "tp1/pp1/ep8/dualpipe+ov/ch200/pl:compute_first"};

	open_inputs("deepseek-v2-lite", "8xh800");
	for (size_t i = 0; i < MF_COUNT(texts); i++) {
		mf_timeline t = timeline(texts[i]);
		const mf_simulated s = simulate(texts[i]);

		cr_assert_eq(memcmp(&t.sum, &s, sizeof(s)), 0, "%s: the timeline is of another step", texts[i]);
		check_streams(t.layers, t.n_layers, texts[i]);
		/* Within a layer attention comes before its dispatch, dispatch before combine. */
		for (size_t a = 0; a < t.n_layers; a++)
			for (size_t b = 0; b < t.n_layers; b++) {
				const mf_bar *x = &t.layers[a], *y = &t.layers[b];

				if (x->chunk != y->chunk)
					continue;
				if (strcmp(x->label, "attention") == 0 && strcmp(y->label, "dispatch") == 0)
					cr_assert(y->start_ms >= x->end_ms - 1e-9, "%s: layer %u", texts[i], x->chunk);
				if (strcmp(x->label, "combine'") == 0 && strcmp(y->label, "attention'") == 0)
					cr_assert(y->start_ms >= x->end_ms - 1e-9, "%s: layer %u", texts[i], x->chunk);
			}
		mf_timeline_dispose(&t);
	}
}

static const mf_bar *find(const mf_timeline *t, unsigned stage, unsigned chunk, int micro, bool backward)
{
	for (size_t i = 0; i < t->n_step; i++) {
		const mf_bar *b = &t->step[i];
		if (b->stage == stage && b->chunk == chunk && b->micro_batch == micro && b->backward == backward)
			return b;
	}
	return NULL;
}

static void check_passes(const char *text, unsigned pp, unsigned vpp)
{
	mf_timeline t = timeline(text);
	int m = 0;

	for (size_t i = 0; i < t.n_step; i++)
		m = t.step[i].micro_batch >= m ? t.step[i].micro_batch + 1 : m;
	for (int micro = 0; micro < m; micro++)
		for (unsigned v = 0; v < pp * vpp; v++) {
			const mf_bar *fwd = find(&t, v % pp, v / pp, micro, false);
			const mf_bar *back = find(&t, v % pp, v / pp, micro, true);

			cr_assert(fwd && back, "%s: micro-batch %d never passed stage %u", text, micro, v);
			cr_assert(back->start_ms >= fwd->end_ms - 1e-9, "%s: backward before forward", text);
			if (v + 1 < pp * vpp) {
				const mf_bar *next = find(&t, (v + 1) % pp, (v + 1) / pp, micro, false);
				const mf_bar *from = find(&t, (v + 1) % pp, (v + 1) / pp, micro, true);

				cr_assert(next->start_ms >= fwd->end_ms - 1e-9, "%s: forward %d at %u", text, micro, v);
				cr_assert(
					back->start_ms >= from->end_ms - 1e-9, "%s: backward %d at %u", text, micro, v);
			}
		}
	mf_timeline_dispose(&t);
}

Test(sim_train, micro_batches_pass_the_stages_in_order)
{
	open_inputs("qwen3-30b-a3b", "8x8xh800");
	check_passes("tp1/pp4/ep8/1f1b", 4, 1);
	check_passes("tp1/pp4/ep8/1f1b+ov", 4, 1);
	check_passes("tp1/pp4/v3/ep8/interleaved", 4, 3);
	check_passes("tp1/pp4/v3/ep8/interleaved+ov", 4, 3);
	/* Micro-batches that do not fill the last group. */
	f.workload.global_batch = 16 * 5;
	rebuild();
	check_passes("tp1/pp4/v3/ep8/interleaved", 4, 3);
	f.workload.global_batch = 16;
	rebuild();
	check_passes("tp1/pp4/ep8/1f1b+ov", 4, 1);
}

/* A longer step repeats the steady state: micro-batches that are not run through cost what those that are do. */
Test(sim_train, steady_state_stands_for_the_rest)
{
	static const char *const texts[] = {"tp1/pp4/ep8/1f1b", "tp1/pp4/ep8/1f1b+ov", "tp1/pp4/v3/ep8/interleaved",
		"tp1/pp4/v3/ep8/interleaved+ov"};

	open_inputs("qwen3-30b-a3b", "8x8xh800");
	for (size_t i = 0; i < MF_COUNT(texts); i++) {
		double step[4];

		for (uint32_t k = 0; k < 4; k++) {
			/* 8, 12 micro-batches are run through, 16 and 64 are not. */
			f.workload.global_batch = 16 * (uint32_t[]){8, 12, 16, 64}[k];
			rebuild();
			step[k] = simulate(texts[i]).step_ms;
		}
		const double each = (step[1] - step[0]) / 4;
		/* Pairs of chunks settle over several groups. */
		const double tolerance = i == 3 ? 1e-2 : 1e-3;
		cr_assert(fabs((step[2] - step[1]) / 4 / each - 1) < tolerance, "%s: %g and %g a micro-batch", texts[i],
			(step[2] - step[1]) / 4, each);
		cr_assert(fabs((step[3] - step[2]) / 48 / each - 1) < tolerance, "%s: %g and %g a micro-batch",
			texts[i], (step[3] - step[2]) / 48, each);
	}
}

/* B8: with an offloaded optimizer under overlap the copies and the exchange share an engine. */
Test(sim_train, copies_and_exchange_share_the_copy_engine)
{
	open_inputs("deepseek-v2-lite", "8xh800");
	mf_timeline plain = timeline("tp1/pp1/ep8/1f1b/zero1_offload"),
		    ov = timeline("tp1/pp1/ep8/1f1b+ov/zero1_offload");
	double copied = 0, alone = 0;

	for (size_t i = 0; i < ov.n_step; i++)
		if (strcmp(ov.step[i].label, "copy gradients") == 0)
			copied += ov.step[i].end_ms - ov.step[i].start_ms;
	for (size_t i = 0; i < plain.n_step; i++)
		if (plain.step[i].lane == MF_LANE_COPY)
			alone += plain.step[i].end_ms - plain.step[i].start_ms;
	cr_assert_gt(
		copied, alone / 2 * 1.02, "copies take %g ms beside the exchange, %g without it", copied, alone / 2);
	mf_timeline_dispose(&plain);
	mf_timeline_dispose(&ov);
}

Test(sim_train, what_cannot_be_laid_out_is_not_a_number)
{
	mf_timeline t;
	mf_simulated s;
	mf_err err = {0};

	open_inputs("deepseek-v2-lite", "8xh800");
	mf_plan p = plan("tp1/pp1/ep3/1f1b");
	mf_cost_simulate(f.cost, &p, &s);
	cr_assert(isnan(s.step_ms) && isnan(s.throughput));
	cr_assert_eq(mf_cost_timeline(f.cost, &p, &t, &err), MF_EINPUT);
}

Test(timeline, a_bar_covers_the_columns_of_its_time_and_at_least_one)
{
	const struct {
		double start_ms, end_ms;
		int first, end; /* end 0: outside */
	} cases[] = {
		{10, 20, 0, 10}, /* all of it */
		{12, 15, 2, 5},
		{12.01, 12.02, 2, 3}, /* less than a column */
		{5, 12, 0, 2},        /* from before */
		{19.5, 30, 9, 10},    /* to behind */
		{20, 20, 9, 10},      /* the very end */
		{5, 10, 0, 0},
		{20, 25, 0, 0},
	};

	for (size_t i = 0; i < MF_COUNT(cases); i++) {
		const mf_bar b = {.label = "x", .start_ms = cases[i].start_ms, .end_ms = cases[i].end_ms};
		int first = 0, end = 0;

		cr_expect_eq(mf_bar_columns(&b, 10, 20, 10, &first, &end), cases[i].end > 0, "%zu", i);
		cr_expect(cases[i].end == 0 || (first == cases[i].first && end == cases[i].end), "%zu: %d to %d", i,
			first, end);
	}
	cr_expect_not(mf_bar_columns(&(mf_bar){.label = "x"}, 0, 0, 10, &(int){0}, &(int){0}));
}
