/* filesystem.c - see filesystem.h */
#include "base/filesystem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

DEFINE_AUTO(FILE *, fclose);

int filesystem_of_mount(uint64_t mount, char type[FILESYSTEM_TYPE_LEN])
{
	AUTO(fclose) FILE *f = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	size_t cap = 0;

	if (!f)
		return -errno;
	while (getline(&line, &cap, f) > 0) {
		const char *dash = strstr(line, " - ");

		if (dash && strtoull(line, NULL, 10) == mount)
			return sscanf(dash, " - %63s", type) == 1 ? 0 : -EINVAL;
	}
	return -ENOENT;
}

int filesystem_of(int fd, char type[FILESYSTEM_TYPE_LEN])
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) < 0)
		return -errno;
	return filesystem_of_mount(stx.stx_mnt_id, type);
}

/* A file whose name, if it needs one, is gone already. */
static int nameless(int dirfd)
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	char name[32];

	if (fd >= 0)
		return fd;
	(void)snprintf(name, sizeof(name), "probe.%d", (int)getpid());
	fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	(void)unlinkat(dirfd, name, 0);
	return fd;
}

int filesystem_has_holes(int dirfd)
{
	auto_close int fd = nameless(dirfd);

	if (fd < 0)
		return fd;
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
}
