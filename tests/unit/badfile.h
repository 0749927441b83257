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

/* `arg`: the error of a write. */
static inline struct fakefs_answer badfile_answer(uint32_t opcode, const void *arg)
{
	static const char page[BAD_PAGE];
	static const struct fuse_attr_out attr = {
		.attr_valid = 3600,
		.attr = { .ino = 1, .mode = S_IFREG | 0600, .size = (BAD_PAGES * BAD_PAGE) }
	};

	if (opcode == FUSE_GETATTR)
		return (struct fakefs_answer){ .out = &attr, .len = sizeof(attr) };
	if (opcode == FUSE_READ)
		return (struct fakefs_answer){ .out = page, .len = sizeof(page) };
	return (struct fakefs_answer){ .error = opcode == FUSE_WRITE ? -*(const int *)arg
								     : -ENOSYS };
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
		fakefs_serve(fd, badfile_answer, &error);
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
