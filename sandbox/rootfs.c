/* rootfs.c - the file system that a sandbox sees
 *
 * All mounts are made below a staging tmpfs, in the child's copy of the host's mounts, and
 * pivot_root() comes last: proc can only be mounted where another, fully visible one is in sight.
 *
 * The writable layer is hostile: a sandbox that ran before may have left symlinks where mounts
 * go (CVE-2026-41579 and its like).  So no mount target is a path: each is one component below a
 * descriptor, opened without following anything, and mounted on as "." or by descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"

#define TMP_OPTIONS     "mode=1777,size=256m"
/* Holds the scripts of live commands, besides a few empty directories. */
#define STAGING_OPTIONS "mode=0755,size=64m"
#define OVERLAY_OPTIONS \
	"lowerdir=image,upperdir=layer/upper,workdir=layer/work,userxattr,index=off,volatile"

static int open_component(int dir, const char *name)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

int root_dir(int dir, const char *name, mode_t mode)
{
	int fd = open_component(dir, name);

	if (fd != -ENOENT && fd != -ELOOP && fd != -ENOTDIR)
		return fd;
	if (fd != -ENOENT && unlinkat(dir, name, 0) < 0)
		return -errno;
	if (mkdirat(dir, name, mode) < 0)
		return -errno;
	return open_component(dir, name);
}

int mount_at(const struct mount_at *m)
{
	auto_close int fd = root_dir(m->dir, m->name, m->mode);

	if (fd < 0)
		return fd;
	/* A path of "." is the descriptor's directory itself: nothing is looked up. */
	if (fchdir(fd) < 0 || mount(m->type, ".", m->type, m->flags, m->data) < 0)
		return -errno;
	return 0;
}

int attach(const struct attach *a)
{
	int tree = a->tree, r = 0;

	if (tree < 0)
		return tree;
	if (a->attrs) {
		struct mount_attr attr = { .attr_set = a->attrs };

		if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
			r = -errno;
	}
	if (r == 0 &&
	    move_mount(tree, "", a->dir, a->name,
		       MOVE_MOUNT_F_EMPTY_PATH | (a->name[0] ? 0 : MOVE_MOUNT_T_EMPTY_PATH)) < 0)
		r = -errno;
	(void)close(tree);
	return r;
}

static int clone_tree(int dir, const char *path, unsigned flags)
{
	int fd = open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

/* Where hutchd is no root it could make no detached mounts; but then we are the same user as it
 * and every directory on the way is ours or open to us. */
static int open_layers_by_path(struct child *c)
{
	c->image_tree = clone_tree(AT_FDCWD, c->plan->image->path, 0);
	if (c->image_tree < 0)
		return c->image_tree;
	c->layer_tree = clone_tree(AT_FDCWD, c->plan->layer_path, 0);
	return c->layer_tree < 0 ? c->layer_tree : 0;
}

static int make_staging(struct child *c)
{
	static const struct {
		const char *name;
		mode_t mode;
	} dirs[] = {
		{ "image", 0755 },       { "layer", 0755 },         { "root", 0755 },
		{ STAGING_EMPTY, 0555 }, { STAGING_SCRIPTS, 0711 },
	};

	/* /tmp is there everywhere, and what is in it need not stay in sight. */
	if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, STAGING_OPTIONS) < 0)
		return -errno;
	c->staging = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->staging < 0 || fchdir(c->staging) < 0)
		return -errno;
	for (unsigned i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i].name, dirs[i].mode) < 0)
			return -errno;
	return 0;
}

/* `volatile`, because else the end of each sandbox would wait until the host's whole file system
 * is synced.  It leaves a mark that refuses the next mount, meant for crashes of the machine;
 * sandboxes promise to survive the daemon's only. */
static int clear_volatile(void)
{
	static const struct {
		const char *path;
		int flags;
	} marks[] = {
		{ "work/incompat/volatile/dirty", 0 },
		{ "work/incompat/volatile", AT_REMOVEDIR },
		{ "work/incompat", AT_REMOVEDIR },
	};
	auto_close int dir = open("layer/work", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return -errno;
	for (unsigned i = 0; i < ARRAY_SIZE(marks); i++)
		if (unlinkat(dir, marks[i].path, marks[i].flags) < 0 && errno != ENOENT)
			return -errno;
	return 0;
}

int rootfs_mount(struct child *c)
{
	int r = 0;

	(void)umask(0); /* modes are meant as they are written; rootfs_pivot sets the final one */
	if (c->image_tree < 0)
		r = open_layers_by_path(c);
	if (r == 0)
		r = make_staging(c);
	if (r == 0)
		r = attach(&(struct attach){ c->image_tree, c->staging, "image", 0 });
	if (r == 0)
		r = attach(&(struct attach){ c->layer_tree, c->staging, "layer", 0 });
	if (r < 0)
		return r;
	r = clear_volatile();
	if (r < 0)
		return r;
	if (mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, OVERLAY_OPTIONS) < 0)
		return -errno;
	c->root = open("root", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return c->root < 0 ? -errno : 0;
}

/* Never with ids mapped: what only the host's root may read stays unreadable. */
int rootfs_bind_host(struct child *c)
{
	for (const char *const *path = c->plan->image->binds; *path; path++) {
		auto_close int target = root_dir(c->root, *path + 1, 0755);
		int r;

		if (target < 0)
			return target;
		r = attach(&(struct attach){
			.tree = clone_tree(AT_FDCWD, *path, AT_RECURSIVE),
			.dir = target,
			.name = "",
			.attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		});
		if (r < 0)
			return r;
	}
	return 0;
}

int rootfs_mount_proc(struct child *c)
{
	return mount_at(&(struct mount_at){
		.dir = c->root,
		.name = "proc",
		.mode = 0555,
		.type = "proc",
		.flags = MS_NOSUID | MS_NODEV | MS_NOEXEC,
	});
}

/* The place for scripts is a directory of the staging tmpfs: empty at every start, limited, and
 * not in the layer, where the sandbox could have prepared it. */
static int attach_scripts(struct child *c)
{
	auto_close int run = root_dir(c->root, "run", 0755);
	auto_close int target = run < 0 ? run : root_dir(run, "hutch", 0711);

	if (target < 0)
		return target;
	return attach(&(struct attach){
		.tree = clone_tree(c->staging, STAGING_SCRIPTS, 0),
		.dir = target,
		.name = "",
		.attrs = 0,
	});
}

int rootfs_mount_tmp(struct child *c)
{
	int r = mount_at(&(struct mount_at){
		.dir = c->root,
		.name = "tmp",
		.mode = 01777,
		.type = "tmpfs",
		.flags = MS_NOSUID | MS_NODEV,
		.data = TMP_OPTIONS,
	});

	return r < 0 ? r : attach_scripts(c);
}

int rootfs_pivot(struct child *c)
{
	if (fchdir(c->root) < 0)
		return -errno;
	/* The old root is stacked on the new one, and taken off again with everything of the
	 * host's: no directory to put it is needed. */
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
		return -errno;
	if (chdir("/") < 0)
		return -errno;
	(void)umask(022);
	return 0;
}
