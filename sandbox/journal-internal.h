/* journal-internal.h - what journal.c, journal_rewrite.c and journal_load.c have for each other */
#pragma once

#include "sandbox/sandbox-internal.h"

#define JOURNAL_NAME_LEN (STORE_NAME_LEN + 16)
void journal_name(const struct sandbox *, char out[JOURNAL_NAME_LEN]);

/* Of the one that will take its place. */
#define JOURNAL_FRESH_LEN (JOURNAL_NAME_LEN + 4)
void journal_fresh_name(const struct sandbox *, char out[JOURNAL_FRESH_LEN]);

/* --- journal.c: lines that say how it is now --- */

/* What is kept of nodes that are gone. */
int journal_print_next(const struct sandbox *, struct buf *);
/* One node, with all that was said of it. */
int journal_print_node(const struct exec *, struct buf *);
/* The whole. */
int journal_print_all(const struct sandbox *, struct buf *);

/* --- journal_rewrite.c --- */

/* No shorter one is rewritten. */
#define JOURNAL_REWRITE_ABOVE (4 * 1024 * 1024)
void journal_rewrite_when_long(struct sandbox *);
/* The same however short it is; for tests. */
void journal_rewrite(struct sandbox *);
/* This line, of that node, was put behind the old one. */
void journal_rewrite_add(struct journal *, const struct exec *, const struct buf *line);
