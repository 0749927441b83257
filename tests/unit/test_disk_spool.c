/* Bytes of commands: through the ring and found there, and read back from the disk. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/watch.h"
#include "tests/unit/disk_bytes.h"

/* --- through the ring --- */

static long long wrong_in_ring(struct disk *d, struct disk_spool *sp, size_t step)
{
	char bytes[5000];
	long long bad = 0;

	for (uint64_t off = 0; off < sp->size;) {
		size_t n = disk_spool_peek(d, sp, bytes, step, off);

		if (!n)
			return -1;
		for (size_t i = 0; i < n; i++)
			bad += bytes[i] != byte_at(off + i);
		off += n;
	}
	return bad;
}

static void test_fill(void)
{
	struct disk *d = begin(1 << 20, -1);
	struct disk_spool a, b;
	struct disk_fill fill = { .name = "filled", .len = 100000 };
	int fd[2];
	char byte;

	disk_spool_init(d, &a, 0, NULL);
	disk_spool_init(d, &b, 0, NULL);
	make_pipe(fd);
	fill.fd = fd[0];
	is_int(disk_spool_fill(d, &a, &fill), -EAGAIN, "fill: an empty pipe");
	(void)kill(disk_writer_pid(d), SIGSTOP);
	for (int i = 0; i < 100; i++) {
		(void)put_bytes(fd[1], a.size, 1 + (size_t)i * 13 % 500);
		(void)disk_spool_fill(d, &a, &fill);
		if (i % 3 == 0) {
			(void)put_bytes(fd[1], b.size, 10);
			fill.name = "other";
			(void)disk_spool_fill(d, &b, &fill);
			fill.name = "filled";
		}
	}
	ok(a.size > 10000 && b.size == 340, "fill: %d bytes", (int)a.size);
	is_int(wrong_in_ring(d, &a, 5000), 0, "peek: all of it");
	is_int(wrong_in_ring(d, &a, 1), 0, "peek: byte by byte");
	is_int(wrong_in_ring(d, &b, 7), 0, "peek: the other one");
	is_int((long long)disk_spool_peek(d, &a, &byte, 1, a.size), 0, "peek: at its end");
	(void)kill(disk_writer_pid(d), SIGCONT);
	is_int(disk_wait(d, PATIENCE_MS), 0, "fill: written");
	is_int((long long)size_of("filled"), (long long)a.size, "fill: as many bytes");
	is_int(wrong_in("filled") + wrong_in("other"), 0, "fill: the right ones");
	(void)disk_has_room(d, 0); /* looks how far the writer is */
	is_int((long long)disk_spool_peek(d, &a, &byte, 1, 0), 0, "peek: they are on the disk");
	(void)put_bytes(fd[1], a.size, 10);
	(void)disk_spool_fill(d, &a, &fill);
	disk_spool_done(d, &b);
	ok(disk_spool_peek(d, &a, &byte, 1, a.size - 1) == 1 && byte == byte_at(a.size - 1),
	   "peek: and what came later");
	(void)close(fd[1]);
	is_int(disk_spool_fill(d, &a, &fill), 0, "fill: the end of a pipe");
	disk_spool_done(d, &a);
	disk_free(d);
	(void)close(fd[0]);
	is_int(wrong_in("filled"), 0, "fill: what was forgotten is written");
}

/* From memory: between those of a pipe, and in the part that is kept when it must. */
static void test_put(void)
{
	struct disk *d = begin(1 << 18, -1);
	static char bytes[4000], seen[2 * sizeof(bytes)];
	struct disk_bytes b = { .name = "put", .bytes = bytes, .len = sizeof(bytes), .share = 3 };
	struct disk_spool sp;
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte_at(i);
	disk_spool_init(d, &sp, 0, NULL);
	(void)kill(disk_writer_pid(d), SIGSTOP);
	while (disk_spool_put(d, &sp, &b) == 0)
		n++;
	ok(n > 10 && n * sizeof(bytes) <= 1 << 16 && sp.size == n * sizeof(bytes),
	   "a share takes %u", n);
	b.must = true;
	ok(disk_spool_put(d, &sp, &b) == 0 && sp.size == (n + 1) * sizeof(bytes), "one must");
	ok(disk_spool_peek(d, &sp, seen, sizeof(seen), (n - 1) * sizeof(bytes)) == sizeof(seen) &&
		   memcmp(seen, bytes, sizeof(bytes)) == 0 &&
		   memcmp(seen + sizeof(bytes), bytes, sizeof(bytes)) == 0,
	   "it is found behind the others");
	while (disk_spool_put(d, &sp, &b) == 0)
		n++;
	ok(n * sizeof(bytes) < 1 << 18, "and that has an end too");
	(void)kill(disk_writer_pid(d), SIGCONT);
	ok(disk_wait(d, PATIENCE_MS) == 0 && size_of("put") == sp.size, "all is in the file");
	disk_spool_done(d, &sp);
	disk_free(d);
}

/* What comes behind bytes that the disk did not take is not written: whoever finds the file finds the
 * front of the stream, and nothing else. */
static void test_gap(void)
{
	struct disk *d = begin(1 << 18, -1);
	static char bytes[4000];
	struct disk_bytes b = { .name = "gap", .bytes = bytes, .len = sizeof(bytes) };
	struct disk_spool sp;

	disk_spool_init(d, &sp, 0, NULL);
	fsize_limit(d, 10000);
	for (int i = 0; i < 5; i++) {
		for (size_t at_byte = 0; at_byte < sizeof(bytes); at_byte++)
			bytes[at_byte] = byte_at(sp.size + at_byte);
		(void)disk_spool_put(d, &sp, &b);
		is_int(disk_wait(d, PATIENCE_MS), 0, "gap: done");
		if (i == 2)
			fsize_limit(d, RLIM_INFINITY);
	}
	ok(turn_until(sp.lost), "gap: bytes are lost");
	is_int((long long)sp.lost_at, 10000, "gap: from the first that was not taken");
	is_int((long long)size_of("gap"), 10000, "gap: and nothing is behind it");
	is_int(wrong_in("gap"), 0, "gap: in front of it all is right");
	disk_spool_done(d, &sp);
	disk_free(d);
}

/* Round and round the ring, while a reader follows. */
static void test_follow(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct disk_spool sp;
	struct disk_fill fill = { .name = "followed", .len = 5000 };
	auto_close int file = openat(at, "followed", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	uint64_t off = 0;
	long long bad = 0;
	int fd[2];

	disk_spool_init(d, &sp, 0, NULL);
	make_pipe(fd);
	fill.fd = fd[0];
	while (sp.size < 3000000) {
		char bytes[3000];
		ssize_t n;

		(void)put_bytes(fd[1], sp.size, 1 + sp.size % 4000);
		while (disk_spool_fill(d, &sp, &fill) == -ENOBUFS)
			(void)ev_turn(&loop, 10);
		n = (ssize_t)disk_spool_peek(d, &sp, bytes, sizeof(bytes), off);
		if (n == 0 && (n = disk_read_cached(file, bytes, sizeof(bytes), off)) < 0)
			n = pread(file, bytes, sizeof(bytes), (off_t)off);
		for (ssize_t i = 0; i < n; i++)
			bad += bytes[i] != byte_at(off + (uint64_t)i);
		bad += n <= 0 && off < sp.size;
		off += n > 0 ? (uint64_t)n : 0;
		(void)ev_turn(&loop, 0);
	}
	is_int(bad, 0, "follow: a reader always finds the next byte");
	disk_spool_done(d, &sp);
	disk_free(d);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

/* --- from the disk --- */

static void test_fetch(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct answer open = { .done.fn = on_answer }, fetch = open, none = open;
	char bytes[100] = "";

	is_int(disk_open(d, "filled", &open.done, NULL), 0, "open: asked");
	(void)disk_open(d, "none", &none.done, NULL);
	ok(turn_until(open.calls && none.calls), "open: answered");
	is_int(none.code, ENOENT, "open: what is not there");
	ok(pread(open.fd, bytes, 1, 5) == 1 && bytes[0] == byte_at(5), "open: a descriptor");
	is_int(unlinkat(at, "filled", 0), 0, "fetch: of a file that has no name any more");
	is_int(disk_fetch(d, &(struct disk_fetch){ open.fd, 1000, 50 }, &fetch.done, NULL), 0,
	       "fetch: asked");
	ok(turn_until(fetch.calls), "fetch: answered");
	ok(pread(fetch.fd, bytes, 100, 0) == 50 && bytes[49] == byte_at(1049), "fetch: the bytes");
	close_auto(&open.fd);
	close_auto(&fetch.fd);
	disk_free(d);
}

/* --- many at once --- */

#define MANY 300 /* more than the writer is asked for at a time */

struct reads {
	struct answer of[MANY];
	int file;
};

static void ask_one(struct disk *d, struct reads *all, int i)
{
	const struct disk_fetch what = { all->file, (uint64_t)i * 10, 10 };

	all->of[i] = (struct answer){ .done.fn = on_answer, .fd = -1 };
	(void)disk_fetch(d, &what, &all->of[i].done, NULL);
}

static void ask_many(struct disk *d, struct reads *all)
{
	for (int i = 0; i < MANY; i++)
		ask_one(d, all, i);
}

static int answered(const struct reads *all)
{
	int n = 0;

	for (int i = 0; i < MANY; i++)
		n += all->of[i].calls;
	return n;
}

/* That are right; closes them. */
static int right(struct reads *all)
{
	int n = 0;

	for (int i = 0; i < MANY; i++) {
		char byte = 0;

		n += all->of[i].calls == 1 && pread(all->of[i].fd, &byte, 1, 0) == 1 &&
		     byte == byte_at((uint64_t)i * 10);
		close_auto(&all->of[i].fd);
	}
	return n;
}

static void stop_writer(struct disk *d, bool stop)
{
	(void)kill(disk_writer_pid(d), stop ? SIGSTOP : SIGCONT);
}

static void test_many(void)
{
	struct disk *d = begin(1 << 18, -1);
	static struct reads all;
	static const char zeros[1000];
	const struct disk_op more = { .what = DISK_WRITE,
				      .flags = DISK_MUST,
				      .name = "more",
				      .data = zeros,
				      .len = sizeof(zeros) };
	int left = 0;

	all.file = openat(at, "other", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	(void)put_bytes(all.file, 0, MANY * 10);
	stop_writer(d, true);
	for (int i = 0; i < MANY; i++) {
		ask_one(d, &all, 0);
		disk_cancel(d, &all.of[0].done);
	}
	ask_many(d, &all);
	/* Of both kinds: those that the writer has, and the others. */
	for (int i = 0; i < MANY; i += 3)
		disk_cancel(d, &all.of[i].done);
	stop_writer(d, false);
	ok(turn_until(answered(&all) == MANY - MANY / 3), "many: answered");
	is_int(right(&all), MANY - MANY / 3, "many: all but those that nobody wants any more");
	ask_many(d, &all);
	ok(turn_until(answered(&all) == MANY), "many: and again");
	is_int(right(&all), MANY, "many: all of them");

	ask_many(d, &all);
	for (int i = 0; i < 3; i++) {
		(void)turn_until(answered(&all) > left);
		left = answered(&all);
		stop_writer(d, true);
		for (int k = i; k < MANY; k += 7)
			if (all.of[k].done.ticket) {
				disk_cancel(d, &all.of[k].done);
				ask_one(d, &all, k);
			}
		(void)kill(disk_writer_pid(d), SIGKILL);
	}
	ok(turn_until(answered(&all) == MANY), "many: by the next writer");
	is_int(right(&all), MANY, "many: each once");

	stop_writer(d, true);
	ask_many(d, &all);
	for (int i = 0; i < MANY; i++) /* so many that it has to hear the writer */
		(void)disk_put(d, &more, NULL);
	stop_writer(d, false);
	disk_free(d);
	left = 0;
	for (int i = 0; i < MANY; i++)
		left += all.of[i].done.ticket != 0;
	ok(!left && !answered(&all), "many: nobody is told when it ends");
	close_auto(&all.file);
}

int main(void)
{
	if (!disk_test_begin())
		return 1;
	test_fill();
	test_put();
	test_gap();
	test_follow();
	test_fetch();
	test_many();
	return disk_test_end();
}
