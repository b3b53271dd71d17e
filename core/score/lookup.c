/* lookup.c: models, clusters and constants by the names that measured rows use, loaded once a run. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

mf_arena *mf_score_arena(mf_score *s)
{
	return s->arena;
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

static bool built_in(const char *kind, const char *name)
{
	for (const char *const *n = mf_builtin_names(kind); *n; n++)
		if (strcmp(*n, name) == 0)
			return true;
	return false;
}

static void lower(char *out, size_t size, const char *text)
{
	size_t i = 0;

	for (; text[i] && i + 1 < size; i++)
		out[i] = (char)tolower((unsigned char)text[i]);
	out[i] = '\0';
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

/*
 * A GPU's name without its maker, form and stacks: "NVIDIA H100-80GB-HBM3" and "h100_sxm" are "h100"; *gb is the memory
 * it says, NaN when none. Words that name another card (PCIe, NVL) stay.
 */
static void gpu_essence(const char *name, char *out, size_t size, double *gb)
{
	static const char *const said[] = {"nvidia", "geforce", "tesla", "dgx", "hgx", "gpu", "sxm", "sxm2", "sxm3",
		"sxm4", "sxm5", "sxm6", "hbm2", "hbm2e", "hbm3", "hbm3e", "nvl72", "tensor", "core", "blackwell",
		"server", "edition"};
	size_t n = 0;

	*gb = NAN;
	while (*name) {
		size_t len = 0;
		char word[24], *end;
		double v;
		bool skip = false;

		for (; isalnum((unsigned char)name[len]); len++)
			if (len + 1 < sizeof word)
				word[len] = (char)tolower((unsigned char)name[len]);
		word[len < sizeof word ? len : sizeof word - 1] = '\0';
		name += len + (name[len] != '\0');
		for (size_t i = 0; i < MF_COUNT(said); i++)
			skip |= strcmp(said[i], word) == 0;
		v = strtod(word, &end);
		if (end != word && strcmp(end, "gb") == 0) {
			*gb = v;
			skip = true;
		}
		for (size_t i = 0; !skip && word[i] && n + 1 < size; i++)
			out[n++] = word[i];
	}
	out[n] = '\0';
	if (strcmp(out, "rtxpro6000") == 0)
		snprintf(out, size, "rtx6000pro");
}

/*
 * GPU of a built-in cluster that a name means, and its GPUs a node: the very name first, then one that differs in what
 * gpu_essence leaves out and in no memory size. The smallest cluster stands for the GPU. False when there is none.
 */
static bool find_gpu(const char *name, char gpu[48], uint32_t *per_node)
{
	char wanted[48], mine[48];
	double gb, own_gb;

	gpu_essence(name, wanted, sizeof wanted, &gb);
	for (int tolerant = 0; tolerant < 2; tolerant++) {
		uint32_t nodes = 0;

		for (const char *const *n = mf_builtin_names("clusters"); *n; n++) {
			mf_cluster c;
			bool same;

			if (mf_cluster_load(&c, *n, NULL) < 0)
				continue;
			gpu_essence(c.gpu, mine, sizeof mine, &own_gb);
			same = !tolerant ? strcasecmp(c.gpu, name) == 0
					 : strcmp(mine, wanted) == 0 &&
						   (isnan(gb) ? isnan(own_gb)
							      : fabs(gb / (c.hbm_bytes / MF_GB) - 1) < 0.1);
			if (same && (!nodes || c.nodes < nodes)) {
				nodes = c.nodes;
				*per_node = c.gpus_per_node;
				snprintf(gpu, 48, "%s", c.gpu);
			}
		}
		if (nodes)
			return true;
	}
	return false;
}

static void load_sized(struct sized_cluster *c)
{
	uint32_t node = 0, n;
	char name[96], gpu[48];
	mf_err err;

	if (!*c->gpu) {
		snprintf(c->why_not, sizeof c->why_not, "GPU not stated");
		return;
	}
	if (isnan(c->n_gpus)) {
		snprintf(c->why_not, sizeof c->why_not, "number of GPUs not stated");
		return;
	}
	if (!find_gpu(c->gpu, gpu, &node) || c->n_gpus > 65536) {
		snprintf(c->why_not, sizeof c->why_not, "no built-in cluster of %.40s", c->gpu);
		return;
	}
	n = (uint32_t)c->n_gpus;
	if (!isnan(c->gpus_per_node) && c->gpus_per_node <= 1024)
		node = (uint32_t)c->gpus_per_node;
	if (node > n)
		node = n;
	/* Clusters are of equal nodes: 12 GPUs on nodes of 8 are taken as two of 6. */
	while (n % node)
		node--;
	snprintf(name, sizeof name, "%ux%ux%.40s", n / node, node, gpu);
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
	char own[48];
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
		lower(own, sizeof own, cluster->gpu);
		if (!overlay && built_in("calibrated", own))
			overlay = own;
		if (overlay && strcmp(overlay, "none") != 0 && mf_consts_overlay(&c->consts, overlay, &err) < 0)
			snprintf(c->no_consts, sizeof c->no_consts, "%.95s", err.msg);
	}
	if (*c->no_consts)
		mf_score_uncovered(out, "%s", c->no_consts);
	return *c->no_consts ? NULL : &c->consts;
}
