/* event_file.c - the two `events` files: what is kept, then the end of the file
 *
 * Offsets are the log's own and only grow, so `tail -f` follows.  A handle whose
 * first read lies below the oldest line that is kept is served from that line on,
 * and all its later offsets are moved by as much.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/tree.h"
#include "sandbox/events.h"
#include "sandbox/sandbox.h"

static int viewer_groups(const struct caller *who, gid_t *out, int cap)
{
	const struct event_viewer *v = who->arg;

	for (int i = 0; i < v->groups_n && i < cap; i++)
		out[i] = v->groups[i];
	return v->groups_n;
}

/* May this user enter that sandbox? */
static bool sees(const struct event_log *log, const struct sandbox *box)
{
	const struct caller who = { .uid = log->viewer.uid,
				    .gid = log->viewer.gid,
				    .groups = viewer_groups,
				    .arg = &log->viewer };
	const struct stat st = { .st_mode = S_IFDIR | box->mode,
				 .st_uid = box->uid,
				 .st_gid = box->gid };

	return access_allowed(&st, &who, ACCESS_EXEC);
}

static int log_of(struct event_log **ret, struct engine *eng, const struct caller *who,
		  struct err *err)
{
	struct event_viewer v = { .uid = who->uid };
	int r;

	if (who->uid != 0) { /* who sees everything anyway */
		v.gid = who->gid;
		v.groups_n = access_groups(who, &v.groups);
	}
	r = event_log_find(ret, eng, &v, sees, err);
	free(v.groups);
	return r;
}

static int events_open(struct handle *h, struct err *err)
{
	const struct caller who = handle_caller(h);
	int r;

	if (h->ref.sandbox) {
		h->events = event_log_of(h->ref.sandbox);
		return h->events ? 0 : err_set(err, ENOMEM, "open");
	}
	r = log_of(&h->events, h->tree->engine, &who, err);
	if (r == 0)
		event_log_open(h->events);
	return r;
}

static ssize_t events_read(struct node_io *io, struct err *err)
{
	struct handle *h = io->handle;
	size_t n;

	(void)err;
	if (!h->events_begun) {
		h->events_begun = true;
		if (io->off < h->events->start)
			h->events_shift = h->events->start - io->off;
	}
	n = event_log_read(h->events, io->bytes, io->len, io->off + h->events_shift);
	h->next_off = io->off + n;
	return (ssize_t)n;
}

static void events_release(struct handle *h)
{
	if (h->events && !h->ref.sandbox)
		event_log_close(h->events);
	h->events = NULL;
}

static uint32_t events_ready(struct handle *h, struct list **ret_wait)
{
	*ret_wait = &h->events->changed;
	return h->next_off + h->events_shift < h->events->end ? POLLIN | POLLRDNORM : 0;
}

const struct node_ops events_ops = {
	.open = events_open,
	.read = events_read,
	.release = events_release,
	.ready = events_ready,
};

void events_attr(struct tree *tree, const struct node_ref *ref, const struct caller *who,
		 struct stat *st)
{
	struct event_log *log = ref->sandbox ? ref->sandbox->events : NULL;

	if (!ref->sandbox && log_of(&log, tree->engine, who, NULL) < 0)
		return;
	if (!log)
		return;
	st->st_size = (off_t)log->end;
	st->st_blocks = (st->st_size + 511) / 512;
	st->st_mtim = st->st_ctim = log->changed_at;
}
