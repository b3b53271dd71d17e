/* nvml.c: reads the node through libnvidia-ml, loaded at run time. */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* The part of NVML's C interface that is used here; its ABI is stable. */
typedef struct nvml_device *nvml_device;
typedef struct nvml_memory {
	unsigned long long total, free, used;
} nvml_memory;

struct nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *n);
	int (*device)(unsigned i, nvml_device *out);
	int (*name)(nvml_device d, char *out, unsigned size);
	int (*memory)(nvml_device d, nvml_memory *out);
};

static mf_status nvml_open(struct nvml *n, mf_err *err)
{
	/* ISO C has no conversion from object to function pointer; POSIX defines dlsym's result to allow this one. */
	struct {
		const char *name;
		void *slot;
	} wanted[] = {{"nvmlInit_v2", &n->init}, {"nvmlShutdown", &n->shutdown}, {"nvmlDeviceGetCount_v2", &n->count},
		{"nvmlDeviceGetHandleByIndex_v2", &n->device}, {"nvmlDeviceGetName", &n->name},
		{"nvmlDeviceGetMemoryInfo", &n->memory}};
	size_t i;

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
