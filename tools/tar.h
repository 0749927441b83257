/* tar.h - the tar format, as far as a copy needs it
 *
 * Reading is strict, since the stream may come from a hostile sandbox: ustar with
 * the extensions of pax and GNU tar for long names, sizes and times; a wrong
 * checksum, a malformed number or record, and a header of more than TAR_HEADER_MAX
 * bytes end it.  Memory is bounded by that and does not grow with the stream.  What
 * a name may be is not decided here.  Writing is ustar with a pax header.
 *
 * Format: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar, "Basic Tar Format".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"

#define TAR_BLOCK      512
#define TAR_HEADER_MAX (64 * 1024)

enum tar_type {
	TAR_FILE,
	TAR_DIR,
	TAR_SYMLINK,
	TAR_HARDLINK,
	TAR_OTHER, /* devices, fifos and what is not known; its data can be skipped */
};

struct tar_entry {
	enum tar_type type;
	const char *name, *link; /* of the reader until its next entry; not empty for links */
	mode_t mode;             /* as sent, at most 07777 */
	uint64_t size;           /* bytes of data behind the header */
	struct timespec mtime;
};

struct tar_reader {
	/* At most `len` bytes, 0 at the end, a negative errno with a sentence. */
	ssize_t (*read)(void *arg, char *bytes, size_t len, struct err *);
	void *arg;
	uint64_t left;    /* data of this entry that was not read */
	unsigned padding; /* behind it */
	struct buf name, link, extension;
	bool have_name, have_link, have_size, have_mtime; /* said by an extension */
	uint64_t size;
	struct timespec mtime;
};

void tar_reader_init(struct tar_reader *,
		     ssize_t (*read)(void *arg, char *bytes, size_t len, struct err *), void *arg);
void tar_reader_done(struct tar_reader *);
/* Skips what is left of the entry before. 1: an entry, 0: the end, or a negative errno: -ENODATA, the
 * stream stopped between two entries, -EPROTO, it is malformed, or what read() said. */
int tar_next(struct tar_reader *, struct tar_entry *ret, struct err *);
/* The entry's data: 0 when there is no more. */
ssize_t tar_data(struct tar_reader *, char *bytes, size_t len, struct err *);

struct tar_writer {
	/* All bytes: 0, or a negative errno with a sentence. */
	int (*write)(void *arg, const char *bytes, size_t len, struct err *);
	void *arg;
};

/* Then comes exactly entry->size bytes of data, through write(), and tar_put_padding(). */
int tar_put_entry(const struct tar_writer *, const struct tar_entry *, struct err *);
int tar_put_padding(const struct tar_writer *, uint64_t size, struct err *);
int tar_put_end(const struct tar_writer *, struct err *);

/* For both: what a header consists of. */
struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[8]; /* "ustar\0" "00"; GNU: "ustar  \0" */
	char uname[32], gname[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a tar header is one block");
unsigned tar_sum(const struct tar_header *);
