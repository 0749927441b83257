/* zombies.h - children that were killed and are not gone yet
 *
 * SIGKILL is a request: a process that waits for a disk or a network file system
 * dies when that answers, which may be never.  Nobody here waits for one.  What is
 * still alive is looked at again, after a millisecond first and then ever later, up
 * to a second.  Not by a pidfd in the loop: there may be no descriptor left for one,
 * which is how one comes to kill a child that was just made.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/ev.h"

struct zombies {
	struct ev_loop *loop; /* borrowed */
	struct list list;     /* struct zombie.link */
	struct ev_timer look;
	int64_t pause; /* ns until the next look */
};

void zombies_init(struct zombies *, struct ev_loop *);
/* Kills our child `pid`, and reaps it when it has ended: its number is not the caller's any more.
 * Without memory to remember it, it stays a zombie until hutchd ends. */
void zombies_kill(struct zombies *, pid_t pid);
/* True when none is left. */
bool zombies_gone(const struct zombies *);
/* Waits for them until `deadline` (ev_now() time) and forgets the rest: init's, one day. */
void zombies_done(struct zombies *, int64_t deadline);

/* Reaps the child behind a pidfd if it has ended, without waiting: true, with its wait status (0 where
 * somebody else has reaped it). */
bool child_reap(int pidfd, int *ret_status);
