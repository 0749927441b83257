/* arrival_read.c - readers of `output` and `frames`
 *
 * A read is put together from the index and the two spools, at any offset, by any
 * number of readers.  `output` is the pieces one after the other, until both streams
 * have ended.  `frames` cuts each piece into frames, and is over with the result:
 * its bytes are those up to the result, one exit frame, and the end.
 *
 * What is not there any more is EIO at its place, and never something else: bytes that were
 * given back, bytes that were lost, and all that blocks of the index knew that are lost.
 *
 * A read serves nothing that a next hutchd would put together differently: see
 * keep_before().
 */
#include "sandbox/arrival-internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/auto.h"
#include "base/frame.h"

/* All that programs ask for at a time, if each byte is a piece: two milliseconds.  A larger read may be
 * given less than there is. */
#define PIECES_PER_READ (128 << 10)
#define WINDOW          4096

static const enum frame_type frame_of[EXEC_STREAM_COUNT] = {
	[EXEC_STDOUT] = FRAME_STDOUT,
	[EXEC_STDERR] = FRAME_STDERR,
};

/* Of a spool: small pieces are copied from it, and not read one by one. */
struct window {
	uint64_t off;
	size_t len;
	char bytes[WINDOW];
};

/* A read on its way through the pieces. */
struct walk {
	struct arrival_reader *rd;
	struct exec *ex;
	bool frames;
	struct arrival_block block;
	size_t at;                /* in it; beyond its end: in the open part */
	struct arrival_mark mark; /* where the piece begins */
	struct window window[EXEC_STREAM_COUNT];
	uint64_t from[EXEC_STREAM_COUNT]; /* where in the streams the read begins */
	bool began;
};

/* --- how much there is --- */

static bool streams_ended(const struct exec *ex)
{
	return ex->stream[EXEC_STDOUT].ended && ex->stream[EXEC_STDERR].ended;
}

bool arrival_is_whole(const struct exec *ex, bool frames)
{
	return frames ? ex->state == EXEC_DONE : streams_ended(ex);
}

/* Behind the last byte of the streams, as an offset. */
static uint64_t bytes_end(const struct exec *ex, bool frames)
{
	const struct arrival *a = &ex->arrival;
	struct arrival_mark mark = a->end;
	struct arrival_piece p;

	if (!frames)
		return arrival_offset(&mark, false) + a->open[EXEC_STDOUT] + a->open[EXEC_STDERR];
	if (ex->state == EXEC_DONE)
		return a->frames_end;
	while (arrival_piece_open(ex, &mark, &p))
		arrival_advance(&mark, &p);
	return mark.frames;
}

/* The exit frame; it never changes. */
static int print_exit(struct exec *ex, struct buf *out)
{
	unsigned char header[FRAME_HEADER_LEN] = { 0 };
	int r = buf_add(out, header, sizeof(header));

	if (r == 0)
		r = exec_result_print(ex, out);
	if (r < 0)
		return r;
	ex->arrival.exit_len = out->len - sizeof(header);
	frame_header(header, FRAME_EXIT, ex->arrival.exit_len);
	memcpy(out->data, header, sizeof(header));
	return 0;
}

size_t arrival_result_size(struct exec *ex)
{
	struct arrival *a = &ex->arrival;

	if (ex->state == EXEC_DONE && !a->exit_len) {
		auto_buf struct buf text = { 0 };

		(void)print_exit(ex, &text);
	}
	return ex->state == EXEC_DONE ? a->exit_len : 0;
}

uint64_t arrival_size(struct exec *ex, bool frames)
{
	struct arrival *a = &ex->arrival;
	size_t result;

	if (frames && ex->state != EXEC_DONE)
		(void)arrival_fix(ex); /* who was told a size may go on reading there */
	if (!frames || ex->state != EXEC_DONE)
		return bytes_end(ex, frames);
	result = arrival_result_size(ex);
	return a->frames_end + (result ? FRAME_HEADER_LEN + result : 0);
}

/* --- the pieces --- */

static int enter_block(struct walk *w, uint32_t number)
{
	w->at = 0;
	return arrival_block_read(w->ex, w->rd, number, &w->block);
}

/* From the end of one. */
static int enter_next(struct walk *w)
{
	const struct arrival_mark *begin = &w->block.begin;
	int r = enter_block(w, w->block.number + 1);

	if (r == 0 && (begin->frames != w->mark.frames ||
		       begin->pos[EXEC_STDOUT] != w->mark.pos[EXEC_STDOUT] ||
		       begin->pos[EXEC_STDERR] != w->mark.pos[EXEC_STDERR]))
		return -EIO; /* pieces between them are lost */
	return r;
}

/* The piece that begins at w->mark. 1; 0: there is none; negative errno. */
static int piece_at(struct walk *w, struct arrival_piece *ret, size_t *ret_len)
{
	*ret_len = 0;
	if (w->frames && w->ex->state == EXEC_DONE && w->mark.frames >= w->ex->arrival.frames_end)
		return 0;
	for (;;) {
		int r;

		if (w->at < w->block.len)
			*ret_len = arrival_piece_get(w->block.pieces + w->at, w->block.len - w->at,
						     ret);
		if (*ret_len)
			return 1;
		if (w->block.number == w->ex->arrival.block)
			return arrival_piece_open(w->ex, &w->mark, ret);
		r = enter_next(w);
		if (r < 0)
			return r;
	}
}

static uint64_t size_of(const struct walk *w, const struct arrival_piece *p)
{
	return w->frames ? frame_size(p->len) : p->len;
}

/* To the piece that has the byte at `off`, or that will have it. */
static int walk_to(struct walk *w, const struct arrival_cursor *last, uint64_t off)
{
	struct arrival_piece p;
	uint32_t number = 0;
	size_t len;
	int r = arrival_block_find(w->ex, w->rd, w->frames, off, &number);

	if (r == 0)
		r = enter_block(w, number);
	if (r < 0)
		return r;
	w->mark = w->block.begin;
	if (last->block == number && arrival_offset(&last->mark, w->frames) <= off) {
		w->at = last->at;
		w->mark = last->mark;
	}
	while ((r = piece_at(w, &p, &len)) > 0) {
		if (off < arrival_offset(&w->mark, w->frames) + size_of(w, &p))
			break;
		arrival_advance(&w->mark, &p);
		w->at += len;
	}
	return r < 0 ? r : 0;
}

/* --- the bytes --- */

/* The index knows more than the stream has: it was given back, or lost. */
static bool is_gone(const struct stream *st, uint64_t off)
{
	return off < st->given || off >= st->size;
}

/* At least one byte, or an error; -EAGAIN: the disk is asked for them. */
static ssize_t read_spool(struct stream_reader *rd, void *bytes, size_t len, uint64_t off)
{
	ssize_t n = is_gone(rd->stream, off) ? -EIO : stream_look(rd, bytes, len, off);

	return n ? n : -EIO; /* somebody has cut the spool */
}

static ssize_t read_bytes(struct walk *w, enum exec_stream which, void *bytes, size_t len,
			  uint64_t off)
{
	struct stream_reader *rd = &w->rd->stream[which];
	struct window *win = &w->window[which];
	ssize_t n;

	if (len >= WINDOW)
		return read_spool(rd, bytes, len, off);
	if (off < win->off || off >= win->off + win->len) {
		n = read_spool(rd, win->bytes, WINDOW, off);
		win->len = n < 0 ? 0 : (size_t)n;
		win->off = off;
		if (n < 0)
			return n;
	}
	n = (ssize_t)(win->off + win->len - off);
	n = n < (ssize_t)len ? n : (ssize_t)len;
	memcpy(bytes, win->bytes + (off - win->off), (size_t)n);
	return n;
}

/* From one frame of the piece, at `in` in what the piece looks like in `frames`. */
static ssize_t read_frame(struct walk *w, const struct arrival_piece *p, void *bytes, size_t len,
			  uint64_t in)
{
	uint64_t index = in / (FRAME_HEADER_LEN + FRAME_PAYLOAD_MAX);
	uint64_t begin = index * FRAME_PAYLOAD_MAX;
	size_t at = (size_t)(in % (FRAME_HEADER_LEN + FRAME_PAYLOAD_MAX));
	unsigned char header[FRAME_HEADER_LEN];
	size_t payload = frame_cut(header, frame_of[p->which], p->len - begin);
	size_t left = FRAME_HEADER_LEN + payload - at;

	if (at < FRAME_HEADER_LEN) {
		if (is_gone(&w->ex->stream[p->which], w->mark.pos[p->which] + begin))
			return -EIO;
		left = FRAME_HEADER_LEN - at;
		len = len < left ? len : left;
		memcpy(bytes, header + at, len);
		return (ssize_t)len;
	}
	return read_bytes(w, p->which, bytes, len < left ? len : left,
			  w->mark.pos[p->which] + begin + at - FRAME_HEADER_LEN);
}

static ssize_t read_piece(struct walk *w, const struct arrival_piece *p, void *bytes, size_t len,
			  uint64_t in)
{
	uint64_t left = p->len - in;

	if (w->frames)
		return read_frame(w, p, bytes, len, in);
	return read_bytes(w, p->which, bytes, len < left ? len : (size_t)left,
			  w->mark.pos[p->which] + in);
}

/* How far in the streams a reader is that is at `off`, in the piece at w->mark. */
static void position(const struct walk *w, const struct arrival_piece *p, uint64_t off,
		     uint64_t ret[EXEC_STREAM_COUNT])
{
	uint64_t in = off - arrival_offset(&w->mark, w->frames);

	memcpy(ret, w->mark.pos, sizeof(w->mark.pos));
	if (w->frames) {
		uint64_t at = in % (FRAME_HEADER_LEN + FRAME_PAYLOAD_MAX);

		in = in / (FRAME_HEADER_LEN + FRAME_PAYLOAD_MAX) * FRAME_PAYLOAD_MAX;
		in += at > FRAME_HEADER_LEN ? at - FRAME_HEADER_LEN : 0;
	}
	ret[p->which] += in < p->len ? in : p->len;
}

/* A stream that is full goes on when its readers have got on, see retain.c.  So only what they are
 * given counts, and not what was looked at for it. */
static void note_passed(struct arrival_reader *rd, const uint64_t from[EXEC_STREAM_COUNT])
{
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_passed(&rd->stream[i], from[i], rd->pos[i]);
}

static void note_cursor(struct arrival_reader *rd, const struct walk *w)
{
	if (w->at < w->block.len) /* the open part is not a place to come back to */
		rd->last = (struct arrival_cursor){ w->block.number, w->at, w->mark };
}

/* Of the piece that has the byte at `off`, from there on. */
static ssize_t read_from(struct walk *w, const struct arrival_piece *p, char *bytes, size_t len,
			 uint64_t off)
{
	uint64_t in = off - arrival_offset(&w->mark, w->frames), size = size_of(w, p);
	size_t done = 0;

	if (!w->began)
		position(w, p, off, w->from);
	w->began = true;
	while (done < len && in + done < size) {
		ssize_t n = read_piece(w, p, bytes + done, len - done, in + done);

		if (n == -EAGAIN || (n < 0 && !done))
			return n;
		if (n < 0)
			break;
		done += (size_t)n;
	}
	position(w, p, off + done, w->rd->pos);
	return (ssize_t)done;
}

/* Bytes of the streams. 0: there are none at `off`. */
static ssize_t read_streams(struct arrival_reader *rd, struct walk *w, char *bytes, size_t len,
			    uint64_t off)
{
	struct arrival_piece p;
	size_t done = 0, piece_len;
	int r = walk_to(w, &rd->last, off), left = PIECES_PER_READ;

	while (r == 0 && done < len && left-- && (r = piece_at(w, &p, &piece_len)) > 0) {
		uint64_t end = arrival_offset(&w->mark, rd->frames) + size_of(w, &p);
		ssize_t n;

		note_cursor(rd, w);
		n = read_from(w, &p, bytes + done, len - done, off + done);
		r = n < 0 ? (int)n : 0;
		done += n < 0 ? 0 : (size_t)n;
		if (off + done < end)
			break;
		arrival_advance(&w->mark, &p);
		w->at += piece_len;
	}
	/* A part is not the answer while the disk is asked for the rest. */
	if (r == -EAGAIN || (r < 0 && !done))
		return r;
	if (done)
		note_passed(rd, w->from);
	return (ssize_t)done;
}

/* --- readers --- */

void arrival_open(struct arrival_reader *rd, struct exec *ex, bool frames)
{
	*rd = (struct arrival_reader){ .exec = ex, .frames = frames, .fetched = -1 };
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_open(&rd->stream[i], &ex->stream[i]);
	ex->arrival.readers++;
	ex->arrival.looked = true;
}

void arrival_close(struct arrival_reader *rd)
{
	arrival_index_leave(rd);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_close(&rd->stream[i]);
}

/* What a reader is about to be told must be so for the next hutchd too.  That one takes what no kept
 * piece accounts for as stdout's, then stderr's: so it is right of what cannot grow any more, and of
 * an `output` with nothing of stderr in question. */
static int keep_before(struct exec *ex, bool frames)
{
	const struct arrival *a = &ex->arrival;
	uint64_t in_stderr = a->end.pos[EXEC_STDERR] + a->open[EXEC_STDERR];
	int r;

	if (!arrival_is_whole(ex, frames)) {
		r = frames || in_stderr > a->kept[EXEC_STDERR] ? arrival_fix(ex) : 0;
		if (r < 0 || (!frames && in_stderr == a->kept[EXEC_STDERR]))
			return arrival_index_wait(ex, r);
	}
	/* A slow disk is waited for, one that takes no more is no reason not to serve it. */
	return arrival_index_wait(ex, arrival_keep(ex, false)) == -EAGAIN ? -EAGAIN : 0;
}

static ssize_t read_before_end(struct arrival_reader *rd, void *bytes, size_t len, uint64_t off)
{
	struct walk w = { .rd = rd, .ex = rd->exec, .frames = rd->frames };
	ssize_t n = keep_before(rd->exec, rd->frames);

	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		rd->stream[i].ahead = len + WINDOW;
	if (n == 0)
		n = read_streams(rd, &w, bytes, len, off);
	return n ? n : -EIO;
}

/* More will come, and the reader is at the end of what there is. */
static void wait_at_end(struct arrival_reader *rd)
{
	const struct arrival *a = &rd->exec->arrival;

	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		rd->pos[i] = a->end.pos[i] + a->open[i];
	note_passed(rd, rd->pos);
}

/* Of the exit frame, from its byte `in` on. */
static ssize_t read_exit(struct exec *ex, void *bytes, size_t len, uint64_t in)
{
	auto_buf struct buf text = { 0 };
	int r = print_exit(ex, &text);

	if (r < 0)
		return r;
	if (in >= text.len)
		return 0;
	len = len < text.len - in ? len : (size_t)(text.len - in);
	memcpy(bytes, text.data + in, len);
	return (ssize_t)len;
}

ssize_t arrival_read(struct arrival_reader *rd, void *bytes, size_t len, uint64_t off)
{
	uint64_t end = bytes_end(rd->exec, rd->frames);
	bool whole = arrival_is_whole(rd->exec, rd->frames);
	ssize_t n = 0;

	if (off < end)
		n = read_before_end(rd, bytes, len, off);
	else if (!whole)
		n = -EAGAIN;
	if (off == end && !whole)
		wait_at_end(rd);
	if (n >= 0 && rd->frames && whole && off + (uint64_t)n >= end) {
		ssize_t more = read_exit(rd->exec, (char *)bytes + n, len - (size_t)n,
					 off + (uint64_t)n - end);

		n = more < 0 && !n ? more : n + (more > 0 ? more : 0);
		/* What children go on to say is not for it, and must not wait for it. */
		for (size_t i = 0; more >= 0 && i < EXEC_STREAM_COUNT; i++)
			stream_leave(&rd->stream[i]);
	}
	if (n >= 0)
		rd->next = off + (uint64_t)n;
	return n;
}

bool arrival_has(const struct arrival_reader *rd, uint64_t off)
{
	return off < bytes_end(rd->exec, rd->frames);
}

uint32_t arrival_ready(const struct arrival_reader *rd)
{
	bool whole = arrival_is_whole(rd->exec, rd->frames);
	bool more = rd->next < bytes_end(rd->exec, rd->frames);

	return (more || whole ? POLLIN | POLLRDNORM : 0) | (whole ? POLLHUP : 0);
}
