/* Children that do not die at once: nobody waits for them, and none is left. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/zombies.h"
#include "tests/unit/tap.h"

static struct ev_loop loop;

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			(void)pause();
	return pid;
}

/* Dies of SIGKILL only when we let it: its tracer stops it on its way out, as a system call that waits
 * for a disk would. */
struct stubborn {
	pid_t pid, tracer;
};

static struct stubborn stubborn(void)
{
	struct stubborn s = { .pid = fork() };
	char byte;
	int p[2];

	if (s.pid == 0) {
		(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		for (;;)
			(void)pause();
	}
	(void)!pipe2(p, O_CLOEXEC);
	s.tracer = fork();
	if (s.tracer == 0) {
		const void *options = (void *)(uintptr_t)PTRACE_O_TRACEEXIT;

		while (ptrace(PTRACE_SEIZE, s.pid, NULL, options) < 0)
			(void)usleep(1000);
		(void)!write(p[1], "", 1);
		for (;;)
			(void)pause();
	}
	(void)!read(p[0], &byte, 1);
	(void)close(p[0]);
	(void)close(p[1]);
	return s;
}

static void let_die(const struct stubborn *s)
{
	(void)kill(s->tracer, SIGKILL);
	(void)waitpid(s->tracer, NULL, 0);
}

static bool is_ours(pid_t pid)
{
	return kill(pid, 0) == 0;
}

static bool gone_in_time(const struct zombies *z)
{
	int64_t end = ev_now() + INT64_C(10000000000);

	while (!zombies_gone(z) && ev_now() < end)
		(void)ev_turn(&loop, 100);
	return zombies_gone(z);
}

static void test_reaped(void)
{
	pid_t pid[20], ended = fork();
	struct zombies z;
	int left = 0;

	if (ended == 0)
		_exit(3);
	zombies_init(&z, &loop);
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++)
		zombies_kill(&z, pid[i] = sleeper());
	(void)waitid(P_PID, (id_t)ended, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	zombies_kill(&z, ended);
	ok(!is_ours(ended), "one that had ended is reaped at once");
	ok(gone_in_time(&z), "the others by the loop");
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++)
		left += is_ours(pid[i]);
	is_int(left, 0, "none is left");
	ok(list_empty(&loop.timers), "and nothing looks for them any more");
	zombies_done(&z, ev_now());
}

static void test_stubborn(void)
{
	struct stubborn s = stubborn();
	int64_t begin = ev_now();
	struct zombies z;

	zombies_init(&z, &loop);
	zombies_kill(&z, s.pid);
	for (int i = 0; i < 5; i++)
		(void)ev_turn(&loop, 20);
	ok(ev_now() - begin < 1000000000, "nobody waits for one that does not die");
	ok(!zombies_gone(&z) && is_ours(s.pid), "it has not died");
	let_die(&s);
	ok(gone_in_time(&z) && !is_ours(s.pid), "when it does it is reaped");
	zombies_done(&z, ev_now());
}

static void test_done(void)
{
	struct stubborn s = stubborn();
	pid_t other = sleeper();
	int64_t begin = ev_now();
	struct zombies z;

	zombies_init(&z, &loop);
	zombies_kill(&z, other);
	zombies_kill(&z, s.pid);
	zombies_done(&z, begin + 200000000);
	ok(!is_ours(other), "at the end: what dies is reaped");
	ok(ev_now() - begin >= 200000000 && ev_now() - begin < 2000000000,
	   "what does not, is left");
	ok(list_empty(&loop.timers), "nothing looks for it");
	let_die(&s);
	(void)waitpid(s.pid, NULL, 0);
}

static void test_child_reap(void)
{
	pid_t pid = sleeper();
	auto_close int pidfd = pidfd_open(pid, 0);
	int status = -1;

	errno = ECHILD; /* of something else, long ago */
	ok(!child_reap(pidfd, &status), "one that lives is not reaped");
	is_int(status, -1, "and has no status");
	(void)kill(pid, SIGTERM);
	for (int i = 0; i < 2000 && !child_reap(pidfd, &status); i++)
		(void)usleep(1000);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "its status");
	ok(child_reap(pidfd, &status) && status == 0, "a second time: it is gone");
}

int main(void)
{
	if (ev_init(&loop, NULL) < 0)
		return 1;
	test_child_reap();
	test_reaped();
	test_stubborn();
	test_done();
	ev_done(&loop);
	return tap_done();
}
