/* The order of two streams, on a disk that stands still, that has forgotten, and that has no room. */
#include <errno.h>
#include <signal.h>

#include "tests/unit/arrival_look.h"

/* A read of which the disk has to be asked for a part waits for that, and has taken nothing before. */
static void test_part_in_memory(void)
{
	static char bytes[300000];
	struct writer w;
	ssize_t n;

	begin(&w, 7000);
	drained(&w, EXEC_STDOUT, sizeof(bytes));
	w.ex->stream[EXEC_STDOUT].full = true;
	w.ex->request.keep = true;
	for (int frames = 0; frames < 2; frames++) {
		struct arrival_reader *rd = &w.rd[frames];
		const char *name = frames ? "frames" : "output";

		if (fsync(w.spool[EXEC_STDOUT]) < 0 ||
		    posix_fadvise(w.spool[EXEC_STDOUT], 128 << 10, 0, POSIX_FADV_DONTNEED) != 0)
			abort();
		n = arrival_read(rd, bytes, sizeof(bytes), 0);
		if (n == -EAGAIN)
			ok(!rd->stream[EXEC_STDOUT].end,
			   "%s: the disk is asked, and nothing is taken", name);
		else
			ok(true, "%s: # the disk was not asked: it has forgotten nothing", name);
		if (n == -EAGAIN)
			n = read_at(rd, bytes, sizeof(bytes), 0);
		is_int(n, sizeof(bytes), "%s: all of it", name);
		ok(!rd->stream[EXEC_STDOUT].jumps &&
			   rd->stream[EXEC_STDOUT].end == rd->pos[EXEC_STDOUT],
		   "%s: it has not jumped", name);
		ok(rd->pos[EXEC_STDOUT] >= (uint64_t)n - 8 * 5 &&
			   rd->pos[EXEC_STDOUT] <= (uint64_t)n,
		   "%s: and is where it has read to", name);
	}
	w.ex->stream[EXEC_STDOUT].full = false;
	end(&w);
}

/* --- the disk --- */

static void stop_writer(bool stop)
{
	(void)kill(disk_writer_pid(eng.disk), stop ? SIGSTOP : SIGCONT);
}

/* Several blocks, of which somebody may have seen all. */
static void many_pieces(struct writer *w, uint32_t serial)
{
	begin(w, serial);
	for (unsigned i = 0; i < 20000; i++)
		drained(w, i % 2 ? EXEC_STDERR : EXEC_STDOUT, 1);
}

/* Who asks for all of it is not given a part, which he might take for the end. */
static void test_one_read(void)
{
	struct writer w;
	static char bytes[20000];

	many_pieces(&w, 6900);
	is_int(read_at(&w.rd[0], bytes, sizeof(bytes), 0), sizeof(bytes), "many pieces, one read");
	ok(memcmp(bytes, w.all.data, sizeof(bytes)) == 0, "all of them");
	finish(&w);
	streams_end(&w);
	end(&w);
}

static bool has_idx(uint32_t serial)
{
	char path[96];

	path_of(path, serial, "idx");
	(void)disk_wait(eng.disk, PATIENCE_MS);
	return access(path, F_OK) == 0;
}

/* What it has not got to yet is served from memory, and what is not in memory is waited for. */
static void test_slow(void)
{
	struct writer w;
	char bytes[100];
	size_t upto;

	stop_writer(true);
	many_pieces(&w, 7000);
	ok(look_at_rest(&w, false) && look_at_rest(&w, true) && w.ex->arrival.block > 3,
	   "a disk that stands still: read while it runs");
	upto = w.all.len;
	finish(&w);
	streams_end(&w);
	ok(!w.ex->arrival.pieces.cap && look_at_rest(&w, true), "and when it is over");
	w.frames.len = w.output.len = 0;
	ok(look_at_rest(&w, true) && frames_are(&w, upto), "frames, again");
	ok(look_at_rest(&w, false) && output_is(&w), "output, again");
	ok(look_anywhere(&w, true), "from anywhere");
	stop_writer(false);
	ok(has_idx(7000), "it goes on: there is a file");
	ok(look_anywhere(&w, true) && look_anywhere(&w, false), "which is read");
	restart(&w, false);
	stop_writer(true);
	is_int(arrival_read(&w.rd[1], bytes, sizeof(bytes), 0), -EAGAIN, "nothing is in memory");
	ok(arrival_has(&w.rd[1], 0), "but is there");
	stop_writer(false);
	ok(told(w.ex), "who waits is told");
	ok(look_anywhere(&w, true), "and it comes");
	w.frames.len = 0;
	ok(look_at_rest(&w, true) && frames_are(&w, upto), "all of it");
	end(&w);
}

static void test_unlink(void)
{
	struct writer w;
	size_t upto;

	many_pieces(&w, 7200);
	upto = w.all.len;
	finish(&w);
	streams_end(&w);
	(void)disk_wait(eng.disk, PATIENCE_MS);
	w.ex->removed = true;
	arrival_unlink(w.ex);
	ok(!has_idx(7200), "it goes with its command");
	ok(look_at_rest(&w, true) && frames_are(&w, upto), "who has it open reads on");
	end(&w);
}

/* Pieces that find no room are waited with; those that nobody has asked for find it. */
static void test_no_room(void)
{
	struct disk *disk = eng.disk;
	struct disk_config config = { .loop = &loop,
				      .zombies = &eng.zombies,
				      .dirfd = eng.store.fd,
				      .keep = -1,
				      .size = 1 << 18 };
	static const char zeros[4000];
	struct disk_op op = { .what = DISK_WRITE, .name = "filler", .data = zeros };
	struct writer w;
	char bytes[100];

	if (disk_new(&eng.disk, &config, NULL) < 0)
		abort();
	begin(&w, 7300);
	for (int i = 0; i < 100; i++)
		drained(&w, i % 2 ? EXEC_STDERR : EXEC_STDOUT, 1);
	stop_writer(true);
	for (op.len = sizeof(zeros); op.len; op.len /= 2)
		while (disk_put(eng.disk, &op, NULL) == 0)
			;
	is_int(arrival_read(&w.rd[1], bytes, sizeof(bytes), 0), -EAGAIN, "no room for its order");
	ok(arrival_has(&w.rd[1], 0), "which is waited for");
	for (int i = 0; i < 9000; i++)
		drained(&w, i % 2 ? EXEC_STDERR : EXEC_STDOUT, 1);
	ok(w.ex->arrival.block == 2, "what is drained meanwhile has it");
	stop_writer(false);
	ok(told(w.ex), "there is room");
	ok(look_at_rest(&w, true) && look_at_rest(&w, false) && output_is(&w), "it is read");
	end(&w);
	disk_free(eng.disk);
	eng.disk = disk;
}

int main(void)
{
	if (!arrival_test_begin())
		return 1;
	test_part_in_memory();
	test_one_read();
	test_slow();
	test_unlink();
	test_no_room();
	ok(arrival_test_end(), "cleaned up");
	return tap_done();
}
