/* Any bytes as an autotune report: kernels whose times are numbers between their points, or one error with its field. */
#include "autotune.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static mf_cluster cluster;
	mf_expert_layer layer = {MF_SERVE, MF_BF16, 2048, 1408, 8, 16};
	mf_autotune *a;
	mf_doc doc;
	mf_err err = {0};

	if (!cluster.gpu[0] && mf_cluster_load(&cluster, "8xh800", &err) < 0)
		abort();
	if (mf_doc_parse_json(&doc, "x.json", (const char *)data, size, &err) < 0)
		return 0;
	if (mf_autotune_from_doc(&a, &doc, &cluster, &err) < 0) {
		if (err.msg[0] == '\0' || a)
			abort();
	} else {
		for (size_t i = 0;; i++) {
			const uint16_t kernel = mf_autotune_kernel(a, &layer, i);
			mf_kernel_time t;
			if (!kernel)
				break;
			if (mf_autotune_time(a, kernel, &layer, &t) && !(t.forward_us > 0 && isfinite(t.forward_us)))
				abort();
		}
		mf_autotune_free(a);
	}
	mf_doc_dispose(&doc);
	return 0;
}
