/* The engine without a tree: sandboxes and commands, their ends, and what a restart finds. */
#include "sandbox/cgroup.h"
#include "tests/unit/engine.h"

static const struct {
	const char *request, *status;
	int code;
	const char *out, *err;
} rows[] = {
	{ "[\"true\"]", "exited 0", 0, "", "" },
	{ "{\"cmd\":\"echo out; echo err >&2; exit 7\"}", "exited 7", 7, "out\n", "err\n" },
	{ "{\"cmd\":\"kill -SEGV $$\"}", "signaled SIGSEGV", 139, "", "" },
	{ "{\"cmd\":\"sleep 20\",\"timeout_s\":0.2}", "timed_out", 124, "", "" },
	{ "[\"no-such-program\"]",
	  "failed: 'no-such-program': no such program in the sandbox's PATH", 127, "", "" },
	{ "[\"/etc/passwd\"]", "failed: execute '/etc/passwd': Permission denied", 126, "", "" },
	{ "{\"cmd\":[\"pwd\"],\"cwd\":\"/nowhere\"}",
	  "failed: change to the directory '/nowhere': No such file or directory", 126, "", "" },
	{ "{\"cmd\":[\"id\"],\"user\":\"nosuchuser\"}",
	  "failed: there is no user 'nosuchuser' in the sandbox", 126, "", "" },
	{ "{\"cmd\":\"echo $A $HOME $PWD $LANG\",\"env\":{\"A\":\"1\"}}", "exited 0", 0,
	  "1 /root /root C.UTF-8\n", "" },
	{ "{\"cmd\":\"cat; echo end\",\"stdin\":\"null\"}", "exited 0", 0, "end\n", "" },
	{ "{\"cmd\":\"echo a; echo b >&2\",\"stderr\":\"merge\"}", "exited 0", 0, "a\nb\n", "" },
	{ "{\"cmd\":\"echo a; echo b >&2\",\"stdout\":\"null\"}", "exited 0", 0, "", "b\n" },
	{ "{\"cmd\":\"#!/usr/bin/perl\\nprint qq(perl $0);\"}", "exited 0", 0, NULL, "" },
	{ "{\"cmd\":\"echo x > /dev/stderr\",\"user\":\"1000:1000\"}", "exited 0", 0, "", "x\n" },
};

static void test_commands(struct sandbox *sb)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct exec *ex = run(sb, rows[i].request);
		auto_buf struct buf status = { 0 };
		char text[256];

		if (!ex || !turn_until(ex->state == EXEC_DONE)) {
			ok(false, "%s: never done", rows[i].request);
			continue;
		}
		(void)exec_status_print(ex, &status);
		is_str(status.data, rows[i].status, "%s: status", rows[i].request);
		is_int(ex->result.code, rows[i].code, "%s: code", rows[i].request);
		read_all(&ex->stream[EXEC_STDOUT], text, sizeof(text));
		if (rows[i].out)
			is_str(text, rows[i].out, "%s: stdout", rows[i].request);
		read_all(&ex->stream[EXEC_STDERR], text, sizeof(text));
		is_str(text, rows[i].err, "%s: stderr", rows[i].request);
		exec_unref(ex);
	}
}

static void test_stdin(struct sandbox *sb)
{
	struct exec *ex = run(sb, "[\"cat\"]");
	char text[64];

	stdin_open(ex, false);
	is_int(stdin_write(ex, "hello", 5), 5, "stdin: taken");
	ok(turn_until(ex->stream[EXEC_STDOUT].size == 5), "stdin: comes back");
	ok(stream_ready(&ex->stream[EXEC_STDOUT], 5) == 0, "stdout: not at its end yet");
	stdin_close(ex);
	is_int(stdin_write(ex, "x", 1), -EPIPE, "stdin: after EOF");
	read_all(&ex->stream[EXEC_STDOUT], text, sizeof(text));
	is_str(text, "hello", "stdout: what was written");
	exec_unref(ex);
}

static void test_input(struct sandbox *sb)
{
	struct exec *ex = run(sb, "[\"sleep\",\"100\"]");
	static char bytes[65536];
	uint64_t full;
	struct err err = { 0 };

	is_int(input_write(ex, "in", 2), 2, "input: taken");
	is_int(ex->in_taken, 2, "input: counted");
	ok(!ex->in_armed, "input: arms nothing");
	while (input_write(ex, bytes, sizeof(bytes)) > 0)
		;
	full = ex->in_taken;
	ok(full > 2 && stdin_ready(ex) == 0, "the pipe is full");
	stdin_open(ex, false);
	is_int(stdin_write(ex, "x", 1), -EAGAIN, "stdin: the pipe is full");
	is_int(ex->in_taken, full, "stdin: nothing was taken");
	stdin_close(ex);
	ok(ex->in.fd >= 0, "stdin: a writer of whom nothing was taken ends nothing");
	stdin_open(ex, true);
	stdin_close(ex);
	is_int(input_write(ex, "x", 1), -EPIPE, "input: after EOF");
	is_int(ex->in_taken, full, "input: still counted after EOF");
	ok(exec_kill(ex, &err) == 0, "kill: %s", err.msg);
	ok(turn_until(ex->state == EXEC_DONE), "it ends");
	exec_unref(ex);
}

static void test_ends(struct engine *eng, struct sandbox *sb)
{
	struct exec *ex = run(sb, "{\"cmd\":\"echo x; sleep 1000\"}");
	struct exec *other = run(sb, "{\"cmd\":\"sleep 1000\"}");
	struct exec *removed = run(sb, "{\"cmd\":\"sleep 1000\"}");

	ok(turn_until(ex->stream[EXEC_STDOUT].size == 2), "a command that stays");
	ok(exec_kill(ex, NULL) == 0 && turn_until(ex->state == EXEC_DONE), "kill: ends it");
	is_int(ex->result.reason, EXEC_KILLED, "kill: is the reason");
	exec_remove(removed);
	ok(removed->state == EXEC_DONE && removed->removed, "remove: told at once");
	ok(sandbox_stop(sb, NULL) == 0 && turn_until(sandbox_gone(sb)), "stop: ends process 1");
	is_int(sb->state, SANDBOX_STOPPED, "stop: state");
	is_int(other->result.reason, EXEC_KILLED, "stop: its commands are killed");
	ok(!run(sb, "[\"true\"]"), "stopped: takes no command");
	ok(sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_RUNNING), "start");
	exec_unref(ex);
	exec_unref(other);
	exec_unref(removed);
	(void)eng;
}

/* All its commands end at once, and of those that were over more are kept than may be. */
static void test_stop_over_keep(struct engine *eng)
{
	struct sandbox *sb = make_box(eng, "few");
	struct exec *ex;

	ok(turn_until(sb->state == SANDBOX_RUNNING) && sandbox_set_keep(sb, 1, NULL) == 0, "keep");
	exec_unref(run(sb, "{\"cmd\":\"sleep 1000\"}"));
	ex = run(sb, "[\"true\"]");
	ok(turn_until(ex->state == EXEC_DONE && ex->stream[EXEC_STDOUT].ended && !ex->group),
	   "keep: one is over, beside one that runs");
	exec_unref(ex);
	exec_unref(run(sb, "{\"cmd\":\"sleep 1000\"}"));
	ok(sandbox_stop(sb, NULL) == 0 && turn_until(sandbox_gone(sb)), "keep: all are stopped");
	ok(turn_until(sb->exec_count == 1), "keep: one stays");
	sandbox_remove(sb);
}

/* A script of so many blanks. */
static int run_long(struct sandbox *sb, size_t len, const char *id, struct exec **ret,
		    struct err *err)
{
	struct exec_request req = { 0 };
	auto_free char *text = malloc(len);
	int r;

	memset(text, ' ', len);
	r = exec_request_script(&req, NULL, text, len, err);
	req.id = id ? strdup(id) : NULL;
	if (r == 0)
		r = exec_create(sb, &req, ret, err);
	exec_request_done(&req);
	return r;
}

/* Long commands are kept as long as there is room for them. */
static void test_long_requests(struct engine *eng)
{
	enum { LONG = 1000000, KEPT = (64 << 20) / LONG, N = KEPT + 20 };
	struct sandbox *sb = make_box(eng, "long");
	struct err err = { 0 };
	int r = 0, n, good = 0;
	struct exec *ex;
	char id[16];

	for (int i = 0; i < N; i++)
		good += run_long(sb, LONG, NULL, &ex, NULL) == 0 &&
			turn_until(ex->state == EXEC_DONE);
	is_int(good, N, "long: they run");
	ok(turn_until(sb->exec_count <= KEPT), "long: of those that are over some stay");
	(void)snprintf(id, sizeof(id), "%d", N);
	ok(exec_find(sb, id) && !exec_find(sb, "1"), "long: the newest");
	for (n = 0; n < 400 && r == 0; n++) {
		(void)snprintf(id, sizeof(id), "id-%d", n);
		r = run_long(sb, LONG, id, &ex, &err);
	}
	is_int(r, -EDQUOT, "long: those with an id stay, so there is an end");
	ok(n > 150 && n < 270, "long: after %d: %s", n, err.msg);
	is_int(exec_mkdir(sb, "short", 0, &ex, NULL), 0, "long: a short one has room still");
	sandbox_ref(sb);
	sandbox_remove(sb);
	ok(turn_until(sandbox_gone(sb) && !sb->request_bytes && !sb->finished_bytes),
	   "long: then nothing is counted");
	sandbox_unref(sb);
}

/* Whoever has a handle of what was removed can still ask for things. */
static void test_removed(struct engine *eng)
{
	struct sandbox *sb = sandbox_ref(make_box(eng, "gone"));
	struct exec *ex;

	ok(turn_until(sb->state == SANDBOX_RUNNING), "removed: it ran");
	ok(exec_mkdir(sb, "named", 0, &ex, NULL) == 0, "removed: a node");
	exec_ref(ex);
	exec_remove(ex);
	is_int(exec_set(ex, "env.A", "b", NULL), -ESRCH, "removed: set");
	exec_unref(ex);
	sandbox_remove(sb);
	is_int(sandbox_start(sb, NULL), -ESRCH, "removed: start, while it ends");
	ok(turn_until(sandbox_gone(sb)), "removed: gone");
	is_int(sandbox_start(sb, NULL), -ESRCH, "removed: start");
	is_int(sandbox_set_keep(sb, 5, NULL), -ESRCH, "removed: keep");
	is_int(sandbox_stop(sb, NULL), 0, "removed: stop, which it is");
	sandbox_unref(sb);
}

static void test_many(struct sandbox *sb)
{
	enum { N = 60 };
	struct exec *ex[N];
	int good = 0;

	for (int i = 0; i < N; i++)
		ex[i] = run(sb, "{\"cmd\":\"echo hello\"}");
	for (int i = 0; i < N; i++) {
		good += ex[i] && turn_until(ex[i]->state == EXEC_DONE) && ex[i]->result.code == 0 &&
			ex[i]->stream[EXEC_STDOUT].size == 6;
		exec_unref(ex[i]);
	}
	is_int(good, N, "many at once: all with their output at the result");
}

/* What a command starts is killed with it, whatever it did to get away. */
static const struct {
	const char *what, *request;
	bool by_deadline;
} escapes[] = {
	{ "setsid", "{\"cmd\":\"setsid sleep 1000 & echo x; sleep 1000\"}", false },
	{ "double fork",
	  "{\"cmd\":\"(setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo x; sleep 1000\"}", false },
	{ "setsid and a deadline",
	  "{\"cmd\":\"setsid sleep 1000 & echo x; sleep 1000\",\"timeout_s\":0.3}", true },
	{ "after the leader", "{\"cmd\":\"setsid sleep 1000 & echo x\"}", false },
	/* None lives long enough to be met by its number. */
	{ "a fork storm",
	  "{\"cmd\":\"f() { sleep 0.01; f & }; echo x; for i in 1 2 3 4; do f & done; sleep "
	  "1000\"}",
	  false },
};

/* Most machines have one kind of control groups, some both. */
static bool has_groups(const char *which)
{
	auto_close int state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cgroups set;
	struct err err = { 0 };

	if (cgroups_init(&set, &loop, which, state, &err) < 0) {
		ok(true, "%s # SKIP %s", which, err.msg);
		return false;
	}
	cgroups_done(&set);
	return true;
}

static void test_escapes(const char *which)
{
	struct engine *eng;
	struct sandbox *sb;

	if (!has_groups(which))
		return;
	kind = which;
	eng = open_engine();
	sb = make_box(eng, which);
	(void)turn_until(sb->state != SANDBOX_CREATING);
	for (size_t i = 0; i < ARRAY_SIZE(escapes); i++) {
		struct exec *ex = run(sb, escapes[i].request);

		ok(turn_until(ex->stream[EXEC_STDOUT].size == 2), "%s: %s: runs", which,
		   escapes[i].what);
		if (!escapes[i].by_deadline)
			ok(exec_kill(ex, NULL) == 0, "%s: %s: kill", which, escapes[i].what);
		ok(turn_until(ex->state == EXEC_DONE && ex->stream[EXEC_STDOUT].ended &&
			      !ex->group),
		   "%s: %s: nothing is left", which, escapes[i].what);
		exec_unref(ex);
	}
	sandbox_remove(sb);
	engine_close(eng);
	kind = "auto";
}

static void test_restart(void)
{
	struct engine *eng = open_engine();
	struct sandbox *sb = sandbox_find(eng, "box");
	struct exec *ex;
	char text[64];

	ok(sb && sb->state == SANDBOX_STOPPED, "restart: it is there, stopped");
	ex = sb ? exec_find(sb, "2") : NULL;
	ok(ex && ex->state == EXEC_DONE && ex->result.code == 7, "restart: a result");
	if (ex) {
		read_all(&ex->stream[EXEC_STDOUT], text, sizeof(text));
		is_str(text, "out\n", "restart: a stream");
	}
	ex = sb ? exec_last(sb, 0) : NULL;
	ok(ex && ex->result.reason == EXEC_LOST, "restart: what ran is lost");
	if (sb) {
		ok(sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_RUNNING),
		   "restart: it starts again");
		ex = run(sb, "{\"cmd\":\"cat /root/kept\"}");
		ok(ex && turn_until(ex->state == EXEC_DONE), "restart: it runs commands");
		read_all(&ex->stream[EXEC_STDOUT], text, sizeof(text));
		is_str(text, "kept\n", "restart: its layer was kept");
		exec_unref(ex);
		sandbox_ref(sb);
		sandbox_remove(sb);
		ok(!sandbox_find(eng, "box"), "remove: the name is free at once");
		ok(turn_until(sandbox_gone(sb)), "remove: process 1 goes");
		sandbox_unref(sb);
	}
	engine_close(eng);
}

int main(void)
{
	struct engine *eng;
	struct sandbox *sb;
	struct exec *ex;

	engine_test_begin();
	eng = open_engine();
	sb = make_box(eng, "box");
	ok(turn_until(sb->state != SANDBOX_CREATING), "box: created");
	is_str(sb->why.msg, "", "box: without a fault");
	test_commands(sb);
	test_stdin(sb);
	test_input(sb);
	test_many(sb);
	test_stop_over_keep(eng);
	test_removed(eng);
	test_long_requests(eng);
	ex = run(sb, "{\"cmd\":\"echo kept > /root/kept\"}");
	ok(turn_until(ex->state == EXEC_DONE), "layer: written");
	exec_unref(ex);
	test_ends(eng, sb);
	exec_unref(run(sb, "{\"cmd\":\"sleep 1000\"}"));
	engine_close(eng);
	test_restart();
	test_escapes("v2");
	test_escapes("v1");
	return engine_test_end();
}
