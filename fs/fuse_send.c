/* fuse_send.c - much output goes from its spool to the reader with one copy
 *
 * A read into a buffer and an answer out of it copy each byte twice.  Here the
 * pages of the spool pass through a pipe of libfuse's to /dev/fuse, where they
 * are copied into the reader's memory: once.  What was measured, as processor
 * time of hutchd for one READ, in microseconds, on a busy machine:
 *
 *	bytes		4096	65536	131072	524288	1000000	1048576
 *	read, written	7.8	20.7	32.9	116	180	248
 *	spliced		8.2	15.3	22.3	95	116	725
 *
 * So what is less than NODE_SEND_MIN is read.  In the last column the pipe cannot
 * be made large enough, and libfuse makes a buffer for each answer instead: what
 * does not fit is read as well, and no answer is short because of it.
 *
 * Writing to /dev/fuse out of a mapping of the spool copies once at any size, also
 * of one byte, but only if the mapping is there: to map what is read once costs more
 * than to read it (122 of time in all against 49, for 128 KiB).
 *
 * The pages are the page cache's own, and are never moved out of it: files here
 * are FOPEN_DIRECT_IO, of which the kernel copies, and SPLICE_MOVE is not asked
 * for.  Nobody gives the bytes back to the disk in between: the answer is out
 * before this returns, and only then the reader counts as having taken them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <unistd.h>

#include "base/auto.h"
#include "fs/fuse-internal.h"

#define PIPE_MAX (1 << 20) /* for all users, if /proc/sys/fs/pipe-max-size is as it was */
#define PAGE     4096
#define OVERHEAD (4 * PAGE) /* what libfuse wants in the pipe besides: it counts three pages */

static bool pipe_can_have(int bytes)
{
	int fd[2];
	bool can;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return false;
	can = fcntl(fd[0], F_SETPIPE_SZ, bytes) >= bytes;
	close_auto(&fd[0]);
	close_auto(&fd[1]);
	return can;
}

void fuse_send_init(struct fuse_server *srv, struct fuse_conn_info *conn)
{
	srv->send_max = 0;
	if (!(conn->capable & FUSE_CAP_SPLICE_WRITE))
		return;
	if (pipe_can_have(2 * PIPE_MAX))
		srv->send_max = FUSE_IO_MAX;
	else if (pipe_can_have(PIPE_MAX))
		srv->send_max = PIPE_MAX - OVERHEAD;
	if (srv->send_max)
		conn->want |= FUSE_CAP_SPLICE_WRITE;
}

/* The pages did not get to /dev/fuse.  libfuse has let go of the request, which the kernel still waits
 * for, and whoever reads could not even be killed.  Of one that is answered nothing happens. */
static void fail(struct fuse_server *srv, uint64_t unique)
{
	const struct fuse_out_header out = { .len = sizeof(out), .error = -EIO, .unique = unique };

	if (write(fuse_session_fd(srv->session), &out, sizeof(out)) < 0)
		return; /* as with all other answers: nothing more can be done */
}

void fuse_send(fuse_req_t req, struct node_io *io, size_t n)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct fuse_bufvec v = FUSE_BUFVEC_INIT(n);
	int r;

	v.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	v.buf[0].fd = io->send_fd;
	v.buf[0].pos = (off_t)io->off;
	r = fuse_reply_data(req, &v, 0);
	if (r == 0)
		io->handle->def->ops->sent(io, n);
	else if (r != -ENOENT) /* the kernel knows nothing of it any more */
		fail(srv, io->unique);
}
