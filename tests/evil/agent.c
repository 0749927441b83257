/* agent.c - a process 1 that somebody has taken over: it lies, floods, keeps silent, or goes
 *
 * What it does is a row, chosen by the text behind the mark below, which the test
 * writes into its copy of this program: it is started without arguments, environment or files.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/auto.h"

#define NAME_LEN 32
#define FDS      200

static const volatile char mark[sizeof("evil agent: ") + NAME_LEN] = "evil agent: ";

static void send_bytes(const void *bytes, size_t len)
{
	if (send(AGENT_CONTROL_FD, bytes, len, MSG_NOSIGNAL) < 0 && errno == EPIPE)
		_exit(0);
}

static void say(uint32_t kind, uint32_t id, int32_t value, int32_t error)
{
	const struct agent_event ev = { .kind = kind, .id = id, .value = value, .error = error };

	send_bytes(&ev, sizeof(ev));
}

static _Noreturn void sleep_forever(void)
{
	for (;;)
		(void)pause();
}

/* The next message of this kind; its id. At the end of the socket: sleeps. */
static uint32_t hear(uint32_t op)
{
	for (;;) {
		struct agent_exec m = { 0 };
		ssize_t n = recv(AGENT_CONTROL_FD, &m, sizeof(m), 0);

		if (n <= 0)
			sleep_forever();
		if (m.op == op)
			return m.id;
	}
}

static void send_fds(int n, int type, const void *data, size_t len)
{
	static union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
	} cm;
	static int fd[FDS];
	struct agent_event ev = { .kind = AGENT_READY };
	struct iovec iov = { &ev, sizeof(ev) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &cm };

	for (int i = 0; i < n; i++)
		fd[i] = AGENT_CONTROL_FD;
	if (!data) {
		data = fd;
		len = (size_t)n * sizeof(int);
	}
	cm.align = (struct cmsghdr){ CMSG_LEN(len), SOL_SOCKET, type };
	memcpy(CMSG_DATA(&cm.align), data, len);
	msg.msg_controllen = CMSG_SPACE(len);
	(void)sendmsg(AGENT_CONTROL_FD, &msg, MSG_NOSIGNAL);
}

static void ready_twice(void)
{
	say(AGENT_READY, 0, 0, 0);
	say(AGENT_READY, 0, 0, 0);
}

static void started_unknown(void)
{
	say(AGENT_READY, 0, 0, 0);
	(void)hear(AGENT_OP_EXEC);
	say(AGENT_STARTED, 1000, 7, 0);
}

static void started_early(void)
{
	say(AGENT_STARTED, 1, 7, 0);
}

static void started_finished(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	say(AGENT_STARTED, id, 7, 0);
	say(AGENT_EXITED, id, 0, 0);
	say(AGENT_STARTED, id, 8, 0);
}

static void started_twice(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	say(AGENT_STARTED, id, 7, 0);
	say(AGENT_STARTED, id, 8, 0);
}

static void exited_first(void)
{
	say(AGENT_READY, 0, 0, 0);
	say(AGENT_EXITED, hear(AGENT_OP_EXEC), 0, 0);
}

static void failed_late(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	say(AGENT_STARTED, id, 7, 0);
	say(AGENT_FAILED, id, AGENT_STAGE_EXEC, ENOENT);
}

static void set_up_late(void)
{
	say(AGENT_READY, 0, 0, 0);
	say(AGENT_SETUP_FAILED, 0, 3, EPERM);
}

static void set_up_nowhere(void)
{
	say(AGENT_SETUP_FAILED, 0, AGENT_SETUP_MOUNT + 3, EPERM);
}

static void unknown_kind(void)
{
	say(AGENT_READY, 0, 0, 0);
	say(77, 0, 0, 0);
}

static void a_short_one(void)
{
	say(AGENT_READY, 0, 0, 0);
	send_bytes("short", 5);
}

static void a_long_one(void)
{
	static char bytes[60000] = { AGENT_READY };

	say(AGENT_READY, 0, 0, 0);
	send_bytes(bytes, sizeof(bytes));
}

static void an_empty_one(void)
{
	say(AGENT_READY, 0, 0, 0);
	send_bytes("", 0);
}

static void one_descriptor(void)
{
	send_fds(1, SCM_RIGHTS, NULL, 0);
}

static void many_descriptors(void)
{
	send_fds(FDS, SCM_RIGHTS, NULL, 0);
}

static void credentials(void)
{
	const struct ucred own = { .pid = getpid() };

	send_fds(0, SCM_CREDENTIALS, &own, sizeof(own));
}

static void flood_of_lies(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	for (;;)
		say(AGENT_STARTED, id, 7, 0);
}

/* Of a command that was removed: nobody knows any more what can be said of it. */
static void flood_of_the_past(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	(void)hear(AGENT_OP_SIGNAL);
	(void)usleep(200000);
	for (;;)
		say(AGENT_EXITED, id, 0, 0);
}

/* What can be said once of a command that was removed, twice. */
static void failed_twice(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	(void)hear(AGENT_OP_SIGNAL);
	(void)usleep(200000);
	say(AGENT_FAILED, id, AGENT_STAGE_EXEC, ENOENT);
	say(AGENT_FAILED, id, AGENT_STAGE_EXEC, ENOENT);
}

static void over_unstarted(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	(void)hear(AGENT_OP_SIGNAL);
	(void)usleep(200000);
	say(AGENT_EXITED, id, 0, 0);
}

static void started_failed(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	(void)hear(AGENT_OP_SIGNAL);
	(void)usleep(200000);
	say(AGENT_STARTED, id, 7, 0);
	say(AGENT_FAILED, id, AGENT_STAGE_EXEC, ENOENT);
}

/* All that an honest one may say. */
static void over_removed(void)
{
	uint32_t id;

	say(AGENT_READY, 0, 0, 0);
	id = hear(AGENT_OP_EXEC);
	(void)hear(AGENT_OP_SIGNAL);
	(void)usleep(200000);
	say(AGENT_STARTED, id, 7, 0);
	say(AGENT_EXITED, id, 0, 0);
	say(AGENT_FAILED, hear(AGENT_OP_EXEC), AGENT_STAGE_EXEC, ENOENT);
}

static void flood_of_descriptors(void)
{
	say(AGENT_READY, 0, 0, 0);
	(void)hear(AGENT_OP_EXEC);
	for (;;)
		send_fds(FDS, SCM_RIGHTS, NULL, 0);
}

/* From many processes, none of which wants to go. */
static void flood_of_many(void)
{
	for (int i = 0; i < 20 && fork() > 0; i++)
		;
	for (;;)
		send_bytes("rubbish", 7);
}

static void closes(void)
{
	say(AGENT_READY, 0, 0, 0);
	(void)hear(AGENT_OP_EXEC);
	(void)close(AGENT_CONTROL_FD);
}

static void closes_early(void)
{
	(void)close(AGENT_CONTROL_FD);
}

static void exits_early(void)
{
	_exit(3);
}

static void exits_ready(void)
{
	say(AGENT_READY, 0, 0, 0);
	_exit(3);
}

static void exits_asked(void)
{
	say(AGENT_READY, 0, 0, 0);
	(void)hear(AGENT_OP_EXEC);
	_exit(3);
}

static void exits_started(void)
{
	say(AGENT_READY, 0, 0, 0);
	say(AGENT_STARTED, hear(AGENT_OP_EXEC), 7, 0);
	_exit(3);
}

static void silent(void)
{
	(void)hear(0);
}

/* Listens, and does nothing. */
static void idle(void)
{
	say(AGENT_READY, 0, 0, 0);
	(void)hear(0);
}

static void idle_started(void)
{
	say(AGENT_READY, 0, 0, 0);
	for (;;)
		say(AGENT_STARTED, hear(AGENT_OP_EXEC), 7, 0);
}

static void deaf(void)
{
	say(AGENT_READY, 0, 0, 0);
}

static const struct row {
	const char *name;
	void (*run)(void); /* when it returns, the agent sleeps for ever */
} rows[] = {
	{ "ready twice", ready_twice },
	{ "started unknown", started_unknown },
	{ "started early", started_early },
	{ "started finished", started_finished },
	{ "started twice", started_twice },
	{ "exited first", exited_first },
	{ "failed late", failed_late },
	{ "set up late", set_up_late },
	{ "set up nowhere", set_up_nowhere },
	{ "unknown kind", unknown_kind },
	{ "a short one", a_short_one },
	{ "a long one", a_long_one },
	{ "an empty one", an_empty_one },
	{ "one descriptor", one_descriptor },
	{ "many descriptors", many_descriptors },
	{ "credentials", credentials },
	{ "flood of lies", flood_of_lies },
	{ "flood of the past", flood_of_the_past },
	{ "failed twice", failed_twice },
	{ "over unstarted", over_unstarted },
	{ "started failed", started_failed },
	{ "over removed", over_removed },
	{ "flood of descriptors", flood_of_descriptors },
	{ "flood of many", flood_of_many },
	{ "closes", closes },
	{ "closes early", closes_early },
	{ "exits early", exits_early },
	{ "exits ready", exits_ready },
	{ "exits asked", exits_asked },
	{ "exits started", exits_started },
	{ "silent", silent },
	{ "idle", idle },
	{ "idle started", idle_started },
	{ "deaf", deaf },
};

int main(void)
{
	char name[NAME_LEN] = { 0 };

	for (size_t i = 0; i + 1 < sizeof(name); i++)
		name[i] = mark[strlen("evil agent: ") + i];
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_IGN);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].name, name) == 0) {
			rows[i].run();
			sleep_forever();
		}
	return 99;
}
