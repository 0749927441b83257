/* Readers of what is on the disk: files that cannot be opened just now, and those who leave while it is asked. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/unit/arrival_look.h"

/* What fails, in the writer too. The functions below take the place of libc's. */
static struct {
	bool no_open; /* EMFILE, of a spool or an index to read */
	bool cold;    /* nothing is in the kernel's cache */
} * shared;

int openat(int at, const char *name, int flags, ...)
{
	const char *end = strrchr(name, '.');
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (shared->no_open && !(flags & O_CREAT) && end &&
	    (!strcmp(end, ".out") || !strcmp(end, ".idx"))) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, at, name, flags, mode);
}

ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t off, int flags)
{
	if (shared->cold && flags & RWF_NOWAIT) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_preadv2, fd, iov, n, (long)off, 0L, flags);
}

#define LEN 1000

static void begin_closed(struct writer *w, uint32_t serial)
{
	begin(w, serial);
	drained(w, EXEC_STDOUT, LEN);
	close_auto(&w->ex->stream[EXEC_STDOUT].spool); /* the writer has to open it */
}

static ssize_t get(struct stream_reader *rd)
{
	char bytes[2 * LEN];

	return stream_read(rd, bytes, sizeof(bytes), 0);
}

/* --- a file that cannot be opened --- */

/* As of a disk that fails now and then: EIO once, and the next read asks it again. */
static void test_spool_not_opened(void)
{
	struct writer w;
	struct stream_reader a, b, c;

	begin_closed(&w, 7000);
	stream_open(&a, &w.ex->stream[EXEC_STDOUT]);
	stream_open(&b, &w.ex->stream[EXEC_STDOUT]);
	stream_open(&c, &w.ex->stream[EXEC_STDOUT]);
	shared->no_open = true;
	ok(get(&a) == -EAGAIN && get(&b) == -EAGAIN && told(w.ex), "spool: it cannot be opened");
	is_int(get(&a), -EIO, "spool: who waited is told");
	is_int(get(&a), -EAGAIN, "spool: and asks again");
	ok(told(w.ex), "spool: in vain");
	is_int(get(&b), -EIO, "spool: another who waited is told too");
	is_int(get(&a), -EIO, "spool: the first one again");
	shared->no_open = false;
	is_int(get(&c), -EAGAIN, "spool: who has not asked yet is told nothing");
	ok(told(w.ex), "spool: now it can");
	is_int(get(&c), LEN, "spool: read");
	is_int(get(&a), LEN, "spool: by all");
	is_int(get(&b), LEN, "spool: of them");
	stream_close(&a);
	stream_close(&b);
	stream_close(&c);
	end(&w);
}

/* An index of several blocks, all of them on the disk. */
static void many_pieces(struct writer *w, uint32_t serial)
{
	begin(w, serial);
	for (unsigned i = 0; i < 20000; i++)
		drained(w, i % 2 ? EXEC_STDERR : EXEC_STDOUT, 1);
	finish(w);
	streams_end(w);
	restart(w, false);
}

static void test_index_not_opened(void)
{
	struct writer w;
	char bytes[100];

	many_pieces(&w, 7100);
	shared->no_open = true;
	ok(arrival_read(&w.rd[0], bytes, 10, 0) == -EAGAIN && told(w.ex),
	   "index: it cannot be opened");
	arrival_close(&w.rd[0]);
	arrival_open(&w.rd[0], w.ex, false);
	is_int(arrival_read(&w.rd[1], bytes, 10, 0), -EAGAIN,
	       "index: who has not asked yet is told nothing");
	ok(told(w.ex), "index: in vain");
	is_int(arrival_read(&w.rd[1], bytes, 10, 0), -EIO, "index: who waited is told");
	shared->no_open = false;
	ok(look_at_rest(&w, true) && look_at_rest(&w, false) && output_is(&w),
	   "index: then it is asked again, and read");
	end(&w);
}

/* --- what is in no memory --- */

static void test_cold(void)
{
	struct writer w;
	size_t upto;

	many_pieces(&w, 7200);
	upto = w.all.len;
	shared->cold = true;
	w.frames.len = w.output.len = 0;
	ok(look_at_rest(&w, true) && frames_are(&w, upto), "cold: frames: the writer reads");
	ok(look_at_rest(&w, false) && output_is(&w), "cold: output: the writer reads");
	ok(look_anywhere(&w, true) && look_anywhere(&w, false), "cold: from anywhere");
	shared->cold = false;
	end(&w);
}

/* --- a file that has gone --- */

/* As of any file: who has it open reads on, also what is in no memory. */
static void test_removed(void)
{
	struct writer w;
	struct stream_reader rd;

	begin_closed(&w, 7250);
	streams_end(&w);
	stream_open(&rd, &w.ex->stream[EXEC_STDOUT]);
	ok(get(&rd) == -EAGAIN && told(w.ex) && get(&rd) == LEN, "removed: it was read before");
	retain_forget(&w.ex->stream[EXEC_STDOUT]);
	(void)disk_wait(eng.disk, PATIENCE_MS);
	shared->cold = true;
	ok(get(&rd) == -EAGAIN && told(w.ex), "removed: it is in no memory");
	is_int(get(&rd), LEN, "removed: and read");
	shared->cold = false;
	stream_close(&rd);
	end(&w);
}

/* Who has not read yet has it opened by its removal. */
static void test_removed_first(void)
{
	struct writer w;
	struct stream_reader rd;

	begin_closed(&w, 7300);
	streams_end(&w);
	stream_open(&rd, &w.ex->stream[EXEC_STDOUT]);
	retain_forget(&w.ex->stream[EXEC_STDOUT]);
	is_int(get(&rd), -EAGAIN, "removed at once: it is being opened");
	ok(told(w.ex), "removed at once: it is open");
	is_int(get(&rd), LEN, "removed at once: and read");
	stream_close(&rd);
	end(&w);
}

static void test_index_removed(void)
{
	struct writer w;
	size_t upto;

	many_pieces(&w, 7400);
	upto = w.all.len;
	ok(look(&w, &w.rd[1], 0, 10), "index removed: it was read before");
	w.ex->removed = true;
	arrival_unlink(w.ex);
	(void)disk_wait(eng.disk, PATIENCE_MS);
	shared->cold = true;
	w.frames.len = w.output.len = 0;
	ok(look_at_rest(&w, true) && frames_are(&w, upto), "index removed: it is read");
	ok(look_anywhere(&w, true) && look_at_rest(&w, false) && output_is(&w),
	   "index removed: from anywhere");
	shared->cold = false;
	end(&w);
}

/* --- who leaves while the disk is asked --- */

static void stop_writer(bool stop)
{
	(void)kill(disk_writer_pid(eng.disk), stop ? SIGSTOP : SIGCONT);
}

/* Until all that was asked is answered, whoever wants to hear it. */
static void writer_goes_on(void)
{
	stop_writer(false);
	(void)disk_wait(eng.disk, PATIENCE_MS);
	for (int64_t end = ev_now() + 50000000; ev_now() < end;)
		(void)ev_turn(&loop, 10);
}

static int fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A handle goes while its spool is opened, or read; its node may go before. */
static void test_leaves(bool opening, bool removed)
{
	const char *what = opening ? "leaves an opening" : "leaves a fetch";
	struct writer w;
	struct stream *st;
	struct stream_reader rd, other;
	int before = fds();

	begin_closed(&w, 7600);
	streams_end(&w);
	close_readers(&w); /* else somebody has it open */
	st = &w.ex->stream[EXEC_STDOUT];
	stream_open(&rd, st);
	if (!opening)
		ok(get(&rd) == -EAGAIN && told(w.ex) && get(&rd) == LEN, "%s: read before", what);
	shared->cold = true;
	stop_writer(true);
	is_int(get(&rd), -EAGAIN, "%s: the writer is asked", what);
	if (removed)
		retain_forget(st);
	stream_close(&rd);
	writer_goes_on();
	is_int(st->spool, -1, "%s: nobody has it open", what);
	stream_open(&other, st);
	stop_writer(true);
	(void)get(&other);
	stop_writer(false);
	ok(removed || told(w.ex), "%s: who comes later is served", what);
	shared->cold = false;
	is_int(get(&other), removed ? -EIO : LEN, "%s: or told that it is gone", what);
	stream_close(&other);
	open_readers(&w);
	end(&w);
	is_int(fds(), before, "%s: no descriptor is left", what);
}

/* The last reference goes with a handle that waits for an opening: nothing is told to what is not there. */
static void test_dropped(void)
{
	struct writer w;
	struct stream_reader rd;
	int before = fds();

	begin_closed(&w, 7700);
	streams_end(&w);
	stop_writer(true);
	stream_open(&rd, &w.ex->stream[EXEC_STDOUT]);
	is_int(get(&rd), -EAGAIN, "dropped: the writer is asked");
	stream_close(&rd);
	end(&w);
	writer_goes_on();
	is_int(fds(), before, "dropped: no descriptor is left");
}

static void test_index_leaves(void)
{
	struct writer w;
	char bytes[100];
	int before = fds();

	many_pieces(&w, 7800);
	for (int fetch = 0; fetch < 2; fetch++) {
		ok(!fetch || look(&w, &w.rd[1], 0, 10), "index: read before");
		ok((w.ex->arrival.fd >= 0) == fetch, "index: so it is open");
		shared->cold = true;
		stop_writer(true);
		is_int(arrival_read(&w.rd[1], bytes, 10, 100000), -EAGAIN,
		       "index: the writer is asked");
		ok(fetch ? w.rd[1].fetch.ticket : w.ex->arrival.opening.ticket, "index: for that");
		close_readers(&w);
		writer_goes_on();
		is_int(w.ex->arrival.fd, -1, "index: nobody has it open");
		shared->cold = false;
		open_readers(&w);
	}
	ok(look(&w, &w.rd[1], 0, 10), "index: who comes later is served");
	end(&w);
	is_int(fds(), before, "index: no descriptor is left");
}

int main(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || !arrival_test_begin())
		return 1;
	test_spool_not_opened();
	test_index_not_opened();
	test_cold();
	test_removed();
	test_removed_first();
	test_index_removed();
	for (int i = 0; i < 4; i++)
		test_leaves(i & 1, i & 2);
	test_dropped();
	test_index_leaves();
	ok(arrival_test_end(), "cleaned up");
	return tap_done();
}
