/* plan_text.c: the text form of a plan. Reading and writing walk the same table (plan_dims.def). */
#include "plan_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------------------------------------------------ */

typedef struct out {
	char *at;
	size_t len;
} out;

/* A million plans are written when a filter runs over them: no printf. What does not fit is cut. */
static void put(out *o, const char *text)
{
	while (*text && o->len + 1 < MF_PLAN_TEXT_MAX)
		o->at[o->len++] = *text++;
	o->at[o->len] = '\0';
}

static void put_number(out *o, unsigned v)
{
	char digits[12], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do
		*--at = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	put(o, at);
}

static void put_recompute(out *o, const mf_plan *p)
{
	const char *sep = "";

	if (p->recompute == MF_RECOMPUTE_FULL) {
		put(o, "full");
		if (p->recompute_layers != 1)
			put_number(o, p->recompute_layers);
	} else if (p->recompute_modules == MF_RC_CORE_ATTN) {
		put(o, "selective");
	} else {
		for (const mf_choice *c = mf_recompute_module_choices; c->name; c++) {
			if (p->recompute_modules & c->value) {
				put(o, sep);
				put(o, c->name);
				sep = ",";
			}
		}
	}
}

static void put_kernel(out *o, uint16_t packed)
{
	mf_kernel k;

	if (!mf_kernel_unpack(&k, packed))
		return;
	put(o, k.fuse_gather ? "g" : "");
	put(o, k.fuse_combine ? "c" : "");
	put(o, k.fuse_gather || k.fuse_combine ? "-" : "");
	put_number(o, 1u << k.tile_m_log2);
	put(o, "x");
	put_number(o, 1u << k.tile_n_log2);
	put(o, "x");
	put_number(o, 1u << k.tile_k_log2);
	put(o, "-w");
	put_number(o, 1u << k.warps_log2);
	put(o, "-s");
	put_number(o, k.stages);
}

/* Written even at its default: the degrees every plan is known by, and the schedule of a training plan. */
static bool always_written(const mf_plan *p, int dim)
{
	return dim == MF_DIM_OF_NUMBER_tp || dim == MF_DIM_OF_NUMBER_pp || dim == MF_DIM_OF_NUMBER_ep ||
	       (dim == MF_DIM_OF_WORD_schedule && p->phase == MF_TRAIN);
}

size_t mf_plan_format(const mf_plan *p, const mf_intern *intern, char text[MF_PLAN_TEXT_MAX])
{
	out o = {text, 0};

	text[0] = '\0';
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		const mf_plan_dim *d = &mf_plan_dims[i];
		const mf_dim_store *s = &mf_dim_stores[i];
		const unsigned char *at = (const unsigned char *)p + s->offset;
		const char *name;
		uint16_t value = *at;

		/* mf_dim_get without the call: most dimensions of most plans are at their default and end here. */
		if (s->size != 1)
			memcpy(&value, at, sizeof(value));
		if (value == s->unset && i != MF_DIM_OF_NUMBER_zero_stage && !always_written(p, i))
			continue;
		if (!(d->phases & 1u << p->phase) || (value == mf_dim_unset(p, i) && !always_written(p, i)))
			continue;
		if (o.len > 0 && s->form != MF_DIM_OVERLAP)
			put(&o, "/");
		if (s->prefix && s->form != MF_DIM_FLAG)
			put(&o, s->prefix);
		switch (s->form) {
		case MF_DIM_NUMBER: put_number(&o, value); break;
		case MF_DIM_WORD:
		case MF_DIM_NAMED: put(&o, mf_choice_name(d->choices, value)); break;
		case MF_DIM_OVERLAP: put(&o, "+ov"); break;
		case MF_DIM_FLAG: put(&o, s->prefix); break;
		case MF_DIM_RECOMPUTE: put_recompute(&o, p); break;
		case MF_DIM_CHUNK: put_number(&o, value * (unsigned)MF_CHUNK_TOKENS); break;
		case MF_DIM_LAYOUT:
		case MF_DIM_MAP:
			name = intern ? mf_intern_text(intern, value) : NULL;
			put(&o, name ? name : "?");
			break;
		case MF_DIM_KERNEL: put_kernel(&o, value); break;
		}
	}
	return o.len;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

typedef struct reader {
	const char *text; /* whole */
	const char *seg;  /* current segment, NUL-terminated copy in `word` */
	char word[160];
	mf_plan plan;
	mf_intern *intern;
	uint64_t seen; /* bit a dimension */
	mf_err *err;
} reader;
_Static_assert(MF_DIM_COUNT < 64, "one bit of `seen` a dimension");
_Static_assert(MF_LAYOUT_TEXT_MAX + 8 < sizeof(((reader *)0)->word), "a segment fits its copy");

/* Fails at byte `offset` of the current segment. */
static mf_status MF_PRINTF(3, 4) bad(reader *r, size_t offset, const char *fmt, ...)
{
	char msg[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return mf_fail_at(
		r->err, MF_EINPUT, NULL, 0, "plan", "column %zu: %s", (size_t)(r->seg - r->text) + offset + 1, msg);
}

static bool in_phase(const reader *r, int dim)
{
	return mf_plan_dims[dim].phases & 1u << r->plan.phase;
}

/* What may stand in a plan of this phase, for messages: "tp, cp, ... 1f1b|interleaved|dualpipe, ...". */
static const char *expected(const reader *r, char text[220])
{
	size_t len = 0;

	text[0] = '\0';
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		bool word = mf_dim_stores[i].form == MF_DIM_WORD;
		int n;

		if (!in_phase(r, i) || mf_dim_stores[i].form == MF_DIM_OVERLAP)
			continue;
		n = snprintf(text + len, 220 - len, "%s%s", len ? " " : "",
			word ? mf_plan_dims[i].segment : mf_plan_dims[i].name);
		if (n < 0 || (size_t)n >= 220 - len)
			break;
		len += (size_t)n;
	}
	return text;
}

static mf_status unknown_segment(reader *r)
{
	const char *names[MF_DIM_COUNT + 16], *near;
	char head[sizeof(r->word)], list[220];
	size_t n = 0, len = strcspn(r->word, "0123456789:+");

	if (len == 0)
		len = strcspn(r->word, ":+"); /* a word such as 1f1b begins with a digit */
	memcpy(head, r->word, len);
	head[len] = '\0';
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		if (!(mf_plan_dims[i].phases & 1u << r->plan.phase)) {
			const char *prefix = mf_dim_stores[i].prefix;

			if (prefix && strcmp(head, mf_plan_dims[i].name) == 0)
				return bad(r, 0, "\"%.40s\": %s is no dimension of a %s plan", r->word, head,
					mf_choice_name(mf_phase_choices, r->plan.phase));
			continue;
		}
		if (mf_dim_stores[i].form == MF_DIM_WORD) {
			for (const mf_choice *c = mf_plan_dims[i].choices; c->name; c++)
				names[n++] = c->name;
		} else if (mf_dim_stores[i].form != MF_DIM_OVERLAP) {
			names[n++] = mf_plan_dims[i].name;
		}
	}
	names[n] = NULL;
	near = mf_nearest(r->word, names);
	if (!near)
		near = mf_nearest(head, names);
	return bad(r, 0, "\"%.30s\" is no segment%s%s%s; expected one of %s", r->word, near ? " (nearest: " : "",
		near ? near : "", near ? ")" : "", expected(r, list));
}

static mf_status mark(reader *r, int dim)
{
	if (r->seen & UINT64_C(1) << dim)
		return bad(r, 0, "\"%.60s\": %s is given twice", r->word, mf_plan_dims[dim].name);
	r->seen |= UINT64_C(1) << dim;
	return MF_OK;
}

/* Whole decimal number at `*at`, no sign, no leading zero, at most `max`; moves *at behind it. */
static bool whole_number(const char **at, uint32_t min, uint32_t max, uint32_t *value)
{
	const char *s = *at;
	uint64_t v = 0;

	if (*s < '0' || *s > '9' || (*s == '0' && s[1] >= '0' && s[1] <= '9'))
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > max)
			return false;
	}
	if (v < min)
		return false;
	*value = (uint32_t)v;
	*at = s;
	return true;
}

static mf_status read_number(reader *r, int dim, const char *at)
{
	const mf_dim_store *s = &mf_dim_stores[dim];
	uint32_t unit = s->form == MF_DIM_CHUNK ? MF_CHUNK_TOKENS : 1, value = 0;
	const char *digits = at;

	if (!whole_number(&at, s->min * unit, s->max * unit, &value) || *at != '\0' || value % unit)
		return bad(r, (size_t)(digits - r->word), "\"%.60s\": %s takes a whole number from %u to %u%s", r->word,
			mf_plan_dims[dim].name, s->min * unit, s->max * unit, unit > 1 ? ", a multiple of 256" : "");
	mf_dim_set(&r->plan, dim, (uint16_t)(value / unit));
	return MF_OK;
}

/* Names of a choice table joined by '|'. */
static const char *choice_list(const mf_choice *table, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (; table->name && len < size; table++) {
		int n = snprintf(text + len, size - len, "%s%s", len ? "|" : "", table->name);

		len += n > 0 ? (size_t)n : 0;
	}
	return text;
}

static mf_status read_named(reader *r, int dim, const char *at)
{
	const mf_choice *choices = mf_plan_dims[dim].choices;
	int value = mf_choice_value(choices, at);
	char list[200];

	if (value < 0)
		return bad(r, (size_t)(at - r->word), "\"%.40s\": %s takes %s", r->word, mf_plan_dims[dim].name,
			choice_list(choices, list, sizeof(list)));
	mf_dim_set(&r->plan, dim, (uint16_t)value);
	return MF_OK;
}

static mf_status read_recompute(reader *r, const char *at)
{
	mf_plan *p = &r->plan;
	char list[160];
	uint32_t layers = 1;

	if (strcmp(at, "none") == 0)
		return MF_OK;
	if (strncmp(at, "full", 4) == 0 && (at[4] == '\0' || (at[4] >= '0' && at[4] <= '9'))) {
		const char *digits = at + 4;

		if (*digits && (!whole_number(&digits, 1, MF_MAX_LAYERS, &layers) || *digits))
			return bad(r, (size_t)(at + 4 - r->word),
				"\"%.60s\": rc:full takes a whole number of layers from 1 to %d", r->word,
				MF_MAX_LAYERS);
		p->recompute = MF_RECOMPUTE_FULL;
		p->recompute_layers = (uint16_t)layers;
		return MF_OK;
	}
	p->recompute = MF_RECOMPUTE_SELECTIVE;
	if (strcmp(at, "selective") == 0) {
		p->recompute_modules = MF_RC_CORE_ATTN;
		return MF_OK;
	}
	for (;;) {
		size_t len = strcspn(at, ",");
		char name[32];
		int bit;

		snprintf(name, sizeof(name), "%.*s", (int)(len < 31 ? len : 31), at);
		bit = mf_choice_value(mf_recompute_module_choices, name);
		if (bit < 0)
			return bad(r, (size_t)(at - r->word), "rc takes none, selective, fullN or modules of %s",
				choice_list(mf_recompute_module_choices, list, sizeof(list)));
		if (p->recompute_modules & bit)
			return bad(r, (size_t)(at - r->word), "rc names %s twice", name);
		p->recompute_modules |= (uint8_t)bit;
		if (at[len] == '\0')
			return MF_OK;
		at += len + 1;
	}
}

static mf_status read_interned(reader *r, int dim, const char *at)
{
	bool layout = mf_dim_stores[dim].form == MF_DIM_LAYOUT;
	size_t max = layout ? MF_LAYOUT_TEXT_MAX : MF_MAP_TEXT_MAX, column = (size_t)(at - r->word);
	uint16_t counts[4096], id;

	if (!r->intern)
		return bad(r, 0, "\"%.60s\": %s cannot be read here", r->word, mf_plan_dims[dim].name);
	if (strlen(at) > max)
		return bad(r, column, "%s is longer than %zu characters", mf_plan_dims[dim].name, max);
	char shortest[MF_LAYOUT_TEXT_MAX + 1];
	size_t n = layout ? mf_stage_layout_parse(at, counts, MF_COUNT(counts)) : 0;
	/* One text a layout, so that equal plans are equal values: 14-14 is 14x2. */
	if (n && mf_stage_layout_format(counts, n, shortest, sizeof shortest))
		at = shortest;
	if (layout && n == 0)
		return bad(r, column,
			"\"%.60s\": lay takes layers a virtual stage joined by '-', such as 13-14 or 4x15-1", r->word);
	if (!layout) {
		size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

		if (len == 0 || at[len] != '\0')
			return bad(r, column + len, "\"%.60s\": map takes a name of letters, digits, '.', '_' and '-'",
				r->word);
	}
	id = mf_intern_id(r->intern, at);
	if (id == 0)
		return mf_fail(r->err, MF_ENOMEM, "no room for another stage layout or expert map");
	mf_dim_set(&r->plan, dim, id);
	return MF_OK;
}

/* Base-two logarithm of a power of two at *at within [2^min, 2^max]. */
static bool read_log2(const char **at, uint32_t min, uint32_t max, uint8_t *log2)
{
	uint32_t value = 0;

	if (!whole_number(at, 1u << min, 1u << max, &value) || (value & (value - 1)))
		return false;
	for (*log2 = 0; value > 1; value >>= 1)
		(*log2)++;
	return true;
}

static bool skip(const char **at, const char *literal)
{
	size_t len = strlen(literal);

	if (strncmp(*at, literal, len) != 0)
		return false;
	*at += len;
	return true;
}

static mf_status read_kernel(reader *r, const char *at)
{
	mf_kernel k = {0};
	uint32_t stages = 0;

	if (skip(&at, "gc-"))
		k.fuse_gather = k.fuse_combine = true;
	else if (skip(&at, "g-"))
		k.fuse_gather = true;
	else if (skip(&at, "c-"))
		k.fuse_combine = true;
	if (!read_log2(&at, 4, 8, &k.tile_m_log2) || !skip(&at, "x") || !read_log2(&at, 4, 8, &k.tile_n_log2) ||
		!skip(&at, "x") || !read_log2(&at, 4, 8, &k.tile_k_log2) || !skip(&at, "-w") ||
		!read_log2(&at, 1, 4, &k.warps_log2) || !skip(&at, "-s") || !whole_number(&at, 1, 5, &stages) || *at)
		return bad(r, (size_t)(at - r->word),
			"k takes [g|c|gc-]MxNxK-wWARPS-sSTAGES with tiles 16 to 256, 2 to 16 warps and "
			"1 to 5 stages, such as k:gc-64x128x64-w8-s3");
	k.stages = (uint8_t)stages;
	r->plan.kernel = mf_kernel_pack(&k);
	return MF_OK;
}

/* A schedule with or without "+ov", or a sharding. MF_OK with *found false when the segment is neither. */
static mf_status read_word(reader *r, bool *found)
{
	size_t len = strcspn(r->word, "+");
	char head[sizeof(r->word)];
	mf_status st;

	memcpy(head, r->word, len);
	head[len] = '\0';
	*found = false;
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		int overlap = r->plan.phase == MF_TRAIN ? MF_DIM_OF_OVERLAP_overlap : MF_DIM_OF_FLAG_overlap, value;

		if (mf_dim_stores[i].form != MF_DIM_WORD || !in_phase(r, i) ||
			(value = mf_choice_value(mf_plan_dims[i].choices, head)) < 0)
			continue;
		*found = true;
		if ((st = mark(r, i)) < 0)
			return st;
		mf_dim_set(&r->plan, i, (uint16_t)value);
		if (r->word[len] == '\0')
			return MF_OK;
		if (i != MF_DIM_OF_WORD_schedule || strcmp(r->word + len, "+ov") != 0)
			return bad(r, len, "\"%.60s\": only +ov may follow, and only a schedule", r->word);
		if ((st = mark(r, overlap)) < 0)
			return st;
		mf_dim_set(&r->plan, overlap, 1);
		return MF_OK;
	}
	return MF_OK;
}

static mf_status read_segment(reader *r)
{
	size_t letters = strspn(r->word, "abcdefghijklmnopqrstuvwxyz");
	mf_status st;
	bool found;

	if ((st = read_word(r, &found)) < 0 || found)
		return st;
	for (int i = 0; i < MF_DIM_COUNT; i++) {
		const mf_dim_store *s = &mf_dim_stores[i];
		size_t len = s->prefix ? strlen(s->prefix) : 0;

		if (!in_phase(r, i) || len == 0 || strncmp(r->word, s->prefix, len) != 0)
			continue;
		switch (s->form) {
		case MF_DIM_NUMBER:
		case MF_DIM_CHUNK:
			if (letters != len || r->word[len] == ':') /* "rep2" is not "r", "last3" is not "la" */
				continue;
			return (st = mark(r, i)) < 0 ? st : read_number(r, i, r->word + len);
		case MF_DIM_FLAG:
			if (r->word[len] != '\0')
				continue;
			if ((st = mark(r, i)) == MF_OK)
				mf_dim_set(&r->plan, i, 1);
			return st;
		case MF_DIM_NAMED: return (st = mark(r, i)) < 0 ? st : read_named(r, i, r->word + len);
		case MF_DIM_RECOMPUTE: return (st = mark(r, i)) < 0 ? st : read_recompute(r, r->word + len);
		case MF_DIM_LAYOUT:
		case MF_DIM_MAP: return (st = mark(r, i)) < 0 ? st : read_interned(r, i, r->word + len);
		case MF_DIM_KERNEL: return (st = mark(r, i)) < 0 ? st : read_kernel(r, r->word + len);
		case MF_DIM_WORD:
		case MF_DIM_OVERLAP: break;
		}
	}
	return unknown_segment(r);
}

mf_status mf_plan_parse(mf_plan *plan, const char *text, mf_phase phase, mf_intern *intern, mf_err *err)
{
	reader r = {.text = text, .seg = text, .plan = mf_plan_default(phase), .intern = intern, .err = err};
	char canonical[MF_PLAN_TEXT_MAX], list[220];
	mf_status st;

	for (;;) {
		size_t len = strcspn(r.seg, "/");

		if (len == 0)
			return bad(&r, 0, "empty segment; expected one of %s", expected(&r, list));
		if (len >= sizeof(r.word))
			return bad(&r, 0, "\"%.30s...\" is longer than any segment", r.seg);
		for (size_t i = 0; i < len; i++) {
			if (r.seg[i] <= ' ' || r.seg[i] > '~')
				return bad(&r, i, "a plan is written in printable ASCII without blanks");
		}
		memcpy(r.word, r.seg, len);
		r.word[len] = '\0';
		if ((st = read_segment(&r)) < 0)
			return st;
		if (r.seg[len] == '\0')
			break;
		r.seg += len + 1;
	}
	/* Defaults that follow another segment, whichever came first. */
	if (r.plan.schedule == MF_INTERLEAVED && !(r.seen & UINT64_C(1) << MF_DIM_OF_NUMBER_vpp))
		r.plan.vpp = 2;
	if (!(r.seen & UINT64_C(1) << MF_DIM_OF_NUMBER_zero_stage))
		r.plan.zero_stage = (uint8_t)mf_dim_unset(&r.plan, MF_DIM_OF_NUMBER_zero_stage);
	if ((st = mf_plan_validate(&r.plan, err)) < 0)
		return st;
	assert(mf_plan_format(&r.plan, intern, canonical) < MF_PLAN_TEXT_MAX - 1);
	(void)canonical;
	*plan = r.plan;
	return MF_OK;
}
