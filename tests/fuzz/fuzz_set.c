/* fuzz_set.c - `set KEY VALUE`: what is written to the ctl of a command without any quoting
 *
 * Each line is one: KEY, a blank, VALUE. Besides not crashing: what was refused has a sentence and
 * has changed nothing; what was taken prints as an object that is taken again and prints the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "sandbox/request.h"

#define LINES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* What was set, with a command beside it, is a request as any other. */
static void check_printed(const struct buf *printed)
{
	auto_buf struct buf whole = { 0 }, again = { 0 };
	struct exec_request req = { 0 };
	struct err err = { 0 };

	if (!printed->len || printed->data[0] != '{')
		return;
	require(buf_add(&whole, "{\"cmd\":\"true\",", 14) == 0);
	require(buf_add(&whole, printed->data + 1, printed->len - 1) == 0);
	if (exec_request_parse(&req, NULL, whole.data, whole.len, &err) < 0) {
		require(whole.len > REQUEST_MAX); /* escapes have made it longer */
		return;
	}
	require(exec_request_print(&req, &again) == 0);
	exec_request_done(&req);
	require(same(&whole, &again));
}

static void set_line(struct exec_request *req, const char *line, size_t len)
{
	auto_free char *text = strndup(line, len);
	auto_buf struct buf before = { 0 }, after = { 0 };
	size_t key = text ? strcspn(text, " \t") : 0;
	struct err err = { 0 };
	int r;

	if (!text || !text[key])
		return;
	text[key] = '\0';
	require(exec_request_print(req, &before) == 0);
	r = exec_request_set(req, text, text + key + 1, &err);
	require(r == 0 ? !err.code : err.code == -r && *err.msg);
	require(exec_request_print(req, &after) == 0);
	if (r < 0)
		require(same(&before, &after));
	else
		check_printed(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct exec_request req = { 0 };

	for (int i = 0; i < LINES_MAX && at < end; i++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = newline ? (size_t)(newline - at) : (size_t)(end - at);

		set_line(&req, at, len);
		at += len + 1;
	}
	exec_request_done(&req);
	return 0;
}
