/* stream.c - a command's output: from its pipe to its spool, from there to any reader
 *
 * The pipe is drained by splice, so a byte is in the pipe or in the spool and
 * never only in this process: killing hutchd loses none that was drained.  The
 * spool is a file sandboxes/N/spool/SERIAL.out or .err; its offsets are the
 * stream's.  It is made with the first byte: a silent command leaves no file.
 *
 * States: attached (the pipe is open) -> ended.  The spool's descriptor is held
 * while the pipe is open and there was a byte, or while somebody reads.
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
	if (st->ended && !st->readers)
		close_auto(&st->spool);
}

void stream_end(struct stream *st)
{
	if (st->ended)
		return;
	st->ended = true;
	if (st->src.fd >= 0) {
		ev_del(st->exec->sandbox->engine->loop, &st->src);
		close_auto(&st->src.fd);
	}
	close_idle_spool(st);
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

	if (!st->size && !st->truncated) /* truncated: it may be there, and empty */
		return;
	spool_name(st, name);
	(void)unlinkat(state_fd(st), name, 0);
}

void stream_restore(struct stream *st)
{
	char name[SPOOL_NAME_LEN];
	struct stat info;

	st->ended = true;
	spool_name(st, name);
	if (fstatat(state_fd(st), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
		st->size = (uint64_t)info.st_size;
		st->changed_at = info.st_mtim;
	}
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

/* What cannot be kept is not left in the pipe either, where it would stop the command. */
static ssize_t throw_away(struct stream *st, size_t len)
{
	char bytes[65536];
	ssize_t n = read(st->src.fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes));

	if (n > 0)
		st->truncated = true;
	return n < 0 ? -errno : n;
}

/* At most `len` bytes. > 0: so many were moved or thrown away; 0: the end; -EAGAIN: empty. */
static ssize_t drain(struct stream *st, size_t len)
{
	loff_t at = (loff_t)st->size;
	ssize_t n;

	if (open_spool(st, O_RDWR | O_CREAT | O_TRUNC) < 0)
		return throw_away(st, len);
	n = splice(st->src.fd, NULL, st->spool, &at, len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0)
		st->size += (uint64_t)n;
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? -EAGAIN : throw_away(st, len);
}

/* Returns what the last drain() said. */
static ssize_t drain_some(struct stream *st, size_t budget)
{
	size_t before = budget;
	ssize_t n = -EAGAIN;

	while (budget > 0 && (n = drain(st, budget)) > 0) {
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

	/* Without EPOLLIN nothing is in it: so a silent command never opens a spool. */
	if (!(events & EPOLLIN) || drain_some(st, DRAIN_PER_TURN) == 0)
		stream_end(st);
	else if (st->size != before)
		watch_fire_all(&st->changed);
	exec_unref(ex);
}

void stream_settle(struct stream *st)
{
	struct pollfd p = { .fd = st->src.fd, .events = POLLIN };
	uint64_t before = st->size;
	int pending;

	if (st->ended)
		return;
	if (st->src.fd < 0) { /* the command ends before it had a pipe */
		stream_end(st);
		return;
	}
	if (ioctl(st->src.fd, FIONREAD, &pending) == 0 && pending > 0)
		(void)drain_some(st, (size_t)pending);
	if (poll(&p, 1, 0) == 1 && !(p.revents & POLLIN))
		stream_end(st);
	else if (st->size != before)
		watch_fire_all(&st->changed);
}

/* --- from the spool to a reader --- */

int stream_open(struct stream *st, struct err *err)
{
	int r = st->size ? open_spool(st, O_RDONLY) : 0;

	if (r < 0)
		return err_set(err, -r, "open the spool of %s",
			       st->which == EXEC_STDOUT ? "stdout" : "stderr");
	st->readers++;
	return 0;
}

void stream_close(struct stream *st)
{
	st->readers--;
	close_idle_spool(st);
}

ssize_t stream_read(struct stream *st, void *bytes, size_t len, uint64_t off)
{
	ssize_t n;

	if (off >= st->size)
		return st->ended ? 0 : -EAGAIN;
	if (len > st->size - off)
		len = (size_t)(st->size - off);
	n = pread(st->spool, bytes, len, (off_t)off);
	if (n < 0)
		return -errno;
	return n ? n : -EIO; /* somebody has cut the spool */
}

uint32_t stream_ready(const struct stream *st, uint64_t off)
{
	return (off < st->size || st->ended ? EPOLLIN : 0) | (st->ended ? EPOLLHUP : 0);
}
