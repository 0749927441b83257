/* bench_read.c - reads: what the least one costs, many readers of one stream */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

#define BLOCK       500 /* reads of one kind in a row */
#define READERS_MAX 16
#define READ_CAT    (128 * 1024) /* what cat asks for */

/* ---- one byte ---- */

static int read_block(int fd, struct samples *samples, const char *what, struct err *err)
{
	char byte;

	for (int i = 0; i < BLOCK; i++) {
		int64_t start = bench_now();
		ssize_t n = pread(fd, &byte, 1, 0);

		if (n != 1)
			return err_set(err, n < 0 ? errno : EIO, "read a byte of %s", what);
		samples_add(samples, (double)(bench_now() - start));
	}
	return 0;
}

int bench_byte(const struct bench *bench, struct samples *node, struct samples *bare,
	       struct err *err)
{
	auto_close int fd_bare = bench_open(bench->bare, "byte", O_RDONLY, err), fd = -1;
	unsigned rounds = bench->quick ? 4 : 20;
	int r;

	if (fd_bare < 0)
		return fd_bare;
	r = bench_exec_last(bench, bench->box, "{\"cmd\":[\"/root/true\",\"4096\"]}", err);
	if (r == 0)
		r = fd = bench_open(bench->box, "exec/last/stdout", O_RDONLY, err);
	for (unsigned i = 0; i < rounds && r >= 0; i++) {
		r = read_block(fd, node, "a node", err);
		if (r == 0)
			r = read_block(fd_bare, bare, bench->bare, err);
	}
	return r < 0 ? r : 0;
}

/* ---- many readers of one stream ---- */

/* A child that reads it all, once the gate is closed. */
static pid_t start_reader(int fd, int gate[2], uint64_t bytes)
{
	pid_t pid = fork();
	uint64_t total = 0;
	char *chunk;
	ssize_t n;

	if (pid)
		return pid;
	close_auto(&gate[1]);
	chunk = malloc(READ_CAT);
	if (!chunk || read(gate[0], chunk, 1) != 0)
		_exit(1);
	while ((n = read(fd, chunk, READ_CAT)) > 0)
		total += (uint64_t)n;
	_exit(n < 0 || total != bytes);
}

static int write_command(const char *box, const char *name, uint64_t bytes, struct err *err)
{
	char node[NAME_MAX_LEN + 32], request[128];
	auto_close int fd = -1;
	int r;

	(void)snprintf(node, sizeof(node), "exec/%s/cmd", name);
	(void)snprintf(request, sizeof(request), "{\"cmd\":[\"/root/true\",\"%llu\"]}",
		       (unsigned long long)bytes);
	fd = bench_open(box, node, O_WRONLY, err);
	if (fd < 0)
		return fd;
	r = write_all(fd, request, strlen(request));
	return r < 0 ? err_set(err, -r, "write to %s/%s", box, node) : 0;
}

/* Until the command has ended. */
static int wait_result(const char *box, const char *name, struct err *err)
{
	char node[NAME_MAX_LEN + 32], text[4096];
	auto_close int fd = -1;

	(void)snprintf(node, sizeof(node), "exec/%s/code", name);
	fd = bench_open(box, node, O_RDONLY, err);
	if (fd < 0)
		return fd;
	return read(fd, text, sizeof(text)) < 0 ? err_set(err, errno, "read %s/%s", box, node) : 0;
}

static int wait_readers(const pid_t *pids, unsigned n, struct err *err)
{
	int r = 0, status;

	for (unsigned i = 0; i < n; i++)
		if (waitpid(pids[i], &status, 0) < 0 || status != 0)
			r = err_say(err, EIO, "a reader of %u did not get all of a stream", n);
	return r;
}

int bench_readers(struct bench *bench, unsigned readers, uint64_t bytes, double *ret,
		  struct err *err)
{
	char name[NAME_MAX_LEN + 2], path[PATH_MAX], node[NAME_MAX_LEN + 32];
	pid_t pids[READERS_MAX];
	unsigned started = 0;
	int64_t start;
	int gate[2], r = 0;

	(void)snprintf(name, sizeof(name), "read-%u", bench->serial++);
	(void)snprintf(node, sizeof(node), "exec/%s/stdout", name);
	(void)snprintf(path, sizeof(path), "%s/exec/%s", bench->box, name);
	if (mkdir(path, 0700) < 0)
		return err_set(err, errno, "mkdir %s", path);
	if (pipe2(gate, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	for (; started < readers && started < READERS_MAX && r == 0; started++) {
		auto_close int fd = bench_open(bench->box, node, O_RDONLY, err);

		if (fd < 0 || (pids[started] = start_reader(fd, gate, bytes)) < 0) {
			r = fd < 0 ? fd : err_set(err, errno, "fork");
			break;
		}
	}
	start = bench_now();
	if (r == 0)
		r = write_command(bench->box, name, bytes, err);
	close_auto(&gate[1]);
	close_auto(&gate[0]);
	if (r == 0)
		r = wait_result(bench->box, name, err);
	*ret = (double)bytes / ((double)(bench_now() - start) / 1e9);
	if (wait_readers(pids, started, r < 0 ? NULL : err) < 0 && r == 0)
		r = -EIO;
	(void)rmdir(path);
	return r;
}
