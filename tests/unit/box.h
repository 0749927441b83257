/* box.h - a sandbox without the engine: image, layer, launch() and the protocol, for tests
 *
 * Everything is below one temporary directory; box_done() leaves nothing.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/args.h"
#include "agent/proto.h"
#include "base/auto.h"
#include "sandbox/launch.h"
#include "sandbox/tree.h"
#include "tests/unit/built.h"

#define BOX_BASE 0x7ff00000u /* far from what a daemon on this machine would use */

struct box {
	char dir[64]; /* the state directory */
	char layer_path[128];
	int state_fd, agent_fd;
	struct image *image;
	struct lo_request lo;
	struct id_range ids;
	struct launched proc;
	uint32_t next_id;
};

/* One command. */
struct run {
	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* NULL-terminated; NULL: a PATH */
	const char *cwd, *user, *script;
	const char *input;
	uint32_t flags; /* AGENT_MERGE, AGENT_SET_HOME */
	uint32_t script_slot;
	/* The answer. */
	uint32_t id;
	int pid;
	struct agent_event end; /* AGENT_EXITED or AGENT_FAILED; kind 0: the agent is gone */
	char out[16384], err[16384];
};

static inline double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Why these tests cannot run here, or NULL. */
static inline const char *box_unable(void)
{
	if (geteuid() != 0)
		return "needs root";
	if (built_agent() < 0)
		return "hutch-agent is not built";
	return NULL;
}

static inline int box_init(struct box *b, struct err *err)
{
	memset(b, 0, sizeof(*b));
	snprintf(b->dir, sizeof(b->dir), "%s/hutch-test-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(b->dir))
		return err_set(err, errno, "mkdtemp");
	b->state_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	b->agent_fd = built_agent();
	b->ids = (struct id_range){ BOX_BASE, 65536 };
	b->proc = (struct launched){ -1, -1, -1 };
	snprintf(b->layer_path, sizeof(b->layer_path), "%s/layer", b->dir);
	if (lo_request_build(&b->lo, err) < 0 ||
	    image_host_new(&b->image, b->state_fd, b->dir, err) < 0 ||
	    layer_make(b->image, b->state_fd, "layer", &b->ids, err) < 0)
		return -err->code;
	return 0;
}

/* The next event, waiting at most five seconds; false: none, or the agent is gone. */
static inline bool box_event(struct box *b, struct agent_event *ev)
{
	struct pollfd p = { .fd = b->proc.control, .events = POLLIN };
	char bytes[sizeof(*ev) + 1];
	ssize_t n;

	if (poll(&p, 1, 5000) != 1)
		return false;
	n = recv(b->proc.control, bytes, sizeof(bytes), 0);
	if (n <= 0 || !agent_event_check(bytes, (size_t)n))
		return false;
	memcpy(ev, bytes, sizeof(*ev));
	return true;
}

static inline int box_launch(struct box *b, struct err *err)
{
	auto_close int layer = openat(b->state_fd, "layer", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct launch_name name;
	const struct launch_plan plan = {
		.cgroup_fd = -1,
		.name = &name,
		.ids = b->ids,
		.image = b->image,
		.layer = layer,
		.layer_path = b->layer_path,
		.agent_fd = b->agent_fd,
		.lo = &b->lo,
	};

	launch_name_fill(&name, "box");
	return launch(&plan, &b->proc, err);
}

/* launch() until the agent's first message. */
static inline int box_start(struct box *b, struct err *err)
{
	struct agent_event ev;
	int r = box_launch(b, err);

	if (r < 0)
		return r;
	if (!box_event(b, &ev))
		return err_say(err, EPROTO, "no event");
	if (ev.kind == AGENT_SETUP_FAILED)
		return err_set(err, ev.error, "%s", launch_stage_name((unsigned)ev.value));
	return ev.kind == AGENT_READY ? 0 : err_say(err, EPROTO, "event %u", ev.kind);
}

/* Closes the socket and reaps: the wait status of process 1, or -1 if it did not end. */
static inline int box_stop(struct box *b)
{
	struct pollfd p = { .fd = b->proc.pidfd, .events = POLLIN };
	int status = -1;

	close_auto(&b->proc.control);
	if (b->proc.pidfd < 0)
		return -1;
	if (poll(&p, 1, 5000) != 1) {
		printf("# process 1 did not end by itself\n");
		(void)kill(b->proc.pid, SIGKILL);
		(void)waitpid(b->proc.pid, &status, 0);
		status = -1;
	} else {
		(void)waitpid(b->proc.pid, &status, 0);
	}
	close_auto(&b->proc.pidfd);
	return status;
}

static inline void box_done(struct box *b)
{
	(void)box_stop(b);
	image_free(b->image);
	close_auto(&b->state_fd);
	close_auto(&b->agent_fd);
	(void)tree_remove(AT_FDCWD, b->dir, NULL);
}

static inline size_t vector_len(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static inline void box_signal(struct box *b, uint32_t id, int sig, bool group)
{
	struct agent_signal m = { AGENT_OP_SIGNAL, id, sig, group };

	(void)!write(b->proc.control, &m, sizeof(m));
}

/* `block`: m->args_len bytes behind the head; NULL: none. */
static inline bool box_send_block(struct box *b, const struct agent_exec *m, const void *block,
				  const int *fd, size_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(AGENT_EXEC_FDS_MAX * sizeof(int))];
	} cm = { 0 };
	unsigned char bytes[sizeof(*m) + AGENT_ARGS_INLINE];
	struct iovec iov = { bytes, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	memcpy(bytes, m, sizeof(*m));
	if (block) {
		memcpy(bytes + sizeof(*m), block, m->args_len);
		iov.iov_len += m->args_len;
	}

	if (n > 0) {
		cm.align = (struct cmsghdr){ CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&cm.align), fd, n * sizeof(int));
		msg.msg_control = &cm;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	return sendmsg(b->proc.control, &msg, MSG_NOSIGNAL) == (ssize_t)iov.iov_len;
}

static inline bool box_send(struct box *b, const struct agent_exec *m, const int *fd, size_t n)
{
	return box_send_block(b, m, NULL, fd, n);
}

static inline int text_memfd(const char *text)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	(void)!write(fd, text, strlen(text));
	return fd;
}

/* Sends the command; pipe[0] and [1] are the reading ends of its output. */
static inline bool run_begin(struct box *b, struct run *r, int out[2])
{
	static const char *const path[] = { "PATH=/usr/bin:/bin", NULL };
	const char *const *env = r->env ? r->env : path;
	struct agent_command cmd = { r->argv,
				     vector_len(r->argv),
				     env,
				     vector_len(env),
				     r->cwd,
				     r->user,
				     r->script ? r->script_slot : AGENT_NO_SLOT };
	struct agent_exec m = { .op = AGENT_OP_EXEC, .id = ++b->next_id, .flags = r->flags };
	int fd[AGENT_EXEC_FDS_MAX], in[2] = { -1, -1 }, w[2][2];
	struct agent_packed args;
	size_t n = 0;
	bool sent;

	if (r->script) {
		cmd.argc += r->argv[cmd.argc] == NULL && r->script_slot == cmd.argc;
		m.flags |= AGENT_HAS_SCRIPT;
	}
	m.flags |= AGENT_HAS_STDIN | AGENT_HAS_STDOUT | (r->cwd ? AGENT_HAS_CWD : 0) |
		   (r->user ? AGENT_HAS_USER : 0);
	if (agent_args_pack(&args, &cmd, NULL) < 0)
		return false;
	m.args_len = args.len;
	if (args.fd >= 0)
		fd[n++] = args.fd;
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(w[0], O_CLOEXEC) < 0 || pipe2(w[1], O_CLOEXEC) < 0)
		return false;
	if (r->input)
		(void)!write(in[1], r->input, strlen(r->input));
	fd[n++] = in[0];
	fd[n++] = w[0][1];
	if (!(r->flags & AGENT_MERGE)) {
		m.flags |= AGENT_HAS_STDERR;
		fd[n++] = w[1][1];
	}
	if (r->script)
		fd[n++] = text_memfd(r->script);
	for (size_t i = args.fd >= 0; i < n; i++)
		(void)!fchown(fd[i], b->ids.base, b->ids.base);
	r->id = m.id;
	sent = box_send_block(b, &m, args.fd < 0 ? args.block : NULL, fd, n);
	for (size_t i = 0; i < n; i++)
		(void)close(fd[i]);
	if (r->flags & AGENT_MERGE)
		(void)close(w[1][1]);
	(void)close(in[1]);
	out[0] = w[0][0];
	out[1] = w[1][0];
	return sent;
}

static inline void drain(int fd, char *to, size_t size)
{
	size_t n = 0;
	char waste[4096] = { 0 };
	ssize_t got;

	do {
		bool room = n + 1 < size;

		got = read(fd, room ? to + n : waste, room ? size - 1 - n : sizeof(waste));
		n += room && got > 0 ? (size_t)got : 0;
	} while (got > 0);
	to[n] = '\0';
	(void)close(fd);
}

/* Waits until this command is over. False: the agent is gone, or silent. */
static inline bool run_wait(struct box *b, struct run *r)
{
	while (box_event(b, &r->end)) {
		if (r->end.kind == AGENT_STARTED && r->end.id == r->id)
			r->pid = r->end.value;
		else if (r->end.id == r->id)
			return true;
	}
	r->end = (struct agent_event){ 0 };
	return false;
}

/* Runs one command to its end, and to the end of its streams. */
static inline bool box_run(struct box *b, struct run *r)
{
	int out[2];

	if (!run_begin(b, r, out))
		return false;
	drain(out[0], r->out, sizeof(r->out));
	drain(out[1], r->err, sizeof(r->err));
	return run_wait(b, r);
}

/* The same for a shell command; returns its output, valid until the next call. */
static inline const char *box_sh_as(struct box *b, const char *user, const char *text)
{
	static struct run r;
	bool ran;
	const char *argv[] = { "/bin/sh", "-c", text, NULL };

	memset(&r, 0, sizeof(r));
	r.argv = argv;
	r.user = user;
	r.flags = AGENT_MERGE;
	ran = box_run(b, &r) && r.end.kind == AGENT_EXITED;
	r.argv = NULL;
	return ran ? r.out : "(not run)";
}

static inline const char *box_sh(struct box *b, const char *text)
{
	return box_sh_as(b, NULL, text);
}
