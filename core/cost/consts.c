/*
 * consts.c: factory constants by GPU family, and overlays that replace some of them inside a domain.
 *
 * An overlay is a YAML file:
 *   domain: {gpu: NVIDIA H800, dtypes: [bf16], m_range: [64, 8192], world_range: [2, 8], source: where it was measured}
 *   values: {kernel_patch_overhead_frac_train: -0.077}
 *   curves:
 *     gemm_bf16:
 *       values: {every constant of the curve}     or   unsupported: why
 *       domain: {m: [1, 65536], n: [32, 65536], k: [32, 65536]}
 *       source: table and kernel
 *       rows: 25000
 *       held_out: 6800
 *       median: 0.085
 *       p90: 0.24
 * Every field of a domain may be left out, and then means "any".
 */
#include "cost_internal.h"

#include <math.h>
#include <string.h>

const mf_const_info mf_const_infos[MF_CONST_COUNT] = {
#define X(id, name, unit, a, d, h, b, source) {name, unit, source},
#include "consts.def"
#undef X
};

static const double factory[MF_CONST_COUNT][MF_FAMILY_COUNT] = {
#define X(id, name, unit, a, d, h, b, source) {a, d, h, b},
#include "consts.def"
#undef X
};

/* GPUs whose board power or units set them apart from their family. */
static const struct gpu_const {
	const char *gpu;
	mf_const_id id;
	double value;
} gpu_consts[] = {
#define G(gpu, id, value) {gpu, MF_C_##id, value},
#include "consts_gpu.def"
#undef G
};

static void any_curve(mf_curve_fit *f)
{
	memset(f, 0, sizeof *f);
	for (int d = 0; d < MF_CURVE_DIMS; d++)
		f->lo[d] = f->hi[d] = NAN;
	f->median = f->p90 = NAN;
}

void mf_consts_factory(mf_consts *out, const mf_cluster *c)
{
	memset(out, 0, sizeof(*out));
	for (int i = 0; i < MF_CONST_COUNT; i++)
		out->v[i] = factory[i][c->family];
	for (size_t i = 0; i < MF_COUNT(gpu_consts); i++) {
		if (mf_same_gpu(c->gpu, gpu_consts[i].gpu))
			out->v[gpu_consts[i].id] = gpu_consts[i].value;
	}
	for (int i = 0; i < MF_CURVE_COUNT; i++)
		any_curve(&out->curves[i]);
	out->domain.m_min = out->domain.m_max = out->domain.world_min = out->domain.world_max = NAN;
}

static const char *const dtype_names[] = {"bf16", "fp8", "fp4", NULL};

/* A list of two ascending numbers; absent leaves both NaN. */
static mf_status read_range(const mf_doc *d, const mf_node *map, const char *key, double *lo, double *hi, mf_err *err)
{
	const mf_node *n = mf_node_get(map, key);

	*lo = *hi = NAN;
	if (!n)
		return MF_OK;
	if (n->kind != MF_LIST || n->n_children != 2 || n->first->kind != MF_NUMBER ||
		n->first->next->kind != MF_NUMBER)
		return mf_fail_at(err, MF_EINPUT, d->name, n->line, key, "expected two numbers: [least, most]");
	*lo = n->first->number;
	*hi = n->first->next->number;
	if (!(*lo >= 0 && *lo <= *hi))
		return mf_fail_at(
			err, MF_EINPUT, d->name, n->line, key, "expected [least, most] with 0 <= least <= most");
	return MF_OK;
}

static mf_status read_domain(mf_domain *out, const mf_doc *d, const mf_node *map, mf_err *err)
{
	static const char *const known[] = {"gpu", "dtypes", "m_range", "world_range", "source", NULL};
	const mf_node *types;
	mf_status st;

	memset(out, 0, sizeof(*out));
	out->m_min = out->m_max = out->world_min = out->world_max = NAN;
	if (!map)
		return MF_OK;
	if (map->kind != MF_MAP)
		return mf_fail_at(err, MF_EINPUT, d->name, map->line, "domain",
			"expected a map of gpu, dtypes, m_range, world_range");
	if ((st = mf_only_keys(d, map, known, err)) < 0 ||
		(st = mf_get_string(d, map, "gpu", out->gpu, sizeof(out->gpu), err)) < 0 ||
		(st = mf_get_string(d, map, "source", out->source, sizeof(out->source), err)) < 0 ||
		(st = read_range(d, map, "m_range", &out->m_min, &out->m_max, err)) < 0 ||
		(st = read_range(d, map, "world_range", &out->world_min, &out->world_max, err)) < 0)
		return st;
	types = mf_node_get(map, "dtypes");
	if (types && types->kind != MF_LIST)
		return mf_fail_at(err, MF_EINPUT, d->name, types->line, "dtypes", "expected a list of bf16, fp8, fp4");
	for (const mf_node *n = types ? types->first : NULL; n; n = n->next) {
		int found = -1;

		for (int i = 0; dtype_names[i]; i++) {
			if (strcmp(dtype_names[i], n->text) == 0)
				found = i;
		}
		if (found < 0)
			return mf_fail_at(err, MF_EINPUT, d->name, n->line, "dtypes",
				"\"%.40s\" is no dtype: bf16, fp8, fp4", n->text);
		out->dtypes |= 1u << found;
	}
	return MF_OK;
}

static int const_by_name(const char *name)
{
	for (int i = 0; i < MF_CONST_COUNT; i++) {
		if (strcmp(mf_const_infos[i].name, name) == 0)
			return i;
	}
	return -1;
}

/* Overheads are shares of a throughput, exponents tell how a share falls: both may be negative, other constants are not. */
static bool is_overhead(int id)
{
	return id == MF_C_TAX_SERVE || id == MF_C_TAX_TRAIN || id == MF_C_OFFLOAD_OVERLAP || id == MF_C_S_CTX_LARGE;
}

/* Exponents of a shape may fall with it. */
static bool is_exponent(int id)
{
	const char *name = mf_const_infos[id].name, *tail = "_exponent";

	return strlen(name) > strlen(tail) && strcmp(name + strlen(name) - strlen(tail), tail) == 0;
}

static mf_status read_values(mf_consts *io, const mf_doc *d, const mf_node *map, mf_err *err)
{
	for (const mf_node *n = map->first; n; n = n->next) {
		int id = const_by_name(n->key);

		if (id < 0) {
			const char *names[MF_CONST_COUNT + 1], *near;

			for (int i = 0; i < MF_CONST_COUNT; i++)
				names[i] = mf_const_infos[i].name;
			names[MF_CONST_COUNT] = NULL;
			near = mf_nearest(n->key, names);
			if (near)
				return mf_fail_at(err, MF_EINPUT, d->name, n->line, n->key,
					"unknown constant; did you mean %s?", near);
			return mf_fail_at(err, MF_EINPUT, d->name, n->line, n->key, "unknown constant");
		}
		if (n->kind != MF_NUMBER || !isfinite(n->number))
			return mf_fail_at(err, MF_EINPUT, d->name, n->line, n->key, "expected a number");
		if (is_overhead(id) ? n->number <= -1 : n->number < 0 && !is_exponent(id))
			return mf_fail_at(err, MF_EINPUT, d->name, n->line, n->key,
				"%s is too small: more than %d is expected", n->text, is_overhead(id) ? -1 : 0);
		io->v[id] = n->number;
		io->from_overlay[id] = 1;
	}
	return MF_OK;
}

static int curve_by_name(const char *name)
{
	for (int i = 0; i < MF_CURVE_COUNT; i++) {
		if (strcmp(mf_curve_infos[i].name, name) == 0)
			return i;
	}
	return -1;
}

static mf_status unknown_curve(const mf_doc *d, const mf_node *n, mf_err *err)
{
	const char *names[MF_CURVE_COUNT + 1], *near;

	for (int i = 0; i < MF_CURVE_COUNT; i++)
		names[i] = mf_curve_infos[i].name;
	names[MF_CURVE_COUNT] = NULL;
	near = mf_nearest(n->key, names);
	return mf_fail_at(err, MF_EINPUT, d->name, n->line, n->key, "unknown curve%s%s", near ? "; did you mean " : "",
		near ? near : "");
}

/* A curve's constants were fitted together: all of them, and no others. */
static mf_status read_curve_values(
	mf_consts *io, const mf_curve_info *info, const mf_doc *d, const mf_node *map, mf_err *err)
{
	mf_status st;

	if (map->kind != MF_MAP)
		return mf_fail_at(
			err, MF_EINPUT, d->name, map->line, "values", "expected a map of the curve's constants");
	for (const mf_node *n = map->first; n; n = n->next) {
		int id = const_by_name(n->key);

		if (id >= 0 && (id < (int)info->first || id >= (int)info->first + info->n))
			return mf_fail_at(
				err, MF_EINPUT, d->name, n->line, n->key, "is no constant of the curve %s", info->name);
	}
	for (int i = 0; i < info->n; i++) {
		const char *name = mf_const_infos[info->first + (mf_const_id)i].name;

		if (!mf_node_get(map, name))
			return mf_fail_at(err, MF_EINPUT, d->name, map->line, name,
				"missing: a curve's constants are fitted together and given together");
	}
	if ((st = read_values(io, d, map, err)) < 0)
		return st;
	return MF_OK;
}

static mf_status read_curve(mf_consts *io, int id, const mf_doc *d, const mf_node *map, mf_err *err)
{
	static const char *const known[] = {
		"values", "unsupported", "domain", "source", "rows", "held_out", "median", "p90", NULL};
	const mf_curve_info *info = &mf_curve_infos[id];
	const mf_node *values, *refused, *domain;
	mf_curve_fit f;
	mf_status st;

	any_curve(&f);
	f.given = true;
	if (map->kind != MF_MAP)
		return mf_fail_at(
			err, MF_EINPUT, d->name, map->line, info->name, "expected a map of values and domain");
	if ((st = mf_only_keys(d, map, known, err)) < 0)
		return st;
	values = mf_node_get(map, "values");
	refused = mf_node_get(map, "unsupported");
	if (!values == !refused)
		return mf_fail_at(
			err, MF_EINPUT, d->name, map->line, info->name, "expected either values or unsupported");
	f.unsupported = refused != NULL;
	if (refused && refused->kind != MF_STRING)
		return mf_fail_at(err, MF_EINPUT, d->name, refused->line, "unsupported", "expected the reason");
	if (values && (st = read_curve_values(io, info, d, values, err)) < 0)
		return st;
	domain = mf_node_get(map, "domain");
	if (domain && domain->kind != MF_MAP)
		return mf_fail_at(err, MF_EINPUT, d->name, domain->line, "domain", "expected a map of ranges");
	if (domain && (st = mf_only_keys(d, domain, info->dim, err)) < 0)
		return st;
	for (int i = 0; domain && i < MF_CURVE_DIMS && info->dim[i]; i++) {
		if ((st = read_range(d, domain, info->dim[i], &f.lo[i], &f.hi[i], err)) < 0)
			return st;
	}
	if ((st = mf_get_string(d, map, "source", f.source, sizeof f.source, err)) < 0 ||
		(st = mf_get_u32(d, map, "rows", 0, UINT32_MAX, &f.rows, err)) < 0 ||
		(st = mf_get_u32(d, map, "held_out", 0, UINT32_MAX, &f.held_out, err)) < 0 ||
		(st = mf_get_double(d, map, "median", 0, 1e6, &f.median, err)) < 0 ||
		(st = mf_get_double(d, map, "p90", 0, 1e6, &f.p90, err)) < 0)
		return st;
	io->curves[id] = f;
	io->n_curves++;
	return MF_OK;
}

/* A path has a slash or a suffix; anything else is a name. */
const char *mf_consts_overlay_of(const char *gpu)
{
	for (const char *const *name = mf_builtin_names("calibrated"); *name; name++)
		if (mf_same_gpu(*name, gpu))
			return *name;
	return NULL;
}

mf_status mf_consts_overlay(mf_consts *io, const char *name_or_path, mf_err *err)
{
	static const char *const known[] = {"domain", "values", "curves", NULL};
	mf_consts next = *io;
	const mf_node *values, *curves;
	mf_doc doc;
	mf_status st;

	st = mf_input_open(&doc, "calibrated", name_or_path, err);
	if (st < 0)
		return st;
	if (!doc.root || doc.root->kind != MF_MAP) {
		st = mf_fail_at(err, MF_EINPUT, doc.name, 1, NULL, "an overlay is a map of domain and values");
		goto done;
	}
	if ((st = mf_only_keys(&doc, doc.root, known, err)) < 0 ||
		(st = read_domain(&next.domain, &doc, mf_node_get(doc.root, "domain"), err)) < 0)
		goto done;
	values = mf_node_get(doc.root, "values");
	curves = mf_node_get(doc.root, "curves");
	if ((!values && !curves) || (values && values->kind != MF_MAP)) {
		st = mf_fail_at(err, MF_EINPUT, doc.name, values ? values->line : doc.root->line, "values",
			"expected a map of constants");
		goto done;
	}
	if (curves && curves->kind != MF_MAP) {
		st = mf_fail_at(err, MF_EINPUT, doc.name, curves->line, "curves", "expected a map of curves");
		goto done;
	}
	if (values && (st = read_values(&next, &doc, values, err)) < 0)
		goto done;
	for (const mf_node *n = curves ? curves->first : NULL; n; n = n->next) {
		int id = curve_by_name(n->key);

		st = id < 0 ? unknown_curve(&doc, n, err) : read_curve(&next, id, &doc, n, err);
		if (st < 0)
			goto done;
	}
	snprintf(next.overlay, sizeof(next.overlay), "%s", name_or_path);
	*io = next;
done:
	mf_doc_dispose(&doc);
	return st;
}

bool mf_consts_extrapolated(
	const mf_consts *c, const mf_cluster *cl, mf_dtype dtype, double tokens_per_expert, uint32_t world)
{
	const mf_domain *d = &c->domain;

	if (c->overlay[0] == '\0')
		return false;
	return (d->gpu[0] && !mf_same_gpu(d->gpu, cl->gpu)) || (d->dtypes && !(d->dtypes & 1u << dtype)) ||
	       tokens_per_expert < d->m_min || tokens_per_expert > d->m_max || world < d->world_min ||
	       world > d->world_max;
}

bool mf_curve_outside(const mf_consts *c, mf_curve_id id, const double x[MF_CURVE_DIMS])
{
	const mf_curve_fit *f = &c->curves[id];

	if (!c->n_curves || !f->given)
		return false;
	if (f->unsupported)
		return true;
	/* Comparisons with NaN are false: an end that is not given bounds nothing. */
	for (int i = 0; i < MF_CURVE_DIMS; i++) {
		if (x[i] < f->lo[i] || x[i] > f->hi[i])
			return true;
	}
	return false;
}

const char *mf_const_source(const mf_consts *c, mf_const_id id)
{
	if (!c->from_overlay[id])
		return mf_const_infos[id].source;
	for (int i = 0; c->n_curves && i < MF_CURVE_COUNT; i++) {
		const mf_curve_info *info = &mf_curve_infos[i];

		if (c->curves[i].given && id >= info->first && (int)id < (int)info->first + info->n)
			return c->curves[i].source;
	}
	return c->domain.source;
}
