/* nvml.c: reads the node through libnvidia-ml, loaded at run time. */
#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu.h"

/* The part of NVML's C interface that is used here; its ABI is stable. */
typedef struct nvml_device *nvml_device;
typedef struct nvml_memory {
	unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_load {
	unsigned gpu, memory; /* percent */
} nvml_load;
typedef struct nvml_process {
	unsigned pid;
	unsigned long long used; /* all ones when not available */
	unsigned gpu_instance, compute_instance;
} nvml_process;

struct nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *n);
	int (*device)(unsigned i, nvml_device *out);
	int (*name)(nvml_device d, char *out, unsigned size);
	int (*memory)(nvml_device d, nvml_memory *out);
	/* optional: NULL where the driver has none */
	int (*load)(nvml_device d, nvml_load *out);
	int (*power)(nvml_device d, unsigned *milliwatts);
	int (*temperature)(nvml_device d, int sensor, unsigned *celsius);
	int (*processes)(nvml_device d, unsigned *n, nvml_process *out);
};

static mf_status nvml_open(struct nvml *n, mf_err *err)
{
	/* ISO C has no conversion from object to function pointer; POSIX defines dlsym's result to allow this one. */
	struct {
		const char *name;
		void *slot;
	} wanted[] = {{"nvmlInit_v2", &n->init}, {"nvmlShutdown", &n->shutdown}, {"nvmlDeviceGetCount_v2", &n->count},
		{"nvmlDeviceGetHandleByIndex_v2", &n->device}, {"nvmlDeviceGetName", &n->name},
		{"nvmlDeviceGetMemoryInfo", &n->memory}},
	  optional[] = {{"nvmlDeviceGetUtilizationRates", &n->load}, {"nvmlDeviceGetPowerUsage", &n->power},
		  {"nvmlDeviceGetTemperature", &n->temperature},
		  {"nvmlDeviceGetComputeRunningProcesses_v2", &n->processes},
		  {"nvmlDeviceGetComputeRunningProcesses_v3", &n->processes}};
	size_t i;

	memset(n, 0, sizeof *n);
	n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return mf_fail(err, MF_EENV, "no GPU driver here (libnvidia-ml.so.1 cannot be loaded)");
	for (i = 0; i < MF_COUNT(wanted); i++) {
		void *symbol = dlsym(n->library, wanted[i].name);

		if (!symbol) {
			dlclose(n->library);
			return mf_fail(err, MF_EENV, "libnvidia-ml.so.1 lacks %s", wanted[i].name);
		}
		memcpy(wanted[i].slot, &symbol, sizeof symbol);
	}
	for (i = 0; i < MF_COUNT(optional); i++) {
		void *symbol = dlsym(n->library, optional[i].name);

		if (symbol)
			memcpy(optional[i].slot, &symbol, sizeof symbol);
	}
	return MF_OK;
}

/* Whether the product name ("NVIDIA H800 PCIe") has the word `gpu` ("H800"). */
static bool has_word(const char *product, const char *gpu)
{
	size_t len = strlen(gpu);
	const char *p;

	for (p = product; *p; p++) {
		size_t i = 0;

		while (i < len && toupper((unsigned char)p[i]) == toupper((unsigned char)gpu[i]))
			i++;
		if (i == len && (p == product || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[len]))
			return true;
	}
	return false;
}

/* RTX cards write their number apart from the word: "GeForce RTX 4090" is RTX4090 in the built-in files. */
static void squeeze(char *name)
{
	char *rtx = strstr(name, "RTX ");

	if (rtx)
		memmove(rtx + 3, rtx + 4, strlen(rtx + 4) + 1);
}

static mf_status from_product(mf_cluster *out, const char *product, unsigned count, double bytes, mf_err *err)
{
	const char *const *names = mf_builtin_names("clusters");
	mf_cluster c;
	mf_err ignored;

	for (; *names; names++) {
		if (mf_cluster_load(&c, *names, &ignored) < 0 || !has_word(product, c.gpu))
			continue;
		*out = c;
		out->gpus_per_node = count;
		out->nodes = 1;
		if (out->nvlink_domain > 1)
			out->nvlink_domain = count;
		out->device_bytes = bytes;
		snprintf(out->name, sizeof out->name, "this node, %ux%s", count, c.gpu);
		return MF_OK;
	}
	return mf_fail(err, MF_EENV,
		"this node's GPU, %s, is not among the built-in ones; describe it in a YAML file (--cluster)", product);
}

static mf_status read_node(const struct nvml *n, mf_cluster *out, mf_err *err)
{
	char product[96] = "", other[96];
	nvml_memory memory = {0, 0, 0};
	unsigned count = 0, i;
	nvml_device d;

	if (n->count(&count) != 0 || count == 0)
		return mf_fail(err, MF_EENV, "the driver reports no GPU");
	for (i = 0; i < count; i++) {
		if (n->device(i, &d) != 0 || n->name(d, other, sizeof other) != 0 || n->memory(d, &memory) != 0)
			return mf_fail(err, MF_EENV, "the driver does not describe GPU %u", i);
		if (i && strcmp(product, other) != 0)
			return mf_fail(err, MF_EENV, "this node mixes GPUs (%s and %s); describe it in a YAML file",
				product, other);
		memcpy(product, other, sizeof product);
	}
	squeeze(product);
	return from_product(out, product, count, (double)memory.total, err);
}

mf_status mf_gpu_cluster(mf_cluster *out, mf_err *err)
{
	struct nvml n;
	mf_status st = nvml_open(&n, err);

	if (st < 0)
		return st;
	if (n.init() != 0) {
		dlclose(n.library);
		return mf_fail(err, MF_EENV, "the GPU driver does not start");
	}
	st = read_node(&n, out, err);
	n.shutdown();
	dlclose(n.library);
	return st;
}

/* ---- watching ---- */

struct mf_gpu_watch {
	struct nvml n;
};

mf_status mf_gpu_watch_open(mf_gpu_watch **out, mf_err *err)
{
	mf_gpu_watch *w = calloc(1, sizeof *w);
	unsigned count = 0;
	mf_status st;

	*out = NULL;
	if (!w)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	if ((st = nvml_open(&w->n, err)) < 0) {
		free(w);
		return st;
	}
	if (w->n.init() != 0) {
		dlclose(w->n.library);
		free(w);
		return mf_fail(err, MF_EENV, "the GPU driver does not start (nvidia-smi says more)");
	}
	*out = w;
	if (w->n.count(&count) != 0 || count == 0) {
		mf_gpu_watch_close(w);
		*out = NULL;
		return mf_fail(err, MF_EENV, "the driver reports no GPU");
	}
	return MF_OK;
}

void mf_gpu_watch_close(mf_gpu_watch *w)
{
	if (!w)
		return;
	w->n.shutdown();
	dlclose(w->n.library);
	free(w);
}

/* First line of a file of /proc/PID, without its newline. */
static bool proc_line(char *out, size_t size, unsigned pid, const char *name)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
	out[0] = 0;
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(out, (int)size, f))
		out[0] = 0;
	fclose(f);
	out[strcspn(out, "\n")] = 0;
	return out[0] != 0;
}

static void describe_holder(mf_gpu_holder *h)
{
	char path[64];
	struct stat sb;
	struct passwd pw, *found = NULL;
	char text[1024];

	proc_line(h->name, sizeof h->name, h->pid, "comm");
	h->user[0] = 0;
	snprintf(path, sizeof path, "/proc/%u", h->pid);
	if (stat(path, &sb) < 0)
		return;
	if (getpwuid_r(sb.st_uid, &pw, text, sizeof text, &found) == 0 && found)
		snprintf(h->user, sizeof h->user, "%.31s", pw.pw_name);
	else
		snprintf(h->user, sizeof h->user, "uid %u", (unsigned)sb.st_uid);
}

static void read_state(const struct nvml *n, nvml_device d, mf_gpu_state *s)
{
	nvml_memory memory;
	nvml_load load;
	nvml_process process[64];
	unsigned v, count = MF_COUNT(process);

	memset(s, 0, sizeof *s);
	s->memory_used_bytes = s->memory_total_bytes = s->load = s->power_w = s->temperature_c = NAN;
	if (n->name(d, s->name, sizeof s->name) != 0)
		s->name[0] = 0;
	if (n->memory(d, &memory) == 0) {
		s->memory_used_bytes = (double)memory.used;
		s->memory_total_bytes = (double)memory.total;
	}
	if (n->load && n->load(d, &load) == 0)
		s->load = load.gpu / 100.0;
	if (n->power && n->power(d, &v) == 0)
		s->power_w = v / 1000.0;
	if (n->temperature && n->temperature(d, 0, &v) == 0)
		s->temperature_c = v;
	if (!n->processes || n->processes(d, &count, process) != 0)
		return;
	s->n_holders = count;
	for (unsigned i = 0; i < count && i < MF_MAX_HOLDERS; i++) {
		s->holders[i].pid = process[i].pid;
		s->holders[i].memory_bytes = process[i].used == ~0ull ? NAN : (double)process[i].used;
		describe_holder(&s->holders[i]);
	}
}

size_t mf_gpu_watch_read(mf_gpu_watch *w, mf_gpu_state *out, size_t cap)
{
	unsigned count = 0;

	if (w->n.count(&count) != 0)
		return 0;
	for (unsigned i = 0; i < count && i < cap; i++) {
		nvml_device d;
		if (w->n.device(i, &d) == 0) {
			read_state(&w->n, d, &out[i]);
		} else {
			memset(&out[i], 0, sizeof out[i]);
			out[i].memory_used_bytes = out[i].memory_total_bytes = out[i].load = NAN;
			out[i].power_w = out[i].temperature_c = NAN;
		}
	}
	return count;
}
