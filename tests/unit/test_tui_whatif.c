/* Assumptions: what can be changed, that it can be taken back, and where the plans went. */
#include "tui_fixture.h"

static const char *text_of(mf_action action)
{
	static char text[256];
	mf_knob_text(&t.app.now, mf_knob_of(&t.app, action), text, sizeof(text));
	return text;
}

static void command(const char *line)
{
	settle(mf_app_command(&t.app, line));
}

static void press(mf_key key)
{
	mf_key_event k = {key, 0, 0, 0};
	settle(mf_app_key(&t.app, &k));
}

Test(whatif, every_assumption_reads_back_what_it_says, .init = start, .fini = stop)
{
	const mf_knob *k;
	int n = 0;

	for (; (k = mf_knob_at(&t.app, n)) != NULL; n++) {
		char was[256], is[256];
		cr_assert_eq(mf_knob_of(&t.app, k->action), k);
		mf_knob_text(&t.app.now, k, was, sizeof(was));
		settle(mf_knob_set(&t.app, k, was));
		cr_assert_eq(t.app.message[0], 0, "%s %s: %s", mf_tui_keys[k->action - 1].name, was, t.app.message);
		mf_knob_text(&t.app.now, k, is, sizeof(is));
		cr_assert_str_eq(is, was);
	}
	cr_assert(n >= 14);
	cr_assert_eq(t.app.n_past, 0, "setting what is set already is no change");
}

Test(whatif, every_assumption_turns_both_ways_and_comes_back, .init = start, .fini = stop)
{
	const mf_knob *k;

	for (int i = 0; (k = mf_knob_at(&t.app, i)) != NULL; i++) {
		char was[256], is[256];
		mf_knob_text(&t.app.now, k, was, sizeof(was));
		settle(mf_knob_turn(&t.app, k, 1));
		if (t.app.n_past == 0)
			continue; /* a list has no next */
		settle(mf_whatif_step(&t.app, -1));
		mf_knob_text(&t.app.now, k, is, sizeof(is));
		cr_assert_str_eq(is, was, "%s", mf_tui_keys[k->action - 1].name);
		cr_assert_eq(memcmp(&t.app.now, &t.app.defaults, sizeof(t.app.now)), 0);
		t.app.n_future = 0;
	}
}

Test(whatif, a_bad_value_changes_nothing_and_says_so, .init = start, .fini = stop)
{
	static const char *const bad[] = {"nodes 0", "nodes x", "nodes 2x", "skew -1", "micro-batch 1,,2",
		"micro-batch 1,", "micro-batch 0", "micro-batch 1,2,3,4,5,6,7,8,9", "toolchain sglang-0.5.15",
		"stack nosuch", "graphs some", "tax maybe", "mem-fraction 2", "input 100", "overlay nosuch",
		"seq 1e99"};

	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		t.app.message[0] = 0;
		command(bad[i]);
		cr_assert(t.app.message[0] && t.app.message_is_error, "%s", bad[i]);
		cr_assert_eq(memcmp(&t.app.now, &t.app.defaults, sizeof(t.app.now)), 0, "%s", bad[i]);
	}
	cr_assert_eq(t.app.n_past, 0);
}

Test(whatif, undo_and_redo_walk_the_same_path, .init = start, .fini = stop)
{
	size_t rows = t.app.n_rows;

	command("nodes 2");
	command("skew 0.5");
	press('x');
	cr_assert_str_eq(text_of(MF_ACT_TAX), "off");
	size_t wider = t.app.n_rows;
	cr_assert_neq(wider, rows);
	press('u');
	cr_assert_str_eq(text_of(MF_ACT_TAX), "on");
	cr_assert_eq(t.app.n_rows, wider, "the tax needs no search");
	press('u');
	cr_assert_str_eq(text_of(MF_ACT_SKEW), "0");
	press('u');
	cr_assert_str_eq(text_of(MF_ACT_NODES), "1");
	cr_assert_eq(t.app.n_rows, rows);
	press('u');
	cr_assert_str_eq(t.app.message, "nothing to undo");
	for (int i = 0; i < 3; i++)
		press(18);
	cr_assert_str_eq(text_of(MF_ACT_NODES), "2");
	cr_assert_str_eq(text_of(MF_ACT_SKEW), "0.5");
	cr_assert_str_eq(text_of(MF_ACT_TAX), "off");
	press('u');
	command("nodes 1");
	press(18);
	cr_assert_str_eq(t.app.message, "nothing to redo", "a new change ends the old future");
}

Test(whatif, undo_brings_a_model_and_a_cluster_back, .init = start, .fini = stop)
{
	command("model olmoe");
	command("cluster 8xh200");
	cr_assert_str_eq(t.app.now.model.name, "olmoe");
	press('u');
	cr_assert_str_eq(t.app.now.cluster.name, "8xh800");
	press('u');
	cr_assert_str_eq(t.app.now.model.name, "deepseek-v2-lite");
	cr_assert(t.app.n_rows > 0 && mf_app_selected(&t.app));
	press(18);
	cr_assert_str_eq(t.app.now.model.name, "olmoe");
}

Test(whatif, undo_remembers_a_bounded_number_of_changes, .init = start, .fini = stop)
{
	for (int i = 0; i < MF_UNDO + 5; i++)
		press('x');
	for (int i = 0; i < MF_UNDO; i++)
		press('u');
	cr_assert_eq(t.app.message[0], 0);
	press('u');
	cr_assert_str_eq(t.app.message, "nothing to undo");
}

Test(whatif, words_name_what_differs_and_nothing_else, .init = start, .fini = stop)
{
	char words[512];

	cr_assert_eq(mf_whatif_words(&t.app, words, sizeof(words)), 0);
	cr_assert_str_eq(words, "");
	command("nodes 2");
	press('x');
	cr_assert_eq(mf_whatif_words(&t.app, words, sizeof(words)), 2);
	cr_assert_str_eq(words, "tax off (on), nodes 2 (1)");
	command("defaults");
	cr_assert_eq(mf_whatif_words(&t.app, words, sizeof(words)), 0);
	cr_assert_str_eq(text_of(MF_ACT_NODES), "1");
	press('u');
	cr_assert_str_eq(text_of(MF_ACT_NODES), "2", "going to the start can be undone as well");
	cr_assert_str_eq(text_of(MF_ACT_TAX), "off");
}

Test(whatif, ranks_before_are_those_before, .init = start, .fini = stop)
{
	/* Every plan's old rank, kept aside. */
	size_t n = t.app.n_rows;
	mf_plan *plan = malloc(n * sizeof(*plan));
	uint32_t *rank = malloc(n * sizeof(*rank));
	for (size_t i = 0; i < n; i++)
		plan[i] = t.app.rows[i].plan, rank[i] = t.app.rank_of[i];
	cr_assert_not(mf_before_any(&t.app.before, t.app.rows_id), "nothing changed yet");
	command("skew 1.5");
	cr_assert(mf_before_any(&t.app.before, t.app.rows_id));
	size_t moved = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t was = mf_before_rank(&t.app.before, &plan[i], MF_NO_ROW, t.app.rows_id);
		cr_assert_eq(was, rank[i]);
	}
	for (size_t i = 0; i < t.app.n_rows; i++)
		moved += mf_before_rank(&t.app.before, &t.app.rows[i].plan, (uint32_t)i, t.app.rows_id) !=
			 t.app.rank_of[i];
	cr_assert(moved > 0, "a skew of 1.5 moves something");
	/* A filter and a sort move no rank. */
	command("filter ep8");
	command("sort memory");
	cr_assert_eq(mf_before_rank(&t.app.before, &plan[0], MF_NO_ROW, t.app.rows_id), rank[0]);
	free(plan);
	free(rank);
}

Test(whatif, several_overlays_lie_over_each_other, .init = start, .fini = stop)
{
	command("overlay h800,rtx4090");
	cr_assert_eq(t.app.message[0], 0, "%s", t.app.message);
	cr_assert_str_eq(t.app.now.overlay, "h800,rtx4090");
	command("overlay h800,nosuch");
	cr_assert(t.app.message_is_error);
	cr_assert_str_eq(t.app.now.overlay, "h800,rtx4090");
}

Test(whatif, boundaries_lead_to_their_plans, .init = start, .fini = stop)
{
	press('b');
	cr_assert_eq(t.app.panel, MF_PANEL_BOUNDARIES);
	uint64_t count = t.app.reasons[0].count;
	press(MF_KEY_ENTER);
	cr_assert_eq(t.app.panel, MF_PANEL_NONE);
	cr_assert_eq(t.app.n_view, count, "%zu", t.app.n_view);
}

Test(whatif, from_a_refused_plan_one_key_leads_to_the_nearest_that_can_be_built, .init = start, .fini = stop)
{
	press('g');
	const mf_row *row = mf_app_selected(&t.app);
	cr_assert_neq(row->rule, MF_RULE_NONE);
	mf_plan from = row->plan;
	press('a');
	row = mf_app_selected(&t.app);
	cr_assert_eq(row->rule, MF_RULE_NONE);
	int changes = 0, least = 1000;
	for (int k = 0; mf_plan_dims[k].name; k++)
		changes += mf_dim_get(&row->plan, k) != mf_dim_get(&from, k);
	for (size_t i = 0; i < t.app.n_rows; i++) {
		int n = 0;
		for (int k = 0; mf_plan_dims[k].name; k++)
			n += mf_dim_get(&t.app.rows[i].plan, k) != mf_dim_get(&from, k);
		if (t.app.rows[i].rule == MF_RULE_NONE && n < least)
			least = n;
	}
	cr_assert_eq(changes, least);
	press('a');
	cr_assert_str_eq(t.app.message, "this plan can be built");
}
