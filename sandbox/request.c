/* request.c - what a command is made from
 *
 * Three forms: a JSON object, a JSON array (the argv), and text (a script).  All
 * that can be refused by looking at the bytes alone is refused here.
 */
#include "sandbox/request-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int take_argv(struct exec_request *req, const cJSON *value, struct err *err)
{
	int count = cJSON_GetArraySize(value);
	const cJSON *item;

	if (count == 0)
		return err_say(err, EINVAL, "is empty: name a program");
	req->argv = calloc((size_t)count + 1, sizeof(*req->argv));
	if (!req->argv)
		return err_set(err, ENOMEM, "copy the arguments");
	cJSON_ArrayForEach (item, value) {
		const char *text = NULL;
		int r = json_get_string(item, &text, err);

		if (r == 0 && strlen(text) > REQUEST_ARG_MAX)
			r = err_say(err, E2BIG, "is longer than %d bytes", REQUEST_ARG_MAX);
		if (r == 0 && !(req->argv[req->argc] = strdup(text)))
			r = err_set(err, ENOMEM, "copy");
		if (r < 0)
			return err_wrap(err, r, "argument %zu", req->argc);
		req->argc++;
	}
	return 0;
}

static int set_script(struct exec_request *req, const char *bytes, size_t len, struct err *err)
{
	req->script = malloc(len + 1);
	if (!req->script)
		return err_set(err, ENOMEM, "copy the script");
	memcpy(req->script, bytes, len);
	req->script[len] = '\0';
	req->script_len = len;
	return 0;
}

static int take_cmd(void *obj, const cJSON *value, struct err *err)
{
	const char *text = NULL;
	int r;

	if (cJSON_IsArray(value))
		return take_argv(obj, value, err);
	r = json_get_string(value, &text, NULL);
	if (r < 0)
		return err_say(err, EINVAL,
			       "must be an array of strings (the argv) or a string (a script)");
	return set_script(obj, text, strlen(text), err);
}

static int take_env(void *obj, const cJSON *value, struct err *err)
{
	return request_take_env(&((struct exec_request *)obj)->env, value, err);
}

static int take_cwd(void *obj, const cJSON *value, struct err *err)
{
	return request_take_cwd(&((struct exec_request *)obj)->cwd, value, err);
}

static int take_user(void *obj, const cJSON *value, struct err *err)
{
	return request_take_user(&((struct exec_request *)obj)->user, value, err);
}

static int take_timeout(void *obj, const cJSON *value, struct err *err)
{
	return json_get_number(value, &((struct exec_request *)obj)->timeout_s, err);
}

static int take_id(void *obj, const cJSON *value, struct err *err)
{
	struct exec_request *req = obj;
	const char *text;
	int r = json_get_string(value, &text, err);

	if (r < 0)
		return r;
	if (name_fault(text))
		return err_say(err, EINVAL, "%s", name_fault(text));
	if (name_is_number(text))
		return err_say(err, EINVAL, "is a number: those are given by the tree itself");
	free(req->id);
	req->id = strdup(text);
	return req->id ? 0 : err_set(err, ENOMEM, "copy");
}

static const char *const stdio_name[] = {
	[EXEC_STDIO_PIPE] = "pipe",
	[EXEC_STDIO_NULL] = "null",
	[EXEC_STDIO_MERGE] = "merge",
};

/* `last`: the highest mode that this stream may have. */
static int take_stdio(enum exec_stdio *ret, enum exec_stdio last, const cJSON *value,
		      struct err *err)
{
	const char *text = NULL;
	int r = json_get_string(value, &text, err);

	if (r < 0)
		return r;
	for (enum exec_stdio i = EXEC_STDIO_PIPE; i <= last; i++)
		if (strcmp(text, stdio_name[i]) == 0) {
			*ret = i;
			return 0;
		}
	return err_say(err, EINVAL, "must be \"pipe\"%s or \"null\"",
		       last == EXEC_STDIO_MERGE ? ", \"merge\"" : "");
}

static int take_stdin(void *obj, const cJSON *value, struct err *err)
{
	return take_stdio(&((struct exec_request *)obj)->stdin_mode, EXEC_STDIO_NULL, value, err);
}

static int take_stdout(void *obj, const cJSON *value, struct err *err)
{
	return take_stdio(&((struct exec_request *)obj)->stdout_mode, EXEC_STDIO_NULL, value, err);
}

static int take_stderr(void *obj, const cJSON *value, struct err *err)
{
	return take_stdio(&((struct exec_request *)obj)->stderr_mode, EXEC_STDIO_MERGE, value, err);
}

static int take_output_limit(void *obj, const cJSON *value, struct err *err)
{
	uint64_t *limit = &((struct exec_request *)obj)->output_limit, n;
	int r = json_get_size(value, &n, err);

	if (r == 0 && n == 0)
		r = err_say(err, EINVAL,
			    "must be at least 1; without output: stdout and stderr \"null\"");
	if (r == 0)
		*limit = n;
	return r;
}

static int take_on_full(void *obj, const cJSON *value, struct err *err)
{
	const char *text = NULL;
	int r = json_get_string(value, &text, err);

	if (r < 0)
		return r;
	if (strcmp(text, "wait") != 0 && strcmp(text, "drop") != 0)
		return err_say(err, EINVAL, "must be \"wait\" or \"drop\"");
	((struct exec_request *)obj)->drops = *text == 'd';
	return 0;
}

static int take_keep(void *obj, const cJSON *value, struct err *err)
{
	return json_get_bool(value, &((struct exec_request *)obj)->keep, err);
}

static int take_pty(void *obj, const cJSON *value, struct err *err)
{
	return request_take_pty(&((struct exec_request *)obj)->pty, value, err);
}

const struct json_key exec_request_keys[] = {
	{ "cmd", take_cmd,
	  "array: the argv; string: a script for /bin/sh, or for its own #! line" },
	{ "env", take_env, "object of strings, over the sandbox's environment" },
	{ "cwd", take_cwd, "absolute path; default: the user's home" },
	{ "timeout_s", take_timeout, "number, fractions allowed; 0 or less: none, the default" },
	{ "user", take_user, "a name in the sandbox's passwd, UID or UID:GID; default: 0" },
	{ "stdin", take_stdin, "\"pipe\", the default, or \"null\": at its end from the start" },
	{ "stdout", take_stdout, "\"pipe\", the default, or \"null\"" },
	{ "stderr", take_stderr, "\"pipe\", the default, \"merge\" (into stdout) or \"null\"" },
	{ "output_limit", take_output_limit,
	  "bytes that each stream keeps, a number or \"64M\"; default: 256M" },
	{ "on_full", take_on_full,
	  "what a full stream does: \"wait\" for a reader, the default, or \"drop\" the rest" },
	{ "keep", take_keep, "true: its output is never given back, whatever is read" },
	{ "pty", take_pty,
	  "object {rows, cols, term}: a terminal instead of pipes; default: {\"rows\": 24, "
	  "\"cols\": 80}" },
	{ "id", take_id, "the node's name; the same request with the same id runs once" },
};
const size_t exec_request_keys_n = ARRAY_SIZE(exec_request_keys);

int exec_request_take_defaults(struct exec_request *req, const cJSON *doc, struct err *err)
{
	return json_take_keys(doc, "request", exec_request_keys, exec_request_keys_n, req, err);
}

/* What a request begins with. */
static int begin(struct exec_request *req, const struct exec_request *base)
{
	*req = (struct exec_request){ 0 };
	if (!base)
		return 0;
	req->timeout_s = base->timeout_s;
	req->output_limit = base->output_limit;
	req->drops = base->drops;
	req->keep = base->keep;
	req->stdin_mode = base->stdin_mode;
	req->stdout_mode = base->stdout_mode;
	req->stderr_mode = base->stderr_mode;
	req->pty = base->pty;
	if ((base->cwd && !(req->cwd = strdup(base->cwd))) ||
	    (base->user && !(req->user = strdup(base->user))))
		return -ENOMEM;
	return env_copy(&req->env, &base->env);
}

/* Gives it away, or frees it and says why not. */
static int end(struct exec_request *ret, struct exec_request *req, int r)
{
	if (r < 0)
		exec_request_done(req);
	else
		*ret = *req;
	return r;
}

static int take(struct exec_request *req, const cJSON *doc, struct err *err)
{
	int r;

	if (cJSON_IsArray(doc)) {
		r = take_argv(req, doc, err);
		return r < 0 ? err_wrap(err, r, "the argv") : request_check_pty(req, err);
	}
	r = exec_request_take_defaults(req, doc, err);
	if (r == 0 && !req->argv && !req->script)
		r = err_say(err, EINVAL, "request: 'cmd' is missing");
	return r < 0 ? r : request_check_pty(req, err);
}

int exec_request_take(struct exec_request *ret, const struct exec_request *base, const cJSON *doc,
		      struct err *err)
{
	struct exec_request req;
	int r = begin(&req, base);

	return end(ret, &req, r < 0 ? err_set(err, -r, "copy the defaults") : take(&req, doc, err));
}

int exec_request_parse(struct exec_request *ret, const struct exec_request *base, const char *bytes,
		       size_t len, struct err *err)
{
	struct err why = { 0 };
	AUTO(cJSON_Delete) cJSON *doc = json_parse(bytes, len, REQUEST_MAX, &why);

	return doc ? exec_request_take(ret, base, doc, err) : err_say(err, why.code, "%s", why.msg);
}

int exec_request_script(struct exec_request *ret, const struct exec_request *base,
			const char *bytes, size_t len, struct err *err)
{
	struct exec_request req;
	int r;

	if (len > 0 && memchr(bytes, '\0', len))
		return err_say(err, EINVAL, "a script cannot hold a NUL byte");
	r = begin(&req, base);
	return end(ret, &req,
		   r < 0 ? err_set(err, -r, "copy the defaults")
			 : set_script(&req, bytes, len, err));
}

int exec_request_broken(struct exec_request *ret, const char *bytes, size_t len, const char *why)
{
	struct exec_request req = { .broken = strdup(why) };

	if (!req.broken || set_script(&req, bytes, len, NULL) < 0) {
		exec_request_done(&req);
		return -ENOMEM;
	}
	*ret = req;
	return 0;
}

void exec_request_done(struct exec_request *req)
{
	for (size_t i = 0; i < req->argc; i++)
		free(req->argv[i]);
	free(req->argv);
	free(req->script);
	free(req->cwd);
	free(req->user);
	free(req->id);
	free(req->broken);
	env_done(&req->env);
	*req = (struct exec_request){ 0 };
}

/* A string on the heap and the pointer to it. */
static size_t size_of(const char *text)
{
	return text ? strlen(text) + 2 * sizeof(void *) : 0;
}

size_t exec_request_size(const struct exec_request *req)
{
	size_t size = req->script_len + size_of(req->cwd) + size_of(req->user) + size_of(req->id) +
		      size_of(req->broken);

	for (size_t i = 0; i < req->argc; i++)
		size += size_of(req->argv[i]);
	for (size_t i = 0; i < req->env.n; i++)
		size += size_of(req->env.v[i]);
	return size;
}

static int print_cmd(const struct exec_request *req, struct buf *out)
{
	int r = buf_printf(out, "{\"cmd\":");

	if (r < 0)
		return r;
	if (!req->argv)
		return json_put_string(out, req->script, req->script_len);
	for (size_t i = 0; r == 0 && i < req->argc; i++) {
		r = buf_printf(out, i ? "," : "[");
		if (r == 0)
			r = json_put_string(out, req->argv[i], strlen(req->argv[i]));
	}
	return r < 0 ? r : buf_printf(out, "]");
}

static int print_stdio(struct buf *out, const char *key, enum exec_stdio mode)
{
	return mode == EXEC_STDIO_PIPE ? 0
				       : buf_printf(out, ",\"%s\":\"%s\"", key, stdio_name[mode]);
}

int exec_request_print_keys(const struct exec_request *req, struct buf *out)
{
	int r = req->env.n ? request_print_env(out, "env", &req->env) : 0;

	if (r == 0 && req->cwd)
		r = request_print_string(out, "cwd", req->cwd);
	if (r == 0 && req->timeout_s > 0)
		r = buf_printf(out, ",\"timeout_s\":%.15g", req->timeout_s);
	if (r == 0 && req->user)
		r = request_print_string(out, "user", req->user);
	if (r == 0)
		r = print_stdio(out, "stdin", req->stdin_mode);
	if (r == 0)
		r = print_stdio(out, "stdout", req->stdout_mode);
	if (r == 0)
		r = print_stdio(out, "stderr", req->stderr_mode);
	if (r == 0 && req->output_limit)
		r = buf_printf(out, ",\"output_limit\":%" PRIu64, req->output_limit);
	if (r == 0 && req->drops)
		r = buf_printf(out, ",\"on_full\":\"drop\"");
	if (r == 0 && req->keep)
		r = buf_printf(out, ",\"keep\":true");
	if (r == 0 && req->pty.on)
		r = request_print_pty(out, &req->pty);
	if (r == 0 && req->id)
		r = request_print_string(out, "id", req->id);
	return r;
}

/* What was set of a command that was not written yet: nothing, if nothing was. */
static int print_set(const struct exec_request *req, struct buf *out)
{
	size_t at = out->len;
	int r = exec_request_print_keys(req, out);

	if (r < 0 || out->len == at)
		return r;
	out->data[at] = '{'; /* for the comma */
	return buf_printf(out, "}");
}

int exec_request_print(const struct exec_request *req, struct buf *out)
{
	int r;

	if (!req->argv && !req->script)
		return print_set(req, out);
	r = print_cmd(req, out);
	if (r == 0)
		r = exec_request_print_keys(req, out);
	return r < 0 ? r : buf_printf(out, "}");
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_argv(const struct exec_request *a, const struct exec_request *b)
{
	if (a->argc != b->argc || !a->argv != !b->argv)
		return false;
	for (size_t i = 0; a->argv && b->argv && i < a->argc; i++)
		if (strcmp(a->argv[i], b->argv[i]) != 0)
			return false;
	return true;
}

static bool same_env(const struct env *a, const struct env *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		auto_free char *key = strndup(a->v[i], strcspn(a->v[i], "="));

		if (!key || !same_text(env_get(a, key), env_get(b, key)))
			return false;
	}
	return true;
}

uint64_t exec_request_output_limit(const struct exec_request *req)
{
	return req->output_limit ? req->output_limit : OUTPUT_LIMIT_DEFAULT;
}

bool exec_request_equal(const struct exec_request *a, const struct exec_request *b)
{
	double ta = a->timeout_s > 0 ? a->timeout_s : 0, tb = b->timeout_s > 0 ? b->timeout_s : 0;

	return same_argv(a, b) && a->script_len == b->script_len &&
	       same_text(a->script, b->script) && same_text(a->cwd, b->cwd) &&
	       same_text(a->user, b->user) && same_text(a->broken, b->broken) && ta == tb &&
	       exec_request_output_limit(a) == exec_request_output_limit(b) &&
	       a->drops == b->drops && a->keep == b->keep && a->stdin_mode == b->stdin_mode &&
	       a->stdout_mode == b->stdout_mode && a->stderr_mode == b->stderr_mode &&
	       request_same_pty(&a->pty, &b->pty) && same_env(&a->env, &b->env);
}
