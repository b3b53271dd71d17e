/* whatif.c: the assumptions a ranking rests on: their table, their changes, undo, and ranks before the last change. */
#include "tui_app.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	K_BOOL,      /* bool */
	K_CHOICE,    /* an enumeration, as int */
	K_COUNT,     /* uint32_t */
	K_NUMBER,    /* double */
	K_SHARE,     /* double; NaN is "auto" */
	K_LIST,      /* the micro-batch sizes of the workload */
	K_OVERLAY,   /* names of overlays */
	K_TOOLCHAIN, /* those of the phase */
	K_STACK      /* name or path of a stack */
};

#define TRAIN (1u << MF_TRAIN)
#define SERVE (1u << MF_SERVE)
#define BOTH (TRAIN | SERVE)
#define AT(field) offsetof(mf_settings, field)

static const mf_knob knobs[] = {
	{MF_ACT_CONSTRAINT, K_BOOL, BOTH, AT(constraint), 0, 1, mf_on_off_choices, true},
	{MF_ACT_TAX, K_BOOL, BOTH, AT(tax), 0, 1, mf_on_off_choices, true},
	{MF_ACT_OVERLAY, K_OVERLAY, BOTH, AT(overlay), 0, 0, NULL, false},
	{MF_ACT_LEDGER, K_CHOICE, BOTH, AT(search.cost.ledger), 0, 0, mf_ledger_choices, false},
	{MF_ACT_SPACE, K_CHOICE, BOTH, AT(search.space), 0, 0, mf_space_choices, false},
	{MF_ACT_NODES, K_COUNT, BOTH, AT(cluster.nodes), 1, 65536, NULL, false},
	{MF_ACT_SKEW, K_NUMBER, BOTH, AT(workload.max_violation), 0, 1000, NULL, false},
	{MF_ACT_SEQ, K_COUNT, TRAIN, AT(workload.seq), 1, 16777216, NULL, false},
	{MF_ACT_GLOBAL_BATCH, K_COUNT, TRAIN, AT(workload.global_batch), 1, 1048576, NULL, false},
	{MF_ACT_MICRO_BATCH, K_LIST, TRAIN, AT(workload.micro_batches), 1, 1024, NULL, false},
	{MF_ACT_PRECISION, K_CHOICE, TRAIN, AT(workload.precision), 0, 0, mf_precision_choices, false},
	{MF_ACT_INPUT, K_COUNT, SERVE, AT(workload.input_tokens), 1, 16777216, NULL, false},
	{MF_ACT_OUTPUT, K_COUNT, SERVE, AT(workload.output_tokens), 1, 16777216, NULL, false},
	{MF_ACT_CONCURRENCY, K_COUNT, SERVE, AT(workload.concurrency), 1, 1048576, NULL, false},
	{MF_ACT_TOOLCHAIN, K_TOOLCHAIN, BOTH, AT(stack.toolchain), 0, 0, mf_toolchain_choices, false},
	{MF_ACT_STACK, K_STACK, BOTH, AT(stack.name), 0, 0, NULL, false},
	{MF_ACT_ATTENTION, K_CHOICE, TRAIN, AT(stack.attention), 0, 0, mf_attention_choices, false},
	{MF_ACT_GRAPHS, K_CHOICE, TRAIN, AT(stack.graphs), 0, 0, mf_graphs_choices, false},
	{MF_ACT_MEM_FRACTION, K_SHARE, SERVE, AT(stack.mem_fraction), 0.01, 1, NULL, false},
	{MF_ACT_MEM_FRACTION, K_NUMBER, TRAIN, AT(search.cost.usable_fraction), 0.01, 1, NULL, false},
};

_Static_assert(sizeof(mf_space) == sizeof(int) && sizeof(mf_toolchain) == sizeof(int), "choices are stored as ints");
static int choice_at(const char *at)
{
	int v;
	memcpy(&v, at, sizeof(v));
	return v;
}

/* Value of a field that holds one number, whatever its type. */
static double value(const mf_settings *s, const mf_knob *k)
{
	const char *at = (const char *)s + k->at;

	switch ((enum kind)k->kind) {
	case K_BOOL: return *(const bool *)at;
	case K_CHOICE:
	case K_TOOLCHAIN: return choice_at(at);
	case K_COUNT: return *(const uint32_t *)(const void *)at;
	case K_NUMBER:
	case K_SHARE: return *(const double *)(const void *)at;
	default: return NAN;
	}
}

static void store(mf_settings *s, const mf_knob *k, double v)
{
	char *at = (char *)s + k->at;

	switch ((enum kind)k->kind) {
	case K_BOOL: *(bool *)at = v != 0; break;
	case K_CHOICE:
	case K_TOOLCHAIN: {
		int choice = (int)v;
		memcpy(at, &choice, sizeof(choice));
		break;
	}
	case K_COUNT: *(uint32_t *)(void *)at = (uint32_t)v; break;
	case K_NUMBER:
	case K_SHARE: *(double *)(void *)at = v; break;
	default: break;
	}
}

const mf_knob *mf_knob_at(const mf_app *a, int i)
{
	for (size_t k = 0; k < MF_COUNT(knobs); k++)
		if ((knobs[k].phases & 1u << a->phase) && i-- == 0)
			return &knobs[k];
	return NULL;
}

const mf_knob *mf_knob_of(const mf_app *a, mf_action action)
{
	for (size_t k = 0; k < MF_COUNT(knobs); k++)
		if ((knobs[k].phases & 1u << a->phase) && knobs[k].action == action)
			return &knobs[k];
	return NULL;
}

void mf_knob_text(const mf_settings *s, const mf_knob *k, char *out, size_t size)
{
	double v;
	size_t n = 0;

	switch ((enum kind)k->kind) {
	case K_BOOL: snprintf(out, size, "%s", value(s, k) != 0 ? "on" : "off"); return;
	case K_CHOICE:
	case K_TOOLCHAIN: snprintf(out, size, "%s", mf_choice_name(k->choices, (int)value(s, k))); return;
	case K_COUNT: snprintf(out, size, "%.0f", value(s, k)); return;
	case K_NUMBER:
	case K_SHARE:
		v = value(s, k);
		if (isnan(v))
			snprintf(out, size, "auto");
		else
			snprintf(out, size, "%.6g", v);
		return;
	case K_LIST:
		out[0] = 0;
		for (uint32_t i = 0; i < s->workload.n_micro_batches && n < size; i++)
			n += (size_t)snprintf(out + n, size - n, "%s%u", i ? "," : "", s->workload.micro_batches[i]);
		return;
	case K_OVERLAY: snprintf(out, size, "%s", s->overlay[0] ? s->overlay : "none"); return;
	case K_STACK: snprintf(out, size, "%s", s->stack.name); return;
	}
}

/* ---- changing ---- */

static const char *name_of(const mf_knob *k)
{
	return mf_tui_keys[k->action - 1].name;
}

static bool read_number(mf_app *a, const mf_knob *k, const char *text, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end > text && (*end == 'k' || *end == 'K'))
		v *= 1000, end++;
	if (end == text || *end || !(v >= k->min && v <= k->max)) {
		mf_app_say(a, true, "%s '%.40s': expected a number from %g to %g", name_of(k), text, k->min, k->max);
		return false;
	}
	*out = v;
	return true;
}

static bool read_list(mf_app *a, const mf_knob *k, const char *text)
{
	uint32_t list[MF_MAX_MICRO_BATCHES], n = 0;
	const char *s = text;
	bool more;

	do {
		char *end;
		double v = strtod(s, &end);
		end += strspn(end, " ");
		if (end == s || v < k->min || v > k->max || v != floor(v) || (*end && *end != ',') ||
			n == MF_COUNT(list)) {
			mf_app_say(a, true, "%s '%.40s': expected up to %d whole numbers, such as 1,2,4", name_of(k),
				text, MF_MAX_MICRO_BATCHES);
			return false;
		}
		list[n++] = (uint32_t)v;
		more = *end == ',';
		s = end + 1;
	} while (more);
	memcpy(a->now.workload.micro_batches, list, n * sizeof(*list));
	a->now.workload.n_micro_batches = n;
	return true;
}

static bool read_choice(mf_app *a, const mf_knob *k, const char *text, int *out)
{
	const char *names[64];

	*out = mf_choice_value(k->choices, text);
	mf_knob_names(a, k, names, MF_COUNT(names));
	for (size_t i = 0; *out >= 0 && names[i]; i++)
		if (strcmp(names[i], text) == 0)
			return true;
	const char *near = mf_nearest(text, names);
	mf_app_say(a, true, "%s '%.40s' is no choice%s%s; Tab lists them", name_of(k), text,
		near ? "; nearest is " : "", near ? near : "");
	return false;
}

static bool read_stack(mf_app *a, const char *text)
{
	mf_stack stack;
	mf_err err;

	if (mf_stack_load(&stack, text, a->phase, &err) < 0) {
		mf_app_say_error(a, "", &err);
		return false;
	}
	a->now.stack = stack;
	return true;
}

unsigned mf_knob_set(mf_app *a, const mf_knob *k, const char *text)
{
	int choice;
	double v;
	bool ok = true;

	switch ((enum kind)k->kind) {
	case K_BOOL:
	case K_CHOICE:
	case K_TOOLCHAIN:
		if ((ok = read_choice(a, k, text, &choice)))
			store(&a->now, k, choice);
		break;
	case K_COUNT:
	case K_NUMBER:
	case K_SHARE:
		if (k->kind == K_SHARE && strcmp(text, "auto") == 0)
			store(&a->now, k, NAN);
		else if ((ok = read_number(a, k, text, &v)))
			store(&a->now, k, v);
		break;
	case K_LIST: ok = read_list(a, k, text); break;
	case K_STACK: ok = read_stack(a, text); break;
	case K_OVERLAY:
		snprintf(a->wanted, sizeof(a->wanted), "%s", strcmp(text, "none") == 0 ? "" : text);
		return MF_FX_OVERLAY | MF_FX_REDRAW;
	}
	return MF_FX_REDRAW | (!ok ? 0 : k->arranges ? MF_FX_ARRANGE : MF_FX_SEARCH);
}

size_t mf_knob_names(const mf_app *a, const mf_knob *k, const char **out, size_t cap)
{
	size_t n = 0;

	if (k->kind == K_OVERLAY || k->kind == K_STACK) {
		const char *const *names = mf_builtin_names(k->kind == K_OVERLAY ? "calibrated" : "stacks");
		const char *prefix = k->kind == K_OVERLAY ? "" : a->phase == MF_TRAIN ? "megatron" : "sglang";
		if (k->kind == K_OVERLAY)
			out[n++] = "none";
		/* The constants of this very GPU come first. */
		for (int own = 1; own >= 0; own--)
			for (const char *const *name = names; *name && n + 1 < cap; name++)
				if (strncmp(*name, prefix, strlen(prefix)) == 0 &&
					(k->kind == K_OVERLAY && mf_same_gpu(*name, a->now.cluster.gpu)) == (own == 1))
					out[n++] = *name;
	}
	for (const mf_choice *c = k->choices; c && c->name && n + 1 < cap; c++) {
		bool other = k->kind == K_TOOLCHAIN &&
			     mf_toolchain_is_megatron((mf_toolchain)c->value) != (a->phase == MF_TRAIN);
		if (!other)
			out[n++] = c->name;
	}
	out[n] = NULL;
	return n;
}

unsigned mf_knob_turn(mf_app *a, const mf_knob *k, int by)
{
	const char *names[64];
	char text[256];
	size_t n = mf_knob_names(a, k, names, MF_COUNT(names)), at = 0;
	double v;

	mf_knob_text(&a->now, k, text, sizeof(text));
	if (n > 0) {
		while (at < n && strcmp(names[at], text) != 0)
			at++;
		at = at == n ? 0 : (at + (by > 0 ? 1 : n - 1)) % n;
		return mf_knob_set(a, k, names[at]);
	}
	switch ((enum kind)k->kind) {
	case K_COUNT:
		v = value(&a->now, k);
		v = by > 0 ? v * 2 : floor(v / 2);
		break;
	case K_NUMBER:
	case K_SHARE:
		v = value(&a->now, k);
		v = (isnan(v) ? 0.85 : v) + by * (k->max <= 1 ? 0.01 : 0.1);
		v = round(v * 100) / 100;
		break;
	default: return MF_FX_REDRAW;
	}
	v = v < k->min ? k->min : v > k->max ? k->max : v;
	snprintf(text, sizeof(text), "%.10g", v);
	return mf_knob_set(a, k, text);
}

/* ---- words ---- */

int mf_whatif_words(const mf_app *a, char *out, size_t size)
{
	const mf_knob *k;
	int n = 0;
	size_t used = 0;

	out[0] = 0;
	if (strcmp(a->now.model.name, a->defaults.model.name) != 0)
		n++, used += (size_t)snprintf(out + used, size - used, "model");
	if (strcmp(a->now.cluster.name, a->defaults.cluster.name) != 0 && used < size)
		n++, used += (size_t)snprintf(out + used, size - used, "%scluster", used ? ", " : "");
	for (int i = 0; (k = mf_knob_at(a, i)) != NULL; i++) {
		char now[256], was[256];
		mf_knob_text(&a->now, k, now, sizeof(now));
		mf_knob_text(&a->defaults, k, was, sizeof(was));
		if (strcmp(now, was) == 0 || used >= size)
			continue;
		n++;
		used += (size_t)snprintf(
			out + used, size - used, "%s%s %s (%s)", used ? ", " : "", name_of(k), now, was);
	}
	return n;
}

/* ---- undo ---- */

bool mf_whatif_unrelated(const mf_settings *x, const mf_settings *y)
{
	return memcmp(&x->model, &y->model, sizeof(x->model)) != 0 || strcmp(x->cluster.gpu, y->cluster.gpu) != 0 ||
	       x->cluster.gpus_per_node != y->cluster.gpus_per_node;
}

/* The settled state becomes the past's last; what could be redone is gone. */
static void remember(mf_app *a)
{
	if (a->n_past == MF_UNDO) {
		memmove(&a->past[0], &a->past[1], (MF_UNDO - 1) * sizeof(a->past[0]));
		a->n_past--;
	}
	memcpy(&a->past[a->n_past++], &a->settled, sizeof(a->settled));
	a->n_future = 0;
}

void mf_whatif_settle(mf_app *a)
{
	if (memcmp(&a->now, &a->settled, sizeof(a->now)) == 0)
		return;
	remember(a);
	memcpy(&a->settled, &a->now, sizeof(a->now));
}

unsigned mf_whatif_step(mf_app *a, int by)
{
	if (by < 0 ? a->n_past == 0 : a->n_future == 0) {
		mf_app_say(a, false, "nothing to %s", by < 0 ? "undo" : "redo");
		return MF_FX_REDRAW;
	}
	/* The state left takes the place of the one gone to: past and future are one list with `now` between them. */
	int at = by < 0 ? a->n_past - 1 : a->n_past;
	memcpy(&a->target, &a->past[at], sizeof(a->target));
	memcpy(&a->past[at], &a->settled, sizeof(a->target));
	a->n_past += by;
	a->n_future -= by;
	return MF_FX_RESTORE | MF_FX_REDRAW;
}

unsigned mf_whatif_defaults(mf_app *a)
{
	char words[16];

	if (mf_whatif_words(a, words, sizeof(words)) == 0) {
		mf_app_say(a, false, "nothing was changed");
		return MF_FX_REDRAW;
	}
	remember(a);
	memcpy(&a->target, &a->defaults, sizeof(a->target));
	return MF_FX_RESTORE | MF_FX_REDRAW;
}

/* ---- ranks before ---- */

void mf_before_make(mf_before *b, const mf_row *rows, const uint32_t *by_rank, size_t n)
{
	size_t cap = 16;

	memset(b, 0, sizeof(*b));
	while (cap < n * 2)
		cap *= 2;
	b->hash = malloc(cap * sizeof(*b->hash));
	b->rank = malloc(cap * sizeof(*b->rank));
	if (!b->hash || !b->rank) {
		mf_before_dispose(b);
		return;
	}
	memset(b->rank, 0xff, cap * sizeof(*b->rank));
	b->cap = cap;
	for (size_t i = 0; i < n; i++) {
		uint64_t h = mf_plan_hash(&rows[by_rank[i]].plan);
		size_t at = h & (cap - 1);
		while (b->rank[at] != MF_NO_ROW)
			at = (at + 1) & (cap - 1);
		b->hash[at] = h;
		b->rank[at] = (uint32_t)i;
	}
}

void mf_before_dispose(mf_before *b)
{
	free(b->rank_of);
	free(b->hash);
	free(b->rank);
	memset(b, 0, sizeof(*b));
}

bool mf_before_any(const mf_before *b, unsigned rows_id)
{
	return b->cap > 0 || (b->rank_of && b->rows_id == rows_id);
}

uint32_t mf_before_rank(const mf_before *b, const mf_plan *p, uint32_t row, unsigned rows_id)
{
	if (b->rank_of && b->rows_id == rows_id)
		return b->rank_of[row];
	if (b->cap == 0)
		return MF_NO_ROW;
	uint64_t h = mf_plan_hash(p);
	for (size_t at = h & (b->cap - 1); b->rank[at] != MF_NO_ROW; at = (at + 1) & (b->cap - 1))
		if (b->hash[at] == h)
			return b->rank[at];
	return MF_NO_ROW;
}
