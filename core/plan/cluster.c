/* cluster.c: clusters from YAML, and other sizes of a known GPU by name. */
#include "plan_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		if ((st = (call)) < 0)                                                                                 \
			return st;                                                                                     \
	} while (0)

static const mf_choice fabric_choices[] = {
	{MF_FABRIC_NVLINK, "nvlink", "every GPU of a domain reaches every other over NVLink"},
	{MF_FABRIC_PCIE, "pcie", "GPUs talk through PCIe and host bridges"},
	{0, NULL, NULL},
};

mf_status mf_cluster_from_doc(mf_cluster *out, const mf_doc *doc, mf_err *err)
{
	static const char *const keys[] = {"name", "gpu", "sm", "sm_count", "tflops", "hbm_gb", "device_gib",
		"hbm_gbps", "l2_mb", "gpus_per_node", "nodes", "nvlink_domain", "fabric", "link_gbps",
		"link_latency_us", "nic_gbps", "nic_latency_us", "pcie_gbps", "host_memory_gbps", "host_gb", "grace",
		NULL};
	static const char *const rates[] = {"bf16", "fp8", "fp4", NULL};
	mf_cluster c;
	const mf_node *root = doc->root, *tflops;
	double gb = NAN, gib = NAN, mb = NAN;
	int fabric = MF_FABRIC_NVLINK;
	mf_status st;

	memset(&c, 0, sizeof(c));
	c.nodes = 1;
	c.nvlink_domain = 0;
	c.nic_gbps = c.nic_latency_us = c.host_bytes = NAN;
	mf_input_name(doc->name, c.name, sizeof(c.name));
	TRY(mf_only_keys(doc, root, keys, err));
	TRY(mf_get_string(doc, root, "name", c.name, sizeof(c.name), err));
	TRY(mf_need_string(doc, root, "gpu", c.gpu, sizeof(c.gpu), err));
	TRY(mf_need_u32(doc, root, "sm", 80, 129, &c.sm, err));
	TRY(mf_need_u32(doc, root, "sm_count", 1, 1024, &c.sm_count, err));
	c.family = c.sm < 89 ? MF_AMPERE : c.sm < 90 ? MF_ADA : c.sm < 100 ? MF_HOPPER : MF_BLACKWELL;
	tflops = mf_node_get(root, "tflops");
	if (!tflops)
		return mf_fail_at(err, MF_EINPUT, doc->name, root->line, "tflops",
			"missing: a map with bf16, and fp8 and fp4 where there is any");
	TRY(mf_only_keys(doc, tflops, rates, err));
	for (int i = 0; i < MF_DTYPE_COUNT; i++) {
		c.tflops[i] = NAN;
		TRY(mf_get_double(doc, tflops, rates[i], 0.1, 1e6, &c.tflops[i], err));
	}
	if (isnan(c.tflops[MF_BF16]))
		return mf_fail_at(err, MF_EINPUT, doc->name, tflops->line, "tflops.bf16", "missing");
	TRY(mf_need_double(doc, root, "hbm_gb", 1, 1e5, &gb, err));
	c.hbm_bytes = gb * MF_GB;
	gib = gb * MF_GB / MF_GIB;
	TRY(mf_get_double(doc, root, "device_gib", 1, 1e5, &gib, err));
	c.device_bytes = gib * MF_GIB;
	TRY(mf_need_double(doc, root, "hbm_gbps", 1, 1e6, &c.hbm_gbps, err));
	TRY(mf_need_double(doc, root, "l2_mb", 0.1, 1e5, &mb, err));
	c.l2_bytes = mb * MF_MIB;
	TRY(mf_need_u32(doc, root, "gpus_per_node", 1, 1024, &c.gpus_per_node, err));
	TRY(mf_get_u32(doc, root, "nodes", 1, 65536, &c.nodes, err));
	if ((uint64_t)c.gpus_per_node * c.nodes > 65536)
		return mf_fail_at(err, MF_EINPUT, doc->name, root->line, "nodes", "more than 65536 GPUs");
	TRY(mf_get_choice(doc, root, "fabric", fabric_choices, &fabric, err));
	c.fabric = (mf_fabric)fabric;
	c.nvlink_domain = c.fabric == MF_FABRIC_NVLINK ? c.gpus_per_node : 1;
	TRY(mf_get_u32(doc, root, "nvlink_domain", 1, 65536, &c.nvlink_domain, err));
	TRY(mf_need_double(doc, root, "link_gbps", 0.1, 1e5, &c.link_gbps, err));
	TRY(mf_need_double(doc, root, "link_latency_us", 0, 1e4, &c.link_latency_us, err));
	TRY(mf_get_double(doc, root, "nic_gbps", 0.01, 1e5, &c.nic_gbps, err));
	TRY(mf_get_double(doc, root, "nic_latency_us", 0, 1e5, &c.nic_latency_us, err));
	if (c.nodes > 1 && (isnan(c.nic_gbps) || isnan(c.nic_latency_us)))
		return mf_fail_at(err, MF_EINPUT, doc->name, root->line,
			isnan(c.nic_gbps) ? "nic_gbps" : "nic_latency_us", "missing: %u nodes need a network", c.nodes);
	TRY(mf_need_double(doc, root, "pcie_gbps", 0.1, 1e5, &c.pcie_gbps, err));
	TRY(mf_need_double(doc, root, "host_memory_gbps", 0.1, 1e5, &c.host_memory_gbps, err));
	gb = NAN;
	TRY(mf_get_double(doc, root, "host_gb", 1, 1e6, &gb, err));
	c.host_bytes = gb * MF_GB;
	TRY(mf_get_bool(doc, root, "grace", &c.grace, err));
	*out = c;
	return MF_OK;
}

/* Whole number without sign or leading zero at *at, followed by 'x'; moves *at behind the 'x'. */
static bool read_size(const char **at, uint32_t *value)
{
	const char *s = *at;
	uint32_t v = 0;

	if (*s < '1' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		v = v * 10 + (uint32_t)(*s - '0');
		if (v > 65536)
			return false;
	}
	if (*s != 'x')
		return false;
	*at = s + 1;
	*value = v;
	return true;
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

bool mf_same_gpu(const char *a, const char *b)
{
	char one[48], other[48];
	double gb, other_gb;

	gpu_essence(a, one, sizeof one, &gb);
	gpu_essence(b, other, sizeof other, &other_gb);
	return *one && strcmp(one, other) == 0 && isnan(gb) == isnan(other_gb) &&
	       (isnan(gb) || fabs(gb / other_gb - 1) < 0.1);
}

bool mf_cluster_of_gpu(mf_cluster *out, const char *gpu)
{
	char wanted[48], mine[48];
	double gb, own_gb;
	bool found = false;

	gpu_essence(gpu, wanted, sizeof wanted, &gb);
	/* The same name; else one that says the memory which the other leaves unsaid. */
	for (int tolerant = 0; tolerant < 2 && !found; tolerant++) {
		for (const char *const *name = mf_builtin_names("clusters"); *name; name++) {
			mf_cluster c;
			mf_doc doc;
			bool same;

			if (mf_builtin_open(&doc, "clusters", *name, NULL) < 0)
				continue;
			same = mf_cluster_from_doc(&c, &doc, NULL) == MF_OK;
			mf_doc_dispose(&doc);
			if (!same)
				continue;
			gpu_essence(c.gpu, mine, sizeof mine, &own_gb);
			same = !tolerant ? mf_same_gpu(c.gpu, gpu)
					 : strcmp(mine, wanted) == 0 && fabs(gb / (c.hbm_bytes / MF_GB) - 1) < 0.1;
			if (same && (!found || c.nodes < out->nodes)) {
				*out = c;
				found = true;
			}
		}
	}
	return found;
}

/* "GPUSxNAME" or "NODESxGPUSxNAME" of a GPU that some built-in cluster has. */
static bool sized_cluster(mf_cluster *out, const char *name)
{
	uint32_t size[2] = {1, 1};
	const char *at = name;
	int n = 0;
	mf_cluster c;

	while (n < 2 && read_size(&at, &size[n]))
		n++;
	if (n == 0 || !mf_cluster_of_gpu(&c, at))
		return false;
	if (n == 1) {
		size[1] = size[0];
		size[0] = 1;
	}
	if (size[1] > 1024 || (uint64_t)size[0] * size[1] > 65536 || strlen(name) >= sizeof(c.name))
		return false;
	if (c.fabric == MF_FABRIC_NVLINK) {
		/* A domain as wide as the node grows and shrinks with it; a rack-wide one stays, up to what there is. */
		uint32_t world = size[0] * size[1];

		c.nvlink_domain = c.nvlink_domain == c.gpus_per_node ? size[1]
				  : c.nvlink_domain < world          ? c.nvlink_domain
								     : world;
	}
	c.nodes = size[0];
	c.gpus_per_node = size[1];
	snprintf(c.name, sizeof(c.name), "%s", name);
	*out = c;
	return true;
}

mf_status mf_cluster_load(mf_cluster *out, const char *name_or_path, mf_err *err)
{
	mf_doc doc;
	mf_status st = mf_input_open(&doc, "clusters", name_or_path, err);

	if (st < 0) {
		if (st == MF_EINPUT && !mf_is_path(name_or_path) && sized_cluster(out, name_or_path)) {
			if (err)
				memset(err, 0, sizeof(*err));
			return MF_OK;
		}
		return st;
	}
	st = mf_cluster_from_doc(out, &doc, err);
	mf_doc_dispose(&doc);
	return st;
}
