/* The state directory's writer, on both its sides, where something other than the disk is short. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "sandbox/disk_link-internal.h"
#include "tests/unit/disk_bytes.h"

#define LOST_MAX 2000

/* So many sources are watched, and then one is not; -1: all are.  Takes libc's place. */
static int adds = -1;

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && adds >= 0 && adds-- == 0) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

static void limit_files(pid_t pid, rlim_t n, struct rlimit *ret_was)
{
	struct rlimit limit;

	if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit) < 0)
		exit(1);
	*ret_was = limit;
	limit.rlim_cur = n;
	(void)prlimit(pid, RLIMIT_NOFILE, &limit, NULL);
}

static void put_spool(struct disk *d, struct disk_spool *sp, const char *name)
{
	char bytes[100];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte_at(sp->size + i);
	(void)disk_spool_put(
		d, sp, &(struct disk_bytes){ .name = name, .bytes = bytes, .len = sizeof(bytes) });
}

/* With a writer that has got where it hears, and has no file open that it could give up. */
static struct disk *begin_heard(void)
{
	const struct disk_op gone = { .what = DISK_UNLINK, .name = "first" };
	struct disk *d = begin(1 << 20, -1);
	struct disk_spool sp;

	disk_spool_init(d, &sp, 0, NULL);
	put_spool(d, &sp, "first");
	disk_spool_done(d, &sp);
	(void)disk_put(d, &gone, NULL);
	is_int(disk_wait(d, PATIENCE_MS), 0, "the writer is there");
	return d;
}

/* --- a writer without a descriptor --- */

#define WRITER_HAS 5 /* see keep_descriptors() */

/* It has one again some time, so bytes wait for that as they do for a full disk. */
static void test_no_file(void)
{
	struct disk *d = begin_heard();
	pid_t pid = disk_writer_pid(d);
	struct disk_spool sp;
	struct rlimit was;

	limit_files(pid, WRITER_HAS, &was);
	disk_spool_init(d, &sp, 0, NULL);
	put_spool(d, &sp, "spool");
	put_spool(d, &sp, "spool");
	ok(turn_until(sp.lost || disk_fault(d, NULL) == -EMFILE), "no descriptor: it is said");
	ok(!sp.lost, "no descriptor: nothing is lost");
	(void)prlimit(pid, RLIMIT_NOFILE, &was, NULL);
	is_int(disk_wait(d, PATIENCE_MS), 0, "no descriptor: with one, all is written");
	ok(size_of("spool") == 200 && !wrong_in("spool"), "no descriptor: as it should be");
	disk_spool_done(d, &sp);
	disk_free(d);
}

static void on_changed(struct disk_pump *pump)
{
	(void)pump;
}

/* A pipe whose spool cannot be opened now is given back. */
static void test_no_file_for_pump(void)
{
	struct disk *d = begin_heard();
	struct disk_pump pump = { .changed = on_changed };
	struct disk_pump_start start = { .name = "pumped", .limit = 1 << 20 };
	struct rlimit was;
	char byte;
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 1000);
	start.fd = fd[0];
	limit_files(disk_writer_pid(d), WRITER_HAS + 1, &was); /* the pipe's */
	is_int(disk_pump_start(d, &pump, &start, NULL), 0, "no descriptor for a pump: asked");
	ok(turn_until(pump.flags), "no descriptor for a pump: answered");
	is_int(pump.flags, DISK_PUMP_STOPPED, "no descriptor for a pump: the pipe is ours");
	ok(!pump.size && read(fd[0], &byte, 1) == 1 && byte == byte_at(0),
	   "no descriptor for a pump: with all that is in it");
	(void)prlimit(disk_writer_pid(d), RLIMIT_NOFILE, &was, NULL);
	disk_pump_done(&pump);
	(void)close(fd[0]);
	(void)close(fd[1]);
	disk_free(d);
}

/* --- hutchd without one --- */

static int next_fd(void)
{
	int fd = fcntl(at, F_DUPFD_CLOEXEC, 0);

	(void)close(fd);
	return fd;
}

static void test_no_room_for_answer(void)
{
	struct disk *d = begin(1 << 20, -1);
	struct answer a = { .done.fn = on_answer };
	struct disk_spool sp;
	struct rlimit was;

	disk_spool_init(d, &sp, 0, NULL);
	put_spool(d, &sp, "answer");
	limit_files(0, (rlim_t)next_fd(), &was);
	(void)disk_open(d, "answer", &a.done, NULL);
	ok(turn_until(a.calls), "no room for an answer: it comes");
	is_int(a.code, EMFILE, "no room for an answer: and says why it is none");
	(void)prlimit(0, RLIMIT_NOFILE, &was, NULL);
	a.calls = 0;
	(void)disk_open(d, "answer", &a.done, NULL);
	ok(turn_until(a.calls) && !a.code && a.fd >= 0, "no room for an answer: there is again");
	(void)close(a.fd);
	disk_spool_done(d, &sp);
	disk_free(d);
}

/* --- deaths --- */

/* Does it wait to be heard? */
static bool is_mute(struct disk *d)
{
	char path[32], line[512] = "";
	auto_close int fd = -1;
	const char *state;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)disk_writer_pid(d));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	state = fd >= 0 && read(fd, line, sizeof(line) - 1) > 0 ? strrchr(line, ')') : NULL;
	return state && state[1] && state[2] == 'S' && !atomic_load(&d->ring.shared->asleep);
}

static void kill_writer(struct disk *d)
{
	siginfo_t info;

	(void)kill(disk_writer_pid(d), SIGKILL);
	(void)waitid(P_PID, (id_t)disk_writer_pid(d), &info, WEXITED | WNOWAIT);
}

static unsigned lost;

static void on_lost(struct disk_spool *sp)
{
	lost += sp->lost;
}

/* What it could not say any more of what was lost, the next one says. */
static void test_dies_saying(void)
{
	static struct disk_spool sp[LOST_MAX];
	struct disk *d = begin_heard();
	const struct disk_op urgent = { .what = DISK_UNLINK,
					.flags = DISK_URGENT,
					.name = "never" };

	if (mkdirat(at, "directory", 0700) < 0)
		exit(1);
	for (size_t i = 0; i < ARRAY_SIZE(sp); i++) {
		disk_spool_init(d, &sp[i], 0, on_lost);
		(void)disk_spool_put(
			d, &sp[i],
			&(struct disk_bytes){
				.name = "directory", .bytes = "x", .len = 1, .must = true });
	}
	(void)disk_put(d, &urgent, NULL);
	for (int i = 0; i < PATIENCE_MS && !(is_mute(d) && is_mute(d)); i++)
		(void)usleep(1000);
	ok(is_mute(d), "dies while it speaks: nobody listens");
	kill_writer(d);
	(void)turn_until(lost == ARRAY_SIZE(sp));
	is_int(lost, ARRAY_SIZE(sp), "dies while it speaks: all is heard");
	for (size_t i = 0; i < ARRAY_SIZE(sp); i++)
		disk_spool_done(d, &sp[i]);
	disk_free(d);
}

static bool is_drained(int fd)
{
	int bytes = 1;

	return ioctl(fd, FIONREAD, &bytes) == 0 && !bytes;
}

/* A pipe that the next one gives back: its owner goes on behind what the last one has moved. */
static void test_dies_moving(void)
{
	struct disk *d = begin_heard();
	struct disk_pump pump = { .changed = on_changed };
	struct disk_pump_start start = { .name = "moved", .limit = 1 << 20 };
	uint64_t put = 0;
	int fd[2];

	make_pipe(fd);
	start.fd = fd[0];
	(void)disk_pump_start(d, &pump, &start, NULL);
	for (int i = 0; i < PATIENCE_MS && !(is_drained(fd[0]) && is_mute(d)); i++) {
		if (is_drained(fd[0]))
			put += put_bytes(fd[1], put, 10);
		(void)usleep(1000);
	}
	ok(is_mute(d) && size_of("moved") == put, "dies while it moves: nobody listens");
	kill_writer(d);
	disk_pump_stop(&pump);
	ok(turn_until(pump.flags & DISK_PUMP_STOPPED), "dies while it moves: the pipe is ours");
	is_int((long long)pump.size, (long long)put,
	       "dies while it moves: behind all that it moved");
	disk_pump_done(&pump);
	(void)close(fd[0]);
	(void)close(fd[1]);
	disk_free(d);
}

static int count_children(void)
{
	char line[4096] = "";
	auto_close int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	int n = 0;

	if (fd < 0 || read(fd, line, sizeof(line) - 1) < 0)
		return -1;
	for (const char *p = line; *p; p++)
		n += *p == ' ';
	return n;
}

/* One that cannot be watched does not write beside the next one. */
static void test_unwatched(void)
{
	struct disk *d = begin_heard();
	struct disk_spool sp;
	int before = next_fd();

	disk_spool_init(d, &sp, 0, NULL);
	adds = 0;
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(adds < 0), "not watched: the second writer");
	ok(turn_until(d->src.live), "not watched: the third is");
	put_spool(d, &sp, "watched");
	is_int(disk_wait(d, PATIENCE_MS), 0, "not watched: the third writes");
	ok(turn_until(zombies_gone(&zombies)), "not watched: who was killed is gone");
	is_int(count_children(), 1, "not watched: there is one");
	is_int(next_fd(), before, "not watched: no descriptor is left");
	disk_spool_done(d, &sp);
	disk_free(d);
}

int main(void)
{
	if (!disk_test_begin())
		return 1;
	test_no_file();
	test_no_file_for_pump();
	test_no_room_for_answer();
	test_dies_saying();
	test_dies_moving();
	test_unwatched();
	return disk_test_end();
}
