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
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"

#define DEAD_MAX  8  /* mounts on top of each other that are detached */
#define LINKS_MAX 40 /* symbolic links behind each other, as the kernel has it */

#define WAIT_MS      10000 /* for another hutchd */
#define WAIT_STEP_MS 20

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

/* -EAGAIN, without a sentence: it goes away just now. */
static int check_unmounted(const char *path, struct err *err)
{
	auto_free char *copy = strdup(path);
	uint64_t below, here;

	if (!copy)
		return err_set(err, ENOMEM, "mount point");
	below = mount_id(dirname(copy));
	here = mount_id(path);
	if (here && here == below)
		return 0;
	if (here && is_hutch(path))
		return err_say(err, EBUSY, "mount point '%s': a hutchd serves it already", path);
	if (!here || mount_id(path) != here)
		return -EAGAIN;
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

/* --- the lock --- */

/* -EAGAIN, without a sentence: somebody else has it, or what is there is not what we have opened.
 * `anyway`: without the lock, if need be. Whoever may read the directory can lock it, and must not
 * keep us from starting for ever. */
static int take_lock(const char *path, bool anyway, int *ret, struct err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat opened, there;
	int r;

	if (fd < 0 && (errno == ENOENT || errno == ENOTCONN || errno == ECONNABORTED))
		return -EAGAIN;
	if (fd < 0)
		return err_set(err, errno, "mount point '%s'", path);
	/* Of other failures, of a file system without locks, nobody is the worse but in a race. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK && !anyway)
		return -EAGAIN;
	r = check_unmounted(path, err); /* since we looked */
	if (r < 0)
		return r;
	if (fstat(fd, &opened) < 0 || stat(path, &there) < 0 || opened.st_dev != there.st_dev ||
	    opened.st_ino != there.st_ino)
		return -EAGAIN;
	*ret = TAKE_FD(fd);
	return 0;
}

/* Where a rename must not replace: a file system may not know how. */
static int make_plain(const char *path, int *ret, struct err *err)
{
	if (mkdir(path, 0755) < 0)
		return errno == EEXIST ? -EAGAIN
				       : err_set(err, errno, "make mount point '%s'", path);
	return take_lock(path, false, ret, err);
}

/* -EAGAIN, without a sentence: there is something by now. */
static int make_locked(const char *path, int *ret, struct err *err)
{
	auto_free char *copy = strdup(path), *fresh = NULL;
	auto_close int fd = -1;
	int r;

	if (!copy || asprintf(&fresh, "%s/.hutchd-XXXXXX", dirname(copy)) < 0) {
		fresh = NULL; /* asprintf leaves anything */
		return err_set(err, ENOMEM, "make mount point '%s'", path);
	}
	if (!mkdtemp(fresh))
		return err_set(err, errno, "make mount point '%s'", path);
	fd = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && fchmod(fd, 0755) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE) == 0) {
		*ret = TAKE_FD(fd);
		return 0;
	}
	r = errno == EEXIST ? -EAGAIN : make_plain(path, ret, err);
	(void)rmdir(fresh);
	return r;
}

/* --- neither in the other --- */

/* Without links, as far as it exists; what cannot be looked at is as it was given. */
static char *canonical(const char *path)
{
	auto_free char *head = strdup(path), *real = NULL;
	char *whole, *slash;
	size_t len;

	while (head && !real && (slash = strrchr(head, '/')) && slash != head) {
		len = strlen(head);
		real = slash[1] ? realpath(head, NULL) : NULL;
		if (!real)
			*slash = '\0';
		else if (asprintf(&whole, "%s%s", real, path + len) >= 0)
			return whole;
	}
	return strdup(path);
}

/* `path`, or a directory above it, is `dir`: by its name, or by what is there. */
static bool lies_in(const char *path, const char *dir)
{
	auto_free char *at = strdup(path);
	struct stat want, here;
	bool known = stat(dir, &want) == 0;

	for (char *slash; at && (slash = strrchr(at, '/')) && slash != at; *slash = '\0') {
		if (strcmp(at, dir) == 0)
			return true;
		if (known && stat(at, &here) == 0 && here.st_dev == want.st_dev &&
		    here.st_ino == want.st_ino)
			return true;
	}
	return false;
}

static int check_apart(const char *path, const char *state_dir, struct err *err)
{
	auto_free char *state = canonical(state_dir);

	if (!state)
		return err_set(err, ENOMEM, "mount point '%s'", path);
	if (lies_in(path, state))
		return err_say(err, EINVAL,
			       "mount point '%s': lies in the state directory '%s', where nothing "
			       "else may be",
			       path, state);
	if (lies_in(state, path))
		return err_say(err, EINVAL,
			       "mount point '%s': the state directory '%s' lies in it and would be "
			       "hidden",
			       path, state);
	return 0;
}

/* --- all --- */

/* -EAGAIN, without a sentence: another hutchd is about to begin or to end there. */
static int claim(struct mountpoint *ret, const char *path, bool anyway, struct err *err)
{
	auto_close int lock = -1;
	struct stat st;
	int r = look(path, &st, err);

	if (r == -ENOENT) {
		r = make_locked(path, &lock, err);
		if (r == 0)
			ret->made = true;
	} else if (r == 0 && !S_ISDIR(st.st_mode)) {
		r = err_say(err, ENOTDIR, "mount point '%s': not a directory", path);
	} else if (r == 0) {
		r = check_unmounted(path, err);
		if (r == 0)
			r = take_lock(path, anyway, &lock, err);
		if (r == 0)
			r = check_empty(path, err);
	}
	if (r == 0)
		ret->lock = TAKE_FD(lock);
	return r;
}

int mountpoint_prepare(struct mountpoint *ret, const char *path, const char *state_dir,
		       struct err *err)
{
	const struct timespec pause = { .tv_nsec = WAIT_STEP_MS * 1000000L };
	auto_free char *abs = NULL;
	int r;

	r = resolve(path, &abs, err);
	if (r == 0)
		r = follow(&abs, err);
	if (r == 0)
		r = check_apart(abs, state_dir, err);
	if (r < 0)
		return r;
	r = claim(ret, abs, false, err);
	for (int ms = 0; r == -EAGAIN && ms < WAIT_MS; ms += WAIT_STEP_MS) {
		(void)nanosleep(&pause, NULL);
		r = claim(ret, abs, ms + WAIT_STEP_MS >= WAIT_MS, err);
	}
	if (r == -EAGAIN)
		return err_say(err, EBUSY,
			       "mount point '%s': another hutchd is about to begin or to end there",
			       abs);
	if (r == 0)
		ret->path = TAKE_PTR(abs);
	return r;
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
	close_auto(&mp->lock); /* last: whoever waits for it finds what we leave */
	*mp = (struct mountpoint){ .lock = -1 };
}
