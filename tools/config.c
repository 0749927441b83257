#include "tools/config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"

#define CONFIG_MAX (1024 * 1024)
#define COUNT_MAX  10000000

/* An object in the object: its name is in the sentence already. */
static int take_object(struct config *c, const cJSON *value, const struct json_key *keys, size_t n,
		       struct err *err)
{
	struct err why = { 0 };
	int r = json_take_keys(value, "", keys, n, c, &why);

	return r < 0 ? err_say(err, -r, "%s", why.msg + strspn(why.msg, ": ")) : 0;
}

/* root */

static int take_mode(void *obj, const cJSON *value, struct err *err)
{
	struct config *c = obj;
	const char *text;
	int r = json_get_string(value, &text, err);
	unsigned long mode;
	char *end;

	if (r < 0)
		return r;
	mode = strtoul(text, &end, 8);
	if (*text < '0' || *text > '7' || *end || mode & ~01777UL || (mode & 0700) != 0700)
		return err_say(err, EINVAL,
			       "must be an octal mode in quotes, as in \"0755\", with all that the "
			       "owner needs");
	if (mode & 0002 && !(mode & S_ISVTX))
		return err_say(err, EINVAL, "what all may write to needs the sticky bit: \"1777\"");
	c->root_mode = (mode_t)mode;
	return 0;
}

static int take_group(void *obj, const cJSON *value, struct err *err)
{
	struct config *c = obj;
	const struct group *group;
	const char *text;

	if (cJSON_IsNumber(value) && value->valuedouble >= 0 &&
	    value->valuedouble < (double)UINT32_MAX &&
	    value->valuedouble == (double)(gid_t)value->valuedouble) {
		c->root_gid = (gid_t)value->valuedouble;
		return 0;
	}
	if (json_get_string(value, &text, NULL) < 0)
		return err_say(err, EINVAL, "must be a group's name or its number");
	group = getgrnam(text);
	if (!group)
		return err_say(err, EINVAL, "there is no group '%.64s'", text);
	c->root_gid = group->gr_gid;
	return 0;
}

const struct json_key config_root_keys[] = {
	{ "mode", take_mode,
	  "who may make sandboxes, as a mode: \"0755\", the default, hutchd's own user; \"0775\" a "
	  "group; \"1777\" everybody, each removing his own" },
	{ "group", take_group, "the root's group, a name or a number" },
};
const size_t config_root_keys_n = ARRAY_SIZE(config_root_keys);

/* limits */

static int take_count(unsigned *ret, const cJSON *value, struct err *err)
{
	double n;

	if (json_get_number(value, &n, NULL) < 0 || n < 1 || n > COUNT_MAX || n != (unsigned)n)
		return err_say(err, EINVAL, "must be a whole number from 1 to %d", COUNT_MAX);
	*ret = (unsigned)n;
	return 0;
}

#define TAKE_COUNT(field)                                                               \
	static int take_##field(void *obj, const cJSON *value, struct err *err)         \
	{                                                                               \
		return take_count(&((struct config *)obj)->COUNT_IN.field, value, err); \
	}
#define COUNT_IN limits
TAKE_COUNT(user_sandboxes)
TAKE_COUNT(all_sandboxes)
TAKE_COUNT(user_commands)
TAKE_COUNT(all_commands)
TAKE_COUNT(user_nodes)
TAKE_COUNT(all_nodes)
#undef COUNT_IN

static int take_output(void *obj, const cJSON *value, struct err *err)
{
	uint64_t *max = &((struct config *)obj)->limits.sandbox_output, n;
	int r = json_get_size(value, &n, err);

	if (r == 0 && n == 0)
		r = err_say(err, EINVAL, "must be at least 1");
	if (r == 0)
		*max = n;
	return r;
}

#define COUNT_IN open
TAKE_COUNT(user_handles)
TAKE_COUNT(all_handles)
TAKE_COUNT(user_parked)
TAKE_COUNT(all_parked)

const struct json_key config_limit_keys[] = {
	{ "sandboxes", take_user_sandboxes, "of one user; 100" },
	{ "sandboxes_all", take_all_sandboxes, "of all users; 4096" },
	{ "commands", take_user_commands, "that have not ended, in one user's sandboxes; 2048" },
	{ "commands_all", take_all_commands,
	  "the same in all; 16384, or fewer if hutchd may not open as many files" },
	{ "nodes", take_user_nodes, "in exec/ of one user's sandboxes; 200000" },
	{ "nodes_all", take_all_nodes, "in exec/ of all sandboxes; 2000000" },
	{ "output", take_output,
	  "bytes of output that one sandbox keeps, a number or \"64M\"; 4G" },
	{ "handles", take_user_handles, "files of the tree that one user has open; 16384" },
	{ "handles_all", take_all_handles, "that all have open; 262144" },
	{ "waiting", take_user_parked, "reads and writes of one user that wait; 16384" },
	{ "waiting_all", take_all_parked, "of all users; 131072" },
};
const size_t config_limit_keys_n = ARRAY_SIZE(config_limit_keys);

/* The rest */

static int take_root(void *obj, const cJSON *value, struct err *err)
{
	return take_object(obj, value, config_root_keys, config_root_keys_n, err);
}

static int take_limits(void *obj, const cJSON *value, struct err *err)
{
	return take_object(obj, value, config_limit_keys, config_limit_keys_n, err);
}

static int take_id_tag(void *obj, const cJSON *value, struct err *err)
{
	struct config *c = obj;
	const char *text;
	int r = json_get_string(value, &text, err);

	if (r < 0)
		return r;
	if (strlen(text) != 2 || strspn(text, "0123456789abcdefghijklmnopqrstuv") != 2)
		return err_say(err, EINVAL, "must be two characters of 0-9 a-v");
	memcpy(c->id_tag, text, sizeof(c->id_tag));
	return 0;
}

static int take_cgroup(void *obj, const cJSON *value, struct err *err)
{
	static const char *const known[] = { "auto", "v2", "v1", "none" };
	struct config *c = obj;
	const char *text;
	int r = json_get_string(value, &text, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i], text) != 0)
			continue;
		free(c->cgroup);
		c->cgroup = strdup(text);
		return c->cgroup ? 0 : err_set(err, ENOMEM, "copy");
	}
	return r < 0 ? r : err_say(err, EINVAL, "must be \"auto\", \"v2\", \"v1\" or \"none\"");
}

static int take_mounts(void *obj, const cJSON *value, struct err *err)
{
	struct config *c = obj;
	const cJSON *item;
	size_t n = 0;

	if (!cJSON_IsArray(value))
		return err_say(err, EINVAL, "must be an array of absolute paths");
	c->mounts = calloc((size_t)cJSON_GetArraySize(value) + 1, sizeof(*c->mounts));
	if (!c->mounts)
		return err_set(err, ENOMEM, "copy");
	cJSON_ArrayForEach (item, value) {
		const char *text;

		if (json_get_string(item, &text, NULL) < 0 || *text != '/')
			return err_say(err, EINVAL, "must be an array of absolute paths");
		c->mounts[n] = strdup(text);
		if (!c->mounts[n++])
			return err_set(err, ENOMEM, "copy");
	}
	return 0;
}

const struct json_key config_keys[] = {
	{ "root", take_root, "object: who may make sandboxes" },
	{ "limits", take_limits, "object: how many there may be" },
	{ "id_tag", take_id_tag,
	  "two characters of 0-9 a-v that made-up ids begin with, behind sbx_" },
	{ "cgroup", take_cgroup,
	  "\"auto\", the default, or the one kind of control groups to use: \"v2\", \"v1\"; "
	  "\"none\": "
	  "a kill reaches a command's process group only" },
	{ "mounts", take_mounts,
	  "array of directories of the host that any user may mount, besides his own" },
};
const size_t config_keys_n = ARRAY_SIZE(config_keys);

void config_init(struct config *c)
{
	*c = (struct config){ .root_mode = 0755, .root_gid = (gid_t)-1 };
}

void config_done(struct config *c)
{
	for (size_t i = 0; c->mounts && c->mounts[i]; i++)
		free(c->mounts[i]);
	free(c->mounts);
	free(c->cgroup);
	config_init(c);
}

int config_read(struct config *c, const char *path, struct err *err)
{
	auto_buf struct buf text = { .max = CONFIG_MAX };
	AUTO(cJSON_Delete) cJSON *doc = NULL;
	struct err why = { 0 };
	int r = file_read(AT_FDCWD, path, &text, &why);

	if (r < 0)
		return err_say(err, -r, "config: %s", why.msg);
	doc = json_parse(text.data ? text.data : "", text.len, CONFIG_MAX, &why);
	if (doc && !cJSON_IsObject(doc))
		(void)err_say(&why, EINVAL, "must be a JSON object");
	else if (doc)
		(void)json_take_keys(doc, "config", config_keys, config_keys_n, c, &why);
	return why.code ? err_say(err, why.code, "'%s': %s", path, why.msg) : 0;
}
