/* explain.c: lines and terms of an explanation. */
#include "cost_internal.h"

#include <assert.h>
#include <string.h>

mf_term *mf_explain_term(mf_explain *ex, const char *name, double ms, const char *formula)
{
	mf_term *t;

	assert(ex->n_terms < MF_MAX_TERMS);
	t = &ex->terms[ex->n_terms++];
	memset(t, 0, sizeof(*t));
	t->name = name;
	t->ms = ms;
	t->formula = formula;
	return t;
}

void mf_explain_line(mf_explain *ex, const char *name, double bytes, const char *rule)
{
	mf_memory_line *l;

	assert(ex->n_lines < MF_MAX_LINES);
	assert(strlen(name) < sizeof(l->name));
	l = &ex->lines[ex->n_lines++];
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->bytes = bytes;
	l->rule = rule;
}
