/* arrival_index.c - the file of an index: sandboxes/N/spool/SERIAL.idx
 *
 * It only grows, a block after the other; arrival.c says what is in one.  As with a
 * stream's bytes the loop does not wait for a disk: what is added goes into the memory
 * that is shared with the writer, and is read from there until it is in the file.  The
 * rest is read through a descriptor that the writer opens, where the kernel has it in
 * its cache, or else by the writer.  Then a reader waits as for bytes that are not
 * there yet, and goes on where it was: what it has found out of a long index is true
 * for ever.
 *
 * Only arrival_index_load() reads by itself: the tree is not served yet.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/arrival-internal.h"

#define FETCH_LEN ((size_t)16 * ARRIVAL_BLOCK) /* the next block is likely to be read next */

static struct exec *exec_of(struct arrival *a)
{
	return container_of(a, struct exec, arrival);
}

static struct disk *disk_of(const struct exec *ex)
{
	return ex->sandbox->engine->disk;
}

void arrival_index_name(const struct exec *ex, char out[ARRIVAL_NAME_LEN])
{
	(void)snprintf(out, ARRIVAL_NAME_LEN, "sandboxes/%u/spool/%u.idx", ex->sandbox->serial,
		       ex->serial);
}

/* --- its life --- */

static void on_room(struct watch *w)
{
	watch_fire_all(&container_of(w, struct arrival, room)->changed);
}

void arrival_index_init(struct arrival *a)
{
	watch_init(&a->room, on_room);
}

/* As with a stream: the last reference may outlive the engine, and then nothing is left to be done. */
void arrival_index_done(struct arrival *a)
{
	if (a->opening.ticket)
		disk_cancel(disk_of(exec_of(a)), &a->opening);
	if (a->bytes.ticket)
		disk_spool_done(disk_of(exec_of(a)), &a->bytes);
	watch_cancel(&a->room);
	close_auto(&a->fd);
}

bool arrival_index_any(const struct arrival *a)
{
	return a->block || a->saved;
}

static void on_opened(struct disk_done *done, int fd, const struct err *err)
{
	struct arrival *a = container_of(done, struct arrival, opening);

	(void)err; /* who waits for it is told, see open_file() */
	a->fd = fd;
	a->open_fails += fd < 0;
	if (!a->readers)
		close_auto(&a->fd);
	watch_fire_all(&a->changed);
}

static int want_file(struct exec *ex)
{
	struct arrival *a = &ex->arrival;
	char name[ARRIVAL_NAME_LEN];

	if (a->fd >= 0)
		return 0;
	a->opening.fn = on_opened;
	arrival_index_name(ex, name);
	if (!a->opening.ticket && disk_open(disk_of(ex), name, &a->opening, NULL) < 0)
		return -EIO;
	return -EAGAIN;
}

/* As open_spool() in stream_read.c. */
static int open_file(struct arrival_reader *rd)
{
	const struct arrival *a = &rd->exec->arrival;
	bool failed = rd->opens && rd->open_fails != a->open_fails && a->fd < 0;
	int r = failed ? -EIO : want_file(rd->exec);

	rd->opens = r == -EAGAIN;
	rd->open_fails = a->open_fails;
	return r;
}

void arrival_unlink(struct exec *ex)
{
	char name[ARRIVAL_NAME_LEN];
	const struct disk_op op = { .what = DISK_UNLINK, .flags = DISK_MUST, .name = name };

	arrival_count(ex);
	if (!arrival_index_any(&ex->arrival) || ex->arrival.gone)
		return;
	if (ex->arrival.readers)
		(void)want_file(ex); /* who has it open reads on */
	arrival_index_name(ex, name);
	(void)disk_put(disk_of(ex), &op, NULL);
}

/* --- to it --- */

uint64_t arrival_index_size(const struct arrival *a)
{
	return (uint64_t)a->block * ARRIVAL_BLOCK + (a->saved ? ARRIVAL_HEADER + a->saved : 0);
}

static int put(struct exec *ex, const void *bytes, size_t len, bool must)
{
	struct arrival *a = &ex->arrival;
	char name[ARRIVAL_NAME_LEN];
	const struct disk_bytes op = {
		.name = name, .bytes = bytes, .len = len, .share = ex->sandbox->uid, .must = must
	};

	if (a->bytes.lost) /* what comes behind a gap is of no use */
		return -EIO;
	arrival_index_name(ex, name);
	if (!a->bytes.ticket)
		disk_spool_init(disk_of(ex), &a->bytes, arrival_index_size(a), NULL);
	return disk_spool_put(disk_of(ex), &a->bytes, &op);
}

int arrival_index_save(struct exec *ex, bool must, bool whole)
{
	struct arrival *a = &ex->arrival;
	const uint64_t head[] = { htole64(a->begin.pos[0]), htole64(a->begin.pos[1]),
				  htole64(a->begin.frames) };
	unsigned char block[ARRIVAL_BLOCK] = { 0 };
	size_t from = a->saved ? ARRIVAL_HEADER + a->saved : 0, to = sizeof(block);
	int r = 0;

	_Static_assert(sizeof(head) == ARRIVAL_HEADER, "the header of a block");
	if (a->saved > a->pieces.len) /* it is over, and they are not in memory */
		return 0;
	if (ex->removed)
		return -ENOENT;
	if (!whole)
		to = a->pieces.len > a->saved ? ARRIVAL_HEADER + a->pieces.len : from;
	memcpy(block, head, sizeof(head));
	if (a->pieces.len)
		memcpy(block + ARRIVAL_HEADER, a->pieces.data, a->pieces.len);
	if (to > from)
		r = put(ex, block + from, to - from, must);
	if (r == 0)
		a->saved = a->pieces.len;
	return r;
}

int arrival_index_wait(struct exec *ex, int r)
{
	int fault = r == -EAGAIN ? disk_fault(disk_of(ex), NULL) : r;

	if (fault < 0)
		return fault;
	if (r == -EAGAIN)
		watch_add(disk_room(disk_of(ex)), &ex->arrival.room);
	return r;
}

/* --- from it --- */

static void on_fetched(struct disk_done *done, int fd, const struct err *err)
{
	struct arrival_reader *rd = container_of(done, struct arrival_reader, fetch);

	close_auto(&rd->fetched);
	rd->fetched = fd;
	rd->fetch_failed = err || fd < 0;
	watch_fire_all(&rd->exec->arrival.changed);
}

void arrival_index_leave(struct arrival_reader *rd)
{
	struct arrival *a = &rd->exec->arrival;

	if (rd->fetch.ticket)
		disk_cancel(disk_of(rd->exec), &rd->fetch);
	close_auto(&rd->fetched);
	if (!--a->readers)
		close_auto(&a->fd);
}

/* What the writer has read for it, or has yet to read. */
static ssize_t fetch(struct arrival_reader *rd, void *bytes, size_t len, uint64_t off)
{
	const struct disk_fetch what = { rd->exec->arrival.fd, off, FETCH_LEN };
	ssize_t n;

	if (rd->fetch.ticket)
		return -EAGAIN;
	if (rd->fetch_failed) {
		rd->fetch_failed = false;
		return -EIO;
	}
	if (rd->fetched >= 0 && off >= rd->fetch_off) {
		n = pread(rd->fetched, bytes, len, (off_t)(off - rd->fetch_off));
		if (n > 0)
			return n;
		close_auto(&rd->fetched);
		if (off == rd->fetch_off)
			return -EIO; /* somebody has cut the file */
	}
	rd->fetch.fn = on_fetched;
	rd->fetch_off = off;
	if (disk_fetch(disk_of(rd->exec), &what, &rd->fetch, NULL) < 0)
		return -EIO;
	return -EAGAIN;
}

/* At least one byte, or an error. They are on the disk. */
static ssize_t read_file(struct arrival_reader *rd, void *bytes, size_t len, uint64_t off)
{
	int r = open_file(rd);
	ssize_t n;

	if (r < 0)
		return r;
	n = disk_read_cached(rd->exec->arrival.fd, bytes, len, off);
	if (n == -EAGAIN)
		return fetch(rd, bytes, len, off);
	return n ? n : -EIO;
}

/* All of them; `rd` is NULL before the tree is served. 0, -EAGAIN: arrival.changed tells when to ask
 * again, or another negative errno. */
static int read_all(struct exec *ex, struct arrival_reader *rd, void *bytes, size_t len,
		    uint64_t off)
{
	struct arrival *a = &ex->arrival;
	ssize_t n;

	if (a->bytes.lost && off + len > a->bytes.lost_at)
		return -EIO;
	if (!rd) {
		n = pread(a->fd, bytes, len, (off_t)off);
		return n < 0 ? -errno : (size_t)n == len ? 0 : -EIO;
	}
	for (; len > 0; bytes = (char *)bytes + n, off += (uint64_t)n, len -= (size_t)n) {
		bool spooled = a->bytes.ticket;
		uint64_t written =
			spooled ? disk_spool_written(disk_of(ex), &a->bytes) : UINT64_MAX;

		n = spooled ? (ssize_t)disk_spool_peek(disk_of(ex), &a->bytes, bytes, len, off) : 0;
		if (!n && written > off && written - off < len)
			n = read_file(rd, bytes, (size_t)(written - off), off);
		else if (!n)
			n = read_file(rd, bytes, len, off);
		if (n < 0)
			return (int)n;
	}
	return 0;
}

static void get_mark(struct arrival_mark *ret, const unsigned char bytes[ARRIVAL_HEADER])
{
	uint64_t head[ARRIVAL_HEADER / sizeof(uint64_t)];

	memcpy(head, bytes, sizeof(head));
	*ret = (struct arrival_mark){ { le64toh(head[0]), le64toh(head[1]) }, le64toh(head[2]) };
}

/* `len` bytes of it are there. */
static int get_block(struct arrival_block *block, uint32_t number, size_t len)
{
	if (len < ARRIVAL_HEADER)
		return -EIO;
	block->number = number;
	get_mark(&block->begin, block->bytes);
	if (number && !block->begin.frames) /* it never came to the disk */
		return -EIO;
	block->pieces = block->bytes + ARRIVAL_HEADER;
	block->len = len - ARRIVAL_HEADER;
	return 0;
}

int arrival_block_read(struct exec *ex, struct arrival_reader *rd, uint32_t number,
		       struct arrival_block *ret)
{
	const struct arrival *a = &ex->arrival;
	const uint64_t at = (uint64_t)number * ARRIVAL_BLOCK;
	size_t len = number < a->block ? ARRIVAL_BLOCK : (size_t)(arrival_index_size(a) - at);

	if (at < a->given || a->gone)
		return -EIO;
	if (number < a->block || a->saved > a->pieces.len) {
		int r = read_all(ex, rd, ret->bytes, len, at);

		return r < 0 ? r : get_block(ret, number, len);
	}
	ret->number = number;
	ret->begin = a->begin;
	ret->pieces = (const unsigned char *)a->pieces.data;
	ret->len = a->pieces.len;
	return 0;
}

/* Where to look for it: on from where the last search for it was left, or from the place of the last
 * read, near which it is likely to be. */
static struct arrival_search search_begin(const struct exec *ex, const struct arrival_reader *rd,
					  uint64_t off)
{
	struct arrival_search s = { .off = off, .high = ex->arrival.block, .step = UINT32_MAX };

	if (!rd)
		return s;
	if (rd->search.off == off && rd->search.high)
		return rd->search;
	if (rd->last.block && arrival_offset(&rd->last.mark, rd->frames) <= off) {
		s.low = rd->last.block;
		s.step = 1;
	}
	return s;
}

int arrival_block_find(struct exec *ex, struct arrival_reader *rd, bool frames, uint64_t off,
		       uint32_t *ret)
{
	struct arrival_search s;
	const uint32_t first = (uint32_t)(ex->arrival.given / ARRIVAL_BLOCK);
	int r = 0;

	if (off >= arrival_offset(&ex->arrival.begin, frames)) {
		*ret = ex->arrival.block;
		return 0;
	}
	s = search_begin(ex, rd, off);
	s.low = s.low > first ? s.low : first;
	while (r == 0 && s.high > s.low + 1) {
		uint32_t half = (s.high - s.low) / 2, mid = s.low + (s.step < half ? s.step : half);
		unsigned char bytes[ARRIVAL_HEADER];
		struct arrival_mark mark;

		r = read_all(ex, rd, bytes, sizeof(bytes), (uint64_t)mid * ARRIVAL_BLOCK);
		if (r < 0)
			break;
		get_mark(&mark, bytes);
		if (!mark.frames) {
			r = -EIO;
			break;
		}
		if (arrival_offset(&mark, frames) > off) {
			s.high = mid;
			continue;
		}
		s.low = mid;
		if (s.step < half)
			s.step *= 2;
	}
	if (rd)
		rd->search = s;
	*ret = s.low;
	return r;
}

/* --- at the start --- */

static int load_block(int fd, uint32_t number, struct arrival_block *ret)
{
	ssize_t n = pread(fd, ret->bytes, sizeof(ret->bytes), (off_t)number * ARRIVAL_BLOCK);

	return n < 0 ? -errno : get_block(ret, number, (size_t)n);
}

/* The last block of the file, if it knows more than the journal. */
static int load(struct exec *ex, int fd)
{
	struct arrival *a = &ex->arrival;
	struct arrival_block block;
	struct arrival_mark end;
	struct arrival_piece p;
	size_t at = 0, n;
	struct stat info;
	int r = 0;

	if (fstat(fd, &info) < 0)
		return -errno;
	/* A crash may have left a header that is cut, or one without a piece. */
	if (info.st_size % ARRIVAL_BLOCK <= (off_t)ARRIVAL_HEADER)
		info.st_size -= info.st_size % ARRIVAL_BLOCK;
	if (info.st_size == 0)
		return 0;
	r = load_block(fd, (uint32_t)((info.st_size - 1) / ARRIVAL_BLOCK), &block);
	if (r < 0)
		return r;
	end = block.begin;
	while ((n = arrival_piece_get(block.pieces + at, block.len - at, &p))) {
		arrival_advance(&end, &p);
		at += n;
	}
	if (arrival_offset(&end, false) < arrival_offset(&a->end, false))
		return 0;
	a->pieces.len = 0;
	r = buf_add(&a->pieces, block.pieces, at);
	if (r < 0)
		return r;
	a->block = block.number;
	a->begin = block.begin;
	a->saved = at;
	a->end = end;
	return 0;
}

void arrival_index_load(struct exec *ex)
{
	char name[ARRIVAL_NAME_LEN];
	auto_close int fd = -1;

	arrival_index_name(ex, name);
	fd = openat(ex->sandbox->engine->store.fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || load(ex, fd) < 0)
		return;
	arrival_count_restored(ex, fd);
	ex->arrival.fd = TAKE_FD(fd);
}
