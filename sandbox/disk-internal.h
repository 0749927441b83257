/* disk-internal.h - the ring that hutchd and its writer share, and the writer's own parts
 *
 * Shared memory: one page of positions, then the ring.  Positions only grow; a place in
 * the ring is the position modulo its size.  hutchd alone moves `head` and fills records, the
 * writer alone moves `tail` and sets record.done.  A record lies in one piece; the rest of the
 * ring in front of one that would not is a record of its own, DISK_PAD.
 *
 * Whatever is between tail and head and not done is to be done, by this writer or the next one:
 * each operation can be done twice in a row without harm, since it says the whole truth (bytes at
 * an offset, a whole file, a name that is to be gone).
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/disk.h"

struct disk_spool;
struct pipe_between;

/* The writer's alone; see disk_transit.c. */
struct disk_transit_name {
	uint64_t pump;            /* the ticket of whose bytes are in the pipe, */
	char name[DISK_NAME_MAX]; /* and their file */
	_Atomic uint32_t cut;     /* some of them are lost */
};

struct disk_shared {
	_Atomic uint64_t head;       /* hutchd's: records below it are complete */
	_Atomic uint64_t tail;       /* the writer's: all below it is done */
	_Atomic uint32_t asleep;     /* the writer waits for a byte on its socket */
	_Atomic uint32_t wants_room; /* hutchd waits for a DISK_SAYS_ROOM */
	_Atomic int32_t error;       /* errno of what the disk does not take; 0: none */
	struct disk_transit_name transit;
};

#define DISK_ALIGN 64 /* a pad of any size has room for a record */

struct disk_record {
	uint32_t size; /* with all that follows, a multiple of DISK_ALIGN */
	uint8_t what;  /* enum disk_what, or DISK_PAD */
	uint8_t flags; /* DISK_LOSSY … */
	uint16_t mode;
	_Atomic uint32_t done;
	uint32_t share; /* index of disk.share */
	uint64_t off;
	uint64_t ticket; /* 0: nobody waits for it */
	struct disk_spool
		*spool; /* hutchd's own: whose bytes these are; NULL: nobody's who reads them */
	uint64_t next;  /* position of the next one of the same spool; hutchd's */
	uint32_t name_len, to_len; /* without the NULs that follow both */
	uint32_t len;              /* of the bytes behind them */
	uint32_t number;           /* DISK_JOB: which */
};
#define DISK_PAD 255
_Static_assert(sizeof(struct disk_record) <= DISK_ALIGN, "a pad holds a record");

/* Of one with names of so many bytes together, and `len` behind them. */
static inline size_t disk_record_size(size_t names, size_t len)
{
	return (sizeof(struct disk_record) + names + 2 + len + DISK_ALIGN - 1) &
	       ~(size_t)(DISK_ALIGN - 1);
}

static inline const char *disk_record_name(const struct disk_record *rec)
{
	return (const char *)(rec + 1);
}

static inline const char *disk_record_to(const struct disk_record *rec)
{
	return disk_record_name(rec) + rec->name_len + 1;
}

static inline const char *disk_record_data(const struct disk_record *rec)
{
	return disk_record_to(rec) + rec->to_len + 1;
}

/* The mapping, as either side has it. */
struct disk_ring {
	struct disk_shared *shared;
	char *bytes;
	uint64_t size; /* a power of two */
};

static inline struct disk_record *disk_ring_at(const struct disk_ring *ring, uint64_t pos)
{
	return (struct disk_record *)(void *)(ring->bytes + (pos & (ring->size - 1)));
}

/* What the writer says, a message each. */
enum disk_says { DISK_SAYS_ROOM, DISK_SAYS_DONE, DISK_SAYS_LOST, DISK_SAYS_PUMP, DISK_SAYS_COUNT };

struct disk_message {
	uint32_t says;
	uint32_t flags;  /* DISK_SAYS_PUMP: DISK_PUMP_… */
	uint64_t ticket; /* of the operation, the spool or the pump */
	uint64_t off;    /* DISK_SAYS_PUMP: bytes in the spool; LOST: where bytes are missing */
	struct err err;  /* code 0: it is done; a descriptor may be attached */
};

/* What hutchd says.  A byte alone only wakes. */
enum disk_asks {
	DISK_ASKS_WAKE,
	DISK_ASKS_PUMP,
	DISK_ASKS_LIMIT,
	DISK_ASKS_STOP,
	DISK_ASKS_SETTLE,
	DISK_ASKS_FETCH, /* `limit` bytes at `off` of the descriptor that comes with it */
};

#define DISK_FETCHES_MAX 64 /* that hutchd has asked for and that are not answered */

#define DISK_ASKS_RESUME \
	(1u << 16) /* in disk_ask.flags, beside DISK_PUMP_…: it was started before */

struct disk_ask {
	uint32_t asks;
	uint32_t flags;
	uint64_t ticket;
	uint64_t off, limit;
	uint64_t behind; /* DISK_ASKS_PUMP: not before all below this position is done */
	char name[DISK_NAME_MAX];
};

/* --- the writer: disk_writer.c, disk_file.c, disk_transit.c, disk_pump.c --- */

struct disk_writer_plan {
	struct disk_ring ring;
	int dirfd, sock, keep; /* keep: -1: none */
	int transit[2];        /* a pipe that does not block, which outlives the writer */
	disk_job *const *jobs;
	size_t jobs_n;
	void *job_arg;
};
/* In the child. It ends when hutchd has gone and all is written. */
_Noreturn void disk_writer_main(const struct disk_writer_plan *);

/* Files that are written to, open while they are busy. */
#define DISK_FILES_MAX 32
struct disk_files {
	int dirfd;
	unsigned clock;
	struct disk_open {
		char *name; /* owned; NULL: free */
		int fd;
		unsigned used;
	} open[DISK_FILES_MAX];
};
void disk_files_init(struct disk_files *, int dirfd);
/* `r` says that there are no descriptors, and there are some now: what needed one may be tried again. */
bool disk_files_spare(struct disk_files *, int r);
/* To read from: a descriptor or a negative errno. */
int disk_files_open(struct disk_files *, const char *name);
/* A memfd with what there is of these bytes, or a negative errno. */
int disk_files_fetch(int from, uint64_t off, size_t len);
/* One operation without an answer; a run of DISK_WRITEs of one file, each where the last one ends, counts as
 * one. 0 or a negative errno. */
int disk_files_do(struct disk_files *, const struct disk_record *const *run, size_t n);
/* The offset from which on the bytes of a DISK_LOSSY that has failed are lost: the disk may have taken a
 * part of them.  The file ends there. */
uint64_t disk_files_lost(struct disk_files *, const struct disk_record *);
/* To write to; made when it is missing. Negative errno. The descriptor is borrowed. */
int disk_files_get(struct disk_files *, const char *name, bool truncate);
/* Not the disk's doing, and over again some time: descriptors or memory are short. */
static inline bool disk_is_short(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

/* How much a file has: 0; -ENOENT, -ENOTDIR: it has gone; another negative errno: not known. */
int disk_files_size(const struct disk_files *, const char *name, uint64_t *ret);
#define DISK_SHORT_US \
	10000 /* between two tries of the writer, when memory or descriptors are short, */
#define DISK_SHORT_MAX 1000 /* and how many */
/* May it be tried again?  Waits, as often as that. */
bool disk_wait_for_more(int r, int *tries);

struct disk_transit {
	struct disk_files *files;         /* borrowed */
	struct pipe_between *between;     /* borrowed: to throw away with */
	int in, out;                      /* ends of a pipe; borrowed */
	struct disk_transit_name *shared; /* borrowed */
	uint64_t cut; /* ticket of a pump: of what was taken of its pipe some is lost; 0: of none */
};
struct disk_way {
	int from, to;     /* a pipe and a file; borrowed */
	uint64_t pump;    /* ticket */
	const char *name; /* of the file, in DISK_NAME_MAX bytes */
	uint64_t off;
	size_t len;
};
/* Writes what the last writer has left in the pipe. What of it is lost sets `cut`, which is said before
 * disk_transit_move(). */
void disk_transit_init(struct disk_transit *, struct disk_files *, struct pipe_between *,
		       const struct disk_writer_plan *);
/* `cut`, and how much its file has, 0: not known. To be said before disk_transit_move(). */
uint64_t disk_transit_cut(const struct disk_transit *, uint64_t *ret_size);
/* How many bytes it took from the pipe, 0 at its end, or a negative errno: -EAGAIN when there are
 * none. Those above *ret_kept are lost: the file did not take them. */
ssize_t disk_transit_move(struct disk_transit *, const struct disk_way *, size_t *ret_kept);

/* One message to hutchd, with a descriptor if it is not -1. 0 or a negative errno: it may have gone. */
int disk_say(int sock, const struct disk_message *, int fd);

struct disk_pumps;
struct pollfd;
#define DISK_PUMPS_MAX 256
struct disk_pumps *disk_pumps_new(struct disk_files *, const struct disk_writer_plan *);
/* A DISK_ASKS_… about a pump; takes `fd`. */
void disk_pumps_ask(struct disk_pumps *, const struct disk_ask *, int fd);
/* A turn of each that may: `seen` is how far the ring was gone through. True: there may be more at once. */
bool disk_pumps_turn(struct disk_pumps *, uint64_t seen);
/* Those that wait for their pipe, into `p` (DISK_PUMPS_MAX); what came of it. */
size_t disk_pumps_wait(const struct disk_pumps *, struct pollfd *p);
void disk_pumps_woken(struct disk_pumps *, const struct pollfd *p, size_t n);
/* hutchd has gone: what is in the pipes now is all that is taken, in their turns. */
void disk_pumps_last(struct disk_pumps *);
