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
	ok(arrival_test_end(), "cleaned up");
	return tap_done();
}
