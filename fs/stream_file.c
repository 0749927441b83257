/* stream_file.c - stdout, stderr, and the files that wait for a result */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "fs/tree.h"
#include "sandbox/exec.h"

/* stdout, stderr */

static int output_open(struct handle *h, struct err *err)
{
	struct stream *s =
		&h->ref.exec->stream[h->ref.id == NODE_EXEC_STDOUT ? EXEC_STDOUT : EXEC_STDERR];

	(void)err;
	stream_open(&h->reader, s);
	return 0;
}

/* Much is sent from where it is, see fuse_send.c.  0: this is not much, or somebody has cut the
 * spool, which a read of it tells. */
static ssize_t output_find(struct node_io *io)
{
	struct stat info;
	int fd;
	ssize_t n = stream_extent(&io->handle->reader, NODE_SEND_MIN, io->len, io->off, &fd);

	if (n <= 0 || (size_t)n > io->send_max || fstat(fd, &info) < 0 ||
	    (uint64_t)info.st_size < io->off + (uint64_t)n)
		return 0;
	io->send_fd = fd;
	return n;
}

static void output_sent(struct node_io *io, size_t n)
{
	stream_took(&io->handle->reader, n, io->off);
}

static ssize_t output_read(struct node_io *io, struct err *err)
{
	struct stream_reader *rd = &io->handle->reader;
	const struct stream *s = rd->stream;
	ssize_t n;

	if (!s)
		return -EBADF;
	n = io->send_max ? output_find(io) : 0;
	if (n == 0)
		n = stream_read(rd, io->bytes, io->len, io->off);
	if (n == -EIO && io->off < s->given)
		return err_say(err, EIO,
			       "the first %" PRIu64
			       " bytes were given back to the disk, since more "
			       "than output_limit came: set keep or a higher limit",
			       s->given);
	/* Nothing is coming of a node without a command, so nobody waits for it. */
	if (n == -EAGAIN && !s->exec->unwritten)
		io->wait = &rd->stream->changed;
	io->from_disk = n == -EAGAIN && io->off < s->size;
	if (n >= 0)
		io->handle->next_off = io->off + (uint64_t)n;
	return n;
}

static void output_release(struct handle *h)
{
	stream_close(&h->reader);
}

/* A poll does not say where the next read will be: it is taken to go on where the last one ended. */
static uint32_t output_ready(struct handle *h, struct list **ret_wait)
{
	struct stream *s = h->reader.stream;

	if (!s)
		return POLLERR;
	*ret_wait = &s->changed;
	return stream_ready(s, h->next_off);
}

const struct node_ops output_ops = {
	.open = output_open,
	.read = output_read,
	.sent = output_sent,
	.release = output_release,
	.ready = output_ready,
};

/* result.json, code: one text, when there is one */

static ssize_t read_when_done(struct node_io *io, int (*print)(const struct exec *, struct buf *))
{
	struct handle *h = io->handle;
	struct exec *x = h->ref.exec;
	int r;

	if (x->state != EXEC_DONE) {
		io->wait = x->unwritten ? NULL : &x->changed;
		return -EAGAIN;
	}
	r = print(x, &h->text);
	if (r == 0 && h->text.len && h->text.data[h->text.len - 1] != '\n')
		r = buf_add(&h->text, "\n", 1);
	if (r < 0) {
		buf_done(&h->text);
		return r;
	}
	h->rendered = true;
	return tree_read(io, NULL);
}

static uint32_t done_ready(struct handle *h, struct list **ret_wait)
{
	struct exec *x = h->ref.exec;

	*ret_wait = &x->changed;
	return x->state == EXEC_DONE ? POLLIN | POLLRDNORM : 0;
}

static ssize_t result_read(struct node_io *io, struct err *err)
{
	(void)err;
	return read_when_done(io, exec_result_print);
}

static int code_print(const struct exec *x, struct buf *out)
{
	return buf_printf(out, "%d\n", x->result.code);
}

static ssize_t code_read(struct node_io *io, struct err *err)
{
	(void)err;
	return read_when_done(io, code_print);
}

/* tar and rsync take the size for what there is to be copied. */
void result_attr(struct tree *tree, const struct node_ref *ref, const struct caller *who,
		 struct stat *st)
{
	struct exec *x = ref->exec;
	size_t json = arrival_result_size(x);

	(void)tree;
	(void)who;
	if (!json)
		return;
	st->st_size = ref->id == NODE_EXEC_CODE ? snprintf(NULL, 0, "%d\n", x->result.code)
						: (off_t)json + 1; /* with its newline */
	st->st_mtim = st->st_ctim = x->result.finished_at;
}

const struct node_ops result_ops = { .read = result_read, .ready = done_ready };
const struct node_ops code_ops = { .read = code_read, .ready = done_ready };
