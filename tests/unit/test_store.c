/* The state directory: serials that are never used twice, the lock, the journal's memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/sandbox-internal.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/hutch-test-XXXXXX";

static int open_store(struct store *st, struct err *err)
{
	return store_open(st, &(struct store_config){ .dir = dir }, err);
}

static void put(const char *name, const char *text)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)file_write(fd, name, 0600, text, strlen(text), NULL);
}

static void test_serials(void)
{
	struct store st;
	struct err err = { 0 };
	uint32_t first, second, n = 0;
	uint64_t secret;

	ok(open_store(&st, &err) == 0, "store: opens: %s", err.msg);
	secret = st.secret;
	ok(secret != 0, "store: has a secret");
	ok(store_new_serial(&st, &first, NULL) == 0 && first == 1, "store: serials begin at 1");
	for (int i = 0; i < 200; i++)
		(void)store_new_serial(&st, &n, NULL);
	is_int(n, 201, "store: and count");
	store_close(&st);
	ok(open_store(&st, NULL) == 0 && st.secret == secret, "store: the secret stays");
	ok(store_new_serial(&st, &second, NULL) == 0 && second > n,
	   "store: after a restart no serial comes again");
	store_close(&st);
}

static void test_end_of_serials(void)
{
	struct store st;
	struct err err = { 0 };
	uint32_t n = 0;

	put("serial", "134217727\n");
	ok(open_store(&st, NULL) == 0 && store_new_serial(&st, &n, NULL) == 0 && n == 134217727,
	   "store: the last serial is 2^27 - 1");
	is_int(store_new_serial(&st, &n, &err), -ENOSPC, "store: then there is none: %s", err.msg);
	store_close(&st);
	put("serial", "many\n");
	is_int(open_store(&st, &err), -EINVAL, "store: a damaged serial is no zero: %s", err.msg);
	put("serial", "134217729\n");
	is_int(open_store(&st, &err), -EINVAL, "store: nor one that is out of range");
	put("serial", "1000\n");
}

static void test_lock(void)
{
	struct store a, b;
	struct err err = { 0 };

	ok(open_store(&a, NULL) == 0, "store: one");
	is_int(open_store(&b, &err), -EBUSY, "store: a second is refused: %s", err.msg);
	store_close(&a);
	ok(open_store(&b, NULL) == 0, "store: until the first is gone");
	store_close(&b);
}

/* --- the journal --- */

static const struct {
	const char *what, *text;
	size_t nodes;
	const char *status; /* of the node with serial 1, "": it is not there */
	uint32_t next;
} journals[] = {
	{ "empty", "", 0, "", 1 },
	{ "one that was over",
	  "{\"n\":1,\"name\":\"1\",\"num\":1,\"by\":0,\"unique\":9,\"at\":\"2026-01-01T00:00:00."
	  "000Z\","
	  "\"req\":{\"cmd\":[\"a\"]}}\n"
	  "{\"n\":1,\"code\":3,\"res\":{\"exit_code\":3,\"reason\":\"exited\",\"signal\":\"\"}}\n",
	  1, "exited 3", 2 },
	{ "one that was not",
	  "{\"n\":1,\"name\":\"1\",\"num\":1,\"by\":0,\"unique\":9,\"at\":\"\",\"req\":{\"cmd\":"
	  "\"a\"}}\n",
	  1, "lost", 2 },
	{ "cut short",
	  "{\"n\":1,\"name\":\"1\",\"num\":1,\"by\":0,\"unique\":9,\"at\":\"\",\"req\":{\"cmd\":"
	  "\"a\"}}\n"
	  "{\"n\":1,\"code\":0,\"res\":{\"exit_c",
	  1, "lost", 2 },
	{ "removed, but its number is not used again",
	  "{\"n\":1,\"name\":\"1\",\"num\":1,\"by\":0,\"unique\":9,\"at\":\"\",\"req\":{\"cmd\":"
	  "\"a\"}}\n"
	  "{\"n\":1,\"rm\":true}\n",
	  0, "", 2 },
	{ "rewritten", "{\"next\":7,\"num\":5}\n", 0, "", 7 },
	{ "a line that is none", "hello\n{\"next\":7,\"num\":5}\n", 0, "", 7 },
	{ "a name that is none",
	  "{\"n\":1,\"name\":\"../x\",\"num\":1,\"by\":0,\"req\":{\"cmd\":\"a\"}}\n", 0, "", 1 },
	{ "a request of another version",
	  "{\"n\":1,\"name\":\"1\",\"num\":1,\"by\":0,\"at\":\"\",\"req\":{\"cmd\":\"a\",\"zz\":1}}"
	  "\n",
	  1, "lost", 2 },
	{ "killed by a signal",
	  "{\"n\":1,\"name\":\"1\",\"num\":1,\"by\":0,\"at\":\"\",\"req\":{\"cmd\":\"a\"}}\n"
	  "{\"n\":1,\"code\":139,\"res\":{\"exit_code\":-1,\"reason\":\"signaled\",\"signal\":"
	  "\"SIGSEGV\"}}\n",
	  1, "signaled SIGSEGV", 2 },
};

static void load_journal(struct engine *eng, size_t i)
{
	struct sandbox *sb = sandbox_new(eng, 1);
	auto_buf struct buf status = { 0 };
	struct err err = { 0 };
	struct exec *ex;

	(void)mkdirat(eng->store.fd, "sandboxes/1", 0700);
	put("sandboxes/1/journal", journals[i].text);
	is_int(journal_open(sb, &err), 0, "journal: %s: opens %s", journals[i].what, err.msg);
	is_int((long long)sb->exec_count, (long long)journals[i].nodes, "journal: %s: nodes",
	       journals[i].what);
	is_int(sb->next_exec_serial, journals[i].next, "journal: %s: next serial",
	       journals[i].what);
	ex = exec_find_serial(sb, 1);
	if (ex)
		(void)exec_status_print(ex, &status);
	is_str(status.data ? status.data : "", journals[i].status, "journal: %s: status",
	       journals[i].what);
	eng->closing = true; /* nothing is unlinked */
	while (!list_empty(&sb->execs))
		exec_drop(list_first(&sb->execs, struct exec, link));
	sandbox_unref(sb);
}

static void test_journal(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(journals); i++) {
		struct engine eng = { 0 };

		if (open_store(&eng.store, NULL) < 0)
			return;
		load_journal(&eng, i);
		store_close(&eng.store);
	}
}

int main(void)
{
	char cmd[64];

	if (!mkdtemp(dir))
		return 1;
	test_serials();
	test_end_of_serials();
	test_lock();
	test_journal();
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
