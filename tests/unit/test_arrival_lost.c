/* output and frames of a command whose streams have lost bytes, or whose index has. */
#include <errno.h>
#include <poll.h>

#include "sandbox/arrival-internal.h"
#include "tests/unit/arrival_look.h"

/* The disk did not take what came behind `size`. */
static void lose(struct writer *w, enum exec_stream which, uint64_t size)
{
	if (ftruncate(w->spool[which], (off_t)size) < 0)
		abort();
	w->ex->stream[which].size = size;
	w->ex->stream[which].truncated = true;
	arrival_lost(w->ex, which);
}

static bool holds(const struct writer *w, enum exec_stream which, size_t at, const char *bytes,
		  size_t len)
{
	return at + len <= w->stream[which].len &&
	       memcmp(w->stream[which].data + at, bytes, len) == 0;
}

/* Bytes of a stream are at that place in `output`. */
static bool finds(struct writer *w, uint64_t off, enum exec_stream which, size_t at, size_t len)
{
	static char bytes[100000];
	size_t done = 0;
	ssize_t n = 1;

	for (; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
		n = read_at(&w->rd[0], bytes + done, len - done, off + done);
	if (done < len)
		printf("# %zu of %zu bytes at %llu: %zd\n", done, len, (unsigned long long)off, n);
	return done == len && holds(w, which, at, bytes, len);
}

/* What nobody had seen is as if it had never come. */
static void test_unseen(void)
{
	struct writer w;

	begin(&w, 1);
	close_readers(&w);
	w.ex->arrival.looked = false;
	drained(&w, EXEC_STDOUT, 1000);
	drained(&w, EXEC_STDERR, 100);
	lose(&w, EXEC_STDOUT, 400);
	open_readers(&w);
	is_int((long long)arrival_size(w.ex, false), 500, "unseen: what is left counts");
	ok(finds(&w, 0, EXEC_STDOUT, 0, 400) && finds(&w, 400, EXEC_STDERR, 0, 100),
	   "unseen: and is read");
	drained(&w, EXEC_STDERR, 100);
	finish(&w);
	streams_end(&w);
	for (int restarts = 0; restarts < 2; restarts++) {
		w.frames.len = w.output.len = 0;
		ok(look_at_rest(&w, false) && w.output.len == 600, "unseen: output to its end");
		ok(look_at_rest(&w, true) && w.frames.len == arrival_size(w.ex, true),
		   "unseen: frames to their end");
		ok(w.frames.len > 700 && memmem(w.frames.data, w.frames.len, "exit_code", 9),
		   "unseen: with the result");
		restart(&w, false);
	}
	end(&w);
}

/* What somebody may have read keeps its place. */
static void lost_at(struct writer *w, const char *when)
{
	char bytes[3000];
	uint64_t size = arrival_size(w->ex, false);

	ok(finds(w, 0, EXEC_STDOUT, 0, 400), "%s: what is in front of it is there", when);
	is_int(arrival_read(&w->rd[0], bytes, 10, 400), -EIO, "%s: what was lost is not", when);
	is_int(arrival_read(&w->rd[0], bytes, 10, 999), -EIO, "%s: up to its end", when);
	ok(finds(w, 1000, EXEC_STDERR, 0, 100), "%s: what is behind it is where it was", when);
	is_int(read_at(&w->rd[1], bytes, 408, 0), 408, "%s: frames: in front of it", when);
	ok(holds(w, EXEC_STDOUT, 0, bytes + 8, 400), "%s: frames: the right bytes", when);
	is_int(arrival_read(&w->rd[1], bytes, 10, 408), -EIO, "%s: frames: lost", when);
	is_int(read_at(&w->rd[1], bytes, 108, 1008), 108, "%s: frames: behind it", when);
	ok(bytes[0] == FRAME_STDERR && holds(w, EXEC_STDERR, 0, bytes + 8, 100),
	   "%s: frames: the next one", when);
	is_int((long long)size, 1300, "%s: the size is as it was", when);
	is_int(arrival_read(&w->rd[1], bytes, 10, 1116), -EIO, "%s: frames: all of it lost", when);
}

static void test_seen(void)
{
	struct writer w;
	char bytes[3000];
	uint64_t exit;

	begin(&w, 2);
	drained(&w, EXEC_STDOUT, 1000);
	drained(&w, EXEC_STDERR, 100);
	ok(look_at_rest(&w, true) && w.frames.len == 1116, "seen: frames");
	drained(&w, EXEC_STDOUT, 200);
	ok(look_at_rest(&w, false) && w.output.len == 1300, "seen: output");
	lose(&w, EXEC_STDOUT, 400);
	lost_at(&w, "seen");
	is_int(arrival_read(&w.rd[0], bytes, 10, 1300), -EAGAIN, "seen: its end is waited at");
	finish(&w);
	lost_at(&w, "seen, with a result");
	streams_end(&w);
	lost_at(&w, "seen, at its end");
	is_int(arrival_read(&w.rd[0], bytes, 10, 1300), 0, "seen: which is its end");
	exit = 1116 + 208;
	ok(read_at(&w.rd[1], bytes, 10, exit) == 10 && bytes[0] == FRAME_EXIT, "seen: the result");
	restart(&w, false);
	lost_at(&w, "seen, after a restart");
	ok(read_at(&w.rd[1], bytes, 10, exit) == 10 && bytes[0] == FRAME_EXIT,
	   "seen: the result is where it was");
	end(&w);
}

/* Also when the command has ended already, and frames have their end. */
static void test_behind_the_end(void)
{
	struct writer w;
	char bytes[3000];
	uint64_t exit;

	begin(&w, 3);
	close_readers(&w);
	w.ex->arrival.looked = false;
	drained(&w, EXEC_STDOUT, 1000);
	drained(&w, EXEC_STDERR, 300);
	finish(&w);
	exit = w.ex->arrival.frames_end;
	lose(&w, EXEC_STDOUT, 400);
	streams_end(&w);
	open_readers(&w);
	for (int restarts = 0; restarts < 2; restarts++) {
		ok(finds(&w, 1000, EXEC_STDERR, 0, 300), "behind the end: nothing moves");
		is_int(arrival_read(&w.rd[0], bytes, 10, 500), -EIO, "behind the end: lost");
		ok(read_at(&w.rd[1], bytes, 10, exit) == 10 && bytes[0] == FRAME_EXIT,
		   "behind the end: the result stays");
		restart(&w, false);
	}
	end(&w);
}

/* Every byte that is read is the right one, whatever has become of the file. */
static bool nothing_wrong(struct writer *w, bool frames, unsigned *ret_fail)
{
	static char bytes[5000];
	const struct buf *seen = frames ? &w->frames : &w->output;
	struct arrival_reader rd;
	bool good = true;

	*ret_fail = 0;
	arrival_open(&rd, w->ex, frames);
	for (int i = 0; i < 400 && good; i++) {
		size_t off = rnd((uint32_t)seen->len);
		ssize_t n = read_at(&rd, bytes, 1 + rnd(sizeof(bytes)), off);

		*ret_fail += n == -EIO;
		good = n == -EIO || (n > 0 && off + (size_t)n <= seen->len &&
				     memcmp(seen->data + off, bytes, (size_t)n) == 0);
		if (!good)
			printf("# %s at %zu: %zd\n", frames ? "frames" : "output", off, n);
	}
	arrival_close(&rd);
	return good;
}

static void test_gap_in_index(void)
{
	static const struct {
		const char *what;
		off_t from, to;
	} gaps[] = { { "its beginning", 0, 4 * ARRIVAL_BLOCK },
		     { "a block", 2 * ARRIVAL_BLOCK, 3 * ARRIVAL_BLOCK },
		     { "some blocks", ARRIVAL_BLOCK, 4 * ARRIVAL_BLOCK },
		     { "a part of a block", ARRIVAL_BLOCK + 1000, ARRIVAL_BLOCK + 2000 },
		     { "the end of a block", ARRIVAL_BLOCK + 3000, 2 * ARRIVAL_BLOCK } };
	static const char zeros[4 * ARRIVAL_BLOCK];

	for (size_t i = 0; i < ARRAY_SIZE(gaps); i++) {
		struct writer w;
		char path[96];
		auto_close int fd = -1;
		unsigned fail;

		begin(&w, 10 + (uint32_t)i);
		for (unsigned n = 0; n < 20000; n++)
			drained(&w, n % 2 ? EXEC_STDERR : EXEC_STDOUT, 1 + n % 3);
		finish(&w);
		streams_end(&w);
		ok(look_at_rest(&w, false) && look_at_rest(&w, true), "%s: first all is read",
		   gaps[i].what);
		restart(&w, false);
		path_of(path, w.ex->serial, "idx");
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (pwrite(fd, zeros, (size_t)(gaps[i].to - gaps[i].from), gaps[i].from) < 0)
			abort();
		for (int frames = 0; frames < 2; frames++) {
			ok(nothing_wrong(&w, frames, &fail), "%s is zeros: nothing is wrong",
			   gaps[i].what);
			ok(fail > 0 && fail < 400, "%s is zeros: %u of 400 fail", gaps[i].what,
			   fail);
		}
		end(&w);
	}
}

int main(void)
{
	if (!arrival_test_begin())
		return 1;
	test_unseen();
	test_seen();
	test_behind_the_end();
	test_gap_in_index();
	ok(arrival_test_end(), "cleaned up");
	return tap_done();
}
