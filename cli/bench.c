/*
 * bench.c: moefs bench measures the program itself: what the predicate, a search, a re-ranking, a redraw and a cold
 * start cost. One JSON line a figure: the median of many rounds, with the counts it stands on. A ratio is of two
 * figures taken turn about in one run.
 */
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli.h"

extern char **environ;

#define MAX_ROUNDS 101
/* A timed stretch shorter than this is repeated until the clock's own cost is lost in it. */
#define MIN_STRETCH_MS 2.0

typedef struct bencher {
	unsigned rounds, long_rounds; /* of what takes milliseconds; of what takes a second */
	unsigned threads;
	bool quick, failed;
} bencher;

/* Starts a line; the caller may add counts, then prints it. */
static cJSON *line(const char *name, double value, const char *unit, unsigned rounds)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "name", name);
	mf_json_number(o, "value", value);
	cJSON_AddStringToObject(o, "unit", unit);
	if (rounds)
		cJSON_AddNumberToObject(o, "rounds", rounds);
	return o;
}

static void print(bencher *b, cJSON *o)
{
	if (!mf_json_print(o, false))
		b->failed = true;
}

static void count(cJSON *o, const char *name, double n)
{
	cJSON_AddNumberToObject(o, name, n);
}

static mf_status open_case(
	mf_session *s, const char *model, const char *cluster, const char *phase, const char *space, mf_err *err)
{
	mf_args a;

	memset(&a, 0, sizeof(a));
	a.value[OPT_MODEL] = model;
	a.value[OPT_CLUSTER] = cluster;
	a.value[OPT_PHASE] = phase;
	a.value[OPT_SPACE] = space;
	return mf_session_open(s, &a, err);
}

/* Median wall times of whole searches, constrained and, where `free_ms` is given, unconstrained in the same rounds. The
 * last constrained result is *last, owned by the caller. */
static mf_status time_search(const mf_session *s, unsigned threads, unsigned rounds, double *ms, double *free_ms,
	mf_search **last, mf_err *err)
{
	mf_search_opts opts = mf_session_search_opts(s);
	double all[2][MAX_ROUNDS];

	opts.threads = threads;
	*last = NULL;
	for (unsigned i = 0; i <= rounds; i++)
		for (unsigned kind = free_ms ? 0 : 1; kind < 2; kind++) {
			mf_search *found;
			opts.constraint = kind == 1;
			const double start = mf_now_ms();
			const mf_status st = mf_search_run(&found, &s->in, &s->consts, &opts, err);
			if (st < 0)
				return st;
			if (i > 0) /* the first warms caches and the allocator */
				all[kind][i - 1] = mf_now_ms() - start;
			if (kind == 0) {
				mf_search_free(found);
			} else {
				mf_search_free(*last);
				*last = found;
			}
		}
	*ms = mf_quantile(all[1], rounds, 0.5);
	if (free_ms)
		*free_ms = mf_quantile(all[0], rounds, 0.5);
	return MF_OK;
}

/* Median microseconds of one verdict over the rows of `f`, all of them or the accepted ones. */
static double time_predicate(const mf_session *s, const mf_search *f, bool accepted_only, unsigned rounds)
{
	mf_realizer r = s->realizer;
	double all[MAX_ROUNDS];

	r.always_memory = false;
	for (unsigned i = 0; i < rounds; i++) {
		const double start = mf_now_ms();
		uint64_t n = 0;
		do {
			for (size_t k = 0; k < f->n_rows; k++) {
				mf_verdict v;
				if (accepted_only && f->rows[k].rule != MF_RULE_NONE)
					continue;
				mf_realize(&r, &f->rows[k].plan, &v);
				n++;
			}
		} while (n && mf_now_ms() - start < MIN_STRETCH_MS);
		all[i] = n ? (mf_now_ms() - start) * 1e3 / (double)n : NAN;
	}
	return mf_quantile(all, rounds, 0.5);
}

static double time_rerank(mf_search *f, unsigned threads, unsigned rounds, bool *ok)
{
	double all[MAX_ROUNDS];

	for (unsigned i = 0; i < rounds; i++) {
		const double start = mf_now_ms();
		*ok &= mf_search_rank(f, i % 2 ? MF_SORT_MEMORY : MF_SORT_THROUGHPUT, i % 2 == 0, true, threads) ==
		       MF_OK;
		all[i] = mf_now_ms() - start;
	}
	return mf_quantile(all, rounds, 0.5);
}

/* ---- distinct commands ----------------------------------------------------------------------------------------------
 */

/* Sink that keeps a fingerprint of what it is told. 64 bits: two of two million commands meet by accident once in ten
 * million runs. */
typedef struct hash_sink {
	mf_sink sink;
	uint64_t hash;
} hash_sink;

static void hash_text(mf_sink *s, const char *text)
{
	hash_sink *h = (hash_sink *)s;
	uint64_t v = h->hash;

	for (; *text; text++)
		v = (v ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	v = (v ^ 0xff) * UINT64_C(0x9e3779b97f4a7c15);
	h->hash = v ^ v >> 29;
}

static void hash_env(mf_sink *s, const char *name, const char *value)
{
	hash_text(s, name);
	hash_text(s, value);
}

static int by_hash(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

typedef struct commands {
	uint64_t worded, distinct;
	double us;
} commands;

/* Commands of all rows the toolchain has words for, refused ones written all the same (--forced). */
static bool count_commands(const mf_session *s, const mf_search *f, commands *out)
{
	uint64_t *hashes = malloc((f->n_rows ? f->n_rows : 1) * sizeof(*hashes));
	size_t n = 0;

	if (!hashes)
		return false;
	const double start = mf_now_ms();
	for (size_t i = 0; i < f->n_rows; i++) {
		if (f->rows[i].rule != MF_RULE_NONE && mf_rule_unspeakable(f->rows[i].rule))
			continue;
		hash_sink h = {mf_sink_null(), UINT64_C(0xcbf29ce484222325)};
		h.sink.collect = true;
		h.sink.forced = true;
		h.sink.arg = hash_text;
		h.sink.env = hash_env;
		mf_emit(s->emitter, &f->rows[i].plan, NAN, &h.sink);
		hashes[n++] = h.hash;
	}
	*out = (commands){n, 0, n ? (mf_now_ms() - start) * 1e3 / (double)n : NAN};
	qsort(hashes, n, sizeof(*hashes), by_hash);
	for (size_t i = 0; i < n; i++)
		out->distinct += i == 0 || hashes[i] != hashes[i - 1];
	free(hashes);
	return true;
}

/* ---- cases ----------------------------------------------------------------------------------------------------------
 */

static uint64_t accepted(const mf_search *f)
{
	return f->counts.scored - f->counts.rejected_emit - f->counts.rejected_memory;
}

static void add_counts(cJSON *o, const mf_session *s, const mf_search *f)
{
	cJSON_AddStringToObject(o, "model", s->model.name);
	cJSON_AddStringToObject(o, "cluster", s->cluster.name);
	cJSON_AddStringToObject(o, "space", mf_choice_name(mf_space_choices, (int)s->space));
	count(o, "candidates", (double)f->counts.scored);
	count(o, "accepted", (double)accepted(f));
}

/* Predicate, search and re-ranking in the paper's space: the figures the paper reports for its 2048-GPU oracle. */
static mf_status bench_oracle(bencher *b, const char *model, mf_err *err)
{
	mf_session s;
	mf_search *f = NULL;
	double constrained_ms, free_ms;
	commands c;
	bool ok = true;
	mf_status st = open_case(&s, model, "256x8xh800", "train", "paper", err);

	if (st < 0)
		return st;
	if ((st = time_search(&s, b->threads, b->rounds, &constrained_ms, &free_ms, &f, err)) < 0)
		goto done;
	if (!count_commands(&s, f, &c)) {
		st = mf_fail(err, MF_ENOMEM, "out of memory while counting commands");
		goto done;
	}

	cJSON *o = line("search.constrained", constrained_ms, "ms", b->rounds);
	add_counts(o, &s, f);
	count(o, "enumerated", (double)f->counts.enumerated);
	count(o, "structural", (double)f->counts.structural);
	count(o, "rejected_emit", (double)f->counts.rejected_emit);
	count(o, "rejected_memory", (double)f->counts.rejected_memory);
	count(o, "commands", (double)c.worded);
	count(o, "distinct_commands", (double)c.distinct);
	count(o, "refined", (double)f->n_refined);
	count(o, "simulations", (double)f->counts.simulations);
	count(o, "tasks", (double)f->counts.tasks);
	print(b, o);

	/* Of the last round. */
	o = line("search.tier2", f->timing.tier2_ms, "ms", 1);
	cJSON_AddStringToObject(o, "model", s.model.name);
	count(o, "simulations", (double)f->counts.simulations);
	count(o, "tasks", (double)f->counts.tasks);
	print(b, o);

	o = line("search.unconstrained", free_ms, "ms", b->rounds);
	cJSON_AddStringToObject(o, "model", s.model.name);
	count(o, "candidates", (double)f->counts.scored);
	print(b, o);

	o = line("search.constrained_over_unconstrained", constrained_ms / free_ms, "ratio", b->rounds);
	cJSON_AddStringToObject(o, "model", s.model.name);
	print(b, o);

	o = line("predicate.candidate", time_predicate(&s, f, false, b->rounds), "us", b->rounds);
	add_counts(o, &s, f);
	print(b, o);

	o = line("predicate.accepted", time_predicate(&s, f, true, b->rounds), "us", b->rounds);
	add_counts(o, &s, f);
	print(b, o);

	o = line("command.fingerprint", c.us, "us", 1);
	add_counts(o, &s, f);
	print(b, o);

	o = line("rerank.oracle", time_rerank(f, b->threads, b->rounds, &ok), "ms", b->rounds);
	add_counts(o, &s, f);
	print(b, o);
	b->failed |= !ok;
done:
	mf_search_free(f);
	mf_session_close(&s);
	return st;
}

static mf_status bench_wide(bencher *b, mf_err *err)
{
	mf_session s;
	mf_search *f = NULL;
	double ms;
	bool ok = true;
	mf_status st = open_case(&s, "qwen3-235b-a22b", "256x8xh800", "train", "wide", err);

	if (st < 0)
		return st;
	if ((st = time_search(&s, b->threads, b->long_rounds, &ms, NULL, &f, err)) < 0)
		goto done;

	cJSON *o = line("search.wide", ms / 1e3, "s", b->long_rounds);
	add_counts(o, &s, f);
	if (!b->quick) {
		/* Writing two million commands takes seconds; a quick run leaves it out. */
		commands c;
		if (!count_commands(&s, f, &c)) {
			cJSON_Delete(o);
			st = mf_fail(err, MF_ENOMEM, "out of memory while counting commands");
			goto done;
		}
		count(o, "commands", (double)c.worded);
		count(o, "distinct_commands", (double)c.distinct);
	}
	print(b, o);

	o = line("rerank.wide", time_rerank(f, b->threads, b->rounds, &ok), "ms", b->rounds);
	add_counts(o, &s, f);
	print(b, o);
	b->failed |= !ok;

	o = line("memory.candidate", (double)(sizeof(mf_row) + sizeof(uint32_t)), "bytes", 0);
	count(o, "row", (double)sizeof(mf_row));
	count(o, "order", (double)sizeof(uint32_t));
	print(b, o);
done:
	mf_search_free(f);
	mf_session_close(&s);
	return st;
}

/* What a user at one node meets: the default space in both phases. */
static mf_status bench_node(bencher *b, const char *phase, mf_err *err)
{
	mf_session s;
	mf_search *f = NULL;
	double ms;
	mf_status st = open_case(&s, "deepseek-v2-lite", "8xh800", phase, "default", err);

	if (st < 0)
		return st;
	if ((st = time_search(&s, b->threads, b->rounds, &ms, NULL, &f, err)) == MF_OK) {
		cJSON *o = line("search.node", ms, "ms", b->rounds);
		cJSON_AddStringToObject(o, "phase", phase);
		add_counts(o, &s, f);
		print(b, o);
	}
	mf_search_free(f);
	mf_session_close(&s);
	return st;
}

typedef struct child {
	double wall_ms, cpu_ms;
} child;

static double timeval_ms(struct timeval t)
{
	return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

/* Runs this program anew with `words` (NULL-terminated) and `input` as its standard input; its output is thrown away.
 * The times are NaN when it could not be run or failed. */
static child run_self(const char *const *words, const char *input)
{
	child none = {NAN, NAN}, c = none;
	posix_spawn_file_actions_t actions;
	char *argv[16] = {NULL};
	struct rusage usage;
	int status = -1;
	size_t n = 0;
	pid_t pid;
	FILE *in = tmpfile();

	if (!in)
		return none;
	if (fputs(input, in) < 0 || fflush(in) != 0 || fseek(in, 0, SEEK_SET) != 0 ||
		posix_spawn_file_actions_init(&actions) != 0) {
		fclose(in);
		return none;
	}
	posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	for (; words[n] && n + 1 < MF_COUNT(argv) && (argv[n] = strdup(words[n])); n++)
		;
	const double start = mf_now_ms();
	if (!words[n] && posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ) == 0 &&
		wait4(pid, &status, 0, &usage) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		c = (child){mf_now_ms() - start, timeval_ms(usage.ru_utime) + timeval_ms(usage.ru_stime)};
	for (size_t i = 0; i < n; i++)
		free(argv[i]);
	posix_spawn_file_actions_destroy(&actions);
	fclose(in);
	return c;
}

/* From nothing to the ranked plans: as a table, and as the terminal program's first screen. */
static void bench_start(bencher *b)
{
	static const char *const table[] = {
		"moefs", "search", "--model", "deepseek-v2-lite", "--cluster", "8xh800", NULL};
	static const char *const screen[] = {
		"moefs", "tui", "--model", "deepseek-v2-lite", "--cluster", "8xh800", "--script", "-", NULL};
	double tables[MAX_ROUNDS], screens[MAX_ROUNDS];

	for (unsigned i = 0; i < b->rounds; i++) {
		tables[i] = run_self(table, "").wall_ms;
		screens[i] = run_self(screen, ":dump\n").wall_ms;
	}
	print(b, line("start.ranked_table", mf_quantile(tables, b->rounds, 0.5), "ms", b->rounds));
	print(b, line("start.first_screen", mf_quantile(screens, b->rounds, 0.5), "ms", b->rounds));
}

/* What a key costs in the terminal program above a wide space: the difference between a long script and an empty one.
 * The second figure adds the nearest buildable plan, which the program looks for behind the redraw, when idle. */
static mf_status bench_redraw(bencher *b, const char *name, const char *first, mf_err *err)
{
	static const char *const words[] = {"moefs", "tui", "--model", "qwen3-235b-a22b", "--cluster", "256x8xh800",
		"--space", "wide", "--size", "120x40", "--script", "-", NULL};
	const unsigned keys = 1000;
	double all[MAX_ROUNDS];
	mf_buf script = MF_BUF_INIT;

	mf_buf_puts(&script, first);
	for (unsigned i = 0; i < keys; i++)
		mf_buf_puts(&script, "j\n:dump\n");
	if (script.failed) {
		mf_buf_dispose(&script);
		return mf_fail(err, MF_ENOMEM, "out of memory for a script of keys");
	}
	for (unsigned i = 0; i < b->long_rounds; i++)
		all[i] = (run_self(words, mf_buf_text(&script)).cpu_ms - run_self(words, "").cpu_ms) / keys;
	mf_buf_dispose(&script);
	print(b, line(name, mf_quantile(all, b->long_rounds, 0.5), "ms", b->long_rounds));
	return MF_OK;
}

/* What the user waits for above a wide space, on the wall: a filter taking effect, a toggle re-ranking. */
static mf_status bench_waits(bencher *b, mf_err *err)
{
	static const char *const words[] = {"moefs", "tui", "--model", "qwen3-235b-a22b", "--cluster", "256x8xh800",
		"--space", "wide", "--size", "120x40", "--script", "-", NULL};
	static const struct {
		const char *name, *once, *again;
	} waits[] = {{"wait.filter_words", ":filter ep8 mem<70\n", ":filter ep8 mem<71\n"},
		{"wait.filter_regex", ":filter /^tp[12]/\n", ":filter /^tp[24]/\n"},
		{"wait.rerank_on_toggle", ":tax off\n", ":tax on\n"}};
	const unsigned pairs = 10;

	for (size_t k = 0; k < MF_COUNT(waits); k++) {
		double all[MAX_ROUNDS];
		mf_buf script = MF_BUF_INIT;
		for (unsigned i = 0; i < pairs; i++)
			mf_buf_printf(&script, "%s%s", waits[k].once, waits[k].again);
		if (script.failed) {
			mf_buf_dispose(&script);
			return mf_fail(err, MF_ENOMEM, "out of memory for a script");
		}
		for (unsigned i = 0; i < b->long_rounds; i++)
			all[i] = (run_self(words, mf_buf_text(&script)).wall_ms - run_self(words, "").wall_ms) /
				 (2 * pairs);
		mf_buf_dispose(&script);
		print(b, line(waits[k].name, mf_quantile(all, b->long_rounds, 0.5), "ms", b->long_rounds));
	}
	return MF_OK;
}

int mf_cmd_bench(const mf_args *a)
{
	static const char *const oracles[] = {"deepseek-v3", "qwen3-235b-a22b"};
	bencher b = {.quick = a->value[OPT_QUICK] != NULL};
	mf_err err = {0};
	uint64_t threads;
	mf_status st = mf_args_u64(a, OPT_THREADS, 0, 64, 0, &threads, &err);

	if (st < 0)
		return mf_report(&err);
	b.threads = (unsigned)threads;
	b.rounds = b.quick ? 5 : 51;
	b.long_rounds = b.quick ? 1 : 5;
	for (size_t i = 0; i < MF_COUNT(oracles) && st == MF_OK; i++)
		st = bench_oracle(&b, oracles[i], &err);
	if (st == MF_OK)
		st = bench_node(&b, "train", &err);
	if (st == MF_OK)
		st = bench_node(&b, "serve", &err);
	if (st == MF_OK)
		st = bench_wide(&b, &err);
	if (st == MF_OK)
		st = bench_redraw(&b, "redraw.wide", ":detail time\n", &err);
	if (st == MF_OK)
		st = bench_redraw(&b, "redraw.wide_and_neighbour", "", &err);
	if (st == MF_OK)
		st = bench_waits(&b, &err);
	if (st < 0)
		return mf_report(&err);
	bench_start(&b);
	return b.failed ? 4 : 0;
}
