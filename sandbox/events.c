#include "sandbox/events.h"

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

static struct event *line(const struct event_log *log, size_t i)
{
	return log->ring[(log->head + i) % log->cap];
}

static void drop_oldest(struct event_log *log)
{
	struct event *ev = line(log, 0);

	log->start += ev->len;
	log->head = (log->head + 1) % log->cap;
	log->count--;
	event_unref(ev);
}

static bool grow(struct event_log *log)
{
	size_t cap = log->cap ? log->cap * 2 : 16;
	struct event **ring = calloc(cap, sizeof(struct event *));

	if (!ring)
		return false;
	for (size_t i = 0; i < log->count; i++)
		ring[i] = line(log, i);
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
	log->ring[(log->head + log->count++) % log->cap] = ev;
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

size_t event_log_read(const struct event_log *log, char *bytes, size_t len, uint64_t off)
{
	uint64_t at = log->start;
	size_t done = 0;

	if (off < at)
		off = at;
	for (size_t i = 0; i < log->count && done < len; i++) {
		const struct event *ev = line(log, i);

		if (off < at + ev->len) {
			size_t skip = (size_t)(off - at), n = ev->len - skip;

			if (n > len - done)
				n = len - done;
			memcpy(bytes + done, ev->text + skip, n);
			done += n;
			off += n;
		}
		at += ev->len;
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
		struct event *ev = line(&eng->events, i);
		const struct sandbox *sb = sandbox_find_serial(eng, ev->sandbox);

		if (sb ? log->sees(log, sb) : log->viewer.uid == 0)
			append(log, ev);
	}
}

static void forget_idle(struct engine *eng)
{
	struct event_log *log, *next;
	size_t n = 0;

	list_for_each (log, &eng->event_logs, link)
		n++;
	list_for_each_safe (log, next, &eng->event_logs, link) {
		if (n < EVENT_LOGS_MAX)
			return;
		if (log->readers)
			continue;
		list_del(&log->link);
		event_log_done(log);
		free(log);
		n--;
	}
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

struct event_log *event_log_find(struct engine *eng, const struct event_viewer *viewer,
				 bool (*sees)(const struct event_log *, const struct sandbox *))
{
	struct event_log *log;

	list_for_each (log, &eng->event_logs, link)
		if (same_viewer(&log->viewer, viewer)) {
			list_del(&log->link);
			list_add_tail(&eng->event_logs, &log->link);
			return log;
		}
	forget_idle(eng);
	log = malloc(sizeof(*log));
	if (!log)
		return NULL;
	event_log_init(log);
	if (!copy_viewer(&log->viewer, viewer)) {
		free(log);
		return NULL;
	}
	log->sees = sees;
	fill(log, eng);
	list_add_tail(&eng->event_logs, &log->link);
	return log;
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

	list_for_each_safe (log, next, &eng->event_logs, link) {
		list_del(&log->link);
		event_log_done(log);
		free(log);
	}
	event_log_done(&eng->events);
}
