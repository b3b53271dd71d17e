/* curves.c: the curves of single operations; forms and constants in curves.h. */
#include "curves.h"

#include <math.h>

const mf_curve_info mf_curve_infos[MF_CURVE_COUNT] = {
#define C(id, name, first, n, d0, d1, d2, d3) [MF_CURVE_##id] = {name, MF_C_##first, n, {d0, d1, d2, d3}},
#include "curves.def"
#undef C
};

mf_gpu_rates mf_gpu_rates_of(const mf_cluster *c)
{
	mf_gpu_rates r = {.hbm = c->hbm_gbps * 1e3, .sms = c->sm_count};

	for (int t = 0; t < MF_DTYPE_COUNT; t++)
		r.peak[t] = (isnan(c->tflops[t]) ? c->tflops[MF_BF16] : c->tflops[t]) * 1e6;
	return r;
}

double mf_gemm_us(const double *g, const mf_gpu_rates *r, mf_linear type, double m, double n, double k)
{
	static const mf_dtype dtype[] = {MF_BF16, MF_FP8, MF_FP8, MF_FP4};
	static const double weight[] = {2, 1, 1, 0.5625};
	double sms = r->sms, tiles = ceil(m / 128) * ceil(n / 128), fill, memory, math;

	fill = tiles >= sms ? tiles / (ceil(tiles / sms) * sms) : fmin(1, tiles * fmax(1, k / 1024) / sms);
	fill = fmin(1, g[MF_GEMM_FILL] + (1 - g[MF_GEMM_FILL]) * fill);
	memory = (n * k * weight[type] + m * k * (type == MF_LIN_BF16 ? 2 : 1) + 2 * m * n) / (r->hbm * g[MF_GEMM_HBM]);
	math = 2 * fmax(m, 16) * n * k / (r->peak[dtype[type]] * g[MF_GEMM_ROOF] * fill);
	return g[MF_GEMM_T0] + g[MF_GEMM_TAU] * k / 1024 + hypot(memory, math);
}

double mf_padded_rows(double mine, double active)
{
	return mine > active ? 16 * ceil(mine / fmax(active, 1e-9) / 16) * active : 16 * active;
}

double mf_experts_us(const double *g, const mf_gpu_rates *r, double peak, const mf_experts_shape *s)
{
	double weights, math, traffic;

	weights = s->matrices * s->hidden * s->width * s->weight_bytes * s->active / (r->hbm * g[MF_MOE_HBM]);
	math = 2 * s->matrices * s->hidden * s->width * s->rows / (peak * g[MF_MOE_ROOF]);
	traffic = (s->mine + g[MF_MOE_FOREIGN] * fmax(0, s->streamed - s->mine)) * (3 * s->hidden + 4 * s->width) * 2 /
		  (r->hbm * g[MF_MOE_ACT]);
	return g[MF_MOE_T0] + hypot(weights, math) + traffic;
}

double mf_decode_us(const double *g, const mf_gpu_rates *r, double batch, double heads, double kv_heads,
	double head_dim, double kv_bytes, double context)
{
	return g[MF_DEC_T0] + g[MF_DEC_WAVE] * batch * kv_heads / r->sms +
	       hypot((batch * context * 2 * kv_heads * head_dim * kv_bytes + 4 * batch * heads * head_dim) /
			       (r->hbm * g[MF_DEC_HBM]),
		       4 * batch * heads * head_dim * context / (r->peak[MF_BF16] * g[MF_DEC_ROOF]));
}

double mf_prefill_us(const double *g, const mf_gpu_rates *r, double seqs, double n, double cached, double window,
	double heads, double kv_heads, double head_dim)
{
	double pairs = seqs * (n * cached + n * n / 2), io;

	if (window > 0)
		pairs = fmin(pairs, seqs * n * (window + 64));
	io = seqs * (n * head_dim * (2 * heads + 2 * kv_heads) * 2 + cached * kv_heads * head_dim * 4);
	return g[MF_CTX_T0] + g[MF_CTX_TOKENS] * fmin(n, window > 0 ? window : n) / 1024 +
	       4 * heads * head_dim * pairs / (r->peak[MF_BF16] * g[MF_CTX_ROOF] * sqrt(fmin(1, head_dim / 128))) +
	       io / (r->hbm * g[MF_CTX_HBM]);
}

double mf_mla_decode_us(const double *g, const mf_gpu_rates *r, double batch, double heads, double kv_lora, double rope,
	double kv_bytes, double context)
{
	return g[MF_MLADEC_T0] + g[MF_MLADEC_WAVE] * batch / r->sms +
	       batch * context * (kv_lora + rope) * kv_bytes / (r->hbm * g[MF_MLADEC_HBM]) +
	       2 * batch * fmax(heads, 16) * context * (2.0 * kv_lora + rope) / (r->peak[MF_BF16] * g[MF_MLADEC_ROOF]);
}

double mf_mla_prefill_us(const double *g, const mf_gpu_rates *r, double seqs, double n, double cached, double heads,
	double qk_dim, double v_dim)
{
	return g[MF_MLACTX_T0] + g[MF_MLACTX_ROWS] * seqs * n * heads / 1e6 * ((qk_dim + v_dim) / 320) +
	       2 * heads * seqs * (n * cached + n * n / 2) * (qk_dim + v_dim) / (r->peak[MF_BF16] * g[MF_MLACTX_ROOF]);
}

double mf_mla_bmm_us(
	const double *g, const mf_gpu_rates *r, double batch, double heads, double head_dim, double kv_lora)
{
	return g[MF_BMM_T0] + 2 * batch * heads * head_dim * kv_lora / (r->peak[MF_BF16] * g[MF_BMM_ROOF]) +
	       heads * head_dim * kv_lora * 2 / (r->hbm * g[MF_BMM_HBM]);
}

double mf_all_reduce_us(const double *g, double n, double bytes, double share)
{
	return g[MF_AR_T0] + g[MF_AR_ROOT] * sqrt(bytes) + 2 * bytes * (n - 1) / n / (g[MF_AR_BUS] * 1e6 * share);
}

double mf_collective_us(const double *g, double n, double bytes, double share)
{
	return g[MF_COLL_T0] + g[MF_COLL_RANK] * n + g[MF_COLL_ROOT] * sqrt(bytes) +
	       bytes * (n - 1) / n / (g[MF_COLL_BUS] * 1e6 * share);
}

double mf_distinct(double n, double k)
{
	return n * (1 - pow(1 - 1 / n, k));
}

double mf_ll_dispatch_us(const double *g, double tokens, double hidden, double topk, double share)
{
	return g[MF_EP_DISPATCH_T0] + tokens * hidden * topk / (g[MF_EP_DISPATCH_RATE] * 1e6 * share);
}

double mf_ll_combine_us(const double *g, double tokens, double hidden, double topk, double share)
{
	return g[MF_EP_COMBINE_T0] + 2 * tokens * hidden * topk / (g[MF_EP_COMBINE_RATE] * 1e6 * share);
}

double mf_normal_dispatch_us(const double *g, double tokens, double hidden, double topk, double ranks, double share)
{
	return g[MF_EP_DISPATCH_T0] +
	       tokens * hidden * mf_distinct(ranks, topk) / (g[MF_EP_DISPATCH_RATE] * 1e6 * share);
}

double mf_normal_combine_us(const double *g, double tokens, double hidden, double topk, double ranks, double share)
{
	return g[MF_EP_COMBINE_T0] +
	       2 * tokens * hidden * mf_distinct(ranks, topk) / (g[MF_EP_COMBINE_RATE] * 1e6 * share);
}
