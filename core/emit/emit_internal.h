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
void mf_command_unread(mf_command *c, const char *text);

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
