/* An answer that goes out of a file, and one that could not be sent. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <unistd.h>

#include "base/auto.h"
#include "fs/fuse-internal.h"
#include "tests/unit/tap.h"

/* Stands for libfuse, which forgets a request whatever becomes of its answer. */
static int dev[2]; /* a pipe: the kernel's side, and /dev/fuse */
static int outcome;
static struct fuse_server srv;

int fuse_reply_data(fuse_req_t req, struct fuse_bufvec *v, enum fuse_buf_copy_flags flags)
{
	(void)req;
	(void)v;
	(void)flags;
	return outcome;
}

void *fuse_req_userdata(fuse_req_t req)
{
	(void)req;
	return &srv;
}

int fuse_session_fd(struct fuse_session *se)
{
	(void)se;
	return dev[1];
}

static size_t sent;

static void on_sent(struct node_io *io, size_t n)
{
	(void)io;
	sent += n;
}

static const struct {
	int outcome;
	size_t sent;
	int error; /* that the kernel is told by us; 0: nothing */
	const char *what;
} rows[] = {
	{ 0, 70000, 0, "sent" },
	{ -ENOMEM, 0, -EIO, "not sent" },
	{ -EIO, 0, -EIO, "sent in part" },
	{ -ENOENT, 0, 0, "of a request that is not there any more" },
};

int main(void)
{
	const struct node_ops ops = { .sent = on_sent };
	const struct node_def def = { .ops = &ops };
	struct handle h = { .def = &def };
	struct node_io io = { .handle = &h, .unique = 42 };

	if (pipe2(dev, O_CLOEXEC | O_NONBLOCK) < 0)
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fuse_out_header out = { 0 };
		ssize_t n;

		sent = 0;
		outcome = rows[i].outcome;
		fuse_send(NULL, &io, 70000);
		is_int((long long)sent, (long long)rows[i].sent, "%s: what was taken",
		       rows[i].what);
		n = read(dev[0], &out, sizeof(out));
		if (rows[i].error)
			ok(n == sizeof(out) && out.len == sizeof(out) && out.unique == 42 &&
				   out.error == rows[i].error,
			   "%s: it is answered", rows[i].what);
		else
			ok(n < 0 && errno == EAGAIN, "%s: nothing more", rows[i].what);
	}
	close_auto(&dev[0]);
	close_auto(&dev[1]);
	return tap_done();
}
