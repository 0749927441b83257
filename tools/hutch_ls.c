/* hutch_ls.c - hutch ls: the sandboxes that this user may enter */
#include "tools/hutch.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "tools/table.h"

struct ls_options {
	struct hutch_common common;
	bool json;
};

struct box {
	char id[NAME_MAX_LEN + 1];
	char state[512];
	char owner[64];
	uid_t uid;
	unsigned running, commands;
};

OPTION_FLAG(take_json, struct ls_options, json)

static const struct option_def ls_defs[] = {
	{ "json", 'j', NULL, take_json, "a JSON array of objects" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_ls_options = { "hutch ls", ls_defs, ARRAY_SIZE(ls_defs), false };

/* A sandbox may be removed while it is looked at: what has gone is not counted. */
static void count_commands(int box_fd, struct box *box)
{
	struct hutch_names names = { 0 };

	if (hutch_names_execs(box_fd, &names) == 0)
		for (size_t i = 0; i < names.n; i++) {
			char path[sizeof("exec//status") + NAME_MAX_LEN];
			char status[512];

			(void)snprintf(path, sizeof(path), "exec/%s/status", names.v[i]);
			if (hutch_read_text(box_fd, path, status, sizeof(status)) < 0)
				continue;
			box->commands++;
			box->running += strncmp(status, "running", 7) == 0;
		}
	hutch_names_done(&names);
}

static bool look_at(int root_fd, const char *id, struct box *box)
{
	auto_close int fd = openat(root_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct passwd *pw;
	struct stat st;

	*box = (struct box){ 0 };
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    hutch_read_text(fd, "state", box->state, sizeof(box->state)) < 0)
		return false;
	(void)snprintf(box->id, sizeof(box->id), "%.*s", NAME_MAX_LEN, id);
	box->uid = st.st_uid;
	pw = getpwuid(st.st_uid);
	if (pw)
		(void)snprintf(box->owner, sizeof(box->owner), "%s", pw->pw_name);
	else
		(void)snprintf(box->owner, sizeof(box->owner), "%u", (unsigned)st.st_uid);
	count_commands(fd, box);
	return true;
}

static int add_row(struct table *table, const struct box *b)
{
	char commands[32];
	const char *const cells[] = { b->id, b->state, b->owner, commands };

	(void)snprintf(commands, sizeof(commands), "%u/%u", b->running, b->commands);
	return table_add(table, cells);
}

static int add_json(cJSON *array, const struct box *b)
{
	cJSON *obj = cJSON_CreateObject();

	if (!cJSON_AddItemToArray(array, obj)) {
		cJSON_Delete(obj);
		return -ENOMEM;
	}
	return cJSON_AddStringToObject(obj, "id", b->id) &&
			       cJSON_AddStringToObject(obj, "state", b->state) &&
			       cJSON_AddStringToObject(obj, "owner", b->owner) &&
			       cJSON_AddNumberToObject(obj, "uid", b->uid) &&
			       cJSON_AddNumberToObject(obj, "running", b->running) &&
			       cJSON_AddNumberToObject(obj, "commands", b->commands)
		       ? 0
		       : -ENOMEM;
}

static int list(const struct hutch_root *root, bool json, struct err *err)
{
	static const char *const head[] = { "ID", "STATE", "OWNER", "COMMANDS" };
	struct table table = { .head = head, .columns = ARRAY_SIZE(head), .coloured = 1 };
	AUTO(cJSON_Delete) cJSON *array = cJSON_CreateArray();
	struct hutch_names names = { 0 };
	int r = hutch_names_boxes(root, &names, err);

	for (size_t i = 0; i < names.n && r == 0; i++) {
		struct box box;

		if (look_at(root->fd, names.v[i], &box))
			r = json ? add_json(array, &box) : add_row(&table, &box);
		if (r < 0)
			r = err_set(err, -r, "list %s", root->path);
	}
	if (r == 0 && json)
		r = print_json_array(array, err);
	else if (r == 0)
		table_print(&table);
	table_done(&table);
	hutch_names_done(&names);
	return r;
}

int hutch_ls(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct ls_options opt = { 0 };
	struct hutch_root root;
	int r = hutch_options(cmd, argc, argv, &opt, err);

	if (r <= 0)
		return r;
	if (r < argc)
		return hutch_misused(cmd, err, "it takes no operands");
	r = hutch_root_open(&root, err);
	if (r < 0)
		return r;
	r = list(&root, opt.json, err);
	hutch_root_done(&root);
	return r;
}
