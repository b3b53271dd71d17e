/* number.c: what a list of numbers says. */
#include <math.h>
#include <stdlib.h>

#include "base.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double mf_quantile(double *values, size_t n, double q)
{
	double at, low;

	if (!n)
		return NAN;
	qsort(values, n, sizeof *values, by_value);
	at = q * (double)(n - 1);
	low = floor(at);
	if ((size_t)low + 1 >= n)
		return values[n - 1];
	return values[(size_t)low] + (at - low) * (values[(size_t)low + 1] - values[(size_t)low]);
}
