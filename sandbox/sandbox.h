/* sandbox.h - the engine: sandboxes, and the state directory they are kept in
 *
 * Knows nothing of files in a mounted tree: the fs room asks, and is told of
 * changes by watches (base/watch.h).  One thread; nothing here blocks: what is
 * written goes through a process of its own (disk.h).
 *
 * A sandbox and a command are counted: whoever keeps a pointer across a turn of
 * the loop holds a reference.  `removed` objects live on until the last
 * reference goes; they are found by no lookup any more.
 *
 * Fields below are read by everybody and written by the engine only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/ev.h"
#include "base/hmap.h"
#include "base/watch.h"
#include "sandbox/request.h"

#define SANDBOX_SERIAL_BITS 27
#define EXEC_SERIAL_BITS    28

struct engine;
struct sandbox;

/* How many there may be: of one owner of sandboxes, and of all. 0: the default, see quota.c. */
struct engine_limits {
	unsigned user_sandboxes, all_sandboxes;
	unsigned user_commands, all_commands; /* that are not over */
	unsigned user_nodes, all_nodes;       /* in exec/ of all sandboxes */
	uint64_t sandbox_output;              /* bytes of output that one keeps */
};

struct engine_config {
	struct ev_loop *loop;  /* borrowed */
	const char *state_dir; /* made if its parent exists */
	int agent_fd;          /* the sealed image of hutch-agent; borrowed */
	const char *cgroup;    /* "auto", or the one kind to use: see cgroup.h */
	const char *id_tag; /* two characters that made-up ids begin with; NULL: none; borrowed */
	/* Directories of the host that any user may mount; NULL: none. Ends with NULL; borrowed. */
	const char *const *mounts_allowed;
	struct engine_limits limits;
	void (*notice)(const char *line); /* while it opens: what takes long; NULL: nobody */
};

/* Opens the state directory (EBUSY: another hutchd has it; the writer of one that has ended is
 * waited for), cleans up what a crash left, and
 * brings back every sandbox as `stopped`. */
int engine_new(struct engine **ret, const struct engine_config *, struct err *);
/* Ends every process of every sandbox, waits for them (at most a few seconds), and frees.
 * Sandboxes and finished commands stay in the state directory. References held by others must
 * be gone. */
void engine_free(struct engine *);
/* `removed` hears of every sandbox that is removed, by whomever, when no name finds it any more. NULL:
 * nobody does. */
void engine_on_removed(struct engine *, void (*removed)(void *arg, struct sandbox *), void *arg);
/* A slow state directory makes this owner's next request wait: for this list, then ask again. NULL:
 * there is room. */
struct list *engine_wait_room(struct engine *, uid_t);
/* Why there are no control groups, a clause; NULL: there are. */
const char *engine_lacks(const struct engine *);
/* Can the file system of the state directory give a part of a file back? */
bool engine_has_holes(const struct engine *);
/* Something random that is kept in the state directory and told to nobody. */
uint64_t engine_secret(const struct engine *);

struct engine_stats;
void engine_stats(const struct engine *, struct engine_stats *ret);

enum sandbox_state {
	SANDBOX_CREATING,
	SANDBOX_RUNNING,
	SANDBOX_STOPPED,
	SANDBOX_FAILED,      /* sandbox.why says what */
	SANDBOX_QUARANTINED, /* its agent broke its protocol; sandbox.why */
	SANDBOX_STATE_COUNT,
};

/* The engine's own counts. */
struct engine_stats {
	size_t sandboxes[SANDBOX_STATE_COUNT], holds;
	size_t commands_live, commands_finished, nodes; /* nodes: these, and those without one */
	uint64_t events;                                /* since it was started */
	const char *cgroup;                             /* "v1", "v2", "none" */
};

struct sandbox {
	struct engine *engine;
	unsigned refs;
	struct list link; /* engine's sandboxes, in the order of serials; or those that leave */
	struct hmap_node by_name, by_serial;
	uint32_t serial; /* never used again; 1 … 2^27 - 1 */
	char id[NAME_MAX_LEN + 1];
	uid_t uid; /* owner of the directory */
	gid_t gid;
	mode_t mode;                         /* permission bits of the directory: 0700 at first */
	struct timespec created, changed_at; /* CLOCK_REALTIME */
	struct spec spec;
	enum sandbox_state state;
	struct err why;    /* of SANDBOX_FAILED */
	bool start_wanted; /* private to sandbox/: when what is ending has been reaped */
	bool removed;
	struct list changed; /* watches: state, removal */

	struct list execs; /* struct exec.link, in the order of serials */
	struct hmap execs_by_name, execs_by_serial;
	size_t exec_count;                    /* nodes in all */
	size_t exec_live;                     /* those with a command that is not DONE */
	size_t exec_finished;                 /* DONE ones that `keep` counts: without an id */
	size_t request_bytes, finished_bytes; /* what requests take in memory: of all, of those */
	struct list ids_list;                 /* struct exec.by_id, oldest first */
	size_t ids_count;
	struct timespec execs_changed_at; /* mtime of exec/ */

	struct sandbox_run *run; /* private to sandbox/: process 1 and how to talk to it */
	uint32_t next_exec_serial, next_exec_number;
	struct list last;          /* private to sandbox/: per uid, the newest node */
	struct id_range *ids;      /* private to sandbox/ */
	struct journal *journal;   /* private to sandbox/ */
	struct event_log *events;  /* see events.h; NULL: none yet */
	unsigned keep;             /* how many finished nodes stay */
	unsigned holds;            /* open `hold` handles */
	bool held;                 /* it was held once, so it goes when hutchd dies */
	struct ev_timer ttl, idle; /* private to sandbox/ */
	struct ev_task trim, drop; /* private to sandbox/ */

	uint64_t stored;     /* bytes of output that are kept */
	struct list spooled; /* struct exec.spooled: over, their output may go; the oldest first */
	struct list stalled; /* struct stream.stalled */
	struct ev_task room; /* private to sandbox/ */
};

/* Makes and starts one; it is SANDBOX_CREATING or better when this returns. Takes `spec` on
 * success (it is empty afterwards). EEXIST, EINVAL, ENOSPC (serials, ids), … */
int sandbox_create(struct engine *, struct spec *spec, uid_t uid, gid_t gid, struct sandbox **ret,
		   struct err *);
/* Could this user have one more? EDQUOT. */
int sandbox_check_room(const struct engine *, uid_t, struct err *);
/* Unlinks the name at once and kills; what takes longer goes on behind. `changed` fires when
 * process 1 has been reaped too (sandbox_gone()). Cannot be refused. */
void sandbox_remove(struct sandbox *);
/* True when no process of it is left. */
bool sandbox_gone(const struct sandbox *);

/* The verbs of ctl: accepted at once; `changed` tells the rest. One whose effect is there
 * already succeeds. */
int sandbox_stop(struct sandbox *, struct err *);
int sandbox_start(struct sandbox *, struct err *);
/* Kills every command; the sandbox runs on. */
int sandbox_kill(struct sandbox *, struct err *);
/* True when the last verb's effect has not come about yet. */
bool sandbox_busy(const struct sandbox *);

/* Who may do so was checked by the caller. (uid_t)-1, (gid_t)-1: as it is. */
int sandbox_chown(struct sandbox *, uid_t, gid_t, struct err *);
int sandbox_chmod(struct sandbox *, mode_t, struct err *);

/* How many finished nodes stay: 0 … 100000. The rest goes, some a turn. */
int sandbox_set_keep(struct sandbox *, unsigned keep, struct err *);
/* When the last handle that holds it closes, or hutchd ends, it is removed. */
int sandbox_hold(struct sandbox *, struct err *);
void sandbox_unhold(struct sandbox *);

struct sandbox *sandbox_find(struct engine *, const char *id);
struct sandbox *sandbox_find_serial(struct engine *, uint32_t serial);
/* The living sandbox with the lowest serial above `after` (0: the first), or NULL. */
struct sandbox *sandbox_next(struct engine *, uint32_t after);
size_t sandbox_count(const struct engine *);

struct sandbox *sandbox_ref(struct sandbox *);
void sandbox_unref(struct sandbox *);

/* "creating", "running", "stopped", "failed: why" into out, without a newline. */
int sandbox_state_print(const struct sandbox *, struct buf *out);
