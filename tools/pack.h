/* pack.h - a file or a directory of this machine as a tar stream */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "tools/tar.h"

struct pack {
	struct tar_writer out;
	/* May be NULL. Something could not be read, or is neither file, directory nor link. */
	void (*complain)(void *arg, const struct err *);
	/* May be NULL. Between two pieces of data: bytes so far, and what is being sent. */
	void (*tick)(void *arg, uint64_t bytes, const char *name);
	void *arg;
	uint64_t bytes;  /* of files, so far */
	unsigned failed; /* how often it complained */
};

/* Sends `path` and what is below it under the name `name`, and the stream's end. Symbolic links are
 * sent as such.  A file that shrinks meanwhile is filled up with zeroes, and complained of.
 * 0, also if it complained, or a negative errno: the stream could not be written. */
int pack_run(struct pack *, const char *path, const char *name, struct err *);
