/* spec.c - what a sandbox is made from */
#include "sandbox/request-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static int take_name(void *obj, const cJSON *value, struct err *err)
{
	struct spec *spec = obj;
	const char *name;
	int r = json_get_string(value, &name, err);

	if (r < 0)
		return r;
	if (name_fault(name))
		return err_say(err, EINVAL, "%s", name_fault(name));
	(void)snprintf(spec->id, sizeof(spec->id), "%s", name);
	return 0;
}

static int take_env(void *obj, const cJSON *value, struct err *err)
{
	return request_take_env(&((struct spec *)obj)->env, value, err);
}

static int take_cwd(void *obj, const cJSON *value, struct err *err)
{
	return request_take_cwd(&((struct spec *)obj)->cwd, value, err);
}

static int take_user(void *obj, const cJSON *value, struct err *err)
{
	return request_take_user(&((struct spec *)obj)->user, value, err);
}

const struct json_key spec_keys[] = {
	{ "name", take_name, "the sandbox's id; without one it is made up" },
	{ "env", take_env, "object of strings: the environment of every command" },
	{ "cwd", take_cwd, "absolute path: where commands begin, unless they say otherwise" },
	{ "user", take_user,
	  "who commands run as: a name in the sandbox's passwd, UID or UID:GID" },
};
const size_t spec_keys_n = ARRAY_SIZE(spec_keys);

static bool blank(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!memchr(" \t\r\n", bytes[i], 4))
			return false;
	return true;
}

int spec_parse(struct spec *ret, const char *bytes, size_t len, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *doc = NULL;
	struct err why = { 0 };

	if (blank(bytes, len)) {
		*ret = (struct spec){ 0 };
		return 0;
	}
	doc = json_parse(bytes, len, REQUEST_MAX, &why);
	return doc ? spec_take(ret, doc, err) : err_say(err, why.code, "%s", why.msg);
}

int spec_take(struct spec *ret, const cJSON *doc, struct err *err)
{
	struct spec spec = { 0 };
	int r;

	if (!cJSON_IsObject(doc))
		return err_say(err, EINVAL, "a spec is a JSON object, or an empty line");
	r = json_take_keys(doc, "spec", spec_keys, spec_keys_n, &spec, err);
	if (r < 0) {
		spec_done(&spec);
		return r;
	}
	*ret = spec;
	return 0;
}

void spec_done(struct spec *spec)
{
	env_done(&spec->env);
	free(spec->cwd);
	free(spec->user);
	*spec = (struct spec){ 0 };
}

int spec_print(const struct spec *spec, struct buf *out)
{
	int r = buf_printf(out, "{\"name\":\"%s\",\"image\":\"host\"", spec->id);

	if (r == 0)
		r = request_print_env(out, &spec->env);
	if (r == 0)
		r = request_print_string(out, "cwd", spec->cwd);
	if (r == 0)
		r = request_print_string(out, "user", spec->user ? spec->user : "0");
	return r < 0 ? r : buf_printf(out, "}\n");
}
