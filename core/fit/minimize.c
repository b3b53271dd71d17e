/* minimize.c: Nelder-Mead inside bounds, from several starts. */
#include "fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The simplex moves in free coordinates; each maps onto its parameter's bounds by a sine, so no step leaves them. */
typedef struct problem {
	double (*f)(void *payload, const double *x);
	void *payload;
	const double *lo, *hi;
	size_t n;
} problem;

/* Bounds that span decades are walked on a logarithmic scale. */
static bool is_log(const problem *p, size_t i)
{
	return p->lo[i] > 0 && p->hi[i] > 4 * p->lo[i];
}

static void to_bounds(const problem *p, const double *u, double *x)
{
	for (size_t i = 0; i < p->n; i++) {
		double lo = p->lo[i], hi = p->hi[i], s = 0.5 + 0.5 * sin(u[i]);

		x[i] = is_log(p, i) ? lo * pow(hi / lo, s) : lo + (hi - lo) * s;
	}
}

static double to_free(const problem *p, size_t i, double x)
{
	double lo = p->lo[i], hi = p->hi[i], s;

	s = is_log(p, i) ? log(fmax(x, lo) / lo) / log(hi / lo) : (x - lo) / (hi - lo);
	/* Off the very edge, where the sine is flat and the simplex could not move. */
	return asin(2 * fmin(0.98, fmax(0.02, s)) - 1);
}

static double loss(const problem *p, const double *u)
{
	double x[MF_FIT_MAX_PARAMS], f;

	to_bounds(p, u, x);
	f = p->f(p->payload, x);
	return isfinite(f) ? f : HUGE_VAL;
}

typedef double point[MF_FIT_MAX_PARAMS];

static double nelder_mead(const problem *p, double *best)
{
	point v[MF_FIT_MAX_PARAMS + 1], mid, try, far;
	double f[MF_FIT_MAX_PARAMS + 1], ft, ff;
	size_t n = p->n, lo, hi, next;

	for (size_t i = 0; i <= n; i++) {
		memcpy(v[i], best, sizeof v[i]);
		if (i)
			v[i][i - 1] += best[i - 1] > 0 ? -0.25 : 0.25;
		f[i] = loss(p, v[i]);
	}
	for (int step = 0; step < 100 * (int)n; step++) {
		lo = hi = 0;
		for (size_t i = 1; i <= n; i++) {
			lo = f[i] < f[lo] ? i : lo;
			hi = f[i] >= f[hi] ? i : hi;
		}
		next = lo;
		for (size_t i = 0; i <= n; i++)
			next = i != hi && f[i] > f[next] ? i : next;
		if (f[hi] - f[lo] <= 1e-6 * (fabs(f[lo]) + 1e-12))
			break;
		for (size_t k = 0; k < n; k++) {
			mid[k] = 0;
			for (size_t i = 0; i <= n; i++)
				mid[k] += i == hi ? 0 : v[i][k] / (double)n;
			try[k] = 2 * mid[k] - v[hi][k];
			far[k] = 3 * mid[k] - 2 * v[hi][k];
		}
		ft = loss(p, try);
		if (ft < f[lo] && (ff = loss(p, far)) < ft) {
			memcpy(v[hi], far, n * sizeof *far);
			f[hi] = ff;
			continue;
		}
		if (ft < f[next]) {
			memcpy(v[hi], try, n * sizeof *try);
			f[hi] = ft;
			continue;
		}
		for (size_t k = 0; k < n; k++)
			far[k] = mid[k] + 0.5 * ((ft < f[hi] ? try[k] : v[hi][k]) - mid[k]);
		ff = loss(p, far);
		if (ff < fmin(ft, f[hi])) {
			memcpy(v[hi], far, n * sizeof *far);
			f[hi] = ff;
			continue;
		}
		for (size_t i = 0; i <= n; i++) {
			if (i == lo)
				continue;
			for (size_t k = 0; k < n; k++)
				v[i][k] = v[lo][k] + 0.5 * (v[i][k] - v[lo][k]);
			f[i] = loss(p, v[i]);
		}
	}
	lo = 0;
	for (size_t i = 1; i <= n; i++)
		lo = f[i] < f[lo] ? i : lo;
	memcpy(best, v[lo], n * sizeof *best);
	return f[lo];
}

double mf_minimize(double (*f)(void *payload, const double *x), void *payload, double *x, const double *lo,
	const double *hi, size_t n, unsigned starts)
{
	problem p = {f, payload, lo, hi, n};
	point best = {0}, u;
	double least = HUGE_VAL;
	uint64_t seed = 1;

	for (unsigned s = 0; s <= starts; s++) {
		double g;

		memset(u, 0, sizeof u);
		for (size_t i = 0; i < n; i++)
			u[i] = s ? asin(2 * (double)(mf_random_u64(&seed) >> 11) * 0x1p-53 * 0.9 - 0.9)
				 : to_free(&p, i, x[i]);
		g = nelder_mead(&p, u);
		if (g < least) {
			least = g;
			memcpy(best, u, sizeof best);
		}
	}
	/* A fresh simplex at the best point walks on where the last one had collapsed. */
	for (int i = 0; i < 2; i++) {
		memcpy(u, best, sizeof u);
		double g = nelder_mead(&p, u);

		if (!(g < least * (1 - 1e-6)))
			break;
		least = g;
		memcpy(best, u, sizeof best);
	}
	to_bounds(&p, best, x);
	return least;
}
