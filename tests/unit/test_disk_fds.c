/* The writer and hutchd out of descriptors: what needs one is told so, or waits, and nothing is lost. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "sandbox/disk-internal.h"
#include "tests/unit/disk_bytes.h"
#include "tests/unit/fds.h"

/* What fails, in the writer too. The functions below take the place of libc's. */
static struct {
	pid_t on_the_way; /* too many descriptors are, for this process: it may send none */
} * shared;

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (shared->on_the_way == getpid() && msg->msg_controllen) {
		errno = ETOOMANYREFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, msg, flags);
}

static int job_dir(void *arg, int dirfd, const void *args, size_t len, int *ret_fd, struct err *err)
{
	(void)arg;
	(void)args;
	(void)len;
	*ret_fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, errno, "open it") : 0;
}

static disk_job *const jobs[] = { job_dir };

static struct disk *begin_jobs(void)
{
	return disk_begin(1 << 18, -1, jobs, ARRAY_SIZE(jobs));
}

/* --- few descriptors --- */

/* Of this process (0) or the writer: what is above stays open. Returns what it was. */
static rlim_t limit_fds(pid_t pid, rlim_t to)
{
	struct rlimit limit, was;

	if (prlimit(pid, RLIMIT_NOFILE, NULL, &was) < 0)
		exit(1);
	limit = (struct rlimit){ to, was.rlim_max };
	if (prlimit(pid, RLIMIT_NOFILE, &limit, NULL) < 0)
		exit(1);
	return was.rlim_cur;
}

static rlim_t no_more_here(void)
{
	int next = dup(at);

	(void)close(next);
	return limit_fds(0, (rlim_t)next);
}

#define WRITER_HAS 7 /* its directory, its socket and a pipe are 3 to 6 */

static rlim_t no_more_there(struct disk *d, rlim_t but)
{
	struct answer a = { .done.fn = on_answer };

	(void)disk_open(d, "none", &a.done, NULL); /* who answers has begun */
	(void)turn_until(a.calls);
	return limit_fds(disk_writer_pid(d), WRITER_HAS + but);
}

/* --- answers --- */

enum { ASK_JOB, ASK_OPEN, ASK_FETCH, ASK_COUNT };

static const char *const names[] = { "a job", "an opening", "a fetch" };

static void ask(struct disk *d, int what, int file, struct answer *a)
{
	const struct disk_op job = { .what = DISK_JOB,
				     .flags = DISK_MUST | DISK_URGENT,
				     .done = &a->done };

	*a = (struct answer){ .done.fn = on_answer, .fd = -1 };
	if (what == ASK_JOB)
		(void)disk_put(d, &job, NULL);
	else if (what == ASK_OPEN)
		(void)disk_open(d, "file", &a->done, NULL);
	else
		(void)disk_fetch(d, &(struct disk_fetch){ file, 0, 10 }, &a->done, NULL);
}

/* Each is told, and when it asks again it has what it wants. */
static void test_answers(const char *how, struct disk *d, void (*lack)(struct disk *, bool),
			 int error)
{
	auto_close int file = openat(at, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int fds;

	(void)put_bytes(file, 0, 100);
	fds = count_fds();
	for (int i = 0; i < ASK_COUNT; i++) {
		struct answer a;

		lack(d, true);
		ask(d, i, file, &a);
		ok(turn_until(a.calls), "%s: %s is answered", how, names[i]);
		ok(a.code == error && a.fd < 0, "%s: %s: %s", how, names[i], strerror(a.code));
		lack(d, false);
		disk_cancel(d, &a.done);
		ask(d, i, file, &a);
		ok(turn_until(a.calls) && a.fd >= 0, "%s: %s, again", how, names[i]);
		close_auto(&a.fd);
	}
	is_int(count_fds(), fds, "%s: none is left open", how);
}

static void lack_here(struct disk *d, bool yes)
{
	static rlim_t was;

	(void)d;
	if (yes)
		was = no_more_here();
	else
		(void)limit_fds(0, was);
}

static void lack_there(struct disk *d, bool yes)
{
	static rlim_t was;

	if (yes)
		was = no_more_there(d, 0);
	else
		(void)limit_fds(disk_writer_pid(d), was);
}

static void lack_on_the_way(struct disk *d, bool yes)
{
	shared->on_the_way = yes ? disk_writer_pid(d) : 0;
}

/* --- what is written --- */

#define SPOOLS 12

static bool all_written(void)
{
	bool good = true;

	for (int i = 0; i < SPOOLS; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "spool-%d", i);
		good &= size_of(name) == 300 && wrong_in(name) == 0;
	}
	return good;
}

static void fill_spools(struct disk *d, struct disk_spool sp[SPOOLS])
{
	int fd[2];

	make_pipe(fd);
	for (int i = 0; i < 3 * SPOOLS; i++) {
		struct disk_spool *s = &sp[i % SPOOLS];
		char name[32];

		(void)snprintf(name, sizeof(name), "spool-%d", i % SPOOLS);
		(void)put_bytes(fd[1], s->size, 100);
		(void)disk_spool_fill(d, s, &(struct disk_fill){ name, fd[0], 100, 0, false });
	}
	(void)close(fd[0]);
	(void)close(fd[1]);
}

/* `but`: so many it may have open. */
static void test_written(rlim_t but)
{
	const struct disk_op record = {
		.what = DISK_REPLACE, .name = "record", .data = "x", .len = 1, .mode = 0600
	};
	struct disk *d = begin(1 << 18, -1);
	struct disk_spool sp[SPOOLS];
	rlim_t was = no_more_there(d, but);
	int lost = 0;

	for (int i = 0; i < SPOOLS; i++)
		disk_spool_init(d, &sp[i], 0, NULL);
	fill_spools(d, sp);
	(void)disk_put(d, &record, NULL);
	if (!but) {
		ok(turn_until(disk_fault(d, NULL) == -EMFILE), "no descriptor: it is said");
		(void)limit_fds(disk_writer_pid(d), was);
	}
	is_int(disk_wait(d, PATIENCE_MS), 0, "%d descriptors: all is done", (int)but);
	(void)turn_until(disk_fault(d, NULL) == 0);
	for (int i = 0; i < SPOOLS; i++) {
		lost += sp[i].lost;
		disk_spool_done(d, &sp[i]);
	}
	ok(!lost && all_written(), "%d descriptors: nothing is lost", (int)but);
	is_int((long long)size_of("record"), 1, "%d descriptors: and a whole file", (int)but);
	disk_free(d);
	for (int i = 0; i < SPOOLS; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "spool-%d", i);
		(void)unlinkat(at, name, 0);
	}
	(void)unlinkat(at, "record", 0);
}

/* --- pumps --- */

struct flow {
	struct disk_pump pump;
	unsigned seen; /* flags */
};

static void on_flow(struct disk_pump *p)
{
	container_of(p, struct flow, pump)->seen |= p->flags;
}

static int in_pipe(int fd)
{
	int n = -1;

	(void)ioctl(fd, FIONREAD, &n);
	return n;
}

/* The pipe is the loop's again, with all that was in it. */
static void test_pump_refused(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f = { .pump.changed = on_flow };
	const struct disk_pump_start start = { "pumped", -1, 0, 1 << 20, false };
	struct disk_pump_start how = start;
	int fd[2];

	make_pipe(fd);
	how.fd = fd[0];
	(void)put_bytes(fd[1], 0, 5000);
	(void)no_more_there(d, 0);
	is_int(disk_pump_start(d, &f.pump, &how, NULL), 0, "pump: asked for");
	ok(turn_until(f.seen & DISK_PUMP_STOPPED), "pump: the writer cannot take it");
	ok(f.pump.size == 0 && in_pipe(fd[0]) == 5000, "pump: nothing is taken");
	(void)close(fd[0]);
	(void)close(fd[1]);
	disk_free(d);
}

/* The next writer cannot take what the last one had: that it had moved more than we know is known then. */
static void test_pump_not_resumed(void)
{
	struct disk *d = begin(1 << 18, -1);
	struct flow f = { .pump.changed = on_flow };
	int fd[2];

	make_pipe(fd);
	(void)put_bytes(fd[1], 0, 5000);
	(void)disk_pump_start(
		d, &f.pump, &(struct disk_pump_start){ "resumed", fd[0], 0, 1 << 20, false }, NULL);
	ok(turn_until(f.pump.size == 5000), "resumed: moved");
	f.pump.size = 2000; /* as if it had not been told */
	shared->on_the_way = getpid();
	(void)kill(disk_writer_pid(d), SIGKILL);
	ok(turn_until(f.seen & DISK_PUMP_STOPPED), "resumed: the next writer cannot");
	is_int((long long)f.pump.size, 5000, "resumed: it says how far the last one was");
	shared->on_the_way = 0;
	(void)close(fd[0]);
	(void)close(fd[1]);
	disk_free(d);
}

/* --- a writer that cannot be started --- */

static void turn_for_ms(int64_t ms)
{
	int64_t end = ev_now() + ms * 1000000;

	while (ev_now() < end)
		(void)ev_turn(&loop, 10);
}

static void test_not_started(void)
{
	struct disk *d = begin_jobs();
	struct answer a;
	int fds = count_fds();
	rlim_t was = no_more_here();

	(void)kill(disk_writer_pid(d), SIGKILL);
	ask(d, ASK_JOB, -1, &a);
	(void)turn_until(disk_writer_pid(d) == -1);
	turn_for_ms(1500);
	ok(!a.calls && disk_writer_pid(d) == -1, "no socket: there is no writer");
	(void)limit_fds(0, was);
	ok(turn_until(a.calls) && a.fd >= 0, "no socket: then there is");
	close_auto(&a.fd);
	is_int(count_fds(), fds, "no socket: none is left open");
	disk_free(d);
}

int main(void)
{
	struct disk *d;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || !disk_test_begin())
		return 1;
	(void)signal(SIGPIPE, SIG_IGN);
	d = begin_jobs();
	test_answers("none here", d, lack_here, EMFILE);
	test_answers("none in the writer", d, lack_there, EMFILE);
	test_answers("too many on the way", d, lack_on_the_way, ETOOMANYREFS);
	disk_free(d);
	test_written(0);
	test_written(1);
	test_written(3);
	test_pump_refused();
	test_pump_not_resumed();
	test_not_started();
	return disk_test_end();
}
