/* hutch_ls.c - hutch ls: the sandboxes that this user may enter */
#include "tools/hutch.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"

DEFINE_AUTO(DIR *, closedir);

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

struct boxes {
	struct box *v; /* owned */
	size_t n, cap;
};

static int take_json(void *obj, const char *value, struct err *err)
{
	struct ls_options *opt = obj;

	(void)value;
	(void)err;
	opt->json = true;
	return 0;
}

static const struct option_def ls_defs[] = {
	{ "json", 'j', NULL, take_json, "a JSON array of objects" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_ls_options = { "hutch ls", ls_defs, ARRAY_SIZE(ls_defs), false };

/* A sandbox may be removed while it is looked at: what has gone is not counted. */
static void count_commands(int box_fd, struct box *box)
{
	int fd = openat(box_fd, "exec", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close_auto(&fd);
		return;
	}
	while ((entry = readdir(dir))) {
		char path[sizeof(entry->d_name) + sizeof("/status")];
		char status[512];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/status", entry->d_name);
		if (hutch_read_text(fd, path, status, sizeof(status)) < 0)
			continue;
		box->commands++;
		if (strncmp(status, "running", 7) == 0)
			box->running++;
	}
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

static struct box *boxes_room(struct boxes *boxes)
{
	if (boxes->n == boxes->cap) {
		size_t cap = boxes->cap ? 2 * boxes->cap : 16;
		struct box *v = reallocarray(boxes->v, cap, sizeof(*v));

		if (!v)
			return NULL;
		boxes->v = v;
		boxes->cap = cap;
	}
	return &boxes->v[boxes->n];
}

static int collect(const struct hutch_root *root, struct boxes *boxes, struct err *err)
{
	int fd = openat(root->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		int r = err_set(err, errno, "list %s", root->path);

		close_auto(&fd);
		return r;
	}
	while (errno = 0, (entry = readdir(dir))) {
		struct box *box;

		if (entry->d_type != DT_DIR || !name_valid(entry->d_name))
			continue;
		box = boxes_room(boxes);
		if (!box)
			return err_set(err, ENOMEM, "list %s", root->path);
		if (look_at(fd, entry->d_name, box))
			boxes->n++;
	}
	return errno ? err_set(err, errno, "list %s", root->path) : 0;
}

static int by_id(const void *a, const void *b)
{
	const struct box *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static void print_table(const struct boxes *boxes)
{
	int id = 2, state = 5, owner = 5; /* as wide as the words of the header */

	for (size_t i = 0; i < boxes->n; i++) {
		const struct box *b = &boxes->v[i];

		id = (int)strlen(b->id) > id ? (int)strlen(b->id) : id;
		state = (int)strlen(b->state) > state ? (int)strlen(b->state) : state;
		owner = (int)strlen(b->owner) > owner ? (int)strlen(b->owner) : owner;
	}
	printf("%-*s  %-*s  %-*s  %s\n", id, "ID", state, "STATE", owner, "OWNER", "COMMANDS");
	for (size_t i = 0; i < boxes->n; i++) {
		const struct box *b = &boxes->v[i];

		printf("%-*s  %-*s  %-*s  %u/%u\n", id, b->id, state, b->state, owner, b->owner,
		       b->running, b->commands);
	}
}

static void print_lines(const struct boxes *boxes)
{
	for (size_t i = 0; i < boxes->n; i++) {
		const struct box *b = &boxes->v[i];

		printf("%s\t%s\t%s\t%u/%u\n", b->id, b->state, b->owner, b->running, b->commands);
	}
}

/* NULL: no memory. */
static cJSON *box_to_json(const struct box *b)
{
	cJSON *obj = cJSON_CreateObject();

	if (cJSON_AddStringToObject(obj, "id", b->id) &&
	    cJSON_AddStringToObject(obj, "state", b->state) &&
	    cJSON_AddStringToObject(obj, "owner", b->owner) &&
	    cJSON_AddNumberToObject(obj, "uid", b->uid) &&
	    cJSON_AddNumberToObject(obj, "running", b->running) &&
	    cJSON_AddNumberToObject(obj, "commands", b->commands))
		return obj;
	cJSON_Delete(obj);
	return NULL;
}

/* An array with a line for each. */
static int print_json(const struct boxes *boxes, struct err *err)
{
	for (size_t i = 0; i < boxes->n; i++) {
		AUTO(cJSON_Delete) cJSON *obj = box_to_json(&boxes->v[i]);
		auto_free char *text = obj ? cJSON_PrintUnformatted(obj) : NULL;

		if (!text)
			return err_set(err, ENOMEM, "print the list");
		printf("%s%s", i > 0 ? ",\n " : "[", text);
	}
	puts(boxes->n > 0 ? "]" : "[]");
	return 0;
}

int hutch_ls(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct ls_options opt = { 0 };
	struct hutch_root root;
	struct boxes boxes = { 0 };
	int r = hutch_options(cmd, argc, argv, &opt, err);

	if (r <= 0)
		return r;
	if (r < argc)
		return hutch_misused(cmd, err, "it takes no operands");
	r = hutch_root_open(&root, err);
	if (r < 0)
		return r;
	r = collect(&root, &boxes, err);
	if (r == 0 && boxes.n > 0)
		qsort(boxes.v, boxes.n, sizeof(boxes.v[0]), by_id);
	if (r == 0 && opt.json)
		r = print_json(&boxes, err);
	else if (r == 0 && isatty(STDOUT_FILENO))
		print_table(&boxes);
	else if (r == 0)
		print_lines(&boxes);
	free(boxes.v);
	hutch_root_done(&root);
	return r;
}
