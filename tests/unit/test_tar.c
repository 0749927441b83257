/* test_tar.c - reading and writing tar */
#include <errno.h>
#include <stdio.h>

#include "base/auto.h"
#include "tests/unit/archive.h"
#include "tests/unit/tap.h"

#define TEN   "0123456789"
#define FIFTY TEN TEN TEN TEN TEN

static const struct tar_entry samples[] = {
	{ TAR_FILE, "a", "", 0644, 5, { 1700000000, 0 } },
	{ TAR_FILE, "fractions", "", 0755, 0, { 1700000000, 123456789 } },
	{ TAR_FILE, "before 1970", "", 0, 1, { -2, 750000000 } },
	{ TAR_FILE, "whole, before 1970", "", 0, 1, { -5, 0 } },
	{ TAR_FILE, "a block", "", 07777, 512, { 0, 0 } },
	{ TAR_DIR, "dir/", "", 01777, 0, { 1, 1 } },
	{ TAR_SYMLINK, "link", "/etc/passwd", 0777, 0, { 0, 0 } },
	{ TAR_HARDLINK, "hard", "a", 0644, 0, { 0, 0 } },
	{ TAR_FILE, FIFTY FIFTY, "", 0644, 0, { 0, 0 } },
	{ TAR_FILE, FIFTY FIFTY "1", "", 0644, 3, { 0, 0 } },
	{ TAR_SYMLINK, FIFTY "/" FIFTY "/" FIFTY, FIFTY FIFTY FIFTY, 0777, 0, { 0, 0 } },
	{ TAR_FILE, "not UTF-8: \xe9, a line: \n", "", 0600, 0, { 0, 0 } },
};

static void compare(const struct tar_entry *got, const struct tar_entry *want)
{
	is_int(got->type, want->type, "type of '%.20s'", want->name);
	is_str(got->name, want->name, "name");
	is_str(got->link, want->link, "link");
	is_int(got->mode, want->mode, "mode");
	is_int((long long)got->size, (long long)want->size, "size");
	is_int(got->mtime.tv_sec, want->mtime.tv_sec, "seconds");
	is_int(got->mtime.tv_nsec, want->mtime.tv_nsec, "nanoseconds");
}

static void test_round_trip(size_t piece)
{
	struct archive a = { .piece = piece };
	struct tar_reader t;
	struct tar_entry e;
	char data[600], back[600];

	memset(data, 'x', sizeof(data));
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		archive_add(&a, &samples[i], data);
	archive_end(&a);
	tar_reader_init(&t, archive_read, &a);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		size_t len = 0;
		ssize_t n;

		is_int(tar_next(&t, &e, NULL), 1, "entry %zu", i);
		compare(&e, &samples[i]);
		if (i % 2 == 0) /* every other one is skipped */
			continue;
		while ((n = tar_data(&t, back + len, sizeof(back) - len, NULL)) > 0)
			len += (size_t)n;
		ok(n == 0 && len == e.size && memcmp(back, data, len) == 0, "its data");
	}
	is_int(tar_next(&t, &e, NULL), 0, "the end");
	tar_reader_done(&t);
	archive_done(&a);
}

/* 9 GiB is a pax record; nothing else of it is looked at. */
static void test_large(void)
{
	const struct tar_entry want = { TAR_FILE, "large", "", 0644, 9ULL << 30, { 0, 0 } };
	struct archive a = { 0 };
	struct tar_reader t;
	struct tar_entry e;

	(void)tar_put_entry(&(struct tar_writer){ archive_write, &a }, &want, NULL);
	tar_reader_init(&t, archive_read, &a);
	is_int(tar_next(&t, &e, NULL), 1, "a large file");
	compare(&e, &want);
	is_int(tar_next(&t, &e, NULL), -EPROTO, "whose data never comes");
	tar_reader_done(&t);
	archive_done(&a);
}

/* The text of one extension in front of an ordinary file. */
static void test_extensions(void)
{
	static const struct {
		char type;
		const char *data;
		size_t len;
		int want;
		const char *name;
	} row[] = {
		{ 'L', "long name", 10, 1, "long name" },
		{ 'L', "unterminated", 5, 1, "unter" },
		{ 'x', "12 path=abc\n", 12, 1, "abc" },
		{ 'x', "12 path=abc\n11 path=xy\n", 23, 1, "xy" },
		{ 'x', "11 other=x\n", 11, 1, "f" },
		{ 'g', "12 path=abc\n", 12, 1, "f" },
		{ 'x', "", 0, 1, "f" },
		{ 'x', "12 path=abc", 11, -EPROTO, NULL },
		{ 'x', "13 path=abc\n", 12, -EPROTO, NULL },
		{ 'x', "11 path=abc\n", 12, -EPROTO, NULL },
		{ 'x', "0 path=abc\n", 11, -EPROTO, NULL },
		{ 'x', "-1 path=abc\n", 12, -EPROTO, NULL },
		{ 'x', "99999999999999999999 path=abc\n", 30, -EPROTO, NULL },
		{ 'x', "11 pathabc\n", 11, -EPROTO, NULL },
		{ 'x', " path=abc\n", 10, -EPROTO, NULL },
		{ 'x', "12 path=a\0c\n", 12, -EPROTO, NULL },
		{ 'x', "9 path=\n", 8, -EPROTO, NULL },
		{ 'x', "8 path=\n", 8, -EPROTO, NULL }, /* an empty name */
		{ 'x', "11 size=-1\n", 11, -EPROTO, NULL },
		{ 'x', "28 size=9223372036854775808\n", 28, -EPROTO, NULL },
		{ 'x', "11 mtime=x\n", 11, -EPROTO, NULL },
		{ 'x', "22 GNU.sparse.major=1\n", 22, -EPROTO, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct archive a = { 0 };
		struct tar_reader t;
		struct tar_entry e;
		struct err err = { 0 };

		archive_raw(&a, row[i].type, "extension", row[i].data, row[i].len);
		archive_raw(&a, '0', "f", NULL, 0);
		archive_end(&a);
		tar_reader_init(&t, archive_read, &a);
		is_int(tar_next(&t, &e, &err), row[i].want, "extension %zu", i);
		if (row[i].want == 1)
			is_str(e.name, row[i].name, "its name");
		else
			ok(err.code == EPROTO && err.msg[0], "it is said why: %s", err.msg);
		tar_reader_done(&t);
		archive_done(&a);
	}
}

static void test_limits(void)
{
	struct archive a = { 0 };
	struct tar_reader t;
	struct tar_entry e;
	auto_free char *big = calloc(1, TAR_HEADER_MAX + 1);

	if (!big)
		exit(1);
	memset(big, 'n', TAR_HEADER_MAX);
	archive_raw(&a, 'L', "l", big, TAR_HEADER_MAX);
	tar_reader_init(&t, archive_read, &a);
	is_int(tar_next(&t, &e, NULL), -EPROTO, "a name that is too large");
	tar_reader_done(&t);
	archive_done(&a);
	archive_raw(&a, 'L', "l", big, TAR_HEADER_MAX / 2);
	archive_raw(&a, '0', "f", NULL, 0);
	tar_reader_init(&t, archive_read, &a);
	is_int(tar_next(&t, &e, NULL), 1, "one that is large");
	is_int((long long)strlen(e.name), TAR_HEADER_MAX / 2, "arrives");
	tar_reader_done(&t);
	archive_done(&a);
}

/* Cut at every byte, and with every byte of the first header changed. */
static void test_damage(void)
{
	struct archive a = { 0 };
	size_t whole;
	bool refused = true, noticed = true;

	archive_raw(&a, 'x', "x", "12 path=abc\n", 12);
	archive_raw(&a, '0', "f", "data", 4);
	archive_end(&a);
	whole = a.bytes.len;
	for (size_t len = 0; len < whole - TAR_BLOCK; len++) { /* one zero block is an end */
		struct tar_reader t;
		struct tar_entry e;
		int r;

		a.bytes.len = len;
		a.at = 0;
		tar_reader_init(&t, archive_read, &a);
		while ((r = tar_next(&t, &e, NULL)) > 0)
			;
		refused = refused && r < 0;
		tar_reader_done(&t);
	}
	ok(refused, "what is cut anywhere is refused");
	a.bytes.len = whole;
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		struct tar_reader t;
		struct tar_entry e;

		a.bytes.data[i] ^= 1;
		a.at = 0;
		tar_reader_init(&t, archive_read, &a);
		/* Behind the digits of the sum, at 148, a space and a NUL mean the same. */
		if (tar_next(&t, &e, NULL) != -EPROTO && i != 154 && i != 155)
			noticed = false;
		a.bytes.data[i] ^= 1;
		tar_reader_done(&t);
	}
	ok(noticed, "a changed byte of a header is noticed");
	archive_done(&a);
}

int main(void)
{
	test_round_trip(0);
	test_round_trip(1);
	test_round_trip(511);
	test_large();
	test_extensions();
	test_limits();
	test_damage();
	return tap_done();
}
