/*
 * job.h: other programs. A child process with its pipes, its time limit and its clean end; and the real toolchain as a
 * witness: one long-lived interpreter that asks the installed Megatron or SGLang about command after command.
 * A process started here is a process ended here.
 */
#ifndef MF_JOB_H
#define MF_JOB_H

#include "search.h"

/* ---- child processes --------------------------------------------------------------------------------------------- */

/** A program in a process group of its own, with pipes to its standard input and from its output and errors. */
typedef struct mf_child mf_child;

typedef struct mf_child_opts {
	const char *const *argv; /* NULL-terminated; a name without '/' is looked up on PATH. No shell is involved */
	const char *const *env;  /* NULL-terminated "NAME=value" list, or NULL for ours */
	const volatile int
		*stop; /* stored nonzero (a signal handler, another thread) to give up waiting; may be NULL */
} mf_child_opts;

/** How a child ended. */
typedef struct mf_exit {
	bool exited; /* by itself: `code` holds; else `signal` */
	int code, signal;
	bool killed; /* we had to send a signal: it outlived its input and its grace */
} mf_exit;

/**
 * Starts a program. Nothing of ours is inherited but the three pipes. MF_EENV names a program that is not there or that
 * the system would not start; the caller ends what it got with mf_child_end.
 */
mf_status mf_child_start(mf_child **out, const mf_child_opts *opts, mf_err *err);
/** Writes all of `data`. A child that reads no more is MF_EIO with its last words in err->detail, never a signal. */
mf_status mf_child_write(mf_child *c, const void *data, size_t len, double limit_ms, mf_err *err);
/**
 * Reads one line, without its newline, into `line` (cleared first). MF_EIO at the end of output and past the limit (err
 * says which), MF_ECANCELED when asked to stop. A line longer than 16 MiB is MF_EIO.
 */
mf_status mf_child_read_line(mf_child *c, mf_buf *line, double limit_ms, mf_err *err);
/** The last 4 KiB that the child wrote to its standard error, as text. Borrowed. */
const char *mf_child_errors(const mf_child *c);
/**
 * Ends the child and its group: closes its input, waits `grace_ms`, asks with SIGTERM, waits again, kills. Reaps it and
 * frees `c`. Returns how it ended; NULL gives zeros.
 */
mf_exit mf_child_end(mf_child *c, double grace_ms);
/** Full path of a program: `name` itself when it has a '/', else looked up on PATH. False when it is not executable. */
bool mf_find_program(const char *name, char *out, size_t size);

/* ---- the real toolchain as a witness ------------------------------------------------------------------------------ */

/** The witness: an interpreter that has imported the toolchain (job/witness), waiting for commands. */
typedef struct mf_real mf_real;

typedef struct mf_real_opts {
	mf_toolchain toolchain;    /* whose package, and the version that verdicts are about */
	const char *python;        /* interpreter or virtual environment; NULL: MOEFS_PYTHON, VIRTUAL_ENV, python3 */
	const char *path;          /* folder holding the package, or a checkout; NULL: what the interpreter imports */
	const mf_cluster *cluster; /* the device asked about */
	const mf_model *model;     /* SGLang reads its config.json */
	const volatile int *stop;  /* as for a child */
} mf_real_opts;

/** What answers. Strings are owned by the mf_real. */
typedef struct mf_real_info {
	const char *package;     /* "megatron-core", "sglang" */
	const char *version;     /* as installed; "" when unknown */
	const char *asked;       /* the version that --toolchain names */
	bool same_version;       /* they are equal */
	const char *python;      /* "3.11.2" */
	const char *interpreter; /* path */
	const char *root;        /* folder the package was found in */
	const char *const *stand_ins;
	size_t n_stand_ins; /* modules and functions that were not the real ones, by name */
	double start_ms;    /* what starting it took */
} mf_real_info;

typedef enum mf_agreement { MF_UNDECIDED, MF_AGREES, MF_DISAGREES } mf_agreement;

/** Its answer on one command, verbatim, and whether that is our verdict. */
typedef struct mf_real_verdict {
	bool ran;
	bool accepted;
	char stage[32], exception[64], where[192];
	char message[2048];
	char rewritten[512]; /* "name: asked -> became, ...": arguments that the toolchain changed in silence */
	mf_agreement agrees;
	char note[256]; /* why it does, does not, or why it cannot be said; one line */
	double ms;      /* what asking took */
} mf_real_verdict;

/**
 * Finds an interpreter, starts the witness and waits until the package is imported. MF_EENV, with the line that installs
 * it, when there is no interpreter or no package. Writes SGLang's config.json into a private folder that mf_real_close
 * removes.
 */
mf_status mf_real_open(mf_real **out, const mf_real_opts *opts, mf_err *err);
/** Ends the witness and removes what it was given. NULL is fine. */
void mf_real_close(mf_real *r);
/** Who answers: package, version, interpreter. Borrowed from `r`. */
const mf_real_info *mf_real_about(const mf_real *r);
/**
 * Asks about the (forced) command `argv` of a plan on which our verdict is `ours`. A plan that the toolchain has no words
 * for is not asked about: `ran` is false and the note says so. An error means that the witness itself failed.
 */
mf_status mf_real_ask(
	mf_real *r, const mf_argv *argv, uint32_t world, mf_rule_id ours, mf_real_verdict *out, mf_err *err);

#endif
