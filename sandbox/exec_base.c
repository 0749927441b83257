/* exec_base.c - what a request written to a named node begins with
 *
 * mkdir gives the node the sandbox's defaults, `set` changes them, and the command
 * is laid over them.  They are kept behind it, because the same request may be
 * written again: equal means equal after the same defaults.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "sandbox/sandbox-internal.h"

const struct exec_request *exec_defaults(const struct sandbox *sb)
{
	return &sb->spec.exec;
}

const struct exec_request *exec_base(const struct exec *ex)
{
	if (ex->unwritten)
		return &ex->request;
	return ex->base ? ex->base : exec_defaults(ex->sandbox);
}

int exec_base_copy(struct exec_request *ret, const struct exec_request *from)
{
	int r = exec_request_script(ret, from, "", 0, NULL);

	if (r < 0)
		return r;
	free(TAKE_PTR(ret->script));
	ret->by = from->by;
	return 0;
}

int exec_base_begin(struct exec *ex)
{
	return exec_base_copy(&ex->request, exec_defaults(ex->sandbox));
}

int exec_base_room(const struct exec *ex, size_t more, struct err *err)
{
	auto_buf struct buf text = { 0 };

	if (exec_request_print(&ex->request, &text) < 0)
		return err_set(err, ENOMEM, "set");
	if (text.len + more > REQUEST_MAX)
		return err_say(err, E2BIG, "set: a request may have %d bytes", REQUEST_MAX);
	return 0;
}

int exec_base_keep(struct exec *ex)
{
	ex->base = malloc(sizeof(*ex->base));
	if (!ex->base)
		return -ENOMEM;
	*ex->base = ex->request;
	ex->request = (struct exec_request){ 0 };
	return 0;
}

void exec_base_undo(struct exec *ex)
{
	ex->request = *ex->base;
	free(TAKE_PTR(ex->base));
}

void exec_base_settle(struct exec *ex)
{
	if (ex->base && exec_request_equal(ex->base, exec_defaults(ex->sandbox)))
		exec_base_done(ex);
}

void exec_base_done(struct exec *ex)
{
	if (ex->base)
		exec_request_done(ex->base);
	free(TAKE_PTR(ex->base));
}

/* What is set is accepted when it is on the disk, and else nothing is. */
static int replace_request(struct exec *ex, struct exec_request *with, struct err *err)
{
	struct exec_request before = ex->request;
	int r;

	ex->request = *with;
	r = journal_commit(ex, err);
	if (r < 0) {
		ex->request = before;
		return r;
	}
	*with = before;
	quota_recount(ex);
	return 0;
}

int exec_set(struct exec *ex, const char *key, const char *value, struct err *err)
{
	struct exec_request next;
	int r;

	if (ex->removed)
		return err_say(err, ESRCH, "'%s' has been removed", ex->name);
	if (!ex->unwritten)
		return err_say(err, EBUSY, "set: the command of '%s' was written already",
			       ex->name);
	r = exec_base_room(ex, strlen(key) + strlen(value), err);
	if (r == 0)
		r = quota_request(ex->sandbox, strlen(key) + strlen(value), err);
	if (r < 0)
		return r;
	if (exec_base_copy(&next, &ex->request) < 0)
		return err_set(err, ENOMEM, "set");
	r = exec_request_set(&next, key, value, err);
	if (r == 0)
		r = replace_request(ex, &next, err);
	exec_request_done(&next); /* what there was, or what could not be */
	return r;
}
