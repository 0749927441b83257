/* What the next hutchd makes of a state directory, also of one that somebody has damaged. */
#include "base/file.h"
#include "sandbox/sandbox-internal.h"
#include "tests/unit/engine.h"

static struct sandbox *again(struct engine **eng, const char *id)
{
	engine_close(*eng);
	*eng = open_engine();
	return sandbox_find(*eng, id);
}

/* Behind what the journal holds, as if a former hutchd had written it. */
static bool add_to_journal(struct engine *eng, struct sandbox *sb, const char *text, size_t len)
{
	char path[64];
	auto_close int fd = -1;

	(void)disk_wait(eng->disk, 20000);
	(void)snprintf(path, sizeof(path), "sandboxes/%u/journal", sb->serial);
	fd = openat(eng->store.fd, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	sb->journal->size += len;
	return fd >= 0 && write_all(fd, text, len) == 0;
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
		ok(add_to_journal(*eng, sb, line[i], strlen(line[i])), "damage it");
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

/* --- thousands of nodes, as a restart brings them back --- */

enum { NODES = 1500, VERY_MANY = 60000 };

static bool make_file(int at, const char *path)
{
	auto_close int fd = openat(at, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return write_all(fd, "x", 1) == 0;
}

static struct sandbox *many(struct engine **eng, const char *id, unsigned nodes)
{
	struct sandbox *sb = make_box(*eng, id);
	auto_buf struct buf text = { 0 };
	char path[128];
	int spools = 0;

	for (unsigned i = 1; i <= nodes; i++)
		(void)buf_printf(&text,
				 "{\"n\":%u,\"name\":\"%u\",\"num\":%u,\"by\":0,\"req\":{\"cmd\":"
				 "\"x\"}}\n{\"n\":%u,\"code\":0,\"res\":{\"reason\":\"exited\"}}\n",
				 i, i, i, i);
	(void)disk_wait((*eng)->disk, 20000);
	/* Some have written something: files are slow to make where others were just removed. */
	for (int i = 10; i <= NODES; i += 10) {
		(void)snprintf(path, sizeof(path), "sandboxes/%u/spool/%d.out", sb->serial, i);
		spools += make_file((*eng)->store.fd, path);
	}
	is_int(spools, NODES / 10, "%s: spools", id);
	sb->keep = EXEC_KEEP_MAX;
	ok(record_write(sb, NULL) == 0 && add_to_journal(*eng, sb, text.data, text.len),
	   "%s: its journal", id);
	sb = again(eng, id);
	ok(sb && sb->exec_count == nodes, "%s: %u nodes", id, nodes);
	return sb;
}

/* Turns of the loop until there is nothing more to do; the longest of them in microseconds. */
static long longest_turn(const struct engine *eng, size_t nodes)
{
	int64_t longest = 0, end = ev_now() + patience(20);

	while (eng->exec_count > nodes && ev_now() < end) {
		int64_t begin = ev_now();

		(void)ev_turn(&loop, 0);
		if (ev_now() - begin > longest)
			longest = ev_now() - begin;
	}
	return (long)(longest / 1000);
}

/* The name is free at once; nobody waits for the rest. `runs`: with a process 1. */
static void test_removed(struct engine **eng, bool runs)
{
	struct sandbox *sb = many(eng, "many", NODES);
	char path[64];

	if (runs)
		ok(sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_RUNNING),
		   "many: runs");
	(void)snprintf(path, sizeof(path), "%s/sandboxes/%u", dir, sb->serial);
	sandbox_ref(sb);
	sandbox_remove(sb);
	ok(!sandbox_find(*eng, "many"), "many: the name is gone at once");
	ok(turn_until(sandbox_gone(sb)) && sb->state == SANDBOX_STOPPED, "many: removed");
	ok(sb->exec_count > NODES / 2, "many: its nodes were not all waited for");
	printf("# longest turn: %ld us\n", longest_turn(*eng, 0));
	is_int((long)sb->exec_count, 0, "many: they go");
	ok(turn_until(access(path, F_OK) < 0), "many: the directory too");
	is_int((long)(*eng)->exec_count, 0, "many: and count for nobody");
	is_int(sb->refs, 1, "many: nobody holds it but we");
	sandbox_unref(sb);
}

/* An engine that ends does not leave to the loop what it was about to do. */
static void test_removed_closed(struct engine **eng)
{
	struct sandbox *sb = many(eng, "many", NODES);

	sandbox_ref(sb);
	sandbox_remove(sb);
	ok(sb->exec_count > NODES / 2, "closed: its nodes are there still");
	engine_close(*eng);
	ok(list_empty(&sb->execs) && sb->refs == 1, "closed: they are not");
	ok(list_empty(&loop.tasks), "closed: nothing is to be done any more");
	sandbox_unref(sb);
	*eng = open_engine();
	ok(!sandbox_find(*eng, "many"), "closed: it is not there again");
}

static int count_spools(const struct sandbox *sb)
{
	int spools = 0;

	for (int i = 1; i <= NODES; i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/sandboxes/%u/spool/%d.out", dir, sb->serial,
			       i);
		spools += access(path, F_OK) == 0;
	}
	return spools;
}

/* Nor does anybody wait for what is not kept any more. */
static void test_keep(struct engine **eng)
{
	struct sandbox *sb = many(eng, "keep", NODES);

	ok(sandbox_set_keep(sb, 10, NULL) == 0, "keep: 10");
	ok(sb->exec_count > NODES / 2, "keep: not all are waited for");
	printf("# longest turn: %ld us\n", longest_turn(*eng, 10));
	is_int((long)sb->exec_count, 10, "keep: but they go");
	ok(exec_find(sb, "1500") && exec_find(sb, "1491"), "keep: the oldest first");
	(void)disk_wait((*eng)->disk, 20000);
	is_int(count_spools(sb), 1, "keep: with what they had written");
	sb = again(eng, "keep");
	is_int((long)sb->exec_count, 10, "keep: and do not come back");
	sandbox_remove(sb);
}

/* --- the node behind one that is gone --- */

static struct exec *slow_next(struct sandbox *sb, uint32_t after)
{
	struct exec *ex;

	list_for_each (ex, &sb->execs, link)
		if (ex->serial > after)
			return ex;
	return NULL;
}

static size_t wrong_next(struct sandbox *sb)
{
	size_t wrong = 0;

	for (uint32_t after = 0; after < NODES + 300; after++)
		wrong += exec_next(sb, after) != slow_next(sb, after);
	return wrong + (exec_next(sb, UINT32_MAX) != NULL) +
	       (exec_next(sb, UINT32_MAX - 9) != NULL);
}

static void test_next(struct engine **eng)
{
	struct sandbox *sb = many(eng, "next", NODES);

	is_int((long)wrong_next(sb), 0, "next: all are there");
	for (uint32_t n = 2; n <= NODES; n += n % 3 + 1)
		exec_remove(exec_find_serial(sb, n));
	is_int((long)wrong_next(sb), 0, "next: some are gone");
	for (uint32_t n = 1000; n <= 2000; n++)
		if (exec_find_serial(sb, n))
			exec_remove(exec_find_serial(sb, n));
	is_int((long)wrong_next(sb), 0, "next: a thousand together are gone");
	while (!list_empty(&sb->execs) && exec_next(sb, 300))
		exec_remove(exec_next(sb, 300));
	is_int((long)wrong_next(sb), 0, "next: all from one on");
	while (!list_empty(&sb->execs))
		exec_remove(list_first(&sb->execs, struct exec, link));
	is_int((long)wrong_next(sb), 0, "next: all");
	sandbox_remove(sb);
}

/* Who lists very many, and removes what he has read to, a page at a time. */
static void test_next_many(struct engine **eng)
{
	struct sandbox *sb = many(eng, "list", VERY_MANY);
	struct exec *ex;
	uint32_t at = 0;
	int64_t begin = ev_now();
	size_t n = 0;

	while ((ex = exec_next(sb, at))) {
		at = ex->serial;
		if (++n % 20 == 0)
			exec_remove(ex);
	}
	is_int((long)n, 60000, "list: all were seen");
	ok(ev_now() - begin < INT64_C(2000000000), "list: %lld ms",
	   (long long)(ev_now() - begin) / 1000000);
	sandbox_remove(sb);
	(void)longest_turn(*eng, 0);
}

/* Lines that somebody has put into another order are sorted all the same. */
static void test_order(struct engine **eng)
{
	static const int serial[] = { 5, 9, 2, 7 };
	struct sandbox *sb = make_box(*eng, "order");
	uint32_t at = 0;
	auto_buf struct buf seen = { 0 };
	char line[128];

	for (size_t i = 0; i < ARRAY_SIZE(serial); i++) {
		(void)snprintf(line, sizeof(line),
			       "{\"n\":%d,\"name\":\"%d\",\"num\":%d,\"by\":0,"
			       "\"req\":{\"cmd\":\"x\"}}\n",
			       serial[i], serial[i], serial[i]);
		ok(add_to_journal(*eng, sb, line, strlen(line)), "order: a line");
	}
	sb = again(eng, "order");
	for (struct exec *ex; sb && (ex = exec_next(sb, at)); at = ex->serial)
		(void)buf_printf(&seen, "%s ", ex->name);
	is_str(seen.data, "2 5 7 9 ", "order: sorted");
	sandbox_remove(sb);
}

int main(void)
{
	struct engine *eng;

	engine_test_begin();
	eng = open_engine();
	test_damaged_numbers(&eng);
	test_removed(&eng, false);
	test_removed(&eng, true);
	test_removed_closed(&eng);
	test_keep(&eng);
	test_next(&eng);
	test_next_many(&eng);
	test_order(&eng);
	engine_close(eng);
	return engine_test_end();
}
