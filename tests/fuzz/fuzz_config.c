/* Any bytes as config.json: a model, whose layers and counts then hold together, or one error. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mf_doc doc;
	mf_model m;
	mf_err err = {0};
	mf_status st = mf_doc_parse_json(&doc, "config.json", (const char *)data, size, &err);

	if (st == MF_OK) {
		st = mf_model_from_doc(&m, &doc, &err);
		mf_doc_dispose(&doc);
	}
	if (st == MF_OK) {
		mf_param_count c;
		uint32_t moe = 0;

		mf_model_count(&m, &c);
		for (uint32_t i = 0; i < m.layers; i++)
			moe += m.moe_layer[i];
		if (moe != m.moe_layers || m.window_layers > m.layers || m.heads == 0 ||
			(m.experts && m.topk > m.experts) || c.active > c.total)
			abort();
	} else if (!memchr(err.msg, '\0', sizeof(err.msg)) || err.msg[0] == '\0') {
		abort();
	}
	return 0;
}
