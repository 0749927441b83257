/* mountpoint.h - the directory that the tree is mounted on
 *
 * Two hutchds may want the same one at the same time.  Mounting takes no notice of
 * what is mounted there, so each first locks the directory below, and has the lock
 * until it has unmounted: the other waits until it sees the mount, and gives up, or
 * until the lock is free, and goes on, or for ten seconds.  A directory that has to be made appears
 * under its name with the lock on it, so that it belongs to the one who removes it.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct mountpoint {
	char *path; /* owned; absolute, its parent without links */
	int lock;   /* the directory below the mount; begins as -1 */
	bool made;  /* by us, so it is removed at the end */
};

/* Makes sure that `path` is an empty directory that nothing is mounted on: makes it if its parent
 * exists, and detaches what is left of a mount whose server has died. Neither it nor `state_dir`,
 * an absolute path that need not exist, may lie in the other. Waits for another hutchd that is about
 * to begin or to end there. */
int mountpoint_prepare(struct mountpoint *ret, const char *path, const char *state_dir,
		       struct err *);
/* After unmounting: detaches what is left of the mount, and removes what was made. */
void mountpoint_done(struct mountpoint *);
