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

#define GRANT     ((uint64_t)64 << 20)
#define GRANT_MIN ((uint64_t)1 << 20)

struct stream_pump {
	struct disk_pump pump;
	struct stream *stream; /* borrowed: it ends this */
};

/* Of what there is only a part: others in the sandbox would stall for what is not used. */
static uint64_t piece_of(uint64_t room)
{
	uint64_t piece = room / 8 > GRANT_MIN ? room / 8 : GRANT_MIN;

	piece = piece < GRANT ? piece : GRANT;
	return piece < room ? piece : room;
}

/* More, when half of the last grant is used up. */
static void grant(struct stream *st)
{
	struct disk_pump *pump = &st->pump->pump;
	uint64_t room, left = st->granted > st->size ? st->granted - st->size : 0;

	if (st->exec->request.drops || st->truncated || left > GRANT / 2)
		return;
	room = piece_of(retain_room(st));
	if (!room || left > room / 2)
		return;
	st->granted += room;
	retain_count(st);
	disk_pump_limit(pump, st->granted);
}

void stream_pump_resume(struct stream *st)
{
	grant(st);
}

void stream_pump_taken_back(struct stream *st)
{
	stream_pump_done(st);
	st->bytes.size = st->size; /* what the ring has of it may have to be read from there */
	retain_count(st);
	if (st->settling) { /* of that nothing is known but to the pump */
		st->settling = false;
		stream_settle(st);
	}
	if (st->full)
		stream_pause(st);
	else
		stream_resume(st);
}

static void on_changed(struct disk_pump *pump)
{
	struct stream *st = container_of(pump, struct stream_pump, pump)->stream;
	struct exec *ex = exec_ref(st->exec);
	unsigned flags = pump->flags;
	bool more = pump->size > st->size && !st->truncated;

	if (more) {
		uint64_t had = st->size;

		st->size = pump->size; /* first: who is woken reads at once */
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &st->changed_at);
		arrival_add(ex, st->which, st->size - had);
	}
	if ((flags & DISK_PUMP_LOST) && !st->truncated) {
		st->truncated = true;
		st->granted = st->size;
		retain_count(st);
		retain_lost(st);
	}
	if (more && st->pump)
		grant(st);
	if (!(flags & DISK_PUMP_ENDED) && (flags & DISK_PUMP_LIMIT) && st->size >= st->granted)
		retain_stall(st);
	if (flags & DISK_PUMP_ENDED) {
		stream_end(st);
	} else if (more) {
		watch_fire_all(&st->changed);
	}
	if (flags & DISK_PUMP_STOPPED)
		stream_pump_taken_back(st);
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

	if (st->tty || st->truncated || !room || (start.drops && !retain_has_all(st)))
		return;
	p = calloc(1, sizeof(*p));
	if (!p)
		return; /* the loop goes on with it */
	p->stream = st;
	p->pump.changed = on_changed;
	/* What is over the limit of one that drops is lost: it is granted all, or has no pump. */
	if (!start.drops)
		room = piece_of(room);
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
