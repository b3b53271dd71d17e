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
	mf_app_act(&t.app, MF_ACT_FRONT, "");
	sweep(7);
	mf_app_act(&t.app, MF_ACT_FRONT, "");
	for (int tab = 0; tab < MF_SIDE_COUNT; tab++) {
		mf_app_act(&t.app, MF_ACT_SIDE, mf_side_tab_choices[tab].name);
		sweep(7);
	}
	mf_app_act(&t.app, MF_ACT_SIDE, "");
	mf_app_act(&t.app, MF_ACT_ASSUMPTIONS, "");
	sweep(7);
	mf_app_act(&t.app, MF_ACT_BOUNDARIES, "");
	sweep(7);
	mf_app_act(&t.app, MF_ACT_BACK, "");
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

/* ---- the front ---- */

Test(front, no_buildable_plan_beats_one_of_it, .init = start, .fini = stop)
{
	cr_assert(t.app.n_front > 1);
	for (size_t i = 0; i < t.app.n_front; i++) {
		const mf_row *f = &t.app.rows[t.app.front[i]];
		cr_assert_eq(f->rule, MF_RULE_NONE);
		for (size_t k = 0; k < t.app.n_rows; k++) {
			const mf_row *r = &t.app.rows[k];
			cr_assert_not(r->rule == MF_RULE_NONE && r->throughput > f->throughput &&
				      r->memory_gb <= f->memory_gb);
		}
		if (i > 0)
			cr_assert(mf_front_cost(&t.app, f) >= mf_front_cost(&t.app, &t.app.rows[t.app.front[i - 1]]));
	}
}

Test(front, the_cursor_of_picture_and_table_is_one, .init = start, .fini = stop)
{
	mf_cells s = {0};
	int x, y;

	cr_assert_eq(mf_cells_resize(&s, 80, 24), MF_OK);
	settle(mf_app_act(&t.app, MF_ACT_FRONT, ""));
	mf_app_view(&t.app, &s, &x, &y);
	settle(mf_app_act(&t.app, MF_ACT_TOP, ""));
	cr_assert_eq(t.app.view[t.app.cursor], t.app.front[0]);
	settle(mf_app_act(&t.app, MF_ACT_DOWN, ""));
	cr_assert_eq(t.app.view[t.app.cursor], t.app.front[1]);
	settle(mf_app_act(&t.app, MF_ACT_BOTTOM, ""));
	cr_assert_eq(t.app.view[t.app.cursor], t.app.front[t.app.n_front - 1]);
	/* A click on a plan's place chooses it. */
	mf_layout l;
	mf_layout_make(&l, 80, 24, t.app.detail_open, t.app.side.open);
	for (int i = 0; i < l.table.w; i++)
		for (int k = 0; k < l.table.h; k++) {
			mf_key_event click = {MF_KEY_MOUSE, 0, l.table.x + i, l.table.y + k};
			settle(mf_app_key(&t.app, &click));
			cr_assert_eq(mf_app_selected(&t.app)->rule, MF_RULE_NONE);
		}
	settle(mf_app_act(&t.app, MF_ACT_BACK, ""));
	cr_assert_not(t.app.front_open);
	mf_cells_dispose(&s);
}

/* ---- the side pane ---- */

static struct {
	mf_job_news news[8];
	int n, at;
} feed;

static int feed_fd(void *payload)
{
	(void)payload;
	return -1;
}

static bool feed_next(void *payload, mf_job_news *out)
{
	(void)payload;
	if (feed.at == feed.n)
		return false;
	*out = feed.news[feed.at++];
	return true;
}

static const mf_job_source source = {NULL, feed_fd, feed_next};

static bool on_screen(int w, int h, const char *text)
{
	mf_cells s = {0};
	mf_buf out = MF_BUF_INIT;
	int x, y;
	bool found;

	cr_assert_eq(mf_cells_resize(&s, w, h), MF_OK);
	mf_app_resize(&t.app, w, h);
	mf_app_view(&t.app, &s, &x, &y);
	mf_cells_dump(&s, &out);
	found = strstr(mf_buf_text(&out), text) != NULL;
	mf_buf_dispose(&out);
	mf_cells_dispose(&s);
	return found;
}

Test(side, news_go_to_their_tab_and_measurements_beside_the_prediction, .init = start, .fini = stop)
{
	char text[64], number[32];
	const mf_row *row = mf_app_selected(&t.app);

	cr_assert_not(on_screen(150, 40, "measured"));
	feed.n = 3, feed.at = 0;
	feed.news[0] = (mf_job_news){.tab = MF_SIDE_PROBE, .line = "step 3 of 10"};
	feed.news[1] = (mf_job_news){.tab = MF_SIDE_LOG, .line = "a line of a log"};
	feed.news[2] = (mf_job_news){.tab = MF_SIDE_PROBE,
		.line = "CLEAN 10/10",
		.measures = true,
		.plan = row->plan,
		.throughput = 0.5 * (double)row->throughput};
	cr_assert(mf_side_take(&t.app, &source));
	cr_assert_not(mf_side_take(&t.app, &source));
	settle(mf_app_act(&t.app, MF_ACT_SIDE, "probe"));
	cr_assert(on_screen(80, 24, "step 3 of 10"));
	cr_assert(on_screen(80, 24, "CLEAN 10/10"));
	cr_assert_not(on_screen(80, 24, "a line of a log"));
	settle(mf_app_act(&t.app, MF_ACT_TAB_PREVIOUS, ""));
	settle(mf_app_act(&t.app, MF_ACT_SIDE, "log"));
	cr_assert(on_screen(150, 40, "a line of a log"));
	mf_format_number(number, sizeof(number), 0.5 * (double)row->throughput, 0);
	snprintf(text, sizeof(text), "%s x0.50", number);
	cr_assert(on_screen(200, 60, text), "%s", text);
}

Test(side, a_log_keeps_its_last_lines_and_scrolls, .init = start, .fini = stop)
{
	settle(mf_app_act(&t.app, MF_ACT_SIDE, "log"));
	for (int i = 0; i < MF_SIDE_LINES + 500; i++) {
		feed.n = 1, feed.at = 0;
		feed.news[0] = (mf_job_news){.tab = MF_SIDE_LOG};
		snprintf(feed.news[0].line, sizeof(feed.news[0].line), "line %d.", i);
		mf_side_take(&t.app, &source);
	}
	cr_assert(on_screen(80, 24, "line 1499."));
	settle(mf_app_act(&t.app, MF_ACT_UP, ""));
	cr_assert_not(on_screen(80, 24, "line 1499."));
	cr_assert(on_screen(80, 24, "line 1498."));
	settle(mf_app_act(&t.app, MF_ACT_TOP, ""));
	cr_assert(on_screen(80, 24, "line 500."));
	settle(mf_app_act(&t.app, MF_ACT_BOTTOM, ""));
	cr_assert(on_screen(80, 24, "line 1499."));
	settle(mf_app_act(&t.app, MF_ACT_BACK, ""));
	cr_assert_not(t.app.side.open);
}

/* ---- the mouse ---- */

static void click(int x, int y)
{
	mf_key_event k = {MF_KEY_MOUSE, 0, x, y};
	settle(mf_app_key(&t.app, &k));
}

/* Place of a text on the screen as it is now. */
static bool find_text(const char *text, int *x, int *y)
{
	mf_cells s = {0};
	mf_buf out = MF_BUF_INIT;
	int cx, cy;

	cr_assert_eq(mf_cells_resize(&s, t.app.w, t.app.h), MF_OK);
	t.app.ascii = true; /* a byte is a column then */
	mf_app_view(&t.app, &s, &cx, &cy);
	mf_cells_dump(&s, &out);
	const char *at = mf_buf_text(&out);
	for (*y = 0; at && *at; (*y)++) {
		const char *end = strchr(at, '\n'), *found = strstr(at, text);
		if (found && found < end) {
			*x = (int)(found - at);
			mf_buf_dispose(&out);
			mf_cells_dispose(&s);
			return true;
		}
		at = end ? end + 1 : NULL;
	}
	mf_buf_dispose(&out);
	mf_cells_dispose(&s);
	return false;
}

static void click_text(const char *text)
{
	int x, y;
	cr_assert(find_text(text, &x, &y), "%s is not on the screen", text);
	click(x + 1, y);
}

Test(mouse, tabs_rows_headings_and_lists_answer_a_click, .init = start, .fini = stop)
{
	mf_app_resize(&t.app, 150, 40);
	click_text("2 memory");
	cr_assert_eq(t.app.tab, MF_TAB_MEMORY);
	click_text("mem GB");
	cr_assert_eq(t.app.sort, MF_SORT_MEMORY);
	bool descending = t.app.descending;
	click_text("mem GB");
	cr_assert_neq(t.app.descending, descending);
	click(10, 10);
	cr_assert_eq(t.app.cursor, t.app.top + 6);
	settle(mf_app_act(&t.app, MF_ACT_SIDE, "log"));
	click_text(" autotune");
	cr_assert_eq(t.app.side.tab, MF_SIDE_AUTOTUNE);
	settle(mf_app_act(&t.app, MF_ACT_SORT, ""));
	click_text("hidden");
	cr_assert_eq(t.app.panel, MF_PANEL_NONE);
	cr_assert_eq(t.app.sort, MF_SORT_HIDDEN);
	settle(mf_app_act(&t.app, MF_ACT_ASSUMPTIONS, ""));
	click_text("tax ");
	cr_assert_eq(t.app.item, 1);
	click_text("tax ");
	cr_assert_not(t.app.now.tax, "a second click changes it");
	settle(mf_app_act(&t.app, MF_ACT_BACK, ""));
	settle(mf_app_act(&t.app, MF_ACT_BOUNDARIES, ""));
	click(5, 3);
	cr_assert_eq(t.app.panel, MF_PANEL_NONE, "the chosen line does what Enter does");
	cr_assert(strstr(t.app.filter, "rule:"));
}

/* ---- one table ---- */

Test(actions, each_is_in_the_help_and_completes_by_name, .init = start, .fini = stop)
{
	settle(mf_app_act(&t.app, MF_ACT_HELP, ""));
	for (const mf_tui_key *k = mf_tui_keys; k->name; k++) {
		char text[64];
		snprintf(text, sizeof(text), ":%s ", k->name);
		cr_assert(on_screen(200, 250, text), "%s", k->name);
	}
	settle(mf_app_act(&t.app, MF_ACT_HELP, ""));
	for (const mf_tui_key *k = mf_tui_keys; k->name; k++) {
		mf_key_event tab = {MF_KEY_TAB, 0, 0, 0}, esc = {MF_KEY_ESC, 0, 0, 0};
		mf_prompt_open(&t.app, MF_ACT_COMMAND, k->name);
		mf_prompt_key(&t.app, &tab);
		cr_assert(strncmp(t.app.prompt.text, k->name, strlen(k->name)) == 0, "%s", k->name);
		mf_prompt_key(&t.app, &esc);
		cr_assert_eq(mf_action_of_name(k->name, strlen(k->name)), k->action);
		cr_assert(k->keys[0] || k->argument[0] || k->action == MF_ACT_DEFAULTS, "%s: no key and nothing to say",
			k->name);
	}
}

/* ---- the timeline ---- */

Test(timeline, zooms_into_the_step_and_moves_in_it, .init = start, .fini = stop)
{
	mf_key_event right = {MF_KEY_RIGHT, 0, 0, 0}, left = {MF_KEY_LEFT, 0, 0, 0};

	settle(mf_app_act(&t.app, MF_ACT_DETAIL, "timeline"));
	cr_assert(on_screen(120, 60, "step, 0.0 to "));
	cr_assert(on_screen(120, 60, "rank 0"));
	settle(mf_app_act(&t.app, MF_ACT_DETAIL, ""));
	cr_assert_eq(t.app.focus, MF_FOCUS_DETAIL);
	settle(mf_app_act(&t.app, MF_ACT_ZOOM_IN, ""));
	settle(mf_app_act(&t.app, MF_ACT_ZOOM_IN, ""));
	cr_assert_float_eq(t.app.zoom_from, 0.375, 1e-9, "the middle stays");
	for (int i = 0; i < 100; i++)
		settle(mf_app_key(&t.app, &right));
	cr_assert_float_eq(t.app.zoom_from, 0.75, 1e-9, "the end is the end");
	cr_assert_eq(t.app.tab, MF_TAB_TIMELINE);
	for (int i = 0; i < 100; i++)
		settle(mf_app_key(&t.app, &left));
	cr_assert_float_eq(t.app.zoom_from, 0, 1e-9);
	settle(mf_app_act(&t.app, MF_ACT_ZOOM_OUT, ""));
	settle(mf_app_act(&t.app, MF_ACT_ZOOM_OUT, ""));
	settle(mf_app_act(&t.app, MF_ACT_ZOOM_OUT, ""));
	cr_assert_eq(t.app.zoom, 0);
	settle(mf_app_act(&t.app, MF_ACT_BACK, ""));
	settle(mf_app_key(&t.app, &right));
	cr_assert_eq(t.app.tab, MF_TAB_WHY, "elsewhere Right turns the tab");
}
