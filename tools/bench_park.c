/* bench_park.c - what a reader that waits costs, and how soon all of many are woken */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/text.h"
#include "tools/bench.h"

#define MANY_MAX 10000
#define SPARE    100 /* descriptors for other things */
#define SETTLE_S 60

/* Requests that wait, of all users; -1: stats.json does not say. */
static long waiting(const struct bench *bench)
{
	static const char key[] = "\"waiting\":{\"all\":";
	auto_close int fd = bench_open(bench->tree, "stats.json", O_RDONLY, NULL);
	char text[4096];
	const char *at;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return -1;
	text[n] = '\0';
	at = strstr(text, key);
	return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

static int wait_waiting(const struct bench *bench, long want, struct err *err)
{
	for (int i = 0; i < SETTLE_S * 100; i++) {
		if (waiting(bench) == want)
			return 0;
		bench_pause_ms(10);
	}
	return err_say(err, ETIME, "%ld readers wait, not %ld", waiting(bench), want);
}

/* Nanoseconds of processor time that hutchd has had. */
static double daemon_time(const struct bench *bench)
{
	auto_buf struct buf text = { .max = 256 };
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%s/schedstat", bench->pid);
	return file_read(AT_FDCWD, path, &text, NULL) == 0 && text.len ? strtod(text.data, NULL)
								       : 0;
}

static pid_t start_park(const struct bench *bench, unsigned many, const char *node, int *ret_out,
			struct err *err)
{
	char *path = strdupa(bench->park), count[32], file[PATH_MAX];
	char *argv[] = { path, count, file, NULL };
	posix_spawn_file_actions_t actions;
	int fd[2], r;
	pid_t pid;

	(void)snprintf(count, sizeof(count), "%u", many);
	(void)snprintf(file, sizeof(file), "%s/%s", bench->box, node);
	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd[1], STDOUT_FILENO);
	r = posix_spawn(&pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close_auto(&fd[1]);
	*ret_out = fd[0];
	return r ? err_set(err, r, "start %s", path) : pid;
}

/* The last line of what the program said: when its first and its last reader had their answers. */
static int read_report(int fd, unsigned many, int64_t *first, int64_t *last, struct err *err)
{
	char text[512];
	size_t len = 0;
	unsigned long data;
	long long a, b;
	const char *line;
	ssize_t n;

	while (len < sizeof(text) - 1 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	line = strstr(text, "data ");
	if (!line ||
	    sscanf(line, "data %lu end %*u failed %*u errno %*d first %lld last %lld", &data, &a,
		   &b) != 3 ||
	    data != many)
		return err_say(err, EIO, "%u readers that wait: %s", many, text);
	*first = a;
	*last = b;
	return 0;
}

static unsigned how_many(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max >= MANY_MAX + SPARE)
		return MANY_MAX;
	return files.rlim_max > 2 * SPARE ? (unsigned)files.rlim_max - SPARE : SPARE;
}

int bench_parked(const struct bench *bench, struct bench_parked *ret, struct err *err)
{
	auto_close int handle = bench_open(bench->box, "exec/new", O_RDWR, err), out = -1;
	char name[NAME_MAX_LEN + 2], result[NAME_MAX_LEN + 32], ctl[NAME_MAX_LEN + 32];
	struct bench_held before, now;
	int64_t start, first = 0, last = 0;
	double busy;
	pid_t pid;
	int r = handle;

	ret->many = how_many();
	if (r >= 0)
		r = bench_start(handle, "{\"cmd\":[\"/root/true\",\"wait\"]}", name, err);
	if (r < 0)
		return r;
	(void)snprintf(result, sizeof(result), "exec/%s/result.json", name);
	(void)snprintf(ctl, sizeof(ctl), "exec/%s/ctl", name);
	bench_pause_ms(200);
	before = bench_held(bench);
	pid = start_park(bench, ret->many, result, &out, err);
	if (pid < 0)
		return pid;
	r = wait_waiting(bench, ret->many, err);
	bench_pause_ms(200);
	now = bench_held(bench);
	ret->kib = (now.kib - before.kib) / ret->many;
	ret->fds = (now.fds - before.fds) / ret->many;
	busy = daemon_time(bench);
	start = bench_now();
	r = bench_write_file(bench->box, ctl, "kill\n", r < 0 ? NULL : err) < 0 && r == 0 ? -EIO
											  : r;
	if (r == 0)
		r = read_report(out, ret->many, &first, &last, err);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	if (r < 0)
		return r;
	ret->first_us = (double)(first - start) / 1e3;
	ret->each_us = (double)(last - start) / 1e3 / ret->many;
	ret->daemon_us = (daemon_time(bench) - busy) / 1e3 / ret->many;
	return 0;
}
