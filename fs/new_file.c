/* new_file.c - `new` in exec/ and at the root, and `cmd`: requests for commands and for sandboxes
 *
 * When a request commits is request_file.c's; here is what it becomes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "fs/request_file.h"
#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

#define PF_SIGNALED      0x400 /* of /proc/PID/stat's flags: killed by a signal */
#define STAT_FLAGS_FIELD 9     /* counted as proc(5) does */

/* Text of a writer whom Ctrl-C ended must not run.  Of a process that cannot be seen, nothing is
 * known and nothing is held against it. */
static bool writer_dying(pid_t pid)
{
	auto_buf struct buf stat = { .max = 4096 };
	char path[64];
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_read(AT_FDCWD, path, &stat, NULL) < 0 || !stat.len)
		return false;
	/* Field 2 is the program's name in parentheses and may hold anything. */
	p = strrchr(stat.data, ')');
	for (int field = 2; p && field < STAT_FLAGS_FIELD; field++)
		p = strchr(p + 1, ' ');
	return p && strtoul(p, NULL, 10) & PF_SIGNALED;
}

static int keeps(struct request_file *rf, size_t len, struct err *err)
{
	return handle_keeps(rf->arg, len, err);
}

static void record_refusal(struct request_file *rf, const struct err *err)
{
	struct handle *h = rf->arg;

	tree_refuse(h->tree, h->uid, &h->ref, NULL, err);
}

/* exec/new */

/* Whatever may refuse a text is asked at its first byte: where it ends no shell looks. */
static int check_sandbox(const struct sandbox *box, bool node, struct err *err)
{
	int r = exec_check(box, err);

	return r < 0 ? r : exec_check_room(box, node, err);
}

/* A JSON document is refused in the write that completes it, and not before: its id may be that of a
 * command that was accepted while the sandbox ran. */
static int exec_new_check(struct request_file *rf, struct err *err)
{
	const struct handle *h = rf->arg;

	return rf->form == REQUEST_FORM_JSON ? 0 : check_sandbox(h->ref.sandbox, true, err);
}

/* Takes `req`, also on failure. */
static int make_exec(struct request_file *rf, struct exec_request *req, struct buf *name,
		     struct err *err)
{
	const struct handle *h = rf->arg;
	struct exec *x;
	int r;

	req->by = h->uid;
	req->unique = rf->unique;
	r = exec_create(h->ref.sandbox, req, &x, err);
	if (r == 0)
		(void)buf_add(name, x->name, strlen(x->name));
	exec_request_done(req);
	return r;
}

static int parse(struct exec_request *req, const struct request_file *rf,
		 const struct exec_request *base, struct err *err)
{
	return exec_request_parse(req, base, rf->pending.data, rf->pending.len, err);
}

/* An id may name a node that is there: then what was set of it counts. */
static int parse_new(struct exec_request *req, const struct request_file *rf, struct err *err)
{
	const struct handle *h = rf->arg;
	const struct exec *x;
	int r = parse(req, rf, exec_defaults(h->ref.sandbox), err);

	if (r < 0 || !req->id)
		return r;
	if (node_find(NODE_EXECS, req->id) != NODE_NONE) {
		r = err_say(err, EINVAL, "request: id: '%s' is a name of the tree itself", req->id);
		exec_request_done(req);
		return r;
	}
	x = exec_find(h->ref.sandbox, req->id);
	if (!x)
		return 0;
	exec_request_done(req);
	return parse(req, rf, exec_base(x), err);
}

static int exec_commit_json(struct request_file *rf, struct buf *name, struct err *err)
{
	struct exec_request req = { 0 };
	int r = parse_new(&req, rf, err);

	return r < 0 ? r : make_exec(rf, &req, name, err);
}

static int exec_commit_text(struct request_file *rf, struct buf *name, struct err *err)
{
	const struct handle *h = rf->arg;
	struct exec_request req = { 0 };
	int r = exec_request_script(&req, exec_defaults(h->ref.sandbox), rf->pending.data,
				    rf->pending.len, err);

	return r < 0 ? r : make_exec(rf, &req, name, err);
}

static int exec_commit_broken(struct request_file *rf, const char *why, struct buf *name,
			      struct err *err)
{
	struct exec_request req = { 0 };
	int r = exec_request_broken(&req, rf->pending.data, rf->pending.len, why);

	return r < 0 ? err_set(err, -r, "keep the request") : make_exec(rf, &req, name, err);
}

/* A script that goes on to read `last` must not find the command before this one. */
static void exec_refused(struct request_file *rf, const struct err *err)
{
	const struct handle *h = rf->arg;

	record_refusal(rf, err);
	exec_last_clear(h->ref.sandbox, h->uid);
}

static const struct request_file_ops exec_request_file = {
	.check = exec_new_check,
	.keeps = keeps,
	.commit_json = exec_commit_json,
	.commit_text = exec_commit_text,
	.commit_broken = exec_commit_broken,
	.refused = exec_refused,
	.dying = writer_dying,
	.json_hint = "to run it as a script, begin with a space",
	.busy = "this handle has made its command; join the pieces: { ...; } | cat > exec/new",
};

/* exec/NAME/cmd: one command, which may be written again.  What departs from the record is refused
 * in the write that does. */

static int cmd_check(struct request_file *rf, struct err *err)
{
	const struct handle *h = rf->arg;

	if (h->ref.exec->removed)
		return err_say(err, ESRCH, "'%s' has been removed", h->ref.exec->name);
	if (!h->ref.exec->unwritten)
		return 0;
	return rf->form == REQUEST_FORM_JSON ? exec_check(h->ref.sandbox, err)
					     : check_sandbox(h->ref.sandbox, false, err);
}

static int refuse_other(const struct exec *x, struct err *err)
{
	return err_say(err, EEXIST, "'%s' has a different command already", x->name);
}

/* Is the record what its own text would become if it were written now? */
static int check_surroundings(const struct exec *x, struct err *err)
{
	struct exec_request req = { 0 };
	bool same;
	int r;

	if (!x->request.script)
		return refuse_other(x, err);
	r = exec_request_script(&req, exec_base(x), x->request.script, x->request.script_len, err);
	if (r < 0)
		return r;
	same = exec_request_equal(&req, &x->request);
	exec_request_done(&req);
	return same ? 0 : refuse_other(x, err);
}

static int cmd_check_text(const struct request_file *rf, const char *bytes, size_t len,
			  struct err *err)
{
	const struct handle *h = rf->arg;
	const struct exec *x = h->ref.exec;
	size_t at = rf->pending.len;
	int r;

	if (x->unwritten)
		return 0;
	r = at == 0 ? check_surroundings(x, err) : 0;
	if (r < 0)
		return r;
	if (!x->request.script || at + len > x->request.script_len ||
	    memcmp(x->request.script + at, bytes, len) != 0)
		return refuse_other(x, err);
	return 0;
}

/* Takes `req`, also on failure. */
static int write_cmd(struct request_file *rf, struct exec_request *req, struct err *err)
{
	const struct handle *h = rf->arg;
	int r;

	req->by = h->uid;
	req->unique = rf->unique;
	if (req->id && strcmp(req->id, h->ref.exec->name) != 0)
		r = err_say(err, EINVAL, "request: id: is not the node's name, '%s'",
			    h->ref.exec->name);
	else if (h->ref.exec->removed)
		r = err_say(err, ESRCH, "'%s' has been removed", h->ref.exec->name);
	else
		r = exec_write(h->ref.exec, req, err);
	exec_request_done(req);
	return r;
}

static int cmd_commit_json(struct request_file *rf, struct buf *name, struct err *err)
{
	const struct handle *h = rf->arg;
	struct exec_request req = { 0 };
	int r = parse(&req, rf, exec_base(h->ref.exec), err);

	(void)name;
	return r < 0 ? r : write_cmd(rf, &req, err);
}

static int cmd_commit_text(struct request_file *rf, struct buf *name, struct err *err)
{
	const struct handle *h = rf->arg;
	struct exec_request req = { 0 };
	int r = exec_request_script(&req, exec_base(h->ref.exec), rf->pending.data, rf->pending.len,
				    err);

	(void)name;
	return r < 0 ? r : write_cmd(rf, &req, err);
}

static int cmd_commit_broken(struct request_file *rf, const char *why, struct buf *name,
			     struct err *err)
{
	struct exec_request req = { 0 };
	int r = exec_request_broken(&req, rf->pending.data, rf->pending.len, why);

	(void)name;
	return r < 0 ? err_set(err, -r, "keep the request") : write_cmd(rf, &req, err);
}

static const struct request_file_ops cmd_request_file = {
	.check = cmd_check,
	.keeps = keeps,
	.check_text = cmd_check_text,
	.commit_json = cmd_commit_json,
	.commit_text = cmd_commit_text,
	.commit_broken = cmd_commit_broken,
	.refused = exec_refused,
	.dying = writer_dying,
	.json_hint = "to run it as a script, begin with a space",
	.busy = "this handle has written its command; join the pieces: { ...; } | cat > cmd",
};

/* The root's new */

static int spec_check(struct request_file *rf, struct err *err)
{
	const struct handle *h = rf->arg;

	return rf->form == REQUEST_FORM_TEXT ? sandbox_check_room(h->tree->engine, h->uid, err) : 0;
}

/* White space in front of JSON is skipped, so that what else comes as text is blank or wrong. */
static int spec_check_text(const struct request_file *rf, const char *bytes, size_t len,
			   struct err *err)
{
	(void)rf;
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r\n", bytes[i]))
			return err_say(err, EINVAL, "a spec is a JSON object, or an empty line");
	return 0;
}

static int make_sandbox(struct request_file *rf, struct buf *name, struct err *err)
{
	const struct handle *h = rf->arg;
	struct spec spec = { 0 };
	struct sandbox *box;
	int r = spec_parse(&spec, rf->pending.data, rf->pending.len, err);

	if (r < 0)
		return r;
	r = *spec.id ? tree_check_name(h->tree, spec.id, err) : 0;
	if (r == 0)
		r = sandbox_create(h->tree->engine, &spec, h->uid, h->gid, &box, err);
	if (r == 0)
		(void)buf_add(name, box->id, strlen(box->id));
	spec_done(&spec);
	return r;
}

static const struct request_file_ops spec_request_file = {
	.check = spec_check,
	.keeps = keeps,
	.check_text = spec_check_text,
	.commit_json = make_sandbox,
	.commit_text = make_sandbox,
	.refused = record_refusal,
	.dying = writer_dying,
	.json_hint = "",
	.busy = "this handle has made its sandbox; open it anew, or for reading and writing",
};

/* All */

static int open_with(struct handle *h, const struct request_file_ops *ops, bool both,
		     struct err *err)
{
	h->request = malloc(sizeof(*h->request));
	if (!h->request)
		return err_set(err, ENOMEM, "open");
	request_file_init(h->request, ops, h, both);
	return 0;
}

static int new_open(struct handle *h, struct err *err)
{
	return open_with(h, &spec_request_file, handle_reads(h) && handle_writes(h), err);
}

static int exec_new_open(struct handle *h, struct err *err)
{
	return open_with(h, &exec_request_file, handle_reads(h) && handle_writes(h), err);
}

/* Reading it gives the command, not a name: for its requests each handle is write-only. */
static int cmd_open(struct handle *h, struct err *err)
{
	int r;

	if (!handle_writes(h))
		return 0;
	r = h->ref.exec->unwritten ? exec_check(h->ref.sandbox, err) : 0;
	if (r < 0) {
		exec_last_clear(h->ref.sandbox, h->uid);
		return r;
	}
	return open_with(h, &cmd_request_file, false, err);
}

static struct request_from from(const struct node_io *io)
{
	return (struct request_from){ .owner = io->owner, .unique = io->unique, .pid = io->pid };
}

static ssize_t new_read(struct node_io *io, struct err *err)
{
	struct request_from f = from(io);

	return request_file_read(io->handle->request, io->bytes, io->len, &f, err);
}

/* Before any of it is taken: so a request can be committed wherever it ends, also where nobody may wait. */
static ssize_t new_write(struct node_io *io, struct err *err)
{
	const struct handle *h = io->handle;
	const struct sandbox *box = h->ref.sandbox;
	struct request_from f = from(io);

	io->wait = engine_wait_room(h->tree->engine, box ? box->uid : h->uid);
	if (io->wait)
		return err_set(err, EAGAIN, "write: the state directory is slow");
	return request_file_write(io->handle->request, io->bytes, io->len, &f, err);
}

static int new_flush(struct node_io *io, struct err *err)
{
	struct request_from f = from(io);

	if (!io->handle->request)
		return 0;
	return request_file_flush(io->handle->request, &f, err);
}

static void new_release(struct handle *h)
{
	if (!h->request)
		return;
	if (!h->tree->closing)
		request_file_release(h->request, 0);
	request_file_done(h->request);
	free(h->request);
	h->request = NULL;
}

static uint32_t new_ready(struct handle *h, struct list **ret_wait)
{
	const struct sandbox *box = h->ref.sandbox;

	*ret_wait = engine_wait_room(h->tree->engine, box ? box->uid : h->uid);
	return (handle_reads(h) ? POLLIN | POLLRDNORM : 0) |
	       (handle_writes(h) && !*ret_wait ? POLLOUT | POLLWRNORM : 0);
}

const struct node_ops new_ops = {
	.open = new_open,
	.read = new_read,
	.write = new_write,
	.flush = new_flush,
	.release = new_release,
	.ready = new_ready,
};

const struct node_ops exec_new_ops = {
	.open = exec_new_open,
	.read = new_read,
	.write = new_write,
	.flush = new_flush,
	.release = new_release,
	.ready = new_ready,
};

const struct node_ops cmd_ops = {
	.open = cmd_open,
	.write = new_write,
	.flush = new_flush,
	.release = new_release,
};
