/* arrival.c - the index of the order in which two streams were drained
 *
 * A piece is what came of one stream before something came of the other, or before
 * somebody looked.  Fixed pieces are a list that only grows.  Behind it lies what is
 * still open: some bytes of stdout, then some of stderr, either may be none.  The
 * rule of the open part is also that of a restart: bytes that no piece accounts for
 * are stdout's first, then stderr's, up to the result and then behind it.  So most
 * commands, which write to one stream or to one after the other, have no list at all.
 *
 * A piece in the list is a number, length << 1 | stream, in base 128, low digits
 * first, bit 7 set in all but the last.  The list is cut into blocks of 4096 bytes,
 * each of which begins with the offsets of its first piece and is filled up with
 * zeros, so that one finds a place in a long one by looking at a few blocks.  The
 * last block is in memory, at most; a file has them all, once there is more than a
 * line of the journal should hold: arrival_index.c.
 *
 * What a restart would have to guess differently is kept, in the journal or in the
 * file, before it is served: see arrival_read.c.  What the writer has in its memory is
 * kept.  What a stream has lost keeps its place if somebody may have seen it, and cannot be read
 * there.  A reader waits while there is no room for that, but a disk that takes no more
 * makes it served all the same.  A block that is full and finds no room waits in the
 * open part, where more than one piece of a stream become one: unseen, since reading
 * it waits, or fails.
 */
#include "sandbox/arrival-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/frame.h"

#define SHORT_MAX 24 /* bytes of a list that goes into the journal */
#define PIECE_MAX 10 /* bytes of a piece */

static uint64_t sum(const uint64_t n[2])
{
	return n[EXEC_STDOUT] + n[EXEC_STDERR];
}

void arrival_init(struct arrival *a)
{
	*a = (struct arrival){ .fd = -1 };
	arrival_index_init(a);
	list_init(&a->changed);
}

void arrival_done(struct arrival *a)
{
	arrival_index_done(a);
	buf_done(&a->pieces);
}

/* --- marks and pieces --- */

uint64_t arrival_offset(const struct arrival_mark *mark, bool frames)
{
	return frames ? mark->frames : sum(mark->pos);
}

void arrival_advance(struct arrival_mark *mark, const struct arrival_piece *p)
{
	mark->pos[p->which] += p->len;
	mark->frames += frame_size(p->len);
}

static size_t put_piece(unsigned char out[PIECE_MAX], const struct arrival_piece *p)
{
	uint64_t n = p->len << 1 | (uint64_t)p->which;
	size_t len = 0;

	while (n >= 0x80) {
		out[len++] = (unsigned char)(n | 0x80);
		n >>= 7;
	}
	out[len++] = (unsigned char)n;
	return len;
}

size_t arrival_piece_get(const unsigned char *pieces, size_t len, struct arrival_piece *ret)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len && i < PIECE_MAX; i++) {
		n |= (uint64_t)(pieces[i] & 0x7f) << (7 * i);
		if (pieces[i] & 0x80)
			continue;
		*ret = (struct arrival_piece){ n & 1 ? EXEC_STDERR : EXEC_STDOUT, n >> 1 };
		return n >> 1 ? i + 1 : 0;
	}
	return 0;
}

bool arrival_piece_open(const struct exec *ex, const struct arrival_mark *mark,
			struct arrival_piece *ret)
{
	const struct arrival *a = &ex->arrival;

	for (int behind = ex->state != EXEC_DONE; behind < 2; behind++) {
		for (int i = 0; i < EXEC_STREAM_COUNT; i++) {
			uint64_t limit = a->end.pos[i] + a->open[i];

			if (!behind && limit > ex->result.stream_bytes[i])
				limit = ex->result.stream_bytes[i];
			if (mark->pos[i] >= limit)
				continue;
			*ret = (struct arrival_piece){ (enum exec_stream)i, limit - mark->pos[i] };
			return true;
		}
	}
	return false;
}

/* Short enough for the journal, where it is then and not in the file. */
bool arrival_is_short(const struct exec *ex)
{
	return !arrival_index_any(&ex->arrival) && ex->arrival.pieces.len <= SHORT_MAX;
}

/* --- growing --- */

static int next_block(struct exec *ex)
{
	struct arrival *a = &ex->arrival;
	int r = arrival_index_save(ex, true, true);

	if (r < 0)
		return r;
	a->block++;
	a->begin = a->end;
	a->pieces.len = a->saved = 0;
	arrival_count(ex);
	return 0;
}

static int fix_piece(struct exec *ex, const struct arrival_piece *p)
{
	struct arrival *a = &ex->arrival;
	unsigned char bytes[PIECE_MAX];
	size_t len = put_piece(bytes, p);
	int r = a->pieces.len + len > ARRIVAL_PIECES ? next_block(ex) : 0;

	if (r == 0)
		r = buf_add(&a->pieces, bytes, len);
	if (r < 0)
		return r;
	arrival_advance(&a->end, p);
	a->open[p->which] -= p->len;
	return 0;
}

int arrival_fix(struct exec *ex)
{
	struct arrival_piece p;
	int r = 0;

	while (r == 0 && arrival_piece_open(ex, &ex->arrival.end, &p))
		r = fix_piece(ex, &p);
	return r;
}

void arrival_add(struct exec *ex, enum exec_stream which, uint64_t n)
{
	struct arrival *a = &ex->arrival;

	if (!n)
		return;
	/* Failing leaves it open, see above. */
	if (which == EXEC_STDOUT && a->open[EXEC_STDERR])
		(void)arrival_fix(ex);
	a->open[which] += n;
	watch_fire_all(&a->changed);
}

void arrival_lost(struct exec *ex, enum exec_stream which)
{
	struct arrival *a = &ex->arrival;
	uint64_t size = ex->stream[which].size, fixed = a->end.pos[which];

	if (a->looked || ex->state == EXEC_DONE) {
		if (arrival_fix(ex) == 0)
			(void)arrival_keep(ex, true);
	} else if (fixed + a->open[which] > size) {
		a->open[which] = size > fixed ? size - fixed : 0;
	}
	watch_fire_all(&a->changed);
}

/* --- kept for the next hutchd --- */

void arrival_kept(struct exec *ex)
{
	memcpy(ex->arrival.kept, ex->arrival.end.pos, sizeof(ex->arrival.kept));
}

static int keep_long(struct exec *ex, bool must)
{
	int r = arrival_index_save(ex, must, false);

	if (r == 0)
		arrival_kept(ex);
	return r;
}

void arrival_keep_long(struct exec *ex)
{
	if (!arrival_is_short(ex))
		(void)keep_long(ex, true);
}

int arrival_keep(struct exec *ex, bool must)
{
	int r;

	if (sum(ex->arrival.kept) == sum(ex->arrival.end.pos) || ex->removed)
		return 0;
	if (!arrival_is_short(ex))
		return keep_long(ex, must);
	r = journal_arrival(ex);
	if (r == 0)
		arrival_kept(ex);
	return r;
}

/* Nothing comes any more. */
static void settle(struct exec *ex)
{
	struct arrival *a = &ex->arrival;

	(void)arrival_keep(ex, true);
	if (arrival_index_any(a) && a->saved >= a->pieces.len)
		buf_done(&a->pieces);
	arrival_count(ex);
}

bool arrival_is_over(const struct exec *ex)
{
	return ex->state == EXEC_DONE && ex->stream[EXEC_STDOUT].ended &&
	       ex->stream[EXEC_STDERR].ended;
}

void arrival_ended(struct exec *ex)
{
	if (arrival_is_over(ex) && !ex->removed)
		settle(ex);
	watch_fire_all(&ex->arrival.changed);
}

/* --- the result --- */

void arrival_finish(struct exec *ex)
{
	struct arrival_mark mark = ex->arrival.end;
	struct arrival_piece p;

	/* The streams have just been settled, so nothing behind the result can be among them. */
	while (arrival_piece_open(ex, &mark, &p))
		arrival_advance(&mark, &p);
	ex->arrival.frames_end = mark.frames;
}

/* --- in the journal, and back --- */

int arrival_print(const struct exec *ex, struct buf *out)
{
	const struct buf *pieces = &ex->arrival.pieces;
	struct arrival_piece p;
	size_t n;
	int r = 0;

	for (size_t at = 0; r == 0 && at < pieces->len; at += n) {
		n = arrival_piece_get((const unsigned char *)pieces->data + at, pieces->len - at,
				      &p);
		if (!n)
			return -EINVAL;
		r = buf_printf(out, "%c%" PRIu64, p.which == EXEC_STDOUT ? 'o' : 'e', p.len);
	}
	return r;
}

void arrival_parse(struct exec *ex, const char *text)
{
	struct arrival *a = &ex->arrival;
	int r = 0;

	a->pieces.len = 0;
	a->end = (struct arrival_mark){ 0 };
	while (r == 0 && (*text == 'o' || *text == 'e')) {
		struct arrival_piece p = { *text == 'o' ? EXEC_STDOUT : EXEC_STDERR, 0 };
		unsigned char bytes[PIECE_MAX];
		char *end;

		p.len = strtoull(text + 1, &end, 10) & INT64_MAX;
		r = p.len ? buf_add(&a->pieces, bytes, put_piece(bytes, &p)) : -EINVAL;
		if (r == 0)
			arrival_advance(&a->end, &p);
		text = end;
	}
}

/* Can the next hutchd not see from the streams alone where `frames` end? */
bool arrival_tells_end(const struct exec *ex)
{
	const struct arrival *a = &ex->arrival;

	return a->frames_told || a->pieces.len || arrival_index_any(a) || ex->result.streams_open;
}

/* Where in `frames` the result lies, of pieces that may go on behind it. */
static uint64_t find_frames_end(struct exec *ex)
{
	uint64_t end = sum(ex->result.stream_bytes);
	struct arrival_block block;
	struct arrival_mark mark;
	struct arrival_piece p;
	size_t at = 0, n;
	uint32_t number = 0;

	if (arrival_block_find(ex, NULL, false, end, &number) < 0 ||
	    arrival_block_read(ex, NULL, number, &block) < 0)
		return ex->arrival.end.frames;
	mark = block.begin;
	while (sum(mark.pos) < end &&
	       (n = arrival_piece_get(block.pieces + at, block.len - at, &p))) {
		arrival_advance(&mark, &p);
		at += n;
	}
	while (sum(mark.pos) < end && arrival_piece_open(ex, &mark, &p))
		arrival_advance(&mark, &p);
	return mark.frames;
}

void arrival_restore(struct exec *ex)
{
	struct arrival *a = &ex->arrival;

	arrival_index_load(ex);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		if (ex->stream[i].size > a->end.pos[i])
			a->open[i] = ex->stream[i].size - a->end.pos[i];
	if (!a->frames_told)
		a->frames_end = find_frames_end(ex);
	close_auto(&a->fd);
	arrival_kept(ex);
	settle(ex);
}
