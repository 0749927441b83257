/* filesystem.h - on what kind of file system something is, and what that can do */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define FILESYSTEM_TYPE_LEN 64

/* As mount(8) calls it, "ext4"; asks no file system, which could hang. -ENOENT: there is no such
 * mount, or not here. `mount` is a statx()'s stx_mnt_id. */
int filesystem_of_mount(uint64_t mount, char type[FILESYSTEM_TYPE_LEN]);
/* Who serves it, if a process does, as FUSE has it: 1 and the user who mounted it; 0: the kernel does, or
 * -ENOENT as above. */
int filesystem_server(uint64_t mount, uid_t *ret);
/* As filesystem_of_mount(), of what `fd` is open on, which may be O_PATH. */
int filesystem_of(int fd, char type[FILESYSTEM_TYPE_LEN]);
/* Can a part of a file in `dirfd`, which may be O_PATH, be given back?  1, 0, or a negative errno:
 * no file can be made there. Leaves nothing behind. */
int filesystem_has_holes(int dirfd);
