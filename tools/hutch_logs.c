/* hutch_logs.c - hutch logs: what a command wrote, each stream to the one of that name */
#include "tools/hutch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"

#define PIECE (256 * 1024)

struct logs_options {
	struct hutch_common common; /* first */
	bool follow;
};

OPTION_FLAG(take_follow, struct logs_options, follow)

static const struct option_def logs_defs[] = {
	{ "follow", 'f', NULL, take_follow, "go on until both streams have ended" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_logs_options = { "hutch logs", logs_defs, ARRAY_SIZE(logs_defs),
					       false };

enum { OUT, ERR, STREAMS };

static const char *const stream_name[STREAMS] = { "stdout", "stderr" };

struct logs {
	int fd[STREAMS];     /* owned, non-blocking; -1: at its end */
	off_t left[STREAMS]; /* that it has now; what comes meanwhile is for who follows */
	char *piece;         /* owned */
};

static int say_read(int code, const char *name, struct err *err)
{
	if (code == ENOENT || code == ESTALE)
		return err_say(err, code, "it was removed");
	if (code == EIO)
		return err_say(
			err, code,
			"'%s' cannot be read from its beginning: what was read is given back to "
			"the disk when more than output_limit comes, see hutch(5), STREAMS",
			name);
	return err_set(err, code, "read '%s'", name);
}

/* Writes what is there, or of it what `left` has. 0, or a negative errno. */
static int pass_on(struct logs *l, int i, bool following, struct err *err)
{
	while (following || l->left[i] > 0) {
		size_t want = following || l->left[i] > PIECE ? PIECE : (size_t)l->left[i];
		ssize_t n = read(l->fd[i], l->piece, want);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return say_read(errno, stream_name[i], err);
		if (n == 0) {
			close_auto(&l->fd[i]);
			return 0;
		}
		r = write_all(STDOUT_FILENO + i, l->piece, (size_t)n);
		if (r < 0)
			return err_set(err, -r, "write to standard %s",
				       i == OUT ? "output" : "error");
		l->left[i] -= n;
	}
	return 0;
}

/* poll() does not see our output's reader go away while nothing comes; so it is asked for too. */
static int follow(struct logs *l, struct err *err)
{
	int r = 0;

	while (r == 0 && (l->fd[OUT] >= 0 || l->fd[ERR] >= 0)) {
		struct pollfd pfd[] = { { .fd = l->fd[OUT], .events = POLLIN },
					{ .fd = l->fd[ERR], .events = POLLIN },
					{ .fd = STDOUT_FILENO } };

		if (poll(pfd, ARRAY_SIZE(pfd), -1) < 0) {
			if (errno == EINTR)
				continue;
			return err_set(err, errno, "poll");
		}
		if (pfd[2].revents & POLLERR)
			return hutch_end_by_signal(SIGPIPE);
		for (int i = 0; i < STREAMS && r == 0; i++)
			if (pfd[i].revents)
				r = pass_on(l, i, true, err);
	}
	return r;
}

static int show(const struct hutch_target *t, bool following, struct err *err)
{
	struct logs l = { .fd = { -1, -1 }, .piece = malloc(PIECE) };
	int r = l.piece ? 0 : err_set(err, ENOMEM, "a buffer of %d bytes", PIECE);

	for (int i = 0; i < STREAMS && r == 0; i++) {
		char path[sizeof("exec//stdout") + NAME_MAX_LEN];
		struct stat st;

		(void)snprintf(path, sizeof(path), "%s/%s", t->path, stream_name[i]);
		l.fd[i] = openat(t->box_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (l.fd[i] < 0 || fstat(l.fd[i], &st) < 0)
			r = err_set(err, errno, "open '%s'", stream_name[i]);
		else
			l.left[i] = st.st_size;
	}
	for (int i = 0; i < STREAMS && r == 0; i++)
		r = pass_on(&l, i, following, err);
	if (r == -EIO && l.fd[ERR] >= 0) /* of stdout: that is no reason to keep stderr back */
		(void)pass_on(&l, ERR, false, NULL);
	if (r == 0 && following)
		r = follow(&l, err);
	close_auto(&l.fd[OUT]);
	close_auto(&l.fd[ERR]);
	free(l.piece);
	return r;
}

int hutch_logs(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct logs_options opt = { 0 };
	struct hutch_root root;
	struct hutch_target t;
	char word[2 * NAME_MAX_LEN + 2];
	int at = hutch_options(cmd, argc, argv, &opt, err);
	int r = at;

	if (r <= 0)
		return r;
	if (at + 1 != argc)
		return hutch_misused(cmd, err, "it takes one sandbox or command");
	r = hutch_root_open(&root, err);
	if (r < 0)
		return r;
	(void)snprintf(word, sizeof(word), "%s%s", argv[at], strchr(argv[at], '/') ? "" : "/last");
	r = hutch_target_open(&root, word, &t, err);
	if (r == 0) {
		r = show(&t, opt.follow, err);
		if (r == -ENOTCONN || r == -ECONNABORTED)
			r = err_say(err, -r, "the hutchd of %s has died", root.path);
		else if (r < 0)
			r = err_wrap(err, r, "logs of '%s/%s'", t.box, t.exec);
		hutch_target_done(&t);
	}
	hutch_root_done(&root);
	return r;
}
