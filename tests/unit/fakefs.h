/* fakefs.h - a FUSE file system that has a root directory and nothing else, or never answers */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fakefs {
	char place[128];
	pid_t server;
};

static inline void fakefs_reply(int fd, uint64_t unique, int error, const void *out, size_t len)
{
	char bytes[8192];
	struct fuse_out_header head = { (uint32_t)(sizeof(head) + len), error, unique };

	memcpy(bytes, &head, sizeof(head));
	if (len)
		memcpy(bytes + sizeof(head), out, len);
	(void)!write(fd, bytes, head.len);
}

/* What it says to a request, unless it is silent: an error, or 0 and bytes. */
struct fakefs_answer {
	bool silent;
	int error;
	const void *out;
	size_t len;
};

/* In the server's process, with `answer` for all but the beginning and what takes no answer. */
static _Noreturn inline void fakefs_serve(
	int fd, struct fakefs_answer (*answer)(uint32_t opcode, const void *arg), const void *arg)
{
	static char bytes[256 * 1024] __attribute__((aligned(8)));
	static const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
						   .minor = FUSE_KERNEL_MINOR_VERSION,
						   .max_write = 4096 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* An engine may be in this process: a copy of a pipe that it has made ahead would keep a
	 * command's streams open. */
	if (dup2(fd, 3) < 0)
		_exit(1);
	fd = 3;
	(void)close_range(4, ~0U, 0);
	for (;;) {
		ssize_t n = read(fd, bytes, sizeof(bytes));
		const struct fuse_in_header *head = (const struct fuse_in_header *)bytes;
		struct fakefs_answer a = { .out = &init, .len = sizeof(init) };

		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue;
		if (n <= 0)
			_exit(0);
		if (head->opcode == FUSE_FORGET || head->opcode == FUSE_INTERRUPT)
			continue;
		if (head->opcode != FUSE_INIT)
			a = answer(head->opcode, arg);
		if (!a.silent)
			fakefs_reply(fd, head->unique, a.error, a.out, a.len);
	}
}

struct fakefs_root {
	bool silent; /* requests are taken and never answered */
	struct fuse_attr_out attr;
};

static inline struct fakefs_answer fakefs_root_answer(uint32_t opcode, const void *arg)
{
	const struct fakefs_root *root = arg;

	if (opcode == FUSE_GETATTR)
		return (struct fakefs_answer){ .silent = root->silent,
					       .out = &root->attr,
					       .len = sizeof(root->attr) };
	return (struct fakefs_answer){ .silent = root->silent, .error = -ENOSYS };
}

/* `place` is an empty directory. `uid` serves it, and it is his. */
static inline bool fakefs_mount_for(struct fakefs *fs, const char *place, const char *type,
				    uid_t uid, bool silent)
{
	const struct fakefs_root root = {
		.silent = silent,
		.attr.attr = { .ino = 1, .mode = S_IFDIR | 0755, .uid = uid },
	};
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	(void)snprintf(fs->place, sizeof(fs->place), "%s", place);
	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40000,user_id=%u,group_id=0,allow_other", fd, uid);
	if (fd < 0 || mount("fake", place, type, MS_NOSUID | MS_NODEV, options) < 0)
		return false;
	fs->server = fork();
	if (fs->server == 0)
		fakefs_serve(fd, fakefs_root_answer, &root);
	(void)close(fd); /* the last one closes with the server, and ends all requests */
	return fs->server > 0;
}

static inline bool fakefs_mount(struct fakefs *fs, const char *place, const char *type, bool silent)
{
	return fakefs_mount_for(fs, place, type, 0, silent);
}

/* Whatever hangs in it goes on, with an error. */
static inline void fakefs_end(struct fakefs *fs)
{
	(void)kill(fs->server, SIGKILL);
	(void)waitpid(fs->server, NULL, 0);
	(void)umount2(fs->place, MNT_DETACH);
}
