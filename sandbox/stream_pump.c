/* stream_pump.c - a busy stream: the writer has its pipe
 *
 * A command that floods costs the loop nothing: the writer splices from the pipe to
 * the spool, and says some hundred times a second how far it is.  How far it may go
 * is granted piece by piece, and what is granted counts as stored, so the limits hold
 * to the byte whoever moves them.  A stream stays busy until it ends, unless the
 * writer gives its pipe back.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

#define GRANT ((uint64_t)64 << 20)

struct stream_pump {
	struct disk_pump pump;
	struct stream *stream; /* borrowed: it ends this */
};

/* More, when half of the last grant is used up. */
static void grant(struct stream *st)
{
	struct disk_pump *pump = &st->pump->pump;
	uint64_t room;

	if (st->exec->request.drops || st->granted - st->size > GRANT / 2)
		return;
	room = retain_room(st);
	if (room > GRANT)
		room = GRANT;
	if (!room)
		return;
	st->granted += room;
	retain_count(st);
	disk_pump_limit(pump, st->granted);
}

void stream_pump_resume(struct stream *st)
{
	grant(st);
}

static void on_stopped(struct stream *st)
{
	stream_pump_done(st);
	disk_spool_done(stream_disk(st), &st->bytes);
	retain_count(st);
	if (st->settling)
		stream_settle_on(st);
	stream_resume(st);
}

static void on_changed(struct disk_pump *pump)
{
	struct stream *st = container_of(pump, struct stream_pump, pump)->stream;
	struct exec *ex = exec_ref(st->exec);
	unsigned flags = pump->flags;
	bool more = pump->size > st->size;

	if (more) {
		arrival_add(ex, st->which, pump->size - st->size);
		st->size = pump->size;
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &st->changed_at);
	}
	if (flags & DISK_PUMP_LOST)
		st->truncated = true;
	if (more)
		grant(st);
	if ((flags & DISK_PUMP_LIMIT) && st->size >= st->granted)
		retain_stall(st);
	if (flags & DISK_PUMP_ENDED) {
		retain_count(st);
		stream_end(st);
	} else if (more) {
		watch_fire_all(&st->changed);
	}
	if (flags & DISK_PUMP_STOPPED)
		on_stopped(st);
	else if ((flags & DISK_PUMP_SETTLED) && st->settling)
		stream_settled(st);
	exec_unref(ex);
}

void stream_pump_start(struct stream *st)
{
	uint64_t room = retain_room(st);
	char name[SPOOL_NAME_LEN];
	struct disk_pump_start start = {
		.name = name, .fd = st->src.fd, .off = st->size, .drops = st->exec->request.drops
	};
	struct stream_pump *p;

	if (st->tty || st->lost || !room)
		return;
	p = calloc(1, sizeof(*p));
	if (!p)
		return; /* the loop goes on with it */
	p->stream = st;
	p->pump.changed = on_changed;
	/* What is over the limit of one that drops is lost: it is granted all, or has no pump. */
	if (!start.drops && room > GRANT)
		room = GRANT;
	start.limit = st->size + room;
	stream_spool_name(st, name);
	if (disk_pump_start(stream_disk(st), &p->pump, &start, NULL) < 0) {
		free(p);
		return;
	}
	st->pump = p;
	st->granted = start.limit;
	retain_count(st);
	stream_pause(st);
}

void stream_pump_settle(struct stream *st)
{
	disk_pump_settle(&st->pump->pump);
}

void stream_pump_done(struct stream *st)
{
	struct stream_pump *p = TAKE_PTR(st->pump);

	if (!p)
		return;
	disk_pump_done(&p->pump);
	free(p);
}
