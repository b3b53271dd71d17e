/* Any bytes as the text of a plan: what is accepted prints, reads back as the same value, and prints the same again. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), printed[MF_PLAN_TEXT_MAX], again[MF_PLAN_TEXT_MAX];
	mf_intern *intern = mf_intern_new();

	if (!text || !intern)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	for (int phase = MF_TRAIN; phase <= MF_SERVE; phase++) {
		mf_plan p, back;
		mf_err err = {0};
		mf_model m = {.layers = 27};
		uint16_t counts[512];
		size_t n;

		if (mf_plan_parse(&p, text, (mf_phase)phase, intern, &err) < 0) {
			if (!strstr(err.msg, "column") && strcmp(err.field, "plan") != 0)
				abort();
			continue;
		}
		mf_plan_format(&p, intern, printed);
		if (mf_plan_parse(&back, printed, (mf_phase)phase, intern, &err) < 0 ||
			memcmp(&p, &back, sizeof(p)) != 0)
			abort();
		mf_plan_format(&back, intern, again);
		if (strcmp(printed, again) != 0)
			abort();
		n = mf_plan_stages(&p, &m, intern, counts, MF_COUNT(counts), NULL);
		if (n) {
			uint32_t sum = 0;

			for (size_t i = 0; i < n; i++)
				sum += counts[i];
			if (sum != m.layers)
				abort();
		}
	}
	mf_intern_free(intern);
	free(text);
	return 0;
}
