/* builtin_internal.h: files compiled in from configs/ (written by cmake/embed.cmake). */
#ifndef MF_BUILTIN_INTERNAL_H
#define MF_BUILTIN_INTERNAL_H

#include <stddef.h>

typedef struct mf_embedded_file {
	const char *kind, *name; /* "models", "olmoe" */
	const char *text;        /* NUL-terminated */
	size_t len;
} mf_embedded_file;

/** Ends with a NULL kind. */
extern const mf_embedded_file mf_embedded_files[];

/** The names of one kind, NULL-terminated. */
typedef struct mf_embedded_kind {
	const char *kind;
	const char *const *names;
} mf_embedded_kind;

/** Ends with a NULL kind. */
extern const mf_embedded_kind mf_embedded_kinds[];

#endif
