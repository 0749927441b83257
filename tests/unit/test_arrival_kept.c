/* The index of an order is output that is kept: it counts, is given back, and goes with the streams. */
#include <errno.h>

#include "sandbox/arrival-internal.h"
#include "tests/unit/arrival_look.h"

static off_t idx_size(uint32_t serial, blkcnt_t *ret_blocks)
{
	struct stat st = { 0 };
	char path[96];

	path_of(path, serial, "idx");
	(void)disk_wait(eng.disk, PATIENCE_MS);
	if (stat(path, &st) < 0)
		st.st_size = -1;
	*ret_blocks = st.st_blocks;
	return st.st_size;
}

static void many(struct writer *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		drained(w, i % 2 ? EXEC_STDERR : EXEC_STDOUT, 1);
}

static void test_counts(void)
{
	struct writer w;
	blkcnt_t blocks;

	begin(&w, 1);
	many(&w, 30000);
	ok(box.stored >= 28000 && box.stored <= 32000, "counts: %d bytes while it runs",
	   (int)box.stored);
	finish(&w);
	streams_end(&w);
	is_int((long long)box.stored, (long long)idx_size(1, &blocks), "counts: all of the file");
	box.stored = 0; /* of a new hutchd */
	restart(&w, false);
	is_int((long long)box.stored, 30000 + (long long)idx_size(1, &blocks),
	       "counts: after a restart");
	w.ex->removed = true;
	arrival_unlink(w.ex);
	is_int((long long)box.stored, 30000, "counts: until it is removed");
	end(&w);
}

/* Blocks in front of what a stream has given back go. */
static bool nothing_wrong(struct writer *w, int frames)
{
	const struct buf *seen = frames ? &w->frames : &w->output;

	for (int i = 0; i < 300; i++) {
		size_t off = rnd(rnd(2) ? 8000 : (uint32_t)seen->len);
		char byte = 0;
		ssize_t n = read_at(&w->rd[frames], &byte, 1, off);

		if (n != -EIO && (n != 1 || byte != seen->data[off]))
			return false;
	}
	return true;
}

static void test_given(void)
{
	struct writer w;
	char byte;
	uint64_t most = 0, size, exit;
	blkcnt_t blocks;
	size_t step = 5000;
	ssize_t n;

	begin(&w, 2);
	drained(&w, EXEC_STDERR, 1); /* and is never given back */
	for (unsigned i = 0; i < 40; i++) {
		many(&w, (unsigned)step);
		ok(look_at_rest(&w, false) && look_at_rest(&w, true), "given: it is read");
		w.ex->stream[EXEC_STDOUT].given = w.ex->stream[EXEC_STDOUT].size;
		arrival_given(w.ex);
		most = most > w.ex->arrival.stored ? most : w.ex->arrival.stored;
	}
	ok(most <= 4 * step, "given: %d bytes at most", (int)most);
	size = (uint64_t)idx_size(2, &blocks);
	ok(size > 190000 && blocks < 100, "given: %d bytes in %d blocks", (int)size, (int)blocks);
	is_int(arrival_read(&w.rd[0], &byte, 1, 0), -EIO, "given: in front of it");
	finish(&w);
	streams_end(&w);
	exit = w.ex->arrival.frames_end;
	for (int restarts = 0; restarts < 3; restarts++) {
		is_int(read_at(&w.rd[0], &byte, 1, 1000), -EIO, "given: it stays away");
		is_int(read_at(&w.rd[1], &byte, 1, 1000), -EIO, "given: from frames too");
		ok(nothing_wrong(&w, 0) && nothing_wrong(&w, 1), "given: or it is right");
		ok(read_at(&w.rd[1], &byte, 1, exit) == 1 && byte == FRAME_EXIT,
		   "given: the result is at its place");
		n = read_at(&w.rd[0], &byte, 1, w.all.len - 1);
		ok(n == 1 && byte == w.all.data[w.all.len - 1], "given: the last byte is there");
		restart(&w, false);
		ok(w.ex->arrival.stored <= 4 * step, "given: and does not count, %d",
		   (int)w.ex->arrival.stored);
	}
	w.ex->removed = true;
	arrival_unlink(w.ex);
	end(&w);
}

/* With the streams of a command that is over, when others need the room. */
static void test_given_up(void)
{
	struct writer w, other;
	uint64_t exit;
	blkcnt_t blocks;
	char byte;

	box.stored = 0;
	begin(&other, 4); /* which begins a new journal */
	begin(&w, 3);
	many(&w, 20000);
	finish(&w);
	streams_end(&w);
	exit = w.ex->arrival.frames_end;
	close_readers(&w);
	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		retain_count(&w.ex->stream[i]);
	retain_over(w.ex);
	ok(box.stored > 40000, "given up: %d bytes", (int)box.stored);
	box.spec.output_max = 30000;
	is_int((long long)retain_room(&other.ex->stream[0]), 30000, "given up: there is room");
	is_int((long long)idx_size(3, &blocks), -1, "given up: no file is left");
	open_readers(&w);
	for (int restarts = 0; restarts < 3; restarts++) {
		is_int(read_at(&w.rd[0], &byte, 1, 0), -EIO, "given up: output");
		is_int(read_at(&w.rd[1], &byte, 1, 0), -EIO, "given up: frames");
		is_int(read_at(&w.rd[1], &byte, 1, exit - 1), -EIO, "given up: to its end");
		ok(read_at(&w.rd[1], &byte, 1, exit) == 1 && byte == FRAME_EXIT,
		   "given up: the result is at its place");
		for (int i = 0; i < EXEC_STREAM_COUNT && !restarts; i++) {
			char path[96];

			path_of(path, 3, ending[i]);
			(void)unlink(path); /* of a stream that is empty by the disk's account */
		}
		restart(&w, false);
		is_int((long long)box.stored, 0, "given up: nothing counts");
	}
	end(&w);
	end(&other);
	box.spec.output_max = 0;
}

int main(void)
{
	if (!arrival_test_begin())
		return 1;
	test_counts();
	test_given();
	test_given_up();
	ok(arrival_test_end(), "cleaned up");
	return tap_done();
}
