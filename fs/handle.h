/* handle.h - open files
 *
 * A client is given a number, never a pointer: the slot in a table and how often
 * that slot has been used.  A new daemon can interpret it, and a wrong one is
 * EBADF.
 *
 * Rights were checked when the handle was opened, and "this user" is who opened
 * it: a handle can be passed to a program of somebody else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "fs/access.h"
#include "fs/node.h"
#include "sandbox/stream.h"

struct arrival_reader;
struct event_log;
struct request_file;
struct tree;

struct handle {
	struct tree *tree; /* borrowed; it outlives its handles */
	uint32_t slot, generation;
	unsigned refs; /* the client's one, and one per request that waits */
	const struct node_def *def;
	struct node_ref ref; /* holds references */
	uid_t uid;           /* who opened it */
	gid_t gid;
	gid_t *groups; /* supplementary ones, of NODE_PER_USER nodes only; owned */
	int groups_n;
	int flags; /* of open(2) */

	size_t bytes;                 /* what handle_keeps() has counted */
	struct buf text;              /* what a text file says, as of open */
	bool rendered;                /* text is filled in */
	struct request_file *request; /* of the `new` nodes; owned */
	struct stream_reader reader;  /* of stdout and stderr */
	uint64_t next_off;            /* where the last read of it ended */
	bool writes_stdin;            /* counted by stdin_open() */
	bool holds;                   /* counted by sandbox_hold() or exec_hold() */
	struct event_log *events;     /* of the `events` files */
	uint64_t events_shift;        /* what is added to offsets: see event_file.c */
	bool events_begun;
	struct arrival_reader *arrival; /* of output and frames, while it is open; owned */
	void *server;                   /* the server's own, freed by it at release */
};

struct handles {
	struct handle **slot; /* NULL: free */
	uint32_t *generation, *next_free;
	uint32_t n, cap, free_head; /* UINT32_MAX: no free slot */
};

void handles_init(struct handles *);
void handles_done(struct handles *);

static inline bool handle_reads(const struct handle *h)
{
	return (h->flags & 3) != 1; /* O_ACCMODE, O_WRONLY */
}
static inline bool handle_writes(const struct handle *h)
{
	return (h->flags & 3) != 0; /* O_RDONLY */
}

/* The number that a client holds; never 0. */
uint64_t handle_number(const struct handle *);
/* NULL: there is no such handle (any more). */
struct handle *handle_find(struct tree *, uint64_t number);

/* Who opened it: rights are those of then. Valid as long as the handle. */
struct caller handle_caller(const struct handle *);

/* A handle without a node yet, counted for `uid`. `reserve`: also at the limit. */
int handle_new(struct tree *, uid_t uid, bool reserve, struct handle **ret, struct err *);
/* It keeps so many bytes in memory, from now on: EDQUOT if those are too many for its user. */
int handle_keeps(struct handle *, size_t bytes, struct err *);
/* The client has closed it: its number is free; what waits keeps it alive. */
void handle_close(struct handle *);
struct handle *handle_ref(struct handle *);
void handle_unref(struct handle *);
