/* wake.c: threads beside the loop, and the pipes they wake it through. */
#include "tui_wake.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

bool mf_wake_open(int pipe_fd[2])
{
	if (pipe(pipe_fd) < 0)
		return false;
	for (int i = 0; i < 2; i++) {
		fcntl(pipe_fd[i], F_SETFL, O_NONBLOCK);
		fcntl(pipe_fd[i], F_SETFD, FD_CLOEXEC);
	}
	return true;
}

void mf_wake_close(const int pipe_fd[2])
{
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

void mf_wake(const int pipe_fd[2])
{
	/* A full pipe will wake the loop as well. */
	ssize_t n = write(pipe_fd[1], "!", 1);
	(void)n;
}

void mf_wake_seen(const int pipe_fd[2])
{
	char bytes[64];

	while (read(pipe_fd[0], bytes, sizeof(bytes)) > 0)
		;
}

/* The loop must have seen a stop when kill() returns. */
int mf_thread_start(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *payload)
{
	sigset_t all, old;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int r = pthread_create(t, attr, fn, payload);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}
