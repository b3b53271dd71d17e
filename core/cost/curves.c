/* curves.c: the curves of single operations; forms and constants in curves.h. */
#include "curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

mf_gpu_rates mf_gpu_rates_warm(const mf_cluster *c)
{
	mf_gpu_rates r = mf_gpu_rates_of(c);

	r.l2 = c->l2_bytes;
	return r;
}

/* Two times that overlap in part: the longer one alone when they are far apart. */
static double root(double a, double b)
{
	return sqrt(a * a + b * b);
}

/* What is left of the time to read `bytes` that a benchmark's last round has left in the cache as far as they fit. */
static double warm(const mf_gpu_rates *r, double bytes, double share, double speed)
{
	double full, found;

	if (!(r->l2 > 0))
		return 1;
	full = bytes / (share * r->l2);
	found = 1 / (1 + full * full * full * full);
	return 1 - found + found / speed;
}

/* Share of the SMs' last wave that has a tile; below one wave, work split over k fills more. */
static double fill(double tiles, double sms, double split, double least)
{
	double u = tiles >= sms ? tiles / (ceil(tiles / sms) * sms) : fmin(1, tiles * split / sms);

	return fmin(1, least + (1 - least) * u);
}

double mf_gemm_us(const double *g, const mf_gpu_rates *r, mf_linear type, double m, double n, double k)
{
	static const mf_dtype dtype[] = {MF_BF16, MF_FP8, MF_FP8, MF_FP4};
	static const double weight[] = {2, 1, 1, 0.5625};
	double u = fill(ceil(m / 128) * ceil(n / 128), r->sms, fmax(1, k / 1024), g[MF_GEMM_FILL]), bytes, memory, math;

	bytes = n * k * weight[type] + m * k * (type == MF_LIN_BF16 ? 2 : 1) + 2 * m * n;
	memory = bytes / (r->hbm * g[MF_GEMM_HBM]) * warm(r, bytes, g[MF_GEMM_L2], g[MF_GEMM_WARM]);
	math = 2 * fmax(m, 16) * n * (k + g[MF_GEMM_DEPTH]) / (r->peak[dtype[type]] * g[MF_GEMM_ROOF] * u);
	return g[MF_GEMM_T0] + g[MF_GEMM_TAU] * k / 1024 + root(memory, math);
}

double mf_padded_rows(double mine, double active)
{
	return mine > active ? 16 * ceil(mine / fmax(active, 1e-9) / 16) * active : 16 * active;
}

bool mf_experts_load_named(const char *name, double tokens, double topk, double experts, mf_experts_load *out)
{
	double top = fmax(2, tokens * 0.8), sum = 0, squares = 0, a;

	*out = (mf_experts_load){0};
	if (strcmp(name, "balanced") == 0) {
		out->active = fmin(experts, tokens * topk);
		out->rows = 16 * ceil(tokens * topk / out->active / 16) * out->active;
		return true;
	}
	if (strncmp(name, "power_law_", 10) != 0 || sscanf(name + 10, "%lf", &a) != 1 || a == 1)
		return false;
	for (int pass = 0; pass < 2; pass++) {
		double scale = pass ? tokens * topk / sum : 1;

		for (int i = 0; i < (int)experts; i++) {
			double q = (i + 0.5) / experts, load = scale * pow((pow(top, 1 - a) - 1) * q + 1, 1 / (1 - a)),
			       hit;

			if (!pass) {
				sum += load;
				squares += load * load;
				continue;
			}
			load = fmin(load, tokens);
			hit = 1 - exp(-load);
			out->active += hit;
			out->rows += 16 * fmax(hit, load > 1 ? ceil(load / 16) : 0);
		}
	}
	out->cv2 = squares * experts / (sum * sum) - 1;
	return true;
}

double mf_experts_imbalance(double ep, double local, double slots, double cv2)
{
	return ep > 1 ? 1 + 0.8 * sqrt(2 * log(ep)) * sqrt(cv2 / local + 1 / fmax(slots / ep, 1)) : 1;
}

void mf_experts_share(
	const mf_experts_load *l, double tokens, double topk, double experts, double ep, mf_experts_shape *s)
{
	double local = experts / ep, imb = 1;

	if (l->cv2 > 0)
		imb = fmin(ep, mf_experts_imbalance(ep, local, tokens * topk, l->cv2));
	s->tokens = tokens;
	s->local = local;
	s->active = fmin(local, l->active / ep * (1 + 0.5 * (imb - 1)));
	s->mine = tokens * topk / ep * imb;
	s->streamed = tokens * topk;
	s->rows = l->rows / ep * imb;
}

double mf_experts_us(const double *g, const mf_gpu_rates *r, double peak, const mf_experts_shape *s)
{
	double parameters = s->matrices * s->hidden * s->width, bytes = parameters * s->weight_bytes * s->active;
	double weights, math, traffic, tiles, u;

	weights = bytes / (r->hbm * g[MF_MOE_HBM]) * warm(r, bytes, g[MF_MOE_L2], g[MF_MOE_WARM]);
	if (s->tokens > s->local)
		weights /= g[MF_MOE_WIDE];
	math = 2 * parameters * s->rows / (peak * g[MF_MOE_ROOF]);
	tiles = s->active * ceil(fmax(1, s->mine / fmax(s->active, 1e-9)) / 64) * ceil(2 * s->width / 128);
	u = fmin(1, g[MF_MOE_FILL] + (1 - g[MF_MOE_FILL]) * tiles / r->sms);
	traffic = (s->mine + g[MF_MOE_FOREIGN] * fmax(0, s->streamed - s->mine)) * (3 * s->hidden + 4 * s->width) * 2 /
		  (r->hbm * g[MF_MOE_ACT]);
	return g[MF_MOE_T0] + root(weights, math) / u + traffic;
}

static bool odd_head(double head_dim)
{
	uint32_t d = (uint32_t)head_dim;

	return d & (d - 1);
}

double mf_decode_us(const double *g, const mf_gpu_rates *r, double batch, double heads, double kv_heads,
	double head_dim, double kv_bytes, double context)
{
	bool fp8 = kv_bytes < 2;
	double bytes = batch * context * 2 * kv_heads * head_dim * kv_bytes, d = head_dim / 128, u, memory, math;

	u = fmin(1, batch * kv_heads * fmax(1, context / g[MF_DEC_DEPTH]) / r->sms);
	memory = (bytes + 4 * batch * heads * head_dim) / (r->hbm * g[MF_DEC_HBM] * (fp8 ? g[MF_DEC_FP8_HBM] : 1) * u) *
		 warm(r, bytes, g[MF_DEC_L2], g[MF_DEC_WARM]);
	math = 4 * batch * heads * head_dim * context / (r->peak[MF_BF16] * g[MF_DEC_ROOF]);
	return g[MF_DEC_T0] + (fp8 ? g[MF_DEC_FP8] : 0) + (odd_head(head_dim) ? g[MF_DEC_ODD] : 0) +
	       d * (g[MF_DEC_HEAD] + g[MF_DEC_WAVE] * batch * kv_heads / r->sms) + root(memory, math);
}

double mf_prefill_us(const double *g, const mf_gpu_rates *r, double seqs, double n, double cached, double window,
	double heads, double kv_heads, double head_dim)
{
	double keys = cached + n / 2, d = head_dim / 128, chain = cached + n, roof, math, io;

	if (window > 0) {
		keys = fmin(keys, window + g[MF_CTX_WINDOW]);
		chain = fmin(chain, window);
	}
	roof = r->peak[MF_BF16] * g[MF_CTX_ROOF] * pow(d, d < 1 ? g[MF_CTX_SMALL] : g[MF_CTX_LARGE]);
	math = 4 * heads * head_dim * seqs * n * keys / roof;
	io = seqs * (n * head_dim * (2 * heads + 2 * kv_heads) * 2 + cached * kv_heads * head_dim * 4);
	return g[MF_CTX_T0] + (odd_head(head_dim) ? g[MF_CTX_ODD] : 0) +
	       seqs * (g[MF_CTX_WAVE] * heads + g[MF_CTX_KV_WAVE] * kv_heads) / r->sms +
	       root(math, g[MF_CTX_CHAIN] * chain / 1024 * pow(d, g[MF_CTX_CHAIN_HEAD])) +
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
	double dims = qk_dim + v_dim, math;

	math = 2 * heads * seqs * (n * cached + n * n / 2) * dims / (r->peak[MF_BF16] * g[MF_MLACTX_ROOF]);
	return g[MF_MLACTX_T0] + g[MF_MLACTX_WAVE] * seqs * heads / r->sms +
	       dims / 320 * g[MF_MLACTX_ROWS] * seqs * n * heads / 1e6 +
	       root(math, dims / 320 * g[MF_MLACTX_CHAIN] * (cached + n) / 1024);
}

double mf_mla_bmm_us(
	const double *g, const mf_gpu_rates *r, double batch, double heads, double head_dim, double kv_lora)
{
	double bytes = heads * head_dim * kv_lora * 2;

	return g[MF_BMM_T0] + 2 * batch * heads * head_dim * kv_lora / (r->peak[MF_BF16] * g[MF_BMM_ROOF]) +
	       bytes / (r->hbm * g[MF_BMM_HBM]) * warm(r, bytes, g[MF_BMM_L2], g[MF_BMM_WARM]);
}

double mf_link_share(const mf_cluster *c, const mf_consts *k)
{
	return fmin(1, c->link_gbps / k->v[MF_C_S_LINK_REF]);
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

static double send(const double *g, double rows, double bytes, double share)
{
	return g[0] + rows * (bytes / (g[1] * 1e6 * share) + g[2] * 1e-3);
}

double mf_ll_dispatch_us(const double *g, double tokens, double hidden, double topk, double share)
{
	return send(&g[MF_EP_DISPATCH_T0], tokens * topk, hidden, share);
}

double mf_ll_combine_us(const double *g, double tokens, double hidden, double topk, double share)
{
	return send(&g[MF_EP_COMBINE_T0], tokens * topk, 2 * hidden, share);
}

double mf_normal_dispatch_us(const double *g, double tokens, double hidden, double topk, double ranks, double share)
{
	return send(&g[MF_EP_DISPATCH_T0], tokens * mf_distinct(ranks, topk), hidden, share);
}

double mf_normal_combine_us(const double *g, double tokens, double hidden, double topk, double ranks, double share)
{
	return send(&g[MF_EP_COMBINE_T0], tokens * mf_distinct(ranks, topk), 2 * hidden, share);
}
