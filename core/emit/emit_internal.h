/* emit_internal.h: how the parts of core/emit meet. emit.c dispatches; one file a toolchain does the walk. */
#ifndef MF_EMIT_INTERNAL_H
#define MF_EMIT_INTERNAL_H

#include "emit.h"

struct mf_megatron_facts; /* megatron.c */
struct mf_sglang_facts;   /* sglang.c */

struct mf_emitter {
	mf_inputs in;
	uint32_t world;
	struct mf_megatron_facts *megatron;
	struct mf_sglang_facts *sglang;
};

mf_status mf_megatron_facts_new(struct mf_emitter *e, mf_err *err);
void mf_megatron_facts_free(struct mf_megatron_facts *f);
void mf_megatron_emit(const struct mf_emitter *e, const mf_plan *p, mf_sink *s);
mf_status mf_sglang_facts_new(struct mf_emitter *e, mf_err *err);
void mf_sglang_facts_free(struct mf_sglang_facts *f);
void mf_sglang_emit(const struct mf_emitter *e, const mf_plan *p, double memory_fraction, mf_sink *s);

/* Readers: argv[0] is the program; `out` is initialised with defaults of its phase. */
mf_status mf_megatron_read(mf_command *out, const char *const *argv, size_t n, mf_intern *intern, mf_err *err);
mf_status mf_sglang_read(mf_command *out, const char *const *argv, size_t n, mf_intern *intern, mf_err *err);
/* SGLANG_PP_LAYER_PARTITION, "14,14,15": false when it is no list of layer counts. */
bool mf_sglang_read_partition(mf_command *out, const char *text, mf_intern *intern);
void mf_command_unread(mf_command *c, const char *text);
/* The flag's first spelling; NULL when it is unknown, or of a launcher or a run and says nothing of the plan. */
const char *mf_megatron_flag(const char *text, size_t len);
const char *mf_sglang_flag(const char *text, size_t len);
/* Whether a Megatron flag describes the model. */
bool mf_megatron_shape_flag(const char *flag);
/* "Et*3|(tt|)*29m|L" with parentheses and factors written out, as Megatron does; false when it grows beyond reason. */
bool mf_megatron_layout_unroll(const char *text, mf_buf *out);
/* Interns the layout of `n` virtual stages in its shortest text; 0 when there is no room. */
uint16_t mf_intern_layout(mf_intern *intern, const uint16_t *counts, size_t n);

/* The largest command file: the kernel passes no longer argument list either. */
#define MF_COMMAND_MAX_BYTES (4u << 20)

/* A growing list of borrowed strings; free with mf_words_free. */
struct mf_words {
	const char **items;
	size_t n, cap;
	bool failed;
};
void mf_words_add(struct mf_words *l, const char *text);
void mf_words_free(struct mf_words *l);
/* Length of NAME in "NAME=value", 0 when the word is no assignment. */
size_t mf_assignment(const char *word);
/* Whether a program that we read commands of stands among the words. */
bool mf_launches(const char *const *argv, size_t n);
/* Words of the launch command in a shell script and the variables it exports; strings live in `arena`. */
mf_status mf_shell_words(mf_arena *arena, const char *path, const char *text, size_t len, struct mf_words *command,
	struct mf_words *env, mf_err *err);

/* Argument writing: nothing but a test when the sink does not collect. */
static inline void mf_arg(mf_sink *s, const char *text)
{
	if (s->collect)
		s->arg(s, text);
}
static inline void mf_arg2(mf_sink *s, const char *flag, const char *value)
{
	if (s->collect) {
		s->arg(s, flag);
		s->arg(s, value);
	}
}
void mf_arg_int_slow(mf_sink *s, const char *flag, int64_t value);
void mf_arg_double_slow(mf_sink *s, const char *flag, double value);
static inline void mf_arg_int(mf_sink *s, const char *flag, int64_t value)
{
	if (s->collect)
		mf_arg_int_slow(s, flag, value);
}
static inline void mf_arg_double(mf_sink *s, const char *flag, double v)
{
	if (s->collect)
		mf_arg_double_slow(s, flag, v);
}
static inline void mf_env(mf_sink *s, const char *name, const char *value)
{
	if (s->collect)
		s->env(s, name, value);
}

#endif
