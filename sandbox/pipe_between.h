/* pipe_between.h - taking bytes from a pipe whose other end is not trusted
 *
 * read(2) cannot give a page that its file system has given up, which splice(2) brings into a pipe, and
 * says EIO for ever.  Of a packet (a writer with O_DIRECT, see pipe(2)) for which there is no room it throws
 * the rest away.  What goes from one pipe into another is not looked at, and cut anywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Empty between two calls. Zeroes at first; made when it is needed. */
struct pipe_between {
	bool made;
	int fd[2]; /* as pipe(2) has them */
};
int pipe_between_make(struct pipe_between *); /* 0 or a negative errno */
void pipe_between_done(struct pipe_between *);

/* Of a pipe that does not block at most `len` bytes, and of the bytes no part that is lost.  > 0: so many; 0:
 * its end; negative errno: -EAGAIN: there are none; -EIO: something of it cannot be read, and all of it may have been
 * thrown away; -EMFILE and the like: it could not be made. */
ssize_t pipe_read(struct pipe_between *, int fd, void *bytes, size_t len);
/* The same, and throws them away, also what cannot be read. */
ssize_t pipe_discard(struct pipe_between *, int fd, size_t len);
