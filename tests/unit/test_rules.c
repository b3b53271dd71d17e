/* The tables of rules: every number of the toolchains' notes is a guard or is ruled out, never both. */
#include "emit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Families of the notes and the last number of each, ours behind the notes' included. */
static const struct {
	const char *family;
	int last;
} families[] = {
	{"mcore.W", 21},
	{"mcore.B", 7},
	{"mcore.P", 40},
	{"mcore.H", 21},
	{"mcore.M", 46},
	{"mcore.E", 26},
	{"mcore.R", 27},
	{"mcore.T", 4},
	{"mcore.O", 19},
	{"mcore.F", 14},
	{"mcore.Q", 6},
	{"mcore.I", 5},
	{"mcore.D", 8},
	{"sglang.A", 15},
	{"sglang.B", 7},
	{"sglang.C", 23},
	{"sglang.D", 13},
	{"sglang.E", 24},
	{"sglang.G", 7},
	{"sglang.K", 16},
	{"sglang.L", 8},
	{"sglang.M", 28},
	{"sglang.R", 5},
	{"sglang.S", 13},
	{"sglang.T", 7},
	{"sglang.W", 35},
	{"sglang.X", 26},
};

static bool is_guard(const char *id)
{
	for (mf_rule_id i = 1; i < MF_RULE_COUNT; i++)
		if (strcmp(mf_rule_get(i)->id, id) == 0)
			return true;
	return false;
}

static int times_ruled_out(const char *id)
{
	int n = 0;

	for (const mf_ruled_out *r = mf_rules_ruled_out; r->id; r++)
		n += strcmp(r->id, id) == 0;
	return n;
}

Test(rules, every_number_is_a_guard_or_ruled_out)
{
	for (size_t f = 0; f < MF_COUNT(families); f++) {
		for (int n = 1; n <= families[f].last; n++) {
			char id[32];

			snprintf(id, sizeof id, strncmp(families[f].family, "sglang", 6) == 0 ? "%s%02d" : "%s%d",
				families[f].family, n);
			cr_expect_eq(is_guard(id) + times_ruled_out(id), 1, "%s: %s", id,
				is_guard(id) ? "a guard and ruled out" : "neither a guard nor ruled out once");
		}
	}
}

Test(rules, a_reason_is_given_for_each)
{
	for (const mf_ruled_out *r = mf_rules_ruled_out; r->id; r++)
		cr_expect(r->how[0] && r->why[0], "%s", r->id);
	for (mf_rule_id i = MF_RULE_MEMORY; i < MF_RULE_COUNT; i++) {
		const mf_rule *r = mf_rule_get(i);

		cr_expect(r->id[0] && r->stage[0] && r->when[0] && r->boundary[0], "%u %s", i, r->id);
		cr_expect(!strchr(r->when, '|') && !strchr(r->where, '|'), "%s would break the table", r->id);
	}
}
