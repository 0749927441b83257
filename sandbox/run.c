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
#include "sandbox/jobs.h"
#include "sandbox/sandbox-internal.h"

/* Events taken from one socket in one turn; a flooding agent delays nobody else. */
#define EVENTS_PER_TURN 64
#define OUTBOX_MAX      1024
#define ENDS_PER_TURN   64 /* commands that end with their process 1 */

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
	disk_cancel(run->sandbox->engine->disk, &run->layer);
	if (run->mounts)
		mounts_cancel(TAKE_PTR(run->mounts));
	(void)pidfd_send_signal(run->pidfd.fd, SIGKILL, NULL, 0);
}

static void run_break(struct sandbox_run *run, const char *why)
{
	struct err fault = { 0 };

	err_say(&fault, EPROTO, "its agent broke the protocol: %s", why);
	run->broke = true;
	run_end(run, &fault);
	ev_del(run->sandbox->engine->loop, &run->control); /* nothing that it says counts now */
}

/* --- what the agent says --- */

/* Is there a command of which this can be said? Counted, since those that were removed are not known
 * any more one by one: whoever says it twice of one has nothing left to say of another. */
static bool take_owed(struct sandbox_run *run, uint32_t kind)
{
	uint64_t *owed = kind == AGENT_EXITED ? &run->unended : &run->unstarted;

	if (!*owed)
		return false;
	--*owed;
	run->unended += kind == AGENT_STARTED;
	return true;
}

static void on_exec_event(struct sandbox_run *run, const struct agent_event *ev)
{
	struct exec *ex = exec_find_serial(run->sandbox, ev->id);
	const char *why = NULL;

	if (ex && (ex->state == EXEC_DONE || ex->unwritten || !list_empty(&ex->unsent)))
		why = "it spoke of a command that it does not have";
	else if (ex && (ev->kind == AGENT_EXITED) != (ex->state == EXEC_RUNNING))
		why = "it told of a command's life in the wrong order";
	else if ((!ex && ev->id >= run->sandbox->next_exec_serial) || !take_owed(run, ev->kind))
		why = "it spoke of a command that it was never given";
	if (why) {
		run_break(run, why);
		return;
	}
	if (!ex) /* removed meanwhile */
		return;
	exec_ref(ex);
	if (ev->kind == AGENT_STARTED)
		exec_on_started(ex, ev->value);
	else if (ev->kind == AGENT_FAILED)
		exec_on_failed(ex, (enum agent_stage)ev->value, ev->error);
	else
		exec_on_exited(ex, ev->value, &ev->usage);
	exec_unref(ex);
}

static void on_setup_failed(struct sandbox_run *run, unsigned stage, int error)
{
	const struct spec *spec = &run->sandbox->spec;
	struct err fault = { 0 };

	if (run->ending)
		return;
	if (stage >= AGENT_SETUP_MOUNT && stage - AGENT_SETUP_MOUNT < spec->mounts_n)
		err_set(&fault, error, "mount '%s'",
			spec->mounts[stage - AGENT_SETUP_MOUNT].target);
	else
		err_set(&fault, error, "%s", launch_stage_name(stage));
	run_end(run, &fault);
}

static void on_event(struct sandbox_run *run, const struct agent_event *ev)
{
	if (run->broke)
		return;
	switch ((enum agent_event_kind)ev->kind) {
	case AGENT_READY:
		if (run->ready) {
			run_break(run, "it was ready twice");
			return;
		}
		run->ready = true;
		cgroup_run_expect(run->groups);
		sandbox_on_ready(run->sandbox);
		return;
	case AGENT_SETUP_FAILED:
		if (run->ready) {
			run_break(run, "its set-up failed after it was ready");
			return;
		}
		on_setup_failed(run, (unsigned)ev->value, ev->error);
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

/* 1: an event was handled; 0: nothing there now; -1: the socket is at its end.
 *
 * Descriptors are not even received: there is no room for any, and closing one could wait for
 * whatever file system its sender has found. */
static int receive(struct sandbox_run *run)
{
	struct agent_event ev;
	struct iovec iov = { .iov_base = &ev, .iov_len = sizeof(ev) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n = recvmsg(run->control.fd, &msg, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	if ((msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) || !agent_event_check(&ev, (size_t)n))
		run_break(run, "a message that cannot be one");
	else
		on_event(run, &ev);
	return 1;
}

/* --- what we say --- */

static void update_interest(struct sandbox_run *run)
{
	bool waiting = run->ready && (!list_empty(&run->outbox) || !list_empty(&run->unsent));

	if (!run->control.live || waiting == run->watching)
		return;
	if (ev_mod(run->sandbox->engine->loop, &run->control, EPOLLIN | (waiting ? EPOLLOUT : 0)) ==
	    0)
		run->watching = waiting;
}

static int send_signal(struct sandbox_run *run, const struct agent_signal *msg)
{
	ssize_t n;

	if (run->full)
		return -EAGAIN;
	n = send(run->control.fd, msg, sizeof(*msg), MSG_DONTWAIT | MSG_NOSIGNAL);
	run->full = n < 0 && (errno == EAGAIN || errno == EINTR);
	return run->full ? -EAGAIN : 0; /* of another failure the socket's end will tell */
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
		run->outbox_n--;
		free(sig);
	}
	while (!run->full && list_empty(&run->outbox) && !list_empty(&run->unsent)) {
		struct exec *ex = list_first(&run->unsent, struct exec, unsent);
		int r;

		list_del(&ex->unsent);
		r = exec_send(ex, run->control.fd);
		if (r == -EAGAIN) {
			list_add_tail(run->unsent.next, &ex->unsent); /* first again */
			run->full = true;
		} else if (r == 0) {
			run->unstarted++;
			exec_send_early_signals(ex);
		}
	}
	update_interest(run);
}

void run_exec(struct sandbox_run *run, struct exec *ex)
{
	list_add_tail(&run->unsent, &ex->unsent);
	run_flush(run);
}

int run_signal(struct sandbox_run *run, uint32_t exec_serial, int sig, bool group)
{
	struct agent_signal msg = {
		.op = AGENT_OP_SIGNAL, .id = exec_serial, .sig = sig, .group = group
	};
	struct run_signal_msg *keep;

	if (run->ending || (list_empty(&run->outbox) && send_signal(run, &msg) == 0))
		return 0;
	list_for_each (keep, &run->outbox, link)
		if (memcmp(&keep->msg, &msg, sizeof(msg)) == 0)
			return 0; /* as signals are: pending is pending */
	if (run->outbox_n >= OUTBOX_MAX)
		return -EBUSY;
	keep = malloc(sizeof(*keep));
	if (!keep)
		return -ENOMEM;
	keep->msg = msg;
	list_add_tail(&run->outbox, &keep->link);
	run->outbox_n++;
	update_interest(run);
	return 0;
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

/* Nothing of it is left, and everybody was told. */
static void run_over(struct sandbox_run *run)
{
	struct sandbox *sb = run->sandbox;
	struct run_signal_msg *sig, *next;

	list_for_each_safe (sig, next, &run->outbox, link)
		free(sig);
	list_del(&run->link);
	disk_cancel(sb->engine->disk, &run->layer);
	if (run->mounts)
		mounts_cancel(TAKE_PTR(run->mounts));
	sb->run = NULL;
	sandbox_on_end(sb, run);
	cgroup_run_retire(TAKE_PTR(run->groups));
	run_unref(run); /* taken by run_reaped() */
}

/* Thousands of commands have an end of their own, each with a write to the disk: some a turn, so
 * that nobody else waits for all of them. */
static void on_finish(struct ev_task *task)
{
	struct sandbox_run *run = container_of(task, struct sandbox_run, finish);
	struct engine *eng = run->sandbox->engine;

	if (sandbox_end_commands(run->sandbox, run, eng->closing ? SIZE_MAX : ENDS_PER_TURN))
		run_over(run);
	else
		ev_defer(eng->loop, task);
}

/* Process 1 was reaped: the kernel has killed all the others. */
static void run_reaped(struct sandbox_run *run, int status)
{
	struct ev_loop *loop = run->sandbox->engine->loop;

	/* No more can come, also not from somebody whom it has given its socket to. */
	(void)shutdown(run->control.fd, SHUT_RD);
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
	run->ending = true; /* nothing new begins */
	run->refs++;
	ev_del(loop, &run->pidfd);
	ev_del(loop, &run->control);
	on_finish(&run->finish);
}

static bool reap(struct sandbox_run *run)
{
	int status;

	if (!child_reap(run->pidfd.fd, &status))
		return false;
	run_reaped(run, status);
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
		ev_del(sb->engine->loop, src); /* epoll would report the end again and again */
	} else if (src->live && (events & EPOLLOUT)) {
		run->full = false;
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

		if (!run->pidfd.live) { /* reaped, and its commands are being ended */
			ev_task_cancel(&run->finish);
			on_finish(&run->finish);
			continue;
		}
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

int run_launch(struct engine *eng, const struct run_launch *what, struct launched *ret,
	       struct cgroup_run **ret_groups, struct err *err)
{
	auto_close int group = -1;
	auto_free char *path = NULL;
	struct cgroup_run *groups;
	char name[STORE_NAME_LEN];
	int r;
	struct launch_plan plan = {
		.name = what->name,
		.ids = *what->ids,
		.image = eng->image,
		.layer = what->layer,
		.agent_fd = eng->agent_fd,
		.lo = &eng->lo,
		.mounts = what->mounts,
		.mounts_n = what->mounts_n,
	};

	store_sandbox_name(name, what->serial);
	if (asprintf(&path, "%s/%s/layer", eng->store.path, name) < 0)
		return err_set(err, ENOMEM, "name the layer");
	r = cgroup_run_new(&eng->groups, what->ids, &groups, &group, err);
	if (r < 0)
		return r;
	plan.cgroup_fd = group;
	plan.layer_path = path;
	r = launch(&plan, ret, err);
	if (r < 0 && ret->pid > 0)
		zombies_kill(&eng->zombies, ret->pid);
	if (r < 0)
		cgroup_run_retire(groups);
	else
		*ret_groups = groups;
	return r;
}

/* Its process 1: the one that waits for a name, or a new one. */
static int begin(struct sandbox_run *run, struct sandbox *sb, struct blank *blank,
		 struct launched *ret, struct err *err)
{
	struct engine *eng = sb->engine;
	struct launch_name name;
	struct run_launch what = { .serial = sb->serial,
				   .layer = -1,
				   .ids = sb->ids,
				   .name = &name,
				   .mounts = sb->spec.mounts,
				   .mounts_n = sb->spec.mounts_n };

	launch_name_fill(&name, *sb->spec.hostname ? sb->spec.hostname : sb->id);
	if (blank && blank->groups) {
		*ret = blank->proc;
		return launch_name_send(blank->proc.control, &name, err);
	}
	return run_launch(eng, &what, ret, &run->groups, err);
}

static void on_mounts(void *owner, const struct mounts_reply *reply, const struct fds *fds)
{
	struct sandbox_run *run = owner;
	struct err fault = reply->err;

	run->mounts = NULL;
	if (fault.code || mounts_give(run->control.fd, reply, fds, &fault) < 0)
		run_end(run, &fault);
}

/* Its own directories of the host's: looked at now, opened while process 1 begins. */
static int open_mounts(struct sandbox_run *run, struct sandbox *sb, bool now, struct err *err)
{
	struct engine *eng = sb->engine;
	const struct mounts_ask ask = {
		.mount = sb->spec.mounts,
		.n = sb->spec.mounts_n,
		.uid = sb->uid,
		.gid = sb->gid,
		.ids = *sb->ids,
		.state_fd = eng->store.fd,
		.allowed = eng->mounts_allowed,
		.loop = eng->loop,
		.jobs = &eng->mount_jobs,
		.zombies = &eng->zombies,
		.done = on_mounts,
		.owner = run,
	};

	if (!ask.n)
		return 0;
	return now ? mounts_open(&run->mounts, &ask, err) : mounts_check(&ask, err);
}

/* The writer has made or found its directory; what is mounted from elsewhere comes behind it. */
static void on_layer(struct disk_done *done, int fd, const struct err *err)
{
	struct sandbox_run *run = container_of(done, struct sandbox_run, layer);
	struct sandbox *sb = run->sandbox;
	const struct launch_plan plan = { .image = sb->engine->image,
					  .layer = fd,
					  .layer_path = sb->id };
	const struct launched to = { run->pid, run->pidfd.fd, run->control.fd };
	struct err fault = { 0 };
	int r = 0;

	if (err) {
		fault = *err;
		r = -err->code;
	}
	if (r == 0)
		r = launch_layer_send(&plan, &to, &fault);
	if (r == 0 && run->cold) /* the disk may have taken its directory only the second time */
		(void)record_write(sb, NULL);
	if (r == 0)
		r = open_mounts(run, sb, true, &fault);
	if (fd >= 0)
		(void)close(fd);
	if (r < 0)
		run_end(run, &fault);
}

static int ask_layer(struct sandbox_run *run, const struct sandbox *sb, bool make, struct err *err)
{
	const struct job_ground ground = { .serial = sb->serial, .make = make, .ids = *sb->ids };

	run->layer.fn = on_layer;
	run->cold = make;
	return job_ground_ask(sb->engine->disk, &ground, &run->layer, err);
}

int run_start(struct sandbox *sb, struct blank *blank, struct err *err)
{
	struct sandbox_run *run = calloc(1, sizeof(*run));
	struct launched proc = { -1, -1, -1 };
	bool waits;
	int r;

	if (!run)
		return err_set(err, ENOMEM, "start");
	r = open_mounts(run, sb, false, err);
	if (r == 0)
		r = begin(run, sb, blank, &proc, err);
	if (r < 0) {
		free(run);
		return r;
	}
	waits = !blank || !blank->groups;
	if (!waits)
		run->groups = TAKE_PTR(blank->groups); /* and its process is ours from here on */
	run->pid = proc.pid;
	run->refs = 2; /* its sources */
	ev_task_init(&run->finish, on_finish);
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
	if (r == 0 && waits && (r = ask_layer(run, sb, blank, err)) < 0) {
		ev_del(sb->engine->loop, &run->pidfd);
		ev_del(sb->engine->loop, &run->control);
	}
	if (r < 0) {
		zombies_kill(&sb->engine->zombies, proc.pid);
		cgroup_run_retire(TAKE_PTR(run->groups));
		/* What is not in the loop's hands. */
		for (int i = !run->pidfd.next_dead + !run->control.next_dead; i > 0; i--)
			run_unref(run);
		return r;
	}
	list_add_tail(&sb->engine->runs, &run->link);
	sb->run = run;
	return 0;
}
