/* args.h - a command's argv, environment and names, as one block in a memfd
 *
 * Written by hutchd, mapped privately by the agent, which turns the offsets into
 * pointers in place: neither end copies strings, and the agent allocates
 * nothing.  A memfd, because a SEQPACKET message is bounded by wmem_max.
 *
 * Layout: struct agent_args, then argc + 1 and envc + 2 (one spare, for HOME)
 * 64-bit slots, then the strings, each with its NUL.  A slot is an offset from
 * the start of the block; the last slot of each vector is 0.
 *
 * argv of a script that comes as a file (AGENT_HAS_SCRIPT): the agent writes the
 * file and puts its path into the slot number `script_slot`.  argv[0] is what is
 * executed: with a slash as it is, else looked up in the PATH of env.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define AGENT_NO_SLOT UINT32_MAX

struct agent_args {
	uint32_t argc, envc;
	uint32_t cwd;         /* offset of a string, 0: none */
	uint32_t user;        /* offset of a string "NAME", "UID" or "UID:GID", 0: none */
	uint32_t script_slot; /* index into argv, or AGENT_NO_SLOT */
	uint32_t reserved;
};

/* What hutchd packs; all borrowed. */
struct agent_command {
	const char *const *argv; /* argc strings; NULL at script_slot */
	size_t argc;
	const char *const *env; /* envc "KEY=VALUE" */
	size_t envc;
	const char *cwd, *user; /* may be NULL */
	uint32_t script_slot;
};

/* Returns a memfd that the caller owns, with *len bytes in it, or a negative errno. */
int agent_args_pack(const struct agent_command *, uint32_t *len, struct err *);
