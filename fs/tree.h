/* tree.h - what the servers of the tree share: names, inode numbers, attributes, changes
 *
 * An inode number is arithmetic: 1 alias bit, 27 bits of sandbox serial, 28 of
 * exec serial, 8 of node.  Serials are kept on disk and never used again, so a
 * number means the same thing for ever, also to a daemon that was started anew,
 * and there is no table of inodes.
 *
 * Functions that refuse something fill in the sentence but do not record it: the
 * server's edge does, once, with tree_refuse().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/ev.h"
#include "base/list.h"
#include "fs/access.h"
#include "fs/handle.h"
#include "fs/node.h"
#include "fs/refusals.h"
#include "fs/users.h"

struct engine;

#define TREE_INO_ROOT  1
#define TREE_INO_ALIAS (UINT64_C(1) << 63) /* the rest is a counter of the FUSE server's */

/* What may not wait is answered within 100 ms: also when the turn in which its time is over, and the way
 * back to whoever asked, take some. */
#define TREE_WAIT_NS (90 * INT64_C(1000000))

#define TREE_PATH_MAX 256 /* of a node's path: two names of 64 and fixed ones */

struct tree {
	struct engine *engine; /* borrowed */
	struct ev_loop *loop;  /* borrowed */
	uid_t uid;             /* whose the root is */
	gid_t gid;
	mode_t root_mode; /* permission bits */
	struct timespec started;
	int64_t started_ns;  /* ev_now() time */
	const char *version; /* borrowed */
	struct handles handles;
	struct users users;
	struct refusals refusals;
	struct list ctl_jobs; /* ctl_file.c: verbs that are not done */
	/* A sandbox's directory has a new owner or mode, so that what a client's kernel was told of
	 * everything in it is wrong. NULL: nobody wants to know. */
	void (*owner_changed)(struct tree *, struct sandbox *);
	void *server; /* for owner_changed */
	bool closing; /* the daemon ends: what is half written is not to become a command any more */
	/* For faults of ours, not of users; NULL: nobody reads them. `priority` as for syslog(3). */
	void (*log)(int priority, const char *line);
	int64_t logged_ns; /* ev_now() time of the last one of tree_refuse() */
};

void tree_init(struct tree *, struct engine *, struct ev_loop *);
/* Every handle must have been closed. */
void tree_done(struct tree *);

uint64_t tree_ino(const struct node_ref *);
/* -ESTALE: what it stood for is gone, or it never stood for anything. */
int tree_resolve(struct tree *, uint64_t ino, struct node_ref *ret);
/* -ENOENT, -ENOTDIR, -ENAMETOOLONG. */
int tree_lookup(struct tree *, const struct node_ref *dir, const char *name, uid_t,
		struct node_ref *ret);
/* `who` asks: what some files have differs from user to user. */
void tree_attr(struct tree *, const struct node_ref *, const struct caller *who, struct stat *ret);
/* May the caller enter the sandbox that this is in? True at the root. */
bool tree_may_enter(struct tree *, const struct node_ref *, const struct caller *);
/* May anything be changed in the sandbox that this is in? EPERM: it is quarantined. */
int tree_check_change(const struct node_ref *, struct err *);
/* "/box/exec/1/stdin", and "/NAME" behind it unless name is NULL. */
void tree_path(const struct node_ref *, const char *name, char *out, size_t cap);
int tree_readlink(struct tree *, const struct node_ref *, uid_t, char *out, size_t cap);

/* One entry of a listing. Its name is valid until the loop's next turn. */
struct tree_entry {
	const char *name;
	uint64_t ino;
	mode_t mode;
};
/* The entry behind `*cookie` (0: the first), and its own cookie. False: there is none.
 * Cookies are made of serials: entries that come and go between two calls disturb nothing. */
bool tree_next(struct tree *, const struct node_ref *dir, const struct caller *, uint64_t *cookie,
	       struct tree_entry *ret);

/* Checks access, makes the handle, renders a text. */
int tree_open(struct tree *, const struct node_ref *, const struct caller *, int flags,
	      struct handle **ret, struct err *);
/* A directory; NULL in *ret where no handle is needed. */
int tree_opendir(struct tree *, const struct node_ref *, const struct caller *, struct handle **ret,
		 struct err *);
/* Bytes of an open file, as node_io says. */
ssize_t tree_read(struct node_io *, struct err *);
ssize_t tree_write(struct node_io *, struct err *);
int tree_flush(struct node_io *, struct err *);
/* The poll mask; *ret_wait fires when it may have changed. */
uint32_t tree_ready(struct handle *, struct list **ret_wait);

/* Can a new sandbox have this name? */
int tree_check_name(struct tree *, const char *name, struct err *);
/* A sandbox, or a named node of exec/. The new sandbox may be SANDBOX_CREATING still: see
 * tree_mkdir_result(). */
int tree_mkdir(struct tree *, const struct node_ref *dir, const char *name, const struct caller *,
	       struct node_ref *ret, struct err *);
/* -EAGAIN: it is being created, sandbox->changed tells more. Failed: it is removed again. */
int tree_mkdir_result(struct sandbox *, struct err *);
/* Unlinked when this returns 0. *ret_gone: a reference to the sandbox whose processes may not all
 * have ended, or NULL. */
int tree_rmdir(struct tree *, const struct node_ref *dir, const char *name, const struct caller *,
	       struct sandbox **ret_gone, struct err *);

enum tree_set { TREE_SET_MODE = 1, TREE_SET_UID = 2, TREE_SET_GID = 4, TREE_SET_OTHER = 8 };
/* Truncating and touching (TREE_SET_OTHER) is accepted, and does nothing, where one may write. */
int tree_setattr(struct tree *, const struct node_ref *, const struct caller *, const struct stat *,
		 unsigned set, struct err *);

/* What the tree does not do, each with its own sentence. Returns -EPERM. */
enum tree_change {
	TREE_CREATE,
	TREE_MKNOD,
	TREE_SYMLINK,
	TREE_LINK,
	TREE_UNLINK,
	TREE_RENAME,
	TREE_CHANGE_COUNT
};
int tree_refuse_change(enum tree_change, struct err *);

/* A line in the user's `error`. */
void tree_refuse(struct tree *, uid_t, const struct node_ref *, const char *name,
		 const struct err *);
