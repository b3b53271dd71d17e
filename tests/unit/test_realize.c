/* test_realize.c: the predicate, the wording of its refusals, the catalogue and the notes about the paper's emitter. */
#include "inputs_fixture.h"
#include <math.h>
#include <string.h>

#include "realize.h"

typedef struct fixture {
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
} fixture;

static fixture f;

static void open_inputs(const char *model, const char *cluster, mf_phase phase, mf_ledger ledger)
{
	mf_cost_opts opts = MF_COST_OPTS_INIT;
	mf_err err = {0};

	opts.ledger = ledger;
	LOAD_INPUTS(f, model, cluster, NULL, NULL, phase);
	mf_consts_factory(&f.consts, &f.cluster);
	cr_assert_eq(mf_emitter_new(&f.emitter, &f.in, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_cost_new(&f.cost, &f.in, &f.consts, &opts, &err), MF_OK, "%s", err.msg);
	f.realizer = (mf_realizer){f.emitter, f.cost, false};
}

static void close_inputs(void)
{
	mf_cost_free(f.cost);
	mf_emitter_free(f.emitter);
	mf_intern_free(f.in.intern);
	memset(&f, 0, sizeof(f));
}

static mf_plan plan(const char *text)
{
	mf_err err = {0};
	mf_plan p;

	cr_assert_eq(mf_plan_parse(&p, text, f.workload.phase, f.in.intern, &err), MF_OK, "%s: %s", text, err.msg);
	return p;
}

TestSuite(realize, .fini = close_inputs);

Test(realize, dualpipe_is_refused_by_the_dry_run)
{
	mf_verdict v;
	mf_refusal r;

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN, MF_LEDGER_PUBLISHED);
	mf_plan p = plan("tp1/pp1/ep8/dualpipe+ov");
	mf_realize(&f.realizer, &p, &v);
	cr_assert_gt(v.rule, MF_RULE_MEMORY);
	cr_assert(isnan(v.memory.total_bytes), "memory of a plan refused before the gate is unknown");
	cr_assert_eq(mf_realize_explain(&f.realizer, &p, &r), MF_OK);
	cr_assert_str_eq(r.kind, "not_implemented");
	cr_assert_str_eq(r.boundary, "B1");
	cr_assert_neq(r.reason[0], '\0');
}

Test(realize, always_memory_fills_refused_plans_too)
{
	mf_verdict v;

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN, MF_LEDGER_PUBLISHED);
	f.realizer.always_memory = true;
	mf_plan p = plan("tp1/pp1/ep8/dualpipe+ov");
	mf_realize(&f.realizer, &p, &v);
	cr_assert_gt(v.rule, MF_RULE_MEMORY);
	cr_assert_gt(v.memory.total_bytes, 0);
	cr_assert_not(v.probe);
}

Test(realize, layers_that_do_not_divide_are_invalid)
{
	mf_refusal r;

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN, MF_LEDGER_PUBLISHED);
	mf_plan p = plan("tp1/pp2/ep4/1f1b");
	cr_assert_eq(mf_realize_explain(&f.realizer, &p, &r), MF_OK);
	cr_assert_str_eq(r.kind, "invalid_value");
	cr_assert(strstr(r.rule, "mcore."), "%s", r.rule);
}

Test(realize, memory_gate_speaks_last_and_in_gigabytes)
{
	mf_verdict v;
	mf_refusal r;

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN, MF_LEDGER_PUBLISHED);
	mf_plan p = plan("tp1/pp1/ep1/1f1b");
	mf_realize(&f.realizer, &p, &v);
	cr_assert_eq(v.rule, MF_RULE_MEMORY);
	cr_assert_gt(v.memory.total_bytes, v.memory.budget_bytes);
	cr_assert_eq(mf_realize_explain(&f.realizer, &p, &r), MF_OK);
	cr_assert_str_eq(r.stage, "memory gate");
	cr_assert(strstr(r.reason, "GB needed, 72.0 GB budget"), "%s", r.reason);
}

Test(realize, a_buildable_plan_has_no_refusal)
{
	mf_verdict v;
	mf_refusal r;

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN, MF_LEDGER_PUBLISHED);
	mf_plan p = plan("tp1/pp1/ep8/1f1b+ov");
	mf_realize(&f.realizer, &p, &v);
	cr_assert_eq(v.rule, MF_RULE_NONE);
	cr_assert_eq(mf_realize_explain(&f.realizer, &p, &r), MF_OK);
	cr_assert_str_eq(r.rule, "");
	cr_assert_str_eq(r.reason, "");
}

Test(realize, notes_what_the_papers_emitter_said_otherwise)
{
	char note[256];

	open_inputs("deepseek-v2-lite", "8xh800", MF_TRAIN, MF_LEDGER_PUBLISHED);
	mf_plan p = plan("tp1/pp1/ep8/1f1b+ov");
	mf_paper_note(&p, &f.in, note);
	cr_assert_str_eq(note, "");
	p = plan("tp1/pp1/ep1/1f1b+ov");
	mf_paper_note(&p, &f.in, note);
	cr_assert_neq(note[0], '\0');
	p = plan("tp1/pp2/ep4/1f1b");
	mf_paper_note(&p, &f.in, note);
	cr_assert(strstr(note, "B2"), "%s", note);
}

Test(realize, serving_ep4_on_eight_gpus_is_the_papers_b5)
{
	char note[256];

	open_inputs("deepseek-v2-lite", "8xh800", MF_SERVE, MF_LEDGER_FULL);
	mf_plan p = plan("tp1/pp1/ep4");
	mf_paper_note(&p, &f.in, note);
	cr_assert(strstr(note, "B5"), "%s", note);
	p = plan("tp1/pp1/ep8");
	mf_paper_note(&p, &f.in, note);
	cr_assert_str_eq(note, "");
}

Test(realize, catalogue_names_every_boundary_of_the_rules)
{
	for (int i = 1; i < MF_RULE_COUNT; i++) {
		const mf_rule *r = mf_rule_get((mf_rule_id)i);
		bool found = false;

		for (const mf_boundary *b = mf_boundaries; b->id && !found; b++)
			found = strcmp(b->id, r->boundary) == 0;
		cr_expect(found, "rule %s: boundary \"%s\" is not in the catalogue", r->id, r->boundary);
	}
}
