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
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "tools/hutch_node.h"
#include "tools/hutch_relay.h"

struct run {
	struct hutch_common common; /* first */
	struct hutch_root root;
	const char *const *argv; /* of the command; borrowed, NULL at its end */
	const char *box;         /* borrowed; NULL: a throw-away one */
	cJSON *env, *mounts;     /* owned; NULL: none */
	const char *cwd, *user;  /* borrowed; NULL: the sandbox's */
	double timeout_s;        /* 0: not given */
	bool stdin_null;
	struct hutch_node node;
};

/* ---- options ---- */

static int check_text(const char *value, struct err *err)
{
	if (!utf8_valid(value, strlen(value)))
		return err_say(err, EILSEQ, "is not UTF-8, which a request in JSON cannot carry");
	return 0;
}

/* K=V, or K: as it is here. The last one counts. */
static int take_env(void *obj, const char *value, struct err *err)
{
	struct run *run = obj;
	size_t len = strcspn(value, "=");
	auto_free char *name = strndup(value, len);
	const char *text = value[len] ? value + len + 1 : NULL;
	int r = check_text(value, err);

	if (r < 0)
		return r;
	if (!name)
		return err_set(err, ENOMEM, "'%s'", value);
	if (len == 0)
		return err_say(err, EINVAL, "'%s': must be NAME=VALUE or NAME", value);
	if (!text)
		text = getenv(name);
	if (!text)
		return err_say(err, EINVAL, "'%s': is not set here, so give it a value: %s=VALUE",
			       name, name);
	if (!run->env)
		run->env = cJSON_CreateObject();
	cJSON_DeleteItemFromObjectCaseSensitive(run->env, name);
	r = check_text(text, err);
	if (r == 0 && !cJSON_AddStringToObject(run->env, name, text))
		return err_set(err, ENOMEM, "'%s'", value);
	return r;
}

/* The length of SRC in SRC[:DST][:rw|:ro]; DST is absolute, which tells it from a flag. */
static int split_mount(char *text, const char **target, bool *readonly)
{
	char *colon = strrchr(text, ':');

	*readonly = true;
	*target = NULL;
	if (colon && (strcmp(colon, ":rw") == 0 || strcmp(colon, ":ro") == 0)) {
		*readonly = colon[2] == 'o';
		*colon = '\0';
		colon = strrchr(text, ':');
	}
	if (colon && colon[1] == '/') {
		*colon = '\0';
		*target = colon + 1;
	} else if (colon) {
		return -EINVAL;
	}
	return *text ? 0 : -EINVAL;
}

static int take_mount(void *obj, const char *value, struct err *err)
{
	struct run *run = obj;
	auto_free char *text = strdup(value), *source = NULL;
	const char *target;
	bool readonly;
	cJSON *mount;

	if (!text)
		return err_set(err, ENOMEM, "'%s'", value);
	if (split_mount(text, &target, &readonly) < 0)
		return err_say(err, EINVAL,
			       "'%s': must be SRC, SRC:DST, SRC:rw or SRC:DST:rw, with an absolute "
			       "DST",
			       value);
	source = realpath(text, NULL);
	if (!source)
		return err_set(err, errno, "'%s'", text);
	target = target ? target : source;
	if (check_text(source, err) < 0 || check_text(target, err) < 0)
		return -EILSEQ;
	if (!run->mounts)
		run->mounts = cJSON_CreateArray();
	mount = cJSON_CreateObject();
	if (!cJSON_AddItemToArray(run->mounts, mount)) {
		cJSON_Delete(mount);
		return err_set(err, ENOMEM, "'%s'", value);
	}
	if (!cJSON_AddStringToObject(mount, "source", source) ||
	    !cJSON_AddStringToObject(mount, "target", target) ||
	    !cJSON_AddBoolToObject(mount, "readonly", readonly))
		return err_set(err, ENOMEM, "'%s'", value);
	return 0;
}

static int take_cwd(void *obj, const char *value, struct err *err)
{
	((struct run *)obj)->cwd = value;
	return check_text(value, err);
}

static int take_user(void *obj, const char *value, struct err *err)
{
	((struct run *)obj)->user = value;
	return check_text(value, err);
}

static int take_timeout(void *obj, const char *value, struct err *err)
{
	struct run *run = obj;
	char *end;

	run->timeout_s = strtod(value, &end);
	if (end == value || *end || !isfinite(run->timeout_s) || run->timeout_s <= 0)
		return err_say(err, EINVAL, "'%s': must be a number of seconds above 0", value);
	return 0;
}

static const struct option_def run_defs[] = {
	{ "mount", 'm', "SRC[:DST][:rw]", take_mount, "show it a directory of this machine" },
	{ "env", 'e', "NAME[=VALUE]", take_env, "set a variable, or pass on the one that is here" },
	{ "cwd", 'w', "DIR", take_cwd, "where it begins, inside" },
	{ "timeout", 't', "SECONDS", take_timeout, "kill it after so long: exit status 124" },
	{ "user", 'u', "USER", take_user, "as whom, inside: a name, UID or UID:GID" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_run_options = { "hutch run", run_defs, ARRAY_SIZE(run_defs), false };

/* ---- the sandbox and the request ---- */

static int enter_box(struct run *run, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *spec = NULL;

	if (run->box)
		return hutch_node_enter_box(&run->node, run->box, err);
	spec = cJSON_CreateObject();
	if (!spec || (run->mounts && !cJSON_AddItemReferenceToObject(spec, "mounts", run->mounts)))
		return err_set(err, ENOMEM, "make a sandbox");
	return hutch_node_make_box(&run->node, spec, err);
}

/* The request, which the caller frees, or NULL. */
static cJSON *make_request(const struct run *run, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *request = hutch_request_new(&run->root, run->argv, err);

	if (!request)
		return NULL;
	if ((run->stdin_null && !cJSON_AddStringToObject(request, "stdin", "null")) ||
	    (run->cwd && !cJSON_AddStringToObject(request, "cwd", run->cwd)) ||
	    (run->user && !cJSON_AddStringToObject(request, "user", run->user)) ||
	    (run->timeout_s > 0 &&
	     !cJSON_AddNumberToObject(request, "timeout_s", run->timeout_s)) ||
	    (run->env && !cJSON_AddItemReferenceToObject(request, "env", run->env))) {
		(void)err_set(err, ENOMEM, "the request");
		return NULL;
	}
	return TAKE_PTR(request);
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

	if (hutch_read_text(run->node.fd, "result.json", text, sizeof(text)) < 0) {
		hutch_warn("run: '%s': it was killed, since %s/%s/exec/%s was removed",
			   run->argv[0], run->root.path, run->node.box, run->node.name);
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
	run->argv = (const char *const *)argv + dashes + 1;
	run->box = r < dashes ? argv[r] : NULL;
	if (run->box && run->mounts)
		return err_say(
			err, EINVAL,
			"--mount: sandbox '%s' is made already, and a directory can be shown "
			"only to one that is being made: leave out its name, or make it with "
			"its mounts by a spec written to the tree's file 'new'",
			run->box);
	return 1;
}

/* An exit status, or a negative errno. */
static int run_command(struct run *run, struct relay_outcome *outcome, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *request = make_request(run, err);
	auto_close int signals = -1;
	int r;

	if (!request)
		return -err->code;
	signals = relay_signals(err);
	if (signals < 0)
		return signals;
	r = enter_box(run, err);
	if (r == 0)
		r = hutch_node_start(&run->node, request, run->argv[0], err);
	if (r == 0)
		r = relay_run(run->node.fd, signals, !run->stdin_null, outcome, err);
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
	struct run run = { .stdin_null = stdin_is_null(), .root = { .fd = -1 } };
	struct relay_outcome outcome = { 0 };
	int dashes = 1, r;

	while (dashes < argc && strcmp(argv[dashes], "--") != 0)
		dashes++;
	run.node = (struct hutch_node)HUTCH_NODE_INIT(&run.root);
	r = take_operands(cmd, &run, dashes, argv, err);
	if (r > 0)
		r = hutch_root_open(&run.root, err);
	if (r == 0 && run.root.fd >= 0)
		r = run_command(&run, &outcome, err);
	hutch_node_done(&run.node);
	hutch_root_done(&run.root);
	cJSON_Delete(run.env);
	cJSON_Delete(run.mounts);
	return outcome.how == RELAY_PIPE_CLOSED ? hutch_end_by_signal(SIGPIPE) : r;
}
