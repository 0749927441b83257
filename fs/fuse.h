/* fuse.h - the tree as a mounted filesystem
 *
 * One session of libfuse's low-level interface on our event loop.  What has to
 * wait is parked (fuse_park.c): no thread and no turn of the loop is held by it.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "fs/tree.h"

struct fuse_server;

struct fuse_server_config {
	struct tree *tree;      /* borrowed; its owner_changed is taken */
	const char *mountpoint; /* absolute, an empty directory; borrowed */
	bool allow_other;       /* other users may come; root's mount always lets them */
	/* The mount is gone, by somebody else's hand. */
	void (*ended)(void *arg);
	void *arg;
};

/* Mounts, and serves from the loop's next turn on. */
int fuse_server_new(struct fuse_server **ret, const struct fuse_server_config *, struct err *);
/* Unmounts, fails what is parked, closes every handle. */
void fuse_server_free(struct fuse_server *);

/* Seconds after which this kernel aborts a connection because of one slow request; 0: never. */
unsigned fuse_request_timeout(void);
