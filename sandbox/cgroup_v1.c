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
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/cgroup-internal.h"

#define KILL_ROUNDS 8
#define HELD_MAX    64

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

static int read_pids(const struct cgroups *set, const char *name, struct buf *list)
{
	char path[CGROUP_NAME_LEN + 16];

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	return file_read(set->base, path, list, NULL);
}

/* The next one of the list; 0: there is none, or none that we can see. */
static pid_t next_pid(char **at)
{
	char *end;
	long pid = *at ? strtol(*at, &end, 10) : 0;

	if (!*at || end == *at || pid <= 1)
		return 0;
	*at = end;
	return (pid_t)pid;
}

/* Processes that were listed a moment ago. */
struct held {
	pid_t pid[HELD_MAX];
	int pidfd[HELD_MAX];
	size_t n;
};

/* A process that has ended meanwhile may have left its pid to one that is none of ours.  Whose pid
 * is still listed, with the pidfd open before, is either the one that is held, or that has
 * ended and the signal goes nowhere. */
static void kill_held(const struct cgroups *set, const char *name, const struct held *held)
{
	auto_buf struct buf list = { 0 };
	char *at;

	if (read_pids(set, name, &list) < 0)
		return;
	at = list.data;
	for (pid_t pid; (pid = next_pid(&at)) != 0;)
		for (size_t i = 0; i < held->n; i++)
			if (held->pid[i] == pid && held->pidfd[i] >= 0)
				(void)pidfd_send_signal(held->pidfd[i], SIGKILL, NULL, 0);
}

/* Returns how many were listed. */
static unsigned kill_listed(const struct cgroups *set, const char *name)
{
	auto_buf struct buf list = { 0 };
	unsigned n = 0;
	struct held held;
	char *at;

	if (read_pids(set, name, &list) < 0)
		return 0;
	at = list.data;
	do {
		held.n = 0;
		while (held.n < HELD_MAX && (held.pid[held.n] = next_pid(&at)) != 0) {
			held.pidfd[held.n] = pidfd_open(held.pid[held.n], 0);
			held.n++;
		}
		if (held.n)
			kill_held(set, name, &held);
		for (size_t i = 0; i < held.n; i++)
			close_auto(&held.pidfd[i]);
		n += (unsigned)held.n;
	} while (held.n == HELD_MAX);
	return n;
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
