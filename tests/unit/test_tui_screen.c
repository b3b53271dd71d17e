/* The screen over a real search: every size, every tab and panel; themes as shipped; the worker's answers. */
#include "tui_fixture.h"

/* Cells are whole: a wide character has its right half, and no half stands alone. */
static void check_cells(const mf_cells *s)
{
	for (int y = 0; y < s->h; y++)
		for (int x = 0; x < s->w; x++) {
			const mf_cell *c = &s->cell[y * s->w + x];
			cr_assert(c->role < MF_ROLE_COUNT && c->width <= 2);
			cr_assert(c->width != 2 || (x + 1 < s->w && c[1].width == 0));
			cr_assert(c->width != 0 || (x > 0 && c[-1].width == 2));
		}
}

static void sweep(int step)
{
	mf_cells s = {0};
	int cx, cy;
	for (int w = 1; w <= 200; w += step)
		for (int h = 1; h <= 60; h += step) {
			cr_assert_eq(mf_cells_resize(&s, w, h), MF_OK);
			mf_app_resize(&t.app, w, h);
			mf_app_view(&t.app, &s, &cx, &cy);
			cr_assert(cx < w && cy < h);
			cr_assert(t.app.cursor >= t.app.top &&
				  (t.app.page <= 0 || t.app.cursor < t.app.top + (size_t)t.app.page));
			check_cells(&s);
		}
	mf_cells_dispose(&s);
}

Test(screen, every_size_draws_whole_cells, .init = start, .fini = stop)
{
	sweep(1);
	t.app.ascii = true;
	sweep(3);
}

Test(screen, every_tab_and_panel_draws_at_any_size, .init = start, .fini = stop)
{
	for (int tab = 0; tab < MF_TAB_COUNT; tab++) {
		mf_app_act(&t.app, MF_ACT_DETAIL, mf_tab_choices[tab].name);
		sweep(7);
		mf_app_act(&t.app, MF_ACT_NEXT, "");
		sweep(7);
	}
	mf_app_act(&t.app, MF_ACT_MARK, "");
	mf_app_act(&t.app, MF_ACT_MARK, "");
	mf_app_act(&t.app, MF_ACT_COMPARE, "");
	cr_assert_eq(t.app.panel, MF_PANEL_COMPARE);
	sweep(7);
	mf_app_act(&t.app, MF_ACT_HELP, "");
	sweep(7);
	mf_app_act(&t.app, MF_ACT_SORT, "");
	sweep(7);
	mf_prompt_open(&t.app, MF_ACT_FILTER,
		"a line that is much longer than the screen is wide, to see that it slides along");
	sweep(7);
}

Test(worker, view_is_a_permutation_in_the_order_asked_for, .init = start, .fini = stop)
{
	settle(mf_app_act(&t.app, MF_ACT_SORT, "memory"));
	bool *seen = calloc(t.app.n_rows, 1);
	for (size_t i = 0; i < t.app.n_view; i++) {
		cr_assert(!seen[t.app.view[i]]);
		seen[t.app.view[i]] = true;
		if (i > 0)
			cr_assert(t.app.rows[t.app.view[i - 1]].memory_gb <= t.app.rows[t.app.view[i]].memory_gb);
	}
	free(seen);
	cr_assert_eq(t.app.n_view, t.app.n_rows);
}

Test(worker, selection_keeps_to_its_plan, .init = start, .fini = stop)
{
	for (int i = 0; i < 7; i++)
		mf_app_act(&t.app, MF_ACT_DOWN, "");
	mf_plan plan = mf_app_selected(&t.app)->plan;
	settle(mf_app_act(&t.app, MF_ACT_SORT, "memory"));
	cr_assert_eq(memcmp(&plan, &mf_app_selected(&t.app)->plan, sizeof plan), 0);
	settle(mf_app_act(&t.app, MF_ACT_LEDGER, "published"));
	cr_assert_eq(memcmp(&plan, &mf_app_selected(&t.app)->plan, sizeof plan), 0, "and through a new search");
}

Test(worker, show_and_filter_pick_the_rows_they_name, .init = start, .fini = stop)
{
	settle(mf_app_act(&t.app, MF_ACT_SHOW, "buildable"));
	size_t buildable = t.app.n_view;
	for (size_t i = 0; i < buildable; i++)
		cr_assert_eq(t.app.rows[t.app.view[i]].rule, MF_RULE_NONE);
	settle(mf_app_act(&t.app, MF_ACT_SHOW, "rejected"));
	cr_assert_eq(buildable + t.app.n_view, t.app.n_rows);
	settle(mf_app_act(&t.app, MF_ACT_SHOW, "all"));
	settle(mf_app_act(&t.app, MF_ACT_FILTER, "ep8"));
	cr_assert(t.app.n_view > 0);
	for (size_t i = 0; i < t.app.n_view; i++)
		cr_assert_eq(t.app.rows[t.app.view[i]].plan.ep, 8);
}

Test(filter, bad_pattern_keeps_last_result, .init = start, .fini = stop)
{
	settle(mf_app_act(&t.app, MF_ACT_FILTER, "ep8"));
	size_t n = t.app.n_view;
	settle(mf_app_act(&t.app, MF_ACT_FILTER, "/[/"));
	cr_assert_eq(t.app.n_view, n);
	cr_assert(t.app.message_is_error && strstr(t.app.message, "column"));
	cr_assert_str_eq(t.app.filter, "ep8");
}

Test(worker, another_model_and_cluster_can_be_had_while_a_search_runs, .init = start, .fini = stop)
{
	settle(MF_FX_SEARCH | mf_app_act(&t.app, MF_ACT_MODEL, "olmoe"));
	cr_assert_str_eq(t.app.now.model.name, "olmoe");
	cr_assert(t.app.n_view > 0);
	settle(mf_app_act(&t.app, MF_ACT_CLUSTER, "no-such-cluster"));
	cr_assert_str_eq(t.app.now.cluster.name, "8xh800");
	cr_assert(t.app.message_is_error && t.app.n_view > 0);
}

Test(themes, built_in_text_is_the_file)
{
	for (size_t i = 0; mf_theme_names[i]; i++) {
		char path[512];
		mf_buf text = MF_BUF_INIT;
		mf_err err;
		snprintf(path, sizeof path, "%s/themes/%s.yaml", SOURCE_DIR, mf_theme_names[i]);
		cr_assert_eq(mf_file_read(&text, path, 1 << 16, &err), MF_OK, "%s", err.msg);
		cr_assert_str_eq(mf_buf_text(&text), mf_theme_builtin(mf_theme_names[i]), "%s", path);
		mf_buf_dispose(&text);
	}
}

Test(themes, fewer_colours_stay_in_range)
{
	static const int counts[] = {8, 16, 256};
	for (size_t k = 0; k < MF_COUNT(counts); k++)
		for (uint32_t c = 0; c < 256; c++) {
			cr_assert(mf_color_reduce(c, counts[k]) < (uint32_t)counts[k]);
			cr_assert(mf_color_reduce(MF_RGB | c * 65793u, counts[k]) < (uint32_t)counts[k]);
		}
	cr_assert_eq(mf_color_reduce(MF_COLOR_OWN, 8), MF_COLOR_OWN);
}

Test(keys, noise_is_survived)
{
	mf_key_decoder d = {0};
	mf_key_event e;
	uint64_t state = 7;
	for (int i = 0; i < 20000; i++) {
		unsigned char bytes[8];
		uint64_t r = mf_random_u64(&state);
		memcpy(bytes, &r, sizeof bytes);
		/* Much of it begins like a sequence. */
		if (r % 3 == 0)
			bytes[0] = 27, bytes[1] = '[';
		size_t n = mf_key_feed(&d, bytes, 1 + r % 8, i);
		cr_assert(n <= 8);
		while (mf_key_next(&d, i + (double)(r % 40), &e))
			cr_assert_neq(e.key, MF_KEY_NONE);
	}
}
