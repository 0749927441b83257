/* err.c - see err.h
 *
 * Runs between clone and exec too, so nothing here allocates; hence
 * strerrordesc_np(), which neither allocates nor asks for the locale.
 */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

#undef err_set
#undef err_say
#undef err_wrap

/* Drops the beginning of a UTF-8 sequence that the cut at `len` left behind. */
static size_t trim_cut(const char *text, size_t len)
{
	size_t at = len;

	while (at > 0 && len - at < 3 && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
		at--;
	if (at > 0 && (unsigned char)text[at - 1] >= 0xc0) {
		unsigned char lead = (unsigned char)text[at - 1];
		size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

		if (len - (at - 1) < need)
			return at - 1;
	}
	return len;
}

/* Appends at *at, and moves it. */
static void put(char *msg, size_t *at, const char *text)
{
	size_t room = ERR_MSG_MAX - 1 - *at, len = strnlen(text, room + 1);

	if (len > room)
		len = trim_cut(text, room);
	memcpy(msg + *at, text, len);
	*at += len;
	msg[*at] = '\0';
}

static void format(char text[ERR_MSG_MAX], const char *fmt, va_list ap)
{
	if (vsnprintf(text, ERR_MSG_MAX, fmt, ap) >= ERR_MSG_MAX)
		text[trim_cut(text, ERR_MSG_MAX - 1)] = '\0';
}

static void put_code(char *msg, size_t *at, int code)
{
	const char *what = strerrordesc_np(code);
	char number[32];

	if (!what) {
		(void)snprintf(number, sizeof(number), "error %d", code);
		what = number;
	}
	put(msg, at, what);
}

/* In all three the text is made aside first: an argument may point into err->msg. */

int err_set(struct err *err, int code, const char *fmt, ...)
{
	char text[ERR_MSG_MAX];
	size_t at = 0;
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	format(text, fmt, ap);
	va_end(ap);
	put(err->msg, &at, text);
	put(err->msg, &at, ": ");
	put_code(err->msg, &at, code);
	err->code = code;
	return -code;
}

int err_say(struct err *err, int code, const char *fmt, ...)
{
	char text[ERR_MSG_MAX];
	size_t at = 0;
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	format(text, fmt, ap);
	va_end(ap);
	put(err->msg, &at, text);
	err->code = code;
	return -code;
}

int err_wrap(struct err *err, int r, const char *fmt, ...)
{
	char text[ERR_MSG_MAX], inner[ERR_MSG_MAX];
	size_t at = 0;
	va_list ap;

	if (!err)
		return r;
	va_start(ap, fmt);
	format(text, fmt, ap);
	va_end(ap);
	memcpy(inner, err->msg, sizeof(inner));
	inner[sizeof(inner) - 1] = '\0';
	put(err->msg, &at, text);
	put(err->msg, &at, ": ");
	if (err->code) {
		put(err->msg, &at, inner);
	} else {
		put_code(err->msg, &at, -r);
		err->code = -r;
	}
	return r;
}
