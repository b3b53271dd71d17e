/*
 * ask.c: key v, the installed toolchain asked about the selected plan. The witness is started on a thread of its own, at
 * the first question, and kept for the next ones; the screen stays alive meanwhile.
 */
#include "tui_app.h"
#include "tui_wake.h"

#include <stdlib.h>
#include <string.h>

typedef struct question {
	mf_settings assumed; /* device, model and toolchain */
	mf_plan plan;
	mf_argv argv; /* owned */
	mf_rule_id ours;
	uint32_t world;
} question;

struct mf_asker {
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	pthread_t thread;
	int pipe[2];
	volatile int stop;
	bool asked, quit;
	question q;
	bool answered;
	mf_ask_answer answer;
	const mf_tui_opts *opts;
	/* the thread's own */
	mf_settings open_for;
	mf_real *real;
};

static bool other_witness(const mf_asker *k, const mf_settings *s)
{
	return mf_whatif_unrelated(&k->open_for, s) || k->open_for.stack.toolchain != s->stack.toolchain;
}

static void find_out(mf_asker *k, question *q, mf_ask_answer *out)
{
	memset(out, 0, sizeof(*out));
	out->plan = q->plan;
	if (k->real && other_witness(k, &q->assumed)) {
		mf_real_close(k->real);
		k->real = NULL;
	}
	if (!k->real) {
		memcpy(&k->open_for, &q->assumed, sizeof(k->open_for));
		mf_real_opts o = {k->open_for.stack.toolchain, k->opts->real_python, k->opts->real_path,
			&k->open_for.cluster, &k->open_for.model, &k->stop};
		out->status = mf_real_open(&k->real, &o, &out->err);
		if (out->status < 0)
			return;
	}
	const mf_real_info *about = mf_real_about(k->real);
	snprintf(out->witness, sizeof(out->witness), "%.40s %.20s", about->package, about->version);
	out->status = mf_real_ask(k->real, &q->argv, q->world, q->ours, &out->verdict, &out->err);
	if (out->status < 0) {
		/* A witness that failed once is not asked again. */
		mf_real_close(k->real);
		k->real = NULL;
	}
}

static void *ask_main(void *payload)
{
	mf_asker *k = payload;

	pthread_mutex_lock(&k->mutex);
	while (!k->quit) {
		if (!k->asked || k->answered) {
			pthread_cond_wait(&k->wake, &k->mutex);
			continue;
		}
		mf_ask_answer *answer = malloc(sizeof(*answer));
		pthread_mutex_unlock(&k->mutex);
		if (answer)
			find_out(k, &k->q, answer);
		mf_argv_dispose(&k->q.argv);
		pthread_mutex_lock(&k->mutex);
		if (answer)
			k->answer = *answer;
		free(answer);
		k->answered = true;
		mf_wake(k->pipe);
	}
	pthread_mutex_unlock(&k->mutex);
	mf_real_close(k->real);
	return NULL;
}

static void release(mf_asker *k)
{
	mf_wake_close(k->pipe);
	pthread_cond_destroy(&k->wake);
	pthread_mutex_destroy(&k->mutex);
	free(k);
}

mf_asker *mf_asker_new(const mf_tui_opts *opts)
{
	mf_asker *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->opts = opts;
	if (!mf_wake_open(k->pipe)) {
		free(k);
		return NULL;
	}
	pthread_mutex_init(&k->mutex, NULL);
	pthread_cond_init(&k->wake, NULL);
	if (mf_thread_start(&k->thread, NULL, ask_main, k) != 0) {
		release(k);
		return NULL;
	}
	return k;
}

void mf_asker_free(mf_asker *k)
{
	if (!k)
		return;
	/* A witness in the middle of an answer is given up: the child and its group end. */
	__atomic_store_n(&k->stop, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&k->mutex);
	k->quit = true;
	pthread_cond_broadcast(&k->wake);
	pthread_mutex_unlock(&k->mutex);
	pthread_join(k->thread, NULL);
	if (k->asked && !k->answered)
		mf_argv_dispose(&k->q.argv);
	release(k);
}

bool mf_asker_busy(const mf_asker *k)
{
	return k && k->asked;
}

void mf_asker_ask(mf_asker *k, mf_app *a)
{
	const mf_row *row = mf_app_selected(a);
	mf_err err;

	if (!row)
		return;
	if (mf_asker_busy(k)) {
		mf_app_say(a, false, "the toolchain is still thinking about the last one");
		return;
	}
	if (mf_argv_init(&k->q.argv, true, &err) < 0) {
		mf_app_say_error(a, "", &err);
		return;
	}
	mf_emit(a->eval.emitter, &row->plan,
		a->phase == MF_SERVE ? mf_cost_mem_fraction(a->eval.cost, &row->plan) : 0.0, &k->q.argv.sink);
	memcpy(&k->q.assumed, &a->now, sizeof(k->q.assumed));
	k->q.plan = row->plan;
	k->q.ours = row->rule;
	k->q.world = a->world;
	pthread_mutex_lock(&k->mutex);
	k->asked = true;
	pthread_cond_broadcast(&k->wake);
	pthread_mutex_unlock(&k->mutex);
	mf_app_say(a, false, "asking the installed toolchain; the first time takes some seconds");
}

int mf_asker_fd(const mf_asker *k)
{
	return k->pipe[0];
}

/* One line of an answer, as the log keeps it. */
static void describe(const mf_ask_answer *w, const char *plan, char *out, size_t size)
{
	const mf_real_verdict *v = &w->verdict;

	if (w->status < 0)
		snprintf(out, size, "%s: %s", plan, w->err.msg);
	else if (!v->ran)
		snprintf(out, size, "%s: not asked: %s", plan, v->note);
	else
		snprintf(out, size, "%s: %s %s%s%s; our verdict %s", plan, w->witness,
			v->accepted ? "accepts it" : "refuses: ", v->accepted ? "" : v->message, v->rewritten,
			v->agrees == MF_AGREES      ? "agrees"
			: v->agrees == MF_DISAGREES ? "DISAGREES"
						    : "cannot be compared");
}

bool mf_asker_take(mf_asker *k, mf_app *a)
{
	char plan[MF_PLAN_TEXT_MAX], text[3600];
	bool answered;

	mf_wake_seen(k->pipe);
	pthread_mutex_lock(&k->mutex);
	answered = k->answered;
	if (answered) {
		a->asked = k->answer;
		k->answered = k->asked = false;
	}
	pthread_mutex_unlock(&k->mutex);
	if (!answered)
		return false;
	mf_plan_format(&a->asked.plan, a->in.intern, plan);
	describe(&a->asked, plan, text, sizeof(text));
	for (char *s = text; *s; s++)
		if (*s == '\n')
			*s = ' ';
	mf_side_note(a, MF_SIDE_LOG, text);
	mf_app_say(a, a->asked.status < 0 || a->asked.verdict.agrees == MF_DISAGREES, "%.1000s", text);
	return true;
}
