/* What each tier adds: monotone by construction, flat on a small grid, moving where schedules differ. */
#include "inputs_fixture.h"
#include <math.h>
#include <string.h>

#include "ablate.h"

static void levels(const char *model, const char *cluster, mf_phase phase, mf_ledger ledger, double skew,
	mf_ablate_level out[MF_ABLATE_LEVELS])
{
	static mf_model m;
	static mf_cluster c;
	static mf_workload w;
	static mf_stack stack;
	static mf_site site;
	static mf_consts k;
	mf_search_opts opts = MF_SEARCH_OPTS_INIT;
	mf_inputs in;
	mf_search *s;
	mf_err err = {0};

	load_inputs(&in, &m, &c, &w, &stack, &site, model, cluster, NULL, NULL, phase);
	mf_consts_factory(&k, &c);
	w.max_violation = skew;
	opts.space = MF_SPACE_PAPER;
	opts.cost.ledger = ledger;
	opts.threads = 1;
	opts.tiers = 3;
	cr_assert_eq(mf_search_run(&s, &in, &k, &opts, &err), MF_OK, "%s", err.msg);
	cr_assert(mf_ablate(s, phase, out));
	mf_search_free(s);
	mf_intern_free(in.intern);
}

static void check_monotone(const mf_ablate_level l[MF_ABLATE_LEVELS])
{
	for (int i = 0; i < MF_ABLATE_LEVELS; i++)
		cr_assert(l[i].score > 0 && (i == 0 || l[i].score >= l[i - 1].score));
}

Test(ablate, small_grids_are_flat)
{
	mf_ablate_level l[MF_ABLATE_LEVELS];

	for (int phase = MF_TRAIN; phase <= MF_SERVE; phase++)
		for (int skewed = 0; skewed < 2; skewed++) {
			levels("small-moe-bench", "2xrtx4090", (mf_phase)phase, MF_LEDGER_FULL, skewed * 0.2, l);
			check_monotone(l);
			for (int i = 1; i < MF_ABLATE_LEVELS; i++) {
				cr_assert_eq(l[i].score, l[0].score);
				cr_assert_eq(l[i].kernel, 0);
				cr_assert_eq(memcmp(&l[i].plan, &l[0].plan, sizeof(l[0].plan)), 0);
			}
		}
}

Test(ablate, schedules_move_kimi_k2)
{
	mf_ablate_level l[MF_ABLATE_LEVELS];

	for (int skewed = 0; skewed < 2; skewed++) {
		levels("kimi-k2", "256x8xh800", MF_TRAIN, MF_LEDGER_PUBLISHED, skewed * 0.2, l);
		check_monotone(l);
		cr_assert_gt(l[1].score, l[0].score * 1.01, "%g to %g", (double)l[0].score, (double)l[1].score);
		cr_assert_eq(l[2].score, l[1].score, "without a report there is no kernel");
		cr_assert_gt(l[0].plan.ep, 64, "the regime of wide expert parallelism");
	}
}

/* The paper's former choice is over the budget under either ledger. */
Test(ablate, the_old_plan_of_kimi_k2_is_over_budget)
{
	static mf_model m;
	static mf_cluster c;
	static mf_workload w;
	static mf_stack stack;
	static mf_consts k;
	mf_plan p;
	mf_err err = {0};

	cr_assert_eq(mf_model_load(&m, "kimi-k2", &err), MF_OK);
	cr_assert_eq(mf_cluster_load(&c, "256x8xh800", &err), MF_OK);
	cr_assert_eq(mf_workload_load(&w, NULL, MF_TRAIN, &err), MF_OK);
	cr_assert_eq(mf_stack_load(&stack, NULL, MF_TRAIN, &err), MF_OK);
	mf_consts_factory(&k, &c);
	const mf_inputs in = {&m, &c, &w, &stack, NULL, NULL};
	cr_assert_eq(mf_plan_parse(&p, "tp1/pp4/ep128/dualpipe+ov", MF_TRAIN, NULL, &err), MF_OK);
	for (int ledger = MF_LEDGER_PUBLISHED; ledger <= MF_LEDGER_FULL; ledger++) {
		mf_cost_opts o = MF_COST_OPTS_INIT;
		mf_cost *cost;
		mf_memory mem;

		o.ledger = (mf_ledger)ledger;
		cr_assert_eq(mf_cost_new(&cost, &in, &k, &o, &err), MF_OK);
		mf_cost_memory(cost, &p, &mem);
		cr_assert_not(mem.fits);
		cr_assert_gt(mem.total_bytes, mem.budget_bytes);
		mf_cost_free(cost);
	}
}
