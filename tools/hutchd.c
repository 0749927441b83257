/* hutchd.c - main() of the daemon: options, the order of beginning and ending
 *
 * Until it is ready everything may fail, with one line on stderr and exit 1.  From
 * then on it ends by SIGTERM, SIGINT, SIGHUP (its terminal is gone; not under nohup), or when
 * somebody unmounts the tree.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/ev.h"
#include "base/file.h"
#include "fs/fuse.h"
#include "fs/tree.h"
#include "sandbox/sandbox.h"
#include "tools/config.h"
#include "tools/daemonize.h"
#include "tools/mountpoint.h"
#include "tools/options.h"
#include "tools/place.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

struct app {
	/* from the command line; borrowed */
	const char *state_dir, *config_file;
	bool foreground, help, version;

	bool to_syslog;
	struct config config;
	struct daemonize daemonize;
	struct mountpoint mountpoint;
	struct ev_loop loop;
	bool loop_ready, tree_ready;
	struct ev_source signals;
	int agent_fd;
	struct engine *engine;
	struct tree tree;
	struct fuse_server *fuse;
};

static struct app app = {
	.agent_fd = -1, .daemonize.report = -1, .signals.fd = -1, .mountpoint.lock = -1
};

static void log_line(int priority, const char *line)
{
	if (app.to_syslog)
		syslog(priority, "%s", line);
	else
		(void)fprintf(stderr, "hutchd: %s\n", line);
}

/* Options */

static int take_state_dir(void *obj, const char *value, struct err *err)
{
	(void)err;
	((struct app *)obj)->state_dir = value;
	return 0;
}

static int take_config(void *obj, const char *value, struct err *err)
{
	(void)err;
	((struct app *)obj)->config_file = value;
	return 0;
}

static int take_9p(void *obj, const char *value, struct err *err)
{
	(void)obj;
	if (strcmp(value, "none") == 0)
		return 0;
	return err_say(err, ENOTSUP, "this version does not serve 9P yet; only 'none' is accepted");
}

static int take_no_mount(void *obj, const char *value, struct err *err)
{
	(void)obj;
	(void)value;
	return err_say(err, ENOTSUP,
		       "this version does not serve 9P yet, so without a mount nothing is left");
}

OPTION_FLAG(take_foreground, struct app, foreground)
OPTION_FLAG(take_help, struct app, help)
OPTION_FLAG(take_version, struct app, version)

static const struct option_def option_defs[] = {
	{ "state-dir", 0, "DIR", take_state_dir, "where sandboxes are kept" },
	{ "config", 0, "FILE", take_config, "the configuration, JSON" },
	{ "9p", 0, "ADDRESS", take_9p, "'none'; this version does not serve 9P yet" },
	{ "no-mount", 0, NULL, take_no_mount, NULL },
	{ "foreground", 0, NULL, take_foreground, "stay in the foreground, log to stderr" },
	{ "help", 'h', NULL, take_help, "show this help" },
	{ "version", 0, NULL, take_version, "show the version" },
};
static const struct option_set options = { "hutchd", option_defs, ARRAY_SIZE(option_defs), false };

static int print_help(void)
{
	(void)printf("usage: hutchd [OPTION...] [MOUNTPOINT]\n"
		     "Gives every sandbox a directory below MOUNTPOINT.\n\n");
	options_help(&options, stdout);
	return fflush(stdout) == 0 ? 0 : 1;
}

/* ~/.local/state need not be there yet. */
static void make_parents(const char *path)
{
	auto_free char *copy = strdup(path);

	if (!copy)
		return;
	for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(copy, 0700); /* what fails here fails again, with a sentence, later */
		*p = '/';
	}
}

/* The default place may be empty; a file that was asked for must be there. */
static int read_config(struct app *a, struct err *err)
{
	auto_free char *path = NULL;
	struct err why = { 0 };
	int r = place_find(&place_config, a->config_file, &path, &why);

	if (r < 0 && !a->config_file)
		return 0; /* a user without a home has no place for it */
	if (r == 0)
		r = config_read(&a->config, path, &why);
	if (r == -ENOENT && !a->config_file)
		return 0;
	return r < 0 ? err_say(err, -r, "%s", why.msg) : 0;
}

/* The agent */

static int open_agent(struct err *err)
{
	static const char agent[] = "hutch-agent";
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(agent));
	char *slash;
	int fd = -1;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		memcpy(slash ? slash + 1 : path, agent, sizeof(agent));
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		fd = open(HUTCH_LIBEXECDIR "/hutch-agent", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "hutch-agent is neither next to hutchd nor in %s",
			       HUTCH_LIBEXECDIR);
	return fd;
}

/* A sealed copy: an upgrade, or a mistake, cannot change what the next sandbox begins with. */
static int load_agent(int *ret, struct err *err)
{
	auto_close int from = open_agent(err), to = -1;
	off_t done = 0;
	struct stat st;

	if (from < 0)
		return from;
	to = memfd_create("hutch-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (to < 0 && errno == EINVAL)
		to = memfd_create("hutch-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (to < 0 || fstat(from, &st) < 0)
		return err_set(err, errno, "load hutch-agent");
	while (done < st.st_size) {
		ssize_t n = sendfile(to, from, &done, (size_t)(st.st_size - done));

		if (n <= 0)
			return err_set(err, n < 0 ? errno : EIO, "load hutch-agent");
	}
	if (fchmod(to, 0555) < 0 ||
	    fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_set(err, errno, "seal hutch-agent");
	*ret = TAKE_FD(to);
	return 0;
}

/* The process */

static void on_signal(struct ev_source *src, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	while (read(src->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		app.loop.stop = true;
}

static int watch_signals(struct app *a, struct err *err)
{
	struct sigaction hangup;
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		(void)sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_set(err, errno, "block signals");
	a->signals = (struct ev_source){ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
					 .ready = on_signal };
	if (a->signals.fd < 0)
		return err_set(err, errno, "watch signals");
	r = ev_add(&a->loop, &a->signals, EPOLLIN);
	return r < 0 ? err_set(err, -r, "watch signals") : 0;
}

static void settle_process(void)
{
	struct rlimit files;

	(void)signal(SIGPIPE, SIG_IGN);
	/* A spool may grow beyond `ulimit -f`, which is an error like others. */
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)umask(022);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* From now on 0, 1 and 2 are not given to anything else, and nothing of whoever started us is kept
 * open for as long as we run. */
static int settle_descriptors(struct err *err)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR); /* the lowest that is free */
	while (fd >= 0 && fd <= 2);
	if (fd < 0)
		return err_set(err, errno, "open '/dev/null'");
	(void)close(fd);
	/* Older kernels keep them, as every program did. */
	(void)close_range(3, ~0U, 0);
	return 0;
}

static void warn_lacks(const struct engine *eng)
{
	const char *lacks = engine_lacks(eng);
	char line[ERR_MSG_MAX + 200];

	if (!engine_has_holes(eng))
		log_line(
			LOG_WARNING,
			"the file system of the state directory gives no part of a file back: "
			"output "
			"over its output_limit takes disk, and counts for limits.output, until its "
			"command is removed");
	if (!lacks)
		return;
	(void)snprintf(line, sizeof(line),
		       "no control groups (%s): a kill or a timeout reaches a command's process "
		       "group only, and what left that lives until its sandbox ends",
		       lacks);
	log_line(LOG_WARNING, line);
}

static void warn_timeout(void)
{
	unsigned seconds = fuse_request_timeout();
	char line[200];

	if (!seconds)
		return;
	(void)snprintf(
		line, sizeof(line),
		"this machine's fs.fuse.*_request_timeout is %u s: a reader that waits longer "
		"ends the whole mount; set default_request_timeout and max_request_timeout to 0",
		seconds);
	log_line(LOG_WARNING, line);
}

/* Does fusermount3 let a user's mount be seen by others? */
static bool others_may_come(void)
{
	auto_buf struct buf text = { .max = 65536 };

	if (geteuid() == 0)
		return true;
	if (file_read(AT_FDCWD, "/etc/fuse.conf", &text, NULL) < 0 || !text.len)
		return false;
	for (const char *line = text.data; line; line = strchr(line, '\n')) {
		line += strspn(line, " \t\n");
		if (strncmp(line, "user_allow_other", strlen("user_allow_other")) == 0)
			return true;
	}
	return false;
}

static void on_unmounted(void *arg)
{
	struct app *a = arg;

	log_line(LOG_NOTICE, "unmounted by somebody else; ending");
	a->loop.stop = true;
}

static void on_notice(const char *line)
{
	log_line(LOG_NOTICE, line);
}

static int start_engine(struct app *a, const char *state, struct err *err)
{
	struct engine_config config = { .loop = &a->loop };
	int r = load_agent(&a->agent_fd, err);

	if (r < 0)
		return r;
	if (!a->state_dir && geteuid() != 0)
		make_parents(state);
	config.state_dir = state;
	config.agent_fd = a->agent_fd;
	config.notice = on_notice;
	config.cgroup = a->config.cgroup;
	config.id_tag = *a->config.id_tag ? a->config.id_tag : NULL;
	config.limits = a->config.limits;
	config.mounts_allowed = (const char *const *)a->config.mounts;
	return engine_new(&a->engine, &config, err);
}

static int start_tree(struct app *a, struct err *err)
{
	struct fuse_server_config config = {
		.tree = &a->tree,
		.mountpoint = a->mountpoint.path,
		.allow_other = others_may_come(),
		.ended = on_unmounted,
		.arg = a,
	};

	tree_init(&a->tree, a->engine, &a->loop);
	a->tree_ready = true;
	a->tree.version = HUTCH_VERSION;
	a->tree.log = log_line;
	a->tree.root_mode = a->config.root_mode;
	if (a->config.root_gid != (gid_t)-1)
		a->tree.gid = a->config.root_gid;
	users_limit(&a->tree.users, &a->config.open);
	return fuse_server_new(&a->fuse, &config, err);
}

/* In this order: what costs nothing and is the user's mistake fails first. */
static int start(struct app *a, const char *given_mountpoint, struct err *err)
{
	auto_free char *place = NULL, *state = NULL;
	int r;

	r = read_config(a, err);
	if (r == 0)
		r = place_find(&place_mount, given_mountpoint, &place, err);
	if (r == 0)
		r = place_find(&place_state, a->state_dir, &state, err);
	if (r == 0)
		r = mountpoint_prepare(&a->mountpoint, place, state, err);
	if (r != 0)
		return r;
	settle_process();
	r = ev_init(&a->loop, err);
	if (r < 0)
		return r;
	a->loop_ready = true;
	r = watch_signals(a, err);
	if (r == 0)
		r = start_engine(a, state, err);
	if (r == 0)
		r = start_tree(a, err);
	return r;
}

static void finish(struct app *a)
{
	fuse_server_free(a->fuse);
	if (a->tree_ready)
		tree_done(&a->tree);
	if (a->engine)
		engine_free(a->engine);
	if (a->loop_ready)
		ev_del(&a->loop, &a->signals);
	close_auto(&a->signals.fd);
	close_auto(&a->agent_fd);
	if (a->loop_ready)
		ev_done(&a->loop);
	mountpoint_done(&a->mountpoint);
	config_done(&a->config);
}

static int serve(struct app *a, const char *mountpoint)
{
	struct err err = { 0 };
	int r = 0;

	if (!a->foreground)
		r = daemonize_begin(&a->daemonize, "hutchd", &err);
	if (r == 0)
		r = start(a, mountpoint, &err);
	if (r == 0) {
		if (!a->foreground) {
			openlog("hutchd", LOG_PID, LOG_DAEMON);
			a->to_syslog = true;
			if (chdir("/") < 0)
				log_line(LOG_WARNING,
					 "stays in the directory that it was started in");
		}
		warn_timeout();
		warn_lacks(a->engine);
		daemonize_ready(&a->daemonize);
		r = ev_run(&a->loop);
		if (r < 0)
			log_line(LOG_ERR, strerror(-r));
	} else if (a->daemonize.report < 0) {
		log_line(LOG_ERR, err.msg);
	}
	finish(a);
	if (err.code)
		daemonize_failed(&a->daemonize, &err);
	return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	int r = settle_descriptors(&err);

	config_init(&app.config);
	if (r == 0)
		r = options_parse(&options, argc, argv, &app, &err);
	if (r >= 0 && argc - r > 1)
		r = err_say(&err, EINVAL, "one mount point, not %d (try 'hutchd --help')",
			    argc - r);
	if (r < 0) {
		(void)fprintf(stderr, "hutchd: %s\n", err.msg);
		return 1;
	}
	if (app.help)
		return print_help();
	if (app.version)
		return printf("hutchd %s\n", HUTCH_VERSION) > 0 ? 0 : 1;
	return serve(&app, r < argc ? argv[r] : NULL);
}
