/* json.c - see json.h
 *
 * Two passes: check() goes over the bytes once, knowing no more of JSON than
 * strings and brackets, and refuses what cJSON would accept and should not, or
 * would report badly; then cJSON parses; then the tree is searched for keys that
 * are given twice.  All of it is O(n log n) in the length of the document, and
 * recursion is bounded by JSON_DEPTH_MAX: the bytes are a stranger's.
 *
 * Left as lenient as cJSON is: control characters as they are inside strings,
 * which makes a script with real newlines in a quoted JSON string work.
 */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

#define KEY_SHOWN_MAX 64 /* bytes of a stranger's key in a sentence */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Takes one byte inside a document.  False: brackets do not match, or too deep. */
static bool scan_byte(struct json_scan *scan, char c)
{
	if (scan->in_string) {
		if (scan->escaped)
			scan->escaped = false;
		else if (c == '\\')
			scan->escaped = true;
		else if (c == '"')
			scan->in_string = false;
		return true;
	}
	if (c == '"') {
		scan->in_string = true;
	} else if (c == '{' || c == '[') {
		if (scan->depth == JSON_DEPTH_MAX)
			return false;
		scan->open[scan->depth++] = c;
	} else if (c == '}' || c == ']') {
		if (scan->depth == 0 || scan->open[scan->depth - 1] != (c == '}' ? '{' : '['))
			return false;
		scan->depth--;
	}
	return true;
}

size_t json_scan_feed(struct json_scan *scan, const char *bytes, size_t len)
{
	size_t i = 0;

	while (i < len && scan->state == JSON_SCAN_MORE) {
		char c = bytes[i++];

		if (scan->depth == 0 && is_space(c))
			continue;
		if (scan->depth == 0 && c != '{' && c != '[')
			scan->state = JSON_SCAN_BAD;
		else if (!scan_byte(scan, c))
			scan->state = JSON_SCAN_BAD;
		else if (scan->depth == 0)
			scan->state = JSON_SCAN_DONE;
	}
	return i;
}

/* "what at byte 17", counted from 1; with the line where there is more than one. */
static void refuse_at(struct err *err, const char *what, const char *bytes, size_t at)
{
	size_t line = 1;

	for (size_t i = 0; i < at; i++)
		line += bytes[i] == '\n';
	if (line > 1)
		(void)err_say(err, EINVAL, "%s at byte %zu, line %zu", what, at + 1, line);
	else
		(void)err_say(err, EINVAL, "%s at byte %zu", what, at + 1);
}

/* What is wrong with the byte or sequence at `at`; NULL: nothing.  *n is its length. */
static const char *check_one(struct json_scan *scan, const char *bytes, size_t len, size_t at,
			     size_t *n)
{
	char c = bytes[at];

	*n = utf8_next(bytes + at, len - at, NULL);
	if (*n == 0)
		return "is not UTF-8";
	if (c == '\0')
		return "holds a NUL";
	/* cJSON takes all of these for white space. */
	if (!scan->in_string && (unsigned char)c < ' ' && !is_space(c))
		return "is not JSON: control character";
	if (scan->escaped && c == 'u' && len - at >= 5 && memcmp(bytes + at, "u0000", 5) == 0)
		return "holds an escaped NUL (\\u0000)";
	if (scan_byte(scan, c))
		return NULL;
	return c == '{' || c == '[' ? "is nested too deep" : "is not JSON: bracket does not match";
}

static int check(const char *bytes, size_t len, struct err *err)
{
	struct json_scan scan = { 0 };
	size_t n;

	if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) /* cJSON would skip it */
		return err_say(err, EINVAL, "is not JSON: it begins with a byte order mark");
	for (size_t i = 0; i < len; i += n) {
		const char *wrong = check_one(&scan, bytes, len, i, &n);

		if (wrong) {
			refuse_at(err, wrong, bytes, i);
			return -EINVAL;
		}
	}
	if (scan.in_string)
		return err_say(err, EINVAL, "is not JSON: it ends inside a string");
	if (scan.depth > 0)
		return err_say(err, EINVAL, "is not JSON: it ends before '%c' is closed",
			       scan.open[scan.depth - 1]);
	return 0;
}

/* A stranger's key, fit for a sentence. The result is owned by `buf`. */
static const char *show_key(struct buf *buf, const char *key)
{
	size_t len = strlen(key), cut = 0, n;

	while (cut < len && (n = utf8_next(key + cut, len - cut, NULL)) > 0 &&
	       cut + n <= KEY_SHOWN_MAX)
		cut += n;
	if (text_escape(buf, key, cut) < 0 || (cut < len && buf_add(buf, "...", 3) < 0))
		return "...";
	return buf->data ? buf->data : "";
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, not compared pair by pair: a document of a megabyte has room for 100 000 keys. */
static int refuse_twice_here(const cJSON *obj, struct err *err)
{
	auto_free const char **keys = NULL;
	const cJSON *item;
	size_t n = 0, i = 0;

	cJSON_ArrayForEach (item, obj)
		n++;
	if (n < 2)
		return 0;
	keys = calloc(n, sizeof(*keys));
	if (!keys)
		return err_set(err, ENOMEM, "check the keys");
	cJSON_ArrayForEach (item, obj)
		keys[i++] = item->string;
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (i = 1; i < n; i++) {
		if (strcmp(keys[i - 1], keys[i]) == 0) {
			auto_buf struct buf shown = { 0 };

			return err_say(err, EINVAL, "has the key '%s' twice",
				       show_key(&shown, keys[i]));
		}
	}
	return 0;
}

static int refuse_twice(const cJSON *value, struct err *err)
{
	const cJSON *item;
	int r = cJSON_IsObject(value) ? refuse_twice_here(value, err) : 0;

	cJSON_ArrayForEach (item, value) {
		if (r < 0)
			break;
		if (item->child)
			r = refuse_twice(item, err);
	}
	return r;
}

cJSON *json_parse(const char *bytes, size_t len, size_t max, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *doc = NULL;
	const char *end = NULL;

	if (len > max) {
		(void)err_say(err, E2BIG, "is longer than %zu bytes", max);
		return NULL;
	}
	if (check(bytes, len, err) < 0)
		return NULL;
	errno = 0;
	doc = cJSON_ParseWithLengthOpts(bytes, len, &end, false);
	if (!doc && errno == ENOMEM) {
		(void)err_set(err, ENOMEM, "parse");
		return NULL;
	}
	/* Where it failed on nothing at all, cJSON points nowhere useful. */
	if (!end || end < bytes || end > bytes + len)
		end = bytes;
	if (doc)
		while (end < bytes + len && is_space(*end))
			end++;
	if (!doc || end < bytes + len) {
		refuse_at(err, doc ? "is not JSON: it goes on after its end" : "is not JSON", bytes,
			  (size_t)(end - bytes));
		return NULL;
	}
	if (refuse_twice(doc, err) < 0)
		return NULL;
	return TAKE_PTR(doc);
}

static int refuse_unknown(const char *what, const char *key, const struct json_key *keys, size_t n,
			  struct err *err)
{
	auto_buf struct buf shown = { 0 }, known = { 0 };

	for (size_t i = 0; i < n; i++)
		if (buf_printf(&known, "%s%s", i > 0 ? ", " : "", keys[i].name) < 0)
			break;
	return err_say(err, EINVAL, "%s: unknown key '%s'; known: %s", what, show_key(&shown, key),
		       known.data ? known.data : "none");
}

int json_take_keys(const cJSON *obj, const char *what, const struct json_key *keys, size_t n,
		   void *arg, struct err *err)
{
	const cJSON *item;

	if (!cJSON_IsObject(obj))
		return err_say(err, EINVAL, "%s: must be an object", what);
	cJSON_ArrayForEach (item, obj) {
		size_t i = 0;
		int r;

		while (i < n && strcmp(keys[i].name, item->string) != 0)
			i++;
		if (i == n)
			return refuse_unknown(what, item->string, keys, n, err);
		r = keys[i].take(arg, item, err);
		if (r < 0)
			return err_wrap(err, r, "%s: %s", what, keys[i].name);
	}
	return 0;
}

int json_get_string(const cJSON *value, const char **ret, struct err *err)
{
	if (!cJSON_IsString(value))
		return err_say(err, EINVAL, "must be a string");
	*ret = value->valuestring;
	return 0;
}

int json_get_number(const cJSON *value, double *ret, struct err *err)
{
	if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble))
		return err_say(err, EINVAL, "must be a number");
	*ret = value->valuedouble;
	return 0;
}

int json_get_bool(const cJSON *value, bool *ret, struct err *err)
{
	if (!cJSON_IsBool(value))
		return err_say(err, EINVAL, "must be true or false");
	*ret = cJSON_IsTrue(value);
	return 0;
}

/* "64M", "1000": -1 if it is none, or does not fit into 63 bits. */
static double size_from_text(const char *text)
{
	static const char units[] = "KMGT";
	size_t digits = strspn(text, "0123456789");
	const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
	double n;

	if (!digits || digits > 18 || (text[digits] && (!unit || text[digits + 1])))
		return -1;
	n = (double)strtoull(text, NULL, 10);
	for (const char *u = units; unit && u <= unit; u++)
		n *= 1024;
	return n;
}

int json_get_size(const cJSON *value, uint64_t *ret, struct err *err)
{
	double n = cJSON_IsString(value)   ? size_from_text(value->valuestring)
		   : cJSON_IsNumber(value) ? value->valuedouble
					   : -1;

	if (!(n >= 0 && n < 0x1p63) || n != floor(n))
		return err_say(err, EINVAL,
			       "must be a number of bytes, or a string such as \"64M\"");
	*ret = (uint64_t)n;
	return 0;
}

int64_t json_int(const cJSON *obj, const char *key, int64_t min, int64_t max, int64_t missing)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, key);

	/* Compared before it is converted: a double that does not fit is undefined behaviour. */
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= (double)min) ||
	    !(item->valuedouble <= (double)max))
		return missing;
	return (int64_t)item->valuedouble;
}

uint32_t json_uint32(const cJSON *obj, const char *key)
{
	return (uint32_t)json_int(obj, key, 0, UINT32_MAX, 0);
}

bool utf8_valid(const char *bytes, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_next(bytes + i, len - i, NULL);
		if (n == 0)
			return false;
	}
	return true;
}

static int put_point(struct buf *buf, const char *bytes, size_t n, uint32_t point)
{
	static const char short_form[] = { ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
					   ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\' };
	char two[2] = { '\\' };

	if (n == 0)
		return buf_add(buf, "\xef\xbf\xbd", 3);
	if (point < sizeof(short_form) && short_form[point]) {
		two[1] = short_form[point];
		return buf_add(buf, two, 2);
	}
	/* All that is not printable lies below U+10000, so that four digits do. */
	if (!text_printable(point))
		return buf_printf(buf, "\\u%04x", point);
	return buf_add(buf, bytes, n);
}

int json_put_string(struct buf *buf, const char *bytes, size_t len)
{
	size_t start = buf->len, n;
	int r = buf_add(buf, "\"", 1);

	for (size_t i = 0; i < len && r == 0; i += n ? n : 1) {
		uint32_t point = 0;

		n = utf8_next(bytes + i, len - i, &point);
		r = put_point(buf, bytes + i, n, point);
	}
	if (r == 0)
		r = buf_add(buf, "\"", 1);
	if (r < 0 && buf->data) {
		buf->len = start;
		buf->data[start] = '\0';
	}
	return r;
}
