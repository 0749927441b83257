/* hutch_run.c - hutch run: one command, as if it ran here
 *
 *	a sandbox: BOX, or a new one
 *	a node: the request is written to its exec/new, which answers with the name
 *	(both: hutch_node.c)
 *	the relay (hutch_relay.c), until there is a result
 *	the node is removed, and the sandbox if it is ours
 *
 * From the first step on, the signals that would end this process come through a
 * descriptor instead, so that the last step is always reached.
 */
#include "tools/hutch.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "tools/hutch_relay.h"
#include "tools/hutch_start.h"

struct run {
	struct hutch_start start; /* first */
	bool stdin_null;
};

/* ---- options ---- */

static const struct option_def run_defs[] = {
	HUTCH_OPTIONS_START,
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_run_options = { "hutch run", run_defs, ARRAY_SIZE(run_defs), false };

/* ---- the command ---- */

static bool stdin_is_null(void)
{
	struct stat st;
	int flags = fcntl(STDIN_FILENO, F_GETFL);

	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || fstat(STDIN_FILENO, &st) < 0)
		return true;
	return S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* [BOX] -- COMMAND...; `dashes` is the index of the "--". */
static int take_operands(const struct hutch_command *cmd, struct run *run, int dashes, char **argv,
			 struct err *err)
{
	int r = hutch_options(cmd, dashes, argv, run, err);

	if (r <= 0)
		return r;
	if (!argv[dashes])
		return hutch_misused(cmd, err, "there is no '--' before the command");
	if (r + 1 < dashes)
		return hutch_misused(cmd, err, "more than one sandbox before the '--'");
	if (!argv[dashes + 1])
		return hutch_misused(cmd, err, "there is no command behind the '--'");
	r = hutch_start_operands(&run->start, r < dashes ? argv[r] : NULL,
				 (const char *const *)argv + dashes + 1, err);
	return r < 0 ? r : 1;
}

/* An exit status, or a negative errno. */
static int run_command(struct run *run, struct relay_outcome *outcome, struct err *err)
{
	struct hutch_start *s = &run->start;
	AUTO(cJSON_Delete) cJSON *request = hutch_start_request(s, err);
	auto_close int signals = -1;
	int r;

	if (!request)
		return -err->code;
	if (run->stdin_null && !cJSON_AddStringToObject(request, "stdin", "null"))
		return err_set(err, ENOMEM, "the request");
	signals = relay_signals(false, err);
	if (signals < 0)
		return signals;
	r = hutch_start_box(s, err);
	if (r == 0)
		r = hutch_node_start(&s->node, request, s->argv[0], err);
	if (r == 0) {
		const struct relay_plan plan = { .node = s->node.fd,
						 .signals = signals,
						 .forward_stdin = !run->stdin_null };

		r = relay_run(&plan, outcome, err);
	}
	if (r < 0)
		return hutch_start_sentence(s, r, err);
	if (outcome->how == RELAY_RESULT && outcome->code >= 124)
		hutch_start_explain(s, outcome);
	return outcome->code;
}

int hutch_run(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct run run = { .stdin_null = stdin_is_null() };
	struct relay_outcome outcome = { 0 };
	int dashes = 1, r;

	while (dashes < argc && strcmp(argv[dashes], "--") != 0)
		dashes++;
	hutch_start_init(&run.start, cmd->name);
	r = take_operands(cmd, &run, dashes, argv, err);
	if (r > 0)
		r = hutch_root_open(&run.start.root, err);
	if (r == 0 && run.start.root.fd >= 0)
		r = run_command(&run, &outcome, err);
	hutch_start_done(&run.start);
	return outcome.how == RELAY_PIPE_CLOSED ? hutch_end_by_signal(SIGPIPE) : r;
}
