/*
 * script.c: the same program without a terminal. A line is a ':' command (every action by name, and :dump, :wait idle,
 * :size COLSxROWS, :echo TEXT), or key names and "texts" separated by blanks. '#' begins a comment. After every key
 * and command threads come to rest, so a script's screens depend on nothing but its text and the inputs.
 */
#include "tui_app.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT_MAX_BYTES (1u << 20)

struct script {
	mf_app *a;
	const mf_tui_opts *opts;
	mf_worker *worker;
	mf_node_watch *node;
	mf_asker *asker;
	mf_cells cells;
	bool quit;
};

/* Carries effects out, and goes on with those that had to wait for a thread. */
static void carry_out(struct script *s, unsigned fx)
{
	for (;;) {
		fx = mf_effects_run(s->a, s->worker, s->opts, fx);
		if (fx & MF_FX_QUIT)
			s->quit = true;
		if ((fx & MF_FX_ASK) && (s->asker || (s->asker = mf_asker_new(s->opts))))
			mf_asker_ask(s->asker, s->a);
		while (mf_asker_busy(s->asker)) {
			struct pollfd answer = {mf_asker_fd(s->asker), POLLIN, 0};
			poll(&answer, 1, -1);
			mf_asker_take(s->asker, s->a);
		}
		if (fx & MF_FX_COPY) {
			mf_buf text = MF_BUF_INIT;
			mf_copy_text(s->a, &text);
			mf_buf_dispose(&text);
		}
		fx &= MF_FX_WAITS;
		if (!fx && mf_worker_idle(s->worker))
			return;
		struct pollfd fd = {mf_worker_fd(s->worker), POLLIN, 0};
		if (poll(&fd, 1, -1) < 0 && errno != EINTR)
			return;
		fx |= mf_worker_take(s->worker, s->a);
	}
}

/* What comes from outside has come before the screen is shown: news of jobs, and the node when its tab is open. */
static void take_outside(struct script *s)
{
	while (mf_side_take(s->a, s->opts->jobs))
		;
	if (!s->a->side.open || s->a->side.tab != MF_SIDE_NODE || (!s->node && !(s->node = mf_node_watch_new())))
		return;
	mf_node_watch_show(s->node, true);
	struct pollfd fd = {mf_node_watch_fd(s->node), POLLIN, 0};
	poll(&fd, 1, -1);
	mf_node_watch_take(s->node, &s->a->side.node);
	mf_node_watch_show(s->node, false);
}

static mf_status dump(struct script *s, mf_err *err)
{
	mf_buf text = MF_BUF_INIT;
	int x, y;
	take_outside(s);
	mf_app_view(s->a, &s->cells, &x, &y);
	if (mf_detail_idle(s->a))
		mf_app_view(s->a, &s->cells, &x, &y);
	mf_cells_dump(&s->cells, &text);
	mf_buf_puts(&text, "--\n"); /* between one screen and the next */
	bool bad = text.failed || fwrite(mf_buf_text(&text), 1, text.len, stdout) != text.len || fflush(stdout) != 0;
	mf_buf_dispose(&text);
	return bad ? mf_fail(err, MF_EIO, "cannot write the screen to standard output") : MF_OK;
}

static mf_status resize(struct script *s, int w, int h, mf_err *err)
{
	if (mf_cells_resize(&s->cells, w, h) < 0)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	mf_app_resize(s->a, w, h);
	return MF_OK;
}

static void press(struct script *s, mf_key key)
{
	mf_key_event k = {key, 0, 0, 0};
	int x, y;
	carry_out(s, mf_app_key(s->a, &k));
	/* Drawing decides how long a page is, as it would on a terminal. */
	mf_app_view(s->a, &s->cells, &x, &y);
}

static mf_status run_keys(struct script *s, const char *file, int line, const char *text, mf_err *err)
{
	while (!s->quit && *(text += strspn(text, " \t"))) {
		size_t len = strcspn(text, " \t");
		if (*text == '"' && strchr(text + 1, '"')) {
			for (text++; *text != '"' && !s->quit;) {
				uint32_t cp;
				text += mf_utf8_decode(text, strlen(text), &cp);
				if (cp == UINT32_MAX)
					return mf_fail_at(err, MF_EINPUT, file, line, NULL, "not UTF-8");
				press(s, cp);
			}
			text += *text == '"';
			continue;
		}
		mf_key key = mf_key_parse(text, len);
		if (key == MF_KEY_NONE)
			return mf_fail_at(err, MF_EINPUT, file, line, NULL, "no key is named %.*s",
				(int)(len < 40 ? len : 40), text);
		press(s, key);
		text += len;
	}
	return MF_OK;
}

static mf_status run_line(struct script *s, const char *file, int line, const char *text, mf_err *err)
{
	int w, h, x, y, n = 0;

	if (text[0] == '#' || text[0] == 0)
		return MF_OK;
	if (text[0] != ':' || text[1] == ' ')
		return run_keys(s, file, line, text, err);
	if (strcmp(text, ":dump") == 0)
		return dump(s, err);
	if (strcmp(text, ":wait idle") == 0) {
		carry_out(s, 0);
		return MF_OK;
	}
	if (strncmp(text, ":size ", 6) == 0) {
		if (sscanf(text + 6, "%4dx%4d%n", &w, &h, &n) != 2 || text[6 + n] || w < 1 || h < 1 || w > 1000 ||
			h > 1000)
			return mf_fail_at(err, MF_EINPUT, file, line, "size", "expected COLSxROWS, 1x1 to 1000x1000");
		return resize(s, w, h, err);
	}
	if (strncmp(text, ":echo", 5) == 0 && (text[5] == ' ' || !text[5])) {
		printf("%s\n", text[5] ? text + 6 : "");
		return MF_OK;
	}
	size_t len = strcspn(text + 1, " ");
	if (mf_action_of_name(text + 1, len) == MF_ACT_NONE)
		return mf_fail_at(err, MF_EINPUT, file, line, NULL, "no command '%.40s'", text + 1);
	s->a->message[0] = 0;
	carry_out(s, mf_app_command(s->a, text + 1));
	mf_app_view(s->a, &s->cells, &x, &y);
	return MF_OK;
}

static mf_status read_script(mf_buf *out, const char *path, mf_err *err)
{
	char bytes[4096];
	size_t n;
	if (strcmp(path, "-") != 0)
		return mf_file_read(out, path, SCRIPT_MAX_BYTES, err);
	while ((n = fread(bytes, 1, sizeof(bytes), stdin)) > 0 && out->len <= SCRIPT_MAX_BYTES)
		mf_buf_add(out, bytes, n);
	return ferror(stdin) || out->len > SCRIPT_MAX_BYTES
		       ? mf_fail(err, MF_EIO, "cannot read the script from standard input")
		       : MF_OK;
}

mf_status mf_script_run(mf_app *a, const mf_tui_opts *opts, mf_err *err)
{
	struct script s;
	mf_buf text = MF_BUF_INIT;
	const char *file = strcmp(opts->script, "-") == 0 ? "standard input" : opts->script;
	mf_status st;

	memset(&s, 0, sizeof(s));
	s.a = a;
	s.opts = opts;
	a->hide_times = true;
	if ((st = read_script(&text, opts->script, err)) < 0 || (st = mf_worker_new(&s.worker, err)) < 0)
		goto done;
	if ((st = resize(&s, opts->width ? opts->width : 80, opts->height ? opts->height : 24, err)) < 0)
		goto done;
	carry_out(&s, MF_FX_SEARCH);
	int line = 0;
	for (char *at = text.data; at && *at && !s.quit && st == MF_OK;) {
		char *end = at + strcspn(at, "\n"), *next = *end ? end + 1 : end;
		*end = 0;
		if (end > at && end[-1] == '\r')
			end[-1] = 0;
		st = run_line(&s, file, ++line, at, err);
		at = next;
	}
done:
	mf_node_watch_free(s.node);
	mf_asker_free(s.asker);
	mf_worker_free(s.worker);
	mf_cells_dispose(&s.cells);
	mf_buf_dispose(&text);
	return st;
}
