/*
 * replicas.c: the question planners of serving really have, on measured rows: k engines of n GPUs at concurrency C/k
 * each against one of k n GPUs at C. Both sides must be of one model, GPU, format, lengths and release.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score_internal.h"

static bool usable(const mf_scorecard *c, size_t i)
{
	const mf_measured *r = &c->table->rows[i];
	const mf_judged *j = &c->judged[i];

	return r->kind == MF_ROW_SERVE && j->covered && !j->outside && strcmp(r->metric, "tpot") == 0 &&
	       j->predicted > 0 && r->value > 0 && r->n_gpus > 0 && r->concurrency > 0;
}

static bool same_question(const mf_scorecard *c, size_t i, size_t k)
{
	const mf_measured *a = &c->table->rows[i], *b = &c->table->rows[k];

	return strcmp(a->model, b->model) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
	       strcmp(a->precision, b->precision) == 0 && a->isl == b->isl && a->osl == b->osl &&
	       strcmp(c->judged[i].release, c->judged[k].release) == 0;
}

void mf_score_replica_pairs(const mf_scorecard *c, mf_score_replicas *out)
{
	double lost = 0;

	memset(out, 0, sizeof *out);
	for (size_t i = 0; i < c->table->n; i++)
		for (size_t k = 0; k < c->table->n && usable(c, i); k++) {
			const mf_measured *narrow = &c->table->rows[i], *wide = &c->table->rows[k];
			double engines = wide->n_gpus / narrow->n_gpus, chosen;

			if (!(engines > 1.5) || engines != floor(engines) || !usable(c, k) || !same_question(c, i, k) ||
				wide->concurrency != engines * narrow->concurrency)
				continue;
			out->pairs++;
			out->narrow_wins += narrow->value < wide->value;
			chosen = c->judged[i].predicted < c->judged[k].predicted ? narrow->value : wide->value;
			out->right += chosen <= fmin(narrow->value, wide->value);
			lost += chosen / fmin(narrow->value, wide->value) - 1;
		}
	out->mean_regret = out->pairs ? lost / (double)out->pairs : NAN;
}
