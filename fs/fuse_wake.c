/* fuse_wake.c - who has been woken, some a turn
 *
 * One event can wake everybody who waits: ten thousand readers of one stream.
 * Each is answered by a system call, so to answer all where the event happens
 * would hold the loop for a tenth of a second and more, and with it everybody
 * else.  They queue here, and WAKES_MAX of them go in each turn, at its end.
 */
#include "fs/fuse-internal.h"

#define WAKES_MAX 64 /* in a turn: less than a millisecond */

static void on_watch(struct watch *watch)
{
	struct fuse_wake *w = container_of(watch, struct fuse_wake, watch);

	list_del(&w->link); /* woken before, and waiting again, and still in the queue */
	list_add_tail(&w->server->wakes, &w->link);
	ev_defer(w->server->loop, &w->server->wake_task);
}

static void run_some(struct ev_task *task)
{
	struct fuse_server *srv = container_of(task, struct fuse_server, wake_task);

	ev_expect(srv->loop, true);
	for (int i = 0; i < WAKES_MAX && !list_empty(&srv->wakes); i++) {
		struct fuse_wake *w = list_first(&srv->wakes, struct fuse_wake, link);

		list_del(&w->link);
		w->run(w);
	}
	if (!list_empty(&srv->wakes))
		ev_defer(srv->loop, task);
}

void fuse_wake_init(struct fuse_wake *w, struct fuse_server *srv, void (*run)(struct fuse_wake *))
{
	watch_init(&w->watch, on_watch);
	list_init(&w->link);
	w->server = srv;
	w->run = run;
}

void fuse_wake_on(struct fuse_wake *w, struct list *changes)
{
	watch_add(changes, &w->watch);
}

void fuse_wake_cancel(struct fuse_wake *w)
{
	watch_cancel(&w->watch);
	list_del(&w->link);
}

void fuse_wakes_init(struct fuse_server *srv)
{
	list_init(&srv->wakes);
	ev_task_init(&srv->wake_task, run_some);
}

void fuse_wakes_done(struct fuse_server *srv)
{
	ev_task_cancel(&srv->wake_task);
}
