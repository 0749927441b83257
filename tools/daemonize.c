#include "tools/daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"

#define SAY_MS 5000 /* then whoever waits at a prompt is told for what */

static _Noreturn void wait_for_child(int fd, const char *program)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct err err;
	ssize_t n;

	if (poll(&p, 1, SAY_MS) == 0)
		(void)fprintf(stderr,
			      "%s: not ready after %d s: still at the state directory, whose "
			      "disk may be slow\n",
			      program, SAY_MS / 1000);
	do
		n = read(fd, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(err) && err.code == 0)
		_exit(0);
	if (n == (ssize_t)sizeof(err))
		(void)fprintf(stderr, "%s: %s\n", program, err.msg);
	else
		(void)fprintf(stderr, "%s: ended before it was ready\n", program);
	_exit(1);
}

int daemonize_begin(struct daemonize *d, const char *program, struct err *err)
{
	int pipe[2];
	pid_t pid;

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return err_set(err, errno, "go into the background");
	pid = fork();
	if (pid < 0) {
		int code = errno;

		(void)close(pipe[0]);
		(void)close(pipe[1]);
		return err_set(err, code, "go into the background");
	}
	if (pid > 0) {
		(void)close(pipe[1]);
		wait_for_child(pipe[0], program);
	}
	(void)close(pipe[0]);
	d->report = pipe[1];
	(void)setsid(); /* fails only for a leader of a group, which a new child is not */
	return 0;
}

static void report(struct daemonize *d, const struct err *err)
{
	auto_close int fd = TAKE_FD(d->report);

	/* A parent that was killed does not need to know. */
	(void)write_all(fd, err, sizeof(*err));
}

void daemonize_ready(struct daemonize *d)
{
	const struct err fine = { 0 };
	auto_close int null = -1;

	if (d->report < 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		(void)dup2(null, fd);
	report(d, &fine);
}

void daemonize_failed(struct daemonize *d, const struct err *err)
{
	if (d->report >= 0)
		report(d, err);
}
