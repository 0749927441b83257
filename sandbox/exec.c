/* exec.c - the nodes of a sandbox's commands: made, found, signalled, removed
 *
 * A node is in its sandbox's list and maps from exec_create() to exec_drop().
 * References keep the memory longer: handles of the tree, and the loop, as long as
 * it has a source of the command's in its hands.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/text.h"
#include "sandbox/sandbox-internal.h"

#define EXEC_SERIAL_END (UINT32_C(1) << EXEC_SERIAL_BITS)
#define NEXT_PROBES     256 /* serials behind one that is gone */

/* --- finding --- */

struct exec *exec_find(struct sandbox *sb, const char *name)
{
	struct hmap_node *n;

	hmap_for_each_hash (n, &sb->execs_by_name, hmap_hash_str(name)) {
		struct exec *ex = container_of(n, struct exec, by_name);

		if (strcmp(ex->name, name) == 0)
			return ex;
	}
	return NULL;
}

struct exec *exec_find_serial(struct sandbox *sb, uint32_t serial)
{
	struct hmap_node *n;

	hmap_for_each_hash (n, &sb->execs_by_serial, hmap_hash_u64(serial)) {
		struct exec *ex = container_of(n, struct exec, by_serial);

		if (ex->serial == serial)
			return ex;
	}
	return NULL;
}

/* Of a node that is gone: who removes what he lists does so once for each page of a listing, and must
 * not pass over all nodes each time. The next serials are asked for before the whole list is: it
 * is walked only where so many were removed together. */
static struct exec *next_of_gone(struct sandbox *sb, uint32_t after)
{
	struct exec *ex;

	if (list_empty(&sb->execs) ||
	    list_entry(sb->execs.prev, struct exec, link)->serial <= after)
		return NULL;
	ex = list_first(&sb->execs, struct exec, link);
	if (ex->serial > after)
		return ex;
	for (uint32_t i = 1; i <= NEXT_PROBES; i++)
		if ((ex = exec_find_serial(sb, after + i)))
			return ex;
	list_for_each (ex, &sb->execs, link)
		if (ex->serial > after)
			return ex;
	return NULL;
}

struct exec *exec_next(struct sandbox *sb, uint32_t after)
{
	struct exec *at = exec_find_serial(sb, after);

	if (!at)
		return next_of_gone(sb, after);
	return at->link.next == &sb->execs ? NULL : list_entry(at->link.next, struct exec, link);
}

/* --- `last` --- */

void exec_last_set(struct sandbox *sb, uid_t uid, uint32_t serial)
{
	struct last_entry *last;

	list_for_each (last, &sb->last, link)
		if (last->uid == uid) {
			last->serial = serial;
			return;
		}
	last = malloc(sizeof(*last));
	if (!last) /* `last` is for people at a prompt: they see ENOENT */
		return;
	*last = (struct last_entry){ .uid = uid, .serial = serial };
	list_add_tail(&sb->last, &last->link);
}

void exec_last_clear(struct sandbox *sb, uid_t uid)
{
	exec_last_set(sb, uid, 0);
}

struct exec *exec_last(struct sandbox *sb, uid_t uid)
{
	struct last_entry *last;

	list_for_each (last, &sb->last, link)
		if (last->uid == uid)
			return last->serial ? exec_find_serial(sb, last->serial) : NULL;
	return NULL;
}

bool exec_over(const struct exec *ex)
{
	return ex->state == EXEC_DONE && !ex->group && ex->stream[EXEC_STDOUT].ended &&
	       ex->stream[EXEC_STDERR].ended;
}

/* --- making and unmaking --- */

static void close_child_ends(struct exec *ex)
{
	for (size_t i = 0; i < ARRAY_SIZE(ex->child); i++)
		close_auto(&ex->child[i]);
}

struct exec *exec_new(struct sandbox *sb)
{
	struct exec *ex = calloc(1, sizeof(*ex));

	if (!ex)
		return NULL;
	ex->refs = 1; /* the sandbox's, until exec_drop() */
	ex->sandbox = sandbox_ref(sb);
	ex->in.fd = -1;
	list_init(&ex->link);
	list_init(&ex->unsent);
	list_init(&ex->by_id);
	list_init(&ex->spooled);
	list_init(&ex->changed);
	list_init(&ex->writable);
	arrival_init(&ex->arrival);
	exec_start_init(ex);
	for (size_t i = 0; i < ARRAY_SIZE(ex->child); i++)
		ex->child[i] = -1;
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_init(&ex->stream[i], ex, (enum exec_stream)i);
	return ex;
}

struct exec *exec_ref(struct exec *ex)
{
	ex->refs++;
	return ex;
}

void exec_unref(struct exec *ex)
{
	struct sandbox *sb;

	if (!ex)
		return;
	sb = ex->sandbox;
	if (--ex->refs == 1 && !ex->removed && quota_keeps_too_much(sb))
		exec_trim_later(sb); /* it was open */
	if (ex->refs)
		return;
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_done(&ex->stream[i]);
	arrival_done(&ex->arrival);
	exec_result_done(&ex->result);
	if (ex->pending)
		exec_result_done(ex->pending);
	free(ex->pending);
	exec_request_done(&ex->request);
	exec_base_done(ex);
	free(ex);
	sandbox_unref(sb);
}

void exec_link(struct exec *ex)
{
	struct sandbox *sb = ex->sandbox;
	struct list *at = &sb->execs;

	/* The end, except where a journal was damaged. */
	while (at->prev != &sb->execs &&
	       list_entry(at->prev, struct exec, link)->serial > ex->serial)
		at = at->prev;
	list_add_tail(at, &ex->link);
	hmap_add(&sb->execs_by_name, &ex->by_name, hmap_hash_str(ex->name));
	hmap_add(&sb->execs_by_serial, &ex->by_serial, hmap_hash_u64(ex->serial));
	sb->exec_count++;
	sb->engine->exec_count++;
	sb->execs_changed_at = ex->created_at;
}

static void exec_count_out(struct exec *ex)
{
	struct sandbox *sb = ex->sandbox;

	sb->exec_count--;
	sb->engine->exec_count--;
	if (ex->state == EXEC_DONE) {
		quota_finished(ex, false);
	} else if (!ex->unwritten) {
		sb->exec_live--;
		sb->engine->exec_live--;
	}
	if (!list_empty(&ex->by_id)) {
		list_del(&ex->by_id);
		sb->ids_count--;
	}
	sb->request_bytes -= ex->request_bytes;
	sb->engine->request_bytes -= ex->request_bytes;
}

void exec_drop(struct exec *ex)
{
	struct sandbox *sb = ex->sandbox;

	exec_settle_no_more(ex); /* whoever waits is told */
	ex->removed = true;
	journal_forget(ex);
	list_del(&ex->link);
	list_del(&ex->unsent);
	list_del(&ex->spooled);
	hmap_del(&sb->execs_by_name, &ex->by_name);
	hmap_del(&sb->execs_by_serial, &ex->by_serial);
	exec_count_out(ex);
	(void)clock_gettime(CLOCK_REALTIME, &sb->execs_changed_at);
	ev_timer_cancel(&ex->deadline);
	close_child_ends(ex);
	if (ex->group)
		cgroup_abandon(TAKE_PTR(ex->group));
	exec_close_stdin(ex);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++) {
		stream_end(&ex->stream[i]);
		if (sb->engine->closing)
			stream_done(&ex->stream[i]);
		else if (!sb->removed) /* else the directory goes, whole */
			retain_forget(&ex->stream[i]);
	}
	if (sb->engine->closing)
		arrival_done(&ex->arrival);
	else if (!sb->removed)
		arrival_unlink(ex);
	watch_fire_all(&ex->changed);
	exec_unref(ex);
}

/* Our ends: stdin, stdout, stderr; -1: none. Theirs are in exec.child. */
struct own_ends {
	int fd[3];
};

static int make_pipes(struct exec *ex, struct own_ends *own, struct err *err)
{
	const struct exec_request *req = &ex->request;
	const enum exec_stdio mode[] = { req->stdin_mode, req->stdout_mode, req->stderr_mode };
	const struct id_range *ids = ex->sandbox->ids;

	for (int i = 0; i < 3 && !req->pty.on; i++) {
		int r;

		if (mode[i] != EXEC_STDIO_PIPE)
			continue;
		r = pipes_take(&ex->sandbox->engine->pipes, i > 0, &own->fd[i], &ex->child[i], err);
		/* They belong to user 0 of the sandbox, who may give them on: without that
		 * `echo x > /dev/stderr` would be EACCES inside. */
		if (r == 0 && ids->count > 1 && fchown(ex->child[i], ids->base, ids->base) < 0)
			r = err_set(err, errno, "give a pipe to the sandbox");
		if (r < 0)
			return r;
	}
	return 0;
}

/* Takes the descriptors, also on failure. */
static int attach_pipes(struct exec *ex, struct own_ends *own, struct err *err)
{
	int r = own->fd[0] >= 0 ? stdin_attach(ex, TAKE_FD(own->fd[0])) : 0;

	if (ex->request.pty.on) { /* that comes when it is sent, and is not stderr */
		stream_end(&ex->stream[EXEC_STDERR]);
		return 0;
	}
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++) {
		if (own->fd[i + 1] < 0) {
			stream_end(&ex->stream[i]);
			continue;
		}
		if (stream_attach(&ex->stream[i], TAKE_FD(own->fd[i + 1])) < 0)
			r = -ENOSPC;
	}
	return r < 0 ? err_set(err, -r, "watch its streams") : 0;
}

static int refuse_removed(const struct sandbox *sb, struct err *err)
{
	return err_say(err, ESRCH, "'%s' has been removed", sb->id);
}

int exec_check(const struct sandbox *sb, struct err *err)
{
	if (sb->removed)
		return refuse_removed(sb, err);
	switch (sb->state) {
	case SANDBOX_CREATING:
	case SANDBOX_RUNNING:
		if (sb->run && !sb->run->ending)
			return 0;
		if (sb->run && sb->run->fault.code) /* it is failing, and not reaped yet */
			return err_say(err, ESRCH, "'%s' has failed: %s", sb->id,
				       sb->run->fault.msg);
		break;
	case SANDBOX_FAILED:
		return err_say(err, ESRCH, "'%s' has failed: %s", sb->id, sb->why.msg);
	case SANDBOX_QUARANTINED:
		return err_say(err, EPERM, "'%s' is quarantined: %s", sb->id, sb->why.msg);
	case SANDBOX_STOPPED:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return err_say(err, ESRCH, "'%s' does not run: echo start > %s/ctl", sb->id, sb->id);
}

/* A node in the list, without a command. `name`: NULL, it counts. */
static int make_node(struct sandbox *sb, const char *name, struct exec **ret, struct err *err)
{
	struct exec *ex;
	int r;

	if (sb->next_exec_serial >= EXEC_SERIAL_END)
		return err_say(err, ENOSPC, "'%s' has run as many commands as a sandbox can",
			       sb->id);
	r = quota_node(sb, err);
	if (r < 0)
		return r;
	ex = exec_new(sb);
	if (!ex)
		return err_set(err, ENOMEM, "make a command's node");
	ex->serial = sb->next_exec_serial++;
	if (!name)
		ex->number = sb->next_exec_number++;
	if (name)
		(void)snprintf(ex->name, sizeof(ex->name), "%s", name);
	else
		(void)snprintf(ex->name, sizeof(ex->name), "%u", ex->number);
	(void)clock_gettime(CLOCK_REALTIME, &ex->created_at);
	ex->unwritten = true;
	exec_link(ex);
	*ret = ex;
	return 0;
}

/* Takes `req` on success; on failure the node is as it was. */
static int start_node(struct exec *ex, struct exec_request *req, struct err *err)
{
	struct sandbox *sb = ex->sandbox;
	struct exec_request before = ex->request;
	struct own_ends own = { .fd = { -1, -1, -1 } };
	int r = quota_command(sb, err);

	if (r == 0)
		r = quota_request(sb, exec_request_size(req), err);
	if (r < 0)
		return r;
	ex->request = *req;
	r = req->broken ? 0 : make_pipes(ex, &own, err);
	if (r == 0)
		r = journal_commit(ex, err);
	if (r < 0) {
		close_child_ends(ex);
		for (size_t i = 0; i < ARRAY_SIZE(own.fd); i++)
			close_auto(&own.fd[i]);
		ex->request = before;
		return r;
	}
	exec_request_done(&before);
	*req = (struct exec_request){ 0 };
	quota_recount(ex);
	ex->unwritten = false;
	sb->exec_live++;
	sb->engine->exec_live++;
	ev_timer_cancel(&sb->idle);
	if (ex->request.id) {
		list_add_tail(&sb->ids_list, &ex->by_id);
		sb->ids_count++;
	}
	exec_last_set(sb, ex->request.by, ex->serial);
	if (ex->request.broken)
		exec_fail(ex, 125, ex->request.broken);
	else if (attach_pipes(ex, &own, &(struct err){ 0 }) < 0)
		exec_fail(ex, 125, "its streams could not be watched");
	else
		run_exec(sb->run, ex);
	return 0;
}

static int check_id(struct sandbox *sb, struct err *err)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	while (!list_empty(&sb->ids_list)) {
		struct exec *oldest = list_first(&sb->ids_list, struct exec, by_id);

		if (now.tv_sec - oldest->created_at.tv_sec < EXEC_ID_STAYS_S ||
		    !exec_over(oldest) || oldest->refs > 1)
			break;
		journal_remove(oldest);
		exec_drop(oldest);
	}
	if (sb->ids_count >= EXEC_IDS_MAX)
		return err_say(err, EDQUOT, "'%s' has %d commands with an id: rmdir some", sb->id,
			       EXEC_IDS_MAX);
	return 0;
}

int exec_create(struct sandbox *sb, struct exec_request *req, struct exec **ret, struct err *err)
{
	struct exec *ex = req->id ? exec_find(sb, req->id) : NULL;
	int r;

	if (ex) {
		*ret = ex;
		return exec_write(ex, req, err);
	}
	/* One that is broken runs nothing, and nobody hears of it but from its node. */
	r = req->broken && !sb->removed ? 0 : exec_check(sb, err);
	if (r == 0 && req->id)
		r = check_id(sb, err);
	if (r == 0)
		r = make_node(sb, req->id, &ex, err);
	if (r != 0)
		return r;
	r = start_node(ex, req, err);
	if (r < 0) {
		sb->next_exec_number -= ex->number != 0;
		exec_drop(ex);
		return err_wrap(err, r, "run a command in '%s'", sb->id);
	}
	*ret = ex;
	return 0;
}

int exec_mkdir(struct sandbox *sb, const char *name, uid_t by, struct exec **ret, struct err *err)
{
	struct exec *ex;
	int r = exec_check(sb, err);

	if (r < 0)
		return r;
	if (name_fault(name))
		return err_say(err, EINVAL, "name '%s': %s", name, name_fault(name));
	if (name_is_number(name))
		return err_say(err, EINVAL, "name '%s': numbers are given by the tree itself",
			       name);
	if (exec_find(sb, name))
		return err_say(err, EEXIST, "there is a command '%s' already", name);
	r = make_node(sb, name, &ex, err);
	if (r < 0)
		return r;
	r = exec_base_begin(ex);
	ex->request.by = by;
	r = r < 0 ? err_set(err, -r, "make '%s'", name)
		  : quota_request(sb, exec_request_size(&ex->request), err);
	if (r == 0) {
		quota_recount(ex);
		r = journal_commit(ex, err);
	}
	if (r < 0) {
		exec_drop(ex);
		return r;
	}
	*ret = ex;
	return 0;
}

int exec_write(struct exec *ex, struct exec_request *req, struct err *err)
{
	struct sandbox *sb = ex->sandbox;
	int r;

	if (sb->removed)
		return refuse_removed(sb, err);
	if (!ex->unwritten) {
		if (!exec_request_equal(&ex->request, req))
			return err_say(err, EEXIST, "'%s' has a different command already",
				       ex->name);
		exec_last_set(sb, req->by, ex->serial);
		exec_request_done(req);
		return 0;
	}
	r = exec_check(sb, err);
	if (r == 0 && req->id)
		r = check_id(sb, err);
	if (r == 0 && (r = exec_base_keep(ex)) == 0) {
		r = start_node(ex, req, err);
		if (r < 0)
			exec_base_undo(ex);
		else
			exec_base_settle(ex);
		watch_fire_all(&ex->writable);
	}
	return r < 0 ? err_wrap(err, r, "run '%s' in '%s'", ex->name, sb->id) : 0;
}

void exec_hold(struct exec *ex)
{
	ex->holds++;
}

void exec_unhold(struct exec *ex)
{
	if (--ex->holds == 0)
		(void)exec_kill(ex, NULL);
}

void exec_remove(struct exec *ex)
{
	if (ex->removed)
		return;
	exec_ref(ex);
	(void)exec_kill(ex, NULL);
	if (ex->state != EXEC_DONE && !ex->unwritten) {
		/* Whoever waits is told now: nobody can find the node when it ends. */
		struct exec_result res = { .reason = EXEC_KILLED,
					   .exit_code = -1,
					   .signal = SIGKILL,
					   .code = 128 + SIGKILL };

		exec_finish_now(ex, &res);
	}
	if (!ex->removed) {
		journal_remove(ex); /* last: a rewrite at its result keeps what is not dropped */
		exec_drop(ex);
	}
	exec_unref(ex);
}
