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
		watch_add(p->io.wait, &p->watch);
}

static void unlink_parked(struct parked *p)
{
	watch_cancel(&p->watch);
	ev_timer_cancel(&p->timer);
	list_del(&p->link);
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

static void on_watch(struct watch *w)
{
	try_again(container_of(w, struct parked, watch));
}

static void on_time(struct ev_timer *t)
{
	struct parked *p = container_of(t, struct parked, timer);

	p->io.expired = true;
	try_again(p);
}

static void on_interrupt(fuse_req_t req, void *data)
{
	struct parked *p = data;

	(void)req;
	p->interrupted(p);
	unlink_parked(p);
	free_parked(p);
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
	watch_init(&p->watch, on_watch);
	ev_timer_init(&p->timer, on_time);
	list_add_tail(&srv->parked, &p->link);
	if (p->io.handle)
		(void)handle_ref(p->io.handle);
	if (p->io.deadline)
		ev_timer_set(srv->loop, &p->timer, p->io.deadline);
	wait_on(p);
	/* The INTERRUPT may have come before the request.  Not left to fuse_req_interrupt_func():
	 * that goes on to use the request, which the answer frees. */
	if (fuse_req_interrupted(p->req))
		on_interrupt(p->req, p);
	else
		fuse_req_interrupt_func(p->req, on_interrupt, p);
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
