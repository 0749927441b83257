/* err.h - one error value, from a namespace's set-up to errno to an HTTP body
 *
 * A function that can fail returns 0 (or a count >= 0), or a negative errno,
 * and takes a `struct err *` last, which may be NULL.  Success leaves it alone.
 * The sentence names the object, what was tried and why; each boundary that
 * knows a better name for the object prepends it with err_wrap().  Library code
 * never logs: the edge does, once.
 */
#pragma once

#include <stdarg.h>

#define ERR_MSG_MAX 508

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* Flat, without pointers, so that it crosses a pipe in one write. */
struct err {
	int code; /* a positive errno, 0 = none */
	char msg[ERR_MSG_MAX];
};

/* Sets "fmt: strerror(code)".  Returns -code.  A text that is too long is cut. */
int err_set(struct err *, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Sets the sentence as it is, for refusals that say more than strerror. Returns -code. */
int err_say(struct err *, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Prepends "fmt: " to the sentence.  Returns r, so that it can stand in a return.  Where nothing
 * was said yet (err->code is 0) the sentence is "fmt: strerror(-r)". */
int err_wrap(struct err *, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);

#ifdef __clang_analyzer__
/* It reads one file at a time and would follow paths on which these return 0. */
static inline int err_negative_(int r)
{
	if (r >= 0)
		__builtin_unreachable();
	return r;
}
#define err_set(...) err_negative_(err_set(__VA_ARGS__))
#define err_say(...) err_negative_(err_say(__VA_ARGS__))
#define err_wrap(err, r, ...)                         \
	({                                            \
		int r_ = (r);                         \
                                                      \
		(void)err_wrap(err, r_, __VA_ARGS__); \
		r_;                                   \
	})
#endif
