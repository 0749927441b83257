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

static int write_file(int at, const char *name, const char *text, struct err *err)
{
	auto_close int fd = openat(at, name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return err_set(err, errno, "write '%s'", name);
	return 0;
}

int layer_set_hostname(int dirfd, const char *name, const char *hostname, struct err *err)
{
	char text[512];
	auto_close int etc = -1;
	int r;

	(void)snprintf(text, sizeof(text), "%s/upper/etc", name);
	etc = openat(dirfd, text, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (etc < 0)
		return err_set(err, errno, "open '%s'", text);
	(void)snprintf(text, sizeof(text), "%s\n", hostname);
	r = write_file(etc, "hostname", text, err);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text),
		       "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n"
		       "::1\tlocalhost ip6-localhost ip6-loopback\n",
		       hostname);
	return write_file(etc, "hosts", text, err);
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
