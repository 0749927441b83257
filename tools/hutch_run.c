/* hutch_run.c - hutch run: one command, as if it ran here
 *
 *	a sandbox: BOX, or a new one
 *	a node: the request is written to its exec/new, which answers with the name
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
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/hutch_relay.h"

struct run {
	struct hutch_root root;
	char **argv; /* of the command; borrowed, NULL at its end */
	bool stdin_null;
	bool throw_away;             /* the sandbox is ours */
	char box[NAME_MAX_LEN + 1];  /* "": none yet */
	char node[NAME_MAX_LEN + 1]; /* "": none yet */
	int box_fd, node_fd;         /* owned; -1: none */
};

static const struct option_def run_defs[] = {
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_run_options = { "hutch run", run_defs, ARRAY_SIZE(run_defs), true };

/* ---- the sandbox and the node ---- */

/* Writes to a node that answers with a name on the same handle. 0 or a negative errno. */
static int ask_for_name(int dirfd, const char *path, const struct buf *text,
			char name[NAME_MAX_LEN + 1])
{
	auto_close int fd = openat(dirfd, path, O_RDWR | O_CLOEXEC);
	char answer[NAME_MAX_LEN + 2];
	size_t len = 0;
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, text->data, text->len);
	if (r < 0)
		return r;
	while (len < sizeof(answer) && (len == 0 || answer[len - 1] != '\n')) {
		ssize_t n = read(fd, answer + len, sizeof(answer) - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		len += (size_t)n;
	}
	if (answer[len - 1] != '\n')
		return -EPROTO;
	answer[len - 1] = '\0';
	if (!name_valid(answer))
		return -EPROTO;
	memcpy(name, answer, len);
	return 0;
}

static int enter_box(struct run *run, struct err *err)
{
	auto_buf struct buf blank = { 0 };
	int r;

	if (run->throw_away) {
		if (buf_add(&blank, "\n", 1) < 0)
			return err_set(err, ENOMEM, "make a sandbox");
		r = ask_for_name(run->root.fd, "new", &blank, run->box);
		if (r == -EACCES)
			return err_say(err, EACCES, "make a sandbox: %s/new is not open to you",
				       run->root.path);
		if (r < 0)
			return hutch_refused(&run->root, -r, "make a sandbox", err);
	}
	run->box_fd = hutch_box_open(&run->root, run->box, err);
	return run->box_fd < 0 ? run->box_fd : 0;
}

/* {"cmd":[...]} and what the command's stdin is. */
static int print_request(const struct run *run, struct buf *buf, struct err *err)
{
	int r = buf_printf(buf, "{\"cmd\":[");

	for (int i = 0; run->argv[i] && r == 0; i++) {
		const char *arg = run->argv[i];

		if (!utf8_valid(arg, strlen(arg)))
			return err_say(
				err, EILSEQ,
				"argument %d of the command is not UTF-8, which a request in "
				"JSON cannot carry: write it as a script to %s/%s/exec/new",
				i, run->root.path, run->throw_away ? "ID" : run->box);
		if (i > 0)
			r = buf_add(buf, ",", 1);
		if (r == 0)
			r = json_put_string(buf, arg, strlen(arg));
	}
	if (r == 0)
		r = buf_printf(buf, "]%s}\n", run->stdin_null ? ",\"stdin\":\"null\"" : "");
	return r < 0 ? err_set(err, -r, "the request") : 0;
}

static int make_node(struct run *run, const struct buf *request, struct err *err)
{
	char path[sizeof("exec/") + NAME_MAX_LEN];
	char what[sizeof("start '' in sandbox ''") + 2 * NAME_MAX_LEN];
	int r;

	(void)snprintf(what, sizeof(what), "start '%.*s' in sandbox '%s'", NAME_MAX_LEN,
		       run->argv[0], run->box);
	r = ask_for_name(run->box_fd, "exec/new", request, run->node);
	if (r < 0)
		return hutch_refused(&run->root, -r, what, err);
	(void)snprintf(path, sizeof(path), "exec/%s", run->node);
	run->node_fd = openat(run->box_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return run->node_fd < 0 ? err_set(err, errno, "%s: open '%s'", what, path) : 0;
}

/* Somebody else, or the end of its hutchd, may have been faster. */
static void remove_node(int dirfd, const char *path, const char *what)
{
	if (unlinkat(dirfd, path, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ESTALE &&
	    errno != ENOTCONN && errno != ECONNABORTED)
		hutch_warn("remove %s '%s': %s", what, path, strerror(errno));
}

static void leave(struct run *run)
{
	char path[sizeof("exec/") + NAME_MAX_LEN];

	close_auto(&run->node_fd);
	(void)snprintf(path, sizeof(path), "exec/%s", run->node);
	if (run->throw_away && *run->box)
		remove_node(run->root.fd, run->box, "sandbox");
	else if (*run->node)
		remove_node(run->box_fd, path, run->box);
	close_auto(&run->box_fd);
}

/* ---- the result ---- */

static const char *member(const cJSON *result, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(result, key));

	return s ? s : "";
}

/* What the exit status alone does not tell: the command did not end by itself. */
static void explain(const struct run *run, const struct relay_outcome *outcome)
{
	static const struct {
		const char *reason, *text;
	} texts[] = {
		{ "timed_out", "it ran into its time limit and was killed" },
		{ "oom_killed", "it ran out of memory and was killed" },
		{ "lost", "what became of it is not known" },
		{ "failed", "it could not be started" },
		{ "killed", "it was killed" },
	};
	char text[16 * 1024];
	auto_buf struct buf error = { 0 };
	AUTO(cJSON_Delete) cJSON *result = NULL;
	const char *reason, *why;

	if (hutch_read_text(run->node_fd, "result.json", text, sizeof(text)) < 0) {
		hutch_warn("run: '%s': it was killed, since %s/%s/exec/%s was removed",
			   run->argv[0], run->root.path, run->box, run->node);
		return;
	}
	result = cJSON_Parse(text);
	reason = member(result, "reason");
	why = member(result, "error");
	if (outcome->killed && strcmp(reason, "killed") == 0)
		return;
	if (*why && text_escape(&error, why, strlen(why)) == 0) {
		hutch_warn("run: %s", error.data);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i].reason, reason) == 0)
			hutch_warn("run: '%s': %s", run->argv[0], texts[i].text);
}

/* As a program that was not prepared for the signal would end. */
static int end_by_sigpipe(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	if (signal(SIGPIPE, SIG_DFL) != SIG_ERR && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0)
		(void)raise(SIGPIPE);
	return 128 + SIGPIPE;
}

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
	struct hutch_common common = { 0 };
	int r = hutch_options(cmd, dashes, argv, &common, err);

	if (r <= 0)
		return r;
	if (!argv[dashes])
		return hutch_misused(cmd, err, "there is no '--' before the command");
	if (r + 1 < dashes)
		return hutch_misused(cmd, err, "more than one sandbox before the '--'");
	if (!argv[dashes + 1])
		return hutch_misused(cmd, err, "there is no command behind the '--'");
	run->argv = argv + dashes + 1;
	run->throw_away = r == dashes;
	if (run->throw_away)
		return 1;
	if (name_fault(argv[r]))
		return err_say(err, EINVAL, "sandbox '%s': %s", argv[r], name_fault(argv[r]));
	(void)snprintf(run->box, sizeof(run->box), "%s", argv[r]);
	return 1;
}

/* An exit status, or a negative errno. */
static int run_command(struct run *run, struct relay_outcome *outcome, struct err *err)
{
	auto_buf struct buf request = { 0 };
	auto_close int signals = -1;
	int r = print_request(run, &request, err);

	if (r < 0)
		return r;
	signals = relay_signals(err);
	if (signals < 0)
		return signals;
	r = enter_box(run, err);
	if (r == 0)
		r = make_node(run, &request, err);
	if (r == 0)
		r = relay_run(run->node_fd, signals, !run->stdin_null, outcome, err);
	if (r == -ENOTCONN || r == -ECONNABORTED)
		return err_say(err, -r, "the hutchd of %s has died, and the command with it",
			       run->root.path);
	if (r < 0)
		return r;
	if (outcome->how == RELAY_RESULT && outcome->code >= 124)
		explain(run, outcome);
	return outcome->code;
}

int hutch_run(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct run run = { .box_fd = -1, .node_fd = -1, .stdin_null = stdin_is_null() };
	struct relay_outcome outcome = { 0 };
	int dashes = 1, r;

	while (dashes < argc && strcmp(argv[dashes], "--") != 0)
		dashes++;
	r = take_operands(cmd, &run, dashes, argv, err);
	if (r <= 0)
		return r;
	r = hutch_root_open(&run.root, err);
	if (r < 0)
		return r;
	r = run_command(&run, &outcome, err);
	leave(&run);
	hutch_root_done(&run.root);
	return outcome.how == RELAY_PIPE_CLOSED ? end_by_sigpipe() : r;
}
