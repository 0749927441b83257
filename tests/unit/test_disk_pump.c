/* Bytes of commands that flood: through a pump, its limits, and a writer or an owner that dies. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/watch.h"
#include "sandbox/disk-internal.h"
#include "tests/unit/disk_bytes.h"

/* --- pumps --- */

struct flow {
	struct disk_pump pump;
	unsigned seen; /* flags */
	int calls;
};

static void on_flow(struct disk_pump *p)
{
	struct flow *f = container_of(p, struct flow, pump);

	f->seen |= p->flags;
	f->calls++;
}

static int start(struct disk *d, struct flow *f, const struct disk_pump_start *how)
{
	*f = (struct flow){ .pump.changed = on_flow };
	return disk_pump_start(d, &f->pump, how, NULL);
}

/* A child that writes `len` bytes and ends. */
static pid_t flood(int fd, int other, size_t len)
{
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		(void)close(other);
		_exit(put_bytes(fd, 0, len) != len);
	}
	(void)close(fd);
	return pid;
}

static void test_pump(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2], status;
	pid_t pid;

	make_pipe(fd);
	pid = flood(fd[1], fd[0], 30 << 20);
	is_int(start(d, &f, &(struct disk_pump_start){ "pumped", fd[0], 0, 1 << 30, false }), 0,
	       "pump: starts");
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "pump: to the end");
	is_int((long long)f.pump.size, 30 << 20, "pump: its size");
	is_int((long long)size_of("pumped"), 30 << 20, "pump: that of the file");
	is_int(wrong_in("pumped"), 0, "pump: the right bytes");
	ok(f.calls < 2000, "pump: %d messages", f.calls);
	ok(!(f.seen & (DISK_PUMP_LOST | DISK_PUMP_LIMIT)), "pump: nothing was lost");
	(void)waitpid(pid, &status, 0);
	disk_pump_done(&f.pump);
	disk_free(d);
	(void)close(fd[0]);
}

/* First through the ring, then by a pump, then through the ring again. */
static void test_change(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct disk_spool sp;
	struct disk_fill fill = { .name = "both", .len = 5000 };
	struct flow f;
	int fd[2];

	disk_spool_init(d, &sp, 0, NULL);
	make_pipe(fd);
	fill.fd = fd[0];
	for (int i = 0; i < 20; i++) {
		(void)put_bytes(fd[1], sp.size, 1000);
		(void)disk_spool_fill(d, &sp, &fill);
	}
	(void)put_bytes(fd[1], sp.size, 50000);
	is_int(start(d, &f, &(struct disk_pump_start){ "both", fd[0], sp.size, 1 << 20, false }), 0,
	       "change: to a pump");
	ok(turn_until(f.pump.size == 70000), "change: it goes on");
	disk_pump_stop(&f.pump);
	ok(turn_until(f.seen & DISK_PUMP_STOPPED), "change: back");
	sp.size = f.pump.size;
	(void)put_bytes(fd[1], sp.size, 3000);
	is_int(disk_spool_fill(d, &sp, &fill), 3000, "change: through the ring");
	is_int(disk_wait(d, PATIENCE_MS), 0, "change: written");
	is_int((long long)size_of("both"), 73000, "change: all of it");
	is_int(wrong_in("both"), 0, "change: in order");
	disk_spool_done(d, &sp);
	disk_free(d);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

static void test_limit(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2], left = 0;

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 60000);
	(void)start(d, &f, &(struct disk_pump_start){ "limited", fd[0], 0, 20000, false });
	ok(turn_until(f.pump.flags & DISK_PUMP_LIMIT), "limit: reached");
	(void)ioctl(fd[0], FIONREAD, &left);
	ok(f.pump.size == 20000 && left == 40000, "limit: the rest is in the pipe");
	disk_pump_limit(&f.pump, 30000);
	ok(turn_until(f.pump.size == 30000), "limit: another one");
	disk_pump_settle(&f.pump);
	ok(turn_until(f.seen & DISK_PUMP_SETTLED), "limit: settled");
	is_int((long long)f.pump.size, 60000, "limit: with all that was in the pipe");
	(void)put_bytes(fd[1], 60000, 10);
	(void)usleep(20000);
	(void)ev_turn(&loop, 0);
	is_int((long long)f.pump.size, 60000, "limit: and not more");
	disk_pump_settle(&f.pump);
	ok(turn_until(f.pump.size == 60010 && f.pump.flags & DISK_PUMP_SETTLED), "limit: again");
	is_int(wrong_in("limited"), 0, "limit: the right bytes");
	(void)close(fd[1]);
	disk_pump_limit(&f.pump, 1 << 20);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "limit: the end");
	(void)close(fd[0]);

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 60000);
	(void)start(d, &f, &(struct disk_pump_start){ "dropped", fd[0], 0, 20000, true });
	(void)close(fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "drop: runs on to its end");
	ok(f.pump.size == 20000 && f.seen & DISK_PUMP_LOST, "drop: and says so");
	(void)close(fd[0]);
	disk_free(d);
}

/* What was in the pipe is settled, and never more than the limit is kept of what drops. */
static void test_settle(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2];

	make_pipe(fd);
	(void)kill(disk_writer_pid(d), SIGSTOP);
	(void)put_bytes(fd[1], 0, 60000);
	(void)start(d, &f, &(struct disk_pump_start){ "drop-settled", fd[0], 0, 20000, true });
	disk_pump_settle(&f.pump);
	(void)kill(disk_writer_pid(d), SIGCONT);
	ok(turn_until(f.seen & DISK_PUMP_SETTLED), "settle: one that drops");
	is_int((long long)f.pump.size, 20000, "settle: not beyond its limit");
	ok(f.seen & DISK_PUMP_LOST, "settle: and says so");
	(void)close(fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "settle: the end");
	(void)close(fd[0]);

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 20000);
	(void)start(d, &f, &(struct disk_pump_start){ "at-limit", fd[0], 0, 20000, false });
	ok(turn_until(f.pump.flags & DISK_PUMP_LIMIT), "settle: at its limit");
	(void)close(fd[1]);
	disk_pump_settle(&f.pump);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "settle: and at its end, which is told");
	is_int((long long)f.pump.size, 20000, "settle: all of it");
	(void)close(fd[0]);
	disk_free(d);
}

/* The file of what is removed is not made again by a pump that was stopped. */
static void test_unlink(void)
{
	const struct disk_op gone = { .what = DISK_UNLINK, .name = "unlinked" };
	int fd[2], left = 0;

	for (int i = 0; i < 5; i++) {
		struct disk *d = begin(1 << 18, -1);
		struct flow f;

		make_pipe(fd);
		(void)put_bytes(fd[1], 0, 60000);
		(void)start(d, &f,
			    &(struct disk_pump_start){ "unlinked", fd[0], 0, 1 << 20, false });
		ok(turn_until(f.pump.size == 60000), "unlink: pumped");
		(void)kill(disk_writer_pid(d), SIGSTOP);
		(void)put_bytes(fd[1], 60000, 60000);
		disk_pump_limit(&f.pump, 2 << 20);
		disk_pump_limit(&f.pump, 3 << 20);
		disk_pump_done(&f.pump);
		(void)disk_put(d, &gone, NULL);
		(void)kill(disk_writer_pid(d), SIGCONT);
		(void)disk_wait(d, PATIENCE_MS);
		disk_free(d);
		left += faccessat(at, "unlinked", F_OK, 0) == 0;
		(void)unlinkat(at, "unlinked", 0);
		(void)close(fd[0]);
		(void)close(fd[1]);
	}
	is_int(left, 0, "unlink: it stays away");
}

/* --- as many as there may be, and more --- */

#define MANY (DISK_PUMPS_MAX + 20)

struct many {
	struct disk *d;
	struct flow flow[MANY];
	int fd[MANY][2];
	uint64_t put[MANY]; /* bytes */
	char name[MANY][16];
};

static int start_one(struct many *m, size_t i)
{
	return start(m->d, &m->flow[i],
		     &(struct disk_pump_start){ m->name[i], m->fd[i][0], 0, 1 << 20, false });
}

static void put_each(struct many *m, size_t from, size_t to, size_t len)
{
	for (size_t i = from; i < to; i++)
		m->put[i] += put_bytes(m->fd[i][1], m->put[i], len);
}

static bool all_moved(const struct many *m, size_t from, size_t to, unsigned flag)
{
	for (size_t i = from; i < to; i++)
		if (m->flow[i].pump.size != m->put[i] || (m->flow[i].pump.flags & flag) != flag)
			return false;
	return true;
}

/* All at once, while the writer cannot hear; then it does, or is killed and the next one has to. */
static void settle_all(struct many *m, size_t from, size_t to, int how)
{
	pid_t pid = disk_writer_pid(m->d);

	(void)kill(pid, SIGSTOP);
	put_each(m, from, to, 2000);
	for (size_t i = from; i < to; i++) {
		disk_pump_limit(&m->flow[i].pump, 2 << 20);
		disk_pump_settle(&m->flow[i].pump);
	}
	(void)kill(pid, how);
	ok(turn_until(all_moved(m, from, to, DISK_PUMP_SETTLED)), "many: settled, %s",
	   how == SIGKILL ? "by the next writer" : "at once");
}

static void test_many(void)
{
	static struct many m;
	unsigned refused = 0, wrong = 0;
	const size_t more = MANY - DISK_PUMPS_MAX;

	m.d = begin(1 << 18, -1);
	for (size_t i = 0; i < MANY; i++) {
		make_pipe(m.fd[i]);
		(void)snprintf(m.name[i], sizeof(m.name[i]), "many-%zu", i);
	}
	put_each(&m, 0, MANY, 3000);
	for (size_t i = 0; i < MANY; i++)
		refused += start_one(&m, i) == -EBUSY;
	is_int(refused, (long long)more, "many: the ones too many are refused");
	ok(turn_until(all_moved(&m, 0, DISK_PUMPS_MAX, 0)), "many: the others run");
	settle_all(&m, 0, DISK_PUMPS_MAX, SIGCONT);
	for (size_t i = 0; i < more; i++) { /* half of them at their end, half given up */
		if (i % 2)
			disk_pump_done(&m.flow[i].pump);
		else
			(void)close(m.fd[i][1]);
	}
	for (size_t i = 0; i < more; i += 2)
		ok(turn_until(m.flow[i].seen & DISK_PUMP_ENDED), "many: one ends");
	refused = 0;
	for (size_t i = DISK_PUMPS_MAX; i < MANY; i++)
		refused += start_one(&m, i) != 0;
	is_int(refused, 0, "many: so there is a place for the others");
	ok(turn_until(all_moved(&m, more, MANY, 0)), "many: which run");
	settle_all(&m, more, MANY, SIGKILL);
	for (size_t i = more; i < MANY; i++)
		(void)close(m.fd[i][1]);
	ok(turn_until(all_moved(&m, more, MANY, DISK_PUMP_ENDED)), "many: all end");
	for (size_t i = 0; i < MANY; i++)
		wrong += wrong_in(m.name[i]) != 0 || size_of(m.name[i]) != m.put[i];
	is_int(wrong, 0, "many: each with its own bytes, and all of them");
	disk_free(m.d);
	for (size_t i = 0; i < MANY; i++) {
		(void)close(m.fd[i][0]);
		if (i < more && i % 2)
			(void)close(m.fd[i][1]);
	}
}

/* --- a disk that does not take all --- */

static bool is_taken(int fd)
{
	int left = 0;

	return ioctl(fd, FIONREAD, &left) == 0 && left == 0;
}

/* What comes behind bytes that were lost is not at its place in the stream, so it is lost too, also
 * when there is room again, and for the next writer. */
static void test_gap(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 10000);
	(void)start(d, &f, &(struct disk_pump_start){ "gap", fd[0], 0, 1 << 20, false });
	ok(turn_until(f.pump.size == 10000), "gap: pumped");
	fsize_limit(d, 10000);
	(void)put_bytes(fd[1], 10000, 5000);
	ok(turn_until(f.seen & DISK_PUMP_LOST), "gap: bytes are lost");
	ok(turn_until(is_taken(fd[0])), "gap: the command goes on");
	fsize_limit(d, RLIM_INFINITY);
	(void)put_bytes(fd[1], 15000, 5000);
	ok(turn_until(is_taken(fd[0])), "gap: when there is room too");
	(void)kill(disk_writer_pid(d), SIGKILL);
	(void)put_bytes(fd[1], 20000, 5000);
	ok(turn_until(is_taken(fd[0])), "gap: so it does with the next writer");
	disk_pump_settle(&f.pump);
	ok(turn_until(f.seen & DISK_PUMP_SETTLED), "gap: settled");
	(void)close(fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "gap: to the end");
	is_int((long long)f.pump.size, 10000, "gap: what is in front of it is all there is");
	is_int((long long)size_of("gap"), 10000, "gap: in the file too");
	disk_free(d);
	(void)close(fd[0]);
}

/* Nor does a pump begin behind bytes that came to the file never. */
static void test_gap_before(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 5000, 5000);
	(void)start(d, &f, &(struct disk_pump_start){ "before", fd[0], 5000, 1 << 20, false });
	ok(turn_until(f.seen & DISK_PUMP_LOST), "gap in front: lost");
	(void)close(fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "gap in front: to the end");
	is_int((long long)size_of("before"), 0, "gap in front: nothing is behind it");
	disk_free(d);
	(void)close(fd[0]);
}

/* --- deaths --- */

static void test_writer_dies(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2];

	make_pipe(fd);
	(void)flood(fd[1], fd[0], 60 << 20);
	(void)start(d, &f, &(struct disk_pump_start){ "dies", fd[0], 0, 1 << 30, false });
	for (int i = 0; i < 3; i++) {
		uint64_t before = f.pump.size;

		(void)turn_until(f.pump.size > before + (1 << 20) || f.seen & DISK_PUMP_ENDED);
		if (disk_writer_pid(d) > 0)
			(void)kill(disk_writer_pid(d), SIGKILL);
	}
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "writer killed: the next one goes on");
	is_int((long long)f.pump.size, 60 << 20, "writer killed: nothing is lost");
	is_int(wrong_in("dies"), 0, "writer killed: nor doubled");
	disk_free(d);
	(void)close(fd[0]);
	(void)wait(NULL);
}

/* What the last one has moved and not told of is in the file, and not in the pipe. */
static void test_writer_untold(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 50000);
	(void)start(d, &f, &(struct disk_pump_start){ "untold", fd[0], 0, 1 << 30, false });
	ok(turn_until(f.pump.size == 50000), "untold: moved");
	f.pump.size = 20000;
	(void)kill(disk_writer_pid(d), SIGKILL);
	(void)put_bytes(fd[1], 50000, 1000);
	ok(turn_until(f.pump.size == 51000), "untold: the next one knows");
	is_int(wrong_in("untold"), 0, "untold: the right bytes");
	(void)close(fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "untold: to the end");
	disk_free(d);
	(void)close(fd[0]);
}

/* The same, while it settles: what is in the pipe lies behind what nobody was told of. */
static void test_writer_settles(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f;
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 50000);
	(void)start(d, &f, &(struct disk_pump_start){ "settles", fd[0], 0, 1 << 30, false });
	ok(turn_until(f.pump.size == 50000), "settles: moved");
	f.pump.size = 20000;
	(void)kill(disk_writer_pid(d), SIGSTOP);
	(void)put_bytes(fd[1], 50000, 10000);
	disk_pump_settle(&f.pump);
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(f.seen & DISK_PUMP_SETTLED), "settles: by the next one");
	is_int((long long)f.pump.size, 60000, "settles: all that was in the pipe");
	(void)close(fd[1]);
	ok(turn_until(f.seen & DISK_PUMP_ENDED), "settles: to the end");
	disk_free(d);
	(void)close(fd[0]);
}

static _Noreturn void owner(int keep)
{
	struct disk *d;
	struct disk_spool sp;
	struct flow f;
	struct disk_fill fill = { .name = "own-ring", .len = 5000 };
	int a[2], b[2];

	if (ev_init(&loop, NULL) < 0)
		_exit(1);
	d = begin(1 << 18, keep);
	disk_spool_init(d, &sp, 0, NULL);
	make_pipe(a);
	make_pipe(b);
	(void)put_bytes(b[1], 0, 50000);
	(void)start(d, &f, &(struct disk_pump_start){ "own-pipe", b[0], 0, 1 << 20, false });
	fill.fd = a[0];
	(void)put_bytes(a[1], 0, 4000);
	(void)disk_spool_fill(d, &sp, &fill);
	(void)kill(getpid(), SIGKILL);
	_exit(1);
}

static void test_owner_dies(void)
{
	int keep = openat(at, "keep", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	pid_t pid;

	(void)flock(keep, LOCK_EX);
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		owner(keep);
	(void)waitpid(pid, NULL, 0);
	(void)close(keep);
	keep = openat(at, "keep", O_RDWR | O_CLOEXEC);
	(void)flock(keep, LOCK_EX);
	is_int((long long)size_of("own-ring"), 4000, "owner killed: what was in the ring");
	is_int((long long)size_of("own-pipe"), 50000, "owner killed: what was in a pumped pipe");
	is_int(wrong_in("own-ring") + wrong_in("own-pipe"), 0, "owner killed: the right bytes");
	(void)close(keep);
}

int main(void)
{
	if (!disk_test_begin())
		return 1;
	(void)signal(SIGPIPE, SIG_IGN);
	test_pump();
	test_change();
	test_limit();
	test_settle();
	test_unlink();
	test_many();
	test_gap();
	test_gap_before();
	test_writer_dies();
	test_writer_untold();
	test_writer_settles();
	test_owner_dies();
	return disk_test_end();
}
