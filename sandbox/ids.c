/* ids.c - the sandbox's users are other users outside
 *
 * Ids 0 … count-1 inside are base … base+count-1 outside, a block that no other
 * sandbox has and nobody else on the host: processes, keys, inotify watches and
 * message queues are counted per host uid.  The host's root is never mapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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
