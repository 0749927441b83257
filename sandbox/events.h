/* events.h - what happened, as lines of JSON
 *
 * A line is made once and shared by every log that shows it: its sandbox's, and
 * one per user who reads the root's `events`, which holds what happened to the
 * sandboxes that this user may enter.  A log keeps its last EVENTS_MAX lines.
 * Offsets are absolute: they count bytes from the log's beginning, and go on when
 * old lines are dropped.
 *
 *	{"seq":7,"time":"…","event":"exec finished","sandbox":"box","exec":"3","reason":"exited"}
 *
 * `seq` counts events of this hutchd, so a reader who finds a gap in its own log
 * knows that others were for others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/list.h"

struct engine;
struct exec;
struct sandbox;

#define EVENTS_MAX          10000
/* Logs of users.  One user has more than one where he comes with other groups; who may choose his
 * groups could have any number. The one unread for longest goes first. */
#define EVENT_LOGS_MAX      1024
#define EVENT_LOGS_USER_MAX 8

struct event; /* one line, counted */

/* Where a line stands in a log. */
struct event_place {
	struct event *event;
	uint64_t at; /* the offset of its first byte */
};

/* A user: what he may enter depends on all his groups. */
struct event_viewer {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* supplementary */
	int groups_n;
};

struct event_log {
	struct list link;           /* engine's logs, most recently opened last */
	struct event_viewer viewer; /* whose; of a sandbox's own: not used; groups are owned */
	unsigned readers;
	/* Which sandboxes this user may see; NULL: the log is a sandbox's own. */
	bool (*sees)(const struct event_log *, const struct sandbox *);
	struct event_place *ring;
	size_t cap, head, count;
	uint64_t start, end; /* offsets of the oldest byte kept and behind the newest */
	struct timespec changed_at;
	struct list changed; /* watches: there are more lines */
};

enum event_kind {
	EVENT_CREATED,
	EVENT_STARTED,
	EVENT_STOPPED,
	EVENT_FAILED,
	EVENT_QUARANTINED,
	EVENT_REMOVED,
	EVENT_EXEC_STARTED,
	EVENT_EXEC_FINISHED,
	EVENT_KIND_COUNT,
};

/* `ex`: NULL for events of the sandbox itself. Without memory the event is lost. */
void event_emit(struct sandbox *, enum event_kind, const struct exec *ex);

/* The log of this user, made if need be from what the engine's own log holds. It is there until
 * the next call, or while it has a reader. EDQUOT: readers have too many. */
int event_log_find(struct event_log **ret, struct engine *, const struct event_viewer *,
		   bool (*sees)(const struct event_log *, const struct sandbox *), struct err *);
/* A reader more, until event_log_close(): it is kept. */
void event_log_open(struct event_log *);
/* The sandbox's own. NULL: no memory. */
struct event_log *event_log_of(struct sandbox *);
void event_log_close(struct event_log *);

/* Bytes from `off` on; 0: nothing is behind it. Below `start` the oldest kept line answers: a handle
 * whose first read lies there adds the difference to all its later offsets. */
size_t event_log_read(const struct event_log *, char *bytes, size_t len, uint64_t off);

void event_log_init(struct event_log *);
void event_log_done(struct event_log *);
/* All logs of an engine that ends. */
void events_done(struct engine *);
