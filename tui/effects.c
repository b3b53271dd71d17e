/* effects.c: carries out what update asked for: searches, files, other inputs. */
#include "tui_app.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void export_plan(mf_app *a)
{
	const mf_row *row = mf_app_selected(a);
	mf_command_format f;
	mf_argv argv;
	mf_err err;
	mf_status st;
	char path[MF_PROMPT_MAX];

	if (!row)
		return;
	snprintf(path, sizeof(path), "%s", a->wanted);
	if (mf_command_format_of_path(path, &f, &err) < 0) {
		mf_prompt_open(a, MF_ACT_EXPORT, path);
		mf_app_say_error(a, "", &err);
		return;
	}
	if (!a->export_replace && access(path, F_OK) == 0) {
		mf_prompt_open(a, MF_ACT_EXPORT, path);
		a->prompt.overwrite = true;
		mf_app_say(a, true, "the file exists: Enter replaces it, Esc leaves it");
		return;
	}
	a->export_replace = false;
	if ((st = mf_detail_command(a, &row->plan, false, &argv, &err)) < 0) {
		mf_app_say_error(a, "not written: ", &err);
		return;
	}
	st = mf_command_save(path, &argv, &a->in, &row->plan, f, &err);
	if (st == MF_OK)
		mf_app_say(a, false, "wrote %s and %s.provenance.json", path, path);
	else
		mf_app_say_error(a, "not written: ", &err);
	mf_argv_dispose(&argv);
}

void mf_copy_text(mf_app *a, mf_buf *out)
{
	const mf_row *row = mf_app_selected(a);
	mf_argv argv;
	mf_err err;

	if (!row)
		return;
	if (row->rule != MF_RULE_NONE && a->now.constraint) {
		mf_buf_puts(out, a->detail.refusal.reason);
		mf_app_say(a, false, "copied the refusal (%zu bytes)", out->len);
		return;
	}
	if (mf_detail_command(a, &row->plan, false, &argv, &err) < 0) {
		mf_app_say_error(a, "not copied: ", &err);
		return;
	}
	for (size_t i = 0; i < argv.n_env; i++) {
		mf_buf_shell_quote(out, argv.env[i]);
		mf_buf_putc(out, ' ');
	}
	for (size_t i = 0; i < argv.n; i++) {
		if (i > 0)
			mf_buf_putc(out, ' ');
		mf_buf_shell_quote(out, argv.args[i]);
	}
	mf_argv_dispose(&argv);
	mf_app_say(a, false, "copied the command (%zu bytes)", out->len);
}

/* Exchanges the model or the cluster; on failure everything is as before. */
static bool exchange(mf_app *a, const mf_tui_opts *opts, bool model)
{
	mf_err err;
	mf_status st;

	if (model) {
		mf_model *m = malloc(sizeof(*m)), *old = malloc(sizeof(*old));
		if (!m || !old) {
			st = mf_fail(&err, MF_ENOMEM, "out of memory");
		} else if ((st = mf_model_load(m, a->wanted, &err)) == MF_OK) {
			*old = a->now.model;
			a->now.model = *m;
			if ((st = mf_app_rebuild(a, &err)) < 0)
				a->now.model = *old;
		}
		free(m);
		free(old);
	} else {
		mf_cluster c, old = a->now.cluster;
		st = opts->load_cluster ? opts->load_cluster(opts->payload, &c, a->wanted, &err)
					: mf_cluster_load(&c, a->wanted, &err);
		if (st == MF_OK) {
			a->now.cluster = c;
			/* The factory constants are the GPU family's: they follow the cluster. */
			if ((st = mf_app_set_overlay(a, a->now.overlay, &err)) < 0) {
				mf_err ignored;
				a->now.cluster = old;
				mf_app_set_overlay(a, a->now.overlay, &ignored);
			}
		}
	}
	if (st < 0)
		mf_app_say_error(a, "", &err);
	return st == MF_OK;
}

/* Makes a->target what is assumed, without noting it as a change; returns what it takes to show it. */
static unsigned restore(mf_app *a, bool unrelated)
{
	mf_settings only = a->target;

	/* When nothing but the order differs, the rows at hand serve. */
	only.tax = a->now.tax;
	only.constraint = a->now.constraint;
	bool same = !unrelated && memcmp(&only, &a->now, sizeof(only)) == 0;
	memcpy(&a->now, &a->target, sizeof(a->now));
	memcpy(&a->settled, &a->target, sizeof(a->now));
	return same ? MF_FX_ARRANGE : MF_FX_SEARCH;
}

unsigned mf_effects_run(mf_app *a, mf_worker *w, const mf_tui_opts *opts, unsigned fx)
{
	mf_err err;

	if (fx & MF_FX_THEME) {
		mf_theme look;
		if (mf_theme_load(&look, a->wanted, &err) < 0) {
			mf_app_say_error(a, "", &err);
			fx &= ~(unsigned)MF_FX_THEME;
		} else {
			a->look = look;
			a->theme_chosen = true;
			snprintf(a->theme, sizeof(a->theme), "%.255s", a->wanted);
		}
	}
	if (fx & MF_FX_SAVE_FILTER) {
		if (mf_store_save_filter(a, a->wanted, &err) < 0)
			mf_app_say_error(a, "not kept: ", &err);
		else
			mf_app_say(a, false, "kept: /@%s brings it back", a->wanted);
		fx &= ~(unsigned)MF_FX_SAVE_FILTER;
	}
	if (fx & MF_FX_OVERLAY) {
		fx &= ~(unsigned)MF_FX_OVERLAY;
		if (mf_app_set_overlay(a, a->wanted, &err) < 0)
			mf_app_say_error(a, "", &err);
		else
			fx |= MF_FX_SEARCH;
	}
	if (fx & MF_FX_RESTORE) {
		bool unrelated = mf_whatif_unrelated(&a->now, &a->target);
		if (unrelated && !mf_worker_clear(w, a))
			return fx;
		fx = (fx & ~(unsigned)MF_FX_RESTORE) | restore(a, unrelated);
	}
	if (fx & (MF_FX_MODEL | MF_FX_CLUSTER)) {
		/* A thread still reads the old rows: it is told to stop, and the loop asks again when it has. */
		if (!mf_worker_clear(w, a))
			return fx;
		exchange(a, opts, fx & MF_FX_MODEL);
		fx &= ~(unsigned)(MF_FX_MODEL | MF_FX_CLUSTER);
		fx |= MF_FX_SEARCH;
	}
	if (fx & MF_FX_SEARCH) {
		if (mf_app_set_overlay(a, a->now.overlay, &err) < 0) {
			mf_err ignored;
			mf_app_say_error(a, "", &err);
			memcpy(&a->now, &a->settled, sizeof(a->now));
			mf_app_set_overlay(a, a->now.overlay, &ignored);
		} else {
			mf_worker_search(w, a);
		}
		fx &= ~(unsigned)MF_FX_SEARCH;
	}
	if (fx & MF_FX_ARRANGE) {
		mf_worker_arrange(w, a);
		fx &= ~(unsigned)MF_FX_ARRANGE;
	}
	if (fx & MF_FX_EXPORT) {
		export_plan(a);
		fx &= ~(unsigned)MF_FX_EXPORT;
	}
	mf_whatif_settle(a);
	return fx;
}
