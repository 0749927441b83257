/* spec.c - what a sandbox is made from */
#include "sandbox/request-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
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

static int take_hostname(void *obj, const cJSON *value, struct err *err)
{
	struct spec *spec = obj;
	const char *name = NULL;
	int r = json_get_string(value, &name, err);

	if (r < 0)
		return r;
	if (name_fault(name))
		return err_say(err, EINVAL, "%s", name_fault(name));
	(void)snprintf(spec->hostname, sizeof(spec->hostname), "%s", name);
	return 0;
}

static int take_image(void *obj, const cJSON *value, struct err *err)
{
	const char *name = NULL;
	int r = json_get_string(value, &name, err);

	(void)obj;
	if (r == 0 && strcmp(name, "host") != 0)
		r = err_say(err, EINVAL, "'%s': this version has the image 'host' only", name);
	return r;
}

/* The commands' keys that make sense for all of them. */
static int take_exec(void *obj, const cJSON *value, struct err *err)
{
	static const char *const known[] = { "timeout_s", "stdin", "output_limit" };
	const cJSON *item;

	if (!cJSON_IsObject(value))
		return err_say(err, EINVAL, "must be an object");
	cJSON_ArrayForEach (item, value) {
		bool found = false;

		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			found |= strcmp(item->string, known[i]) == 0;
		if (!found)
			return err_say(err, EINVAL,
				       "unknown key '%s'; known: timeout_s, stdin, output_limit",
				       item->string);
	}
	return exec_request_take_defaults(&((struct spec *)obj)->exec, value, err);
}

static int take_output_max(void *obj, const cJSON *value, struct err *err)
{
	uint64_t *max = &((struct spec *)obj)->output_max, n;
	int r = json_get_size(value, &n, err);

	if (r == 0 && n == 0)
		r = err_say(err, EINVAL, "must be at least 1");
	if (r == 0)
		*max = n;
	return r;
}

static const struct json_key limit_keys[] = {
	{ "output", take_output_max, "bytes of output that are kept of all its commands" },
};

static int take_limits(void *obj, const cJSON *value, struct err *err)
{
	if (!cJSON_IsObject(value))
		return err_say(err, EINVAL, "must be an object");
	return json_take_keys(value, "limits", limit_keys, ARRAY_SIZE(limit_keys), obj, err);
}

static int take_labels(void *obj, const cJSON *value, struct err *err)
{
	return request_take_env(&((struct spec *)obj)->labels, value, err);
}

static int take_seconds(double *ret, const cJSON *value, struct err *err)
{
	int r = json_get_number(value, ret, err);

	if (r == 0 && *ret < 0)
		r = err_say(err, EINVAL, "must not be negative");
	return r;
}

static int take_ttl(void *obj, const cJSON *value, struct err *err)
{
	return take_seconds(&((struct spec *)obj)->ttl_s, value, err);
}

static int take_idle(void *obj, const cJSON *value, struct err *err)
{
	return take_seconds(&((struct spec *)obj)->idle_timeout_s, value, err);
}

/* --- mounts --- */

static int take_path(char **ret, const cJSON *value, struct err *err)
{
	free(TAKE_PTR(*ret));
	return request_take_cwd(ret, value, err);
}

static int take_source(void *obj, const cJSON *value, struct err *err)
{
	return take_path(&((struct spec_mount *)obj)->source, value, err);
}

static int take_target(void *obj, const cJSON *value, struct err *err)
{
	return take_path(&((struct spec_mount *)obj)->target, value, err);
}

static int take_readonly(void *obj, const cJSON *value, struct err *err)
{
	return json_get_bool(value, &((struct spec_mount *)obj)->readonly, err);
}

/* What a sandbox cannot do without: a command would find no loader, no user, no device.  What lies
 * below the first ones is not for mounts either. */
static const struct {
	const char *path;
	bool below;
} kept_targets[] = {
	{ "/proc", true },  { "/sys", true },    { "/dev", true },       { "/usr", true },
	{ "/bin", true },   { "/sbin", true },   { "/lib", true },       { "/lib32", true },
	{ "/lib64", true }, { "/libx32", true }, { "/run/hutch", true }, { "/run", false },
	{ "/etc", false },  { "/", false },
};

/* Writes `path` without doubled slashes and one at the end. 0 or an error. */
static int plain_path(char *path, struct err *err)
{
	const char *at = path;
	char *to = path;

	while (*(at += strspn(at, "/"))) {
		size_t len = strcspn(at, "/");

		if (strncmp(at, "..", len) == 0)
			return err_say(err, EINVAL, "must be a path without '.' and '..'");
		if (len > NAME_MAX)
			return err_say(err, ENAMETOOLONG, "a part of it is longer than %d bytes",
				       NAME_MAX);
		*to++ = '/';
		memmove(to, at, len);
		to += len;
		at += len;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
	return 0;
}

static int check_target(const struct spec *spec, const struct spec_mount *m, struct err *err)
{
	int r = plain_path(m->target, err);

	if (r < 0)
		return err_wrap(err, r, "target");
	for (size_t i = 0; i < ARRAY_SIZE(kept_targets); i++) {
		size_t len = strlen(kept_targets[i].path);
		char behind =
			strncmp(m->target, kept_targets[i].path, len) == 0 ? m->target[len] : '?';

		if (behind == '\0' || (behind == '/' && kept_targets[i].below))
			return err_say(err, EINVAL, "target '%s': '%s' is the sandbox's own",
				       m->target, kept_targets[i].path);
	}
	for (const struct spec_mount *other = spec->mounts; other < m; other++)
		if (strcmp(other->target, m->target) == 0)
			return err_say(err, EINVAL, "target '%s': is there twice", m->target);
	return 0;
}

static const struct json_key mount_keys[] = {
	{ "source", take_source,
	  "a directory of the host: your own, or one that the config allows" },
	{ "target", take_target, "absolute path in the sandbox" },
	{ "readonly", take_readonly, "true, the default; false for your own directories only" },
};

static int take_mount(struct spec *spec, const cJSON *item, struct err *err)
{
	struct spec_mount *m = &spec->mounts[spec->mounts_n++];
	int r;

	*m = (struct spec_mount){ .readonly = true };
	if (!cJSON_IsObject(item))
		return err_say(err, EINVAL, "must be an object");
	r = json_take_keys(item, "mount", mount_keys, ARRAY_SIZE(mount_keys), m, err);
	if (r == 0 && (!m->source || !m->target))
		r = err_say(err, EINVAL, "needs a source and a target");
	return r < 0 ? r : check_target(spec, m, err);
}

static int take_mounts(void *obj, const cJSON *value, struct err *err)
{
	struct spec *spec = obj;
	const cJSON *item;

	if (!cJSON_IsArray(value))
		return err_say(err, EINVAL, "must be an array of objects");
	if (cJSON_GetArraySize(value) > SPEC_MOUNTS_MAX)
		return err_say(err, E2BIG, "more than %d of them", SPEC_MOUNTS_MAX);
	spec->mounts = calloc((size_t)cJSON_GetArraySize(value) + 1, sizeof(*spec->mounts));
	if (!spec->mounts)
		return err_set(err, ENOMEM, "copy");
	cJSON_ArrayForEach (item, value) {
		int r = take_mount(spec, item, err);

		if (r < 0)
			return err_wrap(err, r, "number %zu", spec->mounts_n);
	}
	return 0;
}

const struct json_key spec_keys[] = {
	{ "name", take_name, "the sandbox's id; without one it is made up" },
	{ "image", take_image, "\"host\", the default: the host's /usr, read-only" },
	{ "env", take_env, "object of strings: the environment of every command" },
	{ "cwd", take_cwd, "absolute path: where commands begin, unless they say otherwise" },
	{ "user", take_user,
	  "who commands run as: a name in the sandbox's passwd, UID or UID:GID" },
	{ "hostname", take_hostname, "default: the id" },
	{ "mounts", take_mounts, "array of {source, target, readonly}: directories of the host" },
	{ "exec", take_exec, "defaults of its commands: timeout_s, stdin, output_limit" },
	{ "limits", take_limits, "object: output, the bytes that are kept of all its commands" },
	{ "ttl_s", take_ttl, "seconds after which it is removed; 0: never" },
	{ "idle_timeout_s", take_idle,
	  "seconds without a command after which it is stopped; 0: never" },
	{ "labels", take_labels, "object of strings: yours" },
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
	env_done(&spec->labels);
	exec_request_done(&spec->exec);
	for (size_t i = 0; i < spec->mounts_n; i++) {
		free(spec->mounts[i].source);
		free(spec->mounts[i].target);
	}
	free(spec->mounts);
	free(spec->cwd);
	free(spec->user);
	*spec = (struct spec){ 0 };
}

static int print_mounts(const struct spec *spec, struct buf *out)
{
	int r = buf_printf(out, ",\"mounts\":[");

	for (size_t i = 0; r == 0 && i < spec->mounts_n; i++) {
		const struct spec_mount *m = &spec->mounts[i];

		r = buf_printf(out, "%s{\"readonly\":%s", i ? "," : "",
			       m->readonly ? "true" : "false");
		if (r == 0)
			r = request_print_string(out, "source", m->source);
		if (r == 0)
			r = request_print_string(out, "target", m->target);
		if (r == 0)
			r = buf_printf(out, "}");
	}
	return r < 0 ? r : buf_printf(out, "]");
}

static int print_exec(const struct spec *spec, struct buf *out)
{
	const struct exec_request *exec = &spec->exec;

	return buf_printf(
		out,
		",\"exec\":{\"timeout_s\":%.15g,\"stdin\":\"%s\",\"output_limit\":%" PRIu64 "}",
		exec->timeout_s > 0 ? exec->timeout_s : 0,
		exec->stdin_mode == EXEC_STDIO_NULL ? "null" : "pipe",
		exec_request_output_limit(exec));
}

int spec_print(const struct spec *spec, struct buf *out)
{
	int r = buf_printf(out, "{\"name\":\"%s\",\"image\":\"host\"", spec->id);

	if (r == 0)
		r = request_print_env(out, "env", &spec->env);
	if (r == 0)
		r = request_print_string(out, "cwd", spec->cwd ? spec->cwd : "");
	if (r == 0)
		r = request_print_string(out, "user", spec->user ? spec->user : "0");
	if (r == 0)
		r = request_print_string(out, "hostname",
					 *spec->hostname ? spec->hostname : spec->id);
	if (r == 0)
		r = print_mounts(spec, out);
	if (r == 0)
		r = print_exec(spec, out);
	if (r == 0 && spec->output_max)
		r = buf_printf(out, ",\"limits\":{\"output\":%" PRIu64 "}", spec->output_max);
	if (r == 0)
		r = buf_printf(out, ",\"ttl_s\":%.15g,\"idle_timeout_s\":%.15g", spec->ttl_s,
			       spec->idle_timeout_s);
	if (r == 0)
		r = request_print_env(out, "labels", &spec->labels);
	return r < 0 ? r : buf_printf(out, "}");
}
