/* namespaces.c - the small things to do in each new namespace
 *
 * The user and the pid namespace are made by clone3() in launch.c, which must come first: the
 * others belong to the user namespace in which they are made.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "sandbox/launch-internal.h"

/* Needs no ids yet: whoever makes a user namespace has every capability in it. */
int namespaces_unshare(struct child *c)
{
	(void)c;
	return unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET) < 0 ? -errno : 0;
}

/* Later than the others: its root is the group that the process is in at this moment, and that must be
 * the sandbox's, not the daemon's. */
int namespaces_enter_cgroup(struct child *c)
{
	(void)c;
	return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

/* The copies of the host's mounts are slaves of the originals as it is (another user namespace);
 * private, they do not change under us either. */
int namespaces_private_mounts(struct child *c)
{
	(void)c;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

int namespaces_lo_up(struct child *c)
{
	return lo_up(c->plan->lo);
}

int namespaces_hostname(struct child *c)
{
	const char *name = c->name.hostname;

	return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}
