#include "sandbox/idpool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

DEFINE_AUTO(FILE *, fclose);

#define DEFAULT_FIRST UINT32_C(0x70000000)
#define DEFAULT_END   UINT32_C(0xf0000000)

static void mark(struct idpool *pool, uint64_t first, uint64_t count)
{
	uint64_t end = (uint64_t)pool->first + (uint64_t)pool->blocks * IDPOOL_BLOCK;

	if (count == 0 || first >= end || first + count <= pool->first)
		return;
	if (first < pool->first) {
		count -= pool->first - first;
		first = pool->first;
	}
	if (first + count > end)
		count = end - first;
	for (uint64_t b = (first - pool->first) / IDPOOL_BLOCK;
	     b <= (first + count - 1 - pool->first) / IDPOOL_BLOCK; b++)
		pool->taken[b] = 1;
}

/* passwd and group: the third field is one id. subuid and subgid: the second and third are a
 * range. A file that is not there holds nobody. */
static void mark_file(struct idpool *pool, const char *path, bool ranges)
{
	AUTO(fclose) FILE *f = fopen(path, "re");
	char line[1024];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long first, count = 1;

		if (ranges ? sscanf(line, "%*[^:]:%llu:%llu", &first, &count) == 2
			   : sscanf(line, "%*[^:]:%*[^:]:%llu", &first) == 1)
			mark(pool, first, count);
	}
}

/* The first range of `name` in a subuid file that has a whole block. */
static bool sub_range(const char *path, const char *name, uint64_t *first, uint64_t *count)
{
	AUTO(fclose) FILE *f = fopen(path, "re");
	char line[1024], who[256];
	unsigned long long a, n;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%255[^:]:%llu:%llu", who, &a, &n) == 3 &&
		    (strcmp(who, name) == 0 || strcmp(who, "0") == 0) && n >= IDPOOL_BLOCK &&
		    a + n <= UINT32_MAX) {
			*first = a;
			*count = n;
			return true;
		}
	return false;
}

int idpool_init(struct idpool *pool, struct err *err)
{
	uint64_t first, count, gid_first, gid_count;
	bool given;

	*pool = (struct idpool){ 0 };
	if (geteuid() != 0)
		return 0;
	given = sub_range("/etc/subuid", "root", &first, &count) &&
		sub_range("/etc/subgid", "root", &gid_first, &gid_count) && first == gid_first &&
		count == gid_count;
	pool->first = given ? (uint32_t)first : DEFAULT_FIRST;
	pool->blocks = (uint32_t)((given ? count : DEFAULT_END - DEFAULT_FIRST) / IDPOOL_BLOCK);
	pool->taken = calloc(pool->blocks, 1);
	if (!pool->taken)
		return err_set(err, ENOMEM, "keep a list of id blocks");
	if (!given) {
		mark_file(pool, "/etc/passwd", false);
		mark_file(pool, "/etc/group", false);
		mark_file(pool, "/etc/subuid", true);
		mark_file(pool, "/etc/subgid", true);
	}
	return 0;
}

void idpool_done(struct idpool *pool)
{
	free(TAKE_PTR(pool->taken));
}

int idpool_take(struct idpool *pool, struct id_range *ret, struct err *err)
{
	if (!pool->blocks) {
		*ret = (struct id_range){ .base = geteuid(), .count = 1 };
		return 0;
	}
	for (uint32_t i = 0; i < pool->blocks; i++) {
		uint32_t b = (pool->next + i) % pool->blocks;

		if (pool->taken[b])
			continue;
		pool->taken[b] = 1;
		pool->next = (b + 1) % pool->blocks;
		*ret = (struct id_range){ .base = pool->first + b * IDPOOL_BLOCK,
					  .count = IDPOOL_BLOCK };
		return 0;
	}
	return err_say(err, ENOSPC, "all %u blocks of user ids are in use: remove a sandbox",
		       pool->blocks);
}

bool idpool_claim(struct idpool *pool, const struct id_range *ids)
{
	uint32_t b;

	if (!pool->blocks)
		return ids->count == 1 && ids->base == geteuid();
	if (ids->count != IDPOOL_BLOCK || ids->base < pool->first ||
	    (ids->base - pool->first) % IDPOOL_BLOCK)
		return false;
	b = (ids->base - pool->first) / IDPOOL_BLOCK;
	if (b >= pool->blocks || pool->taken[b])
		return false;
	pool->taken[b] = 1;
	pool->next = (b + 1) % pool->blocks;
	return true;
}

void idpool_free(struct idpool *pool, const struct id_range *ids)
{
	if (pool->blocks)
		pool->taken[(ids->base - pool->first) / IDPOOL_BLOCK] = 0;
}
