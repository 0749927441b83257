/* Specs and requests: what is taken, what is refused and with which words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "sandbox/request.h"
#include "tests/unit/guard.h"
#include "tests/unit/tap.h"

/* `want`: how the request prints again; for a refusal what its sentence must hold. */
static const struct {
	const char *what, *text;
	int error;
	const char *want;
} requests[] = {
	{ "argv", "{\"cmd\":[\"a\",\"b c\"]}", 0, "{\"cmd\":[\"a\",\"b c\"]}" },
	{ "bare array", "[\"a\"]", 0, "{\"cmd\":[\"a\"]}" },
	{ "script", "{\"cmd\":\"echo \\u00e9\\n\"}", 0, "{\"cmd\":\"echo é\\n\"}" },
	{ "empty program", "[\"\"]", 0, "{\"cmd\":[\"\"]}" },
	{ "everything",
	  "{\"cmd\":[\"x\"],\"env\":{\"A\":\"1\",\"B\":\"\"},\"cwd\":\"/tmp\",\"timeout_s\":1.5,"
	  "\"user\":\"1:2\",\"stdin\":\"null\",\"stdout\":\"null\",\"stderr\":\"merge\"}",
	  0,
	  "{\"cmd\":[\"x\"],\"env\":{\"A\":\"1\",\"B\":\"\"},\"cwd\":\"/tmp\",\"timeout_s\":1.5,"
	  "\"user\":\"1:2\",\"stdin\":\"null\",\"stdout\":\"null\",\"stderr\":\"merge\"}" },
	{ "no timeout", "{\"cmd\":[\"x\"],\"timeout_s\":-1}", 0, "{\"cmd\":[\"x\"]}" },
	{ "empty cwd is none", "{\"cmd\":[\"x\"],\"cwd\":\"\"}", 0, "{\"cmd\":[\"x\"]}" },
	{ "empty argv", "[]", EINVAL, "is empty" },
	{ "empty cmd", "{\"cmd\":[]}", EINVAL, "cmd: " },
	{ "no cmd", "{\"env\":{}}", EINVAL, "'cmd' is missing" },
	{ "cmd a number", "{\"cmd\":7}", EINVAL, "cmd: " },
	{ "cmd null", "{\"cmd\":null}", EINVAL, "cmd: " },
	{ "argument a number", "[\"a\",1]", EINVAL, "argument 1" },
	{ "unknown key", "{\"cmd\":[\"a\"],\"tty\":true}", EINVAL, "'tty'" },
	{ "key of a later version", "{\"cmd\":[\"a\"],\"limits\":{}}", EINVAL, "'limits'" },
	{ "output", "{\"cmd\":[\"a\"],\"output_limit\":\"4K\",\"on_full\":\"drop\",\"keep\":true}",
	  0, "{\"cmd\":[\"a\"],\"output_limit\":4096,\"on_full\":\"drop\",\"keep\":true}" },
	{ "output as it is by default", "{\"cmd\":[\"a\"],\"on_full\":\"wait\",\"keep\":false}", 0,
	  "{\"cmd\":[\"a\"]}" },
	{ "terminal", "{\"cmd\":[\"a\"],\"pty\":{}}", 0,
	  "{\"cmd\":[\"a\"],\"pty\":{\"rows\":24,\"cols\":80}}" },
	{ "all of a terminal",
	  "{\"cmd\":[\"a\"],\"pty\":{\"cols\":65535,\"rows\":1,\"term\":\"vt100\"},\"stderr\":"
	  "\"merge\"}",
	  0,
	  "{\"cmd\":[\"a\"],\"stderr\":\"merge\",\"pty\":{\"rows\":1,\"cols\":65535,\"term\":"
	  "\"vt100\"}}" },
	{ "terminal of no size", "{\"cmd\":[\"a\"],\"pty\":{\"rows\":0}}", EINVAL,
	  "rows: must be" },
	{ "terminal too wide", "{\"cmd\":[\"a\"],\"pty\":{\"cols\":65536}}", EINVAL,
	  "cols: must be" },
	{ "terminal of half a row", "{\"cmd\":[\"a\"],\"pty\":{\"rows\":1.5}}", EINVAL, "rows: " },
	{ "terminal of a path", "{\"cmd\":[\"a\"],\"pty\":{\"term\":\"../x\"}}", EINVAL, "term: " },
	{ "terminal of no kind", "{\"cmd\":[\"a\"],\"pty\":{\"term\":\"\"}}", EINVAL, "term: " },
	{ "terminal, unknown member", "{\"cmd\":[\"a\"],\"pty\":{\"depth\":1}}", EINVAL,
	  "'depth'" },
	{ "terminal true", "{\"cmd\":[\"a\"],\"pty\":true}", EINVAL, "pty: must be an object" },
	{ "terminal without input", "{\"cmd\":[\"a\"],\"pty\":{},\"stdin\":\"null\"}", EINVAL,
	  "'stdin'" },
	{ "terminal without output", "{\"cmd\":[\"a\"],\"stdout\":\"null\",\"pty\":{}}", EINVAL,
	  "'stdout'" },
	{ "terminal without errors", "{\"cmd\":[\"a\"],\"stderr\":\"null\",\"pty\":{}}", EINVAL,
	  "'stderr'" },
	{ "NUL in argv", "[\"a\\u0000b\"]", EINVAL, "NUL" },
	{ "NUL in a script", "{\"cmd\":\"a\\u0000\"}", EINVAL, "NUL" },
	{ "key twice", "{\"cmd\":[\"a\"],\"cmd\":[\"b\"]}", EINVAL, "'cmd'" },
	{ "more behind", "[\"a\"] x", EINVAL, "" },
	{ "does not end", "[\"a\"", EINVAL, "" },
	{ "relative cwd", "{\"cmd\":[\"a\"],\"cwd\":\"tmp\"}", EINVAL, "cwd: " },
	{ "timeout a string", "{\"cmd\":[\"a\"],\"timeout_s\":\"1\"}", EINVAL, "timeout_s: " },
	{ "stdin merged", "{\"cmd\":[\"a\"],\"stdin\":\"merge\"}", EINVAL, "stdin: " },
	{ "stdout merged", "{\"cmd\":[\"a\"],\"stdout\":\"merge\"}", EINVAL, "stdout: " },
	{ "variable without a name", "{\"cmd\":[\"a\"],\"env\":{\"\":\"x\"}}", EINVAL, "env: " },
	{ "variable with =", "{\"cmd\":[\"a\"],\"env\":{\"A=B\":\"x\"}}", EINVAL, "env: " },
	{ "env an array", "{\"cmd\":[\"a\"],\"env\":[]}", EINVAL, "env: " },
	{ "user with a slash", "{\"cmd\":[\"a\"],\"user\":\"a/b\"}", EINVAL, "user: " },
	{ "user with two groups", "{\"cmd\":[\"a\"],\"user\":\"1:2:3\"}", EINVAL, "user: " },
	{ "empty user", "{\"cmd\":[\"a\"],\"user\":\"\"}", EINVAL, "user: " },
};

static void test_requests(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct exec_request req = { 0 };
		struct err err = { 0 };
		auto_buf struct buf out = { 0 };
		size_t len = strlen(requests[i].text);
		struct guard g = guard_new(requests[i].text, len);
		int r = exec_request_parse(&req, NULL, g.bytes, len, &err);

		is_int(-r, requests[i].error, "request: %s: code", requests[i].what);
		if (r == 0) {
			(void)exec_request_print(&req, &out);
			is_str(out.data, requests[i].want, "request: %s: prints", requests[i].what);
			exec_request_done(&req);
		} else {
			ok(err.code == -r && strstr(err.msg, requests[i].want),
			   "request: %s: says '%s'", requests[i].what, err.msg);
			ok(!req.argv && !req.script && !req.env.v, "request: %s: untouched",
			   requests[i].what);
		}
		guard_free(&g);
	}
}

static void test_sizes(void)
{
	static const struct {
		size_t len;
		int error;
	} row[] = { { REQUEST_ARG_MAX, 0 }, { REQUEST_ARG_MAX + 1, E2BIG } };

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		auto_free char *text = malloc(row[i].len + 16);
		struct exec_request req = { 0 };
		struct err err = { 0 };
		size_t at = 0;
		int r;

		text[at++] = '[';
		text[at++] = '"';
		memset(text + at, 'a', row[i].len);
		at += row[i].len;
		memcpy(text + at, "\"]", 3);
		r = exec_request_parse(&req, NULL, text, at + 2, &err);
		is_int(-r, row[i].error, "request: an argument of %zu bytes", row[i].len);
		exec_request_done(&req);
	}
}

#define REST(hostname)                                                   \
	"\"hostname\":\"" hostname                                       \
	"\",\"mounts\":[],\"exec\":{\"timeout_s\":0,\"stdin\":\"pipe\"," \
	"\"output_limit\":268435456},"                                   \
	"\"ttl_s\":0,\"idle_timeout_s\":0,\"labels\":{}}"

static const struct {
	const char *what, *text;
	int error;
	const char *want;
} specs[] = {
	{ "empty", "", 0,
	  "{\"name\":\"\",\"image\":\"host\",\"env\":{},\"cwd\":\"\",\"user\":\"0\"," REST("") },
	{ "blank line", " \r\n", 0,
	  "{\"name\":\"\",\"image\":\"host\",\"env\":{},\"cwd\":\"\",\"user\":\"0\"," REST("") },
	{ "everything", "{\"name\":\"a\",\"env\":{\"K\":\"v\"},\"cwd\":\"/x\",\"user\":\"user\"}",
	  0,
	  "{\"name\":\"a\",\"image\":\"host\",\"env\":{\"K\":\"v\"},\"cwd\":\"/"
	  "x\",\"user\":\"user\"," REST("a") },
	{ "all the rest",
	  "{\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\",\"readonly\":false}],\"ttl_s\":1.5,"
	  "\"exec\":{\"timeout_s\":2,\"stdin\":\"null\",\"output_limit\":\"1K\"},"
	  "\"limits\":{\"output\":\"2M\"},\"labels\":{\"k\":\"v\"},\"hostname\":"
	  "\"h\"}",
	  0,
	  "{\"name\":\"\",\"image\":\"host\",\"env\":{},\"cwd\":\"\",\"user\":\"0\",\"hostname\":"
	  "\"h\","
	  "\"mounts\":[{\"readonly\":false,\"source\":\"/a\",\"target\":\"/b\"}],"
	  "\"exec\":{\"timeout_s\":2,\"stdin\":\"null\",\"output_limit\":1024},"
	  "\"limits\":{\"output\":2097152},\"ttl_s\":1.5,\"idle_timeout_s\":0,"
	  "\"labels\":{\"k\":\"v\"}}" },
	{ "a mount without a target", "{\"mounts\":[{\"source\":\"/a\"}]}", EINVAL, "number 1" },
	{ "a relative mount", "{\"mounts\":[{\"source\":\"a\",\"target\":\"/b\"}]}", EINVAL,
	  "source" },
	{ "another image", "{\"image\":\"debian\"}", EINVAL, "image: " },
	{ "exec with a command", "{\"exec\":{\"cmd\":[\"a\"]}}", EINVAL, "'cmd'" },
	{ "negative ttl", "{\"ttl_s\":-1}", EINVAL, "ttl_s: " },
	{ "an array", "[]", EINVAL, "JSON object" },
	{ "text", "box", EINVAL, "" },
	{ "bad name", "{\"name\":\"a/b\"}", EINVAL, "name: " },
	{ "dotted name", "{\"name\":\"..\"}", EINVAL, "name: " },
	{ "65 letters",
	  "{\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
	  EINVAL, "name: " },
	{ "not served yet", "{\"network\":{}}", EINVAL, "'network'" },
	{ "a limit not served yet", "{\"limits\":{\"memory\":1}}", EINVAL, "'memory'" },
	{ "no output", "{\"limits\":{\"output\":0}}", EINVAL, "limits: " },
};

static void test_specs(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		struct spec spec = { 0 };
		struct err err = { 0 };
		auto_buf struct buf out = { 0 };
		int r = spec_parse(&spec, specs[i].text, strlen(specs[i].text), &err);

		is_int(-r, specs[i].error, "spec: %s: code", specs[i].what);
		if (r == 0) {
			(void)spec_print(&spec, &out);
			is_str(out.data, specs[i].want, "spec: %s: prints", specs[i].what);
			spec_done(&spec);
		} else {
			ok(strstr(err.msg, specs[i].want), "spec: %s: says '%s'", specs[i].what,
			   err.msg);
		}
	}
}

static const struct {
	const char *key, *value;
	int error;
	const char *want;
} sets[] = {
	{ "env.CC", "clang -O2", 0, "{\"cmd\":\"x\",\"env\":{\"CC\":\"clang -O2\"}}" },
	{ "cwd", "/tmp", 0, "{\"cmd\":\"x\",\"cwd\":\"/tmp\"}" },
	{ "timeout_s", "1.5", 0, "{\"cmd\":\"x\",\"timeout_s\":1.5}" },
	{ "stdin", "null", 0, "{\"cmd\":\"x\",\"stdin\":\"null\"}" },
	{ "user", "1000", 0, "{\"cmd\":\"x\",\"user\":\"1000\"}" },
	{ "pty.rows", "50", 0, "{\"cmd\":\"x\",\"pty\":{\"rows\":50,\"cols\":80}}" },
	{ "pty.term", "vt100", 0,
	  "{\"cmd\":\"x\",\"pty\":{\"rows\":24,\"cols\":80,\"term\":\"vt100\"}}" },
	{ "pty.rows", "0", EINVAL, "rows" },
	{ "pty.rows", "many", EINVAL, "rows" },
	{ "pty", "yes", EINVAL, "pty" },
	{ "timeout_s", "soon", EINVAL, "timeout_s" },
	{ "cmd", "x", EINVAL, "'cmd'" },
	{ "id", "x", EINVAL, "'id'" },
	{ "tty", "x", EINVAL, "'tty'" },
	{ "env", "x", EINVAL, "env" },
	{ "env.", "x", EINVAL, "no key" },
	{ "", "x", EINVAL, "no key" },
	{ "env.\xff", "x", EINVAL, "not UTF-8" },
	{ "env.A", "\xff", EINVAL, "not UTF-8" },
	{ "cwd", "tmp", EINVAL, "cwd" },
};

static void test_sets(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct exec_request base = { 0 }, req = { 0 }, json = { 0 };
		struct err err = { 0 };
		auto_buf struct buf out = { 0 };
		int r = exec_request_set(&base, sets[i].key, sets[i].value, &err);

		is_int(-r, sets[i].error, "set %s %s: code", sets[i].key, sets[i].value);
		if (r == 0 && exec_request_script(&req, &base, "x", 1, NULL) == 0) {
			(void)exec_request_print(&req, &out);
			is_str(out.data, sets[i].want, "set %s: prints", sets[i].key);
			ok(exec_request_parse(&json, NULL, out.data, out.len, NULL) == 0 &&
				   exec_request_equal(&req, &json),
			   "set %s: equals the same in JSON", sets[i].key);
			json.timeout_s += 7;
			ok(!exec_request_equal(&req, &json), "set %s: and no other", sets[i].key);
		} else if (r < 0) {
			ok(strstr(err.msg, sets[i].want), "set %s: says '%s'", sets[i].key,
			   err.msg);
		}
		exec_request_done(&base);
		exec_request_done(&req);
		exec_request_done(&json);
	}
}

/* Members one by one, and what does not go together, in either order. */
static void test_set_pty(void)
{
	struct exec_request req = { 0 };
	struct err err = { 0 };
	auto_buf struct buf out = { 0 };

	ok(exec_request_set(&req, "pty.rows", "10", NULL) == 0 &&
		   exec_request_set(&req, "pty.cols", "20", NULL) == 0,
	   "set pty: member by member");
	is_int(exec_request_set(&req, "stdin", "null", &err), -EINVAL, "set pty, then no stdin");
	ok(strstr(err.msg, "'stdin'"), "says '%s'", err.msg);
	(void)exec_request_print(&req, &out);
	is_str(out.data, "{\"pty\":{\"rows\":10,\"cols\":20}}", "and nothing has changed");
	exec_request_done(&req);
	ok(exec_request_set(&req, "stdout", "null", NULL) == 0 &&
		   exec_request_set(&req, "pty.rows", "10", NULL) == -EINVAL && !req.pty.on,
	   "set no stdout, then pty");
	exec_request_done(&req);
}

static void test_env(void)
{
	struct env a = { 0 }, b = { 0 };

	ok(env_set(&a, "A", "1") == 0 && env_set(&a, "AB", "2") == 0 && env_set(&a, "A", "3") == 0,
	   "env: set");
	is_int((long long)a.n, 2, "env: a key is replaced, not added");
	is_str(env_get(&a, "A"), "3", "env: get");
	is_str(env_get(&a, "B"), NULL, "env: a key is no suffix");
	ok(env_copy(&b, &a) == 0 && b.n == 2 && strcmp(env_get(&b, "AB"), "2") == 0, "env: copy");
	env_done(&a);
	env_done(&b);
	ok(!a.v && a.n == 0, "env: done leaves it empty");
}

int main(void)
{
	test_requests();
	test_sizes();
	test_specs();
	test_sets();
	test_set_pty();
	test_env();
	return tap_done();
}
