/* agent-internal.h - process 1 from inside
 *
 * No heap, no stdio, nothing at file scope that changes: everything is in the one
 * struct agent that main() holds.  Functions return 0 or a negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/args.h"
#include "agent/proto.h"

#define AGENT_SCRIPT_DIR "/run/hutch" /* made by the launching child */

#define USER_GROUPS_MAX 256
#define USER_HOME_MAX   1024
#define PAST_MAX        1024

/* Who a command runs as. */
struct user {
	uint32_t uid, gid;
	unsigned groups_n;
	gid_t groups[USER_GROUPS_MAX];
	char home_env[sizeof("HOME=") + USER_HOME_MAX]; /* "HOME=/root" */
};

/* From one AGENT_OP_EXEC to its execve(); used again for the next. */
struct spawn {
	struct agent_exec req;
	int fd[AGENT_EXEC_FDS_MAX]; /* as they came */
	unsigned fd_n;
	int stdio[3];   /* borrowed from fd[]; -1: the agent's own, /dev/null */
	int script;     /* borrowed from fd[]; -1: none */
	int group;      /* borrowed from fd[]; -1: none */
	bool is_inline; /* the arguments came with the message */
	union {
		struct agent_args args;
		uint64_t slots[AGENT_ARGS_INLINE / sizeof(uint64_t)];
	} block;                 /* which puts them here */
	struct agent_args *args; /* there, or mapped; NULL: not yet */
	char **argv, **envp;     /* in args */
	const char *cwd;         /* NULL: home */
	struct user user;
	bool changes_ids;
	char script_path[sizeof(AGENT_SCRIPT_DIR) + 16];
	/* Written by the child, which shares this memory, until it has another image. */
	volatile int stage, error;
};

/* A command's first process, which leads its session and process group. */
struct leader {
	uint32_t id;
	pid_t pid;
	bool has_script;
};

struct agent {
	int signals, scripts; /* signalfd; AGENT_SCRIPT_DIR, O_PATH */
	bool counts_io;       /* the kernel has task accounting */
	struct leader live[AGENT_LIVE_MAX];
	unsigned live_n;
	/* Groups that outlived their leader, a ring: they can still be signalled. */
	struct leader past[PAST_MAX];
	unsigned past_at;
	struct spawn spawn;
};

/* main.c: an event that is not delivered would be lost, so this waits when the socket is full;
 * hutchd never waits for us, so it drains. Exits when hutchd is gone. */
void agent_send(const struct agent_event *);

/* spawn.c: starts the command in a->spawn.req with its descriptors, which it closes; answers
 * AGENT_STARTED or AGENT_FAILED. */
void agent_exec(struct agent *);

/* clone.c: clone3() for CLONE_VM | CLONE_VFORK without a stack of its own. Returns twice, like vfork();
 * a negative errno on failure. */
struct clone_args;
long clone3_vfork(struct clone_args *, size_t size) __attribute__((returns_twice));

/* reap.c */
void agent_leader_add(struct agent *, uint32_t id, pid_t);
/* Every child that is over, ours or adopted; answers AGENT_EXITED for ours. */
void agent_reap(struct agent *);
void agent_signal(struct agent *, const struct agent_signal *);
/* Writes the decimal digits and a NUL, at most 11 bytes; returns where the NUL is. */
char *put_decimal(char *to, uint32_t n);
void script_name(char name[11], uint32_t id);

/* user.c: "UID", "UID:GID" or a name, after the sandbox's own passwd and group. spec NULL: 0:0.
 * -ENOENT: no such user; -EINVAL: not a user at all. */
int user_resolve(struct user *, const char *spec);
