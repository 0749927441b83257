/* unpack.h - a tar stream that may be hostile becomes files, below one directory and nowhere else */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "tools/tar.h"

struct unpack {
	int root; /* borrowed: the directory below which everything is made */
	/* The first component that every name in the stream has, and the name that it gets in
	 * `root`. from NULL: names stand below "."; to NULL: what is in it goes into `root`. */
	const char *from, *to;
	/* May be NULL. An entry could not be made; the others are. */
	void (*complain)(void *arg, const struct err *);
	/* May be NULL. Between two pieces of data: bytes so far, and what is being made. */
	void (*tick)(void *arg, uint64_t bytes, const char *name);
	void *arg;
	uint64_t bytes;  /* of files, so far */
	unsigned failed; /* entries that could not be made */
};

/* Makes files, directories and links, with the lowest nine bits of their modes and their
 * modification times, and the owner of this process.  What is there already is replaced, but for
 * directories, which are gone into and keep their modes.  Devices and fifos are complained of.
 *
 * Whatever the stream says, nothing outside `root` is made, changed or removed, and no symbolic
 * link is followed.  That also holds while somebody else changes what is below `root`.  A file
 * gets its name when it is complete.
 *
 * 0, also if entries failed, or a negative errno: the stream is not right, or the disk is full. */
int unpack_run(struct unpack *, struct tar_reader *, struct err *);
