/* hutch_names.c - sandboxes and commands by name */
#include "tools/hutch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

DEFINE_AUTO(DIR *, closedir);

static int add(struct hutch_names *names, const char *name)
{
	if (names->n == names->cap) {
		size_t cap = names->cap ? 2 * names->cap : 16;
		char **v = reallocarray(names->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		names->v = v;
		names->cap = cap;
	}
	names->v[names->n] = strdup(name);
	return names->v[names->n++] ? 0 : -ENOMEM;
}

void hutch_names_done(struct hutch_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
	*names = (struct hutch_names){ 0 };
}

static int by_name(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	bool number = name_is_number(x);

	if (number != name_is_number(y))
		return number ? -1 : 1;
	if (number && strlen(x) != strlen(y))
		return strlen(x) < strlen(y) ? -1 : 1;
	return strcmp(x, y);
}

static int list(int dirfd, const char *path, struct hutch_names *names)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = errno ? -errno : -EIO;
		close_auto(&fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)))
		if (entry->d_type == DT_DIR && name_valid(entry->d_name))
			r = add(names, entry->d_name);
	if (r == 0 && errno)
		r = -errno;
	if (r == 0 && names->n > 0)
		qsort(names->v, names->n, sizeof(names->v[0]), by_name);
	return r;
}

int hutch_names_boxes(const struct hutch_root *root, struct hutch_names *names, struct err *err)
{
	int r = list(root->fd, ".", names);

	return r < 0 ? err_set(err, -r, "list %s", root->path) : 0;
}

int hutch_names_execs(int box_fd, struct hutch_names *names)
{
	return list(box_fd, "exec", names);
}

/* ---- BOX/EXEC ---- */

static int exec_missing(const struct hutch_root *root, const struct hutch_target *t, int code,
			struct err *err)
{
	if (code == ENOENT && strcmp(t->exec, "last") == 0)
		return err_say(
			err, ENOENT,
			"'%s/last': there is none: you have started no command there, or the "
			"last one was removed, or refused (see %s/error)",
			t->box, root->path);
	if (code == ENOENT || code == ENOTDIR)
		return err_say(err, ENOENT,
			       "'%s/%s': there is no command of that name (see 'hutch ps %s')",
			       t->box, t->exec, t->box);
	return err_set(err, code, "'%s/%s'", t->box, t->exec);
}

static int find_exec(const struct hutch_root *root, struct hutch_target *t, struct err *err)
{
	char inside[sizeof(t->path) + 2];

	if (strcmp(t->exec, "last") == 0) {
		char name[NAME_MAX_LEN + 1];
		ssize_t n = readlinkat(t->box_fd, "exec/last", name, sizeof(name) - 1);

		if (n < 0)
			return exec_missing(root, t, errno, err);
		name[n] = '\0';
		memcpy(t->exec, name, (size_t)n + 1);
	}
	(void)snprintf(t->path, sizeof(t->path), "exec/%s", t->exec);
	if (name_fault(t->exec))
		return err_say(err, EINVAL, "'%s/%s': %s", t->box, t->exec, name_fault(t->exec));
	/* With the dot what is no directory is ENOTDIR: exec/new, for one. */
	(void)snprintf(inside, sizeof(inside), "%s/.", t->path);
	return faccessat(t->box_fd, inside, X_OK, AT_EACCESS) < 0
		       ? exec_missing(root, t, errno, err)
		       : 0;
}

int hutch_target_open(const struct hutch_root *root, const char *word, struct hutch_target *t,
		      struct err *err)
{
	size_t len = strcspn(word, "/");
	const char *exec = word[len] ? word + len + 1 : "";
	int r = 0;

	*t = (struct hutch_target){ .box_fd = -1, .path = "." };
	if (len > NAME_MAX_LEN || strlen(exec) > NAME_MAX_LEN || (word[len] && !*exec))
		return err_say(err, EINVAL, "'%.200s': is neither BOX nor BOX/EXEC", word);
	memcpy(t->box, word, len);
	(void)snprintf(t->exec, sizeof(t->exec), "%s", exec);
	t->box_fd = hutch_box_open(root, t->box, err);
	if (t->box_fd < 0)
		return t->box_fd;
	if (*t->exec)
		r = find_exec(root, t, err);
	if (r < 0)
		hutch_target_done(t);
	return r;
}

void hutch_target_done(struct hutch_target *t)
{
	close_auto(&t->box_fd);
}

bool hutch_status_live(const char *status)
{
	return strncmp(status, "running", 7) == 0 || strcmp(status, "pending") == 0;
}
