/* hutch_kill.c - hutch kill: ends commands, or signals them */
#include "tools/hutch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

struct kill_options {
	struct hutch_common common; /* first */
	int signal;                 /* 0: kill every process */
};

static int take_signal(void *obj, const char *value, struct err *err)
{
	struct kill_options *opt = obj;

	opt->signal = signal_number(value);
	if (opt->signal <= 0)
		return err_say(err, EINVAL, "'%s': is no signal; TERM, SIGTERM and 15 are", value);
	return 0;
}

static const struct option_def kill_defs[] = {
	{ "signal", 's', "SIGNAL", take_signal, "send this one, to the command's process group" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_kill_options = { "hutch kill", kill_defs, ARRAY_SIZE(kill_defs),
					       false };

/* To one command: 0, also if it ended meanwhile, or a negative errno. */
static int tell(int dirfd, const char *path, int sig)
{
	char ctl[sizeof("exec//ctl") + NAME_MAX_LEN], line[64] = "kill\n";
	const char *name = signal_name(sig);
	int r;

	(void)snprintf(ctl, sizeof(ctl), "%s/ctl", path);
	if (sig && name)
		(void)snprintf(line, sizeof(line), "signal %s\n", name);
	else if (sig)
		(void)snprintf(line, sizeof(line), "signal %d\n", sig);
	r = hutch_write_text(dirfd, ctl, line);
	return r == -ENOENT || r == -ESTALE ? 0 : r;
}

static int signal_all(const struct hutch_target *t, int sig)
{
	struct hutch_names names = { 0 };
	int r = hutch_names_execs(t->box_fd, &names);

	for (size_t i = 0; i < names.n && r == 0; i++) {
		char path[sizeof("exec//status") + NAME_MAX_LEN], status[512];

		(void)snprintf(path, sizeof(path), "exec/%s/status", names.v[i]);
		if (hutch_read_text(t->box_fd, path, status, sizeof(status)) < 0 ||
		    !hutch_status_live(status))
			continue;
		(void)snprintf(path, sizeof(path), "exec/%s", names.v[i]);
		r = tell(t->box_fd, path, sig);
	}
	hutch_names_done(&names);
	return r;
}

static int kill_one(const struct hutch_root *root, const char *word, const void *opt,
		    struct err *err)
{
	int sig = ((const struct kill_options *)opt)->signal;
	struct hutch_target t;
	char what[sizeof("kill ''") + 2 * NAME_MAX_LEN + 1];
	int r = hutch_target_open(root, word, &t, err);

	if (r < 0)
		return r;
	if (sig && !*t.exec)
		r = signal_all(&t, sig);
	else
		r = tell(t.box_fd, t.path, sig);
	(void)snprintf(what, sizeof(what), "kill '%s'", word);
	hutch_target_done(&t);
	return r < 0 ? hutch_refused(root, -r, what, err) : 0;
}

int hutch_kill(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct kill_options opt = { 0 };
	int at = hutch_options(cmd, argc, argv, &opt, err);

	return at <= 0 ? at : hutch_each(cmd, argv + at, kill_one, &opt, err);
}
