/*
 * cli.h: the command line. One table of options, one of commands; help, completion and the man page are printed from
 * them. A command gets its parsed options and returns a process exit code (0 done, 1 negative answer, 2 usage or input,
 * 3 environment, 4 our bug).
 */
#ifndef MF_CLI_H
#define MF_CLI_H

#include "autotune.h"
#include "job.h"
#include "search.h"

/** X(id, "name", "VALUE" or NULL for a switch, completion word list or NULL, "help") */
/* clang-format off */
#define MF_OPTIONS \
	X(MODEL, "model", "NAME|PATH", "@models", "built-in model, config.json, its folder, or a cached hub name") \
	X(CLUSTER, "cluster", "NAME|PATH", "@clusters", "built-in cluster, N x GPUs x GPU such as 256x8xh800, YAML file, or auto") \
	X(WORKLOAD, "workload", "NAME|PATH", "@workloads", "built-in workload or YAML file") \
	X(PHASE, "phase", "PHASE", "train serve", "what the plan is for") \
	X(SPACE, "space", "SPACE", "paper default wide", "which plans are enumerated") \
	X(OVERLAY, "overlay", "NAME|PATH", "@calibrated", "calibrated constants; none given: the factory model") \
	X(AUTOTUNE, "autotune", "FILE", NULL, "report of generated kernels, attached to the best plans where they win after tax") \
	X(STACK, "stack", "NAME|PATH", "@stacks", "software the plan runs on") \
	X(SITE, "site", "PATH", NULL, "paths, hosts and run length of this place") \
	X(LEDGER, "ledger", "PROFILE", "published full", "memory accounting") \
	X(TOOLCHAIN, "toolchain", "NAME", "@toolchains", "toolchain and version; check also takes all") \
	X(CONSTRAINT, "constraint", "on|off", "on off", "judge plans by the emitter and the memory gate (default on)") \
	X(TAX, "tax", "on|off", "on off", "apply realization taxes that the overlay carries (default on)") \
	X(PLAN, "plan", "PLAN", NULL, "a plan in text form, see moefs-plan(7)") \
	X(DECODE_PLAN, "decode-plan", "PLAN", NULL, "serving: decode on a pool of its own under this plan; --plan is the prefill pool's") \
	X(DECODE_CLUSTER, "decode-cluster", "NAME|PATH", "@clusters", "cluster of the decode pool; as --cluster when left out") \
	X(TOP, "top", "N", NULL, "first N buildable plans and every rejected one above them (0: all)") \
	X(SEQ, "seq", "TOKENS", NULL, "training sequence length, over the workload's") \
	X(GLOBAL_BATCH, "global-batch", "SEQUENCES", NULL, "training global batch, over the workload's") \
	X(INPUT_TOKENS, "input-tokens", "N", NULL, "serving prompt length, over the workload's") \
	X(OUTPUT_TOKENS, "output-tokens", "N", NULL, "serving output length, over the workload's") \
	X(CONCURRENCY, "concurrency", "N", NULL, "serving requests in flight, over the workload's") \
	X(MAX_VIOLATION, "max-violation", "X", NULL, "routing skew: most loaded expert over the mean, less 1") \
	X(TIMELINE, "timeline", NULL, NULL, "simulate a training step and draw it") \
	X(JSON, "json", NULL, NULL, "print one JSON object") \
	X(EMIT, "emit", "jsonl", "jsonl", "print one JSON line a plan: verdict, environment, argv") \
	X(FORCED, "forced", NULL, NULL, "write the command of a refused plan too") \
	X(SAMPLE, "sample", "N", NULL, "N plans drawn uniformly from the space instead of the ranking") \
	X(SEED, "seed", "S", NULL, "seed of the sample") \
	X(THREADS, "threads", "N", NULL, "worker threads (0: one per core); the answer does not depend on it") \
	X(PLANS, "plans", "FILE", NULL, "judge the plans of a file, one a line, instead of a space (with --emit jsonl)") \
	X(FORMAT, "format", "FORMAT", "json nul shell sbatch", "how the command is written") \
	X(OUT, "out", "FILE", NULL, "write there, whole or not at all; the suffix chooses the format") \
	X(ARGV, "argv", "FILE", NULL, "a command you already have: JSON, NUL-separated or a shell line") \
	X(SCRIPT, "script", "FILE", NULL, "drive the terminal program from a file, without a terminal") \
	X(SIZE, "size", "COLSxROWS", NULL, "screen size for --script") \
	X(ASCII, "ascii", NULL, NULL, "draw with ASCII alone") \
	X(COLOR, "color", "MODE", "auto never 8 16 256 true", "colours; NO_COLOR is respected") \
	X(THEME, "theme", "NAME|PATH", "@themes", "colour theme") \
	X(JOBS, "jobs", "FILE|PIPE", NULL, "news of jobs for the side pane, one JSON line each") \
	X(NO_RESUME, "no-resume", NULL, NULL, "begin anew, and keep nothing of this session") \
	X(MOUSE, "mouse", NULL, NULL, "take mouse events (Shift-drag then selects text)") \
	X(MEASURED, "measured", "FILE.csv", NULL, "measured rows: columns as in tests/data/measured.csv") \
	X(KIND, "kind", "KIND", "train serve memory kernel comm", "rows of this kind alone") \
	X(MARKDOWN, "markdown", NULL, NULL, "print Markdown") \
	X(ROWS, "rows", NULL, NULL, "print one CSV line a row: measured, predicted, what it was read as, why not") \
	X(SVG, "svg", "FILE", NULL, "write a picture there: predicted against measured") \
	X(FROM, "from", "DIR", NULL, "folder of measured tables: gemm_perf.csv, moe_perf.csv, nccl_perf.csv and so on") \
	X(GPU, "gpu", "NAME", NULL, "built-in GPU whose datasheet the tables are read against (default: what they name)") \
	X(CHECK_ONLY, "check", NULL, NULL, "judge the factory constants or an overlay against the tables, and fit nothing") \
	X(QUICK, "quick", NULL, NULL, "fewer rounds") \
	X(REAL, "real", NULL, NULL, "ask the installed toolchain itself about the command, on the CPU") \
	X(REAL_N, "real", "N", NULL, "ask the installed toolchain itself about N plans, half of them refused ones") \
	X(REAL_PYTHON, "real-python", "PATH", NULL, "interpreter or virtual environment that has the toolchain") \
	X(REAL_PATH, "real-path", "FOLDER", NULL, "folder that holds the toolchain's package, or a checkout of it") \
	X(HELP, "help", NULL, NULL, "show help")
/* clang-format on */

typedef enum mf_opt_id {
#define X(id, name, value, words, help) OPT_##id,
	MF_OPTIONS
#undef X
		OPT_COUNT
} mf_opt_id;
#define OPT(id) (UINT64_C(1) << OPT_##id)

typedef struct mf_opt {
	const char *name, *value, *words, *help;
} mf_opt;
extern const mf_opt mf_opts[OPT_COUNT];

/** Parsed command line. Strings are borrowed from argv. */
typedef struct mf_args {
	const char *value[OPT_COUNT]; /* NULL when absent; "" for a given switch */
	const char **words;
	size_t n_words; /* positional words */
	const char *const *rest;
	size_t n_rest; /* after "--" */
	bool has_rest;
} mf_args;

typedef struct mf_command_info {
	const char *name;
	const char *synopsis; /* what follows the options, "" for nothing */
	const char *help;     /* one line */
	const char *more;     /* paragraph for --help and the man page */
	const char *example;  /* one working command line */
	uint64_t options;     /* OPT() bits */
	int (*run)(const mf_args *a);
} mf_command_info;
extern const mf_command_info mf_commands[]; /* ends with a NULL name */

/** Prints `err` on standard error as one line (file:line: field: message) and its detail; returns the exit code. */
int mf_report(const mf_err *err);
/** Word of a choice option, or its default when absent. Reports bad words by option name. */
mf_status mf_args_choice(const mf_args *a, mf_opt_id id, const mf_choice *table, int fallback, int *out, mf_err *err);
/** Whole number of an option within [min, max], or `fallback` when absent. */
mf_status mf_args_u64(
	const mf_args *a, mf_opt_id id, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *out, mf_err *err);
/** Reads a command line behind the command's name; the error of an unknown option names the command's nearest. */
mf_status mf_args_parse(mf_args *out, const mf_command_info *cmd, int argc, char **argv, mf_err *err);
void mf_args_dispose(mf_args *a);

/* ---- session: everything a command judges plans with ------------------------------------------------------------- */

typedef struct mf_session {
	mf_model model;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_site site;
	mf_consts consts;
	mf_cost_opts cost_opts;
	mf_autotune *autotune; /* of cost_opts; NULL: none */
	mf_inputs in;
	mf_emitter *emitter;
	mf_cost *cost;
	mf_realizer realizer;
	mf_space space;
	bool constraint;
	unsigned threads;
	bool cluster_assumed; /* no --cluster and no GPU here */
} mf_session;
/** Loads everything the options name; the session must not move afterwards (pointers into it are kept). */
mf_status mf_session_open(mf_session *s, const mf_args *a, mf_err *err);
/** (Re)builds emitter, evaluator and realizer after inputs of an open session changed. */
mf_status mf_session_rebuild(mf_session *s, mf_err *err);
void mf_session_close(mf_session *s);
/** What the options ask of a search: space, constraint, threads and all three tiers. */
mf_search_opts mf_session_search_opts(const mf_session *s);
/** SGLang's memory fraction for a plan, NaN in training. */
double mf_session_fraction(const mf_session *s, const mf_plan *p);

/** Completed row of a plan: scored, judged, worded. */
typedef struct mf_shown {
	char plan[MF_PLAN_TEXT_MAX];
	mf_refusal refusal;
	char note[256];                        /* what the paper's emitter would have said */
	char plan_sha256[65], argv_sha256[65]; /* argv_sha256 "" when there is no command */
} mf_shown;
mf_status mf_show_row(mf_session *s, const mf_row *row, bool hashes, mf_shown *out, mf_err *err);

/** Draws a simulated step, or prints it as JSON. */
mf_status mf_print_timeline(mf_session *s, const mf_plan *p, bool json, mf_err *err);

/** Prices `p` as the prefill pool and --decode-plan as the decode pool of one service, and prints the pair. */
mf_status mf_print_pair(mf_session *s, const mf_plan *p, const mf_args *a, mf_err *err);

int mf_cmd_tui(const mf_args *a);
int mf_cmd_search(const mf_args *a);
int mf_cmd_emit(const mf_args *a);
int mf_cmd_check(const mf_args *a);
int mf_cmd_explain(const mf_args *a);
int mf_cmd_model(const mf_args *a);
int mf_cmd_cluster(const mf_args *a);
int mf_cmd_boundaries(const mf_args *a);
int mf_cmd_ablate(const mf_args *a);
int mf_cmd_calibrate(const mf_args *a);
int mf_cmd_score(const mf_args *a);
int mf_cmd_bench(const mf_args *a);
int mf_cmd_version(const mf_args *a);
int mf_cmd_completion(const mf_args *a);
int mf_cmd_help(const mf_args *a);

/* ---- the real toolchain ------------------------------------------------------------------------------------------ */

struct cJSON;
/** Starts the witness of --real for the session's toolchain; Ctrl-C then stops what waits for it. */
mf_status mf_ask_open(mf_real **out, mf_session *s, const mf_args *a, mf_err *err);
/** Ends the witness. After a Ctrl-C the program ends here, as by that signal. */
void mf_ask_close(mf_real *r);
/** Emits `p`, refused or not, and asks about the command; `ours` is our verdict on it. */
mf_status mf_ask_plan(mf_real *r, mf_session *s, const mf_plan *p, mf_rule_id ours, mf_real_verdict *out, mf_err *err);
/** Fills the object `real` of check --json. `about` may be NULL: nothing was started. */
void mf_ask_json(struct cJSON *real, const mf_real_info *about, const mf_real_verdict *v);
void mf_ask_print(const mf_real_info *about, const mf_real_verdict *v);
/**
 * Asks about `n` rows of a search: of a ranking the best buildable ones and, for the other half, refused ones of as many
 * rules as there are; of a sample its first rows. Progress goes to a terminal on standard error. The result is printed,
 * or put under "real" in `json` where that is given. `*wrong` is how many verdicts disagree.
 */
mf_status mf_ask_rows(mf_session *s, const mf_args *a, mf_search *found, bool sample, size_t n, struct cJSON *json,
	size_t *wrong, mf_err *err);

/* ---- JSON output ---------------------------------------------------------------------------------------------- */

/** Adds a number, or null when it is NaN or infinite. */
void mf_json_number(struct cJSON *object, const char *key, double value);
/** Adds a string, or null for NULL or "". */
void mf_json_string(struct cJSON *object, const char *key, const char *text);
/** Prints on standard output with a newline and frees; false when out of memory or the write failed. */
bool mf_json_print(struct cJSON *object, bool pretty);

#endif
