/* ev.h - one thread, one epoll loop
 *
 * Everything that can become ready is a `struct ev_source` embedded in the
 * object that owns it; the callback gets back with container_of().  Callbacks
 * run to the end and never block.
 *
 * epoll_wait() returns a batch, so a callback may destroy an object whose own
 * event sits later in the same batch.  Hence ev_del() only marks a source dead;
 * `release` runs after the batch.  Memory that holds a source is freed in
 * `release` or later, never before.
 *
 * The order of a turn: ready sources, due timers, deferred tasks, releases; or one
 * idle task, when there was none of these for a while.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/list.h"

/* Begins as zeroes, but for fd, ready and release. */
struct ev_source {
	int fd; /* borrowed: the owner closes it, after ev_del() */
	void (*ready)(struct ev_source *, uint32_t events);
	void (*release)(struct ev_source *); /* may be NULL */
	struct ev_source *next_dead;
	bool live; /* between ev_add() and ev_del() */
};

struct ev_timer {
	struct list link; /* ev_loop.timers, earliest first */
	int64_t at;       /* ev_now() time */
	void (*fire)(struct ev_timer *);
};

/* Runs once, after the sources of this turn; may defer itself again for the next. */
struct ev_task {
	struct list link; /* ev_loop.tasks or .idle */
	void (*run)(struct ev_task *);
};

struct ev_loop {
	int epfd;
	bool stop;
	bool expects; /* see ev_expect() */
	struct list timers, tasks, idle;
	int64_t busy_at;   /* end of the last turn that found something to do; ev_now() time */
	int64_t paused_at; /* and the first behind the last pause of EV_EXPECT_NS */
	struct ev_source *dead;
	struct epoll_event *batch; /* what this turn has not delivered yet */
	int batch_left;
};

int ev_init(struct ev_loop *, struct err *);
void ev_done(struct ev_loop *);

/* `events` are EPOLLIN and so on.  Negative errno on failure. */
int ev_add(struct ev_loop *, struct ev_source *, uint32_t events);
int ev_mod(struct ev_loop *, struct ev_source *, uint32_t events);
/* Of a source that was never added, or twice: nothing happens.  A source that is added again
 * before the end of the turn is not released, and sees no event from before. */
void ev_del(struct ev_loop *, struct ev_source *);

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t ev_now(void);
/* Arms or re-arms; the timer's `fire` is set by ev_timer_init. Cannot fail. */
void ev_timer_init(struct ev_timer *, void (*fire)(struct ev_timer *));
void ev_timer_set(struct ev_loop *, struct ev_timer *, int64_t at);
void ev_timer_cancel(struct ev_timer *);

void ev_task_init(struct ev_task *, void (*run)(struct ev_task *));
/* Of a task that waits already: nothing happens. */
void ev_defer(struct ev_loop *, struct ev_task *);
/* The same for what nobody waits for: it runs in a turn that found nothing else to do, one a turn.
 * A loop that is never idle never runs it. */
void ev_defer_idle(struct ev_loop *, struct ev_task *);
void ev_task_cancel(struct ev_task *);
/* More is about to come, or (false) not: whoever was answered just now has not had the time to ask for
 * more, least of all on the same core, and would wait for an idle task with what he asks for
 * next.  None runs until nothing has come for EV_EXPECT_NS, or for all of a turn that is shorter.
 * When there was no such pause for as long, there may never be one, and what is made ahead would be
 * made while somebody waits for it: then EV_HURRY_NS will do. */
#define EV_EXPECT_NS 5000000
#define EV_HURRY_NS  100000
void ev_expect(struct ev_loop *, bool more);

/* Until loop->stop.  0, or a negative errno. */
int ev_run(struct ev_loop *);
/* One turn, waiting at most `timeout_ms` (-1: as long as it takes). */
int ev_turn(struct ev_loop *, int timeout_ms);
