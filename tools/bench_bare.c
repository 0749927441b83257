/* bench_bare.c - the least that an answer through FUSE costs
 *
 * libfuse's low-level interface, its own loop of one thread, two files that are not
 * cached: a READ of `byte` is answered with one byte, and one of `relay` with what its
 * standard input has next, which is waited for right there.  Whatever hutchd's answer
 * takes more is hutchd's.  bench_bare MOUNTPOINT runs until it is unmounted or ended.
 */
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTE_INO = 2, RELAY_INO, INO_END };
static const char *const names[INO_END] = { [BYTE_INO] = "byte", [RELAY_INO] = "relay" };

static struct stat attr_of(fuse_ino_t ino)
{
	return (struct stat){ .st_ino = ino,
			      .st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0400,
			      .st_nlink = 1 };
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { .ino = BYTE_INO };

	while (e.ino < INO_END && strcmp(name, names[e.ino]) != 0)
		e.ino++;
	e.attr = attr_of(e.ino);
	if (parent == FUSE_ROOT_ID && e.ino < INO_END)
		(void)fuse_reply_entry(req, &e);
	else
		(void)fuse_reply_err(req, ENOENT);
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	const struct stat st = attr_of(ino);

	(void)fi;
	(void)fuse_reply_attr(req, &st, 0);
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fi->direct_io = 1;
	(void)fuse_reply_open(req, fi);
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	char bytes[4096] = "x";
	ssize_t n = 1;

	(void)off;
	(void)fi;
	if (ino == RELAY_INO)
		n = read(STDIN_FILENO, bytes, size < sizeof(bytes) ? size : sizeof(bytes));
	if (n < 0)
		(void)fuse_reply_err(req, errno);
	else
		(void)fuse_reply_buf(req, bytes, (size_t)n);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = on_lookup,
	.getattr = on_getattr,
	.open = on_open,
	.read = on_read,
};

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *session;
	int r = 1;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: bench_bare MOUNTPOINT\n");
		return 2;
	}
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (session && fuse_set_signal_handlers(session) == 0 &&
	    fuse_session_mount(session, argv[1]) == 0) {
		r = fuse_session_loop(session) < 0;
		fuse_session_unmount(session);
	}
	if (session) {
		fuse_remove_signal_handlers(session);
		fuse_session_destroy(session);
	}
	fuse_opt_free_args(&args);
	return r;
}
