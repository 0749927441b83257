/* buf.h - growing bytes with a ceiling
 *
 * Whatever a user can make grow has a `max`; going over it is E2BIG and leaves
 * the buffer as it was.  `data` is always NUL-terminated when len > 0, behind
 * the len bytes.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct buf {
	char *data; /* owned; NULL while empty */
	size_t len, cap;
	size_t max; /* bytes; 0 = no ceiling */
};

void buf_init(struct buf *, size_t max);
void buf_done(struct buf *); /* may be used again afterwards, as after buf_init */
/* 0, -E2BIG or -ENOMEM. */
int buf_add(struct buf *, const void *bytes, size_t len);
int buf_printf(struct buf *, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Room for `len` more bytes at buf->data + buf->len; the caller adds to buf->len, and puts the
 * NUL if it adds less than it asked for. 0, -E2BIG, -ENOMEM. */
int buf_reserve(struct buf *, size_t len);
/* Drops `len` bytes from the front. */
void buf_consume(struct buf *, size_t len);
/* The bytes as a string that the caller frees; the buffer is empty afterwards. NULL: no memory. */
char *buf_take(struct buf *);
static inline void buf_auto_(struct buf *b)
{
	buf_done(b);
}
#define auto_buf __attribute__((cleanup(buf_auto_)))
