/* Control groups without an engine: made ahead, thousands that are retired, busy ones, what a crash left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
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

static struct cgroup_run *new_run(struct cgroups *set, const char *kind)
{
	struct cgroup_run *run = NULL;
	struct err err = { 0 };
	int fd = -1;

	ok(cgroup_run_new(set, &ids, &run, &fd, &err) == 0, "%s: a run: %s", kind, err.msg);
	close_auto(&fd);
	return run;
}

/* A group, which the test has to retire; `gone` counts when it was removed. */
static struct cgroup *take(struct cgroup_run *run)
{
	struct cgroup *g = cgroup_take(run, NULL);

	if (g)
		g->gone = on_gone;
	return g;
}

/* Until the loop was idle for long enough. */
static void settle(const struct cgroup_run *run)
{
	for (int i = 0; i < 1000 && !list_empty(&run->prepare.link); i++)
		(void)ev_turn(&loop, 0);
}

static void expect(struct cgroup_run *run)
{
	cgroup_run_expect(run);
	settle(run);
}

/* Groups in BASE, or in BASE/name. */
static int count(const struct cgroups *set, const char *name)
{
	char path[512];
	struct dirent *e;
	DIR *d;
	int n = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", set->path, name);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_type == DT_DIR && e->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return n;
}

static int count_in(const struct cgroup_run *run)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", run->number);
	return count(run->set, name);
}

static bool turn_until_empty(struct cgroups *set)
{
	int64_t end = ev_now() + 10 * INT64_C(1000000000);

	while (count(set, ".") && ev_now() < end)
		(void)ev_turn(&loop, 50);
	return count(set, ".") == 0;
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
	if (pid < 0)
		return pid;
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

static void test_busy(struct cgroups *set, struct cgroup_run *run, const char *kind)
{
	struct err err = { 0 };
	struct cgroup *g = cgroup_take(run, &err), *kept = g, *other;
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
	other = take(run);
	if (other)
		cgroup_retire(other);
	ok(other && turn_until_gone(1, 300) && kept, "%s: another one does not wait for it", kind);
	gone = 0;
	cgroup_kill(g);
	ok(turn_until_gone(1, 10000) && !kept, "%s: goes when all were killed", kind);
	ok(waitpid(pid, NULL, 0) == pid, "%s: the first of them too", kind);
}

static void test_many(struct cgroup_run *run, const char *kind)
{
	int64_t end = ev_now() + patience(20);
	struct err err = { 0 };
	int made = 0, most = 0, before;

	gone = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		struct cgroup *g = cgroup_take(run, &err);

		if (!g)
			break;
		made++;
		g->gone = on_gone;
		cgroup_retire(g);
	}
	is_int(made, MANY, "%s: %d groups: %s", kind, MANY, err.msg);
	while (gone < made && ev_now() < end) {
		before = gone;
		(void)ev_turn(&loop, 0);
		most = gone - before > most ? gone - before : most;
	}
	is_int(gone, made, "%s: all go", kind);
	ok(most < MANY / 10, "%s: no turn takes long: at most %d go in one", kind, most);
}

static void on_request(struct ev_source *src, uint32_t events)
{
	(void)src;
	(void)events;
}

static int ticks;

static void on_tick(struct ev_timer *timer)
{
	ticks++;
	ev_expect(&loop, true);
	ev_timer_set(&loop, timer, ev_now() + EV_HURRY_NS / 4);
}

/* Somebody is answered again and again, before the loop is idle: for as long as that goes on, each of
 * his commands leaves a group. */
static void test_never_idle(struct cgroups *set, const char *kind)
{
	struct cgroup_run *run = new_run(set, kind);
	int64_t end = ev_now() + patience(30);
	struct ev_timer tick;
	int made = 0, most = 0, now;

	if (!run)
		return;
	gone = 0;
	ev_timer_init(&tick, on_tick);
	on_tick(&tick);
	while (gone < 300 && ev_now() < end) {
		struct cgroup *g = ticks % 16 ? NULL : take(run); /* every now and then */

		if (g)
			cgroup_retire(g);
		made += g != NULL;
		(void)ev_turn(&loop, -1);
		now = count_in(run);
		most = now > most ? now : most;
	}
	ok(gone >= 300 && made < 600, "%s: never idle: of %d groups %d go", kind, made, gone);
	ok(most < 150, "%s: there are never more than %d", kind, most);
	ok(!run->spare, "%s: and none is made ahead", kind);
	ev_timer_cancel(&tick);
	cgroup_run_retire(run);
	ok(turn_until_empty(set), "%s: none is left of them", kind);
}

static void test_ahead(struct cgroups *set, const char *kind)
{
	struct cgroup_run *run = new_run(set, kind);
	struct cgroup *g[4] = { NULL }, *spare;
	struct ev_source request;
	int busy;

	if (!run)
		return;
	gone = 0;
	cgroup_run_expect(run);
	busy = eventfd(1, EFD_CLOEXEC);
	request = (struct ev_source){ .fd = busy, .ready = on_request };
	ok(ev_add(&loop, &request, EPOLLIN) == 0, "%s: a request", kind);
	for (int i = 0; i < 10; i++)
		(void)ev_turn(&loop, 0);
	is_int(count_in(run), 0, "%s: nothing is made while there are requests", kind);
	ev_del(&loop, &request);
	(void)close(busy);
	settle(run);
	is_int(count_in(run), 1, "%s: but when there are none", kind);
	spare = run->spare;
	expect(run);
	ok(spare && run->spare == spare && set->spares == 1, "%s: one, not more", kind);
	g[0] = take(run);
	ok(g[0] == spare && !run->spare, "%s: a command takes it", kind);
	is_int(count_in(run), 1, "%s: and makes none", kind);
	ok(!list_empty(&run->prepare.link), "%s: which is left to later", kind);
	g[1] = take(run); /* they come faster than groups are made */
	g[2] = take(run);
	is_int(count_in(run), 3, "%s: where there is none it is made", kind);
	expect(run);
	g[3] = take(run);
	for (uint32_t i = 0; i < ARRAY_SIZE(g); i++) {
		is_int(g[i] ? g[i]->command : 0, i + 1, "%s: numbers count up", kind);
		if (g[i])
			cgroup_retire(g[i]);
	}
	ok(turn_until_gone(4, 5000), "%s: used ones go", kind);
	expect(run);
	ok(run->spare && run->spare->command == 5, "%s: and none is used again", kind);
	cgroup_run_expect(run); /* and it ends before its turn comes */
	cgroup_run_retire(run);
	ok(turn_until_empty(set), "%s: with a run its spare one goes", kind);
	is_int(set->spares, 0, "%s: and is counted out", kind);
}

static void test_stale(struct cgroups *set, const char *kind)
{
	struct cgroup_run *idle = new_run(set, kind), *busy = new_run(set, kind);
	struct cgroup_run *blank = new_run(set, kind);
	struct cgroup *g;

	if (!idle || !busy || !blank)
		return;
	cgroup_run_stock(blank);
	expect(idle);
	expect(busy);
	expect(idle);
	expect(busy);
	ok(ev_now() + 60 * INT64_C(1000000000) > idle->stale_at && busy->stale_at > idle->stale_at,
	   "%s: the time of a spare one is limited", kind);
	idle->stale_at = ev_now(); /* the first of the list */
	ev_timer_set(&loop, &set->stale, idle->stale_at);
	(void)ev_turn(&loop, 0);
	ok(!idle->spare && busy->spare && blank->spare && set->spares == 2,
	   "%s: that of an idle run is taken back, others not", kind);
	for (int64_t end = ev_now() + 5 * INT64_C(1000000000); count_in(idle) && ev_now() < end;)
		(void)ev_turn(&loop, 50);
	is_int(count_in(idle) * 100 + count_in(busy) * 10 + count_in(blank), 11, "%s: and removed",
	       kind);
	g = take(idle);
	ok(g && g->command == 2, "%s: a command there finds one all the same", kind);
	if (g)
		cgroup_retire(g);
	ok(!list_empty(&set->stale.link) && set->stale.at == busy->stale_at,
	   "%s: the next one's time is awaited", kind);
	cgroup_run_retire(idle);
	cgroup_run_retire(busy);
	cgroup_run_retire(blank);
	ok(turn_until_empty(set) && set->spares == 0, "%s: none is left", kind);
}

/* As many sandboxes as there may be, each with a command a moment ago. */
static void test_spares_max(struct cgroups *set, const char *kind)
{
	struct cgroup_run *run[300] = { NULL };
	unsigned spares = 0;
	struct cgroup *g;
	int fd = -1;

	for (size_t i = 0; i < ARRAY_SIZE(run); i++)
		if (cgroup_run_new(set, &ids, &run[i], &fd, NULL) == 0) {
			close_auto(&fd);
			cgroup_run_expect(run[i]);
		}
	for (size_t i = 0; i < ARRAY_SIZE(run); i++)
		if (run[i])
			settle(run[i]);
	for (size_t i = 0; i < ARRAY_SIZE(run); i++)
		spares += run[i] && run[i]->spare;
	ok(spares == set->spares && spares > 100 && spares < ARRAY_SIZE(run),
	   "%s: not every run has one (%u)", kind, spares);
	g = take(run[ARRAY_SIZE(run) - 1]);
	ok(g, "%s: one without runs commands", kind);
	if (g)
		cgroup_retire(g);
	for (size_t i = 0; i < ARRAY_SIZE(run); i++)
		cgroup_run_retire(run[i]);
	ok(turn_until_empty(set) && set->spares == 0, "%s: all go", kind);
}

/* Of two commands whose groups were made ahead, the kill of one reaches all of its own, and
 * nobody else. */
static void test_kill(struct cgroups *set, const char *kind)
{
	struct cgroup_run *run = new_run(set, kind), *next;
	struct cgroup *near, *storm;
	pid_t pid, neighbour;
	uint32_t number;

	if (!run)
		return;
	expect(run);
	near = take(run);
	expect(run);
	storm = take(run);
	ok(near && storm, "%s: two groups", kind);
	if (!near || !storm)
		return;
	neighbour = begin_storm(set, near);
	pid = begin_storm(set, storm);
	expect(run);
	gone = 0;
	cgroup_kill(storm);
	cgroup_retire(storm);
	ok(turn_until_gone(1, 10000), "%s: a storm ends", kind);
	ok(waitpid(pid, NULL, 0) == pid, "%s: and its first process", kind);
	ok(!cgroup_empty(near) && waitpid(neighbour, NULL, WNOHANG) == 0,
	   "%s: the neighbour's runs on", kind);
	ok(run->spare && cgroup_empty(run->spare), "%s: nobody is in the one that waits", kind);
	number = run->number;
	cgroup_retire(near);
	cgroup_run_retire(run); /* as if its sandbox were stopped */
	next = new_run(set, kind);
	ok(next && next->number > number && next->next == 1, "%s: started again, a new name", kind);
	ok(waitpid(neighbour, NULL, 0) == neighbour, "%s: nothing lives of what was before", kind);
	cgroup_run_retire(next);
	ok(turn_until_empty(set), "%s: no group either", kind);
}

static void test_none(int state)
{
	struct cgroups set;
	struct cgroup_run *run;
	struct err err = { 0 };

	ok(cgroups_init(&set, &loop, "none", state, &err) == 0, "none: %s", err.msg);
	run = new_run(&set, "none");
	if (!run)
		return;
	cgroup_run_stock(run);
	expect(run);
	ok(!run->spare && !cgroup_take(run, &err) && !err.code, "none: has none, and no error");
	cgroup_run_retire(run);
	cgroup_run_retire(NULL);
	cgroups_done(&set);
}

static void test_left(const char *kind, int state)
{
	struct cgroups first, second;
	struct cgroup_run *run, *later;
	struct err err = { 0 };
	char deep[512];

	ok(cgroups_init(&first, &loop, kind, state, &err) == 0, "%s: again: %s", kind, err.msg);
	is_int(first.last_run, 0, "%s: nothing is left", kind);
	first.last_run = 6;
	run = new_run(&first, kind);
	if (!run)
		return;
	cgroup_run_stock(run);
	/* What cannot be removed, as if somebody in it did not die. */
	(void)snprintf(deep, sizeof(deep), "%s/7/1", first.path);
	(void)mkdir(deep, 0755);
	(void)snprintf(deep, sizeof(deep), "%s/7/1/1", first.path);
	(void)mkdir(deep, 0755);
	ok(cgroups_init(&second, &loop, kind, state, &err) == 0, "%s: a crash later", kind);
	is_int(second.last_run, 7, "%s: numbers go on behind what is left", kind);
	later = new_run(&second, kind);
	ok(later && later->number == 8, "%s: also those of runs", kind);
	cgroup_run_retire(later);
	(void)rmdir(deep);
	cgroups_done(&second);
	ok(access(first.path, F_OK) < 0, "%s: what a crash left goes", kind);
	free(run->spare);
	free(run);
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
		struct cgroup_run *run;
		struct cgroups set;

		if (cgroups_init(&set, &loop, kinds[i], state, &err) < 0) {
			ok(true, "%s # SKIP %s", kinds[i], err.msg);
			continue;
		}
		test_ahead(&set, kinds[i]);
		test_stale(&set, kinds[i]);
		test_spares_max(&set, kinds[i]);
		test_kill(&set, kinds[i]);
		test_never_idle(&set, kinds[i]);
		run = new_run(&set, kinds[i]);
		if (run) {
			test_busy(&set, run, kinds[i]);
			test_many(run, kinds[i]);
		}
		cgroup_run_retire(run);
		cgroups_done(&set);
		ok(access(dir, F_OK) == 0, "%s: done", kinds[i]);
		test_left(kinds[i], state);
	}
	test_none(state);
	(void)close(state);
	ev_done(&loop);
	ok(rmdir(dir) == 0, "cleaned up");
	return tap_done();
}
