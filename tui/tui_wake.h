/* tui_wake.h: threads beside the loop, and the pipes they wake it through. */
#ifndef MF_TUI_WAKE_H
#define MF_TUI_WAKE_H

#include <pthread.h>
#include <stdbool.h>

/** Makes a pipe that never blocks and that no child inherits; false, and errno, when there is none to be had. */
bool mf_wake_open(int pipe_fd[2]);
void mf_wake_close(const int pipe_fd[2]);
/** Wakes what polls pipe_fd[0]. May be called from any thread, and more often than it is seen. */
void mf_wake(const int pipe_fd[2]);
/** Takes every wake so far out of the pipe. */
void mf_wake_seen(const int pipe_fd[2]);
/**
 * As pthread_create (`attr` may be NULL), with the signals blocked that belong to the loop. Those of a crash stay: they
 * reach the thread that made it, and the handler that puts the terminal back.
 */
int mf_thread_start(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *payload);

#endif
