/* Bytes between a command's pipe and their file when the writer dies: the next one finds them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/disk_link-internal.h"
#include "tests/unit/badfile.h"
#include "tests/unit/disk_bytes.h"

#define MOVED 50000 /* in the file */
#define TAKEN 10000 /* between the pipe and the file */
#define AFTER 1000  /* still in the pipe */

struct flow {
	struct disk_pump pump;
	unsigned seen; /* flags */
};

static void on_flow(struct disk_pump *p)
{
	container_of(p, struct flow, pump)->seen |= p->flags;
}

/* A pump that has moved what there was, and how its writer has died: it had taken TAKEN more. */
static struct disk *begin_dying(struct flow *f, const char *name, int fd[2])
{
	struct disk *d = begin(1 << 18, -1);

	make_pipe(fd);
	*f = (struct flow){ .pump.changed = on_flow };
	(void)put_bytes(fd[1], 0, MOVED);
	is_int(disk_pump_start(d, &f->pump,
			       &(struct disk_pump_start){ name, fd[0], 0, 1 << 30, false }, NULL),
	       0, "%s: starts", name);
	ok(turn_until(f->pump.size == MOVED), "%s: moved", name);
	(void)kill(disk_writer_pid(d), SIGSTOP);
	(void)waitid(P_PID, (id_t)disk_writer_pid(d), &(siginfo_t){ 0 }, WSTOPPED | WNOWAIT);
	(void)snprintf(d->ring.shared->transit.name, DISK_NAME_MAX, "%s", name);
	is_int((long long)put_bytes(d->transit[1], MOVED, TAKEN), TAKEN, "%s: taken", name);
	return d;
}

static int left_at(int fd)
{
	int left = -1;

	(void)ioctl(fd, FIONREAD, &left);
	return left;
}

static int left_in(const struct disk *d)
{
	return left_at(d->transit[0]);
}

static void end(struct disk *d, int fd[2])
{
	is_int(left_in(d), 0, "and nothing stays between");
	disk_free(d);
	(void)close(fd[0]);
	if (fd[1] >= 0)
		(void)close(fd[1]);
}

static void test_left(void)
{
	struct flow f;
	int fd[2];
	struct disk *d = begin_dying(&f, "left", fd);

	(void)put_bytes(fd[1], MOVED + TAKEN, AFTER);
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(f.pump.size == MOVED + TAKEN + AFTER), "left: the next one goes on");
	is_int(wrong_in("left"), 0, "left: in order");
	ok(!(f.seen & DISK_PUMP_LOST), "left: nothing is lost");
	close_auto(&fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "left: to the end");
	end(d, fd);
}

/* Its owner has removed it meanwhile. */
static void test_gone(void)
{
	struct flow f;
	int fd[2];
	struct disk *d = begin_dying(&f, "gone", fd);

	disk_pump_done(&f.pump);
	(void)unlinkat(at, "gone", 0);
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(left_in(d) == 0), "gone: nobody wants them");
	is_int(faccessat(at, "gone", F_OK, 0), -1, "gone: the file is not made anew");
	end(d, fd);
}

/* The limit is the next writer's, for what it finds: it comes from us. */
static void test_cut(void)
{
	struct rlimit was;
	struct flow f;
	int fd[2];
	struct disk *d = begin_dying(&f, "cut", fd);

	if (getrlimit(RLIMIT_FSIZE, &was) < 0 ||
	    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ MOVED + 4000, was.rlim_max }) < 0)
		exit(1);
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(left_in(d) == 0), "cut: the next one takes them");
	(void)setrlimit(RLIMIT_FSIZE, &was);
	fsize_limit(d, RLIM_INFINITY);
	(void)put_bytes(fd[1], MOVED + TAKEN, AFTER);
	ok(turn_until(f.seen & DISK_PUMP_LOST), "cut: it is said");
	close_auto(&fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "cut: to the end");
	is_int((long long)f.pump.size, MOVED + 4000, "cut: what the file took counts");
	is_int((long long)size_of("cut"), MOVED + 4000, "cut: nothing is behind it");
	is_int(wrong_in("cut"), 0, "cut: the right bytes");
	end(d, fd);
}

/* It was killed while it threw away what the disk did not take: the rest has no place any more. */
static void test_thrown(void)
{
	struct flow f;
	int fd[2];
	struct disk *d = begin_dying(&f, "thrown", fd);

	atomic_store(&d->ring.shared->transit.cut, 1);
	(void)put_bytes(fd[1], MOVED + TAKEN, AFTER);
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(f.seen & DISK_PUMP_LOST), "thrown: it is said");
	close_auto(&fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "thrown: to the end");
	is_int((long long)size_of("thrown"), MOVED, "thrown: nothing is behind the gap");
	end(d, fd);
}

/* The next writer throws away what was left, moves bytes of another stream, and is killed too, before the
 * first one had a turn. */
static void test_twice(void)
{
	struct rlimit was;
	struct flow f, other = { .pump.changed = on_flow };
	int fd[2], other_fd[2];
	struct disk *d = begin_dying(&f, "twice", fd);

	make_pipe(other_fd);
	f.pump.behind = UINT64_MAX;
	if (getrlimit(RLIMIT_FSIZE, &was) < 0 ||
	    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ MOVED + 4000, was.rlim_max }) < 0)
		exit(1);
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(left_in(d) == 0), "twice: what was left is gone");
	(void)setrlimit(RLIMIT_FSIZE, &was);
	is_int(disk_pump_start(d, &other.pump,
			       &(struct disk_pump_start){ "other", other_fd[0], 0, 1 << 30, false },
			       NULL),
	       0, "twice: another stream");
	(void)put_bytes(other_fd[1], 0, AFTER);
	ok(turn_until(other.pump.size == AFTER), "twice: goes on");
	(void)kill(disk_writer_pid(d), SIGKILL);
	f.pump.behind = 0;
	(void)put_bytes(fd[1], MOVED + TAKEN, AFTER);
	close_auto(&fd[1]);
	close_auto(&other_fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "twice: to the end");
	ok(f.seen & DISK_PUMP_LOST, "twice: it is said");
	is_int((long long)f.pump.size, MOVED + 4000, "twice: what the file took counts");
	is_int((long long)size_of("twice"), MOVED + 4000, "twice: nothing is behind it");
	is_int(wrong_in("twice"), 0, "twice: the right bytes");
	ok(turn_until(other.seen & DISK_PUMP_ENDED), "twice: the other one to its end");
	ok(!(other.seen & DISK_PUMP_LOST) && wrong_in("other") == 0, "twice: with all it had");
	(void)close(other_fd[0]);
	end(d, fd);
}

/* --- a writer that has no descriptors --- */

/* It begins in a child, with bytes of the last one between, and can open nothing until it is fed. */
static pid_t begin_starving(const char *name, struct disk_shared *shared, int transit[2],
			    rlim_t most)
{
	struct disk_writer_plan plan = { .ring.shared = shared, .dirfd = at };
	pid_t pid;

	(void)snprintf(shared->transit.name, DISK_NAME_MAX, "%s", name);
	make_pipe(transit);
	(void)put_bytes(transit[1], 0, TAKEN);
	memcpy(plan.transit, transit, sizeof(plan.transit));
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct pipe_between between = { 0 };
		struct disk_files files;
		struct disk_transit t;

		disk_files_init(&files, at);
		if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){ most, 64 }) < 0)
			_exit(2);
		disk_transit_init(&t, &files, &between, &plan);
		_exit(0);
	}
	return pid;
}

static int end_of(pid_t pid)
{
	int status = -1;

	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void feed(pid_t pid)
{
	struct rlimit has = { 1, 1 };

	while (has.rlim_cur && prlimit(pid, RLIMIT_NOFILE, NULL, &has) == 0)
		(void)usleep(1000);
	(void)usleep(50000); /* so it is hungry */
	if (prlimit(pid, RLIMIT_NOFILE, &(struct rlimit){ 64, 64 }, NULL) < 0)
		exit(1);
}

static void make_file(const char *name)
{
	(void)close(openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* And what the file takes never, for want of memory, is given up. */
static void test_starving(void)
{
	struct badfile bad;
	struct disk_shared *shared = mmap(NULL, 4 * sizeof(*shared), PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int never_fd[2][2], fd[2], bad_fd[2];
	pid_t pid, never[2], no_memory;

	if (shared == MAP_FAILED)
		exit(1);
	for (unsigned cut = 0; cut < 2; cut++) {
		shared[1 + cut].transit.cut = cut;
		never[cut] = begin_starving("never", &shared[1 + cut], never_fd[cut], 0);
	}
	ok(badfile_mount(&bad, ENOMEM), "starving: a file");
	no_memory = begin_starving(bad.place, &shared[3], bad_fd, 64);
	make_file("starving");
	pid = begin_starving("starving", shared, fd, 0);
	feed(pid);
	is_int(end_of(pid), 0, "starving: it begins when there are some");
	is_int((long long)size_of("starving"), TAKEN, "starving: nothing is lost");
	is_int(wrong_in("starving"), 0, "starving: the right bytes");
	ok(!shared->transit.cut, "starving: nor said to be");
	(void)close(fd[0]);
	(void)close(fd[1]);
	pid = begin_starving("not-there", shared, fd, 0);
	feed(pid);
	is_int(end_of(pid), 0, "starving: what nobody wants");
	is_int(left_at(fd[0]), 0, "starving: is thrown away");
	ok(shared->transit.cut, "starving: which is known");
	(void)close(fd[0]);
	(void)close(fd[1]);
	for (unsigned cut = 0; cut < 2; cut++) {
		is_int(end_of(never[cut]), 1, "starving: for ever, it ends");
		is_int(left_at(never_fd[cut][0]), TAKEN,
		       "starving: the next one finds what there was");
		is_int(shared[1 + cut].transit.cut, cut, "starving: and what is known of it");
		(void)close(never_fd[cut][0]);
		(void)close(never_fd[cut][1]);
	}
	is_int(end_of(no_memory), 0, "starving: a file that takes nothing is no reason to end");
	is_int(left_at(bad_fd[0]), 0, "starving: its bytes are thrown away");
	ok(shared[3].transit.cut, "starving: which is known");
	(void)close(bad_fd[0]);
	(void)close(bad_fd[1]);
	badfile_end(&bad);
	(void)munmap(shared, 4 * sizeof(*shared));
}

/* A part of what was taken, by a writer that lives. */
static void test_part(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f = { .pump.changed = on_flow };
	int fd[2];

	make_pipe(fd);
	fsize_limit(d, 30000);
	(void)put_bytes(fd[1], 0, 50000);
	(void)disk_pump_start(d, &f.pump,
			      &(struct disk_pump_start){ "part", fd[0], 0, 1 << 30, false }, NULL);
	disk_pump_settle(&f.pump);
	ok(turn_until(f.seen & DISK_PUMP_SETTLED), "part: settled, with less than there was");
	ok(f.seen & DISK_PUMP_LOST, "part: it is said");
	is_int((long long)f.pump.size, 30000, "part: what the file took counts");
	is_int(wrong_in("part"), 0, "part: the right bytes");
	end(d, fd);
}

/* The same beyond its limit: what comes then is not kept, and needs no room. */
static void test_beyond(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f = { .pump.changed = on_flow };
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 50000);
	(void)disk_pump_start(d, &f.pump,
			      &(struct disk_pump_start){ "beyond", fd[0], 0, 20000, false }, NULL);
	ok(turn_until(f.pump.flags & DISK_PUMP_LIMIT), "beyond: at its limit");
	fsize_limit(d, 30000);
	disk_pump_settle(&f.pump);
	ok(turn_until(f.seen & DISK_PUMP_SETTLED), "beyond: settled");
	ok(f.seen & DISK_PUMP_LOST, "beyond: not with all");
	(void)put_bytes(fd[1], 50000, 60000);
	ok(turn_until(left_at(fd[0]) == 0), "beyond: the command goes on");
	close_auto(&fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "beyond: to the end");
	is_int((long long)f.pump.size, 30000, "beyond: what the file took counts");
	end(d, fd);
}

/* A write(2) of bytes that are not there leaves, before Linux 6.15, a buffer without any in the pipe. */
static void test_hollow(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f = { .pump.changed = on_flow };
	int fd[2];

	make_pipe(fd);
	(void)disk_pump_start(
		d, &f.pump, &(struct disk_pump_start){ "hollow", fd[0], 0, 1 << 30, false }, NULL);
	for (int i = 0; i < 600; i++) { /* more than the pipe between has places */
		struct pollfd p = { .fd = fd[0], .events = POLLIN };

		(void)syscall(SYS_write, fd[1], 1, 9);
		if (!turn_until(poll(&p, 1, 0) == 0))
			break;
	}
	(void)put_bytes(fd[1], 0, MOVED);
	ok(turn_until(f.pump.size == MOVED), "hollow: bytes go through behind many of them");
	close_auto(&fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "hollow: to the end");
	is_int(wrong_in("hollow"), 0, "hollow: the right bytes");
	ok(!(f.seen & DISK_PUMP_LOST), "hollow: nothing is lost");
	end(d, fd);
}

/* At its limit such a buffer is neither a loss nor more to come. */
static void test_hollow_end(bool drops)
{
	const char *what = drops ? "hollow, drops" : "hollow, waits";
	struct disk *d = begin(1 << 18, -1);
	struct flow f = { .pump.changed = on_flow };
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, AFTER);
	(void)syscall(SYS_write, fd[1], 1, 9);
	close_auto(&fd[1]);
	(void)disk_pump_start(d, &f.pump, &(struct disk_pump_start){ what, fd[0], 0, AFTER, drops },
			      NULL);
	disk_pump_settle(&f.pump);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "%s: the end", what);
	is_int((long long)f.pump.size, AFTER, "%s: all of it", what);
	ok(!(f.seen & DISK_PUMP_LOST), "%s: nothing is lost", what);
	end(d, fd);
}

/* What is behind many of them and lost goes, and is not for the next stream. */
static void test_hollow_lost(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f = { .pump.changed = on_flow }, g = { .pump.changed = on_flow };
	enum { PAGE = 4096 }; /* what is shorter goes into a page that is there */
	int fd[2], other[2];

	fsize_limit(d, PAGE / 2);
	make_pipe(fd);
	make_pipe(other);
	(void)fcntl(fd[1], F_SETPIPE_SZ, 1 << 20);
	(void)put_bytes(fd[1], 0, PAGE);
	for (int i = 0; i < 200; i++)
		(void)syscall(SYS_write, fd[1], 1, PAGE);
	(void)put_bytes(fd[1], 1, PAGE); /* would be wrong anywhere */
	close_auto(&fd[1]);
	(void)disk_pump_start(
		d, &f.pump, &(struct disk_pump_start){ "behind", fd[0], 0, 1 << 30, false }, NULL);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "hollow, lost: the end");
	ok(f.seen & DISK_PUMP_LOST, "hollow, lost: which is said");
	(void)put_bytes(other[1], 0, 100);
	close_auto(&other[1]);
	(void)disk_pump_start(
		d, &g.pump, &(struct disk_pump_start){ "next", other[0], 0, 1 << 30, false }, NULL);
	ok(turn_until(g.seen & DISK_PUMP_ENDED), "hollow, lost: the next stream ends");
	is_int((long long)size_of("next"), 100, "hollow, lost: with all that it had");
	is_int(wrong_in("next"), 0, "hollow, lost: and nothing of the other's");
	ok(!(g.seen & DISK_PUMP_LOST), "hollow, lost: of which nothing is lost");
	end(d, fd);
	close_auto(&other[0]);
}

int main(void)
{
	if (!disk_test_begin())
		return 1;
	(void)signal(SIGXFSZ, SIG_IGN);
	test_left();
	test_gone();
	test_cut();
	test_thrown();
	test_twice();
	test_part();
	test_beyond();
	test_hollow();
	test_hollow_end(false);
	test_hollow_end(true);
	test_hollow_lost();
	test_starving();
	return disk_test_end();
}
