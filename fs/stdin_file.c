/* stdin_file.c - stdin and input: the two ways into a command's standard input
 *
 * stdin appends, whatever the offset, and is a stream with an end.  input is the
 * same pipe by offset, for who has to resume: an offset is a number of bytes that
 * the pipe has taken, from either file.  Bytes below that are not sent again, a
 * byte beyond it would leave a hole.
 *
 * A full pipe parks the WRITE, and several may wait.  Each of input looks anew at
 * what was taken meanwhile, so that two who send the same bytes at the same time
 * send them once.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/epoll.h>

#include "fs/tree.h"
#include "sandbox/exec.h"

static int ended(struct err *err)
{
	return err_say(err, EPIPE, "stdin has ended: it was closed, or its command has ended");
}

static ssize_t put(struct node_io *io, ssize_t (*take)(struct exec *, const void *, size_t),
		   struct err *err)
{
	struct exec *x = io->handle->ref.exec;

	while (io->done < io->len) {
		ssize_t n = take(x, io->bytes + io->done, io->len - io->done);

		if (n == -EAGAIN && x->unwritten)
			return err_say(err, EAGAIN, "'%s' has no command yet: write it to cmd",
				       x->name);
		if (n == -EAGAIN) {
			io->wait = &x->writable;
			return -EAGAIN;
		}
		if (n == -EPIPE && io->done)
			break; /* a short count now, EPIPE at the next write */
		if (n == -EPIPE)
			return ended(err);
		if (n < 0)
			return err_set(err, (int)-n, "write to stdin");
		io->done += (size_t)n;
	}
	return (ssize_t)io->done;
}

static uint32_t pipe_ready(struct handle *h, struct list **ret_wait)
{
	uint32_t mask = stdin_ready(h->ref.exec);

	*ret_wait = &h->ref.exec->writable;
	if (!mask) /* the last full write may be told of before this one's */
		stdin_want(h->ref.exec);
	return mask;
}

/* stdin */

static int stdin_file_open(struct handle *h, struct err *err)
{
	(void)err;
	stdin_open(h->ref.exec, h->flags & O_TRUNC);
	h->writes_stdin = true;
	return 0;
}

static ssize_t stdin_file_write(struct node_io *io, struct err *err)
{
	return put(io, stdin_write, err);
}

static void stdin_file_release(struct handle *h)
{
	if (h->writes_stdin)
		stdin_close(h->ref.exec);
	h->writes_stdin = false;
}

const struct node_ops stdin_ops = {
	.open = stdin_file_open,
	.write = stdin_file_write,
	.release = stdin_file_release,
	.ready = pipe_ready,
};

/* input */

static ssize_t input_file_write(struct node_io *io, struct err *err)
{
	const struct exec *x = io->handle->ref.exec;
	uint64_t at = io->off + io->done, left = io->len - io->done;

	/* The end that the writer's kernel knows may be long past, and to skip bytes that it meant
	 * to append would lose them. */
	if (io->append || x->unwritten)
		return put(io, input_write, err);
	if (at <= x->in_taken) {
		io->done += x->in_taken - at < left ? x->in_taken - at : left;
		return put(io, input_write, err);
	}
	if (stdin_ready(x) & EPOLLERR)
		return ended(err);
	return err_say(err, EINVAL,
		       "input has %" PRIu64 " bytes, which is where to go on, and these are for "
		       "offset %" PRIu64,
		       x->in_taken, at);
}

const struct node_ops input_ops = { .write = input_file_write, .ready = pipe_ready };
