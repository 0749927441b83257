/* mountpoint.h - the directory that the tree is mounted on */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct mountpoint {
	char *path; /* owned; absolute, its parent without links */
	bool made;  /* by us, so it is removed at the end */
};

/* Makes sure that `path` is an empty directory that nothing is mounted on: makes it if its parent
 * exists, and detaches what is left of a mount whose server has died. */
int mountpoint_prepare(struct mountpoint *ret, const char *path, struct err *);
/* After unmounting: detaches what is left of the mount, and removes what was made. */
void mountpoint_done(struct mountpoint *);
