/*
 * ops.c: single operations, kernels and collectives, predicted by the curve of their kind under the constants of their
 * GPU. The shape is read from the note's key=value parts. Whole layers belong to the models that add curves up, and
 * figures without a shape to nobody.
 */
#include "curves.h"
#include "score_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What an operation is judged with. */
typedef struct op {
	const mf_measured *row;
	mf_judged *out;
	const mf_cluster *cl;
	const mf_consts *k;
	mf_gpu_rates rates;
} op;

static bool open_op(mf_score *ctx, const mf_measured *row, mf_judged *out, op *o)
{
	/* Sources that name an architecture alone mean any of its cards: their rates are the same where it matters. */
	const char *gpu = strcmp(row->gpu, "Hopper") == 0      ? "H100"
			  : strcmp(row->gpu, "Blackwell") == 0 ? "B200"
							       : row->gpu;

	o->row = row;
	o->out = out;
	if (strncmp(gpu, "SM", 2) == 0) {
		mf_score_uncovered(out, "GPU not named");
		return false;
	}
	o->cl = mf_score_cluster_of(ctx, gpu, row->n_gpus >= 1 ? row->n_gpus : 1, row->gpus_per_node, out);
	o->k = o->cl ? mf_score_consts(ctx, o->cl, out) : NULL;
	if (!o->k)
		return false;
	/* Benchmarks repeat one operation. */
	o->rates = mf_gpu_rates_warm(o->cl);
	return true;
}

static double note(const op *o, const char *key)
{
	char text[48], *end;
	double v;

	if (!mf_measured_note(o->row, key, text, sizeof text))
		return NAN;
	v = strtod(text, &end);
	if (end == text)
		return NAN;
	return strncmp(end, "KiB", 3) == 0   ? v * 1024
	       : strncmp(end, "MiB", 3) == 0 ? v * MF_MIB
	       : strncmp(end, "GiB", 3) == 0 ? v * MF_GIB
					     : v;
}

static const double *curve(const op *o, mf_curve_id id, double x0, double x1, double x2, double x3)
{
	/* A table that its curve does not follow: whatever is predicted is no measure of the curves. */
	o->out->outside |= o->k->curves[id].unsupported;
	o->out->extrapolated |= mf_curve_outside(o->k, id, (const double[]){x0, x1, x2, x3});
	return &o->k->v[mf_curve_infos[id].first];
}

/* Predicted in the row's own unit; every row is its own set, for operations are not ranked against each other. */
static void judged(const op *o, const char *group, double predicted)
{
	o->out->covered = true;
	o->out->predicted = predicted;
	snprintf(o->out->group, sizeof o->out->group, "%s", group);
	snprintf(o->out->set, sizeof o->out->set, "%s", o->row->id);
}

static double in_unit(const op *o, double us)
{
	return strcmp(o->row->unit, "ms") == 0 ? us / 1e3 : us;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------- */

static double gemm(const op *o, mf_linear type, double m, double n, double k)
{
	static const mf_curve_id ids[] = {MF_CURVE_GEMM_BF16, MF_CURVE_GEMM_FP8B, MF_CURVE_GEMM_FP8, MF_CURVE_GEMM_FP4};

	return mf_gemm_us(curve(o, ids[type], m, n, k, 0), &o->rates, type, m, n, k);
}

/* G groups of m x n x k read and compute like m x G n x k. */
static void dense_or_grouped(const op *o, mf_linear type)
{
	double groups = fmax(1, note(o, "groups")), m = note(o, "m_per_group"), n = note(o, "n"), k = note(o, "k"), us;

	if (isnan(m))
		m = note(o, "m");
	if (isnan(m * n * k)) {
		mf_score_uncovered(o->out, "shape not stated");
		return;
	}
	us = gemm(o, type, m, groups * n, k);
	judged(o, groups > 1 ? "grouped GEMM" : "GEMM", 2 * m * groups * n * k / us / 1e6);
}

/* Forward, data and weight gradient of a grouped product; `m` are all rows. */
static void grouped_training(const op *o, bool forward, bool dgrad, bool wgrad)
{
	mf_linear type = strcmp(o->row->precision, "bf16") == 0 ? MF_LIN_BF16 : MF_LIN_FP8;
	double groups = fmax(1, note(o, "groups")), m = note(o, "m"), n = note(o, "n"), k = note(o, "k"), us = 0;

	if (isnan(m * n * k)) {
		mf_score_uncovered(o->out, "shape not stated");
		return;
	}
	/* The source gives a lone gradient's own sides: those of a weight gradient have the rows in k. */
	if (wgrad && !forward) {
		us = gemm(o, type, m, groups * n, k / groups);
	} else {
		m /= groups;
		if (forward)
			us += gemm(o, type, m, groups * n, k);
		if (dgrad)
			us += forward ? gemm(o, type, m, groups * k, n) : gemm(o, type, m, groups * n, k);
		if (wgrad)
			us += gemm(o, type, n, groups * k, m);
	}
	judged(o, "grouped GEMM, training", in_unit(o, us));
}

static void expert_layer(const op *o)
{
	static const struct {
		const char *precision;
		mf_curve_id id;
		mf_dtype type;
		double bytes;
	} types[] = {
		{"bfloat16", MF_CURVE_MOE_BF16, MF_BF16, 2},
		{"fp8_block", MF_CURVE_MOE_FP8B, MF_FP8, 1},
		{"fp8", MF_CURVE_MOE_FP8B, MF_FP8, 1},
		{"nvfp4", MF_CURVE_MOE_FP4, MF_FP4, 0.5625},
	};
	double tokens = note(o, "tokens"), topk = note(o, "topk"), experts = note(o, "experts");
	double ep = mf_measured_u32(o->row->ep, 1), tp = mf_measured_u32(o->row->etp, 1);
	mf_experts_shape s = {.hidden = note(o, "hidden"), .width = note(o, "inter") / tp, .matrices = 3};
	mf_experts_load load;
	char routing[32];

	for (size_t i = 0; i < MF_COUNT(types); i++) {
		if (strcmp(types[i].precision, o->row->precision) != 0)
			continue;
		mf_measured_note(o->row, "routing", routing, sizeof routing);
		if (isnan(tokens * topk * experts * s.hidden * s.width) ||
			!mf_experts_load_named(routing, tokens, topk, experts, &load)) {
			mf_score_uncovered(o->out, "shape or routing not stated");
			return;
		}
		if (isnan(o->k->v[mf_curve_infos[types[i].id].first]))
			break;
		mf_experts_share(&load, tokens, topk, experts, ep, &s);
		s.weight_bytes = types[i].bytes;
		judged(o, "expert layer",
			in_unit(o, mf_experts_us(curve(o, types[i].id, tokens, s.hidden, s.width, s.local), &o->rates,
					   o->rates.peak[types[i].type], &s)));
		return;
	}
	mf_score_uncovered(o->out, "no curve for %s experts on this GPU", o->row->precision);
}

/* Causal attention with the heads of DeepSeek-V3. */
static void mla_attention(const op *o, bool backward)
{
	double n = o->row->seq_len, heads = 128, qk = 192, v = 128, us, rate;

	if (isnan(n)) {
		mf_score_uncovered(o->out, "shape not stated");
		return;
	}
	us = mf_mla_prefill_us(curve(o, MF_CURVE_MLACTX, n, heads, 0, 0), &o->rates, 1, n, 0, heads, qk, v);
	rate = 2 * heads * n * n / 2 * (qk + v) / us / 1e6;
	judged(o, "MLA attention", backward ? rate * o->k->v[MF_C_ATT_BWD] : rate);
}

void mf_score_kernel(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	const char *m = row->metric;
	op o;

	if (!open_op(ctx, row, out, &o))
		return;
	if (strcmp(m, "gemm_tflops") == 0)
		dense_or_grouped(&o, strcmp(row->precision, "fp8") == 0 ? MF_LIN_FP8_BLOCK : MF_LIN_BF16);
	else if (strcmp(m, "grouped_mm_fwd_bwd_time") == 0)
		grouped_training(&o, true, true, true);
	else if (strcmp(m, "grouped_mm_fwd_time") == 0)
		grouped_training(&o, true, false, false);
	else if (strcmp(m, "grouped_mm_dgrad_time") == 0)
		grouped_training(&o, false, true, false);
	else if (strcmp(m, "grouped_mm_wgrad_time") == 0)
		grouped_training(&o, false, false, true);
	else if (strcmp(m, "moe_op_time") == 0)
		expert_layer(&o);
	else if (strcmp(m, "attention_fwd_tflops") == 0)
		mla_attention(&o, false);
	else if (strcmp(m, "attention_bwd_tflops") == 0)
		mla_attention(&o, true);
	else if (strncmp(m, "moe_layer_", 10) == 0)
		mf_score_uncovered(out, "a whole layer, no operation");
	else if (strcmp(m, "quantize_time") == 0)
		mf_score_uncovered(out, "a cast alone has no curve");
	else
		mf_score_uncovered(out, "shape not stated");
}

/* ---- collectives --------------------------------------------------------------------------------------------------- */

/* Share of the bus rates that this GPU's link reaches. */
static double link_share(const op *o)
{
	return o->cl->fabric == MF_FABRIC_PCIE ? 1 : mf_link_share(o->cl, o->k);
}

static double nic(const op *o)
{
	return o->cl->nic_gbps * 1e3 * o->k->v[MF_C_S_NIC_FRAC];
}

static double nodes(const op *o)
{
	double n = o->row->n_gpus;

	return n > o->cl->nvlink_domain ? ceil(n / o->cl->gpus_per_node) : 1;
}

/* One ring of `bytes` over the row's GPUs: the curve inside a domain, every NIC of a node at once beyond it. */
static double ring(const op *o, mf_curve_id id, double bytes)
{
	double n = o->row->n_gpus, t;
	const double *g = curve(o, o->cl->fabric == MF_FABRIC_PCIE ? MF_CURVE_PAG : id, n, bytes, 0, 0);

	/* An all-reduce moves everything twice. */
	bytes *= id == MF_CURVE_NAR ? 2 : 1;
	t = mf_collective_us(g, n, bytes, link_share(o));
	return nodes(o) > 1 ? fmax(t, bytes * (n - 1) / n / (o->cl->gpus_per_node * nic(o))) : t;
}

static void collective(const op *o, const char *name)
{
	double n = o->row->n_gpus, bytes = note(o, "bytes"), us;
	bool reduce = strncmp(name, "all_reduce", 10) == 0, rate = strstr(name, "busbw") != NULL;

	if (isnan(bytes))
		bytes = note(o, "size");
	if (isnan(bytes) || !(n > 1)) {
		mf_score_uncovered(o->out, "size or number of GPUs not stated");
		return;
	}
	if (reduce)
		us = ring(o, MF_CURVE_NAR, bytes);
	else if (strncmp(name, "alltoall", 8) == 0)
		us = ring(o, MF_CURVE_A2A, bytes);
	else
		us = ring(o, name[0] == 'a' ? MF_CURVE_AG : MF_CURVE_RS, bytes);
	judged(o,
		reduce           ? "all-reduce"
		: name[0] == 'r' ? "reduce-scatter"
		: name[3] == '_' ? "all-gather"
				 : "all-to-all",
		rate ? (reduce ? 2 : 1) * bytes * (n - 1) / n / us / 1e3 : in_unit(o, us));
}

/* DeepEP: fp8 out, bf16 back. */
static void deepep(const op *o, bool combine, bool low_latency)
{
	double tokens = low_latency ? o->row->concurrency : note(o, "tokens"), h = note(o, "hidden"),
	       k = note(o, "topk"), n, us, wire = 0;
	bool rate = strstr(o->row->metric, "bandwidth") != NULL;
	double bytes, ranks = fmin(8, o->row->n_gpus), share = link_share(o);
	const double *g;

	if (isnan(k) && mf_measured_says(o->row, "top8 experts"))
		k = 8;
	/* Choices of a token that fall on one node's ranks of four groups. */
	if (mf_measured_says(o->row, "top4 groups"))
		ranks = 4;
	if (isnan(tokens * h * k)) {
		mf_score_uncovered(o->out, "shape not stated");
		return;
	}
	n = nodes(o);
	g = curve(o, low_latency ? MF_CURVE_LL : MF_CURVE_NORMAL, tokens, h, k, 0);
	if (low_latency) {
		us = (combine ? mf_ll_combine_us : mf_ll_dispatch_us)(g, tokens, h, k, share);
		if (n > 1)
			wire = 13 + g[combine ? MF_EP_COMBINE_T0 : MF_EP_DISPATCH_T0] +
			       (combine ? 2 : 1) * tokens * h * k * (1 - 1 / n) / nic(o);
		judged(o, "DeepEP low latency", fmax(us, wire));
		return;
	}
	/* What crosses the slower of the two networks, over the time it takes. */
	if (rate && n > 1) {
		judged(o, "DeepEP normal", nic(o) / 1e3);
		return;
	}
	us = (combine ? mf_normal_combine_us : mf_normal_dispatch_us)(g, tokens, h, k, ranks, share);
	bytes = tokens * h * mf_distinct(ranks, k) * (combine ? 2 : 1);
	judged(o, "DeepEP normal", rate ? bytes / us / 1e3 : us);
}

void mf_score_comm(mf_score *ctx, const mf_measured *row, mf_judged *out)
{
	static const char *const collectives[] = {"all_gather", "reduce_scatter", "alltoall", "all_reduce"};
	const char *m = row->metric;
	bool combine = strstr(m, "combine") != NULL;
	op o;

	if (!open_op(ctx, row, out, &o))
		return;
	for (size_t i = 0; i < MF_COUNT(collectives); i++)
		if (strncmp(m, collectives[i], strlen(collectives[i])) == 0) {
			collective(&o, m);
			return;
		}
	if (mf_measured_says(row, "lib=alltoall")) {
		double bytes = note(&o, "tokens_per_gpu") * 8 * note(&o, "hidden") * 2, inside, us;

		inside = fmin(row->n_gpus, o.cl->nvlink_domain);
		us = mf_collective_us(
			curve(&o, MF_CURVE_A2A, row->n_gpus, bytes, 0, 0), row->n_gpus, bytes, link_share(&o));
		if (nodes(&o) > 1)
			us = fmax(us, bytes * (1 - inside / row->n_gpus) / nic(&o));
		judged(&o, "all-to-all exchange", us);
	} else if (mf_measured_says(row, "lib=HybridEP")) {
		mf_score_uncovered(out, "HybridEP has no table; training prices it by its share of the link");
	} else if (mf_measured_says(row, "mode=low-latency") || strncmp(m, "deepep_ll", 9) == 0) {
		deepep(&o, combine, true);
	} else if (mf_measured_says(row, "mode=normal") || strncmp(m, "deepep_normal", 13) == 0) {
		deepep(&o, combine, false);
	} else {
		mf_score_uncovered(out, "library or shape not stated");
	}
}
