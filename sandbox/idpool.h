/* idpool.h - which block of host ids each sandbox has
 *
 * As root: blocks of 65536, from the range that /etc/subuid and /etc/subgid give
 * root alike, else from 0x70000000 upwards, leaving out blocks in which passwd,
 * group, subuid or subgid have somebody.  Otherwise: hutchd's own id, alone,
 * shared by all its sandboxes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/launch.h"

struct idpool {
	uint32_t first, blocks; /* block n begins at first + n * IDPOOL_BLOCK; 0 blocks: own id */
	uint32_t next;        /* where the search goes on: a freed block rests as long as it can */
	unsigned char *taken; /* a byte per block */
};

#define IDPOOL_BLOCK 65536

int idpool_init(struct idpool *, struct err *);
void idpool_done(struct idpool *);
/* ENOSPC when none is free. */
int idpool_take(struct idpool *, struct id_range *ret, struct err *);
/* Marks a block as taken that a record names; false if that cannot be (not ours, or taken). */
bool idpool_claim(struct idpool *, const struct id_range *);
void idpool_free(struct idpool *, const struct id_range *);
