/* stream_read.c - from a stream to its readers
 *
 * A byte is found in the memory that is shared with the writer, or else in the
 * spool; what the kernel has of that in its cache is read here, and the rest by the
 * writer, since the loop does not wait for a disk.  Then a reader waits as for bytes
 * that are not there yet.
 */
#include <errno.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

#define FETCH_MIN ((size_t)256 << 10) /* the next read is likely to begin where this one ends */

/* --- the spool, open for reading --- */

void stream_close_idle(struct stream *st)
{
	if (st->ended && list_empty(&st->readers))
		close_auto(&st->spool);
}

/* Who waits for bytes of it that are there. */
static void wake_readers(struct stream *st)
{
	struct exec *ex = exec_ref(st->exec);

	watch_fire_all(&st->changed);
	watch_fire_all(&ex->arrival.changed);
	exec_unref(ex);
}

static void on_opened(struct disk_done *done, int fd, const struct err *err)
{
	struct stream *st = container_of(done, struct stream, opening);

	(void)err; /* who waits for it is told, see open_spool() */
	st->spool = fd;
	st->open_fails += fd < 0;
	stream_close_idle(st);
	wake_readers(st);
}

static int not_there(const struct stream *st)
{
	return st->exec->sandbox->removed ? -ESTALE : -EIO;
}

int stream_want_spool(struct stream *st)
{
	char name[SPOOL_NAME_LEN];

	if (st->spool >= 0)
		return 0;
	if (st->opening.ticket)
		return -EAGAIN;
	if (st->gone)
		return not_there(st);
	st->opening.fn = on_opened;
	stream_spool_name(st, name);
	return disk_open(stream_disk(st), name, &st->opening, NULL) < 0 ? -EIO : -EAGAIN;
}

/* The writer may have had no descriptor for it, or the disk an error: so who waited is told once, and
 * the next read asks again. */
static int open_spool(struct stream_reader *rd)
{
	struct stream *st = rd->stream;
	bool failed = rd->opens && rd->open_fails != st->open_fails && st->spool < 0;
	int r = failed ? not_there(st) : stream_want_spool(st);

	rd->opens = r == -EAGAIN;
	rd->open_fails = st->open_fails;
	return r;
}

/* --- readers --- */

void stream_open(struct stream_reader *rd, struct stream *st)
{
	*rd = (struct stream_reader){ .stream = st, .fetched = -1 };
	list_add_tail(&st->readers, &rd->link);
}

void stream_leave(struct stream_reader *rd)
{
	struct stream *st = rd->stream;

	if (rd->jumps)
		return;
	if (rd->end > st->consumed)
		st->consumed = rd->end;
	rd->jumps = true;
	retain_consumed(st);
}

void stream_close(struct stream_reader *rd)
{
	struct stream *st = rd->stream;
	uint64_t reached;

	if (!st)
		return;
	if (rd->fetch.ticket) /* else the engine may have gone */
		disk_cancel(stream_disk(st), &rd->fetch);
	close_auto(&rd->fetched);
	rd->stream = NULL;
	list_del(&rd->link);
	reached = rd->end < st->size ? rd->end : st->size; /* it may have waited behind the end */
	if (!rd->jumps && reached > st->consumed)
		st->consumed = reached;
	retain_consumed(st);
	stream_close_idle(st);
}

static void on_fetched(struct disk_done *done, int fd, const struct err *err)
{
	struct stream_reader *rd = container_of(done, struct stream_reader, fetch);

	close_auto(&rd->fetched);
	rd->fetched = fd;
	rd->failed = err || fd < 0;
	wake_readers(rd->stream);
}

/* What the writer has read for it, or has yet to read. */
static ssize_t fetch(struct stream_reader *rd, void *bytes, size_t len, uint64_t off)
{
	struct disk_fetch what = { rd->stream->spool, off, len > rd->ahead ? len : rd->ahead };
	ssize_t n;

	if (rd->fetch.ticket)
		return -EAGAIN;
	if (rd->failed && rd->fetch_off == off) {
		rd->failed = false;
		return -EIO;
	}
	if (rd->fetched >= 0 && off >= rd->fetch_off) {
		n = pread(rd->fetched, bytes, len, (off_t)(off - rd->fetch_off));
		if (n > 0 || off == rd->fetch_off)
			return n > 0 ? n : -EIO;
	}
	what.len = what.len > FETCH_MIN ? what.len : FETCH_MIN;
	close_auto(&rd->fetched); /* it is of another place */
	rd->fetch.fn = on_fetched;
	rd->fetch_off = off;
	if (disk_fetch(stream_disk(rd->stream), &what, &rd->fetch, NULL) < 0)
		return -EIO;
	return -EAGAIN;
}

/* Some of the `len` bytes that are there. */
static ssize_t get_some(struct stream_reader *rd, void *bytes, size_t len, uint64_t off)
{
	struct stream *st = rd->stream;
	size_t got = st->bytes.ticket
			     ? disk_spool_peek(stream_disk(st), &st->bytes, bytes, len, off)
			     : 0;
	ssize_t n;

	if (got)
		return (ssize_t)got;
	n = open_spool(rd);
	if (n < 0)
		return n;
	n = disk_read_cached(st->spool, bytes, len, off);
	if (n == -EAGAIN)
		return fetch(rd, bytes, len, off);
	return n ? n : -EIO; /* somebody has cut the spool */
}

/* All of them: whoever gets fewer takes that for the end, as tar does.  While the first part is read
 * again the last one may have left the cache; but what is fetched covers all from there on, so
 * that comes to an end. */
static ssize_t get(struct stream_reader *rd, char *bytes, size_t len, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = get_some(rd, bytes + done, len - done, off + done);

		if (n == -EAGAIN || (n < 0 && !done))
			return n;
		if (n < 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* So many of `len` bytes there are; 0: it is at its true end; -EAGAIN, -EIO. */
static ssize_t count(const struct stream *st, size_t len, uint64_t off)
{
	if (off < st->given)
		return -EIO;
	if (off >= st->size)
		return st->ended ? 0 : -EAGAIN;
	return (ssize_t)(len < st->size - off ? len : st->size - off);
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

/* As count(), for a reader who has come to `off`. */
static ssize_t find(struct stream_reader *rd, size_t len, uint64_t off)
{
	ssize_t n = count(rd->stream, len, off);

	if (n == 0 || n == -EIO)
		return n;
	note_place(rd, off);
	retain_consumed(rd->stream);
	return count(rd->stream, len, off);
}

void stream_took(struct stream_reader *rd, size_t n, uint64_t off)
{
	if (rd->end < off + n)
		rd->end = off + n;
	retain_consumed(rd->stream);
}

ssize_t stream_read(struct stream_reader *rd, void *bytes, size_t len, uint64_t off)
{
	ssize_t n = find(rd, len, off);

	if (n > 0)
		n = get(rd, bytes, (size_t)n, off);
	if (n > 0)
		stream_took(rd, (size_t)n, off);
	return n;
}

ssize_t stream_look(struct stream_reader *rd, void *bytes, size_t len, uint64_t off)
{
	ssize_t n = count(rd->stream, len, off);

	return n > 0 ? get(rd, bytes, (size_t)n, off) : n;
}

void stream_passed(struct stream_reader *rd, uint64_t from, uint64_t to)
{
	if (from < rd->stream->given)
		return;
	note_place(rd, from);
	stream_took(rd, (size_t)(to - from), from);
}

ssize_t stream_extent(struct stream_reader *rd, size_t least, size_t len, uint64_t off, int *ret_fd)
{
	struct stream *st = rd->stream;
	uint64_t written = disk_spool_written(stream_disk(st), &st->bytes);
	ssize_t n = len < least ? 0 : find(rd, len, off);

	if (n <= 0)
		return n;
	if (off >= written || (uint64_t)n > written - off)
		return 0;
	/* Small ones are not looked at twice. */
	if ((size_t)n < least || st->spool < 0 || !disk_is_cached(st->spool, (size_t)n, off))
		return 0;
	*ret_fd = st->spool;
	return n;
}

uint32_t stream_ready(const struct stream *st, uint64_t off)
{
	return (off < st->size || st->ended ? EPOLLIN : 0) | (st->ended ? EPOLLHUP : 0);
}
