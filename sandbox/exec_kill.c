/* exec_kill.c - signals to a command, and its end by force
 *
 * What ends a command is its agent's word that the leader is over.  An agent that
 * keeps silent about one that was killed is found out: nothing lives in the
 * command's group, and nothing was said.  Then process 1 is ended, and with it the
 * sandbox has failed.  Without groups nobody can tell, and `stop` is left.
 */
#include <errno.h>
#include <signal.h>

#include "sandbox/sandbox-internal.h"

/* How often it is looked whether a killed command is over. */
#define LOOK_NS INT64_C(3000000000)

static void await_end(struct exec *ex)
{
	ev_timer_set(ex->sandbox->engine->loop, &ex->deadline, ev_now() + LOOK_NS);
}

/* Both ways: a command that was sent, and that the agent has not begun yet, is in no group, but
 * the signal is behind it in the socket.  What it does between is met when it ends. */
static void kill_all(struct exec *ex)
{
	if (ex->group)
		cgroup_kill(ex->group);
	/* One that is not taken: the group's kill was enough, or the agent is found out. */
	(void)run_signal(ex->sandbox->run, ex->serial, SIGKILL, true);
	if (ex->state != EXEC_DONE)
		await_end(ex);
}

/* Never sent: nobody else need be asked. */
static void end_unsent(struct exec *ex, enum exec_reason reason, int code)
{
	struct exec_result res = {
		.reason = reason, .exit_code = -1, .signal = SIGKILL, .code = code
	};

	list_del(&ex->unsent);
	exec_finish(ex, &res);
}

/* It was killed, some time ago. */
static void look(struct exec *ex)
{
	struct sandbox_run *run = ex->sandbox->run;

	if (!ex->group)
		return;
	if (!cgroup_empty(ex->group)) {
		ex->silent = 0;
		cgroup_kill(ex->group); /* it may have been between two groups */
	} else if (++ex->silent > 1) {  /* not at once: it may be about to say so */
		run_end(run, &(struct err){ ETIMEDOUT,
					    "its agent does not say what became of a command that "
					    "was killed" });
		return;
	}
	await_end(ex);
}

void exec_on_deadline(struct exec *ex)
{
	if (ex->state == EXEC_DONE || ex->pending || !ex->sandbox->run || ex->sandbox->run->ending)
		return;
	if (ex->timed_out || ex->killed) {
		look(ex);
		return;
	}
	ex->timed_out = true;
	if (!list_empty(&ex->unsent))
		end_unsent(ex, EXEC_TIMED_OUT, 124);
	else
		kill_all(ex);
}

int exec_signal(struct exec *ex, int sig, struct err *err)
{
	struct sandbox_run *run = ex->sandbox->run;
	int r;

	if (sig < 1 || sig > SIGRTMAX)
		return err_say(err, EINVAL, "there is no signal %d", sig);
	if (ex->unwritten)
		return err_say(err, EAGAIN, "signal: '%s' has no command yet", ex->name);
	if (ex->state == EXEC_DONE || !run)
		return 0;
	if (!list_empty(&ex->unsent)) {
		ex->early_signals |= UINT64_C(1) << (sig - 1);
		return 0;
	}
	r = run_signal(run, ex->serial, sig, true);
	return r < 0 ? err_set(err, -r, "signal '%s': its sandbox takes no more", ex->name) : 0;
}

void exec_send_early_signals(struct exec *ex)
{
	for (int sig = 1; ex->early_signals; sig++, ex->early_signals >>= 1)
		if (ex->early_signals & 1)
			(void)run_signal(ex->sandbox->run, ex->serial, sig, true);
}

void exec_on_group_gone(struct cgroup *group)
{
	struct exec *ex = group->owner;

	ex->group = NULL;
	exec_trim(ex->sandbox); /* it may go now */
}

int exec_kill(struct exec *ex, struct err *err)
{
	(void)err;
	if (!ex->sandbox->run || ex->unwritten || exec_over(ex))
		return 0;
	if (ex->state != EXEC_DONE)
		ex->killed = true;
	if (!list_empty(&ex->unsent))
		end_unsent(ex, EXEC_KILLED, 128 + SIGKILL);
	else
		kill_all(ex);
	return 0;
}
