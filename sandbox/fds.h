/* fds.h - descriptors that travel over a Unix socket with a message */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define FDS_MAX 64 /* in one message */

/* One message, whole: 0 or a negative errno. The descriptors stay the caller's. */
int fds_send(int sock, const void *bytes, size_t len, const int *fd, size_t n);

struct fds {
	int fd[FDS_MAX]; /* close-on-exec; the receiver's */
	size_t n;
};

/* `flags`: MSG_DONTWAIT or 0. Its length; 0: the other end is closed; a negative errno, -EMSGSIZE for one that is longer than
 * `len`, -EMFILE where descriptors were lost: then none is left open.  Makes system calls only. */
ssize_t fds_receive(int sock, void *bytes, size_t len, int flags, struct fds *ret);
void fds_close(struct fds *);
