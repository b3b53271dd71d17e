/*
 * Keys of any kind over a small search: the decoder, every action, the prompts and the view at a size the input chooses.
 * What would write files or end the program is left out; everything else is carried out.
 */
#include <locale.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>

#include "tui_app.h"

#define MAX_BYTES 200

static mf_model model;
static mf_cluster cluster;
static mf_workload workload;
static mf_stack stack;
static mf_site site;
static mf_tui_opts opts = MF_TUI_OPTS_INIT;

static void prepare(void)
{
	mf_err err;

	setlocale(LC_CTYPE, "C.UTF-8");
	if (mf_model_load(&model, "olmoe", &err) < 0 || mf_cluster_load(&cluster, "2xrtx4090", &err) < 0 ||
		mf_workload_load(&workload, NULL, MF_TRAIN, &err) < 0 ||
		mf_stack_load(&stack, NULL, MF_TRAIN, &err) < 0 || mf_site_load(&site, NULL, &err) < 0)
		abort();
	opts.search.constraint = true;
	opts.search.space = MF_SPACE_PAPER;
	opts.search.threads = 1;
}

static void settle(mf_app *a, mf_worker *w, unsigned fx)
{
	const unsigned outside = MF_FX_EXPORT | MF_FX_SAVE_FILTER | MF_FX_QUIT | MF_FX_SUSPEND | MF_FX_ASK;

	while ((fx = mf_effects_run(a, w, &opts, fx & ~outside) & MF_FX_WAITS) || !mf_worker_idle(w)) {
		struct pollfd fd = {mf_worker_fd(w), POLLIN, 0};
		poll(&fd, 1, -1);
		fx |= mf_worker_take(w, a);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static bool ready;
	mf_inputs in = {&model, &cluster, &workload, &stack, &site, NULL};
	mf_key_decoder keys = {0};
	mf_key_event k;
	mf_cells cells = {0};
	mf_worker *w = NULL;
	mf_err err;
	int x, y;

	if (!ready)
		prepare(), ready = true;
	if (len < 2)
		return 0;
	mf_app *a = malloc(sizeof(*a));
	in.intern = mf_intern_new();
	opts.inputs = &in;
	if (!a || !in.intern || mf_app_init(a, &opts, &err) < 0 || mf_worker_new(&w, &err) < 0)
		abort();
	int width = 1 + data[0], height = 1 + data[1] % 80;
	if (mf_cells_resize(&cells, width, height) < 0)
		abort();
	mf_app_resize(a, width, height);
	settle(a, w, MF_FX_SEARCH);
	mf_key_feed(&keys, data + 2, len - 2 < MAX_BYTES ? len - 2 : MAX_BYTES, 0);
	while (mf_key_next(&keys, 1e6, &k)) {
		settle(a, w, mf_app_key(a, &k));
		mf_app_view(a, &cells, &x, &y);
		mf_detail_idle(a);
		if (a->n_view > 0 && a->cursor >= a->n_view)
			abort();
	}
	mf_worker_free(w);
	mf_app_dispose(a);
	mf_cells_dispose(&cells);
	mf_intern_free(in.intern);
	free(a);
	return 0;
}
