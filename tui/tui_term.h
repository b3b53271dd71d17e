/* tui_term.h: the terminal. One at a time in a process, since signals and terminal modes are the process's. */
#ifndef MF_TUI_TERM_H
#define MF_TUI_TERM_H

#include "tui_keys.h"
#include "tui_theme.h"

typedef struct mf_tty mf_tty;

/** What signals asked for since the last look (bits). */
enum { MF_SIG_RESIZE = 1, MF_SIG_STOP = 2, MF_SIG_CONTINUE = 4, MF_SIG_LEAVE = 8 };

/**
 * Takes the terminal of standard output (raw mode, alternate screen, signals through a pipe). MF_EENV with a plain
 * message when there is none, or it cannot place a cursor. Restored by mf_tty_close, at exit, and on a crash.
 */
mf_status mf_tty_open(mf_tty **out, mf_color_mode color, bool mouse, mf_err *err);
void mf_tty_close(mf_tty *t);
/** 0: no colour; 8, 16, 256, or 1 << 24. */
int mf_tty_colors(const mf_tty *t);
void mf_tty_size(mf_tty *t, int *w, int *h);
void mf_tty_set_theme(mf_tty *t, const mf_theme *theme);
void mf_tty_set_mouse(mf_tty *t, bool on);
/** Descriptor to poll for keys, and the events to ask for: POLLOUT only while output waits. */
int mf_tty_fd(const mf_tty *t);
short mf_tty_events(const mf_tty *t);
/** Descriptor that becomes readable on a signal; mf_tty_signals takes the bits. */
int mf_tty_signal_fd(const mf_tty *t);
unsigned mf_tty_signals(mf_tty *t);
/**
 * True when a new frame may be drawn: all output has gone out, and of frames that follow closely no more than one is
 * still on its way, so that a slow link gets fewer frames and no backlog. What buffers the link has, only the terminal's
 * answers tell: in a burst each frame ends in a status request (DSR 5). One that has not answered the first frame's is
 * not waited for, nor is an answer for longer than three seconds.
 */
bool mf_tty_ready(const mf_tty *t);
/** Milliseconds until a missing answer is given up; -1 when none is waited for. */
double mf_tty_patience(const mf_tty *t);
/** An answer came (MF_KEY_REPLY). */
void mf_tty_answered(mf_tty *t);
/** Queues what differs from the last frame, with the cursor left at (x, y), hidden when x < 0. */
void mf_tty_frame(mf_tty *t, const mf_cells *s, int cursor_x, int cursor_y);
/** Forgets what is on the screen: the next frame is drawn whole. */
void mf_tty_invalidate(mf_tty *t);
/** Queues the OSC 52 sequence that puts `text` on the clipboard; false when it is too long for terminals (74 kB). */
bool mf_tty_copy(mf_tty *t, const char *text, size_t len);
/** Writes what it can without waiting. MF_EIO: the terminal is gone. */
mf_status mf_tty_flush(mf_tty *t);
/** Reads what is there; 0 when nothing is. MF_EIO: the terminal is gone. */
int mf_tty_read(mf_tty *t, void *bytes, size_t size);
/** Sequence this terminal sends for MF_KEY_UP + which, or NULL (for mf_key_decoder). */
const char *mf_tty_key_sequence(void *term, int which);
/** Gives the terminal back and stops the process group, as Ctrl-Z does in a shell; returns when continued. */
void mf_tty_suspend(mf_tty *t);
/** Takes the terminal again after somebody else stopped and continued us. */
void mf_tty_resume(mf_tty *t);

#endif
