/* hutch_doctor_try.c - what only trying tells
 *
 * Each is tried in a child with namespaces of its own, whose end undoes it.  The
 * child's exit status is the errno of what failed, or 0.
 */
#include "tools/hutch_doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"

/* sys/mount.h and linux/mount.h cannot be had together with glibc 2.36. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
	  const void *data);
#define MOUNT_PRIVATE (1UL << 18 | 1UL << 14) /* MS_PRIVATE | MS_REC */

/* Runs `child` in a new process: 0, or the errno that it returned. */
static int try(int (*child)(void))
{
	int status;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(child() & 0xff);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static bool write_self(const char *path, const char *text)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write_all(fd, text, strlen(text)) == 0;
}

/* A user namespace in which this user is user 0. */
static int become_root(int more)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | more) < 0)
		return errno;
	(void)write_self("/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "0 %u 1", gid);
	if (!write_self("/proc/self/gid_map", map))
		return errno;
	(void)snprintf(map, sizeof(map), "0 %u 1", uid);
	return write_self("/proc/self/uid_map", map) ? 0 : errno;
}

static int child_userns(void)
{
	return become_root(0);
}

void doctor_try_userns(struct finding *f)
{
	int code = try(child_userns);

	if (code == 0) {
		FOUND(f, FINDING_OK, "user namespaces can be made");
		return;
	}
	FOUND(f, FINDING_MISSING,
	      "no user namespace can be made (%s), and no sandbox without: see the sysctls "
	      "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
	      "kernel.apparmor_restrict_unprivileged_userns",
	      strerror(code));
}

static int child_overlay(void)
{
	int code = become_root(CLONE_NEWNS);

	if (code != 0)
		return code;
	if (mount(NULL, "/", NULL, MOUNT_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0 || mkdir("/tmp/low", 0700) < 0 ||
	    mkdir("/tmp/up", 0700) < 0 || mkdir("/tmp/work", 0700) < 0 ||
	    mkdir("/tmp/all", 0700) < 0 ||
	    mount("overlay", "/tmp/all", "overlay", 0,
		  "lowerdir=/tmp/low,upperdir=/tmp/up,workdir=/tmp/work,userxattr") < 0)
		return errno;
	return 0;
}

void doctor_try_overlay(struct finding *f)
{
	int code = try(child_overlay);

	if (code == 0)
		FOUND(f, FINDING_OK, "overlays can be mounted in a user namespace");
	else
		FOUND(f, FINDING_MISSING,
		      "no overlay can be mounted in a user namespace (%s), so a sandbox has no "
		      "writable layer: the kernel needs CONFIG_OVERLAY_FS",
		      strerror(code));
}

/* The parent's half needs the namespace of a child that waits. */
static int idmap_of(pid_t pid)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	auto_close int tree = -1, ns = -1;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0)
		return errno;
	attr.userns_fd = (unsigned)ns;
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return errno;
	return syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? errno
											    : 0;
}

static int try_idmap(void)
{
	int ready[2], code = 0;
	char byte = 0;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return errno;
	pid = fork();
	if (pid == 0) {
		code = become_root(0);
		byte = (char)code;
		(void)!write(ready[1], &byte, 1);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (pid > 0) {
		code = read(ready[0], &byte, 1) == 1 ? (unsigned char)byte : EIO;
		if (code == 0)
			code = idmap_of(pid);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	} else {
		code = errno;
	}
	close(ready[0]);
	return code;
}

void doctor_try_idmap(struct finding *f)
{
	int code;

	if (geteuid() != 0) {
		FOUND(f, FINDING_NOTE,
		      "only root can map the ids of a mount, so what a hutchd of yours shows its "
		      "sandboxes (run --mount) has the owner that it has");
		return;
	}
	code = try_idmap();
	if (code == 0)
		FOUND(f, FINDING_OK, "the root file system takes idmapped mounts");
	else
		FOUND(f, FINDING_NOTE,
		      "the root file system takes no idmapped mounts (%s): what is shown to a "
		      "sandbox from there can only be read",
		      strerror(code));
}
