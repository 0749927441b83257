/* filesystem.c - see filesystem.h */
#include "base/filesystem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

DEFINE_AUTO(FILE *, fclose);

/* " - TYPE SOURCE OPTIONS": what the kernel says of the file system of `mount`. Owned, or NULL and errno. */
static char *describe(uint64_t mount)
{
	AUTO(fclose) FILE *f = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		const char *dash = strstr(line, " - ");

		if (dash && strtoull(line, NULL, 10) == mount)
			return strdup(dash);
	}
	if (f)
		errno = ENOENT;
	return NULL;
}

int filesystem_of_mount(uint64_t mount, char type[FILESYSTEM_TYPE_LEN])
{
	auto_free char *text = describe(mount);

	if (!text)
		return -errno;
	return sscanf(text, " - %63s", type) == 1 ? 0 : -EINVAL;
}

static bool is_fuse(const char *type)
{
	return strcmp(type, "fuse") == 0 || strcmp(type, "fuseblk") == 0 ||
	       strncmp(type, "fuse.", strlen("fuse.")) == 0;
}

int filesystem_server(uint64_t mount, uid_t *ret)
{
	auto_free char *text = describe(mount);
	char type[FILESYSTEM_TYPE_LEN];
	const char *option;

	if (!text)
		return -errno;
	if (sscanf(text, " - %63s", type) != 1)
		return -EINVAL;
	if (!is_fuse(type))
		return 0;
	option = strstr(text, ",user_id=");
	return option && sscanf(option, ",user_id=%u", ret) == 1 ? 1 : -EINVAL;
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
