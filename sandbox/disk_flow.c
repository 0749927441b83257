/* disk_flow.c - hutchd's side of pumps: pipes that the writer empties (disk_pump.c) */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "sandbox/disk_link-internal.h"
#include "sandbox/disk_spool.h"
#include "sandbox/fds.h"

static int send_ask(const struct disk_pump *p, enum disk_asks what, unsigned flags, bool pipe)
{
	struct disk_ask msg = {
		.asks = what,
		.flags = flags,
		.ticket = p->ticket,
		.off = p->size,
		.limit = p->limit,
		.behind = p->behind,
	};

	if (!p->disk->src.live)
		return -EPIPE; /* the next writer is asked anew */
	memcpy(msg.name, p->name, sizeof(msg.name));
	return fds_send(p->disk->src.fd, &msg, sizeof(msg), &p->fd, pipe);
}

static int ask(const struct disk_pump *p, enum disk_asks what, unsigned flags)
{
	return send_ask(p, what, flags, what == DISK_ASKS_PUMP);
}

static bool runs(const struct disk_pump *p)
{
	return p->disk && !(p->flags & (DISK_PUMP_ENDED | DISK_PUMP_STOPPED));
}

static void forget(struct disk_pump *p)
{
	list_del(&p->link);
	p->disk->pumps_n--;
	p->disk = NULL;
}

int disk_pump_start(struct disk *d, struct disk_pump *p, const struct disk_pump_start *start,
		    struct err *err)
{
	int r;

	if (d->pumps_n >= DISK_PUMPS_MAX)
		return err_set(err, EBUSY, "hand a pipe to the writer");
	*p = (struct disk_pump){ .size = start->off,
				 .changed = p->changed,
				 .disk = d,
				 .ticket = d->next_ticket++,
				 .behind = d->head,
				 .limit = start->limit,
				 .drops = start->drops,
				 .fd = start->fd };
	(void)snprintf(p->name, sizeof(p->name), "%s", start->name);
	list_init(&p->link);
	list_add_tail(&d->pumps, &p->link);
	d->pumps_n++;
	disk_link_wake(d);
	r = ask(p, DISK_ASKS_PUMP, start->drops ? DISK_PUMP_DROPS : 0);
	if (r < 0 && r != -EPIPE) {
		forget(p);
		return err_set(err, -r, "hand a pipe to the writer");
	}
	return 0;
}

void disk_pump_limit(struct disk_pump *p, uint64_t limit)
{
	p->limit = limit;
	p->flags &= ~(unsigned)DISK_PUMP_LIMIT;
	if (runs(p))
		(void)ask(p, DISK_ASKS_LIMIT, 0);
}

void disk_pump_settle(struct disk_pump *p)
{
	p->flags &= ~(unsigned)DISK_PUMP_SETTLED;
	if (!runs(p))
		return;
	p->settling = true;
	(void)ask(p, DISK_ASKS_SETTLE, 0);
}

void disk_pump_stop(struct disk_pump *p)
{
	if (!runs(p))
		return;
	p->stopping = true;
	(void)ask(p, DISK_ASKS_STOP, 0);
}

void disk_pump_done(struct disk_pump *p)
{
	if (!p->disk)
		return;
	disk_pump_stop(p);
	forget(p);
}

void disk_flow_said(struct disk *d, const struct disk_message *msg)
{
	struct disk_pump *p;

	list_for_each (p, &d->pumps, link) {
		if (p->ticket != msg->ticket)
			continue;
		if (msg->off > p->size)
			p->size = msg->off;
		p->flags = (p->flags & DISK_PUMP_LOST) | msg->flags;
		if (msg->flags & DISK_PUMP_SETTLED)
			p->settling = false;
		if (msg->flags & (DISK_PUMP_ENDED | DISK_PUMP_STOPPED))
			forget(p);
		if (p->changed)
			p->changed(p);
		return;
	}
}

/* If too many descriptors are on their way it hears of it without its pipe, says how far the file goes, and
 * that it has stopped. */
static void resume(struct disk_pump *p)
{
	unsigned flags = DISK_ASKS_RESUME | (p->drops ? (unsigned)DISK_PUMP_DROPS : 0) |
			 (p->flags & DISK_PUMP_LOST);

	if (ask(p, DISK_ASKS_PUMP, flags) < 0)
		(void)send_ask(p, DISK_ASKS_PUMP, flags, false);
}

/* A new writer goes on where the file ends: what the last one has moved is in it. */
void disk_flow_again(struct disk *d)
{
	struct disk_pump *p;

	list_for_each (p, &d->pumps, link) {
		resume(p);
		if (p->settling)
			(void)ask(p, DISK_ASKS_SETTLE, 0);
		if (p->stopping)
			(void)ask(p, DISK_ASKS_STOP, 0);
	}
}
