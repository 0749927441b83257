/* node.h - the tree, as data
 *
 * The tree is the table in nodes.c: lookup, listing, attributes, permissions,
 * the file `help` and the FILES section of hutch(5) derive from it.  Adding a
 * file is adding a row and its handlers.  Two servers stand on it, one for FUSE
 * and one for 9P; nothing here knows either.
 *
 * A handler never waits.  One that cannot go on returns -EAGAIN and says in the
 * request which list of watches will tell it more; the server keeps the request
 * and calls the same handler again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"

struct caller;
struct exec;
struct handle;
struct sandbox;
struct tree;

/* Part of inode numbers, which outlive the daemon: a number is never used for something else,
 * and new ones go to the end. */
enum node_id {
	NODE_NONE,
	NODE_ROOT, /* 1, as the root's inode number must be */
	NODE_HELP,
	NODE_VERSION,
	NODE_NEW,
	NODE_ERROR,
	NODE_SANDBOX, /* one directory per sandbox */
	NODE_STATE,
	NODE_SPEC,
	NODE_CTL,
	NODE_EXECS,
	NODE_EXEC_NEW,
	NODE_EXEC_LAST,
	NODE_EXEC, /* one directory per command */
	NODE_EXEC_CMD,
	NODE_EXEC_STDIN,
	NODE_EXEC_STDOUT,
	NODE_EXEC_STDERR,
	NODE_EXEC_STATUS,
	NODE_EXEC_RESULT,
	NODE_EXEC_CODE,
	NODE_EXEC_CTL,
	NODE_EVENTS,
	NODE_HOLD,
	NODE_SANDBOX_EVENTS,
	NODE_EXEC_HOLD,
	NODE_STATS,
	NODE_EXEC_KEEP,
	NODE_EXEC_INPUT,
	NODE_EXEC_OUTPUT,
	NODE_EXEC_FRAMES,
	NODE_COUNT,
};

/* One node, resolved.  The pointers are borrowed, except in a handle. */
struct node_ref {
	enum node_id id;
	struct sandbox *sandbox; /* NULL at the root */
	struct exec *exec;       /* NULL outside exec/N */
};

/* How long a client's kernel may believe what it was told, of a name and of attributes. */
enum node_cache {
	CACHE_NONE,   /* a name that can be used again; a size that moves */
	CACHE_SHORT,  /* a second: what moves, or may be gone, and is asked for at each step of a
		       * path.  The server invalidates attributes after a chmod or chown.  A name:
		       * when what is behind it goes, its attributes are invalidated too */
	CACHE_STATIC, /* for ever.  A name: its directory's inode number is never used again.
		       * Attributes: of what does not come and go, at the root */
	CACHE_COUNT,
};

enum node_flags {
	NODE_STREAM = 1 << 0,  /* no offsets; a reader and a writer of one handle do not block
				 * each other */
	NODE_FRESH = 1 << 1,   /* a node id of its own for each lookup: a parked WRITE holds the
				 * kernel's inode lock, which no two openers may share */
	NODE_FLUSHED = 1 << 2, /* wants to hear of every close(2) */
	NODE_PER_USER =
		1 << 3,        /* what it lists or says depends on who opened it, with all groups */
	NODE_RESERVE = 1 << 4, /* can be opened at the limit of open handles too */
};

/* What is read from a file is sent out of it from so many bytes on. */
#define NODE_SEND_MIN (64 << 10)

/* One READ, WRITE or FLUSH of an open handle. */
struct node_io {
	struct handle *handle;
	char *bytes; /* READ: where to put them; WRITE: not to be written to */
	size_t len;
	uint64_t off;
	size_t send_max; /* READ: so many bytes the server can send out of a file; 0: none */
	int send_fd;     /* READ: > 0: what was read is not in `bytes` but in this file, at `off`;
			  * borrowed until it is sent */
	bool append;     /* WRITE: the handle has O_APPEND, so `off` may not be meant */
	uint64_t owner;  /* FLUSH and WRITE: the lock owner */
	uint64_t unique; /* the transport's number of the request */
	pid_t pid;       /* of the thread; 0: cannot be seen */

	size_t done;  /* WRITE: taken so far, which is what an interrupted writer gets to hear */
	bool expired; /* the deadline has come: answer now */
	struct list *wait; /* with -EAGAIN: call again when this fires; NULL: do not park */
	bool from_disk;    /* with -EAGAIN: the bytes are there, so O_NONBLOCK does not count */
	int64_t deadline;  /* with -EAGAIN: and at this ev_now() time, `expired`; 0: never */
	void *state;       /* the handler's own, between calls */
	void (*drop)(struct node_io *); /* frees `state`; NULL: nothing to free */
};

/* `err` is filled with the sentence for the file `error`; reads need not. */
struct node_ops {
	/* NULL or 0: fine.  The handle is filled in and access was checked. */
	int (*open)(struct handle *, struct err *);
	ssize_t (*read)(struct node_io *, struct err *);
	/* What read() left in io->send_fd, n bytes, has been sent. */
	void (*sent)(struct node_io *, size_t n);
	/* All or, if it parks, more of io->len; the total is io->done. */
	ssize_t (*write)(struct node_io *, struct err *);
	int (*flush)(struct node_io *, struct err *);
	void (*release)(struct handle *);
	/* The poll mask now, and the list that fires when it may have changed (NULL: never). */
	uint32_t (*ready)(struct handle *, struct list **ret_wait);
};

struct node_def {
	const char *name;  /* NULL: named by what it stands for */
	const char *shown; /* that name in documents */
	enum node_id parent;
	mode_t mode; /* other's bits count at the root only */
	enum node_cache names, attrs;
	unsigned flags;
	/* A text file is rendered once, at open, so that reads at any offset see one state. */
	int (*show)(struct tree *, const struct node_ref *, uid_t, struct buf *);
	/* A file of one value: a write is the whole new one. `text` is without the newline. */
	int (*store)(struct tree *, const struct node_ref *, const char *text, struct err *);
	const struct node_ops *ops;
	/* What differs from the table: size, times, mode. */
	void (*attr)(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
	/* A symbolic link's target; -ENOENT: then there is no such name either. */
	int (*target)(struct tree *, const struct node_ref *, uid_t, char *out, size_t cap);
	const char *doc; /* one line */
	/* For hutch(5); whole sentences, NULL where there is nothing to say. */
	const char *reads, *writes, *errors, *polls;
};

/* Declared without a size, or the assertion about its size could never fire. */
extern const struct node_def node_table[];

/* The row of `name` below `parent`, NODE_NONE if there is none. Only rows with a name. */
enum node_id node_find(enum node_id parent, const char *name);
/* The row without a name below `parent`: what its changing entries are. */
enum node_id node_entries(enum node_id parent);
/* Is it a name at the root that a later version will need? */
bool node_reserved(const char *name);
/* NULL, or what is wrong with the table. For the unit test. */
const char *node_table_check(void);

/* The file `help`. */
int node_print_help(struct buf *);
/* The FILES section of hutch(5), in man(7) macros. */
int node_print_man(struct buf *);
/* "/ID/exec/N/stdin" into out. */
void node_shown_path(enum node_id, char *out, size_t cap);

/* Handlers, where the table finds them. */
extern const struct node_ops new_ops, exec_new_ops, cmd_ops;   /* new_file.c */
extern const struct node_ops ctl_ops, exec_ctl_ops;            /* ctl_file.c */
extern const struct node_ops events_ops;                       /* event_file.c */
extern const struct node_ops hold_ops, exec_hold_ops;          /* hold_file.c */
extern const struct node_ops stdin_ops, input_ops;             /* stdin_file.c */
extern const struct node_ops output_ops, result_ops, code_ops; /* stream_file.c */
extern const struct node_ops arrival_ops;                      /* arrival_file.c */

int help_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int version_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int error_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int state_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int stats_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int keep_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int keep_store(struct tree *, const struct node_ref *, const char *text, struct err *);
int spec_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int cmd_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int status_show(struct tree *, const struct node_ref *, uid_t, struct buf *);
int last_target(struct tree *, const struct node_ref *, uid_t, char *out, size_t cap);
void root_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void new_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void sandbox_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void execs_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void events_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void cmd_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void input_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void output_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void result_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
void arrival_attr(struct tree *, const struct node_ref *, const struct caller *, struct stat *);
