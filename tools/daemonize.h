/* daemonize.h - into the background, but not before it works
 *
 * The parent stays until the child says that it is ready or why it is not, so
 * that the next line of a script can use what was started.
 */
#pragma once

#include "base/err.h"

struct daemonize {
	int report; /* owned; the child's end of a pipe to its parent; -1: in the foreground */
};

/* Returns in the child only.  The parent ends: 0 when the child is ready, or 1 with the child's
 * sentence on stderr. Before anything that a fork would not take along. */
int daemonize_begin(struct daemonize *, const char *program, struct err *);
/* Lets the parent end, and lets go of the terminal. */
void daemonize_ready(struct daemonize *);
/* The parent says it. In the foreground: nothing. */
void daemonize_failed(struct daemonize *, const struct err *);
