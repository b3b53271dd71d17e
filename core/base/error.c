/* error.c: statuses and errors. */
#include <string.h>

#include "base.h"

static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = from ? strlen(from) : 0;

	if (n >= size) {
		/* A path's tail says more than its head. */
		from += n - (size - 1);
		n = size - 1;
	}
	if (n)
		memcpy(to, from, n);
	to[n] = '\0';
}

static void fill(mf_err *err, mf_status st, const char *file, int line, const char *field, const char *fmt, va_list ap)
{
	err->status = st;
	err->line = line;
	copy_text(err->file, sizeof err->file, file);
	copy_text(err->field, sizeof err->field, field);
	err->detail[0] = '\0';
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
}

mf_status mf_fail(mf_err *err, mf_status st, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		fill(err, st, NULL, 0, NULL, fmt, ap);
		va_end(ap);
	}
	return st;
}

mf_status mf_fail_at(mf_err *err, mf_status st, const char *file, int line, const char *field, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		fill(err, st, file, line, field, fmt, ap);
		va_end(ap);
	}
	return st;
}

const char *mf_err_text(const mf_err *err, char out[MF_ERR_TEXT_MAX])
{
	char line[16] = "";

	if (err->line)
		snprintf(line, sizeof line, ":%d", err->line);
	snprintf(out, MF_ERR_TEXT_MAX, "%s%s%s%s%s%s", err->file, err->file[0] ? line : "", err->file[0] ? ": " : "",
		err->field, err->field[0] ? ": " : "", err->msg);
	return out;
}

int mf_status_exit_code(mf_status st)
{
	switch (st) {
	case MF_OK: return 0;
	case MF_EREFUSED:
	case MF_ECANCELED: return 1;
	case MF_EINPUT:
	case MF_EIO: return 2;
	case MF_EENV: return 3;
	case MF_ENOMEM:
	case MF_EBUG: break;
	}
	return 4;
}
