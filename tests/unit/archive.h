/* archive.h - tar streams made in memory, well-formed or not, and read back from there */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tools/tar.h"

struct archive {
	struct buf bytes;
	size_t at;    /* what was read */
	size_t piece; /* most bytes that one read gives; 0: as many as asked for */
};

static inline int archive_write(void *arg, const char *bytes, size_t len, struct err *err)
{
	struct archive *a = arg;

	(void)err;
	if (buf_add(&a->bytes, bytes, len) < 0)
		abort();
	return 0;
}

static inline ssize_t archive_read(void *arg, char *bytes, size_t len, struct err *err)
{
	struct archive *a = arg;
	size_t left = a->bytes.len - a->at;

	(void)err;
	len = len < left ? len : left;
	len = a->piece && a->piece < len ? a->piece : len;
	if (len > 0)
		memcpy(bytes, a->bytes.data + a->at, len);
	a->at += len;
	return (ssize_t)len;
}

static inline void archive_add(struct archive *a, const struct tar_entry *e, const char *data)
{
	const struct tar_writer w = { .write = archive_write, .arg = a };

	if (tar_put_entry(&w, e, NULL) < 0)
		abort();
	if (e->size > 0)
		(void)archive_write(a, data, e->size, NULL);
	(void)tar_put_padding(&w, e->size, NULL);
}

static inline void archive_file(struct archive *a, const char *name, const char *data)
{
	archive_add(a,
		    &(struct tar_entry){
			    .type = TAR_FILE, .name = name, .mode = 0644, .size = strlen(data) },
		    data);
}

static inline void archive_dir(struct archive *a, const char *name, mode_t mode)
{
	archive_add(a, &(struct tar_entry){ .type = TAR_DIR, .name = name, .mode = mode }, NULL);
}

static inline void archive_link(struct archive *a, enum tar_type type, const char *name,
				const char *to)
{
	archive_add(a, &(struct tar_entry){ .type = type, .name = name, .link = to, .mode = 0777 },
		    NULL);
}

/* A header of any type, and `len` bytes of data with their padding. */
static inline void archive_raw(struct archive *a, char type, const char *name, const char *data,
			       size_t len)
{
	static const char zeroes[TAR_BLOCK];
	struct tar_header h = { .type = type, .mode = "0000644", .mtime = "00000000000" };

	strncpy(h.name, name, sizeof(h.name) - 1);
	memcpy(h.magic, "ustar\00000", 8);
	(void)snprintf(h.size, sizeof(h.size), "%011o", (unsigned)len);
	(void)snprintf(h.sum, sizeof(h.sum), "%06o", tar_sum(&h));
	(void)archive_write(a, (const char *)&h, sizeof(h), NULL);
	if (len > 0)
		(void)archive_write(a, data, len, NULL);
	(void)archive_write(a, zeroes, (TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK, NULL);
}

static inline void archive_end(struct archive *a)
{
	(void)tar_put_end(&(struct tar_writer){ .write = archive_write, .arg = a }, NULL);
}

static inline void archive_done(struct archive *a)
{
	buf_done(&a->bytes);
	a->at = 0;
}
