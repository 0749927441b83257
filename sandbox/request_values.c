/* request_values.c - the values that a spec and a command's request have in common */
#include "sandbox/request-internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/text.h"

static int replace(char **ret, const char *text, struct err *err)
{
	char *copy = strdup(text);

	if (!copy)
		return err_set(err, ENOMEM, "copy a value");
	free(*ret);
	*ret = copy;
	return 0;
}

static int check_env_key(const char *key, struct err *err)
{
	if (!*key || strchr(key, '='))
		return err_say(err, EINVAL, "is no name of a variable");
	return 0;
}

int request_take_env(struct env *ret, const cJSON *value, struct err *err)
{
	const cJSON *item;

	if (!cJSON_IsObject(value))
		return err_say(err, EINVAL, "must be an object of strings");
	cJSON_ArrayForEach (item, value) {
		const char *text = NULL;
		int r = check_env_key(item->string, err);

		if (r == 0)
			r = json_get_string(item, &text, err);
		if (r == 0 && strlen(item->string) + 1 + strlen(text) > REQUEST_ARG_MAX)
			r = err_say(err, E2BIG, "is longer than %d bytes", REQUEST_ARG_MAX);
		if (r == 0 && env_set(ret, item->string, text) < 0)
			r = err_set(err, ENOMEM, "copy a value");
		if (r < 0)
			return err_wrap(err, r, "'%s'", item->string);
	}
	return 0;
}

int request_take_cwd(char **ret, const cJSON *value, struct err *err)
{
	const char *text = NULL;
	int r = json_get_string(value, &text, err);

	if (r < 0)
		return r;
	if (!*text) /* as if it were not given */
		return 0;
	if (*text != '/')
		return err_say(err, EINVAL, "must be an absolute path in the sandbox");
	if (strlen(text) >= PATH_MAX)
		return err_say(err, ENAMETOOLONG, "is longer than %d bytes", PATH_MAX - 1);
	return replace(ret, text, err);
}

/* "NAME", "UID" or "UID:GID"; whether the name exists is the sandbox's passwd's to say. */
static bool user_valid(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (digits > 0 && digits <= 10) {
		if (!text[digits])
			return true;
		if (text[digits] == ':') {
			size_t group = strspn(text + digits + 1, "0123456789");

			return group > 0 && group <= 10 && !text[digits + 1 + group];
		}
	}
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return false;
	return *text && *text != '-' && strlen(text) <= NAME_MAX_LEN && !name_is_number(text);
}

int request_take_user(char **ret, const cJSON *value, struct err *err)
{
	const char *text = NULL;
	int r = json_get_string(value, &text, err);

	if (r < 0)
		return r;
	if (!user_valid(text))
		return err_say(err, EINVAL,
			       "must be a name in the sandbox's passwd, UID or UID:GID");
	return replace(ret, text, err);
}

int request_print_string(struct buf *out, const char *key, const char *value)
{
	int r = buf_printf(out, ",\"%s\":", key);

	if (r < 0)
		return r;
	return value ? json_put_string(out, value, strlen(value)) : buf_printf(out, "null");
}

int request_print_env(struct buf *out, const char *name, const struct env *env)
{
	int r = buf_printf(out, ",\"%s\":{", name);

	for (size_t i = 0; r == 0 && i < env->n; i++) {
		size_t key_len = strcspn(env->v[i], "=");
		const char *value = env->v[i] + key_len + 1;

		if (i)
			r = buf_printf(out, ",");
		if (r == 0)
			r = json_put_string(out, env->v[i], key_len);
		if (r == 0)
			r = buf_printf(out, ":");
		if (r == 0)
			r = json_put_string(out, value, strlen(value));
	}
	return r < 0 ? r : buf_printf(out, "}");
}
