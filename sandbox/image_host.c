/* image_host.c - the image `host`: the host's own /usr, and a generated rest
 *
 * Made anew at every start of the daemon, in a directory of its own that then takes the place
 * of the old one in one step: the host may have been upgraded, and a half-made image must never
 * be used.  Layers survive that: overlay keeps no references into a lower directory that matter
 * (index=off).
 *
 * /etc gets copies of what the allow-list names, and of that only what everybody on the host may
 * read.  Not binds: a bind would follow changes, and a directory bound is a directory listed.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"
#include "sandbox/tree.h"

#define IMAGES_DIR "images"
#define HOST_NAME  "host"
#define HOST_NEW   "host.new"

/* Below /etc; shell patterns.  What holds secrets on some machines is not here, even if it is
 * readable on this one: ssl/private, environment, apt, *.netrc, … */
static const char *const etc_allowed[] = {
	/* programs and libraries are found through these */
	"alternatives",
	"ld.so.*",
	"java-*",
	"python3*",
	"perl",
	/* trust in certificates, on Debian and on Fedora */
	"ssl/certs",
	"ssl/openssl.cnf",
	"ca-certificates*",
	"pki/tls/certs",
	"pki/ca-trust",
	"crypto-policies",
	/* the place and the habits of the machine */
	"localtime",
	"timezone",
	"os-release",
	"debian_version",
	"profile",
	"profile.d",
	"bash.bashrc",
	"inputrc",
	"terminfo",
	"fonts",
	"vim",
	/* tables of names */
	"mime.types",
	"services",
	"protocols",
	"magic",
	"magic.mime",
	"shells",
	"login.defs",
	"host.conf",
	"gai.conf",
};

static const char *const host_dirs[] = { "/usr",   "/bin",   "/sbin",  "/lib",
					 "/lib32", "/lib64", "/libx32" };
_Static_assert(ARRAY_SIZE(host_dirs) <= IMAGE_BINDS_MAX, "room for all");

DEFINE_AUTO(glob_t *, globfree);
DEFINE_AUTO(struct image *, image_free);

/* The parents of "ssl/certs". */
static int make_parents(int etc, const char *path, struct err *err)
{
	char parent[256];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
		if (mkdirat(etc, parent, 0755) < 0 && errno != EEXIST)
			return err_set(err, errno, "make '%s'", parent);
	}
	return 0;
}

static int copy_pattern(int etc, const char *pattern, struct err *err)
{
	glob_t found = { 0 };
	AUTO(globfree) glob_t *cleanup = &found;
	char path[256];

	(void)cleanup;
	snprintf(path, sizeof(path), "/etc/%s", pattern);
	if (glob(path, GLOB_NOSORT, NULL, &found) == GLOB_NOSPACE)
		return err_set(err, ENOMEM, "look for '%s'", path);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *from = found.gl_pathv[i], *to = from + strlen("/etc/");
		int r = make_parents(etc, to, err);

		if (r == 0)
			r = tree_copy_public(AT_FDCWD, from, etc, to, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Links at the top are made again, directories are bound (rootfs.c) onto empty ones. */
static int add_host_dirs(int dir, struct err *err)
{
	for (unsigned i = 0; i < ARRAY_SIZE(host_dirs); i++) {
		const char *path = host_dirs[i];
		char target[256];
		struct stat st;
		ssize_t n;

		if (lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && mkdirat(dir, path + 1, 0755) < 0 && errno != EEXIST)
			return err_set(err, errno, "make '%s'", path + 1);
		if (!S_ISLNK(st.st_mode))
			continue;
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			return err_set(err, errno, "read the link '%s'", path);
		target[n] = '\0';
		if (symlinkat(target, dir, path + 1) < 0)
			return err_set(err, errno, "make the link '%s'", path + 1);
	}
	return 0;
}

static int build(int images, struct err *err)
{
	auto_close int dir = -1, etc = -1;
	int r = tree_remove(images, HOST_NEW, err); /* what a crash left */

	if (r < 0)
		return r;
	if (mkdirat(images, HOST_NEW, 0755) < 0)
		return err_set(err, errno, "make '%s'", HOST_NEW);
	dir = openat(images, HOST_NEW, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0755) < 0)
		return err_set(err, errno, "open '%s'", HOST_NEW);
	r = skeleton_make(dir, NULL, err);
	if (r == 0)
		r = add_host_dirs(dir, err);
	if (r < 0)
		return r;
	etc = openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (etc < 0)
		return err_set(err, errno, "open 'etc'");
	for (unsigned i = 0; i < ARRAY_SIZE(etc_allowed); i++) {
		r = copy_pattern(etc, etc_allowed[i], err);
		if (r < 0)
			return err_wrap(err, r, "copy '/etc/%s'", etc_allowed[i]);
	}
	return 0;
}

/* The new one takes the name in one step; the old one goes behind it. */
static int replace(int images, struct err *err)
{
	if (renameat2(images, HOST_NEW, images, HOST_NAME, RENAME_EXCHANGE) == 0)
		return tree_remove(images, HOST_NEW, err);
	if (errno != ENOENT)
		return err_set(err, errno, "put '%s' in place", HOST_NAME);
	if (renameat(images, HOST_NEW, images, HOST_NAME) < 0)
		return err_set(err, errno, "put '%s' in place", HOST_NAME);
	return 0;
}

/* overlay takes layers with mapped ids since 5.19. */
static bool kernel_overlays_idmapped(void)
{
	struct utsname u;
	int major, minor;

	if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &major, &minor) != 2)
		return false;
	return major > 5 || (major == 5 && minor >= 19);
}

/* Can this file system be mounted with ids mapped? The only way to know is to do it. */
static bool probe_idmap(const struct image *image)
{
	const struct id_map some = { 0, 0x70000000, 65536 };
	auto_close int userns = -1, tree = -1;

	if (geteuid() != 0 || !kernel_overlays_idmapped())
		return false;
	userns = ids_userns_make(&some, &some, 1, NULL);
	if (userns >= 0)
		tree = image_mount(image, userns);
	return tree >= 0;
}

int image_mount(const struct image *image, int userns)
{
	auto_close int tree =
		open_tree(image->lower, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (tree < 0)
		return -errno;
	if (userns >= 0) {
		struct mount_attr attr = {
			.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY,
			.userns_fd = (uint64_t)userns,
		};

		if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
			return -errno;
	}
	return TAKE_FD(tree);
}

int image_host_new(struct image **ret, int state_fd, const char *state_dir, struct err *err)
{
	AUTO(image_free) struct image *image = calloc(1, sizeof(*image));
	auto_close int images = -1;
	unsigned n = 0;
	struct stat st;
	int r;

	if (!image || asprintf(&image->path, "%s/" IMAGES_DIR "/" HOST_NAME, state_dir) < 0)
		return err_set(err, ENOMEM, "make the image 'host'");
	image->lower = -1;
	if (mkdirat(state_fd, IMAGES_DIR, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "make '%s/" IMAGES_DIR "'", state_dir);
	images = openat(state_fd, IMAGES_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (images < 0)
		return err_set(err, errno, "open '%s/" IMAGES_DIR "'", state_dir);
	r = build(images, err);
	if (r == 0)
		r = replace(images, err);
	if (r < 0)
		return err_wrap(err, r, "make the image 'host' in '%s'", state_dir);
	image->lower = openat(images, HOST_NAME, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (image->lower < 0)
		return err_set(err, errno, "open '%s'", image->path);
	image->idmaps = probe_idmap(image);
	/* There the lower /root is a stranger's to everybody in the sandbox, overlay included, which
	 * looks into it for the layer's /root; that one is private. */
	if (!image->idmaps && fchmodat(images, HOST_NAME "/root", 0755, 0) < 0)
		return err_set(err, errno, "open up '%s/root'", image->path);
	for (unsigned i = 0; i < ARRAY_SIZE(host_dirs); i++)
		if (lstat(host_dirs[i], &st) == 0 && S_ISDIR(st.st_mode))
			image->binds[n++] = host_dirs[i];
	*ret = TAKE_PTR(image);
	return 0;
}

void image_free(struct image *image)
{
	if (!image)
		return;
	if (image->lower >= 0)
		(void)close(image->lower);
	free(image->path);
	free(image);
}
