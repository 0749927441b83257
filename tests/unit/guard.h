/* guard.h - bytes that end where the address space does
 *
 * A parser that looks one byte too far dies, with or without a sanitizer.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct guard {
	char *bytes; /* the byte behind the last one is unmapped */
	void *map;
	size_t size;
};

static inline struct guard guard_new(const void *bytes, size_t len)
{
	const size_t page = 4096;
	size_t room = (len + page - 1) / page * page;
	struct guard g = { .size = room + page };

	g.map = mmap(NULL, g.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g.map == MAP_FAILED || mprotect((char *)g.map + room, page, PROT_NONE) < 0) {
		perror("guard page");
		exit(1);
	}
	g.bytes = (char *)g.map + room - len;
	if (len > 0)
		memcpy(g.bytes, bytes, len);
	return g;
}

static inline void guard_free(struct guard *g)
{
	(void)munmap(g->map, g->size);
}
