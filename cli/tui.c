/* tui.c: moefs tui, the default command. Without a terminal on standard output it prints the ranked table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "gpu.h"
#include "tui.h"

static mf_status load_cluster(void *payload, mf_cluster *out, const char *name, mf_err *err)
{
	(void)payload;
	return strcmp(name, "auto") == 0 ? mf_gpu_cluster(out, err) : mf_cluster_load(out, name, err);
}

static mf_status read_size(const char *text, int *w, int *h, mf_err *err)
{
	char extra;

	if (!text)
		return MF_OK;
	if (sscanf(text, "%dx%d%c", w, h, &extra) != 2 || *w < 1 || *h < 1 || *w > 1000 || *h > 1000)
		return mf_fail(err, MF_EINPUT, "--size %s: expected COLSxROWS, for example 80x24", text);
	return MF_OK;
}

int mf_cmd_tui(const mf_args *a)
{
	static mf_session s;
	mf_tui_opts o = MF_TUI_OPTS_INIT;
	mf_job_file *jobs = NULL;
	mf_job_source source = {NULL, NULL, NULL};
	int color;
	mf_err err;
	mf_status st;

	if ((st = mf_args_choice(a, OPT_COLOR, mf_color_mode_choices, MF_COLOR_AUTO, &color, &err)) < 0 ||
		(st = read_size(a->value[OPT_SIZE], &o.width, &o.height, &err)) < 0)
		return mf_report(&err);
	if (!a->value[OPT_SCRIPT] && !isatty(STDOUT_FILENO))
		return mf_cmd_search(a);
	if ((st = mf_session_open(&s, a, &err)) < 0)
		return mf_report(&err);
	o.inputs = &s.in;
	o.overlay = a->value[OPT_OVERLAY];
	o.search = mf_session_search_opts(&s);
	o.load_cluster = load_cluster;
	o.ascii = a->value[OPT_ASCII] != NULL;
	o.resume = a->value[OPT_NO_RESUME] == NULL;
	o.mouse = a->value[OPT_MOUSE] != NULL;
	o.color = (mf_color_mode)color;
	o.theme = a->value[OPT_THEME];
	o.script = a->value[OPT_SCRIPT];
	o.real_python = a->value[OPT_REAL_PYTHON];
	o.real_path = a->value[OPT_REAL_PATH];
	if (a->value[OPT_JOBS]) {
		st = mf_job_file_open(&jobs, a->value[OPT_JOBS], &s.in, &err);
		source = jobs ? mf_job_file_source(jobs) : source;
		o.jobs = jobs ? &source : NULL;
	}
	if (st == MF_OK)
		st = mf_tui_run(&o, &err);
	mf_job_file_close(jobs);
	mf_session_close(&s);
	return st < 0 ? mf_report(&err) : 0;
}
