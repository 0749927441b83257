/* journal.c - sandboxes/N/journal: which commands a sandbox has had, for the next hutchd
 *
 * Lines of JSON, put behind each other through the writer (disk.h):
 *
 *	{"n":5,"name":"5","num":5,"by":0,"unique":1234,"at":"…","req":{…}}	accepted
 *	{"n":5,"name":"build","num":0,…,"set":{…}}	made by mkdir, and after each `set`
 *	{"n":5,"idx":"o6e3"}			in which order its output came so far
 *	{"n":5,"code":0,"res":{…},"idx":"o6e3o2"}				over
 *	{"n":5,"rm":true}							removed
 *	{"next":6,"num":6}			what a rewrite keeps of nodes that are gone
 *
 * A line that is cut short by a crash is the last one, and is ignored.  The file
 * is rewritten when it has grown to more than twice what was left the last time,
 * so a sandbox that runs commands for months stays small.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/text.h"
#include "sandbox/journal-internal.h"
#include "sandbox/request-internal.h"

void journal_name(const struct sandbox *sb, char out[JOURNAL_NAME_LEN])
{
	char dir[STORE_NAME_LEN];

	store_sandbox_name(dir, sb->serial);
	(void)snprintf(out, JOURNAL_NAME_LEN, "%s/journal", dir);
}

void journal_fresh_name(const struct sandbox *sb, char out[JOURNAL_FRESH_LEN])
{
	char name[JOURNAL_NAME_LEN];

	journal_name(sb, name);
	(void)snprintf(out, JOURNAL_FRESH_LEN, "%s.new", name);
}

/* --- printing --- */

static int print_head(const struct exec *ex, struct buf *out)
{
	char at[RFC3339_LEN + 1];

	rfc3339(at, &ex->created_at);
	return buf_printf(out,
			  "{\"n\":%u,\"name\":\"%s\",\"num\":%u,\"by\":%u,\"unique\":%" PRIu64
			  ",\"at\":\"%s\"",
			  ex->serial, ex->name, ex->number, ex->request.by, ex->request.unique, at);
}

/* What was set of a node that mkdir made. */
static int print_set(const struct exec *ex, const struct exec_request *set, struct buf *out)
{
	int r = print_head(ex, out);

	if (r == 0)
		r = buf_printf(out, ",\"set\":{\"cmd\":\"\"");
	if (r == 0)
		r = exec_request_print_keys(set, out);
	return r < 0 ? r : buf_printf(out, "}}\n");
}

static int print_commit(const struct exec *ex, struct buf *out)
{
	int r;

	if (!ex->request.argv && !ex->request.script)
		return print_set(ex, &ex->request, out);
	r = print_head(ex, out);
	if (r == 0)
		r = buf_printf(out, ",\"req\":");
	if (r == 0)
		r = exec_request_print(&ex->request, out);
	return r < 0 ? r : buf_printf(out, "}\n");
}

/* Nothing where there is no order to speak of, or where it is in a file of its own. */
static int print_arrival(const struct exec *ex, struct buf *out)
{
	int r;

	if (!ex->arrival.pieces.len || !arrival_is_short(ex))
		return 0;
	r = buf_printf(out, ",\"idx\":\"");
	if (r == 0)
		r = arrival_print(ex, out);
	return r < 0 ? r : buf_printf(out, "\"");
}

static int print_finish(const struct exec *ex, struct buf *out)
{
	int r = buf_printf(out, "{\"n\":%u,\"code\":%d,\"res\":", ex->serial, ex->result.code);

	if (r == 0)
		r = exec_result_print(ex, out);
	if (r == 0 && arrival_tells_end(ex))
		r = buf_printf(out, ",\"frames\":%" PRIu64, ex->arrival.frames_end);
	if (r == 0)
		r = print_arrival(ex, out);
	return r < 0 ? r : buf_printf(out, "}\n");
}

static int print_so_far(const struct exec *ex, struct buf *out)
{
	int r = buf_printf(out, "{\"n\":%u", ex->serial);

	if (r == 0)
		r = print_arrival(ex, out);
	return r < 0 ? r : buf_printf(out, "}\n");
}

int journal_print_next(const struct sandbox *sb, struct buf *out)
{
	return buf_printf(out, "{\"next\":%u,\"num\":%u}\n", sb->next_exec_serial,
			  sb->next_exec_number);
}

int journal_print_node(const struct exec *ex, struct buf *out)
{
	int r = ex->base ? print_set(ex, ex->base, out) : 0;

	if (r == 0)
		r = print_commit(ex, out);
	if (r == 0 && ex->state == EXEC_DONE)
		r = print_finish(ex, out);
	else if (r == 0 && ex->arrival.pieces.len && arrival_is_short(ex))
		r = print_so_far(ex, out);
	return r;
}

int journal_print_all(const struct sandbox *sb, struct buf *out)
{
	const struct exec *ex;
	int r = journal_print_next(sb, out);

	list_for_each (ex, &sb->execs, link)
		if (r == 0)
			r = journal_print_node(ex, out);
	return r;
}

/* --- appending --- */

/* Behind what is there. What is being rewritten gets it too. */
static int append(const struct exec *ex, const struct buf *line)
{
	const struct sandbox *sb = ex->sandbox;
	struct journal *j = sb->journal;
	char name[JOURNAL_NAME_LEN];
	const struct disk_op op = { .what = DISK_WRITE,
				    .flags = DISK_MUST,
				    .name = name,
				    .off = j->size,
				    .data = line->data,
				    .len = line->len,
				    .share = sb->uid };
	int r;

	journal_name(sb, name);
	r = disk_put(sb->engine->disk, &op, NULL);
	if (r < 0)
		return r;
	j->size += line->len;
	journal_rewrite_add(j, ex, line);
	return 0;
}

int journal_commit(const struct exec *ex, struct err *err)
{
	auto_buf struct buf line = { 0 };
	int r = disk_fault(ex->sandbox->engine->disk, err);

	if (r < 0)
		return r;
	r = print_commit(ex, &line);
	if (r == 0)
		r = append(ex, &line);
	if (r < 0)
		return err_set(err, -r, "write it into the state directory");
	journal_rewrite_when_long(ex->sandbox);
	return 0;
}

void journal_finish(struct exec *ex)
{
	auto_buf struct buf line = { 0 };

	if (ex->removed)
		return;
	arrival_keep_long(ex);
	/* A result that the disk does not take is still told to whoever waits now. */
	if (print_finish(ex, &line) == 0 && append(ex, &line) == 0 && arrival_is_short(ex))
		arrival_kept(ex);
	journal_rewrite_when_long(ex->sandbox);
}

int journal_arrival(const struct exec *ex)
{
	auto_buf struct buf line = { 0 };
	int r = print_so_far(ex, &line);

	if (r == 0)
		r = append(ex, &line);
	journal_rewrite_when_long(ex->sandbox);
	return r;
}

void journal_remove(const struct exec *ex)
{
	auto_buf struct buf line = { 0 };

	if (buf_printf(&line, "{\"n\":%u,\"rm\":true}\n", ex->serial) == 0)
		(void)append(ex, &line);
}
