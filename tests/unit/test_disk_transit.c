/* Bytes between a command's pipe and their file when the writer dies: the next one finds them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/disk_link-internal.h"
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
	(void)snprintf(d->ring.shared->transit.name, DISK_NAME_MAX, "%s", name);
	is_int((long long)put_bytes(d->transit[1], MOVED, TAKEN), TAKEN, "%s: taken", name);
	return d;
}

static int left_in(const struct disk *d)
{
	int left = -1;

	(void)ioctl(d->transit[0], FIONREAD, &left);
	return left;
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

int main(void)
{
	if (!disk_test_begin())
		return 1;
	(void)signal(SIGXFSZ, SIG_IGN);
	test_left();
	test_gone();
	test_cut();
	test_thrown();
	test_part();
	return disk_test_end();
}
