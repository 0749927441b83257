/* cgroup_v1.c - the pids hierarchy of cgroup v1
 *
 * The kernel asks for the rights of whoever opened `tasks`, not of who writes to it:
 * so the child of the agent can put itself into a group by writing "0" to a
 * descriptor of hutchd's.
 *
 * v1 has no cgroup.kill.  With pids.max at 0 nothing in the group can fork, so
 * killing what is listed comes to an end; a process that was just being made is
 * met in the next round.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/cgroup-internal.h"

#define KILL_ROUNDS 8

static int v1_find(char **ret_path, struct err *err)
{
	*ret_path = cgroup_find_mount("cgroup", "pids", "pids");
	return *ret_path ? 0
			 : err_say(err, ENOENT, "the pids controller of cgroup v1 is not mounted");
}

static int v1_allow(struct cgroups *set, const char *name, const struct id_range *ids,
		    struct err *err)
{
	(void)set;
	(void)name;
	(void)ids;
	(void)err;
	return 0;
}

static int v1_open_join(struct cgroups *set, const char *name, struct err *err)
{
	char path[CGROUP_NAME_LEN + 16];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/tasks", name);
	fd = openat(set->base, path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "open '%s'", path) : fd;
}

/* Returns how many were listed. */
static unsigned kill_listed(const struct cgroups *set, const char *name)
{
	auto_buf struct buf list = { 0 };
	char path[CGROUP_NAME_LEN + 16];
	unsigned n = 0;

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	if (file_read(set->base, path, &list, NULL) < 0 || !list.len)
		return 0;
	for (char *at = list.data, *end;; at = end) {
		long pid = strtol(at, &end, 10);

		if (end == at || pid <= 1)
			return n;
		(void)kill((pid_t)pid, SIGKILL);
		n++;
	}
}

static void v1_kill(struct cgroups *set, const char *name)
{
	(void)cgroup_write(set, name, "pids.max", "0");
	for (int i = 0; i < KILL_ROUNDS && kill_listed(set, name) > 0; i++)
		;
}

const struct cgroup_ops cgroup_v1_ops = {
	.find = v1_find,
	.allow = v1_allow,
	.open_join = v1_open_join,
	.clones = false,
	.kill = v1_kill,
};
