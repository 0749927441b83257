#include "sandbox/events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "base/watch.h"
#include "sandbox/sandbox-internal.h"

struct event {
	unsigned refs;
	uint32_t sandbox; /* serial */
	size_t len;
	char text[]; /* with its newline, without a NUL */
};

static void event_unref(struct event *ev)
{
	if (ev && --ev->refs == 0)
		free(ev);
}

/* --- one log --- */

void event_log_init(struct event_log *log)
{
	*log = (struct event_log){ 0 };
	list_init(&log->link);
	list_init(&log->changed);
}

static struct event_place *place(const struct event_log *log, size_t i)
{
	return &log->ring[(log->head + i) % log->cap];
}

static void drop_oldest(struct event_log *log)
{
	struct event *ev = place(log, 0)->event;

	log->start += ev->len;
	log->head = (log->head + 1) % log->cap;
	log->count--;
	event_unref(ev);
}

static bool grow(struct event_log *log)
{
	size_t cap = log->cap ? log->cap * 2 : 16;
	struct event_place *ring;

	if (cap > EVENTS_MAX)
		cap = EVENTS_MAX;
	ring = calloc(cap, sizeof(*ring));
	if (!ring)
		return false;
	for (size_t i = 0; i < log->count; i++)
		ring[i] = *place(log, i);
	free(log->ring);
	log->ring = ring;
	log->cap = cap;
	log->head = 0;
	return true;
}

static void append(struct event_log *log, struct event *ev)
{
	if (log->count == EVENTS_MAX)
		drop_oldest(log);
	if (log->count == log->cap && !grow(log))
		return;
	*place(log, log->count++) = (struct event_place){ ev, log->end };
	log->end += ev->len;
	ev->refs++;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &log->changed_at);
	watch_fire_all(&log->changed);
}

void event_log_done(struct event_log *log)
{
	while (log->count)
		drop_oldest(log);
	free(log->ring);
	free(log->viewer.groups);
	log->viewer.groups = NULL;
	log->ring = NULL;
	log->cap = 0;
}

/* The line that holds the byte at `off`, which is not below the log's start; or log->count. */
static size_t find_line(const struct event_log *log, uint64_t off)
{
	size_t low = 0, high = log->count;

	if (off >= log->end)
		return log->count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (place(log, middle)->at <= off)
			low = middle;
		else
			high = middle;
	}
	return low;
}

size_t event_log_read(const struct event_log *log, char *bytes, size_t len, uint64_t off)
{
	size_t done = 0;

	if (off < log->start)
		off = log->start;
	for (size_t i = find_line(log, off); i < log->count && done < len; i++) {
		const struct event_place *p = place(log, i);
		size_t skip = (size_t)(off - p->at), n = p->event->len - skip;

		if (n > len - done)
			n = len - done;
		memcpy(bytes + done, p->event->text + skip, n);
		done += n;
		off += n;
	}
	return done;
}

/* --- making a line --- */

static const char *const kind_name[] = {
	[EVENT_CREATED] = "created",           [EVENT_STARTED] = "started",
	[EVENT_STOPPED] = "stopped",           [EVENT_FAILED] = "failed",
	[EVENT_QUARANTINED] = "quarantined",   [EVENT_REMOVED] = "removed",
	[EVENT_EXEC_STARTED] = "exec started", [EVENT_EXEC_FINISHED] = "exec finished",
};

static int print(struct buf *out, struct sandbox *sb, enum event_kind kind, const struct exec *ex)
{
	char time[RFC3339_LEN + 1];
	struct timespec now;
	int r;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	rfc3339(time, &now);
	r = buf_printf(out, "{\"seq\":%llu,\"time\":\"%s\",\"event\":\"%s\",\"sandbox\":\"%s\"",
		       (unsigned long long)++sb->engine->event_seq, time, kind_name[kind], sb->id);
	if (r == 0 && ex)
		r = buf_printf(out, ",\"exec\":\"%s\"", ex->name);
	if (r == 0 && ex && kind == EVENT_EXEC_FINISHED)
		r = buf_printf(out, ",\"reason\":\"%s\",\"code\":%d",
			       exec_reason_name(ex->result.reason), ex->result.code);
	if (r == 0 && (kind == EVENT_FAILED || kind == EVENT_QUARANTINED)) {
		r = buf_printf(out, ",\"why\":");
		if (r == 0)
			r = json_put_string(out, sb->why.msg, strlen(sb->why.msg));
	}
	return r < 0 ? r : buf_printf(out, "}\n");
}

void event_emit(struct sandbox *sb, enum event_kind kind, const struct exec *ex)
{
	struct engine *eng = sb->engine;
	auto_buf struct buf text = { 0 };
	struct event_log *log, *next, *own;
	struct event *ev;

	if (eng->closing || print(&text, sb, kind, ex) < 0)
		return;
	ev = malloc(sizeof(*ev) + text.len);
	if (!ev)
		return;
	*ev = (struct event){ .refs = 1, .sandbox = sb->serial, .len = text.len };
	memcpy(ev->text, text.data, text.len);
	append(&eng->events, ev);
	own = event_log_of(sb);
	if (own)
		append(own, ev);
	list_for_each_safe (log, next, &eng->event_logs, link)
		if (log->sees(log, sb))
			append(log, ev);
	event_unref(ev);
}

/* --- who reads --- */

struct event_log *event_log_of(struct sandbox *sb)
{
	if (!sb->events && (sb->events = malloc(sizeof(*sb->events))))
		event_log_init(sb->events);
	return sb->events;
}

/* What was kept until now and concerns a sandbox that is still there to be asked about. */
static void fill(struct event_log *log, struct engine *eng)
{
	for (size_t i = 0; i < eng->events.count; i++) {
		struct event *ev = place(&eng->events, i)->event;
		const struct sandbox *sb = sandbox_find_serial(eng, ev->sandbox);

		if (sb ? log->sees(log, sb) : log->viewer.uid == 0)
			append(log, ev);
	}
}

static void forget(struct event_log *log)
{
	list_del(&log->link);
	event_log_done(log);
	free(log);
}

/* So many has this user, or have all (NULL). `idle`: of those the one that nobody reads, and was not
 * asked for for longest; or NULL. */
static size_t count_logs(const struct engine *eng, const uid_t *uid, struct event_log **ret_idle)
{
	struct event_log *log;
	size_t n = 0;

	*ret_idle = NULL;
	list_for_each (log, &eng->event_logs, link) {
		if (uid && log->viewer.uid != *uid)
			continue;
		n++;
		if (!*ret_idle && !log->readers)
			*ret_idle = log;
	}
	return n;
}

static int make_room(struct engine *eng, uid_t uid, struct err *err)
{
	struct event_log *idle;

	if (count_logs(eng, &uid, &idle) >= EVENT_LOGS_USER_MAX) {
		if (!idle)
			return err_say(err, EDQUOT,
				       "user %u reads events with %d different sets of groups, the "
				       "most allowed",
				       uid, EVENT_LOGS_USER_MAX);
		forget(idle);
	}
	if (count_logs(eng, NULL, &idle) >= EVENT_LOGS_MAX) {
		if (!idle)
			return err_say(err, EDQUOT, "%d users read events, the most allowed",
				       EVENT_LOGS_MAX);
		forget(idle);
	}
	return 0;
}

static bool same_viewer(const struct event_viewer *a, const struct event_viewer *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->groups_n == b->groups_n &&
	       (!a->groups_n ||
		memcmp(a->groups, b->groups, (size_t)a->groups_n * sizeof(*a->groups)) == 0);
}

static bool copy_viewer(struct event_viewer *to, const struct event_viewer *from)
{
	size_t bytes = (size_t)from->groups_n * sizeof(*from->groups);

	*to = *from;
	to->groups = malloc(bytes + 1);
	if (to->groups && bytes)
		memcpy(to->groups, from->groups, bytes);
	return to->groups;
}

static struct event_log *new_log(struct engine *eng, const struct event_viewer *viewer,
				 bool (*sees)(const struct event_log *, const struct sandbox *))
{
	struct event_log *log = malloc(sizeof(*log));

	if (!log)
		return NULL;
	event_log_init(log);
	if (!copy_viewer(&log->viewer, viewer)) {
		free(log);
		return NULL;
	}
	log->sees = sees;
	fill(log, eng);
	return log;
}

int event_log_find(struct event_log **ret, struct engine *eng, const struct event_viewer *viewer,
		   bool (*sees)(const struct event_log *, const struct sandbox *), struct err *err)
{
	struct event_log *log;
	int r;

	list_for_each (log, &eng->event_logs, link)
		if (same_viewer(&log->viewer, viewer)) {
			list_del(&log->link);
			list_add_tail(&eng->event_logs, &log->link);
			*ret = log;
			return 0;
		}
	r = make_room(eng, viewer->uid, err);
	if (r < 0)
		return r;
	log = new_log(eng, viewer, sees);
	if (!log)
		return err_set(err, ENOMEM, "read events");
	list_add_tail(&eng->event_logs, &log->link);
	*ret = log;
	return 0;
}

void event_log_open(struct event_log *log)
{
	log->readers++;
}

void event_log_close(struct event_log *log)
{
	log->readers--;
}

void events_done(struct engine *eng)
{
	struct event_log *log, *next;

	list_for_each_safe (log, next, &eng->event_logs, link)
		forget(log);
	event_log_done(&eng->events);
}
