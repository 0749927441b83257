/* fuse_inval.c - what the kernel was told of a sandbox is not so any more: it is told to forget it
 *
 * Files below a sandbox have its owner and group, which the kernel believes for a
 * while, or for ever.  So the chown or chmod is answered when all of them have been forgotten,
 * and has its effect at once; but not later than ANSWER_NS, and then the rest goes
 * on behind.
 *
 * The files of one that was removed are forgotten for whoever still holds its
 * directory: there is nothing to see any more.  Nor is its name believed then: on the
 * way through a directory whose attributes it has forgotten the kernel asks for them, is
 * told ESTALE, and walks the path again.
 *
 * Never from the handler of a request, since the kernel may hold a lock that a
 * notification needs: it is done in the loop's next task.  Node ids of their own
 * (NODE_FRESH) need nothing: nobody finds the same one twice.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/fuse-internal.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

#define NODES_PER_TURN 512 /* notifications */
#define ANSWER_NS      (TREE_WAIT_NS / 2)

struct inval {
	struct list link;        /* fuse_server.inval */
	struct sandbox *sandbox; /* a reference */
	uint32_t exec;           /* serial of the last command that was done */
	bool begun;              /* the sandbox's own files are done */
	int64_t answer;          /* ev_now() time */
	fuse_req_t req;          /* the chown that waits for it; NULL: none */
};

static void forget_nodes(struct fuse_server *srv, struct sandbox *box, struct exec *x)
{
	for (int i = NODE_ROOT + 1; i < NODE_COUNT; i++) {
		struct node_ref ref = { .id = (enum node_id)i, .sandbox = box, .exec = x };
		uint64_t ino = tree_ino(&ref);
		struct node_ref there;

		if (!box->removed && tree_resolve(srv->tree, ino, &there) < 0)
			continue;
		/* What the kernel does not know is no failure; there is no other to be expected. */
		(void)fuse_lowlevel_notify_inval_inode(srv->session, ino, -1, 0);
	}
}

/* True when nothing is left. */
static bool step(struct fuse_server *srv, struct inval *in, struct sandbox *box)
{
	int budget = NODES_PER_TURN / NODE_COUNT;
	struct exec *x;

	if (!in->begun)
		forget_nodes(srv, box, NULL);
	in->begun = true;
	while ((x = exec_next(box, in->exec))) {
		if (budget-- == 0)
			return false;
		in->exec = x->serial;
		forget_nodes(srv, box, x);
	}
	return true;
}

static void answer(struct fuse_server *srv, struct inval *in)
{
	struct node_ref ref = { .id = NODE_SANDBOX, .sandbox = in->sandbox };
	fuse_req_t req = TAKE_PTR(in->req);
	struct caller who;
	struct stat st;

	if (!req)
		return;
	if (in->sandbox->removed) {
		(void)fuse_reply_err(req, ESTALE);
		return;
	}
	who = fuse_caller(req);
	tree_attr(srv->tree, &ref, &who, &st);
	(void)fuse_reply_attr(req, &st, fuse_seconds(fuse_attr_cache(&ref)));
}

static void inval_free(struct inval *in)
{
	sandbox_unref(in->sandbox);
	free(in);
}

static void run(struct ev_task *task)
{
	struct fuse_server *srv = container_of(task, struct fuse_server, inval_task);
	struct inval *in = list_first(&srv->inval, struct inval, link);
	bool done = step(srv, in, in->sandbox);

	if (done || ev_now() >= in->answer)
		answer(srv, in);
	list_del(&in->link);
	if (done)
		inval_free(in);
	else
		list_add_tail(&srv->inval, &in->link); /* they take turns */
	if (!list_empty(&srv->inval))
		ev_defer(srv->loop, task);
}

/* What is left of earlier ones, which nobody waits for, is done by one that begins now. */
static void drop_answered(struct fuse_server *srv, const struct sandbox *box)
{
	struct inval *in, *next;

	list_for_each_safe (in, next, &srv->inval, link)
		if (in->sandbox == box && !in->req) {
			list_del(&in->link);
			inval_free(in);
		}
}

void fuse_inval_queue(struct fuse_server *srv, struct sandbox *box)
{
	struct inval *in = malloc(sizeof(*in));

	if (!in)
		return; /* the kernel then believes the old ones for a while; ours decide at open */
	drop_answered(srv, box);
	*in = (struct inval){ .sandbox = sandbox_ref(box), .answer = ev_now() + ANSWER_NS };
	list_add_tail(&srv->inval, &in->link);
	ev_defer(srv->loop, &srv->inval_task);
}

static void removed(void *arg, struct sandbox *box)
{
	fuse_inval_queue(arg, box);
}

static void owner_changed(struct tree *tree, struct sandbox *box)
{
	fuse_inval_queue(tree->server, box);
}

bool fuse_inval_answer(struct fuse_server *srv, fuse_req_t req, const struct sandbox *box)
{
	struct inval *in;

	list_for_each (in, &srv->inval, link)
		if (in->sandbox == box && !in->begun && !in->req) {
			in->req = req;
			return true;
		}
	return false;
}

void fuse_inval_init(struct fuse_server *srv)
{
	list_init(&srv->inval);
	ev_task_init(&srv->inval_task, run);
	engine_on_removed(srv->tree->engine, removed, srv);
	srv->tree->owner_changed = owner_changed;
	srv->tree->server = srv;
}

void fuse_inval_done(struct fuse_server *srv)
{
	engine_on_removed(srv->tree->engine, NULL, NULL);
	srv->tree->owner_changed = NULL;
	ev_task_cancel(&srv->inval_task);
	while (!list_empty(&srv->inval)) {
		struct inval *in = list_first(&srv->inval, struct inval, link);

		list_del(&in->link);
		answer(srv, in);
		inval_free(in);
	}
}
