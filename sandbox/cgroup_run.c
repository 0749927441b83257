/* cgroup_run.c - the groups of a run of a sandbox, made ahead
 *
 * Making a group takes 40 us when everything is in the caches, 60 and more after a
 * pause, and removing one nearly as long.  So a run has a spare one, and the next
 * is made when the loop is idle.  That is soon: a command's program begins while
 * whoever has asked for it waits for its result, and so does hutchd.  In a loop that
 * is never idle a command gets its group made when it comes.
 *
 * The end of a command is no sign to go by.  What an agent says of the beginning of a
 * short command comes together with its end, and then the reader of the result,
 * who is about to ask for more, would wait.
 *
 * An empty group holds some 8 KiB of the kernel's memory on v2 and 5 KiB on v1,
 * twice that with limits: as a tenth more for each idle sandbox.  So a spare is taken
 * back SPARE_STAYS_NS after the last command, when a pause of a person at a prompt is
 * over too, and there are never more than SPARES_MAX: a command of a run beyond them
 * gets its group made when it comes, which is what everything cost before.  Only
 * the few sandboxes that are made ahead keep theirs while they wait.
 *
 * No descriptor is held of a spare: a sandbox has three, whether it works or not.
 *
 * Nothing is in a spare, since only a command's first process is ever given a way
 * in.  An agent that code of the sandbox has taken over can find one from a
 * neighbour's descriptor, and so make two of its own commands die together.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/cgroup-internal.h"

#define SPARE_STAYS_NS (INT64_C(10) * 1000000000)
#define SPARES_MAX     256

static int make(struct cgroups *set, const char *name, const struct id_range *ids, struct err *err)
{
	int r;

	/* One of that name can only be left of a crash: it is never used as it is. */
	if (mkdirat(set->base, name, 0755) < 0 &&
	    (errno != EEXIST || unlinkat(set->base, name, AT_REMOVEDIR) < 0 ||
	     mkdirat(set->base, name, 0755) < 0))
		return err_set(err, errno, "make the control group '%s/%s'", set->path, name);
	r = set->ops->allow(set, name, ids, err);
	if (r < 0)
		(void)unlinkat(set->base, name, AT_REMOVEDIR);
	return r;
}

static struct cgroup *group_new(struct cgroups *set, uint32_t run, uint32_t command)
{
	struct cgroup *g = calloc(1, sizeof(*g));

	if (g) {
		*g = (struct cgroup){ .set = set, .run = run, .command = command };
		list_init(&g->link);
	}
	return g;
}

static struct cgroup *group_make(struct cgroup_run *run, struct err *err)
{
	struct cgroup *g = group_new(run->set, run->number, run->next);
	char name[CGROUP_NAME_LEN];

	if (!g) {
		err_set(err, ENOMEM, "make a control group");
		return NULL;
	}
	cgroup_name(name, run->number, run->next);
	if (make(run->set, name, &run->ids, err) < 0) {
		free(g);
		return NULL;
	}
	run->next++;
	return g;
}

/* --- what is made ahead --- */

static void arm_stale(struct cgroups *set)
{
	if (!list_empty(&set->spared))
		ev_timer_set(set->loop, &set->stale,
			     list_first(&set->spared, struct cgroup_run, link)->stale_at);
}

static struct cgroup *take_spare(struct cgroup_run *run)
{
	list_del(&run->link);
	run->set->spares -= run->spare != NULL;
	return TAKE_PTR(run->spare);
}

static void drop_spare(struct cgroup_run *run)
{
	struct cgroup *g = take_spare(run);

	if (g)
		cgroup_abandon(g);
}

void cgroup_run_stock(struct cgroup_run *run)
{
	struct cgroups *set = run->set;

	if (set->kind == CGROUP_NONE || run->spare || set->spares >= SPARES_MAX)
		return;
	run->spare = group_make(run, NULL);
	set->spares += run->spare != NULL;
}

static void on_prepare(struct ev_task *task)
{
	struct cgroup_run *run = container_of(task, struct cgroup_run, prepare);
	struct cgroups *set = run->set;

	cgroup_run_stock(run);
	if (!run->spare)
		return;
	run->stale_at = ev_now() + SPARE_STAYS_NS;
	list_del(&run->link);
	list_add_tail(&set->spared, &run->link);
	if (list_empty(&set->stale.link)) /* else it is for one that is older */
		arm_stale(set);
}

void cgroup_run_expect(struct cgroup_run *run)
{
	if (run->set->kind != CGROUP_NONE)
		ev_defer_idle(run->set->loop, &run->prepare);
}

void cgroup_on_stale(struct ev_timer *timer)
{
	struct cgroups *set = container_of(timer, struct cgroups, stale);
	int64_t now = ev_now();

	while (!list_empty(&set->spared)) {
		struct cgroup_run *run = list_first(&set->spared, struct cgroup_run, link);

		if (run->stale_at > now)
			break;
		drop_spare(run); /* removed with others, a few a turn */
	}
	arm_stale(set);
}

struct cgroup *cgroup_take(struct cgroup_run *run, struct err *err)
{
	if (run->set->kind == CGROUP_NONE)
		return NULL;
	cgroup_run_expect(run); /* one more */
	return run->spare ? take_spare(run) : group_make(run, err);
}

/* --- the run --- */

static int run_make(struct cgroup_run *run, int *ret_fd, struct err *err)
{
	struct cgroups *set = run->set;
	char name[CGROUP_NAME_LEN];
	int r;

	cgroup_name(name, run->number, 0);
	r = make(set, name, &run->ids, err);
	if (r < 0 || !set->ops->clones)
		return r;
	*ret_fd = set->ops->open_join(set, name, err);
	if (*ret_fd >= 0)
		return 0;
	(void)cgroup_remove(set, run->number, 0);
	r = *ret_fd;
	*ret_fd = -1;
	return r;
}

int cgroup_run_new(struct cgroups *set, const struct id_range *ids, struct cgroup_run **ret,
		   int *ret_fd, struct err *err)
{
	struct cgroup_run *run = calloc(1, sizeof(*run));
	int r;

	*ret_fd = -1;
	if (!run)
		return err_set(err, ENOMEM, "make a control group");
	*run = (struct cgroup_run){ .set = set, .number = ++set->last_run, .next = 1, .ids = *ids };
	list_init(&run->link);
	ev_task_init(&run->prepare, on_prepare);
	r = set->kind == CGROUP_NONE ? 0 : run_make(run, ret_fd, err);
	if (r < 0) {
		free(run);
		return r;
	}
	*ret = run;
	return 0;
}

void cgroup_run_retire(struct cgroup_run *run)
{
	char name[CGROUP_NAME_LEN];
	struct cgroups *set;
	struct cgroup *g;

	if (!run)
		return;
	set = run->set;
	ev_task_cancel(&run->prepare);
	drop_spare(run);
	if (set->kind != CGROUP_NONE) {
		cgroup_name(name, run->number, 0);
		cgroup_kill_children(set, name);
		set->ops->kill(set, name);
		g = group_new(set, run->number, 0);
		if (g)
			cgroup_retire(g); /* without memory: at the end of hutchd */
	}
	free(run);
}
