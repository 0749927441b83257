/* One stream and its readers: what they hold, and what is sent to them from
 * where it is. */
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

/* Who waited behind the end, and went, has got nothing: what others may want
 * stays. */
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

/* --- what is sent from where it is --- */

#define MUCH ((size_t)1 << 20)

/* The loop does not wait for what lies in the middle. */
static void test_cold(void)
{
	struct writer w;
	struct stream *st = begin_with(&w, 4, 0);
	struct stream_reader rd;
	int fd = -1;
	char byte;

	while (st->size < MUCH)
		drained(&w, EXEC_STDOUT, MUCH / 4);
	if (fsync(w.spool[EXEC_STDOUT]) < 0)
		exit(1);
	stream_open(&rd, st);
	is_int(stream_extent(&rd, 1, MUCH, 0, &fd), (long long)MUCH, "all of it is in memory");
	ok(fd == st->spool, "and comes from the spool");
	if (posix_fadvise(w.spool[EXEC_STDOUT], MUCH / 4, MUCH / 2, POSIX_FADV_DONTNEED) != 0)
		exit(1);
	if (disk_read_cached(st->spool, &byte, 1, MUCH / 2) == -EAGAIN) {
		is_int(stream_extent(&rd, 1, MUCH, 0, &fd), 0, "its middle is not: not sent");
		is_int(stream_extent(&rd, 1, MUCH / 4, 0, &fd), (long long)MUCH / 4,
		       "what lies in front of that is");
	} else {
		printf("ok %d - its middle # SKIP nothing goes out of this memory\n", ++tap_n);
	}
	stream_close(&rd);
	end_with(&w);
}

int main(void)
{
	if (!arrival_test_begin())
		return 1;
	eng.limits.sandbox_output = UINT64_MAX / 2;
	test_behind_the_end();
	test_cold();
	ok(arrival_test_end(), "nothing is left");
	return tap_done();
}
