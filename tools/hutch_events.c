/* hutch_events.c - hutch events: what happened, for people
 *
 * `events` of the tree gives the lines that are kept and then its end; with -f we
 * poll for more.  Those of one sandbox are over when it was removed.
 */
#include "tools/hutch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/table.h"

struct events_options {
	struct hutch_common common; /* first */
	bool json, follow;
};

OPTION_FLAG(take_json, struct events_options, json)
OPTION_FLAG(take_follow, struct events_options, follow)

static const struct option_def events_defs[] = {
	{ "follow", 'f', NULL, take_follow, "go on with what happens from now on" },
	{ "json", 'j', NULL, take_json, "the lines of JSON as they are" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_events_options = { "hutch events", events_defs,
						 ARRAY_SIZE(events_defs), false };

static const char *text_of(const cJSON *event, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, key));

	return text ? text : "";
}

/* TIME WHERE EVENT DETAILS: aligned for eyes, with tabs for programs. */
static void print_event(const cJSON *event)
{
	char where[2 * NAME_MAX_LEN + 2];
	const char *exec = text_of(event, "exec"), *reason = text_of(event, "reason"),
		   *why = text_of(event, "why"), *word = text_of(event, "event");
	const cJSON *code = cJSON_GetObjectItemCaseSensitive(event, "code");
	bool terminal = isatty(STDOUT_FILENO);
	auto_buf struct buf line = { 0 };

	(void)snprintf(where, sizeof(where), "%s%s%s", text_of(event, "sandbox"), *exec ? "/" : "",
		       exec);
	printf(terminal ? "%s  %-20s  %s%s%s" : "%s\t%s\t%s%s%s", text_of(event, "time"), where,
	       colour_begin(word), word, colour_end(word));
	if (*reason)
		printf("%s%s%s%s", terminal ? ": " : "\t", colour_begin(reason), reason,
		       colour_end(reason));
	if (cJSON_IsNumber(code))
		printf("%s%d", terminal ? ", code " : "\t", code->valueint);
	if (*why && text_escape(&line, why, strlen(why)) == 0)
		printf("%s%s", terminal ? ": " : "\t", line.data);
	putchar('\n');
}

/* All complete lines of the buffer; *removed: one says that a sandbox was. */
static int print_lines(struct buf *buf, bool json, bool *removed)
{
	char *end;

	while (buf->len && (end = memchr(buf->data, '\n', buf->len))) {
		size_t len = (size_t)(end - buf->data) + 1;
		AUTO(cJSON_Delete) cJSON *event = cJSON_ParseWithLength(buf->data, len);

		*removed |= strcmp(text_of(event, "event"), "removed") == 0;
		if (json)
			(void)fwrite(buf->data, 1, len, stdout);
		else if (event)
			print_event(event);
		buf_consume(buf, len);
	}
	return fflush(stdout) < 0 ? -errno : 0;
}

/* 1: there is more; 0: nobody reads our output any more. */
static int wait_for_more(int fd, struct err *err)
{
	struct pollfd pfd[] = { { .fd = fd, .events = POLLIN }, { .fd = STDOUT_FILENO } };

	while (poll(pfd, ARRAY_SIZE(pfd), -1) < 0)
		if (errno != EINTR)
			return err_set(err, errno, "poll");
	return pfd[1].revents & (POLLERR | POLLHUP | POLLNVAL) ? 0 : 1;
}

static int show(int fd, const struct events_options *opt, bool of_one, struct err *err)
{
	auto_buf struct buf buf = { 0 };
	bool removed = false;
	int r;

	for (;;) {
		ssize_t n;

		if (buf_reserve(&buf, 64 * 1024) < 0)
			return err_set(err, ENOMEM, "a buffer");
		n = read(fd, buf.data + buf.len, 64 * 1024);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0 && (errno == ENOENT || errno == ESTALE)) /* the sandbox was removed */
			return 0;
		if (n < 0)
			return err_set(err, errno, "read the events");
		buf.len += (size_t)n;
		r = print_lines(&buf, opt->json, &removed);
		if (r < 0)
			return err_set(err, -r, "write to standard output");
		if (n > 0)
			continue;
		if (!opt->follow || (of_one && removed))
			return 0;
		r = wait_for_more(fd, err);
		if (r <= 0)
			return r;
	}
}

static int events_open(const struct hutch_root *root, const char *box, struct err *err)
{
	auto_close int box_fd = -1;
	int fd;

	if (box) {
		box_fd = hutch_box_open(root, box, err);
		if (box_fd < 0)
			return box_fd;
	}
	fd = openat(box ? box_fd : root->fd, "events", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "%s%s%s/events", root->path, box ? "/" : "",
				box ? box : "")
		      : fd;
}

int hutch_events(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct events_options opt = { 0 };
	struct hutch_root root;
	auto_close int fd = -1;
	int at = hutch_options(cmd, argc, argv, &opt, err);
	int r = at;

	if (r <= 0)
		return r;
	if (at + 1 < argc)
		return hutch_misused(cmd, err, "it takes one sandbox, or none for all");
	r = hutch_root_open(&root, err);
	if (r < 0)
		return r;
	fd = events_open(&root, at < argc ? argv[at] : NULL, err);
	r = fd < 0 ? fd : show(fd, &opt, at < argc, err);
	if (r == -ENOTCONN || r == -ECONNABORTED)
		r = err_say(err, -r, "the hutchd of %s has died", root.path);
	hutch_root_done(&root);
	return r;
}
