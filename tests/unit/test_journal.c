/* A journal that is rewritten while all goes on: at any moment, what the next hutchd reads is what there is. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/arrival-internal.h"
#include "sandbox/journal-internal.h"
#include "tests/unit/tap.h"
#include "tests/unit/turn.h"

enum { STEPS = 3000, NODES = 150, VERY_MANY = 100000, SCRIPT_MAX = 3000, RING = 1 << 19 };

static char dir[] = "/tmp/hutch-test-XXXXXX";
static struct engine eng;
static struct sandbox *box; /* serial 1 */
static unsigned made;       /* names */
static uint32_t script_max = SCRIPT_MAX;
static uint64_t seed = 1;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static void sh(const char *command)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "cd %s && %s", dir, command);
	if (system(text) != 0)
		ok(false, "%s", command);
}

/* --- commands that are said to be: none runs --- */

static struct exec_request request(void)
{
	static char text[SCRIPT_MAX];
	struct exec_request req = { 0 };
	size_t len = rnd(script_max);

	for (size_t i = 0; i < len; i++)
		text[i] = "ab \"\\\n\xc3\xa4"[rnd(6)];
	(void)exec_request_script(&req, exec_defaults(box), text, len, NULL);
	req.by = rnd(3);
	req.unique = seed >> 32;
	return req;
}

static struct exec *new_node(bool named)
{
	struct exec *ex = exec_new(box);

	ex->serial = box->next_exec_serial++;
	ex->number = named ? 0 : box->next_exec_number++;
	if (named)
		(void)snprintf(ex->name, sizeof(ex->name), "x%u", ++made);
	else
		(void)snprintf(ex->name, sizeof(ex->name), "%u", ex->number);
	(void)clock_gettime(CLOCK_REALTIME, &ex->created_at);
	ex->created_at.tv_nsec -= ex->created_at.tv_nsec % 1000000; /* as it is printed */
	ex->unwritten = true;
	exec_link(ex);
	return ex;
}

/* The command of a new node, or of one that was made and perhaps set. */
static void commit(struct exec *ex)
{
	ex->request = request();
	if (journal_commit(ex, NULL) < 0)
		ok(false, "'%s' is accepted", ex->name);
	quota_recount(ex);
	ex->unwritten = false;
	ex->state = EXEC_RUNNING;
	box->exec_live++;
	eng.exec_live++;
}

static void do_new(struct exec *ex)
{
	(void)ex;
	commit(new_node(false));
}

static void do_mkdir(struct exec *ex)
{
	ex = new_node(true);
	(void)exec_base_begin(ex);
	quota_recount(ex);
	(void)journal_commit(ex, NULL);
}

static void do_set(struct exec *ex)
{
	char value[SCRIPT_MAX] = "";

	memset(value, 'v', rnd(SCRIPT_MAX - 1));
	if (ex->unwritten && exec_set(ex, rnd(2) ? "env.A" : "env.B", value, NULL) < 0)
		ok(false, "'%s' is set", ex->name);
}

static void do_write(struct exec *ex)
{
	if (!ex->unwritten || exec_base_keep(ex) < 0)
		return;
	commit(ex);
	exec_base_settle(ex);
}

static void do_output(struct exec *ex)
{
	if (ex->state != EXEC_RUNNING)
		return;
	for (unsigned n = rnd(rnd(4) ? 3 : 40) + 1; n > 0; n--) {
		arrival_add(ex, EXEC_STDERR, rnd(1000) + 1);
		arrival_add(ex, EXEC_STDOUT, rnd(1000) + 1);
	}
	if (arrival_fix(ex) < 0 || (rnd(3) && arrival_keep(ex, true) < 0))
		ok(false, "the order of '%s' is kept", ex->name);
}

static void do_finish(struct exec *ex)
{
	if (ex->state != EXEC_RUNNING)
		return;
	ex->result = (struct exec_result){ .reason = EXEC_EXITED, .code = (int)rnd(200) };
	ex->result.exit_code = ex->result.code;
	ex->result.started_at = ex->result.finished_at = ex->created_at;
	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		ex->result.stream_bytes[i] = ex->arrival.end.pos[i];
	ex->state = EXEC_DONE;
	arrival_finish(ex);
	box->exec_live--;
	eng.exec_live--;
	quota_finished(ex, true);
	journal_finish(ex);
}

static void do_remove(struct exec *ex)
{
	if (box->exec_count < NODES && rnd(4))
		return;
	journal_remove(ex);
	exec_drop(ex);
}

static void do_turn(struct exec *ex)
{
	(void)ex;
	(void)ev_turn(&loop, 0);
}

static void do_rewrite(struct exec *ex)
{
	(void)ex;
	journal_rewrite(box);
}

/* The disk takes nothing for a while; whoever looks wakes it. */
static bool stopped;

static void stop_writer(bool stop)
{
	if (stop != stopped && disk_writer_pid(eng.disk) > 0)
		(void)kill(disk_writer_pid(eng.disk), stop ? SIGSTOP : SIGCONT);
	stopped = stop;
}

static void do_stop(struct exec *ex)
{
	(void)ex;
	stop_writer(rnd(3) == 0);
}

/* --- the next hutchd --- */

static void forget(struct sandbox *sb)
{
	eng.closing = true; /* nothing is unlinked */
	journal_close(sb);
	while (!list_empty(&sb->execs))
		exec_drop(list_first(&sb->execs, struct exec, link));
	ev_task_cancel(&sb->trim);
	ev_task_cancel(&sb->room);
	sandbox_unref(sb);
	eng.closing = false;
}

static struct sandbox *load(uint32_t serial)
{
	struct sandbox *sb = sandbox_new(&eng, serial);
	struct err err = { 0 };

	sb->keep = EXEC_KEEP_MAX;
	if (journal_open(sb, &err) < 0)
		ok(false, "the journal is read: %s", err.msg);
	return sb;
}

/* Of one that runs, only what was accepted: the next hutchd knows a result for it. */
static int print(const struct exec *ex, bool runs, struct buf *out)
{
	int r = journal_print_node(ex, out);
	const char *end = out->data;

	for (int lines = ex->base ? 2 : 1; runs && lines > 0; lines--)
		end = strchr(end, '\n') + 1;
	if (runs)
		out->len = (size_t)(end - out->data);
	return r;
}

static bool same_text(const struct exec *live, const struct exec *read)
{
	auto_buf struct buf a = { 0 }, b = { 0 };
	bool runs = live->state == EXEC_RUNNING;

	if (print(live, runs, &a) == 0 && print(read, runs, &b) == 0 && a.len == b.len &&
	    memcmp(a.data, b.data, a.len) == 0)
		return true;
	printf("# there is %.200s …\n# and was read %.200s …\n", a.data, b.data);
	return false;
}

/* Of one that runs: at least what was kept, and no more than there is. */
static bool same_order(const struct exec *live, const struct exec *read)
{
	const struct arrival *a = &live->arrival;
	bool same = true;

	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		same &= read->arrival.end.pos[i] >= a->kept[i] &&
			read->arrival.end.pos[i] <= a->end.pos[i];
	return same;
}

static bool same_node(const struct exec *live, const struct exec *read)
{
	if (live->serial != read->serial || live->unwritten != read->unwritten ||
	    !same_text(live, read))
		return false;
	if (live->state == EXEC_RUNNING)
		return read->result.reason == EXEC_LOST && same_order(live, read);
	return memcmp(live->arrival.end.pos, read->arrival.end.pos,
		      sizeof(live->arrival.end.pos)) == 0;
}

static bool same_box(const struct sandbox *live, const struct sandbox *read)
{
	struct list *at = read->execs.next;
	struct exec *ex;

	list_for_each (ex, &live->execs, link) {
		if (at == &read->execs || !same_node(ex, list_entry(at, struct exec, link))) {
			printf("# '%s', serial %u\n", ex->name, ex->serial);
			return false;
		}
		at = at->next;
	}
	return at == &read->execs && live->next_exec_serial == read->next_exec_serial &&
	       live->next_exec_number == read->next_exec_number;
}

/* A copy, since reading one whose commands were not over writes it anew. */
static bool look(void)
{
	struct sandbox *sb;
	bool same;

	stop_writer(false);
	(void)disk_wait(eng.disk, 20000);
	sh("rm -rf sandboxes/2 && cp -r sandboxes/1 sandboxes/2");
	sb = load(2);
	same = same_box(box, sb);
	forget(sb);
	return same;
}

static int begin_disk(void)
{
	const struct disk_config config = { .loop = &loop,
					    .zombies = &eng.zombies,
					    .dirfd = eng.store.fd,
					    .keep = -1,
					    .size = RING };

	return disk_new(&eng.disk, &config, NULL);
}

static void end_disk(void)
{
	disk_free(eng.disk);
	(void)ev_turn(&loop, 0); /* what the loop still had in its hands */
}

/* It goes on with what was read. */
static void restart(void)
{
	stop_writer(false);
	(void)disk_wait(eng.disk, 20000);
	forget(box);
	end_disk(); /* the writer has the old file open */
	if (begin_disk() < 0)
		abort();
	box = load(1);
}

/* --- at random --- */

static const struct {
	unsigned weight;
	void (*run)(struct exec *);
} acts[] = {
	{ 20, do_new },    { 10, do_mkdir },  { 10, do_set },  { 10, do_write },  { 15, do_output },
	{ 20, do_finish }, { 20, do_remove }, { 25, do_turn }, { 5, do_rewrite }, { 6, do_stop },
};

static struct exec *any_node(void)
{
	struct exec *ex;
	uint32_t n = rnd((uint32_t)box->exec_count);

	list_for_each (ex, &box->execs, link)
		if (n-- == 0)
			return ex;
	return NULL;
}

static void act(void)
{
	unsigned sum = 0, at;
	size_t i = 0;

	for (size_t k = 0; k < ARRAY_SIZE(acts); k++)
		sum += acts[k].weight;
	for (at = rnd(sum); at >= acts[i].weight; i++)
		at -= acts[i].weight;
	acts[i].run(any_node());
}

static void test_model(void)
{
	unsigned looks = 0, between = 0, restarts = 0, right = 0, rewritten = 0, kills = 0;

	while (box->exec_count < NODES)
		do_new(NULL);
	for (int i = 0; i < STEPS && looks == right; i++) {
		bool fresh = box->journal->fresh != NULL;

		act();
		rewritten += fresh && !box->journal->fresh;
		if (rnd(40) == 0) {
			looks++;
			between += box->journal->fresh != NULL;
			right += look();
		}
		if (rnd(400) == 0) {
			restart();
			restarts++;
		}
		if (rnd(1000) == 0 && disk_writer_pid(eng.disk) > 0) {
			(void)kill(disk_writer_pid(eng.disk), SIGKILL);
			stopped = false;
			kills++;
		}
	}
	printf("# %u looks, %u of them between two pieces, %u restarts, %u rewritten, %u writers "
	       "killed\n",
	       looks, between, restarts, rewritten, kills);
	is_int(right, looks, "model: a restart finds what there is");
	ok(rewritten > 5, "model: it was rewritten while all went on");
}

/* Serials do not come again, although no node is left that says how far they were. */
static void test_none(void)
{
	struct stat info = { 0 };

	stop_writer(false);
	(void)turn_until(!box->journal->fresh);
	while (!list_empty(&box->execs)) {
		struct exec *ex = list_first(&box->execs, struct exec, link);

		journal_remove(ex);
		exec_drop(ex);
	}
	journal_rewrite(box);
	ok(turn_until(!box->journal->fresh), "none: it is rewritten");
	ok(look(), "none: serials go on");
	(void)fstatat(eng.store.fd, "sandboxes/1/journal", &info, 0);
	is_int((long long)info.st_size, (long long)box->journal->size, "none: its size");
	ok(info.st_size > 0 && info.st_size < 100, "none: and nothing else is left");
}

/* --- how long one turn takes --- */

/* Ours, without what the machine does besides. */
static int64_t cpu_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fill(void)
{
	script_max = 40;
	while (box->exec_count < VERY_MANY) {
		do_new(NULL);
		do_finish(list_entry(box->execs.prev, struct exec, link));
		if (box->exec_count % 1000 == 0)
			(void)disk_wait(eng.disk, 20000);
	}
}

/* Measured, and said; how fast a machine is nobody knows. */
static void test_turns(void)
{
	int64_t longest, begin, end = ev_now() + patience(60);
	unsigned turns = 0;

	fill();
	(void)turn_until(!box->journal->fresh);
	begin = cpu_now();
	journal_rewrite(box);
	longest = cpu_now() - begin;
	for (; box->journal->fresh && ev_now() < end; turns++) {
		begin = cpu_now();
		(void)ev_turn(&loop, 10);
		if (cpu_now() - begin > longest)
			longest = cpu_now() - begin;
	}
	printf("# %d nodes: %u turns, the longest took %ld us\n", VERY_MANY, turns,
	       (long)(longest / 1000));
	ok(!box->journal->fresh, "turns: it comes to an end");
	ok(turns > VERY_MANY / 1000, "turns: a part at a time");
	ok(look(), "turns: it says the same");
}

/* A crash in the middle of a long one leaves a part of the new one. */
static void test_rest(void)
{
	char fresh[JOURNAL_FRESH_LEN];

	journal_rewrite(box);
	for (int i = 0; i < 20; i++)
		(void)ev_turn(&loop, 10);
	ok(box->journal->fresh, "rest: it is half done");
	(void)disk_wait(eng.disk, 20000);
	journal_fresh_name(box, fresh);
	ok(faccessat(eng.store.fd, fresh, F_OK, 0) == 0, "rest: there is a part of it");
	restart();
	is_int((long long)box->exec_count, VERY_MANY, "rest: the old one was read");
	ok(faccessat(eng.store.fd, fresh, F_OK, 0) < 0, "rest: the part has gone");
}

static bool begin_all(void)
{
	const struct engine_limits limits = { .user_nodes = VERY_MANY * 2,
					      .all_nodes = VERY_MANY * 2 };

	if (!mkdtemp(dir) || ev_init(&loop, NULL) < 0)
		return false;
	sh("mkdir -p sandboxes/1/spool");
	eng.loop = &loop;
	list_init(&eng.sandboxes);
	quota_init(&eng, &limits);
	zombies_init(&eng.zombies, &loop);
	eng.store.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (begin_disk() < 0)
		return false;
	sh("touch sandboxes/1/journal");
	box = load(1);
	return true;
}

int main(int argc, char **argv)
{
	char cmd[64];

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 10);
	if (!begin_all())
		return 1;
	test_model();
	test_none();
	test_turns();
	test_rest();
	forget(box);
	end_disk();
	zombies_done(&eng.zombies, ev_now() + INT64_C(1000000000));
	(void)close(eng.store.fd);
	ev_done(&loop);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
