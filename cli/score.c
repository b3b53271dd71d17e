/* score.c: moefs score, how right the predictions are on a table of measured rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli.h"
#include "score.h"

#define MAX_REASONS 8 /* of a kind, in tables; the JSON has all */

static const char *kind_name(mf_row_kind k)
{
	return mf_choice_name(mf_row_kind_choices, (int)k);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static void add_count(cJSON *o, const char *key, size_t n)
{
	cJSON_AddNumberToObject(o, key, (double)n);
}

static void add_stats(cJSON *o, const mf_score_stats *s, bool memory)
{
	add_count(o, "rows", s->rows);
	add_count(o, "covered", s->covered);
	add_count(o, "compared", s->compared);
	mf_json_number(o, "coverage", s->coverage);
	mf_json_number(o, "median_abs_log", s->median_abs_log);
	mf_json_number(o, "p90_abs_log", s->p90_abs_log);
	mf_json_number(o, "bias_log", s->bias_log);
	mf_json_number(o, "within_8_percent", s->within_8);
	add_count(o, "sets_ranked", s->sets);
	mf_json_number(o, "kendall", s->kendall);
	mf_json_number(o, "median_regret", s->median_regret);
	mf_json_number(o, "mean_regret", s->mean_regret);
	mf_json_number(o, "p90_regret", s->p90_regret);
	mf_json_number(o, "oom_recall", s->oom_recall);
	mf_json_number(o, "fit_recall", s->fit_recall);
	if (!memory)
		return;
	add_count(o, "oom_rows", s->oom_rows);
	add_count(o, "oom_refused", s->oom_refused);
	add_count(o, "oom_probe", s->oom_probe);
	add_count(o, "fit_rows", s->fit_rows);
	add_count(o, "fit_refused", s->fit_refused);
	add_count(o, "fit_probe", s->fit_probe);
	mf_json_number(o, "probe_share", s->probe_share);
	mf_json_number(o, "probe_precision", s->probe_precision);
}

static void add_reasons(cJSON *o, const mf_scorecard *c, mf_row_kind kind, bool outside)
{
	cJSON *list = cJSON_AddArrayToObject(o, "not_covered");

	for (size_t i = 0; i < c->n_reasons; i++)
		if (c->reasons[i].kind == kind && c->reasons[i].outside == outside) {
			cJSON *item = cJSON_CreateObject();

			cJSON_AddStringToObject(item, "reason", c->reasons[i].reason);
			add_count(item, "count", c->reasons[i].count);
			cJSON_AddItemToArray(list, item);
		}
}

static void add_parts(cJSON *o, const mf_scorecard *c, mf_row_kind kind, bool outside)
{
	cJSON *list = cJSON_AddArrayToObject(o, "parts");

	for (size_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].kind == kind && c->parts[i].outside == outside) {
			cJSON *item = cJSON_CreateObject();

			cJSON_AddStringToObject(item, c->parts[i].by, c->parts[i].name);
			add_stats(item, &c->parts[i].stats, kind == MF_ROW_MEMORY);
			cJSON_AddItemToArray(list, item);
		}
}

static void add_kinds(cJSON *root, const char *key, const mf_scorecard *c, bool outside)
{
	cJSON *kinds = cJSON_AddObjectToObject(root, key);

	for (int k = 0; k < MF_ROW_COUNT; k++) {
		const mf_score_stats *s = outside ? &c->outside[k] : &c->kinds[k];
		cJSON *o;

		if (!c->asked[k] || (outside && !s->rows))
			continue;
		o = cJSON_AddObjectToObject(kinds, kind_name((mf_row_kind)k));
		add_stats(o, s, k == MF_ROW_MEMORY);
		add_reasons(o, c, (mf_row_kind)k, outside);
		add_parts(o, c, (mf_row_kind)k, outside);
	}
}

static void add_sets(cJSON *root, const mf_scorecard *c)
{
	cJSON *list = cJSON_AddArrayToObject(root, "sets");

	for (size_t i = 0; i < c->n_sets; i++) {
		const mf_score_set *s = &c->sets[i];
		cJSON *o = cJSON_CreateObject();

		mf_json_string(o, "model", s->model);
		mf_json_string(o, "gpu", s->gpu);
		mf_json_number(o, "n_gpus", s->n_gpus);
		mf_json_string(o, "release", s->release);
		cJSON_AddStringToObject(o, "kind", kind_name(s->kind));
		mf_json_string(o, "metric", s->metric);
		cJSON_AddStringToObject(o, "set", s->key);
		cJSON_AddBoolToObject(o, "outside", s->outside);
		add_count(o, "plans", s->plans);
		add_stats(o, &s->stats, false);
		cJSON_AddItemToArray(list, o);
	}
}

static void add_replicas(cJSON *root, const mf_score_replicas *r)
{
	cJSON *o = cJSON_AddObjectToObject(root, "replicas_against_width");

	add_count(o, "pairs", r->pairs);
	add_count(o, "right", r->right);
	add_count(o, "narrow_wins", r->narrow_wins);
	mf_json_number(o, "mean_regret", r->mean_regret);
}

static void print_json(const mf_scorecard *c)
{
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, "moefs", MOEFS_VERSION);
	cJSON_AddStringToObject(root, "measured", c->table->name);
	add_kinds(root, "kinds", c, false);
	add_kinds(root, "outside", c, true);
	if (c->in_sample.rows)
		add_stats(cJSON_AddObjectToObject(root, "train_in_sample"), &c->in_sample, false);
	add_replicas(root, &c->replicas);
	add_sets(root, c);
	mf_json_print(root, true);
}

/* ---- tables: as text, or as Markdown ------------------------------------------------------------------------------- */

/* One line of cells; the first is wide. A NULL ends the list. */
struct table {
	bool markdown;
	const char *const *head; /* NULL-terminated */
};

static void cell(const struct table *t, size_t column, const char *words)
{
	if (t->markdown)
		printf(column ? " %s |" : "| %s |", words);
	else if (column)
		printf("  %*s", (int)(strlen(t->head[column]) > 7 ? strlen(t->head[column]) : 7), words);
	else
		printf("%-48.48s", words);
}

static void head(const struct table *t)
{
	for (size_t i = 0; t->head[i]; i++)
		cell(t, i, t->head[i]);
	putchar('\n');
	if (!t->markdown)
		return;
	for (size_t i = 0; t->head[i]; i++)
		fputs(i ? "---:|" : "|---|", stdout);
	putchar('\n');
}

enum format { WHOLE, PERCENT, TWO, THREE, SIGNED };

static void cell_number(const struct table *t, size_t column, enum format format, double v)
{
	char words[32] = "-";

	if (isnan(v)) {
		cell(t, column, words);
		return;
	}
	switch (format) {
	case WHOLE: snprintf(words, sizeof words, "%.0f", v); break;
	case PERCENT: snprintf(words, sizeof words, "%.1f%%", 100 * v); break;
	case TWO: snprintf(words, sizeof words, "%.2f", v); break;
	case THREE: snprintf(words, sizeof words, "%.3f", v); break;
	case SIGNED: snprintf(words, sizeof words, "%+.3f", v); break;
	}
	cell(t, column, words);
}

static void section(bool markdown, const char *words)
{
	printf(markdown ? "\n## %s\n\n" : "\n%s\n", words);
}

static const char *const error_head[] = {
	"rows", "count", "covered", "median", "p90", "bias", "within 8%", "sets", "tau", "regret", "p90 regret", NULL};
static const char *const memory_head[] = {"memory rows", "OOM", "refused", "probe", "recall", "fit", "refused", "probe",
	"recall", "probe share", "precision", NULL};

static void error_line(const struct table *t, const char *name, const mf_score_stats *s)
{
	cell(t, 0, name);
	cell_number(t, 1, WHOLE, (double)s->rows);
	cell_number(t, 2, PERCENT, s->coverage);
	cell_number(t, 3, THREE, s->median_abs_log);
	cell_number(t, 4, THREE, s->p90_abs_log);
	cell_number(t, 5, SIGNED, s->bias_log);
	cell_number(t, 6, PERCENT, s->within_8);
	cell_number(t, 7, WHOLE, (double)s->sets);
	cell_number(t, 8, TWO, s->kendall);
	cell_number(t, 9, THREE, s->median_regret);
	cell_number(t, 10, THREE, s->p90_regret);
	putchar('\n');
}

static void memory_line(const struct table *t, const char *name, const mf_score_stats *s)
{
	if (!s->oom_rows && !s->fit_rows)
		return;
	cell(t, 0, name);
	cell_number(t, 1, WHOLE, (double)s->oom_rows);
	cell_number(t, 2, WHOLE, (double)s->oom_refused);
	cell_number(t, 3, WHOLE, (double)s->oom_probe);
	cell_number(t, 4, PERCENT, s->oom_recall);
	cell_number(t, 5, WHOLE, (double)s->fit_rows);
	cell_number(t, 6, WHOLE, (double)s->fit_refused);
	cell_number(t, 7, WHOLE, (double)s->fit_probe);
	cell_number(t, 8, PERCENT, s->fit_recall);
	cell_number(t, 9, PERCENT, s->probe_share);
	cell_number(t, 10, PERCENT, s->probe_precision);
	putchar('\n');
}

static void part_lines(const struct table *t, const mf_scorecard *c, mf_row_kind kind, bool outside,
	void (*line)(const struct table *, const char *, const mf_score_stats *))
{
	char name[96];

	for (size_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].kind == kind && c->parts[i].outside == outside) {
			/* Errors by metric and group; verdicts by group alone. */
			if (line == error_line ? !c->parts[i].stats.compared : strcmp(c->parts[i].by, "group") != 0)
				continue;
			snprintf(name, sizeof name, "- %.40s", c->parts[i].name);
			line(t, name, &c->parts[i].stats);
		}
}

static void print_kinds(const mf_scorecard *c, bool markdown)
{
	struct table t = {markdown, error_head};
	char name[64];

	head(&t);
	for (int k = 0; k < MF_ROW_COUNT; k++) {
		if (!c->asked[k])
			continue;
		error_line(&t, kind_name((mf_row_kind)k), &c->kinds[k]);
		if (k == MF_ROW_TRAIN && c->in_sample.rows)
			error_line(&t, "train, in sample: fitted on these too", &c->in_sample);
		part_lines(&t, c, (mf_row_kind)k, false, error_line);
		if (!c->outside[k].rows)
			continue;
		snprintf(name, sizeof name, "%s, outside the domain", kind_name((mf_row_kind)k));
		error_line(&t, name, &c->outside[k]);
		part_lines(&t, c, (mf_row_kind)k, true, error_line);
	}
}

static void print_memory(const mf_scorecard *c, bool markdown)
{
	struct table t = {markdown, memory_head};

	if (!c->asked[MF_ROW_MEMORY])
		return;
	section(markdown, "Memory: what would have been started");
	head(&t);
	for (int outside = 0; outside < 2; outside++) {
		memory_line(&t, outside ? "outside the domain" : "memory",
			outside ? &c->outside[MF_ROW_MEMORY] : &c->kinds[MF_ROW_MEMORY]);
		part_lines(&t, c, MF_ROW_MEMORY, outside, memory_line);
	}
}

static void print_reasons(const mf_scorecard *c, bool markdown)
{
	section(markdown, "Rows that are not covered");
	if (markdown)
		puts("| kind | rows | why |\n|---|---:|---|");
	for (int k = 0; k < MF_ROW_COUNT; k++) {
		size_t shown = 0, more = 0;

		for (size_t i = 0; i < c->n_reasons; i++) {
			const mf_score_reason *r = &c->reasons[i];

			if (r->kind != (mf_row_kind)k)
				continue;
			if (shown++ >= MAX_REASONS && !markdown) {
				more += r->count;
				continue;
			}
			printf(markdown ? "| %s%s | %zu | %s |\n" : "  %s%s  %zu  %s\n", kind_name(r->kind),
				r->outside ? ", outside" : "", r->count, r->reason);
		}
		if (more)
			printf("  %s  %zu  for other reasons (--json lists them)\n", kind_name((mf_row_kind)k), more);
	}
}

static void print_replicas(const mf_scorecard *c, bool markdown)
{
	const mf_score_replicas *r = &c->replicas;

	if (!r->pairs)
		return;
	section(markdown, "Serving: k engines against one k times as wide, at equal load");
	printf("%zu pairs of one release: the faster one is chosen in %zu, TPOT regret %.3f on average; always "
	       "choosing the "
	       "narrow engines is right in %zu.\n",
		r->pairs, r->right, r->mean_regret, r->narrow_wins);
}

static void print_sets(const mf_scorecard *c, bool markdown)
{
	static const char *const set_head[] = {"set", "GPUs", "plans", "median", "bias", "tau", "regret", NULL};
	struct table t = {markdown, set_head};

	section(markdown, "Sets of two or more plans");
	head(&t);
	for (size_t i = 0; i < c->n_sets; i++) {
		const mf_score_set *s = &c->sets[i];
		char name[256];

		if (s->plans < 2)
			continue;
		snprintf(name, sizeof name, "%s: %s %s %s %s%s", kind_name(s->kind), s->model, s->gpu, s->release,
			s->kind == MF_ROW_SERVE ? s->metric : "", s->outside ? " (outside)" : "");
		cell(&t, 0, name);
		cell_number(&t, 1, WHOLE, s->n_gpus);
		cell_number(&t, 2, WHOLE, (double)s->plans);
		cell_number(&t, 3, THREE, s->stats.median_abs_log);
		cell_number(&t, 4, SIGNED, s->stats.bias_log);
		cell_number(&t, 5, TWO, s->tau);
		cell_number(&t, 6, THREE, s->regret);
		putchar('\n');
	}
}

/* ---- every row ----------------------------------------------------------------------------------------------------- */

static void csv_text(const char *words)
{
	if (!strpbrk(words, ",\"\n\r")) {
		fputs(words, stdout);
		return;
	}
	putchar('"');
	for (; *words; words++) {
		if (*words == '"')
			putchar('"');
		putchar(*words);
	}
	putchar('"');
}

static void csv_number(double v)
{
	if (isfinite(v))
		printf("%.6g", v);
}

static void print_rows(const mf_scorecard *c)
{
	puts("id,kind,model,gpu,n_gpus,group,outside,extrapolated,metric,unit,outcome,measured,predicted,log_error,"
	     "verdict,plan,why_not");
	for (size_t i = 0; i < c->table->n; i++) {
		const mf_measured *r = &c->table->rows[i];
		const mf_judged *j = &c->judged[i];

		if (!c->asked[r->kind])
			continue;
		csv_text(r->id);
		printf(",%s,", kind_name(r->kind));
		csv_text(r->model);
		putchar(',');
		csv_text(r->gpu);
		putchar(',');
		csv_number(r->n_gpus);
		putchar(',');
		csv_text(j->group);
		printf(",%s,%s,", j->outside ? "yes" : "", j->extrapolated ? "yes" : "");
		csv_text(r->metric);
		putchar(',');
		csv_text(r->unit);
		printf(",%s,", mf_choice_name(mf_outcome_choices, (int)r->outcome));
		csv_number(r->value);
		putchar(',');
		csv_number(j->predicted);
		putchar(',');
		csv_number(log(j->predicted / r->value));
		printf(",%s,", j->verdict ? mf_choice_name(mf_memory_verdict_choices, (int)j->verdict) : "");
		csv_text(j->plan);
		putchar(',');
		csv_text(j->why_not);
		putchar('\n');
	}
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static mf_status write_svg(const mf_scorecard *c, const char *path, mf_err *err)
{
	mf_buf svg = MF_BUF_INIT;
	mf_status st;

	mf_score_svg(c, &svg);
	st = svg.failed ? mf_fail(err, MF_ENOMEM, "out of memory")
			: mf_file_write(path, mf_buf_text(&svg), svg.len, 0644, err);
	mf_buf_dispose(&svg);
	return st;
}

static mf_status read_options(const mf_args *a, mf_score_opts *opts, mf_err *err)
{
	int kind;
	mf_status st = mf_args_choice(a, OPT_KIND, mf_row_kind_choices, -1, &kind, err);

	*opts = (mf_score_opts){0, a->value[OPT_OVERLAY]};
	if (st < 0)
		return st;
	if (kind >= 0)
		opts->kinds = 1u << kind;
	if (!a->value[OPT_MEASURED])
		return mf_fail(err, MF_EINPUT, "score needs --measured FILE.csv; moefs score --help names its columns");
	if (!!a->value[OPT_JSON] + !!a->value[OPT_MARKDOWN] + !!a->value[OPT_ROWS] > 1)
		return mf_fail(err, MF_EINPUT, "--json, --markdown and --rows exclude each other");
	return MF_OK;
}

static void print_tables(const mf_scorecard *c, bool markdown)
{
	print_kinds(c, markdown);
	print_memory(c, markdown);
	print_replicas(c, markdown);
	print_reasons(c, markdown);
	print_sets(c, markdown);
}

int mf_cmd_score(const mf_args *a)
{
	mf_measured_table table = {0};
	mf_scorecard *card = NULL;
	mf_score_opts opts;
	mf_err err;
	mf_status st = read_options(a, &opts, &err);

	if (st == MF_OK)
		st = mf_measured_read(&table, a->value[OPT_MEASURED], &err);
	if (st == MF_OK)
		st = mf_score_run(&card, &table, &opts, &err);
	if (st == MF_OK && a->value[OPT_SVG])
		st = write_svg(card, a->value[OPT_SVG], &err);
	if (st == MF_OK) {
		if (a->value[OPT_JSON])
			print_json(card);
		else if (a->value[OPT_ROWS])
			print_rows(card);
		else
			print_tables(card, a->value[OPT_MARKDOWN] != NULL);
	}
	mf_scorecard_free(card);
	mf_measured_dispose(&table);
	return st < 0 ? mf_report(&err) : 0;
}
