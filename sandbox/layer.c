/* layer.c - the writable part of a sandbox
 *
 * In the path of `mkdir`, so as little as possible is made: with an image whose ids can be
 * mapped, only what differs from sandbox to sandbox, the rest is in the image and copied up by
 * the kernel when it is written to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"

/* New, closed and owned; -1 never comes back. */
static int make_dir(int at, const char *name, mode_t mode, const struct id_range *ids,
		    struct err *err)
{
	auto_close int fd = -1;

	if (mkdirat(at, name, mode) < 0)
		return err_set(err, errno, "make '%s'", name);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, mode) < 0 ||
	    (ids->count > 1 && fchown(fd, ids->base, ids->base) < 0))
		return err_set(err, errno, "set up '%s'", name);
	return TAKE_FD(fd);
}

static int make_file(int at, const char *name, const char *text, const struct id_range *ids,
		     struct err *err)
{
	size_t len = strlen(text);
	auto_close int fd =
		openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return err_set(err, errno, "make '%s'", name);
	if (write(fd, text, len) != (ssize_t)len)
		return err_set(err, errno, "write '%s'", name);
	if (fchmod(fd, 0644) < 0 || (ids->count > 1 && fchown(fd, ids->base, ids->base) < 0))
		return err_set(err, errno, "set up '%s'", name);
	return 0;
}

/* In the child, in the new root. Only where nothing was written yet; the sandbox may have done
 * anything to the file since, and what that leads to is inside. */
static void write_if_empty(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		(void)!write(fd, text, len);
	(void)close(fd);
}

int layer_write_name(struct child *c)
{
	size_t len = strlen(c->name.hostname);

	write_if_empty("/etc/hosts", c->name.hosts, strlen(c->name.hosts));
	c->name.hostname[len] = '\n'; /* not needed as a string any more */
	write_if_empty("/etc/hostname", c->name.hostname, len + 1);
	return 0;
}

int layer_make(const struct image *image, int dirfd, const char *name, const struct id_range *ids,
	       struct err *err)
{
	auto_close int layer = -1, work = -1, upper = -1, etc = -1;
	bool own_skeleton = ids->count > 1 && !image->idmaps;
	int r;

	layer = make_dir(dirfd, name, 0700, ids, err);
	if (layer < 0)
		return layer;
	work = make_dir(layer, "work", 0700, ids, err);
	if (work < 0)
		return work;
	upper = make_dir(layer, "upper", 0755, ids, err);
	if (upper < 0)
		return upper;
	if (own_skeleton) {
		r = skeleton_make(upper, ids, err);
		if (r < 0)
			return r;
		etc = openat(upper, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (etc < 0)
			return err_set(err, errno, "open 'etc'");
	} else {
		etc = make_dir(upper, "etc", 0755, ids, err);
		if (etc < 0)
			return etc;
	}
	r = make_file(etc, "hostname", "", ids, err);
	return r < 0 ? r : make_file(etc, "hosts", "", ids, err);
}
