/* Bytes in a command's pipe that nobody can read: they are lost, which is said, and neither hutchd nor its writer
 * tries again and again. */
#include <sys/ioctl.h>

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

static void test_stream(bool pumped)
{
	const char *what = pumped ? "a pump" : "the loop";
	struct exec *ex = run(sb, "{\"cmd\":\"exec sleep 1000\"}");
	struct stream *st = &ex->stream[EXEC_STDOUT];
	auto_close int to = -1;

	ok(turn_until(ex->state == EXEC_RUNNING && ex->pid), "%s: a command", what);
	to = open_stdout(ex);
	put_good(to);
	ok(turn_until(st->size == GOOD), "%s: takes what it can", what);
	if (pumped)
		stream_pump_start(st);
	is_int(st->pump != NULL, pumped, "%s: has the pipe", what);
	for (int i = 1; i <= 3; i++) { /* from the second on nothing is kept any more */
		put_bad(to);
		put_good(to);
		ok(turn_until(in_pipe(to) == 0), "%s: page %d goes", what, i);
	}
	ok(turn_until(st->truncated), "%s: it is said", what);
	close_auto(&to);
	(void)exec_kill(ex, NULL);
	ok(turn_until(ex->state == EXEC_DONE && st->ended), "%s: to the end", what);
	is_int((long long)st->size, GOOD, "%s: nothing stands behind a gap", what);
	is_int(ex->result.reason, EXEC_KILLED, "%s: the result is true", what);
	exec_unref(ex);
}

int main(void)
{
	engine_test_begin();
	eng = open_engine();
	ok(badfile_mount(&bad), "a file whose pages go");
	sb = make_box(eng, "box");
	test_stream(false);
	test_stream(true);
	badfile_end(&bad);
	engine_close(eng);
	return engine_test_end();
}
