/*
 * megatron_read.c: a torchrun command of pretrain_gpt.py back into a plan and its inputs. The flags of one table; what is
 * not in it is listed as unread. Unset flags take Megatron's own defaults, not ours.
 */
#include "emit_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a command says, before it becomes a plan. Integers start at Megatron's default. */
struct seen {
	uint32_t nnodes, nproc;
	uint32_t tp, pp, cp, ep, etp, vpp, layers_per_vstage, first, last, micro, global, seq;
	uint32_t layers, hidden, heads, groups, ffn, positions, vocab, kv_channels, rotary_base;
	uint32_t q_lora, kv_lora, qk_head, qk_pos, v_head, window_skip, mtp;
	uint32_t experts, topk, moe_ffn, shared, route_groups, group_topk, deepep_sms, hybridep_sms, flex_sms;
	uint32_t recompute_layers, train_iters, log_interval;
	double norm_eps, rotary_scaling, mscale, mscale_all, rope_scaling, attention_dropout, topk_scaling;
	bool gqa, mla, qk_layernorm, swiglu, geglu, no_bias, qkv_bias, untie, use_rope_scaling;
	bool shared_gate, shared_overlap, expert_bias, pre_softmax, permute_fusion, overlap, delay_wgrad;
	bool distopt, grad_reduce, param_gather, bf16_reduce, precision_aware, offload, fsdp;
	bool loss_fusion, recompute_short, moe_recompute;
	const char *layout, *layer_freq, *window, *softmax, *backend, *score, *dispatcher, *flex, *fp8, *recipe, *fp4;
	const char *strategy, *granularity, *method, *loss_impl, *graph_impl, *impl, *moments;
	const char *data, *tokenizer, *tensorboard, *endpoint;
};

/* SKIP flags say nothing that a plan holds, but must say what the plan would; SITE flags differ freely. */
enum kind { INTEGER, REAL, SWITCH, TEXT, LIST, SKIP, SKIP_SWITCH, SITE, SITE_SWITCH };

struct flag {
	const char *name;
	enum kind kind;
	size_t offset;
};

#define I(name, field)                                                                                                 \
	{                                                                                                              \
		name, INTEGER, offsetof(struct seen, field)                                                            \
	}
#define D(name, field)                                                                                                 \
	{                                                                                                              \
		name, REAL, offsetof(struct seen, field)                                                               \
	}
#define B(name, field)                                                                                                 \
	{                                                                                                              \
		name, SWITCH, offsetof(struct seen, field)                                                             \
	}
#define T(name, field)                                                                                                 \
	{                                                                                                              \
		name, TEXT, offsetof(struct seen, field)                                                               \
	}
/* What describes the model stands together, from --num-layers to --moe-aux-loss-coeff. */
static const struct flag flags[] = {
	I("--nnodes", nnodes),
	I("--nproc-per-node", nproc),
	I("--nproc_per_node", nproc),
	{"--rdzv-backend", SITE, 0},
	{"--rdzv_backend", SITE, 0},
	T("--rdzv-endpoint", endpoint),
	T("--rdzv_endpoint", endpoint),
	{"--rdzv-id", SITE, 0},
	{"--rdzv_id", SITE, 0},
	{"--standalone", SITE_SWITCH, 0},
	{"--node-rank", SITE, 0},
	{"--node_rank", SITE, 0},
	{"--master-addr", SITE, 0},
	{"--master_addr", SITE, 0},
	{"--master-port", SITE, 0},
	{"--master_port", SITE, 0},
	I("--tensor-model-parallel-size", tp),
	I("--pipeline-model-parallel-size", pp),
	I("--context-parallel-size", cp),
	I("--expert-model-parallel-size", ep),
	I("--expert-tensor-parallel-size", etp),
	{"--sequence-parallel", SKIP_SWITCH, 0},
	I("--num-virtual-stages-per-pipeline-rank", vpp),
	I("--num-layers-per-virtual-pipeline-stage", layers_per_vstage),
	T("--pipeline-model-parallel-layout", layout),
	I("--decoder-first-pipeline-num-layers", first),
	I("--decoder-last-pipeline-num-layers", last),
	I("--micro-batch-size", micro),
	I("--global-batch-size", global),
	I("--seq-length", seq),
	T("--transformer-impl", impl),
	I("--num-layers", layers),
	I("--hidden-size", hidden),
	I("--num-attention-heads", heads),
	I("--ffn-hidden-size", ffn),
	I("--max-position-embeddings", positions),
	I("--vocab-size", vocab),
	{"--normalization", SKIP, 0},
	D("--norm-epsilon", norm_eps),
	{"--no-persist-layer-norm", SKIP_SWITCH, 0},
	B("--quick-geglu", geglu),
	{"--glu-linear-offset", SKIP, 0},
	{"--activation-func-clamp-value", SKIP, 0},
	B("--swiglu", swiglu),
	B("--disable-bias-linear", no_bias),
	{"--no-bias-dropout-fusion", SKIP_SWITCH, 0},
	B("--add-qkv-bias", qkv_bias),
	B("--untie-embeddings-and-output-weights", untie),
	B("--multi-latent-attention", mla),
	I("--q-lora-rank", q_lora),
	I("--kv-lora-rank", kv_lora),
	I("--qk-head-dim", qk_head),
	I("--qk-pos-emb-head-dim", qk_pos),
	I("--v-head-dim", v_head),
	I("--kv-channels", kv_channels),
	B("--qk-layernorm", qk_layernorm),
	B("--group-query-attention", gqa),
	I("--num-query-groups", groups),
	{"--position-embedding-type", SKIP, 0},
	I("--rotary-base", rotary_base),
	{"--rope-type", SKIP, 0},
	D("--rotary-scaling-factor", rotary_scaling),
	D("--mscale", mscale),
	D("--mscale-all-dim", mscale_all),
	{"--no-rope-fusion", SKIP_SWITCH, 0},
	B("--use-rope-scaling", use_rope_scaling),
	D("--rope-scaling-factor", rope_scaling),
	T("--window-size", window),
	I("--window-attn-skip-freq", window_skip),
	T("--softmax-type", softmax),
	T("--attention-backend", backend),
	D("--attention-dropout", attention_dropout),
	{"--hidden-dropout", SKIP, 0},
	I("--mtp-num-layers", mtp),
	{"--mtp-loss-scaling-factor", SKIP, 0},
	I("--num-experts", experts),
	I("--moe-ffn-hidden-size", moe_ffn),
	I("--moe-router-topk", topk),
	T("--moe-layer-freq", layer_freq),
	I("--moe-shared-expert-intermediate-size", shared),
	B("--moe-shared-expert-gate", shared_gate),
	B("--moe-shared-expert-overlap", shared_overlap),
	T("--moe-router-score-function", score),
	B("--moe-router-pre-softmax", pre_softmax),
	B("--moe-router-enable-expert-bias", expert_bias),
	{"--moe-router-bias-update-rate", SKIP, 0},
	I("--moe-router-num-groups", route_groups),
	I("--moe-router-group-topk", group_topk),
	D("--moe-router-topk-scaling-factor", topk_scaling),
	{"--moe-router-dtype", SKIP, 0},
	{"--moe-router-load-balancing-type", SKIP, 0},
	{"--moe-aux-loss-coeff", SKIP, 0},
	T("--moe-token-dispatcher-type", dispatcher),
	T("--moe-flex-dispatcher-backend", flex),
	I("--moe-deepep-num-sms", deepep_sms),
	I("--moe-hybridep-num-sms", hybridep_sms),
	I("--moe-flex-dispatcher-num-sms", flex_sms),
	{"--moe-grouped-gemm", SKIP_SWITCH, 0},
	B("--moe-permute-fusion", permute_fusion),
	B("--overlap-moe-expert-parallel-comm", overlap),
	B("--delay-wgrad-compute", delay_wgrad),
	{"--bf16", SKIP_SWITCH, 0},
	T("--fp8-format", fp8),
	T("--fp8-recipe", recipe),
	T("--fp4-format", fp4),
	{"--optimizer", SKIP, 0},
	{"--lr", SITE, 0},
	{"--min-lr", SITE, 0},
	B("--use-distributed-optimizer", distopt),
	B("--overlap-grad-reduce", grad_reduce),
	B("--overlap-param-gather", param_gather),
	B("--grad-reduce-in-bf16", bf16_reduce),
	B("--use-precision-aware-optimizer", precision_aware),
	{"--main-grads-dtype", SKIP, 0},
	T("--exp-avg-dtype", moments),
	{"--exp-avg-sq-dtype", SKIP, 0},
	B("--optimizer-cpu-offload", offload),
	{"--optimizer-offload-fraction", SKIP, 0},
	{"--overlap-cpu-optimizer-d2h-h2d", SKIP_SWITCH, 0},
	B("--use-megatron-fsdp", fsdp),
	T("--data-parallel-sharding-strategy", strategy),
	{"--ckpt-format", SKIP, 0},
	{"--no-gradient-accumulation-fusion", SKIP_SWITCH, 0},
	T("--recompute-granularity", granularity),
	T("--recompute-method", method),
	I("--recompute-num-layers", recompute_layers),
	{"--recompute-modules", LIST, 0},
	B("--recompute-activations", recompute_short),
	B("--cross-entropy-loss-fusion", loss_fusion),
	T("--cross-entropy-fusion-impl", loss_impl),
	T("--cuda-graph-impl", graph_impl),
	{"--cuda-graph-modules", SKIP, 0},
	{"--cuda-graph-scope", SKIP, 0},
	{"--no-check-for-nan-in-loss-and-grad", SKIP_SWITCH, 0},
	{"--moe-pad-experts-for-cuda-graph-inference", SKIP_SWITCH, 0},
	{"--no-create-attention-mask-in-dataloader", SITE_SWITCH, 0},
	T("--data-path", data),
	{"--split", SITE, 0},
	{"--mock-data", SITE_SWITCH, 0},
	{"--tokenizer-type", SITE, 0},
	T("--tokenizer-model", tokenizer),
	I("--train-iters", train_iters),
	{"--eval-iters", SITE, 0},
	{"--eval-interval", SITE, 0},
	I("--log-interval", log_interval),
	{"--log-throughput", SITE_SWITCH, 0},
	{"--log-memory-interval", SITE, 0},
	T("--tensorboard-dir", tensorboard),
	{"--use-mcore-models", SITE_SWITCH, 0},
	{"--max-restarts", SITE, 0},
	{"--max_restarts", SITE, 0},
	{"--log-dir", SITE, 0},
	{"--log_dir", SITE, 0},
	{"--tee", SITE, 0},
	{"--redirects", SITE, 0},
	{"--local-ranks-filter", SITE, 0},
	{"--local_ranks_filter", SITE, 0},
	{"--save", SITE, 0},
	{"--load", SITE, 0},
	{"--save-interval", SITE, 0},
	{"--seed", SITE, 0},
	{"--lr-decay-style", SITE, 0},
	{"--lr-decay-iters", SITE, 0},
	{"--lr-warmup-iters", SITE, 0},
	{"--lr-warmup-fraction", SITE, 0},
	{"--weight-decay", SITE, 0},
	{"--adam-beta1", SITE, 0},
	{"--adam-beta2", SITE, 0},
	{"--adam-eps", SITE, 0},
	{"--clip-grad", SITE, 0},
	{"--init-method-std", SITE, 0},
	{"--exit-interval", SITE, 0},
	{"--exit-duration-in-mins", SITE, 0},
	{"--distributed-backend", SITE, 0},
	{"--distributed-timeout-minutes", SITE, 0},
	{"--num-workers", SITE, 0},
	{"--data-cache-path", SITE, 0},
	{"--vocab-file", SITE, 0},
	{"--merge-file", SITE, 0},
	{"--no-load-optim", SITE_SWITCH, 0},
	{"--no-load-rng", SITE_SWITCH, 0},
	{"--no-save-optim", SITE_SWITCH, 0},
};
#undef I
#undef D
#undef B
#undef T

static const struct flag *find_flag(const char *text, size_t len)
{
	for (size_t i = 0; i < MF_COUNT(flags); i++) {
		if (strlen(flags[i].name) == len && strncmp(flags[i].name, text, len) == 0)
			return &flags[i];
	}
	return NULL;
}

const char *mf_megatron_flag(const char *text, size_t len)
{
	const struct flag *f = find_flag(text, len);
	bool launcher = f && f->kind == INTEGER && f->offset <= offsetof(struct seen, nproc);

	if (!f || launcher || f->kind == SITE || f->kind == SITE_SWITCH)
		return NULL;
	static const size_t of_run[] = {offsetof(struct seen, train_iters), offsetof(struct seen, log_interval),
		offsetof(struct seen, data), offsetof(struct seen, tokenizer), offsetof(struct seen, tensorboard),
		offsetof(struct seen, endpoint)};
	for (size_t i = 0; i < MF_COUNT(of_run); i++)
		if (f->offset == of_run[i])
			return NULL;
	return f->name;
}

bool mf_megatron_shape_flag(const char *flag)
{
	const struct flag *first = find_flag("--num-layers", strlen("--num-layers"));
	const struct flag *last = find_flag("--moe-aux-loss-coeff", strlen("--moe-aux-loss-coeff"));
	const struct flag *f = find_flag(flag, strlen(flag));

	return f && f >= first && f <= last;
}

static mf_status read_integer(const char *flag, const char *text, uint32_t *out, mf_err *err)
{
	char *end;
	long long value = strtoll(text, &end, 10);

	if (end == text || *end || value < 0 || value > UINT32_MAX)
		return mf_fail_at(err, MF_EINPUT, NULL, 0, flag, "expected a whole number, found \"%.60s\"", text);
	*out = (uint32_t)value;
	return MF_OK;
}

static mf_status read_real(const char *flag, const char *text, double *out, mf_err *err)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value))
		return mf_fail_at(err, MF_EINPUT, NULL, 0, flag, "expected a number, found \"%.60s\"", text);
	*out = value;
	return MF_OK;
}

static bool same(const char *a, const char *b)
{
	return a && strcmp(a, b) == 0;
}

/* ---- list expressions -------------------------------------------------------------------------------------------- */

/* "([0]*3+[1]*58)": sums of lists and groups, each with an optional factor. Appends at most `cap` entries. */
static const char *freq_sum(const char *p, uint8_t *out, size_t *n, size_t cap, int depth);

static const char *freq_term(const char *p, uint8_t *out, size_t *n, size_t cap, int depth)
{
	size_t from = *n;

	if (*p == '(') {
		p = freq_sum(p + 1, out, n, cap, depth + 1);
		if (!p || *p++ != ')')
			return NULL;
	} else if (*p == '[') {
		for (p++; *p != ']';) {
			if ((*p != '0' && *p != '1') || *n == cap)
				return NULL;
			out[(*n)++] = (uint8_t)(*p++ - '0');
			if (*p == ',')
				p++;
			else if (*p != ']')
				return NULL;
		}
		p++;
	} else {
		return NULL;
	}
	while (*p == '*') {
		char *end;
		unsigned long factor = strtoul(p + 1, &end, 10);
		size_t len = *n - from;
		if (end == p + 1 || factor > cap || (factor && len * (factor - 1) > cap - *n))
			return NULL;
		if (factor == 0)
			*n = from;
		for (unsigned long k = 1; k < factor; k++) {
			memcpy(out + *n, out + from, len);
			*n += len;
		}
		p = end;
	}
	return p;
}

static const char *freq_sum(const char *p, uint8_t *out, size_t *n, size_t cap, int depth)
{
	if (depth > 8)
		return NULL;
	p = freq_term(p, out, n, cap, depth);
	while (p && *p == '+')
		p = freq_term(p + 1, out, n, cap, depth);
	return p;
}

static mf_status read_layer_freq(mf_model *m, const char *text, mf_err *err)
{
	memset(m->moe_layer, 0, sizeof(m->moe_layer));
	if (!text || !strchr(text, '[')) {
		uint32_t every = 1;
		if (text && (read_integer("--moe-layer-freq", text, &every, err) < 0))
			return MF_EINPUT;
		if (!every)
			return mf_fail_at(err, MF_EINPUT, NULL, 0, "--moe-layer-freq", "0 is no frequency");
		for (uint32_t i = 0; i < m->layers; i++)
			m->moe_layer[i] = i % every == 0;
	} else {
		size_t n = 0;
		const char *end = freq_sum(text, m->moe_layer, &n, MF_MAX_LAYERS, 0);
		if (!end || *end || n != m->layers)
			return mf_fail_at(err, MF_EINPUT, NULL, 0, "--moe-layer-freq",
				"expected a list of %u zeros and ones", m->layers);
	}
	m->moe_layers = 0;
	for (uint32_t i = 0; i < m->layers; i++)
		m->moe_layers += m->moe_layer[i];
	return MF_OK;
}

/* Longest layout that is read: a letter a layer would be 4096. */
#define LAYOUT_MAX 16384u

/* `text[0..len)` written `times` over, as Python's re.sub would. */
static bool repeat(mf_buf *out, const char *text, size_t len, unsigned long times)
{
	if (times > LAYOUT_MAX || out->len + len * times > LAYOUT_MAX)
		return false;
	while (times--)
		mf_buf_add(out, text, len);
	return !out->failed;
}

/* Factor behind a '*' at `p`, and where it ends; NULL without. */
static const char *factor(const char *p, unsigned long *times)
{
	char *end;

	if (p[0] != '*' || p[1] < '0' || p[1] > '9')
		return NULL;
	*times = strtoul(p + 1, &end, 10);
	return end;
}

/* pipeline_parallel_layer_layout.py:305-318: commas go, then (...)*n, then x*n. */
bool mf_megatron_layout_unroll(const char *text, mf_buf *out)
{
	mf_buf plain = MF_BUF_INIT, flat = MF_BUF_INIT;
	bool ok = strlen(text) <= LAYOUT_MAX;
	unsigned long times;
	const char *end;

	for (const char *p = text; ok && *p; p++)
		if (*p != ',')
			mf_buf_putc(&plain, *p);
	for (const char *p = mf_buf_text(&plain); ok && *p;) {
		const char *close = *p == '(' ? strchr(p, ')') : NULL;

		if (close && close > p + 1 && (end = factor(close + 1, &times)) != NULL) {
			ok = repeat(&flat, p + 1, (size_t)(close - p - 1), times);
			p = end;
		} else {
			ok = repeat(&flat, p++, 1, 1);
		}
	}
	for (const char *p = mf_buf_text(&flat); ok && *p;) {
		end = factor(p + 1, &times);
		ok = repeat(out, p, 1, end ? times : 1);
		p = end ? end : p + 1;
	}
	mf_buf_dispose(&plain);
	mf_buf_dispose(&flat);
	return ok;
}

/* "Et*13|t*14mL": the decoder layers of every virtual stage. */
static bool read_layout(const char *text, uint16_t *counts, size_t cap, size_t *stages)
{
	mf_buf flat = MF_BUF_INIT;
	bool ok = mf_megatron_layout_unroll(text, &flat);

	*stages = 0;
	counts[0] = 0;
	for (const char *p = mf_buf_text(&flat); ok; p++) {
		if (*p == 't') {
			counts[*stages]++;
		} else if (*p == '|' || *p == '\0') {
			++*stages;
			if (*p == '\0')
				break;
			ok = *stages < cap;
			if (ok)
				counts[*stages] = 0;
		} else {
			ok = strchr("EmL", *p) != NULL;
		}
	}
	mf_buf_dispose(&flat);
	return ok;
}

/* ---- from flags to a plan ---------------------------------------------------------------------------------------- */

static void make_attention(mf_model *m, const struct seen *a)
{
	if (a->mla) {
		m->attention = MF_MLA;
		m->kv_heads = a->heads;
		m->q_lora = a->q_lora;
		m->kv_lora = a->kv_lora;
		m->qk_nope = a->qk_head;
		m->qk_rope = a->qk_pos;
		m->v_dim = a->v_head;
		m->head_dim = a->qk_head + a->qk_pos;
		m->yarn = a->rotary_scaling != 1;
		if (m->yarn) {
			m->rope_scaling_factor = a->rotary_scaling;
			m->yarn_mscale = a->mscale;
			m->yarn_mscale_all_dim = a->mscale_all;
			m->rope_original_positions = 4096;
		}
	} else {
		m->kv_heads = a->gqa ? a->groups : a->heads;
		m->head_dim = m->v_dim = a->kv_channels ? a->kv_channels : a->hidden / a->heads;
		m->qk_norm = a->qk_layernorm;
		if (a->use_rope_scaling)
			m->rope_scaling_factor = a->rope_scaling;
	}
	if (a->window) {
		m->window = (uint32_t)strtoul(a->window + (a->window[0] == '('), NULL, 10);
		m->window_layers = a->window_skip ? a->layers - a->layers / a->window_skip : a->layers;
		for (uint32_t i = 0; i < a->layers && i < MF_MAX_LAYERS; i++)
			if (!a->window_skip || (i + 1) % a->window_skip != 0)
				m->mixer[i] = MF_MIX_WINDOW;
	}
}

static mf_status make_experts(mf_model *m, const struct seen *a, mf_err *err)
{
	m->experts = a->experts;
	m->mlp_bias = m->linear_bias;
	m->topk = a->topk;
	m->moe_ffn = a->moe_ffn ? a->moe_ffn : a->ffn;
	m->shared_ffn = a->shared;
	m->shared_gate = a->shared_gate;
	m->sigmoid_router = same(a->score, "sigmoid");
	m->expert_bias = a->expert_bias;
	m->norm_topk = m->sigmoid_router || !a->pre_softmax;
	m->expert_groups = a->route_groups;
	m->expert_group_topk = a->group_topk;
	return read_layer_freq(m, a->layer_freq, err);
}

static mf_status make_model(mf_command *out, const struct seen *a, mf_err *err)
{
	mf_model *m = &out->model;
	static const struct {
		const char *name;
		size_t offset;
	} needed[] = {
		{"--num-layers", offsetof(struct seen, layers)},
		{"--hidden-size", offsetof(struct seen, hidden)},
		{"--num-attention-heads", offsetof(struct seen, heads)},
		{"--seq-length", offsetof(struct seen, seq)},
		{"--micro-batch-size", offsetof(struct seen, micro)},
	};
	mf_status st;

	/* Part of a command, as reports quote them: the caller names the model. */
	if (!a->layers && !a->hidden && !a->heads)
		return MF_OK;
	for (size_t i = 0; i < MF_COUNT(needed); i++) {
		if (*(const uint32_t *)(const void *)((const char *)a + needed[i].offset) == 0)
			return mf_fail_at(err, MF_EINPUT, NULL, 0, needed[i].name, "the command must give it");
	}
	if (a->layers > MF_MAX_LAYERS)
		return mf_fail_at(
			err, MF_EINPUT, NULL, 0, "--num-layers", "%u is more than %d", a->layers, MF_MAX_LAYERS);
	memset(m, 0, sizeof(*m));
	snprintf(m->name, sizeof(m->name), "command");
	m->layers = a->layers;
	m->hidden = a->hidden;
	m->heads = a->heads;
	m->vocab = a->vocab + (out->stack.toolchain == MF_MEGATRON_0171 ? 1 : 0);
	m->max_positions = a->positions ? a->positions : a->seq;
	m->ffn = a->ffn;
	m->gated = a->swiglu || a->geglu;
	m->clamped_glu = a->geglu;
	m->tied_embeddings = !a->untie;
	m->linear_bias = !a->no_bias;
	m->qkv_bias = a->qkv_bias || m->linear_bias;
	m->norm_eps = a->norm_eps;
	m->rope_theta = a->rotary_base;
	m->rope_scaling_factor = 1;
	m->attention_sinks = same(a->softmax, "learnable");
	make_attention(m, a);
	m->mtp_layers = a->mtp;
	m->routed_scaling = a->topk_scaling;
	if (a->experts && (st = make_experts(m, a, err)) < 0)
		return st;
	out->has_model = true;
	return MF_OK;
}

static void make_inputs(mf_command *out, const struct seen *a)
{
	mf_workload *w = &out->workload;
	mf_stack *s = &out->stack;

	w->seq = a->seq ? a->seq : w->seq;
	w->mtp = a->mtp > 0;
	w->n_micro_batches = 1;
	w->micro_batches[0] = a->micro ? a->micro : 1;
	w->precision = MF_PREC_BF16;
	if (a->fp4)
		w->precision = MF_PREC_NVFP4;
	else if (a->fp8)
		w->precision = same(a->recipe, "tensorwise")  ? MF_PREC_FP8_TENSOR
			       : same(a->recipe, "blockwise") ? MF_PREC_FP8_BLOCK
			       : same(a->recipe, "mxfp8")     ? MF_PREC_MXFP8
							      : MF_PREC_FP8_DELAYED;
	s->attention = same(a->backend, "unfused") ? MF_ATTN_UNFUSED : MF_ATTN_FLASH;
	s->transformer_engine = !same(a->impl, "local");
	s->loss = !a->loss_fusion ? MF_LOSS_EAGER : same(a->loss_impl, "te") ? MF_LOSS_TE : MF_LOSS_NATIVE;
	s->graphs = !a->graph_impl || same(a->graph_impl, "none") ? MF_GRAPHS_NONE
		    : same(a->graph_impl, "full_iteration")       ? MF_GRAPHS_FULL
								  : MF_GRAPHS_PARTIAL;
	s->grad_reduce_bf16 = a->bf16_reduce;
	s->precision_aware = a->precision_aware && (!a->offload || same(a->moments, "bf16"));
	s->overlap_grad_reduce = a->grad_reduce;
	s->overlap_param_gather = a->param_gather;
	s->delay_wgrad = a->delay_wgrad;
	s->shared_expert_overlap = a->shared_overlap;
	s->permute_fusion = a->permute_fusion;
	s->attention_dropout = a->attention_dropout;
	/* A command that asks for a dispatcher is taken to run where its package is. */
	s->deepep |= same(a->dispatcher, "flex") && !same(a->flex, "hybridep");
	s->hybridep |= same(a->dispatcher, "flex") && same(a->flex, "hybridep");
	out->site.train_iters = a->train_iters ? a->train_iters : out->site.train_iters;
	out->site.log_interval = a->log_interval ? a->log_interval : out->site.log_interval;
	if (a->data)
		snprintf(out->site.data_path, sizeof(out->site.data_path), "%s", a->data);
	if (a->tokenizer)
		snprintf(out->site.tokenizer_path, sizeof(out->site.tokenizer_path), "%s", a->tokenizer);
	if (a->tensorboard)
		snprintf(out->site.log_dir, sizeof(out->site.log_dir), "%s", a->tensorboard);
}

static mf_status degree(const char *flag, uint32_t value, uint32_t min, uint16_t *out, mf_err *err)
{
	if (value < min || value > UINT16_MAX)
		return mf_fail_at(err, MF_EINPUT, NULL, 0, flag, "%u is outside %u to %d", value, min, UINT16_MAX);
	*out = (uint16_t)value;
	return MF_OK;
}

static mf_status make_plan(mf_command *out, const struct seen *a, unsigned modules, mf_intern *intern, mf_err *err)
{
	static const char *const strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
	mf_plan *p = &out->plan;
	uint32_t vpp = a->vpp ? a->vpp : 1;
	mf_status st;

	if ((st = degree("--tensor-model-parallel-size", a->tp, 1, &p->tp, err)) < 0 ||
		(st = degree("--pipeline-model-parallel-size", a->pp, 1, &p->pp, err)) < 0 ||
		(st = degree("--context-parallel-size", a->cp, 1, &p->cp, err)) < 0 ||
		(st = degree("--expert-model-parallel-size", a->ep, 1, &p->ep, err)) < 0 ||
		(st = degree("--expert-tensor-parallel-size", a->etp, 0, &p->etp, err)) < 0 ||
		(st = degree("--micro-batch-size", a->micro ? a->micro : 1, 1, &p->micro_batch, err)) < 0 ||
		(st = degree("--decoder-first-pipeline-num-layers", a->first, 0, &p->first_layers, err)) < 0 ||
		(st = degree("--decoder-last-pipeline-num-layers", a->last, 0, &p->last_layers, err)) < 0)
		return st;
	if (a->layers_per_vstage && a->layers / p->pp / a->layers_per_vstage > 1)
		vpp = a->layers / p->pp / a->layers_per_vstage;
	else if (a->layers_per_vstage && !a->layers)
		mf_command_unread(out, "--num-layers-per-virtual-pipeline-stage without --num-layers");
	if (a->layout) {
		uint16_t counts[MF_MAX_LAYERS];
		size_t stages = 0;
		bool known = read_layout(a->layout, counts, MF_COUNT(counts), &stages);
		p->stage_layout = known ? mf_intern_layout(intern, counts, stages) : 0;
		if (!p->stage_layout) {
			mf_command_unread(out, "--pipeline-model-parallel-layout");
			mf_command_unread(out, a->layout);
		} else if (stages >= p->pp && stages % p->pp == 0) {
			vpp = (uint32_t)(stages / p->pp);
		}
	}
	if ((st = degree("--num-virtual-stages-per-pipeline-rank", vpp, 1, &p->vpp, err)) < 0)
		return st;
	p->schedule = vpp > 1 ? MF_INTERLEAVED : MF_1F1B;
	p->overlap = a->overlap;
	if (a->fsdp) {
		p->sharding = MF_FSDP;
		p->zero_stage = 3;
		for (uint8_t i = 0; i < MF_COUNT(strategies); i++) {
			if (same(a->strategy, strategies[i]))
				p->zero_stage = i;
		}
	} else {
		p->sharding = a->offload ? MF_ZERO1_OFFLOAD : MF_ZERO1;
		p->zero_stage = a->distopt;
	}
	if (same(a->granularity, "full")) {
		p->recompute = MF_RECOMPUTE_FULL;
		if ((st = degree("--recompute-num-layers", a->recompute_layers, 1, &p->recompute_layers, err)) < 0)
			return st;
	} else if (same(a->granularity, "selective") || a->recompute_short) {
		p->recompute = MF_RECOMPUTE_SELECTIVE;
		p->recompute_modules = (uint8_t)(modules ? modules : MF_RC_CORE_ATTN);
	}
	if (same(a->method, "block"))
		mf_command_unread(out, "--recompute-method block");
	/* A model without experts has no dispatcher: the default then reads as the plan's own. */
	if (a->experts || !out->has_model) {
		p->dispatcher = !a->dispatcher || same(a->dispatcher, "allgather") ? MF_DISP_ALLGATHER
				: same(a->dispatcher, "alltoall")                  ? MF_DISP_ALLTOALL
				: same(a->flex, "hybridep")                        ? MF_DISP_HYBRIDEP
										   : MF_DISP_DEEPEP;
		uint32_t sms = a->flex_sms                         ? a->flex_sms
			       : p->dispatcher == MF_DISP_HYBRIDEP ? a->hybridep_sms
								   : a->deepep_sms;
		if (p->dispatcher == MF_DISP_DEEPEP || p->dispatcher == MF_DISP_HYBRIDEP)
			return degree("--moe-deepep-num-sms", sms, 0, &p->sm_budget, err);
	}
	return MF_OK;
}

/* Fills what the flags say; those that nobody knows are noted. */
static mf_status read_flags(
	mf_command *out, const char *const *argv, size_t n, struct seen *a, unsigned *modules, mf_err *err)
{
	*modules = 0;
	for (size_t i = 0; i < n; i++) {
		const char *text = argv[i], *equals = strchr(text, '=');
		if (strncmp(text, "--", 2) != 0) {
			size_t len = strlen(text);
			if (len > 3 && strcmp(text + len - 3, ".py") == 0)
				snprintf(out->site.pretrain_script, sizeof(out->site.pretrain_script), "%s", text);
			else if (i > 0)
				mf_command_unread(out, text);
			continue;
		}
		size_t len = equals ? (size_t)(equals - text) : strlen(text);
		const struct flag *f = find_flag(text, len);
		if (!f) {
			mf_command_unread(out, text);
			while (!equals && i + 1 < n && strncmp(argv[i + 1], "--", 2) != 0 &&
				!strstr(argv[i + 1], ".py"))
				mf_command_unread(out, argv[++i]);
			continue;
		}
		char *at = (char *)a + f->offset;
		if (f->kind == SWITCH) {
			*(bool *)at = true;
			continue;
		}
		if (f->kind == SKIP_SWITCH || f->kind == SITE_SWITCH)
			continue;
		if (f->kind == LIST) {
			while (i + 1 < n && strncmp(argv[i + 1], "--", 2) != 0) {
				int bit = mf_choice_value(mf_recompute_module_choices, argv[++i]);
				if (bit > 0)
					*modules |= (unsigned)bit;
				else
					mf_command_unread(out, argv[i]);
			}
			continue;
		}
		if (!equals && i + 1 >= n)
			return mf_fail_at(err, MF_EINPUT, NULL, 0, f->name, "the value is missing");
		const char *value = equals ? equals + 1 : argv[++i];
		mf_status st = MF_OK;
		if ((f->offset == offsetof(struct seen, nnodes) || f->offset == offsetof(struct seen, nproc)) &&
			f->kind == INTEGER && (*value < '0' || *value > '9' || strchr(value, ':'))) {
			/* "gpu", "1:4", "$SLURM_NNODES": only a running job knows. */
			mf_command_unread(out, f->name);
			mf_command_unread(out, value);
			continue;
		}
		if (f->kind == INTEGER)
			st = read_integer(f->name, value, (uint32_t *)(void *)at, err);
		else if (f->kind == REAL)
			st = read_real(f->name, value, (double *)(void *)at, err);
		else if (f->kind == TEXT)
			*(const char **)(void *)at = value;
		if (st < 0)
			return st;
	}
	return MF_OK;
}

mf_status mf_megatron_read(mf_command *out, const char *const *argv, size_t n, mf_intern *intern, mf_err *err)
{
	struct seen a = {
		.tp = 1,
		.pp = 1,
		.cp = 1,
		.ep = 1,
		.groups = 1,
		.kv_lora = 32,
		.qk_head = 128,
		.qk_pos = 64,
		.v_head = 128,
		.rotary_base = 10000,
		.topk = 2,
		.norm_eps = 1e-5,
		.rotary_scaling = 1,
		.mscale = 1,
		.rope_scaling = 8,
		.attention_dropout = 0.1,
		.topk_scaling = 1,
	};
	unsigned modules;
	mf_status st;

	if ((st = read_flags(out, argv, n, &a, &modules, err)) < 0 || (st = make_model(out, &a, err)) < 0 ||
		(st = make_plan(out, &a, modules, intern, err)) < 0)
		return st;
	if (!a.micro)
		mf_command_unread(out, "--micro-batch-size is not given: 1 is taken");
	make_inputs(out, &a);
	uint64_t world = (uint64_t)(a.nnodes ? a.nnodes : 1) * a.nproc;
	out->world = world <= UINT32_MAX ? (uint32_t)world : 0;
	uint64_t model_size = (uint64_t)a.tp * a.pp * a.cp;
	/* Megatron's own default: one micro-batch a data-parallel rank. */
	out->workload.global_batch =
		a.global ? a.global
		: out->world
			? (uint32_t)(out->plan.micro_batch * (out->world / model_size ? out->world / model_size : 1))
			: out->plan.micro_batch;
	return mf_plan_validate(&out->plan, err);
}
