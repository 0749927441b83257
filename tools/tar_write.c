/* tar_write.c - writing tar: see tar.h */
#include "tools/tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OCTAL_MAX (((uint64_t)1 << 33) - 1) /* 11 digits */

static const char type_flag[] = {
	[TAR_FILE] = '0',
	[TAR_DIR] = '5',
	[TAR_SYMLINK] = '2',
	[TAR_HARDLINK] = '1',
};

/* What does not fit is 0 here and said by a pax record. */
static void put_number(char field[12], uint64_t value)
{
	for (int i = 10; i >= 0; i--, value >>= 3)
		field[i] = (char)('0' + (value & 7));
	field[11] = '\0';
}

static int put_header(const struct tar_writer *w, struct tar_header *h, struct err *err)
{
	memcpy(h->magic, "ustar\00000", sizeof(h->magic));
	(void)snprintf(h->uid, sizeof(h->uid), "%07o", 0);
	(void)snprintf(h->gid, sizeof(h->gid), "%07o", 0);
	(void)snprintf(h->sum, sizeof(h->sum), "%06o", tar_sum(h));
	h->sum[7] = ' ';
	return w->write(w->arg, (const char *)h, sizeof(*h), err);
}

/* "LENGTH KEY=VALUE\n"; the length counts its own digits. */
static int add_record(struct buf *buf, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
	int digits;

	while ((digits = snprintf(NULL, 0, "%zu", len)) + rest != len)
		len = (size_t)digits + rest;
	return buf_printf(buf, "%zu %s=%s\n", len, key, value);
}

static int add_records(struct buf *buf, const struct tar_entry *e)
{
	char text[64];
	int r = 0;

	if (strlen(e->name) > sizeof(((struct tar_header *)0)->name))
		r = add_record(buf, "path", e->name);
	if (r == 0 && e->link && strlen(e->link) > sizeof(((struct tar_header *)0)->link))
		r = add_record(buf, "linkpath", e->link);
	if (r == 0 && e->size > OCTAL_MAX) {
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)e->size);
		r = add_record(buf, "size", text);
	}
	if (r < 0 ||
	    (e->mtime.tv_sec >= 0 && e->mtime.tv_sec <= (time_t)OCTAL_MAX && e->mtime.tv_nsec == 0))
		return r;
	if (e->mtime.tv_sec >= 0)
		(void)snprintf(text, sizeof(text), "%lld.%09ld", (long long)e->mtime.tv_sec,
			       e->mtime.tv_nsec);
	else /* -1.25 is { -2, 750000000 } */
		(void)snprintf(text, sizeof(text), "-%lld.%09ld",
			       -(long long)e->mtime.tv_sec - (e->mtime.tv_nsec > 0),
			       e->mtime.tv_nsec > 0 ? 1000000000 - e->mtime.tv_nsec : 0);
	return add_record(buf, "mtime", text);
}

static int put_pax(const struct tar_writer *w, const struct tar_entry *e, struct err *err)
{
	struct tar_header h = { .name = "PaxHeaders/x", .type = 'x', .mode = "0000600" };
	auto_buf struct buf records = { 0 };
	int r = add_records(&records, e);

	if (r < 0)
		return err_set(err, -r, "the header of '%s'", e->name);
	if (records.len == 0)
		return 0;
	put_number(h.size, records.len);
	put_number(h.mtime, 0);
	r = put_header(w, &h, err);
	if (r == 0)
		r = w->write(w->arg, records.data, records.len, err);
	return r == 0 ? tar_put_padding(w, records.len, err) : r;
}

/* Up to all of the field: 100 bytes stand there without a NUL. */
static void put_text(char *field, size_t size, const char *text)
{
	size_t len = strlen(text);

	memcpy(field, text, len < size ? len : size);
}

int tar_put_entry(const struct tar_writer *w, const struct tar_entry *e, struct err *err)
{
	struct tar_header h = { .type = type_flag[e->type] };
	int r = put_pax(w, e, err);

	if (r < 0)
		return r;
	put_text(h.name, sizeof(h.name), e->name);
	put_text(h.link, sizeof(h.link), e->link ? e->link : "");
	(void)snprintf(h.mode, sizeof(h.mode), "%07o", (unsigned)e->mode & 07777);
	put_number(h.size, e->size > OCTAL_MAX ? 0 : e->size);
	put_number(h.mtime, e->mtime.tv_sec < 0 ? 0 : (uint64_t)e->mtime.tv_sec);
	return put_header(w, &h, err);
}

int tar_put_padding(const struct tar_writer *w, uint64_t size, struct err *err)
{
	static const char zeroes[TAR_BLOCK];
	size_t len = (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;

	return len > 0 ? w->write(w->arg, zeroes, len, err) : 0;
}

int tar_put_end(const struct tar_writer *w, struct err *err)
{
	static const char zeroes[2 * TAR_BLOCK];

	return w->write(w->arg, zeroes, sizeof(zeroes), err);
}
