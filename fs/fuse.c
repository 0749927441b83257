/* fuse.c - the session: its descriptor as a source of the loop, its beginning and its end
 *
 * The descriptor does not block.  A turn reads requests until there are none,
 * which saves going back to epoll for each, but no more than TURN_MAX: other
 * sources have to come to their turn too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/ctl_file.h"
#include "fs/fuse-internal.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

#define TURN_MAX       64
#define MAX_BACKGROUND 1024

struct fuse_server *fuse_server_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static int groups(const struct caller *who, gid_t *out, int cap)
{
	const struct fuse_req *creq = who->arg;
	fuse_req_t req;
	int n;

	memcpy(&req, &creq, sizeof(req)); /* libfuse's type is not const */
	n = fuse_req_getgroups(req, cap, out);
	return n < 0 ? 0 : n; /* of a process that cannot be seen: none */
}

struct caller fuse_caller(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct caller){
		.uid = ctx->uid, .gid = ctx->gid, .pid = ctx->pid, .groups = groups, .arg = req
	};
}

int fuse_resolve(struct fuse_server *srv, fuse_ino_t ino, struct node_ref *ret)
{
	uint64_t target = alias_target(&srv->aliases, ino);

	return target ? tree_resolve(srv->tree, target, ret) : -ESTALE;
}

double fuse_seconds(enum node_cache cache)
{
	static const double seconds[CACHE_COUNT] = {
		[CACHE_NONE] = 0,
		[CACHE_SHORT] = 1,
		[CACHE_STATIC] = 24 * 3600,
	};

	return seconds[cache];
}

enum node_cache fuse_attr_cache(const struct node_ref *ref)
{
	enum node_cache cache = node_table[ref->id].attrs;

	/* A stream that has ended is of the size that it is. */
	if (ref->id == NODE_EXEC_STDOUT && ref->exec->stream[EXEC_STDOUT].ended)
		cache = CACHE_SHORT;
	if (ref->id == NODE_EXEC_STDERR && ref->exec->stream[EXEC_STDERR].ended)
		cache = CACHE_SHORT;
	if (ref->id == NODE_EXEC_OUTPUT && arrival_is_whole(ref->exec, false))
		cache = CACHE_SHORT;
	if (ref->id == NODE_EXEC_FRAMES && arrival_is_whole(ref->exec, true))
		cache = CACHE_SHORT;
	return cache;
}

void fuse_answer_entry(struct fuse_server *srv, fuse_req_t req, const struct node_ref *ref)
{
	const struct node_def *def = &node_table[ref->id];
	const struct caller who = fuse_caller(req);
	struct fuse_entry_param e = {
		.ino = tree_ino(ref),
		.generation = srv->generation,
		.entry_timeout = fuse_seconds(def->names),
		.attr_timeout = fuse_seconds(fuse_attr_cache(ref)),
	};

	tree_attr(srv->tree, ref, &who, &e.attr);
	if (def->flags & NODE_FRESH)
		e.ino = alias_new(&srv->aliases, e.ino);
	/* ENOENT: the request was interrupted, and the kernel will not count this lookup. */
	if (fuse_reply_entry(req, &e) == -ENOENT)
		alias_forget(&srv->aliases, e.ino, 1);
}

void fuse_refuse(struct fuse_server *srv, fuse_req_t req, const struct node_ref *ref,
		 const char *name, const struct err *err)
{
	tree_refuse(srv->tree, fuse_req_ctx(req)->uid, ref, name, err);
	(void)fuse_reply_err(req, err->code);
}

/* The loop may hold on to a source until its turn is over, so the memory goes with the later of the
 * two: the source's release, and fuse_server_free(). */
static void on_release(struct ev_source *src)
{
	struct fuse_server *srv = container_of(src, struct fuse_server, src);

	srv->in_loop = false;
	if (srv->done)
		free(srv);
}

static void session_ended(struct fuse_server *srv)
{
	srv->ended = true;
	ev_del(srv->loop, &srv->src);
	if (srv->on_ended)
		srv->on_ended(srv->arg);
}

static void handle_request(struct fuse_server *srv)
{
	const struct fuse_in_header *head = srv->in.mem;
	const struct fuse_interrupt_in *what = (const void *)(head + 1);

	if (head->opcode == FUSE_INTERRUPT) {
		fuse_interrupt(srv, what->unique);
		return;
	}
	srv->unique = head->unique;
	ev_expect(srv->loop, true);
	fuse_session_process_buf(srv->session, &srv->in);
}

static void on_request(struct ev_source *src, uint32_t events)
{
	struct fuse_server *srv = container_of(src, struct fuse_server, src);

	(void)events;
	for (int i = 0; i < TURN_MAX && src->live; i++) {
		int n = fuse_session_receive_buf(srv->session, &srv->in);

		if (n == -EAGAIN)
			return;
		if (n == -EINTR)
			continue;
		if (n > 0) {
			handle_request(srv);
		}
		if (n <= 0 || fuse_session_exited(srv->session)) {
			session_ended(srv);
			return;
		}
	}
}

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	conn->want &=
		~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
			    FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_DIO |
			    FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_EXPORT_SUPPORT);
	conn->want |= conn->capable & (FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS);
	fuse_send_init(userdata, conn);
	conn->max_background = MAX_BACKGROUND;
	conn->congestion_threshold = MAX_BACKGROUND * 3 / 4;
}

/* Extended attributes, locks, ioctls and the rest are left out: ENOSYS, which the kernel asks for
 * once and takes for "not supported" from then on. */
const struct fuse_lowlevel_ops fuse_server_ops = {
	.init = on_init,
	.lookup = fuse_op_lookup,
	.forget = fuse_op_forget,
	.forget_multi = fuse_op_forget_multi,
	.getattr = fuse_op_getattr,
	.setattr = fuse_op_setattr,
	.readlink = fuse_op_readlink,
	.mkdir = fuse_op_mkdir,
	.rmdir = fuse_op_rmdir,
	.create = fuse_op_create,
	.mknod = fuse_op_mknod,
	.symlink = fuse_op_symlink,
	.link = fuse_op_link,
	.unlink = fuse_op_unlink,
	.rename = fuse_op_rename,
	.open = fuse_op_open,
	.read = fuse_op_read,
	.write = fuse_op_write,
	.flush = fuse_op_flush,
	.release = fuse_op_release,
	.poll = fuse_op_poll,
	.opendir = fuse_op_opendir,
	.readdir = fuse_op_readdir,
	.releasedir = fuse_op_releasedir,
	.statfs = fuse_op_statfs,
};

/* Kept for ever and told to clients: what can be told of a secret without telling it. */
static uint64_t generation_of(uint64_t secret)
{
	secret ^= secret >> 33;
	secret *= UINT64_C(0xff51afd7ed558ccd);
	secret ^= secret >> 33;
	secret *= UINT64_C(0xc4ceb9fe1a85ec53);
	return (secret >> 33) | 1;
}

int fuse_server_new(struct fuse_server **ret, const struct fuse_server_config *config,
		    struct err *err)
{
	struct fuse_server *srv = calloc(1, sizeof(*srv));
	int r;

	if (!srv)
		return err_set(err, ENOMEM, "mount");
	srv->tree = config->tree;
	srv->loop = config->tree->loop;
	srv->mountpoint = config->mountpoint;
	srv->on_ended = config->ended;
	srv->arg = config->arg;
	srv->generation = generation_of(engine_secret(config->tree->engine));
	aliases_init(&srv->aliases);
	list_init(&srv->parked);
	hmap_init(&srv->parked_by_unique);
	fuse_wakes_init(srv);
	fuse_inval_init(srv);
	srv->out = malloc(FUSE_IO_MAX);
	r = srv->out ? fuse_mount_session(srv, config->allow_other, err)
		     : err_set(err, ENOMEM, "mount");
	if (r == 0) {
		srv->src = (struct ev_source){ .fd = fuse_session_fd(srv->session),
					       .ready = on_request,
					       .release = on_release };
		r = ev_add(srv->loop, &srv->src, EPOLLIN);
		srv->in_loop = r == 0;
		if (r < 0)
			r = err_set(err, -r, "watch the mount");
	}
	if (r < 0) {
		fuse_server_free(srv);
		return r;
	}
	*ret = srv;
	return 0;
}

static void close_all_handles(struct tree *tree)
{
	for (uint32_t i = 0; i < tree->handles.n; i++)
		if (tree->handles.slot[i])
			fuse_close_handle(tree->handles.slot[i]);
}

void fuse_server_free(struct fuse_server *srv)
{
	if (!srv)
		return;
	srv->tree->closing = true;
	ev_del(srv->loop, &srv->src);
	fuse_unmount_session(srv);
	fuse_inval_done(srv);
	fuse_unpark_all(srv, ENODEV);
	close_all_handles(srv->tree);
	fuse_wakes_done(srv);
	hmap_done(&srv->parked_by_unique);
	ctl_done(srv->tree);
	if (srv->session)
		fuse_session_destroy(srv->session);
	aliases_done(&srv->aliases);
	free(srv->in.mem);
	free(srv->out);
	srv->done = true;
	if (!srv->in_loop)
		free(srv);
}
