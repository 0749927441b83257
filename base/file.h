/* file.h - whole small files and whole writes */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the file's bytes. -E2BIG if it has more than the buffer may hold. `dirfd` may be AT_FDCWD. */
int file_read(int dirfd, const char *path, struct buf *, struct err *);
/* Creates or truncates; mode is not subject to the umask's group and other bits being set
 * only by luck: the caller's umask applies. */
int file_write(int dirfd, const char *path, mode_t mode, const void *bytes, size_t len,
	       struct err *);
/* Readers see the old file or the new one, also after a crash of this process: writes
 * PATH.new and renames it. */
int file_replace(int dirfd, const char *path, mode_t mode, const void *bytes, size_t len,
		 struct err *);
/* All bytes or a negative errno; EINTR is retried. */
int write_all(int fd, const void *bytes, size_t len);
int fd_set_nonblock(int fd);
