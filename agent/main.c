/* main.c - hutch-agent, process 1 of a sandbox
 *
 * Runs as user 0 of the sandbox, inside all its namespaces, from a sealed memfd:
 * there is no file of it in the sandbox that code there could change.  It starts
 * commands (spawn.c), reaps every process (reap.c) and reports numbers.
 *
 * Commands run as the same user and must not trace it.  Two locks: it is not
 * dumpable, and it holds a capability that they do not, CAP_SYS_PTRACE, for which it
 * has no other use: a process can be traced only by one that holds all it holds.
 *
 * It waits for two things only: a message, and SIGCHLD.  All signals are blocked,
 * and none but SIGKILL from outside can end process 1 of a pid namespace anyway.
 * When hutchd's end of the socket closes it exits, and the kernel kills the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent-internal.h"
#include "base/auto.h"

void agent_send(const struct agent_event *ev)
{
	ssize_t n;

	do
		n = send(AGENT_CONTROL_FD, ev, sizeof(*ev), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		_exit(0); /* hutchd is gone */
}

static void keep_fds(struct spawn *s, struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);

	s->fd_n = 0;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	s->fd_n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(s->fd, CMSG_DATA(c), s->fd_n * sizeof(int));
}

static bool is_exec(const struct agent_exec *m, size_t len)
{
	return len == sizeof(*m) ||
	       (m->args_len <= AGENT_ARGS_INLINE && len == sizeof(*m) + m->args_len);
}

static void on_message(struct agent *a)
{
	union {
		struct agent_exec exec;
		struct agent_signal signal;
	} m = { 0 };
	_Static_assert(sizeof(m) == sizeof(m.exec), "what follows a head is not in it");
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(AGENT_EXEC_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov[] = { { &m, sizeof(m) }, { &a->spawn.block, sizeof(a->spawn.block) } };
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = ARRAY_SIZE(iov),
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(AGENT_CONTROL_FD, &msg, MSG_CMSG_CLOEXEC);

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0)
		_exit(0);
	keep_fds(&a->spawn, &msg);
	if (m.exec.op == AGENT_OP_EXEC && is_exec(&m.exec, (size_t)n)) {
		a->spawn.req = m.exec;
		a->spawn.is_inline = n > (ssize_t)sizeof(m.exec);
		agent_exec(a); /* fewer descriptors than announced: it says so */
	} else if (m.signal.op == AGENT_OP_SIGNAL && n == sizeof(m.signal)) {
		agent_signal(a, &m.signal);
	} else {
		_exit(1); /* not our hutchd: the two are built together */
	}
}

/* CAP_SYS_PTRACE came through the inheritable set, the only one that survives execve() by
 * user 0 without being in the bounding set.  From here on nothing is inherited. */
static int drop_inheritable(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -1;
	data[0].inheritable = data[1].inheritable = 0;
	return (int)syscall(SYS_capset, &head, data);
}

/* Signals that hutchd ignores are still ignored here, and would be in every command. */
static int default_signals(sigset_t *all)
{
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL); /* KILL, STOP and glibc's own are refused */
	(void)sigfillset(all);
	return sigprocmask(SIG_SETMASK, all, NULL);
}

static int agent_init(struct agent *a)
{
	sigset_t set;

	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    prctl(PR_SET_NAME, "hutch-agent") < 0 || drop_inheritable() < 0 ||
	    fcntl(AGENT_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0 || default_signals(&set) < 0)
		return -errno;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	a->counts_io = access("/proc/self/io", F_OK) == 0;
	a->scripts = open(AGENT_SCRIPT_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return a->signals < 0 || a->scripts < 0 ? -errno : 0;
}

int main(void)
{
	static struct agent a;
	struct agent_event ev = { .kind = AGENT_READY };
	struct pollfd on[2] = { { .fd = AGENT_CONTROL_FD, .events = POLLIN } };
	int r = agent_init(&a);

	if (r < 0)
		ev = (struct agent_event){ .kind = AGENT_SETUP_FAILED,
					   .value = AGENT_SETUP_SELF,
					   .error = -r };
	agent_send(&ev);
	if (r < 0)
		_exit(1);
	on[1] = (struct pollfd){ .fd = a.signals, .events = POLLIN };
	for (;;) {
		if (poll(on, 2, -1) < 0)
			continue; /* EINTR: nothing else can be */
		if (on[0].revents)
			on_message(&a);
		if (on[1].revents) {
			struct signalfd_siginfo si;

			(void)!read(a.signals, &si, sizeof(si));
			agent_reap(&a);
		}
	}
}
