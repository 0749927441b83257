/* hmap.c - see hmap.h
 *
 * The hash is a folded 64 x 64 -> 128 bit multiplication, as in wyhash, keyed
 * with random bits.  SipHash would withstand someone who sees hashes; here nobody
 * does: users choose names, the maps are small (there are limits on everything
 * that has a name), and no answer depends on a bucket's order.  So an unknown key
 * in a strong mixer is enough, at a few cycles per name.
 */
#include "base/hmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_BUCKETS 8

void hmap_init(struct hmap *map)
{
	*map = (struct hmap){ 0 };
}

void hmap_done(struct hmap *map)
{
	if (!map)
		return;
	free(map->bucket);
	hmap_init(map);
}

static struct hmap_node **slot(struct hmap *map, uint64_t hash)
{
	return map->bucket ? &map->bucket[hash & map->mask] : &map->inl;
}

static void grow(struct hmap *map)
{
	size_t old = map->bucket ? map->mask + 1 : 1;
	size_t buckets = map->bucket ? old * 2 : FIRST_BUCKETS;
	struct hmap bigger = { .mask = buckets - 1, .count = map->count };

	bigger.bucket = calloc(buckets, sizeof(struct hmap_node *));
	if (!bigger.bucket)
		return;
	for (size_t i = 0; i < old; i++) {
		struct hmap_node *node = map->bucket ? map->bucket[i] : map->inl;

		while (node) {
			struct hmap_node *next = node->next, **to = slot(&bigger, node->hash);

			node->next = *to;
			*to = node;
			node = next;
		}
	}
	free(map->bucket);
	*map = bigger;
}

void hmap_add(struct hmap *map, struct hmap_node *node, uint64_t hash)
{
	struct hmap_node **at;

	if (map->count > map->mask)
		grow(map);
	at = slot(map, hash);
	node->hash = hash;
	node->next = *at;
	*at = node;
	map->count++;
}

void hmap_del(struct hmap *map, struct hmap_node *node)
{
	struct hmap_node **at = slot(map, node->hash);

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	map->count--;
}

struct hmap_node *hmap_bucket(const struct hmap *map, uint64_t hash)
{
	return map->bucket ? map->bucket[hash & map->mask] : map->inl;
}

struct hmap_node *hmap_match(struct hmap_node *from, uint64_t hash)
{
	while (from && from->hash != hash)
		from = from->next;
	return from;
}

/* The one piece of state that belongs to the process and not to an object: a
 * key per map would have to travel with every hash that is computed. */
static const uint64_t *key(void)
{
	static uint64_t drawn[2];

	if (!drawn[1]) {
		/* Cannot fail for so few bytes, and a key that can be guessed is worse than none. */
		if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
			abort();
		drawn[1] |= 1; /* a factor must not be zero */
	}
	return drawn;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hmap_hash_u64(uint64_t value)
{
	const uint64_t *k = key();

	return mix(mix(value ^ k[0], k[1]) ^ k[0], 0x9e3779b97f4a7c15u);
}

uint64_t hmap_hash_str(const char *text)
{
	const uint64_t *k = key();
	size_t len = strlen(text);
	uint64_t hash = k[0] ^ len;

	while (len > 0) {
		size_t n = len < 8 ? len : 8;
		uint64_t word = 0;

		memcpy(&word, text, n);
		hash = mix(hash ^ word, k[1]);
		text += n;
		len -= n;
	}
	return mix(hash ^ k[0], 0x9e3779b97f4a7c15u);
}
