/* jobfile.c: news of jobs from a file or pipe of JSON lines. */
#include "tui.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192

struct mf_job_file {
	int fd;
	bool ended;
	mf_phase phase;
	mf_intern *intern;
	char bytes[LINE_MAX_BYTES];
	size_t len;
	bool skipping; /* the rest of a line that was too long */
};

mf_status mf_job_file_open(mf_job_file **out, const char *path, const mf_inputs *in, mf_err *err)
{
	mf_job_file *f = calloc(1, sizeof(*f));

	*out = NULL;
	if (!f)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	/* Reading and writing: a pipe whose writers come and go has no end then. */
	struct stat sb;
	bool fifo = stat(path, &sb) == 0 && S_ISFIFO(sb.st_mode);
	f->fd = open(path, (fifo ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
	if (f->fd < 0) {
		mf_status st = mf_fail_at(err, MF_EINPUT, path, 0, NULL, "cannot be read: %s", strerror(errno));
		free(f);
		return st;
	}
	f->phase = in->workload->phase;
	f->intern = in->intern;
	*out = f;
	return MF_OK;
}

void mf_job_file_close(mf_job_file *f)
{
	if (!f)
		return;
	close(f->fd);
	free(f);
}

static void plain_line(mf_job_news *out, const char *text, size_t len)
{
	out->tab = MF_SIDE_LOG;
	snprintf(out->line, sizeof(out->line), "%.*s", (int)(len < sizeof(out->line) ? len : sizeof(out->line) - 1),
		text);
}

static void read_news(mf_job_file *f, const char *text, size_t len, mf_job_news *out)
{
	mf_doc doc;
	mf_err ignored;

	memset(out, 0, sizeof(*out));
	if (len == 0 || text[0] != '{' || mf_doc_parse_json(&doc, "job", text, len, &ignored) < 0) {
		plain_line(out, text, len);
		return;
	}
	const mf_node *tab = mf_node_get(doc.root, "tab"), *line = mf_node_get(doc.root, "line"),
		      *plan = mf_node_get(doc.root, "plan"), *throughput = mf_node_get(doc.root, "throughput");
	int v = tab ? mf_choice_value(mf_side_tab_choices, tab->text) : MF_SIDE_LOG;
	out->tab = v < 0 || v >= MF_SIDE_NODE ? MF_SIDE_LOG : (mf_side_tab)v;
	if (line)
		snprintf(out->line, sizeof(out->line), "%s", line->text);
	out->measures = plan && throughput && throughput->kind == MF_NUMBER && throughput->number > 0 &&
			mf_plan_parse(&out->plan, plan->text, f->phase, f->intern, &ignored) == MF_OK;
	out->throughput = out->measures ? throughput->number : NAN;
	if (!line && !out->measures)
		plain_line(out, text, len);
	mf_doc_dispose(&doc);
}

static int job_fd(void *payload)
{
	mf_job_file *f = payload;
	return f->ended ? -1 : f->fd;
}

static bool job_next(void *payload, mf_job_news *out)
{
	mf_job_file *f = payload;

	for (;;) {
		char *end = memchr(f->bytes, '\n', f->len);
		size_t used = end ? (size_t)(end - f->bytes) + 1 : 0;
		if (!end && f->len == sizeof(f->bytes))
			used = f->len; /* longer than any line has reason to be: its beginning is shown */
		if (used > 0) {
			size_t len = end ? used - 1 : used;
			bool show = !f->skipping;
			if (show)
				read_news(f, f->bytes, len, out);
			f->skipping = !end;
			memmove(f->bytes, f->bytes + used, f->len - used);
			f->len -= used;
			if (show)
				return true;
			continue;
		}
		ssize_t n = f->ended ? 0 : read(f->fd, f->bytes + f->len, sizeof(f->bytes) - f->len);
		if (n > 0) {
			f->len += (size_t)n;
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		f->ended = true;
		if (f->len == 0)
			return false;
		/* The last line of a file may lack its newline. */
		read_news(f, f->bytes, f->len, out);
		f->len = 0;
		return true;
	}
}

mf_job_source mf_job_file_source(mf_job_file *f)
{
	return (mf_job_source){f, job_fd, job_next};
}
