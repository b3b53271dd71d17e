/* Child processes: how they start, talk, end, and what is left of them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job.h"

#define LONG_MS 60000.0 /* never waited for: a test that reaches it has failed */

static mf_child *shell(const char *script, const volatile int *stop)
{
	const char *argv[] = {"sh", "-c", script, NULL};
	mf_child_opts o = {argv, NULL, stop};
	mf_child *c = NULL;
	mf_err err;

	cr_assert_eq(mf_child_start(&c, &o, &err), MF_OK, "%s", err.msg);
	return c;
}

/* True once the process is dead: gone, or a zombie that init has not taken yet. */
static bool dies(pid_t pid)
{
	char path[64], stat[512];

	for (;;) {
		FILE *f;
		char *state;

		snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
		f = fopen(path, "r");
		if (!f)
			return true;
		state = fgets(stat, sizeof stat, f) ? strrchr(stat, ')') : NULL;
		fclose(f);
		if (!state || state[2] == 'Z' || state[2] == 'X')
			return true;
		sched_yield();
	}
}

static void answers(mf_child *c, const char *line)
{
	mf_buf b = MF_BUF_INIT;
	mf_err err;

	cr_assert_eq(mf_child_read_line(c, &b, LONG_MS, &err), MF_OK, "%s", err.msg);
	cr_expect_str_eq(mf_buf_text(&b), line);
	mf_buf_dispose(&b);
}

Test(child, exit_code_is_reported)
{
	mf_exit e = mf_child_end(shell("exit 7", NULL), LONG_MS);

	cr_expect(e.exited && e.code == 7 && !e.killed);
	e = mf_child_end(shell("kill -9 $$", NULL), LONG_MS);
	cr_expect(!e.exited && e.signal == SIGKILL && !e.killed);
	e = mf_child_end(NULL, 0);
	cr_expect(!e.exited && !e.code && !e.signal);
}

Test(child, lines_go_both_ways)
{
	mf_child *c = shell("while read x; do echo \"got $x\"; done", NULL);
	mf_err err;

	cr_assert_eq(mf_child_write(c, "one\ntwo\n", 8, LONG_MS, &err), MF_OK);
	answers(c, "got one");
	answers(c, "got two");
	cr_expect(mf_child_end(c, LONG_MS).exited);
}

Test(child, long_lines_and_much_input_do_not_block)
{
	size_t n = 3u << 20;
	char *bytes = malloc(n);
	mf_child *c = shell("cat", NULL);
	mf_buf b = MF_BUF_INIT;
	mf_err err;

	memset(bytes, 'x', n);
	bytes[n - 1] = '\n';
	/* cat echoes while we write: both pipes fill unless somebody drains them; a limit ends the wait, not a deadlock. */
	if (mf_child_write(c, bytes, 60000, LONG_MS, &err) == MF_OK &&
		mf_child_write(c, "\n", 1, LONG_MS, &err) == MF_OK)
		cr_expect_eq(mf_child_read_line(c, &b, LONG_MS, &err), MF_OK);
	cr_expect_eq(b.len, 60000);
	cr_expect_eq(mf_child_write(c, bytes, n, 50, &err), MF_EIO);
	cr_expect(strstr(err.msg, "in time") != NULL, "%s", err.msg);
	mf_child_end(c, 0);
	mf_buf_dispose(&b);
	free(bytes);
}

Test(child, end_of_output_carries_its_last_words)
{
	mf_child *c = shell("echo first; echo 'no such luck' >&2; printf half", NULL);
	mf_buf b = MF_BUF_INIT;
	mf_err err;

	answers(c, "first");
	cr_expect_eq(mf_child_read_line(c, &b, LONG_MS, &err), MF_EIO);
	cr_expect(strstr(err.msg, "ended without an answer") != NULL, "%s", err.msg);
	cr_expect_str_eq(err.detail, "no such luck");
	mf_child_end(c, LONG_MS);
	mf_buf_dispose(&b);
}

Test(child, only_the_newest_errors_are_kept)
{
	mf_child *c = shell("i=0; while [ $i -lt 2000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; echo done", NULL);

	answers(c, "done");
	cr_expect(strlen(mf_child_errors(c)) <= 4096);
	mf_child_end(c, LONG_MS);
}

Test(child, closed_input_is_an_error_and_no_signal)
{
	mf_child *c = shell("exec <&-; echo closed; read x <&1", NULL);
	mf_err err;

	signal(SIGPIPE, SIG_DFL);
	answers(c, "closed");
	cr_expect_eq(mf_child_write(c, "x\n", 2, LONG_MS, &err), MF_EIO);
	mf_child_end(c, 0);
}

Test(child, what_cannot_be_started_says_so)
{
	const char *missing[] = {"no-such-program-here", NULL}, *folder[] = {"/nowhere/at-all", NULL};
	char script[] = "/tmp/moefs-test-XXXXXX";
	const char *broken[] = {script, NULL};
	mf_child_opts o = {missing, NULL, NULL};
	mf_child *c = NULL;
	mf_err err;
	int fd = mkstemp(script);

	cr_expect_eq(mf_child_start(&c, &o, &err), MF_EENV);
	cr_expect_str_eq(err.msg, "no-such-program-here is not on PATH");
	o.argv = folder;
	cr_expect_eq(mf_child_start(&c, &o, &err), MF_EENV);
	cr_expect(strstr(err.msg, "/nowhere/at-all") != NULL);
	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, "#!/no/such/interpreter\n", 23), 23);
	fchmod(fd, 0700);
	close(fd);
	o.argv = broken;
	cr_expect_eq(mf_child_start(&c, &o, &err), MF_EENV);
	cr_expect(strstr(err.msg, "cannot start") != NULL && !strchr(err.msg, '\n'), "%s", err.msg);
	cr_expect(c == NULL);
	unlink(script);
}

Test(child, no_descriptors_left_is_said)
{
	const char *argv[] = {"sh", "-c", ":", NULL};
	mf_child_opts o = {argv, NULL, NULL};
	struct rlimit limit, few;
	mf_child *c = NULL;
	mf_err err;
	int next = dup(0);

	close(next);
	getrlimit(RLIMIT_NOFILE, &limit);
	few = limit;
	few.rlim_cur = (rlim_t)next + 3; /* room for one pipe, not for four */
	setrlimit(RLIMIT_NOFILE, &few);
	cr_expect_eq(mf_child_start(&c, &o, &err), MF_EENV);
	setrlimit(RLIMIT_NOFILE, &limit);
	cr_expect(strstr(err.msg, "cannot start") != NULL, "%s", err.msg);
	cr_expect_eq(dup(0), next, "a descriptor was left open");
}

Test(child, limit_and_stop_end_a_wait)
{
	volatile int stop = 0;
	mf_child *c = shell("cat", &stop);
	mf_buf b = MF_BUF_INIT;
	mf_err err;

	cr_expect_eq(mf_child_read_line(c, &b, 1, &err), MF_EIO);
	cr_expect(strstr(err.msg, "in time") != NULL, "%s", err.msg);
	stop = 1;
	cr_expect_eq(mf_child_read_line(c, &b, LONG_MS, &err), MF_ECANCELED);
	cr_expect(mf_child_end(c, LONG_MS).exited);
	mf_buf_dispose(&b);
}

Test(child, one_that_ignores_everything_is_killed)
{
	mf_child *c = shell("trap '' TERM; echo ready; exec sleep 1000", NULL);
	mf_exit e;

	answers(c, "ready");
	e = mf_child_end(c, 1);
	cr_expect(e.killed && !e.exited && e.signal == SIGKILL);
}

Test(child, its_group_goes_with_it)
{
	mf_child *c = shell("sleep 1000 & echo $!", NULL);
	mf_buf b = MF_BUF_INIT;
	mf_err err;
	pid_t left;

	cr_assert_eq(mf_child_read_line(c, &b, LONG_MS, &err), MF_OK);
	left = (pid_t)atoi(mf_buf_text(&b));
	cr_assert(left > 1);
	cr_expect(mf_child_end(c, LONG_MS).exited);
	cr_expect(dies(left));
	mf_buf_dispose(&b);
}

Test(child, it_has_three_descriptors_and_a_group_of_its_own)
{
	char script[256];
	int fd = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
	mf_child *c;

	snprintf(script, sizeof script,
		"if [ -e /proc/self/fd/%d ]; then echo leaked; else echo clean; fi; "
		"set -- $(cat /proc/$$/stat); if [ $5 = $$ ]; then echo own; else echo ours; fi",
		fd);
	c = shell(script, NULL);
	answers(c, "clean");
	answers(c, "own");
	mf_child_end(c, LONG_MS);
	close(fd);
}

Test(child, environment_is_what_is_given)
{
	const char *argv[] = {"sh", "-c", "echo \"$ONE,$HOME\"", NULL}, *env[] = {"ONE=1", NULL};
	mf_child_opts o = {argv, env, NULL};
	mf_child *c = NULL;
	mf_err err;

	cr_assert_eq(mf_child_start(&c, &o, &err), MF_OK);
	answers(c, "1,");
	mf_child_end(c, LONG_MS);
}
