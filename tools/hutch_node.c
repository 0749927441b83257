#include "tools/hutch_node.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"

/* Writes a document to a node that answers with a name on the same handle. 0 or a negative errno. */
static int ask_for_name(int dirfd, const char *path, const cJSON *document,
			char name[NAME_MAX_LEN + 1])
{
	auto_close int fd = openat(dirfd, path, O_RDWR | O_CLOEXEC);
	auto_free char *text = NULL;
	char answer[NAME_MAX_LEN + 2];
	size_t len = 0;
	int r;

	if (fd < 0)
		return -errno;
	text = cJSON_PrintUnformatted(document);
	r = text ? write_all(fd, text, strlen(text)) : -ENOMEM;
	if (r < 0)
		return r;
	while (len < sizeof(answer) && (len == 0 || answer[len - 1] != '\n')) {
		ssize_t n = read(fd, answer + len, sizeof(answer) - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		len += (size_t)n;
	}
	if (answer[len - 1] != '\n')
		return -EPROTO;
	answer[len - 1] = '\0';
	if (!name_valid(answer))
		return -EPROTO;
	memcpy(name, answer, len);
	return 0;
}

int hutch_node_make_box(struct hutch_node *n, const cJSON *spec, struct err *err)
{
	int r = ask_for_name(n->root->fd, "new", spec, n->box);

	if (r == -EACCES)
		return err_say(err, EACCES, "make a sandbox: %s/new is not open to you",
			       n->root->path);
	if (r < 0)
		return hutch_refused(n->root, -r, "make a sandbox", err);
	n->throw_away = true;
	n->box_fd = hutch_box_open(n->root, n->box, err);
	if (n->box_fd < 0)
		return n->box_fd;
	n->box_hold = openat(n->box_fd, "hold", O_WRONLY | O_CLOEXEC);
	return n->box_hold < 0 ? hutch_refused(n->root, errno, "hold the new sandbox", err) : 0;
}

int hutch_node_enter_box(struct hutch_node *n, const char *box, struct err *err)
{
	n->box_fd = hutch_box_open(n->root, box, err);
	if (n->box_fd < 0)
		return n->box_fd;
	(void)snprintf(n->box, sizeof(n->box), "%s", box);
	return 0;
}

int hutch_node_start(struct hutch_node *n, const cJSON *request, const char *what, struct err *err)
{
	char path[sizeof("exec/") + NAME_MAX_LEN];
	char sentence[sizeof("start '' in sandbox ''") + 2 * NAME_MAX_LEN];
	int r = ask_for_name(n->box_fd, "exec/new", request, n->name);

	(void)snprintf(sentence, sizeof(sentence), "start '%.*s' in sandbox '%s'", NAME_MAX_LEN,
		       what, n->box);
	if (r < 0)
		return hutch_refused(n->root, -r, sentence, err);
	(void)snprintf(path, sizeof(path), "exec/%s", n->name);
	n->fd = openat(n->box_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (n->fd < 0)
		return err_set(err, errno, "%s: open '%s'", sentence, path);
	if (n->throw_away) /* that is held already */
		return 0;
	n->hold = openat(n->fd, "hold", O_WRONLY | O_CLOEXEC);
	return n->hold < 0 ? hutch_refused(n->root, errno, "hold the command", err) : 0;
}

/* Somebody else, or the end of its hutchd, may have been faster. */
static void remove_dir(int dirfd, const char *path, const char *what)
{
	if (unlinkat(dirfd, path, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ESTALE &&
	    errno != ENOTCONN && errno != ECONNABORTED)
		hutch_warn("remove %s '%s': %s", what, path, strerror(errno));
}

void hutch_node_end(struct hutch_node *n)
{
	char path[sizeof("exec/") + NAME_MAX_LEN];

	close_auto(&n->fd);
	if (*n->name) {
		(void)snprintf(path, sizeof(path), "exec/%s", n->name);
		remove_dir(n->box_fd, path, n->box);
		*n->name = '\0';
	}
	close_auto(&n->hold);
}

void hutch_node_done(struct hutch_node *n)
{
	close_auto(&n->fd);
	if (n->throw_away && *n->box)
		remove_dir(n->root->fd, n->box, "sandbox");
	else
		hutch_node_end(n);
	close_auto(&n->hold);
	close_auto(&n->box_hold);
	close_auto(&n->box_fd);
	*n->box = *n->name = '\0';
}

cJSON *hutch_request_new(const struct hutch_root *root, const char *const *argv, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *request = cJSON_CreateObject();
	cJSON *cmd = cJSON_AddArrayToObject(request, "cmd");

	for (int i = 0; argv[i]; i++) {
		if (!utf8_valid(argv[i], strlen(argv[i]))) {
			(void)err_say(err, EILSEQ,
				      "argument %d of the command is not UTF-8, which a request in "
				      "JSON cannot carry: write it as a script to exec/new in the "
				      "sandbox's directory under %s",
				      i, root->path);
			return NULL;
		}
		if (!cJSON_AddItemToArray(cmd, cJSON_CreateString(argv[i]))) {
			(void)err_set(err, ENOMEM, "the request");
			return NULL;
		}
	}
	return TAKE_PTR(request);
}
