/*
 * fit_serve.c: finds the host constants of core/score/serve_host.def and engines.def. For every engine and every model
 * with TTFT rows, the value on a grid that predicts the TTFT of all other models best (least mean |log|, capped at 1);
 * and the value over all models. Not a test: run by hand when the model or the rows change.
 *
 *   cmake --build --preset ci --target fit_serve && build/ci/fit_serve tests/data/measured.csv > core/score/serve_host.def
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "score_internal.h"

static const double grid[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1, 1.2, 1.4, 1.7, 2, 2.5, 3, 3.5, 4};
enum { STEPS = sizeof grid / sizeof *grid, ROWS = 4096, MODELS = 64 };

struct ttft_row {
	int engine;
	const char *model; /* built-in name */
	double loss[STEPS];
};

static struct ttft_row rows[ROWS];
static size_t n_rows;

/* Best step over rows of an engine, leaving out a model (NULL: none); -1 with fewer than four rows. */
static int best(int engine, const char *without)
{
	double least = INFINITY;
	int at = -1;

	for (int s = 0; s < STEPS; s++) {
		double sum = 0;
		size_t n = 0;

		for (size_t i = 0; i < n_rows; i++)
			if (rows[i].engine == engine && (!without || strcmp(rows[i].model, without) != 0)) {
				sum += rows[i].loss[s];
				n++;
			}
		if (n >= 4 && sum < least) {
			least = sum;
			at = s;
		}
	}
	return at;
}

int main(int argc, char **argv)
{
	mf_measured_table table;
	mf_score_opts opts = {0};
	mf_score *ctx;
	mf_err err;

	if (argc != 2 || mf_measured_read(&table, argv[1], &err) < 0 || mf_score_new(&ctx, &table, &opts, &err) < 0) {
		fprintf(stderr, "fit_serve: %s\n", argc == 2 ? err.msg : "usage: fit_serve MEASURED.csv");
		return 2;
	}
	for (size_t i = 0; i < table.n && n_rows < ROWS; i++) {
		const mf_measured *r = &table.rows[i];
		struct ttft_row *out = &rows[n_rows];
		bool covered = r->kind == MF_ROW_SERVE && strcmp(r->metric, "ttft") == 0;

		for (int s = 0; s < STEPS && covered; s++) {
			mf_judged j = {.predicted = NAN};

			mf_score_serve_at(ctx, r, grid[s], &j);
			covered = j.covered;
			out->engine = mf_choice_value(mf_engine_choices, j.group);
			out->loss[s] = fmin(1, fabs(log(j.predicted / r->value)));
		}
		if (covered && (out->model = mf_model_builtin(r->model)))
			n_rows++;
	}
	printf("/*\n * Host ms a layer of a pass with prompts, by engine, for each model scored here: what the rows of "
	       "all other "
	       "models\n * give. Written by tools/fit_serve.c. Over all models (engines.def):");
	for (const mf_choice *e = mf_engine_choices; e->name; e++)
		if (best(e->value, NULL) >= 0)
			printf(" %s %g;", e->name, grid[best(e->value, NULL)]);
	printf("\n */\n/* clang-format off */\n");
	for (const mf_choice *e = mf_engine_choices; e->name; e++) {
		const char *done[MODELS];
		size_t n_done = 0;

		for (size_t i = 0; i < n_rows; i++) {
			bool known = rows[i].engine != e->value || n_done == MODELS;
			int at;

			for (size_t k = 0; k < n_done && !known; k++)
				known = strcmp(done[k], rows[i].model) == 0;
			if (known || (at = best(e->value, rows[i].model)) < 0)
				continue;
			done[n_done++] = rows[i].model;
			printf("X(");
			for (const char *c = e->name; *c; c++)
				putchar(*c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? *c - 32 : *c);
			printf(", \"%s\", %g)\n", rows[i].model, grid[at]);
		}
	}
	printf("/* clang-format on */\n");
	mf_score_free(ctx);
	mf_measured_dispose(&table);
	return 0;
}
