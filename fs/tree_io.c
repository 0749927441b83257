/* tree_io.c - opening, reading and writing nodes: what does not depend on which */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

#define VALUE_MAX 4095 /* bytes of one value */

static int check_open(struct tree *tree, const struct node_ref *ref, const struct caller *who,
		      int flags, struct err *err)
{
	unsigned want = access_of_flags(flags);
	struct stat st;

	tree_attr(tree, ref, who, &st);
	/* What nobody may do by the table is refused to root too: a scanner that runs as root
	 * must not be able to start or to end anything. */
	if (want & ACCESS_READ && !(st.st_mode & 0444))
		return err_say(err, EACCES, "this file is written to, not read");
	if (want & ACCESS_WRITE && !(st.st_mode & 0222))
		return err_say(err, EACCES, "this file is read, not written to");
	if (want & ACCESS_WRITE && who->uid == ACCESS_NOBODY)
		return err_say(err, EPERM,
			       "user %d is what unmapped users look like, and nobody's identity",
			       ACCESS_NOBODY);
	if (!tree_may_enter(tree, ref, who) || !access_allowed(&st, who, want))
		return err_say(err, EACCES, "user %u has no right to it", (unsigned)who->uid);
	return want & ACCESS_WRITE ? tree_check_change(ref, err) : 0;
}

static int fill(struct handle *h, struct err *err)
{
	const struct node_def *def = &node_table[h->ref.id];
	int r = 0;

	if (def->show && handle_reads(h)) {
		r = def->show(h->tree, &h->ref, h->uid, &h->text);
		if (r < 0)
			return err_set(err, -r, "render '%s'", def->shown);
		h->rendered = true;
		if (!(def->flags & NODE_RESERVE))
			r = handle_keeps(h, h->text.len, err);
		if (r < 0)
			return r;
	}
	if (def->ops && def->ops->open)
		r = def->ops->open(h, err);
	return r;
}

static int open_handle(struct tree *tree, const struct node_ref *ref, const struct caller *who,
		       struct handle **ret, struct err *err)
{
	bool reserve = node_table[ref->id].flags & NODE_RESERVE;
	struct handle *h;
	int r;

	r = handle_new(tree, who->uid, reserve, &h, err);
	if (r < 0)
		return r;
	h->gid = who->gid;
	if (node_table[ref->id].flags & NODE_PER_USER && who->uid != 0)
		h->groups_n = access_groups(who, &h->groups);
	h->ref.id = ref->id;
	h->ref.sandbox = ref->sandbox ? sandbox_ref(ref->sandbox) : NULL;
	h->ref.exec = ref->exec ? exec_ref(ref->exec) : NULL;
	*ret = h;
	return 0;
}

int tree_open(struct tree *tree, const struct node_ref *ref, const struct caller *who, int flags,
	      struct handle **ret, struct err *err)
{
	struct handle *h;
	int r;

	if (S_ISDIR(node_table[ref->id].mode))
		return err_set(err, EISDIR, "open");
	if (S_ISLNK(node_table[ref->id].mode))
		return err_set(err, ELOOP, "open");
	r = check_open(tree, ref, who, flags, err);
	if (r < 0)
		return r;
	r = open_handle(tree, ref, who, &h, err);
	if (r < 0)
		return r;
	h->flags = flags;
	r = fill(h, err);
	if (r < 0) {
		handle_close(h); /* def is not set: nothing of the node's is undone */
		return r;
	}
	h->def = &node_table[ref->id];
	*ret = h;
	return 0;
}

int tree_opendir(struct tree *tree, const struct node_ref *ref, const struct caller *who,
		 struct handle **ret, struct err *err)
{
	struct stat st;

	if (!S_ISDIR(node_table[ref->id].mode))
		return err_set(err, ENOTDIR, "open");
	tree_attr(tree, ref, who, &st);
	if (!tree_may_enter(tree, ref, who) || !access_allowed(&st, who, ACCESS_READ))
		return err_say(err, EACCES, "user %u has no right to it", (unsigned)who->uid);
	*ret = NULL;
	if (!(node_table[ref->id].flags & NODE_PER_USER))
		return 0;
	return open_handle(tree, ref, who, ret, err);
}

static ssize_t read_text(struct node_io *io)
{
	const struct buf *text = &io->handle->text;
	size_t n;

	if (io->off >= text->len)
		return 0;
	n = text->len - io->off;
	n = n < io->len ? n : io->len;
	memcpy(io->bytes, text->data + io->off, n);
	return (ssize_t)n;
}

ssize_t tree_read(struct node_io *io, struct err *err)
{
	const struct node_ops *ops = io->handle->def ? io->handle->def->ops : NULL;

	if (!handle_reads(io->handle))
		return -EBADF;
	if (io->handle->rendered)
		return read_text(io);
	return ops && ops->read ? ops->read(io, err) : -EBADF;
}

static ssize_t store_value(struct node_io *io, struct err *err)
{
	const struct handle *h = io->handle;
	char text[VALUE_MAX + 1];
	size_t len = io->len;
	int r;

	while (len && strchr(" \t\r\n", io->bytes[len - 1]))
		len--;
	if (len > VALUE_MAX)
		return err_say(err, E2BIG, "a value has at most %d bytes", VALUE_MAX);
	if (memchr(io->bytes, '\0', len))
		return err_say(err, EINVAL, "a NUL is in no value");
	memcpy(text, io->bytes, len);
	text[len] = '\0';
	r = h->def->store(h->tree, &h->ref, text, err);
	return r < 0 ? r : (ssize_t)io->len;
}

ssize_t tree_write(struct node_io *io, struct err *err)
{
	const struct node_def *def = io->handle->def;
	int r;

	if (!handle_writes(io->handle) || !def || !(def->store || (def->ops && def->ops->write)))
		return err_set(err, EBADF, "write");
	r = tree_check_change(&io->handle->ref, err);
	if (r < 0)
		return r;
	return def->store ? store_value(io, err) : def->ops->write(io, err);
}

int tree_flush(struct node_io *io, struct err *err)
{
	const struct node_ops *ops = io->handle->def ? io->handle->def->ops : NULL;

	return ops && ops->flush ? ops->flush(io, err) : 0;
}

uint32_t tree_ready(struct handle *h, struct list **ret_wait)
{
	*ret_wait = NULL;
	if (h->def && h->def->ops && h->def->ops->ready)
		return h->def->ops->ready(h, ret_wait);
	return (handle_reads(h) ? POLLIN | POLLRDNORM : 0) |
	       (handle_writes(h) ? POLLOUT | POLLWRNORM : 0);
}
