/* blank.h - sandboxes' directories, made ahead
 *
 * Making the directory of a sandbox is a dozen new inodes, and a file system may be
 * slow to find them (ext4 passes over each one that was freed in the last seconds).
 * Namespaces and mounts take a millisecond more.  So a few sandboxes are made when
 * nothing else is to be done, their directories by the writer (disk.h), up to a
 * process 1 that waits for its name; mkdir takes one, writes its record, and names
 * it.  The group of its first command is there too.  A blank has a serial
 * and user ids, and no record: what is left of them when hutchd dies goes to the
 * trash at its next start, and its process ends with the socket, like an agent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ev.h"
#include "sandbox/cgroup.h"
#include "sandbox/disk.h"
#include "sandbox/launch.h"

struct engine;

struct blanks {
	struct engine *engine; /* borrowed */
	struct list ready;     /* struct blank.link */
	unsigned count;
	struct blank *making; /* the writer makes its directory; NULL: none */
	struct disk_done ground;
	struct ev_timer refill;
};

void blanks_init(struct blanks *, struct engine *);
/* They go to the trash. */
void blanks_done(struct blanks *);
/* Begins to fill up, when the loop has time. */
void blanks_fill(struct blanks *);
/* What mkdir begins with. */
struct blank {
	struct list link; /* blanks.ready */
	uint32_t serial;
	struct id_range ids;
	struct cgroup_run *groups; /* owned; NULL: there is no process yet */
	struct launched proc;      /* owned, when there is one */
};

/* One that is ready, or else a serial and ids only, whose directory the writer makes when run_start()
 * asks; `cold`: in any case these.
 * On failure nothing is left of it. Its serial, ids and process are the caller's. */
int blank_take(struct blanks *, bool cold, struct blank *ret, struct err *);
/* Ends its process, if it has one still. */
void blank_end(struct blanks *, struct blank *);
