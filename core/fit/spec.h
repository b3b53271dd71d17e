/* spec.h: how the rows of a table become observations of a curve. */
#ifndef MF_FIT_SPEC_H
#define MF_FIT_SPEC_H

#include "fit.h"

#define SPEC_COLUMNS 14
#define SPEC_INPUTS 10

/** One measured operation: what the curve takes, and how long it was seen to take. */
typedef struct obs {
	double x[SPEC_INPUTS];
	double us;
	double dim[MF_FIT_DIMS]; /* of the curve's domain */
	uint64_t shape;          /* hash of what names the shape: all rows of one go to one side of the split */
	uint32_t row;
} obs;

/** A table opened for one spec: columns looked up, kernel chosen. */
typedef struct reader {
	const mf_table *t;
	const struct spec *s;
	const mf_cluster *gpu;
	int col[SPEC_COLUMNS];
	int kernel_col;
	int part; /* observation of the row being read */
} reader;

/** What predictions are shares of. */
typedef struct spec_gpu {
	mf_gpu_rates rates;
	double link_share; /* of the reference link of the bus rates */
	double mxfp4_peak; /* FLOP/us of the arithmetic behind mxfp4 experts */
} spec_gpu;

typedef struct spec {
	mf_curve_id id;
	const char *file;    /* "gemm_perf.csv" */
	const char *columns; /* those it needs, by blanks; the ones of `optional` after them may be missing */
	const char *optional;
	const char *note; /* rows left out and why */
	int arg;          /* told apart by the callbacks */
	int parts;        /* observations a row holds */
	/* Reads a row's part; false when it belongs to another curve. */
	bool (*take)(const reader *r, size_t row, obs *o);
	double (*predict)(const double *g, const spec_gpu *u, const obs *o);
	double lo[MF_FIT_MAX_PARAMS], hi[MF_FIT_MAX_PARAMS];
	bool (*applies)(const mf_cluster *gpu); /* NULL: always */
	/* Another reading of the same rows: taken, and said, when the first one's constants cannot be. NULL: none. */
	bool (*impossible)(const double *value);
	void (*reread)(obs *o);
	const char *reread_note;
	/* Why constants that fit are no use to a model of serving, or NULL. */
	const char *(*useless)(const double *value);
} spec;
extern const spec mf_fit_specs[];
extern const size_t mf_fit_n_specs;

#endif
