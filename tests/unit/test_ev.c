/* test_ev.c - the loop: deletion inside a batch, order, cancelling, waiting */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/ev.h"
#include "tests/unit/tap.h"

#define MS ((int64_t)1000000)

static struct ev_loop loop;
static char log_text[256]; /* what happened, a letter each */

static void note(char c)
{
	size_t len = strlen(log_text);

	log_text[len] = c;
	log_text[len + 1] = '\0';
}

static const char *take_log(void)
{
	static char taken[sizeof(log_text)];

	memcpy(taken, log_text, sizeof(taken));
	log_text[0] = '\0';
	return taken;
}

struct thing {
	struct ev_source src;
	struct ev_timer timer;
	struct ev_task task;
	char letter;
	void (*then)(struct thing *);
	struct thing *other;
	int times;
};

static void on_ready(struct ev_source *src, uint32_t events)
{
	struct thing *t = container_of(src, struct thing, src);

	note(events & EPOLLIN ? t->letter : '!');
	if (t->then)
		t->then(t);
}

static void on_release(struct ev_source *src)
{
	struct thing *t = container_of(src, struct thing, src);

	note('R');
	(void)close(src->fd);
	free(t);
}

static void on_fire(struct ev_timer *timer)
{
	struct thing *t = container_of(timer, struct thing, timer);

	note(t->letter);
	if (t->then)
		t->then(t);
}

static void on_run(struct ev_task *task)
{
	struct thing *t = container_of(task, struct thing, task);

	note(t->letter);
	if (t->then)
		t->then(t);
}

static void thing_init(struct thing *t, char letter, void (*then)(struct thing *))
{
	*t = (struct thing){ .letter = letter, .then = then };
	ev_timer_init(&t->timer, on_fire);
	ev_task_init(&t->task, on_run);
	t->src.ready = on_ready;
}

/* A source that is ready at once, on the heap, freed in release. */
static struct thing *ready_new(char letter, void (*then)(struct thing *))
{
	struct thing *t = malloc(sizeof(*t));

	if (!t)
		exit(1);
	thing_init(t, letter, then);
	t->src.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	t->src.release = on_release;
	if (ev_add(&loop, &t->src, EPOLLIN) < 0)
		exit(1);
	return t;
}

static void del_other(struct thing *t)
{
	if (t->other) {
		t->other->other = NULL;
		ev_del(&loop, &t->other->src);
		ev_del(&loop, &t->other->src);
		t->other = NULL;
	}
}

static void del_self(struct thing *t)
{
	ev_del(&loop, &t->src);
}

/* A new descriptor under the same source, which is not ready. */
static void reopen_other(struct thing *t)
{
	struct thing *o = t->other;

	if (!o)
		return;
	ev_del(&loop, &o->src);
	(void)close(o->src.fd);
	o->src.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ev_add(&loop, &o->src, EPOLLIN) < 0)
		exit(1);
	if (t->times) {
		ev_del(&loop, &t->src);
		ev_del(&loop, &o->src);
	}
	o->other = t->other = NULL;
}

static void test_batch(void)
{
	struct thing *a = ready_new('a', del_other), *b = ready_new('b', del_other);
	const char *happened;

	a->other = b;
	b->other = a;
	is_int(ev_turn(&loop, 0), 0, "a turn with two ready sources");
	happened = take_log();
	ok(strlen(happened) == 2 && happened[1] == 'R',
	   "the first deletes the second, which does not run, and is released once");
	is_int(ev_turn(&loop, 0), 0, "the next turn");
	ok(strlen(log_text) == 1 && log_text[0] != 'R', "has the survivor only");
	a = log_text[0] == 'a' ? a : b;
	take_log();
	a->then = del_self;
	ev_turn(&loop, 0);
	ok(log_text[1] == 'R', "a source may delete itself");
	take_log();
	is_int(ev_turn(&loop, 0), 0, "nothing left");
	is_str(take_log(), "", "and nothing happens");
}

static void test_reopen(void)
{
	for (int times = 0; times < 2; times++) {
		struct thing *a = ready_new('a', reopen_other), *b = ready_new('a', reopen_other);

		a->other = b;
		b->other = a;
		a->times = b->times = times;
		ev_turn(&loop, 0);
		is_str(take_log(), times ? "aRR" : "a",
		       times ? "deleted, added and deleted: released once"
			     : "deleted and added: no event from before, no release");
		if (!times) {
			ev_del(&loop, &a->src);
			ev_del(&loop, &b->src);
			is_int(ev_turn(&loop, -1), 0, "with the dead waiting a turn does not");
		}
		take_log();
	}
}

static void test_misuse(void)
{
	struct thing t;

	thing_init(&t, 't', NULL);
	t.src.fd = -1;
	ev_del(&loop, &t.src);
	is_int(ev_add(&loop, &t.src, EPOLLIN), -EBADF, "a source without a descriptor");
	is_int(ev_mod(&loop, &t.src, EPOLLIN), -ENOENT, "changing one that is not there");
	ev_del(&loop, &t.src);
	is_int(ev_turn(&loop, 0), 0, "deleting it is harmless");
	t.src.fd = eventfd(1, EFD_CLOEXEC);
	is_int(ev_add(&loop, &t.src, 0), 0, "a source that waits for nothing");
	ev_turn(&loop, 0);
	is_str(take_log(), "", "is not ready");
	is_int(ev_mod(&loop, &t.src, EPOLLIN), 0, "until it is changed");
	ev_turn(&loop, 0);
	is_str(take_log(), "t", "then it is");
	ev_del(&loop, &t.src);
	ev_turn(&loop, 0);
	(void)close(t.src.fd);
}

static void cancel_other(struct thing *t)
{
	ev_timer_cancel(&t->other->timer);
	ev_task_cancel(&t->other->task);
}

static void rearm(struct thing *t)
{
	if (t->times-- > 0)
		ev_timer_set(&loop, &t->timer, 0);
}

static void test_timers(void)
{
	static const int order[] = { 3, 1, 4, 0, 2, 2 };
	struct thing t[6];

	for (size_t i = 0; i < 6; i++) {
		thing_init(&t[i], (char)('0' + order[i]), NULL);
		ev_timer_set(&loop, &t[i].timer, order[i]);
	}
	t[5].letter = 'x';
	ev_turn(&loop, -1);
	is_str(take_log(), "012x34", "earliest first, equal ones in the order of setting");

	ev_timer_set(&loop, &t[0].timer, 1);
	ev_timer_set(&loop, &t[1].timer, 2);
	t[0].then = cancel_other;
	t[0].other = &t[1];
	ev_turn(&loop, -1);
	is_str(take_log(), "3", "a due timer cancelled by an earlier one does not fire");

	ev_timer_set(&loop, &t[2].timer, ev_now() - 1);
	t[2].then = rearm;
	t[2].times = 1;
	ev_turn(&loop, -1);
	is_str(take_log(), "4", "set again for the past it fires once per turn");
	ev_turn(&loop, -1);
	is_str(take_log(), "4", "and again in the next");

	ev_timer_set(&loop, &t[3].timer, ev_now() + 1000 * MS);
	ev_timer_set(&loop, &t[3].timer, 0);
	ev_turn(&loop, -1);
	is_str(take_log(), "0", "setting again moves it");
	ok(list_empty(&loop.timers), "no timer is left");
	ev_timer_set(&loop, &t[3].timer, INT64_MAX);
	is_int(ev_turn(&loop, 1), 0, "a deadline at the end of time");
	ev_timer_set(&loop, &t[4].timer, INT64_MIN);
	is_int(ev_turn(&loop, -1), 0, "and one before its beginning");
	is_str(take_log(), "2", "which is due");
	ev_timer_cancel(&t[3].timer);
	ev_timer_cancel(&t[3].timer);
}

static void test_waiting(void)
{
	struct thing t;
	int64_t start = ev_now(), at = start + 20 * MS + 1;
	int turns = 0;

	thing_init(&t, 't', NULL);
	ev_timer_set(&loop, &t.timer, at);
	ev_turn(&loop, 0);
	is_str(take_log(), "", "a turn before its time leaves a timer alone");
	while (log_text[0] == '\0' && turns < 100) {
		ev_turn(&loop, -1);
		turns++;
	}
	ok(ev_now() >= at, "a timer is never early");
	ok(turns <= 2, "and the loop does not spin before it (%d turns)", turns);
	take_log();
	ev_timer_set(&loop, &t.timer, ev_now() + 10000 * MS);
	start = ev_now();
	ev_turn(&loop, 10);
	ok(ev_now() - start >= 9 * MS && ev_now() - start < 5000 * MS, "the caller's limit holds");
	ev_timer_cancel(&t.timer);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void test_interrupted(void)
{
	struct itimerval soon = { .it_value.tv_usec = 5000 };
	struct sigaction act = { .sa_handler = on_alarm };

	(void)sigaction(SIGALRM, &act, NULL);
	(void)setitimer(ITIMER_REAL, &soon, NULL);
	is_int(ev_turn(&loop, 5000), 0, "a signal ends a turn without an error");
}

static void defer_self(struct thing *t)
{
	if (t->times-- > 0)
		ev_defer(&loop, &t->task);
}

static void defer_other(struct thing *t)
{
	ev_defer(&loop, &t->other->task);
	ev_defer(&loop, &t->other->task);
}

static void test_tasks(void)
{
	struct thing a, b;

	thing_init(&a, 'a', defer_self);
	thing_init(&b, 'b', NULL);
	a.times = 1;
	ev_defer(&loop, &a.task);
	ev_defer(&loop, &b.task);
	ev_defer(&loop, &a.task);
	ev_turn(&loop, -1);
	is_str(take_log(), "ab", "tasks run once, in order");
	ev_turn(&loop, -1);
	is_str(take_log(), "a", "one deferred while tasks run waits for the next turn");
	a.then = cancel_other;
	a.other = &b;
	ev_defer(&loop, &a.task);
	ev_defer(&loop, &b.task);
	ev_turn(&loop, -1);
	is_str(take_log(), "a", "a task may cancel one that waits in the same turn");
	is_int(ev_turn(&loop, 0), 0, "nothing left");
	is_str(take_log(), "", "nothing runs");
}

/* The order of a turn: sources, timers, tasks, releases. */
static void defer_idle_self(struct thing *t)
{
	if (t->times-- > 0)
		ev_defer_idle(&loop, &t->task);
}

static void test_idle(void)
{
	struct thing a, b, task, timer, *src = ready_new('s', NULL);

	thing_init(&a, 'a', defer_idle_self);
	thing_init(&b, 'b', NULL);
	thing_init(&task, 'x', NULL);
	thing_init(&timer, 't', NULL);
	a.times = 1;
	ev_defer_idle(&loop, &a.task);
	ev_defer_idle(&loop, &b.task);
	ev_defer_idle(&loop, &a.task);
	ev_timer_set(&loop, &timer.timer, ev_now());
	ev_turn(&loop, -1);
	is_str(take_log(), "st", "idle tasks leave a turn to what is ready and due");
	ev_del(&loop, &src->src);
	ev_turn(&loop, -1);
	is_str(take_log(), "R", "and to what is to be released");
	ev_defer(&loop, &task.task);
	ev_turn(&loop, -1);
	is_str(take_log(), "x", "and to tasks");
	ev_turn(&loop, -1);
	is_str(take_log(), "a", "one runs where nothing else does, without waiting");
	ev_turn(&loop, -1);
	is_str(take_log(), "b", "one a turn, in order");
	ev_turn(&loop, -1);
	is_str(take_log(), "a", "and again, when it asks for that");
	ev_defer_idle(&loop, &b.task);
	ev_task_cancel(&b.task);
	is_int(ev_turn(&loop, 0), 0, "nothing left");
	is_str(take_log(), "", "one that was cancelled does not run");
}

static void test_expect(void)
{
	struct thing a, b, timer, *src;
	int64_t start = ev_now();

	thing_init(&a, 'a', NULL);
	thing_init(&b, 'b', NULL);
	thing_init(&timer, 't', NULL);
	ev_expect(&loop, true);
	ev_defer_idle(&loop, &a.task);
	ev_defer_idle(&loop, &b.task);
	ev_timer_set(&loop, &timer.timer, start + 1);
	ev_turn(&loop, -1);
	is_str(take_log(), "t", "idle tasks of a loop that expects more: not at once");
	src = ready_new('s', NULL);
	ev_turn(&loop, -1);
	is_str(take_log(), "s", "what is expected comes first");
	ev_del(&loop, &src->src);
	ev_turn(&loop, -1);
	is_str(take_log(), "R", "and is released");
	loop.paused_at = loop.busy_at;
	start = ev_now();
	ev_turn(&loop, -1);
	is_str(take_log(), "a", "nothing came: one runs");
	ok(ev_now() - start >= EV_EXPECT_NS, "after as long as that takes");
	ev_turn(&loop, -1);
	is_str(take_log(), "b", "and the next");
	ok(!loop.expects, "without waiting again");
	ev_expect(&loop, true);
	ev_expect(&loop, false);
	ev_defer_idle(&loop, &a.task);
	ev_turn(&loop, -1);
	is_str(take_log(), "a", "nor when nothing is to come");
}

/* Something to do every now and then, for so long. */
static void be_busy(struct thing *timer, int64_t ns)
{
	int64_t end = ev_now() + ns;

	do {
		ev_timer_set(&loop, &timer->timer, 1);
		ev_turn(&loop, -1);
		(void)take_log();
	} while (ev_now() < end);
}

static void take_long(struct thing *t)
{
	(void)t;
	(void)usleep(EV_EXPECT_NS / 1000);
}

/* How long the next one has waited, at the least of some times: a machine that is busy makes it longer. */
static int64_t idle_wait(struct thing *timer, int64_t busy_ns, int64_t pause_ns)
{
	int64_t least = INT64_MAX;
	struct thing idle;

	thing_init(&idle, 'i', NULL);
	for (int i = 0; i < 20; i++) {
		int64_t start;

		be_busy(timer, busy_ns);
		(void)usleep((useconds_t)(pause_ns / 1000));
		be_busy(timer, 0);
		ev_expect(&loop, true);
		ev_defer_idle(&loop, &idle.task);
		start = ev_now();
		ev_turn(&loop, -1);
		if (ev_now() - start < least)
			least = ev_now() - start;
		is_str(take_log(), "i", "an idle task runs");
	}
	return least;
}

/* Who never pauses gets them all the same. */
static void test_hurry(void)
{
	struct thing timer;
	int64_t wait;

	thing_init(&timer, 't', NULL);
	wait = idle_wait(&timer, EV_EXPECT_NS * 2, 0);
	ok(wait >= EV_HURRY_NS && wait < EV_EXPECT_NS / 2, "behind a long burst after %lld us",
	   (long long)wait / 1000);
	thing_init(&timer, 't', take_long);
	wait = idle_wait(&timer, EV_EXPECT_NS * 2, 0);
	ok(wait < EV_EXPECT_NS / 2, "also of turns that take long, after %lld us",
	   (long long)wait / 1000);
	thing_init(&timer, 't', NULL);
	wait = idle_wait(&timer, EV_EXPECT_NS * 2, EV_EXPECT_NS);
	ok(wait >= EV_EXPECT_NS, "behind a pause after %lld us", (long long)wait / 1000);
}

static void defer_and_die(struct thing *t)
{
	defer_other(t);
	del_self(t);
}

static void test_order(void)
{
	struct thing timer, task, *src = ready_new('s', defer_and_die);

	thing_init(&timer, 't', NULL);
	thing_init(&task, 'k', NULL);
	src->other = &task;
	ev_timer_set(&loop, &timer.timer, 1);
	ev_turn(&loop, -1);
	is_str(take_log(), "stkR", "sources, timers, tasks, releases");
}

static void stop(struct thing *t)
{
	(void)t;
	loop.stop = true;
}

static void test_run(void)
{
	struct thing t, *left;

	thing_init(&t, 't', stop);
	ev_timer_set(&loop, &t.timer, ev_now() + MS);
	is_int(ev_run(&loop), 0, "ev_run ends");
	is_str(take_log(), "t", "when a callback says so");
	left = ready_new('x', NULL);
	ev_del(&loop, &left->src);
	ev_done(&loop);
	is_str(take_log(), "R", "what was dead at the end is released");
	ev_done(NULL);
	is_int(loop.epfd, -1, "the descriptor is closed");
}

int main(void)
{
	(void)ev_init(&loop, NULL);
	test_batch();
	test_reopen();
	test_misuse();
	test_timers();
	test_waiting();
	test_interrupted();
	test_tasks();
	test_idle();
	test_expect();
	test_hurry();
	test_order();
	test_run();
	return tap_done();
}
