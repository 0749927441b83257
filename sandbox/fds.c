#include "sandbox/fds.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union fds_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

int fds_send(int sock, const void *bytes, size_t len, const int *fd, size_t n)
{
	union fds_control cm = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n > FDS_MAX)
		return -E2BIG;
	if (n > 0) {
		cm.align = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(n * sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&cm.align), fd, n * sizeof(int));
		msg.msg_control = &cm;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t fds_receive(int sock, void *bytes, size_t len, int flags, struct fds *ret)
{
	union fds_control cm;
	struct iovec iov = { bytes, len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &cm,
		.msg_controllen = sizeof(cm),
	};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
	struct cmsghdr *c;

	ret->n = 0;
	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		ret->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret->fd, CMSG_DATA(c), ret->n * sizeof(int));
	}
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		fds_close(ret);
		return msg.msg_flags & MSG_CTRUNC ? -EMFILE : -EMSGSIZE;
	}
	return n;
}

void fds_close(struct fds *fds)
{
	for (size_t i = 0; i < fds->n; i++)
		(void)close(fds->fd[i]);
	fds->n = 0;
}
