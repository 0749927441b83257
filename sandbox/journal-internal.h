/* journal-internal.h - what journal.c, journal_rewrite.c and journal_load.c have for each other */
#pragma once

#include "sandbox/sandbox-internal.h"

#define JOURNAL_NAME_LEN (STORE_NAME_LEN + 16)
void journal_name(const struct sandbox *, char out[JOURNAL_NAME_LEN]);

/* --- journal.c: lines that say how it is now --- */

/* What is kept of nodes that are gone. */
int journal_print_next(const struct sandbox *, struct buf *);
/* One node, with all that was said of it. */
int journal_print_node(const struct exec *, struct buf *);
/* The whole. */
int journal_print_all(const struct sandbox *, struct buf *);

/* --- journal_rewrite.c --- */

/* Begins to; for tests, which do not wait until it is long. */
void journal_rewrite(struct sandbox *);
void journal_rewrite_when_long(struct sandbox *);
/* This line was put behind the old one. */
void journal_rewrite_add(struct journal *, const struct buf *line);
