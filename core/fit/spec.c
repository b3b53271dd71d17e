/*
 * spec.c: the tables that AIConfigurator's collector writes, and the curve each of their rows is an observation of.
 * Times are milliseconds in `latency`, microseconds in columns ending in `_us`; `message_size` counts elements.
 */
#include "spec.h"

#include <math.h>
#include <string.h>

static double num(const reader *r, size_t row, int i)
{
	return mf_table_number(r->t, row, r->col[i]);
}

static const char *text(const reader *r, size_t row, int i)
{
	return mf_table_text(r->t, row, r->col[i]);
}

static bool is(const reader *r, size_t row, int i, const char *word)
{
	return strcmp(text(r, row, i), word) == 0;
}

static uint64_t mix(uint64_t h, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	h ^= bits;
	return mf_random_u64(&h);
}

static uint64_t hash(const double *v, int n)
{
	uint64_t h = 0x6d6f656673;

	for (int i = 0; i < n; i++)
		h = mix(h, v[i]);
	return h;
}

#define HASH(...) hash((const double[]){__VA_ARGS__}, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

static void dims(obs *o, double a, double b, double c, double d)
{
	o->dim[0] = a;
	o->dim[1] = b;
	o->dim[2] = c;
	o->dim[3] = d;
}

/* ---- dense GEMM: m n k latency gemm_dtype ---- */

static bool take_gemm(const reader *r, size_t row, obs *o)
{
	static const char *const types[] = {"bfloat16", "fp8_block", "fp8", "nvfp4"};

	if (!is(r, row, 4, types[r->s->arg]))
		return false;
	for (int i = 0; i < 3; i++)
		o->x[i] = num(r, row, i);
	o->us = num(r, row, 3) * 1e3;
	o->shape = HASH(o->x[1], o->x[2]);
	dims(o, o->x[0], o->x[1], o->x[2], 0);
	return true;
}

#define GEMM(type)                                                                                                     \
	static double gemm_##type(const double *g, const spec_gpu *u, const obs *o)                                    \
	{                                                                                                              \
		return mf_gemm_us(g, &u->rates, MF_LIN_##type, o->x[0], o->x[1], o->x[2]);                             \
	}
GEMM(BF16)
GEMM(FP8_BLOCK)
GEMM(FP8)
GEMM(FP4)

/* ---- expert layer: num_tokens hidden_size inter_size topk num_experts moe_tp_size moe_ep_size latency moe_dtype
 * distribution ---- */

enum { M_TOKENS, M_HIDDEN, M_WIDTH, M_ACTIVE, M_MINE, M_STREAMED, M_ROWS, M_BYTES, M_MATRICES, M_LOCAL };

/* Shapes of Nemotron 3 checkpoints, whose experts have two matrices; the tables do not say which have. */
static bool ungated(double hidden, double topk, double experts)
{
	return (topk == 22 && experts == 512) || (hidden == 2688 && topk == 6 && experts == 128);
}

static bool take_experts(const reader *r, size_t row, obs *o)
{
	static const struct {
		mf_curve_id id;
		const char *name, *blackwell;
		double bytes;
	} types[] = {
		{MF_CURVE_MOE_BF16, "bfloat16", NULL, 2},
		{MF_CURVE_MOE_FP8B, "fp8_block", NULL, 1},
		{MF_CURVE_MOE_FP4, "nvfp4", NULL, 0.5625},
		{MF_CURVE_MOE_MXFP4, "w4a16_mxfp4", "w4a8_mxfp4_mxfp8", 0.53125},
		{MF_CURVE_MOE_INT4, "int4_wo", NULL, 0.53125},
	};
	double tokens = num(r, row, 0), topk = num(r, row, 3), experts = num(r, row, 4), tp = num(r, row, 5),
	       ep = num(r, row, 6), width = num(r, row, 2);
	const char *want = types[r->s->arg].name;
	mf_experts_load load;
	mf_experts_shape s;

	if (types[r->s->arg].blackwell && r->gpu->family == MF_BLACKWELL)
		want = types[r->s->arg].blackwell;
	if (!is(r, row, 8, want))
		return false;
	/* DeepSeek-V3's shape was drawn through group-limited gating: half the experts never get a token. */
	if (num(r, row, 1) == 7168 && width == 2048 && topk == 8 && experts == 256)
		return false;
	if (!mf_experts_load_named(text(r, row, 9), tokens, topk, experts, &load))
		return false;
	mf_experts_share(&load, tokens, topk, experts, ep, &s);
	o->x[M_TOKENS] = tokens;
	o->x[M_HIDDEN] = num(r, row, 1);
	o->x[M_WIDTH] = width / tp;
	o->x[M_ACTIVE] = s.active;
	o->x[M_MINE] = s.mine;
	o->x[M_STREAMED] = s.streamed;
	o->x[M_ROWS] = s.rows;
	o->x[M_BYTES] = types[r->s->arg].bytes;
	o->x[M_MATRICES] = ungated(o->x[M_HIDDEN], topk, experts) ? 2 : 3;
	o->x[M_LOCAL] = s.local;
	o->us = num(r, row, 7) * 1e3;
	o->shape = HASH(o->x[M_HIDDEN], width, topk, experts, tp, ep);
	dims(o, tokens, o->x[M_HIDDEN], o->x[M_WIDTH], s.local);
	return true;
}

static double experts_us(const double *g, const spec_gpu *u, const obs *o, double peak)
{
	mf_experts_shape s = {.tokens = o->x[M_TOKENS],
		.local = o->x[M_LOCAL],
		.hidden = o->x[M_HIDDEN],
		.width = o->x[M_WIDTH],
		.matrices = o->x[M_MATRICES],
		.weight_bytes = o->x[M_BYTES],
		.active = o->x[M_ACTIVE],
		.mine = o->x[M_MINE],
		.streamed = o->x[M_STREAMED],
		.rows = o->x[M_ROWS]};

	return mf_experts_us(g, &u->rates, peak, &s);
}

static double experts_bf16(const double *g, const spec_gpu *u, const obs *o)
{
	return experts_us(g, u, o, u->rates.peak[MF_BF16]);
}

static double experts_fp8(const double *g, const spec_gpu *u, const obs *o)
{
	return experts_us(g, u, o, u->rates.peak[MF_FP8]);
}

static double experts_fp4(const double *g, const spec_gpu *u, const obs *o)
{
	return experts_us(g, u, o, u->rates.peak[MF_FP4]);
}

static double experts_mxfp4(const double *g, const spec_gpu *u, const obs *o)
{
	return experts_us(g, u, o, u->mxfp4_peak);
}

/* ---- decode attention: batch_size num_heads num_key_value_heads head_dim kv_cache_dtype step window_size latency ----
 */

static bool take_decode(const reader *r, size_t row, obs *o)
{
	double window = num(r, row, 6), context = num(r, row, 5) + 1;

	o->x[0] = num(r, row, 0);
	o->x[1] = num(r, row, 1);
	o->x[2] = num(r, row, 2);
	o->x[3] = num(r, row, 3);
	o->x[4] = is(r, row, 4, "fp8") ? 1 : 2;
	o->x[5] = window > 0 ? fmin(context, window) : context;
	o->us = num(r, row, 7) * 1e3;
	o->shape = HASH(o->x[1], o->x[2], o->x[3], window, o->x[0]);
	dims(o, o->x[0], o->x[1], o->x[3], o->x[5]);
	return true;
}

static double decode(const double *g, const spec_gpu *u, const obs *o)
{
	return mf_decode_us(g, &u->rates, o->x[0], o->x[1], o->x[2], o->x[3], o->x[4], o->x[5]);
}

/* ---- prefill attention: batch_size isl num_heads num_key_value_heads head_dim attn_dtype window_size latency ---- */

static bool take_prefill(const reader *r, size_t row, obs *o)
{
	if (!is(r, row, 5, "bfloat16"))
		return false;
	for (int i = 0; i < 5; i++)
		o->x[i] = num(r, row, i);
	o->x[5] = num(r, row, 6);
	o->us = num(r, row, 7) * 1e3;
	o->shape = HASH(o->x[2], o->x[3], o->x[4], o->x[5], o->x[0]);
	dims(o, o->x[1], o->x[2], o->x[4], 0);
	return true;
}

static double prefill(const double *g, const spec_gpu *u, const obs *o)
{
	return mf_prefill_us(g, &u->rates, o->x[0], o->x[1], 0, o->x[5], o->x[2], o->x[3], o->x[4]);
}

/* ---- MLA decode: num_heads batch_size step latency kv_cache_dtype ---- */

#define KV_LORA 512
#define ROPE 64
#define NOPE 128
#define V_DIM 128

static bool take_mla_decode(const reader *r, size_t row, obs *o)
{
	o->x[0] = num(r, row, 1);
	o->x[1] = num(r, row, 0);
	o->x[2] = num(r, row, 2) + 1;
	o->x[3] = is(r, row, 4, "fp8") ? 1 : 2;
	o->us = num(r, row, 3) * 1e3;
	o->shape = HASH(o->x[0], o->x[1], o->x[2]);
	dims(o, o->x[0], o->x[1], o->x[2], 0);
	return o->x[3] == 2;
}

static double mla_decode(const double *g, const spec_gpu *u, const obs *o)
{
	return mf_mla_decode_us(g, &u->rates, o->x[0], o->x[1], KV_LORA, ROPE, o->x[3], o->x[2]);
}

/* ---- MLA prefill: num_heads batch_size isl latency kv_cache_dtype ---- */

static bool take_mla_prefill(const reader *r, size_t row, obs *o)
{
	o->x[0] = num(r, row, 1);
	o->x[1] = num(r, row, 2);
	o->x[2] = num(r, row, 0);
	o->x[3] = NOPE + ROPE;
	o->x[4] = V_DIM;
	o->us = num(r, row, 3) * 1e3;
	o->shape = HASH(o->x[0], o->x[1], o->x[2]);
	dims(o, o->x[1], o->x[2], 0, 0);
	return !is(r, row, 4, "fp8");
}

static double mla_prefill(const double *g, const spec_gpu *u, const obs *o)
{
	return mf_mla_prefill_us(g, &u->rates, o->x[0], o->x[1], 0, o->x[2], o->x[3], o->x[4]);
}

/*
 * Some engines run MLA's absorbed form for prompts too: heads of kv_lora + rope and kv_lora. It is told by a share of
 * the roof that no kernel for plain heads would be as bad as to reach.
 */
static bool absorbed(const double *value)
{
	return value[MF_MLACTX_ROOF] < 0.3;
}

static void absorb(obs *o)
{
	o->x[3] = KV_LORA + ROPE;
	o->x[4] = KV_LORA;
}

/* ---- MLA absorbed products: num_tokens num_heads latency bmm_dtype ---- */

static bool take_bmm(const reader *r, size_t row, obs *o)
{
	o->x[0] = num(r, row, 0);
	o->x[1] = num(r, row, 1);
	o->us = num(r, row, 2) * 1e3;
	o->shape = HASH(o->x[0], o->x[1]);
	dims(o, o->x[0], o->x[1], 0, 0);
	return is(r, row, 3, "bfloat16");
}

static double bmm(const double *g, const spec_gpu *u, const obs *o)
{
	return mf_mla_bmm_us(g, &u->rates, o->x[0], o->x[1], NOPE, KV_LORA);
}

/* ---- custom all-reduce: num_gpus message_size latency backend allreduce_dtype ---- */

static double element_bytes(const char *dtype)
{
	return strcmp(dtype, "int8") == 0 || strncmp(dtype, "fp8", 3) == 0    ? 1
	       : strcmp(dtype, "float") == 0 || strcmp(dtype, "float32") == 0 ? 4
									      : 2;
}

static bool take_all_reduce(const reader *r, size_t row, obs *o)
{
	const char *backend = text(r, row, 3);
	size_t len = strlen(backend);

	o->x[0] = num(r, row, 0);
	o->x[1] = num(r, row, 1) * element_bytes(text(r, row, 4));
	o->us = num(r, row, 2) * 1e3;
	o->shape = HASH(o->x[1]);
	if (r->s->arg)
		dims(o, o->x[1], 0, 0, 0);
	else
		dims(o, o->x[0], o->x[1], 0, 0);
	if (len > 5 && strcmp(backend + len - 5, "eager") == 0)
		return false;
	return r->s->arg == 0 || o->x[0] == r->s->arg;
}

static double all_reduce(const double *g, const spec_gpu *u, const obs *o)
{
	return mf_all_reduce_us(g, o->x[0], o->x[1], u->link_share);
}

/* ---- collectives: num_gpus message_size latency op_name nccl_dtype ---- */

static bool take_collective(const reader *r, size_t row, obs *o)
{
	static const char *const names[] = {"all_gather", "reduce_scatter", "alltoall", "all_reduce"};
	bool pcie = r->s->id == MF_CURVE_PAG;

	o->x[0] = num(r, row, 0);
	o->x[1] = num(r, row, 1) * element_bytes(text(r, row, 4));
	o->x[2] = r->s->id == MF_CURVE_NAR ? 2 : 1; /* an all-reduce moves everything twice */
	o->us = num(r, row, 2) * 1e3;
	o->shape = HASH(o->x[0], o->x[1]);
	dims(o, o->x[0], o->x[1], 0, 0);
	return pcie ? is(r, row, 3, names[0]) || is(r, row, 3, names[1]) : is(r, row, 3, names[r->s->arg]);
}

static double collective(const double *g, const spec_gpu *u, const obs *o)
{
	return mf_collective_us(g, o->x[0], o->x[2] * o->x[1], u->link_share);
}

/* ---- DeepEP: hidden_size num_token num_topk, then times ---- */

#define NODE_RANKS 8

static bool take_low_latency(const reader *r, size_t row, obs *o)
{
	o->x[0] = num(r, row, 1);
	o->x[1] = num(r, row, 0);
	o->x[2] = num(r, row, 2);
	o->x[3] = r->part;
	o->us = num(r, row, 3 + r->part);
	o->shape = HASH(o->x[0], o->x[1], o->x[2]);
	dims(o, o->x[0], o->x[1], o->x[2], 0);
	return !(num(r, row, 5) > 1);
}

static double low_latency(const double *g, const spec_gpu *u, const obs *o)
{
	return (o->x[3] > 0 ? mf_ll_combine_us : mf_ll_dispatch_us)(g, o->x[0], o->x[1], o->x[2], u->link_share);
}

static bool take_normal(const reader *r, size_t row, obs *o)
{
	take_low_latency(r, row, o);
	return !(num(r, row, 5) > 1) && num(r, row, 6 + r->part) == 24;
}

static double normal(const double *g, const spec_gpu *u, const obs *o)
{
	return (o->x[3] > 0 ? mf_normal_combine_us : mf_normal_dispatch_us)(
		g, o->x[0], o->x[1], o->x[2], NODE_RANKS, u->link_share);
}

/* ---- the list ---- */

static bool on_nvlink(const mf_cluster *c)
{
	return c->fabric == MF_FABRIC_NVLINK;
}

static bool on_pcie(const mf_cluster *c)
{
	return c->fabric == MF_FABRIC_PCIE;
}

/* Emulated formats: the kernel that a table was made with is not the one that engines serve with. */
static const char *slow_experts(const double *value)
{
	return value[MF_MOE_HBM] < 0.3
		       ? "this kernel reads weights at under a third of the memory's rate: no engine's choice"
		       : NULL;
}

#define RANGE(...)                                                                                                     \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}
#define GEMM_SPEC(curve, which, f)                                                                                     \
	{                                                                                                              \
		.id = MF_CURVE_##curve, .file = "gemm_perf.csv", .columns = "m n k latency gemm_dtype", .arg = which,  \
		.take = take_gemm, .predict = f, .lo = RANGE(0.5, 0, 0.05, 0.05, 0.01, 0, 0.02, 1),                    \
		.hi = RANGE(60, 6, 1, 1.2, 1, 2000, 1.5, 8),                                                           \
	}
#define EXPERTS_SPEC(curve, which, f)                                                                                  \
	{                                                                                                              \
		.id = MF_CURVE_##curve, .file = "moe_perf.csv",                                                        \
		.columns = "num_tokens hidden_size inter_size topk num_experts moe_tp_size moe_ep_size latency "       \
			   "moe_dtype distribution",                                                                   \
		.note = "hidden 7168, width 2048, top 8 of 256 left out: drawn through group-limited gating",          \
		.arg = which, .take = take_experts, .predict = f,                                                      \
		.lo = RANGE(2, 0.05, 0.02, 0.02, 0, 0.2, 0.02, 0.02, 1), .useless = slow_experts,                      \
		.hi = RANGE(120, 1, 1.2, 3, 1, 1.2, 1, 1.5, 8),                                                        \
	}
#define AR_SPEC(curve, ranks, where)                                                                                   \
	{                                                                                                              \
		.id = MF_CURVE_##curve, .file = "custom_allreduce_perf.csv",                                           \
		.columns = "num_gpus message_size latency backend allreduce_dtype",                                    \
		.note = "graph-captured; eager rows left out", .arg = ranks, .take = take_all_reduce,                  \
		.predict = all_reduce, .lo = {0.3, 0.001, 0}, .hi = {100, 3, 0.1}, .applies = where                    \
	}
#define COLLECTIVE_SPEC(curve, which, where)                                                                           \
	{                                                                                                              \
		.id = MF_CURVE_##curve, .file = "nccl_perf.csv",                                                       \
		.columns = "num_gpus message_size latency op_name nccl_dtype", .arg = which, .take = take_collective,  \
		.predict = collective, .lo = {0.3, 0, 0.001, 0}, .hi = {100, 10, 3, 0.1}, .applies = where             \
	}

const spec mf_fit_specs[] = {
	GEMM_SPEC(GEMM_BF16, 0, gemm_BF16),
	GEMM_SPEC(GEMM_FP8B, 1, gemm_FP8_BLOCK),
	GEMM_SPEC(GEMM_FP8, 2, gemm_FP8),
	GEMM_SPEC(GEMM_FP4, 3, gemm_FP4),
	EXPERTS_SPEC(MOE_BF16, 0, experts_bf16),
	EXPERTS_SPEC(MOE_FP8B, 1, experts_fp8),
	EXPERTS_SPEC(MOE_FP4, 2, experts_fp4),
	EXPERTS_SPEC(MOE_MXFP4, 3, experts_mxfp4),
	EXPERTS_SPEC(MOE_INT4, 4, experts_bf16),
	{.id = MF_CURVE_DEC,
		.file = "generation_attention_perf.csv",
		.columns = "batch_size num_heads num_key_value_heads head_dim kv_cache_dtype step window_size latency",
		.take = take_decode,
		.predict = decode,
		.lo = {1, 0, 0, 0, 0.05, 0.3, 0.01, 1, 0.02, 1, 0},
		.hi = {60, 20, 20, 30, 1, 1.5, 3, 2048, 1.5, 8, 30}},
	{.id = MF_CURVE_CTX,
		.file = "context_attention_perf.csv",
		.columns = "batch_size isl num_heads num_key_value_heads head_dim attn_dtype window_size latency",
		.take = take_prefill,
		.predict = prefill,
		.lo = {1, 0, 0.05, 0.02, 0, 0, 0, -1, 0, 0, 0},
		.hi = {60, 40, 1.2, 3, 60, 400, 1.5, 1, 2, 30, 40}},
	{.id = MF_CURVE_MLADEC,
		.file = "generation_mla_perf.csv",
		.columns = "num_heads batch_size step latency",
		.optional = "kv_cache_dtype",
		.note = "fp8 key-value cache left out",
		.take = take_mla_decode,
		.predict = mla_decode,
		.lo = {1, 0, 0.05, 0.02},
		.hi = {100, 80, 1.3, 5}},
	{.id = MF_CURVE_MLACTX,
		.file = "context_mla_perf.csv",
		.columns = "num_heads batch_size isl latency",
		.optional = "kv_cache_dtype",
		.note = "fp8 key-value cache left out",
		.take = take_mla_prefill,
		.predict = mla_prefill,
		.lo = {1, 0, 0.01, 0, 0},
		.hi = {100, 800, 2, 40, 60},
		.impossible = absorbed,
		.reread = absorb,
		.reread_note = "measured in the absorbed form; the share is carried over to plain heads"},
	{.id = MF_CURVE_BMM,
		.file = "mla_bmm_perf.csv",
		.columns = "num_tokens num_heads latency bmm_dtype",
		.take = take_bmm,
		.predict = bmm,
		.lo = {0.5, 0.02, 0.02, 0.02, 1},
		.hi = {60, 1.2, 1, 1.5, 8}},
	AR_SPEC(AR2, 2, on_nvlink),
	AR_SPEC(AR4, 4, on_nvlink),
	AR_SPEC(AR8, 8, on_nvlink),
	AR_SPEC(PAR, 0, on_pcie),
	COLLECTIVE_SPEC(AG, 0, on_nvlink),
	COLLECTIVE_SPEC(RS, 1, on_nvlink),
	COLLECTIVE_SPEC(A2A, 2, on_nvlink),
	COLLECTIVE_SPEC(NAR, 3, on_nvlink),
	COLLECTIVE_SPEC(PAG, 0, on_pcie),
	{.id = MF_CURVE_LL,
		.file = "wideep_deepep_ll_perf.csv",
		.columns = "hidden_size num_token num_topk dispatch_avg_t_us combine_avg_t_us",
		.optional = "node_num",
		.note = "one node",
		.parts = 2,
		.take = take_low_latency,
		.predict = low_latency,
		.lo = {1, 0.01, 0, 1, 0.01, 0},
		.hi = {100, 5, 100, 100, 5, 100}},
	{.id = MF_CURVE_NORMAL,
		.file = "wideep_deepep_normal_perf.csv",
		.columns = "hidden_size num_token num_topk dispatch_transmit_us combine_transmit_us",
		.optional = "node_num dispatch_sms combine_sms",
		.note = "one node, 24 SMs",
		.parts = 2,
		.take = take_normal,
		.predict = normal,
		.lo = {1, 0.01, 0, 1, 0.01, 0},
		.hi = {200, 5, 100, 200, 5, 100}},
};
const size_t mf_fit_n_specs = MF_COUNT(mf_fit_specs);
