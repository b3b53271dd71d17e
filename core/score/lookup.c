/* lookup.c: models, clusters and constants by the names that measured rows use, loaded once a run. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "score_internal.h"

struct named_model {
	struct named_model *next;
	const char *name;
	bool there;
	char why_not[96];
	mf_model model;
};

struct sized_cluster {
	struct sized_cluster *next;
	const char *gpu;
	double n_gpus, gpus_per_node;
	bool there, has_consts;
	char why_not[96], no_consts[96];
	mf_cluster cluster;
	mf_consts consts;
};

struct mf_score {
	const mf_measured_table *table;
	const char *overlay;
	mf_arena *arena;
	struct named_model *models;
	struct sized_cluster *clusters;
	void *state[MF_ROW_COUNT];
	void (*release[MF_ROW_COUNT])(void *state);
};

mf_status mf_score_new(mf_score **out, const mf_measured_table *t, const mf_score_opts *opts, mf_err *err)
{
	mf_score *s = calloc(1, sizeof *s);

	*out = s;
	if (!s || !(s->arena = mf_arena_new())) {
		free(s);
		return mf_fail(err, MF_ENOMEM, "out of memory");
	}
	s->table = t;
	s->overlay = opts->overlay;
	return MF_OK;
}

void mf_score_free(mf_score *s)
{
	if (!s)
		return;
	for (int k = 0; k < MF_ROW_COUNT; k++)
		if (s->release[k] && s->state[k])
			s->release[k](s->state[k]);
	mf_arena_free(s->arena);
	free(s);
}

bool mf_score_own_overlays(const mf_score *s)
{
	return !s->overlay;
}

bool mf_score_factory(const mf_score *s)
{
	return s->overlay && strcmp(s->overlay, "none") == 0;
}

const mf_measured_table *mf_score_table(const mf_score *s)
{
	return s->table;
}

void **mf_score_state(mf_score *s, mf_row_kind kind, void (*release)(void *state))
{
	s->release[kind] = release;
	return &s->state[kind];
}

void mf_score_uncovered(mf_judged *out, const char *fmt, ...)
{
	va_list args;

	out->covered = false;
	va_start(args, fmt);
	vsnprintf(out->why_not, sizeof out->why_not, fmt, args);
	va_end(args);
}

/* "Qwen3-VL-235B-A22B" without its "-VL": of a vision model the language part is priced. True when there is another. */
static bool language_part(const char *name, char *out, size_t size)
{
	const char *vl = strstr(name, "-VL-");

	snprintf(out, size, "%.*s%s", (int)(vl ? vl - name : 0), name, vl ? vl + 3 : name);
	return vl != NULL;
}

const mf_model *mf_score_model(mf_score *s, const char *name, mf_judged *out)
{
	struct named_model *m = s->models;
	const char *wanted;
	char language[96];
	bool tower;
	mf_err err;

	while (m && strcmp(m->name, name) != 0)
		m = m->next;
	if (!m) {
		m = mf_arena_alloc(s->arena, sizeof *m);
		if (!m) {
			mf_score_uncovered(out, "out of memory");
			return NULL;
		}
		m->name = name;
		m->next = s->models;
		s->models = m;
		tower = language_part(name, language, sizeof language);
		wanted = mf_model_builtin(language);
		if (!*name)
			snprintf(m->why_not, sizeof m->why_not, "model not stated");
		else if (!wanted)
			snprintf(m->why_not, sizeof m->why_not, "no built-in model %.60s", name);
		else if (mf_model_load(&m->model, wanted, &err) < 0)
			snprintf(m->why_not, sizeof m->why_not, "%.95s", err.msg);
		else
			m->there = true;
		if (m->there) {
			mf_model_quant_of_name(&m->model, name);
			m->model.other_parts |= tower;
		}
	}
	if (!m->there)
		mf_score_uncovered(out, "%s", m->why_not);
	return m->there ? &m->model : NULL;
}

static void load_sized(struct sized_cluster *c)
{
	mf_cluster smallest; /* stands for the GPU */
	uint32_t node, n;
	char name[96];
	mf_err err;

	if (!*c->gpu) {
		snprintf(c->why_not, sizeof c->why_not, "GPU not stated");
		return;
	}
	if (isnan(c->n_gpus)) {
		snprintf(c->why_not, sizeof c->why_not, "number of GPUs not stated");
		return;
	}
	if (!mf_cluster_of_gpu(&smallest, c->gpu) || c->n_gpus > 65536) {
		snprintf(c->why_not, sizeof c->why_not, "no built-in cluster of %.40s", c->gpu);
		return;
	}
	n = (uint32_t)c->n_gpus;
	node = !isnan(c->gpus_per_node) && c->gpus_per_node <= 1024 ? (uint32_t)c->gpus_per_node
								    : smallest.gpus_per_node;
	if (node > n)
		node = n;
	/* Clusters are of equal nodes: 12 GPUs on nodes of 8 are taken as two of 6. */
	while (n % node)
		node--;
	snprintf(name, sizeof name, "%ux%ux%.40s", n / node, node, smallest.gpu);
	if (mf_cluster_load(&c->cluster, name, &err) < 0)
		snprintf(c->why_not, sizeof c->why_not, "no built-in cluster of %.40s", c->gpu);
	else
		c->there = true;
}

static struct sized_cluster *sized_cluster(mf_score *s, const char *gpu, double n_gpus, double gpus_per_node)
{
	struct sized_cluster *c = s->clusters;

	while (c && (strcmp(c->gpu, gpu) != 0 || (c->n_gpus != n_gpus && !(isnan(c->n_gpus) && isnan(n_gpus))) ||
			    (c->gpus_per_node != gpus_per_node && !(isnan(c->gpus_per_node) && isnan(gpus_per_node)))))
		c = c->next;
	if (c)
		return c;
	c = mf_arena_alloc(s->arena, sizeof *c);
	if (!c)
		return NULL;
	c->gpu = gpu;
	c->n_gpus = n_gpus;
	c->gpus_per_node = gpus_per_node;
	load_sized(c);
	c->next = s->clusters;
	s->clusters = c;
	return c;
}

const mf_cluster *mf_score_cluster_of(mf_score *s, const char *gpu, double n_gpus, double gpus_per_node, mf_judged *out)
{
	struct sized_cluster *c = sized_cluster(s, gpu, n_gpus, gpus_per_node);

	if (!c || !c->there) {
		mf_score_uncovered(out, "%s", c ? c->why_not : "out of memory");
		return NULL;
	}
	return &c->cluster;
}

const mf_cluster *mf_score_cluster(mf_score *s, const mf_measured *row, mf_judged *out)
{
	return mf_score_cluster_of(s, row->gpu, row->n_gpus, row->gpus_per_node, out);
}

const mf_consts *mf_score_consts(mf_score *s, const mf_cluster *cluster, mf_judged *out)
{
	struct sized_cluster *c = s->clusters;
	mf_err err;

	while (c && &c->cluster != cluster)
		c = c->next;
	if (!c) {
		mf_score_uncovered(out, "a cluster that was not looked up");
		return NULL;
	}
	if (!c->has_consts) {
		const char *overlay = s->overlay;

		c->has_consts = true;
		mf_consts_factory(&c->consts, cluster);
		if (!overlay)
			overlay = mf_consts_overlay_of(cluster->gpu);
		if (overlay && strcmp(overlay, "none") != 0 && mf_consts_overlay(&c->consts, overlay, &err) < 0)
			snprintf(c->no_consts, sizeof c->no_consts, "%.95s", err.msg);
	}
	if (*c->no_consts)
		mf_score_uncovered(out, "%s", c->no_consts);
	return *c->no_consts ? NULL : &c->consts;
}
