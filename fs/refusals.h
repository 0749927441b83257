/* refusals.h - the file `error`: what each user was refused last, and why
 *
 * A shell shows an errno; the sentence is here.  What is recorded: refused
 * writes, opens for writing, mkdir, rmdir and changes of attributes.  Never a
 * lookup or an open for reading: a file manager must not push out what counts.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"

#define REFUSALS_KEPT      16
#define REFUSALS_USERS_MAX 1024 /* beyond it the user who was refused longest ago is forgotten */

struct refusal {
	struct timespec at; /* CLOCK_REALTIME */
	char *path;         /* owned */
	struct err err;
};

struct refusals_of {
	struct list link; /* refusals.users */
	uid_t uid;
	unsigned count; /* ever: the newest is at (count - 1) % REFUSALS_KEPT */
	struct refusal ring[REFUSALS_KEPT];
};

struct refusals {
	struct list users; /* struct refusals_of.link, the most recently refused first */
	size_t count;
};

void refusals_init(struct refusals *);
void refusals_done(struct refusals *);
/* Want of memory loses the line: nothing is to fail for it. */
void refusals_add(struct refusals *, uid_t, const char *path, const struct err *);
/* "TIME PATH ERRNO sentence" per line, newest first. 0 or -ENOMEM. */
int refusals_print(const struct refusals *, uid_t, struct buf *);
