/* fuse_park.c - requests that wait
 *
 * A parked request holds no thread, only memory, which is counted for the user
 * who made it.  It is tried again when its watch fires, when its time has come,
 * and answered when its caller is interrupted: a request whose INTERRUPT is
 * ignored makes its caller unkillable.
 *
 * An answer frees the fuse_req_t, so whoever answers does that last.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/fuse-internal.h"
#include "sandbox/sandbox.h"

static void wait_on(struct parked *p)
{
	if (p->io.wait)
		fuse_wake_on(&p->wake, p->io.wait);
}

static void unlink_parked(struct parked *p)
{
	fuse_wake_cancel(&p->wake);
	ev_timer_cancel(&p->timer);
	list_del(&p->link);
	hmap_del(&p->server->parked_by_unique, &p->by_unique);
	users_drop_parked(&p->server->tree->users, p->uid, p->bytes);
}

/* Only after its request has been answered. */
static void free_parked(struct parked *p)
{
	if (p->io.drop && p->io.state)
		p->io.drop(&p->io);
	handle_unref(p->io.handle);
	sandbox_unref(p->sandbox);
	free(p->copy);
	free(p);
}

static void try_again(struct parked *p)
{
	p->io.wait = NULL;
	if (!p->again(p)) {
		wait_on(p);
		return;
	}
	unlink_parked(p);
	free_parked(p);
}

static void on_wake(struct fuse_wake *w)
{
	try_again(container_of(w, struct parked, wake));
}

static void on_time(struct ev_timer *t)
{
	struct parked *p = container_of(t, struct parked, timer);

	p->io.expired = true;
	try_again(p);
}

/* Not left to libfuse, which looks for the request among all that wait, one by one: when a program
 * with thousands of readers dies, that keeps everybody waiting.  The kernel interrupts only what we
 * have read, and one thread reads. */
void fuse_interrupt(struct fuse_server *srv, uint64_t unique)
{
	struct hmap_node *n;

	hmap_for_each_hash (n, &srv->parked_by_unique, hmap_hash_u64(unique)) {
		struct parked *p = container_of(n, struct parked, by_unique);

		if (p->unique != unique)
			continue;
		p->interrupted(p);
		unlink_parked(p);
		free_parked(p);
		return;
	}
}

bool fuse_park(const struct parked *like, struct err *err)
{
	struct fuse_server *srv = like->server;
	struct parked *p;

	if (users_add_parked(&srv->tree->users, like->uid, like->bytes, err) < 0)
		return false;
	p = malloc(sizeof(*p));
	if (!p) {
		users_drop_parked(&srv->tree->users, like->uid, like->bytes);
		(void)err_set(err, ENOMEM, "wait");
		return false;
	}
	*p = *like;
	fuse_wake_init(&p->wake, srv, on_wake);
	ev_timer_init(&p->timer, on_time);
	list_add_tail(&srv->parked, &p->link);
	p->unique = srv->unique; /* it is parked while it is handled */
	hmap_add(&srv->parked_by_unique, &p->by_unique, hmap_hash_u64(p->unique));
	if (p->io.handle)
		(void)handle_ref(p->io.handle);
	if (p->io.deadline)
		ev_timer_set(srv->loop, &p->timer, p->io.deadline);
	wait_on(p);
	ev_expect(srv->loop, false); /* from who waits nothing comes */
	return true;
}

void fuse_unpark_all(struct fuse_server *srv, int code)
{
	while (!list_empty(&srv->parked)) {
		struct parked *p = list_first(&srv->parked, struct parked, link);
		fuse_req_t req = p->req;

		unlink_parked(p);
		free_parked(p);
		(void)fuse_reply_err(req, code);
	}
}
