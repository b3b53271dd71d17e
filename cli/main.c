/* main.c: the table of commands, and the way to one of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define INPUTS                                                                                                         \
	(OPT(MODEL) | OPT(CLUSTER) | OPT(WORKLOAD) | OPT(PHASE) | OPT(OVERLAY) | OPT(STACK) | OPT(SITE) |              \
		OPT(AUTOTUNE) | OPT(LEDGER) | OPT(TOOLCHAIN) | OPT(TAX) | OPT(SEQ) | OPT(GLOBAL_BATCH) |               \
		OPT(INPUT_TOKENS) | OPT(OUTPUT_TOKENS) | OPT(CONCURRENCY) | OPT(MAX_VIOLATION) | OPT(HELP))

const mf_command_info mf_commands[] = {
	{"tui", "", "open the terminal program (the default)",
		"Ranks the plans of a model on a cluster and shows them live; press ? there for the keys. Without a "
		"terminal on "
		"standard output it prints the ranked table and exits.",
		"moefs --model qwen3-30b-a3b --cluster 8xh100",
		INPUTS | OPT(SPACE) | OPT(CONSTRAINT) | OPT(THREADS) | OPT(TOP) | OPT(SCRIPT) | OPT(SIZE) | OPT(ASCII) |
			OPT(COLOR) | OPT(THEME) | OPT(MOUSE) | OPT(NO_RESUME) | OPT(JOBS) | OPT(REAL_PYTHON) |
			OPT(REAL_PATH),
		mf_cmd_tui},
	{"search", "", "rank every plan of a space",
		"Rejected plans keep their place in the ranking and carry the refusal in the toolchain's own words. "
		"--real N asks "
		"the installed toolchain about N plans, the best buildable ones and the best refused ones of every "
		"rule, or N of "
		"the --sample; exit 1 when a verdict disagrees.",
		"moefs search --model deepseek-v2-lite --cluster 8xh800 --top 5",
		INPUTS | OPT(SPACE) | OPT(CONSTRAINT) | OPT(TOP) | OPT(JSON) | OPT(EMIT) | OPT(FORCED) | OPT(SAMPLE) |
			OPT(SEED) | OPT(PLANS) | OPT(THREADS) | OPT(REAL_N) | OPT(REAL_PYTHON) | OPT(REAL_PATH),
		mf_cmd_search},
	{"emit", "", "write the command of a plan",
		"A refused plan is not written (exit 1) unless --forced is given. With --out the provenance goes into "
		"a file beside "
		"it.",
		"moefs emit --plan tp1/pp1/ep8/1f1b+ov --cluster 8xh800 --ledger published --format shell",
		INPUTS | OPT(PLAN) | OPT(FORMAT) | OPT(OUT) | OPT(FORCED), mf_cmd_emit},
	{"check", "[-- COMMAND ...]", "say whether a plan, or a command you already have, can be built",
		"Exit 0 when it can, 1 when it is refused. --argv FILE or -- COMMAND reads an existing launch command "
		"back into a "
		"plan, says what it could not read, and shows where the plan stands and the smallest change that would "
		"be better. --real runs the installed toolchain's own argument, configuration and process-group code "
		"on the "
		"emitted command, without a GPU, and says whether it agrees; exit 1 when it refuses or does not, 3 "
		"when it is "
		"not installed.",
		"moefs check --plan tp2/pp1/ep4/1f1b --cluster 8xh800 --ledger published",
		INPUTS | OPT(PLAN) | OPT(ARGV) | OPT(JSON) | OPT(THREADS) | OPT(REAL) | OPT(REAL_PYTHON) |
			OPT(REAL_PATH),
		mf_cmd_check},
	{"explain", "", "open every number of a plan: terms, formulas, constants, memory lines",
		"--timeline simulates a training step and draws it: the streams of a GPU over a few layers, and the "
		"passes of micro-batches on the pipeline. --decode-plan prices disaggregated serving: --plan takes the "
		"prompts "
		"on its cluster, --decode-plan the tokens on its own; each pool's rate, the latencies of the pair, and "
		"the "
		"sizes at which neither waits.",
		"moefs explain --plan tp1/pp1/ep8/1f1b+ov --cluster 8xh800",
		INPUTS | OPT(PLAN) | OPT(DECODE_PLAN) | OPT(DECODE_CLUSTER) | OPT(TIMELINE) | OPT(JSON),
		mf_cmd_explain},
	{"model", "[NAME|PATH]", "list the built-in models, or show one: shape and parameters by group", "",
		"moefs model deepseek-v3", OPT(JSON) | OPT(HELP), mf_cmd_model},
	{"cluster", "[NAME|PATH|auto]", "list the built-in clusters, or show one", "", "moefs cluster 8xh800",
		OPT(JSON) | OPT(HELP), mf_cmd_cluster},
	{"boundaries", "", "list the boundaries and rules, with the number of plans each removes from a search", "",
		"moefs boundaries --model deepseek-v2-lite --cluster 8xh800",
		INPUTS | OPT(SPACE) | OPT(JSON) | OPT(MARKDOWN) | OPT(THREADS), mf_cmd_boundaries},
	{"calibrate", "", "fit the curves of the model to tables of measured operations, as an overlay",
		"Reads every table of a folder that it knows, fits each curve's constants by robust regression on four "
		"shapes in five and judges them on the fifth. A table that does not follow its curve is written as "
		"unsupported. Without --out nothing is written. Exit 1 when no curve follows its form.",
		"moefs calibrate --from tests/data/tables",
		OPT(FROM) | OPT(OUT) | OPT(GPU) | OPT(CLUSTER) | OPT(CHECK_ONLY) | OPT(OVERLAY) | OPT(THREADS) |
			OPT(JSON) | OPT(HELP),
		mf_cmd_calibrate},
	{"score", "", "hold predictions against measured rows: coverage, error, rank order, regret",
		"Nothing is fitted. Every row of the CSV is read as a plan and its inputs and predicted by the "
		"evaluator that "
		"ranks plans; a row that cannot be expressed is counted with the reason. Without --overlay each row "
		"takes the "
		"shipped overlay of its GPU where there is one; --overlay none takes factory constants.",
		"moefs score --measured tests/data/measured.csv",
		OPT(MEASURED) | OPT(KIND) | OPT(OVERLAY) | OPT(JSON) | OPT(MARKDOWN) | OPT(ROWS) | OPT(SVG) | OPT(HELP),
		mf_cmd_score},
	{"ablate", "", "show what each tier of the search adds: phases x constants x skew x levels",
		"L1 is the best plan of the ranking, L2 the best of the ten best under the schedules that the "
		"simulator "
		"tries, L3 with kernels of an autotune report. Constants are the factory's and those of --overlay (the "
		"GPU's own where there is one), skew 0 and --max-violation (0.2). One evaluator scores a phase, so a "
		"level "
		"is never below the one before it. The space is paper and the constraint off unless said otherwise: "
		"memory "
		"alone then rejects plans.",
		"moefs ablate --model kimi-k2 --cluster 256x8xh800 --phase train --ledger published",
		INPUTS | OPT(SPACE) | OPT(CONSTRAINT) | OPT(JSON) | OPT(THREADS), mf_cmd_ablate},
	{"bench", "", "measure the program itself: JSON lines", "", "moefs bench --quick",
		OPT(QUICK) | OPT(THREADS) | OPT(HELP), mf_cmd_bench},
	{"version", "", "print version, toolchains and what this build has", "", "moefs version", OPT(JSON) | OPT(HELP),
		mf_cmd_version},
	{"completion", "bash|man1|man5|man7", "print the bash completion, or the generated part of a man page", "",
		"moefs completion bash", OPT(HELP), mf_cmd_completion},
	{"help", "[COMMAND]", "show help", "", "moefs help search", OPT(HELP), mf_cmd_help},
	{NULL, NULL, NULL, NULL, NULL, 0, NULL},
};

static const mf_command_info *find_command(const char *name)
{
	const mf_command_info *c;

	for (c = mf_commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

int main(int argc, char **argv)
{
	const mf_command_info *cmd = &mf_commands[0];
	mf_args args;
	mf_err err;
	const char *name = NULL;
	mf_status st;
	int code, skip = 1;

	/* `moefs search | head` must end quietly. */
	signal(SIGPIPE, SIG_DFL);
	if (argc > 1 && strcmp(argv[1], "--version") == 0)
		name = "version";
	else if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		name = "help";
	else if (argc > 1 && argv[1][0] != '-')
		name = argv[1];
	if (name) {
		cmd = find_command(name);
		if (!cmd) {
			const char *names[32], *near;
			size_t n = 0;

			for (const mf_command_info *c = mf_commands; c->name && n + 1 < MF_COUNT(names); c++)
				names[n++] = c->name;
			names[n] = NULL;
			near = mf_nearest(name, names);
			fprintf(stderr, "moefs: no command '%s'%s%s%s; moefs --help lists them\n", name,
				near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
			return 2;
		}
		skip = 2;
	}
	st = mf_args_parse(&args, cmd, argc - skip, argv + skip, &err);
	if (st < 0)
		return mf_report(&err);
	if (args.value[OPT_HELP]) {
		args.words[0] = cmd->name;
		args.n_words = 1;
		code = mf_cmd_help(&args);
	} else {
		code = cmd->run(&args);
	}
	mf_args_dispose(&args);
	if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0) {
		perror("moefs: standard output");
		code = 2;
	}
	return code;
}
