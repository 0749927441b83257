/* pty.c - a command's terminal
 *
 * It is one of the sandbox's own devpts, so that the name that `tty` prints, /dev/tty
 * and /dev/pts/N are the same thing inside, and hutchd opens it by itself, when the
 * command is sent: never before, since a process 1 that is still being made may have
 * the host's root.  Whatever is mounted over /dev in there, three things hold: no
 * look-up goes through a link or waits for a file system that somebody inside serves
 * (RESOLVE_CACHED; the entry of a mount point is always in the cache), nothing is
 * opened but the device 5:2 on a devpts, and what is not that is a sentence.
 *
 * There are two descriptors of the master, because one epoll takes each once: the
 * stream's, and stdin's.  The slave is kept as well while the leader lives: one that
 * closes all of its own for a moment has not hung up.
 *
 * The kernel carries what a command writes from the slave to the master behind its
 * back.  A read that finds nothing waits for that carrier (tty_buffer_flush_work()),
 * so EAGAIN means that all there was has come.  FIONREAD knows nothing of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

#define PTMX_MAJOR    5
#define PTMX_MINOR    2
#define LOOK_UP_TRIES 64 /* a mount anywhere on the machine may spoil a cached look-up */
#define TTY_GROUP     5  /* see dev.c */
#define EOF_DEFAULT   4  /* ^D */

/* --- opening --- */

static int look_up(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC | flags,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = -1;

	errno = EAGAIN;
	for (int i = 0; fd < 0 && errno == EAGAIN && i < LOOK_UP_TRIES; i++)
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

/* The multiplexer of the devpts in the root of process 1, O_PATH. */
static int find_ptmx(pid_t pid)
{
	char path[64];
	auto_close int root = -1, dev = -1, ptmx = -1;
	struct statx st;

	(void)snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	dev = look_up(root, "dev", O_DIRECTORY, 0); /* an entry of the layer, which is ours */
	if (dev < 0)
		return dev;
	ptmx = look_up(dev, "pts/ptmx", 0, RESOLVE_CACHED);
	if (ptmx < 0)
		return ptmx;
	if (statx(ptmx, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.stx_mode) || st.stx_rdev_major != PTMX_MAJOR ||
	    st.stx_rdev_minor != PTMX_MINOR)
		return -ENODEV;
	return TAKE_FD(ptmx);
}

static int open_master(pid_t pid)
{
	auto_close int ptmx = find_ptmx(pid);
	auto_close int master = -1;
	struct statfs fs;
	char path[64];

	if (ptmx < 0)
		return ptmx;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ptmx);
	/* On all else that somebody inside can mount no device can be opened: EACCES. */
	master = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (master < 0)
		return -errno;
	if (fstatfs(master, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC)
		return -ENODEV;
	return TAKE_FD(master);
}

static int set_size(int master, uint16_t rows, uint16_t cols)
{
	const struct winsize size = { .ws_row = rows, .ws_col = cols };

	return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

/* The other end, which belongs to user 0 of the sandbox, who may give it on. */
static int open_slave(int master, const struct id_range *ids)
{
	auto_close int slave = -1;
	struct termios mode;
	int locked = 0;

	if (ioctl(master, TIOCSPTLCK, &locked) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	if (ids->count > 1 &&
	    fchown(slave, ids->base, ids->count > TTY_GROUP ? (gid_t)-1 : ids->base) < 0)
		return -errno;
	if (tcgetattr(slave, &mode) < 0)
		return -errno;
	mode.c_iflag |= IUTF8; /* as LANG says: what is erased is a character */
	return tcsetattr(slave, TCSANOW, &mode) < 0 ? -errno : TAKE_FD(slave);
}

static int say_why(int r, struct err *err)
{
	switch (-r) {
	case ENOSPC:
		return err_say(err, ENOSPC,
			       "open a terminal: there are as many as this sandbox, or this "
			       "machine, can have");
	case ENODEV:
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case EXDEV:
	case EAGAIN:
	case EACCES:
	case ENXIO:
		return err_say(err, ENODEV,
			       "open a terminal: the sandbox's /dev/pts is not the one that it was "
			       "made with");
	default:
		return err_set(err, -r, "open a terminal in the sandbox");
	}
}

int pty_open(struct exec *ex, struct err *err)
{
	const struct exec_pty *pty = &ex->request.pty;
	auto_close int master = -1, slave = -1, input = -1;
	int r;

	if (ex->child[0] >= 0) /* sent before, and the socket was full */
		return 0;
	master = open_master(ex->sandbox->run->pid);
	if (master < 0)
		return say_why(master, err);
	slave = open_slave(master, ex->sandbox->ids);
	if (slave < 0)
		return say_why(slave, err);
	r = set_size(master, ex->rows ? ex->rows : pty->rows, ex->cols ? ex->cols : pty->cols);
	if (r < 0)
		return err_set(err, -r, "set the size of a terminal");
	input = fcntl(master, F_DUPFD_CLOEXEC, 3);
	if (input < 0)
		return err_set(err, errno, "open a terminal");
	ex->child[0] = TAKE_FD(slave);
	ex->stream[EXEC_STDOUT].tty = true;
	r = stream_attach(&ex->stream[EXEC_STDOUT], TAKE_FD(master));
	if (r == 0)
		r = stdin_attach(ex, TAKE_FD(input));
	if (r < 0)
		return err_set(err, -r, "watch a terminal");
	watch_fire_all(&ex->writable); /* who came early */
	return 0;
}

bool pty_expected(const struct exec *ex)
{
	const struct stream *st = &ex->stream[EXEC_STDOUT];

	return ex->request.pty.on && !ex->unwritten && st->src.fd < 0 && !st->ended;
}

/* --- resizing, and the end of input --- */

int exec_winsize(struct exec *ex, uint16_t rows, uint16_t cols, struct err *err)
{
	const struct stream *st = &ex->stream[EXEC_STDOUT];
	int r;

	if (ex->unwritten)
		return err_say(err, EAGAIN,
			       "winsize: '%s' has no command yet: set pty.rows %u, set pty.cols %u",
			       ex->name, rows, cols);
	if (!ex->request.pty.on)
		return err_say(err, ENOTTY,
			       "winsize: '%s' has no terminal: its request has no 'pty'", ex->name);
	if (st->ended)
		return 0;
	ex->rows = rows; /* for a terminal that is not there yet */
	ex->cols = cols;
	r = st->src.fd >= 0 ? set_size(st->src.fd, rows, cols) : 0;
	return r < 0 ? err_set(err, -r, "winsize of '%s'", ex->name) : 0;
}

int pty_type_eof(struct exec *ex, struct err *err)
{
	struct termios mode;
	char key[2] = { EOF_DEFAULT, EOF_DEFAULT };

	if (pty_expected(ex))
		return err_say(err, EAGAIN, "close-stdin: '%s' has not started yet", ex->name);
	if (ex->in.fd < 0) /* it has hung up, or was never there */
		return 0;
	if (tcgetattr(ex->in.fd, &mode) == 0 && mode.c_cc[VEOF] != _POSIX_VDISABLE)
		key[0] = key[1] = (char)mode.c_cc[VEOF];
	/* In the middle of a line the first one ends the line only. */
	if (write(ex->in.fd, key, ex->in_line ? 2 : 1) < 0 && errno == EAGAIN)
		return err_say(err, EAGAIN,
			       "close-stdin: '%s' does not read, and its terminal takes no more",
			       ex->name);
	ex->in_line = false;
	return 0; /* of another failure its end will tell */
}
