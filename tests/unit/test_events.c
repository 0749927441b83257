/* Event logs: what is told to whom, how many there may be, and reading at an offset. */
#include "sandbox/sandbox-internal.h"
#include "tests/unit/engine.h"

static bool sees_all(const struct event_log *log, const struct sandbox *sb)
{
	(void)log;
	(void)sb;
	return true;
}

static bool sees_none(const struct event_log *log, const struct sandbox *sb)
{
	(void)log;
	(void)sb;
	return false;
}

static struct event_log *find(struct engine *eng, const struct event_viewer *v,
			      bool (*sees)(const struct event_log *, const struct sandbox *))
{
	struct event_log *log = NULL;
	struct err err = { 0 };

	if (event_log_find(&log, eng, v, sees, &err) < 0)
		printf("# user %u: %s\n", v->uid, err.msg);
	return log;
}

static void test_events(struct engine *eng)
{
	const struct event_viewer root = { 0 }, other = { .uid = 7, .gid = 7 };
	struct event_log *all = find(eng, &root, sees_all), *none = find(eng, &other, sees_none);
	uint64_t from = all->end;
	struct sandbox *sb = make_box(eng, "told");
	struct exec *ex;
	char text[4096] = "";
	size_t n;

	event_log_open(all);
	event_log_open(none);
	(void)turn_until(sb->state == SANDBOX_RUNNING);
	ex = run(sb, "{\"cmd\":\"exit 3\"}");
	(void)turn_until(ex->state == EXEC_DONE);
	exec_unref(ex);
	n = event_log_read(all, text, sizeof(text) - 1, from);
	text[n] = '\0';
	ok(strstr(text, "\"created\",\"sandbox\":\"told\"") &&
		   strstr(text, "\"started\",\"sandbox\":\"told\"") &&
		   strstr(text, "\"exec finished\",\"sandbox\":\"told\",\"exec\":\"1\","
				"\"reason\":\"exited\",\"code\":3"),
	   "events: what happened");
	is_int((long long)event_log_read(none, text, sizeof(text), 0), 0,
	       "events: and nothing of it to others");
	for (int i = 0; i < EVENTS_MAX; i++)
		event_emit(sb, EVENT_STARTED, NULL);
	ok(all->count == EVENTS_MAX && all->start > from, "events: the oldest go");
	n = event_log_read(all, text, 5, 0);
	ok(n == 5 && memcmp(text, "{\"seq", 5) == 0,
	   "events: below the oldest, reading begins with a whole line");
	is_int((long long)event_log_read(all, text, sizeof(text), all->end), 0, "events: the end");
	event_log_close(all);
	event_log_close(none);
	sandbox_remove(sb);
}

/* --- how many --- */

/* A user who may choose his groups comes with other ones each time. */
static struct event_log *come(struct engine *eng, uid_t uid, gid_t group)
{
	const struct event_viewer v = { .uid = uid, .gid = uid, .groups = &group, .groups_n = 1 };

	return find(eng, &v, sees_all);
}

static size_t count(const struct engine *eng)
{
	const struct event_log *log;
	size_t n = 0;

	list_for_each (log, &eng->event_logs, link)
		n++;
	return n;
}

static void test_many_of_one(struct engine *eng)
{
	struct event_log *log[EVENT_LOGS_USER_MAX], *other = come(eng, 6, 1);
	const struct event_viewer one_more = { .uid = 5, .gid = 99 };
	struct err err = { 0 };
	size_t before = count(eng);

	for (gid_t g = 0; g < 1000; g++)
		(void)come(eng, 5, 1000 + g);
	is_int((long)(count(eng) - before), EVENT_LOGS_USER_MAX, "many: of those who only looked");
	for (gid_t g = 0; g < EVENT_LOGS_USER_MAX; g++) {
		log[g] = come(eng, 5, g);
		event_log_open(log[g]);
	}
	is_int((long)(count(eng) - before), EVENT_LOGS_USER_MAX, "many: of those who read");
	is_int(event_log_find(&log[0], eng, &one_more, sees_all, &err), -EDQUOT, "many: %s",
	       err.msg);
	ok(come(eng, 5, 3) == log[3], "many: with the groups of one of them");
	ok(come(eng, 6, 1) == other && come(eng, 8, 1), "many: others are not concerned");
	event_log_close(log[2]);
	ok(event_log_find(&log[2], eng, &one_more, sees_all, &err) == 0,
	   "many: one that is read no more makes room");
	ok(come(eng, 5, 3) == log[3], "many: and no other");
	for (gid_t g = 0; g < EVENT_LOGS_USER_MAX; g++)
		if (g != 2)
			event_log_close(log[g]);
}

static void test_many_users(struct engine *eng)
{
	static struct event_log *log[EVENT_LOGS_MAX];
	size_t n = 0;

	for (uid_t uid = 1000; uid < 1000 + EVENT_LOGS_MAX; uid++)
		if ((log[n] = come(eng, uid, 1)))
			event_log_open(log[n++]);
	is_int((long)n, EVENT_LOGS_MAX, "users: so many read");
	ok(!come(eng, 9999, 1), "users: one more cannot");
	event_log_close(log[--n]);
	ok(come(eng, 9999, 1), "users: until one has closed it");
	is_int((long)count(eng), EVENT_LOGS_MAX, "users: never more");
	while (n > 0)
		event_log_close(log[--n]);
}

/* --- at an offset --- */

static void test_offsets(struct engine *eng)
{
	static char whole[8 << 20], part[8 << 20];
	struct sandbox *sb = make_box(eng, "lines");
	struct event_log *log = event_log_of(sb);
	size_t len, bad = 0;
	int64_t begin;

	/* Round the ring, with its first line anywhere. */
	for (int i = 0; i < EVENTS_MAX + 777; i++)
		event_emit(sb, i % 3 ? EVENT_STARTED : EVENT_FAILED, NULL);
	ok(log->count == EVENTS_MAX && log->start > 0, "offsets: a full log");
	len = event_log_read(log, whole, sizeof(whole), 0);
	is_int((long)len, (long)(log->end - log->start), "offsets: all of it");
	for (size_t at = 0, step = 1; at < len; at += step, step = step * 7 % 4099) {
		size_t n = event_log_read(log, part, step, log->start + at);

		bad += n != (step < len - at ? step : len - at) || memcmp(part, whole + at, n) != 0;
	}
	is_int((long)bad, 0, "offsets: in pieces");
	for (uint64_t at = 0; at < 300; at++)
		bad += event_log_read(log, part, 1, log->end - 150 + at) != (at < 150);
	is_int((long)bad, 0, "offsets: the end");
	begin = ev_now();
	for (int i = 0; i < 300000; i++)
		bad += event_log_read(log, part, 1, log->end - 1) != 1;
	ok(!bad && ev_now() - begin < INT64_C(2000000000), "offsets: at the end as at the front");
	sandbox_remove(sb);
}

int main(void)
{
	struct engine *eng;

	engine_test_begin();
	eng = open_engine();
	test_many_of_one(eng);
	test_events(eng);
	test_offsets(eng);
	test_many_users(eng);
	engine_close(eng);
	return engine_test_end();
}
