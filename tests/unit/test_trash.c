/* The janitor: whatever a sandbox left in its layer goes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/trash.h"
#include "sandbox/zombies.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/hutch-trash-XXXXXX";

/* Deeper than any path can say, and than a process has descriptors. */
static void make_deep(int at, int levels)
{
	int fd = dup(at);

	for (int i = 0; i < levels && fd >= 0; i++) {
		int below, file = openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0);

		(void)mkdirat(fd, "d", 0700);
		(void)!symlinkat("/", fd, "link");
		below = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(file);
		(void)close(fd);
		fd = below;
	}
	ok(fd >= 0, "%d levels", levels);
	(void)close(fd);
}

static int count(int trash)
{
	int fd = openat(trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	DIR *d = fdopendir(fd);

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return n;
}

int main(void)
{
	const struct rlimit few = { 200, 200 };
	auto_close int state = -1, first = -1;
	struct zombies zombies;
	struct ev_loop loop;
	struct trash trash;
	struct err err = { 0 };
	char path[64];

	if (!mkdtemp(dir))
		return 1;
	(void)setrlimit(RLIMIT_NOFILE, &few);
	ok(ev_init(&loop, &err) == 0, "a loop: %s", err.msg);
	zombies_init(&zombies, &loop);
	state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)mkdirat(state, "trash", 0700);
	(void)mkdirat(state, "trash/1", 0700);
	(void)mkdirat(state, "trash/deep-1", 0700);
	(void)mkdirat(state, "trash/deep-1/closed", 0700);
	(void)mkdirat(state, "trash/deep-1/closed/in", 0);
	(void)!fchmodat(state, "trash/deep-1/closed", 0, 0);
	(void)close(openat(state, "kept", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	(void)!symlinkat("../../kept", state, "trash/1/link");
	(void)!symlinkat("..", state, "trash/1/up");
	ok(trash_init(&trash, state, &zombies, &err) == 0, "begins: %s", err.msg);
	(void)snprintf(path, sizeof(path), "%s/trash/1", dir);
	first = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_deep(first, 5000);
	trash_empty(&trash);
	for (int i = 0; i < 200 && count(trash.dirfd); i++)
		(void)usleep(50000);
	is_int(count(trash.dirfd), 0, "nothing is left of it");
	ok(faccessat(state, "kept", F_OK, 0) == 0, "what links led to is there");
	trash_done(&trash);
	zombies_done(&zombies, ev_now() + 2000000000);
	ok(waitpid(trash.pid, NULL, WNOHANG) < 0 && errno == ECHILD, "the janitor was reaped");
	ev_done(&loop);
	(void)unlinkat(state, "kept", 0);
	(void)unlinkat(state, "trash", AT_REMOVEDIR);
	ok(rmdir(dir) == 0, "cleaned up");
	return tap_done();
}
