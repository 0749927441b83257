/* arrival-internal.h - what arrival.c has for arrival_read.c */
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

/* 0, -EIO, or another negative errno. */
int arrival_block_read(const struct exec *, uint32_t number, struct arrival_block *);
/* The last block that does not begin behind that offset of `output` or `frames`. */
int arrival_block_find(const struct exec *, bool frames, uint64_t off, uint32_t *ret);
/* The piece that begins at so many bytes of a block's pieces. Returns its length there; 0: none. */
size_t arrival_piece_get(const unsigned char *pieces, size_t len, struct arrival_piece *ret);
/* The piece behind `mark`, which is at the last fixed one or behind that. False: there is none. */
bool arrival_piece_open(const struct exec *, const struct arrival_mark *,
			struct arrival_piece *ret);
void arrival_advance(struct arrival_mark *, const struct arrival_piece *);
/* A mark's offset in `output` or `frames`. */
uint64_t arrival_offset(const struct arrival_mark *, bool frames);
/* All that came is in pieces, which do not change any more. */
int arrival_fix(struct exec *);
/* Opens the file if there is one. -EIO: it should be there. */
int arrival_file_open(struct exec *);
