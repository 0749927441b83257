/* disk.h - the state directory's writer: a process of its own behind a shared log
 *
 * The loop must not wait for a disk, and may not have threads.  So whatever is written goes into a
 * ring in shared memory, in order, which costs a memcpy; a second process, the writer, takes it
 * from there to the disk.  It is woken some milliseconds later, so that commands that are
 * short do not pay for it.
 *
 * What is in the ring survives hutchd.  When hutchd is gone, SIGKILL included, the writer goes on
 * until all is on the disk, and only then lets go of `keep`, a descriptor with a lock that the next
 * hutchd waits for.  So what was put may be acknowledged.  It is lost when both are killed at once
 * (a whole control group by SIGKILL), or the machine stops: then what the disk had not taken,
 * usually the last 20 ms.
 *
 * A writer that dies is replaced by another one on the same ring; operations are such that doing
 * one twice does no harm.
 *
 * Order: operations on one name, in the order in which they were put.  Of different names
 * too, but that one that the disk does not take (full, damaged) is tried again each second
 * until it does, and holds up neither what comes behind it for other names nor the removal
 * of its own, which is what makes room.  As long as there is such a one, disk_fault() says so.
 *
 * Names are relative to the state directory, no part of them may be a link of a stranger's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/ev.h"
#include "base/list.h"

#define DISK_NAME_MAX 128 /* with its NUL */

struct disk;
struct zombies;

/* Work of the owner's that is done in the writer: may wait and allocate, must not touch what hutchd
 * has open. `dirfd`: the state directory. It may be called a second time after it has succeeded, by
 * the next writer. *ret_fd, if it is set, goes to hutchd. Numbers are places in disk_config.jobs. */
typedef int disk_job(void *arg, int dirfd, const void *args, size_t len, int *ret_fd, struct err *);

struct disk_config {
	struct ev_loop *loop;    /* borrowed */
	struct zombies *zombies; /* for a writer that ends; borrowed */
	int dirfd;               /* the state directory; borrowed */
	int keep;                /* see above; -1: none; borrowed: the writer has a copy */
	size_t size;             /* of the ring, a power of two; 0: 16 MiB */
	disk_job *const *jobs;   /* borrowed */
	size_t jobs_n;
	void *job_arg; /* as it is now: the writer has a copy; borrowed */
};

/* Starts the writer. */
int disk_new(struct disk **ret, const struct disk_config *, struct err *);
/* Waits at most two seconds until all is written; the writer goes on alone with the rest. Nobody
 * is told of anything any more. */
void disk_free(struct disk *);

enum disk_what {
	DISK_WRITE, /* bytes at an offset; the file is made, with mode 0600 */
	DISK_REPLACE, /* the file has these bytes from now on: the old ones or the new ones are there */
	DISK_UNLINK, /* done if there is none */
	DISK_RENAME, /* `name` to `to`; done if there is no `name` */
	DISK_JOB,
	DISK_OPEN, /* see disk_spool.h */
	DISK_WHAT_COUNT,
};

enum disk_flags {
	/* DISK_WRITE: what the disk will never take is dropped, not tried again; a full one may, and a
	 * writer without memory or descriptors. */
	DISK_LOSSY = 1 << 0,
	DISK_TRUNCATE = 1 << 1, /* DISK_WRITE: the file is empty before */
	DISK_URGENT = 1 << 2,   /* the writer is woken at once */
	/* Never -EAGAIN: takes the part of the ring that is kept for small things that must not wait
	 * (results, removals), and when that is full too, memory of hutchd's own, which dies with it. */
	DISK_MUST = 1 << 3,
};

/* Somebody who wants to know when an operation is done; embedded in its owner, zeroes but for `fn`. */
struct disk_done {
	/* `err` is NULL when all went well; `fd`, of a job, is the owner's then, -1: none. */
	void (*fn)(struct disk_done *, int fd, const struct err *err);
	uint64_t ticket; /* 0: nothing is waited for */
};

struct disk_op {
	enum disk_what what;
	unsigned flags;
	const char *name, *to; /* not longer than DISK_NAME_MAX; NULL: none */
	uint64_t off;
	mode_t mode; /* DISK_REPLACE */
	const void *data;
	size_t len;
	unsigned job;           /* its number */
	uint32_t share;         /* whose part of the ring it takes: a user id */
	struct disk_done *done; /* NULL: nobody */
};

/* 0: it will be done. -EAGAIN: no room now; disk_room() fires when there may be. -E2BIG, -ENOMEM.
 * A job's failure is for its `done`; it is not tried again. */
int disk_put(struct disk *, const struct disk_op *, struct err *);
/* `done` is not called any more; the operation is done all the same. */
void disk_cancel(struct disk *, struct disk_done *);
/* Watches: it may be worth to try again what was refused with -EAGAIN, or disk_fault() says why not. */
struct list *disk_room(struct disk *);
/* Could one of this share put something that is not small? What asks before it takes a user's bytes
 * may put them with DISK_MUST. */
bool disk_has_room(struct disk *, uint32_t share);
/* Does the disk take what it is given? 0, or a negative errno and the sentence. */
int disk_fault(const struct disk *, struct err *);
/* The largest `len` that disk_put() takes. */
size_t disk_put_max(const struct disk *);
/* Wakes the writer and waits until all that was put is done: for the time before the tree is served,
 * and for tests. -ETIMEDOUT. */
int disk_wait(struct disk *, int timeout_ms);
/* Of the writer that runs now; for tests. */
pid_t disk_writer_pid(const struct disk *);
