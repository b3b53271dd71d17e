/* fake_nvml.c: the part of NVML that moefs calls, for a node of two GPUs that does not exist. */
#include <string.h>
#include <unistd.h>

struct memory {
	unsigned long long total, free, used;
};
struct load {
	unsigned gpu, memory;
};
struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out);
int nvmlDeviceGetName(void *d, char *out, unsigned size);
int nvmlDeviceGetMemoryInfo(void *d, struct memory *out);
int nvmlDeviceGetUtilizationRates(void *d, struct load *out);
int nvmlDeviceGetPowerUsage(void *d, unsigned *out);
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *out);

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out)
{
	*out = (char *)0 + 1 + i;
	return 0;
}

static int index_of(void *d)
{
	return (int)((char *)d - (char *)0) - 1;
}

int nvmlDeviceGetName(void *d, char *out, unsigned size)
{
	(void)d;
	strncpy(out, "NVIDIA H800", size);
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *d, struct memory *out)
{
	out->total = 85000000000ull;
	out->used = index_of(d) == 0 ? 42500000000ull : 1000000000ull;
	out->free = out->total - out->used;
	return 0;
}

int nvmlDeviceGetUtilizationRates(void *d, struct load *out)
{
	out->gpu = index_of(d) == 0 ? 87 : 0;
	out->memory = 0;
	return 0;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *out)
{
	(void)d;
	*out = 512000;
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *out)
{
	*n = 0;
	if (index_of(d) != 0)
		return 0;
	*n = 1;
	memset(out, 0, sizeof(*out));
	out->pid = (unsigned)getpid();
	out->used = 41000000000ull;
	return 0;
}
