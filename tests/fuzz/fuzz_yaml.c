/* Any bytes as the YAML of a cluster, workload, stack or model: a value or one error. */
#include "plan.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mf_doc doc;
	mf_cluster cluster;
	mf_workload workload;
	mf_stack stack;
	mf_model model;
	mf_err err = {0};

	if (mf_doc_parse_yaml(&doc, "x.yaml", (const char *)data, size, &err) < 0) {
		if (err.msg[0] == '\0')
			abort();
		return 0;
	}
	if (mf_cluster_from_doc(&cluster, &doc, &err) == MF_OK && mf_cluster_world(&cluster) == 0)
		abort();
	if (mf_workload_from_doc(&workload, &doc, &err) == MF_OK && workload.n_micro_batches == 0)
		abort();
	(void)mf_stack_from_doc(&stack, &doc, &err);
	(void)mf_model_from_doc(&model, &doc, &err);
	mf_doc_dispose(&doc);
	return 0;
}
