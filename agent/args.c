/* args.c - see args.h */
#include "agent/args.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"

/* The kernel takes at most 6 MiB of arguments and environment; a request is smaller anyway. */
#define ARGS_MAX ((size_t)8 << 20)

struct packer {
	unsigned char *block;
	size_t at; /* where the next string goes */
};

static uint64_t put_string(struct packer *p, const char *s)
{
	size_t n = strlen(s) + 1, at = p->at;

	memcpy(p->block + at, s, n);
	p->at += n;
	return at;
}

/* The size of the block, or 0 if it would be over ARGS_MAX. */
static size_t args_size(const struct agent_command *cmd)
{
	size_t n = sizeof(struct agent_args);

	if (cmd->argc > ARGS_MAX / 8 || cmd->envc > ARGS_MAX / 8)
		return 0;
	n += (cmd->argc + 1 + cmd->envc + 2) * sizeof(uint64_t);
	for (size_t i = 0; i < cmd->argc && n <= ARGS_MAX; i++)
		n += cmd->argv[i] ? strlen(cmd->argv[i]) + 1 : 0;
	for (size_t i = 0; i < cmd->envc && n <= ARGS_MAX; i++)
		n += strlen(cmd->env[i]) + 1;
	if (cmd->cwd)
		n += strlen(cmd->cwd) + 1;
	if (cmd->user)
		n += strlen(cmd->user) + 1;
	n += 1; /* so that there is a NUL at the end even with no string at all */
	return n <= ARGS_MAX ? n : 0;
}

static void args_fill(unsigned char *block, const struct agent_command *cmd)
{
	size_t slots = cmd->argc + 1 + cmd->envc + 2;
	struct packer p = { block, sizeof(struct agent_args) + slots * sizeof(uint64_t) };
	struct agent_args head = {
		.argc = (uint32_t)cmd->argc,
		.envc = (uint32_t)cmd->envc,
		.script_slot = cmd->script_slot,
	};
	unsigned char *slot = block + sizeof(head);
	uint64_t off;

	memset(slot, 0, slots * sizeof(off));
	for (size_t i = 0; i < cmd->argc; i++, slot += sizeof(off)) {
		off = cmd->argv[i] ? put_string(&p, cmd->argv[i]) : 0;
		memcpy(slot, &off, sizeof(off));
	}
	slot += sizeof(off);
	for (size_t i = 0; i < cmd->envc; i++, slot += sizeof(off)) {
		off = put_string(&p, cmd->env[i]);
		memcpy(slot, &off, sizeof(off));
	}
	if (cmd->cwd)
		head.cwd = (uint32_t)put_string(&p, cmd->cwd);
	if (cmd->user)
		head.user = (uint32_t)put_string(&p, cmd->user);
	block[p.at] = '\0';
	memcpy(block, &head, sizeof(head));
}

static int pack_memfd(struct agent_packed *ret, const struct agent_command *cmd, struct err *err)
{
	auto_free unsigned char *block = malloc(ret->len);
	auto_close int fd = memfd_create("hutch-args", MFD_CLOEXEC);
	size_t done = 0;

	if (fd < 0)
		return err_set(err, errno, "make a memfd for the arguments");
	if (!block)
		return err_set(err, ENOMEM, "pass the arguments");
	args_fill(block, cmd);
	while (done < ret->len) {
		ssize_t n = write(fd, block + done, ret->len - done);

		if (n < 0 && errno != EINTR)
			return err_set(err, errno, "write %u bytes of arguments", ret->len);
		done += n > 0 ? (size_t)n : 0;
	}
	ret->fd = TAKE_FD(fd);
	return 0;
}

int agent_args_pack(struct agent_packed *ret, const struct agent_command *cmd, struct err *err)
{
	size_t size = args_size(cmd);

	ret->fd = -1;
	ret->len = (uint32_t)size;
	if (!size)
		return err_set(err, E2BIG, "pass %zu arguments and %zu variables", cmd->argc,
			       cmd->envc);
	if (size > sizeof(ret->block))
		return pack_memfd(ret, cmd, err);
	args_fill(ret->block, cmd);
	return 0;
}
