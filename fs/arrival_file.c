/* arrival_file.c - output and frames: both streams of a command in one file */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/tree.h"
#include "sandbox/exec.h"

static bool is_frames(const struct node_ref *ref)
{
	return ref->id == NODE_EXEC_FRAMES;
}

static int arrival_file_open(struct handle *h, struct err *err)
{
	struct arrival_reader *rd = malloc(sizeof(*rd));

	if (!rd)
		return err_set(err, ENOMEM, "open");
	arrival_open(rd, h->ref.exec, is_frames(&h->ref));
	h->arrival = rd;
	return 0;
}

static ssize_t arrival_file_read(struct node_io *io, struct err *err)
{
	struct exec *x = io->handle->ref.exec;
	ssize_t n;

	(void)err;
	if (!io->handle->arrival)
		return -EBADF;
	n = arrival_read(io->handle->arrival, io->bytes, io->len, io->off);
	/* As with a single stream: nothing is coming of a node without a command. */
	if (n == -EAGAIN && !x->unwritten)
		io->wait = &x->arrival.changed;
	io->from_disk = n == -EAGAIN && arrival_has(io->handle->arrival, io->off);
	return n;
}

static void arrival_file_release(struct handle *h)
{
	if (h->arrival)
		arrival_close(h->arrival);
	free(h->arrival);
	h->arrival = NULL;
}

static uint32_t arrival_file_ready(struct handle *h, struct list **ret_wait)
{
	if (!h->arrival)
		return POLLERR;
	*ret_wait = &h->ref.exec->arrival.changed;
	return arrival_ready(h->arrival);
}

const struct node_ops arrival_ops = {
	.open = arrival_file_open,
	.read = arrival_file_read,
	.release = arrival_file_release,
	.ready = arrival_file_ready,
};

static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

void arrival_attr(struct tree *tree, const struct node_ref *ref, const struct caller *who,
		  struct stat *st)
{
	const struct exec *x = ref->exec;

	(void)tree;
	(void)who;
	st->st_size = (off_t)arrival_size(ref->exec, is_frames(ref));
	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		if (is_later(&x->stream[i].changed_at, &st->st_mtim))
			st->st_mtim = st->st_ctim = x->stream[i].changed_at;
	if (is_frames(ref) && x->state == EXEC_DONE)
		st->st_mtim = st->st_ctim = x->result.finished_at;
}
