/* users.h - what each user holds open, against limits
 *
 * Per user first and then in all, so that no user can use up what is there for
 * everybody.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hmap.h"

/* Bytes in memory for open files and waiting writes. */
#define USER_BYTES_MAX  ((size_t)64 << 20)
#define ALL_BYTES_MAX   ((size_t)512 << 20)
/* Handles beyond either limit for the nodes that must work there: status, ctl. */
#define HANDLES_RESERVE 256

/* 0: the default. */
struct users_limits {
	unsigned user_handles, all_handles; /* 16384, 262144 */
	unsigned user_parked, all_parked;   /* 16384, 131072 */
};

/* Exists while it counts something. */
struct user {
	struct hmap_node by_uid;
	uid_t uid;
	size_t handles, parked, bytes;
};

struct users {
	struct hmap by_uid;
	size_t handles, parked, bytes; /* of all */
	struct users_limits limits;
};

struct user *users_find(const struct users *, uid_t); /* NULL: it counts nothing */

void users_init(struct users *);
void users_limit(struct users *, const struct users_limits *);
void users_done(struct users *); /* frees what is left */

/* `reserve`: may go beyond the limit. ENFILE, EMFILE or ENOMEM with a sentence. */
int users_add_handle(struct users *, uid_t, bool reserve, struct err *);
void users_drop_handle(struct users *, uid_t);
/* What one of the user's handles keeps in memory becomes `to` bytes. EDQUOT with a sentence; less is
 * never refused. */
int users_change_bytes(struct users *, uid_t, size_t from, size_t to, struct err *);
/* A request that waits, with so many bytes of its own. EAGAIN, EDQUOT or ENOMEM with a sentence. */
int users_add_parked(struct users *, uid_t, size_t bytes, struct err *);
void users_drop_parked(struct users *, uid_t, size_t bytes);
