/* cost_internal.h: how the parts of core/cost meet. cost.c owns the object; each model keeps its own state in it. */
#ifndef MF_COST_INTERNAL_H
#define MF_COST_INTERNAL_H

#include "cost.h"

struct mf_train_memory; /* memory_train.c */
struct mf_train_time;   /* time_train.c */
struct mf_serve_state;  /* serve.c */
struct mf_train_sim;    /* sim_train.c */

struct mf_cost {
	mf_inputs in;
	const mf_consts *k;
	mf_cost_opts opts;
	uint32_t world;
	struct mf_train_memory *train_memory;
	struct mf_train_time *train_time;
	struct mf_serve_state *serve;
	struct mf_train_sim *sim; /* made by the first simulation */
};

/* Each returns a status so that mf_cost_new can fail; free accepts NULL. */
mf_status mf_train_memory_new(mf_cost *c, mf_err *err);
void mf_train_memory_free(struct mf_train_memory *s);
mf_status mf_train_time_new(mf_cost *c, mf_err *err);
void mf_train_time_free(struct mf_train_time *s);
mf_status mf_serve_state_new(mf_cost *c, mf_err *err);
void mf_serve_state_free(struct mf_serve_state *s);
void mf_train_sim_free(struct mf_train_sim *s);

/* The fast calls pass ex == NULL; the explain call passes one and gets lines or terms appended by the same code. */
void mf_train_memory_eval(mf_cost *c, const mf_plan *p, mf_memory *out, mf_explain *ex);
/* One stage, opened. */
mf_status mf_train_memory_stage(mf_cost *c, const mf_plan *p, uint32_t stage, mf_explain *ex, mf_err *err);
void mf_train_time_eval(mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex);
bool mf_train_layout(mf_cost *c, const mf_plan *p, char *out, size_t size);
void mf_serve_memory_eval(mf_cost *c, const mf_plan *p, mf_memory *out, mf_explain *ex);
void mf_serve_time_eval(mf_cost *c, const mf_plan *p, mf_time *out, mf_explain *ex);

/* Arithmetic of the expert products. */
mf_dtype mf_train_dtype(const mf_cost *c);
mf_dtype mf_serve_expert_dtype(const mf_cost *c);

/* Appends to an explanation; silently full at MF_MAX_TERMS / MF_MAX_LINES is a bug and asserted. */
mf_term *mf_explain_term(mf_explain *ex, const char *name, double ms, const char *formula);
void mf_explain_line(mf_explain *ex, const char *name, double bytes, const char *rule);

static inline double mf_k(const mf_cost *c, mf_const_id id)
{
	return c->k->v[id];
}

#endif
