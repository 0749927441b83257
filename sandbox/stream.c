/* stream.c - a command's output, from its pipe to its spool
 *
 * The spool is a file sandboxes/N/spool/SERIAL.out or .err, written by the writer
 * (disk.h), since the loop does not wait for a disk; the offset of a byte is the
 * same in the stream and in the file, which is made with the first byte: a silent
 * command leaves none.  A byte is in the pipe, in the memory that is shared with the
 * writer, or in the spool, never in this process alone: killing hutchd loses none
 * that was taken.
 *
 *	quiet		the loop reads the pipe into the shared memory; nearly all streams
 *	busy		the writer has the pipe, and splices (stream_pump.c)
 *	stalled		full: out of the loop until readers have consumed some (retain.c)
 *	starved		the disk is slow, and its owner's part of the memory full: out of
 *			the loop until there is room
 *	ended
 *
 * One thing can make the loop wait here: the kernel holds a pipe's lock while it copies from or to a
 * command's memory, also where that is mapped from a file that has yet to be read, and so does splice(2)
 * from a file.  There is no read(2) of a pipe that does not take that lock.
 *
 * stream_read.c is the way to the readers.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/text.h"
#include "sandbox/sandbox-internal.h"

#define DRAIN_PER_TURN (256 * 1024)
#define PIPE_DEF_SIZE  65536 /* the kernel's, of 16 pages */

static struct ev_loop *loop_of(const struct stream *st)
{
	return st->exec->sandbox->engine->loop;
}

struct disk *stream_disk(const struct stream *st)
{
	return st->exec->sandbox->engine->disk;
}

/* It is made for each piece of output, and whoever waits for that waits for it too. */
void stream_spool_name(const struct stream *st, char out[SPOOL_NAME_LEN])
{
	char *at = stpcpy(out, "sandboxes/");

	at = stpcpy(text_put_u32(at, st->exec->sandbox->serial), "/spool/");
	at = text_put_u32(at, st->exec->serial);
	memcpy(at, st->which == EXEC_STDOUT ? ".out" : ".err", sizeof(".out"));
}

/* --- its life --- */

static void on_pipe(struct ev_source *, uint32_t events);
static void on_pipe_released(struct ev_source *);
static void on_room(struct watch *);

void stream_init(struct stream *st, struct exec *ex, enum exec_stream which)
{
	*st = (struct stream){ .exec = ex, .which = which, .spool = -1 };
	st->src = (struct ev_source){ .fd = -1, .ready = on_pipe, .release = on_pipe_released };
	watch_init(&st->room, on_room);
	list_init(&st->changed);
	list_init(&st->readers);
	list_init(&st->stalled);
}

int stream_attach(struct stream *st, int fd)
{
	int r;

	st->src.fd = fd;
	st->changed_at = st->exec->created_at;
	r = ev_add(loop_of(st), &st->src, EPOLLIN);
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

void stream_end(struct stream *st)
{
	bool was_settling = st->settling;

	if (st->ended)
		return;
	st->ended = true;
	st->full = st->settling = false;
	list_del(&st->stalled);
	watch_cancel(&st->room);
	stream_pump_done(st);
	retain_count(st); /* what it was granted it does not need any more */
	if (st->src.fd >= 0) {
		ev_del(loop_of(st), &st->src);
		close_auto(&st->src.fd);
	}
	if (st->tty)
		exec_close_stdin(st->exec); /* the same terminal, which would take it for nothing */
	stream_close_idle(st);
	retain_over(st->exec);
	watch_fire_all(&st->changed);
	arrival_ended(st->exec);
	exec_trim_later(st->exec->sandbox);
	if (was_settling)
		exec_on_settled(st->exec);
}

/* The last reference may be the loop's, and outlive the engine: then nothing is left to be done. */
void stream_done(struct stream *st)
{
	if (st->opening.ticket)
		disk_cancel(stream_disk(st), &st->opening);
	if (st->bytes.ticket)
		disk_spool_done(stream_disk(st), &st->bytes);
	close_auto(&st->spool);
}

void stream_unlink(struct stream *st)
{
	char name[SPOOL_NAME_LEN];
	const struct disk_op op = { .what = DISK_UNLINK, .flags = DISK_MUST, .name = name };

	if (st->gone || (!st->size && !st->truncated)) /* truncated: it may be there, and empty */
		return;
	if (!list_empty(&st->readers))
		stream_want_spool(st); /* who has it open reads on */
	stream_spool_name(st, name);
	(void)disk_put(stream_disk(st), &op, NULL);
}

void stream_restore(struct stream *st)
{
	char name[SPOOL_NAME_LEN];

	st->ended = true;
	stream_spool_name(st, name);
	retain_restore(st, st->exec->sandbox->engine->store.fd, name);
}

/* --- from the pipe --- */

/* A terminal has not more than so many at a time, cannot be spliced, and says EIO at its end. */
static ssize_t throw_away_of_tty(const struct stream *st, size_t len)
{
	char bytes[4096];
	ssize_t n = read(st->src.fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes));

	return n >= 0 ? n : errno == EIO ? 0 : -errno;
}

static short look_into(const struct stream *st)
{
	struct pollfd p = { .fd = st->src.fd, .events = POLLIN };

	(void)poll(&p, 1, 0);
	return p.revents;
}

/* Something that is not its end. Not FIONREAD: a buffer without bytes is something, too. */
static bool has_more(const struct stream *st)
{
	return look_into(st) & POLLIN;
}

static bool pipe_empty(const struct stream *st)
{
	int bytes = 0;

	if (st->tty)
		return !has_more(st);
	return ioctl(st->src.fd, FIONREAD, &bytes) == 0 && bytes == 0;
}

/* What cannot be read can be thrown away, if there are descriptors for that.  Else it ends here. */
static ssize_t throw_away_unread(struct stream *st, size_t len)
{
	ssize_t n = disk_spool_discard(stream_disk(st), st->src.fd, len);

	if (n >= 0 || n == -EAGAIN)
		return n;
	st->truncated = true;
	return 0;
}

static ssize_t throw_away_of_pipe(struct stream *st, size_t len)
{
	ssize_t n = splice(st->src.fd, NULL, st->exec->sandbox->engine->null_fd, NULL, len,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0 || (n == 0 && !has_more(st)))
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	return throw_away_unread(st, len);
}

/* What cannot be kept, and must not stop the command. */
static ssize_t throw_away(struct stream *st, size_t len)
{
	ssize_t n = st->tty ? throw_away_of_tty(st, len) : throw_away_of_pipe(st, len);

	if (n > 0)
		st->truncated = true;
	return n;
}

/* The disk did not take what begins there. What is in front of it is whole, and is all there is. */
static void on_lost(struct disk_spool *bytes)
{
	struct stream *st = container_of(bytes, struct stream, bytes);
	struct exec *ex = exec_ref(st->exec);

	st->truncated = true;
	if (bytes->lost_at < st->size)
		st->size = bytes->lost_at;
	if (st->given > st->size)
		st->given = st->size;
	retain_count(st);
	arrival_lost(ex, st->which);
	if (st->pump) /* it would go on behind a hole */
		stream_pump_taken_back(st);
	retain_lost(st);
	watch_fire_all(&st->changed);
	exec_unref(ex);
}

static ssize_t take(struct stream *st, size_t len)
{
	struct disk *disk = stream_disk(st);
	char name[SPOOL_NAME_LEN];
	const struct disk_fill fill = {
		.name = name,
		.fd = st->src.fd,
		.tty = st->tty,
		.len = len,
		.share = st->exec->sandbox->uid,
	};
	ssize_t n;

	stream_spool_name(st, name);
	if (!st->bytes.ticket)
		disk_spool_init(disk, &st->bytes, st->size, on_lost);
	n = disk_spool_fill(disk, &st->bytes, &fill);
	if (n > 0) {
		st->size = st->bytes.size;
		retain_count(st);
	}
	return n == -EIO && st->tty ? 0 : n;
}

/* At most `len` bytes; of a stream that waits when it is full, `beyond` its limit if need be.
 * > 0: so many were moved or thrown away; 0: the end; -EAGAIN: empty; -EDQUOT: it is full;
 * -ENOBUFS: the writer has no room. */
static ssize_t drain(struct stream *st, size_t len, bool beyond)
{
	bool drops = st->exec->request.drops;
	uint64_t room = beyond && !drops ? UINT64_MAX : retain_room(st);
	ssize_t n;

	if (st->truncated) /* it would be at a place that is not its own */
		return throw_away(st, len);
	if (!room)
		return drops ? throw_away(st, len) : has_more(st) ? -EDQUOT : -EAGAIN;
	n = take(st, len < room ? len : (size_t)room);
	/* A full disk does not stop the command, a slow one does. */
	if (n == -ENOBUFS && disk_fault(stream_disk(st), NULL) < 0)
		return throw_away(st, len);
	if (n >= 0 || n == -EAGAIN || n == -ENOBUFS || st->tty)
		return n;
	st->truncated = true; /* what cannot be read is lost, if it is there still or not */
	return throw_away(st, len);
}

/* Returns what the last drain() said. */
static ssize_t drain_some(struct stream *st, size_t budget, bool beyond)
{
	size_t before = budget;
	uint64_t had = st->size;
	ssize_t n = -EAGAIN;

	while (budget > 0 && (n = drain(st, budget, beyond)) > 0) {
		if (n >= PIPE_DEF_SIZE && !st->widened) {
			st->widened = true; /* failing only costs speed */
			(void)fcntl(st->src.fd, F_SETPIPE_SZ, PIPE_BUSY_SIZE);
		}
		budget -= (size_t)n;
		if (n < DISK_FILL_MAX && !st->tty && !beyond) {
			n = -EAGAIN; /* that was all: what comes now, or the end, epoll tells */
			break;
		}
	}
	if (budget < before)
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &st->changed_at);
	arrival_add(st->exec, st->which, st->size - had);
	return n;
}

/* EPOLLHUP cannot be left out, and would be told of again and again: so it comes once. */
void stream_pause(struct stream *st)
{
	(void)ev_mod(loop_of(st), &st->src, EPOLLONESHOT);
}

void stream_resume(struct stream *st)
{
	if (!st->pump && !st->ended && list_empty(&st->room.link))
		(void)ev_mod(loop_of(st), &st->src, EPOLLIN);
}

static void starve(struct stream *st)
{
	stream_pause(st);
	watch_add(disk_room(stream_disk(st)), &st->room);
}

static void on_room(struct watch *w)
{
	struct stream *st = container_of(w, struct stream, room);
	struct exec *ex = exec_ref(st->exec);

	if (st->settling)
		stream_settle_on(st);
	if (st->full)
		stream_pause(st); /* its one event may have come meanwhile */
	else
		stream_resume(st);
	exec_unref(ex);
}

/* It filled its pipe again and again. */
static bool is_busy(const struct stream *st, uint64_t before)
{
	return st->widened && st->size - before >= DRAIN_PER_TURN / 2;
}

static void on_pipe(struct ev_source *src, uint32_t events)
{
	struct stream *st = container_of(src, struct stream, src);
	struct exec *ex = exec_ref(st->exec);
	uint64_t before = st->size;
	ssize_t n = 0;

	/* The one event of a stream that is out of the loop: nobody can write any more. */
	if (!list_empty(&st->room.link))
		goto out;
	if (st->full) { /* so what is left is little */
		stream_settle(st);
		goto out;
	}
	if (st->pump) /* the writer sees it too */
		goto out;
	/* From an empty pipe nothing is moved: so a silent command never makes a spool.  What was
	 * told of a stream that was out of the loop is the end alone, and may be met later. */
	if ((events & EPOLLIN) || !pipe_empty(st))
		n = drain_some(st, DRAIN_PER_TURN, false);
	if (n == -EDQUOT)
		retain_stall(st);
	else if (n == -ENOBUFS)
		starve(st);
	else if (n > 0 && is_busy(st, before))
		stream_pump_start(st);
	if (n == 0)
		stream_end(st);
	else if (st->size != before)
		watch_fire_all(&st->changed);
out:
	exec_unref(ex);
}

/* --- what is in the pipe now --- */

void stream_settled(struct stream *st)
{
	/* The writer, if it has the pipe, would have said that it is at its end, and may have moved more
	 * since then that we have not heard of. */
	if (!st->pump && (look_into(st) & ~POLLIN) && pipe_empty(st)) {
		stream_end(st); /* which tells */
		return;
	}
	st->settling = false;
	exec_on_settled(st->exec);
}

void stream_settle_on(struct stream *st)
{
	uint64_t before = st->size;
	ssize_t n = -EAGAIN;

	if (st->size < st->settle_to)
		n = drain_some(st, (size_t)(st->settle_to - st->size), true);
	if (st->size != before) {
		(void)retain_room(st); /* nobody asked for some: what is older makes it */
		watch_fire_all(&st->changed);
	}
	if (n == -ENOBUFS)
		starve(st);
	else
		stream_settled(st);
}

void stream_settle(struct stream *st)
{
	int pending = 0;

	if (st->ended || st->settling)
		return;
	if (st->src.fd < 0) { /* the command ends before it had a pipe */
		stream_end(st);
		return;
	}
	st->settling = true;
	if (st->pump) {
		stream_pump_settle(st);
		return;
	}
	if (st->tty)
		pending = PTY_HOLDS_MAX;
	else
		(void)ioctl(st->src.fd, FIONREAD, &pending);
	st->settle_to = st->size + (uint64_t)pending;
	stream_settle_on(st);
}
