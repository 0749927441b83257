/* One stream and its readers: what they hold. */
#include <errno.h>

#include "tests/unit/arrival.h"
#include "tests/unit/tap.h"

/* A running command with `len` bytes of stdout that nobody reads. */
static struct stream *begin_with(struct writer *w, uint32_t serial, size_t len)
{
	begin(w, serial);
	close_readers(w);
	drained(w, EXEC_STDOUT, len);
	return &w->ex->stream[EXEC_STDOUT];
}

static void end_with(struct writer *w)
{
	open_readers(w);
	end(w);
}

/* --- what was consumed --- */

/* Who waited behind the end, and went, has got nothing: what others may want stays. */
static void test_behind_the_end(void)
{
	struct writer w;
	struct stream *st = begin_with(&w, 1, 8000);
	struct stream_reader rd;
	char byte;

	w.ex->request.output_limit = 8000;
	stream_open(&rd, st);
	is_int(stream_read(&rd, &byte, 1, UINT64_C(1) << 40), -EAGAIN, "behind the end: nothing");
	stream_close(&rd);
	drained(&w, EXEC_STDOUT, 4000);
	w.ex->request.output_limit = 12000;
	retain_stall(st);
	ok(st->given <= 8000, "behind the end: what came later was not consumed");
	retain_consumed(st);
	end_with(&w);
}

int main(void)
{
	if (!arrival_test_begin())
		return 1;
	eng.limits.sandbox_output = UINT64_MAX / 2;
	test_behind_the_end();
	ok(arrival_test_end(), "nothing is left");
	return tap_done();
}
