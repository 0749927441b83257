/* bench_cost.c - what hutchd holds for each sandbox and command, and what ending many takes */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/text.h"
#include "tools/bench.h"

#define BOXES    50
#define COMMANDS 1000
#define FAMILY   "100"
#define SETTLE_S 10

#define RUN_TRUE   "{\"cmd\":[\"/root/true\"]}"
#define RUN_WAIT   "{\"cmd\":[\"/root/true\",\"wait\"]}"
#define RUN_FAMILY "{\"cmd\":[\"/root/true\",\"family\",\"" FAMILY "\"]}"

DEFINE_AUTO(DIR *, closedir);

struct bench_held bench_held(const struct bench *bench)
{
	auto_buf struct buf status = { .max = 65536 };
	char path[64];
	struct bench_held held = { 0 };
	const char *line;

	(void)snprintf(path, sizeof(path), "/proc/%s/status", bench->pid);
	if (file_read(AT_FDCWD, path, &status, NULL) == 0 && status.len &&
	    (line = strstr(status.data, "VmRSS:")))
		held.kib = strtod(line + strlen("VmRSS:"), NULL);
	(void)snprintf(path, sizeof(path), "/proc/%s/fd", bench->pid);
	{
		AUTO(closedir) DIR *dir = opendir(path);

		while (dir && readdir(dir))
			held.fds++;
	}
	return held;
}

/* The number behind a key of stats.json; -1: it is not there. */
static long count_of(const struct bench *bench, const char *key)
{
	auto_close int fd = bench_open(bench->tree, "stats.json", O_RDONLY, NULL);
	char text[4096], quoted[64];
	const char *at;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return -1;
	text[n] = '\0';
	(void)snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = strstr(text, quoted);
	return at ? strtol(at + strlen(quoted), NULL, 10) : -1;
}

static int wait_count(const struct bench *bench, const char *key, long want, struct err *err)
{
	for (int i = 0; i < SETTLE_S * 100; i++) {
		if (count_of(bench, key) == want)
			return 0;
		bench_pause_ms(10);
	}
	return err_say(err, ETIME, "stats.json: '%s' is %ld, not %ld", key, count_of(bench, key),
		       want);
}

/* What was opened for a request or a sweep is closed by then. */
static struct bench_held settled(const struct bench *bench)
{
	bench_pause_ms(200);
	return bench_held(bench);
}

static void per_one(struct bench_held before, struct bench_held now, unsigned n, double *kib,
		    double *fds)
{
	*kib = (now.kib - before.kib) / n;
	*fds = (now.fds - before.fds) / n;
}

static int cost_of_boxes(struct bench *bench, struct bench_cost *ret, struct err *err)
{
	struct bench_held before = settled(bench);
	char path[PATH_MAX];
	int r = 0;

	for (int i = 0; i < BOXES && r == 0; i++) {
		(void)snprintf(path, sizeof(path), "%s/cost-%d", bench->tree, i);
		if (mkdir(path, 0700) < 0)
			r = err_set(err, errno, "mkdir %s", path);
	}
	if (r == 0)
		r = wait_count(bench, "running", BOXES + 1, err);
	per_one(before, settled(bench), BOXES, &ret->box_kib, &ret->box_fds);
	for (int i = 0; i < BOXES && r == 0; i++) {
		(void)snprintf(path, sizeof(path), "%s/cost-%d", bench->tree, i);
		if (rmdir(path) < 0)
			r = err_set(err, errno, "rmdir %s", path);
	}
	return r;
}

static int start_many(const struct bench *bench, const char *request, struct err *err)
{
	auto_close int fd = bench_open(bench->box, "exec/new", O_RDWR, err);
	char name[NAME_MAX_LEN + 2];
	int r = fd < 0 ? fd : 0;

	for (int i = 0; i < COMMANDS && r == 0; i++)
		r = bench_start(fd, request, name, err);
	return r;
}

int bench_write_file(const char *box, const char *node, const char *text, struct err *err)
{
	auto_close int fd = bench_open(box, node, O_WRONLY, err);
	int r = fd < 0 ? fd : write_all(fd, text, strlen(text));

	return r < 0 && fd >= 0 ? err_set(err, -r, "write to %s/%s", box, node) : r;
}

static int cost_of_finished(const struct bench *bench, struct bench_cost *ret, struct err *err)
{
	struct bench_held before = settled(bench);
	int r = 0;

	/* One after the other: at once they would be live, and leave the memory of that. */
	for (int i = 0; i < COMMANDS && r == 0; i++)
		r = bench_exec_handle(bench, bench->box, RUN_TRUE, err);
	if (r == 0)
		r = wait_count(bench, "live", 0, err);
	per_one(before, settled(bench), COMMANDS, &ret->finished_kib, &ret->finished_fds);
	return r;
}

static int cost_of_live(const struct bench *bench, struct bench_cost *ret, struct err *err)
{
	struct bench_held before = settled(bench);
	int r = start_many(bench, RUN_WAIT, err);

	if (r == 0)
		r = wait_count(bench, "live", COMMANDS, err);
	per_one(before, settled(bench), COMMANDS, &ret->live_kib, &ret->live_fds);
	if (r == 0)
		r = bench_write_file(bench->box, "ctl", "kill\n", err);
	return r < 0 ? r : wait_count(bench, "live", 0, err);
}

int bench_cost(struct bench *bench, struct bench_cost *ret, struct err *err)
{
	int r = bench_write_file(bench->box, "exec/keep", "100000\n", err);

	for (int i = 0; i < 20 && r == 0; i++) /* what is made once is made now */
		r = bench_exec_handle(bench, bench->box, RUN_TRUE, err);
	if (r == 0)
		r = cost_of_boxes(bench, ret, err);
	if (r == 0)
		r = cost_of_finished(bench, ret, err);
	if (r == 0)
		r = cost_of_live(bench, ret, err);
	return r < 0 ? r : bench_write_file(bench->box, "exec/keep", "100\n", err);
}

int bench_end_group(const struct bench *bench, struct samples *samples, struct err *err)
{
	char *path = strdupa(bench->true_path), family[] = "family", many[] = FAMILY;
	char *argv[] = { path, family, many, NULL }, byte;
	posix_spawn_file_actions_t actions;
	auto_close int reading = -1;
	posix_spawnattr_t attr;
	int64_t start;
	int fd[2], r;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	reading = fd[0];
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd[1], STDOUT_FILENO);
	r = posix_spawn(&pid, path, &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	close_auto(&fd[1]);
	if (r)
		return err_set(err, r, "start %s", path);
	if (read(reading, &byte, 1) != 1)
		r = err_say(err, EIO, "%s has not started its family", path);
	start = bench_now();
	(void)kill(-pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	while (read(reading, &byte, 1) > 0) /* at its end the last one is gone */
		continue;
	samples_add(samples, (double)(bench_now() - start));
	return r;
}

int bench_end_box(struct bench *bench, struct samples *samples, struct err *err)
{
	char box[PATH_MAX], byte;
	int64_t start;
	int r;

	(void)snprintf(box, sizeof(box), "%s/family-%u", bench->tree, bench->serial++);
	r = bench_prepare(bench, box, err);
	if (r == 0)
		r = bench_write_file(box, "exec/new", RUN_FAMILY, err);
	if (r == 0) {
		auto_close int fd = bench_open(box, "exec/last/stdout", O_RDONLY, err);

		if (fd < 0)
			r = fd;
		else if (read(fd, &byte, 1) != 1)
			r = err_say(err, EIO, "%s has not started its family", box);
	}
	start = bench_now();
	if (rmdir(box) < 0)
		return r < 0 ? r : err_set(err, errno, "rmdir %s", box);
	samples_add(samples, (double)(bench_now() - start));
	return r;
}
