/* disk.h - what the tests of the state directory's writer begin with */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "sandbox/disk_spool.h"
#include "sandbox/zombies.h"
#include "tests/unit/tap.h"
#include "tests/unit/turn.h"

#define PATIENCE_MS 20000

static char dir[] = "/tmp/hutch-disk-XXXXXX";
static struct zombies zombies;
static int at; /* that directory */

static inline struct disk *disk_begin(size_t size, int keep, disk_job *const *jobs, size_t jobs_n)
{
	struct disk_config config = { .loop = &loop,
				      .zombies = &zombies,
				      .dirfd = at,
				      .keep = keep,
				      .size = size,
				      .jobs = jobs,
				      .jobs_n = jobs_n };
	struct disk *d = NULL;
	struct err err = { 0 };

	if (disk_new(&d, &config, &err) < 0) {
		ok(false, "begins: %s", err.msg);
		exit(1);
	}
	return d;
}

/* --- answers --- */

struct answer {
	struct disk_done done;
	int calls, fd, code;
};

static inline void on_answer(struct disk_done *done, int fd, const struct err *err)
{
	struct answer *a = container_of(done, struct answer, done);

	a->calls++;
	a->fd = fd;
	a->code = err ? err->code : 0;
}

static inline bool disk_test_begin(void)
{
	if (!mkdtemp(dir) || ev_init(&loop, NULL) < 0)
		return false;
	zombies_init(&zombies, &loop);
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return at >= 0;
}

static inline int disk_test_end(void)
{
	char cmd[64];

	zombies_done(&zombies, ev_now() + INT64_C(1000000000));
	ev_done(&loop);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
