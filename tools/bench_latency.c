/* bench_latency.c - from a command's write to the return of a read that waited for it */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/text.h"
#include "tools/bench.h"

#define STAMPS 100

/* The writer sends what the clock says when it writes. */
static int read_stamps(int fd, struct samples *samples, const char *what, struct err *err)
{
	int64_t stamps[STAMPS];
	size_t got = 0;
	ssize_t n;

	while (got < STAMPS * sizeof(stamps[0])) {
		n = read(fd, stamps, sizeof(stamps));
		if (n <= 0)
			return err_set(err, n < 0 ? errno : EPIPE, "read %s", what);
		samples_add(samples, (double)(bench_now() - stamps[0]));
		got += (size_t)n;
	}
	return 0;
}

static int stamps_of_node(const struct bench *bench, struct samples *samples, struct err *err)
{
	auto_close int handle = bench_open(bench->box, "exec/new", O_RDWR, err), fd = -1;
	char name[NAME_MAX_LEN + 2], node[NAME_MAX_LEN + 32], request[80], core[16] = "";
	int r;

	if (handle < 0)
		return handle;
	if (bench->core >= 0)
		(void)snprintf(core, sizeof(core), ",\"%d\"", bench->core);
	(void)snprintf(request, sizeof(request), "{\"cmd\":[\"/root/true\",\"stamps\",\"%d\"%s]}",
		       STAMPS, core);
	r = bench_start(handle, request, name, err);
	if (r < 0)
		return r;
	(void)snprintf(node, sizeof(node), "exec/%s/stdout", name);
	fd = bench_open(bench->box, node, O_RDONLY, err);
	return fd < 0 ? fd : read_stamps(fd, samples, node, err);
}

/* A program with these as its input and output; -1: ours. */
static int start_stage(char *const argv[], int in, int out, pid_t *ret_pid, struct err *err)
{
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	r = posix_spawnp(ret_pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return r ? err_set(err, r, "start %s", argv[0]) : 0;
}

static int start_writer(const struct bench *bench, int out, pid_t *ret_pid, struct err *err)
{
	char *path = strdupa(bench->true_path), stamps[] = "stamps", count[16];
	char *argv[] = { path, stamps, count, NULL };

	(void)snprintf(count, sizeof(count), "%d", STAMPS);
	return start_stage(argv, -1, out, ret_pid, err);
}

static int stamps_of_pipe(const struct bench *bench, struct samples *samples, struct err *err)
{
	pid_t pid = -1;
	int fd[2], r;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	r = start_writer(bench, fd[1], &pid, err);
	close_auto(&fd[1]);
	if (r == 0)
		r = read_stamps(fd[0], samples, "a pipe", err);
	close_auto(&fd[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return r;
}

static int stamps_of_cat(const struct bench *bench, struct samples *samples, struct err *err)
{
	char cat[] = "cat", *argv[] = { cat, NULL };
	pid_t pid[2] = { -1, -1 };
	int in[2], out[2], r;

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	r = pipe2(out, O_CLOEXEC) < 0 ? err_set(err, errno, "pipe") : 0;
	if (r == 0) {
		r = start_writer(bench, in[1], &pid[0], err);
		if (r == 0)
			r = start_stage(argv, in[0], out[1], &pid[1], err);
		close_auto(&out[1]);
		close_auto(&in[1]);
		if (r == 0)
			r = read_stamps(out[0], samples, "a pipe behind cat", err);
		close_auto(&out[0]);
	}
	close_auto(&in[1]);
	close_auto(&in[0]);
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++)
		if (pid[i] > 0)
			(void)waitpid(pid[i], NULL, 0);
	return r;
}

static int stamps_of_bare(const struct bench *bench, struct samples *samples, struct err *err)
{
	auto_close int out = -1, fd = -1;
	pid_t pid = -1;
	int r;

	if (!bench->bare || !bench->bare_fifo)
		return 0;
	out = open(bench->bare_fifo, O_WRONLY | O_CLOEXEC);
	if (out < 0)
		return err_set(err, errno, "open %s", bench->bare_fifo);
	r = fd = bench_open(bench->bare, "relay", O_RDONLY, err);
	if (r >= 0)
		r = start_writer(bench, out, &pid, err);
	if (r == 0)
		r = read_stamps(fd, samples, "relay", err);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return r;
}

int bench_latency(const struct bench *bench, struct samples way[WAY_COUNT], struct err *err)
{
	static int (*const stamps_of[WAY_COUNT])(const struct bench *, struct samples *,
						 struct err *) = {
		[WAY_NODE] = stamps_of_node,
		[WAY_PIPE] = stamps_of_pipe,
		[WAY_CAT] = stamps_of_cat,
		[WAY_BARE] = stamps_of_bare,
	};
	unsigned rounds = bench->quick ? 2 : 10;
	int r = 0;

	for (unsigned i = 0; i < rounds * WAY_COUNT && r == 0; i++)
		r = stamps_of[i % WAY_COUNT](bench, &way[i % WAY_COUNT], err);
	return r;
}
