/* test_arrival.c - the order of two streams: random pieces against a plain model
 *
 * The model is the bytes in the order in which they came.  Of `frames`, where they
 * are cut is the index's to decide, but once: what has been read of it is kept, and
 * must be what everybody reads there for ever, also after a restart.
 */
#include <errno.h>

#include "tests/unit/arrival_look.h"

static const struct {
	const char *what;
	unsigned pieces, largest; /* sizes are up to this */
	unsigned looks;           /* one look in so many drains; 0: never */
	unsigned behind;          /* pieces after the result */
} script[] = {
	{ "nothing", 0, 1, 0, 0 },
	{ "one piece", 1, 100, 0, 0 },
	{ "a few, unseen", 9, 1000, 0, 0 },
	{ "a few, seen", 9, 1000, 1, 0 },
	{ "a few large ones", 12, 300000, 2, 0 },
	{ "exact frames", 20, 65536, 2, 2 },
	{ "bytes", 20000, 1, 0, 0 },
	{ "bytes, seen at times", 20000, 1, 97, 0 },
	{ "small ones", 15000, 200, 50, 0 },
	{ "small ones, seen by the way", 3000, 300, 1, 0 },
	{ "with children that go on", 20, 50, 3, 30 },
	{ "that go on for long, unseen", 3, 50, 0, 9000 },
	{ "that go on for long", 5000, 9, 30, 9000 },
};

static void some_drains(struct writer *w, size_t i, unsigned n, bool result, bool *ret_good)
{
	bool exact = strcmp(script[i].what, "exact frames") == 0;

	while (n-- && *ret_good) {
		size_t len = exact ? 65536 * (1 + rnd(2)) : 1 + rnd(script[i].largest);

		drained(w, rnd(2) ? EXEC_STDERR : EXEC_STDOUT, len);
		if (!script[i].looks || rnd(script[i].looks))
			continue;
		switch (rnd(4)) {
		case 0:
			*ret_good = look_at_rest(w, !result);
			break;
		case 1:
			*ret_good = look_anywhere(w, !result);
			break;
		case 2:
			*ret_good = look_at_rest(w, false);
			break;
		default:
			ask_size(w);
		}
	}
}

static bool sizes_fit(const struct writer *w)
{
	return arrival_size(w->ex, true) == w->frames.len &&
	       arrival_size(w->ex, false) == w->output.len;
}

static void run_script(size_t i, uint32_t serial, bool early)
{
	struct writer w;
	const char *what = script[i].what;
	bool good = true;
	size_t upto, memory;

	begin(&w, serial);
	some_drains(&w, i, script[i].pieces, false, &good);
	ok(good, "%s: while it runs", what);
	memory = w.ex->arrival.pieces.cap;
	ok(memory <= 8192, "%s: %zu bytes of memory", what, memory);
	upto = w.all.len;
	finish(&w);
	some_drains(&w, i, script[i].behind, true, &good);
	if (!early)
		ok(good && look_at_rest(&w, true) && frames_are(&w, upto), "%s: frames", what);
	streams_end(&w);
	ok(w.ex->arrival.pieces.cap <= 64, "%s: little memory when it is over", what);
	if (early)
		restart(&w, false);
	ok(look_at_rest(&w, false) && output_is(&w), "%s: output", what);
	ok(look_at_rest(&w, true) && frames_are(&w, upto), "%s: frames still", what);
	ok(sizes_fit(&w), "%s: sizes are what was read", what);
	ok(look_anywhere(&w, true) && look_anywhere(&w, false), "%s: from anywhere", what);
	for (int n = 1; n <= 2; n++) {
		restart(&w, false);
		ok(look_anywhere(&w, true) && look_anywhere(&w, false), "%s: restart %d", what, n);
		ok(sizes_fit(&w), "%s: restart %d: sizes", what, n);
		w.frames.len = w.output.len = 0;
		ok(look_at_rest(&w, true) && frames_are(&w, upto), "%s: restart %d: frames", what,
		   n);
		ok(look_at_rest(&w, false) && output_is(&w), "%s: restart %d: output", what, n);
	}
	end(&w);
}

/* hutchd is killed while the command runs. */
static void crash_script(size_t i, uint32_t serial)
{
	struct writer w;
	const char *what = script[i].what;
	bool good = true;

	begin(&w, serial);
	some_drains(&w, i, script[i].pieces, false, &good);
	restart(&w, true);
	ok(good && look_anywhere(&w, true) && look_anywhere(&w, false), "%s: a crash", what);
	ok(look_at_rest(&w, true) && look_at_rest(&w, false), "%s: a crash: the rest", what);
	ok(output_has_all(&w) && sizes_fit(&w), "%s: a crash: all there is", what);
	restart(&w, false);
	ok(look_anywhere(&w, true) && look_anywhere(&w, false) && sizes_fit(&w),
	   "%s: a crash and a restart", what);
	end(&w);
}

/* Or when it has ended, and its children have not. */
static void crash_behind(size_t i, uint32_t serial)
{
	struct writer w;
	size_t upto;
	bool good = true;

	begin(&w, serial);
	some_drains(&w, i, script[i].pieces, false, &good);
	upto = w.all.len;
	finish(&w);
	some_drains(&w, i, script[i].behind, true, &good);
	restart(&w, false);
	ok(good && look_at_rest(&w, true) && frames_are(&w, upto), "%s: a crash behind its end",
	   script[i].what);
	ok(look_at_rest(&w, false) && output_has_all(&w), "%s: and its output", script[i].what);
	end(&w);
}

/* The file is cut short: what it still has counts, or what the journal had before. */
static void test_cut_file(void)
{
	struct writer w;
	char path[96];
	bool good = true;
	size_t seen;
	off_t len;

	begin(&w, 4000);
	some_drains(&w, 6, 30, false, &good);
	ok(look_at_rest(&w, false), "a short one is read");
	seen = w.output.len;
	some_drains(&w, 6, 20000, false, &good);
	ok(look_at_rest(&w, false), "a long one is read");
	path_of(path, 4000, "idx");
	(void)disk_wait(eng.disk, PATIENCE_MS);
	for (len = 8300; len >= 0; len -= (len > 8180 || len < 600) ? 1 : 500) {
		size_t rest = (size_t)len % 4096, pieces = (size_t)len / 4096 * 4072;

		pieces += rest > 24 ? rest - 24 : 0;
		pieces = pieces > seen ? pieces : seen; /* each has a byte, at least */
		if (truncate(path, len) < 0)
			abort();
		restart(&w, true);
		w.output.len = w.frames.len = 0;
		if (!look_at_rest(&w, true) || !look_at_rest(&w, false) || !sizes_fit(&w) ||
		    !output_has_all(&w) || memcmp(w.output.data, w.all.data, pieces) != 0)
			break;
	}
	ok(len < 0, "at any length");
	end(&w);
}

static void test_parse(void)
{
	static const struct {
		const char *text;
		uint64_t out, err;
	} row[] = {
		{ "", 0, 0 },        { "o1", 1, 0 },   { "e18446744073709551615", 0, INT64_MAX },
		{ "o5e6o7", 12, 6 }, { "o5x6", 5, 0 }, { "o5e", 5, 0 },
		{ "o5e0o6", 5, 0 },  { "x", 0, 0 },    { "o65536o1", 65537, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct exec *ex = new_exec(1);

		arrival_parse(ex, row[i].text);
		ok(ex->arrival.end.pos[0] == row[i].out && ex->arrival.end.pos[1] == row[i].err,
		   "'%s' in the journal", row[i].text);
		free_exec(ex);
	}
}

/* --- who waits --- */

static void test_waiting(void)
{
	struct arrival_reader out, frames;
	struct waiter waiter = { .fired = 0 };
	struct writer w;
	char bytes[1000];

	begin(&w, 5000);
	watch_init(&waiter.watch, on_fire);
	arrival_open(&out, w.ex, false);
	arrival_open(&frames, w.ex, true);
	is_int(arrival_read(&out, bytes, sizeof(bytes), 0), -EAGAIN, "output: nothing yet");
	is_int(arrival_read(&frames, bytes, sizeof(bytes), 0), -EAGAIN, "frames: nothing yet");
	ok(!arrival_ready(&out) && !arrival_ready(&frames), "and a poll says so");
	watch_add(&w.ex->arrival.changed, &waiter.watch);
	drained(&w, EXEC_STDERR, 3);
	is_int(waiter.fired, 1, "who waits is told");
	ok(arrival_ready(&out) == (EPOLLIN | EPOLLRDNORM) && arrival_ready(&frames), "polls too");
	is_int(arrival_read(&frames, bytes, sizeof(bytes), 0), 11, "a frame");
	ok(frames.next == 11 && frames.pos[EXEC_STDERR] == 3 && !frames.pos[EXEC_STDOUT],
	   "and where the reader is");
	is_int(arrival_read(&frames, bytes, 9, 0), 9, "a part of it");
	ok(frames.pos[EXEC_STDERR] == 1, "is a part of the way");
	drained(&w, EXEC_STDOUT, 5);
	is_int(arrival_read(&out, bytes, sizeof(bytes), 1), 7, "output: both");
	ok(out.pos[EXEC_STDERR] == 3 && out.pos[EXEC_STDOUT] == 5, "and the way in both");
	is_int(arrival_read(&out, bytes, sizeof(bytes), 100), -EAGAIN, "far behind the end");
	watch_add(&w.ex->arrival.changed, &waiter.watch);
	finish(&w);
	is_int(waiter.fired, 2, "the result is told");
	ok(arrival_ready(&frames) & EPOLLHUP && !arrival_ready(&out), "frames is whole");
	watch_add(&w.ex->arrival.changed, &waiter.watch);
	streams_end(&w);
	is_int(waiter.fired, 3, "the end is told");
	ok(arrival_ready(&out) & EPOLLHUP, "output is whole");
	is_int(arrival_read(&out, bytes, sizeof(bytes), 8), 0, "and at its end");
	is_int(arrival_read(&frames, bytes, sizeof(bytes), 1 << 20), 0, "behind the end of frames");
	if (ftruncate(w.spool[EXEC_STDOUT], 2) < 0)
		abort();
	is_int(arrival_read(&out, bytes, sizeof(bytes), 0), 5,
	       "a spool that was cut: what is left");
	is_int(arrival_read(&out, bytes, sizeof(bytes), 5), -EIO, "and then an error, not an end");
	arrival_close(&out);
	arrival_close(&frames);
	end(&w);
}

/* A place in what is still open is none to come back to. */
static void test_cursor(void)
{
	struct writer w;

	begin(&w, 6000);
	drained(&w, EXEC_STDOUT, 5);
	finish(&w);
	drained(&w, EXEC_STDOUT, 3);
	ok(look_at_rest(&w, false) && output_is(&w), "read behind the result");
	drained(&w, EXEC_STDERR, 2);
	drained(&w, EXEC_STDOUT, 1);
	ok(look_at_rest(&w, false) && output_is(&w), "and on when there is more");
	end(&w);
}

int main(void)
{
	if (!arrival_test_begin())
		return 1;
	for (uint32_t round = 1; round <= 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(script); i++) {
			seed = round * 1000 + i;
			run_script(i, round * 100 + (uint32_t)i, round == 2);
			crash_script(i, round * 100 + (uint32_t)i + 30);
			crash_behind(i, round * 100 + (uint32_t)i + 60);
		}
	test_cut_file();
	test_parse();
	test_waiting();
	test_cursor();
	ok(arrival_test_end(), "cleaned up");
	return tap_done();
}
