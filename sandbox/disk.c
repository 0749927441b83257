/* disk.c - hutchd's side of the ring: putting, waking, hearing, and starting the writer again
 *
 * Theory of operation.  disk_put() copies an operation behind `head` and moves it; no system
 * call, except that a timer of the loop wakes a writer that sleeps, WAKE_NS later, so that many
 * commands share one wake-up and the first of them does not pay for it.
 *
 * Room.  What may wait gets at most three quarters of the ring, and one share (a hash of the user)
 * at most a quarter; what must not (DISK_MUST) gets all of it, and then `over`, a list in our
 * own memory that goes into the ring before anything else does.
 *
 * `reaped` follows `tail`: what lies between was done, and is taken off its share.  Nothing is
 * read from a record behind `tail`, and only we write to the ring, so what is in it stays true for
 * as long as we need it.
 */
#include "sandbox/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/disk_link-internal.h"
#include "sandbox/fds.h"
#include "sandbox/zombies.h"

#define RING_SIZE     (16 * 1024 * 1024)
#define HEADER_SIZE   4096
#define WAKE_NS       (INT64_C(20) * 1000000)
#define WAKE_BYTES    (512 * 1024) /* or at once, when so much has come together */
#define END_WAIT_NS   (INT64_C(2) * 1000000000)
#define RESPAWN_NS    (INT64_C(1) * 1000000000) /* between two writers that end */
#define SAYS_PER_TURN 64
#define ASKS_BYTES    (2 * 1024 * 1024)
_Static_assert(sizeof(struct disk_shared) <= HEADER_SIZE, "the ring lies behind it");

/* --- the ring --- */

/* Anonymous: a limit on the size of files does not count for it, and it needs no descriptor. */
static int map_ring(struct disk *d, size_t size, struct err *err)
{
	void *at = mmap(NULL, HEADER_SIZE + size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return err_set(err, errno, "make a log in memory");
	d->ring = (struct disk_ring){ at, (char *)at + HEADER_SIZE, size };
	return 0;
}

static uint64_t tail_of(const struct disk *d)
{
	return atomic_load_explicit(&d->ring.shared->tail, memory_order_acquire);
}

static void reap(struct disk *d)
{
	uint64_t tail = tail_of(d);

	while (d->reaped < tail) {
		struct disk_record *rec = disk_ring_at(&d->ring, d->reaped);

		if (rec->what != DISK_PAD) {
			d->share[rec->share] -= rec->size;
			if (rec->spool)
				disk_spool_reaped(rec, d->reaped);
		}
		d->reaped += rec->size;
	}
}

static size_t size_of(const struct disk_op *op)
{
	return disk_record_size((op->name ? strlen(op->name) : 0) + (op->to ? strlen(op->to) : 0),
				op->len);
}

static void fill(struct disk_record *rec, const struct disk_op *op, uint64_t ticket)
{
	char *at = (char *)(rec + 1);
	const char *name = op->name ? op->name : "", *to = op->to ? op->to : "";

	*rec = (struct disk_record){
		.size = (uint32_t)size_of(op),
		.what = (uint8_t)op->what,
		.flags = op->flags & (DISK_LOSSY | DISK_TRUNCATE),
		.mode = (uint16_t)op->mode,
		.share = op->share % DISK_SHARES,
		.off = op->off,
		.ticket = ticket,
		.name_len = (uint32_t)strlen(name),
		.to_len = (uint32_t)strlen(to),
		.len = (uint32_t)op->len,
		.number = op->job,
	};
	memcpy(at, name, rec->name_len + 1);
	memcpy(at + rec->name_len + 1, to, rec->to_len + 1);
	if (op->data)
		memcpy(at + rec->name_len + rec->to_len + 2, op->data, op->len);
}

static void publish(struct disk *d, uint64_t head)
{
	atomic_store_explicit(&d->ring.shared->head, head, memory_order_release);
	d->head = head;
}

struct disk_record *disk_link_reserve(struct disk *d, size_t size, uint32_t share, bool must)
{
	uint64_t ring = d->ring.size, left = ring - (d->head & (ring - 1));
	uint64_t pad = left < size ? left : 0, used;

	if (!list_empty(&d->over))
		return NULL;
	reap(d);
	used = d->head - d->reaped;
	/* Into an empty one goes whatever fits. */
	if (used + pad + size > (must || !used ? ring : ring / 4 * 3))
		return NULL;
	if (!must && d->share[share % DISK_SHARES] + size > ring / 4 &&
	    d->share[share % DISK_SHARES])
		return NULL;
	if (pad) {
		struct disk_record *rec = disk_ring_at(&d->ring, d->head);

		rec->size = (uint32_t)pad;
		rec->what = DISK_PAD;
		atomic_store_explicit(&rec->done, 1, memory_order_relaxed);
		publish(d, d->head + pad);
	}
	return disk_ring_at(&d->ring, d->head);
}

void disk_link_commit(struct disk *d, struct disk_record *rec)
{
	d->share[rec->share] += rec->size;
	publish(d, d->head + rec->size);
}

/* --- waking --- */

void disk_link_wake(struct disk *d)
{
	const struct disk_ask ask = { .asks = DISK_ASKS_WAKE };

	ev_timer_cancel(&d->wake);
	/* Its look at `head` and ours at `asleep` must not both be too early. */
	atomic_thread_fence(memory_order_seq_cst);
	d->woken = d->head;
	if (d->src.live && atomic_load_explicit(&d->ring.shared->asleep, memory_order_relaxed) &&
	    send(d->src.fd, &ask.asks, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		disk_link_wake_soon(d); /* no memory, perhaps; of its end we hear anyway */
}

void disk_link_wake_soon(struct disk *d)
{
	if (list_empty(&d->wake.link))
		ev_timer_set(d->loop, &d->wake, ev_now() + WAKE_NS);
}

static void on_wake(struct ev_timer *timer)
{
	disk_link_wake(container_of(timer, struct disk, wake));
}

void disk_link_want_room(struct disk *d)
{
	atomic_store(&d->ring.shared->wants_room, 1);
	disk_link_wake(d);
}

/* --- putting --- */

/* An operation in our own memory, while the ring is full. */
struct over {
	struct list link; /* disk.over */
	uint64_t ticket;
	size_t size;
	struct disk_record rec[]; /* and what follows it */
};

static int put_over(struct disk *d, const struct disk_op *op, uint64_t ticket)
{
	struct over *o = malloc(sizeof(*o) + size_of(op));

	if (!o)
		return -ENOMEM;
	o->size = size_of(op);
	fill(o->rec, op, ticket);
	list_add_tail(&d->over, &o->link);
	return 0;
}

static void flush_over(struct disk *d)
{
	struct list all = LIST_INIT(all);

	list_splice_tail(&all, &d->over);
	while (!list_empty(&all)) {
		struct over *o = list_first(&all, struct over, link);
		struct disk_record *rec = disk_link_reserve(d, o->size, o->rec->share, true);

		if (!rec)
			break;
		memcpy(rec, o->rec, o->size);
		disk_link_placed(d, o->rec->ticket, d->head);
		disk_link_commit(d, rec);
		list_del(&o->link);
		free(o);
	}
	list_splice_tail(&d->over, &all);
	if (!list_empty(&d->over))
		disk_link_want_room(d);
}

size_t disk_put_max(const struct disk *d)
{
	return d->ring.size / 2 - sizeof(struct disk_record) - 2 * DISK_NAME_MAX - DISK_ALIGN;
}

int disk_put(struct disk *d, const struct disk_op *op, struct err *err)
{
	struct disk_record *rec;
	uint64_t ticket = 0;
	int r = 0;

	if (op->len > disk_put_max(d))
		return err_set(err, E2BIG, "write '%s'", op->name ? op->name : "");
	if (op->done) {
		r = disk_link_expect(d, op, &ticket);
		if (r < 0)
			return err_set(err, -r, "write into the state directory");
	}
	if (!list_empty(&d->over))
		flush_over(d);
	rec = disk_link_reserve(d, size_of(op), op->share, op->flags & DISK_MUST);
	if (rec) {
		fill(rec, op, ticket);
		disk_link_placed(d, ticket, d->head);
		disk_link_commit(d, rec);
	} else if (op->flags & DISK_MUST) {
		r = put_over(d, op, ticket);
	} else {
		r = -EAGAIN;
	}
	if (r < 0 && op->done)
		disk_cancel(d, op->done);
	if (!rec)
		disk_link_want_room(d);
	else if (op->flags & DISK_URGENT || d->head - d->woken > WAKE_BYTES)
		disk_link_wake(d);
	else
		disk_link_wake_soon(d);
	return r < 0 ? err_set(err, -r, "write into the state directory") : 0;
}

bool disk_has_room(struct disk *d, uint32_t share)
{
	reap(d);
	if (list_empty(&d->over) && d->head - d->reaped < d->ring.size / 4 * 3 &&
	    d->share[share % DISK_SHARES] < d->ring.size / 4)
		return true;
	disk_link_want_room(d);
	return false;
}

struct list *disk_room(struct disk *d)
{
	return &d->room;
}

int disk_fault(const struct disk *d, struct err *err)
{
	int code = atomic_load_explicit(&d->ring.shared->error, memory_order_relaxed);

	return code ? err_set(err, code, "state directory") : 0;
}

/* --- hearing --- */

static void on_room(struct disk *d)
{
	flush_over(d);
	if (list_empty(&d->over) || disk_fault(d, NULL) < 0)
		watch_fire_all(&d->room);
}

/* One message; false: there is none now. */
static bool hear_one(struct disk *d, bool *ret_end)
{
	struct disk_message msg = { 0 };
	struct fds fds;
	ssize_t n = fds_receive(d->src.fd, &msg, sizeof(msg), MSG_DONTWAIT, &fds);
	int fd = fds.n ? fds.fd[0] : -1; /* there is one at the most */

	if (n == -EAGAIN || n == -EINTR)
		return false;
	/* Told once, when it died with something unread; what it said before is still there. */
	if (n == -ECONNRESET)
		return true;
	if (n == -EMFILE) { /* it is here all the same, without its descriptor */
		n = (ssize_t)sizeof(msg);
		(void)err_set(&msg.err, EMFILE, "take what the writer has opened");
	}
	if (n != (ssize_t)sizeof(msg)) {
		*ret_end = true;
		return false;
	}
	if (msg.says == DISK_SAYS_ROOM)
		on_room(d);
	else if (msg.says == DISK_SAYS_LOST)
		disk_spool_lost(d, msg.ticket, msg.off);
	else if (msg.says == DISK_SAYS_PUMP)
		disk_flow_said(d, &msg);
	else
		disk_link_said(d, &msg, &fd);
	close_auto(&fd);
	return true;
}

static void writer_ended(struct disk *d)
{
	int64_t now = ev_now();

	ev_del(d->loop, &d->src);
	close_auto(&d->src.fd);
	if (d->pid > 0)
		zombies_kill(d->config.zombies,
			     d->pid); /* it has closed its socket, if it is not dead */
	d->pid = -1;
	/* Not again and again, if something here kills each of them. */
	ev_timer_set(d->loop, &d->respawn,
		     now - d->started > RESPAWN_NS ? now : d->started + RESPAWN_NS);
}

static void hear(struct disk *d)
{
	bool end = false;

	for (int i = 0; i < SAYS_PER_TURN && hear_one(d, &end); i++)
		;
	if (end)
		writer_ended(d);
}

static void on_sock(struct ev_source *src, uint32_t events)
{
	(void)events;
	hear(container_of(src, struct disk, src));
}

static void on_released(struct ev_source *src)
{
	struct disk *d = container_of(src, struct disk, src);

	if (d->ended)
		free(d);
}

/* --- the writer --- */

static int start_writer(struct disk *d, struct err *err)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "make a socket for the writer");
	d->pid = fork();
	if (d->pid == 0) {
		const struct disk_writer_plan plan = {
			.ring = d->ring,
			.dirfd = d->config.dirfd,
			.sock = pair[1],
			.keep = d->config.keep,
			.transit = { d->transit[0], d->transit[1] },
			.jobs = d->config.jobs,
			.jobs_n = d->config.jobs_n,
			.job_arg = d->config.job_arg,
		};

		disk_writer_main(&plan);
	}
	/* What is asked about pumps, and to be read, while it waits for its disk must fit: we do not wait with
	 * it. The most that one may ask for is twice what there is else. */
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &(int){ ASKS_BYTES }, sizeof(int));
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &(int){ ASKS_BYTES }, sizeof(int));
	(void)close(pair[1]);
	if (d->pid < 0) {
		r = errno;
		(void)close(pair[0]);
		return err_set(err, r, "start the writer");
	}
	d->started = ev_now();
	d->src.fd = pair[0]; /* the rest as it is: the loop may have it in its hands */
	r = ev_add(d->loop, &d->src, EPOLLIN);
	return r < 0 ? err_set(err, -r, "watch the writer") : 0;
}

static void on_respawn(struct ev_timer *timer)
{
	struct disk *d = container_of(timer, struct disk, respawn);

	if (start_writer(d, NULL) < 0) {
		if (d->src.fd >= 0) /* it runs, and could not be watched */
			writer_ended(d);
		ev_timer_set(d->loop, &d->respawn, ev_now() + RESPAWN_NS);
		return;
	}
	disk_link_again(d);
	disk_flow_again(d);
	disk_fetch_again(d);
	on_room(d);
}

int disk_new(struct disk **ret, const struct disk_config *config, struct err *err)
{
	struct disk *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_set(err, ENOMEM, "begin to write");
	d->config = *config;
	d->loop = config->loop;
	d->src = (struct ev_source){ .fd = -1, .ready = on_sock, .release = on_released };
	d->transit[0] = d->transit[1] = -1;
	d->pid = -1;
	d->next_ticket = 1;
	list_init(&d->room);
	list_init(&d->over);
	list_init(&d->expected);
	list_init(&d->spools);
	list_init(&d->pumps);
	list_init(&d->fetches);
	ev_timer_init(&d->wake, on_wake);
	ev_timer_init(&d->respawn, on_respawn);
	r = map_ring(d, config->size ? config->size : RING_SIZE, err);
	if (r == 0)
		(void)pipe_between_make(&d->between); /* or when it is needed */
	if (r == 0 && pipe2(d->transit, O_CLOEXEC | O_NONBLOCK) < 0)
		r = err_set(err, errno, "make a pipe for the writer");
	if (r == 0)
		r = start_writer(d, err);
	if (r < 0) {
		disk_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

pid_t disk_writer_pid(const struct disk *d)
{
	return d->pid;
}

/* Nothing is waited for in the loop: this is for before and after it. */
static bool wait_turn(struct disk *d, int64_t deadline)
{
	struct pollfd p = { .fd = d->src.fd, .events = POLLIN };
	int64_t left = (deadline - ev_now()) / 1000000;

	if (left <= 0)
		return false;
	if (d->src.fd < 0) {
		(void)usleep(1000);
		if (d->respawn.at <= ev_now()) {
			ev_timer_cancel(&d->respawn);
			on_respawn(&d->respawn);
		}
		return true;
	}
	/* Nobody says that the ring is empty: asked for room it does, when it is. */
	disk_link_want_room(d);
	if (poll(&p, 1, left < 100 ? (int)left : 100) > 0)
		hear(d);
	return true;
}

int disk_wait(struct disk *d, int timeout_ms)
{
	int64_t deadline = ev_now() + (int64_t)timeout_ms * 1000000;

	while (tail_of(d) != d->head || !list_empty(&d->over))
		if (!wait_turn(d, deadline))
			return -ETIMEDOUT;
	return 0;
}

void disk_free(struct disk *d)
{
	int64_t deadline = ev_now() + END_WAIT_NS;

	if (!d)
		return;
	disk_link_done(d);
	disk_fetch_done(d);
	while (d->pid > 0 && !list_empty(&d->over) && wait_turn(d, deadline))
		;
	ev_timer_cancel(&d->wake);
	ev_timer_cancel(&d->respawn);
	ev_del(d->loop, &d->src);
	close_auto(&d->src.fd); /* which it takes for the end of hutchd */
	if (d->pid > 0) {
		auto_close int pidfd = pidfd_open(d->pid, 0);
		struct pollfd p = { .fd = pidfd, .events = POLLIN };
		int64_t left = (deadline - ev_now()) / 1000000;

		if (pidfd >= 0 && poll(&p, 1, left > 0 ? (int)left : 0) == 1)
			(void)waitpid(d->pid, NULL, 0);
	}
	while (!list_empty(&d->over)) {
		struct over *o = list_first(&d->over, struct over, link);

		list_del(&o->link);
		free(o);
	}
	close_auto(&d->transit[0]);
	close_auto(&d->transit[1]);
	pipe_between_done(&d->between);
	if (d->ring.shared)
		(void)munmap(d->ring.shared, HEADER_SIZE + d->ring.size);
	d->ended = true;
	if (!d->src.next_dead) /* else when the loop lets go of it */
		free(d);
}
