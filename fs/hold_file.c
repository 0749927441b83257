/* hold_file.c - the two `hold` files: what is held lives as long as a handle is open
 *
 * The kernel closes the handles of a process however it died, so nobody has to
 * clean up after a script.  What is written is taken and means nothing.
 */
#include <poll.h>

#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

static int hold_open(struct handle *h, struct err *err)
{
	int r = sandbox_hold(h->ref.sandbox, err);

	h->holds = r == 0;
	return r;
}

static void hold_release(struct handle *h)
{
	if (h->holds)
		sandbox_unhold(h->ref.sandbox);
	h->holds = false;
}

static int exec_hold_open(struct handle *h, struct err *err)
{
	(void)err;
	exec_hold(h->ref.exec);
	h->holds = true;
	return 0;
}

static void exec_hold_release(struct handle *h)
{
	if (h->holds)
		exec_unhold(h->ref.exec);
	h->holds = false;
}

static ssize_t hold_write(struct node_io *io, struct err *err)
{
	(void)err;
	io->done = io->len;
	return (ssize_t)io->len;
}

static uint32_t hold_ready(struct handle *h, struct list **ret_wait)
{
	(void)h;
	(void)ret_wait;
	return POLLOUT | POLLWRNORM;
}

const struct node_ops hold_ops = {
	.open = hold_open,
	.write = hold_write,
	.release = hold_release,
	.ready = hold_ready,
};

const struct node_ops exec_hold_ops = {
	.open = exec_hold_open,
	.write = hold_write,
	.release = exec_hold_release,
	.ready = hold_ready,
};
