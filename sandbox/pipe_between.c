/* pipe_between.c - see pipe_between.h */
#include "sandbox/pipe_between.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PIPE_SIZE  262144 /* pages that are not full hold what is asked for, too */
#define HOLLOW_MAX 256 /* buffers without bytes, or pipes full of them, in front of what there is */

int pipe_between_make(struct pipe_between *b)
{
	if (b->made)
		return 0;
	if (pipe2(b->fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	(void)fcntl(b->fd[1], F_SETPIPE_SZ, PIPE_SIZE); /* failing only costs speed */
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

/* Some kernels leave a buffer without bytes in a pipe, of a write(2) that failed: it would be full of them.  True:
 * there were some. */
static bool sweep(struct pipe_between *b)
{
	struct pollfd p = { .fd = b->fd[0], .events = POLLIN };

	if (poll(&p, 1, 0) != 1)
		return false;
	make_anew(b);
	return true;
}

/* -EAGAIN is said of a pipe without bytes only, and not of one in which there are some behind more
 * empty buffers than we can take at once.  Who puts them in faster than we take them is waited for by nobody. */
static ssize_t take(struct pipe_between *b, int from, size_t len)
{
	int tries = 0;
	ssize_t n;

	do {
		n = pipe_between_make(b);
		if (n < 0)
			return n;
		n = splice(from, NULL, b->fd[1], NULL, len, SPLICE_F_NONBLOCK);
		n = n < 0 ? -errno : n;
	} while (n <= 0 && sweep(b) && n == -EAGAIN && tries++ < HOLLOW_MAX);
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
	for (int tries = 0; tries < HOLLOW_MAX; tries++) {
		int there = 0;
		ssize_t n;

		/* All that is there, and nothing of what comes now. */
		if (ioctl(from, FIONREAD, &there) < 0 || there <= 0 || (size_t)there > len)
			return read_part(b, from, bytes, len);
		n = read_once(from, bytes, (size_t)there);
		if (n) /* 0: a packet without bytes */
			return n;
	}
	return -EAGAIN;
}
