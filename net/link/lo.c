/* lo.c - see lo.h
 *
 * Two halves that never run in the same process state: lo_request_build() uses libnl in the
 * daemon, at start; lo_up() is plain system calls, in a child that has just been cloned.
 */
#include "net/link/lo.h"

#include <errno.h>
#include <net/if.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/route/link.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"

/* Loopback is the first device that the kernel registers in a network namespace. */
#define LO_IFINDEX 1
#define LO_SEQ     1

DEFINE_AUTO(struct rtnl_link *, rtnl_link_put);
DEFINE_AUTO(struct nl_msg *, nlmsg_free);

int lo_request_build(struct lo_request *ret, struct err *err)
{
	AUTO(rtnl_link_put) struct rtnl_link *lo = rtnl_link_alloc();
	AUTO(rtnl_link_put) struct rtnl_link *up = rtnl_link_alloc();
	AUTO(nlmsg_free) struct nl_msg *msg = NULL;
	struct nlmsghdr *hdr;
	int r;

	if (!lo || !up)
		return err_set(err, ENOMEM, "build the request that brings lo up");
	rtnl_link_set_ifindex(lo, LO_IFINDEX);
	rtnl_link_set_flags(up, IFF_UP);
	r = rtnl_link_build_change_request(lo, up, 0, &msg);
	if (r < 0)
		return err_say(err, EIO, "build the request that brings lo up: %s", nl_geterror(r));
	/* What nl_complete_msg() would do for a socket; ours is another process's. */
	hdr = nlmsg_hdr(msg);
	hdr->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	hdr->nlmsg_seq = LO_SEQ;
	hdr->nlmsg_pid = 0;
	if (hdr->nlmsg_len > sizeof(ret->bytes))
		return err_set(err, E2BIG, "build the request that brings lo up");
	memcpy(ret->bytes, hdr, hdr->nlmsg_len);
	ret->len = hdr->nlmsg_len;
	return 0;
}

int lo_up(const struct lo_request *req)
{
	auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct {
		struct nlmsghdr hdr;
		struct nlmsgerr err; /* error 0 is the acknowledgement */
		char echo[sizeof(req->bytes)];
	} answer;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (sendto(fd, req->bytes, req->len, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) <
	    0)
		return -errno;
	/* rtnetlink works inside sendto(): the answer is there, this does not wait. */
	n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(answer.hdr) + sizeof(answer.err) ||
	    answer.hdr.nlmsg_type != NLMSG_ERROR || answer.hdr.nlmsg_seq != LO_SEQ)
		return -EBADMSG;
	return answer.err.error;
}
