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
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/disk-internal.h"
#include "sandbox/pipes.h"

#define PIPE_SIZE (1024 * 1024) /* as much as a pump takes in a turn */
#define SHORT_US  10000         /* between two tries when memory or descriptors are short, */
#define SHORT_MAX 1000          /* and how many */

/* May it be tried again? The memory or the descriptors that were short may be there in a while. */
static bool wait_for_more(int r, int *tries)
{
	if (!disk_is_short(r) || (*tries)++ == SHORT_MAX)
		return false;
	(void)usleep(SHORT_US);
	return true;
}

/* What is left in it is lost, which the next writer must know if we do not come to say so.  Nothing else
 * may come into it before it is empty, which is for the next one too if we cannot. */
static void throw_away(const struct disk_transit *t)
{
	int tries = 0;
	ssize_t n = 0;

	atomic_store(&t->shared->cut, 1);
	do {
		(void)disk_files_spare(t->files, (int)n);
		n = pipe_discard(t->out, PIPE_SIZE);
	} while (n > 0 || wait_for_more((int)n, &tries));
	if (n != -EAGAIN)
		_exit(1);
}

/* Out of it; returns how many of them the file took, the rest is lost. */
static size_t drain(const struct disk_transit *t, int to, uint64_t off, size_t len)
{
	loff_t at = (loff_t)off;
	size_t kept = 0;

	for (int tries = 0; kept < len;) {
		ssize_t n = splice(t->out, NULL, to, &at, len - kept,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n > 0)
			kept += (size_t)n;
		else if (n == 0 || (errno != EINTR && !wait_for_more(-errno, &tries)))
			break;
	}
	if (kept < len)
		throw_away(t);
	return kept;
}

/* To write to, if it is still there. */
static int open_left(const struct disk_transit *t)
{
	int tries = 0, fd;

	do
		fd = openat(t->files->dirfd, t->shared->name,
			    O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	while (fd < 0 && (errno == EINTR || wait_for_more(-errno, &tries)));
	return fd;
}

/* What the last writer has left in it.  Of a file that has gone nobody wants it any more. */
static void finish(const struct disk_transit *t)
{
	auto_close int to = -1;
	struct stat st;
	int left = 0;

	if (ioctl(t->out, FIONREAD, &left) < 0 || left == 0)
		return;
	if (!atomic_load(&t->shared->cut))
		to = open_left(t);
	if (to >= 0 && fstat(to, &st) == 0)
		(void)drain(t, to, (uint64_t)st.st_size, (size_t)left);
	else
		throw_away(t);
}

void disk_transit_init(struct disk_transit *t, struct disk_files *files,
		       const struct disk_writer_plan *plan)
{
	*t = (struct disk_transit){ .files = files,
				    .out = plan->transit[0],
				    .in = plan->transit[1],
				    .shared = &plan->ring.shared->transit };
	(void)fcntl(t->in, F_SETPIPE_SZ, PIPE_SIZE); /* failing only costs speed */
	finish(t);
	if (atomic_load(&t->shared->cut))
		t->cut = t->shared->pump;
}

bool disk_transit_cut(const struct disk_transit *t, uint64_t *ret_size)
{
	struct stat st;

	if (!t->cut || fstatat(t->files->dirfd, t->shared->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*ret_size = (uint64_t)st.st_size;
	return true;
}

ssize_t disk_transit_move(struct disk_transit *t, const struct disk_way *way, size_t *ret_kept)
{
	ssize_t n;

	*ret_kept = 0;
	/* In this order: what was cut was another one, which has been said, and a writer that dies in between
	 * has taken nothing. */
	atomic_store(&t->shared->cut, 0);
	atomic_thread_fence(memory_order_seq_cst);
	t->shared->pump = way->pump;
	memcpy(t->shared->name, way->name, DISK_NAME_MAX);
	n = splice(way->from, NULL, t->in, NULL, way->len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n < 0)
		return -errno;
	*ret_kept = drain(t, way->to, way->off, (size_t)n);
	return n;
}
