/* compare.c: the marked plans side by side. */
#include "tui_pen.h"

static void dim_text(const mf_plan *p, int dim, char *out, size_t size)
{
	unsigned v = mf_dim_get(p, dim);
	if (mf_plan_dims[dim].choices)
		snprintf(out, size, "%s", mf_choice_name(mf_plan_dims[dim].choices, (int)v));
	else
		snprintf(out, size, "%u", v);
}

int mf_compare_draw(mf_app *a, mf_cells *s, mf_rect r, int scroll)
{
	mf_pen p = {a, s, r, scroll, 0};
	static const char *const figures[] = {
		"tokens/s/GPU", "step ms", "TTFT ms", "TPOT ms", "memory GB", "hidden %", "bubble %", "verdict"};
	int n = a->n_marks, name_width = 14, width = n > 0 ? (r.w - name_width) / n : 0;
	mf_realizer realize = {a->eval.emitter, a->eval.cost, true};
	char text[MF_PLAN_TEXT_MAX];

	for (int k = 0; k < n; k++) {
		snprintf(text, sizeof(text), "%c: ", 'A' + k);
		mf_pen_put(&p, 0, MF_ROLE_MARK, text);
		mf_plan_format(&a->marks[k], a->in.intern, text);
		mf_pen_wrapped(&p, 3, MF_ROLE_ACCENT, text);
	}
	p.line++;
	for (int k = 0; k < n; k++)
		mf_pen_put(&p, name_width + k * width, MF_ROLE_TITLE, (char[2]){(char)('A' + k), 0});
	p.line++;
	for (size_t f = 0; f < MF_COUNT(figures); f++) {
		bool train_only = f == 1 || f == 6, serve_only = f == 2 || f == 3;
		if ((train_only && a->phase != MF_TRAIN) || (serve_only && a->phase != MF_SERVE))
			continue;
		mf_pen_put(&p, 0, MF_ROLE_DIM, figures[f]);
		for (int k = 0; k < n; k++) {
			mf_time t;
			mf_memory m;
			mf_verdict v;
			mf_cost_time(a->eval.cost, &a->marks[k], &t);
			mf_cost_memory(a->eval.cost, &a->marks[k], &m);
			mf_realize(&realize, &a->marks[k], &v);
			const double value[] = {t.throughput, t.step_ms, t.ttft_ms, t.tpot_ms, m.total_bytes / MF_GB,
				100 * t.hidden_fraction, 100 * t.bubble_fraction};
			if (f == 7)
				snprintf(text, sizeof(text), "%s",
					v.rule != MF_RULE_NONE ? mf_rule_get(v.rule)->id
					: v.probe              ? "probe"
							       : "buildable");
			else
				mf_format_number(text, sizeof(text), value[f], f == 0 || f == 1 ? 1 : 2);
			int y = mf_pen_y(&p);
			if (y >= 0)
				mf_cells_text(s, r.x + name_width + k * width, y, width - 1,
					f == 7 && v.rule != MF_RULE_NONE ? MF_ROLE_REASON : MF_ROLE_TEXT, text);
		}
		p.line++;
	}
	/* Dimensions that differ first, then the common ones. */
	for (int differ = 1; differ >= 0; differ--) {
		p.line++;
		mf_pen_put(&p, 0, MF_ROLE_TITLE, differ ? "differs" : "the same");
		p.line++;
		for (int i = 0; mf_plan_dims[i].name; i++) {
			bool same = true;
			for (int k = 1; k < n; k++)
				same &= mf_dim_get(&a->marks[0], i) == mf_dim_get(&a->marks[k], i);
			if (!(mf_plan_dims[i].phases & 1u << a->phase) || same == (differ == 1))
				continue;
			mf_pen_put(&p, 0, MF_ROLE_DIM, mf_plan_dims[i].name);
			for (int k = 0; k < n; k++) {
				int y = mf_pen_y(&p);
				dim_text(&a->marks[k], i, text, sizeof(text));
				if (y >= 0)
					mf_cells_text(s, r.x + name_width + k * width, y, width - 1,
						differ ? MF_ROLE_ACCENT : MF_ROLE_TEXT, text);
			}
			p.line++;
		}
	}
	return p.line;
}
