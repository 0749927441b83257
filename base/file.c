/* file.c - see file.h */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

#define CHUNK 4096

/* Room for the next read, which may be smaller than CHUNK near the ceiling but
 * is never 0: one byte past the ceiling tells a full file from one too large. */
static ssize_t read_some(int fd, struct buf *buf)
{
	size_t want = CHUNK;
	char past;
	ssize_t n;
	int r;

	if (buf->max && buf->max - buf->len < want)
		want = buf->max - buf->len;
	if (want > 0) {
		r = buf_reserve(buf, want);
		if (r < 0)
			return r;
	}
	do
		n = want > 0 ? read(fd, buf->data + buf->len, want) : read(fd, &past, 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > 0 && want == 0)
		return -E2BIG;
	buf->len += (size_t)n;
	return n;
}

int file_read(int dirfd, const char *path, struct buf *buf, struct err *err)
{
	auto_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t start = buf->len;
	ssize_t n;

	if (fd < 0)
		return err_set(err, errno, "open '%s'", path);
	do
		n = read_some(fd, buf);
	while (n > 0);
	if (n < 0)
		buf->len = start;
	if (buf->data)
		buf->data[buf->len] = '\0';
	if (n == -E2BIG)
		return err_say(err, E2BIG, "'%s' is larger than %zu bytes", path, buf->max - start);
	return n < 0 ? err_set(err, (int)-n, "read '%s'", path) : 0;
}

int write_all(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n ==
		    0) /* no file does this, but a loop without progress must not be possible */
			return -EIO;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* `fd` is closed in any case: some file systems report a full disk only then. */
static int write_and_close(int fd, const void *bytes, size_t len)
{
	int r = write_all(fd, bytes, len);

	if (close(fd) < 0 && r == 0 && errno != EINTR)
		r = -errno;
	return r;
}

int file_write(int dirfd, const char *path, mode_t mode, const void *bytes, size_t len,
	       struct err *err)
{
	int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, mode);
	int r;

	if (fd < 0)
		return err_set(err, errno, "open '%s' for writing", path);
	r = write_and_close(fd, bytes, len);
	return r < 0 ? err_set(err, -r, "write '%s'", path) : 0;
}

/* O_EXCL, so that the file has our mode and is no link; what a crash left goes first. */
static int create_anew(int dirfd, const char *path, mode_t mode)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	int fd = openat(dirfd, path, flags, mode);

	if (fd < 0 && errno == EEXIST && unlinkat(dirfd, path, 0) == 0)
		fd = openat(dirfd, path, flags, mode);
	return fd;
}

int file_replace(int dirfd, const char *path, mode_t mode, const void *bytes, size_t len,
		 struct err *err)
{
	auto_free char *fresh = NULL;
	int fd, r;

	if (asprintf(&fresh, "%s.new", path) < 0) {
		fresh = NULL;
		return err_set(err, ENOMEM, "replace '%s'", path);
	}
	fd = create_anew(dirfd, fresh, mode);
	if (fd < 0)
		return err_set(err, errno, "create '%s'", fresh);
	r = write_and_close(fd, bytes, len);
	if (r < 0) {
		(void)unlinkat(dirfd, fresh, 0);
		return err_set(err, -r, "write '%s'", fresh);
	}
	if (renameat(dirfd, fresh, dirfd, path) < 0) {
		r = err_set(err, errno, "rename '%s' to '%s'", fresh, path);
		(void)unlinkat(dirfd, fresh, 0);
		return r;
	}
	return 0;
}

int fd_set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}
