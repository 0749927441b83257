/* alias.h - node ids that stand for another one: NODE_FRESH
 *
 * Each lookup of such a node is given an id of its own, so that no two openers
 * share an inode in the kernel, and with it the lock that a parked WRITE holds.
 * An alias lives until the kernel forgets it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hmap.h"
#include "base/list.h"

#define ALIASES_MAX ((size_t)1 << 20) /* beyond it lookups share the node's own id */

struct aliases {
	struct hmap by_id; /* struct alias, in alias.c */
	struct list all;   /* the same; struct alias.link */
	uint64_t next;
};

void aliases_init(struct aliases *);
void aliases_done(struct aliases *);
/* A new alias, looked up once; `ino` itself at the limit or without memory. */
uint64_t alias_new(struct aliases *, uint64_t ino);
/* What an alias stands for; another number is what it is; 0: an alias that nobody has. */
uint64_t alias_target(const struct aliases *, uint64_t ino);
/* Of what is no alias, or unknown: nothing happens. */
void alias_forget(struct aliases *, uint64_t ino, uint64_t lookups);
