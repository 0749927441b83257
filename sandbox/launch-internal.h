/* launch-internal.h - the stages of a sandbox's making, and what they share
 *
 * A stage runs in the cloned child: 0 or a negative errno, no allocation, no
 * stdio, nothing of the daemon's touched.  Everything it needs was prepared in
 * struct launch_plan or is found in struct child.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/fds.h"
#include "sandbox/launch.h"

#define CHILD_CONTROL_FD 3 /* AGENT_CONTROL_FD */
#define CHILD_AGENT_FD   4

struct child {
	const struct launch_plan *plan;
	int control, agent;
	struct launch_name name;
	/* Detached mounts that hutchd sent; -1: it may not make any, open by path. */
	int image_tree, layer_tree;
	struct fds mounts; /* detached, in the order of plan->mounts */
	bool own_mounts;   /* made here, not by a helper of hutchd's */
	size_t at_mount;   /* of the stages that are about them: the one that failed, plus 1 */
	/* O_PATH, -1 until the stage that opens them. */
	int staging; /* rootfs_mount: a tmpfs of ours that the sandbox sees two directories of */
	int root;    /* rootfs_mount: the new root */
	int null;    /* dev_mount: the host's /dev/null, verified */
};

/* Directories in the staging tmpfs. */
#define STAGING_EMPTY   "empty"   /* what masked directories show */
#define STAGING_SCRIPTS "scripts" /* becomes AGENT_SCRIPT_DIR */

#define IMAGE_BINDS_MAX 8

/* What every sandbox of one image shares. */
struct image {
	int lower;   /* O_PATH, the read-only directory */
	char *path;  /* its absolute path */
	bool idmaps; /* its file system can be mounted with ids mapped, and we may do so */
	/* Top directories that are bound from the host, read-only; NULL-terminated. */
	const char *binds[IMAGE_BINDS_MAX + 1];
};

/* ids.c: in the parent. Writes the maps of a new user namespace. */
int ids_write(pid_t, const struct id_range *, struct err *);
/* ids.c: the user namespace of a process; a descriptor or a negative errno. */
int ids_userns(pid_t);
/* ids.c: a user namespace to map the ids of a mount with: what belongs to `from` on disk belongs
 * to `to` where it is mounted. A descriptor or a negative errno. */
struct id_map {
	uint32_t from, to, count;
};
int ids_userns_make(const struct id_map *uid, const struct id_map *gid, size_t gids, struct err *);
/* image_host.c: in the parent. A detached mount of the lower directory, its ids mapped by the
 * user namespace if the image can (userns may be -1); -EPERM: not root. */
int image_mount(const struct image *, int userns);

/* The stages, in their order. */
int child_keep_fds(struct child *);            /* launch.c */
int namespaces_unshare(struct child *);        /* namespaces.c */
int child_wait_maps(struct child *);           /* launch.c */
int ids_become_root(struct child *);           /* ids.c */
int namespaces_enter_cgroup(struct child *);   /* namespaces.c */
int namespaces_private_mounts(struct child *); /* namespaces.c */
int mounts_receive(struct child *);            /* mounts_attach.c */
int rootfs_mount(struct child *);              /* rootfs.c */
int rootfs_bind_host(struct child *);          /* rootfs.c */
int dev_mount(struct child *);                 /* dev.c */
int rootfs_mount_proc(struct child *);         /* rootfs.c */
int masks_apply(struct child *);               /* masks.c */
int rootfs_mount_tmp(struct child *);          /* rootfs.c */
int mounts_attach(struct child *);             /* mounts_attach.c */
int namespaces_lo_up(struct child *);          /* namespaces.c */
int rootfs_pivot(struct child *);              /* rootfs.c */
int child_wait_name(struct child *);           /* launch.c */
int namespaces_hostname(struct child *);       /* namespaces.c */
int layer_write_name(struct child *);          /* layer.c */
int rlimits_set(struct child *);               /* rlimits.c */
int caps_drop(struct child *);                 /* caps.c */
int child_exec_agent(struct child *);          /* launch.c */

/* rootfs.c: the directory `name` of one component below `dir`, as O_PATH, never through a link:
 * what is there and is no directory is replaced by an empty one of `mode`. */
int root_dir(int dir, const char *name, mode_t mode);
/* rootfs.c: mount(2) onto root_dir(). */
struct mount_at {
	int dir;
	const char *name;
	mode_t mode; /* of the directory, if it must be made */
	const char *type;
	unsigned long flags;
	const char *data;
};
int mount_at(const struct mount_at *);
/* rootfs.c: attaches a detached mount on `name` below `dir`, with attributes (MOUNT_ATTR_…) set
 * on it and all below it first, and closes `tree`. `tree` negative: an errno, returned. */
struct attach {
	int tree;
	int dir;
	const char *name; /* "": dir itself */
	uint64_t attrs;
};
int attach(const struct attach *);

/* skeleton.c: what an image of ours has of its own, see there.  ids NULL: as it is on disk. */
int skeleton_make(int dir, const struct id_range *ids, struct err *);
