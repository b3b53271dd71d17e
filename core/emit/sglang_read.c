/* sglang_read.c: an SGLang launch command back into a plan. Long flags, their aliases, and --flag=value are known. */
#include "emit_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a command says, before it becomes a plan. */
struct seen {
	uint32_t tp, pp, dp, ep, moe_dp, cp, nnodes, redundant, chunk, requests;
	bool dp_attention, overlap, graphs_off, fp8_kv;
	int a2a, runner, mode;
	const char *map;
	uint32_t context, graph_batch;
	double fraction;
};

enum kind { SIZE, TEXT, SWITCH, FRACTION, IGNORE, IGNORE_SWITCH };

struct flag {
	const char *name;
	enum kind kind;
	size_t offset;
};

#define AT(field) offsetof(struct seen, field)
static const struct flag flags[] = {
	{"--tp-size", SIZE, AT(tp)},
	{"--tensor-parallel-size", SIZE, AT(tp)},
	{"--tp", SIZE, AT(tp)},
	{"--pp-size", SIZE, AT(pp)},
	{"--pipeline-parallel-size", SIZE, AT(pp)},
	{"--dp-size", SIZE, AT(dp)},
	{"--data-parallel-size", SIZE, AT(dp)},
	{"--dp", SIZE, AT(dp)},
	{"--ep-size", SIZE, AT(ep)},
	{"--expert-parallel-size", SIZE, AT(ep)},
	{"--ep", SIZE, AT(ep)},
	{"--moe-dp-size", SIZE, AT(moe_dp)},
	{"--moe-data-parallel-size", SIZE, AT(moe_dp)},
	{"--attn-cp-size", SIZE, AT(cp)},
	{"--attention-context-parallel-size", SIZE, AT(cp)},
	{"--nnodes", SIZE, AT(nnodes)},
	{"--ep-num-redundant-experts", SIZE, AT(redundant)},
	{"--chunked-prefill-size", SIZE, AT(chunk)},
	{"--max-running-requests", SIZE, AT(requests)},
	{"--context-length", SIZE, AT(context)},
	{"--cuda-graph-max-bs-decode", SIZE, AT(graph_batch)},
	{"--cuda-graph-max-bs", SIZE, AT(graph_batch)},
	{"--mem-fraction-static", FRACTION, AT(fraction)},
	{"--enable-dp-attention", SWITCH, AT(dp_attention)},
	{"--enable-two-batch-overlap", SWITCH, AT(overlap)},
	{"--disable-cuda-graph", SWITCH, AT(graphs_off)},
	{"--disable-decode-cuda-graph", SWITCH, AT(graphs_off)},
	{"--load-format", IGNORE, 0},
	{"--tokenizer-path", IGNORE, 0},
	{"--served-model-name", IGNORE, 0},
	{"--moe-a2a-backend", TEXT, 0},
	{"--moe-runner-backend", TEXT, 0},
	{"--deepep-mode", TEXT, 0},
	{"--model-path", TEXT, 0},
	{"--model", TEXT, 0},
	{"--host", TEXT, 0},
	{"--port", TEXT, 0},
	{"--kv-cache-dtype", TEXT, 0},
	{"--quantization", TEXT, 0},
	{"--cuda-graph-backend-decode", TEXT, 0},
	{"--init-expert-location", TEXT, 0},
	{"--dist-init-addr", IGNORE, 0},
	{"--nccl-init-addr", IGNORE, 0},
	{"--node-rank", IGNORE, 0},
	{"--ep-dispatch-algorithm", IGNORE, 0},
	{"--cp-strategy", IGNORE, 0},
	{"--enable-prefill-cp", IGNORE_SWITCH, 0},
	{"--trust-remote-code", IGNORE_SWITCH, 0},
};

static const struct flag *find_flag(const char *text, size_t len)
{
	for (size_t i = 0; i < MF_COUNT(flags); i++)
		if (strlen(flags[i].name) == len && strncmp(flags[i].name, text, len) == 0)
			return &flags[i];
	return NULL;
}

/* The site's: paths, addresses, and what follows from other flags. */
static bool of_site(const struct flag *f)
{
	static const char *const names[] = {"--model-path", "--model", "--host", "--port"};

	for (size_t i = 0; i < MF_COUNT(names); i++)
		if (strcmp(f->name, names[i]) == 0)
			return true;
	return f->kind == IGNORE || f->kind == IGNORE_SWITCH;
}

const char *mf_sglang_flag(const char *text, size_t len)
{
	const struct flag *f = find_flag(text, len);

	if (!f || of_site(f))
		return NULL;
	if (f->kind == SWITCH && f->offset == AT(graphs_off))
		return "--cuda-graph-backend-decode";
	for (size_t i = 0; i < MF_COUNT(flags) && f->kind != TEXT; i++)
		if (flags[i].kind == f->kind && flags[i].offset == f->offset)
			return flags[i].name;
	return f->name;
}

static mf_status read_choice(
	const char *flag, const char *value, const mf_choice *choices, const char *neutral, int *out, mf_command *c)
{
	int v = strcmp(value, neutral) == 0 ? 0 : mf_choice_value(choices, value);
	char text[160];

	if (v >= 0) {
		*out = v;
		return MF_OK;
	}
	snprintf(text, sizeof text, "%s %.100s", flag, value);
	mf_command_unread(c, text);
	return MF_OK;
}

static mf_status read_text(mf_command *c, struct seen *v, const char *flag, const char *value, mf_intern *intern)
{
	if (strcmp(flag, "--moe-a2a-backend") == 0)
		return read_choice(flag, value, mf_a2a_choices, "none", &v->a2a, c);
	if (strcmp(flag, "--moe-runner-backend") == 0)
		return read_choice(flag, value, mf_runner_choices, "auto", &v->runner, c);
	if (strcmp(flag, "--deepep-mode") == 0)
		return read_choice(flag, value, mf_deepep_mode_choices, "auto", &v->mode, c);
	if (strcmp(flag, "--model-path") == 0 || strcmp(flag, "--model") == 0)
		snprintf(c->site.model_path, sizeof c->site.model_path, "%.255s", value);
	else if (strcmp(flag, "--host") == 0)
		snprintf(c->site.host, sizeof c->site.host, "%.127s", value);
	else if (strcmp(flag, "--port") == 0)
		c->site.port = (uint32_t)strtoul(value, NULL, 10);
	else if (strcmp(flag, "--kv-cache-dtype") == 0)
		v->fp8_kv = strncmp(value, "fp8", 3) == 0;
	else if (strcmp(flag, "--quantization") == 0 && strcmp(value, "modelopt_fp4") != 0) {
		/* The checkpoint's own format is what a plan means; NVFP4's is the one whose name the command repeats. */
		char text[160];

		snprintf(text, sizeof text, "%s %.100s", flag, value);
		mf_command_unread(c, text);
	} else if (strcmp(flag, "--cuda-graph-backend-decode") == 0)
		v->graphs_off = strcmp(value, "disabled") == 0;
	else if (strcmp(flag, "--init-expert-location") == 0 && strcmp(value, "trivial") != 0 && intern)
		v->map = value;
	return MF_OK;
}

static mf_status read_size(const char *flag, const char *value, uint32_t *out, mf_err *err)
{
	char *end;
	long v = strtol(value, &end, 10);

	if (*end || end == value || v < 0 || v > 1000000)
		return mf_fail_at(err, MF_EINPUT, "command", 0, flag, "\"%.40s\" is not a size", value);
	*out = (uint32_t)v;
	return MF_OK;
}

/* Words before the first flag: an interpreter, -m sglang.launch_server, sglang serve. */
static size_t skip_launcher(const char *const *argv, size_t n)
{
	size_t i = 1;

	while (i < n && (strncmp(argv[i], "--", 2) != 0))
		i++;
	return i;
}

static mf_status read_flags(
	mf_command *c, struct seen *v, const char *const *argv, size_t n, mf_intern *intern, mf_err *err)
{
	for (size_t i = skip_launcher(argv, n); i < n; i++) {
		const char *eq = strchr(argv[i], '='), *value = eq ? eq + 1 : NULL;
		size_t len = eq ? (size_t)(eq - argv[i]) : strlen(argv[i]);
		const struct flag *f = find_flag(argv[i], len);
		mf_status st = MF_OK;

		if (!f) {
			mf_command_unread(c, argv[i]);
			/* A value that follows an unknown flag belongs to it. */
			if (!eq && i + 1 < n && argv[i][0] == '-' && argv[i + 1][0] != '-')
				mf_command_unread(c, argv[++i]);
			continue;
		}
		if (f->kind == SWITCH) {
			*(bool *)((char *)v + f->offset) = true;
			continue;
		}
		if (f->kind == IGNORE_SWITCH)
			continue;
		if (!value && i + 1 >= n)
			return mf_fail_at(err, MF_EINPUT, "command", 0, f->name, "has no value");
		if (!value)
			value = argv[++i];
		if (f->kind == SIZE)
			st = read_size(f->name, value, (uint32_t *)(void *)((char *)v + f->offset), err);
		else if (f->kind == FRACTION)
			v->fraction = strtod(value, NULL);
		else if (f->kind == TEXT)
			st = read_text(c, v, f->name, value, intern);
		if (st < 0)
			return st;
	}
	return MF_OK;
}

/* A placement by name; the path of a file is none that a plan's text can hold. */
static void read_map(mf_command *c, const char *map, mf_intern *intern)
{
	char text[MF_PLAN_TEXT_MAX];
	mf_plan p;
	mf_err err;

	snprintf(text, sizeof text, "tp1/pp1/ep1/map:%.400s", map);
	if (intern && mf_plan_parse(&p, text, MF_SERVE, intern, &err) == MF_OK) {
		c->plan.expert_map = p.expert_map;
		return;
	}
	snprintf(text, sizeof text, "--init-expert-location %.400s", map);
	mf_command_unread(c, text);
}

/*
 * The requests of all replicas. A replica is told its share rounded down and captures graphs for its share rounded up, so
 * graphs that go beyond the requests tell of one more.
 */
static void make_workload(mf_command *c, const struct seen *v)
{
	mf_workload *w = &c->workload;
	const mf_plan *p = &c->plan;
	uint32_t unit = (p->overlap ? 2 : 1) * (p->a2a != MF_A2A_NONE ? p->tp : 1);

	if (v->requests)
		w->concurrency = v->requests * p->replicas;
	if (v->requests && p->replicas > 1 && v->graph_batch > (v->requests + unit - 1) / unit * unit)
		w->concurrency++;
	/* A request's length is what the context leaves; how it parts into prompt and answer, no flag says. */
	if (v->context > 8 && v->context - 8 != w->input_tokens + w->output_tokens) {
		w->output_tokens = v->context - 8 > 2 * w->output_tokens ? w->output_tokens : (v->context - 8) / 2;
		w->input_tokens = v->context - 8 - w->output_tokens;
	}
	w->fp8_kv = v->fp8_kv;
}

bool mf_sglang_read_partition(mf_command *out, const char *text, mf_intern *intern)
{
	uint16_t counts[MF_MAX_LAYERS];
	size_t n = 0;

	for (const char *p = text;; p++) {
		char *end;
		unsigned long layers = strtoul(p, &end, 10);

		if (end == p || *p < '0' || *p > '9' || layers > MF_MAX_LAYERS || n == MF_COUNT(counts))
			return false;
		counts[n++] = (uint16_t)layers;
		if (!*end)
			break;
		if (*end != ',')
			return false;
		p = end;
	}
	out->plan.stage_layout = mf_intern_layout(intern, counts, n);
	return out->plan.stage_layout != 0;
}

mf_status mf_sglang_read(mf_command *out, const char *const *argv, size_t n, mf_intern *intern, mf_err *err)
{
	struct seen v = {.tp = 1, .pp = 1, .dp = 1, .ep = 0, .moe_dp = 1, .cp = 1, .nnodes = 1, .fraction = NAN};
	mf_plan *p = &out->plan;
	uint32_t dp;
	mf_status st;

	out->phase = MF_SERVE;
	*p = mf_plan_default(MF_SERVE);
	if ((st = mf_workload_load(&out->workload, NULL, MF_SERVE, err)) < 0 ||
		(st = mf_stack_load(&out->stack, NULL, MF_SERVE, err)) < 0 ||
		(st = mf_site_load(&out->site, NULL, err)) < 0 || (st = read_flags(out, &v, argv, n, intern, err)) < 0)
		return st;
	dp = v.dp_attention && v.dp > 1 ? v.dp : 1;
	if (!v.tp || !v.cp || !v.pp || !v.dp || !v.moe_dp || v.tp % (dp * v.cp))
		return mf_fail_at(err, MF_EINPUT, "command", 0, "--tp-size", "%u is no multiple of dp %u times cp %u",
			v.tp, dp, v.cp);
	/* What SGLang sets by itself is what the plan means, unless the command asks for something else in words. */
	if (!v.ep)
		v.ep = v.a2a != MF_A2A_NONE ? v.tp : 1;
	if (v.a2a == MF_A2A_DEEPEP && v.mode == MF_DM_NORMAL && !v.graph_batch)
		v.graphs_off = true;
	const struct {
		const char *flag;
		uint32_t value;
	} degrees[] = {{"--tp-size", v.tp}, {"--pp-size", v.pp}, {"--ep-size", v.ep}, {"--dp-size", v.dp},
		{"--moe-dp-size", v.moe_dp}, {"--attn-cp-size", v.cp}, {"--ep-num-redundant-experts", v.redundant},
		{"--chunked-prefill-size", v.chunk / 256}};
	for (size_t i = 0; i < MF_COUNT(degrees); i++)
		if (degrees[i].value > UINT16_MAX)
			return mf_fail_at(err, MF_EINPUT, "command", 0, degrees[i].flag, "is beyond what a plan holds");
	p->tp = (uint16_t)(v.tp / dp / v.cp);
	p->cp = (uint16_t)v.cp;
	p->pp = (uint16_t)v.pp;
	p->ep = (uint16_t)v.ep;
	p->moe_dp = (uint16_t)v.moe_dp;
	p->replicas = (uint16_t)(dp == 1 ? v.dp : 1);
	p->redundant = (uint16_t)v.redundant;
	p->a2a = (uint8_t)v.a2a;
	p->runner = (uint8_t)v.runner;
	p->deepep_mode = (uint8_t)v.mode;
	p->overlap = v.overlap;
	p->graph = v.graphs_off ? MF_GRAPH_OFF : MF_GRAPH_FULL;
	p->prefill_chunk = (uint16_t)(v.chunk / 256);
	if (v.map)
		read_map(out, v.map, intern);
	if (v.chunk % 256)
		mf_command_unread(out, "--chunked-prefill-size that is no multiple of 256");
	make_workload(out, &v);
	out->stack.mem_fraction = v.fraction;
	out->world = v.tp * v.pp * p->replicas;
	return MF_OK;
}
