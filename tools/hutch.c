/* hutch.c - the command line for people: which command, its options, its help */
#include "tools/hutch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

#ifndef HUTCH_VERSION
#define HUTCH_VERSION "unknown"
#endif

static const struct hutch_command commands[] = {
	{ "cp", "SRC DST", HUTCH_OPERAND_COPY, "copy files into a sandbox, or out of it",
	  "One of the two is BOX:PATH. A directory is copied with all that is in it; DST that is "
	  "a\n"
	  "directory gets it under its own name, SRC/. means what is in it. Modes and times are\n"
	  "kept, owners, setuid bits and devices are not. Nothing outside DST is ever written.\n"
	  "\n"
	  "Exit status: 0; 125 if anything could not be copied.\n",
	  &hutch_cp_options, hutch_cp },
	{ "doctor", "", HUTCH_OPERAND_NONE, "say what this machine offers, and what is missing",
	  "Each line is ok, missing, or a note on what costs something.\n"
	  "\n"
	  "Exit status: 0 if everything that is needed is there, else 1; 125 if hutch failed.\n",
	  &hutch_doctor_options, hutch_doctor },
	{ "events", "[BOX]", HUTCH_OPERAND_BOX, "show what happened to the sandboxes",
	  "A line is TIME, BOX or BOX/COMMAND, and the event; tabs stand between them when the\n"
	  "output is not a terminal.\n",
	  &hutch_events_options, hutch_events },
	{ "kill", "BOX[/COMMAND]...", HUTCH_OPERAND_EXECS, "end commands, or signal them",
	  "BOX is every command in it; the sandbox runs on. Without -s every process that the\n"
	  "command started is killed.\n"
	  "\n"
	  "Exit status: 0, also if it had ended already; 125 if it failed for one of them.\n",
	  &hutch_kill_options, hutch_kill },
	{ "logs", "BOX[/COMMAND]", HUTCH_OPERAND_EXEC, "show what a command wrote",
	  "Its standard output goes to standard output, its errors to standard error. BOX is\n"
	  "your last command there. Without -f it is what there is by now.\n",
	  &hutch_logs_options, hutch_logs },
	{ "ls", "", HUTCH_OPERAND_NONE, "list the sandboxes that you may enter",
	  "The columns are ID, STATE, OWNER and COMMANDS (running/all). When the output is\n"
	  "not a terminal there is no header, and tabs stand between the columns.\n",
	  &hutch_ls_options, hutch_ls },
	{ "ps", "[BOX]", HUTCH_OPERAND_BOX, "list commands, also those that have ended",
	  "The columns are BOX, NAME, STATUS, AGE (since it was started) and COMMAND. When the\n"
	  "output is not a terminal there is no header, and tabs stand between the columns.\n",
	  &hutch_ps_options, hutch_ps },
	{ "rm", "BOX[/COMMAND]...", HUTCH_OPERAND_EXECS, "remove sandboxes, or commands",
	  "What still runs is not removed without -f.\n"
	  "\n"
	  "Exit status: 0; 125 if one of them could not be removed.\n",
	  &hutch_rm_options, hutch_rm },
	{ "run", "[BOX] -- COMMAND [ARGUMENT...]", HUTCH_OPERAND_RUN,
	  "run a command with this terminal's streams",
	  "Without BOX it runs in a sandbox of its own, which is removed at the end. The '--'\n"
	  "is always needed. COMMAND is not read by a shell: hutch run -- sh -c 'a | b'.\n"
	  "\n"
	  "Exit status: the command's own; 128 + n if signal n ended it; 124 if its time was\n"
	  "over; 126 or 127 if it could not be started; 125 if hutch failed.\n",
	  &hutch_run_options, hutch_run },
	{ "shell", "[BOX] [-- COMMAND [ARGUMENT...]]", HUTCH_OPERAND_RUN,
	  "work in a sandbox at this terminal",
	  "COMMAND is a shell, unless you say otherwise. Without BOX it is in a sandbox of its\n"
	  "own, which is removed at the end. Every key goes inside, Ctrl-C and Ctrl-Z too; at the\n"
	  "beginning of a line ~. kills the command and leaves, ~^Z stops hutch, ~? shows this.\n"
	  "\n"
	  "Exit status: as that of run; 137 after ~. .\n",
	  &hutch_shell_options, hutch_shell },
};

int hutch_take_help(void *obj, const char *value, struct err *err)
{
	struct hutch_common *common = obj;

	(void)value;
	(void)err;
	common->help = true;
	return 0;
}

static void show_help(const struct hutch_command *cmd)
{
	printf("usage: hutch %s [OPTION...]%s%s\n\n%c%s.\n%s\nOptions:\n", cmd->name,
	       *cmd->operands ? " " : "", cmd->operands, cmd->doc[0] - 'a' + 'A', cmd->doc + 1,
	       cmd->text);
	options_help(cmd->options, stdout);
}

static void show_commands(FILE *out)
{
	(void)fprintf(out, "usage: hutch COMMAND ...\n\nRuns commands in the sandboxes of hutchd, "
			   "through its tree of files.\n\nCommands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		(void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].doc);
	(void)fprintf(out,
		      "  %-10s %s\n\nThe tree is looked for where $HUTCH says, else at /run/hutch "
		      "(root) or\n$XDG_RUNTIME_DIR/hutch (others). See also hutch(1), hutch(5).\n",
		      "help", "say more about a command: hutch help COMMAND");
}

int hutch_options(const struct hutch_command *cmd, int argc, char **argv, void *obj,
		  struct err *err)
{
	const struct hutch_common *common = obj;
	int r = options_parse(cmd->options, argc, argv, obj, err);

	if (r < 0 || !common->help)
		return r;
	show_help(cmd);
	return 0;
}

int hutch_each(const struct hutch_command *cmd, char **words,
	       int (*one)(const struct hutch_root *, const char *word, const void *opt,
			  struct err *),
	       const void *opt, struct err *err)
{
	struct hutch_root root;
	int status = 0, r;

	if (!*words)
		return hutch_misused(cmd, err, "which sandbox or command?");
	r = hutch_root_open(&root, err);
	if (r < 0)
		return r;
	for (; *words; words++) {
		struct err why = { 0 };

		if (one(&root, *words, opt, &why) < 0) {
			hutch_warn("%s", why.msg);
			status = HUTCH_EXIT_FAILED;
		}
	}
	hutch_root_done(&root);
	return status;
}

int hutch_misused(const struct hutch_command *cmd, struct err *err, const char *what)
{
	return err_say(err, EINVAL, "%s: %s (try 'hutch help %s')", cmd->name, what, cmd->name);
}

void hutch_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fputs("hutch: ", stderr);
	(void)vfprintf(stderr, fmt, ap);
	(void)fputc('\n', stderr);
	va_end(ap);
}

int hutch_end_by_signal(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	if (signal(sig, SIG_DFL) != SIG_ERR && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0)
		(void)raise(sig);
	return 128 + sig;
}

static const struct hutch_command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

struct app {
	struct hutch_common common;
	bool version;
};

OPTION_FLAG(take_version, struct app, version)

static const struct option_def app_defs[] = {
	HUTCH_OPTION_HELP,
	{ "version", 'V', NULL, take_version, "show the version" },
};
static const struct option_set app_options = { "hutch", app_defs, ARRAY_SIZE(app_defs), true };

/* An exit status, or a negative errno with a sentence. */
static int dispatch(int argc, char **argv, struct err *err)
{
	struct app app = { 0 };
	const struct hutch_command *cmd;
	bool help;
	int at = options_parse(&app_options, argc, argv, &app, err);

	if (at < 0)
		return at;
	if (app.version) {
		puts("hutch " HUTCH_VERSION);
		return 0;
	}
	if (app.common.help || (at < argc && strcmp(argv[at], "help") == 0 && at + 1 == argc)) {
		show_commands(stdout);
		puts("\nOptions:");
		options_help(&app_options, stdout);
		return 0;
	}
	if (at == argc) {
		show_commands(stderr);
		return HUTCH_EXIT_FAILED;
	}
	if (strcmp(argv[at], "__complete") == 0)
		return hutch_complete(commands, ARRAY_SIZE(commands), argc - at - 1, argv + at + 1);
	help = strcmp(argv[at], "help") == 0;
	at += help;
	cmd = find(argv[at]);
	if (!cmd)
		return err_say(err, EINVAL, "'%s' is no command (try 'hutch --help')", argv[at]);
	if (help && at + 1 < argc)
		return err_say(err, EINVAL, "help: it takes one command (try 'hutch --help')");
	if (!help)
		return cmd->run(cmd, argc - at, argv + at, err);
	show_help(cmd);
	return 0;
}

/* A descriptor of 0-2 that is closed would be given to the next file that is opened.  Opened the
 * wrong way round, so that using it fails as using a closed one does. */
static int occupy_stdio(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	int r;

	if (occupy_stdio() < 0)
		return HUTCH_EXIT_FAILED;
	r = dispatch(argc, argv, &err);
	if (r < 0) {
		hutch_warn("%s", err.msg);
		return HUTCH_EXIT_FAILED;
	}
	if (fflush(stdout) < 0 || ferror(stdout)) {
		hutch_warn("write to standard output: %s", strerror(errno));
		return HUTCH_EXIT_FAILED;
	}
	return r;
}
