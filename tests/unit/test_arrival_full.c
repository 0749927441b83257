/* Streams that are full, and readers of output and frames who wait for them. */
#include "tests/unit/arrival_look.h"

static void many(struct writer *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		drained(w, i % 2 ? EXEC_STDERR : EXEC_STDOUT, 1);
}

/* What was only looked at on the way to small pieces is not consumed: it is not given back yet. */
static void test_full(void)
{
	struct writer w;
	char bytes[1000];
	bool good = true;

	begin(&w, 5);
	w.ex->request.output_limit = 60000;
	many(&w, 50000);
	for (int frames = 0; frames < 2; frames++) {
		const uint64_t end = frames ? 50000 * 9 : 50000;
		uint64_t off = 0;

		while (off < end && good) {
			ssize_t n;

			for (int i = 0; i < EXEC_STREAM_COUNT; i++)
				if (frames && !w.ex->stream[i].full) {
					w.ex->stream[i].full = true;
					list_add_tail(&box.stalled, &w.ex->stream[i].stalled);
				}
			n = read_at(&w.rd[frames], bytes, 1 + rnd(sizeof(bytes)), off);
			good = n > 0;
			if (!good)
				printf("# %d at %llu: %zd\n", frames, (unsigned long long)off, n);
			off += n > 0 ? (uint64_t)n : 0;
		}
		ok(good, "full: all is there for who reads, %d", frames);
		if (!frames)
			arrival_close(&w.rd[0]); /* else it would hold what it has read */
	}
	arrival_open(&w.rd[0], w.ex, false);
	ok(w.ex->stream[0].given > 20000 && w.ex->stream[1].given > 20000, "full: and then goes");
	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		list_del(&w.ex->stream[i].stalled);
	end(&w);
}

/* Who has come to the result in frames reads no further: it holds nothing of what children that were
 * left behind say, as if it were closed. */
static void test_frames_end(void)
{
	struct writer w;

	begin(&w, 6);
	arrival_close(&w.rd[0]);
	w.ex->request.output_limit = 60000;
	many(&w, 100);
	finish(&w);
	ok(look_at_rest(&w, true), "frames: to their end");
	many(&w, 50000);
	w.ex->stream[EXEC_STDOUT].full = true;
	list_add_tail(&box.stalled, &w.ex->stream[EXEC_STDOUT].stalled);
	arrival_open(&w.rd[0], w.ex, false);
	ok(look_at_rest(&w, false), "frames: another one reads output");
	ok(w.ex->stream[EXEC_STDOUT].given > 20000, "frames: which goes then");
	list_del(&w.ex->stream[EXEC_STDOUT].stalled);
	end(&w);
}

int main(void)
{
	if (!arrival_test_begin())
		return 1;
	test_full();
	test_frames_end();
	ok(arrival_test_end(), "cleaned up");
	return tap_done();
}
