/* plan_internal.h: what the files of core/plan share and others need not see. */
#ifndef MF_PLAN_INTERNAL_H
#define MF_PLAN_INTERNAL_H

#include "plan.h"

/** How a dimension is written. */
typedef enum mf_dim_form {
	MF_DIM_NUMBER,    /* prefix and a whole number: ep8 */
	MF_DIM_WORD,      /* a choice by itself: 1f1b, fsdp */
	MF_DIM_NAMED,     /* prefix and a choice: disp:deepep */
	MF_DIM_OVERLAP,   /* +ov behind the schedule */
	MF_DIM_FLAG,      /* present or not: tbo */
	MF_DIM_RECOMPUTE, /* rc: mode or modules */
	MF_DIM_CHUNK,     /* tokens, stored in units of 256 */
	MF_DIM_LAYOUT,    /* interned list of layers */
	MF_DIM_MAP,       /* interned name */
	MF_DIM_KERNEL     /* packed kernel spec */
} mf_dim_form;

/** The private half of a row of mf_plan_dims[], at the same index. */
typedef struct mf_dim_store {
	mf_dim_form form;
	const char *prefix;
	uint16_t offset, size; /* of the field in mf_plan; size is 1 or 2 */
	uint16_t min, max, unset;
} mf_dim_store;

/** Dimensions by number; MF_DIM_COUNT is how many. */
enum {
#define D(name, segment, title, help, phases, choices, form, prefix, field, min, max, unset) MF_DIM_OF_##form##_##field,
#include "plan_dims.def"
#undef D
	MF_DIM_COUNT
};
extern const mf_dim_store mf_dim_stores[MF_DIM_COUNT];
extern const mf_choice mf_comm_kind_choices[];

void mf_dim_set(mf_plan *p, int dim, uint16_t value);
/** Default of a dimension in this plan: the ZeRO stage follows the sharding. */
uint16_t mf_dim_unset(const mf_plan *p, int dim);

/** True when `name` is meant as a path: it holds a '/' or ends in .json, .yaml or .yml. */
bool mf_is_path(const char *name);
/** Short name of a document: its file without folder and suffix, or the built-in name. */
void mf_input_name(const char *doc_name, char *out, size_t size);
/** Reads `key` as one of `choices`; absent leaves *out. */
mf_status mf_get_choice(
	const mf_doc *d, const mf_node *map, const char *key, const mf_choice *choices, int *out, mf_err *err);

#define MF_CHUNK_TOKENS 256u
/** Longest interned texts a plan's text can carry. */
#define MF_LAYOUT_TEXT_MAX 127
#define MF_MAP_TEXT_MAX 63

#endif
