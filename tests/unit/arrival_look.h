/* arrival_look.h - who reads `output` and `frames` of the commands of arrival.h, and what they must find */
#pragma once

#include <errno.h>

#include "base/frame.h"
#include "tests/unit/arrival.h"
#include "tests/unit/tap.h"

#define PATIENCE_MS 20000

/* --- readers --- */

struct waiter {
	struct watch watch;
	unsigned fired;
};

static inline void on_fire(struct watch *watch)
{
	container_of(watch, struct waiter, watch)->fired++;
}

/* Until somebody tells those who wait. */
static inline bool told(struct exec *ex)
{
	int64_t deadline = ev_now() + (int64_t)PATIENCE_MS * 1000000;
	struct waiter waiter = { .fired = 0 };

	watch_init(&waiter.watch, on_fire);
	watch_add(&ex->arrival.changed, &waiter.watch);
	while (!waiter.fired && ev_now() < deadline)
		(void)ev_turn(&loop, 100);
	watch_cancel(&waiter.watch);
	return waiter.fired;
}

/* As a reader of the tree does: what is there is waited for. */
static inline ssize_t read_at(struct arrival_reader *rd, void *bytes, size_t len, uint64_t off)
{
	ssize_t n;

	while ((n = arrival_read(rd, bytes, len, off)) == -EAGAIN && arrival_has(rd, off))
		if (!told(rd->exec))
			break;
	return n;
}

/* From `off` on, as far as it goes, in reads of random sizes; compared with what was read before. */
static inline bool look(struct writer *w, struct arrival_reader *rd, uint64_t off, size_t most)
{
	static char bytes[1 << 20];
	struct buf *seen = rd->frames ? &w->frames : &w->output;
	size_t total = 0;
	ssize_t n;

	while (total < most) {
		size_t len = 1 + rnd(rnd(2) ? 20 : 200000), known;

		n = read_at(rd, bytes, len, off);
		if (n == 0 || (n == -EAGAIN && !arrival_has(rd, off)))
			return true;
		if (n < 0) {
			printf("# %s at %llu: %zd\n", rd->frames ? "frames" : "output",
			       (unsigned long long)off, n);
			return false;
		}
		known = off >= seen->len ? 0 : seen->len - (size_t)off;
		known = known < (size_t)n ? known : (size_t)n;
		if (known && memcmp(seen->data + off, bytes, known) != 0) {
			printf("# %s at %llu: not what was read there before\n",
			       rd->frames ? "frames" : "output", (unsigned long long)off);
			return false;
		}
		if (off + known == seen->len)
			(void)buf_add(seen, bytes + known, (size_t)n - known);
		off += (uint64_t)n;
		total += (size_t)n;
	}
	return true;
}

static inline bool look_anywhere(struct writer *w, bool frames)
{
	struct buf *seen = frames ? &w->frames : &w->output;
	struct arrival_reader rd;
	bool good = true;

	arrival_open(&rd, w->ex, frames);
	for (int i = 0; i < 20 && good; i++)
		good = look(w, &rd, seen->len ? rnd((uint32_t)seen->len) : 0, 1 + rnd(3000));
	arrival_close(&rd);
	return good;
}

static inline bool look_at_rest(struct writer *w, bool frames)
{
	return look(w, &w->rd[frames], (frames ? &w->frames : &w->output)->len, SIZE_MAX);
}

/* Whoever is told a size may begin to read there, so it is behind a frame. */
static inline void ask_size(struct writer *w)
{
	uint64_t size = arrival_size(w->ex, true);

	if (size && w->ex->state != EXEC_DONE && w->sizes < SIZES_MAX)
		w->size[w->sizes++] = size;
}

/* --- what must hold at the end --- */

/* The frames are the first `upto` bytes, in their order, and the result. */
static inline bool frames_are(struct writer *w, size_t upto)
{
	struct frame_decoder d;
	auto_buf struct buf result = { 0 };
	size_t at = 0, in = 0, told = 0;
	struct err err = { 0 };

	frame_decoder_init(&d, FRAME_SERVER);
	while (in < w->frames.len) {
		struct frame_part part;
		bool some;
		ssize_t n = frame_decode(&d, w->frames.data + in, w->frames.len - in, &some, &part,
					 &err);

		if (n <= 0)
			break;
		in += (size_t)n;
		while (part.last && told < w->sizes && w->size[told] == in)
			told++;
		if (part.type == FRAME_EXIT) {
			(void)buf_add(&result, part.bytes, part.len);
			continue;
		}
		if (at + part.len > upto || memcmp(w->all.data + at, part.bytes, part.len) != 0)
			return false;
		for (size_t i = 0; i < part.len; i++)
			if ((part.bytes[i] & 0x80) != (part.type == FRAME_STDERR ? 0x80 : 0))
				return false;
		at += part.len;
	}
	if (frame_decode_end(&d, &err) < 0)
		printf("# %s\n", err.msg);
	return at == upto && told == w->sizes && !err.code && result.data &&
	       strstr(result.data, "\"exit_code\":");
}

static inline bool output_is(const struct writer *w)
{
	return w->output.len == w->all.len &&
	       (!w->all.len || memcmp(w->output.data, w->all.data, w->all.len) == 0);
}

/* What nobody had seen may have become stdout first; what was seen has not. */
static inline bool output_has_all(const struct writer *w)
{
	size_t at[EXEC_STREAM_COUNT] = { 0 };

	for (size_t i = 0; i < w->output.len; i++) {
		int s = w->output.data[i] & 0x80 ? EXEC_STDERR : EXEC_STDOUT;

		if (at[s] >= w->stream[s].len || w->stream[s].data[at[s]++] != w->output.data[i])
			return false;
	}
	return w->output.len == w->all.len;
}
