/*
 * fit.c: from a folder of tables to constants. Every shape goes to one side of a split by its hash: four fifths fit the
 * curve, one fifth judges it.
 */
#include "spec.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* One shape in five judges. */
#define HELD_ONE_IN 5
/* Starts are tried on few rows, the best one is finished on more. Samples are by hash, so the same every time. */
#define SEARCH_ROWS 1200
#define FIT_ROWS 4000
/* Curves that miss the held-out rows by more than this in the median, or by this much in a tenth, are unsupported. */
#define BAR_MEDIAN 0.25
#define BAR_P90 1.2
/* Residuals below it count squared, above it by their size. */
#define SOFT 0.12

typedef struct job {
	const spec *s;
	const mf_table *t;
	const spec_gpu *gpu;
	double *errors; /* of the held-out rows */
	obs *fit, *held;
	size_t n_fit, n_held, n_used;
	size_t cap_fit, cap_held;
	mf_fit_curve *out;
	bool check;
} job;

static double robust_loss(void *payload, const double *x)
{
	const job *j = payload;
	double sum = 0;

	for (size_t i = 0; i < j->n_used; i++) {
		double e = log(j->s->predict(x, j->gpu, &j->fit[i]) / j->fit[i].us) / SOFT;

		sum += sqrt(1 + e * e) - 1;
	}
	return sum / (double)j->n_used;
}

static void judge(job *j, const double *x, double *median, double *p90, double *bias)
{
	double *e = j->errors;

	for (size_t i = 0; i < j->n_held; i++)
		e[i] = log(j->s->predict(x, j->gpu, &j->held[i]) / j->held[i].us);
	if (bias)
		*bias = mf_quantile(e, j->n_held, 0.5);
	for (size_t i = 0; i < j->n_held; i++)
		e[i] = fabs(e[i]);
	*median = mf_quantile(e, j->n_held, 0.5);
	if (p90)
		*p90 = mf_quantile(e, j->n_held, 0.9);
}

static int by_hash(const void *a, const void *b)
{
	const obs *x = a, *y = b;
	uint64_t s = x->shape ^ (uint64_t)x->row * UINT64_C(0x9e3779b97f4a7c15),
		 t = y->shape ^ (uint64_t)y->row * UINT64_C(0x9e3779b97f4a7c15), p = mf_random_u64(&s),
		 q = mf_random_u64(&t);

	return p != q ? (p > q) - (p < q) : (x->row > y->row) - (x->row < y->row);
}

static void reread(job *j)
{
	for (size_t i = 0; i < j->n_fit; i++)
		j->s->reread(&j->fit[i]);
	for (size_t i = 0; i < j->n_held; i++)
		j->s->reread(&j->held[i]);
	snprintf(j->out->note, sizeof j->out->note, "%s; %s", j->s->note, j->s->reread_note);
}

static void search(job *j, double *x, size_t n)
{
	j->n_used = j->n_fit < SEARCH_ROWS ? j->n_fit : SEARCH_ROWS;
	mf_minimize(robust_loss, j, x, j->s->lo, j->s->hi, n, 3);
	j->n_used = j->n_fit < FIT_ROWS ? j->n_fit : FIT_ROWS;
	mf_minimize(robust_loss, j, x, j->s->lo, j->s->hi, n, 0);
}

/* A constant that no row depends on stays what it was: these rows say nothing of it. */
static void keep_untold(job *j, double *x, size_t n)
{
	double least = robust_loss(j, x);

	for (size_t i = 0; i < n; i++) {
		double found = x[i];

		x[i] = j->out->value[i];
		if (robust_loss(j, x) != least)
			x[i] = found;
	}
}

static void fit_one(job *j)
{
	mf_fit_curve *c = j->out;
	const mf_curve_info *info = &mf_curve_infos[j->s->id];
	double x[MF_FIT_MAX_PARAMS];
	bool known = true;

	for (int i = 0; i < info->n; i++)
		known &= !isnan(c->value[i]);
	if (known)
		judge(j, c->value, &c->before_median, NULL, NULL);
	else
		c->before_median = NAN;
	if (!j->check) {
		qsort(j->fit, j->n_fit, sizeof *j->fit, by_hash);
		for (int i = 0; i < info->n; i++)
			x[i] = known ? c->value[i] : 0.5 * (j->s->lo[i] + j->s->hi[i]);
		search(j, x, (size_t)info->n);
		if (j->s->impossible && j->s->impossible(x)) {
			reread(j);
			search(j, x, (size_t)info->n);
		}
		if (known)
			keep_untold(j, x, (size_t)info->n);
		memcpy(c->value, x, sizeof x);
	} else if (!known) {
		c->median = c->p90 = c->bias = NAN;
		snprintf(c->reason, sizeof c->reason, "no constants to judge");
		c->supported = false;
		return;
	}
	judge(j, c->value, &c->median, &c->p90, &c->bias);
	if (!(c->median <= BAR_MEDIAN && c->p90 <= BAR_P90))
		snprintf(c->reason, sizeof c->reason,
			"does not follow the form: median error %.2f, p90 %.2f on held-out rows", c->median, c->p90);
	else if (j->s->useless && j->s->useless(c->value))
		snprintf(c->reason, sizeof c->reason, "%s", j->s->useless(c->value));
	c->supported = !c->reason[0];
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

static mf_status find_columns(reader *r, const char *path, mf_err *err)
{
	const char *lists[] = {r->s->columns, r->s->optional};
	int n = 0;

	for (int l = 0; l < 2; l++) {
		for (const char *s = lists[l] ? lists[l] : ""; *s;) {
			size_t len = strcspn(s, " ");
			char name[48];

			snprintf(name, sizeof name, "%.*s", (int)len, s);
			r->col[n] = mf_table_column(r->t, name);
			if (r->col[n] < 0 && l == 0)
				return mf_fail_at(err, MF_EINPUT, path, 1, name,
					"missing: no column and no key of the comment line has that name");
			n++;
			s += len + strspn(s + len, " ");
		}
	}
	r->kernel_col = mf_table_column(r->t, "kernel_source");
	return MF_OK;
}

/* The kernel that most rows of the curve were measured with: one curve is one kernel. */
static const char *main_kernel(const reader *r)
{
	enum { KERNELS = 16 };
	const char *name[KERNELS];
	size_t count[KERNELS], n = 0, best = 0;
	obs o;

	for (size_t row = 0; row < mf_table_rows(r->t); row++) {
		const char *k = mf_table_text(r->t, row, r->kernel_col);
		size_t i = 0;

		if (!r->s->take(r, row, &o))
			continue;
		while (i < n && strcmp(name[i], k) != 0)
			i++;
		if (i == KERNELS)
			continue;
		if (i == n) {
			name[n] = k;
			count[n++] = 0;
		}
		count[i]++;
	}
	for (size_t i = 1; i < n; i++)
		best = count[i] > count[best] ? i : best;
	return n ? name[best] : "";
}

static bool push(obs **list, size_t *n, size_t *cap, const obs *o)
{
	if (*n == *cap) {
		size_t more = *cap ? 2 * *cap : 256;
		obs *grown = realloc(*list, more * sizeof *grown);

		if (!grown)
			return false;
		*list = grown;
		*cap = more;
	}
	(*list)[(*n)++] = *o;
	return true;
}

static mf_status collect(job *j, const mf_cluster *gpu, const char *path, mf_fit_warn *warn, void *payload, mf_err *err)
{
	reader r = {.t = j->t, .s = j->s, .gpu = gpu};
	size_t rows = mf_table_rows(j->t);
	mf_fit_curve *c = j->out;
	const char *kernel;
	mf_status st;

	if ((st = find_columns(&r, path, err)) < 0)
		return st;
	kernel = main_kernel(&r);
	for (int i = 0; i < MF_FIT_DIMS; i++) {
		c->lo[i] = HUGE_VAL;
		c->hi[i] = -HUGE_VAL;
	}
	for (size_t row = 0; row < rows; row++) {
		if (r.kernel_col >= 0 && strcmp(mf_table_text(j->t, row, r.kernel_col), kernel) != 0)
			continue;
		for (int part = 0; part < (j->s->parts ? j->s->parts : 1); part++) {
			obs o = {.row = (uint32_t)row};
			bool good = true;

			r.part = part;
			if (!j->s->take(&r, row, &o))
				continue;
			for (int i = 0; i < SPEC_INPUTS; i++)
				good &= isfinite(o.x[i]) && o.x[i] >= 0;
			if (!good || !(o.us > 0) || !isfinite(o.us)) {
				if (warn)
					warn(payload, path, mf_table_line(j->t, row),
						"a shape that is no number; the row is left out");
				c->n_bad++;
				break;
			}
			for (int i = 0; i < MF_FIT_DIMS; i++) {
				c->lo[i] = fmin(c->lo[i], o.dim[i]);
				c->hi[i] = fmax(c->hi[i], o.dim[i]);
			}
			if (!(o.shape % HELD_ONE_IN ? push(&j->fit, &j->n_fit, &j->cap_fit, &o)
						    : push(&j->held, &j->n_held, &j->cap_held, &o)))
				return mf_fail_at(err, MF_ENOMEM, path, 0, NULL, "out of memory for its rows");
		}
	}
	j->errors = malloc((j->n_held + 1) * sizeof *j->errors);
	if (!j->errors)
		return mf_fail_at(err, MF_ENOMEM, path, 0, NULL, "out of memory for its rows");
	c->n_fit = j->n_fit;
	c->n_held = j->n_held;
	snprintf(c->source, sizeof c->source, "%s", j->s->file);
	snprintf(c->note, sizeof c->note, "%s", j->s->note ? j->s->note : "");
	snprintf(c->measured, sizeof c->measured, "%s %s, %s", mf_table_header(j->t, "framework"),
		mf_table_header(j->t, "version"), kernel);
	return MF_OK;
}

/* ---- the run ------------------------------------------------------------------------------------------------------
 */

#define MAX_TABLES 32

typedef struct run {
	const mf_fit_options *o;
	mf_fit *fit;
	struct {
		mf_table *t;
		const char *file;
		char path[1024];
	} tables[MAX_TABLES];
	size_t n_tables;
	job *jobs;
	size_t n_jobs, done;
	spec_gpu gpu;
	pthread_mutex_t lock;
} run;

static void run_job(void *payload, size_t item, unsigned worker)
{
	run *r = payload;

	(void)worker;
	fit_one(&r->jobs[item]);
	pthread_mutex_lock(&r->lock);
	r->done++;
	if (r->o->progress)
		r->o->progress(r->o->payload, mf_curve_infos[r->jobs[item].s->id].name, r->done, r->n_jobs);
	pthread_mutex_unlock(&r->lock);
}

static mf_status read_tables(run *r, mf_err *err)
{
	for (size_t i = 0; i < mf_fit_n_specs; i++) {
		const char *file = mf_fit_specs[i].file;
		size_t k = 0;
		mf_status st;
		int n;

		while (k < r->n_tables && strcmp(r->tables[k].file, file) != 0)
			k++;
		if (k < r->n_tables)
			continue;
		n = snprintf(r->tables[k].path, sizeof r->tables[k].path, "%s/%s", r->o->dir, file);
		if (n < 0 || (size_t)n >= sizeof r->tables[k].path)
			return mf_fail(err, MF_EINPUT, "the path of the tables is too long");
		if (access(r->tables[k].path, F_OK) != 0)
			continue;
		if (r->o->progress)
			r->o->progress(r->o->payload, file, 0, 0);
		r->tables[k].file = file;
		if ((st = mf_table_read(&r->tables[k].t, r->tables[k].path, r->o->warn, r->o->payload, err)) < 0)
			return st;
		r->n_tables++;
		r->fit->n_rows += mf_table_rows(r->tables[k].t);
		r->fit->n_bad += mf_table_bad(r->tables[k].t);
	}
	if (!r->n_tables && access(r->o->dir, R_OK | X_OK) != 0)
		return mf_fail_at(
			err, MF_EINPUT, r->o->dir, 0, NULL, "cannot be read as a folder: %s", strerror(errno));
	if (!r->n_tables)
		return mf_fail_at(err, MF_EINPUT, r->o->dir, 0, NULL,
			"no table of operations here: expected files such as gemm_perf.csv or nccl_perf.csv");
	return MF_OK;
}

/* The built-in GPU that a device name such as "NVIDIA A100-SXM4-80GB" means. */
static bool gpu_of_device(mf_cluster *out, const char *device)
{
	char name[64];

	snprintf(name, sizeof name, "8x%.*s", (int)strcspn(device, "-"), device);
	return mf_cluster_load(out, name, NULL) == MF_OK;
}

static mf_status find_gpu(run *r, mf_err *err)
{
	for (size_t i = 0; i < r->n_tables; i++) {
		const char *device = mf_table_header(r->tables[i].t, "device");

		if (!*device)
			continue;
		if (r->fit->device[0] && strcasecmp(device, r->fit->device) != 0)
			return mf_fail_at(err, MF_EINPUT, r->tables[i].path, 1, "device",
				"%s, where the tables before it are of %s; one folder is one system", device,
				r->fit->device);
		snprintf(r->fit->device, sizeof r->fit->device, "%s", device);
	}
	if (r->o->gpu)
		r->fit->gpu = *r->o->gpu;
	else if (!r->fit->device[0])
		return mf_fail_at(err, MF_EINPUT, r->o->dir, 0, NULL, "no table names its device; name it with --gpu");
	else if (!gpu_of_device(&r->fit->gpu, r->fit->device))
		return mf_fail_at(err, MF_EINPUT, r->o->dir, 0, NULL,
			"the datasheet of %s is not built in; give one with --cluster FILE, or name a built-in GPU "
			"with --gpu",
			r->fit->device);
	if (!r->fit->device[0])
		snprintf(r->fit->device, sizeof r->fit->device, "%s", r->fit->gpu.gpu);
	return MF_OK;
}

static mf_status make_jobs(run *r, mf_err *err)
{
	mf_consts factory;
	const mf_consts *k = r->o->consts;
	mf_status st;

	if (!k) {
		mf_consts_factory(&factory, &r->fit->gpu);
		k = &factory;
	}
	r->jobs = calloc(mf_fit_n_specs, sizeof *r->jobs);
	r->fit->curves = calloc(mf_fit_n_specs, sizeof *r->fit->curves);
	if (!r->jobs || !r->fit->curves)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	for (size_t i = 0; i < mf_fit_n_specs; i++) {
		const spec *s = &mf_fit_specs[i];
		const mf_curve_info *info = &mf_curve_infos[s->id];
		job *j = &r->jobs[r->n_jobs];
		mf_fit_curve *c = &r->fit->curves[r->n_jobs];
		size_t t = 0;

		while (t < r->n_tables && strcmp(r->tables[t].file, s->file) != 0)
			t++;
		if (t == r->n_tables || (s->applies && !s->applies(&r->fit->gpu)))
			continue;
		*j = (job){.s = s, .t = r->tables[t].t, .gpu = &r->gpu, .out = c, .check = r->o->check};
		*c = (mf_fit_curve){.id = s->id};
		for (int p = 0; p < info->n; p++)
			c->value[p] = k->v[info->first + (mf_const_id)p];
		st = collect(j, &r->fit->gpu, r->tables[t].path, r->o->warn, r->o->payload, err);
		/* A dtype the table does not have leaves no rows; too few say nothing. */
		if (st == MF_OK && j->n_fit >= (size_t)(4 * info->n) && j->n_held >= 3) {
			r->n_jobs++;
			continue;
		}
		free(j->fit);
		free(j->held);
		free(j->errors);
		if (st < 0)
			return st;
	}
	r->fit->n_curves = r->n_jobs;
	if (!r->n_jobs)
		return mf_fail_at(err, MF_EINPUT, r->o->dir, 0, NULL, "no curve has enough rows in these tables");
	return MF_OK;
}

mf_status mf_fit_gpu(mf_cluster *out, const mf_fit_options *o, mf_err *err)
{
	mf_fit_options quiet = *o;
	mf_fit fit = {0};
	run *r = calloc(1, sizeof *r);
	mf_status st;

	if (!r)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	quiet.warn = NULL;
	quiet.progress = NULL;
	r->o = &quiet;
	r->fit = &fit;
	if ((st = read_tables(r, err)) == MF_OK && (st = find_gpu(r, err)) == MF_OK)
		*out = fit.gpu;
	for (size_t i = 0; i < MAX_TABLES; i++)
		mf_table_free(r->tables[i].t);
	free(r);
	return st;
}

mf_status mf_fit_run(mf_fit *out, const mf_fit_options *o, mf_err *err)
{
	run *r = calloc(1, sizeof *r);
	mf_pool *pool = NULL;
	mf_consts factory;
	mf_status st;

	memset(out, 0, sizeof *out);
	if (!r)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	r->o = o;
	r->fit = out;
	pthread_mutex_init(&r->lock, NULL);
	if ((st = read_tables(r, err)) < 0 || (st = find_gpu(r, err)) < 0)
		goto done;
	r->gpu.rates = mf_gpu_rates_warm(&out->gpu);
	mf_consts_factory(&factory, &out->gpu);
	r->gpu.link_share = mf_link_share(&out->gpu, &factory);
	r->gpu.mxfp4_peak = r->gpu.rates.peak[out->gpu.family == MF_BLACKWELL ? MF_FP8 : MF_BF16];
	if ((st = make_jobs(r, err)) < 0 || (st = mf_pool_new(&pool, o->threads, err)) < 0)
		goto done;
	mf_pool_run(pool, r->n_jobs, run_job, r);
	for (size_t i = 0; i < r->n_jobs; i++)
		out->n_bad += out->curves[i].n_bad;
done:
	mf_pool_free(pool);
	for (size_t i = 0; i < r->n_jobs; i++) {
		free(r->jobs[i].fit);
		free(r->jobs[i].held);
		free(r->jobs[i].errors);
	}
	for (size_t i = 0; i < MAX_TABLES; i++)
		mf_table_free(r->tables[i].t);
	free(r->jobs);
	pthread_mutex_destroy(&r->lock);
	free(r);
	if (st < 0)
		mf_fit_dispose(out);
	return st;
}

void mf_fit_dispose(mf_fit *f)
{
	free(f->curves);
	memset(f, 0, sizeof *f);
}
