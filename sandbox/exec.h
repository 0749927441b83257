/* exec.h - one command of a sandbox: its streams, its life, its result
 *
 * States: PENDING (its sandbox is being created, or nothing was sent yet) ->
 * RUNNING -> DONE with a reason.  When it is DONE its result never changes.
 * Its streams may go on: children that the leader left behind may hold them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/ev.h"
#include "base/hmap.h"
#include "base/watch.h"
#include "sandbox/arrival.h"
#include "sandbox/request.h"
#include "sandbox/sandbox.h"
#include "sandbox/stream.h"

enum exec_state { EXEC_PENDING, EXEC_RUNNING, EXEC_DONE };

/* How the leader ended. */
enum exec_reason {
	EXEC_REASON_NONE,
	EXEC_EXITED,
	EXEC_SIGNALED,
	EXEC_TIMED_OUT,
	EXEC_OOM_KILLED,
	EXEC_KILLED,
	EXEC_FAILED, /* could not be started, or the engine failed: result.error says what */
	EXEC_LOST,   /* its sandbox or its hutchd died; what became of it is not known */
	EXEC_REASON_COUNT,
};

#define USAGE_UNKNOWN UINT64_MAX /* not collected: null in JSON, never 0 */

struct exec_usage {
	bool collected;
	uint64_t cpu_user_ms, cpu_sys_ms, peak_memory_bytes, page_faults_major,
		context_switches_involuntary, io_read_bytes, io_write_bytes;
};

struct exec_result {
	enum exec_reason reason;
	int exit_code; /* -1 unless EXITED */
	int signal;    /* 0: none */
	int code;      /* as `$?` would be: the node `code` */
	bool oom_killed;
	char *error; /* NULL: none */
	struct exec_usage usage;
	struct timespec started_at, finished_at; /* CLOCK_REALTIME */
	int64_t duration_ms;
	pid_t pid; /* inside; 0: it never had one */
	/* When the result was released: children that were left behind may go on writing. */
	uint64_t stream_bytes[2]; /* by enum exec_stream */
	bool truncated, streams_open;
};

struct exec {
	struct sandbox *sandbox; /* holds a reference */
	unsigned refs;
	struct list link; /* sandbox.execs */
	struct hmap_node by_name, by_serial;
	uint32_t serial; /* never used again in this sandbox */
	char name[NAME_MAX_LEN + 1];
	struct exec_request request;
	enum exec_state state;
	struct exec_result result; /* valid when DONE */
	struct timespec created_at;
	pid_t pid;      /* as seen inside; 0: not known */
	bool unwritten; /* made by exec_mkdir(), and no command yet: PENDING, without streams */
	bool removed;
	struct stream stream[EXEC_STREAM_COUNT];
	struct arrival arrival; /* the order of both */
	struct list changed;    /* watches: state */

	/* stdin */
	struct ev_source in;  /* the pipe's writing end; fd -1: at EOF */
	unsigned writers;     /* open write handles */
	bool in_armed;        /* EOF when the last of them closes */
	bool in_line;         /* what was written last is not the end of a line */
	uint64_t in_taken;    /* bytes that went into the pipe, whichever way: offsets of `input` */
	bool in_widened;      /* private to sandbox/ */
	struct list writable; /* watches: there is room, or EOF */

	/* private to sandbox/ */
	struct cgroup *group; /* while a process may be in it; NULL: there are none here */
	struct list unsent;   /* sandbox_run.unsent, while PENDING */
	int child[3];         /* the command's ends of its stdio, until they are sent; -1: none.
			       * Of a terminal [0], until its leader is over */
	uint16_t rows, cols;  /* of its terminal, where winsize has set them; 0: as requested */
	struct ev_timer deadline;
	bool timed_out, killed; /* why we sent SIGKILL */
	unsigned silent;        /* looks at it since then that found it empty */
	uint64_t early_signals; /* bits: to be sent right behind it */
	struct timespec started_at;
	int64_t started_ns;          /* ev_now() time */
	uint32_t number;             /* its name, of a node that counts; 0: named */
	struct list by_id;           /* sandbox.ids_list, of a request with an id */
	struct exec_result *pending; /* it is over, and its streams settle; owned */
	struct list spooled;         /* sandbox.spooled: over, and its output may be given up */
	unsigned holds;              /* open `hold` handles */
	struct exec_request *base;   /* see exec_base(); owned; NULL: exec_defaults() */
	size_t request_bytes;        /* of both, as counted by quota_recount() */
};

/* Could this sandbox take a command now? ESRCH; EPERM, it is quarantined. */
int exec_check(const struct sandbox *, struct err *);
/* Is there room for one more, and for its node? EDQUOT; ENOSPC and the like: the state directory takes
 * nothing. */
int exec_check_room(const struct sandbox *, bool node, struct err *);
/* Makes the node and sends it to the sandbox. Takes `req` on success. ESRCH: the sandbox does not
 * run; EAGAIN-like limits have their own errno. A command that cannot start is no failure here, nor
 * is, in any state of the sandbox, a request with the id of a node whose request equals it. */
int exec_create(struct sandbox *, struct exec_request *req, struct exec **ret, struct err *);
/* A node with a name and no command: EEXIST, EINVAL, ESRCH, EDQUOT. */
int exec_mkdir(struct sandbox *, const char *name, uid_t by, struct exec **ret, struct err *);
/* The command of a named node. Written again with an equal request: 0, and nothing runs. A different
 * one is EEXIST. Takes `req` on success. */
int exec_write(struct exec *, struct exec_request *req, struct err *);
/* `set` of an unwritten node; EBUSY when its command was written. */
int exec_set(struct exec *, const char *key, const char *value, struct err *);
/* What a request in this sandbox begins with, see exec_request_parse(). */
const struct exec_request *exec_defaults(const struct sandbox *);
/* The same for one that is written to this node, for the first time or again. */
const struct exec_request *exec_base(const struct exec *);
/* When the last handle that holds it closes it is killed. */
void exec_hold(struct exec *);
void exec_unhold(struct exec *);
/* Unlinks the node, kills what runs. */
void exec_remove(struct exec *);

struct exec *exec_find(struct sandbox *, const char *name);
struct exec *exec_find_serial(struct sandbox *, uint32_t serial);
struct exec *exec_next(struct sandbox *, uint32_t after_serial);
struct exec *exec_ref(struct exec *);
void exec_unref(struct exec *);

/* This user's newest node, or NULL: none, removed, or the user's last request was refused. */
struct exec *exec_last(struct sandbox *, uid_t);
/* After a refusal: exec_last() is NULL until this user's next accepted request. */
void exec_last_clear(struct sandbox *, uid_t);

/* To the process group. Of a command that is over: nothing happens, 0. EAGAIN: there is none yet. */
int exec_signal(struct exec *, int sig, struct err *);
/* Everything it started; the result will say `killed`. */
int exec_kill(struct exec *, struct err *);
/* The size of its terminal. ENOTTY: it has none; EAGAIN: it has no command. Of a command that is
 * over: nothing happens, 0. */
int exec_winsize(struct exec *, uint16_t rows, uint16_t cols, struct err *);
/* `close-stdin`: a pipe is at its end from here on; at a terminal the end-of-file character is
 * typed, and it goes on. EAGAIN: the terminal takes no more, or there is no command yet. Twice is
 * harmless. */
int exec_end_stdin(struct exec *, struct err *);

/* Whoever writes to stdin through a handle brackets that with these.
 * `truncates`: opened with O_TRUNC, which arms EOF as a byte that is taken does; a terminal has no
 * EOF. */
void stdin_open(struct exec *, bool truncates);
void stdin_close(struct exec *);
/* Bytes taken (at least 1), -EAGAIN (pipe full, or no command yet), -EPIPE. */
ssize_t stdin_write(struct exec *, const void *bytes, size_t len);
/* The same, by who is not counted in `writers`, and has no part in what ends stdin. */
ssize_t input_write(struct exec *, const void *bytes, size_t len);
/* Poll mask right now: EPOLLOUT, EPOLLERR. */
uint32_t stdin_ready(const struct exec *);
/* Lets `writable` fire when there is room, for whoever polls. stdin_write() does so itself. */
void stdin_want(struct exec *);

/* The texts of the nodes, without a newline at the end of status. */
int exec_status_print(const struct exec *, struct buf *);
int exec_result_print(const struct exec *, struct buf *); /* only when DONE */
const char *exec_reason_name(enum exec_reason);
