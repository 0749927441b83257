/* test_err.c - the error value: sentences, cuts, and what is left alone */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/json.h"
#include "tests/unit/tap.h"

static void test_sentences(void)
{
	struct err err = { 0 };

	is_int(err_set(&err, ENOENT, "open '%s'", "x"), -ENOENT, "err_set returns the errno");
	is_str(err.msg, "open 'x': No such file or directory", "err_set adds strerror");
	is_int(err.code, ENOENT, "and keeps the code");
	is_int(err_wrap(&err, -ENOENT, "create '%s'", "b"), -ENOENT,
	       "err_wrap returns what it got");
	is_str(err.msg, "create 'b': open 'x': No such file or directory", "err_wrap prepends");
	is_int(err_wrap(&err, -1, "%s", err.msg), -1, "an argument may be the sentence itself");
	is_str(err.msg,
	       "create 'b': open 'x': No such file or directory: "
	       "create 'b': open 'x': No such file or directory",
	       "which is then there twice");
	is_int(err.code, ENOENT, "wrapping does not change the code");
	is_int(err_say(&err, EINVAL, "name %d", 1), -EINVAL, "err_say returns the errno");
	is_str(err.msg, "name 1", "err_say adds nothing");
	err_set(&err, 99999, "x");
	is_str(err.msg, "x: error 99999", "a number without a name");
}

static void test_null(void)
{
	struct err err = { 0 };

	is_int(err_set(NULL, EIO, "x"), -EIO, "err_set without an err");
	is_int(err_say(NULL, EIO, "x"), -EIO, "err_say without an err");
	is_int(err_wrap(NULL, -EIO, "x"), -EIO, "err_wrap without an err");
	is_int(err_wrap(&err, -EPERM, "x"), -EPERM, "wrapping where nothing was said");
	is_str(err.msg, "x: Operation not permitted", "says what the number says");
	is_int(err.code, EPERM, "and sets the code");
}

/* Sentences made of characters of 1 to 4 bytes, in every position relative to the cut. */
static void test_cuts(void)
{
	static const char *const unit[] = { "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };

	for (size_t u = 0; u < ARRAY_SIZE(unit); u++) {
		char text[1024] = "";
		struct err err = { 0 };
		bool valid = true, full = true;

		for (size_t shift = 0; shift < 5; shift++) {
			memset(text, 'x', shift);
			text[shift] = '\0';
			while (strlen(text) < 700)
				memcpy(text + strlen(text), unit[u], strlen(unit[u]) + 1);
			for (int way = 0; way < 3; way++) {
				err_say(&err, EIO, "%s", "inner");
				if (way == 0)
					err_say(&err, EIO, "%s", text);
				else if (way == 1)
					err_set(&err, EIO, "%s", text);
				else
					err_wrap(&err, -EIO, "%s", text);
				valid &= utf8_valid(err.msg, strlen(err.msg));
				full &= strlen(err.msg) > ERR_MSG_MAX - 5;
			}
		}
		ok(valid, "a cut never splits a character of %zu bytes", strlen(unit[u]));
		ok(full, "and is not shorter than it must be");
	}
}

static void test_cut_inner(void)
{
	char text[600];
	struct err err;

	memset(text, 'i', sizeof(text));
	text[500] = '\0';
	err_say(&err, EIO, "%s", text);
	err_wrap(&err, -EIO, "twenty characters !!");
	is_int((long long)strlen(err.msg), ERR_MSG_MAX - 1, "wrapping fills the sentence");
	ok(strncmp(err.msg, "twenty characters !!: iii", 25) == 0, "the new front survives");
	for (size_t i = 0; i < 506; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	text[506] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		err_say(&err, EIO, "%s", text);
		err_wrap(&err, -EIO, "%s", shift ? "odd" : "even");
		ok(utf8_valid(err.msg, strlen(err.msg)) && strlen(err.msg) > 505,
		   "the old end is cut between characters");
	}
}

int main(void)
{
	test_sentences();
	test_null();
	test_cuts();
	test_cut_inner();
	return tap_done();
}
