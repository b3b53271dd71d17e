/*
 * train.c: training rows. A row names its layout; what it leaves out (dispatcher, CUDA graphs, overlap, split of the
 * stages) follows the conventions of its source and release, which stand here as tables, never as constants of the
 * model. The step is priced by the evaluator that ranks plans.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"

/* ---- what sources leave unsaid -------------------------------------------------------------------------------------- */

/* How a source's runs were made where its rows do not say. */
typedef struct source {
	const char *prefix; /* of source_id */
	const char *release;
	double year_month; /* of the software, as the vendor numbers its containers */
	mf_dispatcher dispatcher;
	bool by_release;  /* dispatcher, graphs and overlap follow the container's release */
	bool fp32_grads;  /* gradients are reduced in fp32 */
	bool even_stages; /* equal layers a stage; else the best split, as tuned recipes give a layout */
	bool interleaved; /* chunks as far as the layers divide */
	bool unfolded;    /* experts use the attention's tensor parallelism when etp is not given */
	bool other;       /* not Megatron's own trainer, or not its schedules: outside the domain */
} source;

#define NEWEST_RELEASE 26.08

static const source sources[] = {
	{.prefix = "mbridge-perf", .dispatcher = MF_DISP_DEEPEP, .by_release = true},
	{.prefix = "mbridge-cards",
		.release = "26.08",
		.year_month = 26.08,
		.dispatcher = MF_DISP_HYBRIDEP,
		.by_release = true},
	{.prefix = "mbridge-skills",
		.release = "26.08",
		.year_month = 26.08,
		.dispatcher = MF_DISP_HYBRIDEP,
		.by_release = true},
	{.prefix = "mbridge-",
		.release = "26.08",
		.year_month = 26.08,
		.dispatcher = MF_DISP_HYBRIDEP,
		.by_release = true},
	{.prefix = "mlm-moe-recipes",
		.release = "mlm-dev",
		.year_month = 26.06,
		.dispatcher = MF_DISP_HYBRIDEP,
		.by_release = true},
	{.prefix = "mcore-moe-report",
		.release = "mcore-report",
		.year_month = 26.00,
		.dispatcher = MF_DISP_DEEPEP,
		.by_release = true},
	{.prefix = "moe-modelzoo",
		.release = "modelzoo",
		.year_month = 26.00,
		.dispatcher = MF_DISP_DEEPEP,
		.by_release = true,
		.even_stages = true},
	{.prefix = "mlm-golden",
		.release = "mlm-golden",
		.year_month = 25.00,
		.dispatcher = MF_DISP_DEEPEP,
		.by_release = true},
	{.prefix = "mpf-paper",
		.release = "mpf",
		.year_month = 25.00,
		.dispatcher = MF_DISP_ALLTOALL,
		.fp32_grads = true,
		.even_stages = true,
		.interleaved = true,
		.unfolded = true},
	{.prefix = "megascale",
		.release = "megascale",
		.year_month = 25.00,
		.dispatcher = MF_DISP_ALLTOALL,
		.fp32_grads = true,
		.other = true},
	{.prefix = "dsv3-report", .release = "dsv3", .year_month = 25.00, .dispatcher = MF_DISP_DEEPEP, .other = true},
	{.prefix = "torch",
		.release = "torchtitan",
		.year_month = 25.00,
		.dispatcher = MF_DISP_ALLTOALL,
		.other = true},
	{.prefix = "", .release = "", .year_month = 25.00, .dispatcher = MF_DISP_ALLTOALL},
};

/* The row's source by its name; a page not in the table that names a vendor container ran as the vendor's tables. */
static const source *source_of(const mf_measured *r)
{
	char container[32];
	size_t i = 0;

	while (strncmp(sources[i].prefix, r->source_id, strlen(sources[i].prefix)) != 0)
		i++;
	return !*sources[i].prefix && mf_measured_note(r, "container", container, sizeof container) ? &sources[0]
												    : &sources[i];
}

/* ---- reading a row --------------------------------------------------------------------------------------------------- */

struct mf_train_row {
	const mf_measured *row;
	const char *family; /* NULL: of none that constants were fitted on */
	const source *src;
	const mf_golden *test; /* a functional test of Megatron's own */
	double release;        /* 26.06 of "26.06.01" */
	mf_model model;
	const mf_cluster *cluster;
	mf_consts consts;
	mf_workload work;
	mf_stack stack;
	mf_plan plan;
	mf_intern *intern;
	bool regression; /* the page itself flags a regression of this release */
};
typedef struct mf_train_row reading;

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Year and month of "26.06.01" or "nemo:26.10"; of a name without them that of the newest release in the table. */
static double release_number(const char *release)
{
	size_t skip = strcspn(release, "0123456789");
	char *end;
	double major = strtod(release + skip, &end);

	if (major > 20 && major < 100)
		return major;
	return strstr(release, "nightly") || strstr(release, "dev") || strstr(release, "main") ? NEWEST_RELEASE : NAN;
}

/* Rows the targets are not set for: fine-tuning, functional runs, toys, other frameworks. */
static bool outside_domain(const reading *rd)
{
	const mf_measured *r = rd->row;
	char card[64];

	if (rd->src->other || rd->test || mf_measured_note(r, "test", card, sizeof card) ||
		strcmp(r->schedule, "dualpipe") == 0)
		return true;
	if (mf_measured_says(r, "LoRA") || mf_measured_says(r, "SFT") || mf_measured_says(r, "packed"))
		return true;
	/* A verification card is a functional run unless it says performance or scaling. */
	return mf_measured_note(r, "card", card, sizeof card) && !strstr(card, "_performance") &&
	       !strstr(card, "weak_scaling");
}

static bool read_degrees(reading *rd, mf_judged *out)
{
	const mf_measured *r = rd->row;
	const source *src = rd->src;
	uint32_t world = mf_cluster_world(rd->cluster), tp, pp, cp, ep, etp, layers = rd->model.layers;
	uint32_t vpp = mf_measured_u32(r->vpp, 1);

	if (isnan(r->pp) && !src->other) {
		mf_score_uncovered(out, "pipeline depth not stated");
		return false;
	}
	tp = mf_measured_u32(r->tp, 1);
	pp = mf_measured_u32(r->pp, 1);
	cp = mf_measured_u32(r->cp, 1);
	ep = mf_measured_u32(r->ep, 1);
	etp = mf_measured_u32(r->etp, src->unfolded ? tp : 1);
	if ((uint64_t)ep * etp * pp > world)
		etp = 1;
	if (tp > 1024 || pp > MF_MAX_LAYERS || cp > 4096 || ep > 4096 || etp > 1024 || world % (tp * pp * cp) ||
		world % (etp * ep * pp) || (rd->model.experts && rd->model.experts % ep)) {
		mf_score_uncovered(out, "degrees do not divide the GPUs or experts");
		return false;
	}
	if (src->interleaved && pp > 1 && isnan(r->vpp))
		vpp = layers / pp;
	rd->plan.tp = (uint16_t)tp;
	rd->plan.pp = (uint16_t)pp;
	rd->plan.cp = (uint16_t)cp;
	rd->plan.ep = (uint16_t)ep;
	rd->plan.etp = (uint16_t)etp;
	rd->plan.vpp = (uint16_t)(pp > 1 && vpp > 1 ? vpp : 1);
	rd->plan.schedule = rd->plan.vpp > 1 ? MF_INTERLEAVED : MF_1F1B;
	if (strcmp(r->schedule, "dualpipe") == 0)
		rd->plan.schedule = MF_DUALPIPE;
	return true;
}

static bool read_work(reading *rd, mf_judged *out)
{
	const mf_measured *r = rd->row;
	uint32_t world = mf_cluster_world(rd->cluster);
	double seq = isnan(r->seq_len) ? r->isl : r->seq_len, gbs = r->gbs;
	double mbs = mf_measured_u32(r->mbs, 1);

	if (isnan(seq)) {
		mf_score_uncovered(out, "sequence length not stated");
		return false;
	}
	/* A trainer without gradient accumulation steps once a local batch. */
	if (isnan(gbs) && begins(r->source_id, "torch"))
		gbs = mbs * mf_plan_dp(&rd->plan, world);
	if (isnan(gbs)) {
		mf_score_uncovered(out, "global batch not stated");
		return false;
	}
	rd->work = (mf_workload){.phase = MF_TRAIN,
		.seq = (uint32_t)seq,
		.global_batch = (uint32_t)gbs,
		.micro_batches = {(uint32_t)mbs},
		.n_micro_batches = 1,
		.mtp = !mf_measured_says(r, "w/o MTP"),
		.ttft_target_ms = NAN,
		.tpot_target_ms = NAN};
	rd->plan.micro_batch = (uint16_t)mbs;
	if (!mf_score_training(r->precision, &rd->work.precision)) {
		mf_score_uncovered(out, "precision %.32s", r->precision);
		return false;
	}
	if ((isnan(rd->cluster->tflops[MF_FP8]) && rd->work.precision != MF_PREC_BF16) ||
		(isnan(rd->cluster->tflops[MF_FP4]) && rd->work.precision == MF_PREC_NVFP4)) {
		mf_score_uncovered(out, "precision the GPU lacks");
		return false;
	}
	if (mf_measured_says(r, "natural") || mf_measured_says(r, "routing per recipe"))
		rd->work.max_violation = rd->consts.v[MF_C_NATURAL_SKEW];
	return true;
}

static void read_recompute(reading *rd)
{
	const char *text = rd->row->recompute, *colon = strchr(text, ':');
	unsigned modules;

	if (begins(text, "full")) {
		rd->plan.recompute = MF_RECOMPUTE_FULL;
		return;
	}
	modules = begins(text, "selective") && colon ? mf_score_recompute(colon + 1) : 0;
	rd->plan.recompute = modules ? MF_RECOMPUTE_SELECTIVE : MF_RECOMPUTE_NONE;
	rd->plan.recompute_modules = (uint8_t)modules;
}

/* Dispatcher, graphs, overlap and casts: what the row says, else what its release's recipes did. */
static void read_software(reading *rd)
{
	const mf_measured *r = rd->row;
	const mf_cluster *cl = rd->cluster;
	bool grace = cl->grace, table, split = rd->model.mamba_layers > 0, across;
	char graph[96] = "";
	mf_stack *s = &rd->stack;
	mf_plan *p = &rd->plan;

	table = rd->src == &sources[0] || mf_measured_says(r, "weak_scaling");
	if (mf_measured_says(r, "ybrid"))
		p->dispatcher = MF_DISP_HYBRIDEP;
	else if (mf_measured_says(r, "eepEP") || mf_measured_says(r, "deepep"))
		p->dispatcher = MF_DISP_DEEPEP;
	else if (mf_measured_says(r, "alltoall"))
		p->dispatcher = MF_DISP_ALLTOALL;
	else if (rd->src->by_release)
		p->dispatcher =
			rd->release >= 26.06 || (rd->release >= 25.11 && (grace || strcmp(cl->gpu, "B300") == 0))
				? MF_DISP_HYBRIDEP
				: MF_DISP_DEEPEP;
	else
		p->dispatcher = rd->src->dispatcher;

	*s = (mf_stack){.toolchain = MF_MEGATRON_0190,
		.transformer_engine = true,
		.loss = MF_LOSS_TE,
		.grad_reduce_bf16 = !rd->src->fp32_grads,
		.overlap_grad_reduce = true,
		.overlap_param_gather = true,
		.permute_fusion = true,
		.deepep = true,
		.hybridep = true,
		.einops = true,
		.mem_fraction = NAN};
	s->fused_quant = cl->family == MF_BLACKWELL && rd->release >= 26.06 && !rd->regression;
	if (rd->test && (rd->test->flags & MF_GOLD_UNFUSED))
		s->attention = MF_ATTN_UNFUSED;
	if (mf_measured_says(r, "Muon"))
		s->optimizer = MF_OPT_MUON;
	p->overlap = strstr(r->overlap, "moe_ep_overlap") != NULL || strstr(r->overlap, "DualPipe") != NULL;
	s->delay_wgrad = strstr(r->overlap, "delay_wgrad") != NULL;

	if (mf_measured_says(r, "cuda_graph=full") || mf_measured_says(r, "full_iteration"))
		s->graphs = MF_GRAPHS_FULL;
	else if (mf_measured_note(r, "cuda_graph", graph, sizeof graph) || mf_measured_says(r, "cuda_graph") ||
		 mf_measured_says(r, "TE CUDA"))
		s->graphs = MF_GRAPHS_PARTIAL;
	else if (begins(r->source_id, "mbridge-skills") && p->dispatcher == MF_DISP_HYBRIDEP)
		s->graphs = MF_GRAPHS_PARTIAL; /* its all-to-all rows say "no CUDA graph", these do not */
	else if (table && rd->release >= 26.06)
		s->graphs = grace && !split ? MF_GRAPHS_FULL : MF_GRAPHS_PARTIAL;
	else if (table && rd->release >= 25.11 && grace)
		s->graphs = MF_GRAPHS_PARTIAL;

	if (!*r->overlap && !*r->recompute && table && !rd->regression) {
		if (grace && rd->release >= 26.06 && !split)
			p->overlap = s->delay_wgrad = true;
		across = (double)p->ep * p->etp > cl->nvlink_domain;
		if (across && p->pp > 1) /* recipes with experts across nodes turn the overlap on */
			p->overlap = s->delay_wgrad = true;
	}
	/* A layer-wise optimizer goes without a whole-iteration graph and without overlap, and so did a flagged regression. */
	if (s->optimizer == MF_OPT_MUON || rd->regression) {
		p->overlap = 0;
		s->delay_wgrad = false;
		if (s->graphs == MF_GRAPHS_FULL)
			s->graphs = MF_GRAPHS_PARTIAL;
	}
}

static void read_sharding(reading *rd)
{
	const mf_measured *r = rd->row;
	mf_plan *p = &rd->plan;

	p->sharding = strstr(r->sharding, "fsdp") ? MF_FSDP : MF_ZERO1;
	if (mf_measured_says(r, "full optimizer CPU offload"))
		p->sharding = MF_ZERO1_OFFLOAD;
	p->zero_stage = p->sharding == MF_FSDP ? 3 : 1;
}

/* Model flop a token of a training step as Megatron counts them: three forwards, half the scores, MTP layers with heads. */
static double model_flop(const mf_model *m, double seq, bool mtp)
{
	double h = m->hidden, w = m->gated ? 3 : 2, f = 0, inner = (double)m->mamba_heads * m->mamba_head_dim;
	double k = (double)m->delta_k_heads * m->delta_k_dim, v = (double)m->delta_v_heads * m->delta_v_dim;
	double attention, scores, ffn, full = mf_model_attention_layers(m) - m->window_layers;

	if (m->attention == MF_MLA) {
		double dq = m->qk_nope + m->qk_rope, nh = m->heads;

		attention = h * (m->q_lora + m->kv_lora + m->qk_rope) + (m->q_lora ? m->q_lora : h) * nh * dq +
			    m->kv_lora * nh * (m->qk_nope + m->v_dim) + nh * m->v_dim * h;
		scores = nh * (dq + m->v_dim) / 2;
	} else {
		attention = h * m->head_dim * (2.0 * m->heads + 2.0 * m->kv_heads);
		scores = (double)m->heads * m->head_dim;
	}
	ffn = w * mf_model_expert_width(m) * m->moe_ffn * m->topk + w * h * m->shared_ffn + h * m->experts +
	      2.0 * m->moe_latent * h;
	f = mf_model_attention_layers(m) * attention + full * scores * seq +
	    m->window_layers * 2 * scores * fmin(m->window, seq) +
	    m->mamba_layers *
		    (h * (3 * inner + 2.0 * m->mamba_groups * m->mamba_state) + 3.5 * inner * m->mamba_state) +
	    m->delta_layers * (h * (2 * k + 3 * v) + 4 * v * m->delta_k_dim) +
	    mf_model_dense_layers(m) * w * h * m->ffn + m->moe_layers * ffn;
	if (mtp && m->mtp_layers) /* its layer counts as the mean one, two of them where layers are split */
		f += m->mtp_layers * (f / m->layers * (m->bare_layers ? 2 : 1) + 2 * h * h + h * m->vocab);
	return 6 * (f + h * m->vocab);
}

/* Tokens/s/GPU as the row's metric and back: value = factor * rate, or factor / rate. 0 when the metric is not known. */
static double metric_factor(const reading *rd, bool *inverse)
{
	const mf_measured *r = rd->row;
	double world = mf_cluster_world(rd->cluster), tokens = (double)rd->work.global_batch * rd->work.seq;
	double flop = model_flop(&rd->model, rd->work.seq, rd->work.mtp);

	*inverse = false;
	if (strcmp(r->metric, "tokens_per_s_per_gpu") == 0)
		return 1;
	if (strcmp(r->metric, "tokens_per_s") == 0)
		return world;
	if (strcmp(r->metric, "tflops_per_gpu") == 0)
		return flop / 1e12;
	if (strcmp(r->metric, "mfu") == 0) {
		const char *base = strstr(r->note, "MFU base ");
		double peak = base ? strtod(base + strlen("MFU base "), NULL) : 0;

		return 100 * flop / (1e12 * (peak > 0 ? peak : rd->cluster->tflops[MF_BF16]));
	}
	*inverse = true;
	if (strcmp(r->metric, "step_time") == 0)
		return tokens / world * (strcmp(r->unit, "ms") == 0 ? 1e3 : 1);
	if (strcmp(r->metric, "gpu_hours_per_1T_tokens") == 0)
		return 1e12 / 3600;
	return 0;
}

/* ---- families --------------------------------------------------------------------------------------------------------- */

/* Architectures that the shipped constants were fitted on: their models are judged by constants no run was fitted to. */
static const struct {
	const char *begins, *family; /* of the built-in model's name */
} families[] = {
	{"deepseek", "deepseek"},
	{"kimi", "deepseek"},
	{"moonlight", "deepseek"},
	{"glm-5", "deepseek"},
	{"gpt-oss", "gpt-oss"},
	{"llama3-8x70b", "llama3-moe"},
	{"mixtral", "mixtral"},
	{"nemotron", "nemotron"},
	{"qwen2-57b", "qwen2-moe"},
	{"qwen3-next", "qwen3-delta"},
	{"qwen3.5", "qwen3-delta"},
	{"qwen3-30b", "qwen3"},
	{"qwen3-235b", "qwen3"},
	{"qwen3-coder", "qwen3"},
};

/* Constants before any run was fitted. */
static const struct {
	const char *where; /* a GPU, a GPU family, or "all" */
	mf_const_id id;
	double value;
} priors[] = {
#define P(where, id, value, source) {where, MF_C_##id, value},
#include "train_priors.def"
#undef P
};

bool mf_score_train_where(const char *where, const mf_cluster *c)
{
	static const char *const names[MF_FAMILY_COUNT] = {"ampere", "ada", "hopper", "blackwell"};

	return strcmp(where, "all") == 0 || strcmp(where, c->gpu) == 0 || strcmp(where, names[c->family]) == 0;
}

/* Puts back what end-to-end runs moved; what an overlay gave was measured on operations and stays. */
static void unfit(mf_consts *k, const mf_cluster *c)
{
	for (size_t i = 0; i < MF_COUNT(priors); i++)
		if (!k->from_overlay[priors[i].id] && mf_score_train_where(priors[i].where, c))
			k->v[priors[i].id] = priors[i].value;
}

/* ---- judging ----------------------------------------------------------------------------------------------------------- */

/* Tokens/s/GPU under constants `k`; NaN with the reason in `out` when it cannot be priced. */
static double price(reading *rd, const mf_consts *k, mf_judged *out, bool *extrapolated)
{
	mf_inputs in = {&rd->model, rd->cluster, &rd->work, &rd->stack, NULL, rd->intern};
	mf_cost_opts opts = MF_COST_OPTS_INIT;
	char layout[128];
	mf_cost *cost;
	mf_time t;
	mf_err err;

	opts.frozen = mf_measured_says(rd->row, "LoRA");
	opts.varied = opts.frozen || mf_measured_says(rd->row, "packed");
	if (mf_cost_new(&cost, &in, k, &opts, &err) < 0) {
		mf_score_uncovered(out, "%.90s", err.msg);
		return NAN;
	}
	rd->plan.stage_layout = 0;
	if (!rd->src->even_stages && rd->plan.pp > 1 && rd->plan.schedule != MF_DUALPIPE &&
		mf_cost_layout(cost, &rd->plan, layout, sizeof layout))
		rd->plan.stage_layout = mf_intern_id(rd->intern, layout);
	mf_cost_time(cost, &rd->plan, &t);
	mf_cost_free(cost);
	*extrapolated = t.extrapolated;
	if (!(t.throughput > 0))
		mf_score_uncovered(out, "the layers cannot be laid out so");
	return t.throughput;
}

/* All of a row but its figure. */
mf_train_row *mf_score_train_read(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	reading *rd = calloc(1, sizeof *rd);
	const mf_model *model = NULL;
	const mf_consts *consts;
	double n_gpus = row->n_gpus;
	char test[160];

	if (!rd || !(rd->intern = mf_intern_new())) {
		free(rd);
		mf_score_uncovered(out, "out of memory");
		return NULL;
	}
	rd->row = row;
	rd->src = source_of(row);
	rd->plan = mf_plan_default(MF_TRAIN);
	if (mf_measured_note(row, "test", test, sizeof test) && (rd->test = mf_golden_find(test)) && isnan(n_gpus) &&
		rd->test->gpus)
		n_gpus = rd->test->gpus;
	/* A source's own release is only a name: its year and month stand beside it. */
	if (mf_measured_note(row, "container", out->release, sizeof out->release)) {
		rd->release = release_number(out->release);
	} else {
		snprintf(out->release, sizeof out->release, "%s", rd->src->release ? rd->src->release : "");
		rd->release = NAN;
	}
	if (isnan(rd->release))
		rd->release = rd->src->year_month > 0 ? rd->src->year_month : 25;
	rd->regression = mf_measured_says(row, "regression");
	out->outside = outside_domain(rd);
	if (row->outcome != MF_OUTCOME_OK || isnan(row->value))
		mf_score_uncovered(out, "no figure was measured");
	else if ((rd->test || (model = mf_score_model(ctx, row->model, out))) &&
		 (rd->cluster = mf_score_cluster_of(ctx, row->gpu, n_gpus, row->gpus_per_node, out)) &&
		 (consts = mf_score_consts(ctx, rd->cluster, out))) {
		bool inverse;

		if (rd->test)
			mf_golden_model(row, &mf_golden_shapes[rd->test->shape], &rd->model);
		else
			rd->model = *model;
		rd->consts = *consts;
		for (size_t i = 0; i < MF_COUNT(families) && !rd->family; i++)
			if (begins(rd->model.name, families[i].begins))
				rd->family = families[i].family;
		if (read_degrees(rd, out) && read_work(rd, out)) {
			read_recompute(rd);
			read_sharding(rd);
			read_software(rd);
			if (metric_factor(rd, &inverse) > 0)
				return rd;
			mf_score_uncovered(out, *row->metric ? "metric %.60s" : "metric not stated", row->metric);
		}
	}
	mf_score_train_dispose(rd);
	return NULL;
}

void mf_score_train_dispose(mf_train_row *rd)
{
	if (rd)
		mf_intern_free(rd->intern);
	free(rd);
}

double mf_score_train_rate(mf_train_row *rd, const mf_consts *k, double *measured)
{
	bool inverse, extrapolated;
	double factor = metric_factor(rd, &inverse);
	mf_judged unused;

	*measured = inverse ? factor / rd->row->value : rd->row->value / factor;
	return price(rd, k, &unused, &extrapolated);
}

const mf_cluster *mf_score_train_cluster(const mf_train_row *rd)
{
	return rd->cluster;
}

const char *mf_score_train_family(const mf_train_row *rd)
{
	return rd->family ? rd->family : "";
}

/* GPUs whose errors are counted together: one family of chips on one kind of host. */
static const char *gpu_group(const mf_cluster *c)
{
	return c->family == MF_BLACKWELL ? c->grace ? "GB200, GB300" : "B200, B300"
	       : c->family == MF_HOPPER  ? "H100, H200, H800"
	       : c->family == MF_AMPERE  ? "A100"
					 : c->gpu;
}

void mf_score_train(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	reading *rd = mf_score_train_read(ctx, row, out);
	char plan[MF_PLAN_TEXT_MAX];
	bool inverse, extrapolated;
	double rate, factor;

	if (!rd)
		return;
	if (rd->family && !mf_score_factory(ctx))
		unfit(&rd->consts, rd->cluster);
	rate = price(rd, &rd->consts, out, &extrapolated);
	if (rate > 0) {
		factor = metric_factor(rd, &inverse);
		out->covered = true;
		out->extrapolated = extrapolated || out->outside;
		if (!out->outside)
			snprintf(out->group, sizeof out->group, "%.31s", gpu_group(rd->cluster));
		out->predicted = inverse ? factor / rate : factor * rate;
		out->rate_predicted = rate;
		out->rate_measured = inverse ? factor / row->value : row->value / factor;
		snprintf(out->set, sizeof out->set, "%.64s|%.24s|%g|%.31s", row->model, row->gpu, row->n_gpus,
			out->release);
		/* Repeats agree in everything that was priced, not in the plan alone. */
		mf_plan_format(&rd->plan, rd->intern, plan);
		snprintf(out->plan, sizeof out->plan, "%.300s %s gbs%u seq%u skew%g graphs:%s%s", plan,
			mf_choice_name(mf_precision_choices, (int)rd->work.precision), rd->work.global_batch,
			rd->work.seq, rd->work.max_violation,
			rd->stack.graphs == MF_GRAPHS_FULL ? "full"
			: rd->stack.graphs                 ? "partial"
							   : "none",
			rd->stack.delay_wgrad ? " dw" : "");
	}
	mf_score_train_dispose(rd);
}
