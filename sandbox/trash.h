/* trash.h - removing trees without the loop waiting for a disk
 *
 * A janitor process of its own, started when first needed, empties the trash
 * directory.  It is asleep on a pipe otherwise, and ends at its EOF, that is
 * with hutchd.  What it had not removed is removed after the next start.
 *
 * The trees were written by sandboxes: nothing is followed out of them.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct zombies;

struct trash {
	int dirfd; /* the trash directory; owned */
	int wake;  /* a byte here: there is something to remove; -1: no janitor yet */
	pid_t pid;
	struct zombies *zombies; /* borrowed: a janitor that has ended goes there */
};

int trash_init(struct trash *, int state_fd, struct zombies *, struct err *);
/* Something was moved into the directory. Failing to start a janitor leaves it for later. */
void trash_empty(struct trash *);
/* Gives the janitor two seconds to finish; what is left then is the next start's. */
void trash_done(struct trash *);
