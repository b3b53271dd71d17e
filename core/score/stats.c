/* stats.c: the statistics of the scorecard, on plain arrays. */
#include <math.h>

#include "score.h"

double mf_stat_kendall(const double *a, const double *b, size_t n, double tie)
{
	double order = 0, pairs_a = 0, pairs_b = 0;

	for (size_t i = 1; i < n; i++)
		for (size_t j = 0; j < i; j++) {
			double x = a[i] - a[j], y = b[i] - b[j];

			if (fabs(x) <= tie * fmax(fabs(a[i]), fabs(a[j])))
				x = 0;
			pairs_a += x != 0;
			pairs_b += y != 0;
			order += ((x > 0) - (x < 0)) * ((y > 0) - (y < 0));
		}
	return pairs_a > 0 && pairs_b > 0 ? order / sqrt(pairs_a * pairs_b) : NAN;
}

double mf_stat_regret(const double *measured, const double *predicted, size_t n)
{
	double best = 0, top = 0, chosen = 0, shared = 0;

	for (size_t i = 0; i < n; i++) {
		best = i ? fmax(best, measured[i]) : measured[i];
		top = i ? fmax(top, predicted[i]) : predicted[i];
	}
	for (size_t i = 0; i < n; i++)
		if (predicted[i] == top) {
			chosen += measured[i];
			shared += 1;
		}
	return shared > 0 ? (best - chosen / shared) / best : NAN;
}
