/* access.h - who asks, and what Unix permissions say about it
 *
 * Over FUSE the kernel checks too (default_permissions); over 9P this is the
 * only check.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

/* The overflow id: what the kernel shows for an id that has no mapping. Nobody's identity. */
#define ACCESS_NOBODY 65534

struct caller {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: cannot be seen */
	/* The supplementary groups, as many as fit, into `out`: how many there are. May cost a read
	 * of /proc, so it is asked last. NULL: there are none. */
	int (*groups)(const struct caller *, gid_t *out, int cap);
	const void *arg; /* for groups */
};

enum access_want { ACCESS_EXEC = 1, ACCESS_WRITE = 2, ACCESS_READ = 4 };

/* Does the mode give this caller everything in `want`? Root has it all. */
bool access_allowed(const struct stat *, const struct caller *, unsigned want);
/* The rights that open(2) flags need. */
unsigned access_of_flags(int flags);
/* May files be made in this directory, or removed from it? 0 or -EACCES, -EPERM. */
int access_change_dir(const struct stat *, const struct caller *, struct err *);
/* All supplementary groups, for the caller to free; without memory, none. Returns how many. */
int access_groups(const struct caller *, gid_t **ret);
/* Is the caller in this group? */
bool access_in_group(const struct caller *, gid_t);
