/* The state directory's writer: order, the ring's ends, a full disk, both sides killed at any point. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/watch.h"
#include "tests/unit/disk.h"

static int job_make(void *arg, int dirfd, const void *args, size_t len, int *ret_fd,
		    struct err *err)
{
	char name[64];

	(void)arg;
	(void)snprintf(name, sizeof(name), "%.*s", (int)len, (const char *)args);
	if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "make '%s'", name);
	*ret_fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int job_fail(void *arg, int dirfd, const void *args, size_t len, int *ret_fd,
		    struct err *err)
{
	(void)arg;
	(void)dirfd;
	(void)args;
	(void)len;
	(void)ret_fd;
	return err_say(err, EXDEV, "no such luck");
}

/* Done, but the first time nobody hears of it. */
static int job_mute(void *arg, int dirfd, const void *args, size_t len, int *ret_fd,
		    struct err *err)
{
	bool again = faccessat(dirfd, "mute", F_OK, 0) == 0;
	int r = job_make(arg, dirfd, args, len, ret_fd, err);

	if (!again)
		(void)shutdown(4, SHUT_RDWR); /* its socket */
	return r;
}

static disk_job *const jobs[] = { job_make, job_fail, job_mute };

static struct disk *begin(size_t size, int keep)
{
	return disk_begin(size, keep, jobs, ARRAY_SIZE(jobs));
}

static int put_at(struct disk *d, const char *name, uint64_t off, const char *text, unsigned flags)
{
	const struct disk_op op = { .what = DISK_WRITE,
				    .flags = flags,
				    .name = name,
				    .off = off,
				    .data = text,
				    .len = strlen(text) };

	return disk_put(d, &op, NULL);
}

static int put_names(struct disk *d, enum disk_what what, const char *name, const char *to,
		     const char *text)
{
	const struct disk_op op = { .what = what,
				    .flags = DISK_MUST,
				    .name = name,
				    .to = to,
				    .data = text,
				    .len = text ? strlen(text) : 0,
				    .mode = 0640 };

	return disk_put(d, &op, NULL);
}

static const char *text_of(const char *name)
{
	static struct buf text;

	buf_done(&text);
	if (file_read(at, name, &text, NULL) < 0)
		return "(none)";
	return text.data ? text.data : "";
}

/* --- order, and what each does --- */

static void test_operations(void)
{
	struct disk *d = begin(1 << 20, -1);
	struct stat st;

	(void)put_at(d, "log", 0, "one ", 0);
	(void)put_at(d, "log", 4, "two ", 0);
	(void)put_at(d, "other", 0, "x", 0);
	(void)put_at(d, "log", 8, "three", 0);
	(void)put_names(d, DISK_REPLACE, "whole", NULL, "old");
	(void)put_names(d, DISK_REPLACE, "whole", NULL, "new");
	(void)put_names(d, DISK_UNLINK, "other", NULL, NULL);
	(void)put_names(d, DISK_UNLINK, "never", NULL, NULL);
	(void)put_names(d, DISK_RENAME, "never", "there", NULL);
	is_int(disk_wait(d, PATIENCE_MS), 0, "operations: all done");
	is_str(text_of("log"), "one two three", "writes, in order");
	is_str(text_of("whole"), "new", "replaced");
	ok(fstatat(at, "whole", &st, 0) == 0 && (st.st_mode & 0777) == 0640, "with its mode");
	is_str(text_of("other"), "(none)", "unlinked");
	(void)put_names(d, DISK_RENAME, "log", "moved", NULL);
	(void)put_at(d, "log", 0, "again", 0);
	(void)put_at(d, "moved", 13, "!", 0);
	(void)put_at(d, "whole", 0, "cut", DISK_TRUNCATE);
	is_int(disk_wait(d, PATIENCE_MS), 0, "operations: and these");
	is_str(text_of("moved"), "one two three!", "renamed, with what was written to it");
	is_str(text_of("log"), "again", "a new file of the old name");
	is_str(text_of("whole"), "cut", "truncated");
	(void)put_at(d, "no/such/dir", 0, "x", 0);
	is_int(disk_wait(d, PATIENCE_MS), 0, "what has gone with its directory is done");
	is_int(disk_fault(d, NULL), 0, "and no fault");
	disk_free(d);
}

/* --- answers --- */

static int ask(struct disk *d, unsigned job, const char *name, struct answer *a)
{
	const struct disk_op op = { .what = DISK_JOB,
				    .flags = DISK_URGENT | DISK_MUST,
				    .data = name,
				    .len = strlen(name),
				    .job = job,
				    .done = &a->done };

	*a = (struct answer){ .done.fn = on_answer, .fd = -1 };
	return disk_put(d, &op, NULL);
}

static void test_jobs(void)
{
	struct disk *d = begin(1 << 20, -1);
	struct answer a, b, c;
	struct stat st;

	is_int(ask(d, 0, "made", &a), 0, "job: put");
	(void)ask(d, 1, "", &b);
	(void)ask(d, 0, "cancelled", &c);
	disk_cancel(d, &c.done);
	ok(turn_until(a.calls && b.calls), "job: answered");
	ok(a.fd >= 0 && fstat(a.fd, &st) == 0 && S_ISDIR(st.st_mode), "job: with a descriptor");
	is_int(b.code, EXDEV, "job: a failure is told");
	is_int(disk_wait(d, PATIENCE_MS), 0, "job: all done");
	ok(faccessat(at, "cancelled", F_OK, 0) == 0 && !c.calls, "job: nobody wants to know");
	close_auto(&a.fd);
	disk_free(d);
}

/* --- the ring's ends --- */

#define WRAPS 400

static size_t wrap_len(int i)
{
	return 1 + (size_t)i * 37 % 4999;
}

static void test_wrap(void)
{
	struct disk *d = begin(1 << 16, -1);
	char block[5001];
	uint64_t off = 0;
	const char *all;
	int bad = 0, waits = 0;

	for (int i = 0; i < WRAPS; i++) {
		memset(block, 'a' + i % 26, wrap_len(i));
		block[wrap_len(i)] = '\0';
		while (put_at(d, "wrap", off, block, 0) == -EAGAIN && waits++ < 100000)
			(void)disk_wait(d, PATIENCE_MS);
		off += wrap_len(i);
	}
	is_int(disk_wait(d, PATIENCE_MS), 0, "wrap: written");
	ok(waits > 0, "wrap: the ring was full at times");
	all = text_of("wrap");
	is_int((long long)strlen(all), (long long)off, "wrap: all of it");
	off = 0;
	for (int i = 0; i < WRAPS && off < strlen(all); i++) {
		bad += all[off] != 'a' + i % 26 || all[off + wrap_len(i) - 1] != 'a' + i % 26;
		off += wrap_len(i);
	}
	is_int(bad, 0, "wrap: each byte in its place");
	disk_free(d);
}

/* --- room --- */

struct waiter {
	struct watch watch;
	int fired;
};

static void on_room(struct watch *w)
{
	container_of(w, struct waiter, watch)->fired++;
}

static int put_block(struct disk *d, const char *name, uint32_t share, unsigned flags)
{
	static char block[1000];
	const struct disk_op op = { .what = DISK_WRITE,
				    .flags = flags,
				    .name = name,
				    .data = block,
				    .len = sizeof(block),
				    .share = share };

	return disk_put(d, &op, NULL);
}

static int fill_share(struct disk *d, const char *name, uint32_t share)
{
	int n = 0;

	while (put_block(d, name, share, 0) == 0)
		n++;
	return n;
}

static void test_room(void)
{
	struct disk *d = begin(1 << 16, -1);
	pid_t pid = disk_writer_pid(d);
	struct waiter w = { .fired = 0 };
	int n[4], must = 0;

	watch_init(&w.watch, on_room);
	(void)kill(pid, SIGSTOP); /* the slowest disk there is */
	for (uint32_t i = 0; i < ARRAY_SIZE(n); i++)
		n[i] = fill_share(d, "block", i + 1);
	ok(n[0] > 8 && n[0] < 16, "room: one user has a quarter (%d)", n[0]);
	ok(n[1] > 8 && n[2] > 8, "room: others have theirs (%d, %d)", n[1], n[2]);
	ok(n[3] < 4, "room: and then there is none (%d)", n[3]);
	while (must < 200 && put_block(d, "must", 1, DISK_MUST) == 0)
		must++;
	is_int(must, 200, "room: but for what must");
	is_int(put_names(d, DISK_RENAME, "must", "done", NULL), 0, "room: names too");
	watch_add(disk_room(d), &w.watch);
	(void)kill(pid, SIGCONT);
	ok(turn_until(w.fired), "room: who waits is told");
	ok(turn_until(disk_has_room(d, 1)), "room: there is some");
	is_int(disk_wait(d, PATIENCE_MS), 0, "room: all is written");
	ok(faccessat(at, "done", F_OK, 0) == 0 && faccessat(at, "must", F_OK, 0) < 0,
	   "room: in order");
	disk_free(d);
}

/* --- a disk that is full --- */

/* In a mount namespace of our own. */
static bool mount_small(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("full", dir, "tmpfs", 0, "size=128k") == 0;
}

static void fill_disk(struct disk *d)
{
	static char big[100001];
	struct err err = { 0 };

	memset(big, 'x', sizeof(big) - 1);
	(void)put_at(d, "ballast", 0, big, 0);
	(void)put_at(d, "journal", 0, big, 0);
	(void)put_at(d, "journal", sizeof(big) - 1, "behind", 0);
	ok(turn_until(disk_fault(d, &err) == -ENOSPC), "full: it is said");
	is_str(err.msg, "state directory: No space left on device", "full: in words");
	(void)put_at(d, "small", 0, "", 0);
	(void)put_at(d, "lost", 0, big, DISK_LOSSY);
	(void)put_names(d, DISK_UNLINK, "never", NULL, NULL);
	ok(turn_until(strcmp(text_of("small"), "") == 0), "full: others go on");
	(void)put_names(d, DISK_UNLINK, "ballast", NULL, NULL);
	(void)put_names(d, DISK_UNLINK, "lost", NULL, NULL);
	(void)put_names(d, DISK_REPLACE, "record", NULL, "whole");
	is_int(disk_wait(d, PATIENCE_MS), 0, "full: with room, all of it");
	is_str(text_of("record"), "whole", "full: the last too");
	is_str(text_of("journal") + sizeof(big) - 1, "behind", "full: nothing is lost");
	ok(turn_until(disk_fault(d, NULL) == 0), "full: it is over");
}

static void test_full(void)
{
	int was = at;
	struct disk *d;

	if (!mount_small()) {
		printf("ok %d - full # SKIP may not mount\n", ++tap_n);
		return;
	}
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = begin(1 << 20, -1);
	fill_disk(d);
	disk_free(d);
	(void)close(at);
	at = was;
	ok(umount2(dir, MNT_DETACH) == 0, "full: unmounted");
}

/* --- deaths --- */

static void is_count(const char *name, uint64_t want, const char *what)
{
	const char *p = text_of(name);
	uint64_t n = 0, bad = 0;

	for (; *p >= '0' && *p <= '9'; n++) {
		char *end;

		bad += strtoull(p, &end, 10) != n || *end != '\n';
		p = end + 1;
	}
	is_int((long long)n, (long long)want, "%s: %s: nothing is lost", what, name);
	is_int((long long)bad, 0, "%s: %s: nor doubled", what, name);
}

static void put_line(struct disk *d, const char *name, uint64_t n, uint64_t *off)
{
	char line[32];

	(void)snprintf(line, sizeof(line), "%llu\n", (unsigned long long)n);
	if (put_at(d, name, *off, line, 0) == 0)
		*off += strlen(line);
}

#define DEATHS 20

static void test_writer_dies(void)
{
	struct disk *d = begin(1 << 20, -1);
	uint64_t off = 0, other = 0;
	struct answer a[DEATHS];
	int answered = 0;

	for (uint64_t n = 0; n < DEATHS; n++) {
		char name[16];

		for (uint64_t i = 0; i < 50; i++) {
			put_line(d, "dies", n * 50 + i, &off);
			put_line(d, "dies-too", n * 50 + i, &other);
		}
		(void)snprintf(name, sizeof(name), "dies-%d", (int)n);
		(void)ask(d, 0, name, &a[n]);
		for (int i = 0; i < (int)n % 3; i++)
			(void)ev_turn(&loop, 1);
		(void)usleep((unsigned)n * 53 % 400);
		if (disk_writer_pid(d) > 0)
			(void)kill(disk_writer_pid(d), SIGKILL);
		if (n % 7 == 6)
			(void)turn_until(a[n].calls);
	}
	is_int(disk_wait(d, PATIENCE_MS), 0, "writer killed: the next one goes on");
	is_count("dies", DEATHS * 50, "writer killed");
	is_count("dies-too", DEATHS * 50, "writer killed");
	for (int i = 0; i < DEATHS; i++) {
		answered += turn_until(a[i].calls == 1 && a[i].fd >= 0);
		close_auto(&a[i].fd);
	}
	is_int(answered, DEATHS, "writer killed: each job is answered once");
	(void)ask(d, 2, "mute", &a[0]);
	ok(turn_until(a[0].calls == 1 && a[0].fd >= 0),
	   "writer killed: behind a job, before its answer");
	close_auto(&a[0].fd);
	disk_free(d);
}

/* A hutchd that is killed behind its last put, without having turned its loop. */
static _Noreturn void owner(int keep, const char *name, unsigned pause)
{
	struct disk *d;
	uint64_t off = 0, other = 0;

	if (ev_init(&loop, NULL) < 0)
		_exit(1);
	d = begin(1 << 20, keep);
	/* In turns, so that each is a write of its own. */
	for (uint64_t i = 0; i < 500; i++) {
		put_line(d, "own-other", i, &other);
		put_line(d, name, i, &off);
	}
	(void)usleep(pause);
	(void)kill(getpid(), SIGKILL);
	_exit(1);
}

static void test_owner_dies(void)
{
	for (unsigned i = 0; i < 8; i++) {
		int keep = openat(at, "keep", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		char name[16];
		pid_t pid;

		(void)flock(keep, LOCK_EX);
		(void)snprintf(name, sizeof(name), "own-%u", i);
		(void)fflush(stdout);
		pid = fork();
		if (pid == 0)
			owner(keep, name, i * 4000);
		(void)waitpid(pid, NULL, 0);
		(void)close(keep);
		keep = openat(at, "keep", O_RDWR | O_CLOEXEC);
		ok(flock(keep, LOCK_EX) == 0, "owner killed: its writer ends");
		is_count(name, 500, "owner killed");
		(void)close(keep);
	}
}

int main(void)
{
	if (!disk_test_begin())
		return 1;
	test_operations();
	test_jobs();
	test_wrap();
	test_room();
	test_writer_dies();
	test_owner_dies();
	test_full();
	return disk_test_end();
}
