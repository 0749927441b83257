/* badfile.h - a file of a FUSE file system that takes no writes: what was written to is given up, and nobody
 * can read it any more, not in a pipe either that has it from splice(2) */
#pragma once

#include <stdlib.h>

#include "tests/unit/fakefs.h"

enum { BAD_PAGE = 4096, BAD_PAGES = 64 };

struct badfile {
	char place[32];
	pid_t server;
	int fd;
	loff_t next; /* page that was not given up yet */
};

static _Noreturn inline void badfile_serve(int fd, int error)
{
	static char bytes[256 * 1024] __attribute__((aligned(8)));
	static const char page[BAD_PAGE];
	const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
					    .minor = FUSE_KERNEL_MINOR_VERSION,
					    .max_write = BAD_PAGE };
	const struct fuse_attr_out attr = {
		.attr_valid = 3600,
		.attr = { .ino = 1, .mode = S_IFREG | 0600, .size = (BAD_PAGES * BAD_PAGE) }
	};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(fd, 3) < 0)
		_exit(1);
	fd = 3;
	(void)close_range(4, ~0U, 0); /* no copy of an end of a pipe */
	for (;;) {
		ssize_t n = read(fd, bytes, sizeof(bytes));
		const struct fuse_in_header *head = (const struct fuse_in_header *)bytes;

		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (n <= 0)
			_exit(0);
		if (head->opcode == FUSE_INIT)
			fakefs_reply(fd, head->unique, 0, &init, sizeof(init));
		else if (head->opcode == FUSE_GETATTR)
			fakefs_reply(fd, head->unique, 0, &attr, sizeof(attr));
		else if (head->opcode == FUSE_READ)
			fakefs_reply(fd, head->unique, 0, page, sizeof(page));
		else if (head->opcode != FUSE_FORGET && head->opcode != FUSE_INTERRUPT)
			fakefs_reply(fd, head->unique,
				     head->opcode == FUSE_WRITE ? -error : -ENOSYS, NULL, 0);
	}
}

/* `error`: of a write. */
static inline bool badfile_mount(struct badfile *bad, int error)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), place;
	char options[128];
	struct stat st;

	*bad = (struct badfile){ .place = "/tmp/hutch-badfile-XXXXXX", .fd = -1 };
	place = mkstemp(bad->place);
	(void)snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=0,group_id=0", fd);
	if (fd < 0 || place < 0 ||
	    mount("bad", bad->place, "fuse.bad", MS_NOSUID | MS_NODEV, options) < 0)
		return false;
	(void)close(place);
	bad->server = fork();
	if (bad->server == 0)
		badfile_serve(fd, error);
	(void)close(fd);
	bad->fd = open(bad->place, O_RDWR | O_CLOEXEC);
	return bad->server > 0 && fstat(bad->fd, &st) == 0 && st.st_size; /* before it is read */
}

/* Bytes of it into a pipe, where nobody could ever read them: how many. */
static inline size_t badfile_put(struct badfile *bad, int to)
{
	loff_t off = bad->next;
	int fd[2];
	size_t n = 0;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return 0;
	if (splice(bad->fd, &bad->next, fd[1], NULL, BAD_PAGE, 0) == BAD_PAGE &&
	    pwrite(bad->fd, "x", 1, off) < 0 && errno == EIO &&
	    splice(fd[0], NULL, to, NULL, BAD_PAGE, 0) == BAD_PAGE)
		n = BAD_PAGE;
	(void)close(fd[0]);
	(void)close(fd[1]);
	return n;
}

static inline void badfile_end(struct badfile *bad)
{
	(void)close(bad->fd);
	(void)umount2(bad->place, MNT_DETACH);
	(void)kill(bad->server, SIGKILL);
	(void)waitpid(bad->server, NULL, 0);
	(void)unlink(bad->place);
}
