/* args.h - a command's argv, environment and names, as one block
 *
 * Packed by hutchd; the agent turns the offsets into pointers in place, and allocates
 * nothing.  A usual block, of some hundred bytes, is in the message itself, behind
 * its head.  One of more than AGENT_ARGS_INLINE bytes is in a memfd, which the
 * agent maps privately, because a SEQPACKET message is bounded by wmem_max; to make
 * and map one each time would cost 25 us of each command, 50 us after a pause.
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

#define AGENT_NO_SLOT     UINT32_MAX
#define AGENT_ARGS_INLINE 4096

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

struct agent_packed {
	uint32_t len;
	int fd;                                 /* a memfd, the caller's; -1: all is in `block` */
	unsigned char block[AGENT_ARGS_INLINE]; /* len bytes of it */
};

/* Always sets fd. E2BIG, or what making a memfd said. */
int agent_args_pack(struct agent_packed *ret, const struct agent_command *, struct err *);
