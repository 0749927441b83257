/* stream.h - a command's output: from its pipe to its spool, from there to any reader
 *
 * The offset of a byte in the stream is its offset in the spool.  A stream keeps
 * `output_limit` bytes.  When it is full, `on_full` of the request says what is
 * done with more: "drop" throws it away; "wait" leaves it in the pipe until readers
 * have consumed what is there, and gives that back to the disk.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/ev.h"
#include "base/list.h"
#include "base/watch.h"
#include "sandbox/disk_spool.h"

struct err;
struct exec;

enum exec_stream { EXEC_STDOUT, EXEC_STDERR, EXEC_STREAM_COUNT };

/* Fields are the engine's. */
struct stream {
	struct exec *exec;
	enum exec_stream which;
	struct ev_source src; /* the pipe's reading end; fd -1 when it has ended */
	int spool;            /* to read from; -1: nobody has needed it */
	uint64_t size;        /* bytes so far, also those that were given back */
	uint64_t given;       /* bytes below it were given back to the disk: reading them is EIO */
	bool ended;           /* no more bytes will come */
	bool full;            /* bytes wait in its pipe until a reader has consumed some */
	bool truncated;       /* what came behind `size` is lost: dropped, or not taken */
	struct timespec changed_at;
	struct list changed; /* watches: more bytes, or the end */

	/* private to sandbox/ */
	struct disk_spool bytes;  /* what is on its way to the disk */
	struct stream_pump *pump; /* owned; of a busy one */
	struct disk_done opening; /* `spool` is being opened */
	struct watch room;        /* waits for room in the writer's memory */
	struct list readers;      /* struct stream_reader.link */
	struct list stalled;      /* sandbox.stalled, while it is full */
	uint64_t consumed;        /* the furthest that a reader got that was closed */
	uint64_t punched;         /* the disk has taken back the blocks below */
	uint64_t granted;         /* so far its pump may go */
	uint64_t stored;          /* what it is counted for in its sandbox's */
	uint64_t settle_to;       /* when it is of this size it is settled, see stream_settle() */
	bool settling, widened;
	bool tty;            /* src is a terminal's master */
	bool gone;           /* all of it was given up, with its file */
	unsigned open_fails; /* how often `spool` could not be opened */
};

/* Who reads a stream, through one handle. A sequential one, whose reads begin where the last one
 * ended, holds what it has not read yet; one that jumps about holds nothing. */
struct stream_reader {
	struct stream *stream; /* NULL: closed */
	struct list link;      /* stream.readers */
	uint64_t from, end;    /* the last read */
	bool jumps;
	size_t ahead; /* what is read from the disk for it is not less; 0: as is usual */

	/* private to sandbox/ */
	bool opens;          /* it waits until the spool is open */
	unsigned open_fails; /* and the stream's were so many */
	bool failed;         /* `fetch` has */
	int fetched;         /* a memfd with bytes of the spool from fetch_off on; -1: none */
	uint64_t fetch_off;
	struct disk_done fetch; /* the writer reads for it */
};

/* The reader's memory is the caller's, and stays where it is until stream_close(). */
void stream_open(struct stream_reader *, struct stream *);
/* Of one that is not open: nothing happens. */
void stream_close(struct stream_reader *);
/* Bytes at `off`, all of `len` that there are; 0 at the true end; -EAGAIN when there is nothing yet,
 * with the reader's place noted all the same, or they come from the disk; -EIO: they were given back;
 * another negative errno. */
ssize_t stream_read(struct stream_reader *, void *bytes, size_t len, uint64_t off);
/* The same, but that nothing counts as read until stream_passed(). */
ssize_t stream_look(struct stream_reader *, void *bytes, size_t len, uint64_t off);
/* The reader was at `from`, and has got as far as `to`. */
void stream_passed(struct stream_reader *, uint64_t from, uint64_t to);
/* The same without the bytes, for `least` of them or more: how many of at most `len` there are at `off`, in a file at
 * the same offset, from which they come without a wait; *ret_fd is borrowed for this turn of the
 * loop. 0: that is not so, and stream_read() knows why. The bytes stay until stream_took(). */
ssize_t stream_extent(struct stream_reader *, size_t least, size_t len, uint64_t off, int *ret_fd);
/* The reader has got so many bytes at `off`. */
void stream_took(struct stream_reader *, size_t n, uint64_t off);
/* It goes no further: it holds nothing from now on, as if it were closed. */
void stream_leave(struct stream_reader *);
/* Poll mask right now: EPOLLIN, EPOLLHUP. */
uint32_t stream_ready(const struct stream *, uint64_t off);
