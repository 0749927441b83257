/* store.h - the state directory
 *
 *	lock		held by the hutchd that serves it
 *	writer		held by its writer, which may outlive it
 *	serial		the first sandbox serial that was never given out, in decimal
 *	secret		random, told to nobody
 *	images/		read-only roots (image_host.c)
 *	sandboxes/N/	record.json, journal, spool/, layer/; N is the serial
 *	trash/		what the janitor removes
 *
 * A sandbox exists when it has a record; without one it was never finished, and
 * goes to the trash at the next start.  Nothing is synced: what was put (disk.h)
 * survives the daemon, not the machine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/disk.h"

struct store {
	int fd; /* the state directory */
	int lock;
	int writer;        /* the writer's lock, see disk.h: the next hutchd waits for it */
	struct disk *disk; /* NULL: it writes by itself; borrowed */
	char *path;        /* absolute */
	uint64_t secret;   /* not 0 */
	bool no_holes;     /* its file system gives no part of a file back */
	uint32_t next_serial, reserved; /* [next_serial, reserved) are ours without a write */
};

struct store_config {
	const char *dir;
	void (*notice)(const char *line); /* what takes long; NULL: nobody wants to know */
};
/* Makes the directory (0711: the mapped user of an unprivileged mount walks through it) and its
 * parts. EBUSY: another process holds the lock, or the writer of a former one does not come to its
 * end. Waits for that one. */
int store_open(struct store *, const struct store_config *, struct err *);
void store_close(struct store *);

/* ENOSPC when all of them were used. */
int store_new_serial(struct store *, uint32_t *ret, struct err *);

/* "sandboxes/SERIAL" */
#define STORE_NAME_LEN 32
void store_sandbox_name(char out[STORE_NAME_LEN], uint32_t serial);
/* "trash/SERIAL" */
void store_trash_name(char out[STORE_NAME_LEN], uint32_t serial);
