/*
 * command_read.c: the door through which a user's own command comes back. Files of all kinds, what stands before the
 * program (assignments, srun, docker run, sh -c), the program itself; then the reader of its toolchain. And the answer to
 * "was it read rightly": what the command says that the plan, written again, does not.
 */
#include <stdlib.h>
#include <string.h>

#include "emit_internal.h"

void mf_command_unread(mf_command *c, const char *text)
{
	/* Doubled at powers of two; the arena frees what is left behind. */
	if ((c->n_unread & (c->n_unread - 1)) == 0) {
		size_t cap = c->n_unread ? 2 * c->n_unread : 1;
		char **grown = mf_arena_alloc(c->arena, cap * sizeof(*grown));
		if (!grown)
			return;
		if (c->n_unread)
			memcpy(grown, c->unread, c->n_unread * sizeof(*grown));
		c->unread = grown;
	}
	char *copy = mf_arena_strdup(c->arena, text);
	if (copy)
		c->unread[c->n_unread++] = copy;
}

uint16_t mf_intern_layout(mf_intern *intern, const uint16_t *counts, size_t n)
{
	/* As long as a plan's text may hold, see mf_plan_parse. */
	char text[128];

	return intern && mf_stage_layout_format(counts, n, text, sizeof text) ? mf_intern_id(intern, text) : 0;
}

/* ---- programs ----------------------------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

enum program { NO_PROGRAM, MEGATRON, SGLANG, VLLM };

/* The program that starts at argv[0]; *skip: words up to the one that its reader takes as the program's name. */
static enum program program_at(const char *const *argv, size_t n, size_t *skip)
{
	const char *name = base_name(argv[0]), *module;
	size_t i = 1;

	*skip = 0;
	if (strcmp(name, "torchrun") == 0)
		return MEGATRON;
	if (n > 1 && strcmp(name, "sglang") == 0 && strcmp(argv[1], "serve") == 0) {
		*skip = 1;
		return SGLANG;
	}
	if (n > 1 && strcmp(name, "vllm") == 0 && argv[1][0] != '-')
		return VLLM;
	if (ends_with(name, ".py"))
		return strstr(argv[0], "sglang") ? SGLANG : MEGATRON;
	if (strncmp(name, "python", 6) != 0)
		return NO_PROGRAM;
	while (i < n && argv[i][0] == '-' && strcmp(argv[i], "-m") != 0)
		i += strcmp(argv[i], "-X") == 0 || strcmp(argv[i], "-W") == 0 ? 2 : 1;
	if (i < n && ends_with(argv[i], ".py")) {
		*skip = i;
		return strstr(argv[i], "sglang") ? SGLANG : MEGATRON;
	}
	if (i + 1 >= n || strcmp(argv[i], "-m") != 0)
		return NO_PROGRAM;
	module = argv[i + 1];
	*skip = i + 1;
	if (strcmp(module, "torch.distributed.run") == 0 || strcmp(module, "torch.distributed.launch") == 0)
		return MEGATRON;
	if (strcmp(module, "sglang.launch_server") == 0)
		return SGLANG;
	return strncmp(module, "vllm", 4) == 0 ? VLLM : NO_PROGRAM;
}

static bool is_shell(const char *word)
{
	static const char *const names[] = {"sh", "bash", "zsh", "dash"};

	for (size_t i = 0; i < MF_COUNT(names); i++)
		if (strcmp(base_name(word), names[i]) == 0)
			return true;
	return false;
}

/* sh -c SCRIPT: where the script stands, 0 when this is none. */
static size_t shell_script(const char *const *argv, size_t n)
{
	return n > 2 && is_shell(argv[0]) && argv[1][0] == '-' && ends_with(argv[1], "c") ? 2 : 0;
}

bool mf_launches(const char *const *argv, size_t n)
{
	static const char *const signs[] = {"torchrun", "torch.distributed", "sglang", "vllm", ".py"};
	size_t skip, script;

	for (size_t i = 0; i < n; i++) {
		if (program_at(argv + i, n - i, &skip) != NO_PROGRAM || strncmp(argv[i], "--num-layers", 12) == 0)
			return true;
		script = shell_script(argv + i, n - i);
		for (size_t k = 0; script && k < MF_COUNT(signs); k++)
			if (strstr(argv[i + script], signs[k]))
				return true;
	}
	return false;
}

/* Programs that run the words behind their own options. */
static bool is_wrapper(const char *word)
{
	static const char *const names[] = {"exec", "env", "nohup", "time", "sudo", "command", "then", "do", "else",
		"{", "!", "if", "while", "srun", "mpirun", "mpiexec", "docker", "podman", "singularity", "apptainer",
		"enroot", "numactl", "taskset", "nice", "ionice", "stdbuf", "timeout", "nsys", "ncu", "uv", "poetry",
		"conda", "kubectl", "ssh", "pdsh", "parallel-ssh", "tmux", "screen", "setsid", "unbuffer"};
	const char *name = base_name(word);

	for (size_t i = 0; i < MF_COUNT(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Variables that our own commands set: they follow from the plan and say nothing new. */
static bool known_environment(const char *text)
{
	static const char *const names[] = {
		"CUDA_DEVICE_MAX_CONNECTIONS=", "PYTORCH_CUDA_ALLOC_CONF=", "NCCL_GRAPH_REGISTER=",
		"SGLANG_PP_LAYER_PARTITION=", "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=", "head_node="};

	for (size_t i = 0; i < MF_COUNT(names); i++) {
		if (strncmp(text, names[i], strlen(names[i])) == 0)
			return true;
	}
	return false;
}

static void keep_argv(mf_command *out, const char *const *argv, size_t n)
{
	out->argv = mf_arena_alloc(out->arena, (n ? n : 1) * sizeof *out->argv);
	for (size_t i = 0; out->argv && i < n; i++)
		out->argv[i] = mf_arena_strdup(out->arena, argv[i]);
	out->n_argv = out->argv ? n : 0;
}

static mf_status read_program(mf_command *out, enum program program, const char *const *argv, size_t n,
	const struct mf_words *env, mf_intern *intern, mf_err *err)
{
	bool serve = program == SGLANG;
	mf_status st;

	out->phase = serve ? MF_SERVE : MF_TRAIN;
	out->plan = mf_plan_default(out->phase);
	if ((st = mf_workload_load(&out->workload, NULL, out->phase, err)) < 0 ||
		(st = mf_stack_load(&out->stack, NULL, out->phase, err)) < 0 ||
		(st = mf_site_load(&out->site, NULL, err)) < 0)
		return st;
	keep_argv(out, argv, n);
	for (size_t i = 0; i < env->n; i++)
		if (!known_environment(env->items[i]) || (!serve && strncmp(env->items[i], "SGLANG_", 7) == 0))
			mf_command_unread(out, env->items[i]);
	st = serve ? mf_sglang_read(out, argv, n, intern, err) : mf_megatron_read(out, argv, n, intern, err);
	for (size_t i = 0; st >= 0 && serve && i < env->n; i++) {
		size_t name = strlen("SGLANG_PP_LAYER_PARTITION=");

		if (strncmp(env->items[i], "SGLANG_PP_LAYER_PARTITION=", name) == 0 &&
			!mf_sglang_read_partition(out, env->items[i] + name, intern))
			mf_command_unread(out, env->items[i]);
	}
	return st;
}

/* Reads `argv` whose assignments and wrappers may nest a few shells deep. */
static mf_status read_words(mf_command *out, const char *const *argv, size_t n, struct mf_words *env, int depth,
	mf_intern *intern, mf_err *err)
{
	enum program program = NO_PROGRAM;
	bool wrapped = false, launches = mf_launches(argv, n);
	size_t skip = 0, i = 0;

	for (; i < n && (program = program_at(argv + i, n - i, &skip)) == NO_PROGRAM; i++) {
		const char *word = argv[i];

		if (strncmp(word, "--env=", 6) == 0 && mf_assignment(word + 6)) {
			mf_words_add(env, word + 6);
		} else if (mf_assignment(word)) {
			mf_words_add(env, word);
		} else if (shell_script(argv + i, n - i)) {
			struct mf_words inner = {0};
			mf_status st;

			if (strstr(argv[i + 2], "\"$@\"")) { /* runs the words behind it: sh -c 'exec "$@"' sh ... */
				i += i + 3 < n ? 3 : 2;      /* and over the name they run under */
				wrapped = true;
				continue;
			}
			if (depth >= 4)
				return mf_fail(err, MF_EINPUT, "shells in shells, more than 4 deep");
			st = mf_shell_words(out->arena, "sh -c", argv[i + 2], strlen(argv[i + 2]), &inner, env, err);
			if (st == MF_OK)
				st = read_words(out, inner.items, inner.n, env, depth + 1, intern, err);
			mf_words_free(&inner);
			return st;
		} else if (is_wrapper(word)) {
			wrapped = true;
		} else if (!launches || strncmp(word, "--num-layers", 12) == 0) {
			break;
		} else if (!wrapped) {
			mf_command_unread(out, word);
		}
	}
	if (i == n)
		return mf_fail(err, MF_EINPUT, "the command is empty");
	if (program == NO_PROGRAM && strncmp(argv[i], "--num-layers", 12) == 0) {
		program = MEGATRON; /* an unknown trainer with Megatron's flags */
		i = 0;
		skip = 0;
	}
	if (program == VLLM)
		return mf_fail(err, MF_EINPUT,
			"a vLLM command: moefs reads and writes Megatron and SGLang commands, vLLM's plans are outside "
			"its "
			"space");
	if (program == NO_PROGRAM)
		return mf_fail(err, MF_EINPUT,
			"not a launch command: expected torchrun ... pretrain_gpt.py ... or python -m "
			"sglang.launch_server ...");
	if (env->failed)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	return read_program(out, program, argv + i + skip, n - i - skip, env, intern, err);
}

mf_status mf_command_read(mf_command *out, const char *const *argv, size_t n, const char *const *env, size_t n_env,
	mf_intern *intern, mf_err *err)
{
	struct mf_words all = {0};
	mf_status st;

	memset(out, 0, sizeof(*out));
	out->arena = mf_arena_new();
	if (!out->arena)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	for (size_t i = 0; i < n_env; i++)
		mf_words_add(&all, env[i]);
	st = read_words(out, argv, n, &all, 0, intern, err);
	mf_words_free(&all);
	if (st < 0)
		mf_command_dispose(out);
	return st;
}

void mf_command_dispose(mf_command *c)
{
	if (!c)
		return;
	mf_arena_free(c->arena);
	memset(c, 0, sizeof(*c));
}

void mf_command_toolchain(mf_command *c, mf_toolchain toolchain)
{
	bool old = c->stack.toolchain == MF_MEGATRON_0171, now = toolchain == MF_MEGATRON_0171;

	if (mf_toolchain_is_megatron(toolchain) != (c->phase == MF_TRAIN))
		return;
	/* The null tokenizer of 0.17.1 counts one more than --vocab-size says. */
	if (c->has_model && old != now)
		c->model.vocab = now ? c->model.vocab + 1 : c->model.vocab - 1;
	c->stack.toolchain = toolchain;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static mf_status take_json(mf_arena *arena, const mf_doc *d, struct mf_words *words, struct mf_words *env, mf_err *err)
{
	const mf_node *argv = d->root->kind == MF_LIST ? d->root : mf_node_get(d->root, "argv");
	const mf_node *map = d->root->kind == MF_MAP ? mf_node_get(d->root, "env") : NULL;

	if (!argv || argv->kind != MF_LIST)
		return mf_fail_at(err, MF_EINPUT, d->name, d->root->line, "argv", "expected a list of strings");
	for (const mf_node *a = argv->first; a; a = a->next) {
		if (a->kind != MF_STRING && a->kind != MF_NUMBER)
			return mf_fail_at(err, MF_EINPUT, d->name, a->line, "argv", "expected a list of strings");
		mf_words_add(words, mf_arena_strdup(arena, a->text));
	}
	for (const mf_node *e = map ? map->first : NULL; e; e = e->next) {
		mf_buf text = MF_BUF_INIT;
		mf_buf_printf(&text, "%s=%s", e->key ? e->key : "", e->text);
		mf_words_add(env, mf_arena_strdup(arena, mf_buf_text(&text)));
		mf_buf_dispose(&text);
	}
	return words->failed || env->failed ? mf_fail(err, MF_ENOMEM, "out of memory") : MF_OK;
}

mf_status mf_command_read_file(mf_command *out, const char *path, mf_intern *intern, mf_err *err)
{
	mf_buf text = MF_BUF_INIT;
	mf_doc doc = {0};
	struct mf_words words = {0}, env = {0};
	mf_arena *arena = mf_arena_new();
	mf_status st;
	size_t skip = 0;

	memset(out, 0, sizeof(*out));
	if (!arena)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	if ((st = mf_file_read(&text, path, MF_COMMAND_MAX_BYTES, err)) < 0)
		goto done;
	while (skip < text.len && strchr(" \t\r\n", text.data[skip]))
		skip++;
	if (skip < text.len && (text.data[skip] == '{' || text.data[skip] == '[')) {
		if ((st = mf_doc_parse_json(&doc, path, text.data, text.len, err)) >= 0)
			st = take_json(arena, &doc, &words, &env, err);
	} else if (text.len && memchr(text.data, '\0', text.len)) {
		for (size_t i = 0; i < text.len; i += strlen(text.data + i) + 1)
			mf_words_add(&words, mf_arena_strdup(arena, text.data + i));
		st = words.failed ? mf_fail(err, MF_ENOMEM, "out of memory") : MF_OK;
	} else {
		st = mf_shell_words(arena, path, mf_buf_text(&text), text.len, &words, &env, err);
	}
	if (st < 0)
		goto done;
	if (!words.n) {
		st = mf_fail_at(err, MF_EINPUT, path, 0, NULL, "holds no command");
		goto done;
	}
	st = mf_command_read(out, words.items, words.n, env.items, env.n, intern, err);
	if (st < 0 && err && !err->file[0])
		snprintf(err->file, sizeof(err->file), "%s", path);
done:
	mf_words_free(&words);
	mf_words_free(&env);
	mf_doc_dispose(&doc);
	mf_buf_dispose(&text);
	mf_arena_free(arena);
	return st;
}

/* ---- what was lost ------------------------------------------------------------------------------------------------ */

/* A flag with its values, as words of an argument vector. */
struct option {
	const char *name;
	size_t len;                /* of the name */
	const char *joined;        /* value behind '=', or NULL */
	const char *const *values; /* words behind the flag */
	size_t n_values;
};

static bool next_option(const char *const *argv, size_t n, size_t *at, struct option *out)
{
	while (*at < n && strncmp(argv[*at], "--", 2) != 0)
		++*at;
	if (*at >= n)
		return false;
	const char *equals = strchr(argv[*at], '=');
	*out = (struct option){argv[*at], equals ? (size_t)(equals - argv[*at]) : strlen(argv[*at]),
		equals ? equals + 1 : NULL, argv + *at + 1, 0};
	for (++*at; *at < n && strncmp(argv[*at], "--", 2) != 0 && !ends_with(argv[*at], ".py"); ++*at)
		out->n_values++;
	return true;
}

static void option_value(const struct option *o, mf_buf *out)
{
	if (o->joined)
		mf_buf_puts(out, o->joined);
	for (size_t i = 0; i < o->n_values; i++)
		mf_buf_printf(out, "%s%s", out->len ? " " : "", o->values[i]);
}

/* "8" and "8.0", "Et*2" and "Ett" say the same. */
static bool same_value(const char *flag, const char *a, const char *b)
{
	mf_buf x = MF_BUF_INIT, y = MF_BUF_INIT;
	char *end_a, *end_b;
	double p = strtod(a, &end_a), q = strtod(b, &end_b);
	bool same = strcmp(a, b) == 0 || (*a && *b && !*end_a && !*end_b && p == q) ||
		    (!*a && strcmp(b, "disabled") == 0); /* --disable-cuda-graph */

	if (!same && strcmp(flag, "--pipeline-model-parallel-layout") == 0)
		same = mf_megatron_layout_unroll(a, &x) && mf_megatron_layout_unroll(b, &y) &&
		       strcmp(mf_buf_text(&x), mf_buf_text(&y)) == 0;
	mf_buf_dispose(&x);
	mf_buf_dispose(&y);
	return same;
}

static const char *flag_of(const mf_command *c, const struct option *o)
{
	return c->phase == MF_SERVE ? mf_sglang_flag(o->name, o->len) : mf_megatron_flag(o->name, o->len);
}

static bool find_option(const mf_command *c, const char *const *argv, size_t n, const char *flag, struct option *out)
{
	for (size_t at = 0; next_option(argv, n, &at, out);) {
		const char *name = flag_of(c, out);
		if (name && strcmp(name, flag) == 0)
			return true;
	}
	return false;
}

/* Values that a toolchain has where the flag is missing. */
static bool by_default(const char *flag, const char *value)
{
	static const char *const neutral[] = {"1", "0", "none", "auto", "trivial"};
	static const struct {
		const char *flag, *value;
	} defaults[] = {
		{"--transformer-impl", "transformer_engine"},
		{"--norm-epsilon", "1e-05"},
		{"--rotary-base", "10000"},
		{"--attention-dropout", "0.1"},
		{"--moe-router-score-function", "softmax"},
		{"--moe-router-load-balancing-type", "aux_loss"},
		{"--moe-token-dispatcher-type", "allgather"},
		{"--optimizer", "adam"},
		{"--cp-strategy", "zigzag"},
	};

	for (size_t i = 0; i < MF_COUNT(neutral); i++)
		if (strcmp(value, neutral[i]) == 0)
			return true;
	for (size_t i = 0; i < MF_COUNT(defaults); i++)
		if (strcmp(flag, defaults[i].flag) == 0 && strcmp(value, defaults[i].value) == 0)
			return true;
	return false;
}

void mf_command_differences(
	const mf_command *c, const mf_argv *again, void (*found)(void *payload, const char *text), void *payload)
{
	const char *const *given = (const char *const *)c->argv, *const *written = (const char *const *)again->args;
	mf_buf x = MF_BUF_INIT, y = MF_BUF_INIT, text = MF_BUF_INIT;
	struct option a, b;

	for (size_t at = 0; next_option(given, c->n_argv, &at, &a);) {
		const char *flag = flag_of(c, &a);

		if (!flag)
			continue;
		mf_buf_clear(&x);
		mf_buf_clear(&y);
		mf_buf_clear(&text);
		option_value(&a, &x);
		if (!find_option(c, written, again->n, flag, &b)) {
			if (by_default(flag, mf_buf_text(&x)))
				continue;
			mf_buf_printf(
				&text, "%s%s%s: the plan does not say it", flag, x.len ? " " : "", mf_buf_text(&x));
		} else {
			option_value(&b, &y);
			if (same_value(flag, mf_buf_text(&x), mf_buf_text(&y)))
				continue;
			mf_buf_printf(&text, "%s %s: the plan says %s", flag, mf_buf_text(&x), mf_buf_text(&y));
		}
		found(payload, mf_buf_text(&text));
	}
	for (size_t at = 0; next_option(written, again->n, &at, &b);) {
		const char *flag = flag_of(c, &b);

		if (!flag || find_option(c, given, c->n_argv, flag, &a))
			continue;
		/* Part of a command: the model was named beside it. */
		if (c->phase == MF_TRAIN && !c->has_model && mf_megatron_shape_flag(flag))
			continue;
		mf_buf_clear(&y);
		mf_buf_clear(&text);
		option_value(&b, &y);
		if (by_default(flag, mf_buf_text(&y)))
			continue;
		mf_buf_printf(&text, "%s%s%s: the plan says it, the command does not", flag, y.len ? " " : "",
			mf_buf_text(&y));
		found(payload, mf_buf_text(&text));
	}
	mf_buf_dispose(&x);
	mf_buf_dispose(&y);
	mf_buf_dispose(&text);
}
