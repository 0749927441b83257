/* blank.h - sandboxes' directories, made ahead
 *
 * Making the directory of a sandbox is a dozen new inodes, and a file system may be
 * slow to find them (ext4 passes over each one that was freed in the last seconds).
 * So a few are made when nothing else is to be done; mkdir takes one and only
 * writes into files that are there.  A blank has a serial and user ids, and no
 * record: what is left of them when hutchd dies goes to the trash at its next start.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/ev.h"
#include "sandbox/launch.h"

struct engine;

struct blanks {
	struct engine *engine; /* borrowed */
	struct list ready;     /* struct blank.link */
	unsigned count;
	struct ev_timer refill;
};

void blanks_init(struct blanks *, struct engine *);
/* They go to the trash. */
void blanks_done(struct blanks *);
/* Begins to fill up, when the loop has time. */
void blanks_fill(struct blanks *);
/* One that is ready, or else one that is made now: its serial and ids are the caller's. Returns its
 * directory, which the caller closes, or a negative errno; then nothing is left of it. */
int blank_take(struct blanks *, uint32_t *ret_serial, struct id_range *ret_ids, struct err *);
