/* Control groups without an engine: thousands that are retired, busy ones, what a crash left. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/ev.h"
#include "sandbox/cgroup.h"
#include "tests/unit/tap.h"

enum { MANY = 3000 };

static char dir[] = "/tmp/hutch-cgroup-XXXXXX";
static struct ev_loop loop;
static const struct id_range ids = { 0x7ff10000u, 65536 };
static int gone;

static void on_gone(struct cgroup *g)
{
	gone++;
	if (g->owner)
		*(struct cgroup **)g->owner = NULL;
}

static bool turn_until_gone(int n, int64_t ms)
{
	int64_t end = ev_now() + ms * 1000000;

	while (gone < n && ev_now() < end)
		(void)ev_turn(&loop, 50);
	return gone >= n;
}

#define STORM_WIDTH 2

/* Processes that live for a few milliseconds and leave a child that does the same: they are never the ones
 * that a list has shown, and never more than a few. Returns the pid of the first, which stays. */
static pid_t begin_storm(struct cgroups *set, struct cgroup *g)
{
	char path[512];
	pid_t pid;
	FILE *f;

	pid = fork();
	if (pid == 0) {
		(void)kill(getpid(), SIGSTOP);
		for (int i = 0; i < STORM_WIDTH; i++)
			if (fork() == 0)
				for (;;) {
					(void)usleep(5000);
					if (fork() > 0)
						_exit(0);
				}
		for (;;)
			(void)pause();
	}
	(void)waitpid(pid, NULL, WUNTRACED);
	(void)snprintf(path, sizeof(path), "%s/%u/%u/cgroup.procs", set->path, g->run, g->command);
	f = fopen(path, "we");
	if (f) {
		(void)fprintf(f, "%d\n", pid);
		(void)fclose(f);
	}
	(void)kill(pid, SIGCONT);
	return pid;
}

static void test_busy(struct cgroups *set, const char *kind)
{
	struct err err = { 0 };
	struct cgroup *g = cgroup_make(set, 1, 1, &ids, &err), *kept = g, *other;
	int fd = g ? cgroup_open_join(g, &err) : -1;
	pid_t pid;

	ok(g && fd >= 0, "%s: a group: %s", kind, err.msg);
	if (!g)
		return;
	(void)close(fd);
	fd = cgroup_open_join(g, &err);
	ok(fd >= 0, "%s: a second time: %s", kind, err.msg);
	(void)close(fd);
	ok(cgroup_empty(g), "%s: is empty", kind);
	pid = begin_storm(set, g);
	ok(!cgroup_empty(g), "%s: is not", kind);
	g->gone = on_gone;
	g->owner = &kept;
	gone = 0;
	cgroup_retire(g);
	ok(!turn_until_gone(1, 1400) && kept, "%s: stays while somebody is in it", kind);
	other = cgroup_make(set, 1, 2, &ids, &err);
	if (other) {
		other->gone = on_gone;
		cgroup_retire(other);
	}
	ok(other && turn_until_gone(1, 300) && kept, "%s: another one does not wait for it", kind);
	gone = 0;
	cgroup_kill(g);
	ok(turn_until_gone(1, 10000) && !kept, "%s: goes when all were killed", kind);
	ok(waitpid(pid, NULL, 0) == pid, "%s: the first of them too", kind);
}

static void test_many(struct cgroups *set, const char *kind)
{
	int64_t longest = 0, begin, end = ev_now() + 20 * INT64_C(1000000000);
	struct err err = { 0 };
	int made = 0;

	gone = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		struct cgroup *g = cgroup_make(set, 1, 10 + i, &ids, &err);

		if (!g)
			break;
		made++;
		g->gone = on_gone;
		cgroup_retire(g);
	}
	is_int(made, MANY, "%s: %d groups: %s", kind, MANY, err.msg);
	while (gone < made && ev_now() < end) {
		begin = ev_now();
		(void)ev_turn(&loop, 0);
		if (ev_now() - begin > longest)
			longest = ev_now() - begin;
	}
	is_int(gone, made, "%s: all go", kind);
	printf("# the longest turn took %lld us\n", (long long)longest / 1000);
	ok(longest < 100000000, "%s: no turn takes long", kind);
}

static void test_left(const char *kind, int state)
{
	struct cgroups first, second;
	struct err err = { 0 };
	char deep[512];
	int fd = -1;

	ok(cgroups_init(&first, &loop, kind, state, &err) == 0, "%s: again: %s", kind, err.msg);
	is_int(first.last_run, 0, "%s: nothing is left", kind);
	ok(cgroup_run_make(&first, 7, &ids, &fd, &err) == 0, "%s: run 7: %s", kind, err.msg);
	close_auto(&fd);
	/* What cannot be removed, as if somebody in it did not die. */
	(void)snprintf(deep, sizeof(deep), "%s/7/1", first.path);
	(void)mkdir(deep, 0755);
	(void)snprintf(deep, sizeof(deep), "%s/7/1/1", first.path);
	(void)mkdir(deep, 0755);
	ok(cgroups_init(&second, &loop, kind, state, &err) == 0, "%s: a crash later", kind);
	is_int(second.last_run, 7, "%s: numbers go on behind what is left", kind);
	(void)rmdir(deep);
	cgroups_done(&second);
	(void)close(first.base);
	free(first.path);
}

int main(void)
{
	static const char *const kinds[] = { "v2", "v1" };
	struct err err = { 0 };
	int state;

	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 0;
	}
	if (!mkdtemp(dir) || ev_init(&loop, NULL) < 0)
		return 1;
	state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct cgroups set;
		int fd = -1;

		if (cgroups_init(&set, &loop, kinds[i], state, &err) < 0) {
			ok(true, "%s # SKIP %s", kinds[i], err.msg);
			continue;
		}
		ok(cgroup_run_make(&set, 1, &ids, &fd, &err) == 0, "%s: run 1", kinds[i]);
		close_auto(&fd);
		test_busy(&set, kinds[i]);
		test_many(&set, kinds[i]);
		cgroup_run_retire(&set, 1);
		cgroups_done(&set);
		ok(access(dir, F_OK) == 0, "%s: done", kinds[i]);
		test_left(kinds[i], state);
	}
	(void)close(state);
	ev_done(&loop);
	ok(rmdir(dir) == 0, "cleaned up");
	return tap_done();
}
