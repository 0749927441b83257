/* test_text.c - names, ids, times, escapes, signals */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/text.h"
#include "tests/unit/guard.h"
#include "tests/unit/tap.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_names(void)
{
	static const struct {
		const char *name, *fault;
		bool number;
	} row[] = {
		{ "a", NULL, false },
		{ "0", NULL, true },
		{ "007", NULL, true },
		{ "1a", NULL, false },
		{ "_", NULL, false },
		{ "A.b_c-9", NULL, false },
		{ A64, NULL, false },
		{ A64 "a", "is longer than 64 characters", false },
		{ "", "is empty", false },
		{ ".", "begins with a dot", false },
		{ "..", "begins with a dot", false },
		{ "-rf", "begins with a dash", false },
		{ "a/b", "has a character other than A-Z a-z 0-9 . _ -", false },
		{ "a\n", "has a character other than A-Z a-z 0-9 . _ -", false },
		{ "a b", "has a character other than A-Z a-z 0-9 . _ -", false },
		{ "\xc3\xa4", "has a character other than A-Z a-z 0-9 . _ -", false },
		{ "[", "has a character other than A-Z a-z 0-9 . _ -", false },
		{ "`", "has a character other than A-Z a-z 0-9 . _ -", false },
		{ "@", "has a character other than A-Z a-z 0-9 . _ -", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct guard g = guard_new(row[i].name, strlen(row[i].name) + 1);

		is_str(name_fault(g.bytes), row[i].fault, "fault of name %zu", i);
		is_int(name_valid(g.bytes), !row[i].fault, "valid");
		is_int(name_is_number(g.bytes), row[i].number, "number");
		guard_free(&g);
	}
}

static void test_ids(void)
{
	char id[RANDOM_ID_LEN + 1], other[RANDOM_ID_LEN + 1];

	random_id(id);
	random_id(other);
	is_int((long long)strlen(id), RANDOM_ID_LEN, "an id has 13 characters");
	is_int((long long)strspn(id, "0123456789abcdefghijklmnopqrstuv"), RANDOM_ID_LEN,
	       "of base32hex");
	ok(strcmp(id, other) != 0, "and is not the same twice");
}

static void test_times(void)
{
	static const struct {
		time_t sec;
		long nsec;
		const char *text;
	} row[] = {
		{ 0, 0, "1970-01-01T00:00:00.000Z" },
		{ 1769860800, 123999999, "2026-01-31T12:00:00.123Z" },
		{ 951782400, 1000000, "2000-02-29T00:00:00.001Z" },
		{ -1, 999000000, "1969-12-31T23:59:59.999Z" },
		{ 253402300799, 0, "9999-12-31T23:59:59.000Z" },
		{ -62167219200, 0, "0000-01-01T00:00:00.000Z" },
	};
	static const struct {
		struct timespec when;
		const char *text;
	} odd[] = {
		{ { 253402300800, 0 }, "9999-12-31T23:59:59.000Z" },
		{ { INT64_MAX, 0 }, "9999-12-31T23:59:59.000Z" },
		{ { INT64_MIN, 0 }, "0000-01-01T00:00:00.000Z" },
		{ { 0, 1000000000 }, "1970-01-01T00:00:00.000Z" },
		{ { 0, -1 }, "1970-01-01T00:00:00.000Z" },
	};
	char text[RFC3339_LEN + 1];

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct timespec when = { row[i].sec, row[i].nsec }, back = { 0 };

		rfc3339(text, &when);
		is_str(text, row[i].text, "a time");
		ok(rfc3339_parse(text, &back), "comes back");
		is_int(back.tv_sec, row[i].sec, "to the second");
		is_int(back.tv_nsec, row[i].nsec / 1000000 * 1000000, "and the millisecond");
	}
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		rfc3339(text, &odd[i].when);
		is_str(text, odd[i].text, "what cannot be written becomes the nearest that can");
	}
}

static void test_bad_times(void)
{
	static const char *const bad[] = {
		"",
		"2026",
		"2026-01-31T12:00:00.123",
		"2026-01-31T12:00:00.123z",
		"2026-01-31T12:00:00.123Z ",
		" 2026-01-31T12:00:00.123Z",
		"2026-01-31 12:00:00.123Z",
		"2026-02-29T12:00:00.123Z",
		"2026-13-01T12:00:00.123Z",
		"2026-00-01T12:00:00.123Z",
		"2026-01-00T12:00:00.123Z",
		"2026-01-31T24:00:00.123Z",
		"2026-01-31T12:60:00.123Z",
		"2026-01-31T12:00:60.123Z",
		"2026-01-31T12:00:00,123Z",
		"2026-01-31T12:00:00.12Z",
		"+026-01-31T12:00:00.123Z",
		"2026-1 -31T12:00:00.123Z",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct guard g = guard_new(bad[i], strlen(bad[i]) + 1);
		struct timespec when = { 7, 7 };

		ok(!rfc3339_parse(g.bytes, &when), "not a time: '%s'", bad[i]);
		ok(when.tv_sec == 7 && when.tv_nsec == 7, "and nothing is set");
		guard_free(&g);
	}
}

#define ROW(bytes, want)                       \
	{                                      \
		bytes, sizeof(bytes) - 1, want \
	}

static void test_escape(void)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *want;
	} row[] = {
		ROW("", ""),
		ROW("plain text", "plain text"),
		ROW("a\nb\tc\rd", "a\\nb\\tc\\rd"),
		ROW("back\\slash", "back\\\\slash"),
		ROW("\0\x01\x1b[2J\x7f", "\\x00\\x01\\x1b[2J\\x7f"),
		ROW("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
		ROW("\xc2\x85", "\\xc2\\x85"),          /* NEL: C1 */
		ROW("\xc2\xa0", "\xc2\xa0"),            /* just above C1 */
		ROW("\xe2\x80\xa8", "\\xe2\\x80\\xa8"), /* line separator */
		ROW("\xe2\x80\xae", "\\xe2\\x80\\xae"), /* right-to-left override */
		ROW("\xe2\x80\xaf", "\xe2\x80\xaf"),    /* just behind it */
		ROW("\xef\xbb\xbf", "\\xef\\xbb\\xbf"), /* byte order mark */
		ROW("\xff\xfe", "\\xff\\xfe"),          /* not UTF-8 */
		ROW("a\xe2\x82", "a\\xe2\\x82"),        /* cut */
		ROW("\xc0\x80", "\\xc0\\x80"),          /* over-long */
		ROW("\xed\xa0\x80", "\\xed\\xa0\\x80"), /* surrogate */
	};
	struct buf small = { .max = 6 };

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct guard g = guard_new(row[i].bytes, row[i].len);
		auto_buf struct buf b = { 0 };

		is_int(text_escape(&b, g.bytes, row[i].len), 0, "escape");
		is_str(b.data ? b.data : "", row[i].want, "case %zu", i);
		guard_free(&g);
	}
	(void)buf_add(&small, "ab", 2);
	is_int(text_escape(&small, "c\x01", 2), -E2BIG, "over the ceiling");
	is_str(small.data, "ab", "nothing is appended");
	is_int(text_escape(&small, "\x01", 1), 0, "up to it");
	is_str(small.data, "ab\\x01", "it is");
	buf_done(&small);
}

static void test_signals(void)
{
	static const struct {
		const char *text;
		int sig;
	} row[] = {
		{ "TERM", 15 },       { "SIGTERM", 15 },  { "15", 15 },       { "KILL", 9 },
		{ "SIGHUP", 1 },      { "1", 1 },         { "64", 64 },       { "65", -1 },
		{ "0", -1 },          { "", -1 },         { "SIG", -1 },      { "SIGSIGTERM", -1 },
		{ "term", -1 },       { "TERM ", -1 },    { " TERM", -1 },    { "-15", -1 },
		{ "015", -1 },        { "1e1", -1 },      { "RTMIN", 34 },    { "SIGRTMIN", 34 },
		{ "RTMIN+1", 35 },    { "RTMIN+30", 64 }, { "RTMIN+31", -1 }, { "RTMIN+", -1 },
		{ "RTMIN-1", -1 },    { "RTMIN+-1", -1 }, { "RTMAX", 64 },    { "RTMAX-1", 63 },
		{ "RTMAX-30", 34 },   { "RTMAX-31", -1 }, { "RTMAX+1", -1 },  { "RTMINX", -1 },
		{ "4294967311", -1 }, { "IOT", 6 },       { "CLD", 17 },      { "IO", 29 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct guard g = guard_new(row[i].text, strlen(row[i].text) + 1);

		is_int(signal_number(g.bytes), row[i].sig, "signal '%s'", row[i].text);
		guard_free(&g);
	}
	for (int sig = 1; sig < 32; sig++) {
		const char *name = signal_name(sig);

		ok(name && strncmp(name, "SIG", 3) == 0, "signal %d has a name", sig);
		is_str(name ? name + 3 : NULL, sigabbrev_np(sig), "that glibc gives it too");
		is_int(name ? signal_number(name) : 0, sig, "and back");
	}
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		is_int(signal_number(signal_name(sig)), sig, "%s", signal_name(sig));
	is_str(signal_name(34), "SIGRTMIN", "the first real-time signal");
	is_str(signal_name(64), "SIGRTMIN+30", "the last");
	ok(!signal_name(0) && !signal_name(-1) && !signal_name(32) && !signal_name(33) &&
		   !signal_name(65),
	   "numbers without a name");
}

static void test_numbers(void)
{
	static const uint32_t numbers[] = { 0, 7, 10, 99, 100, 65536, 999999999, UINT32_MAX };
	char text[16], want[16];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		memset(text, 'x', sizeof(text));
		(void)snprintf(want, sizeof(want), "%u", numbers[i]);
		ok(text_put_u32(text, numbers[i]) == text + strlen(want), "%s: its end", want);
		is_str(text, want, "its digits");
		ok(text[strlen(want) + 1] == 'x', "and no more");
	}
}

int main(void)
{
	test_names();
	test_numbers();
	test_ids();
	test_times();
	test_bad_times();
	test_escape();
	test_signals();
	return tap_done();
}
