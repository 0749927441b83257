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
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "sandbox/request-internal.h"
#include "sandbox/sandbox-internal.h"

#define LINE_MAX_BYTES   (16 * 1024 * 1024)
#define REWRITE_ABOVE    (4 * 1024 * 1024)
#define JOURNAL_NAME_LEN (STORE_NAME_LEN + 16)
#define FRESH_PIECE      ((size_t)256 * 1024)

static void journal_name(const struct sandbox *sb, char out[JOURNAL_NAME_LEN])
{
	char dir[STORE_NAME_LEN];

	store_sandbox_name(dir, sb->serial);
	(void)snprintf(out, JOURNAL_NAME_LEN, "%s/journal", dir);
}

/* --- writing --- */

/* A rewritten one on its way; what is appended meanwhile is appended here as well. */
struct journal_fresh {
	struct sandbox *sandbox; /* borrowed: it is the sandbox's */
	struct buf text;
	size_t sent;
	struct watch room;
};

static void drop_fresh(struct journal *j)
{
	struct journal_fresh *f = j->fresh;

	if (!f)
		return;
	watch_cancel(&f->room);
	buf_done(&f->text);
	free(f);
	j->fresh = NULL;
}

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

/* Behind what is there. What is being rewritten gets it too. */
static int append(const struct sandbox *sb, const struct buf *line)
{
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
	if (j->fresh && buf_add(&j->fresh->text, line->data, line->len) < 0)
		drop_fresh(j); /* the old one goes on */
	return 0;
}

static int print_all(const struct sandbox *sb, struct buf *out)
{
	const struct exec *ex;
	int r = buf_printf(out, "{\"next\":%u,\"num\":%u}\n", sb->next_exec_serial,
			   sb->next_exec_number);

	list_for_each (ex, &sb->execs, link) {
		if (r == 0 && ex->base)
			r = print_set(ex, ex->base, out);
		if (r == 0)
			r = print_commit(ex, out);
		if (r == 0 && ex->state == EXEC_DONE)
			r = print_finish(ex, out);
		else if (r == 0 && ex->arrival.pieces.len && arrival_is_short(ex))
			r = print_so_far(ex, out);
	}
	return r;
}

/* As far as there is room; then the new one takes the old one's place. */
static void rewrite_on(struct journal_fresh *f)
{
	struct sandbox *sb = f->sandbox;
	struct disk *disk = sb->engine->disk;
	char name[JOURNAL_NAME_LEN], fresh[JOURNAL_NAME_LEN + 4];
	const struct disk_op swap = {
		.what = DISK_RENAME, .flags = DISK_MUST, .name = fresh, .to = name
	};

	journal_name(sb, name);
	(void)snprintf(fresh, sizeof(fresh), "%s.new", name);
	while (f->sent < f->text.len) {
		size_t left = f->text.len - f->sent;
		const struct disk_op op = { .what = DISK_WRITE,
					    .flags = f->sent ? 0 : DISK_TRUNCATE,
					    .name = fresh,
					    .off = f->sent,
					    .data = f->text.data + f->sent,
					    .len = left < FRESH_PIECE ? left : FRESH_PIECE,
					    .share = sb->uid };

		if (disk_put(disk, &op, NULL) < 0) {
			watch_add(disk_room(disk), &f->room);
			return;
		}
		f->sent += op.len;
	}
	if (disk_put(disk, &swap, NULL) == 0)
		sb->journal->size = sb->journal->rewritten = f->text.len;
	drop_fresh(sb->journal);
}

static void on_room(struct watch *w)
{
	rewrite_on(container_of(w, struct journal_fresh, room));
}

/* Failing leaves the old one in use, which is only long. */
static void rewrite(struct sandbox *sb)
{
	struct journal *j = sb->journal;
	struct journal_fresh *f = calloc(1, sizeof(*f));
	struct exec *ex;

	list_for_each (ex, &sb->execs, link) /* a line of the old one may be all there is of it */
		arrival_keep_long(ex);
	j->rewritten = j->size; /* not at once again, whatever happens */
	if (!f)
		return;
	f->sandbox = sb;
	watch_init(&f->room, on_room);
	j->fresh = f;
	if (print_all(sb, &f->text) < 0)
		drop_fresh(j);
	else
		rewrite_on(f);
}

static void rewrite_when_long(struct sandbox *sb)
{
	if (!sb->journal->fresh && sb->journal->size > sb->journal->rewritten * 2 + REWRITE_ABOVE)
		rewrite(sb);
}

int journal_commit(const struct exec *ex, struct err *err)
{
	auto_buf struct buf line = { 0 };
	int r = disk_fault(ex->sandbox->engine->disk, err);

	if (r < 0)
		return r;
	r = print_commit(ex, &line);
	if (r == 0)
		r = append(ex->sandbox, &line);
	if (r < 0)
		return err_set(err, -r, "write it into the state directory");
	rewrite_when_long(ex->sandbox);
	return 0;
}

void journal_finish(struct exec *ex)
{
	auto_buf struct buf line = { 0 };

	if (ex->removed)
		return;
	arrival_keep_long(ex);
	/* A result that the disk does not take is still told to whoever waits now. */
	if (print_finish(ex, &line) == 0 && append(ex->sandbox, &line) == 0 && arrival_is_short(ex))
		arrival_kept(ex);
	rewrite_when_long(ex->sandbox);
}

int journal_arrival(const struct exec *ex)
{
	auto_buf struct buf line = { 0 };
	int r = print_so_far(ex, &line);

	if (r == 0)
		r = append(ex->sandbox, &line);
	rewrite_when_long(ex->sandbox);
	return r;
}

void journal_remove(const struct exec *ex)
{
	auto_buf struct buf line = { 0 };

	if (buf_printf(&line, "{\"n\":%u,\"rm\":true}\n", ex->serial) == 0)
		(void)append(ex->sandbox, &line);
}

/* --- reading --- */

struct loader {
	struct sandbox *sandbox;
	struct err *err;
	bool stale; /* something in it is gone or was not over */
};

/* Serials, and the numbers of nodes that count, which are no higher. */
static uint32_t number(const cJSON *doc, const char *key)
{
	return (uint32_t)json_int(doc, key, 0, (INT64_C(1) << EXEC_SERIAL_BITS) - 1, 0);
}

/* What was written, or what was set so far. Never fails but for memory: a request of another version
 * leaves a node that says so. */
static int load_request(struct exec_record *rec, const cJSON *doc)
{
	const cJSON *set = cJSON_GetObjectItemCaseSensitive(doc, "set");
	const cJSON *req = set ? set : cJSON_GetObjectItemCaseSensitive(doc, "req");
	int r = exec_request_take(&rec->request, NULL, req, NULL);

	if (r < 0)
		r = exec_request_broken(&rec->request, "", 0, "its request cannot be read back");
	rec->unwritten = set != NULL;
	if (r == 0 && set)
		free(TAKE_PTR(rec->request.script));
	return r;
}

/* The node was there, without a command. */
static void load_written(struct exec *ex, struct exec_record *rec)
{
	if (rec->unwritten || exec_base_keep(ex) < 0)
		exec_request_done(&ex->request);
	ex->request = rec->request;
	rec->request = (struct exec_request){ 0 };
	if (rec->unwritten) {
		quota_recount(ex);
		return;
	}
	exec_base_settle(ex);
	ex->result = rec->result;
	exec_restore_written(ex);
}

static int load_commit(struct loader *l, const cJSON *doc, uint32_t serial)
{
	const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "name"));
	const char *at = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "at"));
	struct exec_record rec = { .serial = serial, .number = number(doc, "num") };
	struct sandbox *sb = l->sandbox;
	struct exec *ex = exec_find_serial(sb, serial);
	int r;

	if (!name || name_fault(name) || (ex ? !ex->unwritten : exec_find(sb, name) != NULL))
		return 0;
	r = load_request(&rec, doc);
	if (r < 0)
		return r;
	rec.request.by = json_uint32(doc, "by");
	rec.request.unique = (uint64_t)json_int(doc, "unique", 0, JSON_INT_MAX, 0);
	(void)snprintf(rec.name, sizeof(rec.name), "%s", name);
	if (at)
		(void)rfc3339_parse(at, &rec.created_at);
	rec.result = (struct exec_result){
		.reason = EXEC_LOST, .exit_code = -1, .code = 125, .started_at = rec.created_at
	};
	if (ex)
		load_written(ex, &rec);
	else
		r = exec_restore(sb, &rec, l->err);
	exec_request_done(&rec.request);
	if (serial >= sb->next_exec_serial)
		sb->next_exec_serial = serial + 1;
	if (rec.number >= sb->next_exec_number)
		sb->next_exec_number = rec.number + 1;
	return r;
}

static int load_line(struct loader *l, const char *line, size_t len)
{
	AUTO(cJSON_Delete) cJSON *doc = json_parse(line, len, LINE_MAX_BYTES, NULL);
	uint32_t serial = number(doc, "n");
	struct sandbox *sb = l->sandbox;
	const cJSON *res, *idx;
	struct exec *ex;

	if (!doc)
		return 0;
	if (!serial) {
		if (number(doc, "next") > sb->next_exec_serial)
			sb->next_exec_serial = number(doc, "next");
		if (number(doc, "num") > sb->next_exec_number)
			sb->next_exec_number = number(doc, "num");
		return 0;
	}
	if (cJSON_HasObjectItem(doc, "name"))
		return load_commit(l, doc, serial);
	ex = exec_find_serial(sb, serial);
	res = cJSON_GetObjectItemCaseSensitive(doc, "res");
	idx = cJSON_GetObjectItemCaseSensitive(doc, "idx");
	if (ex && cJSON_IsString(idx))
		arrival_parse(ex, idx->valuestring);
	if (ex && res) {
		exec_result_done(&ex->result);
		if (exec_result_parse(&ex->result, res, NULL) < 0)
			ex->result.reason = EXEC_LOST;
		ex->result.code = (int)json_int(doc, "code", 0, 255, 125);
	} else if (ex && !idx) {
		l->stale = true;
		exec_drop(ex);
	}
	return 0;
}

/* It has no result: it was running when hutchd ended. */
static void finish_lost(struct loader *l, struct exec *ex)
{
	struct exec_result *res = &ex->result;

	l->stale = true;
	res->error = strdup("hutchd ended while it ran");
	(void)clock_gettime(CLOCK_REALTIME, &res->finished_at);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		res->stream_bytes[i] = ex->stream[i].size;
}

/* What there is of its output, of each. */
static void finish_all(struct loader *l)
{
	struct exec *ex;

	list_for_each (ex, &l->sandbox->execs, link) {
		if (ex->unwritten)
			continue;
		exec_restore_streams(ex);
		if (ex->result.reason == EXEC_LOST && !ex->result.error)
			finish_lost(l, ex);
		arrival_restore(ex);
	}
}

/* Behind its last whole line. */
static int cut(const struct sandbox *sb, struct err *err)
{
	char name[JOURNAL_NAME_LEN];
	auto_close int fd = -1;

	journal_name(sb, name);
	fd = openat(sb->engine->store.fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || ftruncate(fd, (off_t)sb->journal->size) < 0)
		return err_set(err, errno, "cut its journal");
	return 0;
}

/* At start, before anybody is served: directly. */
static int replace(struct sandbox *sb, struct err *err)
{
	auto_buf struct buf text = { 0 };
	char name[JOURNAL_NAME_LEN];
	int r = print_all(sb, &text);

	if (r < 0)
		return err_set(err, -r, "rewrite its journal");
	journal_name(sb, name);
	/* Failing leaves the old one in use, which is only long, and what it says is as true. */
	if (file_replace(sb->engine->store.fd, name, 0600, text.data, text.len, NULL) == 0)
		sb->journal->size = sb->journal->rewritten = text.len;
	else
		return cut(sb, err);
	return 0;
}

static int load(struct sandbox *sb, const struct buf *text, struct err *err)
{
	struct loader l = { .sandbox = sb, .err = err };
	const char *line = text->data, *end = text->data + text->len, *nl;
	int r = 0;

	while (r == 0 && line < end && (nl = memchr(line, '\n', (size_t)(end - line)))) {
		r = load_line(&l, line, (size_t)(nl - line));
		line = nl + 1;
	}
	if (r < 0)
		return r;
	finish_all(&l);
	sb->journal->size = sb->journal->rewritten = (uint64_t)(line - text->data);
	if (l.stale)
		return replace(sb, err);
	/* What a crash has cut short is gone over by the next line, or must be. */
	return line < end ? cut(sb, err) : 0;
}

int journal_open(struct sandbox *sb, struct err *err)
{
	auto_buf struct buf text = { 0 };
	char name[JOURNAL_NAME_LEN];
	int r;

	journal_name(sb, name);
	r = file_read(sb->engine->store.fd, name, &text, err);
	return r == 0 && text.len ? load(sb, &text, err) : r;
}

void journal_close(struct sandbox *sb)
{
	drop_fresh(sb->journal);
}
