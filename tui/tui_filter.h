/* tui_filter.h: the language behind '/' and 'f': which plans to show. */
#ifndef MF_TUI_FILTER_H
#define MF_TUI_FILTER_H

#include "tui.h"

/**
 * A parsed expression:
 *
 *   ep8 and mem<70 and not offload      words name segments (or parts of them), fields compare with numbers
 *   (ep8 | ep4) tput>=10k               'and' may be left out; & | ! are and, or, not
 *   /^tp[12]/ rule:mcore.*              regular expressions over the plan text; patterns over rule ids
 *
 * Unknown numbers match no comparison. Not thread-safe: one thread matches with it at a time.
 */
typedef struct mf_filter mf_filter;

/** What a match may look at beside the row. */
typedef struct mf_filter_ctx {
	const mf_intern *intern;
	uint32_t world; /* GPUs */
} mf_filter_ctx;

/** Parses; a blank text gives *out = NULL, which matches everything. On failure *column is the 1-based place. */
mf_status mf_filter_parse(mf_filter **out, const char *text, mf_phase phase, int *column, mf_err *err);
void mf_filter_free(mf_filter *f);
/** True when `row`, whose rank (from 1) is given, matches. f may be NULL. */
bool mf_filter_match(mf_filter *f, const mf_filter_ctx *ctx, const mf_row *row, uint32_t rank);

#endif
