/* journal_load.c - the nodes of a sandbox, read back from its journal
 *
 * Before the tree is served: it waits for the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "sandbox/journal-internal.h"
#include "sandbox/request-internal.h"

#define LINE_MAX_BYTES (16 * 1024 * 1024)

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
		ex->arrival.frames_told = cJSON_HasObjectItem(doc, "frames");
		ex->arrival.frames_end = (uint64_t)json_int(doc, "frames", 0, JSON_INT_MAX, 0);
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
	int r = journal_print_all(sb, &text);

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

/* One that a crash has left half rewritten would lie there until the next time. */
static void remove_fresh(const struct sandbox *sb)
{
	char fresh[JOURNAL_FRESH_LEN];

	journal_fresh_name(sb, fresh);
	(void)unlinkat(sb->engine->store.fd, fresh, 0);
}

int journal_open(struct sandbox *sb, struct err *err)
{
	auto_buf struct buf text = { 0 };
	char name[JOURNAL_NAME_LEN];
	int r;

	journal_name(sb, name);
	r = file_read(sb->engine->store.fd, name, &text, err);
	if (text.len > JOURNAL_REWRITE_ABOVE)
		remove_fresh(sb);
	return r == 0 && text.len ? load(sb, &text, err) : r;
}
