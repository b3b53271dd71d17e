/* What outlives a run: keys, named filters, the session. */
#include "tui_fixture.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[] = "/tmp/moefs-store-XXXXXX";

static void start_at_home(void)
{
	cr_assert(mkdtemp(home) != NULL);
	setenv("XDG_CONFIG_HOME", home, 1);
	setenv("XDG_STATE_HOME", home, 1);
	start();
}

static void stop_at_home(void)
{
	char command[64];
	stop();
	snprintf(command, sizeof(command), "rm -rf %s", home);
	cr_assert_eq(system(command), 0);
}

static void command(const char *line)
{
	settle(mf_app_command(&t.app, line));
}

static void put(const char *name, const char *text)
{
	char path[256];
	mf_err err;
	snprintf(path, sizeof(path), "%s/moefs/%s", home, name);
	cr_assert_eq(mf_make_parents(path, &err), MF_OK);
	cr_assert_eq(mf_file_write(path, text, strlen(text), 0644, &err), MF_OK, "%s", err.msg);
}

/* ---- keys ---- */

Test(keymap, starts_as_the_table_says)
{
	mf_keymap m;
	char keys[64];

	mf_keymap_default(&m);
	for (const mf_tui_key *k = mf_tui_keys; k->name; k++) {
		mf_keymap_keys(&m, (mf_action)k->action, keys, sizeof(keys));
		cr_assert_str_eq(keys, k->keys, "%s", k->name);
	}
}

static mf_status apply(mf_keymap *m, const char *text, mf_err *err)
{
	mf_doc doc;
	mf_status st = mf_doc_parse_yaml(&doc, "keys.yaml", text, strlen(text), err);
	cr_assert_eq(st, MF_OK, "%s", err->msg);
	st = mf_keymap_apply(m, &doc, err);
	mf_doc_dispose(&doc);
	return st;
}

Test(keymap, a_key_given_to_one_action_is_taken_from_another)
{
	mf_keymap m;
	mf_err err;
	char keys[64];

	mf_keymap_default(&m);
	cr_assert_eq(apply(&m, "export: [x, F5]\ntax: X\nundo: []\n", &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_keymap_action(&m, 'x'), MF_ACT_EXPORT);
	cr_assert_eq(mf_keymap_action(&m, MF_KEY_F1 + 4), MF_ACT_EXPORT);
	cr_assert_eq(mf_keymap_action(&m, 'X'), MF_ACT_TAX);
	cr_assert_eq(mf_keymap_action(&m, 'e'), MF_ACT_NONE);
	mf_keymap_keys(&m, MF_ACT_UNDO, keys, sizeof(keys));
	cr_assert_str_eq(keys, "");
}

Test(keymap, ctrl_c_always_leaves)
{
	mf_keymap m;
	mf_err err;

	mf_keymap_default(&m);
	cr_assert_eq(apply(&m, "quit: []\ncopy: C-c\n", &err), MF_OK);
	cr_assert_eq(mf_keymap_action(&m, 3), MF_ACT_QUIT);
}

Test(keymap, errors_name_line_and_field)
{
	mf_keymap m;
	mf_err err;

	mf_keymap_default(&m);
	cr_assert_lt(apply(&m, "undo: u\nexprot: e\n", &err), 0);
	cr_assert_eq(err.line, 2);
	cr_assert(strstr(err.msg, "nearest is export"), "%s", err.msg);
	cr_assert_lt(apply(&m, "undo: U\nredo: [C-r,\n  U]\n", &err), 0);
	cr_assert_eq(err.line, 3);
	cr_assert(strstr(err.msg, "given to undo already, on line 1"), "%s", err.msg);
	cr_assert_lt(apply(&m, "undo: [u,\n  Ctrl-U]\n", &err), 0);
	cr_assert_eq(err.line, 2);
	cr_assert_str_eq(err.field, "undo");
}

Test(keymap, the_users_file_is_read, .init = start_at_home, .fini = stop_at_home)
{
	mf_err err;
	mf_key_event k = {'Z', 0, 0, 0};

	put("keys.yaml", "help: Z\n");
	cr_assert_eq(mf_store_load_config(&t.app, &err), MF_OK, "%s", err.msg);
	settle(mf_app_key(&t.app, &k));
	cr_assert_eq(t.app.panel, MF_PANEL_HELP);
	put("keys.yaml", "help: [\n");
	cr_assert_lt(mf_store_load_config(&t.app, &err), 0);
	cr_assert(strstr(err.file, "keys.yaml"));
}

/* ---- filters ---- */

Test(filters, one_kept_by_name_comes_back, .init = start_at_home, .fini = stop_at_home)
{
	mf_err err;

	command("save-filter small");
	cr_assert(t.app.message_is_error, "there is none to keep");
	command("filter ep8 and mem<70 | /\"x\\\\/");
	char text[MF_PROMPT_MAX];
	snprintf(text, sizeof(text), "%s", t.app.filter);
	size_t n = t.app.n_view;
	command("save-filter small");
	cr_assert_not(t.app.message_is_error, "%s", t.app.message);
	command("filter ");
	t.app.n_filters = 0;
	settle(mf_app_act(&t.app, MF_ACT_BACK, ""));
	cr_assert_eq(mf_store_load_config(&t.app, &err), MF_OK, "%s: %s", err.file, err.msg);
	command("filter @small");
	cr_assert_str_eq(t.app.filter, text);
	cr_assert_eq(t.app.n_view, n);
	command("filter @smal");
	cr_assert(strstr(t.app.message, "nearest is small"), "%s", t.app.message);
	command("save-filter a/b");
	cr_assert(t.app.message_is_error);
}

Test(filters, a_bad_one_in_the_file_is_named, .init = start_at_home, .fini = stop_at_home)
{
	mf_err err;

	put("filters.yaml", "good: ep8\nbad: \"mem <\"\n");
	cr_assert_lt(mf_store_load_config(&t.app, &err), 0);
	cr_assert_eq(err.line, 2);
	cr_assert_str_eq(err.field, "bad");
}

/* ---- columns ---- */

Test(columns, are_shown_in_the_order_asked_for, .init = start, .fini = stop)
{
	mf_cells s = {0};
	mf_buf text = MF_BUF_INIT;
	int x, y;

	cr_assert_eq(mf_cells_resize(&s, 100, 24), MF_OK);
	mf_app_resize(&t.app, 100, 24);
	command("columns verdict mem plan argv");
	cr_assert_not(t.app.message_is_error, "%s", t.app.message);
	mf_app_view(&t.app, &s, &x, &y);
	mf_cells_dump(&s, &text);
	const char *verdict = strstr(text.data, "verdict"), *mem = strstr(text.data, "mem GB"),
		   *plan = strstr(text.data, "plan  "), *argv = strstr(text.data, "argv sha256");
	cr_assert(verdict && mem && plan && argv && verdict < mem && mem < plan && plan < argv);
	cr_assert_null(strstr(text.data, "tok/s/GPU "));
	static const char *const bad[] = {
		"columns mem", "columns plan plan", "columns plan nosuch", "columns plan ttft"};
	for (size_t i = 0; i < MF_COUNT(bad); i++) {
		t.app.message_is_error = false;
		command(bad[i]);
		cr_assert(t.app.message_is_error, "%s", bad[i]);
		cr_assert_eq(t.app.n_columns, 4);
	}
	command("columns default");
	cr_assert_eq(t.app.n_columns, 0);
	mf_buf_dispose(&text);
	mf_cells_dispose(&s);
}

/* ---- session ---- */

Test(session, is_taken_up_where_it_was_left, .init = start_at_home, .fini = stop_at_home)
{
	mf_err err;
	char plan[MF_PLAN_TEXT_MAX];

	command("nodes 2");
	command("tax off");
	command("overlay h800");
	command("sort memory");
	command("filter ep8");
	command("columns plan mem");
	command("detail argv");
	settle(mf_app_act(&t.app, MF_ACT_MARK, ""));
	settle(mf_app_act(&t.app, MF_ACT_DOWN, ""));
	mf_plan_format(&mf_app_selected(&t.app)->plan, t.in.intern, plan);
	cr_assert_eq(mf_store_save_session(&t.app, &err), MF_OK, "%s", err.msg);
	mf_worker_free(t.worker);
	mf_app_dispose(&t.app);

	cr_assert_eq(mf_app_init(&t.app, &t.opts, &err), MF_OK);
	cr_assert_eq(mf_worker_new(&t.worker, &err), MF_OK);
	mf_app_resize(&t.app, 80, 24);
	cr_assert_eq(mf_store_load_session(&t.app, &err), MF_OK, "%s", err.msg);
	cr_assert(strstr(t.app.message, "resumed with"), "%s", t.app.message);
	settle(MF_FX_SEARCH);
	char again[MF_PLAN_TEXT_MAX], words[256];
	mf_plan_format(&mf_app_selected(&t.app)->plan, t.in.intern, again);
	cr_assert_str_eq(again, plan, "the cursor is on its plan");
	mf_whatif_words(&t.app, words, sizeof(words));
	cr_assert_str_eq(words, "tax off (on), overlay h800 (none), nodes 2 (1)");
	cr_assert_str_eq(t.app.filter, "ep8");
	cr_assert_eq(t.app.sort, MF_SORT_MEMORY);
	cr_assert_eq(t.app.tab, MF_TAB_ARGV);
	cr_assert_eq(t.app.n_columns, 2);
	cr_assert_eq(t.app.n_marks, 1);
	cr_assert_eq(t.app.n_past, 0, "resuming is no change to undo");
}

Test(session, of_other_inputs_is_another, .init = start_at_home, .fini = stop_at_home)
{
	mf_err err;

	command("filter ep8");
	cr_assert_eq(mf_store_save_session(&t.app, &err), MF_OK);
	command("filter ");
	settle(mf_app_act(&t.app, MF_ACT_BACK, ""));
	snprintf(t.app.defaults.cluster.name, sizeof(t.app.defaults.cluster.name), "elsewhere");
	cr_assert_eq(mf_store_load_session(&t.app, &err), MF_OK);
	cr_assert_str_eq(t.app.filter, "");
}

/* Every session kept so far becomes this text. */
static void spoil(const char *text)
{
	char pattern[64];
	glob_t g;
	mf_err err;

	snprintf(pattern, sizeof(pattern), "%s/moefs/session-*", home);
	cr_assert_eq(glob(pattern, 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++)
		cr_assert_eq(mf_file_write(g.gl_pathv[i], text, strlen(text), 0600, &err), MF_OK);
	globfree(&g);
}

Test(session, that_cannot_be_read_is_an_error_not_a_crash, .init = start_at_home, .fini = stop_at_home)
{
	mf_err err;

	cr_assert_eq(mf_store_save_session(&t.app, &err), MF_OK);
	spoil("{\"sort\": 3");
	cr_assert_lt(mf_store_load_session(&t.app, &err), 0);
	spoil("[1]");
	cr_assert_eq(mf_store_load_session(&t.app, &err), MF_OK);
	spoil("{\"assumptions\": {\"nodes\": \"x\", \"nosuch\": \"1\"}, \"marks\": 3, \"filter\": \"mem<\", "
	      "\"plan\": \"?\"}");
	cr_assert_eq(mf_store_load_session(&t.app, &err), MF_OK);
	cr_assert_str_eq(t.app.filter, "");
	cr_assert_eq(t.app.now.cluster.nodes, 1);
}
