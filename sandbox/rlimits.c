/* rlimits.c - limits that every process of the sandbox inherits
 *
 * A hard limit can only be lowered (CAP_SYS_RESOURCE of a user namespace does not
 * count), so both are best effort: where the host's is lower, that one stays.
 */
#include <errno.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"

static const struct rlimit_def {
	__rlimit_resource_t what;
	rlim_t soft, hard;
} rlimit_defs[] = {
	/* Never infinity: programs that close every possible descriptor would take minutes. */
	{ RLIMIT_NOFILE, 1024, 1048576 },
	/* A core_pattern with a pipe runs a program of the host as its root, outside of every
	 * group.  A limit of 0 does not stop that; 1 is the value that does. */
	{ RLIMIT_CORE, 1, 1 },
};

int rlimits_set(struct child *c)
{
	(void)c;
	for (unsigned i = 0; i < ARRAY_SIZE(rlimit_defs); i++) {
		const struct rlimit_def *d = &rlimit_defs[i];
		struct rlimit now;

		if (getrlimit(d->what, &now) < 0)
			return -errno;
		if (now.rlim_max > d->hard)
			now.rlim_max = d->hard;
		now.rlim_cur = d->soft < now.rlim_max ? d->soft : now.rlim_max;
		if (setrlimit(d->what, &now) < 0)
			return -errno;
	}
	return 0;
}
