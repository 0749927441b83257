/* unpack.c - a tar stream becomes files
 *
 * A name is first checked as text: relative, without "..", below the component
 * that was asked for.  Its parent is then opened by openat2(2), which the kernel
 * keeps beneath the root and off symbolic links at every step; checking first and
 * opening by path later would lose against a sandbox into which the root is mounted
 * for writing.  The last component is only ever given to calls that do not follow
 * it, and what is made begins under a random name in the same directory, to be
 * renamed over the real one.
 *
 * Modes and times of directories come last, since they may forbid writing and are
 * changed by it.  tar sends what is in a directory right behind it, so those that
 * are still to be finished are the ancestors of the current name, and memory stays
 * bounded.
 */
#include "tools/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/text.h"

#define MODE_KEPT  0777 /* what is not ours must not become setuid for us */
#define PIECE      (256 * 1024)
#define TMP_PREFIX ".hutch-"
#define DEPTH_MAX  (PATH_MAX / 2)

/* A directory that was made here, to be finished when nothing more comes for it. */
struct made {
	size_t len; /* of its path, which begins state.dirs */
	mode_t mode;
	struct timespec mtime;
	dev_t dev;
	ino_t ino;
};

struct state {
	struct unpack *u;
	struct tar_reader *tar;
	struct buf path, target; /* of the current entry, from the root on */
	struct buf dirs;         /* path of the innermost directory to be finished */
	struct made *made;       /* owned */
	size_t made_n, made_cap;
	struct buf parent_path;
	struct buf failed_dir; /* could not be made: what is in it is not complained of again */
	int parent;            /* owned: the current entry's, of parent_path; -1: none */
	char *piece;
};

/* ---- names ---- */

static int hostile(const char *name, const char *why, struct err *err)
{
	auto_buf struct buf shown = { 0 };

	(void)text_escape(&shown, name, strnlen(name, 200));
	return err_say(err, EPROTO, "the tar stream names '%s', which %s: stopped there",
		       shown.data ? shown.data : "", why);
}

/* Where a name of the stream lies below the root; "" is the root itself. */
static int map_name(const struct unpack *u, const char *name, struct buf *path, struct err *err)
{
	bool first = u->from != NULL;
	const char *at = name;
	int r = 0;

	path->len = 0;
	if (*name == '/')
		return hostile(name, "is absolute", err);
	if (!first && u->to)
		r = buf_printf(path, "%s", u->to);
	while (r == 0 && *at) {
		size_t len = strcspn(at, "/");
		const char *word = at;

		at += len + strspn(at + len, "/");
		if (len == 0 || (len == 1 && *word == '.'))
			continue;
		if (len == 2 && memcmp(word, "..", 2) == 0)
			return hostile(name, "leads out of what was asked for", err);
		if (first && (strlen(u->from) != len || memcmp(u->from, word, len) != 0))
			return hostile(name, "is not below what was asked for", err);
		if (first)
			r = buf_printf(path, "%s", u->to);
		else
			r = buf_printf(path, "%s%.*s", path->len ? "/" : "", (int)len, word);
		first = false;
	}
	if (r == 0 && first)
		return hostile(name, "is not below what was asked for", err);
	if (r == 0) /* "" too is a string */
		r = buf_reserve(path, 1);
	if (r < 0)
		return err_set(err, -r, "a name of the tar stream");
	path->data[path->len] = '\0';
	return 0;
}

static const char *last_of(const struct buf *path)
{
	const char *slash = strrchr(path->data, '/');

	return slash ? slash + 1 : path->data;
}

/* ---- the parent ---- */

static int open_beneath(int root, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC),
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS };

	for (int tries = 0;; tries++) {
		int fd = (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));

		/* EAGAIN: something was renamed meanwhile, and the kernel could not be sure. */
		if (fd >= 0 || errno != EAGAIN || tries == 100)
			return fd < 0 ? -errno : fd;
	}
}

/* A descriptor that the caller owns. */
static int open_parent_of(const struct state *s, const struct buf *path)
{
	size_t len = (size_t)(last_of(path) - path->data);
	char text[PATH_MAX];

	if (len >= sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, path->data, len);
	text[len ? len - 1 : 0] = '\0';
	return open_beneath(s->u->root, text, O_PATH | O_DIRECTORY);
}

/* The current entry's, kept for the next. */
static int enter_parent(struct state *s)
{
	size_t len = (size_t)(last_of(&s->path) - s->path.data);
	int r;

	if (s->parent >= 0 && s->parent_path.len == len &&
	    (len == 0 || memcmp(s->parent_path.data, s->path.data, len) == 0))
		return 0;
	close_auto(&s->parent);
	r = open_parent_of(s, &s->path);
	if (r < 0)
		return r;
	s->parent = r;
	s->parent_path.len = 0;
	return buf_add(&s->parent_path, s->path.data, len);
}

/* ---- directories ---- */

static int finish_dir(const struct state *s, const struct made *m)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, m->mtime };
	auto_close int fd = open_beneath(s->u->root, s->dirs.data, O_RDONLY | O_DIRECTORY);
	struct stat st;

	if (fd < 0)
		return fd;
	/* Somebody has put another in its place: that one is not ours. */
	if (fstat(fd, &st) < 0 || st.st_dev != m->dev || st.st_ino != m->ino)
		return 0;
	return futimens(fd, times) < 0 || fchmod(fd, m->mode) < 0 ? -errno : 0;
}

static void fail(struct state *s, int r, const char *path, const char *what)
{
	struct err err = { 0 };
	auto_buf struct buf shown = { 0 };

	s->u->failed++;
	(void)text_escape(&shown, path, strnlen(path, 300));
	if (r == -EOPNOTSUPP)
		(void)err_say(&err, -r, "'%s' is neither a file, a directory nor a link",
			      shown.data ? shown.data : "");
	else
		(void)err_set(&err, -r, "%s '%s'", what, shown.data ? shown.data : "");
	if (s->u->complain)
		s->u->complain(s->u->arg, &err);
}

/* Is the current entry below that directory? */
static bool is_below(const struct state *s, const struct buf *dir, size_t len)
{
	return s->path.len > len && s->path.data[len] == '/' &&
	       memcmp(s->path.data, dir->data, len) == 0;
}

/* All directories that are not above the current path; with `all`, all. */
static void finish_dirs(struct state *s, bool all)
{
	while (s->made_n > 0) {
		struct made *m = &s->made[s->made_n - 1];
		int r;

		if (!all && is_below(s, &s->dirs, m->len))
			return;
		s->dirs.data[m->len] = '\0';
		r = finish_dir(s, m);
		if (r < 0)
			fail(s, r, s->dirs.data, "set the mode and time of");
		s->dirs.len = --s->made_n > 0 ? s->made[s->made_n - 1].len : 0;
	}
}

static int remember_dir(struct state *s, const struct tar_entry *e, const struct stat *st)
{
	if (s->made_n == DEPTH_MAX)
		return -ENAMETOOLONG;
	if (s->made_n == s->made_cap) {
		size_t cap = s->made_cap ? 2 * s->made_cap : 16;
		struct made *made = reallocarray(s->made, cap, sizeof(*made));

		if (!made)
			return -ENOMEM;
		s->made = made;
		s->made_cap = cap;
	}
	s->dirs.len = 0;
	if (buf_add(&s->dirs, s->path.data, s->path.len) < 0)
		return -ENOMEM;
	s->made[s->made_n++] = (struct made){ .len = s->path.len,
					      .mode = e->mode & MODE_KEPT,
					      .mtime = e->mtime,
					      .dev = st->st_dev,
					      .ino = st->st_ino };
	return 0;
}

static int make_dir(struct state *s, const struct tar_entry *e)
{
	const char *name = last_of(&s->path);
	struct stat st;

	if (mkdirat(s->parent, name, 0700) == 0)
		return fstatat(s->parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0
			       ? -errno
			       : remember_dir(s, e, &st);
	if (errno != EEXIST || fstatat(s->parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

/* ---- files and links ---- */

static void random_name(char name[sizeof(TMP_PREFIX) + RANDOM_ID_LEN])
{
	memcpy(name, TMP_PREFIX, sizeof(TMP_PREFIX));
	random_id(name + sizeof(TMP_PREFIX) - 1);
}

/* What stands under a random name gets its own, or goes. */
static int settle(struct state *s, const char *tmp, int r)
{
	if (r == 0 && renameat(s->parent, tmp, s->parent, last_of(&s->path)) < 0)
		r = -errno;
	/* Also after success: of two names of one file, rename leaves both. */
	(void)unlinkat(s->parent, tmp, 0);
	return r;
}

/* The data of a file into `fd`. */
static int copy_data(struct state *s, int fd, struct err *err)
{
	ssize_t n;

	while ((n = tar_data(s->tar, s->piece, PIECE, err)) > 0) {
		int r = write_all(fd, s->piece, (size_t)n);

		if (r < 0)
			return err_set(err, -r, "write '%s'", s->path.data);
		s->u->bytes += (uint64_t)n;
		if (s->u->tick)
			s->u->tick(s->u->arg, s->u->bytes, s->path.data);
	}
	return (int)n;
}

/* 0, or a negative errno; *ret is how the entry alone fared. */
static int make_file(struct state *s, const struct tar_entry *e, int *ret, struct err *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, e->mtime };
	char tmp[sizeof(TMP_PREFIX) + RANDOM_ID_LEN];
	auto_close int fd = -1;
	int r;

	random_name(tmp);
	fd = openat(s->parent, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		*ret = -errno;
		return 0;
	}
	r = copy_data(s, fd, err);
	if (r == 0 && (fchmod(fd, e->mode & MODE_KEPT) < 0 || futimens(fd, times) < 0))
		*ret = -errno;
	*ret = settle(s, tmp, r < 0 ? r : *ret);
	return r;
}

static int make_symlink(struct state *s, const struct tar_entry *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, e->mtime };
	char tmp[sizeof(TMP_PREFIX) + RANDOM_ID_LEN];

	random_name(tmp);
	if (symlinkat(e->link, s->parent, tmp) < 0)
		return -errno;
	(void)utimensat(s->parent, tmp, times, AT_SYMLINK_NOFOLLOW); /* not all file systems can */
	return settle(s, tmp, 0);
}

/* linkat() does not follow the last component either; the parent is opened as all are. */
static int make_hardlink(struct state *s)
{
	auto_close int from = open_parent_of(s, &s->target);
	char tmp[sizeof(TMP_PREFIX) + RANDOM_ID_LEN];
	struct stat st;

	if (from < 0)
		return from;
	if (fstatat(from, last_of(&s->target), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return -EPERM;
	random_name(tmp);
	if (linkat(from, last_of(&s->target), s->parent, tmp, 0) < 0)
		return -errno;
	return settle(s, tmp, 0);
}

/* ---- entries ---- */

/* 0, or a negative errno if no more entries can follow. */
static int make_entry(struct state *s, const struct tar_entry *e, struct err *err)
{
	static const char *const what[] = { "make the file", "make the directory", "make the link",
					    "make the link", "make" };
	int r = map_name(s->u, e->name, &s->path, err), ret = 0;

	if (r == 0 && e->type == TAR_HARDLINK)
		r = map_name(s->u, e->link, &s->target, err);
	if (r < 0)
		return r;
	if (s->path.len == 0) /* the root itself, which is there */
		return e->type == TAR_DIR ? 0 : hostile(e->name, "is no directory", err);
	finish_dirs(s, false);
	if (s->failed_dir.len > 0 && is_below(s, &s->failed_dir, s->failed_dir.len)) {
		s->u->failed++;
		return 0;
	}
	if (s->u->tick)
		s->u->tick(s->u->arg, s->u->bytes, s->path.data);
	ret = enter_parent(s);
	if (ret == 0 && e->type == TAR_FILE)
		r = make_file(s, e, &ret, err);
	else if (ret == 0 && e->type == TAR_DIR)
		ret = make_dir(s, e);
	else if (ret == 0 && e->type == TAR_SYMLINK)
		ret = make_symlink(s, e);
	else if (ret == 0 && e->type == TAR_HARDLINK)
		ret = make_hardlink(s);
	else if (ret == 0)
		ret = -EOPNOTSUPP;
	if (r == 0 && ret < 0)
		fail(s, ret, s->path.data, what[e->type]);
	if (r == 0 && ret < 0 && e->type == TAR_DIR) {
		s->failed_dir.len = 0;
		(void)buf_add(&s->failed_dir, s->path.data, s->path.len);
	}
	return r;
}

int unpack_run(struct unpack *u, struct tar_reader *tar, struct err *err)
{
	struct state s = { .u = u, .tar = tar, .parent = -1, .piece = malloc(PIECE) };
	struct tar_entry e;
	int r = s.piece ? 0 : err_set(err, ENOMEM, "a buffer of %d bytes", PIECE);

	while (r == 0) {
		r = tar_next(tar, &e, err);
		if (r <= 0)
			break;
		r = make_entry(&s, &e, err);
	}
	finish_dirs(&s, true);
	close_auto(&s.parent);
	buf_done(&s.path);
	buf_done(&s.target);
	buf_done(&s.dirs);
	buf_done(&s.parent_path);
	buf_done(&s.failed_dir);
	free(s.made);
	free(s.piece);
	return r;
}
