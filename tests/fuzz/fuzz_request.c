/* fuzz_request.c - commands and specs
 *
 * Besides not crashing: what was taken prints as a request that is taken again,
 * and prints the same; what was refused has a sentence and leaves nothing behind.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check_request(const char *bytes, size_t size)
{
	struct exec_request req = { 0 }, again = { 0 };
	auto_buf struct buf first = { 0 }, second = { 0 };
	struct err err = { 0 };
	int r = exec_request_parse(&req, NULL, bytes, size, &err);

	require(r == 0 ? !err.code : err.code == -r && *err.msg);
	if (r < 0) {
		require(!req.argv && !req.script);
		return;
	}
	require(exec_request_print(&req, &first) == 0);
	if (exec_request_parse(&again, NULL, first.data, first.len, &err) == 0) {
		require(exec_request_print(&again, &second) == 0);
		require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
	} else {
		require(first.len > REQUEST_MAX); /* escapes have made it longer */
	}
	exec_request_done(&again);
	exec_request_done(&req);
}

static void check_spec(const char *bytes, size_t size)
{
	struct spec spec = { 0 };
	auto_buf struct buf out = { 0 };
	struct err err = { 0 };

	if (spec_parse(&spec, bytes, size, &err) < 0) {
		require(err.code && *err.msg);
		return;
	}
	require(spec_print(&spec, &out) == 0);
	spec_done(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_request((const char *)data, size);
	check_spec((const char *)data, size);
	return 0;
}
