/*
 * bench.c: moefs bench measures the program itself: what the predicate, a search, a re-ranking and a cold start cost. One
 * JSON line a figure: the median of many rounds, with the counts it stands on. Ratios are of figures of one run.
 */
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli.h"

extern char **environ;

#define MAX_ROUNDS 101
/* A timed stretch shorter than this is repeated until the clock's own cost is lost in it. */
#define MIN_STRETCH_MS 2.0

typedef struct bencher {
	unsigned rounds, long_rounds;  /* of what takes milliseconds; of what takes a second */
	unsigned threads;
	bool quick, failed;
} bencher;

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), by_value);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

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

static mf_status open_case(mf_session *s, const char *model, const char *cluster, const char *phase, const char *space, mf_err *err)
{
	mf_args a;

	memset(&a, 0, sizeof(a));
	a.value[OPT_MODEL] = model;
	a.value[OPT_CLUSTER] = cluster;
	a.value[OPT_PHASE] = phase;
	a.value[OPT_SPACE] = space;
	return mf_session_open(s, &a, err);
}

/* Median wall time of a whole search; *last is the last result, owned by the caller. */
static mf_status time_search(const mf_session *s, bool constraint, unsigned threads, unsigned rounds, double *ms, mf_search **last,
	mf_err *err)
{
	mf_search_opts opts = mf_session_search_opts(s);
	double all[MAX_ROUNDS];

	opts.constraint = constraint;
	opts.threads = threads;
	*last = NULL;
	for (unsigned i = 0; i <= rounds; i++) {
		mf_search_free(*last);
		const double start = mf_now_ms();
		const mf_status st = mf_search_run(last, &s->in, &s->consts, &opts, err);
		if (st < 0)
			return st;
		if (i > 0) /* the first warms caches and the allocator */
			all[i - 1] = mf_now_ms() - start;
	}
	*ms = median(all, rounds);
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
	return median(all, rounds);
}

static double time_rerank(mf_search *f, unsigned threads, unsigned rounds, bool *ok)
{
	double all[MAX_ROUNDS];

	for (unsigned i = 0; i < rounds; i++) {
		const double start = mf_now_ms();
		*ok &= mf_search_rank(f, i % 2 ? MF_SORT_MEMORY : MF_SORT_THROUGHPUT, i % 2 == 0, true, threads) == MF_OK;
		all[i] = mf_now_ms() - start;
	}
	return median(all, rounds);
}

/* ---- distinct commands ---------------------------------------------------------------------------------------------- */

/* Sink that keeps a fingerprint of what it is told: two 64-bit FNV-like streams would be needed against malice, one is
 * enough against accident (a million commands collide with a chance of 3e-8). */
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

typedef struct commands { uint64_t worded, distinct; double us; } commands;

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

/* ---- cases ---------------------------------------------------------------------------------------------------------- */

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
	mf_search *free_search = NULL, *f = NULL;
	double constrained_ms, free_ms;
	commands c;
	bool ok = true;
	mf_status st = open_case(&s, model, "256x8xh800", "train", "paper", err);

	if (st < 0)
		return st;
	if ((st = time_search(&s, false, b->threads, b->rounds, &free_ms, &free_search, err)) < 0 ||
		(st = time_search(&s, true, b->threads, b->rounds, &constrained_ms, &f, err)) < 0)
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
	print(b, o);

	o = line("search.unconstrained", free_ms, "ms", b->rounds);
	add_counts(o, &s, free_search);
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
	mf_search_free(free_search);
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
	if ((st = time_search(&s, true, b->threads, b->long_rounds, &ms, &f, err)) < 0)
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
	if ((st = time_search(&s, true, b->threads, b->rounds, &ms, &f, err)) == MF_OK) {
		cJSON *o = line("search.node", ms, "ms", b->rounds);
		cJSON_AddStringToObject(o, "phase", phase);
		add_counts(o, &s, f);
		print(b, o);
	}
	mf_search_free(f);
	mf_session_close(&s);
	return st;
}

/* Runs this program anew, its output thrown away; milliseconds until it has ended, NaN when it could not. */
static double run_self(char *const argv[])
{
	posix_spawn_file_actions_t actions;
	pid_t child;
	int status = -1;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return NAN;
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	const double start = mf_now_ms();
	const int failed = posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (failed || waitpid(child, &status, 0) != child)
		return NAN;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? mf_now_ms() - start : NAN;
}

static void bench_cold_start(bencher *b)
{
	char argv[][24] = {"moefs", "search", "--model", "deepseek-v2-lite", "--cluster", "8xh800"};
	char *const args[] = {argv[0], argv[1], argv[2], argv[3], argv[4], argv[5], NULL};
	double all[MAX_ROUNDS];

	for (unsigned i = 0; i < b->rounds; i++)
		all[i] = run_self(args);
	print(b, line("start.ranked_table", median(all, b->rounds), "ms", b->rounds));
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
	if (st < 0)
		return mf_report(&err);
	bench_cold_start(&b);
	return b.failed ? 4 : 0;
}
