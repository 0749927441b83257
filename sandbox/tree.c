/* tree.c - see tree.h */
#include "sandbox/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

DEFINE_AUTO(DIR *, closedir);

static DIR *open_dir(int at, const char *name)
{
	auto_close int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		fd = -1; /* the stream's now */
	return d;
}

#define DEEP_LEN 32

static void deep_name(char out[DEEP_LEN], unsigned n)
{
	(void)snprintf(out, DEEP_LEN, "deep-%u", n);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* --- removing --- */

/* Each level holds a descriptor and a buffer; a tree may be deeper than there are either. */
#define DEPTH_MAX 64

struct removal {
	int top;        /* where the tree is */
	unsigned moved; /* the number of the last directory from too deep below */
	int r;          /* the first failure; the rest is removed all the same */
	struct err *err;
};

/* A directory in the depth takes its place at the top, where it is met again. */
static int move_up(struct removal *rm, int at, const char *name)
{
	char to[DEEP_LEN];
	int r;

	do {
		deep_name(to, ++rm->moved);
		r = renameat(at, name, rm->top, to);
	} while (r < 0 && (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR));
	return r;
}

static void remove_one(struct removal *, int at, const char *name, unsigned depth);

static void remove_entries(struct removal *rm, DIR *d, unsigned depth)
{
	struct dirent *e;

	while ((e = readdir(d)))
		if (!is_dots(e->d_name))
			remove_one(rm, dirfd(d), e->d_name, depth + 1);
}

static void remove_one(struct removal *rm, int at, const char *name, unsigned depth)
{
	AUTO(closedir) DIR *d = NULL;

	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return;
	if (errno == EISDIR || errno == EPERM) {
		d = open_dir(at, name);
		/* One's own without permissions: overlay's work/work, or what a sandbox has left. */
		if (!d && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
			d = open_dir(at, name);
		if (d)
			(void)fchmod(dirfd(d), 0700);
		if (d && depth < DEPTH_MAX)
			remove_entries(rm, d, depth);
		if (unlinkat(at, name, AT_REMOVEDIR) == 0)
			return;
		if (errno == ENOTEMPTY && depth >= DEPTH_MAX && move_up(rm, at, name) == 0)
			return;
	}
	if (rm->r == 0)
		rm->r = err_set(rm->err, errno, "remove '%s'", name);
}

int tree_remove(int at, const char *name, struct err *err)
{
	struct removal rm = { .top = at, .err = err };
	char deep[DEEP_LEN];

	remove_one(&rm, at, name, 0);
	for (unsigned n = 1; n <= rm.moved; n++) { /* they may move others up */
		deep_name(deep, n);
		remove_one(&rm, at, deep, 0);
	}
	return rm.r;
}

/* --- copying --- */

static int copy_link(int from_at, const char *from, int to_at, const char *to, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from_at, from, target, sizeof(target) - 1);

	if (n < 0)
		return err_set(err, errno, "read the link '%s'", from);
	target[n] = '\0';
	if (symlinkat(target, to_at, to) < 0)
		return err_set(err, errno, "make the link '%s'", to);
	return 0;
}

static int copy_bytes(int in, int out)
{
	char buf[16 * 1024];

	for (;;) {
		ssize_t n = copy_file_range(in, NULL, out, NULL, 1 << 30, 0);

		if (n == 0)
			break;
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP))
			break; /* between file systems: below */
		if (n < 0)
			return -errno;
	}
	for (;;) {
		ssize_t n = read(in, buf, sizeof(buf));

		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (write(out, buf, (size_t)n) != n)
			return errno ? -errno : -EIO;
	}
}

static int copy_file(int from_at, const char *from, int to_at, const char *to, struct err *err)
{
	auto_close int in = openat(from_at, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_close int out = -1;
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0)
		return err_set(err, errno, "read '%s'", from);
	out = openat(to_at, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_set(err, errno, "make '%s'", to);
	r = copy_bytes(in, out);
	if (r == 0 && fchmod(out, st.st_mode & 0755) < 0)
		r = -errno;
	return r < 0 ? err_set(err, -r, "copy '%s'", from) : 0;
}

static int copy_dir(int from_at, const char *from, int to_at, const char *to, struct err *err)
{
	AUTO(closedir) DIR *in = open_dir(from_at, from);
	auto_close int out = -1;
	struct dirent *e;

	if (!in)
		return err_set(err, errno, "open '%s'", from);
	if (mkdirat(to_at, to, 0755) < 0 && errno != EEXIST)
		return err_set(err, errno, "make '%s'", to);
	out = openat(to_at, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		return err_set(err, errno, "open '%s'", to);
	while (errno = 0, (e = readdir(in))) {
		int r = is_dots(e->d_name)
				? 0
				: tree_copy_public(dirfd(in), e->d_name, out, e->d_name, err);

		if (r < 0)
			return r;
	}
	return errno ? err_set(err, errno, "read '%s'", from) : 0;
}

int tree_copy_public(int from_at, const char *from, int to_at, const char *to, struct err *err)
{
	struct stat st;

	if (fstatat(from_at, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "look at '%s'", from);
	if (S_ISLNK(st.st_mode))
		return copy_link(from_at, from, to_at, to, err);
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
		return copy_file(from_at, from, to_at, to, err);
	if (S_ISDIR(st.st_mode) && (st.st_mode & 05) == 05)
		return copy_dir(from_at, from, to_at, to, err);
	return 0;
}
