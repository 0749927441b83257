/* hutch_cp.c - hutch cp: files and directories into a sandbox and out of it
 *
 * A tar runs inside, by its absolute path, as an ordinary command; its other end is
 * here, in pack.c and unpack.c.  The sandbox may be hostile, and so may be what
 * comes from it: only unpack.c makes anything of it.
 *
 * A signal is looked for before each read and write of the stream, and while it is waited for,
 * so that an interrupted copy removes its half-made file and its command.
 */
#include "tools/hutch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/ev.h"
#include "tools/hutch_node.h"
#include "tools/hutch_relay.h"
#include "tools/pack.h"
#include "tools/unpack.h"

#define TAR           "/usr/bin/tar"
#define COMPLAINTS    10 /* shown; the rest is counted */
#define STDERR_SHOWN  (16 * 1024)
#define BUFFER        (256 * 1024)
#define PROGRESS_WAIT 1000000000LL /* ns until the first line of progress, and between two: */
#define PROGRESS_STEP 200000000LL

struct copy {
	struct hutch_common common; /* first */
	struct hutch_root root;
	struct hutch_node node;
	const char *box_path; /* borrowed */
	int signals;          /* owned */
	int stream;           /* owned: the command's stdout or stdin */
	char *buf;            /* owned, BUFFER bytes between the stream and small pieces of tar: */
	size_t at, len;       /* read: buf[at] to buf[len - 1] are left; to write: the first len */
	int interrupted;      /* the signal; 0: none */
	unsigned complaints;
	int64_t shown_at; /* when progress is shown next; 0: never */
	bool shown;
};

static const struct option_def cp_defs[] = {
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_cp_options = { "hutch cp", cp_defs, ARRAY_SIZE(cp_defs), false };

/* ---- what is seen of it ---- */

static void clear_progress(struct copy *c)
{
	if (c->shown)
		(void)fputs("\r\033[K", stderr);
	c->shown = false;
}

static void tick(void *arg, uint64_t bytes, const char *name)
{
	struct copy *c = arg;
	auto_buf struct buf line = { 0 };
	int64_t now;

	if (!c->shown_at || (now = ev_now()) < c->shown_at)
		return;
	c->shown_at = now + PROGRESS_STEP;
	if (text_escape(&line, name, strnlen(name, 50)) < 0)
		return;
	(void)fprintf(stderr, "\r\033[K%.1f MB  %s", (double)bytes / 1e6,
		      line.data ? line.data : "");
	(void)fflush(stderr);
	c->shown = true;
}

static void complain(void *arg, const struct err *err)
{
	struct copy *c = arg;

	if (++c->complaints > COMPLAINTS)
		return;
	clear_progress(c);
	hutch_warn("cp: %s", err->msg);
}

/* ---- the command inside ---- */

/* Has a signal said that it is enough? Then -EINTR. */
static int look_for_signal(struct copy *c, struct err *err)
{
	struct signalfd_siginfo si;

	if (read(c->signals, &si, sizeof(si)) != sizeof(si))
		return 0;
	c->interrupted = (int)si.ssi_signo;
	return err_say(err, EINTR, "interrupted by %s", signal_name(c->interrupted));
}

/* Until the descriptor is ready, or there is a signal. */
static int await(const struct copy *c, int fd, short events, struct err *err)
{
	struct pollfd pfd[] = { { .fd = fd, .events = events },
				{ .fd = c->signals, .events = POLLIN } };

	while (poll(pfd, ARRAY_SIZE(pfd), -1) < 0)
		if (errno != EINTR)
			return err_set(err, errno, "poll");
	return 0;
}

static ssize_t fill(struct copy *c, char *bytes, size_t len, struct err *err)
{
	int r;

	while ((r = look_for_signal(c, err)) == 0) {
		ssize_t n = read(c->stream, bytes, len);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return err_set(err, errno, "read what tar writes in '%s'", c->node.box);
		r = await(c, c->stream, POLLIN, err);
		if (r < 0)
			break;
	}
	return r;
}

/* A request to hutchd for each header would be most of the time that small files take. */
static ssize_t read_stream(void *arg, char *bytes, size_t len, struct err *err)
{
	struct copy *c = arg;

	if (c->at == c->len) {
		ssize_t n;

		if (len >= BUFFER)
			return fill(c, bytes, len, err);
		n = fill(c, c->buf, BUFFER, err);
		if (n <= 0)
			return n;
		c->at = 0;
		c->len = (size_t)n;
	}
	len = len < c->len - c->at ? len : c->len - c->at;
	memcpy(bytes, c->buf + c->at, len);
	c->at += len;
	return (ssize_t)len;
}

static int drain(struct copy *c, const char *bytes, size_t len, struct err *err)
{
	int r = 0;

	while (len > 0 && (r = look_for_signal(c, err)) == 0) {
		ssize_t n = write(c->stream, bytes, len);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_set(err, errno, "write to tar in '%s'", c->node.box);
		r = await(c, c->stream, POLLOUT, err);
		if (r < 0)
			break;
	}
	return r;
}

static int flush_stream(struct copy *c, struct err *err)
{
	size_t len = c->len;

	c->len = 0;
	return drain(c, c->buf, len, err);
}

static int write_stream(void *arg, const char *bytes, size_t len, struct err *err)
{
	struct copy *c = arg;
	int r = c->len + len > BUFFER ? flush_stream(c, err) : 0;

	if (r < 0 || len >= BUFFER)
		return r < 0 ? r : drain(c, bytes, len, err);
	memcpy(c->buf + c->len, bytes, len);
	c->len += len;
	return 0;
}

static int start(struct copy *c, const char *const *argv, bool input, struct err *err)
{
	AUTO(cJSON_Delete) cJSON *request = hutch_request_new(&c->root, argv, err);
	cJSON *env = cJSON_AddObjectToObject(request, "env");

	if (!request)
		return -err->code;
	/* What the sandbox sets for its commands is not meant for this one. */
	if (!cJSON_AddStringToObject(env, "TAR_OPTIONS", "") ||
	    !cJSON_AddStringToObject(env, "LC_ALL", "C.UTF-8") ||
	    !cJSON_AddNumberToObject(request, "timeout_s", 0) ||
	    !cJSON_AddStringToObject(request, "stdin", input ? "pipe" : "null"))
		return err_set(err, ENOMEM, "the request");
	return hutch_node_start(&c->node, request, argv[0], err);
}

static int open_stream(struct copy *c, const char *name, int flags, struct err *err)
{
	c->at = c->len = 0;
	c->stream = openat(c->node.fd, name, flags | O_NONBLOCK | O_CLOEXEC);
	return c->stream < 0 ? err_set(err, errno, "open '%s'", name) : 0;
}

/* Waits for the result and removes the command. Its exit code, or a negative errno. */
static int finish(struct copy *c, struct buf *said, struct err *err)
{
	auto_close int fd = openat(c->node.fd, "code", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char text[16] = "";
	ssize_t n = -1;
	int r = 0;

	if (fd < 0)
		return err_set(err, errno, "the command in '%s'", c->node.box);
	while (r == 0 && (n = read(fd, text, sizeof(text) - 1)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return err_set(err, errno, "the result of the command in '%s'",
				       c->node.box);
		r = await(c, fd, POLLIN, err);
		if (r == 0)
			r = look_for_signal(c, err);
	}
	if (r == 0 && said) {
		char *shown = malloc(STDERR_SHOWN);

		if (shown && hutch_read_text(c->node.fd, "stderr", shown, STDERR_SHOWN) == 0)
			(void)buf_printf(said, "%s", shown);
		free(shown);
	}
	hutch_node_end(&c->node);
	return r < 0 ? r : (int)strtol(text, NULL, 10);
}

/* What tar said, line by line; it is the sandbox's text. */
static void show_said(struct copy *c, const struct buf *said)
{
	for (char *at = said->len ? said->data : NULL; at && *at;) {
		size_t len = strcspn(at, "\n");
		auto_buf struct buf line = { 0 };

		if (len > 0 && text_escape(&line, at, len) == 0) {
			struct err err = { 0 };

			(void)err_say(&err, EIO, "in '%s': %s", c->node.box, line.data);
			complain(c, &err);
		}
		at += len + (at[len] == '\n');
	}
}

/* What comes after the stream, which went as `r` says: -ENODATA and -EPIPE, tar ended early. */
static int settle(struct copy *c, int r, unsigned failed, struct err *err)
{
	bool early = r == -ENODATA || r == -EPIPE;
	auto_buf struct buf said = { 0 };
	int code;

	close_auto(&c->stream);
	if (r < 0 && !early)
		return r;
	code = finish(c, &said, early ? NULL : err);
	clear_progress(c);
	show_said(c, &said);
	if (c->complaints > COMPLAINTS)
		hutch_warn("cp: and %u more of these", c->complaints - COMPLAINTS);
	if (early && (code <= 0 || !said.len))
		return r;
	if (code < 0)
		return code;
	if (code > 0)
		return err_say(err, EIO, "not all was copied: tar in '%s' ended with %d",
			       c->node.box, code);
	return failed == 0 ? 0
			   : err_say(err, EIO, "not all was copied: %u file%s could not be", failed,
				     failed == 1 ? "" : "s");
}

/* ---- paths ---- */

/* A path as cp(1) understands it: what is copied, or where to, is NAME in DIR. */
struct place {
	char *dir, *name;
	bool slash;    /* it ends in one: must be a directory, and a link is followed */
	bool contents; /* it ends in "." or "..", or is the root: there is no name */
};

static void place_done(struct place *p)
{
	free(p->dir);
	free(p->name);
}

static int place_init(struct place *p, const char *path, struct err *err)
{
	size_t len = strlen(path), start;

	*p = (struct place){ .slash = len > 0 && path[len - 1] == '/' };
	while (len > 0 && path[len - 1] == '/')
		len--;
	start = len;
	while (start > 0 && path[start - 1] != '/')
		start--;
	p->name = strndup(path + start, len - start);
	if (!p->name)
		return err_set(err, ENOMEM, "'%s'", path);
	p->contents = !*p->name || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0;
	if (p->contents)
		p->dir = strdup(*path ? path : ".");
	else
		p->dir = start > 0 ? strndup(path, start) : strdup(".");
	return p->dir ? 0 : err_set(err, ENOMEM, "'%s'", path);
}

/* ---- out of a sandbox ---- */

/* Where it goes: a directory, and the name in it (NULL: into the directory itself). 1: only a
 * directory can go there. */
static int find_target(const char *dst, const struct place *src, int *ret_dir, char **ret_name,
		       struct err *err)
{
	auto_free char *real = NULL;
	struct place to;
	struct stat st;
	bool there = stat(dst, &st) == 0;
	int r;

	if (there && S_ISDIR(st.st_mode)) {
		*ret_dir = open(dst, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		*ret_name = src->contents ? NULL : strdup(src->name);
		return *ret_dir < 0 ? err_set(err, errno, "'%s'", dst) : 0;
	}
	if (there && S_ISREG(st.st_mode)) /* through a link that is the user's own */
		real = realpath(dst, NULL);
	r = place_init(&to, real ? real : dst, err);
	if (r == 0 && there && (!S_ISREG(st.st_mode) || to.slash))
		r = err_say(err, EINVAL, "'%s': is %s", dst,
			    to.slash ? "no directory" : "neither a file nor a directory");
	else if (r == 0 && (to.contents || !to.dir))
		r = err_set(err, ENOENT, "'%s'", dst);
	if (r == 0) {
		*ret_dir = open(to.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		*ret_name = TAKE_PTR(to.name);
		r = *ret_dir < 0 ? err_set(err, errno, "'%s'", to.dir) : to.slash;
	}
	place_done(&to);
	return r;
}

static int receive(struct copy *c, struct unpack *unpack, struct err *err)
{
	struct tar_reader tar;
	int r;

	tar_reader_init(&tar, read_stream, c);
	r = unpack_run(unpack, &tar, err);
	tar_reader_done(&tar);
	return r;
}

static int copy_out(struct copy *c, const char *dst, struct err *err)
{
	struct unpack unpack = { .complain = complain, .tick = tick, .arg = c };
	struct place src;
	auto_free char *name = NULL;
	auto_close int dir = -1;
	int r = place_init(&src, c->box_path, err);

	if (r == 0)
		r = find_target(dst, &src, &dir, &name, err);
	if (r >= 0) {
		/* What it holds, under no name of its own: with a slash, what a link points to. */
		bool held = src.contents || src.slash || r > 0;
		const char *whole = *c->box_path ? c->box_path : ".";
		const char *argv[] = { TAR,
				       "-c",
				       "--format=posix",
				       "-f",
				       "-",
				       "-C",
				       held ? whole : src.dir,
				       "--",
				       held ? "." : src.name,
				       NULL };

		unpack.root = dir;
		unpack.from = held ? NULL : src.name;
		unpack.to = name;
		r = start(c, argv, false, err);
		if (r == 0)
			r = open_stream(c, "stdout", O_RDONLY, err);
		if (r == 0) {
			r = receive(c, &unpack, err);
			r = settle(c, r, unpack.failed, err);
		}
	}
	place_done(&src);
	return r;
}

/* ---- into a sandbox ---- */

/* 1: there is a directory of that name inside, 0: there is none. */
static int is_dir_inside(struct copy *c, const char *path, struct err *err)
{
	const char *const argv[] = { "/usr/bin/test", "-d", path, NULL };
	int r = start(c, argv, false, err);

	if (r == 0)
		r = finish(c, NULL, err);
	if (r < 0 || r > 1)
		return r < 0 ? r
			     : err_say(err, EIO, "'test' in '%s' ended with %d", c->node.box, r);
	return r == 0;
}

static int send(struct copy *c, struct pack *pack, const char *path, const char *name,
		struct err *err)
{
	int r = open_stream(c, "stdin", O_WRONLY | O_TRUNC, err);

	if (r == 0)
		r = pack_run(pack, path, name, err);
	if (r == 0)
		r = flush_stream(c, err);
	return settle(c, r, pack->failed, err);
}

/* Existing directories keep their modes, and links to them are gone through, so that a copy to "/"
 * does not replace /bin. */
static int unpack_inside(struct copy *c, const char *dir, const char *path, const char *name,
			 struct err *err)
{
	const char *const argv[] = { TAR,
				     "-x",
				     "-p",
				     "--no-same-owner",
				     "--no-overwrite-dir",
				     "--keep-directory-symlink",
				     "--warning=no-timestamp",
				     "-f",
				     "-",
				     "-C",
				     dir,
				     NULL };
	struct pack pack = { .out = { .write = write_stream, .arg = c },
			     .complain = complain,
			     .tick = tick,
			     .arg = c };
	int r = start(c, argv, true, err);

	return r == 0 ? send(c, &pack, path, name, err) : r;
}

static int copy_in(struct copy *c, const char *src_path, struct err *err)
{
	const char *dst = *c->box_path ? c->box_path : ".";
	struct place src = { 0 }, to = { 0 };
	auto_free char *walk = NULL;
	struct stat st;
	int r;

	if (lstat(src_path, &st) < 0)
		return err_set(err, errno, "'%s'", src_path);
	r = place_init(&src, src_path, err);
	if (r == 0)
		r = place_init(&to, dst, err);
	if (r == 0 && asprintf(&walk, "%s%s", src_path, src.slash ? "." : "") < 0)
		r = err_set(err, ENOMEM, "'%s'", src_path);
	if (r == 0)
		r = is_dir_inside(c, dst, err);
	if (r > 0)
		r = unpack_inside(c, dst, walk, src.contents ? "." : src.name, err);
	else if (r == 0 && (to.contents || (to.slash && !S_ISDIR(st.st_mode))))
		r = err_say(err, ENOENT, "'%s:%s': there is no such directory", c->node.box, dst);
	else if (r == 0)
		r = unpack_inside(c, to.dir, walk, to.name, err);
	place_done(&src);
	place_done(&to);
	return r;
}

/* ---- the command line ---- */

/* BOX:PATH, as for scp: a colon with no slash in front. NULL: a file of this machine. */
static const char *path_inside(const char *word)
{
	size_t len = strcspn(word, ":/");

	return len > 0 && word[len] == ':' ? word + len + 1 : NULL;
}

static int copy(struct copy *c, const char *src, const char *dst, struct err *err)
{
	const char *inside = path_inside(src);
	const char *word = inside ? src : dst;
	char box[NAME_MAX_LEN + 1];
	int r;

	c->box_path = inside ? inside : path_inside(dst);
	if ((size_t)(c->box_path - word) > sizeof(box))
		return err_say(err, EINVAL, "'%s': no sandbox has so long a name", word);
	(void)snprintf(box, sizeof(box), "%.*s", (int)(c->box_path - word - 1), word);
	c->signals = relay_signals(false, err);
	if (c->signals < 0)
		return c->signals;
	r = hutch_node_enter_box(&c->node, box, err);
	if (r < 0)
		return r;
	r = inside ? copy_out(c, dst, err) : copy_in(c, src, err);
	clear_progress(c);
	close_auto(&c->stream);
	hutch_node_done(&c->node);
	return r;
}

int hutch_cp(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct copy c = { .signals = -1, .stream = -1 };
	int at = hutch_options(cmd, argc, argv, &c, err);
	int r = at;

	if (r <= 0)
		return r;
	if (at + 2 != argc)
		return hutch_misused(cmd, err, "it takes two names, from where and to where");
	if (!path_inside(argv[at]) == !path_inside(argv[at + 1]))
		return hutch_misused(
			cmd, err,
			"one of the two is BOX:PATH, and the other a file here; a file "
			"here with a colon in its name is ./NAME");
	r = hutch_root_open(&c.root, err);
	if (r < 0)
		return r;
	c.node = (struct hutch_node)HUTCH_NODE_INIT(&c.root);
	c.buf = malloc(BUFFER);
	if (!c.buf)
		r = err_set(err, ENOMEM, "a buffer of %d bytes", BUFFER);
	c.shown_at = isatty(STDERR_FILENO) ? ev_now() + PROGRESS_WAIT : 0;
	if (r == 0)
		r = copy(&c, argv[at], argv[at + 1], err);
	free(TAKE_PTR(c.buf));
	close_auto(&c.signals);
	hutch_root_done(&c.root);
	if (!c.interrupted)
		return r < 0 ? err_wrap(err, r, "cp") : r;
	hutch_warn("cp: %s", err->msg);
	return hutch_end_by_signal(c.interrupted);
}
