/* `mounts` of a spec: who may mount what, what is seen inside, and directories that do not answer. */
#include <grp.h>

#include "tests/unit/engine.h"
#include "tests/unit/fakefs.h"

#define USER 4321 /* not in the user database; his group has the same number */

static char src[] = "/tmp/hutch-mounts-XXXXXX";
static const char *const *allowed;

static const char *path(const char *name)
{
	static char out[4][256];
	static unsigned turn;
	char *to = out[turn++ % ARRAY_SIZE(out)];

	(void)snprintf(to, sizeof(out[0]), *name == '/' ? "%s%s" : "%s/%s", *name == '/' ? "" : src,
		       name);
	return to;
}

static void wait_ms(int ms)
{
	int64_t end = ev_now() + ms * INT64_C(1000000);

	while (ev_now() < end)
		(void)ev_turn(&loop, 10);
}

static void make_dir(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	(void)mkdir(path(name), 0755);
	(void)!chown(path(name), uid, gid);
	(void)chmod(path(name), mode);
}

static void make_file(const char *name, uid_t uid, mode_t mode)
{
	int fd = open(path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)!write(fd, "secret\n", 7);
	(void)!fchown(fd, uid, uid);
	(void)fchmod(fd, mode);
	(void)close(fd);
}

static struct engine *open_with_allowed(void)
{
	struct engine_config config = {
		.loop = &loop, .state_dir = dir, .agent_fd = agent_fd, .mounts_allowed = allowed
	};
	struct engine *eng = NULL;
	struct err err = { 0 };

	ok(engine_new(&eng, &config, &err) == 0, "engine opens: %s", err.msg);
	return eng;
}

/* Of a spec with these mounts. NULL: refused. */
static struct sandbox *box_of(struct engine *eng, uid_t uid, const char *mounts, struct err *err)
{
	struct spec spec = { 0 };
	struct sandbox *sb = NULL;
	char text[2048];

	(void)snprintf(text, sizeof(text), "{\"mounts\":%s}", mounts);
	if (spec_parse(&spec, text, strlen(text), err) < 0)
		return NULL;
	if (sandbox_create(eng, &spec, uid, uid, &sb, err) < 0)
		sb = NULL;
	spec_done(&spec);
	return sb;
}

static struct sandbox *box_with(struct engine *eng, uid_t uid, const char *source,
				const char *target, bool readonly)
{
	struct err err = { 0 };
	struct sandbox *sb;
	char mounts[1024];

	(void)snprintf(mounts, sizeof(mounts),
		       "[{\"source\":\"%s\",\"target\":\"%s\",\"readonly\":%s}]", path(source),
		       target, readonly ? "true" : "false");
	sb = box_of(eng, uid, mounts, &err);
	if (!sb)
		printf("# %s\n", err.msg);
	return sb;
}

static void away(struct sandbox *sb)
{
	if (!sb)
		return;
	sandbox_ref(sb);
	sandbox_remove(sb);
	(void)turn_until(sandbox_gone(sb));
	sandbox_unref(sb);
}

/* Output of a script, both streams. */
static const char *sh(struct sandbox *sb, const char *script)
{
	static char out[4096];
	char request[2048];
	struct exec *ex;

	(void)snprintf(request, sizeof(request), "{\"cmd\":\"%s\",\"stderr\":\"merge\"}", script);
	ex = run(sb, request);
	if (!ex)
		return "(refused)";
	if (turn_until(ex->state == EXEC_DONE))
		read_all(&ex->stream[EXEC_STDOUT], out, sizeof(out));
	exec_unref(ex);
	return out;
}

static const struct {
	const char *what;
	uid_t uid;
	const char *source;
	bool readonly;
	int code; /* 0: it runs */
	const char *why;
} rows[] = {
	{ "root's own", 0, "root", false, 0, "" },
	{ "a user's own", USER, "user", false, 0, "" },
	{ "a known user's own, of his group", 5, "games", false, 0, "" },
	{ "a user's, for root", 0, "user", true, EACCES, "belongs to user 4321, not to user 0" },
	{ "root's, for a user", USER, "root", true, EACCES, "belongs to user 0, not to user 4321" },
	{ "a link of his to root's", USER, "user/link", true, EACCES, "belongs to user 0" },
	{ "a link of his to what he may not enter", USER, "user/deep", true, EACCES, "Permission" },
	{ "his own behind a closed door", USER, "closed/user", true, EACCES, "Permission" },
	{ "a link of his to his own", USER, "user/self", true, 0, "" },
	{ "root's, allowed", USER, "allowed", true, 0, "" },
	{ "below what is allowed", USER, "allowed/sub", true, 0, "" },
	{ "a link out of what is allowed", USER, "allowed/out", true, EACCES, "belongs to user 0" },
	{ "root's, allowed, to write", USER, "allowed", false, EACCES, "only read-only" },
	{ "his own, of a foreign group", USER, "grouped", false, EACCES, "the group 50" },
	{ "his own, of a foreign group, to read", USER, "grouped", true, 0, "" },
	{ "a file", 0, "root/file", true, ENOTDIR, "Not a directory" },
	{ "nothing", 0, "nothing", true, ENOENT, "No such file" },
	{ "a link of /proc", 0, "/proc/self/cwd", true, ELOOP, "" },
	{ "the state directory", 0, dir, true, EPERM, "hutch's state directory" },
	{ "a part of it", 0, "state/sandboxes", true, EPERM, "hutch's state directory" },
	{ "what holds it", 0, "/tmp", true, EPERM, "hutch's state directory" },
	{ "the root", 0, "/", true, EPERM, "hutch's state directory" },
	{ "a file system without maps, to read", 0, "plain", true, 0, "" },
	{ "a file system without maps", 0, "plain", false, EINVAL,
	  "(fuse.fake) cannot be mounted" },
	{ "what a user serves himself", USER, "served", true, EPERM,
	  "user 4321 serves himself (fuse.fake)" },
	{ "the same for root", 0, "served", true, EPERM, "'mounts' of the config" },
	{ "the same, allowed", USER, "allowed/served", true, 0, "" },
	{ "a tree of hutch's", 0, "tree", true, EPERM, "hutch's own tree" },
};

static void test_rows(struct engine *eng)
{
	struct fakefs plain = { .server = -1 }, tree = plain, served[2] = { plain, plain };

	ok(fakefs_mount(&plain, path("plain"), "fuse.fake", false), "a file system without maps");
	ok(fakefs_mount(&tree, path("tree"), "fuse.hutch", false), "a tree of hutch's");
	ok(fakefs_mount_for(&served[0], path("served"), "fuse.fake", USER, false) &&
		   fakefs_mount_for(&served[1], path("allowed/served"), "fuse.fake", USER, false),
	   "what a user serves");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t begin = ev_now();
		struct sandbox *sb =
			box_with(eng, rows[i].uid, rows[i].source, "/mnt/x", rows[i].readonly);
		const char *name = rows[i].what;

		ok(sb && ev_now() - begin < 100000000, "%s: mkdir does not wait", name);
		if (!sb)
			continue;
		ok(sb->state == SANDBOX_CREATING, "%s: is being created", name);
		(void)turn_until(sb->state != SANDBOX_CREATING);
		is_int(sb->state, rows[i].code ? SANDBOX_FAILED : SANDBOX_RUNNING, "%s: state",
		       name);
		is_int(sb->why.code, rows[i].code, "%s: errno", name);
		ok(strstr(sb->why.msg, rows[i].why) != NULL, "%s: %s", name, sb->why.msg);
		if (rows[i].code)
			ok(strncmp(sb->why.msg, "mount '/mnt/x': ", 16) == 0, "%s: says where",
			   name);
		away(sb);
	}
	fakefs_end(&plain);
	fakefs_end(&tree);
	fakefs_end(&served[0]);
	fakefs_end(&served[1]);
}

static void test_writable(struct engine *eng, uid_t uid, const char *source)
{
	struct sandbox *sb = box_with(eng, uid, source, "/data/a/b", false);
	char name[64];
	struct stat st;

	is_str(sh(sb, "cd /data/a/b && stat -c %u:%g . && cat file && echo more >> file && "
		      "mkdir -m 700 new && echo x > new/y && tail -1 file"),
	       "0:0\nsecret\nmore\n", "%u: reads and writes as user 0", uid);
	(void)snprintf(name, sizeof(name), "%s/new/y", source);
	ok(stat(path(name), &st) == 0 && st.st_uid == uid && st.st_gid == uid,
	   "%u: what was made belongs to the owner", uid);
	is_str(sh(sb,
		  "rm -r /data/a/b/new; stat -c %u:%g /data /data/a | uniq; rmdir /data/a/b 2>&1 "
		  "| sed 's/.*: //'"),
	       "0:0\nDevice or resource busy\n", "%u: directories on the way are the sandbox's",
	       uid);
	is_str(sh(sb, "grep -c ' /data/a/b rw,nosuid,nodev' /proc/self/mountinfo"), "1\n",
	       "%u: nosuid and nodev", uid);
	is_str(sh(sb, "cat /data/a/b/others 2>&1 | sed 's/.*: //'; stat -c %U /data/a/b/others"),
	       "Permission denied\nnobody\n", "%u: others' files stay others'", uid);
	away(sb);
}

static void test_readonly(struct engine *eng)
{
	struct err err = { 0 };
	struct sandbox *sb;
	char mounts[512];

	(void)snprintf(mounts, sizeof(mounts), "[{\"source\":\"%s\",\"target\":\"/in\"}]",
		       path("user"));
	sb = box_of(eng, USER, mounts, &err);
	is_str(sh(sb, "cat /in/file; touch /in/x 2>&1 | sed 's/.*: //'; rm /in/file 2>&1 | sed "
		      "'s/.*: //'"),
	       "secret\nmore\nRead-only file system\nRead-only file system\n",
	       "readonly is the default, and is");
	is_str(sh(sb, "mount -o remount,bind,rw /in 2>&1 | grep -c -i denied; "
		      "unshare -rm sh -c 'mount -o remount,bind,rw /in; touch /in/x' "
		      "2>/dev/null || echo no"),
	       "1\nno\n", "nor can it be made writable inside");
	away(sb);
}

/* The layer is what the sandbox made of it: a mount is not led astray. */
static const struct {
	const char *what, *script;
	int code;
} tricks[] = {
	{ "a link on the way", "mv /deep /was && ln -s /etc /deep", ELOOP },
	{ "a link to the host's", "mv /deep /was && ln -s /../../.. /deep", ELOOP },
	{ "a file on the way", "mv /deep /was && echo > /deep", ENOTDIR },
	{ "another directory", "mv /deep /was && mkdir -m 0 /deep", 0 },
};

static void test_hostile_layer(struct engine *eng)
{
	for (size_t i = 0; i < ARRAY_SIZE(tricks); i++) {
		struct sandbox *sb = box_with(eng, 0, "root", "/deep/dir", true);

		is_str(sh(sb, tricks[i].script), "", "%s: is made", tricks[i].what);
		ok(sandbox_stop(sb, NULL) == 0 && turn_until(sandbox_gone(sb)), "stop");
		ok(sandbox_start(sb, NULL) == 0 && turn_until(sb->state != SANDBOX_CREATING),
		   "%s: start", tricks[i].what);
		is_int(sb->why.code, tricks[i].code, "%s: %s", tricks[i].what, sb->why.msg);
		ok(sb->why.code == 0 || strncmp(sb->why.msg, "mount '/deep/dir': ", 19) == 0,
		   "%s: says where", tricks[i].what);
		away(sb);
	}
}

/* Every start looks anew, also that of another hutchd. */
static struct engine *test_restart(struct engine *eng)
{
	struct sandbox *sb = box_with(eng, USER, "again", "/in", true);
	char id[NAME_MAX_LEN + 1];

	is_str(sh(sb, "ls -A /in"), "", "restart: is mounted");
	(void)snprintf(id, sizeof(id), "%s", sb ? sb->id : "");
	engine_close(eng);
	make_file("again/later", USER, 0600);
	eng = open_with_allowed();
	sb = sandbox_find(eng, id);
	ok(sb && sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_RUNNING),
	   "restart: starts");
	is_str(sh(sb, "cat /in/later"), "secret\n", "restart: is mounted again");
	(void)sandbox_stop(sb, NULL);
	(void)turn_until(sandbox_gone(sb));
	make_dir("again", 0, 0, 0755);
	ok(sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_FAILED),
	   "no longer his: does not start");
	is_int(sb->why.code, EACCES, "no longer his: %s", sb->why.msg);
	make_dir("again", USER, USER, 0755);
	ok(sandbox_start(sb, NULL) == 0 && turn_until(sb->state == SANDBOX_RUNNING),
	   "his again: starts");
	away(sb);
	return eng;
}

static void test_removed_early(struct engine *eng, struct sandbox *other)
{
	int64_t begin = ev_now();
	struct sandbox *sb = box_with(eng, 0, "silent", "/in", true);
	struct exec *ex = run(sb, "[\"true\"]");

	ok(ex && ex->state == EXEC_PENDING, "no answer: a command is pending");
	for (int i = 0; i < 5; i++)
		is_str(sh(other, "echo hello"), "hello\n", "no answer: others go on");
	ok(ev_now() - begin < 2000000000, "no answer: at once");
	is_int(sb->state, SANDBOX_CREATING, "no answer: creating");
	sandbox_ref(sb);
	sandbox_remove(sb);
	ok(turn_until(sandbox_gone(sb)) && ev_now() - begin < 3000000000,
	   "no answer: goes at once");
	is_int(ex->result.reason, EXEC_KILLED, "no answer: its command was killed");
	exec_unref(ex);
	sandbox_unref(sb);
}

enum { HANGING = 9 };

static void test_silent(struct engine *eng)
{
	struct sandbox *other = make_box(eng, "other"), *sb[HANGING], *late;
	struct fakefs fs = { .server = -1 };
	struct err err = { 0 };
	int64_t begin;
	char mounts[512];
	int failed = 0;

	ok(fakefs_mount(&fs, path("silent"), "fuse.fake", true), "a file system that is silent");
	(void)turn_until(other->state == SANDBOX_RUNNING);
	test_removed_early(eng, other);
	begin = ev_now();
	for (int i = 0; i < HANGING; i++)
		sb[i] = box_with(eng, 0, i % 2 ? "silent" : "silent/below", "/in", i > 3);
	(void)turn_until(sb[HANGING - 1]->state != SANDBOX_CREATING);
	ok(ev_now() - begin > 4500000000 && ev_now() - begin < 7000000000, "fails at its deadline");
	for (int i = 0; i < HANGING; i++)
		failed +=
			turn_until(sb[i]->state == SANDBOX_FAILED) && sb[i]->why.code == ETIMEDOUT;
	is_int(failed, HANGING, "all: %s", sb[0]->why.msg);
	wait_ms(1200);
	(void)snprintf(mounts, sizeof(mounts), "[{\"source\":\"%s\",\"target\":\"/in\"}]",
		       path("root"));
	late = box_of(eng, 0, mounts, &err);
	ok(!late && err.code == EBUSY, "too many hang: %s", err.msg);
	fakefs_end(&fs);
	wait_ms(200);
	late = box_of(eng, 0, mounts, &err);
	ok(late && turn_until(late->state == SANDBOX_RUNNING), "they have gone: mounts go on");
	away(late);
	for (int i = 0; i < HANGING; i++)
		away(sb[i]);
	away(other);
}

static const struct {
	const char *target, *why;
} targets[] = {
	{ "/", "the sandbox's own" },
	{ "//", "the sandbox's own" },
	{ "/proc", "the sandbox's own" },
	{ "/proc/sys", "the sandbox's own" },
	{ "//usr/", "the sandbox's own" },
	{ "/usr/lib/x", "the sandbox's own" },
	{ "/dev/shm", "the sandbox's own" },
	{ "/etc", "the sandbox's own" },
	{ "/run/", "the sandbox's own" },
	{ "/run/hutch/x", "the sandbox's own" },
	{ "/a/../etc", "'.' and '..'" },
	{ "/./usr", "'.' and '..'" },
	{ "relative", "absolute" },
	{ "/etc/x", NULL },
	{ "/process", NULL },
	{ "/run/x", NULL },
	{ "/...", NULL },
	{ "/a//b/", NULL },
};

static void test_targets(void)
{
	const char *twice =
		"{\"mounts\":[{\"source\":\"/a\",\"target\":\"/b/\"},{\"source\":\"/a\","
		"\"target\":\"//b\"}]}";
	struct spec spec = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		char text[256];
		int r;

		(void)snprintf(text, sizeof(text),
			       "{\"mounts\":[{\"source\":\"/a\",\"target\":\"%s\"}]}",
			       targets[i].target);
		err = (struct err){ 0 };
		r = spec_parse(&spec, text, strlen(text), &err);
		if (targets[i].why)
			ok(r == -EINVAL && strstr(err.msg, targets[i].why), "%s: %s",
			   targets[i].target, err.msg);
		else
			ok(r == 0, "%s: taken", targets[i].target);
		if (r == 0)
			spec_done(&spec);
	}
	ok(spec_parse(&spec, twice, strlen(twice), &err) == -EINVAL, "twice: %s", err.msg);
}

static void prepare(void)
{
	static const struct {
		const char *name;
		uid_t uid;
		gid_t gid;
		mode_t mode;
	} dirs[] = {
		{ "root", 0, 0, 0755 },        { "user", USER, USER, 0700 },
		{ "closed", 0, 0, 0700 },      { "closed/user", USER, USER, 0700 },
		{ "allowed", 0, 0, 0755 },     { "allowed/sub", 0, 0, 0700 },
		{ "grouped", USER, 50, 0755 }, { "again", USER, USER, 0700 },
		{ "plain", 0, 0, 0755 },       { "tree", 0, 0, 0755 },
		{ "served", 0, 0, 0755 },      { "allowed/served", 0, 0, 0755 },
		{ "silent", 0, 0, 0755 },      { "games", 5, 60, 0700 },
	};

	(void)chmod(src, 0755);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		make_dir(dirs[i].name, dirs[i].uid, dirs[i].gid, dirs[i].mode);
	make_file("root/file", 0, 0600);
	make_file("root/others", USER, 0600);
	make_file("user/file", USER, 0600);
	make_file("user/others", 0, 0600);
	(void)!symlink(path("root"), path("user/link"));
	(void)!symlink(path("closed/user"), path("user/deep"));
	(void)!symlink("../user", path("user/self"));
	(void)!symlink(path("root"), path("allowed/out"));
	(void)!symlink(dir, path("state"));
}

/* A hutchd without privileges: process 1 opens the directory itself. What went wrong, or 0. */
static int unprivileged(void)
{
	char mine[] = "/tmp/hutch-test-XXXXXX", text[2048], remove[128];
	struct engine_config config = { .loop = &loop, .state_dir = mine, .agent_fd = agent_fd };
	struct engine *eng = NULL;
	struct err err = { 0 };
	struct sandbox *sb;
	int bad = 0;

	if (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
	    setresuid(USER, USER, USER) < 0 || ev_init(&loop, NULL) < 0 || !mkdtemp(mine))
		return 1;
	(void)prctl(PR_SET_DUMPABLE, 1); /* as after an execve() */
	if (engine_new(&eng, &config, &err) < 0) {
		printf("# %s\n", err.msg);
		return 2;
	}
	(void)snprintf(text, sizeof(text),
		       "[{\"source\":\"%s\",\"target\":\"/a/b\",\"readonly\":false},"
		       "{\"source\":\"%s\",\"target\":\"/c\"}]",
		       path("user"), path("user"));
	sb = box_of(eng, USER, text, &err);
	if (!sb || !turn_until(sb->state == SANDBOX_RUNNING)) {
		printf("# %s\n", sb ? sb->why.msg : err.msg);
		bad = 3;
	} else if (strcmp(sh(sb, "head -1 /c/file; echo x > /a/b/y && cat /c/y && rm /a/b/y; "
				 "rm /c/file 2>&1 | sed 's/.*: //'"),
			  "secret\nx\nRead-only file system\n") != 0) {
		bad = 4;
	}
	away(sb);
	sb = box_with(eng, USER, "root", "/x", true);
	if (!turn_until(sb->state == SANDBOX_FAILED) || sb->why.code != EACCES)
		bad = 5;
	away(sb);
	engine_close(eng);
	(void)snprintf(remove, sizeof(remove), "rm -rf %s", mine);
	return system(remove) != 0 ? 6 : bad;
}

static void test_unprivileged(void)
{
	int status = -1;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int bad = unprivileged();

		(void)fflush(stdout);
		_exit(bad);
	}
	(void)waitpid(pid, &status, 0);
	is_int(status >> 8, 0, "without privileges");
}

int main(void)
{
	const char *places[] = { "/nowhere", NULL, NULL };
	char allowed_dir[256];
	struct engine *eng;
	char cmd[128];
	int fds;

	test_targets();
	if (geteuid() != 0)
		return tap_done();
	engine_test_begin();
	if (!mkdtemp(src))
		return 1;
	prepare();
	(void)snprintf(allowed_dir, sizeof(allowed_dir), "%s", path("allowed"));
	places[1] = allowed_dir;
	allowed = places;
	test_unprivileged();
	eng = open_with_allowed();
	wait_ms(500); /* what is made ahead */
	fds = count_fds();
	test_rows(eng);
	test_writable(eng, 0, "root");
	test_writable(eng, USER, "user");
	test_readonly(eng);
	test_hostile_layer(eng);
	eng = test_restart(eng);
	test_silent(eng);
	ok(turn_until(count_fds() <= fds + 1), "no descriptor is left: %d, before %d", count_fds(),
	   fds); /* one of the janitor's */
	engine_close(eng);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", src);
	ok(system(cmd) == 0, "sources are removed");
	return engine_test_end();
}
