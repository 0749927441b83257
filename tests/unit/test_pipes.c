/* Pipes for commands: what is made ahead, when, and what is left of it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/pipes.h"
#include "tests/unit/fds.h"
#include "tests/unit/tap.h"

enum { BEYOND = PIPES_AHEAD + 3 };

static struct ev_loop loop;
static struct pipes all;

static void turn(void)
{
	(void)ev_turn(&loop, 0);
}

/* The loop has nothing else to do. */
static void rest(void)
{
	for (int i = 0; i < 100 && !list_empty(&all.fill.link); i++)
		turn();
}

/* Status flags of one end. */
static int flags(int fd)
{
	return fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK);
}

static void check(bool we_read, const char *when)
{
	auto_close int ours = -1, theirs = -1;
	struct err err = { 0 };
	char byte = 'x', got = '\0';
	int from, to;

	is_int(pipes_take(&all, we_read, &ours, &theirs, &err), 0, "%s: a pipe: %s", when, err.msg);
	from = we_read ? ours : theirs;
	to = we_read ? theirs : ours;
	is_int(flags(ours), (we_read ? O_RDONLY : O_WRONLY) | O_NONBLOCK, "%s: our end", when);
	is_int(flags(theirs), we_read ? O_WRONLY : O_RDONLY, "%s: the command's waits", when);
	ok(fcntl(ours, F_GETFD) == FD_CLOEXEC && fcntl(theirs, F_GETFD) == FD_CLOEXEC,
	   "%s: no program inherits them", when);
	ok(write(to, &byte, 1) == 1 && read(from, &got, 1) == 1 && got == byte, "%s: a byte", when);
	/* Also of one that waited: nobody else has the end that writes. */
	close_auto(&to);
	*(we_read ? &theirs : &ours) = -1;
	is_int(read(from, &got, 1), 0, "%s: the end", when);
}

static void test_ahead(void)
{
	int before = count_fds();
	int64_t start;

	pipes_init(&all, &loop);
	is_int(count_fds(), before, "none is made at first");
	check(true, "before the loop was idle, a stream");
	check(false, "before the loop was idle, an input");
	is_int(count_fds(), before, "they were the taker's");
	turn();
	is_int(count_fds(), before + 2, "an idle loop makes one");
	turn();
	is_int(count_fds(), before + 4,
	       "and then looks for something else before it makes the next");
	rest();
	is_int(count_fds(), before + 2 * PIPES_AHEAD, "until there are some");
	turn();
	is_int(count_fds(), before + 2 * PIPES_AHEAD, "and no more");
	check(true, "made ahead, a stream");
	check(false, "made ahead, an input");
	is_int(count_fds(), before + 2 * (PIPES_AHEAD - 2), "two less");
	ev_expect(&loop, true);
	start = ev_now();
	(void)ev_turn(&loop, 10000);
	rest();
	is_int(count_fds(), before + 2 * PIPES_AHEAD, "they are made again");
	ok(ev_now() - start >= EV_EXPECT_NS, "when nothing more came");
	check(true, "at the end");
	pipes_done(&all);
	is_int(count_fds(), before, "at the end they are closed");
	ok(list_empty(&loop.idle), "and none is made any more");
}

/* No descriptor above those of the pipes can be had. */
static void limit_fds(bool on)
{
	struct rlimit limit = { 0 };
	int last = 0;

	for (unsigned i = 0; i < all.n; i++)
		for (size_t k = 0; k < 2; k++)
			last = all.fd[i][k] > last ? all.fd[i][k] : last;
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = on ? (rlim_t)last + 1 : limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Returns how many were had, into fd; the loop is not turned. */
static int take_all(int fd[BEYOND][2], struct err *err)
{
	int n = 0;

	while (n < BEYOND && pipes_take(&all, true, &fd[n][0], &fd[n][1], err) == 0)
		n++;
	return n;
}

static void close_all(int (*fd)[2], int n)
{
	for (int i = 0; i < n; i++) {
		close_auto(&fd[i][0]);
		close_auto(&fd[i][1]);
	}
}

static void test_none_left(void)
{
	int before = count_fds(), fd[BEYOND][2], n;
	struct err err = { 0 };

	pipes_init(&all, &loop);
	rest();
	limit_fds(true);
	n = take_all(fd, &err);
	is_int(n, PIPES_AHEAD, "without descriptors: those that were made");
	is_int(err.code, EMFILE, "then it is said what is missing");
	is_str(err.msg, "make a pipe: Too many open files", "in words");
	rest();
	is_int(all.n, 0, "none can be made ahead");
	ok(list_empty(&all.fill.link), "which is not tried again and again");
	(void)close(fd[--n][0]);
	(void)close(fd[n][1]);
	is_int(pipes_take(&all, true, &fd[n][0], &fd[n][1], &err), 0, "one that is free is taken");
	n++;
	close_all(fd, 3);
	rest();
	is_int(all.n, 3, "as many are made ahead as there can be");
	limit_fds(false);
	close_all(fd + 3, n - 3);
	is_int(pipes_take(&all, true, &fd[0][0], &fd[0][1], &err), 0, "with descriptors");
	close_all(fd, 1);
	rest();
	is_int(all.n, PIPES_AHEAD, "there are all again");
	is_int(count_fds(), before + 2 * PIPES_AHEAD, "and none was lost");
	pipes_done(&all);
	is_int(count_fds(), before, "at the end they are closed");
}

static void test_many(void)
{
	int before = count_fds(), fd[BEYOND][2], n;
	struct err err = { 0 };

	pipes_init(&all, &loop);
	rest();
	n = take_all(fd, &err);
	is_int(n, BEYOND, "more than there are: the rest is made at once: %s", err.msg);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++)
			if (fd[i][0] == fd[k][0] || fd[i][1] == fd[k][1] || fd[i][0] == fd[k][1])
				ok(false, "each is given once");
	close_all(fd, n);
	pipes_done(&all); /* while more are to be made */
	turn();
	is_int(count_fds(), before, "none is made after the end");
}

int main(void)
{
	if (ev_init(&loop, NULL) < 0)
		return 1;
	test_ahead();
	test_none_left();
	test_many();
	ev_done(&loop);
	return tap_done();
}
