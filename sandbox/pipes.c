/* pipes.c - see pipes.h */
#include "sandbox/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* One at a time: whoever comes meanwhile waits for no more than that. One that cannot be made is tried
 * again by who needs it, and he says why. */
static void on_fill(struct ev_task *task)
{
	struct pipes *all = container_of(task, struct pipes, fill);

	if (all->n == PIPES_AHEAD || pipe2(all->fd[all->n], O_CLOEXEC) < 0)
		return;
	if (++all->n < PIPES_AHEAD)
		ev_defer_idle(all->loop, task);
}

void pipes_init(struct pipes *all, struct ev_loop *loop)
{
	*all = (struct pipes){ .loop = loop };
	ev_task_init(&all->fill, on_fill);
	ev_defer_idle(loop, &all->fill);
}

void pipes_done(struct pipes *all)
{
	ev_task_cancel(&all->fill);
	while (all->n > 0) {
		all->n--;
		(void)close(all->fd[all->n][0]);
		(void)close(all->fd[all->n][1]);
	}
}

int pipes_take(struct pipes *all, bool we_read, int *ours, int *theirs, struct err *err)
{
	int fd[2], end = we_read ? 0 : 1;

	if (all->n > 0)
		memcpy(fd, all->fd[--all->n], sizeof(fd));
	else if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	ev_defer_idle(all->loop, &all->fill);
	(void)fcntl(fd[end], F_SETFL, O_NONBLOCK); /* of a pipe it cannot fail */
	*ours = fd[end];
	*theirs = fd[1 - end];
	return 0;
}
