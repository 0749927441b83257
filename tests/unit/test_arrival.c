/* test_arrival.c - the order of two streams: random pieces against a plain model
 *
 * The model is the bytes in the order in which they came.  Of `frames`, where they
 * are cut is the index's to decide, but once: what has been read of it is kept, and
 * must be what everybody reads there for ever, also after a restart.
 */
#include <errno.h>
#include <signal.h>

#include "base/frame.h"
#include "tests/unit/arrival.h"
#include "tests/unit/tap.h"

#define PATIENCE_MS 20000

/* --- readers --- */

struct waiter {
	struct watch watch;
	unsigned fired;
};

static void on_fire(struct watch *watch)
{
	container_of(watch, struct waiter, watch)->fired++;
}

/* Until somebody tells those who wait. */
static bool told(struct exec *ex)
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
static ssize_t read_at(struct arrival_reader *rd, void *bytes, size_t len, uint64_t off)
{
	ssize_t n;

	while ((n = arrival_read(rd, bytes, len, off)) == -EAGAIN && arrival_has(rd, off))
		if (!told(rd->exec))
			break;
	return n;
}

/* From `off` on, as far as it goes, in reads of random sizes; compared with what was read before. */
static bool look(struct writer *w, struct arrival_reader *rd, uint64_t off, size_t most)
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

static bool look_anywhere(struct writer *w, bool frames)
{
	struct buf *seen = frames ? &w->frames : &w->output;
	struct arrival_reader rd;
	bool good = true;

	if (arrival_open(&rd, w->ex, frames, NULL) < 0)
		return false;
	for (int i = 0; i < 20 && good; i++)
		good = look(w, &rd, seen->len ? rnd((uint32_t)seen->len) : 0, 1 + rnd(3000));
	arrival_close(&rd);
	return good;
}

static bool look_at_rest(struct writer *w, bool frames)
{
	return look(w, &w->rd[frames], (frames ? &w->frames : &w->output)->len, SIZE_MAX);
}

/* Whoever is told a size may begin to read there, so it is behind a frame. */
static void ask_size(struct writer *w)
{
	uint64_t size = arrival_size(w->ex, true);

	if (size && w->ex->state != EXEC_DONE && w->sizes < SIZES_MAX)
		w->size[w->sizes++] = size;
}

/* --- what must hold at the end --- */

/* The frames are the first `upto` bytes, in their order, and the result. */
static bool frames_are(struct writer *w, size_t upto)
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

static bool output_is(const struct writer *w)
{
	return w->output.len == w->all.len &&
	       (!w->all.len || memcmp(w->output.data, w->all.data, w->all.len) == 0);
}

/* What nobody had seen may have become stdout first; what was seen has not. */
static bool output_has_all(const struct writer *w)
{
	size_t at[EXEC_STREAM_COUNT] = { 0 };

	for (size_t i = 0; i < w->output.len; i++) {
		int s = w->output.data[i] & 0x80 ? EXEC_STDERR : EXEC_STDOUT;

		if (at[s] >= w->stream[s].len || w->stream[s].data[at[s]++] != w->output.data[i])
			return false;
	}
	return w->output.len == w->all.len;
}

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
	ok(arrival_open(&out, w.ex, false, NULL) == 0 &&
		   arrival_open(&frames, w.ex, true, NULL) == 0,
	   "two readers");
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

/* A read that ends where the disk has to be asked has taken what lies before that. */
static void test_part_in_memory(void)
{
	static char bytes[300000];
	struct writer w;
	ssize_t n;

	begin(&w, 7000);
	drained(&w, EXEC_STDOUT, sizeof(bytes));
	w.ex->stream[EXEC_STDOUT].full = true;
	w.ex->request.keep = true;
	if (fsync(w.spool[EXEC_STDOUT]) < 0 ||
	    posix_fadvise(w.spool[EXEC_STDOUT], 128 << 10, 0, POSIX_FADV_DONTNEED) != 0)
		abort();
	for (int frames = 0; frames < 2; frames++) {
		struct arrival_reader *rd = &w.rd[frames];

		n = arrival_read(rd, bytes, sizeof(bytes), 0);
		printf("# %zd bytes were in memory\n", n);
		ok(n > 0 && !rd->stream[EXEC_STDOUT].jumps, "%s: it has not jumped",
		   frames ? "frames" : "output");
		ok(rd->pos[EXEC_STDOUT] >= (uint64_t)n - 8 * 5 &&
			   rd->pos[EXEC_STDOUT] <= (uint64_t)n,
		   "and is where it has read to");
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

/* The kernel has nothing in its cache, or does not say so. */
static void test_fetch(void)
{
	struct writer w;
	size_t upto;
	char byte = 0;

	many_pieces(&w, 7100);
	upto = w.all.len;
	finish(&w);
	streams_end(&w);
	restart(&w, false);
	/* Of this one it cannot be known whether a read waits. */
	w.ex->arrival.fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	is_int(disk_read_cached(w.ex->arrival.fd, &byte, 1, 0), -EAGAIN, "nothing is cached");
	w.frames.len = w.output.len = 0;
	ok(look_at_rest(&w, true) && frames_are(&w, upto), "frames: the writer reads");
	ok(look_at_rest(&w, false) && output_is(&w), "output: the writer reads");
	ok(look_anywhere(&w, true) && look_anywhere(&w, false), "from anywhere");
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
	struct disk_config config = {
		.loop = &loop, .dirfd = eng.store.fd, .keep = -1, .size = 1 << 18
	};
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
	struct disk_config config;
	char path[96];

	if (!mkdtemp(dir))
		return 1;
	(void)snprintf(path, sizeof(path), "mkdir -p %s/sandboxes/1/spool", dir);
	if (system(path) != 0)
		return 1;
	eng.store.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	config = (struct disk_config){ .loop = &loop, .dirfd = eng.store.fd, .keep = -1 };
	if (ev_init(&loop, NULL) < 0 || disk_new(&eng.disk, &config, NULL) < 0)
		return 1;
	journal.rewritten = UINT64_MAX / 4;
	box = (struct sandbox){ .engine = &eng, .serial = 1, .journal = &journal };
	list_init(&box.execs);
	list_init(&box.stalled);
	list_init(&box.spooled);
	for (uint32_t round = 1; round <= 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(script); i++) {
			seed = round * 1000 + i;
			run_script(i, round * 100 + (uint32_t)i, round == 2);
			crash_script(i, round * 100 + (uint32_t)i + 30);
			crash_behind(i, round * 100 + (uint32_t)i + 60);
		}
	test_cut_file();
	test_parse();
	test_part_in_memory();
	test_waiting();
	test_cursor();
	test_slow();
	test_fetch();
	test_unlink();
	test_no_room();
	(void)close(eng.store.fd);
	disk_free(eng.disk);
	(void)ev_turn(&loop, 0); /* what the loop still had in its hands */
	ev_done(&loop);
	(void)snprintf(path, sizeof(path), "rm -rf %s", dir);
	ok(system(path) == 0, "cleaned up");
	return tap_done();
}
