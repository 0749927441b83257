/* spawn.c - one command, from the message to its execve()
 *
 * The child shares the agent's memory and the agent waits until it has another
 * image (vfork): no page tables are copied, and a failure comes back through
 * struct spawn.  Hence the rules for child_main(): it touches nothing but that
 * struct, its own part of the stack, and errno.
 *
 * A process of the sandbox with the right to may stop that child before its
 * execve(), and with it the agent.  It harms its own sandbox only: hutchd waits
 * for no answer, and SIGKILL of process 1 ends everything.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent-internal.h"
#include "base/auto.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Of these a command with a terminal has the first only. */
#define TTY_KNOWS (AGENT_HAS_STDIN | AGENT_HAS_STDOUT | AGENT_HAS_STDERR | AGENT_MERGE)

_Static_assert(sizeof(char *) == sizeof(uint64_t), "slots become pointers in place");

static int fail(struct spawn *s, enum agent_stage stage, int r)
{
	s->stage = stage;
	s->error = -r;
	return r;
}

/* Sorts the descriptors by the flags of the message. */
static int take_fds(struct spawn *s)
{
	static const uint32_t has[] = { AGENT_HAS_STDIN, AGENT_HAS_STDOUT, AGENT_HAS_STDERR };
	unsigned at = !s->is_inline;

	if ((s->req.flags & AGENT_MERGE) && (s->req.flags & AGENT_HAS_STDERR))
		return -EINVAL;
	if ((s->req.flags & AGENT_TTY) && (s->req.flags & TTY_KNOWS) != AGENT_HAS_STDIN)
		return -EINVAL;
	s->script = -1;
	for (unsigned i = 0; i < 3; i++) {
		s->stdio[i] = -1;
		if ((s->req.flags & has[i]) && at < s->fd_n)
			s->stdio[i] = s->fd[at++];
		else if (s->req.flags & has[i])
			return -EINVAL;
	}
	if (s->req.flags & AGENT_TTY)
		s->stdio[1] = s->stdio[0];
	if (s->req.flags & (AGENT_MERGE | AGENT_TTY))
		s->stdio[2] = s->stdio[1];
	if (s->req.flags & AGENT_HAS_SCRIPT) {
		if (at >= s->fd_n)
			return -EINVAL;
		s->script = s->fd[at++];
	}
	s->group = -1;
	if (s->req.flags & (AGENT_HAS_GROUP | AGENT_HAS_TASKS)) {
		if (at >= s->fd_n)
			return -EINVAL;
		s->group = s->fd[at++];
	}
	return at == s->fd_n ? 0 : -EINVAL;
}

/* Where the strings are in the block: behind the slots, up to a NUL at the very end. */
struct bounds {
	char *block;
	size_t low, len;
};

static char *string_at(const struct bounds *b, uint64_t off)
{
	return off >= b->low && off < b->len ? b->block + off : NULL;
}

/* Offsets to pointers, in place.  `hole` may be 0: it is filled in later. */
static int relocate(const struct bounds *b, uint64_t *slot, uint32_t n, uint32_t hole)
{
	for (uint32_t i = 0; i < n; i++) {
		char *s = string_at(b, slot[i]);

		if (!s && i != hole)
			return -EINVAL;
		slot[i] = (uintptr_t)s;
	}
	return slot[n] == 0 ? 0 : -EINVAL;
}

static int map_args(struct spawn *s)
{
	size_t len = s->req.args_len, slots;
	struct agent_args *args;
	uint64_t *slot;
	struct bounds b;

	if (len <= sizeof(*args))
		return -EINVAL;
	args = s->is_inline ? &s->block.args
			    : mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE,
				   s->fd[0], 0);
	if (args == MAP_FAILED)
		return -errno;
	s->args = args;
	slots = (size_t)args->argc + 1 + (size_t)args->envc + 2;
	b = (struct bounds){ (char *)args, sizeof(*args) + slots * sizeof(*slot), len };
	if (args->argc == 0 || b.low >= len || b.block[len - 1] != '\0')
		return -EINVAL;
	if ((s->script >= 0) != (args->script_slot < args->argc))
		return -EINVAL;
	slot = (uint64_t *)(args + 1);
	s->argv = (char **)slot;
	s->envp = (char **)(slot + args->argc + 1);
	if (relocate(&b, slot, args->argc, args->script_slot) < 0 ||
	    relocate(&b, slot + args->argc + 1, args->envc, AGENT_NO_SLOT) < 0)
		return -EINVAL;
	s->cwd = s->req.flags & AGENT_HAS_CWD ? string_at(&b, args->cwd) : NULL;
	if ((s->req.flags & AGENT_HAS_CWD) && !s->cwd)
		return -EINVAL;
	return 0;
}

/* Behind map_args(); the string is in the block. */
static int resolve_user(struct spawn *s)
{
	const struct agent_args *args = s->args;
	const char *spec = NULL;
	int r;

	if (!args)
		return -EINVAL;
	if (s->req.flags & AGENT_HAS_USER) {
		if (args->user < sizeof(*args) || args->user >= s->req.args_len)
			return -EINVAL;
		spec = (const char *)args + args->user;
	}
	r = user_resolve(&s->user, spec);
	if (r < 0)
		return r;
	s->changes_ids = s->user.uid != 0 || s->user.gid != 0 || s->user.groups_n > 0;
	if (s->req.flags & AGENT_SET_HOME)
		s->envp[args->envc] = s->user.home_env; /* the spare slot; a NULL follows */
	return 0;
}

/* The command's user must be able to open /dev/stdout and the like again.  Only pipes, and a
 * terminal of its own, which stays in its group (tty): what else may come is shared with others. */
static int give_stdio(const struct spawn *s)
{
	struct stat st;

	if (s->user.uid == 0 && s->user.gid == 0)
		return 0;
	if (s->req.flags & AGENT_TTY)
		return fchown(s->stdio[0], s->user.uid, (gid_t)-1) < 0 ? -errno : 0;
	for (unsigned i = 0; i < 3; i++) {
		if (s->stdio[i] < 0 || (i == 2 && s->stdio[2] == s->stdio[1]))
			continue;
		if (fstat(s->stdio[i], &st) < 0)
			return -errno;
		if (S_ISFIFO(st.st_mode) && fchown(s->stdio[i], s->user.uid, s->user.gid) < 0)
			return -errno;
	}
	return 0;
}

static int copy_bytes(int to, int from)
{
	off_t off = 0;
	struct stat st;

	if (fstat(from, &st) < 0)
		return -errno;
	while (off < st.st_size) {
		ssize_t n = sendfile(to, from, &off, (size_t)(st.st_size - off));

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return 0;
}

/* The file is closed for writing before the child exists, else its execve() is ETXTBSY. */
static int write_script(const struct agent *a, struct spawn *s)
{
	char name[11];
	int fd, r;

	script_name(name, s->req.id);
	fd = openat(a->scripts, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
	if (fd < 0)
		return -errno;
	r = copy_bytes(fd, s->script);
	if (r == 0 && fchown(fd, s->user.uid, s->user.gid) < 0)
		r = -errno;
	(void)close(fd);
	if (r < 0) {
		(void)unlinkat(a->scripts, name, 0);
		return r;
	}
	memcpy(s->script_path, AGENT_SCRIPT_DIR "/", sizeof(AGENT_SCRIPT_DIR "/"));
	memcpy(s->script_path + strlen(AGENT_SCRIPT_DIR "/"), name, strlen(name) + 1);
	s->argv[s->args->script_slot] = s->script_path;
	return 0;
}

/* ---- in the child ---- */

static const char *env_path(char *const *envp)
{
	for (; *envp; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	return DEFAULT_PATH;
}

/* As execvp() searches, without its allocation and without running what is no program by sh.
 * Returns a positive errno, or not at all. */
static int search_and_exec(const struct spawn *s)
{
	const char *file = s->argv[0];
	size_t len = strlen(file);
	char path[4096 + 1];
	bool denied = false;

	if (len == 0)
		return ENOENT;
	if (strchr(file, '/')) {
		(void)execve(file, s->argv, s->envp);
		return errno;
	}
	if (len > NAME_MAX)
		return ENAMETOOLONG;
	for (const char *p = env_path(s->envp), *end;; p = end + 1) {
		size_t n;

		end = strchrnul(p, ':');
		n = (size_t)(end - p);
		if (n + 1 + len < sizeof(path)) {
			memcpy(path, p, n);
			path[n] = '/';
			memcpy(path + n + (n > 0), file, len + 1); /* empty: the cwd */
			(void)execve(path, s->argv, s->envp);
			if (errno == EACCES)
				denied = true;
			else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE &&
				 errno != ENODEV && errno != ETIMEDOUT)
				return errno;
		}
		if (!*end)
			return denied ? EACCES : ENOENT;
	}
}

/* Plain system calls: glibc's wrappers would tell threads of an agent that has none. */
static int change_ids(const struct user *u)
{
	if (syscall(SYS_setgroups, u->groups_n, u->groups) < 0 ||
	    syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
	    syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
		return errno;
	/* The kernel has set fs.suid_dumpable on the memory that is still the agent's too. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	return 0;
}

static int change_dir(const struct spawn *s)
{
	if (s->cwd)
		return chdir(s->cwd) < 0 ? errno : 0;
	if (chdir(s->user.home_env + strlen("HOME=")) < 0 && chdir("/") < 0)
		return errno;
	return 0;
}

/* Of its own, so that the child does not write to the frame that the agent goes on with. */
static __attribute__((noinline)) _Noreturn void child_main(struct spawn *s)
{
	sigset_t none;

	(void)setsid(); /* cannot fail: this process leads no group yet */
	s->stage = AGENT_STAGE_GROUP;
	if ((s->req.flags & AGENT_HAS_TASKS) && write(s->group, "0", 1) < 0)
		goto failed;
	s->stage = AGENT_STAGE_STDIO;
	for (int i = 0; i < 3; i++)
		if (s->stdio[i] >= 0 && dup2(s->stdio[i], i) < 0)
			goto failed;
	if ((s->req.flags & AGENT_TTY) && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
		goto failed;
	s->stage = AGENT_STAGE_IDS;
	if (s->changes_ids && (errno = change_ids(&s->user)) != 0) {
		if (errno == EINVAL)
			s->stage = AGENT_STAGE_USER; /* an id that is not mapped */
		goto failed;
	}
	s->stage = AGENT_STAGE_CWD;
	if ((errno = change_dir(s)) != 0)
		goto failed;
	s->stage = AGENT_STAGE_EXEC;
	/* All are close-on-exec already; this is for the one that somebody forgets. */
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	errno = search_and_exec(s);
failed:
	s->error = errno;
	_exit(127);
}

/* ---- in the agent ---- */

static int prepare(struct agent *a, struct spawn *s)
{
	int r;

	if (s->fd_n == 0 && !s->is_inline)
		return fail(s, AGENT_STAGE_REQUEST, -EINVAL);
	r = take_fds(s);
	if (r == 0)
		r = map_args(s);
	if (r < 0)
		return fail(s, AGENT_STAGE_REQUEST, r);
	r = resolve_user(s);
	if (r < 0)
		return fail(s, AGENT_STAGE_USER, r);
	r = give_stdio(s);
	if (r < 0)
		return fail(s, r == -EINVAL ? AGENT_STAGE_USER : AGENT_STAGE_STDIO, r);
	if (a->live_n == AGENT_LIVE_MAX)
		return fail(s, AGENT_STAGE_FORK, -EAGAIN);
	r = s->script >= 0 ? write_script(a, s) : 0;
	if (r < 0)
		return fail(s, AGENT_STAGE_SCRIPT, r);
	return 0;
}

static pid_t start(struct agent *a, struct spawn *s)
{
	struct clone_args into = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)s->group,
	};
	long pid;

	/* What posix_spawn() is made of; each must be called from the frame that goes on. */
	if (s->req.flags & AGENT_HAS_GROUP)
		pid = clone3_vfork(&into, sizeof(into));
	else
		pid = vfork(); /* NOLINT(*vfork) */
	if (pid < -1 || (pid < 0 && (s->req.flags & AGENT_HAS_GROUP))) {
		errno = (int)-pid;
		pid = -1;
	}

	if (pid == 0)
		child_main(s); /* never returns into this frame. NOLINT(*Vfork) */
	if (pid < 0)
		(void)fail(s, AGENT_STAGE_FORK, -errno);
	else if (s->error)
		(void)waitpid((pid_t)pid, NULL, 0);
	if (s->error && s->script >= 0)
		(void)unlinkat(a->scripts, s->script_path + strlen(AGENT_SCRIPT_DIR "/"), 0);
	return (pid_t)pid;
}

void agent_exec(struct agent *a)
{
	struct spawn *s = &a->spawn;
	struct agent_event ev = { .id = s->req.id };
	pid_t pid = -1;

	s->args = NULL;
	s->stage = s->error = 0;
	if (prepare(a, s) == 0)
		pid = start(a, s);
	if (s->error) {
		ev.kind = AGENT_FAILED;
		ev.value = s->stage;
		ev.error = s->error;
	} else {
		ev.kind = AGENT_STARTED;
		ev.value = pid;
		agent_leader_add(a, s->req.id, pid);
	}
	for (unsigned i = 0; i < s->fd_n; i++)
		(void)close(s->fd[i]);
	s->fd_n = 0;
	agent_send(&ev);
	if (s->args && !s->is_inline)
		(void)munmap(s->args, s->req.args_len);
}
