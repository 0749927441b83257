/* run.c - process 1 of a sandbox and its control socket
 *
 * States: launched -> ready (the agent's first message) -> ending (SIGKILL sent)
 * -> reaped, when the run is freed.  A stage that fails before `ready` says so on
 * the socket and ends by itself; an agent that goes away, or says what an agent
 * cannot say, is ended.
 *
 * Two facts carry the design.  Process 1 gone means that the kernel has killed
 * everything in its pid namespace: reaping it is knowing that nothing is left.
 * And events may still lie in the socket when the pidfd fires, so the socket is
 * always read to its end before a run is over.
 *
 * Nothing here waits: what the socket does not take is kept and sent when it is
 * writable.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

/* Events taken from one socket in one turn; a flooding agent delays nobody else. */
#define EVENTS_PER_TURN 64

struct run_signal_msg {
	struct list link; /* sandbox_run.outbox */
	struct agent_signal msg;
};

void run_end(struct sandbox_run *run, const struct err *fault)
{
	if (!run->ending) {
		run->ending = true;
		if (fault)
			run->fault = *fault;
	}
	(void)pidfd_send_signal(run->pidfd.fd, SIGKILL, NULL, 0);
}

static void run_break(struct sandbox_run *run, const char *why)
{
	struct err fault = { 0 };

	err_say(&fault, EPROTO, "its agent broke the protocol: %s", why);
	run->broke = true;
	run_end(run, &fault);
}

/* --- what the agent says --- */

static void on_exec_event(struct sandbox_run *run, const struct agent_event *ev)
{
	struct exec *ex = exec_find_serial(run->sandbox, ev->id);

	if (!ex) /* removed meanwhile */
		return;
	if (ex->state == EXEC_DONE || ex->unwritten || !list_empty(&ex->unsent)) {
		run_break(run, "it spoke of a command that it does not have");
		return;
	}
	exec_ref(ex);
	if (ev->kind == AGENT_STARTED)
		exec_on_started(ex, ev->value);
	else if (ev->kind == AGENT_FAILED)
		exec_on_failed(ex, (enum agent_stage)ev->value, ev->error);
	else
		exec_on_exited(ex, ev->value, &ev->usage);
	exec_unref(ex);
}

static void on_event(struct sandbox_run *run, const struct agent_event *ev)
{
	switch ((enum agent_event_kind)ev->kind) {
	case AGENT_READY:
		if (run->ready) {
			run_break(run, "it was ready twice");
			return;
		}
		run->ready = true;
		sandbox_on_ready(run->sandbox);
		return;
	case AGENT_SETUP_FAILED:
		if (run->ready) {
			run_break(run, "its set-up failed after it was ready");
			return;
		}
		if (!run->ending) {
			struct err fault = { 0 };

			err_set(&fault, ev->error, "%s", launch_stage_name((unsigned)ev->value));
			run_end(run, &fault);
		}
		return;
	case AGENT_STARTED:
	case AGENT_FAILED:
	case AGENT_EXITED:
		if (!run->ready)
			run_break(run, "it spoke of a command before it was ready");
		else
			on_exec_event(run, ev);
		return;
	case AGENT_EVENT_COUNT:
		break;
	}
}

/* A message that carries descriptors is none of ours; they are closed, unlooked at. */
static bool receive_fds(struct msghdr *msg)
{
	bool any = false;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		any = true;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			(void)close(fd);
		}
	}
	return any || (msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC));
}

/* 1: an event was handled; 0: nothing there now; -1: the socket is at its end. */
static int receive(struct sandbox_run *run)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 8)];
	} control;
	struct agent_event ev;
	struct iovec iov = { .iov_base = &ev, .iov_len = sizeof(ev) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(run->control.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	if (receive_fds(&msg) || !agent_event_check(&ev, (size_t)n))
		run_break(run, "a message that cannot be one");
	else
		on_event(run, &ev);
	return 1;
}

/* --- what we say --- */

static void update_interest(struct sandbox_run *run)
{
	bool waiting = run->ready && (!list_empty(&run->outbox) || !list_empty(&run->unsent));

	if (run->control.live)
		(void)ev_mod(run->sandbox->engine->loop, &run->control,
			     EPOLLIN | (waiting ? EPOLLOUT : 0));
}

static int send_signal(struct sandbox_run *run, const struct agent_signal *msg)
{
	ssize_t n = send(run->control.fd, msg, sizeof(*msg), MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 && (errno == EAGAIN || errno == EINTR) ? -EAGAIN : 0;
}

void run_flush(struct sandbox_run *run)
{
	struct run_signal_msg *sig, *sig_next;

	if (!run->ready || run->ending)
		return;
	list_for_each_safe (sig, sig_next, &run->outbox, link) {
		if (send_signal(run, &sig->msg) < 0)
			break;
		list_del(&sig->link);
		free(sig);
	}
	while (list_empty(&run->outbox) && !list_empty(&run->unsent)) {
		struct exec *ex = list_first(&run->unsent, struct exec, unsent);

		list_del(&ex->unsent);
		if (exec_send(ex, run->control.fd) == -EAGAIN) {
			list_add_tail(run->unsent.next, &ex->unsent); /* first again */
			break;
		}
	}
	update_interest(run);
}

void run_exec(struct sandbox_run *run, struct exec *ex)
{
	list_add_tail(&run->unsent, &ex->unsent);
	run_flush(run);
}

void run_signal(struct sandbox_run *run, uint32_t exec_serial, int sig, bool group)
{
	struct agent_signal msg = {
		.op = AGENT_OP_SIGNAL, .id = exec_serial, .sig = sig, .group = group
	};
	struct run_signal_msg *keep;

	if (list_empty(&run->outbox) && send_signal(run, &msg) == 0)
		return;
	keep = malloc(sizeof(*keep));
	if (!keep) { /* a signal must not be lost without a word: the harder way */
		run_end(run, &(struct err){ ENOMEM, "no memory to send a signal" });
		return;
	}
	keep->msg = msg;
	list_add_tail(&run->outbox, &keep->link);
	update_interest(run);
}

/* --- the end --- */

/* The loop may still have either source in its hands when a run is over. */
static void run_unref(struct sandbox_run *run)
{
	struct sandbox *sb = run->sandbox;

	if (--run->refs)
		return;
	close_auto(&run->control.fd);
	close_auto(&run->pidfd.fd);
	free(run);
	sandbox_unref(sb);
}

static void release_control(struct ev_source *src)
{
	run_unref(container_of(src, struct sandbox_run, control));
}

static void release_pidfd(struct ev_source *src)
{
	run_unref(container_of(src, struct sandbox_run, pidfd));
}

/* Process 1 was reaped. */
static void run_over(struct sandbox_run *run, int status)
{
	struct sandbox *sb = run->sandbox;
	struct run_signal_msg *sig, *next;

	while (receive(run) > 0)
		;
	if (!run->ending) {
		if (WIFSIGNALED(status))
			err_say(&run->fault, ESRCH, "its process 1 was killed by %s",
				signal_name(WTERMSIG(status)) ? signal_name(WTERMSIG(status))
							      : "a signal");
		else
			err_say(&run->fault, ESRCH, "its process 1 ended with status %d",
				WEXITSTATUS(status));
	}
	sandbox_ref(sb);
	list_for_each_safe (sig, next, &run->outbox, link)
		free(sig);
	list_del(&run->link);
	sb->run = NULL;
	ev_del(sb->engine->loop, &run->pidfd);
	ev_del(sb->engine->loop, &run->control);
	sandbox_on_end(sb, run);
	cgroup_run_retire(&sb->engine->groups, run->number);
	sandbox_unref(sb);
}

static bool reap(struct sandbox_run *run)
{
	siginfo_t info = { 0 };

	if (waitid(P_PIDFD, (id_t)run->pidfd.fd, &info, WEXITED | WNOHANG) < 0 && errno != ECHILD)
		return false;
	if (!info.si_pid && errno != ECHILD)
		return false;
	run_over(run, info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0)
						 : W_EXITCODE(0, info.si_status & 0x7f));
	return true;
}

static void on_pidfd(struct ev_source *src, uint32_t events)
{
	(void)events;
	(void)reap(container_of(src, struct sandbox_run, pidfd));
}

static void on_control(struct ev_source *src, uint32_t events)
{
	struct sandbox_run *run = container_of(src, struct sandbox_run, control);
	struct sandbox *sb = sandbox_ref(run->sandbox);
	int r = 1;

	for (int i = 0; i < EVENTS_PER_TURN && r > 0 && src->live; i++)
		r = receive(run);
	if (r < 0 && src->live) {
		/* The agent is gone or has closed its end; it is of no use any more. */
		if (!run->ending)
			run_end(run, &(struct err){ ESRCH, "its agent has gone" });
		(void)ev_mod(sb->engine->loop, src, 0);
	} else if (src->live && (events & EPOLLOUT)) {
		run_flush(run);
	}
	sandbox_unref(sb);
}

void run_wait_all(struct engine *eng, int64_t deadline)
{
	while (!list_empty(&eng->runs)) {
		struct sandbox_run *run = list_first(&eng->runs, struct sandbox_run, link);
		struct pollfd p = { .fd = run->pidfd.fd, .events = POLLIN };
		int64_t left = (deadline - ev_now()) / 1000000;

		if (poll(&p, 1, left > 0 ? (int)left : 0) != 1 || !reap(run)) {
			list_del(&run->link); /* the kernel is still at it */
			continue;
		}
	}
}

/* --- the beginning --- */

static int run_watch(struct sandbox_run *run, struct err *err)
{
	struct ev_loop *loop = run->sandbox->engine->loop;
	int r = ev_add(loop, &run->pidfd, EPOLLIN);

	if (r == 0) {
		r = ev_add(loop, &run->control, EPOLLIN);
		if (r < 0)
			ev_del(loop, &run->pidfd); /* releases one of the two */
		else
			return 0;
	}
	return err_set(err, -r, "watch process 1");
}

static int run_launch(struct sandbox *sb, uint32_t number, struct launched *ret, struct err *err)
{
	struct engine *eng = sb->engine;
	auto_close int dir = store_sandbox_dir(&eng->store, sb->serial, false, err);
	auto_close int group = -1;
	auto_free char *path = NULL;
	char name[STORE_NAME_LEN];
	int r;
	struct launch_plan plan = {
		.hostname = *sb->spec.hostname ? sb->spec.hostname : sb->id,
		.ids = *sb->ids,
		.image = eng->image,
		.layer_dir = dir,
		.layer_name = "layer",
		.agent_fd = eng->agent_fd,
		.lo = &eng->lo,
	};

	if (dir < 0)
		return dir;
	r = cgroup_run_make(&eng->groups, number, sb->ids, &group, err);
	if (r < 0)
		return r;
	plan.cgroup_fd = group;
	store_sandbox_name(name, sb->serial);
	if (asprintf(&path, "%s/%s/layer", eng->store.path, name) < 0)
		return err_set(err, ENOMEM, "name the layer");
	plan.layer_path = path;
	return launch(&plan, ret, err);
}

int run_start(struct sandbox *sb, struct err *err)
{
	struct sandbox_run *run = calloc(1, sizeof(*run));
	struct launched proc;
	int r;

	if (!run)
		return err_set(err, ENOMEM, "start");
	run->number = ++sb->engine->next_run;
	r = run_launch(sb, run->number, &proc, err);
	if (r < 0) {
		cgroup_run_retire(&sb->engine->groups, run->number);
		free(run);
		return r;
	}
	run->pid = proc.pid;
	run->refs = 2; /* its sources */
	run->pidfd =
		(struct ev_source){ .fd = proc.pidfd, .ready = on_pidfd, .release = release_pidfd };
	run->control = (struct ev_source){ .fd = proc.control,
					   .ready = on_control,
					   .release = release_control };
	list_init(&run->outbox);
	list_init(&run->unsent);
	run->sandbox = sandbox_ref(sb);
	list_init(&run->link);
	r = run_watch(run, err);
	if (r < 0) {
		(void)pidfd_send_signal(proc.pidfd, SIGKILL, NULL, 0);
		(void)waitpid(proc.pid, NULL, 0);
		if (!run->pidfd.next_dead) /* not in the loop's hands */
			run->refs--;
		run_unref(run);
		return r;
	}
	list_add_tail(&sb->engine->runs, &run->link);
	sb->run = run;
	return 0;
}
