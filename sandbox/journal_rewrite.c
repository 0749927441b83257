/* journal_rewrite.c - a journal that has grown long is written anew, in the same words
 *
 * Some nodes a turn, since there may be a hundred thousand, in the order of their serials.  `next` is
 * the first that was not written yet.  What is said meanwhile goes into the old one, which is
 * whole at any moment, and into the new one as well where that has the node already: behind what it
 * says of it.  What is said of a node that is still to come is left out, since it will be
 * written as it then is.  So the new one is for each node what it was at one moment and all that
 * was said from then on.  Nodes that are made meanwhile are there from their first line on.
 *
 * The new one takes the old one's place, by a rename in the writer, when the writer has all of it.
 * Until then a restart finds the old one, and what there is of the new one is thrown away.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sandbox/journal-internal.h"

#define PIECE_BYTES    ((size_t)64 * 1024)
#define NODES_PER_TURN 128

struct journal_fresh {
	struct sandbox *sandbox; /* borrowed: it is the sandbox's */
	struct exec *next;       /* borrowed; NULL: none is to come */
	uint32_t until;          /* serials from here on are of nodes that were made meanwhile */
	struct buf text;         /* what the writer has not got yet */
	uint64_t sent;           /* bytes that it has */
	struct ev_task piece;
	struct watch room;
};

static void drop_fresh(struct journal *j)
{
	struct journal_fresh *f = j->fresh;

	if (!f)
		return;
	ev_task_cancel(&f->piece);
	watch_cancel(&f->room);
	buf_done(&f->text);
	free(f);
	j->fresh = NULL;
}

static bool is_to_come(const struct journal_fresh *f, const struct exec *ex)
{
	return f->next && ex->serial >= f->next->serial && ex->serial < f->until;
}

void journal_rewrite_add(struct journal *j, const struct exec *ex, const struct buf *line)
{
	struct journal_fresh *f = j->fresh;

	if (f && !is_to_come(f, ex) && buf_add(&f->text, line->data, line->len) < 0)
		drop_fresh(j); /* the old one goes on */
}

static struct exec *behind(const struct journal_fresh *f, const struct exec *ex)
{
	struct exec *next = list_entry(ex->link.next, struct exec, link);

	return ex->link.next == &f->sandbox->execs || next->serial >= f->until ? NULL : next;
}

void journal_forget(const struct exec *ex)
{
	struct journal_fresh *f = ex->sandbox->journal->fresh;

	if (f && f->next == ex)
		f->next = behind(f, ex);
}

static int print_piece(struct journal_fresh *f)
{
	int r = 0;

	for (int n = 0; r == 0 && f->next && n < NODES_PER_TURN && f->text.len < PIECE_BYTES; n++) {
		arrival_keep_long(f->next); /* a line of the old one may be all there is of it */
		r = journal_print_node(f->next, &f->text);
		f->next = behind(f, f->next);
	}
	return r;
}

/* As far as there is room. True: all of it. */
static bool send_piece(struct journal_fresh *f, const char *name)
{
	size_t done = 0;

	while (done < f->text.len) {
		size_t left = f->text.len - done;
		const struct disk_op op = { .what = DISK_WRITE,
					    .flags = f->sent ? 0 : DISK_TRUNCATE,
					    .name = name,
					    .off = f->sent,
					    .data = f->text.data + done,
					    .len = left < PIECE_BYTES ? left : PIECE_BYTES,
					    .share = f->sandbox->uid };

		if (disk_put(f->sandbox->engine->disk, &op, NULL) < 0)
			break;
		f->sent += op.len;
		done += op.len;
	}
	buf_consume(&f->text, done);
	return f->text.len == 0;
}

static void finish(struct journal_fresh *f, const char *fresh)
{
	struct sandbox *sb = f->sandbox;
	char name[JOURNAL_NAME_LEN];
	const struct disk_op swap = {
		.what = DISK_RENAME, .flags = DISK_MUST, .name = fresh, .to = name
	};

	journal_name(sb, name);
	if (disk_put(sb->engine->disk, &swap, NULL) == 0)
		sb->journal->size = sb->journal->rewritten = f->sent;
	drop_fresh(sb->journal);
}

static void on_piece(struct ev_task *task)
{
	struct journal_fresh *f = container_of(task, struct journal_fresh, piece);
	char fresh[JOURNAL_FRESH_LEN];

	journal_fresh_name(f->sandbox, fresh);
	if (print_piece(f) < 0)
		drop_fresh(f->sandbox->journal);
	else if (!send_piece(f, fresh))
		watch_add(disk_room(f->sandbox->engine->disk), &f->room);
	else if (f->next)
		ev_defer(f->sandbox->engine->loop, task);
	else
		finish(f, fresh);
}

static void on_room(struct watch *w)
{
	struct journal_fresh *f = container_of(w, struct journal_fresh, room);

	ev_defer(f->sandbox->engine->loop, &f->piece);
}

/* Failing leaves the old one in use, which is only long. */
void journal_rewrite(struct sandbox *sb)
{
	struct journal *j = sb->journal;
	struct journal_fresh *f;

	if (j->fresh)
		return;
	j->rewritten = j->size; /* not at once again, whatever happens */
	f = calloc(1, sizeof(*f));
	if (!f)
		return;
	f->sandbox = sb;
	f->next = list_empty(&sb->execs) ? NULL : list_first(&sb->execs, struct exec, link);
	f->until = sb->next_exec_serial;
	ev_task_init(&f->piece, on_piece);
	watch_init(&f->room, on_room);
	j->fresh = f;
	if (journal_print_next(sb, &f->text) < 0)
		drop_fresh(j);
	else
		ev_defer(sb->engine->loop, &f->piece);
}

void journal_rewrite_when_long(struct sandbox *sb)
{
	if (!sb->removed && !sb->engine->closing &&
	    sb->journal->size > sb->journal->rewritten * 2 + JOURNAL_REWRITE_ABOVE)
		journal_rewrite(sb);
}

void journal_close(struct sandbox *sb)
{
	drop_fresh(sb->journal);
}
