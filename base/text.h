/* text.h - names, times and one-line text */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"

#define NAME_MAX_LEN 64

/* 1-64 characters of A-Z a-z 0-9 . _ -, not beginning with a dot or a dash. */
bool name_valid(const char *name);
/* NULL if valid, else what is wrong with it: a clause that goes behind "name 'x': ". */
const char *name_fault(const char *name);
/* Appends the decimal digits, as sprintf() does in a twentieth of the time, with a NUL behind them, and
 * returns where that is: at most 10 bytes further. */
char *text_put_u32(char *at, uint32_t n);
/* Digits only: the numbers that exec nodes get by themselves. */
bool name_is_number(const char *name);

/* Writes 13 characters of lower-case base32hex (65 random bits are drawn) and a NUL. */
#define RANDOM_ID_LEN 13
void random_id(char out[RANDOM_ID_LEN + 1]);

/* RFC 3339 in UTC with milliseconds: 2026-01-31T12:00:00.123Z */
#define RFC3339_LEN 24
void rfc3339(char out[RFC3339_LEN + 1], const struct timespec *);
/* The reverse of rfc3339(); false if it is not of that form. */
bool rfc3339_parse(const char *text, struct timespec *ret);

/* The length of the UTF-8 sequence at the front (1-4; no surrogates, no over-long forms) and its
 * code point, which may be NULL; 0 if there is none. */
size_t utf8_next(const char *bytes, size_t len, uint32_t *ret_point);
/* False for what moves a terminal's cursor or reorders a line: C0, DEL, C1, line and paragraph
 * separators, bidirectional controls. */
bool text_printable(uint32_t point);
/* Appends text as one line: what is not printable, backslash, and what is not UTF-8, as \n, \t,
 * \r, \\ and \xNN per byte.  0, or as buf_add(), nothing appended. */
int text_escape(struct buf *, const char *bytes, size_t len);

/* "SIGTERM" for 15; NULL for a number without a name. */
const char *signal_name(int sig);
/* TERM, SIGTERM or 15; RTMIN, RTMIN+n, RTMAX, RTMAX-n too. -1 if unknown. */
int signal_number(const char *name);
