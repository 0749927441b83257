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
#include "tests/unit/fakefs.h"
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

static uint64_t mount_of(const char *at)
{
	struct statx stx;

	if (statx(AT_FDCWD, at, AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) < 0)
		return UINT64_MAX;
	return stx.stx_mnt_id;
}

/* In the same namespace. */
static void test_server(const char *at)
{
	static const char *const type[] = { "fuse", "fuse.x" };
	uid_t uid = 77;

	is_int(filesystem_server(mount_of("/proc"), &uid), 0, "the kernel serves /proc");
	is_int(mount("none", at, "fusectl", 0, NULL), 0, "mount");
	is_int(filesystem_server(mount_of(at), &uid), 0, "and what only begins like FUSE");
	is_int(umount(at), 0, "unmount");
	is_int(uid, 77, "nobody else");
	for (size_t i = 0; i < ARRAY_SIZE(type) && geteuid() == 0; i++) {
		struct fakefs fs = { .server = -1 };

		ok(fakefs_mount_for(&fs, at, type[i], 1000 + (uid_t)i, false), "%s", type[i]);
		is_int(filesystem_server(mount_of(at), &uid), 1, "a process serves it");
		is_int(uid, 1000 + (int)i, "of that user");
		fakefs_end(&fs);
	}
}

static void test_unknown(void)
{
	uid_t uid;
	char type[FILESYSTEM_TYPE_LEN] = "as it was";

	is_int(filesystem_of_mount(UINT64_MAX, type), -ENOENT, "no such mount");
	is_str(type, "as it was", "leaves the type alone");
	is_int(filesystem_server(UINT64_MAX, &uid), -ENOENT, "nobody serves it");
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
	test_server(at);
	(void)rmdir(at);
	return tap_done();
}
