/* disk_writer.c - the process that writes
 *
 * It goes through the ring from tail to head, again and again.  `scan` is how far it has come.
 * What the disk did not take keeps its place, and with it the tail; its names are in `held`, so that what
 * comes behind it for the same name waits too, and nothing else does.  A second later the
 * whole is gone through once more.
 *
 * It may wait for the disk at any point, and nobody waits for it but the next hutchd.  It ignores
 * the signals that end a daemon: it ends when hutchd has gone (its socket is at its end) and the
 * ring is empty, or PATIENCE_NS later when there is something that the disk does not take.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/ev.h"
#include "base/hmap.h"
#include "sandbox/disk-internal.h"
#include "sandbox/fds.h"

#define RETRY_NS    (INT64_C(1) * 1000000000)
#define PATIENCE_NS (INT64_C(10) * 1000000000)
#define HELD_MAX    1024
#define RUN_MAX     256  /* writes that become one */
#define HEAR_MAX    1024 /* messages at a time */
#define HEAR_EVERY  16   /* runs, while there is no time to sleep */

struct fetch {
	uint64_t ticket, off, len;
	int fd;
};

struct writer {
	struct disk_writer_plan plan;
	struct disk_files files;
	struct disk_pumps *pumps;
	struct fetch fetch[DISK_FETCHES_MAX]; /* a ring of its own */
	size_t fetch_first, fetch_n;
	uint64_t scan, tail;
	uint64_t seen;           /* the farthest that scan was: what is lossy is done below it */
	uint64_t held[HELD_MAX]; /* hashes of names */
	size_t held_n;           /* above HELD_MAX: every name is */
	int error;               /* of the first that is held */
	int64_t retry_at;        /* ev_now() time, when held_n is not 0 */
	bool alone;              /* hutchd has gone */
	int64_t gone_at;
};

/* --- becoming it --- */

/* Whoever looks at a list of processes must not take it for a second hutchd. */
static void rename_process(void)
{
	static const char title[] = "hutchd: writer";
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	char *at = program_invocation_name;
	char bytes[4096];
	ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));

	(void)prctl(PR_SET_NAME, "hutchd-writer");
	/* The arguments lie behind each other where the kernel has put them; glibc's pointer is to the first,
	 * which what was read must prove. */
	if (n >= (ssize_t)sizeof(title) && n < (ssize_t)sizeof(bytes) &&
	    memcmp(at, bytes, strnlen(bytes, (size_t)n)) == 0) {
		memset(at, 0, (size_t)n);
		memcpy(at, title, sizeof(title));
	}
	if (fd >= 0)
		(void)close(fd);
}

static void ignore_signals(void)
{
	static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ };
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* What it needs for files that belong to the ids of sandboxes; nothing of mounts and processes. */
static void drop_capabilities(void)
{
	static const cap_value_t kept[] = { CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID };
	cap_t caps = geteuid() == 0 ? cap_init() : NULL;

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!caps)
		return;
	/* A root that has lost some already keeps what it has: it is no wall, but a habit. */
	if (cap_set_flag(caps, CAP_PERMITTED, ARRAY_SIZE(kept), kept, CAP_SET) == 0 &&
	    cap_set_flag(caps, CAP_EFFECTIVE, ARRAY_SIZE(kept), kept, CAP_SET) == 0)
		(void)cap_set_proc(caps);
	(void)cap_free(caps);
}

/* Nothing else of hutchd's lives longer because of us, nor does anybody wait for us who reads what
 * hutchd says. */
static void keep_descriptors(struct disk_writer_plan *plan)
{
	int *const kept[] = { &plan->dirfd, &plan->sock, &plan->transit[0], &plan->transit[1],
			      &plan->keep }; /* the last: there may be none */
	size_t n = ARRAY_SIZE(kept) - (plan->keep < 0);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), high[ARRAY_SIZE(kept)];

	for (size_t i = 0; i < n; i++)
		high[i] = fcntl(*kept[i], F_DUPFD, 3 + (int)n);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			_exit(1);
	for (size_t i = 0; i < n; i++)
		if ((*kept[i] = dup2(high[i], 3 + (int)i)) < 0)
			_exit(1);
	(void)close_range(3 + (unsigned)n, ~0U, 0);
}

/* --- saying --- */

/* Who waits for it would wait for ever, so a lack of memory is waited for too. */
int disk_say(int sock, const struct disk_message *msg, int fd)
{
	for (;;) {
		int r = fds_send(sock, msg, sizeof(*msg), &fd, fd >= 0);

		if (r == -ENOMEM || r == -ENOBUFS)
			(void)usleep(DISK_SHORT_US);
		else if (r != -EINTR)
			return r;
	}
}

static void say(struct writer *w, const struct disk_message *msg, int fd)
{
	struct disk_message without = *msg;
	int r = w->alone ? 0 : disk_say(w->plan.sock, msg, fd);

	/* hutchd may have gone: its socket will say so too. Else too many descriptors are on their way, and
	 * whoever waits for this one must not wait for ever. */
	if (r == 0 || fd < 0)
		return;
	(void)err_set(&without.err, -r, "pass a descriptor on");
	(void)disk_say(w->plan.sock, &without, -1);
}

static void say_room(struct writer *w)
{
	const struct disk_message msg = { .says = DISK_SAYS_ROOM };
	struct disk_shared *s = w->plan.ring.shared;
	uint64_t used = atomic_load(&s->head) - w->tail;

	if (used < w->plan.ring.size / 4 * 3 && atomic_exchange(&s->wants_room, 0))
		say(w, &msg, -1);
}

/* --- reading --- */

/* It is not read at once: who hears has other things to do. */
static void keep_fetch(struct writer *w, const struct disk_ask *ask, int fd)
{
	struct disk_message msg = { .says = DISK_SAYS_DONE, .ticket = ask->ticket };

	if (fd >= 0 && w->fetch_n < DISK_FETCHES_MAX) {
		w->fetch[(w->fetch_first + w->fetch_n++) % DISK_FETCHES_MAX] =
			(struct fetch){ ask->ticket, ask->off, ask->limit, fd };
		return;
	}
	(void)err_set(&msg.err, fd < 0 ? EMFILE : EBUSY, "read from the state directory");
	say(w, &msg, -1);
	close_auto(&fd);
}

/* One, so that what is to be written has its turn too; true: there are more. */
static bool read_next(struct writer *w)
{
	struct fetch *f = &w->fetch[w->fetch_first];
	struct disk_message msg = { .says = DISK_SAYS_DONE, .ticket = f->ticket };
	int fd;

	if (!w->fetch_n)
		return false;
	fd = w->alone ? -1 : disk_files_fetch(f->fd, f->off, (size_t)f->len);
	if (disk_files_spare(&w->files, fd))
		fd = disk_files_fetch(f->fd, f->off, (size_t)f->len);
	if (fd < 0)
		(void)err_set(&msg.err, -fd, "read from the state directory");
	say(w, &msg, fd);
	close_auto(&fd);
	close_auto(&f->fd);
	w->fetch_first = (w->fetch_first + 1) % DISK_FETCHES_MAX;
	return --w->fetch_n > 0;
}

/* --- hearing --- */

/* One message; false: there is none. */
static bool hear(struct writer *w)
{
	struct disk_ask ask = { 0 };
	struct fds fds;
	ssize_t n = fds_receive(w->plan.sock, &ask, sizeof(ask), MSG_DONTWAIT, &fds);
	int fd = fds.n ? fds.fd[0] : -1; /* there is one at the most */

	if (n == -EAGAIN || n == -EINTR)
		return false;
	/* Told once, when hutchd died with something unread; what it said before is still there. */
	if (n == -ECONNRESET)
		return true;
	if (n == -EMFILE) { /* it is here all the same, and told that there was no pipe with it */
		n = (ssize_t)sizeof(ask);
		(void)disk_files_spare(&w->files, -EMFILE); /* for the next one */
	}
	if (n <= 0) {
		w->alone = true;
		w->gone_at = ev_now();
		disk_pumps_last(w->pumps);
		return false;
	}
	if (n == (ssize_t)sizeof(ask) && ask.asks == DISK_ASKS_FETCH)
		keep_fetch(w, &ask, fd);
	else if (n == (ssize_t)sizeof(ask))
		disk_pumps_ask(w->pumps, &ask, fd);
	else if (fd >= 0)
		(void)close(fd);
	return true;
}

static void hear_all(struct writer *w)
{
	for (int i = 0; i < HEAR_MAX && !w->alone && hear(w); i++)
		;
}

/* --- what the disk does not take --- */

static bool is_held(const struct writer *w, const char *name)
{
	uint64_t hash = hmap_hash_str(name);

	if (w->held_n > HELD_MAX)
		return true;
	for (size_t i = 0; i < w->held_n; i++)
		if (w->held[i] == hash)
			return true;
	return false;
}

static void hold(struct writer *w, const char *name)
{
	if (w->held_n < HELD_MAX)
		w->held[w->held_n] = hmap_hash_str(name);
	if (w->held_n <= HELD_MAX)
		w->held_n++;
}

static void hold_record(struct writer *w, const struct disk_record *rec, int code)
{
	if (!w->held_n) {
		w->error = code;
		w->retry_at = ev_now() + RETRY_NS;
	}
	if (!is_held(w, disk_record_name(rec)))
		hold(w, disk_record_name(rec));
	if (rec->to_len && !is_held(w, disk_record_to(rec)))
		hold(w, disk_record_to(rec));
}

/* --- the ring --- */

static struct disk_record *at(const struct writer *w, uint64_t pos)
{
	return disk_ring_at(&w->plan.ring, pos);
}

static bool is_done(const struct disk_record *rec)
{
	return atomic_load_explicit(&rec->done, memory_order_relaxed);
}

static void mark_done(struct disk_record *rec)
{
	atomic_store_explicit(&rec->done, 1, memory_order_release);
}

static void move_tail(struct writer *w)
{
	while (w->tail < w->scan && is_done(at(w, w->tail)))
		w->tail += at(w, w->tail)->size;
	atomic_store_explicit(&w->plan.ring.shared->tail, w->tail, memory_order_release);
	say_room(w);
}

static int answer(struct writer *w, const struct disk_record *rec, int *ret_fd, struct err *err)
{
	*ret_fd = -1;
	*err = (struct err){ 0 };
	if (rec->what == DISK_OPEN)
		return *ret_fd = disk_files_open(&w->files, disk_record_name(rec));
	if (rec->number >= w->plan.jobs_n)
		return -EINVAL;
	return w->plan.jobs[rec->number](w->plan.job_arg, w->plan.dirfd, disk_record_data(rec),
					 rec->len, ret_fd, err);
}

/* What is answered. */
static void do_job(struct writer *w, struct disk_record *rec)
{
	struct disk_message msg = { .says = DISK_SAYS_DONE, .ticket = rec->ticket };
	int fd, r = answer(w, rec, &fd, &msg.err);

	if (disk_files_spare(&w->files, r))
		r = answer(w, rec, &fd, &msg.err);
	if (r < 0 && !msg.err.code)
		(void)err_set(&msg.err, -r, "state directory");
	mark_done(rec);
	if (rec->ticket)
		say(w, &msg, fd);
	if (fd >= 0)
		(void)close(fd);
}

/* How many of the records from `scan` on are one piece of one file. */
static size_t collect(const struct writer *w, uint64_t head, const struct disk_record **run)
{
	uint64_t pos = w->scan, end;
	size_t n = 0;

	run[n++] = at(w, pos);
	if (run[0]->what != DISK_WRITE)
		return n;
	end = run[0]->off + run[0]->len;
	while ((pos += at(w, pos)->size) < head && n < RUN_MAX) {
		const struct disk_record *rec = at(w, pos);

		if (rec->what != DISK_WRITE || is_done(rec) || rec->off != end ||
		    rec->flags != (run[0]->flags & ~DISK_TRUNCATE) ||
		    strcmp(disk_record_name(rec), disk_record_name(run[0])) != 0)
			break;
		end += rec->len;
		run[n++] = rec;
	}
	return n;
}

/* What failed is lost from `lost_at` on. */
static void say_outcome(struct writer *w, const struct disk_record *rec, int r, uint64_t lost_at)
{
	struct disk_message msg = { .says = r < 0 ? DISK_SAYS_LOST : DISK_SAYS_DONE,
				    .ticket = rec->ticket,
				    .off = lost_at };

	if (!rec->ticket || (rec->flags & DISK_LOSSY && r == 0))
		return;
	if (r < 0)
		(void)err_set(&msg.err, -r, "state directory");
	say(w, &msg, -1);
}

/* The run at `scan`; moves it on. */
static void do_run(struct writer *w, uint64_t head)
{
	const struct disk_record *run[RUN_MAX];
	size_t n = collect(w, head, run);
	int r = disk_files_do(&w->files, run, n);
	bool lossy = run[0]->flags & DISK_LOSSY;
	uint64_t lost_at = run[0]->off;
	bool held;

	/* Some of it may have gone well: one at a time, it turns out where it ends. */
	if (r < 0 && lossy && n > 1) {
		n = 1;
		r = disk_files_do(&w->files, run, n);
	}
	held = r < 0 && (!lossy || r == -ENOSPC || r == -EDQUOT || disk_is_short(r));
	if (r < 0 && !held)
		lost_at = disk_files_lost(&w->files, run[0]);
	for (size_t i = 0; i < n; i++) {
		struct disk_record *rec = at(w, w->scan);

		w->scan += rec->size;
		if (held) {
			hold_record(w, rec, -r);
			continue;
		}
		/* Said first: of what was lost nobody knows but from us, and the next writer passes over
		 * what is done. */
		say_outcome(w, rec, r, lost_at);
		mark_done(rec);
	}
}

static bool is_about(const struct disk_record *rec, const char *name)
{
	return rec->what != DISK_PAD && !is_done(rec) &&
	       (strcmp(disk_record_name(rec), name) == 0 ||
		(rec->to_len && strcmp(disk_record_to(rec), name) == 0));
}

/* What is held for a file need not be done when that is to go: else a full disk would hold on to what
 * makes room.  False: something else is held for that name. */
static bool overtakes(struct writer *w, const struct disk_record *rec)
{
	const char *name = disk_record_name(rec);

	if (rec->what != DISK_UNLINK)
		return false;
	for (uint64_t pos = w->tail; pos < w->scan; pos += at(w, pos)->size)
		if (is_about(at(w, pos), name) && at(w, pos)->what != DISK_WRITE)
			return false;
	for (uint64_t pos = w->tail; pos < w->scan; pos += at(w, pos)->size) {
		if (!is_about(at(w, pos), name))
			continue;
		mark_done(at(w, pos));
		say_outcome(w, at(w, pos), 0, 0);
	}
	return true;
}

static bool must_wait(struct writer *w, const struct disk_record *rec)
{
	if (!w->held_n || (!is_held(w, disk_record_name(rec)) &&
			   !(rec->to_len && is_held(w, disk_record_to(rec)))))
		return false;
	return !overtakes(w, rec);
}

/* Some of what there is; true: there is more. */
static bool work(struct writer *w)
{
	uint64_t head = atomic_load_explicit(&w->plan.ring.shared->head, memory_order_acquire);
	struct disk_record *rec;

	if (w->scan == head)
		return false;
	rec = at(w, w->scan);
	if (is_done(rec) || rec->what == DISK_PAD) {
		w->scan += rec->size;
	} else if (rec->what == DISK_JOB || rec->what == DISK_OPEN) {
		do_job(w, rec);
		w->scan += rec->size;
	} else if (must_wait(w, rec)) {
		hold_record(w, rec, w->error);
		w->scan += rec->size;
	} else {
		/* A pump that was stopped before must not make the file anew. */
		if (rec->what == DISK_UNLINK)
			hear_all(w);
		do_run(w, head);
	}
	move_tail(w);
	return true;
}

/* Gone through once: what is known of the disk is told, and tried again when it is time. */
static void come_round(struct writer *w)
{
	const struct disk_message msg = { .says = DISK_SAYS_ROOM };
	struct disk_shared *s = w->plan.ring.shared;
	int error;

	w->seen = w->scan;
	if (w->held_n && w->tail == w->scan)
		w->held_n = 0; /* what was held is not wanted any more */
	error = w->held_n ? w->error : 0;
	/* Who waits for room with bytes that may be lost need not wait for a full disk. */
	if (atomic_exchange(&s->error, error) == 0 && error)
		say(w, &msg, -1);
	if (w->held_n && ev_now() >= w->retry_at) {
		w->held_n = 0;
		w->scan = w->tail;
	}
}

/* --- waiting --- */

static int wait_ms(const struct writer *w)
{
	int64_t left = w->held_n ? w->retry_at - ev_now() : -1;

	return !w->held_n ? -1 : left < 0 ? 0 : (int)(left / 1000000) + 1;
}

/* At the socket and the pipes. */
static void look(struct writer *w, int timeout_ms)
{
	struct pollfd p[1 + DISK_PUMPS_MAX];
	size_t n = disk_pumps_wait(w->pumps, p + 1);

	p[0] = (struct pollfd){ .fd = w->alone ? -1 : w->plan.sock, .events = POLLIN };
	if (poll(p, (nfds_t)n + 1, timeout_ms) <= 0)
		return;
	disk_pumps_woken(w->pumps, p + 1, n);
	if (p[0].revents)
		hear_all(w);
}

/* Until there is something to do. */
static void sleep_for_work(struct writer *w)
{
	struct disk_shared *s = w->plan.ring.shared;

	atomic_store(&s->asleep, 1);
	/* hutchd moves head, then looks whether we sleep. */
	atomic_thread_fence(memory_order_seq_cst);
	look(w, atomic_load(&s->head) == w->scan ? wait_ms(w) : 0);
	atomic_store(&s->asleep, 0);
	say_room(w);
}

static bool finished(const struct writer *w)
{
	if (!w->alone || w->scan != atomic_load(&w->plan.ring.shared->head))
		return false;
	return !w->held_n || ev_now() - w->gone_at > PATIENCE_NS;
}

_Noreturn void disk_writer_main(const struct disk_writer_plan *plan)
{
	struct writer w = { .plan = *plan };

	ignore_signals();
	keep_descriptors(&w.plan);
	(void)!chdir("/");
	(void)setsid(); /* a terminal's keys are hutchd's */
	rename_process();
	drop_capabilities();
	disk_files_init(&w.files, w.plan.dirfd);
	w.pumps = disk_pumps_new(&w.files, &w.plan);
	if (!w.pumps)
		_exit(1);
	w.tail = w.scan = atomic_load(&w.plan.ring.shared->tail);
	for (unsigned round = 1;; round++) {
		bool more = work(&w), pumped;

		if (!more)
			come_round(&w);
		pumped = disk_pumps_turn(w.pumps, w.seen);
		more |= pumped | read_next(&w);
		if (!more && finished(&w))
			_exit(0);
		if (!more)
			sleep_for_work(&w);
		else if (pumped || round % HEAR_EVERY == 0) /* a turn of pumps is long */
			look(&w, 0);
	}
}
