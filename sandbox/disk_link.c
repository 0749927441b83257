/* disk_link.c - those who want to know when an operation is done
 *
 * Each has a ticket, which goes into the record and comes back in the writer's message.  When a
 * writer dies between doing and saying, its successor finds the record done and says nothing: so
 * we look ourselves.  A job, whose answer may be a descriptor, is then put once more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "sandbox/disk_link-internal.h"

struct expected {
	struct list link; /* disk.expected */
	struct disk_done *done;
	uint64_t ticket, pos; /* pos: of its record, when `placed` */
	bool placed;
	enum disk_what what;
	unsigned job, share;
	char name[DISK_NAME_MAX];
	size_t len;
	char args[]; /* of what is answered */
};

/* Does it have an answer that nobody but the writer has? */
static bool answers(enum disk_what what)
{
	return what == DISK_JOB || what == DISK_OPEN;
}

int disk_link_expect(struct disk *d, const struct disk_op *op, uint64_t *ret)
{
	size_t len = answers(op->what) ? op->len : 0;
	struct expected *e = malloc(sizeof(*e) + len);

	if (!e)
		return -ENOMEM;
	*e = (struct expected){ .done = op->done,
				.ticket = d->next_ticket++,
				.what = op->what,
				.job = op->job,
				.share = op->share,
				.len = len };
	if (op->name)
		(void)snprintf(e->name, sizeof(e->name), "%s", op->name);
	if (len)
		memcpy(e->args, op->data, len);
	list_add_tail(&d->expected, &e->link);
	*ret = op->done->ticket = e->ticket;
	return 0;
}

static struct expected *find(struct disk *d, uint64_t ticket)
{
	struct expected *e;

	list_for_each (e, &d->expected, link)
		if (e->ticket == ticket)
			return e;
	return NULL;
}

void disk_link_placed(struct disk *d, uint64_t ticket, uint64_t pos)
{
	struct expected *e = ticket ? find(d, ticket) : NULL;

	if (e) {
		e->pos = pos;
		e->placed = true;
	}
}

static void forget(struct expected *e)
{
	list_del(&e->link);
	free(e);
}

void disk_cancel(struct disk *d, struct disk_done *done)
{
	uint64_t ticket = done->ticket;
	struct expected *e;

	done->ticket = 0;
	if (!ticket)
		return;
	e = find(d, ticket);
	if (e)
		forget(e);
	else
		disk_fetch_cancel(d, ticket);
}

static void tell(struct expected *e, int fd, const struct err *err)
{
	struct disk_done *done = e->done;

	forget(e);
	done->ticket = 0;
	done->fn(done, fd, err);
}

void disk_link_said(struct disk *d, const struct disk_message *msg, int *fd)
{
	struct expected *e = msg->says == DISK_SAYS_DONE ? find(d, msg->ticket) : NULL;

	if (e)
		tell(e, TAKE_FD(*fd), msg->err.code ? &msg->err : NULL);
	else
		disk_fetch_said(d, msg, fd);
}

static bool passed(const struct disk *d, const struct expected *e)
{
	return e->placed && (e->pos < atomic_load(&d->ring.shared->tail) ||
			     atomic_load(&disk_ring_at(&d->ring, e->pos)->done));
}

/* One of those that were there before `end`; a callback may put, and cancel any of them. */
static struct expected *next_passed(struct disk *d, uint64_t end)
{
	struct expected *e;

	list_for_each (e, &d->expected, link)
		if (e->ticket < end && passed(d, e))
			return e;
	return NULL;
}

static void ask_again(struct disk *d, struct expected *e)
{
	struct disk_op op = { .what = e->what,
			      .name = e->name,
			      .flags = DISK_MUST | DISK_URGENT,
			      .data = e->args,
			      .len = e->len,
			      .job = e->job,
			      .share = e->share,
			      .done = e->done };

	list_del(&e->link);
	if (disk_put(d, &op, NULL) == 0)
		free(e);
	else
		tell(e, -1, &(struct err){ ENOMEM, "no memory to ask the writer again" });
}

void disk_link_again(struct disk *d)
{
	uint64_t end = d->next_ticket;
	struct expected *e;

	while ((e = next_passed(d, end))) {
		if (answers(e->what))
			ask_again(d, e);
		else
			tell(e, -1, NULL);
	}
}

void disk_link_done(struct disk *d)
{
	while (!list_empty(&d->expected)) {
		struct expected *e = list_first(&d->expected, struct expected, link);

		e->done->ticket = 0;
		forget(e);
	}
}
