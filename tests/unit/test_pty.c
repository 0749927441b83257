/* Terminals in the engine: before there is one, when there cannot be one, and a devpts that was
 * replaced by a file system that never answers. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sandbox/sandbox-internal.h"
#include "tests/unit/engine.h"

static const char hung_dir[] = "/tmp/hutch-test-hung";

static bool says(struct exec *ex, const char *text)
{
	char out[4096];

	read_all(&ex->stream[EXEC_STDOUT], out, sizeof(out));
	if (strstr(out, text))
		return true;
	printf("# got: %s\n", out);
	return false;
}

/* Its sandbox is being made: what is typed waits, and winsize counts. */
static void test_early(struct sandbox *sb)
{
	struct exec *ex = run(sb, "{\"cmd\":\"read x; echo got $x; stty size\",\"pty\":{}}");
	struct err err = { 0 };

	ok(sb->state == SANDBOX_CREATING && ex->state == EXEC_PENDING, "early: pending");
	stdin_open(ex, true);
	is_int(stdin_write(ex, "x\n", 2), -EAGAIN, "early: who types waits");
	is_int(stdin_ready(ex), 0, "early: and poll says so");
	is_int(exec_end_stdin(ex, &err), -EAGAIN, "early: the end of input: %s", err.msg);
	is_int(exec_winsize(ex, 5, 6, NULL), 0, "early: winsize");
	ok(turn_until(ex->state == EXEC_RUNNING), "it starts");
	is_int(stdin_write(ex, "abc\n", 4), 4, "then typing is taken");
	stdin_close(ex);
	ok(turn_until(ex->state == EXEC_DONE) && ex->result.code == 0, "it ends");
	ok(says(ex, "got abc\r\n5 6\r\n"), "it was typed, and has that size");
	is_int(stdin_write(ex, "x", 1), -EPIPE, "over: nobody to type for");
	is_int(exec_end_stdin(ex, NULL), 0, "over: no more input is no failure");
	is_int(exec_winsize(ex, 7, 8, NULL), 0, "over: nor is winsize");
	ok(ex->in.fd < 0 && ex->child[0] < 0 && ex->stream[EXEC_STDOUT].src.fd < 0,
	   "over: no descriptor is left");
	exec_unref(ex);
}

/* One that ends before it was sent has no terminal, and nobody waits for it. */
static void test_never(struct engine *eng)
{
	struct sandbox *sb = make_box(eng, "never");
	struct exec *ex = run(sb, "{\"cmd\":\"true\",\"pty\":{}}");

	ok(exec_kill(ex, NULL) == 0 && ex->state == EXEC_DONE, "never: killed while pending");
	ok(ex->stream[EXEC_STDOUT].ended && !ex->result.streams_open, "never: stdout has ended");
	is_int(stdin_write(ex, "x", 1), -EPIPE, "never: nobody to type for");
	exec_unref(ex);
	ok(turn_until(sb->state == SANDBOX_RUNNING), "never: the sandbox runs");
}

/* A FUSE mount whose INIT is never answered, so that every look-up in it waits: a copy of it. */
static int hung_mount(int *fuse)
{
	char options[128];
	int tree;

	*fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", *fuse);
	if (*fuse < 0 || (mkdir(hung_dir, 0755) < 0 && errno != EEXIST) ||
	    mount("hung", hung_dir, "fuse", 0, options) < 0)
		return -1;
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, hung_dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	(void)umount2(hung_dir, MNT_DETACH);
	(void)rmdir(hung_dir);
	return tree;
}

/* Moves it there in the sandbox, by a process of its own. */
static bool put_over(pid_t pid, int tree, const char *place)
{
	char path[64];
	int status = -1;
	pid_t child;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	child = fork();
	if (child == 0) {
		int ns = open(path, O_RDONLY | O_CLOEXEC);

		_exit(ns < 0 || setns(ns, CLONE_NEWNS) < 0 ||
		      syscall(SYS_move_mount, tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH));
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void test_hung(struct engine *eng, const char *place)
{
	struct sandbox *sb = make_box(eng, "hung");
	struct exec *first = run(sb, "[\"sleep\",\"1000\"]"), *ex;
	int fuse = -1, tree = hung_mount(&fuse);
	const char *why = "";

	ok(turn_until(first->state == EXEC_RUNNING), "hung: a sandbox");
	if (tree < 0 || !put_over(sb->run->pid, tree, place)) {
		ok(false, "hung: mounted over %s: %s", place, strerror(errno));
	} else {
		(void)alarm(20); /* a look-up that waits can only be killed */
		ex = run(sb, "{\"cmd\":\"true\",\"pty\":{}}");
		(void)alarm(0);
		ok(ex->state == EXEC_DONE && ex->result.reason == EXEC_FAILED,
		   "hung: failed at once");
		why = ex->result.error;
		ok(strstr(why, "/dev/pts is not the one"), "hung: says: %s", why);
		exec_unref(ex);
	}
	exec_unref(first);
	close_auto(&fuse); /* what waits in it ends */
	close_auto(&tree);
	sandbox_ref(sb);
	sandbox_remove(sb);
	ok(turn_until(sandbox_gone(sb)), "hung: it can be removed");
	sandbox_unref(sb);
}

int main(void)
{
	struct engine *eng;
	struct sandbox *sb;

	engine_test_begin();
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		printf("Bail out! no mount namespace\n");
		return 1;
	}
	eng = open_engine();
	sb = make_box(eng, "a");
	test_early(sb);
	test_never(eng);
	test_hung(eng, "/dev/pts");
	test_hung(eng, "/dev");
	engine_close(eng);
	return engine_test_end();
}
