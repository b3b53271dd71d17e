/*
 * memory.c: memory rows. A Megatron run is read into a plan and its inputs, and the ledger's figure for what was logged
 * (the allocator's peak, or the whole device) is compared; whether the plan would have been started is asked of the
 * ledger as the search asks it. Serving rows are in memory_serve.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "memory_internal.h"

struct state {
	mf_intern *intern;
	struct mf_memory_rig rig;
};

static void release(void *state)
{
	struct state *s = state;

	mf_cost_free(s->rig.cost);
	mf_intern_free(s->intern);
	free(s);
}

/* ---- reading a row ------------------------------------------------------------------------------------------------- */

static uint32_t note_u32(const mf_measured *row, const char *key, uint32_t fallback)
{
	char text[32], *end;
	unsigned long v;

	if (!mf_measured_note(row, key, text, sizeof text))
		return fallback;
	v = strtoul(text, &end, 10);
	return end != text && v < 1u << 24 ? (uint32_t)v : fallback;
}

/* True when the list `words` (separated by + , or blanks) holds `word`. */
static bool lists(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = words; (at = strstr(at, word)) != NULL; at += len)
		if ((at == words || strchr("+, [", at[-1])) && (!at[len] || strchr("+, ]", at[len])))
			return true;
	return false;
}

static bool read_recompute(const char *text, mf_plan *p, mf_judged *out)
{
	const char *list = strchr(text, ':');

	if (!*text || strcmp(text, "none") == 0)
		return true;
	if (strcmp(text, "full") == 0) {
		p->recompute = MF_RECOMPUTE_FULL;
		p->recompute_layers = 1;
		p->recompute_modules = 0;
		return true;
	}
	p->recompute = MF_RECOMPUTE_SELECTIVE;
	p->recompute_modules = (uint8_t)(list ? mf_score_recompute(list + 1) : 0);
	if (!p->recompute_modules)
		mf_score_uncovered(out, "recompute of modules that Megatron does not name");
	return p->recompute_modules != 0;
}

static void read_dispatcher(const mf_measured *row, mf_dispatcher fallback, mf_plan *p)
{
	static const struct {
		const char *name;
		mf_dispatcher value;
	} names[] = {{"default", MF_DISP_ALLGATHER}, {"allgather", MF_DISP_ALLGATHER}, {"alltoall", MF_DISP_ALLTOALL},
		{"deepep", MF_DISP_DEEPEP}, {"hybridep", MF_DISP_HYBRIDEP}};
	char text[32];

	p->dispatcher = (uint8_t)fallback;
	if (mf_measured_says(row, "HybridEP"))
		p->dispatcher = MF_DISP_HYBRIDEP;
	if (mf_measured_says(row, "DeepEP"))
		p->dispatcher = MF_DISP_DEEPEP;
	if (mf_measured_note(row, "dispatcher", text, sizeof text))
		for (size_t i = 0; i < MF_COUNT(names); i++)
			if (strcmp(names[i].name, text) == 0)
				p->dispatcher = (uint8_t)names[i].value;
}

static bool read_sharding(const char *text, mf_plan *p, mf_judged *out)
{
	const char *strategy = strchr(text, ':');

	if (!*text || strcmp(text, "distopt") == 0)
		return true;
	if (strcmp(text, "ddp") == 0) {
		p->zero_stage = 0;
		return true;
	}
	if (strncmp(text, "megatron-fsdp", 13) != 0) {
		mf_score_uncovered(out, "sharding by another framework");
		return false;
	}
	p->sharding = MF_FSDP;
	p->zero_stage = strategy && strcmp(strategy, ":optim_grads") == 0 ? 2
			: strategy && strcmp(strategy, ":optim") == 0     ? 1
									  : 3;
	return true;
}

/* Degrees and choices of a Megatron row. Where etp is not stated it is `etp`. */
static bool read_plan(const mf_measured *row, uint32_t etp, mf_plan *p, mf_judged *out)
{
	*p = mf_plan_default(MF_TRAIN);
	if (isnan(row->tp) || isnan(row->pp) || isnan(row->ep)) {
		mf_score_uncovered(out, "tp, pp or ep not stated");
		return false;
	}
	p->tp = (uint16_t)row->tp;
	p->pp = (uint16_t)row->pp;
	p->ep = (uint16_t)row->ep;
	p->cp = (uint16_t)mf_measured_u32(row->cp, 1);
	p->vpp = (uint16_t)mf_measured_u32(row->vpp, 1);
	p->etp = (uint16_t)mf_measured_u32(row->etp, etp);
	p->micro_batch = (uint16_t)mf_measured_u32(row->mbs, 1);
	p->overlap = lists(row->overlap, "moe_ep_overlap");
	p->schedule = p->vpp > 1 ? MF_INTERLEAVED : MF_1F1B;
	return read_recompute(row->recompute, p, out) && read_sharding(row->sharding, p, out);
}

static bool read_workload(const mf_measured *row, mf_workload *w, mf_judged *out)
{
	memset(w, 0, sizeof *w);
	w->phase = MF_TRAIN;
	if (isnan(row->seq_len)) {
		mf_score_uncovered(out, "sequence length not stated");
		return false;
	}
	w->seq = (uint32_t)row->seq_len;
	w->global_batch = mf_measured_u32(row->gbs, 1024);
	w->micro_batches[0] = mf_measured_u32(row->mbs, 1);
	w->n_micro_batches = 1;
	if (mf_score_training(row->precision, &w->precision))
		return true;
	mf_score_uncovered(out, "precision %.32s", row->precision);
	return false;
}

static unsigned read_offload(const mf_measured *row)
{
	static const struct {
		const char *name;
		unsigned module;
	} names[] = {{"attn_norm", MF_OFFLOAD_ATTN_NORM}, {"qkv_linear", MF_OFFLOAD_QKV_LINEAR},
		{"core_attn", MF_OFFLOAD_CORE_ATTN}, {"attn_proj", MF_OFFLOAD_ATTN_PROJ},
		{"mlp_norm", MF_OFFLOAD_MLP_NORM}, {"expert_fc1", MF_OFFLOAD_EXPERT_FC1},
		{"moe_act", MF_OFFLOAD_MOE_ACT}};
	const char *list = strstr(row->note, "activation offload [");
	char words[160];
	unsigned bits = 0;

	if (!list || sscanf(list, "activation offload %159[^]]", words) != 1)
		return 0;
	for (size_t i = 0; i < MF_COUNT(names); i++)
		if (lists(words, names[i].name))
			bits |= names[i].module;
	return bits;
}

/* ---- what is compared ---------------------------------------------------------------------------------------------- */

static double line_bytes(const mf_explain *ex, const char *name)
{
	double sum = 0;

	for (size_t i = 0; i < ex->n_lines; i++)
		if (strncmp(ex->lines[i].name, name, strlen(name)) == 0)
			sum += ex->lines[i].bytes;
	return sum;
}

double mf_memory_in_unit(double bytes, const mf_measured *row, const mf_cluster *c)
{
	static const struct {
		const char *unit;
		double bytes;
	} units[] = {{"B", 1}, {"MiB", MF_MIB}, {"GiB", MF_GIB}, {"GB", MF_GB}};

	for (size_t i = 0; i < MF_COUNT(units); i++)
		if (strcmp(units[i].unit, row->unit) == 0)
			return bytes / units[i].bytes;
	return strcmp(row->unit, "%") == 0 ? 100 * bytes / c->hbm_bytes : NAN;
}

/* The allocator's peak of an opened stage: everything but its slack and what lies outside it. */
static double allocated(const mf_explain *ex)
{
	return ex->memory.total_bytes - line_bytes(ex, "reserve") - line_bytes(ex, "context");
}

/* The ledger's figure for the row's metric; NaN where it has none. */
static double figure(const mf_measured *row, const mf_explain *ex)
{
	static const char *const peaks[] = {"max_allocated_bytes", "peak_allocated_memory", "peak_memory", NULL};

	for (size_t i = 0; peaks[i]; i++)
		if (strcmp(row->metric, peaks[i]) == 0)
			return allocated(ex);
	if (strcmp(row->metric, "peak_device_memory") == 0 || strcmp(row->metric, "peak_memory_fraction") == 0)
		return ex->memory.total_bytes;
	if (strcmp(row->metric, "memory_weights_and_grads") == 0)
		return line_bytes(ex, "weights") + line_bytes(ex, "grads");
	if (strcmp(row->metric, "memory_optimizer_states") == 0)
		return line_bytes(ex, "master") + line_bytes(ex, "moments");
	if (strcmp(row->metric, "memory_activations") == 0)
		return line_bytes(ex, "act.");
	if (strcmp(row->metric, "memory_total") == 0)
		return line_bytes(ex, "weights") + line_bytes(ex, "grads") + line_bytes(ex, "master") +
		       line_bytes(ex, "moments") + line_bytes(ex, "act.");
	return NAN;
}

mf_memory_verdict mf_memory_verdict_of(const mf_memory *m)
{
	return !m->fits ? MF_MEM_REFUSED : m->probe ? MF_MEM_PROBE : MF_MEM_FITS;
}

/* Prices the rig's plan; `stage` is what was logged, or -1 for the worst. The verdict is always the worst stage's. */
static void price(struct mf_memory_rig *r, const mf_measured *row, mf_intern *intern, int stage, mf_judged *out)
{
	mf_inputs in = {&r->model, &r->cluster, &r->work, &r->stack, NULL, intern};
	mf_memory m;
	mf_err err;

	mf_cost_free(r->cost);
	r->cost = NULL;
	if (mf_plan_dp(&r->plan, mf_cluster_world(&r->cluster)) == 0 ||
		mf_plan_edp(&r->plan, mf_cluster_world(&r->cluster)) == 0) {
		mf_score_uncovered(out, "degrees do not divide the GPUs");
		return;
	}
	mf_plan_format(&r->plan, intern, out->plan);
	if (mf_cost_new(&r->cost, &in, &r->consts, NULL, &err) < 0) {
		mf_score_uncovered(out, "%.90s", err.msg);
		return;
	}
	mf_cost_memory(r->cost, &r->plan, &m);
	if (isnan(m.total_bytes) || mf_cost_explain_stage(r->cost, &r->plan,
					    stage < 0 ? m.worst_stage : (uint32_t)stage, &r->ex, &err) < 0) {
		mf_score_uncovered(out, "a pipeline split that cannot be named");
		return;
	}
	out->covered = true;
	out->verdict = mf_memory_verdict_of(&m);
	out->predicted = mf_memory_in_unit(figure(row, &r->ex), row, &r->cluster);
}

/* ---- Megatron's functional tests ----------------------------------------------------------------------------------- */

void mf_golden_model(const mf_measured *row, const mf_golden_shape *g, mf_model *m)
{
	memset(m, 0, sizeof *m);
	snprintf(m->name, sizeof m->name, "%s", g->name);
	m->hidden = note_u32(row, "hidden", 0);
	m->layers = g->pattern ? (uint32_t)strlen(g->pattern) : note_u32(row, "layers", 0);
	m->experts = note_u32(row, "experts", 0);
	m->topk = note_u32(row, "topk", 1);
	m->mtp_layers = note_u32(row, "mtp", 0);
	m->ffn = note_u32(row, "ffn", g->ffn ? g->ffn : 4 * m->hidden);
	m->moe_ffn = note_u32(row, "moe_ffn", m->ffn);
	m->vocab = g->vocab;
	m->learned_positions = g->learned_positions;
	m->heads = g->heads;
	m->kv_heads = g->kv_heads ? g->kv_heads : g->heads;
	m->head_dim = g->kv_lora ? g->qk_nope + g->qk_rope : g->head_dim ? g->head_dim : m->hidden / g->heads;
	m->v_dim = g->kv_lora ? g->v_dim : m->head_dim;
	m->attention = g->kv_lora ? MF_MLA : MF_GQA;
	m->q_lora = g->q_lora;
	m->kv_lora = g->kv_lora;
	m->qk_nope = g->qk_nope;
	m->qk_rope = g->qk_rope;
	m->shared_ffn = g->shared;
	m->gated = g->gated;
	m->tied_embeddings = g->tied;
	m->mamba_heads = g->mamba_heads;
	m->mamba_head_dim = g->mamba_head_dim;
	m->mamba_state = 128;
	m->mamba_groups = 8;
	m->mamba_conv = 4;
	m->moe_latent = note_u32(row, "latent", 0);
	for (uint32_t i = 0; i < m->layers && i < MF_MAX_LAYERS; i++) {
		char letter = g->pattern ? g->pattern[i] : 't';

		m->moe_layer[i] = g->pattern ? letter == 'E' : i >= g->dense_layers;
		m->mixer[i] = letter == 'M'                    ? MF_MIX_MAMBA2
			      : letter == 'E' || letter == '-' ? MF_MIX_NONE
							       : MF_MIX_ATTENTION;
		m->bare_layer[i] = letter == 'M' || letter == '*';
	}
	mf_model_tally(m);
}

static void golden_stack(const mf_measured *row, const mf_golden *g, struct mf_memory_rig *r)
{
	mf_stack *s = &r->stack;
	char text[32];

	if (g->flags & MF_GOLD_UNFUSED)
		s->attention = MF_ATTN_UNFUSED;
	if (g->flags & MF_GOLD_DROPOUT)
		s->attention_dropout = s->hidden_dropout = 0.1;
	s->separate_wgrad = g->flags & MF_GOLD_WGRAD;
	s->loss = mf_measured_says(row, "te cross-entropy fusion") ? MF_LOSS_TE
		  : g->flags & MF_GOLD_NATIVE                      ? MF_LOSS_NATIVE
								   : MF_LOSS_EAGER;
	s->optimizer_instances = g->flags & MF_GOLD_INSTANCES ? 2 : 1;
	s->fp8_params = g->flags & MF_GOLD_FP8_PARAMS;
	s->grad_reduce_bf16 = g->flags & MF_GOLD_BF16_GRADS;
	s->mtp_repeated = g->flags & MF_GOLD_MTP_REPEATED;
	s->vocab_multiple = mf_golden_shapes[g->shape].vocab_multiple;
	s->sequential_experts = !mf_measured_says(row, "grouped-gemm");
	if (mf_measured_note(row, "optimizer", text, sizeof text) && strcmp(text, "muon") == 0)
		s->optimizer = MF_OPT_MUON;
	s->delay_wgrad = lists(row->overlap, "delay_wgrad");
	s->offload_activations = (uint8_t)read_offload(row);
	if (g->flags & MF_GOLD_CUBLAS)
		r->consts.v[MF_C_MEM_CUBLAS_MIB] = 32; /* what :4096:8 asks for */
}

static void judge_golden(mf_score *ctx, struct state *s, const mf_measured *row, mf_judged *out)
{
	struct mf_memory_rig *r = &s->rig;
	const mf_cluster *cluster;
	const mf_golden *g;
	uint16_t counts[MF_MAX_STAGES];
	char test[160];

	snprintf(out->group, sizeof out->group, "Megatron tests");
	g = mf_measured_note(row, "test", test, sizeof test) ? mf_golden_find(test) : NULL;
	if (!g) {
		mf_score_uncovered(out, "test with unknown arguments");
		return;
	}
	if (isnan(row->n_gpus) && !g->gpus) {
		mf_score_uncovered(out, "number of GPUs not stated");
		return;
	}
	cluster =
		mf_score_cluster_of(ctx, row->gpu, isnan(row->n_gpus) ? g->gpus : row->n_gpus, row->gpus_per_node, out);
	if (!cluster || !mf_memory_rig_start(ctx, r, cluster, "megatron-0.18.0", out))
		return;
	mf_golden_model(row, &mf_golden_shapes[g->shape], &r->model);
	if (!r->model.hidden || !r->model.layers || !r->model.experts || r->model.layers > MF_MAX_LAYERS) {
		mf_score_uncovered(out, "the note lacks layers, hidden or experts");
		return;
	}
	golden_stack(row, g, r);
	if (!read_plan(row, 0, &r->plan, out) || !read_workload(row, &r->work, out))
		return;
	read_dispatcher(row, MF_DISP_ALLGATHER, &r->plan);
	r->work.mtp = r->model.mtp_layers > 0;
	if (g->layout && mf_stage_layout_parse(g->layout, counts, MF_COUNT(counts)) == (size_t)r->plan.pp * r->plan.vpp)
		r->plan.stage_layout = mf_intern_id(s->intern, g->layout);
	price(r, row, s->intern, r->plan.pp - 1, out); /* the last rank logs */
}

/* ---- other Megatron runs -------------------------------------------------------------------------------------------- */

/*
 * What recipes of Megatron Bridge set and rows do not state (github.com/NVIDIA-NeMo/Megatron-Bridge at 067f987,
 * src/megatron/bridge/perf_recipes/_common.py and the recipe of the model). The first line that fits counts; the last is
 * the common part of all performance recipes: 16-bit gradients, 32-bit moments, Transformer Engine's cross entropy.
 */
static const struct recipe {
	const char *source, *model, *gpu,
		*says; /* what the row's fields begin with, and what its note holds; "": any */
	bool bf16_grads, bf16_moments, mtp_repeated, full_recompute;
	mf_loss loss;
	unsigned offload;
} recipes[] = {
	{"mbridge-", "Nemotron-3.5", "H100", "card=pretrain_performance", true, true, true, false, MF_LOSS_TE,
		MF_OFFLOAD_EXPERT_FC1},
	{"mbridge-", "Nemotron-3.5", "", "card=sft", false, false, true, false, MF_LOSS_NATIVE, 0},
	{"mbridge-", "Nemotron-3.5", "H100", "card=pretrain/", true, false, true, false, MF_LOSS_NATIVE, 0},
	{"mbridge-", "Nemotron-3.5", "", "", true, false, true, false, MF_LOSS_TE, 0},
	{"mbridge-", "GLM-5", "", "", true, true, false, true, MF_LOSS_EAGER, 0},
	{"mbridge-", "DeepSeek", "", "", true, true, false, false, MF_LOSS_TE, 0},
	{"mbridge-", "Moonlight", "", "", true, true, false, false, MF_LOSS_TE, 0},
	{"mbridge-", "", "", "card=sft", false, false, false, false, MF_LOSS_NATIVE, 0},
	{"mcore-", "DeepSeek", "", "", true, true, false, false, MF_LOSS_TE, 0},
	{"", "", "", "", true, false, false, false, MF_LOSS_TE, 0},
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static const struct recipe *recipe_of(const mf_measured *row)
{
	const struct recipe *r = recipes;

	while (!begins(row->source_id, r->source) || !begins(row->model, r->model) || !begins(row->gpu, r->gpu) ||
		!strstr(row->note, r->says))
		r++;
	return r;
}

static void judge_megatron(mf_score *ctx, struct state *s, const mf_measured *row, mf_judged *out)
{
	const struct recipe *recipe = recipe_of(row);
	struct mf_memory_rig *r = &s->rig;
	const mf_cluster *cluster;
	const mf_model *model;

	snprintf(out->group, sizeof out->group, "Megatron runs");
	if (mf_measured_says(row, "LoRA") || mf_measured_says(row, "card=peft")) {
		mf_score_uncovered(out, "LoRA: adapters are not priced");
		return;
	}
	if (!(model = mf_score_model(ctx, row->model, out)) || !(cluster = mf_score_cluster(ctx, row, out)) ||
		!mf_memory_rig_start(ctx, r, cluster, "megatron-0.18.0-tuned", out))
		return;
	r->model = *model;
	r->stack.grad_reduce_bf16 = recipe->bf16_grads;
	r->stack.precision_aware = recipe->bf16_moments;
	r->stack.mtp_repeated = recipe->mtp_repeated;
	r->stack.loss = recipe->loss;
	r->stack.offload_activations = (uint8_t)(read_offload(row) | recipe->offload);
	r->stack.delay_wgrad = lists(row->overlap, "delay_wgrad");
	if (!read_plan(row, 1, &r->plan, out) || !read_workload(row, &r->work, out))
		return;
	if (!*row->recompute && recipe->full_recompute)
		read_recompute("full", &r->plan, out);
	read_dispatcher(row, MF_DISP_ALLTOALL, &r->plan);
	r->work.mtp = r->model.mtp_layers > 0;
	/* What the driver reports holds whatever the allocator has cached, up to the card: counted apart. */
	out->outside = strcmp(row->metric, "peak_device_memory") == 0;
	price(r, row, s->intern, -1, out);
}

/* ---- a row ---------------------------------------------------------------------------------------------------------- */

bool mf_memory_rig_start(
	mf_score *ctx, struct mf_memory_rig *r, const mf_cluster *cluster, const char *stack, mf_judged *out)
{
	const mf_consts *consts = mf_score_consts(ctx, cluster, out);
	mf_err err;

	if (!consts)
		return false;
	r->cluster = *cluster;
	r->consts = *consts;
	if (mf_stack_load(&r->stack, stack, strncmp(stack, "sglang", 6) == 0 ? MF_SERVE : MF_TRAIN, &err) == MF_OK)
		return true;
	mf_score_uncovered(out, "%.90s", err.msg);
	return false;
}

static struct state *state_of(mf_score *ctx)
{
	void **slot = mf_score_state(ctx, MF_ROW_MEMORY, release);
	struct state *s = *slot;

	if (!s && (s = calloc(1, sizeof *s)) != NULL) {
		s->intern = mf_intern_new();
		*slot = s;
	}
	return s && s->intern ? s : NULL;
}

void mf_score_memory(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	static const struct {
		const char *source, *why_not; /* what a source's id begins with; NULL: read as a run of Megatron */
	} sources[] = {
		{"mbridge-", NULL},
		{"mcore-", NULL},
		{"moe-modelzoo", NULL},
		{"mlm-", NULL},
		{"mpf-", NULL},
		{"torchtitan-", "another framework: torchtitan"},
		{"torchao-", "another framework: torchtitan"},
		{"automodel-", "another framework: NeMo Automodel"},
		{"verl-", "reinforcement learning: rollout engine and trainer share the GPU"},
		{"msswift-", "LoRA: adapters are not priced"},
	};
	struct state *s = state_of(ctx);

	if (!s) {
		mf_score_uncovered(out, "out of memory");
		return;
	}
	if (mf_measured_says(row, "test=")) {
		judge_golden(ctx, s, row, out);
		return;
	}
	for (size_t i = 0; i < MF_COUNT(sources); i++)
		if (strncmp(row->source_id, sources[i].source, strlen(sources[i].source)) == 0) {
			if (sources[i].why_not)
				mf_score_uncovered(out, "%s", sources[i].why_not);
			else
				judge_megatron(ctx, s, row, out);
			return;
		}
	/* A row with a batch trained; the others are of serving engines. */
	if (!isnan(row->mbs) || !isnan(row->gbs) || !isnan(row->seq_len))
		judge_megatron(ctx, s, row, out);
	else
		mf_score_memory_serve(ctx, &s->rig, row, s->intern, out);
}
