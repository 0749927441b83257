/* fuse_mount.c - how the session gets its mount, and how that ends
 *
 * Where we may, we open /dev/fuse and call mount(2) ourselves: the descriptor is
 * ours then, and a later daemon can be handed it while the mount lives.  A user
 * who may not is helped by fusermount3.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "fs/fuse-internal.h"

static const char *const timeout_sysctls[] = {
	"/proc/sys/fs/fuse/default_request_timeout",
	"/proc/sys/fs/fuse/max_request_timeout",
};

unsigned fuse_request_timeout(void)
{
	unsigned least = 0;

	for (size_t i = 0; i < ARRAY_SIZE(timeout_sysctls); i++) {
		auto_buf struct buf text = { .max = 64 };
		unsigned long value;

		/* An older kernel has no such file, and no such timeout. */
		if (file_read(AT_FDCWD, timeout_sysctls[i], &text, NULL) < 0 || !text.len)
			continue;
		value = strtoul(text.data, NULL, 10);
		if (value && (!least || value < least))
			least = (unsigned)value;
	}
	return least;
}

/* Which mount is at the place, without asking the server of that mount: that is us, and we could
 * not answer while we ask.  0: not known. */
static uint64_t mount_id_of(const char *path)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW,
		  STATX_MNT_ID, &stx) < 0 ||
	    !(stx.stx_mask & STATX_MNT_ID))
		return 0;
	return stx.stx_mnt_id;
}

static int new_session(struct fuse_server *srv, bool allow_other, struct err *err)
{
	char program[] = "hutchd", option[] = "-o",
	     all[] = "fsname=hutch,subtype=hutch,default_permissions,allow_other",
	     own[] = "fsname=hutch,subtype=hutch,default_permissions";
	char *argv[] = { program, option, allow_other ? all : own };
	struct fuse_args args = FUSE_ARGS_INIT(ARRAY_SIZE(argv), argv);

	srv->session = fuse_session_new(&args, &fuse_server_ops, sizeof(fuse_server_ops), srv);
	fuse_opt_free_args(&args);
	return srv->session ? 0 : err_set(err, ENOMEM, "prepare a FUSE session");
}

/* By mount(2).  -EPERM: not for us, but maybe for fusermount3. */
static int mount_own(struct fuse_server *srv, struct err *err)
{
	auto_close int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	char options[128], place[32];

	/* libfuse opens it with no more rights than ours before it asks fusermount3. */
	if (fd < 0 && errno == EPERM)
		errno = EACCES;
	if (fd < 0)
		return err_set(err, errno, "open /dev/fuse, without which there is no mount");
	(void)snprintf(
		options, sizeof(options),
		"fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions,allow_other", fd,
		(unsigned)geteuid(), (unsigned)getegid());
	if (mount("hutch", srv->mountpoint, "fuse.hutch", MS_NOSUID | MS_NODEV | MS_NOATIME,
		  options) < 0)
		return err_set(err, errno, "mount '%s'", srv->mountpoint);
	srv->mount_id = mount_id_of(srv->mountpoint);
	(void)snprintf(place, sizeof(place), "/dev/fd/%d", fd);
	if (fuse_session_mount(srv->session, place) < 0) {
		(void)umount2(srv->mountpoint, MNT_DETACH);
		return err_say(err, EIO, "mount '%s': libfuse does not take the descriptor",
			       srv->mountpoint);
	}
	(void)TAKE_FD(fd); /* the session's from here on */
	return 0;
}

static int mount_helped(struct fuse_server *srv, struct err *err)
{
	/* fusermount3 would say so too, in a line of its own. */
	if (faccessat(AT_FDCWD, srv->mountpoint, W_OK, AT_EACCESS) < 0)
		return err_set(err, errno, "mount '%s', where this user may not write",
			       srv->mountpoint);
	/* libfuse and fusermount3 have said on stderr what they did not like. */
	if (fuse_session_mount(srv->session, srv->mountpoint) < 0)
		return err_say(err, EPERM, "mount '%s': fusermount3 does not mount it",
			       srv->mountpoint);
	if (fd_set_nonblock(fuse_session_fd(srv->session)) < 0)
		return err_set(err, errno, "mount '%s'", srv->mountpoint);
	return 0;
}

int fuse_mount_session(struct fuse_server *srv, bool allow_other, struct err *err)
{
	struct err why = { 0 };
	int r = new_session(srv, allow_other, err);

	if (r < 0)
		return r;
	r = mount_own(srv, &why);
	if (r == 0)
		return 0;
	if (geteuid() == 0 || r != -EPERM) {
		if (err)
			*err = why;
		return r;
	}
	return mount_helped(srv, err);
}

void fuse_unmount_session(struct fuse_server *srv)
{
	if (!srv->session)
		return;
	if (!srv->mount_id) {
		if (!srv->ended)
			fuse_session_unmount(srv->session);
		return;
	}
	/* Somebody may have detached ours and mounted something else; or only aborted it (umount -f
	 * of a busy mount does), and then it is still there. */
	if (mount_id_of(srv->mountpoint) == srv->mount_id)
		(void)umount2(srv->mountpoint, MNT_DETACH);
}
