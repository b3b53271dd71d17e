/*
 * words.c: what sources write in the columns of precision and recompute. Of a precision case and separators do not
 * count: "FP8-blockwise" is "fp8:block".
 */
#include <ctype.h>
#include <string.h>

#include "score_internal.h"

/* Value of a word in a table, by its letters and digits alone; -1 when it is not there. */
static int value_of(const mf_choice *words, const char *text)
{
	char word[32];
	size_t n = 0;

	for (; *text && n + 1 < sizeof word; text++)
		if (isalnum((unsigned char)*text))
			word[n++] = (char)tolower((unsigned char)*text);
	word[n] = '\0';
	return mf_choice_value(words, word);
}

bool mf_score_weights(const char *text, mf_quant *out)
{
	static const mf_choice words[] = {{MF_QUANT_NONE, "bf16", ""}, {MF_QUANT_NONE, "bfloat16", ""},
		{MF_QUANT_NONE, "fp16", ""}, {MF_QUANT_NONE, "float16", ""}, {MF_QUANT_FP8_BLOCK, "fp8", ""},
		{MF_QUANT_FP8_BLOCK, "fp8block", ""}, {MF_QUANT_FP8_BLOCK, "fp8blockwise", ""},
		{MF_QUANT_FP8_BLOCK, "mxfp8", ""}, {MF_QUANT_FP8, "fp8tensor", ""}, {MF_QUANT_FP8, "fp8tensorwise", ""},
		{MF_QUANT_FP8, "fp8pertensor", ""}, {MF_QUANT_FP8, "fp8static", ""}, {MF_QUANT_NVFP4, "fp4", ""},
		{MF_QUANT_NVFP4, "nvfp4", ""}, {MF_QUANT_MXFP4, "mxfp4", ""}, {MF_QUANT_INT4, "int4", ""},
		{MF_QUANT_INT4, "int4wo", ""}, {MF_QUANT_INT4, "w4a16", ""}, {MF_QUANT_INT4, "awq", ""},
		{MF_QUANT_INT4, "gptq", ""}, {MF_QUANT_INT8, "int8", ""}, {MF_QUANT_INT8, "w8a8", ""}, {0, NULL, NULL}};
	int v = value_of(words, text);

	if (v >= 0)
		*out = (mf_quant)v;
	return v >= 0;
}

bool mf_score_training(const char *text, mf_precision *out)
{
	static const mf_choice words[] = {{MF_PREC_BF16, "", ""}, {MF_PREC_BF16, "bf16", ""},
		{MF_PREC_BF16, "bfloat16", ""}, {MF_PREC_BF16, "fp16", ""}, {MF_PREC_FP8_TENSOR, "fp8", ""},
		{MF_PREC_FP8_TENSOR, "fp8tensorwise", ""}, {MF_PREC_FP8_TENSOR, "fp8cs", ""},
		{MF_PREC_FP8_DELAYED, "fp8delayed", ""}, {MF_PREC_FP8_DELAYED, "fp8ds", ""},
		{MF_PREC_FP8_BLOCK, "fp8block", ""}, {MF_PREC_FP8_BLOCK, "fp8blockwise", ""},
		{MF_PREC_FP8_BLOCK, "fp8sc", ""}, {MF_PREC_MXFP8, "mxfp8", ""}, {MF_PREC_MXFP8, "fp8mx", ""},
		{MF_PREC_MXFP8, "fp8mxfp8", ""}, {MF_PREC_NVFP4, "nvfp4", ""}, {MF_PREC_NVFP4, "fp4", ""},
		{MF_PREC_NVFP4, "fp4nvfp4", ""}, {0, NULL, NULL}};
	int v = value_of(words, text);

	if (v >= 0)
		*out = (mf_precision)v;
	return v >= 0;
}

unsigned mf_score_recompute(const char *list)
{
	static const mf_choice others[] = {
		{MF_RC_LAYERNORM, "norm", ""},
		{MF_RC_SHARED_EXPERTS, "shared_expert", ""},
		{MF_RC_MOE_ACT, "swiglu_act", ""},
		{0, NULL, NULL},
	};
	static const char between[] = "+, []";
	unsigned modules = 0;
	char word[32];

	for (list += strspn(list, between); *list; list += strspn(list, between)) {
		size_t len = strcspn(list, between);
		int bit;

		snprintf(word, sizeof word, "%.*s", len < sizeof word ? (int)len : 0, list);
		if ((bit = mf_choice_value(mf_recompute_module_choices, word)) < 0)
			bit = mf_choice_value(others, word);
		modules |= bit > 0 ? (unsigned)bit : 0;
		list += len;
	}
	return modules;
}
