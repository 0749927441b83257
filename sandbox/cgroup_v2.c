/* cgroup_v2.c - the unified hierarchy, whole or bare beside v1
 *
 * A process of the sandbox may be cloned into a group when its user 0 owns
 * cgroup.procs of the target and of the common ancestor, which is the sandbox's own
 * group; everything else in them stays root's.  No cgroupfs is mounted inside, so
 * only the agent, with a descriptor that hutchd gives it, can make use of that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/cgroup-internal.h"

static int v2_find(char **ret_path, struct err *err)
{
	*ret_path = cgroup_find_mount("cgroup2", NULL, "");
	return *ret_path ? 0 : err_say(err, ENOENT, "no cgroup v2 is mounted");
}

static int v2_allow(struct cgroups *set, const char *name, const struct id_range *ids,
		    struct err *err)
{
	char path[CGROUP_NAME_LEN + 16];

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	if (ids->count > 1 && fchownat(set->base, path, ids->base, ids->base, 0) < 0)
		return err_set(err, errno, "give '%s' to the sandbox", path);
	return 0;
}

static int v2_open_join(struct cgroups *set, const char *name, struct err *err)
{
	int fd = openat(set->base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_set(err, errno, "open the group '%s'", name) : fd;
}

static void v2_kill(struct cgroups *set, const char *name)
{
	(void)cgroup_write(set, name, "cgroup.kill", "1");
}

const struct cgroup_ops cgroup_v2_ops = {
	.find = v2_find,
	.allow = v2_allow,
	.open_join = v2_open_join,
	.clones = true,
	.kill = v2_kill,
};
