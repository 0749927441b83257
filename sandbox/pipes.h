/* pipes.h - pipes for commands, some of them made ahead
 *
 * A command has three, and whoever asks for one waits while they are made: 15 us
 * when everything is in the caches, 40 after a pause.  So a few are kept, and made
 * when the loop is idle.
 */
#pragma once

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

/* Throws away at most `len` bytes of a pipe that does not block, also those that nobody can read: spliced
 * from a file, they may be a page that its file system has given up.  > 0: so many; 0: its end;
 * negative errno: -EAGAIN there are none, -EMFILE and the like: it takes two descriptors. */
ssize_t pipe_discard(int fd, size_t len);
/* read(2) from a pipe, or a terminal, that does not block.  Of a packet (a writer with O_DIRECT, see pipe(2)) that is
 * longer than `len` the rest stays in it, where read(2) would throw it away.  As above; -EIO: what comes
 * first cannot be read, and may have been thrown away. */
ssize_t pipe_read(int fd, void *bytes, size_t len);
