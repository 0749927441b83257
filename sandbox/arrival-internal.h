/* arrival-internal.h - what arrival.c, arrival_index.c and arrival_read.c have for each other */
#pragma once

#include "sandbox/sandbox-internal.h"

#define ARRIVAL_BLOCK  4096                        /* bytes, in the file */
#define ARRIVAL_HEADER sizeof(struct arrival_mark) /* at its beginning */
#define ARRIVAL_PIECES (ARRIVAL_BLOCK - ARRIVAL_HEADER)

struct arrival_piece {
	enum exec_stream which;
	uint64_t len;
};

/* One block, as it is in memory or in the file. */
struct arrival_block {
	uint32_t number;
	struct arrival_mark begin;
	const unsigned char *pieces; /* into `bytes`, or the arrival's own: until it changes */
	size_t len;
	unsigned char bytes[ARRIVAL_BLOCK];
};

/* The piece that begins at so many bytes of a block's pieces. Returns its length there; 0: none. */
size_t arrival_piece_get(const unsigned char *pieces, size_t len, struct arrival_piece *ret);
/* The piece behind `mark`, which is at the last fixed one or behind that. False: there is none. */
bool arrival_piece_open(const struct exec *, const struct arrival_mark *,
			struct arrival_piece *ret);
void arrival_advance(struct arrival_mark *, const struct arrival_piece *);
/* A mark's offset in `output` or `frames`. */
uint64_t arrival_offset(const struct arrival_mark *, bool frames);
/* The command is over, and so are its streams. */
bool arrival_is_over(const struct exec *);
/* All that came is in pieces, which do not change any more. */
int arrival_fix(struct exec *);

/* --- arrival_index.c --- */

void arrival_index_init(struct arrival *);
/* What was put is written all the same. Twice is harmless. */
void arrival_index_done(struct arrival *);
#define ARRIVAL_NAME_LEN 64
void arrival_index_name(const struct exec *, char out[ARRIVAL_NAME_LEN]);
/* Bytes that are in the file, or on their way. */
uint64_t arrival_index_size(const struct arrival *);
/* Is there a file, or will there be one? */
bool arrival_index_any(const struct arrival *);
/* The pieces of the last block are in the file, for the next hutchd; `whole`: no more comes into that block.
 * `must`: see disk_spool_put(). 0; -EAGAIN: no room; another negative errno: never. */
int arrival_index_save(struct exec *, bool must, bool whole);
/* Of an r that is -EAGAIN since there was no room: arrival.changed fires when there may be, or what
 * disk_fault() says is returned instead. Else r. */
int arrival_index_wait(struct exec *, int r);
/* The last block of the file, if it knows more than the journal; then arrival.fd is open. */
void arrival_index_load(struct exec *);
/* A reader goes. */
void arrival_index_leave(struct arrival_reader *);
/* The reader may be NULL before the tree is served. 0; -EAGAIN: it comes from the disk, arrival.changed
 * fires then; -EIO, or another negative errno. */
int arrival_block_read(struct exec *, struct arrival_reader *, uint32_t number,
		       struct arrival_block *);
/* The last block that does not begin behind that offset of `output` or `frames`; fails like
 * arrival_block_read(). */
int arrival_block_find(struct exec *, struct arrival_reader *, bool frames, uint64_t off,
		       uint32_t *ret);

/* --- arrival_kept.c --- */

/* There are more bytes in the file, or it is over. */
void arrival_count(struct exec *);
/* From the file that a former hutchd has left. */
void arrival_count_restored(struct exec *, int fd);
