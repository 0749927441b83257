#include "sandbox/blank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

#define BLANKS_MAX 4
#define REFILL_NS  (INT64_C(2) * 1000000)

struct blank {
	struct list link; /* blanks.ready */
	uint32_t serial;
	struct id_range ids;
};

/* Files that will be written to; empty ones are as good as none to a restart. */
static int make_files(int dir, struct err *err)
{
	static const char *const name[] = { "journal", "record.json.new" };

	for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
		auto_close int fd = openat(dir, name[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0)
			return err_set(err, errno, "make '%s'", name[i]);
	}
	return 0;
}

static int fill(struct engine *eng, const struct blank *b, struct err *err)
{
	auto_close int dir = store_sandbox_dir(&eng->store, b->serial, true, err);
	int r;

	if (dir < 0)
		return dir;
	if (mkdirat(dir, "spool", 0700) < 0)
		return err_set(err, errno, "make the directory for its streams");
	r = make_files(dir, err);
	return r < 0 ? r : layer_make(eng->image, dir, "layer", &b->ids, err);
}

static void discard(struct engine *eng, const struct blank *b)
{
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

int blank_take(struct blanks *all, uint32_t *ret_serial, struct id_range *ret_ids, struct err *err)
{
	struct engine *eng = all->engine;
	struct blank b = { 0 };
	int r = 0;

	if (list_empty(&all->ready))
		r = make(eng, &b, err);
	else
		take_first(all, &b);
	if (r == 0) {
		r = store_sandbox_dir(&eng->store, b.serial, false, err);
		if (r < 0)
			discard(eng, &b);
	}
	if (r < 0)
		return r;
	*ret_serial = b.serial;
	*ret_ids = b.ids;
	blanks_fill(all);
	return r;
}
