/* test_json.c - every refusal and its sentence, the scanner, keys, strings */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "tests/unit/guard.h"
#include "tests/unit/tap.h"

#define TEN(x)  x x x x x x x x x x
#define DEEP_32 TEN("[") TEN("[") TEN("[") "[["
#define SHUT_32 TEN("]") TEN("]") TEN("]") "]]"
#define ROW(bytes, want)                       \
	{                                      \
		bytes, sizeof(bytes) - 1, want \
	}

static const struct {
	const char *bytes;
	size_t len;
	const char *want; /* NULL: it is a document */
} parse_row[] = {
	ROW("{}", NULL),
	ROW(" [1, 2.5e3, \"x\", true, false, null] \r\n\t", NULL),
	ROW("7", NULL),
	ROW("\"\"", NULL),
	ROW("{\"a\":{\"a\":1},\"A\":2}", NULL),
	ROW("\"\\u00e4 \\ud83d\\ude00 \\\\u0000 \\\"{[\"", NULL),
	ROW("\"two\nlines\"", NULL),
	ROW(DEEP_32 SHUT_32, NULL),
	ROW("\"" TEN("{[") TEN("{[") "\"", NULL),

	ROW("", "is not JSON at byte 1"),
	ROW("  ", "is not JSON at byte 2"),
	ROW("{\"a\":1,}", "is not JSON at byte 8"),
	ROW("{'a':1}", "is not JSON at byte 3"), /* cJSON's notion of where; near enough */
	ROW("{\n\"a\": 1,\n\"b\": nul\n}", "is not JSON at byte 16, line 3"),
	ROW("nul", "is not JSON at byte 1"),
	ROW("[1 2]", "is not JSON at byte 4"),
	ROW("\"\\x\"", "is not JSON at byte 2"),
	ROW("\"\\ud800\"", "is not JSON at byte 2"),
	ROW("\"\\u12\"", "is not JSON at byte 2"),
	ROW("{\"a\"", "is not JSON: it ends before '{' is closed"),
	ROW("{\"a\":[1,", "is not JSON: it ends before '[' is closed"),
	ROW("{\"a", "is not JSON: it ends inside a string"),
	ROW("\"\\", "is not JSON: it ends inside a string"),
	ROW("[}", "is not JSON: bracket does not match at byte 2"),
	ROW("]", "is not JSON: bracket does not match at byte 1"),
	ROW("{}{}", "is not JSON: it goes on after its end at byte 3"),
	ROW("{} x", "is not JSON: it goes on after its end at byte 4"),
	ROW("1 2", "is not JSON: it goes on after its end at byte 3"),
	ROW("\x01{}", "is not JSON: control character at byte 1"),
	ROW("{}\x0b", "is not JSON: control character at byte 3"),
	ROW("{}\0", "holds a NUL at byte 3"),
	ROW("\"a\0b\"", "holds a NUL at byte 3"),
	ROW("\"a\\u0000\"", "holds an escaped NUL (\\u0000) at byte 4"),
	ROW("\"\\\\\\u0000\"", "holds an escaped NUL (\\u0000) at byte 5"),
	ROW("{\"k\\u0000\":1}", "holds an escaped NUL (\\u0000) at byte 5"),
	ROW("\xef\xbb\xbf{}", "is not JSON: it begins with a byte order mark"),
	ROW("\"\xff\"", "is not UTF-8 at byte 2"),
	ROW("\"\xe2\x82\"", "is not UTF-8 at byte 2"),
	ROW("\"\xed\xa0\x80\"", "is not UTF-8 at byte 2"),
	ROW("[\xc3\xa4]", "is not JSON at byte 2"),
	ROW(DEEP_32 "[" SHUT_32 "]", "is nested too deep at byte 33"),
	ROW(DEEP_32 "{", "is nested too deep at byte 33"),
	ROW("{\"a\":1,\"b\":2,\"a\":3}", "has the key 'a' twice"),
	ROW("[{\"x\":[{\"b\":1,\"b\":2}]}]", "has the key 'b' twice"),
	ROW("{\"\\u0061\":1,\"a\":2}", "has the key 'a' twice"),
	ROW("{\"\":1,\"\":2}", "has the key '' twice"),
	ROW("{\"\\n\":1,\"\\n\":2}", "has the key '\\n' twice"),
	ROW("{\"" TEN("1234567") "\":1,\"" TEN("1234567") "\":2}",
	    "has the key '1234567123456712345671234567123456712345671234567123456712345671...'"
	    " twice"),
};

static void test_parse(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(parse_row); i++) {
		struct guard g = guard_new(parse_row[i].bytes, parse_row[i].len);
		struct err err = { 0 };
		AUTO(cJSON_Delete) cJSON *doc = json_parse(g.bytes, parse_row[i].len, 1000, &err);

		is_int(!doc, !!parse_row[i].want, "row %zu is %s", i,
		       parse_row[i].want ? "refused" : "taken");
		is_str(err.msg, parse_row[i].want ? parse_row[i].want : "", "in words");
		is_int(err.code, parse_row[i].want ? EINVAL : 0, "and number");
		guard_free(&g);
	}
}

static void test_limits(void)
{
	const size_t keys = 100000;
	struct err err = { 0 };
	auto_buf struct buf b = { 0 };
	AUTO(cJSON_Delete) cJSON *doc = json_parse("[1]", 3, 3, &err), *many = NULL;

	ok(doc, "as long as it may be");
	ok(!json_parse("[1] ", 4, 3, &err), "a byte longer");
	is_str(err.msg, "is longer than 3 bytes", "is refused in words");
	is_int(err.code, E2BIG, "with a number of its own");
	ok(!json_parse("[", 1, 3, NULL), "a refusal without an err");

	(void)buf_add(&b, "{", 1);
	for (size_t i = 0; i < keys; i++)
		(void)buf_printf(&b, "\"%zx\":0,", i);
	(void)buf_printf(&b, "\"%zx\":0}", keys);
	many = json_parse(b.data, b.len, b.len, &err);
	ok(many, "100 000 keys (a quadratic check for twins would be noticed here)");
}

/* Every way to cut a document in two gives the same answer. */
static void scan_row(size_t row, const char *bytes, enum json_scan_state want, size_t want_used)
{
	size_t len = strlen(bytes);
	bool right = true;

	for (size_t cut = 0; cut <= len; cut++) {
		struct guard a = guard_new(bytes, cut), b = guard_new(bytes + cut, len - cut);
		struct json_scan scan = { 0 };
		size_t used = json_scan_feed(&scan, a.bytes, cut);

		used += json_scan_feed(&scan, b.bytes, len - cut);
		right &= scan.state == want && used == want_used;
		guard_free(&a);
		guard_free(&b);
	}
	ok(right, "scan row %zu", row);
}

static void test_scan(void)
{
	static const struct {
		const char *bytes;
		enum json_scan_state want;
		size_t used;
	} row[] = {
		{ "", JSON_SCAN_MORE, 0 },
		{ " \n", JSON_SCAN_MORE, 2 },
		{ "{}", JSON_SCAN_DONE, 2 },
		{ " [] x", JSON_SCAN_DONE, 3 },
		{ "{\"a}\\\"}\": [1, {}]}\n", JSON_SCAN_DONE, 18 },
		{ "[\"\\\\\"]", JSON_SCAN_DONE, 6 },
		{ "[\"\\\"]", JSON_SCAN_MORE, 5 },
		{ "{]", JSON_SCAN_BAD, 2 },
		{ "[[}]", JSON_SCAN_BAD, 3 },
		{ "x[]", JSON_SCAN_BAD, 1 },
		{ "\"[\"", JSON_SCAN_BAD, 1 },
		{ "}", JSON_SCAN_BAD, 1 },
		{ DEEP_32 SHUT_32, JSON_SCAN_DONE, 64 },
		{ DEEP_32 "[", JSON_SCAN_BAD, 33 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		scan_row(i, row[i].bytes, row[i].want, row[i].used);
}

struct taken {
	const char *cmd;
	double timeout;
	bool keep;
};

static int take_cmd(void *obj, const cJSON *value, struct err *err)
{
	return json_get_string(value, &((struct taken *)obj)->cmd, err);
}

static int take_timeout(void *obj, const cJSON *value, struct err *err)
{
	return json_get_number(value, &((struct taken *)obj)->timeout, err);
}

static int take_keep(void *obj, const cJSON *value, struct err *err)
{
	return json_get_bool(value, &((struct taken *)obj)->keep, err);
}

static void test_keys(void)
{
	static const struct json_key keys[] = {
		{ "cmd", take_cmd, "what to run" },
		{ "timeout_s", take_timeout, "seconds" },
		{ "keep", take_keep, "keep it" },
	};
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "{}", "" },
		{ "{\"cmd\":\"x\",\"timeout_s\":0.5,\"keep\":true}", "" },
		{ "{\"cmd\":[]}", "request: cmd: must be a string" },
		{ "{\"cmd\":null}", "request: cmd: must be a string" },
		{ "{\"timeout_s\":\"1\"}", "request: timeout_s: must be a number" },
		{ "{\"timeout_s\":1e999}", "request: timeout_s: must be a number" },
		{ "{\"keep\":1}", "request: keep: must be true or false" },
		{ "{\"foo\":1}", "request: unknown key 'foo'; known: cmd, timeout_s, keep" },
		{ "{\"CMD\":1}", "request: unknown key 'CMD'; known: cmd, timeout_s, keep" },
		{ "{\"a\\u001b[2J\":1}",
		  "request: unknown key 'a\\x1b[2J'; known: cmd, timeout_s, keep" },
		{ "[]", "request: must be an object" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct taken t = { 0 };
		struct err err = { 0 };
		AUTO(cJSON_Delete)
		cJSON *doc = json_parse(row[i].text, strlen(row[i].text), 1000, NULL);
		int r = json_take_keys(doc, "request", keys, ARRAY_SIZE(keys), &t, &err);

		is_int(r, row[i].want[0] ? -EINVAL : 0, "%s", row[i].text);
		is_str(err.msg, row[i].want, "in words");
		if (i == 1) {
			is_str(t.cmd, "x", "the string");
			ok(t.timeout > 0.49 && t.timeout < 0.51 && t.keep, "the others");
		}
	}
}

static void test_utf8(void)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool want;
	} row[] = {
		ROW("", true),
		ROW("a\0b", true),
		ROW("\x7f", true),
		ROW("\x80", false),
		ROW("\xbf", false),
		ROW("\xc1\xbf", false),
		ROW("\xc2\x80", true),
		ROW("\xc2", false),
		ROW("\xc2\x7f", false),
		ROW("\xc2\xc0", false),
		ROW("\xe0\x9f\xbf", false),
		ROW("\xe0\xa0\x80", true),
		ROW("\xed\x9f\xbf", true),
		ROW("\xed\xa0\x80", false),
		ROW("\xed\xbf\xbf", false),
		ROW("\xee\x80\x80", true),
		ROW("\xef\xbf\xbf", true),
		ROW("\xef\xbf", false),
		ROW("\xf0\x8f\xbf\xbf", false),
		ROW("\xf0\x90\x80\x80", true),
		ROW("\xf4\x8f\xbf\xbf", true),
		ROW("\xf4\x90\x80\x80", false),
		ROW("\xf5\x80\x80\x80", false),
		ROW("\xf8\x88\x80\x80\x80", false),
		ROW("\xf0\x90\x80", false),
		ROW("\xff", false),
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct guard g = guard_new(row[i].bytes, row[i].len);

		is_int(utf8_valid(g.bytes, row[i].len), row[i].want, "UTF-8 row %zu", i);
		guard_free(&g);
	}
}

static void test_put(void)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *want;
	} row[] = {
		ROW("", "\"\""),
		ROW("a\"b\\c/d", "\"a\\\"b\\\\c/d\""),
		ROW("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""),
		ROW("\0\x01\x1f\x7f", "\"\\u0000\\u0001\\u001f\\u007f\""),
		ROW("\xc3\xa4\xf0\x9f\x98\x80", "\"\xc3\xa4\xf0\x9f\x98\x80\""),
		ROW("\xe2\x80\xa8\xc2\x85", "\"\\u2028\\u0085\""),
		ROW("a\xff\xe2\x82z", "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\""),
		ROW("\xc3", "\"\xef\xbf\xbd\""),
	};
	struct buf small = { .max = 5 };

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct guard g = guard_new(row[i].bytes, row[i].len);
		auto_buf struct buf b = { 0 };

		is_int(json_put_string(&b, g.bytes, row[i].len), 0, "put");
		is_str(b.data, row[i].want, "string row %zu", i);
		guard_free(&g);
	}
	(void)buf_add(&small, "x", 1);
	is_int(json_put_string(&small, "abc", 3), -E2BIG, "over the ceiling");
	is_str(small.data, "x", "nothing is appended");
	is_int(json_put_string(&small, "ab", 2), 0, "up to it");
	is_str(small.data, "x\"ab\"", "it is");
	buf_done(&small);
}

static void test_size(void)
{
	static const struct {
		const char *json;
		int r;
		uint64_t want;
	} row[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "1e3", 0, 1000 },
		{ "\"12\"", 0, 12 },
		{ "\"64K\"", 0, 65536 },
		{ "\"3M\"", 0, 3145728 },
		{ "\"2G\"", 0, UINT64_C(2) << 30 },
		{ "\"1T\"", 0, UINT64_C(1) << 40 },
		{ "9007199254740993", 0, UINT64_C(9007199254740992) }, /* as JSON has numbers */
		{ "-1", -EINVAL, 7 },
		{ "1.5", -EINVAL, 7 },
		{ "1e300", -EINVAL, 7 },
		{ "true", -EINVAL, 7 },
		{ "null", -EINVAL, 7 },
		{ "[]", -EINVAL, 7 },
		{ "\"\"", -EINVAL, 7 },
		{ "\"K\"", -EINVAL, 7 },
		{ "\"-1\"", -EINVAL, 7 },
		{ "\" 1\"", -EINVAL, 7 },
		{ "\"1k\"", -EINVAL, 7 },
		{ "\"1KB\"", -EINVAL, 7 },
		{ "\"1.5G\"", -EINVAL, 7 },
		{ "\"0x10\"", -EINVAL, 7 },
		{ "\"8388608T\"", -EINVAL, 7 }, /* 2^63 */
		{ "\"8388607T\"", 0, UINT64_C(8388607) << 40 },
		{ "\"1111111111111111111\"", -EINVAL, 7 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		AUTO(cJSON_Delete) cJSON *doc = cJSON_Parse(row[i].json);
		struct err err = { 0 };
		uint64_t n = 7;

		is_int(json_get_size(doc, &n, &err), row[i].r, "size %s: %s", row[i].json, err.msg);
		ok(n == row[i].want, "size %s: its value", row[i].json);
	}
}

/* What does not fit is missing, at both ends and beyond what a double can count. */
static void test_int(void)
{
	static const struct {
		const char *text;
		int64_t min, max, want;
	} row[] = {
		{ "{\"n\":7}", 0, 10, 7 },
		{ "{\"n\":10}", 0, 10, 10 },
		{ "{\"n\":0}", 0, 10, 0 },
		{ "{\"n\":-3}", -5, 10, -3 },
		{ "{\"n\":2.9}", 0, 10, 2 },
		{ "{\"n\":11}", 0, 10, -1 },
		{ "{\"n\":-1}", 0, 10, -1 },
		{ "{\"n\":\"7\"}", 0, 10, -1 },
		{ "{\"n\":null}", 0, 10, -1 },
		{ "{\"N\":7}", 0, 10, -1 },
		{ "{}", 0, 10, -1 },
		{ "[]", 0, 10, -1 },
		{ "{\"n\":1e300}", 0, UINT32_MAX, -1 },
		{ "{\"n\":1e999}", 0, JSON_INT_MAX, -1 },
		{ "{\"n\":-1e999}", -JSON_INT_MAX, JSON_INT_MAX, -1 },
		{ "{\"n\":4294967295}", 0, UINT32_MAX, UINT32_MAX },
		{ "{\"n\":4294967296}", 0, UINT32_MAX, -1 },
		{ "{\"n\":9007199254740992}", 0, JSON_INT_MAX, JSON_INT_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		AUTO(cJSON_Delete)
		cJSON *doc = json_parse(row[i].text, strlen(row[i].text), 1024, NULL);

		is_int(json_int(doc, "n", row[i].min, row[i].max, -1), row[i].want, "int: %s",
		       row[i].text);
	}
	is_int(json_int(NULL, "n", 0, 10, -1), -1, "int: of nothing");
}

int main(void)
{
	test_int();
	test_parse();
	test_limits();
	test_scan();
	test_keys();
	test_utf8();
	test_put();
	test_size();
	return tap_done();
}
