/*
 * base.h: what every other part stands on. Statuses and errors, an arena, growing text, a document tree read from
 * JSON or YAML, SHA-256, whole-file input and output, a worker pool. Knows nothing of models or plans.
 *
 * Conventions, here and in every header of this project:
 *  - 0 or a negative mf_status is returned; the reason is in the caller's mf_err.
 *  - _new/_free own heap memory, _init/_dispose work in place; free and dispose accept NULL.
 *  - "borrowed" pointers live as long as the object they came from.
 *  - GB is 1e9 bytes, GiB is 2^30; units stand in names. An unknown number is NaN, never 0.
 */
#ifndef MF_BASE_H
#define MF_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define MF_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define MF_PRINTF(f, a)
#endif

#define MF_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MF_GB 1e9
#define MF_GIB 1073741824.0
#define MF_MIB 1048576.0

/* ---- status and error ------------------------------------------------------------------------------------------ */

/** What a function answers. The values are pinned; the process exit code is made from them by mf_status_exit_code(). */
typedef enum mf_status {
	MF_OK = 0,
	MF_EINPUT = -1,   /* bad usage or bad input: exit 2 */
	MF_EREFUSED = -2, /* a negative answer (plan rejected, gate failed): exit 1 */
	MF_EENV = -3,     /* the environment lacks something (GPU, toolchain, library): exit 3 */
	MF_EIO = -4,      /* reading or writing failed: exit 2 */
	MF_ENOMEM = -5,   /* out of memory: exit 4 */
	MF_EBUG = -6,     /* our own mistake: exit 4 */
	MF_ECANCELED = -7 /* stopped on request: exit 1 */
} mf_status;

/**
 * One error: what failed in one line, and where. `msg` is ours; `detail` is theirs (a child's stderr, a library's text),
 * kept verbatim and possibly empty. A plain value: no ownership.
 */
typedef struct mf_err {
	mf_status status;
	int line;         /* 1-based line in `file`, 0 when there is none */
	char file[256];   /* "" when the error is not about a file */
	char field[96];   /* dotted name of the field, "" when none */
	char msg[384];    /* one line: what is wrong and how to mend it */
	char detail[512]; /* verbatim text of somebody else, may be "" */
} mf_err;

/** Fills `err` (may be NULL) with a formatted message and returns `st`. Clears file, field, line and detail. */
mf_status mf_fail(mf_err *err, mf_status st, const char *fmt, ...) MF_PRINTF(3, 4);
/** As mf_fail, naming the file (NULL: none), line (0: none) and field (NULL: none). */
mf_status mf_fail_at(mf_err *err, mf_status st, const char *file, int line, const char *field, const char *fmt, ...)
	MF_PRINTF(6, 7);
#define MF_ERR_TEXT_MAX 768
/** Writes "file:line: field: message", less the parts that are not known; returns `out`. */
const char *mf_err_text(const mf_err *err, char out[MF_ERR_TEXT_MAX]);
/** Exit code of a status: 0 done, 1 negative answer, 2 usage or input, 3 environment, 4 our bug. */
int mf_status_exit_code(mf_status st);

/* ---- arena ----------------------------------------------------------------------------------------------------- */

/** Bump allocator; everything taken from it is freed at once. Not thread-safe: one arena a thread. */
typedef struct mf_arena mf_arena;
mf_arena *mf_arena_new(void);
void mf_arena_free(mf_arena *a);
/** Zeroed, 16-byte aligned memory, or NULL when out of memory. */
void *mf_arena_alloc(mf_arena *a, size_t bytes);
char *mf_arena_strdup(mf_arena *a, const char *text);

/* ---- growing text ---------------------------------------------------------------------------------------------- */

/** Text that grows; always NUL-terminated. After an allocation failure `failed` is set and later calls do nothing. */
typedef struct mf_buf {
	char *data;
	size_t len, cap;
	bool failed;
} mf_buf;
#define MF_BUF_INIT                                                                                                    \
	{                                                                                                              \
		NULL, 0, 0, false                                                                                      \
	}
void mf_buf_dispose(mf_buf *b);
void mf_buf_clear(mf_buf *b);
void mf_buf_add(mf_buf *b, const char *bytes, size_t len);
void mf_buf_puts(mf_buf *b, const char *text);
void mf_buf_putc(mf_buf *b, char c);
void mf_buf_printf(mf_buf *b, const char *fmt, ...) MF_PRINTF(2, 3);
/** The text, never NULL ("" when empty). Borrowed until the next change. */
const char *mf_buf_text(const mf_buf *b);
/** Appends `text` quoted for a POSIX shell (bare when it needs no quotes). */
void mf_buf_shell_quote(mf_buf *b, const char *text);

/* ---- documents: one tree for JSON and YAML ------------------------------------------------------------------------ */

typedef enum mf_node_kind { MF_NULL, MF_BOOL, MF_NUMBER, MF_STRING, MF_LIST, MF_MAP } mf_node_kind;

/** A value of a document. Borrowed from its mf_doc. Children hang in a list in document order. */
typedef struct mf_node {
	mf_node_kind kind;
	int line;         /* 1-based */
	const char *key;  /* name inside a map, NULL elsewhere */
	const char *text; /* scalar as written (strings unescaped); "" for lists and maps */
	double number;    /* MF_NUMBER; NaN otherwise */
	bool truth;       /* MF_BOOL */
	bool quoted;      /* MF_STRING written with quotes */
	size_t n_children;
	struct mf_node *first, *next;
} mf_node;

/** A parsed file. Owns its nodes. */
typedef struct mf_doc {
	mf_node *root;
	char *name; /* what errors call it: a path, or "built-in model olmoe" */
	mf_arena *arena;
} mf_doc;

/** Largest document accepted, bytes: a larger file is refused by name before it is read. */
#define MF_DOC_MAX_BYTES (16u << 20)
/** Deepest nesting accepted. */
#define MF_DOC_MAX_DEPTH 64

/** Reads a .json, .yaml or .yml file (by content: a leading '{' or '[' is JSON). Errors name file and line. */
mf_status mf_doc_read_file(mf_doc *out, const char *path, mf_err *err);
/** Parses text of `len` bytes; `name` is copied. YAML aliases, tags and several documents are refused. */
mf_status mf_doc_parse_json(mf_doc *out, const char *name, const char *text, size_t len, mf_err *err);
mf_status mf_doc_parse_yaml(mf_doc *out, const char *name, const char *text, size_t len, mf_err *err);
void mf_doc_dispose(mf_doc *d);

/** Child of a map by key, or NULL. A JSON null counts as absent. */
const mf_node *mf_node_get(const mf_node *map, const char *key);
/**
 * Typed readers of a map's field: absent leaves *out untouched and returns MF_OK; a wrong type or a value outside
 * [min, max] fails with file, line and field. mf_need_* fail when the field is absent.
 */
mf_status mf_get_u32(
	const mf_doc *d, const mf_node *map, const char *key, uint32_t min, uint32_t max, uint32_t *out, mf_err *err);
mf_status mf_get_double(
	const mf_doc *d, const mf_node *map, const char *key, double min, double max, double *out, mf_err *err);
mf_status mf_get_bool(const mf_doc *d, const mf_node *map, const char *key, bool *out, mf_err *err);
/** Copies at most size-1 bytes; a longer text is an error, not a cut. */
mf_status mf_get_string(const mf_doc *d, const mf_node *map, const char *key, char *out, size_t size, mf_err *err);
mf_status mf_need_u32(
	const mf_doc *d, const mf_node *map, const char *key, uint32_t min, uint32_t max, uint32_t *out, mf_err *err);
mf_status mf_need_double(
	const mf_doc *d, const mf_node *map, const char *key, double min, double max, double *out, mf_err *err);
mf_status mf_need_string(const mf_doc *d, const mf_node *map, const char *key, char *out, size_t size, mf_err *err);
/** Fails on the first key of `map` that is not in `known` (NULL-terminated), suggesting the nearest known one. */
mf_status mf_only_keys(const mf_doc *d, const mf_node *map, const char *const *known, mf_err *err);

/** Nearest of `names` (NULL-terminated) to `text` by edit distance, or NULL when none is near. */
const char *mf_nearest(const char *text, const char *const *names);

/* ---- files ----------------------------------------------------------------------------------------------------- */

/** Reads a whole regular file of at most `max_bytes`; directories, missing and larger files are errors by name. */
mf_status mf_file_read(mf_buf *out, const char *path, size_t max_bytes, mf_err *err);
/** Writes a whole file or nothing: temporary file beside it, flush, rename. `mode` as for open(2), e.g. 0644. */
mf_status mf_file_write(const char *path, const void *data, size_t len, unsigned mode, mf_err *err);

/**
 * Path of a user's file by the XDG rules: $VARIABLE/moefs/REST, or $HOME/FALLBACK/moefs/REST when the variable is unset
 * or relative. False when there is no home or no room. E.g. ("XDG_CONFIG_HOME", ".config", "keys.yaml").
 */
bool mf_user_path(char *out, size_t size, const char *variable, const char *fallback, const char *rest);
/** Makes the folders above `path` that are missing (mode 0700). */
mf_status mf_make_parents(const char *path, mf_err *err);

/* ---- SHA-256 --------------------------------------------------------------------------------------------------- */

typedef struct mf_sha256 mf_sha256;
mf_sha256 *mf_sha256_new(void); /* NULL when out of memory */
void mf_sha256_add(mf_sha256 *h, const void *data, size_t len);
/** Writes 64 hexadecimal digits and a NUL, and frees `h`. */
void mf_sha256_finish(mf_sha256 *h, char hex[65]);
/** One call for one block of bytes. */
mf_status mf_sha256_hex(const void *data, size_t len, char hex[65]);

/* ---- worker pool ----------------------------------------------------------------------------------------------- */

typedef struct mf_pool mf_pool;
/** A pool of `threads` workers (0: one per online core, at most 64). With 1 the caller's thread does the work. */
mf_status mf_pool_new(mf_pool **out, unsigned threads, mf_err *err);
void mf_pool_free(mf_pool *p);
unsigned mf_pool_threads(const mf_pool *p);
/** Calls fn(payload, item, worker) for every item in [0, n); returns when all are done. `worker` < mf_pool_threads(). */
void mf_pool_run(mf_pool *p, size_t n, void (*fn)(void *payload, size_t item, unsigned worker), void *payload);

/* ---- numbers and time ------------------------------------------------------------------------------------------- */

/** Quantile q (0..1) of n values by linear interpolation between order statistics; sorts them. NaN when n is 0. */
double mf_quantile(double *values, size_t n, double q);
/** Monotonic clock, milliseconds. */
double mf_now_ms(void);
/** Deterministic generator (splitmix64): next value of *state. */
uint64_t mf_random_u64(uint64_t *state);

#endif
