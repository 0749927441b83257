/* fuzz_json.c - what comes from strangers as JSON
 *
 * Besides not crashing: the scanner and the parser agree on where an object
 * ends, and what is printed as a string parses to the same string.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static int take_any(void *obj, const cJSON *value, struct err *err)
{
	const char *text;
	double number;
	bool flag;

	(void)obj;
	if (json_get_string(value, &text, err) == 0)
		require(utf8_valid(text, strlen(text)));
	else if (json_get_number(value, &number, err) < 0)
		return json_get_bool(value, &flag, err);
	return 0;
}

static void check_document(const char *bytes, size_t size)
{
	static const struct json_key keys[] = { { "a", take_any, "" }, { "cmd", take_any, "" } };
	struct err err = { 0 };
	AUTO(cJSON_Delete) cJSON *doc = json_parse(bytes, size, 1 << 20, &err);
	struct json_scan scan = { 0 };
	size_t used = json_scan_feed(&scan, bytes, size);

	require(used <= size);
	if (!doc) {
		require(err.code != 0 && utf8_valid(err.msg, strlen(err.msg)));
		return;
	}
	if (cJSON_IsObject(doc) || cJSON_IsArray(doc))
		require(scan.state == JSON_SCAN_DONE);
	(void)json_take_keys(doc, "request", keys, ARRAY_SIZE(keys), NULL, &err);
	require(utf8_valid(err.msg, strlen(err.msg)));
}

static void check_strings(const char *bytes, size_t size)
{
	AUTO(cJSON_Delete) cJSON *back = NULL;
	auto_buf struct buf json = { 0 }, line = { 0 };

	require(json_put_string(&json, bytes, size) == 0);
	require(text_escape(&line, bytes, size) == 0);
	require(!line.data || utf8_valid(line.data, line.len));
	require(!line.data || !memchr(line.data, '\n', line.len));
	if (memchr(bytes, '\0', size))
		return;
	back = json_parse(json.data, json.len, json.len, NULL);
	require(back && cJSON_IsString(back));
	if (utf8_valid(bytes, size))
		require(strlen(back->valuestring) == size &&
			memcmp(back->valuestring, bytes, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of its own size, so that AddressSanitizer sees one byte too far. */
	char *bytes = malloc(size > 0 ? size : 1);

	if (!bytes)
		return 0;
	if (size > 0)
		memcpy(bytes, data, size);
	check_document(bytes, size);
	check_strings(bytes, size);
	free(bytes);
	return 0;
}
