/* The writer is killed at each of its system calls, one after the other: whatever it was about to do, a stream has
 * all its bytes, or what it has ends where the first one is missing, and that is said. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/disk_link-internal.h"
#include "tests/unit/disk_bytes.h"

enum {
	STEPS_MAX = 400, /* more than it takes */
	SECOND_MAX = 80, /* as many, to begin and to go on */
	STRIDE = 7,
	TOTAL = 30000,
	ROOM = 9000,  /* of a disk, or up to a limit */
	AFTER = 1000, /* when they are dead */
	FRONT = 1000, /* of these the log takes care */
};

struct flow {
	struct disk *d;
	struct disk_pump pump;
	int fd[2];
	unsigned seen; /* flags */
	const char *name;
};

static void on_flow(struct disk_pump *p)
{
	container_of(p, struct flow, pump)->seen |= p->flags;
}

/* --- its steps --- */

/* Who is the writer now stands still. */
static pid_t hold(const struct flow *f)
{
	pid_t pid = disk_writer_pid(f->d);

	if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || waitpid(pid, NULL, __WALL) != pid)
		return 0;
	return pid;
}

static bool is_at_call(pid_t pid)
{
	struct __ptrace_syscall_info info = { 0 };

	return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
	       info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

static bool is_dead(pid_t pid)
{
	siginfo_t info = { 0 };

	/* Its stops are told too. */
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	       (info.si_pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED);
}

static bool is_done(const struct flow *f)
{
	int left = 0;

	(void)ioctl(f->fd[0], FIONREAD, &left);
	return left == 0 && atomic_load(&f->d->ring.shared->asleep);
}

/* Kills it at its call number `step` from now on, or when its work is done: false. */
static bool kill_at(const struct flow *f, pid_t pid, int step)
{
	int64_t end = ev_now() + patience(20);

	(void)ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
	while (!is_done(f) && !is_dead(pid) && ev_now() < end) {
		siginfo_t stop = { 0 };

		(void)ev_turn(&loop, 0);
		if (waitid(P_PID, (id_t)pid, &stop, WSTOPPED | WNOHANG) < 0 || !stop.si_pid)
			continue;
		if (is_at_call(pid) && step-- == 0) {
			(void)kill(pid, SIGKILL);
			return true;
		}
		(void)ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
	}
	if (ev_now() >= end)
		ok(false, "%s: its work is done", f->name);
	(void)kill(pid, SIGKILL);
	return false;
}

/* --- cases --- */

struct steps {
	const char *name;
	struct disk_pump_start start;
	rlim_t room; /* on the disk, for those that are killed; 0: enough */
	bool front;  /* what is in front of it comes to the disk when they are dead */
	bool settles;
	uint64_t kept; /* by one that lives */
};

static const struct steps all[] = {
	{ .name = "plain", .start = { .limit = 2 * TOTAL }, .kept = TOTAL + AFTER },
	{ .name = "short", .start = { .limit = 2 * TOTAL }, .room = ROOM, .kept = ROOM },
	{ .name = "front",
	  .start = { .limit = 2 * TOTAL, .off = FRONT },
	  .front = true,
	  .kept = FRONT },
	{ .name = "drops", .start = { .limit = ROOM, .drops = true }, .kept = ROOM },
	{ .name = "settles", .start = { .limit = ROOM }, .settles = true, .kept = TOTAL + AFTER },
};

/* A writer that begins from now on has no more. */
static void set_room(rlim_t room)
{
	struct rlimit limit;

	(void)getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = room ? room : limit.rlim_max;
	if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
		exit(1);
}

/* When it has come to rest. */
static pid_t hold_asleep(const struct flow *f)
{
	while (!atomic_load(&f->d->ring.shared->asleep))
		(void)usleep(100);
	return hold(f);
}

static void begin_pump(struct flow *f, const struct steps *c)
{
	struct disk_pump_start start = c->start;

	make_pipe(f->fd);
	(void)put_bytes(f->fd[1], start.off, TOTAL - start.off);
	start.name = f->name;
	start.fd = f->fd[0];
	if (disk_pump_start(f->d, &f->pump, &start, NULL) < 0)
		exit(1);
}

/* Its writer has not begun with it, and stands still. */
static pid_t begin_flow(struct flow *f, const struct steps *c)
{
	pid_t pid;

	(void)unlinkat(at, c->name, 0);
	set_room(c->room);
	*f = (struct flow){ .d = begin(1 << 18, -1), .name = c->name, .pump.changed = on_flow };
	pid = hold_asleep(f);
	f->d->started = 0; /* the next one comes at once */
	begin_pump(f, c);
	if (c->settles)
		disk_pump_settle(&f->pump);
	return pid;
}

static void put_front(const struct flow *f)
{
	char bytes[FRONT];
	auto_close int fd = openat(at, f->name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	for (size_t i = 0; i < FRONT; i++)
		bytes[i] = byte_at(i);
	if (pwrite(fd, bytes, FRONT, 0) != FRONT)
		exit(1);
}

static bool next_writer(const struct flow *f, pid_t last)
{
	return turn_until(disk_writer_pid(f->d) > 0 && disk_writer_pid(f->d) != last);
}

/* With some more bytes. */
static void to_the_end(struct flow *f, const struct steps *c)
{
	(void)put_bytes(f->fd[1], TOTAL, AFTER);
	close_auto(&f->fd[1]);
	(void)turn_until(f->seen & (DISK_PUMP_ENDED | DISK_PUMP_LIMIT));
	if (!(f->seen & DISK_PUMP_ENDED) && !c->start.drops)
		disk_pump_limit(&f->pump, 2 * TOTAL);
	(void)turn_until(f->seen & DISK_PUMP_ENDED);
}

/* No bytes are missing without a word, and none stands where it does not belong. */
static bool is_true(const struct flow *f)
{
	uint64_t size = size_of(f->name);

	return f->seen & DISK_PUMP_ENDED && (f->seen & DISK_PUMP_LOST || size == TOTAL + AFTER) &&
	       f->pump.size == size && wrong_in(f->name) == 0;
}

/* The first writer at this call, and the next one at that, if there is to be one. False: it came to its end. */
static bool die(const struct steps *c, int first, int second)
{
	struct flow f;
	pid_t pid = begin_flow(&f, c);
	bool dead = pid && kill_at(&f, pid, first);

	if (dead && second >= 0 && next_writer(&f, pid)) {
		f.d->started = 0;
		pid = hold(&f);
		(void)(pid && kill_at(&f, pid, second));
	}
	set_room(0);
	if (c->front)
		put_front(&f);
	to_the_end(&f, c);
	if (!is_true(&f))
		ok(false, "%s, %d, %d: flags %x, %llu of %llu bytes, %lld of them wrong", c->name,
		   first, second, f.seen, (unsigned long long)size_of(c->name),
		   (unsigned long long)f.pump.size, wrong_in(c->name));
	if (!dead && second < 0)
		is_int((long long)f.pump.size, (long long)c->kept,
		       "%s: one that lives keeps so much", c->name);
	disk_free(f.d);
	(void)close(f.fd[0]);
	return dead;
}

static void test_case(const struct steps *c)
{
	int step = 0, failed = tap_failed;

	while (step < STEPS_MAX && tap_failed == failed && die(c, step, -1))
		step++;
	ok(step > 5 && step < STEPS_MAX, "%s: killed at each of %d calls", c->name, step);
	for (int i = 0; i < step; i++)
		for (int second = i % STRIDE; second < SECOND_MAX; second += STRIDE)
			(void)die(c, i, second);
	is_int(tap_failed, failed, "%s: nothing is missing without a word", c->name);
}

/* --- hutchd is dead, and nobody begins another one --- */

static bool die_alone(int step)
{
	static const struct steps c = { .name = "alone",
					.start = { .limit = 2 * TOTAL, .off = FRONT } };
	struct disk_bytes front = { .name = c.name, .len = FRONT };
	struct disk_spool sp;
	char bytes[FRONT];
	struct flow f;
	pid_t pid;
	bool dead;

	for (size_t i = 0; i < FRONT; i++)
		bytes[i] = byte_at(i);
	front.bytes = bytes;
	(void)unlinkat(at, c.name, 0);
	f = (struct flow){ .d = begin(1 << 18, -1), .name = c.name, .pump.changed = on_flow };
	pid = hold_asleep(&f);
	disk_spool_init(f.d, &sp, 0, NULL);
	(void)disk_spool_put(f.d, &sp, &front);
	begin_pump(&f, &c);
	ev_del(&loop, &f.d->src);
	close_auto(&f.d->src.fd);
	dead = pid && kill_at(&f, pid, step);
	while (pid && !is_dead(pid))
		(void)usleep(100);
	if (wrong_in(c.name) || (!dead && size_of(c.name) != TOTAL))
		ok(false, "alone, %d: %llu bytes, %lld of them wrong", step,
		   (unsigned long long)size_of(c.name), wrong_in(c.name));
	disk_spool_done(f.d, &sp);
	disk_pump_done(&f.pump);
	disk_free(f.d);
	(void)close(f.fd[0]);
	(void)close(f.fd[1]);
	return dead;
}

static void test_alone(void)
{
	int step = 0, failed = tap_failed;

	while (step < STEPS_MAX && die_alone(step))
		step++;
	ok(step > 5 && step < STEPS_MAX, "alone: killed at each of %d calls", step);
	is_int(tap_failed, failed, "alone: there is no hole");
}

int main(void)
{
	if (!disk_test_begin())
		return 1;
	(void)signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		test_case(&all[i]);
	test_alone();
	return disk_test_end();
}
