/* disk_fetch.c - hutchd's side of what the writer reads for it
 *
 * A fetch does not go through the ring.  The descriptor to read from goes over the socket with it, so that a file
 * can be read whose name has gone, and there is nothing in the ring that it would have to be behind.
 *
 * At most DISK_FETCHES_MAX are with the writer at a time, and the others wait here: we do not wait for room in the
 * socket, nor may too many descriptors be on their way.  What a writer that died had not answered is asked of the
 * next one.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "sandbox/disk_link-internal.h"
#include "sandbox/disk_spool.h"
#include "sandbox/fds.h"

struct fetch {
	struct list link;       /* disk.fetches, the oldest first */
	struct disk_done *done; /* NULL: nobody wants it, and the writer is at it */
	uint64_t ticket, off;
	size_t len;
	int fd; /* borrowed while there is `done` */
	bool asked;
};

static void forget(struct disk *d, struct fetch *f)
{
	d->fetches_asked -= f->asked;
	list_del(&f->link);
	free(f);
}

static void tell(struct disk *d, struct fetch *f, int fd, const struct err *err)
{
	struct disk_done *done = f->done;

	forget(d, f);
	if (!done) {
		close_auto(&fd);
		return;
	}
	done->ticket = 0;
	done->fn(done, fd, err);
}

static int ask(struct disk *d, struct fetch *f)
{
	const struct disk_ask msg = {
		.asks = DISK_ASKS_FETCH, .ticket = f->ticket, .off = f->off, .limit = f->len
	};
	int r = d->src.live ? fds_send(d->src.fd, &msg, sizeof(msg), &f->fd, 1) : -EPIPE;

	if (r == 0) {
		f->asked = true;
		d->fetches_asked++;
	}
	return r;
}

/* Does one that was not taken stay here? Until the next writer comes, or one that is asked for is answered. */
static bool may_wait(const struct disk *d, int r)
{
	return r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN || d->fetches_asked > 0;
}

static struct fetch *next_waiting(struct disk *d)
{
	struct fetch *f;

	list_for_each (f, &d->fetches, link)
		if (!f->asked)
			return f;
	return NULL;
}

static void ask_waiting(struct disk *d)
{
	struct fetch *f;

	while (d->fetches_asked < DISK_FETCHES_MAX && (f = next_waiting(d))) {
		struct err err = { 0 };
		int r = ask(d, f);

		if (r < 0 && may_wait(d, r))
			return;
		if (r < 0) {
			(void)err_set(&err, -r, "ask the writer for bytes");
			tell(d, f, -1, &err);
		}
	}
}

int disk_fetch(struct disk *d, const struct disk_fetch *what, struct disk_done *done,
	       struct err *err)
{
	bool others = next_waiting(d);
	struct fetch *f = malloc(sizeof(*f));
	int r = 0;

	if (!f)
		return err_set(err, ENOMEM, "ask the writer for bytes");
	*f = (struct fetch){ .done = done,
			     .ticket = d->next_ticket++,
			     .off = what->off,
			     .len = what->len,
			     .fd = what->fd };
	list_add_tail(&d->fetches, &f->link);
	if (!others && d->fetches_asked < DISK_FETCHES_MAX)
		r = ask(d, f);
	if (r < 0 && !may_wait(d, r)) {
		forget(d, f);
		return err_set(err, -r, "ask the writer for bytes");
	}
	done->ticket = f->ticket;
	return 0;
}

static struct fetch *find(struct disk *d, uint64_t ticket)
{
	struct fetch *f;

	list_for_each (f, &d->fetches, link)
		if (f->ticket == ticket)
			return f;
	return NULL;
}

void disk_fetch_cancel(struct disk *d, uint64_t ticket)
{
	struct fetch *f = find(d, ticket);

	if (f && f->asked)
		f->done = NULL; /* its answer comes all the same */
	else if (f)
		forget(d, f);
}

void disk_fetch_said(struct disk *d, const struct disk_message *msg, int *fd)
{
	struct fetch *f = find(d, msg->ticket);

	if (!f)
		return;
	tell(d, f, TAKE_FD(*fd), msg->err.code ? &msg->err : NULL);
	ask_waiting(d);
}

void disk_fetch_again(struct disk *d)
{
	struct fetch *f, *next;

	list_for_each_safe (f, next, &d->fetches, link) {
		d->fetches_asked -= f->asked;
		f->asked = false;
		if (!f->done)
			forget(d, f);
	}
	ask_waiting(d);
}

void disk_fetch_done(struct disk *d)
{
	struct fetch *f, *next;

	list_for_each_safe (f, next, &d->fetches, link) {
		if (f->done)
			f->done->ticket = 0;
		forget(d, f);
	}
}
