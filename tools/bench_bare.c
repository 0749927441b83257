/* bench_bare.c - the least that an answer through FUSE costs
 *
 * libfuse's low-level interface, its own loop of one thread, one file that is
 * not cached: READ is answered with one byte.  Whatever hutchd's answer takes
 * more is hutchd's.  bench_bare MOUNTPOINT runs until it is unmounted or ended.
 */
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_INO  2
#define FILE_NAME "byte"

static struct stat attr_of(fuse_ino_t ino)
{
	return (struct stat){ .st_ino = ino,
			      .st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0400,
			      .st_nlink = 1 };
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	const struct fuse_entry_param e = { .ino = FILE_INO, .attr = attr_of(FILE_INO) };

	if (parent == FUSE_ROOT_ID && strcmp(name, FILE_NAME) == 0)
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
	(void)ino;
	(void)size;
	(void)off;
	(void)fi;
	(void)fuse_reply_buf(req, "x", 1);
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
