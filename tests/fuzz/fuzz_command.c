/* fuzz_command.c: any bytes as a command file: JSON, NUL-separated words or a shell script, and the readers behind. */
#define _GNU_SOURCE /* memfd_create */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64], text[MF_PLAN_TEXT_MAX];
	int fd = memfd_create("command", MFD_CLOEXEC);
	mf_intern *intern = mf_intern_new();
	mf_command c;
	mf_plan again;
	mf_err err;

	if (fd < 0 || !intern || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (mf_command_read_file(&c, path, intern, &err) == MF_OK) {
		/* What was read is a plan: its text reads back. */
		mf_plan_format(&c.plan, intern, text);
		if (mf_plan_validate(&c.plan, &err) == MF_OK && mf_plan_parse(&again, text, c.phase, intern, &err) < 0)
			abort();
		mf_command_dispose(&c);
	}
	mf_intern_free(intern);
	close(fd);
	return 0;
}
