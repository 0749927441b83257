/* pipes.c - see pipes.h */
#include "sandbox/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

int pipe_between_make(struct pipe_between *b)
{
	if (!b->made && pipe2(b->fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	b->made = true;
	return 0;
}

void pipe_between_done(struct pipe_between *b)
{
	if (!b->made)
		return;
	b->made = false;
	(void)close(b->fd[0]);
	(void)close(b->fd[1]);
}

/* With what is in it. */
static void make_anew(struct pipe_between *b)
{
	pipe_between_done(b);
	(void)pipe_between_make(b); /* or when it is needed */
}

/* Some kernels leave a buffer without bytes in a pipe, of a write(2) that failed: it would be full of them. */
static void sweep(struct pipe_between *b)
{
	struct pollfd p = { .fd = b->fd[0], .events = POLLIN };

	if (poll(&p, 1, 0) == 1)
		make_anew(b);
}

static ssize_t take(struct pipe_between *b, int from, size_t len)
{
	ssize_t n = pipe_between_make(b);

	if (n < 0)
		return n;
	n = splice(from, NULL, b->fd[1], NULL, len, SPLICE_F_NONBLOCK);
	n = n < 0 ? -errno : n;
	if (n <= 0)
		sweep(b);
	return n;
}

ssize_t pipe_discard(struct pipe_between *b, int from, size_t len)
{
	ssize_t n = take(b, from, len);

	if (n > 0)
		make_anew(b);
	return n;
}

static ssize_t read_once(int from, void *bytes, size_t len)
{
	ssize_t n = read(from, bytes, len);

	return n < 0 ? -errno : n;
}

/* Each packet is a read(2) of its own, also one without bytes. */
static ssize_t read_part(struct pipe_between *b, int from, void *bytes, size_t len)
{
	ssize_t n = take(b, from, len), got = 0, r = 0;

	while (got < n && r >= 0) {
		r = read_once(b->fd[0], (char *)bytes + got, (size_t)(n - got));
		got += r > 0 ? r : 0;
	}
	if (r >= 0)
		return n;
	make_anew(b);
	return -EIO;
}

ssize_t pipe_read(struct pipe_between *b, int from, void *bytes, size_t len)
{
	int there = 0;
	ssize_t n;

	/* All that is there, and nothing of what comes now. */
	if (ioctl(from, FIONREAD, &there) < 0 || there <= 0 || (size_t)there > len)
		return read_part(b, from, bytes, len);
	n = read_once(from, bytes, (size_t)there);
	return n ? n : -EAGAIN; /* a packet without bytes */
}
