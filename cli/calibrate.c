/* calibrate.c: moefs calibrate, an overlay from tables of measured operations. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli.h"
#include "fit.h"

#define MAX_WARNINGS 10

typedef struct console {
	bool tty;
	size_t warnings;
} console;

static void clear_line(const console *c)
{
	if (c->tty)
		fputs("\r\033[K", stderr);
}

static void warn(void *payload, const char *file, int line, const char *message)
{
	console *c = payload;

	if (c->warnings++ >= MAX_WARNINGS)
		return;
	clear_line(c);
	fprintf(stderr, "moefs: %s:%d: %s\n", file, line, message);
}

static void progress(void *payload, const char *what, size_t done, size_t of)
{
	const console *c = payload;

	if (!c->tty)
		return;
	if (of)
		fprintf(stderr, "\r\033[Kcalibrate: %zu of %zu curves, %s", done, of, what);
	else
		fprintf(stderr, "\r\033[Kcalibrate: reading %s", what);
	fflush(stderr);
}

static void print_table(const mf_fit *f, bool check)
{
	printf("%s, rates of %s: %zu rows%s\n", f->device, f->gpu.gpu, f->n_rows,
		check ? "" : ", one shape in five held out");
	printf("%-20s %7s %7s  %6s %6s %6s  %7s  %s\n", "curve", "rows", "held", "median", "p90", "bias",
		check ? "" : "before", "verdict");
	for (size_t i = 0; i < f->n_curves; i++) {
		const mf_fit_curve *c = &f->curves[i];
		char before[16] = "";

		if (!check)
			snprintf(before, sizeof before, isnan(c->before_median) ? "-" : "%.3f", c->before_median);
		printf("%-20s %7zu %7zu  %6.3f %6.3f %+6.3f  %7s  %s  %s\n", mf_curve_infos[c->id].name, c->n_fit,
			c->n_held, c->median, c->p90, c->bias, before, c->supported ? "follows" : "unsupported",
			c->supported ? c->measured : c->reason);
	}
	puts("errors: |ln(predicted / measured)| on the shapes held out; bias: its signed median");
}

static bool print_json(const mf_fit *f)
{
	cJSON *o = cJSON_CreateObject(), *list;

	cJSON_AddStringToObject(o, "device", f->device);
	cJSON_AddStringToObject(o, "gpu", f->gpu.gpu);
	cJSON_AddNumberToObject(o, "rows", (double)f->n_rows);
	cJSON_AddNumberToObject(o, "rows_left_out", (double)f->n_bad);
	list = cJSON_AddArrayToObject(o, "curves");
	for (size_t i = 0; i < f->n_curves; i++) {
		const mf_fit_curve *c = &f->curves[i];
		const mf_curve_info *info = &mf_curve_infos[c->id];
		cJSON *item = cJSON_CreateObject(), *values, *domain;

		cJSON_AddItemToArray(list, item);
		cJSON_AddStringToObject(item, "curve", info->name);
		cJSON_AddBoolToObject(item, "supported", c->supported);
		if (!c->supported)
			cJSON_AddStringToObject(item, "reason", c->reason);
		values = cJSON_AddObjectToObject(item, "values");
		for (int p = 0; p < info->n; p++)
			mf_json_number(values, mf_const_infos[info->first + (mf_const_id)p].name, c->value[p]);
		domain = cJSON_AddObjectToObject(item, "domain");
		for (int d = 0; d < MF_CURVE_DIMS && info->dim[d]; d++) {
			cJSON *range = cJSON_AddArrayToObject(domain, info->dim[d]);

			cJSON_AddItemToArray(range, cJSON_CreateNumber(c->lo[d]));
			cJSON_AddItemToArray(range, cJSON_CreateNumber(c->hi[d]));
		}
		cJSON_AddStringToObject(item, "source", c->source);
		cJSON_AddStringToObject(item, "measured", c->measured);
		cJSON_AddStringToObject(item, "note", c->note);
		cJSON_AddNumberToObject(item, "fitted_rows", (double)c->n_fit);
		cJSON_AddNumberToObject(item, "held_out_rows", (double)c->n_held);
		mf_json_number(item, "median", c->median);
		mf_json_number(item, "p90", c->p90);
		mf_json_number(item, "bias", c->bias);
		mf_json_number(item, "median_before", c->before_median);
	}
	return mf_json_print(o, true);
}

/* Ctrl-C waits for the write, which is whole or not at all. */
static mf_status write_overlay(const mf_fit *f, const char *origin, const char *path, mf_err *err)
{
	mf_buf text = MF_BUF_INIT;
	sigset_t held, old;
	mf_status st;

	mf_fit_overlay(f, origin, &text);
	if (text.failed) {
		mf_buf_dispose(&text);
		return mf_fail(err, MF_ENOMEM, "out of memory for the overlay");
	}
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	sigprocmask(SIG_BLOCK, &held, &old);
	st = mf_file_write(path, text.data, text.len, 0644, err);
	sigprocmask(SIG_SETMASK, &old, NULL);
	mf_buf_dispose(&text);
	return st;
}

/* Last name of a folder's path: what the overlay calls its origin. */
static void folder_name(const char *dir, char *out, size_t size)
{
	size_t end = strlen(dir), start;

	while (end > 1 && dir[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && dir[start - 1] != '/')
		start--;
	snprintf(out, size, "%.*s", (int)(end - start), dir + start);
}

int mf_cmd_calibrate(const mf_args *a)
{
	console con = {.tty = isatty(STDERR_FILENO) == 1 && !a->value[OPT_JSON]};
	mf_fit_options o = {.warn = warn, .progress = progress, .payload = &con};
	bool check = a->value[OPT_CHECK_ONLY] != NULL, json = a->value[OPT_JSON] != NULL;
	const char *out = a->value[OPT_OUT];
	mf_cluster cluster;
	mf_consts consts;
	mf_fit fit;
	mf_err err;
	uint64_t threads;
	size_t good = 0;
	char name[80];

	o.dir = a->value[OPT_FROM];
	o.check = check;
	if (!o.dir)
		return mf_fail(&err, MF_EINPUT, "calibrate needs --from DIR, a folder of measured tables"),
		       mf_report(&err);
	if (check && out)
		return mf_fail(&err, MF_EINPUT, "--check fits nothing, so there is nothing to write to --out"),
		       mf_report(&err);
	if (a->value[OPT_GPU] && a->value[OPT_CLUSTER])
		return mf_fail(&err, MF_EINPUT, "--gpu and --cluster both name the datasheet; give one"),
		       mf_report(&err);
	if (mf_args_u64(a, OPT_THREADS, 0, 64, 0, &threads, &err) < 0)
		return mf_report(&err);
	o.threads = (unsigned)threads;
	if (a->value[OPT_GPU]) {
		snprintf(name, sizeof name, "8x%s", a->value[OPT_GPU]);
		if (mf_cluster_load(&cluster, name, NULL) < 0)
			return mf_fail(&err, MF_EINPUT,
				       "--gpu %s: no built-in cluster has this GPU; moefs cluster "
				       "lists them, and --cluster FILE takes another",
				       a->value[OPT_GPU]),
			       mf_report(&err);
		o.gpu = &cluster;
	} else if (a->value[OPT_CLUSTER]) {
		if (mf_cluster_load(&cluster, a->value[OPT_CLUSTER], &err) < 0)
			return mf_report(&err);
		o.gpu = &cluster;
	}
	if (a->value[OPT_OVERLAY]) {
		if (mf_fit_gpu(&cluster, &o, &err) < 0)
			return mf_report(&err);
		o.gpu = &cluster;
		mf_consts_factory(&consts, &cluster);
		if (mf_consts_overlay(&consts, a->value[OPT_OVERLAY], &err) < 0)
			return mf_report(&err);
		o.consts = &consts;
	}
	if (mf_fit_run(&fit, &o, &err) < 0) {
		clear_line(&con);
		return mf_report(&err);
	}
	clear_line(&con);
	if (con.warnings > MAX_WARNINGS)
		fprintf(stderr, "moefs: %zu more rows left out\n", con.warnings - MAX_WARNINGS);
	for (size_t i = 0; i < fit.n_curves; i++)
		good += fit.curves[i].supported;
	folder_name(o.dir, name, sizeof name);
	if (out && write_overlay(&fit, name, out, &err) < 0) {
		mf_fit_dispose(&fit);
		return mf_report(&err);
	}
	if (json) {
		bool done = print_json(&fit);

		mf_fit_dispose(&fit);
		return !done ? 4 : good ? 0 : 1;
	}
	print_table(&fit, check);
	if (out)
		printf("written: %s\n", out);
	mf_fit_dispose(&fit);
	return good ? 0 : 1;
}
