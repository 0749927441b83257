/* Bytes of a pipe whose writer does as he likes: pages that cannot be read, packets, buffers without bytes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/pipe_between.h"
#include "tests/unit/badfile.h"
#include "tests/unit/fds.h"
#include "tests/unit/tap.h"

static struct pipe_between between;

static void make_pipe(int *ours, int *theirs)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		exit(1);
	(void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
	*ours = fd[0];
	*theirs = fd[1];
}

/* Those that are open stay so. */
static void limit_fds(rlim_t most)
{
	struct rlimit limit;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void test_discard(void)
{
	auto_close int ours = -1, theirs = -1;
	struct badfile bad;
	char byte;
	int before;

	make_pipe(&ours, &theirs);
	ok(badfile_mount(&bad, EIO), "a file whose pages go");
	before = count_fds();
	is_int(pipe_discard(&between, ours, 100), -EAGAIN,
	       "of an empty pipe nothing is thrown away");
	is_int(write(theirs, "12345", 5), 5, "bytes");
	is_int(pipe_discard(&between, ours, 3), 3, "a part of them");
	is_int((long long)badfile_put(&bad, theirs), BAD_PAGE, "a page");
	is_int(pipe_discard(&between, ours, 2), 2, "the rest");
	is_int(read(ours, &byte, 1) < 0 ? errno : 0, EIO, "which nobody can read");
	is_int(pipe_discard(&between, ours, BAD_PAGE * 2), BAD_PAGE, "goes as well");
	is_int(pipe_discard(&between, ours, 1), -EAGAIN, "nothing is left");
	pipe_between_done(&between);
	is_int(count_fds(), before, "none stays open");
	limit_fds(0);
	is_int(pipe_discard(&between, ours, 1), -EMFILE, "without descriptors");
	limit_fds(RLIM_INFINITY);
	close_auto(&theirs);
	is_int(pipe_discard(&between, ours, 1), 0, "the end");
	badfile_end(&bad);
	pipe_between_done(&between);
}

/* What a writer with O_DIRECT has written is read packet by packet, and in parts. */
static void test_packets(void)
{
	auto_close int ours = -1, theirs = -1;
	char bytes[PIPE_BUF], got[PIPE_BUF * 2];
	int before = count_fds();

	make_pipe(&ours, &theirs);
	(void)fcntl(theirs, F_SETFL, O_DIRECT);
	memset(bytes, 'a', sizeof(bytes));
	bytes[sizeof(bytes) - 1] = 'z';
	is_int(pipe_read(&between, ours, got, 100), -EAGAIN, "packets: there is none");
	is_int(write(theirs, bytes, sizeof(bytes)), sizeof(bytes), "packets: one");
	is_int(pipe_read(&between, ours, got, 100), 100, "packets: a part of it");
	is_int(pipe_read(&between, ours, got, sizeof(bytes)), sizeof(bytes) - 100,
	       "packets: the rest");
	ok(got[sizeof(bytes) - 101] == 'z', "packets: with its end");
	for (int i = 0; i < 10; i++)
		ok(write(theirs, "12345", 5) == 5, "packets: a small one");
	is_int(pipe_read(&between, ours, got, 12), 12, "packets: a part of some");
	ok(memcmp(got, "123451234512", 12) == 0, "packets: in order");
	is_int(pipe_read(&between, ours, got, sizeof(got)), 3, "packets: the rest of the last one");
	is_int(pipe_read(&between, ours, got, 35), 5, "packets: one at a time, where all fit");
	pipe_between_done(&between);
	limit_fds(0);
	is_int(pipe_read(&between, ours, got, 7), -EMFILE,
	       "packets: without descriptors none is read");
	limit_fds(RLIM_INFINITY);
	is_int(pipe_read(&between, ours, got, 7), 7, "packets: nor lost");
	close_auto(&theirs);
	for (int left = 23, n = 0; left > 0; left -= n) {
		n = (int)pipe_read(&between, ours, got, 4);
		ok(n > 0, "packets: %d of those that are left", n);
		if (n <= 0)
			break;
	}
	is_int(pipe_read(&between, ours, got, 4), 0, "packets: the end");
	close_auto(&ours);
	pipe_between_done(&between);
	is_int(count_fds(), before, "packets: no descriptor stays");
}

/* A read(2) goes from what is no packet on to one that follows, and throws away what of that does not fit. */
static void test_mixed(size_t front, size_t len)
{
	enum { MOST = 100000 };
	static char bytes[MOST], got[MOST];
	auto_close int ours = -1, theirs = -1;
	size_t put = 0, at = 0;
	ssize_t n = 0;

	for (size_t i = 0; i < MOST; i++)
		bytes[i] = (char)(i % 251);
	make_pipe(&ours, &theirs);
	(void)fcntl(theirs, F_SETPIPE_SZ, 2 * MOST);
	put += (size_t)write(theirs, bytes, front);
	(void)fcntl(theirs, F_SETFL, O_DIRECT);
	for (int i = 0; i < 4; i++) {
		put += (size_t)write(theirs, bytes + put, PIPE_BUF);
		(void)syscall(SYS_write, theirs, 1, 9);
	}
	(void)fcntl(theirs, F_SETFL, 0);
	put += (size_t)write(theirs, bytes + put, 10);
	close_auto(&theirs);
	while (at < MOST && (n = pipe_read(&between, ours, got + at, len)) > 0)
		at += (size_t)n;
	is_int((long long)at, (long long)put, "mixed, %zu before packets, %zu at a time", front,
	       len);
	ok(n == 0 && memcmp(got, bytes, put) == 0, "mixed: the right bytes");
	pipe_between_done(&between);
}

/* Behind buffers without bytes, which kernels before 6.15 have: -EAGAIN would say that there is nothing. */
static void test_hollow(int hollow, int flags, size_t len)
{
	static char got[PIPE_BUF];
	auto_close int ours = -1, theirs = -1;

	make_pipe(&ours, &theirs);
	(void)fcntl(theirs, F_SETPIPE_SZ, 1 << 20);
	(void)fcntl(theirs, F_SETFL, flags);
	for (int i = 0; i < hollow; i++)
		(void)syscall(SYS_write, theirs, 1, PIPE_BUF);
	is_int(write(theirs, "123456", 6), 6, "%d hollow: bytes", hollow);
	is_int(pipe_read(&between, ours, got, len), (long long)(len < 6 ? len : 6),
	       "%d hollow: are read, %zu of them", hollow, len);
	for (int i = 0; i < hollow; i++)
		(void)syscall(SYS_write, theirs, 1, PIPE_BUF);
	is_int(write(theirs, "78", 2), 2, "%d hollow: more", hollow);
	while (len < 6 && pipe_read(&between, ours, got, 1) > 0 && got[0] != '6')
		;
	is_int(pipe_discard(&between, ours, 9), 2, "%d hollow: are thrown away", hollow);
	is_int(pipe_discard(&between, ours, 9), -EAGAIN, "%d hollow: all", hollow);
	pipe_between_done(&between);
}

/* What fills the pages of a pipe badly comes in pieces as long as what fills them well. */
static void test_odd(void)
{
	static char bytes[1000], got[65536];
	auto_close int ours = -1, theirs = -1;

	make_pipe(&ours, &theirs);
	(void)fcntl(theirs, F_SETPIPE_SZ, 1 << 20);
	for (int i = 0; i < 200; i++)
		(void)!write(theirs, bytes, sizeof(bytes));
	is_int(pipe_read(&between, ours, got, sizeof(got)), sizeof(got),
	       "odd sizes: a whole piece");
	pipe_between_done(&between);
}

int main(void)
{
	test_discard();
	test_packets();
	test_mixed(100, PIPE_BUF);
	test_mixed(100, 1000);
	test_mixed(62000, 65536);
	test_hollow(3, O_DIRECT, PIPE_BUF);
	test_hollow(40, 0, 3);
	test_hollow(200, 0, 3);
	test_hollow(100, O_DIRECT, 3);
	test_odd();
	return tap_done();
}
