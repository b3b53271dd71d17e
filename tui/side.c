/* side.c: the pane of news: what probes and the autotuner say, a log, and the GPUs of this node. */
#include "tui_app.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const mf_choice mf_side_tab_choices[] = {
	{MF_SIDE_PROBE, "probe", "what probes of plans report"},
	{MF_SIDE_AUTOTUNE, "autotune", "what the kernel autotuner reports"},
	{MF_SIDE_LOG, "log", "lines of the jobs themselves"},
	{MF_SIDE_NODE, "node", "the GPUs of this node and who holds them"},
	{0, NULL, NULL},
};

void mf_side_dispose(mf_side *s)
{
	for (int i = 0; i < MF_SIDE_NODE; i++)
		free(s->log[i].line);
	free(s->measured);
	memset(s, 0, sizeof(*s));
}

/* ---- news ---- */

static void add_line(mf_side_log *log, const char *text)
{
	if (!log->line && !(log->line = calloc(MF_SIDE_LINES, sizeof(*log->line))))
		return;
	snprintf(log->line[(log->first + log->n) % MF_SIDE_LINES], sizeof(*log->line), "%.*s",
		(int)sizeof(*log->line) - 1, text);
	if (log->n < MF_SIDE_LINES)
		log->n++;
	else
		log->first = (log->first + 1) % MF_SIDE_LINES;
}

void mf_side_note(mf_app *a, mf_side_tab tab, const char *line)
{
	add_line(&a->side.log[tab], line);
}

static void add_measured(mf_side *s, const mf_plan *p, double throughput)
{
	for (size_t i = 0; i < s->n_measured; i++) {
		if (memcmp(&s->measured[i].plan, p, sizeof(*p)) == 0) {
			s->measured[i].throughput = throughput; /* the last one counts */
			return;
		}
	}
	if (s->n_measured == s->cap_measured) {
		size_t cap = s->cap_measured ? s->cap_measured * 2 : 16;
		mf_measured_plan *grown = realloc(s->measured, cap * sizeof(*grown));
		if (!grown)
			return;
		s->measured = grown;
		s->cap_measured = cap;
	}
	s->measured[s->n_measured].plan = *p;
	s->measured[s->n_measured++].throughput = throughput;
}

bool mf_side_take(mf_app *a, const mf_job_source *jobs)
{
	mf_job_news news;
	int n = 0;

	/* A source that floods gets its turn, not the loop. */
	while (jobs && n < 200 && jobs->next(jobs->payload, &news)) {
		n++;
		if (news.line[0] && news.tab < MF_SIDE_NODE)
			add_line(&a->side.log[news.tab], news.line);
		if (news.measures)
			add_measured(&a->side, &news.plan, news.throughput);
	}
	return n > 0;
}

double mf_side_measured(const mf_side *s, const mf_plan *p)
{
	for (size_t i = 0; i < s->n_measured; i++)
		if (memcmp(&s->measured[i].plan, p, sizeof(*p)) == 0)
			return s->measured[i].throughput;
	return NAN;
}

/* ---- drawing ---- */

static int draw_log(const mf_app *a, mf_cells *s, mf_rect r)
{
	static const char *const nothing[] = {
		[MF_SIDE_PROBE] = "no probe has reported; jobs are read from --jobs FILE",
		[MF_SIDE_AUTOTUNE] = "no autotuner has reported; jobs are read from --jobs FILE",
		[MF_SIDE_LOG] = "no line yet; jobs are read from --jobs FILE",
	};
	const mf_side_log *log = &a->side.log[a->side.tab];
	int back = a->side.scroll, last = log->n - back;

	if (log->n == 0) {
		mf_cells_text(s, r.x, r.y, r.w, MF_ROLE_DIM, nothing[a->side.tab]);
		return 0;
	}
	for (int y = r.h - 1, i = last - 1; y >= 0 && i >= 0; y--, i--)
		mf_cells_text(s, r.x, r.y + (last < r.h ? y - (r.h - last) : y), r.w, MF_ROLE_TEXT,
			log->line[(log->first + i) % MF_SIDE_LINES]);
	return log->n;
}

static int draw_gpu(const mf_gpu_state *g, size_t index, mf_cells *s, mf_rect r, int line, int scroll)
{
	char text[128], used[16], total[16], load[16], watts[16];
	int y = line - scroll;

	if (y >= 0 && y < r.h) {
		mf_format_number(used, sizeof(used), g->memory_used_bytes / MF_GB, 1);
		mf_format_number(total, sizeof(total), g->memory_total_bytes / MF_GB, 0);
		mf_format_number(load, sizeof(load), 100 * g->load, 0);
		mf_format_number(watts, sizeof(watts), g->power_w, 0);
		snprintf(text, sizeof(text), "%zu %5s/%s GB ", index, used, total);
		int x = mf_cells_text(s, r.x, r.y + y, r.w, MF_ROLE_TEXT, text), w = r.w / 4;
		mf_cells_gauge(s, r.x + x, r.y + y, w, g->memory_used_bytes / g->memory_total_bytes, MF_ROLE_BAR1,
			MF_ROLE_DIM);
		x += w + 1;
		snprintf(text, sizeof(text), "load %3s%% ", load);
		x += mf_cells_text(s, r.x + x, r.y + y, r.w - x, MF_ROLE_TEXT, text);
		snprintf(text, sizeof(text), "%s W  %s", watts, g->name);
		if (x < r.w)
			mf_cells_text(s, r.x + x, r.y + y, r.w - x, MF_ROLE_DIM, text);
	}
	line++;
	for (size_t i = 0; i < g->n_holders && i < MF_MAX_HOLDERS; i++, line++) {
		const mf_gpu_holder *h = &g->holders[i];
		y = line - scroll;
		mf_format_number(used, sizeof(used), h->memory_bytes / MF_GB, 1);
		snprintf(text, sizeof(text), "  %-8u %-10s %6s GB  %s", h->pid, h->user, used, h->name);
		if (y >= 0 && y < r.h)
			mf_cells_text(s, r.x, r.y + y, r.w, MF_ROLE_DIM, text);
	}
	return line;
}

static int draw_node(const mf_app *a, mf_cells *s, mf_rect r)
{
	const mf_node_state *n = &a->side.node;
	int line = 0;

	if (!n->known)
		mf_cells_text(s, r.x, r.y, r.w, MF_ROLE_DIM, "asking the driver");
	else if (n->error[0])
		mf_cells_text(s, r.x, r.y, r.w, MF_ROLE_DIM, n->error);
	for (size_t i = 0; i < n->n_gpus && i < MF_MAX_NODE_GPUS; i++)
		line = draw_gpu(&n->gpu[i], i, s, r, line, a->side.scroll);
	return line;
}

void mf_side_draw(mf_app *a, mf_cells *s, mf_rect tabs, mf_rect r)
{
	int x = tabs.x;

	for (int i = tabs.x; i < tabs.x + tabs.w; i++)
		mf_cells_text(s, i, tabs.y, 1, MF_ROLE_BORDER, mf_glyph_text(MF_G_HLINE, s->ascii));
	for (int i = 0; mf_side_tab_choices[i].name; i++) {
		char text[32];
		bool open = mf_side_tab_choices[i].value == (int)a->side.tab;
		snprintf(text, sizeof(text), open ? "[%s]" : " %s ", mf_side_tab_choices[i].name);
		x += mf_cells_text(s, x, tabs.y, tabs.x + tabs.w - x,
			!open                       ? MF_ROLE_TAB
			: a->focus == MF_FOCUS_SIDE ? MF_ROLE_ACCENT
						    : MF_ROLE_TAB_ACTIVE,
			text);
	}
	r.x += 1;
	r.w -= 1;
	a->side.height = r.h;
	a->side.lines = a->side.tab == MF_SIDE_NODE ? draw_node(a, s, r) : draw_log(a, s, r);
}

/* Side tab whose name is at column x of the tabs' line, -1 for none. */
int mf_side_tab_at(mf_rect tabs, int x)
{
	int at = tabs.x;

	for (int i = 0; mf_side_tab_choices[i].name; i++) {
		int w = (int)strlen(mf_side_tab_choices[i].name) + 2;
		if (x >= at && x < at + w)
			return mf_side_tab_choices[i].value;
		at += w;
	}
	return -1;
}
