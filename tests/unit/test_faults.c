/* The engine where a system call fails, and where things end in an unusual order. */
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "sandbox/sandbox-internal.h"
#include "tests/unit/engine.h"

/* What fails. The functions below take the place of libc's, here and in the engine. */
static struct {
	bool no_memfd; /* EMFILE */
	bool cold;     /* nothing is in the kernel's cache: EAGAIN */
	int adds;      /* so many sources are watched, and then one is not: ENOSPC; -1: all are */
	const char *
		gone; /* the end of a name that cannot be opened, if it must be there; NULL: none */
} inject = { .adds = -1 };

/* The writer's too. */
static struct {
	bool full;     /* of journals: ENOSPC */
	bool no_spool; /* EIO */
} * shared;

/* In the writer, where it is the same memory. */
ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
	char link[64], name[256];
	ssize_t len;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = shared->full || shared->no_spool ? readlink(link, name, sizeof(name)) : -1;
	if (shared->no_spool && len > 4 && memcmp(name + len - 4, ".out", 4) == 0) {
		errno = EIO;
		return -1;
	}
	if (shared->full && len > 8 && memcmp(name + len - 8, "/journal", 8) == 0) {
		/* Half of a line is what a disk takes before it is full. */
		(void)syscall(SYS_pwrite64, fd, iov->iov_base, iov->iov_len / 2, at);
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_pwritev, fd, iov, n, (long)at, 0L);
}

ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	if (!inject.cold || !(flags & RWF_NOWAIT))
		return syscall(SYS_preadv2, fd, iov, n, (long)at, 0L, flags);
	errno = EAGAIN;
	return -1;
}

int memfd_create(const char *name, unsigned flags)
{
	if (!inject.no_memfd)
		return (int)syscall(SYS_memfd_create, name, flags);
	errno = EMFILE;
	return -1;
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && inject.adds >= 0 && inject.adds-- == 0) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

int openat(int at, const char *name, int flags, ...)
{
	size_t len = strlen(name), end = inject.gone ? strlen(inject.gone) : 0;
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (end && !(flags & O_CREAT) && len >= end && !strcmp(name + len - end, inject.gone)) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, at, name, flags, mode);
}

static struct sandbox *running(struct engine *eng, const char *text)
{
	struct spec spec = { 0 };
	struct sandbox *sb = NULL;
	struct err err = { 0 };

	if (spec_parse(&spec, text, strlen(text), &err) == 0)
		(void)sandbox_create(eng, &spec, 0, 0, &sb, &err);
	spec_done(&spec);
	ok(sb && turn_until(sb->state == SANDBOX_RUNNING), "%s: runs: %s", text, err.msg);
	return sb;
}

static void turn_for(int64_t ms)
{
	int64_t end = ev_now() + ms * 1000000;

	while (ev_now() < end)
		(void)ev_turn(&loop, 10);
}

static bool both_ended(const struct exec *ex)
{
	return ex->stream[EXEC_STDOUT].ended && ex->stream[EXEC_STDERR].ended;
}

/* --- order --- */

/* A command that ends with its sandbox must not begin the sandbox's idle time. */
static void test_idle_removed(struct engine *eng)
{
	struct sandbox *sb = running(eng, "{\"name\":\"idle\",\"idle_timeout_s\":0.2}");

	exec_unref(run(sb, "[\"sleep\",\"1000\"]"));
	sandbox_ref(sb);
	sandbox_remove(sb);
	ok(turn_until(sandbox_gone(sb)), "idle: removed");
	ok(list_empty(&sb->idle.link) && list_empty(&sb->ttl.link), "idle: no timer is left");
	sandbox_unref(sb);
	turn_for(300);
}

static void test_ttl_closed(void)
{
	struct engine *eng = open_engine();

	(void)running(eng, "{\"name\":\"ttl\",\"ttl_s\":1000,\"idle_timeout_s\":1000}");
	engine_close(eng);
	ok(list_empty(&loop.timers) && list_empty(&loop.tasks), "closed: no timer is left");
	eng = open_engine();
	sandbox_remove(sandbox_find(eng, "ttl"));
	engine_close(eng);
}

/* What cannot be sent is over at once, and with keep 0 not kept: but the caller has it. */
static void test_over_at_once(struct engine *eng)
{
	struct sandbox *sb = running(eng, "{\"name\":\"none\"}");
	char request[100000]; /* too long for a message: it is sent in a memfd */
	struct exec *ex;

	(void)snprintf(request, sizeof(request),
		       "{\"cmd\":\"%*s\",\"stdin\":\"null\",\"stdout\":\"null\","
		       "\"stderr\":\"null\"}",
		       90000, "x");
	ok(sandbox_set_keep(sb, 0, NULL) == 0, "keep 0");
	inject.no_memfd = true;
	ex = run(sb, request);
	inject.no_memfd = false;
	ok(ex && ex->state == EXEC_DONE, "keep 0: over at once");
	exec_unref(ex);
	ok(turn_until(sb->exec_count == 0), "keep 0: and gone");
	sandbox_remove(sb);
}

/* `stop` ends what runs; what is written later is none of its concern. */
static void test_written_later(struct engine *eng)
{
	static const char text[] = "{\"cmd\":\"sleep 1000\",\"timeout_s\":0.2}";
	struct sandbox *sb = running(eng, "{\"name\":\"later\"}");
	struct exec_request req;
	struct exec *ex;

	ok(exec_mkdir(sb, "named", 0, &ex, NULL) == 0, "later: a node");
	ok(sandbox_stop(sb, NULL) == 0 && turn_until(sandbox_gone(sb)), "later: stop");
	ok(sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_RUNNING),
	   "later: start");
	ok(exec_request_parse(&req, NULL, text, sizeof(text) - 1, NULL) == 0 &&
		   exec_write(ex, &req, NULL) == 0 && turn_until(ex->state == EXEC_DONE),
	   "later: runs");
	is_int(ex->result.reason, EXEC_TIMED_OUT, "later: its own timeout is the reason");
	sandbox_remove(sb);
}

/* --- streams --- */

static void test_no_pipes(struct engine *eng)
{
	struct sandbox *sb = running(eng, "{\"name\":\"pipes\"}");
	struct exec_request req;
	struct exec *ex;

	ok(exec_request_broken(&req, "{", 1, "never ended") == 0 &&
		   exec_create(sb, &req, &ex, NULL) == 0 && ex->state == EXEC_DONE,
	   "broken: over");
	ok(both_ended(ex) && !ex->result.streams_open, "broken: so are its streams");
	for (int i = 0; i < 3; i++) {
		inject.adds = i;
		ex = run(sb, "[\"true\"]");
		inject.adds = -1;
		ok(ex && ex->state == EXEC_DONE && ex->result.reason == EXEC_FAILED,
		   "pipe %d is not watched: failed", i);
		ok(both_ended(ex), "pipe %d is not watched: its streams are at their end", i);
		exec_unref(ex);
	}
	sandbox_remove(sb);
}

static void test_full_spool(struct engine *eng)
{
	struct sandbox *sb = running(eng, "{\"name\":\"full\"}");
	char path[128];
	struct exec *ex;

	shared->no_spool = true;
	ex = run(sb, "{\"cmd\":\"echo lost; sleep 1; echo more\"}");
	ok(ex && turn_until(ex->state == EXEC_DONE && exec_over(ex)), "full: it ends");
	shared->no_spool = false;
	ok(ex->result.truncated && ex->result.exit_code == 0, "full: and says what it lost");
	(void)snprintf(path, sizeof(path), "%s/sandboxes/%u/spool/%u.out", dir, sb->serial,
		       ex->serial);
	exec_remove(ex);
	exec_unref(ex);
	ok(turn_until(access(path, F_OK) < 0 && errno == ENOENT), "full: no empty spool is left");
	sandbox_remove(sb);
}

/* --- the journal --- */

static struct sandbox *again(struct engine **eng, const char *id)
{
	engine_close(*eng);
	*eng = open_engine();
	return sandbox_find(*eng, id);
}

/* Half a line of a full disk must not spoil the one behind it. */
static void test_half_line(struct engine **eng)
{
	struct sandbox *sb = running(*eng, "{\"name\":\"half\"}");
	struct err err = { 0 };
	struct exec *ex;

	shared->full = true;
	ex = run(sb, "{\"cmd\":\"true\",\"id\":\"before\"}");
	ok(ex && turn_until(ex->state == EXEC_DONE), "half a line: who came before it was known");
	exec_unref(ex);
	ok(turn_until(disk_fault((*eng)->disk, &err) == -ENOSPC), "half a line: it is known");
	ok(!run(sb, "{\"cmd\":\"true\",\"id\":\"refused\"}"), "half a line: refused: %s", err.msg);
	ok(sandbox_chmod(sb, 0750, NULL) == -ENOSPC, "half a line: so is what must be kept");
	shared->full = false;
	ok(turn_until(disk_fault((*eng)->disk, NULL) == 0), "half a line: there is room again");
	ex = run(sb, "{\"cmd\":\"true\",\"id\":\"accepted\"}");
	ok(ex && turn_until(ex->state == EXEC_DONE), "half a line: the next one is accepted");
	exec_unref(ex);
	sb = again(eng, "half");
	ex = sb ? exec_find(sb, "accepted") : NULL;
	ok(ex && ex->result.reason == EXEC_EXITED, "half a line: and there after a restart");
	ex = sb ? exec_find(sb, "before") : NULL;
	ok(ex && ex->result.reason == EXEC_EXITED, "half a line: with the one before");
	ok(sb && !exec_find(sb, "refused"), "half a line: the refused one is not");
	sandbox_remove(sb);
}

/* What `set` could not write down is not set. */
static void test_set_refused(struct engine **eng)
{
	static const char *const sets[][2] = {
		{ "env.A", "2" }, { "env.B", "new" }, { "timeout_s", "9" }, { "cwd", "/tmp" }
	};
	struct sandbox *sb = running(*eng, "{\"name\":\"set\"}");
	auto_buf struct buf before = { 0 }, after = { 0 };
	struct exec *ex;
	size_t bytes;

	ok(exec_mkdir(sb, "named", 0, &ex, NULL) == 0 && exec_set(ex, "env.A", "1", NULL) == 0,
	   "set: is set");
	(void)exec_request_print(&ex->request, &before);
	shared->full = true; /* and is known to be when somebody has met it */
	exec_unref(run(sb, "{\"cmd\":\"true\"}"));
	ok(turn_until(disk_fault((*eng)->disk, NULL) == -ENOSPC), "set: the disk is full");
	bytes = sb->request_bytes;
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		is_int(exec_set(ex, sets[i][0], sets[i][1], NULL), -ENOSPC, "set %s: refused",
		       sets[i][0]);
	shared->full = false;
	ok(turn_until(disk_fault((*eng)->disk, NULL) == 0), "set: there is room again");
	(void)exec_request_print(&ex->request, &after);
	is_str(after.data, before.data, "set: nothing has changed");
	is_int((long)sb->request_bytes, (long)bytes, "set: nor what is counted");
	is_int(exec_set(ex, "timeout_s", "x", NULL), -EINVAL, "set: what is wrong");
	is_int((long)sb->request_bytes, (long)bytes, "set: counts for nothing");
	sb = again(eng, "set");
	ex = sb ? exec_find(sb, "named") : NULL;
	buf_done(&after);
	after = (struct buf){ 0 };
	if (ex)
		(void)exec_request_print(&ex->request, &after);
	is_str(after.data, before.data, "set: the same after a restart");
	sandbox_remove(sb);
}

/* A rewrite at its result must not bring back what is being removed. */
static void test_remove_rewrites(struct engine **eng)
{
	struct sandbox *sb = running(*eng, "{\"name\":\"rewrite\"}");
	struct exec *ex = run(sb, "{\"cmd\":\"sleep 1000\",\"id\":\"removed\"}");

	sb->journal->size += 100 << 20; /* so it is long */
	exec_remove(ex);
	exec_unref(ex);
	is_int((long)sb->journal->size, (long)sb->journal->rewritten + 18,
	       "rewritten, but for a line");
	sb = again(eng, "rewrite");
	ok(sb && !exec_find(sb, "removed"), "rewritten: removed is removed");
	sandbox_remove(sb);
}

/* The file that a rewrite has made is the one that is written to. */
static void test_rewrite_fails(struct engine **eng)
{
	struct sandbox *sb = running(*eng, "{\"name\":\"reopen\"}");
	struct exec *ex;

	sb->journal->size += 100 << 20;
	inject.gone = "/journal";
	ex = run(sb, "{\"cmd\":\"true\",\"id\":\"first\"}");
	ok(ex && turn_until(ex->state == EXEC_DONE), "reopened: one");
	exec_unref(ex);
	inject.gone = NULL;
	ex = run(sb, "{\"cmd\":\"true\",\"id\":\"second\"}");
	ok(ex && turn_until(ex->state == EXEC_DONE), "reopened: two");
	exec_unref(ex);
	sb = again(eng, "reopen");
	ok(sb && exec_find(sb, "first") && exec_find(sb, "second"), "reopened: both are there");
	sandbox_remove(sb);
}

/* `set` alone cannot fill the disk. */
static void test_sets(struct engine *eng)
{
	struct sandbox *sb = running(eng, "{\"name\":\"sets\"}");
	static char value[100001];
	struct exec *ex;
	int r = exec_mkdir(sb, "named", 0, &ex, NULL);

	memset(value, 'x', sizeof(value) - 1);
	for (int i = 0; i < 200 && r == 0; i++) {
		r = exec_set(ex, "env.X", value, NULL);
		(void)ev_turn(&loop, 0);
	}
	is_int(r, 0, "set: 200 times 100 kB");
	ok(sb->journal->size < 8 << 20, "set: the journal stays short");
	sandbox_remove(sb);
}

/* --- process 1 --- */

static bool has_group(const struct engine *eng, uint32_t run)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", run);
	return faccessat(eng->groups.base, name, F_OK, 0) == 0;
}

static void test_not_watched(struct engine *eng)
{
	for (int i = 0; i < 2; i++) {
		struct spec spec = { .id = "blind" };
		struct sandbox *sb = NULL;
		struct err err = { 0 };
		uint32_t before = eng->groups.last_run;
		bool left = false;

		inject.adds = i;
		ok(sandbox_create(eng, &spec, 0, 0, &sb, &err) == -ENOSPC, "source %d: %s", i,
		   err.msg);
		inject.adds = -1;
		turn_for(200);
		for (uint32_t n = before > 8 ? before - 8 : 1; n <= before; n++) {
			const struct blank *b;
			bool known = false;

			list_for_each (b, &eng->blanks.ready, link)
				known |= b->groups && b->groups->number == n;
			left |= !known && has_group(eng, n);
		}
		ok(!left, "source %d: its control group is not left", i);
		ok(!sandbox_find(eng, "blind"), "source %d: nothing is", i);
	}
}

/* Who reads, and waits for the disk, when all ends: for the opening of a spool, or for its bytes. */
static void test_read_closed(void)
{
	static const char *const what[] = { "an opening", "a fetch" };
	char byte;

	for (int i = 0; i < 2; i++) {
		struct engine *eng = open_engine();
		struct sandbox *sb =
			running(eng, i ? "{\"name\":\"read1\"}" : "{\"name\":\"read0\"}");
		struct exec *ex = run(sb, "[\"echo\",\"x\"]");
		pid_t writer = disk_writer_pid(eng->disk);
		struct stream_reader rd;

		ok(turn_until(exec_over(ex)), "closed: %s: it is over", what[i]);
		(void)disk_wait(eng->disk, 20000);
		(void)disk_has_room(eng->disk, 0); /* looks how far the writer is */
		stream_open(&rd, &ex->stream[EXEC_STDOUT]);
		ok(!i || turn_until(stream_read(&rd, &byte, 1, 0) == 1), "closed: read before");
		inject.cold = true;
		(void)kill(writer, SIGSTOP);
		is_int(stream_read(&rd, &byte, 1, 0), -EAGAIN, "closed: %s is waited for", what[i]);
		inject.cold = false;
		sandbox_remove(sb);
		engine_close(eng);
		(void)kill(writer, SIGCONT);
		stream_close(&rd);
		exec_unref(ex);
		ok(turn_until(waitpid(writer, NULL, WNOHANG) != 0), "closed: the writer ends");
	}
}

/* rmdir may have been answered before process 1 is reaped. */
static void test_killed_removing(void)
{
	pid_t pid = fork();
	struct engine *eng;
	char path[64];
	int lock;

	if (pid == 0) {
		ev_done(&loop);
		(void)ev_init(&loop, NULL);
		eng = open_engine();
		sandbox_remove(running(eng, "{\"name\":\"removed\"}"));
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
	/* Its children may have its descriptors a moment longer. */
	(void)snprintf(path, sizeof(path), "%s/lock", dir);
	lock = open(path, O_RDWR | O_CLOEXEC);
	ok(turn_until(flock(lock, LOCK_EX | LOCK_NB) == 0), "killed while it removed: dead");
	close_auto(&lock);
	eng = open_engine();
	ok(!sandbox_find(eng, "removed"), "killed while it removed: removed is removed");
	engine_close(eng);
}

int main(void)
{
	struct engine *eng;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	engine_test_begin();
	eng = open_engine();
	test_idle_removed(eng);
	test_over_at_once(eng);
	test_written_later(eng);
	test_no_pipes(eng);
	test_full_spool(eng);
	test_sets(eng);
	test_not_watched(eng);
	test_half_line(&eng);
	test_set_refused(&eng);
	test_remove_rewrites(&eng);
	test_rewrite_fails(&eng);
	engine_close(eng);
	test_ttl_closed();
	test_read_closed();
	test_killed_removing();
	return engine_test_end();
}
