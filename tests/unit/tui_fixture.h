/* tui_fixture.h: the terminal's model with a real search behind it and no terminal, for tests that look inside. */
#ifndef TUI_FIXTURE_H
#define TUI_FIXTURE_H

#include "inputs_fixture.h"
#include "tui_app.h"
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static struct {
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_site site;
	mf_inputs in;
	mf_tui_opts opts;
	mf_app app;
	mf_worker *worker;
} t;

static void settle(unsigned fx)
{
	while ((fx = mf_effects_run(&t.app, t.worker, &t.opts, fx) & MF_FX_WAITS) || !mf_worker_idle(t.worker)) {
		struct pollfd fd = {mf_worker_fd(t.worker), POLLIN, 0};
		poll(&fd, 1, -1);
		fx |= mf_worker_take(t.worker, &t.app);
	}
}

static void start(void)
{
	mf_err err;
	setlocale(LC_CTYPE, "C.UTF-8");
	LOAD_INPUTS(t, "deepseek-v2-lite", "8xh800", NULL, NULL, MF_TRAIN);
	t.opts = (mf_tui_opts)MF_TUI_OPTS_INIT;
	t.opts.inputs = &t.in;
	t.opts.search.constraint = true;
	t.opts.search.space = MF_SPACE_PAPER;
	cr_assert_eq(mf_app_init(&t.app, &t.opts, &err), MF_OK, "%s", err.msg);
	cr_assert_eq(mf_worker_new(&t.worker, &err), MF_OK, "%s", err.msg);
	mf_app_resize(&t.app, 80, 24);
	settle(MF_FX_SEARCH);
	cr_assert(t.app.n_rows > 0 && t.app.n_view == t.app.n_rows);
}

static void stop(void)
{
	mf_worker_free(t.worker);
	mf_app_dispose(&t.app);
	mf_intern_free(t.in.intern);
}

#endif
