#include "tools/mountpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"

#define DEAD_MAX  8  /* mounts on top of each other that are detached */
#define LINKS_MAX 40 /* symbolic links behind each other, as the kernel has it */

extern char **environ;
DEFINE_AUTO(DIR *, closedir);

/* An absolute path whose last component need not exist, or may not be looked at. */
static int resolve(const char *path, char **ret, struct err *err)
{
	auto_free char *one = strdup(path), *two = strdup(path), *parent = NULL;
	const char *name;

	if (!one || !two)
		return err_set(err, ENOMEM, "mount point");
	name = basename(one);
	if (!*path || strcmp(name, "/") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_say(err, EINVAL, "mount point '%s': name a directory by its own name",
			       path);
	parent = realpath(dirname(two), NULL);
	if (!parent)
		return err_set(err, errno, "mount point '%s': its parent", path);
	if (asprintf(ret, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name) < 0) {
		*ret = NULL; /* asprintf leaves anything */
		return err_set(err, ENOMEM, "mount point");
	}
	return 0;
}

/* Where a symbolic link at the place leads.  Not left to realpath(3), which fails at a dead mount, and
 * not to mount(2): what is mounted must be found there again, by its own path. */
static int follow(char **path, struct err *err)
{
	for (int i = 0; i < LINKS_MAX; i++) {
		auto_free char *link = NULL, *target = NULL;
		char text[PATH_MAX];
		ssize_t n = readlink(*path, text, sizeof(text) - 1);
		int r;

		if (n < 0)
			return 0;
		text[n] = '\0';
		link = TAKE_PTR(*path);
		if (asprintf(&target, "%s/%s", *text == '/' ? "" : dirname(link), text) < 0) {
			target = NULL; /* asprintf leaves anything */
			return err_set(err, ENOMEM, "mount point");
		}
		r = resolve(target, path, err);
		if (r < 0)
			return r;
	}
	return err_set(err, ELOOP, "mount point '%s'", *path);
}

/* Runs a program that says nothing. 0: it has done it. */
static int run_quietly(char *const *argv)
{
	posix_spawn_file_actions_t actions;
	int status = -1, r;
	pid_t pid;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	r = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (r == 0)
		r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* A user is helped by fusermount3, which looks for the mount in /etc/mtab and does nothing where there
 * is none, or by umount, which asks the kernel whose it is. */
static int detach(const char *path)
{
	char fusermount[] = "fusermount3", umount[] = "umount", unmount[] = "-u",
	     lazy_fuse[] = "-z", lazy[] = "-l", end[] = "--";
	auto_free char *place = strdup(path);
	char *by_fusermount[] = { fusermount, unmount, lazy_fuse, end, place, NULL };
	char *by_umount[] = { umount, lazy, end, place, NULL };

	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno != EPERM || !place)
		return -errno;
	return run_quietly(by_fusermount) == 0 || run_quietly(by_umount) == 0 ? 0 : -EPERM;
}

/* stat(2) alone may be answered from what the kernel remembers of a server that has died. */
static int stat_served(const char *path, struct stat *st)
{
	struct statfs fs;

	return stat(path, st) == 0 && statfs(path, &fs) == 0 ? 0 : -errno;
}

/* What a mount says whose server is gone, or is just going. */
static bool served_no_more(int r)
{
	return r == -ENOTCONN || r == -ECONNABORTED;
}

/* stat(2) of the place, after detaching dead mounts. -ENOENT without a sentence: nothing is there. */
static int look(const char *path, struct stat *st, struct err *err)
{
	for (int i = 0; i < DEAD_MAX; i++) {
		int r = stat_served(path, st);

		if (r == 0 || r == -ENOENT)
			return r;
		if (!served_no_more(r))
			return err_set(err, -r, "mount point '%s'", path);
		r = detach(path);
		if (r < 0)
			return err_set(err, -r,
				       "detach the dead mount at '%s' (as root: umount -l %s)",
				       path, path);
	}
	return err_say(err, EBUSY, "mount point '%s': too many dead mounts on top of each other",
		       path);
}

static uint64_t mount_id(const char *path)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_MNT_ID, &stx) < 0)
		return 0;
	return stx.stx_mnt_id;
}

static bool is_hutch(const char *path)
{
	char file[4096], text[6] = "";
	auto_close int fd = -1;

	(void)snprintf(file, sizeof(file), "%s/version", path);
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && read(fd, text, 5) == 5 && strcmp(text, "hutch") == 0;
}

static int check_unmounted(const char *path, struct err *err)
{
	auto_free char *copy = strdup(path);

	if (!copy)
		return err_set(err, ENOMEM, "mount point");
	if (mount_id(path) == mount_id(dirname(copy)))
		return 0;
	if (is_hutch(path))
		return err_say(err, EBUSY, "mount point '%s': a hutchd serves it already", path);
	return err_say(err, EBUSY, "mount point '%s': something else is mounted there", path);
}

static int check_empty(const char *path, struct err *err)
{
	AUTO(closedir) DIR *dir = opendir(path);
	const struct dirent *e;

	if (!dir)
		return err_set(err, errno, "mount point '%s'", path);
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return err_say(
				err, ENOTEMPTY,
				"mount point '%s': the directory is not empty, and what is in it "
				"would be hidden",
				path);
	return 0;
}

int mountpoint_prepare(struct mountpoint *ret, const char *path, struct err *err)
{
	auto_free char *abs = NULL;
	bool made = false;
	struct stat st;
	int r;

	r = resolve(path, &abs, err);
	if (r == 0)
		r = follow(&abs, err);
	if (r < 0)
		return r;
	r = look(abs, &st, err);
	if (r == -ENOENT) {
		if (mkdir(abs, 0755) < 0)
			return err_set(err, errno, "make mount point '%s'", abs);
		made = true;
	} else if (r < 0) {
		return r;
	} else if (!S_ISDIR(st.st_mode)) {
		return err_say(err, ENOTDIR, "mount point '%s': not a directory", abs);
	} else {
		r = check_unmounted(abs, err);
		if (r == 0)
			r = check_empty(abs, err);
		if (r < 0)
			return r;
	}
	ret->path = TAKE_PTR(abs);
	ret->made = made;
	return 0;
}

void mountpoint_done(struct mountpoint *mp)
{
	struct stat st;

	/* What fusermount3 has mounted it did not always unmount. */
	if (mp->path && geteuid() != 0 && served_no_more(stat_served(mp->path, &st)))
		(void)detach(mp->path);
	/* Somebody may have put something in it, or mounted something else: then it stays. */
	if (mp->path && mp->made)
		(void)rmdir(mp->path);
	free(mp->path);
	*mp = (struct mountpoint){ 0 };
}
