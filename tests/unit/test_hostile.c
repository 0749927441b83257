/* A sandbox whose process 1 breaks its protocol, or keeps silent: what it can do, and what not. */

#include "tests/unit/engine.h"

#define MARK "evil agent: "

static int good_agent, evil_file;

/* From here on this agent is what sandboxes are started with. NULL: an honest one. */
static void use_agent(const char *behaviour)
{
	static char bytes[4 * 1024 * 1024];
	ssize_t n = behaviour ? pread(evil_file, bytes, sizeof(bytes), 0) : 0;
	char *at = n > 0 ? memmem(bytes, (size_t)n, MARK, strlen(MARK)) : NULL;
	int fd = behaviour ? memfd_create("evil-agent", MFD_CLOEXEC) : good_agent;

	if (at)
		(void)snprintf(at + strlen(MARK), 32, "%s", behaviour);
	if (behaviour && (!at || write(fd, bytes, (size_t)n) != n))
		printf("# there is no evil agent\n");
	(void)fchmod(fd, 0555);
	(void)dup3(fd, agent_fd, O_CLOEXEC);
	if (behaviour)
		(void)close(fd);
}

static struct sandbox *evil_box(struct engine *eng, const char *behaviour)
{
	struct spec spec = { 0 };
	struct sandbox *sb = NULL;
	struct err err = { 0 };

	/* Its first process 1 may have been there before we came: so it is taken over at a start. */
	if (sandbox_create(eng, &spec, 0, 0, &sb, &err) < 0 || sandbox_stop(sb, &err) < 0 ||
	    !turn_until(sandbox_gone(sb)))
		return NULL;
	use_agent(behaviour);
	ok(sandbox_start(sb, &err) == 0, "%s: is begun: %s", behaviour, err.msg);
	use_agent(NULL);
	return sb;
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long pages = 0;

	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		(void)fclose(f);
	return pages * 4;
}

static bool in_time(struct sandbox *honest)
{
	int64_t begin = ev_now();
	struct exec *ex = run(honest, "[\"true\"]");
	bool good = ex && turn_until(ex->state == EXEC_DONE) && ex->result.code == 0;

	exec_unref(ex);
	return good && ev_now() - begin < patience(2);
}

static void wait_ms(int ms)
{
	int64_t end = ev_now() + ms * INT64_C(1000000);

	while (ev_now() < end)
		(void)ev_turn(&loop, 10);
}

/* What the sandbox becomes with a command, and without one where `alone`. */
static const struct {
	const char *behaviour;
	bool alone;
	enum sandbox_state state;
	const char *why; /* a part; of quarantined ones: that too */
	enum exec_reason reason;
} rows[] = {
	{ "ready twice", true, SANDBOX_QUARANTINED, "ready twice", 0 },
	{ "started unknown", false, SANDBOX_QUARANTINED, "never given", EXEC_LOST },
	{ "started early", true, SANDBOX_QUARANTINED, "before it was ready", 0 },
	{ "started finished", false, SANDBOX_QUARANTINED, "does not have|never given",
	  EXEC_EXITED },
	{ "started twice", false, SANDBOX_QUARANTINED, "wrong order", EXEC_LOST },
	{ "exited first", false, SANDBOX_QUARANTINED, "wrong order", EXEC_LOST },
	{ "failed late", false, SANDBOX_QUARANTINED, "wrong order", EXEC_LOST },
	{ "set up late", true, SANDBOX_QUARANTINED, "after it was ready", 0 },
	{ "set up nowhere", true, SANDBOX_FAILED, "Operation not permitted", 0 },
	{ "unknown kind", true, SANDBOX_QUARANTINED, "cannot be one", 0 },
	{ "a short one", true, SANDBOX_QUARANTINED, "cannot be one", 0 },
	{ "a long one", true, SANDBOX_QUARANTINED, "cannot be one", 0 },
	{ "an empty one", true, SANDBOX_FAILED, "has gone", 0 },
	{ "one descriptor", true, SANDBOX_QUARANTINED, "cannot be one", 0 },
	{ "many descriptors", true, SANDBOX_QUARANTINED, "cannot be one", 0 },
	{ "flood of lies", false, SANDBOX_QUARANTINED, "wrong order", EXEC_LOST },
	{ "flood of descriptors", false, SANDBOX_QUARANTINED, "cannot be one", EXEC_LOST },
	{ "flood of many", true, SANDBOX_QUARANTINED, "cannot be one", 0 },
	{ "closes", false, SANDBOX_FAILED, "has gone", EXEC_LOST },
	{ "closes early", true, SANDBOX_FAILED, "has gone", 0 },
	{ "exits early", true, SANDBOX_FAILED, "has gone|status 3", 0 },
	{ "exits ready", true, SANDBOX_FAILED, "has gone|status 3", 0 },
	{ "exits asked", false, SANDBOX_FAILED, "has gone|status 3", EXEC_LOST },
	{ "exits started", false, SANDBOX_FAILED, "has gone|status 3", EXEC_LOST },
	{ "credentials", true, SANDBOX_RUNNING, "", 0 },
	{ "silent", true, SANDBOX_CREATING, "", 0 },
	{ "idle", true, SANDBOX_RUNNING, "", 0 },
	{ "deaf", true, SANDBOX_RUNNING, "", 0 },
};

static bool one_of(const char *text, const char *parts)
{
	const char *bar = strchr(parts, '|');
	char first[64];

	(void)snprintf(first, sizeof(first), "%.*s", bar ? (int)(bar - parts) : 63, parts);
	return strstr(text, first) || (bar && strstr(text, bar + 1));
}

/* Of the process 1 that was just started: ask the kernel, not the engine. */
static pid_t youngest_child(void)
{
	char text[64];
	FILE *f;
	int pid = 0;

	(void)snprintf(text, sizeof(text), "/proc/self/task/%d/children", getpid());
	f = fopen(text, "re");
	while (f && fscanf(f, "%d", &pid) == 1)
		;
	if (f)
		(void)fclose(f);
	return pid;
}

/* Removed, with nothing left: neither process nor descriptor nor directory. */
static void remove_box(struct sandbox *sb, const char *what, pid_t pid)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%s/sandboxes/%u", dir, sb->serial);
	sandbox_ref(sb);
	sandbox_remove(sb);
	ok(turn_until(sandbox_gone(sb)), "%s: rmdir", what);
	ok(kill(pid, 0) < 0 && errno == ESRCH, "%s: its process 1 is gone", what);
	ok(turn_until(access(name, F_OK) < 0), "%s: its directory is gone", what);
	sandbox_unref(sb);
}

static void test_row(struct engine *eng, struct sandbox *honest, size_t i)
{
	const char *what = rows[i].behaviour;
	bool stays = rows[i].state == SANDBOX_RUNNING || rows[i].state == SANDBOX_CREATING;
	int fds = count_fds();
	struct sandbox *sb = evil_box(eng, what);
	pid_t pid = youngest_child();
	struct exec *ex = rows[i].alone ? NULL : run(sb, "[\"true\"]"), *refused;

	if (stays)
		wait_ms(100);
	else
		(void)turn_until(sb->state != SANDBOX_CREATING && sb->state != SANDBOX_RUNNING);
	is_int(sb->state, rows[i].state, "%s: state", what);
	ok(one_of(sb->why.msg, rows[i].why), "%s: %s", what, sb->why.msg);
	if (ex) {
		is_int(ex->state, EXEC_DONE, "%s: its command is over", what);
		is_int(ex->result.reason, rows[i].reason, "%s: how", what);
		ok(rows[i].reason != EXEC_LOST || ex->result.error, "%s: why: %s", what,
		   ex->result.error);
		exec_unref(ex);
	}
	ok(in_time(honest), "%s: others go on", what);
	refused = run(sb, "[\"true\"]");
	ok(!refused == !stays, "%s: takes %s command", what, stays ? "a" : "no");
	exec_unref(refused);
	remove_box(sb, what, pid);
	ok(turn_until(count_fds() == fds), "%s: no descriptor is left", what);
}

/* Refused like one that never was: quarantine lasts, also over a restart. */
static struct engine *test_quarantine(struct engine *eng)
{
	struct sandbox *sb = evil_box(eng, "unknown kind");
	struct err err = { 0 };
	char id[NAME_MAX_LEN + 1], why[ERR_MSG_MAX];

	(void)turn_until(sb->state == SANDBOX_QUARANTINED);
	is_int(sandbox_start(sb, &err), -EPERM, "quarantine: start: %s", err.msg);
	is_int(sandbox_stop(sb, NULL), 0, "quarantine: stop has nothing to do");
	memcpy(id, sb->id, sizeof(id));
	(void)snprintf(why, sizeof(why), "%s", sb->why.msg);
	for (int i = 0; i < 2; i++) {
		engine_close(eng);
		eng = open_engine();
		sb = sandbox_find(eng, id);
		ok(sb && sb->state == SANDBOX_QUARANTINED, "quarantine: after restart %d", i);
		is_str(sb->why.msg, why, "quarantine: and says why");
		ok(sandbox_chmod(sb, 0750, NULL) == 0, "quarantine: chmod");
	}
	is_int(sandbox_start(sb, &err), -EPERM, "quarantine: still: %s", err.msg);
	sandbox_remove(sb);
	ok(!sandbox_find(eng, id), "quarantine: rmdir");
	return eng;
}

/* What was accepted once is accepted again, and runs nothing. */
static void test_asked_again(struct engine *eng)
{
	static const char request[] = "{\"cmd\":\"exit 3\",\"id\":\"once\"}";
	struct sandbox *sb = make_box(eng, "again");
	struct exec *ex = run(sb, request), *twice, *other;

	(void)turn_until(ex->state == EXEC_DONE);
	(void)sandbox_stop(sb, NULL);
	(void)turn_until(sandbox_gone(sb));
	use_agent("unknown kind");
	(void)sandbox_start(sb, NULL);
	use_agent(NULL);
	ok(turn_until(sb->state == SANDBOX_QUARANTINED), "again: quarantined");
	twice = run(sb, request);
	ok(twice == ex && ex->result.code == 3, "again: the same request");
	other = run(sb, "{\"cmd\":\"exit 3\",\"id\":\"other\"}");
	ok(!other, "again: and no other");
	exec_unref(ex);
	exec_unref(twice);
	exec_unref(other);
	sandbox_remove(sb);
}

/* Events of commands that nobody knows any more are believed as often as there can be any. */
static void test_past(struct engine *eng, struct sandbox *honest)
{
	struct sandbox *sb = evil_box(eng, "flood of the past");
	struct exec *ex = run(sb, "[\"true\"]");
	long before = resident_kib();

	(void)turn_until(sb->state == SANDBOX_RUNNING);
	wait_ms(50);
	exec_remove(ex);
	is_int(ex->result.reason, EXEC_KILLED, "flood of the past: the command was removed");
	exec_unref(ex);
	ok(in_time(honest), "flood of the past: others go on");
	ok(turn_until(sb->state == SANDBOX_QUARANTINED), "flood of the past: %s", sb->why.msg);
	ok(resident_kib() - before < 8192, "flood of the past: memory");
	sandbox_remove(sb);
}

static struct sandbox *removed_command(struct engine *eng, const char *behaviour)
{
	struct sandbox *sb = evil_box(eng, behaviour);
	struct exec *ex = run(sb, "[\"true\"]");

	(void)turn_until(sb->state == SANDBOX_RUNNING);
	wait_ms(50);
	exec_remove(ex);
	exec_unref(ex);
	return sb;
}

/* Of a command that was removed no more is believed than can be said of one. */
static void test_owed(struct engine *eng)
{
	static const char *const row[] = { "failed twice", "over unstarted", "started failed" };
	struct sandbox *sb;
	struct exec *ex;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		sb = removed_command(eng, row[i]);
		ok(turn_until(sb->state == SANDBOX_QUARANTINED), "%s: is found out", row[i]);
		ok(strstr(sb->why.msg, "never given"), "%s: %s", row[i], sb->why.msg);
		sandbox_remove(sb);
	}
	sb = removed_command(eng, "over removed");
	ex = run(sb, "[\"true\"]");
	ok(turn_until(ex->state == EXEC_DONE), "over removed: the next one is over");
	is_int(ex->result.reason, EXEC_FAILED, "over removed: as the agent has said");
	is_int(sb->state, SANDBOX_RUNNING, "over removed: nothing is held against it");
	exec_unref(ex);
	sandbox_remove(sb);
}

/* No READY: commands wait, and can be ended. */
static void test_silent(struct engine *eng)
{
	struct sandbox *sb = evil_box(eng, "silent");
	struct exec *ex = run(sb, "[\"true\"]"), *other = run(sb, "[\"true\"]");

	ok(ex && other, "silent: takes commands");
	wait_ms(50);
	is_int(ex->state, EXEC_PENDING, "silent: pending");
	is_int(exec_signal(ex, SIGTERM, NULL), 0, "silent: a signal");
	(void)exec_kill(ex, NULL);
	is_int(ex->result.reason, EXEC_KILLED, "silent: kill");
	sandbox_ref(sb);
	(void)sandbox_stop(sb, NULL);
	ok(turn_until(sb->state == SANDBOX_STOPPED), "silent: stop");
	is_int(other->result.reason, EXEC_KILLED, "silent: its command was killed");
	exec_unref(ex);
	exec_unref(other);
	sandbox_remove(sb);
	sandbox_unref(sb);
}

enum { MANY = 400 };

static size_t count_unsent(struct exec **ex)
{
	size_t n = 0;

	for (int i = 0; i < MANY; i++)
		n += ex[i] && !list_empty(&ex[i]->unsent);
	return n;
}

/* Its socket is full: what waits is bounded, and nothing waits for it. */
static void test_deaf(struct engine *eng, struct sandbox *honest)
{
	static struct exec *ex[MANY];
	struct sandbox *sb = evil_box(eng, "deaf");
	int64_t begin = ev_now();
	struct err err = { 0 };
	int r = 0, killed = 0;
	size_t unsent;

	(void)turn_until(sb->state == SANDBOX_RUNNING);
	for (int i = 0; i < MANY; i++)
		ex[i] = run(sb, i % 2 ? "{\"cmd\":\"true\",\"stdin\":\"null\"}"
				      : "{\"cmd\":\"true\",\"stdin\":\"null\",\"timeout_s\":0.3}");
	ok(ev_now() - begin < patience(2) && in_time(honest), "deaf: nobody waits for it");
	unsent = count_unsent(ex);
	ok(unsent > 0 && unsent < MANY, "deaf: %zu of %d commands wait", unsent, MANY);
	for (int i = 0; i < MANY && r == 0; i++)
		for (int sig = 1; sig < 65 && r == 0; sig++)
			r = exec_signal(ex[i], sig, &err);
	is_int(r, -EBUSY, "deaf: too many signals: %s", err.msg);
	begin = ev_now();
	ok(sandbox_kill(sb, NULL) == 0 && ev_now() - begin < patience(1),
	   "deaf: kill does not wait");
	is_int(count_unsent(ex), 0, "deaf: what was not sent is over");
	ok(turn_until(sb->state == SANDBOX_FAILED), "deaf: is found out");
	is_str(sb->why.msg, "its agent does not say what became of a command that was killed",
	       "deaf: why");
	for (int i = 0; i < MANY; i++) {
		killed += ex[i] && ex[i]->result.reason == EXEC_KILLED;
		r = ex[i] && ex[i]->state == EXEC_DONE;
		exec_unref(ex[i]);
	}
	is_int(killed, (long long)unsent, "deaf: the others are lost");
	sandbox_remove(sb);
}

/* It says that it started something, and not that it is over: killed, or out of time. */
static void test_idle(struct engine *eng)
{
	struct sandbox *sb[3] = { evil_box(eng, "idle"), evil_box(eng, "idle started"),
				  evil_box(eng, "idle started") };
	struct exec *ex[3];
	int64_t begin = ev_now();

	for (int i = 0; i < 3; i++)
		ex[i] = run(sb[i], i < 2 ? "[\"true\"]" : "{\"cmd\":\"true\",\"timeout_s\":0.1}");
	(void)turn_until(ex[1]->state == EXEC_RUNNING && ex[2]->state == EXEC_RUNNING);
	(void)exec_kill(ex[0], NULL);
	(void)exec_kill(ex[1], NULL);
	for (int i = 0; i < 3; i++) {
		ok(turn_until(sb[i]->state == SANDBOX_FAILED), "idle %d: is found out", i);
		is_int(ex[i]->result.reason, EXEC_LOST, "idle %d: its command is lost", i);
	}
	ok(ev_now() - begin > 5000000000 && ev_now() - begin < patience(9), "idle: with patience");
	for (int i = 0; i < 3; i++) {
		ok(sandbox_start(sb[i], NULL) == 0 && turn_until(sb[i]->state == SANDBOX_RUNNING),
		   "idle %d: can be started again", i);
		exec_unref(ex[i]);
		sandbox_remove(sb[i]);
	}
}

/* A signal that comes before its command was sent arrives behind it. */
static void test_early_signal(struct engine *eng)
{
	struct sandbox *sb = make_box(eng, "early");
	struct exec *ex = run(sb, "{\"cmd\":\"sleep 1000\"}");

	is_int(ex->state, EXEC_PENDING, "early signal: pending");
	is_int(exec_signal(ex, SIGTERM, NULL), 0, "early signal: sent");
	ok(turn_until(ex->state == EXEC_DONE) && ex->result.signal == SIGTERM,
	   "early signal: arrives");
	exec_unref(ex);
	sandbox_remove(sb);
}

/* An honest agent whose socket is full now and then: nothing is sent twice, killed or lost. */
static void test_full_socket(struct engine *eng)
{
	static struct exec *ex[2 * MANY];
	struct sandbox *sb = make_box(eng, "full");
	size_t n = ARRAY_SIZE(ex), good = 0, killed = 0;

	(void)turn_until(sb->state == SANDBOX_RUNNING);
	for (size_t i = 0; i < n; i++)
		ex[i] = run(sb, "{\"cmd\":\"sleep 1; echo x\",\"stdin\":\"null\"}");
	for (size_t i = 0; i < n; i++) {
		bool fine = ex[i] && turn_until(ex[i]->state == EXEC_DONE) &&
			    ex[i]->result.reason == EXEC_EXITED &&
			    ex[i]->stream[EXEC_STDOUT].size == 2;

		good += fine;
		if (!fine)
			printf("# %zu: state %d, reason %d, %s\n", i,
			       ex[i] ? (int)ex[i]->state : -1,
			       ex[i] ? (int)ex[i]->result.reason : -1,
			       ex[i] && ex[i]->result.error ? ex[i]->result.error : "no error");
		killed += ex[i] && ex[i]->result.reason == EXEC_SIGNALED;
		exec_unref(ex[i]);
	}
	is_int(good, (long long)n, "full socket: all run to their end");
	is_int(killed, 0, "full socket: none is killed");
	sandbox_remove(sb);
}

int main(void)
{
	struct engine *eng;
	struct sandbox *honest;

	engine_test_begin();
	evil_file = built_open("evil-agent");
	good_agent = fcntl(agent_fd, F_DUPFD_CLOEXEC, 0);
	if (evil_file < 0)
		return 1;
	eng = open_engine();
	honest = make_box(eng, "honest");
	(void)turn_until(honest->state == SANDBOX_RUNNING);
	ok(in_time(honest), "an honest one");
	wait_ms(500); /* what is made ahead */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		test_row(eng, honest, i);
	test_past(eng, honest);
	test_owed(eng);
	test_asked_again(eng);
	test_silent(eng);
	test_early_signal(eng);
	test_full_socket(eng);
	test_deaf(eng, honest);
	test_idle(eng);
	eng = test_quarantine(eng);
	engine_close(eng);
	(void)close(evil_file);
	(void)close(good_agent);
	return engine_test_end();
}
