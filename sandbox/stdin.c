/* stdin.c - a command's standard input: a pipe whose writing end is ours, or a terminal
 *
 * A pipe is open from exec_create() until EOF: the last writer closed after a byte
 * was taken or somebody truncated, close-stdin, or the command closed its end.
 * A terminal (pty.c) is there when the command is sent, and until it hangs up: who
 * has stopped typing has not gone away.
 * A writer of whom nothing was taken has not written: interrupted, it leaves the
 * command as it was.  Nothing is kept here: a writer that finds no room waits with
 * its bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

static struct ev_loop *loop_of(const struct exec *ex)
{
	return ex->sandbox->engine->loop;
}

static void on_pipe(struct ev_source *src, uint32_t events)
{
	struct exec *ex = exec_ref(container_of(src, struct exec, in));

	if (events & (EPOLLERR | EPOLLHUP)) {
		exec_close_stdin(ex); /* nobody can read it any more */
	} else {
		(void)ev_mod(loop_of(ex), src, 0);
		watch_fire_all(&ex->writable);
	}
	exec_unref(ex);
}

static void on_released(struct ev_source *src)
{
	exec_unref(container_of(src, struct exec, in));
}

int stdin_attach(struct exec *ex, int fd)
{
	int r;

	ex->in = (struct ev_source){ .fd = fd, .ready = on_pipe, .release = on_released };
	r = ev_add(loop_of(ex), &ex->in, 0); /* EPOLLERR and EPOLLHUP are always told */
	if (r < 0)
		close_auto(&ex->in.fd);
	else
		exec_ref(ex); /* the loop's */
	return r;
}

void exec_close_stdin(struct exec *ex)
{
	if (ex->in.fd < 0)
		return;
	ev_del(loop_of(ex), &ex->in);
	close_auto(&ex->in.fd);
	watch_fire_all(&ex->writable);
}

int exec_end_stdin(struct exec *ex, struct err *err)
{
	if (ex->unwritten)
		return err_say(err, EAGAIN, "close-stdin: '%s' has no command yet: set stdin null",
			       ex->name);
	if (ex->request.pty.on)
		return pty_type_eof(ex, err);
	exec_close_stdin(ex);
	return 0;
}

void stdin_open(struct exec *ex, bool truncates)
{
	ex->writers++;
	ex->in_armed |= truncates;
}

void stdin_close(struct exec *ex)
{
	if (--ex->writers || !ex->in_armed || ex->request.pty.on)
		return;
	if (ex->unwritten)
		ex->in_armed = false; /* it could write nothing, and so did not end it */
	else
		exec_close_stdin(ex);
}

/* A pipe that is full again and again while it is read: each time costs a turn of the loop and, on a
 * busy machine, a wait for a processor.  One that nobody reads stays as small as it was. */
static bool widen(struct exec *ex)
{
	if (ex->in_widened || ex->in_taken < PIPE_BUSY_SIZE || ex->request.pty.on)
		return false;
	ex->in_widened = true;
	(void)fcntl(ex->in.fd, F_SETPIPE_SZ, PIPE_BUSY_SIZE); /* failing only costs speed */
	return true;
}

static bool ends_line(char c)
{
	return c == '\n' || c == '\r';
}

ssize_t input_write(struct exec *ex, const void *bytes, size_t len)
{
	ssize_t n;

	if (ex->in.fd < 0)
		return ex->unwritten || pty_expected(ex) ? -EAGAIN : -EPIPE;
	n = write(ex->in.fd, bytes, len);
	if (n < 0 && errno == EAGAIN && widen(ex))
		n = write(ex->in.fd, bytes, len);
	if (n > 0) {
		ex->in_taken += (uint64_t)n;
		ex->in_line = !ends_line(((const char *)bytes)[n - 1]);
	}
	if (n >= 0)
		return n;
	if (errno != EAGAIN && errno != EINTR) {
		int r = errno == EIO ? -EPIPE : -errno; /* EIO: a terminal that has hung up */

		exec_close_stdin(ex);
		return r;
	}
	(void)ev_mod(loop_of(ex), &ex->in, EPOLLOUT);
	return -EAGAIN;
}

ssize_t stdin_write(struct exec *ex, const void *bytes, size_t len)
{
	ssize_t n = input_write(ex, bytes, len);

	ex->in_armed |= n > 0;
	return n;
}

uint32_t stdin_ready(const struct exec *ex)
{
	struct pollfd p = { .fd = ex->in.fd, .events = POLLOUT };

	if (ex->unwritten || pty_expected(ex))
		return 0;
	if (ex->in.fd < 0)
		return EPOLLOUT | EPOLLERR; /* a write is answered at once, with EPIPE */
	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) ? EPOLLOUT : 0;
}

void stdin_want(struct exec *ex)
{
	if (ex->in.fd >= 0)
		(void)ev_mod(loop_of(ex), &ex->in, EPOLLOUT);
}
