/* child.c: one child process, from fork to the end of its group. */
#define _GNU_SOURCE 1 /* pipe2 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERRORS_KEPT 4096
#define MAX_LINE (16u << 20)

extern char **environ;

struct mf_child {
	pid_t pid;
	int in, out, err; /* our ends; -1 when closed */
	mf_buf pending;   /* output read but not yet given as lines */
	size_t given;     /* bytes of `pending` already given */
	char errors[ERRORS_KEPT + 1];
	size_t n_errors;
	const volatile int *stop;
	char name[128];
};

bool mf_find_program(const char *name, char *out, size_t size)
{
	const char *path = getenv("PATH"), *end;
	int n;

	if (strchr(name, '/')) {
		n = snprintf(out, size, "%s", name);
		return n > 0 && (size_t)n < size && access(out, X_OK) == 0;
	}
	for (path = path ? path : "/usr/bin:/bin"; *name; path = end + 1) {
		end = strchr(path, ':');
		end = end ? end : path + strlen(path);
		n = snprintf(out, size, "%.*s/%s", (int)(end - path), end == path ? "." : path, name);
		if (end == path)
			n = snprintf(out, size, "./%s", name);
		if (n > 0 && (size_t)n < size && access(out, X_OK) == 0)
			return true;
		if (!*end)
			break;
	}
	return false;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* A descriptor above 2, so that it is never one of the three the child gets; the low one is closed. */
static int lifted(int fd)
{
	int high;

	if (fd < 0 || fd > 2)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return high;
}

static bool make_pair(int ends[2], bool socket)
{
	/* Input goes over a socket: send() can be told not to raise SIGPIPE, which write() on a pipe cannot. */
	int bad = socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC);

	if (bad) {
		ends[0] = ends[1] = -1;
		return false;
	}
	ends[0] = lifted(ends[0]);
	ends[1] = lifted(ends[1]);
	return ends[0] >= 0 && ends[1] >= 0;
}

/* In the child, between fork and exec: only calls that are safe there. Writes errno to `report` when exec fails. */
static void become(const char *program, const mf_child_opts *o, int in, int out, int err, int report)
{
	struct sigaction act;
	sigset_t none;
	int e;

	setpgid(0, 0);
	memset(&act, 0, sizeof act);
	act.sa_handler = SIG_DFL;
	for (int s = 1; s < 32; s++)
		sigaction(s, &act, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
#ifdef CLOSE_RANGE_CLOEXEC
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); /* what a library opened without saying so */
#endif
	if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0)
		execve(program, (char *const *)o->argv, o->env ? (char *const *)o->env : environ);
	e = errno;
	if (write(report, &e, sizeof e) < 0)
		_exit(126);
	_exit(127);
}

mf_status mf_child_start(mf_child **out, const mf_child_opts *o, mf_err *err)
{
	int in[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1}, report[2] = {-1, -1}, failed = 0;
	char program[1024];
	ssize_t got;
	mf_child *c;

	*out = NULL;
	if (!mf_find_program(o->argv[0], program, sizeof program))
		return mf_fail(err, MF_EENV,
			strchr(o->argv[0], '/') ? "%s is no program that can be run" : "%s is not on PATH", o->argv[0]);
	c = calloc(1, sizeof *c);
	if (!c)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	c->in = c->out = c->err = -1;
	c->stop = o->stop;
	snprintf(c->name, sizeof c->name, "%s", o->argv[0]);
	if (!make_pair(in, true) || !make_pair(output, false) || !make_pair(errors, false) ||
		!make_pair(report, false) || (c->pid = fork()) < 0)
		failed = errno ? errno : EMFILE;
	else if (c->pid == 0)
		become(program, o, in[0], output[1], errors[1], report[1]);
	close_fd(&in[0]);
	close_fd(&output[1]);
	close_fd(&errors[1]);
	close_fd(&report[1]);
	c->in = in[1];
	c->out = output[0];
	c->err = errors[0];
	if (!failed) {
		setpgid(c->pid, c->pid); /* both sides do it: whoever is first */
		do
			got = read(report[0], &failed, sizeof failed);
		while (got < 0 && errno == EINTR);
		if (got != (ssize_t)sizeof failed)
			failed = 0;
	}
	close_fd(&report[0]);
	if (!failed) {
		fcntl(c->in, F_SETFL, O_NONBLOCK);
		fcntl(c->out, F_SETFL, O_NONBLOCK);
		fcntl(c->err, F_SETFL, O_NONBLOCK);
		*out = c;
		return MF_OK;
	}
	if (c->pid > 0)
		waitpid(c->pid, NULL, 0);
	close_fd(&c->in);
	close_fd(&c->out);
	close_fd(&c->err);
	free(c);
	return mf_fail(err, MF_EENV, "cannot start %s: %s", program, strerror(failed));
}

const char *mf_child_errors(const mf_child *c)
{
	return c->errors;
}

/* Takes what stands on the error pipe; the newest ERRORS_KEPT bytes are kept. */
static void drain_errors(mf_child *c)
{
	char bytes[2048];
	ssize_t n;

	while (c->err >= 0 && (n = read(c->err, bytes, sizeof bytes)) != 0) {
		size_t keep;

		if (n < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				return;
			break;
		}
		keep = c->n_errors + (size_t)n > ERRORS_KEPT ? ERRORS_KEPT - (size_t)n : c->n_errors;
		memmove(c->errors, c->errors + c->n_errors - keep, keep);
		memcpy(c->errors + keep, bytes, (size_t)n);
		c->n_errors = keep + (size_t)n;
		c->errors[c->n_errors] = '\0';
	}
	close_fd(&c->err);
}

/* Puts the child's last words into the error. */
static mf_status ended(mf_child *c, mf_err *err, mf_status st, const char *what)
{
	size_t room = sizeof err->detail - 1, from;

	drain_errors(c);
	mf_fail(err, st, "%s %s", c->name, what);
	if (err) {
		while (c->n_errors && strchr(" \n\t", c->errors[c->n_errors - 1]))
			c->errors[--c->n_errors] = '\0';
		from = c->n_errors > room ? c->n_errors - room : 0;
		snprintf(err->detail, sizeof err->detail, "%s", c->errors + from);
	}
	return st;
}

/* Waits until `fd` is ready for `events` or the limit passes; takes errors meanwhile. */
static mf_status wait_for(mf_child *c, int fd, short events, double until, mf_err *err)
{
	for (;;) {
		struct pollfd fds[2] = {{fd, events, 0}, {c->err, POLLIN, 0}};
		double left = until - mf_now_ms();
		int n;

		if (c->stop && *c->stop)
			return mf_fail(err, MF_ECANCELED, "stopped");
		if (left <= 0)
			return ended(c, err, MF_EIO, "did not answer in time");
		/* Woken now and then: a stop may come from another thread, which interrupts no poll of ours. */
		n = poll(fds, c->err >= 0 ? 2 : 1, left < 100 ? (int)left + 1 : 100);
		if (n < 0 && errno != EINTR)
			return ended(c, err, MF_EIO, strerror(errno));
		if (n <= 0)
			continue;
		if (fds[1].revents && c->err >= 0)
			drain_errors(c);
		if (fds[0].revents)
			return MF_OK;
	}
}

mf_status mf_child_write(mf_child *c, const void *data, size_t len, double limit_ms, mf_err *err)
{
	double until = mf_now_ms() + limit_ms;
	const char *at = data;
	mf_status st;

	while (len) {
		ssize_t n = c->in < 0 ? -1 : send(c->in, at, len, MSG_NOSIGNAL);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (c->in >= 0 && (errno == EAGAIN || errno == EINTR)) {
			if ((st = wait_for(c, c->in, POLLOUT, until, err)) < 0)
				return st;
		} else {
			return ended(c, err, MF_EIO, "ended");
		}
	}
	return MF_OK;
}

mf_status mf_child_read_line(mf_child *c, mf_buf *line, double limit_ms, mf_err *err)
{
	double until = mf_now_ms() + limit_ms;
	size_t looked = c->given;
	mf_status st;

	mf_buf_clear(line);
	for (;;) {
		const char *text = mf_buf_text(&c->pending), *newline;
		char bytes[16384];
		ssize_t n;

		newline = c->pending.len > looked ? memchr(text + looked, '\n', c->pending.len - looked) : NULL;
		if (newline) {
			mf_buf_add(line, text + c->given, (size_t)(newline - text) - c->given);
			c->given = (size_t)(newline - text) + 1;
			if (c->given == c->pending.len) {
				mf_buf_clear(&c->pending);
				c->given = 0;
			}
			return MF_OK;
		}
		looked = c->pending.len;
		if (looked - c->given > MAX_LINE)
			return ended(c, err, MF_EIO, "wrote a line without an end");
		if ((st = wait_for(c, c->out, POLLIN, until, err)) < 0)
			return st;
		n = read(c->out, bytes, sizeof bytes);
		if (n > 0)
			mf_buf_add(&c->pending, bytes, (size_t)n);
		else if (n == 0)
			return ended(c, err, MF_EIO, "ended without an answer");
		else if (errno != EAGAIN && errno != EINTR)
			return ended(c, err, MF_EIO, strerror(errno));
	}
}

/* True once the leader has ended; it stays unreaped, so that its group's number stays its own. */
static bool gone(pid_t pid, double limit_ms)
{
	double until = mf_now_ms() + limit_ms;

	for (int pause = 1;; pause = pause < 20 ? pause * 2 : pause) {
		siginfo_t info;

		memset(&info, 0, sizeof info);
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid)
			return true;
		if (mf_now_ms() >= until)
			return false;
		poll(NULL, 0, pause);
	}
}

mf_exit mf_child_end(mf_child *c, double grace_ms)
{
	mf_exit e = {false, 0, 0, false};
	int status = 0;

	if (!c)
		return e;
	close_fd(&c->in);
	close_fd(&c->out); /* a child that still writes gets EPIPE instead of waiting for us */
	close_fd(&c->err);
	if (!gone(c->pid, grace_ms)) {
		e.killed = true;
		kill(-c->pid, SIGTERM);
		if (!gone(c->pid, grace_ms))
			kill(-c->pid, SIGKILL);
	}
	/* Whatever the leader left behind in its group goes before its number can be anyone else's. */
	gone(c->pid, 1e9);
	kill(-c->pid, SIGKILL);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	e.exited = WIFEXITED(status);
	e.code = e.exited ? WEXITSTATUS(status) : 0;
	e.signal = e.exited ? 0 : WTERMSIG(status);
	mf_buf_dispose(&c->pending);
	free(c);
	return e;
}
