/* ev.c - see ev.h
 *
 * Theory of operation.  Three queues feed a turn: epoll's ready list, the timers
 * and the tasks; a fourth, of idle tasks, one that those left empty.  Each is moved
 * aside before its callbacks run, so that what a callback adds waits for the next turn
 * and nobody can keep a turn from ending; what a callback cancels is unlinked from
 * wherever it is.
 *
 * Timers are a sorted list, not a heap: nearly all deadlines here are "now plus a
 * constant", so inserting from the tail finds its place in a step or two.
 *
 * A request that comes while an idle task runs waits for it, so what it does is small,
 * and between two of them the loop looks again.
 *
 * Nothing here allocates after ev_init().  One loop must not be turned from
 * inside one of its own callbacks.
 */
#include "base/ev.h"

#include <errno.h>
#include <time.h>

#include "base/auto.h"

#define BATCH     64
#define NS_PER_MS 1000000
#define NS_PER_S  1000000000

int ev_init(struct ev_loop *loop, struct err *err)
{
	*loop = (struct ev_loop){ .epfd = -1 };
	list_init(&loop->timers);
	list_init(&loop->tasks);
	list_init(&loop->idle);
	loop->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epfd < 0)
		return err_set(err, errno, "create the event loop's epoll descriptor");
	return 0;
}

/* The last element of the list of the dead points to itself, so that next_dead
 * tells whether a source is in it: a source may be deleted, added again and
 * deleted once more within one turn. */
static void bury(struct ev_loop *loop)
{
	while (loop->dead) {
		struct ev_source *src = loop->dead;

		loop->dead = src->next_dead == src ? NULL : src->next_dead;
		src->next_dead = NULL;
		if (!src->live && src->release)
			src->release(src);
	}
}

void ev_done(struct ev_loop *loop)
{
	if (!loop)
		return;
	bury(loop);
	close_auto(&loop->epfd);
}

int ev_add(struct ev_loop *loop, struct ev_source *src, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = src };

	if (epoll_ctl(loop->epfd, EPOLL_CTL_ADD, src->fd, &e) < 0)
		return -errno;
	src->live = true;
	return 0;
}

int ev_mod(struct ev_loop *loop, struct ev_source *src, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = src };

	if (!src->live)
		return -ENOENT;
	return epoll_ctl(loop->epfd, EPOLL_CTL_MOD, src->fd, &e) < 0 ? -errno : 0;
}

void ev_del(struct ev_loop *loop, struct ev_source *src)
{
	if (!src->live)
		return;
	src->live = false;
	/* Explicitly, because close() alone does not take a descriptor out of an epoll
	 * set while a copy of it is open in another process. */
	(void)epoll_ctl(loop->epfd, EPOLL_CTL_DEL, src->fd, NULL);
	/* What the batch still holds is stale, also if the source is added again. */
	for (int i = 0; i < loop->batch_left; i++)
		if (loop->batch[i].data.ptr == src)
			loop->batch[i].data.ptr = NULL;
	if (!src->next_dead) {
		src->next_dead = loop->dead ? loop->dead : src;
		loop->dead = src;
	}
}

int64_t ev_now(void)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void ev_timer_init(struct ev_timer *timer, void (*fire)(struct ev_timer *))
{
	*timer = (struct ev_timer){ .fire = fire };
	list_init(&timer->link);
}

void ev_timer_set(struct ev_loop *loop, struct ev_timer *timer, int64_t at)
{
	struct list *after;

	list_del(&timer->link);
	timer->at = at;
	for (after = loop->timers.prev; after != &loop->timers; after = after->prev)
		if (list_entry(after, struct ev_timer, link)->at <= at)
			break;
	list_add_tail(after->next, &timer->link);
}

void ev_timer_cancel(struct ev_timer *timer)
{
	list_del(&timer->link);
}

void ev_task_init(struct ev_task *task, void (*run)(struct ev_task *))
{
	task->run = run;
	list_init(&task->link);
}

void ev_defer(struct ev_loop *loop, struct ev_task *task)
{
	if (list_empty(&task->link))
		list_add_tail(&loop->tasks, &task->link);
}

void ev_defer_idle(struct ev_loop *loop, struct ev_task *task)
{
	if (list_empty(&task->link))
		list_add_tail(&loop->idle, &task->link);
}

void ev_task_cancel(struct ev_task *task)
{
	list_del(&task->link);
}

void ev_expect(struct ev_loop *loop, bool more)
{
	loop->expects = more;
}

/* A pause is from the end of one turn to what comes next: a turn that takes long is none. */
static void note_busy(struct ev_loop *loop, int64_t came)
{
	if (came - loop->busy_at >= EV_EXPECT_NS)
		loop->paused_at = came;
	loop->busy_at = ev_now();
}

/* How long nothing may come before an idle task runs. */
static int64_t quiet_ns(const struct ev_loop *loop)
{
	if (!loop->expects)
		return 0;
	return loop->busy_at - loop->paused_at < EV_EXPECT_NS ? EV_EXPECT_NS : EV_HURRY_NS;
}

/* Nanoseconds; negative: as long as it takes. */
static int64_t wait_ns(const struct ev_loop *loop, int timeout_ms)
{
	int64_t wait = timeout_ms < 0 ? -1 : (int64_t)timeout_ms * NS_PER_MS;

	if (!list_empty(&loop->tasks) || loop->dead)
		return 0;
	if (!list_empty(&loop->timers)) {
		int64_t at = list_first(&loop->timers, struct ev_timer, link)->at, now = ev_now();
		int64_t left = at > now ? at - now : 0;

		if (wait < 0 || left < wait)
			wait = left;
	}
	if (!list_empty(&loop->idle)) {
		int64_t quiet = quiet_ns(loop);

		if (wait < 0 || quiet < wait)
			wait = quiet;
	}
	return wait;
}

/* Returns how many there were, or a negative errno; *ret_came is when they came, or none. */
static int run_sources(struct ev_loop *loop, int64_t wait, int64_t *ret_came)
{
	const struct timespec timeout = { .tv_sec = wait / NS_PER_S, .tv_nsec = wait % NS_PER_S };
	struct epoll_event batch[BATCH];
	int n = epoll_pwait2(loop->epfd, batch, BATCH, wait < 0 ? NULL : &timeout, NULL);

	*ret_came = ev_now();
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		struct ev_source *src = batch[i].data.ptr;

		loop->batch = batch + i + 1;
		loop->batch_left = n - i - 1;
		if (src)
			src->ready(src, batch[i].events);
	}
	loop->batch = NULL;
	loop->batch_left = 0;
	return n;
}

/* Returns whether one was due. */
static bool run_timers(struct ev_loop *loop)
{
	struct list due = LIST_INIT(due);
	bool any;
	int64_t now;

	if (list_empty(&loop->timers))
		return false;
	now = ev_now();
	while (!list_empty(&loop->timers)) {
		struct ev_timer *timer = list_first(&loop->timers, struct ev_timer, link);

		if (timer->at > now)
			break;
		list_del(&timer->link);
		list_add_tail(&due, &timer->link);
	}
	any = !list_empty(&due);
	while (!list_empty(&due)) {
		struct ev_timer *timer = list_first(&due, struct ev_timer, link);

		list_del(&timer->link);
		timer->fire(timer);
	}
	return any;
}

static void run_task(struct list *tasks)
{
	struct ev_task *task = list_first(tasks, struct ev_task, link);

	list_del(&task->link);
	task->run(task);
}

/* Returns whether there was one. */
static bool run_tasks(struct ev_loop *loop)
{
	struct list tasks = LIST_INIT(tasks);
	bool any = !list_empty(&loop->tasks);

	list_splice_tail(&tasks, &loop->tasks);
	while (!list_empty(&tasks))
		run_task(&tasks);
	return any;
}

int ev_turn(struct ev_loop *loop, int timeout_ms)
{
	int64_t came;
	int r = run_sources(loop, wait_ns(loop, timeout_ms), &came);
	bool busy = r > 0;

	if (r < 0)
		return r;
	busy |= run_timers(loop);
	busy |= run_tasks(loop);
	if (busy)
		note_busy(loop, came);
	if (!busy && !loop->dead) {
		loop->expects = false;
		if (!list_empty(&loop->idle))
			run_task(&loop->idle);
	}
	bury(loop);
	return 0;
}

int ev_run(struct ev_loop *loop)
{
	while (!loop->stop) {
		int r = ev_turn(loop, -1);

		if (r < 0)
			return r;
	}
	return 0;
}
