/* built.h - what `make` has put beside the tests' own directory, and the agent as hutchd would load it */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

/* BUILDDIR/NAME, for a test that is BUILDDIR/unit/test_x; a descriptor to read from, or -1. */
static inline int built_open(const char *name)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	char *slash = NULL;

	for (int i = 0; n > 0 && i < 2; i++) {
		path[slash ? slash - path : n] = '\0';
		slash = strrchr(path, '/');
	}
	if (!slash)
		return -1;
	(void)snprintf(slash + 1, 63, "%s", name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The static agent as the sealed memfd that the daemon makes; -1: it is not built. */
static inline int built_agent(void)
{
	auto_close int file = built_open("hutch-agent");
	int fd = memfd_create("hutch-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;

	if (file < 0 || fd < 0 || fstat(file, &st) < 0 ||
	    sendfile(fd, file, NULL, (size_t)st.st_size) != st.st_size)
		return -1;
	(void)fchmod(fd, 0555);
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0
		       ? -1
		       : fd;
}
