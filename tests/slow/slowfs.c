/* slowfs.c - a file system whose disk is slow, for tests:  slowfs BACKING MOUNTPOINT
 *
 * What is below BACKING, but everything that changes something takes as many milliseconds as the file
 * BACKING.delay says at that moment (none: 0).  Attributes and names are kept by the kernel for a while,
 * as a disk's are.  Requests are served by several threads, so one slow write holds up nobody but
 * who has made it.
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static int root; /* BACKING */
static char delay_file[4096], below[4096];

static void be_slow(void)
{
	FILE *f = fopen(delay_file, "re");
	unsigned ms = 0;

	if (!f)
		return;
	if (fscanf(f, "%u", &ms) == 1 && ms)
		(void)usleep(ms * 1000);
	(void)fclose(f);
}

static const char *rel(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int result(long r)
{
	return r < 0 ? -errno : 0;
}

/* What has no *at() variant that does not follow. */
static const char *full(const char *path, char out[8192])
{
	(void)snprintf(out, 8192, "%s%s", below, path);
	return out;
}

static void *slow_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	(void)conn;
	cfg->use_ino = 1;
	cfg->entry_timeout = cfg->attr_timeout = 3600;
	cfg->negative_timeout = 0;
	return NULL;
}

static int slow_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	if (fi)
		return result(fstat((int)fi->fh, st));
	return result(fstatat(root, rel(path), st, AT_SYMLINK_NOFOLLOW));
}

static int slow_readlink(const char *path, char *out, size_t cap)
{
	ssize_t n = readlinkat(root, rel(path), out, cap - 1);

	if (n >= 0)
		out[n] = '\0';
	return result(n);
}

static int own(const char *path)
{
	const struct fuse_context *who = fuse_get_context();

	return result(fchownat(root, rel(path), who->uid, who->gid, AT_SYMLINK_NOFOLLOW));
}

static int slow_mknod(const char *path, mode_t mode, dev_t dev)
{
	be_slow();
	return mknodat(root, rel(path), mode, dev) < 0 ? -errno : own(path);
}

static int slow_mkdir(const char *path, mode_t mode)
{
	be_slow();
	return mkdirat(root, rel(path), mode) < 0 ? -errno : own(path);
}

static int slow_symlink(const char *target, const char *path)
{
	be_slow();
	return symlinkat(target, root, rel(path)) < 0 ? -errno : own(path);
}

static int slow_unlink(const char *path)
{
	be_slow();
	return result(unlinkat(root, rel(path), 0));
}

static int slow_rmdir(const char *path)
{
	be_slow();
	return result(unlinkat(root, rel(path), AT_REMOVEDIR));
}

static int slow_rename(const char *from, const char *to, unsigned flags)
{
	be_slow();
	return result(renameat2(root, rel(from), root, rel(to), flags));
}

static int slow_link(const char *from, const char *to)
{
	be_slow();
	return result(linkat(root, rel(from), root, rel(to), 0));
}

static int slow_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	be_slow();
	return result(fi ? fchmod((int)fi->fh, mode) : fchmodat(root, rel(path), mode, 0));
}

static int slow_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)fi;
	be_slow();
	return result(fchownat(root, rel(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int slow_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	char name[8192];

	be_slow();
	return result(fi ? ftruncate((int)fi->fh, size) : truncate(full(path, name), size));
}

static int slow_utimens(const char *path, const struct timespec t[2], struct fuse_file_info *fi)
{
	(void)fi;
	return result(utimensat(root, rel(path), t, AT_SYMLINK_NOFOLLOW));
}

static int slow_open(const char *path, struct fuse_file_info *fi)
{
	int fd = openat(root, rel(path), fi->flags & ~(O_APPEND | O_NOFOLLOW), 0);

	fi->fh = (uint64_t)fd;
	return result(fd);
}

static int slow_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	int fd;

	be_slow();
	fd = openat(root, rel(path), (fi->flags & ~O_APPEND) | O_CREAT, mode);
	fi->fh = (uint64_t)fd;
	return fd < 0 ? -errno : own(path);
}

static int slow_read(const char *path, char *bytes, size_t len, off_t off,
		     struct fuse_file_info *fi)
{
	ssize_t n = pread((int)fi->fh, bytes, len, off);

	(void)path;
	return n < 0 ? -errno : (int)n;
}

static int slow_write(const char *path, const char *bytes, size_t len, off_t off,
		      struct fuse_file_info *fi)
{
	ssize_t n;

	(void)path;
	be_slow();
	n = pwrite((int)fi->fh, bytes, len, off);
	return n < 0 ? -errno : (int)n;
}

static int slow_statfs(const char *path, struct statvfs *st)
{
	(void)path;
	return result(fstatvfs(root, st));
}

static int slow_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	return result(close((int)fi->fh));
}

static int slow_readdir(const char *path, void *buf, fuse_fill_dir_t put, off_t off,
			struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	int fd = openat(root, rel(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	(void)off;
	(void)fi;
	(void)flags;
	if (!d)
		return -errno;
	for (const struct dirent *e; (e = readdir(d));) {
		struct stat st = { .st_ino = e->d_ino, .st_mode = (mode_t)e->d_type << 12 };

		if (put(buf, e->d_name, &st, 0, 0))
			break;
	}
	(void)closedir(d);
	return 0;
}

static int slow_setxattr(const char *path, const char *name, const char *value, size_t len,
			 int flags)
{
	char file[8192];

	be_slow();
	return result(lsetxattr(full(path, file), name, value, len, flags));
}

static int slow_getxattr(const char *path, const char *name, char *value, size_t len)
{
	char file[8192];
	ssize_t n = lgetxattr(full(path, file), name, value, len);

	return n < 0 ? -errno : (int)n;
}

static int slow_listxattr(const char *path, char *list, size_t len)
{
	char file[8192];
	ssize_t n = llistxattr(full(path, file), list, len);

	return n < 0 ? -errno : (int)n;
}

static int slow_removexattr(const char *path, const char *name)
{
	char file[8192];

	be_slow();
	return result(lremovexattr(full(path, file), name));
}

static const struct fuse_operations operations = {
	.init = slow_init,
	.getattr = slow_getattr,
	.readlink = slow_readlink,
	.mknod = slow_mknod,
	.mkdir = slow_mkdir,
	.symlink = slow_symlink,
	.unlink = slow_unlink,
	.rmdir = slow_rmdir,
	.rename = slow_rename,
	.link = slow_link,
	.chmod = slow_chmod,
	.chown = slow_chown,
	.truncate = slow_truncate,
	.utimens = slow_utimens,
	.open = slow_open,
	.create = slow_create,
	.read = slow_read,
	.write = slow_write,
	.statfs = slow_statfs,
	.release = slow_release,
	.readdir = slow_readdir,
	.setxattr = slow_setxattr,
	.getxattr = slow_getxattr,
	.listxattr = slow_listxattr,
	.removexattr = slow_removexattr,
};

int main(int argc, char **argv)
{
	static char options[] = "allow_other,default_permissions,dev,suid,fsname=slowfs";
	char *args[] = { argv[0], argv[2], (char *)(uintptr_t) "-o", options, NULL };

	if (argc != 3 || !realpath(argv[1], below)) {
		(void)fprintf(stderr, "usage: slowfs BACKING MOUNTPOINT\n");
		return 2;
	}
	root = open(below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(delay_file, sizeof(delay_file), "%.4000s.delay", below);
	(void)umask(0);
	return root < 0 ? 1 : fuse_main(4, args, &operations, NULL);
}
