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
 * A group is used once.  It is made and removed off the request's path: see
 * cgroup_run.c for when it is made; it is removed when it is empty and the loop idle.
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
	uint32_t last_run;            /* the highest number of a run that may have a group */
	/* struct cgroup.link, by how long they wait before they are looked at again */
	struct list retired[CGROUP_WAITS];
	struct ev_timer sweep; /* when the loop was not idle meanwhile, or they are not empty yet */
	struct ev_task tidy;   /* else: the one that waits longest of the first list */
	struct list spared;    /* struct cgroup_run.link, by stale_at */
	unsigned spares;       /* groups that were made ahead, of all runs */
	struct ev_timer stale; /* takes them back from runs where nothing happens */
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

/* The groups of one run of a sandbox: one for process 1, and in that one for each command.
 *
 * A command takes a group that was made ahead, while nobody waited, and numbers count up in a
 * run: no group is used twice, and none has the name of one that was there before. */
struct cgroup_run {
	struct cgroups *set;
	uint32_t number; /* no other run of this hutchd has it */
	uint32_t next;   /* number of the next group */
	struct id_range ids;
	struct cgroup *spare; /* made ahead; NULL: there is none */
	struct list link;     /* cgroups.spared, while a command may come soon */
	int64_t stale_at;     /* when it does not look so any more; ev_now() time */
	struct ev_task prepare;
};

/* A new one; where there are no groups, one that does nothing. *ret_fd is for CLONE_INTO_CGROUP,
 * the caller's, -1 where that is not how it is done. */
int cgroup_run_new(struct cgroups *, const struct id_range *, struct cgroup_run **ret, int *ret_fd,
		   struct err *);
/* Kills all that is in it and lets it be removed, with the groups in it. Frees it; NULL is fine. */
void cgroup_run_retire(struct cgroup_run *);
/* Makes a group ahead, now; it stays until it is taken. One that cannot be made is tried again
 * by cgroup_take(). */
void cgroup_run_stock(struct cgroup_run *);
/* A command may come soon: the same when the loop is idle, and for a while. */
void cgroup_run_expect(struct cgroup_run *);
/* For one command: the one that was made ahead, or one that is made now; and expects another. NULL
 * without an error where there are no groups. */
struct cgroup *cgroup_take(struct cgroup_run *, struct err *);

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
