/* fuse-internal.h - shared by the fuse_*.c files */
#pragma once

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include <fuse_lowlevel.h>

#include "base/ev.h"
#include "base/hmap.h"
#include "base/watch.h"
#include "fs/alias.h"
#include "fs/fuse.h"
#include "fs/tree.h"

#define FUSE_IO_MAX ((size_t)1 << 20) /* bytes of one READ, WRITE or READDIR */

struct fuse_server {
	struct tree *tree;
	struct ev_loop *loop;
	struct fuse_session *session;
	struct fuse_buf in; /* the request at hand */
	uint64_t unique;    /* its number */
	char *out;          /* FUSE_IO_MAX bytes for an answer */
	size_t send_max;    /* bytes that fuse_send() can take; 0: none */
	struct ev_source src;
	struct aliases aliases;
	struct list parked; /* struct parked.link */
	struct hmap parked_by_unique;
	struct list wakes; /* fuse_wake.c: struct fuse_wake.link */
	struct ev_task wake_task;
	struct list inval; /* fuse_inval.c: sandboxes with a new owner or mode */
	struct ev_task inval_task;
	uint64_t generation;
	const char *mountpoint; /* borrowed */
	uint64_t mount_id;      /* 0: fusermount3 made it, and unmakes it */
	bool ended;             /* the kernel's side is gone */
	bool in_loop, done;     /* whoever ends last frees: see on_release() */
	void (*on_ended)(void *arg);
	void *arg;
};

extern const struct fuse_lowlevel_ops fuse_server_ops;

/* fuse_mount.c */
int fuse_mount_session(struct fuse_server *, bool allow_other, struct err *);
void fuse_unmount_session(struct fuse_server *);

/* fuse_names.c */
void fuse_op_lookup(fuse_req_t, fuse_ino_t parent, const char *name);
void fuse_op_forget(fuse_req_t, fuse_ino_t, uint64_t lookups);
void fuse_op_forget_multi(fuse_req_t, size_t n, struct fuse_forget_data *);
void fuse_op_getattr(fuse_req_t, fuse_ino_t, struct fuse_file_info *);
void fuse_op_readlink(fuse_req_t, fuse_ino_t);
void fuse_op_opendir(fuse_req_t, fuse_ino_t, struct fuse_file_info *);
void fuse_op_readdir(fuse_req_t, fuse_ino_t, size_t size, off_t off, struct fuse_file_info *);
void fuse_op_releasedir(fuse_req_t, fuse_ino_t, struct fuse_file_info *);
void fuse_op_statfs(fuse_req_t, fuse_ino_t);

/* fuse_change.c */
void fuse_op_setattr(fuse_req_t, fuse_ino_t, struct stat *, int set, struct fuse_file_info *);
void fuse_op_mkdir(fuse_req_t, fuse_ino_t parent, const char *name, mode_t);
void fuse_op_rmdir(fuse_req_t, fuse_ino_t parent, const char *name);
void fuse_op_create(fuse_req_t, fuse_ino_t parent, const char *name, mode_t,
		    struct fuse_file_info *);
void fuse_op_mknod(fuse_req_t, fuse_ino_t parent, const char *name, mode_t, dev_t);
void fuse_op_symlink(fuse_req_t, const char *target, fuse_ino_t parent, const char *name);
void fuse_op_link(fuse_req_t, fuse_ino_t, fuse_ino_t parent, const char *name);
void fuse_op_unlink(fuse_req_t, fuse_ino_t parent, const char *name);
void fuse_op_rename(fuse_req_t, fuse_ino_t, const char *, fuse_ino_t, const char *, unsigned flags);

/* fuse_io.c */
void fuse_op_open(fuse_req_t, fuse_ino_t, struct fuse_file_info *);
void fuse_op_read(fuse_req_t, fuse_ino_t, size_t size, off_t off, struct fuse_file_info *);
void fuse_op_write(fuse_req_t, fuse_ino_t, const char *, size_t size, off_t off,
		   struct fuse_file_info *);
void fuse_op_flush(fuse_req_t, fuse_ino_t, struct fuse_file_info *);
void fuse_op_release(fuse_req_t, fuse_ino_t, struct fuse_file_info *);
void fuse_op_poll(fuse_req_t, fuse_ino_t, struct fuse_file_info *, struct fuse_pollhandle *);
/* Closes a handle and what this server keeps with it. */
void fuse_close_handle(struct handle *);

/* fuse.c */
struct fuse_server *fuse_server_of(fuse_req_t);
/* Valid as long as the request. */
struct caller fuse_caller(fuse_req_t);
/* Resolves aliases too. */
int fuse_resolve(struct fuse_server *, fuse_ino_t, struct node_ref *ret);
/* An answer to LOOKUP and MKDIR. */
void fuse_answer_entry(struct fuse_server *, fuse_req_t, const struct node_ref *);
double fuse_seconds(enum node_cache);
enum node_cache fuse_attr_cache(const struct node_ref *);
/* Answers -r; a line in `error`, unless it is about something that is gone. */
void fuse_refuse(struct fuse_server *, fuse_req_t, const struct node_ref *, const char *name,
		 const struct err *);

/* fuse_inval.c */
void fuse_inval_init(struct fuse_server *);
void fuse_inval_done(struct fuse_server *);
/* This sandbox has a new owner or mode, or was removed. */
void fuse_inval_queue(struct fuse_server *, struct sandbox *);
/* The SETATTR that has just changed this sandbox's owner or mode is answered when the kernel has
 * forgotten the old one. False: answer it now. */
bool fuse_inval_answer(struct fuse_server *, fuse_req_t, const struct sandbox *);

/* fuse_send.c */
/* In the session's init. */
void fuse_send_init(struct fuse_server *, struct fuse_conn_info *);
/* Answers a READ with n bytes of io->send_fd. */
void fuse_send(fuse_req_t, struct node_io *, size_t n);

/* fuse_wake.c: runs some time after a watch has fired, when it is its turn. */
struct fuse_wake {
	struct watch watch;
	struct list link; /* fuse_server.wakes, between the firing and the run */
	struct fuse_server *server;
	void (*run)(struct fuse_wake *); /* may free it */
};

void fuse_wakes_init(struct fuse_server *);
void fuse_wakes_done(struct fuse_server *); /* those that are left do not run */
void fuse_wake_init(struct fuse_wake *, struct fuse_server *, void (*run)(struct fuse_wake *));
/* Runs once after this list of watches has fired. */
void fuse_wake_on(struct fuse_wake *, struct list *changes);
void fuse_wake_cancel(struct fuse_wake *);

/* fuse_park.c: a request that waits for a watch, a time or an interrupt. */
struct parked {
	struct list link; /* fuse_server.parked */
	struct fuse_server *server;
	fuse_req_t req;
	/* Tries once more: true when it has answered. Must answer when io.expired. */
	bool (*again)(struct parked *);
	/* Answers what an interrupted caller is to hear. */
	void (*interrupted)(struct parked *);
	struct hmap_node by_unique;
	uint64_t unique; /* the kernel's number of the request, by which it is interrupted */
	struct fuse_wake wake;
	struct ev_timer timer;
	uid_t uid;               /* who it is counted for */
	size_t bytes;            /* what it is counted with */
	struct node_io io;       /* READ, WRITE: holds a reference to the handle */
	size_t before;           /* WRITE: bytes taken before it was parked */
	char *copy;              /* WRITE: the bytes that are left; owned */
	struct sandbox *sandbox; /* MKDIR, RMDIR: a reference */
};

/* Takes over the request and what `like` owns. Cannot be parked: false, with the sentence, and `like`
 * keeps what it owns. `wait` and `deadline` are those of like->io. */
bool fuse_park(const struct parked *like, struct err *);
/* An INTERRUPT of this request has come. Of one that was answered already: nothing happens. */
void fuse_interrupt(struct fuse_server *, uint64_t unique);
/* Answers all with the error. */
void fuse_unpark_all(struct fuse_server *, int code);
