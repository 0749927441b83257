/* journal_rewrite.c - a journal that has grown long is written anew, in the same words */
#include <stdio.h>
#include <stdlib.h>

#include "sandbox/journal-internal.h"

#define REWRITE_ABOVE (4 * 1024 * 1024)
#define FRESH_PIECE   ((size_t)256 * 1024)

/* A rewritten one on its way; what is appended meanwhile is appended here as well. */
struct journal_fresh {
	struct sandbox *sandbox; /* borrowed: it is the sandbox's */
	struct buf text;
	size_t sent;
	struct watch room;
};

static void drop_fresh(struct journal *j)
{
	struct journal_fresh *f = j->fresh;

	if (!f)
		return;
	watch_cancel(&f->room);
	buf_done(&f->text);
	free(f);
	j->fresh = NULL;
}

void journal_rewrite_add(struct journal *j, const struct buf *line)
{
	if (j->fresh && buf_add(&j->fresh->text, line->data, line->len) < 0)
		drop_fresh(j); /* the old one goes on */
}

/* As far as there is room; then the new one takes the old one's place. */
static void rewrite_on(struct journal_fresh *f)
{
	struct sandbox *sb = f->sandbox;
	struct disk *disk = sb->engine->disk;
	char name[JOURNAL_NAME_LEN], fresh[JOURNAL_NAME_LEN + 4];
	const struct disk_op swap = {
		.what = DISK_RENAME, .flags = DISK_MUST, .name = fresh, .to = name
	};

	journal_name(sb, name);
	(void)snprintf(fresh, sizeof(fresh), "%s.new", name);
	while (f->sent < f->text.len) {
		size_t left = f->text.len - f->sent;
		const struct disk_op op = { .what = DISK_WRITE,
					    .flags = f->sent ? 0 : DISK_TRUNCATE,
					    .name = fresh,
					    .off = f->sent,
					    .data = f->text.data + f->sent,
					    .len = left < FRESH_PIECE ? left : FRESH_PIECE,
					    .share = sb->uid };

		if (disk_put(disk, &op, NULL) < 0) {
			watch_add(disk_room(disk), &f->room);
			return;
		}
		f->sent += op.len;
	}
	if (disk_put(disk, &swap, NULL) == 0)
		sb->journal->size = sb->journal->rewritten = f->text.len;
	drop_fresh(sb->journal);
}

static void on_room(struct watch *w)
{
	rewrite_on(container_of(w, struct journal_fresh, room));
}

/* Failing leaves the old one in use, which is only long. */
void journal_rewrite(struct sandbox *sb)
{
	struct journal *j = sb->journal;
	struct journal_fresh *f = calloc(1, sizeof(*f));
	struct exec *ex;

	list_for_each (ex, &sb->execs, link) /* a line of the old one may be all there is of it */
		arrival_keep_long(ex);
	j->rewritten = j->size; /* not at once again, whatever happens */
	if (!f)
		return;
	f->sandbox = sb;
	watch_init(&f->room, on_room);
	j->fresh = f;
	if (journal_print_all(sb, &f->text) < 0)
		drop_fresh(j);
	else
		rewrite_on(f);
}

void journal_rewrite_when_long(struct sandbox *sb)
{
	if (!sb->journal->fresh && sb->journal->size > sb->journal->rewritten * 2 + REWRITE_ABOVE)
		journal_rewrite(sb);
}

void journal_close(struct sandbox *sb)
{
	drop_fresh(sb->journal);
}
