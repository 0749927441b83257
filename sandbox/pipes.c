/* pipes.c - see pipes.h */
#include "sandbox/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* One at a time: whoever comes meanwhile waits for no more than that. One that cannot be made is tried
 * again by who needs it, and he says why. */
static void on_fill(struct ev_task *task)
{
	struct pipes *all = container_of(task, struct pipes, fill);

	if (all->n == PIPES_AHEAD || pipe2(all->fd[all->n], O_CLOEXEC) < 0)
		return;
	if (++all->n < PIPES_AHEAD)
		ev_defer_idle(all->loop, task);
}

void pipes_init(struct pipes *all, struct ev_loop *loop)
{
	*all = (struct pipes){ .loop = loop };
	ev_task_init(&all->fill, on_fill);
	ev_defer_idle(loop, &all->fill);
}

void pipes_done(struct pipes *all)
{
	ev_task_cancel(&all->fill);
	while (all->n > 0) {
		all->n--;
		(void)close(all->fd[all->n][0]);
		(void)close(all->fd[all->n][1]);
	}
}

int pipes_take(struct pipes *all, bool we_read, int *ours, int *theirs, struct err *err)
{
	int fd[2], end = we_read ? 0 : 1;

	if (all->n > 0)
		memcpy(fd, all->fd[--all->n], sizeof(fd));
	else if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	ev_defer_idle(all->loop, &all->fill);
	(void)fcntl(fd[end], F_SETFL, O_NONBLOCK); /* of a pipe it cannot fail */
	*ours = fd[end];
	*theirs = fd[1 - end];
	return 0;
}

/* From one pipe to another: a page is not looked at, nor is the rest of a packet lost. */
static ssize_t take_part(int from, int to, size_t len)
{
	ssize_t n = splice(from, NULL, to, NULL, len, SPLICE_F_NONBLOCK);

	return n < 0 ? -errno : n;
}

ssize_t pipe_discard(int from, size_t len)
{
	int fd[2];
	ssize_t n;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	n = take_part(from, fd[1], len);
	(void)close(fd[0]);
	(void)close(fd[1]);
	return n;
}

static ssize_t read_once(int from, void *bytes, size_t len)
{
	ssize_t n = read(from, bytes, len);

	return n < 0 ? -errno : n;
}

/* Also of several packets, each of which is a read(2) of its own. */
static ssize_t read_part(int from, void *bytes, size_t len)
{
	ssize_t n, got = 0, r = 1;
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	n = take_part(from, fd[1], len);
	while (got < n && r > 0) {
		r = read_once(fd[0], (char *)bytes + got, (size_t)(n - got));
		got += r > 0 ? r : 0;
	}
	(void)close(fd[0]);
	(void)close(fd[1]);
	return got < n ? -EIO : n;
}

ssize_t pipe_read(int from, void *bytes, size_t len)
{
	int there = 0;
	ssize_t n;

	/* Does what comes first fit, whatever comes now? */
	if (len >= PIPE_BUF ||
	    (ioctl(from, FIONREAD, &there) == 0 && there > 0 && (size_t)there <= len))
		return read_once(from, bytes, len);
	n = read_part(from, bytes, len);
	return n == -EINVAL ? read_once(from, bytes, len) : n; /* it is no pipe */
}
