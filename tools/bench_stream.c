/* bench_stream.c - much output: how fast it comes, and what else still gets its answer */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "tools/bench.h"

#define READ_PIPE (64 * 1024)  /* what cat takes from a pipe at most */
#define READ_NODE (128 * 1024) /* what cat asks for */

/* The bytes until the end, or a negative errno. */
static int64_t read_to_end(int fd, size_t size)
{
	auto_free char *chunk = malloc(size);
	int64_t total = 0;
	ssize_t n;

	if (!chunk)
		return -ENOMEM;
	while ((n = read(fd, chunk, size)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		total += n;
	}
	return total;
}

static int check_total(int64_t got, uint64_t want, const char *what, struct err *err)
{
	if (got < 0)
		return err_set(err, (int)-got, "read %s", what);
	if ((uint64_t)got != want)
		return err_say(err, EIO, "%s: %lld bytes came, not %llu", what, (long long)got,
			       (unsigned long long)want);
	return 0;
}

static double rate(uint64_t bytes, int64_t start)
{
	return (double)bytes / ((double)(bench_now() - start) / 1e9);
}

int bench_pipe_rate(const struct bench *bench, uint64_t bytes, bool apart, double *ret,
		    struct err *err)
{
	posix_spawn_file_actions_t actions;
	cpu_set_t all;
	char count[32], *path = strdupa(bench->true_path), *argv[] = { path, count, NULL };
	auto_close int reading = -1;
	int64_t start = bench_now();
	int fd[2], r;
	pid_t pid;

	(void)snprintf(count, sizeof(count), "%llu", (unsigned long long)bytes);
	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	reading = fd[0];
	(void)sched_getaffinity(0, sizeof(all), &all);
	if (apart)
		(void)bench_pin(0, 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd[1], STDOUT_FILENO);
	r = posix_spawn(&pid, path, &actions, NULL, argv, environ);
	if (apart)
		(void)bench_pin(0, 1); /* where there is a second one */
	posix_spawn_file_actions_destroy(&actions);
	close_auto(&fd[1]);
	if (r == 0) {
		r = check_total(read_to_end(reading, READ_PIPE), bytes, "a pipe", err);
		*ret = rate(bytes, start);
		(void)waitpid(pid, NULL, 0);
	} else {
		r = err_set(err, r, "start %s", path);
	}
	(void)sched_setaffinity(0, sizeof(all), &all);
	return r;
}

/* Starts /root/true BYTES; the newest node is `last`. */
static int start_producer(const struct bench *bench, uint64_t bytes, struct err *err)
{
	char path[PATH_MAX], request[128];
	auto_close int fd = -1;
	int r;

	(void)snprintf(path, sizeof(path), "%s/exec/new", bench->box);
	(void)snprintf(request, sizeof(request), "{\"cmd\":[\"/root/true\",\"%llu\"]}",
		       (unsigned long long)bytes);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "open %s", path);
	r = write_all(fd, request, strlen(request));
	return r < 0 ? err_set(err, -r, "write to %s", path) : 0;
}

static int open_last(const struct bench *bench, const char *node, struct err *err)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/exec/last/%s", bench->box, node);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "open %s", path) : fd;
}

/* The newest node, so that what it wrote does not fill the disk. */
static void remove_last(const struct bench *bench)
{
	char path[PATH_MAX], link[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/exec/last", bench->box);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return;
	(void)snprintf(path, sizeof(path), "%s/exec/%.*s", bench->box, (int)n, link);
	(void)rmdir(path);
}

int bench_node_rate(const struct bench *bench, uint64_t bytes, double *ret, struct err *err)
{
	auto_close int fd = -1;
	int64_t start = bench_now();
	int r = start_producer(bench, bytes, err);

	if (r < 0)
		return r;
	fd = open_last(bench, "stdout", err);
	if (fd < 0)
		return fd;
	r = check_total(read_to_end(fd, READ_NODE), bytes, "exec/last/stdout", err);
	*ret = rate(bytes, start);
	close_auto(&fd);
	remove_last(bench);
	return r;
}

/* One answer of each kind. */
static int ask(const struct bench *bench, struct samples *status, struct samples *lookup,
	       struct err *err)
{
	char path[PATH_MAX], text[256];
	struct stat st;
	int64_t start = bench_now();
	auto_close int fd = open_last(bench, "status", err);

	if (fd < 0)
		return fd;
	if (read(fd, text, sizeof(text)) < 0)
		return err_set(err, errno, "read status");
	samples_add(status, (double)(bench_now() - start));
	(void)snprintf(path, sizeof(path), "%s/exec/nobody-%u", bench->box, (unsigned)status->n);
	start = bench_now();
	if (stat(path, &st) == 0 || errno != ENOENT)
		return err_set(err, errno, "stat %s", path);
	samples_add(lookup, (double)(bench_now() - start));
	return 0;
}

int bench_flood(const struct bench *bench, uint64_t bytes, struct samples *status,
		struct samples *lookup, struct err *err)
{
	auto_close int fd = -1;
	pid_t reader;
	int r = start_producer(bench, bytes, err), wstatus = 0;

	if (r < 0)
		return r;
	fd = open_last(bench, "stdout", err);
	if (fd < 0)
		return fd;
	reader = fork();
	if (reader < 0)
		return err_set(err, errno, "fork");
	if (reader == 0)
		_exit(read_to_end(fd, READ_NODE) == (int64_t)bytes ? 0 : 1);
	while (r == 0 && waitpid(reader, &wstatus, WNOHANG) == 0) {
		r = ask(bench, status, lookup, err);
		bench_pause_ms(1);
	}
	if (r < 0)
		(void)waitpid(reader, &wstatus, 0);
	else if (!WIFEXITED(wstatus) || WEXITSTATUS(wstatus) != 0)
		r = err_say(err, EIO, "the reader of a flood did not get all of it");
	close_auto(&fd);
	remove_last(bench);
	return r;
}
