/*
 * filter.c: parser and matcher of the filter language. Words are resolved to dimensions and values when parsed, so that
 * the usual filter compares integers; the text form of a plan is made only for words and patterns that need it.
 */
#include "tui_filter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_NODES 128
#define MAX_DEPTH 32
#define MAX_ALTERNATIVES 12
/* Steps a pattern may take on one plan: a plan text is short, so an honest pattern needs a small share of this. */
#define MATCH_LIMIT 20000

enum field { F_RANK, F_TPUT, F_STEP, F_TTFT, F_TPOT, F_MEM, F_HIDDEN, F_BUBBLE, F_SIM, F_TIER, F_DP, F_DIM };
static const struct {
	const char *name;
	enum field field;
} aliases[] = {
	{"rank", F_RANK},
	{"tput", F_TPUT},
	{"throughput", F_TPUT},
	{"step", F_STEP},
	{"ttft", F_TTFT},
	{"tpot", F_TPOT},
	{"mem", F_MEM},
	{"memory", F_MEM},
	{"hidden", F_HIDDEN},
	{"bubble", F_BUBBLE},
	{"sim", F_SIM},
	{"tier", F_TIER},
	{"dp", F_DP},
};
const mf_filter_field mf_filter_fields[] = {
	{"rank", "place among all scored plans"},
	{"tput", "tokens/s/GPU; 12k is 12000"},
	{"step", "training step, ms"},
	{"ttft", "time to first token, ms"},
	{"tpot", "time per output token, ms"},
	{"mem", "memory of the worst stage, GB a GPU"},
	{"hidden", "communication hidden behind compute, percent"},
	{"bubble", "step lost to the pipeline's fill and drain, percent"},
	{"sim", "tokens/s/GPU of the simulator"},
	{"tier", "1 analytic, 2 refined, 3 with a kernel"},
	{"dp", "data parallel degree"},
	{"tp pp ep ...", "any dimension of a plan: ep>=8, or as its segment: ep8"},
	{"buildable", "the plan can be built"},
	{"rejected", "it cannot"},
	{"probe", "buildable, but only a launch can tell whether it fits"},
	{"extrapolated", "a constant was used outside the range it was measured in"},
	{"rule:", "id of the refusing rule, with * and ?: rule:mcore.*"},
	{"boundary:", "boundary class, with * and ?: boundary:B6"},
	{NULL, NULL},
};

enum kind { N_AND, N_OR, N_NOT, N_COMPARE, N_ANY, N_FLAG, N_RULES, N_WORD, N_REGEX };
enum op { OP_LT, OP_LE, OP_GT, OP_GE, OP_EQ, OP_NE };
enum flag { FL_BUILDABLE, FL_REJECTED, FL_PROBE, FL_EXTRAPOLATED };

struct node {
	enum kind kind;
	int left, right; /* N_AND, N_OR; N_NOT: left */
	enum field field;
	int dim;      /* N_COMPARE */
	double scale; /* of the dimension's stored value: chunks are stored in units of 256 tokens */
	bool is_etp;  /* 0 stands for the dense degree */
	enum op op;
	double number;
	struct {
		int dim;
		uint16_t value;
	} any[MAX_ALTERNATIVES];
	int n_any;
	enum flag flag;
	uint8_t *rules; /* N_RULES: a byte for each rule */
	char word[64];  /* N_WORD, lower case */
	pcre2_code *regex;
	pcre2_match_data *match;
	bool compiled; /* to machine code: the fast way in is open */
};

struct mf_filter {
	struct node node[MAX_NODES];
	int n, root;
	bool needs_text;
	pcre2_match_context *limits;
};

struct parser {
	mf_filter *f;
	const char *text, *at;
	mf_phase phase;
	int *column;
	mf_err *err;
	mf_status status;
	int depth;
};

static int fail(struct parser *p, const char *at, const char *what)
{
	if (p->status == MF_OK) {
		*p->column = (int)(at - p->text) + 1;
		p->status = mf_fail(p->err, MF_EINPUT, "column %d: %s", *p->column, what);
	}
	return -1;
}

static int new_node(struct parser *p, enum kind kind)
{
	if (p->f->n == MAX_NODES)
		return fail(p, p->at, "too long an expression");
	struct node *n = &p->f->node[p->f->n];
	memset(n, 0, sizeof(*n));
	n->kind = kind;
	n->left = n->right = -1;
	return p->f->n++;
}

static void blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool is_word_byte(char c)
{
	return c && !isspace((unsigned char)c) && !strchr("()<>=!&|", c);
}

/* Takes keyword `word` when it stands at the cursor as a word of its own. */
static bool keyword(struct parser *p, const char *word)
{
	size_t len = strlen(word);
	blanks(p);
	if (strncasecmp(p->at, word, len) != 0 || is_word_byte(p->at[len]))
		return false;
	p->at += len;
	return true;
}

static int parse_or(struct parser *p);

/* ---- words ---- */

/* True when `part` is one of the pieces of `name` that '_', '+', ':' and ',' separate. */
static bool has_part(const char *name, const char *part)
{
	size_t len = strlen(part);
	for (const char *s = name; *s;) {
		size_t n = strcspn(s, "_+:,");
		if (n == len && strncasecmp(s, part, len) == 0)
			return true;
		s += n;
		s += strspn(s, "_+:,");
	}
	return false;
}

static int find_dim(const char *name, size_t len, mf_phase phase)
{
	for (int i = 0; mf_plan_dims[i].name; i++)
		if (mf_plan_dims[i].phases & 1u << phase && strlen(mf_plan_dims[i].name) == len &&
			strncasecmp(mf_plan_dims[i].name, name, len) == 0)
			return i;
	return -1;
}

static void add_alternative(struct node *n, int dim, int value)
{
	if (n->n_any < MAX_ALTERNATIVES) {
		n->any[n->n_any].dim = dim;
		n->any[n->n_any++].value = (uint16_t)value;
	}
}

static void set_dim(struct node *n, int dim)
{
	n->field = F_DIM;
	n->dim = dim;
	n->scale = strcmp(mf_plan_dims[dim].name, "ck") == 0 ? 256 : 1;
	n->is_etp = strcmp(mf_plan_dims[dim].name, "etp") == 0;
}

/* Fills a node from one segment-like word. */
static void resolve_word(struct parser *p, struct node *n, const char *word)
{
	static const struct {
		const char *name;
		enum flag flag;
	} flags[] = {{"buildable", FL_BUILDABLE}, {"rejected", FL_REJECTED}, {"refused", FL_REJECTED},
		{"probe", FL_PROBE}, {"extrapolated", FL_EXTRAPOLATED}};
	size_t len = strlen(word), letters = strcspn(word, "0123456789");

	for (size_t i = 0; i < MF_COUNT(flags); i++) {
		if (strcasecmp(word, flags[i].name) == 0) {
			n->kind = N_FLAG;
			n->flag = flags[i].flag;
			return;
		}
	}
	/* ep8: a dimension and its number. */
	if (letters > 0 && letters < len && strspn(word + letters, "0123456789") == len - letters) {
		int dim = find_dim(word, letters, p->phase);
		if (dim >= 0 && !mf_plan_dims[dim].choices) {
			n->kind = N_COMPARE;
			set_dim(n, dim);
			n->op = OP_EQ;
			n->number = strtod(word + letters, NULL);
			return;
		}
	}
	/* ov, tbo: a dimension that is there or not. */
	int dim = find_dim(word[0] == '+' ? word + 1 : word, word[0] == '+' ? len - 1 : len, p->phase);
	if (dim >= 0 && !mf_plan_dims[dim].choices) {
		n->kind = N_COMPARE;
		set_dim(n, dim);
		n->op = OP_GT;
		n->number = 0;
		return;
	}
	/* A choice by its name (fsdp), or by a part of it (offload); disp:deepep names the dimension too. */
	const char *colon = strchr(word, ':');
	int only = colon ? find_dim(word, (size_t)(colon - word), p->phase) : -1;
	const char *value = only >= 0 ? colon + 1 : word;
	n->kind = N_ANY;
	for (int exact = 1; exact >= 0 && n->n_any == 0; exact--) {
		for (int i = 0; mf_plan_dims[i].name; i++) {
			const mf_plan_dim *d = &mf_plan_dims[i];
			if (!(d->phases & 1u << p->phase) || !d->choices || (only >= 0 && i != only))
				continue;
			for (const mf_choice *c = d->choices; c->name; c++)
				if (exact ? strcasecmp(c->name, value) == 0 : has_part(c->name, value))
					add_alternative(n, i, c->value);
		}
	}
	if (n->n_any > 0)
		return;
	n->kind = N_WORD;
	for (size_t i = 0; i <= len && i < sizeof(n->word); i++)
		n->word[i] = (char)tolower((unsigned char)word[i]);
	n->word[sizeof(n->word) - 1] = 0;
	p->f->needs_text = true;
}

/* True when `text` matches `pattern` with * and ?, regardless of case. */
static bool glob(const char *pattern, const char *text)
{
	const char *star = NULL, *back = NULL;
	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			back = text;
		} else if (*pattern == '?' || tolower((unsigned char)*pattern) == tolower((unsigned char)*text)) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++back;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == 0;
}

static int rules_node(struct parser *p, const char *pattern, bool boundary)
{
	int i = new_node(p, N_RULES);
	if (i < 0)
		return -1;
	uint8_t *rules = calloc(MF_RULE_COUNT, 1);
	if (!rules) {
		p->status = mf_fail(p->err, MF_ENOMEM, "out of memory");
		return -1;
	}
	p->f->node[i].rules = rules;
	for (int r = MF_RULE_NONE + 1; r < MF_RULE_COUNT; r++) {
		const mf_rule *rule = mf_rule_get((mf_rule_id)r);
		const char *text = boundary ? rule->boundary : rule->id;
		rules[r] = text && glob(pattern, text);
	}
	return i;
}

static int regex_node(struct parser *p)
{
	const char *start = ++p->at;
	bool upper = false;
	int code;
	PCRE2_SIZE offset;

	while (*p->at && *p->at != '/') {
		upper |= isupper((unsigned char)*p->at) != 0;
		/* A separator inside a pattern is written \/ . */
		p->at += p->at[0] == '\\' && p->at[1] ? 2 : 1;
	}
	if (*p->at != '/')
		return fail(p, start - 1, "a pattern ends with /");
	int i = new_node(p, N_REGEX);
	if (i < 0)
		return -1;
	struct node *n = &p->f->node[i];
	n->regex = pcre2_compile((PCRE2_SPTR)start, (PCRE2_SIZE)(p->at - start),
		PCRE2_UTF | (upper ? 0 : PCRE2_CASELESS), &code, &offset, NULL);
	if (!n->regex) {
		unsigned char text[128];
		pcre2_get_error_message(code, text, sizeof(text));
		return fail(p, start + offset, (const char *)text);
	}
	/* Faster where the library can; where it cannot, the interpreter says the same. */
	n->compiled = pcre2_jit_compile(n->regex, PCRE2_JIT_COMPLETE) == 0;
	n->match = pcre2_match_data_create(1, NULL);
	if (!n->match) {
		p->status = mf_fail(p->err, MF_ENOMEM, "out of memory");
		return -1;
	}
	p->f->needs_text = true;
	p->at++;
	return i;
}

/* "mem<70": the cursor is at the operator. */
static int compare_node(struct parser *p, const char *name_at, const char *name)
{
	int dim = -1;
	enum field field = F_DIM;
	bool found = false;

	for (size_t i = 0; i < MF_COUNT(aliases) && !found; i++) {
		if (strcasecmp(aliases[i].name, name) == 0) {
			field = aliases[i].field;
			found = true;
		}
	}
	if (!found) {
		dim = find_dim(name, strlen(name), p->phase);
		if (dim < 0) {
			const char *known[MF_COUNT(aliases) + 64];
			size_t n = 0;
			for (; n < MF_COUNT(aliases); n++)
				known[n] = aliases[n].name;
			for (int i = 0; mf_plan_dims[i].name && n + 1 < MF_COUNT(known); i++)
				if (mf_plan_dims[i].phases & 1u << p->phase)
					known[n++] = mf_plan_dims[i].name;
			known[n] = NULL;
			const char *near = mf_nearest(name, known);
			char what[160];
			snprintf(what, sizeof(what), "no field '%.40s'%s%s", name, near ? "; nearest is " : "",
				near ? near : "");
			return fail(p, name_at, what);
		}
	}
	enum op op;
	if (p->at[0] == '<' || p->at[0] == '>') {
		bool less = *p->at++ == '<', equal = *p->at == '=';
		p->at += equal;
		op = less ? (equal ? OP_LE : OP_LT) : (equal ? OP_GE : OP_GT);
	} else if (p->at[0] == '!' && p->at[1] == '=') {
		p->at += 2;
		op = OP_NE;
	} else {
		p->at += p->at[1] == '=' ? 2 : 1;
		op = OP_EQ;
	}
	blanks(p);
	const char *value_at = p->at;
	char value[64];
	size_t len = 0;
	while (is_word_byte(p->at[0]) && len + 1 < sizeof(value))
		value[len++] = *p->at++;
	value[len] = 0;
	char *end;
	double number = strtod(value, &end);
	if (end == value && dim >= 0 && mf_plan_dims[dim].choices) {
		int v = mf_choice_value(mf_plan_dims[dim].choices, value);
		if (v < 0)
			return fail(p, value_at, "no such choice of this dimension");
		number = v;
	} else {
		if (*end == 'k' || *end == 'K')
			number *= 1000, end++;
		else if (*end == 'M')
			number *= 1e6, end++;
		if (end == value || *end || !isfinite(number))
			return fail(p, value_at, "a number is expected here, such as 70 or 12k");
	}
	int i = new_node(p, N_COMPARE);
	if (i < 0)
		return -1;
	p->f->node[i].field = field;
	if (field == F_DIM)
		set_dim(&p->f->node[i], dim);
	p->f->node[i].op = op;
	p->f->node[i].number = number;
	return i;
}

static int binary(struct parser *p, enum kind kind, int left, int right)
{
	int i = left < 0 || right < 0 ? -1 : new_node(p, kind);
	if (i < 0)
		return -1;
	p->f->node[i].left = left;
	p->f->node[i].right = right;
	return i;
}

static int parse_word(struct parser *p)
{
	const char *start = p->at;
	char word[128];
	size_t len = 0;

	while (is_word_byte(*p->at) && len + 1 < sizeof(word))
		word[len++] = *p->at++;
	word[len] = 0;
	if (len == 0 || is_word_byte(*p->at))
		return fail(p, start, len == 0 ? "a word, a field or /pattern/ is expected here" : "too long a word");
	const char *after = p->at;
	blanks(p);
	if (*p->at == '<' || *p->at == '>' || *p->at == '=' || (p->at[0] == '!' && p->at[1] == '='))
		return compare_node(p, start, word);
	p->at = after;
	if (strncasecmp(word, "rule:", 5) == 0)
		return rules_node(p, word + 5, false);
	if (strncasecmp(word, "boundary:", 9) == 0)
		return rules_node(p, word + 9, true);
	/* A plan text, or a piece of one: every segment must be there. */
	int result = -1;
	char *save = NULL;
	for (char *s = strtok_r(word, "/", &save); s; s = strtok_r(NULL, "/", &save)) {
		char *plus = strchr(s, '+');
		if (plus && plus != s)
			*plus = 0;
		for (int half = 0; half < 2; half++) {
			const char *piece = half == 0 ? s : plus && plus != s ? plus + 1 : NULL;
			if (!piece || !*piece)
				continue;
			int i = new_node(p, N_WORD);
			if (i < 0)
				return -1;
			resolve_word(p, &p->f->node[i], piece);
			result = result < 0 ? i : binary(p, N_AND, result, i);
		}
	}
	return result < 0 ? fail(p, start, "a word is expected here") : result;
}

static int parse_not(struct parser *p)
{
	int result;

	blanks(p);
	if (++p->depth > MAX_DEPTH)
		return fail(p, p->at, "too deeply nested");
	if ((*p->at == '!' && p->at[1] != '=' && p->at++) || keyword(p, "not")) {
		int inner = parse_not(p);
		result = inner < 0 ? -1 : new_node(p, N_NOT);
		if (result >= 0)
			p->f->node[result].left = inner;
	} else if (*p->at == '(') {
		const char *open = p->at++;
		result = parse_or(p);
		blanks(p);
		if (result >= 0 && *p->at != ')')
			result = fail(
				p, *p->at ? p->at : open, *p->at ? "')' is expected here" : "this '(' is not closed");
		else if (result >= 0)
			p->at++;
	} else if (*p->at == '/') {
		result = regex_node(p);
	} else if (!*p->at) {
		result = fail(p, p->at, "a word, a field or /pattern/ is expected here");
	} else {
		result = parse_word(p);
	}
	p->depth--;
	return result;
}

static int parse_and(struct parser *p)
{
	int left = parse_not(p);
	while (left >= 0) {
		blanks(p);
		if (*p->at == '&') {
			p->at += p->at[1] == '&' ? 2 : 1;
		} else if (!keyword(p, "and")) {
			const char *here = p->at;
			if (!*here || *here == ')' || *here == '|')
				break;
			if (keyword(p, "or")) {
				p->at = here;
				break;
			}
		}
		left = binary(p, N_AND, left, parse_not(p));
	}
	return left;
}

static int parse_or(struct parser *p)
{
	int left = parse_and(p);
	while (left >= 0) {
		blanks(p);
		if (*p->at == '|')
			p->at += p->at[1] == '|' ? 2 : 1;
		else if (!keyword(p, "or"))
			break;
		left = binary(p, N_OR, left, parse_and(p));
	}
	return left;
}

mf_status mf_filter_parse(mf_filter **out, const char *text, mf_phase phase, int *column, mf_err *err)
{
	int dummy;
	struct parser p = {NULL, text, text, phase, column ? column : &dummy, err, MF_OK, 0};

	*out = NULL;
	blanks(&p);
	if (!*p.at)
		return MF_OK;
	p.f = calloc(1, sizeof(*p.f));
	if (!p.f || !(p.f->limits = pcre2_match_context_create(NULL))) {
		free(p.f);
		return mf_fail(err, MF_ENOMEM, "out of memory");
	}
	pcre2_set_match_limit(p.f->limits, MATCH_LIMIT);
	p.f->root = parse_or(&p);
	blanks(&p);
	if (p.status == MF_OK && p.f->root >= 0 && *p.at)
		fail(&p, p.at, *p.at == ')' ? "no '(' for this ')'" : "not understood");
	if (p.status < 0 || p.f->root < 0) {
		mf_filter_free(p.f);
		return p.status < 0 ? p.status : mf_fail(err, MF_EBUG, "filter failed without a reason");
	}
	*out = p.f;
	return MF_OK;
}

void mf_filter_free(mf_filter *f)
{
	if (!f)
		return;
	for (int i = 0; i < f->n; i++) {
		free(f->node[i].rules);
		pcre2_code_free(f->node[i].regex);
		pcre2_match_data_free(f->node[i].match);
	}
	pcre2_match_context_free(f->limits);
	free(f);
}

/* ---- matching ---- */

struct subject {
	const mf_filter *f;
	const mf_filter_ctx *ctx;
	const mf_row *row;
	uint32_t rank;
	char text[MF_PLAN_TEXT_MAX];
	size_t len;
};

static double field_value(const struct node *n, const struct subject *s)
{
	const mf_row *r = s->row;
	switch (n->field) {
	case F_RANK: return s->rank;
	case F_TPUT: return r->throughput;
	case F_STEP: return r->step_ms;
	case F_TTFT: return r->ttft_ms;
	case F_TPOT: return r->tpot_ms;
	case F_MEM: return r->memory_gb;
	case F_HIDDEN: return 100.0 * r->hidden;
	case F_BUBBLE: return 100.0 * r->bubble;
	case F_SIM: return r->simulated;
	case F_TIER: return r->tier;
	case F_DP: return mf_plan_dp(&r->plan, s->ctx->world);
	case F_DIM: break;
	}
	double v = mf_dim_get(&r->plan, n->dim) * n->scale;
	/* An unset expert tensor degree follows the dense one, and that is what a reader of "etp" means. */
	if (v == 0 && n->is_etp)
		v = mf_plan_etp(&r->plan, s->ctx->world);
	return v;
}

static bool compare(double a, enum op op, double b)
{
	switch (op) {
	case OP_LT: return a < b;
	case OP_LE: return a <= b;
	case OP_GT: return a > b;
	case OP_GE: return a >= b;
	case OP_EQ: return a == b;
	case OP_NE: return a == a && a != b;
	}
	return false;
}

/* A word is a whole segment, or a part of one that + _ : or , set off. */
static bool text_has_word(const char *text, const char *word)
{
	size_t len = strlen(word);
	for (const char *s = text; *s;) {
		size_t n = strcspn(s, "/");
		if (n == len && strncasecmp(s, word, len) == 0)
			return true;
		for (const char *part = s; part < s + n;) {
			size_t m = strcspn(part, "/+_:,");
			if (m == len && strncasecmp(part, word, len) == 0)
				return true;
			part += m + 1;
		}
		s += n;
		s += *s == '/';
	}
	return false;
}

static bool eval(struct subject *s, int i)
{
	const struct node *n = &s->f->node[i];
	switch (n->kind) {
	case N_AND: return eval(s, n->left) && eval(s, n->right);
	case N_OR: return eval(s, n->left) || eval(s, n->right);
	case N_NOT: return !eval(s, n->left);
	case N_COMPARE: return compare(field_value(n, s), n->op, n->number);
	case N_ANY:
		for (int k = 0; k < n->n_any; k++)
			if (mf_dim_get(&s->row->plan, n->any[k].dim) == n->any[k].value)
				return true;
		return false;
	case N_FLAG:
		switch (n->flag) {
		case FL_BUILDABLE: return s->row->rule == MF_RULE_NONE;
		case FL_REJECTED: return s->row->rule != MF_RULE_NONE;
		case FL_PROBE: return s->row->rule == MF_RULE_NONE && s->row->probe;
		case FL_EXTRAPOLATED: return s->row->extrapolated;
		}
		return false;
	case N_RULES: return n->rules[s->row->rule] != 0;
	case N_WORD:
	case N_REGEX: break;
	}
	if (s->len == 0)
		s->len = mf_plan_format(&s->row->plan, s->ctx->intern, s->text);
	if (n->kind == N_WORD)
		return text_has_word(s->text, n->word);
	/* The fast way in does not look whether the text is UTF-8; only the name of an expert map might not be. */
	bool fast = n->compiled && !s->row->plan.expert_map;
	int found = fast ? pcre2_jit_match(n->regex, (PCRE2_SPTR)s->text, s->len, 0, 0, n->match, s->f->limits)
			 : pcre2_match(n->regex, (PCRE2_SPTR)s->text, s->len, 0, 0, n->match, s->f->limits);
	return found >= 0;
}

bool mf_filter_match(mf_filter *f, const mf_filter_ctx *ctx, const mf_row *row, uint32_t rank)
{
	if (!f)
		return true;
	struct subject s;
	s.f = f, s.ctx = ctx, s.row = row, s.rank = rank, s.len = 0;
	return eval(&s, f->root);
}
