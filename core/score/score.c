/* score.c: asks the judge of every row, then counts: kinds, parts of kinds, sets, and reasons for what is not covered. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score_internal.h"

#define MAX_DEGREE 16384
#define MAX_GPUS 65536
#define MEASURED_TIE 0.005 /* repeats of one run differ by this much: no order is asked within it */

const mf_choice mf_memory_verdict_choices[] = {
	{MF_MEM_NONE, "none", "not asked"},
	{MF_MEM_FITS, "fits", "under the budget"},
	{MF_MEM_PROBE, "probe", "too close to the budget: only a launch can tell"},
	{MF_MEM_REFUSED, "refused", "over the budget"},
	{0, NULL, NULL},
};

static void (*const judges[MF_ROW_COUNT])(mf_score *, const mf_measured *, mf_judged *) = {
	[MF_ROW_TRAIN] = mf_score_train,
	[MF_ROW_SERVE] = mf_score_serve,
	[MF_ROW_MEMORY] = mf_score_memory,
	[MF_ROW_KERNEL] = mf_score_kernel,
	[MF_ROW_COMM] = mf_score_comm,
};

/* ---- figures of a list of rows ------------------------------------------------------------------------------------- */

/* Rows are chosen by a predicate over their index; `logs` and `regrets` are scratch for as many. */
struct pick {
	mf_row_kind kind;
	bool outside;
	const char *metric, *group; /* NULL: any */
};

static bool picked(const mf_scorecard *c, size_t i, const struct pick *p)
{
	const mf_measured *r = &c->table->rows[i];
	const mf_judged *j = &c->judged[i];

	return r->kind == p->kind && j->outside == p->outside && (!p->metric || strcmp(p->metric, r->metric) == 0) &&
	       (!p->group || strcmp(p->group, j->group) == 0);
}

static double ratio(size_t a, size_t b)
{
	return b ? (double)a / (double)b : NAN;
}

static void count_memory(const mf_measured *r, const mf_judged *j, mf_score_stats *s)
{
	if (j->verdict == MF_MEM_NONE)
		return;
	if (r->outcome == MF_OUTCOME_OK) {
		s->fit_rows++;
		s->fit_refused += j->verdict == MF_MEM_REFUSED;
		s->fit_probe += j->verdict == MF_MEM_PROBE;
	} else {
		s->oom_rows++;
		s->oom_refused += j->verdict == MF_MEM_REFUSED;
		s->oom_probe += j->verdict == MF_MEM_PROBE;
	}
}

static void finish(mf_score_stats *s, double *logs)
{
	size_t n = s->compared, near = 0;

	s->coverage = ratio(s->covered, s->rows);
	s->bias_log = mf_quantile(logs, n, 0.5);
	for (size_t i = 0; i < n; i++) {
		near += fabs(expm1(logs[i])) <= 0.08;
		logs[i] = fabs(logs[i]);
	}
	s->median_abs_log = mf_quantile(logs, n, 0.5);
	s->p90_abs_log = mf_quantile(logs, n, 0.9);
	s->within_8 = ratio(near, n);
	s->oom_recall = ratio(s->oom_refused + s->oom_probe, s->oom_rows);
	s->fit_recall = ratio(s->fit_rows - s->fit_refused, s->fit_rows);
	s->probe_share = ratio(s->oom_probe + s->fit_probe, s->oom_rows + s->fit_rows);
	s->probe_precision = ratio(s->oom_probe, s->oom_probe + s->fit_probe);
	s->kendall = s->median_regret = s->mean_regret = s->p90_regret = NAN;
}

static void add_row(const mf_measured *r, const mf_judged *j, mf_score_stats *s, double *logs)
{
	s->rows++;
	s->covered += j->covered;
	if (!j->covered)
		return;
	count_memory(r, j, s);
	if (r->outcome == MF_OUTCOME_OK && r->value > 0 && j->predicted > 0)
		logs[s->compared++] = log(j->predicted / r->value);
}

static mf_score_stats stats_of(const mf_scorecard *c, const struct pick *p, double *logs)
{
	mf_score_stats s;

	memset(&s, 0, sizeof s);
	for (size_t i = 0; i < c->table->n; i++)
		if (c->asked[c->table->rows[i].kind] && picked(c, i, p))
			add_row(&c->table->rows[i], &c->judged[i], &s, logs);
	finish(&s, logs);
	return s;
}

/* ---- sets ---------------------------------------------------------------------------------------------------------- */

static bool inverted(const char *unit)
{
	return strcmp(unit, "ms") == 0 || strcmp(unit, "s") == 0 || strcmp(unit, "us") == 0;
}

static double rate(const mf_measured *r, double given, double value)
{
	return !isnan(given) ? given : inverted(r->unit) ? 1 / value : value;
}

/* A set's key where the judge gave none. Memory, kernels and collectives are not ranked. */
static void name_set(const mf_measured *r, mf_judged *j)
{
	if (!*j->release)
		mf_measured_note(r, "container", j->release, sizeof j->release);
	if (*j->set || (r->kind != MF_ROW_TRAIN && r->kind != MF_ROW_SERVE))
		return;
	snprintf(j->set, sizeof j->set, "%.48s|%.16s|%g|%.31s|%.16s|%g|%g|%g|%.32s", r->model, r->gpu, r->n_gpus,
		j->release, r->kind == MF_ROW_SERVE ? r->precision : "", r->isl, r->osl, r->concurrency, r->metric);
}

struct set_row {
	size_t row;
	const char *key, *plan;
	mf_row_kind kind;
	bool outside;
};

static int by_set(const void *a, const void *b)
{
	const struct set_row *x = a, *y = b;
	int d = (x->kind > y->kind) - (x->kind < y->kind);

	if (!d)
		d = (x->outside > y->outside) - (x->outside < y->outside);
	if (!d)
		d = strcmp(x->key, y->key);
	if (!d)
		d = strcmp(x->plan, y->plan);
	return d ? d : (x->row > y->row) - (x->row < y->row);
}

static bool same_set(const struct set_row *a, const struct set_row *b)
{
	return a->kind == b->kind && a->outside == b->outside && strcmp(a->key, b->key) == 0;
}

/* Fills one set from rows [0, n) of `r`; scratch holds 4 n numbers. */
static void fill_set(const mf_scorecard *c, const struct set_row *r, size_t n, mf_score_set *s, double *scratch)
{
	double *measured = scratch, *predicted = scratch + n, *x = scratch + 2 * n, *y = scratch + 3 * n;
	const mf_measured *first = &c->table->rows[r->row];
	size_t i = 0;

	memset(s, 0, sizeof *s);
	*s = (mf_score_set){.key = r->key,
		.model = first->model,
		.gpu = first->gpu,
		.release = c->judged[r->row].release,
		.metric = first->metric,
		.kind = r->kind,
		.outside = r->outside,
		.n_gpus = first->n_gpus};
	for (size_t k = 0; k < n; k++)
		add_row(&c->table->rows[r[k].row], &c->judged[r[k].row], &s->stats, x);
	finish(&s->stats, x);
	while (i < n) {
		size_t k = i, repeats = 0;

		for (; k < n && strcmp(r[k].plan, r[i].plan) == 0; k++) {
			const mf_measured *m = &c->table->rows[r[k].row];
			const mf_judged *j = &c->judged[r[k].row];
			double a = rate(m, j->rate_measured, m->value), b = rate(m, j->rate_predicted, j->predicted);

			if (m->outcome == MF_OUTCOME_OK && j->covered && isfinite(a) && isfinite(b)) {
				x[repeats] = a;
				y[repeats++] = b;
			}
		}
		if (repeats) {
			measured[s->plans] = mf_quantile(x, repeats, 0.5);
			predicted[s->plans++] = mf_quantile(y, repeats, 0.5);
		}
		i = k;
	}
	s->tau = s->plans > 1 ? mf_stat_kendall(measured, predicted, s->plans, MEASURED_TIE) : NAN;
	s->regret = s->plans > 1 ? mf_stat_regret(measured, predicted, s->plans) : NAN;
	s->stats.sets = s->plans > 1;
	s->stats.kendall = s->tau;
	s->stats.median_regret = s->stats.mean_regret = s->stats.p90_regret = s->regret;
}

static mf_status make_sets(mf_scorecard *c, double *scratch, mf_err *err)
{
	struct set_row *rows = calloc(c->table->n + 1, sizeof *rows);
	size_t n = 0;

	c->sets = calloc(c->table->n + 1, sizeof *c->sets);
	if (!rows || !c->sets) {
		free(rows);
		return mf_fail(err, MF_ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < c->table->n; i++)
		if (c->asked[c->table->rows[i].kind] && *c->judged[i].set)
			rows[n++] = (struct set_row){
				i, c->judged[i].set, c->judged[i].plan, c->table->rows[i].kind, c->judged[i].outside};
	qsort(rows, n, sizeof *rows, by_set);
	for (size_t i = 0; i < n;) {
		size_t k = i;

		while (k < n && same_set(&rows[k], &rows[i]))
			k++;
		fill_set(c, rows + i, k - i, &c->sets[c->n_sets++], scratch);
		i = k;
	}
	free(rows);
	return MF_OK;
}

/* Mean tau, and median, mean and p90 regret over the sets of a kind (of one metric where given). */
static void rank_stats(const mf_scorecard *c, const struct pick *p, mf_score_stats *s, double *scratch)
{
	double tau = 0, regret = 0;
	size_t n_tau = 0, n = 0;

	for (size_t i = 0; i < c->n_sets; i++) {
		const mf_score_set *set = &c->sets[i];

		if (set->kind != p->kind || set->outside != p->outside || set->plans < 2 ||
			(p->metric && strcmp(p->metric, set->metric) != 0))
			continue;
		s->sets++;
		if (isfinite(set->tau)) {
			tau += set->tau;
			n_tau++;
		}
		if (isfinite(set->regret)) {
			regret += set->regret;
			scratch[n++] = set->regret;
		}
	}
	s->kendall = n_tau ? tau / (double)n_tau : NAN;
	s->mean_regret = n ? regret / (double)n : NAN;
	s->median_regret = mf_quantile(scratch, n, 0.5);
	s->p90_regret = mf_quantile(scratch, n, 0.9);
}

/* ---- parts and reasons --------------------------------------------------------------------------------------------- */

static void add_part(mf_scorecard *c, const struct pick *p, double *scratch)
{
	mf_score_part *part;

	for (size_t i = 0; i < c->n_parts; i++)
		if (c->parts[i].kind == p->kind && c->parts[i].outside == p->outside &&
			strcmp(c->parts[i].by, p->metric ? "metric" : "group") == 0 &&
			strcmp(c->parts[i].name, p->metric ? p->metric : p->group) == 0)
			return;
	part = &c->parts[c->n_parts++];
	*part = (mf_score_part){.kind = p->kind,
		.outside = p->outside,
		.by = p->metric ? "metric" : "group",
		.name = p->metric ? p->metric : p->group,
		.stats = stats_of(c, p, scratch)};
	if (p->metric)
		rank_stats(c, p, &part->stats, scratch);
}

static int by_part(const void *a, const void *b)
{
	const mf_score_part *x = a, *y = b;
	int d = (x->kind > y->kind) - (x->kind < y->kind);

	if (!d)
		d = (x->outside > y->outside) - (x->outside < y->outside);
	if (!d)
		d = strcmp(y->by, x->by);
	return d ? d : strcmp(x->name, y->name);
}

static void add_reason(mf_scorecard *c, size_t i)
{
	for (size_t k = 0; k < c->n_reasons; k++) {
		mf_score_reason *r = &c->reasons[k];

		if (r->kind == c->table->rows[i].kind && r->outside == c->judged[i].outside &&
			strcmp(r->reason, c->judged[i].why_not) == 0) {
			r->count++;
			return;
		}
	}
	c->reasons[c->n_reasons++] =
		(mf_score_reason){c->table->rows[i].kind, c->judged[i].outside, c->judged[i].why_not, 1};
}

static int by_reason(const void *a, const void *b)
{
	const mf_score_reason *x = a, *y = b;
	int d = (x->kind > y->kind) - (x->kind < y->kind);

	if (!d)
		d = (x->outside > y->outside) - (x->outside < y->outside);
	if (!d)
		d = (x->count < y->count) - (x->count > y->count);
	return d ? d : strcmp(x->reason, y->reason);
}

static mf_status make_parts(mf_scorecard *c, double *scratch, mf_err *err)
{
	c->parts = calloc(2 * c->table->n + 1, sizeof *c->parts);
	c->reasons = calloc(c->table->n + 1, sizeof *c->reasons);
	if (!c->parts || !c->reasons)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	for (int kind = 0; kind < MF_ROW_COUNT; kind++)
		for (int outside = 0; outside < 2; outside++) {
			struct pick p = {(mf_row_kind)kind, outside, NULL, NULL};
			mf_score_stats *s = outside ? &c->outside[kind] : &c->kinds[kind];

			*s = stats_of(c, &p, scratch);
			rank_stats(c, &p, s, scratch);
		}
	for (size_t i = 0; i < c->table->n; i++) {
		const mf_measured *r = &c->table->rows[i];
		const mf_judged *j = &c->judged[i];
		struct pick p = {r->kind, j->outside, r->metric, NULL};

		if (!c->asked[r->kind])
			continue;
		add_part(c, &p, scratch);
		p.metric = NULL;
		p.group = j->group;
		if (*j->group)
			add_part(c, &p, scratch);
		if (!j->covered)
			add_reason(c, i);
	}
	qsort(c->parts, c->n_parts, sizeof *c->parts, by_part);
	qsort(c->reasons, c->n_reasons, sizeof *c->reasons, by_reason);
	return MF_OK;
}

/* ---- plausible rows ------------------------------------------------------------------------------------------------ */

/* What a plan and a workload can hold: judges store degrees in 16 bits and multiply them. */
static bool plausible(const mf_measured *row, mf_judged *out)
{
	const double degrees[] = {
		row->gpus_per_node, row->tp, row->pp, row->vpp, row->ep, row->etp, row->cp, row->dp, row->mbs};

	for (size_t i = 0; i < MF_COUNT(degrees); i++)
		if (degrees[i] > MAX_DEGREE) {
			mf_score_uncovered(out, "a degree beyond any plan");
			return false;
		}
	if (row->n_gpus > MAX_GPUS || row->gbs > 1e8 || row->seq_len > 1e8 || row->isl > 1e8 || row->osl > 1e8 ||
		row->concurrency > 1e6) {
		mf_score_uncovered(out, "GPUs, lengths or batches beyond any plan");
		return false;
	}
	return true;
}

/* ---- a run --------------------------------------------------------------------------------------------------------- */

static void unknown(mf_judged *j)
{
	memset(j, 0, sizeof *j);
	j->predicted = j->rate_measured = j->rate_predicted = NAN;
	j->verdict = MF_MEM_NONE;
}

/* The same training rows by the shipped constants. */
static mf_status add_in_sample(mf_scorecard *c, const mf_measured_table *t, mf_err *err)
{
	const mf_score_opts opts = {1u << MF_ROW_TRAIN, "none"};
	mf_scorecard *other;
	mf_status st = mf_score_run(&other, t, &opts, err);

	if (st == MF_OK)
		c->in_sample = other->kinds[MF_ROW_TRAIN];
	mf_scorecard_free(st == MF_OK ? other : NULL);
	return st;
}

mf_status mf_score_run(mf_scorecard **out, const mf_measured_table *t, const mf_score_opts *opts, mf_err *err)
{
	mf_scorecard *c = calloc(1, sizeof *c);
	double *scratch = calloc(4 * t->n + 4, sizeof *scratch);
	mf_score *ctx = NULL;
	mf_status st = MF_OK;

	*out = NULL;
	if (c) {
		c->table = t;
		c->judged = calloc(t->n + 1, sizeof *c->judged);
	}
	if (!c || !scratch || !c->judged)
		st = mf_fail(err, MF_ENOMEM, "out of memory");
	if (st == MF_OK)
		st = mf_score_new(&ctx, t, opts, err);
	if (st == MF_OK) {
		for (int k = 0; k < MF_ROW_COUNT; k++)
			c->asked[k] = !opts->kinds || (opts->kinds >> k & 1);
		for (size_t i = 0; i < t->n; i++) {
			mf_judged *j = &c->judged[i];

			unknown(j);
			if (!c->asked[t->rows[i].kind])
				continue;
			if (plausible(&t->rows[i], j))
				judges[t->rows[i].kind](ctx, &t->rows[i], j);
			name_set(&t->rows[i], j);
		}
		if ((st = make_sets(c, scratch, err)) == MF_OK)
			st = make_parts(c, scratch, err);
		mf_score_replica_pairs(c, &c->replicas);
		if (st == MF_OK && c->asked[MF_ROW_TRAIN] && !mf_score_factory(ctx))
			st = add_in_sample(c, t, err);
	}
	mf_score_free(ctx);
	free(scratch);
	if (st < 0)
		mf_scorecard_free(c);
	else
		*out = c;
	return st;
}

void mf_scorecard_free(mf_scorecard *c)
{
	if (!c)
		return;
	free(c->judged);
	free(c->sets);
	free(c->parts);
	free(c->reasons);
	free(c);
}
