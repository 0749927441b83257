/* tap.h - the whole unit-test framework
 *
 * A test program prints TAP and exits non-zero if anything failed; run it by
 * hand, under gdb, or with prove(1).  Cases are rows of a table where that can be.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_n, tap_failed;

/* Takes a condition and a printf sentence that names the case. */
#define ok(cond, ...)                                                       \
	do {                                                                \
		int ok_ = !!(cond);                                         \
                                                                            \
		printf("%sok %d - ", ok_ ? "" : "not ", ++tap_n);           \
		printf(__VA_ARGS__);                                        \
		printf("\n");                                               \
		if (!ok_) {                                                 \
			tap_failed++;                                       \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond); \
		}                                                           \
	} while (0)

#define is_int(got, want, ...)                                            \
	do {                                                              \
		long long gi_ = (got), wi_ = (want);                      \
                                                                          \
		ok(gi_ == wi_, __VA_ARGS__);                              \
		if (gi_ != wi_)                                           \
			printf("#   got %lld\n#  want %lld\n", gi_, wi_); \
	} while (0)

#define is_str(got, want, ...)                                                       \
	do {                                                                         \
		const char *gs_ = (got), *ws_ = (want);                              \
		int same_ = gs_ && ws_ ? strcmp(gs_, ws_) == 0 : gs_ == ws_;         \
                                                                                     \
		ok(same_, __VA_ARGS__);                                              \
		if (!same_)                                                          \
			printf("#   got '%s'\n#  want '%s'\n", gs_ ? gs_ : "(null)", \
			       ws_ ? ws_ : "(null)");                                \
	} while (0)

/* So many seconds in nanoseconds; a slow machine has $HUTCH_PATIENCE times as many. */
static inline int64_t patience(int seconds)
{
	const char *times = getenv("HUTCH_PATIENCE");
	int n = times ? atoi(times) : 1;

	return seconds * INT64_C(1000000000) * (n > 0 ? n : 1);
}

static inline int tap_done(void)
{
	printf("1..%d\n", tap_n);
	return tap_failed != 0;
}
