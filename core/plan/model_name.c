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

/* Cuts the last word off `name`, lower-case with - between words, if it changes no shape; its place in last_words is in
 * *word, -1 for a date or version. False when it does, or is all there is. */
static bool cut_last_word(char *name, int *word)
{
	char *dash = strrchr(name, '-'), *before;
	bool after_quant = false;

	if (!dash || dash == name)
		return false;
	*word = find_word(dash + 1);
	*dash = '\0';
	if ((before = strrchr(name, '-')))
		after_quant = find_word(before + 1) >= 0;
	if (*word >= 0 || date_or_version(dash + 1, after_quant))
		return true;
	*dash = '-';
	return false;
}

/* A name without its owner, in lower case with - between words; false when it is too long for one. */
static bool words_of(const char *name, char out[NAME_MAX_BYTES])
{
	const char *slash = strrchr(name, '/');
	size_t n = 0;

	if (slash)
		name = slash + 1;
	if (strlen(name) >= NAME_MAX_BYTES)
		return false;
	for (; name[n]; n++) {
		unsigned char c = (unsigned char)name[n];

		out[n] = (char)(c == '_' || c == ' ' ? '-' : tolower(c));
	}
	out[n] = '\0';
	return n > 0;
}

/* What is compared of words. Separators count only between digits: there "3.5" and "3-5" are one, and 30 is not 3-0. */
static void essence(const char *words, char out[NAME_MAX_BYTES])
{
	static const char *const owners[] = {"nvidia-", "meta-"};
	size_t n = 0;

	for (size_t i = 0; i < MF_COUNT(owners); i++)
		if (strncmp(words, owners[i], strlen(owners[i])) == 0)
			words += strlen(owners[i]);
	for (; *words; words++) {
		bool separator = *words == '-' || *words == '.';

		if (!separator)
			out[n++] = *words;
		else if (n && isdigit((unsigned char)out[n - 1]) && isdigit((unsigned char)words[1]))
			out[n++] = '-';
	}
	out[n] = '\0';
}

static bool same_essence(const char *name, const char *wanted)
{
	char words[NAME_MAX_BYTES], mine[NAME_MAX_BYTES];

	if (!words_of(name, words))
		return false;
	essence(words, mine);
	return strcmp(mine, wanted) == 0;
}

/* The built-in model of which a name or alias is `wanted` but for case or, when not `whole`, has that essence. */
static const char *find_model(const char *wanted, bool whole)
{
	for (const char *const *known = mf_builtin_names("models"); *known; known++) {
		bool found = whole ? strcasecmp(*known, wanted) == 0 : same_essence(*known, wanted);
		const mf_node *n;
		mf_doc d;

		if (!found && mf_builtin_open(&d, "models", *known, NULL) == MF_OK) {
			n = mf_node_get(d.root, "aliases");
			for (n = n && n->kind == MF_LIST ? n->first : NULL; n && !found; n = n->next)
				found = whole ? strcasecmp(n->text, wanted) == 0 : same_essence(n->text, wanted);
			mf_doc_dispose(&d);
		}
		if (found)
			return *known;
	}
	return NULL;
}

const char *mf_model_builtin(const char *name)
{
	char words[NAME_MAX_BYTES], wanted[NAME_MAX_BYTES];
	const char *found = find_model(name, true);
	int word;

	if (found || !words_of(name, words))
		return found;
	/* The longest name that is known: "Kimi-K2-Thinking" is an alias of its own, "Kimi-K2-Chat" is not. */
	do {
		essence(words, wanted);
		found = *wanted ? find_model(wanted, false) : NULL;
	} while (!found && cut_last_word(words, &word));
	return found;
}

void mf_model_quant_of_name(mf_model *m, const char *name)
{
	char words[NAME_MAX_BYTES];
	mf_quant quant = MF_QUANT_NONE;
	bool named = false, eight;
	int word;

	if (!words_of(name, words))
		return;
	while (!named && cut_last_word(words, &word))
		if (word >= 0 && last_words[word].names_quant) {
			named = true;
			quant = last_words[word].quant;
		}
	if (!named)
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
