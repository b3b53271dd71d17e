/*
 * score.h: how right the predictions are. Measured rows are read from a CSV, each is turned into a plan and its inputs
 * and predicted by the same evaluator that ranks plans, and the differences are counted. Nothing here fits anything.
 *
 *   mf_measured_read      rows of a CSV with the columns of tests/data/measured.csv
 *   mf_score_run          judges every row (one function a kind: train.c, serve.c, memory.c, ops.c) and counts
 *   mf_score_svg          predicted against measured, as a picture
 *   mf_stat_*             the statistics alone
 */
#ifndef MF_SCORE_H
#define MF_SCORE_H

#include "cost.h"

/* ---- measured rows ----------------------------------------------------------------------------------------------- */

typedef enum mf_row_kind {
	MF_ROW_TRAIN,
	MF_ROW_SERVE,
	MF_ROW_MEMORY,
	MF_ROW_KERNEL,
	MF_ROW_COMM,
	MF_ROW_COUNT
} mf_row_kind;
extern const mf_choice mf_row_kind_choices[];
/** How a measured run ended: it ran, it died of memory, or the program declined to start. */
typedef enum mf_outcome { MF_OUTCOME_OK, MF_OUTCOME_OOM, MF_OUTCOME_REFUSED } mf_outcome;
extern const mf_choice mf_outcome_choices[];

/** Columns that hold text, and columns that hold whole numbers. The others are kind, value and outcome. */
#define MF_MEASURED_TEXTS(X)                                                                                           \
	X(id)                                                                                                          \
	X(model)                                                                                                       \
	X(gpu)                                                                                                         \
	X(sharding)                                                                                                    \
	X(schedule)                                                                                                    \
	X(overlap)                                                                                                     \
	X(recompute)                                                                                                   \
	X(precision)                                                                                                   \
	X(metric)                                                                                                      \
	X(unit)                                                                                                        \
	X(source_id)                                                                                                   \
	X(note)
#define MF_MEASURED_COUNTS(X)                                                                                          \
	X(n_gpus)                                                                                                      \
	X(gpus_per_node)                                                                                               \
	X(tp)                                                                                                          \
	X(pp)                                                                                                          \
	X(vpp)                                                                                                         \
	X(ep)                                                                                                          \
	X(etp)                                                                                                         \
	X(cp)                                                                                                          \
	X(dp)                                                                                                          \
	X(mbs)                                                                                                         \
	X(gbs)                                                                                                         \
	X(seq_len)                                                                                                     \
	X(isl)                                                                                                         \
	X(osl)                                                                                                         \
	X(concurrency)

/**
 * One measured figure. Texts are "" and numbers NaN where the source does not state them: that never means 1 or "off".
 * Texts are borrowed from the table.
 */
typedef struct mf_measured {
#define X(column) const char *column;
	MF_MEASURED_TEXTS(X)
#undef X
#define X(column) double column;
	MF_MEASURED_COUNTS(X)
#undef X
	double value; /* in `unit`; NaN on most rows that did not run */
	mf_row_kind kind;
	mf_outcome outcome;
	int line; /* in the file */
} mf_measured;

/** A file of measured rows. Owns the rows and their texts. */
typedef struct mf_measured_table {
	char *name;
	mf_measured *rows;
	size_t n;
	mf_arena *arena;
} mf_measured_table;

/**
 * Reads a CSV: first line names the columns, in any order; fields may be quoted ("" is a quote); CRLF and a byte order
 * mark are accepted. A missing, doubled or unknown column, a row with another number of fields, a number that is none
 * or an unknown word fails with one line that names file, line and column.
 */
mf_status mf_measured_read(mf_measured_table *out, const char *path, mf_err *err);
/** As mf_measured_read, from `len` bytes; `name` is what errors call them. */
mf_status mf_measured_parse(mf_measured_table *out, const char *name, const char *text, size_t len, mf_err *err);
void mf_measured_dispose(mf_measured_table *t);

/**
 * Value of `key` among the key=value parts of a row's note, without surrounding blanks: it ends at ';', at ", " or with
 * the note. False, and "" in `out`, when the note has no such key or the value needs more than `size` - 1 bytes.
 */
bool mf_measured_note(const mf_measured *row, const char *key, char *out, size_t size);
/** True when the note holds `phrase`. */
bool mf_measured_says(const mf_measured *row, const char *phrase);

/* ---- judging ------------------------------------------------------------------------------------------------------- */

/** What the memory ledger says of a plan. */
typedef enum mf_memory_verdict { MF_MEM_NONE, MF_MEM_FITS, MF_MEM_PROBE, MF_MEM_REFUSED } mf_memory_verdict;
extern const mf_choice mf_memory_verdict_choices[];

/** What became of one row. mf_score_run sets every field to "unknown" before it asks the row's kind. */
typedef struct mf_judged {
	bool covered;              /* the plan space expresses the row, and it was judged */
	char why_not[96];          /* else the reason, short, so that equal reasons count together */
	bool outside;              /* outside the domain that the targets are set for: counted apart */
	bool extrapolated;         /* a constant was used outside its own domain */
	double predicted;          /* in the row's unit; NaN when there is no figure to compare */
	mf_memory_verdict verdict; /* memory rows: would the plan have been started; MF_MEM_NONE when not asked */
	char group[32];   /* what it is counted with besides its kind and metric: "golden", "SGLang"; "" for none */
	char release[32]; /* software release, part of the set; from the note's `container` when left alone */
	char set[192];    /* rows with equal text are ranked together; "" when left alone: see mf_score_run */
	char plan[MF_PLAN_TEXT_MAX]; /* what the row was read as: also what makes two rows repeats of one plan */
	/* Higher is better, in one unit within a set: what ranks. NaN: from value and predicted, inverted for times. */
	double rate_measured, rate_predicted;
} mf_judged;

/** Figures of a list of rows. A figure that cannot be formed is NaN. */
typedef struct mf_score_stats {
	size_t rows, covered, compared; /* compared: those with a measured and a predicted figure */
	double coverage;
	double median_abs_log, p90_abs_log, bias_log; /* of log(predicted / measured); the bias is the median */
	double within_8;                              /* share of compared rows within 8% */
	size_t sets;                                  /* of two or more plans */
	double kendall, median_regret, mean_regret, p90_regret;
	/* Memory. An OOM is caught when the plan is refused or answered `probe`; a fitting row is kept unless refused. */
	size_t oom_rows, oom_refused, oom_probe, fit_rows, fit_refused, fit_probe;
	double oom_recall, fit_recall;
	double probe_share, probe_precision; /* of all judged rows; share of them that died of memory */
} mf_score_stats;

/** One set: one model, GPU, GPU count, release. Texts are borrowed from the scorecard's table and judgements. */
typedef struct mf_score_set {
	const char *key, *model, *gpu, *release, *metric;
	mf_row_kind kind;
	bool outside;
	double n_gpus;
	size_t plans; /* different ones, repeats merged to their median */
	mf_score_stats stats;
	double tau, regret; /* NaN with fewer than two plans; regret is (best - chosen) / best measured rate */
} mf_score_set;

/** A part of a kind's rows: one metric, or one group. */
typedef struct mf_score_part {
	mf_row_kind kind;
	bool outside;
	const char *by, *name; /* "metric", "tpot"; borrowed */
	mf_score_stats stats;
} mf_score_part;

/** Why rows were not covered, with their number. */
typedef struct mf_score_reason {
	mf_row_kind kind;
	bool outside;
	const char *reason;
	size_t count;
} mf_score_reason;

/** Serving: k engines against one k times as wide, at equal load; the layout with the lower predicted TPOT is chosen. */
typedef struct mf_score_replicas {
	size_t pairs, right; /* the chosen one was the faster */
	size_t narrow_wins;  /* pairs in which the k engines were: what always choosing them would get right */
	double mean_regret;  /* TPOT of the chosen over the faster one's, less 1; NaN without pairs */
} mf_score_replicas;

/** The result. Owns all but the table, which must outlive it. */
typedef struct mf_scorecard {
	const mf_measured_table *table;
	mf_judged *judged; /* one a row, in the table's order */
	bool asked[MF_ROW_COUNT];
	mf_score_stats kinds[MF_ROW_COUNT], outside[MF_ROW_COUNT];
	/* Training rows by the constants as shipped, which were fitted on them; `kinds` judges by those before any fit. No rows
	   when the run asked for factory constants. */
	mf_score_stats in_sample;
	mf_score_set *sets;
	size_t n_sets;
	mf_score_part *parts;
	size_t n_parts;
	mf_score_reason *reasons; /* most frequent first within a kind */
	size_t n_reasons;
	mf_score_replicas replicas;
} mf_scorecard;

typedef struct mf_score_opts {
	unsigned kinds; /* bits 1 << mf_row_kind; 0: all */
	const char *
		overlay; /* NULL: the shipped overlay of each row's GPU where there is one; "none": factory constants */
} mf_score_opts;

/**
 * Judges every row of the asked kinds and counts. Rows are ranked together when they agree in kind, model, GPU, number
 * of GPUs, release, precision of a serving row, isl, osl, concurrency and metric, unless the kind's judge names its own
 * set. A row that the judge cannot express is counted with its reason. Deterministic.
 */
mf_status mf_score_run(mf_scorecard **out, const mf_measured_table *t, const mf_score_opts *opts, mf_err *err);
void mf_scorecard_free(mf_scorecard *c);

/** Appends an SVG: predicted against measured on logarithmic axes, one panel a unit, one colour a kind and GPU family. */
void mf_score_svg(const mf_scorecard *c, mf_buf *out);

/* ---- statistics ---------------------------------------------------------------------------------------------------- */

/**
 * Kendall's tau-b of n pairs. Values of `a` that differ by less than `tie` (relative) are ties, as are equal values of
 * `b`. NaN when every pair is tied on one side.
 */
double mf_stat_kendall(const double *a, const double *b, size_t n, double tie);
/**
 * How much is lost by taking the pair with the highest predicted rate: (best measured - its measured) / best measured,
 * the mean over pairs that share the highest prediction. NaN when n is 0.
 */
double mf_stat_regret(const double *measured, const double *predicted, size_t n);

#endif
