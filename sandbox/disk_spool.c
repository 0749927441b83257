/* disk_spool.c - the bytes of spools in the ring
 *
 * The records of one spool are chained in the order of their offsets, record.next, from
 * spool.first on.  reap() in disk.c takes those that are done off the chain, so that none of a chain
 * is ever overwritten.
 */
#include "sandbox/disk_spool.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/disk_link-internal.h"

void disk_spool_init(struct disk *d, struct disk_spool *sp, uint64_t size,
		     void (*changed)(struct disk_spool *))
{
	*sp = (struct disk_spool){ .size = size, .changed = changed, .ticket = d->next_ticket++ };
	list_init(&sp->link);
	list_add_tail(&d->spools, &sp->link);
}

static struct disk_record *at(const struct disk *d, uint64_t link)
{
	return disk_ring_at(&d->ring, link - 1);
}

void disk_spool_done(struct disk *d, struct disk_spool *sp)
{
	for (uint64_t pos = sp->first; pos; pos = at(d, pos)->next)
		at(d, pos)->spool = NULL;
	if (sp->ticket)
		list_del(&sp->link);
	*sp = (struct disk_spool){ .size = sp->size, .lost = sp->lost, .lost_at = sp->lost_at };
}

void disk_spool_reaped(struct disk_record *rec, uint64_t pos)
{
	struct disk_spool *sp = rec->spool;

	sp->first = rec->next;
	if (sp->last == pos + 1)
		sp->last = 0;
	if (sp->cursor == pos + 1)
		sp->cursor = 0;
}

void disk_spool_lost(struct disk *d, uint64_t ticket, uint64_t off)
{
	struct disk_spool *sp;

	list_for_each (sp, &d->spools, link)
		if (sp->ticket == ticket && (!sp->lost || off < sp->lost_at)) {
			sp->lost = true;
			sp->lost_at = off;
			if (sp->changed)
				sp->changed(sp);
			return;
		}
}

static char *bytes_of(struct disk_record *rec, const char *name)
{
	return (char *)(rec + 1) + strlen(name) + 2;
}

/* The record at `head` has `len` bytes of it. */
static void chain(struct disk *d, struct disk_spool *sp, struct disk_record *rec,
		  const struct disk_bytes *b)
{
	uint64_t pos = d->head + 1;
	size_t name_len = strlen(b->name);

	*rec = (struct disk_record){
		.size = (uint32_t)disk_record_size(strlen(b->name), b->len),
		.what = DISK_WRITE,
		.flags = DISK_LOSSY,
		.share = b->share % DISK_SHARES,
		.off = sp->size,
		.ticket = sp->ticket,
		.spool = sp,
		.name_len = (uint32_t)name_len,
		.len = (uint32_t)b->len,
	};
	memcpy(rec + 1, b->name, name_len + 1);
	((char *)(rec + 1))[name_len + 1] = '\0';
	if (sp->last)
		at(d, sp->last)->next = pos;
	else
		sp->first = pos;
	sp->last = pos;
	sp->size += b->len;
	disk_link_commit(d, rec);
	disk_link_wake_soon(d);
}

static ssize_t read_tty(int fd, void *bytes, size_t len)
{
	ssize_t n = read(fd, bytes, len);

	return n < 0 ? -errno : n;
}

ssize_t disk_spool_fill(struct disk *d, struct disk_spool *sp, const struct disk_fill *fill)
{
	struct disk_bytes b = { .name = fill->name,
				.len = fill->len < DISK_FILL_MAX ? fill->len : DISK_FILL_MAX,
				.share = fill->share };
	struct disk_record *rec =
		disk_link_reserve(d, disk_record_size(strlen(b.name), b.len), b.share, false);
	ssize_t n;

	if (!rec) {
		disk_link_want_room(d);
		return -ENOBUFS;
	}
	n = fill->tty ? read_tty(fill->fd, bytes_of(rec, b.name), b.len)
		      : pipe_read(&d->between, fill->fd, bytes_of(rec, b.name), b.len);
	if (n <= 0)
		return n == -EINTR ? -EAGAIN : n;
	b.len = (size_t)n;
	chain(d, sp, rec, &b);
	return n;
}

ssize_t disk_spool_discard(struct disk *d, int fd, size_t len)
{
	return pipe_discard(&d->between, fd, len);
}

int disk_spool_put(struct disk *d, struct disk_spool *sp, const struct disk_bytes *b)
{
	struct disk_record *rec =
		disk_link_reserve(d, disk_record_size(strlen(b->name), b->len), b->share, b->must);

	if (!rec) {
		disk_link_want_room(d);
		return -EAGAIN;
	}
	memcpy(bytes_of(rec, b->name), b->bytes, b->len);
	chain(d, sp, rec, b);
	return 0;
}

size_t disk_spool_peek(struct disk *d, struct disk_spool *sp, void *bytes, size_t len, uint64_t off)
{
	uint64_t pos = sp->cursor && at(d, sp->cursor)->off <= off ? sp->cursor : sp->first;
	size_t done = 0;

	for (; pos && done < len; pos = at(d, pos)->next) {
		const struct disk_record *rec = at(d, pos);
		uint64_t from = off + done, n;

		if (from < rec->off) /* it is in front of all that the ring has */
			break;
		if (from >= rec->off + rec->len)
			continue;
		n = rec->off + rec->len - from;
		n = n < len - done ? n : len - done;
		memcpy((char *)bytes + done, disk_record_data(rec) + (from - rec->off), n);
		done += n;
		sp->cursor = pos;
	}
	return done;
}

uint64_t disk_spool_written(const struct disk *d, const struct disk_spool *sp)
{
	return sp->first ? at(d, sp->first)->off : UINT64_MAX;
}

/* --- from the disk --- */

ssize_t disk_read_cached(int fd, void *bytes, size_t len, uint64_t off)
{
	struct iovec iov = { bytes, len };
	ssize_t n = preadv2(fd, &iov, 1, (off_t)off, RWF_NOWAIT);

	if (n >= 0)
		return n;
	/* Where it cannot be known, it is taken to wait. */
	return errno == EOPNOTSUPP || errno == EINTR ? -EAGAIN : -errno;
}

/* Of newer kernels than the headers may be. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* 1: all of its pages are there, 0: not all; -1: that cannot be asked. */
static int has_pages(int fd, size_t len, uint64_t off)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t pages = (off + len - 1) / page - off / page + 1;
	struct {
		uint64_t off, len;
	} range = { off, len };
	struct {
		uint64_t cached, dirty, writeback, evicted, recently_evicted;
	} found;

	if (syscall(SYS_cachestat, fd, &range, &found, 0) < 0)
		return -1;
	return found.cached >= pages;
}

#define LOOK_EVERY ((size_t)64 << 10)

bool disk_is_cached(int fd, size_t len, uint64_t off)
{
	int all = has_pages(fd, len, off);
	size_t step = all < 0 ? LOOK_EVERY : len;
	char byte;

	if (all == 0)
		return false;
	/* A page may be there and its bytes still be read, so the ends are looked at in any case. */
	for (size_t i = 0; i < len; i += step)
		if (disk_read_cached(fd, &byte, 1, off + i) != 1)
			return false;
	return disk_read_cached(fd, &byte, 1, off + len - 1) == 1;
}

int disk_open(struct disk *d, const char *name, struct disk_done *done, struct err *err)
{
	const struct disk_op op = {
		.what = DISK_OPEN, .flags = DISK_MUST | DISK_URGENT, .name = name, .done = done
	};

	return disk_put(d, &op, err);
}
