/* fuse_change.c - mkdir, rmdir, chmod, and all that is refused
 *
 * MKDIR and RMDIR are answered within TREE_WAIT_NS, whatever they wait for: the
 * kernel holds the lock of the root while they do.
 */
#include <errno.h>

#include "fs/fuse-internal.h"
#include "sandbox/sandbox.h"

/* Resolves the directory of a change. False: answered. */
static bool change_dir(struct fuse_server *srv, fuse_req_t req, fuse_ino_t ino,
		       struct node_ref *ret)
{
	int r = fuse_resolve(srv, ino, ret);

	if (r < 0)
		(void)fuse_reply_err(req, -r);
	return r == 0;
}

static void answer_mkdir(struct parked *p)
{
	struct node_ref ref = { .id = NODE_SANDBOX, .sandbox = p->sandbox };

	/* It can be removed again while it is being made. */
	if (p->sandbox->removed)
		(void)fuse_reply_err(p->req, ENOENT);
	else
		fuse_answer_entry(p->server, p->req, &ref);
}

static bool mkdir_again(struct parked *p)
{
	struct node_ref root = { .id = NODE_ROOT };
	struct err err = { 0 };
	int r = tree_mkdir_result(p->sandbox, &err);

	if (r == -EAGAIN && !p->io.expired) {
		p->io.wait = &p->sandbox->changed;
		return false;
	}
	if (r < 0 && r != -EAGAIN)
		fuse_refuse(p->server, p->req, &root, p->sandbox->id, &err);
	else
		answer_mkdir(p);
	return true;
}

void fuse_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct caller who = fuse_caller(req);
	struct node_ref dir, ref;
	struct err err = { 0 };
	struct parked p = {
		.server = srv,
		.req = req,
		.uid = who.uid,
		.again = mkdir_again,
		.interrupted = answer_mkdir,
		.io.deadline = ev_now() + TREE_WAIT_NS,
	};

	(void)mode; /* a sandbox's is 0700 whatever was asked for; chmod is there for the rest */
	if (!change_dir(srv, req, parent, &dir))
		return;
	if (tree_mkdir(srv->tree, &dir, name, &who, &ref, &err) < 0) {
		fuse_refuse(srv, req, &dir, name, &err);
		return;
	}
	if (ref.exec) {
		fuse_answer_entry(srv, req, &ref);
		return;
	}
	p.sandbox = sandbox_ref(ref.sandbox);
	if (!mkdir_again(&p)) {
		if (fuse_park(&p, NULL))
			return; /* the reference went along */
		answer_mkdir(&p);
	}
	sandbox_unref(p.sandbox);
}

static void answer_rmdir(struct parked *p)
{
	(void)fuse_reply_err(p->req, 0);
}

static bool rmdir_again(struct parked *p)
{
	if (!sandbox_gone(p->sandbox) && !p->io.expired) {
		p->io.wait = &p->sandbox->changed;
		return false;
	}
	answer_rmdir(p);
	return true;
}

void fuse_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct caller who = fuse_caller(req);
	struct err err = { 0 };
	struct node_ref dir;
	struct parked p = {
		.server = srv,
		.req = req,
		.uid = who.uid,
		.again = rmdir_again,
		.interrupted = answer_rmdir,
		.io.deadline = ev_now() + TREE_WAIT_NS,
	};

	if (!change_dir(srv, req, parent, &dir))
		return;
	if (tree_rmdir(srv->tree, &dir, name, &who, &p.sandbox, &err) < 0) {
		fuse_refuse(srv, req, &dir, name, &err);
		return;
	}
	if (!p.sandbox) {
		answer_rmdir(&p);
		return;
	}
	if (!rmdir_again(&p)) {
		if (fuse_park(&p, NULL))
			return;
		answer_rmdir(&p);
	}
	sandbox_unref(p.sandbox);
}

static const struct {
	int fuse;
	unsigned tree;
} set_bits[] = {
	{ FUSE_SET_ATTR_MODE, TREE_SET_MODE },
	{ FUSE_SET_ATTR_UID, TREE_SET_UID },
	{ FUSE_SET_ATTR_GID, TREE_SET_GID },
};

void fuse_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *to, int set,
		     struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	const struct handle *h = fi ? handle_find(srv->tree, fi->fh) : NULL;
	struct caller who = fuse_caller(req);
	unsigned what = TREE_SET_OTHER;
	struct err err = { 0 };
	struct node_ref ref;
	struct stat st;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(set_bits); i++)
		if (set & set_bits[i].fuse)
			what |= set_bits[i].tree;
	r = h ? 0 : fuse_resolve(srv, ino, &ref);
	if (r < 0) {
		(void)fuse_reply_err(req, -r);
		return;
	}
	if (h)
		ref = h->ref;
	/* ftruncate of a handle that may write: its right was checked when it was opened. */
	if (!h || !handle_writes(h) || what != TREE_SET_OTHER)
		r = tree_setattr(srv->tree, &ref, &who, to, what, &err);
	if (r < 0) {
		fuse_refuse(srv, req, &ref, NULL, &err);
		return;
	}
	if (what & ~(unsigned)TREE_SET_OTHER && fuse_inval_answer(srv, req, ref.sandbox))
		return;
	tree_attr(srv->tree, &ref, &who, &st);
	(void)fuse_reply_attr(req, &st, fuse_seconds(fuse_attr_cache(&ref)));
}

static void refuse_change(fuse_req_t req, fuse_ino_t parent, const char *name,
			  enum tree_change change)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct err err = { 0 };
	struct node_ref dir;

	if (!change_dir(srv, req, parent, &dir))
		return;
	(void)tree_refuse_change(change, &err);
	fuse_refuse(srv, req, &dir, name, &err);
}

void fuse_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		    struct fuse_file_info *fi)
{
	(void)mode;
	(void)fi;
	refuse_change(req, parent, name, TREE_CREATE);
}

void fuse_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
	(void)mode;
	(void)dev;
	refuse_change(req, parent, name, TREE_MKNOD);
}

void fuse_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	refuse_change(req, parent, name, TREE_SYMLINK);
}

void fuse_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	(void)ino;
	refuse_change(req, parent, name, TREE_LINK);
}

void fuse_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	refuse_change(req, parent, name, TREE_UNLINK);
}

void fuse_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to,
		    const char *new_name, unsigned flags)
{
	(void)to;
	(void)new_name;
	(void)flags;
	refuse_change(req, parent, name, TREE_RENAME);
}
