/*
 * fit.h: constants of the operation curves from measured tables. A table is a CSV file whose comment line and header
 * name what was measured; a curve is fitted on most of its rows by robust regression and judged on the rest, and a
 * table that does not follow its curve is called unsupported instead of being fitted badly.
 */
#ifndef MF_FIT_H
#define MF_FIT_H

#include "cost.h"
#include "curves.h"

/* ---- tables ---------------------------------------------------------------------------------------------------- */

/**
 * One CSV file: `# key=value ...` holds the columns that were constant, then a header, then rows. Owns its text.
 * Rows that cannot be read are counted and reported, not kept.
 */
typedef struct mf_table mf_table;
typedef void mf_fit_warn(void *payload, const char *file, int line, const char *message);
/** Reads a table. A missing header or more than a tenth of unreadable rows is an error; single rows are warned about. */
mf_status mf_table_read(mf_table **out, const char *path, mf_fit_warn *warn, void *payload, mf_err *err);
void mf_table_free(mf_table *t);
size_t mf_table_rows(const mf_table *t);
/** Rows left out as unreadable. */
size_t mf_table_bad(const mf_table *t);
/** Number to ask mf_table_text for: of a column, or of a key of the comment line; -1 when the table has neither. */
int mf_table_column(const mf_table *t, const char *name);
/** Text of a cell, never NULL. */
const char *mf_table_text(const mf_table *t, size_t row, int column);
/** Number of a cell; NaN when it is none. */
double mf_table_number(const mf_table *t, size_t row, int column);
/** Line of a row in the file. */
int mf_table_line(const mf_table *t, size_t row);
/** Value of the comment line, or "". */
const char *mf_table_header(const mf_table *t, const char *key);

/* ---- minimization ---------------------------------------------------------------------------------------------- */

#define MF_FIT_MAX_PARAMS 12
/**
 * Least `f` inside bounds, by Nelder-Mead from `x` and from `starts` more points drawn with a fixed seed; n is at most
 * MF_FIT_MAX_PARAMS. A parameter whose bounds are positive and more than a factor of four apart moves on a logarithmic
 * scale. `x` is updated; returns the least. Deterministic.
 */
double mf_minimize(double (*f)(void *payload, const double *x), void *payload, double *x, const double *lo,
	const double *hi, size_t n, unsigned starts);

/* ---- fitting --------------------------------------------------------------------------------------------------- */

#define MF_FIT_DIMS 4
/** What became of one curve. */
typedef struct mf_fit_curve {
	mf_curve_id id;
	bool supported; /* follows its form: median error on held-out rows within the bar */
	double value[MF_FIT_MAX_PARAMS];
	double lo[MF_FIT_DIMS], hi[MF_FIT_DIMS]; /* ranges of the domain's dimensions over all rows */
	char source[96];                         /* "gemm_perf.csv" */
	char measured[160];                      /* framework, version, device and kernel that the table names */
	char reason[160];                        /* why it is not supported */
	char note[160];                          /* rows left out and why; "" for none */
	size_t n_fit, n_held;
	size_t n_bad;             /* rows whose shape cannot be read */
	double median, p90, bias; /* of ln(predicted/measured) on held-out rows: |e|, |e|, e */
	double before_median;     /* the same rows under the constants the fit started from */
} mf_fit_curve;

typedef struct mf_fit {
	mf_cluster gpu;
	char device[64]; /* as the tables name it */
	mf_fit_curve *curves;
	size_t n_curves;
	size_t n_rows, n_bad;
} mf_fit;

typedef struct mf_fit_options {
	const char *dir;
	const mf_cluster *gpu;   /* rates; NULL: the built-in GPU that the tables' device names */
	const mf_consts *consts; /* start of the fit, or what is checked; NULL: factory */
	bool check;              /* judge `consts` as they are, fit nothing */
	unsigned threads;
	mf_fit_warn *warn;
	void (*progress)(void *payload, const char *what, size_t done, size_t of); /* may be NULL; one call at a time */
	void *payload;
} mf_fit_options;
/** Fits every curve that the folder has a table for. No table at all, or tables of several devices, is an error. */
mf_status mf_fit_run(mf_fit *out, const mf_fit_options *o, mf_err *err);
/** The GPU whose rates a run with these options reads its tables against. */
mf_status mf_fit_gpu(mf_cluster *out, const mf_fit_options *o, mf_err *err);
void mf_fit_dispose(mf_fit *f);
/** The overlay, as YAML; `origin` names the tables' folder in it. */
void mf_fit_overlay(const mf_fit *f, const char *origin, mf_buf *out);

#endif
