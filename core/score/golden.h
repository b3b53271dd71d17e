/*
 * golden.h: arguments of Megatron's own functional tests (github.com/NVIDIA/Megatron-LM at d98e8a6,
 * tests/functional_tests/test_cases) that the columns of a measured row do not hold. The row names its test; everything
 * the row states itself (degrees, sequence, experts, recompute, precision, ...) is taken from the row.
 */
#ifndef MF_SCORE_GOLDEN_H
#define MF_SCORE_GOLDEN_H

#include "score_internal.h"

/** What a row of a functional test runs: the model of the test, and how its command differs from a plain stack. */
typedef struct mf_golden {
	const char *test;   /* what the test's name begins with */
	int shape;          /* index of mf_golden_shapes */
	unsigned flags;     /* MF_GOLD_ */
	const char *layout; /* layers of the virtual stages, as in plans; NULL: even */
	uint32_t gpus; /* where the repository does not say: solved from the static memory it logs; 0: not needed */
} mf_golden;

enum {
	MF_GOLD_UNFUSED = 1,    /* attention scores in memory */
	MF_GOLD_DROPOUT = 2,    /* attention and hidden dropout of 0.1, as when nothing is said */
	MF_GOLD_WGRAD = 4,      /* no gradient-accumulation fusion */
	MF_GOLD_CUBLAS = 8,     /* CUBLAS_WORKSPACE_CONFIG=:4096:8 */
	MF_GOLD_NATIVE = 16,    /* native fused cross entropy; else eager */
	MF_GOLD_INSTANCES = 32, /* two optimizer instances */
	MF_GOLD_FP8_PARAMS = 64,
	MF_GOLD_BF16_GRADS = 128,
	MF_GOLD_MTP_REPEATED = 256
};

/** Shape of a test's model, what the row does not state. */
typedef struct mf_golden_shape {
	const char *name;
	uint32_t heads, kv_heads, head_dim, ffn;           /* ffn 0: four times hidden */
	uint32_t q_lora, kv_lora, qk_nope, qk_rope, v_dim; /* kv_lora 0: no MLA */
	uint32_t shared, dense_layers, vocab, vocab_multiple, learned_positions;
	uint32_t mamba_heads, mamba_head_dim;
	const char *pattern; /* hybrids: a letter a layer */
	bool gated, tied;
} mf_golden_shape;
extern const mf_golden_shape mf_golden_shapes[];

/** The test that `name` belongs to (longest match), or NULL. */
const mf_golden *mf_golden_find(const char *name);

/** The model of a row of a functional test: `g`, and what the row's note states. Sizes that it lacks stay 0. */
void mf_golden_model(const mf_measured *row, const mf_golden_shape *g, mf_model *m);

#endif
