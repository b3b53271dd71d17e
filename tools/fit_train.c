/*
 * fit_train MEASURED.csv: what fitting the system constants of the training model on measured runs would give, on all
 * families and with each left out. A development tool that writes no file: moefs score never fits.
 *
 * Every constant starts from core/score/train_priors.def, what is known without an end-to-end run, and is held there by a
 * prior on its logarithm; coordinate descent moves it while that lowers the mean error of tuned runs, each set of one
 * model, GPU and release weighing as the root of its size.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "score_internal.h"

/* One degree of freedom: constants that move together, where they hold, and the prior's width (of the logarithm). */
typedef struct knob {
	const char *where;
	double sd;
	mf_const_id id[4];
	int n;
} knob;

#define K(where, sd, ...)                                                                                              \
	{                                                                                                              \
		where, sd, {__VA_ARGS__}, (int)(sizeof((mf_const_id[]){__VA_ARGS__}) / sizeof(mf_const_id))            \
	}
static const knob knobs[] = {
	K("hopper", 0.2, MF_C_SUSTAIN),
	K("B200", 0.2, MF_C_SUSTAIN),
	K("B300", 0.2, MF_C_SUSTAIN),
	K("GB200", 0.2, MF_C_SUSTAIN),
	K("GB300", 0.2, MF_C_SUSTAIN),
	K("hopper", 0.2, MF_C_GEMM_GROUPED),
	K("blackwell", 0.2, MF_C_GEMM_GROUPED),
	K("all", 0.75, MF_C_HOST_FWD, MF_C_HOST_BWD),
	K("all", 0.75, MF_C_HOST_GEMM),
	K("all", 0.75, MF_C_HOST_LOW),
	K("all", 0.375, MF_C_HIDE_EP),
	K("all", 0.3, MF_C_HIDE_EP_WGRAD),
	K("hopper", 0.5, MF_C_QUANT_BYTES),
	K("blackwell", 0.5, MF_C_QUANT_BYTES),
	K("blackwell", 0.5, MF_C_QUANT_BYTES_FUSED),
	K("all", 0.5, MF_C_SCAN_MAMBA, MF_C_SCAN_DELTA),
	K("all", 0.4, MF_C_GLU_FWD, MF_C_GLU_BWD, MF_C_EXPERT_BIAS_FWD, MF_C_EXPERT_BIAS_BWD),
	K("all", 0.375, MF_C_CONTEND),
	K("all", 0.2, MF_C_ATT_BWD),
	K("all", 0.15, MF_C_HBM),
	K("all", 0.75, MF_C_LOSS_BYTES),
	K("all", 0.125, MF_C_GEMM_WGRAD),
	K("blackwell", 0.25, MF_C_GEMM_FP8),
	K("blackwell", 0.375, MF_C_GEMM_FP4),
	K("all", 0.25, MF_C_GRAPH_CUT),
};
#define KNOBS (sizeof(knobs) / sizeof(knobs[0]))

/* Where constants start: what is known without an end-to-end run. */
static const struct {
	const char *where;
	mf_const_id id;
	double value;
} starts[] = {
#define P(where, id, value, source) {where, MF_C_##id, value},
#include "train_priors.def"
#undef P
};

typedef struct sample {
	mf_train_row *row;
	const char *family;
	mf_consts start;
	double weight, log_error;
} sample;

static sample *samples;
static size_t n_samples;
static double x[KNOBS];

static double knob_value(const knob *k, int i, const mf_consts *start, double log_scale)
{
	double v = start->v[k->id[i]] * exp(log_scale);

	/* Shares stay below one. */
	return strcmp(mf_const_infos[k->id[i]].unit, "1") == 0 && start->v[k->id[i]] <= 0.97 && v > 0.97 ? 0.97 : v;
}

static void evaluate(sample *s)
{
	const mf_cluster *c = mf_score_train_cluster(s->row);
	mf_consts k = s->start;
	double measured, rate;

	for (size_t j = 0; j < KNOBS; j++)
		for (int i = 0; i < knobs[j].n; i++)
			if (mf_score_train_where(knobs[j].where, c))
				k.v[knobs[j].id[i]] = knob_value(&knobs[j], i, &s->start, x[j]);
	rate = mf_score_train_rate(s->row, &k, &measured);
	s->log_error = log(rate / measured);
}

/* Mean clipped error of the families that are not left out, and the prior. `knob` limits what is priced again; < 0: all. */
static double objective(const char *without, int which)
{
	double sum = 0, weight = 0, prior = 0;

	for (size_t i = 0; i < n_samples; i++) {
		sample *s = &samples[i];

		if (without && strcmp(s->family, without) == 0)
			continue;
		if (which < 0 || mf_score_train_where(knobs[which].where, mf_score_train_cluster(s->row)))
			evaluate(s);
		sum += s->weight * fmin(fabs(s->log_error), 0.6);
		weight += s->weight;
	}
	for (size_t j = 0; j < KNOBS; j++)
		prior += x[j] * x[j] / (knobs[j].sd * knobs[j].sd);
	return sum / weight + 0.024 * prior / KNOBS;
}

static double fit(const char *without)
{
	/* The first steps are wide: a floor that binds nowhere shows no slope. */
	static const double steps[] = {1.28, 0.64, 0.32, 0.16, 0.08};
	double best;

	memset(x, 0, sizeof x);
	best = objective(without, -1);
	for (size_t sweep = 0; sweep < sizeof(steps) / sizeof(steps[0]); sweep++)
		for (int j = 0; j < (int)KNOBS; j++)
			for (int sign = 1; sign >= -1; sign -= 2) {
				double step = sign * knobs[j].sd * steps[sweep], v;
				bool moved = false;

				for (x[j] += step; (v = objective(without, j)) < best - 1e-6; x[j] += step) {
					best = v;
					moved = true;
				}
				x[j] -= step;
				objective(without, j);
				if (moved)
					break;
			}
	return best;
}

static int by_number(const void *a, const void *b)
{
	double p = *(const double *)a, q = *(const double *)b;

	return (p > q) - (p < q);
}

static void report(const char *name, const char *family)
{
	double *e = calloc(n_samples + 1, sizeof *e), bias = 0;
	size_t n = 0;

	for (size_t i = 0; i < n_samples; i++)
		if (!family || strcmp(samples[i].family, family) == 0)
			e[n++] = samples[i].log_error;
	qsort(e, n, sizeof *e, by_number);
	bias = n ? e[n / 2] : NAN;
	for (size_t i = 0; i < n; i++)
		e[i] = fabs(e[i]);
	qsort(e, n, sizeof *e, by_number);
	printf("%-24s n=%3zu median %.3f p90 %.3f bias %+.3f\n", name, n, n ? e[n / 2] : NAN,
		n ? e[(size_t)(0.9 * (double)n)] : NAN, bias);
	free(e);
}

static const char *const id_names[MF_CONST_COUNT] = {
#define X(id, name, unit, a, d, h, b, source) #id,
#include "consts.def"
#undef X
};

int main(int argc, char **argv)
{
	static const char *const all[] = {
		"deepseek", "gpt-oss", "llama3-moe", "mixtral", "nemotron", "qwen2-moe", "qwen3", "qwen3-delta", NULL};
	mf_score_opts opts = {1u << MF_ROW_TRAIN, "none"};
	mf_measured_table t;
	double *held;
	mf_score *ctx;
	mf_err err;

	if (argc != 2 || mf_measured_read(&t, argv[1], &err) < 0 || mf_score_new(&ctx, &t, &opts, &err) < 0) {
		fprintf(stderr, "usage: fit_train MEASURED.csv\n%s\n", argc == 2 ? err.msg : "");
		return 2;
	}
	samples = calloc(t.n + 1, sizeof *samples);
	held = calloc(t.n + 1, sizeof *held);
	for (size_t i = 0; i < t.n; i++) {
		sample *s = &samples[n_samples];
		mf_judged j;

		memset(&j, 0, sizeof j);
		if (t.rows[i].kind != MF_ROW_TRAIN || !(s->row = mf_score_train_read(ctx, &t.rows[i], &j)))
			continue;
		if (j.outside) {
			mf_score_train_dispose(s->row);
			continue;
		}
		s->family = mf_score_train_family(s->row);
		mf_consts_factory(&s->start, mf_score_train_cluster(s->row));
		for (size_t k = 0; k < sizeof(starts) / sizeof(starts[0]); k++)
			if (mf_score_train_where(starts[k].where, mf_score_train_cluster(s->row)))
				s->start.v[starts[k].id] = starts[k].value;
		s->weight = 0;
		for (size_t k = 0; k < t.n; k++) { /* rows of its set, by text */
			const mf_measured *a = &t.rows[i], *b = &t.rows[k];
			char mine[32], other[32];

			mf_measured_note(a, "container", mine, sizeof mine);
			mf_measured_note(b, "container", other, sizeof other);
			s->weight += b->kind == MF_ROW_TRAIN && strcmp(a->model, b->model) == 0 &&
				     strcmp(a->gpu, b->gpu) == 0 && strcmp(a->source_id, b->source_id) == 0 &&
				     strcmp(mine, other) == 0;
		}
		s->weight = 1 / sqrt(s->weight) * (strncmp(j.release, "25.", 3) == 0 ? 0.5 : 1);
		n_samples++;
	}
	objective(NULL, -1);
	report("before any fit", NULL);
	for (size_t f = 0; all[f]; f++) {
		fit(all[f]);
		for (size_t i = 0; i < n_samples; i++)
			if (strcmp(samples[i].family, all[f]) == 0) {
				evaluate(&samples[i]);
				held[i] = samples[i].log_error;
			}
		report(all[f], all[f]);
	}
	for (size_t i = 0; i < n_samples; i++)
		samples[i].log_error = held[i];
	report("family left out", NULL);
	printf("objective on all %.4f\n", fit(NULL));
	report("all, in sample", NULL);
	for (size_t j = 0; j < KNOBS; j++) {
		printf("  %-9s", knobs[j].where);
		for (int k = 0; k < knobs[j].n; k++)
			for (size_t i = 0; i < n_samples; i++)
				if (mf_score_train_where(knobs[j].where, mf_score_train_cluster(samples[i].row))) {
					printf(" %s %.4g", id_names[knobs[j].id[k]],
						knob_value(&knobs[j], k, &samples[i].start, x[j]));
					break;
				}
		printf(" (moved %+.2f)\n", x[j]);
	}
	for (size_t i = 0; i < n_samples; i++)
		mf_score_train_dispose(samples[i].row);
	free(samples);
	free(held);
	mf_score_free(ctx);
	mf_measured_dispose(&t);
	return 0;
}
