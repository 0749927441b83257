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

struct exec *exec_next(struct sandbox *sb, uint32_t after)
{
	struct exec *at = exec_find_serial(sb, after);
	struct exec *ex;

	if (at)
		return at->link.next == &sb->execs ? NULL
						   : list_entry(at->link.next, struct exec, link);
	list_for_each (ex, &sb->execs, link)
		if (ex->serial > after)
			return ex;
	return NULL;
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

/* --- making and unmaking --- */

static void close_child_ends(struct exec *ex)
{
	for (size_t i = 0; i < ARRAY_SIZE(ex->child); i++)
		close_auto(&ex->child[i]);
}

static struct exec *exec_new(struct sandbox *sb)
{
	struct exec *ex = calloc(1, sizeof(*ex));

	if (!ex)
		return NULL;
	ex->refs = 1; /* the sandbox's, until exec_drop() */
	ex->sandbox = sandbox_ref(sb);
	ex->in.fd = -1;
	list_init(&ex->link);
	list_init(&ex->unsent);
	list_init(&ex->changed);
	list_init(&ex->writable);
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

	if (!ex || --ex->refs)
		return;
	sb = ex->sandbox;
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_done(&ex->stream[i]);
	exec_result_done(&ex->result);
	exec_request_done(&ex->request);
	free(ex);
	sandbox_unref(sb);
}

static void exec_link(struct exec *ex)
{
	struct sandbox *sb = ex->sandbox;

	list_add_tail(&sb->execs, &ex->link);
	hmap_add(&sb->execs_by_name, &ex->by_name, hmap_hash_str(ex->name));
	hmap_add(&sb->execs_by_serial, &ex->by_serial, hmap_hash_u64(ex->serial));
	sb->exec_count++;
	sb->execs_changed_at = ex->created_at;
}

void exec_drop(struct exec *ex)
{
	struct sandbox *sb = ex->sandbox;

	ex->removed = true;
	list_del(&ex->link);
	list_del(&ex->unsent);
	hmap_del(&sb->execs_by_name, &ex->by_name);
	hmap_del(&sb->execs_by_serial, &ex->by_serial);
	sb->exec_count--;
	sb->exec_finished -= ex->state == EXEC_DONE;
	(void)clock_gettime(CLOCK_REALTIME, &sb->execs_changed_at);
	ev_timer_cancel(&ex->deadline);
	close_child_ends(ex);
	exec_close_stdin(ex);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++) {
		stream_end(&ex->stream[i]);
		if (!sb->engine->closing)
			stream_unlink(&ex->stream[i]);
	}
	watch_fire_all(&ex->changed);
	exec_unref(ex);
}

/* One pipe: our end is non-blocking, the command's is not. */
static int make_pipe(int *ours, int *theirs, bool we_read, struct err *err)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	*ours = fd[we_read ? 0 : 1];
	*theirs = fd[we_read ? 1 : 0];
	if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0) {
		(void)close(*ours);
		return err_set(err, errno, "make a pipe non-blocking");
	}
	return 0;
}

static int make_stdio(struct exec *ex, struct err *err)
{
	const struct exec_request *req = &ex->request;
	const enum exec_stdio mode[] = { req->stdout_mode, req->stderr_mode };
	const struct id_range *ids = ex->sandbox->ids;
	int ours, r = 0;

	if (req->stdin_mode == EXEC_STDIO_PIPE) {
		r = make_pipe(&ours, &ex->child[0], false, err);
		if (r == 0)
			r = stdin_attach(ex, ours);
	}
	for (size_t i = 0; r == 0 && i < EXEC_STREAM_COUNT; i++) {
		if (mode[i] != EXEC_STDIO_PIPE) {
			stream_end(&ex->stream[i]);
			continue;
		}
		r = make_pipe(&ours, &ex->child[i + 1], true, err);
		if (r == 0)
			r = stream_attach(&ex->stream[i], ours);
	}
	/* They belong to user 0 of the sandbox, who may give them on: without that
	 * `echo x > /dev/stderr` would be EACCES inside. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ex->child); i++)
		if (ex->child[i] >= 0 && ids->count > 1 &&
		    fchown(ex->child[i], ids->base, ids->base) < 0)
			r = err_set(err, errno, "give a pipe to the sandbox");
	return r;
}

static int check_accepts(const struct sandbox *sb, struct err *err)
{
	switch (sb->state) {
	case SANDBOX_CREATING:
	case SANDBOX_RUNNING:
		if (sb->run && !sb->run->ending && !sb->removed)
			return 0;
		break;
	case SANDBOX_FAILED:
		return err_say(err, ESRCH, "'%s' has failed: %s", sb->id, sb->why.msg);
	case SANDBOX_STOPPED:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return err_say(err, ESRCH, "'%s' does not run: echo start > %s/ctl", sb->id, sb->id);
}

int exec_create(struct sandbox *sb, struct exec_request *req, struct exec **ret, struct err *err)
{
	struct exec *ex;
	int r = check_accepts(sb, err);

	if (r < 0)
		return r;
	if (sb->next_exec_serial >= EXEC_SERIAL_END)
		return err_say(err, ENOSPC, "'%s' has run as many commands as a sandbox can",
			       sb->id);
	ex = exec_new(sb);
	if (!ex)
		return err_set(err, ENOMEM, "make a command's node");
	ex->serial = sb->next_exec_serial++;
	ex->number = sb->next_exec_number++;
	(void)snprintf(ex->name, sizeof(ex->name), "%u", ex->number);
	(void)clock_gettime(CLOCK_REALTIME, &ex->created_at);
	ex->request = *req;
	exec_link(ex);
	r = req->broken ? 0 : make_stdio(ex, err);
	if (r == 0)
		r = journal_commit(ex, err);
	if (r < 0) {
		ex->request = (struct exec_request){ 0 }; /* the caller's still */
		sb->next_exec_number--;
		exec_drop(ex);
		return err_wrap(err, r, "run a command in '%s'", sb->id);
	}
	*req = (struct exec_request){ 0 };
	exec_last_set(sb, ex->request.by, ex->serial);
	*ret = ex;
	if (ex->request.broken)
		exec_fail(ex, 125, ex->request.broken);
	else
		run_exec(sb->run, ex);
	return 0;
}

int exec_restore(struct sandbox *sb, struct exec_record *rec, struct err *err)
{
	struct exec *ex = exec_new(sb);

	if (!ex)
		return err_set(err, ENOMEM, "bring back command %u", rec->serial);
	ex->serial = rec->serial;
	ex->number = rec->number;
	memcpy(ex->name, rec->name, sizeof(ex->name));
	ex->created_at = rec->created_at;
	ex->request = rec->request;
	ex->result = rec->result;
	rec->request = (struct exec_request){ 0 };
	rec->result = (struct exec_result){ 0 };
	ex->state = EXEC_DONE;
	sb->exec_finished++;
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		ex->stream[i].changed_at = ex->created_at;
	exec_link(ex);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_restore(&ex->stream[i]);
	exec_last_set(sb, ex->request.by, ex->serial);
	return 0;
}

void exec_remove(struct exec *ex)
{
	if (ex->removed)
		return;
	exec_ref(ex);
	if (ex->state != EXEC_DONE)
		(void)exec_kill(ex, NULL);
	journal_remove(ex);
	if (ex->state != EXEC_DONE) {
		/* Whoever waits is told now: nobody can find the node when it ends. */
		struct exec_result res = { .reason = EXEC_KILLED,
					   .exit_code = -1,
					   .signal = SIGKILL,
					   .code = 128 + SIGKILL };

		exec_finish(ex, &res);
	}
	if (!ex->removed)
		exec_drop(ex);
	exec_unref(ex);
}

/* --- signals --- */

int exec_signal(struct exec *ex, int sig, struct err *err)
{
	struct sandbox_run *run = ex->sandbox->run;

	if (sig < 1 || sig > SIGRTMAX)
		return err_say(err, EINVAL, "there is no signal %d", sig);
	if (ex->state == EXEC_DONE || !run)
		return 0;
	run_signal(run, ex->serial, sig, true);
	return 0;
}

int exec_kill(struct exec *ex, struct err *err)
{
	struct sandbox_run *run = ex->sandbox->run;

	(void)err;
	if (!run || (ex->state == EXEC_DONE && ex->stream[EXEC_STDOUT].ended &&
		     ex->stream[EXEC_STDERR].ended))
		return 0;
	if (ex->state != EXEC_DONE)
		ex->killed = true;
	if (!list_empty(&ex->unsent)) { /* never started */
		struct exec_result res = { .reason = EXEC_KILLED,
					   .exit_code = -1,
					   .signal = SIGKILL,
					   .code = 128 + SIGKILL };

		list_del(&ex->unsent);
		exec_finish(ex, &res);
		return 0;
	}
	/* Also when the leader is over: what it left behind may still be in its group. */
	run_signal(run, ex->serial, SIGKILL, true);
	return 0;
}
