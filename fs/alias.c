#include "fs/alias.h"

#include <stdlib.h>

#include "base/auto.h"
#include "fs/tree.h"

struct alias {
	struct hmap_node by_id;
	struct list link; /* aliases.all */
	uint64_t id, ino;
	uint64_t lookups;
};

void aliases_init(struct aliases *as)
{
	hmap_init(&as->by_id);
	list_init(&as->all);
	as->next = 0;
}

void aliases_done(struct aliases *as)
{
	struct alias *a, *next;

	list_for_each_safe (a, next, &as->all, link)
		free(a);
	hmap_done(&as->by_id);
	aliases_init(as);
}

static struct alias *find(const struct aliases *as, uint64_t id)
{
	uint64_t hash = hmap_hash_u64(id);
	struct hmap_node *n;

	hmap_for_each_hash (n, &as->by_id, hash) {
		struct alias *a = container_of(n, struct alias, by_id);

		if (a->id == id)
			return a;
	}
	return NULL;
}

uint64_t alias_new(struct aliases *as, uint64_t ino)
{
	struct alias *a;

	if (as->by_id.count >= ALIASES_MAX)
		return ino;
	a = malloc(sizeof(*a));
	if (!a)
		return ino;
	*a = (struct alias){ .id = TREE_INO_ALIAS | ++as->next, .ino = ino, .lookups = 1 };
	hmap_add(&as->by_id, &a->by_id, hmap_hash_u64(a->id));
	list_add_tail(&as->all, &a->link);
	return a->id;
}

uint64_t alias_target(const struct aliases *as, uint64_t ino)
{
	const struct alias *a;

	if (!(ino & TREE_INO_ALIAS))
		return ino;
	a = find(as, ino);
	return a ? a->ino : 0;
}

void alias_forget(struct aliases *as, uint64_t ino, uint64_t lookups)
{
	struct alias *a = ino & TREE_INO_ALIAS ? find(as, ino) : NULL;

	if (!a)
		return;
	if (a->lookups > lookups) {
		a->lookups -= lookups;
		return;
	}
	hmap_del(&as->by_id, &a->by_id);
	list_del(&a->link);
	free(a);
}
