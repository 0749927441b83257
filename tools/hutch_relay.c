/* hutch_relay.c - between a command's nodes and this process's own descriptors
 *
 * Three pumps (stdin, stdout, stderr), the node `code`, and a signalfd, in one
 * loop over poll(2).  A pump holds at most one buffer and waits either for bytes
 * to come or for room to put them.  Polling a node costs a request to hutchd, so
 * a pump goes on while it can and asks poll only when it cannot.
 *
 * The result does not wait for the streams' end: a process that was left behind
 * may hold them for hours.  What belongs to the command is in the streams before
 * the result is there, so from then on they are read up to the size they have.
 *
 * Between two terminals what is typed goes through the plan's `typed` first, which
 * may take a part of it for itself; see hutch_shell.c.
 *
 * Our own descriptors are shared with whoever started us and must not be made
 * non-blocking.  So: a pipe or terminal is opened anew for writing where that is
 * allowed, which gives a description of our own; elsewhere what is written at once
 * is no more than a pipe with any room takes.  Reading is asked for with poll
 * first, and a regular file never waits.
 */
#include "tools/hutch_relay.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"

#define PUMP_BUF  (512 * 1024)
#define PUMP_TURN (8 * 1024 * 1024) /* bytes in one turn, then signals are looked at */

struct relay;

struct pump {
	struct relay *typing; /* what is read goes through its plan's `typed`; NULL: it does not */
	int from, to;         /* borrowed or owned, see relay_open(); -1: closed */
	bool from_ours;       /* `from` is blocking: read only after poll */
	bool to_blocks;       /* `to` is blocking: write at most PIPE_BUF, and only after poll */
	char *buf;            /* owned, PUMP_BUF bytes */
	size_t at, len;       /* what is still to be written: buf[at] to buf[len - 1] */
	uint64_t total;       /* bytes read so far */
	char last;            /* of them, the last */
	uint64_t limit;       /* the stream is over when so many were read */
	bool over;
	int read_errno, write_errno; /* why it is over; 0: it came to the end */
};

enum { PUMP_OUT, PUMP_ERR, PUMP_IN, PUMP_COUNT };

struct relay {
	const struct relay_plan *plan;
	int code_fd; /* owned */
	struct pump pump[PUMP_COUNT];
	bool result; /* it is there: outcome.code */
	unsigned signals_seen;
	int interrupted; /* a signal after which we do not wait any longer; 0: none */
	struct relay_outcome outcome;
};

/* ---- one pump ---- */

static bool ready_now(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	return poll(&pfd, 1, 0) > 0;
}

static void relay_kill(struct relay *r)
{
	(void)hutch_write_text(r->plan->node, "ctl",
			       "kill\n"); /* it may be over: nothing is lost */
	r->outcome.killed = true;
}

/* Kills it, and does not wait for what its result will say. */
static void relay_break(struct relay *r, int sig)
{
	relay_kill(r);
	r->interrupted = sig;
}

/* `len` bytes are behind the first of buf. */
static size_t relay_typed(struct relay *r, char *buf, size_t len)
{
	bool end = false;

	len = r->plan->typing->typed(r->plan->typing, buf, buf + 1, len, &end);
	if (end)
		relay_break(r, SIGKILL);
	return len;
}

static size_t pump_room(const struct pump *p)
{
	return PUMP_BUF - (p->typing ? 1 : 0) - (p->len - p->at);
}

/* Behind what is still to be written, for which there is room. False: nothing to read just now, or
 * the pump is over. */
static bool pump_fill(struct pump *p)
{
	uint64_t left = p->limit - p->total;
	size_t room = pump_room(p);
	char *to, *from;
	ssize_t n;

	if (left == 0) {
		p->over = true;
		return false;
	}
	if (p->from_ours && !ready_now(p->from, POLLIN))
		return false;
	p->len -= p->at;
	memmove(p->buf, p->buf + p->at, p->len);
	p->at = 0;
	to = p->buf + p->len;
	from = p->typing ? to + 1 : to;
	n = read(p->from, from, left < room ? (size_t)left : room);
	if (n > 0) {
		p->last = from[n - 1];
		p->len += p->typing ? relay_typed(p->typing, to, (size_t)n) : (size_t)n;
		p->total += (uint64_t)n;
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	p->read_errno = n < 0 ? errno : 0;
	p->over = true;
	return false;
}

/* False: no room just now, or the pump is over. */
static bool pump_drain(struct pump *p)
{
	while (p->at < p->len) {
		size_t len = p->len - p->at;
		ssize_t n;

		if (p->to_blocks) {
			if (!ready_now(p->to, POLLOUT))
				return false;
			len = len < PIPE_BUF ? len : PIPE_BUF;
		}
		n = write(p->to, p->buf + p->at, len);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (n < 0) {
			p->write_errno = errno;
			p->over = true;
			return false;
		}
		p->at += (size_t)n;
	}
	return true;
}

static void pump_turn(struct pump *p)
{
	uint64_t start = p->total;

	while (!p->over && p->total - start < PUMP_TURN)
		if (!pump_drain(p) || !pump_fill(p))
			return;
}

static void pump_want(const struct pump *p, struct pollfd *pfd)
{
	bool draining = p->at < p->len;

	*pfd = (struct pollfd){ .fd = p->over    ? -1
				      : draining ? p->to
						 : p->from,
				.events = draining ? POLLOUT : POLLIN };
}

/* What is typed is looked at also when the command takes nothing, or there would be no way out. */
static int typed_from(const struct pump *p)
{
	return p->typing && !p->over && p->at < p->len && pump_room(p) > 0 ? p->from : -1;
}

/* ---- opening ---- */

/* Where `fd` may be written without waiting. */
static int open_ours(int fd, bool *blocks)
{
	char path[32];
	struct stat st;
	int own;

	*blocks = false;
	if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode))
		return fcntl(fd, F_DUPFD_CLOEXEC, 3);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = -1;
	if (!S_ISSOCK(st.st_mode) && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
		own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own >= 0)
		return own;
	*blocks = true;
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int open_node(const struct relay *r, const char *name, int flags, struct err *err)
{
	int fd = openat(r->plan->node, name, flags | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? err_set(err, errno, "open '%s'", name) : fd;
}

static void pump_init(struct pump *p)
{
	*p = (struct pump){ .from = -1, .to = -1, .limit = UINT64_MAX, .buf = malloc(PUMP_BUF) };
}

static void pump_done(struct pump *p)
{
	close_auto(&p->from);
	close_auto(&p->to);
	free(TAKE_PTR(p->buf));
}

static int relay_open(struct relay *r, struct err *err)
{
	static const char *const names[] = { "stdout", "stderr" };

	for (int i = 0; i < PUMP_COUNT; i++)
		if (!r->pump[i].buf)
			return err_set(err, ENOMEM, "a buffer of %d bytes", PUMP_BUF);
	r->code_fd = open_node(r, "code", O_RDONLY, err);
	if (r->code_fd < 0)
		return r->code_fd;
	for (int i = PUMP_OUT; i <= PUMP_ERR; i++) {
		struct pump *p = &r->pump[i];

		p->from = open_node(r, names[i], O_RDONLY, err);
		if (p->from < 0)
			return p->from;
		p->to = open_ours(STDOUT_FILENO + i, &p->to_blocks);
		if (p->to < 0)
			return err_set(err, errno, "copy descriptor %d", STDOUT_FILENO + i);
	}
	if (!r->plan->forward_stdin) {
		r->pump[PUMP_IN].over = true;
		return 0;
	}
	/* O_TRUNC: closing it is an EOF for the command, also when nothing was written. */
	r->pump[PUMP_IN].to = open_node(r, "stdin", O_WRONLY | O_TRUNC, err);
	if (r->pump[PUMP_IN].to < 0)
		return r->pump[PUMP_IN].to;
	r->pump[PUMP_IN].from = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	r->pump[PUMP_IN].from_ours = true;
	r->pump[PUMP_IN].typing = r->plan->typing ? r : NULL;
	return r->pump[PUMP_IN].from < 0 ? err_set(err, errno, "copy standard input") : 0;
}

/* ---- signals ---- */

int relay_signals(bool terminal, struct err *err)
{
	static const int forwarded[] = { SIGINT,   SIGTERM, SIGHUP, SIGQUIT,
					 SIGWINCH, SIGTSTP, SIGCONT };
	size_t n = terminal ? ARRAY_SIZE(forwarded) : 4;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < n; i++) {
		struct sigaction old;

		if (sigaction(forwarded[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaddset(&set, forwarded[i]);
	}
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return err_set(err, errno, "block signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_set(err, errno, "signalfd") : fd;
}

/* The first goes to the command, the second kills it, the third does not wait for anything. When
 * the command is over and only our reader is slow, there is nothing to forward to. */
static void relay_signal(struct relay *r)
{
	struct signalfd_siginfo si;

	while (read(r->plan->signals, &si, sizeof(si)) == sizeof(si)) {
		int sig = (int)si.ssi_signo;
		char line[64];

		if (r->plan->typing) {
			if (!r->plan->typing->signal(r->plan->typing, sig))
				relay_break(r, sig);
			continue;
		}
		r->signals_seen++;
		if (r->result || r->signals_seen > 2) {
			r->interrupted = sig;
			return;
		}
		(void)snprintf(line, sizeof(line), "signal %s\n", signal_name(sig));
		if (r->signals_seen == 2 || hutch_write_text(r->plan->node, "ctl", line) < 0)
			relay_kill(r);
	}
}

/* ---- the end ---- */

/* The size of a stream now, asked of hutchd and not of the kernel's memory. */
static uint64_t stream_size(int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &stx) < 0)
		return UINT64_MAX; /* reading will say why */
	return stx.stx_size;
}

static int relay_result(struct relay *r, struct err *err)
{
	char text[32], *end;
	ssize_t n = read(r->code_fd, text, sizeof(text) - 1);
	long code;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return err_set(err, errno, "read 'code'");
	text[n] = '\0';
	code = strtol(text, &end, 10);
	if (end == text || code < 0 || code > 255)
		return err_say(err, EPROTO, "'code' says '%.*s'", (int)strcspn(text, "\n"), text);
	r->outcome.code = (int)code;
	r->result = true;
	for (int i = PUMP_OUT; i <= PUMP_ERR; i++) {
		struct pump *p = &r->pump[i];
		uint64_t size = stream_size(p->from);

		p->limit = size > p->total ? size : p->total;
	}
	r->pump[PUMP_IN].over = true;
	return 0;
}

/* A pump that is over gives back its descriptors: what writes to it learns that nobody reads, and
 * the command's stdin is at its end. */
static int relay_settle(struct relay *r, struct err *err)
{
	static const char *const ours[] = { "standard output", "standard error", "standard input" };
	static const char *const nodes[] = { "stdout", "stderr", "stdin" };

	for (int i = 0; i < PUMP_COUNT; i++) {
		struct pump *p = &r->pump[i];

		if (!p->over || p->from < 0)
			continue;
		close_auto(&p->from);
		close_auto(&p->to);
		if (i == PUMP_IN) {
			/* The command's business: it may have closed its stdin, or be gone. */
			if (p->typing && !r->result && !p->write_errno)
				relay_break(r, SIGHUP); /* nobody sits there any more */
			else if (p->read_errno)
				hutch_warn("read %s: %s", ours[i], strerror(p->read_errno));
			continue;
		}
		if (p->read_errno)
			return err_set(err, p->read_errno, "read '%s'", nodes[i]);
		if (p->write_errno && p->write_errno != EPIPE)
			return err_set(err, p->write_errno, "write to %s", ours[i]);
	}
	return 0;
}

static bool relay_over(struct relay *r)
{
	const struct pump *out = &r->pump[PUMP_OUT], *err = &r->pump[PUMP_ERR];

	r->outcome.how = RELAY_RESULT;
	if (out->write_errno == EPIPE || err->write_errno == EPIPE)
		r->outcome.how = RELAY_PIPE_CLOSED;
	else if (r->interrupted)
		r->outcome.how = RELAY_INTERRUPTED;
	else
		return r->result && out->over && err->over;
	if (r->interrupted)
		r->outcome.code = 128 + r->interrupted;
	return true;
}

static int relay_turn(struct relay *r, struct err *err)
{
	enum { POLL_SIGNALS = PUMP_COUNT, POLL_CODE, POLL_TYPED, POLL_COUNT };
	struct pump *in = &r->pump[PUMP_IN];
	struct pollfd pfd[POLL_COUNT];
	int ret;

	for (int i = 0; i < PUMP_COUNT; i++)
		pump_want(&r->pump[i], &pfd[i]);
	pfd[POLL_SIGNALS] = (struct pollfd){ .fd = r->plan->signals, .events = POLLIN };
	pfd[POLL_CODE] = (struct pollfd){ .fd = r->result ? -1 : r->code_fd, .events = POLLIN };
	pfd[POLL_TYPED] = (struct pollfd){ .fd = typed_from(in), .events = POLLIN };
	if (poll(pfd, POLL_COUNT, -1) < 0)
		return errno == EINTR ? 0 : err_set(err, errno, "poll");
	if (pfd[POLL_SIGNALS].revents)
		relay_signal(r);
	if (pfd[POLL_CODE].revents) {
		ret = relay_result(r, err);
		if (ret < 0)
			return ret;
	}
	if (pfd[POLL_TYPED].revents && !in->over)
		(void)pump_fill(in);
	for (int i = 0; i < PUMP_COUNT; i++)
		if (pfd[i].revents || r->result)
			pump_turn(&r->pump[i]);
	return relay_settle(r, err);
}

int relay_run(const struct relay_plan *plan, struct relay_outcome *ret, struct err *err)
{
	struct relay r = { .plan = plan, .code_fd = -1 };
	int n;

	for (int i = 0; i < PUMP_COUNT; i++)
		pump_init(&r.pump[i]);
	n = relay_open(&r, err);
	if (n == 0)
		do
			n = relay_turn(&r, err);
		while (n == 0 && !relay_over(&r));
	if (n < 0 || r.outcome.how == RELAY_PIPE_CLOSED)
		relay_kill(&r);
	r.outcome.in_line = r.pump[PUMP_OUT].total > 0 && r.pump[PUMP_OUT].last != '\n';
	for (int i = 0; i < PUMP_COUNT; i++)
		pump_done(&r.pump[i]);
	close_auto(&r.code_fd);
	*ret = r.outcome;
	return n;
}
