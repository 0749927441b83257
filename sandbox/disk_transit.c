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
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/disk-internal.h"

#define PIPE_SIZE (1024 * 1024) /* as much as a pump takes in a turn */
#define SHORT_US  10000         /* between two tries when memory or descriptors are short, */
#define SHORT_MAX 1000          /* and how many */

/* What is left in it is lost, which the next writer must know if we do not come to say so.  It may be a
 * page of a file that nobody can read any more, read(2) neither: it goes with a pipe of its own. */
static void throw_away(const struct disk_transit *t)
{
	ssize_t n = 1;

	atomic_store(&t->shared->cut, 1);
	while (n > 0) {
		int fd[2];

		if (pipe2(fd, O_CLOEXEC) < 0) {
			(void)disk_files_spare(t->files, -errno);
			(void)usleep(SHORT_US);
			continue;
		}
		n = splice(t->out, NULL, fd[1], NULL, PIPE_SIZE, SPLICE_F_NONBLOCK);
		(void)close(fd[0]);
		(void)close(fd[1]);
	}
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
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n < 0 && disk_is_short(-errno) && tries++ < SHORT_MAX)
			(void)usleep(SHORT_US);
		else
			break;
	}
	if (kept < len)
		throw_away(t);
	return kept;
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
		to = openat(t->files->dirfd, t->shared->name,
			    O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
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
		memcpy(t->cut, t->shared->name, sizeof(t->cut));
}

bool disk_transit_cut(const struct disk_transit *t, const char *name)
{
	return strcmp(t->cut, name) == 0;
}

ssize_t disk_transit_move(struct disk_transit *t, const struct disk_way *way, size_t *ret_kept)
{
	ssize_t n;

	*ret_kept = 0;
	/* In this order: what was cut was another one, and a writer that dies in between has taken nothing. */
	atomic_store(&t->shared->cut, 0);
	atomic_thread_fence(memory_order_seq_cst);
	memcpy(t->shared->name, way->name, DISK_NAME_MAX);
	n = splice(way->from, NULL, t->in, NULL, way->len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n < 0)
		return -errno;
	*ret_kept = drain(t, way->to, way->off, (size_t)n);
	return n;
}
