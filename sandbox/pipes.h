/* pipes.h - pipes for commands, some of them made ahead
 *
 * A command has three, and whoever asks for one waits while they are made: 15 us
 * when everything is in the caches, 40 after a pause.  So a few are kept, and made
 * when the loop is idle.
 */
#pragma once

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
