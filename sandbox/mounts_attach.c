/* mounts_attach.c - the last part of mounts.h: in the new process 1
 *
 * The targets lie in the layer, which a sandbox that ran before has written: each
 * component is opened on its own, through no link, and what is there and is no
 * directory is an error, since it may be dear to somebody.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"
#include "sandbox/mounts.h"

/* Of an unprivileged hutchd: the directory that the helper has looked at, opened again in our own
 * copy of the host's mounts. */
static int open_again(const struct spec_mount *m, const struct mounts_place *place)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	auto_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, m->source, &how, sizeof(how));
	struct stat st;
	int tree;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != place->dev || st.st_ino != place->ino)
		return -ESTALE;
	tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	return tree < 0 ? -errno : tree;
}

int mounts_receive(struct child *c)
{
	struct mounts_place place[SPEC_MOUNTS_MAX];
	size_t wanted = c->plan->mounts_n;
	ssize_t n;

	if (!wanted)
		return 0;
	n = fds_receive(c->control, place, sizeof(place), 0, &c->mounts);
	if (n <= 0)
		_exit(1); /* hutchd gave up: nobody listens */
	if (c->mounts.n == wanted)
		return 0;
	if (c->mounts.n || n != (ssize_t)(wanted * sizeof(*place)))
		return -EPROTO;
	for (size_t i = 0; i < wanted; i++) {
		int tree = open_again(&c->plan->mounts[i], &place[i]);

		c->at_mount = i + 1;
		if (tree < 0)
			return tree;
		c->mounts.fd[c->mounts.n++] = tree;
	}
	c->at_mount = 0;
	c->own_mounts = true;
	return 0;
}

/* One component below `dir`, made if it is missing. */
static int step(int dir, const char *name)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

	if (fd < 0 && errno == ENOENT && mkdirat(dir, name, 0755) == 0)
		fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static int open_target(int root, const char *path)
{
	int dir = fcntl(root, F_DUPFD_CLOEXEC, 10);

	while (dir >= 0 && *(path += strspn(path, "/"))) {
		size_t len = strcspn(path, "/");
		char name[NAME_MAX + 1];
		int up = dir;

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		dir = step(up, name);
		(void)close(up);
	}
	return dir;
}

static int attach_one(struct child *c, size_t i)
{
	const struct spec_mount *m = &c->plan->mounts[i];
	auto_close int target = open_target(c->root, m->target);

	if (target < 0)
		return target;
	return attach(&(struct attach){
		.tree = c->mounts.fd[i],
		.dir = target,
		.name = "",
		.attrs = !c->own_mounts ? 0 : /* as the helper has set them */
				 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
					 (m->readonly ? MOUNT_ATTR_RDONLY : 0),
	});
}

int mounts_attach(struct child *c)
{
	for (size_t i = 0; i < c->plan->mounts_n; i++) {
		int r = attach_one(c, i);

		if (r < 0) {
			c->at_mount = i + 1;
			return r;
		}
	}
	return 0;
}
