/* hutch_relay.h - a command's streams and this process's, until the result is there */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "tools/hutch.h"

enum relay_end {
	RELAY_RESULT,      /* there is a result */
	RELAY_PIPE_CLOSED, /* nobody reads our output any more; the command was killed */
	RELAY_INTERRUPTED, /* a signal that left no time to wait for the result */
};

struct relay_outcome {
	enum relay_end how;
	int code;     /* RELAY_RESULT: what the node `code` says; RELAY_INTERRUPTED: 128 + signal */
	bool killed;  /* it was we who killed the command */
	bool in_line; /* its standard output does not end with a newline */
};

/* Blocks the signals that a relay forwards (not those that this process was started to ignore), so
 * that from here on none of them ends it. `terminal`: those that tell of our terminal as well.
 * Returns a signalfd that the caller owns. */
int relay_signals(bool terminal, struct err *err);

/* For a relay between two terminals, where what is typed may be meant for us. */
struct relay_typing {
	/* Puts what the command is to get to `to`, which is one byte in front of `from`, and returns
	 * how much that is, at most len + 1. *end: it is to be killed, and not waited for. */
	size_t (*typed)(struct relay_typing *, char *to, const char *from, size_t len, bool *end);
	/* True: this signal needs nothing more. Else the command is killed, and not waited for. */
	bool (*signal)(struct relay_typing *, int sig);
};

struct relay_plan {
	int node, signals;  /* borrowed: the command's directory, what relay_signals() returned */
	bool forward_stdin; /* ours is the command's */
	struct relay_typing *typing; /* NULL: the streams are no terminals */
};

/* Runs until the command has a result and its output is written, or until there is no sense in
 * waiting. */
int relay_run(const struct relay_plan *, struct relay_outcome *ret, struct err *);
