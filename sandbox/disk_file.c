/* disk_file.c - operations on files, in the writer
 *
 * Each can be done again after it was done, or half done, by a writer that died: so bytes go to an
 * offset, and what is to be gone and is not there is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/disk-internal.h"

void disk_files_init(struct disk_files *files, int dirfd)
{
	*files = (struct disk_files){ .dirfd = dirfd };
}

static void forget(struct disk_open *o)
{
	if (!o->name)
		return;
	(void)close(o->fd);
	free(TAKE_PTR(o->name));
}

/* Of `name` and of all below it. */
static void forget_below(struct disk_files *files, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < DISK_FILES_MAX; i++) {
		const char *open = files->open[i].name;

		if (open && strncmp(open, name, len) == 0 && (!open[len] || open[len] == '/'))
			forget(&files->open[i]);
	}
}

bool disk_files_spare(struct disk_files *files, int r)
{
	bool any = false;

	for (size_t i = 0; i < DISK_FILES_MAX && (r == -EMFILE || r == -ENFILE); i++) {
		any |= files->open[i].name != NULL;
		forget(&files->open[i]);
	}
	return any;
}

bool disk_wait_for_more(int r, int *tries)
{
	if (!disk_is_short(r) || *tries >= DISK_SHORT_MAX)
		return false;
	++*tries;
	(void)usleep(DISK_SHORT_US);
	return true;
}

int disk_files_size(const struct disk_files *files, const char *name, uint64_t *ret)
{
	struct stat st = { 0 };
	int tries = 0, r;

	do
		r = fstatat(files->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	while (disk_wait_for_more(r, &tries));
	*ret = (uint64_t)st.st_size;
	return r;
}

static struct disk_open *oldest(struct disk_files *files)
{
	struct disk_open *old = files->open;

	for (size_t i = 0; i < DISK_FILES_MAX; i++) {
		if (!files->open[i].name)
			return &files->open[i];
		if (files->open[i].used < old->used)
			old = &files->open[i];
	}
	return old;
}

static int open_to_write(struct disk_files *files, const char *name, int flags)
{
	int fd = openat(files->dirfd, name,
			flags | O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);

	return fd < 0 ? -errno : fd;
}

int disk_files_get(struct disk_files *files, const char *name, bool truncate)
{
	struct disk_open *o;
	int fd;

	for (size_t i = 0; !truncate && i < DISK_FILES_MAX; i++) {
		o = &files->open[i];
		if (o->name && strcmp(o->name, name) == 0) {
			o->used = ++files->clock;
			return o->fd;
		}
	}
	if (truncate)
		forget_below(files, name);
	fd = open_to_write(files, name, truncate ? O_TRUNC : 0);
	if (disk_files_spare(files, fd))
		fd = open_to_write(files, name, truncate ? O_TRUNC : 0);
	if (fd < 0)
		return fd;
	o = oldest(files);
	forget(o);
	o->name = strdup(name);
	if (!o->name) {
		(void)close(fd);
		return -ENOMEM;
	}
	o->fd = fd;
	o->used = ++files->clock;
	return o->fd;
}

/* What was written of a run that fails is written again with it. */
static int write_run(int fd, struct iovec *iov, size_t n, uint64_t off)
{
	while (n > 0) {
		ssize_t wrote = pwritev(fd, iov, (int)n, (off_t)off);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0)
			return -errno;
		if (wrote == 0)
			return -EIO;
		off += (uint64_t)wrote;
		while (n > 0 && (size_t)wrote >= iov->iov_len) {
			wrote -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n > 0) {
			iov->iov_base = (char *)iov->iov_base + wrote;
			iov->iov_len -= (size_t)wrote;
		}
	}
	return 0;
}

/* Less than so many bytes are in it. */
static bool is_short_of(int fd, uint64_t off)
{
	struct stat st;

	return fstat(fd, &st) < 0 || (uint64_t)st.st_size < off;
}

static int do_write(struct disk_files *files, const struct disk_record *const *run, size_t n)
{
	struct iovec iov[IOV_MAX];
	size_t used = 0;
	int fd = disk_files_get(files, disk_record_name(run[0]), run[0]->flags & DISK_TRUNCATE);

	if (fd < 0)
		return fd;
	/* What it did not take is lost: whoever finds the file must not take a hole for it. */
	if (run[0]->flags & DISK_LOSSY && is_short_of(fd, run[0]->off))
		return -EIO;
	for (size_t i = 0; i < n; i++)
		if (run[i]->len)
			iov[used++] = (struct iovec){ (char *)(uintptr_t)disk_record_data(run[i]),
						      run[i]->len };
	return write_run(fd, iov, used, run[0]->off);
}

uint64_t disk_files_lost(struct disk_files *files, const struct disk_record *rec)
{
	int fd = disk_files_get(files, disk_record_name(rec), false);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size <= rec->off)
		return rec->off;
	if ((uint64_t)st.st_size < rec->off + rec->len)
		return (uint64_t)st.st_size;
	(void)!ftruncate(fd, (off_t)rec->off); /* failing leaves bytes that are right */
	return rec->off;
}

static int do_rename(struct disk_files *files, const struct disk_record *rec)
{
	const char *from = disk_record_name(rec), *to = disk_record_to(rec);

	forget_below(files, from);
	forget_below(files, to);
	return renameat(files->dirfd, from, files->dirfd, to) < 0 ? -errno : 0;
}

int disk_files_open(struct disk_files *files, const char *name)
{
	int fd = openat(files->dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);

	return fd < 0 ? -errno : fd;
}

int disk_files_fetch(int from, uint64_t off, size_t len)
{
	auto_close int to = memfd_create("hutch-fetch", MFD_CLOEXEC);
	char bytes[65536];

	for (ssize_t n = 1; to >= 0 && n > 0 && len > 0; len -= (size_t)n) {
		n = pread(from, bytes, len < sizeof(bytes) ? len : sizeof(bytes), (off_t)off);
		if (n < 0)
			return -errno;
		if (write_all(to, bytes, (size_t)n) < 0)
			return -ENOMEM;
		off += (uint64_t)n;
	}
	return to < 0 ? -errno : TAKE_FD(to);
}

/* In a directory that has gone nothing needs to be done any more. */
static int if_there(int r)
{
	return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

static int do_once(struct disk_files *files, const struct disk_record *const *run, size_t n)
{
	const struct disk_record *rec = run[0];
	const char *name = disk_record_name(rec);

	switch ((enum disk_what)rec->what) {
	case DISK_WRITE:
		return if_there(do_write(files, run, n));
	case DISK_REPLACE:
		forget_below(files, name);
		return if_there(file_replace(files->dirfd, name, rec->mode, disk_record_data(rec),
					     rec->len, NULL));
	case DISK_UNLINK:
		forget_below(files, name);
		return unlinkat(files->dirfd, name, 0) < 0 ? if_there(-errno) : 0;
	case DISK_RENAME:
		return if_there(do_rename(files, rec));
	case DISK_JOB:
	case DISK_OPEN:
	case DISK_WHAT_COUNT:
		break;
	}
	return -EINVAL;
}

int disk_files_do(struct disk_files *files, const struct disk_record *const *run, size_t n)
{
	int r = do_once(files, run, n);

	return disk_files_spare(files, r) ? do_once(files, run, n) : r;
}
