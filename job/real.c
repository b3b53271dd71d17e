/* real.c: the real toolchain as a witness: finding it, asking it, and what its answer says about our verdict. */
#include "job.h"
#include "real_internal.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_LIMIT_MS 180000.0 /* an import of the package with a real torch, on a busy machine */
#define ASK_LIMIT_MS 120000.0   /* a command for another device imports the package anew */
#define GRACE_MS 2000.0

struct mf_real {
	mf_child *child;
	mf_real_info info;
	mf_real_opts opts;
	cJSON *hello;
	char interpreter[1024], folder[256]; /* folder: "" or the private one */
	char **stand_ins;
	unsigned asked;
};

/* What a toolchain is called where it is installed, and the program that asks it. */
static const struct package {
	const char *distribution, *witness;
	const char *decided; /* stages that the witness runs whole, each followed by a space */
	int pip_minor;       /* oldest Python 3.x that pip installs it for */
} packages[] = {
	{"megatron-core", "witness_megatron", "argparse parse batch optcfg pg cfg ", 12},
	{"sglang", "witness_sglang", "parse post-init pre-launch launcher dist-init ", 10},
};

static const struct package *package_of(mf_toolchain t)
{
	return &packages[mf_toolchain_is_megatron(t) ? 0 : 1];
}

/* "0.18.0" of "megatron-0.18.0". */
static const char *version_of(mf_toolchain t)
{
	const char *dash = strchr(mf_choice_name(mf_toolchain_choices, (int)t), '-');

	return dash ? dash + 1 : "";
}

/* ---- starting ----------------------------------------------------------------------------------------------------- */

/* The interpreter's path: a file, or a virtual environment's bin/python. */
static mf_status find_python(mf_real *r, mf_err *err)
{
	const char *venv = getenv("VIRTUAL_ENV"), *env = getenv("MOEFS_PYTHON"), *named = r->opts.python;
	struct stat sb;
	char name[1000];

	if (!named || !*named)
		named = env && *env ? env : venv && *venv ? venv : "python3";
	snprintf(name, sizeof name, "%.900s", named);
	if (strchr(named, '/') && stat(named, &sb) == 0 && S_ISDIR(sb.st_mode))
		snprintf(name, sizeof name, "%.900s/bin/python", named);
	if (mf_find_program(name, r->interpreter, sizeof r->interpreter))
		return MF_OK;
	return mf_fail(err, MF_EENV,
		"no Python interpreter: %s %s; name one, or a virtual environment, with --real-python", name,
		strchr(name, '/') ? "cannot be run" : "is not on PATH");
}

/* The Python program that reads its modules from the first line of input and runs the last one named. */
static const char boot[] = "import json, sys, types\n"
			   "sys.path = [p for p in sys.path if p]\n"
			   "files, main = json.loads(sys.stdin.buffer.readline())\n"
			   "for name, text in files:\n"
			   "    module = types.ModuleType(name)\n"
			   "    sys.modules[name] = module\n"
			   "    exec(compile(text, '<witness %s>' % name, 'exec'), module.__dict__)\n"
			   "sys.exit(sys.modules[main].main())\n";

static mf_status send_json(mf_real *r, cJSON *o, mf_err *err)
{
	char *text = cJSON_PrintUnformatted(o);
	mf_status st = MF_OK;

	if (!text)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	st = mf_child_write(r->child, text, strlen(text), ASK_LIMIT_MS, err);
	if (st == MF_OK)
		st = mf_child_write(r->child, "\n", 1, ASK_LIMIT_MS, err);
	free(text);
	return st;
}

/* Reads one JSON object; anything else on the witness's output is its failure. */
static mf_status read_json(mf_real *r, cJSON **out, double limit_ms, mf_err *err)
{
	mf_buf line = MF_BUF_INIT;
	mf_status st = mf_child_read_line(r->child, &line, limit_ms, err);

	if (st == MF_OK) {
		*out = cJSON_ParseWithLength(mf_buf_text(&line), line.len);
		if (!cJSON_IsObject(*out)) {
			cJSON_Delete(*out);
			*out = NULL;
			st = mf_fail(err, MF_EENV, "the witness %s answered with something that is no verdict: %.80s",
				r->interpreter, mf_buf_text(&line));
		}
	}
	mf_buf_dispose(&line);
	return st;
}

static const char *text_of(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static mf_status missing(mf_real *r, const cJSON *said, mf_err *err)
{
	const struct package *p = package_of(r->opts.toolchain);
	const char *module = text_of(said, "missing"), *python = text_of(said, "python");
	int major = 0, minor = 0;
	bool old = sscanf(python, "%d.%d", &major, &minor) == 2 && major == 3 && minor < p->pip_minor;
	char hint[96] = "";
	mf_status st;

	if (!*module) {
		st = mf_fail(err, MF_EENV, "%s does not load in %s: %.120s", p->distribution, r->interpreter,
			text_of(said, "type"));
		if (err)
			snprintf(err->detail, sizeof err->detail, "%s: %s (%s)", text_of(said, "type"),
				text_of(said, "message"), text_of(said, "where"));
		return st;
	}
	if (old)
		snprintf(hint, sizeof hint, " (pip wants Python 3.%d for it; an unpacked wheel runs on %s too)",
			p->pip_minor, python);
	return mf_fail(err, MF_EENV,
		"%s does not load in %s (no module %s): pip install %s==%s, or name the folder that holds it with "
		"--real-path%s",
		p->distribution, r->interpreter, module, p->distribution, r->info.asked, hint);
}

static mf_status take_hello(mf_real *r, mf_err *err)
{
	const cJSON *hello, *list, *item;
	cJSON *said = NULL;
	mf_status st = read_json(r, &said, START_LIMIT_MS, err);

	if (st < 0)
		return st == MF_EIO ? MF_EENV : st;
	r->hello = said;
	hello = cJSON_GetObjectItemCaseSensitive(said, "hello");
	if (!cJSON_IsObject(hello))
		return missing(r, said, err);
	r->info.version = text_of(hello, "version");
	r->info.python = text_of(hello, "python");
	r->info.root = text_of(hello, "root");
	r->info.same_version = strcmp(r->info.version, r->info.asked) == 0;
	list = cJSON_GetObjectItemCaseSensitive(hello, "stand_ins");
	r->stand_ins = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *r->stand_ins);
	if (!r->stand_ins)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	cJSON_ArrayForEach(item, list) if (cJSON_IsString(item)) r->stand_ins[r->info.n_stand_ins++] =
		item->valuestring;
	r->info.stand_ins = (const char *const *)r->stand_ins;
	return MF_OK;
}

/* Writes config.json into a private folder. */
static mf_status write_config(mf_real *r, mf_err *err)
{
	const char *base = getenv("TMPDIR");
	mf_buf json = MF_BUF_INIT;
	char path[300];
	mf_status st;

	st = mf_model_config_json(r->opts.model, &json, err);
	if (st == MF_OK) {
		snprintf(r->folder, sizeof r->folder, "%.200s/moefs-XXXXXX", base && *base ? base : "/tmp");
		if (!mkdtemp(r->folder)) {
			st = mf_fail(err, MF_EIO, "%.200s: cannot make a folder: %s", base && *base ? base : "/tmp",
				strerror(errno));
			r->folder[0] = '\0';
		}
	}
	if (st == MF_OK) {
		snprintf(path, sizeof path, "%s/config.json", r->folder);
		st = mf_file_write(path, mf_buf_text(&json), json.len, 0600, err);
	}
	mf_buf_dispose(&json);
	return st;
}

mf_status mf_real_open(mf_real **out, const mf_real_opts *opts, mf_err *err)
{
	const struct package *p = package_of(opts->toolchain);
	mf_real *r = calloc(1, sizeof *r);
	double start = mf_now_ms();
	char sm[16];
	cJSON *program, *files;
	mf_status st;

	*out = NULL;
	if (!r)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	r->opts = *opts;
	r->info.package = p->distribution;
	r->info.asked = version_of(opts->toolchain);
	r->info.version = r->info.python = r->info.root = "";
	r->info.interpreter = r->interpreter;
	snprintf(sm, sizeof sm, "%u", opts->cluster->sm);
	st = find_python(r, err);
	if (st == MF_OK && !mf_toolchain_is_megatron(opts->toolchain))
		st = write_config(r, err);
	if (st == MF_OK) {
		const char *argv[] = {
			r->interpreter, "-c", boot, "--sm", sm, opts->path ? "--path" : NULL, opts->path, NULL};
		mf_child_opts child = {argv, NULL, opts->stop};

		st = mf_child_start(&r->child, &child, err);
	}
	if (st == MF_OK) {
		program = cJSON_CreateArray();
		files = cJSON_CreateArray();
		for (const mf_witness_file *f = mf_witness_files; f->name; f++) {
			const char *const pair[] = {f->name, f->text};

			/* Of the two witnesses only the one that is asked. */
			if (strncmp(f->name, "witness_", 8) != 0 || strcmp(f->name, p->witness) == 0)
				cJSON_AddItemToArray(files, cJSON_CreateStringArray(pair, 2));
		}
		cJSON_AddItemToArray(program, files);
		cJSON_AddItemToArray(program, cJSON_CreateString(p->witness));
		st = send_json(r, program, err);
		cJSON_Delete(program);
		/* An interpreter that ends at once says why in its own words. */
		if (st == MF_EIO)
			st = MF_EENV;
	}
	if (st == MF_OK)
		st = take_hello(r, err);
	if (st < 0) {
		if (err)
			err->status = st;
		mf_real_close(r);
		return st;
	}
	r->info.start_ms = mf_now_ms() - start;
	*out = r;
	return MF_OK;
}

void mf_real_close(mf_real *r)
{
	char path[300];

	if (!r)
		return;
	mf_child_end(r->child, r->opts.stop && *r->opts.stop ? 0 : GRACE_MS);
	if (r->folder[0]) {
		snprintf(path, sizeof path, "%s/config.json", r->folder);
		unlink(path);
		rmdir(r->folder);
	}
	cJSON_Delete(r->hello);
	free(r->stand_ins);
	free(r);
}

const mf_real_info *mf_real_about(const mf_real *r)
{
	return &r->info;
}

/* ---- asking ------------------------------------------------------------------------------------------------------- */

static cJSON *request_of(mf_real *r, const mf_argv *argv, uint32_t world)
{
	const mf_cluster *cluster = r->opts.cluster;
	cJSON *o = cJSON_CreateObject(), *list, *env, *gpu;

	cJSON_AddNumberToObject(o, "id", ++r->asked);
	cJSON_AddNumberToObject(o, "world_size", world);
	list = cJSON_AddArrayToObject(o, "argv");
	for (size_t i = 0; i < argv->n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(argv->args[i]));
	env = cJSON_AddObjectToObject(o, "env");
	for (size_t i = 0; i < argv->n_env; i++) {
		const char *eq = strchr(argv->env[i], '=');
		char name[128];

		snprintf(name, sizeof name, "%.*s", (int)(eq - argv->env[i]), argv->env[i]);
		cJSON_AddStringToObject(env, name, eq + 1);
	}
	gpu = cJSON_AddObjectToObject(o, "gpu");
	cJSON_AddNumberToObject(gpu, "sm", cluster->sm);
	cJSON_AddNumberToObject(gpu, "mem_gb", cluster->device_bytes / MF_GIB);
	cJSON_AddNumberToObject(gpu, "count", cluster->gpus_per_node);
	if (r->folder[0])
		cJSON_AddStringToObject(o, "model_dir", r->folder);
	return o;
}

/* "ep_size: 2 -> 8, ..." */
static void word_rewrites(const cJSON *said, char *out, size_t size)
{
	const cJSON *list =
		cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(said, "resolved"), "rewritten");
	const cJSON *item;
	size_t len = 0;

	out[0] = '\0';
	cJSON_ArrayForEach(item, list)
	{
		char *before = cJSON_PrintUnformatted(cJSON_GetArrayItem(item, 0));
		char *after = cJSON_PrintUnformatted(cJSON_GetArrayItem(item, 1));
		int n = before && after && len < size ? snprintf(out + len, size - len, "%s%s: %s -> %s",
								len ? ", " : "", item->string, before, after)
						      : 0;

		len += n > 0 ? (size_t)n : 0;
		free(before);
		free(after);
	}
}

static bool decided_by(const struct package *p, const char *stage)
{
	char word[64];

	snprintf(word, sizeof word, "%s ", stage);
	for (const char *at = p->decided; (at = strstr(at, word)); at++)
		if (at == p->decided || at[-1] == ' ')
			return true;
	return false;
}

static void conclude(mf_real_verdict *v, mf_agreement agrees, const char *note)
{
	v->agrees = agrees;
	snprintf(v->note, sizeof v->note, "%s", note);
}

/* What the answer says about our verdict `ours`. */
static void compare(const struct package *p, mf_rule_id ours, mf_real_verdict *v)
{
	const mf_rule *rule = mf_rule_get(ours);
	char note[256];

	if (ours == MF_RULE_NONE) {
		if (!v->accepted)
			conclude(v, MF_DISAGREES, "we call it buildable, the toolchain refuses it");
		else if (v->rewritten[0])
			conclude(v, MF_DISAGREES, "we call it buildable, the toolchain would run another plan");
		else
			conclude(v, MF_AGREES, "");
	} else if (ours == MF_RULE_MEMORY) {
		if (!v->accepted)
			conclude(v, MF_DISAGREES, "we refuse it for memory alone, the toolchain refuses its command");
		else
			conclude(v, MF_AGREES, "the command is accepted; memory was not asked about");
	} else if (!v->accepted) {
		snprintf(note, sizeof note, "both refuse it%s",
			strcmp(v->stage, rule->stage) == 0 ? "" : ", at different stages");
		conclude(v, MF_AGREES, note);
	} else if (rule->rewrite && v->rewritten[0]) {
		conclude(v, MF_AGREES, "the toolchain takes the command and would run another plan, as we say");
	} else if (strcmp(rule->stage, "emit") == 0) {
		conclude(v, MF_UNDECIDED,
			"the toolchain has no words for what we refuse, so its command does not say it");
	} else if (!decided_by(p, rule->stage)) {
		snprintf(note, sizeof note, "our refusal stands at stage %s, behind the last one that was run",
			rule->stage);
		conclude(v, MF_UNDECIDED, note);
	} else {
		conclude(v, MF_DISAGREES, "we refuse it, the toolchain accepts it");
	}
}

mf_status mf_real_ask(
	mf_real *r, const mf_argv *argv, uint32_t world, mf_rule_id ours, mf_real_verdict *out, mf_err *err)
{
	double start = mf_now_ms();
	cJSON *request, *said = NULL;
	mf_status st;

	memset(out, 0, sizeof *out);
	if (mf_rule_unspeakable(argv->sink.rule) || mf_rule_unspeakable(ours)) {
		conclude(out, MF_UNDECIDED, "not asked: the toolchain has no words for this plan");
		return MF_OK;
	}
	request = request_of(r, argv, world);
	st = send_json(r, request, err);
	cJSON_Delete(request);
	if (st == MF_OK)
		st = read_json(r, &said, ASK_LIMIT_MS, err);
	if (st < 0)
		return st == MF_EIO && err ? (err->status = MF_EENV) : st;
	if (cJSON_GetObjectItemCaseSensitive(said, "id") &&
		(unsigned)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(said, "id")) != r->asked)
		st = mf_fail(err, MF_EENV, "the witness %s answered another question", r->interpreter);
	out->ran = true;
	out->ms = mf_now_ms() - start;
	snprintf(out->stage, sizeof out->stage, "%s", text_of(said, "stage"));
	snprintf(out->exception, sizeof out->exception, "%s", text_of(said, "type"));
	snprintf(out->where, sizeof out->where, "%s", text_of(said, "where"));
	snprintf(out->message, sizeof out->message, "%s", text_of(said, "message"));
	word_rewrites(said, out->rewritten, sizeof out->rewritten);
	cJSON_Delete(said);
	if (st < 0)
		return st;
	out->accepted = strcmp(out->stage, "ok") == 0;
	if (!out->stage[0] || strcmp(out->stage, "witness") == 0) {
		out->ran = false;
		conclude(out, MF_UNDECIDED, "the witness could not ask: a stand-in knew too little");
		return MF_OK;
	}
	compare(package_of(r->opts.toolchain), ours, out);
	return MF_OK;
}
