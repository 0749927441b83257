/* arrival.h - in which order a command's two streams have come
 *
 * Who reads `output` or `frames` sees both streams in the order in which they were
 * drained.  That order is a list of pieces, (stream, length), which is kept next to
 * the spools: arrival.c, with its file in arrival_index.c.  Readers are arrival_read.c.
 *
 * What has been read at an offset is read there for ever, by everybody, also by the
 * next hutchd: in `frames` the headers lie between the bytes, so a piece that
 * somebody may have seen never grows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "sandbox/stream.h"

struct exec;

/* A place between two pieces, as offsets: in the streams and in `frames`. */
struct arrival_mark {
	uint64_t pos[EXEC_STREAM_COUNT], frames;
};

/* Of one command. Fields are the engine's. */
struct arrival {
	struct arrival_mark end; /* behind the last piece */
	uint64_t open
		[EXEC_STREAM_COUNT]; /* bytes behind `end`: stdout's first, then stderr's; may grow */

	/* The pieces are in blocks, see arrival.c; of all but the last one there is only the file. */
	uint32_t block;            /* its number */
	struct arrival_mark begin; /* where it begins */
	struct buf pieces;         /* of it; empty also when it is over and all is in the file */
	size_t saved;              /* bytes of it that are in the file, or on their way */
	uint64_t kept[EXEC_STREAM_COUNT]; /* up to where the next hutchd would find the pieces */

	uint64_t frames_end; /* when DONE: where the exit frame begins */
	bool frames_told;    /* the journal has that number */
	size_t exit_len;     /* of its payload; 0: not looked at yet */
	int fd;              /* of the file, to read; -1: nobody has needed it */
	unsigned readers;
	bool looked; /* somebody has had it open */
	struct list
		changed; /* watches: more bytes, an end, the result, or what the disk was asked for */

	/* private to arrival_index.c */
	struct disk_spool bytes;  /* of the file, what is on its way to the disk */
	struct disk_done opening; /* `fd` is being opened */
	unsigned open_fails;      /* how often it could not be */
	struct watch room;        /* a reader waits until the writer has room for pieces */

	/* private to arrival_kept.c */
	uint64_t stored; /* what the file is counted for in its sandbox's */
	uint64_t given;  /* bytes of it that were given back to the disk: whole blocks */
	bool gone;       /* all of it was given up, with the streams */
	struct {         /* a block that will be the first one when the streams have got there */
		uint32_t block;
		struct arrival_mark begin;
	} front;
};

struct arrival_cursor {
	uint32_t block;
	size_t at; /* in it */
	struct arrival_mark mark;
};

/* Blocks between which an offset lies: not before `low`, before `high`. */
struct arrival_search {
	uint64_t off;
	uint32_t low, high, step;
};

/* Whoever reads `output` or `frames`. Fields are the engine's. */
struct arrival_reader {
	struct exec *exec; /* borrowed: the handle holds it */
	bool frames;
	uint64_t next;                   /* where the last read ended */
	uint64_t pos[EXEC_STREAM_COUNT]; /* and how far it was in each stream */
	struct stream_reader stream[EXEC_STREAM_COUNT];
	struct arrival_cursor last; /* the piece in which it ended, or one before */

	/* private to arrival_index.c */
	bool opens;                   /* it waits until the file is open */
	unsigned open_fails;          /* and the index's were so many */
	struct arrival_search search; /* of the last read; high 0: none */
	struct disk_done fetch;       /* the writer reads of the index for it */
	bool fetch_failed;
	int fetched; /* a memfd with bytes of the index from fetch_off on; -1: none */
	uint64_t fetch_off;
};

/* A reader of both streams, until arrival_close(), which stays where it is in memory. `frames`: with
 * headers and the result. */
void arrival_open(struct arrival_reader *, struct exec *, bool frames);
void arrival_close(struct arrival_reader *);
/* Bytes at `off`; 0 at the end; -EAGAIN when there is nothing yet; -EIO: they are gone. */
ssize_t arrival_read(struct arrival_reader *, void *bytes, size_t len, uint64_t off);
/* Is there a byte at `off`?  Then -EAGAIN says that it comes from the disk. */
bool arrival_has(const struct arrival_reader *, uint64_t off);
/* The poll mask of who goes on where the last read ended. */
uint32_t arrival_ready(const struct arrival_reader *);
/* The size so far. The frames that it counts do not grow any more. */
uint64_t arrival_size(struct exec *, bool frames);
/* Of the result's text; 0: there is none yet. */
size_t arrival_result_size(struct exec *);
/* Will it not grow any more? */
bool arrival_is_whole(const struct exec *, bool frames);
