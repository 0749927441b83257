/* hutch_shell.c - hutch shell: this terminal becomes one in a sandbox
 *
 * As hutch run, but that the command has a terminal (`pty` of its request), and that
 * ours is raw meanwhile: every key goes inside, Ctrl-C and Ctrl-Z too, and what comes
 * out is shown as it is.  Ours is put back however that ends: all signals that could
 * end this process come through a descriptor, and a tree that has died is an error of
 * a read.  Only SIGKILL leaves it raw.
 *
 * Stopped (~^Z, or SIGTSTP from elsewhere) it puts the terminal back for the shell
 * that it was started by, and takes it again when it is continued.
 */
#include "tools/hutch.h"

#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "tools/hutch_keys.h"
#include "tools/hutch_start.h"

struct shell {
	struct hutch_start start; /* first */
	struct relay_typing typing;
	struct hutch_keys keys;
	struct termios was; /* of our terminal */
	bool raw;
};

static const struct option_def shell_defs[] = {
	HUTCH_OPTIONS_START,
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_shell_options = { "hutch shell", shell_defs, ARRAY_SIZE(shell_defs),
						false };

static const char *const default_argv[] = { "sh", "-c",
					    "command -v bash >/dev/null 2>&1 && exec bash; exec sh",
					    NULL };

/* ---- our terminal ---- */

/* In the background the kernel stops us here, as it should, until we are in front. */
static int terminal_take(struct shell *sh)
{
	struct termios raw = sh->was;

	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
		return -errno;
	sh->raw = true;
	return 0;
}

static void terminal_put_back(struct shell *sh)
{
	if (sh->raw)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &sh->was);
	sh->raw = false;
}

/* False: it has none, or does not say. */
static bool terminal_size(unsigned *rows, unsigned *cols)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
		return false;
	*rows = size.ws_row;
	*cols = size.ws_col;
	return true;
}

static void resize(const struct shell *sh)
{
	unsigned rows, cols;
	char line[64];

	if (!terminal_size(&rows, &cols))
		return;
	(void)snprintf(line, sizeof(line), "winsize %u %u\n", rows, cols);
	(void)hutch_write_text(sh->start.node.fd, "ctl", line); /* it may be over */
}

static void come_back(struct shell *sh)
{
	(void)terminal_take(sh);
	resize(sh);
}

/* Stops `whom`, as kill(2) names it, as a terminal would: so not where nobody is left who could let
 * it go on, as in a window of its own. */
static void suspend(struct shell *sh, pid_t whom)
{
	sigset_t set;

	terminal_put_back(sh);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	(void)kill(whom, SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* here it stops */
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	/* In front we may have been given another terminal to put back; else its modes are not for us. */
	if (tcgetpgrp(STDIN_FILENO) == getpgrp())
		(void)tcgetattr(STDIN_FILENO, &sh->was);
	come_back(sh);
}

/* ---- what is typed, and signals ---- */

static void show_help(void)
{
	auto_buf struct buf text = { 0 };

	if (hutch_keys_help(&text) == 0)
		(void)write_all(STDERR_FILENO, text.data, text.len);
}

static bool on_key(struct hutch_keys *keys, enum hutch_key key)
{
	struct shell *sh = container_of(keys, struct shell, keys);

	switch (key) {
	case HUTCH_KEY_END:
		return false;
	case HUTCH_KEY_SUSPEND:
		suspend(sh, 0); /* those who were started with us too: it is their terminal */
		break;
	case HUTCH_KEY_HELP:
		show_help();
		break;
	}
	return true;
}

static size_t on_typed(struct relay_typing *typing, char *to, const char *from, size_t len,
		       bool *end)
{
	struct shell *sh = container_of(typing, struct shell, typing);

	return hutch_keys_take(&sh->keys, to, from, len, end);
}

static bool on_signal(struct relay_typing *typing, int sig)
{
	struct shell *sh = container_of(typing, struct shell, typing);

	if (sig == SIGWINCH)
		resize(sh);
	else if (sig == SIGTSTP)
		suspend(sh, getpid());
	else if (sig == SIGCONT)
		come_back(sh);
	else
		return false;
	return true;
}

/* ---- the command ---- */

/* [BOX] [-- COMMAND...]; `dashes` is the index of the "--", or behind the last word. */
static int take_operands(const struct hutch_command *cmd, struct shell *sh, int dashes, char **argv,
			 struct err *err)
{
	const char *const *command = default_argv;
	int r = hutch_options(cmd, dashes, argv, sh, err);

	if (r <= 0)
		return r;
	if (r + 1 < dashes)
		return hutch_misused(cmd, err,
				     "more than one sandbox: a command stands behind '--'");
	if (argv[dashes] && !argv[dashes + 1])
		return hutch_misused(cmd, err, "there is no command behind the '--'");
	if (argv[dashes])
		command = (const char *const *)argv + dashes + 1;
	r = hutch_start_operands(&sh->start, r < dashes ? argv[r] : NULL, command, err);
	if (r < 0)
		return r;
	if (tcgetattr(STDIN_FILENO, &sh->was) < 0)
		return err_say(err, ENOTTY,
			       "shell: standard input is no terminal; without one: hutch run");
	return 1;
}

/* A sandbox's defaults for its commands may say otherwise of their stdio. */
static int ask_for_terminal(cJSON *request, struct err *err)
{
	static const char *const stdio[] = { "stdin", "stdout", "stderr" };
	cJSON *pty = cJSON_AddObjectToObject(request, "pty");
	const char *term = getenv("TERM");
	unsigned rows, cols;
	bool ok = pty;

	for (size_t i = 0; i < ARRAY_SIZE(stdio); i++)
		ok = ok && cJSON_AddStringToObject(request, stdio[i], "pipe");
	if (ok && term && *term)
		ok = cJSON_AddStringToObject(pty, "term", term);
	if (ok && terminal_size(&rows, &cols))
		ok = cJSON_AddNumberToObject(pty, "rows", rows) &&
		     cJSON_AddNumberToObject(pty, "cols", cols);
	return ok ? 0 : err_set(err, ENOMEM, "the request");
}

static int relay(struct shell *sh, int signals, struct relay_outcome *outcome, struct err *err)
{
	const struct relay_plan plan = { .node = sh->start.node.fd,
					 .signals = signals,
					 .forward_stdin = true,
					 .typing = &sh->typing };
	int r = terminal_take(sh);

	if (r < 0)
		return err_set(err, -r, "make the terminal raw");
	resize(sh); /* it may have changed since the request */
	r = relay_run(&plan, outcome, err);
	terminal_put_back(sh);
	if (outcome->in_line && (r < 0 || outcome->how != RELAY_RESULT || outcome->code >= 124))
		(void)!write(STDERR_FILENO, "\n", 1); /* for what is said behind it */
	return r;
}

/* An exit status, or a negative errno. */
static int run_shell(struct shell *sh, struct relay_outcome *outcome, struct err *err)
{
	struct hutch_start *s = &sh->start;
	AUTO(cJSON_Delete) cJSON *request = hutch_start_request(s, err);
	auto_close int signals = -1;
	int r;

	if (!request)
		return -err->code;
	signals = relay_signals(true, err);
	if (signals < 0)
		return signals;
	r = ask_for_terminal(request, err);
	if (r == 0)
		r = hutch_start_box(s, err);
	if (r == 0)
		r = hutch_node_start(&s->node, request, s->argv[0], err);
	if (r == 0)
		r = relay(sh, signals, outcome, err);
	if (r < 0)
		return hutch_start_sentence(s, r, err);
	if (outcome->how == RELAY_RESULT && outcome->code >= 124)
		hutch_start_explain(s, outcome);
	return outcome->code;
}

int hutch_shell(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct shell sh = { .typing = { on_typed, on_signal }, .keys = { .pressed = on_key } };
	struct relay_outcome outcome = { 0 };
	int dashes = 1, r;

	while (dashes < argc && strcmp(argv[dashes], "--") != 0)
		dashes++;
	hutch_start_init(&sh.start, cmd->name);
	r = take_operands(cmd, &sh, dashes, argv, err);
	if (r > 0)
		r = hutch_root_open(&sh.start.root, err);
	if (r == 0 && sh.start.root.fd >= 0)
		r = run_shell(&sh, &outcome, err);
	hutch_start_done(&sh.start);
	return outcome.how == RELAY_PIPE_CLOSED ? hutch_end_by_signal(SIGPIPE) : r;
}
