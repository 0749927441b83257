/* fuse_names.c - looking at the tree: names, attributes, listings */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fs/fuse-internal.h"

void fuse_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct node_ref dir, ref;
	int r = fuse_resolve(srv, parent, &dir);

	if (r == 0)
		r = tree_lookup(srv->tree, &dir, name, fuse_req_ctx(req)->uid, &ref);
	if (r < 0)
		(void)fuse_reply_err(req, -r); /* ESTALE: the kernel walks the path again */
	else
		fuse_answer_entry(srv, req, &ref);
}

void fuse_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	alias_forget(&fuse_server_of(req)->aliases, ino, lookups);
	fuse_reply_none(req);
}

void fuse_op_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *what)
{
	for (size_t i = 0; i < n; i++)
		alias_forget(&fuse_server_of(req)->aliases, what[i].ino, what[i].nlookup);
	fuse_reply_none(req);
}

/* A file that is open, of a node that is gone: fstat() names the inode only.  NULL: there is none.  Not a
 * directory, which is gone for whoever walks through it. */
static const struct handle *find_open(struct fuse_server *srv, fuse_ino_t ino)
{
	const struct handles *all = &srv->tree->handles;
	uint64_t target = alias_target(&srv->aliases, ino);

	for (uint32_t i = 0; target && i < all->n; i++)
		if (all->slot[i] && tree_ino(&all->slot[i]->ref) == target &&
		    !S_ISDIR(node_table[all->slot[i]->ref.id].mode))
			return all->slot[i];
	return NULL;
}

void fuse_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	const struct handle *h = fi ? handle_find(srv->tree, fi->fh) : NULL;
	struct caller who;
	struct node_ref ref;
	struct stat st;
	int r = 0;

	/* An open file is what it was when it was opened, also if its directory has gone. */
	if (!h)
		r = fuse_resolve(srv, ino, &ref);
	if (r == -ESTALE && (h = find_open(srv, ino)))
		r = 0;
	if (h)
		ref = h->ref;
	if (r < 0) {
		(void)fuse_reply_err(req, -r);
		return;
	}
	who = h ? handle_caller(h) : fuse_caller(req);
	tree_attr(srv->tree, &ref, &who, &st);
	(void)fuse_reply_attr(req, &st, fuse_seconds(fuse_attr_cache(&ref)));
}

void fuse_op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fuse_server *srv = fuse_server_of(req);
	char target[TREE_PATH_MAX];
	struct node_ref ref;
	int r = fuse_resolve(srv, ino, &ref);

	if (r == 0)
		r = tree_readlink(srv->tree, &ref, fuse_req_ctx(req)->uid, target, sizeof(target));
	if (r < 0)
		(void)fuse_reply_err(req, -r);
	else
		(void)fuse_reply_readlink(req, target);
}

void fuse_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct caller who = fuse_caller(req);
	struct handle *h = NULL;
	struct node_ref ref;
	int r = fuse_resolve(srv, ino, &ref);

	if (r == 0)
		r = tree_opendir(srv->tree, &ref, &who, &h, NULL);
	if (r < 0) {
		(void)fuse_reply_err(req, -r);
		return;
	}
	fi->fh = h ? handle_number(h) : 0;
	if (fuse_reply_open(req, fi) == -ENOENT && h)
		fuse_close_handle(h);
}

void fuse_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	const struct handle *h = fi->fh ? handle_find(srv->tree, fi->fh) : NULL;
	struct caller who = h ? handle_caller(h) : fuse_caller(req);
	uint64_t cookie = (uint64_t)off;
	struct tree_entry entry;
	struct node_ref ref;
	size_t len = 0;
	int r = fuse_resolve(srv, ino, &ref);

	if (r < 0) {
		(void)fuse_reply_err(req, -r);
		return;
	}
	size = size < FUSE_IO_MAX ? size : FUSE_IO_MAX;
	while (tree_next(srv->tree, &ref, &who, &cookie, &entry)) {
		struct stat st = { .st_ino = entry.ino, .st_mode = entry.mode };
		size_t need = fuse_add_direntry(req, srv->out + len, size - len, entry.name, &st,
						(off_t)cookie);

		if (need > size - len)
			break;
		len += need;
	}
	(void)fuse_reply_buf(req, srv->out, len);
}

void fuse_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fuse_server *srv = fuse_server_of(req);
	struct handle *h = fi->fh ? handle_find(srv->tree, fi->fh) : NULL;

	(void)ino;
	if (h)
		fuse_close_handle(h);
	(void)fuse_reply_err(req, 0);
}

/* Nothing is stored here that could run out; zero blocks is what /proc says too. */
void fuse_op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	const struct statvfs st = { .f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255 };

	(void)ino;
	(void)fuse_reply_statfs(req, &st);
}
