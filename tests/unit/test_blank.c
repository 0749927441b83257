/* Sandboxes made ahead: taken by mkdir, named late, and gone with hutchd. */
#include "tests/unit/engine.h"

#include "sandbox/sandbox-internal.h"

static bool full(struct engine *eng)
{
	struct blank *b;

	if (eng->blanks.count < 4)
		return false;
	list_for_each (b, &eng->blanks.ready, link)
		if (!b->groups)
			return false;
	return true;
}

static void says(struct sandbox *sb, const char *script, const char *want)
{
	struct exec_request req = { 0 };
	struct exec *ex = NULL;
	char text[256] = "";

	(void)exec_request_script(&req, NULL, script, strlen(script), NULL);
	if (exec_create(sb, &req, &ex, NULL) == 0 && turn_until(ex->state == EXEC_DONE))
		read_all(&ex->stream[EXEC_STDOUT], text, sizeof(text));
	exec_request_done(&req);
	is_str(text, want, "%s: %s", sb->id, script);
}

/* The groups of its commands are made ahead too. */
static void has_spare(const struct cgroup_run *run, const char *id, unsigned number)
{
	while (!list_empty(&run->prepare.link))
		(void)ev_turn(&loop, 0);
	if (run->set->kind == CGROUP_NONE)
		ok(true, "%s # SKIP no control groups", id);
	else
		ok(run->spare && run->spare->command == number, "%s: group %u waits for a command",
		   id, number);
}

static struct sandbox *made_from(struct engine *eng, const char *id, pid_t want)
{
	struct sandbox *sb = make_box(eng, id);

	ok(sb->run->pid == want, "%s: its process was made ahead", id);
	ok(turn_until(sb->state == SANDBOX_RUNNING), "%s: runs", id);
	return sb;
}

static pid_t first_pid(struct engine *eng)
{
	return list_first(&eng->blanks.ready, struct blank, link)->proc.pid;
}

int main(void)
{
	struct spec spec = { .id = "mounts" };
	struct engine *eng;
	struct sandbox *sb;
	pid_t pid[4], last;
	uint32_t before;
	struct blank *b;
	int n = 0;

	engine_test_begin();
	eng = open_engine();
	ok(turn_until(full(eng)), "some are made when the loop has time");
	has_spare(list_first(&eng->blanks.ready, struct blank, link)->groups, "one to be", 1);
	sb = made_from(eng, "one", first_pid(eng));
	has_spare(sb->run->groups, "one", 1);
	says(sb, "hostname; cat /etc/hostname; grep one /etc/hosts; ps -e -o comm= | head -n 1",
	     "one\none\n127.0.1.1\tone\nhutch-agent\n");
	has_spare(sb->run->groups, "one", 2);
	before = sb->run->groups->number;
	ok(sandbox_stop(sb, NULL) == 0 && turn_until(sandbox_gone(sb)) &&
		   sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_RUNNING),
	   "one: stops and starts again");
	ok(sb->run->groups->number > before, "one: with groups of another name");
	has_spare(sb->run->groups, "one", 1);
	says(sb, "hostname; cat /etc/hostname", "one\none\n");
	has_spare(sb->run->groups, "one", 2);
	ok(turn_until(full(eng)), "and more are made");

	(void)kill(first_pid(eng), SIGKILL);
	last = list_entry(eng->blanks.ready.prev, struct blank, link)->proc.pid;
	(void)usleep(100000);
	sb = make_box(eng, "two");
	ok(turn_until(sb->state == SANDBOX_RUNNING) && sb->run->pid != last,
	   "one that has died is passed over");
	says(sb, "hostname", "two\n");

	ok(turn_until(full(eng)), "more again");
	last = first_pid(eng);
	spec.mounts = calloc(1, sizeof(*spec.mounts));
	spec.mounts_n = 1;
	spec.mounts[0] = (struct spec_mount){ strdup("/usr/share"), strdup("/mnt/x"), true };
	ok(sandbox_create(eng, &spec, 0, 0, &sb, NULL) == 0 && first_pid(eng) == last,
	   "a sandbox with directories of the host's is made from the beginning");
	ok(turn_until(sb->state == SANDBOX_RUNNING), "and runs");

	list_for_each (b, &eng->blanks.ready, link)
		if (n < 4)
			pid[n++] = b->proc.pid;
	engine_close(eng);
	for (int i = 0; i < n; i++)
		ok(kill(pid[i], 0) < 0 && errno == ESRCH, "nothing that was made ahead is left");
	return engine_test_end();
}
