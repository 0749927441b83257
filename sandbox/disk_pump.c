/* disk_pump.c - pipes that the writer empties into spools by itself
 *
 * A pump begins when all that was put before it has been written (so that when both processes are
 * killed at once a spool loses its end, and nothing in the middle), takes PER_TURN bytes each turn, and says how
 * far it is when its pipe is empty, when something about it changes, and else every SAY_NS.
 *
 * Bytes of which the disk does not take one are thrown away from that one on, since what
 * follows would not be at its place in the stream: a spool never has a gap.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/ev.h"
#include "sandbox/disk-internal.h"
#include "sandbox/disk_spool.h"
#include "sandbox/pipe_between.h"

#define PER_TURN  (1024 * 1024)
#define PIPE_SIZE (1024 * 1024)
#define SAY_NS    (INT64_C(5) * 1000000)
#define WASTE     65536

struct pump {
	uint64_t ticket; /* 0: the place is free */
	int fd;
	uint64_t off, limit, behind, said;
	uint64_t settle; /* offset up to which the limit does not count; settling */
	int64_t said_at; /* ev_now() time */
	unsigned flags;
	bool drops, settling;
	bool resumed; /* its offset is where the file ends */
	bool empty;   /* nothing was in its pipe the last time */
	bool looked;  /* its file reaches to its offset */
	bool lost;    /* what comes has no place any more, */
	bool told;    /* which was said */
	bool last;    /* hutchd has gone */
	char name[DISK_NAME_MAX];
};

struct disk_pumps {
	struct disk_files *files;
	struct pipe_between between;
	struct disk_transit transit;
	int sock;
	struct pump pump[DISK_PUMPS_MAX];
	size_t n; /* places in use lie below it */
};

static void say(struct disk_pumps *all, struct pump *p)
{
	const struct disk_message msg = {
		.says = DISK_SAYS_PUMP, .flags = p->flags, .ticket = p->ticket, .off = p->off
	};

	(void)disk_say(all->sock, &msg, -1); /* it may have gone, which others notice */
	p->said = p->off;
	p->said_at = ev_now();
	p->told = p->flags & DISK_PUMP_LOST;
	p->flags &= ~(unsigned)DISK_PUMP_SETTLED;
}

/* A loss of which only we know: another stream's bytes take its place in shared memory, and
 * its pump may not have had a turn when we are killed. */
static void say_cut(struct disk_pumps *all)
{
	struct pump cut = { .flags = DISK_PUMP_LOST };

	cut.ticket = disk_transit_cut(&all->transit, &cut.off);
	if (cut.ticket)
		say(all, &cut);
}

struct disk_pumps *disk_pumps_new(struct disk_files *files, const struct disk_writer_plan *plan)
{
	struct disk_pumps *all = calloc(1, sizeof(*all));

	if (all) {
		all->files = files;
		all->sock = plan->sock;
		disk_transit_init(&all->transit, files, &all->between, plan);
		say_cut(all);
	}
	return all;
}

static void end(struct disk_pumps *all, struct pump *p, enum disk_pump_flags how)
{
	p->flags |= how;
	say(all, p);
	close_auto(&p->fd);
	p->ticket = 0;
}

/* What is thrown away needs no room. */
static void set_lost(struct pump *p)
{
	p->flags |= DISK_PUMP_LOST;
	p->flags &= ~(unsigned)DISK_PUMP_LIMIT;
	p->lost = true;
}

/* One that another writer has begun goes on behind what that has moved.  Who does not know where that is
 * must not write there. */
static void catch_up(const struct disk_pumps *all, struct pump *p)
{
	uint64_t size;
	int r;

	if (!p->resumed)
		return;
	p->resumed = false;
	r = disk_files_size(all->files, p->name, &size);
	if (size > p->off)
		p->off = size;
	if ((r < 0 && r != -ENOENT && r != -ENOTDIR) || all->transit.cut == p->ticket)
		set_lost(p);
}

/* Its pipe is hutchd's again, who goes on where we have been. */
static void give_back(struct disk_pumps *all, struct pump *p)
{
	catch_up(all, p);
	end(all, p, DISK_PUMP_STOPPED);
}

static void begin(struct disk_pumps *all, const struct disk_ask *ask, int fd)
{
	struct pump *p = all->pump;
	struct pump asked = { .ticket = ask->ticket,
			      .fd = fd,
			      .off = ask->off,
			      .said = ask->off,
			      .limit = ask->limit,
			      .behind = ask->behind,
			      .flags = ask->flags & DISK_PUMP_LOST,
			      .lost = ask->flags & DISK_PUMP_LOST,
			      .told = ask->flags & DISK_PUMP_LOST,
			      .resumed = ask->flags & DISK_ASKS_RESUME,
			      .drops = ask->flags & DISK_PUMP_DROPS };

	memcpy(asked.name, ask->name, sizeof(asked.name));
	asked.name[sizeof(asked.name) - 1] = '\0';
	while (p < all->pump + DISK_PUMPS_MAX && p->ticket)
		p++;
	if (p == all->pump + DISK_PUMPS_MAX || fd < 0) {
		give_back(all, &asked);
		return;
	}
	if (p == all->pump + all->n)
		all->n++;
	*p = asked;
	(void)fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE); /* failing only costs speed */
}

static uint64_t in_pipe(const struct pump *p)
{
	int n = 0;

	(void)ioctl(p->fd, FIONREAD, &n);
	return (uint64_t)n;
}

static void begin_settling(struct disk_pumps *all, struct pump *p)
{
	catch_up(all, p);
	p->settling = true;
	p->settle = p->off + in_pipe(p);
	p->empty = false;
}

void disk_pumps_ask(struct disk_pumps *all, const struct disk_ask *ask, int fd)
{
	struct pump *p = all->pump;

	if (ask->asks == DISK_ASKS_PUMP) {
		begin(all, ask, fd);
		return;
	}
	close_auto(&fd);
	while (p < all->pump + all->n && p->ticket != ask->ticket)
		p++;
	if (p == all->pump + all->n)
		return; /* it has come to its end meanwhile */
	if (ask->asks == DISK_ASKS_LIMIT) {
		p->limit = ask->limit;
		p->flags &= ~(unsigned)DISK_PUMP_LIMIT;
	} else if (ask->asks == DISK_ASKS_SETTLE) {
		begin_settling(all, p);
	} else if (ask->asks == DISK_ASKS_STOP) {
		give_back(all, p);
	}
}

/* So many from the pipe have no place in the file. */
static void lose(struct pump *p, uint64_t n)
{
	set_lost(p);
	if (p->settling) /* what was in the pipe is less by so much, or comes to its end never */
		p->settle -= n < p->settle - p->off ? n : p->settle - p->off;
}

static short look_into(const struct pump *p)
{
	struct pollfd q = { .fd = p->fd, .events = POLLIN };

	(void)poll(&q, 1, 0);
	return q.revents;
}

/* How many, 0 at the end of the pipe, or a negative errno.  It is said first: the next writer would find nothing
 * of what a killed one has thrown away. */
static ssize_t throw_away(struct disk_pumps *all, struct pump *p, size_t len)
{
	static char waste[WASTE];
	short there = look_into(p);
	ssize_t n;

	if (!(there & POLLIN))
		return there & POLLHUP ? 0 : -EAGAIN;
	/* What can be read may be a buffer without bytes; see disk_transit.c. */
	if (!p->told && in_pipe(p) > 0) {
		set_lost(p);
		say(all, p);
	}
	n = read(p->fd, waste, len < sizeof(waste) ? len : sizeof(waste));
	if (n == 0) /* a packet without bytes */
		return -EAGAIN;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		n = pipe_discard(&all->between, p->fd, len);
	else if (n < 0)
		n = -errno;
	if (n > 0)
		lose(p, (uint64_t)n);
	return n;
}

static uint64_t room(const struct pump *p)
{
	bool beyond = p->settling && !p->drops && p->settle > p->limit;
	uint64_t limit = beyond ? p->settle : p->limit;

	return limit > p->off ? limit - p->off : 0;
}

/* What was put before it may not be there: the disk did not take it, or has not yet. */
static void look_for_gap(struct pump *p, int spool)
{
	struct stat st;

	p->looked = true;
	if (fstat(spool, &st) < 0 || (uint64_t)st.st_size < p->off)
		p->lost = true;
}

/* As throw_away(). */
static ssize_t move(struct disk_pumps *all, struct pump *p)
{
	int spool = p->lost ? -EIO : disk_files_get(all->files, p->name, false);
	struct disk_way way = {
		.from = p->fd, .to = spool, .pump = p->ticket, .name = p->name, .off = p->off
	};
	uint64_t most = room(p);
	size_t kept;
	ssize_t n;

	if (p->settling && p->settle - p->off < most)
		most = p->settle - p->off;
	most = most < PER_TURN ? most : PER_TURN;
	if (disk_is_short(spool))
		return spool;
	if (spool >= 0 && !p->looked) {
		look_for_gap(p, spool);
		return 1; /* and look again */
	}
	if (spool < 0 || (p->drops && !most))
		return throw_away(all, p, WASTE);
	way.len = most;
	n = disk_transit_move(&all->transit, &way, &kept);
	if (n < 0 && n != -EAGAIN && n != -EINTR)
		return throw_away(all, p, most);
	p->off += kept;
	if (n > (ssize_t)kept)
		lose(p, (uint64_t)n - kept);
	return n;
}

static bool settled(struct pump *p)
{
	if (!p->settling || (p->off < p->settle && !p->empty))
		return false;
	p->settling = false;
	p->flags |= DISK_PUMP_SETTLED;
	return true;
}

/* Nobody can write to it any more, or is to, and all is taken. */
static bool is_over(const struct pump *p)
{
	return p->last || ((look_into(p) & POLLHUP) && in_pipe(p) == 0);
}

/* True: it may go on at once. */
static bool turn(struct disk_pumps *all, struct pump *p)
{
	bool tell, done;
	ssize_t n;

	if (p->flags & DISK_PUMP_LIMIT && !p->settling)
		return false;
	catch_up(all, p);
	if (!room(p) && !p->drops && !p->lost) {
		p->flags |= DISK_PUMP_LIMIT;
		if (settled(p) && is_over(p))
			end(all, p, DISK_PUMP_ENDED);
		else
			say(all, p);
		return false;
	}
	n = p->settling && p->off >= p->settle ? 1 : move(all, p);
	if (n < 0 && disk_is_short((int)n)) { /* the loop holds it until that is over */
		give_back(all, p);
		return false;
	}
	p->empty = n < 0;
	done = settled(p);
	/* Its end belongs to what was in it: the result says so. */
	if (n == 0 || (done && is_over(p))) {
		end(all, p, DISK_PUMP_ENDED);
		return false;
	}
	tell = done || (p->flags & DISK_PUMP_LOST && !p->told);
	if (tell || (p->off != p->said && (p->empty || ev_now() - p->said_at > SAY_NS)))
		say(all, p);
	return !p->empty;
}

bool disk_pumps_turn(struct disk_pumps *all, uint64_t seen)
{
	bool more = false;

	for (struct pump *p = all->pump; p < all->pump + all->n; p++)
		if (p->ticket && !p->empty && seen >= p->behind)
			more |= turn(all, p);
	return more;
}

size_t disk_pumps_wait(const struct disk_pumps *all, struct pollfd *p)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct pump *pump = &all->pump[i];

		p[i] = (struct pollfd){ .fd = pump->ticket && pump->empty ? pump->fd : -1,
					.events = POLLIN };
	}
	return all->n;
}

void disk_pumps_woken(struct disk_pumps *all, const struct pollfd *p, size_t n)
{
	for (size_t i = 0; i < n && i < all->n; i++)
		if (p[i].fd >= 0 && p[i].fd == all->pump[i].fd && p[i].revents)
			all->pump[i].empty = false;
}

void disk_pumps_last(struct disk_pumps *all)
{
	for (struct pump *p = all->pump; p < all->pump + all->n; p++) {
		if (!p->ticket)
			continue;
		begin_settling(all, p);
		p->last = true;
	}
}
