/* bench_core.c - all that takes part in an answer on one core
 *
 * To wake a process on another core may take longer than the whole answer, and where
 * the scheduler puts asker and answerer is luck: unless they are held together, what
 * is measured is the placement.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "tools/bench.h"

int bench_pin(pid_t pid, unsigned core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	return sched_setaffinity(pid, sizeof(set), &set) < 0 ? -errno : 0;
}

static bool hold(struct bench *bench, struct bench_held_core *held, const char *pid)
{
	held->pid = pid ? (pid_t)strtol(pid, NULL, 10) : 0;
	if (sched_getaffinity(held->pid, sizeof(held->was), &held->was) < 0 ||
	    bench_pin(held->pid, (unsigned)bench->core) < 0)
		return false;
	bench->held++;
	return true;
}

/* Commands are put there by themselves. */
static bool commands_can(const struct bench *bench)
{
	char request[64];

	(void)snprintf(request, sizeof(request), "{\"cmd\":[\"/root/true\",\"pin\",\"%d\"]}",
		       bench->core);
	return bench_exec_last(bench, bench->box, request, NULL) == 0;
}

void bench_gather(struct bench *bench)
{
	const char *const pids[] = { NULL, bench->pid, bench->bare_pid };
	cpu_set_t may;
	bool ok = sched_getaffinity(0, sizeof(may), &may) == 0;

	_Static_assert(ARRAY_SIZE(pids) == ARRAY_SIZE(bench->held_core), "who is held");
	bench->held = 0;
	bench->core = 0;
	while (ok && bench->core < CPU_SETSIZE - 1 && !CPU_ISSET(bench->core, &may))
		bench->core++;
	for (size_t i = 0; ok && i < ARRAY_SIZE(pids); i++)
		if (i == 0 || pids[i])
			ok = hold(bench, &bench->held_core[bench->held], pids[i]);
	if (!ok || !commands_can(bench))
		bench_scatter(bench);
}

void bench_scatter(struct bench *bench)
{
	while (bench->held > 0) {
		const struct bench_held_core *held = &bench->held_core[--bench->held];

		(void)sched_setaffinity(held->pid, sizeof(held->was), &held->was);
	}
	bench->core = -1;
}
