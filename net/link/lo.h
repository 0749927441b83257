/* lo.h - the loopback link of a new network namespace
 *
 * libnl builds the request once, at start; the child that sits in the new
 * namespace only sends those bytes and reads the answer: it must not allocate.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct lo_request {
	unsigned char bytes[128]; /* one RTM_NEWLINK message: link 1, IFF_UP */
	size_t len;
};

int lo_request_build(struct lo_request *, struct err *);
/* In the network namespace of the caller. 0 or a negative errno. Async-signal-safe. */
int lo_up(const struct lo_request *);
