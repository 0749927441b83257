/* mounts.c - hutchd's side of mounts.h: the helper is started, heard, and ended
 *
 * A job is waited for until it has answered, or its time is over, or nobody wants
 * to know any more; from then on it waits for nothing but the helper's end.
 */
#include "sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/zombies.h"

#define END_WAIT_MS 1000
#define HUNG_NS     INT64_C(1000000000) /* what did not die of SIGKILL for so long, hangs */

struct mounts_job {
	struct list link; /* ask.jobs */
	struct mounts_ask ask;
	struct ev_source pidfd, sock;
	struct ev_timer deadline;
	unsigned refs; /* one per source that the loop may have in its hands */
	uint32_t at;   /* index of the mount that the helper is at */
	bool finished; /* done() was called, or will not be */
	int64_t finished_at;
};

static void job_unref(struct mounts_job *job)
{
	if (--job->refs)
		return;
	close_auto(&job->pidfd.fd);
	close_auto(&job->sock.fd);
	free(job);
}

static void release_pidfd(struct ev_source *src)
{
	job_unref(container_of(src, struct mounts_job, pidfd));
}

static void release_sock(struct ev_source *src)
{
	job_unref(container_of(src, struct mounts_job, sock));
}

/* The helper has nothing to do any more. */
static void finish(struct mounts_job *job, const struct mounts_reply *reply, const struct fds *fds)
{
	if (job->finished)
		return;
	job->finished = true;
	job->finished_at = ev_now();
	ev_timer_cancel(&job->deadline);
	ev_del(job->ask.loop, &job->sock);
	(void)pidfd_send_signal(job->pidfd.fd, SIGKILL, NULL, 0);
	if (reply)
		job->ask.done(job->ask.owner, reply, fds);
}

static void fail(struct mounts_job *job, int code, const char *why)
{
	const struct spec_mount *m = &job->ask.mount[job->at];
	struct mounts_reply reply = { 0 };
	const struct fds none = { .n = 0 };

	err_say(&reply.err, code, "mount '%s': '%s' %s", m->target, m->source, why);
	finish(job, &reply, &none);
}

static void on_deadline(struct ev_timer *timer)
{
	fail(container_of(timer, struct mounts_job, deadline), ETIMEDOUT,
	     "did not answer within 5 seconds");
}
_Static_assert(MOUNTS_WAIT_S == 5, "as the sentence says");

/* Is the reply one that can be passed on? */
static bool whole(const struct mounts_job *job, const struct mounts_reply *reply,
		  const struct fds *fds)
{
	if (reply->err.code)
		return fds->n == 0;
	return reply->n == job->ask.n && (fds->n == 0 || fds->n == job->ask.n);
}

/* True: there may be more. */
static bool hear(struct mounts_job *job)
{
	struct mounts_reply reply = { 0 };
	struct fds fds;
	ssize_t n = fds_receive(job->sock.fd, &reply, sizeof(reply), 0, &fds);

	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n == sizeof(job->at) && fds.n == 0) {
		uint32_t at;

		memcpy(&at, &reply, sizeof(at));
		job->at = at < job->ask.n ? at : 0;
		return true;
	}
	reply.err.msg[sizeof(reply.err.msg) - 1] = '\0';
	if (n == sizeof(reply) && whole(job, &reply, &fds))
		finish(job, &reply, &fds);
	else if (n == -EMFILE)
		fail(job, EMFILE, "cannot be taken: hutchd has too many descriptors");
	else
		fail(job, ECHILD, "could not be opened: the helper process has died");
	fds_close(&fds);
	return false;
}

static void on_sock(struct ev_source *src, uint32_t events)
{
	struct mounts_job *job = container_of(src, struct mounts_job, sock);

	(void)events;
	while (!job->finished && hear(job))
		;
}

static bool reap(struct mounts_job *job)
{
	int status;

	if (!child_reap(job->pidfd.fd, &status))
		return false;
	list_del(&job->link);
	ev_del(job->ask.loop, &job->pidfd);
	return true;
}

static void on_pidfd(struct ev_source *src, uint32_t events)
{
	struct mounts_job *job = container_of(src, struct mounts_job, pidfd);

	on_sock(&job->sock, events); /* its last words */
	if (!job->finished)
		fail(job, ECHILD, "could not be opened: the helper process has died");
	(void)reap(job);
}

int mounts_check(const struct mounts_ask *ask, struct err *err)
{
	const struct mounts_job *job;
	int64_t before = ev_now() - HUNG_NS;
	unsigned hung = 0;

	list_for_each (job, ask->jobs, link)
		hung += job->finished && job->finished_at < before && job->ask.uid == ask->uid;
	if (hung < MOUNTS_HUNG_MAX)
		return 0;
	return err_say(err, EBUSY, "mount '%s': %u directories of user %u's still do not answer",
		       ask->mount->target, hung, ask->uid);
}

/* Fills job->pidfd.fd and job->sock.fd. On failure *ret is a child that is to be killed, or -1. */
static int start_helper(struct mounts_job *job, pid_t *ret, struct err *err)
{
	int pair[2];
	pid_t pid;

	*ret = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "make a socket for the helper that opens its mounts");
	job->sock.fd = pair[0];
	*ret = pid = fork();
	if (pid == 0)
		mounts_helper(&job->ask, pair[1]);
	(void)close(pair[1]);
	if (pid < 0)
		return err_set(err, errno, "make a process that opens its mounts");
	job->pidfd.fd = pidfd_open(pid, 0);
	if (job->pidfd.fd < 0)
		return err_set(err, errno, "watch the process that opens its mounts");
	(void)fcntl(job->sock.fd, F_SETFL, O_NONBLOCK);
	return 0;
}

static int watch(struct mounts_job *job, struct err *err)
{
	int r = ev_add(job->ask.loop, &job->sock, EPOLLIN);

	if (r == 0) {
		job->refs++;
		r = ev_add(job->ask.loop, &job->pidfd, EPOLLIN);
		if (r == 0)
			job->refs++;
		else
			ev_del(job->ask.loop, &job->sock);
	}
	return r < 0 ? err_set(err, -r, "watch the process that opens its mounts") : 0;
}

int mounts_open(struct mounts_job **ret, const struct mounts_ask *ask, struct err *err)
{
	struct mounts_job *job;
	pid_t pid;
	int r = mounts_check(ask, err);

	if (r < 0)
		return r;
	job = calloc(1, sizeof(*job));
	if (!job)
		return err_set(err, ENOMEM, "open its mounts");
	job->ask = *ask;
	job->refs = 1; /* ours, until it is watched */
	job->pidfd = (struct ev_source){ .fd = -1, .ready = on_pidfd, .release = release_pidfd };
	job->sock = (struct ev_source){ .fd = -1, .ready = on_sock, .release = release_sock };
	list_init(&job->link);
	ev_timer_init(&job->deadline, on_deadline);
	r = start_helper(job, &pid, err);
	if (r == 0)
		r = watch(job, err);
	if (r < 0 && pid > 0)
		zombies_kill(ask->zombies, pid);
	if (r == 0) {
		list_add_tail(ask->jobs, &job->link);
		ev_timer_set(ask->loop, &job->deadline,
			     ev_now() + MOUNTS_WAIT_S * INT64_C(1000000000));
		*ret = job;
	}
	job_unref(job);
	return r;
}

void mounts_cancel(struct mounts_job *job)
{
	finish(job, NULL, NULL);
}

void mounts_end_all(struct list *jobs)
{
	int64_t end = ev_now() + END_WAIT_MS * INT64_C(1000000);
	struct mounts_job *job;

	list_for_each (job, jobs, link)
		finish(job, NULL, NULL);
	while (!list_empty(jobs)) {
		struct pollfd p;
		int64_t left = (end - ev_now()) / 1000000;

		job = list_first(jobs, struct mounts_job, link);
		p = (struct pollfd){ .fd = job->pidfd.fd, .events = POLLIN };
		if (poll(&p, 1, left > 0 ? (int)left : 0) == 1 && reap(job))
			continue;
		list_del(&job->link); /* the kernel does not let it die: init's, one day */
		ev_del(job->ask.loop, &job->pidfd);
	}
}

int mounts_give(int control, const struct mounts_reply *reply, const struct fds *fds,
		struct err *err)
{
	int r = fds_send(control, reply->place, reply->n * sizeof(*reply->place), fds->fd, fds->n);

	return r < 0 ? err_set(err, -r, "hand its mounts to process 1") : 0;
}
