/* sandbox-internal.h - what the engine's own files share
 *
 * Who does what: engine.c holds the set and brings it back at start; sandbox.c is
 * a sandbox's life as its users see it; run.c is process 1 and the control socket;
 * record.c is what a restart needs; exec.c, exec_start.c, exec_end.c are a
 * command's life; stream.c and stdin.c its bytes, pty.c its terminal, arrival.c the
 * order of its output; result.c its
 * result as text.
 */
#pragma once

#include "agent/proto.h"
#include "base/buf.h"
#include "sandbox/blank.h"
#include "sandbox/cgroup.h"
#include "sandbox/disk.h"
#include "sandbox/events.h"
#include "sandbox/exec.h"
#include "sandbox/idpool.h"
#include "sandbox/launch.h"
#include "sandbox/mounts.h"
#include "sandbox/pipes.h"
#include "sandbox/sandbox.h"
#include "sandbox/store.h"
#include "sandbox/stream-internal.h"
#include "sandbox/trash.h"
#include "sandbox/zombies.h"

#define EXEC_KEEP       1000 /* the default of `keep` */
#define EXEC_KEEP_MAX   100000
#define EXEC_NODES_MAX  200000 /* of one sandbox, in any state */
#define EXEC_IDS_MAX    10000  /* nodes whose request carried an id */
#define EXEC_ID_STAYS_S (72 * 3600)

#define ID_TAG_LEN 2

#define PIPE_BUSY_SIZE (1024 * 1024) /* of a pipe that was full, and is read */

struct engine {
	struct ev_loop *loop;
	int agent_fd, null_fd; /* the first is borrowed */
	const char *id_tag;    /* see engine_config */
	struct store store;
	struct disk *disk;
	struct disk_done moved; /* what was thrown away is in the trash; see engine_discard() */
	bool move_again;
	struct trash trash;
	struct idpool ids;
	struct image *image;
	struct cgroups groups;
	struct blanks blanks;
	struct pipes pipes;
	struct event_log events; /* all */
	struct list event_logs;  /* struct event_log.link, of users */
	uint64_t event_seq;
	struct lo_request lo;
	struct zombies zombies;
	struct list mount_jobs;            /* struct mounts_job.link */
	const char *const *mounts_allowed; /* borrowed; NULL: none */
	struct list sandboxes;             /* struct sandbox.link, in the order of serials */
	struct hmap by_name, by_serial;
	size_t count;
	struct list leaving; /* struct sandbox.link: removed, without a process, with nodes still */
	size_t exec_count, exec_live; /* of all */
	size_t request_bytes;
	struct engine_limits limits;
	void (*removed)(void *arg, struct sandbox *); /* may be NULL */
	void *removed_arg;
	bool closing;     /* nothing is started any more */
	struct list runs; /* struct sandbox_run.link: every process 1 that was not reaped */
};

/* --- process 1: run.c --- */

/* From launch() until process 1 is reaped. Descriptors: two of the sandbox's three. */
struct sandbox_run {
	struct sandbox *sandbox; /* holds a reference */
	struct list link;        /* engine.runs */
	pid_t pid;
	struct cgroup_run *groups; /* owned */
	struct ev_source pidfd, control;
	unsigned refs;             /* one per source that the loop may still have in its hands */
	bool ready;                /* the agent has said so */
	bool broke;                /* it said what no agent says */
	bool ending;               /* SIGKILL was sent: asked for, or with a fault */
	struct disk_done layer;    /* its answer: the layer */
	bool cold;                 /* its directory is made for it */
	struct mounts_job *mounts; /* NULL: none is being opened */
	struct err fault;          /* why it ends, if that was not asked for; code 0: it was */
	bool watching;             /* for room in the socket */
	bool full; /* the socket took no more, and has not said since that there is room */
	/* Commands that it was sent and has not said anything of; that it has started and that are
	 * not over: each is an event that it may still send, be its node removed or not. */
	uint64_t unstarted, unended;
	struct list outbox; /* struct run_signal_msg: the socket was full */
	unsigned outbox_n;
	struct list unsent;    /* struct exec.unsent: PENDING commands */
	struct ev_task finish; /* ends its commands when it was reaped */
};

/* What to launch; all borrowed. */
struct run_launch {
	uint32_t serial; /* of the sandbox */
	int layer;       /* O_PATH; -1: it comes later */
	const struct id_range *ids;
	const struct launch_name *name; /* NULL: it waits for one */
	const struct spec_mount *mounts;
	size_t mounts_n;
};
/* Makes a control group, and process 1 in it. On failure nothing is left. */
int run_launch(struct engine *, const struct run_launch *, struct launched *ret,
	       struct cgroup_run **ret_groups, struct err *);
/* Launches process 1, or takes the one of `blank` (may be NULL), which is the caller's still on
 * failure; sandbox.run is set on success. */
int run_start(struct sandbox *, struct blank *blank, struct err *);
/* SIGKILL to process 1; the rest follows when it is reaped. `fault`: NULL if it was asked for. */
void run_end(struct sandbox_run *, const struct err *fault);
/* Sends the command now or when the agent can take it. */
void run_exec(struct sandbox_run *, struct exec *);
/* Sends what waits, as far as the socket takes it. */
void run_flush(struct sandbox_run *);
/* -EBUSY: too many wait already, since the agent does not read its socket. */
int run_signal(struct sandbox_run *, uint32_t exec_serial, int sig, bool group);
/* Reaps what run_end() has ended, waiting at most until `deadline` (ev_now() time). */
void run_wait_all(struct engine *, int64_t deadline);

/* Told by run.c: */
void sandbox_on_ready(struct sandbox *);
/* Ends at most so many of its commands; true when none is left. */
bool sandbox_end_commands(struct sandbox *, const struct sandbox_run *, size_t most);
/* Behind that: sandbox.run is NULL already; `run` is about to be freed. */
void sandbox_on_end(struct sandbox *, const struct sandbox_run *run);

/* --- how many: quota.c --- */

void quota_init(struct engine *, const struct engine_limits *);
/* One more? EDQUOT with a sentence. */
int quota_command(const struct sandbox *, struct err *);
int quota_node(const struct sandbox *, struct err *);
/* A request of so many bytes? Every node keeps its own, for `cmd` and for being asked again. */
int quota_request(const struct sandbox *, size_t bytes, struct err *);
/* The request of this one, or what is set of it, has changed. */
void quota_recount(struct exec *);
/* It counts for `keep` from now on, or not any more. */
void quota_finished(struct exec *, bool);
/* Are more kept than may be, by number or by size? */
bool quota_keeps_too_much(const struct sandbox *);

/* --- commands --- */

/* Is it certain that no process of it is left? Without groups the streams must tell. */
bool exec_over(const struct exec *);
/* The oldest finished nodes go when there are too many: some now, more of them in later turns. */
void exec_trim(struct sandbox *);
/* The same when this turn is over: for where one may be in somebody's hands. */
void exec_trim_later(struct sandbox *);
/* exec_base.c: of a request without a command, one of its own. */
int exec_base_copy(struct exec_request *ret, const struct exec_request *from);
/* The defaults of a new node. */
int exec_base_begin(struct exec *);
/* May so many bytes more be set? E2BIG. */
int exec_base_room(const struct exec *, size_t more, struct err *);
/* What was set makes place for the command; back, if that failed; or for good, if it matters. */
int exec_base_keep(struct exec *);
void exec_base_undo(struct exec *);
void exec_base_settle(struct exec *);
void exec_base_done(struct exec *);
/* Begins the time after which an idle sandbox is stopped, if it has one and no command. */
void sandbox_idle(struct sandbox *);
void exec_start_init(struct exec *);
/* Its time is over, or it was killed and should be over by now. */
void exec_on_deadline(struct exec *);
/* Those that came before it was sent. */
void exec_send_early_signals(struct exec *);
/* The last process of it has gone. */
void exec_on_group_gone(struct cgroup *);
/* -EAGAIN: the socket is full, nothing was sent. Any other failure has finished the command. */
int exec_send(struct exec *, int control);
void exec_on_started(struct exec *, pid_t pid);
void exec_on_failed(struct exec *, enum agent_stage, int error);
void exec_on_exited(struct exec *, int wait_status, const struct agent_usage *);
/* Its process 1 is gone; `fault` has code 0 if that was asked for. */
void exec_on_run_end(struct exec *, const struct err *fault);
/* A failure before or instead of running: `failed: error`. */
void exec_fail(struct exec *, int code, const char *error);
/* `res`, which is taken, is filled but for times and duration. Releases the result when the streams
 * are settled, or at once. */
void exec_finish(struct exec *, struct exec_result *res);
void exec_finish_now(struct exec *, struct exec_result *res);
/* Of one that is over, and settles: its result is released as it is. */
void exec_settle_no_more(struct exec *);
void exec_on_settled(struct exec *);

/* A node as it is read back from the journal; finished. Takes req and res. */
struct exec_record {
	uint32_t serial, number; /* number 0: named */
	bool unwritten;
	char name[NAME_MAX_LEN + 1];
	struct timespec created_at;
	struct exec_request request;
	struct exec_result result;
};
int exec_restore(struct sandbox *, struct exec_record *, struct err *);
/* Between exec.c and exec_restore.c: one that is in no list, NULL: no memory; and into its sandbox's. */
struct exec *exec_new(struct sandbox *);
void exec_link(struct exec *);
/* Of one that was restored unwritten, when its request is found. */
void exec_restore_written(struct exec *);
/* When its result is known too. */
void exec_restore_streams(struct exec *);
void exec_result_done(struct exec_result *);
/* Unlinks and frees without a record in the journal: for a sandbox that goes. */
void exec_drop(struct exec *);

/* result.c */
int exec_result_parse(struct exec_result *ret, const cJSON *, struct err *);

/* --- what a restart needs: record.c, journal.c --- */

int record_write(const struct sandbox *, struct err *);
/* Without one it is gone for the next hutchd, whatever becomes of this one. */
void record_remove(const struct sandbox *);
/* Fills the fields that record_write() wrote; sandbox.ids is claimed by the caller. */
int record_read(struct sandbox *, int state_fd, struct err *);

/* One line of JSON per event, appended: a command was accepted, ended, was removed.  Rewritten
 * when it holds more that is gone than what is there. */
struct journal_fresh;
struct journal {
	uint64_t size, rewritten;    /* bytes now, and when it was last rewritten */
	struct journal_fresh *fresh; /* owned; NULL: it is not being rewritten */
};
/* Reads the nodes back; those that were not over become `lost`. Before the tree is served: it
 * waits for the disk. */
int journal_open(struct sandbox *, struct err *);
/* No more of it is rewritten. */
void journal_close(struct sandbox *);
/* Refused while the disk does not take what it is given. */
int journal_commit(const struct exec *, struct err *);
void journal_finish(struct exec *);
/* What arrival_print() says, of a command that runs or whose streams go on. */
int journal_arrival(const struct exec *);
void journal_remove(const struct exec *);
/* It is about to leave its sandbox's list. */
void journal_forget(const struct exec *);

struct last_entry {
	struct list link; /* sandbox.last */
	uid_t uid;
	uint32_t serial; /* 0: the user's last request was refused */
};
void exec_last_set(struct sandbox *, uid_t, uint32_t serial);

/* sandbox.c: an object with nothing in it, not in the engine's set yet; engine.c adds it. */
/* Of one that was made or brought back: it is removed when its time is over. */
void sandbox_arm_ttl(struct sandbox *);
struct sandbox *sandbox_new(struct engine *, uint32_t serial);
/* Of one that leaves, or whose engine ends: every node, at once, and the engine's reference. */
void sandbox_drop_all(struct sandbox *);
/* Its directory goes to the trash, if there is one. */
void engine_discard(struct engine *, uint32_t serial);
void engine_add(struct engine *, struct sandbox *);
void engine_remove(struct engine *, struct sandbox *);
