/* stream.c - a command's output: from its pipe to its spool, from there to any reader
 *
 * The pipe is drained by splice, so a byte is in the pipe or in the spool and
 * never only in this process: killing hutchd loses none that was drained.  The
 * spool is a file sandboxes/N/spool/SERIAL.out or .err; its offsets are the
 * stream's.  It is made with the first byte: a silent command leaves no file.
 *
 * States: attached (the pipe is open) -> ended.  Between them it may stall and go
 * on again any number of times: see retain.c.  The spool's descriptor is held while
 * the pipe is open and there was a byte, or while somebody reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

#define DRAIN_PER_TURN (256 * 1024)
#define PIPE_DEF_SIZE  65536         /* the kernel's, of 16 pages */
#define PIPE_BUSY_SIZE (1024 * 1024) /* of a stream that has filled its pipe */
#define SPOOL_NAME_LEN 64

static void on_pipe(struct ev_source *, uint32_t events);
static void on_pipe_released(struct ev_source *);

static void spool_name(const struct stream *st, char out[SPOOL_NAME_LEN])
{
	(void)snprintf(out, SPOOL_NAME_LEN, "sandboxes/%u/spool/%u.%s", st->exec->sandbox->serial,
		       st->exec->serial, st->which == EXEC_STDOUT ? "out" : "err");
}

static int state_fd(const struct stream *st)
{
	return st->exec->sandbox->engine->store.fd;
}

void stream_init(struct stream *st, struct exec *ex, enum exec_stream which)
{
	*st = (struct stream){ .exec = ex, .which = which, .spool = -1 };
	st->src = (struct ev_source){ .fd = -1, .ready = on_pipe, .release = on_pipe_released };
	list_init(&st->changed);
	list_init(&st->readers);
	list_init(&st->stalled);
}

int stream_attach(struct stream *st, int fd)
{
	int r;

	st->src.fd = fd;
	st->changed_at = st->exec->created_at;
	r = ev_add(st->exec->sandbox->engine->loop, &st->src, EPOLLIN);
	if (r < 0) {
		close_auto(&st->src.fd);
		return r;
	}
	exec_ref(st->exec); /* the loop's */
	return 0;
}

static void on_pipe_released(struct ev_source *src)
{
	exec_unref(container_of(src, struct stream, src)->exec);
}

static void close_idle_spool(struct stream *st)
{
	if (st->ended && list_empty(&st->readers))
		close_auto(&st->spool);
}

void stream_end(struct stream *st)
{
	if (st->ended)
		return;
	st->ended = true;
	st->full = false;
	list_del(&st->stalled);
	if (st->src.fd >= 0) {
		ev_del(st->exec->sandbox->engine->loop, &st->src);
		close_auto(&st->src.fd);
	}
	if (st->tty)
		exec_close_stdin(st->exec); /* the same terminal, which would take it for nothing */
	close_idle_spool(st);
	retain_over(st->exec);
	watch_fire_all(&st->changed);
	exec_trim_later(st->exec->sandbox);
}

void stream_done(struct stream *st)
{
	close_auto(&st->spool);
}

void stream_unlink(struct stream *st)
{
	char name[SPOOL_NAME_LEN];

	if (st->gone || (!st->size && !st->truncated)) /* truncated: it may be there, and empty */
		return;
	spool_name(st, name);
	(void)unlinkat(state_fd(st), name, 0);
}

void stream_restore(struct stream *st)
{
	char name[SPOOL_NAME_LEN];

	st->ended = true;
	spool_name(st, name);
	retain_restore(st, state_fd(st), name);
}

/* --- from the pipe to the spool --- */

static int open_spool(struct stream *st, int flags)
{
	char name[SPOOL_NAME_LEN];

	if (st->spool >= 0)
		return 0;
	spool_name(st, name);
	st->spool = openat(state_fd(st), name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	return st->spool < 0 ? -errno : 0;
}

/* What cannot be kept, and must not stop the command. */
static ssize_t throw_away(struct stream *st, size_t len)
{
	char bytes[4096]; /* a terminal has no more at a time, and cannot be spliced */
	ssize_t n = st->tty ? read(st->src.fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes))
			    : splice(st->src.fd, NULL, st->exec->sandbox->engine->null_fd, NULL,
				     len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0)
		st->truncated = true;
	return n >= 0 ? n : st->tty && errno == EIO ? 0 : -errno;
}

static bool pipe_empty(const struct stream *st)
{
	struct pollfd p = { .fd = st->src.fd, .events = POLLIN };
	int bytes = 0;

	if (st->tty)
		return poll(&p, 1, 0) <= 0 || !(p.revents & POLLIN);
	return ioctl(st->src.fd, FIONREAD, &bytes) == 0 && bytes == 0;
}

/* At most `len` bytes; of a stream that waits when it is full, `beyond` its limit if need be.
 * > 0: so many were moved or thrown away; 0: the end; -EAGAIN: empty; -EDQUOT: it is full. */
static ssize_t drain(struct stream *st, size_t len, bool beyond)
{
	bool drops = st->exec->request.drops;
	uint64_t room = beyond && !drops ? UINT64_MAX : retain_room(st);
	loff_t at = (loff_t)st->size;
	ssize_t n;

	if (!room)
		return drops ? throw_away(st, len) : pipe_empty(st) ? -EAGAIN : -EDQUOT;
	if (open_spool(st, O_RDWR | O_CREAT | O_TRUNC) < 0)
		return throw_away(st, len);
	if (st->tty)
		n = pty_drain(st, len < room ? len : (size_t)room);
	else if ((n = splice(st->src.fd, NULL, st->spool, &at, len < room ? len : (size_t)room,
			     SPLICE_F_MOVE | SPLICE_F_NONBLOCK)) > 0)
		st->size += (uint64_t)n;
	if (n > 0)
		retain_count(st);
	if (n >= 0 || st->tty)
		return n;
	return errno == EAGAIN || errno == EINTR ? -EAGAIN : throw_away(st, len);
}

/* Returns what the last drain() said. */
static ssize_t drain_some(struct stream *st, size_t budget, bool beyond)
{
	size_t before = budget;
	ssize_t n = -EAGAIN;

	while (budget > 0 && (n = drain(st, budget, beyond)) > 0) {
		if (n >= PIPE_DEF_SIZE && !st->widened) {
			st->widened = true; /* failing only costs speed */
			(void)fcntl(st->src.fd, F_SETPIPE_SZ, PIPE_BUSY_SIZE);
		}
		budget -= (size_t)n;
	}
	if (budget < before)
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &st->changed_at);
	return n;
}

static void on_pipe(struct ev_source *src, uint32_t events)
{
	struct stream *st = container_of(src, struct stream, src);
	struct exec *ex = exec_ref(st->exec);
	uint64_t before = st->size;
	ssize_t n = 0;

	if (st->full) { /* its one event: nobody can write any more, so what is left is little */
		stream_settle(st);
		exec_unref(ex);
		return;
	}
	/* From an empty pipe nothing is moved: so a silent command never opens a spool.  What was
	 * told of a stalled stream is the end alone, and may be met when it goes on again. */
	if ((events & EPOLLIN) || !pipe_empty(st))
		n = drain_some(st, DRAIN_PER_TURN, false);
	if (n == -EDQUOT)
		retain_stall(st);
	if (n == 0)
		stream_end(st);
	else if (st->size != before)
		watch_fire_all(&st->changed);
	exec_unref(ex);
}

void stream_settle(struct stream *st)
{
	struct pollfd p = { .fd = st->src.fd, .events = POLLIN };
	uint64_t before = st->size;
	int pending = 0;

	if (st->ended)
		return;
	if (st->src.fd < 0) { /* the command ends before it had a pipe */
		stream_end(st);
		return;
	}
	if (st->tty)
		pending = PTY_HOLDS_MAX;
	if ((st->tty || ioctl(st->src.fd, FIONREAD, &pending) == 0) && pending > 0)
		(void)drain_some(st, (size_t)pending, true);
	if (poll(&p, 1, 0) == 1 && !(p.revents & POLLIN))
		stream_end(st);
	else if (st->size != before)
		watch_fire_all(&st->changed);
}

/* --- from the spool to a reader --- */

int stream_open(struct stream_reader *rd, struct stream *st, struct err *err)
{
	int r = st->size && !st->gone ? open_spool(st, O_RDONLY) : 0;

	if (r < 0)
		return err_set(err, -r, "open the spool of %s",
			       st->which == EXEC_STDOUT ? "stdout" : "stderr");
	*rd = (struct stream_reader){ .stream = st };
	list_add_tail(&st->readers, &rd->link);
	return 0;
}

void stream_close(struct stream_reader *rd)
{
	struct stream *st = rd->stream;

	if (!st)
		return;
	rd->stream = NULL;
	list_del(&rd->link);
	if (!rd->jumps && rd->end > st->consumed)
		st->consumed = rd->end;
	retain_consumed(st);
	close_idle_spool(st);
}

/* The first read may begin anywhere; a shell goes back within what it has read. */
static void note_place(struct stream_reader *rd, uint64_t off)
{
	if (rd->end && (off > rd->end || off < rd->from))
		rd->jumps = true;
	rd->from = off;
	if (rd->end < off)
		rd->end = off;
}

ssize_t stream_read(struct stream_reader *rd, void *bytes, size_t len, uint64_t off)
{
	struct stream *st = rd->stream;
	ssize_t n;

	if (off < st->given)
		return -EIO;
	if (off >= st->size && st->ended)
		return 0;
	note_place(rd, off);
	retain_consumed(st);
	if (off >= st->size)
		return -EAGAIN;
	if (len > st->size - off)
		len = (size_t)(st->size - off);
	n = pread(st->spool, bytes, len, (off_t)off);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -EIO; /* somebody has cut the spool */
	if (rd->end < off + (uint64_t)n)
		rd->end = off + (uint64_t)n;
	retain_consumed(st);
	return n;
}

uint32_t stream_ready(const struct stream *st, uint64_t off)
{
	return (off < st->size || st->ended ? EPOLLIN : 0) | (st->ended ? EPOLLHUP : 0);
}
