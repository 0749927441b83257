/* test_hmap.c - many entries in and out, equal hashes, and what a hash must do */
#include <stdio.h>
#include <stdlib.h>

#include "base/hmap.h"
#include "tests/unit/guard.h"
#include "tests/unit/tap.h"

#define MANY 5000

struct thing {
	char name[16];
	struct hmap_node by_name;
};

static struct thing *find(const struct hmap *map, const char *name)
{
	uint64_t hash = hmap_hash_str(name);
	struct hmap_node *n;

	hmap_for_each_hash (n, map, hash) {
		struct thing *t = (struct thing *)((char *)n - offsetof(struct thing, by_name));

		if (strcmp(t->name, name) == 0)
			return t;
	}
	return NULL;
}

static void test_many(void)
{
	struct thing *things = calloc(MANY, sizeof(*things));
	struct hmap map;
	int found = 0, wrong = 0;

	if (!things)
		exit(1);
	hmap_init(&map);
	ok(!find(&map, "0"), "an empty map has nothing");
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(things[i].name, sizeof(things[i].name), "%d", i);
		hmap_add(&map, &things[i].by_name, hmap_hash_str(things[i].name));
		/* at every size, so that each growth is seen */
		wrong += find(&map, things[i / 2].name) != &things[i / 2];
	}
	is_int(wrong, 0, "what was added is found, whatever the size");
	ok(map.mask + 1 >= MANY / 2, "the map has grown");
	for (int i = 0; i < MANY; i += 2)
		hmap_del(&map, &things[i].by_name);
	for (int i = 0; i < MANY; i++)
		found += find(&map, things[i].name) == &things[i];
	is_int(found, MANY / 2, "half were deleted, half are found");
	ok(!find(&map, "0") && find(&map, "1"), "the right half");
	is_int((long long)map.count, MANY / 2, "the count is right");
	for (int i = 1; i < MANY; i += 2)
		hmap_del(&map, &things[i].by_name);
	is_int((long long)map.count, 0, "the map is empty again");
	hmap_done(&map);
	hmap_done(NULL);
	free(things);
}

static void test_equal_hashes(void)
{
	struct hmap_node node[20], *n;
	struct hmap map;
	int seen = 0;

	hmap_init(&map);
	for (int i = 0; i < 20; i++)
		hmap_add(&map, &node[i], 7 + (uint64_t)(i % 2) * 64);
	hmap_for_each_hash (n, &map, 7)
		seen++;
	is_int(seen, 10, "all with one hash are visited, none of another");
	hmap_del(&map, &node[10]);
	seen = 0;
	hmap_for_each_hash (n, &map, 7)
		seen += n == &node[10] ? 100 : 1;
	is_int(seen, 9, "one in the middle of a chain goes alone");
	hmap_done(&map);
}

static void test_hash(void)
{
	char text[] = "abcdefghijklmnopq";
	uint64_t bits = 0, low = 0;

	for (size_t len = 0; len < sizeof(text); len++) {
		struct guard g = guard_new(text, len + 1);

		g.bytes[len] = '\0';
		bits |= hmap_hash_str(g.bytes);
		guard_free(&g);
	}
	ok(bits > UINT32_MAX, "no length of text is read over");
	ok(hmap_hash_str("a") == hmap_hash_str("a"), "the same text, the same hash");
	ok(hmap_hash_str("a") != hmap_hash_str("b"), "another text, another hash");
	ok(hmap_hash_str("12345678") != hmap_hash_str("123456781"), "a longer text, another hash");
	ok(hmap_hash_str("12345678abcdefgh") != hmap_hash_str("abcdefgh12345678"),
	   "the order of words matters");
	for (uint64_t i = 0; i < 64; i++)
		low |= (uint64_t)1 << (hmap_hash_u64(i << 40) & 63);
	ok(__builtin_popcountll(low) > 20, "high bits of a number reach the low bits of its hash");
}

int main(void)
{
	test_many();
	test_equal_hashes();
	test_hash();
	return tap_done();
}
