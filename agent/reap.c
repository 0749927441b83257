/* reap.c - what becomes of the commands' processes
 *
 * Process 1 reaps its own leaders and every orphan of the sandbox.  SIGCHLD
 * coalesces, so each time until nothing is left.
 *
 * A leader's number stays taken while its process group has members, so a past
 * leader that left some behind can be signalled by its number; one whose group
 * was empty when it was reaped is forgotten at once.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent-internal.h"
#include "base/auto.h"

char *put_decimal(char *to, uint32_t n)
{
	char digits[10];
	unsigned i = 0;

	do
		digits[i++] = (char)('0' + n % 10);
	while ((n /= 10) != 0);
	while (i > 0)
		*to++ = digits[--i];
	*to = '\0';
	return to;
}

void script_name(char name[11], uint32_t id)
{
	(void)put_decimal(name, id);
}

void agent_leader_add(struct agent *a, uint32_t id, pid_t pid)
{
	/* The caller has checked that there is room. */
	a->live[a->live_n++] = (struct leader){ id, pid, a->spawn.script >= 0 };
}

static struct leader *find_live_pid(struct agent *a, pid_t pid)
{
	for (unsigned i = 0; i < a->live_n; i++)
		if (a->live[i].pid == pid)
			return &a->live[i];
	return NULL;
}

static pid_t find_pid(struct agent *a, const struct agent_signal *s)
{
	for (unsigned i = 0; i < a->live_n; i++)
		if (a->live[i].id == s->id)
			return a->live[i].pid;
	if (!s->group)
		return 0;
	for (unsigned i = 0; i < PAST_MAX; i++)
		if (a->past[i].pid && a->past[i].id == s->id)
			return find_live_pid(a, a->past[i].pid) ? 0 : a->past[i].pid;
	return 0;
}

static uint64_t micros(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

/* Of the leader, its threads and the children it waited for. */
static void usage_fill(struct agent_usage *u, const struct rusage *ru, bool counts_io)
{
	u->user_us = micros(&ru->ru_utime);
	u->sys_us = micros(&ru->ru_stime);
	u->maxrss_bytes = (uint64_t)ru->ru_maxrss * 1024;
	u->majflt = (uint64_t)ru->ru_majflt;
	u->nivcsw = (uint64_t)ru->ru_nivcsw;
	/* The kernel makes these from the read_bytes and write_bytes of /proc/PID/io, which of a
	 * zombie belongs to the host's root: not even user 0 in here may open it. */
	u->io_read_bytes = counts_io ? (uint64_t)ru->ru_inblock * 512 : AGENT_UNKNOWN;
	u->io_write_bytes = counts_io ? (uint64_t)ru->ru_oublock * 512 : AGENT_UNKNOWN;
}

static void leader_ended(struct agent *a, struct leader *l, int status, const struct rusage *ru)
{
	struct agent_event ev = { .kind = AGENT_EXITED, .id = l->id, .value = status };
	struct leader gone = *l;

	*l = a->live[--a->live_n];
	if (gone.has_script) {
		char name[11];

		script_name(name, gone.id);
		(void)unlinkat(a->scripts, name, 0); /* the sandbox may have done so itself */
	}
	if (kill(-gone.pid, 0) == 0) {
		a->past[a->past_at] = gone;
		a->past_at = (a->past_at + 1) % PAST_MAX;
	}
	usage_fill(&ev.usage, ru, a->counts_io);
	agent_send(&ev);
}

void agent_reap(struct agent *a)
{
	for (;;) {
		struct rusage ru;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG, &ru);
		struct leader *l;

		if (pid <= 0)
			return;
		l = find_live_pid(a, pid);
		if (l) /* else an adopted orphan */
			leader_ended(a, l, status, &ru);
	}
}

void agent_signal(struct agent *a, const struct agent_signal *s)
{
	pid_t pid = find_pid(a, s);

	/* It may be over, or its group empty: both are no fault. */
	if (pid > 0)
		(void)kill(s->group ? -pid : pid, s->sig);
}
