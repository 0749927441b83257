/* request_set.c - `set KEY VALUE`: a key of a request without the quoting of JSON
 *
 * KEY becomes the path of an object, VALUE a string; where the key wants a number
 * or true and false, the string is read as one.  So every key of the table can be set, those of later
 * versions too, without a second table of types.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "sandbox/request-internal.h"

static const char *const not_settable[] = { "cmd", "id" };

/* {"a":{"b":value}} for "a.b". Takes `value`. NULL: no memory. */
static cJSON *nest(const char *key, cJSON *value)
{
	const char *dot = strchr(key, '.');
	auto_free char *name = dot ? strndup(key, (size_t)(dot - key)) : strdup(key);
	cJSON *obj = cJSON_CreateObject();
	cJSON *inner = dot && value ? nest(dot + 1, value) : value;

	if (!name || !obj || !inner || !cJSON_AddItemToObject(obj, name, inner)) {
		cJSON_Delete(obj);
		cJSON_Delete(inner);
		return NULL;
	}
	return obj;
}

static int take(struct exec_request *req, const char *key, cJSON *value, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *doc = nest(key, value);

	return doc ? exec_request_take_defaults(req, doc, err)
		   : err_set(err, ENOMEM, "set '%s'", key);
}

static bool is_number(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return end != text && !*end;
}

/* What goes with nothing else that is there is not set. */
static int check(struct exec_request *req, const struct exec_request *was, struct err *err)
{
	int r = request_check_pty(req, err);

	if (r < 0) {
		req->stdin_mode = was->stdin_mode;
		req->stdout_mode = was->stdout_mode;
		req->stderr_mode = was->stderr_mode;
		req->pty = was->pty;
	}
	return r;
}

int exec_request_set(struct exec_request *req, const char *key, const char *value, struct err *err)
{
	const struct exec_request was = *req; /* for what is in it by value */
	struct err why = { 0 };
	double number;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(not_settable); i++)
		if (strcmp(key, not_settable[i]) == 0)
			return err_say(err, EINVAL, "set: '%s' is what is written to cmd", key);
	if (!*key || *key == '.' || strstr(key, "..") || key[strlen(key) - 1] == '.')
		return err_say(err, EINVAL, "set: '%s' is no key", key);
	if (!utf8_valid(key, strlen(key)))
		return err_say(err, EINVAL, "set: the key is not UTF-8");
	if (!utf8_valid(value, strlen(value)))
		return err_say(err, EINVAL, "set %s: the value is not UTF-8", key);
	r = take(req, key, cJSON_CreateString(value), &why);
	if (r == -EINVAL && is_number(value, &number))
		r = take(req, key, cJSON_CreateNumber(number), &why);
	if (r == -EINVAL && (strcmp(value, "true") == 0 || strcmp(value, "false") == 0))
		r = take(req, key, cJSON_CreateBool(*value == 't'), &why);
	if (r == 0)
		r = check(req, &was, &why);
	return r < 0 ? err_say(err, -r, "set: %s", why.msg) : 0;
}
