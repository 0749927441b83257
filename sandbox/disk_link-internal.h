/* disk_link-internal.h - what the files of hutchd's side of the writer share: disk.c, disk_link.c, disk_spool.c, disk_flow.c,
 * disk_fetch.c */
#pragma once

#include "base/watch.h"
#include "sandbox/disk-internal.h"
#include "sandbox/pipe_between.h"

#define DISK_SHARES 256

struct disk {
	struct disk_config config;
	struct ev_loop *loop;
	struct disk_ring ring;
	int transit[2];              /* a pipe of each writer's in turn; see disk_transit.c */
	struct pipe_between between; /* our own */
	uint64_t woken;              /* head when the writer was last woken */
	uint64_t head, reaped;       /* ours is ring.shared->head; see disk.c */
	uint64_t share[DISK_SHARES]; /* bytes in the ring, by a hash of whose they are */
	struct list over;            /* struct over.link */
	struct list room;            /* watches */
	struct list expected;        /* struct expected.link */
	struct list spools, pumps;   /* struct disk_spool.link, struct disk_pump.link */
	size_t pumps_n;
	struct list fetches; /* struct fetch.link */
	size_t fetches_asked;
	uint64_t next_ticket;
	struct ev_source src; /* the socket; fd -1: no writer now */
	struct ev_timer wake, respawn;
	bool ended; /* freed but for the loop */
	pid_t pid;
	int64_t started; /* ev_now() time of the writer */
};

/* disk.c: room for a record at `head`, NULL: none. Filled, it is committed before anything else is
 * asked of the ring. */
struct disk_record *disk_link_reserve(struct disk *, size_t size, uint32_t share, bool must);
void disk_link_commit(struct disk *, struct disk_record *);
void disk_link_wake(struct disk *);
void disk_link_wake_soon(struct disk *);
void disk_link_want_room(struct disk *);

/* disk_spool.c: its record at `pos` is done and goes off its chain; bytes of it were lost. */
void disk_spool_reaped(struct disk_record *, uint64_t pos);
void disk_spool_lost(struct disk *, uint64_t ticket, uint64_t off);
/* disk_flow.c: the writer speaks of a pump; there is a new writer. */
void disk_flow_said(struct disk *, const struct disk_message *);
void disk_flow_again(struct disk *);

/* disk_fetch.c, as disk_link.c below. */
void disk_fetch_cancel(struct disk *, uint64_t ticket);
void disk_fetch_said(struct disk *, const struct disk_message *, int *fd);
void disk_fetch_again(struct disk *);
void disk_fetch_done(struct disk *);

/* disk_link.c: those who want to know when something is done. */
int disk_link_expect(struct disk *, const struct disk_op *, uint64_t *ret_ticket);
/* Its record is at this position; ticket 0: nobody's. */
void disk_link_placed(struct disk *, uint64_t ticket, uint64_t pos);
/* The writer has said so; takes *fd when it sets it to -1. */
void disk_link_said(struct disk *, const struct disk_message *, int *fd);
/* There is a new writer: what the last one has done without saying so is told or asked again. */
void disk_link_again(struct disk *);
/* Forgets all. */
void disk_link_done(struct disk *);
