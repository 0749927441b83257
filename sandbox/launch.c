/* launch.c - see launch.h
 *
 *	hutchd					child
 *	clone3 ------------------------------>	keeps its descriptors
 *	writes uid_map and gid_map		unshares the other namespaces
 *	opens detached mounts of image and layer
 *	one message with them --------------->	the other stages, one after the other
 *	returns					execveat: the agent
 *	(launch_layer_send() ---------------->)	that message, of one whose layer was not there yet
 *	(mounts_give() ---------------------->)	of a spec with mounts: before the root is mounted
 *	(launch_name_send() ----------------->)	of one that was made ahead: before the agent
 *	... loop ... <------------------------	AGENT_READY
 *
 * hutchd waits for nothing.  If it dies or gives up, the child sees the end of
 * the socket, or PDEATHSIG, and exits.  The child is a fork without CLONE_VM (it
 * must wait for hutchd, which a vfork would have stopped), of a daemon that may
 * hold locks of its allocator: from here to execveat it makes system calls only.
 */
#include "sandbox/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/proto.h"
#include "base/auto.h"
#include "base/file.h"
#include "sandbox/launch-internal.h"

/* The order is the wall: see the comments of the stages for what each must follow. */
static const struct stage {
	const char *name; /* stands in "start sandbox: NAME: errno's text" */
	int (*run)(struct child *);
} launch_stages[] = {
	{ "keep only the descriptors it needs", child_keep_fds },
	{ "unshare the namespaces", namespaces_unshare },
	{ "wait for the id maps", child_wait_maps },
	{ "become user 0 of the sandbox", ids_become_root },
	{ "unshare the cgroup namespace", namespaces_enter_cgroup },
	{ "make the mounts private", namespaces_private_mounts },
	{ "receive the directories to mount", mounts_receive },
	{ "mount the root filesystem", rootfs_mount },
	{ "bind /usr from the host", rootfs_bind_host },
	{ "mount /dev", dev_mount },
	{ "mount /proc", rootfs_mount_proc },
	{ "mask /proc", masks_apply },
	{ "mount /tmp", rootfs_mount_tmp },
	{ "mount the directories of the spec", mounts_attach },
	{ "bring up the loopback link", namespaces_lo_up },
	{ "pivot into the root filesystem", rootfs_pivot },
	{ "wait for its name", child_wait_name },
	{ "set the hostname", namespaces_hostname },
	{ "write its name", layer_write_name },
	{ "set resource limits", rlimits_set },
	{ "drop capabilities", caps_drop },
	{ "execute the agent", child_exec_agent },
};
_Static_assert(ARRAY_SIZE(launch_stages) <= AGENT_SETUP_SELF, "stages fit the protocol");

const char *launch_stage_name(unsigned stage)
{
	if (stage < ARRAY_SIZE(launch_stages))
		return launch_stages[stage].name;
	return stage == AGENT_SETUP_SELF ? "prepare the agent" : "set up (unknown stage)";
}

/* ---- in the child ---- */

/* First of all: copies of the daemon's pipes would keep streams of other sandboxes open.  Nor
 * does it stay in the session of the daemon's terminal. */
int child_keep_fds(struct child *c)
{
	/* Above both targets first, so that neither is overwritten. */
	int control = fcntl(c->control, F_DUPFD_CLOEXEC, 10);
	int agent = fcntl(c->agent, F_DUPFD_CLOEXEC, 10);

	if (control < 0 || agent < 0)
		return -errno;
	/* The agent inherits the socket, and not the file it is executed from. */
	if (dup2(control, CHILD_CONTROL_FD) < 0 || dup3(agent, CHILD_AGENT_FD, O_CLOEXEC) < 0)
		return -errno;
	c->control = CHILD_CONTROL_FD;
	c->agent = CHILD_AGENT_FD;
	if (close_range(CHILD_AGENT_FD + 1, ~0U, 0) < 0)
		return -errno;
	return setsid() < 0 ? -errno : 0;
}

/* The go: one byte, and the detached mounts where hutchd may make them. */
int child_wait_maps(struct child *c)
{
	struct fds trees;
	char go = 0;
	ssize_t n = fds_receive(c->control, &go, 1, 0, &trees);

	if (n < 0)
		return (int)n;
	if (n == 0)
		_exit(1); /* hutchd gave up: nobody listens */
	if (trees.n == 2) {
		c->image_tree = trees.fd[0];
		c->layer_tree = trees.fd[1];
	}
	return 0;
}

/* All that comes before could be done for a sandbox that nobody has asked for yet. */
int child_wait_name(struct child *c)
{
	ssize_t n;

	if (c->plan->name) {
		c->name = *c->plan->name;
		return 0;
	}
	(void)prctl(PR_SET_NAME, "hutch-blank");
	n = recv(c->control, &c->name, sizeof(c->name), 0);
	if (n == 0)
		_exit(1); /* hutchd ends: nobody has wanted it */
	return n < 0 ? -errno : n == sizeof(c->name) ? 0 : -EPROTO;
}

int child_exec_agent(struct child *c)
{
	static const char name[] = "hutch-agent";
	char *argv[] = { (char *)(uintptr_t)name, NULL };
	char *envp[] = { NULL };

	/* The agent's 0, 1 and 2, and its commands' where they have no pipe: the new /dev/null. */
	for (int fd = 0; fd < 3; fd++)
		(void)close(fd);
	if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2)
		return errno ? -errno : -EBADF;
	if (close_range(CHILD_AGENT_FD + 1, ~0U, 0) < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	(void)execveat(c->agent, "", argv, envp, AT_EMPTY_PATH);
	return -errno;
}

static _Noreturn void child_run(struct child *c)
{
	struct agent_event ev = { .kind = AGENT_SETUP_FAILED };

	for (unsigned i = 0; i < ARRAY_SIZE(launch_stages); i++) {
		int r = launch_stages[i].run(c);

		if (r < 0) {
			ev.value = (int32_t)(c->at_mount ? AGENT_SETUP_MOUNT + c->at_mount - 1 : i);
			ev.error = -r;
			break;
		}
	}
	(void)send(c->control, &ev, sizeof(ev), MSG_NOSIGNAL); /* if nobody listens, so be it */
	_exit(1);
}

/* ---- in hutchd ---- */

/* User and pid namespace only: the child makes the others itself, while hutchd writes the maps.
 * They take most of the time (a network namespace alone 0.4 ms), and the daemon has other things
 * to do. */
static pid_t clone_child(const struct launch_plan *plan, int *pidfd)
{
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_PIDFD,
		.pidfd = (uintptr_t)pidfd,
		.exit_signal = SIGCHLD,
	};

	if (plan->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)plan->cgroup_fd;
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Paths to the state directory lead through directories that the sandbox's ids cannot traverse,
 * and a descriptor of our mount namespace cannot be bound in another (EINVAL): detached mounts
 * can.  Not root: both are -1, and the child, who is our own user then, opens by path. */
static int open_trees(const struct launch_plan *plan, pid_t pid, int tree[2], struct err *err)
{
	auto_close int userns = plan->image->idmaps ? ids_userns(pid) : -1;

	/* Without its ids mapped the image would be a stranger's to everybody in the sandbox. */
	if (plan->image->idmaps && userns < 0)
		return err_set(err, -userns, "open the user namespace of process 1");
	tree[0] = image_mount(plan->image, userns);
	if (tree[0] == -EPERM)
		return 0;
	if (tree[0] < 0)
		return err_set(err, -tree[0], "mount the image '%s'", plan->image->path);
	tree[1] = open_tree(plan->layer, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree[1] < 0)
		return err_set(err, errno, "mount the layer '%s'", plan->layer_path);
	return 0;
}

static int release_child(int control, const int tree[2], struct err *err)
{
	int r = fds_send(control, "", 1, tree, tree[0] < 0 ? 0 : 2);

	return r < 0 ? err_set(err, -r, "release process 1") : 0;
}

int launch_layer_send(const struct launch_plan *plan, const struct launched *to, struct err *err)
{
	int tree[2] = { -1, -1 };
	int r = open_trees(plan, to->pid, tree, err);

	if (r == 0)
		r = release_child(to->control, tree, err);
	for (int i = 0; i < 2; i++)
		if (tree[i] >= 0)
			(void)close(tree[i]);
	return r;
}

static int prepare_child(const struct launch_plan *plan, const struct launched *to, struct err *err)
{
	int r = ids_write(to->pid, &plan->ids, err);

	return r < 0 || plan->layer < 0 ? r : launch_layer_send(plan, to, err);
}

int launch(const struct launch_plan *plan, struct launched *ret, struct err *err)
{
	int pair[2], pidfd = -1, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "make a socket for the agent");
	pid = clone_child(plan, &pidfd);
	if (pid == 0) {
		struct child c = {
			.plan = plan,
			.control = pair[1],
			.agent = plan->agent_fd,
			.image_tree = -1,
			.layer_tree = -1,
			.staging = -1,
			.root = -1,
			.null = -1,
		};

		child_run(&c);
	}
	(void)close(pair[1]);
	r = pid < 0 ? err_set(err, errno, "make a process in new namespaces") : 0;
	if (r == 0)
		r = prepare_child(plan, &(struct launched){ pid, pidfd, pair[0] }, err);
	if (r == 0 && (r = fd_set_nonblock(pair[0])) < 0)
		r = err_set(err, -r, "set up the agent's socket");
	if (r < 0) {
		(void)close(pair[0]);
		close_auto(&pidfd);
		*ret = (struct launched){ pid > 0 ? pid : -1, -1, -1 };
		return r;
	}
	*ret = (struct launched){ pid, pidfd, pair[0] };
	return 0;
}

void launch_name_fill(struct launch_name *name, const char *hostname)
{
	*name = (struct launch_name){ 0 };
	(void)snprintf(name->hostname, sizeof(name->hostname), "%s", hostname);
	(void)snprintf(name->hosts, sizeof(name->hosts),
		       "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n"
		       "::1\tlocalhost ip6-localhost ip6-loopback\n",
		       hostname);
}

int launch_name_send(int control, const struct launch_name *name, struct err *err)
{
	if (send(control, name, sizeof(*name), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return err_set(err, errno, "name process 1");
	return 0;
}
