#include "sandbox/zombies.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "base/auto.h"

#define PAUSE_MIN_NS INT64_C(1000000)
#define PAUSE_MAX_NS INT64_C(1000000000)

struct zombie {
	struct list link; /* zombies.list */
	pid_t pid;        /* nobody else's while it was not reaped */
};

static bool reap(idtype_t type, id_t id, int *ret_status)
{
	siginfo_t info = { 0 };

	if (waitid(type, id, &info, WEXITED | WNOHANG) < 0) {
		if (errno != ECHILD)
			return false;
	} else if (!info.si_pid) {
		return false; /* it lives */
	}
	*ret_status = info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0)
						 : W_EXITCODE(0, info.si_status & 0x7f);
	return true;
}

bool child_reap(int pidfd, int *ret_status)
{
	return reap(P_PIDFD, (id_t)pidfd, ret_status);
}

static void reap_all(struct zombies *all)
{
	struct zombie *z, *next;
	int status;

	list_for_each_safe (z, next, &all->list, link)
		if (reap(P_PID, (id_t)z->pid, &status)) {
			list_del(&z->link);
			free(z);
		}
}

static void look_later(struct zombies *all)
{
	if (!list_empty(&all->list))
		ev_timer_set(all->loop, &all->look, ev_now() + all->pause);
}

static void on_look(struct ev_timer *timer)
{
	struct zombies *all = container_of(timer, struct zombies, look);

	reap_all(all);
	all->pause = all->pause < PAUSE_MAX_NS / 2 ? all->pause * 2 : PAUSE_MAX_NS;
	look_later(all);
}

void zombies_init(struct zombies *all, struct ev_loop *loop)
{
	*all = (struct zombies){ .loop = loop };
	list_init(&all->list);
	ev_timer_init(&all->look, on_look);
}

void zombies_kill(struct zombies *all, pid_t pid)
{
	struct zombie *z;
	int status;

	(void)kill(pid, SIGKILL);
	if (reap(P_PID, (id_t)pid, &status)) /* it had ended before */
		return;
	z = malloc(sizeof(*z));
	if (!z)
		return;
	z->pid = pid;
	list_add_tail(&all->list, &z->link);
	all->pause = PAUSE_MIN_NS;
	look_later(all);
}

bool zombies_gone(const struct zombies *all)
{
	return list_empty(&all->list);
}

void zombies_done(struct zombies *all, int64_t deadline)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MIN_NS };
	struct zombie *z, *next;

	ev_timer_cancel(&all->look);
	for (reap_all(all); !list_empty(&all->list) && ev_now() < deadline; reap_all(all))
		(void)nanosleep(&pause, NULL);
	list_for_each_safe (z, next, &all->list, link)
		free(z);
	list_init(&all->list);
}
