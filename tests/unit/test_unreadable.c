/* Bytes in a command's pipe that nobody can read: they are lost, which is said, and neither hutchd nor its writer
 * tries again and again. */
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "sandbox/sandbox-internal.h"
#include "tests/unit/badfile.h"
#include "tests/unit/engine.h"

enum { GOOD = 1000 };

static struct engine *eng;
static struct sandbox *sb;
static struct badfile bad;

/* The command's own end of it. */
static int open_stdout(const struct exec *ex)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "/proc/%d/root/proc/%d/fd/1", (int)sb->run->pid,
		       (int)ex->pid);
	return open(path, O_WRONLY | O_CLOEXEC);
}

static int in_pipe(int fd)
{
	int bytes = -1;

	(void)ioctl(fd, FIONREAD, &bytes);
	return bytes;
}

static void put_good(int to)
{
	static const char bytes[GOOD];

	is_int(write(to, bytes, GOOD), GOOD, "bytes of a command");
}

static void put_bad(int to)
{
	is_int((long long)badfile_put(&bad, to), BAD_PAGE, "and a page that nobody can read");
}

/* Of a command of which the loop or a pump has the first bytes. */
static struct exec *begin(bool pumped, const char *what, int *ret_to)
{
	struct exec *ex = run(sb, "{\"cmd\":\"exec sleep 1000\"}");
	struct stream *st = &ex->stream[EXEC_STDOUT];

	ok(turn_until(ex->state == EXEC_RUNNING && ex->pid), "%s: a command", what);
	*ret_to = open_stdout(ex);
	put_good(*ret_to);
	ok(turn_until(st->size == GOOD), "%s: takes what it can", what);
	if (pumped)
		stream_pump_start(st);
	is_int(st->pump != NULL, pumped, "%s: has the pipe", what);
	return ex;
}

static void end(struct exec *ex, const char *what, size_t size)
{
	const struct stream *st = &ex->stream[EXEC_STDOUT];

	(void)exec_kill(ex, NULL);
	ok(turn_until(ex->state == EXEC_DONE && st->ended), "%s: to the end", what);
	is_int((long long)st->size, (long long)size, "%s: nothing stands behind a gap", what);
	is_int(ex->result.reason, EXEC_KILLED, "%s: the result is true", what);
	ok(ex->result.truncated, "%s: and says what is missing", what);
	exec_unref(ex);
}

static void test_pages(bool pumped)
{
	const char *what = pumped ? "a pump" : "the loop";
	int to;
	struct exec *ex = begin(pumped, what, &to);

	for (int i = 1; i <= 3; i++) { /* from the second on nothing is kept any more */
		put_bad(to);
		put_good(to);
		ok(turn_until(in_pipe(to) == 0), "%s: page %d goes", what, i);
	}
	ok(turn_until(ex->stream[EXEC_STDOUT].truncated), "%s: it is said", what);
	(void)close(to);
	end(ex, what, GOOD);
}

/* Who takes them finds them together. */
static void test_between(bool pumped)
{
	const char *what = pumped ? "between, a pump" : "between, the loop";
	int to;
	struct exec *ex = begin(pumped, what, &to);
	pid_t writer = disk_writer_pid(eng->disk);

	(void)kill(writer, SIGSTOP);
	put_good(to);
	put_good(to);
	put_bad(to);
	put_good(to);
	(void)kill(writer, SIGCONT);
	ok(turn_until(in_pipe(to) == 0), "%s: all of it goes", what);
	(void)close(to);
	end(ex, what, GOOD * 3);
}

static void limit_descriptors(rlim_t most)
{
	struct rlimit limit;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* A page needs two to be thrown away. */
static void test_no_descriptors(bool page)
{
	const char *what = page ? "no descriptors, a page" : "no descriptors, the end";
	int to;
	struct exec *ex = begin(false, what, &to);
	struct stream *st = &ex->stream[EXEC_STDOUT];

	put_bad(to);
	ok(turn_until(in_pipe(to) == 0 && st->truncated), "%s: a page goes", what);
	if (page)
		put_bad(to);
	limit_descriptors(0);
	(void)close(to);
	ok(exec_kill(ex, NULL) == 0 && turn_until(st->ended), "%s: it ends", what);
	limit_descriptors(RLIM_INFINITY);
	end(ex, what, GOOD);
}

/* Before Linux 6.15 a write(2) of bytes that are not there leaves a buffer without any: it can be read, and is
 * nothing.  A stream that is full does not look for it again and again. */
static void test_hollow(void)
{
	struct exec *ex = run(sb, "{\"cmd\":\"exec sleep 1000\",\"output_limit\":1000}"); /* GOOD */
	struct stream *st = &ex->stream[EXEC_STDOUT];
	int64_t until;
	int to, turns = 0;

	ok(turn_until(ex->state == EXEC_RUNNING && ex->pid), "hollow: a command");
	to = open_stdout(ex);
	put_good(to);
	ok(turn_until(st->size == GOOD), "hollow: it has all it may");
	is_int(syscall(SYS_write, to, 1, 9), -1, "hollow: a write of nothing");
	for (until = ev_now() + 300 * 1000000; ev_now() < until; turns++)
		(void)ev_turn(&loop, 100);
	ok(turns < 200, "hollow: the loop turns %d times", turns);
	(void)close(to);
	(void)exec_kill(ex, NULL);
	ok(turn_until(ex->state == EXEC_DONE && st->ended), "hollow: to the end");
	is_int((long long)st->size, GOOD, "hollow: all of it");
	ok(!ex->result.truncated, "hollow: nothing is missing");
	exec_unref(ex);
}

int main(void)
{
	engine_test_begin();
	eng = open_engine();
	ok(badfile_mount(&bad, EIO), "a file whose pages go");
	sb = make_box(eng, "box");
	for (int pumped = 0; pumped < 2; pumped++) {
		test_pages(pumped);
		test_between(pumped);
	}
	test_no_descriptors(false);
	test_no_descriptors(true);
	test_hollow();
	badfile_end(&bad);
	engine_close(eng);
	return engine_test_end();
}
