/* hutch_start.c - see hutch_start.h */
#include "tools/hutch_start.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

/* ---- options ---- */

static int check_text(const char *value, struct err *err)
{
	if (!utf8_valid(value, strlen(value)))
		return err_say(err, EILSEQ, "is not UTF-8, which a request in JSON cannot carry");
	return 0;
}

/* K=V, or K: as it is here. The last one counts. */
int hutch_take_env(void *obj, const char *value, struct err *err)
{
	struct hutch_start *s = obj;
	size_t len = strcspn(value, "=");
	auto_free char *name = strndup(value, len);
	const char *text = value[len] ? value + len + 1 : NULL;
	int r = check_text(value, err);

	if (r < 0)
		return r;
	if (!name)
		return err_set(err, ENOMEM, "'%s'", value);
	if (len == 0)
		return err_say(err, EINVAL, "'%s': must be NAME=VALUE or NAME", value);
	if (!text)
		text = getenv(name);
	if (!text)
		return err_say(err, EINVAL, "'%s': is not set here, so give it a value: %s=VALUE",
			       name, name);
	if (!s->env)
		s->env = cJSON_CreateObject();
	cJSON_DeleteItemFromObjectCaseSensitive(s->env, name);
	r = check_text(text, err);
	if (r == 0 && !cJSON_AddStringToObject(s->env, name, text))
		return err_set(err, ENOMEM, "'%s'", value);
	return r;
}

/* The length of SRC in SRC[:DST][:rw|:ro]; DST is absolute, which tells it from a flag. */
static int split_mount(char *text, const char **target, bool *readonly)
{
	char *colon = strrchr(text, ':');

	*readonly = true;
	*target = NULL;
	if (colon && (strcmp(colon, ":rw") == 0 || strcmp(colon, ":ro") == 0)) {
		*readonly = colon[2] == 'o';
		*colon = '\0';
		colon = strrchr(text, ':');
	}
	if (colon && colon[1] == '/') {
		*colon = '\0';
		*target = colon + 1;
	} else if (colon) {
		return -EINVAL;
	}
	return *text ? 0 : -EINVAL;
}

int hutch_take_mount(void *obj, const char *value, struct err *err)
{
	struct hutch_start *s = obj;
	auto_free char *text = strdup(value), *source = NULL;
	const char *target;
	bool readonly;
	cJSON *mount;

	if (!text)
		return err_set(err, ENOMEM, "'%s'", value);
	if (split_mount(text, &target, &readonly) < 0)
		return err_say(err, EINVAL,
			       "'%s': must be SRC, SRC:DST, SRC:rw or SRC:DST:rw, with an absolute "
			       "DST",
			       value);
	source = realpath(text, NULL);
	if (!source)
		return err_set(err, errno, "'%s'", text);
	target = target ? target : source;
	if (check_text(source, err) < 0 || check_text(target, err) < 0)
		return -EILSEQ;
	if (!s->mounts)
		s->mounts = cJSON_CreateArray();
	mount = cJSON_CreateObject();
	if (!cJSON_AddItemToArray(s->mounts, mount)) {
		cJSON_Delete(mount);
		return err_set(err, ENOMEM, "'%s'", value);
	}
	if (!cJSON_AddStringToObject(mount, "source", source) ||
	    !cJSON_AddStringToObject(mount, "target", target) ||
	    !cJSON_AddBoolToObject(mount, "readonly", readonly))
		return err_set(err, ENOMEM, "'%s'", value);
	return 0;
}

int hutch_take_cwd(void *obj, const char *value, struct err *err)
{
	((struct hutch_start *)obj)->cwd = value;
	return check_text(value, err);
}

int hutch_take_user(void *obj, const char *value, struct err *err)
{
	((struct hutch_start *)obj)->user = value;
	return check_text(value, err);
}

int hutch_take_timeout(void *obj, const char *value, struct err *err)
{
	struct hutch_start *s = obj;
	char *end;

	s->timeout_s = strtod(value, &end);
	if (end == value || *end || !isfinite(s->timeout_s) || s->timeout_s <= 0)
		return err_say(err, EINVAL, "'%s': must be a number of seconds above 0", value);
	return 0;
}

/* ---- the sandbox and the request ---- */

int hutch_start_box(struct hutch_start *s, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *spec = NULL;

	if (s->box)
		return hutch_node_enter_box(&s->node, s->box, err);
	spec = cJSON_CreateObject();
	if (!spec || (s->mounts && !cJSON_AddItemReferenceToObject(spec, "mounts", s->mounts)))
		return err_set(err, ENOMEM, "make a sandbox");
	return hutch_node_make_box(&s->node, spec, err);
}

cJSON *hutch_start_request(const struct hutch_start *s, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *request = hutch_request_new(&s->root, s->argv, err);

	if (!request)
		return NULL;
	if ((s->cwd && !cJSON_AddStringToObject(request, "cwd", s->cwd)) ||
	    (s->user && !cJSON_AddStringToObject(request, "user", s->user)) ||
	    (s->timeout_s > 0 && !cJSON_AddNumberToObject(request, "timeout_s", s->timeout_s)) ||
	    (s->env && !cJSON_AddItemReferenceToObject(request, "env", s->env))) {
		(void)err_set(err, ENOMEM, "the request");
		return NULL;
	}
	return TAKE_PTR(request);
}

/* ---- the result ---- */

static const char *member(const cJSON *result, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(result, key));

	return s ? s : "";
}

void hutch_start_explain(const struct hutch_start *s, const struct relay_outcome *outcome)
{
	static const struct {
		const char *reason, *text;
	} texts[] = {
		{ "timed_out", "it ran into its time limit and was killed" },
		{ "oom_killed", "it ran out of memory and was killed" },
		{ "lost", "what became of it is not known" },
		{ "failed", "it could not be started" },
		{ "killed", "it was killed" },
	};
	char text[16 * 1024];
	auto_buf struct buf error = { 0 };
	AUTO(cJSON_Delete) cJSON *result = NULL;
	const char *reason, *why;

	if (hutch_read_text(s->node.fd, "result.json", text, sizeof(text)) < 0) {
		hutch_warn("%s: '%s': it was killed, since %s/%s/exec/%s was removed", s->name,
			   s->argv[0], s->root.path, s->node.box, s->node.name);
		return;
	}
	result = cJSON_Parse(text);
	reason = member(result, "reason");
	why = member(result, "error");
	if (outcome->killed && strcmp(reason, "killed") == 0)
		return;
	if (*why && text_escape(&error, why, strlen(why)) == 0) {
		hutch_warn("%s: %s", s->name, error.data);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i].reason, reason) == 0)
			hutch_warn("%s: '%s': %s", s->name, s->argv[0], texts[i].text);
}

/* ---- the whole ---- */

void hutch_start_init(struct hutch_start *s, const char *name)
{
	*s = (struct hutch_start){ .name = name, .root = { .fd = -1 } };
	s->node = (struct hutch_node)HUTCH_NODE_INIT(&s->root);
}

void hutch_start_done(struct hutch_start *s)
{
	hutch_node_done(&s->node);
	hutch_root_done(&s->root);
	cJSON_Delete(s->env);
	cJSON_Delete(s->mounts);
}

int hutch_start_operands(struct hutch_start *s, const char *box, const char *const *argv,
			 struct err *err)
{
	s->argv = argv;
	s->box = box;
	if (!box || !s->mounts)
		return 0;
	return err_say(err, EINVAL,
		       "--mount: sandbox '%s' is made already, and a directory can be shown "
		       "only to one that is being made: leave out its name, or make it with "
		       "its mounts by a spec written to the tree's file 'new'",
		       box);
}

int hutch_start_sentence(const struct hutch_start *s, int r, struct err *err)
{
	if (r == -ENOTCONN || r == -ECONNABORTED)
		return err_say(err, -r, "the hutchd of %s has died, and the command with it",
			       s->root.path);
	return r;
}
