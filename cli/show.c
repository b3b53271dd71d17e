/* show.c: moefs model, cluster, boundaries and version. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli.h"
#include "gpu.h"

static int list(const char *kind, bool json)
{
	const char *const *n = mf_builtin_names(kind);
	cJSON *array;

	if (!json) {
		for (; *n; n++)
			puts(*n);
		return 0;
	}
	array = cJSON_CreateArray();
	for (; *n; n++)
		cJSON_AddItemToArray(array, cJSON_CreateString(*n));
	return mf_json_print(array, true) ? 0 : 4;
}

#define PARAM_GROUPS 11
/* Parameter groups in the order they are shown. */
static size_t param_groups(const mf_param_count *c, const char *names[PARAM_GROUPS], uint64_t counts[PARAM_GROUPS])
{
	const char *const n[] = {"embedding", "head", "attention", "recurrent", "dense_ffn", "router", "shared_experts",
		"routed_experts", "norms", "biases", "mtp"};
	const uint64_t v[] = {c->embedding, c->head, c->attention, c->recurrent, c->dense_ffn, c->router,
		c->shared_experts, c->routed_experts, c->norms, c->biases, c->mtp};

	memcpy(names, n, sizeof n);
	memcpy(counts, v, sizeof v);
	return MF_COUNT(n);
}

static void model_json(const mf_model *m, const mf_param_count *c)
{
	cJSON *o = cJSON_CreateObject(), *p;
	const char *names[PARAM_GROUPS];
	uint64_t counts[PARAM_GROUPS];
	size_t n = param_groups(c, names, counts);

	cJSON_AddStringToObject(o, "model", m->name);
	cJSON_AddStringToObject(o, "model_type", m->model_type);
	cJSON_AddNumberToObject(o, "layers", m->layers);
	cJSON_AddNumberToObject(o, "moe_layers", m->moe_layers);
	cJSON_AddNumberToObject(o, "window_layers", m->window_layers);
	cJSON_AddNumberToObject(o, "mamba_layers", m->mamba_layers);
	cJSON_AddNumberToObject(o, "delta_layers", m->delta_layers);
	cJSON_AddNumberToObject(o, "hidden", m->hidden);
	cJSON_AddNumberToObject(o, "vocab", m->vocab);
	cJSON_AddStringToObject(o, "attention", m->attention == MF_MLA ? "mla" : "gqa");
	cJSON_AddNumberToObject(o, "heads", m->heads);
	cJSON_AddNumberToObject(o, "kv_heads", m->kv_heads);
	cJSON_AddNumberToObject(o, "experts", m->experts);
	cJSON_AddNumberToObject(o, "topk", m->topk);
	cJSON_AddNumberToObject(o, "moe_ffn", m->moe_ffn);
	cJSON_AddNumberToObject(o, "moe_latent", m->moe_latent);
	cJSON_AddNumberToObject(o, "shared_ffn", m->shared_ffn);
	cJSON_AddNumberToObject(o, "ffn", m->ffn);
	cJSON_AddStringToObject(o, "quant", mf_choice_name(mf_quant_choices, (int)m->quant));
	cJSON_AddNumberToObject(o, "total", (double)c->total);
	cJSON_AddNumberToObject(o, "active", (double)c->active);
	p = cJSON_AddObjectToObject(o, "parameters");
	for (size_t i = 0; i < n; i++)
		cJSON_AddNumberToObject(p, names[i], (double)counts[i]);
	mf_json_print(o, true);
}

int mf_cmd_model(const mf_args *a)
{
	const char *names[PARAM_GROUPS];
	uint64_t counts[PARAM_GROUPS];
	mf_param_count c;
	mf_model m;
	mf_err err;
	size_t n;

	if (!a->n_words)
		return list("models", a->value[OPT_JSON] != NULL);
	if (mf_model_load(&m, a->words[0], &err) < 0)
		return mf_report(&err);
	mf_model_count(&m, &c);
	if (a->value[OPT_JSON]) {
		model_json(&m, &c);
		return 0;
	}
	printf("%s (%s)\n", m.name, m.model_type);
	printf("  %u layers, %u of them MoE; hidden %u; vocabulary %u\n", m.layers, m.moe_layers, m.hidden, m.vocab);
	if (m.attention == MF_MLA)
		printf("  MLA: %u heads, query rank %u, key-value rank %u, head %u+%u, value %u\n", m.heads, m.q_lora,
			m.kv_lora, m.qk_nope, m.qk_rope, m.v_dim);
	else
		printf("  GQA: %u heads, %u key-value heads of %u\n", m.heads, m.kv_heads, m.head_dim);
	if (m.mamba_layers)
		printf("  Mamba-2 in %u layers: %u heads of %u, state %u, %u groups\n", m.mamba_layers, m.mamba_heads,
			m.mamba_head_dim, m.mamba_state, m.mamba_groups);
	if (m.delta_layers)
		printf("  gated delta net in %u layers: %u value heads of %u, %u key heads of %u\n", m.delta_layers,
			m.delta_v_heads, m.delta_v_dim, m.delta_k_heads, m.delta_k_dim);
	if (m.index_topk)
		printf("  sparse attention: %u indexer heads of %u keep %u keys\n", m.index_heads, m.index_dim,
			m.index_topk);
	if (m.moe_latent)
		printf("  experts work on a latent of %u\n", m.moe_latent);
	if (m.experts)
		printf("  %u experts of %u, %u a token; shared %u; dense feed-forward %u\n", m.experts, m.moe_ffn,
			m.topk, m.shared_ffn, m.ffn);
	else
		printf("  dense feed-forward %u\n", m.ffn);
	if (m.quant != MF_QUANT_NONE)
		printf("  checkpoint quantized: %s\n", mf_choice_name(mf_quant_choices, (int)m.quant));
	printf("\n  %.3f B parameters, %.3f B active a token\n", (double)c.total / 1e9, (double)c.active / 1e9);
	n = param_groups(&c, names, counts);
	for (size_t i = 0; i < n; i++)
		if (counts[i])
			printf("    %-16s %12.6f B%s\n", names[i], (double)counts[i] / 1e9,
				strcmp(names[i], "mtp") == 0 ? "  (beside the total)" : "");
	return 0;
}

int mf_cmd_cluster(const mf_args *a)
{
	static const char *const dtypes[] = {"bf16", "fp8", "fp4"};
	mf_cluster c;
	mf_err err;
	mf_status st;
	cJSON *o;

	if (!a->n_words)
		return list("clusters", a->value[OPT_JSON] != NULL);
	st = strcmp(a->words[0], "auto") == 0 ? mf_gpu_cluster(&c, &err) : mf_cluster_load(&c, a->words[0], &err);
	if (st < 0)
		return mf_report(&err);
	if (!a->value[OPT_JSON]) {
		printf("%s: %u node%s of %u x %s (sm %u, %u SMs)\n", c.name, c.nodes, c.nodes == 1 ? "" : "s",
			c.gpus_per_node, c.gpu, c.sm, c.sm_count);
		for (size_t i = 0; i < MF_DTYPE_COUNT; i++)
			if (!isnan(c.tflops[i]))
				printf("  %s %.0f dense TFLOP/s\n", dtypes[i], c.tflops[i]);
		printf("  memory %.1f GB (%.1f GiB usable), %.0f GB/s\n", c.hbm_bytes / MF_GB, c.device_bytes / MF_GIB,
			c.hbm_gbps);
		printf("  inside the node: %s, %.0f GB/s a GPU one way, domain of %u\n",
			c.fabric == MF_FABRIC_NVLINK ? "NVLink" : "PCIe", c.link_gbps, c.nvlink_domain);
		printf("  between nodes: %.0f GB/s a GPU; host link %.0f GB/s\n", c.nic_gbps, c.pcie_gbps);
		return 0;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "cluster", c.name);
	cJSON_AddStringToObject(o, "gpu", c.gpu);
	cJSON_AddNumberToObject(o, "sm", c.sm);
	cJSON_AddNumberToObject(o, "sm_count", c.sm_count);
	cJSON_AddNumberToObject(o, "gpus_per_node", c.gpus_per_node);
	cJSON_AddNumberToObject(o, "nodes", c.nodes);
	cJSON_AddNumberToObject(o, "nvlink_domain", c.nvlink_domain);
	for (size_t i = 0; i < MF_DTYPE_COUNT; i++) {
		char key[32];

		snprintf(key, sizeof key, "tflops_%s", dtypes[i]);
		mf_json_number(o, key, c.tflops[i]);
	}
	mf_json_number(o, "hbm_bytes", c.hbm_bytes);
	mf_json_number(o, "device_bytes", c.device_bytes);
	mf_json_number(o, "hbm_gbps", c.hbm_gbps);
	mf_json_number(o, "link_gbps", c.link_gbps);
	mf_json_number(o, "nic_gbps", c.nic_gbps);
	mf_json_number(o, "pcie_gbps", c.pcie_gbps);
	return mf_json_print(o, true) ? 0 : 4;
}

/* Plans that rules of one boundary removed. */
static uint64_t removed(const mf_search *found, const char *boundary)
{
	uint64_t n = 0;

	for (size_t i = 0; i < found->n_reasons; i++)
		if (strcmp(mf_rule_get(found->reasons[i].rule)->boundary, boundary) == 0)
			n += found->reasons[i].count;
	return n;
}

static void boundaries_text(const mf_session *s, const mf_search *found)
{
	printf("%s on %s, %s: plans each boundary removed from %llu\n\n", s->model.name, s->cluster.name,
		mf_choice_name(mf_toolchain_choices, (int)s->stack.toolchain),
		(unsigned long long)found->counts.scored);
	for (const mf_boundary *b = mf_boundaries; b->id; b++)
		printf("%9llu  %-9s %s (%s)\n", (unsigned long long)removed(found, b->id), b->id, b->title, b->layer);
	printf("\nrules that removed plans\n");
	for (size_t i = 0; i < found->n_reasons; i++) {
		const mf_rule *r = mf_rule_get(found->reasons[i].rule);

		printf("%9llu  %-14s %-9s %s\n", (unsigned long long)found->reasons[i].count, r->id, r->boundary,
			r->when);
	}
}

static void boundaries_json(const mf_search *found)
{
	static const char *const evidence[] = {"executed", "read", "inferred"};
	cJSON *o = cJSON_CreateObject(), *item, *array = cJSON_AddArrayToObject(o, "boundaries");

	for (const mf_boundary *b = mf_boundaries; b->id; b++) {
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "id", b->id);
		cJSON_AddStringToObject(item, "title", b->title);
		cJSON_AddStringToObject(item, "layer", b->layer);
		cJSON_AddStringToObject(item, "disposition", b->disposition);
		cJSON_AddNumberToObject(item, "count", (double)removed(found, b->id));
		cJSON_AddItemToArray(array, item);
	}
	array = cJSON_AddArrayToObject(o, "rules");
	for (mf_rule_id id = 1; id < MF_RULE_COUNT; id++) {
		const mf_rule *r = mf_rule_get(id);
		uint64_t n = 0;

		for (size_t i = 0; i < found->n_reasons; i++)
			n += found->reasons[i].rule == id ? found->reasons[i].count : 0;
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "id", r->id);
		cJSON_AddStringToObject(item, "boundary", r->boundary);
		cJSON_AddStringToObject(item, "stage", r->stage);
		mf_json_string(item, "when", r->when);
		mf_json_string(item, "where", r->where);
		cJSON_AddStringToObject(item, "evidence", evidence[r->evidence]);
		cJSON_AddBoolToObject(item, "rewrite", r->rewrite);
		cJSON_AddNumberToObject(item, "count", (double)n);
		cJSON_AddItemToArray(array, item);
	}
	mf_json_print(o, true);
}

static bool of_toolchain(const char *id, bool megatron)
{
	return megatron ? strncmp(id, "mcore.", 6) == 0 || strncmp(id, "te.", 3) == 0 : strncmp(id, "sglang.", 7) == 0;
}

static void guards_of(bool megatron)
{
	static const char *const evidence[] = {"executed", "read", "inferred"};

	puts("| rule | refused when | stage | raises | in the toolchain | evidence |\n|---|---|---|---|---|---|");
	for (mf_rule_id id = MF_RULE_MEMORY + 1; id < MF_RULE_COUNT; id++) {
		const mf_rule *r = mf_rule_get(id);

		/* Rules about plans and models stand where their toolchain's table begins. */
		if (of_toolchain(r->id, !megatron) ||
			(!of_toolchain(r->id, megatron) && megatron != (id < MF_RULE_SGLANG)))
			continue;
		printf("| %s | %s | %s | %s | %s | %s |\n", r->id, r->when, r->stage,
			r->rewrite ? "(silent rewrite)" : r->exception, r->where, evidence[r->evidence]);
	}
	puts("");
}

static void guards_markdown(void)
{
	puts("# Guards\n\nWritten by `tools/guards` from the rule tables of `core/emit`; do not edit.\n");
	puts("Every rule of the toolchains that a plan can reach is a guard of the emitter, under one number in every\n"
	     "version. Names that begin with plan, model, stack or workload are the program's own: the command line "
	     "has no\n"
	     "words for these. A condition that begins with a version holds for that version alone. *Executed* rules "
	     "were\n"
	     "seen in the real package ([ORACLE.md](ORACLE.md) says how often), *read* ones stand in its source behind "
	     "what\n"
	     "a CPU can run, *inferred* ones follow from several places. A silent rewrite is refused, because another "
	     "plan\n"
	     "would run.\n");
	puts("## Megatron core\n");
	guards_of(true);
	puts("## SGLang\n");
	guards_of(false);
	puts("## Rules that no command can meet\n\n*Never written*: the emitter has no such flag or value. *Always "
	     "written*: "
	     "the emitter writes what the rule asks for. *Refused when read*: plan, model, cluster or workload are "
	     "refused "
	     "first. *Shadowed*: another guard refuses every such plan before. *No plan*: no dimension of a plan "
	     "changes, or "
	     "the site's paths, ports and packages decide.\n");
	puts("| rule | how | by |\n|---|---|---|");
	for (const mf_ruled_out *r = mf_rules_ruled_out; r->id; r++)
		printf("| %s | %s | %s |\n", r->id, r->how, r->why);
}

int mf_cmd_boundaries(const mf_args *a)
{
	static mf_session s;
	mf_search_opts opts;
	mf_search *found = NULL;
	mf_err err;
	mf_status st;

	if (a->value[OPT_MARKDOWN]) {
		guards_markdown();
		return 0;
	}
	st = mf_session_open(&s, a, &err);
	if (st < 0)
		return mf_report(&err);
	opts = mf_session_search_opts(&s);
	opts.constraint = true;
	st = mf_search_run(&found, &s.in, &s.consts, &opts, &err);
	if (st == MF_OK && a->value[OPT_JSON])
		boundaries_json(found);
	else if (st == MF_OK)
		boundaries_text(&s, found);
	mf_search_free(found);
	mf_session_close(&s);
	return st < 0 ? mf_report(&err) : 0;
}

int mf_cmd_version(const mf_args *a)
{
	cJSON *o, *array;

	if (!a->value[OPT_JSON]) {
		printf("moefs %s\n", MOEFS_VERSION);
		for (const mf_choice *c = mf_toolchain_choices; c->name; c++)
			printf("  %s  %s\n", c->name, c->help);
		printf("  CUDA Toolkit at build time: %s\n", MOEFS_HAVE_CUDA ? "found" : "not found");
		return 0;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "moefs", MOEFS_VERSION);
	array = cJSON_AddArrayToObject(o, "toolchains");
	for (const mf_choice *c = mf_toolchain_choices; c->name; c++)
		cJSON_AddItemToArray(array, cJSON_CreateString(c->name));
	cJSON_AddBoolToObject(o, "cuda", MOEFS_HAVE_CUDA);
	return mf_json_print(o, true) ? 0 : 4;
}
