#include "sandbox/blank.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/jobs.h"
#include "sandbox/sandbox-internal.h"

#define BLANKS_MAX 4

/* How long after one was taken the next is made, by how many there still are.  Who has made a sandbox
 * is about to run a command in it, and making one holds the loop up for a millisecond. */
static const int64_t refill_ns[BLANKS_MAX] = { 500000, 2000000, 20000000, 20000000 };

static void end_process(struct engine *eng, struct blank *b)
{
	if (!b->groups)
		return;
	zombies_kill(&eng->zombies, b->proc.pid);
	close_auto(&b->proc.pidfd);
	close_auto(&b->proc.control);
	cgroup_run_retire(TAKE_PTR(b->groups));
}

static void discard(struct engine *eng, struct blank *b)
{
	end_process(eng, b);
	engine_discard(eng, b->serial);
	idpool_free(&eng->ids, &b->ids);
}

/* A number and ids; its directory is the writer's to make. */
static int name(struct engine *eng, struct blank *b, struct err *err)
{
	int r = store_new_serial(&eng->store, &b->serial, err);

	return r < 0 ? r : idpool_take(&eng->ids, &b->ids, err);
}

/* Without one it is a blank all the same, and whoever takes it hears what is wrong. */
static void begin_process(struct engine *eng, struct blank *b, int layer)
{
	const struct run_launch what = { .serial = b->serial, .layer = layer, .ids = &b->ids };

	if (run_launch(eng, &what, &b->proc, &b->groups, NULL) == 0)
		cgroup_run_stock(b->groups);
}

/* Whoever needs one hears why there is none. */
static void on_ground(struct disk_done *done, int fd, const struct err *err)
{
	struct blanks *all = container_of(done, struct blanks, ground);
	struct blank *b = TAKE_PTR(all->making);

	if (err) {
		discard(all->engine, b);
		free(b);
		return;
	}
	begin_process(all->engine, b, fd);
	(void)close(fd);
	list_add_tail(&all->ready, &b->link);
	all->count++;
	blanks_fill(all);
}

static void on_refill(struct ev_timer *timer)
{
	struct blanks *all = container_of(timer, struct blanks, refill);
	struct engine *eng = all->engine;
	struct job_ground ground = { .make = true };
	struct blank *b;

	if (all->making || all->count >= BLANKS_MAX || disk_fault(eng->disk, NULL) < 0)
		return;
	b = calloc(1, sizeof(*b));
	if (!b || name(eng, b, NULL) < 0) {
		free(b);
		return;
	}
	ground.serial = b->serial;
	ground.ids = b->ids;
	if (job_ground_ask(eng->disk, &ground, &all->ground, NULL) < 0) {
		idpool_free(&eng->ids, &b->ids);
		free(b);
		return;
	}
	all->making = b;
}

void blanks_init(struct blanks *all, struct engine *eng)
{
	*all = (struct blanks){ .engine = eng, .ground.fn = on_ground };
	list_init(&all->ready);
	ev_timer_init(&all->refill, on_refill);
}

void blanks_fill(struct blanks *all)
{
	int64_t at;

	if (all->count >= BLANKS_MAX || all->making)
		return;
	at = ev_now() + refill_ns[all->count];
	/* Who takes one after the other must not put it off for ever. */
	if (all->count || list_empty(&all->refill.link) || at < all->refill.at)
		ev_timer_set(all->engine->loop, &all->refill, at);
}

static void take_first(struct blanks *all, struct blank *ret)
{
	struct blank *b = list_first(&all->ready, struct blank, link);

	*ret = *b;
	list_del(&b->link);
	free(b);
	all->count--;
}

void blanks_done(struct blanks *all)
{
	struct blank b;

	ev_timer_cancel(&all->refill);
	disk_cancel(all->engine->disk, &all->ground);
	if (all->making) {
		discard(all->engine, all->making);
		free(TAKE_PTR(all->making));
	}
	while (!list_empty(&all->ready)) {
		take_first(all, &b);
		discard(all->engine, &b);
	}
}

/* Has it come to its end while it waited? Then it cannot be used. */
static bool process_ended(const struct blank *b)
{
	struct pollfd p = { .fd = b->proc.pidfd, .events = POLLIN };

	return b->groups && poll(&p, 1, 0) != 0;
}

int blank_take(struct blanks *all, bool cold, struct blank *ret, struct err *err)
{
	struct engine *eng = all->engine;
	int r = 0;

	*ret = (struct blank){ 0 };
	while (!cold && !ret->serial && !list_empty(&all->ready)) {
		take_first(all, ret);
		if (process_ended(ret)) {
			discard(eng, ret);
			*ret = (struct blank){ 0 };
		}
	}
	if (!ret->serial)
		r = name(eng, ret, err);
	/* Before its record, which else would have no place. */
	if (r == 0 && !ret->groups)
		(void)job_ground_ask(eng->disk, &(struct job_ground){ ret->serial, true, ret->ids },
				     NULL, NULL);
	if (r == 0)
		blanks_fill(all);
	return r;
}

void blank_end(struct blanks *all, struct blank *b)
{
	end_process(all->engine, b);
}
