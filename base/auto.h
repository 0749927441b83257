/* auto.h - ownership that ends with the scope
 *
 *	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
 *	...
 *	box->rootfd = TAKE_FD(fd);	ownership moves; fd is -1 from here on
 *
 * Rules: initialise at the declaration; every destructor takes NULL or -1;
 * nothing that a cleanup reaches changes errno.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Defines fn_auto() for a pointer type; use as  AUTO(fn) type var = NULL; */
#define DEFINE_AUTO(type, fn)                 \
	static inline void fn##_auto(type *p) \
	{                                     \
		if (*p) {                     \
			int saved = errno;    \
			(void)fn(*p);         \
			errno = saved;        \
		}                             \
	}                                     \
	_Static_assert(1, "swallow the semicolon")
#define AUTO(fn) __attribute__((cleanup(fn##_auto)))

/* Closes and sets to -1.  Never retried: on Linux the descriptor is gone after
 * EINTR too, and a retry could close one that somebody else was just given. */
static inline void close_auto(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;

		(void)close(*fd);
		*fd = -1;
		errno = saved;
	}
}
#define auto_close __attribute__((cleanup(close_auto)))

static inline void free_auto(void *p)
{
	free(*(void **)p);
}
#define auto_free __attribute__((cleanup(free_auto)))

#define TAKE_FD(fd)                \
	({                         \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})
#define TAKE_PTR(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})

#define ARRAY_SIZE(a)                   (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
