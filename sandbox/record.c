/* record.c - sandboxes/N/record.json: what a sandbox is, for the next hutchd
 *
 * Written when it is made and when something of it changes; replaced as a whole.
 * It holds the spec, and with it whatever secrets a user put into env: 0600.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "sandbox/request-internal.h"
#include "sandbox/sandbox-internal.h"

#define RECORD_MAX      (8 * 1024 * 1024) /* escapes make a spec of REQUEST_MAX longer */
#define RECORD_NAME_LEN (STORE_NAME_LEN + 16)

static void record_name(const struct sandbox *sb, char out[RECORD_NAME_LEN])
{
	char dir[STORE_NAME_LEN];

	store_sandbox_name(dir, sb->serial);
	(void)snprintf(out, RECORD_NAME_LEN, "%s/record.json", dir);
}

/* Why it is quarantined: of another state the next hutchd has to find out by itself. */
static int print_why(const struct sandbox *sb, struct buf *out)
{
	int r;

	if (sb->state != SANDBOX_QUARANTINED)
		return 0;
	r = buf_printf(out, "\"why\":");
	if (r == 0)
		r = json_put_string(out, sb->why.msg, strlen(sb->why.msg));
	return r < 0 ? r : buf_printf(out, ",");
}

static int print(const struct sandbox *sb, struct buf *out)
{
	char created[RFC3339_LEN + 1];
	int r;

	rfc3339(created, &sb->created);
	r = buf_printf(
		out,
		"{\"id\":\"%s\",\"uid\":%u,\"gid\":%u,\"mode\":%u,\"created\":\"%s\","
		"\"keep\":%u,\"held\":%s,\"quarantined\":%s,\"ids\":{\"base\":%u,\"count\":%u},",
		sb->id, sb->uid, sb->gid, sb->mode, created, sb->keep, sb->held ? "true" : "false",
		sb->state == SANDBOX_QUARANTINED ? "true" : "false", sb->ids->base, sb->ids->count);
	if (r == 0)
		r = print_why(sb, out);
	if (r == 0)
		r = buf_printf(out, "\"spec\":");
	if (r == 0)
		r = spec_print(&sb->spec, out);
	return r < 0 ? r : buf_printf(out, "}\n");
}

int record_write(const struct sandbox *sb, struct err *err)
{
	auto_buf struct buf text = { 0 };
	char name[RECORD_NAME_LEN];
	struct disk_op op = { .what = DISK_REPLACE,
			      .flags = DISK_MUST,
			      .name = name,
			      .mode = 0600,
			      .share = sb->uid };
	int r;

	if (sb->removed) /* by somebody who still has a file of it open */
		return err_say(err, ESRCH, "'%s' has been removed", sb->id);
	if (print(sb, &text) < 0)
		return err_set(err, ENOMEM, "write its record");
	r = disk_fault(sb->engine->disk, err);
	if (r < 0)
		return r;
	record_name(sb, name);
	op.data = text.data;
	op.len = text.len;
	return disk_put(sb->engine->disk, &op, err);
}

void record_remove(const struct sandbox *sb)
{
	char name[RECORD_NAME_LEN];
	const struct disk_op op = { .what = DISK_UNLINK, .flags = DISK_MUST, .name = name };

	record_name(sb, name);
	(void)disk_put(sb->engine->disk, &op, NULL);
}

static int fill(struct sandbox *sb, const cJSON *doc, struct err *err)
{
	const cJSON *ids = cJSON_GetObjectItemCaseSensitive(doc, "ids");
	const char *created =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "created"));
	const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "id"));
	int r;

	if (!id || name_fault(id))
		return err_say(err, EINVAL, "it has no id");
	r = spec_take(&sb->spec, cJSON_GetObjectItemCaseSensitive(doc, "spec"), err);
	if (r < 0)
		return r;
	(void)snprintf(sb->id, sizeof(sb->id), "%s", id);
	sb->uid = json_uint32(doc, "uid");
	sb->gid = json_uint32(doc, "gid");
	sb->mode = json_uint32(doc, "mode") & 0777;
	sb->keep = (unsigned)json_int(doc, "keep", 0, EXEC_KEEP_MAX, EXEC_KEEP);
	sb->held = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(doc, "held"));
	if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(doc, "quarantined"))) {
		const cJSON *why = cJSON_GetObjectItemCaseSensitive(doc, "why");

		sb->state = SANDBOX_QUARANTINED;
		err_say(&sb->why, EPROTO, "%s",
			cJSON_IsString(why) ? why->valuestring : "its agent broke the protocol");
	}
	sb->ids->base = json_uint32(ids, "base");
	sb->ids->count = json_uint32(ids, "count");
	if (created)
		(void)rfc3339_parse(created, &sb->created);
	sb->changed_at = sb->execs_changed_at = sb->created;
	return 0;
}

int record_read(struct sandbox *sb, int state_fd, struct err *err)
{
	auto_buf struct buf text = { .max = RECORD_MAX };
	AUTO(cJSON_Delete) cJSON *doc = NULL;
	struct err why = { 0 };
	char name[RECORD_NAME_LEN];
	int r;

	record_name(sb, name);
	r = file_read(state_fd, name, &text, &why);
	if (r == 0) {
		doc = json_parse(text.data ? text.data : "", text.len, RECORD_MAX, &why);
		r = doc ? fill(sb, doc, &why) : -why.code;
	}
	return r < 0 ? err_say(err, -r, "its record: %s", why.msg) : 0;
}
