/* fuse_io.c - open files: their requests, and what makes them wait */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fuse-internal.h"

/* Of newer kernels than the headers may be; the numbers are the protocol's. */
#ifndef FOPEN_NOFLUSH
#define FOPEN_NOFLUSH (1 << 5)
#endif
#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

/* Who polls an open file. */
struct poller {
	struct fuse_pollhandle *ph; /* owned; the newest */
	struct fuse_wake wake;
};

/* libfuse 3.14 has no field for FOPEN_STREAM, so the answer is filled in by hand.  STREAM takes away
 * the lock by which a reader and a writer of one descriptor would wait for each other. */
static struct fuse_open_out open_answer(const struct handle *h)
{
	struct fuse_open_out out = { .fh = handle_number(h), .open_flags = FOPEN_DIRECT_IO };

	if (h->def->flags & NODE_STREAM)
		out.open_flags |= FOPEN_STREAM | FOPEN_PARALLEL_DIRECT_WRITES;
	if (!(h->def->flags & NODE_FLUSHED) || !handle_writes(h))
		out.open_flags |= FOPEN_NOFLUSH;
	return out;
}

void fuse_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct caller who = fuse_caller(req);
	struct fuse_open_out out;
	struct err err = { 0 };
	struct node_ref ref;
	struct handle *h;
	int r = fuse_resolve(srv, ino, &ref);

	if (r < 0) {
		(void)fuse_reply_err(req, -r);
		return;
	}
	r = tree_open(srv->tree, &ref, &who, fi->flags, &h, &err);
	if (r < 0 && access_of_flags(fi->flags) & ACCESS_WRITE) {
		fuse_refuse(srv, req, &ref, NULL, &err);
		return;
	}
	if (r < 0) {
		(void)fuse_reply_err(req, -r);
		return;
	}
	out = open_answer(h);
	/* Interrupted: there will be no RELEASE. */
	if (fuse_reply_buf(req, (const char *)&out, sizeof(out)) == -ENOENT)
		fuse_close_handle(h);
}

/* READ */

static void answer_read(struct fuse_server *srv, fuse_req_t req, struct node_io *io, ssize_t n)
{
	if (n < 0)
		(void)fuse_reply_err(req, (int)-n);
	else if (io->send_fd > 0)
		fuse_send(req, io, (size_t)n);
	else
		(void)fuse_reply_buf(req, srv->out, (size_t)n);
}

static bool read_again(struct parked *p)
{
	ssize_t n;

	p->io.bytes = p->server->out;
	n = tree_read(&p->io, NULL);
	if (n == -EAGAIN && p->io.wait)
		return false;
	answer_read(p->server, p->req, &p->io, n);
	return true;
}

static void read_interrupted(struct parked *p)
{
	(void)fuse_reply_err(p->req, EINTR);
}

/* A read that is refused is told in `error` only where it commits a request, and there it has been. */
void fuse_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct parked p = {
		.server = srv,
		.req = req,
		.again = read_again,
		.interrupted = read_interrupted,
		.io = { .handle = handle_find(srv->tree, fi->fh),
			.bytes = srv->out,
			.len = size < FUSE_IO_MAX ? size : FUSE_IO_MAX,
			.off = (uint64_t)off,
			.send_max = srv->send_max,
			.unique = srv->unique,
			.pid = fuse_req_ctx(req)->pid },
	};
	ssize_t n;

	(void)ino;
	if (!p.io.handle) {
		(void)fuse_reply_err(req, EBADF);
		return;
	}
	n = tree_read(&p.io, NULL);
	if (n == -EAGAIN && p.io.wait && (!(fi->flags & O_NONBLOCK) || p.io.from_disk)) {
		p.uid = p.io.handle->uid;
		if (fuse_park(&p, NULL))
			return;
	}
	answer_read(srv, req, &p.io, n);
}

/* WRITE */

static void refuse_write(struct parked *p, int r, struct err *err)
{
	const struct handle *h = p->io.handle;

	if (!err->code)
		(void)err_set(err, -r, "write");
	/* The opener's file, whoever it was passed to.  The `new` files record by themselves: what
	 * is refused at a FLUSH or RELEASE is not seen here. */
	if (!(h->def->flags & NODE_FLUSHED))
		tree_refuse(p->server->tree, h->uid, &h->ref, NULL, err);
	(void)fuse_reply_err(p->req, -r);
}

static bool write_again(struct parked *p)
{
	struct err err = { 0 };
	ssize_t n = tree_write(&p->io, &err);

	if (n == -EAGAIN && p->io.wait)
		return false;
	/* Of which a part was taken, that is the answer, and the next write hears of the error.  Where
	 * all was taken, the outcome is what it waited for. */
	if (n >= 0)
		(void)fuse_reply_write(p->req, p->before + (size_t)n);
	else if (p->before && p->io.len)
		(void)fuse_reply_write(p->req, p->before);
	else
		refuse_write(p, (int)n, &err);
	return true;
}

static void write_interrupted(struct parked *p)
{
	size_t done = p->before + p->io.done;

	if (done)
		(void)fuse_reply_write(p->req, done);
	else
		(void)fuse_reply_err(p->req, EINTR);
}

/* The request's bytes are in the session's buffer, which the next request overwrites. */
static bool park_write(struct parked *p, struct err *err)
{
	size_t left = p->io.len - p->io.done;
	size_t bytes = left ? left : 1;

	p->copy = malloc(bytes);
	if (!p->copy) {
		(void)err_set(err, ENOMEM, "wait with %zu bytes", left);
		return false;
	}
	memcpy(p->copy, p->io.bytes + p->io.done, left);
	p->before = p->io.done;
	p->io.bytes = p->copy;
	p->io.len = left;
	p->io.off += p->io.done;
	p->io.done = 0;
	p->uid = p->io.handle->uid;
	p->bytes = bytes;
	if (fuse_park(p, err))
		return true;
	free(p->copy);
	return false;
}

static void write_now(struct parked *p, bool nonblock)
{
	struct err err = { 0 };
	ssize_t n = tree_write(&p->io, &err);

	if (n == -EAGAIN && p->io.wait) {
		if (!nonblock && park_write(p, &err))
			return;
		if (nonblock)
			err.code = EAGAIN;
		p->before = p->before ? p->before : p->io.done;
		n = p->before ? 0 : -err.code;
	}
	if (p->io.drop && p->io.state)
		p->io.drop(&p->io);
	if (n >= 0)
		(void)fuse_reply_write(p->req, p->before + (size_t)n);
	else if (n == -EAGAIN && nonblock)
		(void)fuse_reply_err(p->req, EAGAIN); /* not a refusal */
	else
		refuse_write(p, (int)n, &err);
}

void fuse_op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t off,
		   struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct parked p = {
		.server = srv,
		.req = req,
		.again = write_again,
		.interrupted = write_interrupted,
		.io = { .handle = handle_find(srv->tree, fi->fh),
			.len = size,
			.off = (uint64_t)off,
			.append = fi->flags & O_APPEND,
			.owner = fi->lock_owner,
			.unique = srv->unique,
			.pid = fuse_req_ctx(req)->pid },
	};

	(void)ino;
	if (!p.io.handle) {
		(void)fuse_reply_err(req, EBADF);
		return;
	}
	memcpy(&p.io.bytes, &bytes, sizeof(bytes)); /* not written to: node_io serves both ways */
	write_now(&p, fi->flags & O_NONBLOCK);
}

/* FLUSH and RELEASE */

void fuse_op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct node_io io = {
		.handle = handle_find(srv->tree, fi->fh),
		.owner = fi->lock_owner,
		.unique = srv->unique,
		.pid = fuse_req_ctx(req)->pid,
	};
	struct err err = { 0 };

	(void)ino;
	if (!io.handle)
		(void)fuse_reply_err(req, EBADF);
	else
		(void)fuse_reply_err(req, -tree_flush(&io, &err));
}

static void free_poller(struct handle *h)
{
	struct poller *poller = h->server;

	if (!poller)
		return;
	fuse_wake_cancel(&poller->wake);
	if (poller->ph)
		fuse_pollhandle_destroy(poller->ph);
	free(poller);
	h->server = NULL;
}

void fuse_close_handle(struct handle *h)
{
	free_poller(h);
	handle_close(h);
}

void fuse_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct handle *h = handle_find(srv->tree, fi->fh);

	(void)ino;
	if (h)
		fuse_close_handle(h);
	(void)fuse_reply_err(req, 0);
}

/* POLL */

/* One notification per poll handle: the kernel asks again, with a new one. */
static void on_pollable(struct fuse_wake *w)
{
	struct poller *poller = container_of(w, struct poller, wake);
	struct fuse_pollhandle *ph = TAKE_PTR(poller->ph);

	if (!ph)
		return;
	(void)fuse_lowlevel_notify_poll(ph);
	fuse_pollhandle_destroy(ph);
}

static void keep_poller(struct fuse_server *srv, struct handle *h, struct fuse_pollhandle *ph,
			struct list *wait)
{
	struct poller *poller = h->server;

	if (!poller && wait) {
		poller = calloc(1, sizeof(*poller));
		if (poller) {
			fuse_wake_init(&poller->wake, srv, on_pollable);
			h->server = poller;
		}
	}
	if (!poller || !wait) {
		fuse_pollhandle_destroy(ph);
		return;
	}
	if (poller->ph)
		fuse_pollhandle_destroy(poller->ph);
	poller->ph = ph;
	fuse_wake_on(&poller->wake, wait);
}

void fuse_op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
		  struct fuse_pollhandle *ph)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct handle *h = handle_find(srv->tree, fi->fh);
	struct list *wait = NULL;
	uint32_t mask;

	(void)ino;
	mask = h ? tree_ready(h, &wait) : POLLERR;
	if (ph && h)
		keep_poller(srv, h, ph, wait);
	else if (ph)
		fuse_pollhandle_destroy(ph);
	(void)fuse_reply_poll(req, mask);
}
