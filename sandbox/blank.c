#include "sandbox/blank.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

#define BLANKS_MAX 4
#define REFILL_NS  (INT64_C(500) * 1000)

/* An empty one is as good as none to a restart. */
static int make_journal(int dir, struct err *err)
{
	auto_close int fd = openat(dir, "journal", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? err_set(err, errno, "make 'journal'") : 0;
}

static int fill(struct engine *eng, const struct blank *b, struct err *err)
{
	auto_close int dir = store_sandbox_dir(&eng->store, b->serial, true, err);
	int r;

	if (dir < 0)
		return dir;
	if (mkdirat(dir, "spool", 0700) < 0)
		return err_set(err, errno, "make the directory for its streams");
	r = make_journal(dir, err);
	return r < 0 ? r : layer_make(eng->image, dir, "layer", &b->ids, err);
}

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
	(void)store_discard(&eng->store, b->serial, NULL);
	idpool_free(&eng->ids, &b->ids);
	trash_empty(&eng->trash);
}

static int make(struct engine *eng, struct blank *b, struct err *err)
{
	int r = store_new_serial(&eng->store, &b->serial, err);

	if (r == 0)
		r = idpool_take(&eng->ids, &b->ids, err);
	if (r < 0)
		return r;
	r = fill(eng, b, err);
	if (r < 0)
		discard(eng, b);
	return r;
}

/* Without one it is a blank all the same, and whoever takes it hears what is wrong. */
static void begin_process(struct engine *eng, struct blank *b)
{
	const struct run_launch what = { .serial = b->serial, .ids = &b->ids };

	if (run_launch(eng, &what, &b->proc, &b->groups, NULL) == 0)
		cgroup_run_stock(b->groups);
}

static void on_refill(struct ev_timer *timer)
{
	struct blanks *all = container_of(timer, struct blanks, refill);
	struct blank *b = all->count < BLANKS_MAX ? calloc(1, sizeof(*b)) : NULL;

	if (!b)
		return;
	if (make(all->engine, b, NULL) < 0) { /* whoever needs one will hear why */
		free(b);
		return;
	}
	begin_process(all->engine, b);
	list_add_tail(&all->ready, &b->link);
	all->count++;
	blanks_fill(all);
}

void blanks_init(struct blanks *all, struct engine *eng)
{
	*all = (struct blanks){ .engine = eng };
	list_init(&all->ready);
	ev_timer_init(&all->refill, on_refill);
}

void blanks_fill(struct blanks *all)
{
	if (all->count < BLANKS_MAX && list_empty(&all->refill.link))
		ev_timer_set(all->engine->loop, &all->refill, ev_now() + REFILL_NS);
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
		r = make(eng, ret, err);
	if (r == 0)
		blanks_fill(all);
	return r;
}

void blank_end(struct blanks *all, struct blank *b)
{
	end_process(all->engine, b);
}
