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
	int code;    /* RELAY_RESULT: what the node `code` says; RELAY_INTERRUPTED: 128 + signal */
	bool killed; /* it was we who killed the command */
};

/* Blocks the signals that a relay forwards (not those that this process was started to ignore), so
 * that from here on none of them ends it. Returns a signalfd that the caller owns. */
int relay_signals(struct err *);

/* Runs until the command in the node's directory `node_fd` has a result and its output is written,
 * or until there is no sense in waiting. `forward_stdin`: ours is the command's. */
int relay_run(int node_fd, int signal_fd, bool forward_stdin, struct relay_outcome *ret,
	      struct err *);
