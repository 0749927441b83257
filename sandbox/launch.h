/* launch.h - process 1 of a sandbox, from clone3 to the agent's first message
 *
 * The plan is made by the engine; launch() runs it: one clone3 with the
 * namespaces, the id maps written from outside, then the stages in the child, in
 * the order of launch_stages, then the agent by execveat.  A stage that fails is
 * reported over the control socket as a number and an errno (agent/proto.h),
 * never as text: the child must not allocate, nor run anything of stdio.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/text.h"
#include "net/link/lo.h"

/* A block of host ids: `base` is user 0 inside. count 1: an unprivileged hutchd's own id. */
struct id_range {
	uint32_t base, count;
};

/* What every sandbox of one image shares; prepared once. */
struct image;
/* The image `host`: DIR/host is (re)made below the state directory, see image_host.c. */
int image_host_new(struct image **ret, int state_fd, const char *state_dir, struct err *);
void image_free(struct image *);

/* Makes the writable layer: LAYER/{upper,work}, belonging to ids->base, and where the image cannot be
 * mounted with ids mapped, with everything of the image's that its sandboxes must own. `dirfd`
 * holds `name`. On failure the caller removes what there is. */
int layer_make(const struct image *, int dirfd, const char *name, const struct id_range *,
	       struct err *);
/* What a sandbox is called, as its files say it: the child copies bytes only. */
struct launch_name {
	char hostname[NAME_MAX_LEN + 1];
	char hosts[256]; /* /etc/hosts; written, like /etc/hostname, where the layer's is empty */
};
void launch_name_fill(struct launch_name *, const char *hostname);

struct spec_mount;

struct launch_plan {
	/* NULL: process 1 waits for launch_name_send() before it starts the agent. */
	const struct launch_name *name;
	struct id_range ids;
	const struct image *image;
	int layer;              /* O_PATH; borrowed; -1: launch_layer_send() has it later */
	const char *layer_path; /* absolute: for an unprivileged hutchd, and sentences */
	int agent_fd;           /* sealed memfd with the agent; borrowed */
	int cgroup_fd;          /* v2 group that process 1 is cloned into; borrowed; -1: none */
	const struct lo_request *lo; /* borrowed */
	/* Borrowed. Process 1 waits until mounts_give() has sent what belongs to them. */
	const struct spec_mount *mounts;
	size_t mounts_n;
};

struct launched {
	pid_t pid;
	int pidfd;   /* owned: readable when process 1 has ended; waitid(P_PIDFD) reaps it */
	int control; /* owned: SOCK_SEQPACKET, non-blocking; speaks agent/proto.h */
};

/* To a process 1 that was launched without its layer, and waits for it before it mounts anything. */
int launch_layer_send(const struct launch_plan *, const struct launched *, struct err *);
/* Waits for nothing of the child's: AGENT_READY or AGENT_SETUP_FAILED comes over `control`.  On
 * failure ret->pid is a child that is the caller's to kill and to reap, or -1. */
int launch(const struct launch_plan *, struct launched *ret, struct err *);
/* To a process 1 that was launched without a name. */
int launch_name_send(int control, const struct launch_name *, struct err *);

/* What stage number `stage` was about, for sentences: "mount /proc". Of a mount of the spec,
 * AGENT_SETUP_MOUNT and above, the caller knows more. */
const char *launch_stage_name(unsigned stage);
