/*
 * script.c: the program without a terminal. A line is a command behind ':' (every action by name, and :dump, :wait), or
 * key names and "texts" separated by blanks. '#' begins a comment. Each line is followed by waiting until the search is
 * idle, so that a script needs no clock.
 */
#include "app.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct script {
	mf_app app;
	const char *name;
	int line;
	mf_err *err;
};

static unsigned wait_idle(mf_app *a)
{
	unsigned fx = 0;

	while (a->searching && mf_worker_busy(a->worker)) {
		struct pollfd fd = {mf_worker_fd(a->worker), POLLIN, 0};

		if (poll(&fd, 1, -1) < 0 && errno != EINTR)
			break;
		fx |= mf_app_search_news(a);
	}
	return fx;
}

static void dump(mf_app *a)
{
	mf_buf out = MF_BUF_INIT;

	mf_app_view(a);
	mf_cells_dump(&a->cells, &out);
	fwrite(mf_buf_text(&out), 1, out.len, stdout);
	fputs("--\n", stdout);
	mf_buf_dispose(&out);
}

static mf_status press(struct script *s, const char *name, size_t len, unsigned *fx)
{
	mf_key_event k = {mf_key_parse(name, len), 0, 0, 0};

	if (k.key == MF_KEY_NONE)
		return mf_fail_at(s->err, MF_EINPUT, s->name, s->line, NULL, "no key is named %.*s", (int)len, name);
	*fx |= mf_app_key(&s->app, &k);
	return MF_OK;
}

static mf_status run_keys(struct script *s, const char *at, unsigned *fx)
{
	mf_status st = MF_OK;

	while (st == MF_OK && *(at += strspn(at, " \t"))) {
		size_t len = strcspn(at, " \t");

		if (*at == '"') {
			for (at++; st == MF_OK && *at && *at != '"'; at++)
				*fx |= mf_app_key(&s->app, &(mf_key_event){(mf_key)(unsigned char)*at, 0, 0, 0});
			at += *at == '"';
			continue;
		}
		st = press(s, at, len, fx);
		at += len;
	}
	return st;
}

static mf_status run_line(struct script *s, const char *line, unsigned *fx)
{
	line += strspn(line, " \t");
	if (!*line || *line == '#')
		return MF_OK;
	if (strcmp(line, ":dump") == 0)
		dump(&s->app);
	else if (strncmp(line, ":wait", 5) == 0)
		*fx |= wait_idle(&s->app);
	else if (strncmp(line, ":size ", 6) == 0) {
		char *end;
		long w = strtol(line + 6, &end, 10), h = *end == 'x' ? strtol(end + 1, &end, 10) : 0;

		if (w < 1 || h < 1 || w > 1000 || h > 1000 || *end)
			return mf_fail_at(s->err, MF_EINPUT, s->name, s->line, NULL, "expected :size COLSxROWS");
		*fx |= mf_app_resize(&s->app, (int)w, (int)h);
	} else if (*line == ':')
		*fx |= mf_app_command(&s->app, line);
	else
		return run_keys(s, line, fx);
	return MF_OK;
}

static mf_status run_script(struct script *s, char *text)
{
	mf_status st = MF_OK;
	unsigned fx = 0;

	for (char *line = text, *next; st == MF_OK && line && !(fx & MF_FX_QUIT); line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		s->line++;
		st = run_line(s, line, &fx);
		wait_idle(&s->app);
	}
	return st;
}

static mf_status read_script(mf_buf *text, const char *path, mf_err *err)
{
	char bytes[4096];
	size_t n;

	if (strcmp(path, "-") != 0)
		return mf_file_read(text, path, 1u << 20, err);
	while ((n = fread(bytes, 1, sizeof bytes, stdin)) > 0)
		mf_buf_add(text, bytes, n);
	return text->failed ? mf_fail(err, MF_ENOMEM, "out of memory") : MF_OK;
}

mf_status mf_script_run(const mf_tui_opts *opts, mf_err *err)
{
	static struct script s;
	mf_buf text = MF_BUF_INIT;
	mf_status st = read_script(&text, opts->script, err);

	memset(&s, 0, sizeof s);
	s.name = opts->script;
	s.err = err;
	if (st == MF_OK && (st = mf_app_init(&s.app, opts, err)) == MF_OK) {
		mf_app_resize(&s.app, opts->width ? opts->width : 80, opts->height ? opts->height : 24);
		wait_idle(&s.app);
		if (text.data)
			st = run_script(&s, text.data);
		mf_app_dispose(&s.app);
	}
	mf_buf_dispose(&text);
	return st;
}
