#include "sandbox/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "sandbox/tree.h"
#include "sandbox/zombies.h"

DEFINE_AUTO(DIR *, closedir);

#define END_WAIT_MS 2000
#define QUIET_MS    1000
#define HEAP_MAX    256

/* What cannot be removed stays: it is tried again each time. */
static void sweep(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)tree_remove(dirfd, e->d_name, NULL);
}

/* Until nothing more was thrown away for a second, or a heap has come together: file systems are
 * slow to make files just after others were removed. */
static void wait_for_quiet(int wake, ssize_t heap)
{
	struct pollfd p = { .fd = wake, .events = POLLIN };
	char bytes[64];

	while (heap < HEAP_MAX && poll(&p, 1, QUIET_MS) > 0 && !(p.revents & POLLHUP)) {
		ssize_t n = read(wake, bytes, sizeof(bytes));

		if (n > 0)
			heap += n;
	}
}

_Noreturn static void janitor(int dirfd, int wake)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char bytes[64];
	sigset_t none;

	(void)prctl(PR_SET_NAME, "hutch-janitor");
	(void)setpriority(PRIO_PROCESS, 0, 10);
	sigemptyset(&none);
	(void)signal(SIGTERM, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* Whoever reads what hutchd says must not wait for us, nor any other descriptor of hutchd's
	 * live longer because of us. */
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			_exit(1);
	/* Above both targets first, so that neither is overwritten. */
	dirfd = fcntl(dirfd, F_DUPFD, 10);
	wake = fcntl(wake, F_DUPFD, 10);
	if (dup2(dirfd, 3) < 0 || dup2(wake, 4) < 0)
		_exit(1);
	(void)close_range(5, ~0U, 0);
	for (;;) {
		ssize_t n = read(4, bytes, sizeof(bytes));

		if (n < 0 && errno != EINTR)
			_exit(1);
		if (n > 0)
			wait_for_quiet(4, n);
		sweep(3);
		if (n == 0)
			_exit(0);
	}
}

static void start_janitor(struct trash *t)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return;
	t->pid = fork();
	if (t->pid == 0) {
		(void)close(fd[1]);
		janitor(t->dirfd, fd[0]);
	}
	(void)close(fd[0]);
	if (t->pid < 0) {
		(void)close(fd[1]);
		return;
	}
	(void)fcntl(fd[1], F_SETFL, O_NONBLOCK);
	t->wake = fd[1];
}

int trash_init(struct trash *t, int state_fd, struct zombies *zombies, struct err *err)
{
	*t = (struct trash){ .wake = -1, .zombies = zombies };
	t->dirfd = openat(state_fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return t->dirfd < 0 ? err_set(err, errno, "open 'trash'") : 0;
}

void trash_empty(struct trash *t)
{
	if (t->wake < 0)
		start_janitor(t);
	/* A full pipe wakes it just as well. */
	if (t->wake >= 0 && write(t->wake, "x", 1) < 0 && errno == EPIPE) {
		close_auto(&t->wake);
		zombies_kill(t->zombies, t->pid); /* it has died */
	}
}

void trash_done(struct trash *t)
{
	if (t->wake >= 0) {
		auto_close int pidfd = pidfd_open(t->pid, 0);
		struct pollfd p = { .fd = pidfd, .events = POLLIN };

		close_auto(&t->wake);
		/* The next start goes on where this one ends. */
		if (pidfd >= 0)
			(void)poll(&p, 1, END_WAIT_MS);
		zombies_kill(t->zombies, t->pid);
	}
	close_auto(&t->dirfd);
}
