/* app.c: the model's birth and death, and the evaluators it asks about single plans. */
#include "tui_app.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

mf_status mf_app_rebuild(mf_app *a, mf_err *err)
{
	mf_evaluators e = {NULL, NULL};
	mf_status st;

	if ((st = mf_cost_new(&e.cost, &a->in, &a->consts, &a->now.search.cost, err)) < 0)
		return st;
	if ((st = mf_emitter_new(&e.emitter, &a->in, err)) < 0) {
		mf_cost_free(e.cost);
		return st;
	}
	mf_cost_free(a->eval.cost);
	mf_emitter_free(a->eval.emitter);
	a->eval = e;
	a->world = mf_cluster_world(&a->now.cluster);
	a->generation++;
	return MF_OK;
}

/* Names separated by commas, one over the other. */
static mf_status apply_overlays(mf_consts *io, const char *names, mf_err *err)
{
	mf_status st = MF_OK;

	while (*names && st == MF_OK) {
		char name[256];
		size_t n = strcspn(names, ",");
		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		if (n > 0)
			st = mf_consts_overlay(io, name, err);
		names += n + (names[n] == ',');
	}
	return st;
}

mf_status mf_app_set_overlay(mf_app *a, const char *overlay, mf_err *err)
{
	mf_consts old = a->consts;
	mf_status st;

	mf_consts_factory(&a->consts, &a->now.cluster);
	if ((st = apply_overlays(&a->consts, overlay, err)) < 0) {
		a->consts = old;
		return st;
	}
	if ((st = mf_app_rebuild(a, err)) < 0) {
		a->consts = old;
		return st;
	}
	if (overlay != a->now.overlay)
		snprintf(a->now.overlay, sizeof(a->now.overlay), "%s", overlay);
	return MF_OK;
}

mf_status mf_app_init(mf_app *a, const mf_tui_opts *opts, mf_err *err)
{
	memset(a, 0, sizeof(*a));
	a->now.model = *opts->inputs->model;
	a->now.cluster = *opts->inputs->cluster;
	a->in = *opts->inputs;
	a->now.workload = *opts->inputs->workload;
	a->now.stack = *opts->inputs->stack;
	a->in.model = &a->now.model;
	a->in.cluster = &a->now.cluster;
	a->in.workload = &a->now.workload;
	a->in.stack = &a->now.stack;
	a->now.search = opts->search;
	a->phase = opts->inputs->workload->phase;
	a->now.constraint = opts->search.constraint;
	a->now.tax = opts->search.cost.tax;
	a->now.search.cost.tax = true;
	a->sort = MF_SORT_THROUGHPUT;
	a->descending = true;
	a->ascii = opts->ascii;
	a->mouse = opts->mouse;
	a->best = MF_NO_ROW;
	a->budget_bytes = NAN;
	a->page = 1;
	mf_keymap_default(&a->keymap);
	a->tab = MF_TAB_OVERVIEW;
	a->detail.explain = malloc(sizeof(*a->detail.explain));
	if (!a->detail.explain)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	mf_status st = mf_app_set_overlay(a, opts->overlay ? opts->overlay : "", err);
	if (st < 0)
		return st;
	a->past = malloc(MF_UNDO * sizeof(*a->past));
	if (!a->past)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	memcpy(&a->settled, &a->now, sizeof(a->now));
	memcpy(&a->defaults, &a->now, sizeof(a->now));
	return MF_OK;
}

void mf_app_dispose(mf_app *a)
{
	mf_cost_free(a->eval.cost);
	mf_emitter_free(a->eval.emitter);
	mf_filter_free(a->find_parsed);
	free(a->detail.explain);
	free(a->past);
	mf_before_dispose(&a->before);
	mf_plot_dispose(&a->plot);
	mf_side_dispose(&a->side);
	mf_timeline_dispose(&a->detail.timeline);
	mf_buf_dispose(&a->detail.argv);
	mf_buf_dispose(&a->detail.plain_argv);
	memset(a, 0, sizeof(*a));
}
