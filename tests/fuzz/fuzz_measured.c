/* Any bytes as a table of measured rows: rows whose texts end inside the table, or one error. */
#include "score.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mf_measured_table t;
	mf_err err = {0};
	char text[16];

	if (mf_measured_parse(&t, "x.csv", (const char *)data, size, &err) < 0) {
		if (err.msg[0] == '\0')
			abort();
		return 0;
	}
	for (size_t i = 0; i < t.n; i++) {
		if (!*t.rows[i].id || strlen(t.rows[i].note) > size)
			abort();
		mf_measured_note(&t.rows[i], "engine", text, sizeof text);
	}
	mf_measured_dispose(&t);
	return 0;
}
