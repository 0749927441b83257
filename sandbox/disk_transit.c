/* disk_transit.c - bytes on their way from a command's pipe to its spool
 *
 * splice(2) from a pipe to a file holds the pipe's lock until the file has it all, and the command
 * waits with its next byte.  So what is in the pipe is moved into a second one, which copies
 * nothing, and from there to the file: the command fills its pipe while the disk takes what was
 * in it.
 *
 * The second pipe is hutchd's, and there is only one: what comes into it goes out before anything
 * else is done.  So it outlives a writer that is killed, and the next one finds in it what
 * the last one had taken and not written.  Shared memory says for which file; its place is that
 * file's end, unless some of it has been thrown away already.
 *
 * That some was thrown away is in shared memory too, until hutchd has been told: the
 * writer may be killed at any point between.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/disk-internal.h"
#include "sandbox/pipe_between.h"

#define PIPE_SIZE  (1024 * 1024) /* as much as a pump takes in a turn */
#define SWEEPS_MAX 16 /* as often as a small one is full of empty buffers that a large one has */

static int in_it(const struct disk_transit *t)
{
	int n = 0;

	(void)ioctl(t->out, FIONREAD, &n);
	return n;
}

/* All that is in it.  Nothing else may come into it before: if we cannot, it is for the next writer, who has
 * nothing open yet. */
static void empty(const struct disk_transit *t)
{
	int tries = 0;
	ssize_t n = 0;

	do {
		(void)disk_files_spare(t->files, (int)n);
		n = pipe_discard(t->between, t->out, PIPE_SIZE);
	} while (n > 0 || disk_wait_for_more((int)n, &tries));
	if (n != -EAGAIN || in_it(t) > 0)
		_exit(1);
}

/* What is left in it is lost, which the next writer must know if we do not come to say so. */
static void throw_away(const struct disk_transit *t)
{
	atomic_store(&t->shared->cut, 1);
	empty(t);
}

/* Buffers without bytes; see pipe_between.c.  True: there were some. */
static bool sweep(const struct disk_transit *t)
{
	struct pollfd p = { .fd = t->out, .events = POLLIN };

	if (poll(&p, 1, 0) != 1)
		return false;
	empty(t);
	return true;
}

/* Out of it; returns how many of them the file took, the rest is lost.  Of a piece with a page that cannot
 * be read the file takes nothing: so what is in front of that page is looked for. */
static size_t drain(const struct disk_transit *t, int to, uint64_t off, size_t len)
{
	size_t kept = 0, piece = len;
	loff_t at = (loff_t)off;

	for (int tries = 0; kept < len && piece > 0;) {
		ssize_t n = splice(t->out, NULL, to, &at, piece < len - kept ? piece : len - kept,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		int r = n < 0 ? -errno : 0;

		if (n > 0)
			kept += (size_t)n;
		else if (disk_is_short(r))
			piece = disk_wait_for_more(r, &tries) ? piece : 0;
		else if (r != -EINTR)
			piece /= 2;
	}
	if (kept < len)
		throw_away(t);
	return kept;
}

/* To write to, if it is still there; a negative errno. */
static int open_left(const struct disk_transit *t)
{
	int tries = 0, r;

	do {
		r = openat(t->files->dirfd, t->shared->name,
			   O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
		r = r < 0 ? -errno : r;
	} while (r == -EINTR || disk_wait_for_more(r, &tries));
	return r;
}

/* What the last writer has left in it.  Of a file that has gone nobody wants it any more. */
static void finish(const struct disk_transit *t)
{
	auto_close int to = -1;
	struct stat st;
	int left = in_it(t);

	if (left == 0) {
		(void)sweep(t);
		return;
	}
	if (!atomic_load(&t->shared->cut))
		to = open_left(t);
	if (disk_is_short(to)) /* the next one tries again */
		_exit(1);
	if (to >= 0 && fstat(to, &st) == 0)
		(void)drain(t, to, (uint64_t)st.st_size, (size_t)left);
	else
		throw_away(t);
}

void disk_transit_init(struct disk_transit *t, struct disk_files *files,
		       struct pipe_between *between, const struct disk_writer_plan *plan)
{
	*t = (struct disk_transit){ .files = files,
				    .between = between,
				    .out = plan->transit[0],
				    .in = plan->transit[1],
				    .shared = &plan->ring.shared->transit };
	(void)fcntl(t->in, F_SETPIPE_SZ, PIPE_SIZE); /* failing only costs speed */
	finish(t);
	if (atomic_load(&t->shared->cut))
		t->cut = t->shared->pump;
}

uint64_t disk_transit_cut(const struct disk_transit *t, uint64_t *ret_size)
{
	(void)disk_files_size(t->files, t->shared->name, ret_size);
	return t->cut;
}

static ssize_t take(const struct disk_transit *t, const struct disk_way *way)
{
	ssize_t n =
		splice(way->from, NULL, t->in, NULL, way->len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	return n < 0 ? -errno : n;
}

ssize_t disk_transit_move(struct disk_transit *t, const struct disk_way *way, size_t *ret_kept)
{
	int tries = 0;
	ssize_t n;

	*ret_kept = 0;
	/* In this order: what was cut was another one, which has been said, and a writer that dies in between
	 * has taken nothing. */
	atomic_store(&t->shared->cut, 0);
	atomic_thread_fence(memory_order_seq_cst);
	t->shared->pump = way->pump;
	memcpy(t->shared->name, way->name, DISK_NAME_MAX);
	do
		n = take(t, way);
	while (n == -EAGAIN && sweep(t) && tries++ < SWEEPS_MAX);
	if (n > 0)
		*ret_kept = drain(t, way->to, way->off, (size_t)n);
	return n;
}
