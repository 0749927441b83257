/* cgroup-internal.h - what a back end provides; names are relative to cgroups.base */
#pragma once

#include "sandbox/cgroup.h"

#define CGROUP_NAME_LEN 32 /* "RUN/COMMAND" */

struct cgroup_ops {
	/* The mount point of the hierarchy and hutchd's own group in it, or an error that says
	 * what is missing. */
	int (*find)(char **ret_path, struct err *);
	/* Lets the sandbox's user 0 put processes into the new group `name`. */
	int (*allow)(struct cgroups *, const char *name, const struct id_range *, struct err *);
	/* What a process is put into `name` with: a descriptor for CLONE_INTO_CGROUP, or one that
	 * takes a "0" from it. */
	int (*open_join)(struct cgroups *, const char *name, struct err *);
	/* Can process 1 itself be cloned into its group? */
	bool clones;
	void (*kill)(struct cgroups *, const char *name);
};

extern const struct cgroup_ops cgroup_v1_ops, cgroup_v2_ops;

/* The first mount of this file system type in /proc/self/mountinfo with `option` among its super
 * options (NULL: any), and behind it the path of /proc/self/cgroup's line that begins with
 * `controller` ("" for v2's). NULL: there is none. The caller frees. */
char *cgroup_find_mount(const char *fstype, const char *option, const char *controller);
/* Writes a short text into BASE/name/file. Negative errno. */
int cgroup_write(const struct cgroups *, const char *name, const char *file, const char *text);

/* BASE/RUN/COMMAND, or BASE/RUN when command is 0. */
void cgroup_name(char ret[CGROUP_NAME_LEN], uint32_t run, uint32_t command);
/* Negative errno; 0 also when it is not there. */
int cgroup_remove(const struct cgroups *, uint32_t run, uint32_t command);
/* Kills what is in the groups in `name`. */
void cgroup_kill_children(struct cgroups *, const char *name);
/* cgroup_run.c: takes back a group that waits for a command, of each run whose time is over. */
void cgroup_on_stale(struct ev_timer *);
