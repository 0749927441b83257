/* ids.c - the sandbox's users are other users outside
 *
 * Ids 0 … count-1 inside are base … base+count-1 outside, a block that no other
 * sandbox has and nobody else on the host: processes, keys, inotify watches and
 * message queues are counted per host uid.  The host's root is never mapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"

/* A map must be written in one write. */
static int write_file(int proc_pid, const char *name, const char *text, struct err *err)
{
	auto_close int fd = openat(proc_pid, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return err_set(err, errno, "write '%s' to /proc/PID/%s", text, name);
	return 0;
}

int ids_write(pid_t pid, const struct id_range *ids, struct err *err)
{
	auto_close int proc_pid = -1;
	char text[64];
	int r;

	snprintf(text, sizeof(text), "/proc/%d", pid);
	proc_pid = open(text, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc_pid < 0)
		return err_set(err, errno, "open %s", text);
	/* Without privileges a process may map its own id only, and its group only once
	 * setgroups() is refused for good: else it could shed a group that denies it things. */
	if (ids->count == 1) {
		r = write_file(proc_pid, "setgroups", "deny", err);
		if (r < 0)
			return r;
	}
	snprintf(text, sizeof(text), "0 %u %u", ids->count == 1 ? getegid() : ids->base,
		 ids->count);
	r = write_file(proc_pid, "gid_map", text, err);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "0 %u %u", ids->base, ids->count);
	return write_file(proc_pid, "uid_map", text, err);
}

/* One line per entry. */
static int write_map(int proc_pid, const char *name, const struct id_map *map, size_t n,
		     struct err *err)
{
	char text[4096]; /* the kernel takes less than a page */
	size_t len = 0;

	for (size_t i = 0; i < n && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %u %u\n", map[i].from,
					map[i].to, map[i].count);
	if (len >= sizeof(text))
		return err_say(err, E2BIG, "too many ids for %s", name);
	return write_file(proc_pid, name, text, err);
}

/* A user namespace lives as long as a process in it or a descriptor of it. */
static pid_t clone_sleeper(void)
{
	pid_t parent = getpid();
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid != 0)
		return pid;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
	for (;;)
		pause();
}

int ids_userns_make(const struct id_map *uid, const struct id_map *gid, size_t gids,
		    struct err *err)
{
	char path[64];
	int fd = -1, r, proc_pid;
	pid_t pid = clone_sleeper();

	if (pid < 0)
		return err_set(err, errno, "make a user namespace");
	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc_pid = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = proc_pid < 0 ? err_set(err, errno, "open %s", path)
			 : write_map(proc_pid, "uid_map", uid, 1, err);
	if (r == 0)
		r = write_map(proc_pid, "gid_map", gid, gids, err);
	if (r == 0) {
		r = fd = ids_userns(pid);
		if (fd < 0)
			err_set(err, -fd, "open a user namespace");
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	close_auto(&proc_pid);
	return r;
}

int ids_userns(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Until now the child had the daemon's ids, which the map does not hold. */
int ids_become_root(struct child *c)
{
	/* Plain system calls: in a fork without exec, glibc's wrappers could wait for threads. */
	if (c->plan->ids.count > 1 && syscall(SYS_setgroups, 0, NULL) < 0)
		return -errno;
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return -errno;
	/* A change of ids clears it, so not before.  A parent that is dead by now has closed its
	 * end of the socket, where the agent looks. */
	return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}
