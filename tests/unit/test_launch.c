/* The wall: what a sandbox sees and may do, how it ends, and what a hostile layer can not do. */
#include <sched.h>
#include <sys/prctl.h>

#include "sandbox/launch-internal.h"
#include "tests/unit/box.h"
#include "tests/unit/tap.h"

/* ---- what is inside ---- */

static const struct {
	const char *what, *script, *want;
} views[] = {
	{ "hostname", "hostname; cat /etc/hostname", "box\nbox\n" },
	{ "umask", "umask", "0022\n" },
	{ "cwd", "pwd; ls -di / | cut -d/ -f1 >/dev/null; pwd -P", "/root\n/root\n" },
	{ "capabilities of a command",
	  "grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d '\\t'",
	  "CapInh:0000000000000000\nCapPrm:00000000a00405fb\nCapEff:00000000a00405fb\n"
	  "CapBnd:00000000a00405fb\nCapAmb:0000000000000000\nNoNewPrivs:1\n" },
	{ "process 1 holds one more, and nothing inheritable",
	  "grep -E '^(CapInh|CapPrm)' /proc/1/status | tr -d '\\t'",
	  "CapInh:0000000000000000\nCapPrm:00000000a00c05fb\n" },
	{ "loopback is up", "cat /sys/class/net/lo/operstate 2>/dev/null; ip -br link",
	  "lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \n" },
	{ "processes", "ps -eo comm= > /tmp/ps; sort -u /tmp/ps; rm /tmp/ps",
	  "hutch-agent\nps\nsh\n" },
	{ "limits",
	  "ulimit -Sn; ulimit -c; grep core /proc/self/limits | tr -s ' ' | cut -d' ' -f5,6",
	  "1024\n0\n1 1\n" },
	{ "devices", "ls /dev | tr '\\n' ' '",
	  "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero " },
	{ "devices work",
	  "head -c4 /dev/zero | wc -c; head -c4 /dev/urandom | wc -c; echo > /dev/null; echo > "
	  "/dev/full",
	  "4\n4\n/bin/sh: 1: echo: echo: I/O error\n" },
	{ "a new terminal", "script -qc 'tty' /dev/null < /dev/null | tr -d '\\r'",
	  "/dev/pts/0\n" },
	{ "top directories", "ls / | tr '\\n' ' ' | sed 's/lib[^ ]* //g'",
	  "bin dev etc home media mnt opt proc root run sbin srv sys tmp usr var " },
	{ "empty directories",
	  "ls -A /root /opt /srv /mnt /media /tmp /sys /home | grep -v :", "\n\n\n\n\n\n\n" },
	{ "file systems of a size", "df --output=size,target /tmp /dev/shm | tail -2 | tr -s ' '",
	  " 262144 /tmp\n 262144 /dev/shm\n" },
	{ "modes", "stat -c '%a %U %n' /tmp /var/tmp /dev/shm /root /run/hutch",
	  "1777 root /tmp\n1777 root /var/tmp\n1777 root /dev/shm\n700 root /root\n"
	  "711 root /run/hutch\n" },
	{ "/usr is read-only", "touch /usr/x 2>&1 | sed 's/.*: //'", "Read-only file system\n" },
	{ "everything else can be written",
	  "for d in / /root /home /opt /srv /var /var/lib /etc /etc/ssl /etc/ssl/certs /run /tmp; "
	  "do "
	  "touch $d/x && rm $d/x || echo no $d; done; echo '# x' >> /etc/profile; tail -1 "
	  "/etc/profile",
	  "# x\n" },
	{ "masked files are empty", "cat /proc/keys /proc/timer_list /proc/interrupts", "" },
	{ "kernel settings are read-only", "echo 1 > /proc/sys/net/ipv4/ip_forward",
	  "/bin/sh: 1: cannot create /proc/sys/net/ipv4/ip_forward: Read-only file system\n" },
	{ "no mount",
	  "mount -t tmpfs none /mnt 2>&1 | grep -c -i denied; umount /proc/keys 2>/dev/null || "
	  "echo no",
	  "1\nno\n" },
	{ "no device nodes", "mknod /tmp/x c 1 3 2>&1 | sed 's/.*: //'",
	  "Operation not permitted\n" },
	{ "no new hostname", "hostname x 2>&1 | sed 's/.*: //'",
	  "you must be root to change the host name\n" },
	{ "no private key of the host", "ls /etc/ssl/private /etc/shadow /etc/ssh 2>/dev/null",
	  "" },
	{ "a user by name", "id user; id -un 65534",
	  "uid=1000(user) gid=1000(user) groups=1000(user),100(users)\nnobody\n" },
	{ "localhost", "getent hosts localhost box | tr -s ' '",
	  "::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 box\n" },
};

static void test_views(struct box *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(views); i++)
		is_str(box_sh(b, views[i].script), views[i].want, "%s", views[i].what);
}

/* What a command's name leads to on the host must be there inside too. */
static void test_no_dangling(struct box *b)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					    "/usr/bin" };
	static char script[512 * 1024];
	size_t n = 0;
	unsigned commands = 0;
	struct run r = { .argv = (const char *[]){ "/bin/sh", NULL, NULL }, .script_slot = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		DIR *d = opendir(dirs[i]);

		for (struct dirent *e; d && (e = readdir(d));) {
			char path[512];

			snprintf(path, sizeof(path), "%s/%s", dirs[i], e->d_name);
			if (e->d_name[0] == '.' || access(path, X_OK) < 0 ||
			    n > sizeof(script) - 1024)
				continue;
			n += (size_t)snprintf(script + n, sizeof(script) - n,
					      "[ -e '%s' ] || echo '%s'\n", path, path);
			commands++;
		}
		if (d)
			(void)closedir(d);
	}
	r.script = script;
	ok(commands > 100 && box_run(b, &r), "%u commands are looked for", commands);
	is_str(r.out, "", "none dangles");
}

static void test_host_hidden(struct box *b)
{
	char script[256];
	int secret = openat(b->state_fd, "secret", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	snprintf(script, sizeof(script),
		 "ls %s 2>&1 | sed 's/.*: //'; ls /proc/%d 2>&1 | sed 's/.*: //'", b->dir,
		 getpid());
	is_str(box_sh(b, script), "No such file or directory\nNo such file or directory\n",
	       "neither files nor processes of the host");
	is_str(box_sh(b, "ls -l /proc/self/fd | grep -c -v -e pipe -e total -e /proc/"), "0\n",
	       "a command has three descriptors, all pipes");
	(void)close(secret);
}

/* ---- stop and start again ---- */

static void restart(struct box *b, const char *what)
{
	struct err err = { 0 };

	is_int(box_stop(b), 0, "stops: %s", what);
	ok(box_start(b, &err) == 0, "starts again: %s: %s", what, err.msg);
}

static void test_restart(struct box *b)
{
	(void)box_sh(b,
		     "echo kept > /root/kept; rm /etc/services; rm -rf /etc/perl; echo x > /tmp/x;"
		     "echo x > /run/hutch/99");
	restart(b, "an ordinary layer");
	is_str(box_sh(b, "cat /root/kept; ls -d /etc/services /etc/perl /tmp/* /run/hutch/* "
			 "2>/dev/null"),
	       "kept\n", "what was written is there, what was removed is not");
}

/* Each makes the layer's own entry, from outside, what a sandbox could have left. */
static const struct {
	const char *name, *target;
} traps[] = {
	{ "dev", "/etc" },
	{ "dev", "/" },
	{ "proc", "/etc" },
	{ "proc", "dev" },
	{ "tmp", "/etc" },
	{ "sys", "/etc" },
	{ "run", "/etc" },
	{ "run", "../../../../etc" },
	{ "usr", "/etc" },
	{ "usr", NULL },
	{ "dev", NULL },
	{ "run", NULL },
	{ "run/hutch", "/etc" },
	{ "run/hutch", NULL },
	{ "run", "/proc/self/fd" },
	{ "etc", "/root" },
};

static void test_hostile_layer(struct box *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(traps); i++) {
		char path[256], what[64];
		struct err err = { 0 };

		snprintf(what, sizeof(what), "%s -> %s", traps[i].name,
			 traps[i].target ? traps[i].target : "(a file)");
		(void)box_stop(b);
		snprintf(path, sizeof(path), "layer/upper/%s", traps[i].name);
		if (strchr(traps[i].name, '/'))
			(void)mkdirat(b->state_fd, "layer/upper/run", 0755);
		(void)tree_remove(b->state_fd, path, NULL);
		if (traps[i].target)
			(void)!symlinkat(traps[i].target, b->state_fd, path);
		else
			(void)close(
				openat(b->state_fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
		(void)!fchownat(b->state_fd, path, BOX_BASE, BOX_BASE, AT_SYMLINK_NOFOLLOW);
		ok(box_start(b, &err) == 0, "starts: %s: %s", what, err.msg);
		is_str(box_sh(b, "for d in /dev:tmpfs /proc:proc /tmp:tmpfs /run/hutch:tmpfs "
				 "/usr:; do "
				 "[ -L ${d%:*} ] && echo link $d; done;"
				 "cd /; mountpoint -q dev && mountpoint -q proc && mountpoint -q "
				 "tmp && "
				 "mountpoint -q run/hutch && mountpoint -q usr && echo mounted;"
				 "grep -c ' /etc\\|upper' /proc/mounts"),
		       "mounted\n1\n", "every mount is in its place: %s", what);
	}
	(void)box_stop(b);
}

/* The same on a file system that cannot be mounted with ids mapped: the layer has it all. */
static void test_no_idmap(struct box *b)
{
	struct err err = { 0 };
	bool idmaps = b->image->idmaps;

	(void)box_stop(b);
	b->image->idmaps = false;
	(void)!fchmodat(b->state_fd, "images/host/root", 0755, 0); /* as image_host.c does then */
	(void)tree_remove(b->state_fd, "layer", NULL);
	ok(layer_make(b->image, b->state_fd, "layer", &b->ids, &err) == 0 &&
		   box_start(b, &err) == 0,
	   "without mapped ids: %s", err.msg);
	is_str(box_sh(b, "for d in / /root /home /opt /srv /var /var/lib /etc /run /tmp; do "
			 "touch $d/x && rm $d/x || echo no $d; done; stat -c '%U %a %n' "
			 "/root; "
			 "cat /etc/hostname"),
	       "root 700 /root\nbox\n", "what must be writable is");
	(void)box_stop(b);
	b->image->idmaps = idmaps;
	(void)!fchmodat(b->state_fd, "images/host/root", 0700, 0);
	(void)tree_remove(b->state_fd, "layer", NULL);
	(void)layer_make(b->image, b->state_fd, "layer", &b->ids, &err);
}

/* ---- how it ends ---- */

static int leave(struct box *b)
{
	(void)box_launch(b, NULL);
	pause();
	return 0;
}

/* The pidfd of process 1 comes from a parent that is then killed. */
static void test_parent_killed(struct box *b)
{
	int pair[2];
	pid_t parent;

	(void)!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
	parent = fork();
	if (parent == 0) {
		struct err err = { 0 };
		int r = box_start(b, &err);

		(void)!write(pair[1], r == 0 ? &b->proc.pid : &(pid_t){ 0 }, sizeof(pid_t));
		_exit(leave(b));
	}
	pid_t one = 0;
	char path[64];

	(void)!read(pair[0], &one, sizeof(one));
	ok(one > 0, "process 1 is %d", one);
	snprintf(path, sizeof(path), "/proc/%d/ns", one);
	(void)kill(parent, SIGKILL);
	(void)waitpid(parent, NULL, 0);
	for (int i = 0; i < 200 && kill(one, 0) == 0; i++)
		(void)usleep(10000);
	ok(kill(one, 0) < 0 && errno == ESRCH, "it ends with its parent");
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* An agent image that is none: the last stage says so. */
static void test_bad_agent(struct box *b)
{
	int good = b->agent_fd;
	struct err err = { 0 };

	b->agent_fd = text_memfd("not a program");
	ok(box_start(b, &err) == -ENOEXEC, "no agent: %s", err.msg);
	ok(strstr(err.msg, "execute the agent"), "the sentence names the stage");
	(void)box_stop(b);
	close_auto(&b->agent_fd);
	b->agent_fd = good;
}

/* The same by a user without any privileges: one id, by path. */
static int unprivileged(void)
{
	struct box b = { 0 };
	struct err err = { 0 };
	const char *said = "";

	b.agent_fd = built_agent(); /* where we are may be closed to that user */
	if (setresgid(54321, 54321, 54321) < 0 || setresuid(54321, 54321, 54321) < 0)
		return 1;
	(void)prctl(PR_SET_DUMPABLE, 1); /* as after an exec: /proc/PID is ours */
	strcpy(b.dir, "/tmp/hutch-test-XXXXXX");
	b.proc = (struct launched){ -1, -1, -1 };
	b.ids = (struct id_range){ 54321, 1 };
	if (!mkdtemp(b.dir) || chmod(b.dir, 0700) < 0)
		return 1;
	b.state_fd = open(b.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(b.layer_path, sizeof(b.layer_path), "%s/layer", b.dir);
	if (lo_request_build(&b.lo, &err) == 0 &&
	    image_host_new(&b.image, b.state_fd, b.dir, &err) == 0 &&
	    layer_make(b.image, b.state_fd, "layer", &b.ids, &err) == 0 && box_start(&b, &err) == 0)
		said = box_sh(
			&b,
			"id -u; hostname; touch /etc/x /root/x && echo y; echo z > /dev/stderr");
	printf("# as user 54321: %s%s\n", err.msg, strcmp(said, "0\nbox\ny\nz\n") ? said : "good");
	(void)fflush(stdout);
	box_done(&b);
	return strcmp(said, "0\nbox\ny\nz\n") != 0;
}

static void test_unprivileged(struct box *b)
{
	int status;
	pid_t pid;

	(void)b;
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(unprivileged());
	(void)waitpid(pid, &status, 0);
	ok(status == 0, "a sandbox of an unprivileged user");
}

/* ---- how long it takes: printed, not judged ---- */

static void timing(struct box *b, unsigned pause_ms)
{
	enum { N = 30 };
	double layer = 0, ready = 0, run = 0, begin;

	for (int i = 0; i < N; i++) {
		const char *argv[] = { "/bin/true", NULL };
		struct run r = { .argv = argv };

		(void)tree_remove(b->state_fd, "layer", NULL);
		(void)usleep(pause_ms * 1000);
		begin = now_ms();
		(void)layer_make(b->image, b->state_fd, "layer", &b->ids, NULL);
		layer += now_ms() - begin;
		(void)usleep(pause_ms * 1000);
		begin = now_ms();
		(void)box_start(b, NULL);
		ready += now_ms() - begin;
		(void)box_run(b, &r);
		(void)usleep(pause_ms * 1000);
		begin = now_ms();
		(void)box_run(b, &r);
		run += now_ms() - begin;
		(void)box_stop(b);
	}
	printf("# pauses of %u ms: layer_make %.3f, launch to READY %.3f, /bin/true %.3f ms\n",
	       pause_ms, layer / N, ready / N, run / N);
}

int main(void)
{
	static void (*const tests[])(struct box *) = {
		test_views,     test_no_dangling,   test_host_hidden,
		test_restart,   test_hostile_layer, test_no_idmap,
		test_bad_agent, test_parent_killed, test_unprivileged,
	};
	const char *unable = box_unable();
	struct err err = { 0 };
	struct box b;
	double begin;

	if (unable) {
		printf("1..0 # SKIP %s\n", unable);
		return 0;
	}
	begin = now_ms();
	ok(box_init(&b, &err) == 0, "image and layer: %s", err.msg);
	printf("# %.1f ms\n", now_ms() - begin);
	ok(box_start(&b, &err) == 0, "a sandbox: %s", err.msg);
	for (size_t i = 0; err.code == 0 && i < ARRAY_SIZE(tests); i++)
		tests[i](&b);
	timing(&b, 0);
	timing(&b, 40);
	box_done(&b);
	return tap_done();
}
