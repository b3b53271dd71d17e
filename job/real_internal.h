/* real_internal.h: the witness's Python files, compiled in (written by cmake/embed_witness.cmake). */
#ifndef MF_REAL_INTERNAL_H
#define MF_REAL_INTERNAL_H

typedef struct mf_witness_file {
	const char *name, *text; /* "worker", NUL-terminated source */
} mf_witness_file;
/** In the order of loading; ends with a NULL name. */
extern const mf_witness_file mf_witness_files[];

#endif
