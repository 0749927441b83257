/* test_buf.c - growth, ceilings, and that a refusal leaves the bytes alone */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "tests/unit/tap.h"

static void test_grow(void)
{
	auto_buf struct buf b = { 0 };
	bool same = true, ended = true;

	for (int i = 0; i < 3000; i++) {
		char c = (char)('a' + i % 26);

		if (buf_add(&b, &c, 1) < 0)
			break;
		ended &= b.data[b.len] == '\0';
	}
	for (size_t i = 0; i < b.len; i++)
		same &= b.data[i] == (char)('a' + i % 26);
	is_int((long long)b.len, 3000, "3000 bytes, one by one");
	ok(same, "are what was added");
	ok(ended, "with a NUL behind at every step");
	buf_consume(&b, 26);
	is_int((long long)b.len, 2974, "consuming shortens");
	ok(b.data[0] == 'a' && b.data[1] == 'b' && b.data[2974] == '\0', "from the front");
	buf_consume(&b, 99999);
	is_int((long long)b.len, 0, "consuming more than there is empties");
}

static void test_ceiling(void)
{
	char big[300];
	struct buf b;

	memset(big, 'x', sizeof(big));
	buf_init(&b, 10);
	is_int(buf_add(&b, "0123456789", 10), 0, "up to the ceiling");
	is_int(buf_add(&b, "", 0), 0, "nothing more fits");
	is_int(buf_add(&b, "x", 1), -E2BIG, "one byte more does not");
	is_int(buf_printf(&b, "%d", 1), -E2BIG, "nor printed");
	is_int(buf_reserve(&b, 1), -E2BIG, "nor reserved");
	is_int(buf_reserve(&b, (size_t)-1), -E2BIG, "nor does a length overflow");
	is_str(b.data, "0123456789", "and the bytes are as they were");
	ok(b.cap <= 11, "no more memory than the ceiling asks for");
	buf_done(&b);
	is_int(buf_add(&b, big, 11), -E2BIG, "the ceiling outlives buf_done");
	ok(!b.data, "and nothing was allocated for what was refused");
	b.max = 280;
	is_int(buf_printf(&b, "%.*s", 300, big), -E2BIG, "a long print over the ceiling");
	is_int((long long)b.len, 0, "leaves nothing");
	is_int(buf_printf(&b, "%.*s", 280, big), 0, "a long print up to it");
	is_int((long long)b.len, 280, "is there");
	buf_done(&b);
	buf_done(NULL);
	buf_init(&b, (size_t)-1);
	is_int(buf_add(&b, "x", 1), 0, "a ceiling of SIZE_MAX does not overflow");
	is_int(buf_reserve(&b, (size_t)-1), -E2BIG, "but what cannot be is refused");
	buf_done(&b);
}

static void test_take(void)
{
	struct buf b;
	char *text;

	buf_init(&b, 100);
	text = buf_take(&b);
	is_str(text, "", "an empty buffer gives an empty string");
	free(text);
	buf_printf(&b, "%s-%d", "a", 7);
	text = buf_take(&b);
	is_str(text, "a-7", "the bytes as a string");
	ok(!b.data && b.len == 0 && b.max == 100, "the buffer is empty and keeps its ceiling");
	free(text);
	is_int(buf_reserve(&b, 4), 0, "reserving");
	memcpy(b.data + b.len, "wxyz", 4);
	b.len += 4;
	is_str(b.data, "wxyz", "all of what was reserved ends with a NUL");
	buf_done(&b);
}

int main(void)
{
	test_grow();
	test_ceiling();
	test_take();
	return tap_done();
}
