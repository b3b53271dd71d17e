/* emit.c: moefs emit, the command of one plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static mf_status write_plan(mf_session *s, const mf_args *a, const mf_plan *p, mf_command_format f, mf_err *err)
{
	mf_buf command = MF_BUF_INIT;
	mf_argv argv;
	mf_refusal refusal;
	mf_status st;
	bool forced = a->value[OPT_FORCED] != NULL;

	st = mf_realize_explain(&s->realizer, p, &refusal);
	if (st < 0)
		return mf_fail(err, st, "cannot judge the plan");
	if (*refusal.rule && !forced)
		return mf_fail(err, MF_EREFUSED, "refused by %s (%s, stage %s): %s", refusal.rule, refusal.kind,
			refusal.stage, refusal.reason);
	st = mf_argv_init(&argv, forced, err);
	if (st < 0)
		return st;
	mf_emit(s->emitter, p, mf_session_fraction(s, p), &argv.sink);
	if (mf_rule_unspeakable(argv.sink.rule))
		st = mf_fail(err, MF_EREFUSED, "the toolchain has no words for this plan: %s", refusal.reason);
	if (st == MF_OK && a->value[OPT_OUT])
		st = mf_command_save(a->value[OPT_OUT], &argv, &s->in, p, f, err);
	else if (st == MF_OK && (st = mf_command_write(&argv, &s->in, p, f, &command, err)) == MF_OK)
		fwrite(mf_buf_text(&command), 1, command.len, stdout);
	mf_argv_dispose(&argv);
	mf_buf_dispose(&command);
	return st;
}

int mf_cmd_emit(const mf_args *a)
{
	static mf_session s;
	int format;
	mf_command_format f;
	mf_plan p;
	mf_err err;
	mf_status st;

	if (!a->value[OPT_PLAN]) {
		mf_fail(&err, MF_EINPUT, "emit needs --plan; moefs search lists plans");
		return mf_report(&err);
	}
	if ((st = mf_args_choice(a, OPT_FORMAT, mf_command_format_choices, MF_CMD_SHELL, &format, &err)) < 0)
		return mf_report(&err);
	f = (mf_command_format)format;
	if (a->value[OPT_OUT] && !a->value[OPT_FORMAT] && mf_command_format_of_path(a->value[OPT_OUT], &f, &err) < 0)
		return mf_report(&err);
	if ((st = mf_session_open(&s, a, &err)) < 0)
		return mf_report(&err);
	st = mf_plan_parse(&p, a->value[OPT_PLAN], s.workload.phase, s.in.intern, &err);
	if (st == MF_OK)
		st = write_plan(&s, a, &p, f, &err);
	mf_session_close(&s);
	return st < 0 ? mf_report(&err) : 0;
}
