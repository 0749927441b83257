/* tree.h - whole directory trees */
#pragma once

#include "base/err.h"

/* Removes a file or a tree of any depth, never following a link. 0 if there is nothing; what cannot
 * be removed is passed over, and the first failure returned.  Directories from deep below become
 * `deep-N` beside it for a while: one that a crash has left there is removed with the next tree. */
int tree_remove(int at, const char *name, struct err *);

/* Copies a file, link or tree that everybody may read to `to`, whose parent exists: links as links,
 * files and directories with the permission bits that they have, without the special ones and
 * without write permission for others.  What not everybody may read, and what is no file, link
 * or directory, is left out. */
int tree_copy_public(int from_at, const char *from, int to_at, const char *to, struct err *);
