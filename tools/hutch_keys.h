/* hutch_keys.h - what is typed at a terminal: for the command, or for hutch
 *
 * A tilde at the beginning of a line, with one of a few keys behind it, is an escape,
 * as in ssh(1).  Everything else is the command's, byte for byte; a tilde is kept
 * back until it is known what it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum hutch_key {
	HUTCH_KEY_END,
	HUTCH_KEY_SUSPEND,
	HUTCH_KEY_HELP,
};

/* Begins as zeroes, but for `pressed`. */
struct hutch_keys {
	bool in_line; /* the last byte was not the end of a line */
	bool tilde;   /* kept back */
	/* An escape. False: it is the end, and what was typed behind it does not count. */
	bool (*pressed)(struct hutch_keys *, enum hutch_key);
};

/* Puts what is the command's to `to`, which may be `from` or one byte in front of it; returns how
 * much that is: at most len + 1 bytes. *end is set if it came to that. */
size_t hutch_keys_take(struct hutch_keys *, char *to, const char *from, size_t len, bool *end);

/* The list of escapes, a line each, as a raw terminal wants them: behind each a carriage return. */
int hutch_keys_help(struct buf *);
