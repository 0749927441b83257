/* test_filesystem.c - what a file system is called, and whether it gives parts of files back */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/filesystem.h"
#include "tests/unit/tap.h"

static int entries(int dirfd)
{
	DIR *dir = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		(void)closedir(dir);
	return n - 2; /* "." and ".." */
}

/* In a mount namespace of our own. `can`: 1, 0 or a negative errno. */
static void test_kinds(const char *at)
{
	static const struct {
		const char *type;
		unsigned long flags;
		int can;
	} row[] = {
		{ "tmpfs", 0, 1 },
		{ "tmpfs", MS_RDONLY, -EROFS },
		{ "ramfs", 0, 0 },
	};

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		ok(1, "# SKIP not root: file systems of all kinds");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		char type[FILESYSTEM_TYPE_LEN] = "";
		auto_close int dir = -1;

		is_int(mount("none", at, row[i].type, row[i].flags, NULL), 0, "mount");
		dir = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
		is_int(filesystem_of(dir, type), 0, "a file system");
		is_str(type, row[i].type, "its type");
		is_int(filesystem_has_holes(dir), row[i].can, "%s, flags %lu: holes", type,
		       row[i].flags);
		is_int(entries(dir), 0, "nothing is left behind");
		close_auto(&dir);
		is_int(umount(at), 0, "unmount");
	}
}

static void test_unknown(void)
{
	char type[FILESYSTEM_TYPE_LEN] = "as it was";

	is_int(filesystem_of_mount(UINT64_MAX, type), -ENOENT, "no such mount");
	is_str(type, "as it was", "leaves the type alone");
	is_int(filesystem_of(-1, type), -EBADF, "no descriptor");
	is_int(filesystem_has_holes(-1), -EBADF, "no directory");
}

int main(void)
{
	char at[] = "/tmp/hutch-test-XXXXXX";

	if (!mkdtemp(at))
		return 1;
	test_unknown();
	test_kinds(at);
	(void)rmdir(at);
	return tap_done();
}
