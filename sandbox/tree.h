/* tree.h - whole directory trees */
#pragma once

#include "base/err.h"

/* Removes a file or a tree, never following a link. 0 if there is nothing. Recursion is bounded
 * by the descriptors it holds open: -EMFILE for a tree that is deeper than that. */
int tree_remove(int at, const char *name, struct err *);

/* Copies a file, link or tree that everybody may read to `to`, whose parent exists: links as links,
 * files and directories with the permission bits that they have, without the special ones and
 * without write permission for others.  What not everybody may read, and what is no file, link
 * or directory, is left out. */
int tree_copy_public(int from_at, const char *from, int to_at, const char *to, struct err *);
