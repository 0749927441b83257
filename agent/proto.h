/* proto.h - what hutchd and the agent say to each other
 *
 * One SOCK_SEQPACKET pair per sandbox, little more than numbers, in the byte
 * order of the machine: both ends are built together and run on one host.
 *
 * To the agent: struct agent_exec with descriptors, struct agent_signal.
 * From the agent (and before it from the launching child, which shares the
 * socket): struct agent_event, always whole, never with descriptors.  hutchd
 * takes what comes from inside as hostile: agent_event_check() says whether a
 * message can be one; what it means in the present state is the engine's to
 * judge.
 *
 * The agent lives as long as the socket: at EOF it exits, and the kernel ends
 * every process of the sandbox with it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_CONTROL_FD 3    /* the socket, in the agent */
#define AGENT_LIVE_MAX   4096 /* commands whose leader lives, per sandbox */

/* Values of AGENT_SETUP_FAILED: rows of launch_stages, and the agent's own preparation. */
#define AGENT_SETUP_STAGE_MAX 63
#define AGENT_SETUP_SELF      AGENT_SETUP_STAGE_MAX
/* Or a mount of the sandbox's spec, by its index from here on. */
#define AGENT_SETUP_MOUNT     (AGENT_SETUP_STAGE_MAX + 1)
#define AGENT_SETUP_VALUE_MAX (AGENT_SETUP_MOUNT + 63)

enum agent_op {
	AGENT_OP_EXEC = 1,
	AGENT_OP_SIGNAL,
	AGENT_OP_COUNT,
};

/* The descriptors of an exec, in this order; those that are absent are skipped. The stdio
 * belong to user 0 of the sandbox when they arrive; the agent gives them to the command's user. */
enum agent_exec_flag {
	AGENT_HAS_STDIN = 1 << 0,  /* else /dev/null */
	AGENT_HAS_STDOUT = 1 << 1, /* else /dev/null */
	AGENT_HAS_STDERR = 1 << 2, /* else /dev/null */
	AGENT_MERGE = 1 << 3,      /* stderr is stdout's descriptor; excludes HAS_STDERR */
	AGENT_HAS_SCRIPT =
		1 << 4,          /* a memfd whose bytes are put in a private file; see argv below */
	AGENT_SET_HOME = 1 << 5, /* env has no HOME: the agent adds the user's */
	AGENT_HAS_CWD = 1 << 6,  /* else the user's home, or / where that is missing */
	AGENT_HAS_USER = 1 << 7, /* else 0:0 */
	AGENT_HAS_GROUP = 1 << 8, /* a cgroup's directory: the command is cloned into it */
	AGENT_HAS_TASKS = 1 << 9, /* or a v1 group's `tasks`: its first process writes "0" to it */
	AGENT_TTY = 1 << 10, /* stdin's descriptor is a terminal: the one of its session, and all
			      * three of its stdio; excludes HAS_STDOUT, HAS_STDERR and MERGE */
};
#define AGENT_EXEC_FDS_MAX \
	6 /* args if they are long, stdin, stdout, stderr, script, group or tasks */

/* Behind it `args_len` bytes, a block as in agent/args.h; or nothing, then the block is in the
 * first descriptor, a memfd. */
struct agent_exec {
	uint32_t op;
	uint32_t id; /* the command's serial */
	uint32_t flags;
	uint32_t args_len;
};

struct agent_signal {
	uint32_t op;
	uint32_t id;
	int32_t sig;
	uint32_t group; /* not 0: to the process group, else to the leader alone */
};

enum agent_event_kind {
	AGENT_READY = 1,    /* the agent runs; once, first */
	AGENT_SETUP_FAILED, /* value = stage (launch.h), error = errno; last message */
	AGENT_STARTED,      /* value = pid inside */
	AGENT_FAILED,       /* value = enum agent_stage, error = errno; the command is over */
	AGENT_EXITED,       /* value = wait status; usage is filled; the command is over */
	AGENT_EVENT_COUNT,
};

/* Where starting a command failed. */
enum agent_stage {
	AGENT_STAGE_REQUEST = 1, /* the message itself */
	AGENT_STAGE_USER, /* no such user in the sandbox's passwd, or an id that is not mapped */
	AGENT_STAGE_STDIO,
	AGENT_STAGE_SCRIPT,
	AGENT_STAGE_FORK,
	AGENT_STAGE_GROUP,
	AGENT_STAGE_IDS,
	AGENT_STAGE_CWD,
	AGENT_STAGE_EXEC,
	AGENT_STAGE_COUNT,
};

#define AGENT_UNKNOWN UINT64_MAX /* a number that could not be read */

struct agent_usage {
	uint64_t user_us, sys_us, maxrss_bytes, majflt, nivcsw;
	uint64_t io_read_bytes, io_write_bytes; /* as /proc/PID/io counts read_bytes, write_bytes */
};

struct agent_event {
	uint32_t kind;
	uint32_t id; /* 0 for READY and SETUP_FAILED */
	int32_t value;
	int32_t error;
	struct agent_usage usage; /* zeroes unless EXITED */
};

/* Can these bytes be an event? Length, kind and ranges; false for anything else. */
bool agent_event_check(const void *bytes, size_t len);
