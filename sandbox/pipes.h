/* pipes.h - pipes for commands, some of them made ahead
 *
 * A command has three, and whoever asks for one waits while they are made: 15 us
 * when everything is in the caches, 40 after a pause.  So a few are kept, and made
 * when the loop is idle.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/ev.h"

#define PIPES_AHEAD 6 /* for two commands: whoever runs one after the other gives no more time */

struct pipes {
	struct ev_loop *loop; /* borrowed */
	struct ev_task fill;
	int fd[PIPES_AHEAD][2]; /* as pipe(2) has them */
	unsigned n;
};

void pipes_init(struct pipes *, struct ev_loop *);
void pipes_done(struct pipes *);
/* A new pipe, made ahead or now: *ours does not block, *theirs does.  Both are the caller's. */
int pipes_take(struct pipes *, bool we_read, int *ours, int *theirs, struct err *);

/* A pipe between two others, or a pipe and memory.  What goes into it is not looked at, and cut anywhere: read(2)
 * cannot give a page that its file system has given up, and of a packet (a writer with O_DIRECT, see pipe(2)) for
 * which there is no room it throws the rest away.  Zeroes at first; made when it is needed. */
struct pipe_between {
	bool made;
	int fd[2]; /* as pipe(2) has them */
};
int pipe_between_make(struct pipe_between *); /* 0 or a negative errno */
void pipe_between_done(struct pipe_between *);

/* Of a pipe that does not block at most `len` bytes, and of the bytes no part that is lost.  > 0: so many; 0:
 * its end; negative errno: -EAGAIN: there are none; -EIO: what comes first cannot be read, and may have been thrown
 * away; -EMFILE and the like: it could not be made. */
ssize_t pipe_read(struct pipe_between *, int fd, void *bytes, size_t len);
/* The same, and throws them away, also what cannot be read. */
ssize_t pipe_discard(struct pipe_between *, int fd, size_t len);
