/* hutch_tree.c - finding the mounted tree, and asking it small things
 *
 * Everything goes through one descriptor of the root: a tree that is mounted
 * anew in between is never mistaken for the one that was begun with.
 */
#include "tools/hutch.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"

#define ROOT_DEFAULT "/run/hutch"

/* NULL: no memory, or there is no default place. */
static char *root_path(void)
{
	const char *env = getenv("HUTCH");
	char *path = NULL;

	if (env && *env)
		return strdup(env);
	if (geteuid() == 0)
		return strdup(ROOT_DEFAULT);
	env = getenv("XDG_RUNTIME_DIR");
	if (!env || !*env)
		return NULL;
	return asprintf(&path, "%s/hutch", env) < 0 ? NULL : path;
}

static int root_check(int fd, const char *path, struct err *err)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return err_set(err, errno, "%s", path);
	if (fs.f_type != FUSE_SUPER_MAGIC || faccessat(fd, "version", F_OK, 0) < 0 ||
	    faccessat(fd, "new", F_OK, 0) < 0)
		return err_say(err, ENOENT,
			       "%s: no hutchd serves this directory; start one with 'hutchd %s', "
			       "or say in $HUTCH where it is",
			       path, path);
	return 0;
}

static int root_missing(int code, const char *path, struct err *err)
{
	if (code == ENOTCONN || code == ECONNABORTED)
		return err_say(err, code,
			       "%s: its hutchd has died; start it again with 'hutchd %s'", path,
			       path);
	if (code == ENOENT)
		return err_say(err, code,
			       "%s: there is no such directory, so no hutchd runs there; start one "
			       "with 'hutchd %s', or say in $HUTCH where it is",
			       path, path);
	return err_set(err, code, "%s", path);
}

int hutch_root_open(struct hutch_root *root, struct err *err)
{
	auto_free char *path = root_path();
	auto_close int fd = -1;
	struct timespec now;
	int r;

	*root = (struct hutch_root){ .fd = -1 };
	if (!path)
		return err_say(
			err, ENOENT,
			"neither $HUTCH nor $XDG_RUNTIME_DIR says where the tree of hutchd is "
			"mounted: set HUTCH=DIRECTORY");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return root_missing(errno, path, err);
	r = root_check(fd, path, err);
	if (r < 0)
		return r;
	clock_gettime(CLOCK_REALTIME, &now);
	rfc3339(root->since, &now);
	root->fd = TAKE_FD(fd);
	root->path = TAKE_PTR(path);
	return 0;
}

void hutch_root_done(struct hutch_root *root)
{
	close_auto(&root->fd);
	free(TAKE_PTR(root->path));
}

int hutch_box_open(const struct hutch_root *root, const char *id, struct err *err)
{
	const char *fault = name_fault(id);
	auto_close int fd = -1;

	if (fault)
		return err_say(err, EINVAL, "sandbox '%s': %s", id, fault);
	fd = openat(root->fd, id, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && faccessat(fd, ".", X_OK, AT_EACCESS) == 0)
		return TAKE_FD(fd);
	if (errno == EACCES)
		return err_say(err, EACCES,
			       "sandbox '%s': it is not yours (its owner may let you in with chgrp "
			       "and chmod)",
			       id);
	if (errno == ENOENT || errno == ENOTDIR)
		return err_say(
			err, ENOENT,
			"sandbox '%s': there is none of that name (make it with 'mkdir %s/%s')", id,
			root->path, id);
	return err_set(err, errno, "sandbox '%s'", id);
}

/* The newest line of ROOT/error is "TIME PATH ERRNO sentence"; a path may hold spaces, so it is
 * the errno's name that is looked for. NULL: the line is about something else. */
static const char *find_sentence(const struct hutch_root *root, const char *line, int code)
{
	const char *name = strerrorname_np(code), *at;
	char word[32];

	if (!name || strncmp(line, root->since, RFC3339_LEN) < 0)
		return NULL;
	(void)snprintf(word, sizeof(word), " %s ", name);
	at = strstr(line, word);
	return at ? at + strlen(word) : NULL;
}

int hutch_refused(const struct hutch_root *root, int code, const char *what, struct err *err)
{
	char line[1024];
	const char *sentence = NULL;

	if (code == ENOTCONN || code == ECONNABORTED)
		return err_say(err, code, "%s: the hutchd of %s has died", what, root->path);
	if (hutch_read_text(root->fd, "error", line, sizeof(line)) >= 0) {
		line[strcspn(line, "\n")] = '\0';
		sentence = find_sentence(root, line, code);
	}
	return sentence ? err_say(err, code, "%s: %s", what, sentence)
			: err_set(err, code, "%s", what);
}

int hutch_read_text(int dirfd, const char *path, char *text, size_t size)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	size_t len = 0;

	text[0] = '\0';
	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		ssize_t n = read(fd, text + len, size - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len > 0 && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	return 0;
}

int hutch_write_text(int dirfd, const char *path, const char *text)
{
	auto_close int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : write_all(fd, text, strlen(text));
}
