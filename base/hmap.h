/* hmap.h - intrusive hash map
 *
 * Chained, a power of two of buckets, grown when there are more entries than
 * buckets.  The owner compares keys:
 *
 *	hmap_for_each_hash (n, &map, hash) {
 *		struct thing *t = container_of(n, struct thing, by_name);
 *		if (strcmp(t->name, name) == 0) ...
 *	}
 *
 * Growing that fails for want of memory leaves the map correct and slower.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hmap_node {
	struct hmap_node *next;
	uint64_t hash;
};

struct hmap {
	struct hmap_node **bucket; /* NULL while empty and never used */
	struct hmap_node *inl;     /* the one bucket before the first growth */
	size_t mask, count;
};

void hmap_init(struct hmap *);
/* The map must be empty or its nodes forgotten: nodes are never freed here. */
void hmap_done(struct hmap *);
void hmap_add(struct hmap *, struct hmap_node *, uint64_t hash);
/* The node must be in the map. */
void hmap_del(struct hmap *, struct hmap_node *);
/* The first node with this hash at or behind `from` (pass hmap_bucket() to begin), or NULL. */
struct hmap_node *hmap_bucket(const struct hmap *, uint64_t hash);
struct hmap_node *hmap_match(struct hmap_node *from, uint64_t hash);

/* Hashes are seeded once per process, so that nobody can choose colliding names. */
uint64_t hmap_hash_str(const char *);
uint64_t hmap_hash_u64(uint64_t);

#define hmap_for_each_hash(it, map, hash) \
	for (it = hmap_match(hmap_bucket(map, hash), hash); it; it = hmap_match((it)->next, hash))
