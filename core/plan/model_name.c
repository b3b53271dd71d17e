/*
 * model_name.c: models by the names that publishers and benchmarks give them. A name is compared without its owner,
 * without what only says how the checkpoint was tuned or quantized, and without regard to case and separators; what is
 * left must be all of a built-in model's name or alias, so that no size or generation is taken for another.
 */
#include "plan_internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 128

/* Last words of a name that change no shape, and the format that they name, if any. */
static const struct {
	const char *word;
	bool names_quant;
	mf_quant quant;
} last_words[] = {
	{"bf16", true, MF_QUANT_NONE},
	{"fp8", true, MF_QUANT_FP8_BLOCK},
	{"pertensor", true, MF_QUANT_FP8},
	{"nvfp4", true, MF_QUANT_NVFP4},
	{"fp4", true, MF_QUANT_NVFP4},
	{"mxfp4", true, MF_QUANT_MXFP4},
	{"int4", true, MF_QUANT_INT4},
	{"awq", true, MF_QUANT_INT4},
	{"gptq", true, MF_QUANT_INT4},
	{"w4a16", true, MF_QUANT_INT4},
	{"int8", true, MF_QUANT_INT8},
	{"w8a8", true, MF_QUANT_INT8},
	{"static", false, MF_QUANT_NONE},
	{"dynamic", false, MF_QUANT_NONE},
	{"instruct", false, MF_QUANT_NONE},
	{"thinking", false, MF_QUANT_NONE},
	{"reasoning", false, MF_QUANT_NONE},
	{"base", false, MF_QUANT_NONE},
	{"chat", false, MF_QUANT_NONE},
	{"it", false, MF_QUANT_NONE},
	{"hf", false, MF_QUANT_NONE},
	{"preview", false, MF_QUANT_NONE},
	{"exp", false, MF_QUANT_NONE},
	{"terminus", false, MF_QUANT_NONE},
	{"speciale", false, MF_QUANT_NONE},
};

static bool all_digits(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)s[i]))
			return false;
	return n > 0;
}

/* 0528, 2507; 128k; v0.1; and v2 of a quantized checkpoint: elsewhere v3 is a generation. */
static bool date_or_version(const char *word, bool after_quant)
{
	size_t n = strlen(word);

	return (n == 4 && all_digits(word, n)) || (n > 1 && word[n - 1] == 'k' && all_digits(word, n - 1)) ||
	       (strncmp(word, "v0.", 3) == 0 && all_digits(word + 3, n - 3)) ||
	       (after_quant && word[0] == 'v' && all_digits(word + 1, n - 1));
}

static int find_word(const char *word)
{
	for (size_t i = 0; i < MF_COUNT(last_words); i++)
		if (strcmp(last_words[i].word, word) == 0)
			return (int)i;
	return -1;
}

/* Cuts last words off `name`, lower-case with - between words; the format that they name goes to *quant, last wins. */
static void cut_last_words(char *name, bool *names_quant, mf_quant *quant)
{
	char *dash;

	*names_quant = false;
	while ((dash = strrchr(name, '-')) && dash != name) {
		const char *before;
		bool after_quant;
		int i = find_word(dash + 1);

		*dash = '\0';
		before = strrchr(name, '-');
		after_quant = before && find_word(before + 1) >= 0;
		if (i < 0 && !date_or_version(dash + 1, after_quant)) {
			*dash = '-';
			return;
		}
		if (i >= 0 && last_words[i].names_quant && !*names_quant) {
			*names_quant = true;
			*quant = last_words[i].quant;
		}
	}
}

/* What is compared of a name, and the format it says; false when the name is too long for one. */
static bool essence(const char *name, char out[NAME_MAX_BYTES], bool *names_quant, mf_quant *quant)
{
	static const char *const owners[] = {"nvidia-", "meta-"};
	const char *slash = strrchr(name, '/');
	char words[NAME_MAX_BYTES], *from = words;
	size_t n = 0;

	if (slash)
		name = slash + 1;
	if (strlen(name) >= sizeof words)
		return false;
	for (; name[n]; n++) {
		unsigned char c = (unsigned char)name[n];

		words[n] = (char)(c == '_' || c == ' ' ? '-' : tolower(c));
	}
	words[n] = '\0';
	cut_last_words(words, names_quant, quant);
	for (size_t i = 0; i < MF_COUNT(owners); i++)
		if (strncmp(from, owners[i], strlen(owners[i])) == 0)
			from += strlen(owners[i]);
	/* Separators count only between digits: there "3.5" and "3-5" are one, and 30 is not 3-0. */
	for (n = 0; *from; from++) {
		bool separator = *from == '-' || *from == '.';

		if (!separator)
			out[n++] = *from;
		else if (n && isdigit((unsigned char)out[n - 1]) && isdigit((unsigned char)from[1]))
			out[n++] = '-';
	}
	out[n] = '\0';
	return n > 0;
}

const char *mf_model_builtin(const char *name)
{
	char wanted[NAME_MAX_BYTES], other[NAME_MAX_BYTES];
	const char *close = NULL;
	bool tolerant, unused;
	mf_quant quant;

	tolerant = essence(name, wanted, &unused, &quant);
	for (const char *const *known = mf_builtin_names("models"); *known; known++) {
		const mf_node *n;
		mf_doc d;

		if (strcasecmp(*known, name) == 0)
			return *known;
		if (mf_builtin_open(&d, "models", *known, NULL) < 0)
			continue;
		n = mf_node_get(d.root, "aliases");
		for (n = n && n->kind == MF_LIST ? n->first : NULL; n; n = n->next) {
			if (strcasecmp(n->text, name) == 0)
				break;
			if (tolerant && !close && essence(n->text, other, &unused, &quant) &&
				strcmp(other, wanted) == 0)
				close = *known;
		}
		mf_doc_dispose(&d);
		if (n)
			return *known;
		if (tolerant && !close && essence(*known, other, &unused, &quant) && strcmp(other, wanted) == 0)
			close = *known;
	}
	return close;
}

void mf_model_quant_of_name(mf_model *m, const char *name)
{
	char unused[NAME_MAX_BYTES];
	bool named, eight;
	mf_quant quant;

	if (!essence(name, unused, &named, &quant) || !named)
		return;
	eight = m->quant == MF_QUANT_FP8_BLOCK || m->quant == MF_QUANT_FP8;
	/* A model published in fp8 has its own kind of it, and one published in mxfp4 has no other fp4. */
	if ((quant == MF_QUANT_FP8_BLOCK && eight) || (quant == MF_QUANT_NVFP4 && m->quant == MF_QUANT_MXFP4))
		return;
	/* NVIDIA quantizes to fp8 with one scale a tensor, publishers of models by blocks. */
	if (quant == MF_QUANT_FP8_BLOCK && strncasecmp(name, "nvidia/", 7) == 0)
		quant = MF_QUANT_FP8;
	m->quant = quant;
	m->quant_block_n = m->quant_block_k = quant == MF_QUANT_FP8_BLOCK ? 128 : 0;
}
