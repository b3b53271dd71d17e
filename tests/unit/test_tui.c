/* The terminal program's parts: layout at every size, keys, cells, filter, and the tables help is made from. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tui_app.h"

static bool overlap(mf_rect a, mf_rect b)
{
	return a.w > 0 && a.h > 0 && b.w > 0 && b.h > 0 && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h &&
	       b.y < a.y + a.h;
}

Test(layout, nothing_overlaps_or_leaves_the_screen_at_any_size)
{
	for (int w = 1; w <= 300; w++)
		for (int h = 1; h <= 120; h++)
			for (int panes = 0; panes < 4; panes++) {
				mf_layout l;
				bool detail = panes & 1, side = panes & 2;
				mf_layout_make(&l, w, h, detail, side);
				mf_rect r[] = {l.header, l.heading, l.table, l.rule, l.tabs, l.detail, l.side_tabs,
					l.side, l.status};

				for (size_t i = 0; i < MF_COUNT(r); i++) {
					cr_assert(r[i].x >= 0 && r[i].y >= 0 && r[i].x + r[i].w <= w &&
							  r[i].y + r[i].h <= h,
						"%dx%d rectangle %zu", w, h, i);
					for (size_t k = 0; k < i; k++)
						cr_assert(!overlap(r[i], r[k]), "%dx%d: %zu and %zu", w, h, i, k);
				}
				cr_assert(l.too_small == (w < MF_MIN_W || h < MF_MIN_H));
				cr_assert(l.too_small || l.table.h >= 2);
			}
}

static size_t keys_of(const char *bytes, size_t step, mf_key out[16], double end_ms)
{
	mf_key_decoder d = {0};
	mf_key_event e;
	size_t n = 0, len = strlen(bytes);

	for (size_t i = 0; i < len; i += step) {
		mf_key_feed(&d, bytes + i, step < len - i ? step : len - i, (double)i);
		while (n < 16 && mf_key_next(&d, (double)i, &e))
			out[n++] = e.key;
	}
	while (n < 16 && mf_key_next(&d, end_ms, &e))
		out[n++] = e.key;
	return n;
}

Test(keys, sequences_split_anywhere_are_the_same_keys)
{
	static const char bytes[] = "j\033[A\033[6~\033[0n\xc3\xa9\033OB";
	static const mf_key want[] = {'j', MF_KEY_UP, MF_KEY_PGDN, MF_KEY_REPLY, 0xe9, MF_KEY_DOWN};

	for (size_t step = 1; step <= sizeof bytes; step++) {
		mf_key got[16];
		size_t n = keys_of(bytes, step, got, 1000);

		cr_assert_eq(n, MF_COUNT(want), "step %zu gave %zu keys", step, n);
		cr_assert_eq(memcmp(got, want, sizeof want), 0, "step %zu", step);
	}
}

Test(keys, lone_escape_comes_after_its_wait)
{
	mf_key_decoder d = {0};
	mf_key_event e;

	mf_key_feed(&d, "\033", 1, 100);
	cr_assert(!mf_key_next(&d, 100, &e));
	cr_assert(mf_key_deadline(&d, 100) > 0);
	cr_assert(mf_key_next(&d, 100 + MF_ESC_MS + 1, &e));
	cr_assert_eq(e.key, MF_KEY_ESC);
}

Test(keys, every_action_has_a_name_help_and_no_key_means_two)
{
	static mf_key seen[128];
	size_t n = 0;

	for (const mf_tui_key *k = mf_tui_keys; k->name; k++) {
		cr_assert(*k->name && *k->help && *k->group);
		cr_assert_eq(mf_action_of_name(k->name, strlen(k->name)), (mf_action)k->action);
		for (const char *at = k->keys; *at;) {
			size_t len = strcspn(at, " ");
			mf_key key = mf_key_parse(at, len);

			cr_assert_neq(key, MF_KEY_NONE, "%s: %s", k->name, at);
			for (size_t i = 0; i < n; i++)
				cr_assert_neq(seen[i], key, "%.*s is bound twice", (int)len, at);
			seen[n++] = key;
			at += len;
			at += strspn(at, " ");
		}
	}
}

Test(cells, wide_combining_and_bad_bytes_stay_inside)
{
	mf_cells s = {0};
	mf_buf out = MF_BUF_INIT;

	cr_assert_eq(mf_cells_resize(&s, 10, 2), MF_OK);
	mf_cells_text(
		&s, 0, 0, 10, MF_ROLE_TEXT, "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87");
	mf_cells_text(&s, 8, 1, 10, MF_ROLE_TEXT, "a\xff\x01zzz");
	mf_cells_text(&s, -3, 5, 10, MF_ROLE_TEXT, "outside");
	mf_cells_dump(&s, &out);
	cr_assert(!out.failed);
	mf_buf_dispose(&out);
	mf_cells_dispose(&s);
}

static bool matches(const char *filter, const char *plan, double memory_gb)
{
	mf_filter_ctx ctx = {NULL, 8};
	mf_row row;
	mf_filter *f;
	mf_err err;
	int column;
	bool yes;

	memset(&row, 0, sizeof row);
	cr_assert_eq(mf_plan_parse(&row.plan, plan, MF_TRAIN, NULL, &err), MF_OK, "%s: %s", plan, err.msg);
	row.memory_gb = (float)memory_gb;
	row.rule = MF_R_MCORE_E3;
	cr_assert_eq(mf_filter_parse(&f, filter, MF_TRAIN, &column, &err), MF_OK, "%s: %s", filter, err.msg);
	yes = mf_filter_match(f, &ctx, &row, 1);
	mf_filter_free(f);
	return yes;
}

Test(filter, words_fields_and_logic)
{
	const char *p = "tp1/pp1/ep8/1f1b+ov/zero1_offload";

	cr_expect(matches("", p, 50));
	cr_expect(matches("ep8", p, 50));
	cr_expect(!matches("ep4", p, 50));
	cr_expect(matches("ep8 and mem<70", p, 50));
	cr_expect(!matches("ep8 and mem<70", p, 80));
	cr_expect(!matches("ep8 and mem<70 and not offload", p, 50));
	cr_expect(matches("(ep4 | ep8) mem>=50", p, 50));
	cr_expect(matches("/^tp[12]/", p, 50));
	cr_expect(matches("rule:mcore.*", p, 50));
	cr_expect(!matches("rule:sglang.*", p, 50));
	cr_expect(!matches("mem<70", p, NAN), "an unknown number matches nothing");
}

Test(filter, errors_point_at_the_column)
{
	static const char *const bad[] = {"ep8 and (", "mem<", "/[/", "mem<<3", ")"};
	mf_filter *f;
	mf_err err;
	int column;

	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		column = 0;
		cr_expect_eq(mf_filter_parse(&f, bad[i], MF_TRAIN, &column, &err), MF_EINPUT, "%s", bad[i]);
		cr_expect(column >= 1 && column <= (int)strlen(bad[i]) + 1, "%s: column %d", bad[i], column);
		cr_expect(*err.msg);
	}
}

Test(themes, every_built_in_theme_loads)
{
	for (size_t i = 0; mf_theme_names[i]; i++) {
		mf_theme t;
		mf_err err;

		cr_assert_eq(mf_theme_load(&t, mf_theme_names[i], &err), MF_OK, "%s: %s", mf_theme_names[i], err.msg);
	}
}
