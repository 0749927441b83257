/* mounts_helper.c - the process that opens what a user wants to mount
 *
 * A fork of hutchd, which may hang or be killed at every line below.  It lets go of
 * hutchd's descriptors first: one that hangs for ever must keep no pipe open, no lock
 * held.  Then it becomes the owner.
 *
 * As root it keeps two capabilities, and not in force: the paths of a user are walked
 * with his rights and nothing else.  In force, behind that, they look at where the
 * directory lies, and clone its mount; both could hang, and so are not for hutchd.
 * Nobody can trace it, since its ids were changed; the owner can kill it, and has a
 * failed start.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/filesystem.h"
#include "sandbox/launch-internal.h"
#include "sandbox/mounts.h"

#define SOCK_FD  3
#define STATE_FD 4

#define NOBODY     65534
#define GROUPS_MAX 1024
#define MAPPED_MAX 128   /* of them; a map must fit into a page */
#define GROUP_BASE 60001 /* the owner's second group inside, and those behind it */
#define DEPTH_MAX  4096  /* of a directory below the root */

struct helper {
	const struct mounts_ask *ask;
	bool root;
	gid_t group[GROUPS_MAX]; /* the owner's; his own is the first */
	int groups;
	struct id_map map[MAPPED_MAX];
	size_t mapped;
	int userns; /* maps the owner to the sandbox's user 0; -1: not root */
	struct mounts_reply reply;
	struct fds trees;
};

/* A source, opened. */
struct source {
	const struct spec_mount *mount;
	int fd; /* O_PATH */
	struct statx st;
	char type[FILESYSTEM_TYPE_LEN]; /* of its file system */
};

#define PLACE_MASK (STATX_TYPE | STATX_UID | STATX_GID | STATX_INO | STATX_MNT_ID)

static int look(int fd, struct statx *st)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, PLACE_MASK, st) < 0 ? -errno : 0;
}

static bool same_inode(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor;
}

/* Is `dir` or one of its parents the directory `what`? */
static int lies_in(int dir, const struct statx *what)
{
	auto_close int at = fcntl(dir, F_DUPFD_CLOEXEC, 10);
	struct statx here;
	int r = at < 0 ? -errno : look(at, &here);

	for (unsigned depth = 0; r == 0 && depth < DEPTH_MAX; depth++) {
		struct statx below = here;
		int up;

		if (same_inode(&here, what))
			return 1;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0)
			return -errno;
		(void)close(at);
		at = up;
		r = look(at, &here);
		if (r == 0 && same_inode(&here, &below) && here.stx_mnt_id == below.stx_mnt_id)
			return 0; /* the root */
	}
	return r < 0 ? r : -ELOOP;
}

/* --- becoming the owner --- */

static void capabilities(bool in_force)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	data[0].permitted = 1U << CAP_SYS_ADMIN | 1U << CAP_DAC_READ_SEARCH;
	if (in_force)
		data[0].effective = data[0].permitted;
	if (syscall(SYS_capset, &head, data) < 0)
		_exit(1); /* rights that are not known are of no use */
}

/* An owner whom the user database does not know has the group that he made the sandbox with;
 * chgrp could have made that any group, so not one that has a name. */
static gid_t unknown_owner_group(const struct mounts_ask *ask)
{
	return getgrgid(ask->gid) ? NOBODY : ask->gid;
}

static int find_groups(struct helper *h, struct err *err)
{
	const struct passwd *pw;

	errno = 0;
	pw = getpwuid(h->ask->uid);
	if (!pw && errno && errno != ENOENT && errno != ESRCH)
		return err_set(err, errno, "look up user %u", h->ask->uid);
	h->groups = 1;
	if (!pw) {
		h->group[0] = unknown_owner_group(h->ask);
		return 0;
	}
	h->group[0] = pw->pw_gid;
	h->groups = GROUPS_MAX;
	if (getgrouplist(pw->pw_name, pw->pw_gid, h->group, &h->groups) < 0)
		return err_say(err, E2BIG, "user '%s' has more than %d groups", pw->pw_name,
			       GROUPS_MAX);
	for (int i = 0; i < h->groups; i++)
		if (h->group[i] == pw->pw_gid) {
			h->group[i] = h->group[0];
			h->group[0] = pw->pw_gid;
			break;
		}
	return 0;
}

static bool is_mapped(const struct helper *h, gid_t gid)
{
	for (size_t i = 0; i < h->mapped; i++)
		if (h->map[i].from == gid)
			return true;
	return false;
}

static int make_userns(struct helper *h, struct err *err)
{
	const struct id_range *ids = &h->ask->ids;
	const struct id_map uid = { h->ask->uid, ids->base, 1 };

	/* Every id once: a map must not overlap. */
	for (int i = 0; i < h->groups && h->mapped < MAPPED_MAX; i++) {
		uint32_t inside = h->mapped ? GROUP_BASE + (uint32_t)h->mapped - 1 : 0;

		if (!is_mapped(h, h->group[i]))
			h->map[h->mapped++] = (struct id_map){ h->group[i], ids->base + inside, 1 };
	}
	h->userns = ids_userns_make(&uid, h->map, h->mapped, err);
	return h->userns < 0 ? h->userns : 0;
}

static int become_owner(struct helper *h, struct err *err)
{
	uid_t uid = h->ask->uid;
	int r;

	h->root = geteuid() == 0;
	if (!h->root)
		return uid == geteuid()
			       ? 0
			       : err_say(err, EPERM,
					 "hutchd is user %u, and opens nothing for user %u",
					 geteuid(), uid);
	r = find_groups(h, err);
	if (r == 0)
		r = make_userns(h, err);
	if (r < 0)
		return r;
	if (setgroups((size_t)h->groups, h->group) < 0 ||
	    setresgid(h->group[0], h->group[0], h->group[0]) < 0 ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresuid(uid, uid, uid) < 0)
		return err_set(err, errno, "become user %u", uid);
	capabilities(false);
	/* Ids that change take it away. */
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? err_set(err, errno, "prctl") : 0;
}

/* --- one source --- */

static int open_source(const struct helper *h, struct source *src, struct err *err)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		/* Links of /proc lead to what this process has, not what its user names. */
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	const char *path = src->mount->source;
	int r;

	src->fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (src->fd < 0)
		return err_set(err, errno, "open '%s' as user %u", path, h->ask->uid);
	r = look(src->fd, &src->st);
	if (r == 0 && !(src->st.stx_mask & STATX_MNT_ID))
		r = -ENOSYS;
	return r < 0 ? err_set(err, -r, "look at '%s'", path) : 0;
}

/* Neither hutch's own mount, nor anything of the state directory, nor what holds it. */
static int check_own(const struct source *src, struct err *err)
{
	const char *path = src->mount->source;
	struct statx state;
	int r;

	if (strcmp(src->type, "fuse.hutch") == 0)
		return err_say(err, EPERM, "'%s' is in hutch's own tree", path);
	r = look(STATE_FD, &state);
	if (r == 0)
		r = lies_in(src->fd, &state);
	if (r == 0)
		r = lies_in(STATE_FD, &src->st);
	if (r < 0)
		return err_set(err, -r, "find where '%s' lies", path);
	return r ? err_say(err, EPERM, "'%s' is in hutch's state directory, or holds it", path) : 0;
}

static bool is_allowed(const struct helper *h, const struct source *src)
{
	const char *const *path = h->ask->allowed;

	for (; path && *path; path++) {
		auto_close int dir = open(*path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct statx st;

		if (dir >= 0 && look(dir, &st) == 0 && lies_in(src->fd, &st) == 1)
			return true;
	}
	return false;
}

/* Who serves a file can let the kernel wait for it as long as he likes, in the middle of a copy between
 * a command's memory and a pipe; hutchd, at the other end, would wait too, and with it everybody. */
static int check_server(const struct helper *h, const struct source *src, struct err *err)
{
	const char *path = src->mount->source;
	uid_t server = 0;
	int r = filesystem_server(src->st.stx_mnt_id, &server);

	if (r < 0)
		return err_set(err, -r, "find who serves '%s'", path);
	if (!r || !server || !h->root || is_allowed(h, src))
		return 0;
	return err_say(err, EPERM,
		       "'%s' is in a file system that user %u serves himself (%s): only what root "
		       "has mounted, or what is in 'mounts' of the config",
		       path, server, src->type);
}

static int check_owner(const struct helper *h, const struct source *src, struct err *err)
{
	const struct spec_mount *m = src->mount;
	bool own = src->st.stx_uid == h->ask->uid;

	if (!own && !is_allowed(h, src))
		return err_say(err, EACCES,
			       "'%s' belongs to user %u, not to user %u, and is not in "
			       "'mounts' of the config",
			       m->source, src->st.stx_uid, h->ask->uid);
	if (m->readonly || !h->root)
		return 0;
	/* An id that is not mapped cannot be written for.  Others' are not, since what is mapped is
	 * the sandbox's to give away, with its set-id bits. */
	if (!own)
		return err_say(err, EACCES, "'%s' belongs to user %u: only read-only", m->source,
			       src->st.stx_uid);
	if (!is_mapped(h, src->st.stx_gid))
		return err_say(err, EACCES,
			       "'%s' has the group %u, which user %u is not in: only read-only",
			       m->source, src->st.stx_gid, h->ask->uid);
	return 0;
}

static int set_attributes(const struct helper *h, const struct source *src, int tree, bool map)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    (src->mount->readonly ? MOUNT_ATTR_RDONLY : 0) |
			    (map ? MOUNT_ATTR_IDMAP : 0),
		/* What is mounted on the host later does not come into the sandbox. */
		.propagation = MS_PRIVATE,
		.userns_fd = map ? (uint64_t)h->userns : 0,
	};

	return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

/* The directory's own mount, from there on, without those below it. */
static int clone_mount(const struct helper *h, const struct source *src, struct err *err)
{
	const char *path = src->mount->source;
	auto_close int tree =
		open_tree(src->fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	int r;

	if (tree < 0)
		return err_set(err, errno, "mount '%s'", path);
	r = set_attributes(h, src, tree, true);
	if (r == 0)
		return TAKE_FD(tree);
	if (!src->mount->readonly)
		return err_say(
			err, EINVAL,
			"the file system of '%s' (%s) cannot be mounted with user ids mapped: "
			"only read-only",
			path, src->type);
	r = set_attributes(h, src, tree, false);
	return r < 0 ? err_set(err, -r, "mount '%s'", path) : TAKE_FD(tree);
}

static int take_source(struct helper *h, struct source *src, struct err *err)
{
	int r = open_source(h, src, err);

	if (r < 0)
		return r;
	if (h->root)
		capabilities(true);
	r = filesystem_of_mount(src->st.stx_mnt_id, src->type);
	if (r < 0)
		return err_set(err, -r, "look '%s' up in /proc/self/mountinfo", src->mount->source);
	r = check_own(src, err);
	if (r == 0)
		r = check_server(h, src, err);
	if (r == 0)
		r = check_owner(h, src, err);
	if (r < 0 || !h->root)
		return r;
	r = clone_mount(h, src, err);
	if (r < 0)
		return r;
	h->trees.fd[h->trees.n++] = r;
	capabilities(false);
	return 0;
}

static int take_all(struct helper *h, struct err *err)
{
	const struct mounts_ask *ask = h->ask;

	for (uint32_t i = 0; i < ask->n; i++) {
		struct source src = { .mount = &ask->mount[i], .fd = -1 };
		int r;

		(void)fds_send(SOCK_FD, &i, sizeof(i), NULL, 0);
		r = take_source(h, &src, err);
		close_auto(&src.fd);
		if (r < 0)
			return err_wrap(err, r, "mount '%s'", src.mount->target);
		h->reply.place[i] =
			(struct mounts_place){ makedev(src.st.stx_dev_major, src.st.stx_dev_minor),
					       src.st.stx_ino };
	}
	h->reply.n = (uint32_t)ask->n;
	return 0;
}

/* --- the process --- */

static void settle(const struct mounts_ask *ask, int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "hutch-mounts");
	(void)sigemptyset(&none);
	(void)signal(SIGTERM, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			_exit(1);
	/* Above both targets first, so that neither is overwritten. */
	sock = fcntl(sock, F_DUPFD, 10);
	null = fcntl(ask->state_fd, F_DUPFD, 10);
	if (dup3(sock, SOCK_FD, O_CLOEXEC) < 0 || dup3(null, STATE_FD, O_CLOEXEC) < 0)
		_exit(1);
	(void)close_range(STATE_FD + 1, ~0U, 0);
}

void mounts_helper(const struct mounts_ask *ask, int sock)
{
	static struct helper h; /* of this process alone, and large */
	struct err *err = &h.reply.err;

	settle(ask, sock);
	h.ask = ask;
	h.userns = -1;
	if (become_owner(&h, err) < 0)
		err_wrap(err, -err->code, "mount '%s'", ask->mount->target);
	else if (take_all(&h, err) < 0)
		h.trees.n = 0;
	/* If nobody listens, so be it. */
	(void)fds_send(SOCK_FD, &h.reply, sizeof(h.reply), h.trees.fd, h.trees.n);
	_exit(0);
}
