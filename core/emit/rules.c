/* rules.c: the table of all refusals, numbered as in emit.h. */
#include "emit.h"

#include <assert.h>

static const mf_rule rules[MF_RULE_COUNT] = {
	[MF_RULE_NONE] = {"", "", "", MF_KIND_NONE, "", "", "", "no refusal", MF_READ, false},
	[MF_RULE_MEMORY] = {"memory", "memory", "memory", MF_INVALID_VALUE, "", "", "core/cost",
		"the ledger's total of the worst stage exceeds the budget", MF_READ, false},
#define R(id, name, boundary, stage, kind, exception, text, where, when, evidence, rewrite)                            \
	[MF_R_##id] = {name, boundary, stage, kind, exception, text, where, when, evidence, rewrite},
#include "megatron_rules.def"
#include "sglang_rules.def"
#undef R
};

#define UNWRITTEN "never written"
#define WRITTEN "always written"
#define INPUTS "refused when read"
#define SHADOWED "shadowed"
#define NO_PLAN "no plan"
const mf_ruled_out mf_rules_ruled_out[] = {
#define N(name, how, why) {name, how, why},
#include "ruled_out.def"
#undef N
	{NULL, NULL, NULL},
};

const mf_choice mf_kind_choices[] = {
	{MF_KIND_NONE, "none", "not refused"},
	{MF_NOT_IMPLEMENTED, "not_implemented", "the toolchain lacks this"},
	{MF_INVALID_VALUE, "invalid_value", "the toolchain has this, but not with these values"},
	{0, NULL, NULL},
};

const mf_rule *mf_rule_get(mf_rule_id id)
{
	assert(id < MF_RULE_COUNT);
	return &rules[id];
}
