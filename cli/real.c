/* real.c: --real, the installed toolchain asked about plans. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli.h"

/* ---- opening, and Ctrl-C ------------------------------------------------------------------------------------------ */

static const int asked_signals[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction before[MF_COUNT(asked_signals)];
static volatile int stopped_by;

static void on_stop(int sig)
{
	stopped_by = sig;
}

mf_status mf_ask_open(mf_real **out, mf_session *s, const mf_args *a, mf_err *err)
{
	mf_real_opts o = {s->stack.toolchain, a->value[OPT_REAL_PYTHON], a->value[OPT_REAL_PATH], &s->cluster,
		&s->model, &stopped_by};
	struct sigaction act;
	mf_status st;

	memset(&act, 0, sizeof act);
	act.sa_handler = on_stop; /* without SA_RESTART: a wait ends */
	sigemptyset(&act.sa_mask);
	stopped_by = 0;
	for (size_t i = 0; i < MF_COUNT(asked_signals); i++) {
		sigaction(asked_signals[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN) /* nohup */
			sigaction(asked_signals[i], &act, NULL);
	}
	st = mf_real_open(out, &o, err);
	if (st < 0)
		mf_ask_close(NULL);
	return st;
}

void mf_ask_close(mf_real *r)
{
	mf_real_close(r);
	for (size_t i = 0; i < MF_COUNT(asked_signals); i++)
		sigaction(asked_signals[i], &before[i], NULL);
	if (stopped_by)
		raise(stopped_by);
}

mf_status mf_ask_plan(mf_real *r, mf_session *s, const mf_plan *p, mf_rule_id ours, mf_real_verdict *out, mf_err *err)
{
	mf_argv argv;
	mf_status st = mf_argv_init(&argv, true, err);

	if (st < 0)
		return st;
	mf_emit(s->emitter, p, mf_session_fraction(s, p), &argv.sink);
	st = argv.failed ? mf_fail(err, MF_ENOMEM, "out of memory")
			 : mf_real_ask(r, &argv, mf_cluster_world(&s->cluster), ours, out, err);
	mf_argv_dispose(&argv);
	return st;
}

/* ---- saying it ---------------------------------------------------------------------------------------------------- */

static void about_json(cJSON *o, const mf_real_info *about)
{
	cJSON *list;

	mf_json_string(o, "package", about->package);
	mf_json_string(o, "version", about->version);
	mf_json_string(o, "version_asked", about->asked);
	mf_json_string(o, "python", about->python);
	mf_json_string(o, "interpreter", about->interpreter);
	mf_json_string(o, "root", about->root);
	list = cJSON_AddArrayToObject(o, "stand_ins");
	for (size_t i = 0; i < about->n_stand_ins; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(about->stand_ins[i]));
	mf_json_number(o, "start_ms", about->start_ms);
}

static void agreement_json(cJSON *o, mf_agreement agrees)
{
	if (agrees == MF_UNDECIDED)
		cJSON_AddNullToObject(o, "agrees");
	else
		cJSON_AddBoolToObject(o, "agrees", agrees == MF_AGREES);
}

static void verdict_json(cJSON *o, const mf_real_verdict *v)
{
	cJSON_AddBoolToObject(o, "ran", v->ran);
	agreement_json(o, v->agrees);
	if (v->ran)
		cJSON_AddBoolToObject(o, "accepted", v->accepted);
	else
		cJSON_AddNullToObject(o, "accepted");
	mf_json_string(o, "message", v->message);
	mf_json_string(o, "stage", v->stage);
	mf_json_string(o, "exception", v->exception);
	mf_json_string(o, "where", v->where);
	mf_json_string(o, "rewritten", v->rewritten);
	mf_json_string(o, "note", v->note);
	mf_json_number(o, "ms", v->ran ? v->ms : NAN);
}

void mf_ask_json(cJSON *real, const mf_real_info *about, const mf_real_verdict *v)
{
	verdict_json(real, v);
	if (about)
		about_json(real, about);
}

static void print_about(const mf_real_info *about)
{
	if (!about->same_version)
		printf("  %s %s is installed, the verdict is about %s\n", about->package,
			about->version[0] ? about->version : "of unknown version", about->asked);
}

static void print_answer(const mf_real_verdict *v)
{
	if (!v->ran)
		printf("%s", v->note);
	else if (v->accepted)
		printf("accepts it%s%s", v->rewritten[0] ? ", and would run " : "", v->rewritten);
	else
		printf("refuses it (%s, %s): %s", v->stage, v->exception, v->message);
}

void mf_ask_print(const mf_real_info *about, const mf_real_verdict *v)
{
	printf("  the real %s %s: ", about->package, about->version);
	print_answer(v);
	printf("\n");
	if (v->ran)
		printf("  %s%s%s\n",
			v->agrees == MF_AGREES      ? "verdicts agree"
			: v->agrees == MF_DISAGREES ? "verdicts DISAGREE"
						    : "nothing decided",
			v->note[0] ? ": " : "", v->note);
	print_about(about);
}

/* ---- many plans --------------------------------------------------------------------------------------------------- */

struct asked {
	uint32_t row;
	size_t rank;
	mf_real_verdict verdict;
};

/* Rows to ask about, by rank; returns how many. `pick` has room for `n`. */
static size_t choose(const mf_search *found, bool sample, size_t n, struct asked *pick)
{
	bool *taken = calloc(found->n_rows + 1, sizeof *taken);
	uint32_t *seen = calloc(MF_RULE_COUNT, sizeof *seen);
	size_t got = 0, refused = 0, i, round;

	for (i = 0; sample && i < found->n_rows && got < n; i++)
		pick[got++] = (struct asked){.row = (uint32_t)i, .rank = i + 1};
	/* Refused ones first: in round k the k-th best of every rule, so that every rule that has any is there. */
	for (round = 1; !sample && taken && seen && refused < n / 2; round++) {
		size_t had = refused;

		memset(seen, 0, MF_RULE_COUNT * sizeof *seen);
		for (i = 0; i < found->n_rows && refused < n / 2; i++) {
			mf_rule_id rule = found->rows[found->order[i]].rule;

			if (rule == MF_RULE_NONE || mf_rule_unspeakable(rule) || ++seen[rule] != round)
				continue;
			taken[i] = true;
			refused++;
		}
		if (refused == had)
			break;
	}
	for (i = 0; !sample && taken && i < found->n_rows && got + refused < n; i++)
		if (found->rows[found->order[i]].rule == MF_RULE_NONE) {
			taken[i] = true;
			got++;
		}
	for (i = got = sample ? got : 0; !sample && taken && i < found->n_rows; i++)
		if (taken[i])
			pick[got++] = (struct asked){.row = found->order[i], .rank = i + 1};
	free(taken);
	free(seen);
	return got;
}

/* Median and 90th percentile of what asking took, the first left out: it warms the package's caches. */
static void percentiles(const struct asked *list, size_t n, double *median, double *p90)
{
	double *ms = calloc(n + 1, sizeof *ms);
	size_t k = 0;

	for (size_t i = 1; ms && i < n; i++)
		if (list[i].verdict.ran)
			ms[k++] = list[i].verdict.ms;
	*median = mf_quantile(ms, k, 0.5);
	*p90 = mf_quantile(ms, k, 0.9);
	free(ms);
}

static void list_json(mf_session *s, const mf_search *found, const mf_real_info *about, const struct asked *list,
	size_t n, const size_t count[3], cJSON *json)
{
	cJSON *o = cJSON_AddObjectToObject(json, "real"), *rows;
	double median, p90;
	char plan[MF_PLAN_TEXT_MAX];

	percentiles(list, n, &median, &p90);
	about_json(o, about);
	cJSON_AddNumberToObject(o, "asked", (double)n);
	cJSON_AddNumberToObject(o, "agree", (double)count[MF_AGREES]);
	cJSON_AddNumberToObject(o, "disagree", (double)count[MF_DISAGREES]);
	cJSON_AddNumberToObject(o, "undecided", (double)count[MF_UNDECIDED]);
	mf_json_number(o, "first_ms", n ? list[0].verdict.ms : NAN);
	mf_json_number(o, "median_ms", median);
	mf_json_number(o, "p90_ms", p90);
	rows = cJSON_AddArrayToObject(o, "plans");
	for (size_t i = 0; i < n; i++) {
		const mf_row *row = &found->rows[list[i].row];
		cJSON *item = cJSON_CreateObject();

		mf_plan_format(&row->plan, s->in.intern, plan);
		cJSON_AddNumberToObject(item, "rank", (double)list[i].rank);
		cJSON_AddStringToObject(item, "plan", plan);
		cJSON_AddStringToObject(item, "verdict", row->rule ? "rejected" : "buildable");
		mf_json_string(item, "rule", row->rule ? mf_rule_get(row->rule)->id : NULL);
		verdict_json(item, &list[i].verdict);
		cJSON_AddItemToArray(rows, item);
	}
}

static void print_list(mf_session *s, const mf_search *found, const mf_real_info *about, const struct asked *list,
	size_t n, const size_t count[3])
{
	size_t buildable = 0;
	double median, p90;
	char plan[MF_PLAN_TEXT_MAX];

	for (size_t i = 0; i < n; i++)
		buildable += found->rows[list[i].row].rule == MF_RULE_NONE;
	percentiles(list, n, &median, &p90);
	printf("\nthe real %s %s, asked about %zu plans (%zu buildable, %zu refused): %zu agree, %zu disagree, %zu not "
	       "decided; median %.0f ms, p90 %.0f ms\n",
		about->package, about->version, n, buildable, n - buildable, count[MF_AGREES], count[MF_DISAGREES],
		count[MF_UNDECIDED], median, p90);
	print_about(about);
	for (size_t i = 0; i < n; i++) {
		const mf_row *row = &found->rows[list[i].row];

		if (list[i].verdict.agrees != MF_DISAGREES)
			continue;
		mf_plan_format(&row->plan, s->in.intern, plan);
		printf("  %s (%s): ", plan, row->rule ? mf_rule_get(row->rule)->id : "buildable");
		print_answer(&list[i].verdict);
		printf("; %s\n", list[i].verdict.note);
	}
}

mf_status mf_ask_rows(mf_session *s, const mf_args *a, mf_search *found, bool sample, size_t n, cJSON *json,
	size_t *wrong, mf_err *err)
{
	size_t room = n < found->n_rows ? n : found->n_rows, count[3] = {0}, i;
	struct asked *list = calloc(room + 1, sizeof *list);
	bool tty = isatty(STDERR_FILENO);
	mf_real *r = NULL;
	mf_status st = list ? mf_ask_open(&r, s, a, err) : mf_fail(err, MF_ENOMEM, "out of memory");

	*wrong = 0;
	if (st == MF_OK)
		room = choose(found, sample, room, list);
	for (i = 0; st == MF_OK && i < room; i++) {
		const mf_row *row = &found->rows[list[i].row];

		if (tty)
			fprintf(stderr, "\rasking %s: %zu of %zu", mf_real_about(r)->package, i + 1, room);
		st = mf_ask_plan(r, s, &row->plan, row->rule, &list[i].verdict, err);
		count[list[i].verdict.agrees]++;
	}
	if (tty && room)
		fprintf(stderr, "\r\033[K");
	if (st == MF_OK) {
		*wrong = count[MF_DISAGREES];
		if (json)
			list_json(s, found, mf_real_about(r), list, room, count, json);
		else
			print_list(s, found, mf_real_about(r), list, room, count);
	}
	if (r)
		mf_ask_close(r);
	free(list);
	return st;
}
