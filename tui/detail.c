/* detail.c: the detail pane and the comparison. Everything it shows comes from one explained evaluation of the plan. */
#include "app.h"

#include <math.h>
#include <string.h>

void mf_app_fill_detail(mf_app *a)
{
	const mf_row *row = mf_app_row(a, a->cursor);
	mf_detail *d = &a->detail;
	double fraction = NAN;
	mf_err err;

	if (!row || (d->filled && memcmp(&d->plan, &row->plan, sizeof row->plan) == 0))
		return;
	d->plan = row->plan;
	d->filled = true;
	if (mf_realize_explain(&a->realizer, &row->plan, &d->refusal) < 0)
		memset(&d->refusal, 0, sizeof d->refusal);
	mf_paper_note(&row->plan, &a->in, d->note);
	if (mf_cost_explain(a->evaluator, &row->plan, d->ex, &err) < 0)
		memset(d->ex, 0, sizeof *d->ex);
	if (d->has_argv)
		mf_argv_dispose(&d->argv);
	d->has_argv = mf_argv_init(&d->argv, true, &err) == MF_OK;
	if (!d->has_argv)
		return;
	if (a->workload.phase == MF_SERVE)
		fraction = mf_cost_mem_fraction(a->evaluator, &row->plan);
	mf_emit(a->emitter, &row->plan, fraction, &d->argv.sink);
}

/* ---- lines that scroll ------------------------------------------------------------------------------------------------ */

struct pane {
	mf_app *a;
	mf_rect r;
	int line;   /* next line, counted from the top of the text */
};

/* Row on the screen of the next line, or -1 when it is scrolled out. */
static int next_y(struct pane *p)
{
	int y = p->r.y + p->line++ - p->a->detail_scroll;

	return y >= p->r.y && y < p->r.y + p->r.h ? y : -1;
}

static void put(struct pane *p, mf_role role, const char *text)
{
	int y = next_y(p);

	if (y >= 0)
		mf_cells_text(&p->a->cells, p->r.x + 1, y, p->r.w - 2, role, text);
}

static void MF_PRINTF(3, 4) putf(struct pane *p, mf_role role, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	put(p, role, text);
}

/* Breaks a long text at blanks. */
static void put_wrapped(struct pane *p, mf_role role, const char *text)
{
	int width = p->r.w - 2 > 8 ? p->r.w - 2 : 8;

	while (*text) {
		size_t newline = strcspn(text, "\n"), len = mf_text_fit(text, newline, width, p->a->cells.ascii, NULL), cut = len;
		char line[1024];

		if (len < newline)
			while (cut > 0 && text[cut] != ' ')
				cut--;
		len = cut ? cut : len ? len : 1;
		snprintf(line, sizeof line, "%.*s", (int)len, text);
		put(p, role, line);
		text += len;
		text += *text == '\n' || *text == ' ';
	}
}

static void bar(struct pane *p, const char *name, double value, double whole, const char *unit, mf_role role)
{
	int y = next_y(p), room = p->r.w - 46, n;
	char text[64];

	if (y < 0)
		return;
	mf_cells_text(&p->a->cells, p->r.x + 1, y, 28, MF_ROLE_TEXT, name);
	snprintf(text, sizeof text, "%.3f %s", value, unit);
	mf_cells_right(&p->a->cells, p->r.x + 29, y, 14, MF_ROLE_TEXT, text);
	n = room > 0 && whole > 0 && value > 0 ? (int)(fmin(1, value / whole) * room + 0.5) : 0;
	for (int i = 0; i < n; i++)
		mf_cells_text(&p->a->cells, p->r.x + 44 + i, y, 1, role, mf_glyph_text(MF_G_BAR1, p->a->cells.ascii));
}

/* ---- tabs -------------------------------------------------------------------------------------------------------------- */

static void overview(struct pane *p)
{
	const mf_app *a = p->a;
	const mf_explain *ex = a->detail.ex;
	uint32_t world = mf_cluster_world(&a->cluster);
	char text[MF_PLAN_TEXT_MAX];

	mf_plan_format(&a->detail.plan, a->in.intern, text);
	put_wrapped(p, MF_ROLE_ACCENT, text);
	if (a->workload.phase == MF_SERVE)
		putf(p, MF_ROLE_TEXT, "%.1f tokens/s/GPU   TTFT %.0f ms   TPOT %.2f ms   batch %.0f", ex->time.throughput, ex->time.ttft_ms,
			ex->time.tpot_ms, ex->time.batch);
	else
		putf(p, MF_ROLE_TEXT, "%.1f tokens/s/GPU   step %.1f ms   bubble %.1f%%   hidden %.0f%%", ex->time.throughput,
			ex->time.step_ms, 100 * ex->time.bubble_fraction, 100 * ex->time.hidden_fraction);
	putf(p, MF_ROLE_TEXT, "%.1f of %.1f GB, worst stage %u%s", ex->memory.total_bytes / MF_GB, ex->memory.budget_bytes / MF_GB,
		ex->memory.worst_stage, ex->memory.probe ? ", within the ledger's error: probe" : "");
	putf(p, MF_ROLE_DIM, "%u GPUs: data parallel %u, expert tensor parallel %u", world, mf_plan_dp(&a->detail.plan, world),
		mf_plan_etp(&a->detail.plan, world));
	if (a->constraint && *a->detail.refusal.rule)
		put_wrapped(p, MF_ROLE_REASON, a->detail.refusal.reason);
	if (a->detail.note[0])
		put_wrapped(p, MF_ROLE_DIM, a->detail.note);
}

static void memory_tab(struct pane *p)
{
	const mf_explain *ex = p->a->detail.ex;

	putf(p, ex->memory.fits ? MF_ROLE_TEXT : MF_ROLE_REASON, "%.2f of %.2f GB on stage %u%s", ex->memory.total_bytes / MF_GB,
		ex->memory.budget_bytes / MF_GB, ex->memory.worst_stage, ex->memory.fits ? "" : ": does not fit");
	for (size_t i = 0; i < ex->n_lines; i++)
		bar(p, ex->lines[i].name, ex->lines[i].bytes / MF_GB, ex->memory.total_bytes / MF_GB, "GB",
			(mf_role)(MF_ROLE_BAR1 + (int)(i % 4)));
	for (size_t i = 0; ex->n_stages > 1 && i < ex->n_stages; i++) {
		char name[32];

		snprintf(name, sizeof name, "stage %zu", i);
		bar(p, name, ex->stage_bytes[i] / MF_GB, ex->memory.budget_bytes / MF_GB, "GB", MF_ROLE_BAR2);
	}
}

static void time_tab(struct pane *p)
{
	const mf_explain *ex = p->a->detail.ex;
	double whole = p->a->workload.phase == MF_SERVE ? ex->time.tpot_ms : ex->time.step_ms;

	for (size_t i = 0; i < ex->n_terms; i++)
		bar(p, ex->terms[i].name, ex->terms[i].ms, whole, "ms", (mf_role)(MF_ROLE_BAR1 + (int)(i % 4)));
	for (size_t i = 0; i < ex->n_terms; i++) {
		const mf_term *t = &ex->terms[i];

		putf(p, MF_ROLE_DIM, "%s: %s  %s", t->name, t->formula, t->inputs);
		for (size_t k = 0; k < t->n_consts; k++)
			putf(p, MF_ROLE_DIM, "  %s = %g %s (%s)", mf_const_infos[t->consts[k]].name, p->a->consts.v[t->consts[k]],
				mf_const_infos[t->consts[k]].unit,
				p->a->consts.from_overlay[t->consts[k]] ? p->a->overlay : mf_const_infos[t->consts[k]].source);
	}
}

static void why_tab(struct pane *p)
{
	const mf_refusal *r = &p->a->detail.refusal;

	if (!*r->rule) {
		put(p, MF_ROLE_BUILDABLE, "buildable: no rule of the emitter refuses it, and it fits the card");
		if (p->a->detail.note[0])
			put_wrapped(p, MF_ROLE_DIM, p->a->detail.note);
		return;
	}
	putf(p, MF_ROLE_TEXT, "refused by %s, boundary %s, stage %s, %s (%s)", r->rule, r->boundary, r->stage, r->kind, r->exception);
	put_wrapped(p, MF_ROLE_REASON, r->reason);
	for (mf_rule_id id = 1; id < MF_RULE_COUNT; id++) {
		const mf_rule *rule = mf_rule_get(id);

		if (strcmp(rule->id, r->rule) == 0 && rule->when && *rule->when) {
			putf(p, MF_ROLE_DIM, "when: %s", rule->when);
			if (rule->where && *rule->where)
				putf(p, MF_ROLE_DIM, "where: %s", rule->where);
			break;
		}
	}
	put(p, MF_ROLE_DIM, "n goes to the next plan that can be built");
}

static void argv_tab(struct pane *p)
{
	const mf_argv *v = &p->a->detail.argv;

	if (!p->a->detail.has_argv || !v->n) {
		put(p, MF_ROLE_DIM, "the toolchain has no words for this plan");
		return;
	}
	for (size_t i = 0; i < v->n_env; i++)
		put(p, MF_ROLE_DIM, v->env[i]);
	for (size_t i = 0; i < v->n; i++) {
		/* A flag and its value stand on one line. */
		bool value = i + 1 < v->n && strncmp(v->args[i], "--", 2) == 0 && strncmp(v->args[i + 1], "--", 2) != 0;
		mf_role role = v->parts[i] == MF_PART_SITE ? MF_ROLE_DIM : MF_ROLE_TEXT;

		if (value)
			putf(p, role, "%s %s", v->args[i], v->args[i + 1]);
		else
			put(p, role, v->args[i]);
		i += value;
	}
}

void mf_view_detail(mf_app *a, mf_rect r)
{
	static const char *const names[MF_TAB_COUNT] = {"overview", "memory", "time", "why", "argv"};
	static void (*const tabs[MF_TAB_COUNT])(struct pane *) = {overview, memory_tab, time_tab, why_tab, argv_tab};
	struct pane p = {a, {r.x, r.y + 1, r.w, r.h - 1}, 0};
	int x = r.x;

	mf_cells_fill(&a->cells, (mf_rect){r.x, r.y, r.w, 1}, MF_ROLE_BORDER, ' ');
	for (int i = 0; i < r.w; i++)
		mf_cells_text(&a->cells, r.x + i, r.y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_HLINE, a->cells.ascii));
	for (int t = 0; t < MF_TAB_COUNT; t++) {
		char text[24];

		snprintf(text, sizeof text, t == (int)a->tab ? "[%s]" : " %s ", names[t]);
		x += mf_cells_text(&a->cells, x + 1, r.y, r.w - (x - r.x) - 1, t == (int)a->tab ? MF_ROLE_TAB_ACTIVE : MF_ROLE_TAB, text);
	}
	if (a->detail_focus && r.w > 60)
		mf_cells_right(&a->cells, r.x + 46, r.y, r.w - 47, MF_ROLE_TAB_ACTIVE, " j k scroll, Esc leaves ");
	if (!mf_app_row(a, a->cursor))
		return;
	mf_app_fill_detail(a);
	tabs[a->tab](&p);
	/* Scrolling stops where the text ends. */
	if (a->detail_scroll > 0 && p.line - a->detail_scroll < 1)
		a->detail_scroll = p.line > 0 ? p.line - 1 : 0;
}

/* ---- comparison -------------------------------------------------------------------------------------------------------- */

static const mf_row *find_row(const mf_app *a, const mf_plan *p)
{
	for (size_t i = 0; a->found && i < a->found->n_rows; i++)
		if (memcmp(&a->found->rows[i].plan, p, sizeof *p) == 0)
			return &a->found->rows[i];
	return NULL;
}

/* Segments of a plan's text, so that dimensions can be compared without a second list of them. */
static bool has_segment(const char *text, const char *segment, size_t len)
{
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "/");

		if (n == len && strncmp(at, segment, len) == 0)
			return true;
		at += n + (at[n] == '/');
	}
	return false;
}

void mf_view_compare(mf_app *a, mf_rect r)
{
	static const char *const lines[] = {"tok/s/GPU", "step ms", "TTFT ms", "TPOT ms", "memory GB", "verdict"};
	char texts[MF_MAX_MARKS][MF_PLAN_TEXT_MAX];
	int width = (r.w - 14) / (int)(a->n_marks ? a->n_marks : 1);

	mf_cells_fill(&a->cells, r, MF_ROLE_POPUP, ' ');
	mf_cells_text(&a->cells, r.x + 1, r.y, r.w - 2, MF_ROLE_TAB_ACTIVE, "marked plans, what differs first (Esc leaves)");
	for (size_t m = 0; m < a->n_marks; m++)
		mf_plan_format(&a->marks[m], a->in.intern, texts[m]);
	for (size_t m = 0; m < a->n_marks; m++) {
		const mf_row *row = find_row(a, &a->marks[m]);
		int x = r.x + 13 + (int)m * width, y = r.y + 2;

		for (int same = 0; same < 2; same++)
			for (const char *at = texts[m]; *at;) {
				size_t n = strcspn(at, "/");
				bool everywhere = true;
				char segment[64];

				for (size_t o = 0; o < a->n_marks; o++)
					everywhere &= has_segment(texts[o], at, n);
				if (everywhere == same && y < r.y + 10) {
					snprintf(segment, sizeof segment, "%.*s", (int)n, at);
					mf_cells_text(&a->cells, x, y++, width - 1, same ? MF_ROLE_DIM : MF_ROLE_ACCENT, segment);
				}
				at += n + (at[n] == '/');
			}
		for (size_t i = 0; row && i < MF_COUNT(lines); i++) {
			const double v[] = {(double)row->throughput, (double)row->step_ms, (double)row->ttft_ms, (double)row->tpot_ms,
				(double)row->memory_gb};
			char text[48];

			if (i < MF_COUNT(v) && !isfinite(v[i]))
				snprintf(text, sizeof text, "-");
			else if (i < MF_COUNT(v))
				snprintf(text, sizeof text, "%.2f", v[i]);
			else
				snprintf(text, sizeof text, "%s", row->rule ? mf_rule_get(row->rule)->id : row->probe ? "probe" : "buildable");
			mf_cells_text(&a->cells, r.x + 1, r.y + 11 + (int)i, 11, MF_ROLE_DIM, lines[i]);
			mf_cells_text(&a->cells, x, r.y + 11 + (int)i, width - 1, MF_ROLE_TEXT, text);
		}
	}
}
