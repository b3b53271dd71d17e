/* detail.c: everything about one plan. */
#include "tui_app.h"
#include "tui_pen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const mf_choice mf_tab_choices[] = {
	{MF_TAB_OVERVIEW, "overview", "the plan in figures"},
	{MF_TAB_MEMORY, "memory", "the ledger of the worst stage, line by line"},
	{MF_TAB_TIME, "time", "the step, term by term"},
	{MF_TAB_TIMELINE, "timeline", "the simulated step in time"},
	{MF_TAB_WHY, "why", "why it was refused, and the nearest plan that is not"},
	{MF_TAB_ARGV, "argv", "the command"},
	{0, NULL, NULL},
};

void mf_format_number(char *out, size_t size, double v, int digits)
{
	if (isnan(v))
		snprintf(out, size, "-");
	else
		snprintf(out, size, "%.*f", digits, v);
}

void mf_format_count(char *out, size_t size, uint64_t n)
{
	char plain[32];
	int len = snprintf(plain, sizeof(plain), "%llu", (unsigned long long)n);
	size_t o = 0;
	for (int i = 0; i < len && o + 2 < size; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			out[o++] = ',';
		out[o++] = plain[i];
	}
	out[o] = 0;
}

/* ---- facts about the plan ---- */

static mf_realizer realizer(const mf_app *a)
{
	return (mf_realizer){a->eval.emitter, a->eval.cost, true};
}

mf_status mf_detail_command(mf_app *a, const mf_plan *p, bool forced, mf_argv *out, mf_err *err)
{
	mf_status st = mf_argv_init(out, forced, err);
	if (st < 0)
		return st;
	mf_emit(a->eval.emitter, p, a->phase == MF_SERVE ? mf_cost_mem_fraction(a->eval.cost, p) : NAN, &out->sink);
	if (out->failed)
		st = mf_fail(err, MF_ENOMEM, "out of memory");
	else if (mf_rule_unspeakable(out->sink.rule) || (out->sink.rule != MF_RULE_NONE && !forced))
		st = mf_fail(err, MF_EREFUSED, "refused by %s", mf_rule_get(out->sink.rule)->id);
	if (st < 0)
		mf_argv_dispose(out);
	return st;
}

/* The command of a plan, one argument a line with its values; nothing when the toolchain has no words. */
static void write_argv(mf_app *a, const mf_plan *p, mf_buf *out, char sha[65])
{
	mf_argv argv;
	mf_err err;

	if (mf_detail_command(a, p, true, &argv, &err) < 0)
		return;
	for (size_t i = 0; i < argv.n_env; i++)
		mf_buf_printf(out, "%s\n", argv.env[i]);
	for (size_t i = 0; i < argv.n; i++) {
		/* A flag begins a line; its values stay on it. */
		bool flag = argv.args[i][0] == '-' && argv.args[i][1] == '-';
		if (i > 0)
			mf_buf_putc(out, flag ? '\n' : ' ');
		mf_buf_shell_quote(out, argv.args[i]);
	}
	mf_buf_putc(out, '\n');
	if (sha && mf_argv_sha256(&argv, sha) < 0)
		sha[0] = 0;
	mf_argv_dispose(&argv);
}

/* Whether `text` has this line. */
static bool has_line(const mf_buf *text, const char *line, size_t len)
{
	for (const char *s = mf_buf_text(text); *s; s += *s == '\n') {
		size_t n = strcspn(s, "\n");
		if (n == len && memcmp(s, line, len) == 0)
			return true;
		s += n;
	}
	return false;
}

static void make_argv(mf_app *a)
{
	mf_detail *d = &a->detail;

	d->argv_valid = true;
	if (!d->plain_valid) {
		mf_plan plain = mf_plan_default(a->phase);
		mf_buf_clear(&d->plain_argv);
		d->plain_valid = true;
		write_argv(a, &plain, &d->plain_argv, NULL);
	}
	mf_buf_clear(&d->argv);
	d->argv_sha256[0] = 0;
	if (mf_plan_sha256(&d->plan, &a->in, d->plan_sha256) < 0)
		d->plan_sha256[0] = 0;
	write_argv(a, &d->plan, &d->argv, d->argv_sha256);
}

/* The buildable plan that differs in the fewest dimensions; among equals the one that ranks first. */
static void find_neighbour(mf_app *a)
{
	mf_detail *d = &a->detail;
	int least = INT32_MAX;
	uint32_t best_rank = MF_NO_ROW;

	d->neighbour_valid = true;
	d->neighbour = MF_NO_ROW;
	if (!a->rank_of)
		return;
	for (size_t i = 0; i < a->n_rows; i++) {
		const mf_row *r = &a->rows[i];
		if (r->rule != MF_RULE_NONE)
			continue;
		int n = 0;
		for (int k = 0; mf_plan_dims[k].name && n <= least; k++)
			if (mf_plan_dims[k].phases & 1u << a->phase)
				n += mf_dim_get(&r->plan, k) != mf_dim_get(&d->plan, k);
		if (n < least || (n == least && a->rank_of[i] < best_rank)) {
			least = n;
			best_rank = a->rank_of[i];
			d->neighbour = (uint32_t)i;
		}
	}
	d->neighbour_changes = least;
}

void mf_detail_refresh(mf_app *a)
{
	mf_detail *d = &a->detail;
	const mf_row *row = mf_app_selected(a);

	if (!row) {
		d->valid = false;
		return;
	}
	if (!d->valid || d->generation != a->generation || memcmp(&d->plan, &row->plan, sizeof(d->plan)) != 0) {
		mf_realizer r = realizer(a);
		d->valid = true;
		d->generation = a->generation;
		d->plan = row->plan;
		d->argv_valid = d->neighbour_valid = d->timeline_valid = false;
		d->plain_valid &= d->plain_generation == a->generation;
		d->plain_generation = a->generation;
		d->status = mf_cost_explain(a->eval.cost, &row->plan, d->explain, &d->err);
		if (mf_realize_explain(&r, &row->plan, &d->refusal) < 0)
			memset(&d->refusal, 0, sizeof(d->refusal));
		d->note[0] = 0;
		mf_paper_note(&row->plan, &a->in, d->note);
	}
	if (a->detail_open && a->tab == MF_TAB_ARGV && !d->argv_valid)
		make_argv(a);
	if (a->detail_open && a->tab == MF_TAB_TIMELINE && !d->timeline_valid) {
		mf_timeline_dispose(&d->timeline);
		memset(&d->timeline, 0, sizeof(d->timeline));
		d->timeline_status = mf_cost_timeline(a->eval.cost, &d->plan, &d->timeline, &d->timeline_err);
		d->timeline_valid = true;
	}
}

uint32_t mf_detail_neighbour(mf_app *a)
{
	if (a->detail.valid && !a->detail.neighbour_valid)
		find_neighbour(a);
	return a->detail.valid ? a->detail.neighbour : MF_NO_ROW;
}

bool mf_detail_idle(mf_app *a)
{
	mf_detail *d = &a->detail;
	if (!d->valid || d->neighbour_valid || !a->detail_open || (a->tab != MF_TAB_WHY && a->tab != MF_TAB_OVERVIEW) ||
		!d->refusal.rule || !d->refusal.rule[0] || a->searching || !mf_app_selected(a))
		return false;
	find_neighbour(a);
	return true;
}

/* ---- drawing lines ---- */

static void field(mf_pen *p, const char *name, mf_role role, const char *value)
{
	mf_pen_put(p, 0, MF_ROLE_DIM, name);
	mf_pen_wrapped(p, 14, role, value);
}

/* A bar of `width` columns with `share` of it filled; what is over 1 ends in a mark. */
static void bar(mf_pen *p, int x, int most, double share, mf_role role)
{
	int y = mf_pen_y(p), width = p->r.w - x < most ? p->r.w - x : most;

	if (y >= 0)
		mf_cells_gauge(p->s, p->r.x + x, y, width, share, share > 1 ? MF_ROLE_BAR_OVER : role, MF_ROLE_DIM);
}

/* ---- tabs ---- */

static void overview(mf_pen *p)
{
	const mf_app *a = p->a;
	const mf_detail *d = &a->detail;
	const mf_row *row = mf_app_selected(a);
	const mf_time *t = &d->explain->time;
	const mf_memory *m = &d->explain->memory;
	char text[MF_PLAN_TEXT_MAX], n[64];

	mf_plan_format(&d->plan, a->in.intern, text);
	mf_pen_wrapped(p, 0, MF_ROLE_ACCENT, text);
	if (d->refusal.rule && d->refusal.rule[0] && a->now.constraint) {
		snprintf(text, sizeof(text), "refused  %s  %s  stage %s", d->refusal.boundary, d->refusal.rule,
			d->refusal.stage);
		mf_pen_put(p, 0, MF_ROLE_REASON, text);
		p->line++;
		mf_pen_wrapped(p, 2, MF_ROLE_REASON, d->refusal.reason);
		if (d->neighbour_valid && d->neighbour != MF_NO_ROW) {
			char plan[MF_PLAN_TEXT_MAX];
			mf_plan_format(&a->rows[d->neighbour].plan, a->in.intern, plan);
			field(p, "nearest", MF_ROLE_BUILDABLE, plan);
		}
	} else if (a->now.constraint) {
		mf_pen_wrapped(p, 0, row->probe ? MF_ROLE_PROBE : MF_ROLE_BUILDABLE,
			row->probe ? mf_probe_words : "buildable");
	}
	if (d->status < 0) {
		mf_pen_wrapped(p, 0, MF_ROLE_ERROR, d->err.msg);
		return;
	}
	snprintf(text, sizeof(text), "%.1f tokens/s/GPU%s", a->now.tax ? t->throughput : (double)row->untaxed,
		t->extrapolated ? "  (extrapolated: outside the range the constants were measured in)" : "");
	field(p, "throughput", MF_ROLE_TEXT, text);
	if (!isnan(row->simulated)) {
		snprintf(text, sizeof(text), "%.1f tokens/s/GPU", (double)row->simulated);
		field(p, "simulator", MF_ROLE_TEXT, text);
	}
	if (a->phase == MF_TRAIN) {
		snprintf(text, sizeof(text), "%.1f ms, %.1f%% of it pipeline bubble", t->step_ms,
			100 * t->bubble_fraction);
		field(p, "step", MF_ROLE_TEXT, text);
	} else {
		snprintf(text, sizeof(text), "TTFT %.1f ms  TPOT %.2f ms  %.0f requests at once", t->ttft_ms,
			t->tpot_ms, t->batch);
		field(p, "latency", MF_ROLE_TEXT, text);
	}
	mf_format_number(n, sizeof(n), 100 * t->hidden_fraction, 0);
	snprintf(text, sizeof(text), "%s%% hidden", n);
	field(p, "communication", MF_ROLE_TEXT, text);
	snprintf(text, sizeof(text), "%.2f of %.2f GB on stage %u", m->total_bytes / MF_GB, m->budget_bytes / MF_GB,
		m->worst_stage);
	mf_pen_put(p, 0, MF_ROLE_DIM, "memory");
	mf_pen_put(p, 14, MF_ROLE_TEXT, text);
	int used = 14 + mf_text_width(text, p->s->ascii) + 2;
	bar(p, used, 30, m->total_bytes / m->budget_bytes, MF_ROLE_BAR1);
	p->line++;
	snprintf(text, sizeof(text), "dp %u", mf_plan_dp(&d->plan, a->world));
	size_t used_bytes = strlen(text);
	for (int i = 0; mf_plan_dims[i].name && used_bytes + 40 < sizeof(text); i++) {
		const mf_plan_dim *dim = &mf_plan_dims[i];
		if (!(dim->phases & 1u << a->phase) || dim->choices)
			continue;
		unsigned v = mf_dim_get(&d->plan, i);
		if (v > 1)
			used_bytes +=
				(size_t)snprintf(text + used_bytes, sizeof(text) - used_bytes, "  %s %u", dim->name, v);
	}
	field(p, "layout", MF_ROLE_TEXT, text);
	if (d->note[0])
		field(p, "note", MF_ROLE_DIM, d->note);
}

static int by_bytes(const void *x, const void *y)
{
	double a = (*(const mf_memory_line *const *)x)->bytes, b = (*(const mf_memory_line *const *)y)->bytes;
	return a < b ? 1 : a > b ? -1 : 0;
}

/* What the lines of the ledger belong to, by how their names begin; the last group takes the rest. */
static const struct {
	const char *name, *prefixes[5];
	unsigned phases;
	mf_glyph glyph;
	mf_role role;
} memory_groups[] = {
	{"weights", {"weights"}, 3, MF_G_BAR1, MF_ROLE_BAR1},
	{"gradients", {"grads"}, 1u << MF_TRAIN, MF_G_BAR2, MF_ROLE_BAR2},
	{"KV cache", {"kv"}, 1u << MF_SERVE, MF_G_BAR2, MF_ROLE_BAR2},
	{"optimizer", {"master", "moments", "optimizer"}, 1u << MF_TRAIN, MF_G_BAR3, MF_ROLE_BAR3},
	{"activations", {"act", "logits", "temp"}, 3, MF_G_BAR4, MF_ROLE_BAR4},
	{"other", {""}, 3, MF_G_BAR5, MF_ROLE_ACCENT},
};

static size_t memory_group(const char *line)
{
	for (size_t g = 0; g < MF_COUNT(memory_groups); g++)
		for (const char *const *prefix = memory_groups[g].prefixes; *prefix; prefix++)
			if (strncmp(line, *prefix, strlen(*prefix)) == 0)
				return g;
	return MF_COUNT(memory_groups) - 1;
}

static void memory(mf_pen *p)
{
	const mf_detail *d = &p->a->detail;
	const mf_explain *e = d->explain;
	double sum[MF_COUNT(memory_groups)] = {0};
	char text[160];

	if (d->status < 0) {
		mf_pen_wrapped(p, 0, MF_ROLE_ERROR, d->err.msg);
		return;
	}
	const mf_memory_line *line[MF_MAX_LINES];
	for (size_t i = 0; i < e->n_lines; i++) {
		sum[memory_group(e->lines[i].name)] += e->lines[i].bytes;
		line[i] = &e->lines[i];
	}
	qsort(line, e->n_lines, sizeof(*line), by_bytes);
	double budget = e->memory.budget_bytes, total = e->memory.total_bytes, scale = total > budget ? total : budget;
	snprintf(text, sizeof(text), "%.2f GB of %.2f, stage %u%s", total / MF_GB, budget / MF_GB,
		e->memory.worst_stage,
		total > budget    ? ": does not fit"
		: e->memory.probe ? ": too close to tell"
				  : "");
	mf_pen_put(p, 0, total > budget ? MF_ROLE_REASON : MF_ROLE_TEXT, text);
	p->line++;
	int width = p->r.w, y = mf_pen_y(p), x = 0;
	double at = 0;
	for (size_t g = 0; g < MF_COUNT(memory_groups) && scale > 0; g++) {
		at += sum[g];
		int end = (int)lround(at / scale * width);
		for (; x < end; x++)
			if (y >= 0)
				mf_cells_text(p->s, p->r.x + x, y, 1, memory_groups[g].role,
					mf_glyph_text(memory_groups[g].glyph, p->s->ascii));
	}
	for (; x < width; x++)
		if (y >= 0)
			mf_cells_text(p->s, p->r.x + x, y, 1, MF_ROLE_DIM, mf_glyph_text(MF_G_EMPTY, p->s->ascii));
	if (total > budget && y >= 0)
		mf_cells_text(p->s, p->r.x + (int)(budget / scale * (width - 1)), y, 1, MF_ROLE_BAR_OVER,
			mf_glyph_text(MF_G_OVER, p->s->ascii));
	p->line++;
	x = 0;
	for (size_t g = 0; g < MF_COUNT(memory_groups); g++) {
		if (!(memory_groups[g].phases & 1u << p->a->phase))
			continue;
		snprintf(text, sizeof(text), "%s %s %.1f  ", mf_glyph_text(memory_groups[g].glyph, p->s->ascii),
			memory_groups[g].name, sum[g] / MF_GB);
		mf_pen_put(p, x, memory_groups[g].role, text);
		x += mf_text_width(text, p->s->ascii);
	}
	p->line += 2;
	for (size_t i = 0; i < e->n_lines; i++) {
		snprintf(text, sizeof(text), "%.3f", line[i]->bytes / MF_GB);
		mf_pen_right(p, 0, 8, MF_ROLE_TEXT, text);
		mf_pen_put(p, 9, MF_ROLE_TEXT, line[i]->name);
		int after = 36;
		const char *rule = line[i]->rule ? line[i]->rule : "";
		if (p->r.w > after + 8 && p->a->focus == MF_FOCUS_DETAIL) {
			/* With the keys here there is time to read all of it. */
			mf_pen_wrapped(p, after, MF_ROLE_DIM, rule);
			continue;
		}
		if (p->r.w > after + 8)
			mf_pen_put(p, after, MF_ROLE_DIM, rule);
		p->line++;
	}
	if (e->n_stages > 1) {
		p->line++;
		mf_pen_put(p, 0, MF_ROLE_TITLE, "by pipeline stage");
		p->line++;
		for (size_t i = 0; i < e->n_stages; i++) {
			snprintf(text, sizeof(text), "%3zu %8.2f GB", i, e->stage_bytes[i] / MF_GB);
			mf_pen_put(p, 0, MF_ROLE_TEXT, text);
			bar(p, 16, 40, e->stage_bytes[i] / budget, MF_ROLE_BAR1);
			p->line++;
		}
	}
}

static void time_tab(mf_pen *p)
{
	const mf_detail *d = &p->a->detail;
	const mf_explain *e = d->explain;
	double most = 0;
	char text[256];

	if (d->status < 0) {
		mf_pen_wrapped(p, 0, MF_ROLE_ERROR, d->err.msg);
		return;
	}
	for (size_t i = 0; i < e->n_terms; i++)
		most = e->terms[i].ms > most ? e->terms[i].ms : most;
	if (p->a->phase == MF_TRAIN)
		snprintf(text, sizeof(text), "step %.2f ms", e->time.step_ms);
	else
		snprintf(text, sizeof(text), "TTFT %.2f ms, TPOT %.3f ms", e->time.ttft_ms, e->time.tpot_ms);
	mf_pen_put(p, 0, MF_ROLE_TEXT, text);
	p->line++;
	int name_width = p->r.w >= 70 ? 30 : 24;
	for (size_t i = 0; i < e->n_terms; i++) {
		const mf_term *t = &e->terms[i];
		snprintf(text, sizeof(text), "%s%.3f", t->extrapolated ? "~" : "", t->ms);
		mf_pen_right(p, 0, 9, MF_ROLE_TEXT, text);
		mf_pen_put(p, 10, MF_ROLE_TEXT, t->name);
		if (p->r.w - 10 - name_width > 4 && most > 0)
			bar(p, 10 + name_width, 30, t->ms > 0 ? t->ms / most : 0, MF_ROLE_BAR2);
		p->line++;
		if (p->a->focus == MF_FOCUS_DETAIL) {
			/* With the keys here there is time to read how each number came about. */
			snprintf(text, sizeof(text), "%s   %s", t->formula ? t->formula : "", t->inputs);
			mf_pen_wrapped(p, 12, MF_ROLE_DIM, text);
			for (int k = 0; k < t->n_consts; k++) {
				mf_const_id id = t->consts[k];
				snprintf(text, sizeof(text), "%s = %g %s (%s)", mf_const_infos[id].name,
					p->a->consts.v[id], mf_const_infos[id].unit,
					p->a->consts.from_overlay[id] ? p->a->consts.overlay : "factory");
				mf_pen_put(p, 14, MF_ROLE_DIM, text);
				p->line++;
			}
		}
	}
}

static const char *boundary_title(const char *id)
{
	for (const mf_boundary *b = mf_boundaries; b->id; b++)
		if (strcmp(b->id, id) == 0)
			return b->title;
	return "";
}

/* What the installed toolchain said, when it was asked about this very plan. */
static void real_answer(mf_pen *p)
{
	const mf_ask_answer *w = &p->a->asked;
	const mf_real_verdict *v = &w->verdict;
	char text[256];

	if (memcmp(&w->plan, &p->a->detail.plan, sizeof(w->plan)) != 0)
		return;
	if (w->status < 0)
		field(p, "really", MF_ROLE_ERROR, w->err.msg);
	if (!w->witness[0] || w->status < 0 || !v->ran)
		return;
	snprintf(text, sizeof(text), "%s %s it%s%s%s; the verdicts %s", w->witness, v->accepted ? "accepts" : "refuses",
		v->stage[0] ? " (" : "", v->stage, v->stage[0] ? ")" : "",
		v->agrees == MF_AGREES      ? "agree"
		: v->agrees == MF_DISAGREES ? "DISAGREE"
					    : "cannot be compared");
	field(p, "really", v->agrees == MF_DISAGREES ? MF_ROLE_ERROR : MF_ROLE_ACCENT, text);
	if (!v->accepted && v->message[0])
		mf_pen_wrapped(p, 14, MF_ROLE_TEXT, v->message);
	if (v->rewritten[0])
		mf_pen_wrapped(p, 14, MF_ROLE_TEXT, v->rewritten);
}

static void why(mf_pen *p)
{
	const mf_app *a = p->a;
	const mf_detail *d = &a->detail;
	const mf_refusal *r = &d->refusal;
	const mf_row *row = mf_app_selected(a);
	char text[512];

	real_answer(p);
	if (!r->rule || !r->rule[0]) {
		mf_pen_put(p, 0, MF_ROLE_BUILDABLE, "buildable: the emitter wrote a command and the memory fits");
		p->line++;
		if (row->probe)
			mf_pen_wrapped(p, 0, MF_ROLE_PROBE,
				"It is closer to the budget than the ledger's own measured error: only a launch can "
				"tell.");
		if (d->note[0])
			mf_pen_wrapped(p, 0, MF_ROLE_DIM, d->note);
		return;
	}
	mf_pen_wrapped(p, 0, MF_ROLE_REASON, r->reason);
	p->line++;
	field(p, "rule", MF_ROLE_TEXT, r->rule);
	snprintf(text, sizeof(text), "%s  %s", r->boundary, boundary_title(r->boundary));
	field(p, "boundary", MF_ROLE_TEXT, text);
	field(p, "stage", MF_ROLE_TEXT, r->stage);
	field(p, "kind", MF_ROLE_TEXT, r->kind);
	if (r->exception && r->exception[0])
		field(p, "raised as", MF_ROLE_TEXT, r->exception);
	const mf_rule *rule = mf_rule_get(row->rule);
	if (rule->when && rule->when[0])
		field(p, "when", MF_ROLE_TEXT, rule->when);
	if (rule->where && rule->where[0])
		field(p, "where", MF_ROLE_DIM, rule->where);
	if (d->note[0])
		field(p, "note", MF_ROLE_DIM, d->note);
	p->line++;
	if (!d->neighbour_valid)
		return;
	if (d->neighbour == MF_NO_ROW) {
		mf_pen_put(p, 0, MF_ROLE_TEXT, "no plan of this space can be built");
		p->line++;
		return;
	}
	const mf_row *near = &a->rows[d->neighbour];
	char plan[MF_PLAN_TEXT_MAX];
	mf_plan_format(&near->plan, a->in.intern, plan);
	field(p, "nearest", MF_ROLE_BUILDABLE, plan);
	snprintf(text, sizeof(text), "%d dimension%s changed, %+.1f%% throughput, rank %u", d->neighbour_changes,
		d->neighbour_changes == 1 ? "" : "s", 100.0 * ((double)near->throughput / (double)row->throughput - 1),
		a->rank_of[d->neighbour] + 1);
	field(p, "", MF_ROLE_TEXT, text);
}

static void argv_tab(mf_pen *p)
{
	const mf_detail *d = &p->a->detail;
	char text[128];

	if (!d->argv_valid)
		return;
	if (d->argv.len == 0) {
		mf_pen_wrapped(p, 0, MF_ROLE_REASON, d->refusal.reason);
		mf_pen_put(p, 0, MF_ROLE_DIM, "The toolchain has no words for this plan.");
		p->line++;
		return;
	}
	if (d->refusal.rule && d->refusal.rule[0])
		mf_pen_wrapped(p, 0, MF_ROLE_REASON, "Refused; this is what would have been written:");
	mf_pen_put(p, 0, MF_ROLE_DIM, "+ marks what the plan of all defaults would not write");
	p->line++;
	const char *s = mf_buf_text(&d->argv);
	while (*s) {
		size_t len = strcspn(s, "\n");
		char line[1024];
		snprintf(line, sizeof(line), "%.*s", (int)(len < 1023 ? len : 1023), s);
		/* What this plan writes and the plan of all defaults does not is what makes it this plan. */
		bool own = !has_line(&d->plain_argv, s, len);
		if (own)
			mf_pen_put(p, 0, MF_ROLE_ACCENT, "+");
		mf_pen_wrapped(p, line[0] == '-' ? 2 : own ? 1 : 0, own ? MF_ROLE_ACCENT : MF_ROLE_TEXT, line);
		s += len + (s[len] == '\n');
	}
	p->line++;
	snprintf(text, sizeof(text), "argv_sha256 %s", d->argv_sha256);
	mf_pen_wrapped(p, 0, MF_ROLE_DIM, text);
	snprintf(text, sizeof(text), "plan_sha256 %s", d->plan_sha256);
	mf_pen_wrapped(p, 0, MF_ROLE_DIM, text);
}

int mf_detail_draw(mf_app *a, mf_cells *s, mf_rect r, int scroll)
{
	mf_pen p = {a, s, r, scroll, 0};

	if (!a->detail.valid || !mf_app_selected(a)) {
		mf_pen_put(&p, 0, MF_ROLE_DIM, a->searching ? "searching" : "no plan is selected");
		return 1;
	}
	switch (a->tab) {
	case MF_TAB_OVERVIEW: overview(&p); break;
	case MF_TAB_MEMORY: memory(&p); break;
	case MF_TAB_TIME: time_tab(&p); break;
	case MF_TAB_TIMELINE: mf_timeline_tab(&p); break;
	case MF_TAB_WHY: why(&p); break;
	case MF_TAB_ARGV: argv_tab(&p); break;
	case MF_TAB_COUNT: break;
	}
	return p.line;
}
