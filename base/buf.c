/* buf.c - see buf.h */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_CAP_MIN 64

void buf_init(struct buf *buf, size_t max)
{
	*buf = (struct buf){ .max = max };
}

void buf_done(struct buf *buf)
{
	if (!buf)
		return;
	free(buf->data);
	buf_init(buf, buf->max);
}

/* Doubling, so that a buffer built byte by byte is copied a constant number of times. */
static size_t next_cap(const struct buf *buf, size_t need)
{
	size_t cap = buf->cap > SIZE_MAX / 2 ? need : buf->cap * 2;

	if (cap < need)
		cap = need;
	if (cap < BUF_CAP_MIN)
		cap = BUF_CAP_MIN;
	if (buf->max && cap - 1 > buf->max)
		cap = buf->max + 1;
	return cap;
}

int buf_reserve(struct buf *buf, size_t len)
{
	size_t ceiling = buf->max && buf->max < SIZE_MAX ? buf->max : SIZE_MAX - 1;
	size_t need, cap;
	char *data;

	if (buf->len > ceiling || len > ceiling - buf->len)
		return -E2BIG;
	need = buf->len + len + 1; /* the NUL is not counted in max */
	if (need > buf->cap) {
		cap = next_cap(buf, need);
		data = realloc(buf->data, cap);
		if (!data)
			return -ENOMEM;
		buf->data = data;
		buf->cap = cap;
	}
	buf->data[buf->len] = '\0';
	buf->data[need - 1] = '\0';
	return 0;
}

int buf_add(struct buf *buf, const void *bytes, size_t len)
{
	int r;

	if (len == 0)
		return 0;
	r = buf_reserve(buf, len);
	if (r < 0)
		return r;
	memcpy(buf->data + buf->len, bytes, len);
	buf->len += len;
	return 0;
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
	char small[256];
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	if ((size_t)n < sizeof(small))
		return buf_add(buf, small, (size_t)n);
	r = buf_reserve(buf, (size_t)n);
	if (r < 0)
		return r;
	va_start(ap, fmt);
	(void)vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	buf->len += (size_t)n;
	return 0;
}

void buf_consume(struct buf *buf, size_t len)
{
	if (len == 0)
		return;
	if (len >= buf->len) {
		buf->len = 0;
		if (buf->data)
			buf->data[0] = '\0';
		return;
	}
	buf->len -= len;
	memmove(buf->data, buf->data + len, buf->len);
	buf->data[buf->len] = '\0';
}

char *buf_take(struct buf *buf)
{
	char *text;

	if (buf_reserve(buf, 0) < 0)
		return NULL;
	text = buf->data;
	buf_init(buf, buf->max);
	return text;
}
