/* cgroup.h - a group of processes that is killed as one, and known to be empty
 *
 * Each command has a group of its own, which a process cannot leave by setsid() or
 * a double fork.  Two back ends stand behind this interface: cgroup v2, also where
 * it is mounted bare beside v1, and v1's pids hierarchy.  Where neither can be used
 * there are no groups: a kill reaches the process group only, and cgroups.why says
 * what is missing.
 *
 * BASE/hutch-DEV-INO/RUN/COMMAND, where BASE is hutchd's own group, DEV-INO names
 * the state directory (what a crash left is found again at the next start), and RUN
 * counts starts of sandboxes: one that is started again gets a new group.
 *
 * Nobody writes a pid to cgroup.procs: that waits for a grace period of the
 * kernel, 10 ms and more.  On v2 a process is cloned into its group; on v1 the
 * child writes "0" to `tasks`, through a descriptor that hutchd has opened.
 *
 * A group is used once.  It is removed off the request's path, when it is empty.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ev.h"
#include "base/list.h"
#include "sandbox/launch.h"

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2, CGROUP_KIND_COUNT };

#define CGROUP_WAITS 9

struct cgroups {
	enum cgroup_kind kind;
	const struct cgroup_ops *ops; /* of the kind */
	int base;                     /* our group's directory; -1: CGROUP_NONE */
	char *path;                   /* of base */
	struct err why;               /* of CGROUP_NONE */
	struct ev_loop *loop;         /* borrowed */
	uint32_t last_run;            /* the highest number of a run that may still have a group */
	/* struct cgroup.link, by how long they wait before they are looked at again */
	struct list retired[CGROUP_WAITS];
	struct ev_timer sweep;
};

/* The group of one command. */
struct cgroup {
	struct cgroups *set;
	uint32_t run, command; /* 0: the run's own */
	struct list link;      /* one of cgroups.retired */
	unsigned tries;        /* index of the next list */
	bool doomed;           /* what is found in it is killed */
	int64_t next_try;      /* ev_now() time */
	/* Called once, when no process is left in it and it was removed. May be NULL. */
	void (*gone)(struct cgroup *);
	void *owner; /* for gone() */
};

/* Nothing in it: cgroups_done() may follow. */
void cgroups_prepare(struct cgroups *);
/* `want`: "auto", "v2", "v1" or "none". EINVAL for other words, ENOENT etc. when what was asked
 * for by name cannot be had; "auto" always succeeds. Kills and removes what a crash left. */
int cgroups_init(struct cgroups *, struct ev_loop *, const char *want, int state_fd, struct err *);
/* Everything in it must have been killed. */
void cgroups_done(struct cgroups *);
const char *cgroup_kind_name(enum cgroup_kind);

/* The group of a run of a sandbox, in which process 1 is: *ret_fd is for CLONE_INTO_CGROUP, the caller's,
 * -1 where that is not how it is done. */
int cgroup_run_make(struct cgroups *, uint32_t run, const struct id_range *, int *ret_fd,
		    struct err *);
/* Kills all that is in it and lets it be removed, with the groups in it. */
void cgroup_run_retire(struct cgroups *, uint32_t run);

/* NULL without an error where there are no groups. */
struct cgroup *cgroup_make(struct cgroups *, uint32_t run, uint32_t command,
			   const struct id_range *, struct err *);
/* A descriptor for the agent, which puts the command's first process into it. The caller's. */
int cgroup_open_join(struct cgroup *, struct err *);
/* Every process in it, at once; a fork storm cannot outrun it. */
void cgroup_kill(struct cgroup *);
/* True when no process is in it. */
bool cgroup_empty(const struct cgroup *);
/* Its leader is over: it goes when it is empty, and `gone` is called. */
void cgroup_retire(struct cgroup *);
/* For an owner that goes before it: what is still put into it is killed. */
void cgroup_abandon(struct cgroup *);
