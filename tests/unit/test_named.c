/* What a script relies on besides running commands: names, ids, holds, events, ends in time. */
#include "tests/unit/engine.h"

#include "sandbox/events.h"

static int write_to(struct exec *ex, const char *script, struct err *err)
{
	struct exec_request req = { 0 };
	int r = exec_request_script(&req, &ex->request, script, strlen(script), err);

	if (r == 0)
		r = exec_write(ex, &req, err);
	exec_request_done(&req);
	return r;
}

static const struct {
	const char *what, *name;
	int error;
} names[] = {
	{ "a number", "17", EINVAL },
	{ "a dot", ".x", EINVAL },
	{ "a slash", "a/b", EINVAL },
	{ "empty", "", EINVAL },
	{ "one that is there", "build", EEXIST },
};

static void test_names(struct sandbox *sb)
{
	struct exec *ex = NULL, *other = NULL;
	struct stream_reader rd;
	struct err err = { 0 };
	char text[64];

	ok(exec_mkdir(sb, "build", 0, &ex, &err) == 0, "mkdir: %s", err.msg);
	ok(ex->unwritten && ex->state == EXEC_PENDING && !exec_last(sb, 0),
	   "mkdir: pending, and last does not move");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		is_int(-exec_mkdir(sb, names[i].name, 0, &other, &err), names[i].error,
		       "mkdir: %s: %s", names[i].what, err.msg);
	stream_open(&rd, &ex->stream[EXEC_STDOUT]);
	is_int(stream_read(&rd, text, sizeof(text), 0), -EAGAIN,
	       "unwritten: its streams are not at their end");
	stream_close(&rd);
	ok(exec_set(ex, "env.WHO", "world of many words", &err) == 0 &&
		   exec_set(ex, "timeout_s", "20", NULL) == 0,
	   "set: %s", err.msg);
	is_int(exec_set(ex, "colour", "red", &err), -EINVAL, "set: %s", err.msg);
	ok(write_to(ex, "echo hello $WHO", &err) == 0, "written: %s", err.msg);
	ok(exec_last(sb, 0) == ex, "written: last moves");
	is_int(write_to(ex, "echo hello $WHO", &err), 0, "written again: the same runs nothing");
	is_int(write_to(ex, "echo other", &err), -EEXIST, "another is refused: %s", err.msg);
	is_int(exec_set(ex, "cwd", "/tmp", &err), -EBUSY, "set: too late: %s", err.msg);
	ok(turn_until(ex->state == EXEC_DONE), "it ends");
	read_all(&ex->stream[EXEC_STDOUT], text, sizeof(text));
	is_str(text, "hello world of many words\n", "it ran once, with what was set");
	is_int(write_to(ex, "echo hello $WHO", &err), 0, "the same when it is over: nothing runs");
}

static void test_ids(struct sandbox *sb)
{
	struct exec *a = run(sb, "{\"cmd\":\"echo a\",\"id\":\"once\"}");
	struct exec *b = run(sb, "{\"id\":\"once\",\"cmd\":\"echo a\"}");
	struct exec *c = run(sb, "{\"cmd\":\"echo b\",\"id\":\"once\"}");
	char text[64];

	ok(a && a == b, "id: the same request is the same command");
	ok(!c, "id: another is refused");
	is_str(a->name, "once", "id: is the name");
	ok(turn_until(a->state == EXEC_DONE), "id: it ends");
	read_all(&a->stream[EXEC_STDOUT], text, sizeof(text));
	is_str(text, "a\n", "id: it ran once");
	ok(sandbox_set_keep(sb, 0, NULL) == 0 && exec_find(sb, "once") == a,
	   "keep 0: a command with an id stays");
	exec_unref(b);
	exec_unref(a);
}

static void test_keep(struct sandbox *sb)
{
	ok(sandbox_set_keep(sb, 3, NULL) == 0, "keep: set");
	is_int(sandbox_set_keep(sb, 100001, NULL), -EINVAL, "keep: not without end");
	for (int i = 0; i < 12; i++) {
		struct exec *ex = run(sb, "[\"true\"]");

		(void)turn_until(ex->state == EXEC_DONE);
		exec_unref(ex);
	}
	ok(turn_until(sb->exec_finished <= 3), "keep: the oldest go, %zu are there",
	   sb->exec_finished);
	(void)sandbox_set_keep(sb, 1000, NULL);
}

static void test_hold(struct engine *eng)
{
	struct sandbox *sb = make_box(eng, "held");
	struct exec *ex;

	(void)turn_until(sb->state == SANDBOX_RUNNING);
	sandbox_ref(sb);
	ex = run(sb, "{\"cmd\":\"sleep 1000\"}");
	exec_hold(ex);
	exec_hold(ex);
	exec_unhold(ex);
	ok(!ex->killed, "hold: one handle of two");
	exec_unhold(ex);
	ok(turn_until(ex->state == EXEC_DONE) && ex->result.reason == EXEC_KILLED,
	   "hold: the last ends the command");
	exec_unref(ex);
	ok(sandbox_hold(sb, NULL) == 0 && sandbox_find(eng, "held"), "hold: a sandbox");
	sandbox_unhold(sb);
	ok(!sandbox_find(eng, "held") && turn_until(sandbox_gone(sb)), "hold: the last removes it");
	sandbox_unref(sb);
}

static void test_time(struct engine *eng)
{
	struct spec spec = { .id = "brief", .ttl_s = 0.3 },
		    idle = { .id = "idle", .idle_timeout_s = 0.3 };
	struct sandbox *sb = NULL;
	struct exec *ex;

	ok(sandbox_create(eng, &spec, 0, 0, &sb, NULL) == 0, "ttl: made");
	ok(turn_until(!sandbox_find(eng, "brief")), "ttl: it goes");
	ok(sandbox_create(eng, &idle, 0, 0, &sb, NULL) == 0, "idle: made");
	(void)turn_until(sb->state == SANDBOX_RUNNING);
	ex = run(sb, "{\"cmd\":\"sleep 1\"}");
	ok(turn_until(ex->state == EXEC_DONE) && sb->state == SANDBOX_RUNNING,
	   "idle: not while a command runs");
	ok(turn_until(sb->state == SANDBOX_STOPPED), "idle: then it stops");
	exec_unref(ex);
	sandbox_remove(sb);
}

static void test_restart(void)
{
	struct engine *eng = open_engine();
	struct sandbox *sb = sandbox_find(eng, "box");
	struct exec *ex;

	ok(sb && sb->keep == 1000, "restart: keep");
	ok(!sandbox_find(eng, "kept-by-handle"), "restart: what was held is gone");
	ex = exec_find(sb, "later");
	ok(ex && ex->unwritten && ex->request.cwd && strcmp(ex->request.cwd, "/tmp") == 0,
	   "restart: a node without a command, and what was set");
	ex = exec_find(sb, "once");
	ok(ex && ex->state == EXEC_DONE && ex->request.id, "restart: a command with an id");
	is_int((long long)sb->ids_count, 1, "restart: it counts");
	sandbox_remove(sb);
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
	(void)turn_until(sb->state == SANDBOX_RUNNING);
	test_names(sb);
	test_ids(sb);
	test_keep(sb);
	test_hold(eng);
	test_time(eng);
	ok(exec_mkdir(sb, "later", 0, &ex, NULL) == 0 && exec_set(ex, "cwd", "/tmp", NULL) == 0,
	   "a node for after the restart");
	ok(sandbox_hold(make_box(eng, "kept-by-handle"), NULL) == 0, "one that is held");
	engine_close(eng);
	test_restart();
	return engine_test_end();
}
