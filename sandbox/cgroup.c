#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/cgroup-internal.h"

DEFINE_AUTO(FILE *, fclose);
DEFINE_AUTO(DIR *, closedir);

/* When a group that is not empty is looked at again: soon, then more and more seldom. */
#define SWEEP_FIRST_NS (INT64_C(20) * 1000000)
#define SWEEP_LAST_NS  (INT64_C(5) * 1000000000)
#define SWEEP_PER_TURN 4 /* a removal is some ten microseconds, and somebody may wait */

static const struct {
	const char *name;
	const struct cgroup_ops *ops;
} kinds[] = {
	[CGROUP_NONE] = { "none", NULL },
	[CGROUP_V1] = { "v1", &cgroup_v1_ops },
	[CGROUP_V2] = { "v2", &cgroup_v2_ops },
};

const char *cgroup_kind_name(enum cgroup_kind kind)
{
	return kinds[kind].name;
}

int cgroup_write(const struct cgroups *set, const char *name, const char *file, const char *text)
{
	char path[CGROUP_NAME_LEN + 32];
	auto_close int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/%s", name, file);
	fd = openat(set->base, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

void cgroup_name(char ret[CGROUP_NAME_LEN], uint32_t run, uint32_t command)
{
	if (command)
		(void)snprintf(ret, CGROUP_NAME_LEN, "%u/%u", run, command);
	else
		(void)snprintf(ret, CGROUP_NAME_LEN, "%u", run);
}

int cgroup_remove(const struct cgroups *set, uint32_t run, uint32_t command)
{
	char name[CGROUP_NAME_LEN];

	cgroup_name(name, run, command);
	return unlinkat(set->base, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* --- finding the hierarchy --- */

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += len)
		if ((p == list || p[-1] == ',') && (!p[len] || p[len] == ',' || p[len] == '\n'))
			return true;
	return false;
}

/* ID:CONTROLLERS:PATH; v2's line has no controllers. */
static char *own_group(const char *controller)
{
	AUTO(fclose) FILE *f = fopen("/proc/self/cgroup", "re");
	char line[4096];

	while (f && fgets(line, sizeof(line), f)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (*controller ? has_word(names + 1, controller) : !names[1])
			return strdup(path);
	}
	return NULL;
}

char *cgroup_find_mount(const char *fstype, const char *option, const char *controller)
{
	AUTO(fclose) FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[4096], root[1024], point[1024], type[64], options[1024];

	while (f && fgets(line, sizeof(line), f)) {
		const char *dash = strstr(line, " - ");
		auto_free char *own = NULL;
		char *path;

		if (!dash || sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2 ||
		    sscanf(dash, " - %63s %*s %1023s", type, options) != 2 ||
		    strcmp(type, fstype) != 0 || (option && !has_word(options, option)))
			continue;
		own = own_group(controller);
		/* In a container the mount's root is the container's group, and names begin there. */
		if (!own || asprintf(&path, "%s%s", point, strcmp(root, "/") == 0 ? own : "") < 0)
			return NULL;
		return path;
	}
	return NULL;
}

/* --- what a crash left --- */

static void remove_children(const struct cgroups *set, const char *name)
{
	int fd = openat(set->base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			(void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
}

void cgroup_kill_children(struct cgroups *set, const char *name)
{
	int fd = openat(set->base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char child[CGROUP_NAME_LEN + 256];
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.') {
			(void)snprintf(child, sizeof(child), "%s/%s", name, e->d_name);
			set->ops->kill(set, child);
		}
}

static void clean_up(struct cgroups *set)
{
	int fd = openat(set->base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		cgroup_kill_children(set, e->d_name);
		set->ops->kill(set, e->d_name);
		remove_children(set, e->d_name);
		if (unlinkat(set->base, e->d_name, AT_REMOVEDIR) < 0) {
			unsigned long run = strtoul(e->d_name, NULL, 10);

			/* What does not die keeps its name; nobody else gets that. */
			if (run > set->last_run && run < UINT32_MAX)
				set->last_run = (uint32_t)run;
		}
	}
}

/* --- the set --- */

static int try_kind(struct cgroups *set, enum cgroup_kind kind, int state_fd, struct err *err)
{
	auto_free char *parent = NULL;
	struct stat st;
	int r = kinds[kind].ops->find(&parent, err);

	if (r < 0)
		return r;
	if (fstat(state_fd, &st) < 0)
		return err_set(err, errno, "look at the state directory");
	if (asprintf(&set->path, "%s%shutch-%x-%llu", parent,
		     parent[strlen(parent) - 1] == '/' ? "" : "/", (unsigned)st.st_dev,
		     (unsigned long long)st.st_ino) < 0) {
		set->path = NULL;
		return err_set(err, ENOMEM, "name a control group");
	}
	if (mkdir(set->path, 0755) < 0 && errno != EEXIST)
		r = err_set(err, errno, "make the control group '%s'", set->path);
	else if ((set->base = open(set->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		r = err_set(err, errno, "open the control group '%s'", set->path);
	if (r < 0) {
		free(TAKE_PTR(set->path));
		return r;
	}
	set->kind = kind;
	set->ops = kinds[kind].ops;
	clean_up(set);
	return 0;
}

static void on_sweep(struct ev_timer *);
static void on_tidy(struct ev_task *);

void cgroups_prepare(struct cgroups *set)
{
	*set = (struct cgroups){ .base = -1 };
	for (size_t i = 0; i < CGROUP_WAITS; i++)
		list_init(&set->retired[i]);
	ev_timer_init(&set->sweep, on_sweep);
	ev_task_init(&set->tidy, on_tidy);
	list_init(&set->spared);
	ev_timer_init(&set->stale, cgroup_on_stale);
}

int cgroups_init(struct cgroups *set, struct ev_loop *loop, const char *want, int state_fd,
		 struct err *err)
{
	bool any = strcmp(want, "auto") == 0;

	cgroups_prepare(set);
	set->loop = loop;
	if (strcmp(want, "none") == 0)
		return err_say(&set->why, ENOENT, "switched off"), 0;
	for (enum cgroup_kind kind = CGROUP_KIND_COUNT; kind-- > CGROUP_V1;) {
		struct err why = { 0 };

		if (!any && strcmp(want, kinds[kind].name) != 0)
			continue;
		if (try_kind(set, kind, state_fd, &why) == 0)
			return 0;
		if (!any)
			return err_say(err, why.code, "cgroup %s: %s", want, why.msg);
		if (!set->why.code) /* the best kind's is what one would mend */
			set->why = why;
	}
	return any ? 0 : err_say(err, EINVAL, "cgroup '%s': not one of auto, v2, v1, none", want);
}

/* Each list is sorted by itself, since all in it wait equally long. */
static void arm(struct cgroups *set)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < CGROUP_WAITS; i++) {
		const struct cgroup *g;

		if (list_empty(&set->retired[i]))
			continue;
		g = list_first(&set->retired[i], struct cgroup, link);
		if (g->next_try < first)
			first = g->next_try;
	}
	if (first != INT64_MAX)
		ev_timer_set(set->loop, &set->sweep, first);
}

/* It is linked into the list of those that wait as long. */
static void wait_again(struct cgroup *g, int64_t now)
{
	int64_t pause = SWEEP_FIRST_NS << g->tries;

	g->next_try = now + (pause < SWEEP_LAST_NS ? pause : SWEEP_LAST_NS);
	list_del(&g->link);
	list_add_tail(&g->set->retired[g->tries], &g->link);
	if (g->tries + 1 < CGROUP_WAITS)
		g->tries++;
}

static void sweep_one(struct cgroup *g, int64_t now)
{
	if (g->doomed && g->command)
		cgroup_kill(g);
	if (cgroup_remove(g->set, g->run, g->command) < 0) {
		wait_again(g, now);
		return;
	}
	list_del(&g->link);
	if (g->gone)
		g->gone(g);
	free(g);
}

static void on_sweep(struct ev_timer *timer)
{
	struct cgroups *set = container_of(timer, struct cgroups, sweep);
	int64_t now = ev_now();
	int n = 0;

	for (size_t i = 0; i < CGROUP_WAITS; i++)
		while (n < SWEEP_PER_TURN && !list_empty(&set->retired[i])) {
			struct cgroup *g = list_first(&set->retired[i], struct cgroup, link);

			if (g->next_try > now)
				break;
			sweep_one(g, now); /* it may let others be retired: at an end of a list */
			n++;
		}
	arm(set);
}

/* Those that were retired just now; most are empty. One that is not waits longer. */
static void on_tidy(struct ev_task *task)
{
	struct cgroups *set = container_of(task, struct cgroups, tidy);
	struct list *fresh = &set->retired[0];

	if (list_empty(fresh))
		return;
	sweep_one(list_first(fresh, struct cgroup, link), ev_now());
	if (!list_empty(fresh))
		ev_defer_idle(set->loop, task);
}

void cgroups_done(struct cgroups *set)
{
	struct cgroup *g, *next;

	ev_timer_cancel(&set->sweep);
	ev_task_cancel(&set->tidy);
	ev_timer_cancel(&set->stale);
	for (size_t i = 0; i < CGROUP_WAITS; i++)
		list_for_each_safe (g, next, &set->retired[i], link) {
			list_del(&g->link);
			free(g);
		}
	if (set->base < 0)
		return;
	clean_up(set);
	close_auto(&set->base);
	(void)rmdir(set->path);
	free(TAKE_PTR(set->path));
}

/* --- groups --- */

int cgroup_open_join(struct cgroup *g, struct err *err)
{
	char name[CGROUP_NAME_LEN];

	cgroup_name(name, g->run, g->command);
	return g->set->ops->open_join(g->set, name, err);
}

void cgroup_kill(struct cgroup *g)
{
	char name[CGROUP_NAME_LEN];

	cgroup_name(name, g->run, g->command);
	g->set->ops->kill(g->set, name);
}

bool cgroup_empty(const struct cgroup *g)
{
	char path[CGROUP_NAME_LEN + 16], byte;
	auto_close int fd = -1;

	(void)snprintf(path, sizeof(path), "%u/%u/cgroup.procs", g->run, g->command);
	fd = openat(g->set->base, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? errno == ENOENT : read(fd, &byte, 1) == 0;
}

void cgroup_retire(struct cgroup *g)
{
	g->tries = 0;
	wait_again(g, ev_now());
	ev_defer_idle(g->set->loop, &g->set->tidy);
	/* The timer is for the first of them, which may be one that waits long. */
	if (list_empty(&g->set->sweep.link) || g->next_try < g->set->sweep.at)
		ev_timer_set(g->set->loop, &g->set->sweep, g->next_try);
}

void cgroup_abandon(struct cgroup *g)
{
	g->gone = NULL;
	g->owner = NULL;
	g->doomed = true;
	if (list_empty(&g->link))
		cgroup_retire(g);
}
