/* json.h - JSON that came from somebody, over cJSON
 *
 * cJSON does the parsing; this file puts limits around it and says what was
 * wrong in a sentence.  Refused, other than by cJSON: more than `max` bytes,
 * nesting deeper than JSON_DEPTH_MAX, bytes that are not UTF-8, a byte order mark,
 * a NUL byte or an escaped one (cJSON's strings end there, so what follows would be
 * lost), a key that is given twice at any level, and anything but white space
 * behind the document.  Sentences are clauses that go behind the document's name
 * ("is not JSON at byte 17"); bytes and lines count from 1.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"

#define JSON_DEPTH_MAX 32

/* Finds where a document ends while its pieces arrive. */
enum json_scan_state {
	JSON_SCAN_MORE, /* the document goes on */
	JSON_SCAN_DONE, /* its last byte was seen */
	JSON_SCAN_BAD,  /* brackets do not match, or deeper than JSON_DEPTH_MAX */
};

struct json_scan {
	enum json_scan_state state;
	unsigned depth;
	bool in_string, escaped;
	char open[JSON_DEPTH_MAX]; /* the brackets that are open, outermost first */
};

/* `scan` begins as all zeroes; the first byte that is not white space must be { or [.
 * Returns how many of the bytes were looked at: up to and with the document's last. */
size_t json_scan_feed(struct json_scan *, const char *bytes, size_t len);

DEFINE_AUTO(cJSON *, cJSON_Delete);

/* Returns the document, to be freed with cJSON_Delete, or NULL with EINVAL, E2BIG or ENOMEM. */
cJSON *json_parse(const char *bytes, size_t len, size_t max, struct err *);

/* One key of an object that a user may give. */
struct json_key {
	const char *name;
	/* Takes the value into `obj`: 0, or a negative errno with a sentence about the value
	 * ("must be a string"); the key's name is prepended by json_take_keys(). */
	int (*take)(void *obj, const cJSON *value, struct err *);
	const char *doc; /* one line, for help and man page */
};

/* Calls take() for each member; unknown keys are EINVAL, naming the key and those that
 * are known.  `what` is what the object is, for sentences: "request: cwd: must be a string". */
int json_take_keys(const cJSON *obj, const char *what, const struct json_key *keys, size_t n,
		   void *arg, struct err *);

/* Checks of one value; on failure "must be …" with -EINVAL. */
int json_get_string(const cJSON *, const char **ret, struct err *); /* borrowed from the value */
int json_get_number(const cJSON *, double *ret, struct err *);      /* finite */
int json_get_bool(const cJSON *, bool *ret, struct err *);
/* Bytes: a whole number that is not negative, or a string with K, M, G or T behind it, which count
 * by 1024. */
int json_get_size(const cJSON *, uint64_t *ret, struct err *);

/* From an object that we wrote ourselves: the number `key`, its fraction cut off, if it lies in
 * [min, max], and else `missing`. JSON holds whole numbers up to 2^53: that much either way is what
 * the bounds may be. */
#define JSON_INT_MAX (INT64_C(1) << 53)
int64_t json_int(const cJSON *obj, const char *key, int64_t min, int64_t max, int64_t missing);
/* The same for what any uint32_t may be, and 0 is nothing. */
uint32_t json_uint32(const cJSON *obj, const char *key);

/* Is this UTF-8, without surrogates and over-long forms? */
bool utf8_valid(const char *bytes, size_t len);
/* Appends the bytes as a JSON string with quotes; what is not UTF-8 becomes U+FFFD. */
int json_put_string(struct buf *, const char *bytes, size_t len);
