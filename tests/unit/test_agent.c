/* Process 1 through its protocol: what it starts, how it refuses, what it reports. */
#include <linux/magic.h>
#include <sys/vfs.h>

#include "tests/unit/box.h"
#include "tests/unit/tap.h"

#define SHORT_COMMANDS 5000
#define MANY_ARGUMENTS 10000

/* ---- commands and what becomes of them ---- */

static const struct {
	const char *what;
	const char *argv[5];
	const char *cwd, *user;
	int value; /* wait status, or the stage with an errno */
	int error;
} cases[] = {
	{ "true", { "true" }, NULL, NULL, 0, 0 },
	{ "status 7", { "sh", "-c", "exit 7" }, NULL, NULL, 7 << 8, 0 },
	{ "status 255", { "/bin/sh", "-c", "exit 255" }, NULL, NULL, 255 << 8, 0 },
	{ "SIGKILL", { "sh", "-c", "kill -9 $$" }, NULL, NULL, 9, 0 },
	{ "SIGTERM is not blocked", { "sh", "-c", "kill -15 $$; exit 1" }, NULL, NULL, 15, 0 },
	{ "SIGPIPE is not ignored", { "sh", "-c", "kill -13 $$; exit 1" }, NULL, NULL, 13, 0 },
	{ "not in PATH", { "no-such" }, NULL, NULL, AGENT_STAGE_EXEC, ENOENT },
	{ "no such path", { "/no/such" }, NULL, NULL, AGENT_STAGE_EXEC, ENOENT },
	{ "an empty name", { "" }, NULL, NULL, AGENT_STAGE_EXEC, ENOENT },
	{ "a directory", { "/usr" }, NULL, NULL, AGENT_STAGE_EXEC, EACCES },
	{ "not executable", { "/etc/passwd" }, NULL, NULL, AGENT_STAGE_EXEC, EACCES },
	{ "no program", { "/root/text" }, NULL, NULL, AGENT_STAGE_EXEC, ENOEXEC },
	{ "no such cwd", { "true" }, "/no/such", NULL, AGENT_STAGE_CWD, ENOENT },
	{ "a file as cwd", { "true" }, "/etc/passwd", NULL, AGENT_STAGE_CWD, ENOTDIR },
	{ "a cwd the user may not enter", { "true" }, "/root", "user", AGENT_STAGE_CWD, EACCES },
	{ "no such user", { "true" }, NULL, "who", AGENT_STAGE_USER, ENOENT },
	{ "an empty user", { "true" }, NULL, "", AGENT_STAGE_USER, EINVAL },
	{ "a broken user", { "true" }, NULL, "1000:x", AGENT_STAGE_USER, EINVAL },
	{ "a user that is not mapped", { "true" }, NULL, "70000", AGENT_STAGE_USER, EINVAL },
	{ "the user -1", { "true" }, NULL, "4294967295", AGENT_STAGE_USER, ENOENT },
};

static void test_cases(struct box *b)
{
	(void)box_sh(b, "echo text > /root/text; chmod +x /root/text");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct run r = { .argv = cases[i].argv,
				 .cwd = cases[i].cwd,
				 .user = cases[i].user };
		uint32_t want = cases[i].error ? AGENT_FAILED : AGENT_EXITED;

		ok(box_run(b, &r), "%s: an answer", cases[i].what);
		ok(r.end.kind == want && r.end.value == cases[i].value &&
			   r.end.error == cases[i].error,
		   "%s: kind %u, value %d, error %d", cases[i].what, r.end.kind, r.end.value,
		   r.end.error);
	}
}

static const struct {
	const char *user, *script, *want;
} users[] = {
	{ NULL, "id -u; id -g; id -G; echo $HOME; pwd", "0\n0\n0\n/root\n/root\n" },
	{ "0", "echo $HOME", "/root\n" },
	{ "user", "id -u; id -g; id -G; echo $HOME; pwd", "1000\n1000\n1000 100\n/tmp\n/tmp\n" },
	{ "1000", "id -u; id -g; echo $HOME; pwd", "1000\n1000\n/tmp\n/tmp\n" },
	{ "1000:5", "id -u; id -g; echo $HOME", "1000\n5\n/tmp\n" },
	{ "4242", "id -u; id -g; echo $HOME; pwd", "4242\n0\n/\n/\n" },
	{ "4242:4243", "id -u; id -g; id -G", "4242\n4243\n4243\n" },
	{ "nobody", "id -u; echo $HOME; pwd", "65534\n/nonexistent\n/\n" },
	{ "user", "echo x > /dev/stderr; echo y > /dev/stdout; echo z >> /proc/self/fd/1",
	  "x\ny\nz\n" },
	{ "user", "cat < /dev/stdin; echo in $?", "in 0\n" },
	{ "user", "grep -h Cap /proc/self/status | cut -f2 | sort -u",
	  "0000000000000000\n00000000a00405fb\n" },
	{ "user", "cat /root/x 2>&1; echo x > /etc/passwd", NULL },
};

static void test_users(struct box *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		const char *argv[] = { "/bin/sh", "-c", users[i].script, NULL };
		struct run r = { .argv = argv,
				 .user = users[i].user,
				 .flags = AGENT_MERGE | AGENT_SET_HOME };

		ok(box_run(b, &r), "as %s: %s", users[i].user, users[i].script);
		if (users[i].want)
			is_str(r.out, users[i].want, "as %s: what it says", users[i].user);
		else
			ok(strstr(r.out, "denied"), "as %s: denied", users[i].user);
	}
}

/* passwd belongs to the sandbox: nothing it does with it may hold up or confuse process 1. */
static void test_hostile_passwd(struct box *b)
{
	static const char *const forms[] = {
		"ln -sf /dev/zero /etc/passwd",
		"ln -sf /proc/self/environ /etc/passwd",
		"rm /etc/passwd; mkfifo /etc/passwd",
		"rm /etc/passwd; mkdir /etc/passwd",
		"rmdir /etc/passwd; head -c 9000000 /dev/zero > /etc/passwd",
		"yes 'a:b:c:d:e' | tr -d '\\n' | head -c 9000000 > /etc/passwd",
		"printf ':::::::\\nwho:x:-1:1:::\\nwho:x:99999999999:1:::' > /etc/passwd",
	};
	const char *argv[] = { "true", NULL };

	(void)box_sh(b, "cp /etc/passwd /root/passwd");
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct run r = { .argv = argv, .user = "who" };

		(void)box_sh(b, forms[i]);
		ok(box_run(b, &r) && r.end.kind == AGENT_FAILED && r.end.value == AGENT_STAGE_USER,
		   "refused after: %s", forms[i]);
	}
	(void)box_sh(b, "{ head -c 5000 /dev/zero | tr '\\0' x; echo; echo "
			"'who:x:7:8:::'; } > /etc/passwd");
	is_str(box_sh_as(b, "who", "id -u; id -g"), "7\n8\n", "a line that is too long is skipped");
	(void)box_sh(b, "cp /root/passwd /etc/passwd");
}

static void test_arguments(struct box *b)
{
	static const char *argv[MANY_ARGUMENTS + 4] = { "sh", "-c", "echo $# $10000; env | sort" };
	static const char *const env[] = { "PATH=/usr/bin", "EMPTY=", "A=x y\nz", NULL };
	struct run r = { .argv = argv, .env = env, .cwd = "/tmp", .flags = AGENT_SET_HOME };

	for (int i = 3; i < MANY_ARGUMENTS + 3; i++)
		argv[i] = "arg";
	argv[2] = "echo $#; env | grep -v ^_ | sort; pwd";
	ok(box_run(b, &r), "%d arguments", MANY_ARGUMENTS);
	is_str(r.out, "9999\nA=x y\nEMPTY=\nHOME=/root\nPATH=/usr/bin\nPWD=/tmp\nz\n/tmp\n",
	       "arguments and environment arrive as they are");
	r = (struct run){ .argv = (const char *[]){ "env", NULL },
			  .env = (const char *[]){ NULL } };
	ok(box_run(b, &r), "found without a PATH");
	is_str(r.out, "", "an empty environment is empty");
	r = (struct run){ .argv = (const char *[]){ "cat", NULL }, .input = "in\n" };
	ok(box_run(b, &r), "cat");
	is_str(r.out, "in\n", "stdin");
}

static void test_scripts(struct box *b)
{
	static char big[300 * 1024];
	const char *sh[] = { "/bin/sh", NULL, NULL }, *own[] = { NULL, NULL };
	struct run r = { .argv = own,
			 .script = "#!/bin/sh\necho \"$0 $(id -u)\"\n",
			 .user = "user" };
	char want[64];

	ok(box_run(b, &r) && r.end.kind == AGENT_EXITED, "a script with #! as a user");
	snprintf(want, sizeof(want), "/run/hutch/%u 1000\n", r.id);
	is_str(r.out, want, "its name and its user");
	memset(big, ' ', sizeof(big));
	snprintf(big + sizeof(big) - 16, 16, "\necho big $#\n");
	r = (struct run){ .argv = sh, .script = big, .script_slot = 1 };
	ok(box_run(b, &r), "a script of 300 KiB");
	is_str(r.out, "big 0\n", "its last line");
	r = (struct run){ .argv = own, .script = "#!/no/such\n" };
	ok(box_run(b, &r) && r.end.value == AGENT_STAGE_EXEC && r.end.error == ENOENT,
	   "no such interpreter");
	is_str(box_sh(b, "ls -A /run/hutch; stat -c '%a %u' /run/hutch"), "711 0\n",
	       "no script is left");
	is_str(box_sh_as(b, "user", "ls /run/hutch 2>/dev/null || echo closed"), "closed\n",
	       "other users do not see the scripts");
}

/* ---- messages that are wrong ---- */

static void test_bad_requests(struct box *b)
{
	static const struct {
		const char *what;
		uint32_t flags, len;
		size_t fds;
	} bad[] = {
		{ "no descriptor", 0, 100, 0 },
		{ "a descriptor short", AGENT_HAS_STDOUT, 100, 1 },
		{ "one too many", 0, 100, 2 },
		{ "merge and stderr", AGENT_MERGE | AGENT_HAS_STDERR, 100, 2 },
		{ "a terminal without its descriptor", AGENT_TTY, 100, 1 },
		{ "a terminal and a pipe", AGENT_TTY | AGENT_HAS_STDIN | AGENT_HAS_STDOUT, 100, 2 },
		{ "a terminal and merge", AGENT_TTY | AGENT_HAS_STDIN | AGENT_MERGE, 100, 2 },
		{ "no length", 0, 0, 1 },
		{ "a length too short", 0, 24, 1 },
		{ "no script slot", AGENT_HAS_SCRIPT, 100, 2 },
		{ "zeroes", 0, 4096, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct agent_exec m = { AGENT_OP_EXEC, ++b->next_id, bad[i].flags, bad[i].len };
		int fd[2] = { memfd_create("args", MFD_CLOEXEC), open("/dev/null", O_RDWR) };
		struct run r = { .id = m.id };

		(void)!ftruncate(fd[0], 8192);
		(void)box_send(b, &m, fd, bad[i].fds);
		ok(run_wait(b, &r) && r.end.kind == AGENT_FAILED &&
			   r.end.value == AGENT_STAGE_REQUEST && r.end.error == EINVAL,
		   "refused: %s", bad[i].what);
		(void)close(fd[0]);
		(void)close(fd[1]);
	}
	is_str(box_sh(b, "ls /proc/self/fd | wc -l"), "4\n", "no descriptor has leaked");
}

/* Every byte of a block changed in turn: an error or a command that runs, never a dead agent. Both
 * ways in which one comes. */
static void test_mangled_args(struct box *b)
{
	const char *argv[] = { "true", NULL }, *env[] = { "PATH=/bin", NULL };
	struct agent_command cmd = { argv, 1, env, 1, "/", "user", AGENT_NO_SLOT };
	int fd = memfd_create("args", MFD_CLOEXEC);
	struct agent_packed args;
	unsigned answers = 0;

	ok(agent_args_pack(&args, &cmd, NULL) == 0 && args.fd < 0, "a short block");
	for (uint32_t at = 0; at < args.len; at++) {
		struct agent_exec m = { AGENT_OP_EXEC, ++b->next_id, AGENT_HAS_CWD | AGENT_HAS_USER,
					args.len };
		struct run r = { .id = m.id };

		args.block[at] ^= at % 2 ? 0xff : 0x81;
		(void)!pwrite(fd, args.block, args.len, 0);
		answers += box_send_block(b, &m, args.block, NULL, 0) && run_wait(b, &r);
		m.id = r.id = ++b->next_id;
		answers += box_send(b, &m, &fd, 1) && run_wait(b, &r);
		args.block[at] ^= at % 2 ? 0xff : 0x81;
	}
	is_int(answers, 2 * args.len, "an answer to every mangled block");
	(void)close(fd);
}

/* From the longest block that comes with its message to the shortest that does not. */
static void test_args_edge(struct box *b)
{
	char text[AGENT_ARGS_INLINE + 1], want[32];
	size_t with_message = 0, apart = 0;

	for (size_t len = AGENT_ARGS_INLINE - 160; len < AGENT_ARGS_INLINE; len++) {
		const char *argv[] = { "sh", "-c", "echo ${#1}", "sh", text, NULL };
		const char *env[] = { "PATH=/usr/bin:/bin", NULL };
		struct agent_command cmd = { argv, 5, env, 1, NULL, NULL, AGENT_NO_SLOT };
		struct run r = { .argv = argv };
		struct agent_packed args;

		memset(text, 'x', len);
		text[len] = '\0';
		if (agent_args_pack(&args, &cmd, NULL) < 0)
			break;
		with_message += args.fd < 0;
		apart += args.fd >= 0;
		close_auto(&args.fd);
		if (args.len + 2 < AGENT_ARGS_INLINE || args.len > AGENT_ARGS_INLINE + 2)
			continue;
		(void)snprintf(want, sizeof(want), "%zu\n", len);
		ok(box_run(b, &r) && r.end.kind == AGENT_EXITED, "a block of %u bytes", args.len);
		is_str(r.out, want, "is read to its end");
	}
	ok(with_message > 0 && apart > 0, "%zu come with their message, %zu apart", with_message,
	   apart);
}

/* ---- signals and children ---- */

static void test_signals(struct box *b)
{
	struct run r = { .argv = (const char *[]){ "sleep", "60", NULL } };
	int out[2];

	ok(run_begin(b, &r, out), "sleep");
	box_signal(b, r.id + 77, SIGKILL, true);
	box_signal(b, r.id, SIGTERM, false);
	ok(run_wait(b, &r) && r.end.value == SIGTERM, "SIGTERM to the leader");
	box_signal(b, r.id, SIGTERM, true);
	(void)close(out[0]);
	(void)close(out[1]);
	r = (struct run){ .argv = (const char *[]){ "sh", "-c", "sleep 60 & exit 3", NULL } };
	ok(run_begin(b, &r, out), "a leader that leaves a child");
	ok(run_wait(b, &r) && WEXITSTATUS(r.end.value) == 3, "it is over");
	box_signal(b, r.id, SIGKILL, true);
	drain(out[0], r.out, sizeof(r.out)); /* ends when the sleep has ended */
	(void)close(out[1]);
	ok(1, "its group is still reached");
}

static void test_process_one(struct box *b)
{
	static const char *const attempts[] = {
		"kill -15 0",        "kill -9 1",
		"kill -9 -1",        "kill -STOP 1",
		"kill -SEGV 1",      "for s in 1 2 3 10 12 13 15 34 64; do kill -$s 1; done",
		"setsid kill -9 -1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		(void)box_sh(b, attempts[i]);
		is_str(box_sh(b, "echo alive"), "alive\n", "alive after %s", attempts[i]);
	}
	is_str(box_sh(b,
		      "for i in 1 2 3 4 5 6 7 8 9; do (setsid sh -c 'sleep 0.05; exit 3' &); done; "
		      "sleep 0.3; ps -o stat= -A | grep -c Z"),
	       "0\n", "orphans are reaped");
	is_str(box_sh(b, "for f in exe cwd root environ mem maps stack syscall io; do "
			 "head -c1 /proc/1/$f 2>/dev/null && echo $f; done; readlink /proc/1/fd/*;"
			 "ls /proc/1/map_files 2>/dev/null; readlink /proc/1/exe"),
	       "", "nothing of process 1 can be read");
	is_str(box_sh(b, "cat /proc/1/comm"), "hutch-agent\n", "its name");
}

static void test_usage(struct box *b)
{
	struct run r = {
		.argv = (const char *[]){ "sh", "-c",
					  "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; "
					  "head -c 3000000 /dev/zero > /root/f; sync /root/f",
					  NULL },
		.user = "0:0"
	};
	const struct agent_usage *u = &r.end.usage;
	struct statfs fs = { 0 };
	bool on_disk = fstatfs(b->state_fd, &fs) == 0 && fs.f_type != TMPFS_MAGIC;

	ok(box_run(b, &r) && r.end.kind == AGENT_EXITED, "a command that uses something");
	ok(u->user_us > 1000 && u->user_us < 10000000, "cpu: %llu us",
	   (unsigned long long)u->user_us);
	ok(u->maxrss_bytes > 300000 && u->maxrss_bytes < 100000000, "memory: %llu bytes",
	   (unsigned long long)u->maxrss_bytes);
	/* A tmpfs is not counted as io. */
	ok(u->io_write_bytes >= (on_disk ? 3000000 : 0) && u->io_write_bytes != AGENT_UNKNOWN,
	   "io of what it reaped: %llu bytes", (unsigned long long)u->io_write_bytes);
	r = (struct run){ .argv = (const char *[]){ "true", NULL }, .user = "user" };
	ok(box_run(b, &r) && (u->io_read_bytes != AGENT_UNKNOWN),
	   "io of another user's command is known too");
}

static void test_many(struct box *b)
{
	const char *argv[] = { "/bin/true", NULL };
	unsigned good = 0;
	double t = now_ms();

	for (int i = 0; i < SHORT_COMMANDS; i++) {
		struct run r = { .argv = argv };

		good += box_run(b, &r) && r.end.kind == AGENT_EXITED && r.end.value == 0;
	}
	is_int(good, SHORT_COMMANDS, "%d short commands in a row", SHORT_COMMANDS);
	printf("# %.3f ms each, with /bin/true and pipes\n", (now_ms() - t) / SHORT_COMMANDS);
	good = 0;
	for (int i = 0; i < 200; i++) {
		struct agent_exec m = { AGENT_OP_EXEC, ++b->next_id, 0, 0 };
		const char *const env[] = { "PATH=/bin", NULL };
		struct agent_command cmd = { argv, 1, env, 1, NULL, NULL, AGENT_NO_SLOT };
		struct agent_packed args;

		if (agent_args_pack(&args, &cmd, NULL) < 0)
			continue;
		m.args_len = args.len;
		good += box_send_block(b, &m, args.block, NULL, 0);
	}
	for (struct agent_event ev; good < 400 && box_event(b, &ev);)
		good += ev.kind == AGENT_EXITED;
	is_int(good, 400, "200 commands at once");
}

int main(void)
{
	static void (*const tests[])(struct box *) = {
		test_cases,   test_users,        test_hostile_passwd, test_arguments,
		test_scripts, test_bad_requests, test_mangled_args,   test_args_edge,
		test_signals, test_process_one,  test_usage,          test_many,
	};
	const char *unable = box_unable();
	struct err err = { 0 };
	struct box b;

	if (unable) {
		printf("1..0 # SKIP %s\n", unable);
		return 0;
	}
	(void)signal(SIGPIPE, SIG_IGN); /* as in the daemon: commands must not inherit it */
	ok(box_init(&b, &err) == 0 && box_start(&b, &err) == 0, "a sandbox: %s", err.msg);
	for (size_t i = 0; err.code == 0 && i < ARRAY_SIZE(tests); i++)
		tests[i](&b);
	ok(box_stop(&b) == 0, "the agent exits when its socket closes");
	box_done(&b);
	return tap_done();
}
