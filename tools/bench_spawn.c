/* bench_spawn.c - commands that are started without hutch: the floor and the rivals */
#include "tools/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"

#define RIVAL_ARGS 24

/* What was written to the pipe: its last line that says something is the note. */
static void drain(int fd, char *note, size_t size)
{
	char text[4096];
	size_t len = 0;

	for (;;) {
		ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

		if (n <= 0)
			break;
		if (note)
			len += (size_t)n;
		if (len == sizeof(text) - 1)
			len = 0;
	}
	if (!note || len == 0)
		return;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	(void)snprintf(note, size, "%s", text);
}

static int start(char *const argv[], int out, bool with_stderr, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (with_stderr)
		posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	else
		posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

int bench_spawn(char *const argv[], char *note, size_t note_size, struct err *err)
{
	auto_close int reading = -1;
	int fd[2], status, r;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "pipe");
	reading = fd[0];
	r = start(argv, fd[1], note, &pid);
	close_auto(&fd[1]);
	if (r)
		return err_set(err, r, "start %s", argv[0]);
	drain(reading, note, note_size);
	if (waitpid(pid, &status, 0) < 0)
		return err_set(err, errno, "wait for %s", argv[0]);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_say(err, ECHILD, "%s: %s %d", argv[0],
		       WIFEXITED(status) ? "exit status" : "signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static const char *fill_in(const struct bench *bench, const char *arg, const char *id)
{
	const struct {
		const char *word, *value;
	} words[] = {
		{ "@id", id },
		{ "@bundle", bench->bundle },
		{ "@true", bench->true_path },
		{ "@container", bench->container },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i].word, arg) == 0)
			return words[i].value ? words[i].value : "none";
	return arg;
}

int bench_rival(struct bench *bench, const char *const argv[], char *note, size_t size,
		struct err *err)
{
	const char *filled[RIVAL_ARGS] = { NULL };
	char id[64], *spawned[RIVAL_ARGS];

	(void)snprintf(id, sizeof(id), "hutch-bench-%d-%u", (int)getpid(), bench->serial++);
	for (size_t i = 0; i < RIVAL_ARGS - 1 && argv[i]; i++)
		filled[i] = fill_in(bench, argv[i], id);
	memcpy(spawned, filled, sizeof(spawned)); /* posix_spawn does not write to them */
	return bench_spawn(spawned, note, size, err);
}
