/* exec_start.c - a request becomes a message to the agent
 *
 * The environment is layered: the request's over the sandbox's over the defaults.
 * HOME is the agent's to add when nobody has set it: only inside is it known where
 * a user lives.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "agent/args.h"
#include "base/auto.h"
#include "base/file.h"
#include "sandbox/sandbox-internal.h"

/* A script of this size and more does not fit into an argument: it becomes a file. */
#define SCRIPT_ARG_MAX (128 * 1024)

static const char *const default_env[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
	"TERM=xterm-256color", /* the last: of a command with a terminal only */
};

struct message {
	const char *script_argv[4];
	char term[sizeof("TERM=") + PTY_TERM_MAX];
	const char **env;
	size_t envc;
	struct agent_command cmd;
	struct agent_exec head;
	struct agent_packed args;
	int fd[AGENT_EXEC_FDS_MAX];
	size_t fds;
	int script, group; /* owned, -1: none */
};

static bool has_key(const char *const *env, size_t n, const char *pair)
{
	size_t key_len = strcspn(pair, "=") + 1;

	for (size_t i = 0; i < n; i++)
		if (strncmp(env[i], pair, key_len) == 0)
			return true;
	return false;
}

/* Adds the pairs whose keys a higher layer has not set. */
static void layer_env(struct message *m, const char *const *pairs, size_t n)
{
	size_t above = m->envc;

	for (size_t i = 0; i < n; i++)
		if (!has_key(m->env, above, pairs[i]))
			m->env[m->envc++] = pairs[i];
}

static int compose_env(struct message *m, const struct exec *ex)
{
	const struct env *own = &ex->request.env, *spec = &ex->sandbox->spec.env;
	const struct exec_pty *pty = &ex->request.pty;
	const char *term = m->term;

	m->env = calloc(own->n + 1 + spec->n + ARRAY_SIZE(default_env), sizeof(*m->env));
	if (!m->env)
		return -ENOMEM;
	layer_env(m, (const char *const *)own->v, own->n);
	(void)snprintf(m->term, sizeof(m->term), "TERM=%s", pty->term);
	layer_env(m, &term, *pty->term != '\0');
	layer_env(m, (const char *const *)spec->v, spec->n);
	layer_env(m, default_env, ARRAY_SIZE(default_env) - !pty->on);
	m->cmd.env = m->env;
	m->cmd.envc = m->envc;
	if (!has_key(m->env, m->envc, "HOME="))
		m->head.flags |= AGENT_SET_HOME;
	return 0;
}

static int script_file(struct message *m, const struct exec_request *req)
{
	int r;

	m->script = memfd_create("hutch-script", MFD_CLOEXEC);
	if (m->script < 0)
		return -errno;
	r = write_all(m->script, req->script, req->script_len);
	m->head.flags |= AGENT_HAS_SCRIPT;
	return r;
}

static int compose_argv(struct message *m, const struct exec_request *req)
{
	bool own_interpreter = !req->argv && strncmp(req->script, "#!", 2) == 0;

	m->cmd.script_slot = AGENT_NO_SLOT;
	if (req->argv) {
		m->cmd.argv = (const char *const *)req->argv;
		m->cmd.argc = req->argc;
		return 0;
	}
	m->cmd.argv = m->script_argv;
	if (own_interpreter) {
		m->cmd.script_slot = 0;
		m->cmd.argc = 1;
		return script_file(m, req);
	}
	m->script_argv[0] = "/bin/sh";
	if (req->script_len >= SCRIPT_ARG_MAX) {
		m->cmd.script_slot = 1;
		m->cmd.argc = 2;
		return script_file(m, req);
	}
	m->script_argv[1] = "-c";
	m->script_argv[2] = req->script;
	m->cmd.argc = 3;
	return 0;
}

static void add_fd(struct message *m, int fd, uint32_t flag)
{
	if (fd < 0)
		return;
	m->fd[m->fds++] = fd;
	m->head.flags |= flag;
}

/* A group of its own, the same when sending is tried again: a second one would have its name. */
static int make_group(struct message *m, struct exec *ex, struct err *err)
{
	struct cgroups *set = &ex->sandbox->engine->groups;

	if (set->kind == CGROUP_NONE)
		return 0;
	if (!ex->group) {
		ex->group = cgroup_take(ex->sandbox->run->groups, err);
		if (!ex->group)
			return err->code ? -err->code : -EIO;
		ex->group->owner = ex;
		ex->group->gone = exec_on_group_gone;
	}
	m->group = cgroup_open_join(ex->group, err);
	if (m->group < 0)
		return m->group;
	m->head.flags |= set->kind == CGROUP_V2 ? AGENT_HAS_GROUP : AGENT_HAS_TASKS;
	return 0;
}

static int compose(struct message *m, struct exec *ex, struct err *err)
{
	const struct exec_request *req = &ex->request;
	const struct spec *spec = &ex->sandbox->spec;
	int r = compose_argv(m, req);

	if (r == 0)
		r = compose_env(m, ex);
	if (r < 0)
		return err_set(err, -r, "prepare the command");
	if (req->pty.on && (r = pty_open(ex, err)) < 0)
		return r;
	m->cmd.cwd = req->cwd ? req->cwd : spec->cwd;
	m->cmd.user = req->user ? req->user : spec->user;
	m->head.flags |= (m->cmd.cwd ? AGENT_HAS_CWD : 0) | (m->cmd.user ? AGENT_HAS_USER : 0) |
			 (req->pty.on                            ? AGENT_TTY
			  : req->stderr_mode == EXEC_STDIO_MERGE ? AGENT_MERGE
								 : 0);
	r = agent_args_pack(&m->args, &m->cmd, err);
	if (r < 0)
		return r;
	m->head.args_len = m->args.len;
	r = make_group(m, ex, err);
	if (r < 0)
		return r;
	add_fd(m, m->args.fd, 0);
	add_fd(m, ex->child[0], AGENT_HAS_STDIN);
	add_fd(m, ex->child[1], AGENT_HAS_STDOUT);
	add_fd(m, ex->child[2], AGENT_HAS_STDERR);
	add_fd(m, m->script, 0);
	add_fd(m, m->group, 0);
	m->head.op = AGENT_OP_EXEC;
	m->head.id = ex->serial;
	return 0;
}

static int send_message(struct message *m, int control, struct err *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * AGENT_EXEC_FDS_MAX)];
	} fds = { 0 };
	struct iovec iov[] = {
		{ .iov_base = &m->head, .iov_len = sizeof(m->head) },
		{ .iov_base = m->args.block, .iov_len = m->args.fd < 0 ? m->args.len : 0 },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = ARRAY_SIZE(iov) };

	if (m->fds) {
		struct cmsghdr *c = &fds.align;

		msg.msg_control = &fds;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * m->fds);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * m->fds);
		memcpy(CMSG_DATA(c), m->fd, sizeof(int) * m->fds);
	}
	if (sendmsg(control, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return errno == EAGAIN || errno == EINTR
			       ? -EAGAIN
			       : err_set(err, errno, "send the command to its sandbox");
	return 0;
}

static void on_deadline(struct ev_timer *timer)
{
	exec_on_deadline(container_of(timer, struct exec, deadline));
}

void exec_start_init(struct exec *ex)
{
	ev_timer_init(&ex->deadline, on_deadline);
}

static void begin_clock(struct exec *ex)
{
	double timeout = ex->request.timeout_s;

	(void)clock_gettime(CLOCK_REALTIME, &ex->started_at);
	ex->started_ns = ev_now();
	if (timeout > 0 && timeout < 1e9) /* thirty years are as good as none */
		ev_timer_set(ex->sandbox->engine->loop, &ex->deadline,
			     ex->started_ns + (int64_t)(timeout * 1e9));
}

int exec_send(struct exec *ex, int control)
{
	struct message m = { .args.fd = -1, .script = -1, .group = -1 };
	struct err err = { 0 };
	int r;

	begin_clock(ex);
	r = compose(&m, ex, &err);
	if (r == 0)
		r = send_message(&m, control, &err);
	if (r == 0 && !ex->request.pty.on) /* a terminal does not hang up before its leader ends */
		for (size_t i = 0; i < ARRAY_SIZE(ex->child); i++)
			close_auto(&ex->child[i]);
	free(m.env);
	close_auto(&m.args.fd);
	close_auto(&m.script);
	close_auto(&m.group);
	if (r < 0 && r != -EAGAIN)
		exec_fail(ex, 125, err.msg);
	return r;
}
