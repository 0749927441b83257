/* mounts.h - directories of the host's in a sandbox: `mounts` of its spec
 *
 *	hutchd			helper				process 1
 *	forks ------------->	becomes the sandbox's owner
 *				opens each source
 *				checks it, clones its mount
 *	... loop ... <-----	detached mounts
 *	passes them on ----------------------------------->	puts each on its target
 *
 * hutchd itself never touches a source: one on a network or FUSE file system that
 * does not answer hangs the helper.  After MOUNTS_WAIT_S it is killed, or left
 * alone where the kernel does not let it die, and the start has failed.
 *
 * What a user may mount is what he owns, and read-only what the config allows; that
 * is looked at anew at every start.  Where hutchd is root a file system that a user
 * serves himself is not his to mount.  Of a directory its own mount is taken, without
 * those below it, which may be others'.  nosuid and nodev always.  Ids are mapped so
 * that the owner is user 0 inside, and his groups are groups of the sandbox; everybody
 * else is nobody there.
 *
 * Where hutchd is not root nobody can make detached mounts for it: the helper only checks, and
 * process 1, which has the same user's rights, opens the same directories again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/ev.h"
#include "sandbox/fds.h"
#include "sandbox/launch.h"
#include "sandbox/request.h"

#define MOUNTS_WAIT_S   5
#define MOUNTS_HUNG_MAX 8 /* helpers of one user that were killed and did not die */

_Static_assert(SPEC_MOUNTS_MAX <= FDS_MAX, "the mounts of a spec fit into a message");

/* Which directory it is. */
struct mounts_place {
	uint64_t dev, ino;
};

/* From the helper, with the mounts' descriptors in the order of the spec, or without any. */
struct mounts_reply {
	struct err err; /* code 0: all went well */
	uint32_t n;
	struct mounts_place place[SPEC_MOUNTS_MAX];
};

struct zombies;

struct mounts_ask {
	const struct spec_mount *mount; /* borrowed until done() or mounts_cancel() */
	size_t n;
	uid_t uid; /* the owner */
	gid_t gid; /* the sandbox's group: counts for an owner whom the user database does not know */
	struct id_range ids;
	int state_fd;               /* the state directory, which nobody can mount */
	const char *const *allowed; /* NULL-terminated; NULL: nothing is */
	struct ev_loop *loop;
	struct list *jobs;       /* struct mounts_job.link: every helper that was not reaped */
	struct zombies *zombies; /* for one that could not be watched */
	/* Called once from the loop. `fds` stays the caller's. */
	void (*done)(void *owner, const struct mounts_reply *, const struct fds *fds);
	void *owner;
};

struct mounts_job;

/* EBUSY: too many helpers of this user hang. */
int mounts_check(const struct mounts_ask *, struct err *);
/* The same, and starts one. */
int mounts_open(struct mounts_job **ret, const struct mounts_ask *, struct err *);
/* done() is not called any more; the helper is killed. */
void mounts_cancel(struct mounts_job *);
/* Kills all helpers and waits a moment for them. */
void mounts_end_all(struct list *jobs);

/* Sends what done() was given to process 1. */
int mounts_give(int control, const struct mounts_reply *, const struct fds *, struct err *);

/* mounts_helper.c: in the helper. A uint32_t over `sock` before each mount, its index; then the reply. */
_Noreturn void mounts_helper(const struct mounts_ask *, int sock);
