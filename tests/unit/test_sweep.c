/* Each system call of a sandbox's making, and of a command's start, fails in turn: the rest goes on, and
 * nothing is left, neither descriptor nor process, directory, control group or block of ids. */
#include <dirent.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "sandbox/sandbox-internal.h"
#include "tests/unit/engine.h"

enum { CALLS_MAX = 200 };

static struct {
	pid_t pid;        /* children are left alone */
	int left;         /* calls until one fails; -1: none does */
	const char *call; /* the one that has failed */
} inject = { .left = -1 };

static bool fails(const char *call, int code)
{
	if (inject.left < 0 || getpid() != inject.pid || inject.left-- > 0)
		return false;
	inject.call = call;
	errno = code;
	return true;
}

/* In the place of libc's, here and in the engine. */
#define FAULTY(type, name, params, code, nr, ...)                                            \
	type name params                                                                     \
	{                                                                                    \
		return fails(#name, code) ? (type)-1 : (type)syscall(SYS_##nr, __VA_ARGS__); \
	}

FAULTY(ssize_t, write, (int fd, const void *bytes, size_t len), ENOSPC, write, fd, bytes, len)
FAULTY(int, memfd_create, (const char *name, unsigned flags), EMFILE, memfd_create, name, flags)
FAULTY(int, pipe2, (int fd[2], int flags), EMFILE, pipe2, fd, flags)
FAULTY(int, mkdirat, (int at, const char *name, mode_t mode), ENOSPC, mkdirat, at, name, mode)
FAULTY(int, socketpair, (int d, int t, int p, int fd[2]), EMFILE, socketpair, d, t, p, fd)
FAULTY(int, fchown, (int fd, uid_t uid, gid_t gid), EIO, fchown, fd, uid, gid)
FAULTY(int, fchmod, (int fd, mode_t mode), EIO, fchmod, fd, mode)
FAULTY(int, fchownat, (int at, const char *name, uid_t uid, gid_t gid, int flags), EIO, fchownat,
       at, name, uid, gid, flags)
FAULTY(int, renameat, (int from, const char *a, int to, const char *b), ENOSPC, renameat, from, a,
       to, b)
FAULTY(int, open_tree, (int at, const char *name, unsigned flags), ENOMEM, open_tree, at, name,
       flags)
FAULTY(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), ETOOMANYREFS, sendmsg, fd,
       msg, flags)
FAULTY(ssize_t, send, (int fd, const void *bytes, size_t len, int flags), EPIPE, sendto, fd, bytes,
       len, flags, NULL, 0)

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && fails("epoll_ctl", ENOSPC))
		return -1;
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

static int real_open(int at, const char *name, int flags, va_list ap)
{
	mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;

	return (int)syscall(SYS_openat, at, name, flags, mode);
}

int openat(int at, const char *name, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = fails("openat", EMFILE) ? -1 : real_open(at, name, flags, ap);
	va_end(ap);
	return fd;
}

int open(const char *name, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = fails("open", EMFILE) ? -1 : real_open(AT_FDCWD, name, flags, ap);
	va_end(ap);
	return fd;
}

/* --- what there is --- */

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	for (const struct dirent *e; d && (e = readdir(d));)
		n += e->d_type != DT_REG && e->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return n;
}

static int children(void)
{
	char path[64];
	FILE *f;
	int n = 0, pid;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1)
		n++;
	if (f)
		(void)fclose(f);
	return n;
}

struct count {
	int descriptors, children, directories, groups, ids;
};

static struct count count(const struct engine *eng)
{
	struct count c = { .descriptors = entries("/proc/self/fd"), .children = children() };
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/sandboxes", dir);
	c.directories = entries(path);
	c.groups = eng->groups.path ? entries(eng->groups.path) : 0;
	for (uint32_t i = 0; i < eng->ids.blocks; i++)
		c.ids += eng->ids.taken[i];
	return c;
}

static bool same(const struct engine *eng, const struct count *before)
{
	struct count now = count(eng);

	return memcmp(&now, before, sizeof(now)) == 0;
}

/* What is made ahead, and could not be made when a call failed. */
static void fill(struct engine *eng)
{
	blanks_fill(&eng->blanks);
	ev_defer_idle(&loop, &eng->pipes.fill);
}

static void check(struct engine *eng, const struct count *before, const char *what, int at)
{
	struct count now;

	fill(eng);
	if (turn_until(same(eng, before))) {
		ok(true, "%s: call %d, %s", what, at, inject.call);
		return;
	}
	now = count(eng);
	ok(false,
	   "%s: call %d, %s: %+d descriptors, %+d children, %+d directories, %+d groups, %+d ids",
	   what, at, inject.call, now.descriptors - before->descriptors,
	   now.children - before->children, now.directories - before->directories,
	   now.groups - before->groups, now.ids - before->ids);
}

static struct count rest(struct engine *eng)
{
	int64_t end = ev_now() + 500000000;

	fill(eng);
	while (ev_now() < end)
		(void)ev_turn(&loop, 50);
	return count(eng);
}

/* --- the sweeps --- */

/* `ahead`: with those that were made ahead. */
static void sweep_sandbox(struct engine *eng, bool ahead)
{
	const struct count before = rest(eng);
	int at = 0;

	do {
		struct spec spec = { .id = "box" };
		struct sandbox *sb = NULL;
		struct err err = { 0 };

		if (!ahead)
			blanks_done(&eng->blanks);
		inject.call = NULL;
		inject.left = at;
		(void)sandbox_create(eng, &spec, 0, 0, &sb, &err);
		inject.left = -1;
		/* `send` only wakes the writer, who is woken a little later then. */
		ok(sb ? !inject.call || strcmp(inject.call, "send") == 0 : inject.call != NULL,
		   "a sandbox: call %d: %s", at, sb ? "made" : err.msg);
		if (sb) {
			ok(turn_until(sb->state == SANDBOX_RUNNING), "a sandbox: runs: %s",
			   sb->why.msg);
			sandbox_remove(sb);
		}
		check(eng, &before, ahead ? "a sandbox made ahead" : "a sandbox", at);
	} while (inject.call && ++at < CALLS_MAX);
	ok(!inject.call, "a sandbox: has an end");
}

static void sweep_command(struct engine *eng, bool ahead)
{
	const char *what = ahead ? "a command, pipes made ahead" : "a command";
	struct sandbox *sb = make_box(eng, "box");
	struct count before;
	int at = 0;

	ok(turn_until(sb->state == SANDBOX_RUNNING), "runs");
	before = rest(eng);
	do {
		struct exec *ex;

		if (!ahead)
			pipes_done(&eng->pipes);
		inject.call = NULL;
		inject.left = at;
		ex = run(sb, "{\"cmd\":\"#!/bin/sh\\necho out; echo err >&2\"}");
		(void)(ex && turn_until(ex->state == EXEC_DONE));
		inject.left = -1;
		if (ex) {
			ok(turn_until(exec_over(ex)), "%s: call %d: over", what, at);
			ok(inject.call || ex->stream[EXEC_STDOUT].size == 4, "%s: its output",
			   what);
			exec_remove(ex);
		}
		exec_unref(ex);
		check(eng, &before, what, at);
		ok(sb->exec_count == 0 && sb->exec_live == 0, "%s: call %d: no node", what, at);
	} while (inject.call && ++at < CALLS_MAX);
	ok(!inject.call, "%s: has an end", what);
	sandbox_remove(sb);
}

int main(void)
{
	struct engine *eng;

	engine_test_begin();
	inject.pid = getpid();
	eng = open_engine();
	sweep_command(eng, true);
	sweep_command(eng, false);
	sweep_sandbox(eng, true);
	sweep_sandbox(eng, false);
	engine_close(eng);
	return engine_test_end();
}
