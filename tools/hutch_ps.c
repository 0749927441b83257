/* hutch_ps.c - hutch ps: the commands of one sandbox, or of all that this user may enter */
#include "tools/hutch.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/table.h"

#define CMD_MAX (2 * 1024 * 1024) /* a request has at most 1 MiB, before its text is escaped */

struct ps {
	struct hutch_common common; /* first */
	bool json, live;
	struct table table;
	cJSON *array; /* owned */
};

OPTION_FLAG(take_json, struct ps, json)
OPTION_FLAG(take_live, struct ps, live)

static const struct option_def ps_defs[] = {
	{ "live", 'l', NULL, take_live, "only those that have not ended" },
	{ "json", 'j', NULL, take_json, "a JSON array of objects" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_ps_options = { "hutch ps", ps_defs, ARRAY_SIZE(ps_defs), false };

/* ---- one command ---- */

struct command {
	const char *box, *name;
	char status[512];
	double age_s;
	cJSON *cmd; /* owned; NULL: none was written yet, or it has gone */
};

static cJSON *read_cmd(int dirfd, const char *path)
{
	auto_buf struct buf text = { .max = CMD_MAX };
	AUTO(cJSON_Delete) cJSON *request = NULL;

	if (file_read(dirfd, path, &text, NULL) < 0 || text.len == 0)
		return NULL;
	request = cJSON_Parse(text.data);
	return cJSON_DetachItemFromObjectCaseSensitive(request, "cmd");
}

/* False: it was removed meanwhile. */
static bool look_at(int box_fd, struct command *c)
{
	char path[sizeof("exec//status") + NAME_MAX_LEN];
	struct timespec now;
	struct stat st;

	(void)snprintf(path, sizeof(path), "exec/%s/status", c->name);
	if (hutch_read_text(box_fd, path, c->status, sizeof(c->status)) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "exec/%s", c->name);
	if (fstatat(box_fd, path, &st, 0) < 0)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	c->age_s = (double)(now.tv_sec - st.st_mtim.tv_sec) +
		   (double)(now.tv_nsec - st.st_mtim.tv_nsec) / 1e9;
	c->age_s = c->age_s < 0 ? 0 : c->age_s;
	(void)snprintf(path, sizeof(path), "exec/%s/cmd", c->name);
	c->cmd = read_cmd(box_fd, path);
	return true;
}

/* An argument as a shell would need it; as it is where that is the same. */
static int put_word(struct buf *line, const char *word)
{
	bool plain = *word && !word[strcspn(word, " \t\n\"'\\$`;&|<>()*?[]#~!{}")];
	int r = buf_printf(line, "%s%s", line->len ? " " : "", plain ? "" : "'");

	for (; r == 0 && *word; word++)
		r = *word == '\'' ? buf_printf(line, "'\\''") : buf_add(line, word, 1);
	return r < 0 || plain ? r : buf_add(line, "'", 1);
}

/* One line; a script's own lines are shown as \n. */
static int print_cmd(const cJSON *cmd, struct buf *line)
{
	auto_buf struct buf words = { 0 };
	const cJSON *item;
	int r = 0;

	if (cJSON_IsString(cmd)) {
		size_t len = strlen(cmd->valuestring);

		while (len > 0 && cmd->valuestring[len - 1] == '\n')
			len--;
		return text_escape(line, cmd->valuestring, len);
	}
	cJSON_ArrayForEach (item, cmd)
		if (r == 0 && cJSON_IsString(item))
			r = put_word(&words, item->valuestring);
	return r == 0 && words.len ? text_escape(line, words.data, words.len) : r;
}

static void print_age(double seconds, char *text, size_t size)
{
	long s = (long)seconds;

	if (s < 120)
		(void)snprintf(text, size, "%lds", s);
	else if (s < 2 * 3600)
		(void)snprintf(text, size, "%ldm", s / 60);
	else if (s < 2 * 86400)
		(void)snprintf(text, size, "%ldh", s / 3600);
	else
		(void)snprintf(text, size, "%ldd", s / 86400);
}

static int add_row(struct table *table, const struct command *c)
{
	auto_buf struct buf line = { 0 };
	char age[32];
	int r = print_cmd(c->cmd, &line);
	const char *const cells[] = { c->box, c->name, c->status, age, line.data ? line.data : "" };

	print_age(c->age_s, age, sizeof(age));
	return r == 0 ? table_add(table, cells) : r;
}

static int add_json(cJSON *array, struct command *c)
{
	cJSON *obj = cJSON_CreateObject();

	if (!cJSON_AddItemToArray(array, obj)) {
		cJSON_Delete(obj);
		return -ENOMEM;
	}
	if (!cJSON_AddStringToObject(obj, "box", c->box) ||
	    !cJSON_AddStringToObject(obj, "name", c->name) ||
	    !cJSON_AddStringToObject(obj, "status", c->status) ||
	    !cJSON_AddNumberToObject(obj, "age_s", (double)(long)(c->age_s * 1000) / 1000) ||
	    !cJSON_AddItemToObject(obj, "cmd", c->cmd ? c->cmd : cJSON_CreateNull()))
		return -ENOMEM;
	c->cmd = NULL; /* the array has it */
	return 0;
}

/* ---- all ---- */

static int list_box(struct ps *ps, int box_fd, const char *box)
{
	struct hutch_names names = { 0 };
	int r = hutch_names_execs(box_fd, &names);

	if (r < 0 && r != -ENOMEM) /* it was removed meanwhile */
		r = 0;
	for (size_t i = 0; i < names.n && r == 0; i++) {
		struct command c = { .box = box, .name = names.v[i] };

		if (!look_at(box_fd, &c) || (ps->live && !hutch_status_live(c.status))) {
			cJSON_Delete(c.cmd);
			continue;
		}
		r = ps->json ? add_json(ps->array, &c) : add_row(&ps->table, &c);
		cJSON_Delete(c.cmd);
	}
	hutch_names_done(&names);
	return r;
}

static int list_all(struct ps *ps, const struct hutch_root *root, struct err *err)
{
	struct hutch_names names = { 0 };
	int r = hutch_names_boxes(root, &names, err);

	for (size_t i = 0; i < names.n && r == 0; i++) {
		auto_close int fd = hutch_box_open(root, names.v[i], NULL);

		r = fd < 0 ? 0 : list_box(ps, fd, names.v[i]);
		if (r < 0)
			r = err_set(err, -r, "list the commands of '%s'", names.v[i]);
	}
	hutch_names_done(&names);
	return r;
}

static int list_one(struct ps *ps, const struct hutch_root *root, const char *box, struct err *err)
{
	auto_close int fd = hutch_box_open(root, box, err);
	int r;

	if (fd < 0)
		return fd;
	r = list_box(ps, fd, box);
	return r < 0 ? err_set(err, -r, "list the commands of '%s'", box) : 0;
}

int hutch_ps(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	static const char *const head[] = { "BOX", "NAME", "STATUS", "AGE", "COMMAND" };
	struct ps ps = { .table = { .head = head, .columns = ARRAY_SIZE(head), .coloured = 2 } };
	struct hutch_root root;
	int r = hutch_options(cmd, argc, argv, &ps, err), at = r;

	if (r <= 0)
		return r;
	if (at + 1 < argc)
		return hutch_misused(cmd, err, "it takes one sandbox, or none for all");
	r = hutch_root_open(&root, err);
	if (r < 0)
		return r;
	ps.array = cJSON_CreateArray();
	r = at < argc ? list_one(&ps, &root, argv[at], err) : list_all(&ps, &root, err);
	if (r == 0 && ps.json)
		r = print_json_array(ps.array, err);
	else if (r == 0)
		table_print(&ps.table);
	table_done(&ps.table);
	cJSON_Delete(ps.array);
	hutch_root_done(&root);
	return r;
}
