/* exec_end.c - how a command ends: what the agent reported becomes its result
 *
 * exec_finish() is the one place where a result is released.  Before that exactly
 * the bytes that are in the pipes are moved to the spools, so that whoever has read
 * the result finds all that the leader wrote; the end of the streams is not
 * waited for, since children that were left behind may hold them for hours.  Moving
 * may take a while: between exec_finish() and release() the command is as if it ran.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

#define TRIMS_PER_TURN 64 /* nodes: each is a write and two files less */

enum { CODE_TIMEOUT = 124, CODE_ENGINE = 125, CODE_NOT_STARTED = 126, CODE_NOT_FOUND = 127 };

void exec_on_started(struct exec *ex, pid_t pid)
{
	ex->pid = pid;
	ex->state = EXEC_RUNNING;
	event_emit(ex->sandbox, EVENT_EXEC_STARTED, ex);
	watch_fire_all(&ex->changed);
}

/* The oldest finished nodes go when there are too many; one that is open, or whose children
 * live, is passed over. */
void exec_trim(struct sandbox *sb)
{
	struct exec *ex, *next;
	int most = TRIMS_PER_TURN;

	list_for_each_safe (ex, next, &sb->execs, link) {
		if (!quota_keeps_too_much(sb))
			return;
		if (!exec_over(ex) || ex->request.id || ex->refs > 1)
			continue;
		if (most-- == 0) {
			exec_trim_later(sb);
			return;
		}
		journal_remove(ex);
		exec_drop(ex);
	}
}

void exec_trim_later(struct sandbox *sb)
{
	if (!sb->removed && !sb->engine->closing)
		ev_defer(sb->engine->loop, &sb->trim);
}

static bool is_settling(const struct exec *ex)
{
	return ex->stream[EXEC_STDOUT].settling || ex->stream[EXEC_STDERR].settling;
}

static void release(struct exec *ex, struct exec_result *res)
{
	struct sandbox *sb = ex->sandbox;

	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++) {
		res->stream_bytes[i] = ex->stream[i].size;
		res->truncated |= ex->stream[i].truncated;
		res->streams_open |= !ex->stream[i].ended;
	}
	(void)clock_gettime(CLOCK_REALTIME, &res->finished_at);
	res->started_at = ex->started_ns ? ex->started_at : ex->created_at;
	res->duration_ms = ex->started_ns ? (ev_now() - ex->started_ns) / 1000000 : 0;
	res->pid = ex->pid;
	ex->result = *res;
	ex->state = EXEC_DONE;
	arrival_finish(ex);
	sb->exec_live--;
	sb->engine->exec_live--;
	quota_finished(ex, true);
	retain_over(ex);
	if (ex->group) {
		/* A kill that came while it was starting has not met what it started. */
		if (ex->killed || ex->timed_out)
			cgroup_kill(ex->group);
		cgroup_retire(ex->group);
	}
	journal_finish(ex);
	exec_ref(ex);
	watch_fire_all(&ex->changed);
	arrival_ended(ex);
	event_emit(sb, EVENT_EXEC_FINISHED, ex);
	exec_unref(ex);
	/* Not now: whoever finishes a command may be walking the list that this takes others off. */
	exec_trim_later(sb);
	sandbox_idle(sb);
}

/* A slow disk, or a pipe that the writer has, takes a moment; then it is asked for again. */
void exec_finish(struct exec *ex, struct exec_result *res)
{
	if (ex->pending) { /* it has ended already */
		exec_result_done(res);
		return;
	}
	ev_timer_cancel(&ex->deadline);
	list_del(&ex->unsent);
	for (size_t i = 0; i < ARRAY_SIZE(ex->child); i++)
		close_auto(&ex->child[i]);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_settle(&ex->stream[i]);
	ex->pending = is_settling(ex) ? malloc(sizeof(*ex->pending)) : NULL;
	if (ex->pending)
		*ex->pending = *res;
	else
		release(ex, res);
}

void exec_on_settled(struct exec *ex)
{
	auto_free struct exec_result *res = NULL;

	if (!ex->pending || is_settling(ex) || ex->removed)
		return;
	res = TAKE_PTR(ex->pending);
	release(ex, res);
}

void exec_settle_no_more(struct exec *ex)
{
	auto_free struct exec_result *pending = TAKE_PTR(ex->pending);

	if (pending)
		release(ex, pending);
}

void exec_finish_now(struct exec *ex, struct exec_result *res)
{
	exec_finish(ex, res);
	exec_settle_no_more(ex);
}

void exec_fail(struct exec *ex, int code, const char *error)
{
	struct exec_result res = {
		.reason = EXEC_FAILED, .exit_code = -1, .code = code, .error = strdup(error)
	};

	exec_finish(ex, &res);
}

/* An id that is not mapped into the sandbox is EINVAL of whatever is done with it. */
static void say_no_user(int error, const char *what, const char *user, struct err *err)
{
	if (error == EINVAL)
		err_say(err, error, "the sandbox has no id for the user '%s'", user);
	else
		err_set(err, error, "%s the user '%s'", what, user);
}

/* What the person who asked sees as `failed: …`. */
static void say_failure(const struct exec *ex, enum agent_stage stage, int error, struct err *err)
{
	const struct exec_request *req = &ex->request;
	const struct spec *spec = &ex->sandbox->spec;
	const char *program = req->argv ? req->argv[0] : "its interpreter";
	const char *user = req->user ? req->user : spec->user ? spec->user : "0";
	const char *cwd = req->cwd ? req->cwd : spec->cwd ? spec->cwd : "its home";

	switch (stage) {
	case AGENT_STAGE_EXEC:
		if (error == ENOENT && req->argv && !strchr(program, '/'))
			err_say(err, error, "'%s': no such program in the sandbox's PATH", program);
		else
			err_set(err, error, "execute '%s'", program);
		return;
	case AGENT_STAGE_CWD:
		err_set(err, error, "change to the directory '%s'", cwd);
		return;
	case AGENT_STAGE_USER:
		if (error == ENOENT)
			err_say(err, error, "there is no user '%s' in the sandbox", user);
		else
			say_no_user(error, "look up", user, err);
		return;
	case AGENT_STAGE_IDS:
		say_no_user(error, "become", user, err);
		return;
	case AGENT_STAGE_SCRIPT:
		err_set(err, error, "put the script into the sandbox");
		return;
	case AGENT_STAGE_GROUP:
		err_set(err, error, "put it into its control group");
		return;
	case AGENT_STAGE_FORK:
		err_set(err, error, "make a process for it");
		return;
	case AGENT_STAGE_STDIO:
		err_set(err, error, "give it its standard streams");
		return;
	case AGENT_STAGE_REQUEST:
	case AGENT_STAGE_COUNT:
		break;
	}
	err_set(err, error, "hand the command to the sandbox");
}

void exec_on_failed(struct exec *ex, enum agent_stage stage, int error)
{
	struct err err = { 0 };
	bool theirs = stage == AGENT_STAGE_EXEC || stage == AGENT_STAGE_CWD ||
		      stage == AGENT_STAGE_USER || stage == AGENT_STAGE_IDS;

	say_failure(ex, stage, error, &err);
	exec_fail(ex,
		  !theirs                                        ? CODE_ENGINE
		  : stage == AGENT_STAGE_EXEC && error == ENOENT ? CODE_NOT_FOUND
								 : CODE_NOT_STARTED,
		  err.msg);
}

static uint64_t known(uint64_t n, uint64_t divisor)
{
	return n == AGENT_UNKNOWN ? USAGE_UNKNOWN : n / divisor;
}

void exec_on_exited(struct exec *ex, int status, const struct agent_usage *u)
{
	struct exec_result res = {
		.reason = EXEC_EXITED,
		.usage = { .collected = true,
			   .cpu_user_ms = known(u->user_us, 1000),
			   .cpu_sys_ms = known(u->sys_us, 1000),
			   .peak_memory_bytes = known(u->maxrss_bytes, 1),
			   .page_faults_major = known(u->majflt, 1),
			   .context_switches_involuntary = known(u->nivcsw, 1),
			   .io_read_bytes = known(u->io_read_bytes, 1),
			   .io_write_bytes = known(u->io_write_bytes, 1) },
	};

	if (WIFEXITED(status)) {
		res.exit_code = res.code = WEXITSTATUS(status);
	} else {
		res.exit_code = -1;
		res.signal = WTERMSIG(status);
		res.code = 128 + res.signal;
		res.reason = EXEC_SIGNALED;
		/* Ours only if it is what we sent: a leader may have died of something else. */
		if (res.signal == SIGKILL && ex->timed_out) {
			res.reason = EXEC_TIMED_OUT;
			res.code = CODE_TIMEOUT;
		} else if (res.signal == SIGKILL && ex->killed) {
			res.reason = EXEC_KILLED;
		}
	}
	exec_finish(ex, &res);
}

void exec_on_run_end(struct exec *ex, const struct err *fault)
{
	struct exec_result res = { .exit_code = -1 };

	if (ex->killed && !fault->code) {
		res.reason = EXEC_KILLED;
		res.signal = SIGKILL;
		res.code = 128 + SIGKILL;
	} else {
		res.reason = EXEC_LOST;
		res.code = CODE_ENGINE;
		res.error = strdup(fault->code ? fault->msg : "hutchd was stopped meanwhile");
	}
	if (ex->sandbox->removed || ex->sandbox->engine->closing) /* nobody could wait for it */
		exec_finish_now(ex, &res);
	else
		exec_finish(ex, &res);
}
