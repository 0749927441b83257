/* disk_bytes.h - bytes of which each tells where it stands */
#pragma once

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/disk.h"

static inline struct disk *begin(size_t size, int keep)
{
	return disk_begin(size, keep, NULL, 0);
}

static inline uint64_t size_of(const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, 0) == 0 ? (uint64_t)st.st_size : 0;
}

/* Every byte tells where it stands. */
static inline char byte_at(uint64_t off)
{
	return (char)(off * 7 + off / 251);
}

/* The most that a file of the writer may have: what is over fails, but not as on a full disk. */
static inline void fsize_limit(struct disk *d, rlim_t most)
{
	struct rlimit lim;

	if (prlimit(disk_writer_pid(d), RLIMIT_FSIZE, NULL, &lim) < 0)
		abort();
	lim.rlim_cur = most < lim.rlim_max ? most : lim.rlim_max;
	if (prlimit(disk_writer_pid(d), RLIMIT_FSIZE, &lim, NULL) < 0)
		abort();
}

static inline void make_pipe(int fd[2])
{
	if (pipe2(fd, O_CLOEXEC) < 0)
		exit(1);
	(void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
}

static inline size_t put_bytes(int fd, uint64_t off, size_t len)
{
	char bytes[65536];
	size_t done = 0;

	while (done < len) {
		size_t n = len - done < sizeof(bytes) ? len - done : sizeof(bytes);
		ssize_t wrote;

		for (size_t i = 0; i < n; i++)
			bytes[i] = byte_at(off + done + i);
		wrote = write(fd, bytes, n);
		if (wrote <= 0)
			break;
		done += (size_t)wrote;
	}
	return done;
}

static inline long long wrong_in(const char *name)
{
	auto_buf struct buf text = { 0 };
	long long bad = 0;

	(void)file_read(at, name, &text, NULL);
	for (size_t i = 0; i < text.len; i++)
		bad += text.data[i] != byte_at(i);
	return bad;
}
