/* pipe_between.c - see pipe_between.h */
#include "sandbox/pipe_between.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

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
