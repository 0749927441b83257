/* What the next hutchd makes of a state directory, also of one that somebody has damaged. */
#include "sandbox/sandbox-internal.h"
#include "tests/unit/engine.h"

static struct sandbox *again(struct engine **eng, const char *id)
{
	engine_close(*eng);
	*eng = open_engine();
	return sandbox_find(*eng, id);
}

/* Numbers that do not fit are not taken: a serial is never used again, and 0 is none. */
static void test_damaged_numbers(struct engine **eng)
{
	static const char *const line[] = {
		"{\"n\":4294967295,\"name\":\"most\",\"num\":0,\"by\":0,\"req\":{\"cmd\":\"x\"}}\n",
		"{\"n\":1e300,\"name\":\"huge\",\"num\":0,\"by\":0,\"req\":{\"cmd\":\"x\"}}\n",
		"{\"n\":-5,\"name\":\"less\",\"num\":0,\"by\":0,\"req\":{\"cmd\":\"x\"}}\n",
		"{\"n\":7,\"name\":\"good\",\"num\":4294967295,\"by\":1e300,\"unique\":-1,"
		"\"req\":{\"cmd\":\"x\"}}\n",
		"{\"n\":7,\"code\":1e300,\"res\":{\"reason\":\"exited\",\"exit_code\":1e300,"
		"\"pid\":-1e300,\"duration_ms\":1e300,\"stdout_bytes\":1e300,"
		"\"usage\":{\"cpu_user_ms\":1e300,\"cpu_sys_ms\":4}}}\n",
		"{\"next\":4294967295,\"num\":1e300}\n",
	};
	struct sandbox *sb = make_box(*eng, "damaged");
	struct exec *ex;

	for (size_t i = 0; i < ARRAY_SIZE(line); i++)
		ok(write(sb->journal->fd, line[i], strlen(line[i])) == (ssize_t)strlen(line[i]),
		   "damage it");
	sb = again(eng, "damaged");
	ok(sb && sb->state == SANDBOX_STOPPED, "damaged: it is there");
	ok(!exec_find(sb, "most") && !exec_find(sb, "huge") && !exec_find(sb, "less"),
	   "damaged: what has no serial is not");
	ex = exec_find(sb, "good");
	ok(ex && ex->result.reason == EXEC_EXITED && ex->result.code == 125 &&
		   ex->result.exit_code == -1 && ex->result.pid == 0 &&
		   ex->result.duration_ms == 0 && ex->result.stream_bytes[EXEC_STDOUT] == 0,
	   "damaged: what does not fit is not known");
	ok(ex && ex->result.usage.cpu_user_ms == USAGE_UNKNOWN && ex->result.usage.cpu_sys_ms == 4,
	   "damaged: nor is a part of the usage");
	is_int(sb->next_exec_serial, 8, "damaged: the next serial");
	is_int(sb->next_exec_number, 1, "damaged: the next number");
	sandbox_remove(sb);
}

int main(int argc, char **argv)
{
	struct engine *eng;

	(void)argc;
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 0;
	}
	if (engine_test_begin(argv[0]))
		return 1;
	eng = open_engine();
	test_damaged_numbers(&eng);
	engine_close(eng);
	return engine_test_end();
}
