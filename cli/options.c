/* options.c: reading options, help, completion. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "tui.h"

const mf_opt mf_opts[OPT_COUNT] = {
#define X(id, name, value, words, help) {name, value, words, help},
	MF_OPTIONS
#undef X
};

int mf_report(const mf_err *err)
{
	char text[MF_ERR_TEXT_MAX];

	fprintf(stderr, "moefs: %s\n", mf_err_text(err, text));
	if (err->detail[0])
		fprintf(stderr, "%s\n", err->detail);
	return mf_status_exit_code(err->status);
}

static mf_status unknown_option(const mf_command_info *cmd, const char *text, size_t len, mf_err *err)
{
	const char *names[OPT_COUNT + 1], *near;
	char name[64];
	size_t n = 0, i;

	for (i = 0; i < OPT_COUNT; i++)
		if (cmd->options >> i & 1)
			names[n++] = mf_opts[i].name;
	names[n] = NULL;
	snprintf(name, sizeof name, "%.*s", (int)(len < 63 ? len : 63), text);
	near = mf_nearest(name, names);
	if (near)
		return mf_fail(err, MF_EINPUT, "%s has no option --%s; did you mean --%s?", cmd->name, name, near);
	return mf_fail(err, MF_EINPUT, "%s has no option --%s; moefs %s --help lists them", cmd->name, name, cmd->name);
}

mf_status mf_args_parse(mf_args *out, const mf_command_info *cmd, int argc, char **argv, mf_err *err)
{
	int i;

	memset(out, 0, sizeof *out);
	out->words = calloc((size_t)argc + 1, sizeof *out->words);
	if (!out->words)
		return mf_fail(err, MF_ENOMEM, "out of memory");
	for (i = 0; i < argc; i++) {
		const char *text = argv[i], *eq;
		size_t len, id;
		mf_status st = MF_OK;

		if (strcmp(text, "--") == 0) {
			out->has_rest = true;
			out->rest = (const char *const *)(argv + i + 1);
			out->n_rest = (size_t)(argc - i - 1);
			break;
		}
		if (strcmp(text, "-h") == 0)
			text = "--help";
		if (text[0] != '-' || text[1] != '-') {
			if (text[0] == '-' && text[1]) {
				st = mf_fail(err, MF_EINPUT, "unknown option %s; options are long, as in --json", text);
			} else if (!*cmd->synopsis || cmd->synopsis[1] == '-') {
				st = mf_fail(err, MF_EINPUT, "%s takes no argument '%s'; moefs %s --help", cmd->name,
					text, cmd->name);
			} else {
				out->words[out->n_words++] = text;
			}
			if (st < 0)
				goto bad;
			continue;
		}
		text += 2;
		eq = strchr(text, '=');
		len = eq ? (size_t)(eq - text) : strlen(text);
		for (id = 0; id < OPT_COUNT; id++)
			if ((cmd->options >> id & 1) && strlen(mf_opts[id].name) == len &&
				strncmp(mf_opts[id].name, text, len) == 0)
				break;
		if (id == OPT_COUNT)
			st = unknown_option(cmd, text, len, err);
		else if (!mf_opts[id].value && eq)
			st = mf_fail(err, MF_EINPUT, "--%s takes no value", mf_opts[id].name);
		else if (!mf_opts[id].value)
			out->value[id] = "";
		else if (eq)
			out->value[id] = eq + 1;
		else if (i + 1 < argc)
			out->value[id] = argv[++i];
		else
			st = mf_fail(err, MF_EINPUT, "--%s needs a value: %s", mf_opts[id].name, mf_opts[id].value);
		if (st < 0)
			goto bad;
	}
	return MF_OK;
bad:
	mf_args_dispose(out);
	return err ? err->status : MF_EINPUT;
}

void mf_args_dispose(mf_args *a)
{
	free(a->words);
	a->words = NULL;
}

mf_status mf_args_choice(const mf_args *a, mf_opt_id id, const mf_choice *table, int fallback, int *out, mf_err *err)
{
	mf_buf names = MF_BUF_INIT;
	int v;

	*out = fallback;
	if (!a->value[id])
		return MF_OK;
	v = mf_choice_value(table, a->value[id]);
	if (v >= 0) {
		*out = v;
		return MF_OK;
	}
	for (; table->name; table++)
		mf_buf_printf(&names, "%s%s", names.len ? ", " : "", table->name);
	mf_fail(err, MF_EINPUT, "--%s %s: expected one of %s", mf_opts[id].name, a->value[id], mf_buf_text(&names));
	mf_buf_dispose(&names);
	return MF_EINPUT;
}

mf_status mf_args_u64(
	const mf_args *a, mf_opt_id id, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *out, mf_err *err)
{
	const char *text = a->value[id];
	char *end;
	unsigned long long v;

	*out = fallback;
	if (!text)
		return MF_OK;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || v < min || v > max)
		return mf_fail(err, MF_EINPUT, "--%s %s: expected a whole number from %llu to %llu", mf_opts[id].name,
			text, (unsigned long long)min, (unsigned long long)max);
	*out = v;
	return MF_OK;
}

/* ---- help and completion ----------------------------------------------------------------------------------------- */

/* The words an option may take, where its name for the value does not list them. */
static void print_choices(const mf_opt *o)
{
	if (!o->words || o->words[0] == '@' || strchr(o->value, '|') || strcmp(o->words, o->value) == 0)
		return;
	printf(": ");
	for (const char *w = o->words; *w; w++)
		*w == ' ' ? fputs(", ", stdout) : putchar(*w);
}

static void print_option(const mf_opt *o)
{
	char head[64];

	snprintf(head, sizeof head, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
	printf("  %-26s %s", head, o->help);
	print_choices(o);
	putchar('\n');
}

static void print_wrapped(const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column && column + 1 + n > 78) {
			putchar('\n');
			column = 0;
		}
		printf("%s%.*s", column ? " " : "", (int)n, text);
		column += n + (column ? 1 : 0);
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

int mf_cmd_help(const mf_args *a)
{
	const mf_command_info *c;
	size_t i;

	if (a->n_words) {
		for (c = mf_commands; c->name && strcmp(c->name, a->words[0]) != 0; c++)
			;
		if (!c->name) {
			fprintf(stderr, "moefs: no command '%s'; moefs --help lists them\n", a->words[0]);
			return 2;
		}
		printf("usage: moefs %s [options]%s%s\n\n%s.\n", c->name, *c->synopsis ? " " : "", c->synopsis,
			c->help);
		if (*c->more) {
			putchar('\n');
			print_wrapped(c->more);
		}
		printf("\noptions:\n");
		for (i = 0; i < OPT_COUNT; i++)
			if (c->options >> i & 1)
				print_option(&mf_opts[i]);
		printf("\nexample:\n  %s\n", c->example);
		return 0;
	}
	printf("usage: moefs [COMMAND] [options]\n\n"
	       "Finds MoE parallelism plans that can really be built, for Megatron and SGLang.\n\ncommands:\n");
	for (c = mf_commands; c->name; c++)
		printf("  %-12s %s\n", c->name, c->help);
	printf("\nmoefs help COMMAND shows its options. Exit: 0 done; 1 a negative answer; 2 bad usage or\n"
	       "input; 3 the environment lacks something; 4 a bug of ours. See moefs(1), moefs-plan(7).\n");
	return 0;
}

/* Words a completion list expands to: "@kind" stands for the built-in names of a kind. */
static void print_words(const char *words)
{
	const char *const *n;

	if (!words)
		return;
	if (strcmp(words, "@toolchains") == 0) {
		for (const mf_choice *c = mf_toolchain_choices; c->name; c++)
			printf("%s%s", c == mf_toolchain_choices ? "" : " ", c->name);
	} else if (strcmp(words, "@themes") == 0) {
		for (n = mf_theme_names; *n; n++)
			printf("%s%s", n == mf_theme_names ? "" : " ", *n);
	} else if (words[0] == '@') {
		n = mf_builtin_names(words + 1);
		for (size_t i = 0; n && n[i]; i++)
			printf("%s%s", i ? " " : "", n[i]);
	} else {
		fputs(words, stdout);
	}
}

static void print_bash(void)
{
	const mf_command_info *c;
	size_t i;

	printf("# bash completion for moefs; print it with: moefs completion bash\n_moefs() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=tui w\n"
	       "\tfor w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\t\tcase $w in\n\t\t");
	for (c = mf_commands; c->name; c++)
		printf("%s%s", c == mf_commands ? "" : "|", c->name);
	printf(") cmd=$w; break;;\n\t\tesac\n\tdone\n\tcase $prev in\n");
	for (i = 0; i < OPT_COUNT; i++) {
		if (!mf_opts[i].value)
			continue;
		printf("\t--%s) COMPREPLY=($(compgen -W '", mf_opts[i].name);
		print_words(mf_opts[i].words);
		printf("'%s -- \"$cur\")); return;;\n",
			strcmp(mf_opts[i].value, "DIR") == 0 || strcmp(mf_opts[i].value, "FOLDER") == 0 ? " -d"
			: strstr(mf_opts[i].value, "PATH") || strstr(mf_opts[i].value, "FILE")          ? " -f"
													: "");
	}
	printf("\tesac\n\tif [ \"$COMP_CWORD\" -eq 1 ] && [[ $cur != -* ]]; then\n\t\tCOMPREPLY=($(compgen -W '");
	for (c = mf_commands; c->name; c++)
		printf("%s ", c->name);
	printf("' -- \"$cur\"))\n\t\treturn\n\tfi\n\tcase $cmd in\n");
	for (c = mf_commands; c->name; c++) {
		printf("\t%s) COMPREPLY=($(compgen -W '", c->name);
		for (i = 0; i < OPT_COUNT; i++)
			if (c->options >> i & 1)
				printf("--%s ", mf_opts[i].name);
		if (strcmp(c->name, "model") == 0)
			print_words("@models");
		if (strcmp(c->name, "cluster") == 0)
			print_words("@clusters");
		if (strcmp(c->name, "completion") == 0)
			printf("bash man1 man5 man7");
		if (strcmp(c->name, "help") == 0)
			for (const mf_command_info *h = mf_commands; h->name; h++)
				printf("%s ", h->name);
		printf("' -f -- \"$cur\"));;\n");
	}
	printf("\tesac\n}\ncomplete -F _moefs moefs\n");
}

/* roff text: a leading dot or quote and every hyphen and backslash need care. */
static void print_roff(const char *text)
{
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
	}
}

static void print_roff_item(const char *head, const char *text)
{
	printf(".TP\n.B ");
	print_roff(head);
	putchar('\n');
	print_roff(text);
	putchar('\n');
}

/* What the terminal program can do: the same table its help, its ':' line and its completion read. */
static void print_man_keys(void)
{
	const char *group = "";

	printf(".SH KEYS\n");
	for (const mf_tui_key *k = mf_tui_keys; k->name; k++) {
		char head[160];

		if (strcmp(group, k->group) != 0)
			printf(".SS %s\n", group = k->group);
		snprintf(head, sizeof head, "%s%s:%s%s%s", k->keys, k->keys[0] ? ", " : "", k->name,
			k->argument[0] ? " " : "", k->argument);
		print_roff_item(head, k->help);
	}
}

static void print_man(void)
{
	const mf_command_info *c;
	size_t i;

	printf(".SH COMMANDS\n");
	for (c = mf_commands; c->name; c++) {
		printf(".SS %s\n", c->name);
		print_roff(c->help);
		printf(".\n");
		print_roff(c->more);
		printf("\n.PP\nOptions:");
		for (i = 0; i < OPT_COUNT; i++)
			if (c->options >> i & 1) {
				printf(" ");
				print_roff("--");
				print_roff(mf_opts[i].name);
			}
		printf(".\n.PP\nExample: \\fB");
		print_roff(c->example);
		printf("\\fR\n");
	}
	printf(".SH OPTIONS\n");
	for (i = 0; i < OPT_COUNT; i++) {
		printf(".TP\n\\fB\\-\\-");
		print_roff(mf_opts[i].name);
		printf("\\fR");
		if (mf_opts[i].value) {
			printf(" \\fI");
			print_roff(mf_opts[i].value);
			printf("\\fR");
		}
		printf("\n");
		print_roff(mf_opts[i].help);
		print_choices(&mf_opts[i]);
		printf(".\n");
	}
	print_man_keys();
}

/* moefs-plan(7): the dimensions of a plan with their words. */
static void print_man_plan(void)
{
	printf(".SH DIMENSIONS\n");
	for (const mf_plan_dim *d = mf_plan_dims; d->name; d++) {
		print_roff_item(d->segment, d->help);
		printf("(%s)", d->phases == 1u << MF_TRAIN   ? "training"
			       : d->phases == 1u << MF_SERVE ? "serving"
							     : "both phases");
		if (d->choices) {
			printf(" one of");
			for (const mf_choice *c = d->choices; c->name; c++) {
				putchar(' ');
				print_roff(c->name);
			}
		}
		putchar('\n');
	}
}

/* moefs-overlay(5): the constants an overlay may set. */
static void print_man_overlay(void)
{
	printf(".SH CONSTANTS\n");
	for (size_t i = 0; i < MF_CONST_COUNT; i++) {
		char text[256];

		snprintf(text, sizeof text, "unit %s; factory value from: %s", mf_const_infos[i].unit,
			mf_const_infos[i].source);
		print_roff_item(mf_const_infos[i].name, text);
	}
}

int mf_cmd_completion(const mf_args *a)
{
	static const struct {
		const char *word;
		void (*print)(void);
	} kinds[] = {{"bash", print_bash}, {"man1", print_man}, {"man5", print_man_overlay}, {"man7", print_man_plan}};

	for (size_t i = 0; i < MF_COUNT(kinds); i++)
		if (a->n_words == 1 && strcmp(a->words[0], kinds[i].word) == 0) {
			kinds[i].print();
			return 0;
		}
	fprintf(stderr, "moefs: completion: say what for: bash, man1, man5 or man7\n");
	return 2;
}
