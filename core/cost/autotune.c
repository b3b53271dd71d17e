/* autotune.c: the reader of autotune reports and its look-ups. */
#include "autotune.h"
#include "cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KERNELS 4096
#define MAX_POINTS 256
#define MAX_ROWS 1e7
#define MAX_US 1e9

typedef struct point {
	double log_rows, log_forward, log_backward;
} point;

typedef struct entry {
	uint16_t kernel;
	mf_expert_layer shape; /* rows unused */
	point *points;         /* ascending */
	size_t n;
} entry;

struct mf_autotune {
	entry *entries;
	size_t n;
	char source[160];
	bool synthetic;
};

void mf_autotune_free(mf_autotune *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		free(a->entries[i].points);
	free(a->entries);
	free(a);
}

const char *mf_autotune_source(const mf_autotune *a)
{
	return a->source;
}

bool mf_autotune_synthetic(const mf_autotune *a)
{
	return a->synthetic;
}

void mf_kernel_format(uint16_t kernel, char out[MF_KERNEL_TEXT_MAX])
{
	char text[MF_PLAN_TEXT_MAX];
	mf_plan p = mf_plan_default(MF_TRAIN);
	const char *at;

	out[0] = '\0';
	p.kernel = kernel;
	mf_plan_format(&p, NULL, text);
	at = kernel ? strstr(text, "/k:") : NULL;
	if (at)
		snprintf(out, MF_KERNEL_TEXT_MAX, "%.*s", (int)strcspn(at + 3, "/"), at + 3);
}

/* ---- reading -------------------------------------------------------------------------------------------------------
 */

/* The kernel's words are those of a plan. */
static mf_status read_kernel(const mf_doc *d, const mf_node *map, uint16_t *out, mf_err *err)
{
	char word[MF_KERNEL_TEXT_MAX], text[MF_KERNEL_TEXT_MAX + 32];
	mf_plan p;
	mf_err bad;
	mf_status st = mf_need_string(d, map, "kernel", word, sizeof(word), err);

	if (st < 0)
		return st;
	snprintf(text, sizeof(text), "tp1/pp1/ep1/1f1b/k:%s", word);
	if (strchr(word, '/') || mf_plan_parse(&p, text, MF_TRAIN, NULL, &bad) < 0)
		return mf_fail_at(err, MF_EINPUT, d->name, mf_node_get(map, "kernel")->line, "kernel",
			"\"%s\" is no kernel: [g][c]-MxNxK-wWARPS-sSTAGES as in gc-128x128x64-w8-s3", word);
	*out = p.kernel;
	return MF_OK;
}

static mf_status read_word(
	const mf_doc *d, const mf_node *map, const char *key, const char *const *words, int *out, mf_err *err)
{
	char word[32];
	mf_buf list = MF_BUF_INIT;
	mf_status st = mf_need_string(d, map, key, word, sizeof(word), err);

	if (st < 0)
		return st;
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], word) == 0) {
			*out = i;
			return MF_OK;
		}
	for (int i = 0; words[i]; i++)
		mf_buf_printf(&list, "%s%s", i ? ", " : "", words[i]);
	st = mf_fail_at(err, MF_EINPUT, d->name, mf_node_get(map, key)->line, key, "\"%s\" is none of %s", word,
		mf_buf_text(&list));
	mf_buf_dispose(&list);
	return st;
}

static mf_status read_point(const mf_doc *d, const mf_node *n, mf_phase phase, double *rows, point *out, mf_err *err)
{
	static const char *const serve[] = {"tokens_per_expert", "us", NULL};
	static const char *const train[] = {"tokens_per_expert", "forward_us", "backward_us", NULL};
	double forward, backward = 1;
	mf_status st;

	if (n->kind != MF_MAP)
		return mf_fail_at(err, MF_EINPUT, d->name, n->line, "points", "expected a list of maps");
	if ((st = mf_only_keys(d, n, phase == MF_SERVE ? serve : train, err)) < 0 ||
		(st = mf_need_double(d, n, "tokens_per_expert", 1e-3, MAX_ROWS, rows, err)) < 0 ||
		(st = mf_need_double(d, n, phase == MF_SERVE ? "us" : "forward_us", 1e-3, MAX_US, &forward, err)) < 0)
		return st;
	if (phase == MF_TRAIN && (st = mf_need_double(d, n, "backward_us", 1e-3, MAX_US, &backward, err)) < 0)
		return st;
	*out = (point){log(*rows), log(forward), phase == MF_TRAIN ? log(backward) : NAN};
	return MF_OK;
}

static mf_status read_points(const mf_doc *d, const mf_node *map, entry *e, mf_err *err)
{
	const mf_node *list = mf_node_get(map, "points");
	double rows, before = 0;

	if (!list || list->kind != MF_LIST || list->n_children == 0 || list->n_children > MAX_POINTS)
		return mf_fail_at(err, MF_EINPUT, d->name, list ? list->line : map->line, "points",
			"expected a list of 1 to %d measured points", MAX_POINTS);
	e->points = calloc(list->n_children, sizeof(*e->points));
	if (!e->points)
		return mf_fail(err, MF_ENOMEM, "out of memory for %s", d->name);
	for (const mf_node *n = list->first; n; n = n->next) {
		const mf_status st = read_point(d, n, e->shape.phase, &rows, &e->points[e->n], err);

		if (st < 0)
			return st;
		if (rows <= before)
			return mf_fail_at(err, MF_EINPUT, d->name, n->line, "tokens_per_expert",
				"points must ascend: %g comes after %g", rows, before);
		before = rows;
		e->n++;
	}
	return MF_OK;
}

static mf_status read_entry(const mf_doc *d, const mf_node *map, entry *e, mf_err *err)
{
	static const char *const known[] = {"kernel", "phase", "dtype", "hidden", "width", "experts", "points", NULL};
	static const char *const phases[] = {"train", "serve", NULL}, *const dtypes[] = {"bf16", "fp8", "fp4", NULL};
	int phase = MF_TRAIN, dtype = MF_BF16;
	mf_status st;

	if (map->kind != MF_MAP)
		return mf_fail_at(err, MF_EINPUT, d->name, map->line, "kernels", "expected a list of maps");
	if ((st = mf_only_keys(d, map, known, err)) < 0 || (st = read_kernel(d, map, &e->kernel, err)) < 0 ||
		(st = read_word(d, map, "phase", phases, &phase, err)) < 0 ||
		(st = read_word(d, map, "dtype", dtypes, &dtype, err)) < 0 ||
		(st = mf_need_u32(d, map, "hidden", 1, 1u << 20, &e->shape.hidden, err)) < 0 ||
		(st = mf_need_u32(d, map, "width", 1, 1u << 20, &e->shape.width, err)) < 0 ||
		(st = mf_need_u32(d, map, "experts", 1, 1u << 16, &e->shape.experts, err)) < 0)
		return st;
	e->shape.phase = (mf_phase)phase;
	e->shape.dtype = (mf_dtype)dtype;
	return read_points(d, map, e, err);
}

mf_status mf_autotune_from_doc(mf_autotune **out, const mf_doc *d, const mf_cluster *cluster, mf_err *err)
{
	static const char *const known[] = {"moefs_autotune", "gpu", "source", "synthetic", "kernels", NULL};
	mf_autotune *a;
	const mf_node *list;
	uint32_t version = 0;
	char gpu[48];
	mf_status st;

	*out = NULL;
	if (!d->root || d->root->kind != MF_MAP)
		return mf_fail_at(
			err, MF_EINPUT, d->name, 1, NULL, "an autotune report is a map; docs/AUTOTUNE.md has its keys");
	a = calloc(1, sizeof(*a));
	if (!a)
		return mf_fail(err, MF_ENOMEM, "out of memory for %s", d->name);
	if ((st = mf_only_keys(d, d->root, known, err)) < 0 ||
		(st = mf_need_u32(d, d->root, "moefs_autotune", 1, 1, &version, err)) < 0 ||
		(st = mf_need_string(d, d->root, "gpu", gpu, sizeof(gpu), err)) < 0 ||
		(st = mf_need_string(d, d->root, "source", a->source, sizeof(a->source), err)) < 0 ||
		(st = mf_get_bool(d, d->root, "synthetic", &a->synthetic, err)) < 0)
		goto done;
	if (!mf_same_gpu(gpu, cluster->gpu)) {
		st = mf_fail_at(err, MF_EINPUT, d->name, mf_node_get(d->root, "gpu")->line, "gpu",
			"measured on %s, but the cluster has %s: tune there", gpu, cluster->gpu);
		goto done;
	}
	list = mf_node_get(d->root, "kernels");
	if (!list || list->kind != MF_LIST || list->n_children > MAX_KERNELS) {
		st = mf_fail_at(err, MF_EINPUT, d->name, list ? list->line : 1, "kernels",
			"expected a list of at most %d kernels", MAX_KERNELS);
		goto done;
	}
	a->entries = calloc(list->n_children ? list->n_children : 1, sizeof(*a->entries));
	if (!a->entries) {
		st = mf_fail(err, MF_ENOMEM, "out of memory for %s", d->name);
		goto done;
	}
	for (const mf_node *n = list->first; n && st == MF_OK; n = n->next)
		st = read_entry(d, n, &a->entries[a->n++], err);
done:
	if (st < 0) {
		mf_autotune_free(a);
		return st;
	}
	*out = a;
	return MF_OK;
}

mf_status mf_autotune_read(mf_autotune **out, const char *path, const mf_cluster *cluster, mf_err *err)
{
	mf_doc doc;
	mf_status st = mf_doc_read_file(&doc, path, err);

	*out = NULL;
	if (st < 0)
		return st;
	st = mf_autotune_from_doc(out, &doc, cluster, err);
	mf_doc_dispose(&doc);
	return st;
}

/* ---- look-ups ------------------------------------------------------------------------------------------------------
 */

static bool same_shape(const mf_expert_layer *a, const mf_expert_layer *b)
{
	return a->phase == b->phase && a->dtype == b->dtype && a->hidden == b->hidden && a->width == b->width &&
	       a->experts == b->experts;
}

uint16_t mf_autotune_kernel(const mf_autotune *a, const mf_expert_layer *layer, size_t i)
{
	for (size_t k = 0; k < a->n; k++)
		if (same_shape(&a->entries[k].shape, layer) && i-- == 0)
			return a->entries[k].kernel;
	return 0;
}

bool mf_autotune_time(const mf_autotune *a, uint16_t kernel, const mf_expert_layer *layer, mf_kernel_time *out)
{
	const double x = log(layer->rows);

	for (size_t k = 0; k < a->n; k++) {
		const entry *e = &a->entries[k];
		size_t i = 1;

		if (e->kernel != kernel || !same_shape(&e->shape, layer) || !(x >= e->points[0].log_rows) ||
			x > e->points[e->n - 1].log_rows)
			continue;
		while (i + 1 < e->n && x > e->points[i].log_rows)
			i++;
		const point *lo = &e->points[i - 1], *hi = &e->points[i < e->n ? i : i - 1];
		const double span = hi->log_rows - lo->log_rows, share = span > 0 ? (x - lo->log_rows) / span : 0;
		out->forward_us = exp(lo->log_forward + share * (hi->log_forward - lo->log_forward));
		out->backward_us = exp(lo->log_backward + share * (hi->log_backward - lo->log_backward));
		return true;
	}
	return false;
}
