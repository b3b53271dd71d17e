/* inputs_fixture.h: everything a plan is judged against, loaded by name for a test. */
#ifndef INPUTS_FIXTURE_H
#define INPUTS_FIXTURE_H

#include "plan.h"
#include <criterion/criterion.h>

/* Fills the parts and points `in` at them; the caller frees in->intern. Workload and stack may be NULL: the phase's own. */
static inline void load_inputs(mf_inputs *in, mf_model *m, mf_cluster *c, mf_workload *w, mf_stack *s, mf_site *site,
	const char *model, const char *cluster, const char *workload, const char *stack, mf_phase phase)
{
	mf_err err = {0};

	cr_assert_eq(mf_model_load(m, model, &err), MF_OK, "%s: %s", model, err.msg);
	cr_assert_eq(mf_cluster_load(c, cluster, &err), MF_OK, "%s: %s", cluster, err.msg);
	cr_assert_eq(mf_workload_load(w, workload, phase, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_stack_load(s, stack, phase, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_site_load(site, NULL, &err), MF_OK, "%s", err.msg);
	*in = (mf_inputs){m, c, w, s, site, mf_intern_new()};
}

/* The same for a struct that has them as fields. */
#define LOAD_INPUTS(s, ...)                                                                                            \
	load_inputs(&(s).in, &(s).model, &(s).cluster, &(s).workload, &(s).stack, &(s).site, __VA_ARGS__)

#endif
