/* disk_spool.h - bytes of commands on their way to the disk, and back
 *
 * Two ways from a pipe to a spool, which is a file below the state directory:
 *
 *   disk_spool_fill()	for the little that most commands say.  One read(2) from the pipe into the
 *			ring, as an operation "these bytes at that offset".  A reader finds them with
 *			disk_spool_peek() until they are on the disk.
 *   disk_pump_start()	for those that flood.  The writer gets a copy of the pipe's reading end and
 *			splices by itself; the loop hears how far it is, some hundred times a second at
 *			most.
 *
 * A stream begins with the first and may go to the second and back: what the ring holds of the
 * spool is written before the pump begins, and after disk_pump_stop() has been answered the pipe is
 * ours again.  Nobody reads from the pipe while the writer pumps, but everybody may FIONREAD.
 *
 * Reading.  Offsets below `size` are there: peek first; 0 means that they are on the disk.  Of these,
 * disk_read_cached() with a descriptor from disk_open() gives what is in memory, and does not wait;
 * for the rest disk_fetch() has the writer read from the same descriptor, also when the file has no
 * name any more.
 *
 * What the disk will not take (a limit on the size of files, damage) is lost, and `lost` is set: the
 * stream is truncated there: the file ends there too, and nothing is written behind a gap.  What a full
 * one does not take, or a writer without a descriptor, stays in the ring until it does.
 */
#pragma once

#include "sandbox/disk.h"

struct disk_spool {
	uint64_t size; /* bytes so far */
	bool lost;     /* what the disk did not take begins at lost_at */
	uint64_t lost_at;
	void (*changed)(struct disk_spool *); /* `lost` was set. May be NULL */

	/* private: positions in the ring plus one, 0: none */
	uint64_t first, last, cursor;
	uint64_t ticket;
	struct list link; /* disk.spools */
};

/* `size`: what is on the disk already. */
void disk_spool_init(struct disk *, struct disk_spool *, uint64_t size,
		     void (*changed)(struct disk_spool *));
/* What was put is written all the same. */
void disk_spool_done(struct disk *, struct disk_spool *);

/* At most `len` bytes, and not more than DISK_FILL_MAX, from a pipe that does not block. > 0: so many; 0: its
 * end; -EAGAIN: it is empty; -ENOBUFS: no room for this share, see disk_room(); or as pipe_read() has it. */
#define DISK_FILL_MAX (64 * 1024)
struct disk_fill {
	const char *name;
	int fd;
	size_t len;
	uint32_t share;
	bool tty; /* it is no pipe */
};
ssize_t disk_spool_fill(struct disk *, struct disk_spool *, const struct disk_fill *);
/* pipe_discard() of what nobody wants, or can read. */
ssize_t disk_spool_discard(struct disk *, int fd, size_t len);
/* Behind what there is, bytes that the owner has, not more than DISK_FILL_MAX. `must`: they take the
 * part of the ring that is kept for small things that must not wait. 0; -EAGAIN: no room, see disk_room(). */
struct disk_bytes {
	const char *name;
	const void *bytes;
	size_t len;
	uint32_t share;
	bool must;
};
int disk_spool_put(struct disk *, struct disk_spool *, const struct disk_bytes *);
/* Copies what the ring still has at `off` and behind it. 0: it is on the disk, or `off` is at the end. */
size_t disk_spool_peek(struct disk *, struct disk_spool *, void *bytes, size_t len, uint64_t off);
/* All below this offset is on the disk; UINT64_MAX: all is. */
uint64_t disk_spool_written(const struct disk *, const struct disk_spool *);

/* The answer is a descriptor to read from; ENOENT. Behind all that was put before. */
int disk_open(struct disk *, const char *name, struct disk_done *, struct err *);
/* The answer is a memfd with what is there of these bytes at its beginning; less at the file's end. Not
 * behind what was put, but of that, see disk_spool_peek(). */
struct disk_fetch {
	int fd; /* stays the owner's, and open until the answer, disk_cancel() or disk_free() */
	uint64_t off;
	size_t len;
};
int disk_fetch(struct disk *, const struct disk_fetch *, struct disk_done *, struct err *);
/* pread(2) that does not wait: -EAGAIN: fetch them. */
ssize_t disk_read_cached(int fd, void *bytes, size_t len, uint64_t off);
/* Are all of these bytes, at least one, in memory?  Before Linux 6.5 they are looked at here and there. */
bool disk_is_cached(int fd, size_t len, uint64_t off);

enum disk_pump_flags {
	DISK_PUMP_ENDED = 1 << 0,   /* the pipe is at its end; nothing follows */
	DISK_PUMP_LOST = 1 << 1,    /* bytes were thrown away, and all that follow are */
	DISK_PUMP_LIMIT = 1 << 2,   /* it has come to the limit, and waits for another one */
	DISK_PUMP_SETTLED = 1 << 3, /* what was in the pipe at disk_pump_settle() is in the spool */
	DISK_PUMP_STOPPED = 1 << 4, /* the pipe is the owner's again; nothing follows */
	/* Of a start: what is over the limit is thrown away, instead of waited with. */
	DISK_PUMP_DROPS = 1 << 5,
};

/* Zeroes at first but for `changed`; embedded in its owner. */
struct disk_pump {
	uint64_t size;  /* of the spool, so far */
	unsigned flags; /* what has come about; LIMIT and SETTLED may go again */
	void (*changed)(struct disk_pump *);

	/* private */
	struct disk *disk; /* NULL: it does not run */
	struct list link;  /* disk.pumps */
	uint64_t ticket, behind, limit;
	bool settling, stopping, drops;
	int fd; /* borrowed: to start again with a new writer */
	char name[DISK_NAME_MAX];
};

struct disk_pump_start {
	const char *name;
	int fd;         /* stays the owner's, who does not read from it, until ENDED or STOPPED */
	uint64_t off;   /* where the next byte goes: the spool's size */
	uint64_t limit; /* the size at which it waits */
	bool drops;
};
/* -EBUSY: there are as many as there may be; the loop can still do it itself. */
int disk_pump_start(struct disk *, struct disk_pump *, const struct disk_pump_start *,
		    struct err *);
/* Another limit; what waits goes on. */
void disk_pump_limit(struct disk_pump *, uint64_t limit);
/* Exactly what is in the pipe when the writer hears of it goes into the spool, whatever the limit;
 * SETTLED, or ENDED, tells. For the end of a command: it has written by then. */
void disk_pump_settle(struct disk_pump *);
/* STOPPED, or ENDED, tells. */
void disk_pump_stop(struct disk_pump *);
/* It is forgotten: `changed` is not called any more. What is in the pipe may be taken or not. */
void disk_pump_done(struct disk_pump *);
