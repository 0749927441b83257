/* dev.c - a minimal /dev
 *
 * A user namespace may not make device nodes, so the host's are bound one by one.  Each is
 * checked before: it must be the very device that its name says (a host whose /dev/null is
 * something else would hand that to every sandbox).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"

static const struct node {
	const char *name, *host;
	unsigned major, minor;
} nodes[] = {
	{ "null", "/dev/null", 1, 3 },       { "zero", "/dev/zero", 1, 5 },
	{ "full", "/dev/full", 1, 7 },       { "random", "/dev/random", 1, 8 },
	{ "urandom", "/dev/urandom", 1, 9 }, { "tty", "/dev/tty", 5, 0 },
};

static const struct {
	const char *name, *target;
} links[] = {
	{ "fd", "/proc/self/fd" },       { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
	{ "ptmx", "pts/ptmx" },
};

/* No sandbox has more than a part of the terminals that the machine can have: 4096. */
#define PTS_OPTIONS "newinstance,ptmxmode=0666,mode=0620,max=256"

static int bind_node(int dev, const struct node *n)
{
	int tree = open_tree(AT_FDCWD, n->host,
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	struct stat st;

	if (tree < 0)
		return -errno;
	if (fstat(tree, &st) < 0 || !S_ISCHR(st.st_mode) ||
	    st.st_rdev != makedev(n->major, n->minor)) {
		(void)close(tree);
		return -ENODEV;
	}
	if (mknodat(dev, n->name, S_IFREG, 0) < 0) {
		int r = -errno;

		(void)close(tree);
		return r;
	}
	return attach(&(struct attach){ tree, dev, n->name, 0 });
}

static int fill(struct child *c, int dev)
{
	for (unsigned i = 0; i < ARRAY_SIZE(nodes); i++) {
		int r = bind_node(dev, &nodes[i]);

		if (r < 0)
			return r;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(links); i++)
		if (symlinkat(links[i].target, dev, links[i].name) < 0)
			return -errno;
	c->null = openat(dev, "null", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return c->null < 0 ? -errno : 0;
}

/* Its own instance: no terminal of the host or of another sandbox is in it. */
static int mount_devpts(const struct child *c, int dev)
{
	/* Group 5 is tty; where only user 0 is mapped there is no other group. */
	const char *data = c->plan->ids.count > 5 ? PTS_OPTIONS ",gid=5" : PTS_OPTIONS;

	return mount_at(
		&(struct mount_at){ dev, "pts", 0755, "devpts", MS_NOSUID | MS_NOEXEC, data });
}

int dev_mount(struct child *c)
{
	auto_close int dev = -1;
	int r = mount_at(&(struct mount_at){ c->root, "dev", 0755, "tmpfs", MS_NOSUID | MS_NOEXEC,
					     "mode=0755,size=1m" });

	if (r < 0)
		return r;
	dev = root_dir(c->root, "dev", 0755); /* the tmpfs now */
	if (dev < 0)
		return dev;
	r = fill(c, dev);
	if (r == 0)
		r = mount_devpts(c, dev);
	if (r == 0)
		r = mount_at(&(struct mount_at){ dev, "shm", 01777, "tmpfs", MS_NOSUID | MS_NODEV,
						 "mode=1777,size=256m" });
	if (r == 0)
		r = mount_at(&(struct mount_at){ dev, "mqueue", 01777, "mqueue",
						 MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL });
	return r;
}
