/* sandbox.c - a sandbox's life, as its users see it
 *
 *	creating -> running -> stopped -> (start) creating -> …
 *	creating | running -> failed: why -> (start) creating -> …
 *
 * `removed` can come at any time: the name is free at once, the directory goes to
 * the trash when process 1 has been reaped, the nodes some a turn after that, the
 * memory with the last reference.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/text.h"
#include "sandbox/sandbox-internal.h"

#define TIMER_MAX_S    1e9 /* thirty years are as good as never */
#define DROPS_PER_TURN 64  /* nodes of a sandbox that is gone */

static void on_ttl(struct ev_timer *timer)
{
	sandbox_remove(container_of(timer, struct sandbox, ttl));
}

static void on_idle(struct ev_timer *timer)
{
	(void)sandbox_stop(container_of(timer, struct sandbox, idle), NULL);
}

static void on_trim(struct ev_task *task)
{
	exec_trim(container_of(task, struct sandbox, trim));
}

static void on_room(struct ev_task *task)
{
	retain_resume(container_of(task, struct sandbox, room));
}

/* Those that have no run any more: the results are known, and go into the journal. */
static void settle_no_more(struct sandbox *sb)
{
	struct exec *ex, *next;

	list_for_each_safe (ex, next, &sb->execs, link)
		exec_settle_no_more(ex);
}

void sandbox_drop_all(struct sandbox *sb)
{
	ev_task_cancel(&sb->drop);
	list_del(&sb->link);
	settle_no_more(
		sb); /* before any goes: a journal that is rewritten has those that are there */
	while (!list_empty(&sb->execs))
		exec_drop(list_first(&sb->execs, struct exec, link));
	sandbox_unref(sb);
}

/* Thousands of nodes are some milliseconds of work, and nobody waits for it. */
static void on_drop(struct ev_task *task)
{
	struct sandbox *sb = container_of(task, struct sandbox, drop);

	for (int i = 0; i < DROPS_PER_TURN && !list_empty(&sb->execs); i++)
		exec_drop(list_first(&sb->execs, struct exec, link));
	if (list_empty(&sb->execs))
		sandbox_drop_all(sb);
	else
		ev_defer(sb->engine->loop, task);
}

struct sandbox *sandbox_new(struct engine *eng, uint32_t serial)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	sb->ids = calloc(1, sizeof(*sb->ids));
	sb->journal = calloc(1, sizeof(*sb->journal));
	if (!sb->ids || !sb->journal) {
		free(sb->ids);
		free(sb->journal);
		free(sb);
		return NULL;
	}
	sb->engine = eng;
	sb->refs = 1; /* the engine's, until it is removed */
	sb->serial = serial;
	sb->mode = 0700;
	sb->next_exec_serial = sb->next_exec_number = 1;
	sb->keep = EXEC_KEEP;
	ev_timer_init(&sb->ttl, on_ttl);
	ev_timer_init(&sb->idle, on_idle);
	ev_task_init(&sb->trim, on_trim);
	ev_task_init(&sb->room, on_room);
	list_init(&sb->spooled);
	list_init(&sb->stalled);
	ev_task_init(&sb->drop, on_drop);
	list_init(&sb->ids_list);
	list_init(&sb->link);
	list_init(&sb->changed);
	list_init(&sb->execs);
	list_init(&sb->last);
	hmap_init(&sb->execs_by_name);
	hmap_init(&sb->execs_by_serial);
	return sb;
}

struct sandbox *sandbox_ref(struct sandbox *sb)
{
	sb->refs++;
	return sb;
}

void sandbox_unref(struct sandbox *sb)
{
	struct last_entry *last, *next;

	if (!sb || --sb->refs)
		return;
	/* The engine may be gone by now: nothing below needs it. */
	list_for_each_safe (last, next, &sb->last, link)
		free(last);
	journal_close(sb);
	if (sb->events)
		event_log_done(sb->events);
	free(sb->events);
	hmap_done(&sb->execs_by_name);
	hmap_done(&sb->execs_by_serial);
	spec_done(&sb->spec);
	free(sb->journal);
	free(sb->ids);
	free(sb);
}

static void set_state(struct sandbox *sb, enum sandbox_state state)
{
	static const enum event_kind event[] = {
		[SANDBOX_CREATING] = EVENT_KIND_COUNT,     [SANDBOX_RUNNING] = EVENT_STARTED,
		[SANDBOX_STOPPED] = EVENT_STOPPED,         [SANDBOX_FAILED] = EVENT_FAILED,
		[SANDBOX_QUARANTINED] = EVENT_QUARANTINED,
	};

	sb->state = state;
	(void)clock_gettime(CLOCK_REALTIME, &sb->changed_at);
	if (event[state] != EVENT_KIND_COUNT && !sb->removed)
		event_emit(sb, event[state], NULL);
	watch_fire_all(&sb->changed);
}

void sandbox_arm_ttl(struct sandbox *sb)
{
	struct timespec now;
	double left;

	if (sb->spec.ttl_s <= 0)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	left = sb->spec.ttl_s - (double)(now.tv_sec - sb->created.tv_sec) -
	       (double)(now.tv_nsec - sb->created.tv_nsec) / 1e9;
	if (left < TIMER_MAX_S)
		ev_timer_set(sb->engine->loop, &sb->ttl,
			     ev_now() + (left > 0 ? (int64_t)(left * 1e9) : 0));
}

void sandbox_idle(struct sandbox *sb)
{
	bool runs = sb->run && !sb->run->ending && sb->state == SANDBOX_RUNNING;

	if (runs && sb->exec_live == 0 && sb->spec.idle_timeout_s > 0 &&
	    sb->spec.idle_timeout_s < TIMER_MAX_S)
		ev_timer_set(sb->engine->loop, &sb->idle,
			     ev_now() + (int64_t)(sb->spec.idle_timeout_s * 1e9));
}

/* The directory goes away whole, so that a half-removed sandbox is never brought back. */
static void discard(struct sandbox *sb)
{
	struct engine *eng = sb->engine;

	engine_discard(eng, sb->serial);
	if (sb->removed)
		event_emit(sb, EVENT_REMOVED, NULL);
	if (sb->ids->count)
		idpool_free(&eng->ids, sb->ids);
	sb->ids->count = 0;
}

/* --- making one --- */

static int fill(struct sandbox *sb, struct blank *blank, struct spec *spec, struct err *err)
{
	int r;

	sb->spec = *spec; /* ours only if all goes well: see sandbox_create() */
	r = record_write(sb, err);
	if (r == 0)
		r = run_start(sb, blank, err);
	return r;
}

static void choose_id(struct sandbox *sb, struct spec *spec)
{
	while (!*spec->id) {
		char random[RANDOM_ID_LEN + 1];

		random_id(random);
		if (sb->engine->id_tag)
			memcpy(random, sb->engine->id_tag, ID_TAG_LEN);
		(void)snprintf(spec->id, sizeof(spec->id), "sbx_%s", random);
		if (sandbox_find(sb->engine, spec->id))
			*spec->id = '\0';
	}
	memcpy(sb->id, spec->id, sizeof(sb->id));
}

int sandbox_create(struct engine *eng, struct spec *spec, uid_t uid, gid_t gid,
		   struct sandbox **ret, struct err *err)
{
	struct blank blank;
	struct sandbox *sb;
	int r;

	if (*spec->id && name_fault(spec->id))
		return err_say(err, EINVAL, "name '%s': %s", spec->id, name_fault(spec->id));
	if (sandbox_find(eng, spec->id))
		return err_say(err, EEXIST, "there is a sandbox '%s' already", spec->id);
	if (spec->output_max > eng->limits.sandbox_output)
		return err_say(err, EINVAL, "spec: limits: output: at most %" PRIu64 " here",
			       eng->limits.sandbox_output);
	if (!spec->output_max)
		spec->output_max = eng->limits.sandbox_output;
	r = sandbox_check_room(eng, uid, err);
	if (r < 0)
		return r;
	sb = sandbox_new(eng, 0);
	if (!sb)
		return err_set(err, ENOMEM, "make a sandbox");
	/* Directories of the host's are mounted before the root is: no process is ahead of that. */
	r = blank_take(&eng->blanks, spec->mounts_n > 0, &blank, err);
	if (r < 0) {
		sandbox_unref(sb);
		return r;
	}
	sb->serial = blank.serial;
	*sb->ids = blank.ids;
	sb->uid = uid;
	sb->gid = gid;
	(void)clock_gettime(CLOCK_REALTIME, &sb->created);
	sb->changed_at = sb->execs_changed_at = sb->created;
	choose_id(sb, spec);
	r = fill(sb, &blank, spec, err);
	if (r < 0) {
		blank_end(&eng->blanks, &blank);
		sb->spec = (struct spec){ 0 };
		err_wrap(err, r, "make '%s'", sb->id);
		discard(sb);
		sandbox_unref(sb);
		return r;
	}
	*spec = (struct spec){ 0 };
	engine_add(eng, sb);
	sandbox_arm_ttl(sb);
	event_emit(sb, EVENT_CREATED, NULL);
	*ret = sb;
	return 0;
}

/* --- its end --- */

/* No process of it is left, and nobody can find it. */
static void leave(struct sandbox *sb)
{
	discard(sb);
	set_state(sb, SANDBOX_STOPPED);
	list_add_tail(&sb->engine->leaving, &sb->link);
	on_drop(&sb->drop);
}

/* Commands that run are over when process 1 is; whoever waits for them learns it then. */
static void end_process(struct sandbox *sb)
{
	struct exec *ex;

	list_for_each (ex, &sb->execs, link)
		ex->killed |= ex->state != EXEC_DONE && !ex->unwritten;
	run_end(sb->run, NULL);
}

void sandbox_remove(struct sandbox *sb)
{
	if (sb->removed)
		return;
	sb->removed = true;
	engine_remove(sb->engine, sb);
	if (sb->engine->removed)
		sb->engine->removed(sb->engine->removed_arg, sb);
	if (sb->run) {
		record_remove(sb);
		end_process(sb);
		watch_fire_all(&sb->changed);
		return;
	}
	leave(sb);
}

bool sandbox_gone(const struct sandbox *sb)
{
	return !sb->run;
}

void sandbox_on_ready(struct sandbox *sb)
{
	set_state(sb, SANDBOX_RUNNING);
	sandbox_idle(sb);
	/* A command of the list may be finished by sending it, and drop others: run.c copes. */
	run_flush(sb->run);
}

bool sandbox_end_commands(struct sandbox *sb, const struct sandbox_run *run, size_t most)
{
	struct exec *ex, *next;

	list_for_each_safe (ex, next, &sb->execs, link) {
		if (ex->state == EXEC_DONE || ex->unwritten)
			continue;
		/* It has ended, and goes on to settle without its run. */
		if (ex->pending && !sb->removed && !sb->engine->closing)
			continue;
		if (most-- == 0)
			return false;
		exec_on_run_end(ex, &run->fault);
	}
	return true;
}

void sandbox_on_end(struct sandbox *sb, const struct sandbox_run *run)
{
	if (sb->removed) {
		leave(sb);
		return;
	}
	if (run->fault.code)
		sb->why = run->fault;
	set_state(sb, run->broke        ? SANDBOX_QUARANTINED
		      : run->fault.code ? SANDBOX_FAILED
					: SANDBOX_STOPPED);
	if (run->broke) {
		(void)record_write(sb, NULL);
		return;
	}
	if (sb->start_wanted && !sb->engine->closing && sandbox_start(sb, &sb->why) < 0)
		set_state(sb, SANDBOX_FAILED);
}

/* --- verbs --- */

int sandbox_stop(struct sandbox *sb, struct err *err)
{
	(void)err;
	sb->start_wanted = false;
	ev_timer_cancel(&sb->idle);
	if (sb->run)
		end_process(sb);
	return 0;
}

int sandbox_start(struct sandbox *sb, struct err *err)
{
	int r;

	if (sb->removed)
		return err_say(err, ESRCH, "'%s' has been removed", sb->id);
	if (sb->state == SANDBOX_QUARANTINED)
		return err_say(err, EPERM, "'%s' is quarantined: %s", sb->id, sb->why.msg);
	if (sb->run) { /* one that is ending must be reaped first: its layer is in use */
		sb->start_wanted = sb->run->ending;
		return 0;
	}
	sb->start_wanted = false;
	if (!sb->ids->count)
		return err_say(err, EADDRINUSE, "start '%s': %s", sb->id, sb->why.msg);
	r = run_start(sb, NULL, err);
	if (r < 0)
		return err_wrap(err, r, "start '%s'", sb->id);
	sb->why = (struct err){ 0 };
	set_state(sb, SANDBOX_CREATING);
	return 0;
}

int sandbox_kill(struct sandbox *sb, struct err *err)
{
	struct exec *ex, *next;

	list_for_each_safe (ex, next, &sb->execs, link) {
		int r = exec_kill(ex, err);

		if (r < 0)
			return r;
	}
	return 0;
}

int sandbox_set_keep(struct sandbox *sb, unsigned keep, struct err *err)
{
	unsigned old = sb->keep;
	int r;

	if (sb->removed)
		return err_say(err, ESRCH, "'%s' has been removed", sb->id);
	if (keep > EXEC_KEEP_MAX)
		return err_say(err, EINVAL, "keep: at most %d", EXEC_KEEP_MAX);
	sb->keep = keep;
	r = record_write(sb, err);
	if (r < 0) {
		sb->keep = old;
		return r;
	}
	exec_trim(sb);
	return 0;
}

int sandbox_hold(struct sandbox *sb, struct err *err)
{
	int r = 0;

	if (!sb->held) { /* before it is acknowledged: a restart must know */
		sb->held = true;
		r = record_write(sb, err);
		sb->held = r == 0;
	}
	sb->holds += r == 0;
	return r;
}

void sandbox_unhold(struct sandbox *sb)
{
	if (--sb->holds == 0)
		sandbox_remove(sb);
}

bool sandbox_busy(const struct sandbox *sb)
{
	return sb->run && (sb->run->ending || sb->state == SANDBOX_CREATING);
}

int sandbox_chown(struct sandbox *sb, uid_t uid, gid_t gid, struct err *err)
{
	uid_t old_uid = sb->uid;
	gid_t old_gid = sb->gid;
	int r;

	if (uid != (uid_t)-1)
		sb->uid = uid;
	if (gid != (gid_t)-1)
		sb->gid = gid;
	r = record_write(sb, err);
	if (r < 0) {
		sb->uid = old_uid;
		sb->gid = old_gid;
		return err_wrap(err, r, "change the owner of '%s'", sb->id);
	}
	(void)clock_gettime(CLOCK_REALTIME, &sb->changed_at);
	return 0;
}

int sandbox_chmod(struct sandbox *sb, mode_t mode, struct err *err)
{
	mode_t old = sb->mode;
	int r;

	sb->mode = mode & 0777;
	r = record_write(sb, err);
	if (r < 0) {
		sb->mode = old;
		return err_wrap(err, r, "change the mode of '%s'", sb->id);
	}
	(void)clock_gettime(CLOCK_REALTIME, &sb->changed_at);
	return 0;
}

int sandbox_state_print(const struct sandbox *sb, struct buf *out)
{
	static const char *const name[] = {
		[SANDBOX_CREATING] = "creating",         [SANDBOX_RUNNING] = "running",
		[SANDBOX_STOPPED] = "stopped",           [SANDBOX_FAILED] = "failed: ",
		[SANDBOX_QUARANTINED] = "quarantined: ",
	};
	int r = buf_printf(out, "%s", name[sb->state]);

	if (r == 0 && (sb->state == SANDBOX_FAILED || sb->state == SANDBOX_QUARANTINED))
		r = text_escape(out, sb->why.msg, strlen(sb->why.msg));
	return r;
}
