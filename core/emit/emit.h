/*
 * emit.h: from a plan to a command. One function per toolchain walks guards and arguments in one pass and reports both
 * to a sink; what becomes of them is the sink's affair. The predicate is this very walk with a sink that keeps nothing.
 * Also: rules and their texts, launch scripts, provenance, and the way back from a command to a plan.
 */
#ifndef MF_EMIT_H
#define MF_EMIT_H

#include "cost.h"

/* ---- rules ----------------------------------------------------------------------------------------------------- */

typedef enum mf_kind { MF_KIND_NONE, MF_NOT_IMPLEMENTED, MF_INVALID_VALUE } mf_kind;
extern const mf_choice mf_kind_choices[];
/** How sure a rule is: executed against the real package, read in its source, or inferred. */
typedef enum mf_evidence { MF_EXECUTED, MF_READ, MF_INFERRED } mf_evidence;

/** What a rule is. All rules of all toolchains stand in one table (megatron_rules.def, sglang_rules.def). */
typedef struct mf_rule {
	const char *id;       /* "mcore.E3", "sglang.D02", "plan.dualpipe" */
	const char *boundary; /* "B1".."B8", or the family: "mcore.E" */
	const char *stage;    /* the toolchain's stage: "parse", "cfg", "model build", ... */
	mf_kind kind;
	const char *exception; /* "AssertionError" */
	const char *text;      /* the toolchain's message, printf form for the integers it quotes */
	const char *where;     /* file:line in the toolchain */
	const char *when;      /* the condition in words or symbols, for docs */
	mf_evidence evidence;
	bool rewrite; /* the toolchain would silently run something else */
} mf_rule;

/** Number of a rule; 0 is "no rule". */
typedef uint16_t mf_rule_id;
enum {
	MF_RULE_NONE = 0,
	MF_RULE_MEMORY = 1, /* the memory gate; text made by core/realize */
#define R(id, name, boundary, stage, kind, exception, text, where, when, evidence, rewrite) MF_R_##id,
#include "megatron_rules.def"
	MF_RULE_SGLANG_BEFORE,
	MF_RULE_SGLANG = MF_RULE_SGLANG_BEFORE, /* the first of SGLang's; those before are Megatron's */
	MF_RULE_SGLANG_AFTER = MF_RULE_SGLANG - 1,
#include "sglang_rules.def"
#undef R
	MF_RULE_COUNT
};
/** Rule by number; never NULL for a number below MF_RULE_COUNT. */
const mf_rule *mf_rule_get(mf_rule_id id);

/** A rule of a toolchain that no command of ours can meet (ruled_out.def), so that it needs no guard. */
typedef struct mf_ruled_out {
	const char *id;  /* as mf_rule's */
	const char *how; /* "never written", "always written", "refused when read", "shadowed", "no plan" */
	const char *why; /* the flag, the reader or the guard that sees to it */
} mf_ruled_out;
/** Ends with a NULL id. */
extern const mf_ruled_out mf_rules_ruled_out[];

/* ---- sinks ----------------------------------------------------------------------------------------------------- */

/** Which part of the command an argument belongs to: only MF_PART_PLAN goes into argv_sha256. */
typedef enum mf_part { MF_PART_PLAN, MF_PART_SITE } mf_part;

/**
 * Where a walk reports to. `collect` false (the null sink) makes every argument call a test of one bit. `refuse` decides:
 * true stops the walk, false notes the refusal and goes on (--forced).
 */
typedef struct mf_sink mf_sink;
struct mf_sink {
	bool collect;
	bool forced; /* note refusals and go on */
	mf_part part;
	mf_rule_id rule;   /* first refusal, MF_RULE_NONE when none */
	int64_t values[6]; /* the numbers its text quotes */
	void (*arg)(mf_sink *s, const char *text);
	void (*env)(mf_sink *s, const char *name, const char *value);
};
/** A sink that keeps nothing but the first refusal. */
mf_sink mf_sink_null(void);
/** Reports a refusal; true when the walk must stop. Up to six integers fill the rule's text. */
bool mf_sink_refuse(mf_sink *s, mf_rule_id rule, const int64_t *values, size_t n);
/** `if (MF_REFUSE(s, MF_R_MCORE_W1, world, tp * pp * cp)) return;` */
#define MF_REFUSE(s, rule, ...)                                                                                        \
	mf_sink_refuse((s), (rule), (const int64_t[]){0, ##__VA_ARGS__} + 1,                                           \
		sizeof((const int64_t[]){0, ##__VA_ARGS__}) / sizeof(int64_t) - 1)
/** The refusal of `s` as the toolchain would print it, verbatim. */
void mf_sink_reason(const mf_sink *s, mf_buf *out);

/** Collected command. Owns its strings. */
typedef struct mf_argv {
	mf_sink sink; /* first member: an mf_argv is an mf_sink */
	char **args;
	uint8_t *parts;
	size_t n, cap;
	char **env;
	size_t n_env, cap_env; /* "NAME=value" */
	mf_arena *arena;
	bool failed;
} mf_argv;
/** An empty command, whose sink stops at the first guard, or, `forced`, notes it and goes on. */
mf_status mf_argv_init(mf_argv *a, bool forced, mf_err *err);
void mf_argv_dispose(mf_argv *a);
/** SHA-256 over the plan part of the arguments, each followed by a NUL, then over "NAME=value" of the environment likewise. */
mf_status mf_argv_sha256(const mf_argv *a, char hex[65]);
/** SHA-256 over the canonical JSON of plan, model, cluster, workload and stack: what results are kept under. */
mf_status mf_plan_sha256(const mf_plan *p, const mf_inputs *in, char hex[65]);

/* ---- emitters -------------------------------------------------------------------------------------------------- */

/**
 * Facts an emitter needs beside the plan, derived once per inputs: padded sizes, capture lists, version switches.
 * Immutable after mf_emitter_new; may be shared by threads.
 */
typedef struct mf_emitter mf_emitter;
/** The emitter of in->stack->toolchain. Inputs are borrowed. */
mf_status mf_emitter_new(mf_emitter **out, const mf_inputs *in, mf_err *err);
void mf_emitter_free(mf_emitter *e);
/**
 * Walks guards and arguments of `p` into `s`. `memory_fraction` (serving) is SGLang's --mem-fraction-static, NaN to leave
 * it to the engine. The walk stops at the first refusal unless the sink is forced.
 */
void mf_emit(const mf_emitter *e, const mf_plan *p, double memory_fraction, mf_sink *s);
/** True when the toolchain has no words for the plan at all (dualpipe): a forced walk gives no argv either. */
bool mf_rule_unspeakable(mf_rule_id rule);

/* ---- writing commands ------------------------------------------------------------------------------------------ */

typedef enum mf_command_format { MF_CMD_JSON, MF_CMD_NUL, MF_CMD_SHELL, MF_CMD_SBATCH } mf_command_format;
extern const mf_choice mf_command_format_choices[];
/** Format by file suffix: .json, .nul or .args0, .sh, .sbatch; MF_EINPUT otherwise. */
mf_status mf_command_format_of_path(const char *path, mf_command_format *out, mf_err *err);
/** The command as a file's bytes. Provenance is never inside (JSON carries it beside argv). */
mf_status mf_command_write(
	const mf_argv *a, const mf_inputs *in, const mf_plan *p, mf_command_format f, mf_buf *out, mf_err *err);
/** Provenance as JSON: moefs version, plan, inputs, stack, toolchain, hashes, verdict. */
mf_status mf_provenance_write(const mf_argv *a, const mf_inputs *in, const mf_plan *p, mf_buf *out, mf_err *err);

/**
 * Saves the command at `path` in format `f`, executable where it is a script, and its provenance at PATH.provenance.json:
 * both files or neither.
 */
mf_status mf_command_save(
	const char *path, const mf_argv *a, const mf_inputs *in, const mf_plan *p, mf_command_format f, mf_err *err);

/* ---- reading commands ------------------------------------------------------------------------------------------ */

/** A command read back: plan and inputs it implies, and what could not be read. Owns `unread`. */
typedef struct mf_command {
	mf_phase phase;
	mf_plan plan;
	mf_model model;
	bool has_model; /* Megatron commands carry the shape; SGLang ones a path */
	mf_workload workload;
	mf_stack stack;
	mf_site site;
	uint32_t world; /* from torchrun or the sizes; 0 when unknown */
	char **unread;
	size_t n_unread; /* flags and environment we did not understand */
	char **argv;     /* the words from the program on, as they were given */
	size_t n_argv;
	mf_arena *arena;
} mf_command;
/**
 * Reads an argument vector: torchrun ... pretrain_gpt.py ..., python -m torch.distributed.run ..., python -m
 * sglang.launch_server ..., sglang serve .... Assignments in front, srun, docker run, env, sh -c and their like are read
 * through. A Megatron command that gives no shape at all has no model: the caller names one.
 */
mf_status mf_command_read(mf_command *out, const char *const *argv, size_t n, const char *const *env, size_t n_env,
	mf_intern *intern, mf_err *err);
/**
 * Reads a command file: JSON (array, or object with argv and env), NUL-separated words, or a shell script, whose own
 * variables and arrays are put in their place. The last line that launches something counts.
 */
mf_status mf_command_read_file(mf_command *out, const char *path, mf_intern *intern, mf_err *err);
/** Says which version the command is for: one that reads a flag differently changes what was read. Other phases: nothing. */
void mf_command_toolchain(mf_command *c, mf_toolchain toolchain);
/**
 * What the command says and `again`, its plan written anew, does not, or differently, and the other way round: one text a
 * flag, handed to `found`. Paths, ports, run length and flags that are listed as unread are left out.
 */
void mf_command_differences(
	const mf_command *c, const mf_argv *again, void (*found)(void *payload, const char *text), void *payload);
void mf_command_dispose(mf_command *c);

#endif
